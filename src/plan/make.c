/* Making a plan: the graph is bound and extended, the passes run, and its steps are made ready (ready.c). The
 * plan then needs memory only (attach.c). */
#include <string.h>

#include "plan/run_private.h"

/* What a plan needs while it is made, beside the passes' own. */
typedef struct plan_making {
    const kn_plan_request *request;
    bool keeps;   /* what depends on states alone, from run to run */
    bool kept;    /* whether there is any of it */
    bool several; /* devices, as the graph was bound */
    kn_plan *plan;
    kn_making passes;
    kn_error *error;
} plan_making;

/* ---- the graph ------------------------------------------------------------------------------- */

static bool may_narrow(const void *user, const kn_value *state) {
    return kn_states_may_narrow(user, state);
}

static kn_status bind_graph(plan_making *making) {
    const kn_plan_request *request = making->request;
    kn_plan *plan = making->plan;
    plan->value_count = request->value_count;
    plan->values = kn_arena_take(&plan->arena, request->value_count, sizeof(kn_value *));
    plan->infos = kn_arena_take(&plan->arena, request->value_count, sizeof *plan->infos);
    plan->number_count = request->number_count;
    plan->numbers =
        kn_arena_copy(&plan->arena, request->numbers, request->number_count, sizeof *plan->numbers);
    if (!plan->values || !plan->infos || !plan->numbers)
        return kn_fail_memory(making->error, request->value_count * sizeof *plan->infos);
    kn_bind_request binding = {.bindings = request->bindings,
                               .binding_count = request->binding_count,
                               .training = request->params->training,
                               .seed = request->params->seed,
                               .narrows = may_narrow,
                               .user = request->states};
    kn_status status = kn_graph_bind(request->graph, request->values, request->value_count, &binding,
                                     &plan->graph, plan->values, making->error);
    if (status == KN_OK)
        status = kn_devices_mark(plan->context, plan->states, plan->graph, &making->several, making->error);
    if (status == KN_OK && request->extend)
        status = request->extend(request->user, plan->graph, plan->values, plan->value_count, making->error);
    if (status == KN_OK && plan->graph->error.status)
        status = kn_fail(making->error, plan->graph->error.status, "%s", plan->graph->error.text);
    for (size_t i = 0; i < plan->value_count && status == KN_OK; i++) {
        plan->values[i]->wanted = true;
        plan->infos[i] = kn_info_of(&plan->values[i]->shape);
    }
    return status;
}

/* ---- the passes ------------------------------------------------------------------------------ */

static kn_status run_passes(plan_making *making) {
    static kn_status (*const passes[])(kn_making *) = {kn_pass_simplify, kn_pass_choose, kn_pass_fuse,
                                                       kn_pass_order,    kn_pass_layout, kn_pass_lower,
                                                       kn_pass_bucket,   kn_pass_once,   kn_pass_place};
    kn_plan *plan = making->plan;
    kn_making *state = &making->passes;
    *state = (kn_making){
        .context = plan->context,
        .host = &plan->host,
        .arena = &plan->arena,
        .graph = plan->graph,
        .wanted = plan->values,
        .wanted_count = plan->value_count,
        .variants = making->request->params->variants,
        .guard = making->request->guard,
        .keeps = making->keeps && !making->request->guard,
        .error = making->error,
    };
    kn_target_of(plan->context, &state->target);
    state->target.fast_math = plan->fast_math = making->request->params->fast_math;
    kn_emitter_init(&state->emitter, state->arena, state->host, &state->target, state->error);
    kn_status status = KN_OK;
    for (size_t i = 0; i < KN_COUNT_OF(passes) && status == KN_OK; i++)
        status = passes[i](state);
    if (status == KN_OK && plan->graph->error.status)
        status = kn_fail(making->error, plan->graph->error.status, "%s", plan->graph->error.text);
    return status;
}

static void finish_passes(kn_making *state) {
    if (!state->host) return;
    kn_release(state->host, state->groups);
    kn_release(state->host, state->step_group);
    kn_emitter_finish(&state->emitter);
}

/* ---- inputs, states and constants that steps read ------------------------------------------------------ */

static kn_status find_input(plan_making *making, kn_placement *placement) {
    const kn_plan_request *request = making->request;
    kn_plan *plan = making->plan;
    for (int i = 0; i < request->input_count; i++)
        if (!strcmp(request->inputs[i]->name, placement->root->name)) {
            placement->slot = i;
            plan->input_needed[i] = true;
            plan->input_bytes[i] = placement->bytes;
            return KN_OK;
        }
    return kn_fail(making->error, KN_ERROR_INTERNAL, "the input '%s' is not one of the caller's",
                   placement->root->name);
}

/* Counts with `add` false, fills the lists with true. Inputs count where somebody reads them. */
static kn_status list_homes(plan_making *making, bool add) {
    kn_plan *plan = making->plan;
    plan->state_count = plan->constant_count = 0;
    for (size_t i = 0; i < plan->placement_count; i++) {
        kn_placement *placement = &plan->placements[i];
        if (placement->root->id != (int)i || placement->last < 0) continue;
        kn_status status = KN_OK;
        switch (placement->home) {
        case KN_HOME_INPUT:
            if (add) status = find_input(making, placement);
            break;
        case KN_HOME_STATE:
            placement->slot = plan->state_count++;
            if (add)
                status = kn_states_ask(plan->states, plan->context, placement->root,
                                       &plan->state_list[placement->slot], making->error);
            break;
        case KN_HOME_CONSTANT:
            placement->slot = plan->constant_count++;
            if (add) plan->constants[placement->slot] = placement->root;
            break;
        default:
            break;
        }
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

static kn_status find_homes(plan_making *making) {
    kn_plan *plan = making->plan;
    plan->input_count = making->request->input_count;
    plan->input_bytes = kn_arena_take(&plan->arena, (size_t)plan->input_count, sizeof *plan->input_bytes);
    plan->input_needed = kn_arena_take(&plan->arena, (size_t)plan->input_count, sizeof *plan->input_needed);
    if (!plan->input_bytes || !plan->input_needed)
        return kn_fail_memory(making->error, (size_t)plan->input_count * sizeof *plan->input_bytes);
    list_homes(making, false);
    plan->state_list = kn_arena_take(&plan->arena, (size_t)plan->state_count, sizeof(kn_state *));
    plan->state_kept = kn_arena_take(&plan->arena, (size_t)plan->state_count, sizeof(bool));
    plan->state_written = kn_arena_take(&plan->arena, (size_t)plan->state_count, sizeof(bool));
    plan->constants = kn_arena_take(&plan->arena, (size_t)plan->constant_count, sizeof(kn_value *));
    if (!plan->state_list || !plan->state_kept || !plan->state_written || !plan->constants)
        return kn_fail_memory(making->error, (size_t)plan->state_count * sizeof(kn_state *));
    return list_homes(making, true);
}

/* ---- what it takes ------------------------------------------------------------------------------------- */

static kn_status sum_up(plan_making *making) {
    kn_plan *plan = making->plan;
    const kn_making *passes = &making->passes;
    const kn_capabilities *device = kn_context_capabilities(plan->context);
    uint64_t unit = device->alignment_bytes;
    kn_plan_info *info = &plan->info;
    *info = (kn_plan_info){.size = sizeof *info, .scratch_bound_bytes = passes->bound_bytes};
    for (int i = 0; i < plan->block_count; i++)
        info->scratch_bytes += plan->block_bytes[i];
    for (size_t i = 0; i < plan->placement_count; i++)
        if (plan->placements[i].kept) info->kept_bytes += kn_round_up(plan->placements[i].bytes, unit);
    for (int i = 0; i < plan->scratch_count; i++)
        if (plan->scratches[i].kept) info->kept_bytes += kn_round_up(plan->scratches[i].bytes, unit);
    for (int i = 0; i < plan->state_count; i++)
        info->state_bytes += kn_round_up(plan->state_list[i]->bytes, unit);
    for (int i = 0; i < plan->input_count; i++)
        plan->input_total += 2 * kn_round_up(plan->input_bytes[i], unit);
    for (int i = 0; i < plan->constant_count; i++)
        plan->constant_bytes += kn_round_up(plan->placements[plan->constants[i]->id].bytes, unit);
    info->peak_bytes = info->scratch_bytes + info->state_bytes + plan->input_total + plan->constant_bytes;
    info->steps = passes->emitter.step_count;
    info->conversions = passes->conversions;
    uint64_t limit = making->request->params->memory_bytes;
    bool joined = plan->context != making->request->context;
    if (!limit || (joined && device->memory_bytes && limit > device->memory_bytes))
        limit = device->memory_bytes;
    if (!limit || info->peak_bytes <= limit) return KN_OK;
    return kn_fail(
        making->error, KN_ERROR_DEVICE_MEMORY,
        "%llu bytes of device memory are needed (states %llu, inputs %llu, values in between %llu), "
        "and %llu are allowed; a smaller batch needs less",
        (unsigned long long)info->peak_bytes, (unsigned long long)info->state_bytes,
        (unsigned long long)plan->input_total, (unsigned long long)info->scratch_bytes,
        (unsigned long long)limit);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What one device has to compute: from its graph to its steps. */
static kn_status make_part(plan_making *making) {
    kn_plan *plan = making->plan;
    kn_making *passes = &making->passes;
    kn_status status = kn_check_types(plan->context, plan->graph, making->error);
    if (status == KN_OK) status = run_passes(making);
    if (status == KN_OK) {
        plan->placements = passes->placements;
        plan->placement_count = passes->placement_count;
        plan->scratches = passes->scratches;
        plan->scratch_count = passes->emitter.scratch_count;
        plan->block_bytes = passes->block_bytes;
        plan->block_count = passes->block_count;
        status = find_homes(making);
    }
    if (status == KN_OK) status = sum_up(making);
    if (status == KN_OK) status = kn_plan_ready(plan, passes, making->request->params);
    for (int i = 0; i < passes->emitter.step_count && passes->once; i++)
        making->kept = making->kept || passes->once[i];
    finish_passes(passes);
    return status;
}

static kn_plan *new_plan(const kn_plan_request *request, kn_context *context) {
    const kn_host *host = kn_context_host(request->context);
    kn_plan *plan = kn_allocate(host, 1, sizeof *plan);
    if (!plan) return NULL;
    plan->host = *host;
    plan->context = context;
    plan->states = request->states;
    plan->guard = request->guard;
    kn_arena_init(&plan->arena, &plan->host);
    return plan;
}

static void add_info(kn_plan_info *total, const kn_plan_info *own) {
    total->size = sizeof *total;
    total->peak_bytes += own->peak_bytes;
    total->state_bytes += own->state_bytes;
    total->scratch_bytes += own->scratch_bytes;
    total->scratch_bound_bytes += own->scratch_bound_bytes;
    total->steps += own->steps;
    total->kernels += own->kernels;
    total->conversions += own->conversions;
    total->flops += own->flops;
    total->kept_bytes += own->kept_bytes;
    total->devices += own->steps > 0;
}

static void tell_own(kn_plan *head) {
    head->total.own_peak_bytes = head->info.peak_bytes;
    head->total.own_state_bytes = head->info.state_bytes;
}

/* The part of a device, with its graph; the first is the head itself. */
static kn_status add_part(plan_making *making, const kn_part *cut, int device) {
    kn_plan *head = making->plan, *part = head;
    if (device) part = new_plan(making->request, kn_context_device_at(head->context, device));
    if (!part) return kn_fail_memory(making->error, sizeof *part);
    head->parts[head->part_count++] = part;
    part->head = head;
    part->graph = cut->graph;
    part->values = cut->wanted;
    part->value_count = cut->wanted_count;
    return KN_OK;
}

/* The graph of several devices becomes one for each. */
static kn_status cut_up(plan_making *making, kn_part cuts[KN_CONTEXT_DEVICES]) {
    kn_plan *head = making->plan;
    kn_graph *whole = head->graph;
    kn_making simplified = {.host = &head->host,
                            .graph = whole,
                            .wanted = head->values,
                            .wanted_count = head->value_count,
                            .error = making->error};
    int *homes = NULL, transfers = 0, devices = kn_context_device_count(head->context);
    head->places = kn_arena_take(&head->arena, head->value_count, sizeof *head->places);
    head->parts = kn_arena_take(&head->arena, (size_t)devices, sizeof(kn_plan *));
    if (!head->places || !head->parts)
        return kn_fail_memory(making->error, head->value_count * sizeof *head->places);
    kn_status status = kn_devices_settle(head->context, head->states, whole, &homes, making->error);
    if (status == KN_OK) status = kn_pass_simplify(&simplified);
    if (status == KN_OK)
        status = kn_cut_graph(head->context, whole, homes, head->values, head->value_count, cuts,
                              head->places, &transfers, making->error);
    if (status != KN_OK) return status;
    kn_graph_destroy(&head->graph);
    head->exchanges = kn_arena_take(&head->arena, (size_t)transfers, sizeof *head->exchanges);
    if (!head->exchanges) return kn_fail_memory(making->error, (size_t)transfers * sizeof *head->exchanges);
    head->exchange_count = transfers;
    return KN_OK;
}

static kn_status make_parts(plan_making *making) {
    kn_plan *head = making->plan;
    kn_part cuts[KN_CONTEXT_DEVICES] = {{.graph = NULL}};
    int devices = kn_context_device_count(head->context), taken = 0;
    kn_status status = cut_up(making, cuts);
    for (; taken < devices && status == KN_OK; taken++)
        status = add_part(making, &cuts[taken], taken);
    for (int i = head->part_count; i < devices; i++)
        kn_graph_destroy(&cuts[i].graph);
    for (int i = 0; i < devices && status == KN_OK; i++) {
        plan_making own = {.request = making->request,
                           .keeps = making->keeps,
                           .plan = head->parts[i],
                           .error = making->error};
        status = make_part(&own);
        making->kept = making->kept || own.kept;
        if (status != KN_OK)
            return kn_fail_in(making->error, "on the device '%s' (%s)",
                              kn_context_device_name(head->context, i),
                              kn_context_device(head->parts[i]->context)->name);
        add_info(&head->total, &head->parts[i]->info);
    }
    tell_own(head);
    return status == KN_OK ? kn_exchanges_make(head, making->error) : status;
}

static kn_status make(plan_making *making) {
    kn_plan *plan = making->plan;
    kn_status status = bind_graph(making);
    if (status == KN_OK && making->several) return make_parts(making);
    plan->parts = kn_arena_take(&plan->arena, 1, sizeof(kn_plan *));
    if (status == KN_OK && !plan->parts) status = kn_fail_memory(making->error, sizeof(kn_plan *));
    if (status != KN_OK) return status;
    plan->parts[plan->part_count++] = plan->head = plan;
    status = make_part(making);
    if (status == KN_OK) add_info(&plan->total, &plan->info);
    tell_own(plan);
    return status;
}

/* Who times a product of two states wants it each time: "once=never" among the variants. */
static bool keeps_nothing(const kn_session_params *params) {
    return kn_is_forced(params->variants, "once", "never");
}

/* *keeps: whether results of steps that run once may be kept; then, whether there are any. */
static kn_status make_plan(const kn_plan_request *request, bool *keeps, kn_plan **result, kn_error *error) {
    *result = NULL;
    kn_plan *plan = new_plan(request, request->context);
    if (!plan) return kn_fail_memory(error, sizeof *plan);
    plan_making making = {.request = request, .keeps = *keeps, .plan = plan, .error = error};
    kn_status status = make(&making);
    *keeps = making.kept;
    if (status != KN_OK) kn_plan_destroy(&plan);
    *result = plan;
    return status;
}

kn_status kn_plan_make(const kn_plan_request *request, kn_plan **result, kn_error *error) {
    bool keeps = !keeps_nothing(request->params);
    kn_status status = make_plan(request, &keeps, result, error);
    if (status != KN_ERROR_DEVICE_MEMORY || !keeps) return status;
    kn_error_clear(error);
    keeps = false;
    return make_plan(request, &keeps, result, error);
}

void kn_plan_destroy(kn_plan **handle) {
    if (!handle || !*handle) return;
    kn_plan *plan = *handle;
    *handle = NULL;
    for (int i = 1; i < plan->part_count; i++)
        kn_plan_destroy(&plan->parts[i]);
    kn_exchanges_destroy(plan);
    kn_plan_detach(plan);
    for (int i = 0; i < plan->constant_count && plan->constant_buffers; i++)
        kn_buffer_destroy(&plan->constant_buffers[i]);
    for (int i = 0; i < plan->constant_block_count; i++)
        kn_buffer_destroy(&plan->constant_blocks[i]);
    for (int i = 0; i < plan->step_count; i++)
        kn_kernel_destroy(&plan->steps[i].kernel);
    kn_graph_destroy(&plan->graph);
    kn_arena_finish(&plan->arena);
    kn_host host = plan->host;
    kn_release(&host, plan);
}
