/* A bound graph computed node by node in double precision, exactly or with errors as large as a device's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_graph.h"

/* Beyond this, float32 sums of products of such numbers say little. */
static const double largest_defined = 1e5;

static const kn_host *host_of(const kn_graph *bound) {
    return &bound->host;
}

static bool make_array(const kn_value *value, kn_reference_array *array) {
    array->shape = value->shape;
    array->elements = kn_shape_elements(&value->shape);
    array->data = calloc((size_t)array->elements + 1, sizeof *array->data);
    return array->data != NULL;
}

static bool is_float(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64 || kn_is_half(dtype);
}

/* Whether a number is one that its type has, within the range in which results are compared. */
static bool is_defined(kn_dtype dtype, double number) {
    if (is_float(dtype)) {
        const double most = dtype == KN_FLOAT16 ? 60000 : largest_defined;
        return number >= -most && number <= most;
    }
    uint64_t bits[2] = {0, 0};
    kn_element_set(dtype, bits, 0, number);
    return kn_element_get(dtype, bits, 0) == number && fabs(number) <= 16777216;
}

/* The relative error of one operation. */
static double error_of(kn_dtype dtype, kn_dtype half) {
    if (dtype == KN_FLOAT64) return 1e-7; /* attributes, such as a momentum, are float32 in kernels */
    if (dtype == KN_FLOAT16 || half == KN_FLOAT16) return 0x1p-11;
    if (dtype == KN_BFLOAT16 || half == KN_BFLOAT16) return 0x1p-8;
    return 1e-6;
}

static void add_noise(const kn_node *node, kn_reference_array *array, uint64_t key, bool fast,
                      kn_dtype half) {
    const double relative = error_of(array->shape.dtype, half);
    double largest = 0, squares = 0;
    for (int64_t i = 0; i < array->elements; i++) {
        largest = fmax(largest, fabs(array->data[i]));
        squares += array->data[i] * array->data[i];
    }
    const bool pointwise = node->op->class == KN_CLASS_POINTWISE;
    const double fixed =
        pointwise ? 1e-7
                  : relative * largest + (fast ? 1e-4 * sqrt(squares / fmax(1, (double)array->elements)) : 0);
    for (int64_t i = 0; i < array->elements; i++)
        array->data[i] +=
            (2 * (double)kn_random_uniform(key, (uint64_t)i) - 1) * (relative * fabs(array->data[i]) + fixed);
}

/* Whether a cast has numbers that its type has not, truncated: what they become is not defined. */
static bool casts_beyond(const kn_node *node, const kn_reference_array *from, const kn_dtype dtype) {
    bool beyond = false;
    if (strcmp(node->op->name, "cast") != 0 || is_float(dtype)) return false;
    for (int64_t i = 0; i < from->elements; i++)
        beyond = beyond || !(dtype == KN_BOOL || is_defined(dtype, trunc(from->data[i])));
    return beyond;
}

/* Whether a shift is by fewer bits than none, or by more than the type has. */
static bool shifts_beyond(const kn_node *node, const kn_reference_array *by, const kn_dtype dtype) {
    bool beyond = false;
    if (strcmp(node->op->name, "bit_left") != 0 && strcmp(node->op->name, "bit_right") != 0) return false;
    for (int64_t i = 0; i < by->elements; i++)
        beyond = beyond || !(by->data[i] >= 0 && by->data[i] < 8 * (double)kn_dtype_bytes(dtype));
    return beyond;
}

static reference_status compute_node(graph_arrays *arrays, const kn_node *node, uint64_t noise, bool fast,
                                     kn_dtype half, kn_error *error) {
    kn_reference_array inputs[KN_MAX_INPUTS] = {{.data = NULL}}, outputs[KN_MAX_OUTPUTS];
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i]) inputs[i] = arrays->arrays[node->inputs[i]->id];
    for (int i = 0; i < node->output_count; i++) {
        kn_reference_array *array = &arrays->arrays[node->outputs[i]->id];
        if (!make_array(node->outputs[i], array)) return REFERENCE_FAILED;
        outputs[i] = *array;
    }
    kn_reference_call call = {.node = node,
                              .input_count = node->input_count,
                              .inputs = inputs,
                              .output_count = node->output_count,
                              .outputs = outputs,
                              .host = host_of(arrays->bound),
                              .error = error};
    if (kn_node_reference(&call) != KN_OK) return REFERENCE_FAILED;
    if (casts_beyond(node, &inputs[0], outputs[0].shape.dtype) ||
        shifts_beyond(node, &inputs[1], outputs[0].shape.dtype))
        return REFERENCE_UNDEFINED;
    for (int k = 0; k < node->output_count; k++) {
        const kn_dtype dtype = outputs[k].shape.dtype;
        for (int64_t i = 0; i < outputs[k].elements; i++)
            if (!is_defined(dtype, outputs[k].data[i])) return REFERENCE_UNDEFINED;
        if (noise && is_float(dtype) && node->op->class != KN_CLASS_VIEW && !node->op->moves)
            add_noise(node, &outputs[k], noise + (uint64_t)node->outputs[k]->id, fast, half);
    }
    return REFERENCE_RIGHT;
}

reference_status graph_compute(graph_arrays *arrays, const kn_graph *bound, array_element *element,
                               void *user, uint64_t noise, bool fast, kn_dtype half, kn_error *error) {
    *arrays = (graph_arrays){bound, calloc(bound->value_count + 1, sizeof *arrays->arrays)};
    if (!arrays->arrays) return REFERENCE_FAILED;
    for (size_t v = 0; v < bound->value_count; v++) {
        const kn_value *value = bound->values[v];
        if (value->kind == KN_VALUE_RESULT) continue;
        if (!make_array(value, &arrays->arrays[v])) return REFERENCE_FAILED;
        for (int64_t i = 0; i < arrays->arrays[v].elements; i++)
            arrays->arrays[v].data[i] = value->kind == KN_VALUE_CONSTANT
                                            ? kn_element_get(value->shape.dtype, value->data, i)
                                            : element(user, value, i);
    }
    reference_status status = REFERENCE_RIGHT;
    for (size_t i = 0; i < bound->node_count && status == REFERENCE_RIGHT; i++)
        if (bound->nodes[i]->op->class != KN_CLASS_ASSIGN)
            status = compute_node(arrays, bound->nodes[i], noise, fast, half, error);
    return status;
}

void graph_arrays_finish(graph_arrays *arrays) {
    for (size_t v = 0; arrays->arrays && v < arrays->bound->value_count; v++)
        free(arrays->arrays[v].data);
    free(arrays->arrays);
    *arrays = (graph_arrays){0};
}
