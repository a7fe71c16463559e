/* ONNX models: their content, and what is refused. */
#include "formats_tests.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onnx_bytes.h"

/* Bytes in a block of exactly their size, so that a sanitizer detects reads past the end. */
static kn_status read_made(const kn_host *host, const made *bytes, const char *folder, kn_onnx_model *model,
                           uint8_t **block, kn_error *error) {
    *block = malloc(bytes->count > 0 ? bytes->count : 1);
    assert_non_null(*block);
    memcpy(*block, bytes->bytes, bytes->count);
    return kn_onnx_read(host, "some.onnx", *block, bytes->count, folder, model, error);
}

static void check_attributes(const kn_onnx_node *node) {
    assert_int_equal(node->attribute_count, 14);
    for (size_t i = 0; i < 14; i++)
        assert_int_equal(node->attributes[i].kind, i + 1);
    const kn_onnx_attribute *at = node->attributes;
    assert_true(at[0].floats[0] == 0.5f && at[0].count == 1);
    assert_true(at[1].ints[0] == -7 && at[1].count == 1);
    assert_true(at[2].strings[0].count == 2 && memcmp(at[2].strings[0].bytes, "\0\xff", 2) == 0);
    assert_int_equal(at[3].tensors[0].count, 2);
    assert_string_equal(at[4].graphs[0].nodes[0].type, "Relu");
    assert_true(at[5].count == 2 && at[5].floats[1] == 2);
    assert_true(at[6].count == 3 && at[6].ints[2] == 5);
    assert_true(at[7].count == 2 && at[7].strings[1].count == 0);
    assert_true(at[8].count == 2 && at[8].tensors[1].count == 0 && at[8].tensors[1].bytes);
    assert_true(at[9].count == 1 && at[9].graphs[0].output_count == 1);
    assert_true(at[10].sparses[0].rank == 1 && at[10].sparses[0].shape[0] == 5);
    assert_string_equal(at[11].sparses[0].values.name, "sparse");
    assert_int_equal(at[12].types[0].kind, KN_ONNX_TENSOR);
    assert_int_equal(at[13].types[0].rank, 2);
    assert_ptr_equal(kn_onnx_find_attribute(node, "is"), &at[6]);
    assert_null(kn_onnx_find_attribute(node, "other"));
}

static void check_function(const kn_onnx_function *function) {
    assert_string_equal(function->name, "Twice");
    assert_string_equal(function->domain, "own");
    assert_string_equal(function->overload, "wide");
    assert_int_equal(function->input_count, 3);
    assert_string_equal(function->inputs[2], "c");
    assert_string_equal(function->outputs[0], "d");
    assert_string_equal(function->attribute_names[0], "slope");
    assert_true(function->attributes[0].floats[0] == 3);
    assert_string_equal(function->nodes[0].attributes[0].reference, "slope");
    assert_int_equal(function->nodes[0].attributes[0].kind, KN_ONNX_ATTRIBUTE_FLOAT);
    assert_int_equal(function->nodes[0].attributes[0].count, 0);
    assert_int_equal(kn_onnx_find_opset(function->opsets, function->opset_count, ""), 21);
    assert_int_equal(function->value_count, 1);
}

static void check_model(const kn_onnx_model *model) {
    assert_int_equal(model->ir_version, 10);
    assert_int_equal(kn_onnx_find_opset(model->opsets, model->opset_count, ""), 21);
    assert_int_equal(kn_onnx_find_opset(model->opsets, model->opset_count, "own"), 1);
    assert_int_equal(kn_onnx_find_opset(model->opsets, model->opset_count, "other"), 0);
    assert_string_equal(model->producer, "tests");
    assert_string_equal(model->producer_version, "1");
    assert_string_equal(model->doc, "");
    assert_int_equal(model->version, 2);
    assert_string_equal(model->metadata[0].value, "v\xc3\xa4lue");
    const kn_onnx_graph *graph = &model->graph;
    assert_string_equal(graph->name, "graph");
    assert_int_equal(graph->node_count, 2);
    const kn_onnx_node *node = &graph->nodes[0];
    assert_int_equal(node->input_count, 3);
    assert_string_equal(node->inputs[1], "");
    assert_string_equal(node->inputs[2], "w");
    assert_string_equal(node->outputs[0], "y");
    assert_string_equal(node->name, "first");
    assert_string_equal(node->type, "Twice");
    assert_string_equal(node->domain, "own");
    assert_string_equal(node->overload, "wide");
    assert_string_equal(node->doc, "words");
    assert_string_equal(node->metadata[0].key, "key");
    check_attributes(node);
    assert_string_equal(graph->nodes[1].domain, "");
    assert_int_equal(graph->initializer_count, 2);
    assert_true(kn_onnx_tensor_number(&graph->initializers[0], 2) == 2);
    assert_int_equal(graph->sparse_initializer_count, 1);
    assert_string_equal(graph->annotations[0].tensor, "w");
    assert_int_equal(graph->annotations[0].parameter_count, 1);
    assert_string_equal(graph->outputs[0].name, "z");
    assert_string_equal(graph->values[0].name, "y");
    const kn_onnx_value_type *type = &graph->inputs[0].type;
    assert_true(type->kind == KN_ONNX_TENSOR && type->type == KN_ONNX_FLOAT32 && type->has_shape &&
                type->rank == 2);
    assert_false(type->shape[0].known);
    assert_string_equal(type->shape[0].name, "batch");
    assert_true(type->shape[1].known && type->shape[1].length == 3);
    assert_int_equal(model->function_count, 1);
    check_function(&model->functions[0]);
}

TEST(a_model_is_read) {
    made bytes;
    make_model(&bytes);
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_onnx_model model;
    kn_error error = {0};
    uint8_t *block;
    assert_fine(read_made(&host, &bytes, NULL, &model, &block, &error), &error);
    check_model(&model);
    kn_onnx_close(&host, &model);
    kn_onnx_close(&host, &model);
    assert_int_equal(memory.live, 0);
    free(block);
    kn_onnx_close(&host, NULL);
}

/* Truncated anywhere it is refused, or is a smaller model if the cut is between two fields. */
TEST(a_cut_model_is_refused) {
    made bytes;
    make_model(&bytes);
    size_t accepted = 0, whole = bytes.count;
    for (size_t count = 0; count < whole; count++) {
        bytes.count = count;
        failing memory = {0};
        kn_host host = failing_host(&memory);
        kn_onnx_model model;
        kn_error error = {0};
        uint8_t *block;
        kn_status status = read_made(&host, &bytes, NULL, &model, &block, &error);
        accepted += status == KN_OK;
        if (status != KN_OK) assert_refused(status, &error, KN_ERROR_FORMAT, "some.onnx: ");
        kn_onnx_close(&host, &model);
        free(block);
        assert_int_equal(memory.live, 0);
    }
    assert_in_range(accepted, 1, 20);
}

TEST(any_allocation_may_fail) {
    made bytes;
    make_model(&bytes);
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_onnx_model model;
        kn_error error = {0};
        uint8_t *block;
        kn_status status = read_made(&host, &bytes, NULL, &model, &block, &error);
        free(block);
        kn_onnx_close(&host, &model);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK) break;
        assert_refused(status, &error, KN_ERROR_MEMORY, "");
        assert_true(fail_at < 10000);
    }
}

/* A model with this graph is refused with those words. */
static void refuse_graph(const made *graph, kn_status expected, const char *words) {
    made bytes;
    make_small_model(&bytes, graph);
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_onnx_model model;
    kn_error error = {0};
    uint8_t *block;
    assert_refused(read_made(&host, &bytes, NULL, &model, &block, &error), &error, expected, words);
    assert_null(model.arena.blocks);
    assert_int_equal(memory.live, 0);
    free(block);
}

static void refuse_attribute(const made *attribute, const char *words) {
    made graph = {.count = 0};
    add_node(&graph, 1, "Any", "x", "y", attribute);
    refuse_graph(&graph, KN_ERROR_FORMAT, words);
}

TEST(names_are_unique) {
    made graph = {.count = 0};
    add_value(add_value(&graph, 11, "x"), 11, "x");
    refuse_graph(&graph, KN_ERROR_FORMAT, "\"x\" names both an input and another");
    graph.count = 0;
    add_tensor(add_tensor(&graph, 5, "w", 1), 5, "w", 1);
    refuse_graph(&graph, KN_ERROR_FORMAT, "\"w\" names both an initializer and another");
    graph.count = 0;
    add_node(add_node(&graph, 1, "A", "x", "y", NULL), 1, "B", "x", "y", NULL);
    refuse_graph(&graph, KN_ERROR_FORMAT, "\"y\" names both an output of a node and another");
    graph.count = 0;
    add_node(add_value(&graph, 11, "y"), 1, "A", "x", "y", NULL);
    refuse_graph(&graph, KN_ERROR_FORMAT, "\"y\" names both an input and an output of a node");
    made node = {.count = 0}, attribute = {.count = 0};
    add_number(add_text(&attribute, 1, "axis"), 3, 1);
    add_message(add_message(&node, 5, &attribute), 5, &attribute);
    graph.count = 0;
    refuse_graph(add_message(&graph, 1, &node), KN_ERROR_FORMAT,
                 "\"axis\" names both an attribute and another");
    /* An initializer may be an input too, but no two outputs may have one name. */
    graph.count = 0;
    add_tensor(add_value(&graph, 11, "w"), 5, "w", 1);
    add_node(add_node(&graph, 1, "A", "w", "", NULL), 1, "B", "w", "", NULL);
    made bytes;
    make_small_model(&bytes, &graph);
    kn_onnx_model model;
    kn_error error = {0};
    assert_fine(kn_onnx_read(NULL, "x", bytes.bytes, bytes.count, NULL, &model, &error), &error);
    kn_onnx_close(NULL, &model);
}

TEST(functions_and_domains_are_unique) {
    made bytes, graph = {.count = 0}, opset = {.count = 0}, function = {.count = 0};
    make_small_model(&bytes, &graph);
    add_message(&bytes, 8, &opset);
    kn_onnx_model model;
    kn_error error = {0};
    assert_refused(kn_onnx_read(NULL, "x", bytes.bytes, bytes.count, NULL, &model, &error), &error,
                   KN_ERROR_FORMAT, "a domain of operators and another");
    make_small_model(&bytes, &graph);
    kn_error_clear(&error);
    add_number(&opset, 2, SMALL_OPSET); /* as programs that merge models write it */
    add_message(&bytes, 8, &opset);
    assert_fine(kn_onnx_read(NULL, "x", bytes.bytes, bytes.count, NULL, &model, &error), &error);
    assert_int_equal(kn_onnx_find_opset(model.opsets, model.opset_count, ""), SMALL_OPSET);
    kn_onnx_close(NULL, &model);
    make_small_model(&bytes, &graph);
    add_text(&function, 1, "F");
    add_message(add_message(&bytes, 25, &function), 25, &function);
    assert_refused(kn_onnx_read(NULL, "x", bytes.bytes, bytes.count, NULL, &model, &error), &error,
                   KN_ERROR_FORMAT, "\".F:\" names both a function and another");
}

TEST(contradictions_are_refused) {
    made attribute = {.count = 0};
    refuse_attribute(add_number(add_number(add_text(&attribute, 1, "a"), 20, 1), 3, 5),
                     "is both a number and an integer");
    attribute.count = 0;
    refuse_attribute(add_text(add_number(&attribute, 3, 5), 4, "s"), "is both an integer and a string");
    attribute.count = 0;
    refuse_attribute(add_text(&attribute, 1, "a"), "has neither a kind nor a value");
    attribute.count = 0;
    refuse_attribute(add_number(&attribute, 20, 15), "an unknown kind");
    attribute.count = 0;
    refuse_attribute(add_number(&attribute, 20, 4), "has 0 values; expected a tensor");
    attribute.count = 0;
    refuse_attribute(add_text(add_number(&attribute, 3, 5), 21, "r"),
                     "has both a value and a reference to \"r\"");
    attribute.count = 0;
    refuse_attribute(add_text(&attribute, 8, "\x80"), "the number is truncated or too long");
    attribute.count = 0;
    refuse_attribute(add_text(&attribute, 7, "123"), "3 bytes; expected a multiple of 4");
    attribute.count = 0;
    refuse_attribute(add_number(&attribute, 1, 1), "field 1 is a varint; expected length");
    attribute.count = 0;
    refuse_attribute(add_text(&attribute, 1, "\xc3("), "invalid UTF-8 in a string");
    attribute.count = 0;
    refuse_attribute(add_packet(&attribute, 1, "a\0b", 3), "a zero character in a");
    made type = {.count = 0}, kind = {.count = 0}, value = {.count = 0}, graph = {.count = 0};
    add_message(add_message(&type, 1, &kind), 4, &kind);
    refuse_graph(add_message(&graph, 11, add_message(&value, 2, &type)), KN_ERROR_FORMAT,
                 "a type is both a tensor and a sequence");
    made bytes;
    graph.count = 0;
    make_small_model(&bytes, &graph);
    add_message(&bytes, 7, &graph);
    kn_onnx_model model;
    kn_error error = {0};
    assert_refused(kn_onnx_read(NULL, "x", bytes.bytes, bytes.count, NULL, &model, &error), &error,
                   KN_ERROR_FORMAT, "a second field graph");
}

TEST(invalid_models_are_refused) {
    static const struct {
        const char *bytes, *words;
        size_t count;
    } cases[] = {
        {"", "no graph; expected an ONNX model", 0},
        {"\x3a", "the length is truncated", 1},
        {"\x3a\5", "5 bytes are declared, 0 are left", 2},
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "18446744073709551615 bytes are declared", 11},
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\2", "the length is truncated or too long", 11},
        {"\x3a\0", "no operator set", 2},
        {"\0\0", "field number 0", 2},
        {"\x0b", "has form 3", 1},
        {"\xff", "no field number", 1},
        {"\xfa\xff\xff\xff\xff\1\0", "field number", 7},
        {"\x0d\1\2\3", "the number is truncated", 4},
        {"\x09\1\2\3\4\5\6\7", "the number is truncated", 8},
        {"<html>", "some.onnx: byte 0: ", 6},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_onnx_model model;
        kn_error error = {0};
        assert_refused(kn_onnx_read(NULL, "some.onnx", (const uint8_t *)cases[i].bytes, cases[i].count, NULL,
                                    &model, &error),
                       &error, KN_ERROR_FORMAT, cases[i].words);
    }
}

/* Graphs in attributes of nodes of graphs: 1000 levels would overflow the stack. */
TEST(depth_is_limited) {
    made graph = {.count = 0};
    for (int i = 0; i < 100; i++) {
        made attribute = {.count = 0}, node = {.count = 0}, outer = {.count = 0};
        add_message(add_number(&attribute, 20, 5), 6, &graph);
        graph = *add_message(&outer, 1, add_message(&node, 5, &attribute));
    }
    refuse_graph(&graph, KN_ERROR_FORMAT, "messages are nested");
    made type = {.count = 0}, value = {.count = 0};
    for (int i = 0; i < 200; i++) {
        made inner = {.count = 0}, outer = {.count = 0};
        type = *add_message(&outer, 4, add_message(&inner, 1, &type));
    }
    graph.count = 0;
    refuse_graph(add_message(&graph, 11, add_message(&value, 2, &type)), KN_ERROR_FORMAT,
                 "messages are nested");
}

TEST_FILE(test_onnx, NULL, NULL)
