/* Products, convolutions, pooling and norms: their weights are inputs. */
#include "models/onnx/import.h"

#include <inttypes.h>

/* ---- products ---------------------------------------------------------------------------------------------
 */

/* a is (K) or (...,M,K), b is (K) or (...,K,N). */
static bool matmul(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = a ? kn_import_in(call, 1) : NULL;
    if (!b) return false;
    kn_dtype dtype = a->shape.dtype;
    bool row = a->shape.rank == 1, column = b->shape.rank == 1;
    if (row) a = kn_unsqueeze(a, "0");
    if (column) b = kn_unsqueeze(b, "1");
    if (!kn_dtype_is_float(dtype)) {
        a = kn_cast(a, KN_FLOAT64);
        b = kn_cast(b, KN_FLOAT64);
    }
    kn_value *y = kn_import_cast(kn_matmul(a, b, false, false), dtype);
    if (row) y = kn_squeeze(y, column ? "-2,-1" : "-2");
    if (column && !row) y = kn_squeeze(y, "-1");
    return kn_import_put(call, 0, y);
}

/* alpha * a b + beta * c */
static bool gemm(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = a ? kn_import_in(call, 1) : NULL, *c = NULL;
    if (!b || (kn_import_has(call, 2) && !(c = kn_import_in(call, 2)))) return false;
    kn_dtype dtype = a->shape.dtype;
    double alpha = kn_import_float(call, "alpha", 1), beta = kn_import_float(call, "beta", 1);
    if (!kn_dtype_is_float(dtype)) {
        a = kn_cast(a, KN_FLOAT64);
        b = kn_cast(b, KN_FLOAT64);
        if (c) c = kn_cast(c, KN_FLOAT64);
    }
    kn_value *y =
        kn_matmul(a, b, kn_import_int(call, "transA", 0) != 0, kn_import_int(call, "transB", 0) != 0);
    if (alpha != 1) y = kn_scale(y, alpha);
    if (c) y = kn_add(y, beta == 1 ? c : kn_scale(c, beta));
    return kn_import_put(call, 0, kn_import_cast(y, dtype));
}

static bool einsum(kn_import_call *call) {
    kn_value *values[KN_MAX_INPUTS];
    if (call->input_count > KN_MAX_INPUTS)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "too many inputs");
    for (int i = 0; i < call->input_count; i++)
        if (!(values[i] = kn_import_in(call, i))) return false;
    return kn_import_put(
        call, 0, kn_einsum(kn_import_string(call, "equation", ""), values, (size_t)call->input_count));
}

/* ---- windows
 * -------------------------------------------------------------------------------------------------- */

typedef struct window {
    int axes;                                            /* 1 or 2 */
    int64_t size[2], stride[2], dilation[2], padding[4]; /* before each axis, then after each */
    bool same, same_lower;
} window;

/* Before and after, so that the size is divided by the stride, rounded up. */
static void pad_same(const kn_value *x, window *w) {
    for (int i = 0; i < w->axes; i++) {
        int64_t size = x->shape.dims[2 + i], extent = w->dilation[i] * (w->size[i] - 1) + 1;
        int64_t steps = (size + w->stride[i] - 1) / w->stride[i],
                more = (steps - 1) * w->stride[i] + extent - size;
        if (more < 0) more = 0;
        w->padding[i] = w->same_lower ? more - more / 2 : more / 2;
        w->padding[i + w->axes] = more - w->padding[i];
    }
}

static bool take_list(kn_import_call *call, const char *name, int64_t usual, int axes, int64_t *numbers) {
    for (int i = 0; i < axes; i++)
        numbers[i] = usual;
    int count = kn_import_ints(call, name, numbers, axes);
    if (count >= 0 && count != axes)
        return kn_import_fail(call, KN_ERROR_FORMAT, "%s has %d numbers; expected %d", name, count, axes);
    for (int i = 0; i < axes; i++)
        if (numbers[i] < 0 || numbers[i] > INT32_MAX)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "%s has the number %" PRId64, name, numbers[i]);
    return true;
}

/* weight NULL: the size is an attribute. */
static bool take_window(kn_import_call *call, const kn_value *x, const kn_value *weight, window *w) {
    *w = (window){.axes = x->shape.rank - 2};
    if (w->axes != 1 && w->axes != 2)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "along %d axes; lengths and images are known here",
                              w->axes);
    const char *automatic = kn_import_string(call, "auto_pad", "NOTSET");
    if (!take_list(call, "kernel_shape", 1, w->axes, w->size) ||
        !take_list(call, "strides", 1, w->axes, w->stride) ||
        !take_list(call, "dilations", 1, w->axes, w->dilation) ||
        !take_list(call, "pads", 0, 2 * w->axes, w->padding))
        return false;
    for (int i = 0; weight && i < w->axes; i++)
        w->size[i] = weight->shape.rank == w->axes + 2 ? weight->shape.dims[2 + i] : 1;
    for (int i = 0; i < w->axes; i++)
        if (w->size[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1)
            return kn_import_fail(call, KN_ERROR_ARGUMENT,
                                  "sizes, strides and dilations have to be numbers above 0");
    w->same = !strcmp(automatic, "SAME_UPPER");
    w->same_lower = !strcmp(automatic, "SAME_LOWER");
    if (!strcmp(automatic, "VALID")) memset(w->padding, 0, sizeof w->padding);
    return true;
}

static bool known_image(const kn_value *x, const window *w) {
    for (int i = 0; i < w->axes; i++)
        if (!kn_dim_known(x->shape.dims[2 + i])) return false;
    return true;
}

static void copy_window(const window *w, int64_t *stride, int64_t *padding, int64_t *dilation) {
    memcpy(stride, w->stride, sizeof w->stride);
    memcpy(dilation, w->dilation, sizeof w->dilation);
    /* Of a length the padding before and behind it are the first two. */
    memcpy(padding, w->padding, sizeof w->padding);
}

kn_value *kn_import_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias) {
    window w;
    if (!take_window(call, x, weight, &w)) return NULL;
    kn_conv_params params = {
        .size = sizeof params, .groups = kn_import_int(call, "group", 1), .all_padding = true};
    if ((w.same || w.same_lower) && known_image(x, &w))
        pad_same(x, &w);
    else
        params.same = w.same, params.same_lower = w.same_lower;
    copy_window(&w, params.stride, params.padding, params.dilation);
    return w.axes == 1 ? kn_conv1d(x, weight, bias, &params) : kn_conv2d(x, weight, bias, &params);
}

static bool conv(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = x ? kn_import_in(call, 1) : NULL, *bias = NULL;
    if (!weight || (kn_import_has(call, 2) && !(bias = kn_import_in(call, 2)))) return false;
    return kn_import_put(call, 0, kn_import_convolution(call, x, weight, bias));
}

static bool conv_transpose(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = x ? kn_import_in(call, 1) : NULL, *bias = NULL;
    int64_t more[2] = {0, 0}, shape[2];
    window w;
    if (!weight || (kn_import_has(call, 2) && !(bias = kn_import_in(call, 2))) ||
        !take_window(call, x, weight, &w) || !take_list(call, "output_padding", 0, w.axes, more))
        return false;
    bool sized = kn_import_ints(call, "output_shape", shape, 2) == w.axes;
    for (int i = 0; i < w.axes && (sized || w.same || w.same_lower); i++) {
        int64_t size = x->shape.dims[2 + i], extent = w.dilation[i] * (w.size[i] - 1) + 1;
        if (!kn_dim_known(size))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "output_shape of an open size");
        int64_t wanted = sized ? shape[i] : size * w.stride[i];
        int64_t total = (size - 1) * w.stride[i] + more[i] + extent - wanted;
        if (total < 0) more[i] -= total, total = 0;
        w.padding[i] = w.same_lower ? total - total / 2 : total / 2;
        w.padding[i + w.axes] = total - w.padding[i];
    }
    kn_conv_params params = {
        .size = sizeof params, .groups = kn_import_int(call, "group", 1), .all_padding = true};
    copy_window(&w, params.stride, params.padding, params.dilation);
    /* What goes beyond the stride is added as zeros: no tap reaches it. */
    int64_t beyond[2] = {0, 0};
    for (int i = 0; i < w.axes; i++) {
        if (more[i] >= w.stride[i]) beyond[i] = more[i] - (w.stride[i] - 1);
        params.output_padding[i] = more[i] - beyond[i];
    }
    bool pads = beyond[0] || beyond[1];
    /* A 0 for the width would repeat that of the height. */
    if (w.axes == 2 && params.output_padding[1] == 0 && params.output_padding[0] != 0)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "output_padding of the height alone");
    kn_value *y = w.axes == 1 ? kn_conv_transpose1d(x, weight, pads ? NULL : bias, &params)
                              : kn_conv_transpose2d(x, weight, pads ? NULL : bias, &params);
    if (pads) {
        int64_t amounts[8] = {0};
        int rank = w.axes + 2;
        for (int i = 0; i < w.axes; i++)
            amounts[rank + 2 + i] = beyond[i];
        y = kn_pad(y, kn_import_list(call->import, amounts, 2 * rank), 0);
        kn_dim dims[3] = {bias ? bias->shape.dims[0] : 1, 1, 1};
        if (bias) y = kn_add(y, kn_import_reshape(call->import, bias, dims, w.axes + 1));
    }
    return kn_import_put(call, 0, y);
}

static void pool_params(const window *w, kn_pool_params *params) {
    *params = (kn_pool_params){.size = sizeof *params, .all_padding = true};
    memcpy(params->window, w->size, sizeof w->size);
    copy_window(w, params->stride, params->padding, params->dilation);
}

static bool take_pool(kn_import_call *call, kn_value **x, window *w, kn_pool_params *params) {
    *x = kn_import_in(call, 0);
    if (!*x || !take_window(call, *x, NULL, w)) return false;
    if (w->same || w->same_lower) {
        if (!known_image(*x, w))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "auto_pad of an image of open size");
        pad_same(*x, w);
    }
    pool_params(w, params);
    params->ceil = kn_import_int(call, "ceil_mode", 0) != 0;
    return true;
}

static bool max_pool(kn_import_call *call) {
    kn_value *x;
    window w;
    kn_pool_params params;
    if (!take_pool(call, &x, &w, &params)) return false;
    if (call->output_count > 1)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the places of the largest are asked for");
    kn_dtype dtype = x->shape.dtype;
    if (!kn_dtype_is_float(dtype)) x = kn_cast(x, KN_FLOAT32);
    return kn_import_put(call, 0, kn_import_cast(kn_max_pool(x, w.size[0], &params), dtype));
}

static bool average_pool(kn_import_call *call) {
    kn_value *x;
    window w;
    kn_pool_params params;
    if (!take_pool(call, &x, &w, &params)) return false;
    params.skip_padding = !kn_import_int(call, "count_include_pad", 0);
    for (int i = 0; i < w.axes; i++)
        if (w.dilation[i] != 1) return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "dilations of an average");
    return kn_import_put(call, 0, kn_average_pool(x, w.size[0], &params));
}

static bool lp_pool(kn_import_call *call) {
    kn_value *x;
    window w;
    kn_pool_params params;
    if (!take_pool(call, &x, &w, &params)) return false;
    for (int i = 0; i < w.axes; i++)
        if (w.dilation[i] != 1) return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "dilations of a norm");
    return kn_import_put(call, 0, kn_lp_pool(x, (double)kn_import_int(call, "p", 2), w.size[0], &params));
}

/* All axes behind the channels to size 1. */
static const char *image_axes(kn_import *import, const kn_value *x) {
    int64_t axes[KN_MAX_RANK];
    for (int i = 2; i < x->shape.rank; i++)
        axes[i - 2] = i;
    return kn_import_list(import, axes, x->shape.rank - 2);
}

static bool global_pool(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x || x->shape.rank < 3) return x && kn_import_fail(call, KN_ERROR_SHAPE, "expected (N,C,…)");
    const char *axes = image_axes(call->import, x);
    if (call->row->reduce) return kn_import_put(call, 0, call->row->reduce(x, axes, true));
    double p = (double)kn_import_int(call, "p", 2);
    kn_dtype dtype = x->shape.dtype;
    kn_value *sum = kn_sum(kn_pow(kn_abs(x), kn_import_scalar(call->import, dtype, p)), axes, true);
    return kn_import_put(call, 0, kn_pow(sum, kn_import_scalar(call->import, dtype, 1 / p)));
}

/* ---- norms
 * ----------------------------------------------------------------------------------------------------------
 */

/* (C) as (C,1,…), to be broadcast to x (N,C,…). */
static kn_value *per_channel(kn_import_call *call, int i, const kn_value *x) {
    kn_value *value = kn_import_in(call, i);
    kn_dim dims[KN_MAX_RANK] = {0};
    int rank = x->shape.rank > 1 ? x->shape.rank - 1 : 1;
    if (!value) return NULL;
    if (value->shape.rank != 1) return value;
    for (int k = 0; k < rank; k++)
        dims[k] = k ? 1 : value->shape.dims[0];
    return kn_import_reshape(call->import, kn_import_cast(value, x->shape.dtype), dims, rank);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + bias, by the running statistics, or by the batch's. */
static bool batch_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x) return false;
    kn_value *scale = per_channel(call, 1, x), *bias = per_channel(call, 2, x);
    kn_value *mean = per_channel(call, 3, x), *variance = per_channel(call, 4, x);
    double epsilon = kn_import_float(call, "epsilon", 1e-5),
           momentum = kn_import_float(call, "momentum", 0.9);
    bool training = call->opset >= 14 ? kn_import_int(call, "training_mode", 0) != 0
                                      : call->opset < 7 && !kn_import_int(call, "is_test", 0);
    if (!scale || !bias || !mean || !variance) return false;
    kn_value *result_mean = mean, *result_variance = variance;
    if (training) {
        int64_t axes[KN_MAX_RANK] = {0};
        for (int i = 2; i < x->shape.rank; i++)
            axes[i - 1] = i;
        const char *list = kn_import_list(call->import, axes, x->shape.rank - 1);
        kn_value *own = kn_mean(x, list, true), *apart = kn_sub(x, own);
        kn_value *spread = kn_mean(kn_mul(apart, apart), list, true);
        kn_dim dims[KN_MAX_RANK] = {scale->shape.dims[0]}, line[1] = {scale->shape.dims[0]};
        for (int i = 1; i < mean->shape.rank; i++)
            dims[i] = 1;
        kn_value *flat[4] = {mean, variance, kn_import_reshape(call->import, own, dims, mean->shape.rank),
                             kn_import_reshape(call->import, spread, dims, mean->shape.rank)};
        for (int i = 0; i < 2; i++) {
            kn_value *next = kn_add(kn_scale(flat[i], momentum), kn_scale(flat[2 + i], 1 - momentum));
            if (!kn_import_put(call, 1 + i, kn_import_reshape(call->import, next, line, 1))) return false;
        }
        result_mean = own;
        result_variance = spread;
    }
    kn_value *factor = kn_mul(scale, kn_rsqrt(kn_shift(result_variance, epsilon)));
    return kn_import_put(call, 0, kn_add(kn_mul(kn_sub(x, result_mean), factor), bias));
}

/* Each of `groups` parts of the channels of each sample to mean 0 and variance 1, as (N,C,…). */
static kn_value *normalized_groups(kn_import_call *call, kn_value *x, kn_dim groups, double epsilon) {
    const kn_shape shape = x->shape;
    const kn_dim dims[3] = {shape.dims[0], groups, -1};
    kn_value *rows = kn_reshape(x, kn_import_dims_text(call->import, dims, 3));
    kn_value *apart = kn_sub(rows, kn_mean(rows, "2", true));
    kn_value *variance = kn_mean(kn_mul(apart, apart), "2", true);
    return kn_import_reshape(call->import, kn_mul(apart, kn_rsqrt(kn_shift(variance, epsilon))), shape.dims,
                             shape.rank);
}

static bool group_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (!x || x->shape.rank < 3) return x && kn_import_fail(call, KN_ERROR_SHAPE, "expected (N,C,…)");
    bool instance = !strcmp(call->node->type, "InstanceNormalization");
    int64_t groups = instance ? x->shape.dims[1] : kn_import_int(call, "num_groups", 1);
    kn_value *scale = kn_import_in(call, 1), *bias = scale ? kn_import_in(call, 2) : NULL;
    if (!bias) return false;
    if (groups < 1) return kn_import_fail(call, KN_ERROR_ARGUMENT, "the number of groups is not above 0");
    kn_dim channels = x->shape.dims[1];
    if (!instance && call->opset < 21 && kn_dim_known(channels) && scale->shape.dims[0] != channels) {
        /* One number per group, for each of its channels. */
        scale = kn_repeat(scale, 0, channels / groups);
        bias = kn_repeat(bias, 0, channels / groups);
    }
    kn_dim dims[KN_MAX_RANK];
    for (int i = 0; i < x->shape.rank - 1; i++)
        dims[i] = i ? 1 : channels;
    kn_value *y = normalized_groups(call, x, groups, kn_import_float(call, "epsilon", 1e-5));
    y = kn_mul(y, kn_import_reshape(call->import, scale, dims, x->shape.rank - 1));
    return kn_import_put(call, 0, kn_add(y, kn_import_reshape(call->import, bias, dims, x->shape.rank - 1)));
}

/* Over all axes from the given one on; also the mean and 1 / deviation. */
static bool layer_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *scale = x ? kn_import_in(call, 1) : NULL, *bias = NULL;
    bool rms = !strcmp(call->node->type, "RMSNormalization");
    int axis;
    if (!scale || (kn_import_has(call, 2) && !(bias = kn_import_in(call, 2))) ||
        !kn_import_axis(call, kn_import_int(call, "axis", -1), x->shape.rank, &axis))
        return false;
    double epsilon = kn_import_float(call, "epsilon", 1e-5);
    bool plain = axis == x->shape.rank - 1 && scale->shape.rank == 1 &&
                 scale->shape.dims[0] == x->shape.dims[axis] && call->output_count == 1 &&
                 (!bias || bias->shape.rank == 1);
    if (plain && (rms || bias)) {
        kn_value *inputs[3] = {x, scale, bias};
        kn_text text;
        kn_text_init(&text, &call->import->model->host);
        kn_text_add(&text, "epsilon=");
        kn_text_number(&text, epsilon);
        kn_value *y = kn_text_failed(&text) ? NULL
                                            : kn_apply(call->graph, rms ? "rms_norm" : "layer_norm", inputs,
                                                       rms ? 2 : 3, text.data);
        kn_text_finish(&text);
        return kn_import_put(call, 0, y);
    }
    int64_t axes[KN_MAX_RANK];
    for (int i = axis; i < x->shape.rank; i++)
        axes[i - axis] = i;
    const char *list = kn_import_list(call->import, axes, x->shape.rank - axis);
    kn_value *mean = rms ? NULL : kn_mean(x, list, true), *apart = rms ? x : kn_sub(x, mean);
    kn_value *deviation = kn_rsqrt(kn_shift(kn_mean(kn_mul(apart, apart), list, true), epsilon));
    kn_value *y = kn_mul(kn_mul(apart, deviation), scale);
    if (bias) y = kn_add(y, bias);
    return kn_import_put(call, 0, y) &&
           (rms || (kn_import_put(call, 1, mean) && kn_import_put(call, 2, deviation)));
}

static bool local_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_local_norm_params params;
    kn_local_norm_params_init(&params);
    params.alpha = kn_import_float(call, "alpha", 1e-4);
    params.beta = kn_import_float(call, "beta", 0.75);
    params.k = kn_import_float(call, "bias", 1);
    return x && kn_import_put(call, 0, kn_local_response_norm(x, kn_import_int(call, "size", 1), &params));
}

const kn_import_row kn_import_layers[] = {
    {.type = "MatMul", .build = matmul},
    {.type = "Gemm", .build = gemm},
    {.type = "Einsum", .build = einsum},
    {.type = "Conv", .build = conv},
    {.type = "ConvTranspose", .build = conv_transpose},
    {.type = "MaxPool", .build = max_pool},
    {.type = "AveragePool", .build = average_pool},
    {.type = "LpPool", .build = lp_pool},
    {.type = "GlobalAveragePool", .build = global_pool, .reduce = kn_mean},
    {.type = "GlobalMaxPool", .build = global_pool, .reduce = kn_reduce_max},
    {.type = "GlobalLpPool", .build = global_pool},
    {.type = "BatchNormalization", .build = batch_norm},
    {.type = "InstanceNormalization", .build = group_norm},
    {.type = "GroupNormalization", .build = group_norm},
    {.type = "LayerNormalization", .build = layer_norm},
    {.type = "RMSNormalization", .build = layer_norm},
    {.type = "LRN", .build = local_norm},
};
const int kn_import_layers_count = (int)KN_COUNT_OF(kn_import_layers);
