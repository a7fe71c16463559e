/* The liveness pass: which values share memory: views, states updated in place, and results that reuse the
 * memory of an input at its last use. Lifetimes are in positions of groups. */
#include "plan/plan_private.h"

kn_value *kn_memory_root(const kn_planner *planner, kn_value *value) {
    for (;;) {
        value = kn_value_root(value);
        kn_value *next = (size_t)value->id < planner->alias_count ? planner->aliases[value->id] : NULL;
        if (!next) return value;
        value = next;
    }
}

typedef struct read_note {
    kn_planner *planner;
    int position;
} read_note;

static void note_read(void *user, kn_value *value) {
    read_note *reading = user;
    kn_value *root = kn_memory_root(reading->planner, value);
    reading->planner->work++;
    int *last = &reading->planner->last_read[root->id];
    if (*last < reading->position) *last = reading->position;
}

/* By node id: the position of the node's group; -1: none. NULL when out of memory. */
static int *find_positions(kn_planner *planner) {
    size_t count = planner->graph->node_count;
    int *positions = kn_allocate(planner->host, count + 1, sizeof *positions);
    for (size_t i = 0; positions && i < count; i++)
        positions[i] = -1;
    for (int i = 0; positions && i < planner->group_count; i++) {
        const kn_group *group = planner->groups[i];
        planner->work += 1 + (uint64_t)group->member_count;
        if (group->anchor) positions[group->anchor->id] = i;
        if (group->summed) positions[group->summed->id] = i;
        for (int m = 0; m < group->member_count; m++)
            positions[group->members[m]->id] = i;
    }
    return positions;
}

static bool reads(const kn_node *node, const kn_value *value) {
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && kn_value_root(node->inputs[i]) == value) return true;
    return false;
}

/* Whether an anchor's kernels may write `value` over the state: they do not read the state, or support the
 * update in place. */
static bool may_write_over(const kn_group *group, const kn_value *state, const kn_value *value) {
    const kn_node *node = group->anchor;
    for (int i = 0; i < node->input_count; i++) {
        if (!node->inputs[i] || kn_value_root(node->inputs[i]) != state) continue;
        bool in_place = false;
        for (int k = 0; k < (int)KN_COUNT_OF(group->variant->promise.over) && k < node->output_count; k++)
            in_place = in_place || (node->outputs[k] == value && group->variant->promise.over[k] == i + 1);
        if (!in_place || node->inputs[i] != state) return false;
    }
    return true;
}

/* Whether the group that computes `value` may write it directly into the state: no later group reads the old
 * state, and the group itself reads at most the element that it overwrites. */
static bool may_update(const kn_planner *planner, const int *positions, kn_value *state, kn_value *value) {
    if (state->on_host) return false;
    if (value->kind != KN_VALUE_RESULT || value->producer->op->class == KN_CLASS_VIEW) return false;
    if (value->layout != KN_LAYOUT_PLAIN || value->shape.dtype != state->shape.dtype ||
        planner->aliases[value->id])
        return false;
    int position = positions[value->producer->id];
    if (position < 0 || planner->last_read[state->id] > position) return false;
    const kn_group *group = planner->groups[position];
    if (group->anchor) {
        if (!may_write_over(group, state, value)) return false;
        for (int m = 0; m < group->member_count; m++)
            if (reads(group->members[m], state)) return false;
        return true;
    }
    for (int m = 0; m < group->member_count; m++)
        for (int i = 0; i < group->members[m]->input_count; i++) {
            kn_value *input = group->members[m]->inputs[i];
            if (input && kn_value_root(input) == state &&
                (input != state || !kn_shape_same(&input->shape, &group->space)))
                return false;
        }
    return true;
}

static void note_reads(kn_planner *planner) {
    for (int i = 0; i < planner->group_count; i++) {
        const kn_group *group = planner->groups[i];
        if (group->anchor && group->anchor->op->class == KN_CLASS_ASSIGN) continue;
        read_note reading = {planner, i};
        kn_group_reads(planner, group, note_read, &reading);
    }
}

static void update_in_place(kn_planner *planner, const int *positions) {
    for (int i = 0; i < planner->group_count; i++) {
        const kn_group *group = planner->groups[i];
        if (!group->anchor || group->anchor->op->class != KN_CLASS_ASSIGN) continue;
        kn_value *state = group->anchor->inputs[0], *value = group->anchor->inputs[1];
        if (may_update(planner, positions, state, value)) {
            planner->aliases[value->id] = state;
            if (planner->last_read[state->id] < planner->last_read[value->id])
                planner->last_read[state->id] = planner->last_read[value->id];
        } else { /* the assign copies the value, so it reads it */
            read_note reading = {planner, i};
            note_read(&reading, value);
        }
    }
}

kn_status kn_pass_liveness(kn_planner *planner) {
    size_t count = planner->graph->value_count;
    planner->alias_count = count;
    planner->aliases = kn_arena_take(planner->arena, count + 1, sizeof *planner->aliases);
    planner->last_read = kn_arena_take(planner->arena, count + 1, sizeof *planner->last_read);
    int *positions = find_positions(planner);
    if (!planner->aliases || !planner->last_read || !positions) {
        kn_release(planner->host, positions);
        return kn_fail_memory(planner->error, count * 16);
    }
    for (size_t i = 0; i < count; i++)
        planner->last_read[i] = -1;
    note_reads(planner);
    update_in_place(planner, positions);
    kn_release(planner->host, positions);
    for (size_t i = 0; i < planner->wanted_count; i++) {
        read_note reading = {planner, planner->group_count};
        note_read(&reading, planner->wanted[i]);
    }
    return KN_OK;
}

bool kn_reuse_memory(kn_planner *planner, const kn_group *group, kn_value *read, kn_value *written) {
    kn_value *root = kn_memory_root(planner, read);
    if (planner->aliases[written->id]) {
        /* It updates a state in place: it can reuse only the memory of that state. */
        return planner->aliases[written->id] == read;
    }
    if (root->kind != KN_VALUE_RESULT || read->layout != written->layout) return false;
    if (read->shape.dtype != written->shape.dtype || root->shape.dtype != written->shape.dtype) return false;
    if (planner->last_read[root->id] > group->id) return false;
    if (kn_shape_elements(&root->shape) != kn_shape_elements(&written->shape)) return false;
    /* Another input of the group may view the same memory and be read at other elements. */
    for (int m = 0; m < group->member_count; m++)
        for (int i = 0; i < group->members[m]->input_count; i++) {
            kn_value *input = group->members[m]->inputs[i];
            if (input && input != read && kn_memory_root(planner, input) == root) return false;
        }
    planner->aliases[written->id] = root;
    planner->last_read[root->id] = planner->last_read[written->id];
    return true;
}
