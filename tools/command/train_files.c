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
enum { SETTINGS = 7, SETTING_BYTES = 300 };
static const char *const setting_keys[SETTINGS] = {"train.data",       "train.batch",   "train.seed",
                                                   "train.validation", "train.shuffle", "train.drop-last",
                                                   "train.optimizer"};

static void write_settings(const train_options *options, char (*values)[SETTING_BYTES]) {
    snprintf(values[0], SETTING_BYTES, "%s", options->data);
    snprintf(values[1], SETTING_BYTES, "%llu", (unsigned long long)options->batch);
    snprintf(values[2], SETTING_BYTES, "%llu", (unsigned long long)options->seed);
    snprintf(values[3], SETTING_BYTES, "%.9g", options->validation);
    snprintf(values[4], SETTING_BYTES, "%s", options->no_shuffle ? "no" : "yes");
    snprintf(values[5], SETTING_BYTES, "%s", options->drop_last ? "yes" : "no");
    snprintf(values[6], SETTING_BYTES, "%s", options->optimizer);
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
