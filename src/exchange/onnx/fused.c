/* Layers that ONNX Runtime's optimizer fuses with their neighbors. */
#include "exchange/onnx/window.h"

#include <math.h>

/* ---- activations --------------------------------------------------------------------------------------- */

enum { NUMBERS = 3 };

/* An activation by the name of its ONNX operator, with its parameters, which are NAN if not given. */
typedef struct activation {
    const char *type;
    double numbers[NUMBERS];
} activation;

static double or_usual(double number, double usual) {
    return isnan(number) ? usual : number;
}

static kn_value *activated(kn_import_call *call, kn_value *x, const activation *a) {
    const double *n = a->numbers;
    const char *type = a->type;
    if (!*type) return x;
    if (!strcmp(type, "Relu")) return kn_relu(x);
    if (!strcmp(type, "Tanh")) return kn_tanh(x);
    if (!strcmp(type, "Sigmoid")) return kn_sigmoid(x);
    if (!strcmp(type, "LeakyRelu")) return kn_leaky_relu(x, or_usual(n[0], 0.01));
    if (!strcmp(type, "Elu")) return kn_elu(x, or_usual(n[0], 1));
    if (!strcmp(type, "ThresholdedRelu")) return kn_thresholded_relu(x, or_usual(n[0], 1));
    if (!strcmp(type, "Softplus")) return kn_softplus(x);
    if (!strcmp(type, "Softsign")) return kn_softsign(x);
    if (!strcmp(type, "HardSwish")) return kn_hard_swish(x);
    if (!strcmp(type, "Clip")) return kn_clip(x, or_usual(n[0], -INFINITY), or_usual(n[1], INFINITY));
    if (!strcmp(type, "HardSigmoid"))
        return kn_clip(kn_shift(kn_scale(x, or_usual(n[0], 0.2)), or_usual(n[1], 0.5)), 0, 1);
    return kn_import_reject(call, KN_ERROR_UNSUPPORTED, "activation '%.40s' is not supported", type);
}

/* The activation of a product, with each parameter in an attribute. */
static activation of_product(const kn_import_call *call) {
    return (activation){kn_import_string(call, "activation", ""),
                        {kn_import_float(call, "activation_alpha", NAN),
                         kn_import_float(call, "activation_beta", NAN),
                         kn_import_float(call, "activation_gamma", NAN)}};
}

/* ---- products ------------------------------------------------------------------------------------------ */

static kn_status gemm(kn_import_call *call) {
    const activation a = of_product(call);
    kn_value *y = activated(call, kn_import_gemm(call), &a);
    return kn_import_put(call, 0, y);
}

/* x with its first axis moved before the last. */
static kn_value *move_batch(kn_import *import, kn_value *x) {
    int64_t order[KN_MAX_RANK];
    int rank = x->shape.rank;
    for (int i = 0; i < rank; i++)
        order[i] = i == rank - 1 ? i : i == rank - 2 ? 0 : i + 1;
    return rank < 3 ? x : kn_transpose(x, kn_import_list(import, order, rank));
}

/* alpha * a b; a vector is a row on the left and a column on the right. */
static kn_status matmul(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1);
    const activation act = of_product(call);
    bool row = a->shape.rank == 1, column = b->shape.rank == 1;
    bool transpose_a = kn_import_int(call, "transA", 0) && !row,
         transpose_b = kn_import_int(call, "transB", 0) && !column;
    if (row) a = kn_unsqueeze(a, "0");
    if (column) b = kn_unsqueeze(b, "1");
    if (kn_import_int(call, "transBatchA", 0)) a = move_batch(call->import, a);
    if (kn_import_int(call, "transBatchB", 0)) b = move_batch(call->import, b);
    double alpha = kn_import_float(call, "alpha", 1);
    kn_value *y = kn_matmul(a, b, transpose_a, transpose_b);
    if (alpha != 1) y = kn_scale(y, alpha);
    if (row) y = kn_squeeze(y, column ? "-2,-1" : "-2");
    if (column && !row) y = kn_squeeze(y, "-1");
    y = activated(call, y, &act);
    return kn_import_put(call, 0, y);
}

/* ---- windows ------------------------------------------------------------------------------------------- */

static bool is_channels_last(const kn_import_call *call) {
    return !strncmp(call->node->type, "Nhwc", 4);
}

/* The activation of a convolution, whose parameters are a list. */
static activation of_convolution(const kn_import_call *call) {
    activation a = {kn_import_string(call, "activation", ""), {NAN, NAN, NAN}};
    const kn_onnx_attribute *list = kn_import_attribute(call, "activation_params");
    for (size_t i = 0; list && list->kind == KN_ONNX_ATTRIBUTE_FLOATS && i < list->count && i < NUMBERS; i++)
        a.numbers[i] = (double)list->floats[i];
    return a;
}

/* A convolution, then the sum with a fourth input, then an activation. */
static kn_status conv(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1), *bias = kn_import_optional(call, 2),
             *more = kn_import_optional(call, 3);
    const activation a = of_convolution(call);
    if (is_channels_last(call)) x = kn_import_channels_second(call->import, x);
    kn_value *y = kn_import_convolution(call, x, weight, bias);
    if (is_channels_last(call)) y = kn_import_channels_last(call->import, y);
    if (more) y = kn_add(y, more);
    y = activated(call, y, &a);
    return kn_import_put(call, 0, y);
}

static kn_status max_pool(kn_import_call *call) {
    kn_value *x = kn_import_channels_second(call->import, kn_import_in(call, 0));
    kn_window w;
    if (kn_window_take_pool(call, x, &w) != KN_OK) return kn_import_status(call);
    return kn_import_put(call, 0, kn_import_channels_last(call->import, kn_window_max_pool(call, x, &w)));
}

/* ---- biased activations -------------------------------------------------------------------------------- */

/* x, plus input 1 if it is given. */
static kn_value *with_bias(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *bias = kn_import_optional(call, 1);
    return bias ? kn_add(x, bias) : x;
}

static kn_status gelu(kn_import_call *call) {
    kn_value *x = with_bias(call);
    bool fast = !strcmp(call->node->type, "FastGelu");
    return kn_import_put(call, 0, fast ? kn_gelu_tanh(x) : kn_gelu(x));
}

static kn_status gemm_gelu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1), *bias = kn_import_optional(call, 2);
    x = kn_matmul(x, weight, false, false);
    return kn_import_put(call, 0, kn_gelu_tanh(bias ? kn_add(x, bias) : x));
}

static kn_status quick_gelu(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    return kn_import_put(call, 0, kn_mul(x, kn_sigmoid(kn_scale(x, kn_import_float(call, "alpha", 1.702f)))));
}

/* The first half of x + bias, times the gelu of its second half, along the last axis. */
static kn_status split_gelu(kn_import_call *call) {
    kn_value *x = with_bias(call);
    const int last = x->shape.rank - 1;
    const kn_dim size = last < 0 ? 1 : x->shape.dims[last];
    if (!kn_dim_known(size) || size % 2)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected a last axis of even size");
    return kn_import_put(
        call, 0, kn_mul(kn_slice(x, last, 0, size / 2), kn_gelu(kn_slice(x, last, size / 2, INT64_MAX))));
}

/* x + bias, plus a third input, or its softmax. */
static kn_status bias_add(kn_import_call *call) {
    kn_value *x = with_bias(call), *more = kn_import_optional(call, 2);
    if (!strcmp(call->node->type, "BiasSoftmax")) x = kn_import_softmax(call, x, 1, false);
    return kn_import_put(call, 0, more ? kn_add(x, more) : x);
}

/* x + y * gate */
static kn_status gated_add(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *y = kn_import_in(call, 1);
    kn_value *gate = kn_import_in(call, 2), *weight = kn_import_optional(call, 3);
    if (weight) gate = kn_sigmoid(kn_matmul(gate, weight, false, false));
    return kn_import_put(call, 0, kn_add(x, kn_mul(y, gate)));
}

/* ---- norms of sums ------------------------------------------------------------------------------------- */

enum { SKIP_SUM = 3 }; /* the output of a skip norm that returns the sum */

/* Normalizes x plus a skip plus a bias along the last axis. */
static kn_status skip_norm(kn_import_call *call) {
    bool rms = !strcmp(call->node->type, "SkipSimplifiedLayerNormalization");
    kn_value *x = kn_import_in(call, 0), *skip = kn_import_in(call, 1);
    kn_import_norm norm = {
        .epsilon = kn_import_float(call, "epsilon", 1e-12f), .rms = rms, .mean = 1, .deviation = 2};
    norm.scale = kn_import_in(call, 2);
    if (!rms) norm.bias = kn_import_optional(call, 3);
    kn_value *bias = kn_import_optional(call, rms ? 3 : 4);
    x = kn_add(x, skip);
    if (bias) x = kn_add(x, bias);
    norm.axis = x->shape.rank - 1;
    kn_import_put_norm(call, x, &norm);
    return kn_import_put(call, SKIP_SUM, x);
}

/* Distances in the input list from a table to its scale and zero point, in a quantized embedding norm. */
enum { EMBED_SCALES = 6, EMBED_ZEROS = 11 };

static bool is_quantized(const kn_import_call *call) {
    return call->node->type[0] == 'Q';
}

/* Dequantizes x, which is input `table` or rows of it. */
static kn_value *as_numbers(kn_import_call *call, kn_value *x, int table) {
    if (!is_quantized(call)) return x;
    kn_value *scale = kn_import_in(call, table + EMBED_SCALES);
    kn_value *zero = kn_import_optional(call, table + EMBED_ZEROS);
    return kn_mul(kn_import_without_zero(x, zero, KN_FLOAT32), scale);
}

/* Gathers rows of table `table`. */
static kn_value *rows_of(kn_import_call *call, kn_value *positions, int table) {
    return as_numbers(call, kn_gather(kn_import_in(call, table), positions, 0), table);
}

/* The norm of the sum of word, position and segment embeddings, and the number of positions that the mask
 * allows. */
static kn_status embed_norm(kn_import_call *call) {
    kn_value *x = rows_of(call, kn_import_in(call, 0), 2);
    kn_import_norm norm = {.epsilon = kn_import_float(call, "epsilon", 1e-12f), .mean = -1, .deviation = -1};
    norm.scale = as_numbers(call, kn_import_in(call, 5), 5);
    norm.bias = as_numbers(call, kn_import_in(call, 6), 6);
    if (x->shape.rank != 3) return kn_import_fail(call, KN_ERROR_SHAPE, "expected input_ids (batch,length)");
    const kn_dim batch = x->shape.dims[0], length = x->shape.dims[1];
    const bool placed = !is_quantized(call) && kn_import_has(call, 8);
    x = kn_add(x, rows_of(call, placed ? kn_import_in(call, 8) : kn_import_range(call->import, length), 3));
    if (kn_import_has(call, 1) && kn_import_has(call, 4))
        x = kn_add(x, rows_of(call, kn_import_in(call, 1), 4));
    norm.axis = 2;
    kn_value *mask = kn_import_optional(call, 7), *left;
    if (mask)
        left =
            kn_sum(kn_cast(kn_equal(mask, kn_import_scalar(call->import, kn_value_dtype(mask), 1)), KN_INT32),
                   "1", false);
    else
        left = kn_import_broadcast(call->import, kn_import_scalar(call->import, KN_INT32, 0), &batch, 1);
    kn_import_put_norm(call, x, &norm);
    kn_import_put_as(call, 1, left, KN_INT32);
    return kn_import_put(call, 2, x);
}

/* x plus an optional skip and bias, then a group norm and a silu. */
static kn_status group_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *scale = kn_import_in(call, 1), *shift = kn_import_in(call, 2);
    kn_value *skip = kn_import_optional(call, 3), *bias = kn_import_optional(call, 4);
    bool last = kn_import_int(call, "channels_last", 1) != 0;
    int64_t groups = kn_import_int(call, "groups", 0);
    if (x->shape.rank != 4 || groups < 1)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected x with 4 axes, and groups 1 or more");
    if (skip && skip->shape.rank == 2) skip = kn_unsqueeze(skip, last ? "1,2" : "2,3");
    if (skip) x = kn_add(x, skip);
    if (bias && !last) bias = kn_unsqueeze(bias, "1,2");
    if (bias) x = kn_add(x, bias);
    kn_import_put(call, 1, x);
    if (last) x = kn_import_channels_second(call->import, x);
    x = kn_import_normalized_groups(call, x, scale, shift, groups, kn_import_float(call, "epsilon", 1e-5));
    if (kn_import_int(call, "activation", 0)) x = kn_silu(x);
    return kn_import_put(call, 0, last ? kn_import_channels_last(call->import, x) : x);
}

/* ---- other operators ----------------------------------------------------------------------------------- */

/* The distances of each row of a (M,N) from each of b (K,N): (M,K). */
static kn_status distances(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1);
    const char *metric = kn_import_string(call, "metric", "sqeuclidean");
    bool root = !strcmp(metric, "euclidean");
    if (!root && strcmp(metric, "sqeuclidean"))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "metric is '%.40s'; expected euclidean or sqeuclidean", metric);
    kn_value *squares =
        kn_add(kn_reduce_sum_square(a, "1", true), kn_unsqueeze(kn_reduce_sum_square(b, "1", false), "0"));
    kn_value *y = kn_sub(squares, kn_scale(kn_matmul(a, b, false, true), 2));
    y = kn_max(y, kn_import_scalar(call->import, y->shape.dtype, 0));
    return kn_import_put(call, 0, root ? kn_sqrt(y) : y);
}

/* Products of complex numbers (…,2), with the conjugate of the second for ComplexMulConj. */
static kn_status complex_mul(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1);
    bool conjugate = !strcmp(call->node->type, "ComplexMulConj");
    if (a->shape.rank < 1 || b->shape.rank < 1 || a->shape.dims[a->shape.rank - 1] != 2 ||
        b->shape.dims[b->shape.rank - 1] != 2)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected complex numbers (…,2)");
    kn_value *re = kn_slice(a, -1, 0, 1), *im = kn_slice(a, -1, 1, 2);
    kn_value *r = kn_slice(b, -1, 0, 1), *i = kn_slice(b, -1, 1, 2);
    if (conjugate) i = kn_neg(i);
    kn_value *parts[2] = {kn_sub(kn_mul(re, r), kn_mul(im, i)), kn_add(kn_mul(re, i), kn_mul(im, r))};
    return kn_import_put(call, 0, kn_concat(parts, 2, -1));
}

const kn_import_row kn_import_fused[] = {
    KN_OF_MICROSOFT("FusedConv", conv),
    KN_OF_MICROSOFT("NhwcConv", conv),
    KN_OF_MICROSOFT("NhwcFusedConv", conv),
    KN_OF_MICROSOFT("NhwcMaxPool", max_pool),
    KN_OF_MICROSOFT("FusedGemm", gemm),
    KN_OF_MICROSOFT("FusedMatMul", matmul),
    KN_OF_MICROSOFT("FusedMatMulActivation", matmul),
    KN_OF_MICROSOFT("TransposeMatMul", matmul),
    KN_OF_MICROSOFT("Gelu", gelu),
    KN_OF_MICROSOFT("FastGelu", gelu),
    KN_OF_MICROSOFT("BiasGelu", gelu),
    KN_OF_MICROSOFT("GemmFastGelu", gemm_gelu),
    KN_OF_MICROSOFT("QuickGelu", quick_gelu),
    KN_OF_MICROSOFT("BiasSplitGelu", split_gelu),
    KN_OF_MICROSOFT("BiasAdd", bias_add),
    KN_OF_MICROSOFT("BiasSoftmax", bias_add),
    KN_OF_MICROSOFT("GatedAdd", gated_add),
    KN_OF_MICROSOFT("SkipLayerNormalization", skip_norm),
    KN_OF_MICROSOFT("SkipSimplifiedLayerNormalization", skip_norm),
    KN_OF_MICROSOFT("EmbedLayerNormalization", embed_norm),
    KN_OF_MICROSOFT("QEmbedLayerNormalization", embed_norm),
    KN_OF_MICROSOFT("GroupNorm", group_norm),
    KN_OF_MICROSOFT("SkipGroupNorm", group_norm),
    KN_OF_MICROSOFT("CDist", distances),
    KN_OF_MICROSOFT("ComplexMul", complex_mul),
    KN_OF_MICROSOFT("ComplexMulConj", complex_mul),
};
const int kn_import_fused_count = (int)KN_COUNT_OF(kn_import_fused);
