/* Statistics of channels are gathered by the kernel that makes an image, where it can: a batch norm behind it
 * then reads the image once less. */
#include "plan/plan_private.h"

kn_status kn_share_statistics(kn_making *making) {
    if (kn_is_forced(making->variants, "statistics", "apart")) return KN_OK;
    for (int i = 0; i < making->group_count; i++) {
        kn_group *group = making->groups[i];
        if (!group->variant || !group->variant->gathers) continue;
        const kn_value *result = kn_group_result(group);
        if (result->layout != KN_LAYOUT_BLOCKED || result->shape.dtype != KN_FLOAT32) continue;
        for (int c = 0; c < making->consumers.counts[result->id]; c++) {
            const kn_node *node = making->consumers.nodes[result->id][c];
            kn_group *reader = kn_group_of_node(making, node);
            if (!reader || reader->anchor != node || !reader->variant || !reader->variant->takes_statistics ||
                node->inputs[0] != result)
                continue;
            if (!group->gathers) group->gathers = kn_arena_take(making->arena, 1, sizeof *group->gathers);
            if (!group->gathers) return kn_fail_memory(making->error, sizeof *group->gathers);
            reader->gathered = group->gathers;
        }
    }
    return KN_OK;
}
