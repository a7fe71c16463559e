/* Opens a model, its loss and its data together, and reports mismatches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "training.h"

#include <koine/images.h>

const char *const loss_words[] = {"cross-entropy",
                                  "nll",
                                  "mse",
                                  "l1",
                                  "huber",
                                  "smooth-l1",
                                  "binary-cross-entropy",
                                  "probability-cross-entropy",
                                  "kl-divergence",
                                  "hinge"};
const int loss_word_count = sizeof loss_words / sizeof *loss_words;

const char *const bn_words[BN_WORDS] = {"batch", "frozen"};

const char *setup_augment(const training_setup *setup) {
    const char *text = setup->augment ? setup->augment : kn_model_augmentation(setup->model);
    return text[0] ? text : "none";
}

/* Adds the loss that matches the augmentation. */
static kn_status add_loss(training_setup *setup) {
    char message[300];
    setup->augmentation = (kn_augmentation)KN_AUGMENTATION_DEFAULTS;
    if (setup->changes)
        kn_augmentation_read(setup_augment(setup), &setup->augmentation, message,
                             sizeof message); /* validated before */
    const bool mixed = setup->augmentation.mix_up != 0 || setup->augmentation.cut_mix != 0;
    return (mixed ? kn_model_add_mixed_loss : kn_model_add_weighted_loss)(
        setup->model, setup->loss_asked, setup->class_weights, setup->weight_count, &setup->loss);
}

/* ---- the model ----------------------------------------------------------------------------------- */

/* Sets the inputs of an ONNX file to the sizes of the data, and the batch to the file's batch. Returns
 * whether there are any sizes. */
static bool give_sizes(training_setup *setup, const kn_dataset *data) {
    const int count = kn_onnx_file_input_count(setup->file);
    for (int i = 0; i < count && setup->given_count < SETUP_FIELDS; i++) {
        const char *type, *name = kn_onnx_file_input_at(setup->file, i, &type);
        kn_model_given given = {.name = name};
        kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
        size_t index;
        if (!kn_dtype_parse(type, &given.info.dtype) ||
            !kn_dataset_find_field(data, count == 1 ? "x" : name, &index) ||
            !kn_dataset_field_at(data, index, &field) || field.info.rank == KN_MAX_RANK)
            continue;
        given.info.rank = field.info.rank + 1;
        given.info.shape[0] = -1;
        memcpy(given.info.shape + 1, field.info.shape, (size_t)field.info.rank * sizeof *field.info.shape);
        setup->given[setup->given_count++] = given;
    }
    return setup->given_count > 0;
}

/* Sets the inputs of an ONNX file, except their first dimension, to the shapes of the tensors of the input
 * file. Returns false after reporting an error. */
static bool sizes_of_input(training_setup *setup) {
    kn_safetensors_file *input = kn_safetensors_file_open(setup->input, NULL);
    bool fine = kn_safetensors_file_status(input) == KN_OK;
    if (!fine) command_fail("--input: %s", input ? kn_safetensors_file_error(input) : "out of memory");
    setup->file = kn_onnx_file_open(setup->source, NULL);
    const size_t count = fine ? kn_onnx_file_input_count(setup->file) : 0;
    for (size_t i = 0; i < count && setup->given_count < SETUP_FIELDS; i++) {
        const char *type, *name = kn_onnx_file_input_at(setup->file, i, &type);
        kn_model_given given = {.name = name};
        if (!kn_safetensors_file_info(input, name, &given.info) || !given.info.rank ||
            !kn_dtype_parse(type, &given.info.dtype))
            continue;
        given.info.shape[0] = -1;
        setup->given[setup->given_count++] = given;
    }
    kn_safetensors_file_destroy(&input);
    return fine;
}

/* For a file that cannot be opened while sizes are open: whether there is data, which determines them. */
static bool sizes_of_data(training_setup *setup) {
    const char *type = NULL;
    kn_dataset_params params;
    if (!setup->data || setup->file) return false;
    setup->file = kn_onnx_file_open(setup->source, NULL);
    kn_dataset_params_init(&params);
    params.images = kn_images_reader();
    params.archives = kn_images_archives();
    params.skip_bad = setup->skip_bad;
    params.cache_bytes = setup->cache;
    params.tokens = kn_onnx_file_input_at(setup->file, 0, &type) && strstr(type, "int");
    kn_dataset *data = kn_dataset_open(setup->data, &params);
    const bool given = kn_dataset_status(data) == KN_OK && give_sizes(setup, data);
    kn_dataset_destroy(&data);
    return given;
}

static kn_status try_open(training_setup *setup, const kn_model_setting *settings, size_t count) {
    kn_model_params params;
    kn_model_params_init(&params);
    params.settings = settings;
    params.setting_count = count;
    params.given = setup->given;
    params.given_count = setup->given_count;
    params.frozen_statistics = setup->frozen_statistics;
    params.narrow_integers = true;
    kn_model_destroy(&setup->model);
    setup->model = kn_model_open(setup->source, &params);
    const kn_status status = kn_model_status(setup->model);
    return status == KN_OK && !kn_model_bound(setup->model) ? KN_ERROR_SHAPE : status;
}

/* The sizes that a file left open at the first attempt. */
typedef struct open_names {
    char names[32][128];
    bool first[32]; /* an input begins with it */
    int count;
} open_names;

static void list_open(const training_setup *setup, open_names *list) {
    const char *name;
    for (list->count = 0; list->count < 32; list->count++) {
        name = kn_model_open_size_at(setup->model, list->count, &list->first[list->count]);
        if (!name) return;
        snprintf(list->names[list->count], sizeof *list->names, "%s", name);
    }
}

/* Opens it again with a number for all of these sizes, or only for sample counts, and for the batch if that
 * helps. */
static kn_status open_with(training_setup *setup, const kn_model_setting *settings, size_t own,
                           const open_names *open, int64_t number, bool all) {
    kn_model_setting more[sizeof setup->settings / sizeof *setup->settings + 33];
    kn_status status = kn_model_bound(setup->model) ? KN_OK : KN_ERROR_SHAPE;
    size_t count = own;
    memcpy(more, settings, own * sizeof *settings);
    for (int i = 0; i < open->count; i++)
        if (all || open->first[i]) more[count++] = (kn_model_setting){open->names[i], number};
    if (count == own) return status;
    status = try_open(setup, more, count);
    if (status != KN_ERROR_SHAPE && status != KN_ERROR_UNSUPPORTED) return status;
    more[count++] = (kn_model_setting){"batch", number};
    return try_open(setup, more, count) == KN_OK ? KN_OK : try_open(setup, more, count - 1);
}

/* The names that must be set: "height=N,width=N"; "" if none. */
static const char *open_settings(const training_setup *setup, char *text, size_t room) {
    const char *name;
    text[0] = '\0';
    for (int i = 0; (name = kn_model_open_size_at(setup->model, i, NULL)); i++)
        snprintf(text + strlen(text), room - strlen(text), "%s%s=N", i ? "," : "", name);
    return text;
}

static bool open_bare(training_setup *setup, const kn_model_setting *settings, size_t count) {
    const bool onnx = path_is_onnx(setup->source);
    if (onnx && setup->input && !sizes_of_input(setup)) return false;
    kn_status status = try_open(setup, settings, count);
    if ((status == KN_ERROR_SHAPE || status == KN_ERROR_UNSUPPORTED) && onnx && sizes_of_data(setup))
        status = try_open(setup, settings, count);
    static const int64_t guesses[] = {64, 32, 224, 16, 128, 256, 8, 1};
    open_names open;
    list_open(setup, &open);
    if (setup->batch > 0) status = open_with(setup, settings, count, &open, setup->batch, false);
    for (size_t i = 0; setup->any_sizes && status != KN_OK && i < sizeof guesses / sizeof *guesses; i++)
        status = open_with(setup, settings, count, &open, guesses[i], true);
    if (status == KN_OK) return true;
    char line[600] = "";
    if (status == KN_ERROR_SHAPE || status == KN_ERROR_UNSUPPORTED) open_settings(setup, line, sizeof line);
    return command_error("%s%s%s", setup->model ? kn_model_error(setup->model) : "out of memory",
                         line[0] ? "; sizes that the file leaves open take numbers from --set " : "", line);
}

static bool open_model(training_setup *setup, const kn_model_setting *settings, size_t count) {
    if (!open_bare(setup, settings, count)) return false;
    if (setup->lora && kn_model_adapt(setup->model, setup->lora) != KN_OK)
        return command_error("--lora: %s", kn_model_error(setup->model));
    if (setup->adapter && kn_model_open_adapter(setup->model, setup->adapter) != KN_OK)
        return command_error("--adapter: %s", kn_model_error(setup->model));
    setup->loss = (kn_model_loss){.size = sizeof setup->loss};
    setup->loss_kind = setup->loss_asked ? setup->loss_asked : kn_model_loss_name(setup->model);
    if (add_loss(setup) != KN_OK) return command_error("%s", kn_model_error(setup->model));
    setup->loss_name = kn_value_name(setup->loss.eval_loss);
    setup->accuracy = setup->loss.accuracy;
    setup->accuracy_name = setup->accuracy ? kn_value_name(setup->accuracy) : NULL;
    return true;
}

bool setup_settings(training_setup *setup, const char *text) {
    if (!text) return true;
    free(setup->set_text);
    setup->set_text = malloc(strlen(text) + 1);
    if (!setup->set_text) return command_error("out of memory");
    strcpy(setup->set_text, text);
    for (char *at = setup->set_text, *comma; at; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        if (comma) *comma = '\0';
        char *equals = strchr(at, '='), *end = NULL;
        long long value = equals ? strtoll(equals + 1, &end, 10) : 0;
        if (!equals || equals == at || end == equals + 1 || *end || setup->setting_count == 32)
            return command_misuse("--set has '%s'; expected NAME=NUMBER, several with commas between", at) ==
                   EXIT_DONE;
        *equals = '\0';
        setup->settings[setup->setting_count++] = (kn_model_setting){at, value};
    }
    return true;
}

int settings_check(const char *text) {
    training_setup setup = {.set_text = NULL};
    bool fine = setup_settings(&setup, text);
    free(setup.set_text);
    return fine ? EXIT_DONE : EXIT_USAGE;
}

bool setup_model(training_setup *setup, const char *model, const char *loss) {
    setup->source = model;
    setup->loss_asked = loss;
    setup->unit = "";
    setup->variance = NAN;
    setup->tokenizer = model_tokenizer(model);
    if (!open_model(setup, setup->settings, setup->setting_count)) return false;
    setup_reading(setup, setup->model);
    return true;
}

bool setup_bare_model(training_setup *setup, const char *model) {
    setup->source = model;
    return open_bare(setup, setup->settings, setup->setting_count);
}

/* ---- sizes that the model leaves open ------------------------------------------------------------ */

bool open_size(const kn_value *value, int axis, char *name, size_t room) {
    char text[256];
    name[0] = '\0';
    if (kn_value_dimension(value, axis) >= 0 || kn_value_shape_text(value, text, sizeof text) >= sizeof text)
        return false;
    const char *at = text;
    for (int i = 0; i < axis && at; i++)
        at = (at = strchr(at, ',')) ? at + 1 : NULL;
    if (!at || strcspn(at, ",") >= room) return false;
    snprintf(name, room, "%.*s", (int)strcspn(at, ","), at);
    return true;
}

bool setup_sizes_known(const training_setup *setup) {
    char name[128], shape[256], list[900] = "", settings[400] = "";
    const bool onnx = path_is_onnx(setup->source);
    int count = 0;
    for (size_t i = 0; i < kn_model_input_count(setup->model); i++) {
        const kn_value *input = kn_model_input_at(setup->model, i);
        for (int d = 0; d < kn_value_rank(input); d++) {
            char line[160];
            if (!open_size(input, d, name, sizeof name) || !strcmp(name, "batch")) continue;
            snprintf(line, sizeof line, onnx ? ",%s=N" : ",`set %s N`", name);
            if (strstr(settings, line)) continue;
            kn_value_shape_text(input, shape, sizeof shape);
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s'%s' of its input '%s' (%s)",
                     count ? ", " : "", name, kn_model_input_name_at(setup->model, i), shape);
            snprintf(settings + strlen(settings), sizeof settings - strlen(settings), "%s", line);
            count++;
        }
    }
    if (!count) return true;
    return command_error("the model '%s' leaves %s open, which only data would determine: %s%s%s %s a number",
                         kn_model_name(setup->model), list,
                         onnx        ? "--set "
                         : count > 1 ? "lines "
                                     : "a line ",
                         settings + 1, onnx ? "" : " of its text", count > 1 ? "give each" : "gives it");
}

/* The bytes of a batch determine one open size. If there are more, open the model with the sizes of the
 * data. */
static bool fit_sizes(training_setup *setup) {
    enum { MOST = sizeof setup->settings / sizeof *setup->settings };
    char names[MOST][128];
    size_t count = setup->setting_count;
    if (!path_is_onnx(setup->source)) return true;
    for (size_t i = 0; i < kn_model_input_count(setup->model); i++) {
        const kn_value *input = kn_model_input_at(setup->model, i);
        kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
        size_t index;
        if (!kn_dataset_find_field(setup->all, kn_value_field(input), &index) ||
            !kn_dataset_field_at(setup->all, index, &field) || field.info.rank + 1 != kn_value_rank(input))
            continue;
        for (int d = 1; d < kn_value_rank(input) && count < MOST; d++) {
            if (!open_size(input, d, names[count], sizeof *names)) continue;
            setup->settings[count] = (kn_model_setting){names[count], field.info.shape[d - 1]};
            count++;
        }
    }
    return count < setup->setting_count + 2 || open_model(setup, setup->settings, count);
}

int64_t setup_fixed_batch(const training_setup *setup) {
    const kn_value *input = kn_model_input_at(setup->model, 0);
    char name[128];
    if (!path_is_onnx(setup->source) || kn_value_rank(input) < 1) return -1;
    for (size_t i = 0; i < kn_model_input_count(setup->model); i++) {
        const kn_value *other = kn_model_input_at(setup->model, i);
        for (int d = 0; d < kn_value_rank(other); d++)
            if (open_size(other, d, name, sizeof name) && !strcmp(name, "batch")) return -1;
    }
    return kn_value_dimension(input, 0);
}

bool setup_batch_fits(const training_setup *setup, uint64_t batch) {
    const int64_t fixed = setup_fixed_batch(setup);
    if (fixed < 0 || (uint64_t)fixed == batch) return true;
    return command_error(
        "the file of the model '%s' has a fixed batch of %lld, not %llu: give --batch %lld, or export "
        "it with a dynamic batch (dynamic_axes or dynamic_shapes of torch.onnx.export)",
        kn_model_name(setup->model), (long long)fixed, (unsigned long long)batch, (long long)fixed);
}

/* Computes class weights; the model must then be opened again for its loss. */
static bool weigh_classes(training_setup *setup, const char *data) {
    size_t count = (size_t)kn_dataset_classes(setup->all);
    free(setup->class_weights);
    setup->class_weights = malloc((count + 1) * sizeof *setup->class_weights);
    if (!setup->class_weights) return command_error("out of memory");
    if (kn_dataset_class_weights(setup->all, setup->class_weights, count) != KN_OK)
        return command_error(
            "--class-weights needs a class for each sample, but the data '%s' has no class labels", data);
    /* A model may have more classes than the data. */
    const kn_value *output = kn_model_output_at(setup->model, 0);
    int64_t answers = kn_value_dimension(output, kn_value_rank(output) - 1);
    if (answers > (int64_t)count) {
        float *more = realloc(setup->class_weights, (size_t)answers * sizeof *more);
        if (!more) return command_error("out of memory");
        setup->class_weights = more;
        while (count < (size_t)answers)
            more[count++] = 1;
    }
    setup->weight_count = count;
    return true;
}

/* The settings `inputs` and `classes` of an untrained model get the sizes of a table; a loss with class
 * weights gets the weights. */
static bool fit_to_table(training_setup *setup, const char *data) {
    kn_model_setting settings[sizeof setup->settings / sizeof *setup->settings + 2];
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    size_t index, count = 0;
    int64_t inputs, classes = kn_dataset_classes(setup->all), own;
    if (!kn_dataset_columns(setup->all) || kn_model_has_weights(setup->model) ||
        !kn_model_setting_value(setup->model, "inputs", &inputs) ||
        !kn_dataset_find_field(setup->all, "x", &index) || !kn_dataset_field_at(setup->all, index, &field))
        return !setup->weighted ||
               (weigh_classes(setup, data) && open_model(setup, setup->settings, setup->setting_count));
    for (; count < setup->setting_count; count++)
        settings[count] = setup->settings[count];
    settings[count++] = (kn_model_setting){"inputs", field.info.shape[0]};
    if (classes > 0 && kn_model_setting_value(setup->model, "classes", &own))
        settings[count++] = (kn_model_setting){"classes", classes};
    if (!open_model(setup, settings, count)) return false;
    return !setup->weighted || (weigh_classes(setup, data) && open_model(setup, settings, count));
}

/* ---- does the data match? ---------------------------------------------------------------------- */

/* A likely cause if the target does not match; "" if none is obvious. */
static const char *target_hint(const training_setup *setup, const kn_dataset_field *field) {
    const kn_value *output = kn_model_output_at(setup->model, 0);
    bool labels = field->info.rank == 0 && field->info.dtype == KN_INT32;
    if (labels && kn_value_dtype(setup->loss.target) == KN_INT32 && kn_value_rank(output) == 4)
        return ". The data has one label per sample, but the model one prediction per position of its "
               "output: a line `flatten` before the last `linear` makes it one per sample. Labels per pixel "
               "are in the data `figures`, or in npy:X.npy,Y.npy with integers (samples,height,width)";
    if (labels && kn_value_dtype(setup->loss.target) == KN_INT32 && kn_value_rank(output) > 2)
        return ". The data has one label per sample, but the model one prediction per position of its "
               "output: a line `flatten` before the last `linear` makes it one per sample";
    if (kn_dataset_columns(setup->all) && labels != (kn_value_dtype(setup->loss.target) == KN_INT32))
        return labels ? ". The column is read as classes, which the model table-classes is for; to read it "
                        "as a number, append ,number to the data"
                      : ". The column is read as a number, which the model table is for; to read it as "
                        "classes, append ,classes to the data";
    if (labels && kn_value_dtype(setup->loss.target) == KN_FLOAT32)
        return ". The data has labels of classes, which the loss cross-entropy is for; this one compares "
               "numbers";
    if (field->info.dtype == KN_FLOAT32 && kn_value_dtype(setup->loss.target) == KN_INT32)
        return ". The data has numbers, which --loss mse is for; this loss is for labels of classes";
    return "";
}

/* The difference between images and the model's input; "" for other mismatches. */
static const char *input_hint(const training_setup *setup, const kn_value *value,
                              const kn_dataset_field *field, char *text, size_t room) {
    const int64_t *sizes = field->info.shape;
    if (kn_value_dtype(value) == KN_INT32) return ". The model reads integers, as in text and text:FILE";
    if (field->info.rank != 3 || kn_value_rank(value) != 4) return "";
    if (!kn_model_has_weights(setup->model) && kn_model_setting_value(setup->model, "channels", NULL) &&
        sizes[1] == sizes[2]) {
        snprintf(text, room,
                 ". Generated images are enlarged, never reduced; --set channels=%lld,size=%lld adapts the "
                 "model to these",
                 (long long)sizes[0], (long long)sizes[1]);
        return text;
    }
    return ". Generated images are enlarged, never reduced; images:FOLDER is scaled to any size, and the "
           "line `input` of the model's text (koine models NAME --text) can be changed";
}

/* Whether the field matches the value from the second dimension on; sets `found` to the field's sizes. */
static bool field_fits(const kn_dataset_field *field, const kn_value *value, char *found, size_t room) {
    bool fits = field->info.dtype == kn_value_dtype(value) && field->info.rank == kn_value_rank(value) - 1;
    found[0] = 0;
    for (int d = 0; d < field->info.rank; d++) {
        int64_t own = fits ? kn_value_dimension(value, d + 1) : -1;
        fits = fits && (own < 0 || own == field->info.shape[d]);
        snprintf(found + strlen(found), room - strlen(found), ",%lld", (long long)field->info.shape[d]);
    }
    return fits;
}

/* Compares the model's input with the data field of the same name ("x"). */
static bool check_field(const training_setup *setup, const char *data, const kn_value *value) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    size_t index;
    char wanted[200], found[200], hint[200];
    const char *name = kn_value_field(value);
    if (!kn_dataset_find_field(setup->all, name, &index) || !kn_dataset_field_at(setup->all, index, &field))
        return command_error(
            "the model '%s' reads an input '%s', but the data '%s' has no field of that name: its fields "
            "are 'x' (input) and 'y' (target)",
            kn_model_name(setup->model), name, data);
    if (field_fits(&field, value, found, sizeof found)) return true;
    kn_value_shape_text(value, wanted, sizeof wanted);
    return command_error(
        "the data '%s' does not match the model '%s': '%s' is %s (batch%s) in the data, but the "
        "model expects %s (%s)%s",
        data, kn_model_name(setup->model), name, kn_dtype_name(field.info.dtype), found,
        kn_dtype_name(kn_value_dtype(value)), wanted,
        value == setup->loss.target ? target_hint(setup, &field)
                                    : input_hint(setup, value, &field, hint, sizeof hint));
}

/* A label without an output would give a NaN loss. */
static bool check_classes(const training_setup *setup, const char *data) {
    const kn_value *output = kn_model_output_at(setup->model, 0);
    int64_t answers = kn_value_dimension(output, kn_value_rank(output) - 1);
    int classes = kn_dataset_classes(setup->all);
    if (kn_value_dtype(setup->loss.target) != KN_INT32 || answers < 0 || classes <= answers) return true;
    char hint[60] = "";
    if (!kn_model_has_weights(setup->model) && kn_model_setting_value(setup->model, "classes", NULL))
        snprintf(hint, sizeof hint, ", as --set classes=%d sets it", classes);
    return command_error(
        "the data '%s' has %d classes, but the output '%s' of the model '%s' has %lld: its last "
        "layer should have %d outputs%s",
        data, classes, kn_value_name(output), kn_model_name(setup->model), (long long)answers, classes, hint);
}

static bool data_fail(const kn_dataset *dataset) {
    return command_error("%s", dataset ? kn_dataset_error(dataset) : "out of memory");
}

/* Opens setup->all. Reports an error, including the model if its classes may be the reason. */
static bool open_data(training_setup *setup, const kn_dataset_params *params) {
    setup->all = kn_dataset_open(setup->data, params);
    const kn_status status = kn_dataset_status(setup->all);
    if (status == KN_ERROR_NOT_FOUND && params->classes)
        return command_error("%s: %s", setup->source, kn_dataset_error(setup->all));
    return status == KN_OK || data_fail(setup->all);
}

bool value_sample(const kn_value *input, kn_tensor_info *sample) {
    *sample = (kn_tensor_info){.dtype = kn_value_dtype(input), .rank = kn_value_rank(input) - 1};
    for (int d = 0; d < sample->rank; d++)
        if ((sample->shape[d] = kn_value_dimension(input, d + 1)) < 0) return false;
    return sample->rank >= 0;
}

bool tokens_are_joined(const char *vocabulary) {
    return vocabulary[0] == 0x1e && strchr(vocabulary + 1, 0x1e);
}

/* The unit and scale of a loss on this data. */
static bool explain_loss(training_setup *setup, const char *data) {
    size_t y;
    const char *tokens = kn_dataset_vocabulary(setup->all);
    if (!tokens && setup->tokenizer && !strcmp(setup->loss_kind, "cross-entropy"))
        setup->unit = " nats per token";
    if (tokens)
        setup->unit = tokens_are_joined(tokens) ? " nats per token"
                      : tokens[0]               ? " nats per character"
                                                : " nats per byte";
    if (strcmp(setup->loss_kind, "mse") ||
        !kn_dataset_find_field(setup->all, kn_value_name(setup->loss.target), &y))
        return true;
    kn_status status = kn_dataset_variance(setup_evaluation_data(setup), y, &setup->variance);
    return status == KN_OK || command_error("the variance of '%s': %s", data, kn_status_message(status));
}

/* Whether the model reconstructs its input and the data has another kind of target: then "x" is also the
 * target. */
static bool answers_itself(const training_setup *setup) {
    kn_dataset_field x = KN_DATASET_FIELD_DEFAULTS, y = KN_DATASET_FIELD_DEFAULTS;
    char found[200];
    const kn_value *target = setup->loss.target;
    return kn_value_dtype(target) == KN_FLOAT32 && kn_dataset_field_at(setup->all, 0, &x) &&
           kn_dataset_field_at(setup->all, 1, &y) &&
           kn_value_rank(target) == kn_value_rank(kn_model_input_at(setup->model, 0)) &&
           field_fits(&x, target, found, sizeof found) && !field_fits(&y, target, found, sizeof found);
}

int bad_sample_check(const char *word, bool *skip) {
    static const char *const words[] = {"fail", "skip"};
    int choice = word ? option_choice("on-bad-sample", word, words, 2) : 0;
    *skip = choice == 1;
    return choice < 0 ? EXIT_USAGE : EXIT_DONE;
}

void print_skipped(const kn_dataset *dataset, const char *part) {
    uint64_t count = kn_dataset_skipped(dataset), told = 0;
    const char *line = kn_dataset_skipped_text(dataset);
    if (!count) return;
    command_warn("left out %llu that could not be read, of the data %s:", (unsigned long long)count, part);
    for (const char *end; *line && told < 20; line = *end ? end + 1 : end, told++) {
        end = line + strcspn(line, "\n");
        command_warn("  %.*s", (int)(end - line), line);
    }
    if (count > told) command_warn("  and %llu more", (unsigned long long)(count - told));
}

/* The names of the model's classes, or their numbers, if each sample has one. */
static bool name_classes(training_setup *setup) {
    enum { MOST = 10000 }; /* readable names */
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    size_t y, used = 0, room = 1;
    const kn_value *output = kn_model_output_at(setup->model, 0);
    const int64_t classes = kn_dataset_classes(setup->all),
                  own = kn_value_dimension(output, kn_value_rank(output) - 1);
    const int count = (int)(own > classes ? own : classes);
    /* no class per sample */
    if (classes < 1 || own > MOST || count > MOST ||
        !kn_dataset_find_field(setup->all, kn_value_name(setup->loss.target), &y) ||
        !kn_dataset_field_at(setup->all, y, &field) || field.info.rank != 0)
        return true;
    for (int i = 0; i < count; i++) {
        const char *name = kn_dataset_class_name(setup->all, i);
        if (name && strchr(name, '\n')) return true; /* cannot be stored on one line */
        room += name ? strlen(name) + 1 : 16;
    }
    if (!(setup->classes = malloc(room))) return command_error("out of memory for the names of classes");
    for (int i = 0; i < count; i++) {
        const char *name = kn_dataset_class_name(setup->all, i), *before = i ? "\n" : "";
        used += name ? (size_t)snprintf(setup->classes + used, room - used, "%s%s", before, name)
                     : (size_t)snprintf(setup->classes + used, room - used, "%s%d", before, i);
    }
    return true;
}

/* Lets the model have several texts per sample, if the data has them. */
static bool pack_model(training_setup *setup) {
    size_t first;
    if (!kn_dataset_find_field(setup->all, "first", &first)) return true;
    return kn_model_pack(setup->model, true) == KN_OK ||
           command_error("%s: %s", setup->data, kn_model_error(setup->model));
}

bool setup_data(training_setup *setup, double share, uint64_t seed) {
    const char *data = setup->data;
    progress_now("opening %s", data);
    /* The input distinguishes models that read integers from models that read images. */
    kn_dataset_params params;
    kn_tensor_info sample;
    kn_dataset_params_init(&params);
    params.expected = value_sample(kn_model_input_at(setup->model, 0), &sample) ? &sample : NULL;
    params.log = warnings_log();
    params.vocabulary = setup->vocabulary;
    params.tokenizer = setup->tokenizer;
    params.all_tokens = setup->all_tokens;
    params.columns = setup->columns;
    params.sample_rate = setup->rate;
    params.images = kn_images_reader();
    params.archives = kn_images_archives();
    params.skip_bad = setup->skip_bad;
    params.cache_bytes = setup->cache;
    params.tokens = kn_value_dtype(kn_model_input_at(setup->model, 0)) == KN_INT32;
    params.labels = kn_value_dtype(setup->loss.target) == KN_INT32;
    params.classes = setup->by_name ? kn_model_metadata(setup->model, "data.classes") : NULL;
    if (!open_data(setup, &params)) return false;
    print_skipped(setup->all, "for training");
    if (kn_dataset_has_test(setup->all)) {
        kn_dataset *test = kn_dataset_test(setup->all);
        print_skipped(test, "for testing");
        kn_dataset_destroy(&test);
    }
    if (!fit_to_table(setup, data) || !fit_sizes(setup) || !pack_model(setup)) return false;
    if (answers_itself(setup)) {
        kn_dataset_destroy(&setup->all);
        params.target_is_input = true;
        if (!open_data(setup, &params)) return false;
    }
    for (size_t i = 0; i < kn_model_input_count(setup->model); i++)
        if (!check_field(setup, data, kn_model_input_at(setup->model, i))) return false;
    if (!check_field(setup, data, setup->loss.target) || !check_classes(setup, data)) return false;
    if (share > 0) {
        if (kn_dataset_split(setup->all, share, seed, &setup->train, &setup->validation) != KN_OK)
            return data_fail(setup->train);
    } else if (kn_dataset_has_test(setup->all)) {
        setup->validation = kn_dataset_test(setup->all);
        if (kn_dataset_status(setup->validation) != KN_OK) return data_fail(setup->validation);
    }
    return name_classes(setup) && explain_loss(setup, data);
}

size_t setup_sizes(const training_setup *setup, int64_t batch, bool bytes, kn_feed feeds[SETUP_FIELDS]) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    size_t count = 0;
    for (; count < SETUP_FIELDS && kn_dataset_field_at(setup->all, count, &field); count++) {
        const bool as_bytes = bytes && field.scale != 0;
        const size_t size = as_bytes ? field.bytes / sizeof(float) : field.bytes;
        feeds[count] = (kn_feed){field.name, NULL, size * (size_t)batch, as_bytes ? field.scale : 0};
    }
    return count;
}

static void keep_text(char **kept, const char *text) {
    if (!text) return;
    free(*kept);
    *kept = malloc(strlen(text) + 1);
    if (*kept) strcpy(*kept, text);
}

uint64_t model_rate(const kn_model *model) {
    const char *text = kn_model_metadata(model, "data.rate");
    return text ? strtoull(text, NULL, 10) : 0;
}

void setup_reading(training_setup *setup, const kn_model *saved) {
    keep_text(&setup->vocabulary, kn_model_metadata(saved, "data.vocabulary"));
    keep_text(&setup->columns, kn_model_metadata(saved, "data.columns"));
    if (model_rate(saved)) setup->rate = model_rate(saved);
}

/* ---- evaluation ------------------------------------------------------------------------------------ */

bool setup_has_output(const training_setup *setup) {
    return !setup->tokenizer;
}

kn_session *setup_evaluation(training_setup *setup, kn_context *context, kn_states *states,
                             const arithmetic *how, bool whole) {
    kn_value *values[3] = {setup->loss.eval_loss};
    size_t count = 1;
    if (setup->accuracy) values[count++] = setup->accuracy;
    if (whole && setup_has_output(setup)) values[count++] = kn_model_output_at(setup->model, 0);
    kn_session *session = batch_session(context, values, count, states, how, NULL);
    if (kn_session_status(session) == KN_OK) return session;
    command_fail("%s", session ? kn_session_error(session) : "out of memory");
    kn_session_destroy(&session);
    return NULL;
}

const kn_dataset *setup_evaluation_data(const training_setup *setup) {
    return setup->validation ? setup->validation : setup->all;
}

double setup_r2(const training_setup *setup, const kn_score *score) {
    return score->samples && setup->variance > 0 ? 1 - score->loss / setup->variance : NAN;
}

const char *setup_quality(const training_setup *setup, const kn_score *score, const char *before, char *text,
                          size_t room) {
    double r2 = setup_r2(setup, score), most = kn_dataset_max_r2(setup->all);
    text[0] = 0;
    if (r2 < 0)
        snprintf(text, room, "%sR2 %.4f, worse than answering the mean", before, r2);
    else if (isfinite(r2) && isfinite(most))
        snprintf(text, room, "%sR2 %.4f, %.1f%% of what can be explained", before, r2, 100 * r2 / most);
    else if (isfinite(r2))
        snprintf(text, room, "%sR2 %.4f", before, r2);
    else if (score->samples && isfinite(score->accuracy))
        snprintf(text, room, "%saccuracy %.2f%%", before, 100 * score->accuracy);
    return text;
}

void setup_finish(training_setup *setup) {
    free(setup->vocabulary);
    free(setup->columns);
    free(setup->classes);
    free(setup->class_weights);
    free(setup->set_text);
    kn_dataset_destroy(&setup->train);
    kn_dataset_destroy(&setup->validation);
    kn_dataset_destroy(&setup->all);
    kn_model_destroy(&setup->model);
    kn_onnx_file_destroy(&setup->file);
}
