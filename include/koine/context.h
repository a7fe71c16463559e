/* A context: an opened device, its compiled kernels and its queues. A program creates it first and destroys
 * it last.
 *
 * Thread-safety: contexts are independent of one another. The functions here may be called on one context
 * from several threads; graphs, sessions and trainers that use it each belong to one thread at a time. */
#ifndef KOINE_CONTEXT_H
#define KOINE_CONTEXT_H

#include <koine/device.h>
#include <koine/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_context kn_context;

/* Progress of a long job: done of total (total 0: unknown); label is valid during the call. */
typedef struct kn_progress {
    void *user;
    void (*report)(void *user, const char *label, uint64_t done, uint64_t total);
} kn_progress;

typedef struct kn_context_params {
    size_t size; /* of this struct, in the calling program's version */
    kn_allocator allocator;
    kn_logger log;
    /* Called while kernels are prepared: with total 0 before each compilation, and after each of several
     * kernels, unless the session has its own callback. Called from any thread, one call at a time per
     * context; must not call Koine. */
    kn_progress compile_progress;
    /* Which device: an index ("1"), platform and device ("0:1"), a type ("gpu", "cpu"), or a part of its
     * name, platform, vendor or version, case-insensitive. NULL or "": the device that is fastest at a short
     * matrix product; the result is kept in the cache folder. */
    const char *device;
    /* Where compiled programs and measurements of a device are kept between runs; created if missing. If it
     * cannot be created or written, a warning is logged and nothing is kept. NULL or "": nothing is kept.
     * kn_default_cache_folder suggests one. */
    const char *cache_folder;
    /* A folder of kernel sources that replaces those in the library; for kernel authors. */
    const char *kernel_folder;
    bool timeline;                /* record when each step ran (has a small cost) */
    bool trust_claims;            /* trust what the driver claims, without probing */
    uint64_t largest_block_bytes; /* a smaller limit for one allocation, for tests; 0: the device's */
    bool wide_indices;            /* 64-bit indices in kernels whatever the sizes, for tests */
    int vector_width;             /* force 4, 8 or 16 lanes on wide-vector devices; 0: the device's */
    /* On many-thread devices, registers of 32 bits that a work-item may use: from 255 on, products have twice
     * as many sums a work-item as from 128 on. 0: as the compiler shows. */
    int item_registers;
    /* Force a set of kernels: 0: as probed, 1: wide-vector (unless the device ends long loops early), 2:
     * many-thread. */
    int kind;
    /* For a second process that opens the same device with the same cache and creates the same sessions as a
     * first one. Plans are built and their kernels compiled, the last first, and each kernel is launched once
     * on zeros, so that the driver's own cache holds them before the first process needs them. With drivers
     * that compile one kernel at a time and cache it, start-up takes little more than half the time. Building
     * a plan takes memory for the arguments of one step. Untested variants are not tried. Runs are refused
     * with KN_ERROR_CANCELLED. */
    bool precompile;
    /* A text file that describes a device, which need not be here (docs/targets.md), in place of `device`:
     * nothing is opened, probed, compiled or kept. Sessions and trainers of the context plan, taking kernels
     * to be right there; runs are refused with KN_ERROR_CANCELLED. It cannot be joined to another context.
     * NULL or "": none. */
    const char *target;
    /* The unit that multiplies matrices of 16-bit numbers, or of TF32: a name of
     * kn_matrix_unit_name, the only one that is tried then; or one after "emulated-", in which plain code
     * does with each lane's numbers what that unit would do, slowly, for tests. NULL or "": the first that
     * computes right. */
    const char *matrix_unit;
    /* Part `part`, from 0, of `parts` equal parts of the device's compute units (clCreateSubDevices), for
     * workers that share a CPU. Kernels are chosen as for the whole device, so that results have the same
     * bits. Where the driver cannot divide it so often, the whole device is opened (kn_capabilities:
     * used_units), and a program's own context is taken as it is. 0 or 1: the whole device. */
    int part, parts;
    bool local_is_global; /* take local memory to be a part of global memory, for tests */
} kn_context_params;

/* Sets every field to its default. */
KN_API void kn_context_params_init(kn_context_params *params);
#define KN_CONTEXT_DEFAULTS KN_DEFAULTS_ZERO(kn_context_params)

/* Opens a device. NULL params means defaults. Returns NULL only when out of memory; otherwise a handle that
 * may carry an error (kn_context_status), which is passed on to everything made from the context. The caller
 * destroys it after everything that was made from it. */
KN_API kn_context *kn_context_create(const kn_context_params *params);
KN_API void kn_context_destroy(kn_context **context);
/* KN_OK if the context can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_context_status(const kn_context *context);
/* Why the context could not be created, in one or a few sentences; "" if nothing failed. Valid as long as the
 * context. */
KN_API const char *kn_context_error(const kn_context *context);

/* ---- several devices --------------------------------------------------------------------------- */

/* The largest number of devices of a context, itself included; and the size of a device name with its
 * terminator. */
enum { KN_CONTEXT_DEVICES = 8, KN_DEVICE_NAME_BYTES = 48 };
#define KN_DEVICE_MAIN "main"
/* Joins the device of another context to this one, so that sessions and trainers of `context` can compute on
 * both. Nodes pinned to `name` (kn_pin) run on the other device, all others on the context's own, which is
 * called KN_DEVICE_MAIN; data that moves between them is copied through the host. From then on `context` owns
 * *other and destroys it with itself; the caller must not destroy it but may still query it. Call it before
 * anything is made from either context, and not concurrently with other calls. On failure nothing changes:
 * KN_ERROR_ARGUMENT if the name is taken, empty, NULL or has KN_DEVICE_NAME_BYTES or more bytes, if *other
 * has devices joined to it, or if one of the two is already joined to a context; KN_ERROR_UNSUPPORTED beyond
 * KN_CONTEXT_DEVICES, or if one of the devices is only described; or the error of one of the two contexts. */
KN_API kn_status kn_context_join(kn_context *context, const char *name, kn_context **other);
/* The number of devices of a context: 1 plus those that were joined. */
KN_API int kn_context_device_count(const kn_context *context);
/* The context at `position` and its name: 0 is the context itself, followed by the joined ones in the order
 * of joining. NULL past the last. */
KN_API kn_context *kn_context_device_at(kn_context *context, int position);
KN_API const char *kn_context_device_name(const kn_context *context, int position);

/* What is known about the opened device, including probe results. */
typedef struct kn_capabilities {
    size_t size;
    bool wide_vector; /* best used with few work-items and explicit vectors; otherwise with many threads */
    int vector_width; /* float lanes of a native vector */
    int vector_registers;
    int item_registers; /* of 32 bits that a work-item may use; 0 until a plan for many threads has asked */
    int compute_units;
    size_t work_group_items; /* the device's maximum; a kernel may allow less */
    uint64_t local_bytes;
    uint64_t memory_bytes;
    uint64_t largest_block_bytes;
    uint32_t alignment_bytes; /* for the offset of a value inside a block */
    bool shares_memory;
    bool double_precision; /* claimed by the driver, compiled, and computed correctly */
    bool double_claimed;
    bool integer_dot, integer_dot_claimed; /* adds the products of four pairs of bytes in one instruction */
    int used_units;                        /* of the compute units: fewer than all in a part of the device */
    bool local_is_global; /* work-groups share a part of global memory; false on CPUs, which cache both */
} kn_capabilities;

/* Units that multiply small matrices of 16-bit numbers and add in float32, by the instruction that reaches
 * them. KN_MATRIX_MMA multiplies TF32 too. */
typedef enum kn_matrix_unit {
    KN_MATRIX_NONE,
    KN_MATRIX_MMA,    /* PTX: mma.sync.m16n8k16, and m16n8k8 of TF32 */
    KN_MATRIX_WMMA,   /* RDNA 3 */
    KN_MATRIX_WMMA12, /* RDNA 4 */
    KN_MATRIX_MFMA,   /* CDNA 2 and later */
    KN_MATRIX_DPAS8,  /* cl_intel_subgroup_matrix_multiply_accumulate, sub-groups of 8 */
    KN_MATRIX_DPAS16, /* the same, of 16 */
    KN_MATRIX_AMX,    /* of processors, with tile registers: bfloat16 alone */
    KN_MATRIX_LAST = KN_MATRIX_AMX
} kn_matrix_unit;
/* "none", "mma", "wmma", "wmma12", "mfma", "dpas8", "dpas16" or "amx"; "unknown" for other values. */
KN_API const char *kn_matrix_unit_name(kn_matrix_unit unit);
/* The unit for a precision of 16 bits, or for KN_PRECISION_TF32, that computed a trial right. It is tried
 * when it is first asked for, or a plan in this precision is made: that compiles small programs, and the
 * answer is kept in the cache folder. KN_MATRIX_NONE for other precisions, and of wide-vector devices for
 * all but bfloat16 by KN_MATRIX_AMX. Not concurrently with other calls. */
KN_API kn_matrix_unit kn_context_matrix_unit(kn_context *context, kn_precision precision);
/* The same by the numbers that it multiplies: KN_FLOAT16, KN_BFLOAT16, KN_FLOAT32 (rounded to TF32), or
 * KN_INT8 (8-bit integers, signed or not, but by KN_MATRIX_MFMA signed ones alone). */
KN_API kn_matrix_unit kn_context_matrix_unit_of(kn_context *context, kn_dtype type);
/* Asks the operating system to let the threads of this process use tile registers, without which no context
 * uses KN_MATRIX_AMX. It holds until the process ends, and each thread that uses them has 8 KiB more to save:
 * so the program decides. The command and the Python package ask. Returns whether they may be used; false
 * where the processor or the system has none. Thread-safe. */
KN_API bool kn_process_allow_tiles(void);

KN_API const kn_device_info *kn_context_device(const kn_context *context);
KN_API const kn_capabilities *kn_context_capabilities(const kn_context *context);

/* Counters since the context was created. */
typedef struct kn_context_counts {
    size_t size;
    uint64_t programs_built;   /* from source */
    uint64_t programs_loaded;  /* from the disk cache */
    uint64_t variants_refused; /* kernels that computed incorrectly on this device and were replaced */
    uint64_t device_bytes, device_bytes_peak;
    double compile_seconds;
    uint64_t launches;      /* of kernels */
    uint64_t staging_bytes; /* of host memory that uploads go through now */
} kn_context_counts;
KN_API kn_status kn_context_get_counts(const kn_context *context, kn_context_counts *counts);

/* The device's peak performance: single-precision multiply-adds on registers (two operations each), and
 * memory reads beyond the caches. */
typedef struct kn_limits {
    size_t size;           /* of this struct, in the calling program's version */
    double gflops, gbytes; /* 10^9 operations and bytes per second; 0 if it could not be measured */
} kn_limits;
/* Gets the limits from the cache folder if they are there and `again` is false, otherwise measures them,
 * which takes some tenths of a second, waits for the compute queue and compiles a small program. A
 * measurement is kept only if it exceeds the cached value, because a busy machine only lowers it. Of a device
 * that is only described: what its file states. */
KN_API kn_status kn_context_measure_limits(kn_context *context, bool again, kn_limits *limits);

/* The least cost of transfers and kernel launches, measured by the call. */
typedef struct kn_transfers {
    size_t size; /* of this struct, in the calling program's version */
    double upload_gbytes,
        download_gbytes;   /* 10^9 bytes per second on the transfer queue; 0: could not be measured */
    double launch_seconds; /* per launch of many consecutive small launches */
} kn_transfers;
/* Takes some tenths of a second and waits for both queues. KN_ERROR_CANCELLED for a device that is only
 * described. */
KN_API kn_status kn_context_measure_transfers(kn_context *context, kn_transfers *transfers);

/* One interval of work on a queue; times are in seconds since the context was created. */
typedef struct kn_timeline_entry {
    const char *label;  /* operator and node: "conv2d conv1" */
    const char *kernel; /* "" for copies and fills */
    int queue;          /* 0 compute, 1 transfer */
    double start, end;
    double flops, bytes; /* work by the direct method, each byte counted once; 0 if unknown */
} kn_timeline_entry;
/* The recorded entries (params.timeline), oldest first; sets *count. They stay valid until the next call of
 * this function or of kn_context_timeline_clear. Waits for the queues. Covers the context's own device only:
 * ask the joined devices through kn_context_device_at. */
KN_API const kn_timeline_entry *kn_context_timeline(kn_context *context, size_t *count);
/* Discards the entries, including those of joined devices. */
KN_API void kn_context_timeline_clear(kn_context *context);
/* Seconds since the context was created, on the timeline's clock; 0 for a failed context. */
KN_API double kn_context_clock(const kn_context *context);

/* Writes the user's cache folder, given values of the environment (each may be NULL): xdg_cache_home +
 * "/koine", or home + "/.cache/koine". The path is truncated to `bytes` and always terminated. Returns false
 * if there is none. */
KN_API bool kn_default_cache_folder(const char *xdg_cache_home, const char *home, char *folder, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
