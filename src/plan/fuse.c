/* The fuse pass: fuses pointwise nodes with results of the same shape into one kernel, and pointwise nodes
 * after a matrix product or convolution into its epilogue, so that the values between them are never stored.
 * In an epilogue, a value may have several readers if these are in it, too. A sum over an operand of a
 * product, such as the gradient of a bias, is fused into the product.
 *
 * Nodes are visited in graph order, and each is added to the group of one of its inputs if that creates no
 * cycle between groups; depend.h tracks the dependences. */
#include <string.h>

#include "plan/depend.h"
#include "plan/plan_private.h"

enum { MAX_OPERANDS = 20, MAX_RESULTS = 8, MAX_MEMBERS = 48, MAX_BRANCHES = 12 };

typedef struct fuse_pass {
    kn_planner *planner;
    kn_depends depends; /* by group id */
    /* By node id. They are not fused into the product that computes the gradient: an update remains a
     * separate kernel, which the bucket pass can merge with others. */
    bool *updates;
} fuse_pass;

static kn_group *group_of_value(fuse_pass *pass, kn_value *value) {
    value = kn_value_root(value);
    return value->producer ? pass->planner->group_of[value->producer->id] : NULL;
}

static void add_dependences(fuse_pass *pass, const kn_group *group, const kn_node *node) {
    for (int i = 0; i < node->input_count; i++) {
        kn_group *other = node->inputs[i] ? group_of_value(pass, node->inputs[i]) : NULL;
        if (other && other != group) kn_depends_on(&pass->depends, group->id, other->id);
    }
}

/* Whether adding `node` to `group` would create a cycle: it reads a result of the group through another group
 * or through a view. */
static bool creates_cycle(fuse_pass *pass, const kn_group *group, const kn_node *node) {
    for (int i = 0; i < node->input_count; i++) {
        kn_value *value = node->inputs[i];
        kn_group *other = value ? group_of_value(pass, value) : NULL;
        if (!other) continue;
        if (other == group && kn_value_root(value) != value) return true;
        if (other != group && kn_depends_reach(&pass->depends, other->id, group->id, false)) return true;
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

/* Whether the kernel of a pointwise group has few enough arguments: a pointer and strides for each operand,
 * the sizes and strides of the space, and the keys of random numbers. Counts axes that could be merged, and
 * an additional axis for a blocked image. */
static bool fits_arguments(const fuse_pass *pass, const kn_group *group, int operands) {
    const int index = pass->planner->target->wide_indices ? 8 : 4, axes = group->space.rank + 1;
    int keys = 0;
    for (int m = 0; m < group->member_count; m++)
        keys += group->members[m]->op->random;
    return index * (2 * axes + 1) + operands * (KN_POINTER_BYTES + index * axes) + 8 * keys <=
           KN_ARGUMENT_BYTES;
}

static bool within_limits(fuse_pass *pass, kn_group *group) {
    operand_count reads = {0}, writes = {0};
    kn_group_reads(pass->planner, group, count_operand, &reads);
    kn_group_writes(pass->planner, group, count_operand, &writes);
    if (!fits_arguments(pass, group, reads.count + writes.count)) return false;
    return reads.count <= MAX_OPERANDS && writes.count <= MAX_RESULTS && group->member_count <= MAX_MEMBERS;
}

/* Adds `node` to a pointwise group if possible. */
static bool add_to_pointwise(fuse_pass *pass, kn_group *group, kn_node *node) {
    if (group->anchor || !kn_shape_same(&group->space, &node->outputs[0]->shape)) return false;
    if (group->members[0]->stage != node->stage) return false;
    if (creates_cycle(pass, group, node)) return false;
    kn_group trial = *group;
    if (!kn_group_add_member(pass->planner, &trial, node)) return false;
    if (!within_limits(pass, &trial)) return false;
    *group = trial;
    pass->planner->group_of[node->id] = group;
    add_dependences(pass, group, node);
    return true;
}

/* Moves all members of `from` to `into` if possible: neither may depend on the other through a third
 * group. */
static void merge(fuse_pass *pass, kn_group *into, kn_group *from) {
    kn_planner *planner = pass->planner;
    if (into == from || into->anchor || from->anchor || into->members[0]->stage != from->members[0]->stage ||
        !kn_shape_same(&into->space, &from->space))
        return;
    if (kn_depends_reach(&pass->depends, into->id, from->id, true) ||
        kn_depends_reach(&pass->depends, from->id, into->id, true))
        return;
    /* A member that reads another member's result through a view needs the whole result. */
    for (int side = 0; side < 2; side++) {
        const kn_group *reader = side ? into : from, *other = side ? from : into;
        for (int i = 0; i < reader->member_count; i++)
            for (int j = 0; j < reader->members[i]->input_count; j++) {
                kn_value *value = reader->members[i]->inputs[j];
                if (value && kn_value_root(value) != value && group_of_value(pass, value) == other) return;
            }
    }
    if (into->member_count + from->member_count > MAX_MEMBERS) return;
    /* Use a new list: inserting moves members of `into`, which must not change if the limits are exceeded. */
    kn_group trial = *into;
    trial.member_capacity = MAX_MEMBERS;
    trial.members = kn_arena_take(planner->arena, MAX_MEMBERS, sizeof *trial.members);
    if (!trial.members) return;
    memcpy(trial.members, into->members, (size_t)into->member_count * sizeof *trial.members);
    for (int i = 0; i < from->member_count; i++)
        if (!kn_group_add_member(planner, &trial, from->members[i])) return;
    if (!within_limits(pass, &trial)) return;
    *into = trial;
    for (int i = 0; i < from->member_count; i++)
        planner->group_of[from->members[i]->id] = into;
    from->member_count = 0;
    kn_depends_take(&pass->depends, into->id, from->id);
}

/* ---- epilogues -------------------------------------------------------------------------------- */

/* The three axes of an epilogue as ranges of dimensions: outer [0,middle), middle [middle,inner), inner
 * [inner,rank). */
static void epilogue_axes(const kn_node *anchor, int *middle, int *inner) {
    int rank = anchor->outputs[0]->shape.rank;
    bool image = rank == 4 && !anchor->op->matrices;
    *middle = image ? 1 : rank >= 2 ? rank - 2 : 0;
    *inner = image ? 2 : rank >= 1 ? rank - 1 : 0;
}

/* Whether an operand has, along each of the three axes, either all dimensions or size 1. */
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

/* Whether a result may be blocked but the operand cannot: it varies between the channels and between the
 * pixels of an image, but has no batch axis, (C,H,W), so there is no conversion for it. */
static bool cannot_be_blocked(const kn_promise *promise, const kn_shape *operand) {
    if (!promise->any && promise->outputs[0] != KN_LAYOUT_BLOCKED) return false;
    return operand->rank == 3 && operand->dims[0] != 1 && operand->dims[1] * operand->dims[2] != 1;
}

static bool is_computed_as_float(const kn_value *value) {
    return value->shape.dtype == KN_FLOAT32 || kn_is_half(value->shape.dtype);
}

/* Whether other nodes read `through`, too. Then the epilogue may store it, once, if it is float32, except
 * when planning again for less memory: the nodes that follow in the epilogue could not be recomputed
 * separately. */
static bool is_shared(const fuse_pass *pass, const kn_value *through) {
    return through->wanted || pass->planner->consumers.counts[through->id] != 1;
}
static bool can_store_between(const fuse_pass *pass, const kn_group *group, const kn_value *through) {
    const uint64_t live_bytes = pass->planner->request->live_bytes;
    return group->variant->promise.stores_between && !group->between && through->shape.dtype == KN_FLOAT32 &&
           (live_bytes == 0 || live_bytes == UINT64_MAX);
}

/* A cast to fewer bits ends an epilogue: it computes in float32, and only the kernel's store rounds or wraps
 * around. */
static bool ends_epilogue(const kn_node *node) {
    const kn_dtype dtype = node->outputs[0]->shape.dtype;
    return node->op->identity == KN_IDENTITY_ALWAYS && (kn_is_half(dtype) || kn_is_byte(dtype));
}

/* Whether the epilogue of `group` can compute a node, regardless of its inputs. */
static bool suits_epilogue(const fuse_pass *pass, const kn_group *group, const kn_node *node) {
    const kn_node *anchor = group->anchor;
    if (node->op->class != KN_CLASS_POINTWISE || node->op->random || pass->updates[node->id]) return false;
    if (anchor->stage != node->stage) return false;
    if (!kn_shape_same(&anchor->outputs[0]->shape, &node->outputs[0]->shape)) return false;
    if (!is_computed_as_float(anchor->outputs[0])) return false;
    /* It may be the last node, whose result the anchor's kernel stores. */
    const kn_promise *promise = &group->variant->promise;
    if (kn_is_byte(node->outputs[0]->shape.dtype)) return promise->stores_bytes && ends_epilogue(node);
    return is_computed_as_float(node->outputs[0]) &&
           (!kn_is_half(node->outputs[0]->shape.dtype) || (promise->halves.results & 1));
}

static bool is_among(kn_node *const *nodes, int count, const kn_node *node) {
    for (int i = 0; i < count; i++)
        if (nodes[i] == node) return true;
    return false;
}

/* The first reader, in graph order, of a value that is not among the nodes. NULL: none. */
static kn_node *next_reader(fuse_pass *pass, const kn_value *value, kn_node *const *nodes, int count) {
    const kn_consumers *consumers = &pass->planner->consumers;
    kn_node *next = NULL;
    for (int i = 0; i < consumers->counts[value->id]; i++) {
        kn_node *reader = consumers->nodes[value->id][i];
        pass->planner->work++;
        if (!is_among(nodes, count, reader) && (!next || reader->id < next->id)) next = reader;
    }
    return next;
}

/* Finds the nodes, in graph order, that compute a single result from the shared value `through`, which no
 * others read, such as those of x * sigmoid(x); nor do others read what is between. Returns their number; 0:
 * there are none. */
static int find_branches(fuse_pass *pass, const kn_group *group, kn_value *through,
                         kn_node *nodes[MAX_BRANCHES]) {
    if (through->wanted || pass->planner->consumers.counts[through->id] > MAX_BRANCHES) return 0;
    for (int count = 0; count <= MAX_BRANCHES;) {
        kn_node *next = next_reader(pass, through, nodes, count);
        bool open = next != NULL;
        for (int i = 0; i + 1 < count; i++) {
            kn_node *reader = next_reader(pass, nodes[i]->outputs[0], nodes, count);
            if (nodes[i]->outputs[0]->wanted) return 0;
            open = open || reader;
            if (reader && (!next || reader->id < next->id)) next = reader;
        }
        if (!open) return count;
        kn_node *reader = count ? next_reader(pass, nodes[count - 1]->outputs[0], nodes, count) : NULL;
        if (reader && reader->id < next->id) next = reader;
        if (count == MAX_BRANCHES || (count && ends_epilogue(nodes[count - 1])) ||
            !suits_epilogue(pass, group, next))
            return 0;
        nodes[count++] = next;
    }
    return 0;
}

/* Adds nodes to the epilogue if their operands are suitable. */
static bool add_nodes_to_epilogue(fuse_pass *pass, kn_group *group, kn_node *const *nodes, int count,
                                  kn_value *between) {
    kn_planner *planner = pass->planner;
    const kn_shape *space = &group->anchor->outputs[0]->shape;
    int middle, inner, operands = between || group->between;
    epilogue_axes(group->anchor, &middle, &inner);
    kn_group trial = *group;
    /* A separate list: adding several nodes may fail after the first. */
    trial.member_capacity = group->member_count + count;
    trial.members = kn_arena_take(planner->arena, (size_t)trial.member_capacity, sizeof *trial.members);
    if (!trial.members) return false;
    if (group->member_count)
        memcpy(trial.members, group->members, (size_t)group->member_count * sizeof *trial.members);
    if (between) trial.between = between;
    for (int n = 0; n < count; n++) {
        if (creates_cycle(pass, group, nodes[n])) return false;
        if (!kn_group_add_member(planner, &trial, nodes[n])) return false;
    }
    for (int m = 0; m < trial.member_count; m++)
        for (int i = 0; i < trial.members[m]->input_count; i++) {
            kn_value *value = trial.members[m]->inputs[i];
            if (!value) continue;
            const kn_node *producer = value->producer;
            if (producer &&
                (producer == group->anchor || is_among(trial.members, trial.member_count, producer)))
                continue;
            /* Its group is known unless its node comes later. */
            if (kn_value_root(value)->producer && !group_of_value(pass, value)) return false;
            if (!is_computed_as_float(value) || !operand_fits_axes(space, &value->shape, middle, inner) ||
                cannot_be_blocked(&group->variant->promise, &value->shape))
                return false;
            operands++;
        }
    if (operands > KN_EPILOGUE_OPERANDS) return false;
    *group = trial;
    for (int n = 0; n < count; n++) {
        planner->group_of[nodes[n]->id] = group;
        add_dependences(pass, group, nodes[n]);
    }
    return true;
}

static bool add_to_epilogue(fuse_pass *pass, kn_group *group, kn_node *node, kn_value *through) {
    if (!group->anchor || !group->variant || !group->variant->promise.takes_epilogue) return false;
    const kn_node *last = group->member_count ? group->members[group->member_count - 1] : group->anchor;
    if (ends_epilogue(last) || through != last->outputs[0]) return false;
    const bool shared = is_shared(pass, through);
    kn_node *nodes[MAX_BRANCHES] = {node};
    const int count = shared ? find_branches(pass, group, through, nodes) : 0;
    if (count && add_nodes_to_epilogue(pass, group, nodes, count, NULL)) return true;
    if (!suits_epilogue(pass, group, node) || (shared && !can_store_between(pass, group, through)))
        return false;
    return add_nodes_to_epilogue(pass, group, &node, 1, shared ? through : NULL);
}

/* ---- sums ---------------------------------------------------------------------------------------- */

/* Lets the kernel of `group` compute the sum of group `from`, if it can and neither group depends on the
 * other. */
static bool take_sum(fuse_pass *pass, kn_group *group, kn_group *from) {
    kn_planner *planner = pass->planner;
    if (!from || from == group || !from->anchor || from->member_count || from->summed) return false;
    if (!group->variant->promise.sums(planner->target, group->anchor, from->anchor)) return false;
    if (kn_depends_reach(&pass->depends, group->id, from->id, false) ||
        kn_depends_reach(&pass->depends, from->id, group->id, false))
        return false;
    group->summed = from->anchor;
    planner->group_of[from->anchor->id] = group;
    from->anchor = NULL;
    kn_depends_take(&pass->depends, group->id, from->id);
    return true;
}

/* Looks for such a sum among the readers of a value, including readers through views. */
static bool find_sum(fuse_pass *pass, kn_group *group, const kn_value *value) {
    const kn_consumers *consumers = &pass->planner->consumers;
    for (int i = 0; i < consumers->counts[value->id]; i++) {
        const kn_node *reader = consumers->nodes[value->id][i];
        pass->planner->work++;
        if (reader->op->class == KN_CLASS_VIEW ? find_sum(pass, group, reader->outputs[0])
                                               : take_sum(pass, group, pass->planner->group_of[reader->id]))
            return true;
    }
    return false;
}

static void fuse_sums(fuse_pass *pass) {
    for (int i = 0; i < pass->planner->group_count; i++) {
        kn_group *group = pass->planner->groups[i];
        if (group->anchor && group->variant && group->variant->promise.sums)
            find_sum(pass, group, kn_value_root(group->anchor->inputs[0]));
    }
}

/* ---- the pass ------------------------------------------------------------------------------------ */

static kn_status assign_group(fuse_pass *pass, kn_node *node) {
    kn_planner *planner = pass->planner;
    kn_group *group = NULL;
    planner->work++;
    /* An epilogue may have taken it with an earlier node. */
    if (node->op->class == KN_CLASS_VIEW || planner->group_of[node->id]) return KN_OK;
    if (node->op->class == KN_CLASS_POINTWISE) {
        for (int i = 0; i < node->input_count && !group; i++) {
            kn_value *value = node->inputs[i];
            if (!value || !value->producer) continue;
            kn_group *candidate = planner->group_of[value->producer->id];
            if (candidate && add_to_epilogue(pass, candidate, node, value)) return KN_OK;
        }
        for (int i = 0; i < node->input_count; i++) {
            kn_value *value = node->inputs[i];
            kn_group *candidate = value && value->producer ? planner->group_of[value->producer->id] : NULL;
            if (!candidate || candidate == group) continue;
            if (!group && add_to_pointwise(pass, candidate, node))
                group = candidate;
            else if (group)
                merge(pass, group, candidate);
        }
        if (group) return KN_OK;
    }
    group = kn_group_add(planner);
    if (!group) return kn_fail_memory(planner->error, sizeof *group);
    kn_depends_add(&pass->depends);
    if (node->op->class == KN_CLASS_POINTWISE) {
        group->space = node->outputs[0]->shape;
        if (!kn_group_add_member(planner, group, node)) return kn_fail_memory(planner->error, sizeof node);
    } else {
        group->anchor = node;
        group->variant = planner->chosen[node->id].variant;
        group->tile = planner->chosen[node->id].tile;
        group->tuned = planner->chosen[node->id].tuned;
    }
    planner->group_of[node->id] = group;
    add_dependences(pass, group, node);
    return KN_OK;
}

kn_status kn_pass_fuse(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    fuse_pass pass = {.planner = planner};
    planner->group_of_count = graph->node_count;
    planner->group_of = kn_arena_take(planner->arena, graph->node_count + 1, sizeof *planner->group_of);
    bool good = kn_depends_init(&pass.depends, planner->host, graph->node_count, &planner->work);
    kn_status status = KN_OK;
    if (!planner->group_of || !good)
        status = kn_fail_memory(planner->error, graph->node_count * sizeof(kn_group *));
    pass.updates = kn_find_updates(planner);
    if (status == KN_OK && !pass.updates) status = kn_fail_memory(planner->error, graph->node_count);
    for (size_t i = 0; status == KN_OK && i < graph->node_count; i++)
        status = assign_group(&pass, graph->nodes[i]);
    if (status == KN_OK) fuse_sums(&pass);
    if (status == KN_OK && pass.depends.failed)
        status = kn_fail_memory(planner->error, pass.depends.edge_count * sizeof *pass.depends.edges);
    kn_depends_finish(&pass.depends);
    if (status != KN_OK) return status;
    /* Remove groups whose members were merged into other groups. */
    int kept = 0;
    for (int i = 0; i < planner->group_count; i++)
        if (planner->groups[i]->anchor || planner->groups[i]->member_count) {
            planner->groups[kept] = planner->groups[i];
            planner->groups[kept]->id = kept;
            kept++;
        }
    planner->group_count = kept;
    return kn_widen_inner(planner);
}
