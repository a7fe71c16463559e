/* Spectrograms compared with direct Fourier sums. */
#include "ops_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static kn_graph *graph;

static int begin(void **state) {
    graph = kn_graph_create(NULL);
    return 0;
}

static int end(void **state) {
    kn_graph_destroy(&graph);
    return 0;
}

/* The power of a window of `sound` (window) at frequency k, with a Hann window, scaled so that a tone of
 * amplitude 1 has power 1. */
static double power_of(const double *sound, int window, int k) {
    double real = 0, imaginary = 0, sum = 0;
    for (int t = 0; t < window; t++) {
        double hann = pow(sin(PI * t / window), 2);
        real += sound[t] * hann * cos(2 * PI * k * t / window);
        imaginary -= sound[t] * hann * sin(2 * PI * k * t / window);
        sum += hann;
    }
    return 4 * (real * real + imaginary * imaginary) / (sum * sum);
}

/* The weight of a frequency in Hz in mel band `band`: one of `bands` triangles from low to high. */
static double share_of(double hertz, int band, int bands, double low, double high) {
    double corner[3];
    for (int i = 0; i < 3; i++) {
        double first = 2595 * log10(1 + low / 700), last = 2595 * log10(1 + high / 700);
        double mel = first + (last - first) * (band + i) / (bands + 1);
        corner[i] = 700 * (pow(10, mel / 2595) - 1);
    }
    if (hertz <= corner[0] || hertz >= corner[2]) return 0;
    return hertz <= corner[1] ? (hertz - corner[0]) / (corner[1] - corner[0])
                              : (corner[2] - hertz) / (corner[2] - corner[1]);
}

/* sounds are (2,1,samples), the result (2,1,windows,bands or window/2+1). */
static void compare(int samples, int window, int hop, const kn_spectrogram_params *params, double allowed) {
    char shape[64];
    int frequencies = window / 2 + 1, windows = (samples - window) / hop + 1;
    int columns = params->bands ? (int)params->bands : frequencies;
    double *sounds = calloc((size_t)(2 * samples), sizeof *sounds);
    assert_non_null(sounds);
    for (int i = 0; i < 2 * samples; i++)
        sounds[i] = sin(0.7 * i) + 0.5 * cos(0.0031 * i * i) + 0.1;
    snprintf(shape, sizeof shape, "batch,1,%d", samples);
    kn_value *x = kn_input(graph, "x", KN_FLOAT64, shape), *result,
             *y = kn_spectrogram(x, window, hop, params);
    if (kn_value_failed(y)) fail_msg("%s", kn_graph_error(graph));
    snprintf(shape, sizeof shape, "batch,1,%d,%d", windows, columns);
    char actual[64];
    kn_value_shape_text(y, actual, sizeof actual);
    assert_string_equal(actual, shape);
    assert_int_equal(kn_graph_parameter_count(graph), 0);
    kn_binding batch = {"batch", 2};
    kn_bind_request request = {.bindings = &batch, .binding_count = 1, .training = true};
    kn_graph *bound;
    kn_error error = {0};
    if (kn_graph_bind(graph, &y, 1, &request, &bound, &result, &error)) fail_msg("%s", error.text);
    host_input given = {"x", sounds};
    host_values values = host_compute(bound, &given, 1);
    double high = params->high > 0 ? params->high : params->rate / 2;
    for (int i = 0; i < 2 * windows * columns; i++) {
        const double *sound = sounds + i / columns / windows * samples + i / columns % windows * hop;
        double expected = 0;
        for (int k = 0; k < frequencies; k++) {
            double share = params->bands
                               ? share_of(k * params->rate / window, i % columns, columns, params->low, high)
                               : k == i % columns;
            if (share > 0) expected += share * power_of(sound, window, k);
        }
        if (!params->no_log) expected = log(expected + params->floor);
        if (!(fabs(values.numbers[result->id][i] - expected) <= allowed))
            fail_msg("element %d is %.12g; expected %.12g", i, values.numbers[result->id][i], expected);
    }
    host_release(&values);
    kn_graph_destroy(&bound);
    free(sounds);
    end(NULL);
    begin(NULL);
}

TEST_WITH(plain_sums_agree, begin, end) {
    kn_spectrogram_params params;
    kn_spectrogram_params_init(&params);
    params.no_log = true;
    compare(40, 16, 8, &params, 1e-12); /* halves of windows become channels */
    compare(31, 9, 4, &params, 1e-12);  /* no common divisor, and samples left over */
    compare(12, 12, 100, &params, 1e-12);
    params.no_log = false;
    params.floor = 1e-3;
    compare(40, 10, 5, &params, 1e-9);
    params.bands = 7;
    params.rate = 1000;
    compare(200, 60, 20, &params, 1e-9);
    params.low = 100;
    params.high = 300;
    compare(200, 60, 21, &params, 1e-9);
}

static void told(kn_value *value, kn_status status, const char *words) {
    assert_true(kn_value_failed(value));
    assert_int_equal(kn_graph_status(graph), status);
    if (!strstr(kn_graph_error(graph), words))
        fail_msg("\"%s\" tells no \"%s\"", kn_graph_error(graph), words);
    end(NULL);
    begin(NULL);
}

static kn_value *sound(void) {
    return kn_input(graph, "x", KN_FLOAT32, "batch,1,100");
}

TEST_WITH(mistakes_are_reported, begin, end) {
    kn_spectrogram_params params;
    kn_spectrogram_params_init(&params);
    told(kn_spectrogram(kn_input(graph, "x", KN_FLOAT32, "batch,length"), 10, 5, NULL), KN_ERROR_SHAPE,
         "known length");
    told(kn_spectrogram(kn_input(graph, "x", KN_INT32, "batch,100"), 10, 5, NULL), KN_ERROR_SHAPE, "int32");
    told(kn_spectrogram(sound(), 101, 5, NULL), KN_ERROR_SHAPE, "one window of 101");
    told(kn_spectrogram(sound(), 10, 0, NULL), KN_ERROR_ARGUMENT, "at least 1 apart");
    told(kn_spectrogram(sound(), 5000, 1, NULL), KN_ERROR_ARGUMENT, "4096");
    params.bands = 12;
    told(kn_spectrogram(sound(), 20, 5, &params), KN_ERROR_ARGUMENT, "at most 11");
    params.bands = 11;
    told(kn_spectrogram(sound(), 20, 5, &params), KN_ERROR_ARGUMENT, "a longer window");
    params.high = 9000;
    told(kn_spectrogram(sound(), 20, 5, &params), KN_ERROR_ARGUMENT, "half the sample rate");
    params.high = 0;
    params.floor = 0;
    told(kn_spectrogram(sound(), 20, 5, &params), KN_ERROR_ARGUMENT, "more than 0");
}

TEST_FILE(test_spectrogram, NULL, NULL)
