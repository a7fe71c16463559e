/* The default data: the same bytes on every machine, no sample twice. */
#include "data_tests.h"

#include <stdlib.h>
#include <string.h>

#include "data/digits_private.h"

/* FNV-1a over all images, then over all labels. They must never change: see the README of the module. */
#define TRAIN_IMAGES 0x9bd0a830630b5eaeull
#define TRAIN_LABELS 0x79c0fb3169b12f4full
#define TEST_IMAGES 0x174d1a181d86fd9full
#define TEST_LABELS 0x013414e07b875e4full

/* A thread that draws every `step`-th image from `first` on. */
typedef struct share {
    bool test;
    uint64_t first, step;
    uint8_t *images;
} share;

static void draw_share(void *argument) {
    share *work = argument;
    for (uint64_t i = work->first; i < kn_digits_count(work->test); i += work->step)
        kn_digits_image(work->test, i, work->images + i * KN_DIGITS_PIXELS);
}

static uint8_t *draw_all(bool test, int threads) {
    uint8_t *images = malloc((size_t)kn_digits_count(test) * KN_DIGITS_PIXELS);
    assert_non_null(images);
    kn_thread *running[4];
    share shares[4];
    for (int t = 0; t < threads; t++) {
        shares[t] = (share){test, (uint64_t)t, (uint64_t)threads, images};
        running[t] = kn_thread_start(NULL, draw_share, &shares[t]);
        assert_non_null(running[t]);
    }
    for (int t = 0; t < threads; t++)
        kn_thread_join(NULL, &running[t]);
    return images;
}

static int by_value(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

TEST(same_bytes_everywhere) {
    static const uint64_t images_hash[2] = {TRAIN_IMAGES, TEST_IMAGES},
                          labels_hash[2] = {TRAIN_LABELS, TEST_LABELS};
    uint64_t *seen = malloc((KN_DIGITS_TRAIN + KN_DIGITS_TEST) * sizeof *seen);
    assert_non_null(seen);
    size_t count = 0;
    for (int test = 0; test < 2; test++) {
        uint8_t *images = draw_all(test, 3);
        uint64_t all = KN_HASH_START, labels = KN_HASH_START, classes[KN_DIGITS_CLASSES] = {0};
        for (uint64_t i = 0; i < kn_digits_count(test); i++) {
            const uint8_t *image = images + i * KN_DIGITS_PIXELS;
            uint8_t label = (uint8_t)kn_digits_label(test, i);
            all = kn_hash_bytes(all, image, KN_DIGITS_PIXELS);
            labels = kn_hash_bytes(labels, &label, 1);
            seen[count++] = kn_hash_bytes(KN_HASH_START, image, KN_DIGITS_PIXELS);
            classes[label]++;
        }
        for (int c = 0; c < KN_DIGITS_CLASSES; c++)
            assert_int_equal(classes[c], kn_digits_count(test) / KN_DIGITS_CLASSES);
        if (all != images_hash[test] || labels != labels_hash[test])
            fail_msg("part %d: images 0x%016llx, labels 0x%016llx", test, (unsigned long long)all,
                     (unsigned long long)labels);
        free(images);
    }
    /* No sample occurs twice, within a part or across both. */
    qsort(seen, count, sizeof *seen, by_value);
    for (size_t i = 1; i < count; i++)
        assert_true(seen[i] != seen[i - 1]);
    free(seen);
}

TEST(parts_open) {
    kn_dataset *both = kn_dataset_open("digits", NULL), *train = kn_dataset_open("digits:train", NULL);
    kn_dataset *test = kn_dataset_open("digits:test", NULL), *own = kn_dataset_test(both);
    kn_dataset *sets[] = {both, train, test, own};
    const uint64_t counts[] = {50000, 50000, 10000, 10000};
    for (int i = 0; i < 4; i++) {
        assert_usable(sets[i]);
        assert_int_equal(kn_dataset_count(sets[i]), counts[i]);
        assert_int_equal(kn_dataset_classes(sets[i]), 10);
        assert_int_equal(kn_dataset_has_test(sets[i]), i == 0);
        kn_dataset_field x = KN_DATASET_FIELD_DEFAULTS, y = KN_DATASET_FIELD_DEFAULTS;
        assert_true(kn_dataset_field_at(sets[i], 0, &x) && kn_dataset_field_at(sets[i], 1, &y));
        assert_string_equal(x.name, "x");
        assert_int_equal(x.info.dtype, KN_FLOAT32);
        assert_int_equal(x.info.rank, 3);
        assert_int_equal(x.info.shape[0] * 10000 + x.info.shape[1] * 100 + x.info.shape[2], 12828);
        assert_int_equal(x.bytes, 3136);
        assert_int_equal(y.info.dtype, KN_INT32);
        assert_int_equal(y.info.rank, 0);
        assert_int_equal(y.bytes, 4);
    }
    /* The same part read in two ways; the dataset's samples are the drawn ones, scaled. */
    const uint64_t wanted[] = {9999, 3, 3, 0};
    float left[4 * KN_DIGITS_PIXELS], right[4 * KN_DIGITS_PIXELS];
    int32_t labels[4];
    uint8_t image[KN_DIGITS_PIXELS];
    assert_int_equal(kn_dataset_read(test, wanted, 4, 0, left, sizeof left, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(own, wanted, 4, 0, right, sizeof right, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(own, wanted, 4, 1, labels, sizeof labels, NULL, 0), KN_OK);
    assert_memory_equal(left, right, sizeof left);
    for (int i = 0; i < 4; i++) {
        kn_digits_image(true, wanted[i], image);
        assert_int_equal(labels[i], kn_digits_label(true, wanted[i]));
        for (int j = 0; j < KN_DIGITS_PIXELS; j++) {
            double difference = left[i * KN_DIGITS_PIXELS + j] - image[j] / 255.0;
            assert_true(difference > -1e-6 && difference < 1e-6);
        }
    }
    for (int i = 0; i < 4; i++)
        kn_dataset_destroy(&sets[i]);
    assert_failed(kn_dataset_open("digits:tests", NULL), KN_ERROR_ARGUMENT, "digits:train");
}

TEST(part_is_limited) {
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.max_samples = 70;
    kn_dataset *few = kn_dataset_open("digits", &params), *test = kn_dataset_test(few);
    assert_usable(few);
    assert_usable(test);
    assert_int_equal(kn_dataset_count(few), 70);
    assert_int_equal(kn_dataset_count(test), 70);
    kn_dataset_destroy(&few);
    kn_dataset_destroy(&test);
}

TEST(glyphs_fit) {
    for (int digit = 0; digit < KN_DIGITS_CLASSES; digit++)
        for (int style = 0; style < kn_digits_style_count(digit); style++) {
            kn_digits_outline outline;
            kn_digits_outline_of(digit, style, &outline);
            assert_in_range(outline.strokes, 1, KN_DIGITS_STROKES_MAX);
            /* A full outline could mean that points were left out. */
            assert_in_range(outline.first[outline.strokes], 2, KN_DIGITS_POINTS_MAX - 1);
            for (int i = 0; i < outline.first[outline.strokes]; i++) {
                assert_true(outline.points[i].x >= 0 && outline.points[i].x <= 100);
                assert_true(outline.points[i].y >= 0 && outline.points[i].y <= 140);
            }
        }
}

TEST_FILE(test_digits, NULL, NULL)
