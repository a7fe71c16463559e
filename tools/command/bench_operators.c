/* koine bench-operators: the time of each operator at a realistic size, compared with the device's limits.
 * The forward pass and the gradient are distinguished by the labels of their steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "bench.h"

typedef struct operator_case {
    const char *name, *inputs, *attributes;
} operator_case;

/* Inputs separated by ';': shapes of float32 values, or "int32<N SHAPE" for values below N. */
static const operator_case cases[] = {
    {"add", "4194304; 4194304", ""},
    {"exp", "4194304", ""},
    {"tanh", "4194304", ""},
    {"sigmoid", "4194304", ""},
    {"relu", "4194304", ""},
    {"gelu", "4194304", ""},
    {"sum", "4096,1024", "axes=1"},
    {"mean", "4096,1024", "axes=0"},
    {"reduce_max", "4096,1024", "axes=1"},
    {"softmax", "4096,1024", ""},
    {"log_softmax", "4096,1024", ""},
    {"cross_entropy", "4096,1000; int32<1000 4096", ""},
    {"matmul", "1024,1024; 1024,1024", ""},
    {"conv2d", "8,64,56,56; 64,64,3,3", "padding=1"},
    {"conv2d", "8,256,28,28; 64,256,1,1", ""},
    {"conv2d", "8,128,28,28; 128,1,3,3", "padding=1 groups=128"},
    {"max_pool", "8,64,112,112", "window=3 stride=2 padding=1"},
    {"average_pool", "8,64,56,56", "window=2 stride=2"},
    {"layer_norm", "4096,512; 512; 512", ""},
    {"rms_norm", "4096,512; 512", ""},
    {"attention", "8,128,1152", "heads=6 causal=1"},
    {"embedding", "32000,256; int32<32000 4096", ""},
    {"gather", "32000,256; int32<32000 4096", ""},
    {"transpose", "2048,2048", ""},
    {"slice", "2048,2048", "axis=1 begin=512 end=1536"},
    {"concat", "2048,1024; 2048,1024", "axis=1"},
    {"pad", "2048,2048", "amounts=1,1,1,1"},
    {"flip", "2048,2048", "axes=1"},
    {"cumsum", "2048,2048", "axis=1"},
    {"resize", "8,64,56,56", "axis=2 size=112 mode=linear"},
    {"top_k", "4096,256", "k=8"},
};

typedef struct operator_bench {
    kn_context *context;
    kn_graph *graph;
    kn_session *session; /* only the forward pass */
    kn_trainer *trainer; /* forward pass and gradient */
    int runs;
} operator_bench;

/* The steps of one operator row: for "conv2d_data", all steps whose labels begin with it. */
typedef struct operator_work {
    char name[48];
    size_t launches;
    double flops, bytes, run, best;
    size_t seen;
} operator_work;

/* ---- the graph ---------------------------------------------------------------------------------------- */

static kn_value *make_numbers(kn_graph *graph, const char *shape, long below) {
    char name[] = "numbers";
    kn_value *like = kn_input(graph, name, KN_INT32, shape);
    int64_t count = 1;
    for (int i = 0; i < kn_value_rank(like); i++)
        count *= kn_value_dimension(like, i);
    int32_t *numbers = count > 0 ? malloc((size_t)count * sizeof *numbers) : NULL;
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = (int32_t)(i * 7919 % below);
    kn_value *made =
        kn_constant(graph, KN_INT32, shape, numbers, numbers ? (size_t)count * sizeof *numbers : 0);
    free(numbers);
    return made;
}

/* The inputs are parameters, so that all of them have gradients. */
static kn_value *build(kn_graph *graph, const operator_case *wanted) {
    kn_value *inputs[8] = {NULL};
    size_t count = 0;
    for (const char *text = wanted->inputs; text && count < 8; count++) {
        char shape[64], name[16];
        const char *end = strchr(text, ';');
        snprintf(shape, sizeof shape, "%.*s", end && end - text < 63 ? (int)(end - text) : 63, text);
        snprintf(name, sizeof name, "x%zu", count);
        long below = 0;
        const char *space = strchr(shape, ' ');
        if (sscanf(shape, "int32<%ld", &below) == 1 && space)
            inputs[count] = make_numbers(graph, space + 1, below);
        else
            inputs[count] = kn_parameter(graph, name, KN_FLOAT32, shape, NULL);
        text = end ? end + 2 : NULL;
    }
    return kn_apply(graph, wanted->name, inputs, count, wanted->attributes);
}

/* Whether the comma-separated list `only` (NULL: all) contains the name. */
static bool is_wanted(const char *only, const char *name) {
    const size_t length = strlen(name);
    const char *place = only ? strstr(only, name) : NULL;
    while (place && !((place == only || place[-1] == ',') && (!place[length] || place[length] == ',')))
        place = strstr(place + 1, name);
    return !only || !*only || place;
}

kn_value *bench_operator_next(kn_graph *graph, const char *only, int *position) {
    while (*position < (int)(sizeof cases / sizeof *cases)) {
        const operator_case *wanted = &cases[(*position)++];
        if (is_wanted(only, wanted->name)) return build(graph, wanted);
    }
    return NULL;
}

static bool step_forward(void *user) {
    const operator_bench *bench = user;
    if (kn_session_run(bench->session, NULL, 0, NULL, 0) == KN_OK && kn_session_wait(bench->session) == KN_OK)
        return true;
    return command_error("%s", kn_session_error(bench->session));
}

static bool step_training(void *user) {
    const operator_bench *bench = user;
    if (kn_trainer_step(bench->trainer, 1, NULL, 0, NULL) == KN_OK &&
        kn_trainer_wait(bench->trainer) == KN_OK)
        return true;
    return command_error("%s", kn_trainer_error(bench->trainer));
}

/* ---- analysis of the timeline --------------------------------------------------------------- */

/* Whether a step belongs to the first node of an operator, labelled "conv2d conv2d1", or to its gradient:
 * "conv2d_data conv2d1", "gelu gradient gelu1". */
static bool is_timed(const char *label, const char *operator_name, char *name, size_t bytes) {
    char node[64];
    const char *last = strrchr(label, ' ');
    snprintf(node, sizeof node, "%s1", operator_name);
    if (!last || strcmp(last + 1, node) != 0) return false;
    snprintf(name, bytes, "%.*s", (int)(last - label), label);
    return true;
}

static operator_work *work_of(operator_work *works, int *count, int most, const char *name) {
    for (int i = 0; i < *count; i++)
        if (!strcmp(works[i].name, name)) return &works[i];
    if (*count == most) return NULL;
    works[*count] = (operator_work){.best = INFINITY};
    snprintf(works[*count].name, sizeof works[*count].name, "%s", name);
    return &works[(*count)++];
}

/* Each run has the same launches in the same order. */
static int gather(const operator_bench *bench, const char *wanted, operator_work *works, int most) {
    size_t entries = 0;
    int count = 0;
    char name[48];
    const kn_timeline_entry *timeline = kn_context_timeline(bench->context, &entries);
    for (size_t i = 0; i < entries; i++) {
        operator_work *work = is_timed(timeline[i].label, wanted, name, sizeof name)
                                  ? work_of(works, &count, most, name)
                                  : NULL;
        if (work) work->launches++;
    }
    for (size_t i = 0; i < entries; i++) {
        operator_work *work = is_timed(timeline[i].label, wanted, name, sizeof name)
                                  ? work_of(works, &count, most, name)
                                  : NULL;
        if (!work) continue;
        size_t each = work->launches / (size_t)bench->runs;
        work->flops += timeline[i].flops / bench->runs;
        work->bytes += timeline[i].bytes / bench->runs;
        work->run += timeline[i].end - timeline[i].start;
        if (each == 0 || ++work->seen % each) continue;
        if (work->run < work->best) work->best = work->run;
        work->run = 0;
    }
    return count;
}

static void print_works(const operator_case *wanted, const operator_work *works, int count,
                        const kn_limits *limits, bool json) {
    for (int i = 0; i < count; i++) {
        double math = limits->gflops > 0 ? works[i].flops / limits->gflops * 1e-9 : 0;
        double memory = limits->gbytes > 0 ? works[i].bytes / limits->gbytes * 1e-9 : 0;
        double least = math > memory ? math : memory, best = works[i].best;
        if (!(best > 0) || isinf(best)) continue;
        if (json)
            printf("{\"name\": \"%s\", \"inputs\": \"%s\", \"attributes\": \"%s\", \"ms\": %.6f, \"gflops\": "
                   "%.3f, "
                   "\"gb_s\": %.3f, \"of_limit\": %.4f, \"bound\": \"%s\"}\n",
                   works[i].name, wanted->inputs, wanted->attributes, best * 1e3,
                   works[i].flops / best * 1e-9, works[i].bytes / best * 1e-9, least / best,
                   math > memory ? "math" : "memory");
        else
            printf("%-26s %9.3f %9.1f %9.1f %4.0f%% %-6s  %s%s%s\n", works[i].name, best * 1e3,
                   works[i].flops / best * 1e-9, works[i].bytes / best * 1e-9, 100 * least / best,
                   math > memory ? "math" : "memory", wanted->inputs, *wanted->attributes ? "  " : "",
                   wanted->attributes);
    }
}

/* Times the forward pass or the gradient; prints the operator's own steps if forward, otherwise the
 * others. */
static bool measure(operator_bench *bench, const operator_case *wanted, const bench_options *options,
                    const kn_limits *limits, bool forward) {
    static bench_times times;
    operator_work works[8];
    bool (*step)(void *) = forward ? step_forward : step_training;
    if (!step(bench)) return false;
    kn_context_timeline_clear(bench->context);
    if (!bench_measure(step, bench, options->seconds, &times)) return false;
    bench->runs = times.count + 4; /* including the warm-up */
    int count = gather(bench, wanted->name, works, 8), kept = 0;
    for (int i = 0; i < count; i++)
        if (!strcmp(works[i].name, wanted->name) == forward) works[kept++] = works[i];
    progress_clear();
    print_works(wanted, works, kept, limits, options->common.json);
    return true;
}

static int bench_one(operator_bench *bench, const operator_case *wanted, const bench_options *options,
                     const kn_limits *limits) {
    kn_trainer_params training = KN_TRAINER_DEFAULTS;
    kn_trainer_params_choose(&training, KN_OPTIMIZER_SGD);
    kn_session_params usual = KN_SESSION_DEFAULTS;
    arithmetic_apply(&options->common.arithmetic, &usual);
    kn_session_params running = usual;
    training.momentum = 0;
    training.session = &usual;
    running.switches = "invariant=recompute"; /* all inputs are states */
    bench->graph = kn_graph_create(NULL);
    kn_value *result = build(bench->graph, wanted), *loss = kn_mean(result, NULL, false);
    bench->session = kn_session_create(bench->context, &result, 1, &running);
    bench->trainer = kn_trainer_create(bench->context, loss, &training);
    bool fine = kn_session_status(bench->session) == KN_OK && kn_trainer_status(bench->trainer) == KN_OK;
    if (!fine) command_fail("%s: %s", wanted->name, kn_trainer_error(bench->trainer));
    fine = fine && measure(bench, wanted, options, limits, true) &&
           measure(bench, wanted, options, limits, false);
    kn_session_destroy(&bench->session);
    kn_trainer_destroy(&bench->trainer);
    kn_graph_destroy(&bench->graph);
    return fine ? EXIT_DONE : EXIT_FAILED;
}

static int bench(const bench_options *options, const char *only) {
    bench_options own = *options;
    own.common.timeline = true;
    operator_bench bench = {.context = context_open(&own.common)};
    if (!bench.context) return EXIT_FAILED;
    kn_limits limits = {.size = sizeof limits};
    kn_context_measure_limits(bench.context, true, &limits);
    if (!own.common.json)
        printf("%-26s %9s %9s %9s %12s  %s\n", "operator", "best ms", "GFLOP/s", "GB/s", "of limit",
               "inputs");
    int status = EXIT_DONE, found = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && status == EXIT_DONE; i++) {
        if (!is_wanted(only, cases[i].name)) continue;
        found++;
        status = bench_one(&bench, &cases[i], &own, &limits);
    }
    if (!own.common.json && status == EXIT_DONE && found)
        printf("the device's limits are %.0f GFLOP/s and %.1f GB/s\n", limits.gflops, limits.gbytes);
    kn_context_destroy(&bench.context);
    return found ? status : command_misuse("--operators names no operator that is benchmarked");
}

static int run(int count, char **arguments) {
    bench_options options = BENCH_DEFAULTS;
    const char *only = NULL;
    const option rows[] = {
        HEADING("operators"),
        {"operators", OPTION_TEXT, "A,B", "only these operators", &only},
        {"seconds", OPTION_NUMBER, "S", "minimum measuring time per operator (3)", &options.seconds},
        HEADING("device"),
        MATH_OPTIONS(options.common),
        KERNEL_OPTIONS(options.common),
        COMMON_OPTIONS(options.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_bench_operators, rows, count, arguments, words, &word_count, 0, &status) ||
        (status = bench_check(&options, 3)) != EXIT_DONE)
        return status;
    return bench(&options, only);
}

const command command_bench_operators = {"bench-operators",
                                         "time each operator",
                                         "[--operators A,B] [--OPTION …]",
                                         "operators seconds math precision device json",
                                         "koine bench-operators --operators relu,softmax --seconds 0.2",
                                         "Times each operator at a realistic size, forward and gradient, and "
                                         "compares it with the device's limits.",
                                         run};
