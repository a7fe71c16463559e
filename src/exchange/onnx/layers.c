/* Matrix products, convolutions and norms, whose weights are inputs. */
#include "exchange/onnx/import.h"

#include <inttypes.h>

/* ---- products ------------------------------------------------------------------------------------------ */

/* a is (K) or (...,M,K), b is (K) or (...,K,N). */
static kn_status matmul(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1);
    kn_dtype dtype = a->shape.dtype;
    bool row = a->shape.rank == 1, column = b->shape.rank == 1;
    if (row) a = kn_unsqueeze(a, "0");
    if (column) b = kn_unsqueeze(b, "1");
    if (!kn_dtype_is_float(dtype)) {
        a = kn_cast(a, KN_FLOAT64);
        b = kn_cast(b, KN_FLOAT64);
    }
    kn_value *y = row || column ? NULL : kn_import_product_of_bytes(call, 0, 1, false);
    if (!y) y = kn_import_product_by_codes(call, a, 1, false);
    if (!y) y = kn_import_cast(kn_matmul(a, b, false, false), dtype);
    if (row) y = kn_squeeze(y, column ? "-2,-1" : "-2");
    if (column && !row) y = kn_squeeze(y, "-1");
    return kn_import_put(call, 0, y);
}

kn_value *kn_import_gemm(kn_import_call *call) {
    kn_value *a = kn_import_in(call, 0), *b = kn_import_in(call, 1), *c = kn_import_optional(call, 2);
    kn_dtype dtype = a->shape.dtype;
    double alpha = kn_import_float(call, "alpha", 1), beta = kn_import_float(call, "beta", 1);
    if (!kn_dtype_is_float(dtype)) {
        a = kn_cast(a, KN_FLOAT64);
        b = kn_cast(b, KN_FLOAT64);
        if (c) c = kn_cast(c, KN_FLOAT64);
    }
    const bool transposes_a = kn_import_int(call, "transA", 0) != 0,
               transposes_b = kn_import_int(call, "transB", 0) != 0;
    kn_value *y = transposes_a ? NULL : kn_import_product_of_bytes(call, 0, 1, transposes_b);
    if (!y && !transposes_a) y = kn_import_product_by_codes(call, a, 1, transposes_b);
    if (!y) y = kn_matmul(a, b, transposes_a, transposes_b);
    if (alpha != 1) y = kn_scale(y, alpha);
    if (c) y = kn_add(y, beta == 1 ? c : kn_scale(c, beta));
    return kn_import_cast(y, dtype);
}

static kn_status gemm(kn_import_call *call) {
    return kn_import_put(call, 0, kn_import_gemm(call));
}

/* Replaces "..." by letters that the equation does not use, one per unnamed axis. */
static const char *without_dots(kn_import_call *call, const char *equation, kn_value *const *values) {
    char letters[KN_MAX_RANK + 1] = "", text[1024];
    int given = 0, dotted = -1, operand = 0;
    size_t length = 0;
    if (!strstr(equation, "...")) return equation;
    for (char c = 'Z'; c >= 'A' && given < KN_MAX_RANK; c--)
        if (!strchr(equation, c)) letters[given++] = c;
    for (const char *at = equation; *at && length + KN_MAX_RANK < sizeof text;) {
        if (strncmp(at, "...", 3) != 0) {
            operand += *at == ',';
            text[length++] = *at++;
            continue;
        }
        int own = 0;
        const char *start = at, *end = at + 3;
        while (start > equation && start[-1] != ',' && start[-1] != '>')
            start--;
        for (; start < end || (*start && *start != ',' && *start != '-'); start++)
            own += (*start >= 'a' && *start <= 'z') || (*start >= 'A' && *start <= 'Z');
        bool result = memchr(equation, '>', (size_t)(at - equation)) != NULL;
        int axes = result ? dotted : operand < call->input_count ? values[operand]->shape.rank - own : -1;
        if (axes < 0 || axes > given || (dotted >= 0 && axes != dotted)) {
            kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                           "'...' in '%.200s' must cover the same number of axes in each operand", equation);
            return equation;
        }
        dotted = axes;
        memcpy(text + length, letters, (size_t)axes);
        length += (size_t)axes;
        at = end;
    }
    const char *whole = kn_arena_format(call->import->arena, "%.*s", (int)length, text);
    if (!whole) kn_import_no_memory(call->import);
    return whole ? whole : equation;
}

static kn_status einsum(kn_import_call *call) {
    kn_value *values[KN_MAX_INPUTS];
    if (call->input_count > KN_MAX_INPUTS)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has %d inputs; at most %d are supported",
                              call->input_count, KN_MAX_INPUTS);
    for (int i = 0; i < call->input_count; i++)
        values[i] = kn_import_in(call, i);
    const char *equation = without_dots(call, kn_import_string(call, "equation", ""), values);
    return kn_import_put(call, 0, kn_einsum(equation, values, (size_t)call->input_count));
}

/* ---- norms --------------------------------------------------------------------------------------------- */

/* Reshapes input i from (C) to (C,1,…), so that it broadcasts to x (N,C,…). */
static kn_value *per_channel(kn_import_call *call, int i, const kn_value *x) {
    kn_value *value = kn_import_in(call, i);
    kn_dim dims[KN_MAX_RANK] = {0};
    int rank = x->shape.rank > 1 ? x->shape.rank - 1 : 1;
    if (value->shape.rank != 1) return value;
    for (int k = 0; k < rank; k++)
        dims[k] = k ? 1 : value->shape.dims[0];
    return kn_import_reshape(call->import, kn_import_cast(value, x->shape.dtype), dims, rank);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + bias, with running or batch statistics. */
static kn_status composed_batch_norm(kn_import_call *call, kn_value *x, bool training) {
    kn_value *scale = per_channel(call, 1, x), *bias = per_channel(call, 2, x);
    kn_value *mean = per_channel(call, 3, x), *variance = per_channel(call, 4, x);
    double epsilon = kn_import_float(call, "epsilon", 1e-5),
           momentum = kn_import_float(call, "momentum", 0.9);
    kn_value *result_mean = mean, *result_variance = variance;
    if (training) {
        int64_t axes[KN_MAX_RANK] = {0};
        for (int i = 2; i < x->shape.rank; i++)
            axes[i - 1] = i;
        const char *list = kn_import_list(call->import, axes, x->shape.rank - 1);
        kn_value *batch_mean = kn_mean(x, list, true), *centered = kn_sub(x, batch_mean);
        kn_value *spread = kn_mean(kn_mul(centered, centered), list, true);
        kn_dim dims[KN_MAX_RANK] = {scale->shape.dims[0]}, line[1] = {scale->shape.dims[0]};
        for (int i = 1; i < mean->shape.rank; i++)
            dims[i] = 1;
        kn_value *flat[4] = {mean, variance,
                             kn_import_reshape(call->import, batch_mean, dims, mean->shape.rank),
                             kn_import_reshape(call->import, spread, dims, mean->shape.rank)};
        for (int i = 0; i < 2; i++) {
            kn_value *next = kn_add(kn_scale(flat[i], momentum), kn_scale(flat[2 + i], 1 - momentum));
            kn_import_put(call, 1 + i, kn_import_reshape(call->import, next, line, 1));
        }
        result_mean = batch_mean;
        result_variance = spread;
    }
    kn_value *factor = kn_mul(scale, kn_rsqrt(kn_shift(result_variance, epsilon)));
    return kn_import_put(call, 0, kn_add(kn_mul(kn_sub(x, result_mean), factor), bias));
}

/* Whether all values have one element per channel of x, of the type of x. */
static bool fits_channels(const kn_value *x, kn_value *const *values, int count) {
    if (x->shape.rank < 2 || !kn_dim_known(x->shape.dims[1])) return false;
    for (int i = 0; i < count; i++)
        if (!values[i] || values[i]->shape.rank != 1 || values[i]->shape.dims[0] != x->shape.dims[1] ||
            values[i]->shape.dtype != x->shape.dtype)
            return false;
    return true;
}

/* If the running statistics are initializers, training uses the batch's statistics and inference the running
 * ones, regardless of the node's mode: a file may have been written during training. */
static kn_status batch_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *values[4] = {NULL};
    bool training = call->opset >= 14 ? kn_import_int(call, "training_mode", 0) != 0
                                      : call->opset < 7 && !kn_import_int(call, "is_test", 0);
    for (int i = 2; i < 4; i++)
        if (kn_import_has(call, 1 + i)) values[i] = kn_item_statistic(call->import, call->inputs[1 + i]);
    if (!values[2] || !values[3]) return composed_batch_norm(call, x, training);
    values[0] = kn_import_in(call, 1);
    values[1] = kn_import_in(call, 2);
    if (!fits_channels(x, values, 4)) return composed_batch_norm(call, x, training);
    kn_batch_norm_params params;
    kn_batch_norm_params_init(&params);
    params.epsilon = kn_import_float(call, "epsilon", 1e-5);
    params.momentum = 1 - kn_import_float(call, "momentum", 0.9);
    params.frozen = call->import->params->frozen_statistics;
    kn_value *y = kn_batch_norm_with(x, values[0], values[1], values[2], values[3], &params);
    if (training) kn_import_record_training(call);
    kn_import_put(call, 0, y);
    kn_import_put(call, 1, values[2]);
    return kn_import_put(call, 2, values[3]);
}

kn_value *kn_import_normalized_groups(kn_import_call *call, kn_value *x, kn_value *scale, kn_value *bias,
                                      kn_dim groups, double epsilon) {
    const kn_shape shape = x->shape;
    const kn_dim dims[3] = {shape.dims[0], groups, -1};
    kn_value *rows = kn_reshape(x, kn_import_dims_text(call->import, dims, 3));
    kn_value *centered = kn_sub(rows, kn_mean(rows, "2", true));
    kn_value *variance = kn_mean(kn_mul(centered, centered), "2", true);
    kn_value *y = kn_import_reshape(call->import, kn_mul(centered, kn_rsqrt(kn_shift(variance, epsilon))),
                                    shape.dims, shape.rank);
    kn_dim along[KN_MAX_RANK];
    for (int i = 0; i < shape.rank - 1; i++)
        along[i] = i ? 1 : shape.dims[1];
    y = kn_mul(y, kn_import_reshape(call->import, scale, along, shape.rank - 1));
    return kn_add(y, kn_import_reshape(call->import, bias, along, shape.rank - 1));
}

static kn_status group_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (x->shape.rank < 3) return kn_import_fail(call, KN_ERROR_SHAPE, "expected (N,C,…)");
    bool instance = !strcmp(call->node->type, "InstanceNormalization");
    int64_t groups = instance ? x->shape.dims[1] : kn_import_int(call, "num_groups", 1);
    kn_value *scale = kn_import_in(call, 1), *bias = kn_import_in(call, 2);
    if (groups < 1)
        return kn_import_fail(call, KN_ERROR_ARGUMENT, "expected a fixed number of groups, 1 or more");
    kn_dim channels = x->shape.dims[1];
    if (!instance && call->opset < 21 && kn_dim_known(channels) && scale->shape.dims[0] != channels) {
        /* Repeats each group's element for the channels of the group. */
        scale = kn_repeat(scale, 0, channels / groups);
        bias = kn_repeat(bias, 0, channels / groups);
    }
    return kn_import_put(
        call, 0,
        kn_import_normalized_groups(call, x, scale, bias, groups, kn_import_float(call, "epsilon", 1e-5)));
}

kn_value *kn_import_normalized_rows(kn_import_call *call, kn_value *x, const kn_import_norm *norm) {
    kn_value *inputs[3] = {x, norm->scale, norm->bias};
    kn_text text;
    kn_text_init(&text, &call->import->model->host);
    kn_text_add(&text, "epsilon=");
    kn_text_number(&text, norm->epsilon);
    const char *op = norm->rms ? "rms_norm" : "layer_norm";
    kn_value *y =
        kn_text_failed(&text) ? NULL : kn_apply(call->graph, op, inputs, norm->rms ? 2 : 3, text.data);
    kn_text_finish(&text);
    return norm->rms && norm->bias ? kn_add(y, norm->bias) : y;
}

kn_status kn_import_put_norm(kn_import_call *call, kn_value *x, const kn_import_norm *norm) {
    kn_value *scale = norm->scale, *bias = norm->bias;
    if (kn_import_status(call) != KN_OK) return kn_import_status(call);
    int rank = x->shape.rank, axis = norm->axis;
    bool plain = axis == rank - 1 && scale->shape.rank == 1 && scale->shape.dims[0] == x->shape.dims[axis] &&
                 !kn_import_wants(call, norm->mean) && !kn_import_wants(call, norm->deviation) &&
                 (!bias || bias->shape.rank == 1);
    if (plain && (norm->rms || bias)) return kn_import_put(call, 0, kn_import_normalized_rows(call, x, norm));
    int64_t axes[KN_MAX_RANK];
    for (int i = axis; i < rank; i++)
        axes[i - axis] = i;
    const char *list = kn_import_list(call->import, axes, rank - axis);
    kn_value *mean = norm->rms ? NULL : kn_mean(x, list, true), *centered = norm->rms ? x : kn_sub(x, mean);
    kn_value *deviation = kn_rsqrt(kn_shift(kn_mean(kn_mul(centered, centered), list, true), norm->epsilon));
    kn_value *y = kn_mul(kn_mul(centered, deviation), scale);
    if (bias) y = kn_add(y, bias);
    if (norm->rms && kn_import_wants(call, norm->mean))
        return kn_import_fail(
            call, KN_ERROR_UNSUPPORTED,
            "output %d (the mean) is not supported, since RMS normalization computes no mean", norm->mean);
    kn_import_put(call, 0, y);
    if (kn_import_wants(call, norm->mean)) kn_import_put(call, norm->mean, mean);
    if (kn_import_wants(call, norm->deviation)) kn_import_put(call, norm->deviation, deviation);
    return kn_import_status(call);
}

/* Normalizes over all axes from the node's axis on. */
static kn_status layer_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const bool simplified = !strcmp(call->node->type, "SimplifiedLayerNormalization");
    kn_import_norm norm = {.epsilon = kn_import_float(call, "epsilon", 1e-5),
                           .rms = simplified || !strcmp(call->node->type, "RMSNormalization"),
                           .mean = simplified ? -1 : 1,
                           .deviation = simplified ? 1 : 2};
    norm.scale = kn_import_in(call, 1);
    norm.bias = kn_import_optional(call, 2);
    norm.axis = kn_import_axis(call, kn_import_int(call, "axis", -1), x->shape.rank);
    return kn_import_put_norm(call, x, &norm);
}

static kn_status local_norm(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_local_norm_params params;
    kn_local_norm_params_init(&params);
    params.alpha = kn_import_float(call, "alpha", 1e-4);
    params.beta = kn_import_float(call, "beta", 0.75);
    params.k = kn_import_float(call, "bias", 1);
    return kn_import_put(call, 0, kn_local_response_norm(x, kn_import_int(call, "size", 1), &params));
}

const kn_import_row kn_import_layers[] = {
    {.type = "MatMul", .build = matmul},
    {.type = "Gemm", .build = gemm},
    {.type = "Einsum", .build = einsum},
    {.type = "BatchNormalization", .build = batch_norm},
    {.type = "InstanceNormalization", .build = group_norm},
    {.type = "GroupNormalization", .build = group_norm},
    {.type = "LayerNormalization",
     .op = "layer_norm",
     .numbers = {{"epsilon", "epsilon", 1e-5}},
     .build = layer_norm},
    {.type = "RMSNormalization", .build = layer_norm},
    {.type = "SimplifiedLayerNormalization", .build = layer_norm}, /* ONNX Runtime's operator, which has no
                                                                    * domain */
    {.type = "LRN", .build = local_norm},
};
const int kn_import_layers_count = (int)KN_COUNT_OF(kn_import_layers);
