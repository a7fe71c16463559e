/* koine bench: how fast models train and run on a device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "training.h"

enum { BATCHES = 4 };

typedef struct model_bench {
    training_setup setup;
    kn_context *context;
    kn_trainer *trainer;
    kn_session *session;
    bool training;
    int64_t batch;
    float *inputs[BATCHES];
    int32_t *targets[BATCHES];
    size_t input_bytes, target_bytes, output_bytes;
    void *output;
    int turn;
    double loss;
} model_bench;

/* A step: a fresh batch goes up, and the loss (or the output) comes down. */
static bool step(void *user) {
    model_bench *bench = user;
    int turn = bench->turn++ % BATCHES;
    kn_feed feeds[2] = {{"x", bench->inputs[turn], bench->input_bytes},
                        {"y", bench->targets[turn], bench->target_bytes}};
    if (bench->training) {
        if (kn_trainer_step(bench->trainer, bench->batch, feeds, 2, &bench->loss) == KN_OK) return true;
        command_fail("%s", kn_trainer_error(bench->trainer));
        return false;
    }
    kn_fetch fetch = {kn_value_name(kn_model_output(bench->setup.model, 0)), bench->output,
                      bench->output_bytes};
    if (kn_session_run(bench->session, feeds, 1, &fetch, 1) == KN_OK) return true;
    command_fail("%s", kn_session_error(bench->session));
    return false;
}

static bool make_batches(model_bench *bench) {
    const kn_value *input = kn_model_input(bench->setup.model, 0);
    uint64_t state = 88172645463325252ull;
    size_t elements = (size_t)bench->batch;
    for (int d = 1; d < kn_value_rank(input); d++)
        elements *= (size_t)kn_value_dimension(input, d);
    const kn_value *output = kn_model_output(bench->setup.model, 0);
    int64_t classes = kn_value_dimension(output, kn_value_rank(output) - 1);
    bench->input_bytes = elements * sizeof(float);
    bench->target_bytes = (size_t)bench->batch * sizeof(int32_t);
    for (int i = 0; i < BATCHES; i++) {
        bench->inputs[i] = malloc(bench->input_bytes);
        bench->targets[i] = malloc(bench->target_bytes);
        if (!bench->inputs[i] || !bench->targets[i]) return command_fail("out of memory") == EXIT_DONE;
        for (size_t j = 0; j < elements + (size_t)bench->batch; j++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if (j < elements)
                bench->inputs[i][j] = (float)(state >> 40) * 0x1p-23f - 1.0f;
            else
                bench->targets[i][j - elements] = (int32_t)(state % (uint64_t)(classes > 0 ? classes : 1));
        }
    }
    return true;
}

static bool prepare(model_bench *bench, kn_plan_info *info) {
    kn_status status;
    if (bench->training) {
        kn_trainer_params params;
        kn_trainer_params_init(&params);
        params.fast_math = true;
        params.progress.report = progress_compile;
        bench->trainer = kn_trainer_create(bench->context, bench->setup.loss.value, &params);
        status = kn_trainer_status(bench->trainer);
        if (status == KN_OK) status = kn_trainer_compile(bench->trainer, bench->batch);
        if (status == KN_OK) status = kn_trainer_plan(bench->trainer, info);
        if (status != KN_OK)
            command_fail("%s", bench->trainer ? kn_trainer_error(bench->trainer) : "out of memory");
        return status == KN_OK;
    }
    kn_value *output = kn_model_output(bench->setup.model, 0);
    kn_session_params params;
    kn_tensor_info shape;
    uint64_t bytes = 0;
    kn_session_params_init(&params);
    params.fast_math = true;
    params.progress.report = progress_compile;
    bench->session = kn_session_create(bench->context, &output, 1, &params);
    status = kn_session_status(bench->session);
    if (status == KN_OK) status = kn_session_bind(bench->session, "batch", bench->batch);
    if (status == KN_OK) status = kn_session_compile(bench->session, NULL, 0);
    if (status == KN_OK) status = kn_session_plan(bench->session, info);
    if (status == KN_OK) status = kn_session_info(bench->session, kn_value_name(output), &shape);
    if (status == KN_OK && kn_tensor_bytes(&shape, &bytes)) {
        bench->output_bytes = (size_t)bytes;
        bench->output = malloc((size_t)bytes + 1);
    }
    if (status != KN_OK)
        command_fail("%s", bench->session ? kn_session_error(bench->session) : "out of memory");
    return status == KN_OK && bench->output;
}

static void print_result(const model_bench *bench, bench_times *times, const kn_plan_info *info, double base,
                         bool json) {
    double median, best, p99;
    bench_summary(times, &median, &best, &p99);
    const char *name = kn_model_name(bench->setup.model), *mode = bench->training ? "train" : "infer";
    if (!json) {
        char memory[32];
        progress_clear();
        printf("%s %s, batch %lld: %.3f ms (best %.3f, p99 %.3f), %.0f samples/s, %.1f GFLOP/s, first step "
               "after %.2f s, "
               "%d kernels, plan %s\n",
               name, mode, (long long)bench->batch, 1e3 * median, 1e3 * best, 1e3 * p99,
               (double)bench->batch / median, info->flops / median * 1e-9, times->first, info->kernels,
               bytes_text((double)info->peak_bytes, memory, sizeof memory));
        return;
    }
    printf("{\"case\": \"%s\", \"mode\": \"%s\", \"batch\": %lld, \"device\": ", name, mode,
           (long long)bench->batch);
    json_text(stdout, kn_context_device(bench->context)->name);
    const struct {
        const char *name;
        double number;
    } fields[] = {{"median_ms", 1e3 * median},
                  {"best_ms", 1e3 * best},
                  {"p99_ms", 1e3 * p99},
                  {"per_s", (double)bench->batch / median},
                  {"gflops", info->flops / median * 1e-9},
                  {"first_s", times->first},
                  {"loss", bench->training ? bench->loss : NAN},
                  {"kernels", info->kernels},
                  {"plan_bytes", (double)info->peak_bytes},
                  {"rss_base_bytes", base},
                  {"rss_peak_bytes", bench_peak_rss()},
                  {"n", times->count}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        printf(", \"%s\": ", fields[i].name);
        json_number(stdout, fields[i].number);
    }
    printf("}\n");
}

static int bench_model(const char *name, const common_options *common, bool training, int64_t batch) {
    model_bench bench = {.training = training, .batch = batch, .loss = NAN};
    kn_plan_info info = {.size = sizeof info};
    static bench_times times;
    int status = EXIT_FAILED;
    if (setup_model(&bench.setup, name, NULL) && (bench.context = context_open(common))) {
        double base = bench_peak_rss();
        if (make_batches(&bench) && prepare(&bench, &info) && bench_measure(step, &bench, &times)) {
            print_result(&bench, &times, &info, base, common->json);
            status = EXIT_DONE;
        }
    }
    kn_trainer_destroy(&bench.trainer);
    kn_session_destroy(&bench.session);
    for (int i = 0; i < BATCHES; i++) {
        free(bench.inputs[i]);
        free(bench.targets[i]);
    }
    free(bench.output);
    setup_finish(&bench.setup);
    kn_context_destroy(&bench.context);
    return status;
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    const char *mode = "train";
    uint64_t batch = 0, size = 1024, m = 0, n = 0, k = 0;
    const option options[] = {{"mode", OPTION_TEXT, "MODE", "train or infer (train)", &mode},
                              {"batch", OPTION_COUNT, "N", "samples in a step (64; mlp: 128)", &batch},
                              {"size", OPTION_COUNT, "N", "of gemm: m, n and k (1024)", &size},
                              {"m", OPTION_COUNT, "N", "of gemm: rows of the result", &m},
                              {"n", OPTION_COUNT, "N", "of gemm: columns of the result", &n},
                              {"k", OPTION_COUNT, "N", "of gemm: length of the sums", &k},
                              KERNEL_OPTIONS(common),
                              COMMON_OPTIONS(common),
                              {.name = NULL}};
    const char *words[16];
    int word_count, status;
    bench_start = bench_now();
    if (!options_read(&command_bench, options, count, arguments, words, &word_count, 16, &status))
        return status;
    if ((status = kernel_options_check(&common)) != EXIT_DONE) return status;
    bool training = !strcmp(mode, "train");
    if (!training && strcmp(mode, "infer"))
        return command_misuse("--mode is '%s'; expected train or infer", mode);
    if (!word_count) return command_misuse("bench needs a case: mlp, lenet, another model, or gemm");
    if (batch > INT32_MAX || size < 1 || size > 32768 || m > 32768 || n > 32768 || k > 32768)
        return command_misuse("sizes are from 1 to 32768");
    for (int i = 0; i < word_count; i++) {
        if (!strcmp(words[i], "gemm"))
            status = bench_gemm(&common, (int64_t)(m ? m : size), (int64_t)(n ? n : size),
                                (int64_t)(k ? k : size));
        else
            status = bench_model(words[i], &common, training,
                                 batch                      ? (int64_t)batch
                                 : !strcmp(words[i], "mlp") ? 128
                                                            : 64);
        if (status != EXIT_DONE) return status;
        fflush(stdout);
    }
    return EXIT_DONE;
}

const command command_bench = {
    "bench", "how fast models train and run here", "CASE… [--mode train|infer] [--OPTION …]",
    "A training step is the upload of a fresh batch, forward with dropout, loss, backward, the update of "
    "every\n"
    "parameter, and the loss read by the host. Each case is timed for at least 3 seconds and 5 steps after 4 "
    "of\n"
    "warm-up. gemm is a matrix product, beside a plain C loop on one core and on all.\n"
    "\n"
    "  koine bench mlp lenet --mode train\n"
    "  koine bench gemm --size 512",
    run};
