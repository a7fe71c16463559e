/* Public to other modules: an opened device, memory, queues, programs. It exposes no OpenCL types. The public
 * side is koine/context.h. */
#ifndef KN_DEVICE_DOOR_H
#define KN_DEVICE_DOOR_H

#include <koine/context.h>

#include "base/base.h"

/* ---- the context ------------------------------------------------------------------ */

const kn_host *kn_context_host(const kn_context *context);
/* The error that the context was created with, for objects made from it. */
const kn_error *kn_context_failure(const kn_context *context);
bool kn_context_wide_indices(const kn_context *context);
bool kn_context_precompiles(const kn_context *context);
/* Whether the device is only described (kn_context_params.target): it can only be planned for. */
bool kn_context_is_described(const kn_context *context);
/* Whether the device is a simulator. */
bool kn_context_is_simulated(const kn_context *context);
/* Sets the error for operations that need a device. */
kn_status kn_fail_described(const kn_context *context, kn_error *error);
/* Creation time, by kn_clock: distinguishes contexts. */
double kn_context_made(const kn_context *context);

/* Verdicts: measurements of this device and driver, stored in the cache folder (in memory without one). Keys
 * are short strings without line breaks. get returns false if nothing is known. If a process ended while
 * trying a key, the value is 0 for a while. */
bool kn_verdict_get(kn_context *context, const char *key, double *value);
/* kn_verdict_get, except that if nothing is known, a precompiling context gets `guess`, because the main
 * process measures it, and so does a context with a described device. */
bool kn_verdict_expect(kn_context *context, const char *key, double guess, double *value);
/* Whether to compile what a trial would run, because this context precompiles for a process that will run it:
 * nothing is known under `key`, and programs are shared. */
bool kn_verdict_prepares(kn_context *context, const char *key);
void kn_verdict_put(kn_context *context, const char *key, double value);
/* A driver may end the process that requests a verdict. Between begin and end, a file in the cache folder
 * names what is being tried: a process that finds it after this process has ended avoids it for a while. Not
 * on a precompiling context, whose process may be killed at any time, and whose main process tries the same.
 * `attempt` and `key` must stay valid until the end; attempts may be nested. */
typedef struct kn_attempt {
    const char *key;
    bool runs; /* its kernels run; false: they are being compiled */
    struct kn_attempt *before;
} kn_attempt;
void kn_attempt_begin(kn_context *context, kn_attempt *attempt, const char *key);
/* Called before kernels are compiled and launched: notes for the newest attempt whether its kernels run. */
void kn_attempt_phase(kn_context *context, bool runs);
void kn_attempt_end(kn_context *context, kn_attempt *attempt);

/* ---- tuned choices (tuned.c) ---------------------------------------------------------------- */

/* Measurements of this device and driver, stored next to the verdicts: for a key, the name of the fastest
 * kernel; and kernels that must not be tried again. Keys and names have no spaces. */
typedef enum kn_tuned_end { KN_TUNED_MEASURED, KN_TUNED_FAILED, KN_TUNED_WRONG, KN_TUNED_HUNG } kn_tuned_end;
enum { KN_TUNED_KERNEL = 64, KN_TUNED_KEY = 1024 };
typedef struct kn_tuned {
    char key[KN_TUNED_KEY], kernel[KN_TUNED_KERNEL];
    kn_tuned_end end;
    double microseconds, untuned; /* if measured; untuned 0: the untuned kernel could not be measured */
} kn_tuned;
/* Gets the choice for a key; false: there is none. */
bool kn_tuned_get(kn_context *context, const char *key, kn_tuned *entry);
/* Whether there are entries at all. */
bool kn_tuned_any(kn_context *context);
/* How the last attempt of a kernel for a key ended, unless it succeeded. */
kn_tuned_end kn_tuned_end_of(kn_context *context, const char *key, const char *kernel);
/* Stores an entry in the file: a choice, or a kernel that must not be tried again. Failure to write is
 * logged. */
void kn_tuned_put(kn_context *context, const kn_tuned *entry);
/* Removes all entries of a key. */
void kn_tuned_forget(kn_context *context, const char *key);
/* Logs, once per context, that there are entries with unknown names. */
void kn_tuned_ignore(kn_context *context, const char *key);
/* The entry at *position, 0 at first, in no particular order, and advances it; false at the end. */
bool kn_tuned_next(kn_context *context, size_t *position, kn_tuned *entry);
/* Writes all entries in the format of the file. */
kn_status kn_tuned_export(kn_context *context, const char *path, kn_error *error);
/* Adds the entries of an exported file that `takes` accepts; it is also called, with entry NULL, for each
 * damaged line. Fails without changes if the file is invalid or belongs to a different device or driver. */
kn_status kn_tuned_import(kn_context *context, const char *path,
                          bool (*takes)(void *user, const kn_tuned *entry), void *user, kn_error *error);
/* The tuner that records plans of this context, owned by the verify module; NULL: none. */
void kn_context_set_tuner(kn_context *context, void *tuner);
void *kn_context_tuner(const kn_context *context);

/* ---- the device's speed, for planning ------------------------------------------------------------------ */

/* 64, 128 or 256: 32-bit registers that a work-item may use on a many-thread device, or the number in its
 * description. Determined by the compiler when first needed, and cached. */
int kn_context_item_registers(kn_context *context);
/* Logs a warning, once per context, if TF32 is requested and no matrix unit supports it. */
void kn_context_tell_tf32(kn_context *context);
/* Whether plain code emulates the matrix unit. */
bool kn_context_emulates_matrix_unit(const kn_context *context);
/* Whether the CPU has AVX512-VNNI, or it is emulated together with the matrix unit. */
bool kn_context_byte_products(const kn_context *context);
/* The speed of a slow kernel on a many-thread device, in FLOP/s and bytes/s: a small fraction of the peak,
 * for predicting the longest time that a launch may take. `measure`: measures the peak if it is not yet
 * known, which takes a moment; otherwise the peak of the smallest devices with the same number of units is
 * assumed. */
void kn_context_slow_speed(kn_context *context, bool measure, double *flops, double *bytes);
/* Counts and logs, once per variant, a kernel variant that computed incorrectly on this device. */
void kn_variant_refused(kn_context *context, const char *variant, const char *reason);

/* ---- memory ------------------------------------------------------------------------- */

/* A block of device memory, or a slice of one. The contents are undefined at first. */
typedef struct kn_buffer kn_buffer;

/* At most largest_block_bytes; larger sizes, or lack of memory, give an error that names both sizes. */
kn_status kn_buffer_create(kn_context *context, uint64_t bytes, kn_buffer **buffer, kn_error *error);
/* A slice of a block: offset is a multiple of alignment_bytes. The block must outlive the slice. */
kn_status kn_buffer_slice(kn_buffer *block, uint64_t offset, uint64_t bytes, kn_buffer **slice,
                          kn_error *error);
void kn_buffer_destroy(kn_buffer **buffer);
uint64_t kn_buffer_bytes(const kn_buffer *buffer);

/* Host memory that the device reads directly, so that the host does not wait for a write from it (staging.c).
 */
typedef struct kn_staging kn_staging;
/* Whether writes from it can be faster: the device has separate memory and a transfer queue. */
bool kn_staging_pays(const kn_context *context);
kn_status kn_staging_create(kn_context *context, uint64_t bytes, kn_staging **staging, kn_error *error);
void *kn_staging_memory(const kn_staging *staging);
/* Writes from it must be complete. */
void kn_staging_destroy(kn_staging **staging);

/* ---- queues ---------------------------------------------------------------------------- */

typedef enum kn_queue { KN_QUEUE_COMPUTE = 0, KN_QUEUE_TRANSFER = 1 } kn_queue;

/* A point in a queue's work. {NULL} means no event: waiting for it returns at once. kn_event_release releases
 * it and sets it to {NULL}. Queues are in order, so events only order one queue against the other. */
typedef struct kn_event {
    void *handle;
} kn_event;
void kn_event_release(kn_event *event);
kn_status kn_event_wait(kn_context *context, kn_event event, kn_error *error);
/* Does not wait; true for {NULL}, false for a failed event. */
bool kn_event_is_complete(kn_event event);

/* For all of these functions: `after` (may be {NULL}) must be complete first; `done` (may be NULL) receives
 * an event for the caller to release. With `wait`, the work is complete on return, also for the other queue;
 * without it, `source` and `target` must stay valid until it is. */
kn_status kn_queue_write(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset,
                         const void *source, uint64_t bytes, bool wait, kn_event after, kn_event *done,
                         kn_error *error);
kn_status kn_queue_read(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset, void *target,
                        uint64_t bytes, bool wait, kn_event after, kn_event *done, kn_error *error);
kn_status kn_queue_copy(kn_context *context, kn_queue queue, kn_buffer *source, uint64_t source_offset,
                        kn_buffer *target, uint64_t target_offset, uint64_t bytes, kn_event after,
                        kn_event *done, kn_error *error);
/* Fills with a pattern of 1, 2, 4, 8 or 16 bytes; offset and length are multiples of its size. */
kn_status kn_queue_fill(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset,
                        uint64_t bytes, const void *pattern, size_t pattern_bytes, kn_event *done,
                        kn_error *error);
/* Makes later work on `queue` wait for the event. */
kn_status kn_queue_after(kn_context *context, kn_queue queue, kn_event event, kn_error *error);
/* An event for all work so far on `queue`. */
kn_status kn_queue_mark(kn_context *context, kn_queue queue, kn_event *event, kn_error *error);
kn_status kn_queue_flush(kn_context *context, kn_queue queue, kn_error *error);
kn_status kn_queue_finish(kn_context *context, kn_queue queue, kn_error *error);

/* ---- programs ---------------------------------------------------------------------------- */

/* A compiled file of cl/. Programs belong to the context and live as long as it does. */
typedef struct kn_program kn_program;
typedef struct kn_program_request {
    const char *file;    /* "matmul/tiled.cl" */
    const char *prelude; /* #define lines placed before the file; "" or NULL for none */
    const char *source;  /* if not NULL, this text instead of a file of cl/; `file` is its name in messages */
    /* do not store it in the disk cache: some drivers take as long to return a binary as to compile */
    bool passing;
    /* if it is in the disk cache, or another process is compiling it, do nothing: the result is NULL */
    bool spare;
} kn_program_request;

/* Gets a program from memory, from the disk cache, or by compiling it. Lines `#include "folder/other.cl"` are
 * resolved among the embedded files (or kernel_folder), each at most once and regardless of surrounding #if.
 * Compiled as OpenCL C 1.2 unless the prelude's first line is `// language: CL2.0` or `CL3.0`; an error if
 * the device does not support that. A failure contains the compiler's first error. Thread-safe; a program is
 * never compiled twice concurrently. */
kn_status kn_program_get(kn_context *context, const kn_program_request *request, kn_program **program,
                         kn_error *error);
/* Appends the compiler's input for a program: the whole text, and the options to `options`. */
kn_status kn_program_write(kn_context *context, const kn_program_request *request, kn_text *text,
                           kn_text *options, kn_error *error);
/* Hash of the set of kernel files: those in the library, or the current contents of kernel_folder. */
uint64_t kn_kernels_hash(const kn_context *context);
/* kn_program_get for several programs: compiles in parallel where that helps and reports to `progress` (NULL:
 * the context's). programs has room for `count` entries. *failed (may be NULL): after a failure, the index of
 * the request that failed; otherwise, or if the error is not due to a request, `count`. */
kn_status kn_program_get_all(kn_context *context, const kn_program_request *requests, size_t count,
                             const kn_progress *progress, kn_program **programs, size_t *failed,
                             kn_error *error);
/* Like kn_program_get for source that is not a file of cl/ (custom kernels); `name` is for messages. A
 * language line may be the first line of `source`; includes are not resolved. */
kn_status kn_program_get_source(kn_context *context, const char *name, const char *source,
                                kn_program **program, kn_error *error);

/* A kernel with its arguments: each launch site has a separate one, so that arguments are set once. */
typedef struct kn_kernel kn_kernel;
kn_status kn_kernel_create(kn_context *context, kn_program *program, const char *name, kn_kernel **kernel,
                           kn_error *error);
void kn_kernel_destroy(kn_kernel **kernel);
/* NULL buffer: a small buffer that the kernel must not access, since drivers may not accept a null pointer.
 */
kn_status kn_kernel_set_buffer(kn_kernel *kernel, int argument, kn_buffer *buffer, kn_error *error);
kn_status kn_kernel_set_bytes(kn_kernel *kernel, int argument, const void *bytes, size_t count,
                              kn_error *error);
kn_status kn_kernel_set_local(kn_kernel *kernel, int argument, size_t bytes, kn_error *error);
/* The largest work-group that the kernel allows on the device. */
size_t kn_kernel_work_group_items(const kn_kernel *kernel);
/* The limit that the driver reports. It may be less than the size that the kernel requires and was compiled
 * for: some drivers then refuse to launch it, others report the limit of a kernel without a required size. */
size_t kn_kernel_reported_items(const kn_kernel *kernel);
/* Whether the driver reports how much private memory a work-item needs, including spilled registers, which is
 * 0 if its variables fit into registers. */
bool kn_kernel_private_bytes(const kn_kernel *kernel, uint64_t *bytes);
/* Number of parameters; -1 if the driver does not report it. */
int kn_kernel_parameters(const kn_kernel *kernel);

typedef struct kn_launch {
    int dimensions;   /* 1 to 3 */
    size_t global[3]; /* multiples of local; 0 launches nothing */
    size_t local[3];
    double flops, bytes; /* for the timeline */
    /* Number of launches to split into along each dimension; 0: one. The kernel must count its groups by
     * KN_GROUP (cl/common/types.cl), and its items by get_global_id. */
    size_t cut[3];
} kn_launch;
kn_status
kn_kernel_launch(kn_context *context, kn_kernel *kernel, const kn_launch *launch, const char *label,
                 kn_error *error); /* on the compute queue; `label` names it in the timeline and is copied */

/* ---- matrix products by a library --------------------------------------------------------- */

/* result = a b, row-major: a is (M,K), or (K,M) transposed; b is (K,N), or (N,K) transposed; the result is
 * (M,N). */
typedef struct kn_product_request {
    int bytes_each; /* 4: float, 8: double */
    bool transpose_a, transpose_b;
    int64_t m, n, k, batches;
    int64_t a_stride, b_stride; /* distance between batches, in elements; 0 repeats */
    kn_buffer *a, *b, *result, *workspace;
    double flops, bytes; /* for the timeline */
} kn_product_request;
/* The name of the library Koine was built with ("clblast"), or NULL. */
const char *kn_product_library(void);
/* Bytes of workspace; KN_ERROR_UNSUPPORTED for a product that the library does not support. Ignores the
 * request's buffers. */
kn_status kn_product_workspace(kn_context *context, const kn_product_request *request, uint64_t *bytes,
                               kn_error *error);
/* Enqueues the product on the compute queue. The library compiles its kernels at the first product of a
 * kind. */
kn_status kn_product_run(kn_context *context, const kn_product_request *request, const char *label,
                         kn_error *error);

#endif
