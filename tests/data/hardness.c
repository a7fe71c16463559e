/* How hard `digits` is: softmax regression, the best that looks at each pixel
 * alone, must stay under 92% on the test part and get most of it right. */
#include "data_tests.h"

#include <math.h>
#include <stdlib.h>

enum { FEATURES = 784, CLASSES = 10, BATCH = 250, EPOCHS = 40 };

/* weights is (CLASSES, FEATURES + 1), the last column the bias. */
static void scores_of(const float *weights, const float *x, float scores[CLASSES]) {
    for (int c = 0; c < CLASSES; c++) {
        const float *row = weights + c * (FEATURES + 1);
        float sums[8] = {0};
        for (int j = 0; j < FEATURES; j += 8)
            for (int k = 0; k < 8; k++)
                sums[k] += row[j + k] * x[j + k];
        scores[c] = row[FEATURES];
        for (int k = 0; k < 8; k++)
            scores[c] += sums[k];
    }
}

static void step(float *weights, float *moment, float *gradient, const kn_batch *batch, float rate) {
    const float *x = batch->feeds[0].data;
    const int32_t *y = batch->feeds[1].data;
    for (int i = 0; i < CLASSES * (FEATURES + 1); i++)
        gradient[i] = 0;
    for (uint64_t i = 0; i < batch->count; i++, x += FEATURES) {
        float scores[CLASSES], largest = -INFINITY, total = 0;
        scores_of(weights, x, scores);
        for (int c = 0; c < CLASSES; c++)
            largest = fmaxf(largest, scores[c]);
        for (int c = 0; c < CLASSES; c++)
            total += scores[c] = expf(scores[c] - largest);
        for (int c = 0; c < CLASSES; c++) {
            float slope = (scores[c] / total - (c == y[i])) / (float)batch->count;
            float *row = gradient + c * (FEATURES + 1);
            for (int j = 0; j < FEATURES; j++)
                row[j] += slope * x[j];
            row[FEATURES] += slope;
        }
    }
    for (int i = 0; i < CLASSES * (FEATURES + 1); i++) {
        moment[i] = 0.9f * moment[i] + gradient[i];
        weights[i] -= rate * moment[i];
    }
}

static double accuracy(const kn_dataset *dataset, const float *weights) {
    uint64_t right = 0;
    for (uint64_t i = 0; i < kn_dataset_count(dataset); i++) {
        float x[FEATURES], scores[CLASSES];
        int32_t y;
        assert_int_equal(kn_dataset_read(dataset, &i, 1, 0, x, sizeof x), KN_OK);
        assert_int_equal(kn_dataset_read(dataset, &i, 1, 1, &y, sizeof y), KN_OK);
        scores_of(weights, x, scores);
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            if (scores[c] > scores[best]) best = c;
        right += best == y;
    }
    return (double)right / (double)kn_dataset_count(dataset);
}

static void softmax_stays_under_92(void **state) {
    kn_dataset *train = kn_dataset_open(NULL, "digits"), *test = kn_dataset_test(train);
    kn_loader_params how = KN_LOADER_DEFAULTS;
    how.batch = BATCH;
    kn_loader *loader = kn_loader_create(train, &how);
    float *values = calloc(3 * CLASSES * (FEATURES + 1), sizeof *values);
    assert_non_null(values);
    float *moment = values + CLASSES * (FEATURES + 1), *gradient = moment + CLASSES * (FEATURES + 1);
    double best = 0;
    for (int epoch = 0; epoch < EPOCHS;) {
        kn_batch batch = KN_BATCH_DEFAULTS;
        assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
        if (batch.count > 0) {
            step(values, moment, gradient, &batch, epoch < 3 * EPOCHS / 4 ? 0.05f : 0.005f);
        } else {
            epoch++;
            double now = accuracy(test, values);
            if (now > best) best = now;
        }
    }
    print_message("softmax regression on digits: %.4f at best\n", best);
    assert_true(best < 0.92);
    assert_true(best > 0.80);
    free(values);
    kn_loader_destroy(&loader);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(softmax_stays_under_92)};
    return cmocka_run_group_tests_name("digits-hardness", tests, NULL, NULL);
}
