/* The contents of states on their way between callers, files and device memory: conversion between the type
 * of callers and the stored one, and quantized blocks. */
#include <string.h>

#include "run/run_private.h"

bool kn_state_is_narrow(const kn_state *state) {
    return state->stored != state->info.dtype;
}

const char *kn_state_storage_name(const kn_state *state) {
    return state->blocks ? state->blocks->name : kn_dtype_name(state->stored);
}

static void convert(kn_dtype from, const void *source, kn_dtype to, void *target, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        kn_element_set(to, target, (int64_t)i, kn_element_get(from, source, (int64_t)i));
}

uint64_t kn_state_block_count(const kn_state *state, const kn_block_type *type) {
    return kn_state_outside_bytes(state) / sizeof(float) / (uint64_t)type->weights;
}

/* ---- blocks in a file ------------------------------------------------- */

void kn_state_drop_blocks(kn_state *state) {
    kn_file_blocks *from = &state->from;
    if (from->file)
        kn_shared_file_forget(from->file, from->bytes,
                              kn_state_block_count(state, from->type) * (uint64_t)from->type->bytes);
    kn_shared_file_release(&from->file);
    *from = (kn_file_blocks){.type = NULL};
}

void kn_state_take_blocks(kn_state *state, const kn_file_blocks *blocks) {
    kn_state_drop_blocks(state);
    state->from = *blocks;
    kn_shared_file_retain(state->from.file);
}

/* Dequantizes elements [first, first + count) of a state whose blocks are in a file. */
static void widen_from_file(const kn_state *state, uint64_t first, uint64_t count, float *to) {
    const kn_block_type *type = state->from.type;
    const uint64_t weights = (uint64_t)type->weights;
    float whole[KN_BLOCK_MOST_WEIGHTS] = {0};
    while (count) {
        const uint64_t block = first / weights, inside = first % weights, left = weights - inside;
        const uint64_t now = count < left ? count : left;
        type->widen(state->from.bytes + block * (uint64_t)type->bytes, whole);
        memcpy(to, whole + inside, (size_t)now * sizeof *to);
        to += now;
        first += now;
        count -= now;
    }
}

void kn_state_read_file(const kn_state *state, void *data) {
    widen_from_file(state, 0, kn_state_outside_bytes(state) / sizeof(float), data);
}

kn_status kn_state_load_file(const kn_host *host, kn_state *state, kn_error *error) {
    const uint64_t bytes = kn_state_outside_bytes(state);
    if (!state->from.file || !bytes) return KN_OK;
    if (bytes > SIZE_MAX) return kn_fail_memory_for(error, state->name, bytes, 1);
    void *whole = kn_allocate(host, (size_t)bytes, 1);
    if (!whole) return kn_fail_memory(error, (size_t)bytes);
    kn_state_read_file(state, whole);
    kn_release(host, state->pending);
    state->pending = whole;
    kn_state_drop_blocks(state);
    return KN_OK;
}

/* ---- what a plan stores ----------------------------------------------------------------- */

void kn_state_fill(const kn_state *state, uint64_t key, uint64_t done, uint64_t bytes, void *to) {
    const uint64_t size = kn_dtype_bytes(state->stored), outside = kn_dtype_bytes(state->info.dtype);
    if (state->blocks)
        kn_blocks_arrange(state->blocks, state->from.bytes, kn_state_block_count(state, state->blocks), done,
                          bytes, to);
    else if (state->from.file)
        widen_from_file(state, state->first + done / size, bytes / size, to);
    else if (kn_state_is_narrow(state))
        convert(state->info.dtype, (const uint8_t *)state->pending + done / size * outside, state->stored, to,
                bytes / size);
    else if (state->pending)
        memcpy(to, (const uint8_t *)state->pending + state->first * outside + done, (size_t)bytes);
    else
        kn_initial_elements(&state->initializer, key, state->info.dtype, state->first + done / size,
                            bytes / size, to);
}

/* ---- reading and writing device memory ------------------------------------------------- */

static kn_status read_device(const kn_state *state, void *stored, kn_error *error) {
    return kn_queue_read(state->context, KN_QUEUE_COMPUTE, state->buffer, 0, stored, state->bytes, true,
                         (kn_event){NULL}, NULL, error);
}

static void *take_stored(const kn_host *host, const kn_state *state, kn_error *error) {
    void *stored = state->bytes > SIZE_MAX ? NULL : kn_allocate(host, (size_t)state->bytes, 1);
    if (!stored) kn_fail_memory(error, (size_t)state->bytes);
    return stored;
}

kn_status kn_state_read_narrow(const kn_host *host, const kn_state *state, void *data, kn_error *error) {
    void *stored = take_stored(host, state, error);
    if (!stored) return KN_ERROR_MEMORY;
    kn_status status = read_device(state, stored, error);
    const uint64_t count = state->blocks ? kn_state_block_count(state, state->blocks) : 0;
    if (status == KN_OK && state->blocks)
        kn_blocks_widen_arranged(state->blocks, stored, count, 0, count, data);
    else if (status == KN_OK)
        convert(state->stored, stored, state->info.dtype, data, state->bytes / kn_dtype_bytes(state->stored));
    kn_release(host, stored);
    return status;
}

/* Whether the blocks in device memory are exactly these numbers. */
static kn_status check_same(const kn_host *host, const kn_state *state, const void *data, kn_error *error) {
    const uint64_t bytes = kn_state_outside_bytes(state);
    void *own = bytes > SIZE_MAX ? NULL : kn_allocate(host, (size_t)bytes, 1);
    if (!own) return kn_fail_memory(error, (size_t)bytes);
    kn_status status = KN_OK;
    if (state->buffer)
        status = kn_state_read_narrow(host, state, own, error);
    else
        kn_state_read_file(state, own);
    if (status == KN_OK && memcmp(own, data, (size_t)bytes) != 0)
        status =
            kn_fail(error, KN_ERROR_UNSUPPORTED,
                    "state '%s' is stored as %s by a session, which cannot represent other numbers: set it "
                    "before the first run, or use separate states",
                    state->name, state->blocks->name);
    kn_release(host, own);
    return status;
}

kn_status kn_state_write_narrow(const kn_host *host, const kn_state *state, const void *data,
                                kn_error *error) {
    if (state->blocks) return check_same(host, state, data, error);
    void *stored = take_stored(host, state, error);
    if (!stored) return KN_ERROR_MEMORY;
    convert(state->info.dtype, data, state->stored, stored, state->bytes / kn_dtype_bytes(state->stored));
    kn_status status = kn_queue_write(state->context, KN_QUEUE_COMPUTE, state->buffer, 0, stored,
                                      state->bytes, true, (kn_event){NULL}, NULL, error);
    kn_release(host, stored);
    return status;
}
