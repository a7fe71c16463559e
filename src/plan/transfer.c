/* Nodes that send a value to another device or receive one: two rows that exist only in plans. They become
 * normal steps, so that order and memory follow from what they read and write. */
#include "plan/plan_private.h"

enum { TRANSFER, DEVICE, DTYPE, SHAPE }; /* the attributes, by position */

kn_shape kn_token_shape(void) {
    return (kn_shape){.dtype = KN_FLOAT32, .rank = 1, .dims = {0}};
}

/* token = send(x, previous token) */
static kn_status send_shape(kn_shape_call *call) {
    call->outputs[0] = kn_token_shape();
    return KN_OK;
}

/* x, token = receive(previous token) */
static kn_status receive_shape(kn_shape_call *call) {
    const kn_attribute_value *shape = &call->attributes[SHAPE];
    kn_shape *result = &call->outputs[0];
    *result = (kn_shape){.dtype = (kn_dtype)call->attributes[DTYPE].integer, .rank = shape->count};
    for (int i = 0; i < shape->count; i++)
        result->dims[i] = shape->list[i];
    call->outputs[1] = kn_token_shape();
    return KN_OK;
}

void kn_transfer_cost(const kn_node *node, kn_cost *cost) {
    /* A received value is the result before the token, a sent value is the first input. */
    const kn_value *moved = node->output_count > 1 ? node->outputs[0] : node->inputs[0];
    uint64_t bytes = 0;
    if (!kn_value_bytes(moved, &bytes)) bytes = 0;
    *cost = (kn_cost){.flops = 0, .bytes = (double)bytes};
}

static kn_status lower_send(kn_lowering *lowering) {
    return kn_emit_send(lowering, lowering->node->inputs[0]);
}

static kn_status lower_receive(kn_lowering *lowering) {
    return kn_emit_receive(lowering, lowering->node->outputs[0]);
}

static const kn_operator send_row = {
    .name = "send",
    .class = KN_CLASS_KERNEL,
    .min_inputs = 1,
    .max_inputs = 2,
    .shape = send_shape,
    .cost = kn_transfer_cost,
    KN_ATTRIBUTES(KN_INT("transfer", 0, ""), KN_INT("device", 0, "")),
    KN_VARIANTS({.name = "host", .lower = lower_send}),
};

static const kn_operator receive_row = {
    .name = "receive",
    .class = KN_CLASS_KERNEL,
    .max_inputs = 1,
    .outputs = 2,
    .shape = receive_shape,
    .cost = kn_transfer_cost,
    KN_ATTRIBUTES(KN_INT("transfer", 0, ""), KN_INT("device", 0, ""), KN_INT("dtype", 0, ""),
                  KN_DIMS("shape", "", "")),
    KN_VARIANTS({.name = "host", .lower = lower_receive}),
};

bool kn_node_is_receive(const kn_node *node) {
    return node->op == &receive_row;
}

bool kn_node_is_transfer(const kn_node *node) {
    return node->op == &send_row || node->op == &receive_row;
}

int kn_transfer_of(const kn_node *node) {
    return (int)node->attributes[TRANSFER].integer;
}

int kn_transfer_device(const kn_node *node) {
    return (int)node->attributes[DEVICE].integer;
}

kn_value *kn_send_add(kn_graph *graph, kn_value *value, int transfer, int device, kn_value *token) {
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}};
    attributes[TRANSFER].integer = transfer;
    attributes[DEVICE].integer = device;
    return kn_node_add(graph, &send_row, value->name, (kn_value *[]){value, token}, token ? 2 : 1,
                       attributes);
}

kn_value *kn_receive_add(kn_graph *graph, const kn_value *value, int transfer, int device, kn_value *token,
                         kn_value **result) {
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}};
    attributes[TRANSFER].integer = transfer;
    attributes[DEVICE].integer = device;
    attributes[DTYPE].integer = value->shape.dtype;
    attributes[SHAPE].count = value->shape.rank;
    for (int i = 0; i < value->shape.rank; i++)
        attributes[SHAPE].list[i] = value->shape.dims[i];
    *result = kn_node_add(graph, &receive_row, value->name, &token, token ? 1 : 0, attributes);
    return kn_value_failed(*result) ? *result : (*result)->producer->outputs[1];
}
