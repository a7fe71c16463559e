/* Indices and labels that the host feeds: an index out of range is an error before anything runs. Kernels
 * give NaN for it, which would be noticed late. */
#include <string.h>

#include "run/session_private.h"

static bool is_integer(const kn_value *value) {
    return !kn_dtype_is_float(value->shape.dtype) && value->shape.dtype != KN_BOOL;
}

/* The session input that a value contains unchanged; -1: it is computed. */
static int source_of(const kn_session *session, kn_value *value) {
    value = kn_value_root(value);
    while (value->kind == KN_VALUE_RESULT && value->producer->op->identity == KN_IDENTITY_ALWAYS &&
           is_integer(value->producer->inputs[0]))
        value = kn_value_root(value->producer->inputs[0]);
    for (int i = 0; i < session->input_count; i++)
        if (session->inputs[i] == value) return i;
    return -1;
}

/* The size of the axis that a node's indices refer to; -1: it depends on symbols without a number. */
static int64_t size_of(const kn_session *session, const kn_node *node, const kn_binding *bindings,
                       size_t count) {
    const kn_attribute_value *classes = kn_attribute_in(node->op, node->attributes, "classes");
    if (classes) return (int64_t)classes->number;
    const kn_shape *shape = &node->inputs[0]->shape;
    const kn_attribute_value *axis = kn_attribute_in(node->op, node->attributes, "axis");
    int64_t along = node->op->index.along_last ? -1 : axis ? axis->integer : 0, size = -1;
    if (along < 0) along += shape->rank;
    if (along < 0 || along >= shape->rank) return -1;
    const kn_status status =
        kn_dim_evaluate(session->graph, shape->dims[along], bindings, count, &size, NULL);
    return status == KN_OK ? size : -1;
}

/* The input that a node uses as indices, or -1. */
static int indices_of(const kn_session *session, const kn_node *node) {
    const int number = node->op->index.number;
    if (!number || node->derivative || number > node->input_count || !node->inputs[number - 1]) return -1;
    const kn_attribute_value *outside = kn_attribute_in(node->op, node->attributes, "outside");
    const int source = outside && outside->integer ? -1 : source_of(session, node->inputs[number - 1]);
    if (source < 0) return -1;
    const kn_dtype dtype = session->inputs[source]->shape.dtype;
    return dtype == KN_INT32 || dtype == KN_INT64 ? source : -1;
}

kn_status kn_session_list_indices(kn_session *session) {
    const kn_graph *graph = session->graph;
    int count = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        count += indices_of(session, graph->nodes[i]) >= 0;
    session->indices = kn_allocate(&session->host, (size_t)count + 1, sizeof *session->indices);
    if (!session->indices)
        return kn_fail_memory(&session->failure, (uint64_t)count * sizeof *session->indices);
    for (size_t i = 0; i < graph->node_count; i++) {
        const int input = indices_of(session, graph->nodes[i]);
        if (input >= 0) session->indices[session->index_count++] = (kn_index_use){graph->nodes[i], input};
    }
    return KN_OK;
}

static int64_t index_at(kn_dtype dtype, const void *data, uint64_t place) {
    int64_t wide = 0;
    int32_t narrow = 0;
    if (dtype == KN_INT64) {
        memcpy(&wide, (const char *)data + place * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)data + place * sizeof narrow, sizeof narrow);
    return narrow;
}

static kn_status check_use(kn_session *session, const kn_index_use *use, const kn_binding *bindings,
                           size_t binding_count) {
    const kn_node *node = use->node;
    const kn_given *given = &session->given[use->input];
    const kn_value *input = session->inputs[use->input];
    if (!given->fed || given->buffer || !given->data || given->scale != 0) return KN_OK;
    const int64_t size = size_of(session, node, bindings, binding_count);
    if (size < 0) return KN_OK;
    const kn_attribute_value *ignored = kn_attribute_in(node->op, node->attributes, "ignored");
    const int64_t low = node->op->index.from_end ? -size : 0;
    const uint64_t count = given->bytes / kn_dtype_bytes(input->shape.dtype);
    for (uint64_t i = 0; i < count; i++) {
        const int64_t index = index_at(input->shape.dtype, given->data, i);
        if (index >= low && index < size) continue;
        if (ignored && (index == ignored->integer || (double)index == ignored->number)) continue;
        return kn_fail(&session->error, KN_ERROR_ARGUMENT,
                       "input '%s' has index %lld at element %llu for %s '%s'; expected %lld to %lld",
                       input->name, (long long)index, (unsigned long long)i, node->op->name, node->name,
                       (long long)low, (long long)size - 1);
    }
    return KN_OK;
}

kn_status kn_session_check_indices(kn_session *session) {
    kn_binding bindings[KN_SESSION_SYMBOLS];
    size_t count = 0;
    kn_status status = KN_OK;
    for (int i = 0; i < session->symbol_count; i++)
        if (session->numbers[i] >= 0)
            bindings[count++] = (kn_binding){session->symbols[i], session->numbers[i]};
    for (int i = 0; i < session->index_count && status == KN_OK; i++)
        status = check_use(session, &session->indices[i], bindings, count);
    return status;
}
