/* States: named values that persist between runs. Each is a slice of one of a few blocks of device memory. */
#include <string.h>

#include "run/run_private.h"

enum { STAGING_BYTES = 1 << 20 };

struct kn_states {
    kn_host host;
    kn_context *context; /* NULL: all states are only in host memory */
    uint64_t seed;
    int references;
    bool whole;              /* no state is stored in a narrower type */
    bool parts, parts_moved; /* there are sharded states; they have changed since initialization */
    uint64_t guard;          /* bytes after each state */
    kn_error failure;        /* from creation */
    kn_error error;          /* from the last call */
    kn_map names;            /* to kn_state */
    kn_state **entries;
    size_t count, capacity;
    size_t passing; /* the number of unlisted states */
    kn_buffer **blocks;
    size_t block_count, block_capacity;
};

/* ---- life --------------------------------------------------------------------------------------------- */

static kn_states *create(const kn_host *host) {
    kn_states *states = kn_allocate(host, 1, sizeof *states);
    if (!states) return NULL;
    states->host = *host;
    states->references = 1;
    kn_map_init(&states->names, &states->host);
    return states;
}

kn_states *kn_states_create(kn_context *context, uint64_t seed) {
    kn_states *states = context ? create(kn_context_host(context)) : NULL;
    if (!states) return NULL;
    states->context = context;
    states->seed = seed;
    states->failure = *kn_context_failure(context);
    states->error = states->failure;
    return states;
}

kn_states *kn_states_create_host(const kn_allocator *allocator) {
    const kn_host host = kn_host_with(allocator);
    return create(&host);
}

kn_states *kn_states_retain(kn_states *states) {
    states->references++;
    return states;
}

void kn_states_guard(kn_states *states, uint64_t guard) {
    states->guard = guard;
}

const kn_context *kn_states_context(const kn_states *states) {
    return states->context;
}

kn_status kn_state_wait(kn_state *state, kn_error *error) {
    if (!state->context) return KN_OK;
    kn_status status = kn_event_wait(state->context, state->moved, error);
    kn_event_release(&state->moved);
    return status;
}

static void state_destroy(kn_states *states, kn_state *state) {
    kn_state_wait(state, NULL); /* transfers in progress use the memory */
    kn_buffer_destroy(&state->buffer);
    kn_shared_file_release(&state->from.file);
    kn_release(&states->host, state->pending);
    kn_release(&states->host, state->name);
    kn_release(&states->host, state);
}

void kn_states_destroy(kn_states **handle) {
    if (!handle || !*handle) return;
    kn_states *states = *handle;
    *handle = NULL;
    if (--states->references > 0) return;
    for (size_t i = 0; i < states->count; i++)
        state_destroy(states, states->entries[i]);
    for (size_t i = 0; i < states->block_count; i++)
        kn_buffer_destroy(&states->blocks[i]);
    kn_release(&states->host, states->blocks);
    kn_release(&states->host, states->entries);
    kn_map_finish(&states->names);
    kn_host host = states->host;
    kn_release(&host, states);
}

/* ---- entries --------------------------------------------------------------------------------- */

kn_state *kn_states_find(const kn_states *states, const char *name) {
    return kn_map_get_text(&states->names, name);
}

void kn_info_text(const kn_tensor_info *info, kn_text *text) {
    kn_text_format(text, "%s (", kn_dtype_name(info->dtype));
    for (int i = 0; i < info->rank; i++)
        kn_text_format(text, "%s%lld", i ? "," : "", (long long)info->shape[i]);
    kn_text_add(text, ")");
}

kn_tensor_info kn_info_of(const kn_shape *shape) {
    kn_tensor_info info = {.dtype = shape->dtype, .rank = shape->rank};
    for (int i = 0; i < shape->rank; i++)
        info.shape[i] = shape->dims[i];
    return info;
}

kn_state *kn_state_at(const kn_states *states, size_t position) {
    return position < states->count ? states->entries[position] : NULL;
}

const kn_host *kn_states_host(const kn_states *states) {
    return &states->host;
}

static kn_status fail_info(const kn_states *states, const kn_state *state, const kn_tensor_info *info,
                           kn_error *error) {
    kn_text existing, wanted;
    kn_text_init(&existing, &states->host);
    kn_text_init(&wanted, &states->host);
    kn_info_text(&state->info, &existing);
    kn_info_text(info, &wanted);
    kn_status status =
        kn_fail(error, state->info.dtype != info->dtype ? KN_ERROR_DTYPE : KN_ERROR_SHAPE,
                "state '%s' is %s, but %s was requested", state->name, existing.data, wanted.data);
    kn_text_finish(&existing);
    kn_text_finish(&wanted);
    return status;
}

static kn_status add_entry(kn_states *states, const char *name, const kn_tensor_info *info, kn_state **added,
                           kn_error *error) {
    uint64_t bytes;
    if (!kn_tensor_bytes(info, &bytes))
        return kn_fail(error, KN_ERROR_SHAPE, "the size of state '%s' is negative or exceeds 64 bits", name);
    kn_state *state = kn_allocate(&states->host, 1, sizeof *state);
    if (!state) return kn_fail_memory(error, sizeof *state);
    state->info = *info;
    state->stored = info->dtype;
    state->bytes = bytes;
    state->name = kn_copy_text(&states->host, name);
    if (!state->name ||
        !kn_reserve(&states->host, (void **)&states->entries, &states->capacity, states->count + 1,
                    sizeof(kn_state *)) ||
        !kn_map_put_text(&states->names, name, state)) {
        state_destroy(states, state);
        return kn_fail_memory(error, sizeof *state);
    }
    states->entries[states->count++] = state;
    *added = state;
    return KN_OK;
}

bool kn_states_may_narrow(const kn_states *states, const kn_value *value, kn_dtype type) {
    const kn_state *state = kn_states_find(states, value->name);
    return !states->whole && (!state || !state->planned || state->stored == type);
}

void kn_states_forbid_narrow(kn_states *states) {
    states->whole = true;
}

kn_status kn_states_use(kn_states *states, kn_context *context, const kn_value *value, kn_state **state,
                        kn_error *error) {
    const kn_shape wide = kn_value_wide_shape(value);
    kn_tensor_info info = kn_info_of(value->whole ? value->whole : &wide);
    info.dtype = value->outside;
    *state = kn_states_find(states, value->name);
    kn_status status = KN_OK;
    if (!*state) {
        status = add_entry(states, value->name, &info, state, error);
        if (status == KN_OK && value->contents.file) kn_state_take_blocks(*state, &value->contents);
    } else if (!kn_same_info(&(*state)->info, &info)) {
        status = fail_info(states, *state, &info, error);
    }
    if (status == KN_OK && (*state)->planned &&
        ((*state)->stored != value->shape.dtype || (*state)->blocks != value->blocks))
        status =
            kn_fail(error, KN_ERROR_DTYPE,
                    "state '%s' is stored as %s by another session, but %s is needed; use separate states",
                    value->name, kn_state_storage_name(*state),
                    value->blocks ? value->blocks->name : kn_dtype_name(value->shape.dtype));
    if (status == KN_OK && (*state)->planned && (*state)->on_host != value->on_host)
        status =
            kn_fail(error, KN_ERROR_ARGUMENT,
                    "state '%s' is in %s memory, but a plan requires it in %s memory: use the same "
                    "offload_optimizer for all trainers of these states",
                    value->name, (*state)->on_host ? "host" : "device", value->on_host ? "host" : "device");
    if (status == KN_OK && (*state)->planned && (*state)->context != context)
        status = kn_fail(error, KN_ERROR_INTERNAL,
                         "state '%s' is on a different device than the plan that reads it", value->name);
    if (status != KN_OK || (*state)->planned) return status;
    const bool widens = value->blocks != (*state)->from.type &&
                        (value->whole || value->on_host || value->shape.dtype != info.dtype);
    if (widens) status = kn_state_load_file(&states->host, *state, error);
    if (status != KN_OK) return status;
    (*state)->planned = true;
    (*state)->blocks = value->blocks;
    (*state)->on_host = value->on_host;
    (*state)->passing = value->role == KN_STATE_PASSING;
    states->passing += (*state)->passing;
    (*state)->context = context;
    (*state)->part = value->whole != NULL;
    states->parts = states->parts || value->whole;
    (*state)->spread = value->spread;
    (*state)->first = (uint64_t)value->first;
    (*state)->bytes = (uint64_t)kn_shape_elements(&value->shape) * kn_dtype_bytes(value->shape.dtype);
    (*state)->stored = value->shape.dtype;
    (*state)->initializer = value->initializer;
    return KN_OK;
}

/* ---- allocation and initialization ----------------------------------------------------------- */

/* Host memory through which the contents of a block are written to the device. */
typedef struct staging {
    kn_states *states;
    kn_context *context;
    kn_buffer *block;
    uint8_t *bytes;
    uint64_t begin, used; /* the offset of `bytes` in the block, and the bytes filled */
    kn_status status;
    kn_error *error;
} staging;

static void staging_flush(staging *stage) {
    if (stage->status == KN_OK && stage->used)
        stage->status = kn_queue_write(stage->context, KN_QUEUE_COMPUTE, stage->block, stage->begin,
                                       stage->bytes, stage->used, true, (kn_event){NULL}, NULL, stage->error);
    stage->begin += stage->used;
    stage->used = 0;
}

static void staging_add_zeros(staging *stage, uint64_t count) {
    while (count && stage->status == KN_OK) {
        uint64_t room = STAGING_BYTES - stage->used, now = count < room ? count : room;
        memset(stage->bytes + stage->used, 0, (size_t)now);
        stage->used += now;
        count -= now;
        if (stage->used == STAGING_BYTES) staging_flush(stage);
    }
}

/* Elements are not split: STAGING_BYTES and all offsets are multiples of their size. */
static void staging_add_state(staging *stage, const kn_state *state) {
    uint64_t done = 0, key = kn_random_key(stage->states->seed, state->name);
    while (done < state->bytes && stage->status == KN_OK) {
        uint64_t room = STAGING_BYTES - stage->used, left = state->bytes - done;
        uint64_t now = left < room ? left : room;
        kn_state_fill(state, key, done, now, stage->bytes + stage->used);
        stage->used += now;
        done += now;
        if (stage->used == STAGING_BYTES) staging_flush(stage);
    }
}

/* Writes a block's contents: `waiting` are its states, on one device, in the order of their offsets. */
static kn_status fill_block(kn_states *states, kn_buffer *block, kn_state *const *waiting,
                            const uint64_t *offsets, size_t count, kn_error *error) {
    staging stage = {.states = states, .context = waiting[0]->context, .block = block, .error = error};
    stage.bytes = kn_allocate(&states->host, STAGING_BYTES, 1);
    if (!stage.bytes) return kn_fail_memory(error, STAGING_BYTES);
    for (size_t i = 0; i < count; i++) {
        staging_add_zeros(&stage, offsets[i] - stage.begin - stage.used);
        staging_add_state(&stage, waiting[i]);
    }
    staging_flush(&stage);
    kn_release(&states->host, stage.bytes);
    return stage.status;
}

/* Allocates a block of `bytes` for waiting[0..count) and writes it; the states get their slices only on
 * success. */
static kn_status allocate_block(kn_states *states, kn_state *const *waiting, const uint64_t *offsets,
                                size_t count, uint64_t bytes, kn_error *error) {
    if (!kn_reserve(&states->host, (void **)&states->blocks, &states->block_capacity, states->block_count + 1,
                    sizeof(kn_buffer *)))
        return kn_fail_memory(error, sizeof(kn_buffer *));
    kn_buffer *block = NULL;
    kn_status status = kn_buffer_create(waiting[0]->context, bytes, &block, error);
    if (status == KN_OK) status = fill_block(states, block, waiting, offsets, count, error);
    for (size_t i = 0; i < count && status == KN_OK; i++)
        status =
            kn_buffer_slice(block, offsets[i], waiting[i]->bytes + states->guard, &waiting[i]->buffer, error);
    if (status != KN_OK) {
        for (size_t i = 0; i < count; i++)
            kn_buffer_destroy(&waiting[i]->buffer);
        kn_buffer_destroy(&block);
        return kn_fail_in(error, "memory for %zu states, including '%s'", count, waiting[0]->name);
    }
    for (size_t i = 0; i < count; i++) {
        if (waiting[i]->part) continue;
        kn_release(&states->host, waiting[i]->pending);
        waiting[i]->pending = NULL;
        kn_state_drop_blocks(waiting[i]);
    }
    states->blocks[states->block_count++] = block;
    return KN_OK;
}

static kn_status allocate_waiting(kn_states *states, kn_state *const *waiting, uint64_t *offsets,
                                  size_t count, kn_error *error) {
    const kn_capabilities *device = kn_context_capabilities(waiting[0]->context);
    kn_packing packing = {
        .alignment = device->alignment_bytes, .limit = device->largest_block_bytes, .block = -1};
    kn_status status = KN_OK;
    size_t first = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (waiting[i]->bytes > packing.limit)
            return kn_fail(error, KN_ERROR_DEVICE_MEMORY,
                           "state '%s' has %llu bytes, but the device allows at most %llu in one allocation",
                           waiting[i]->name, (unsigned long long)waiting[i]->bytes,
                           (unsigned long long)packing.limit);
        int block = packing.block;
        offsets[i] = kn_pack(&packing, waiting[i]->bytes + states->guard);
        if (packing.block != block && i > first) {
            status = allocate_block(states, waiting + first, offsets + first, i - first, end, error);
            first = i;
        }
        end = packing.end;
    }
    if (status == KN_OK)
        status = allocate_block(states, waiting + first, offsets + first, count - first, end, error);
    return status;
}

/* Initializes a state in host memory, as if it had been set, if it stays there, or if it cannot be
 * initialized in pieces or in the stored type. */
static kn_status initialize_on_host(const kn_states *states, kn_state *state, kn_error *error) {
    bool orthogonal = state->initializer.kind == KN_INITIALIZER_ORTHOGONAL;
    uint64_t bytes = kn_state_outside_bytes(state);
    if ((!orthogonal && !kn_state_is_narrow(state) && !state->on_host) || state->pending ||
        state->from.file || !bytes)
        return KN_OK;
    if (bytes > SIZE_MAX) return kn_fail_memory_for(error, state->name, bytes, 1);
    uint64_t key = kn_random_key(states->seed, state->name);
    void *whole = kn_allocate(&states->host, (size_t)bytes, 1);
    bool drawn = whole != NULL;
    if (drawn && orthogonal)
        drawn = kn_initial_orthogonal(&states->host, &state->initializer, key, &state->info, whole);
    else if (drawn)
        kn_initial_elements(&state->initializer, key, state->info.dtype, 0,
                            bytes / kn_dtype_bytes(state->info.dtype), whole);
    if (!drawn) {
        kn_release(&states->host, whole);
        return kn_fail_memory(error, (size_t)bytes);
    }
    state->pending = whole;
    return KN_OK;
}

static bool waits(const kn_state *state, const kn_context *context) {
    return state->planned && state->bytes && !state->buffer && !state->on_host && state->context == context;
}

static kn_status initialize_all_on_host(const kn_states *states, kn_error *error) {
    kn_status status = KN_OK;
    for (size_t i = 0; i < states->count && status == KN_OK; i++)
        if (states->entries[i]->planned && states->entries[i]->on_host)
            status = initialize_on_host(states, states->entries[i], error);
    return status;
}

/* Allocates the states that wait for memory on one device. */
static kn_status allocate_on_device(kn_states *states, const kn_context *context, kn_error *error) {
    size_t count = 0;
    for (size_t i = 0; i < states->count; i++)
        count += waits(states->entries[i], context);
    kn_state **waiting = kn_allocate(&states->host, count, sizeof(kn_state *));
    uint64_t *offsets = kn_allocate(&states->host, count, sizeof *offsets);
    kn_status status = KN_OK;
    if (waiting && offsets) {
        size_t at = 0;
        for (size_t i = 0; i < states->count && status == KN_OK; i++) {
            if (!waits(states->entries[i], context)) continue;
            status = initialize_on_host(states, states->entries[i], error);
            waiting[at++] = states->entries[i];
        }
        if (status == KN_OK) status = allocate_waiting(states, waiting, offsets, count, error);
    } else {
        status = kn_fail_memory(error, count * sizeof(kn_state *));
    }
    kn_release(&states->host, waiting);
    kn_release(&states->host, offsets);
    return status;
}

kn_status kn_states_allocate(kn_states *states, kn_error *error) {
    kn_status status = initialize_all_on_host(states, error);
    for (size_t i = 0; i < states->count && status == KN_OK; i++)
        if (waits(states->entries[i], states->entries[i]->context))
            status = allocate_on_device(states, states->entries[i]->context, error);
    return status;
}

/* ---- get and set ------------------------------------------------------------------------------- */

size_t kn_states_count(const kn_states *states) {
    return states ? states->count - states->passing : 0;
}

const char *kn_states_at(const kn_states *states, size_t position, kn_tensor_info *info) {
    if (position >= kn_states_count(states)) return NULL;
    const kn_state *found = states->entries[position];
    for (size_t i = 0; i < states->count && states->passing; i++) {
        found = states->entries[i];
        if (!found->passing && position-- == 0) break;
    }
    if (info) *info = found->info;
    return found->name;
}

bool kn_states_info(const kn_states *states, const char *name, kn_tensor_info *info) {
    const kn_state *found = states ? kn_states_find(states, name) : NULL;
    if (!found || found->passing) return false;
    if (info) *info = found->info;
    return true;
}

static kn_status fail_bytes(const kn_states *states, const kn_state *state, size_t bytes, kn_error *error) {
    kn_text text;
    kn_text_init(&text, &states->host);
    kn_info_text(&state->info, &text);
    kn_status status =
        kn_fail(error, KN_ERROR_SHAPE, "state '%s' is %s, which has %llu bytes, but got %zu", state->name,
                text.data, (unsigned long long)kn_state_outside_bytes(state), bytes);
    kn_text_finish(&text);
    return status;
}

kn_status kn_states_read(kn_states *states, const char *name, void *data, size_t bytes, kn_error *error) {
    if (states->failure.status) return kn_fail(error, states->failure.status, "%s", states->failure.text);
    if (!name || (!data && bytes)) return kn_fail(error, KN_ERROR_ARGUMENT, "the name or the memory is NULL");
    kn_state *state = kn_states_find(states, name);
    if (!state) return kn_fail(error, KN_ERROR_NOT_FOUND, "no state '%s'", name);
    if (kn_state_outside_bytes(state) != bytes) return fail_bytes(states, state, bytes, error);
    if (!bytes) return KN_OK;
    if (state->part && !state->pending && states->parts_moved)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "state '%s' is sharded over the workers: all of them must call kn_trainer_collect "
                       "first, and rank 0 gets the whole state",
                       name);
    if (state->part) {
        kn_state_read_whole(state, data);
        return KN_OK;
    }
    kn_status status = !state->pending ? kn_states_allocate(states, error) : KN_OK;
    if (status == KN_OK) status = kn_state_wait(state, error);
    if (status != KN_OK) return status;
    if (!state->buffer && state->pending) {
        memcpy(data, state->pending, bytes);
        return KN_OK;
    }
    if (!state->buffer && state->from.file) {
        kn_state_read_file(state, data);
        return KN_OK;
    }
    if (status == KN_OK && !state->buffer) /* setting it failed, and no plan uses it */
        status = kn_fail(error, KN_ERROR_NOT_FOUND, "state '%s' has no contents yet", name);
    if (status == KN_OK && kn_state_is_narrow(state))
        return kn_state_read_narrow(&states->host, state, data, error);
    if (status == KN_OK)
        status = kn_queue_read(state->context, KN_QUEUE_COMPUTE, state->buffer, 0, data, bytes, true,
                               (kn_event){NULL}, NULL, error);
    return status;
}

kn_status kn_states_get(kn_states *states, const char *name, void *data, size_t bytes) {
    if (!states) return KN_ERROR_ARGUMENT;
    kn_error_clear(&states->error);
    return kn_states_read(states, name, data, bytes, &states->error);
}

kn_status kn_states_write(kn_states *states, kn_state *state, const void *data, kn_error *error) {
    if (state->part) return kn_state_set_whole(&states->host, state, data, error);
    if (!state->bytes) return KN_OK;
    state->version++;
    if (state->blocks || (state->buffer && kn_state_is_narrow(state)))
        return kn_state_write_narrow(&states->host, state, data, error);
    if (state->buffer)
        return kn_queue_write(state->context, KN_QUEUE_COMPUTE, state->buffer, 0, data, state->bytes, true,
                              (kn_event){NULL}, NULL, error);
    uint64_t bytes = kn_state_outside_bytes(state);
    if (bytes > SIZE_MAX) return kn_fail_memory_for(error, state->name, bytes, 1);
    kn_status status = kn_state_wait(state, error);
    if (status != KN_OK) return status;
    if (!state->pending) state->pending = kn_allocate(&states->host, (size_t)bytes, 1);
    if (!state->pending) return kn_fail_memory(error, (size_t)bytes);
    memcpy(state->pending, data, (size_t)bytes);
    kn_state_drop_blocks(state);
    return KN_OK;
}

kn_error *kn_states_begin(kn_states *states) {
    kn_error_clear(&states->error);
    if (states->failure.status) kn_fail(&states->error, states->failure.status, "%s", states->failure.text);
    return &states->error;
}

kn_status kn_states_add(kn_states *states, const char *name, const kn_tensor_info *info, kn_state **state,
                        kn_error *error) {
    *state = kn_states_find(states, name);
    if (!*state) return add_entry(states, name, info, state, error);
    return kn_same_info(&(*state)->info, info) ? KN_OK : fail_info(states, *state, info, error);
}

kn_status kn_states_set(kn_states *states, const char *name, const kn_tensor_info *info, const void *data,
                        size_t bytes) {
    if (!states) return KN_ERROR_ARGUMENT;
    kn_error *error = &states->error;
    kn_error_clear(error);
    if (states->failure.status) return kn_fail(error, states->failure.status, "%s", states->failure.text);
    if (!name || !*name || (!data && bytes))
        return kn_fail(error, KN_ERROR_ARGUMENT, "the name or the data is NULL");
    if (info && (info->rank < 0 || info->rank > KN_MAX_RANK || !kn_dtype_bytes(info->dtype)))
        return kn_fail(error, KN_ERROR_ARGUMENT, "state '%s': invalid type or rank", name);
    kn_state *state = kn_states_find(states, name);
    uint64_t needed;
    if (!state && !info)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "no state '%s'; its type and shape are needed to add it",
                       name);
    if (state && info && !kn_same_info(&state->info, info)) return fail_info(states, state, info, error);
    kn_state about = {.name = (char *)(uintptr_t)name, .info = info ? *info : state->info};
    about.stored = about.info.dtype;
    if (kn_tensor_bytes(&about.info, &needed) && needed != bytes) {
        about.bytes = needed;
        return fail_bytes(states, &about, bytes, error);
    }
    kn_status status = state ? KN_OK : add_entry(states, name, info, &state, error);
    if (status == KN_OK) status = kn_states_write(states, state, data, error);
    return status;
}

kn_status kn_states_refresh(kn_states *states, const char *name, const kn_tensor_info *info, const void *data,
                            size_t bytes, bool *changed) {
    if (changed) *changed = false;
    if (!states) return KN_ERROR_ARGUMENT;
    kn_state *state = name ? kn_states_find(states, name) : NULL;
    uint64_t fingerprint = data ? kn_fingerprint(data, bytes) : 0;
    bool same = state && data && state->fresh_version && state->fresh_version == state->version &&
                state->fingerprint == fingerprint && kn_state_outside_bytes(state) == bytes;
    if (same && (!info || kn_same_info(&state->info, info))) return KN_OK;
    kn_status status = kn_states_set(states, name, info, data, bytes);
    if (status != KN_OK) return status;
    state = kn_states_find(states, name);
    state->fingerprint = fingerprint;
    state->fresh_version = state->version;
    if (changed) *changed = true;
    return KN_OK;
}

void kn_states_drop(kn_states *states, const char *name) {
    kn_state *state = kn_states_find(states, name);
    if (!state || state->planned) return;
    size_t at = 0;
    while (states->entries[at] != state)
        at++;
    states->count--;
    memmove(states->entries + at, states->entries + at + 1, (states->count - at) * sizeof(kn_state *));
    kn_map_remove(&states->names, name, strlen(name));
    state_destroy(states, state);
}

void kn_states_parts_move(kn_states *states) {
    states->parts_moved = true;
    for (size_t i = 0; i < states->count && states->parts; i++) {
        if (!states->entries[i]->part || !states->entries[i]->pending) continue;
        kn_release(&states->host, states->entries[i]->pending);
        states->entries[i]->pending = NULL;
    }
}

const char *kn_states_error(const kn_states *states) {
    return states ? states->error.text : "";
}
