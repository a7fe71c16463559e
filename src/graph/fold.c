/* Constant folding: nodes whose inputs are all constants are computed on the host. */
#include <math.h>
#include <string.h>

#include "graph/graph_private.h"

/* Above these limits a constant costs more memory and traffic than the computation it saves. */
enum { MAX_ELEMENTS = 1 << 20, MAX_GROWN = 4096, MAX_WORK = 1 << 26 };

/* Integers of these types may exceed the precision of a double. */
#define EXACT 9007199254740992.0

static bool is_wide_integer(kn_dtype dtype) {
    return dtype == KN_INT64 || dtype == KN_UINT64;
}

/* A kernel that reads a broadcast constant repeats it more cheaply, so large results that are larger than
 * their inputs are not folded. */
static bool can_fold(const kn_node *node) {
    int64_t read = 0, written = 0;
    if (node->op->random || node->op->class == KN_CLASS_ASSIGN || node->output_count == 0) return false;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *input = node->inputs[i];
        if (!input) continue;
        if (input->kind != KN_VALUE_CONSTANT || input->failed) return false;
        if (!kn_add_fits(read, kn_shape_elements(&input->shape), &read)) return false;
    }
    for (int i = 0; i < node->output_count; i++)
        if (!kn_add_fits(written, kn_shape_elements(&node->outputs[i]->shape), &written)) return false;
    kn_cost cost;
    kn_node_cost(node, &cost);
    return read <= MAX_ELEMENTS && written <= MAX_ELEMENTS && (written <= MAX_GROWN || written <= read) &&
           cost.flops <= MAX_WORK;
}

typedef struct constant_folding {
    kn_graph *graph;
    kn_reference_array inputs[KN_MAX_INPUTS], outputs[KN_MAX_OUTPUTS];
} constant_folding;

static void release_arrays(constant_folding *folding, const kn_node *node) {
    for (int i = 0; i < node->input_count; i++)
        kn_release(&folding->graph->host, folding->inputs[i].data);
    for (int i = 0; i < node->output_count; i++)
        kn_release(&folding->graph->host, folding->outputs[i].data);
}

static bool make_array(const kn_host *host, const kn_value *value, kn_reference_array *array) {
    *array = (kn_reference_array){.data = NULL};
    if (!value) return true;
    array->shape = value->shape;
    array->elements = kn_shape_elements(&value->shape);
    array->data = kn_allocate(host, (size_t)array->elements + 1, sizeof *array->data);
    if (!array->data) return false;
    for (int64_t i = 0; value->data && i < array->elements; i++)
        array->data[i] = kn_element_get(value->shape.dtype, value->data, i);
    return true;
}

/* Whether the type holds the results exactly as the device would. */
static bool is_exact(const kn_reference_array *array) {
    const kn_dtype dtype = array->shape.dtype;
    bool integers = !kn_dtype_is_float(dtype) && !kn_is_small_float(dtype) && dtype != KN_BOOL;
    double size = (double)kn_dtype_bytes(dtype) * 8;
    bool is_signed = dtype <= KN_INT64;
    double high = is_wide_integer(dtype) ? EXACT : ldexp(1, (int)size - (is_signed ? 1 : 0)) - 1;
    double low = !is_signed ? 0 : is_wide_integer(dtype) ? -EXACT : -high - 1;
    for (int64_t i = 0; integers && i < array->elements; i++)
        if (!(array->data[i] >= low && array->data[i] <= high)) return false;
    return true;
}

/* The result value becomes a constant in place, so that its readers need no change. */
static kn_status make_constants(constant_folding *folding, kn_node *node, kn_error *error) {
    void *data[KN_MAX_OUTPUTS];
    size_t bytes[KN_MAX_OUTPUTS];
    for (int i = 0; i < node->output_count; i++) {
        const kn_reference_array *array = &folding->outputs[i];
        bytes[i] = (size_t)array->elements * kn_dtype_bytes(array->shape.dtype);
        data[i] = kn_arena_take(&folding->graph->arena, bytes[i], 1);
        if (!data[i]) return kn_fail_memory(error, bytes[i]);
        for (int64_t j = 0; j < array->elements; j++)
            kn_element_set(array->shape.dtype, data[i], j, array->data[j]);
    }
    for (int i = 0; i < node->output_count; i++) {
        kn_value *value = node->outputs[i];
        value->kind = KN_VALUE_CONSTANT;
        value->producer = NULL;
        value->output_index = 0;
        value->data = data[i];
        value->data_bytes = bytes[i];
    }
    return KN_OK;
}

static kn_status fold_node(kn_graph *graph, kn_node *node, bool *folded, kn_error *error) {
    constant_folding *folding = kn_allocate(&graph->host, 1, sizeof *folding);
    if (!folding) return kn_fail_memory(error, sizeof *folding);
    folding->graph = graph;
    bool memory = true, exact = true;
    for (int i = 0; i < node->input_count; i++) {
        memory = memory && make_array(&graph->host, node->inputs[i], &folding->inputs[i]);
        exact = exact && memory && is_exact(&folding->inputs[i]);
    }
    for (int i = 0; i < node->output_count; i++)
        memory = memory && make_array(&graph->host, node->outputs[i], &folding->outputs[i]);
    kn_status status = memory ? KN_OK : kn_fail_memory(error, MAX_ELEMENTS * sizeof(double));
    *folded = false;
    if (status == KN_OK && exact) {
        kn_error missing = {0};
        kn_reference_call call = {.node = node,
                                  .input_count = node->input_count,
                                  .inputs = folding->inputs,
                                  .output_count = node->output_count,
                                  .outputs = folding->outputs,
                                  .host = &graph->host,
                                  .error = &missing};
        status = kn_node_reference(&call);
        /* Without a reference the device computes it. */
        bool unsupported = status == KN_ERROR_UNSUPPORTED;
        if (unsupported)
            status = KN_OK;
        else if (status != KN_OK && error)
            *error = missing;
        for (int i = 0; i < node->output_count; i++)
            exact = exact && is_exact(&folding->outputs[i]);
        if (status == KN_OK && !unsupported && exact) {
            status = make_constants(folding, node, error);
            *folded = status == KN_OK;
        }
    }
    release_arrays(folding, node);
    kn_release(&graph->host, folding);
    return status;
}

/* Removes constants that only folded nodes read, and unused hidden results. */
static kn_status drop_unread(kn_graph *graph, const bool *touched, kn_error *error) {
    bool *read = kn_allocate(&graph->host, graph->value_count + 1, sizeof *read);
    if (!read) return kn_fail_memory(error, graph->value_count);
    for (size_t i = 0; i < graph->node_count; i++)
        for (int j = 0; j < graph->nodes[i]->input_count; j++)
            if (graph->nodes[i]->inputs[j]) read[graph->nodes[i]->inputs[j]->id] = true;
    for (size_t i = 0; i < graph->output_count; i++)
        read[graph->outputs[i]->id] = true;
    size_t kept = 0;
    for (size_t i = 0; i < graph->value_count; i++) {
        kn_value *value = graph->values[i];
        if (value->kind == KN_VALUE_CONSTANT && touched[i] && !read[i] && !value->wanted) {
            if (kn_map_get_text(&graph->names, value->name) == value)
                kn_map_remove(&graph->names, value->name, strlen(value->name));
            continue;
        }
        graph->values[kept++] = value;
    }
    for (size_t i = 0; i < kept; i++)
        graph->values[i]->id = (int)i;
    graph->value_count = kept;
    kn_release(&graph->host, read);
    return KN_OK;
}

kn_status kn_graph_fold(kn_graph *bound, kn_error *error) {
    size_t kept = 0;
    kn_status status = KN_OK;
    bool *touched = kn_allocate(&bound->host, bound->value_count + 1, sizeof *touched);
    if (!touched) return kn_fail_memory(error, bound->value_count);
    for (size_t i = 0; i < bound->node_count; i++) {
        kn_node *node = bound->nodes[i];
        bool folded = false;
        if (status == KN_OK && can_fold(node)) status = fold_node(bound, node, &folded, error);
        if (folded) {
            for (int j = 0; j < node->input_count; j++)
                if (node->inputs[j]) touched[node->inputs[j]->id] = true;
            for (int j = node->output_count - node->op->hidden; !node->derivative && j < node->output_count;
                 j++)
                touched[node->outputs[j]->id] = true;
        }
        if (!folded) {
            node->id = (int)kept;
            bound->nodes[kept++] = node;
        }
    }
    bool changed = kept != bound->node_count;
    bound->node_count = kept;
    if (status == KN_OK && changed) status = drop_unread(bound, touched, error);
    kn_release(&bound->host, touched);
    return status;
}
