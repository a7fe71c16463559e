/* Replaces results of a bound graph by values that are created later. Nodes follow the nodes they read, so
 * all readers of a replaced value are repeated at the end of the graph; the planner drops the old nodes. */
#include "train/optimizer.h"

kn_status kn_replacing_begin(kn_replacing *own, kn_graph *graph) {
    *own = (kn_replacing){.graph = graph, .count = graph->value_count, .nodes = graph->node_count};
    own->by = kn_arena_take(&graph->arena, own->count + 1, sizeof *own->by);
    return own->by ? KN_OK : KN_ERROR_MEMORY;
}

kn_value *kn_replaced(const kn_replacing *own, kn_value *value) {
    return value && (size_t)value->id < own->count && own->by[value->id] ? own->by[value->id] : value;
}

kn_status kn_replace_repeat(const kn_replacing *own, const kn_node *node, kn_value *const *inputs,
                            kn_value **results) {
    const kn_node *made = node;
    for (int i = 0; i < node->input_count && made == node; i++)
        if (inputs[i] != node->inputs[i]) made = kn_node_repeat(own->graph, node, inputs);
    for (int i = 0; i < node->output_count && made; i++)
        results[i] = made->outputs[i];
    return own->graph->error.status;
}

static kn_status replace_node(const kn_replacing *own, const kn_node *node, kn_replace_rule *rule,
                              void *user) {
    kn_value *inputs[KN_MAX_INPUTS], *results[KN_MAX_OUTPUTS];
    for (int i = 0; i < node->input_count; i++)
        inputs[i] = kn_replaced(own, node->inputs[i]);
    kn_status status = rule(user, own, node, inputs, results);
    for (int i = 0; i < node->output_count && status == KN_OK; i++)
        if (results[i] != node->outputs[i]) own->by[node->outputs[i]->id] = results[i];
    return status;
}

kn_status kn_replace(const kn_replacing *own, kn_replace_rule *rule, void *user) {
    kn_graph *graph = own->graph;
    kn_status status = KN_OK;
    for (size_t i = 0; i < own->nodes && status == KN_OK; i++)
        if (graph->nodes[i]->op->class != KN_CLASS_ASSIGN)
            status = replace_node(own, graph->nodes[i], rule, user);
    for (size_t i = 0; i < own->count && status == KN_OK; i++) {
        kn_value *state = graph->values[i];
        if (state->kind != KN_VALUE_STATE || !state->assign) continue;
        kn_value *value = kn_replaced(own, state->assign->inputs[1]);
        if (value != state->assign->inputs[1]) kn_assign_replace(graph, state, value);
    }
    return status == KN_OK ? graph->error.status : status;
}
