/* A folder of checkpoints: lists them, finds the latest intact one, and removes old ones. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <koine/checkpoint.h>

#include "models/models_private.h"

#define STEP_BEGIN "step-"
#define ENDING ".safetensors"
#define BEST_NAME "best" ENDING
#define DAMAGED ".damaged"

struct kn_checkpoints {
    kn_host host;
    kn_error error;
    kn_status status; /* KN_OK if the folder can be used */
    char *folder;
    uint64_t keep;
    uint64_t *steps; /* in ascending order */
    size_t count, capacity;
    kn_arena paths; /* paths returned by the last call */
};

KN_DEFINE_INIT(kn_checkpoints_params, KN_CHECKPOINTS_DEFAULTS)

/* ---- the folder ---------------------------------------------------------------------------------------- */

static char *path_of_name(kn_checkpoints *checkpoints, const char *name) {
    char *path = name ? kn_path_join(&checkpoints->paths, checkpoints->folder, name) : NULL;
    if (!path) kn_fail_memory(&checkpoints->error, strlen(checkpoints->folder));
    return path;
}

static char *path_of_step(kn_checkpoints *checkpoints, uint64_t step) {
    return path_of_name(checkpoints,
                        kn_arena_format(&checkpoints->paths, STEP_BEGIN "%012" PRIu64 ENDING, step));
}

/* Parses a name written by path_of_step. */
static bool step_of_name(const char *name, uint64_t *step) {
    const size_t begin = strlen(STEP_BEGIN), length = strlen(name), ending = strlen(ENDING);
    if (length < begin + 12 + ending || length > begin + 19 + ending || strncmp(name, STEP_BEGIN, begin) ||
        strcmp(name + length - ending, ENDING))
        return false;
    *step = 0;
    for (size_t i = begin; i < length - ending; i++) {
        if (name[i] < '0' || name[i] > '9') return false;
        *step = *step * 10 + (uint64_t)(name[i] - '0');
    }
    return true;
}

static kn_status add_step(kn_checkpoints *checkpoints, uint64_t step) {
    size_t index = checkpoints->count;
    while (index > 0 && checkpoints->steps[index - 1] > step)
        index--;
    if (index > 0 && checkpoints->steps[index - 1] == step) return KN_OK;
    void *steps = checkpoints->steps;
    if (!kn_reserve(&checkpoints->host, &steps, &checkpoints->capacity, checkpoints->count + 1, sizeof step))
        return kn_fail_memory(&checkpoints->error, sizeof step);
    checkpoints->steps = steps;
    memmove(checkpoints->steps + index + 1, checkpoints->steps + index,
            (checkpoints->count - index) * sizeof step);
    checkpoints->steps[index] = step;
    checkpoints->count++;
    return KN_OK;
}

static kn_status list(kn_checkpoints *checkpoints) {
    char **names;
    size_t count;
    kn_status status =
        kn_folder_list(&checkpoints->paths, checkpoints->folder, &names, &count, &checkpoints->error);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        uint64_t step;
        if (step_of_name(names[i], &step)) status = add_step(checkpoints, step);
    }
    return status;
}

/* Tries to write a file, so that a failure is reported before training begins, not hours later. */
static kn_status try_writing(kn_checkpoints *checkpoints) {
    kn_file_writer *writer;
    const char *path = path_of_name(checkpoints, BEST_NAME);
    if (!path) return checkpoints->error.status;
    kn_status status = kn_file_writer_open(&checkpoints->host, path, &writer, &checkpoints->error);
    if (status == KN_OK) kn_file_writer_abandon(&writer);
    return status;
}

static kn_status start(kn_checkpoints *checkpoints, const char *folder) {
    if (!folder || !*folder)
        return kn_fail(&checkpoints->error, KN_ERROR_ARGUMENT, "the name of the checkpoint folder is empty");
    checkpoints->folder = kn_copy_text(&checkpoints->host, folder);
    if (!checkpoints->folder) return kn_fail_memory(&checkpoints->error, strlen(folder) + 1);
    kn_status status = kn_folder_make(&checkpoints->host, folder, &checkpoints->error);
    if (status == KN_OK) status = try_writing(checkpoints);
    if (status == KN_OK) kn_folder_sweep(folder, 0);
    return status == KN_OK ? list(checkpoints) : status;
}

kn_checkpoints *kn_checkpoints_open(const char *folder, const kn_checkpoints_params *params) {
    kn_checkpoints_params given = KN_CHECKPOINTS_DEFAULTS;
    kn_error error = {0};
    KN_PARAMS_TAKE(kn_checkpoints_params, &given, params, &error);
    kn_host host = kn_host_defaults();
    if (given.allocator.resize) host.allocator = given.allocator;
    if (given.log.write) host.log = given.log;
    kn_checkpoints *checkpoints = kn_allocate(&host, 1, sizeof *checkpoints);
    if (!checkpoints) return NULL;
    checkpoints->host = host;
    checkpoints->keep = given.keep;
    kn_arena_init(&checkpoints->paths, &checkpoints->host);
    checkpoints->error = error;
    checkpoints->status = error.status == KN_OK ? start(checkpoints, folder) : error.status;
    return checkpoints;
}

void kn_checkpoints_destroy(kn_checkpoints **checkpoints) {
    if (!checkpoints || !*checkpoints) return;
    kn_checkpoints *old = *checkpoints;
    kn_host host = old->host;
    kn_arena_finish(&old->paths);
    kn_release(&host, old->folder);
    kn_release(&host, old->steps);
    kn_release(&host, old);
    *checkpoints = NULL;
}

kn_status kn_checkpoints_status(const kn_checkpoints *checkpoints) {
    return checkpoints ? checkpoints->status : KN_ERROR_MEMORY;
}

const char *kn_checkpoints_error(const kn_checkpoints *checkpoints) {
    return checkpoints ? checkpoints->error.text : "out of host memory";
}

size_t kn_checkpoints_count(const kn_checkpoints *checkpoints) {
    return checkpoints ? checkpoints->count : 0;
}

/* Starts a call: clears the last error, unless the folder is unusable. */
static kn_status begin(kn_checkpoints *checkpoints) {
    if (kn_checkpoints_status(checkpoints) != KN_OK) return kn_checkpoints_status(checkpoints);
    kn_error_clear(&checkpoints->error);
    kn_arena_finish(&checkpoints->paths);
    kn_arena_init(&checkpoints->paths, &checkpoints->host);
    return KN_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Reads the whole file to detect damage; the error reports what is wrong. */
static bool is_intact(kn_checkpoints *checkpoints, const char *path) {
    kn_safetensors file;
    kn_error *error = &checkpoints->error;
    if (kn_safetensors_open(&checkpoints->host, path, &file, error) != KN_OK) return false;
    bool signed_for = kn_safetensors_metadata(&file, KN_SAFETENSORS_CHECKSUM) != NULL;
    kn_status status = signed_for ? kn_safetensors_check(&file, path, error)
                                  : kn_fail(error, KN_ERROR_FORMAT,
                                            "%s: has no checksum, so it is not a complete checkpoint", path);
    kn_safetensors_close(&checkpoints->host, &file);
    return status == KN_OK;
}

/* Renames a damaged checkpoint, so that its name is free and the file can be examined. */
static void rename_damaged(kn_checkpoints *checkpoints, const char *path) {
    const char *aside = kn_arena_format(&checkpoints->paths, "%s" DAMAGED, path);
    /* A file that could not be read may be intact. */
    bool damaged = checkpoints->error.status != KN_ERROR_FILE,
         moved = damaged && aside && kn_file_rename(path, aside, NULL) == KN_OK;
    kn_log_write(&checkpoints->host, KN_LOG_WARNING, "skipped a damaged checkpoint%s: %s",
                 moved ? " (renamed to end in " DAMAGED ")" : "", checkpoints->error.text);
}

static const char *best(kn_checkpoints *checkpoints) {
    const char *path = path_of_name(checkpoints, BEST_NAME);
    if (!path || !kn_path_exists(path)) return NULL;
    if (is_intact(checkpoints, path)) return path;
    if (checkpoints->error.status != KN_ERROR_MEMORY) rename_damaged(checkpoints, path);
    return NULL;
}

const char *kn_checkpoints_newest(kn_checkpoints *checkpoints) {
    if (begin(checkpoints) != KN_OK) return NULL;
    while (checkpoints->count > 0) {
        const char *path = path_of_step(checkpoints, checkpoints->steps[checkpoints->count - 1]);
        if (!path || is_intact(checkpoints, path)) return path;
        if (checkpoints->error.status == KN_ERROR_MEMORY) return NULL;
        rename_damaged(checkpoints, path);
        checkpoints->count--;
    }
    return best(checkpoints);
}

const char *kn_checkpoints_best(kn_checkpoints *checkpoints) {
    return begin(checkpoints) == KN_OK ? best(checkpoints) : NULL;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static kn_status save(kn_checkpoints *checkpoints, const char *path, kn_model *model, kn_states *states,
                      const kn_model_pair *pairs, size_t pair_count) {
    kn_model_save_params params = KN_MODEL_SAVE_DEFAULTS;
    params.training = true;
    params.pairs = pairs;
    params.pair_count = pair_count;
    if (!model || !states || (!pairs && pair_count))
        return kn_fail(&checkpoints->error, KN_ERROR_ARGUMENT, "saving a checkpoint: %s is NULL",
                       !model    ? "model"
                       : !states ? "states"
                                 : "pairs");
    kn_status status = kn_model_save(model, path, states, &params);
    return status == KN_OK ? KN_OK : kn_fail(&checkpoints->error, status, "%s", kn_model_error(model));
}

kn_status kn_checkpoints_save(kn_checkpoints *checkpoints, kn_model *model, kn_states *states, uint64_t step,
                              const kn_model_pair *pairs, size_t pair_count) {
    kn_status status = begin(checkpoints);
    if (status != KN_OK) return status;
    const char *path = path_of_step(checkpoints, step);
    if (!path) return checkpoints->error.status;
    status = save(checkpoints, path, model, states, pairs, pair_count);
    if (status == KN_OK) status = add_step(checkpoints, step);
    while (status == KN_OK && checkpoints->keep && checkpoints->count > checkpoints->keep) {
        const char *oldest = path_of_step(checkpoints, checkpoints->steps[0]);
        /* A missing file counts as removed. */
        if (oldest && kn_path_exists(oldest)) status = kn_file_remove(oldest, &checkpoints->error);
        if (!oldest || status != KN_OK) return checkpoints->error.status;
        checkpoints->count--;
        memmove(checkpoints->steps, checkpoints->steps + 1, checkpoints->count * sizeof *checkpoints->steps);
    }
    return status;
}

kn_status kn_checkpoints_save_best(kn_checkpoints *checkpoints, kn_model *model, kn_states *states,
                                   const kn_model_pair *pairs, size_t pair_count) {
    kn_status status = begin(checkpoints);
    if (status != KN_OK) return status;
    const char *path = path_of_name(checkpoints, BEST_NAME);
    return path ? save(checkpoints, path, model, states, pairs, pair_count) : checkpoints->error.status;
}
