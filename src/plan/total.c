/* Nodes that move values between data-parallel workers: three rows that exist only in plans. A share node
 * sends sums of this worker's shards, or its shard of a value, to the other workers as soon as they are
 * computed. The total node after it is the sum over all workers, or this worker's shard of it; the gather
 * node is the value gathered from all shards. The host waits for both as late as possible. Tokens, values
 * without elements, order the total and gather nodes as in the graph, which is the same for every worker. */
#include "plan/plan_private.h"

enum { SPREAD, ROUND, GIVEN, DTYPE, SHAPE }; /* the attributes of totals and gathers, by position */
enum { OLD = 1, OWN = 2 };                   /* bits of GIVEN: inputs before the token of the previous node */

/* token = share(sum of some shards, …) */
static kn_status share_shape(kn_shape_call *call) {
    call->outputs[0] = kn_token_shape();
    return KN_OK;
}

/* x, token = total(token of the share node, token of the previous node)
 * x, token = gather(previous x, token of the share node, token of the previous node), where each input is
 * optional */
static kn_status moved_shape(kn_shape_call *call) {
    const kn_attribute_value *shape = &call->attributes[SHAPE];
    call->outputs[0] = (kn_shape){.dtype = (kn_dtype)call->attributes[DTYPE].integer, .rank = shape->count};
    for (int i = 0; i < shape->count; i++)
        call->outputs[0].dims[i] = shape->list[i];
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
    return kn_emit_total(lowering, NULL, lowering->node->outputs[0]);
}

static kn_status lower_gather(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_value *old = node->attributes[GIVEN].integer & OLD ? node->inputs[0] : NULL;
    return kn_emit_total(lowering, old, node->outputs[0]);
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

#define MOVED_ROW(own_name, least, most, ...)                                                                \
    {                                                                                                        \
        .name = own_name, .class = KN_CLASS_KERNEL, .turn = KN_TURN_LAST, .min_inputs = least,               \
        .max_inputs = most, .outputs = 2, .shape = moved_shape, .cost = kn_transfer_cost,                    \
        KN_ATTRIBUTES(KN_INT("spread", 0, ""), KN_INT("round", 0, ""), KN_INT("given", 0, ""),               \
                      KN_INT("dtype", 0, ""), KN_DIMS("shape", "", "")),                                     \
        KN_VARIANTS({.name = "host", __VA_ARGS__})                                                           \
    }
static const kn_operator total_row = MOVED_ROW("total", 1, 2, .lower = lower_total);
static const kn_operator gather_row = MOVED_ROW("gather", 0, 3, .lower = lower_gather, .promise.over = {1});

bool kn_node_shares(const kn_node *node) {
    return node->op == &share_row || node->op == &total_row || node->op == &gather_row;
}

bool kn_node_gathers(const kn_node *node) {
    return node->op == &gather_row;
}

bool kn_shared_value_of(const kn_node *node, kn_shared_value *value) {
    *value = (kn_shared_value){.gathers = node->op == &gather_row};
    if (node->op != &total_row && !value->gathers) return false;
    const kn_attribute_value *attributes = node->attributes;
    value->sharing = (kn_sharing){(int)attributes[SPREAD].integer, (int)attributes[ROUND].integer};
    const int64_t given = attributes[GIVEN].integer;
    if (given & OWN) value->share = node->inputs[given & OLD ? 1 : 0]->producer;
    const kn_value *whole = value->gathers ? node->outputs[0] : value->share->inputs[0];
    value->dtype = node->outputs[0]->shape.dtype;
    value->elements = (uint64_t)kn_shape_elements(&whole->shape);
    return true;
}

/* old, shared: may be NULL. */
static kn_value *move(kn_graph *graph, const kn_operator *row, const char *name, kn_value *old,
                      kn_value *shared, const kn_sharing *sharing, const kn_shape *shape, kn_value **token) {
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{0}};
    kn_value *inputs[3];
    int count = 0;
    if (old) inputs[count++] = old;
    if (shared) inputs[count++] = shared;
    if (*token) inputs[count++] = *token;
    attributes[SPREAD].integer = sharing->spread;
    attributes[ROUND].integer = sharing->round;
    attributes[GIVEN].integer = (old ? OLD : 0) | (shared ? OWN : 0);
    attributes[DTYPE].integer = shape->dtype;
    attributes[SHAPE].count = shape->rank;
    for (int i = 0; i < shape->rank; i++)
        attributes[SHAPE].list[i] = shape->dims[i];
    kn_value *result = kn_node_add(graph, row, name, inputs, count, attributes);
    *token = kn_value_failed(result) ? result : result->producer->outputs[1];
    return result;
}

kn_value *kn_total_add(kn_graph *graph, kn_value *const *sums, int count, const kn_sharing *sharing,
                       const kn_shards *shards, kn_value **token) {
    kn_value *shared = kn_node_add(graph, &share_row, sums[0]->name, sums, count, NULL);
    if (kn_value_failed(shared)) return shared;
    kn_shape shape = sums[0]->shape;
    const uint64_t whole = (uint64_t)kn_shape_elements(&shape);
    uint64_t own = whole;
    if (sharing->spread != KN_SPREAD_ALL)
        own = kn_spread_first(sharing->spread, whole, shards->ranks, shards->rank + 1) -
              kn_spread_first(sharing->spread, whole, shards->ranks, shards->rank);
    if (sharing->spread == KN_SPREAD_SLICES)
        shape = (kn_shape){.dtype = shape.dtype, .rank = 1, .dims = {(kn_dim)own}};
    else if (own != whole)
        shape.dims[0] = 0;
    return move(graph, &total_row, sums[0]->name, NULL, shared, sharing, &shape, token);
}

kn_value *kn_gather_add(kn_graph *graph, kn_value *own, kn_value *old, const kn_shape *shape,
                        const kn_sharing *sharing, kn_value **token) {
    kn_value *shared = own ? kn_node_add(graph, &share_row, own->name, &own, 1, NULL) : NULL;
    if (own && kn_value_failed(shared)) return shared;
    const char *name = old ? old->name : own ? own->name : "gathered";
    return move(graph, &gather_row, name, old, shared, sharing, shape, token);
}
