/* Elementwise functions of one and two inputs: rounding, remainders, trigonometric and hyperbolic
 * functions. */
#include "ops/build.h"
#include "ops/row.h"

#define FEW_CASES_IN(range)                                                                                  \
    KN_CASES({.inputs = {"7"}, .ranges = {range}, .smallest = true},                                         \
             {.inputs = {"31,33"}, .ranges = {range}}, {.inputs = {"0,5"}},                                  \
             {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true})

/* ---- rounding: step functions, whose gradient is 0 ---------------------------------------------- */

#define STEP_CASES                                                                                           \
    KN_CASES({.inputs = {"7"}, .ranges = {"-9..9"}, .no_gradient = true, .smallest = true},                  \
             {.inputs = {"31,33"}, .ranges = {"-99..99"}, .no_gradient = true}, {.inputs = {"0,5"}},         \
             {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true},                               \
             {.inputs = {"int32 33"}, .ranges = {"-9..9"}, .no_gradient = true})

KN_POINTWISE(floor, .help = "the largest integer <= x", .value = "floor(x)", STEP_CASES);
KN_POINTWISE(ceil, .help = "the smallest integer >= x", .value = "ceil(x)", STEP_CASES);
KN_POINTWISE(round, .help = "the nearest integer, ties to even", .value = "round(x)", STEP_CASES);
KN_POINTWISE(sign, .help = "1 where x > 0, -1 where x < 0, 0 at 0", .value = "x > 0 ? 1 : x < 0 ? -1 : x",
             STEP_CASES);

/* ---- remainders ------------------------------------------------------------------------------------- */

/* For gradient checks the quotient stays between two integers. */
#define REMAINDER_CASES                                                                                      \
    KN_CASES({.inputs = {"7", "7"}, .ranges = {"5.1..5.4", "2..2.5"}, .smallest = true},                     \
             {.inputs = {"31,33", "33"}, .ranges = {"5.1..5.4", "2..2.5"}},                                  \
             {.inputs = {"3,7", "3,1"}, .ranges = {"-9..9", "0.5..3"}, .no_gradient = true},                 \
             {.inputs = {"3,7", "3,1"}, .ranges = {"-9..9", "-3..-0.5"}, .no_gradient = true},               \
             {.inputs = {"int32 33", "int32 33"}, .ranges = {"-99..99", "1..9"}, .no_gradient = true},       \
             {.inputs = {"int32 33", "int32 33"}, .ranges = {"-99..99", "-9..-1"}, .no_gradient = true},     \
             {.inputs = {"0,5", "5"}})
#define REMAINDER_GRADIENTS .by = {"g", "-g * round((x - r) / y)"}

KN_POINTWISE(mod, .help = "remainder of x / y, with the sign of y",
             .value = "fmod(x, y) < 0 && y > 0 || fmod(x, y) > 0 && y < 0 ? fmod(x, y) + y : fmod(x, y)",
             REMAINDER_GRADIENTS, REMAINDER_CASES);
KN_POINTWISE(fmod, .help = "remainder of x / y, with the sign of x", .value = "fmod(x, y)",
             REMAINDER_GRADIENTS, REMAINDER_CASES);

/* ---- quotients of integers -------------------------------------------------------------------------- */

#define QUOTIENT_CASES                                                                                       \
    KN_CASES(                                                                                                \
        {.inputs = {"int32 7", "int32 7"},                                                                   \
         .ranges = {"-99..99", "-5..-1"},                                                                    \
         .no_gradient = true,                                                                                \
         .smallest = true},                                                                                  \
        {.inputs = {"int32 31,33", "int32 33"},                                                              \
         .ranges = {"-9999999..9999999", "1..9"},                                                            \
         .no_gradient = true},                                                                               \
        {.inputs = {"int32 31,33", "int32 31,1"}, .ranges = {"-99..99", "-2..2"}, .no_gradient = true},      \
        {.inputs = {"int8 33", "int8 33"}, .ranges = {"-128..127", "-3..3"}, .no_gradient = true},           \
        {.inputs = {"uint8 33", "uint8 33"}, .ranges = {"0..255", "0..255"}, .no_gradient = true},           \
        {.inputs = {"int64 33", "int64 33"}, .ranges = {"-9999999..9999999", "-9..9"}, .no_gradient = true}, \
        {.inputs = {"int32 0,5", "int32 5"}, .no_gradient = true})

KN_POINTWISE(quotient, .help = "x / y of integers, rounded toward 0", .value = "quotient(x, y)",
             .only_integers = true, QUOTIENT_CASES);
KN_POINTWISE(floor_quotient, .help = "x / y of integers, rounded down",
             .value = "quotient(x, y) - (fmod(x, y) < 0 && y > 0 || fmod(x, y) > 0 && y < 0)",
             .only_integers = true, QUOTIENT_CASES);

/* ---- unary functions ------------------------------------------------------------------------- */

KN_POINTWISE(reciprocal, .help = "1 / x", .value = "1 / x", .by = {"-g * r * r"}, FEW_CASES_IN("0.5..4"),
             .tolerance = 4);
KN_POINTWISE(log1p, .help = "log(1 + x), accurate near 0", .value = "log1p(x)", .by = {"g / (1 + x)"},
             FEW_CASES_IN("-0.5..4"), .tolerance = 4);
KN_POINTWISE(expm1, .help = "exp(x) - 1, accurate near 0", .value = "expm1(x)", .by = {"g * (r + 1)"},
             FEW_CASES_IN(NULL), .tolerance = 4);
KN_POINTWISE(tan, .help = "tangent", .value = "tan(x)", .by = {"g * (1 + r * r)"}, FEW_CASES_IN("-1.2..1.2"),
             .tolerance = 8);
KN_POINTWISE(asin, .help = "inverse sine", .value = "asin(x)", .by = {"g / sqrt(1 - x * x)"},
             FEW_CASES_IN("-0.9..0.9"), .tolerance = 4);
KN_POINTWISE(acos, .help = "inverse cosine", .value = "acos(x)", .by = {"-g / sqrt(1 - x * x)"},
             FEW_CASES_IN("-0.9..0.9"), .tolerance = 4);
KN_POINTWISE(atan, .help = "inverse tangent", .value = "atan(x)", .by = {"g / (1 + x * x)"},
             FEW_CASES_IN(NULL), .tolerance = 4);
KN_POINTWISE(sinh, .help = "hyperbolic sine", .value = "sinh(x)", .by = {"g * cosh(x)"}, FEW_CASES_IN(NULL),
             .tolerance = 4);
KN_POINTWISE(cosh, .help = "hyperbolic cosine", .value = "cosh(x)", .by = {"g * sinh(x)"}, FEW_CASES_IN(NULL),
             .tolerance = 4);
KN_POINTWISE(asinh, .help = "inverse hyperbolic sine", .value = "asinh(x)", .by = {"g * rsqrt(x * x + 1)"},
             FEW_CASES_IN(NULL), .tolerance = 4);
KN_POINTWISE(acosh, .help = "inverse hyperbolic cosine", .value = "acosh(x)", .by = {"g * rsqrt(x * x - 1)"},
             FEW_CASES_IN("1.2..4"), .tolerance = 8);
KN_POINTWISE(atanh, .help = "inverse hyperbolic tangent", .value = "atanh(x)", .by = {"g / (1 - x * x)"},
             FEW_CASES_IN("-0.9..0.9"), .tolerance = 4);

KN_POINTWISE(atan2, .help = "angle of the point (y, x)", .value = "atan2(x, y)",
             .by = {"g * y / (x * x + y * y)", "-g * x / (x * x + y * y)"},
             KN_CASES({.inputs = {"7", "7"}, .ranges = {NULL, "0.5..2"}, .smallest = true},
                      {.inputs = {"31,33", "33"}, .ranges = {NULL, "0.5..2"}},
                      {.inputs = {"93", "93"}, .ranges = {"-2..-0.1", "-2..2"}},
                      {.inputs = {"93", "93"}, .no_gradient = true}, {.inputs = {"0,5", "5"}}),
             .tolerance = 4);

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_floor(kn_value *x) {
    return kn_build1(&kn_row_floor, x);
}
kn_value *kn_ceil(kn_value *x) {
    return kn_build1(&kn_row_ceil, x);
}
kn_value *kn_round(kn_value *x) {
    return kn_build1(&kn_row_round, x);
}
kn_value *kn_sign(kn_value *x) {
    return kn_build1(&kn_row_sign, x);
}
kn_value *kn_reciprocal(kn_value *x) {
    return kn_build1(&kn_row_reciprocal, x);
}
kn_value *kn_log1p(kn_value *x) {
    return kn_build1(&kn_row_log1p, x);
}
kn_value *kn_expm1(kn_value *x) {
    return kn_build1(&kn_row_expm1, x);
}
kn_value *kn_tan(kn_value *x) {
    return kn_build1(&kn_row_tan, x);
}
kn_value *kn_asin(kn_value *x) {
    return kn_build1(&kn_row_asin, x);
}
kn_value *kn_acos(kn_value *x) {
    return kn_build1(&kn_row_acos, x);
}
kn_value *kn_atan(kn_value *x) {
    return kn_build1(&kn_row_atan, x);
}
kn_value *kn_sinh(kn_value *x) {
    return kn_build1(&kn_row_sinh, x);
}
kn_value *kn_cosh(kn_value *x) {
    return kn_build1(&kn_row_cosh, x);
}
kn_value *kn_asinh(kn_value *x) {
    return kn_build1(&kn_row_asinh, x);
}
kn_value *kn_acosh(kn_value *x) {
    return kn_build1(&kn_row_acosh, x);
}
kn_value *kn_atanh(kn_value *x) {
    return kn_build1(&kn_row_atanh, x);
}
kn_value *kn_mod(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_mod, x, y);
}
kn_value *kn_fmod(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_fmod, x, y);
}
kn_value *kn_quotient(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_quotient, x, y);
}
kn_value *kn_floor_quotient(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_floor_quotient, x, y);
}
kn_value *kn_atan2(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_atan2, x, y);
}
