/* Checks every operator on a device against its double-precision reference. */
#ifndef KOINE_VERIFY_H
#define KOINE_VERIFY_H

#include <koine/context.h>
#include <koine/custom.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_verify_result {
    const char *name;    /* "conv2d#3 tiled backward" */
    kn_status status;    /* KN_OK, KN_ERROR_MISMATCH, or another failure */
    const char *message; /* where and by how much; "" if correct */
    double error;        /* the largest error divided by the tolerance: above 1 is wrong */
    double seconds;
} kn_verify_result;

typedef struct kn_verify_params {
    size_t size;
    const char *operators; /* only these, separated by commas; NULL: all */
    /* only kernels of these names, or one with its tile, "tiled:32x32x16/4x4"; NULL: all that the device
     * supports, those that stand in for others, `plain`, with the smallest cases */
    const char *variants;
    kn_precision precision; /* of 16 bits: only kernels that can store it, with inputs and results in it;
                               TF32: only those that multiply it, with inputs in it */
    /* 0: every case, 1: one case per operator and variant, 2: only the smallest, 3: the first of those with
     * the kernels that are chosen for it, whatever `variants` says */
    int thoroughness;
    uint64_t seed;
    void *user;
    void (*report)(void *user, const kn_verify_result *result); /* strings are valid during the call */
} kn_verify_params;
KN_API void kn_verify_params_init(kn_verify_params *params);
#define KN_VERIFY_DEFAULTS KN_DEFAULTS_ZERO(kn_verify_params)

/* Runs the cases, forward and gradients. *passed and *failed may be NULL. KN_ERROR_MISMATCH if any failed,
 * KN_ERROR_NOT_FOUND if `operators` names one that does not exist.
 * Thread-safety: one thread per context. */
KN_API kn_status kn_verify(kn_context *context, const kn_verify_params *params, int *passed, int *failed);
/* The cases, to run them one at a time: their number, and the name of each. */
KN_API int kn_verify_count(void);
KN_API const char *kn_verify_name(int position);
KN_API kn_status kn_verify_one(kn_context *context, int position, const kn_verify_params *params);

/* A case for a custom operator. */
typedef struct kn_verify_case {
    /* shapes separated by ';', preceded by the element type unless float32: "3,7; int32 7" */
    const char *inputs;
    const char *attributes; /* "slope=0.5"; NULL: the defaults */
    /* of the random inputs, separated by ';': "-2..2; 0..6". NULL, or missing ones: "-2..2" */
    const char *ranges;
    bool no_gradient;
} kn_verify_case;
/* The same for a custom operator: compares results with its expression or its `reference`
 * (KN_ERROR_UNSUPPORTED without one), and gradients with respect to float32 inputs with central differences
 * of that reference. Reads only seed and report of params (may be NULL). Returns the status of the first
 * failure. */
KN_API kn_status kn_verify_operator(kn_context *context, const kn_operator *custom,
                                    const kn_verify_case *cases, size_t count, const kn_verify_params *params,
                                    int *passed, int *failed);

#ifdef __cplusplus
}
#endif
#endif
