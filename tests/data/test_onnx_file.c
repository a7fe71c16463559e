/* ONNX files through the public interface. */
#include "data_tests.h"

#include <string.h>

#include <koine/onnx.h>

#include "../formats/onnx_bytes.h"

static void write_made(const char *path, const made *bytes) {
    kn_host host = kn_host_defaults();
    assert_int_equal(kn_file_write(&host, path, bytes->bytes, bytes->count, NULL), KN_OK);
}

TEST(models_list_their_inputs) {
    made graph = {.count = 0}, model, value = {.count = 0}, type = {.count = 0}, nothing = {.count = 0};
    /* An input with an initializer does not count as an input. */
    add_value(add_value(&graph, 11, "w"), 11, "x");
    add_tensor(&graph, 5, "w", 3);
    add_message(add_text(&value, 1, "list"), 2, add_message(&type, 4, &nothing));
    add_message(&graph, 11, &value);
    add_value(add_node(&graph, 1, "Relu", "x", "y", NULL), 12, "y");
    make_small_model(&model, &graph);
    char *folder = test_folder_make(), path[512];
    test_path(path, sizeof path, folder, "model.onnx");
    write_made(path, &model);
    kn_onnx_file *file = kn_onnx_file_open(path, NULL);
    assert_string_equal(kn_onnx_file_error(file), "");
    assert_int_equal(kn_onnx_file_input_count(file), 2);
    const char *word = NULL;
    assert_string_equal(kn_onnx_file_input_at(file, 0, &word), "x");
    assert_string_equal(word, "float32");
    assert_string_equal(kn_onnx_file_input_at(file, 1, &word), "list");
    assert_string_equal(word, "a sequence");
    assert_null(kn_onnx_file_input_at(file, 2, &word));
    assert_null(kn_onnx_file_input_at(file, -1, &word));
    assert_int_equal(kn_onnx_file_output_count(file), 1);
    assert_string_equal(kn_onnx_file_output_at(file, 0, NULL), "y");
    assert_null(kn_onnx_file_output_at(file, 1, NULL));
    kn_onnx_file_destroy(&file);
    assert_null(file);
    model.count--;
    write_made(path, &model);
    file = kn_onnx_file_open(path, NULL);
    assert_int_equal(kn_onnx_file_status(file), KN_ERROR_FORMAT);
    assert_non_null(strstr(kn_onnx_file_error(file), path));
    assert_int_equal(kn_onnx_file_output_count(file), 0);
    kn_onnx_file_destroy(&file);
    test_folder_remove(folder);
}

TEST(models_describe_their_shapes) {
    made graph = {.count = 0}, model, nothing = {.count = 0}, list = {.count = 0}, type = {.count = 0};
    add_typed_value(&graph, 11, "a", 7, "3,n,,-1");
    add_typed_value(&graph, 11, "any", 7, NULL);
    add_message(&graph, 11, add_message(add_text(&list, 1, "list"), 2, add_message(&type, 4, &nothing)));
    add_typed_value(add_node(&graph, 1, "Relu", "a", "y", NULL), 12, "y", 7, "1,2,3,4,5,6,7,8,9,m");
    add_text(add_text(&graph, 2, "net"), 10, "what it is");
    make_small_model(&model, &graph);
    add_text(add_text(add_number(add_text(&model, 2, "maker"), 5, 17), 4, "org.example"), 6, "a test");
    add_pair(&model, 14, "rate", "16000");
    kn_onnx_file *file = kn_onnx_file_open_memory(model.bytes, model.count, NULL, NULL);
    assert_string_equal(kn_onnx_file_error(file), "");
    assert_int_equal(kn_onnx_file_input_rank_at(file, 0), 4);
    assert_int_equal(kn_onnx_file_input_rank_at(file, 1), -1);
    assert_int_equal(kn_onnx_file_input_rank_at(file, 2), -1);
    assert_int_equal(kn_onnx_file_input_rank_at(file, 3), -1);
    assert_null(kn_onnx_file_input_inner_at(file, 0));
    assert_string_equal(kn_onnx_file_input_inner_at(file, 2), "unspecified");
    assert_null(kn_onnx_file_input_inner_at(file, 3));
    assert_null(kn_onnx_file_output_inner_at(file, 0));
    assert_int_equal(kn_onnx_file_output_rank_at(file, 0), 10);
    assert_int_equal(kn_onnx_file_output_rank_at(file, 1), -1);
    const struct {
        int axis, size;
        const char *symbol;
    } sizes[] = {{0, 3, ""}, {1, -1, "n"}, {2, -1, ""}, {3, -1, ""}, {4, -1, ""}, {-1, -1, ""}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *symbol = NULL;
        assert_int_equal(kn_onnx_file_input_size_at(file, 0, sizes[i].axis, &symbol), sizes[i].size);
        assert_string_equal(symbol, sizes[i].symbol);
    }
    const char *text = NULL;
    assert_int_equal(kn_onnx_file_output_size_at(file, 0, 8, NULL), 9);
    assert_int_equal(kn_onnx_file_output_size_at(file, 0, 9, &text), -1);
    assert_string_equal(text, "m");
    assert_string_equal(kn_onnx_file_metadata_at(file, 0, &text), "rate");
    assert_string_equal(text, "16000");
    assert_null(kn_onnx_file_metadata_at(file, 1, &text));
    kn_onnx_about about = KN_ONNX_ABOUT_DEFAULTS;
    assert_true(kn_onnx_file_about(file, &about));
    assert_string_equal(about.producer, "maker");
    assert_string_equal(about.domain, "org.example");
    assert_string_equal(about.description, "a test");
    assert_string_equal(about.graph_name, "net");
    assert_string_equal(about.graph_description, "what it is");
    assert_int_equal(about.version, 17);
    assert_int_equal(about.size, sizeof about);
    kn_onnx_file_destroy(&file);
    file = kn_onnx_file_open_memory(model.bytes, model.count - 1, NULL, NULL);
    assert_int_equal(kn_onnx_file_status(file), KN_ERROR_FORMAT);
    assert_non_null(strstr(kn_onnx_file_error(file), "ONNX file in memory"));
    assert_false(kn_onnx_file_about(file, &about));
    kn_onnx_file_destroy(&file);
    file = kn_onnx_file_open_memory(NULL, 1, NULL, NULL);
    assert_int_equal(kn_onnx_file_status(file), KN_ERROR_ARGUMENT);
    kn_onnx_file_destroy(&file);
}

TEST(tensors_survive_a_round_trip) {
    char *folder = test_folder_make(), path[512], message[128] = "untouched";
    test_path(path, sizeof path, folder, "x.pb");
    const int16_t values[6] = {1, -2, 3, 4, 5, 6};
    const kn_tensor_info info = {KN_INT16, 2, {2, 3}};
    kn_tensor_info found = {0};
    assert_int_equal(kn_onnx_tensor_file_save(path, "x", &info, values, message, sizeof message), KN_OK);
    assert_string_equal(message, "");
    kn_onnx_tensor_file *file = kn_onnx_tensor_file_open(path, NULL);
    assert_string_equal(kn_onnx_tensor_file_error(file), "");
    assert_string_equal(kn_onnx_tensor_file_name(file), "x");
    assert_true(kn_onnx_tensor_file_info(file, &found));
    assert_int_equal(found.dtype, KN_INT16);
    assert_int_equal(found.rank * 100 + found.shape[0] * 10 + found.shape[1], 223);
    int16_t same[6];
    float floats[6];
    assert_int_equal(kn_onnx_tensor_file_copy(file, KN_INT16, same, sizeof same), KN_OK);
    assert_memory_equal(same, values, sizeof same);
    assert_int_equal(kn_onnx_tensor_file_copy(file, KN_FLOAT32, floats, sizeof floats), KN_OK);
    assert_true(floats[1] == -2);
    assert_int_equal(kn_onnx_tensor_file_copy(file, KN_FLOAT32, floats, 20), KN_ERROR_ARGUMENT);
    kn_onnx_tensor_file_destroy(&file);
    /* A scalar without a name; then values that are refused. */
    const kn_tensor_info scalar = {KN_INT16, 0, {0}}, wrong = {KN_INT16, 1, {-1}};
    assert_int_equal(kn_onnx_tensor_file_save(path, NULL, &scalar, values, NULL, 0), KN_OK);
    file = kn_onnx_tensor_file_open(path, NULL);
    assert_true(kn_onnx_tensor_file_info(file, &found));
    assert_int_equal(found.rank, 0);
    kn_onnx_tensor_file_destroy(&file);
    assert_int_equal(kn_onnx_tensor_file_save(path, NULL, &wrong, values, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_non_null(strstr(message, "invalid"));
    assert_int_equal(kn_onnx_tensor_file_save(path, NULL, &info, NULL, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    made tensor = {.count = 0};
    add_packet(add_number(add_number(&tensor, 1, 1), 2, 27), 9, "\1", 1);
    write_made(path, &tensor);
    file = kn_onnx_tensor_file_open(path, NULL);
    assert_int_equal(kn_onnx_tensor_file_status(file), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(kn_onnx_tensor_file_error(file), "float6e2m3"));
    assert_false(kn_onnx_tensor_file_info(file, &found));
    assert_int_equal(kn_onnx_tensor_file_copy(file, KN_INT8, same, 1), KN_ERROR_UNSUPPORTED);
    kn_onnx_tensor_file_destroy(&file);
    /* Strings: a second one with a zero byte. */
    made strings = {.count = 0};
    add_packet(add_packet(add_number(add_number(&strings, 1, 2), 2, 8), 6, "ab", 2), 6, "a\0b", 3);
    write_made(path, &strings);
    file = kn_onnx_tensor_file_open(path, NULL);
    assert_int_equal(kn_onnx_tensor_file_status(file), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(kn_onnx_tensor_file_error(file), "element 1 is a string with a zero byte"));
    assert_null(kn_onnx_tensor_file_text_at(file, 0));
    kn_onnx_tensor_file_destroy(&file);
    test_folder_remove(folder);
}

TEST_FILE(test_onnx_file, NULL, NULL)
