/* The widen pass: an input that is fed as bytes (its scale is not 0) becomes a uint8 input, and a node before
 * all others converts it to float32 for its readers. It runs after gradients and updates were added, on the
 * part of each device: every device that reads an input gets its bytes. */
#include <string.h>

#include "ops/ops.h"
#include "plan/plan_private.h"

void kn_replace_value(const kn_planner *planner, const kn_value *old, kn_value *by) {
    for (size_t i = 0; i < planner->graph->node_count; i++) {
        kn_node *node = planner->graph->nodes[i];
        for (int j = 0; j < node->input_count && node != by->producer; j++)
            if (node->inputs[j] == old) node->inputs[j] = by;
    }
    for (size_t i = 0; i < planner->wanted_count; i++)
        if (planner->wanted[i] == old) planner->wanted[i] = by;
}

void kn_move_last_node(const kn_graph *graph, size_t place) {
    kn_node **to = graph->nodes + place, *node = graph->nodes[graph->node_count - 1];
    memmove(to + 1, to, (graph->node_count - 1 - place) * sizeof *to);
    *to = node;
    for (size_t i = place; i < graph->node_count; i++)
        graph->nodes[i]->id = (int)i;
}

static kn_status widen(kn_planner *planner, kn_value *input) {
    const kn_attribute_value scale = {.number = input->scale};
    kn_graph *graph = planner->graph;
    input->shape.dtype = KN_UINT8;
    kn_value *wide = kn_node_add(graph, kn_widen_row, input->name, &input, 1, &scale);
    if (kn_value_failed(wide)) return kn_error_copy(planner->error, &graph->error);
    wide->wanted = input->wanted;
    input->wanted = false;
    planner->work += graph->node_count;
    kn_replace_value(planner, input, wide);
    kn_move_last_node(graph, 0);
    return KN_OK;
}

kn_status kn_pass_widen(kn_planner *planner) {
    const size_t count = planner->graph->value_count;
    kn_status status = KN_OK;
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        kn_value *value = planner->graph->values[i];
        planner->work++;
        if (value->scale != 0) status = widen(planner, value);
    }
    return status;
}
