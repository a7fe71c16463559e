/* States in host memory: the steps that load them to the device and store them. */
#include "run/run_private.h"

static kn_state *state_of(const kn_executable *executable, const kn_ready_step *ready) {
    return executable->state_list[executable->plan.placements[ready->step->node->inputs[0]->id].slot];
}

/* A driver may read host memory as soon as the write is enqueued, so the last store must be complete. */
kn_status kn_state_load(const kn_executable *executable, const kn_memory *memory, const kn_ready_step *ready,
                        kn_error *error) {
    kn_state *state = state_of(executable, ready);
    if (!ready->bytes || memory->leaves) return KN_OK;
    kn_status status = kn_state_wait(state, error);
    if (status != KN_OK) return status;
    return kn_queue_write(executable->context, KN_QUEUE_COMPUTE,
                          kn_executable_buffer(executable, memory, ready->target), 0, state->pending,
                          ready->bytes, false, (kn_event){NULL}, NULL, error);
}

kn_status kn_state_store(const kn_executable *executable, const kn_memory *memory, const kn_ready_step *ready,
                         kn_error *error) {
    kn_state *state = state_of(executable, ready);
    if (!ready->bytes || memory->leaves) return KN_OK;
    state->version++;
    kn_event_release(&state->moved);
    return kn_queue_read(executable->context, KN_QUEUE_COMPUTE,
                         kn_executable_buffer(executable, memory, ready->source), 0, state->pending,
                         ready->bytes, false, (kn_event){NULL}, &state->moved, error);
}
