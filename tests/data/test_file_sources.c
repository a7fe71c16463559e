/* Datasets from files: folders of IDX files, pairs of npy files. */
#include "data_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "formats/formats.h"

enum { SIDE = 4, PIXELS = SIDE * SIDE };

static void write_file(const char *folder, const char *name, const void *bytes, size_t count, bool packed) {
    char path[512];
    test_path(path, sizeof path, folder, name);
    if (!packed) {
        kn_error error = {0};
        if (kn_file_write(NULL, path, bytes, count, &error) != KN_OK) fail_msg("%s", error.text);
        return;
    }
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)count), count);
    assert_int_equal(gzclose(file), Z_OK);
}

/* (count, SIDE, SIDE) bytes: pixel j of sample i is first + i * 16 + j. */
static void write_images(const char *folder, const char *name, uint8_t count, uint8_t first, bool packed) {
    uint8_t bytes[16 + 255 * PIXELS] = {0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    for (int i = 0; i < count * PIXELS; i++)
        bytes[16 + i] = (uint8_t)(first + i);
    write_file(folder, name, bytes, 16 + (size_t)count * PIXELS, packed);
}

/* Label i is i % 3. */
static void write_labels(const char *folder, const char *name, uint8_t count, bool packed) {
    uint8_t bytes[8 + 255] = {0, 0, 8, 1, 0, 0, 0, count};
    for (int i = 0; i < count; i++)
        bytes[8 + i] = (uint8_t)(i % 3);
    write_file(folder, name, bytes, 8 + (size_t)count, packed);
}

static kn_dataset *open_at(const char *kind, const char *folder) {
    char spec[512];
    snprintf(spec, sizeof spec, "%s:%s", kind, folder);
    return kn_dataset_open(spec, NULL);
}

static void check_images(const kn_dataset *dataset, uint64_t count, uint8_t first) {
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), count);
    assert_int_equal(kn_dataset_classes(dataset), 3);
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    assert_true(kn_dataset_field_at(dataset, 0, &field));
    assert_int_equal(field.info.rank, 3);
    assert_int_equal(field.info.shape[0], 1);
    assert_int_equal(field.info.shape[1], SIDE);
    uint64_t last = count - 1;
    float x[PIXELS];
    int32_t y;
    assert_int_equal(kn_dataset_read(dataset, &last, 1, 0, x, sizeof x, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(dataset, &last, 1, 1, &y, sizeof y, NULL, 0), KN_OK);
    for (uint64_t j = 0; j < PIXELS; j++)
        assert_true(x[j] == (float)(uint8_t)(first + last * PIXELS + j) * (float)(1.0 / 255));
    assert_int_equal(y, last % 3);
}

TEST_IN_FOLDER(idx_has_two_parts) {
    write_images(*state, "train-images-idx3-ubyte", 9, 1, false);
    write_labels(*state, "train-labels-idx1-ubyte.gz", 9, true);
    write_images(*state, "t10k-images.idx3-ubyte.gz", 5, 100, true);
    write_labels(*state, "t10k-labels-idx1-ubyte", 5, false);
    kn_dataset *train = open_at("idx", *state), *test = kn_dataset_test(train);
    assert_true(kn_dataset_has_test(train));
    check_images(train, 9, 1);
    kn_dataset_destroy(&train);
    check_images(test, 5, 100);
    kn_dataset_destroy(&test);
}

TEST_IN_FOLDER(idx_may_have_one_part) {
    write_images(*state, "t10k-images-idx3-ubyte.gz", 6, 7, true);
    write_labels(*state, "t10k-labels-idx1-ubyte.gz", 6, true);
    kn_dataset *only = open_at("idx", *state);
    check_images(only, 6, 7);
    assert_false(kn_dataset_has_test(only));
    kn_dataset_destroy(&only);
}

TEST_IN_FOLDER(idx_faults_are_named) {
    assert_failed(open_at("idx", *state), KN_ERROR_NOT_FOUND, "train-images-idx3-ubyte");
    write_images(*state, "train-images-idx3-ubyte", 9, 1, false);
    assert_failed(open_at("idx", *state), KN_ERROR_NOT_FOUND, "train-labels-idx1-ubyte (or .gz) is missing");
    write_labels(*state, "train-labels-idx1-ubyte", 8, false);
    assert_failed(open_at("idx", *state), KN_ERROR_SHAPE, "has 8 samples");
    write_file(*state, "train-labels-idx1-ubyte", "\0\0\10\1\0\0\0\11abc", 11, false);
    assert_failed(open_at("idx", *state), KN_ERROR_FORMAT, "needs 9 bytes after byte 8, found 3");
    write_file(*state, "train-labels-idx1-ubyte", "nonsense", 8, false);
    assert_failed(open_at("idx", *state), KN_ERROR_FORMAT, "train-labels-idx1-ubyte: byte 0");
    write_labels(*state, "train-labels-idx1-ubyte", 9, false);
    write_images(*state, "t10k-images-idx3-ubyte", 0, 1, false);
    write_labels(*state, "t10k-labels-idx1-ubyte", 0, false);
    assert_failed(open_at("idx", *state), KN_ERROR_SHAPE, "no samples");
    write_file(*state, "t10k-images-idx3-ubyte", "\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\2ab", 18, false);
    write_labels(*state, "t10k-labels-idx1-ubyte", 1, false);
    assert_failed(open_at("idx", *state), KN_ERROR_SHAPE, "different shapes");
}

static void write_array(const char *folder, const char *name, kn_dtype type, int rank, const int64_t *shape,
                        const void *bytes) {
    char path[512];
    kn_array array = {.type = type, .rank = rank, .bytes = bytes};
    memcpy(array.shape, shape, (size_t)rank * sizeof *shape);
    kn_error error = {0};
    if (kn_npy_write(NULL, test_path(path, sizeof path, folder, name), &array, &error) != KN_OK)
        fail_msg("%s", error.text);
}

static kn_dataset *open_npy(const char *folder, const char *x, const char *y) {
    char spec[1024];
    snprintf(spec, sizeof spec, "npy:%s/%s,%s/%s", folder, x, folder, y);
    return kn_dataset_open(spec, NULL);
}

TEST_IN_FOLDER(npy_holds_classes_or_numbers) {
    const float x[] = {1, 2, 3, 4, 5, 6};
    const int64_t labels[] = {0, 4, 2}, below[] = {0, -1, 2};
    const double targets[] = {0.5, 1.5, 2.5};
    const uint8_t pixels[12] = {0, 51, 255};
    write_array(*state, "x.npy", KN_FLOAT32, 2, (int64_t[]){3, 2}, x);
    write_array(*state, "x,1.npy", KN_UINT8, 3, (int64_t[]){3, 2, 2}, pixels);
    write_array(*state, "labels.npy", KN_INT64, 2, (int64_t[]){3, 1}, labels);
    write_array(*state, "below.npy", KN_INT64, 1, (int64_t[]){3}, below);
    write_array(*state, "targets.npy", KN_FLOAT64, 1, (int64_t[]){3}, targets);

    kn_dataset *dataset = open_npy(*state, "x.npy", "labels.npy");
    assert_usable(dataset);
    assert_int_equal(kn_dataset_classes(dataset), 5);
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    int32_t y[3];
    float values[6];
    assert_true(kn_dataset_field_at(dataset, 1, &field));
    assert_int_equal(field.info.dtype, KN_INT32);
    assert_int_equal(field.info.rank, 0);
    assert_int_equal(kn_dataset_read(dataset, NULL, 3, 1, y, sizeof y, NULL, 0), KN_OK);
    assert_int_equal(y[1], 4);
    assert_int_equal(kn_dataset_read(dataset, NULL, 3, 0, values, sizeof values, NULL, 0), KN_OK);
    assert_memory_equal(values, x, sizeof x);
    kn_dataset_destroy(&dataset);

    dataset = open_npy(*state, "x.npy", "below.npy"); /* negative: numbers, not classes */
    assert_usable(dataset);
    assert_int_equal(kn_dataset_classes(dataset), 0);
    assert_int_equal(kn_dataset_read(dataset, NULL, 3, 1, values, 12, NULL, 0), KN_OK);
    assert_true(values[1] == -1);
    kn_dataset_destroy(&dataset);

    dataset = open_npy(*state, "x,1.npy", "targets.npy"); /* a comma in a path; greyscale images */
    assert_usable(dataset);
    assert_true(kn_dataset_field_at(dataset, 0, &field));
    assert_int_equal(field.info.rank, 3);
    assert_int_equal(field.info.shape[0], 1);
    assert_int_equal(kn_dataset_read(dataset, NULL, 1, 0, values, 16, NULL, 0), KN_OK);
    assert_true(values[0] == 0 && values[1] > 0.1999f && values[1] < 0.2001f && values[2] == 1);
    assert_int_equal(kn_dataset_read(dataset, NULL, 3, 1, values, 12, NULL, 0), KN_OK);
    assert_true(values[2] == 2.5f);
    kn_dataset_destroy(&dataset);
}

/* Integers that are indices of a table (tokens) are not scaled by 1 / 255. */
TEST_IN_FOLDER(npy_holds_tokens) {
    const uint8_t x[12] = {0, 51, 255, 7};
    const int64_t y[12] = {4, 3, 2, 1, 0, 95}, large[3] = {0, 1, (int64_t)1 << 32};
    const float real[6] = {1.5f};
    const char *const kinds[] = {"x.npy", "real.npy"};
    char spec[1024];
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    int32_t values[12];
    write_array(*state, "x.npy", KN_UINT8, 3, (int64_t[]){3, 2, 2}, x);
    write_array(*state, "y.npy", KN_INT64, 3, (int64_t[]){3, 2, 2}, y);
    write_array(*state, "real.npy", KN_FLOAT32, 2, (int64_t[]){3, 2}, real);
    write_array(*state, "large.npy", KN_INT64, 2, (int64_t[]){3, 1}, large);
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.tokens = true;
    for (size_t i = 0; i < 2; i++) {
        snprintf(spec, sizeof spec, "npy:%s/%s,%s/y.npy", (char *)*state, kinds[i], (char *)*state);
        kn_dataset *dataset = kn_dataset_open(spec, &params);
        assert_usable(dataset);
        assert_true(kn_dataset_field_at(dataset, 0, &field));
        assert_int_equal(field.info.dtype, i == 0 ? KN_INT32 : KN_FLOAT32);
        assert_int_equal(field.info.rank, i == 0 ? 2 : 1);
        if (i == 0) assert_int_equal(kn_dataset_read(dataset, NULL, 1, 0, values, 16, NULL, 0), KN_OK);
        if (i == 0) assert_true(values[1] == 51 && values[2] == 255);
        assert_true(kn_dataset_field_at(dataset, 1, &field));
        assert_int_equal(field.info.dtype, KN_INT32);
        assert_int_equal(field.info.rank, 2);
        assert_int_equal(kn_dataset_read(dataset, NULL, 3, 1, values, sizeof values, NULL, 0), KN_OK);
        assert_true(values[0] == 4 && values[5] == 95);
        assert_int_equal(kn_dataset_classes(dataset), 0);
        kn_dataset_destroy(&dataset);
    }
    snprintf(spec, sizeof spec, "npy:%s/large.npy,%s/y.npy", (char *)*state, (char *)*state);
    assert_failed(kn_dataset_open(spec, &params), KN_ERROR_ARGUMENT, "4294967296");
}

TEST_IN_FOLDER(npy_faults_are_named) {
    const float x[] = {1, 2, 3, 4, 5, 6};
    write_array(*state, "x.npy", KN_FLOAT32, 2, (int64_t[]){3, 2}, x);
    write_array(*state, "two.npy", KN_FLOAT32, 1, (int64_t[]){2}, x);
    write_array(*state, "one.npy", KN_FLOAT32, 0, (int64_t[]){0}, x);
    write_array(*state, "none.npy", KN_FLOAT32, 2, (int64_t[]){0, 2}, x);
    write_file(*state, "bad.npy", "\x93NUMPY", 6, false);
    assert_failed(open_npy(*state, "x.npy", "two.npy"), KN_ERROR_SHAPE, "two.npy has 2 samples");
    assert_failed(open_npy(*state, "one.npy", "two.npy"), KN_ERROR_SHAPE, "found a scalar");
    assert_failed(open_npy(*state, "two.npy", "one.npy"), KN_ERROR_SHAPE, "has 1 samples");
    assert_failed(open_npy(*state, "none.npy", "none.npy"), KN_ERROR_SHAPE, "no samples");
    assert_failed(open_npy(*state, "x.npy", "bad.npy"), KN_ERROR_FORMAT, "bad.npy");
    assert_failed(open_npy(*state, "x.npy", "gone.npy"), KN_ERROR_FILE, "gone.npy");
}

TEST_FILE(test_file_sources, NULL, NULL)
