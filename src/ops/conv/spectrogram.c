/* Spectrograms: a convolution with constant waves, the squares of its results summed in bands, and a
 * logarithm. Nothing is trainable, so checkpoints contain none of it. */
#include <inttypes.h>
#include <math.h>

#include "ops/layer.h"
#include "ops/shape/shape.h"

static const double PI = 3.14159265358979323846;
enum { LONGEST = 4096 }; /* samples of a window: twice its square is the number of elements of the waves */

/* One call of the builder. */
typedef struct spectrum {
    kn_graph *graph;
    kn_dtype dtype;            /* float32 or float64: type of the constants */
    int64_t window, hop, fold; /* samples; fold divides window and hop */
    int64_t frequencies, windows;
    kn_spectrogram_params given;
} spectrum;

/* ---- constants ------------------------------------------------------------------------------- */

/* A constant of `count` zeros; *data is to be filled in. */
static void *constant_begin(const spectrum *own, int64_t count) {
    void *data = kn_allocate(&own->graph->host, (size_t)count, kn_dtype_bytes(own->dtype));
    if (!data) kn_graph_fail(own->graph, KN_ERROR_MEMORY, "spectrogram: out of memory for the waves");
    return data;
}

static kn_value *constant_end(const spectrum *own, int rank, const int64_t *sizes, void *data) {
    kn_shape shape = {.dtype = own->dtype, .rank = rank};
    size_t bytes = kn_dtype_bytes(own->dtype);
    for (int i = 0; i < rank; i++) {
        shape.dims[i] = sizes[i];
        bytes *= (size_t)sizes[i];
    }
    kn_value *constant = kn_constant_add(own->graph, &shape, data, bytes);
    kn_release(&own->graph->host, data);
    return constant;
}

/* Filters (2*F,fold,window/fold): for frequency k the cosine at k, the sine at F + k, times a Hann window,
 * normalized so that a tone of amplitude 1 gives 1. Sample t of a window is at (t % fold, t / fold). */
static kn_value *waves(const spectrum *own) {
    const int64_t sizes[3] = {2 * own->frequencies, own->fold, own->window / own->fold};
    void *data = constant_begin(own, sizes[0] * own->window);
    if (!data) return &own->graph->failed;
    double sum = 0;
    for (int64_t t = 0; t < own->window; t++)
        sum += 0.5 - 0.5 * cos(2 * PI * (double)t / (double)own->window);
    for (int64_t k = 0; k < own->frequencies; k++)
        for (int64_t t = 0; t < own->window; t++) {
            double hann = 0.5 - 0.5 * cos(2 * PI * (double)t / (double)own->window),
                   amplitude = 2 * hann / sum;
            /* Removes whole periods from the phase, so that long windows lose no precision. */
            double angle = 2 * PI * (double)(k * t % own->window) / (double)own->window;
            int64_t place = t % own->fold * sizes[2] + t / own->fold;
            kn_element_set(own->dtype, data, k * own->window + place, amplitude * cos(angle));
            kn_element_set(own->dtype, data, (own->frequencies + k) * own->window + place,
                           amplitude * sin(angle));
        }
    return constant_end(own, 3, sizes, data);
}

static double to_mel(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}
static double from_mel(double mel) {
    return 700 * (pow(10, mel / 2595) - 1);
}

/* Filters (bands,2*F,1) of triangles equally spaced on the mel scale: each falls from 1 to 0 at the centers
 * of its neighbors. Cosine and sine of a frequency have the same weight. */
static kn_value *triangles(const spectrum *own) {
    const kn_spectrogram_params *given = &own->given;
    const int64_t sizes[3] = {given->bands, 2 * own->frequencies, 1};
    double low = to_mel(given->low), high = to_mel(given->high > 0 ? given->high : given->rate / 2);
    double distance = (high - low) / (double)(given->bands + 1);
    void *data = constant_begin(own, sizes[0] * sizes[1]);
    if (!data) return &own->graph->failed;
    for (int64_t b = 0; b < given->bands; b++) {
        double left = from_mel(low + distance * (double)b),
               middle = from_mel(low + distance * (double)(b + 1));
        double right = from_mel(low + distance * (double)(b + 2)), sum = 0;
        for (int64_t k = 0; k < own->frequencies; k++) {
            double hertz = (double)k * given->rate / (double)own->window;
            double weight = fmin((hertz - left) / (middle - left), (right - hertz) / (right - middle));
            weight = fmax(weight, 0);
            sum += weight;
            kn_element_set(own->dtype, data, b * sizes[1] + k, weight);
            kn_element_set(own->dtype, data, b * sizes[1] + own->frequencies + k, weight);
        }
        if (sum > 0) continue;
        kn_release(&own->graph->host, data);
        return kn_graph_fail(
            own->graph, KN_ERROR_ARGUMENT,
            "spectrogram: between %.0f and %.0f Hz, band %" PRId64 " of %" PRId64
            ": no frequency is inside, since they are %.1f Hz apart; use fewer bands or a longer window",
            left, right, b + 1, given->bands, given->rate / (double)own->window);
    }
    return constant_end(own, 3, sizes, data);
}

/* ---- the transform --------------------------------------------------------------------------------- */

static bool takes(spectrum *own, const kn_value *x) {
    kn_graph *graph = own->graph;
    const kn_spectrogram_params *given = &own->given;
    int rank = x->shape.rank;
    double top = given->high > 0 ? given->high : given->rate / 2;
    if (rank < 2 || !kn_dim_known(x->shape.dims[rank - 1]) || !kn_dtype_is_float(x->shape.dtype))
        kn_graph_fail(graph, KN_ERROR_SHAPE,
                      "spectrogram: x is %s; expected sounds, (N,...,samples) of a known length",
                      kn_shape_words(graph, &x->shape));
    else if (own->window < 2 || own->window > LONGEST || own->hop < 1 || own->hop > INT32_MAX)
        kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                      "spectrogram: windows of %" PRId64 " samples, %" PRId64
                      " apart; expected 2 to %d samples, at least 1 apart",
                      own->window, own->hop, LONGEST);
    else if (own->window > x->shape.dims[rank - 1])
        kn_graph_fail(graph, KN_ERROR_SHAPE,
                      "spectrogram: x is %s; expected at least one window of %" PRId64 " samples",
                      kn_shape_words(graph, &x->shape), own->window);
    else if (given->bands < 0 || given->bands > own->window / 2 + 1)
        kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                      "spectrogram: %" PRId64 " bands; expected at most %" PRId64
                      ", the number of frequencies of a window, or 0 to keep the frequencies",
                      given->bands, own->window / 2 + 1);
    else if (!(given->rate > 0 && given->low >= 0 && given->low < top && top <= given->rate / 2) ||
             !isfinite(given->rate))
        kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                      "spectrogram: bands from %g to %g Hz at %g samples per second; expected 0 <= low < "
                      "high <= half the sample rate",
                      given->low, top, given->rate);
    else if (!given->no_log && !(given->floor > 0 && isfinite(given->floor)))
        kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                      "spectrogram: the floor under the logarithm is %g; expected more than 0", given->floor);
    else
        return true;
    return false;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* x is (M,samples), the result (M,2*F,T). The common factor of window and hop becomes channels, since
 * convolutions are fast with many channels. */
static kn_value *responses(const spectrum *own, kn_value *x) {
    int64_t needed = (own->windows - 1) * own->hop + own->window, groups = needed / own->fold;
    kn_value *filters = kn_cast(waves(own), x->shape.dtype);
    if (x->shape.dims[1] != needed) x = kn_slice(x, 1, 0, needed);
    if (kn_value_failed(x) || kn_value_failed(filters)) return &own->graph->failed;
    x = kn_reshape_to(x, 3, (kn_dim[]){x->shape.dims[0], groups, own->fold});
    x = kn_permute(x, (int[]){0, 2, 1});
    kn_conv_params params = {.size = sizeof params, .stride = {own->hop / own->fold}};
    return kn_conv1d(x, filters, NULL, &params);
}

/* power is (M,2*F,T): squares of cosines, then of sines. The result is (M,B,T). */
static kn_value *bands(const spectrum *own, kn_value *power) {
    if (own->given.bands == 0)
        return kn_add(kn_slice(power, 1, 0, own->frequencies),
                      kn_slice(power, 1, own->frequencies, 2 * own->frequencies));
    kn_conv_params params = {.size = sizeof params};
    kn_value *filters = triangles(own);
    return kn_value_failed(power) ? power
                                  : kn_conv1d(power, kn_cast(filters, power->shape.dtype), NULL, &params);
}

kn_value *kn_spectrogram(kn_value *x, int64_t window, int64_t hop, const kn_spectrogram_params *params) {
    if (kn_value_failed(x)) return x;
    spectrum own = {.graph = x->graph, .window = window, .hop = hop};
    kn_spectrogram_params_init(&own.given);
    KN_TAKE_PARAMS(x, kn_spectrogram_params, &own.given, params);
    if (!takes(&own, x)) return &own.graph->failed;
    int rank = x->shape.rank;
    own.dtype = x->shape.dtype == KN_FLOAT64 ? KN_FLOAT64 : KN_FLOAT32;
    own.frequencies = window / 2 + 1;
    own.windows = (x->shape.dims[rank - 1] - window) / hop + 1;
    own.fold = common_divisor(window, hop);
    kn_dim dims[KN_MAX_RANK + 1], sounds = 1;
    for (int i = 0; i < rank - 1; i++) {
        dims[i] = x->shape.dims[i];
        sounds = kn_dim_multiply(own.graph, sounds, dims[i]);
    }
    kn_value *y = kn_reshape_to(x, 2, (kn_dim[]){sounds, x->shape.dims[rank - 1]});
    y = responses(&own, y);
    y = kn_permute(bands(&own, kn_mul(y, y)), (int[]){0, 2, 1});
    if (!own.given.no_log) y = kn_log(kn_shift(y, own.given.floor));
    dims[rank - 1] = own.windows;
    dims[rank] = own.given.bands ? own.given.bands : own.frequencies;
    return kn_value_failed(y) ? y : kn_reshape_to(y, rank + 1, dims);
}
