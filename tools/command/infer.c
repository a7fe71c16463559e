/* koine infer: runs a saved model on arrays in files. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { MOST_FILES = 8 };

/* "NAME=FILE", or a FILE for the only (or first) input or output. */
typedef struct named_file {
    const char *path;
    char name[128];
} named_file;

static void split_name(const char *word, named_file *file) {
    const char *equals = strchr(word, '=');
    file->path = word;
    file->name[0] = 0;
    if (!equals || (size_t)(equals - word) >= sizeof file->name || memchr(word, '/', (size_t)(equals - word)))
        return;
    snprintf(file->name, sizeof file->name, "%.*s", (int)(equals - word), word);
    file->path = equals + 1;
}

typedef struct infer_run {
    kn_model *model;
    kn_context *context;
    kn_session *session;
    kn_states *states;
    kn_npy_file *inputs[MOST_FILES];
    kn_tensor_info infos[MOST_FILES];
    kn_value *values[MOST_FILES];
    int input_count;
    kn_value *output;
    int64_t samples, batch;
} infer_run;

static kn_value *find_value(const named_file *file, int count, kn_value *(*at)(const kn_model *, int),
                            const kn_model *model) {
    for (int i = 0; i < count; i++)
        if (!file->name[0] || !strcmp(kn_value_name(at(model, i)), file->name)) return at(model, i);
    return NULL;
}

static bool open_input(infer_run *run, const char *word) {
    named_file file;
    split_name(word, &file);
    kn_value *value = find_value(&file, kn_model_input_count(run->model), kn_model_input, run->model);
    if (!value) {
        command_fail("the model '%s' has no input '%s'", kn_model_name(run->model), file.name);
        return false;
    }
    kn_npy_file *array = run->inputs[run->input_count] = kn_npy_file_open(file.path, NULL);
    if (kn_npy_file_status(array) != KN_OK) {
        command_fail("%s", array ? kn_npy_file_error(array) : "out of memory");
        run->input_count++;
        return false;
    }
    kn_tensor_info *info = &run->infos[run->input_count];
    kn_npy_file_info(array, info);
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
        command_fail("'%s' is (%s), and the model reads (%s) as '%s'", file.path, found, wanted,
                     kn_value_name(value));
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

/* All samples through the session, a batch at a time; *result holds the whole output, row-major. */
static bool compute(infer_run *run, char **result, kn_tensor_info *whole) {
    const char *name = kn_value_name(run->output);
    kn_feed feeds[MOST_FILES];
    char *all[MOST_FILES] = {NULL};
    bool fine = true;
    size_t row_bytes = 0;
    for (int i = 0; i < run->input_count && fine; i++) {
        uint64_t elements = 0;
        kn_dtype dtype = kn_value_dtype(run->values[i]);
        fine = kn_tensor_elements(&run->infos[i], &elements);
        size_t bytes = (size_t)elements * kn_dtype_bytes(dtype);
        all[i] = fine ? malloc(bytes + 1) : NULL;
        fine = all[i] && kn_npy_file_copy(run->inputs[i], dtype, all[i], bytes) == KN_OK;
        feeds[i] =
            (kn_feed){kn_value_name(run->values[i]), all[i], run->samples ? bytes / (size_t)run->samples : 0};
    }
    if (!fine) command_fail("an input could not be converted to what the model reads");
    for (int64_t at = 0; fine && at < run->samples;) {
        int64_t count = run->samples - at < run->batch ? run->samples - at : run->batch;
        kn_feed now[MOST_FILES];
        for (int i = 0; i < run->input_count; i++)
            now[i] = (kn_feed){feeds[i].name, all[i] + (size_t)at * feeds[i].bytes,
                               feeds[i].bytes * (size_t)count};
        kn_tensor_info info;
        uint64_t bytes = 0;
        kn_status status = kn_session_compile(run->session, now, (size_t)run->input_count);
        if (status == KN_OK) status = kn_session_info(run->session, name, &info);
        if (status == KN_OK &&
            (!kn_tensor_bytes(&info, &bytes) || info.rank == 0 || info.shape[0] != count)) {
            command_fail("the output '%s' has no row for each sample", name);
            fine = false;
            break;
        }
        if (status == KN_OK && !*result) {
            row_bytes = (size_t)bytes / (size_t)count;
            *whole = info;
            whole->shape[0] = run->samples;
            *result = malloc(row_bytes * (size_t)run->samples + 1);
            if (!*result) status = KN_ERROR_MEMORY;
        }
        kn_fetch fetch = {name, *result ? *result + row_bytes * (size_t)at : NULL, (size_t)bytes};
        if (status == KN_OK) status = kn_session_run(run->session, now, (size_t)run->input_count, &fetch, 1);
        if (status != KN_OK) {
            command_fail("%s", kn_session_error(run->session)[0] ? kn_session_error(run->session)
                                                                 : kn_status_message(status));
            fine = false;
        }
        at += count;
        progress_line("%lld of %lld samples", (long long)at, (long long)run->samples);
    }
    for (int i = 0; i < run->input_count; i++)
        free(all[i]);
    return fine;
}

static bool open_session(infer_run *run) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = run->states = kn_states_create(run->context, 1);
    params.fast_math = true;
    params.progress.report = progress_compile;
    run->session = kn_session_create(run->context, &run->output, 1, &params);
    if (kn_session_status(run->session) != KN_OK) {
        command_fail("%s", run->session ? kn_session_error(run->session) : "out of memory");
        return false;
    }
    if (kn_model_load(run->model, NULL, run->states, NULL, NULL) != KN_OK) {
        command_fail("%s", kn_model_error(run->model));
        return false;
    }
    return true;
}

static int infer(infer_run *run, const common_options *common, const char *output) {
    named_file file;
    char *result = NULL, message[400];
    kn_tensor_info info;
    split_name(output, &file);
    run->output = find_value(&file, kn_model_output_count(run->model), kn_model_output, run->model);
    if (!run->output)
        return command_fail("the model '%s' has no output '%s'", kn_model_name(run->model), file.name);
    if (run->samples == 0) return command_fail("the input holds no samples");
    run->context = context_open(common);
    if (!run->context || !open_session(run) || !compute(run, &result, &info)) {
        free(result);
        return EXIT_FAILED;
    }
    kn_status status = kn_npy_file_save(file.path, &info, result, message, sizeof message);
    free(result);
    if (status != KN_OK) return command_fail("%s", message);
    if (common->json)
        printf("{\"samples\": %lld, \"output\": \"%s\"}\n", (long long)run->samples,
               kn_value_name(run->output));
    else if (!common->quiet)
        fprintf(stderr, "%lld samples, '%s' written to %s\n", (long long)run->samples,
                kn_value_name(run->output), file.path);
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    const char *input = NULL, *output = NULL;
    uint64_t batch = 256;
    const option options[] = {{"input", OPTION_TEXT, "[NAME=]X.npy",
                               "the samples, first dimension counting them; several: A=a.npy,B=b.npy",
                               &input},
                              {"output", OPTION_TEXT, "[NAME=]Y.npy", "where the result goes", &output},
                              {"batch", OPTION_COUNT, "N", "samples at a time (256)", &batch},
                              COMMON_OPTIONS(common),
                              {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_infer, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (!word_count) return command_misuse("infer needs a saved model, such as lenet.safetensors");
    if (!input || !output) return command_misuse("infer needs --input X.npy and --output Y.npy");
    if (!batch || batch > INT32_MAX)
        return command_misuse("--batch is %llu; expected at least 1", (unsigned long long)batch);
    infer_run run = {.model = model_open(words[0]), .batch = (int64_t)batch};
    status = EXIT_FAILED;
    char list[2048];
    snprintf(list, sizeof list, "%s", input);
    bool fine = run.model != NULL;
    if (fine && !kn_model_has_weights(run.model))
        fine = command_fail("'%s' has no weights: expected a file that koine train saved", words[0]) ==
               EXIT_DONE;
    for (char *word = list, *next; fine && word; word = next) {
        next = strchr(word, ',');
        if (next) *next++ = 0;
        if (run.input_count == MOST_FILES)
            fine = command_fail("at most %d inputs", MOST_FILES) == EXIT_DONE;
        else
            fine = open_input(&run, word);
    }
    if (fine) status = infer(&run, &common, output);
    progress_clear();
    kn_session_destroy(&run.session);
    kn_states_destroy(&run.states);
    for (int i = 0; i < run.input_count; i++)
        kn_npy_file_destroy(&run.inputs[i]);
    kn_model_destroy(&run.model);
    kn_context_destroy(&run.context);
    return status;
}

const command command_infer = {"infer", "run a saved model on arrays in files",
                               "FILE --input X.npy --output Y.npy [--OPTION …]",
                               "Reads npy files, as numpy.save writes them, and writes one.\n"
                               "\n"
                               "  koine infer lenet.safetensors --input images.npy --output logits.npy",
                               run};
