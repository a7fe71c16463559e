/* Compiles and runs sessions: finds or makes plans, writes inputs, fetches results. */
#include <string.h>

#include "run/session_private.h"

/* ---- plans ----------------------------------------------------------------------------------- */

static bool is_for(const kn_executable *executable, const kn_session *session) {
    for (int i = 0; i < session->input_count; i++)
        if (executable->scales[i] != session->scales[i]) return false;
    return memcmp(executable->numbers, session->numbers,
                  (size_t)session->symbol_count * sizeof *executable->numbers) == 0;
}

/* A free slot in the cache of plans, or the slot of the least recently used plan. */
static int slot_for_plan(const kn_session *session) {
    int oldest = 0;
    for (int i = 0; i < KN_SESSION_PLANS; i++) {
        if (!session->plans[i]) return i;
        if (session->plans[i]->last_used < session->plans[oldest]->last_used) oldest = i;
    }
    return oldest;
}

static kn_status make_plan(kn_session *session, kn_executable **executable) {
    kn_binding bindings[KN_SESSION_SYMBOLS];
    kn_executable_request request = {
        .context = session->context,
        .states = session->states,
        .graph = session->graph,
        .values = session->values,
        .value_count = session->value_count,
        .inputs = session->inputs,
        .input_count = session->input_count,
        .bindings = bindings,
        .numbers = session->numbers,
        .number_count = (size_t)session->symbol_count,
        .scales = session->scales,
        .params = &session->params,
        .switches = &session->switches,
        .guard = session->guard,
        .totals = session->totals,
        .extend = session->extend,
        .user = session->user,
    };
    for (int i = 0; i < session->symbol_count; i++)
        if (session->numbers[i] >= 0)
            bindings[request.binding_count++] = (kn_binding){session->symbols[i], session->numbers[i]};
    return kn_executable_make(&request, executable, &session->error);
}

kn_status kn_session_find_plan(kn_session *session) {
    for (int i = 0; i < KN_SESSION_PLANS && !session->current; i++)
        if (session->plans[i] && is_for(session->plans[i], session)) session->current = session->plans[i];
    if (!session->current) {
        kn_executable *executable = NULL;
        kn_status status = make_plan(session, &executable);
        if (status != KN_OK) {
            session->solved = false;
            return status;
        }
        int slot = slot_for_plan(session);
        /* Its last run may be in progress, and not all drivers keep released buffers alive. */
        if (session->plans[slot]) kn_session_finish(session, NULL);
        kn_executable_destroy(&session->plans[slot]);
        session->plans[slot] = session->current = executable;
    }
    session->current->last_used = ++session->clock;
    return KN_OK;
}

/* Attaches a part of the current plan to memory; if the memory must grow, detaches all other plans first. */
static kn_status attach_part(kn_session *session, int part) {
    kn_executable *executable = session->current->parts[part];
    kn_memory *memory = &session->memories[part];
    if (executable->generation == memory->generation) return KN_OK;
    if (!kn_memory_fits(memory, executable)) {
        kn_status status = kn_queue_finish(memory->context, KN_QUEUE_COMPUTE, &session->error);
        for (int i = 0; i < KN_SESSION_PLANS; i++)
            if (session->plans[i] && part < session->plans[i]->part_count)
                kn_executable_detach(session->plans[i]->parts[part]);
        if (status == KN_OK) status = kn_memory_grow(memory, executable, &session->error);
        if (status != KN_OK) return status;
    }
    return kn_executable_attach(executable, memory, &session->error);
}

static kn_status attach_plan(kn_session *session) {
    kn_status status = KN_OK;
    for (int i = 0; i < session->current->part_count && status == KN_OK; i++)
        status = attach_part(session, i);
    return status;
}

static void forget_given(kn_session *session) {
    for (int i = 0; i < session->input_count; i++)
        session->given[i] = (kn_given){.fed = false};
    for (size_t i = 0; i < session->value_count; i++)
        session->outputs[i].buffer = NULL;
}

kn_status kn_session_compile(kn_session *session, const kn_feed *feeds, size_t feed_count) {
    if (!session) return KN_ERROR_MEMORY;
    kn_status status = kn_session_begin(session);
    if (status != KN_OK) return status;
    status = kn_session_take_feeds(session, feeds, feed_count, true);
    if (status == KN_OK) status = kn_session_solve_symbols(session);
    if (status == KN_OK) status = kn_session_find_plan(session);
    for (int i = 0; i < session->input_count; i++)
        if (!session->given[i].buffer) session->given[i] = (kn_given){.fed = false};
    return status;
}

/* ---- feeding and fetching ------------------------------------------------------------------------------ */

static bool is_needed(const kn_executable *executable, int input) {
    for (int i = 0; i < executable->part_count; i++)
        if (executable->parts[i]->input_needed[input]) return true;
    return false;
}

static kn_status check_fed(kn_session *session) {
    for (int i = 0; i < session->input_count; i++)
        if (is_needed(session->current, i) && !session->given[i].fed)
            return kn_fail(&session->error, KN_ERROR_ARGUMENT, "input '%s' is needed, but was not fed",
                           session->inputs[i]->name);
    return KN_OK;
}

static uint64_t value_bytes(const kn_session *session, int value) {
    uint64_t bytes = 0;
    kn_tensor_bytes(&session->current->infos[value], &bytes);
    return bytes;
}

static kn_status fail_room(kn_session *session, int value, uint64_t given) {
    kn_text text;
    kn_text_init(&text, &session->host);
    kn_info_text(&session->current->infos[value], &text);
    kn_status status = kn_fail(&session->error, KN_ERROR_SHAPE,
                               "'%s' is %s, which has %llu bytes, but the memory for it has %llu",
                               session->outputs[value].name, text.data,
                               (unsigned long long)value_bytes(session, value), (unsigned long long)given);
    kn_text_finish(&text);
    return status;
}

static kn_status check_fetches(kn_session *session, const kn_fetch *fetches, size_t count) {
    kn_error *error = &session->error;
    if (count && !fetches)
        return kn_fail(error, KN_ERROR_ARGUMENT, "%zu fetches, but the list is NULL", count);
    for (size_t i = 0; i < count; i++) {
        const kn_fetch *fetch = &fetches[i];
        if (!fetch->name) return kn_fail(error, KN_ERROR_ARGUMENT, "fetch %zu has no name", i);
        int value = kn_session_find_value(session, fetch->name);
        if (value < 0)
            return kn_session_fail_name(session, "value", fetch->name, session->values, session->value_count);
        if (value_bytes(session, value) != fetch->bytes) return fail_room(session, value, fetch->bytes);
        if (!fetch->data && fetch->bytes)
            return kn_fail(error, KN_ERROR_ARGUMENT, "the memory to fetch '%s' into is NULL", fetch->name);
    }
    for (size_t i = 0; i < session->value_count; i++) {
        kn_buffer *buffer = session->outputs[i].buffer;
        if (buffer && kn_buffer_bytes(buffer) != value_bytes(session, (int)i))
            return fail_room(session, (int)i, kn_buffer_bytes(buffer));
    }
    return KN_OK;
}

static kn_status upload_input(kn_session *session, int input, int part, bool within) {
    const kn_given *given = &session->given[input];
    kn_memory *memory = &session->memories[part];
    kn_error *error = &session->error;
    if (!given->buffer && given->bytes && memory->inputs[input].ahead[memory->turn] == given->bytes)
        return KN_OK;
    if (!given->buffer)
        return (within ? kn_memory_feed_within : kn_memory_feed)(memory, input, given->data, given->bytes,
                                                                 error);
    if (!part) return kn_memory_feed_buffer(memory, input, given->buffer, given->bytes, error);
    return kn_fail(error, KN_ERROR_UNSUPPORTED,
                   "input '%s' was fed from a buffer, but device '%s' reads it too; feed it from host memory",
                   session->inputs[input]->name, kn_context_device_name_at(session->context, part));
}

/* Writes the inputs to each device that reads them. `within`: as the first commands of the run. */
static kn_status upload(kn_session *session, bool within) {
    kn_status status = KN_OK;
    for (int part = 0; part < session->current->part_count; part++)
        for (int i = 0; i < session->input_count && status == KN_OK; i++)
            if (session->given[i].fed && session->current->parts[part]->input_needed[i])
                status = upload_input(session, i, part, within);
    return status;
}

/* Whether inputs do not need the transfer queue: the host waits for the run, or the device is idle. A
 * callback during the run may release the inputs, so that excludes it. */
static bool uploads_within(const kn_session *session, const kn_enqueued_callback *on_enqueued, bool wait) {
    if (on_enqueued->call) return false;
    for (int i = 0; i < session->current->part_count && !wait; i++)
        if (!kn_memory_is_idle(&session->memories[i])) return false;
    return true;
}

/* Waits until the caller's inputs may change. */
static kn_status wait_for_upload(kn_session *session) {
    kn_status status = KN_OK;
    for (int i = 0; i < session->current->part_count && status == KN_OK; i++)
        status = kn_memory_fed(&session->memories[i], &session->error);
    return status;
}

/* Copies results to the caller's buffers. */
static kn_status fetch_to_buffers(kn_session *session) {
    kn_status status = KN_OK;
    for (size_t i = 0; i < session->value_count && status == KN_OK; i++) {
        kn_buffer *target = session->outputs[i].buffer;
        const kn_executable *part;
        uint64_t bytes = value_bytes(session, (int)i);
        if (!target || !bytes) continue;
        kn_buffer *source = kn_executable_result(session->current, session->memories, i, &part);
        if (part != session->current)
            return kn_fail(
                &session->error, KN_ERROR_UNSUPPORTED,
                "'%s' is computed on a different device than the buffer's; fetch it to host memory",
                session->outputs[i].name);
        status = kn_queue_copy(session->context, KN_QUEUE_COMPUTE, source, 0, target, 0, bytes,
                               (kn_event){NULL}, NULL, &session->error);
    }
    return status;
}

/* Reads results in order; with `wait` and one device, the last read is blocking, which waits for all.
 * *fetched: event of the last read with one device; NULL: not needed. */
static kn_status fetch(kn_session *session, const kn_fetch *fetches, size_t count, bool wait,
                       kn_event *fetched) {
    kn_status status = KN_OK;
    bool one = session->current->part_count == 1;
    size_t last = count;
    for (size_t i = 0; i < count; i++)
        if (fetches[i].bytes) last = i;
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        if (!fetches[i].bytes) continue;
        const kn_executable *part;
        int value = kn_session_find_value(session, fetches[i].name);
        kn_buffer *source = kn_executable_result(session->current, session->memories, (size_t)value, &part);
        status = kn_queue_read(part->context, KN_QUEUE_COMPUTE, source, 0, fetches[i].data, fetches[i].bytes,
                               one && wait && i == last, (kn_event){NULL}, one && i == last ? fetched : NULL,
                               &session->error);
    }
    if (status != KN_OK || (one && wait && last < count)) return status;
    if (count && wait) return kn_session_finish(session, &session->error);
    for (int i = 0; i < session->current->part_count && status == KN_OK; i++)
        status = kn_queue_flush(session->memories[i].context, KN_QUEUE_COMPUTE, &session->error);
    return status;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* Fills or checks the guard areas on each device. */
static kn_status guard(kn_session *session,
                       kn_status (*look)(const kn_executable *, const kn_memory *, kn_error *)) {
    kn_status status = KN_OK;
    for (int i = 0; i < session->current->part_count && status == KN_OK; i++)
        status = look(session->current->parts[i], &session->memories[i], &session->error);
    return status;
}

/* `idle`: the enqueued work is complete. */
static kn_status next_turn(kn_session *session, bool idle, kn_status status) {
    kn_status first = status;
    for (int i = 0; i < session->current->part_count; i++) {
        kn_status next = kn_memory_next(&session->memories[i], idle || status != KN_OK,
                                        first == KN_OK ? &session->error : NULL);
        if (first == KN_OK) first = next;
    }
    return first;
}

static void forget_ahead(kn_session *session) {
    for (int i = 0; i < session->device_count; i++)
        kn_memory_forget_ahead(&session->memories[i]);
}

static kn_status run(kn_session *session, const kn_feed *feeds, size_t feed_count, const kn_fetch *fetches,
                     size_t fetch_count, bool wait, kn_enqueued_callback on_enqueued, kn_event *fetched) {
    kn_error *error = &session->error;
    kn_status status = kn_session_take_feeds(session, feeds, feed_count, false);
    if (status == KN_OK) status = kn_session_solve_symbols(session);
    if (status == KN_OK) status = kn_session_find_plan(session);
    if (status == KN_OK && kn_context_precompiles(session->context))
        status = kn_fail(error, KN_ERROR_CANCELLED,
                         "the context only precompiles: kernels are compiled, but nothing runs");
    if (status == KN_OK && session->switches.programs == KN_PROGRAMS_NONE)
        status = kn_fail(error, KN_ERROR_CANCELLED, "the session only plans (programs=none): nothing runs");
    if (status == KN_OK && kn_context_is_described(session->context))
        status = kn_fail_described(session->context, error);
    if (status == KN_OK) status = check_fed(session);
    if (status == KN_OK) status = kn_session_check_indices(session);
    if (status == KN_OK) status = check_fetches(session, fetches, fetch_count);
    if (status == KN_OK) status = attach_plan(session);
    if (status != KN_OK) return status;
    status = upload(session, uploads_within(session, &on_enqueued, wait && fetch_count));
    for (int i = 0; i < session->current->part_count; i++)
        session->memories[i].running = 1;
    if (status == KN_OK) status = guard(session, kn_guard_fill);
    if (status == KN_OK) status = kn_executable_run(session->current, session->memories, &on_enqueued, error);
    if (status == KN_OK) status = fetch_to_buffers(session);
    if (status == KN_OK) status = fetch(session, fetches, fetch_count, wait, fetched);
    if (status == KN_OK) status = wait_for_upload(session);
    if (status == KN_OK) status = guard(session, kn_guard_check);
    if (status == KN_OK) status = kn_call_enqueued(&on_enqueued, error);
    if (status != KN_OK) {
        /* Transfers in progress use the caller's memory, which may be freed after the return. */
        kn_session_finish(session, NULL);
        forget_ahead(session);
    }
    return next_turn(session, fetch_count && wait, status);
}

kn_status kn_session_run(kn_session *session, const kn_feed *feeds, size_t feed_count,
                         const kn_fetch *fetches, size_t fetch_count) {
    if (!session) return KN_ERROR_MEMORY;
    kn_status status = kn_session_begin(session);
    if (status != KN_OK) return status;
    forget_ahead(session);
    status = run(session, feeds, feed_count, fetches, fetch_count, true, (kn_enqueued_callback){NULL}, NULL);
    forget_given(session);
    return status;
}

kn_status kn_session_start(kn_session *session, const kn_feed *feeds, size_t feed_count, bool ahead,
                           const kn_fetch *fetches, size_t fetch_count, kn_enqueued_callback on_enqueued,
                           kn_event *fetched) {
    kn_status status = kn_session_begin(session);
    if (fetched) fetched->handle = NULL;
    if (status != KN_OK) return status;
    if (!ahead) forget_ahead(session);
    status = run(session, feeds, feed_count, fetches, fetch_count, false, on_enqueued, fetched);
    if (status != KN_OK && fetched) kn_event_release(fetched);
    forget_given(session);
    return status;
}

static kn_status feed_part_ahead(kn_session *session, int part, const kn_feed *feeds, size_t feed_count) {
    kn_status status = KN_OK;
    for (int i = 0; i < session->input_count; i++)
        for (size_t f = 0;
             f < feed_count && status == KN_OK && session->current->parts[part]->input_needed[i]; f++)
            if (kn_input_is(session->inputs[i], feeds[f].name))
                status = kn_memory_feed_ahead(&session->memories[part], i, feeds[f].data, feeds[f].bytes,
                                              &session->error);
    return status;
}

kn_status kn_session_feed_ahead(kn_session *session, const kn_feed *feeds, size_t feed_count) {
    kn_status status = kn_session_begin(session);
    forget_ahead(session);
    for (int part = 0; session->current && part < session->current->part_count && status == KN_OK; part++)
        status = feed_part_ahead(session, part, feeds, feed_count);
    return status;
}

kn_status kn_session_wait(kn_session *session) {
    if (!session) return KN_ERROR_MEMORY;
    kn_status status = kn_session_begin(session);
    return status != KN_OK ? status : kn_session_finish(session, &session->error);
}

kn_status kn_session_feed_buffer(kn_session *session, const char *name, struct kn_buffer *buffer) {
    if (!session) return KN_ERROR_MEMORY;
    kn_status status = kn_session_begin(session);
    if (status != KN_OK) return status;
    if (!name || !buffer)
        return kn_fail(&session->error, KN_ERROR_ARGUMENT, "the name or the buffer is NULL");
    for (int i = 0; i < session->input_count; i++)
        if (kn_input_is(session->inputs[i], name)) {
            session->given[i] = (kn_given){.fed = true, .buffer = buffer, .bytes = kn_buffer_bytes(buffer)};
            return KN_OK;
        }
    return kn_session_fail_name(session, "input", name, session->inputs, (size_t)session->input_count);
}

kn_status kn_session_fetch_buffer(kn_session *session, const char *name, struct kn_buffer *buffer) {
    if (!session) return KN_ERROR_MEMORY;
    kn_status status = kn_session_begin(session);
    if (status != KN_OK) return status;
    if (!name || !buffer)
        return kn_fail(&session->error, KN_ERROR_ARGUMENT, "the name or the buffer is NULL");
    int value = kn_session_find_value(session, name);
    if (value < 0) return kn_session_fail_name(session, "value", name, session->values, session->value_count);
    session->outputs[value].buffer = buffer;
    return KN_OK;
}

kn_status kn_session_set_scalar(kn_session *session, const char *name, double value) {
    kn_status status = kn_session_begin(session);
    if (status != KN_OK) return status;
    kn_error *error = &session->error;
    kn_state *state = kn_states_find(session->states, name);
    if (!state) return kn_fail(error, KN_ERROR_NOT_FOUND, "no state '%s'", name);
    if (state->bytes != 4 || state->stored != state->info.dtype ||
        (state->info.dtype != KN_FLOAT32 && state->info.dtype != KN_UINT32))
        return kn_fail(error, KN_ERROR_ARGUMENT, "state '%s' is not a float32 or uint32 scalar", name);
    unsigned char bytes[4];
    kn_element_set(state->info.dtype, bytes, 0, value);
    if (state->buffer) {
        /* The fill copies the pattern when it is enqueued, so `bytes` need not stay valid. */
        state->scalar_version = ++state->version;
        memcpy(state->scalar, bytes, sizeof bytes);
        return kn_queue_fill(state->context, KN_QUEUE_COMPUTE, state->buffer, 0, sizeof bytes, bytes,
                             sizeof bytes, NULL, error);
    }
    status = kn_states_set(session->states, name, NULL, bytes, sizeof bytes);
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s", kn_states_error(session->states));
}

kn_status kn_session_repeat(kn_session *session, const kn_operator *row, int times) {
    kn_status status = kn_session_begin(session);
    if (status == KN_OK && (!session->current || session->current->part_count != 1))
        status = kn_fail(&session->error, KN_ERROR_UNSUPPORTED, "no run yet, or several devices");
    return status == KN_OK
               ? kn_executable_repeat(session->current, session->memories, row, times, &session->error)
               : status;
}
