/* koine infer: runs a saved model on arrays in files. */
#include <stdlib.h>
#include <string.h>

#include "auto.h"
#include "batch.h"
#include "infer.h"
#include "infer_files.h"
#include "infer_table.h"

enum { MOST_FILES = 8 };

void named_file_split(const char *word, named_file *file) {
    const char *equals = strchr(word, '=');
    file->path = word;
    file->name[0] = 0;
    if (!equals || (size_t)(equals - word) >= sizeof file->name || memchr(word, '/', (size_t)(equals - word)))
        return;
    snprintf(file->name, sizeof file->name, "%.*s", (int)(equals - word), word);
    file->path = equals + 1;
}

typedef struct infer_run {
    common_options common;
    const char *file;
    kn_model *model;
    kn_context *context;
    kn_session *session;
    kn_states *states;
    kn_npy_file *inputs[MOST_FILES]; /* NULL for a table, sounds and pictures */
    kn_dataset *table;               /* the first one, or NULL */
    kn_tensor_info infos[MOST_FILES];
    kn_value *values[MOST_FILES];
    char *data[MOST_FILES];    /* all samples of an input, as the model reads them */
    kn_feed feeds[MOST_FILES]; /* names, and the bytes of one sample */
    int input_count;
    kn_value *output;
    int64_t samples;
    uint64_t batch, memory;
} infer_run;

static kn_value *find_value(const named_file *file, int count, kn_value *(*at)(const kn_model *, int),
                            const kn_model *model) {
    for (int i = 0; i < count; i++)
        if (!file->name[0] || !strcmp(kn_value_name(at(model, i)), file->name)) return at(model, i);
    return NULL;
}

static bool open_input(infer_run *run, const char *word) {
    named_file file;
    named_file_split(word, &file);
    kn_value *value = find_value(&file, kn_model_input_count(run->model), kn_model_input, run->model);
    if (!value) {
        command_fail("the model '%s' has no input '%s'; its first is '%s'", kn_model_name(run->model),
                     file.name, kn_value_name(kn_model_input(run->model, 0)));
        return false;
    }
    kn_tensor_info *info = &run->infos[run->input_count];
    if (table_is(file.path) && !run->table) {
        run->table = table_open(file.path, run->model, info, &run->data[run->input_count]);
        if (!run->table) return false;
    } else if (sample_files_are(file.path)) {
        if (!sample_files_open(file.path, run->model, info, &run->data[run->input_count])) return false;
    } else {
        kn_npy_file *array = run->inputs[run->input_count] = kn_npy_file_open(file.path, NULL);
        if (kn_npy_file_status(array) != KN_OK) {
            command_fail("%s", array ? kn_npy_file_error(array) : "out of memory");
            run->input_count++;
            return false;
        }
        kn_npy_file_info(array, info);
    }
    run->values[run->input_count++] = value;
    bool fits = info->rank == kn_value_rank(value);
    for (int d = 0; fits && d < info->rank; d++)
        fits = kn_value_dimension(value, d) < 0 || kn_value_dimension(value, d) == info->shape[d];
    if (!fits) {
        char wanted[160], found[160] = "";
        kn_value_shape_text(value, wanted, sizeof wanted);
        for (int d = 0; d < info->rank; d++)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%lld", d ? "," : "",
                     (long long)info->shape[d]);
        command_fail("'%s' holds (%s), and the model reads '%s' as (%s)", file.path, found,
                     kn_value_name(value), wanted);
        return false;
    }
    int64_t samples = info->rank ? info->shape[0] : 1;
    if (run->input_count > 1 && samples != run->samples) {
        command_fail("'%s' holds %lld samples and the input before it %lld", file.path, (long long)samples,
                     (long long)run->samples);
        return false;
    }
    run->samples = samples;
    return true;
}

/* ---- running ------------------------------------------------------------------------------------ */

static bool convert_inputs(infer_run *run) {
    for (int i = 0; i < run->input_count; i++) {
        uint64_t elements = 0;
        kn_dtype dtype = kn_value_dtype(run->values[i]);
        bool fine = kn_tensor_elements(&run->infos[i], &elements);
        size_t bytes = (size_t)elements * kn_dtype_bytes(dtype);
        run->feeds[i] = (kn_feed){kn_value_name(run->values[i]), NULL, bytes / (size_t)run->samples};
        if (!run->inputs[i]) continue; /* what else there is is as the model reads it */
        run->data[i] = fine ? malloc(bytes + 1) : NULL;
        if (!run->data[i] || kn_npy_file_copy(run->inputs[i], dtype, run->data[i], bytes) != KN_OK)
            return command_fail("the input '%s' could not be converted to %s, which the model reads",
                                kn_value_name(run->values[i]), kn_dtype_name(dtype)) == EXIT_DONE;
        /* As data sets do it: bytes are shares of 255. */
        if (run->infos[i].dtype == KN_UINT8 && dtype == KN_FLOAT32)
            for (uint64_t j = 0; j < elements; j++)
                ((float *)(void *)run->data[i])[j] *= 1.0f / 255.0f;
    }
    return true;
}

/* The feeds of `count` samples from `first` on. */
static void feeds_of(const infer_run *run, int64_t first, int64_t count, kn_feed *feeds) {
    for (int i = 0; i < run->input_count; i++)
        feeds[i] = (kn_feed){run->feeds[i].name, run->data[i] + (size_t)first * run->feeds[i].bytes,
                             run->feeds[i].bytes * (size_t)count};
}

static kn_status plan_batch(void *user, int64_t batch, uint64_t *bytes) {
    infer_run *run = user;
    kn_feed feeds[MOST_FILES];
    kn_plan_info info = {.size = sizeof info};
    feeds_of(run, 0, batch, feeds);
    kn_status status = batch_plan_session(run->session, batch, feeds, (size_t)run->input_count, &info);
    *bytes = info.peak_bytes;
    return status;
}

static const char *plan_error(void *user) {
    return kn_session_error(((infer_run *)user)->session);
}

/* The type and the size of the whole output, and the bytes that each sample has of it. */
static bool measure(infer_run *run, int64_t batch, kn_tensor_info *whole, size_t *row_bytes) {
    const char *name = kn_value_name(run->output);
    uint64_t bytes = 0, used = 0;
    kn_status status = plan_batch(run, batch, &used);
    if (status == KN_OK) status = kn_session_info(run->session, name, whole);
    if (status != KN_OK) return session_fail(run->session, status);
    if (!kn_tensor_bytes(whole, &bytes) || whole->rank == 0 || whole->shape[0] != batch)
        return command_fail("the output '%s' has no row for each sample", name) == EXIT_DONE;
    whole->shape[0] = run->samples;
    *row_bytes = (size_t)bytes / (size_t)batch;
    return true;
}

/* All samples through the session, a batch at a time; `result` has room for the whole output, row-major. */
static bool compute(infer_run *run, int64_t batch, char *result, size_t row_bytes) {
    const char *name = kn_value_name(run->output);
    for (int64_t at = 0; at < run->samples; at += batch) {
        int64_t count = run->samples - at < batch ? run->samples - at : batch;
        kn_feed feeds[MOST_FILES];
        feeds_of(run, at, count, feeds);
        kn_fetch fetch = {name, result + row_bytes * (size_t)at, row_bytes * (size_t)count};
        double begin = kn_context_clock(run->context);
        kn_status status = batch_bind(run->session, count);
        if (status == KN_OK) status = kn_session_run(run->session, feeds, (size_t)run->input_count, &fetch, 1);
        if (status != KN_OK) return session_fail(run->session, status);
        trace_host("batch", begin, kn_context_clock(run->context));
        trace_queues(run->context);
        kn_context_timeline_clear(run->context);
        progress_line("%lld of %lld samples", (long long)(at + count), (long long)run->samples);
    }
    return true;
}

static bool open_session(infer_run *run) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = run->states = kn_states_create(run->context, 1);
    params.fast_math = !run->common.exact;
    batch_lift_limit(&params);
    run->session = kn_session_create(run->context, &run->output, 1, &params);
    if (kn_session_status(run->session) != KN_OK)
        return session_fail(run->session, kn_session_status(run->session));
    if (kn_model_load(run->model, NULL, run->states, NULL, NULL) != KN_OK) {
        command_fail("%s", kn_model_error(run->model));
        return false;
    }
    return true;
}

/* ---- --device auto: a step is the first batch ------------------------------------------------------- */

typedef struct infer_trial {
    infer_run *run;
    int64_t batch;
    char *result;
    size_t row_bytes;
} infer_trial;

static bool prepare_trial(void *user, kn_context *context) {
    infer_trial *trial = user;
    kn_tensor_info whole;
    trial->run->context = context;
    if (!open_session(trial->run) || !measure(trial->run, trial->batch, &whole, &trial->row_bytes)) return false;
    trial->result = malloc(trial->row_bytes * (size_t)trial->batch + 1);
    return trial->result || command_fail("out of memory for a batch of results") == EXIT_DONE;
}

static bool trial_step(void *user) {
    infer_trial *trial = user;
    const infer_run *run = trial->run;
    kn_feed feeds[MOST_FILES];
    kn_fetch fetch = {kn_value_name(run->output), trial->result, trial->row_bytes * (size_t)trial->batch};
    feeds_of(run, 0, trial->batch, feeds);
    kn_status status = kn_session_run(run->session, feeds, (size_t)run->input_count, &fetch, 1);
    return status == KN_OK || session_fail(run->session, status);
}

static void finish_trial(void *user) {
    infer_trial *trial = user;
    kn_session_destroy(&trial->run->session);
    kn_states_destroy(&trial->run->states);
    trial->run->context = NULL;
    free(trial->result);
    trial->result = NULL;
}

static bool choose_device(infer_run *run) {
    char what[90];
    infer_trial trial = {.run = run, .batch = (int64_t)run->batch < run->samples ? (int64_t)run->batch : run->samples};
    auto_trial about = {what, &trial, prepare_trial, trial_step, finish_trial};
    snprintf(what, sizeof what, "a batch of %lld samples, transfers included,", (long long)trial.batch);
    return device_auto(&run->common, &about);
}

static int infer(infer_run *run, const char *output) {
    named_file file;
    char message[400];
    kn_tensor_info whole;
    size_t row_bytes = 0;
    named_file_split(output, &file);
    run->output = find_value(&file, kn_model_output_count(run->model), kn_model_output, run->model);
    if (!run->output)
        return command_fail("the model '%s' has no output '%s'; koine models %s tells what it has",
                            kn_model_name(run->model), file.name, run->file);
    if ((strcmp(file.path, "-") && !path_writable(file.path)) || !convert_inputs(run)) return EXIT_FAILED;
    if (!choose_device(run)) return EXIT_FAILED;
    run->context = context_open(&run->common);
    if (!run->context || !open_session(run)) return EXIT_FAILED;
    batch_plans plans = {.allowed = run->memory, .user = run, .plan = plan_batch, .error = plan_error};
    int64_t batch = (int64_t)run->batch < run->samples ? (int64_t)run->batch : run->samples;
    if (!batch_fit(run->context, &plans, "samples go in batches of", &batch) ||
        !measure(run, batch, &whole, &row_bytes))
        return EXIT_FAILED;
    tell_compiling(run->context);
    trace_host("opening and compiling", 0, kn_context_clock(run->context));
    char *result = malloc(row_bytes * (size_t)run->samples + 1);
    if (!result) return command_fail("out of memory for %lld results", (long long)run->samples);
    bool fine = compute(run, batch, result, row_bytes);
    bool table = fine && table_is(file.path) && whole.dtype == KN_FLOAT32;
    if (table)
        fine = table_write(file.path, run->table, (const float *)(const void *)result, run->samples,
                           (int64_t)(row_bytes / sizeof(float)));
    else if (fine && kn_npy_file_save(file.path, &whole, result, message, sizeof message) != KN_OK)
        fine = command_fail("%s", message) == EXIT_DONE;
    free(result);
    if (!fine) return EXIT_FAILED;
    progress_clear();
    if (run->common.json) {
        printf("{\"samples\": %lld, \"output\": ", (long long)run->samples);
        json_text(stdout, kn_value_name(run->output));
        printf(", \"file\": ");
        json_text(stdout, file.path);
        printf("}\n");
    } else if (strcmp(file.path, "-")) {
        command_tell("'%s' of %lld samples written to %s", kn_value_name(run->output),
                     (long long)run->samples, file.path);
    }
    return EXIT_DONE;
}

/* "A=a.npy,B=b.npy": opens one after the other. */
static bool open_inputs(infer_run *run, const char *list) {
    char word[4096];
    for (const char *at = list, *comma; at; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (run->input_count == MOST_FILES || length >= sizeof word)
            return command_fail("--input names too many files, or one with too long a name") == EXIT_DONE;
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!open_input(run, word)) return false;
    }
    return run->samples || command_fail("the input holds no samples") == EXIT_DONE;
}

static void finish(infer_run *run) {
    kn_session_destroy(&run->session);
    kn_states_destroy(&run->states);
    for (int i = 0; i < run->input_count; i++) {
        kn_npy_file_destroy(&run->inputs[i]);
        free(run->data[i]);
    }
    kn_dataset_destroy(&run->table);
    kn_model_destroy(&run->model);
    kn_context_destroy(&run->context);
}

static int run(int count, char **arguments) {
    infer_run run = {.batch = 256};
    const char *input = NULL, *output = NULL, *trace = NULL;
    const option options[] = {{"input", OPTION_TEXT, "[NAME=]X.npy",
                               "the samples: an array, a FILE.wav, .jpg or .png, or a folder of such; several: A=a.npy,B=b.npy",
                               &input},
                              {"output", OPTION_TEXT, "[NAME=]Y.npy",
                               "where the result goes; NAME: another output than the first; of ONNX files several: A=a.npy,B=b.npy", &output},
                              {"batch", OPTION_COUNT, "N", "samples at a time (256)", &run.batch},
                              {"memory", OPTION_BYTES, "BYTES",
                               "use no more of the device's memory, such as 2GB (all of it)", &run.memory},
                              TRACE_OPTION(trace),
                              MATH_OPTION(run.common),
                              COMMON_OPTIONS(run.common),
                              {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_infer, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (!word_count) return command_misuse("infer needs a saved model, such as lenet.safetensors");
    if (!input || !output) return command_misuse("infer needs --input X.npy and --output Y.npy");
    if (run.common.json && !strcmp(output, "-"))
        return command_misuse("--output - writes the results to the standard output, where --json writes too");
    if (!run.batch || run.batch > INT32_MAX)
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)run.batch, INT32_MAX);
    if ((status = math_option_check(&run.common)) != EXIT_DONE) return status;
    status = EXIT_FAILED;
    progress_setup(&run.common);
    if (path_is_onnx(words[0]))
        return infer_onnx(&run.common, &(infer_files){words[0], input, output, run.batch, run.memory});
    run.file = words[0];
    run.model = model_open(run.file);
    if (run.model && !kn_model_has_weights(run.model))
        command_fail("'%s' has no weights to compute with: expected a file that koine train saved", words[0]);
    else if (run.model && open_inputs(&run, input) && trace_open(trace, &run.common))
        status = infer(&run, output);
    if (!trace_close()) status = EXIT_FAILED;
    finish(&run);
    return status;
}

const command command_infer = {
    "infer", "run a saved model on arrays, tables, sounds or pictures in files", "FILE --input X.npy --output Y.npy [--OPTION …]",
    "Reads npy files, as numpy.save writes them, and writes one, with a row for each sample. A model that was\n"
    "trained on a table, csv:FILE, reads rows of another, FILE.csv, as they are; the target may be missing. Results\n"
    "go into a table as well, where the output is FILE.csv or - (the standard output): in the target's own unit, or\n"
    "the likeliest class with its probability. Sounds and pictures are read from their files as the training reads\n"
    "them, all that lie in a folder in the order of their names. An ONNX file whose inputs or outputs have no row\n"
    "for each sample is computed at once.\n"
    "--device auto times a batch, transfers included, on each device, takes the fastest and says why.\n"
    "\n"
    "  koine infer net.onnx --input x=x.npy,mask=m.npy --output y=y.npy\n"
    "  koine infer table.safetensors --input new.csv --output -\n"
    "  koine infer keyword.safetensors --input word.wav --output -\n"
    "  koine infer lenet.safetensors --input images.npy --output logits.npy",
    run};
