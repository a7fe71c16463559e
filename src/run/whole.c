/* States as callers and files see them. The whole of a sharded state (parts.c) is in host memory when
 * needed. */
#include <string.h>

#include "run/run_private.h"

uint64_t kn_state_outside_bytes(const kn_state *state) {
    uint64_t bytes = 0;
    return kn_tensor_bytes(&state->info, &bytes) ? bytes : 0;
}

void kn_state_read_whole(const kn_state *state, void *data) {
    const uint64_t bytes = kn_state_outside_bytes(state);
    if (state->pending)
        memcpy(data, state->pending, (size_t)bytes);
    else
        kn_initial_elements(&state->initializer, 0, state->info.dtype, 0, bytes / kn_state_unit(state), data);
}

kn_status kn_state_set_whole(const kn_host *host, kn_state *state, const void *data, kn_error *error) {
    const uint64_t bytes = kn_state_outside_bytes(state);
    if (!bytes) return KN_OK;
    if (bytes > SIZE_MAX) return kn_fail_memory_for(error, state->name, bytes, 1);
    state->version++;
    if (!state->pending) state->pending = kn_allocate(host, (size_t)bytes, 1);
    if (!state->pending) return kn_fail_memory(error, (size_t)bytes);
    memcpy(state->pending, data, (size_t)bytes);
    if (!state->buffer || !state->bytes) return KN_OK;
    return kn_queue_write(state->context, KN_QUEUE_COMPUTE, state->buffer, 0,
                          (const char *)data + state->first * kn_state_unit(state), state->bytes, true,
                          (kn_event){NULL}, NULL, error);
}
