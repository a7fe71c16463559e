/* Checks every operator on a device against its double-precision reference.
 *
 *     int passed = 0, failed = 0;
 *     kn_verify_params params = KN_VERIFY_DEFAULTS;
 *     params.operators = "matmul,conv2d";
 *     kn_status status = kn_verify(context, &params, &passed, &failed);
 *     printf("%d passed, %d failed: %s\n", passed, failed, kn_status_message(status)); */
#ifndef KOINE_VERIFY_H
#define KOINE_VERIFY_H

#include <koine/context.h>
#include <koine/custom.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_verify_result {
    size_t size;         /* of this struct, in the version of the library */
    const char *name;    /* "conv2d#3 tiled backward" */
    kn_status status;    /* KN_OK, KN_ERROR_MISMATCH, or another failure */
    const char *message; /* where and by how much; "" if correct */
    double error;        /* the largest error divided by the tolerance: wrong if above 1 */
    double seconds;
} kn_verify_result;

typedef struct kn_verify_params {
    size_t size;
    const char *operators; /* only these, separated by commas; NULL: all */
    /* only kernels of these names, or one with its tile, "tiled:32x32x16/4x4"; NULL: all that the device
     * supports; the fallback kernels `plain` run only the smallest cases */
    const char *variants;
    /* 16 bits: only kernels that can store it, with inputs and results in it; TF32: only kernels that
     * multiply it, with inputs in it */
    kn_precision precision;
    /* 0: every case, 1: the first of the smallest cases that a kernel takes, 2: all of the smallest cases,
     * 3: the first of the smallest with the kernels that plans choose for it, whatever `variants` says */
    int thoroughness;
    uint64_t seed;
    void *user;
    void (*report)(void *user, const kn_verify_result *result); /* strings are valid during the call */
    /* called before the cases of each operator, so that one that ends the process is known; NULL: not called
     */
    void (*begin)(void *user, const char *name);
} kn_verify_params;
KN_API void kn_verify_params_init(kn_verify_params *params);
#define KN_VERIFY_DEFAULTS KN_DEFAULTS_ZERO(kn_verify_params)

/* Runs the cases, forward and gradients. *passed and *failed may be NULL. KN_ERROR_MISMATCH if any failed,
 * KN_ERROR_NOT_FOUND if `operators` names one that does not exist. kn_verify_case_at ignores `operators` and
 * `begin`.
 * Thread-safety: one thread per context. */
KN_API KN_NODISCARD kn_status kn_verify(kn_context *context, const kn_verify_params *params, int *passed,
                                        int *failed);
/* The number of cases and their names, to run one at a time. */
KN_API size_t kn_verify_case_count(void);
KN_API const char *kn_verify_case_name_at(size_t position);
KN_API kn_status kn_verify_case_at(kn_context *context, size_t position, const kn_verify_params *params);

/* A case for a custom operator. */
typedef struct kn_verify_case {
    /* shapes separated by ';', preceded by the element type unless float32: "3,7; int32 7" */
    const char *inputs;
    const char *attributes; /* "slope=0.5"; NULL: the defaults */
    /* ranges of the random inputs, separated by ';': "-2..2; 0..6". NULL and missing ranges: "-2..2" */
    const char *ranges;
    bool no_gradient;
} kn_verify_case;
/* Checks a custom operator: results against its expression or its `reference` (KN_ERROR_UNSUPPORTED without
 * one), and gradients with respect to float32 inputs against central differences of that reference. Reads
 * only seed and report of params (may be NULL). Returns the status of the first failure. */
KN_API KN_NODISCARD kn_status kn_verify_operator(kn_context *context, const kn_operator *custom,
                                                 const kn_verify_case *cases, size_t count,
                                                 const kn_verify_params *params, int *passed, int *failed);

#ifdef __cplusplus
}
#endif
#endif
