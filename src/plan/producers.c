/* The producers pass: fuses a node with kernels into its consumer, such as a 1x1 convolution into a depthwise
 * convolution, which saves storing the intermediate and a launch. */
#include "plan/plan_private.h"

/* Whether the anchor of `group` is the only reader of the result of `before`, and reads it only as input
 * 0. */
static bool is_only_reader(const kn_planner *planner, const kn_group *group, const kn_group *before) {
    const kn_value *result = kn_group_result(before);
    const kn_node *node = group->anchor;
    return node->inputs[0] == result && !result->wanted && planner->consumers.counts[result->id] == 1 &&
           planner->consumers.nodes[result->id][0] == node && node->input_count > 1 &&
           node->inputs[1] != result && before->anchor->output_count == 1;
}

static void look_for_write(void *user, kn_value *value) {
    bool *written = user;
    *written = *written || kn_value_root(value)->assign;
}

/* Whether a group reads states that the run writes: then it must keep its position. */
static bool reads_written_state(const kn_planner *planner, const kn_group *group) {
    bool written = false;
    kn_group_reads(planner, group, look_for_write, &written);
    return written;
}

static bool can_fuse(const kn_planner *planner, const kn_group *group, const kn_group *before) {
    if (!before->anchor || !before->variant || !before->variant->promise.fusible) return false;
    if (group->gathers || group->gathered || before->gathers || before->gathered) return false;
    return is_only_reader(planner, group, before) &&
           group->variant->promise.fuses(planner->target, group->anchor, before->anchor) &&
           !reads_written_state(planner, before);
}

static bool is_right(const kn_planner *planner, const kn_node *node, const kn_node *producer) {
    const kn_plan_request *request = planner->request;
    if (planner->switches->producers == KN_PRODUCERS_FUSED) return true;
    return request->verdicts && request->verdicts->fusion_is_right(request->device, node, producer);
}

/* Moves a group directly before a later group. */
static void move_before(kn_planner *planner, kn_group *group, const kn_group *later) {
    int at = group->id;
    for (; at + 1 < later->id; at++) {
        planner->work++;
        planner->groups[at] = planner->groups[at + 1];
        planner->groups[at]->id = at;
    }
    planner->groups[at] = group;
    group->id = at;
}

kn_status kn_pass_producers(kn_planner *planner) {
    if (planner->switches->producers == KN_PRODUCERS_SEPARATE) return KN_OK;
    for (int i = 1; i < planner->group_count; i++) {
        kn_group *group = planner->groups[i];
        if (!group->variant || !group->variant->promise.fuses) continue;
        const kn_node *producer = group->anchor->inputs[0]->producer;
        kn_group *before = producer ? kn_group_of_node(planner, producer) : NULL;
        if (!before || !can_fuse(planner, group, before)) continue;
        if (!is_right(planner, group->anchor, before->anchor)) continue;
        move_before(planner, before, group);
        group->producer = before;
        before->fused = true;
    }
    return KN_OK;
}
