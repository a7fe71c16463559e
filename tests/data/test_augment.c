/* Random augmentation, balanced classes, several workers: always the same batches. */
#include "data_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/augment.h"

enum { SIDE = 6, PLANE = SIDE * SIDE, PIXELS = 2 * PLANE };
static const kn_tensor_info picture = {KN_FLOAT32, 3, {2, SIDE, SIDE}};

/* Pixel i is i + 1, so a value identifies its origin, and 0 is padding. */
static void change(const kn_augmentation *how, uint64_t key, float x[PIXELS]) {
    float scratch[PIXELS];
    kn_error error = {0};
    for (int i = 0; i < PIXELS; i++)
        x[i] = (float)(i + 1);
    if (kn_augment_check(how, &picture, NULL, &error) != KN_OK) fail_msg("%s", error.text);
    kn_augment(how, &picture, key, false, x, scratch);
}

/* The original value at (row, column) of a plane, or 0 outside it. */
static float was(int plane, int row, int column) {
    bool inside = row >= 0 && row < SIDE && column >= 0 && column < SIDE;
    return inside ? (float)(plane * PLANE + row * SIDE + column + 1) : 0;
}

TEST(images_are_flipped_and_shifted) {
    const kn_augmentation flip = {.size = sizeof flip, .flip = true}, crop = {.size = sizeof crop, .crop = 2},
                          shift = {.size = sizeof shift, .shift = 3};
    int flipped = 0, moved[5][5] = {{0}}, shifted[7] = {0};
    for (uint64_t key = 0; key < 400; key++) {
        float x[PIXELS];
        change(&flip, key, x);
        bool turned = x[0] != 1;
        flipped += turned;
        for (int i = 0; i < PIXELS; i++)
            assert_true(x[i] ==
                        (turned ? was(i / PLANE, i / SIDE % SIDE, SIDE - 1 - i % SIDE) : (float)(i + 1)));
        change(&crop, key, x);
        int from = (int)x[2 * SIDE + 2] - 1, down = 2 - from / SIDE, right = 2 - from % SIDE;
        assert_in_range(down + 2, 0, 4);
        assert_in_range(right + 2, 0, 4);
        moved[down + 2][right + 2]++;
        for (int i = 0; i < PIXELS; i++)
            assert_true(x[i] == was(i / PLANE, i / SIDE % SIDE - down, i % SIDE - right));
        change(&shift, key, x);
        int places = -3;
        for (; places <= 3; places++) {
            bool same = true;
            for (int i = 0; i < PIXELS && same; i++)
                same = x[i] == was(i / PLANE, i / SIDE % SIDE, i % SIDE - places);
            if (same) break;
        }
        assert_in_range(places + 3, 0, 6);
        shifted[places + 3]++;
    }
    assert_in_range(flipped, 150, 250);
    for (int i = 0; i < 25; i++)
        assert_in_range(moved[i / 5][i % 5], 3, 40);
    for (int i = 0; i < 7; i++)
        assert_in_range(shifted[i], 25, 100);
}

TEST(images_lose_a_square) {
    const kn_augmentation how = {.size = sizeof how, .cutout = 3};
    for (uint64_t key = 0; key < 100; key++) {
        float x[PIXELS];
        int gone = 0, top = SIDE, bottom = 0, left = SIDE, right = 0;
        change(&how, key, x);
        for (int i = 0; i < PLANE; i++) {
            assert_true((x[i] == 0) == (x[i + PLANE] == 0));
            assert_true(x[i] == 0 || x[i] == (float)(i + 1));
            if (x[i] != 0) continue;
            gone++;
            if (i / SIDE < top) top = i / SIDE;
            if (i / SIDE >= bottom) bottom = i / SIDE + 1;
            if (i % SIDE < left) left = i % SIDE;
            if (i % SIDE >= right) right = i % SIDE + 1;
        }
        assert_int_equal(gone, (bottom - top) * (right - left));
        assert_in_range(bottom - top, 2, 3);
        assert_in_range(right - left, 2, 3);
    }
}

TEST(images_are_rotated_and_shaded) {
    const kn_augmentation turn = {.size = sizeof turn, .rotation = 180},
                          bright = {.size = sizeof bright, .brightness = 0.5},
                          contrast = {.size = sizeof contrast, .contrast = 0.5},
                          noise = {.size = sizeof noise, .noise = 2};
    bool turned = false, lighter = false, darker = false;
    double sum = 0, squares = 0;
    for (uint64_t key = 0; key < 100; key++) {
        float x[PIXELS];
        change(&turn, key, x);
        /* The four pixels at the centre keep their mean. */
        float middle = (x[14] + x[15] + x[20] + x[21]) / 4;
        assert_true(fabsf(middle - (15 + 16 + 21 + 22) / 4.0f) < 1.0f);
        for (int i = 0; i < PLANE; i++)
            assert_true(x[i] >= 0 && x[i] < PLANE + 0.01f);
        turned = turned || fabsf(x[14] - 22) < 2;
        change(&bright, key, x);
        float factor = x[0];
        assert_true(factor >= 0.5f && factor <= 1.5f);
        lighter = lighter || factor > 1.3f;
        darker = darker || factor < 0.7f;
        for (int i = 0; i < PIXELS; i++)
            assert_true(fabsf(x[i] - factor * (float)(i + 1)) < 1e-3f);
        change(&contrast, key, x);
        factor = x[1] - x[0];
        assert_true(factor >= 0.499f && factor <= 1.501f);
        for (int i = 0; i < PIXELS; i++)
            assert_true(fabsf(x[i] - (36.5f + ((float)i - 35.5f) * factor)) < 1e-2f);
        change(&noise, key, x);
        for (int i = 0; i < PIXELS; i++) {
            double own = (double)x[i] - (i + 1);
            sum += own;
            squares += own * own;
        }
    }
    assert_true(turned && lighter && darker);
    assert_true(fabs(sum / (100 * PIXELS)) < 0.1);
    assert_true(fabs(sqrt(squares / (100 * PIXELS)) - 2) < 0.1);
}

/* Scaling and shearing are linear: they change the horizontal and vertical steps by factors only. */
TEST(images_are_scaled_and_sheared) {
    const kn_augmentation scale = {.size = sizeof scale, .scale = 0.5},
                          shear = {.size = sizeof shear, .shear = 40};
    float least = 9, most = 0, left = 0, right = 0;
    for (uint64_t key = 0; key < 100; key++) {
        float x[PIXELS];
        change(&scale, key, x);
        const float step = x[15] - x[14]; /* from one column to the next, at the centre */
        if (step < least) least = step;
        if (step > most) most = step;
        assert_true(fabsf(x[20] - x[14] - SIDE * step) < 1e-3f); /* vertically the same as horizontally */
        assert_true(fabsf((x[14] + x[15] + x[20] + x[21]) / 4 - 18.5f) < 1e-3f);
        change(&shear, key, x);
        assert_true(fabsf(x[15] - x[14] - 1) < 1e-3f);
        const float slope = SIDE - (x[20] - x[14]);
        assert_true(fabsf(slope) < 0.84f); /* the tangent of 40 degrees */
        if (slope < left) left = slope;
        if (slope > right) right = slope;
    }
    assert_true(least < 0.72f && least >= 1 / 1.5f - 1e-3f && most > 1.7f && most <= 2 + 1e-3f);
    assert_true(left < -0.5f && right > 0.5f);
}

TEST(hues_are_rotated) {
    const kn_tensor_info pixel = {KN_FLOAT32, 3, {3, 1, 2}};
    const kn_augmentation hue = {.size = sizeof hue, .hue = 180},
                          saturation = {.size = sizeof saturation, .saturation = 1};
    kn_error error = {0};
    bool other = false, grey = false, strong = false;
    assert_int_equal(kn_augment_check(&hue, &pixel, NULL, &error), KN_OK);
    for (uint64_t key = 0; key < 100; key++) {
        /* A red pixel next to a grey one, stored by plane: red, green, blue. */
        float x[6] = {0.9f, 0.5f, 0.3f, 0.5f, 0.3f, 0.5f}, scratch[6];
        kn_augment(&hue, &pixel, key, false, x, scratch);
        for (int c = 0; c < 3; c++)
            assert_true(fabsf(x[2 * c + 1] - 0.5f) < 1e-6f);
        assert_true(fabsf(x[0] + x[2] + x[4] - 1.5f) < 1e-5f);
        assert_true(fabsf(x[0] * x[0] + x[2] * x[2] + x[4] * x[4] - 0.99f) <
                    1e-5f); /* at the same distance from grey */
        other = other || x[2] > 0.8f;
        float again[6] = {0.9f, 0.5f, 0.3f, 0.5f, 0.3f, 0.5f};
        kn_augment(&saturation, &pixel, key, false, again, scratch);
        for (int c = 0; c < 3; c++)
            assert_true(fabsf(again[2 * c + 1] - 0.5f) < 1e-6f);
        assert_true(fabsf(0.299f * again[0] + 0.587f * again[2] + 0.114f * again[4] -
                          (0.3f + 0.6f * 0.299f)) < 1e-5f);
        assert_true(again[2] == again[4] && again[0] - again[2] >= 0 && again[0] - again[2] <= 1.2f + 1e-5f);
        grey = grey || again[0] - again[2] < 0.1f;
        strong = strong || again[0] - again[2] > 1.1f;
    }
    assert_true(other && grey && strong);
}

TEST(samples_that_cannot_be_augmented) {
    const kn_tensor_info row = {KN_FLOAT32, 1, {4}}, tokens = {KN_INT32, 1, {4}}, label = {KN_INT32, 0, {0}},
                         places = {KN_INT32, 2, {SIDE, SIDE}};
    const struct {
        kn_augmentation how;
        const kn_tensor_info *x, *y;
        const char *part;
    } cases[] = {
        {{.flip = true}, &row, &label, "images (channels,height,width)"},
        {{.noise = 1}, &tokens, &label, "int32 of rank 1"},
        {{.flip = true}, &picture, &places, "the target has positions"},
        {{.crop = 7}, &picture, &label, "crop=7"},
        {{.shift = 5}, &row, &label, "shift=5"},
        {{.rotation = 181}, &picture, &label, "0 to 180"},
        {{.contrast = 1.5}, &picture, &label, "from 0 to 1"},
        {{.noise = NAN}, &picture, &label, "noise from 0"},
        {{.brightness = -1}, &picture, &label, "from 0 to 1"},
        {{.scale = 1}, &picture, &label, "a scale from 0 to 0.9"},
        {{.shear = 81}, &picture, &label, "a shear from 0 to 80"},
        {{.scale = 0.1}, &picture, &places, "the target has positions"},
        {{.hue = 10}, &picture, &label, "2 channels; saturation and hue need 3"},
        {{.saturation = 0.1}, &row, &label, "images (channels,height,width)"},
    };
    kn_error error = {0};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_status status = kn_augment_check(&cases[i].how, cases[i].x, cases[i].y, &error);
        assert_true(status != KN_OK);
        if (!strstr(error.text, cases[i].part))
            fail_msg("\"%s\"; expected \"%s\"", error.text, cases[i].part);
        kn_error_clear(&error);
    }
    const kn_augmentation fine = {.cutout = 2, .noise = 1}, still = {.size = 0};
    assert_int_equal(kn_augment_check(&fine, &picture, &places, &error), KN_OK);
    assert_int_equal(kn_augment_check(&still, &tokens, &label, &error), KN_OK);
}

/* ---- in a loader ----------------------------------------------------------------------------- */

static kn_dataset *open_shapes(void) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.max_samples = 90;
    kn_dataset *dataset = kn_dataset_open("shapes:test", &params);
    assert_usable(dataset);
    return dataset;
}

static const kn_augmentation all_of_it = {.size = sizeof all_of_it,
                                          .crop = 4,
                                          .flip = true,
                                          .rotation = 10,
                                          .brightness = 0.2,
                                          .contrast = 0.2,
                                          .cutout = 8,
                                          .noise = 0.1};

TEST(workers_make_no_difference) {
    kn_dataset *dataset = open_shapes();
    kn_loader *loaders[4];
    static const int workers[] = {1, 5, 16, 0};
    for (int i = 0; i < 4; i++) {
        kn_loader_params params = KN_LOADER_DEFAULTS;
        params.batch = 16;
        params.seed = 3;
        params.workers = workers[i];
        params.augmentation = &all_of_it;
        params.balanced = i < 3;
        loaders[i] = kn_loader_create(dataset, &params);
        if (kn_loader_status(loaders[i]) != KN_OK) fail_msg("%s", kn_loader_error(loaders[i]));
    }
    for (int step = 0; step < 21; step++) {
        kn_batch batches[3] = {KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS};
        /* Loader 1 seeks away and back; loader 2 skips steps that the others read. */
        if (step == 5) assert_int_equal(kn_loader_seek(loaders[1], 9, 2), KN_OK);
        if (step == 5) assert_int_equal(kn_loader_next(loaders[1], &batches[1]), KN_OK);
        if (step == 5) assert_int_equal(kn_loader_seek(loaders[1], 0, 5), KN_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(kn_loader_next(loaders[i], &batches[i]), KN_OK);
            assert_int_equal(batches[i].epoch * 10 + batches[i].index, step / 7 * 10 + step % 7);
            assert_int_equal(batches[i].count, step % 7 == 6 ? 0 : step % 7 == 5 ? 10 : 16);
        }
        for (int i = 1; i < 3 && batches[0].count > 0; i++)
            for (size_t f = 0; f < 2; f++) {
                assert_int_equal(batches[0].feeds[f].bytes, batches[i].feeds[f].bytes);
                assert_memory_equal(batches[0].feeds[f].data, batches[i].feeds[f].data,
                                    batches[0].feeds[f].bytes);
            }
    }
    for (int i = 0; i < 4; i++)
        kn_loader_destroy(&loaders[i]);
    kn_dataset_destroy(&dataset);
}

/* Reads the pixels of sample 0 in an epoch. */
static void read_first(const kn_dataset *dataset, uint64_t seed, uint64_t epoch, float x[3 * 32 * 32]) {
    kn_loader_params params = KN_LOADER_DEFAULTS;
    kn_batch batch = KN_BATCH_DEFAULTS;
    params.batch = 90;
    params.seed = seed;
    params.augmentation = &all_of_it;
    kn_loader *loader = kn_loader_create(dataset, &params);
    assert_int_equal(kn_loader_seek(loader, epoch, 0), KN_OK);
    assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
    size_t at = 0;
    while (batch.samples[at] != 0)
        at++;
    memcpy(x, (const float *)batch.feeds[0].data + at * 3 * 32 * 32, 3 * 32 * 32 * sizeof *x);
    kn_loader_destroy(&loader);
}

TEST(augmentation_depends_on_seed_and_epoch) {
    static float x[4][3 * 32 * 32];
    kn_dataset *dataset = open_shapes();
    read_first(dataset, 1, 0, x[0]);
    read_first(dataset, 1, 0, x[1]);
    read_first(dataset, 1, 1, x[2]);
    read_first(dataset, 2, 0, x[3]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_not_equal(x[0], x[2], sizeof x[0]);
    assert_memory_not_equal(x[0], x[3], sizeof x[0]);
    kn_dataset_destroy(&dataset);
}

/* Of 60 samples, class 0 has 2, class 1 none, class 2 has 10, and class 3 the remaining 48. */
TEST(classes_are_equally_frequent) {
    sample_arrays arrays = arrays_make(60, 4);
    for (int i = 0; i < 60; i++)
        arrays.y[i] = i < 2 ? 0 : i < 12 ? 2 : 3;
    failing memory = {0};
    kn_dataset_params watching = watched(&memory);
    kn_dataset *dataset = arrays_open(&watching, &arrays, 4);
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.batch = 60;
    params.balanced = true;
    kn_loader *loader = kn_loader_create(dataset, &params);
    uint64_t before[60] = {0};
    for (int epoch = 0; epoch < 3; epoch++) {
        kn_batch batch = KN_BATCH_DEFAULTS;
        int seen[60] = {0}, of[4] = {0};
        assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
        assert_int_equal(batch.count, 60);
        for (int i = 0; i < 60; i++) {
            seen[batch.samples[i]]++;
            of[((const int32_t *)batch.feeds[1].data)[i]]++;
        }
        assert_int_equal(of[0] * 10000 + of[2] * 100 + of[3], 202020);
        for (int i = 0; i < 60; i++)
            assert_in_range(seen[i], i < 12 ? (i < 2 ? 10 : 2) : 0, i < 12 ? (i < 2 ? 10 : 2) : 1);
        assert_memory_not_equal(before, batch.samples, sizeof before);
        memcpy(before, batch.samples, sizeof before);
        assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
        assert_int_equal(batch.count, 0);
    }
    kn_loader_destroy(&loader);
    float weights[4];
    assert_int_equal(kn_dataset_class_weights(dataset, weights, 4), KN_OK);
    assert_true(weights[0] == 10 && weights[1] == 1 && weights[2] == 2 &&
                weights[3] == (float)(60.0 / (3 * 48)));
    assert_int_equal(kn_dataset_class_weights(dataset, weights, 3), KN_ERROR_ARGUMENT);
    params.no_shuffle = true;
    loader = kn_loader_create(dataset, &params);
    assert_int_equal(kn_loader_status(loader), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_loader_error(loader), "keep their order"));
    kn_loader_destroy(&loader);
    kn_dataset_destroy(&dataset);
    dataset = arrays_open(&watching, &arrays, 0); /* no classes */
    assert_int_equal(kn_dataset_class_weights(dataset, weights, 0), KN_ERROR_ARGUMENT);
    params.no_shuffle = false;
    loader = kn_loader_create(dataset, &params);
    assert_int_equal(kn_loader_status(loader), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_loader_error(loader), "one class per sample"));
    kn_loader_destroy(&loader);
    kn_dataset_destroy(&dataset);
    assert_int_equal(memory.live, 0);
    arrays_free(&arrays);
}

TEST(memory_may_run_out) {
    sample_arrays arrays = arrays_make(60, 4);
    const kn_augmentation noise = {.size = sizeof noise, .noise = 1, .mix_up = 1};
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset_params watching = watched(&memory);
        kn_dataset *dataset = arrays_open(&watching, &arrays, 4);
        kn_loader_params params = KN_LOADER_DEFAULTS;
        params.balanced = true;
        params.augmentation = &noise;
        params.workers = 3;
        kn_loader *loader = kn_loader_create(dataset, &params);
        kn_status status = kn_loader_status(loader);
        kn_batch batch = KN_BATCH_DEFAULTS;
        if (status == KN_OK) assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
        kn_loader_destroy(&loader);
        kn_dataset_destroy(&dataset);
        assert_int_equal(memory.live, 0);
        if (status == KN_OK && memory.calls < fail_at) break;
        assert_true(status == KN_OK ||
                    status == KN_ERROR_MEMORY); /* without memory for all threads, fewer work */
        assert_true(fail_at < 300);
    }
    arrays_free(&arrays);
}

TEST_FILE(test_augment, NULL, NULL)
