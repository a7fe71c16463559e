/* ONNX Runtime's packed weights of 8 bits and fewer, with a scale per block. They stay packed on the device,
 * which dequantizes them during or before the product. */
#include "exchange/onnx/import.h"

#include <inttypes.h>

/* A positive integer attribute; 1 after a failure. */
static int64_t count_of(kn_import_call *call, const char *name, int64_t usual) {
    int64_t number = kn_import_int(call, name, usual);
    if (number >= 1 && number <= INT32_MAX) return number;
    kn_import_fail(call, KN_ERROR_ARGUMENT, "%s is %" PRId64 "; expected 1 or more", name, number);
    return 1;
}

/* The attribute bits: 2, 4 or 8. */
static int bits_of(kn_import_call *call) {
    int64_t bits = kn_import_int(call, "bits", 4);
    if (bits == 2 || bits == 4 || bits == 8) return (int)bits;
    kn_import_fail(call, KN_ERROR_UNSUPPORTED, "bits is %" PRId64 "; expected 2, 4 or 8", bits);
    return 8;
}

/* Input i as zero points (rows,blocks), from packed bytes or numbers; NULL if it is left out. */
static kn_value *zeros_of(kn_import_call *call, int i, int64_t rows, int64_t blocks, int bits) {
    kn_value *zero = kn_import_optional(call, i);
    if (!zero) return NULL;
    if (bits < 8 && zero->shape.dtype == KN_UINT8) {
        const int64_t each = 8 / bits, bytes = (blocks + each - 1) / each;
        zero = kn_unpack_bits(kn_import_reshape(call->import, zero, (kn_dim[]){rows, bytes}, 2), bits);
        if (bytes * each != blocks) zero = kn_slice(zero, 1, 0, blocks);
    }
    return kn_import_reshape(call->import, kn_import_cast(zero, KN_FLOAT32), (kn_dim[]){rows, blocks}, 2);
}

/* a (…,K) times the transpose of a matrix (N,K), packed as (N,blocks,bytes). */
static kn_status matmul(kn_import_call *call) {
    kn_import *import = call->import;
    const int64_t rows = count_of(call, "N", 0), columns = count_of(call, "K", 0);
    const int64_t block = count_of(call, "block_size", 0);
    const int bits = bits_of(call);
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1), *scale = kn_import_in(call, 2);
    if (kn_import_has(call, 4) || kn_import_int(call, "weight_prepacked", 0))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "g_idx and weight_prepacked are not supported; export the model without them");
    const int64_t blocks = (columns + block - 1) / block;
    if (kn_shape_elements(&b->shape) != rows * blocks * (block * bits / 8) || block * bits % 8)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected packed weights (N,blocks,bytes) for N %" PRId64 " and K %" PRId64,
                              rows, columns);
    kn_value *zero = zeros_of(call, 3, rows, blocks, bits), *bias = kn_import_optional(call, 5);
    b = kn_import_reshape(import, b, (kn_dim[]){rows, blocks * (block * bits / 8)}, 2);
    scale = kn_import_reshape(import, kn_import_cast(scale, KN_FLOAT32), (kn_dim[]){rows, blocks}, 2);
    kn_value *y = kn_matmul_quantized(a, b, scale, zero, bits, block);
    return kn_import_put(call, 0, bias ? kn_add(y, bias) : y);
}

/* The 16 values of 4-bit codes: 4-bit floats, or quantiles of the normal distribution. */
static const float four_bits[2][16] = {
    {0, 5.208333333e-3f, 0.6666666667f, 1, 0.3333333333f, 0.5f, 0.1666666667f, 0.25f, -0.0f, -5.208333333e-3f,
     -0.6666666667f, -1, -0.3333333333f, -0.5f, -0.1666666667f, -0.25f},
    {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
     0.7229568362236023f, 1},
};

/* a (…,K) times the transpose of (N,K) in 4-bit codes, the higher half of a byte first; blocks run through
 * all of (N,K). */
static kn_status matmul_codes(kn_import_call *call) {
    kn_import *import = call->import;
    const int64_t rows = count_of(call, "N", 0), columns = count_of(call, "K", 0);
    const int64_t block = count_of(call, "block_size", 0), kind = kn_import_int(call, "quant_type", 0);
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1), *scale = kn_import_in(call, 2);
    const int64_t count = rows * columns, blocks = (count + block - 1) / block;
    if ((kind != 0 && kind != 1) || kn_shape_elements(&b->shape) != (count + 1) / 2 ||
        kn_shape_elements(&scale->shape) != blocks)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected quant_type 0 or 1, and %" PRId64 " scales, one per block", blocks);
    b = kn_unpack_bits(kn_import_reshape(import, b, (kn_dim[]){(count + 1) / 2, 1}, 2), 4);
    b = kn_import_reshape(import, kn_flip(b, "1"), (kn_dim[]){(count + 1) / 2 * 2}, 1);
    kn_value *table = kn_constant(call->graph, KN_FLOAT32, "16", four_bits[kind], sizeof four_bits[kind]);
    kn_value *w = kn_gather(table, kn_cast(b, KN_INT32), 0);
    w = kn_slice(w, 0, 0, count);
    kn_value *factors = kn_repeat(kn_import_reshape(import, scale, (kn_dim[]){blocks}, 1), 0, block);
    if (blocks * block != count) factors = kn_slice(factors, 0, 0, count);
    w = kn_import_reshape(import, kn_mul(w, factors), (kn_dim[]){rows, columns}, 2);
    return kn_import_put(call, 0, kn_matmul(a, w, false, kn_import_int(call, "transB", 1) != 0));
}

/* Gathers slices of codes, scales and zero points, then dequantizes them. */
static kn_status gather(kn_import_call *call) {
    kn_value *data = kn_import_in(call, 0), *positions = kn_import_in(call, 1);
    kn_value *scale = kn_import_in(call, 2), *zero = kn_import_optional(call, 3);
    const bool whole = !kn_dtype_is_float(data->shape.dtype) && !kn_is_small_float(data->shape.dtype);
    const int bits = whole && data->shape.dtype == KN_UINT8 && !kn_import_bits(call, 0) ? bits_of(call) : 8;
    const int64_t block = count_of(call, "block_size", 128);
    const int rank = data->shape.rank;
    const int along = kn_import_axis(call, kn_import_int(call, "gather_axis", 0), rank);
    int blocked = kn_import_axis(call, kn_import_int(call, "quantize_axis", 1), rank);
    if (along == blocked || scale->shape.rank != rank)
        return kn_import_fail(
            call, KN_ERROR_UNSUPPORTED,
            "expected scales with the rank of the data, and different gather_axis and quantize_axis");
    const bool bytes = data->shape.dtype == KN_UINT8 && !kn_import_bits(call, 0);
    data = kn_gather(data, positions, along);
    scale = kn_gather(scale, positions, along);
    if (zero) zero = kn_gather(zero, positions, along);
    if (bits < 8) data = kn_unpack_bits(data, bits);
    if (bits < 8 && zero) zero = kn_unpack_bits(zero, bits);
    if (along < blocked) blocked += positions->shape.rank - 1;
    const kn_dim size = data->shape.dims[blocked], blocks = scale->shape.dims[blocked];
    if (!kn_dim_known(size) || !kn_dim_known(blocks) || (size + block - 1) / block != blocks)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected one scale per block");
    scale = kn_slice(kn_repeat(scale, blocked, block), blocked, 0, size);
    kn_value *y = kn_import_cast(data, KN_FLOAT32);
    if (zero) {
        zero = kn_slice(kn_repeat(kn_import_cast(zero, KN_FLOAT32), blocked, block), blocked, 0, size);
        y = kn_sub(y, zero);
    } else if (bytes) {
        y = kn_shift(y, -(double)(1 << (bits - 1)));
    }
    return kn_import_put_as(call, 0, kn_mul(y, scale), kn_import_dtype(call, 2));
}

const kn_import_row kn_import_packed[] = {
    KN_OF_MICROSOFT("MatMulNBits", matmul),
    KN_OF_MICROSOFT("MatMulBnb4", matmul_codes),
    KN_OF_MICROSOFT("GatherBlockQuantized", gather),
};
const int kn_import_packed_count = (int)KN_COUNT_OF(kn_import_packed);
