/* npy files through the public interface. */
#include "data_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <koine/npy.h>

TEST(arrays_survive_a_round_trip) {
    char *folder = test_folder_make(), path[512], message[128] = "untouched";
    test_path(path, sizeof path, folder, "x.npy");
    const double values[6] = {1.5, -2.5, NAN, 1e30, 300, 0};
    const kn_tensor_info info = {KN_FLOAT64, 2, {2, 3}};
    kn_tensor_info found = {0};
    assert_int_equal(kn_npy_file_save(path, &info, values, message, sizeof message), KN_OK);
    kn_npy_file *file = kn_npy_file_open(path, NULL);
    assert_int_equal(kn_npy_file_status(file), KN_OK);
    assert_string_equal(kn_npy_file_error(file), "");
    assert_true(kn_npy_file_info(file, &found));
    assert_int_equal(found.dtype, KN_FLOAT64);
    assert_int_equal(found.rank, 2);
    assert_int_equal(found.shape[0] * 10 + found.shape[1], 23);
    double same[6];
    assert_int_equal(kn_npy_file_copy(file, KN_FLOAT64, same, sizeof same), KN_OK);
    assert_memory_equal(same, values, sizeof same);
    float floats[6];
    assert_int_equal(kn_npy_file_copy(file, KN_FLOAT32, floats, sizeof floats), KN_OK);
    assert_true(floats[1] == -2.5f && isnan(floats[2]));
    int32_t integers[6];
    assert_int_equal(kn_npy_file_copy(file, KN_INT32, integers, sizeof integers), KN_OK);
    const int32_t expected[6] = {2, -2, 0, INT32_MAX, 300, 0};
    assert_memory_equal(integers, expected, sizeof expected);
    uint8_t bytes[6];
    assert_int_equal(kn_npy_file_copy(file, KN_UINT8, bytes, sizeof bytes), KN_OK);
    assert_int_equal(bytes[1] * 1000 + bytes[4], 255);
    int64_t wide[6];
    assert_int_equal(kn_npy_file_copy(file, KN_INT64, wide, sizeof wide), KN_OK);
    assert_true(wide[1] == -2 && wide[3] > 1ll << 61);
    /* Buffers of the wrong size, and wrong types. */
    assert_int_equal(kn_npy_file_copy(file, KN_FLOAT32, floats, sizeof floats - 1), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_npy_file_copy(file, KN_FLOAT32, floats, 20), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_npy_file_copy(file, (kn_dtype)99, floats, sizeof floats), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_npy_file_copy(file, KN_INT16, floats, 12), KN_ERROR_UNSUPPORTED);
    assert_int_equal(kn_npy_file_copy(file, KN_FLOAT32, NULL, sizeof floats), KN_ERROR_ARGUMENT);
    kn_npy_file_destroy(&file);
    assert_null(file);
    test_folder_remove(folder);
}

TEST(faults_are_reported) {
    char message[128] = "";
    const kn_tensor_info info = {KN_FLOAT32, 1, {1}}, wrong = {KN_FLOAT32, 1, {-1}};
    const float value = 0;
    kn_npy_file *file = kn_npy_file_open("/nowhere/x.npy", NULL);
    assert_int_equal(kn_npy_file_status(file), KN_ERROR_FILE);
    assert_non_null(strstr(kn_npy_file_error(file), "/nowhere/x.npy"));
    kn_tensor_info found;
    assert_false(kn_npy_file_info(file, &found));
    assert_int_equal(kn_npy_file_copy(file, KN_FLOAT32, NULL, 0), KN_ERROR_FILE);
    kn_npy_file_destroy(&file);
    file = kn_npy_file_open(NULL, NULL);
    assert_int_equal(kn_npy_file_status(file), KN_ERROR_ARGUMENT);
    kn_npy_file_destroy(&file);
    kn_npy_file_destroy(&file);
    kn_npy_file_destroy(NULL);
    assert_int_equal(kn_npy_file_status(NULL), KN_ERROR_MEMORY);
    assert_false(kn_npy_file_info(NULL, &found));
    assert_int_equal(kn_npy_file_save("/nowhere/x.npy", &info, &value, message, sizeof message),
                     KN_ERROR_FILE);
    assert_non_null(strstr(message, "/nowhere/x.npy"));
    assert_int_equal(kn_npy_file_save("/nowhere/x.npy", &info, &value, NULL, 0), KN_ERROR_FILE);
    assert_int_equal(kn_npy_file_save("/nowhere/x.npy", &wrong, &value, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_int_equal(kn_npy_file_save("/nowhere/x.npy", NULL, &value, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_int_equal(kn_npy_file_save(NULL, &info, &value, message, sizeof message), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_npy_file_save("/nowhere/x.npy", &info, NULL, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    char tiny[6];
    assert_int_equal(kn_npy_file_save(NULL, &info, &value, tiny, sizeof tiny), KN_ERROR_ARGUMENT);
    assert_int_equal(strlen(tiny), 5);
}

TEST_FILE(test_npy_file, NULL, NULL)
