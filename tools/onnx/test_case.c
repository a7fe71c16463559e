/* koine-onnx-test: one case, from its files to its outputs. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test.h"

enum { MAX_VALUES = 64 };

bool conclude(test_outcome *outcome, test_verdict verdict, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome->reason, sizeof outcome->reason, format, arguments);
    va_end(arguments);
    for (char *at = outcome->reason; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    outcome->verdict = verdict;
    return false;
}

bool join(test_outcome *outcome, char path[PATH_ROOM], const char *folder, const char *name) {
    if (snprintf(path, PATH_ROOM, "%s/%s", folder, name) < PATH_ROOM) return true;
    return conclude(outcome, VERDICT_ERROR, "a path of more than %d letters", PATH_ROOM);
}

static bool exists(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}

/* What the library answered, as a verdict. */
static bool conclude_status(test_outcome *outcome, kn_status status, const char *text) {
    return conclude(outcome, status == KN_ERROR_UNSUPPORTED ? VERDICT_UNSUPPORTED : VERDICT_ERROR, "%s",
                    text && *text ? text : kn_status_message(status));
}

/* One data set of a case: what is given, what is computed. */
typedef struct data_set {
    const char *folder; /* of the set */
    kn_onnx_file *file;
    kn_model_given given[MAX_VALUES];
    void *memory[MAX_VALUES];               /* of the inputs */
    kn_onnx_tensor_file *files[MAX_VALUES]; /* which own strings */
    int memory_count, file_count;
    int input_count;
    kn_model *model;
    kn_states *states;
    kn_session *session;
    kn_value *values[MAX_VALUES];
    kn_tensor_info infos[MAX_VALUES];
    kn_fetch fetches[MAX_VALUES];
    int output_count;
} data_set;

static void release(data_set *set) {
    kn_session_destroy(&set->session);
    kn_states_destroy(&set->states);
    kn_model_destroy(&set->model);
    for (int i = 0; i < MAX_VALUES; i++) {
        free(set->memory[i]);
        kn_onnx_tensor_file_destroy(&set->files[i]);
        free(set->fetches[i].data);
    }
}

/* ---- inputs ------------------------------------------------------------------------------- */

static bool is_sequence(const char *type) {
    return !strcmp(type, "a sequence") || !strcmp(type, "an optional");
}

/* Integers below a byte are given as bytes. */
static bool is_narrow(const char *type) {
    return !strcmp(type, "int4") || !strcmp(type, "uint4") || !strcmp(type, "int2") || !strcmp(type, "uint2");
}

/* A file with one tensor, or an element of one with a sequence or an optional, which the set keeps. */
static kn_onnx_tensor_file *open_file(data_set *set, const char *path, const char *type, size_t position) {
    const bool sequence = !strcmp(type, "a sequence"), optional = !strcmp(type, "an optional");
    kn_onnx_tensor_file *file = sequence || optional
                                    ? kn_onnx_tensor_file_open_at(path, optional, position, NULL)
                                    : kn_onnx_tensor_file_open(path, NULL);
    if (set->file_count == MAX_VALUES) kn_onnx_tensor_file_destroy(&set->files[--set->file_count]);
    return set->files[set->file_count++] = file;
}

/* Takes the elements of a file, which owns strings. */
static bool take_elements(data_set *set, const kn_onnx_tensor_file *file, const char *name,
                          kn_model_given *given, test_outcome *outcome) {
    uint64_t bytes = 0, count = 0;
    if (set->memory_count == MAX_VALUES) return conclude(outcome, VERDICT_ERROR, "too many inputs");
    if (!kn_onnx_tensor_file_info(file, &given->info) || !kn_tensor_bytes(&given->info, &bytes))
        return conclude_status(outcome, kn_onnx_tensor_file_status(file), kn_onnx_tensor_file_error(file));
    kn_tensor_elements(&given->info, &count);
    void *room = set->memory[set->memory_count++] = calloc((size_t)count + 1, sizeof(uint64_t) * 2);
    if (!room) return conclude(outcome, VERDICT_ERROR, "input %s: out of memory", name);
    const char **texts = room;
    if (kn_onnx_tensor_file_copy(file, given->info.dtype, room, (size_t)bytes) == KN_OK) {
        given->data = room;
        return true;
    }
    for (uint64_t i = 0; i < count; i++)
        texts[i] = kn_onnx_tensor_file_text_at(file, i);
    given->texts = texts;
    return true;
}

static bool read_input(data_set *set, int position, test_outcome *outcome) {
    char word[32], path[PATH_ROOM];
    const char *type, *name = kn_onnx_file_input_at(set->file, position, &type);
    kn_dtype dtype;
    kn_model_given *given = &set->given[position];
    const bool sequence = is_sequence(type);
    if (!sequence && strcmp(type, "string") && !kn_dtype_parse(type, &dtype) && !is_narrow(type))
        return conclude(outcome, VERDICT_UNSUPPORTED, "input %s is %s%s", name, type,
                        strchr(type, ' ') ? "" : ", a type that Koine does not have");
    snprintf(word, sizeof word, "input_%d.pb", position);
    if (!join(outcome, path, set->folder, word)) return false;
    given->name = name;
    if (!sequence) return take_elements(set, open_file(set, path, type, 0), name, given, outcome);
    kn_model_given *elements = set->memory[set->memory_count++] = calloc(MAX_VALUES, sizeof *elements);
    for (;; given->element_count++) {
        const kn_onnx_tensor_file *file = open_file(set, path, type, given->element_count);
        if (kn_onnx_tensor_file_status(file) == KN_ERROR_NOT_FOUND) break;
        if (!elements || given->element_count == MAX_VALUES ||
            !take_elements(set, file, name, &elements[given->element_count], outcome))
            return outcome->verdict || conclude(outcome, VERDICT_ERROR, "input %s: out of memory", name);
    }
    given->elements = elements;
    return true;
}

static bool read_inputs(data_set *set, test_outcome *outcome) {
    set->input_count = (int)kn_onnx_file_input_count(set->file);
    if (set->input_count > MAX_VALUES)
        return conclude(outcome, VERDICT_ERROR, "%d inputs, at most %d are expected", set->input_count,
                        MAX_VALUES);
    for (int i = 0; i < set->input_count; i++)
        if (!read_input(set, i, outcome)) return false;
    return true;
}

/* ---- computing ------------------------------------------------------------------------------- */

static bool open_model(data_set *set, const char *path, test_outcome *outcome) {
    kn_model_params params;
    kn_model_params_init(&params);
    params.given = set->given;
    params.given_count = (size_t)set->input_count;
    set->model = kn_model_open(path, &params);
    kn_status status = kn_model_status(set->model);
    if (status != KN_OK)
        return conclude_status(outcome, status, set->model ? kn_model_error(set->model) : "");
    if (!kn_model_bound(set->model))
        return conclude(outcome, VERDICT_UNSUPPORTED, "%s", kn_model_error(set->model));
    set->output_count = (int)kn_model_output_count(set->model);
    if (set->output_count > MAX_VALUES)
        return conclude(outcome, VERDICT_ERROR, "%d outputs, at most %d are expected", set->output_count,
                        MAX_VALUES);
    for (int i = 0; i < set->output_count; i++)
        set->values[i] = kn_model_output_at(set->model, i);
    return true;
}

static bool open_session(data_set *set, kn_context *context, test_outcome *outcome) {
    kn_session_params params;
    if (!set->output_count) return true; /* empty sequences */
    kn_session_params_init(&params);
    params.states = set->states = kn_states_create(context, 0);
    set->session = kn_session_create(context, set->values, (size_t)set->output_count, &params);
    kn_status status = kn_session_status(set->session);
    if (status != KN_OK) return conclude_status(outcome, status, kn_session_error(set->session));
    if (!kn_model_has_weights(set->model)) return true;
    status = kn_model_load(set->model, NULL, set->states, NULL, NULL);
    return status == KN_OK || conclude_status(outcome, status, kn_model_error(set->model));
}

/* The arrays for what the model still reads, by the file's names. */
static bool find_feeds(const data_set *set, kn_feed *feeds, int *count, test_outcome *outcome) {
    *count = (int)kn_model_input_count(set->model);
    for (int i = 0; i < *count; i++) {
        const char *name = kn_model_input_name_at(set->model, i);
        const kn_model_given *given = NULL;
        for (int j = 0; j < set->input_count; j++)
            if (strcmp(set->given[j].name, name) == 0) given = &set->given[j];
        if (!given || i == MAX_VALUES)
            return conclude(outcome, VERDICT_ERROR, "the model reads an input %s that the case does not give",
                            name);
        uint64_t bytes = 0;
        kn_tensor_bytes(&given->info, &bytes);
        feeds[i] = (kn_feed){kn_value_name(kn_model_input_at(set->model, i)), given->data, (size_t)bytes};
    }
    return true;
}

static bool compute(data_set *set, test_outcome *outcome) {
    kn_feed feeds[MAX_VALUES];
    int count = 0;
    if (!set->output_count) return true;
    if (!find_feeds(set, feeds, &count, outcome)) return false;
    kn_status status = kn_session_compile(set->session, feeds, (size_t)count);
    for (int i = 0; i < set->output_count && status == KN_OK; i++) {
        const char *name = kn_value_name(set->values[i]);
        uint64_t bytes = 0;
        status = kn_session_info(set->session, name, &set->infos[i]);
        if (status != KN_OK) break;
        kn_tensor_bytes(&set->infos[i], &bytes);
        set->fetches[i] = (kn_fetch){name, malloc((size_t)bytes + 1), (size_t)bytes};
        if (!set->fetches[i].data) return conclude(outcome, VERDICT_ERROR, "output %s: out of memory", name);
    }
    if (status == KN_OK)
        status = kn_session_run(set->session, feeds, (size_t)count, set->fetches, (size_t)set->output_count);
    return status == KN_OK || conclude_status(outcome, status, kn_session_error(set->session));
}

/* ---- outputs -------------------------------------------------------------------------------- */

/* Outputs that are sequences are not written. */
static bool write_outputs(const data_set *set, const char *name, const char *set_name, const char *outputs,
                          test_outcome *outcome) {
    char folder[PATH_ROOM], inner[PATH_ROOM], path[PATH_ROOM], word[32], message[200];
    if (!join(outcome, folder, outputs, name) || !join(outcome, inner, folder, set_name)) return false;
    mkdir(folder, 0777);
    mkdir(inner, 0777);
    const int count = (int)kn_onnx_file_output_count(set->file);
    for (int i = 0; i < count && count == set->output_count; i++) {
        const char *type, *output = kn_onnx_file_output_at(set->file, i, &type);
        if (is_sequence(type) || kn_model_output_has_strings_at(set->model, (size_t)i)) continue;
        snprintf(word, sizeof word, "output_%d.pb", i);
        if (!join(outcome, path, inner, word)) return false;
        if (kn_onnx_tensor_file_save(path, output, &set->infos[i], set->fetches[i].data, message,
                                     sizeof message) != KN_OK)
            return conclude(outcome, VERDICT_ERROR, "%s", message);
    }
    return true;
}

/* Compares the output `at` of the model, which is moved on. */
static bool compare_next(data_set *set, const char *path, const char *name, const char *type, size_t position,
                         int *at, test_outcome *outcome) {
    const size_t i = (size_t)*at;
    if (*at == set->output_count || strcmp(kn_model_output_name_at(set->model, i), name) != 0)
        return conclude(outcome, VERDICT_FAIL, "%s: has fewer tensors than expected", name);
    (*at)++;
    return compare_output(open_file(set, path, type, position), name, &set->infos[i], set->fetches[i].data,
                          kn_model_output_has_strings_at(set->model, i) ? set->model : NULL, outcome);
}

static bool compare_outputs(data_set *set, test_outcome *outcome) {
    char path[PATH_ROOM], word[32];
    int at = 0;
    for (int i = 0; i < (int)kn_onnx_file_output_count(set->file); i++) {
        const char *type, *name = kn_onnx_file_output_at(set->file, i, &type);
        snprintf(word, sizeof word, "output_%d.pb", i);
        if (!join(outcome, path, set->folder, word)) return false;
        for (size_t k = 0; is_sequence(type) || k < 1; k++) {
            if (is_sequence(type) &&
                kn_onnx_tensor_file_status(open_file(set, path, type, k)) == KN_ERROR_NOT_FOUND)
                break;
            if (!compare_next(set, path, name, type, k, &at, outcome)) return false;
        }
    }
    return at == set->output_count || conclude(outcome, VERDICT_FAIL, "%s: has more tensors than expected",
                                               kn_model_output_name_at(set->model, (size_t)at));
}

void run_case(kn_context *context, const char *folder, const char *name, const char *outputs,
              test_outcome *outcome) {
    char path[PATH_ROOM], set_folder[PATH_ROOM], set_name[40];
    *outcome = (test_outcome){.verdict = VERDICT_PASS};
    if (!join(outcome, path, folder, "model.onnx")) return;
    kn_onnx_file *file = kn_onnx_file_open(path, NULL);
    bool fine = kn_onnx_file_status(file) == KN_OK ||
                conclude_status(outcome, kn_onnx_file_status(file), kn_onnx_file_error(file));
    int done = 0;
    for (; fine; done++) {
        data_set set = {.folder = set_folder, .file = file};
        snprintf(set_name, sizeof set_name, "test_data_set_%d", done);
        fine = join(outcome, set_folder, folder, set_name);
        if (!fine || !exists(set_folder)) break;
        fine = read_inputs(&set, outcome) && open_model(&set, path, outcome) &&
               open_session(&set, context, outcome) && compute(&set, outcome) &&
               (!outputs || write_outputs(&set, name, set_name, outputs, outcome)) &&
               compare_outputs(&set, outcome);
        release(&set);
    }
    if (fine && done == 0) conclude(outcome, VERDICT_SKIP, "there is no test_data_set_0");
    kn_onnx_file_destroy(&file);
}
