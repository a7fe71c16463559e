/* The files of koine train: initial weights, and the model that is written. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train.h"

/* ---- training settings stored in the file --------------------------------------------------- */

enum {
    SETTING_BYTES = TRAIN_SETTING_BYTES,
    NORMS = TRAIN_SETTINGS - 6,
    ROUNDS,
    GRADIENTS,
    SHARDS,
    MOMENTS,
    PRECISION
};
static const char *const setting_keys[TRAIN_SETTINGS] = {
    "train.data",      "train.batch",      "train.seed",       "train.validation",   "train.shuffle",
    "train.drop-last", "train.loss",       "train.math",       "train.optimizer",    "train.lr",
    "train.momentum",  "train.clip",       "train.schedule",   "train.weight-decay", "train.variant",
    "train.smoothing", "train.clip-value", "train.accumulate", "train.ema",          "train.groups",
    "train.decay-of",  "train.adagrad",    "train.augment",    "train.oversample",   "train.class-weights",
    "train.batchnorm", "train.rounds",     "train.gradients",  "train.shards",       "train.moments",
    "train.precision",
};

static const char *falls_text(const kn_trainer_params *how, char *text, size_t room) {
    text[0] = '\0';
    for (size_t i = 0; i < how->milestone_count; i++)
        snprintf(text + strlen(text), room - strlen(text), "%s%llu", i ? "," : "",
                 (unsigned long long)how->milestones[i]);
    return text;
}

static void write_schedule(const kn_trainer_params *how, char *text) {
    char warmup[60] = "", falls[150];
    unsigned long long end = how->total_steps, every = how->step_every;
    if (how->warmup_steps)
        snprintf(warmup, sizeof warmup, " after a warm-up of %llu", (unsigned long long)how->warmup_steps);
    switch (how->schedule) {
    case KN_SCHEDULE_COSINE:
        snprintf(text, SETTING_BYTES, "cosine until step %llu", end);
        break;
    case KN_SCHEDULE_STEP:
        snprintf(text, SETTING_BYTES, "times %.9g every %llu steps", how->step_factor, every);
        break;
    case KN_SCHEDULE_MULTI_STEP:
        snprintf(text, SETTING_BYTES, "times %.9g at steps %s", how->step_factor,
                 falls_text(how, falls, sizeof falls));
        break;
    case KN_SCHEDULE_EXPONENTIAL:
        snprintf(text, SETTING_BYTES, "times %.9g over each %llu steps", how->step_factor, every);
        break;
    case KN_SCHEDULE_COSINE_RESTARTS:
        snprintf(text, SETTING_BYTES, "cosine begun again after %llu steps, each %.9g times as long",
                 (unsigned long long)how->restart_every, how->restart_factor);
        break;
    case KN_SCHEDULE_ONE_CYCLE:
        snprintf(text, SETTING_BYTES, "one cycle until step %llu, rising for %.9g of it from 1/%.9g", end,
                 how->cycle_rise, how->cycle_divisor);
        break;
    case KN_SCHEDULE_POLYNOMIAL:
        snprintf(text, SETTING_BYTES, "polynomial of power %.9g until step %llu", how->power, end);
        break;
    case KN_SCHEDULE_PLATEAU:
        snprintf(text, SETTING_BYTES, "times %.9g after %llu epochs not lower by %.9g, and %llu of rest",
                 how->step_factor, (unsigned long long)how->plateau_patience, how->plateau_threshold,
                 (unsigned long long)how->plateau_cooldown);
        break;
    default:
        snprintf(text, SETTING_BYTES, "constant");
    }
    if (how->final_fraction > 0)
        snprintf(text + strlen(text), SETTING_BYTES - strlen(text), " down to %.9g", how->final_fraction);
    snprintf(text + strlen(text), SETTING_BYTES - strlen(text), "%s", warmup);
}

static void write_rule(const train_rule *rule, const kn_trainer_params *how, char (*values)[SETTING_BYTES]) {
    bool sgd = how->optimizer == KN_OPTIMIZER_SGD,
         momentum = sgd || (kn_optimizer_reads(how->optimizer, "momentum") && how->momentum > 0);
    snprintf(values[8], SETTING_BYTES, "%s", rule->optimizer);
    snprintf(values[9], SETTING_BYTES, "%.9g", how->learning_rate);
    snprintf(values[10], SETTING_BYTES, "none");
    if (momentum)
        snprintf(values[10], SETTING_BYTES, "%.9g%s", how->momentum, how->nesterov ? " by Nesterov" : "");
    if (how->dampening > 0)
        snprintf(values[10] + strlen(values[10]), SETTING_BYTES - strlen(values[10]), " dampened by %.9g",
                 how->dampening);
    snprintf(values[11], SETTING_BYTES, "%.9g", how->clip_norm);
    write_schedule(how, values[12]);
    snprintf(values[13], SETTING_BYTES, "%.9g", how->weight_decay);
    snprintf(values[14], SETTING_BYTES, "%s",
             how->amsgrad    ? "amsgrad"
             : how->centered ? "centered"
                             : "plain");
    snprintf(values[15], SETTING_BYTES, "none");
    if (!sgd)
        snprintf(values[15], SETTING_BYTES, "%.9g and %.9g, epsilon %.9g", how->beta1, how->beta2,
                 how->epsilon);
    snprintf(values[16], SETTING_BYTES, "%.9g", how->clip_value);
    snprintf(values[17], SETTING_BYTES, "%llu", (unsigned long long)how->accumulate);
    snprintf(values[18], SETTING_BYTES, "%.9g", how->average);
    const char *groups = rule->groups ? rule->groups : rule->freeze ? "" : "none";
    snprintf(values[19], SETTING_BYTES, "%s%s%s", groups, rule->freeze ? " frozen: " : "",
             rule->freeze ? rule->freeze : "");
    snprintf(values[20], SETTING_BYTES, "%s", how->decay_matrices_only ? "matrices" : "all");
    snprintf(values[21], SETTING_BYTES, "%.9g, from %.9g", how->rate_decay, how->accumulator);
    snprintf(values[MOMENTS], SETTING_BYTES, "%s", kn_moments_name(how->moments));
}

static void write_settings(const training_setup *setup, const train_options *options,
                           char (*values)[SETTING_BYTES]) {
    snprintf(values[0], SETTING_BYTES, "%s", options->data);
    snprintf(values[1], SETTING_BYTES, "%llu", (unsigned long long)options->batch);
    snprintf(values[2], SETTING_BYTES, "%llu", (unsigned long long)options->seed);
    snprintf(values[3], SETTING_BYTES, "none");
    if (!options->unvalidated) snprintf(values[3], SETTING_BYTES, "%.9g", options->validation);
    if (options->validate_samples != UINT64_MAX)
        snprintf(values[3] + strlen(values[3]), SETTING_BYTES - strlen(values[3]), ", at most %llu samples",
                 (unsigned long long)options->validate_samples);
    snprintf(values[4], SETTING_BYTES, "%s",
             options->in_sequence  ? "no, in sequence"
             : options->no_shuffle ? "no"
                                   : "yes");
    snprintf(values[5], SETTING_BYTES, "%s", options->drop_last ? "yes" : "no");
    snprintf(values[6], SETTING_BYTES, "%s", options->loss ? options->loss : "the model's own");
    snprintf(values[7], SETTING_BYTES, "%s", options->common.arithmetic.exact ? "exact" : "fast");
    snprintf(values[22], SETTING_BYTES, "%s", setup_augment(setup));
    snprintf(values[23], SETTING_BYTES, "%s", options->oversample ? "yes" : "no");
    snprintf(values[24], SETTING_BYTES, "%s", options->class_weights ? options->class_weights : "none");
    snprintf(values[NORMS], SETTING_BYTES, "%s", options->sync_batch_norm ? "of all shards" : "of a shard");
    snprintf(values[ROUNDS], SETTING_BYTES, "none");
    if (options->sync_every)
        snprintf(values[ROUNDS], SETTING_BYTES, "%llu steps, %d workers, outer rate %.9g, momentum %.9g",
                 (unsigned long long)options->sync_every, options->worker_count, options->how.outer_rate,
                 options->how.outer_momentum);
    snprintf(values[GRADIENTS], SETTING_BYTES, "%s", kn_dtype_name(options->gradient_type));
    snprintf(values[SHARDS], SETTING_BYTES, "%llu",
             options->shards == UINT64_MAX ? 1 : (unsigned long long)options->shards);
    snprintf(values[PRECISION], SETTING_BYTES, "%s", kn_precision_name(options->common.arithmetic.precision));
    write_rule(&options->rule, &options->how, values);
}

/* Resumed training keeps the number of shards unless --shards is given. */
bool train_take_shards(train_options *options) {
    if (!options->resume || options->shards != UINT64_MAX) return true;
    kn_safetensors_file *saved = kn_safetensors_file_open(options->resume, NULL);
    const char *before = kn_safetensors_file_metadata(saved, setting_keys[SHARDS]);
    const unsigned long shards = before ? strtoul(before, NULL, 10) : 1;
    kn_safetensors_file_destroy(&saved);
    if (shards > 1 && shards <= WORKER_SHARDS) options->shards = shards;
    if (options->shards == UINT64_MAX || options->shards >= (uint64_t)options->device_count) return true;
    return command_error(
        "'%s' was trained with %lu shards, fewer than %d devices: use fewer devices, or give "
        "--shards %d for a different result",
        options->resume, shards, options->device_count, WORKERS_MOST);
}

/* Whether the moments in a file are of the type of this training or can be converted to it, which must have
 * been requested. Reports otherwise. */
static bool moments_fit(const train_options *options, const char *path) {
    kn_safetensors_file *saved = kn_safetensors_file_open(path, NULL);
    const char *before = kn_safetensors_file_metadata(saved, setting_keys[MOMENTS]);
    const char *now = kn_moments_name(options->how.moments), *bits = kn_moments_name(KN_MOMENTS_8BIT);
    bool good = true;
    if (!before) before = kn_moments_name(KN_MOMENTS_FLOAT32); /* files of older versions */
    if (strcmp(before, now) && (!strcmp(before, bits) || !strcmp(now, bits)))
        good = command_error(
            "'%s' was trained with optimizer state in %s, which cannot be converted to %s: give "
            "--optimizer-dtype %s, or --init %s to start a new training run from its weights",
            path, before, now, before, path);
    else if (strcmp(before, now) && !options->rule.moments)
        good = command_error("'%s' was trained with optimizer state in %s: give --optimizer-dtype %s to keep "
                             "it, or --optimizer-dtype %s to convert it",
                             path, before, before, now);
    kn_safetensors_file_destroy(&saved);
    return good;
}

/* Warns about different settings. A different precision must have been requested: otherwise returns false. */
static bool compare_settings(const training_setup *setup, const train_options *options, const char *path) {
    train_settings settings;
    bool good = true;
    kn_safetensors_file *saved = kn_safetensors_file_open(path, NULL);
    write_settings(setup, options, settings.values);
    for (int i = 0; i < TRAIN_SETTINGS && good; i++) {
        const char *value = settings.values[i];
        const char *before = kn_safetensors_file_metadata(saved, setting_keys[i]);
        if (!before && (i == PRECISION || i == MOMENTS)) before = "float32"; /* files of older versions */
        if (!before && i == ROUNDS) before = "none";
        if (!before || !strcmp(before, value)) continue;
        if (i == PRECISION && !options->common.precision) {
            command_fail(
                "'%s' was trained in %s: give --precision %s to keep it, or --precision %s to change it",
                path, before, before, value);
            good = false;
        } else
            command_warn("warning: '%s' was trained with %s %s, and now it is %s: the result will differ "
                         "from an uninterrupted run",
                         path, setting_keys[i] + strlen("train."), before, value);
    }
    kn_safetensors_file_destroy(&saved);
    return good;
}

size_t train_pairs(const training_setup *setup, const train_options *options, train_settings *settings,
                   kn_model_pair *pairs) {
    size_t count = TRAIN_SETTINGS;
    write_settings(setup, options, settings->values);
    for (size_t i = 0; i < count; i++)
        pairs[i] = (kn_model_pair){setting_keys[i], settings->values[i]};
    /* Metadata that `generate`, `infer` and later training need: for reading text and tables, and class
     * names. */
    const char *vocabulary = kn_dataset_vocabulary(setup->all), *columns = kn_dataset_columns(setup->all);
    if (options->kept_deal[0]) pairs[count++] = (kn_model_pair){DEAL_KEY, options->kept_deal};
    if (vocabulary) pairs[count++] = (kn_model_pair){"data.vocabulary", vocabulary};
    if (columns) pairs[count++] = (kn_model_pair){"data.columns", columns};
    snprintf(settings->rate, sizeof settings->rate, "%llu",
             (unsigned long long)kn_dataset_sample_rate(setup->all));
    if (setup->classes) pairs[count++] = (kn_model_pair){"data.classes", setup->classes};
    if (kn_dataset_sample_rate(setup->all)) pairs[count++] = (kn_model_pair){"data.rate", settings->rate};
    return count;
}

/* ---- destination of the model --------------------------------------------------------------- */

/* The training metadata of a saved model, in a file of either format. */
typedef struct saved_training {
    kn_safetensors_file *tensors;
    kn_model *onnx;
} saved_training;

static saved_training saved_open(const char *path) {
    const bool onnx = path_is_onnx(path);
    return (saved_training){onnx ? NULL : kn_safetensors_file_open(path, NULL),
                            onnx ? kn_model_open(path, NULL) : NULL};
}

static const char *saved_setting(const saved_training *saved, const char *key) {
    const char *text =
        saved->onnx ? kn_model_metadata(saved->onnx, key) : kn_safetensors_file_metadata(saved->tensors, key);
    return text ? text : "";
}

static void saved_close(saved_training *saved) {
    kn_safetensors_file_destroy(&saved->tensors);
    kn_model_destroy(&saved->onnx);
}

/* 0 if unknown. */
static uint32_t saved_steps(const saved_training *saved) {
    uint32_t steps = 0;
    return kn_safetensors_file_copy(saved->tensors, "koine.training.koine.step", KN_UINT32, &steps,
                                    sizeof steps) == KN_OK
               ? steps
               : 0;
}

/* Whether `path` contains an earlier state of the training run in `later`: the same settings, and no more
 * steps. */
static bool same_training(const char *path, const char *later) {
    struct stat one, other;
    if (stat(path, &one) || stat(later, &other)) return false;
    if (one.st_dev == other.st_dev && one.st_ino == other.st_ino) return true;
    saved_training before = saved_open(path), after = saved_open(later);
    bool same = saved_setting(&before, setting_keys[0])[0] && saved_steps(&before) <= saved_steps(&after);
    for (int i = 0; same && i < TRAIN_SETTINGS; i++)
        same = !strcmp(saved_setting(&before, setting_keys[i]), saved_setting(&after, setting_keys[i]));
    saved_close(&before);
    saved_close(&after);
    return same;
}

/* Whether a file is a checkpoint followed by later ones. */
static bool is_checkpoint(const char *path) {
    saved_training saved = saved_open(path);
    const bool found = saved_setting(&saved, "checkpoint.step")[0];
    saved_close(&saved);
    return found;
}

void train_mark(train_options *options, const training_setup *setup) {
    char text[2 * RUN_PATH];
    const train_rule *rule = &options->rule;
    snprintf(text, sizeof text, "%s %s %s %s %.9g %.9g %llu %llu", kn_model_name(setup->model), options->data,
             options->loss ? options->loss : "", rule->optimizer ? rule->optimizer : "", rule->rate,
             options->validation, (unsigned long long)options->seed, (unsigned long long)options->batch);
    snprintf(options->mark, sizeof options->mark, "%016llx", (unsigned long long)text_hash(text));
}

bool train_replaces(const train_options *options, const char *path) {
    return options->common.overwrite || (options->goes_on && path && file_has_mark(path, options->mark));
}

/* Sets the path to the first name of the form `name` that is unused, or used only by the run that `resume`
 * (NULL: none) continues. */
static bool count_up(train_options *options, const char *name, const char *resume) {
    char *path = options->path;
    for (unsigned number = 1; path_numbered(name, number, path, sizeof options->path); number++) {
        if (!path_there(path)) return true;
        options->replaces = options->common.overwrite || (resume && same_training(path, resume));
        if (options->replaces) return true;
    }
    return false;
}

bool train_choose_path(train_options *options, const training_setup *setup) {
    const char *resume = options->resume, *wanted = options->save;
    char name[200];
    if (!wanted && resume && !is_checkpoint(resume)) wanted = resume;
    snprintf(name, sizeof name, path_is_onnx(setup->source) ? "%s-trained.onnx" : "%s.safetensors",
             kn_model_name(setup->model));
    if (!wanted && !count_up(options, name, resume)) return false;
    if (wanted && !path_numbered(wanted, 1, options->path, sizeof options->path)) return false;
    if (wanted) options->replaces = options->common.overwrite || (resume && same_training(wanted, resume));
    return path_writable(options->path, PATH_WHOLE, options->replaces);
}

bool train_save(training_setup *setup, kn_trainer *trainer, train_options *options) {
    train_settings settings;
    kn_model_pair pairs[TRAIN_PAIRS];
    kn_model_save_params params;
    kn_model_save_params_init(&params);
    params.training = true;
    params.pairs = pairs;
    params.pair_count = train_pairs(setup, options, &settings, pairs);
    kn_states *states = kn_trainer_states(trainer);
    char path[sizeof options->path];
    /* Another program may have written this file in the meantime. */
    strcpy(path, options->path);
    if (!options->replaces && !count_up(options, path, NULL)) return false;
    strcpy(path, options->path);
    kn_status status = path_is_onnx(path) ? kn_model_save_onnx(setup->model, path, states, &params)
                                          : kn_model_save(setup->model, path, states, &params);
    if (status == KN_OK) return true;
    return command_error("%s", kn_model_error(setup->model));
}

/* ---- measured statistics ----------------------------------------------------------------------------- */

static bool set_state(kn_states *states, const char *name, const float *numbers, int64_t count) {
    const kn_tensor_info info = {KN_FLOAT32, 1, {count}};
    return kn_states_set(states, name, &info, numbers, (size_t)count * sizeof *numbers) == KN_OK ||
           command_error("%s", kn_states_error(states));
}

bool train_measure(training_setup *setup, kn_trainer *trainer) {
    const kn_dataset *dataset = setup->train ? setup->train : setup->all;
    for (size_t i = 0; i < kn_model_input_count(setup->model); i++) {
        const kn_value *input = kn_model_input_at(setup->model, i);
        char mean[256], deviation[256];
        size_t field;
        snprintf(mean, sizeof mean, "%s.mean", kn_value_name(input));
        snprintf(deviation, sizeof deviation, "%s.deviation", kn_value_name(input));
        if (!kn_graph_find(kn_model_graph(setup->model), deviation)) continue;
        int64_t channels = kn_value_dimension(input, 1);
        float *numbers = malloc(2 * (size_t)channels * sizeof *numbers);
        bool fine =
            numbers && kn_dataset_find_field(dataset, kn_value_field(input), &field) &&
            kn_dataset_statistics(dataset, field, numbers, numbers + channels, (size_t)channels) == KN_OK;
        if (!fine) command_fail("'%s' cannot be measured for standardize", kn_value_name(input));
        kn_states *states = kn_trainer_states(trainer);
        fine = fine && set_state(states, mean, numbers, channels) &&
               set_state(states, deviation, numbers + channels, channels);
        free(numbers);
        if (!fine) return false;
    }
    return true;
}

/* ---- weights ---------------------------------------------------------------------------------------- */

bool train_load_training(training_setup *setup, kn_trainer *trainer, const char *path, uint64_t *done) {
    kn_model_load_params params;
    kn_model_load_params_init(&params);
    params.training = true;
    uint32_t steps = 0;
    if (kn_model_load(setup->model, path, kn_trainer_states(trainer), &params, NULL) != KN_OK)
        return command_error("%s", kn_model_error(setup->model));
    if (kn_states_get(kn_trainer_states(trainer), "koine.step", &steps, sizeof steps) != KN_OK || !steps)
        return command_error(
            "'%s' has weights, but no training state to resume; --init starts a new training run from them",
            path);
    kn_trainer_set_steps(trainer, *done = steps);
    /* --ema saves the averages under the names of the weights. */
    if (kn_trainer_use_averages(trainer, false) == KN_OK) return true;
    return command_error("%s", kn_trainer_error(trainer));
}

/* Loads the matching weights of another file (--init), or all weights of the model's file. */
static bool load_weights(training_setup *setup, kn_trainer *trainer, const char *path) {
    kn_model_load_params params;
    kn_model_load_params_init(&params);
    params.incomplete = path != NULL;
    int loaded = 0;
    if (kn_model_load(setup->model, path, kn_trainer_states(trainer), &params, &loaded) != KN_OK)
        return command_error("%s", kn_model_error(setup->model));
    if (path && !loaded)
        return command_error("nothing in '%s' has the name and the shape of a parameter of '%s'", path,
                             kn_model_name(setup->model));
    if (path)
        command_info("loaded %d parameters and statistics from %s; the others are initialized", loaded, path);
    return true;
}

bool train_load(training_setup *setup, kn_trainer *trainer, const train_options *options) {
    uint64_t steps;
    /* Pretrained weights include the description of their data. */
    if (!options->resume)
        return train_measure(setup, trainer) && ((!options->init && !kn_model_has_weights(setup->model)) ||
                                                 load_weights(setup, trainer, options->init));
    if (!moments_fit(options, options->resume)) return false;
    if (!train_load_training(setup, trainer, options->resume, &steps)) return false;
    if (!compare_settings(setup, options, options->resume)) return false;
    command_info("resuming after step %llu", (unsigned long long)steps);
    return true;
}
