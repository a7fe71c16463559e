/* The substitute pass: nodes whose kernels do not suit the device are replaced by other nodes with the same
 * results. It runs before all passes that choose or fuse. */
#include "plan/plan_private.h"

/* Whether a kernel other than the last, which accepts every node, accepts the node, or switches name the row.
 */
static bool is_supported(const kn_planner *planner, const kn_node *node) {
    for (int i = 0; i < planner->switches->forced_count; i++)
        if (planner->switches->forced[i].row == node->op) return true;
    for (int i = 0; i + 1 < node->op->variant_count; i++)
        if (node->op->variants[i].choice.accepts(planner->target, node)) return true;
    return false;
}

/* Builds the replacement of the node at `place` and moves its nodes there. */
static kn_status replace(kn_planner *planner, size_t place) {
    kn_graph *graph = planner->graph;
    const kn_node *node = graph->nodes[place];
    const size_t before = graph->node_count;
    kn_value *result = NULL;
    graph->origin = node;
    kn_status status = node->op->substitute(graph, node, &result);
    graph->origin = NULL;
    if (status != KN_OK) return kn_error_copy(planner->error, &graph->error);
    for (size_t i = before; i < graph->node_count; i++) {
        kn_node *added = graph->nodes[graph->node_count - 1];
        added->stage = node->stage;
        added->device = node->device;
        kn_move_last_node(graph, place);
    }
    result->wanted = node->outputs[0]->wanted;
    node->outputs[0]->wanted = false;
    kn_replace_value(planner, node->outputs[0], result);
    planner->work += graph->node_count;
    return KN_OK;
}

kn_status kn_pass_substitute(kn_planner *planner) {
    kn_status status = KN_OK;
    for (size_t i = planner->graph->node_count; i-- > 0 && status == KN_OK;) {
        const kn_node *node = planner->graph->nodes[i];
        planner->work++;
        if (node->op->substitute && !is_supported(planner, node)) status = replace(planner, i);
    }
    return status;
}
