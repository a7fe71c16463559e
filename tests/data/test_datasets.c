/* Dataset handles: opening, queries, reading, and mistakes. */
#include "data_tests.h"

#include <math.h>
#include <string.h>

TEST(arrays_are_read) {
    sample_arrays arrays = arrays_make(50, 7);
    kn_dataset *dataset = arrays_open(NULL, &arrays, 7);
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), 50);
    assert_int_equal(kn_dataset_classes(dataset), 7);
    assert_int_equal(kn_dataset_field_count(dataset), 2);
    size_t field = 99;
    assert_true(kn_dataset_find_field(dataset, "y", &field));
    assert_int_equal(field, 1);
    assert_false(kn_dataset_find_field(dataset, "z", &field));
    assert_false(kn_dataset_find_field(dataset, NULL, &field));
    kn_dataset_field info = KN_DATASET_FIELD_DEFAULTS;
    assert_false(kn_dataset_field_at(dataset, 2, &info));
    const uint64_t indices[] = {49, 0, 8};
    float x[9];
    int32_t y[3];
    assert_int_equal(kn_dataset_read(dataset, indices, 3, 0, x, sizeof x, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(dataset, indices, 3, 1, y, sizeof y, NULL, 0), KN_OK);
    const float expected[] = {490, 491, 492, 0, 1, 2, 80, 81, 82};
    assert_memory_equal(x, expected, sizeof x);
    assert_int_equal(y[0], 0);
    assert_int_equal(y[1], 0);
    assert_int_equal(y[2], 1);
    assert_int_equal(kn_dataset_read(dataset, NULL, 3, 1, y, sizeof y, NULL, 0), KN_OK);
    assert_int_equal(y[2], 2);
    assert_int_equal(kn_dataset_read(dataset, NULL, 0, 1, NULL, 0, NULL, 0), KN_OK);
    assert_false(kn_dataset_has_test(dataset));
    assert_failed(kn_dataset_test(dataset), KN_ERROR_NOT_FOUND, "kn_dataset_split");
    kn_dataset_destroy(&dataset);
    assert_null(dataset);
    arrays_free(&arrays);
}

TEST(wrong_reads_are_refused) {
    failing memory = {0};
    kn_dataset_params params = watched(&memory);
    sample_arrays arrays = arrays_make(5, 5);
    kn_dataset *dataset = arrays_open(&params, &arrays, 5);
    assert_usable(dataset);
    float x[15] = {-1};
    char message[256] = "";
    const uint64_t indices[] = {4, 5};
    assert_int_equal(kn_dataset_read(dataset, indices, 2, 0, x, 24, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_non_null(strstr(message, "index 5 is out of range; the dataset has 5 samples"));
    assert_int_equal(kn_dataset_read(dataset, indices, 1, 0, x, 13, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_non_null(strstr(message, "13 bytes"));
    assert_int_equal(kn_dataset_read(dataset, indices, UINT64_MAX / 12 + 1, 0, x, 8, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_int_equal(kn_dataset_read(dataset, NULL, 6, 0, x, 72, message, sizeof message), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_dataset_read(dataset, indices, 1, 2, x, 12, message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_non_null(strstr(message, "field 2 is out of range; the dataset has 2"));
    assert_int_equal(kn_dataset_read(dataset, indices, 1, 0, NULL, 12, message, 20), KN_ERROR_ARGUMENT);
    assert_string_equal(message, "kn_dataset_read: th"); /* cut off */
    assert_true(x[0] == -1);                             /* nothing was written */
    kn_dataset_destroy(&dataset);
    arrays_free(&arrays);
    assert_int_equal(memory.live, 0);
}

/* Each stored type, read as float32 with a scale. */
TEST(types_are_converted) {
    const float f4[] = {1.5f, -2};
    const double f8[] = {1.5, -2};
    const uint16_t f2[] = {0x3e00, 0xc000}, bf16[] = {0x3fc0, 0xc000};
    const uint8_t e4[] = {0x3c, 0xc0}, e5[] = {0x3e, 0xc0}, e2[] = {0x03, 0x0c};
    const int8_t i1[] = {3, -4};
    const int16_t i2[] = {3, -4};
    const int32_t i4[] = {3, -4};
    const int64_t i8[] = {3, -4};
    const uint8_t u1[] = {3, 252}, truth[] = {0, 7};
    const uint16_t u2[] = {3, 65532};
    const uint32_t u4[] = {3, 4294967292u};
    const uint64_t u8[] = {3, 4294967292u};
    const struct {
        kn_dtype type;
        const void *data;
        size_t bytes;
        double first, second;
    } cases[] = {
        {KN_FLOAT32, f4, sizeof f4, 1.5, -2},
        {KN_FLOAT64, f8, sizeof f8, 1.5, -2},
        {KN_FLOAT16, f2, sizeof f2, 1.5, -2},
        {KN_BFLOAT16, bf16, sizeof bf16, 1.5, -2},
        {KN_FLOAT8E4M3FN, e4, sizeof e4, 1.5, -2},
        {KN_FLOAT8E5M2, e5, sizeof e5, 1.5, -2},
        {KN_FLOAT4E2M1, e2, sizeof e2, 1.5, -2},
        {KN_INT8, i1, sizeof i1, 3, -4},
        {KN_INT16, i2, sizeof i2, 3, -4},
        {KN_INT32, i4, sizeof i4, 3, -4},
        {KN_INT64, i8, sizeof i8, 3, -4},
        {KN_UINT8, u1, sizeof u1, 3, 252},
        {KN_UINT16, u2, sizeof u2, 3, 65532},
        {KN_UINT32, u4, sizeof u4, 3, 4294967292.0},
        {KN_UINT64, u8, sizeof u8, 3, 4294967292.0},
        {KN_BOOL, truth, sizeof truth, 0, 1},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            double scale = scaled ? 0.25 : 0;
            kn_dataset_array field = {
                "x", {cases[i].type, 0, {0}}, cases[i].data, cases[i].bytes, KN_FLOAT32, scale};
            kn_dataset *dataset = kn_dataset_create_from_arrays(2, &field, 1, 0, NULL);
            assert_usable(dataset);
            float x[2];
            assert_int_equal(kn_dataset_read(dataset, NULL, 2, 0, x, sizeof x, NULL, 0), KN_OK);
            assert_true(x[0] == (float)(cases[i].first * (scaled ? scale : 1)));
            assert_true(x[1] == (float)(cases[i].second * (scaled ? scale : 1)));
            kn_dataset_destroy(&dataset);
        }
        /* As int32: integers in range are read, other numbers are refused. */
        kn_dataset_array field = {"x", {cases[i].type, 0, {0}}, cases[i].data, cases[i].bytes, KN_INT32, 0};
        kn_dataset *dataset = kn_dataset_create_from_arrays(2, &field, 1, 0, NULL);
        bool real = cases[i].first == 1.5;
        if (real || cases[i].second > 2147483647.0) {
            assert_failed(dataset, real ? KN_ERROR_DTYPE : KN_ERROR_ARGUMENT,
                          real ? "expected float32" : "sample 1");
            continue;
        }
        assert_usable(dataset);
        int32_t x[2];
        assert_int_equal(kn_dataset_read(dataset, NULL, 2, 0, x, sizeof x, NULL, 0), KN_OK);
        assert_int_equal(x[0], cases[i].first);
        assert_int_equal(x[1], cases[i].second);
        kn_dataset_destroy(&dataset);
    }
}

TEST(wrong_arrays_are_refused) {
    const float x[4] = {0};
    const int32_t y[4] = {0, 1, 2, 3}, negative[4] = {0, 1, -1, 0};
    const kn_dataset_array good = {"x", {KN_FLOAT32, 1, {1}}, x, sizeof x, KN_FLOAT32, 0};
    const kn_dataset_array label = {"y", {KN_INT32, 0, {0}}, y, sizeof y, KN_INT32, 0};
    kn_dataset_array pair[2] = {good, label};
    assert_failed(kn_dataset_create_from_arrays(4, pair, 2, 3, NULL), KN_ERROR_ARGUMENT,
                  "\"y\" of sample 3 is 3");
    pair[1].data = negative;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 2, 3, NULL), KN_ERROR_ARGUMENT, "sample 2 is -1");
    pair[1] = label;
    pair[1].as = KN_FLOAT32;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 2, 4, NULL), KN_ERROR_SHAPE, "class indices");
    pair[1] = good;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 2, 0, NULL), KN_ERROR_ARGUMENT, "twice");
    pair[1].name = NULL;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 2, 0, NULL), KN_ERROR_ARGUMENT, "no name");
    pair[1].name = "a name that is far too long for a field";
    assert_failed(kn_dataset_create_from_arrays(4, pair, 2, 0, NULL), KN_ERROR_ARGUMENT,
                  "1 to 31 characters");
    pair[0].bytes--;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 1, 0, NULL), KN_ERROR_ARGUMENT,
                  "has 15 bytes; expected 4 samples of 4");
    pair[0] = good;
    pair[0].data = NULL;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 1, 0, NULL), KN_ERROR_ARGUMENT, "NULL");
    pair[0] = good;
    pair[0].as = KN_FLOAT64;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 1, 0, NULL), KN_ERROR_DTYPE, "float64");
    pair[0] = good;
    pair[0].info.shape[0] = -1;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 1, 0, NULL), KN_ERROR_SHAPE, "\"x\"");
    pair[0].info.rank = 9;
    assert_failed(kn_dataset_create_from_arrays(4, pair, 1, 0, NULL), KN_ERROR_SHAPE, "\"x\"");
    assert_failed(kn_dataset_create_from_arrays(4, NULL, 1, 0, NULL), KN_ERROR_ARGUMENT, "NULL");
    assert_failed(kn_dataset_create_from_arrays(1ull << 32, &good, 1, 0, NULL), KN_ERROR_UNSUPPORTED,
                  "4294967296");
}

TEST(wrong_specifications_are_explained) {
    assert_failed(kn_dataset_open(NULL, NULL), KN_ERROR_ARGUMENT, "spec is NULL");
    assert_failed(kn_dataset_open("", NULL), KN_ERROR_ARGUMENT, "idx:FOLDER");
    assert_failed(kn_dataset_open("digitts", NULL), KN_ERROR_ARGUMENT, "did you mean \"digits\"?");
    assert_failed(kn_dataset_open("npy", NULL), KN_ERROR_ARGUMENT, "npy:X.npy,Y.npy");
    assert_failed(kn_dataset_open("npy:only.npy", NULL), KN_ERROR_ARGUMENT, "two files");
    assert_failed(kn_dataset_open("npy:,", NULL), KN_ERROR_ARGUMENT, "two files");
    assert_failed(kn_dataset_open("idx:/nowhere/at all", NULL), KN_ERROR_FILE, "/nowhere/at all");
}

TEST(null_is_harmless) {
    kn_dataset *none = NULL, *other = NULL;
    kn_loader *loader = NULL;
    kn_batch batch = KN_BATCH_DEFAULTS;
    kn_dataset_destroy(NULL);
    kn_dataset_destroy(&none);
    kn_loader_destroy(NULL);
    kn_loader_destroy(&loader);
    kn_dataset_params_init(NULL);
    kn_loader_params_init(NULL);
    assert_int_equal(kn_dataset_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(strstr(kn_dataset_error(NULL), "memory"));
    assert_int_equal(kn_dataset_count(NULL) + kn_dataset_field_count(NULL), 0);
    assert_int_equal(kn_dataset_classes(NULL), 0);
    assert_false(kn_dataset_field_at(NULL, 0, NULL) || kn_dataset_find_field(NULL, "x", NULL));
    assert_int_equal(kn_dataset_read(NULL, NULL, 0, 0, NULL, 0, NULL, 0), KN_ERROR_MEMORY);
    assert_false(kn_dataset_has_test(NULL));
    assert_null(kn_dataset_test(NULL));
    assert_int_equal(kn_dataset_split(NULL, 0.5, 0, &none, &other), KN_ERROR_MEMORY);
    assert_null(none);
    assert_null(kn_loader_create(NULL, NULL));
    assert_int_equal(kn_loader_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(strstr(kn_loader_error(NULL), "memory"));
    assert_int_equal(kn_loader_batches(NULL), 0);
    assert_int_equal(kn_loader_next(NULL, &batch), KN_ERROR_MEMORY);
    assert_int_equal(kn_loader_seek(NULL, 0, 0), KN_ERROR_MEMORY);
    assert_true(kn_loader_wait_seconds(NULL) == 0);
}

TEST(errors_are_carried_on) {
    kn_dataset *bad = kn_dataset_open("nonsense", NULL), *training, *validation;
    assert_int_equal(kn_dataset_read(bad, NULL, 0, 0, NULL, 0, NULL, 0), KN_ERROR_ARGUMENT);
    assert_failed(kn_dataset_test(bad), KN_ERROR_ARGUMENT, "nonsense");
    assert_int_equal(kn_dataset_split(bad, 0.5, 1, &training, &validation), KN_ERROR_ARGUMENT);
    assert_failed(training, KN_ERROR_ARGUMENT, "nonsense");
    assert_failed(validation, KN_ERROR_ARGUMENT, "nonsense");
    kn_loader *loader = kn_loader_create(bad, NULL);
    assert_int_equal(kn_loader_status(loader), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_loader_error(loader), "nonsense"));
    kn_batch batch = KN_BATCH_DEFAULTS;
    assert_int_equal(kn_loader_next(loader, &batch), KN_ERROR_ARGUMENT);
    kn_loader_destroy(&loader);
    kn_dataset_destroy(&bad);
}

/* Each allocation fails once: an error or NULL, no leak, and the next attempt works. */
TEST(memory_may_run_out) {
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset_params params = watched(&memory);
        params.max_samples = 50;
        kn_dataset *dataset = kn_dataset_open("digits", &params), *training = NULL, *validation = NULL;
        kn_dataset *test = kn_dataset_test(dataset);
        kn_dataset_split(dataset, 0.2, 1, &training, &validation);
        kn_loader_params how = KN_LOADER_DEFAULTS;
        kn_loader *loader = kn_loader_create(training, &how);
        kn_batch batch = KN_BATCH_DEFAULTS;
        bool well = kn_loader_next(loader, &batch) == KN_OK && kn_dataset_status(test) == KN_OK &&
                    kn_dataset_status(validation) == KN_OK;
        if (well) assert_int_equal(batch.count, 40);
        kn_loader_destroy(&loader);
        kn_dataset_destroy(&validation);
        kn_dataset_destroy(&dataset);
        kn_dataset_destroy(&test);
        kn_dataset_destroy(&training);
        assert_int_equal(memory.live, 0);
        assert_int_equal(well, memory.calls < fail_at);
        if (well) break;
    }
}

TEST(older_programs_work) {
    /* A program built when the parameters had only their first fields. */
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.max_samples = 5;
    params.size = offsetof(kn_dataset_params, max_samples);
    kn_dataset *dataset = kn_dataset_open("digits:test", &params);
    assert_usable(dataset);
    assert_int_equal(kn_dataset_count(dataset), 10000);
    kn_dataset_destroy(&dataset);
}

TEST_FILE(test_datasets, NULL, NULL)
