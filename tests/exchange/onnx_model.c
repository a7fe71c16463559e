#include "onnx_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/ops_tests.h"
#include "graph/graph.h"

/* Field numbers of the format's messages. */
enum {
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE = 13,
    GRAPH_METADATA = 16
};

/* Calls for each word of a list; false where the list has ended. */
static bool next_word(const char **list, char sign, char *word, size_t room) {
    if (!**list) return false;
    size_t length = strcspn(*list, (char[]){sign, 0});
    assert_true(length < room);
    memcpy(word, *list, length);
    word[length] = '\0';
    *list += length + ((*list)[length] == sign);
    return true;
}

void onnx_input(onnx_graph *graph, const char *name, int type, const char *shape) {
    add_typed_value(&graph->bytes, GRAPH_INPUT, name, type, shape);
}

void onnx_output_as(onnx_graph *graph, const char *name, int type, const char *shape) {
    add_typed_value(&graph->bytes, GRAPH_OUTPUT, name, type, shape);
}

void onnx_output(onnx_graph *graph, const char *name) {
    made value = {.count = 0};
    add_text(&value, 1, name);
    add_message(&graph->bytes, GRAPH_OUTPUT, &value);
}

void onnx_floats(onnx_graph *graph, const char *name, const char *shape, float first) {
    char word[64];
    made tensor = {.count = 0};
    unsigned long long count = 1;
    while (next_word(&shape, ',', word, sizeof word)) {
        unsigned long long size = strtoull(word, NULL, 10);
        add_number(&tensor, 1, size);
        count *= size;
    }
    add_number(&tensor, 2, ONNX_FLOAT);
    for (unsigned long long i = 0; i < count; i++)
        add_float(&tensor, 4, first + (float)i);
    add_text(&tensor, 8, name);
    add_message(&graph->bytes, GRAPH_INITIALIZER, &tensor);
}

void onnx_integers(onnx_graph *graph, const char *name, const char *numbers) {
    char word[64];
    made tensor = {.count = 0}, values = {.count = 0};
    uint64_t count = 0;
    while (next_word(&numbers, ',', word, sizeof word)) {
        add_number(&values, 7, (uint64_t)strtoll(word, NULL, 10));
        count++;
    }
    add_number(add_number(&tensor, 1, count), 2, ONNX_INT64);
    add_bytes(&tensor, values.bytes, values.count);
    add_text(&tensor, 8, name);
    add_message(&graph->bytes, GRAPH_INITIALIZER, &tensor);
}

void onnx_says(onnx_graph *graph, const char *name, const char *key, const char *says) {
    made value = {.count = 0};
    add_message(&graph->bytes, GRAPH_VALUE, add_pair(add_text(&value, 1, name), 4, key, says));
}

void onnx_graph_says(onnx_graph *graph, const char *key, const char *says) {
    add_pair(&graph->bytes, GRAPH_METADATA, key, says);
}

static void add_attribute(made *node, char *word) {
    made attribute = {.count = 0};
    char *value = strchr(word, '='), number[64];
    assert_non_null(value);
    *value++ = '\0';
    add_text(&attribute, 1, word);
    size_t length = strlen(value);
    if (value[0] == '\'') {
        add_packet(&attribute, 4, value + 1, length - 2);
        add_number(&attribute, 20, 3);
    } else if (value[length - 1] == 'f') {
        add_float(&attribute, 2, strtof(value, NULL));
        add_number(&attribute, 20, 1);
    } else if (strchr(value, ':')) {
        const char *rest = value;
        while (next_word(&rest, ':', number, sizeof number))
            add_number(&attribute, 8, (uint64_t)strtoll(number, NULL, 10));
        add_number(&attribute, 20, 7);
    } else {
        add_number(&attribute, 3, (uint64_t)strtoll(value, NULL, 10));
        add_number(&attribute, 20, 2);
    }
    add_message(node, 5, &attribute);
}

static made start_node(const char *type, const char *inputs, const char *outputs) {
    char word[64];
    made node = {.count = 0};
    const char *colon = strchr(type, ':');
    while (next_word(&inputs, ',', word, sizeof word))
        add_text(&node, 1, word);
    while (next_word(&outputs, ',', word, sizeof word))
        add_text(&node, 2, word);
    add_text(&node, 4, colon ? colon + 1 : type);
    if (colon) add_packet(&node, 7, type, (size_t)(colon - type));
    return node;
}

void onnx_node(onnx_graph *graph, const char *type, const char *inputs, const char *outputs,
               const char *attributes) {
    char word[128];
    made node = start_node(type, inputs, outputs);
    while (attributes && next_word(&attributes, ' ', word, sizeof word))
        add_attribute(&node, word);
    add_message(&graph->bytes, GRAPH_NODE, &node);
}

void onnx_node_says(onnx_graph *graph, const char *type, const char *inputs, const char *outputs,
                    const char *key, const char *says) {
    made node = start_node(type, inputs, outputs);
    add_message(&graph->bytes, GRAPH_NODE, add_pair(&node, 9, key, says));
}

void onnx_node_with(onnx_graph *graph, const char *type, const char *inputs, const char *outputs,
                    const char *body_name, const onnx_graph *body, const char *other_name,
                    const onnx_graph *other, const char *attributes) {
    char word[128];
    made node = start_node(type, inputs, outputs);
    while (attributes && next_word(&attributes, ' ', word, sizeof word))
        add_attribute(&node, word);
    for (int i = 0; i < 2; i++) {
        made attribute = {.count = 0};
        const onnx_graph *inner = i ? other : body;
        if (!inner) continue;
        add_text(&attribute, 1, i ? other_name : body_name);
        add_message(&attribute, 6, &inner->bytes);
        add_number(&attribute, 20, 5);
        add_message(&node, 5, &attribute);
    }
    add_message(&graph->bytes, GRAPH_NODE, &node);
}

kn_model *onnx_open(const onnx_graph *graph, const kn_model_params *params) {
    made bytes;
    char path[4096];
    make_small_model(&bytes, &graph->bytes);
    char *folder = test_folder_make();
    test_file_write(test_path(path, sizeof path, folder, "net.onnx"), bytes.bytes, bytes.count);
    kn_model *model = kn_model_open(path, params);
    assert_non_null(model);
    test_folder_remove(folder);
    return model;
}

kn_model *onnx_right(const onnx_graph *graph, const kn_model_params *params) {
    kn_model *model = onnx_open(graph, params);
    if (!kn_model_bound(model)) fail_msg("%s", kn_model_error(model));
    assert_string_equal(kn_model_name(model), "net");
    assert_string_equal(kn_model_text(model), "");
    return model;
}

void onnx_refused(const onnx_graph *graph, const kn_model_params *params, const char *message) {
    kn_model *model = onnx_open(graph, params);
    const char *found = strstr(kn_model_error(model), "net.onnx: ");
    assert_false(kn_model_bound(model));
    if (!found || !strstr(found, message)) fail_msg("\"%s\" lacks \"%s\"", kn_model_error(model), message);
    assert_null(kn_model_output_at(model, 0));
    kn_model_destroy(&model);
}

void onnx_gives(kn_model *model, int position, const char *shape, const char *numbers) {
    kn_value *output = kn_model_output_at(model, position), *copy = NULL;
    kn_graph *bound = NULL;
    kn_error error = {0};
    kn_bind_request request = {.bindings = NULL};
    char text[1024] = "", found[256];
    if (kn_graph_bind(kn_model_graph(model), &output, 1, &request, &bound, &copy, &error) != KN_OK)
        fail_msg("%s", error.text);
    kn_value_shape_text(copy, found, sizeof found);
    assert_string_equal(found, shape);
    host_values computed = host_compute(bound, NULL, 0);
    for (int64_t i = 0; i < kn_shape_elements(&copy->shape); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%g", i ? " " : "",
                 computed.numbers[copy->id][i]);
    host_release(&computed);
    assert_string_equal(text, numbers);
    kn_graph_destroy(&bound);
}
