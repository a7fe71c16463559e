/* Running graphs on a device: states hold what persists between runs, sessions compile and run.
 *
 * Thread-safety: a session and its states belong to one thread at a time. Inference sessions with separate
 * states may run concurrently on one context. */
#ifndef KOINE_SESSION_H
#define KOINE_SESSION_H

#include <koine/context.h>
#include <koine/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- states: parameters, running statistics, optimizer moments ------------------------------- */

typedef struct kn_states kn_states;

/* An empty set on a device. Sessions that use it add the states they need, initialised from `seed` and the
 * name of each. Returns NULL only when out of memory. Reference counted: sessions keep it alive. */
KN_API kn_states *kn_states_create(kn_context *context, uint64_t seed);
/* An empty set in host memory, to load files into and save them from without a device; sessions refuse it.
 * allocator NULL: malloc's. Returns NULL only when out of memory. */
KN_API kn_states *kn_states_create_host(const kn_allocator *allocator);
KN_API void kn_states_destroy(kn_states **states);
KN_API int kn_states_count(const kn_states *states);
/* Name, element type and shape of the state at `position`, or NULL; the string lives as long as the
 * states. */
KN_API const char *kn_states_entry(const kn_states *states, int position, kn_tensor_info *info);
/* Copies a state to or from row-major host memory of exactly its size. Waits for the device. kn_states_set
 * may name a state that no session has requested yet: the data is kept for it. */
KN_API kn_status kn_states_get(kn_states *states, const char *name, void *data, size_t bytes);
KN_API kn_status kn_states_set(kn_states *states, const char *name, const kn_tensor_info *info,
                               const void *data, size_t bytes);
/* As kn_states_set, for memory that may have changed since the last call for this state: if it has not, and
 * the state was not written otherwise since then, nothing is copied. *changed says which (NULL: not wanted).
 * Contents are compared by a hash of 64 bits. */
KN_API kn_status kn_states_refresh(kn_states *states, const char *name, const kn_tensor_info *info,
                                   const void *data, size_t bytes, bool *changed);
KN_API const char *kn_states_error(const kn_states *states);

/* What is computed twice in training, so that it needs no memory between its use in the forward pass and in
 * the backward pass. Results have the same bits. */
typedef enum kn_recompute {
    KN_RECOMPUTE_NEEDED, /* what makes a plan fit into memory_bytes, the cheapest first */
    KN_RECOMPUTE_ALWAYS, /* as much as saves memory, each kernel twice at most */
    KN_RECOMPUTE_NEVER
} kn_recompute;

/* ---- sessions --------------------------------------------------------------------------------------- */

typedef struct kn_session kn_session;

typedef struct kn_session_params {
    size_t size;
    kn_states *states; /* shared with other sessions; NULL: new states, initialised from seed */
    uint64_t seed;
    bool training; /* dropout is active, batch norm uses and updates its statistics */
    /* Use algorithms with a larger error where they are faster and their largest error, measured on the
     * device, is below 1e-4 of the results' RMS: Winograd's convolution, and products of float32 as three of
     * bfloat16 in matrix units, where an infinite number in a product makes NaN. False by default: results
     * are then as exact as possible and equal on all devices. */
    bool fast_math;
    /* The types in which results between operators are stored; what the operators compute, they compute in
     * float32. Gradients of parameters, optimizer moments, running statistics, results of rank 0 and 1
     * and what is fetched stay float32, and so do inputs and results of operators without kernels for it,
     * which the plan lists. With KN_PRECISION_TF32 all are stored in float32, and matrix products and
     * convolutions by matrix units round what they multiply to 10 bits of mantissa; without such a unit that
     * is float32, and a warning tells it once. Parameters stay float32 in training; without it, those are
     * stored so that only operators read which take them so, as by kn_store: weights of matrix products,
     * tables of embeddings. */
    kn_precision precision;
    /* The device memory that plans may need; 0: the device's. One that needs more is changed: results that
     * depend on states alone are not kept from run to run; then `recompute`. If it still needs more, it is
     * refused with KN_ERROR_DEVICE_MEMORY, whose message tells the least that would do. The limit holds for
     * each device separately; devices joined to the context are never given more than they have. */
    uint64_t memory_bytes;
    kn_recompute recompute;
    /* For tests and tuning: words separated by commas. An unknown word is an error that lists the known ones.
     *   OPERATOR=KERNEL       nodes of that operator are computed by that kernel alone ("matmul=tiled")
     *   *=KERNEL              kernels of that name are preferred for all operators
     *   invariant=recompute   what depends on states alone is computed in each run too
     *   statistics=separate   a batch norm computes its statistics itself, not the convolution before it
     *   producers=separate    no node is fused into its consumer where each has a separate kernel
     *   producers=fused       such nodes are fused without trying it on the device first
     *   images=blocked        kernels that take any layout get blocked images where possible
     *   stored=TYPE           whatever may be stored in float16 or bfloat16 is, inputs and results too
     *   launches=cut          launches for many threads are cut into several, as long ones are
     *   tuning=off            kernels that were measured to be the fastest (koine/tune.h) are not preferred
     *   tuning=noted          nor are they, and a tuner of the context notes the shapes
     *   programs=file         a program holds all kernels of its file
     *   programs=unsaved      the same, and the disk cache does not keep it
     *   programs=none         plans only: nothing is compiled, and runs are refused with KN_ERROR_CANCELLED
     */
    const char *switches;
    /* called after each kernel is ready, from any thread, one call at a time; must not call Koine */
    kn_progress progress;
} kn_session_params;
KN_API void kn_session_params_init(kn_session_params *params);
#define KN_SESSION_DEFAULTS KN_DEFAULTS_ZERO(kn_session_params)

/* Prepares to compute `values`, which belong to one graph. Reports errors of the graph. Returns NULL only
 * when out of memory; otherwise see kn_session_status. The caller destroys it before the context. */
KN_API kn_session *kn_session_create(kn_context *context, kn_value *const *values, size_t count,
                                     const kn_session_params *params);
KN_API void kn_session_destroy(kn_session **session);
KN_API kn_status kn_session_status(const kn_session *session);
KN_API const char *kn_session_error(const kn_session *session);
KN_API kn_states *kn_session_states(kn_session *session);
/* Binds a symbol to a number for the following runs. Needed only where the feeds do not determine it. */
KN_API kn_status kn_session_bind(kn_session *session, const char *symbol, int64_t number);
/* Compiles for the symbols bound so far and for feeds of these sizes and scales (data may be NULL), without
 * running. */
KN_API kn_status kn_session_compile(kn_session *session, const kn_feed *feeds, size_t feed_count);
/* Runs once: feeds name inputs, fetches name values given at creation. A run with fetches blocks until they
 * are complete; a run without returns once its work is enqueued. Symbols get their numbers from the sizes of
 * the feeds. Feed data may be modified after this returns. */
KN_API kn_status kn_session_run(kn_session *session, const kn_feed *feeds, size_t feed_count,
                                const kn_fetch *fetches, size_t fetch_count);
KN_API kn_status kn_session_wait(kn_session *session);
/* Element type and shape of a value given at creation, as of the last compile or run. */
KN_API kn_status kn_session_info(kn_session *session, const char *name, kn_tensor_info *info);
/* Device buffers of the caller (koine/opencl.h) in place of host memory, for the next run only. */
struct kn_buffer;
KN_API kn_status kn_session_feed_buffer(kn_session *session, const char *name, struct kn_buffer *buffer);
KN_API kn_status kn_session_fetch_buffer(kn_session *session, const char *name, struct kn_buffer *buffer);

/* Properties of the current plan. */
typedef struct kn_plan_info {
    size_t size;
    uint64_t peak_bytes; /* device memory of the plan: states, inputs and scratch */
    uint64_t state_bytes;
    uint64_t scratch_bytes; /* as placed */
    /* the largest number of bytes that are live at once: a lower bound for any placement */
    uint64_t scratch_bound_bytes;
    int steps, kernels; /* kernels: the number of different ones */
    int conversions;    /* of layout */
    double flops;       /* of one run, counted for the direct methods */
    /* of scratch: results that depend on states alone, recomputed only when the states change */
    uint64_t kept_bytes;
    int devices; /* the number that have work; the fields above are totals over all of them */
    uint64_t own_peak_bytes, own_state_bytes; /* on the context's own device */
    int transfers;                            /* between devices, per run */
    uint64_t transfer_bytes;
    int recomputed; /* groups of nodes that are computed twice (kn_session_params.recompute) */
    double recomputed_flops;
    uint64_t moment_bytes;   /* of the states: what an optimizer keeps, without alignment */
    uint64_t exchange_bytes; /* host memory for what is exchanged with other workers of a training */
    uint64_t host_bytes;     /* of states that wait in host memory (kn_trainer_params.host_moments) */
    /* host memory through which inputs are uploaded while a run is in progress; 0 where the device shares
     * memory with the host, or has no separate queue for transfers */
    uint64_t staging_bytes;
} kn_plan_info;
KN_API kn_status kn_session_plan(kn_session *session, kn_plan_info *info);
/* The plan as human-readable text; the caller frees it with kn_session_free_text. NULL on failure. */
KN_API char *kn_session_plan_text(kn_session *session);
KN_API void kn_session_free_text(kn_session *session, char *text);

/* One step of the current plan. */
enum { KN_PLAN_STEP_INPUTS = 32 };
typedef struct kn_plan_step {
    size_t size;
    char label[160];  /* operator and node: "conv2d conv1" */
    char kernel[120]; /* file and kernel, or another kind of step: "copy" */
    char shape[120];  /* element type and shape of the result; "" if there is none */
    double flops, bytes;
    bool once;                         /* runs only when states have changed */
    int inputs[KN_PLAN_STEP_INPUTS];   /* positions of the steps whose results it reads, ascending */
    int input_count;                   /* may exceed the size of `inputs`, which then lists the first */
    char device[KN_DEVICE_NAME_BYTES]; /* where it runs, by its name in the context: KN_DEVICE_MAIN */
} kn_plan_step;
#define KN_PLAN_STEP_DEFAULTS KN_DEFAULTS_ZERO(kn_plan_step)
/* Step `position`, from 0; KN_ERROR_NOT_FOUND past the last. */
KN_API kn_status kn_session_plan_step(kn_session *session, int position, kn_plan_step *step);

/* Writes the programs that the plan needs into a folder, which is created if missing: NNN.cl, the whole text,
 * which compiles by itself, and NNN.options, the compiler's options; and launches.jsonl, a JSON object for
 * each step in order, described in docs/targets.md. Existing files are replaced. Needs no compiled kernels
 * (programs=none) and no device (kn_context_params.target). */
KN_API kn_status kn_session_write_programs(kn_session *session, const char *folder);

/* One pass of the planner, and the time that it took for the current plan. */
typedef struct kn_plan_pass {
    size_t size;
    const char *name; /* static */
    double seconds;
} kn_plan_pass;
#define KN_PLAN_PASS_DEFAULTS KN_DEFAULTS_ZERO(kn_plan_pass)
/* Pass `position`, from 0, in the order in which they run; KN_ERROR_NOT_FOUND after the last. */
KN_API kn_status kn_session_plan_pass(kn_session *session, int position, kn_plan_pass *pass);

#ifdef __cplusplus
}
#endif
#endif
