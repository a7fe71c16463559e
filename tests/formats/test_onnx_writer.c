/* Writing ONNX: models from a program, external data, and what cannot be written. */
#include "formats_tests.h"

#include <stdio.h>
#include <string.h>

/* y = relu(x + w), where w has 2000 elements; with the fewest fields that a program must set. */
typedef struct small_model {
    float weights[2000];
    int64_t length;
    kn_onnx_tensor initializers[2];
    kn_onnx_dimension dimension;
    kn_onnx_value_info input, output;
    const char *names[6];
    kn_onnx_node nodes[2];
    kn_onnx_opset opset;
    kn_onnx_model model;
} small_model;

static void make(small_model *made) {
    *made =
        (small_model){.length = 2000, .dimension = {.known = true, .length = 2000}, .opset = {.version = 21}};
    for (int i = 0; i < 2000; i++)
        made->weights[i] = (float)i;
    static const char *const names[] = {"x", "w", "sum", "sum", "y", NULL};
    memcpy(made->names, names, sizeof names);
    made->initializers[0] = (kn_onnx_tensor){.name = "w",
                                             .type = KN_ONNX_FLOAT32,
                                             .rank = 1,
                                             .shape = &made->length,
                                             .bytes = (const uint8_t *)made->weights};
    made->initializers[1] =
        (kn_onnx_tensor){.name = "one", .type = KN_ONNX_UINT8, .bytes = (const uint8_t *)"\1"};
    made->nodes[0] = (kn_onnx_node){.type = "Add",
                                    .inputs = made->names,
                                    .input_count = 2,
                                    .outputs = made->names + 2,
                                    .output_count = 1};
    made->nodes[1] = (kn_onnx_node){.type = "Relu",
                                    .inputs = made->names + 3,
                                    .input_count = 1,
                                    .outputs = made->names + 4,
                                    .output_count = 2};
    kn_onnx_value_type type = {.kind = KN_ONNX_TENSOR,
                               .type = KN_ONNX_FLOAT32,
                               .has_shape = true,
                               .rank = 1,
                               .shape = &made->dimension};
    made->input = (kn_onnx_value_info){.name = "x", .type = type};
    made->output = (kn_onnx_value_info){.name = "y"};
    made->model = (kn_onnx_model){.ir_version = 10, .opsets = &made->opset, .opset_count = 1};
    made->model.graph = (kn_onnx_graph){.name = "small",
                                        .nodes = made->nodes,
                                        .node_count = 2,
                                        .initializers = made->initializers,
                                        .initializer_count = 2,
                                        .inputs = &made->input,
                                        .input_count = 1,
                                        .outputs = &made->output,
                                        .output_count = 1};
}

static void check(const kn_onnx_model *model, const small_model *made, bool external) {
    const kn_onnx_graph *graph = &model->graph;
    assert_int_equal(kn_onnx_find_opset(model->opsets, model->opset_count, ""), 21);
    assert_int_equal(graph->node_count, 2);
    assert_string_equal(graph->nodes[0].inputs[1], "w");
    assert_int_equal(graph->nodes[1].output_count, 2);
    assert_string_equal(graph->nodes[1].outputs[1], "");
    assert_int_equal(graph->inputs[0].type.shape[0].length, 2000);
    assert_int_equal(graph->outputs[0].type.kind, KN_ONNX_NO_KIND);
    assert_int_equal(graph->initializers[0].byte_count, sizeof made->weights);
    assert_memory_equal(graph->initializers[0].bytes, made->weights, sizeof made->weights);
    assert_int_equal(graph->initializers[0].external, external);
    assert_false(graph->initializers[1].external);
    assert_int_equal(graph->initializers[1].bytes[0], 1);
}

TEST(written_models_are_read) {
    small_model made;
    make(&made);
    char *folder = test_folder_make(), path[512], data[512];
    test_path(path, sizeof path, folder, "model.onnx");
    test_path(data, sizeof data, folder, "model.onnx.data");
    failing memory = {0};
    kn_host host = failing_host(&memory);
    for (int external = 0; external < 2; external++) {
        kn_onnx_write_options options = {.external_from = 100};
        kn_onnx_model model;
        kn_error error = {0};
        assert_fine(kn_onnx_write(&host, path, &made.model, external ? &options : NULL, &error), &error);
        assert_int_equal(kn_path_exists(data), external);
        assert_fine(kn_onnx_open(&host, path, &model, &error), &error);
        check(&model, &made, external);
        kn_onnx_close(&host, &model);
        assert_int_equal(memory.live, 0);
    }
    /* A second tensor in the external file begins at a page. */
    made.initializers[1] = made.initializers[0];
    made.initializers[1].name = "again";
    made.initializers[1].bytes = (const uint8_t *)made.weights + 4;
    made.length = 1999;
    kn_onnx_model model;
    kn_error error = {0};
    kn_onnx_write_options options = {.external_from = 1};
    assert_fine(kn_onnx_write(&host, path, &made.model, &options, &error), &error);
    assert_fine(kn_onnx_open(&host, path, &model, &error), &error);
    assert_memory_equal(model.graph.initializers[1].bytes, made.weights + 1, 1999 * sizeof(float));
    assert_int_equal(model.graph.initializers[1].bytes - model.graph.initializers[0].bytes, 8192);
    kn_onnx_close(&host, &model);
    assert_int_equal(memory.live, 0);
    test_folder_remove(folder);
}

TEST(unsupported_content_is_reported) {
    small_model made;
    uint8_t *bytes;
    uint64_t count;
    kn_error error = {0};
    make(&made);
    made.initializers[0].bytes = NULL;
    assert_refused(kn_onnx_encode(NULL, "x", &made.model, &bytes, &count, &error), &error, KN_ERROR_ARGUMENT,
                   "tensor \"w\" has no elements");
    assert_null(bytes);
    make(&made);
    made.length = -1;
    assert_refused(kn_onnx_encode(NULL, "x", &made.model, &bytes, &count, &error), &error, KN_ERROR_ARGUMENT,
                   "an invalid type or shape");
    make(&made);
    kn_onnx_attribute attribute = {.name = "axis", .count = 1};
    made.nodes[0].attributes = &attribute;
    made.nodes[0].attribute_count = 1;
    assert_refused(kn_onnx_encode(NULL, "x", &made.model, &bytes, &count, &error), &error, KN_ERROR_ARGUMENT,
                   "attribute \"axis\" has no kind");
    /* Only the size is checked; the data is not read. */
    make(&made);
    made.length = (int64_t)1 << 30;
    assert_refused(kn_onnx_encode(NULL, "x", &made.model, &bytes, &count, &error), &error,
                   KN_ERROR_UNSUPPORTED, "without external data");
    make(&made);
    char *folder = test_folder_make(), path[512];
    test_path(path, sizeof path, folder, "missing/model.onnx");
    assert_refused(kn_onnx_write(NULL, path, &made.model, NULL, &error), &error, KN_ERROR_FILE, "missing");
    test_folder_remove(folder);
}

TEST(any_allocation_may_fail) {
    small_model made;
    make(&made);
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        uint8_t *bytes;
        uint64_t count;
        kn_error error = {0};
        kn_status status = kn_onnx_encode(&host, "x", &made.model, &bytes, &count, &error);
        if (status == KN_OK) kn_release(&host, bytes);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK) break;
        assert_refused(status, &error, KN_ERROR_MEMORY, "");
        assert_true(fail_at < 1000);
    }
}

TEST(values_are_written) {
    kn_onnx_tensor tensor = {.name = "t", .type = KN_ONNX_INT4, .bytes = (const uint8_t *)"\7"};
    const kn_onnx_value item = {.kind = KN_ONNX_TENSOR, .tensor = &tensor};
    const kn_onnx_value items[] = {item, item};
    const kn_onnx_value sequence = {
        .kind = KN_ONNX_SEQUENCE, .name = "s", .item_kind = KN_ONNX_TENSOR, .count = 2, .items = items};
    const kn_onnx_value full = {
        .kind = KN_ONNX_OPTIONAL, .item_kind = KN_ONNX_SEQUENCE, .count = 1, .items = &sequence};
    char *folder = test_folder_make(), path[512];
    test_path(path, sizeof path, folder, "value.pb");
    kn_host host = kn_host_defaults();
    kn_onnx_value_file file;
    kn_error error = {0};
    assert_fine(kn_onnx_value_write(&host, path, &item, &error), &error);
    assert_fine(kn_onnx_value_open(&host, path, KN_ONNX_TENSOR, &file, &error), &error);
    assert_string_equal(file.value.name, "t");
    assert_true(kn_onnx_tensor_number(file.value.tensor, 0) == 7);
    kn_onnx_value_close(&host, &file);
    assert_fine(kn_onnx_value_write(&host, path, &full, &error), &error);
    assert_fine(kn_onnx_value_open(&host, path, KN_ONNX_OPTIONAL, &file, &error), &error);
    assert_string_equal(file.value.items[0].name, "s");
    assert_int_equal(file.value.items[0].count, 2);
    kn_onnx_value_close(&host, &file);
    const kn_onnx_value mixed = {
        .kind = KN_ONNX_SEQUENCE, .item_kind = KN_ONNX_SEQUENCE, .count = 1, .items = items};
    assert_refused(kn_onnx_value_write(&host, path, &mixed, &error), &error, KN_ERROR_ARGUMENT,
                   "different kinds");
    test_folder_remove(folder);
}

TEST_FILE(test_onnx_writer, NULL, NULL)
