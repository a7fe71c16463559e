/* Mixing of samples within a batch. */
#include "data_tests.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "data/augment.h"

enum { COUNT = 9, SIDE = 8, PLANE = SIDE * SIDE, PIXELS = 2 * PLANE };
static const kn_tensor_info picture = {KN_FLOAT32, 3, {2, SIDE, SIDE}};

typedef struct mixed {
    float x[COUNT][PIXELS], plain[COUNT][PIXELS], share[COUNT];
    int32_t y[COUNT], other[COUNT];
    uint32_t partners[COUNT];
} mixed;

/* Pixel p of sample i is i * 1000 + p, which identifies its origin. Sample i is of class i. */
static void mix(const kn_augmentation *how, uint64_t key, mixed *batch) {
    for (int i = 0; i < COUNT; i++) {
        batch->y[i] = i;
        for (int p = 0; p < PIXELS; p++)
            batch->x[i][p] = (float)(i * 1000 + p);
    }
    kn_mixture mixture = {batch->x[0],  batch->y,        batch->other,
                          batch->share, batch->plain[0], batch->partners};
    kn_mix(how, &picture, key, COUNT, &mixture);
    int partnered = 0;
    for (int i = 0; i < COUNT; i++)
        partnered |= 1 << batch->other[i];
    assert_int_equal(partnered, (1 << COUNT) - 1); /* each sample is the partner of one */
}

TEST(mix_up_blends_samples) {
    static mixed batch;
    const kn_augmentation how = {.size = sizeof how, .mix_up = 0.5};
    bool far = false;
    for (uint64_t key = 0; key < 30; key++) {
        mix(&how, key, &batch);
        for (int i = 0; i < COUNT; i++) {
            const double share = batch.share[i];
            assert_true(share >= 0 && share <= 1 && (batch.other[i] != i || share == 1));
            far = far || share < 0.4;
            for (int p = 0; p < PIXELS; p++)
                assert_true(fabs(batch.x[i][p] - (share * (i * 1000 + p) +
                                                  (1 - share) * (batch.other[i] * 1000 + p))) < 0.01);
        }
    }
    assert_true(far);
}

TEST(cut_mix_pastes_rectangles) {
    static mixed batch;
    const kn_augmentation how = {.size = sizeof how, .cut_mix = 1};
    bool some = false;
    for (uint64_t key = 0; key < 30; key++) {
        mix(&how, key, &batch);
        for (int i = 0; i < COUNT; i++) {
            int gone = 0, top = SIDE, bottom = 0, left = SIDE, right = 0;
            for (int p = 0; p < PLANE; p++) {
                const bool own = batch.x[i][p] == (float)(i * 1000 + p);
                assert_true(own || batch.x[i][p] == (float)(batch.other[i] * 1000 + p));
                assert_true(batch.x[i][PLANE + p] == batch.x[i][p] + PLANE); /* the same in all channels */
                if (own) continue;
                gone++;
                if (p / SIDE < top) top = p / SIDE;
                if (p / SIDE >= bottom) bottom = p / SIDE + 1;
                if (p % SIDE < left) left = p % SIDE;
                if (p % SIDE >= right) right = p % SIDE + 1;
            }
            if (gone) assert_int_equal(gone, (bottom - top) * (right - left));
            assert_true(batch.share[i] == 1 - (float)gone / PLANE);
            some = some || (gone > 4 && gone < PLANE - 4);
        }
    }
    assert_true(some);
}

/* Each batch is mixed in one of two ways: blended or patched. */
TEST(both_ways_occur) {
    static mixed batch;
    const kn_augmentation how = {.size = sizeof how, .mix_up = 1, .cut_mix = 1};
    int weighed = 0;
    for (uint64_t key = 0; key < 100; key++) {
        bool whole = true;
        mix(&how, key, &batch);
        for (int i = 0; i < COUNT; i++)
            for (int p = 0; p < PLANE; p++)
                whole = whole && (batch.x[i][p] == (float)(i * 1000 + p) ||
                                  batch.x[i][p] == (float)(batch.other[i] * 1000 + p));
        weighed += !whole;
    }
    assert_in_range(weighed, 30, 70);
}

/* Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)). */
TEST(fractions_are_beta_distributed) {
    static const double numbers[] = {0.01, 0.2, 1, 4, 1000};
    for (size_t k = 0; k < KN_COUNT_OF(numbers); k++) {
        double sum = 0, squares = 0, wanted = 1 / (4 * (2 * numbers[k] + 1));
        for (uint64_t key = 0; key < 4000; key++) {
            const double share = kn_random_beta(kn_hash_text(key, "share"), numbers[k]);
            assert_true(share >= 0 && share <= 1);
            sum += share - 0.5;
            squares += (share - 0.5) * (share - 0.5);
        }
        if (!(fabs(sum / 4000) < 0.03 && fabs(squares / 4000 / wanted - 1) < 0.1))
            fail_msg("Beta(%g): mean %g, variance %g, expected %g", numbers[k], 0.5 + sum / 4000,
                     squares / 4000, wanted);
    }
}

/* ---- in a loader ----------------------------------------------------------------------------- */

static const kn_augmentation both = {.size = sizeof both, .flip = true, .mix_up = 0.4, .cut_mix = 1};

static kn_loader *loader_of(const kn_dataset *dataset, const kn_augmentation *how, int workers,
                            uint64_t seed) {
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.batch = 16;
    params.seed = seed;
    params.workers = workers;
    params.augmentation = how;
    kn_loader *loader = kn_loader_create(dataset, &params);
    if (kn_loader_status(loader) != KN_OK) fail_msg("%s", kn_loader_error(loader));
    return loader;
}

static void same_feeds(const kn_batch *one, const kn_batch *two, bool expected) {
    bool same = true;
    assert_int_equal(one->feed_count, 4);
    for (size_t f = 0; f < 4; f++) {
        assert_string_equal(one->feeds[f].name, two->feeds[f].name);
        assert_int_equal(one->feeds[f].bytes, two->feeds[f].bytes);
        same = same && !memcmp(one->feeds[f].data, two->feeds[f].data, one->feeds[f].bytes);
    }
    assert_int_equal(same, expected);
}

/* For any number of workers, and from any position. */
TEST(batches_are_always_the_same) {
    kn_dataset_params few = KN_DATASET_DEFAULTS;
    few.max_samples = 40;
    kn_dataset *dataset = kn_dataset_open("shapes:test", &few);
    assert_usable(dataset);
    kn_loader *loaders[] = {loader_of(dataset, &both, 1, 3), loader_of(dataset, &both, 5, 3),
                            loader_of(dataset, &both, 2, 3), loader_of(dataset, &both, 2, 4)};
    for (int step = 0; step < 8; step++) {
        kn_batch batches[4] = {KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS, KN_BATCH_DEFAULTS};
        if (step % 4 == 3) { /* the end of an epoch */
            for (int i = 0; i < 2; i++)
                assert_int_equal(kn_loader_next(loaders[i], &batches[i]), KN_OK);
            continue;
        }
        for (int i = 2; i < 4; i++)
            assert_int_equal(kn_loader_seek(loaders[i], (uint64_t)step / 4, (uint64_t)step % 4), KN_OK);
        for (int i = 0; i < 4; i++)
            assert_int_equal(kn_loader_next(loaders[i], &batches[i]), KN_OK);
        const kn_batch *first = &batches[0];
        assert_int_equal(first->count, step % 4 == 2 ? 8 : 16);
        assert_string_equal(first->feeds[2].name, "y.other");
        assert_string_equal(first->feeds[3].name, "y.share");
        assert_int_equal(first->feeds[2].bytes + first->feeds[3].bytes, 8 * first->count);
        same_feeds(first, &batches[1], true);
        same_feeds(first, &batches[2], true);
        same_feeds(first, &batches[3], false);
        int balance[10] = {0}; /* the partners are a permutation of the batch */
        for (uint64_t i = 0; i < first->count; i++) {
            balance[((const int32_t *)first->feeds[1].data)[i]]++;
            balance[((const int32_t *)first->feeds[2].data)[i]]--;
        }
        for (int c = 0; c < 10; c++)
            assert_int_equal(balance[c], 0);
    }
    for (int i = 0; i < 4; i++)
        kn_loader_destroy(&loaders[i]);
    kn_dataset_destroy(&dataset);
}

TEST(samples_that_cannot_be_mixed) {
    const kn_tensor_info row = {KN_FLOAT32, 1, {4}}, tokens = {KN_INT32, 1, {4}};
    const struct {
        kn_augmentation how;
        const kn_tensor_info *x;
        bool classes;
        const char *part;
    } cases[] = {
        {{.mix_up = 0.2}, &picture, false, "mix-up: mixing needs data with one class per sample"},
        {{.cut_mix = 1}, &picture, false, "cut-mix: mixing needs data with one class per sample"},
        {{.cut_mix = 1}, &row, true, "images (channels,height,width)"},
        {{.mix_up = 1}, &tokens, true, "mix-up: the input is int32"},
        {{.mix_up = -1}, &picture, true, "Beta(a,a)"},
        {{.mix_up = 1e-310}, &picture, true, "Beta(a,a)"},
        {{.cut_mix = NAN}, &picture, true, "Beta(a,a)"},
        {{.mix_up = 2000}, &picture, true, "to 1000"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_error error = {0};
        assert_true(kn_mix_check(&cases[i].how, cases[i].x, cases[i].classes, &error) != KN_OK);
        if (!strstr(error.text, cases[i].part))
            fail_msg("\"%s\"; expected \"%s\"", error.text, cases[i].part);
    }
    const kn_augmentation up = {.mix_up = 0.2};
    kn_error error = {0};
    assert_int_equal(kn_mix_check(&up, &row, true, &error), KN_OK);
    kn_dataset *wind = kn_dataset_open("wind", NULL);
    kn_loader_params params = KN_LOADER_DEFAULTS;
    params.augmentation = &(kn_augmentation){.size = sizeof(kn_augmentation), .mix_up = 0.2};
    kn_loader *loader = kn_loader_create(wind, &params);
    assert_int_equal(kn_loader_status(loader), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_loader_error(loader), "mix-up: mixing needs data with one class per sample"));
    kn_loader_destroy(&loader);
    kn_dataset_destroy(&wind);
}

/* ---- words ----------------------------------------------------------------------------------- */

TEST(words_are_read) {
    char message[300] = "";
    kn_augmentation how = KN_AUGMENTATION_DEFAULTS;
    assert_int_equal(kn_augmentation_read("none", &how, message, sizeof message), KN_OK);
    assert_false(kn_augments(&how) || kn_mixes(&how));
    assert_int_equal(
        kn_augmentation_read("flip,crop=4,shift=5,rotate=1,scale=0.5,shear=2,brightness=0.25,contrast=0.125,"
                             "saturation=0.75,hue=3,cutout=6,noise=4,mix-up=0.5,cut-mix=7",
                             &how, NULL, 0),
        KN_OK);
    assert_true(how.flip && how.crop == 4 && how.shift == 5 && how.rotation == 1 && how.scale == 0.5 &&
                how.shear == 2 && how.brightness == 0.25 && how.contrast == 0.125 && how.saturation == 0.75 &&
                how.hue == 3 && how.cutout == 6 && how.noise == 4 && how.mix_up == 0.5 && how.cut_mix == 7);
    static const char *const wrong[][2] = {
        {"", "'' is not an augmentation"},
        {"crop=4,", "'' is not an augmentation"},
        {"flip=1", "takes no number"},
        {"mixup=1", "did you mean 'mix-up'?"},
        {"mix-up", "number above 0"},
        {"mix-up=0", "number above 0"},
        {"cut-mix=nan", "number above 0"},
        {"crop=1.5", "an integer"},
        {"crop=99999999999", "an integer"},
        {"noise=0.1x", "number above 0"},
        {"flip,none", "'none' is not an augmentation"},
        {"crop==4", "an integer"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++) {
        assert_int_equal(kn_augmentation_read(wrong[i][0], &how, message, sizeof message), KN_ERROR_ARGUMENT);
        if (!strstr(message, wrong[i][1]))
            fail_msg("%s: \"%s\"; expected \"%s\"", wrong[i][0], message, wrong[i][1]);
        assert_true(how.flip && how.crop == 4 && how.noise == 4 && how.mix_up == 0.5 && how.cut_mix == 7);
    }
    /* A program built when the parameters had only their first fields. */
    kn_augmentation old = {.size = offsetof(kn_augmentation, rotation), .rotation = -1};
    assert_int_equal(kn_augmentation_read("flip,rotate=9", &old, NULL, 0), KN_OK);
    assert_true(old.flip && old.rotation == -1);
}

TEST_FILE(test_mixing, NULL, NULL)
