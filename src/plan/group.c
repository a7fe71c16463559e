/* Groups of nodes, the values that they read and write, and the consumers of values. */
#include "plan/plan_private.h"

kn_group *kn_group_add(kn_planner *planner) {
    size_t capacity = (size_t)planner->group_capacity;
    if (!kn_reserve(planner->host, (void **)&planner->groups, &capacity, (size_t)planner->group_count + 1,
                    sizeof *planner->groups))
        return NULL;
    planner->group_capacity = (int)capacity;
    kn_group *group = kn_arena_take(planner->arena, 1, sizeof *group);
    if (!group) return NULL;
    group->id = planner->group_count;
    planner->groups[planner->group_count++] = group;
    return group;
}

kn_group *kn_group_of_node(const kn_planner *planner, const kn_node *node) {
    return (size_t)node->id < planner->group_of_count ? planner->group_of[node->id] : NULL;
}

kn_value *kn_group_result(const kn_group *group) {
    return (group->member_count ? group->members[group->member_count - 1] : group->anchor)->outputs[0];
}

bool kn_group_add_member(kn_planner *planner, kn_group *group, kn_node *node) {
    if (group->member_count == group->member_capacity) {
        int capacity = group->member_capacity ? 2 * group->member_capacity : 4;
        kn_node **members = kn_arena_take(planner->arena, (size_t)capacity, sizeof *members);
        if (!members) return false;
        for (int i = 0; i < group->member_count; i++)
            members[i] = group->members[i];
        group->members = members;
        group->member_capacity = capacity;
    }
    /* Members are in graph order, so that each follows the nodes that it reads. */
    int at = group->member_count++;
    while (at > 0 && group->members[at - 1]->id > node->id) {
        group->members[at] = group->members[at - 1];
        at--;
    }
    group->members[at] = node;
    return true;
}

static bool in_group(const kn_group *group, const kn_node *node) {
    if (node == group->anchor || node == group->summed) return true;
    for (int i = 0; i < group->member_count; i++)
        if (group->members[i] == node) return true;
    return false;
}

typedef struct seen_values {
    kn_value *values[256];
    int count;
} seen_values;

static bool seen_before(seen_values *seen, kn_value *value) {
    for (int i = 0; i < seen->count; i++)
        if (seen->values[i] == value) return true;
    if (seen->count < (int)KN_COUNT_OF(seen->values)) seen->values[seen->count++] = value;
    return false;
}

static void visit_reads(const kn_group *group, const kn_node *node, seen_values *seen, kn_visit_value *visit,
                        void *user) {
    for (int i = 0; i < node->input_count; i++) {
        kn_value *value = node->inputs[i];
        if (!value || (value->producer && in_group(group, value->producer)) || seen_before(seen, value))
            continue;
        visit(user, value);
    }
}

void kn_group_reads(const kn_planner *planner, const kn_group *group, kn_visit_value *visit, void *user) {
    (void)planner;
    seen_values seen = {.count = 0};
    if (group->anchor) visit_reads(group, group->anchor, &seen, visit, user);
    if (group->summed) visit_reads(group, group->summed, &seen, visit, user);
    for (int i = 0; i < group->member_count; i++)
        visit_reads(group, group->members[i], &seen, visit, user);
}

/* Whether a value is needed outside its group: by the caller or by a node. */
static bool is_needed_outside(const kn_consumers *consumers, const kn_group *group, const kn_value *value) {
    if (value->wanted) return true;
    for (int i = 0; i < consumers->counts[value->id]; i++)
        if (!in_group(group, consumers->nodes[value->id][i])) return true;
    return false;
}

void kn_group_writes(const kn_planner *planner, const kn_group *group, kn_visit_value *visit, void *user) {
    if (group->anchor) {
        bool epilogue = group->member_count > 0;
        for (int i = epilogue ? 1 : 0; i < group->anchor->output_count; i++)
            visit(user, group->anchor->outputs[i]);
        if (epilogue) visit(user, kn_group_result(group));
        if (group->between) visit(user, group->between);
        if (group->summed) visit(user, group->summed->outputs[0]);
        return;
    }
    for (int i = 0; i < group->member_count; i++)
        if (is_needed_outside(&planner->consumers, group, group->members[i]->outputs[0]))
            visit(user, group->members[i]->outputs[0]);
}

kn_status kn_pass_consumers(kn_planner *planner) {
    kn_consumers *consumers = &planner->consumers;
    kn_graph *graph = planner->graph;
    consumers->value_count = graph->value_count;
    consumers->counts = kn_arena_take(planner->arena, graph->value_count + 1, sizeof *consumers->counts);
    consumers->nodes = kn_arena_take(planner->arena, graph->value_count + 1, sizeof *consumers->nodes);
    if (!consumers->counts || !consumers->nodes) return kn_fail_memory(planner->error, graph->value_count);
    size_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < graph->node_count; i++) {
            kn_node *node = graph->nodes[i];
            planner->work += 1 + (uint64_t)node->input_count;
            for (int j = 0; j < node->input_count; j++) {
                kn_value *value = node->inputs[j];
                if (!value) continue;
                bool again = false;
                for (int k = 0; k < j; k++)
                    again = again || node->inputs[k] == value;
                if (again) continue;
                if (pass) consumers->nodes[value->id][consumers->counts[value->id]] = node;
                consumers->counts[value->id]++;
                total++;
            }
        }
        if (pass) break;
        kn_node **all = kn_arena_take(planner->arena, total + 1, sizeof *all);
        if (!all) return kn_fail_memory(planner->error, total);
        for (size_t i = 0; i < graph->value_count; i++) {
            consumers->nodes[i] = all;
            all += consumers->counts[i];
            consumers->counts[i] = 0;
        }
    }
    return KN_OK;
}
