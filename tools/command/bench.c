/* koine bench: how fast models train and run on a device. */
#include <math.h>
#include <string.h>
#include <sys/wait.h>

#include "bench.h"
#include "training.h"

enum { MAX_CASES = 16, MAX_ARGUMENTS = 64 };

/* ---- several cases: each in its own process, so that times and memory are separate ----------------- */

/* Runs `koine bench CASE` with the same options in a new process. */
static int run_apart(const char *name, int count, char **arguments, const char *const *words,
                     int word_count) {
    static char program[] = "koine", verb[] = "bench";
    char *own[MAX_ARGUMENTS + 4];
    int used = 0, result = 0;
    pid_t child = 0;
    own[used++] = program;
    own[used++] = verb;
    own[used++] = (char *)(uintptr_t)name;
    for (int i = 0; i < count && used < MAX_ARGUMENTS; i++) {
        bool is_case = false;
        for (int w = 0; w < word_count; w++)
            is_case = is_case || arguments[i] == words[w];
        if (!is_case) own[used++] = arguments[i];
    }
    own[used] = NULL;
    int code = process_start(own, false, &child);
    if (code)
        return command_fail("a process for the case '%s' could not be started: %s", name, strerror(code));
    if (!process_wait(child, &result)) return command_fail("the process of the case '%s' was lost", name);
    if (WIFEXITED(result)) return WEXITSTATUS(result);
    return command_fail("the case '%s' was ended by signal %d", name, WTERMSIG(result));
}

/* ---- the command line ------------------------------------------------------------------------------- */

/* Cases that are not models. */
static bool is_apart(const char *name) {
    return !strcmp(name, "gemm") || !strcmp(name, "operators") || !strcmp(name, "crossover") ||
           !strcmp(name, "plan");
}

typedef struct case_options {
    uint64_t gemm[3], sizes; /* of gemm; and the number of sizes of crossover and plan */
    const char *only, *plot;
    bool scaling;
    uint64_t workers; /* of scaling; UINT64_MAX: not given */
} case_options;

static int run_case(const char *name, const bench_options *options, const case_options *more) {
    if (!strcmp(name, "operators")) return bench_operators(options, more->only);
    if (!strcmp(name, "crossover")) return bench_crossover(options, more->only, (int)more->sizes, more->plot);
    if (!strcmp(name, "plan")) return bench_plan(options, (int)more->sizes);
    if (!strcmp(name, "gemm"))
        return bench_gemm(options, (int64_t)more->gemm[0], (int64_t)more->gemm[1], (int64_t)more->gemm[2]);
    if (more->scaling) return bench_scaling(name, options, (int)more->workers);
    return bench_model(name, options);
}

/* Rejects cases that --weights, --input, --dump and --set do not support; EXIT_DONE if all is well. */
static int files_check(const bench_options *options, const char *const *words, int word_count) {
    if (!options->weights && !options->input && !options->dump && !options->set) return EXIT_DONE;
    if (word_count > 1)
        return command_misuse("--weights, --input, --dump and --set apply to one case at a time");
    if (is_apart(words[0]))
        return command_misuse("--weights, --input, --dump and --set apply to models, not to %s", words[0]);
    if (options->dump && !path_writable(options->dump, PATH_WHOLE, options->common.overwrite))
        return EXIT_FAILED;
    return EXIT_DONE;
}

/* The same for --pin. */
static int pin_check(const common_options *common, const char *const *words, int word_count) {
    for (int i = 0; common->pin && i < word_count; i++)
        if (is_apart(words[i])) return command_misuse("--pin applies to models, not to %s", words[i]);
    return EXIT_DONE;
}

/* The same for --power and --price. */
static int power_check(bench_power *power, const char *const *words, int word_count) {
    bool priced = !isnan(power->price);
    if (priced && !(power->price > 0))
        return command_misuse("--price is %g; expected a number above 0", power->price);
    power->wanted = power->wanted || power->command;
    power->watts = power->per_joule = NAN;
    if (!priced) power->price = 0;
    for (int i = 0; i < word_count; i++)
        if ((power->wanted || priced) && is_apart(words[i]) && strcmp(words[i], "gemm") != 0)
            return command_misuse("--power and --price apply to models and gemm, not to %s", words[i]);
    return EXIT_DONE;
}

/* The same for --sizes, which gets the default of its case. */
static int sizes_check(uint64_t *sizes, const char *const *words, int word_count) {
    bool plan = false;
    for (int i = 0; i < word_count; i++)
        plan = plan || !strcmp(words[i], "plan");
    if (*sizes == UINT64_MAX) *sizes = plan ? 6 : 9;
    if (plan && (*sizes < 1 || *sizes > BENCH_PLAN_SIZES))
        return command_misuse("--sizes of plan is %llu; expected 1 to %d", (unsigned long long)*sizes,
                              BENCH_PLAN_SIZES);
    return EXIT_DONE;
}

/* The same for --scaling and --workers, which gets its default. */
static int scaling_check(const bench_options *options, case_options *more, const char *const *words,
                         int word_count) {
    if (more->workers != UINT64_MAX && !more->scaling)
        return command_misuse("--workers applies to --scaling");
    if (!more->scaling) return EXIT_DONE;
    if (word_count > 1 || is_apart(words[0]))
        return command_misuse("--scaling applies to one case at a time, and to models");
    const char *other = !options->training         ? "--mode infer"
                        : options->common.pin      ? "--pin"
                        : options->power.wanted    ? "--power"
                        : options->weights         ? "--weights"
                        : options->input           ? "--input"
                        : options->dump            ? "--dump"
                        : options->common.timeline ? "--profile"
                                                   : NULL;
    if (other) return command_misuse("--scaling times training steps of workers, without %s", other);
    if (more->workers == UINT64_MAX) more->workers = 2;
    if (more->workers < 2 || more->workers > BENCH_WORKERS || (more->workers & (more->workers - 1)))
        return command_misuse("--workers is %llu; expected a power of two from 2 to %d",
                              (unsigned long long)more->workers, BENCH_WORKERS);
    return EXIT_DONE;
}

/* The same for options of some cases only. */
static int crossover_check(const case_options *more, bool overwrite, const char *const *words,
                           int word_count) {
    bool crossover = !strcmp(words[0], "crossover");
    if (more->only && !crossover && strcmp(words[0], "operators") != 0)
        return command_misuse("--operators applies to the cases operators and crossover");
    for (int i = 1; i < word_count; i++)
        if (crossover || !strcmp(words[i], "crossover"))
            return command_misuse("crossover compares all devices at once: it is a case alone");
    if (more->plot && !crossover) return command_misuse("--plot applies to the case crossover");
    if (!crossover) return EXIT_DONE;
    int status = bench_crossover_check(more->only, more->sizes);
    if (status == EXIT_DONE && more->plot && !path_writable(more->plot, PATH_WHOLE, overwrite))
        return EXIT_FAILED;
    return status;
}

static int run(int count, char **arguments) {
    static const char *const modes[] = {"train", "infer"};
    bench_options bench = {.seconds = NAN, .power = {.root = "/sys", .price = NAN}};
    const char *mode = "train", *trace = NULL;
    /* Distinguishes an absent option from an explicit 0. */
    uint64_t batch = UINT64_MAX, size = 1024;
    case_options more = {
        .gemm = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, .sizes = UINT64_MAX, .workers = UINT64_MAX};
    const option options[] = {
        HEADING("steps"),
        {"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
        {"batch", OPTION_COUNT, "N", "samples per step (depends on the case: 64, mlp 128, resnet50 4 …)",
         &batch},
        {"seconds", OPTION_NUMBER, "S", "minimum measuring time after the warm-up (3; crossover 0.2)",
         &bench.seconds},
        SET_OPTION(bench.set),
        HEADING("several workers"),
        {"scaling", OPTION_FLAG, NULL,
         "what a step by several workers takes, by measured compute time, latency and bandwidth, and of up "
         "to "
         "1024",
         &more.scaling},
        {"workers", OPTION_COUNT, "N", "of scaling: threads of this process, without mpirun (2)",
         &more.workers},
        HEADING("gemm, operators, crossover, plan"),
        {"size", OPTION_COUNT, "N", "of gemm: all three sizes (1024)", &size},
        {"m", OPTION_COUNT, "N", "of gemm: rows of the result", &more.gemm[0]},
        {"n", OPTION_COUNT, "N", "of gemm: columns of the result", &more.gemm[1]},
        {"k", OPTION_COUNT, "N", "of gemm: length of the dot products", &more.gemm[2]},
        {"operators", OPTION_TEXT, "A,B", "of operators and crossover: only these", &more.only},
        {"sizes", OPTION_COUNT, "N",
         "of crossover (9) and plan (6): number of sizes, each twice the one before", &more.sizes},
        {"plot", OPTION_TEXT, "FILE", "of crossover: the curves as SVG", &more.plot},
        HEADING("comparison with other programs"),
        {"weights", OPTION_TEXT, "FILE", "safetensors with the parameters to begin with, by their names",
         &bench.weights},
        {"input", OPTION_TEXT, "FILE", "safetensors with the samples: 'x', and in training the targets 'y'",
         &bench.input},
        {"dump", OPTION_TEXT, "FILE", "write what the timed steps computed, as safetensors", &bench.dump},
        HEADING("profile and energy"),
        {"profile", OPTION_FLAG, NULL, "time by kernel and node, compared with the device's limits",
         &bench.common.timeline},
        TRACE_OPTION(trace),
        OVERWRITE_OPTION(bench.common),
        {"power", OPTION_FLAG, NULL, "samples per joule, by the counters and sensors of this machine",
         &bench.power.wanted},
        {"power-command", OPTION_TEXT, "COMMAND",
         "command that prints the current watts, run ten times per second (none)", &bench.power.command},
        {"power-root", OPTION_TEXT, "DIR", "the folder that holds class/powercap and class/hwmon (/sys)",
         &bench.power.root},
        {"price", OPTION_NUMBER, "N", "of an hour of this machine: samples per unit of money",
         &bench.power.price},
        HEADING("device"),
        {"memory", OPTION_BYTES, "BYTES", "use no more of the device's memory, such as 2GB (all of it)",
         &bench.memory},
        RECOMPUTE_OPTION(bench.common),
        PIN_OPTION(bench.common),
        MATH_OPTIONS(bench.common),
        KERNEL_OPTIONS(bench.common),
        COMMON_OPTIONS(bench.common),
        {.name = NULL}};
    const char *words[MAX_CASES];
    int word_count, status;
    bench_start = clock_now();
    if (!options_read(&command_bench, options, count, arguments, words, &word_count, MAX_CASES, &status))
        return status;
    if ((status = kernel_options_check(&bench.common)) != EXIT_DONE ||
        (status = math_options_check(&bench.common)) != EXIT_DONE ||
        (status = settings_check(bench.set)) != EXIT_DONE ||
        (status = pin_option_check(&bench.common)) != EXIT_DONE)
        return status;
    int chosen = option_choice("mode", mode, modes, 2);
    if (chosen < 0) return EXIT_USAGE;
    bench.training = chosen == 0;
    if (!word_count)
        return command_misuse(
            "bench needs a case: mlp, lenet, another model, gemm, operators, crossover or plan");
    if (batch != UINT64_MAX && (!batch || batch > INT32_MAX))
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)batch, INT32_MAX);
    bench.batch = batch == UINT64_MAX ? 0 : batch;
    if (isnan(bench.seconds)) bench.seconds = !strcmp(words[0], "crossover") ? 0.2 : 3;
    if (!(bench.seconds >= 0 && bench.seconds <= 1e6))
        return command_misuse("--seconds is %g; expected a number of at least 0", bench.seconds);
    for (int i = 0; i < 3; i++) {
        if (more.gemm[i] == UINT64_MAX) more.gemm[i] = size;
        if (more.gemm[i] < 1 || more.gemm[i] > 32768)
            return command_misuse("sizes of gemm are from 1 to 32768");
    }
    if ((status = sizes_check(&more.sizes, words, word_count)) != EXIT_DONE) return status;
    if ((status = power_check(&bench.power, words, word_count)) != EXIT_DONE) return status;
    if ((status = crossover_check(&more, bench.common.overwrite, words, word_count)) != EXIT_DONE)
        return status;
    if ((status = files_check(&bench, words, word_count)) != EXIT_DONE) return status;
    if ((status = scaling_check(&bench, &more, words, word_count)) != EXIT_DONE) return status;
    if ((status = pin_check(&bench.common, words, word_count)) != EXIT_DONE) return status;
    if (trace && (word_count > 1 || is_apart(words[0])))
        return command_misuse("--trace applies to one case at a time, and to models");
    if (precompiling() && (word_count > 1 || is_apart(words[0])))
        return command_misuse("one case at a time can be precompiled, of models");
    if (precompiling()) trace = NULL;
    const output_file outputs[] = {{"--trace", trace}, {"--dump", bench.dump}, {"--plot", more.plot}};
    if ((status = outputs_apart(outputs, 3)) != EXIT_DONE) return status;
    if (!trace_open(trace, bench.common.overwrite, NULL, &bench.common)) return EXIT_FAILED;
    if (word_count == 1) {
        status = run_case(words[0], &bench, &more);
        return trace_close() ? status : EXIT_FAILED;
    }
    /* Report misspelt names before the other cases take their time. */
    for (int i = 0; i < word_count; i++) {
        kn_model *model = is_apart(words[i]) ? NULL : model_open(words[i]);
        if (!model && !is_apart(words[i])) return EXIT_FAILED;
        kn_model_destroy(&model);
    }
    for (int i = 0; i < word_count; i++)
        if ((status = run_apart(words[i], count, arguments, words, word_count)) != EXIT_DONE) return status;
    return EXIT_DONE;
}

const command command_bench = {
    "bench", "how fast models train and run here", "CASE… [--mode train|infer] [--OPTION …]",
    "A CASE is a model, or one of\n"
    "  gemm       a matrix product, compared with a plain C loop on one core and on all\n"
    "  operators  each operator at a realistic size, forward and gradient, against the device's limits\n"
    "  crossover  the size from which each device is faster than the others\n"
    "  plan       the time of planning as a network grows, pass by pass; nothing is compiled\n"
    "\n"
    "A training step uploads a new batch and runs forward with dropout, loss, backward, the update of\n"
    "every parameter (SGD with momentum 0.9 at 0.01; gpt AdamW at 0.0003 with decay 0.01), and downloads\n"
    "the loss; an inference step uploads a batch and downloads the output. Steps are timed for at least 3\n"
    "seconds (--seconds) and 5 steps after 4 of warm-up, each case in a separate process.\n"
    "\n"
    "crossover measures matrix products, convolutions and training steps at growing sizes on all devices,\n"
    "with uploads and downloads, and reports the sizes at which each is fastest, by at least 5%. A device\n"
    "is not tried beyond the size that takes it a quarter of a second.\n"
    "\n"
    "--power runs the steps again for the same time and reports watts and samples per joule: for a\n"
    "processor from the counters of its packages (powercap; often readable by root only) or a sensor\n"
    "(hwmon), for another device from its sensors and the packages. --power-command, if given, is used\n"
    "instead, such as 'nvidia-smi -i 0 --query-gpu=power.draw --format=csv,noheader'. Unknown values are\n"
    "null.\n"
    "\n"
    "--scaling times steps of --workers threads on one device, or of the processes that mpirun has started:\n"
    "first each alone, all at the same time, then as one training. Between them it measures the latency of "
    "a\n"
    "message, what each further one adds, the bandwidth while all send, and sums on the host. A model of "
    "the\n"
    "step predicts its time from these and from the bytes of the gradients, whose exchange overlaps the\n"
    "backward pass, and is continued to 1024 workers: for Koine's sums, in which each worker adds a slice,\n"
    "and for a ring and a tree. docs/several-devices-explained.md has the formulas.\n"
    "\n"
    "--device auto times a few steps on each device, selects the fastest and says why. --trace writes the\n"
    "steps that --profile analyses, and prints the profile as well. --profile shows GFLOP/s, GB/s and the\n"
    "fraction of the limit by kernel and by node. The limits are measured with it: multiply-adds on\n"
    "registers, and memory reads. Work is counted by the direct methods, each byte once, so that\n"
    "Winograd's method and caches can exceed 100%. If layers are pinned to other devices, it covers the\n"
    "main one only; --trace shows them all.\n"
    "\n"
    "Another program can check what is timed. --weights has the parameters and running statistics by\n"
    "their names, as koine train saves them; what it lacks begins as always where it is the moment of an\n"
    "optimizer, and is a mistake otherwise. --input has 'x' (and the targets 'y') for one batch or\n"
    "several, which the steps take in turn; without --batch all of it is one batch. --dump gets, in\n"
    "training, 'losses': the loss of each step from the first on, warm-up included, in double precision;\n"
    "in inference the output by its name ('logits'), row by row for all samples of the input.\n"
    "\n"
    "  koine bench mlp lenet --mode train\n"
    "  koine bench resnet18c --mode infer --profile\n"
    "  koine bench lenet --weights w.safetensors --input xy.safetensors --dump losses.safetensors\n"
    "  koine bench gemm --size 512\n"
    "  koine bench resnet18c --power --price 0.35\n"
    "  koine bench crossover --plot crossover.svg\n"
    "  koine bench plan --sizes 7\n"
    "  koine bench operators --operators conv2d,softmax --seconds 1",
    run};
