/* The tuner: measures which kernels are the fastest for the shapes of a model, on one device.
 *
 * Plans use what was measured from then on. It is kept in the cache folder, for this device, driver, version
 * and set of kernels. A kernel that was measured passes the same trials as any other before a plan uses it.
 *
 *     kn_tuner *tuner = kn_tuner_create(context);
 *     … compile a session or trainer with the switch tuning=noted: the tuner notes its shapes …
 *     for (int i = 0; i < kn_tuner_count(tuner); i++)
 *         kn_tuner_run(tuner, i, NULL, NULL);
 *
 * A kernel may crash or hang the process that tries it: `koine tune` runs the tuner in a separate process.
 */
#ifndef KOINE_TUNE_H
#define KOINE_TUNE_H

#include <koine/context.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KN_TUNE_KERNEL_BYTES = 64 };

typedef struct kn_tuner kn_tuner;

/* A tuner for the context, which can have one at a time and must outlive it. Returns NULL when out of memory,
 * for a context that has failed, and for one that has a tuner. Thread-safety: one thread per context. */
KN_API kn_tuner *kn_tuner_create(kn_context *context);
KN_API void kn_tuner_destroy(kn_tuner **tuner);
/* Of the last call that failed. */
KN_API const char *kn_tuner_error(const kn_tuner *tuner);

/* An operator with its exact shapes that several kernels can compute. */
typedef struct kn_tuner_shape {
    size_t size;
    const char *key;                   /* in the file of choices; valid as long as the tuner, as is `name` */
    const char *name;                  /* "conv2d float32 32,64,56,56; 64,64,3,3" */
    const char *untuned;               /* the kernel that plans choose by rule */
    int nodes;                         /* of this shape, in all plans that were noted */
    int candidates;                    /* kernels that can compute it, the untuned one included */
    double share;                      /* of the predicted time of all of them */
    bool known;                        /* it has been tuned */
    char kernel[KN_TUNE_KERNEL_BYTES]; /* then: the fastest, and its time; "" if no candidate worked */
    double microseconds, untuned_microseconds; /* the second is 0 if the untuned kernel does not work */
} kn_tuner_shape;
#define KN_TUNER_SHAPE_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_shape)
/* The shapes with several candidates, those with the largest share first. */
KN_API int kn_tuner_count(kn_tuner *tuner);
/* KN_ERROR_NOT_FOUND past the last. */
KN_API kn_status kn_tuner_get(kn_tuner *tuner, int position, kn_tuner_shape *shape);

typedef enum kn_tuner_event {
    KN_TUNER_TRIES = 0, /* a kernel is compiled, checked or timed next */
    KN_TUNER_FAILED,    /* it does not build or run */
    KN_TUNER_WRONG,     /* its results differ from the reference */
    KN_TUNER_HUNG       /* it was ended, because it took too long or crashed */
} kn_tuner_event;

typedef struct kn_tuner_params {
    size_t size;
    double seconds; /* no candidate begins later than this; 0: no limit */
    void *user;
    /* Called before each candidate is tried and after each failure; `kernel` as in the file: "tiled" or, with
     * a tile of products, "tiled:64x64x8/8x8". Strings are valid during the call. */
    void (*report)(void *user, kn_tuner_event event, const char *kernel, const char *message);
} kn_tuner_params;
KN_API void kn_tuner_params_init(kn_tuner_params *params);
#define KN_TUNER_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_params)

/* Checks each candidate for a shape against the reference, times those that are right, and keeps the fastest.
 * Candidates that failed before, with these kernels, are left out. KN_ERROR_CANCELLED: the time was over, and
 * nothing is kept but what failed. */
KN_API kn_status kn_tuner_run(kn_tuner *tuner, int position, const kn_tuner_params *params);
/* Notes that a kernel must not be tried again for the shape with this key. */
KN_API kn_status kn_tuner_refuse(kn_tuner *tuner, const char *key, const char *kernel, kn_tuner_event why);
/* Forgets what is known of a shape, so that it is tuned again. */
KN_API kn_status kn_tuner_forget(kn_tuner *tuner, int position);

/* ---- what is kept ------------------------------------------------------------------------------------ */

/* One entry of what is kept for the device; `of_these_kernels`: plans of this version and these kernels use
 * it. */
typedef struct kn_tuner_entry {
    size_t size;
    char key[1024], kernel[KN_TUNE_KERNEL_BYTES];
    kn_tuner_event
        end; /* KN_TUNER_TRIES: it was measured to be the fastest; otherwise it is not tried again */
    double microseconds, untuned_microseconds;
    bool of_these_kernels;
} kn_tuner_entry;
#define KN_TUNER_ENTRY_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_entry)
/* KN_ERROR_NOT_FOUND past the last. */
KN_API kn_status kn_tuner_entry_at(kn_tuner *tuner, int position, kn_tuner_entry *entry);
/* Writes all entries to a text file, whole or not at all. */
KN_API kn_status kn_tuner_export(kn_tuner *tuner, const char *path);

/* What became of the entries of a file. */
typedef struct kn_tuner_counts {
    size_t size;
    int taken;
    int damaged; /* lines that are no entries */
    int kernels; /* of another version, or other kernels */
    int unknown; /* of operators or kernels that there are not */
} kn_tuner_counts;
#define KN_TUNER_COUNTS_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_counts)
/* Adds the entries of such a file, which replace those of the same shapes. KN_ERROR_MISMATCH: it is of
 * another device or driver, and nothing was taken. `counts` may be NULL. */
KN_API kn_status kn_tuner_import(kn_tuner *tuner, const char *path, kn_tuner_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
