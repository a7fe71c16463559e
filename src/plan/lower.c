/* The lower pass: groups become steps. */
#include "ops/ops.h"
#include "plan/plan_private.h"

/* Sets the kernel's name in steps from `first`, for reports. */
static kn_status name_tuned(kn_planner *planner, const kn_group *group, int first) {
    char name[KN_KERNEL_NAME];
    if (!group->tuned) return KN_OK;
    kn_kernel_name(group->variant, group->tile, name);
    const char *kept = kn_arena_text(planner->arena, name);
    if (!kept) return kn_fail_memory(planner->error, sizeof name);
    for (int i = first; i < planner->emitter.step_count; i++)
        planner->emitter.steps[i]->tuned = kept;
    return KN_OK;
}

static kn_status lower_anchor(kn_planner *planner, kn_group *group) {
    kn_node *node = group->anchor;
    kn_lowering lowering = {.target = planner->target,
                            .node = node,
                            .emitter = &planner->emitter,
                            .tile = group->tile ? group->tile : planner->switches->tile,
                            .error = planner->error};
    if (node->op->class == KN_CLASS_ASSIGN) {
        kn_value *state = node->inputs[0], *value = node->inputs[1];
        if (state->on_host) return kn_emit_store(&lowering, value);
        if (kn_memory_root(planner, value) == state) return KN_OK; /* updated in place */
        return kn_emit_copy(&lowering, value, state);
    }
    kn_epilogue epilogue, producer_epilogue;
    kn_producer producer;
    lowering.gathers = group->gathers;
    lowering.gathered = group->gathered;
    lowering.result = kn_group_result(group);
    lowering.summed = group->summed ? group->summed->outputs[0] : NULL;
    if (group->member_count) {
        kn_status status = kn_make_epilogue(planner, group, false, &epilogue);
        if (status != KN_OK) return status;
        lowering.epilogue = &epilogue;
    }
    if (group->producer) {
        producer = (kn_producer){.node = group->producer->anchor};
        lowering.producer = &producer;
        if (group->producer->member_count) {
            kn_status status = kn_make_epilogue(planner, group->producer, true, &producer_epilogue);
            if (status != KN_OK) return status;
            producer.epilogue = &producer_epilogue;
        }
    }
    const int first = planner->emitter.step_count;
    kn_status status = kn_variant_lower(group->variant, &lowering);
    if (status != KN_OK) return kn_fail_in(planner->error, "%s '%s'", node->op->name, node->name);
    return name_tuned(planner, group, first);
}

kn_status kn_pass_lower(kn_planner *planner) {
    kn_status status = KN_OK;
    for (int i = 0; i < planner->group_count && status == KN_OK; i++) {
        kn_group *group = planner->groups[i];
        planner->work++;
        if (group->fused) continue;
        status = group->anchor ? lower_anchor(planner, group) : kn_lower_pointwise(planner, group);
        if (status != KN_OK) break;
        size_t steps = (size_t)planner->emitter.step_count, before = planner->step_group_count;
        if (!kn_reserve(planner->host, (void **)&planner->step_group, &planner->step_group_capacity,
                        steps + 1, sizeof *planner->step_group))
            return kn_fail_memory(planner->error, steps * sizeof *planner->step_group);
        for (size_t s = before; s < steps; s++)
            planner->step_group[s] = i;
        planner->step_group_count = steps;
    }
    /* A lowering that reads an attribute that its row does not have fails the graph. */
    if (status == KN_OK && kn_graph_status(planner->graph) != KN_OK)
        return kn_fail(planner->error, kn_graph_status(planner->graph), "%s", kn_graph_error(planner->graph));
    return status;
}
