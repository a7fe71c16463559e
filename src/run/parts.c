/* Sharded states: the device of each worker has only a shard of some states (kn_value.whole). Workers collect
 * whole states, and copy shards. */
#include "run/run_private.h"

bool kn_states_part(const kn_states *states, const char *name, uint64_t *bytes) {
    const kn_state *state = kn_states_find(states, name);
    if (!state || !state->part) return false;
    *bytes = state->bytes;
    return true;
}

static kn_status read_part(const kn_state *state, void *data, kn_error *error) {
    if (!state->bytes) return KN_OK;
    return kn_queue_read(state->context, KN_QUEUE_COMPUTE, state->buffer, 0, data, state->bytes, true,
                         (kn_event){NULL}, NULL, error);
}

kn_status kn_states_copy_part(kn_states *states, const char *name, const void *given, void *wanted,
                              kn_error *error) {
    kn_state *state = kn_states_find(states, name);
    kn_status status = kn_states_allocate(states, error);
    if (status != KN_OK || !state || !state->bytes) return status;
    if (wanted) return read_part(state, wanted, error);
    state->version++;
    kn_release(kn_states_host(states), state->pending);
    state->pending = NULL;
    return kn_queue_write(state->context, KN_QUEUE_COMPUTE, state->buffer, 0, given, state->bytes, true,
                          (kn_event){NULL}, NULL, error);
}

/* ---- collecting --------------------------------------------------------------------------------------- */

typedef struct collection {
    const kn_host *host;
    const kn_communicator *all;
    void **requests; /* by rank */
    kn_error *error;
} collection;

static kn_status wait_all(const collection *c, kn_status status) {
    return kn_communicator_wait(c->all, c->requests, c->all->ranks, status, c->error);
}

/* Rank 0 receives the other workers' shards while it reads its own. */
static kn_status receive_parts(const collection *c, kn_state *state) {
    const uint64_t bytes = kn_state_outside_bytes(state), unit = kn_state_unit(state);
    if (bytes > SIZE_MAX) return kn_fail_memory_for(c->error, state->name, bytes, 1);
    if (!state->pending) state->pending = kn_allocate(c->host, (size_t)bytes, 1);
    if (!state->pending) return kn_fail_memory(c->error, (size_t)bytes);
    char *whole = state->pending;
    kn_status status = KN_OK;
    for (int r = 1; r < c->all->ranks && status == KN_OK; r++) {
        const uint64_t first = kn_spread_first(state->spread, bytes / unit, c->all->ranks, r);
        const uint64_t end = kn_spread_first(state->spread, bytes / unit, c->all->ranks, r + 1);
        if (end > first)
            status = kn_communicator_fail(c->all,
                                          c->all->receive(c->all->user, r, 0, whole + first * unit,
                                                          (size_t)((end - first) * unit), &c->requests[r]),
                                          c->error);
    }
    if (status == KN_OK) status = read_part(state, whole + state->first * unit, c->error);
    return wait_all(c, status);
}

static kn_status send_part(const collection *c, const kn_state *state) {
    if (!state->bytes) return KN_OK;
    if (state->bytes > SIZE_MAX) return kn_fail_memory_for(c->error, state->name, state->bytes, 1);
    void *part = kn_allocate(c->host, (size_t)state->bytes, 1);
    if (!part) return kn_fail_memory(c->error, (size_t)state->bytes);
    kn_status status = read_part(state, part, c->error);
    if (status == KN_OK)
        status = kn_communicator_fail(
            c->all, c->all->send(c->all->user, 0, 0, part, (size_t)state->bytes, &c->requests[0]), c->error);
    status = wait_all(c, status);
    kn_release(c->host, part);
    return status;
}

kn_status kn_states_collect(kn_states *states, const kn_communicator *communicator, kn_error *error) {
    collection c = {.host = kn_states_host(states), .all = communicator, .error = error};
    kn_status status = kn_states_allocate(states, error);
    if (status != KN_OK) return status;
    c.requests = kn_allocate(c.host, (size_t)communicator->ranks, sizeof *c.requests);
    if (!c.requests) return kn_fail_memory(error, (size_t)communicator->ranks * sizeof *c.requests);
    kn_state *state;
    for (size_t i = 0; status == KN_OK && (state = kn_state_at(states, i)); i++)
        if (state->part && kn_state_outside_bytes(state))
            status = communicator->rank ? send_part(&c, state) : receive_parts(&c, state);
    kn_release(c.host, c.requests);
    return status == KN_OK ? KN_OK : kn_fail_in(error, "collecting sharded states");
}
