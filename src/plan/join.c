/* Nodes that the one behind them computes on the way, as the convolution in front of one with a filter for
 * each channel: what lies between never reaches memory, and there is a launch less. */
#include "plan/plan_private.h"

/* Whether nobody but the anchor of `group` reads what `before` makes, and that as its input 0. */
static bool is_private(const kn_making *making, const kn_group *group, const kn_group *before) {
    const kn_value *result = kn_group_result(before);
    const kn_node *node = group->anchor;
    return node->inputs[0] == result && !result->wanted && making->consumers.counts[result->id] == 1 &&
           making->consumers.nodes[result->id][0] == node && node->input_count > 1 &&
           node->inputs[1] != result && before->anchor->output_count == 1;
}

static void look_for_write(void *user, kn_value *value) {
    bool *written = user;
    *written = *written || kn_value_root(value)->assign;
}

/* Whether a group reads states that the run writes: it has to stay where it is. */
static bool is_bound(const kn_making *making, const kn_group *group) {
    bool written = false;
    kn_group_reads(making, group, look_for_write, &written);
    return written;
}

static bool can_join(const kn_making *making, const kn_group *group, const kn_group *before) {
    if (!before->anchor || !before->variant || !before->variant->joined) return false;
    if (group->gathers || group->gathered || before->gathers || before->gathered) return false;
    return is_private(making, group, before) &&
           group->variant->joins(&making->target, group->anchor, before->anchor) && !is_bound(making, before);
}

/* Puts a group right in front of a later one. */
static void move_before(kn_making *making, kn_group *group, const kn_group *later) {
    int at = group->id;
    for (; at + 1 < later->id; at++) {
        making->work++;
        making->groups[at] = making->groups[at + 1];
        making->groups[at]->id = at;
    }
    making->groups[at] = group;
    group->id = at;
}

void kn_join_groups(kn_making *making) {
    if (kn_is_forced(making->variants, "joins", "none")) return;
    const bool all = kn_is_forced(making->variants, "joins", "all");
    for (int i = 1; i < making->group_count; i++) {
        kn_group *group = making->groups[i];
        if (!group->variant || !group->variant->joins) continue;
        const kn_node *maker = group->anchor->inputs[0]->producer;
        kn_group *before = maker ? kn_group_of_node(making, maker) : NULL;
        if (!before || !can_join(making, group, before)) continue;
        if (!all && !kn_join_believed(making->context, group->anchor, before->anchor)) continue;
        move_before(making, before, group);
        group->before = before;
        before->joined = true;
    }
}
