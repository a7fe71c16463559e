/* koine eval: evaluates a saved model on a dataset. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "auto.h"
#include "batch.h"
#include "evaluation.h"

typedef struct eval_run {
    common_options common;
    training_setup setup;
    kn_context *context;
    kn_states *states;
    kn_session *session;
    const char *data;
    const char *weights; /* NULL: the weights of the model's file */
    uint64_t batch, memory;
} eval_run;

static kn_status plan_batch(void *user, int64_t batch, uint64_t *bytes) {
    eval_run *run = user;
    kn_feed feeds[SETUP_FIELDS];
    kn_plan_info info = {.size = sizeof info};
    size_t count = setup_sizes(&run->setup, batch, true, feeds);
    kn_status status = batch_plan_session(run->session, batch, feeds, count, &info);
    *bytes = info.own_peak_bytes;
    return status;
}

static const char *plan_error(void *user) {
    return kn_session_error(((eval_run *)user)->session);
}

/* The perplexity of text: exp(loss). */
static double perplexity_of(const eval_run *run, const evaluation *metrics) {
    const bool text = run->setup.tokenizer || kn_dataset_vocabulary(run->setup.all);
    return text ? exp(metrics->score.loss) : NAN;
}

/* ---- JSON -------------------------------------------------------------------------------------------- */

static void json_fraction(const char *name, double fraction) {
    printf(", \"%s\": ", name);
    json_measure(stdout, fraction);
}

enum { JSON_MATRIX = 200 }; /* the largest matrix that is written */

static void print_json_classes(const kn_dataset *dataset, const evaluation *metrics) {
    fputs(", \"classes\": [", stdout);
    for (int64_t c = 0; c < metrics->classes; c++) {
        char name[80];
        printf("%s{\"class\": %lld, \"name\": ", c ? ", " : "", (long long)c);
        json_text(stdout, evaluation_class(dataset, c, name, sizeof name));
        printf(", \"samples\": %llu, \"predicted\": %llu", (unsigned long long)metrics->truth[c],
               (unsigned long long)metrics->predicted[c]);
        json_fraction("precision", evaluation_precision(metrics, c));
        json_fraction("recall", evaluation_recall(metrics, c));
        json_fraction("f1", evaluation_f1(metrics, c));
        putchar('}');
    }
    fputs("], \"confusion\": ", stdout);
    const bool written = metrics->matrix && metrics->classes <= JSON_MATRIX;
    if (!written) fputs("null", stdout);
    for (int64_t i = 0; written && i < metrics->classes * metrics->classes; i++)
        printf("%s%llu",
               i % metrics->classes ? ", "
               : i                  ? "], ["
                                    : "[[",
               (unsigned long long)metrics->matrix[i]);
    if (written) fputs("]]", stdout);
}

static void print_json(const eval_run *run, const evaluation *metrics) {
    const kn_score *score = &metrics->score;
    printf("{\"model\": ");
    json_text(stdout, kn_model_name(run->setup.model));
    printf(", \"data\": ");
    json_text(stdout, run->data);
    printf(", \"samples\": %llu, \"loss\": ", (unsigned long long)score->samples);
    json_float(stdout, score->loss);
    printf(", \"accuracy\": ");
    json_measure(stdout, score->accuracy);
    if (isfinite(run->setup.variance)) json_fraction("r2", setup_r2(&run->setup, score));
    json_fraction("samples_per_s", score->seconds > 0 ? (double)score->samples / score->seconds : NAN);
    if (isfinite(metrics->rmse)) {
        json_fraction("rmse", metrics->rmse);
        json_fraction("mae", metrics->mae);
    }
    if (metrics->classes || isfinite(perplexity_of(run, metrics))) {
        json_fraction("top5", metrics->top5);
        json_fraction("perplexity", perplexity_of(run, metrics));
        if (metrics->classes) print_json_classes(setup_evaluation_data(&run->setup), metrics);
    }
    puts("}");
}

/* ---- text -------------------------------------------------------------------------------------------- */

enum { ROWS = 24, PAIRS = 16, NAME = 16, LINE = 80, CELL = 6, CELL_LEAST = 3 };

static const char *percent(double fraction, char *text, size_t room) {
    snprintf(text, room, "%.2f%%", 100 * fraction);
    return isfinite(fraction) ? text : "-";
}

/* Prints a class name in |columns| columns, truncated after a whole character; negative: right-aligned. */
static void print_class(const kn_dataset *dataset, int64_t class_index, int columns) {
    char name[80];
    evaluation_class(dataset, class_index, name, sizeof name);
    const size_t most = (size_t)abs(columns), bytes = text_within(name, strlen(name), most);
    const int space = (int)(most - text_columns(name, bytes));
    printf("%*s%.*s%*s", columns < 0 ? space : 0, "", (int)bytes, name, columns < 0 ? 0 : space, "");
}

/* Prints a row per class; if there are many, only the worst classes. */
static void print_classes(const kn_dataset *dataset, const evaluation *metrics) {
    int64_t shown[ROWS];
    int count = 0;
    for (int64_t c = 0; c < metrics->classes; c++) {
        int at = count;
        /* sorted by F1, lowest first; without classes that have no samples */
        if (metrics->classes > ROWS)
            while (at > 0 && evaluation_f1(metrics, c) < evaluation_f1(metrics, shown[at - 1]))
                at--;
        if (at == ROWS || (metrics->classes > ROWS && !metrics->truth[c])) continue;
        if (count < ROWS) count++;
        for (int i = count - 1; i > at; i--)
            shown[i] = shown[i - 1];
        shown[at] = c;
    }
    if (metrics->classes > ROWS)
        printf("\nthe %d of %lld classes with the lowest F1", count, (long long)metrics->classes);
    printf("\n%-*s %9s  precision   recall       F1\n", NAME, "class", "samples");
    for (int i = 0; i < count; i++) {
        char precision[16], recall[16], f1[16];
        print_class(dataset, shown[i], NAME);
        printf(" %9llu  %9s  %7s  %7s\n", (unsigned long long)metrics->truth[shown[i]],
               percent(evaluation_precision(metrics, shown[i]), precision, sizeof precision),
               percent(evaluation_recall(metrics, shown[i]), recall, sizeof recall),
               percent(evaluation_f1(metrics, shown[i]), f1, sizeof f1));
    }
}

/* The cell width of a matrix that fits on a line after the names; 0 if it does not fit. */
static int matrix_cell(const evaluation *metrics, int names) {
    uint64_t most = 0;
    for (int64_t i = 0; i < metrics->classes * metrics->classes; i++)
        if (metrics->matrix[i] > most) most = metrics->matrix[i];
    int least = snprintf(NULL, 0, "%llu", (unsigned long long)most);
    if (least < CELL_LEAST) least = CELL_LEAST;
    const int64_t room = (LINE - names) / metrics->classes - 1;
    return room < least ? 0 : least > CELL ? least : room < CELL ? (int)room : CELL;
}

static void print_matrix(const kn_dataset *dataset, const evaluation *metrics, int names, int cell) {
    printf("\n%-*s predicted\n%-*s", names, "", names, "true");
    for (int64_t c = 0; c < metrics->classes; c++) {
        putchar(' ');
        print_class(dataset, c, -cell);
    }
    putchar('\n');
    for (int64_t row = 0; row < metrics->classes; row++) {
        print_class(dataset, row, names);
        for (int64_t c = 0; c < metrics->classes; c++)
            printf(" %*llu", cell, (unsigned long long)metrics->matrix[row * metrics->classes + c]);
        putchar('\n');
    }
}

/* Prints the most frequent confusions. */
static void print_pairs(const kn_dataset *dataset, const evaluation *metrics) {
    int64_t shown[PAIRS];
    int count = 0;
    for (int64_t i = 0; i < metrics->classes * metrics->classes; i++) {
        int at = count;
        if (!metrics->matrix[i] || i / metrics->classes == i % metrics->classes) continue;
        while (at > 0 && metrics->matrix[i] > metrics->matrix[shown[at - 1]])
            at--;
        if (at == PAIRS) continue;
        if (count < PAIRS) count++;
        for (int j = count - 1; j > at; j--)
            shown[j] = shown[j - 1];
        shown[at] = i;
    }
    if (count)
        printf("\nmost frequent confusions\n%-*s  %-*s %9s    share\n", NAME, "true", NAME, "predicted",
               "samples");
    for (int i = 0; i < count; i++) {
        char text[16];
        const int64_t row = shown[i] / metrics->classes;
        const uint64_t times = metrics->matrix[shown[i]];
        print_class(dataset, row, NAME);
        fputs("  ", stdout);
        print_class(dataset, shown[i] % metrics->classes, NAME);
        printf(" %9llu  %7s\n", (unsigned long long)times,
               percent((double)times / (double)metrics->truth[row], text, sizeof text));
    }
}

/* Prints the confusion matrix if it fits on a line, otherwise the most frequent confusions. */
static void print_confusion(const kn_dataset *dataset, const evaluation *metrics) {
    char name[80];
    int names = (int)strlen("true");
    if (!metrics->matrix) return;
    for (int64_t c = 0; c < metrics->classes; c++) {
        evaluation_class(dataset, c, name, sizeof name);
        const int length = (int)text_columns(name, strlen(name));
        if (length > names) names = length < NAME ? length : NAME;
    }
    const int cell = matrix_cell(metrics, names);
    if (cell)
        print_matrix(dataset, metrics, names, cell);
    else
        print_pairs(dataset, metrics);
}

static void print_text(const eval_run *run, const evaluation *metrics) {
    const training_setup *setup = &run->setup;
    const kn_score *score = &metrics->score;
    char quality[80];
    printf("loss %.4f%s%s", score->loss, setup->unit,
           setup_quality(setup, score, ", ", quality, sizeof quality));
    const bool end = setup->validation && !strncmp(run->data, "text:", strlen("text:"));
    printf(" on %llu samples of %s%s\n", (unsigned long long)score->samples, run->data,
           end ? ": its last tenth, the test part" : "");
    if (isfinite(metrics->top5)) printf("top-5 accuracy %.2f%%\n", 100 * metrics->top5);
    if (isfinite(metrics->rmse))
        printf("root mean squared error %.4g, mean absolute error %.4g\n", metrics->rmse, metrics->mae);
    if (isfinite(perplexity_of(run, metrics))) {
        printf("perplexity %.3f\n", perplexity_of(run, metrics));
    } else if (metrics->classes) {
        print_classes(setup_evaluation_data(setup), metrics);
        print_confusion(setup_evaluation_data(setup), metrics);
    }
}

/* ---- the run ------------------------------------------------------------------------------------------ */

static int evaluate(eval_run *run) {
    training_setup *setup = &run->setup;
    const kn_dataset *dataset = setup_evaluation_data(setup);
    uint64_t samples = kn_dataset_count(dataset);
    int64_t batch = evaluation_batch_most(setup, (int64_t)(run->batch < samples ? run->batch : samples));
    batch_plans plans = {.allowed = run->memory, .user = run, .plan = plan_batch, .error = plan_error};
    run->states = kn_states_create(run->context, 1);
    run->session = run->states
                       ? setup_evaluation(setup, run->context, run->states, &run->common.arithmetic, true)
                       : NULL;
    if (!run->session || !batch_fit(run->context, &plans, "evaluation continues with", &batch))
        return EXIT_FAILED;
    if (kn_model_load(setup->model, run->weights, run->states, NULL, NULL) != KN_OK ||
        (setup->adapter && kn_model_load_adapter(setup->model, setup->adapter, run->states) != KN_OK))
        return command_fail("%s", kn_model_error(setup->model));
    print_compile_time(run->context);
    progress_now("evaluating %llu samples", (unsigned long long)samples);
    evaluation metrics;
    bool done = evaluate_samples(setup, run->session, dataset, batch, &metrics);
    progress_clear();
    if (done && run->common.json)
        print_json(run, &metrics);
    else if (done)
        print_text(run, &metrics);
    evaluation_finish(&metrics);
    return done ? EXIT_DONE : EXIT_FAILED;
}

static int run(int count, char **arguments) {
    eval_run run = {.batch = 64};
    const char *loss = NULL, *bad = NULL;
    uint64_t length = 0;
    const option options[] = {
        HEADING("data"),
        {"data", OPTION_TEXT, "DATA", "data to evaluate on (its test part, if it has one)", &run.data},
        {"batch", OPTION_COUNT, "N", "samples per batch (64)", &run.batch},
        BAD_SAMPLE_OPTION(bad),
        CACHE_OPTION(run.setup.cache),
        HEADING("model"),
        {"loss", OPTION_TEXT, "NAME", "a loss instead of the model's own", &loss},
        WEIGHTS_OPTION(run.weights),
        ADAPTER_OPTION(run.setup.adapter),
        {"length", OPTION_COUNT, "N", "tokens per sample of a language model (the model's, at most 2048)",
         &length},
        HEADING("device"),
        {"memory", OPTION_BYTES, "BYTES", "limit of device memory, such as 2GB (all of it)", &run.memory},
        PIN_OPTION(run.common),
        MATH_OPTIONS(run.common),
        ACTIVATIONS_OPTION(run.common),
        COMMON_OPTIONS(run.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_eval, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (!word_count) return command_misuse("eval needs a saved model, such as lenet.safetensors");
    if (!run.data) return command_misuse("eval needs --data, such as --data digits");
    if (!run.batch || run.batch > INT32_MAX)
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)run.batch, INT32_MAX);
    if (length > INT32_MAX)
        return command_misuse("--length is %llu; expected at most %d", (unsigned long long)length, INT32_MAX);
    if ((status = math_options_check(&run.common)) || (status = pin_option_check(&run.common)) ||
        (status = bad_sample_check(bad, &run.setup.skip_bad)))
        return status;
    if (loss && option_choice("loss", loss, loss_words, loss_word_count) < 0) return EXIT_USAGE;
    status = EXIT_FAILED;
    progress_setup(&run.common);
    run.setup.data = run.data;
    run.setup.by_name = true;
    if (length) run.setup.settings[run.setup.setting_count++] = (kn_model_setting){"window", (int64_t)length};
    if (setup_model(&run.setup, words[0], loss)) {
        if (!run.weights && !kn_model_has_weights(run.setup.model))
            command_fail("'%s' has no weights: expected a file that koine train saved, or --weights",
                         words[0]);
        else if (setup_batch_fits(&run.setup, run.batch) && setup_data(&run.setup, 0, 0) &&
                 device_auto_evaluation(&run.common, &run.setup, run.batch) &&
                 (run.context = context_open(&run.common)) &&
                 devices_join(run.context, &run.common, run.setup.model))
            status = evaluate(&run);
    }
    kn_session_destroy(&run.session);
    kn_states_destroy(&run.states);
    setup_finish(&run.setup);
    kn_context_destroy(&run.context);
    return status;
}

const command command_eval = {
    "eval",
    "evaluate a saved model on a dataset",
    "FILE --data DATA [--OPTION …]",
    "data batch loss weights json device",
    "koine eval lenet.safetensors --data digits\n"
    "koine eval lenet.safetensors --data digits:train --json",
    "FILE is a model that koine train saved. Prints the loss and, by the kind of model:\n"
    "\n"
    "  classes            accuracy, top-5 accuracy, precision, recall and F1 per class, confusion matrix\n"
    "  text               perplexity\n"
    "  numbers            R2, root mean squared error and mean absolute error\n"
    "\n"
    "Classes with names in both the model file and the data, such as folder names, are matched by name. All\n"
    "samples count, including an incomplete last batch. DATA is as for koine train; digits:train and\n"
    "digits:test are the parts of digits. --device auto times a batch on each device, including transfers,\n"
    "and selects the fastest.",
    run};
