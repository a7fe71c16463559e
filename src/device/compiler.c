/* Determines how best to use the device's compiler:
 *
 * - whether programs can begin with common/builtins.cl instead of the compiler's own header, which takes
 * Clang longer than most kernels;
 * - whether the driver returns a binary immediately or recompiles all kernels for it. A driver that
 * recompiles caches its compiled programs itself. */
#include <math.h>
#include <stdio.h>

#include "device/device_private.h"

enum { ITEMS = 64, RESULTS = 8, SALT_MIN = 10, SALT_RANGE = 1 << 30 };
/* Getting a tiny program's binary takes longer than this only if the driver compiles for it. */
static const double slow_seconds = 0.01;

static float clamped(float value) {
    return value < -2 ? -2 : value > 9 ? 9 : value;
}

/* *right: the program computes correctly with the header that the context requests. */
static kn_status try_program(kn_context *context, bool *right) {
    float input[ITEMS], output[RESULTS * ITEMS];
    const kn_probe task = {.name = "compiler",
                           .file = "probe/compiler.cl",
                           .kernel = "kn_probe_compiler",
                           .input = input,
                           .input_bytes = sizeof input,
                           .output = output,
                           .output_bytes = sizeof output,
                           .local = 8,
                           .passing = true};
    for (int i = 0; i < ITEMS; i++)
        input[i] = (float)(i * 7 % 23 - 11);
    kn_status status = kn_probe_run(context, &task, NULL);
    *right = !status;
    for (int i = 0; i < ITEMS && *right; i++) {
        float a = input[i], half = a * 0.5f, down = (float)(int)(half < 0 ? half - 0.5f : half);
        const float *y = output + RESULTS * i;
        *right = y[0] == 1 && y[1] == a * a + 1 && y[2] == (a < 0 ? -a : a) && y[3] == down;
        for (int j = 0; j < 4 && *right; j++)
            *right = y[4 + j] == clamped(input[j] + a);
    }
    return status;
}

static kn_status get_program(kn_context *context, const char *prelude, kn_program **program) {
    const kn_program_request request = {.file = "probe/compiler.cl", .prelude = prelude, .passing = true};
    return kn_program_get(context, &request, program, NULL);
}

/* Fails if the driver compiles nothing, like LLVM 9 of Debian 11 on an unknown processor. Otherwise every
 * kernel would fail with a separate warning. */
static kn_status compile_simplest(kn_context *context, kn_error *error) {
    static const char source[] = "kernel void kn_simplest(global int *y) { y[0] = 1; }\n";
    kn_program *program = NULL;
    kn_error problem = {0};
    kn_status status = kn_program_get_source(context, "simplest", source, &program, &problem);
    if (status != KN_ERROR_COMPILE) return KN_OK;
    return kn_fail(
        error, status, "%s; its driver cannot compile even the simplest kernel: install a newer driver%s",
        problem.text,
        context->found.info.type == KN_DEVICE_CPU ? ", such as intel-opencl-rt from PyPI (docs/install.md)"
                                                  : "");
}

/* Uses the short header if it compiles and computes correctly. */
static kn_status choose_header(kn_context *context, const char *key, kn_error *error) {
    double verdict = 0;
    bool right = false;
    kn_status refused = KN_OK;
    if (!kn_verdict_get(context, key, &verdict)) {
        kn_program *program = NULL;
        kn_attempt attempt;
        kn_attempt_begin(context, &attempt, key);
        kn_status status = try_program(context, &right);
        if (!status) status = get_program(context, "", &program);
        verdict = !status && right && !program->full_header;
        if (!status) kn_verdict_put(context, key, verdict);
        if (status == KN_ERROR_COMPILE) refused = compile_simplest(context, error);
        kn_attempt_end(context, &attempt);
    }
    context->short_header = verdict != 0;
    return refused;
}

/* Times a program that the driver cannot have cached. Never 0. */
static bool time_binary(kn_context *context, double *seconds) {
    kn_program *program = NULL;
    char prelude[32];
    double start = kn_clock();
    size_t bytes = 0;
    snprintf(prelude, sizeof prelude, "#define KN_SALT %d\n",
             (int)(kn_hash_bytes(KN_HASH_START, &start, sizeof start) % SALT_RANGE) + SALT_MIN);
    if (get_program(context, prelude, &program) != KN_OK) return false;
    start = kn_clock();
    uint8_t *binary = kn_program_binary(context, program->program, 0, &bytes);
    *seconds = kn_clock() - start + 1e-9;
    kn_release(&context->host, binary);
    return true;
}

/* Decides whether programs are stored by Koine or by the driver. */
static void choose_storage(kn_context *context) {
    static const char key[] = "binary_seconds";
    double seconds = 0;
    if (!context->cache_folder) return;
    if (!kn_verdict_get(context, key, &seconds)) {
        kn_attempt attempt;
        kn_attempt_begin(context, &attempt, key);
        bool known = time_binary(context, &seconds);
        double again = 0;
        /* A process that had to wait for a processor also looks slow, so slow results are timed twice. */
        if (known && seconds > slow_seconds && time_binary(context, &again)) seconds = fmin(seconds, again);
        if (known) kn_verdict_put(context, key, seconds);
        kn_attempt_end(context, &attempt);
    } else if (seconds == 0) {
        seconds = INFINITY; /* a process ended when it requested a binary */
    }
    context->capabilities.shares_programs = seconds <= slow_seconds;
}

kn_status kn_compiler_choose(kn_context *context, kn_error *error) {
    kn_source source;
    char key[64];
    context->short_header = true;
    if (kn_source_file(context, "probe/compiler.cl", "", true, &source, NULL)) {
        context->short_header = false; /* a kernel folder that lacks one of the files */
        return KN_OK;
    }
    snprintf(key, sizeof key, "short_header_%016llx",
             (unsigned long long)kn_hash_bytes(KN_HASH_START, source.text.data, source.text.length));
    kn_source_finish(&source);
    /* The driver makes no claim about this, so it is probed even with trust_claims. */
    kn_status status = choose_header(context, key, error);
    if (!status && !context->trust_claims) choose_storage(context);
    return status;
}
