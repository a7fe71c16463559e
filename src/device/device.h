/* The door of the device room: an opened device, memory, queues, programs.
 * No OpenCL type passes through this door. The public side is koine/context.h. */
#ifndef KN_DEVICE_DOOR_H
#define KN_DEVICE_DOOR_H

#include <koine/context.h>

#include "base/base.h"

/* ---- the context ------------------------------------------------------------------ */

const kn_host *kn_context_host(const kn_context *context);
/* The error that a context was made with, for what is made from it. */
const kn_error *kn_context_failure(const kn_context *context);
bool kn_context_wide_indices(const kn_context *context);
bool kn_context_precompiles(const kn_context *context);

/* What was learnt of this device and driver, kept in the cache folder (in memory without one).
 * Keys are short texts. get returns false when nothing is known. */
bool kn_verdict_get(kn_context *context, const char *key, double *value);
/* The same, but of a precompiling context: `guess` where nothing is known, since the process beside it finds
 * out. */
bool kn_verdict_expect(kn_context *context, const char *key, double guess, double *value);
void kn_verdict_put(kn_context *context, const char *key, double value);
/* Counts and logs a kernel variant that computed wrongly on this device: once, however often it is called. */
void kn_variant_refused(kn_context *context, const char *variant, const char *reason);

/* ---- memory ------------------------------------------------------------------------- */

/* A block of device memory, or a slice of one. Contents start undefined. */
typedef struct kn_buffer kn_buffer;

/* At most largest_block_bytes; larger, or without memory left: an error that names both sizes. */
kn_status kn_buffer_create(kn_context *context, uint64_t bytes, kn_buffer **buffer, kn_error *error);
/* Part of a block: offset is a multiple of alignment_bytes. The block outlives the slice. */
kn_status kn_buffer_slice(kn_buffer *block, uint64_t offset, uint64_t bytes, kn_buffer **slice,
                          kn_error *error);
void kn_buffer_destroy(kn_buffer **buffer);
uint64_t kn_buffer_bytes(const kn_buffer *buffer);

/* ---- queues ---------------------------------------------------------------------------- */

typedef enum kn_queue { KN_QUEUE_COMPUTE = 0, KN_QUEUE_TRANSFER = 1 } kn_queue;

/* A moment on a queue. {NULL} is no moment: waiting on it is free. kn_event_release gives it back
 * and makes it {NULL}. Queues are in order, so events only serve to order one against the other. */
typedef struct kn_event {
    void *handle;
} kn_event;
void kn_event_release(kn_event *event);
kn_status kn_event_wait(kn_context *context, kn_event event, kn_error *error);

/* In all of these: `after` (may be {NULL}) must be complete first; `done` (may be NULL) receives an
 * event to release. With `wait` the work is complete when they return, for the other queue too;
 * without, `source` and `target` memory must stay until then. */
kn_status kn_queue_write(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset,
                         const void *source, uint64_t bytes, bool wait, kn_event after, kn_event *done,
                         kn_error *error);
kn_status kn_queue_read(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset, void *target,
                        uint64_t bytes, bool wait, kn_event after, kn_event *done, kn_error *error);
kn_status kn_queue_copy(kn_context *context, kn_queue queue, kn_buffer *source, uint64_t source_offset,
                        kn_buffer *target, uint64_t target_offset, uint64_t bytes, kn_event after,
                        kn_event *done, kn_error *error);
/* Repeats a pattern of 1, 2, 4, 8 or 16 bytes; offset and length are multiples of it. */
kn_status kn_queue_fill(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset,
                        uint64_t bytes, const void *pattern, size_t pattern_bytes, kn_event *done,
                        kn_error *error);
/* Memory that the host sees, between map and unmap; free of copies where memory is shared. map waits. */
kn_status kn_buffer_map(kn_context *context, kn_buffer *buffer, bool write, void **bytes, kn_error *error);
kn_status kn_buffer_unmap(kn_context *context, kn_buffer *buffer, void *bytes, kn_error *error);
/* Makes later work on `queue` wait for the event. */
kn_status kn_queue_after(kn_context *context, kn_queue queue, kn_event event, kn_error *error);
/* An event for all work so far on `queue`. */
kn_status kn_queue_mark(kn_context *context, kn_queue queue, kn_event *event, kn_error *error);
kn_status kn_queue_flush(kn_context *context, kn_queue queue, kn_error *error);
kn_status kn_queue_finish(kn_context *context, kn_queue queue, kn_error *error);

/* ---- programs ---------------------------------------------------------------------------- */

/* A compiled file of cl/. Programs belong to the context and live as long as it. */
typedef struct kn_program kn_program;
typedef struct kn_program_request {
    const char *file;    /* "matmul/tiled.cl" */
    const char *prelude; /* #define lines put in front of the file; "" or NULL for none */
    const char *source;  /* not NULL: this text instead of a file of cl/; `file` is what messages call it */
    bool passing; /* not for the disk cache: to hand over a binary takes some drivers as long as to compile */
} kn_program_request;

/* From memory, from the disk cache, or compiled. Lines `#include "folder/other.cl"` in a file are resolved
 * among the embedded files (or kernel_folder), each at most once and whatever #if they stand in. Compiled as
 * OpenCL C 1.2 unless the prelude's first line is `// language: CL2.0` or `CL3.0`; an error where the device
 * does not speak that. A failure holds the compiler's first error. May be called by several threads; two
 * never compile the same program twice. */
kn_status kn_program_get(kn_context *context, const kn_program_request *request, kn_program **program,
                         kn_error *error);
/* Tells sets of kernel files apart: those in the library, or in kernel_folder as they are now. */
uint64_t kn_kernels_hash(const kn_context *context);
/* kn_program_get for many at once: compiles side by side where that helps, reporting to `progress` (NULL: to
 * the context's). programs has `count` places. */
kn_status kn_program_get_all(kn_context *context, const kn_program_request *requests, size_t count,
                             const kn_progress *progress, kn_program **programs, kn_error *error);
/* Like kn_program_get for source that is no file of cl/ (a caller's own kernels); `name` stands in messages.
 * A language line may be the first line of `source`; nothing is included. */
kn_status kn_program_get_source(kn_context *context, const char *name, const char *source,
                                kn_program **program, kn_error *error);

/* One kernel with its arguments: each launch site has its own, so that arguments are set once. */
typedef struct kn_kernel kn_kernel;
kn_status kn_kernel_create(kn_context *context, kn_program *program, const char *name, kn_kernel **kernel,
                           kn_error *error);
void kn_kernel_destroy(kn_kernel **kernel);
kn_status kn_kernel_set_buffer(kn_kernel *kernel, int argument, kn_buffer *buffer,
                               kn_error *error); /* NULL buffer: a null pointer */
kn_status kn_kernel_set_bytes(kn_kernel *kernel, int argument, const void *bytes, size_t count,
                              kn_error *error);
kn_status kn_kernel_set_local(kn_kernel *kernel, int argument, size_t bytes, kn_error *error);
/* The largest work-group that this kernel allows on this device. */
size_t kn_kernel_work_group_items(const kn_kernel *kernel);
/* How many parameters it has; -1 where the driver does not tell. */
int kn_kernel_parameters(const kn_kernel *kernel);

typedef struct kn_launch {
    int dimensions;   /* 1 to 3 */
    size_t global[3]; /* multiples of local; a 0 launches nothing */
    size_t local[3];
    double flops, bytes; /* for the timeline */
} kn_launch;
kn_status
kn_kernel_launch(kn_context *context, kn_kernel *kernel, const kn_launch *launch, const char *label,
                 kn_error *error); /* on the compute queue; `label` names it in the timeline, and is copied */

/* ---- matrix products by a library --------------------------------------------------------- */

/* result = a b, row by row: a is (M,K), or (K,M) where transposed; b (K,N) or (N,K); the result (M,N). */
typedef struct kn_product_request {
    int bytes_each; /* 4: float, 8: double */
    bool transpose_a, transpose_b;
    int64_t m, n, k, batches;
    int64_t a_stride, b_stride; /* from batch to batch, in elements; 0 repeats */
    kn_buffer *a, *b, *result, *workspace;
    double flops, bytes; /* for the timeline */
} kn_product_request;
/* The name of the library that Koine was built with ("clblast"), or NULL. */
const char *kn_product_library(void);
/* Bytes of workspace; KN_ERROR_UNSUPPORTED for a product that the library does not take. Buffers are not
 * looked at. */
kn_status kn_product_workspace(kn_context *context, const kn_product_request *request, uint64_t *bytes,
                               kn_error *error);
/* Puts the product on the compute queue. The library compiles its kernels at the first product of a kind. */
kn_status kn_product_run(kn_context *context, const kn_product_request *request, const char *label,
                         kn_error *error);

#endif
