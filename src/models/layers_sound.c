/* Layers for audio. */
#include "models/layers_private.h"

enum { WINDOW, HOP, BANDS, RATE, LOW, HIGH, FLOOR, LOG };
static const kn_option spectrogram_arguments[] = {
    OPTION("window", WHOLE, "samples per window", REQUIRED, .least = 2, .most = 4096),
    OPTION("hop", WHOLE, "samples between the starts of windows", REQUIRED, .least = 1),
    OPTION("bands", WHOLE, "number of mel bands; 0: all frequencies, half the window plus one", BY_POSITION,
           .usual = "0"),
    OPTION("rate", NUMBER, "samples per second", .usual = "16000"),
    OPTION("low", NUMBER, "lowest frequency of the bands, in Hz", .usual = "0"),
    OPTION("high", NUMBER, "highest frequency of the bands, in Hz", .usual = "rate / 2"),
    OPTION("floor", NUMBER, "added to the power before the logarithm", .usual = "1e-7"),
    OPTION("log", FLAG, "whether to return the logarithm of the power", .usual = "yes"),
};

/* x is (N,...,samples), the result (N,...,windows,bands). Internal nodes get their own scope, so that the
 * text's names stay free. */
static kn_value *build_spectrogram(kn_layer_call *call) {
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

static const kn_layer_row rows[] = {
    LAYER("spectrogram", "spectrogram of sounds: (N,1,samples) to (N,1,windows,bands)",
          "mel melspectrogram mel_spectrogram stft fft logmel", spectrogram_arguments, build_spectrogram),
};
const kn_layer_family kn_sound_layers = {rows, (int)KN_COUNT_OF(rows)};
