/* koine infer with an ONNX file: whole input and output arrays, by name; a batch at a time if all arrays have
 * a row per sample. A file whose graph depends on values that it computes is run by kn_runner. */
#include "auto.h"
#include "batch.h"
#include "infer.h"
#include "infer_input.h"
#include "training.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 32 };

typedef struct onnx_run {
    const char *path;
    kn_model *model;
    kn_model *opened; /* the model before `model` is known, and the model that it was bound from, if any */
    kn_context *context;
    kn_states *states;
    kn_runner *runner; /* NULL: `model` is known before the run */
    kn_session *session;
    char *words; /* both lists, split */
    named_file inputs[MAX_FILES], outputs[MAX_FILES];
    int input_count, output_count;
    kn_npy_file *arrays[MAX_FILES];
    kn_model_given given[MAX_FILES];
    void *data[MAX_FILES], *results[MAX_FILES]; /* the input arrays and the output arrays */
    void *fed[MAX_FILES];                       /* in the model's element types */
    kn_value *values[MAX_FILES];                /* the outputs */
    common_options common;
    kn_feed feeds[MAX_FILES];
    kn_fetch fetches[MAX_FILES];
    kn_tensor_info infos[MAX_FILES];
    int64_t samples, batch; /* 1 and 1 if not batched */
    int64_t asked;          /* requested batch, before it was reduced to fit the device */
    bool by_rows;           /* all inputs and outputs have a row per sample */
    bool in_parts;          /* kn_runner builds the model */
    uint64_t memory;
} onnx_run;

static bool split_list(char *words, const kn_model *model, named_file *files, int *count) {
    for (char *word = words, *comma; word; word = comma ? comma + 1 : NULL) {
        if (*count == MAX_FILES) return command_error("more than %d files are named", MAX_FILES);
        comma = strchr(word, ',');
        if (comma) *comma = '\0';
        named_file_split(word, model, &files[(*count)++]);
    }
    return true;
}

static bool split_lists(onnx_run *run, const char *inputs, const char *outputs) {
    size_t first = strlen(inputs) + 1;
    run->words = malloc(first + strlen(outputs) + 1);
    if (!run->words) return command_error("out of memory");
    memcpy(run->words, inputs, first);
    strcpy(run->words + first, outputs);
    return split_list(run->words, run->opened, run->inputs, &run->input_count) &&
           split_list(run->words + first, run->opened, run->outputs, &run->output_count);
}

/* EXIT_DONE, or reports two outputs with the same file. */
static int outputs_check(const onnx_run *run) {
    output_file files[MAX_FILES];
    for (int i = 0; i < run->output_count; i++)
        files[i] = (output_file){run->outputs[i].name, run->outputs[i].path};
    return outputs_apart(files, run->output_count);
}

static bool read_arrays(onnx_run *run) {
    for (int i = 0; i < run->input_count; i++) {
        kn_npy_file *array = run->arrays[i] = kn_npy_file_open(run->inputs[i].path, NULL);
        uint64_t bytes = 0;
        if (kn_npy_file_status(array) != KN_OK)
            return command_error("%s", array ? kn_npy_file_error(array) : "out of memory");
        kn_tensor_info *info = &run->given[i].info;
        kn_npy_file_info(array, info);
        run->data[i] = kn_tensor_bytes(info, &bytes) ? malloc((size_t)bytes + 1) : NULL;
        if (!run->data[i] || kn_npy_file_copy(array, info->dtype, run->data[i], (size_t)bytes) != KN_OK)
            return command_error("'%s' could not be read", run->inputs[i].path);
        run->given[i].name = run->inputs[i].name;
        run->given[i].data = run->data[i];
    }
    return true;
}

/* The array for an input: the array with its name, or an unnamed one for the first input. */
static int array_of(const onnx_run *run, const kn_model *model, int position) {
    const char *name = kn_model_input_name_at(model, position);
    for (int i = 0; i < run->input_count; i++)
        if (!strcmp(run->inputs[i].name, name) || (position == 0 && !run->inputs[i].name[0])) return i;
    return -1;
}

/* Converts an array to the type of its input, because the graph may depend on its values. */
static bool match_type(onnx_run *run, const kn_value *input, int i) {
    kn_tensor_info info = run->given[i].info;
    uint64_t bytes = 0;
    if (info.dtype == kn_value_dtype(input)) return true;
    info.dtype = kn_value_dtype(input);
    void *data = kn_tensor_bytes(&info, &bytes) ? malloc((size_t)bytes + 1) : NULL;
    if (!data || kn_npy_file_copy(run->arrays[i], info.dtype, data, (size_t)bytes) != KN_OK) {
        free(data);
        return command_error("'%s' could not be converted to %s, the type of the model's input",
                             run->inputs[i].path, kn_dtype_name(info.dtype));
    }
    free(run->data[i]);
    run->given[i].data = run->data[i] = data;
    run->given[i].info = info;
    return true;
}

/* Builds the model for the shapes of the arrays, and for their values where it depends on them. */
static bool bind_model(onnx_run *run) {
    for (size_t k = 0; k < kn_model_input_count(run->opened); k++) {
        const int i = array_of(run, run->opened, k);
        if (i >= 0 && !match_type(run, kn_model_input_at(run->opened, k), i)) return false;
    }
    run->model = kn_model_bind(run->opened, run->given, (size_t)run->input_count);
    if (kn_model_bound(run->model)) return true;
    if (kn_model_bound(run->opened)) { /* using the opened model gives a better error message */
        kn_model_destroy(&run->model);
        run->model = run->opened;
        run->opened = NULL;
        return true;
    }
    run->in_parts = kn_model_missing_value(run->model) != NULL;
    if (!run->in_parts) return command_error("%s", run->model ? kn_model_error(run->model) : "out of memory");
    kn_model_destroy(&run->model);
    return true;
}

static bool open_model(onnx_run *run) {
    run->opened = kn_model_open(run->path, NULL);
    if (kn_model_status(run->opened) == KN_OK) return true;
    return command_error("%s", run->opened ? kn_model_error(run->opened) : "out of memory");
}

/* Uses the opened model if it accepts the arrays, otherwise a model that is bound to them. */
static bool take_model(onnx_run *run) {
    if (!kn_model_fits(run->opened, run->given, (size_t)run->input_count)) return bind_model(run);
    run->model = run->opened;
    run->opened = NULL;
    return true;
}

static bool fill_feed(onnx_run *run, int position, kn_feed *feed) {
    kn_value *value = kn_model_input_at(run->model, position);
    int i = array_of(run, run->model, position);
    char wanted[160], found[160];
    kn_value_shape_text(value, wanted, sizeof wanted);
    if (i < 0)
        return command_error("the model also has the input '%s' (%s): give --input %s=FILE.npy",
                             kn_model_input_name_at(run->model, position), wanted,
                             kn_model_input_name_at(run->model, position));
    kn_tensor_info info = run->given[i].info;
    bool fits = info.rank == kn_value_rank(value);
    for (int d = 0; fits && d < info.rank; d++)
        fits = kn_value_dimension(value, d) < 0 || kn_value_dimension(value, d) == info.shape[d];
    if (!fits)
        return command_error("'%s' is %s (%s), but the model's input '%s' is (%s)", run->inputs[i].path,
                             kn_dtype_name(info.dtype), sizes_text(&info, 0, found, sizeof found),
                             kn_model_input_name_at(run->model, position), wanted);
    uint64_t bytes = 0;
    info.dtype = kn_value_dtype(value);
    run->fed[position] = kn_tensor_bytes(&info, &bytes) ? malloc((size_t)bytes + 1) : NULL;
    if (!run->fed[position] ||
        kn_npy_file_copy(run->arrays[i], info.dtype, run->fed[position], (size_t)bytes) != KN_OK)
        return command_error("'%s' could not be converted to %s, the type of the model's input",
                             run->inputs[i].path, kn_dtype_name(info.dtype));
    *feed = (kn_feed){kn_value_name(value), run->fed[position], (size_t)bytes};
    return true;
}

bool infer_refuse_strings(const kn_model *model, const kn_value *output) {
    for (size_t i = 0; i < kn_model_output_count(model); i++)
        if (kn_model_output_at(model, i) == output && kn_model_output_has_strings_at(model, i))
            return command_error("the output '%s' contains strings, which koine infer does not write",
                                 kn_model_output_name_at(model, i));
    return true;
}

static bool find_outputs(onnx_run *run) {
    for (int i = 0; i < run->output_count; i++) {
        const char *name = run->outputs[i].name;
        run->values[i] = NULL;
        for (size_t k = 0; k < kn_model_output_count(run->model) && !run->values[i]; k++)
            if (!name[0] || !strcmp(kn_model_output_name_at(run->model, k), name))
                run->values[i] = kn_model_output_at(run->model, k);
        if (!run->values[i])
            return command_error("'%s' has no output '%s'; its first is '%s'", run->path, name,
                                 kn_model_output_name_at(run->model, 0));
        if (!infer_refuse_strings(run->model, run->values[i]) ||
            !path_writable(run->outputs[i].path, PATH_WHOLE, run->common.overwrite))
            return false;
    }
    return true;
}

static bool open_session(onnx_run *run) {
    run->states = kn_states_create(run->context, 1);
    run->session = batch_session(run->context, run->values, (size_t)run->output_count, run->states,
                                 &run->common.arithmetic, NULL);
    if (kn_session_status(run->session) != KN_OK)
        return session_fail(run->session, kn_session_status(run->session));
    return kn_model_load(run->model, NULL, run->states, NULL, NULL) == KN_OK ||
           command_error("%s", kn_model_error(run->model));
}

/* Whether the shape is (batch,...), with the batch only in the first dimension. */
static bool has_rows(const kn_value *value) {
    char name[128];
    for (int d = 0; d < kn_value_rank(value); d++) {
        bool open = kn_value_dimension(value, d) < 0;
        if (open && !open_size(value, d, name, sizeof name)) return false;
        if (d == 0 ? !open || strcmp(name, "batch") : open && strstr(name, "batch")) return false;
    }
    return kn_value_rank(value) > 0;
}

/* If all arrays have the same number of rows, runs at most --batch of them at once. */
static void cut_into_batches(onnx_run *run) {
    const int count = kn_model_input_count(run->model);
    const int64_t samples = count ? run->given[array_of(run, run->model, 0)].info.shape[0] : 0;
    run->by_rows = samples > 0;
    for (int i = 0; i < count && run->by_rows; i++)
        run->by_rows = has_rows(kn_model_input_at(run->model, i)) &&
                       run->given[array_of(run, run->model, i)].info.shape[0] == samples;
    for (int i = 0; i < run->output_count && run->by_rows; i++)
        run->by_rows = has_rows(run->values[i]);
    run->samples = run->by_rows ? samples : 1;
    if (run->asked > run->samples) run->asked = run->samples;
}

static bool fill_feeds(onnx_run *run) {
    int count = kn_model_input_count(run->model);
    if (count > MAX_FILES) return command_error("the model has more than %d inputs", MAX_FILES);
    for (int i = 0; i < count; i++)
        if (!fill_feed(run, i, &run->feeds[i])) return false;
    cut_into_batches(run);
    return true;
}

/* Inputs may have more open sizes than their bytes determine. */
static kn_status bind_sizes(const onnx_run *run, int64_t batch) {
    char name[128];
    for (size_t i = 0; i < kn_model_input_count(run->model); i++) {
        const kn_value *input = kn_model_input_at(run->model, i);
        for (int d = 0; d < kn_value_rank(input); d++) {
            if (!open_size(input, d, name, sizeof name)) continue;
            const int64_t size = run->given[array_of(run, run->model, i)].info.shape[d];
            kn_status status = kn_session_bind(run->session, name, run->by_rows && d == 0 ? batch : size);
            /* no requested output may depend on it */
            if (status != KN_OK && status != KN_ERROR_NOT_FOUND) return status;
        }
    }
    return KN_OK;
}

/* The feeds of `count` samples from `first` on. */
static void feeds_of(const onnx_run *run, int64_t first, int64_t count, kn_feed *feeds) {
    for (size_t i = 0; i < kn_model_input_count(run->model); i++) {
        const size_t row = run->feeds[i].bytes / (size_t)run->samples;
        feeds[i] = (kn_feed){run->feeds[i].name, (const char *)run->feeds[i].data + row * (size_t)first,
                             row * (size_t)count};
    }
}

static kn_status plan_batch(void *user, int64_t batch, uint64_t *bytes) {
    onnx_run *run = user;
    kn_feed feeds[MAX_FILES];
    kn_plan_info info = {.size = sizeof info};
    feeds_of(run, 0, batch, feeds);
    kn_status status = bind_sizes(run, batch);
    if (status == KN_OK)
        status = kn_session_compile(run->session, feeds, (size_t)kn_model_input_count(run->model));
    if (status == KN_OK) status = kn_session_plan(run->session, &info);
    *bytes = info.own_peak_bytes;
    return status;
}

static const char *plan_error(void *user) {
    return kn_session_error(((onnx_run *)user)->session);
}

/* Allocates the outputs. */
static kn_status take_infos(onnx_run *run) {
    kn_status status = KN_OK;
    for (int i = 0; status == KN_OK && i < run->output_count; i++) {
        uint64_t bytes = 0;
        const char *name = kn_value_name(run->values[i]);
        status = kn_session_info(run->session, name, &run->infos[i]);
        if (status == KN_OK && run->by_rows) run->infos[i].shape[0] = run->samples;
        free(run->results[i]);
        run->results[i] =
            status == KN_OK && kn_tensor_bytes(&run->infos[i], &bytes) ? malloc((size_t)bytes + 1) : NULL;
        if (status == KN_OK && !run->results[i]) status = KN_ERROR_MEMORY;
        run->fetches[i] = (kn_fetch){name, run->results[i], (size_t)bytes};
    }
    return status;
}

/* Computes what the graph depends on, builds and compiles it, and allocates the outputs. */
static bool prepare_parts(onnx_run *run) {
    run->samples = run->batch = 1;
    run->states = kn_states_create(run->context, 1);
    kn_session_params params = batch_params(run->states, &run->common.arithmetic, NULL);
    params.memory_bytes = run->memory;
    run->runner = kn_runner_create(run->opened, run->context, &params);
    if (kn_runner_prepare(run->runner, run->given, (size_t)run->input_count) != KN_OK)
        return command_error("%s", kn_runner_error(run->runner));
    run->model = kn_runner_model(run->runner);
    const size_t inputs = kn_model_input_count(run->model);
    if (inputs > MAX_FILES) return command_error("the model has more than %d inputs", MAX_FILES);
    if (!find_outputs(run)) return false;
    run->session = kn_session_create(run->context, run->values, (size_t)run->output_count, &params);
    kn_status status = kn_session_status(run->session);
    if (status == KN_OK &&
        kn_runner_feeds(run->runner, run->session, run->given, (size_t)run->input_count, run->feeds) != KN_OK)
        return command_error("%s", kn_runner_error(run->runner));
    if (status == KN_OK) status = kn_session_compile(run->session, run->feeds, inputs);
    if (status == KN_OK) status = take_infos(run);
    return status == KN_OK || session_fail(run->session, status);
}

/* Compiles the model and allocates the outputs. */
static bool prepare(void *user, kn_context *context) {
    onnx_run *run = user;
    batch_plans plans = {.allowed = run->memory, .user = run, .plan = plan_batch, .error = plan_error};
    run->context = context;
    if (run->in_parts) return prepare_parts(run);
    run->batch = run->asked;
    if (!open_session(run) || !batch_fit(run->context, &plans, "samples go in batches of", &run->batch))
        return false;
    const kn_status status = take_infos(run);
    return status == KN_OK || session_fail(run->session, status);
}

static bool compute(void *user) {
    onnx_run *run = user;
    kn_feed feeds[MAX_FILES];
    kn_fetch fetches[MAX_FILES];
    kn_status status = KN_OK;
    for (int64_t at = 0; status == KN_OK && at < run->samples; at += run->batch) {
        const int64_t count = run->samples - at < run->batch ? run->samples - at : run->batch;
        feeds_of(run, at, count, feeds);
        for (int i = 0; i < run->output_count; i++) {
            const size_t row = run->fetches[i].bytes / (size_t)run->samples;
            fetches[i] = (kn_fetch){run->fetches[i].name, (char *)run->fetches[i].data + row * (size_t)at,
                                    row * (size_t)count};
        }
        status = run->in_parts ? KN_OK : bind_sizes(run, count);
        if (status == KN_OK)
            status = kn_session_run(run->session, feeds, (size_t)kn_model_input_count(run->model), fetches,
                                    (size_t)run->output_count);
        if (run->samples > run->batch && status == KN_OK)
            progress_line("%lld of %lld samples", (long long)(at + count), (long long)run->samples);
    }
    return status == KN_OK || session_fail(run->session, status);
}

static void close_session(void *user) {
    onnx_run *run = user;
    kn_session_destroy(&run->session);
    if (run->in_parts) run->model = NULL; /* the runner destroys it */
    kn_runner_destroy(&run->runner);
    kn_states_destroy(&run->states);
    run->context = NULL;
}

static bool save(const onnx_run *run) {
    char message[400];
    for (int i = 0; i < run->output_count; i++)
        if (kn_npy_file_save(run->outputs[i].path, &run->infos[i], run->results[i], message,
                             sizeof message) != KN_OK)
            return command_error("%s", message);
    return true;
}

static void tell(const onnx_run *run, const common_options *common) {
    for (int i = 0; i < run->output_count; i++) {
        if (common->json) {
            printf("{\"output\": ");
            json_text(stdout, kn_value_name(run->values[i]));
            printf(", \"file\": ");
            json_text(stdout, run->outputs[i].path);
            printf("}\n");
        } else {
            command_info("'%s' written to %s", kn_value_name(run->values[i]), run->outputs[i].path);
        }
    }
}

int infer_onnx(const common_options *common, const infer_files *files) {
    onnx_run run = {
        .path = files->model, .common = *common, .asked = (int64_t)files->batch, .memory = files->memory};
    auto_trial trial = {"a run, transfers included,", NULL, &run, prepare, compute, close_session};
    kn_context *context = NULL;
    const bool split = open_model(&run) && split_lists(&run, files->inputs, files->outputs);
    const int status = split ? outputs_check(&run) : EXIT_FAILED;
    bool fine = status == EXIT_DONE && read_arrays(&run) && take_model(&run) &&
                (run.in_parts || (find_outputs(&run) && fill_feeds(&run))) &&
                (trial.model = run.in_parts ? run.opened : run.model) && device_auto(&run.common, &trial) &&
                (context = context_open(&run.common)) && devices_join(context, &run.common, trial.model) &&
                prepare(&run, context) && compute(&run) && save(&run);
    if (fine) progress_clear(), tell(&run, common);
    close_session(&run);
    for (int i = 0; i < MAX_FILES; i++) {
        kn_npy_file_destroy(&run.arrays[i]);
        free(run.data[i]);
        free(run.fed[i]);
        free(run.results[i]);
    }
    kn_model_destroy(&run.model);
    kn_model_destroy(&run.opened);
    kn_context_destroy(&context);
    free(run.words);
    return fine ? EXIT_DONE : status != EXIT_DONE ? status : EXIT_FAILED;
}
