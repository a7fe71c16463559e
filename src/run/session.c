/* Creates, queries and destroys sessions. See binding.c for binding symbols and session_run.c for running. */
#include <string.h>

#include "run/session_private.h"

KN_DEFINE_INIT(kn_session_params, KN_SESSION_DEFAULTS)

kn_status kn_session_begin(kn_session *session) {
    if (!session) return KN_ERROR_MEMORY;
    if (session->failure.status) {
        session->error = session->failure;
        return session->failure.status;
    }
    kn_error_clear(&session->error);
    return KN_OK;
}

kn_status kn_session_fail_name(kn_session *session, const char *what, const char *name,
                               kn_value *const *values, size_t count) {
    kn_text list;
    kn_text_init(&list, &session->host);
    for (size_t i = 0; i < count && i < 20; i++)
        kn_text_format(&list, "%s%s", i ? ", " : "", values[i]->name);
    const char *nearest = NULL;
    const char **words = kn_allocate(&session->host, count, sizeof *words);
    for (size_t i = 0; words && i < count; i++)
        words[i] = values[i]->name;
    if (words) nearest = kn_nearest_word(name, words, count);
    kn_status status = kn_fail(&session->error, KN_ERROR_NOT_FOUND, "no %s '%s'%s%s%s; expected one of %s",
                               what, name, nearest ? " (did you mean '" : "", nearest ? nearest : "",
                               nearest ? "'?)" : "", list.data[0] ? list.data : "none");
    kn_release(&session->host, words);
    kn_text_finish(&list);
    return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

static kn_status check_values(const kn_session_request *request, kn_error *error) {
    if (!request->values || !request->count)
        return kn_fail(error, KN_ERROR_ARGUMENT, "a session needs at least one value to compute");
    const kn_graph *graph = NULL;
    for (size_t i = 0; i < request->count; i++) {
        const kn_value *value = request->values[i];
        if (!value) return kn_fail(error, KN_ERROR_ARGUMENT, "value %zu of a session is NULL", i);
        if (value->graph->error.status) return kn_error_copy(error, &value->graph->error);
        if (value->failed)
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "value %zu of a session is invalid: adding it to the graph failed", i);
        if (graph && value->graph != graph)
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "'%s' and '%s' belong to different graphs; a session computes values of one graph",
                           request->values[0]->name, value->name);
        graph = value->graph;
    }
    return KN_OK;
}

/* Lists the inputs of the copy, and the names of the inputs that it does not need. */
static kn_status list_inputs(kn_session *session, const kn_graph *original) {
    size_t count = 0, total = 0;
    for (size_t i = 0; i < original->value_count; i++)
        total += original->values[i]->kind == KN_VALUE_INPUT;
    for (size_t i = 0; i < session->graph->value_count; i++)
        count += session->graph->values[i]->kind == KN_VALUE_INPUT;
    session->inputs = kn_allocate(&session->host, count + 1, sizeof(kn_value *));
    session->given = kn_allocate(&session->host, count + 1, sizeof *session->given);
    session->solved_bytes = kn_allocate(&session->host, count + 1, sizeof *session->solved_bytes);
    session->scales = kn_allocate(&session->host, count + 1, sizeof *session->scales);
    session->unused = kn_allocate(&session->host, 2 * total + 1, sizeof(char *)); /* two names each */
    if (!session->inputs || !session->given || !session->solved_bytes || !session->scales || !session->unused)
        return kn_fail_memory(&session->failure, count * sizeof *session->given);
    for (size_t i = 0; i < session->graph->value_count; i++)
        if (session->graph->values[i]->kind == KN_VALUE_INPUT)
            session->inputs[session->input_count++] = session->graph->values[i];
    for (size_t i = 0; i < original->value_count; i++) {
        const kn_value *value = original->values[i];
        if (value->kind != KN_VALUE_INPUT) continue;
        bool used = false;
        for (int j = 0; j < session->input_count; j++)
            used = used || !strcmp(session->inputs[j]->name, value->name);
        if (used) continue;
        for (int k = 0; k < 1 + (value->field != NULL); k++) {
            session->unused[session->unused_count] =
                kn_copy_text(&session->host, k ? value->field : value->name);
            if (!session->unused[session->unused_count++]) return kn_fail_memory(&session->failure, 64);
        }
    }
    return KN_OK;
}

static kn_status list_symbols(kn_session *session) {
    const char *symbol;
    while ((symbol = kn_graph_symbol(session->graph, session->symbol_count)) != NULL) {
        if (session->symbol_count == KN_SESSION_SYMBOLS)
            return kn_fail(&session->failure, KN_ERROR_UNSUPPORTED,
                           "a graph may have at most %d symbols in its shapes", KN_SESSION_SYMBOLS);
        session->bound[session->symbol_count] = session->numbers[session->symbol_count] = -1;
        session->symbols[session->symbol_count++] = symbol;
    }
    return KN_OK;
}

/* Enumerators of a newer library would otherwise be taken for others. */
static kn_status check_choices(const kn_session_params *params, kn_error *error) {
    const struct {
        const char *name;
        unsigned value, last;
    } choices[] = {{"precision", params->precision, KN_PRECISION_TF32},
                   {"recompute", params->recompute, KN_RECOMPUTE_NEVER},
                   {"activations", params->activations, KN_ACTIVATIONS_INT8}};
    for (size_t i = 0; i < KN_COUNT_OF(choices); i++)
        if (choices[i].value > choices[i].last)
            return kn_fail(error, KN_ERROR_ARGUMENT, "kn_session_params: %s is %u; expected 0 to %u",
                           choices[i].name, choices[i].value, choices[i].last);
    return KN_OK;
}

static kn_status copy_params(kn_session *session, const kn_session_params *params) {
    kn_session_params_init(&session->params);
    kn_status status = KN_PARAMS_TAKE(kn_session_params, &session->params, params, &session->failure);
    if (status != KN_OK) return status;
    status = check_choices(&session->params, &session->failure);
    if (status == KN_OK)
        status = kn_switches_parse(session->params.switches, &session->switches, &session->failure);
    if (status != KN_OK) return status;
    session->params.switches = NULL;
    if (!session->params.states) {
        session->states = kn_states_create(session->context, session->params.seed);
        if (!session->states) return kn_fail_memory(&session->failure, 256);
        kn_states_guard(session->states, session->guard);
    } else if (kn_states_context(session->params.states) != session->context) {
        return kn_fail(&session->failure, KN_ERROR_ARGUMENT,
                       kn_states_context(session->params.states)
                           ? "the states belong to a different context than the session"
                           : "the states are in host memory only, but the session runs on a device");
    } else {
        session->states = kn_states_retain(session->params.states);
    }
    return KN_OK;
}

static kn_status prepare(kn_session *session, const kn_session_request *request) {
    kn_error *error = &session->failure;
    const kn_error *context_failure = kn_context_failure(session->context);
    if (context_failure->status) return kn_fail(error, context_failure->status, "%s", context_failure->text);
    kn_status status = check_values(request, error);
    if (status == KN_OK) status = copy_params(session, request->params);
    if (status != KN_OK) return status;
    session->value_count = request->count;
    session->values = kn_allocate(&session->host, request->count, sizeof(kn_value *));
    session->outputs = kn_allocate(&session->host, request->count, sizeof *session->outputs);
    if (!session->values || !session->outputs)
        return kn_fail_memory(error, request->count * sizeof *session->outputs);
    const kn_graph *original = request->values[0]->graph;
    status =
        kn_graph_copy(original, request->values, request->count, &session->graph, session->values, error);
    /* The caller's names, since the copy may have replaced a value by another. */
    for (size_t i = 0; i < request->count && status == KN_OK; i++) {
        session->outputs[i].name = kn_arena_text(&session->graph->arena, request->values[i]->name);
        if (!session->outputs[i].name) status = kn_fail_memory(error, 64);
    }
    if (status == KN_OK) status = list_inputs(session, original);
    if (status == KN_OK) status = list_symbols(session);
    if (status == KN_OK && !request->any_indices) status = kn_session_list_indices(session);
    session->device_count = kn_context_device_count(session->context);
    for (int i = 0; i < session->device_count && status == KN_OK; i++) {
        status = kn_memory_init(&session->memories[i], kn_context_device_at(session->context, i),
                                session->input_count, error);
        session->memories[i].guard = session->guard;
    }
    return status;
}

kn_session *kn_session_open(const kn_session_request *request) {
    if (!request->context) return NULL;
    const kn_host *host = kn_context_host(request->context);
    kn_session *session = kn_allocate(host, 1, sizeof *session);
    if (!session) return NULL;
    session->host = *host;
    session->context = request->context;
    session->extend = request->extend;
    session->guard = request->guard;
    session->user = request->user;
    if (request->communicator && request->shards && request->shards->ranks > 1)
        kn_totals_create(&session->host, request->communicator, request->shards, request->any_order,
                         &session->totals, &session->failure);
    if (session->failure.status == KN_OK) kn_session_exchange(session, true, true);
    if (session->failure.status != KN_OK || prepare(session, request) != KN_OK)
        session->error = session->failure;
    return session;
}

kn_session *kn_session_create(kn_context *context, kn_value *const *values, size_t count,
                              const kn_session_params *params) {
    kn_session_request request = {.context = context, .values = values, .count = count, .params = params};
    return kn_session_open(&request);
}

void kn_session_destroy(kn_session **handle) {
    if (!handle || !*handle) return;
    kn_session *session = *handle;
    *handle = NULL;
    /* Wait for enqueued work, which still uses the memory: not all drivers keep released buffers alive. */
    if (session->clock) kn_session_finish(session, NULL);
    for (int i = 0; i < KN_SESSION_PLANS; i++)
        kn_executable_destroy(&session->plans[i]);
    for (int i = 0; i < session->device_count; i++)
        kn_memory_finish(&session->memories[i]);
    kn_totals_destroy(&session->totals);
    kn_graph_destroy(&session->graph);
    kn_states_destroy(&session->states);
    for (int i = 0; i < session->unused_count; i++)
        kn_release(&session->host, session->unused[i]);
    kn_release(&session->host, session->unused);
    kn_release(&session->host, session->inputs);
    kn_release(&session->host, session->indices);
    kn_release(&session->host, session->given);
    kn_release(&session->host, session->solved_bytes);
    kn_release(&session->host, session->scales);
    kn_release(&session->host, session->values);
    kn_release(&session->host, session->outputs);
    kn_host host = session->host;
    kn_release(&host, session);
}

kn_status kn_session_finish(kn_session *session, kn_error *error) {
    kn_status status = KN_OK;
    for (int i = 0; i < session->device_count; i++) {
        kn_status each =
            kn_queue_finish(session->memories[i].context, KN_QUEUE_COMPUTE, status == KN_OK ? error : NULL);
        if (each == KN_OK) kn_memory_set_idle(&session->memories[i]);
        if (status == KN_OK) status = each;
    }
    return status;
}

/* ---- queries --------------------------------------------------------------------------------- */

static const kn_error no_session = {KN_ERROR_MEMORY,
                                    "the session is NULL: out of host memory when it was created"};

const kn_error *kn_session_failure(const kn_session *session) {
    return session ? &session->error : &no_session;
}

kn_status kn_session_status(const kn_session *session) {
    return kn_session_failure(session)->status;
}

const char *kn_session_error(const kn_session *session) {
    return kn_session_failure(session)->text;
}

kn_states *kn_session_states(kn_session *session) {
    return session ? session->states : NULL;
}

const kn_host *kn_session_host(const kn_session *session) {
    return &session->host;
}

kn_context *kn_session_context(const kn_session *session) {
    return session->context;
}

kn_value *kn_session_value(const kn_session *session, size_t position) {
    return session && session->failure.status == KN_OK && position < session->value_count
               ? session->values[position]
               : NULL;
}

int kn_session_find_value(const kn_session *session, const char *name) {
    for (size_t i = 0; i < session->value_count; i++)
        if (!strcmp(session->outputs[i].name, name)) return (int)i;
    return -1;
}

/* The plan of the last compile or run. */
static kn_status need_plan(kn_session *session) {
    kn_status status = kn_session_begin(session);
    if (status == KN_OK && !session->current)
        status = kn_fail(&session->error, KN_ERROR_ARGUMENT, "no plan yet: compile or run the session first");
    return status;
}

kn_status kn_session_info(kn_session *session, const char *name, kn_tensor_info *info) {
    if (!session || !name || !info) return KN_ERROR_ARGUMENT;
    kn_status status = need_plan(session);
    if (status != KN_OK) return status;
    int value = kn_session_find_value(session, name);
    if (value < 0) return kn_session_fail_name(session, "value", name, session->values, session->value_count);
    *info = session->current->infos[value];
    return KN_OK;
}

void kn_session_exchange(kn_session *session, bool sums, bool gathers) {
    if (session->totals) kn_totals_activate(session->totals, sums, gathers);
}

void kn_session_move(kn_session *session, bool host_states) {
    for (int i = 0; i < session->device_count; i++)
        session->memories[i].leaves = !host_states;
}

void kn_session_vote(kn_session *session, const float votes[KN_SESSION_VOTES]) {
    if (session->totals) kn_totals_vote(session->totals, votes);
}

void kn_session_voted(const kn_session *session, float sums[KN_SESSION_VOTES]) {
    if (session->totals)
        kn_totals_voted(session->totals, sums);
    else
        memset(sums, 0, KN_SESSION_VOTES * sizeof *sums);
}

void kn_session_set_memory(kn_session *session, uint64_t memory_bytes) {
    session->params.memory_bytes = memory_bytes;
}

kn_status kn_session_plan(kn_session *session, kn_plan_info *info) {
    if (!session || !kn_has_size(info)) return KN_ERROR_ARGUMENT;
    kn_status status = need_plan(session);
    if (status != KN_OK) return status;
    return KN_RESULT_GIVE(kn_plan_info, info, &session->current->total);
}

kn_status kn_session_plan_step_at(kn_session *session, size_t position, kn_plan_step *step) {
    if (!session || !kn_has_size(step)) return KN_ERROR_ARGUMENT;
    kn_plan_step described = KN_PLAN_STEP_DEFAULTS;
    kn_status status = need_plan(session);
    if (status == KN_OK) status = kn_executable_describe_step(session->current, position, &described);
    return status == KN_OK ? KN_RESULT_GIVE(kn_plan_step, step, &described) : status;
}

kn_status kn_session_write_programs(kn_session *session, const char *folder) {
    if (!session || !folder || !folder[0]) return KN_ERROR_ARGUMENT;
    kn_status status = need_plan(session);
    return status == KN_OK ? kn_executable_write(session->current, folder, &session->error) : status;
}

kn_status kn_session_plan_pass_at(kn_session *session, size_t position, kn_plan_pass *pass) {
    if (!session || !kn_has_size(pass)) return KN_ERROR_ARGUMENT;
    kn_plan_pass found = KN_PLAN_PASS_DEFAULTS;
    kn_status status = need_plan(session);
    if (status != KN_OK) return status;
    found.name = kn_plan_pass_name(position);
    if (!found.name) return kn_fail(&session->error, KN_ERROR_NOT_FOUND, "no pass %zu", position);
    found.seconds = session->current->pass_seconds[position];
    return KN_RESULT_GIVE(kn_plan_pass, pass, &found);
}

char *kn_session_plan_text(kn_session *session) {
    if (!session || need_plan(session) != KN_OK) return NULL;
    kn_text text;
    kn_text_init(&text, &session->host);
    for (int i = 0; i < session->symbol_count; i++)
        if (session->numbers[i] >= 0 && !session->switches.why[0])
            kn_text_format(&text, "%s = %lld\n", session->symbols[i], (long long)session->numbers[i]);
    kn_executable_print(session->current, &text);
    if (kn_text_failed(&text)) kn_fail_memory(&session->error, text.length);
    return kn_text_take(&text);
}

void kn_session_free_text(kn_session *session, char *text) {
    if (session) kn_release(&session->host, text);
}
