/* safetensors files through the public interface. */
#include "data_tests.h"

#include <string.h>

#include <koine/safetensors.h>

static const float weights[6] = {1.5f, -2.5f, 0, 1e30f, 300, -0.25f};
static const int64_t labels[2] = {7, -1};
static const kn_named_tensor tensors[] = {{"labels", {KN_INT64, 1, {2}}, labels},
                                          {"layer.weight", {KN_FLOAT32, 2, {2, 3}}, weights}};

TEST(tensors_survive_a_round_trip) {
    char *folder = test_folder_make(), path[512], message[128] = "untouched";
    test_path(path, sizeof path, folder, "x.safetensors");
    assert_int_equal(kn_safetensors_file_save(path, tensors, 2, message, sizeof message), KN_OK);
    assert_string_equal(message, "");
    kn_safetensors_file *file = kn_safetensors_file_open(path, NULL);
    assert_int_equal(kn_safetensors_file_status(file), KN_OK);
    assert_string_equal(kn_safetensors_file_error(file), "");
    assert_int_equal(kn_safetensors_file_count(file), 2);
    kn_tensor_info info = {0};
    assert_string_equal(kn_safetensors_file_at(file, 1, &info), "layer.weight");
    assert_int_equal(info.rank * 100 + info.shape[0] * 10 + info.shape[1], 223);
    assert_string_equal(kn_safetensors_file_at(file, 0, NULL), "labels");
    assert_null(kn_safetensors_file_at(file, 2, &info));
    assert_null(kn_safetensors_file_at(file, -1, &info));
    assert_true(kn_safetensors_file_info(file, "labels", &info));
    assert_int_equal(info.dtype, KN_INT64);
    assert_true(kn_safetensors_file_info(file, "labels", NULL));
    assert_false(kn_safetensors_file_info(file, "label", &info));
    assert_null(kn_safetensors_file_metadata(file, "none"));
    assert_null(kn_safetensors_file_metadata(file, NULL));
    float same[6];
    assert_int_equal(kn_safetensors_file_copy(file, "layer.weight", KN_FLOAT32, same, sizeof same), KN_OK);
    assert_memory_equal(same, weights, sizeof same);
    int32_t narrow[2];
    assert_int_equal(kn_safetensors_file_copy(file, "labels", KN_INT32, narrow, sizeof narrow), KN_OK);
    assert_true(narrow[0] == 7 && narrow[1] == -1);
    assert_int_equal(kn_safetensors_file_copy(file, "labels", KN_INT32, narrow, 4), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_safetensors_file_copy(file, "none", KN_INT32, narrow, 8), KN_ERROR_NOT_FOUND);
    assert_int_equal(kn_safetensors_file_copy(file, NULL, KN_INT32, narrow, 8), KN_ERROR_ARGUMENT);
    kn_safetensors_file_destroy(&file);
    assert_null(file);
    /* A file without tensors is valid. */
    assert_int_equal(kn_safetensors_file_save(path, NULL, 0, message, sizeof message), KN_OK);
    file = kn_safetensors_file_open(path, NULL);
    assert_int_equal(kn_safetensors_file_status(file), KN_OK);
    assert_int_equal(kn_safetensors_file_count(file), 0);
    kn_safetensors_file_destroy(&file);
    test_folder_remove(folder);
}

TEST(mistakes_are_reported) {
    char message[128] = "";
    kn_safetensors_file *file = kn_safetensors_file_open("/nowhere/x.safetensors", NULL);
    assert_int_equal(kn_safetensors_file_status(file), KN_ERROR_FILE);
    assert_non_null(strstr(kn_safetensors_file_error(file), "/nowhere/x.safetensors"));
    assert_int_equal(kn_safetensors_file_count(file), 0);
    assert_false(kn_safetensors_file_info(file, "x", NULL));
    assert_null(kn_safetensors_file_metadata(file, "x"));
    assert_int_equal(kn_safetensors_file_copy(file, "x", KN_FLOAT32, NULL, 0), KN_ERROR_FILE);
    kn_safetensors_file_destroy(&file);
    assert_int_equal(kn_safetensors_file_save("/nowhere/x", tensors, 2, message, sizeof message),
                     KN_ERROR_FILE);
    assert_non_null(strstr(message, "/nowhere/x"));
    kn_named_tensor wrong = tensors[1];
    wrong.info.shape[1] = -1;
    assert_int_equal(kn_safetensors_file_save("/nowhere/x", &wrong, 1, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_non_null(strstr(message, "layer.weight"));
    wrong = tensors[1];
    wrong.data = NULL;
    assert_int_equal(kn_safetensors_file_save("/nowhere/x", &wrong, 1, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    wrong.name = NULL;
    assert_int_equal(kn_safetensors_file_save("/nowhere/x", &wrong, 1, NULL, 0), KN_ERROR_ARGUMENT);
    const kn_named_tensor twice[] = {tensors[0], tensors[0]};
    assert_int_equal(kn_safetensors_file_save("/nowhere/x", twice, 2, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_non_null(strstr(message, "labels"));
}

TEST_FILE(test_safetensors_file, NULL, NULL)
