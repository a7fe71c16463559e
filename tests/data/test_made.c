/* Generated data other than the digits: the same bytes on every machine, balanced classes, and the documented
 * properties of the wind data. */
#include "data_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/made_private.h"
#include "formats/formats.h"

enum { FIRST = 400 }; /* number of samples of each part that are hashed */

/* FNV-1a over the first samples of the training part, then of the test part: x, then y. They must never
 * change. */
static const struct {
    const kn_made_kind *kind;
    uint64_t x[2], y[2];
} bytes_of[] = {
    {&kn_made_shapes,
     {0xf802d4d02363ade0ull, 0xa8369a3ecb260abaull},
     {0xa0faf1bccb7dac21ull, 0x47eefd3e6facd4b7ull}},
    {&kn_made_figures,
     {0xf802d4d02363ade0ull, 0xa8369a3ecb260abaull},
     {0x0dc5809c010d74d3ull, 0x9cfe601740bb33f5ull}},
    {&kn_made_wind,
     {0x622932464a7d2a8dull, 0x9037861e4496a351ull},
     {0x8db29344c42125f3ull, 0xb765ecc946bf37ecull}},
    {&kn_made_tones,
     {0x81a81492be7b3374ull, 0xef9e285b5d76c93dull},
     {0x3bf87e727a0ef8cfull, 0xe9e983f6770c9789ull}},
};

TEST(same_bytes_everywhere) {
    uint8_t y[32 * 32];
    for (size_t k = 0; k < KN_COUNT_OF(bytes_of); k++) {
        const kn_made_kind *kind = bytes_of[k].kind;
        uint64_t elements = 1;
        for (int d = 0; d < kind->x.rank; d++)
            elements *= (uint64_t)kind->x.shape[d];
        size_t x_bytes = (size_t)elements * kn_array_type_bytes(kind->x.dtype);
        size_t y_bytes = kind->y.rank == 2 ? sizeof y : kn_array_type_bytes(kind->y.dtype);
        uint8_t *x = malloc(x_bytes), *again = malloc(x_bytes);
        assert_true(x && again);
        for (int test = 0; test < 2; test++) {
            uint64_t all = KN_HASH_START, answers = KN_HASH_START;
            for (uint64_t i = 0; i < FIRST; i++) {
                kind->make(test, i, x);
                kind->answer(test, i, y);
                all = kn_hash_bytes(all, x, x_bytes);
                answers = kn_hash_bytes(answers, y, y_bytes);
            }
            kind->make(test, FIRST - 1, again); /* independent of the sample before */
            assert_memory_equal(x, again, x_bytes);
            kind->make(test, FIRST, again);
            assert_memory_not_equal(x, again, x_bytes);
            if (all != bytes_of[k].x[test] || answers != bytes_of[k].y[test])
                fail_msg("%s, part %d: x 0x%016llxull, y 0x%016llxull", kind->word, test,
                         (unsigned long long)all, (unsigned long long)answers);
        }
        free(x);
        free(again);
    }
}

TEST(parts_open) {
    static const struct {
        const char *word;
        uint64_t train, test;
        int classes;
        kn_tensor_info x;
    } cases[] = {
        {"shapes", 20000, 4000, 10, {KN_FLOAT32, 3, {3, 32, 32}}},
        {"wind", 20000, 5000, 0, {KN_FLOAT32, 1, {8}}},
        {"tones", 8000, 2000, 8, {KN_FLOAT32, 2, {1, 8000}}},
    };
    for (size_t c = 0; c < KN_COUNT_OF(cases); c++) {
        kn_dataset *train = kn_dataset_open(cases[c].word, NULL), *test = kn_dataset_test(train);
        kn_dataset_field x = KN_DATASET_FIELD_DEFAULTS, y = KN_DATASET_FIELD_DEFAULTS;
        assert_usable(train);
        assert_usable(test);
        assert_int_equal(kn_dataset_count(train), cases[c].train);
        assert_int_equal(kn_dataset_count(test), cases[c].test);
        assert_int_equal(kn_dataset_classes(test), cases[c].classes);
        assert_int_equal(isnan(kn_dataset_max_r2(test)), cases[c].classes > 0);
        assert_true(kn_dataset_field_at(train, 0, &x) && kn_dataset_field_at(train, 1, &y));
        assert_int_equal(x.info.rank, cases[c].x.rank);
        assert_int_equal(x.info.dtype, KN_FLOAT32);
        assert_memory_equal(x.info.shape, cases[c].x.shape, (size_t)x.info.rank * sizeof x.info.shape[0]);
        assert_int_equal(y.info.dtype, cases[c].classes ? KN_INT32 : KN_FLOAT32);
        if (cases[c].classes) {
            uint64_t counts[16] = {0};
            int32_t *labels = malloc((size_t)cases[c].test * sizeof *labels);
            assert_int_equal(
                kn_dataset_read(test, NULL, cases[c].test, 1, labels, (size_t)cases[c].test * 4, NULL, 0),
                KN_OK);
            for (uint64_t i = 0; i < cases[c].test; i++)
                counts[labels[i]]++;
            for (int i = 0; i < cases[c].classes; i++)
                assert_int_equal(counts[i], cases[c].test / (uint64_t)cases[c].classes);
            free(labels);
        }
        kn_dataset_destroy(&train);
        kn_dataset_destroy(&test);
    }
    assert_failed(kn_dataset_open("shapes:both", NULL), KN_ERROR_ARGUMENT, "shapes:train");
    assert_failed(kn_dataset_open("tones,length=3", NULL), KN_ERROR_ARGUMENT, "expected digits, ");
    assert_failed(kn_dataset_open("shaeps", NULL), KN_ERROR_ARGUMENT, "did you mean \"shapes\"?");
}

/* Images are enlarged to the requested size by repeating pixels, and so are the targets of "figures". */
TEST(images_are_enlarged) {
    const kn_tensor_info wanted = {KN_FLOAT32, 3, {1, 64, 100}};
    static float small[3][32][32], large[64][100];
    static int32_t figure[64][100];
    static uint8_t drawn[32][32];
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    kn_dataset *own = kn_dataset_open("figures", &params);
    params.expected = &wanted;
    kn_dataset *grown = kn_dataset_open("figures", &params);
    const uint64_t seventh = 7;
    kn_made_figures.answer(false, seventh, drawn);
    assert_int_equal(kn_dataset_read(own, &seventh, 1, 0, small, sizeof small, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(grown, &seventh, 1, 0, large, sizeof large, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(grown, &seventh, 1, 1, figure, sizeof figure, NULL, 0), KN_OK);
    for (int y = 0; y < 64; y++)
        for (int x = 0; x < 100; x++) {
            int row = y / 2, column = x * 32 / 100;
            float mean = (small[0][row][column] + small[1][row][column] + small[2][row][column]) / 3;
            assert_true(fabsf(large[y][x] - mean) < 1e-6f);
            assert_int_equal(figure[y][x], drawn[row][column]);
        }
    kn_dataset_destroy(&own);
    kn_dataset_destroy(&grown);
    const kn_tensor_info coloured = {KN_FLOAT32, 3, {3, 28, 28}}, less = {KN_FLOAT32, 3, {1, 20, 28}};
    static float grey[28][28], colours[3][28][28];
    params.expected = &coloured;
    kn_dataset *digits = kn_dataset_open("digits", &params);
    assert_int_equal(kn_dataset_read(digits, NULL, 1, 0, colours, sizeof colours, NULL, 0), KN_OK);
    kn_dataset_destroy(&digits);
    params.expected = &less; /* images are not reduced: the caller finds that the size differs */
    params.target_is_input = true;
    digits = kn_dataset_open("digits", &params);
    assert_int_equal(kn_dataset_classes(digits), 0);
    for (size_t field = 2; field-- > 0;) { /* first the target, which is generated like the input */
        memset(grey, 0, sizeof grey);
        assert_int_equal(kn_dataset_read(digits, NULL, 1, field, grey, sizeof grey, NULL, 0), KN_OK);
        for (int c = 0; c < 3; c++)
            assert_memory_equal(colours[c], grey, sizeof grey);
    }
    kn_dataset_destroy(&digits);
}

/* Sounds are audible, vary, and are not clipped. */
TEST(tones_are_sounds) {
    int16_t wave[8000];
    for (uint64_t i = 0; i < 64; i++) {
        int largest = 0, cut = 0;
        kn_made_tones.make(false, i, wave);
        for (int t = 0; t < 8000; t++) {
            if (abs(wave[t]) > largest) largest = abs(wave[t]);
            cut += abs(wave[t]) == 32767;
        }
        assert_in_range(largest, 2500, 32767);
        assert_in_range(cut, 0, 4);
    }
}

TEST(sines) {
    assert_int_equal(kn_made_sine(0), 0);
    assert_int_equal(kn_made_sine(256), 16384);
    assert_int_equal(kn_made_sine(-256), -16384);
    assert_int_equal(kn_made_sine(1024 + 512), 0);
    assert_int_equal(kn_made_sine(128), 11585);
}

/* ---- wind --------------------------------------------------------------------------------------- */

/* The expected speed where some inputs are missing: the mean over their possible values. */
static double expected_speed(const int inputs[KN_WIND_INPUTS], const bool missing[KN_WIND_INPUTS], int next) {
    enum { STEPS = 24 };
    int tried[KN_WIND_INPUTS];
    memcpy(tried, inputs, sizeof tried);
    while (next < KN_WIND_INPUTS && !missing[next])
        next++;
    if (next == KN_WIND_INPUTS) return kn_wind_speed(inputs);
    double sum = 0, width = kn_wind_high[next] - kn_wind_low[next] + 1;
    for (int step = 0; step < STEPS; step++) {
        tried[next] = kn_wind_low[next] + (int)(width * (step + 0.5) / STEPS);
        sum += expected_speed(tried, missing, next + 1);
    }
    return sum / STEPS;
}

/* Least squares by Gaussian elimination: fits y by rows of (INPUTS,1); returns the coefficients. */
enum { COLUMNS = 2 * KN_WIND_INPUTS + 1 };
static void least_squares(const float *x, const float *y, uint64_t rows, double solution[COLUMNS]) {
    double system[COLUMNS][COLUMNS + 1] = {{0}};
    for (uint64_t r = 0; r < rows; r++)
        for (int i = 0; i < COLUMNS; i++) {
            double left = i < COLUMNS - 1 ? x[r * (COLUMNS - 1) + (uint64_t)i] : 1;
            for (int j = 0; j < COLUMNS; j++)
                system[i][j] += left * (j < COLUMNS - 1 ? x[r * (COLUMNS - 1) + (uint64_t)j] : 1);
            system[i][COLUMNS] += left * y[r];
        }
    for (int i = 0; i < COLUMNS; i++)
        for (int row = 0; row < COLUMNS; row++) {
            double share = row == i ? 0 : system[row][i] / system[i][i];
            for (int j = i; j <= COLUMNS && row != i; j++)
                system[row][j] -= share * system[i][j];
        }
    for (int i = 0; i < COLUMNS; i++)
        solution[i] = system[i][COLUMNS] / system[i][i];
}

/* The explainable fraction of the variance is the documented one, and a linear model explains less than 60%
 * of it. */
TEST(wind_can_be_explained) {
    kn_dataset *train = kn_dataset_open("wind", NULL);
    uint64_t rows = kn_dataset_count(train);
    float *x = malloc(rows * (COLUMNS - 1) * sizeof *x), *y = malloc(rows * sizeof *y);
    double solution[COLUMNS], variance = 0, unexplained = 0, left = 0;
    assert_true(x && y);
    assert_int_equal(kn_dataset_read(train, NULL, rows, 0, x, rows * (COLUMNS - 1) * sizeof *x, NULL, 0),
                     KN_OK);
    assert_int_equal(kn_dataset_read(train, NULL, rows, 1, y, rows * sizeof *y, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_variance(train, 1, &variance), KN_OK);
    least_squares(x, y, rows, solution);
    for (uint64_t r = 0; r < rows; r++) {
        int inputs[KN_WIND_INPUTS], speed;
        bool missing[KN_WIND_INPUTS];
        kn_wind_sample(false, r, inputs, missing, &speed);
        double away = speed / 1000.0 - expected_speed(inputs, missing, 0) / 1000,
               straight = solution[COLUMNS - 1];
        assert_true(fabs(speed / 1000.0 - y[r]) < 1e-4);
        for (int i = 0; i < COLUMNS - 1; i++)
            straight += solution[i] * x[r * (COLUMNS - 1) + (uint64_t)i];
        unexplained += away * away;
        left += (y[r] - straight) * (y[r] - straight);
        for (int i = 0; i < KN_WIND_INPUTS; i++)
            assert_true(missing[i]
                            ? x[r * 8 + (uint64_t)i] == 0 && x[r * 8 + 4 + (uint64_t)i] == 1
                            : fabsf(x[r * 8 + (uint64_t)i]) < 1.75f && x[r * 8 + 4 + (uint64_t)i] == 0);
    }
    double can = 1 - unexplained / (double)rows / variance, linear = 1 - left / (double)rows / variance;
    print_message("wind: %.4f can be explained, straight lines explain %.4f\n", can, linear);
    assert_true(fabs(can - kn_dataset_max_r2(train)) < 0.005);
    assert_true(linear < 0.6 * can && linear > 0.1 * can);
    free(x);
    free(y);
    kn_dataset_destroy(&train);
}

TEST(variance_of_arrays) {
    sample_arrays arrays = arrays_make(4, 2);
    kn_dataset *dataset = arrays_open(NULL, &arrays, 2);
    double variance = 0;
    assert_int_equal(kn_dataset_variance(dataset, 0, &variance), KN_OK);
    assert_true(fabs(variance - 125) < 1e-9); /* 0, 10, 20, 30 and so on */
    assert_int_equal(kn_dataset_variance(dataset, 1, &variance), KN_OK);
    assert_true(fabs(variance - 0.25) < 1e-12);
    assert_int_equal(kn_dataset_variance(dataset, 2, &variance), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_dataset_variance(dataset, 0, NULL), KN_ERROR_ARGUMENT);
    float means[3], deviations[3];
    assert_int_equal(kn_dataset_statistics(dataset, 0, means, deviations, 3), KN_OK);
    for (int c = 0; c < 3; c++)
        assert_true(fabs(means[c] - (15 + c)) < 1e-5 && fabs(deviations[c] - sqrt(125)) < 1e-5);
    assert_int_equal(kn_dataset_statistics(dataset, 0, means, deviations, 2), KN_ERROR_SHAPE);
    assert_int_equal(kn_dataset_statistics(dataset, 1, means, deviations, 1), KN_ERROR_SHAPE);
    assert_int_equal(kn_dataset_statistics(dataset, 2, means, deviations, 1), KN_ERROR_ARGUMENT);
    kn_dataset_destroy(&dataset);
    arrays.count = 1; /* nothing varies */
    dataset = arrays_open(NULL, &arrays, 2);
    assert_int_equal(kn_dataset_statistics(dataset, 0, means, deviations, 3), KN_OK);
    assert_true(means[2] == 2 && deviations[2] == 1);
    kn_dataset_destroy(&dataset);
    arrays_free(&arrays);
}

TEST_FILE(test_made, NULL, NULL)
