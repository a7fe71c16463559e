/* Elementwise logic, where nonzero elements are true and results are bool; and bitwise operations on
 * integers. */
#include <stdio.h>
#include <string.h>

#include "ops/build.h"
#include "ops/row.h"
#include "ops/shape/shape.h"

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
TRUTH(xor, "whether exactly one of x and y is true", "(x != 0) != (y != 0)", PAIR_CASES);
TRUTH(not, "whether x is 0", "x == 0",
      KN_CASES({.inputs = {"bool 7"}, .ranges = {"0..1"}, .no_gradient = true, .smallest = true},
               {.inputs = {"bool 31,33"}, .ranges = {"0..1"}, .no_gradient = true},
               {.inputs = {"int32 33"}, .ranges = {"-1..1"}, .no_gradient = true},
               {.inputs = {"bool 0,5"}, .ranges = {"0..1"}, .no_gradient = true}));

#define SPECIAL_CASES                                                                                        \
    KN_CASES({.inputs = {"33"}, .ranges = {"special"}, .no_gradient = true, .smallest = true},               \
             {.inputs = {"31,33"}, .ranges = {"special"}, .no_gradient = true},                              \
             {.inputs = {"int32 33"}, .no_gradient = true}, {.inputs = {"0,5"}, .no_gradient = true})
TRUTH(isnan, "whether x is NaN, as bool", "isnan(x)", SPECIAL_CASES);
/* Infinity minus infinity is NaN. */
TRUTH(isinf, "whether x is infinite, as bool", "!isnan(x) && isnan(x - x)", SPECIAL_CASES);

/* ---- bits ------------------------------------------------------------------------------------ */

#define BITS(row, words, low, high)                                                                          \
    KN_POINTWISE(row, .help = words, .value = #row "(x, y)",                                                 \
                 KN_CASES({.inputs = {"int32 7", "int32 7"},                                                 \
                           .ranges = {low "..99", "0.." high},                                               \
                           .no_gradient = true,                                                              \
                           .smallest = true},                                                                \
                          {.inputs = {"int32 31,33", "int32 33"},                                            \
                           .ranges = {low "..999", "0.." high},                                              \
                           .no_gradient = true},                                                             \
                          {.inputs = {"int32 0,5", "int32 5"}, .no_gradient = true}))

BITS(bit_and, "bitwise and of x and y", "-99", "99");
BITS(bit_or, "bitwise or of x and y", "-99", "99");
BITS(bit_xor, "bitwise exclusive or of x and y", "-99", "99");
BITS(bit_left, "x shifted left by y bits", "0", "9");
BITS(bit_right, "x shifted right by y bits", "-99", "9");

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
kn_value *kn_bit_and(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_bit_and, x, y);
}
kn_value *kn_bit_or(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_bit_or, x, y);
}
kn_value *kn_bit_xor(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_bit_xor, x, y);
}
kn_value *kn_bit_left(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_bit_left, x, y);
}
kn_value *kn_bit_right(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_bit_right, x, y);
}
/* In one kernel: (...,bytes,1) shifted right by (each). */
kn_value *kn_unpack_bits(kn_value *x, int bits) {
    if (kn_value_failed(x)) return x;
    const int rank = x->shape.rank;
    if (bits != 4 && bits != 2 && bits != 1)
        return kn_graph_fail(x->graph, KN_ERROR_ARGUMENT, "unpack_bits: bits is %d; expected 4, 2 or 1",
                             bits);
    if (x->shape.dtype != KN_UINT8 || rank < 1 || rank == KN_MAX_RANK)
        return kn_graph_fail(x->graph, KN_ERROR_SHAPE, "unpack_bits: x is %s; expected uint8 (...,bytes)",
                             kn_shape_words(x->graph, &x->shape));
    const int each = 8 / bits;
    uint8_t places[8];
    char count[8];
    kn_dim dims[KN_MAX_RANK];
    for (int i = 0; i < each; i++)
        places[i] = (uint8_t)(i * bits);
    snprintf(count, sizeof count, "%d", each);
    memcpy(dims, x->shape.dims, (size_t)rank * sizeof *dims);
    dims[rank] = 1;
    kn_value *moved = kn_bit_right(kn_reshape_to(x, rank + 1, dims),
                                   kn_constant(x->graph, KN_UINT8, count, places, (size_t)each));
    kn_value *codes = kn_bit_and(moved, kn_cast(kn_scalar(x->graph, (1 << bits) - 1), KN_UINT8));
    dims[rank - 1] = kn_dim_multiply(x->graph, dims[rank - 1], each);
    return kn_reshape_to(codes, rank, dims);
}
kn_value *kn_isnan(kn_value *x) {
    return kn_build1(&kn_row_isnan, x);
}
kn_value *kn_isinf(kn_value *x) {
    return kn_build1(&kn_row_isinf, x);
}
