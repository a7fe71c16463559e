/* Layers for audio. */
#include "models/layers_shape.h"

enum { WINDOW, HOP, BANDS, RATE, LOW, HIGH, FLOOR, LOG };
const kn_option kn_spectrogram_arguments[8] = {
    {.name = "window",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .required = true,
     .least = 2,
     .most = 4096,
     .help = "samples that are looked at together"},
    {.name = "hop",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .required = true,
     .least = 1,
     .help = "samples from one window to the next"},
    {.name = "bands",
     .kind = KN_OPTION_WHOLE,
     .by_position = true,
     .usual = "0",
     .help = "bands of pitch, on the mel scale; 0: each frequency by itself, half the window and one"},
    {.name = "rate", .kind = KN_OPTION_NUMBER, .usual = "16000", .help = "samples per second"},
    {.name = "low", .kind = KN_OPTION_NUMBER, .usual = "0", .help = "where the bands begin, in Hz"},
    {.name = "high", .kind = KN_OPTION_NUMBER, .usual = "half the rate", .help = "where they end"},
    {.name = "floor",
     .kind = KN_OPTION_NUMBER,
     .usual = "1e-7",
     .help = "added to a power before its logarithm"},
    {.name = "log",
     .kind = KN_OPTION_FLAG,
     .usual = "yes",
     .help = "whether the result is the logarithm of powers"},
};

/* x is (N,...,samples), the result (N,...,windows,bands). The nodes inside are named so that the text keeps
 * its names. */
kn_value *kn_build_spectrogram(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_spectrogram_params params;
    kn_spectrogram_params_init(&params);
    if (values[BANDS].given) params.bands = values[BANDS].whole;
    if (values[RATE].given) params.rate = values[RATE].number;
    if (values[LOW].given) params.low = values[LOW].number;
    if (values[HIGH].given) params.high = values[HIGH].number;
    if (values[FLOOR].given) params.floor = values[FLOOR].number;
    params.no_log = values[LOG].given && !values[LOG].flag;
    kn_scope_begin(call->graph, call->name);
    kn_value *y = kn_spectrogram(call->inputs[0], values[WINDOW].whole, values[HOP].whole, &params);
    kn_scope_end(call->graph);
    return y;
}
