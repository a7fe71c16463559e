/* Losses that are a mean over a pointwise error: mean squares, Huber, binary cross-entropy. */
#include "ops/ops_private.h"

#include <math.h>

KN_POINTWISE(squared_error, .help = "(x - y) squared", .value = "(x - y) * (x - y)",
             .by = {"2 * g * (x - y)", "2 * g * (y - x)"}, KN_BINARY_CASES);

static kn_status huber_shape(kn_shape_call *call) {
    if (!(kn_shape_attribute(call, "delta")->number > 0))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "delta is where the error turns from square to straight; "
                             "expected a number above 0");
    if (!kn_shape_broadcast(call->graph, &call->inputs[0]->shape, &call->inputs[1]->shape, &call->outputs[0]))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "the prediction is %s and the target %s; expected the same shape",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    if (call->inputs[0]->shape.dtype != call->inputs[1]->shape.dtype)
        return kn_shape_fail(call, KN_ERROR_DTYPE,
                             "the prediction is %s and the target %s; expected the same type",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    call->outputs[0].dtype = call->inputs[0]->shape.dtype;
    return KN_OK;
}
KN_POINTWISE(huber_error, .help = "half the square of x - y near 0, straight beyond delta",
             KN_ATTRIBUTES(KN_FLOAT("delta", 1, "where it turns straight")), .shape = huber_shape,
             .value = "abs(x - y) <= delta ? 0.5 * (x - y) * (x - y) : delta * (abs(x - y) - 0.5 * delta)",
             .by = {"x - y > delta ? delta * g : x - y < -delta ? -delta * g : g * (x - y)",
                    "x - y > delta ? -delta * g : x - y < -delta ? delta * g : g * (y - x)"},
             KN_CASES({.inputs = {"7", "7"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .attributes = "delta=0.5"},
                      {.inputs = {"3,1,93", "3,1,93"}, .attributes = "delta=2"}, {.inputs = {"0,5", "0,5"}}));

/* -(y log s + (1 - y) log(1 - s)) with s = sigmoid(x), without computing s. */
KN_POINTWISE(logits_error, .help = "cross-entropy of sigmoid(x) against the probability y",
             .value = "(1 - y) * x + softplus(-x)", .by = {"g * (sigmoid(x) - y)", "-g * x"},
             KN_CASES({.inputs = {"7", "7"}, .ranges = {NULL, "0..1"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .ranges = {"-30..30", "0..1"}},
                      {.inputs = {"3,1,93", "3,1,93"}, .ranges = {NULL, "0..1"}}, {.inputs = {"0,5", "0,5"}}),
             .tolerance = 4);

/* ---- builders: prediction and target are of one shape, the result is a scalar ----------------------- */

/* Broadcasting would hide a mistake here: (N,1) against (N) gives (N,N). */
static bool same_shape(kn_value *prediction, kn_value *target, const char *loss) {
    if (kn_value_failed(prediction) || kn_value_failed(target) ||
        kn_shape_same(&prediction->shape, &target->shape))
        return true;
    kn_graph *graph = prediction->graph;
    kn_graph_fail(graph, KN_ERROR_SHAPE,
                  "%s: the prediction is %s and the target %s; expected the same shape", loss,
                  kn_shape_words(graph, &prediction->shape), kn_shape_words(graph, &target->shape));
    return false;
}

kn_value *kn_mse(kn_value *prediction, kn_value *target) {
    if (!same_shape(prediction, target, "mse")) return &prediction->graph->failed;
    return kn_mean(kn_build2(&kn_row_squared_error, prediction, target), NULL, false);
}

kn_value *kn_binary_cross_entropy(kn_value *logits, kn_value *target) {
    if (!same_shape(logits, target, "binary cross-entropy")) return &logits->graph->failed;
    return kn_mean(kn_build2(&kn_row_logits_error, logits, target), NULL, false);
}

kn_value *kn_huber(kn_value *prediction, kn_value *target, double delta) {
    if (!same_shape(prediction, target, "huber")) return &prediction->graph->failed;
    if (kn_value_failed(prediction)) return prediction;
    kn_settings settings;
    kn_settings_init(&settings, prediction->graph, &kn_row_huber_error);
    kn_settings_float(&settings, "delta", delta);
    kn_value *inputs[2] = {prediction, target};
    return kn_mean(kn_build(&kn_row_huber_error, inputs, 2, &settings), NULL, false);
}
