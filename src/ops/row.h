/* Macros to write rows of the operator table. */
#ifndef KN_OPS_ROW_H
#define KN_OPS_ROW_H

#include "ops/ops.h"

/* A row is a constant called kn_row_NAME, listed in table.c:
 *   KN_POINTWISE(neg, .help = "-x", .value = "-x", .by = {"-g"}, KN_UNARY_CASES);  */
#define KN_OPERATOR(row, ...) const kn_operator kn_row_##row = {.name = #row, __VA_ARGS__}
#define KN_POINTWISE(row, ...) KN_OPERATOR(row, .class = KN_CLASS_POINTWISE, __VA_ARGS__)

/* The attribute of that name in `values`, which are the row's; NULL: not found. */
kn_attribute_value *kn_row_attribute(const kn_operator *row, kn_attribute_value *values, const char *name);
/* Writes "no attribute 'widht'; it has 'width', 'stride'" to `text` and returns it. */
const char *kn_row_no_attribute(const kn_operator *row, const char *name, char *text, size_t room);

/* The attribute of rows whose result can have any type. */
#define KN_DTYPE_WORD(name, number, text, bytes) text " "
#define KN_RESULT_DTYPE KN_CHOICE("dtype", KN_DTYPE_LIST(KN_DTYPE_WORD), 0, "type of the result")

/* ---- common cases ------------------------------------------------------------------------- */

/* Cases for one input: odd sizes, empty tensors, and infinities and NaN. */
#define KN_UNARY_CASES_IN(range)                                                                             \
    KN_CASES({.inputs = {"7"}, .ranges = {range}, .smallest = true},                                         \
             {.inputs = {"31,33"}, .ranges = {range}}, {.inputs = {"3,1,93"}, .ranges = {range}},            \
             {.inputs = {""}, .ranges = {range}}, {.inputs = {"0,5"}},                                       \
             {.inputs = {"2,33"}, .ranges = {"special"}, .no_gradient = true})
#define KN_UNARY_CASES KN_UNARY_CASES_IN(NULL)
/* For two inputs: equal shapes, and kinds of broadcasting. */
#define KN_BINARY_CASES_IN(x, y)                                                                             \
    KN_CASES({.inputs = {"7", "7"}, .ranges = {x, y}, .smallest = true},                                     \
             {.inputs = {"31,33", "33"}, .ranges = {x, y}}, {.inputs = {"3,1,7", "5,1"}, .ranges = {x, y}},  \
             {.inputs = {"", "3,93"}, .ranges = {x, y}}, {.inputs = {"2,3,7,5", "3,1,1"}, .ranges = {x, y}}, \
             {.inputs = {"0,5", "5"}},                                                                       \
             {.inputs = {"2,31", "2,31"}, .ranges = {"special", "special"}, .no_gradient = true})
#define KN_BINARY_CASES KN_BINARY_CASES_IN(NULL, NULL)

#endif
