/* Elementwise arithmetic: sums, products, powers, and unary functions. */
#include <math.h>

#include "ops/build.h"
#include "ops/gather/gather.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

KN_POINTWISE(add, .help = "x + y", .value = "x + y", .by = {"g", "g"}, .at_sizes = kn_sum_of_table,
             .identity = KN_IDENTITY_INPUT, .neutral = 0, KN_BINARY_CASES);
KN_POINTWISE(sub, .help = "x - y", .value = "x - y", .by = {"g", "-g"}, KN_BINARY_CASES);
KN_POINTWISE(mul, .help = "x * y", .value = "x * y", .by = {"g * y", "g * x"}, .identity = KN_IDENTITY_INPUT,
             .neutral = 1, KN_BINARY_CASES);
KN_POINTWISE(div, .help = "x / y", .value = "x / y", .by = {"g / y", "-g * r / y"},
             KN_BINARY_CASES_IN(NULL, "0.5..2"), .tolerance = 4);
/* The gradient with respect to the exponent is 0 where x is 0 and the exponent is at least 0. */
KN_POINTWISE(pow, .help = "x to the power y", .value = "pow(x, y)",
             .by = {"y == 0 ? 0 : g * y * pow(x, y - 1)", "x == 0 && y >= 0 ? 0 : g * r * log(x)"},
             KN_CASES({.inputs = {"7", "7"}, .ranges = {"0.25..2", "-2..2"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .ranges = {"0.25..2", "-2..2"}},
                      {.inputs = {"3,1,7", "5,1"}, .ranges = {"0.25..2", "-2..2"}},
                      {.inputs = {"", "3,93"}, .ranges = {"0.25..2", "-2..2"}}, {.inputs = {"0,5", "5"}},
                      {.inputs = {"float64 31,33", "float64 33"},
                       .ranges = {"0.25..2", "-2..2"},
                       .no_gradient = true}),
             .tolerance = 16);
/* Where both are equal, each gets half of the gradient. NaN propagates. */
KN_POINTWISE(min, .help = "the smaller of x and y", .value = "min(x, y)",
             .by = {"x < y ? g : x == y ? 0.5 * g : 0", "x > y ? g : x == y ? 0.5 * g : 0"}, KN_BINARY_CASES);
KN_POINTWISE(max, .help = "the larger of x and y", .value = "max(x, y)",
             .by = {"x > y ? g : x == y ? 0.5 * g : 0", "x < y ? g : x == y ? 0.5 * g : 0"}, KN_BINARY_CASES);

KN_POINTWISE(scale, .help = "x times a constant", KN_ATTRIBUTES(KN_FLOAT("factor", 1, "the constant")),
             .value = "factor * x", .by = {"factor * g"}, .identity = KN_IDENTITY_ATTRIBUTE, .neutral = 1,
             KN_CASES({.inputs = {"7"}, .attributes = "factor=-1.75", .smallest = true},
                      {.inputs = {"31,33"}, .attributes = "factor=0"},
                      {.inputs = {"3,1,93"}, .attributes = "factor=0.1"}, {.inputs = {"0,5"}},
                      {.inputs = {"float64 31,33"}, .attributes = "factor=0.1", .no_gradient = true}));
KN_POINTWISE(shift, .help = "x plus a constant", KN_ATTRIBUTES(KN_FLOAT("summand", 0, "the constant")),
             .value = "x + summand", .by = {"g"}, .identity = KN_IDENTITY_ATTRIBUTE, .neutral = 0,
             KN_CASES({.inputs = {"7"}, .attributes = "summand=-1.75", .smallest = true},
                      {.inputs = {"31,33"}, .attributes = "summand=0.1"}, {.inputs = {"0,5"}}));

KN_POINTWISE(neg, .help = "-x", .value = "-x", .by = {"-g"}, KN_UNARY_CASES);
KN_POINTWISE(exp, .help = "e to the power x", .value = "exp(x)", .by = {"g * r"}, KN_UNARY_CASES,
             .tolerance = 4);
KN_POINTWISE(log, .help = "natural logarithm", .value = "log(x)", .by = {"g / x"},
             KN_UNARY_CASES_IN("0.1..4"), .tolerance = 4);
KN_POINTWISE(sqrt, .help = "square root", .value = "sqrt(x)", .by = {"0.5 * g / r"},
             KN_UNARY_CASES_IN("0.1..4"), .tolerance = 4);
KN_POINTWISE(rsqrt, .help = "reciprocal of the square root", .value = "rsqrt(x)",
             .by = {"-0.5 * g * r * r * r"}, KN_UNARY_CASES_IN("0.1..4"), .tolerance = 4);
KN_POINTWISE(abs, .help = "absolute value of x", .value = "abs(x)", .by = {"x > 0 ? g : x < 0 ? -g : 0"},
             KN_UNARY_CASES);
KN_POINTWISE(sin, .help = "sine", .value = "sin(x)", .by = {"g * cos(x)"}, KN_UNARY_CASES, .tolerance = 4);
KN_POINTWISE(cos, .help = "cosine", .value = "cos(x)", .by = {"-g * sin(x)"}, KN_UNARY_CASES, .tolerance = 4);
/* 1.128… is 2 / sqrt(pi). */
KN_POINTWISE(erf, .help = "error function", .value = "erf(x)", .by = {"1.1283791670955126 * g * exp(-x * x)"},
             KN_UNARY_CASES_IN("-5..5"), .tolerance = 16);

static kn_status clip_shape(kn_shape_call *call) {
    double low = kn_shape_attribute(call, "low")->number, high = kn_shape_attribute(call, "high")->number;
    if (!(low <= high))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "low is above high; low must be the smaller bound");
    if (!kn_dtype_is_float(call->inputs[0]->shape.dtype) && (low != floor(low) || high != floor(high)))
        return kn_shape_fail(call, KN_ERROR_DTYPE,
                             "the input is %s and a bound is fractional; cast the input to float32 first",
                             kn_dtype_name(call->inputs[0]->shape.dtype));
    return kn_shape_like_first(call);
}
KN_POINTWISE(
    clip, .help = "x clamped to [low, high]",
    KN_ATTRIBUTES(KN_FLOAT("low", -INFINITY, "smallest result"),
                  KN_FLOAT("high", INFINITY, "largest result")),
    .shape = clip_shape, .value = "x < low ? low : x > high ? high : x",
    .by = {"x >= low && x <= high ? g : 0"},
    KN_CASES({.inputs = {"7"}, .attributes = "low=-0.5 high=1", .smallest = true},
             {.inputs = {"31,33"}, .attributes = "low=0"}, {.inputs = {"3,1,93"}, .attributes = "high=0.25"},
             {.inputs = {"2,33"}, .attributes = "low=-1 high=1", .ranges = {"special"}, .no_gradient = true},
             {.inputs = {"int32 31"}, .attributes = "low=-1", .no_gradient = true, .smallest = true},
             {.inputs = {"int8 31"}, .attributes = "high=1", .no_gradient = true},
             {.inputs = {"uint8 31"}, .attributes = "low=-5 high=300", .no_gradient = true},
             {.inputs = {"int64 31"}, .no_gradient = true}, {.inputs = {"0,5"}}));

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_add(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_add, x, y);
}
kn_value *kn_sub(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_sub, x, y);
}
kn_value *kn_mul(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_mul, x, y);
}
kn_value *kn_div(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_div, x, y);
}
kn_value *kn_pow(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_pow, x, y);
}
kn_value *kn_min(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_min, x, y);
}
kn_value *kn_max(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_max, x, y);
}
kn_value *kn_neg(kn_value *x) {
    return kn_build1(&kn_row_neg, x);
}
kn_value *kn_exp(kn_value *x) {
    return kn_build1(&kn_row_exp, x);
}
kn_value *kn_log(kn_value *x) {
    return kn_build1(&kn_row_log, x);
}
kn_value *kn_sqrt(kn_value *x) {
    return kn_build1(&kn_row_sqrt, x);
}
kn_value *kn_rsqrt(kn_value *x) {
    return kn_build1(&kn_row_rsqrt, x);
}
kn_value *kn_abs(kn_value *x) {
    return kn_build1(&kn_row_abs, x);
}
kn_value *kn_sin(kn_value *x) {
    return kn_build1(&kn_row_sin, x);
}
kn_value *kn_cos(kn_value *x) {
    return kn_build1(&kn_row_cos, x);
}
kn_value *kn_erf(kn_value *x) {
    return kn_build1(&kn_row_erf, x);
}

kn_value *kn_scale(kn_value *x, double factor) {
    return kn_build_number(&kn_row_scale, x, "factor", factor);
}
kn_value *kn_shift(kn_value *x, double summand) {
    return kn_build_number(&kn_row_shift, x, "summand", summand);
}

kn_value *kn_clip(kn_value *x, double low, double high) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_clip);
    kn_settings_float(&settings, "low", low);
    kn_settings_float(&settings, "high", high);
    return kn_build(&kn_row_clip, &x, 1, &settings);
}
