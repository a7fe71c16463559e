/* Convolutions and pooling over lengths and images; volume.c has volumes. */
#include "exchange/onnx/window.h"

#include <inttypes.h>

/* Pads before and after, so that the result has size / stride, rounded up. */
static void pad_same(const kn_value *x, kn_window *w) {
    for (int i = 0; i < w->axes; i++) {
        int64_t size = x->shape.dims[2 + i], extent = w->dilation[i] * (w->size[i] - 1) + 1;
        int64_t steps = (size + w->stride[i] - 1) / w->stride[i],
                more = (steps - 1) * w->stride[i] + extent - size;
        if (more < 0) more = 0;
        w->padding[i] = w->same_lower ? more - more / 2 : more / 2;
        w->padding[i + w->axes] = more - w->padding[i];
    }
}

static kn_status take_list(kn_import_call *call, const char *name, int64_t usual, int axes,
                           int64_t *numbers) {
    for (int i = 0; i < axes; i++)
        numbers[i] = usual;
    int count = kn_import_ints(call, name, numbers, axes);
    if (count >= 0 && count != axes)
        return kn_import_fail(call, KN_ERROR_FORMAT, "%s has %d numbers; expected %d", name, count, axes);
    for (int i = 0; i < axes; i++)
        if (numbers[i] < 0 || numbers[i] > INT32_MAX)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "%s has the value %" PRId64 "; expected 0 to %d", name, numbers[i],
                                  INT32_MAX);
    return kn_import_status(call);
}

kn_status kn_window_take(kn_import_call *call, const kn_value *x, const kn_value *weight, kn_window *w) {
    *w = (kn_window){.axes = x->shape.rank - 2};
    if (w->axes < 1 || w->axes > KN_WINDOW_AXES)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "has %d spatial axes; 1 to 3 are supported",
                              w->axes);
    const char *automatic = kn_import_string(call, "auto_pad", "NOTSET");
    take_list(call, "kernel_shape", 1, w->axes, w->size);
    take_list(call, "strides", 1, w->axes, w->stride);
    take_list(call, "dilations", 1, w->axes, w->dilation);
    take_list(call, "pads", 0, 2 * w->axes, w->padding);
    const bool given = kn_import_attribute(call, "kernel_shape");
    for (int i = 0; weight && i < w->axes && weight->shape.rank == w->axes + 2; i++) {
        const int64_t size = weight->shape.dims[2 + i];
        if (given && kn_dim_known(size) && size != w->size[i])
            return kn_import_fail(call, KN_ERROR_SHAPE,
                                  "kernel_shape has %" PRId64 ", but the weight has %" PRId64, w->size[i],
                                  size);
        w->size[i] = size;
    }
    if (strcmp(automatic, "NOTSET") && strcmp(automatic, "VALID") && strcmp(automatic, "SAME_UPPER") &&
        strcmp(automatic, "SAME_LOWER"))
        return kn_import_fail(call, KN_ERROR_FORMAT,
                              "auto_pad is '%.40s'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                              automatic);
    for (int i = 0; i < w->axes; i++)
        if (w->size[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1)
            return kn_import_fail(call, KN_ERROR_ARGUMENT,
                                  "kernel sizes, strides and dilations must be positive");
    w->same = !strcmp(automatic, "SAME_UPPER");
    w->same_lower = !strcmp(automatic, "SAME_LOWER");
    if (!strcmp(automatic, "VALID")) memset(w->padding, 0, sizeof w->padding);
    return kn_import_status(call);
}

static bool known_image(const kn_value *x, const kn_window *w) {
    for (int i = 0; i < w->axes; i++)
        if (!kn_dim_known(x->shape.dims[2 + i])) return false;
    return true;
}

/* A group below 1 is a failure of the node. */
static int64_t groups_of(const kn_import_call *call) {
    const int64_t groups = kn_import_int(call, "group", 1);
    if (groups < 1)
        kn_import_fail(call, KN_ERROR_ARGUMENT, "group is %" PRId64 "; expected 1 or more", groups);
    return groups;
}

static kn_status take_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_window *w,
                                  kn_conv_params *params) {
    if (kn_window_take(call, x, weight, w) != KN_OK) return kn_import_status(call);
    *params = (kn_conv_params){.size = sizeof *params, .groups = groups_of(call), .all_padding = true};
    if ((w->same || w->same_lower) && known_image(x, w))
        pad_same(x, w);
    else
        params->same = w->same, params->same_lower = w->same_lower;
    if (w->axes < 3) kn_window_copy(w, params->stride, params->padding, params->dilation);
    return kn_import_status(call);
}

kn_value *kn_import_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias) {
    kn_window w;
    kn_conv_params params;
    if (take_convolution(call, x, weight, &w, &params) != KN_OK) return kn_import_failed(call);
    if (w.axes == 3) return kn_volume_convolution(call, x, weight, bias, &w, params.groups);
    return w.axes == 1 ? kn_conv1d(x, weight, bias, &params) : kn_conv2d(x, weight, bias, &params);
}

kn_value *kn_import_byte_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *x_zero,
                                     kn_value *weight_zero, bool whole) {
    kn_window w;
    kn_conv_params params;
    if (take_convolution(call, x, weight, &w, &params) != KN_OK) return kn_import_failed(call);
    const bool line = w.axes == 1; /* an image of one row */
    const int64_t *stride = params.stride, *dilation = params.dilation, *padding = params.padding;
    const char *text = kn_arena_format(
        call->import->arena,
        "stride=%lld,%lld dilation=%lld,%lld padding=%lld,%lld,%lld,%lld groups=%lld same=%d same_lower=%d "
        "whole=%d",
        (long long)(line ? 1 : stride[0]), (long long)stride[!line], (long long)(line ? 1 : dilation[0]),
        (long long)dilation[!line], (long long)(line ? 0 : padding[0]), (long long)padding[!line],
        (long long)(line ? 0 : padding[2]), (long long)padding[line ? 1 : 3], (long long)params.groups,
        params.same, params.same_lower, whole);
    kn_value *inputs[4] = {line ? kn_unsqueeze(x, "2") : x, line ? kn_unsqueeze(weight, "2") : weight, x_zero,
                           weight_zero};
    if (!text) {
        kn_import_no_memory(call->import);
        return kn_import_failed(call);
    }
    kn_value *y = kn_apply(call->import->graph, "conv2d_bytes", inputs,
                           weight_zero ? 4
                           : x_zero    ? 3
                                       : 2,
                           text);
    return line ? kn_squeeze(y, "2") : y;
}

kn_value *kn_import_integer_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *x_zero,
                                        kn_value *weight_zero) {
    kn_window w;
    kn_conv_params params;
    if (take_convolution(call, x, weight, &w, &params) != KN_OK) return kn_import_failed(call);
    return w.axes == 1 ? kn_conv1d_integer(x, weight, x_zero, weight_zero, &params)
                       : kn_conv2d_integer(x, weight, x_zero, weight_zero, &params);
}

static kn_status conv_transpose(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1), *bias = kn_import_optional(call, 2);
    int64_t more[KN_WINDOW_AXES] = {0}, shape[KN_WINDOW_AXES];
    kn_window w;
    if (kn_window_take(call, x, weight, &w) != KN_OK ||
        take_list(call, "output_padding", 0, w.axes, more) != KN_OK)
        return kn_import_status(call);
    bool sized = kn_import_ints(call, "output_shape", shape, KN_WINDOW_AXES) == w.axes;
    for (int i = 0; i < w.axes && (sized || w.same || w.same_lower); i++) {
        int64_t size = x->shape.dims[2 + i], extent = w.dilation[i] * (w.size[i] - 1) + 1;
        if (!kn_dim_known(size))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "output_shape and auto_pad need a fixed input size");
        int64_t wanted = sized ? shape[i] : size * w.stride[i];
        int64_t total = (size - 1) * w.stride[i] + more[i] + extent - wanted;
        if (total < 0) more[i] -= total, total = 0;
        w.padding[i] = w.same_lower ? total - total / 2 : total / 2;
        w.padding[i + w.axes] = total - w.padding[i];
    }
    if (w.axes == 3) {
        const int64_t groups = groups_of(call);
        return kn_import_put(call, 0, kn_volume_convolution_back(call, x, weight, bias, &w, groups, more));
    }
    kn_conv_params params = {.size = sizeof params, .groups = groups_of(call), .all_padding = true};
    kn_window_copy(&w, params.stride, params.padding, params.dilation);
    /* Output padding beyond the stride is added as zeros, since no tap reaches it. */
    int64_t beyond[2] = {0, 0};
    for (int i = 0; i < w.axes; i++) {
        if (more[i] >= w.stride[i]) beyond[i] = more[i] - (w.stride[i] - 1);
        params.output_padding[i] = more[i] - beyond[i];
    }
    bool pads = beyond[0] || beyond[1];
    /* A width of 0 would mean the same as the height. */
    if (w.axes == 2 && params.output_padding[1] == 0 && params.output_padding[0] != 0)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "output_padding only for the height is not supported");
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

kn_status kn_window_take_pool(kn_import_call *call, const kn_value *x, kn_window *w) {
    if (kn_window_take(call, x, NULL, w) != KN_OK) return kn_import_status(call);
    if (w->same || w->same_lower) {
        if (!known_image(x, w))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "auto_pad needs a fixed image size");
        pad_same(x, w);
    }
    w->ceil = kn_import_int(call, "ceil_mode", 0) != 0;
    w->skip_padding = !kn_import_int(call, "count_include_pad", 0);
    w->power = (double)kn_import_int(call, "p", 2);
    return kn_import_status(call);
}

static kn_status max_pool(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_window w;
    if (kn_window_take_pool(call, x, &w) != KN_OK) return kn_import_status(call);
    if (kn_import_wants(call, 1)) {
        if (!known_image(x, &w))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "indices of maxima need a fixed image size");
        kn_value *numbers = kn_dtype_is_float(x->shape.dtype) ? x : kn_cast(x, KN_FLOAT32);
        kn_value *positions =
            kn_pool_positions(call, numbers, &w, kn_import_int(call, "storage_order", 0) != 0);
        kn_import_put_as(call, 1, positions, KN_INT64);
    }
    return kn_import_put(call, 0, kn_window_max_pool(call, x, &w));
}

static kn_status other_pool(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_window w;
    kn_pooling pooling = !strcmp(call->node->type, "LpPool") ? KN_POOL_POWER : KN_POOL_AVERAGE;
    if (kn_window_take_pool(call, x, &w) != KN_OK) return kn_import_status(call);
    return kn_import_put(call, 0, kn_window_pool(call, x, &w, pooling));
}

/* Reduces all axes after the channels to size 1. */
static const char *image_axes(kn_import *import, const kn_value *x) {
    int64_t axes[KN_MAX_RANK];
    for (int i = 2; i < x->shape.rank; i++)
        axes[i - 2] = i;
    return kn_import_list(import, axes, x->shape.rank - 2);
}

static kn_status global_pool(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    if (x->shape.rank < 3) return kn_import_fail(call, KN_ERROR_SHAPE, "expected (N,C,…)");
    const char *axes = image_axes(call->import, x);
    if (call->row->reduce) return kn_import_put(call, 0, call->row->reduce(x, axes, true));
    double p = (double)kn_import_int(call, "p", 2);
    kn_dtype dtype = x->shape.dtype;
    kn_value *sum = kn_sum(kn_pow(kn_abs(x), kn_import_scalar(call->import, dtype, p)), axes, true);
    return kn_import_put(call, 0, kn_pow(sum, kn_import_scalar(call->import, dtype, 1 / p)));
}

/* ---- col2im -------------------------------------------------------------------------------------------- */

enum { BACK_AXES = KN_MAX_RANK - 2, BACK_NUMBERS = 1 << 24 };

typedef struct back {
    int axes;
    int64_t image[BACK_AXES], block[BACK_AXES], stride[BACK_AXES], dilation[BACK_AXES],
        padding[2 * BACK_AXES];
    int64_t steps[BACK_AXES], elements, taps, positions; /* of the image, of a block, number of blocks */
} back;

static kn_status measure_back(kn_import_call *call, back *b) {
    int64_t product = 1;
    b->elements = b->taps = b->positions = 1;
    for (int i = 0; i < b->axes; i++) {
        bool fine = b->image[i] >= 1 && b->image[i] <= BACK_NUMBERS && b->block[i] >= 1 &&
                    b->block[i] <= BACK_NUMBERS && b->stride[i] >= 1 && b->dilation[i] >= 1;
        int64_t extent = fine ? b->dilation[i] * (b->block[i] - 1) + 1 : 0;
        int64_t room = b->image[i] + b->padding[i] + b->padding[i + b->axes] - extent;
        if (!fine || room < 0)
            return kn_import_fail(call, KN_ERROR_ARGUMENT, "the blocks do not fit the image");
        b->steps[i] = room / b->stride[i] + 1;
        if (product > BACK_NUMBERS / b->steps[i] || product * b->steps[i] > BACK_NUMBERS / b->block[i] ||
            b->elements > BACK_NUMBERS / b->image[i])
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the image has too many blocks");
        product *= b->steps[i] * b->block[i];
        b->elements *= b->image[i];
        b->taps *= b->block[i];
        b->positions *= b->steps[i];
    }
    return kn_import_status(call);
}

/* The image index of tap `tap` of block `position`; taps in the padding get an index beyond the end. */
static int64_t image_index(const back *b, int64_t tap, int64_t position) {
    int64_t at = 0, stride = 1;
    for (int i = b->axes; i-- > 0;) {
        int64_t along =
            position % b->steps[i] * b->stride[i] + tap % b->block[i] * b->dilation[i] - b->padding[i];
        if (along < 0 || along >= b->image[i]) return b->elements;
        at += along * stride;
        stride *= b->image[i];
        position /= b->steps[i];
        tap /= b->block[i];
    }
    return at;
}

/* x is (N,C*taps,blocks): adds each block at its position in the image (N,C,…). */
static kn_status col2im(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    kn_import *import = call->import;
    back b;
    int blocks = 0;
    kn_import_integers(call, 1, b.image, BACK_AXES, &b.axes);
    kn_import_integers(call, 2, b.block, BACK_AXES, &blocks);
    if (blocks != b.axes || b.axes < 1 || x->shape.rank != 3)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected x (N,C,blocks), and a block size for each image axis");
    take_list(call, "strides", 1, b.axes, b.stride);
    take_list(call, "dilations", 1, b.axes, b.dilation);
    take_list(call, "pads", 0, 2 * b.axes, b.padding);
    if (measure_back(call, &b) != KN_OK) return kn_import_status(call);
    kn_dim batch = x->shape.dims[0], channels = x->shape.dims[1];
    if (!kn_dim_known(channels) || channels % b.taps != 0 || x->shape.dims[2] != b.positions)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected %" PRId64 " blocks of %" PRId64 " elements",
                              b.positions, b.taps);
    channels /= b.taps;
    int64_t count = b.taps * b.positions;
    int32_t *positions = kn_arena_take(import->arena, (size_t)count, sizeof *positions);
    if (!positions) return kn_import_no_memory(import);
    for (int64_t i = 0; i < count; i++)
        positions[i] = (int32_t)image_index(&b, i / b.positions, i % b.positions);
    kn_dim dims[KN_MAX_RANK] = {batch, channels, count};
    kn_value *numbers = kn_import_constant(import, KN_INT32, positions, &count, 1);
    numbers = kn_import_broadcast(import, numbers, dims, 3);
    x = kn_import_reshape(import, x, dims, 3);
    dims[2] = b.elements + 1;
    kn_value *zero = kn_import_scalar(import, kn_value_dtype(x), 0);
    kn_value *y =
        kn_scatter_elements(kn_import_broadcast(import, zero, dims, 3), numbers, x, 2, KN_SCATTER_ADD);
    for (int i = 0; i < b.axes; i++)
        dims[2 + i] = b.image[i];
    return kn_import_put(call, 0, kn_import_reshape(import, kn_slice(y, 2, 0, b.elements), dims, b.axes + 2));
}

const kn_import_row kn_import_window[] = {
    {.type = "ConvTranspose", .build = conv_transpose},
    {.type = "MaxPool", .build = max_pool},
    {.type = "AveragePool", .build = other_pool},
    {.type = "LpPool", .build = other_pool},
    {.type = "GlobalAveragePool", .build = global_pool, .reduce = kn_mean},
    {.type = "GlobalMaxPool", .build = global_pool, .reduce = kn_reduce_max},
    {.type = "GlobalLpPool", .build = global_pool},
    {.type = "Col2Im", .build = col2im},
};
const int kn_import_window_count = (int)KN_COUNT_OF(kn_import_window);
