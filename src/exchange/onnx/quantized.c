/* Quantized numbers: small integers or floats with a scale and a zero point. Products of bytes are computed
 * as integers; other products in floating point, which is exact as long as it represents the sums. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

/* With more products of bytes, a sum may exceed the integers that float32 represents exactly. */
enum { EXACT_PRODUCTS = 256 };
/* With more products of bytes, a sum may exceed int32: what a file dequantizes has no such limit. */
enum { MAX_BYTE_PRODUCTS = INT32_MAX / (255 * 255) };

static void range_of(kn_dtype dtype, int bits, double *low, double *high) {
    double size = ldexp(1, bits ? bits : (int)kn_dtype_bytes(dtype) * 8);
    bool is_signed = dtype <= KN_INT64;
    *low = is_signed ? -size / 2 : 0;
    *high = is_signed ? size / 2 - 1 : size - 1;
}

kn_value *kn_import_to_quantized(kn_import_call *call, kn_value *x, kn_value *zero, kn_dtype dtype,
                                 int bits) {
    double low, high;
    const bool small = kn_is_small_float(dtype);
    if (!small) x = kn_round(x);
    if (zero) x = kn_add(x, kn_import_cast(zero, KN_FLOAT32));
    if (small) return kn_import_small(call, x, dtype);
    range_of(dtype, bits, &low, &high);
    return kn_cast(kn_clip(x, low, high), dtype);
}

/* Input i, a scale or zero point, reshaped to broadcast to x: a scalar, one element per index of an axis, or
 * one per block along it. */
static kn_value *along(kn_import_call *call, int i, const kn_value *x) {
    kn_value *value = kn_import_in(call, i);
    int64_t block = kn_import_int(call, "block_size", 0);
    kn_dim dims[KN_MAX_RANK];
    int axis = 0, rank = x->shape.rank;
    if (value->shape.rank == 0) return value;
    if (kn_is_small_float(value->shape.dtype)) value = kn_cast(value, KN_FLOAT32);
    bool single = value->shape.rank == 1 && value->shape.dims[0] == 1;
    if (single) return kn_import_reshape(call->import, value, NULL, 0);
    axis = kn_import_axis(call, kn_import_int(call, "axis", 1), rank);
    if (block > 0) {
        value = kn_repeat(value, axis, block);
        return value->shape.dims[axis] == x->shape.dims[axis] ? value
                                                              : kn_slice(value, axis, 0, x->shape.dims[axis]);
    }
    if (value->shape.rank != 1) return value;
    for (int k = 0; k < rank; k++)
        dims[k] = k == axis ? value->shape.dims[0] : 1;
    return kn_import_reshape(call->import, value, dims, rank);
}

/* The zero point, reshaped to broadcast to x; NULL if there is none. The zero point of 8-bit floats is 0 by
 * definition, and omitted, since adding it would change -0 to 0. */
static kn_value *zero_along(kn_import_call *call, const kn_value *x) {
    const kn_item *item = kn_import_has(call, 2) ? call->inputs[2] : NULL;
    if (!item) return NULL;
    if (!kn_is_small_float(item->dtype) || item->dtype == KN_FLOAT4E2M1) return along(call, 2, x);
    for (uint64_t i = 0; item->tensor && i < item->tensor->count; i++)
        if (kn_onnx_tensor_number(item->tensor, i) != 0)
            kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the zero point of %s must be 0",
                           kn_dtype_name(item->dtype));
    return NULL;
}

/* x, computed in float32, rounded to a type with fewer bits. */
static kn_value *in_precision(kn_value *x, kn_dtype dtype) {
    return kn_is_half(dtype) ? kn_import_cast(kn_import_cast(x, dtype), KN_FLOAT32) : x;
}

/* The type of x / scale: the requested type, or the common type of both. */
static kn_dtype quotient_type(kn_import_call *call) {
    const kn_onnx_type asked = (kn_onnx_type)kn_import_int(call, "precision", 0);
    kn_dtype dtype =
        kn_import_dtype(call, 0) == kn_import_dtype(call, 1) ? kn_import_dtype(call, 1) : KN_FLOAT32;
    if (asked && (!kn_onnx_type_to(asked, &dtype) || !kn_dtype_is_float(dtype)))
        kn_import_fail(call, KN_ERROR_UNSUPPORTED, "precision %s is not supported", kn_onnx_type_name(asked));
    return dtype;
}

static kn_status quantize(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dtype dtype = kn_import_has(call, 2) ? kn_import_dtype(call, 2) : KN_UINT8;
    kn_onnx_type asked = (kn_onnx_type)kn_import_int(call, "output_dtype", 0);
    int bits = kn_import_bits(call, 2);
    if (asked && (!kn_item_type(asked, &dtype, &bits) || dtype == KN_FLOAT8E8M0))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "quantizing to type %s is not supported",
                              kn_onnx_type_name(asked));
    kn_value *scale = along(call, 1, x), *zero = zero_along(call, x);
    const kn_dtype precision = quotient_type(call);
    x = in_precision(kn_import_cast(x, KN_FLOAT32), precision);
    x = in_precision(kn_div(x, in_precision(kn_import_cast(scale, KN_FLOAT32), precision)), precision);
    call->outputs[0].bits = bits;
    return kn_import_put_as(call, 0, kn_import_to_quantized(call, x, zero, dtype, bits), dtype);
}

kn_value *kn_import_without_zero(kn_value *x, kn_value *zero, kn_dtype dtype) {
    x = kn_import_cast(x, dtype);
    return zero ? kn_sub(x, kn_import_cast(zero, dtype)) : x;
}

/* Records codes with scale and zero point: bytes, and matrices (rows,columns) in the file. */
static void keep_codes(kn_import_call *call, kn_value *x, kn_value *zero) {
    kn_value *scale = kn_import_in(call, 1);
    const bool weights = call->inputs[0]->tensor && x->shape.rank == 2;
    if (!kn_is_byte(x->shape.dtype) && !(weights && kn_is_small_float(x->shape.dtype))) return;
    const bool single = scale->shape.rank == 0 || (scale->shape.rank == 1 && scale->shape.dims[0] == 1);
    const kn_import_codes codes = {
        .codes = x,
        .scale = scale,
        .zero = zero ? kn_import_in(call, 2) : NULL,
        .axis = single ? -1 : kn_import_axis(call, kn_import_int(call, "axis", 1), x->shape.rank),
        .block = scale->shape.rank == 1 || single ? 1 : kn_import_int(call, "block_size", 0),
        .weights = weights,
    };
    call->outputs[0].codes = kn_arena_copy(call->import->arena, &codes, 1, sizeof codes);
    if (!call->outputs[0].codes) kn_import_no_memory(call->import);
}

static kn_status dequantize(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_dtype dtype = kn_import_dtype(call, 1);
    kn_onnx_type asked = (kn_onnx_type)kn_import_int(call, "output_dtype", 0);
    if ((asked && !kn_onnx_type_to(asked, &dtype)) || !kn_dtype_is_float(dtype))
        return kn_import_fail(
            call, KN_ERROR_UNSUPPORTED,
            "dequantizing to type %s is not supported; expected a floating-point output_dtype",
            asked ? kn_onnx_type_name(asked) : kn_dtype_name(dtype));
    kn_value *scale = along(call, 1, x), *zero = zero_along(call, x);
    kn_value *y = kn_mul(kn_import_without_zero(x, zero, KN_FLOAT32), kn_import_cast(scale, KN_FLOAT32));
    if (kn_import_put_as(call, 0, y, dtype) == KN_OK && dtype == KN_FLOAT32) keep_codes(call, x, zero);
    return kn_import_status(call);
}

kn_value *kn_import_quantize_dynamically(kn_import_call *call, kn_value *x, kn_value **scale,
                                         kn_value **zero) {
    kn_value *nothing = kn_import_scalar(call->import, KN_FLOAT32, 0);
    kn_value *high = kn_max(kn_reduce_max(x, NULL, false), nothing),
             *low = kn_min(kn_reduce_min(x, NULL, false), nothing);
    *scale = kn_scale(kn_sub(high, low), 1.0 / 255);
    kn_value *point = kn_round(kn_clip(kn_neg(kn_div(low, *scale)), 0, 255));
    *zero = kn_cast(point, KN_UINT8);
    return kn_import_to_quantized(call, kn_div(x, *scale), point, KN_UINT8, 0);
}

static kn_status dynamic_quantize(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *scale, *zero;
    kn_value *y = kn_import_quantize_dynamically(call, x, &scale, &zero);
    kn_import_put(call, 1, scale);
    kn_import_put_as(call, 2, zero, KN_UINT8);
    return kn_import_put_as(call, 0, y, KN_UINT8);
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* A scale or zero point of codes as float32 (N,blocks). */
static kn_value *by_rows(kn_import *import, const kn_import_codes *of, kn_value *value, bool transposed,
                         kn_dim n, kn_dim blocks) {
    if (kn_value_failed(value)) return value;
    value = kn_import_cast(value, KN_FLOAT32);
    if (of->axis < 0 || value->shape.rank == 0)
        return kn_import_broadcast(import, value, (kn_dim[]){n, blocks}, 2);
    if (value->shape.rank == 2) return transposed ? value : kn_transpose(value, "1,0");
    return kn_import_reshape(import, value, (kn_dim[]){n, blocks}, 2);
}

kn_value *kn_import_product_by_codes(kn_import_call *call, kn_value *a, int b, bool transposed) {
    const kn_import_codes *of = kn_import_has(call, b) ? call->inputs[b]->codes : NULL;
    if (!of || !of->weights || a->shape.rank < 2 || a->shape.dtype != KN_FLOAT32) return NULL;
    kn_import *import = call->import;
    const kn_shape *codes = &of->codes->shape, *scale = &of->scale->shape;
    const int rows = transposed ? 0 : 1; /* the axis of the N rows of codes; each row has K codes */
    const bool blocked = of->axis >= 0 && scale->rank == 2;
    const kn_dim n = codes->dims[rows], k = codes->dims[1 - rows];
    if (of->axis >= 0 && of->axis != (blocked ? 1 - rows : rows)) return NULL;
    if (blocked && (of->block < 1 || k % of->block)) return NULL;
    const kn_dim blocks = blocked ? k / of->block : 1;
    kn_value *zero = of->zero;
    if (!zero && codes->dtype == KN_UINT8) zero = kn_import_scalar(import, KN_FLOAT32, 0);
    return kn_matmul_quantized(a, transposed ? of->codes : kn_transpose(of->codes, "1,0"),
                               by_rows(import, of, of->scale, transposed, n, blocks),
                               zero ? by_rows(import, of, zero, transposed, n, blocks) : NULL, 8,
                               blocked ? of->block : 0);
}

/* Reshapes numbers per row of a matrix to a column; numbers per column are unchanged. */
static kn_value *for_rows(kn_value *value) {
    return value && value->shape.rank == 1 && value->shape.dims[0] != 1 ? kn_unsqueeze(value, "1") : value;
}

/* Whether the integer product supports the zero point: none, a scalar, or `count` elements. */
static bool is_point(const kn_value *zero, const kn_value *of, kn_dim count) {
    if (!zero) return true;
    if (zero->shape.dtype != of->shape.dtype) return false;
    return zero->shape.rank == 0 ||
           (zero->shape.rank == 1 && (zero->shape.dims[0] == 1 || zero->shape.dims[0] == count));
}

kn_value *kn_import_integer_product(kn_value *x, kn_value *x_zero, kn_value *y, kn_value *y_zero) {
    int x_rank = x->shape.rank, y_rank = y->shape.rank;
    if (x_rank > 1 && y_rank > 1 && kn_is_byte(x->shape.dtype) && kn_is_byte(y->shape.dtype) &&
        is_point(x_zero, x, x->shape.dims[x_rank - 2]) && is_point(y_zero, y, y->shape.dims[y_rank - 1]))
        return kn_matmul_integer(x, y, x_zero, y_zero);
    const int64_t terms = kn_value_dimension(x, x_rank - 1);
    const kn_dtype dtype = terms >= 0 && terms <= EXACT_PRODUCTS ? KN_FLOAT32 : KN_FLOAT64;
    x = kn_import_without_zero(x, for_rows(x_zero), dtype);
    y = kn_import_without_zero(y, y_zero, dtype);
    return kn_matmul(x, y, false, false);
}

/* The codes of input i if they are bytes with one scale, or one per index of `axis`. */
static const kn_import_codes *bytes_of(const kn_import_call *call, int i, int axis) {
    const kn_import_codes *of = kn_import_has(call, i) ? call->inputs[i]->codes : NULL;
    const bool fits = of && kn_is_byte(of->codes->shape.dtype) && of->block == 1 &&
                      (of->axis < 0 || (of->axis == axis && of->scale->shape.rank == 1)) &&
                      (!of->zero || of->zero->shape.dtype == of->codes->shape.dtype);
    return fits ? of : NULL;
}

/* The scale of codes as float32, a scalar or one per index. */
static kn_value *scale_of(kn_import *import, const kn_import_codes *of) {
    kn_value *scale = kn_import_cast(of->scale, KN_FLOAT32);
    return of->axis < 0 ? kn_import_reshape(import, scale, NULL, 0) : scale;
}

kn_value *kn_import_product_of_bytes(kn_import_call *call, int a, int b, bool transposed) {
    const kn_import_codes *left = bytes_of(call, a, KN_MAX_RANK),
                          *right = kn_import_has(call, b) ? call->inputs[b]->codes : NULL;
    if (!left || !right || left->codes->shape.rank < 2 || right->codes->shape.rank < 2) return NULL;
    right = bytes_of(call, b, transposed ? 0 : right->codes->shape.rank - 1);
    if (!right) return NULL;
    kn_value *columns = transposed ? kn_transpose(right->codes, "1,0") : right->codes;
    const int64_t depth = kn_value_dimension(left->codes, left->codes->shape.rank - 1);
    if (depth < 0 || depth > MAX_BYTE_PRODUCTS) return NULL;
    kn_value *sums = kn_matmul_integer(left->codes, columns, left->zero, right->zero);
    return kn_mul(kn_import_cast(sums, KN_FLOAT32),
                  kn_mul(scale_of(call->import, left), scale_of(call->import, right)));
}

/* The product of inputs a and b; their zero points are inputs, or left out. */
static kn_value *product(kn_import_call *call, int a, int a_zero, int b, int b_zero) {
    kn_value *x = kn_import_in(call, a), *y = kn_import_in(call, b);
    kn_value *x_zero = kn_import_optional(call, a_zero), *y_zero = kn_import_optional(call, b_zero);
    return kn_import_integer_product(x, x_zero, y, y_zero);
}

static kn_status matmul_integer(kn_import_call *call) {
    kn_value *y = product(call, 0, 2, 1, 3);
    return kn_import_put_as(call, 0, kn_import_cast(y, KN_INT32), KN_INT32);
}

/* The scale of a product of quantized numbers: those of x and y over that of the result. */
static kn_value *joined_scale(kn_import_call *call) {
    return kn_div(kn_mul(kn_import_in(call, 1), kn_import_in(call, 4)), kn_import_in(call, 6));
}

static kn_status qlinear_matmul(kn_import_call *call) {
    kn_value *sums = product(call, 0, 2, 3, 5), *scale = joined_scale(call);
    kn_dtype dtype = kn_import_dtype(call, 7);
    kn_value *y = kn_mul(kn_import_cast(sums, KN_FLOAT32), kn_import_cast(scale, KN_FLOAT32));
    return kn_import_put_as(call, 0, kn_import_to_quantized(call, y, kn_import_optional(call, 7), dtype, 0),
                            dtype);
}

/* Reshapes (K), one element per filter or channel, to (K,1,…). */
static kn_value *for_channels(kn_import_call *call, kn_value *value, int rank) {
    kn_dim dims[KN_MAX_RANK];
    if (!value || value->shape.rank != 1) return value;
    for (int i = 0; i < rank; i++)
        dims[i] = i ? 1 : value->shape.dims[0];
    return kn_import_reshape(call->import, value, dims, rank);
}

/* The convolution of input 0 by input 1 without a bias, from the codes of both, if these are bytes, x has one
 * scale, and the filters have one scale or one each; otherwise NULL. */
static kn_value *convolution_of_bytes(kn_import_call *call) {
    const kn_import_codes *left = bytes_of(call, 0, KN_MAX_RANK), *right = bytes_of(call, 1, 0);
    if (!left || !right) return NULL;
    const int rank = right->codes->shape.rank;
    int64_t depth = 1;
    for (int i = 1; i < rank; i++) {
        const int64_t size = kn_value_dimension(right->codes, i);
        if (size < 0 || size > MAX_BYTE_PRODUCTS) return NULL;
        depth *= size;
        if (depth > MAX_BYTE_PRODUCTS) return NULL;
    }
    if ((rank != 3 && rank != 4) || left->codes->shape.rank != rank) return NULL;
    kn_value *sums =
        kn_import_byte_convolution(call, left->codes, right->codes, left->zero, right->zero, false);
    kn_value *scale = for_channels(call, scale_of(call->import, right), rank - 1);
    return kn_mul(sums, kn_mul(scale_of(call->import, left), scale));
}

static kn_status conv(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1), *bias = kn_import_optional(call, 2);
    kn_value *y = convolution_of_bytes(call);
    if (y && bias) y = kn_add(y, for_channels(call, bias, y->shape.rank - 1));
    return kn_import_put(call, 0, y ? y : kn_import_convolution(call, x, weight, bias));
}

/* `whole`: the sums are int32, otherwise float32 where bytes allow it. */
static kn_value *convolved(kn_import_call *call, int x_zero, int w, int w_zero, bool whole) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, w);
    kn_value *zero = kn_import_optional(call, x_zero), *less = kn_import_optional(call, w_zero);
    if (kn_import_int(call, "channels_last", 0)) x = kn_import_channels_second(call->import, x);
    int64_t terms = 1;
    for (int i = 1; i < weight->shape.rank; i++)
        terms *= kn_value_dimension(weight, i) < 1 << 20 ? kn_value_dimension(weight, i) : 1 << 20;
    kn_dtype dtype = terms >= 0 && terms <= EXACT_PRODUCTS ? KN_FLOAT32 : KN_FLOAT64;
    int rank = weight->shape.rank;
    if (zero && zero->shape.rank == 1) zero = kn_import_reshape(call->import, zero, NULL, 0);
    kn_dim filters = kn_import_int(call, "group", 1) == 1 ? weight->shape.dims[0] : 1;
    if (kn_is_byte(x->shape.dtype) && kn_is_byte(weight->shape.dtype) && (rank == 3 || rank == 4) &&
        is_point(zero, x, 1) && is_point(less, weight, filters))
        return whole ? kn_import_integer_convolution(call, x, weight, zero, less)
                     : kn_import_byte_convolution(call, x, weight, zero, less, true);
    x = kn_import_without_zero(x, zero, dtype);
    weight = kn_import_without_zero(weight, for_channels(call, less, rank), dtype);
    return kn_import_convolution(call, x, weight, NULL);
}

static kn_status conv_integer(kn_import_call *call) {
    kn_value *y = convolved(call, 2, 1, 3, true);
    return kn_import_put_as(call, 0, kn_import_cast(y, KN_INT32), KN_INT32);
}

static kn_status qlinear_conv(kn_import_call *call) {
    kn_value *sums = convolved(call, 2, 3, 5, false), *scale = joined_scale(call);
    kn_value *bias = kn_import_optional(call, 8);
    kn_dtype dtype = kn_import_dtype(call, 7);
    int rank = sums->shape.rank;
    if (bias) sums = kn_add(sums, kn_import_cast(for_channels(call, bias, rank - 1), sums->shape.dtype));
    kn_value *y = kn_mul(kn_import_cast(sums, KN_FLOAT32), for_channels(call, scale, rank - 1));
    if (kn_import_int(call, "channels_last", 0)) y = kn_import_channels_last(call->import, y);
    return kn_import_put_as(call, 0, kn_import_to_quantized(call, y, kn_import_optional(call, 7), dtype, 0),
                            dtype);
}

const kn_import_row kn_import_quantized[] = {
    {.type = "QuantizeLinear", .build = quantize},
    {.type = "DequantizeLinear", .build = dequantize},
    {.type = "DynamicQuantizeLinear", .build = dynamic_quantize},
    {.type = "MatMulInteger", .build = matmul_integer},
    {.type = "QLinearMatMul", .build = qlinear_matmul},
    {.type = "ConvInteger", .build = conv_integer},
    {.type = "Conv", .build = conv},
    {.type = "QLinearConv", .build = qlinear_conv},
    KN_OF_MICROSOFT("QLinearConv", qlinear_conv),
    KN_OF_MICROSOFT("QuantizeLinear", quantize),
    KN_OF_MICROSOFT("DequantizeLinear", dequantize),
};
const int kn_import_quantized_count = (int)KN_COUNT_OF(kn_import_quantized);
