/* Elementwise comparisons, selection and type conversion. */
#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* Integers, so that equal elements occur. */
#define COMPARISON_CASES                                                                                     \
    KN_CASES({.inputs = {"int32 7", "int32 7"}, .no_gradient = true, .smallest = true},                      \
             {.inputs = {"31,33", "33"}, .no_gradient = true},                                               \
             {.inputs = {"int32 3,1,7", "int32 5,1"}, .no_gradient = true},                                  \
             {.inputs = {"0,5", "5"}, .no_gradient = true},                                                  \
             {.inputs = {"2,33", "2,33"}, .ranges = {"special", "special"}, .no_gradient = true})
#define COMPARISON(row, words, expression)                                                                   \
    KN_POINTWISE(row, .help = words, .value = expression, .result_dtype = KN_BOOL, .fixed_dtype = true,      \
                 COMPARISON_CASES)

COMPARISON(equal, "x = y, as bool", "x == y");
COMPARISON(not_equal, "x differs from y, as bool", "x != y");
COMPARISON(less, "x < y, as bool", "x < y");
COMPARISON(less_equal, "x <= y, as bool", "x <= y");
COMPARISON(greater, "x > y, as bool", "x > y");
COMPARISON(greater_equal, "x >= y, as bool", "x >= y");

KN_POINTWISE(where, .help = "y where x is true, z elsewhere", .value = "x != 0 ? y : z",
             .by = {NULL, "x != 0 ? g : 0", "x != 0 ? 0 : g"}, .mixed_inputs = true,
             KN_CASES({.inputs = {"bool 7", "7", "7"}, .ranges = {"0..1"}, .smallest = true},
                      {.inputs = {"bool 31,33", "33", "31,1"}, .ranges = {"0..1"}},
                      {.inputs = {"bool 3,1,7", "5,1", ""}, .ranges = {"0..1"}},
                      {.inputs = {"bool 0,5", "5", "1"}, .ranges = {"0..1"}},
                      {.inputs = {"bool 2,31", "2,31", "31"},
                       .ranges = {"0..1", "special", "special"},
                       .no_gradient = true},
                      {.inputs = {"bool 31,33", "float64 33", "float64 31,1"},
                       .ranges = {"0..1"},
                       .no_gradient = true}));

KN_POINTWISE(in_training, .help = "y in training, x in inference", .training_only = true, .value = "y",
             .by = {NULL, "g"},
             KN_CASES({.inputs = {"7", "7"}, .training = true, .smallest = true},
                      {.inputs = {"31,33", "31,33"}, .training = true},
                      {.inputs = {"0,5", "0,5"}, .training = true},
                      {.inputs = {"3,5", "3,5"}, .no_gradient = true}));

/* ---- cast ------------------------------------------------------------------------------------- */

enum { BOOL_POSITION = 12 };
_Static_assert((int)KN_BOOL == BOOL_POSITION, "the expression of cast uses the number of bool");

/* x has any shape; the result has the same shape. */
static kn_status cast_shape(kn_shape_call *call) {
    call->outputs[0] = call->inputs[0]->shape;
    call->outputs[0].dtype = (kn_dtype)kn_shape_attribute(call, "dtype")->integer;
    return KN_OK;
}

static kn_status cast_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    kn_dtype from = node->inputs[0]->shape.dtype;
    if (!call->wanted[0] || !call->output_gradients[0] || !kn_dtype_is_float(from) ||
        !kn_dtype_is_float(node->outputs[0]->shape.dtype))
        return KN_OK;
    call->input_gradients[0] = kn_gradient_cast(call, call->output_gradients[0], from);
    return kn_gradient_status(call);
}

/* Rounds to the precision of the type; float32 results are not rounded, as in all references. */
static kn_status cast_reference(kn_reference_call *call) {
    kn_dtype dtype = call->outputs[0].shape.dtype;
    const kn_small_float *small = kn_small_float_of(dtype);
    const bool saturates = kn_attribute_of(call->node, "saturate")->integer;
    const kn_power_rounding rounding = (kn_power_rounding)kn_attribute_of(call->node, "round")->integer;
    for (int64_t i = 0; i < call->outputs[0].elements; i++) {
        uint64_t element = 0;
        double x = call->inputs[0].data[i];
        if (dtype == KN_BOOL) {
            x = x != 0;
        } else if (small) {
            x = kn_small_float_number(small, kn_small_float_code(small, (float)x, saturates, rounding));
        } else if (dtype != KN_FLOAT32) {
            kn_element_set(dtype, &element, 0, x);
            x = kn_element_get(dtype, &element, 0);
        }
        call->outputs[0].data[i] = x;
    }
    return KN_OK;
}

/* Storage-only types: beyond their largest numbers, with and without saturation, and back. */
#define TO_SMALL(type, range, settings)                                                                      \
    { .inputs = {"93,33"}, .ranges = {range}, .attributes = "dtype=" type settings, .no_gradient = true }
#define FROM_SMALL(type, range)                                                                              \
    { .inputs = {type " 31,33"}, .ranges = {range}, .attributes = "dtype=float32", .no_gradient = true }
#define SMALL_FLOAT_CASES                                                                                    \
    TO_SMALL("float8e4m3fn", "-500..500", ""), TO_SMALL("float8e4m3fn", "-500..500", " saturate=false"),     \
        TO_SMALL("float8e4m3fnuz", "-300..300", ""),                                                         \
        TO_SMALL("float8e4m3fnuz", "special", " saturate=false"), TO_SMALL("float8e5m2", "-7e4..7e4", ""),   \
        TO_SMALL("float8e5m2", "-7e4..7e4", " saturate=false"), TO_SMALL("float8e5m2fnuz", "special", ""),   \
        TO_SMALL("float8e5m2fnuz", "-1e-4..1e-4", ""), TO_SMALL("float8e8m0", "0..9", ""),                   \
        TO_SMALL("float8e8m0", "0..9", " round=down"),                                                       \
        TO_SMALL("float8e8m0", "special", " round=nearest saturate=false"),                                  \
        TO_SMALL("float4e2m1", "-7..7", ""), TO_SMALL("float4e2m1", "special", ""),                          \
        FROM_SMALL("float8e4m3fn", "-16..16"), FROM_SMALL("float8e4m3fnuz", "-16..16"),                      \
        FROM_SMALL("float8e5m2", "-8..8"), FROM_SMALL("float8e5m2fnuz", "-8..8"),                            \
        FROM_SMALL("float8e8m0", "1..2"), FROM_SMALL("float4e2m1", "-4..4"),                                 \
        {.inputs = {"float16 93"}, .attributes = "dtype=float8e4m3fn", .no_gradient = true},                 \
        {.inputs = {"bfloat16 93"}, .attributes = "dtype=float8e5m2", .no_gradient = true},                  \
        {.inputs = {"float8e5m2 93"}, .attributes = "dtype=float8e4m3fn", .no_gradient = true},              \
        {.inputs = {"float8e4m3fn 93"}, .attributes = "dtype=float16", .no_gradient = true},                 \
        {.inputs = {"float4e2m1 93"}, .attributes = "dtype=int32", .no_gradient = true}, {                   \
        .inputs = {"int32 93"}, .attributes = "dtype=float8e4m3fnuz", .no_gradient = true                    \
    }

KN_POINTWISE(
    cast, .help = "converts to another type",
    KN_ATTRIBUTES(KN_RESULT_DTYPE,
                  KN_BOOLEAN("saturate", 1,
                             "for 8-bit types: overflow gives the largest number instead of infinity or NaN"),
                  KN_CHOICE("round", "up down nearest", 0, "for float8e8m0: the power of two to choose")),
    .any_type = true, .identity = KN_IDENTITY_ALWAYS, .shape = cast_shape, .gradient = cast_gradient,
    .reference = cast_reference, .value = "dtype == 12 ? x != 0 : x", .by = {"g"},
    KN_CASES({.inputs = {"int32 7"}, .attributes = "dtype=float32", .no_gradient = true, .smallest = true},
             {.inputs = {"31,33"}, .attributes = "dtype=int32", .ranges = {"-90..90"}, .no_gradient = true},
             {.inputs = {"31,33"}, .attributes = "dtype=uint8", .ranges = {"0..200"}, .no_gradient = true},
             {.inputs = {"int32 93"}, .attributes = "dtype=bool", .no_gradient = true},
             {.inputs = {"bool 7,3"}, .attributes = "dtype=float32", .ranges = {"0..1"}, .no_gradient = true},
             {.inputs = {"3,7"}, .attributes = "dtype=float32"},
             {.inputs = {"float64 3,7"}, .attributes = "dtype=float32", .no_gradient = true},
             {.inputs = {"31,33"}, .attributes = "dtype=float64", .no_gradient = true},
             {.inputs = {"31,33"}, .attributes = "dtype=float16", .no_gradient = true},
             {.inputs = {"float16 3,7"}, .attributes = "dtype=bfloat16", .no_gradient = true},
             {.inputs = {"bfloat16 93"}, .attributes = "dtype=float32", .no_gradient = true},
             SMALL_FLOAT_CASES,
             {.inputs = {"int32 0,5"}, .attributes = "dtype=float32", .no_gradient = true}));

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_equal(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_equal, x, y);
}
kn_value *kn_not_equal(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_not_equal, x, y);
}
kn_value *kn_less(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_less, x, y);
}
kn_value *kn_less_equal(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_less_equal, x, y);
}
kn_value *kn_greater(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_greater, x, y);
}
kn_value *kn_greater_equal(kn_value *x, kn_value *y) {
    return kn_build2(&kn_row_greater_equal, x, y);
}

kn_value *kn_where(kn_value *condition, kn_value *x, kn_value *y) {
    kn_value *inputs[3] = {condition, x, y};
    return kn_build(&kn_row_where, inputs, 3, NULL);
}

kn_value *kn_cast(kn_value *x, kn_dtype dtype) {
    if (kn_value_failed(x)) return x;
    if (!kn_dtype_bytes(dtype))
        return kn_graph_fail(x->graph, KN_ERROR_DTYPE, "cast: unknown element type %d; use one of kn_dtype",
                             (int)dtype);
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_cast);
    kn_settings_int(&settings, "dtype", dtype);
    return kn_build(&kn_row_cast, &x, 1, &settings);
}
