/* Initializers: the words of init=. */
#include "models/models_private.h"

#define RELU_GAIN 1.4142135623730951

const kn_start_row kn_start_table[] = {
    {"zero", KN_INITIALIZER_FILL, false, 0, "0 everywhere"},
    {"one", KN_INITIALIZER_FILL, false, 1, "1 everywhere"},
    {"fill", KN_INITIALIZER_FILL, true, 0, "the given number everywhere"},
    {"uniform", KN_INITIALIZER_UNIFORM, true, 1, "uniform between minus and plus the given number"},
    {"normal", KN_INITIALIZER_NORMAL, true, 1, "normal with the given standard deviation"},
    {"truncated_normal", KN_INITIALIZER_TRUNCATED_NORMAL, true, 1,
     "normal, redrawn beyond two standard deviations"},
    {"xavier_uniform", KN_INITIALIZER_XAVIER_UNIFORM, true, 1,
     "scaled by fan-in and fan-out, times the given gain"},
    {"xavier_normal", KN_INITIALIZER_XAVIER_NORMAL, true, 1, "likewise"},
    {"kaiming_uniform", KN_INITIALIZER_KAIMING_UNIFORM, true, RELU_GAIN,
     "scaled by fan-in, times the given gain (default: relu)"},
    {"kaiming_normal", KN_INITIALIZER_KAIMING_NORMAL, true, RELU_GAIN, "likewise"},
    {"kaiming_uniform_out", KN_INITIALIZER_KAIMING_UNIFORM_OUT, true, RELU_GAIN,
     "scaled by fan-out, times the given gain (default: relu)"},
    {"kaiming_normal_out", KN_INITIALIZER_KAIMING_NORMAL_OUT, true, RELU_GAIN, "likewise"},
    {"orthogonal", KN_INITIALIZER_ORTHOGONAL, true, 1, "orthogonal rows of the given length"},
};
const int kn_start_table_count = (int)KN_COUNT_OF(kn_start_table);
