/* A context: an opened device, its compiled kernels and its queues. A program creates it first and destroys
 * it last.
 *
 *     kn_context_params params = KN_CONTEXT_DEFAULTS;
 *     params.device = "gpu";
 *     kn_context *context = kn_context_create(&params);
 *     if (kn_context_status(context) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_context_error(context));
 *     kn_context_destroy(&context);
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

struct kn_context_debug;
typedef struct kn_context_params {
    size_t size; /* of this struct, in the calling program's version */
    kn_allocator allocator;
    kn_logger log;
    /* Called while kernels are prepared, unless the session has its own callback: with total 0 before each
     * compilation, and after each of several kernels. Called from any thread, one call at a time per context;
     * must not call Koine. */
    kn_progress compile_progress;
    /* The device: an index ("1"), platform and device ("0:1"), a type ("gpu", "cpu"), or a part of its name,
     * platform, vendor or version, case-insensitive. NULL or "": the fastest at a short matrix product, whose
     * result is kept in the cache folder. */
    const char *device;
    /* Folder for compiled programs and measurements, created if missing. If it cannot be written, a warning
     * is logged and nothing is kept. NULL or "": nothing is kept. kn_default_cache_folder suggests one. */
    const char *cache_folder;
    /* A folder of kernel sources that replaces those in the library; for kernel authors. */
    const char *kernel_folder;
    bool timeline;     /* record when each step ran (has a small cost) */
    bool trust_claims; /* trust what the driver claims, without probing */
    /* For a helper process that opens the same device with the same cache and creates the same sessions as
     * the main process: it compiles their kernels, the last first, and launches each once on zeros, so that
     * the driver's cache holds them before they are needed. Halves the start-up with drivers that compile one
     * kernel at a time. Untested variants are not tried. Runs are refused with KN_ERROR_CANCELLED. */
    bool precompile;
    /* Instead of `device`, a text file that describes one (docs/targets.md). Nothing is opened, probed,
     * compiled or kept; sessions and trainers only plan, and runs are refused with KN_ERROR_CANCELLED. The
     * context cannot be joined to another one. NULL or "": none. */
    const char *target;
    /* The matrix unit to use, a name of kn_matrix_unit_name; or for tests "emulated-" and a name, which plain
     * code replaces. NULL or "": the first that computes correctly. */
    const char *matrix_unit;
    /* Part `part`, from 0, of `parts` equal parts of the device's compute units (clCreateSubDevices), for
     * workers that share a CPU. Kernels are chosen as for the whole device, so results have the same bits. If
     * the driver cannot divide the device so often, or the program brings its own context, all of it is used
     * (kn_capabilities.used_units). 0 or 1: the whole device. */
    int part, parts;
    /* Memory of the program for kn_interrupt_clear, zero at first and valid until the context is destroyed;
     * contexts may share it. NULL: none. */
    struct kn_interrupt *interrupt;
    const struct kn_context_debug
        *debug; /* switches for tests (koine/debug.h); needed only during the call; NULL: none */
} kn_context_params;

/* Sets every field to its default. */
KN_API void kn_context_params_init(kn_context_params *params);
#define KN_CONTEXT_DEFAULTS KN_DEFAULTS_ZERO(kn_context_params)

/* Opens a device. NULL params means defaults. Returns NULL only when out of memory; otherwise a handle that
 * may carry an error (kn_context_status), which everything made from the context carries too. The caller
 * destroys it after everything that was made from it. */
KN_API KN_NODISCARD kn_context *kn_context_create(const kn_context_params *params);
KN_API void kn_context_destroy(kn_context **context);
/* KN_OK if the context can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_context_status(const kn_context *context);
/* Why the context could not be created; "" if nothing failed. Valid as long as the context. */
KN_API const char *kn_context_error(const kn_context *context);

/* ---- several devices --------------------------------------------------------------------------- */

/* The largest number of devices of a context, itself included; and the size of a device name with its
 * terminator. */
enum { KN_CONTEXT_MAX_DEVICES = 8, KN_DEVICE_NAME_BYTES = 48 };
#define KN_DEVICE_MAIN "main"
/* Joins the device of another context to this one, so that sessions and trainers of `context` can compute on
 * both. Nodes pinned to `name` (kn_pin) run on the joined device, all others on the context's own, called
 * KN_DEVICE_MAIN; data moves between them through the host. `context` then owns *other; the caller may still
 * query it. Call it before anything is made from either context, and not concurrently with other calls. On
 * failure nothing changes: KN_ERROR_ARGUMENT if the name is taken, empty, NULL or has KN_DEVICE_NAME_BYTES or
 * more bytes, if *other has devices joined to it, or if one of the two is already joined to a context;
 * KN_ERROR_UNSUPPORTED beyond KN_CONTEXT_MAX_DEVICES, or if one of the devices is only described; or the
 * error of one of the two contexts. */
KN_API KN_NODISCARD kn_status kn_context_join(kn_context *context, const char *name, kn_context **other);
/* The number of devices of a context: 1 plus the joined ones. */
KN_API size_t kn_context_device_count(const kn_context *context);
/* The context at `position` and its name: 0 is the context itself, followed by the joined ones in the order
 * of joining. NULL past the last. */
KN_API kn_context *kn_context_device_at(kn_context *context, size_t position);
KN_API const char *kn_context_device_name_at(const kn_context *context, size_t position);

/* What is known about the opened device, including probe results. */
typedef struct kn_capabilities {
    size_t size;
    bool wide_vector; /* fastest with few work-items and explicit vectors; otherwise with many threads */
    int vector_width; /* float lanes of a native vector */
    int vector_registers;
    int item_registers; /* 32-bit registers per work-item; 0 until a plan for many threads needed the number
                         */
    int compute_units;
    size_t work_group_items; /* the device's maximum; a kernel may allow less */
    uint64_t local_bytes;
    uint64_t memory_bytes;
    uint64_t largest_block_bytes;
    uint32_t alignment_bytes; /* for the offset of a value inside a block */
    bool shares_memory;
    bool double_precision; /* claimed by the driver, compiled, and computed correctly */
    bool double_claimed;
    bool integer_dot, integer_dot_claimed; /* one instruction adds the products of four pairs of bytes */
    int used_units;                        /* compute units in use: fewer than all for a part of the device */
    bool local_is_global; /* local memory is a part of global memory; false on CPUs, which cache both */
    /* Processes find each other's compiled programs in the cache folder at once; false without a folder, and
     * if the driver caches programs itself, because returning them would take long. */
    bool shares_programs;
} kn_capabilities;

/* Units that multiply small matrices of 16-bit numbers and add in float32, named after their instructions.
 * KN_MATRIX_UNIT_MMA also multiplies TF32. */
typedef enum kn_matrix_unit {
    KN_MATRIX_UNIT_NONE,
    KN_MATRIX_UNIT_MMA,    /* PTX: mma.sync.m16n8k16, and m16n8k8 of TF32 */
    KN_MATRIX_UNIT_WMMA,   /* RDNA 3 */
    KN_MATRIX_UNIT_WMMA12, /* RDNA 4 */
    KN_MATRIX_UNIT_MFMA,   /* CDNA 2 and later */
    KN_MATRIX_UNIT_DPAS8,  /* cl_intel_subgroup_matrix_multiply_accumulate, sub-groups of 8 */
    KN_MATRIX_UNIT_DPAS16, /* the same, of 16 */
    KN_MATRIX_UNIT_AMX,    /* tile registers of CPUs: only bfloat16 */
    KN_MATRIX_UNIT_MMA8,   /* PTX of older GPUs: mma.sync.m16n8k8, only float16 */
    KN_MATRIX_UNIT_LAST = KN_MATRIX_UNIT_MMA8
} kn_matrix_unit;
/* "none", "mma", "wmma", "wmma12", "mfma", "dpas8", "dpas16", "amx" or "mma8"; "unknown" for others. */
KN_API const char *kn_matrix_unit_name(kn_matrix_unit unit);
/* The unit for a precision of 16 bits, or for KN_PRECISION_TF32, that computed a trial correctly. The first
 * call, or the first plan in this precision, runs the trial, which compiles small programs; the result is
 * kept in the cache folder. KN_MATRIX_UNIT_NONE for other precisions, and on wide-vector devices for all but
 * bfloat16 by KN_MATRIX_UNIT_AMX. Not concurrently with other calls. */
KN_API kn_matrix_unit kn_context_matrix_unit(kn_context *context, kn_precision precision);
/* The same by the type of the factors: KN_FLOAT16, KN_BFLOAT16, KN_FLOAT32 (rounded to TF32), or KN_INT8
 * (8-bit integers, signed or unsigned; KN_MATRIX_UNIT_MFMA multiplies only signed ones). */
KN_API kn_matrix_unit kn_context_matrix_unit_for(kn_context *context, kn_dtype type);
/* Asks the operating system to let this process use tile registers, which contexts need for
 * KN_MATRIX_UNIT_AMX. The program decides, because it holds until the process ends and makes context switches
 * of the threads that use them slower (8 KiB of state). Returns whether they may be used; false if the
 * processor or system has none. Thread-safe. */
KN_API bool kn_process_enable_amx(void);
/* What contexts are trying at the moment; only they read and write it. */
typedef struct kn_interrupt {
    int64_t marks[16];
} kn_interrupt;
/* Says that the user is ending this process. A process that ends while a driver compiles or tries a kernel
 * looks as if the driver had crashed, and later processes avoid that kernel for a while, except after this
 * call. It does not excuse a kernel that has been running for more than five seconds, which probably hangs.
 * Call it in the program's handler of SIGINT and SIGTERM before the process ends. Async-signal-safe. */
KN_API void kn_interrupt_clear(kn_interrupt *interrupt);

/* Uses the kernels again that this device avoids because a process ended while they were compiled or tried.
 * Returns how many were avoided. A warning of the log names them when a context is created. */
KN_API size_t kn_context_clear_avoided(kn_context *context);

KN_API const kn_device_info *kn_context_device(const kn_context *context);
KN_API const kn_capabilities *kn_context_capabilities(const kn_context *context);

/* Counters since the context was created. */
typedef struct kn_context_counts {
    size_t size;
    uint64_t programs_built;   /* compiled from source */
    uint64_t programs_loaded;  /* loaded from the disk cache */
    uint64_t variants_refused; /* kernels that computed incorrectly on this device and were replaced */
    uint64_t device_bytes, device_bytes_peak;
    double compile_seconds;
    uint64_t launches;      /* kernel launches */
    uint64_t staging_bytes; /* current host memory for uploads */
} kn_context_counts;
#define KN_CONTEXT_COUNTS_DEFAULTS KN_DEFAULTS_ZERO(kn_context_counts)
KN_API kn_status kn_context_get_counts(const kn_context *context, kn_context_counts *counts);

/* The device's peak performance: single-precision multiply-adds on registers (two operations each), and
 * memory reads beyond the caches. */
typedef struct kn_limits {
    size_t size;           /* of this struct, in the calling program's version */
    double gflops, gbytes; /* 10^9 operations and bytes per second; 0 if it could not be measured */
} kn_limits;
#define KN_LIMITS_DEFAULTS KN_DEFAULTS_ZERO(kn_limits)
/* Gets the limits from the cache folder, or measures them if they are not there or `remeasure` is true, which
 * takes some tenths of a second, waits for the compute queue and compiles a small program. A measurement
 * replaces a lower cached value only, because a busy machine lowers it. For a device that is only described:
 * the numbers in its file. */
KN_API kn_status kn_context_measure_limits(kn_context *context, bool remeasure, kn_limits *limits);

/* The least cost of transfers and kernel launches, measured by the call. */
typedef struct kn_transfers {
    size_t size; /* of this struct, in the calling program's version */
    double upload_gbytes,
        download_gbytes;   /* 10^9 bytes per second on the transfer queue; 0: not measurable */
    double launch_seconds; /* per launch of many consecutive small launches */
} kn_transfers;
#define KN_TRANSFERS_DEFAULTS KN_DEFAULTS_ZERO(kn_transfers)
/* Takes some tenths of a second and waits for both queues. KN_ERROR_CANCELLED for a device that is only
 * described. */
KN_API kn_status kn_context_measure_transfers(kn_context *context, kn_transfers *transfers);

/* One interval of work on a queue; times are in seconds since the context was created. */
typedef struct kn_timeline_entry {
    size_t size;        /* of this struct, in the version of the library; also the distance to the next one */
    const char *label;  /* operator and node: "conv2d conv1" */
    const char *kernel; /* "" for copies and fills */
    int queue;          /* 0 compute, 1 transfer */
    double start, end;
    double flops, bytes; /* work by the direct method, each byte counted once; 0 if unknown */
} kn_timeline_entry;
/* The recorded entries (kn_context_params.timeline), oldest first; sets *count. Valid until the next call of
 * this function or of kn_context_timeline_clear. Waits for the queues. Covers only the context's own device;
 * kn_context_device_at gives the joined ones. */
KN_API const kn_timeline_entry *kn_context_timeline(kn_context *context, size_t *count);
/* Discards the entries, including those of joined devices. */
KN_API void kn_context_timeline_clear(kn_context *context);
/* Seconds since the context was created, on the timeline's clock; 0 for a failed context. */
KN_API double kn_context_clock(const kn_context *context);

/* Writes the user's cache folder, given the values of two environment variables (each may be NULL):
 * xdg_cache_home +
 * "/koine", or home + "/.cache/koine". The path is truncated to `size` bytes and terminated. Returns false if
 * both are missing. */
KN_API bool kn_default_cache_folder(const char *xdg_cache_home, const char *home, char *folder, size_t size);

#ifdef __cplusplus
}
#endif
#endif
