/* Public header of the run module. A session binds a graph, lets its owner extend it (gradients, updates),
 * plans it, and runs the plan. The public API is koine/session.h. */
#ifndef KN_RUN_DOOR_H
#define KN_RUN_DOOR_H

#include <koine/communicator.h>
#include <koine/session.h>

#include "device/device.h"
#include "plan/plan.h"

/* The verdicts that planning needs. Defined in the verify module, which is above this module since it uses
 * sessions. */
extern const kn_verdict_functions kn_device_verdicts;

/* Describes the device to plans and operators. *target is valid as long as the context. */
void kn_target_of(kn_context *context, kn_target *target);

/* The parameters of a session, including those that the public kn_session_create does not offer. */
typedef struct kn_session_request {
    kn_context *context;
    kn_value *const *values; /* the values that can be fetched, all of one graph */
    size_t count;
    const kn_session_params *params; /* NULL: defaults */
    /* Called on each newly bound graph, with `values` bound; may add nodes and assigns, and replace values.
     * May be NULL. */
    kn_status (*extend)(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error);
    void *user;
    /* The workers whose sums the plans add up (kn_total_add), and the shards that each computes; NULL: a
     * single worker. The communicator must outlive the session. */
    const kn_communicator *communicator;
    const kn_shards *shards;
    bool any_indices; /* fed indices may be out of range, for trials of what kernels return then */
    bool any_order;   /* use the communicator's function `sum` instead of the tree of shards */
    uint64_t guard;   /* for tests: bytes of a guard area after every value (guard.c); 0: none */
} kn_session_request;
kn_session *kn_session_open(const kn_session_request *request);
/* Changes a state that the session's plans read in each run, such as the learning rate, in order with the
 * runs and without waiting. The state must exist and be a float32 or uint32 scalar. */
kn_status kn_session_set_scalar(kn_session *session, const char *state, double value);
/* Called once per run, after enqueuing everything before the host's first wait (such as for sums to send to
 * other workers), or everything if there is no wait. The only session function that it may call is
 * kn_session_feed_ahead, for the following run. If it fails and sets *error, the run fails. */
typedef struct kn_enqueued_callback {
    kn_status (*call)(void *user, kn_error *error); /* NULL: no call */
    void *user;
} kn_enqueued_callback;
/* kn_session_run without waiting: fetched data is complete after kn_session_wait, or when event *fetched is
 * (no event if the session has several devices; NULL: not needed). `ahead`: the feeds are those of the last
 * kn_session_feed_ahead; data that it wrote to the device is not written again. */
kn_status kn_session_start(kn_session *session, const kn_feed *feeds, size_t feed_count, bool ahead,
                           const kn_fetch *fetches, size_t fetch_count, kn_enqueued_callback on_enqueued,
                           kn_event *fetched);
/* Writes feeds of the next run on the transfer queue, possibly while a run is in progress, as far as memory
 * allows. The data may change after the call. The run checks the sizes. */
kn_status kn_session_feed_ahead(kn_session *session, const kn_feed *feeds, size_t feed_count);
/* Whether the next runs exchange sums with other workers, and gather values from them; initially both.
 * Without sums, totals are undefined; without gathers, see kn_gather_add. */
void kn_session_exchange(kn_session *session, bool sums, bool gathers);
/* Whether the next runs load states in host memory to the device, and store their new values; initially they
 * do. Otherwise values computed from them are undefined. */
void kn_session_move(kn_session *session, bool host_states);
/* Floats that are sent with the sums of the next run that exchanges them, without additional messages. The
 * session must add up a float32 value that all workers get in full, as trainers do with the loss. */
enum { KN_SESSION_VOTES = 3 };
void kn_session_vote(kn_session *session, const float votes[KN_SESSION_VOTES]);
/* Their sums over the workers, once that run has started. */
void kn_session_voted(const kn_session *session, float sums[KN_SESSION_VOTES]);
/* From now on, stores no state in a narrower type (kn_store_as): for training. */
void kn_states_forbid_narrow(kn_states *states);
/* Value `position` of the request in the session's copy of the graph, valid as long as the session; NULL if
 * the session failed. */
/* Changes the session's kn_session_params.memory_bytes for plans made from now on. */
void kn_session_set_memory(kn_session *session, uint64_t memory_bytes);
kn_value *kn_session_value(const kn_session *session, size_t position);
const kn_host *kn_session_host(const kn_session *session);
kn_context *kn_session_context(const kn_session *session);
const kn_error *kn_session_failure(const kn_session *session);

/* Enqueues the steps of the last run's plan again, `times` times, on the same memory: the steps of nodes of
 * `row`, or all for NULL, except steps that run once. For measurements on a single device; the session must
 * have run twice, since inputs have two buffers. KN_ERROR_NOT_FOUND: no such steps. */
kn_status kn_session_repeat(kn_session *session, const kn_operator *row, int times);

/* ---- communicators (communicator.c) --------------------------------------------------------- */

/* Turns a failure into an error with the communicator's reason. Returns the status. */
kn_status kn_communicator_fail(const kn_communicator *communicator, kn_status status, kn_error *error);
/* Waits for all requests, even after a failure, since they use the caller's memory. `status`: an earlier
 * failure that is already in the error, or KN_OK. Returns the first failure. */
kn_status kn_communicator_wait(const kn_communicator *communicator, void **requests, int count,
                               kn_status status, kn_error *error);
/* Sends to a rank, or receives from a rank, and waits for it. */
kn_status kn_communicator_send(const kn_communicator *communicator, int rank, const void *data, size_t bytes,
                               kn_error *error);
kn_status kn_communicator_receive(const kn_communicator *communicator, int rank, void *data, size_t bytes,
                                  kn_error *error);

/* ---- states -------------------------------------------------------------------------------------- */

/* Sharded states (kn_value.whole): each worker's device has a shard. kn_states_get returns the whole state
 * until the first kn_states_parts_move, and after kn_states_collect. */
/* Called by all workers: rank 0 gets the whole of each sharded state in host memory. */
kn_status kn_states_collect(kn_states *states, const kn_communicator *communicator, kn_error *error);
/* Shards are about to change: drops the copies in host memory. */
void kn_states_parts_move(kn_states *states);
/* Whether a state is sharded; *bytes: size of this worker's shard. */
bool kn_states_part(const kn_states *states, const char *name, uint64_t *bytes);
/* Reads or writes this worker's shard of a sharded state; one of the two is NULL. */
kn_status kn_states_copy_part(kn_states *states, const char *name, const void *given, void *wanted,
                              kn_error *error);

/* Whether there is a listed state of that name; describes it in *info unless `info` is NULL. */
bool kn_states_info(const kn_states *states, const char *name, kn_tensor_info *info);
/* Removes a state that was only set and that no plan uses. Frees its name. */
void kn_states_drop(kn_states *states, const char *name);
/* Sets a float32 state to quantized blocks of a file, which keeps them until a plan uses the state or it is
 * set again. Sessions that only read the state store it in these blocks where they can; otherwise it is
 * dequantized. The file is retained. */
kn_status kn_states_set_blocks(kn_states *states, const char *name, const kn_tensor_info *info,
                               const kn_file_blocks *blocks);
/* Reads a state's contents. For tests and the verify module. */
kn_status kn_states_read(kn_states *states, const char *name, void *data, size_t bytes, kn_error *error);

#endif
