/* The door of the run room. A session binds a graph, lets its owner extend it (gradients, updates), plans it,
 * and runs the plan. The public side is koine/session.h. */
#ifndef KN_RUN_DOOR_H
#define KN_RUN_DOOR_H

#include <koine/session.h>

#include "device/device.h"
#include "plan/plan.h"

/* What plans ask of devices. The verify room fills it in, as it stands above this one: its answers come from
 * sessions. */
extern const kn_judge kn_device_judge;

/* The device in the words of plans and operators. It lives as long as the context. */
void kn_target_of(kn_context *context, kn_target *target);

/* What a session is made of; the public kn_session_create fills one in. */
typedef struct kn_session_request {
    kn_context *context;
    kn_value *const *values; /* to be fetched, all of one graph */
    size_t count;
    const kn_session_params *params; /* NULL: defaults */
    /* Called on each newly bound graph with the bound values, in order: adds nodes and assigns. May be NULL.
     */
    kn_status (*extend)(void *user, kn_graph *bound, kn_value *const *values, size_t count, kn_error *error);
    void *user;
    uint64_t guard; /* for tests: so many bytes behind every value are watched (guard.c); 0: none */
} kn_session_request;
kn_session *kn_session_open(const kn_session_request *request);
/* A state that the session's plans read each run, such as the learning rate: changes its value in the
 * order of the runs, without waiting. The state must be a float32 or uint32 scalar known to the states. */
kn_status kn_session_set_scalar(kn_session *session, const char *state, double value);
/* kn_session_run without the waiting: what is fetched stands there after kn_session_wait. `ahead`: the feeds
 * are those of the last kn_session_feed_ahead, and what went to the device then is not written again. */
kn_status kn_session_start(kn_session *session, const kn_feed *feeds, size_t feed_count, bool ahead,
                           const kn_fetch *fetches, size_t fetch_count);
/* Writes what the next run is fed while the last may be under way, on the transfer queue, as far as there is
 * memory; the data may change afterwards. Whether it fits its input is found out by the run. */
kn_status kn_session_feed_ahead(kn_session *session, const kn_feed *feeds, size_t feed_count);
/* Stores none of the states in a narrower type (kn_store) from now on: somebody trains them. */
void kn_states_keep_whole(kn_states *states);
/* Value `position` of the request in the session's own copy of the graph, which lives as long as the session;
 * NULL where that could not be made. */
kn_value *kn_session_value(const kn_session *session, size_t position);
const kn_error *kn_session_failure(const kn_session *session);

/* What the state holds, of the type of its memory. For tests and for verify. */
kn_status kn_states_read(kn_states *states, const char *name, void *data, size_t bytes, kn_error *error);

#endif
