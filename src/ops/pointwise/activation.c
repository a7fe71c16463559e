/* Activation functions, and dropout. Gradients read the result instead of the input if possible: the input's
 * memory can then be reused */
#include "ops/build.h"
#include "ops/ops.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

KN_POINTWISE(sigmoid, .help = "1 / (1 + exp(-x))", .value = "sigmoid(x)", .by = {"g * r * (1 - r)"},
             KN_UNARY_CASES, .tolerance = 4);
/* PoCL's tanh of large numbers is less than 1, so that 1 - tanh(x)^2 times a large number is not small. */
KN_POINTWISE(tanh, .help = "hyperbolic tangent", .value = "x > 20 ? 1 : x < -20 ? -1 : tanh(x)",
             .by = {"g * (1 - r * r)"}, KN_UNARY_CASES, .tolerance = 4);
/* NaN propagates. */
KN_POINTWISE(relu, .help = "x where x > 0, 0 elsewhere", .value = "x < 0 ? 0 : x", .by = {"r > 0 ? g : 0"},
             KN_UNARY_CASES);
KN_POINTWISE(leaky_relu, .help = "x where x > 0, slope * x elsewhere",
             KN_ATTRIBUTES(KN_FLOAT("slope", 0.01, "for negative x")), .value = "x > 0 ? x : slope * x",
             .by = {"x > 0 ? g : slope * g"},
             KN_CASES({.inputs = {"7"}, .smallest = true}, {.inputs = {"31,33"}, .attributes = "slope=0.25"},
                      {.inputs = {"3,1,93"}, .attributes = "slope=-0.5"}, {.inputs = {"0,5"}},
                      {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true}));
KN_POINTWISE(relu6, .help = "relu limited to 6", .value = "x < 0 ? 0 : x > 6 ? 6 : x",
             .by = {"r > 0 && r < 6 ? g : 0"}, KN_UNARY_CASES_IN("-4..10"));
/* exp(x) - 1 is tanh(x / 2) * (exp(x) + 1), which is accurate near 0. */
KN_POINTWISE(elu, .help = "x where x > 0, alpha * (exp(x) - 1) elsewhere",
             KN_ATTRIBUTES(KN_FLOAT("alpha", 1, "negative limit is -alpha")),
             .value = "x > 0 ? x : alpha * tanh(0.5 * x) * (exp(x) + 1)",
             .by = {"x > 0 ? g : g * (r + alpha)"},
             KN_CASES({.inputs = {"7"}, .smallest = true}, {.inputs = {"31,33"}, .attributes = "alpha=0.5"},
                      {.inputs = {"3,1,93"}, .ranges = {"-20..1"}}, {.inputs = {"0,5"}},
                      {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true}),
             .tolerance = 4);
/* 1.0507… is the scale, 1.7580… the scale times alpha. */
KN_POINTWISE(selu, .help = "self-normalizing elu",
             .value = "x > 0 ? 1.0507009873554805 * x : 1.7580993408473766 * tanh(0.5 * x) * (exp(x) + 1)",
             .by = {"x > 0 ? 1.0507009873554805 * g : g * (r + 1.7580993408473766)"}, KN_UNARY_CASES,
             .tolerance = 4);
/* 0.7071… is 1 / sqrt(2); 0.3989… is 1 / sqrt(2 pi). */
KN_POINTWISE(
    gelu, .help = "x * Phi(x), exact", .value = "0.5 * x * (1 + erf(0.7071067811865476 * x))",
    .by = {"g * (0.5 * (1 + erf(0.7071067811865476 * x)) + 0.3989422804014327 * x * exp(-0.5 * x * x))"},
    KN_UNARY_CASES, .tolerance = 16);
/* The usual form 0.5 x (1 + tanh(u)) is x sigmoid(2 u); here u2 = 2 u = 2 sqrt(2 / pi) (x + 0.044715 x^3). */
#define KN_GELU_U2 "x * (1.5957691216057308 + 0.07135481627260025 * x * x)"
KN_POINTWISE(gelu_tanh, .help = "tanh approximation of gelu", .value = "x * sigmoid(" KN_GELU_U2 ")",
             .by = {"g * sigmoid(" KN_GELU_U2 ") * (1 + x * (1 - sigmoid(" KN_GELU_U2
                    ")) * (1.5957691216057308 + 0.21406444881780073 * x * x))"},
             KN_UNARY_CASES, .tolerance = 8);
KN_POINTWISE(silu, .help = "x * sigmoid(x)", .value = "x * sigmoid(x)",
             .by = {"g * sigmoid(x) * (1 + x * (1 - sigmoid(x)))"}, KN_UNARY_CASES, .tolerance = 4);
KN_POINTWISE(softplus, .help = "log(1 + exp(x))", .value = "softplus(x)", .by = {"g * sigmoid(x)"},
             KN_UNARY_CASES_IN("-30..30"), .tolerance = 4);
KN_POINTWISE(hard_sigmoid, .help = "alpha * x + beta, clamped to 0 and 1",
             KN_ATTRIBUTES(KN_FLOAT("alpha", 1.0 / 6.0, "slope"), KN_FLOAT("beta", 0.5, "result at 0")),
             .value = "alpha * x + beta < 0 ? 0 : alpha * x + beta > 1 ? 1 : alpha * x + beta",
             .by = {"r > 0 && r < 1 ? alpha * g : 0"},
             KN_CASES({.inputs = {"7"}, .smallest = true}, {.inputs = {"31,33"}, .ranges = {"-5..5"}},
                      {.inputs = {"3,1,93"}, .attributes = "alpha=0.2", .ranges = {"-5..5"}},
                      {.inputs = {"0,5"}}, {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true},
                      {.inputs = {"float64 31,33"}, .ranges = {"-5..5"}, .no_gradient = true}));
KN_POINTWISE(hard_swish, .help = "x * hard_sigmoid(x)",
             .value = "x < -3 ? 0 : x > 3 ? x : x * (x + 3) * 0.16666666666666666",
             .by = {"x < -3 ? 0 : x > 3 ? g : g * (x + x + 3) * 0.16666666666666666"},
             KN_UNARY_CASES_IN("-5..5"));

#define FEW_CASES(range, text)                                                                               \
    KN_CASES({.inputs = {"7"}, .ranges = {range}, .smallest = true},                                         \
             {.inputs = {"31,33"}, .ranges = {range}, .attributes = text}, {.inputs = {"0,5"}},              \
             {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true})
KN_POINTWISE(log_sigmoid, .help = "logarithm of sigmoid", .value = "-softplus(-x)", .by = {"g * sigmoid(-x)"},
             FEW_CASES("-20..20", NULL), .tolerance = 4);
KN_POINTWISE(mish, .help = "x * tanh(softplus(x))", .value = "x * tanh(softplus(x))",
             .by = {"g * (tanh(softplus(x)) + x * sigmoid(x) * (1 - tanh(softplus(x)) * tanh(softplus(x))))"},
             FEW_CASES("-5..5", NULL), .tolerance = 8);
KN_POINTWISE(softsign, .help = "x / (1 + |x|)", .value = "x / (1 + abs(x))",
             .by = {"g / ((1 + abs(x)) * (1 + abs(x)))"}, FEW_CASES(NULL, NULL), .tolerance = 4);
KN_POINTWISE(celu, .help = "x where x > 0, alpha * (exp(x / alpha) - 1) elsewhere",
             KN_ATTRIBUTES(KN_FLOAT("alpha", 1, "negative limit is -alpha")),
             .value = "x > 0 ? x : alpha * expm1(x / alpha)", .by = {"x > 0 ? g : g * (r / alpha + 1)"},
             FEW_CASES(NULL, "alpha=0.5"), .tolerance = 4);
KN_POINTWISE(thresholded_relu, .help = "x where x > alpha, 0 elsewhere",
             KN_ATTRIBUTES(KN_FLOAT("alpha", 1, "the threshold")), .value = "x <= alpha ? 0 : x",
             .by = {"x > alpha ? g : 0"}, FEW_CASES(NULL, "alpha=0.25"));
KN_POINTWISE(shrink, .help = "x moved towards 0 by bias; 0 where |x| <= lambd",
             KN_ATTRIBUTES(KN_FLOAT("lambd", 0.5, "half the width of the range that becomes 0"),
                           KN_FLOAT("bias", 0, "distance to move")),
             .value = "x < -lambd ? x + bias : x > lambd ? x - bias : x - x",
             .by = {"x < -lambd || x > lambd ? g : 0"}, FEW_CASES(NULL, "lambd=0.75 bias=0.25"));
KN_POINTWISE(prelu, .help = "x where x > 0, y * x elsewhere, with trainable y",
             .value = "max(x, 0) + y * min(x, 0)", .by = {"x > 0 ? g : g * y", "x > 0 ? 0 : g * x"},
             KN_CASES({.inputs = {"7", "7"}, .smallest = true}, {.inputs = {"31,33", "1"}},
                      {.inputs = {"2,3,7,5", "3,1,1"}}, {.inputs = {"0,5", "5"}}));

/* x is of any shape; the second input is the step counter, a uint32 scalar. */
static kn_status random_shape(kn_shape_call *call) {
    if (kn_shape_float_input(call, 0)) return call->error->status;
    const kn_value *step = call->inputs[1];
    if (!step || step->shape.rank != 0 || step->shape.dtype != KN_UINT32)
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "the second input is %s; expected the step counter, a uint32 scalar",
                             step ? kn_shape_words_of(call, 1) : "missing");
    return kn_shape_like_first(call);
}
static kn_status dropout_shape(kn_shape_call *call) {
    double rate = kn_shape_attribute(call, "rate")->number;
    if (!(rate >= 0 && rate < 1))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "rate must satisfy 0 <= rate < 1");
    return random_shape(call);
}
KN_POINTWISE(
    dropout, .help = "sets random elements to zero in training, scaling the others up",
    KN_ATTRIBUTES(KN_FLOAT("rate", 0.5, "fraction of elements to drop")), .min_inputs = 2, .max_inputs = 2,
    .random = true, .training_only = true, .shape = dropout_shape,
    .value = "uniform >= rate ? x / (1 - rate) : 0", .by = {"uniform >= rate ? g / (1 - rate) : 0"},
    KN_CASES({.inputs = {"33", "uint32"}, .ranges = {NULL, "3..3"}, .training = true, .smallest = true},
             {.inputs = {"31,7,3", "uint32"},
              .attributes = "rate=0.25",
              .ranges = {NULL, "0..9"},
              .training = true},
             {.inputs = {"7", "uint32"}, .attributes = "rate=0", .training = true, .ranges = {NULL, "0..9"}},
             {.inputs = {"0,7", "uint32"}, .training = true, .ranges = {NULL, "0..9"}},
             {.inputs = {"7,3", "uint32"}, .ranges = {NULL, "0..9"}}));

KN_POINTWISE(uniform_like, .help = "a uniform random number in [0, 1) for each element of x", .min_inputs = 2,
             .max_inputs = 2, .random = true, .shape = random_shape, .value = "uniform",
             KN_CASES({.inputs = {"33", "uint32"}, .ranges = {NULL, "3..3"}, .smallest = true},
                      {.inputs = {"31,7,3", "uint32"}, .ranges = {NULL, "0..9"}},
                      {.inputs = {"0,7", "uint32"}, .ranges = {NULL, "0..9"}}));

static kn_status round_random_shape(kn_shape_call *call) {
    kn_status status = random_shape(call);
    call->outputs[0].dtype = KN_BFLOAT16;
    return status;
}
KN_POINTWISE(round_random, .help = "x in bfloat16 with stochastic rounding, so that the mean is x",
             .min_inputs = 2, .max_inputs = 2, .random = true, .backward = true, .shape = round_random_shape,
             .value = "isnan(x) ? x : coarse(x, uniform, 16)",
             KN_CASES({.inputs = {"33", "uint32"}, .ranges = {NULL, "3..3"}, .smallest = true},
                      {.inputs = {"31,7,3", "uint32"}, .ranges = {NULL, "0..9"}},
                      {.inputs = {"2,33", "uint32"}, .ranges = {"special", "0..9"}, .no_gradient = true},
                      {.inputs = {"0,7", "uint32"}, .ranges = {NULL, "0..9"}}));
/* Numbers below 2^-6 are multiples of 2^-9. */
static kn_status round_random_8_shape(kn_shape_call *call) {
    kn_status status = random_shape(call);
    call->outputs[0].dtype = KN_FLOAT8E4M3FN;
    return status;
}
KN_POINTWISE(
    round_random_8, .help = "x, at most 256, in float8e4m3fn with stochastic rounding, so that the mean is x",
    .min_inputs = 2, .max_inputs = 2, .random = true, .backward = true, .shape = round_random_8_shape,
    .value = "isnan(x) ? x : abs(x) < 0.015625 ? floor(512 * x + uniform) / 512 : coarse(x, uniform, 20)",
    KN_CASES({.inputs = {"33", "uint32"}, .ranges = {NULL, "3..3"}, .smallest = true},
             {.inputs = {"31,7,3", "uint32"}, .ranges = {"-0.02..0.02", "0..9"}},
             {.inputs = {"7,93", "uint32"}, .ranges = {"-256..256", "0..9"}},
             {.inputs = {"0,7", "uint32"}, .ranges = {NULL, "0..9"}}));
KN_POINTWISE(power_of_two, .help = "the largest power of two <= |x|, with the sign of x", .backward = true,
             .value = "isnan(x) ? x : coarse(x, 0, 23)",
             KN_CASES({.inputs = {"33"}, .smallest = true, .no_gradient = true},
                      {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true}));

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_sigmoid(kn_value *x) {
    return kn_build1(&kn_row_sigmoid, x);
}
kn_value *kn_tanh(kn_value *x) {
    return kn_build1(&kn_row_tanh, x);
}
kn_value *kn_relu(kn_value *x) {
    return kn_build1(&kn_row_relu, x);
}
kn_value *kn_relu6(kn_value *x) {
    return kn_build1(&kn_row_relu6, x);
}
kn_value *kn_selu(kn_value *x) {
    return kn_build1(&kn_row_selu, x);
}
kn_value *kn_gelu(kn_value *x) {
    return kn_build1(&kn_row_gelu, x);
}
kn_value *kn_gelu_tanh(kn_value *x) {
    return kn_build1(&kn_row_gelu_tanh, x);
}
kn_value *kn_silu(kn_value *x) {
    return kn_build1(&kn_row_silu, x);
}
kn_value *kn_softplus(kn_value *x) {
    return kn_build1(&kn_row_softplus, x);
}
kn_value *kn_hard_sigmoid(kn_value *x) {
    return kn_build1(&kn_row_hard_sigmoid, x);
}
kn_value *kn_hard_swish(kn_value *x) {
    return kn_build1(&kn_row_hard_swish, x);
}
kn_value *kn_leaky_relu(kn_value *x, double slope) {
    return kn_build_number(&kn_row_leaky_relu, x, "slope", slope);
}
kn_value *kn_elu(kn_value *x, double alpha) {
    return kn_build_number(&kn_row_elu, x, "alpha", alpha);
}

kn_value *kn_log_sigmoid(kn_value *x) {
    return kn_build1(&kn_row_log_sigmoid, x);
}
kn_value *kn_mish(kn_value *x) {
    return kn_build1(&kn_row_mish, x);
}
kn_value *kn_softsign(kn_value *x) {
    return kn_build1(&kn_row_softsign, x);
}
kn_value *kn_hard_tanh(kn_value *x) {
    return kn_clip(x, -1, 1);
}
kn_value *kn_celu(kn_value *x, double alpha) {
    return kn_build_number(&kn_row_celu, x, "alpha", alpha);
}
kn_value *kn_thresholded_relu(kn_value *x, double alpha) {
    return kn_build_number(&kn_row_thresholded_relu, x, "alpha", alpha);
}
kn_value *kn_hard_shrink(kn_value *x, double width) {
    return kn_build_number(&kn_row_shrink, x, "lambd", width);
}
kn_value *kn_soft_shrink(kn_value *x, double width) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_shrink);
    kn_settings_float(&settings, "lambd", width);
    kn_settings_float(&settings, "bias", width);
    return kn_build(&kn_row_shrink, &x, 1, &settings);
}
kn_value *kn_prelu(kn_value *x, kn_value *slope) {
    return kn_build2(&kn_row_prelu, x, slope);
}

kn_value *kn_dropout(kn_value *x, double rate) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_dropout);
    kn_settings_float(&settings, "rate", rate);
    kn_value *inputs[2] = {x, kn_step_counter(x->graph)};
    return kn_build(&kn_row_dropout, inputs, 2, &settings);
}
kn_value *kn_uniform_like(kn_value *x) {
    if (kn_value_failed(x)) return x;
    kn_value *inputs[2] = {x, kn_step_counter(x->graph)};
    return kn_build(&kn_row_uniform_like, inputs, 2, NULL);
}
kn_value *kn_round_random(kn_value *x, kn_dtype dtype, const char *name) {
    if (kn_value_failed(x)) return x;
    kn_value *inputs[2] = {x, kn_step_counter(x->graph)};
    return kn_node_add(x->graph, dtype == KN_BFLOAT16 ? &kn_row_round_random : &kn_row_round_random_8, name,
                       inputs, 2, NULL);
}

kn_value *kn_power_below(kn_value *x) {
    return kn_build1(&kn_row_power_of_two, x);
}
