/* A context: one opened device, its compiled kernels and its queues.
 * It is the first thing a program makes and the last that it destroys.
 *
 * Thread-safety: contexts are independent of one another. The functions here may be
 * called on one context from several threads; graphs, sessions and trainers that use
 * it belong to one thread at a time each. */
#ifndef KOINE_CONTEXT_H
#define KOINE_CONTEXT_H

#include <koine/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_context kn_context;

/* How far a long job is: done of total (total 0: unknown); label is valid during the call. */
typedef struct kn_progress {
    void *user;
    void (*report)(void *user, const char *label, uint64_t done, uint64_t total);
} kn_progress;

typedef struct kn_context_params {
    size_t size; /* of this struct, as the program knows it */
    kn_allocator allocator;
    kn_logger log;
    /* Called while kernels are made ready: with a total of 0 before each that has to be compiled, and after
     * each of many, unless the session has a report of its own. By any thread, one at a time for a context;
     * must not call Koine. */
    kn_progress compile_progress;
    /* Which device: an index ("1"), platform and device ("0:1"), a type ("gpu", "cpu"), or a
     * part of its name, platform, vendor or version, whatever the case. NULL or "": the fastest by a
     * short matrix product, whose result is remembered in the cache folder. */
    const char *device;
    /* Where compiled programs and what was learnt of a device are kept between runs; made
     * when missing; where it cannot be made or written, a warning in the log says so, and nothing is kept.
     * NULL or "": nothing is kept. kn_default_cache_folder suggests one. */
    const char *cache_folder;
    /* A folder with the kernel sources, read instead of those in the library; for kernel authors. */
    const char *kernel_folder;
    bool timeline;                /* record when each step ran (costs a little) */
    bool trust_claims;            /* believe what the driver claims, without probing */
    uint64_t largest_block_bytes; /* lower limit of one allocation, for tests; 0: the device's */
    bool wide_indices;            /* 64-bit indices in kernels whatever the sizes, for tests */
    int vector_width;             /* force 4, 8 or 16 lanes on wide-vector devices; 0: the device's */
    /* Force a set of kernels: 0 as probed, 1 wide-vector (unless the device ends long loops early), 2
     * many-thread. */
    int kind;
    /* For a second process beside one that opens the same device with the same cache and makes the same
     * sessions: plans are made and their kernels compiled, the last first, and each is launched once on
     * zeros, so that the driver's own cache has them before the other process comes to them. Drivers that
     * compile one kernel at a time, and keep it, are through in little more than half the time. A plan takes
     * memory while it is made: for the arguments of one step. Nothing doubtful is tried that is not known.
     * Runs are refused with KN_ERROR_CANCELLED. */
    bool precompile;
} kn_context_params;

/* Sets every field to its default. */
KN_API void kn_context_params_init(kn_context_params *params);
#define KN_CONTEXT_DEFAULTS                                                                                  \
    {                                                                                                        \
        sizeof(kn_context_params), {0, 0}, {0, KN_LOG_ERROR, 0}, {0, 0}, 0, 0, 0, false, false, 0, false, 0, \
            0, false                                                                                         \
    }

/* Opens a device. NULL params means defaults. Returns NULL only when out of memory; otherwise
 * a handle that may carry an error: kn_context_status tells, and whatever is made from a
 * failed context carries its error on. The caller destroys it, after all that was made from it. */
KN_API kn_context *kn_context_create(const kn_context_params *params);
KN_API void kn_context_destroy(kn_context **context);
/* KN_OK if the context can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_context_status(const kn_context *context);
/* What went wrong when the context was made, in a sentence or a few; "" if nothing. Valid as long as the
 * context. */
KN_API const char *kn_context_error(const kn_context *context);

/* ---- several devices --------------------------------------------------------------------------- */

/* How many devices a context computes on at most, itself included; and room for the name of one, with its
 * end. */
enum { KN_CONTEXT_DEVICES = 8, KN_DEVICE_NAME_BYTES = 48 };
#define KN_DEVICE_MAIN "main"
/* Joins the device of another context to this one: sessions and trainers of `context` may then compute on
 * both. Nodes that are pinned to `name` (kn_pin) run on the other device, all others on the context's own,
 * which is called KN_DEVICE_MAIN; what goes from one to the other is copied through the host. *other belongs
 * to `context` from here on, which destroys it at its own end, and must not be destroyed by the caller; it
 * may still be asked. To be done before anything is made from either, and not beside other calls. Fails, and
 * takes nothing: KN_ERROR_ARGUMENT where the name is taken, empty, NULL or of KN_DEVICE_NAME_BYTES and more,
 * where *other has devices joined to it, or where one of the two was joined to a context already;
 * KN_ERROR_UNSUPPORTED beyond KN_CONTEXT_DEVICES; or the error that one of the two was made with. */
KN_API kn_status kn_context_join(kn_context *context, const char *name, kn_context **other);
/* How many devices a context computes on: 1, and those that were joined. */
KN_API int kn_context_device_count(const kn_context *context);
/* The context at `position`, with its name: 0 is the context itself, then those that were joined, in their
 * order. NULL beyond the last. */
KN_API kn_context *kn_context_device_at(kn_context *context, int position);
KN_API const char *kn_context_device_name(const kn_context *context, int position);

/* What is known of the opened device, probing included. */
typedef struct kn_capabilities {
    size_t size;
    bool wide_vector; /* few work-items with explicit vectors suit it; otherwise many threads */
    int vector_width; /* float lanes of a native vector */
    int vector_registers;
    int compute_units;
    size_t work_group_items; /* the device's maximum; a kernel may allow less */
    uint64_t local_bytes;
    uint64_t memory_bytes;
    uint64_t largest_block_bytes;
    uint32_t alignment_bytes; /* at which a value may begin inside a block */
    bool shares_memory;
    bool half, double_precision, subgroups; /* claimed, compiled and computed right */
    bool half_claimed, double_claimed, subgroups_claimed;
    bool integer_dot, integer_dot_claimed; /* products of four bytes each are added at a time */
} kn_capabilities;

KN_API const kn_device_info *kn_context_device(const kn_context *context);
KN_API const kn_capabilities *kn_context_capabilities(const kn_context *context);

/* Counters since the context was made. */
typedef struct kn_context_counts {
    size_t size;
    uint64_t programs_built;   /* from source */
    uint64_t programs_loaded;  /* from the disk cache */
    uint64_t variants_refused; /* kernels that computed wrongly on this device and were replaced */
    uint64_t device_bytes, device_bytes_peak;
    double compile_seconds;
} kn_context_counts;
KN_API kn_status kn_context_get_counts(const kn_context *context, kn_context_counts *counts);

/* What the device does at most: single-precision multiply-adds from registers (each counts as two), and
 * reading memory beyond its caches. */
typedef struct kn_limits {
    size_t size;           /* of this struct, as the program knows it */
    double gflops, gbytes; /* 10^9 operations, and bytes, a second; 0 where that could not be measured */
} kn_limits;
/* Tells the limits: from the cache folder if they are known there and not `again`, otherwise measured, which
 * takes some tenths of a second, waits for the compute queue and compiles a small program. What is measured
 * is kept where it is more than was known, since a busy machine only gives less. */
KN_API kn_status kn_context_measure_limits(kn_context *context, bool again, kn_limits *limits);

/* What moving bytes and starting kernels costs at best, measured now. */
typedef struct kn_transfers {
    size_t size; /* of this struct, as the program knows it */
    double upload_gbytes,
        download_gbytes;   /* 10^9 bytes a second, by the transfer queue; 0: could not be measured */
    double launch_seconds; /* of one of many small launches in a row */
} kn_transfers;
/* Takes some tenths of a second, and waits for both queues. */
KN_API kn_status kn_context_measure_transfers(kn_context *context, kn_transfers *transfers);

/* One stretch of work on a queue; times in seconds since the context was made. */
typedef struct kn_timeline_entry {
    const char *label;  /* operator and node: "conv2d conv1" */
    const char *kernel; /* "" for copies and fills */
    int queue;          /* 0 compute, 1 transfer */
    double start, end;
    double flops,
        bytes; /* what it had to do, by the direct method, each byte once; 0 where that is not known */
} kn_timeline_entry;
/* The recorded entries (params.timeline), oldest first; *count is set. They stay valid until the
 * next call of this function or of kn_context_timeline_clear. Waits for the queues. Of the context's own
 * device alone: those that were joined to it are asked for theirs, by kn_context_device_at. */
KN_API const kn_timeline_entry *kn_context_timeline(kn_context *context, size_t *count);
/* Forgets the entries, and those of devices that were joined to it as well. */
KN_API void kn_context_timeline_clear(kn_context *context);
/* Seconds since the context was made, as in the timeline; 0 for a failed one. */
KN_API double kn_context_clock(const kn_context *context);

/* Writes the folder that suits this user, from values of the environment that the caller
 * passes (each may be NULL): xdg_cache_home + "/koine", or home + "/.cache/koine". The text is
 * cut off at `bytes` and always terminated. Returns false if there is none. */
KN_API bool kn_default_cache_folder(const char *xdg_cache_home, const char *home, char *folder, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
