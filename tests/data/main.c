/* The tests of the data module. */
#include "data_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void add_file(const char *folder, const char *name, const void *bytes, size_t count) {
    char path[600];
    kn_error error = {0};
    test_path(path, sizeof path, folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    if (kn_file_write(NULL, path, bytes, count, &error) != KN_OK) fail_msg("%s", error.text);
}

kn_dataset_params watched(failing *state) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.allocator = failing_allocator(state);
    params.log = failing_log(state);
    return params;
}

static kn_status read_plain(void *user, const kn_allocator *allocator, const void *bytes, size_t count,
                            uint64_t most, kn_image *image, char *message, size_t message_bytes) {
    const uint8_t *file = bytes;
    if (count != 4 || file[0] != 'I' || (uint64_t)file[1] * file[2] > most) {
        snprintf(message, message_bytes, "no I");
        return KN_ERROR_FORMAT;
    }
    size_t pixels = (size_t)file[1] * file[2] * (size_t)image->channels;
    image->pixels = allocator->resize(allocator->user, NULL, pixels);
    if (!image->pixels) return KN_ERROR_MEMORY;
    memset(image->pixels, file[3], pixels);
    image->width = file[1];
    image->height = file[2];
    return KN_OK;
}

const kn_image_reader plain_pictures = {NULL, read_plain};

void assert_usable(const kn_dataset *dataset) {
    if (kn_dataset_status(dataset) != KN_OK) fail_msg("%s", kn_dataset_error(dataset));
    assert_string_equal(kn_dataset_error(dataset), "");
}

void expect_samples(const kn_dataset *dataset, int count, const uint8_t *values, const int32_t *labels) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), count);
    assert_true(kn_dataset_field_at(dataset, 0, &field));
    for (uint64_t i = 0; i < (uint64_t)count; i++) {
        float x[600];
        int32_t y;
        assert_true(field.bytes <= sizeof x);
        assert_int_equal(kn_dataset_read(dataset, &i, 1, 0, x, field.bytes, NULL, 0), KN_OK);
        assert_int_equal(kn_dataset_read(dataset, &i, 1, 1, &y, sizeof y, NULL, 0), KN_OK);
        for (size_t j = 0; j < field.bytes / sizeof *x; j++)
            assert_true(x[j] == (float)values[i] * (float)(1.0 / 255));
        assert_int_equal(y, labels[i]);
    }
}

void assert_failed(kn_dataset *dataset, kn_status status, const char *part) {
    assert_non_null(dataset);
    if (kn_dataset_status(dataset) != status || !strstr(kn_dataset_error(dataset), part))
        fail_msg("%s, \"%s\"; expected %s, \"%s\"", kn_status_name(kn_dataset_status(dataset)),
                 kn_dataset_error(dataset), kn_status_name(status), part);
    assert_int_equal(kn_dataset_count(dataset), 0);
    kn_dataset_destroy(&dataset);
}

sample_arrays arrays_make(uint64_t count, int classes) {
    sample_arrays arrays = {malloc((size_t)count * 3 * sizeof(float) + 1), malloc((size_t)count + 1), count};
    assert_non_null(arrays.x);
    assert_non_null(arrays.y);
    for (uint64_t i = 0; i < count; i++) {
        for (int j = 0; j < 3; j++)
            arrays.x[i * 3 + (uint64_t)j] = (float)(i * 10 + (uint64_t)j);
        arrays.y[i] = (uint8_t)(i % (uint64_t)classes);
    }
    return arrays;
}

void arrays_free(sample_arrays *arrays) {
    free(arrays->x);
    free(arrays->y);
}

kn_dataset *arrays_open(const kn_dataset_params *params, const sample_arrays *arrays, int classes) {
    kn_dataset_array fields[2] = {
        {.name = "x",
         .info = {KN_FLOAT32, 1, {3}},
         .data = arrays->x,
         .bytes = (size_t)arrays->count * 12,
         .as = KN_FLOAT32},
        {.name = "y",
         .info = {KN_UINT8, 0, {0}},
         .data = arrays->y,
         .bytes = (size_t)arrays->count,
         .as = KN_INT32},
    };
    return kn_dataset_create_from_arrays(arrays->count, fields, 2, classes, params);
}

int main(void) {
    return test_digits() + test_made() + test_texts() + test_chats() + test_tables() + test_image_folders() +
           test_image_archives() + test_sounds() + test_datasets() + test_splits() + test_loaders() +
           test_augment() + test_mixing() + test_file_sources() + test_more_files() + test_npy_file() +
           test_onnx_file() + test_safetensors_file();
}
