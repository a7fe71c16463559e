/* The checkpoints of koine train: writing, and resuming from the last one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

/* ---- options ------------------------------------------------------------------------------------------ */

/* "500", "30s", "10m" or "2h". */
static bool read_every(const char *text, train_checkpoints *checkpoints) {
    char *end = NULL;
    double number = strtod(text, &end);
    bool steps = !*end;
    double unit = !strcmp(end, "s") ? 1 : !strcmp(end, "m") ? 60 : !strcmp(end, "h") ? 3600 : 0;
    if (end == text || !isfinite(number) || number <= 0 || (!steps && !unit)) return false;
    if (steps && (number != floor(number) || number >= 0x1p53)) return false;
    checkpoints->every_steps = steps ? (uint64_t)number : 0;
    checkpoints->every_seconds = steps ? 0 : number * unit;
    return true;
}

int checkpoints_check(const train_options *options, train_checkpoints *checkpoints) {
    const char *alone = options->outputs.every                ? "--checkpoint-every"
                        : options->outputs.keep != UINT64_MAX ? "--keep"
                        : train_resumes_by_itself(options)    ? "--resume auto"
                                                              : NULL;
    if (alone && !options->outputs.checkpoints)
        return command_misuse("%s needs a folder: --checkpoints DIR", alone);
    if (options->outputs.keep == 0) return command_misuse("--keep is 0; expected at least 1");
    if (options->outputs.every && !read_every(options->outputs.every, checkpoints))
        return command_misuse(
            "--checkpoint-every is '%s'; expected a number of steps, or a time such as 30s or 10m",
            options->outputs.every);
    return EXIT_DONE;
}

bool train_resumes_by_itself(const train_options *options) {
    return options->resume && !strcmp(options->resume, "auto");
}

static bool open_folder(const train_options *options, train_checkpoints *checkpoints) {
    kn_checkpoints_params params;
    kn_checkpoints_params_init(&params);
    params.log = warnings_log();
    if (options->outputs.keep != UINT64_MAX) params.keep = options->outputs.keep;
    checkpoints->files = kn_checkpoints_open(options->outputs.checkpoints, &params);
    if (kn_checkpoints_status(checkpoints->files) == KN_OK) return true;
    return command_error("--checkpoints: %s", kn_checkpoints_error(checkpoints->files));
}

bool checkpoints_open(train_options *options, train_checkpoints *checkpoints) {
    bool by_itself = train_resumes_by_itself(options);
    checkpoints->written_at = clock_now();
    if (!options->outputs.checkpoints) return true;
    if (!open_folder(options, checkpoints)) return false;
    size_t count = kn_checkpoints_count(checkpoints->files);
    if (!by_itself && count)
        return command_error(
            "'%s' already has %zu checkpoint%s: --resume auto continues from the last; a new "
            "training run needs another folder",
            options->outputs.checkpoints, count, count > 1 ? "s" : "");
    if (!by_itself) return true;
    const char *path = kn_checkpoints_newest(checkpoints->files);
    options->resume = NULL;
    if (path) {
        /* The folder owns the string, which is valid only until its next call. */
        checkpoints->resumed = malloc(strlen(path) + 1);
        if (!checkpoints->resumed) return command_error("out of memory");
        options->resume = strcpy(checkpoints->resumed, path);
        options->init = NULL;
    } else if (kn_checkpoints_error(checkpoints->files)[0]) {
        command_warn("warning: no checkpoint in '%s' is whole; starting from the beginning",
                     options->outputs.checkpoints);
    } else {
        command_info("no checkpoint in '%s' yet; starting from the beginning", options->outputs.checkpoints);
    }
    return true;
}

void checkpoints_close(train_checkpoints *checkpoints) {
    kn_checkpoints_destroy(&checkpoints->files);
    free(checkpoints->resumed);
}

/* ---- writing ---------------------------------------------------------------------------------------- */

enum { PLACES = 7, PLACE_BYTES = 48 };

/* The training position, for readers of the file: the position in the shuffled order, which is derived from
 * the step, and the settings of the next step. */
static size_t write_place(const train_checkpoints *checkpoints, const kn_score *score,
                          char (*values)[PLACE_BYTES], kn_model_pair *pairs) {
    static const char *const keys[PLACES] = {
        "checkpoint.step", "checkpoint.epoch",         "checkpoint.batch",          "checkpoint.samples",
        "checkpoint.seed", "checkpoint.learning-rate", "checkpoint.validation-loss"};
    const train_options *options = checkpoints->options;
    uint64_t step = kn_trainer_steps(checkpoints->trainer), batches = checkpoints->batches,
             samples = step % batches * options->batch;
    const uint64_t numbers[5] = {step, step / batches, step % batches, samples, options->seed};
    for (int i = 0; i < 5; i++)
        snprintf(values[i], PLACE_BYTES, "%llu", (unsigned long long)numbers[i]);
    snprintf(values[5], PLACE_BYTES, "%.17g", kn_trainer_learning_rate(checkpoints->trainer));
    if (score) snprintf(values[6], PLACE_BYTES, "%.17g", score->loss);
    size_t count = score ? PLACES : PLACES - 1;
    for (size_t i = 0; i < count; i++)
        pairs[i] = (kn_model_pair){keys[i], values[i]};
    return count;
}

/* Training continues without it: a full disk may have space later. score: of the best epoch; otherwise
 * NULL. */
static bool write_one(train_checkpoints *checkpoints, const kn_score *score) {
    char places[PLACES][PLACE_BYTES];
    train_settings settings;
    kn_model_pair pairs[PLACES + TRAIN_PAIRS];
    kn_trainer *trainer = checkpoints->trainer;
    kn_states *states = kn_trainer_states(trainer);
    size_t count = write_place(checkpoints, score, places, pairs);
    count += train_pairs(checkpoints->setup, checkpoints->options, &settings, pairs + count);
    /* Save the evaluated weights as the best. */
    bool exchange = score && checkpoints->options->config.params.average > 0;
    if (exchange && kn_trainer_use_averages(trainer, true) != KN_OK)
        return command_error("%s", kn_trainer_error(trainer));
    kn_status status =
        score ? kn_checkpoints_save_best(checkpoints->files, checkpoints->setup->model, states, pairs, count)
              : kn_checkpoints_save(checkpoints->files, checkpoints->setup->model, states,
                                    kn_trainer_steps(trainer), pairs, count);
    if (exchange && kn_trainer_use_averages(trainer, false) != KN_OK)
        return command_error("%s", kn_trainer_error(trainer));
    checkpoints->written_at = clock_now();
    if (!score) checkpoints->failed = status != KN_OK;
    if (!score && status == KN_OK) checkpoints->written_step = kn_trainer_steps(trainer);
    if (status == KN_OK) return true;
    command_warn("no checkpoint after step %llu: %s. Earlier ones are unchanged; training continues",
                 (unsigned long long)kn_trainer_steps(trainer), kn_checkpoints_error(checkpoints->files));
    return true;
}

bool checkpoints_wait_for(train_checkpoints *checkpoints, uint64_t step) {
    if (!checkpoints->files) return false;
    uint64_t every = checkpoints->every_steps;
    bool due = every ? step % every == 0
                     : checkpoints->every_seconds > 0 &&
                           clock_now() - checkpoints->written_at >= checkpoints->every_seconds;
    due = due || checkpoints->waits;
    if (due) checkpoints->due_step = step;
    return due;
}

bool checkpoints_after_step(train_checkpoints *checkpoints, uint64_t step) {
    if (!checkpoints->files || checkpoints->due_step != step) return true;
    checkpoints->waits = kn_trainer_local_steps(checkpoints->trainer) > 0;
    return checkpoints->waits || write_one(checkpoints, NULL);
}

bool checkpoints_after_epoch(train_checkpoints *checkpoints, const kn_fit_epoch *epoch) {
    if (!checkpoints->files) return true;
    if (epoch->best && !write_one(checkpoints, &epoch->validation)) return false;
    bool due = checkpoints->waits || (!checkpoints->every_steps && !(checkpoints->every_seconds > 0));
    checkpoints->waits = false;
    return !due || write_one(checkpoints, NULL);
}

bool checkpoints_at_end(train_checkpoints *checkpoints, const kn_fit_result *result) {
    if (!checkpoints->files) return true;
    /* Do not save steps that were undone: resuming from the previous checkpoint leads to the same result. */
    if (!result->discarded_steps && (checkpoints->failed || checkpoints->written_step != result->step) &&
        !write_one(checkpoints, NULL))
        return false;
    return !checkpoints->failed;
}

bool checkpoints_to_best(train_checkpoints *checkpoints) {
    const char *path = kn_checkpoints_best(checkpoints->files);
    uint64_t steps;
    return path && train_load_training(checkpoints->setup, checkpoints->trainer, path, &steps);
}
