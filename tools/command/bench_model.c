/* koine bench of a model: consecutive steps, as in training or inference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "auto.h"
#include "batch.h"
#include "bench.h"
#include "training.h"

enum { BATCHES = 4, MAX_INPUTS = 15 };

/* Default samples per step (otherwise 64), so that a step is long enough to measure, and the optimizer if it
 * is not SGD with momentum. */
static const struct usual {
    const char *name;
    int64_t batch;
    kn_optimizer optimizer;
    double learning_rate, weight_decay;
} usual[] = {{"mlp", 128, KN_OPTIMIZER_SGD, 0.01, 0},     {"resnet18c", 32, KN_OPTIMIZER_SGD, 0.01, 0},
             {"vgg11c", 32, KN_OPTIMIZER_SGD, 0.01, 0},   {"resnet50", 4, KN_OPTIMIZER_SGD, 0.01, 0},
             {"alexnet", 8, KN_OPTIMIZER_SGD, 0.01, 0},   {"mobilenetv2", 4, KN_OPTIMIZER_SGD, 0.01, 0},
             {"lstm", 32, KN_OPTIMIZER_SGD, 0.01, 0},     {"gpt", 8, KN_OPTIMIZER_ADAMW, 3e-4, 0.01},
             {"otherwise", 64, KN_OPTIMIZER_SGD, 0.01, 0}};

static const struct usual *usual_of(const char *name) {
    const struct usual *last = usual + sizeof usual / sizeof *usual - 1, *row = usual;
    while (row < last && strcmp(row->name, name))
        row++;
    return row;
}

/* The data of all batches for an input or the target. */
typedef struct bench_samples {
    const kn_value *value;
    char *data;
    size_t bytes; /* bytes per batch */
} bench_samples;

typedef struct model_bench {
    const bench_options *options;
    training_setup setup;
    kn_context *context;
    kn_trainer *trainer; /* either a trainer or a session */
    kn_session *session;
    int64_t batch;
    kn_value *output;  /* the first output */
    kn_fetch *fetches; /* one batch of each output; the first output's data is `result` */
    size_t output_count;
    bench_samples fed[MAX_INPUTS + 1]; /* in training the target is last */
    int fed_count;
    int64_t turns, turn; /* number of batches, used in rotation */
    size_t output_bytes; /* bytes per batch */
    char *result;        /* all batches with --dump, otherwise one */
    kn_tensor_info result_info;
    bool waits;           /* each step waits for its loss */
    int group;            /* number of steps that are timed together */
    double loss, *losses; /* the losses of all steps, with --dump */
    size_t loss_count, loss_room;
} model_bench;

static bool keep_loss(model_bench *bench) {
    if (bench->loss_count == bench->loss_room) {
        size_t room = bench->loss_room ? 2 * bench->loss_room : 1024;
        double *losses = realloc(bench->losses, room * sizeof *losses);
        if (!losses) return command_error("out of memory for the losses");
        bench->losses = losses;
        bench->loss_room = room;
    }
    bench->losses[bench->loss_count++] = bench->loss;
    return true;
}

/* Shared by all workers. */
static int64_t whole_batch(const model_bench *bench) {
    const bench_among *among = bench->options->among;
    return among && among->shares ? bench->batch * among->all->ranks : bench->batch;
}

/* With --dump every loss is wanted, and several workers wait for each other anyway. */
static bool waits_for_losses(const model_bench *bench) {
    return bench->waits || bench->options->dump || bench->options->among;
}

/* A step: uploads a new batch and downloads the loss or all outputs. */
static bool step(void *user) {
    model_bench *bench = user;
    size_t turn = (size_t)(bench->turn++ % bench->turns);
    bool dump = bench->options->dump != NULL;
    kn_feed feeds[MAX_INPUTS + 1];
    for (int i = 0; i < bench->fed_count; i++) {
        const bench_samples *fed = &bench->fed[i];
        feeds[i] = (kn_feed){kn_value_name(fed->value), fed->data + turn * fed->bytes, fed->bytes};
    }
    if (bench->options->training) {
        if ((waits_for_losses(bench) ? kn_trainer_step : kn_trainer_step_late)(
                bench->trainer, whole_batch(bench), feeds, (size_t)bench->fed_count, &bench->loss) == KN_OK)
            return !dump || keep_loss(bench);
        return command_error("%s", kn_trainer_error(bench->trainer));
    }
    bench->fetches[0].data = bench->result + (dump ? turn * bench->output_bytes : 0);
    if (kn_session_run(bench->session, feeds, (size_t)bench->fed_count, bench->fetches,
                       bench->output_count) == KN_OK)
        return true;
    return command_error("%s", kn_session_error(bench->session));
}

static bool wait_for_steps(const model_bench *bench) {
    return !bench->trainer || kn_trainer_wait(bench->trainer) == KN_OK ||
           command_error("%s", kn_trainer_error(bench->trainer));
}

enum { WARM_UP = 4, LARGEST_GROUP = 16, GROUPS = 5 };

/* Steps without waiting in between, as koine train makes them; at least GROUPS such groups are timed. In the
 * warm-up, a step that is waited for. */
static bool group_of_steps(void *user) {
    model_bench *bench = user;
    const double begin = clock_now();
    const int count = bench->turn < WARM_UP ? 1 : bench->group;
    for (int i = 0; i < count; i++)
        if (!step(bench)) return false;
    if (!wait_for_steps(bench)) return false;
    if (bench->turn > WARM_UP || !bench->trainer || waits_for_losses(bench)) return true;
    const double fitting = bench->options->seconds / GROUPS / fmax(clock_now() - begin, 1e-6);
    bench->group = fitting < LARGEST_GROUP ? (int)fmax(fitting, 1) : LARGEST_GROUP;
    return true;
}

enum { TRACED = 20 }; /* maximum number of steps: larger pages load slowly */

/* Profiles additional steps. */
static bool profile_steps(model_bench *bench, bench_profile_form form) {
    double begin = clock_now();
    int runs = 0;
    if (bench->options->common.json) form = PROFILE_JSON;
    kn_context_timeline_clear(bench->context);
    while (runs < 5 || clock_now() - begin < 2) {
        double start = kn_context_clock(bench->context);
        if (!step(bench)) return false;
        if (runs < TRACED) trace_host("step", start, kn_context_clock(bench->context));
        if (++runs == TRACED) trace_queues(bench->context);
    }
    if (!wait_for_steps(bench)) return false;
    double seconds = clock_now() - begin;
    progress_clear();
    if (runs < TRACED) trace_queues(bench->context);
    return bench_profile_print(bench->context, runs, seconds, form);
}

/* ---- samples ------------------------------------------------------------------------------------- */

/* The bytes of one batch of `value`, in which any dimension or none may be the batch; 0: too large, or a size
 * is open. */
static size_t batch_bytes(const model_bench *bench, const kn_value *value) {
    int64_t elements = 1;
    char name[128];
    for (int d = 0; d < kn_value_rank(value); d++) {
        int64_t size = kn_value_dimension(value, d);
        if (open_size(value, d, name, sizeof name) && !strcmp(name, "batch")) size = bench->batch;
        if (size < 0 || (size && elements > INT64_MAX / 64 / size)) return 0;
        elements *= size;
    }
    return (size_t)elements * kn_dtype_bytes(kn_value_dtype(value));
}

/* Random numbers for the batches of a value: from -1 to 1, or classes; zeros for other types. NULL: out of
 * memory. */
static char *make_numbers(const model_bench *bench, const kn_value *value, size_t bytes, uint64_t *state) {
    int last = kn_value_rank(bench->output) - 1;
    int64_t classes = kn_value_dimension(bench->output, last);
    const kn_dtype dtype = kn_value_dtype(value);
    char *data = calloc(bytes * (size_t)bench->turns + 1, 1);
    float *numbers = (float *)(void *)data;
    int32_t *whole = (int32_t *)(void *)data;
    size_t count = dtype == KN_INT32 || dtype == KN_FLOAT32 ? bytes * (size_t)bench->turns / 4 : 0;
    for (size_t i = 0; i < count && data; i++) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        if (dtype == KN_INT32)
            whole[i] = (int32_t)(*state % (uint64_t)(classes > 0 ? classes : 1));
        else
            numbers[i] = (float)(*state >> 40) * 0x1p-23f - 1.0f;
    }
    return data;
}

/* Reads all of --input, split into batches. */
static bool read_batches(model_bench *bench) {
    const char *path = bench->options->input;
    int64_t samples = 0;
    for (int i = 0; i < bench->fed_count; i++) {
        bench_samples *fed = &bench->fed[i];
        fed->data = bench_read_samples(path, fed->value, &samples);
        if (!fed->data) return false;
        if (i) continue;
        if (!bench->options->batch) bench->batch = samples;
        if (samples % bench->batch)
            return command_error("'%s': tensor '%s' has %lld samples; expected a multiple of --batch %lld",
                                 path, kn_value_name(fed->value), (long long)samples,
                                 (long long)bench->batch);
        bench->turns = samples / bench->batch;
    }
    return true;
}

static bool list_fed(model_bench *bench) {
    const kn_model *model = bench->setup.model;
    int count = kn_model_input_count(model);
    if (count > MAX_INPUTS)
        return command_error("'%s' has %d inputs; bench feeds models that have up to %d",
                             kn_model_name(model), count, MAX_INPUTS);
    for (int i = 0; i < count; i++)
        bench->fed[bench->fed_count++].value = kn_model_input_at(model, i);
    if (bench->options->training) bench->fed[bench->fed_count++].value = bench->setup.loss.target;
    bench->output = kn_model_output_at(model, 0);
    return true;
}

static bool make_batches(model_bench *bench) {
    const kn_model *model = bench->setup.model;
    const int64_t fixed = setup_fixed_batch(&bench->setup);
    uint64_t state = 88172645463325252ull;
    bench->turns = BATCHES;
    bench->batch = bench->options->batch ? (int64_t)bench->options->batch
                   : fixed > 0           ? fixed
                                         : usual_of(kn_model_name(model))->batch;
    if (!list_fed(bench) || !setup_batch_fits(&bench->setup, (uint64_t)bench->batch) ||
        !setup_sizes_known(&bench->setup) || (bench->options->input && !read_batches(bench)))
        return false;
    for (int i = 0; i < bench->fed_count; i++) {
        bench_samples *fed = &bench->fed[i];
        fed->bytes = batch_bytes(bench, fed->value);
        if (!fed->data && fed->bytes) fed->data = make_numbers(bench, fed->value, fed->bytes, &state);
        if (!fed->bytes || !fed->data)
            return command_error("a batch of %lld for '%s' could not be created: too large, or a size is "
                                 "known only from data",
                                 (long long)bench->batch, kn_model_name(model));
    }
    return true;
}

/* Opens without a loss if none is needed: no loss may match the outputs of an ONNX file. */
static bool open_model(model_bench *bench, const char *name) {
    training_setup *setup = &bench->setup;
    setup->input = bench->options->input;
    if (!setup_settings(setup, bench->options->set)) return false;
    setup->batch = bench->options->batch ? (int64_t)bench->options->batch : usual_of(name)->batch;
    return bench->options->training || !path_is_onnx(name) ? setup_model(setup, name, NULL)
                                                           : setup_bare_model(setup, name);
}

static void free_batches(model_bench *bench) {
    for (int i = 0; i < bench->fed_count; i++)
        free(bench->fed[i].data);
}

/* ---- preparation --------------------------------------------------------------------------------- */

static bool load_weights(const model_bench *bench, kn_states *states) {
    const char *path = bench->options->weights;
    const bool any = path || kn_model_has_weights(bench->setup.model);
    if (!any || kn_model_load(bench->setup.model, path, states, NULL, NULL) == KN_OK) return true;
    return command_error("%s%s", path ? "--weights: " : "", kn_model_error(bench->setup.model));
}

static bool prepare_training(model_bench *bench, kn_plan_info *info) {
    const struct usual *row = usual_of(kn_model_name(bench->setup.model));
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_session_params session = KN_SESSION_DEFAULTS;
    arithmetic_apply(&bench->options->common.arithmetic, &session);
    session.memory_bytes = bench->options->memory;
    params.session = &session;
    params.optimizer = bench->options->optimizer ? *bench->options->optimizer : row->optimizer;
    params.moments = bench->options->moments;
    params.learning_rate = row->learning_rate;
    params.weight_decay = row->weight_decay;
    const bench_among *among = bench->options->among;
    if (among && among->shares) {
        params.communicator = among->all;
        params.shards = among->all->ranks; /* a power of two */
    }
    bench->trainer = kn_trainer_create(bench->context, bench->setup.loss.value, &params);
    kn_status status = kn_trainer_status(bench->trainer);
    if (status == KN_OK && !load_weights(bench, kn_trainer_states(bench->trainer))) return false;
    if (status == KN_OK) status = kn_trainer_compile(bench->trainer, whole_batch(bench));
    if (status == KN_OK) status = kn_trainer_plan(bench->trainer, info);
    return status == KN_OK || command_error("%s", kn_trainer_error(bench->trainer));
}

static void free_results(model_bench *bench) {
    for (size_t i = 1; bench->fetches && i < bench->output_count; i++)
        free(bench->fetches[i].data);
    free(bench->fetches);
    free(bench->result);
    bench->fetches = NULL;
    bench->result = NULL;
}

/* Allocates the downloads: the first output of every batch that is kept. */
static kn_status make_results(model_bench *bench) {
    const kn_model *model = bench->setup.model;
    bench->fetches = calloc(bench->output_count + 1, sizeof *bench->fetches);
    for (size_t i = 0; bench->fetches && i < bench->output_count; i++) {
        const char *name = kn_value_name(kn_model_output_at(model, (int)i));
        kn_tensor_info info;
        uint64_t bytes = 0;
        kn_status status = kn_session_info(bench->session, name, &info);
        if (status != KN_OK) return status;
        size_t results = bench->options->dump && !i ? (size_t)bench->turns : 1;
        char *data = kn_tensor_bytes(&info, &bytes) && bytes < SIZE_MAX / results
                         ? malloc((size_t)bytes * results + 1)
                         : NULL;
        bench->fetches[i] = (kn_fetch){name, data, (size_t)bytes};
        if (!data) return KN_ERROR_MEMORY;
        if (i) continue;
        bench->result = data;
        bench->result_info = info;
        bench->output_bytes = (size_t)bytes;
    }
    return bench->fetches ? KN_OK : KN_ERROR_MEMORY;
}

static bool prepare_inference(model_bench *bench, kn_plan_info *info) {
    kn_session_params params;
    kn_session_params_init(&params);
    arithmetic_apply(&bench->options->common.arithmetic, &params);
    params.memory_bytes = bench->options->memory;
    kn_value **outputs = batch_outputs(bench->setup.model, &bench->output_count);
    if (!outputs) return false;
    bench->session = kn_session_create(bench->context, outputs, bench->output_count, &params);
    free(outputs);
    kn_status status = kn_session_status(bench->session);
    if (status == KN_OK && !load_weights(bench, kn_session_states(bench->session))) return false;
    if (status == KN_OK) status = batch_plan_session(bench->session, bench->batch, NULL, 0, info);
    if (status == KN_OK && (status = make_results(bench)) == KN_ERROR_MEMORY)
        return command_error("out of memory");
    return status == KN_OK || command_error("%s", kn_session_error(bench->session));
}

/* ---- results --------------------------------------------------------------------------------------- */

static void print_text(const bench_result *result, const bench_power *power, bench_times *times) {
    double median, best, p99;
    char memory[32], rate[32];
    bench_summary(times, &median, &best, &p99);
    progress_clear();
    printf("%s %s, %s math, batch %lld: %.3f ms (best %.3f, p99 %.3f), %s samples/s, %.1f GFLOP/s, first "
           "step after "
           "%.2f s, %llu kernels, plan %s\n",
           result->name, result->mode, result->math, (long long)result->batch, 1e3 * median, 1e3 * best,
           1e3 * p99, rate_text((double)result->batch / median, rate, sizeof rate),
           result->flops / median * 1e-9, times->first, (unsigned long long)result->kernels,
           bytes_text((double)result->plan_bytes, memory, sizeof memory));
    bench_power_text(power, (double)result->batch / median);
}

/* Writes the losses of all steps (steps), or the output of all batches (samples,...). */
static bool dump(const model_bench *bench) {
    const char *path = bench->options->dump;
    if (!path) return true;
    if (bench->options->training) {
        kn_tensor_info info = {KN_FLOAT64, 1, {(int64_t)bench->loss_count}};
        return bench_write_tensor(path, "losses", &info, bench->losses);
    }
    kn_tensor_info info = bench->result_info;
    if (info.rank == 0 || info.shape[0] != bench->batch)
        return command_error("the output '%s' has no row for each sample, which --dump could write",
                             kn_value_name(bench->output));
    info.shape[0] *= bench->turns;
    return bench_write_tensor(path, kn_value_name(bench->output), &info, bench->result);
}

static bool measure(model_bench *bench, uint64_t base) {
    const bench_options *options = bench->options;
    static bench_times times;
    kn_plan_info info = {.size = sizeof info};
    precompile_allow(&options->common, bench->context);
    if (!(options->training ? prepare_training : prepare_inference)(bench, &info)) return false;
    if (precompiling()) return true;
    if (!bench_measure(group_of_steps, bench, options->seconds, &times)) return false;
    for (int i = 0; i < times.count; i++)
        times.seconds[i] /= bench->group;
    bench_power power = options->power;
    if (!bench_power_measure(&power, kn_context_device(bench->context), step, bench, options->seconds,
                             bench->batch))
        return false;
    if (!dump(bench)) return false;
    bench_result result = {.name = kn_model_name(bench->setup.model),
                           .mode = options->training ? "train" : "infer",
                           .math = options->common.arithmetic.exact ? "exact" : "fast",
                           .precision = options->common.precision ? options->common.precision : "float32",
                           .device = kn_context_device(bench->context)->name,
                           .batch = bench->batch,
                           .flops = info.flops,
                           .loss = bench->loss,
                           .kernels = (uint64_t)info.kernels,
                           .plan_bytes = info.peak_bytes,
                           .rss_base_bytes = base};
    if (!options->common.json) {
        print_text(&result, &power, &times);
    } else {
        double median, best, p99;
        bench_print_json(&result, &times);
        bench_summary(&times, &median, &best, &p99);
        bench_power_json(&power, (double)result.batch / median);
    }
    return true;
}

static bool profile(model_bench *bench, bench_profile_form form) {
    kn_plan_info info = {.size = sizeof info};
    if (!(bench->options->training ? prepare_training : prepare_inference)(bench, &info)) return false;
    for (int i = 0; i < 3; i++) /* the first runs compile and allocate */
        if (!step(bench)) return false;
    return profile_steps(bench, form);
}

static bool profile_kernels(model_bench *bench, uint64_t base) {
    (void)base;
    return profile(bench, PROFILE_TABLES);
}

static bool measure_steps(model_bench *bench, uint64_t base) {
    (void)base;
    return profile(bench, PROFILE_STEPS);
}

static int run_model(const char *name, const bench_options *options, bool (*run)(model_bench *, uint64_t)) {
    model_bench bench = {.options = options, .loss = NAN, .group = 1};
    int status = EXIT_FAILED;
    bench.context = context_open(&options->common);
    uint64_t base = bench_rss();
    if (bench.context && open_model(&bench, name) &&
        devices_join(bench.context, &options->common, bench.setup.model) && make_batches(&bench) &&
        run(&bench, base))
        status = EXIT_DONE;
    kn_trainer_destroy(&bench.trainer);
    kn_session_destroy(&bench.session);
    free_batches(&bench);
    free_results(&bench);
    free(bench.losses);
    setup_finish(&bench.setup);
    kn_context_destroy(&bench.context);
    return status;
}

/* ---- several workers ------------------------------------------------------------------------------ */

enum { AMONG_LEAST = 5, AMONG_MOST = 200 };

/* All workers start together and time the same number of steps. Sets the median. */
static bool time_among(model_bench *bench, bool shares, double *median) {
    const kn_communicator *all = bench->options->among->all;
    kn_plan_info info = {.size = sizeof info};
    double seconds[AMONG_MOST];
    bench->options->among->shares = shares;
    kn_trainer_destroy(&bench->trainer);
    if (!prepare_training(bench, &info)) return false;
    for (int i = 0; i < 3; i++)
        if (!step(bench)) return false;
    const double begin = clock_now();
    if (!step(bench)) return false;
    int32_t count = (int32_t)fmin(
        AMONG_MOST, fmax(AMONG_LEAST, bench->options->seconds / fmax(clock_now() - begin, 1e-6)));
    if (kn_broadcast_from(all, 0, &count, sizeof count) || kn_barrier(all))
        return command_error("%s", all->error(all->user));
    for (int i = 0; i < count; i++) {
        const double start = clock_now();
        if (!step(bench)) return false;
        seconds[i] = clock_now() - start;
    }
    *median = bench_median(seconds, count);
    return kn_barrier(all) == KN_OK;
}

static bool measure_among(model_bench *bench, uint64_t base) {
    bench_among *among = bench->options->among;
    kn_transfers transfers = {.size = sizeof transfers};
    (void)base;
    if (!time_among(bench, false, &among->alone)) return false;
    if (kn_context_measure_transfers(bench->context, &transfers) == KN_OK && transfers.upload_gbytes > 0 &&
        transfers.download_gbytes > 0)
        among->transfer = 1e-9 / transfers.upload_gbytes + 1e-9 / transfers.download_gbytes;
    among->parameters = kn_model_parameter_elements(bench->setup.model);
    among->batch = bench->batch;
    return time_among(bench, true, &among->together);
}

/* ---- --device auto --------------------------------------------------------------------------------- */

static bool prepare_trial(void *user, kn_context *context) {
    model_bench *bench = user;
    kn_plan_info info = {.size = sizeof info};
    bench->context = context;
    return (bench->options->training ? prepare_training : prepare_inference)(bench, &info);
}

static void finish_trial(void *user) {
    model_bench *bench = user;
    kn_trainer_destroy(&bench->trainer);
    kn_session_destroy(&bench->session);
    free_results(bench);
}

static bool choose_device(const char *name, bench_options *options) {
    bench_options own = *options;
    model_bench bench = {.options = &own, .waits = true};
    char what[90];
    if (!device_is_auto(&options->common)) return true;
    own.dump = NULL;
    bool fine = open_model(&bench, name) && make_batches(&bench);
    auto_trial trial = {what, bench.setup.model, &bench, prepare_trial, step, finish_trial};
    snprintf(what, sizeof what, "%s of %lld samples, transfers included,",
             own.training ? "a training step" : "a batch", (long long)bench.batch);
    fine = fine && device_auto(&options->common, &trial);
    free_batches(&bench);
    setup_finish(&bench.setup);
    bench_start = clock_now();
    return fine;
}

int bench_model(const char *name, const bench_options *options) {
    bench_options timed = *options, profiled;
    if (!choose_device(name, &timed)) return EXIT_FAILED;
    profiled = timed;
    /* Profiling slows steps down, so a second context does it. */
    timed.common.timeline = false;
    profiled.dump = NULL;
    int status = run_model(name, &timed, measure);
    if (status != EXIT_DONE || precompiling()) return status;
    if (profiled.common.timeline) status = run_model(name, &profiled, profile_kernels);
    if (options->common.json) puts("}");
    return status;
}

int bench_model_steps(const char *name, const bench_options *options) {
    return run_model(name, options, measure_steps);
}

bool bench_model_among(const char *name, const bench_options *options, bench_among *among) {
    bench_options own = *options;
    own.among = among;
    return run_model(name, &own, measure_among) == EXIT_DONE;
}
