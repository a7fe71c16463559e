/* Checks every operator on a device against its reference in double precision. */
#ifndef KOINE_VERIFY_H
#define KOINE_VERIFY_H

#include <koine/context.h>

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
#define KN_VERIFY_DEFAULTS {sizeof(kn_verify_params), 0, 0, 0, 0, 0, 0}

/* Runs the cases, forward and gradients. *passed and *failed may be NULL. KN_ERROR_MISMATCH if any failed,
 * KN_ERROR_NOT_FOUND if `operators` names one that does not exist.
 * Thread-safety: one thread per context. */
KN_API kn_status kn_verify(kn_context *context, const kn_verify_params *params, int *passed, int *failed);
/* The cases, to run them one by one: their number, and one by its position with its name. */
KN_API int kn_verify_count(void);
KN_API const char *kn_verify_name(int position);
KN_API kn_status kn_verify_one(kn_context *context, int position, const kn_verify_params *params);

#ifdef __cplusplus
}
#endif
#endif
