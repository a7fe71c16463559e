/* Bound graphs computed by the references of their rows. */
#include "ops_tests.h"

#include <stdlib.h>
#include <string.h>

int64_t host_elements(const kn_value *value) {
    int64_t elements = kn_shape_elements(&value->shape);
    assert_true(elements >= 0);
    return elements;
}

static double *take(const kn_value *value, const host_input *inputs, int count) {
    int64_t elements = host_elements(value);
    double *numbers = calloc((size_t)elements + 1, sizeof *numbers);
    assert_non_null(numbers);
    const double *given = NULL;
    bool takes = value->kind == KN_VALUE_INPUT || value->kind == KN_VALUE_STATE;
    for (int i = 0; i < count && takes; i++)
        if (inputs[i].name && !strcmp(inputs[i].name, value->name))
            given = inputs[i].numbers; /* absent: no name */
    for (int64_t i = 0; i < elements; i++) {
        if (given)
            numbers[i] = given[i];
        else if (value->kind == KN_VALUE_CONSTANT)
            numbers[i] = kn_element_get(value->shape.dtype, value->data, i);
        else if (value->kind == KN_VALUE_STATE)
            numbers[i] = value->initializer.value;
    }
    return numbers;
}

static void compute_node(const kn_node *node, host_values *values) {
    kn_reference_array inputs[KN_MAX_INPUTS], outputs[KN_MAX_OUTPUTS];
    memset(inputs, 0, sizeof inputs);
    for (int i = 0; i < node->input_count; i++) {
        if (!node->inputs[i]) continue;
        inputs[i].shape = node->inputs[i]->shape;
        inputs[i].elements = host_elements(node->inputs[i]);
        inputs[i].data = values->numbers[node->inputs[i]->id];
    }
    for (int i = 0; i < node->output_count; i++) {
        outputs[i].shape = node->outputs[i]->shape;
        outputs[i].elements = host_elements(node->outputs[i]);
        outputs[i].data = values->numbers[node->outputs[i]->id];
    }
    kn_host host = kn_host_defaults();
    kn_error error = {0};
    kn_reference_call call = {.node = node,
                              .input_count = node->input_count,
                              .inputs = inputs,
                              .output_count = node->output_count,
                              .outputs = outputs,
                              .host = &host,
                              .error = &error};
    if (kn_node_reference(&call)) fail_msg("%s: %s", node->name, error.text);
}

host_values host_compute(const kn_graph *bound, const host_input *inputs, int count) {
    host_values values = {.count = bound->value_count};
    values.numbers = calloc(values.count + 1, sizeof *values.numbers);
    assert_non_null(values.numbers);
    for (size_t i = 0; i < values.count; i++)
        values.numbers[i] = take(bound->values[i], inputs, count);
    for (size_t i = 0; i < bound->node_count; i++)
        if (bound->nodes[i]->op->class != KN_CLASS_ASSIGN) compute_node(bound->nodes[i], &values);
    return values;
}

void host_release(host_values *values) {
    for (size_t i = 0; i < values->count; i++)
        free(values->numbers[i]);
    free(values->numbers);
    *values = (host_values){0};
}

kn_value *host_loss(kn_graph *bound, kn_value *const *outputs, double *const *weights, int count) {
    kn_value *loss = NULL;
    for (int k = 0; k < count; k++) {
        if (!kn_dtype_is_float(outputs[k]->shape.dtype)) continue;
        int64_t elements = host_elements(outputs[k]);
        size_t bytes = (size_t)elements * kn_dtype_bytes(outputs[k]->shape.dtype);
        void *data = malloc(bytes + 1);
        assert_non_null(data);
        for (int64_t i = 0; i < elements; i++)
            kn_element_set(outputs[k]->shape.dtype, data, i, weights[k][i]);
        kn_value *constant = kn_constant_add(bound, &outputs[k]->shape, data, bytes);
        free(data);
        kn_value *part = kn_sum(kn_mul(outputs[k], constant), NULL, false);
        loss = loss ? kn_add(loss, part) : part;
    }
    return loss;
}
