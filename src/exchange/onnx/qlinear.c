/* ONNX Runtime's quantized operators, which its quantizer writes besides ONNX's: inputs are dequantized,
 * computed in float32 and quantized again; products of bytes are computed as integers. */
#include "exchange/onnx/window.h"

/* Input i, which must be given, a single number, as a scalar in float32. */
static kn_value *scale_of(kn_import_call *call, int i) {
    kn_value *scale = kn_import_has(call, i) ? kn_import_input_scalar(call, i) : kn_import_in(call, i);
    return kn_import_cast(scale, KN_FLOAT32);
}

/* Dequantizes input i with the scale and zero point in other inputs. */
static kn_value *numbers_of(kn_import_call *call, int i, int scale_at, int zero_at) {
    kn_value *x = kn_import_in(call, i), *scale = scale_of(call, scale_at);
    return kn_mul(kn_import_without_zero(x, kn_import_input_scalar(call, zero_at), KN_FLOAT32), scale);
}

/* Sets output 0 to y, quantized with a scale and zero point from inputs; without a zero point it has the type
 * of input 0. */
static kn_status put_quantized(kn_import_call *call, kn_value *y, int scale_at, int zero_at) {
    const kn_dtype dtype = kn_import_dtype(call, kn_import_has(call, zero_at) ? zero_at : 0);
    y = kn_div(y, scale_of(call, scale_at));
    kn_value *zero = kn_import_input_scalar(call, zero_at);
    return kn_import_put_as(call, 0, kn_import_to_quantized(call, y, zero, dtype, 0), dtype);
}

/* ---- element by element -------------------------------------------------------------------------------- */

static kn_status binary(kn_import_call *call) {
    kn_value *x = numbers_of(call, 0, 1, 2), *y = numbers_of(call, 3, 4, 5);
    bool adds = !strcmp(call->node->type, "QLinearAdd");
    return put_quantized(call, adds ? kn_add(x, y) : kn_mul(x, y), 6, 7);
}

static kn_status unary(kn_import_call *call) {
    kn_value *x = numbers_of(call, 0, 1, 2);
    const char *type = call->node->type;
    kn_value *y = !strcmp(type, "QLinearSigmoid") ? kn_sigmoid(x)
                  : !strcmp(type, "QLinearSoftmax")
                      ? kn_import_softmax(call, x, kn_import_int(call, "opset", 13), false)
                      : kn_leaky_relu(x, kn_import_float(call, "alpha", 0.01));
    return put_quantized(call, y, 3, 4);
}

static kn_status choice(kn_import_call *call) {
    kn_value *condition = kn_import_in(call, 0), *x = numbers_of(call, 1, 2, 3),
             *y = numbers_of(call, 4, 5, 6);
    return put_quantized(call, kn_where(condition, x, y), 7, 8);
}

/* The scale and zero point of the result come first, then each tensor with its scale and zero point. */
static kn_status concat(kn_import_call *call) {
    kn_value *parts[KN_MAX_INPUTS];
    const int count = (call->input_count - 2) / 3;
    if (count < 1 || count > KN_MAX_INPUTS || call->input_count != 3 * count + 2)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "has %d inputs; expected 2, plus 3 for each of 1 to %d tensors",
                              call->input_count, KN_MAX_INPUTS);
    for (int i = 0; i < count; i++)
        parts[i] = numbers_of(call, 3 * i + 2, 3 * i + 3, 3 * i + 4);
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", 0), parts[0]->shape.rank);
    return put_quantized(call, count == 1 ? parts[0] : kn_concat(parts, (size_t)count, axis), 0, 1);
}

/* ---- means --------------------------------------------------------------------------------------------- */

static kn_status average_pool(kn_import_call *call) {
    kn_value *x = numbers_of(call, 0, 1, 2);
    bool last = kn_import_int(call, "channels_last", 0) != 0;
    kn_window w;
    if (last) x = kn_import_channels_second(call->import, x);
    if (!strcmp(call->node->type, "QLinearGlobalAveragePool")) {
        int64_t axes[KN_MAX_RANK];
        if (x->shape.rank < 3) return kn_import_fail(call, KN_ERROR_SHAPE, "expected (N,C,…)");
        for (int i = 2; i < x->shape.rank; i++)
            axes[i - 2] = i;
        x = kn_mean(x, kn_import_list(call->import, axes, x->shape.rank - 2), true);
    } else {
        if (kn_window_take_pool(call, x, &w) != KN_OK) return kn_import_status(call);
        x = kn_window_pool(call, x, &w, KN_POOL_AVERAGE);
    }
    if (last) x = kn_import_channels_last(call->import, x);
    return put_quantized(call, x, 3, 4);
}

/* The axes of the node as text; "" for all. */
static const char *axes_of(kn_import_call *call) {
    int64_t axes[KN_MAX_RANK];
    const int count = kn_import_ints(call, "axes", axes, KN_MAX_RANK);
    return kn_import_list(call->import, axes, count < 0 ? 0 : count);
}

static kn_status reduce_mean(kn_import_call *call) {
    kn_value *x = numbers_of(call, 0, 1, 2);
    return put_quantized(call, kn_mean(x, axes_of(call), kn_import_int(call, "keepdims", 1) != 0), 3, 4);
}

/* ---- integer sums -------------------------------------------------------------------------------------- */

static kn_status reduce_sum(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dtype dtype = kn_import_dtype(call, 0) == KN_UINT8 ? KN_UINT32 : KN_INT32;
    x = kn_sum(kn_cast(x, dtype), axes_of(call), kn_import_int(call, "keepdims", 1) != 0);
    return kn_import_put_as(call, 0, x, dtype);
}

static kn_status mul_integer(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = kn_import_in(call, 2);
    kn_value *x_zero = kn_import_input_scalar(call, 1), *y_zero = kn_import_input_scalar(call, 3);
    y = kn_mul(kn_import_without_zero(x, x_zero, KN_INT32), kn_import_without_zero(y, y_zero, KN_INT32));
    return kn_import_put_as(call, 0, y, KN_INT32);
}

static kn_status matmul_integer_16(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = kn_import_in(call, 1);
    kn_dtype dtype =
        kn_import_dtype(call, 0) == KN_UINT16 && kn_import_dtype(call, 1) == KN_UINT16 ? KN_UINT32 : KN_INT32;
    y = kn_matmul(kn_cast(x, KN_FLOAT64), kn_cast(y, KN_FLOAT64), false, false);
    return kn_import_put_as(call, 0, kn_cast(y, dtype), dtype);
}

/* Scales integer sums of products. */
static kn_value *scaled(kn_value *sums, kn_value *x_scale, kn_value *y_scale) {
    return kn_mul(kn_import_cast(sums, KN_FLOAT32), kn_mul(x_scale, y_scale));
}

/* a is quantized at run time to uint8, with one scale. */
static kn_status dynamic_matmul(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1), *b_scale = scale_of(call, 2);
    kn_value *b_zero = kn_import_input_scalar(call, 3), *bias = kn_import_optional(call, 4), *a_scale,
             *a_zero;
    a = kn_import_quantize_dynamically(call, a, &a_scale, &a_zero);
    kn_value *y = scaled(kn_import_integer_product(a, a_zero, b, b_zero), a_scale, b_scale);
    return kn_import_put(call, 0, bias ? kn_add(y, bias) : y);
}

static kn_status matmul_to_float(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1);
    kn_value *a_scale = scale_of(call, 2), *b_scale = scale_of(call, 3);
    kn_value *a_zero = kn_import_input_scalar(call, 4), *b_zero = kn_import_input_scalar(call, 5);
    kn_value *bias = kn_import_optional(call, 6);
    kn_value *y = scaled(kn_import_integer_product(a, a_zero, b, b_zero), a_scale, b_scale);
    return kn_import_put(call, 0, bias ? kn_add(y, bias) : y);
}

/* alpha * (a b + c), where c is an integer with the scale of a times the scale of b. */
static kn_status gemm(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 3);
    kn_value *a_scale = scale_of(call, 1), *a_zero = kn_import_input_scalar(call, 2);
    kn_value *b_scale = scale_of(call, 4), *b_zero = kn_import_input_scalar(call, 5);
    kn_value *c = kn_import_optional(call, 6);
    if (kn_import_int(call, "transA", 0)) a = kn_transpose(a, "1,0");
    if (kn_import_int(call, "transB", 0)) b = kn_transpose(b, "1,0");
    kn_value *sums = kn_import_integer_product(a, a_zero, b, b_zero);
    if (c) sums = kn_add(sums, kn_import_cast(c, kn_value_dtype(sums)));
    kn_value *y = scaled(sums, a_scale, b_scale);
    double alpha = kn_import_float(call, "alpha", 1);
    if (alpha != 1) y = kn_scale(y, alpha);
    return kn_import_has(call, 7) ? put_quantized(call, y, 7, 8) : kn_import_put_as(call, 0, y, KN_FLOAT32);
}

const kn_import_row kn_import_qlinear[] = {
    KN_OF_MICROSOFT("QLinearAdd", binary),
    KN_OF_MICROSOFT("QLinearMul", binary),
    KN_OF_MICROSOFT("QLinearSigmoid", unary),
    KN_OF_MICROSOFT("QLinearLeakyRelu", unary),
    KN_OF_MICROSOFT("QLinearSoftmax", unary),
    KN_OF_MICROSOFT("QLinearWhere", choice),
    KN_OF_MICROSOFT("QLinearConcat", concat),
    KN_OF_MICROSOFT("QLinearAveragePool", average_pool),
    KN_OF_MICROSOFT("QLinearGlobalAveragePool", average_pool),
    KN_OF_MICROSOFT("QLinearReduceMean", reduce_mean),
    KN_OF_MICROSOFT("ReduceSumInteger", reduce_sum),
    KN_OF_MICROSOFT("MulInteger", mul_integer),
    KN_OF_MICROSOFT("MatMulInteger16", matmul_integer_16),
    KN_OF_MICROSOFT("MatMulIntegerToFloat", matmul_to_float),
    KN_OF_MICROSOFT("DynamicQuantizeMatMul", dynamic_matmul),
    KN_OF_MICROSOFT("QGemm", gemm),
};
const int kn_import_qlinear_count = (int)KN_COUNT_OF(kn_import_qlinear);
