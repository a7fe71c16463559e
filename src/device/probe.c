/* Probes determine what the device can really do. A claimed feature is trusted after a tiny kernel that uses
 * it has compiled and computed correctly; the verdict is stored per device and driver under the kernel's
 * hash. */
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"

/* The extension's functions are only declared in this language version. */
static const char dot_prelude[] = "// language: CL3.0\n";

enum { ITEMS = KN_PROBE_ITEMS, MATRIX = 512, MATRIX_RUNS = 3 };

static bool try_double(kn_context *context, kn_error *error) {
    float input[ITEMS], output[2 * ITEMS];
    const kn_probe task = {.name = "double",
                           .file = "probe/double.cl",
                           .kernel = "kn_probe_double",
                           .input = input,
                           .input_bytes = sizeof input,
                           .kept_bytes = 8 * ITEMS,
                           .output = output,
                           .output_bytes = sizeof output,
                           .local = 8};
    for (int i = 0; i < ITEMS; i++)
        input[i] = (float)(i - 20);
    if (kn_probe_run(context, &task, error)) return false;
    for (int i = 0; i < ITEMS; i++)
        if (output[2 * i] != input[i] || output[2 * i + 1] != input[i] * input[i]) return false;
    return true;
}

/* Pairs of bytes far from 0, near 0, and in between, of either sign. */
static bool try_dot(kn_context *context, kn_error *error) {
    uint32_t input[2 * ITEMS];
    int32_t output[4 * ITEMS];
    kn_probe task = {.name = "integer_dot",
                     .file = "probe/dot.cl",
                     .kernel = "kn_probe_dot",
                     .prelude = dot_prelude,
                     .input = input,
                     .input_bytes = sizeof input,
                     .output = output,
                     .output_bytes = sizeof output,
                     .local = 8};
    for (uint32_t i = 0; i < 2 * ITEMS; i++)
        input[i] = i * 2654435761u ^ (i % 3 ? 0x80ff7f01u : 0xff80807fu);
    if (kn_probe_run(context, &task, error)) return false;
    for (int i = 0; i < ITEMS; i++) {
        int32_t sums[4] = {0};
        for (int byte = 0; byte < 4; byte++) {
            int a = (int)(input[2 * i] >> 8 * byte & 255), b = (int)(input[2 * i + 1] >> 8 * byte & 255);
            int signed_a = a < 128 ? a : a - 256, signed_b = b < 128 ? b : b - 256;
            sums[0] += signed_a * signed_b;
            sums[1] += a * b;
            sums[2] += signed_a * b;
            sums[3] += a * signed_b;
        }
        if (memcmp(sums, output + 4 * i, sizeof sums) != 0) return false;
    }
    return true;
}

/* More iterations than the lowest known limit of a driver. */
static bool try_loops(kn_context *context, kn_error *error) {
    uint32_t input[2] = {100000, 2463534242u}, output[ITEMS], value = input[1];
    kn_probe task = {.name = "loops",
                     .file = "probe/loops.cl",
                     .kernel = "kn_probe_loops",
                     .prelude = "",
                     .input = input,
                     .input_bytes = sizeof input,
                     .output = output,
                     .output_bytes = sizeof output,
                     .local = 1};
    if (kn_probe_run(context, &task, error)) return false;
    for (uint32_t round = 0; round < input[0]; round++) {
        value ^= value << 13;
        value ^= value >> 17;
        value ^= value << 5;
    }
    return output[0] == value && output[1] == input[1];
}

/* Gets the stored verdict or a new one: *right, and in *problem why it is not right, if known
 * (KN_ERROR_MISMATCH: wrong results). Failure to run the probe gives no verdict: the next context tries
 * again; out of host memory is an error. */
static kn_status decide(kn_context *context, const char *name, const char *file, const char *prelude,
                        bool (*try_it)(kn_context *, kn_error *), bool *right, kn_error *problem,
                        kn_error *error) {
    kn_source source;
    kn_status status = kn_source_file(context, file, prelude, false, &source, error);
    if (status) return status;
    char key[64];
    snprintf(key, sizeof key, "probe_%s_%016llx", name,
             (unsigned long long)kn_hash_bytes(KN_HASH_START, source.text.data, source.text.length));
    kn_source_finish(&source);
    double verdict;
    if (!kn_verdict_expect(context, key, 1, &verdict)) {
        kn_attempt attempt;
        kn_attempt_begin(context, &attempt, key);
        verdict = try_it(context, problem) ? 1 : 0;
        if (verdict != 0 || !problem->status) kn_verdict_put(context, key, verdict);
        kn_attempt_end(context, &attempt);
        if (problem->status == KN_ERROR_MEMORY) return kn_error_copy(error, problem);
        if (verdict == 0 && !problem->status)
            kn_fail(problem, KN_ERROR_MISMATCH, "a probe kernel gave wrong results");
    }
    *right = verdict != 0;
    return KN_OK;
}

/* Whether a claimed feature is trusted. A failed probe is logged once. */
static kn_status decide_feature(kn_context *context, const char *name, const char *file, const char *prelude,
                                bool (*try_it)(kn_context *, kn_error *), bool claimed, bool *believed,
                                kn_error *error) {
    kn_error problem = {0};
    *believed = claimed;
    if (!claimed || context->trust_claims) return KN_OK;
    kn_status status = decide(context, name, file, prelude, try_it, believed, &problem, error);
    if (!status && problem.status)
        kn_log_write(&context->host, KN_LOG_WARNING, "%s claims %s, which is not used: %s",
                     context->found.info.name, name, problem.text);
    return status;
}

/* A CPU with vector units uses few work-items with explicit vector code, all other devices use many threads.
 */
static void decide_kind(kn_context *context) {
    const uint64_t native = kn_device_number(context->found.device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    kn_capabilities *capabilities = &context->capabilities;
    const int width = native >= 16 ? 16 : native >= 8 ? 8 : native >= 4 ? 4 : 1;
    kn_context_set_kind(context, context->found.info.type == KN_DEVICE_CPU && width >= 4, width);
    /* Instruction sets with 16 lanes have 32 vector registers, as does 64-bit ARM. */
#if defined(__aarch64__)
    capabilities->vector_registers = 32;
#else
    capabilities->vector_registers = native >= 16 ? 32 : 16;
#endif
}

/* On drivers that end long loops early, wide-vector kernels compute incorrectly, but many-thread kernels do
 * not. */
static kn_status doubt_kind(kn_context *context, kn_error *error) {
    kn_error problem = {0};
    bool right = true;
    if (!context->capabilities.wide_vector || context->trust_claims) return KN_OK;
    kn_status status = decide(context, "loops", "probe/loops.cl", "", try_loops, &right, &problem, error);
    if (status || right) return status;
    context->kind = 2;
    decide_kind(context);
    kn_variant_refused(context, "wide",
                       problem.status && problem.status != KN_ERROR_MISMATCH
                           ? problem.text
                           : "long loops compute incorrectly; many-thread kernels are used instead");
    return KN_OK;
}

kn_status kn_context_probe(kn_context *context, kn_error *error) {
    kn_capabilities *capabilities = &context->capabilities;
    const kn_host *host = &context->host;
    cl_device_id device = context->found.device;
    decide_kind(context);
    capabilities->double_claimed = kn_device_claims(device, "cl_khr_fp64");
    capabilities->integer_dot_claimed = kn_device_claims(device, "cl_khr_integer_dot_product") &&
                                        kn_device_speaks(host, &context->found, 300);
    kn_status status = kn_compiler_choose(context, error);
    if (!status) status = doubt_kind(context, error);
    if (!status)
        status = decide_feature(context, "double", "probe/double.cl", "", try_double,
                                capabilities->double_claimed, &capabilities->double_precision, error);
    if (!status)
        status = decide_feature(context, "integer_dot", "probe/dot.cl", dot_prelude, try_dot,
                                capabilities->integer_dot_claimed, &capabilities->integer_dot, error);
    if (!status) kn_context_choose_memory(context);
    return status;
}

/* ---- speed ------------------------------------------------------------------------------- */

/* Small integers, so that every sum is exact. */
static float left_value(int row, int k) {
    return (float)((row * 7 + k * 3) % 5 - 2);
}
static float right_value(int k, int column) {
    return (float)((k * 5 + column * 11) % 7 - 3);
}

/* Compares 64 elements spread over the product. */
static bool product_right(const float *c) {
    for (int i = 0; i < 64; i++) {
        int row = (i * 37 + 5) % MATRIX, column = (i * 101 + 3) % MATRIX;
        float sum = 0;
        for (int k = 0; k < MATRIX; k++)
            sum += left_value(row, k) * right_value(k, column);
        if (!(c[row * MATRIX + column] == sum)) return false;
    }
    return true;
}

static kn_status run_product(kn_context *context, kn_kernel *kernel, const kn_launch *launch, double *seconds,
                             kn_error *error) {
    const double start = kn_clock();
    kn_status status = kn_kernel_launch(context, kernel, launch, "measure", error);
    if (!status) status = kn_queue_finish(context, KN_QUEUE_COMPUTE, error);
    *seconds = kn_clock() - start;
    return status;
}

/* The shortest time of a few runs after a warm-up, in seconds. A GPU is kept busy until its clock is up. */
static kn_status time_product(kn_context *context, kn_kernel *kernel, double *seconds, kn_error *error) {
    size_t side = MATRIX / 4, local = kn_kernel_work_group_items(kernel) >= 64 ? 8 : 1;
    kn_launch launch = {.dimensions = 2, .global = {side, side, 1}, .local = {local, local, 1}};
    const double wake = context->found.info.type == KN_DEVICE_CPU ? 0 : kn_wake_seconds, start = kn_clock();
    double taken;
    kn_status status;
    *seconds = 1e9;
    do
        status = run_product(context, kernel, &launch, &taken, error);
    while (!status && kn_clock() - start < wake);
    for (int run = 0; run < MATRIX_RUNS && !status; run++) {
        status = run_product(context, kernel, &launch, &taken, error);
        if (!status && taken < *seconds) *seconds = taken;
        if (taken > 0.5) break; /* slow devices need no more precision */
    }
    return status;
}

bool kn_context_measure(kn_context *context, double *gflops) {
    size_t bytes = (size_t)MATRIX * MATRIX * sizeof(float);
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_buffer *buffers[3] = {NULL, NULL, NULL};
    kn_event none = {NULL};
    kn_error error = {0};
    kn_program_request request = {.file = "probe/matmul.cl"};
    float *values = kn_allocate(&context->host, bytes, 1);
    kn_status status = values ? KN_OK : kn_fail_memory(&error, bytes);
    if (!status) status = kn_program_get(context, &request, &program, &error);
    if (!status) status = kn_kernel_create(context, program, "kn_probe_matmul", &kernel, &error);
    for (int i = 0; i < 3 && !status; i++) {
        status = kn_buffer_create(context, bytes, &buffers[i], &error);
        if (!status) status = kn_kernel_set_buffer(kernel, i, buffers[i], &error);
        for (int row = 0; row < MATRIX && i < 2; row++)
            for (int column = 0; column < MATRIX && !status; column++)
                values[row * MATRIX + column] = i == 0 ? left_value(row, column) : right_value(row, column);
        if (!status && i < 2)
            status = kn_queue_write(context, KN_QUEUE_COMPUTE, buffers[i], 0, values, bytes, true, none, NULL,
                                    &error);
    }
    cl_int n = MATRIX;
    double seconds = 0;
    if (!status) status = kn_kernel_set_bytes(kernel, 3, &n, sizeof n, &error);
    if (!status) status = time_product(context, kernel, &seconds, &error);
    if (!status)
        status =
            kn_queue_read(context, KN_QUEUE_COMPUTE, buffers[2], 0, values, bytes, true, none, NULL, &error);
    bool right = !status && product_right(values);
    for (int i = 0; i < 3; i++)
        kn_buffer_destroy(&buffers[i]);
    kn_kernel_destroy(&kernel);
    kn_release(&context->host, values);
    if (!right)
        kn_log_write(&context->host, KN_LOG_WARNING, "%s failed the trial matrix product: %s",
                     context->found.info.name, status ? error.text : "wrong results");
    *gflops = right && seconds > 0 ? 2.0 * MATRIX * MATRIX * MATRIX / seconds * 1e-9 : 0;
    return !status;
}
