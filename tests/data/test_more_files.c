/* Datasets from CIFAR files, and from arrays in one file. */
#include "data_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../formats/zip_bytes.h"
#include "formats/formats.h"

static kn_dataset *open_with(const kn_dataset_params *params, const char *kind, const char *folder,
                             const char *rest) {
    char spec[600];
    snprintf(spec, sizeof spec, "%s:%s%s", kind, folder, rest);
    return kn_dataset_open(spec, params);
}

/* Record i has class (first + i) % classes; all its pixels are first + i but the last, which is 255. */
static void write_records(const char *folder, const char *name, int classes, int count, int first) {
    size_t labels = classes == 100 ? 2 : 1, record = labels + 3072;
    uint8_t *bytes = calloc((size_t)count, record);
    assert_non_null(bytes);
    for (int i = 0; i < count; i++) {
        uint8_t *at = bytes + (size_t)i * record;
        at[0] = 200;
        at[labels - 1] = (uint8_t)((first + i) % classes);
        memset(at + labels, first + i, 3071);
        at[labels + 3071] = 255;
    }
    add_file(folder, name, bytes, (size_t)count * record);
    free(bytes);
}

static void check_record(const kn_dataset *dataset, uint64_t index, int value, int classes) {
    static float x[3072];
    int32_t y;
    assert_int_equal(kn_dataset_read(dataset, &index, 1, 0, x, sizeof x, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(dataset, &index, 1, 1, &y, sizeof y, NULL, 0), KN_OK);
    for (int i = 0; i < 3071; i++)
        assert_true(x[i] == (float)value * (float)(1.0 / 255));
    assert_true(x[3071] == 1);
    assert_int_equal(y, value % classes);
}

TEST_IN_FOLDER(ten_classes_in_six_files) {
    static const char names[] = "aeroplane\r\ncar\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\nlorry\n\n";
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    for (int i = 0; i < 5; i++) {
        char name[40];
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        write_records(*state, name, 10, 3, 3 * i);
    }
    write_records(*state, "test_batch.bin", 10, 2, 100);
    kn_dataset *train = open_with(NULL, "cifar10", *state, ""), *test = kn_dataset_test(train);
    assert_usable(train);
    assert_usable(test);
    assert_int_equal(kn_dataset_count(train), 15);
    assert_int_equal(kn_dataset_count(test), 2);
    assert_int_equal(kn_dataset_classes(train), 10);
    assert_null(kn_dataset_class_name(train, 0));
    assert_true(kn_dataset_field_at(train, 0, &field));
    assert_int_equal(field.info.shape[0] * 10000 + field.info.shape[1] * 100 + field.info.shape[2], 33232);
    for (int i = 0; i < 15; i++)
        check_record(train, (uint64_t)i, i, 10);
    check_record(test, 1, 101, 10);
    kn_dataset *parts[2];
    assert_int_equal(kn_dataset_split(train, 0.4, 1, &parts[0], &parts[1]), KN_OK);
    kn_dataset_destroy(&parts[0]);
    kn_dataset_destroy(&parts[1]);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
    add_file(*state, "batches.meta.txt", names, sizeof names - 1);
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.max_samples = 4;
    train = open_with(&params, "cifar10", *state, "");
    assert_usable(train);
    assert_int_equal(kn_dataset_count(train), 4);
    assert_string_equal(kn_dataset_class_name(train, 0), "aeroplane");
    assert_string_equal(kn_dataset_class_name(train, 9), "lorry");
    kn_dataset_destroy(&train);
}

TEST_IN_FOLDER(a_hundred_classes_in_two_files) {
    write_records(*state, "test.bin", 100, 2, 98);
    kn_dataset *test = open_with(NULL, "cifar100", *state, "");
    assert_usable(test);
    assert_false(kn_dataset_has_test(test));
    check_record(test, 1, 99, 100);
    kn_dataset_destroy(&test);
    write_records(*state, "train.bin", 100, 3, 7);
    kn_dataset *train = open_with(NULL, "cifar100", *state, "");
    assert_usable(train);
    assert_true(kn_dataset_has_test(train));
    assert_int_equal(kn_dataset_classes(train), 100);
    check_record(train, 2, 9, 100);
    kn_dataset_destroy(&train);
}

TEST_IN_FOLDER(cifar_faults_are_named) {
    assert_failed(open_with(NULL, "cifar10", *state, ""), KN_ERROR_NOT_FOUND,
                  "data_batch_1.bin and the other");
    assert_failed(open_with(NULL, "cifar100", *state, ""), KN_ERROR_NOT_FOUND, "train.bin and test.bin");
    assert_failed(open_with(NULL, "cifar10", "/nonexistent", ""), KN_ERROR_FILE, "the folder does not exist");
    write_records(*state, "data_batch_1.bin", 10, 1, 0);
    write_records(*state, "data_batch_2.bin", 10, 1, 0);
    write_records(*state, "data_batch_4.bin", 10, 1, 0);
    write_records(*state, "data_batch_5.bin", 10, 1, 0);
    assert_failed(open_with(NULL, "cifar10", *state, ""), KN_ERROR_NOT_FOUND, "data_batch_3.bin is missing");
    add_file(*state, "data_batch_3.bin", "abc", 3);
    assert_failed(open_with(NULL, "cifar10", *state, ""), KN_ERROR_FORMAT, "data_batch_3.bin: 3 bytes");
    write_records(*state, "data_batch_3.bin", 10, 1, 0);
    add_file(*state, "batches.meta.txt", "one\ntwo\n", 8);
    assert_failed(open_with(NULL, "cifar10", *state, ""), KN_ERROR_FORMAT, "batches.meta.txt: found 2 lines");
}

/* ---- npz ---------------------------------------------------------------------------------- */

static void add_array(zip_bytes *zip, const char *folder, const char *name, kn_dtype type, int rank,
                      const int64_t *shape, const void *bytes, bool deflated) {
    char path[512];
    kn_error error = {0};
    uint8_t *file;
    uint64_t count;
    kn_array array = {.type = type, .rank = rank, .bytes = bytes};
    memcpy(array.shape, shape, (size_t)rank * sizeof *shape);
    test_path(path, sizeof path, folder, "work.npy");
    if (kn_npy_write(NULL, path, &array, &error) != KN_OK ||
        kn_file_read(NULL, path, 1 << 20, &file, &count, &error) != KN_OK)
        fail_msg("%s", error.text);
    zip_add(zip, name, file, (size_t)count, deflated);
    kn_release(NULL, file);
}

static const float numbers[] = {1, 2, 3, 4, 5, 6};
static const int64_t labels[] = {0, 2, 1};

static void add_pair(zip_bytes *zip, const char *folder, const char *x, const char *y, int64_t count,
                     bool deflated) {
    add_array(zip, folder, x, KN_FLOAT32, 2, (int64_t[]){count, 2}, numbers, deflated);
    add_array(zip, folder, y, KN_INT64, 1, (int64_t[]){count}, labels, deflated);
}

static void end_file(zip_bytes *zip, const char *folder, const char *name) {
    zip_end(zip);
    add_file(folder, name, zip->bytes, zip->count);
    free(zip->bytes);
    *zip = (zip_bytes){.count = 0};
}

static void check_pair(kn_dataset *dataset, uint64_t count, bool test) {
    float x[6];
    int32_t y[3];
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), count);
    assert_int_equal(kn_dataset_classes(dataset), 3);
    assert_true(kn_dataset_has_test(dataset) == test);
    assert_int_equal(kn_dataset_read(dataset, NULL, count, 0, x, (size_t)count * 8, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(dataset, NULL, count, 1, y, (size_t)count * 4, NULL, 0), KN_OK);
    assert_memory_equal(x, numbers, (size_t)count * 8);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(y[i], labels[i]);
}

TEST_IN_FOLDER(arrays_in_one_file) {
    zip_bytes zip = {.count = 0};
    for (int deflated = 0; deflated < 2; deflated++) {
        add_pair(&zip, *state, "x.npy", "y.npy", 3, deflated);
        end_file(&zip, *state, "plain.npz");
        kn_dataset *dataset = open_with(NULL, "npz", *state, "/plain.npz");
        check_pair(dataset, 3, false);
        kn_dataset_destroy(&dataset);
        add_pair(&zip, *state, "x_test.npy", "y_test.npy", 2, deflated);
        add_pair(&zip, *state, "x_train.npy", "y_train.npy", 3, deflated);
        end_file(&zip, *state, "both.npz");
        dataset = open_with(NULL, "npz", *state, "/both.npz");
        kn_dataset *test = kn_dataset_test(dataset);
        check_pair(dataset, 3, true);
        kn_dataset_destroy(&dataset);
        assert_usable(test);
        assert_int_equal(kn_dataset_count(test), 2);
        kn_dataset_destroy(&test);
        add_pair(&zip, *state, "pictures.npy", "kinds.npy", 3, deflated);
        end_file(&zip, *state, "named.npz");
        dataset = open_with(NULL, "npz", *state, "/named.npz,x=pictures,y=kinds.npy");
        check_pair(dataset, 3, false);
        kn_dataset_destroy(&dataset);
    }
}

TEST_IN_FOLDER(npz_faults_are_named) {
    zip_bytes zip = {.count = 0};
    add_pair(&zip, *state, "pictures.npy", "kinds.npy", 3, true);
    zip_add(&zip, "word.npy", "abc", 3, false);
    add_array(&zip, *state, "two.npy", KN_INT64, 1, (int64_t[]){2}, labels, false);
    end_file(&zip, *state, "a.npz");
    add_file(*state, "b.npz", "no zip file of any kind", 23);
    assert_failed(open_with(NULL, "npz", *state, "/a.npz"), KN_ERROR_NOT_FOUND,
                  "it has pictures.npy, kinds.npy, word.npy");
    assert_failed(open_with(NULL, "npz", *state, "/a.npz,x=pictures,y=word"), KN_ERROR_FORMAT,
                  "a.npz: word.npy");
    assert_failed(open_with(NULL, "npz", *state, "/a.npz,x=pictures,y=two"), KN_ERROR_SHAPE,
                  "two.npy has 2 samples");
    assert_failed(open_with(NULL, "npz", *state, "/a.npz,z=pictures"), KN_ERROR_ARGUMENT, "x=NAME");
    assert_failed(open_with(NULL, "npz", *state, "/b.npz"), KN_ERROR_FORMAT, "not a zip file");
    assert_failed(open_with(NULL, "npz", *state, "/c.npz"), KN_ERROR_FILE, "c.npz");
}

TEST_IN_FOLDER(memory_may_run_out) {
    zip_bytes zip = {.count = 0};
    add_pair(&zip, *state, "x_train.npy", "y_train.npy", 3, true);
    add_pair(&zip, *state, "x_test.npy", "y_test.npy", 2, true);
    end_file(&zip, *state, "a.npz");
    write_records(*state, "train.bin", 100, 1, 0);
    write_records(*state, "test.bin", 100, 1, 0);
    static const char *const kinds[][2] = {{"npz", "/a.npz"}, {"cifar100", ""}};
    for (size_t kind = 0; kind < KN_COUNT_OF(kinds); kind++)
        for (size_t fail_at = 1;; fail_at++) {
            failing memory = {.fail_at = fail_at};
            kn_dataset_params params = watched(&memory);
            kn_dataset *dataset = open_with(&params, kinds[kind][0], *state, kinds[kind][1]);
            kn_status status = kn_dataset_status(dataset);
            kn_dataset_destroy(&dataset);
            assert_int_equal(memory.live, 0);
            if (status == KN_OK && memory.calls < fail_at) break;
            assert_int_equal(status, KN_ERROR_MEMORY);
            assert_true(fail_at < 300);
        }
}

TEST_FILE(test_more_files, NULL, NULL)
