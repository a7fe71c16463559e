/* Making an executable: binds, extends and plans the graph, and prepares the steps (ready.c). Afterwards it
 * only needs memory (attach.c). */
#include <string.h>

#include "run/run_private.h"

/* The state of making an executable. */
typedef struct executable_build {
    const kn_executable_request *request;
    kn_economy *economy;
    bool several; /* the graph needs several devices */
    kn_executable *executable;
    kn_error *error;
} executable_build;

/* ---- the graph ------------------------------------------------------------------------------- */

static kn_dtype stored_type(const void *user, const kn_value *state, kn_dtype type) {
    return kn_states_may_narrow(user, state, type) ? type : state->shape.dtype;
}

static const kn_block_type *stored_blocks(const void *user, const kn_value *state, bool training) {
    return kn_states_blocks(user, state, training);
}

/* Marks the inputs that are fed as bytes. */
static void scale_inputs(const kn_executable_request *request, const kn_graph *bound) {
    for (size_t v = 0; v < bound->value_count; v++)
        for (int i = 0; i < request->input_count && bound->values[v]->kind == KN_VALUE_INPUT; i++)
            if (!strcmp(request->inputs[i]->name, bound->values[v]->name))
                bound->values[v]->scale = request->scales[i];
}

static kn_status bind_graph(executable_build *build) {
    const kn_executable_request *request = build->request;
    kn_executable *executable = build->executable;
    kn_plan_devices devices;
    executable->value_count = request->value_count;
    executable->values = kn_arena_take(&executable->arena, request->value_count, sizeof(kn_value *));
    executable->infos = kn_arena_take(&executable->arena, request->value_count, sizeof *executable->infos);
    executable->number_count = request->number_count;
    executable->numbers = kn_arena_copy(&executable->arena, request->numbers, request->number_count,
                                        sizeof *executable->numbers);
    executable->scales = kn_arena_copy(&executable->arena, request->scales, (size_t)request->input_count,
                                       sizeof *executable->scales);
    if (!executable->values || !executable->infos || !executable->numbers || !executable->scales)
        return kn_fail_memory(build->error, request->value_count * sizeof *executable->infos);
    kn_bind_request binding = {.bindings = request->bindings,
                               .binding_count = request->binding_count,
                               .training = request->params->training,
                               .seed = request->params->seed,
                               .narrows = stored_type,
                               .blocks = stored_blocks,
                               .user = request->states,
                               .precision = kn_precision_type(request->params->precision),
                               .rounds_activations = request->params->activations == KN_ACTIVATIONS_INT8};
    kn_status status = kn_graph_bind(request->graph, request->values, request->value_count, &binding,
                                     &executable->graph, executable->values, build->error);
    if (status == KN_OK) scale_inputs(request, executable->graph);
    kn_devices_of(executable->context, executable->states, &devices);
    if (status == KN_OK) status = kn_devices_mark(&devices, executable->graph, &build->several, build->error);
    if (status == KN_OK && request->extend)
        status = request->extend(request->user, executable->graph, executable->values,
                                 executable->value_count, build->error);
    if (status == KN_OK && executable->graph->error.status)
        status = kn_error_copy(build->error, &executable->graph->error);
    for (size_t i = 0; i < executable->value_count && status == KN_OK; i++) {
        executable->values[i]->wanted = true;
        executable->infos[i] = kn_info_of(&executable->values[i]->shape);
    }
    return status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static kn_status make_plan(executable_build *build) {
    kn_executable *executable = build->executable;
    const kn_executable_request *request = build->request;
    kn_target target;
    kn_target_of(executable->context, &target);
    target.fast_math = executable->fast_math = request->params->fast_math;
    executable->precision = request->params->precision;
    if (executable->precision == KN_PRECISION_TF32) kn_context_tell_tf32(executable->context);
    const kn_plan_request planned = {.arena = &executable->arena,
                                     .graph = executable->graph,
                                     .wanted = executable->values,
                                     .wanted_count = executable->value_count,
                                     .target = &target,
                                     .switches = request->switches,
                                     .verdicts = &kn_device_verdicts,
                                     .device = executable->context,
                                     .guard = request->guard,
                                     .precision = kn_precision_type(executable->precision),
                                     .tf32 = executable->precision == KN_PRECISION_TF32,
                                     .live_bytes = build->economy->live_bytes,
                                     .keeps = build->economy->keeps && !request->guard,
                                     .seconds = executable->head->pass_seconds};
    return kn_plan_make(&planned, &executable->plan, build->error);
}

/* ---- inputs, states and constants that steps read ------------------------------------------------------ */

static kn_status find_input(executable_build *build, kn_placement *placement) {
    const kn_executable_request *request = build->request;
    kn_executable *executable = build->executable;
    for (int i = 0; i < request->input_count; i++)
        if (!strcmp(request->inputs[i]->name, placement->root->name)) {
            placement->slot = i;
            executable->input_needed[i] = true;
            executable->input_bytes[i] = placement->bytes;
            return KN_OK;
        }
    return kn_fail(build->error, KN_ERROR_INTERNAL, "input '%s' is not in the caller's graph",
                   placement->root->name);
}

/* Counts states and constants that steps access; with `add`, fills the lists too, and finds the inputs. */
static kn_status list_storage(executable_build *build, bool add) {
    kn_executable *executable = build->executable;
    executable->state_count = executable->constant_count = 0;
    for (size_t i = 0; i < executable->plan.placement_count; i++) {
        kn_placement *placement = &executable->plan.placements[i];
        /* Each worker knows a sharded state, even if its shard is empty. */
        const bool accessed = placement->last >= 0 || placement->root->on_host ||
                              (placement->root->whole && placement->root->assign);
        if (placement->root->id != (int)i || !accessed) continue;
        kn_status status = KN_OK;
        switch (placement->storage) {
        case KN_STORAGE_INPUT:
            if (add) status = find_input(build, placement);
            break;
        case KN_STORAGE_STATE:
            placement->slot = executable->state_count++;
            if (add)
                status = kn_states_use(executable->states, executable->context, placement->root,
                                       &executable->state_list[placement->slot], build->error);
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

static kn_status find_storage(executable_build *build) {
    kn_executable *executable = build->executable;
    executable->input_count = build->request->input_count;
    executable->input_bytes =
        kn_arena_take(&executable->arena, (size_t)executable->input_count, sizeof *executable->input_bytes);
    executable->input_needed =
        kn_arena_take(&executable->arena, (size_t)executable->input_count, sizeof *executable->input_needed);
    if (!executable->input_bytes || !executable->input_needed)
        return kn_fail_memory(build->error,
                              (size_t)executable->input_count * sizeof *executable->input_bytes);
    list_storage(build, false);
    executable->state_list =
        kn_arena_take(&executable->arena, (size_t)executable->state_count, sizeof(kn_state *));
    executable->state_kept = kn_arena_take(&executable->arena, (size_t)executable->state_count, sizeof(bool));
    executable->state_written =
        kn_arena_take(&executable->arena, (size_t)executable->state_count, sizeof(bool));
    executable->constants =
        kn_arena_take(&executable->arena, (size_t)executable->constant_count, sizeof(kn_value *));
    if (!executable->state_list || !executable->state_kept || !executable->state_written ||
        !executable->constants)
        return kn_fail_memory(build->error, (size_t)executable->state_count * sizeof(kn_state *));
    return list_storage(build, true);
}

/* ---- memory limit ------------------------------------------------------------------------------ */

static kn_status compute_info(executable_build *build) {
    kn_executable *executable = build->executable;
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
    for (int i = 0; i < executable->state_count; i++) {
        const kn_state *state = executable->state_list[i];
        if (state->on_host)
            info->host_bytes += state->bytes;
        else
            info->state_bytes += kn_align_up(state->bytes, unit);
    }
    for (size_t i = 0; i < executable->plan.placement_count; i++) {
        const kn_placement *placement = &executable->plan.placements[i];
        if (placement->root->id == (int)i && placement->storage == KN_STORAGE_STATE &&
            (placement->last >= 0 || placement->root->on_host) && placement->root->role == KN_STATE_OPTIMIZER)
            info->moment_bytes += placement->bytes;
    }
    for (int i = 0; i < executable->input_count; i++)
        executable->input_total += 2 * kn_align_up(executable->input_bytes[i], unit);
    for (int i = 0; i < executable->constant_count; i++)
        executable->constant_bytes +=
            kn_align_up(executable->plan.placements[executable->constants[i]->id].bytes, unit);
    info->peak_bytes =
        info->scratch_bytes + info->state_bytes + executable->input_total + executable->constant_bytes;
    info->staging_bytes = kn_executable_staging_bytes(executable);
    info->steps = executable->plan.step_count;
    info->conversions = executable->plan.conversions;
    executable->economies = (build->economy->keeps ? 0 : KN_ECONOMY_KEEP_NOTHING) |
                            (executable->plan.repeats.count ? KN_ECONOMY_RECOMPUTE : 0) |
                            (info->host_bytes ? KN_ECONOMY_HOST : 0);
    info->recomputed = executable->plan.repeats.count;
    info->recomputed_flops = executable->plan.repeats.flops;
    uint64_t limit = build->request->params->memory_bytes;
    bool joined = executable->context != build->request->context;
    if (!limit || (joined && device->memory_bytes && limit > device->memory_bytes))
        limit = device->memory_bytes;
    if (!limit || info->peak_bytes <= limit) return KN_OK;
    build->economy->needed = info->peak_bytes;
    build->economy->limit = limit;
    build->economy->scratch = info->scratch_bytes;
    build->economy->live = executable->plan.repeats.live_bytes;
    return kn_fail(build->error, KN_ERROR_DEVICE_MEMORY,
                   "%llu bytes of device memory are needed (states %llu, inputs %llu, intermediate values "
                   "%llu)%s, but only %llu are allowed; use a smaller batch",
                   (unsigned long long)info->peak_bytes, (unsigned long long)info->state_bytes,
                   (unsigned long long)executable->input_total, (unsigned long long)info->scratch_bytes,
                   info->recomputed ? " even with recomputation" : "", (unsigned long long)limit);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Plans the graph of one device and prepares its steps. */
static kn_status make_part(executable_build *build) {
    kn_executable *executable = build->executable;
    kn_status status = kn_check_types(executable->context, executable->graph, build->error);
    if (status == KN_OK) status = make_plan(build);
    if (status == KN_OK) status = find_storage(build);
    if (status == KN_OK) status = compute_info(build);
    if (status == KN_OK) status = kn_executable_ready(executable, build->request, build->error);
    for (int i = 0; i < executable->plan.step_count; i++)
        build->economy->kept = build->economy->kept || executable->plan.once[i];
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
    total->recomputed += own->recomputed;
    total->recomputed_flops += own->recomputed_flops;
    total->moment_bytes += own->moment_bytes;
    total->exchange_bytes += own->exchange_bytes;
    total->host_bytes += own->host_bytes;
    total->staging_bytes += own->staging_bytes;
    total->devices += own->steps > 0;
}

static void set_primary_info(kn_executable *head) {
    head->total.own_peak_bytes = head->info.peak_bytes;
    head->total.own_state_bytes = head->info.state_bytes;
}

/* Adds the part of a device, with its graph; the first part is the head itself. */
static kn_status add_part(executable_build *build, const kn_part *cut, int device) {
    kn_executable *head = build->executable, *part = head;
    if (device) part = new_executable(build->request, kn_context_device_at(head->context, device));
    if (!part) return kn_fail_memory(build->error, sizeof *part);
    head->parts[head->part_count++] = part;
    part->head = head;
    part->graph = cut->graph;
    part->values = cut->wanted;
    part->value_count = cut->wanted_count;
    return KN_OK;
}

/* Splits the graph into one graph per device. */
static kn_status split_graph(executable_build *build, kn_part cuts[KN_CONTEXT_MAX_DEVICES]) {
    kn_executable *head = build->executable;
    kn_graph *whole = head->graph;
    int *homes = NULL, transfers = 0, count = kn_context_device_count(head->context);
    kn_plan_devices devices;
    kn_devices_of(head->context, head->states, &devices);
    head->places = kn_arena_take(&head->arena, head->value_count, sizeof *head->places);
    head->parts = kn_arena_take(&head->arena, (size_t)count, sizeof(kn_executable *));
    if (!head->places || !head->parts)
        return kn_fail_memory(build->error, head->value_count * sizeof *head->places);
    kn_status status = kn_devices_assign(&devices, whole, &homes, build->error);
    if (status == KN_OK)
        status = kn_cut_graph(whole, homes, head->values, head->value_count, count, cuts, head->places,
                              &transfers, build->error);
    if (status != KN_OK) return status;
    kn_graph_destroy(&head->graph);
    head->exchanges = kn_arena_take(&head->arena, (size_t)transfers, sizeof *head->exchanges);
    if (!head->exchanges) return kn_fail_memory(build->error, (size_t)transfers * sizeof *head->exchanges);
    head->exchange_count = transfers;
    return KN_OK;
}

static kn_status make_parts(executable_build *build) {
    kn_executable *head = build->executable;
    kn_part cuts[KN_CONTEXT_MAX_DEVICES] = {{.graph = NULL}};
    int devices = kn_context_device_count(head->context), taken = 0;
    kn_status status = split_graph(build, cuts);
    for (; taken < devices && status == KN_OK; taken++)
        status = add_part(build, &cuts[taken], taken);
    for (int i = head->part_count; i < devices; i++)
        kn_graph_destroy(&cuts[i].graph);
    for (int i = 0; i < devices && status == KN_OK; i++) {
        executable_build own = {.request = build->request,
                                .economy = build->economy,
                                .executable = head->parts[i],
                                .error = build->error};
        status = make_part(&own);
        if (status != KN_OK)
            return kn_fail_in(build->error, "on the device '%s' (%s)",
                              kn_context_device_name_at(head->context, i),
                              kn_context_device(head->parts[i]->context)->name);
        add_info(&head->total, &head->parts[i]->info);
    }
    set_primary_info(head);
    return status == KN_OK ? kn_exchanges_make(head, build->error) : status;
}

static kn_status make(executable_build *build) {
    kn_executable *executable = build->executable;
    executable->pass_seconds = kn_arena_take(&executable->arena, (size_t)kn_plan_pass_count, sizeof(double));
    if (!executable->pass_seconds)
        return kn_fail_memory(build->error, (size_t)kn_plan_pass_count * sizeof(double));
    kn_status status = bind_graph(build);
    if (status == KN_OK && build->several && build->request->totals)
        return kn_fail(
            build->error, KN_ERROR_UNSUPPORTED,
            "operators are pinned to several devices, which is not supported with several workers");
    if (status == KN_OK && build->several) return make_parts(build);
    executable->parts = kn_arena_take(&executable->arena, 1, sizeof(kn_executable *));
    if (status == KN_OK && !executable->parts) status = kn_fail_memory(build->error, sizeof(kn_executable *));
    if (status != KN_OK) return status;
    executable->parts[executable->part_count++] = executable->head = executable;
    status = make_part(build);
    if (status == KN_OK && build->request->totals)
        status = kn_totals_prepare(build->request->totals, executable, build->error);
    executable->info.exchange_bytes = kn_totals_bytes(build->request->totals);
    if (status == KN_OK) add_info(&executable->total, &executable->info);
    set_primary_info(executable);
    return status;
}

kn_status kn_executable_make_with(const kn_executable_request *request, kn_economy *economy,
                                  kn_executable **result, kn_error *error) {
    *result = NULL;
    kn_executable *executable = new_executable(request, request->context);
    if (!executable) return kn_fail_memory(error, sizeof *executable);
    executable_build build = {
        .request = request, .economy = economy, .executable = executable, .error = error};
    economy->kept = false;
    kn_status status = make(&build);
    if (status != KN_OK) kn_executable_destroy(&executable);
    *result = executable;
    return status;
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
    for (int i = 0; executable->steps && i < executable->plan.step_count; i++)
        kn_kernel_destroy(&executable->steps[i].kernel);
    kn_graph_destroy(&executable->graph);
    kn_arena_finish(&executable->arena);
    kn_host host = executable->host;
    kn_release(&host, executable);
}
