/* The elsewhere pass: nodes whose kernels do not suit the device become other nodes with the same results. It
 * runs before all passes that choose or fuse. */
#include <string.h>

#include "plan/plan_private.h"

/* Whether a kernel other than the last, which accepts every node, accepts the node, or switches name the row.
 */
static bool is_at_home(const kn_planner *planner, const kn_node *node) {
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
    kn_status status = node->op->elsewhere(graph, node, &result);
    graph->origin = NULL;
    if (status != KN_OK) return kn_error_copy(planner->error, &graph->error);
    const size_t added = graph->node_count - before;
    kn_node **nodes = kn_allocate(planner->host, added + 1, sizeof *nodes);
    if (!nodes) return kn_fail_memory(planner->error, added * sizeof *nodes);
    memcpy(nodes, graph->nodes + before, added * sizeof *nodes);
    memmove(graph->nodes + place + added, graph->nodes + place, (before - place) * sizeof *nodes);
    memcpy(graph->nodes + place, nodes, added * sizeof *nodes);
    kn_release(planner->host, nodes);
    for (size_t i = place; i < graph->node_count; i++) {
        graph->nodes[i]->id = (int)i;
        if (i < place + added) graph->nodes[i]->stage = node->stage, graph->nodes[i]->device = node->device;
    }
    result->wanted = node->outputs[0]->wanted;
    node->outputs[0]->wanted = false;
    kn_replace_value(planner, node->outputs[0], result);
    planner->work += graph->node_count;
    return KN_OK;
}

kn_status kn_pass_elsewhere(kn_planner *planner) {
    kn_status status = KN_OK;
    for (size_t i = planner->graph->node_count; i-- > 0 && status == KN_OK;) {
        const kn_node *node = planner->graph->nodes[i];
        planner->work++;
        if (node->op->elsewhere && !is_at_home(planner, node)) status = replace(planner, i);
    }
    return status;
}
