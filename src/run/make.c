/* Making an executable: the graph is bound and extended, planned, and its steps are made ready (ready.c). The
 * plan then needs memory only (attach.c). */
#include <string.h>

#include "run/run_private.h"

/* An executable while it is made. */
typedef struct making {
    const kn_executable_request *request;
    bool keeps;   /* what depends on states alone, from run to run */
    bool kept;    /* whether there is any of it */
    bool several; /* devices, as the graph was bound */
    kn_executable *executable;
    kn_error *error;
} making;

/* ---- the graph ------------------------------------------------------------------------------- */

static bool may_narrow(const void *user, const kn_value *state) {
    return kn_states_may_narrow(user, state);
}

static kn_status bind_graph(making *work) {
    const kn_executable_request *request = work->request;
    kn_executable *executable = work->executable;
    kn_plan_devices devices;
    executable->value_count = request->value_count;
    executable->values = kn_arena_take(&executable->arena, request->value_count, sizeof(kn_value *));
    executable->infos = kn_arena_take(&executable->arena, request->value_count, sizeof *executable->infos);
    executable->number_count = request->number_count;
    executable->numbers = kn_arena_copy(&executable->arena, request->numbers, request->number_count,
                                        sizeof *executable->numbers);
    if (!executable->values || !executable->infos || !executable->numbers)
        return kn_fail_memory(work->error, request->value_count * sizeof *executable->infos);
    kn_bind_request binding = {.bindings = request->bindings,
                               .binding_count = request->binding_count,
                               .training = request->params->training,
                               .seed = request->params->seed,
                               .narrows = may_narrow,
                               .user = request->states};
    kn_status status = kn_graph_bind(request->graph, request->values, request->value_count, &binding,
                                     &executable->graph, executable->values, work->error);
    kn_devices_of(executable->context, executable->states, &devices);
    if (status == KN_OK) status = kn_devices_mark(&devices, executable->graph, &work->several, work->error);
    if (status == KN_OK && request->extend)
        status = request->extend(request->user, executable->graph, executable->values,
                                 executable->value_count, work->error);
    if (status == KN_OK && executable->graph->error.status)
        status = kn_fail(work->error, executable->graph->error.status, "%s", executable->graph->error.text);
    for (size_t i = 0; i < executable->value_count && status == KN_OK; i++) {
        executable->values[i]->wanted = true;
        executable->infos[i] = kn_info_of(&executable->values[i]->shape);
    }
    return status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static kn_status make_plan(making *work) {
    kn_executable *executable = work->executable;
    const kn_executable_request *request = work->request;
    kn_target target;
    kn_target_of(executable->context, &target);
    target.fast_math = executable->fast_math = request->params->fast_math;
    const kn_plan_request planned = {.arena = &executable->arena,
                                     .graph = executable->graph,
                                     .wanted = executable->values,
                                     .wanted_count = executable->value_count,
                                     .target = &target,
                                     .switches = request->switches,
                                     .judge = &kn_device_judge,
                                     .device = executable->context,
                                     .guard = request->guard,
                                     .keeps = work->keeps && !request->guard,
                                     .seconds = executable->head->pass_seconds};
    return kn_plan_make(&planned, &executable->plan, work->error);
}

/* ---- inputs, states and constants that steps read ------------------------------------------------------ */

static kn_status find_input(making *work, kn_placement *placement) {
    const kn_executable_request *request = work->request;
    kn_executable *executable = work->executable;
    for (int i = 0; i < request->input_count; i++)
        if (!strcmp(request->inputs[i]->name, placement->root->name)) {
            placement->slot = i;
            executable->input_needed[i] = true;
            executable->input_bytes[i] = placement->bytes;
            return KN_OK;
        }
    return kn_fail(work->error, KN_ERROR_INTERNAL, "the input '%s' is not one of the caller's",
                   placement->root->name);
}

/* Counts with `add` false, fills the lists with true. Inputs count where somebody reads them. */
static kn_status list_homes(making *work, bool add) {
    kn_executable *executable = work->executable;
    executable->state_count = executable->constant_count = 0;
    for (size_t i = 0; i < executable->plan.placement_count; i++) {
        kn_placement *placement = &executable->plan.placements[i];
        if (placement->root->id != (int)i || placement->last < 0) continue;
        kn_status status = KN_OK;
        switch (placement->storage) {
        case KN_STORAGE_INPUT:
            if (add) status = find_input(work, placement);
            break;
        case KN_STORAGE_STATE:
            placement->slot = executable->state_count++;
            if (add)
                status = kn_states_ask(executable->states, executable->context, placement->root,
                                       &executable->state_list[placement->slot], work->error);
            break;
        case KN_STORAGE_CONSTANT:
            placement->slot = executable->constant_count++;
            if (add) executable->constants[placement->slot] = placement->root;
            break;
        default:
            break;
        }
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

static kn_status find_homes(making *work) {
    kn_executable *executable = work->executable;
    executable->input_count = work->request->input_count;
    executable->input_bytes =
        kn_arena_take(&executable->arena, (size_t)executable->input_count, sizeof *executable->input_bytes);
    executable->input_needed =
        kn_arena_take(&executable->arena, (size_t)executable->input_count, sizeof *executable->input_needed);
    if (!executable->input_bytes || !executable->input_needed)
        return kn_fail_memory(work->error, (size_t)executable->input_count * sizeof *executable->input_bytes);
    list_homes(work, false);
    executable->state_list =
        kn_arena_take(&executable->arena, (size_t)executable->state_count, sizeof(kn_state *));
    executable->state_kept = kn_arena_take(&executable->arena, (size_t)executable->state_count, sizeof(bool));
    executable->state_written =
        kn_arena_take(&executable->arena, (size_t)executable->state_count, sizeof(bool));
    executable->constants =
        kn_arena_take(&executable->arena, (size_t)executable->constant_count, sizeof(kn_value *));
    if (!executable->state_list || !executable->state_kept || !executable->state_written ||
        !executable->constants)
        return kn_fail_memory(work->error, (size_t)executable->state_count * sizeof(kn_state *));
    return list_homes(work, true);
}

/* ---- what it takes ------------------------------------------------------------------------------------- */

static kn_status sum_up(making *work) {
    kn_executable *executable = work->executable;
    const kn_capabilities *device = kn_context_capabilities(executable->context);
    uint64_t unit = device->alignment_bytes;
    kn_plan_info *info = &executable->info;
    *info = (kn_plan_info){.size = sizeof *info, .scratch_bound_bytes = executable->plan.bound_bytes};
    for (int i = 0; i < executable->plan.block_count; i++)
        info->scratch_bytes += executable->plan.block_bytes[i];
    for (size_t i = 0; i < executable->plan.placement_count; i++)
        if (executable->plan.placements[i].kept)
            info->kept_bytes += kn_align_up(executable->plan.placements[i].bytes, unit);
    for (int i = 0; i < executable->plan.scratch_count; i++)
        if (executable->plan.scratches[i].kept)
            info->kept_bytes += kn_align_up(executable->plan.scratches[i].bytes, unit);
    for (int i = 0; i < executable->state_count; i++)
        info->state_bytes += kn_align_up(executable->state_list[i]->bytes, unit);
    for (int i = 0; i < executable->input_count; i++)
        executable->input_total += 2 * kn_align_up(executable->input_bytes[i], unit);
    for (int i = 0; i < executable->constant_count; i++)
        executable->constant_bytes +=
            kn_align_up(executable->plan.placements[executable->constants[i]->id].bytes, unit);
    info->peak_bytes =
        info->scratch_bytes + info->state_bytes + executable->input_total + executable->constant_bytes;
    info->steps = executable->plan.step_count;
    info->conversions = executable->plan.conversions;
    uint64_t limit = work->request->params->memory_bytes;
    bool joined = executable->context != work->request->context;
    if (!limit || (joined && device->memory_bytes && limit > device->memory_bytes))
        limit = device->memory_bytes;
    if (!limit || info->peak_bytes <= limit) return KN_OK;
    return kn_fail(
        work->error, KN_ERROR_DEVICE_MEMORY,
        "%llu bytes of device memory are needed (states %llu, inputs %llu, values in between %llu), "
        "and %llu are allowed; a smaller batch needs less",
        (unsigned long long)info->peak_bytes, (unsigned long long)info->state_bytes,
        (unsigned long long)executable->input_total, (unsigned long long)info->scratch_bytes,
        (unsigned long long)limit);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What one device has to compute: from its graph to its steps. */
static kn_status make_part(making *work) {
    kn_executable *executable = work->executable;
    kn_status status = kn_check_types(executable->context, executable->graph, work->error);
    if (status == KN_OK) status = make_plan(work);
    if (status == KN_OK) status = find_homes(work);
    if (status == KN_OK) status = sum_up(work);
    if (status == KN_OK) status = kn_executable_ready(executable, work->request, work->error);
    for (int i = 0; i < executable->plan.step_count; i++)
        work->kept = work->kept || executable->plan.once[i];
    return status;
}

static kn_executable *new_executable(const kn_executable_request *request, kn_context *context) {
    const kn_host *host = kn_context_host(request->context);
    kn_executable *executable = kn_allocate(host, 1, sizeof *executable);
    if (!executable) return NULL;
    executable->host = *host;
    executable->context = context;
    executable->states = request->states;
    executable->guard = request->guard;
    kn_arena_init(&executable->arena, &executable->host);
    return executable;
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

static void tell_own(kn_executable *head) {
    head->total.own_peak_bytes = head->info.peak_bytes;
    head->total.own_state_bytes = head->info.state_bytes;
}

/* The part of a device, with its graph; the first is the head itself. */
static kn_status add_part(making *work, const kn_part *cut, int device) {
    kn_executable *head = work->executable, *part = head;
    if (device) part = new_executable(work->request, kn_context_device_at(head->context, device));
    if (!part) return kn_fail_memory(work->error, sizeof *part);
    head->parts[head->part_count++] = part;
    part->head = head;
    part->graph = cut->graph;
    part->values = cut->wanted;
    part->value_count = cut->wanted_count;
    return KN_OK;
}

/* The graph of several devices becomes one for each. */
static kn_status cut_up(making *work, kn_part cuts[KN_CONTEXT_DEVICES]) {
    kn_executable *head = work->executable;
    kn_graph *whole = head->graph;
    int *homes = NULL, transfers = 0, count = kn_context_device_count(head->context);
    kn_plan_devices devices;
    kn_devices_of(head->context, head->states, &devices);
    head->places = kn_arena_take(&head->arena, head->value_count, sizeof *head->places);
    head->parts = kn_arena_take(&head->arena, (size_t)count, sizeof(kn_executable *));
    if (!head->places || !head->parts)
        return kn_fail_memory(work->error, head->value_count * sizeof *head->places);
    kn_status status = kn_devices_assign(&devices, whole, &homes, work->error);
    if (status == KN_OK)
        status = kn_cut_graph(whole, homes, head->values, head->value_count, count, cuts, head->places,
                              &transfers, work->error);
    if (status != KN_OK) return status;
    kn_graph_destroy(&head->graph);
    head->exchanges = kn_arena_take(&head->arena, (size_t)transfers, sizeof *head->exchanges);
    if (!head->exchanges) return kn_fail_memory(work->error, (size_t)transfers * sizeof *head->exchanges);
    head->exchange_count = transfers;
    return KN_OK;
}

static kn_status make_parts(making *work) {
    kn_executable *head = work->executable;
    kn_part cuts[KN_CONTEXT_DEVICES] = {{.graph = NULL}};
    int devices = kn_context_device_count(head->context), taken = 0;
    kn_status status = cut_up(work, cuts);
    for (; taken < devices && status == KN_OK; taken++)
        status = add_part(work, &cuts[taken], taken);
    for (int i = head->part_count; i < devices; i++)
        kn_graph_destroy(&cuts[i].graph);
    for (int i = 0; i < devices && status == KN_OK; i++) {
        making own = {.request = work->request,
                      .keeps = work->keeps,
                      .executable = head->parts[i],
                      .error = work->error};
        status = make_part(&own);
        work->kept = work->kept || own.kept;
        if (status != KN_OK)
            return kn_fail_in(work->error, "on the device '%s' (%s)",
                              kn_context_device_name(head->context, i),
                              kn_context_device(head->parts[i]->context)->name);
        add_info(&head->total, &head->parts[i]->info);
    }
    tell_own(head);
    return status == KN_OK ? kn_exchanges_make(head, work->error) : status;
}

static kn_status make(making *work) {
    kn_executable *executable = work->executable;
    executable->pass_seconds = kn_arena_take(&executable->arena, (size_t)kn_plan_pass_count, sizeof(double));
    if (!executable->pass_seconds)
        return kn_fail_memory(work->error, (size_t)kn_plan_pass_count * sizeof(double));
    kn_status status = bind_graph(work);
    if (status == KN_OK && work->several) return make_parts(work);
    executable->parts = kn_arena_take(&executable->arena, 1, sizeof(kn_executable *));
    if (status == KN_OK && !executable->parts) status = kn_fail_memory(work->error, sizeof(kn_executable *));
    if (status != KN_OK) return status;
    executable->parts[executable->part_count++] = executable->head = executable;
    status = make_part(work);
    if (status == KN_OK) add_info(&executable->total, &executable->info);
    tell_own(executable);
    return status;
}

/* *keeps: whether results of steps that run once may be kept; then, whether there are any. */
static kn_status make_executable(const kn_executable_request *request, bool *keeps, kn_executable **result,
                                 kn_error *error) {
    *result = NULL;
    kn_executable *executable = new_executable(request, request->context);
    if (!executable) return kn_fail_memory(error, sizeof *executable);
    making work = {.request = request, .keeps = *keeps, .executable = executable, .error = error};
    kn_status status = make(&work);
    *keeps = work.kept;
    if (status != KN_OK) kn_executable_destroy(&executable);
    *result = executable;
    return status;
}

kn_status kn_executable_make(const kn_executable_request *request, kn_executable **result, kn_error *error) {
    bool keeps = !request->switches->recompute_invariant;
    kn_status status = make_executable(request, &keeps, result, error);
    if (status != KN_ERROR_DEVICE_MEMORY || !keeps) return status;
    kn_error_clear(error);
    keeps = false;
    return make_executable(request, &keeps, result, error);
}

void kn_executable_destroy(kn_executable **handle) {
    if (!handle || !*handle) return;
    kn_executable *executable = *handle;
    *handle = NULL;
    for (int i = 1; i < executable->part_count; i++)
        kn_executable_destroy(&executable->parts[i]);
    kn_exchanges_destroy(executable);
    kn_executable_detach(executable);
    for (int i = 0; i < executable->constant_count && executable->constant_buffers; i++)
        kn_buffer_destroy(&executable->constant_buffers[i]);
    for (int i = 0; i < executable->constant_block_count; i++)
        kn_buffer_destroy(&executable->constant_blocks[i]);
    for (int i = 0; i < executable->step_count; i++)
        kn_kernel_destroy(&executable->steps[i].kernel);
    kn_graph_destroy(&executable->graph);
    kn_arena_finish(&executable->arena);
    kn_host host = executable->host;
    kn_release(&host, executable);
}
