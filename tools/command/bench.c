/* koine bench: training and inference speed of models on a device. */
#include <math.h>
#include <string.h>
#include <sys/wait.h>

#include "bench.h"
#include "training.h"

enum { MAX_CASES = 16, MAX_ARGUMENTS = 64 };

/* ---- several models: each in its own process, so that times and memory are separate ---------------- */

/* Runs `koine bench MODEL` with the same options in a new process. */
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
    if (code) return command_fail("a process for '%s' could not be started: %s", name, strerror(code));
    if (!process_wait(child, &result)) return command_fail("the process for '%s' was lost", name);
    if (WIFEXITED(result)) return WEXITSTATUS(result);
    return command_fail("the process for '%s' was ended by signal %d", name, WTERMSIG(result));
}

/* ---- the command line ------------------------------------------------------------------------------- */

/* Rejects options that apply to one model at a time; EXIT_DONE if there are none. */
static int files_check(const bench_options *options, int word_count) {
    if (!options->weights && !options->input && !options->dump && !options->set) return EXIT_DONE;
    if (word_count > 1)
        return command_misuse("--weights, --input, --dump and --set apply to one model at a time");
    if (options->dump && !path_writable(options->dump, PATH_WHOLE, options->common.overwrite))
        return EXIT_FAILED;
    return EXIT_DONE;
}

int bench_check(bench_options *options, double seconds) {
    int status;
    if ((status = kernel_options_check(&options->common)) != EXIT_DONE ||
        (status = math_options_check(&options->common)) != EXIT_DONE)
        return status;
    if (isnan(options->seconds)) options->seconds = seconds;
    if (!(options->seconds >= 0 && options->seconds <= 1e6))
        return command_misuse("--seconds is %g; expected a number of at least 0", options->seconds);
    bench_power *power = &options->power;
    const bool priced = !isnan(power->price);
    if (priced && !(power->price > 0))
        return command_misuse("--price is %g; expected a number above 0", power->price);
    power->wanted = power->wanted || power->command;
    power->watts = power->per_joule = NAN;
    if (!priced) power->price = 0;
    return EXIT_DONE;
}

/* Checks --scaling and --workers, and sets the default. */
static int scaling_check(const bench_options *options, bool scaling, uint64_t *workers, int word_count) {
    if (*workers != UINT64_MAX && !scaling) return command_misuse("--workers applies to --scaling");
    if (!scaling) return EXIT_DONE;
    if (word_count > 1) return command_misuse("--scaling applies to one model at a time");
    const char *other = !options->training         ? "--mode infer"
                        : options->common.pin      ? "--pin"
                        : options->power.wanted    ? "--power"
                        : options->weights         ? "--weights"
                        : options->input           ? "--input"
                        : options->dump            ? "--dump"
                        : options->common.timeline ? "--profile"
                                                   : NULL;
    if (other) return command_misuse("--scaling and %s exclude each other", other);
    if (*workers == UINT64_MAX) *workers = 2;
    if (*workers < 2 || *workers > BENCH_WORKERS || (*workers & (*workers - 1)))
        return command_misuse("--workers is %llu; expected a power of two from 2 to %d",
                              (unsigned long long)*workers, BENCH_WORKERS);
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    static const char *const modes[] = {"train", "infer"};
    bench_options bench = BENCH_DEFAULTS;
    const char *mode = "train", *trace = NULL;
    /* Distinguishes an absent option from an explicit 0. */
    uint64_t batch = UINT64_MAX, workers = UINT64_MAX;
    bool scaling = false;
    const option options[] = {
        HEADING("steps"),
        {"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
        {"batch", OPTION_COUNT, "N", "samples per step (by the model: 64, mlp 128, resnet50 4 …)", &batch},
        {"seconds", OPTION_NUMBER, "S", "minimum measuring time after the warm-up (3)", &bench.seconds},
        SET_OPTION(bench.set),
        HEADING("several workers"),
        {"scaling", OPTION_FLAG, NULL, "measure a step of several workers, and predict it for up to 1024",
         &scaling},
        {"workers", OPTION_COUNT, "N", "threads for --scaling, without mpirun (2)", &workers},
        HEADING("comparison with other programs"),
        {"weights", OPTION_TEXT, "FILE", "safetensors file of initial parameters, by name", &bench.weights},
        {"input", OPTION_TEXT, "FILE",
         "safetensors file of samples 'x' and, for training, targets 'y'; gives the sizes that an ONNX file "
         "leaves open",
         &bench.input},
        {"dump", OPTION_TEXT, "FILE", "write the results of the timed steps as safetensors", &bench.dump},
        HEADING("profile and energy"),
        {"profile", OPTION_FLAG, NULL, "time per kernel and node, compared with the device's limits",
         &bench.common.timeline},
        TRACE_OPTION(trace),
        OVERWRITE_OPTION(bench.common),
        POWER_OPTIONS(bench.power),
        HEADING("device"),
        {"memory", OPTION_BYTES, "BYTES", "limit of device memory, such as 2GB (all of it)", &bench.memory},
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
    if ((status = bench_check(&bench, 3)) != EXIT_DONE || (status = settings_check(bench.set)) != EXIT_DONE ||
        (status = pin_option_check(&bench.common)) != EXIT_DONE)
        return status;
    int chosen = option_choice("mode", mode, modes, 2);
    if (chosen < 0) return EXIT_USAGE;
    bench.training = chosen == 0;
    if (!word_count) return command_misuse("bench needs a model, such as lenet");
    if (batch != UINT64_MAX && (!batch || batch > INT32_MAX))
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)batch, INT32_MAX);
    bench.batch = batch == UINT64_MAX ? 0 : batch;
    if ((status = files_check(&bench, word_count)) != EXIT_DONE ||
        (status = scaling_check(&bench, scaling, &workers, word_count)) != EXIT_DONE)
        return status;
    if (trace && word_count > 1) return command_misuse("--trace applies to one model at a time");
    if (precompiling() && word_count > 1) return command_misuse("precompile applies to one model at a time");
    if (precompiling()) trace = NULL;
    const output_file outputs[] = {{"--trace", trace}, {"--dump", bench.dump}};
    if ((status = outputs_apart(outputs, 2)) != EXIT_DONE) return status;
    if (!trace_open(trace, bench.common.overwrite, NULL, &bench.common)) return EXIT_FAILED;
    if (word_count == 1) {
        status = scaling ? bench_scaling(words[0], &bench, (int)workers) : bench_model(words[0], &bench);
        return trace_close() ? status : EXIT_FAILED;
    }
    /* Report misspelt names before benchmarking any model. */
    for (int i = 0; i < word_count; i++) {
        kn_model *model = model_open(words[i]);
        if (!model) return EXIT_FAILED;
        kn_model_destroy(&model);
    }
    for (int i = 0; i < word_count; i++)
        if ((status = run_apart(words[i], count, arguments, words, word_count)) != EXIT_DONE) return status;
    return EXIT_DONE;
}

const command command_bench = {
    "bench",
    "measure how fast models train and run",
    "MODEL… [--mode train|infer] [--OPTION …]",
    "mode batch seconds profile trace power scaling device",
    "koine bench lenet\n"
    "koine bench mlp lenet --mode infer\n"
    "koine bench lenet --profile\n"
    "koine bench mlp --power --price 0.35\n"
    "koine bench mlp --scaling --workers 2",
    "A training step uploads a new batch, runs the forward pass with dropout, the loss, the backward pass "
    "and\n"
    "the update of every parameter (SGD with momentum 0.9 at 0.01; gpt: AdamW at 0.0003 with decay 0.01), "
    "and\n"
    "downloads the loss. As in koine train, the next step begins before the loss of the last one is read: "
    "up\n"
    "to 16 steps are timed together. An inference step uploads a batch and downloads the output. After 4\n"
    "steps of warm-up, at least 5 steps are timed, for at least --seconds. Several models run in separate\n"
    "processes.\n"
    "\n"
    "--power repeats the steps for the same time and prints watts and samples per joule: for a processor by\n"
    "the counters of its packages (powercap; often readable only by root) or a sensor (hwmon), for other\n"
    "devices by their sensors and the packages. --power-command replaces them, such as\n"
    "'nvidia-smi -i 0 --query-gpu=power.draw --format=csv,noheader'. Unknown values are null.\n"
    "\n"
    "--scaling times steps of --workers threads on one device, or of the processes of mpirun: each alone, "
    "all\n"
    "at the same time, and as one training run. It also measures the latency of a message, the cost of each\n"
    "further message, the bandwidth while all send, and sums on the host. A model of the step predicts its\n"
    "time from these and the size of the gradients, whose exchange overlaps the backward pass, for up to "
    "1024\n"
    "workers: for Koine's sums, in which each worker adds a slice, for a ring, and for a tree.\n"
    "docs/several-devices-explained.md has the formulas.\n"
    "\n"
    "--profile prints GFLOP/s, GB/s and the fraction of the device's limit per kernel and per node. The "
    "limits\n"
    "are measured: multiply-adds in registers, and memory reads. Work is counted by the direct methods, and\n"
    "each byte once, so that Winograd convolutions and caches can exceed 100%. Of pinned layers it covers\n"
    "only the main device; --trace shows all. --trace writes the steps that --profile analyses, and prints\n"
    "the profile as well. --device auto times a few steps on each device, and selects the fastest.\n"
    "\n"
    "Other programs can check the timed steps. --weights has parameters and running statistics by name, as\n"
    "koine train saves them; missing optimizer state is initialized, anything else missing is an error.\n"
    "--input has 'x' (and targets 'y') for one batch or several, which are used in turn; without --batch "
    "all\n"
    "of it is one batch. --dump writes, in training, 'losses': the loss of each step including the warm-up "
    "in\n"
    "double precision; in inference the output by its name ('logits'), row by row for all samples.",
    run};
