/* The files of koine train: initial weights, and the model that is written. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train.h"

/* ---- training settings stored in the file --------------------------------------------------- */

/* Settings other than the trainer's. */
enum {
    DATA,
    BATCH,
    SEED,
    VALIDATION,
    SHUFFLE,
    DROP_LAST,
    LOSS,
    MATH,
    AUGMENT,
    OVERSAMPLE,
    CLASS_WEIGHTS,
    PRECISION,
    GROUPS,
    MILESTONES,
    SHARDS,
    WORKERS,
    LORA,
    LENGTH,
    LOSS_ON,
    OWN_KEYS
};
static const char *const own_keys[OWN_KEYS] = {
    [DATA] = "data",
    [BATCH] = "batch",
    [SEED] = "seed",
    [VALIDATION] = "validation",
    [SHUFFLE] = "shuffle",
    [DROP_LAST] = "drop-last",
    [LOSS] = "loss",
    [MATH] = "math",
    [AUGMENT] = "augment",
    [OVERSAMPLE] = "oversample",
    [PRECISION] = "precision",
    [GROUPS] = "groups",
    [SHARDS] = "shards",
    [WORKERS] = "workers",
    [LORA] = "lora",
    [LENGTH] = "length",
    [LOSS_ON] = "loss-on",
    [MILESTONES] = "milestones",
    [CLASS_WEIGHTS] = "class-weights",
};

static const char *yes_no(bool yes) {
    return yes ? "yes" : "no";
}

/* The key of a setting in files: "train.lr". Those of the trainer follow the others; false past the last.
 * *setting: of the trainer; its name is NULL for others, and for those that do not change results, which are
 * not stored. */
static bool key_at(size_t position, char key[TRAIN_KEY_BYTES], kn_trainer_setting *setting) {
    *setting = (kn_trainer_setting)KN_TRAINER_SETTING_DEFAULTS;
    if (position >= OWN_KEYS && !kn_trainer_setting_at(position - OWN_KEYS, setting)) return false;
    const char *name = position < OWN_KEYS ? own_keys[position] : setting->option;
    snprintf(key, TRAIN_KEY_BYTES, "train.%s", name ? name : setting->name);
    for (char *at = key; (at = strchr(at, '_'));)
        *at = '-';
    if (setting->same_result) setting->name = NULL;
    return true;
}

static void write_own(const training_setup *setup, const train_options *options,
                      char (*values)[TRAIN_SETTING_BYTES]) {
    const train_config *config = &options->config;
    const size_t room = TRAIN_SETTING_BYTES;
    char most[40] = "", falls[TRAIN_SETTING_BYTES] = "none";
    if (options->validate_samples != UINT64_MAX)
        snprintf(most, sizeof most, ", at most %llu samples", (unsigned long long)options->validate_samples);
    snprintf(values[DATA], room, "%s", options->data);
    if (options->lora) snprintf(values[LORA], room, "%s", options->lora);
    if (options->length) snprintf(values[LENGTH], room, "%llu", (unsigned long long)options->length);
    if (options->loss_on) snprintf(values[LOSS_ON], room, "%s", options->loss_on);
    snprintf(values[BATCH], room, "%llu", (unsigned long long)options->batch);
    snprintf(values[SEED], room, "%llu", (unsigned long long)options->seed);
    snprintf(values[VALIDATION], room, "none");
    if (!options->unvalidated) snprintf(values[VALIDATION], room, "%.9g%s", options->validation, most);
    snprintf(values[SHUFFLE], room, "%s%s", yes_no(!options->in_sequence && !options->no_shuffle),
             options->in_sequence ? ", in sequence" : "");
    snprintf(values[DROP_LAST], room, "%s", yes_no(options->drop_last));
    snprintf(values[LOSS], room, "%s", options->loss ? options->loss : "the model's own");
    snprintf(values[MATH], room, "%s", options->common.arithmetic.exact ? "exact" : "fast");
    snprintf(values[AUGMENT], room, "%s", setup_augment(setup));
    snprintf(values[OVERSAMPLE], room, "%s", yes_no(options->oversample));
    snprintf(values[CLASS_WEIGHTS], room, "%s", options->class_weights ? options->class_weights : "none");
    snprintf(values[PRECISION], room, "%s", kn_precision_name(options->common.arithmetic.precision));
    snprintf(values[GROUPS], room, "%s%s%s",
             config->groups   ? config->groups
             : config->freeze ? ""
                              : "none",
             config->freeze ? " frozen: " : "", config->freeze ? config->freeze : "");
    snprintf(values[MILESTONES], room, "%s", config->milestones ? config->milestones : falls);
    snprintf(values[SHARDS], room, "%llu",
             options->crew.shards == UINT64_MAX ? 1 : (unsigned long long)options->crew.shards);
    if (options->how.sync_every) snprintf(values[WORKERS], room, "%d", options->crew.count);
}

/* Settings that are not used get an empty text. */
static void write_settings(const training_setup *setup, const train_options *options,
                           train_settings *settings) {
    kn_trainer_setting setting;
    memset(settings, 0, sizeof *settings);
    write_own(setup, options, settings->values);
    for (size_t i = 0; i < TRAIN_SETTINGS && key_at(i, settings->keys[i], &setting); i++)
        if (setting.name && kn_trainer_params_use(&options->how, setting.name))
            kn_trainer_params_get(&options->how, setting.name, settings->values[i], TRAIN_SETTING_BYTES);
}

/* Resumed training keeps the number of shards unless --shards is given. */
bool train_take_shards(train_options *options) {
    if (!options->resume || options->crew.shards != UINT64_MAX) return true;
    kn_safetensors_file *saved = kn_safetensors_file_open(options->resume, NULL);
    const char *before = kn_safetensors_file_metadata(saved, "train.shards");
    const unsigned long shards = before ? strtoul(before, NULL, 10) : 1;
    kn_safetensors_file_destroy(&saved);
    if (shards > 1 && shards <= WORKER_SHARDS) options->crew.shards = shards;
    if (options->crew.shards == UINT64_MAX || options->crew.shards >= (uint64_t)options->crew.device_count)
        return true;
    return command_error(
        "'%s' was trained with %lu shards, fewer than %d devices: use fewer devices, or give "
        "--shards %d for a different result",
        options->resume, shards, options->crew.device_count, WORKERS_MOST);
}

/* Whether the moments in a file are of the type of this training or can be converted to it, which must have
 * been requested. Reports otherwise. */
static bool moments_fit(const train_options *options, const char *path) {
    kn_safetensors_file *saved = kn_safetensors_file_open(path, NULL);
    const char *before = kn_safetensors_file_metadata(saved, "train.optimizer-dtype");
    const char *now = kn_moments_name(options->how.moments), *bits = kn_moments_name(KN_MOMENTS_8BIT);
    bool good = true;
    if (before && strcmp(before, now) && (!strcmp(before, bits) || !strcmp(now, bits)))
        good = command_error(
            "'%s' was trained with optimizer state in %s, which cannot be converted to %s: give "
            "--optimizer-dtype %s, or --init %s to start a new training run from its weights",
            path, before, now, before, path);
    else if (before && strcmp(before, now) && !config_gives(&options->config, "moments"))
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
    write_settings(setup, options, &settings);
    for (int i = 0; i < TRAIN_SETTINGS && good; i++) {
        const char *key = settings.keys[i], *value = settings.values[i];
        const char *before = value[0] ? kn_safetensors_file_metadata(saved, key) : NULL;
        if (!before || !strcmp(before, value)) continue;
        if (i == PRECISION && !options->common.precision)
            good = command_error(
                "'%s' was trained in %s: give --precision %s to keep it, or --precision %s to change it",
                path, before, before, value);
        else
            command_warn("warning: '%s' was trained with %s %s, and now it is %s: the result will differ "
                         "from an uninterrupted run",
                         path, key + strlen("train."), before, value);
    }
    kn_safetensors_file_destroy(&saved);
    return good;
}

size_t train_pairs(const training_setup *setup, const train_options *options, train_settings *settings,
                   kn_model_pair *pairs) {
    size_t count = 0;
    write_settings(setup, options, settings);
    for (size_t i = 0; i < TRAIN_SETTINGS; i++)
        if (settings->values[i][0]) pairs[count++] = (kn_model_pair){settings->keys[i], settings->values[i]};
    /* Metadata that `generate`, `infer` and later training need: for reading text and tables, and class
     * names. */
    const char *vocabulary = kn_dataset_vocabulary(setup->all), *columns = kn_dataset_columns(setup->all);
    if (options->crew.kept_deal[0])
        pairs[count++] = (kn_model_pair){SHARD_COUNTS_KEY, options->crew.kept_deal};
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
    bool same = saved_setting(&before, "train.data")[0] && saved_steps(&before) <= saved_steps(&after);
    kn_trainer_setting setting;
    char key[TRAIN_KEY_BYTES];
    for (size_t i = 0; same && key_at(i, key, &setting); i++)
        same = !strcmp(saved_setting(&before, key), saved_setting(&after, key));
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
    const kn_trainer_params *how = &options->config.params;
    snprintf(text, sizeof text, "%s %s %s %s %.9g %.9g %llu %llu", kn_model_name(setup->model), options->data,
             options->loss ? options->loss : "", kn_optimizer_name(how->optimizer), how->learning_rate,
             options->validation, (unsigned long long)options->seed, (unsigned long long)options->batch);
    snprintf(options->outputs.mark, sizeof options->outputs.mark, "%016llx",
             (unsigned long long)text_hash(text));
}

bool train_replaces(const train_options *options, const char *path) {
    return options->common.overwrite ||
           (options->goes_on && path && file_has_mark(path, options->outputs.mark));
}

/* Sets the path to the first name of the form `name` that is unused, or used only by the run that `resume`
 * (NULL: none) continues. */
static bool count_up(train_options *options, const char *name, const char *resume) {
    char *path = options->outputs.path;
    for (unsigned number = 1; path_numbered(name, number, path, sizeof options->outputs.path); number++) {
        if (!path_there(path)) return true;
        options->outputs.replaces = options->common.overwrite || (resume && same_training(path, resume));
        if (options->outputs.replaces) return true;
    }
    return false;
}

/* With --lora, names without an ending are folders, as PEFT reads them. */
static bool is_adapter_folder(const char *path) {
    return !path_ends(path, ".safetensors", false) && !path_ends(path, ".gguf", false);
}

bool train_saves_state(const train_options *options) {
    return !options->adapter.given || path_ends(options->outputs.path, ".safetensors", false);
}

static bool choose_folder(train_options *options, const char *folder) {
    char config[RUN_PATH];
    if (snprintf(options->outputs.path, RUN_PATH, "%s", folder) >= RUN_PATH ||
        snprintf(config, sizeof config, "%s/adapter_config.json", folder) >= RUN_PATH)
        return command_error("'%.60s…' is too long a name for a folder", folder);
    options->outputs.replaces = true;
    if (!options->common.overwrite && path_there(config))
        return command_error("'%s' has an adapter: replace it with --overwrite, or choose another folder",
                             folder);
    return folder_writable(folder);
}

bool train_choose_path(train_options *options, const training_setup *setup) {
    const char *resume = options->resume, *wanted = options->outputs.save;
    char name[200];
    if (!wanted && resume && !is_checkpoint(resume)) wanted = resume;
    if (wanted && setup->lora && is_adapter_folder(wanted)) return choose_folder(options, wanted);
    snprintf(name, sizeof name,
             setup->lora                   ? "%s-lora.safetensors"
             : path_is_onnx(setup->source) ? "%s-trained.onnx"
                                           : "%s.safetensors",
             kn_model_name(setup->model));
    if (!wanted && !count_up(options, name, resume)) return false;
    if (wanted && !path_numbered(wanted, 1, options->outputs.path, sizeof options->outputs.path))
        return false;
    if (wanted)
        options->outputs.replaces = options->common.overwrite || (resume && same_training(wanted, resume));
    return path_writable(options->outputs.path, PATH_WHOLE, options->outputs.replaces);
}

/* An adapter that the chosen kind of file cannot have is saved as Koine's own, so that no training is lost.
 */
static bool save_instead(training_setup *setup, kn_states *states, const kn_model_save_params *params,
                         train_options *options) {
    char name[sizeof options->outputs.path];
    snprintf(name, sizeof name, "%.*s.safetensors", (int)(sizeof name - 16), options->outputs.path);
    if (!count_up(options, name, NULL)) return command_error("%s", kn_model_error(setup->model));
    command_warn("%s", kn_model_error(setup->model));
    return kn_model_save(setup->model, options->outputs.path, states, params) == KN_OK ||
           command_error("%s", kn_model_error(setup->model));
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
    char path[sizeof options->outputs.path];
    /* Another program may have written this file in the meantime. */
    strcpy(path, options->outputs.path);
    if (!options->outputs.replaces && !count_up(options, path, NULL)) return false;
    strcpy(path, options->outputs.path);
    kn_status status = !train_saves_state(options) ? kn_model_save_adapter(setup->model, path, states)
                       : path_is_onnx(path)        ? kn_model_save_onnx(setup->model, path, states, &params)
                                                   : kn_model_save(setup->model, path, states, &params);
    if (status == KN_OK) return true;
    if (!train_saves_state(options)) return save_instead(setup, states, &params, options);
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
    if (path && setup->lora) {
        if (kn_model_load_adapter(setup->model, path, kn_trainer_states(trainer)) != KN_OK)
            return command_error("--init: %s", kn_model_error(setup->model));
        command_info("loaded the adapter %s", path);
        return true;
    }
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
    /* The files of adapters lack what they do not train. */
    if (setup->lora && (options->resume || options->init) && kn_model_has_weights(setup->model) &&
        !load_weights(setup, trainer, NULL))
        return false;
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
