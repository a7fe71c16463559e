/* Statistics of channels are gathered by the kernel that makes an image, where it can: a batch norm behind it
 * then reads the image once less. */
#include "plan/plan_private.h"

static kn_group *group_of_node(const kn_making *making, const kn_node *node) {
    return (size_t)node->id < making->group_of_count ? making->group_of[node->id] : NULL;
}

kn_status kn_share_statistics(kn_making *making) {
    if (kn_is_forced(making->variants, "statistics", "apart")) return KN_OK;
    for (int i = 0; i < making->group_count; i++) {
        kn_group *group = making->groups[i];
        if (!group->variant || !group->variant->gathers) continue;
        const kn_value *result = group->member_count ? group->members[group->member_count - 1]->outputs[0]
                                                     : group->anchor->outputs[0];
        if (result->layout != KN_LAYOUT_BLOCKED || result->shape.dtype != KN_FLOAT32) continue;
        for (int c = 0; c < making->consumers.counts[result->id]; c++) {
            const kn_node *node = making->consumers.nodes[result->id][c];
            kn_group *reader = group_of_node(making, node);
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
