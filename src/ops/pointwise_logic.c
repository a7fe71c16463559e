/* Truth, element by element: what is not 0 is true, and results are bool. */
#include "ops/ops_private.h"

#define TRUTH(row, words, expression, ...)                                                                   \
    KN_POINTWISE(row, .help = words, .value = expression, .result_dtype = KN_BOOL, .fixed_dtype = true,      \
                 __VA_ARGS__)
#define BOTH(x, y) .ranges = {x, y}, .no_gradient = true
#define PAIR_CASES                                                                                           \
    KN_CASES({.inputs = {"bool 7", "bool 7"}, BOTH("0..1", "0..1"), .smallest = true},                       \
             {.inputs = {"bool 31,33", "bool 33"}, BOTH("0..1", "0..1")},                                    \
             {.inputs = {"int32 31,33", "int32 33"}, BOTH("0..1", "-1..1")},                                 \
             {.inputs = {"bool 0,5", "bool 5"}, BOTH("0..1", "0..1")})

TRUTH(and, "whether x and y are true", "x != 0 && y != 0", PAIR_CASES);
TRUTH(or, "whether x or y is true", "x != 0 || y != 0", PAIR_CASES);
TRUTH(xor, "whether one of x and y is true", "(x != 0) != (y != 0)", PAIR_CASES);
TRUTH(not, "whether x is 0", "x == 0",
      KN_CASES({.inputs = {"bool 7"}, .ranges = {"0..1"}, .no_gradient = true, .smallest = true},
               {.inputs = {"bool 31,33"}, .ranges = {"0..1"}, .no_gradient = true},
               {.inputs = {"int32 33"}, .ranges = {"-1..1"}, .no_gradient = true},
               {.inputs = {"bool 0,5"}, .ranges = {"0..1"}, .no_gradient = true}));

#define SPECIAL_CASES                                                                                        \
    KN_CASES({.inputs = {"33"}, .ranges = {"special"}, .no_gradient = true, .smallest = true},               \
             {.inputs = {"31,33"}, .ranges = {"special"}, .no_gradient = true},                              \
             {.inputs = {"int32 33"}, .no_gradient = true}, {.inputs = {"0,5"}, .no_gradient = true})
TRUTH(isnan, "whether x is no number, as bool", "isnan(x)", SPECIAL_CASES);
/* Infinity less infinity is no number. */
TRUTH(isinf, "whether x is infinite, as bool", "!isnan(x) && isnan(x - x)", SPECIAL_CASES);

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_and(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_and, x, y);
}
kn_value *kn_or(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_or, x, y);
}
kn_value *kn_xor(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_xor, x, y);
}
kn_value *kn_not(kn_value *x) {
    return kn_build1(&kn_row_not, x);
}
kn_value *kn_isnan(kn_value *x) {
    return kn_build1(&kn_row_isnan, x);
}
kn_value *kn_isinf(kn_value *x) {
    return kn_build1(&kn_row_isinf, x);
}
