/* The difficulty of the generated data: softmax regression, which is linear in the inputs, must stay below a
 * bound on the test part but still learn something. For sounds, its inputs are spectrograms. */
#include "data_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CLASSES = 10, BATCH = 250 };
/* Nats per character; tests/learning requires 0.2 less from an LSTM. */
#define MIN_TRIGRAM_NATS 0.91

typedef struct regression {
    int features, classes;
    float *weights, *moment, *gradient; /* (classes, features + 1); the last column is the bias */
} regression;

static void scores_of(const regression *own, const float *x, float scores[MAX_CLASSES]) {
    for (int c = 0; c < own->classes; c++) {
        const float *row = own->weights + c * (own->features + 1);
        float sums[8] = {0};
        for (int j = 0; j < own->features; j += 8)
            for (int k = 0; k < 8; k++)
                sums[k] += row[j + k] * x[j + k];
        scores[c] = row[own->features];
        for (int k = 0; k < 8; k++)
            scores[c] += sums[k];
    }
}

static void step(regression *own, const kn_batch *batch, float rate) {
    const float *x = batch->feeds[0].data;
    const int32_t *y = batch->feeds[1].data;
    int size = own->classes * (own->features + 1);
    memset(own->gradient, 0, (size_t)size * sizeof *own->gradient);
    for (uint64_t i = 0; i < batch->count; i++, x += own->features) {
        float scores[MAX_CLASSES], largest = -INFINITY, total = 0;
        scores_of(own, x, scores);
        for (int c = 0; c < own->classes; c++)
            largest = fmaxf(largest, scores[c]);
        for (int c = 0; c < own->classes; c++)
            total += scores[c] = expf(scores[c] - largest);
        for (int c = 0; c < own->classes; c++) {
            float slope = (scores[c] / total - (c == y[i])) / (float)batch->count;
            float *row = own->gradient + c * (own->features + 1);
            for (int j = 0; j < own->features; j++)
                row[j] += slope * x[j];
            row[own->features] += slope;
        }
    }
    for (int i = 0; i < size; i++) {
        own->moment[i] = 0.9f * own->moment[i] + own->gradient[i];
        own->weights[i] -= rate * own->moment[i];
    }
}

static double accuracy(const kn_dataset *dataset, const regression *own) {
    uint64_t right = 0;
    float *x = malloc((size_t)own->features * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < kn_dataset_count(dataset); i++) {
        float scores[MAX_CLASSES];
        int32_t y;
        assert_int_equal(kn_dataset_read(dataset, &i, 1, 0, x, (size_t)own->features * sizeof *x, NULL, 0),
                         KN_OK);
        assert_int_equal(kn_dataset_read(dataset, &i, 1, 1, &y, sizeof y, NULL, 0), KN_OK);
        scores_of(own, x, scores);
        int best = 0;
        for (int c = 1; c < own->classes; c++)
            if (scores[c] > scores[best]) best = c;
        right += best == y;
    }
    free(x);
    return (double)right / (double)kn_dataset_count(dataset);
}

/* The best test accuracy over all epochs; the last quarter of them uses a tenth of the rate. */
static double best_accuracy(const kn_dataset *train, const kn_dataset *test, int epochs, float rate) {
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    assert_int_equal(kn_dataset_status(train), KN_OK);
    assert_int_equal(kn_dataset_status(test), KN_OK);
    assert_true(kn_dataset_field_at(train, 0, &field));
    regression own = {.features = (int)(field.bytes / sizeof(float)), .classes = kn_dataset_classes(train)};
    size_t size = (size_t)own.classes * ((size_t)own.features + 1);
    assert_true(own.features % 8 == 0 && own.classes <= MAX_CLASSES);
    own.weights = calloc(3 * size, sizeof *own.weights);
    assert_non_null(own.weights);
    own.moment = own.weights + size;
    own.gradient = own.moment + size;
    kn_loader_params how = KN_LOADER_DEFAULTS;
    how.batch = BATCH;
    kn_loader *loader = kn_loader_create(train, &how);
    double best = 0;
    for (int epoch = 0; epoch < epochs;) {
        kn_batch batch = KN_BATCH_DEFAULTS;
        assert_int_equal(kn_loader_next(loader, &batch), KN_OK);
        if (batch.count > 0) {
            step(&own, &batch, epoch < 3 * epochs / 4 ? rate : rate / 10);
        } else {
            epoch++;
            double now = accuracy(test, &own);
            if (now > best) best = now;
        }
    }
    free(own.weights);
    kn_loader_destroy(&loader);
    return best;
}

TEST(digits_stay_under_92) {
    kn_dataset *train = kn_dataset_open("digits", NULL), *test = kn_dataset_test(train);
    double best = best_accuracy(train, test, 40, 0.05f);
    print_message("softmax regression on digits: %.4f at best\n", best);
    assert_true(best < 0.92);
    assert_true(best > 0.80);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

TEST(shapes_stay_under_60) {
    kn_dataset *train = kn_dataset_open("shapes", NULL), *test = kn_dataset_test(train);
    double best = best_accuracy(train, test, 16, 0.002f);
    print_message("softmax regression on shapes: %.4f at best\n", best);
    assert_true(best < 0.60);
    assert_true(best > 0.12);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

/* ---- sounds -------------------------------------------------------------------------------------- */

enum {
    RATE = 8000,
    FRAME = 256,
    HOP = 128,
    FRAMES = (RATE - FRAME) / HOP + 1,
    BANDS = 32,
    SEEN = FRAMES * BANDS / 8 * 8
};

/* Logarithms of the energies in bands of four frequencies: seen is (BANDS, FRAMES), wave is (RATE). */
static void look(const float *wave, const float (*waves)[2][FRAME], float *seen) {
    for (int frame = 0; frame < FRAMES; frame++)
        for (int band = 0; band < BANDS; band++) {
            float energy = 0;
            for (int line = 4 * band; line < 4 * band + 4; line++) {
                float sums[2] = {0, 0};
                for (int part = 0; part < 2; part++)
                    for (int t = 0; t < FRAME; t++)
                        sums[part] += waves[line][part][t] * wave[frame * HOP + t];
                energy += sums[0] * sums[0] + sums[1] * sums[1];
            }
            seen[band * FRAMES + frame] = logf(energy + 1e-3f) / 3;
        }
}

/* A dataset of the spectrograms of all samples; the caller frees *memory. */
static kn_dataset *look_at_all(const kn_dataset *sounds, void **memory) {
    uint64_t count = kn_dataset_count(sounds);
    float(*waves)[2][FRAME] = malloc(FRAME / 2 * sizeof *waves), *seen = malloc(count * SEEN * sizeof *seen);
    int32_t *labels = malloc(count * sizeof *labels);
    assert_true(waves && seen && labels);
    for (int line = 0; line < FRAME / 2; line++)
        for (int t = 0; t < FRAME; t++) {
            double window = 0.5 - 0.5 * cos(2 * acos(-1) * t / FRAME), turn = 2 * acos(-1) * line * t / FRAME;
            waves[line][0][t] = (float)(window * cos(turn));
            waves[line][1][t] = (float)(window * sin(turn));
        }
    for (uint64_t i = 0; i < count; i++) {
        float wave[RATE], whole[FRAMES * BANDS];
        assert_int_equal(kn_dataset_read(sounds, &i, 1, 0, wave, sizeof wave, NULL, 0), KN_OK);
        look(wave, (const float(*)[2][FRAME])waves, whole);
        memcpy(seen + i * SEEN, whole, SEEN * sizeof *seen);
    }
    assert_int_equal(kn_dataset_read(sounds, NULL, count, 1, labels, count * sizeof *labels, NULL, 0), KN_OK);
    free(waves);
    kn_dataset_array fields[2] = {
        {"x", {KN_FLOAT32, 1, {SEEN}}, seen, count * SEEN * sizeof *seen, KN_FLOAT32, 0},
        {"y", {KN_INT32, 0, {0}}, labels, count * sizeof *labels, KN_INT32, 0}};
    memory[0] = seen;
    memory[1] = labels;
    return kn_dataset_create_from_arrays(count, fields, 2, kn_dataset_classes(sounds), NULL);
}

TEST(tones_stay_under_80) {
    kn_dataset *sounds = kn_dataset_open("tones", NULL), *held_out = kn_dataset_test(sounds);
    void *memory[4];
    kn_dataset *train = look_at_all(sounds, memory), *test = look_at_all(held_out, memory + 2);
    double best = best_accuracy(train, test, 40, 0.003f);
    print_message("softmax regression on spectrograms of tones: %.4f at best\n", best);
    assert_true(best < 0.80);
    assert_true(best > 0.20);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
    kn_dataset_destroy(&sounds);
    kn_dataset_destroy(&held_out);
    for (int i = 0; i < 4; i++)
        free(memory[i]);
}

/* ---- text ---------------------------------------------------------------------------------------- */

/* Nats per character of the test part under a trigram model: counts of each character after the two before it
 * in the training part, interpolated with counts after the one before it. */
TEST(trigram_stays_above) {
    enum { SIGNS = 30, WINDOW = 1000 };
    kn_dataset *train = kn_dataset_open("text,length=1000", NULL), *test = kn_dataset_test(train);
    double(*pairs)[SIGNS + 1] = calloc(SIGNS, sizeof *pairs), sum = 0;
    double(*triples)[SIGNS][SIGNS + 1] = calloc(SIGNS, sizeof *triples); /* the last row: all of them */
    uint64_t seen = 0;
    int32_t x[WINDOW];
    assert_true(pairs && triples);
    assert_int_equal(kn_dataset_classes(train), SIGNS);
    for (int part = 0; part < 2; part++)
        for (uint64_t i = 0; i < kn_dataset_count(part ? test : train); i++) {
            assert_int_equal(kn_dataset_read(part ? test : train, &i, 1, 0, x, sizeof x, NULL, 0), KN_OK);
            for (int t = 2; t < WINDOW; t++) {
                double *two = pairs[x[t - 1]], *three = triples[x[t - 2]][x[t - 1]];
                double likely = (two[x[t]] + 0.1) / (two[SIGNS] + 0.1 * SIGNS);
                if (part == 1) {
                    sum -= log((three[x[t]] + 2 * likely) / (three[SIGNS] + 2));
                    seen++;
                } else {
                    two[x[t]]++;
                    two[SIGNS]++;
                    three[x[t]]++;
                    three[SIGNS]++;
                }
            }
        }
    print_message("a trigram on text: %.4f nats a character\n", sum / (double)seen);
    assert_true(sum / (double)seen > MIN_TRIGRAM_NATS);
    free(pairs);
    free(triples);
    kn_dataset_destroy(&train);
    kn_dataset_destroy(&test);
}

TEST_FILE(main, NULL, NULL)
