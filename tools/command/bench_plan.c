/* koine bench-plan: planning time per pass as the network grows. */
#include <stdio.h>

#include "bench.h"

enum { FIRST_LAYERS = 250, WIDTH = 8, BATCH = 4, MAX_PASSES = 32, MAX_SIZES = 8 };

typedef struct plan_times {
    int64_t layers;
    int steps, passes;
    double total; /* including graph, gradient and update */
    double seconds[MAX_PASSES];
} plan_times;

/* The loss of `layers` linear layers with relu: x is (batch, WIDTH). */
static kn_value *build(kn_graph *graph, int64_t layers) {
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,8");
    for (int64_t i = 0; i < layers; i++)
        x = kn_relu(kn_linear(x, WIDTH, NULL));
    return kn_cross_entropy(x, kn_input(graph, "y", KN_INT32, "batch"), NULL);
}

/* Plans a training step of the network, without compiling it. */
static bool measure(kn_context *context, int64_t layers, const char *names[], plan_times *times) {
    double start = clock_now();
    kn_plan_info info = {.size = sizeof info};
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    kn_session_params session = KN_SESSION_DEFAULTS;
    session.switches = "programs=none";
    params.session = &session;
    kn_graph *graph = kn_graph_create(NULL);
    kn_trainer *trainer = kn_trainer_create(context, build(graph, layers), &params);
    kn_status status = kn_trainer_compile(trainer, BATCH);
    if (status == KN_OK) status = kn_trainer_plan(trainer, &info);
    *times = (plan_times){.layers = layers, .steps = info.steps, .total = clock_now() - start};
    for (kn_plan_pass pass = KN_PLAN_PASS_DEFAULTS; times->passes < MAX_PASSES && status == KN_OK;
         times->passes++) {
        if (kn_trainer_plan_pass_at(trainer, times->passes, &pass) != KN_OK) break;
        names[times->passes] = pass.name;
        times->seconds[times->passes] = pass.seconds;
    }
    if (status != KN_OK) command_fail("%s", kn_trainer_error(trainer));
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
    return status == KN_OK;
}

static double rest(const plan_times *times) {
    double left = times->total;
    for (int i = 0; i < times->passes; i++)
        left -= times->seconds[i];
    return left;
}

static void print_row(const char *name, const plan_times *times, int count,
                      double (*of)(const plan_times *, int), int pass) {
    printf("%-22s", name);
    for (int i = 0; i < count; i++)
        printf("%10.2f", 1e3 * of(&times[i], pass));
    printf("\n");
}

static double of_pass(const plan_times *times, int pass) {
    return times->seconds[pass];
}

static double of_rest(const plan_times *times, int pass) {
    (void)pass;
    return rest(times);
}

static double of_total(const plan_times *times, int pass) {
    (void)pass;
    return times->total;
}

static void print_text(const plan_times *times, int count, const char *const *names) {
    progress_clear();
    printf("plan, training, milliseconds\n%-22s", "layers");
    for (int i = 0; i < count; i++)
        printf("%10lld", (long long)times[i].layers);
    printf("\n%-22s", "steps");
    for (int i = 0; i < count; i++)
        printf("%10d", times[i].steps);
    printf("\n");
    for (int pass = 0; pass < times[0].passes; pass++)
        print_row(names[pass], times, count, of_pass, pass);
    print_row("graph, gradient, rest", times, count, of_rest, 0);
    print_row("all", times, count, of_total, 0);
}

static void print_json(const plan_times *times, const char *const *names) {
    printf("{\"case\": \"plan\", \"mode\": \"train\", \"layers\": %lld, \"steps\": %d, \"seconds\": ",
           (long long)times->layers, times->steps);
    json_measure(stdout, times->total);
    printf(", \"passes\": {");
    for (int pass = 0; pass < times->passes; pass++) {
        printf("%s\"%s\": ", pass ? ", " : "", names[pass]);
        json_measure(stdout, times->seconds[pass]);
    }
    printf("}}\n");
}

static int bench(const bench_options *options, int sizes) {
    plan_times times[MAX_SIZES];
    const char *names[MAX_PASSES] = {NULL};
    kn_context *context = context_open(&options->common);
    if (!context) return EXIT_FAILED;
    int count = 0;
    while (count < sizes) {
        progress_now("planning %lld layers", (long long)FIRST_LAYERS << count);
        if (!measure(context, (int64_t)FIRST_LAYERS << count, names, &times[count])) break;
        if (options->common.json) print_json(&times[count], names);
        count++;
    }
    if (count == sizes && !options->common.json) print_text(times, count, names);
    kn_context_destroy(&context);
    return count == sizes ? EXIT_DONE : EXIT_FAILED;
}

static int run(int count, char **arguments) {
    bench_options options = BENCH_DEFAULTS;
    uint64_t sizes = 6;
    const option rows[] = {
        HEADING("networks"),
        {"sizes", OPTION_COUNT, "N", "number of sizes, each twice the previous one (6)", &sizes},
        HEADING("device"),
        KERNEL_OPTIONS(options.common),
        COMMON_OPTIONS(options.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_bench_plan, rows, count, arguments, words, &word_count, 0, &status) ||
        (status = bench_check(&options, 3)) != EXIT_DONE)
        return status;
    if (sizes < 1 || sizes > MAX_SIZES)
        return command_misuse("--sizes is %llu; expected 1 to %d", (unsigned long long)sizes, MAX_SIZES);
    return bench(&options, (int)sizes);
}

const command command_bench_plan = {
    "bench-plan",
    "time planning as a network grows",
    "[--sizes N] [--OPTION …]",
    "sizes device json",
    "koine bench-plan --sizes 3",
    "Prints the time of each pass of the planner for networks of growing size. Nothing is compiled.",
    run};
