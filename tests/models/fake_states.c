/* The states of koine/session.h in host memory: enough for files with weights, without a device. */
#include "fake_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

typedef struct fake_state {
    char name[128];
    kn_tensor_info info;
    void *data;
    size_t bytes;
} fake_state;

struct kn_states {
    fake_state items[64];
    int count;
    int fail_after; /* calls of set and get until one fails; 0: none fails */
    char error[256];
};

kn_states *fake_states_make(void) {
    return calloc(1, sizeof(kn_states));
}

void fake_states_release(kn_states *states) {
    for (int i = 0; i < states->count; i++)
        free(states->items[i].data);
    free(states);
}

void fake_states_fail_after(kn_states *states, int calls) {
    states->fail_after = calls;
}

static bool fails(kn_states *states) {
    if (states->fail_after == 0 || --states->fail_after > 0) return false;
    snprintf(states->error, sizeof states->error, "the device is gone");
    return true;
}

static fake_state *find(kn_states *states, const char *name) {
    for (int i = 0; i < states->count; i++)
        if (!strcmp(states->items[i].name, name)) return &states->items[i];
    return NULL;
}

size_t kn_states_count(const kn_states *states) {
    return (size_t)states->count;
}

const char *kn_states_at(const kn_states *states, size_t position, kn_tensor_info *info) {
    if (position >= kn_states_count(states)) return NULL;
    *info = states->items[position].info;
    return states->items[position].name;
}

bool kn_states_info(const kn_states *states, const char *name, kn_tensor_info *info) {
    const fake_state *state = find((kn_states *)(uintptr_t)states, name);
    if (state && info) *info = state->info;
    return state != NULL;
}

kn_status kn_states_get(kn_states *states, const char *name, void *data, size_t bytes) {
    const fake_state *state = find(states, name);
    if (fails(states)) return KN_ERROR_DEVICE;
    if (!state || state->bytes != bytes) return KN_ERROR_ARGUMENT;
    memcpy(data, state->data, bytes);
    return KN_OK;
}

kn_status kn_states_set(kn_states *states, const char *name, const kn_tensor_info *info, const void *data,
                        size_t bytes) {
    fake_state *state = find(states, name);
    uint64_t needed;
    if (fails(states)) return KN_ERROR_DEVICE;
    if (!kn_tensor_bytes(info, &needed) || needed != bytes || states->count == 64) return KN_ERROR_ARGUMENT;
    if (!state) state = &states->items[states->count++];
    free(state->data);
    snprintf(state->name, sizeof state->name, "%s", name);
    state->info = *info;
    state->bytes = bytes;
    state->data = malloc(bytes ? bytes : 1);
    memcpy(state->data, data, bytes);
    return KN_OK;
}

const char *kn_states_error(const kn_states *states) {
    return states->error;
}

kn_status kn_states_set_blocks(kn_states *states, const char *name, const kn_tensor_info *info,
                               const kn_file_blocks *blocks) {
    uint64_t count = 1;
    for (int i = 0; i < info->rank; i++)
        count *= (uint64_t)info->shape[i];
    float *weights = malloc((size_t)count * sizeof *weights);
    if (!weights) return KN_ERROR_MEMORY;
    kn_blocks_widen(blocks->type, blocks->bytes, count / (uint64_t)blocks->type->weights, weights);
    kn_status status = kn_states_set(states, name, info, weights, (size_t)count * sizeof *weights);
    free(weights);
    return status;
}
