/* Loaders: each sample once per epoch, an order that depends on the seed, no allocations while running. */
#include "data_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    sample_arrays arrays;
    kn_dataset *dataset;
    failing memory;
} setting;

static int set_up(void **state) {
    setting *made = calloc(1, sizeof *made);
    made->arrays = arrays_make(103, 10);
    kn_dataset_params params = watched(&made->memory);
    made->dataset = arrays_open(&params, &made->arrays, 10);
    assert_usable(made->dataset);
    *state = made;
    return 0;
}

static int tear_down(void **state) {
    setting *made = *state;
    kn_dataset_destroy(&made->dataset);
    arrays_free(&made->arrays);
    size_t live = made->memory.live;
    free(made);
    return live == 0 ? 0 : -1;
}

static kn_loader *open_loader(const setting *from, uint64_t batch, uint64_t seed, bool no_shuffle,
                              bool drop_last) {
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.batch = batch;
    params.seed = seed;
    params.no_shuffle = no_shuffle;
    params.drop_last = drop_last;
    kn_loader *loader = kn_loader_create(from->dataset, &params);
    if (kn_loader_status(loader) != KN_OK) fail_msg("%s", kn_loader_error(loader));
    return loader;
}

/* Checks that the batch contains the samples of its indices. */
static void check_contents(const kn_batch *batch) {
    assert_int_equal(batch->feed_count, 2);
    assert_string_equal(batch->feeds[0].name, "x");
    assert_string_equal(batch->feeds[1].name, "y");
    assert_int_equal(batch->feeds[0].bytes, batch->count * 12);
    assert_int_equal(batch->feeds[1].bytes, batch->count * 4);
    const float *x = batch->feeds[0].data;
    const int32_t *y = batch->feeds[1].data;
    assert_int_equal((uintptr_t)x % 64 + (uintptr_t)y % 64, 0);
    for (uint64_t i = 0; i < batch->count; i++) {
        assert_true(x[i * 3] == (float)(batch->samples[i] * 10));
        assert_true(x[i * 3 + 2] == (float)(batch->samples[i] * 10 + 2));
        assert_int_equal(y[i], batch->samples[i] % 10);
    }
}

/* Reads one epoch; stores the indices of its samples in `order`. Returns their number. */
static uint64_t walk(kn_loader *loader, uint64_t epoch, uint64_t *order) {
    uint64_t count = 0, batches = 0;
    for (;;) {
        kn_batch batch = KN_BATCH_DEFAULTS;
        assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
        assert_int_equal(batch.epoch, epoch);
        assert_int_equal(batch.index, batches);
        if (batch.count == 0) break;
        check_contents(&batch);
        for (uint64_t i = 0; i < batch.count; i++)
            order[count++] = batch.samples[i];
        batches++;
    }
    assert_int_equal(batches, kn_loader_batches(loader));
    return count;
}

TEST_WITH(every_sample_once, set_up, tear_down) {
    kn_loader *loader = open_loader(*state, 10, 3, false, false);
    uint64_t orders[3][103];
    assert_int_equal(kn_loader_batches(loader), 11);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        assert_int_equal(walk(loader, epoch, orders[epoch]), 103);
        int seen[103] = {0};
        for (int i = 0; i < 103; i++)
            seen[orders[epoch][i]]++;
        for (int i = 0; i < 103; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(orders[0], orders[1], sizeof orders[0]);
    assert_memory_not_equal(orders[1], orders[2], sizeof orders[0]);
    kn_loader_destroy(&loader);
    assert_null(loader);
}

TEST_WITH(order_depends_on_the_seed, set_up, tear_down) {
    uint64_t orders[4][103];
    const uint64_t batches[] = {10, 7, 103, 10}, seeds[] = {3, 3, 3, 4};
    for (int i = 0; i < 4; i++) {
        kn_loader *loader = open_loader(*state, batches[i], seeds[i], false, false);
        walk(loader, 0, orders[i]);
        kn_loader_destroy(&loader);
    }
    /* The order does not depend on the batch size. */
    assert_memory_equal(orders[0], orders[1], sizeof orders[0]);
    assert_memory_equal(orders[0], orders[2], sizeof orders[0]);
    assert_memory_not_equal(orders[0], orders[3], sizeof orders[0]);
}

TEST_WITH(order_is_kept_without_shuffle, set_up, tear_down) {
    kn_loader *loader = open_loader(*state, 20, 3, true, true);
    uint64_t order[103];
    assert_int_equal(kn_loader_batches(loader), 5);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(walk(loader, epoch, order), 100); /* the last three are dropped */
        for (uint64_t i = 0; i < 100; i++)
            assert_int_equal(order[i], i);
    }
    kn_loader_destroy(&loader);
}

/* Each position in the batch reads consecutive samples of its part of the dataset. */
TEST_WITH(samples_follow_their_neighbours, set_up, tear_down) {
    const setting *made = *state;
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.batch = 20;
    params.in_sequence = true;
    kn_loader *loader = kn_loader_create(made->dataset, &params);
    uint64_t order[103];
    assert_int_equal(kn_loader_batches(loader), 5);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(walk(loader, epoch, order), 100); /* the last three are dropped */
        for (uint64_t i = 0; i < 100; i++)
            assert_int_equal(order[i], i < 20 ? i * 5 : order[i - 20] + 1);
    }
    kn_loader_destroy(&loader);
}

TEST_WITH(seeking_gives_the_same_batches, set_up, tear_down) {
    kn_loader *straight = open_loader(*state, 10, 9, false, false);
    uint64_t orders[3][103], order[103];
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        walk(straight, epoch, orders[epoch]);
    kn_loader *jumping = open_loader(*state, 10, 9, false, false);
    const uint64_t places[][2] = {{2, 4}, {0, 0}, {1, 10}, {1, 10}, {2, 0}, {0, 3}};
    for (size_t i = 0; i < KN_COUNT_OF(places); i++) {
        assert_int_equal(kn_loader_seek(jumping, places[i][0], places[i][1]), KN_OK);
        kn_batch batch = KN_BATCH_DEFAULTS;
        assert_int_equal(kn_loader_next(jumping, &batch), KN_OK);
        assert_int_equal(batch.epoch, places[i][0]);
        assert_int_equal(batch.index, places[i][1]);
        assert_int_equal(batch.count, places[i][1] == 10 ? 3 : 10);
        check_contents(&batch);
        assert_memory_equal(batch.samples, orders[places[i][0]] + places[i][1] * 10, batch.count * 8);
    }
    /* The end of an epoch is a valid position. */
    assert_int_equal(kn_loader_seek(jumping, 0, 11), KN_OK);
    kn_batch batch = KN_BATCH_DEFAULTS;
    assert_int_equal(kn_loader_next(jumping, &batch), KN_OK);
    assert_int_equal(batch.count + batch.epoch, 0);
    walk(jumping, 1, order);
    assert_memory_equal(order, orders[1], sizeof order);
    assert_int_equal(kn_loader_seek(jumping, 0, 12), KN_ERROR_ARGUMENT);
    walk(jumping, 2, order); /* a refused seek changes nothing */
    assert_memory_equal(order, orders[2], sizeof order);
    kn_loader_destroy(&straight);
    kn_loader_destroy(&jumping);
}

TEST_WITH(loaders_allocate_nothing_while_running, set_up, tear_down) {
    setting *made = *state;
    kn_loader *loader = open_loader(made, 10, 1, false, false);
    uint64_t order[103];
    size_t calls = failing_calls(&made->memory);
    for (uint64_t epoch = 0; epoch < 5; epoch++)
        walk(loader, epoch, order);
    kn_loader_seek(loader, 1, 1);
    kn_batch batch = KN_BATCH_DEFAULTS;
    assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
    assert_int_equal(failing_calls(&made->memory), calls);
    assert_true(kn_loader_wait_seconds(loader) >= 0);
    kn_loader_destroy(&loader);
}

TEST_WITH(batches_fit_the_dataset, set_up, tear_down) {
    setting *made = *state;
    uint64_t order[103];
    kn_loader *loader = open_loader(made, 1ull << 40, 1, false, false); /* allocates for 103 samples only */
    assert_int_equal(walk(loader, 0, order), 103);
    kn_loader_destroy(&loader);
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.batch = 104;
    params.drop_last = true;
    loader = kn_loader_create(made->dataset, &params);
    assert_int_equal(kn_loader_status(loader), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_loader_error(loader), "103 samples has no full batch of 104"));
    assert_int_equal(kn_loader_batches(loader), 0);
    kn_loader_destroy(&loader);
    params.batch = 0;
    loader = kn_loader_create(made->dataset, &params);
    assert_int_equal(kn_loader_status(loader), KN_ERROR_ARGUMENT);
    kn_loader_destroy(&loader);
    loader = kn_loader_create(made->dataset, NULL);
    assert_int_equal(kn_loader_batches(loader), 2);
    kn_loader_destroy(&loader);
}

TEST(loader_keeps_its_samples) {
    sample_arrays arrays = arrays_make(20, 2);
    kn_dataset *dataset = arrays_open(NULL, &arrays, 2), *training, *validation;
    kn_dataset_split(dataset, 0.5, 1, &training, &validation);
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.batch = 4;
    kn_loader *loader = kn_loader_create(training, &params);
    kn_dataset_destroy(&dataset);
    kn_dataset_destroy(&training);
    kn_dataset_destroy(&validation);
    kn_batch batch = KN_BATCH_DEFAULTS;
    assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
    assert_int_equal(batch.count, 4);
    kn_loader_destroy(&loader);
    arrays_free(&arrays);
}

/* Samples that are generated when first read, by several threads at once. */
TEST(generated_samples_agree) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.max_samples = 600;
    kn_dataset *dataset = kn_dataset_open("digits:test", &params);
    kn_loader_params how = KN_LOADER_DEFAULTS;
    kn_loader *loaders[3];
    for (int i = 0; i < 3; i++) {
        how.seed = i < 2 ? 1 : 2;
        loaders[i] = kn_loader_create(dataset, &how);
    }
    for (int step = 0; step < 10; step++) {
        kn_batch batches[3] = {KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS};
        for (int i = 0; i < 3; i++)
            assert_int_equal(kn_loader_next(loaders[i], &batches[i]), KN_OK);
        assert_int_equal(batches[0].count, step < 9 ? 64 : 24);
        const kn_feed *first = &batches[0].feeds[0];
        assert_memory_equal(first->data, batches[1].feeds[0].data, first->bytes);
        assert_memory_not_equal(first->data, batches[2].feeds[0].data, first->bytes);
    }
    for (int i = 0; i < 3; i++)
        kn_loader_destroy(&loaders[i]);
    kn_dataset_destroy(&dataset);
}

/* ---- bytes -------------------------------------------------------------------------------- */

enum { BYTE_SAMPLES = 23, BYTE_PIXELS = 3 * 5 * 7, BYTE_BATCH = 6 };

/* "x" are images of bytes, "y" classes, "z" bytes that are read as they are, "f" floats. */
static kn_dataset *byte_images(void) {
    static uint8_t x[BYTE_SAMPLES][BYTE_PIXELS], y[BYTE_SAMPLES];
    static float f[BYTE_SAMPLES];
    for (int i = 0; i < BYTE_SAMPLES; i++) {
        y[i] = (uint8_t)(i % 3);
        for (int k = 0; k < BYTE_PIXELS; k++)
            x[i][k] = (uint8_t)(i * BYTE_PIXELS + k);
    }
    const kn_dataset_array arrays[] = {
        {"x", {KN_UINT8, 3, {3, 5, 7}}, x, sizeof x, KN_FLOAT32, 1.0 / 255},
        {"y", {KN_UINT8, 0, {0}}, y, sizeof y, KN_INT32, 0},
        {"z", {KN_UINT8, 0, {0}}, y, sizeof y, KN_FLOAT32, 0},
        {"f", {KN_FLOAT32, 0, {0}}, f, sizeof f, KN_FLOAT32, 0.5},
    };
    kn_dataset *dataset = kn_dataset_create_from_arrays(BYTE_SAMPLES, arrays, 4, 3, NULL);
    assert_usable(dataset);
    return dataset;
}

static kn_batch next_of(const kn_dataset *dataset, bool bytes, const kn_augmentation *how,
                        kn_loader **loader) {
    kn_batch batch = KN_BATCH_DEFAULTS;
    if (!*loader) {
        const kn_loader_params params = {
            .size = sizeof params, .batch = BYTE_BATCH, .seed = 4, .augmentation = how, .bytes = bytes};
        *loader = kn_loader_create(dataset, &params);
    }
    if (kn_loader_next(*loader, &batch) != KN_OK) fail_msg("%s", kn_loader_error(*loader));
    return batch;
}

/* The same batches, a quarter as large where bytes are stored, and scaled the same numbers. */
TEST(bytes_are_delivered_as_stored) {
    static const double scales[] = {(float)(1.0 / 255), 0, 1, 0};
    kn_dataset *dataset = byte_images();
    kn_loader *wide = NULL, *narrow = NULL;
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    for (size_t f = 0; f < 4; f++)
        assert_true(kn_dataset_field_at(dataset, f, &field) && field.scale == scales[f]);
    for (int epoch = 0; epoch < 2; epoch++)
        for (;;) {
            const kn_batch numbers = next_of(dataset, false, NULL, &wide);
            const kn_batch bytes = next_of(dataset, true, NULL, &narrow);
            assert_int_equal(bytes.count, numbers.count);
            if (!bytes.count) break;
            assert_memory_equal(bytes.samples, numbers.samples, bytes.count * sizeof *bytes.samples);
            for (size_t f = 0; f < 4; f++) {
                const kn_feed *a = &numbers.feeds[f], *b = &bytes.feeds[f];
                assert_true(a->scale == 0 && b->scale == scales[f]);
                assert_int_equal(b->bytes, scales[f] != 0 ? a->bytes / 4 : a->bytes);
                for (size_t i = 0; i < b->bytes && scales[f] != 0; i++)
                    assert_true((float)((const uint8_t *)b->data)[i] * (float)b->scale ==
                                ((const float *)a->data)[i]);
                if (scales[f] == 0) assert_memory_equal(a->data, b->data, a->bytes);
            }
        }
    kn_loader_destroy(&wide);
    kn_loader_destroy(&narrow);
    kn_dataset_destroy(&dataset);
}

/* Computing needs numbers; fields that are only moved or cropped stay bytes, which become the same numbers.
 */
TEST(changed_samples_are_numbers) {
    static const char *const words[] = {"flip",           "flip,crop=2,shift=3,cutout=2",
                                        "noise=0.1",      "rotate=5",
                                        "brightness=0.1", "hue=9",
                                        "flip,mix-up=1",  "cut-mix=1"};
    enum { MOVES = 2 };
    kn_dataset *dataset = byte_images();
    for (size_t i = 0; i < KN_COUNT_OF(words); i++) {
        kn_augmentation how = KN_AUGMENTATION_DEFAULTS;
        kn_loader *wide = NULL, *narrow = NULL;
        assert_int_equal(kn_augmentation_read(words[i], &how, NULL, 0), KN_OK);
        const kn_batch numbers = next_of(dataset, false, &how, &wide);
        const kn_feed expected = numbers.feeds[0], found = next_of(dataset, true, &how, &narrow).feeds[0];
        assert_int_equal(kn_augmentation_keeps_bytes(&how), i < MOVES);
        assert_int_equal(found.bytes, i < MOVES ? expected.bytes / 4 : expected.bytes);
        assert_true((found.scale != 0) == (i < MOVES));
        for (size_t k = 0; k < expected.bytes / 4; k++) {
            const float number = found.scale != 0
                                     ? (float)((const uint8_t *)found.data)[k] * (float)found.scale
                                     : ((const float *)found.data)[k];
            assert_true(number == ((const float *)expected.data)[k]);
        }
        kn_loader_destroy(&wide);
        kn_loader_destroy(&narrow);
    }
    kn_dataset_destroy(&dataset);
}

/* Images that are read larger stay bytes; the mean of three channels is none. */
TEST(larger_images_are_bytes_too) {
    for (int channels = 1; channels <= 3; channels += 2) {
        const kn_tensor_info wanted = {KN_FLOAT32, 3, {channels, 40, 50}};
        kn_dataset_params params = KN_DATASET_DEFAULTS;
        kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
        params.expected = &wanted;
        params.max_samples = 10;
        kn_dataset *dataset = kn_dataset_open("shapes:train", &params);
        assert_usable(dataset);
        assert_true(kn_dataset_field_at(dataset, 0, &field));
        assert_true(field.info.shape[0] == channels && field.info.shape[1] == 40);
        assert_true((field.scale != 0) == (channels == 3));
        kn_loader *wide = NULL, *narrow = NULL;
        const kn_feed numbers = next_of(dataset, false, NULL, &wide).feeds[0],
                      bytes = next_of(dataset, true, NULL, &narrow).feeds[0];
        assert_int_equal(bytes.bytes, channels == 3 ? numbers.bytes / 4 : numbers.bytes);
        for (size_t i = 0; i < bytes.bytes && channels == 3; i++)
            assert_true((float)((const uint8_t *)bytes.data)[i] * (float)bytes.scale ==
                        ((const float *)numbers.data)[i]);
        kn_loader_destroy(&wide);
        kn_loader_destroy(&narrow);
        kn_dataset_destroy(&dataset);
    }
}

/* The first non-finite sample is reported by its position in the source, once for all its loaders. */
TEST(samples_that_are_not_finite_are_reported) {
    const float broken[] = {NAN, -INFINITY};
    for (size_t kind = 0; kind < 2; kind++) {
        failing memory = {0};
        kn_dataset_params params = watched(&memory);
        params.log.level = KN_LOG_WARNING;
        sample_arrays arrays = arrays_make(40, 10);
        arrays.x[17 * 3 + 2] = broken[kind];
        kn_dataset *dataset = arrays_open(&params, &arrays, 10), *parts[2];
        assert_int_equal(kn_dataset_split(dataset, 0.5, 3, &parts[0], &parts[1]), KN_OK);
        for (int turn = 0; turn < 2; turn++) {
            memory.message[0] = 0;
            for (int p = 0; p < 2; p++) {
                kn_loader_params how = KN_LOADER_DEFAULTS;
                kn_batch batch = KN_BATCH_DEFAULTS;
                how.batch = 7;
                kn_loader *loader = kn_loader_create(parts[p], &how);
                do
                    assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
                while (batch.count > 0);
                kn_loader_destroy(&loader);
            }
            if (turn == 1)
                assert_string_equal(memory.message, "");
            else if (!strstr(memory.message,
                             kind ? "'x' of sample 17 has infinite" : "'x' of sample 17 has NaN"))
                fail_msg("'%s'", memory.message);
        }
        kn_dataset_destroy(&parts[0]);
        kn_dataset_destroy(&parts[1]);
        kn_dataset_destroy(&dataset);
        arrays_free(&arrays);
        assert_int_equal(memory.live, 0);
    }
}

TEST_FILE(test_loaders, NULL, NULL)
