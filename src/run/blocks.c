/* States that are set to quantized blocks of a file: the blocks stay there until a plan uses the state. */
#include "run/run_private.h"

enum { PIECE_BYTES = 1 << 20 };

const kn_block_type *kn_states_blocks(const kn_states *states, const kn_value *value, bool training) {
    const kn_state *state = kn_states_find(states, value->name);
    if (state && state->planned) return state->blocks;
    const bool may = value->frozen || (!training && kn_states_may_narrow(states, value, KN_UINT8));
    if (!may || (state && state->info.dtype != KN_FLOAT32)) return NULL;
    return state ? state->from.type : value->contents.type;
}

/* Writes blocks to a state that is stored in such blocks on the device. */
static kn_status write_blocks(const kn_host *host, kn_state *state, const uint8_t *blocks, kn_error *error) {
    uint8_t *piece = kn_allocate(host, PIECE_BYTES, 1);
    if (!piece) return kn_fail_memory(error, PIECE_BYTES);
    kn_status status = KN_OK;
    for (uint64_t done = 0; done < state->bytes && status == KN_OK; done += PIECE_BYTES) {
        const uint64_t left = state->bytes - done, now = left < PIECE_BYTES ? left : PIECE_BYTES;
        kn_blocks_arrange(state->blocks, blocks, kn_state_block_count(state, state->blocks), done, now,
                          piece);
        status = kn_queue_write(state->context, KN_QUEUE_COMPUTE, state->buffer, done, piece, now, true,
                                (kn_event){NULL}, NULL, error);
    }
    kn_release(host, piece);
    state->version++;
    return status;
}

/* For a state whose memory is not in blocks of this type. */
static kn_status set_widened(kn_states *states, kn_state *state, const kn_block_type *type,
                             const uint8_t *blocks, kn_error *error) {
    const uint64_t bytes = kn_state_outside_bytes(state);
    float *wide = bytes > SIZE_MAX ? NULL : kn_allocate(kn_states_host(states), (size_t)bytes, 1);
    if (!wide) return kn_fail_memory(error, (size_t)bytes);
    kn_blocks_widen(type, blocks, kn_state_block_count(state, type), wide);
    kn_status status = kn_states_write(states, state, wide, error);
    kn_release(kn_states_host(states), wide);
    return status;
}

kn_status kn_states_set_blocks(kn_states *states, const char *name, const kn_tensor_info *info,
                               const kn_file_blocks *blocks) {
    const kn_block_type *type = blocks->type;
    kn_error *error = kn_states_begin(states);
    kn_state *state = NULL;
    if (error->status != KN_OK) return error->status;
    if (info->dtype != KN_FLOAT32 || info->rank < 1 || info->shape[info->rank - 1] % type->weights != 0)
        return kn_fail(
            error, KN_ERROR_SHAPE,
            "state '%s': blocks of type %s need a float32 state with rows of a multiple of %d weights", name,
            type->name, type->weights);
    kn_status status = kn_states_add(states, name, info, &state, error);
    if (status != KN_OK || !kn_state_outside_bytes(state)) return status;
    if (state->buffer && state->blocks == type)
        return write_blocks(kn_states_host(states), state, blocks->bytes, error);
    const bool plain = !state->blocks && !state->part && !state->on_host && !kn_state_is_narrow(state);
    if (state->planned && (state->buffer || (state->blocks != type && !plain)))
        return set_widened(states, state, type, blocks->bytes, error);
    kn_release(kn_states_host(states), state->pending);
    state->pending = NULL;
    kn_state_take_blocks(state, blocks);
    state->version++;
    return KN_OK;
}
