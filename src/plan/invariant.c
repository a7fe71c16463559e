/* The invariant pass: finds values that depend only on constants and on states that the graph does not write,
 * so that they need not be recomputed in each run. In inference, the first run packs weights and folds the
 * statistics of batch norms; the results persist.
 *
 * The results of pointwise nodes that are larger than their inputs are not invariant if they take much memory
 * together: weights are stored in a narrow type to save memory, and persisting a widened copy would undo
 * that. */
#include "plan/plan_private.h"

/* Below these sizes, a widened copy, and all of them together, cost little. */
enum { MIN_NARROW_BYTES = 4096, MAX_WIDENED_BYTES = 64 << 20 };

bool kn_is_widened(uint64_t read, uint64_t written) {
    return read >= MIN_NARROW_BYTES && written / 3 >= read / 2;
}

static bool all_invariant(const kn_planner *planner, const kn_node *node) {
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && !planner->invariant[node->inputs[i]->id]) return false;
    return true;
}

/* The bytes of the results of a node that widens its inputs, or 0. */
static uint64_t widened_bytes(const kn_node *node) {
    uint64_t read = 0, written = 0, bytes;
    if (node->op->class != KN_CLASS_POINTWISE) return 0;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && kn_value_bytes(node->inputs[i], &bytes)) read += bytes;
    for (int i = 0; i < node->output_count; i++)
        if (kn_value_bytes(node->outputs[i], &bytes)) written += bytes;
    return kn_is_widened(read, written) ? written : 0;
}

/* Returns the bytes of widened results that are invariant; with keeps_widened unset there are none. */
static uint64_t find_invariant(kn_planner *planner) {
    const kn_graph *graph = planner->graph;
    uint64_t total = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        const uint64_t widened = widened_bytes(node);
        bool invariant = all_invariant(planner, node) && !node->op->transient &&
                         (planner->keeps_widened || !widened) && !kn_node_is_receive(node) &&
                         !kn_node_shares(node) && !kn_node_loads(node);
        if (invariant) total += widened;
        for (int k = 0; k < node->output_count; k++)
            if (node->op->class != KN_CLASS_ASSIGN) planner->invariant[node->outputs[k]->id] = invariant;
    }
    return total;
}

kn_status kn_pass_invariant(kn_planner *planner) {
    const kn_graph *graph = planner->graph;
    planner->invariant = kn_arena_take(planner->arena, graph->value_count + 1, sizeof *planner->invariant);
    if (!planner->invariant) return kn_fail_memory(planner->error, graph->value_count);
    for (size_t i = 0; i < graph->value_count; i++)
        planner->invariant[i] =
            graph->values[i]->kind == KN_VALUE_STATE || graph->values[i]->kind == KN_VALUE_CONSTANT;
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op->class == KN_CLASS_ASSIGN)
            planner->invariant[graph->nodes[i]->inputs[0]->id] = false;
    planner->keeps_widened = true;
    if (find_invariant(planner) <= MAX_WIDENED_BYTES) return KN_OK;
    planner->keeps_widened = false;
    find_invariant(planner);
    return KN_OK;
}
