/* Pointwise operators, with broadcasting. The table at the end serves both directions: a row with `op` names
 * the Koine operator that the node is imported as and exported from. */
#include "exchange/onnx/import.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* ---- operands ------------------------------------------------------------------------------------------ */

/* Before opset 7, the second operand was broadcast starting at an explicit axis of the first. */
static kn_value *old_operand(kn_import_call *call, kn_value *x, kn_value *y) {
    kn_dim dims[KN_MAX_RANK];
    int axis = (int)kn_import_int(call, "axis", -1);
    if (call->opset >= 7 || axis < 0 || kn_value_failed(x) || kn_value_failed(y)) return y;
    int more = x->shape.rank - axis - y->shape.rank;
    if (more <= 0) return y;
    for (int i = 0; i < y->shape.rank + more; i++)
        dims[i] = i < y->shape.rank ? y->shape.dims[i] : 1;
    return kn_import_reshape(call->import, y, dims, y->shape.rank + more);
}

/* Applies the row's Koine operator, with the attributes of the node. */
static kn_value *apply(kn_import_call *call, kn_value *const *inputs, int count) {
    const kn_operator *op = kn_operator_find(call->row->op);
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES];
    if (kn_import_status(call) != KN_OK) return inputs[0];
    kn_attributes_defaults(call->graph, op, attributes);
    for (int i = 0; i < op->attribute_count; i++)
        for (int k = 0; k < KN_IMPORT_NUMBERS && call->row->numbers[k].ours; k++) {
            const kn_import_number *number = &call->row->numbers[k];
            if (!strcmp(op->attributes[i].name, number->ours))
                attributes[i].number = kn_import_float(call, number->theirs, number->usual);
        }
    return kn_node_add(call->graph, op, NULL, inputs, count, attributes);
}

static kn_status same(kn_import_call *call) {
    kn_value *inputs[KN_MAX_INPUTS] = {NULL};
    int least, count;
    kn_operator_arity(kn_operator_find(call->row->op), &least, &count);
    for (int i = 0; i < count; i++)
        inputs[i] = kn_import_in(call, i);
    if (count == 2) inputs[1] = old_operand(call, inputs[0], inputs[1]);
    return kn_import_put(call, 0, apply(call, inputs, count));
}

/* Operators with one or more inputs. */
static kn_status several(kn_import_call *call) {
    kn_value *result = kn_import_in(call, 0);
    for (int i = 1; i < call->input_count; i++)
        result = apply(call, (kn_value *[]){result, kn_import_in(call, i)}, 2);
    return kn_import_put(call, 0, result);
}

/* The sum of the inputs, or their mean. */
static kn_status sum(kn_import_call *call) {
    kn_value *result = kn_import_in(call, 0);
    for (int i = 1; i < call->input_count; i++)
        result = kn_add(result, kn_import_in(call, i));
    if (!strcmp(call->node->type, "Mean") && call->input_count > 1)
        result = kn_scale(result, 1.0 / call->input_count);
    return kn_import_put(call, 0, result);
}

/* ---- division and powers ------------------------------------------------------------------------------- */

static kn_status divide(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = old_operand(call, x, kn_import_in(call, 1));
    return kn_import_put(call, 0, kn_dtype_is_float(x->shape.dtype) ? kn_div(x, y) : kn_quotient(x, y));
}

static bool is_two(const kn_value *y) {
    return y->kind == KN_VALUE_CONSTANT && kn_shape_elements(&y->shape) == 1 && y->data &&
           kn_element_get(y->shape.dtype, y->data, 0) == 2;
}

static kn_status power(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = kn_import_in(call, 1);
    kn_dtype dtype = x->shape.dtype;
    /* Much faster than a power. */
    if (kn_dtype_is_float(dtype) && is_two(y) && y->shape.rank <= x->shape.rank)
        return kn_import_put(call, 0, kn_mul(x, x));
    if (kn_dtype_is_float(dtype))
        return kn_import_put(call, 0, kn_pow(x, kn_import_cast(old_operand(call, x, y), dtype)));
    kn_value *result = kn_pow(kn_cast(x, KN_FLOAT64), kn_import_cast(y, KN_FLOAT64));
    /* A power that is a whole number may be computed as slightly less; others are cut. */
    result = kn_dtype_is_float(y->shape.dtype) ? kn_scale(result, 1 + 16 * DBL_EPSILON) : kn_round(result);
    return kn_import_put(call, 0, kn_cast(result, dtype));
}

static kn_status modulo(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = kn_import_in(call, 1);
    kn_dtype dtype = x->shape.dtype;
    bool fmod = kn_import_int(call, "fmod", 0) != 0;
    if (dtype == KN_UINT64 || dtype == KN_UINT32 || kn_dtype_is_float(dtype) || dtype == KN_INT32 ||
        dtype == KN_INT64)
        return kn_import_put(call, 0, fmod ? kn_fmod(x, y) : kn_mod(x, y));
    x = kn_cast(x, KN_INT32), y = kn_cast(y, KN_INT32);
    return kn_import_put(call, 0, kn_cast(fmod ? kn_fmod(x, y) : kn_mod(x, y), dtype));
}

/* Shifts by the type's width or more leave only the sign. */
static kn_status bit_shift(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = kn_import_in(call, 1);
    bool right = !strcmp(kn_import_string(call, "direction", "LEFT"), "RIGHT");
    kn_dtype dtype = x->shape.dtype;
    double most = 8.0 * (double)kn_dtype_bytes(dtype) - 1;
    kn_value *zero = kn_import_scalar(call->import, dtype, 0);
    kn_value *end = kn_import_scalar(call->import, dtype, most);
    kn_value *positions = kn_min(kn_max(y, zero), end);
    kn_value *moved = right ? kn_bit_right(x, positions) : kn_bit_left(x, positions);
    bool is_signed = dtype == KN_INT8 || dtype == KN_INT16 || dtype == KN_INT32 || dtype == KN_INT64;
    kn_value *left = right && is_signed ? kn_bit_right(x, end) : zero;
    return kn_import_put(call, 0, kn_where(kn_equal(y, positions), moved, left));
}

static kn_status bit_not(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dtype dtype = x->shape.dtype;
    bool is_signed = dtype == KN_INT8 || dtype == KN_INT16 || dtype == KN_INT32 || dtype == KN_INT64;
    double all = is_signed ? -1 : ldexp(1, 8 * (int)kn_dtype_bytes(dtype)) - (dtype == KN_UINT64 ? 0 : 1);
    return kn_import_put(call, 0, kn_bit_xor(x, kn_import_scalar(call->import, dtype, all)));
}

/* ---- selection, types ---------------------------------------------------------------------------------- */

/* Values too large for 4 or 2 bits lose their upper bits. */
static kn_value *within_bits(const kn_import_call *call, kn_value *x, kn_dtype dtype, int bits) {
    double size = bits == 4 ? 16 : 4, low = dtype == KN_INT8 ? -size / 2 : 0;
    x = kn_cast(kn_cast(x, KN_INT32), KN_FLOAT32);
    kn_value *rounds =
        kn_floor(kn_scale(kn_sub(x, kn_import_scalar(call->import, KN_FLOAT32, low)), 1 / size));
    return kn_cast(kn_sub(x, kn_scale(rounds, size)), dtype);
}

kn_value *kn_import_small(kn_import_call *call, kn_value *x, kn_dtype dtype) {
    const char *round = kn_import_string(call, "round_mode", "up");
    const bool saturates = kn_import_int(call, "saturate", 1) != 0;
    if (strcmp(round, "up") && strcmp(round, "down") && strcmp(round, "nearest"))
        return kn_import_reject(call, KN_ERROR_FORMAT, "round_mode is '%.50s'; expected up, down or nearest",
                                round);
    char attributes[80];
    snprintf(attributes, sizeof attributes, "dtype=%s saturate=%d round=%s", kn_dtype_name(dtype), saturates,
             round);
    return kn_apply(call->graph, "cast", &x, 1, attributes);
}

static kn_status cast_to(kn_import_call *call, kn_dtype dtype, int bits) {
    kn_value *x = kn_import_in(call, 0);
    if (x && kn_is_small_float(dtype))
        return kn_import_put_as(call, 0, kn_import_small(call, x, dtype), dtype);
    if (bits && x) {
        call->outputs[0].bits = bits;
        return kn_import_put_as(call, 0, within_bits(call, x, dtype, bits), dtype);
    }
    return kn_import_put_as(call, 0, kn_import_cast(x, dtype), dtype);
}

static kn_status cast(kn_import_call *call) {
    kn_dtype dtype;
    int bits;
    kn_onnx_type to = (kn_onnx_type)kn_import_int(call, "to", 0);
    if (!kn_item_type(to, &dtype, &bits))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "casting to type %s is not supported",
                              kn_onnx_type_name(to));
    return cast_to(call, dtype, bits);
}

static kn_status bit_cast(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dtype dtype;
    int bits;
    kn_onnx_type to = (kn_onnx_type)kn_import_int(call, "to", 0);
    if (!kn_item_type(to, &dtype, &bits) || bits || kn_import_bits(call, 0) || kn_is_small_float(dtype))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "bit casting to type %s, or from a type smaller than a byte, is not supported",
                              kn_onnx_type_name(to));
    x = kn_import_cast(x, kn_import_dtype(call, 0)); /* 16-bit floats, as in the file */
    char attribute[40];
    snprintf(attribute, sizeof attribute, "dtype=%s", kn_dtype_name(dtype));
    x = kn_apply(call->graph, "bitcast", &x, 1, attribute);
    return kn_import_put_as(call, 0, kn_import_cast(x, kn_is_half(dtype) ? KN_FLOAT32 : dtype), dtype);
}

static kn_status cast_like(kn_import_call *call) {
    return cast_to(call, kn_import_dtype(call, 1), kn_import_bits(call, 1));
}

static kn_status identity(kn_import_call *call) {
    const char *name = call->outputs[0].name;
    if (!kn_import_has(call, 0)) return kn_import_fail(call, KN_ERROR_FORMAT, "input 0 is missing");
    call->outputs[0] = *call->inputs[0];
    call->outputs[0].name = name;
    return kn_import_status(call);
}

static kn_status is_inf(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    bool below = kn_import_int(call, "detect_negative", 1) != 0,
         above = kn_import_int(call, "detect_positive", 1) != 0;
    kn_value *zero = kn_import_scalar(call->import, x->shape.dtype, 0), *result = kn_isinf(x);
    if (!below) result = kn_and(result, kn_greater(x, zero));
    if (!above) result = kn_and(result, kn_less(x, zero));
    return kn_import_put_as(call, 0, result, KN_BOOL);
}

/* ---- activations --------------------------------------------------------------------------------------- */

/* gamma * x above 0, gamma * alpha * (exp(x) - 1) below. */
static kn_status selu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    double alpha = kn_import_float(call, "alpha", 1.67326319217681884765625);
    double gamma = kn_import_float(call, "gamma", 1.05070102214813232421875);
    if (fabs(alpha - 1.6732632) < 1e-6 && fabs(gamma - 1.050701) < 1e-6)
        return kn_import_put(call, 0, kn_selu(x));
    return kn_import_put(call, 0, kn_scale(kn_elu(x, alpha), gamma));
}

static kn_status gelu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    bool tanh = !strcmp(kn_import_string(call, "approximate", "none"), "tanh");
    return kn_import_put(call, 0, tanh ? kn_gelu_tanh(x) : kn_gelu(x));
}

/* x sigmoid(alpha x), for SwiGLU times a second input. */
static kn_status swish(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const double alpha = kn_import_float(call, "alpha", 1);
    kn_value *y = alpha == 1 ? kn_silu(x) : kn_mul(x, kn_sigmoid(kn_scale(x, alpha)));
    if (!strcmp(call->node->type, "SwiGLU")) y = kn_mul(y, kn_import_in(call, 1));
    return kn_import_put(call, 0, y);
}

/* For integers: x + bias below -lambd, x - bias above lambd, 0 between. */
static kn_status shrink(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dtype dtype = x->shape.dtype;
    if (kn_dtype_is_float(dtype)) return same(call);
    double lambd = kn_import_float(call, "lambd", 0.5), bias = kn_import_float(call, "bias", 0);
    kn_import *import = call->import;
    kn_value *zero = kn_import_scalar(import, dtype, 0);
    kn_value *below = kn_less(x, kn_import_scalar(import, dtype, -lambd));
    kn_value *above = kn_greater(x, kn_import_scalar(import, dtype, lambd));
    kn_value *result = kn_where(below, kn_shift(x, bias), kn_where(above, kn_shift(x, -bias), zero));
    return kn_import_put(call, 0, result);
}

static kn_status prelu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *slope = kn_import_in(call, 1);
    if (call->opset < 7 && slope->shape.rank == 1 && x->shape.rank > 2 && slope->shape.dims[0] != 1) {
        /* One slope per channel, before opset 7. */
        kn_dim dims[KN_MAX_RANK];
        for (int i = 0; i < x->shape.rank - 1; i++)
            dims[i] = i ? 1 : slope->shape.dims[0];
        slope = kn_import_reshape(call->import, slope, dims, x->shape.rank - 1);
    }
    if (kn_dtype_is_float(x->shape.dtype)) return kn_import_put(call, 0, kn_prelu(x, slope));
    kn_value *zero = kn_import_scalar(call->import, x->shape.dtype, 0);
    return kn_import_put(call, 0, kn_where(kn_less(x, zero), kn_mul(x, slope), x));
}

/* A bound that is a constant in the file becomes an attribute, *number, and another one is returned. */
static kn_value *bound(kn_import_call *call, int i, const char *name, double *number) {
    kn_tensor_info info;
    const void *data;
    if (call->opset < 11) *number = kn_import_float(call, name, *number);
    if (call->opset < 11 || !kn_import_has(call, i)) return NULL;
    kn_item *item = call->inputs[i];
    bool plain = item->tensor || (item->value && item->value->kind == KN_VALUE_CONSTANT);
    if (!plain || !kn_item_known(call->import, item, &info, &data)) return kn_import_in(call, i);
    *number = kn_element_get(info.dtype, data, 0);
    return NULL;
}

static kn_status clip(kn_import_call *call) {
    double low = -INFINITY, high = INFINITY;
    kn_value *x = kn_import_in(call, 0);
    kn_value *least = bound(call, 1, "min", &low), *most = bound(call, 2, "max", &high);
    if (low > high) low = high;
    if (least) x = kn_max(x, least);
    if (low > -INFINITY || high < INFINITY) x = kn_clip(x, low, high);
    return kn_import_put(call, 0, most ? kn_min(x, most) : x);
}

/* Dropout does nothing outside training, whatever training_mode is, and its mask is all true. */
static kn_status dropout(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    double rate = call->opset < 12 ? kn_import_float(call, "ratio", 0.5) : 0.5, training = 0;
    kn_import *import = call->import;
    rate = kn_import_input_number(call, 1, rate);
    training = kn_import_input_number(call, 2, training);
    bool own = training != 0 && call->inputs[2]->tensor; /* the file was written during training */
    if (own) kn_import_record_training(call);
    if (training != 0 && rate != 0 && !own)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "training_mode is 1 but not an initializer; expected 0");
    if (kn_import_wants(call, 1)) {
        kn_value *mask =
            kn_import_broadcast(import, kn_import_scalar(import, KN_BOOL, 1), x->shape.dims, x->shape.rank);
        kn_import_put_as(call, 1, mask, KN_BOOL);
    }
    return kn_import_put(call, 0, rate > 0 && rate < 1 ? kn_dropout(x, rate) : x);
}

/* ---- the rows ------------------------------------------------------------------------------------------ */

/* ONNX's name and Koine's. */
#define SAME(word, name) .type = word, .op = name, .build = same
const kn_import_row kn_import_pointwise[] = {
    {SAME("Add", "add"), .sizes = kn_sizes_binary},
    {SAME("Sub", "sub"), .sizes = kn_sizes_binary},
    {SAME("Mul", "mul"), .sizes = kn_sizes_binary},
    {.type = "Div", .op = "div", .build = divide, .sizes = kn_sizes_binary},
    {.type = "Pow", .op = "pow", .build = power},
    {.type = "Max", .op = "max", .build = several, .sizes = kn_sizes_binary},
    {.type = "Min", .op = "min", .build = several, .sizes = kn_sizes_binary},
    {.type = "Mod", .build = modulo, .sizes = kn_sizes_binary},
    {.type = "Sum", .build = sum},
    {.type = "Mean", .build = sum},
    {SAME("Neg", "neg"), .sizes = kn_sizes_unary},
    {SAME("Abs", "abs"), .sizes = kn_sizes_unary},
    {SAME("Exp", "exp")},
    {SAME("Log", "log")},
    {SAME("Sqrt", "sqrt")},
    {SAME("Erf", "erf")},
    {SAME("Sin", "sin")},
    {SAME("Cos", "cos")},
    {SAME("Tan", "tan")},
    {SAME("Asin", "asin")},
    {SAME("Acos", "acos")},
    {SAME("Atan", "atan")},
    {SAME("Sinh", "sinh")},
    {SAME("Cosh", "cosh")},
    {SAME("Asinh", "asinh")},
    {SAME("Acosh", "acosh")},
    {SAME("Atanh", "atanh")},
    {SAME("Floor", "floor"), .sizes = kn_sizes_unary},
    {SAME("Ceil", "ceil"), .sizes = kn_sizes_unary},
    {SAME("Round", "round"), .sizes = kn_sizes_unary},
    {SAME("Sign", "sign")},
    {SAME("Reciprocal", "reciprocal")},
    {SAME("BitwiseAnd", "bit_and")},
    {SAME("BitwiseOr", "bit_or")},
    {SAME("BitwiseXor", "bit_xor")},
    {.type = "BitwiseNot", .build = bit_not},
    {.type = "BitShift", .build = bit_shift},
    {SAME("Equal", "equal"), .sizes = kn_sizes_binary, .texts = 3},
    {SAME("Less", "less"), .sizes = kn_sizes_binary},
    {SAME("Greater", "greater"), .sizes = kn_sizes_binary},
    {SAME("LessOrEqual", "less_equal"), .sizes = kn_sizes_binary},
    {SAME("GreaterOrEqual", "greater_equal"), .sizes = kn_sizes_binary},
    {SAME("And", "and"), .sizes = kn_sizes_binary},
    {SAME("Or", "or"), .sizes = kn_sizes_binary},
    {SAME("Xor", "xor"), .sizes = kn_sizes_binary},
    {SAME("Not", "not"), .sizes = kn_sizes_unary},
    {SAME("IsNaN", "isnan")},
    {.type = "IsInf", .op = "isinf", .build = is_inf},
    {SAME("Where", "where"), .sizes = kn_sizes_where, KN_MOVES_TEXT(6)},
    {.type = "Cast", .build = cast, .sizes = kn_sizes_cast},
    {.type = "CastLike", .build = cast_like},
    {.type = "BitCast", .build = bit_cast},
    {.type = "Identity", .op = "copy", .build = identity, KN_MOVES_TEXT(1)},
    /* activations */
    {SAME("Sigmoid", "sigmoid")},
    {SAME("Tanh", "tanh")},
    {SAME("Relu", "relu")},
    {SAME("LeakyRelu", "leaky_relu"), .numbers = {{"slope", "alpha", 0.01}}},
    {.type = "PRelu", .op = "prelu", .build = prelu},
    {SAME("Elu", "elu"), .numbers = {{"alpha", "alpha", 1}}},
    {SAME("Celu", "celu"), .numbers = {{"alpha", "alpha", 1}}},
    {.type = "Selu", .op = "selu", .build = selu},
    {SAME("Softplus", "softplus")},
    {SAME("Softsign", "softsign")},
    {SAME("HardSigmoid", "hard_sigmoid"), .numbers = {{"alpha", "alpha", 0.2}, {"beta", "beta", 0.5}}},
    {SAME("HardSwish", "hard_swish")},
    {SAME("Mish", "mish")},
    {SAME("ThresholdedRelu", "thresholded_relu"), .numbers = {{"alpha", "alpha", 1}}},
    {.type = "Shrink",
     .op = "shrink",
     .build = shrink,
     .numbers = {{"lambd", "lambd", 0.5}, {"bias", "bias", 0}}},
    {.type = "Gelu", .build = gelu},
    {.type = "Swish", .build = swish},
    {.type = "SwiGLU", .build = swish},
    {.type = "Clip", .build = clip},
    {.type = "Dropout", .build = dropout},
};
const int kn_import_pointwise_count = (int)KN_COUNT_OF(kn_import_pointwise);
