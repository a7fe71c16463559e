/* koine infer: runs a saved model on arrays, rows, images, sounds and texts. */
#include <stdlib.h>
#include <string.h>

#include "auto.h"
#include "batch.h"
#include "infer.h"
#include "infer_input.h"
#include "infer_output.h"
#include "infer_texts.h"
#include "training.h"

enum { MAX_FILES = 8 };

/* Whether a word begins with the name and '='; sets *equals to the '='. */
static bool begins_with(const char *word, const char *name, const char **equals) {
    const size_t length = strlen(name);
    if (!length || strncmp(word, name, length) || word[length] != '=') return false;
    *equals = word + length;
    return true;
}

/* The '=' after the name of an input or output of the model; NULL for none. */
static const char *end_of_name(const char *word, const kn_model *model) {
    const char *equals = NULL;
    for (size_t i = 0; i < kn_model_input_count(model); i++)
        if (begins_with(word, kn_model_input_name_at(model, i), &equals)) return equals;
    for (size_t i = 0; i < kn_model_output_count(model); i++)
        if (begins_with(word, kn_model_output_name_at(model, i), &equals)) return equals;
    return NULL;
}

void named_file_split(const char *word, const kn_model *model, named_file *file) {
    const char *equals = end_of_name(word, model), *first = strchr(word, '=');
    file->path = word;
    file->name[0] = 0;
    if (!equals && first && !memchr(word, '/', (size_t)(first - word))) equals = first;
    if (!equals || (size_t)(equals - word) >= sizeof file->name) return;
    snprintf(file->name, sizeof file->name, "%.*s", (int)(equals - word), word);
    file->path = equals + 1;
}

typedef struct infer_run {
    common_options common;
    const char *file;
    const char *weights; /* NULL: the weights of the model's file */
    const char *data;    /* --data; NULL: files */
    const char *text;    /* --text; NULL: files */
    uint64_t limit;      /* the number of samples of `data`; 0: all */
    kn_model *model;
    kn_model *opened; /* the model that `model` was bound from; NULL: `model` was opened directly */
    kn_context *context;
    kn_session *session;
    kn_states *states;
    infer_input inputs[MAX_FILES];
    kn_feed feeds[MAX_FILES]; /* names, and the bytes of one sample */
    int input_count;
    bool skip_bad;
    kn_value *output;
    output_format format;
    int64_t samples;
    uint64_t batch, memory;
} infer_run;

/* Finds an input by its name in the file or in the model, which may differ for an ONNX file. */
static kn_value *find_value(const named_file *file, size_t count, kn_value *(*at)(const kn_model *, size_t),
                            const char *(*name)(const kn_model *, size_t), const kn_model *model) {
    for (size_t i = 0; i < count; i++)
        if (!file->name[0] || !strcmp(name(model, i), file->name) ||
            !strcmp(kn_value_name(at(model, i)), file->name))
            return at(model, i);
    return NULL;
}

static infer_input *begin_input(infer_run *run, kn_value *value) {
    infer_input *input = &run->inputs[run->input_count++];
    *input = (infer_input){.model = run->model, .value = value, .skip_bad = run->skip_bad};
    return input;
}

static bool open_input(infer_run *run, const char *word) {
    named_file file;
    named_file_split(word, run->model, &file);
    kn_value *value = find_value(&file, kn_model_input_count(run->model), kn_model_input_at,
                                 kn_model_input_name_at, run->model);
    if (!value)
        return command_error("the model '%s' has no input '%s'; its first is '%s'", kn_model_name(run->model),
                             file.name, kn_value_name(kn_model_input_at(run->model, 0)));
    infer_input *input = begin_input(run, value);
    if (!input_add(input, file.path)) return false;
    const int64_t samples = input->info.shape[0];
    if (run->input_count > 1 && samples != run->samples)
        return command_error("'%s' has %lld samples, but the input before it has %lld", file.path,
                             (long long)samples, (long long)run->samples);
    run->samples = samples;
    return true;
}

/* "A=a.npy,B=b.npy": opens them one by one. */
static bool open_inputs(infer_run *run, const char *list) {
    char word[4096];
    for (const char *at = list, *comma; at; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (run->input_count == MAX_FILES || length >= sizeof word)
            return command_error("--input names too many files, or one with too long a name");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!open_input(run, word)) return false;
    }
    return true;
}

/* Opens --data, or the files named after the model, in order, for its first input. */
static bool open_words(infer_run *run, const char *const *words, int count) {
    infer_input *input = begin_input(run, kn_model_input_at(run->model, 0));
    if (run->data && !input_add_data(input, run->data, run->limit)) return false;
    for (int i = 0; i < count; i++)
        if (!input_add(input, words[i])) return false;
    run->samples = input->info.shape[0];
    return true;
}

/* Whether the files are texts, one per line. */
static bool are_texts(const char *const *words, int count) {
    for (int i = 0; i < count; i++)
        if (!path_ends(words[i], ".txt", true)) return false;
    return count > 0;
}

static bool open_texts(infer_run *run, const char *const *words, int count) {
    run->input_count = 2;
    if (!texts_read(run->file, &run->model, run->text, words, count, run->inputs)) return false;
    run->samples = run->inputs[0].info.shape[0];
    return true;
}

static bool open_all(infer_run *run, const char *input, const char *const *words, int count) {
    if (run->text || are_texts(words, count)) return open_texts(run, words, count);
    return input ? open_inputs(run, input) : open_words(run, words, count);
}

/* Replaces the opened model and its inputs with the bound ones. */
static void take_bound(infer_run *run, kn_model *bound) {
    run->opened = run->model;
    run->model = bound;
    for (int i = 0; i < run->input_count; i++)
        for (size_t k = 0; k < kn_model_input_count(bound); k++)
            if (!strcmp(kn_value_name(kn_model_input_at(bound, k)), kn_value_name(run->inputs[i].value)))
                run->inputs[i].value = kn_model_input_at(bound, k);
}

/* Builds the graph of an ONNX file for the shapes of the samples; if that fails, for all samples at once. */
static bool bind_to_samples(infer_run *run) {
    char message[1600] = "";
    for (int whole = 0; whole < 2 && !kn_model_bound(run->model); whole++) {
        kn_model_given given[MAX_FILES];
        for (int i = 0; i < run->input_count; i++) {
            given[i] = (kn_model_given){.name = "", .info = run->inputs[i].info};
            given[i].info.dtype = kn_value_dtype(run->inputs[i].value);
            if (!whole) given[i].info.shape[0] = -1;
            for (size_t k = 0; k < kn_model_input_count(run->model); k++)
                if (kn_model_input_at(run->model, k) == run->inputs[i].value)
                    given[i].name = kn_model_input_name_at(run->model, k);
        }
        kn_model *bound = kn_model_bind(run->model, given, (size_t)run->input_count);
        if (kn_model_bound(bound)) {
            take_bound(run, bound);
            return true;
        }
        snprintf(message, sizeof message, "%s%s", bound ? kn_model_error(bound) : "out of memory",
                 kn_model_missing_value(bound) ? "; give whole arrays: --input X.npy --output Y.npy" : "");
        kn_model_destroy(&bound);
    }
    return kn_model_bound(run->model) || command_error("%s", message);
}

static bool measure_inputs(infer_run *run) {
    if (run->samples < 1) return command_error("the input holds no samples");
    /* The file may fix the batch. */
    const int64_t fixed = kn_value_dimension(run->inputs[0].value, 0);
    if (fixed > 0 && run->samples % fixed)
        return command_error("the model has a fixed batch of %lld, but there are %lld samples",
                             (long long)fixed, (long long)run->samples);
    if (fixed > 0) run->batch = (uint64_t)fixed;
    for (int i = 0; i < run->input_count; i++) {
        uint64_t bytes = 0;
        kn_tensor_bytes(&run->inputs[i].info, &bytes); /* cannot fail: the array was read with this size */
        run->feeds[i] =
            (kn_feed){kn_value_name(run->inputs[i].value), NULL, (size_t)bytes / (size_t)run->samples};
    }
    return true;
}

/* ---- running ------------------------------------------------------------------------------------ */

/* The feeds of `count` samples from `first` on. */
static void feeds_of(const infer_run *run, int64_t first, int64_t count, kn_feed *feeds) {
    for (int i = 0; i < run->input_count; i++)
        feeds[i] = (kn_feed){run->feeds[i].name, run->inputs[i].data + (size_t)first * run->feeds[i].bytes,
                             run->feeds[i].bytes * (size_t)count, run->inputs[i].scale};
}

static kn_status plan_batch(void *user, int64_t batch, uint64_t *bytes) {
    infer_run *run = user;
    kn_feed feeds[MAX_FILES];
    kn_plan_info info = {.size = sizeof info};
    feeds_of(run, 0, batch, feeds);
    kn_status status = batch_plan_session(run->session, batch, feeds, (size_t)run->input_count, &info);
    *bytes = info.own_peak_bytes;
    return status;
}

static const char *plan_error(void *user) {
    return kn_session_error(((infer_run *)user)->session);
}

/* Element type and shape of the whole output, and its bytes per sample. */
static bool measure(infer_run *run, int64_t batch, kn_tensor_info *whole, size_t *row_bytes) {
    const char *name = kn_value_name(run->output);
    uint64_t bytes = 0, used = 0;
    kn_status status = plan_batch(run, batch, &used);
    if (status == KN_OK) status = kn_session_info(run->session, name, whole);
    if (status != KN_OK) return session_fail(run->session, status);
    if (!kn_tensor_bytes(whole, &bytes) || whole->rank == 0 || whole->shape[0] != batch)
        return command_error("the output '%s' has no row for each sample", name);
    whole->shape[0] = run->samples;
    *row_bytes = (size_t)bytes / (size_t)batch;
    return true;
}

/* Runs all samples through the session, a batch at a time; `result` has room for the whole output,
 * row-major. */
static bool compute(infer_run *run, int64_t batch, char *result, size_t row_bytes) {
    const char *name = kn_value_name(run->output);
    for (int64_t at = 0; at < run->samples; at += batch) {
        int64_t count = run->samples - at < batch ? run->samples - at : batch;
        kn_feed feeds[MAX_FILES];
        feeds_of(run, at, count, feeds);
        kn_fetch fetch = {name, result + row_bytes * (size_t)at, row_bytes * (size_t)count};
        double begin = kn_context_clock(run->context);
        kn_status status = batch_bind(run->session, count);
        if (status == KN_OK)
            status = kn_session_run(run->session, feeds, (size_t)run->input_count, &fetch, 1);
        if (status != KN_OK) return session_fail(run->session, status);
        trace_host("batch", begin, kn_context_clock(run->context));
        trace_queues(run->context);
        kn_context_timeline_clear(run->context);
        progress_line("%lld of %lld samples", (long long)(at + count), (long long)run->samples);
    }
    return true;
}

static bool open_session(infer_run *run) {
    run->states = kn_states_create(run->context, 1);
    run->session = batch_session(run->context, &run->output, 1, run->states, &run->common.arithmetic, NULL);
    if (kn_session_status(run->session) != KN_OK)
        return session_fail(run->session, kn_session_status(run->session));
    if (kn_model_load(run->model, run->weights, run->states, NULL, NULL) != KN_OK)
        return command_error("%s", kn_model_error(run->model));
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
    if (!open_session(trial->run) || !measure(trial->run, trial->batch, &whole, &trial->row_bytes))
        return false;
    trial->result = malloc(trial->row_bytes * (size_t)trial->batch + 1);
    return trial->result || command_error("out of memory for a batch of results");
}

static bool trial_step(void *user) {
    infer_trial *trial = user;
    const infer_run *run = trial->run;
    kn_feed feeds[MAX_FILES];
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
    infer_trial trial = {.run = run,
                         .batch = (int64_t)run->batch < run->samples ? (int64_t)run->batch : run->samples};
    auto_trial about = {what, run->model, &trial, prepare_trial, trial_step, finish_trial};
    snprintf(what, sizeof what, "a batch of %lld samples, transfers included,", (long long)trial.batch);
    return device_auto(&run->common, &about);
}

/* Whether the file names of the samples are known. */
static bool input_is_named(const infer_input *input) {
    for (int64_t i = 0; i < input->info.shape[0]; i++)
        if (input->names[i]) return true;
    return false;
}

static int infer(infer_run *run, const char *output) {
    named_file file;
    kn_tensor_info whole;
    size_t row_bytes = 0;
    named_file_split(output, run->model, &file);
    run->output = find_value(&file, kn_model_output_count(run->model), kn_model_output_at,
                             kn_model_output_name_at, run->model);
    if (!run->output)
        return command_fail("the model '%s' has no output '%s'; koine models %s lists them",
                            kn_model_name(run->model), file.name, run->file);
    if (!infer_refuse_strings(run->model, run->output) ||
        (strcmp(file.path, "-") && !path_writable(file.path, PATH_WHOLE, run->common.overwrite)) ||
        !measure_inputs(run))
        return EXIT_FAILED;
    if (!choose_device(run)) return EXIT_FAILED;
    run->context = context_open(&run->common);
    if (!run->context || !devices_join(run->context, &run->common, run->model) || !open_session(run))
        return EXIT_FAILED;
    batch_plans plans = {.allowed = run->memory, .user = run, .plan = plan_batch, .error = plan_error};
    int64_t batch = (int64_t)run->batch < run->samples ? (int64_t)run->batch : run->samples;
    if (!batch_fit(run->context, &plans, "samples go in batches of", &batch) ||
        !measure(run, batch, &whole, &row_bytes))
        return EXIT_FAILED;
    print_compile_time(run->context);
    trace_host("opening and compiling", 0, kn_context_clock(run->context));
    char *result = malloc(row_bytes * (size_t)run->samples + 1);
    if (!result) return command_fail("out of memory for %lld results", (long long)run->samples);
    bool fine = compute(run, batch, result, row_bytes);
    progress_clear();
    /* The class names apply to the first output. */
    const infer_input *named = &run->inputs[0];
    const kn_dataset *table = NULL;
    for (int i = run->input_count - 1; i >= 0; i--) {
        if (input_is_named(&run->inputs[i])) named = &run->inputs[i];
        if (run->inputs[i].table) table = run->inputs[i].table;
    }
    bool main_output = run->output == kn_model_output_at(run->model, 0);
    const infer_results results = {.name = kn_value_name(run->output),
                                   .info = &whole,
                                   .numbers = result,
                                   .names = named->names,
                                   .table = main_output ? table : NULL,
                                   .classes =
                                       main_output ? kn_model_metadata(run->model, "data.classes") : NULL};
    fine = fine && output_write(&results, run->format, file.path);
    free(result);
    if (!fine) return EXIT_FAILED;
    if (!strcmp(file.path, "-")) return EXIT_DONE;
    if (run->common.json) {
        printf("{\"samples\": %lld, \"output\": ", (long long)run->samples);
        json_text(stdout, kn_value_name(run->output));
        printf(", \"file\": ");
        json_text(stdout, file.path);
        printf("}\n");
    } else {
        command_info("'%s' of %lld samples written to %s", kn_value_name(run->output),
                     (long long)run->samples, file.path);
    }
    return EXIT_DONE;
}

static void finish(infer_run *run) {
    kn_session_destroy(&run->session);
    kn_states_destroy(&run->states);
    for (int i = 0; i < run->input_count; i++)
        input_close(&run->inputs[i]);
    kn_model_destroy(&run->model);
    kn_model_destroy(&run->opened);
    kn_context_destroy(&run->context);
}

/* Checks that options and words are consistent; sets the output format. */
static int check(infer_run *run, int words, bool onnx, const char *input, const char *output,
                 const char *format) {
    named_file result = {.path = NULL};
    if (!words) return command_misuse("infer needs a saved model, such as lenet.safetensors");
    if (run->data && (words > 1 || input))
        return command_misuse("--data and %s exclude each other", input ? "--input" : "files");
    if (run->text && (words > 1 || input || run->data))
        return command_misuse("--text and %s exclude each other", run->data ? "--data"
                                                                  : input   ? "--input"
                                                                            : "files");
    if (run->limit && !run->data) return command_misuse("--limit applies to --data");
    if (words == 1 && !input && !run->data && !run->text)
        return command_misuse(
            "infer needs input: an array, a table, images, sounds, texts, a folder of them, - "
            "for standard input, --text or --data");
    if (words > 1 && input)
        return command_misuse("--input is '%s', but files follow the model as well; omit one of them", input);
    if (!run->batch || run->batch > INT32_MAX)
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)run->batch, INT32_MAX);
    if (onnx && run->weights) return command_misuse("--weights is not for ONNX files");
    if (output) named_file_split(output, NULL, &result);
    return output_choose(format, result.path, run->common.json, &run->format);
}

/* Whether every file in "A=a.npy,B=b.npy" has this extension. */
static bool all_arrays(const char *list) {
    for (const char *comma; list; list = comma ? comma + 1 : NULL) {
        comma = strchr(list, ',');
        size_t length = comma ? (size_t)(comma - list) : strlen(list);
        if (length < 5 || memcmp(list + length - 4, ".npy", 4)) return false;
        if (!comma) return true;
    }
    return false;
}

static int run_words(infer_run *run, const char **words, int count, const char *input, const char *output,
                     const char *trace) {
    named_file written = {.path = NULL};
    if (output) named_file_split(output, NULL, &written);
    const output_file outputs[] = {{"--output", written.path}, {"--trace", trace}};
    int status = outputs_apart(outputs, 2);
    if (status != EXIT_DONE) return status;
    status = EXIT_FAILED;
    run->file = words[0];
    run->model = kn_model_open(run->file, NULL);
    if (kn_model_status(run->model) != KN_OK) {
        command_fail("%s", run->model ? kn_model_error(run->model) : "out of memory");
        kn_model_destroy(&run->model);
    }
    if (run->model && !run->weights && !kn_model_has_weights(run->model))
        command_fail("'%s' has no weights: expected a file that koine train saved, or --weights", run->file);
    else if (run->model && open_all(run, input, words + 1, count - 1) && bind_to_samples(run) &&
             trace_open(trace, run->common.overwrite, NULL, &run->common))
        status = infer(run, output ? output : "-");
    if (!trace_close()) status = EXIT_FAILED;
    finish(run);
    return status;
}

static int run(int count, char **arguments) {
    infer_run run = {.batch = 256};
    const char *input = NULL, *output = NULL, *format = NULL, *trace = NULL, *on_bad_sample = NULL;
    const option options[] = {
        HEADING("data"),
        {"data", OPTION_TEXT, "DATA",
         "samples of a dataset (its test part), such as digits; see koine datasets", &run.data},
        {"limit", OPTION_COUNT, "N", "only the first N samples of --data (all)", &run.limit},
        {"text", OPTION_TEXT, "TEXT", "a text, for a model that computes a vector for each text", &run.text},
        {"input", OPTION_TEXT, "[NAME=]X", "file for an input by name; several inputs: A=a.npy,B=b.npy",
         &input},
        {"batch", OPTION_COUNT, "N", "samples per batch (256)", &run.batch},
        BAD_SAMPLE_OPTION(on_bad_sample),
        HEADING("model"),
        WEIGHTS_OPTION(run.weights),
        HEADING("output"),
        {"output", OPTION_TEXT, "[NAME=]Y",
         "Y.npy, Y.csv, Y.jsonl, Y.txt, or -: standard output; several of an ONNX file: A=a.npy,B=b.npy",
         &output},
        {"format", OPTION_TEXT, "FORMAT",
         "text, json, csv or npy (by the ending of --output; - csv; without --output text)", &format},
        TRACE_OPTION(trace),
        OVERWRITE_OPTION(run.common),
        HEADING("device"),
        {"memory", OPTION_BYTES, "BYTES", "limit of device memory, such as 2GB (all of it)", &run.memory},
        PIN_OPTION(run.common),
        MATH_OPTIONS(run.common),
        COMMON_OPTIONS(run.common),
        {.name = NULL}};
    int word_count = 0, status = EXIT_FAILED;
    const char **words = malloc(((size_t)count + 1) * sizeof *words);
    if (!words) return command_fail("out of memory");
    if (options_read(&command_infer, options, count, arguments, words, &word_count, count, &status)) {
        const bool onnx = word_count && path_is_onnx(words[0]);
        /* Named arrays may have any number of rows. */
        const bool whole = onnx && !run.data && !format && !trace && !on_bad_sample && all_arrays(input) &&
                           all_arrays(output);
        status = check(&run, word_count, onnx, input, output, format);
        if (status == EXIT_DONE) status = bad_sample_check(on_bad_sample, &run.skip_bad);
        if (status == EXIT_DONE) status = math_options_check(&run.common);
        if (status == EXIT_DONE) status = pin_option_check(&run.common);
        if (status == EXIT_DONE) {
            progress_setup(&run.common);
            status = whole ? infer_onnx(&run.common,
                                        &(infer_files){words[0], input, output, run.batch, run.memory})
                           : run_words(&run, words, word_count, input, output, trace);
        }
    }
    free(words);
    return status;
}

const command command_infer = {
    "infer",
    "run a saved model on arrays, tables, images, sounds or texts",
    "FILE X… [--output Y] [--OPTION …]",
    "data limit output format weights batch json device",
    "koine infer lenet.safetensors --data digits:test --limit 5\n"
    "koine infer lenet.safetensors pictures/0.jpg\n"
    "koine infer cifar-cnn.safetensors photos/test/cat --json\n"
    "koine infer lenet.safetensors x.npy --output logits.npy\n"
    "koine infer table.safetensors new.csv --output speeds.csv\n"
    "koine infer table.safetensors - < new.csv\n"
    "koine infer net.onnx pictures --output scores.csv\n"
    "koine infer net.onnx --input x=x.npy --output scores.npy\n"
    "koine infer minilm sentences.txt --output vectors.npy\n"
    "koine infer deploy.prototxt --weights net.caffemodel --input x.npy --output caffe.npy",
    "Prints the results of a saved model, one line per sample.\n"
    "\n"
    "X is an image or sound, which is converted to the model's input, an archive of them, a table X.csv, an\n"
    "array X.npy as numpy.save writes it, whose first dimension counts the samples, a folder of any of\n"
    "these, or - for standard input. A model that was trained on a table, csv:FILE, reads rows with the\n"
    "same columns; values and the target may be missing. --data reads the samples of a dataset instead.\n"
    "A folder with an encoder of texts, as sentence-transformers saves it, reads --text, or X.txt with a "
    "text\n"
    "per line, and gives the vector of each text.\n"
    "\n"
    "Without --output, prints the most likely classes with their probabilities, a number in the target's\n"
    "unit, or plain numbers. --output writes a table (Y.csv), JSON objects, one per line (Y.jsonl), text\n"
    "(Y.txt), or an array; - is standard output: a table, JSON lines with --json, or as --format says.\n"
    "NAME= before a file selects another input or output than the first.\n"
    "\n"
    "An ONNX file reads all of these too, images as numbers from 0 to 1. If its inputs or outputs have no\n"
    "row per sample, arrays given by --input and --output are computed at once. --device auto times a batch\n"
    "on each device, including transfers, and selects the fastest.",
    run};
