/* Measures the device's peak: multiply-adds in registers, and reads of a long stretch of memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/device_private.h"

enum { SUMS = 12, ROUNDS = 1 << 14, RUNS = 5, MIN_BYTES = 128 << 20, MAX_BYTES = 1 << 30, CACHES = 8 };
enum { MAX_LAUNCHES = 100 };
/* Launches are timed in groups of this many seconds, so that the wait at the end does not count; idle GPUs
 * need a while to raise their clock. */
static const double group_seconds = 0.01;

typedef struct probe {
    kn_context *context;
    kn_kernel *kernel;
    kn_buffer *out, *memory;
    size_t lanes, items, local;
} probe;

static kn_status launch_times(probe *p, int times, double *seconds, kn_error *error) {
    const kn_launch launch = {.dimensions = 1, .global = {p->items, 1, 1}, .local = {p->local, 1, 1}};
    kn_status status = KN_OK;
    const double start = kn_clock();
    for (int i = 0; i < times && !status; i++)
        status = kn_kernel_launch(p->context, p->kernel, &launch, "limits", error);
    if (!status) status = kn_queue_finish(p->context, KN_QUEUE_COMPUTE, error);
    *seconds = (kn_clock() - start) / times;
    return status;
}

/* The shortest time of a launch after a warm-up, in seconds. */
static kn_status time_launch(probe *p, double *seconds, kn_error *error) {
    double taken;
    kn_status status = launch_times(p, 1, &taken, error);
    if (!status) status = launch_times(p, 1, seconds, error);
    const double wanted = group_seconds / (*seconds > 1e-6 ? *seconds : 1e-6);
    const int times = wanted < 1 ? 1 : wanted > MAX_LAUNCHES ? MAX_LAUNCHES : (int)wanted;
    for (int run = 1; run < RUNS && !status && *seconds < 0.2;
         run++) { /* slow devices need no more precision */
        status = launch_times(p, times, &taken, error);
        if (!status && taken < *seconds) *seconds = taken;
    }
    return status;
}

/* Keeps a GPU busy until its clock is up. */
static kn_status wake(probe *p, kn_error *error) {
    kn_status status = KN_OK;
    const double start = kn_clock();
    double taken;
    if (p->context->found.info.type == KN_DEVICE_CPU) return KN_OK;
    while (!status && kn_clock() - start < kn_wake_seconds)
        status = launch_times(p, 1, &taken, error);
    return status;
}

static kn_status begin(probe *p, const char *kernel, size_t items, kn_error *error) {
    size_t most;
    char prelude[32];
    kn_program *program = NULL;
    p->items = items;
    snprintf(prelude, sizeof prelude, "#define KN_WIDTH %zu\n", p->lanes);
    const kn_program_request request = {.file = "probe/limits.cl", .prelude = prelude};
    kn_status status = kn_program_get(p->context, &request, &program, error);
    if (!status) status = kn_kernel_create(p->context, program, kernel, &p->kernel, error);
    if (!status) status = kn_buffer_create(p->context, items * sizeof(float), &p->out, error);
    if (!status) status = kn_kernel_set_buffer(p->kernel, 0, p->out, error);
    if (status) return status;
    most = kn_kernel_work_group_items(p->kernel);
    p->local = p->context->capabilities.wide_vector || most < 64 ? 1 : 64;
    return KN_OK;
}

static void end(probe *p) {
    kn_kernel_destroy(&p->kernel);
    kn_buffer_destroy(&p->out);
    kn_buffer_destroy(&p->memory);
}

/* Arithmetic in GFLOP/s. Starts with few iterations, so that simulators finish, too. */
static kn_status measure_math(probe *p, double *gflops, kn_error *error) {
    const float start = 1, factor = 0.999f, addend = 0.001f;
    size_t units = (size_t)p->context->capabilities.compute_units;
    int32_t rounds = 16;
    kn_status status = begin(p, "kn_probe_fma", units * (p->lanes > 1 ? 64 : 2048), error);
    if (!status) status = kn_kernel_set_bytes(p->kernel, 1, &start, sizeof start, error);
    if (!status) status = kn_kernel_set_bytes(p->kernel, 2, &factor, sizeof factor, error);
    if (!status) status = kn_kernel_set_bytes(p->kernel, 3, &addend, sizeof addend, error);
    if (!status) status = kn_kernel_set_bytes(p->kernel, 4, &rounds, sizeof rounds, error);
    if (!status) status = wake(p, error);
    double seconds = 0;
    for (; rounds <= ROUNDS && !status && seconds < 0.004; rounds *= 4) {
        status = kn_kernel_set_bytes(p->kernel, 4, &rounds, sizeof rounds, error);
        if (!status) status = time_launch(p, &seconds, error);
        double flops = 2.0 * SUMS * rounds * (double)p->lanes * (double)p->items;
        if (!status && seconds > 0 && flops / seconds * 1e-9 > *gflops) *gflops = flops / seconds * 1e-9;
    }
    end(p);
    return status;
}

/* The number of bytes to read: more than the caches hold, if the device has that much memory. */
static uint64_t bytes_to_read(const kn_context *context) {
    const kn_capabilities *known = &context->capabilities;
    const uint64_t cache = kn_device_number(context->found.device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    uint64_t bytes = MIN_BYTES;
    while (bytes < CACHES * (cache < MAX_BYTES ? cache : MAX_BYTES) && bytes < MAX_BYTES)
        bytes *= 2;
    while (bytes > known->largest_block_bytes || bytes > known->memory_bytes / 4)
        bytes /= 2;
    return bytes;
}

/* Memory throughput in GB/s. A GPU needs several megabytes in flight: bandwidth times latency. */
static kn_status measure_memory(probe *p, double *gbytes, kn_error *error) {
    const float zero = 0;
    const uint64_t bytes = bytes_to_read(p->context);
    size_t units = (size_t)p->context->capabilities.compute_units;
    const bool wide = p->context->capabilities.wide_vector;
    kn_status status = begin(p, "kn_probe_read", units * (wide ? 64 : 2048), error);
    double seconds = 0;
    uint64_t round = (uint64_t)p->items * 4 * p->lanes * sizeof(float);
    int32_t rounds = 0;
    for (uint64_t part = bytes / 64; part <= bytes && !status && seconds < 0.02; part *= 4) {
        kn_buffer_destroy(&p->memory);
        rounds = (int32_t)(part / round > 0 ? part / round : 1);
        status = kn_buffer_create(p->context, round * (uint64_t)rounds, &p->memory, error);
        if (!status)
            status = kn_queue_fill(p->context, KN_QUEUE_COMPUTE, p->memory, 0, round * (uint64_t)rounds,
                                   &zero, sizeof zero, NULL, error);
        if (!status) status = kn_kernel_set_buffer(p->kernel, 1, p->memory, error);
        if (!status) status = kn_kernel_set_bytes(p->kernel, 2, &rounds, sizeof rounds, error);
        if (!status) status = time_launch(p, &seconds, error);
        if (!status && seconds > 0) *gbytes = (double)round * rounds / seconds * 1e-9;
    }
    end(p);
    return status;
}

/* The verdict under `name` for this number of lanes, or 0. */
static double remembered(kn_context *context, const char *name, size_t lanes, char key[32]) {
    double value = 0;
    snprintf(key, 32, "%s_%zu", name, lanes);
    return kn_verdict_get(context, key, &value) ? value : 0;
}

kn_status kn_context_measure_limits(kn_context *context, bool remeasure, kn_limits *limits) {
    if (!context || !kn_has_size(limits)) return KN_ERROR_ARGUMENT;
    if (context->failure.status) return context->failure.status;
    if (context->described) return KN_RESULT_GIVE(kn_limits, limits, &context->stated);
    kn_limits found = {.size = sizeof found};
    kn_error error = {0};
    kn_status status = KN_OK;
    char math_key[32], memory_key[32];
    const bool wide = context->capabilities.wide_vector;
    const size_t lanes = wide ? (size_t)context->capabilities.vector_width : 1, read_lanes = wide ? lanes : 4;
    found.gflops = remembered(context, "limit_gflops", lanes, math_key);
    found.gbytes = remembered(context, "limit_read", read_lanes, memory_key);
    if (remeasure || found.gflops <= 0 || found.gbytes <= 0) {
        probe math = {.context = context, .lanes = lanes}, memory = {.context = context, .lanes = read_lanes};
        double gflops = 0, gbytes = 0;
        status = measure_math(&math, &gflops, &error);
        if (!status) status = measure_memory(&memory, &gbytes, &error);
        /* Load on the machine can only lower the figures, so keep the highest. */
        if (gflops > found.gflops) kn_verdict_put(context, math_key, found.gflops = gflops);
        if (gbytes > found.gbytes) kn_verdict_put(context, memory_key, found.gbytes = gbytes);
        if (status)
            kn_log_write(&context->host, KN_LOG_WARNING, "the limits of %s could not be measured: %s",
                         context->found.info.name, error.text);
    }
    KN_RESULT_GIVE(kn_limits, limits, &found);
    return status;
}

/* GB/s in blocks that the host shares, or in plain ones; keeps *best if that is more. */
static kn_status time_blocks(kn_context *context, bool shared, double *best, kn_error *error) {
    probe p = {.context = context, .lanes = 4};
    double gbytes = 0;
    context->capabilities.shares_memory = shared;
    kn_status status = measure_memory(&p, &gbytes, error);
    if (gbytes > *best) *best = gbytes;
    return status;
}

/* Whether the measurement failed so recently that this start does not repeat it. */
static bool failed_recently(kn_context *context, const char *failed_key) {
    static const double pause = 3600;
    double at = 0;
    return kn_verdict_get(context, failed_key, &at) && fabs((double)time(NULL) - at) < pause;
}

void kn_context_choose_memory(kn_context *context) {
    static const char key[] = "plain_memory_gain", failed_key[] = "plain_memory_failed";
    static const double least_gain = 1.25;
    enum { TURNS = 2 };
    kn_capabilities *capabilities = &context->capabilities;
    double gain = 1, shared = 0, plain = 0;
    kn_error error = {0};
    if (context->found.info.type == KN_DEVICE_CPU || context->found.simulated ||
        !capabilities->shares_memory || context->trust_claims)
        return;
    if (!kn_verdict_expect(context, key, 1, &gain) && !failed_recently(context, failed_key)) {
        kn_attempt attempt;
        kn_status status = KN_OK;
        kn_attempt_begin(context, &attempt, key);
        /* The first turn also wakes the device. */
        for (int turn = 0; turn < TURNS && !status; turn++) {
            if (turn + 1 == TURNS) shared = plain = 0;
            status = time_blocks(context, true, &shared, &error);
            if (!status) status = time_blocks(context, false, &plain, &error);
        }
        if (!status && shared > 0)
            kn_verdict_put(context, key, gain = plain / shared);
        else
            kn_verdict_put(context, failed_key, (double)time(NULL));
        kn_attempt_end(context, &attempt);
    }
    capabilities->shares_memory = !(gain >= least_gain);
    if (gain >= least_gain)
        kn_log_write(
            &context->host, KN_LOG_INFO,
            "%s: memory shared with the host is %.1f times slower than plain blocks; using plain blocks",
            context->found.info.name, gain);
}

void kn_context_slow_speed(kn_context *context, bool measure, double *flops, double *bytes) {
    static const double part_of_math = 0.02, part_of_memory = 0.05;
    char key[32];
    kn_limits peak = {.size = sizeof peak};
    if (!measure || kn_context_measure_limits(context, false, &peak) != KN_OK) {
        peak.gflops = remembered(context, "limit_gflops", 1, key);
        peak.gbytes = remembered(context, "limit_read", 4, key);
    }
    /* Assumes eight multiply-adds per cycle and unit; simulators report a clock of 1 MHz. */
    double units = context->capabilities.compute_units, clock = context->found.info.clock_mhz;
    if (!(peak.gflops > 0)) peak.gflops = 16 * units * (clock >= 100 ? clock : 500) * 1e-3;
    if (!(peak.gbytes > 0)) peak.gbytes = units > 20 ? 2 * units : 40;
    *flops = part_of_math * peak.gflops * 1e9;
    *bytes = part_of_memory * peak.gbytes * 1e9;
}
