/* Losses that are the mean of a pointwise error: squared, absolute and Huber errors, binary cross-entropy,
 * divergence, and losses of pairs and triplets. */
#include "ops/build.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

KN_POINTWISE(squared_error, .help = "(x - y) squared", .value = "(x - y) * (x - y)",
             .by = {"2 * g * (x - y)", "2 * g * (y - x)"}, KN_BINARY_CASES);

static kn_status huber_shape(kn_shape_call *call) {
    if (!(kn_shape_attribute(call, "delta")->number > 0))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "delta must be above 0");
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
KN_POINTWISE(huber_error, .help = "Huber error: half the square of x - y up to delta, linear beyond",
             KN_ATTRIBUTES(KN_FLOAT("delta", 1, "where the error becomes linear")), .shape = huber_shape,
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

/* Logarithms are clamped at -100, so that a confident wrong prediction has a large but finite loss. */
KN_POINTWISE(probability_error, .help = "cross-entropy of the probability x against the probability y",
             .value = "-(y * max(log(x), -100) + (1 - y) * max(log(1 - x), -100))",
             .by = {"g * (x - y) / max(x * (1 - x), 1e-12)",
                    "g * (max(log(1 - x), -100) - max(log(x), -100))"},
             KN_CASES({.inputs = {"7", "7"}, .ranges = {"0.1..0.9", "0..1"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .ranges = {"0.1..0.9", "0..1"}},
                      {.inputs = {"3,7", "3,7"}, .ranges = {"0..0", "0..1"}, .no_gradient = true},
                      {.inputs = {"0,5", "0,5"}}),
             .tolerance = 4);
KN_POINTWISE(weighted_logits_error, .help = "logits_error with the positive class weighted by z",
             .value = "(1 - y) * x + (1 + (z - 1) * y) * softplus(-x)",
             .by = {"g * (1 - y - (1 + (z - 1) * y) * sigmoid(-x))", "g * ((z - 1) * softplus(-x) - x)",
                    "g * y * softplus(-x)"},
             KN_CASES({.inputs = {"7", "7", "7"}, .ranges = {NULL, "0..1", "0.5..3"}, .smallest = true},
                      {.inputs = {"31,33", "31,33", "33"}, .ranges = {"-30..30", "0..1", "0.5..3"}},
                      {.inputs = {"0,5", "0,5", "5"}}),
             .tolerance = 4);
KN_POINTWISE(absolute_error, .help = "absolute difference of x and y", .value = "abs(x - y)",
             .by = {"x > y ? g : x < y ? -g : 0", "x > y ? -g : x < y ? g : 0"}, KN_BINARY_CASES);
/* Summed over a row, the divergence of exp(x) from the distribution y. If y is 0 the term is 0. */
KN_POINTWISE(divergence_error, .help = "y * (log(y) - x), for log-probabilities x and probabilities y",
             .value = "y == 0 ? 0 * x : y * (log(y) - x)",
             .by = {"-g * y", "y == 0 ? 0 : g * (log(y) + 1 - x)"},
             KN_CASES({.inputs = {"7", "7"}, .ranges = {"-4..0", "0.1..1"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .ranges = {"-4..0", "0.1..1"}},
                      {.inputs = {"3,7", "3,7"}, .ranges = {"-4..0", "0..0"}, .no_gradient = true},
                      {.inputs = {"0,5", "0,5"}}),
             .tolerance = 4);
KN_POINTWISE(hinge_error, .help = "how far x * y is below the margin",
             KN_ATTRIBUTES(KN_FLOAT("margin", 1, "lower limit of x * y")), .value = "max(margin - x * y, 0)",
             .by = {"margin - x * y > 0 ? -g * y : 0", "margin - x * y > 0 ? -g * x : 0"},
             KN_CASES({.inputs = {"7", "7"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .attributes = "margin=0.5"}, {.inputs = {"0,5", "0,5"}}));
/* y is 1 or -1; NaN propagates. */
KN_POINTWISE(cosine_error, .help = "1 - x for y above 0, otherwise how far x is above the margin",
             KN_ATTRIBUTES(KN_FLOAT("margin", 0, "upper limit of x")),
             .value = "(y > 0 ? 1 - x : max(x - margin, 0)) + 0 * y",
             .by = {"y > 0 ? -g : x > margin ? g : 0"},
             KN_CASES({.inputs = {"7", "7"}, .ranges = {"-1..1", "1..1"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .ranges = {"-1..1", "-1..-1"}, .attributes = "margin=0.25"},
                      {.inputs = {"0,5", "0,5"}}));

/* ---- builders: prediction and target have the same shape, the result is a scalar ----------------------- */

/* Shapes must be equal, since broadcasting would hide a mistake: (N,1) with (N) gives (N,N). */
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

/* ---- other losses ------------------------------------------------------------------------- */

/* The mean of the row's results for x and y, with one attribute. */
static kn_value *mean_error(const kn_operator *row, kn_value *x, kn_value *y, const char *attribute,
                            double number) {
    kn_value *inputs[2] = {x, y};
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, row);
    if (attribute) kn_settings_float(&settings, attribute, number);
    return kn_mean(kn_build(row, inputs, 2, &settings), NULL, false);
}

kn_value *kn_l1(kn_value *prediction, kn_value *target) {
    if (!same_shape(prediction, target, "l1")) return &prediction->graph->failed;
    return mean_error(&kn_row_absolute_error, prediction, target, NULL, 0);
}

/* Huber divided by beta, so that the slope beyond is 1. */
kn_value *kn_smooth_l1(kn_value *prediction, kn_value *target, double beta) {
    if (beta == 0) return kn_l1(prediction, target);
    return kn_scale(kn_huber(prediction, target, beta), 1 / beta);
}

kn_value *kn_probability_cross_entropy(kn_value *probabilities, kn_value *target) {
    if (!same_shape(probabilities, target, "probability cross-entropy")) return &probabilities->graph->failed;
    return mean_error(&kn_row_probability_error, probabilities, target, NULL, 0);
}

/* logits and target have the same shape, to which the weight broadcasts. */
kn_value *kn_binary_cross_entropy_weighted(kn_value *logits, kn_value *target, kn_value *positive_weight) {
    if (!same_shape(logits, target, "binary cross-entropy")) return &logits->graph->failed;
    kn_value *inputs[3] = {logits, target, positive_weight};
    kn_value *errors = kn_build(&kn_row_weighted_logits_error, inputs, 3, NULL);
    if (kn_value_failed(errors)) return errors;
    kn_graph *graph = errors->graph;
    if (errors->shape.rank != logits->shape.rank || !kn_shape_same(&errors->shape, &logits->shape))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "binary cross-entropy: the logits are %s and the positive weight %s; expected a "
                             "weight that broadcasts to the logits",
                             kn_shape_words(graph, &logits->shape),
                             kn_shape_words(graph, &positive_weight->shape));
    return kn_mean(errors, NULL, false);
}

/* Both are (...,classes): the sum over classes, averaged over rows. */
kn_value *kn_kl_divergence(kn_value *log_prediction, kn_value *target) {
    if (!same_shape(log_prediction, target, "kl divergence")) return &log_prediction->graph->failed;
    return kn_mean(kn_sum(kn_build2(&kn_row_divergence_error, log_prediction, target), "-1", false), NULL,
                   false);
}

kn_value *kn_hinge(kn_value *prediction, kn_value *target, double margin) {
    if (!same_shape(prediction, target, "hinge")) return &prediction->graph->failed;
    return mean_error(&kn_row_hinge_error, prediction, target, "margin", margin);
}

kn_value *kn_margin_ranking(kn_value *first, kn_value *second, kn_value *target, double margin) {
    if (!same_shape(first, second, "margin ranking")) return &first->graph->failed;
    return kn_hinge(kn_sub(first, second), target, margin);
}

/* The sum of x * y over the last axis. */
static kn_value *inner(kn_value *x, kn_value *y) {
    return kn_sum(kn_mul(x, y), "-1", false);
}

/* x and y are (...,D), the result is (...). A row of zeros is orthogonal to all rows. */
kn_value *kn_cosine_similarity(kn_value *x, kn_value *y) {
    const double least = 1e-12;
    if (!same_shape(x, y, "cosine similarity")) return &x->graph->failed;
    kn_value *squares = kn_mul(kn_shift(inner(x, x), least), kn_shift(inner(y, y), least));
    return kn_div(inner(x, y), kn_sqrt(squares));
}

/* x and y are (...,D), the target is (...). */
kn_value *kn_cosine_embedding(kn_value *x, kn_value *y, kn_value *target, double margin) {
    kn_value *cosine = kn_cosine_similarity(x, y);
    if (!same_shape(cosine, target, "cosine embedding")) return &cosine->graph->failed;
    return mean_error(&kn_row_cosine_error, cosine, target, "margin", margin);
}

/* The distance between the rows of x and y, (...,D); the epsilon keeps the slope of the square root
 * finite. */
static kn_value *distance(kn_value *x, kn_value *y) {
    kn_value *difference = kn_shift(kn_sub(x, y), 1e-6);
    return kn_sqrt(inner(difference, difference));
}

/* All are (...,D). */
kn_value *kn_triplet_margin(kn_value *anchor, kn_value *positive, kn_value *negative, double margin) {
    if (!same_shape(anchor, positive, "triplet margin")) return &anchor->graph->failed;
    if (!same_shape(anchor, negative, "triplet margin")) return &anchor->graph->failed;
    kn_value *difference = kn_sub(distance(anchor, positive), distance(anchor, negative));
    return kn_mean(kn_relu(kn_shift(difference, margin)), NULL, false);
}
