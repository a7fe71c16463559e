/* The statistics pass: where possible, the kernel that computes an image collects the statistics of its
 * channels, which saves the following batch norm a read of the image. */
#include "plan/plan_private.h"

kn_status kn_pass_statistics(kn_planner *planner) {
    if (planner->switches->separate_statistics) return KN_OK;
    for (int i = 0; i < planner->group_count; i++) {
        kn_group *group = planner->groups[i];
        if (!group->variant || !group->variant->promise.gathers) continue;
        const kn_value *result = kn_group_result(group);
        if (result->layout != KN_LAYOUT_BLOCKED || result->shape.dtype != KN_FLOAT32) continue;
        for (int c = 0; c < planner->consumers.counts[result->id]; c++) {
            const kn_node *node = planner->consumers.nodes[result->id][c];
            kn_group *reader = kn_group_of_node(planner, node);
            if (!reader || reader->anchor != node || !reader->variant ||
                !reader->variant->promise.takes_statistics || node->inputs[0] != result)
                continue;
            if (!group->gathers) group->gathers = kn_arena_take(planner->arena, 1, sizeof *group->gathers);
            if (!group->gathers) return kn_fail_memory(planner->error, sizeof *group->gathers);
            reader->gathered = group->gathers;
        }
    }
    return KN_OK;
}
