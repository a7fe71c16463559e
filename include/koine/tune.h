/* The tuner: measures which kernels are the fastest for the shapes of a model on a device (docs/tuning.md).
 *
 * Plans made afterwards use the measurements. They are kept in the cache folder for this device, driver,
 * version and set of kernels. A plan uses a measured kernel only if it passes the same trials as any other.
 *
 *     kn_tuner *tuner = kn_tuner_create(context);
 *     // … compile a session or trainer with the switch tuning=noted: the tuner notes its shapes …
 *     for (size_t i = 0; i < kn_tuner_shape_count(tuner); i++)
 *         kn_tuner_run(tuner, i, NULL);
 *     kn_tuner_destroy(&tuner);
 *
 * A kernel may crash or hang the process that tries it: `koine tune` runs the tuner in a separate process. */
#ifndef KOINE_TUNE_H
#define KOINE_TUNE_H

#include <koine/context.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KN_TUNER_KERNEL_BYTES = 64 };

typedef struct kn_tuner kn_tuner;

/* Creates a tuner for the context, which must outlive it. Returns NULL when out of memory and if the context
 * has failed or already has a tuner. Thread-safety: one thread per context. */
KN_API KN_NODISCARD kn_tuner *kn_tuner_create(kn_context *context);
KN_API void kn_tuner_destroy(kn_tuner **tuner);
/* The message of the last call that failed. */
KN_API const char *kn_tuner_error(const kn_tuner *tuner);

/* An operator with its exact shapes that several kernels can compute. */
typedef struct kn_tuner_shape {
    size_t size;
    const char *key;                    /* in the file of choices; valid as long as the tuner, as is `name` */
    const char *name;                   /* "conv2d float32 32,64,56,56; 64,64,3,3" */
    const char *untuned;                /* the kernel that plans choose by rule */
    int nodes;                          /* nodes of this shape in all noted plans */
    int candidates;                     /* kernels that can compute it, including the untuned one */
    double share;                       /* of the predicted time of all shapes */
    bool tuned;                         /* it has been measured */
    char kernel[KN_TUNER_KERNEL_BYTES]; /* if tuned: the fastest, and its time; "" if no candidate worked */
    double microseconds, untuned_microseconds; /* the second is 0 if the untuned kernel does not work */
} kn_tuner_shape;
#define KN_TUNER_SHAPE_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_shape)
/* The shapes with several candidates, in descending order of their share. */
KN_API size_t kn_tuner_shape_count(kn_tuner *tuner);
/* KN_ERROR_NOT_FOUND past the last. */
KN_API kn_status kn_tuner_shape_at(kn_tuner *tuner, size_t position, kn_tuner_shape *shape);

typedef enum kn_tuner_event {
    KN_TUNER_EVENT_START =
        0,                 /* a kernel is compiled, checked or timed next; in an entry: it is the fastest */
    KN_TUNER_EVENT_FAILED, /* it does not build or run */
    KN_TUNER_EVENT_WRONG,  /* its results differ from the reference */
    KN_TUNER_EVENT_HUNG    /* it took too long or crashed */
} kn_tuner_event;

typedef struct kn_tuner_params {
    size_t size;
    double seconds; /* no candidate is started after this time; 0: no limit */
    void *user;
    /* Called before each candidate is tried and after each failure; `kernel` as in the file: "tiled" or, with
     * a tile of products, "tiled:64x64x8/8x8". Strings are valid during the call. */
    void (*report)(void *user, kn_tuner_event event, const char *kernel, const char *message);
} kn_tuner_params;
KN_API void kn_tuner_params_init(kn_tuner_params *params);
#define KN_TUNER_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_params)

/* Checks each candidate for a shape against the reference, times the correct ones, and keeps the fastest.
 * Candidates that failed before, with these kernels, are skipped. KN_ERROR_CANCELLED: the time is over; only
 * failures are kept. */
KN_API kn_status kn_tuner_run(kn_tuner *tuner, size_t position, const kn_tuner_params *params);
/* Excludes a kernel from trials for the shape with this key. */
KN_API kn_status kn_tuner_exclude(kn_tuner *tuner, const char *key, const char *kernel, kn_tuner_event why);
/* Forgets the measurements of a shape, so that it can be tuned again. */
KN_API kn_status kn_tuner_forget(kn_tuner *tuner, size_t position);

/* ---- stored measurements ------------------------------------------------------------------------- */

/* A stored measurement; `current`: made with this version and these kernels, so that plans use it. */
typedef struct kn_tuner_entry {
    size_t size;
    char key[1024], kernel[KN_TUNER_KERNEL_BYTES];
    kn_tuner_event outcome; /* KN_TUNER_EVENT_START: it was measured to be the fastest; otherwise it is not
                               tried again */
    double microseconds, untuned_microseconds;
    bool current;
} kn_tuner_entry;
#define KN_TUNER_ENTRY_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_entry)
/* KN_ERROR_NOT_FOUND past the last. */
KN_API kn_status kn_tuner_entry_at(kn_tuner *tuner, size_t position, kn_tuner_entry *entry);
/* Writes all entries to a text file, whole or not at all. */
KN_API kn_status kn_tuner_export(kn_tuner *tuner, const char *path);

/* The number of a file's entries that were imported, and that were not. */
typedef struct kn_tuner_counts {
    size_t size;
    int imported;
    int damaged;       /* malformed lines */
    int other_kernels; /* of a different version or set of kernels */
    int unknown;       /* operators or kernels that do not exist */
} kn_tuner_counts;
#define KN_TUNER_COUNTS_DEFAULTS KN_DEFAULTS_ZERO(kn_tuner_counts)
/* Adds the entries of such a file; they replace entries of the same shapes. KN_ERROR_MISMATCH if the file was
 * made on a different device or driver: nothing is imported. `counts` may be NULL. */
KN_API kn_status kn_tuner_import(kn_tuner *tuner, const char *path, kn_tuner_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
