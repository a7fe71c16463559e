/* The precision pass: decides which results are stored in 16 bits, and whether float32 is multiplied as TF32.
 * Everything else is computed in float32.
 *
 * A result is stored in 16 bits if every kernel that may compute its node can write it, every reader can read
 * it (kn_promise.halves), and it depends on an input. Excluded are values computed only from states (such as
 * factors of a batch norm), what pointwise nodes and outer products compute only from integers of more than
 * 8 bits (positions and their angles, which 16 bits would round), gradients that updates read and values
 * computed from them, updates, results of rank 0 and 1, columns (N,1), which are sums and maxima of rows, and
 * what the caller fetches. Views and copies have the type of their source. With wide vectors, images that may
 * be blocked stay float32, since conversions between layouts move four bytes. */
#include <string.h>

#include <koine/operators.h>

#include "plan/plan_private.h"

typedef struct precision_pass {
    kn_planner *planner;
    kn_dtype type;
    bool everywhere;          /* for trials: including the caller's inputs and results */
    unsigned inputs, results; /* bit masks of the kernels' inputs and results that may be stored in 16 bits */
    bool *updates;            /* by node id */
    /* By value id. */
    int *origin;   /* the first of the values that must have the same type */
    bool *narrow;  /* of an origin: may be stored in 16 bits */
    bool *depends; /* depends on an input */
    bool *whole;   /* float32, computed only from integers of more than 8 bits (from_integers) */
    bool *late;    /* read by updates, or computed from such results only by pointwise nodes */
    bool *casts;   /* casts that this pass added for the caller */
} precision_pass;

bool *kn_find_updates(kn_planner *planner) {
    const kn_graph *graph = planner->graph;
    bool *updates = kn_arena_take(planner->arena, graph->node_count + 1, sizeof *updates);
    bool *read = kn_arena_take(planner->arena, graph->value_count + 1, sizeof *read);
    if (!updates || !read) return NULL;
    for (size_t n = graph->node_count; n-- > 0;) {
        const kn_node *node = graph->nodes[n];
        planner->work++;
        const bool pointwise = node->op->class == KN_CLASS_POINTWISE;
        updates[node->id] = pointwise && read[node->outputs[0]->id];
        for (int i = 0; i < node->input_count && (updates[node->id] || node->op->class == KN_CLASS_ASSIGN);
             i++)
            if (node->inputs[i]) read[node->inputs[i]->id] = true;
    }
    return updates;
}

/* Whether the result has the type of the first input. A kernel that moves elements may also be able to
 * convert them. */
static bool passes_on(const kn_node *node) {
    const kn_operator *row = node->op;
    for (int i = 0; i < row->variant_count; i++)
        if (row->variants[i].promise.halves.results) return false;
    return row->class == KN_CLASS_VIEW || (row->moves && !node->derivative);
}

/* The 16-bit inputs and results that every kernel that may compute the node supports. */
static kn_halves allowed(const precision_pass *pass, const kn_node *node) {
    kn_halves all = {pass->inputs, pass->results};
    for (int i = 0; i < node->op->variant_count; i++) {
        const kn_variant *variant = &node->op->variants[i];
        if (variant->choice.accepts && !variant->choice.accepts(pass->planner->target, node)) continue;
        all.inputs &= variant->promise.halves.inputs;
        all.results &= variant->promise.halves.results;
    }
    return all;
}

static void decide_inputs(precision_pass *pass, const kn_node *node, unsigned inputs) {
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && !(inputs >> i & 1)) pass->narrow[pass->origin[node->inputs[i]->id]] = false;
}

static bool may_be_blocked(const kn_target *target, const kn_shape *shape) {
    return target->wide_vector && kn_can_block(target, shape);
}

/* Whether a kernel has at most one multiply-add per result, such as an outer product. */
static bool adds_nothing(const kn_node *node) {
    kn_cost cost = {0};
    if (node->op->class != KN_CLASS_KERNEL || node->derivative || node->output_count != 1) return false;
    kn_node_cost(node, &cost);
    return cost.flops <= 2.0 * (double)kn_shape_elements(&node->outputs[0]->shape);
}

/* Whether pointwise nodes and outer products compute the results only from integers of more than 8 bits. */
static bool from_integers(const precision_pass *pass, const kn_node *node) {
    bool any = false;
    if (pass->everywhere || !(node->op->class == KN_CLASS_POINTWISE || passes_on(node) || adds_nothing(node)))
        return false;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *input = node->inputs[i];
        if (!input || !pass->depends[input->id]) continue;
        const bool is_float = kn_dtype_is_float(input->shape.dtype);
        if (is_float && !pass->whole[input->id]) return false;
        any = any || is_float || kn_dtype_bytes(input->shape.dtype) > 1;
    }
    return any;
}

static void decide_node(precision_pass *pass, const kn_node *node) {
    kn_halves halves = {0, 0};
    bool depends = false, late = false;
    pass->planner->work += 1 + (uint64_t)node->op->variant_count;
    for (int i = 0; i < node->input_count; i++) {
        if (!node->inputs[i]) continue;
        depends = depends || pass->depends[node->inputs[i]->id];
        late = late || (pass->late[node->inputs[i]->id] && node->op->class != KN_CLASS_KERNEL);
    }
    if (passes_on(node))
        halves = (kn_halves){1, 1};
    else if (node->op->class == KN_CLASS_POINTWISE && !pass->updates[node->id])
        halves = (kn_halves){~0u, ~0u};
    else if (node->op->class == KN_CLASS_KERNEL)
        halves = allowed(pass, node);
    decide_inputs(pass, node, halves.inputs);
    const bool whole = from_integers(pass, node);
    for (int k = 0; k < node->output_count; k++) {
        const kn_value *result = node->outputs[k];
        pass->depends[result->id] = depends;
        pass->whole[result->id] = whole;
        late = late || pass->late[result->id];
        pass->late[result->id] = late;
        if (passes_on(node)) pass->origin[result->id] = pass->origin[node->inputs[0]->id];
        const bool column = result->shape.rank == 2 && result->shape.dims[1] == 1;
        const bool large =
            passes_on(node) || (pass->everywhere && result->wanted) || (result->shape.rank > 1 && !column);
        /* The caller gets a cast of a fetched result. */
        const bool fetched = result->wanted && (!pass->everywhere || pass->casts[result->id]);
        if (result->shape.dtype != KN_FLOAT32 || fetched || late || whole || !(halves.results >> k & 1) ||
            !depends || !large || may_be_blocked(pass->planner->target, &result->shape))
            pass->narrow[pass->origin[result->id]] = false;
    }
}

/* ---- trials: inputs and results of the caller -------------------------------------------------------- */

/* Kernels read a cast of each input, and the caller gets a cast of each result. The result itself is stored,
 * too: it is still wanted, so no epilogue fuses the cast. */
static kn_status cast_all(kn_planner *planner) {
    kn_graph *graph = planner->graph;
    const size_t count = graph->value_count;
    for (size_t v = 0; v < count && graph->error.status == KN_OK; v++) {
        kn_value *value = graph->values[v];
        if (value->shape.dtype != KN_FLOAT32) continue;
        if (value->kind == KN_VALUE_INPUT && !value->wanted) {
            kn_value *cast = kn_cast(value, KN_FLOAT32);
            if (kn_value_failed(cast)) break;
            kn_replace_value(planner, value, cast);
            kn_move_last_node(graph, 0);
        } else if (value->wanted && value->kind == KN_VALUE_RESULT) {
            kn_value *cast = kn_cast(value, KN_FLOAT32);
            if (kn_value_failed(cast)) break;
            for (size_t i = 0; i < planner->wanted_count; i++)
                if (planner->wanted[i] == value) planner->wanted[i] = cast;
            cast->wanted = true;
        }
    }
    return kn_graph_status(graph) == KN_OK
               ? KN_OK
               : kn_fail(planner->error, kn_graph_status(graph), "%s", kn_graph_error(graph));
}

/* ---- the pass ------------------------------------------------------------------------------------------ */

static bool allocate(precision_pass *pass) {
    kn_planner *planner = pass->planner;
    const size_t count = planner->graph->value_count;
    pass->updates = kn_find_updates(planner);
    pass->origin = kn_arena_take(planner->arena, count + 1, sizeof *pass->origin);
    pass->narrow = kn_arena_take(planner->arena, count + 1, sizeof *pass->narrow);
    pass->depends = kn_arena_take(planner->arena, count + 1, sizeof *pass->depends);
    pass->whole = kn_arena_take(planner->arena, count + 1, sizeof *pass->whole);
    pass->late = kn_arena_take(planner->arena, count + 1, sizeof *pass->late);
    pass->casts = kn_arena_take(planner->arena, count + 1, sizeof *pass->casts);
    return pass->whole && pass->late && pass->updates && pass->origin && pass->narrow && pass->depends &&
           pass->casts;
}

/* Nodes with kernels for matrix units ignore it if their inputs are not float32. */
static void allow_tf32(kn_planner *planner) {
    const kn_target *target = planner->target;
    const bool has_unit = !target->wide_vector && target->matrix_unit &&
                          target->matrix_unit(target->device, KN_FLOAT32) != KN_MATRIX_UNIT_NONE;
    for (size_t n = 0; n < planner->graph->node_count && has_unit; n++) {
        planner->work++;
        planner->graph->nodes[n]->tf32 = !adds_nothing(planner->graph->nodes[n]);
    }
}

kn_status kn_pass_precision(kn_planner *planner) {
    const kn_switches *switches = planner->switches;
    if (planner->request->tf32 || switches->tf32) allow_tf32(planner);
    precision_pass pass = {
        .planner = planner, .type = planner->request->precision, .inputs = ~0u, .results = ~0u};
    if (switches->stored != KN_FLOAT32) {
        pass.type = switches->stored;
        pass.everywhere = true;
        pass.inputs = switches->stored_halves.inputs;
        pass.results = switches->stored_halves.results;
    }
    if (pass.type == KN_FLOAT32) return KN_OK;
    kn_graph *graph = planner->graph;
    const size_t first = graph->value_count;
    kn_status status = pass.everywhere ? cast_all(planner) : KN_OK;
    if (status != KN_OK) return status;
    if (!allocate(&pass)) return kn_fail_memory(planner->error, graph->value_count);
    for (size_t v = 0; v < graph->value_count; v++) {
        pass.origin[v] = (int)v;
        pass.narrow[v] = graph->values[v]->kind == KN_VALUE_RESULT;
        pass.depends[v] = graph->values[v]->kind == KN_VALUE_INPUT;
        pass.casts[v] = v >= first;
    }
    for (size_t n = 0; n < graph->node_count; n++)
        if (pass.updates[n] || graph->nodes[n]->op->class == KN_CLASS_ASSIGN)
            for (int i = 0; i < graph->nodes[n]->input_count; i++)
                if (graph->nodes[n]->inputs[i]) pass.late[graph->nodes[n]->inputs[i]->id] = true;
    for (size_t v = 0; v < graph->value_count; v++) /* only results of nodes can be late */
        pass.late[v] = pass.late[v] && graph->values[v]->kind == KN_VALUE_RESULT;
    for (size_t n = 0; n < graph->node_count; n++)
        decide_node(&pass, graph->nodes[n]);
    for (size_t v = 0; v < graph->value_count; v++)
        if (pass.narrow[pass.origin[v]]) graph->values[v]->shape.dtype = pass.type;
    return KN_OK;
}

/* ---- after fusing ------------------------------------------------------------------------------------ */

static void mark(void *user, kn_value *value) {
    ((bool *)user)[value->id] = true;
}

kn_status kn_widen_inner(kn_planner *planner) {
    const size_t count = planner->graph->value_count;
    bool *stored = kn_arena_take(planner->arena, count + 1, sizeof *stored);
    if (!stored) return kn_fail_memory(planner->error, count);
    for (int g = 0; g < planner->group_count; g++) {
        const kn_group *group = planner->groups[g];
        kn_group_writes(planner, group, mark, stored);
        planner->work += 1 + (uint64_t)group->member_count;
        for (int m = -1; m < group->member_count; m++) {
            const kn_node *node = m < 0 ? group->anchor : group->members[m];
            kn_value *result = node && node->output_count ? node->outputs[0] : NULL;
            /* A cast must have its own type. */
            if (result && kn_is_half(result->shape.dtype) && !stored[result->id] &&
                node->op->identity != KN_IDENTITY_ALWAYS)
                result->shape.dtype = KN_FLOAT32;
        }
    }
    return KN_OK;
}
