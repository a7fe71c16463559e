/* Running graphs on a device: states hold what persists between runs, sessions compile and run.
 *
 *     kn_session *session = kn_session_create(context, &output, 1, NULL);
 *     kn_feed feed = {"x", x, sizeof x, 0};
 *     kn_fetch fetch = {"output", y, sizeof y};
 *     if (kn_session_run(session, &feed, 1, &fetch, 1) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_session_error(session));
 *     kn_session_destroy(&session);
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

/* An empty set on a device. Sessions that use it add the states that they need, initialised from `seed` and
 * the name of each. Returns NULL only when out of memory. Reference counted: sessions keep it alive. */
KN_API KN_NODISCARD kn_states *kn_states_create(kn_context *context, uint64_t seed);
/* An empty set in host memory, to load files into and save them from without a device; sessions refuse it.
 * allocator NULL: malloc's. Returns NULL only when out of memory. */
KN_API KN_NODISCARD kn_states *kn_states_create_host(const kn_allocator *allocator);
KN_API void kn_states_destroy(kn_states **states);
KN_API size_t kn_states_count(const kn_states *states);
/* Name, element type and shape of the state at `position`, or NULL; the string lives as long as the
 * states. */
KN_API const char *kn_states_at(const kn_states *states, size_t position, kn_tensor_info *info);
/* Copies a state to or from row-major host memory of exactly its size. Waits for the device. kn_states_set
 * may name a state that no session has requested yet: the data is kept for it. */
KN_API KN_NODISCARD kn_status kn_states_get(kn_states *states, const char *name, void *data, size_t bytes);
KN_API KN_NODISCARD kn_status kn_states_set(kn_states *states, const char *name, const kn_tensor_info *info,
                                            const void *data, size_t bytes);
/* kn_states_set for memory that may have changed since the last call for this state: nothing is copied if
 * neither it nor the state has changed since. *changed reports which (NULL: not wanted). Contents are
 * compared by a 64-bit hash. */
KN_API KN_NODISCARD kn_status kn_states_refresh(kn_states *states, const char *name,
                                                const kn_tensor_info *info, const void *data, size_t bytes,
                                                bool *changed);
KN_API const char *kn_states_error(const kn_states *states);

/* Activations that are recomputed in the backward pass, so that they need no memory after the forward pass
 * (docs/memory.md). Results have the same bits. */
typedef enum kn_recompute {
    KN_RECOMPUTE_NEEDED, /* those that make a plan fit into memory_bytes, the cheapest first */
    KN_RECOMPUTE_ALWAYS, /* all that save memory; each kernel runs at most twice */
    KN_RECOMPUTE_NEVER
} kn_recompute;

/* How products with weights in quantized blocks (GGUF) read their other input, in inference. */
typedef enum kn_activations {
    KN_ACTIVATIONS_FLOAT32, /* as it is */
    /* Rounded to 8 bits: in each group of 32 along a row to multiples of the largest magnitude / 127, as
     * llama.cpp does. CPUs with AVX512-VNNI then multiply bytes. */
    KN_ACTIVATIONS_INT8
} kn_activations;

/* ---- sessions --------------------------------------------------------------------------------------- */

typedef struct kn_session kn_session;

typedef struct kn_session_params {
    size_t size;
    kn_states *states; /* shared with other sessions; NULL: new states, initialised from seed */
    uint64_t seed;
    bool training; /* dropout is active, batch norm uses and updates its statistics */
    /* Faster algorithms whose error, measured on the device, is below 1e-4 of the results' RMS: Winograd
     * convolution, and float32 products as three bfloat16 products in matrix units, where an infinite factor
     * gives NaN. false: results are as exact as possible, and equal on all devices. */
    bool fast_math;
    /* The type in which results between operators are stored; operators compute in float32
     * (docs/precision-explained.md). Gradients of parameters, optimizer moments, running statistics, results
     * of rank 0 and 1, fetched values, and values of operators without kernels for the type, which the plan
     * lists, stay float32. KN_PRECISION_TF32 stores float32, and matrix units round factors to 10 bits of
     * mantissa; without such a unit a warning is logged once. Parameters stay float32 in training; in
     * inference those that only matrix products and embeddings read are stored in the type, as by
     * kn_store_as. */
    kn_precision precision;
    /* The device memory that a plan may need, per device; 0: the device's. A plan that needs more keeps no
     * results that depend only on states from run to run, then recomputes by `recompute`; if it still needs
     * more, it is refused with KN_ERROR_DEVICE_MEMORY, whose message states the minimum. */
    uint64_t memory_bytes;
    kn_recompute recompute;
    kn_activations activations; /* ignored in training */
    const char *switches; /* words for tests and tuning (koine/debug.h), separated by commas; NULL: none */
    /* called after each kernel is ready, from any thread, one call at a time; must not call Koine */
    kn_progress progress;
} kn_session_params;
KN_API void kn_session_params_init(kn_session_params *params);
#define KN_SESSION_DEFAULTS KN_DEFAULTS_ZERO(kn_session_params)

/* Prepares to compute `values`, which belong to one graph. Reports errors of the graph. Returns NULL only
 * when out of memory; otherwise see kn_session_status. The caller destroys it before the context. */
KN_API KN_NODISCARD kn_session *kn_session_create(kn_context *context, kn_value *const *values, size_t count,
                                                  const kn_session_params *params);
KN_API void kn_session_destroy(kn_session **session);
KN_API kn_status kn_session_status(const kn_session *session);
KN_API const char *kn_session_error(const kn_session *session);
KN_API kn_states *kn_session_states(kn_session *session);
/* Binds a symbol to a number for the following runs. Needed only if the feeds do not determine it. */
KN_API kn_status kn_session_bind(kn_session *session, const char *symbol, int64_t number);
/* Compiles for the symbols bound so far and for feeds of these sizes and scales (data may be NULL), without
 * running. */
KN_API kn_status kn_session_compile(kn_session *session, const kn_feed *feeds, size_t feed_count);
/* Runs once: feeds name inputs, fetches name values given at creation. A run with fetches blocks until they
 * are complete; a run without returns once its work is enqueued. Symbols get their numbers from the sizes of
 * the feeds. Feed data may be modified after this returns. */
KN_API KN_NODISCARD kn_status kn_session_run(kn_session *session, const kn_feed *feeds, size_t feed_count,
                                             const kn_fetch *fetches, size_t fetch_count);
/* Waits for all runs so far. */
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
    /* the largest number of bytes that are live at once: a lower bound of scratch_bytes for any placement */
    uint64_t scratch_bound_bytes;
    int steps, kernels; /* kernels: the number of different ones */
    int conversions;    /* of layout */
    double flops;       /* of one run, counted for the direct methods */
    /* of scratch: results that depend only on states, recomputed only when the states change */
    uint64_t kept_bytes;
    int devices; /* the number of devices that have work; the fields above are totals over all of them */
    uint64_t own_peak_bytes, own_state_bytes; /* on the context's own device */
    int transfers;                            /* between devices, per run */
    uint64_t transfer_bytes;
    int recomputed; /* groups of nodes that are computed twice (kn_session_params.recompute) */
    double recomputed_flops;
    uint64_t moment_bytes;   /* of the states: the optimizer's moments, without alignment */
    uint64_t exchange_bytes; /* host memory for the exchange with other workers */
    uint64_t host_bytes;     /* of states in host memory (kn_trainer_params.offload_optimizer) */
    /* host memory through which inputs are uploaded during a run; 0 if the device shares memory with the host
     * or has no separate transfer queue */
    uint64_t staging_bytes;
} kn_plan_info;
#define KN_PLAN_INFO_DEFAULTS KN_DEFAULTS_ZERO(kn_plan_info)
KN_API kn_status kn_session_plan(kn_session *session, kn_plan_info *info);
/* The plan as human-readable text; the caller frees it with kn_session_free_text. NULL on failure. */
KN_API KN_NODISCARD char *kn_session_plan_text(kn_session *session);
KN_API void kn_session_free_text(kn_session *session, char *text);

/* Plans for a batch of this size. */
typedef struct kn_batch_plan {
    void *user;
    kn_status (*plan)(void *user, int64_t batch);
} kn_batch_plan;
/* Finds the largest batch, up to *batch, for which the plan succeeds, by trying some; with `parts`, the
 * largest of the fewest equal parts of *batch. KN_ERROR_DEVICE_MEMORY and KN_ERROR_UNSUPPORTED (the range of
 * indices) mean that a batch is too large; another error ends the search. After an error, which also is
 * returned if not even one sample fits, *batch is unchanged; otherwise the last plan is that of the result.
 */
KN_API KN_NODISCARD kn_status kn_largest_batch(const kn_batch_plan *plan, bool parts, int64_t *batch);

/* One step of the current plan. */
enum { KN_PLAN_STEP_MAX_INPUTS = 32 };
typedef struct kn_plan_step {
    size_t size;
    char label[160];  /* operator and node: "conv2d conv1" */
    char kernel[120]; /* file and kernel, or another kind of step: "copy" */
    char shape[120];  /* element type and shape of the result; "" if there is none */
    double flops, bytes;
    bool once;                           /* runs only when states have changed */
    int inputs[KN_PLAN_STEP_MAX_INPUTS]; /* positions of the steps whose results it reads, ascending */
    int input_count;                     /* may exceed the size of `inputs`, which then lists the first */
    char device[KN_DEVICE_NAME_BYTES];   /* where it runs, by its name in the context: KN_DEVICE_MAIN */
} kn_plan_step;
#define KN_PLAN_STEP_DEFAULTS KN_DEFAULTS_ZERO(kn_plan_step)
/* Step `position`, from 0; KN_ERROR_NOT_FOUND past the last. */
KN_API kn_status kn_session_plan_step_at(kn_session *session, size_t position, kn_plan_step *step);

/* Writes the plan's programs to a folder, which is created if missing (docs/targets.md): NNN.cl, a complete
 * source; NNN.options, the compiler options; and launches.jsonl, a JSON object per step, in order. Existing
 * files are replaced. Needs no compiled kernels (programs=none) and no device (kn_context_params.target). */
KN_API kn_status kn_session_write_programs(kn_session *session, const char *folder);

/* One pass of the planner, and the time that it took for the current plan. */
typedef struct kn_plan_pass {
    size_t size;
    const char *name; /* static */
    double seconds;
} kn_plan_pass;
#define KN_PLAN_PASS_DEFAULTS KN_DEFAULTS_ZERO(kn_plan_pass)
/* Pass `position`, from 0, in the order in which they run; KN_ERROR_NOT_FOUND after the last. */
KN_API kn_status kn_session_plan_pass_at(kn_session *session, size_t position, kn_plan_pass *pass);

#ifdef __cplusplus
}
#endif
#endif
