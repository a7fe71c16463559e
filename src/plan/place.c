/* The place pass: assigns memory to every value that a step accesses. Lifetimes are in steps, counted after
 * the bucket pass: a value is live from the first to the last step that accesses it, fetched values to the
 * end of the run, and scratch memory during the steps that use it. */
#include "plan/plan_private.h"

static void touch(kn_placement *placement, int step) {
    if (placement->first < 0) placement->first = step;
    placement->last = step;
}

/* Assigns each value its storage class, root and size; offsets come later. */
static kn_status find_roots(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    planner->placement_count = graph->value_count;
    planner->placements = kn_arena_take(planner->arena, graph->value_count, sizeof *planner->placements);
    planner->scratches =
        kn_arena_take(planner->arena, (size_t)planner->emitter.scratch_count, sizeof *planner->scratches);
    if (!planner->placements || !planner->scratches)
        return kn_fail_memory(planner->error, graph->value_count * sizeof *planner->placements);
    for (size_t i = 0; i < graph->value_count; i++) {
        kn_placement *placement = &planner->placements[i];
        kn_value *value = graph->values[i];
        placement->root = kn_memory_root(planner, value);
        placement->first = placement->last = -1;
        if (placement->root != value) continue;
        if (!kn_value_bytes(value, &placement->bytes))
            return kn_fail(planner->error, KN_ERROR_SHAPE, "the value '%s' is too large: %s", value->name,
                           kn_shape_words(graph, &value->shape));
        switch (value->kind) {
        case KN_VALUE_INPUT:
            placement->storage = KN_STORAGE_INPUT;
            break;
        case KN_VALUE_STATE:
            placement->storage = KN_STORAGE_STATE;
            break;
        case KN_VALUE_CONSTANT:
            placement->storage = KN_STORAGE_CONSTANT;
            break;
        case KN_VALUE_RESULT:
            placement->storage = KN_STORAGE_SCRATCH;
            break;
        }
    }
    for (int i = 0; i < planner->emitter.scratch_count; i++)
        planner->scratches[i] = (kn_placement){.storage = KN_STORAGE_SCRATCH,
                                               .bytes = planner->emitter.scratch_bytes[i],
                                               .first = -1,
                                               .last = -1};
    return KN_OK;
}

static kn_status find_lifetimes(kn_planner *planner) {
    const kn_emitter *emitter = &planner->emitter;
    for (int s = 0; s < emitter->step_count; s++) {
        const kn_step *step = emitter->steps[s];
        for (int a = 0; a < step->argument_count; a++) {
            const kn_argument *argument = &step->arguments[a];
            if (argument->kind == KN_ARGUMENT_SCRATCH) touch(&planner->scratches[argument->integer], s);
            if (argument->kind != KN_ARGUMENT_VALUE || !argument->value) continue;
            kn_placement *placement = &planner->placements[planner->placements[argument->value->id].root->id];
            /* An error of an earlier pass, which would give results from uninitialized memory. */
            if (placement->storage == KN_STORAGE_SCRATCH && placement->bytes && placement->first < 0 &&
                !argument->writes)
                return kn_fail(planner->error, KN_ERROR_INTERNAL,
                               "step %d, '%s', reads the value '%s', which no earlier step computes", s,
                               step->label, argument->value->name);
            touch(placement, s);
        }
    }
    for (size_t i = 0; i < planner->wanted_count; i++) {
        const kn_value *wanted = planner->wanted[i];
        kn_placement *placement = &planner->placements[planner->placements[wanted->id].root->id];
        if (placement->storage == KN_STORAGE_SCRATCH && placement->bytes && placement->first < 0)
            return kn_fail(planner->error, KN_ERROR_INTERNAL, "no step computes the value '%s'",
                           wanted->name);
        placement->last = emitter->step_count;
    }
    return KN_OK;
}

/* Inputs, states and constants are not packed here, but each must fit into one allocation, too. */
static kn_status check_given(kn_planner *planner) {
    const uint64_t most = planner->target->largest_block_bytes;
    for (size_t i = 0; i < planner->placement_count; i++) {
        const kn_placement *placement = &planner->placements[i];
        const kn_value *value = planner->graph->values[i];
        if (value->kind == KN_VALUE_RESULT || placement->first < 0 || placement->bytes <= most) continue;
        return kn_fail(
            planner->error, KN_ERROR_DEVICE_MEMORY,
            "the %s '%s', %s, has %llu bytes, but the device allows at most %llu in one allocation",
            value->kind == KN_VALUE_INPUT   ? "input"
            : value->kind == KN_VALUE_STATE ? "state"
                                            : "constant",
            value->name, kn_shape_words(planner->graph, &value->shape), (unsigned long long)placement->bytes,
            (unsigned long long)most);
    }
    return KN_OK;
}

static bool needs_memory(const kn_placement *placement) {
    return placement->storage == KN_STORAGE_SCRATCH && placement->bytes && placement->first >= 0;
}

/* Lists the placements that need memory, values before scratch memory; NULL only counts. Returns how many. */
static int gather(kn_planner *planner, kn_placement **placements) {
    int count = 0;
    for (size_t i = 0; i < planner->placement_count + (size_t)planner->emitter.scratch_count; i++) {
        kn_placement *placement = i < planner->placement_count
                                      ? &planner->placements[i]
                                      : &planner->scratches[i - planner->placement_count];
        if (!needs_memory(placement) || (placement->root && placement->root->id != (int)i)) continue;
        if (placements) placements[count] = placement;
        count++;
    }
    return count;
}

kn_status kn_pass_place(kn_planner *planner) {
    kn_status status = find_roots(planner);
    if (status == KN_OK) status = find_lifetimes(planner);
    if (status == KN_OK) status = check_given(planner);
    if (status != KN_OK) return status;
    kn_once_keep(planner);
    int count = gather(planner, NULL), culprit = -1;
    kn_placement **placements = kn_arena_take(planner->arena, (size_t)count, sizeof(kn_placement *));
    kn_interval *intervals = kn_arena_take(planner->arena, (size_t)count, sizeof *intervals);
    if (!placements || !intervals) return kn_fail_memory(planner->error, (size_t)count * sizeof *intervals);
    gather(planner, placements);
    for (int i = 0; i < count; i++)
        intervals[i] = (kn_interval){placements[i]->bytes, placements[i]->first, placements[i]->last, 0, 0};
    for (int i = 0; i < count && planner->request->guard; i++)
        intervals[i] = (kn_interval){placements[i]->bytes + planner->request->guard, 0,
                                     planner->emitter.step_count, 0, 0};
    status = kn_intervals_place(planner->arena, intervals, count, planner->target->alignment_bytes,
                                planner->target->largest_block_bytes, &planner->block_bytes,
                                &planner->block_count, &culprit, &planner->work, planner->error);
    if (status != KN_OK && culprit >= 0) {
        const kn_value *value = placements[culprit]->root;
        if (!value)
            return kn_fail_in(planner->error, "scratch memory of '%s'",
                              planner->emitter.steps[placements[culprit]->first]->label);
        return kn_fail_in(planner->error, "the value '%s', %s", value->name,
                          kn_shape_words(planner->graph, &value->shape));
    }
    if (status != KN_OK) return status;
    planner->bound_bytes =
        kn_intervals_bound(planner->host, intervals, count, planner->target->alignment_bytes);
    for (int i = 0; i < count; i++) {
        placements[i]->block = intervals[i].block;
        placements[i]->offset = intervals[i].offset;
    }
    return KN_OK;
}
