/* The tests of the graph module. */
#include "graph_tests.h"

#include <stdlib.h>

kn_graph *graph_make(void) {
    kn_graph *graph = kn_graph_create(NULL);
    assert_non_null(graph);
    return graph;
}

void assert_words(const char *text, const char *word) {
    if (!strstr(text, word)) fail_msg("expected \"%s\" in: %s", word, text);
}

void assert_graph_error(const kn_graph *graph, kn_status status, ...) {
    if (kn_graph_status(graph) != status)
        fail_msg("expected %s, found %s: %s", kn_status_name(status), kn_status_name(kn_graph_status(graph)),
                 kn_graph_error(graph));
    va_list words;
    va_start(words, status);
    for (const char *word = va_arg(words, const char *); word; word = va_arg(words, const char *))
        assert_words(kn_graph_error(graph), word);
    va_end(words);
}

const char *printed(const kn_graph *graph) {
    static char copy[16384];
    kn_text text;
    kn_host host = kn_host_defaults();
    kn_text_init(&text, &host);
    kn_graph_print(graph, &text);
    assert_true(text.length < sizeof copy);
    memcpy(copy, text.data, text.length + 1);
    kn_text_finish(&text);
    return copy;
}

kn_value *apply1(kn_value *x, const char *name, const char *attributes) {
    return kn_apply(x->graph, name, &x, 1, attributes);
}

kn_value *apply2(kn_value *x, kn_value *y, const char *name, const char *attributes) {
    return kn_apply(x->graph, name, (kn_value *[]){x, y}, 2, attributes);
}

kn_value *apply3(kn_value *x, kn_value *y, kn_value *z, const char *name, const char *attributes) {
    return kn_apply(x->graph, name, (kn_value *[]){x, y, z}, 3, attributes);
}

kn_graph *bind_or_fail(const kn_graph *graph, kn_value *const *outputs, size_t count, const numbers *symbols,
                       bool training, kn_value **bound_outputs) {
    kn_error error = {0};
    kn_graph *bound = NULL;
    kn_binding bindings[2];
    size_t used = 0;
    for (; symbols && used < 2 && symbols[used].symbol; used++)
        bindings[used] = (kn_binding){symbols[used].symbol, symbols[used].value};
    kn_bind_request request = {.bindings = bindings, .binding_count = used, .training = training, .seed = 7};
    if (kn_graph_bind(graph, outputs, count, &request, &bound, bound_outputs, &error) != KN_OK)
        fail_msg("%s: %s", kn_status_name(error.status), error.text);
    return bound;
}

computed compute(const kn_graph *bound, start_number *start) {
    computed result = {.graph = bound, .data = calloc(bound->value_count + 1, sizeof *result.data)};
    assert_non_null(result.data);
    kn_host host = kn_host_defaults();
    for (size_t i = 0; i < bound->value_count; i++) {
        const kn_value *value = bound->values[i];
        int64_t elements = kn_shape_elements(&value->shape);
        assert_true(elements >= 0);
        result.data[i] = calloc((size_t)elements + 1, sizeof(double));
        for (int64_t j = 0; value->kind != KN_VALUE_RESULT && j < elements; j++)
            result.data[i][j] = value->kind == KN_VALUE_CONSTANT
                                    ? kn_element_get(value->shape.dtype, value->data, j)
                                    : start(value->name, j);
    }
    for (size_t i = 0; i < bound->node_count; i++) {
        const kn_node *node = bound->nodes[i];
        kn_reference_array inputs[KN_MAX_INPUTS] = {{.data = NULL}}, outputs[KN_MAX_OUTPUTS];
        kn_error error = {0};
        if (node->op->class == KN_CLASS_ASSIGN) continue;
        for (int j = 0; j < node->input_count; j++)
            if (node->inputs[j])
                inputs[j] = (kn_reference_array){.shape = node->inputs[j]->shape,
                                                 .elements = kn_shape_elements(&node->inputs[j]->shape),
                                                 .data = result.data[node->inputs[j]->id]};
        for (int j = 0; j < node->output_count; j++)
            outputs[j] = (kn_reference_array){.shape = node->outputs[j]->shape,
                                              .elements = kn_shape_elements(&node->outputs[j]->shape),
                                              .data = result.data[node->outputs[j]->id]};
        kn_reference_call call = {.node = node,
                                  .input_count = node->input_count,
                                  .inputs = inputs,
                                  .output_count = node->output_count,
                                  .outputs = outputs,
                                  .host = &host,
                                  .error = &error};
        if (kn_node_reference(&call) != KN_OK) fail_msg("%s", error.text);
    }
    return result;
}

void computed_release(computed *values) {
    for (size_t i = 0; i < values->graph->value_count; i++)
        free(values->data[i]);
    free(values->data);
}

int main(void) {
    int failed = test_tensor() + test_dimension() + test_attribute() + test_build() + test_expression() +
                 test_bind() + test_fold() + test_gradient() + test_step() + test_faults() + test_mutations();
    return failed != 0;
}
