/* Nodes that add up a value over the workers of a training: two rows that exist only in plans. A share node
 * gives the sums of this worker's shards to the others as soon as they are computed; the total node after it
 * is the sum of all, for which the host waits as late as possible. Tokens, values without elements, put the
 * total nodes in the order of the graph, which is that of every worker. */
#include "plan/plan_private.h"

/* token = share(sum of some shards, …) */
static kn_status share_shape(kn_shape_call *call) {
    call->outputs[0] = kn_token_shape();
    return KN_OK;
}

/* x, token = total(token of the share node, token of the previous total) */
static kn_status total_shape(kn_shape_call *call) {
    call->outputs[0] = call->inputs[0]->producer->inputs[0]->shape;
    call->outputs[1] = kn_token_shape();
    return KN_OK;
}

static kn_status lower_share(kn_lowering *lowering) {
    kn_status status = KN_OK;
    for (int i = 0; i < lowering->node->input_count && status == KN_OK; i++)
        status = kn_emit_share(lowering, lowering->node->inputs[i]);
    return status;
}

static kn_status lower_total(kn_lowering *lowering) {
    return kn_emit_total(lowering, lowering->node->outputs[0]);
}

static const kn_operator share_row = {
    .name = "share",
    .class = KN_CLASS_KERNEL,
    .turn = KN_TURN_FIRST,
    .min_inputs = 1,
    .max_inputs = KN_MAX_SUBTREES,
    .shape = share_shape,
    .cost = kn_transfer_cost,
    KN_VARIANTS({.name = "host", .lower = lower_share}),
};

static const kn_operator total_row = {
    .name = "total",
    .class = KN_CLASS_KERNEL,
    .turn = KN_TURN_LAST,
    .min_inputs = 1,
    .max_inputs = 2,
    .outputs = 2,
    .shape = total_shape,
    .cost = kn_transfer_cost,
    KN_VARIANTS({.name = "host", .lower = lower_total}),
};

bool kn_node_shares(const kn_node *node) {
    return node->op == &share_row || node->op == &total_row;
}

kn_value *kn_total_add(kn_graph *graph, kn_value *const *sums, int count, kn_value **token) {
    kn_value *shared = kn_node_add(graph, &share_row, sums[0]->name, sums, count, NULL);
    kn_value *inputs[] = {shared, *token};
    kn_value *total = kn_node_add(graph, &total_row, sums[0]->name, inputs, *token ? 2 : 1, NULL);
    *token = kn_value_failed(total) ? total : total->producer->outputs[1];
    return total;
}
