/* The recompute pass: if the values that wait for the backward pass would need too much memory, groups of the
 * forward pass run again in the backward pass (chosen by recompute_choice.c). They use the same kernels, so
 * they give the same bits. */
#include <string.h>

#include "plan/recompute.h"

typedef struct recompute_pass {
    kn_recomputation chosen;
    kn_value **instead;  /* by value id: the recomputed value, or a view of it */
    kn_group **repeated; /* by group: its recomputation */
    size_t values;       /* length of `instead` */
} recompute_pass;

static kn_status fail(const kn_planner *planner) {
    const kn_graph *graph = planner->graph;
    if (graph->error.status == KN_OK) return kn_fail_memory(planner->error, sizeof(kn_node));
    return kn_error_copy(planner->error, &graph->error);
}

/* ---- nodes that run again ------------------------------------------------------------------------------ */

static kn_node *repeat_node(recompute_pass *pass, const kn_group *group, const kn_node *node);

/* What a recomputed node, or a node of the backward pass, reads instead of a value; NULL: failed. */
static kn_value *replacement(recompute_pass *pass, kn_value *value) {
    if ((size_t)value->id >= pass->values || !kn_recomputation_repeats(&pass->chosen, value)) return value;
    if (!pass->instead[value->id] && value->producer->op->class == KN_CLASS_VIEW &&
        !repeat_node(pass, NULL, value->producer))
        return NULL;
    return pass->instead[value->id];
}

static bool is_of_group(const kn_planner *planner, const kn_group *group, const kn_value *value) {
    return group && value->producer && kn_group_of_node(planner, value->producer) == group;
}

/* Recomputes a node of `group`; NULL: a view. */
static kn_node *repeat_node(recompute_pass *pass, const kn_group *group, const kn_node *node) {
    kn_planner *planner = pass->chosen.planner;
    kn_value *inputs[KN_MAX_INPUTS];
    for (int i = 0; i < node->input_count; i++) {
        kn_value *value = node->inputs[node->op->hidden_inputs >> i & 1 ? 1 : i];
        inputs[i] = !value                               ? NULL
                    : is_of_group(planner, group, value) ? pass->instead[value->id]
                                                         : replacement(pass, value);
        if (value && !inputs[i]) return NULL;
    }
    kn_node *made = kn_node_repeat(planner->graph, node, inputs);
    for (int i = 0; made && i < node->output_count; i++)
        pass->instead[node->outputs[i]->id] = made->outputs[i];
    return made;
}

/* The statistics that a recomputed group collects, for another group. */
static const kn_statistics *gathered_again(recompute_pass *pass, const kn_group *group) {
    kn_value *x = group->anchor->inputs[0];
    if (!kn_recomputation_repeats(&pass->chosen, x)) return group->gathered;
    kn_group *maker = pass->repeated[pass->chosen.maker[kn_value_root(x)->id]];
    if (!maker->gathers)
        maker->gathers = kn_arena_take(pass->chosen.planner->arena, 1, sizeof *maker->gathers);
    return maker->gathers;
}

static kn_group *repeat_group(recompute_pass *pass, const kn_group *group) {
    kn_planner *planner = pass->chosen.planner;
    kn_group *made = kn_arena_take(planner->arena, 1, sizeof *made);
    if (!made) return NULL;
    *made = *group;
    made->gathers = NULL;
    if (group->gathered && !(made->gathered = gathered_again(pass, group))) return NULL;
    made->members = NULL;
    made->member_count = made->member_capacity = 0;
    if (group->anchor && !(made->anchor = repeat_node(pass, group, group->anchor))) return NULL;
    for (int m = 0; m < group->member_count; m++) {
        kn_node *node = repeat_node(pass, group, group->members[m]);
        if (!node || !kn_group_add_member(planner, made, node)) return NULL;
    }
    if (group->between) made->between = pass->instead[group->between->id];
    return made;
}

/* ---- the pass ------------------------------------------------------------------------------------------ */

/* Makes the nodes of a group of the backward pass read recomputed values. */
static bool read_again(recompute_pass *pass, kn_group *group) {
    for (int m = -2; m < group->member_count; m++) {
        kn_node *node = m < -1 ? group->summed : m < 0 ? group->anchor : group->members[m];
        for (int i = 0; node && i < node->input_count; i++)
            if (node->inputs[i] && !(node->inputs[i] = replacement(pass, node->inputs[i]))) return false;
    }
    return true;
}

static bool rearrange(recompute_pass *pass) {
    kn_planner *planner = pass->chosen.planner;
    const kn_recomputation *chosen = &pass->chosen;
    const int count = planner->group_count;
    kn_group **groups = kn_arena_copy(planner->arena, planner->groups, (size_t)count, sizeof *groups);
    size_t capacity = (size_t)planner->group_capacity;
    if (!groups || !kn_reserve(planner->host, (void **)&planner->groups, &capacity, (size_t)chosen->length,
                               sizeof *planner->groups))
        return false;
    planner->group_capacity = (int)capacity;
    for (int at = 0; at < chosen->length; at++) {
        const int g = chosen->order[at] % count;
        kn_group *group = groups[g];
        if (chosen->order[at] >= count) {
            group = pass->repeated[g] = repeat_group(pass, group);
            if (!group) return false;
        } else if (g >= chosen->turn && !read_again(pass, group)) {
            return false;
        }
        planner->groups[at] = group;
        group->id = at;
    }
    planner->group_count = chosen->length;
    planner->repeats.count = chosen->length - count;
    return true;
}

/* Extends the arrays of earlier passes by value and node id for the added ones. */
static bool extend(kn_planner *planner, size_t values) {
    const size_t nodes = planner->graph->node_count, all = planner->graph->value_count;
    bool *invariant = kn_arena_take(planner->arena, all + 1, sizeof *invariant);
    kn_group **group_of = kn_arena_take(planner->arena, nodes + 1, sizeof(kn_group *));
    if (!invariant || !group_of) return false;
    memcpy(invariant, planner->invariant, values * sizeof *invariant);
    for (size_t n = 0; n < planner->group_of_count; n++)
        group_of[n] = planner->group_of[n];
    for (int g = 0; g < planner->group_count; g++) {
        kn_group *group = planner->groups[g];
        for (int m = -1; m < group->member_count; m++) {
            const kn_node *node = m < 0 ? group->anchor : group->members[m];
            if (node && (size_t)node->id >= planner->group_of_count) group_of[node->id] = group;
        }
    }
    planner->invariant = invariant;
    planner->group_of = group_of;
    planner->group_of_count = nodes;
    return true;
}

kn_status kn_pass_recompute(kn_planner *planner) {
    recompute_pass pass = {.chosen = {.planner = planner}, .values = planner->graph->value_count};
    if (!planner->request->live_bytes) return KN_OK;
    kn_status status = kn_recomputation_choose(&pass.chosen);
    if (status != KN_OK) return status;
    planner->repeats = (kn_repeats){.live_bytes = pass.chosen.peak, .flops = pass.chosen.flops};
    if (pass.chosen.length == planner->group_count) return KN_OK;
    pass.instead = kn_arena_take(planner->arena, pass.values + 1, sizeof(kn_value *));
    pass.repeated = kn_arena_take(planner->arena, (size_t)planner->group_count + 1, sizeof(kn_group *));
    if (!pass.instead || !pass.repeated) return kn_fail_memory(planner->error, pass.values * 8);
    if (!rearrange(&pass) || !extend(planner, pass.values)) return fail(planner);
    return kn_pass_consumers(planner);
}
