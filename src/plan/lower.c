/* The lower pass: groups become steps. */
#include "plan/plan_private.h"

static kn_status lower_anchor(kn_making *making, kn_group *group) {
    kn_node *node = group->anchor;
    kn_lowering lowering = {
        .target = &making->target, .node = node, .emitter = &making->emitter, .error = making->error};
    if (node->op->class == KN_CLASS_ASSIGN) {
        kn_value *state = node->inputs[0], *value = node->inputs[1];
        if (kn_memory_root(making, value) == state) return KN_OK; /* updated in place */
        return kn_emit_copy(&lowering, value, state);
    }
    kn_epilogue epilogue, epilogue_before;
    kn_before before;
    lowering.gathers = group->gathers;
    lowering.gathered = group->gathered;
    lowering.result = kn_group_result(group);
    if (group->member_count) {
        kn_status status = kn_make_epilogue(making, group, false, &epilogue);
        if (status != KN_OK) return status;
        lowering.epilogue = &epilogue;
    }
    if (group->before) {
        before = (kn_before){.node = group->before->anchor};
        lowering.before = &before;
        if (group->before->member_count) {
            kn_status status = kn_make_epilogue(making, group->before, true, &epilogue_before);
            if (status != KN_OK) return status;
            before.epilogue = &epilogue_before;
        }
    }
    kn_status status = group->variant->lower(&lowering);
    if (status != KN_OK) return kn_fail_in(making->error, "%s '%s'", node->op->name, node->name);
    return KN_OK;
}

kn_status kn_pass_lower(kn_making *making) {
    kn_status status = kn_consumers_make(making, &making->consumers);
    if (status == KN_OK) status = kn_share_statistics(making);
    if (status == KN_OK) kn_join_groups(making);
    if (status == KN_OK) status = kn_liveness_make(making);
    for (int i = 0; i < making->group_count && status == KN_OK; i++) {
        kn_group *group = making->groups[i];
        making->work++;
        if (group->joined) continue;
        status = group->anchor ? lower_anchor(making, group) : kn_lower_pointwise(making, group);
        if (status != KN_OK) break;
        size_t steps = (size_t)making->emitter.step_count, before = making->step_group_count;
        if (!kn_reserve(making->host, (void **)&making->step_group, &making->step_group_capacity, steps + 1,
                        sizeof *making->step_group))
            return kn_fail_memory(making->error, steps * sizeof *making->step_group);
        for (size_t s = before; s < steps; s++)
            making->step_group[s] = i;
        making->step_group_count = steps;
    }
    return status;
}
