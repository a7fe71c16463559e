/* The door of the run room. A session binds a graph, lets its owner extend it (gradients, updates), plans it,
 * and runs the plan. The public API is koine/session.h. */
#ifndef KN_RUN_DOOR_H
#define KN_RUN_DOOR_H

#include <koine/communicator.h>
#include <koine/session.h>

#include "device/device.h"
#include "plan/plan.h"

/* The verdicts that planning needs. Defined in the verify room, which is above this one since it uses
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
    /* The workers whose sums the plans add up (kn_total_add), and what each computes; NULL: there is one. The
     * communicator must outlive the session. */
    const kn_communicator *communicator;
    const kn_shards *shards;
    bool any_order; /* the communicator's function `sum` adds up, not the tree of the shards */
    uint64_t guard; /* for tests: the size in bytes of a checked area after every value (guard.c); 0: none */
} kn_session_request;
kn_session *kn_session_open(const kn_session_request *request);
/* Changes a state that the session's plans read in each run, such as the learning rate, in order with the
 * runs and without waiting. The state must exist and be a float32 or uint32 scalar. */
kn_status kn_session_set_scalar(kn_session *session, const char *state, double value);
/* Called once in a run: when all is enqueued that comes before the first wait of the host, such as that for
 * sums to send to other workers, or else when all is. Of the session's functions it may call
 * kn_session_feed_ahead alone, for the run after this one. A failure, whose text it puts into *error, is that
 * of the run. */
typedef struct kn_meanwhile {
    kn_status (*call)(void *user, kn_error *error); /* NULL: nothing is called */
    void *user;
} kn_meanwhile;
/* kn_session_run without waiting: fetched data is complete after kn_session_wait, or when the event *fetched
 * is, which is none where the session has several devices; fetched NULL: not wanted. `ahead`: the feeds are
 * those of the last kn_session_feed_ahead; what it wrote to the device is not written again. */
kn_status kn_session_start(kn_session *session, const kn_feed *feeds, size_t feed_count, bool ahead,
                           const kn_fetch *fetches, size_t fetch_count, kn_meanwhile meanwhile,
                           kn_event *fetched);
/* Writes the feeds of the next run on the transfer queue, while the last run may be in progress, as far as
 * there is memory. The data may change afterwards. The run checks its size. */
kn_status kn_session_feed_ahead(kn_session *session, const kn_feed *feeds, size_t feed_count);
/* Whether the next runs exchange sums with the other workers, and gather values from them; at first they do
 * both. Without, totals are undefined, and gathered values are as kn_gather_add says. */
void kn_session_exchange(kn_session *session, bool sums, bool gathers);
/* Whether the next runs bring states in host memory to the device, and store their new values; at first they
 * do. Without, what is computed from them is undefined. */
void kn_session_move(kn_session *session, bool host_states);
/* Numbers that travel with the sums of the next run that exchanges them, in no message for themselves. It
 * must be a session that adds up a float32 value of which all workers get the whole sum, as trainers do with
 * the loss. */
enum { KN_SESSION_VOTES = 3 };
void kn_session_vote(kn_session *session, const float votes[KN_SESSION_VOTES]);
/* Their sums over the workers, once that run has started. */
void kn_session_voted(const kn_session *session, float sums[KN_SESSION_VOTES]);
/* From now on no state is stored in a narrower type (kn_store_as): for training. */
void kn_states_forbid_narrow(kn_states *states);
/* Value `position` of the request in the session's copy of the graph, valid as long as the session; NULL if
 * the session failed. */
/* Changes the session's kn_session_params.memory_bytes, for plans that are made from now on. */
void kn_session_set_memory(kn_session *session, uint64_t memory_bytes);
kn_value *kn_session_value(const kn_session *session, size_t position);
const kn_host *kn_session_host(const kn_session *session);
kn_context *kn_session_context(const kn_session *session);
const kn_error *kn_session_failure(const kn_session *session);

/* Enqueues the steps of the last run's plan again, `times` times, on the same memory: those of the nodes of
 * `row`, or all with NULL, but not what runs once. For measurements, on one device; the session must have run
 * twice, since inputs have two buffers. KN_ERROR_NOT_FOUND: there are no such steps. */
kn_status kn_session_repeat(kn_session *session, const kn_operator *row, int times);

/* ---- what a communicator says (communicator.c) --------------------------------------------------------- */

/* A failure becomes the error, with the communicator's reason. Returns the status. */
kn_status kn_communicator_fail(const kn_communicator *communicator, kn_status status, kn_error *error);
/* Waits for all requests, also after a failure: they use the caller's memory. `status`: a failure before,
 * which the error has already, or KN_OK; the first failure is returned. */
kn_status kn_communicator_wait(const kn_communicator *communicator, void **requests, int count,
                               kn_status status, kn_error *error);
/* Sends to a rank, or receives from one, and waits for it. */
kn_status kn_communicator_send(const kn_communicator *communicator, int rank, const void *data, size_t bytes,
                               kn_error *error);
kn_status kn_communicator_receive(const kn_communicator *communicator, int rank, void *data, size_t bytes,
                                  kn_error *error);

/* ---- states ---------------------------------------------------------------------------------------------
 */

/* States in parts (kn_value.whole): each worker's device has its part. kn_states_get gives all of one until
 * kn_states_parts_move is called for the first time, and after kn_states_collect. */
/* All workers call it: rank 0 gets all of each state in parts, in host memory. */
kn_status kn_states_collect(kn_states *states, const kn_communicator *communicator, kn_error *error);
/* The parts change: what is in host memory is dropped. */
void kn_states_parts_move(kn_states *states);
/* Whether a state is in parts; *bytes: of this worker's part. */
bool kn_states_part(const kn_states *states, const char *name, uint64_t *bytes);
/* Reads or writes this worker's part of a state in parts; one of the two is NULL. */
kn_status kn_states_copy_part(kn_states *states, const char *name, const void *given, void *wanted,
                              kn_error *error);

/* Whether there is a listed state of that name; *info is what it is, if info is not NULL. */
bool kn_states_info(const kn_states *states, const char *name, kn_tensor_info *info);
/* Removes a state that no plan requests: one that was set alone. Its name ends with it. */
void kn_states_drop(kn_states *states, const char *name);
/* Reads a state's contents. For tests and for verify. */
kn_status kn_states_read(kn_states *states, const char *name, void *data, size_t bytes, kn_error *error);

#endif
