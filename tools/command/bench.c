/* koine bench: how fast models train and run on a device. */
#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch.h"
#include "bench.h"
#include "training.h"

enum { BATCHES = 4, MOST_CASES = 16, MOST_ARGUMENTS = 64 };

/* ---- a model ------------------------------------------------------------------------------------ */

typedef struct model_bench {
    training_setup setup;
    kn_context *context;
    kn_trainer *trainer; /* one of them */
    kn_session *session;
    bool training;
    int64_t batch;
    kn_value *input, *output, *target;
    void *inputs[BATCHES], *targets[BATCHES]; /* fresh batches, in turn */
    size_t input_bytes, target_bytes, output_bytes;
    void *result;
    int turn;
    double loss;
} model_bench;

/* A step: a fresh batch goes up, and the loss (or the output) comes down. */
static bool step(void *user) {
    model_bench *bench = user;
    int turn = bench->turn++ % BATCHES;
    kn_feed feeds[2] = {{kn_value_name(bench->input), bench->inputs[turn], bench->input_bytes},
                        {kn_value_name(bench->target), bench->targets[turn], bench->target_bytes}};
    if (bench->training) {
        if (kn_trainer_step(bench->trainer, bench->batch, feeds, 2, &bench->loss) == KN_OK) return true;
        command_fail("%s", kn_trainer_error(bench->trainer));
        return false;
    }
    kn_fetch fetch = {kn_value_name(bench->output), bench->result, bench->output_bytes};
    if (kn_session_run(bench->session, feeds, 1, &fetch, 1) == KN_OK) return true;
    command_fail("%s", kn_session_error(bench->session));
    return false;
}

/* Random numbers for `value` (batch,...): from -1 to 1, or classes. NULL: out of memory, or a size is open.
 */
static void *make_numbers(const model_bench *bench, const kn_value *value, uint64_t *state, size_t *bytes) {
    int last = kn_value_rank(bench->output) - 1;
    int64_t classes = kn_value_dimension(bench->output, last), elements = bench->batch;
    for (int d = 1; d < kn_value_rank(value); d++) {
        int64_t size = kn_value_dimension(value, d);
        if (size < 0 || (size && elements > INT64_MAX / 8 / size)) return NULL;
        elements *= size;
    }
    *bytes = (size_t)elements * 4;
    float *numbers = malloc(*bytes + 1);
    int32_t *whole = (int32_t *)numbers;
    for (int64_t i = 0; i < elements && numbers; i++) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        if (kn_value_dtype(value) == KN_INT32)
            whole[i] = (int32_t)(*state % (uint64_t)(classes > 0 ? classes : 1));
        else
            numbers[i] = (float)(*state >> 40) * 0x1p-23f - 1.0f;
    }
    return numbers;
}

/* Where the time of a few more steps goes. */
static bool profile_steps(model_bench *bench) {
    double begin = clock_now();
    int runs = 0;
    kn_context_timeline_clear(bench->context);
    while (runs < 5 || clock_now() - begin < 2) {
        if (!step(bench)) return false;
        runs++;
    }
    return bench_profile_print(bench->context, runs, clock_now() - begin);
}

static bool make_batches(model_bench *bench) {
    const kn_model *model = bench->setup.model;
    uint64_t state = 88172645463325252ull;
    bench->input = kn_model_input(model, 0);
    bench->output = kn_model_output(model, 0);
    bench->target = bench->setup.loss.target;
    if (kn_model_input_count(model) > 1)
        return command_fail("'%s' has %d inputs; bench feeds models that have one", kn_model_name(model),
                            kn_model_input_count(model)) == EXIT_DONE;
    for (int i = 0; i < BATCHES; i++) {
        bench->inputs[i] = make_numbers(bench, bench->input, &state, &bench->input_bytes);
        bench->targets[i] = make_numbers(bench, bench->target, &state, &bench->target_bytes);
        if (!bench->inputs[i] || !bench->targets[i])
            return command_fail(
                       "a batch of %lld for '%s' could not be made: too large, or a size that only data "
                       "tells",
                       (long long)bench->batch, kn_model_name(model)) == EXIT_DONE;
    }
    return true;
}

static kn_status prepare_training(model_bench *bench, kn_plan_info *info) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    params.fast_math = true;
    bench->trainer = kn_trainer_create(bench->context, bench->setup.loss.value, &params);
    kn_status status = kn_trainer_status(bench->trainer);
    if (status == KN_OK) status = kn_trainer_compile(bench->trainer, bench->batch);
    if (status == KN_OK) status = kn_trainer_plan(bench->trainer, info);
    if (status != KN_OK) command_fail("%s", kn_trainer_error(bench->trainer));
    return status;
}

static kn_status prepare_inference(model_bench *bench, kn_plan_info *info) {
    kn_session_params params;
    kn_tensor_info shape;
    uint64_t bytes = 0;
    kn_session_params_init(&params);
    params.fast_math = true;
    bench->session = kn_session_create(bench->context, &bench->output, 1, &params);
    kn_status status = kn_session_status(bench->session);
    if (status == KN_OK) status = batch_plan_session(bench->session, bench->batch, info);
    if (status == KN_OK) status = kn_session_info(bench->session, kn_value_name(bench->output), &shape);
    if (status != KN_OK) {
        command_fail("%s", kn_session_error(bench->session));
        return status;
    }
    bench->result = kn_tensor_bytes(&shape, &bytes) ? malloc((size_t)bytes + 1) : NULL;
    bench->output_bytes = (size_t)bytes;
    if (bench->result) return KN_OK;
    command_fail("out of memory");
    return KN_ERROR_MEMORY;
}

static void print_text(const bench_result *result, bench_times *times) {
    double median, best, p99;
    char memory[32];
    bench_summary(times, &median, &best, &p99);
    progress_clear();
    printf("%s %s, batch %lld: %.3f ms (best %.3f, p99 %.3f), %.0f samples/s, %.1f GFLOP/s, first step after "
           "%.2f s, %llu kernels, plan %s\n",
           result->name, result->mode, (long long)result->batch, 1e3 * median, 1e3 * best, 1e3 * p99,
           (double)result->batch / median, result->flops / median * 1e-9, times->first,
           (unsigned long long)result->kernels,
           bytes_text((double)result->plan_bytes, memory, sizeof memory));
}

static int bench_model(const char *name, const common_options *common, bool training, int64_t batch) {
    model_bench bench = {.training = training, .batch = batch, .loss = NAN};
    kn_plan_info info = {.size = sizeof info};
    static bench_times times;
    int status = EXIT_FAILED;
    bench.context = context_open(common);
    uint64_t base = bench_rss();
    if (bench.context && setup_model(&bench.setup, name, NULL) && make_batches(&bench) &&
        (training ? prepare_training : prepare_inference)(&bench, &info) == KN_OK &&
        bench_measure(step, &bench, &times)) {
        bench_result result = {.name = kn_model_name(bench.setup.model),
                               .mode = training ? "train" : "infer",
                               .device = kn_context_device(bench.context)->name,
                               .batch = batch,
                               .flops = info.flops,
                               .loss = bench.loss,
                               .kernels = (uint64_t)info.kernels,
                               .plan_bytes = info.peak_bytes,
                               .rss_base_bytes = base};
        if (common->json) {
            bench_print_json(&result, &times);
            puts("}");
        } else {
            print_text(&result, &times);
        }
        if (!common->timeline || profile_steps(&bench)) status = EXIT_DONE;
    }
    kn_trainer_destroy(&bench.trainer);
    kn_session_destroy(&bench.session);
    for (int i = 0; i < BATCHES; i++) {
        free(bench.inputs[i]);
        free(bench.targets[i]);
    }
    free(bench.result);
    setup_finish(&bench.setup);
    kn_context_destroy(&bench.context);
    return status;
}

/* ---- several cases: each in a process of its own, so that times and memory are its own ------------ */

extern char **environ;

/* Runs `koine bench CASE` with the same options. */
static int run_apart(const char *name, int count, char **arguments, const char *const *words,
                     int word_count) {
    static char program[] = "koine", verb[] = "bench";
    char *own[MOST_ARGUMENTS + 4];
    int used = 0, result = 0;
    pid_t child = 0;
    own[used++] = program;
    own[used++] = verb;
    own[used++] = (char *)(uintptr_t)name;
    for (int i = 0; i < count && used < MOST_ARGUMENTS; i++) {
        bool is_case = false;
        for (int w = 0; w < word_count; w++)
            is_case = is_case || arguments[i] == words[w];
        if (!is_case) own[used++] = arguments[i];
    }
    own[used] = NULL;
    fflush(stdout);
    int code = posix_spawn(&child, "/proc/self/exe", NULL, NULL, own, environ);
    if (code)
        return command_fail("a process for the case '%s' could not be started: %s", name, strerror(code));
    while (waitpid(child, &result, 0) < 0)
        if (errno != EINTR) return command_fail("the process of the case '%s' was lost", name);
    if (WIFEXITED(result)) return WEXITSTATUS(result);
    return command_fail("the case '%s' was ended by signal %d", name, WTERMSIG(result));
}

/* ---- the command line ------------------------------------------------------------------------------- */

/* Samples in a step where nothing is said, so that a step is long enough to be measured; otherwise 64. */
static const struct {
    const char *name;
    uint64_t batch;
} usual[] = {{"mlp", 128},   {"resnet18c", 32},  {"vgg11c", 32}, {"resnet50", 4},
             {"alexnet", 8}, {"mobilenetv2", 4}, {"lstm", 32},   {"gpt", 8}};

static int run_case(const char *name, const common_options *common, bool training, uint64_t batch,
                    const uint64_t *sizes) {
    if (!strcmp(name, "gemm"))
        return bench_gemm(common, (int64_t)sizes[0], (int64_t)sizes[1], (int64_t)sizes[2]);
    for (size_t i = 0; !batch && i < sizeof usual / sizeof *usual; i++)
        if (!strcmp(name, usual[i].name)) batch = usual[i].batch;
    if (!batch) batch = 64;
    return bench_model(name, common, training, (int64_t)batch);
}

static int run(int count, char **arguments) {
    static const char *const modes[] = {"train", "infer"};
    common_options common = {.device = NULL};
    const char *mode = "train";
    uint64_t batch = 0, size = 1024, sizes[3] = {0, 0, 0};
    const option options[] = {
        {"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
        {"batch", OPTION_COUNT, "N", "samples in a step (by the case: 64, mlp 128, resnet50 4 …)", &batch},
        {"size", OPTION_COUNT, "N", "of gemm: all three sizes (1024)", &size},
        {"m", OPTION_COUNT, "N", "of gemm: rows of the result", &sizes[0]},
        {"n", OPTION_COUNT, "N", "of gemm: columns of the result", &sizes[1]},
        {"k", OPTION_COUNT, "N", "of gemm: length of the sums", &sizes[2]},
        {"profile", OPTION_FLAG, NULL, "where the time goes, by kernel and by node", &common.timeline},
        KERNEL_OPTIONS(common),
        COMMON_OPTIONS(common),
        {.name = NULL}};
    const char *words[MOST_CASES];
    int word_count, status;
    bench_start = clock_now();
    if (!options_read(&command_bench, options, count, arguments, words, &word_count, MOST_CASES, &status))
        return status;
    if ((status = kernel_options_check(&common)) != EXIT_DONE) return status;
    int chosen = option_choice("mode", mode, modes, 2);
    if (chosen < 0) return EXIT_USAGE;
    if (!word_count) return command_misuse("bench needs a case: mlp, lenet, another model, or gemm");
    if (batch > INT32_MAX)
        return command_misuse("--batch is %llu; expected 1 to %d", (unsigned long long)batch, INT32_MAX);
    for (int i = 0; i < 3; i++) {
        if (!sizes[i]) sizes[i] = size;
        if (sizes[i] < 1 || sizes[i] > 32768) return command_misuse("sizes of gemm are from 1 to 32768");
    }
    if (common.timeline && common.json)
        return command_misuse("--profile prints tables, not JSON; leave out one");
    if (word_count == 1) return run_case(words[0], &common, chosen == 0, batch, sizes);
    /* What is misspelt is told before the others take their time. */
    for (int i = 0; i < word_count; i++) {
        kn_model *model = strcmp(words[i], "gemm") ? model_open(words[i]) : NULL;
        if (!model && strcmp(words[i], "gemm")) return EXIT_FAILED;
        kn_model_destroy(&model);
    }
    for (int i = 0; i < word_count; i++)
        if ((status = run_apart(words[i], count, arguments, words, word_count)) != EXIT_DONE) return status;
    return EXIT_DONE;
}

const command command_bench = {
    "bench", "how fast models train and run here", "CASE… [--mode train|infer] [--OPTION …]",
    "A CASE is a model or gemm, a matrix product beside a plain C loop on one core and on all. A training "
    "step\n"
    "is the upload of a fresh batch, forward with dropout, loss, backward, the update of every parameter, "
    "and\n"
    "the loss read by the host; an inference step uploads a batch and reads the output. Steps are timed for "
    "at\n"
    "least 3 seconds and 5 steps after 4 of warm-up, each case in a process of its own.\n"
    "\n"
    "  koine bench mlp lenet --mode train\n"
    "  koine bench resnet18c --mode infer --profile\n"
    "  koine bench gemm --size 512",
    run};
