/* Checks every operator on a device against its reference in double precision. */
#ifndef KOINE_VERIFY_H
#define KOINE_VERIFY_H

#include <koine/context.h>
#include <koine/custom.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_verify_result {
    const char *name;    /* "conv2d#3 tiled backward" */
    kn_status status;    /* KN_OK, KN_ERROR_MISMATCH, or what failed */
    const char *message; /* where and by how much; "" when right */
    double error;        /* the largest, over the tolerance: above 1 is wrong */
    double seconds;
} kn_verify_result;

typedef struct kn_verify_params {
    size_t size;
    const char *operators; /* only these, separated by commas; NULL: all */
    const char *variants;  /* only kernels of these names; NULL: each that the device can take */
    int thoroughness;      /* 0 every case, 1 one case per operator and variant, 2 the smallest only */
    uint64_t seed;
    void *user;
    void (*report)(void *user, const kn_verify_result *result); /* texts are valid during the call */
} kn_verify_params;
KN_API void kn_verify_params_init(kn_verify_params *params);
#define KN_VERIFY_DEFAULTS                                                                                   \
    { sizeof(kn_verify_params), 0, 0, 0, 0, 0, 0 }

/* Runs the cases, forward and gradients. *passed and *failed may be NULL. KN_ERROR_MISMATCH if any failed,
 * KN_ERROR_NOT_FOUND if `operators` names one that does not exist.
 * Thread-safety: one thread per context. */
KN_API kn_status kn_verify(kn_context *context, const kn_verify_params *params, int *passed, int *failed);
/* The cases, to run them one by one: their number, and one by its position with its name. */
KN_API int kn_verify_count(void);
KN_API const char *kn_verify_name(int position);
KN_API kn_status kn_verify_one(kn_context *context, int position, const kn_verify_params *params);

/* A case of a custom operator. */
typedef struct kn_verify_case {
    const char *inputs;     /* shapes, separated by ';', a type in front where not float32: "3,7; int32 7" */
    const char *attributes; /* "slope=0.5"; NULL: the defaults */
    const char *ranges;     /* of random inputs, separated by ';': "-2..2; 0..6". NULL or less: "-2..2" */
    bool no_gradient;
} kn_verify_case;
/* The same for an operator of your own: results against its expression, or against its `reference`, without
 * which there is nothing to compare with (KN_ERROR_UNSUPPORTED); its gradients by float32 inputs against
 * central differences of that. Of params (NULL allowed) seed and report are read. Answers what the first
 * failure was. */
KN_API kn_status kn_verify_operator(kn_context *context, const kn_operator *custom,
                                    const kn_verify_case *cases, size_t count, const kn_verify_params *params,
                                    int *passed, int *failed);

#ifdef __cplusplus
}
#endif
#endif
