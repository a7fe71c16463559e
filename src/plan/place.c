/* The place pass: every value that a step touches gets its memory. Lifetimes are counted in steps, as they
 * stand after the bucket pass: a value lives from the first step that touches it to the last, what the
 * caller wants to the end of the run, an emitter's scratch during the steps that use it. */
#include "plan/run_private.h"

bool kn_value_bytes(const kn_value *value, uint64_t *bytes) {
    int64_t elements = kn_shape_elements(&value->shape);
    if (elements < 0) return false;
    uint64_t size = kn_dtype_bytes(value->shape.dtype);
    if (size && (uint64_t)elements > UINT64_MAX / size) return false;
    *bytes = (uint64_t)elements * size;
    return true;
}

static void touch(kn_placement *placement, int step) {
    if (placement->first < 0) placement->first = step;
    placement->last = step;
}

/* Who lives where, without addresses yet: homes, roots, sizes. */
static kn_status find_roots(kn_making *making) {
    kn_graph *graph = making->graph;
    making->placement_count = graph->value_count;
    making->placements = kn_arena_take(making->arena, graph->value_count, sizeof *making->placements);
    making->scratches =
        kn_arena_take(making->arena, (size_t)making->emitter.scratch_count, sizeof *making->scratches);
    if (!making->placements || !making->scratches)
        return kn_fail_memory(making->error, graph->value_count * sizeof *making->placements);
    for (size_t i = 0; i < graph->value_count; i++) {
        kn_placement *placement = &making->placements[i];
        kn_value *value = graph->values[i];
        placement->root = kn_memory_root(making, value);
        placement->first = placement->last = -1;
        if (placement->root != value) continue;
        if (!kn_value_bytes(value, &placement->bytes))
            return kn_fail(making->error, KN_ERROR_SHAPE, "the value '%s' is too large: %s", value->name,
                           kn_shape_words(graph, &value->shape));
        switch (value->kind) {
        case KN_VALUE_INPUT:
            placement->home = KN_HOME_INPUT;
            break;
        case KN_VALUE_STATE:
            placement->home = KN_HOME_STATE;
            break;
        case KN_VALUE_CONSTANT:
            placement->home = KN_HOME_CONSTANT;
            break;
        case KN_VALUE_RESULT:
            placement->home = KN_HOME_SCRATCH;
            break;
        }
    }
    for (int i = 0; i < making->emitter.scratch_count; i++)
        making->scratches[i] = (kn_placement){
            .home = KN_HOME_SCRATCH, .bytes = making->emitter.scratch_bytes[i], .first = -1, .last = -1};
    return KN_OK;
}

static kn_status find_lifetimes(kn_making *making) {
    const kn_emitter *emitter = &making->emitter;
    for (int s = 0; s < emitter->step_count; s++) {
        const kn_step *step = emitter->steps[s];
        for (int a = 0; a < step->argument_count; a++) {
            const kn_argument *argument = &step->arguments[a];
            if (argument->kind == KN_ARGUMENT_SCRATCH)
                touch(&making->scratches[argument->integer], s);
            else if (argument->kind == KN_ARGUMENT_VALUE && argument->value)
                touch(&making->placements[making->placements[argument->value->id].root->id], s);
        }
    }
    for (size_t i = 0; i < making->wanted_count; i++) {
        const kn_value *wanted = making->wanted[i];
        kn_placement *placement = &making->placements[making->placements[wanted->id].root->id];
        if (placement->home == KN_HOME_SCRATCH && placement->bytes && placement->first < 0)
            return kn_fail(making->error, KN_ERROR_INTERNAL, "no step computes the value '%s'", wanted->name);
        placement->last = emitter->step_count;
    }
    return KN_OK;
}

static bool needs_place(const kn_placement *placement) {
    return placement->home == KN_HOME_SCRATCH && placement->bytes && placement->first >= 0;
}

/* The placements that need a place, the values' first. */
static int gather(kn_making *making, kn_placement **placements) {
    int count = 0;
    for (size_t i = 0; i < making->placement_count + (size_t)making->emitter.scratch_count; i++) {
        kn_placement *placement = i < making->placement_count
                                      ? &making->placements[i]
                                      : &making->scratches[i - making->placement_count];
        if (!needs_place(placement) || (placement->root && placement->root->id != (int)i)) continue;
        if (placements) placements[count] = placement;
        count++;
    }
    return count;
}

kn_status kn_pass_place(kn_making *making) {
    kn_status status = find_roots(making);
    if (status == KN_OK) status = find_lifetimes(making);
    if (status != KN_OK) return status;
    kn_once_keep(making);
    const kn_capabilities *device = kn_context_capabilities(making->context);
    int count = gather(making, NULL), culprit = -1;
    kn_placement **placements = kn_arena_take(making->arena, (size_t)count, sizeof(kn_placement *));
    kn_tenant *tenants = kn_arena_take(making->arena, (size_t)count, sizeof *tenants);
    if (!placements || !tenants) return kn_fail_memory(making->error, (size_t)count * sizeof *tenants);
    gather(making, placements);
    for (int i = 0; i < count; i++)
        tenants[i] = (kn_tenant){placements[i]->bytes, placements[i]->first, placements[i]->last, 0, 0};
    for (int i = 0; i < count && making->guard; i++)
        tenants[i] = (kn_tenant){placements[i]->bytes + making->guard, 0, making->emitter.step_count, 0, 0};
    status = kn_place(making->arena, tenants, count, device->alignment_bytes, device->largest_block_bytes,
                      &making->block_bytes, &making->block_count, &culprit, &making->work, making->error);
    if (status != KN_OK && culprit >= 0) {
        const kn_value *value = placements[culprit]->root;
        if (!value)
            return kn_fail_in(making->error, "scratch memory of '%s'",
                              making->emitter.steps[placements[culprit]->first]->label);
        return kn_fail_in(making->error, "the value '%s', %s", value->name,
                          kn_shape_words(making->graph, &value->shape));
    }
    if (status != KN_OK) return status;
    making->bound_bytes = kn_place_bound(making->host, tenants, count, device->alignment_bytes);
    for (int i = 0; i < count; i++) {
        placements[i]->block = tenants[i].block;
        placements[i]->offset = tenants[i].offset;
    }
    return KN_OK;
}
