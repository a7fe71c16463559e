/* The fuse pass: pointwise nodes that walk the same space become one kernel, and those behind a product
 * or a convolution become its epilogue, so that values in between never reach memory.
 *
 * Nodes come in the order of the graph, each joining the groups of what it reads where that makes no
 * circle. Which group depends on which is kept (depend.h), so that circles are seen. */
#include <string.h>

#include "plan/depend.h"
#include "plan/plan_private.h"

enum { MAX_OPERANDS = 20, MAX_RESULTS = 8, MAX_MEMBERS = 48 };

typedef struct fuse_pass {
    kn_planner *planner;
    kn_depends depends; /* by the groups' ids */
    bool *updates;      /* by node: pointwise, and part of the update of a state */
} fuse_pass;

static kn_group *group_of_value(fuse_pass *fusing, kn_value *value) {
    value = kn_value_root(value);
    return value->producer ? fusing->planner->group_of[value->producer->id] : NULL;
}

static void add_node_dependences(fuse_pass *fusing, const kn_group *group, const kn_node *node) {
    for (int i = 0; i < node->input_count; i++) {
        kn_group *other = node->inputs[i] ? group_of_value(fusing, node->inputs[i]) : NULL;
        if (other && other != group) kn_depends_on(&fusing->depends, group->id, other->id);
    }
}

/* What joins `group` must not read, through other groups or through a view, what comes after it. */
static bool makes_circle(fuse_pass *fusing, const kn_group *group, const kn_node *node) {
    for (int i = 0; i < node->input_count; i++) {
        kn_value *value = node->inputs[i];
        kn_group *other = value ? group_of_value(fusing, value) : NULL;
        if (!other) continue;
        if (other == group && kn_value_root(value) != value) return true;
        if (other != group && kn_depends_reach(&fusing->depends, other->id, group->id, false)) return true;
    }
    return false;
}

typedef struct operand_count {
    int count;
} operand_count;
static void count_operand(void *user, kn_value *value) {
    (void)value;
    ((operand_count *)user)->count++;
}

static bool within_limits(fuse_pass *fusing, kn_group *group) {
    operand_count reads = {0}, writes = {0};
    kn_group_reads(fusing->planner, group, count_operand, &reads);
    kn_group_writes(fusing->planner, group, count_operand, &writes);
    return reads.count <= MAX_OPERANDS && writes.count <= MAX_RESULTS && group->member_count <= MAX_MEMBERS;
}

/* Joins `node` to a pointwise group if that fits. */
static bool join_pointwise(fuse_pass *fusing, kn_group *group, kn_node *node) {
    if (group->anchor || !kn_shape_same(&group->space, &node->outputs[0]->shape)) return false;
    if (makes_circle(fusing, group, node)) return false;
    kn_group trial = *group;
    if (!kn_group_add_member(fusing->planner, &trial, node)) return false;
    if (!within_limits(fusing, &trial)) return false;
    *group = trial;
    fusing->planner->group_of[node->id] = group;
    add_node_dependences(fusing, group, node);
    return true;
}

/* Puts all members of `from` into `into` if nothing between them depends on one and is needed by the other.
 */
static void merge(fuse_pass *fusing, kn_group *into, kn_group *from) {
    kn_planner *planner = fusing->planner;
    if (into == from || into->anchor || from->anchor || !kn_shape_same(&into->space, &from->space)) return;
    if (kn_depends_reach(&fusing->depends, into->id, from->id, true) ||
        kn_depends_reach(&fusing->depends, from->id, into->id, true))
        return;
    /* A member that reads another's result through a view needs it finished. */
    for (int pass = 0; pass < 2; pass++) {
        const kn_group *reader = pass ? into : from, *other = pass ? from : into;
        for (int i = 0; i < reader->member_count; i++)
            for (int j = 0; j < reader->members[i]->input_count; j++) {
                kn_value *value = reader->members[i]->inputs[j];
                if (value && kn_value_root(value) != value && group_of_value(fusing, value) == other) return;
            }
    }
    if (into->member_count + from->member_count > MAX_MEMBERS) return;
    /* In a list of its own: members stand in the order of the graph, so those of `into` move. */
    kn_group trial = *into;
    trial.member_capacity = MAX_MEMBERS;
    trial.members = kn_arena_take(planner->arena, MAX_MEMBERS, sizeof *trial.members);
    if (!trial.members) return;
    memcpy(trial.members, into->members, (size_t)into->member_count * sizeof *trial.members);
    for (int i = 0; i < from->member_count; i++)
        if (!kn_group_add_member(planner, &trial, from->members[i])) return;
    if (!within_limits(fusing, &trial)) return;
    *into = trial;
    for (int i = 0; i < from->member_count; i++)
        planner->group_of[from->members[i]->id] = into;
    from->member_count = 0;
    kn_depends_take(&fusing->depends, into->id, from->id);
}

/* ---- epilogues -------------------------------------------------------------------------------- */

/* The three axes of an epilogue as ranges of dimensions: outer [0,a), middle [a,b), inner [b,rank). */
static void epilogue_axes(const kn_node *anchor, int *middle, int *inner) {
    int rank = anchor->outputs[0]->shape.rank;
    bool image = rank == 4 && !anchor->op->matrices;
    *middle = image ? 1 : rank >= 2 ? rank - 2 : 0;
    *inner = image ? 2 : rank >= 1 ? rank - 1 : 0;
}

/* Whether an operand repeats or follows each of the three axes as a whole. */
static bool operand_fits_axes(const kn_shape *space, const kn_shape *operand, int middle, int inner) {
    int starts[4] = {0, middle, inner, space->rank};
    for (int axis = 0; axis < 3; axis++) {
        bool full = true, single = true;
        for (int d = starts[axis]; d < starts[axis + 1]; d++) {
            int own = d - (space->rank - operand->rank);
            kn_dim size = own < 0 ? 1 : operand->dims[own];
            full = full && size == space->dims[d];
            single = single && size == 1;
        }
        if (!full && !single) return false;
    }
    return true;
}

/* Marks the pointwise nodes from which the graph leads to an assign: an update stays one kernel of its own,
 * which others of its kind can join, instead of being torn apart by the product that makes the gradient. */
static bool find_updates(fuse_pass *fusing) {
    const kn_graph *graph = fusing->planner->graph;
    fusing->updates = kn_arena_take(fusing->planner->arena, graph->node_count + 1, sizeof *fusing->updates);
    if (!fusing->updates) return false;
    for (size_t i = graph->node_count; i-- > 0;) {
        const kn_node *node = graph->nodes[i];
        if (node->op->class != KN_CLASS_POINTWISE) continue;
        const kn_value *result = node->outputs[0];
        for (int c = 0; c < fusing->planner->consumers.counts[result->id]; c++) {
            const kn_node *reader = fusing->planner->consumers.nodes[result->id][c];
            if (reader->op->class == KN_CLASS_ASSIGN || fusing->updates[reader->id])
                fusing->updates[i] = true;
        }
    }
    return true;
}

static bool joins_epilogue(fuse_pass *fusing, kn_group *group, kn_node *node, kn_value *through) {
    if (!group->anchor || !group->variant || !group->variant->promise.takes_epilogue) return false;
    if (fusing->updates[node->id]) return false;
    kn_node *last = group->member_count ? group->members[group->member_count - 1] : group->anchor;
    if (through != last->outputs[0] || through->wanted || fusing->planner->consumers.counts[through->id] != 1)
        return false;
    const kn_shape *space = &group->anchor->outputs[0]->shape;
    if (!kn_shape_same(space, &node->outputs[0]->shape) || node->op->random) return false;
    if (node->outputs[0]->shape.dtype != KN_FLOAT32 || space->dtype != KN_FLOAT32) return false;
    if (makes_circle(fusing, group, node)) return false;
    int middle, inner, operands = 0;
    epilogue_axes(group->anchor, &middle, &inner);
    kn_group trial = *group;
    if (!kn_group_add_member(fusing->planner, &trial, node)) return false;
    for (int m = 0; m < trial.member_count; m++)
        for (int i = 0; i < trial.members[m]->input_count; i++) {
            kn_value *value = trial.members[m]->inputs[i];
            if (!value || (value->producer && (value->producer == group->anchor ||
                                               fusing->planner->group_of[value->producer->id] == group)))
                continue;
            if (value->shape.dtype != KN_FLOAT32 || !operand_fits_axes(space, &value->shape, middle, inner))
                return false;
            operands++;
        }
    if (operands > KN_EPILOGUE_OPERANDS) return false;
    *group = trial;
    fusing->planner->group_of[node->id] = group;
    add_node_dependences(fusing, group, node);
    return true;
}

/* ---- the pass ------------------------------------------------------------------------------------ */

static kn_status place_node(fuse_pass *fusing, kn_node *node) {
    kn_planner *planner = fusing->planner;
    kn_group *group = NULL;
    planner->work++;
    if (node->op->class == KN_CLASS_VIEW) return KN_OK;
    if (node->op->class == KN_CLASS_POINTWISE) {
        for (int i = 0; i < node->input_count && !group; i++) {
            kn_value *value = node->inputs[i];
            if (!value || !value->producer) continue;
            kn_group *near = planner->group_of[value->producer->id];
            if (near && joins_epilogue(fusing, near, node, value)) return KN_OK;
        }
        for (int i = 0; i < node->input_count; i++) {
            kn_value *value = node->inputs[i];
            kn_group *near = value && value->producer ? planner->group_of[value->producer->id] : NULL;
            if (!near || near == group) continue;
            if (!group && join_pointwise(fusing, near, node))
                group = near;
            else if (group)
                merge(fusing, group, near);
        }
        if (group) return KN_OK;
    }
    group = kn_group_add(planner);
    if (!group) return kn_fail_memory(planner->error, sizeof *group);
    kn_depends_add(&fusing->depends);
    if (node->op->class == KN_CLASS_POINTWISE) {
        group->space = node->outputs[0]->shape;
        if (!kn_group_add_member(planner, group, node)) return kn_fail_memory(planner->error, sizeof node);
    } else {
        group->anchor = node;
        group->variant = planner->chosen[node->id];
    }
    planner->group_of[node->id] = group;
    add_node_dependences(fusing, group, node);
    return KN_OK;
}

kn_status kn_pass_fuse(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    fuse_pass fusing = {.planner = planner};
    planner->group_of_count = graph->node_count;
    planner->group_of = kn_arena_take(planner->arena, graph->node_count + 1, sizeof *planner->group_of);
    bool good = kn_depends_init(&fusing.depends, planner->host, graph->node_count, &planner->work);
    kn_status status = KN_OK;
    if (!planner->group_of || !good)
        status = kn_fail_memory(planner->error, graph->node_count * sizeof(kn_group *));
    if (status == KN_OK && !find_updates(&fusing)) status = kn_fail_memory(planner->error, graph->node_count);
    for (size_t i = 0; status == KN_OK && i < graph->node_count; i++)
        status = place_node(&fusing, graph->nodes[i]);
    if (status == KN_OK && fusing.depends.failed)
        status = kn_fail_memory(planner->error, fusing.depends.edge_count * sizeof *fusing.depends.edges);
    kn_depends_finish(&fusing.depends);
    if (status != KN_OK) return status;
    /* Groups whose members went elsewhere leave. */
    int kept = 0;
    for (int i = 0; i < planner->group_count; i++)
        if (planner->groups[i]->anchor || planner->groups[i]->member_count) {
            planner->groups[kept] = planner->groups[i];
            planner->groups[kept]->id = kept;
            kept++;
        }
    planner->group_count = kept;
    return KN_OK;
}
