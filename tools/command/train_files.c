/* The files of koine train: weights before, the model after. */
#include <stdlib.h>
#include <string.h>

#include "train.h"

const char *train_save_path(const train_options *options, const training_setup *setup) {
    static char path[512];
    if (options->save) return options->save;
    snprintf(path, sizeof path, "%s.safetensors", kn_model_name(setup->model));
    return path;
}

/* ---- how it was trained, kept in the file ----------------------------------------------------------- */

/* What the result depends on beside the model. Whoever goes on with other settings should know. */
enum { SETTINGS = 14, SETTING_BYTES = 300 };
static const char *const setting_keys[SETTINGS] = {
    "train.data",      "train.batch", "train.seed",     "train.validation",   "train.shuffle",
    "train.drop-last", "train.loss",  "train.math",     "train.optimizer",    "train.lr",
    "train.momentum",  "train.clip",  "train.schedule", "train.weight-decay",
};

static void write_schedule(const kn_trainer_params *how, char *text) {
    char warmup[60] = "";
    if (how->warmup_steps)
        snprintf(warmup, sizeof warmup, " after a warm-up of %llu", (unsigned long long)how->warmup_steps);
    if (how->schedule == KN_COSINE)
        snprintf(text, SETTING_BYTES, "cosine until step %llu%s", (unsigned long long)how->total_steps,
                 warmup);
    else if (how->schedule == KN_STEP)
        snprintf(text, SETTING_BYTES, "times %.9g every %llu steps%s", how->step_factor,
                 (unsigned long long)how->step_every, warmup);
    else
        snprintf(text, SETTING_BYTES, "constant%s", warmup);
}

static void write_settings(const train_options *options, char (*values)[SETTING_BYTES]) {
    const kn_trainer_params *how = &options->how;
    snprintf(values[0], SETTING_BYTES, "%s", options->data);
    snprintf(values[1], SETTING_BYTES, "%llu", (unsigned long long)options->batch);
    snprintf(values[2], SETTING_BYTES, "%llu", (unsigned long long)options->seed);
    snprintf(values[3], SETTING_BYTES, "%.9g", options->validation);
    snprintf(values[4], SETTING_BYTES, "%s", options->no_shuffle ? "no" : "yes");
    snprintf(values[5], SETTING_BYTES, "%s", options->drop_last ? "yes" : "no");
    snprintf(values[6], SETTING_BYTES, "%s", options->loss ? options->loss : "the model's own");
    snprintf(values[7], SETTING_BYTES, "%s", options->common.exact ? "exact" : "fast");
    snprintf(values[8], SETTING_BYTES, "%s", options->optimizer);
    snprintf(values[9], SETTING_BYTES, "%.9g", how->learning_rate);
    if (how->optimizer == KN_SGD)
        snprintf(values[10], SETTING_BYTES, "%.9g%s", how->momentum, how->nesterov ? " by Nesterov" : "");
    else
        snprintf(values[10], SETTING_BYTES, "none");
    snprintf(values[11], SETTING_BYTES, "%.9g", how->clip_norm);
    write_schedule(how, values[12]);
    snprintf(values[13], SETTING_BYTES, "%.9g", how->weight_decay);
}

static void compare_settings(const train_options *options, const char *path) {
    char values[SETTINGS][SETTING_BYTES];
    kn_model *saved = kn_model_open(path, NULL);
    write_settings(options, values);
    for (int i = 0; i < SETTINGS; i++) {
        const char *before = kn_model_metadata(saved, setting_keys[i]);
        if (before && strcmp(before, values[i]))
            command_warn(
                "warning: '%s' was trained with %s %s, and now it is %s: the result will not be that of "
                "one go",
                path, setting_keys[i] + strlen("train."), before, values[i]);
    }
    kn_model_destroy(&saved);
}

bool train_save(training_setup *setup, kn_trainer *trainer, const train_options *options, const char *path) {
    char values[SETTINGS][SETTING_BYTES];
    kn_model_pair pairs[SETTINGS];
    kn_model_save_params params;
    kn_model_save_params_init(&params);
    params.training = true;
    write_settings(options, values);
    for (int i = 0; i < SETTINGS; i++)
        pairs[i] = (kn_model_pair){setting_keys[i], values[i]};
    params.pairs = pairs;
    params.pair_count = SETTINGS;
    if (kn_model_save(setup->model, path, kn_trainer_states(trainer), &params) == KN_OK) return true;
    command_fail("%s", kn_model_error(setup->model));
    return false;
}

/* ---- weights ---------------------------------------------------------------------------------------- */

bool train_load(training_setup *setup, kn_trainer *trainer, const train_options *options) {
    const char *path = options->resume ? options->resume : options->init;
    if (!path && !kn_model_has_weights(setup->model)) return true;
    kn_model_load_params params;
    kn_model_load_params_init(&params);
    params.training = options->resume != NULL;
    params.incomplete = options->init != NULL && !options->resume;
    int loaded = 0;
    if (kn_model_load(setup->model, path, kn_trainer_states(trainer), &params, &loaded) != KN_OK) {
        command_fail("%s", kn_model_error(setup->model));
        return false;
    }
    if (params.incomplete) {
        if (!loaded) {
            command_fail("nothing in '%s' has the name and the shape of a parameter of '%s'", path,
                         kn_model_name(setup->model));
            return false;
        }
        command_tell("%d parameters and statistics taken from %s; the others begin anew", loaded, path);
    }
    if (!options->resume) return true;
    uint32_t steps = 0;
    if (kn_states_get(kn_trainer_states(trainer), "koine.step", &steps, sizeof steps) != KN_OK || !steps) {
        command_fail(
            "'%s' holds weights, but no training that could be continued; --init begins a new one with "
            "them",
            path);
        return false;
    }
    kn_trainer_set_steps(trainer, steps);
    compare_settings(options, path);
    command_tell("going on after step %lu", (unsigned long)steps);
    return true;
}
