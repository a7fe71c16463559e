/* Operators that work element by element, with broadcasting. */
#include "exchange/onnx/import.h"

#include <math.h>
#include <stdio.h>

/* ---- operands -------------------------------------------------------------------------------------- */

/* Before opset 7 the second operand stood at an axis of the first, if at all. */
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

static bool one(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    return x && kn_import_put(call, 0, call->row->one(x));
}

static bool two(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = x ? kn_import_in(call, 1) : NULL;
    return y && kn_import_put(call, 0, call->row->two(x, old_operand(call, x, y)));
}

static bool compare(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = x ? kn_import_in(call, 1) : NULL;
    return y && kn_import_put_as(call, 0, call->row->two(x, old_operand(call, x, y)), KN_BOOL);
}

static bool test(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    return x && kn_import_put_as(call, 0, call->row->one(x), KN_BOOL);
}

/* One input or more. */
static bool several(kn_import_call *call) {
    kn_value *result = kn_import_in(call, 0);
    for (int i = 1; i < call->input_count && result; i++) {
        kn_value *next = kn_import_in(call, i);
        if (!next) return false;
        result = call->row->two(result, next);
    }
    return result && kn_import_put(call, 0, result);
}

static bool mean(kn_import_call *call) {
    kn_value *sum = kn_import_in(call, 0);
    for (int i = 1; i < call->input_count && sum; i++) {
        kn_value *next = kn_import_in(call, i);
        if (!next) return false;
        sum = kn_add(sum, next);
    }
    return sum &&
           kn_import_put(call, 0, call->input_count > 1 ? kn_scale(sum, 1.0 / call->input_count) : sum);
}

/* ---- quotients and powers -------------------------------------------------------------------- */

/* Whole numbers are divided as fractions, and cut towards 0. */
static bool divide(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = x ? kn_import_in(call, 1) : NULL;
    if (!y) return false;
    kn_dtype dtype = x->shape.dtype;
    y = old_operand(call, x, y);
    if (kn_dtype_is_float(dtype)) return kn_import_put(call, 0, kn_div(x, y));
    bool wide = kn_dtype_bytes(dtype) > 2;
    kn_dtype fractions = wide ? KN_FLOAT64 : KN_FLOAT32;
    return kn_import_put(call, 0, kn_cast(kn_div(kn_cast(x, fractions), kn_cast(y, fractions)), dtype));
}

static bool power(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = x ? kn_import_in(call, 1) : NULL;
    if (!y) return false;
    kn_dtype dtype = x->shape.dtype;
    if (kn_dtype_is_float(dtype))
        return kn_import_put(call, 0, kn_pow(x, kn_import_cast(old_operand(call, x, y), dtype)));
    kn_value *result = kn_pow(kn_cast(x, KN_FLOAT64), kn_import_cast(y, KN_FLOAT64));
    return kn_import_put(call, 0, kn_cast(kn_round(result), dtype));
}

static bool modulo(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = x ? kn_import_in(call, 1) : NULL;
    if (!y) return false;
    kn_dtype dtype = x->shape.dtype;
    bool fmod = kn_import_int(call, "fmod", 0) != 0;
    if (dtype == KN_UINT64 || dtype == KN_UINT32 || kn_dtype_is_float(dtype) || dtype == KN_INT32 ||
        dtype == KN_INT64)
        return kn_import_put(call, 0, fmod ? kn_fmod(x, y) : kn_mod(x, y));
    x = kn_cast(x, KN_INT32), y = kn_cast(y, KN_INT32);
    return kn_import_put(call, 0, kn_cast(fmod ? kn_fmod(x, y) : kn_mod(x, y), dtype));
}

/* Beyond the width of the type nothing is left but the sign. */
static bool bit_shift(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = x ? kn_import_in(call, 1) : NULL;
    bool right = !strcmp(kn_import_string(call, "direction", "LEFT"), "RIGHT");
    if (!y) return false;
    kn_dtype dtype = x->shape.dtype;
    double most = 8.0 * (double)kn_dtype_bytes(dtype) - 1;
    kn_value *zero = kn_import_scalar(call->import, dtype, 0);
    kn_value *end = kn_import_scalar(call->import, dtype, most);
    kn_value *places = kn_min(kn_max(y, zero), end);
    kn_value *moved = right ? kn_bit_right(x, places) : kn_bit_left(x, places);
    bool is_signed = dtype == KN_INT8 || dtype == KN_INT16 || dtype == KN_INT32 || dtype == KN_INT64;
    kn_value *left = right && is_signed ? kn_bit_right(x, end) : zero;
    return kn_import_put(call, 0, kn_where(kn_equal(y, places), moved, left));
}

static bool bit_not(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x) return false;
    kn_dtype dtype = x->shape.dtype;
    bool is_signed = dtype == KN_INT8 || dtype == KN_INT16 || dtype == KN_INT32 || dtype == KN_INT64;
    double all = is_signed ? -1 : ldexp(1, 8 * (int)kn_dtype_bytes(dtype)) - (dtype == KN_UINT64 ? 0 : 1);
    return kn_import_put(call, 0, kn_bit_xor(x, kn_import_scalar(call->import, dtype, all)));
}

/* ---- choice, types --------------------------------------------------------------------------- */

static bool where(kn_import_call *call) {
    kn_value *condition = kn_import_in(call, 0), *x = condition ? kn_import_in(call, 1) : NULL;
    kn_value *y = x ? kn_import_in(call, 2) : NULL;
    return y && kn_import_put(call, 0, kn_where(condition, x, y));
}

/* Below a byte what is too large loses its upper bits. */
static kn_value *within_bits(const kn_import_call *call, kn_value *x, kn_dtype dtype, int bits) {
    double size = bits == 4 ? 16 : 4, low = dtype == KN_INT8 ? -size / 2 : 0;
    x = kn_cast(kn_cast(x, KN_INT32), KN_FLOAT32);
    kn_value *rounds =
        kn_floor(kn_scale(kn_sub(x, kn_import_scalar(call->import, KN_FLOAT32, low)), 1 / size));
    return kn_cast(kn_sub(x, kn_scale(rounds, size)), dtype);
}

static bool cast_to(kn_import_call *call, kn_dtype dtype, int bits) {
    kn_value *x = kn_import_in(call, 0);
    if (bits && x) {
        call->outputs[0].bits = bits;
        return kn_import_put_as(call, 0, within_bits(call, x, dtype, bits), dtype);
    }
    return x && kn_import_put_as(call, 0, kn_import_cast(x, dtype), dtype);
}

static bool cast(kn_import_call *call) {
    kn_dtype dtype;
    int bits;
    kn_onnx_type to = (kn_onnx_type)kn_import_int(call, "to", 0);
    if (!kn_item_type(to, &dtype, &bits))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "to the type %s, which Koine does not compute with",
                              kn_onnx_type_name(to));
    return cast_to(call, dtype, bits);
}

static bool cast_like(kn_import_call *call) {
    return cast_to(call, kn_import_dtype(call, 1), kn_import_bits(call, 1));
}

static bool identity(kn_import_call *call) {
    const char *name = call->outputs[0].name;
    if (!kn_import_has(call, 0)) return false;
    call->outputs[0] = *call->inputs[0];
    call->outputs[0].name = name;
    return true;
}

static bool is_inf(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x) return false;
    bool below = kn_import_int(call, "detect_negative", 1) != 0,
         above = kn_import_int(call, "detect_positive", 1) != 0;
    kn_value *zero = kn_import_scalar(call->import, x->shape.dtype, 0), *result = kn_isinf(x);
    if (!below) result = kn_and(result, kn_greater(x, zero));
    if (!above) result = kn_and(result, kn_less(x, zero));
    return kn_import_put_as(call, 0, result, KN_BOOL);
}

/* ---- activations ----------------------------------------------------------------------------- */

static bool leaky_relu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    return x && kn_import_put(call, 0, kn_leaky_relu(x, kn_import_float(call, "alpha", 0.01)));
}

static bool elu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    return x && kn_import_put(call, 0, kn_elu(x, kn_import_float(call, "alpha", 1)));
}

static bool celu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    return x && kn_import_put(call, 0, kn_celu(x, kn_import_float(call, "alpha", 1)));
}

static bool thresholded_relu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    return x && kn_import_put(call, 0, kn_thresholded_relu(x, kn_import_float(call, "alpha", 1)));
}

/* gamma * x above 0, gamma * alpha * (exp(x) - 1) below. */
static bool selu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x) return false;
    double alpha = kn_import_float(call, "alpha", 1.67326319217681884765625);
    double gamma = kn_import_float(call, "gamma", 1.05070102214813232421875);
    if (fabs(alpha - 1.6732632) < 1e-6 && fabs(gamma - 1.050701) < 1e-6)
        return kn_import_put(call, 0, kn_selu(x));
    return kn_import_put(call, 0, kn_scale(kn_elu(x, alpha), gamma));
}

static bool hard_sigmoid(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x) return false;
    kn_value *line =
        kn_shift(kn_scale(x, kn_import_float(call, "alpha", 0.2)), kn_import_float(call, "beta", 0.5));
    return kn_import_put(call, 0, kn_clip(line, 0, 1));
}

static bool gelu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    bool tanh = !strcmp(kn_import_string(call, "approximate", "none"), "tanh");
    return x && kn_import_put(call, 0, tanh ? kn_gelu_tanh(x) : kn_gelu(x));
}

static bool swish(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    double alpha = kn_import_float(call, "alpha", 1);
    return x && kn_import_put(call, 0, alpha == 1 ? kn_silu(x) : kn_mul(x, kn_sigmoid(kn_scale(x, alpha))));
}

/* swish(x) * y */
static bool swiglu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = x ? kn_import_in(call, 1) : NULL;
    double alpha = kn_import_float(call, "alpha", 1);
    if (!y) return false;
    return kn_import_put(call, 0,
                         kn_mul(alpha == 1 ? kn_silu(x) : kn_mul(x, kn_sigmoid(kn_scale(x, alpha))), y));
}

/* x + bias below -lambd, x - bias above lambd, 0 between. */
static bool shrink(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x) return false;
    kn_dtype dtype = x->shape.dtype;
    double lambd = kn_import_float(call, "lambd", 0.5), bias = kn_import_float(call, "bias", 0);
    kn_import *import = call->import;
    kn_value *zero = kn_import_scalar(import, dtype, 0);
    kn_value *below = kn_less(x, kn_import_scalar(import, dtype, -lambd));
    kn_value *above = kn_greater(x, kn_import_scalar(import, dtype, lambd));
    kn_value *result = kn_where(below, kn_shift(x, bias), kn_where(above, kn_shift(x, -bias), zero));
    return kn_import_put(call, 0, result);
}

static bool prelu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *slope = x ? kn_import_in(call, 1) : NULL;
    if (!slope) return false;
    if (call->opset < 7 && slope->shape.rank == 1 && x->shape.rank > 2 && slope->shape.dims[0] != 1) {
        /* One for each channel, in those times. */
        kn_dim dims[KN_MAX_RANK];
        for (int i = 0; i < x->shape.rank - 1; i++)
            dims[i] = i ? 1 : slope->shape.dims[0];
        slope = kn_import_reshape(call->import, slope, dims, x->shape.rank - 1);
    }
    if (kn_dtype_is_float(x->shape.dtype)) return kn_import_put(call, 0, kn_prelu(x, slope));
    kn_value *zero = kn_import_scalar(call->import, x->shape.dtype, 0);
    return kn_import_put(call, 0, kn_where(kn_less(x, zero), kn_mul(x, slope), x));
}

/* Bounds that the file holds are attributes of the result; others are values. */
static bool bound(kn_import_call *call, int i, const char *name, double *number, kn_value **value) {
    kn_tensor_info info;
    const void *data;
    *value = NULL;
    if (call->opset < 11) {
        *number = kn_import_float(call, name, *number);
        return true;
    }
    if (!kn_import_has(call, i)) return true;
    kn_item *item = call->inputs[i];
    bool plain = item->tensor || (item->value && item->value->kind == KN_VALUE_CONSTANT);
    if (plain && kn_item_known(call->import, item, &info, &data)) {
        *number = kn_element_get(info.dtype, data, 0);
        return true;
    }
    *value = kn_import_in(call, i);
    return *value != NULL;
}

static bool clip(kn_import_call *call) {
    double low = -INFINITY, high = INFINITY;
    kn_value *least, *most, *x = kn_import_in(call, 0);
    if (!x || !bound(call, 1, "min", &low, &least) || !bound(call, 2, "max", &high, &most)) return false;
    if (low > high) low = high;
    if (least) x = kn_max(x, least);
    if (low > -INFINITY || high < INFINITY) x = kn_clip(x, low, high);
    return kn_import_put(call, 0, most ? kn_min(x, most) : x);
}

/* Outside training it does nothing, whatever the file's own numbers say; its mask says so. */
static bool dropout(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    double rate = call->opset < 12 ? kn_import_float(call, "ratio", 0.5) : 0.5, training = 0;
    kn_import *import = call->import;
    if (!x || (kn_import_has(call, 1) && !kn_import_numbers(call, 1, &rate, 1, NULL)) ||
        (kn_import_has(call, 2) && !kn_import_numbers(call, 2, &training, 1, NULL)))
        return false;
    bool own =
        training != 0 && call->inputs[2]->tensor; /* the file was written in the middle of a training */
    if (own && !kn_import_settle(call)) return false;
    if (training != 0 && rate != 0 && !own)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "asks for training while the model runs; expected training_mode 0");
    if (call->output_count > 1) {
        kn_value *mask =
            kn_import_broadcast(import, kn_import_scalar(import, KN_BOOL, 1), x->shape.dims, x->shape.rank);
        if (!kn_import_put_as(call, 1, mask, KN_BOOL)) return false;
    }
    return kn_import_put(call, 0, rate > 0 && rate < 1 ? kn_dropout(x, rate) : x);
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define ONE(word, function)                                                                                  \
    { .type = word, .build = one, .one = function }
#define TWO(word, function)                                                                                  \
    { .type = word, .build = two, .two = function, .sizes = kn_sizes_binary }
#define COMPARE(word, function)                                                                              \
    { .type = word, .build = compare, .two = function, .sizes = kn_sizes_binary }
const kn_import_row kn_import_arithmetic[] = {
    TWO("Add", kn_add),
    TWO("Sub", kn_sub),
    TWO("Mul", kn_mul),
    {.type = "Div", .build = divide, .sizes = kn_sizes_binary},
    {.type = "Mod", .build = modulo, .sizes = kn_sizes_binary},
    {.type = "Pow", .build = power},
    {.type = "Sum", .build = several, .two = kn_add},
    {.type = "Max", .build = several, .two = kn_max, .sizes = kn_sizes_binary},
    {.type = "Min", .build = several, .two = kn_min, .sizes = kn_sizes_binary},
    {.type = "Mean", .build = mean},
    {.type = "Neg", .build = one, .one = kn_neg, .sizes = kn_sizes_unary},
    {.type = "Abs", .build = one, .one = kn_abs, .sizes = kn_sizes_unary},
    ONE("Exp", kn_exp),
    ONE("Log", kn_log),
    ONE("Sqrt", kn_sqrt),
    ONE("Erf", kn_erf),
    ONE("Sin", kn_sin),
    ONE("Cos", kn_cos),
    ONE("Tan", kn_tan),
    ONE("Asin", kn_asin),
    ONE("Acos", kn_acos),
    ONE("Atan", kn_atan),
    ONE("Sinh", kn_sinh),
    ONE("Cosh", kn_cosh),
    ONE("Asinh", kn_asinh),
    ONE("Acosh", kn_acosh),
    ONE("Atanh", kn_atanh),
    ONE("Floor", kn_floor),
    ONE("Ceil", kn_ceil),
    ONE("Round", kn_round),
    ONE("Sign", kn_sign),
    ONE("Reciprocal", kn_reciprocal),
    ONE("Sigmoid", kn_sigmoid),
    ONE("Tanh", kn_tanh),
    ONE("Relu", kn_relu),
    ONE("Softplus", kn_softplus),
    ONE("Softsign", kn_softsign),
    ONE("HardSwish", kn_hard_swish),
    ONE("Mish", kn_mish),
    {.type = "BitwiseAnd", .build = two, .two = kn_bit_and},
    {.type = "BitwiseOr", .build = two, .two = kn_bit_or},
    {.type = "BitwiseXor", .build = two, .two = kn_bit_xor},
    {.type = "BitwiseNot", .build = bit_not},
    {.type = "BitShift", .build = bit_shift},
    COMPARE("Equal", kn_equal),
    COMPARE("Less", kn_less),
    COMPARE("Greater", kn_greater),
    COMPARE("LessOrEqual", kn_less_equal),
    COMPARE("GreaterOrEqual", kn_greater_equal),
    COMPARE("And", kn_and),
    COMPARE("Or", kn_or),
    COMPARE("Xor", kn_xor),
    {.type = "Not", .build = test, .one = kn_not, .sizes = kn_sizes_unary},
    {.type = "IsNaN", .build = test, .one = kn_isnan},
    {.type = "IsInf", .build = is_inf},
    {.type = "Where", .build = where, .sizes = kn_sizes_where},
    {.type = "Cast", .build = cast, .sizes = kn_sizes_cast},
    {.type = "CastLike", .build = cast_like},
    {.type = "Identity", .build = identity},
    {.type = "LeakyRelu", .build = leaky_relu},
    {.type = "Elu", .build = elu},
    {.type = "Celu", .build = celu},
    {.type = "ThresholdedRelu", .build = thresholded_relu},
    {.type = "Selu", .build = selu},
    {.type = "HardSigmoid", .build = hard_sigmoid},
    {.type = "Gelu", .build = gelu},
    {.type = "Swish", .build = swish},
    {.type = "SwiGLU", .build = swiglu},
    {.type = "Shrink", .build = shrink},
    {.type = "PRelu", .build = prelu},
    {.type = "Clip", .build = clip},
    {.type = "Dropout", .build = dropout},
};
const int kn_import_arithmetic_count = (int)KN_COUNT_OF(kn_import_arithmetic);
