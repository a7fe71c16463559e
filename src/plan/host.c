/* States in host memory (kn_value.on_host): a row that exists only in plans. A load node copies such a state
 * to the device, and its assign stores the new value in host memory. Between runs, and before the load, it
 * needs no device memory. */
#include "plan/plan_private.h"

enum { STATE }; /* the inputs of a load node; the other inputs are only dependences */

/* x = load(state, dependence, …) */
static kn_status load_shape(kn_shape_call *call) {
    call->outputs[0] = call->inputs[STATE]->shape;
    return KN_OK;
}

static kn_status lower_load(kn_lowering *lowering) {
    return kn_emit_load(lowering, lowering->node->outputs[0]);
}

static const kn_operator load_row = {
    .name = "load",
    .class = KN_CLASS_KERNEL,
    .turn = KN_TURN_FIRST,
    .min_inputs = 1,
    .max_inputs = 3,
    .any_type = true,
    .shape = load_shape,
    .cost = kn_transfer_cost,
    KN_VARIANTS({.name = "host", .lower = lower_load}),
};

bool kn_node_loads(const kn_node *node) {
    return node->op == &load_row;
}

bool kn_node_stores(const kn_node *node) {
    return node->op->class == KN_CLASS_ASSIGN && node->inputs[STATE]->on_host;
}

kn_value *kn_load_add(kn_graph *graph, kn_value *state, kn_value *after, kn_value *also_after) {
    kn_value *inputs[] = {state, after, also_after};
    if (kn_value_failed(state)) return state;
    state->on_host = true;
    return kn_node_add(graph, &load_row, state->name, inputs, also_after ? 3 : after ? 2 : 1, NULL);
}
