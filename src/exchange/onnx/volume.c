/* The results of windows: windows over volumes are computed as windows over images; windows that no operator
 * supports are sums over their elements. */
#include "exchange/onnx/window.h"

#include <inttypes.h>
#include <math.h>

void kn_window_copy(const kn_window *w, int64_t *stride, int64_t *padding, int64_t *dilation) {
    memcpy(stride, w->stride, 2 * sizeof *stride);
    memcpy(dilation, w->dilation, 2 * sizeof *dilation);
    /* For a length, the first two elements are the padding before and after. */
    memcpy(padding, w->padding, 4 * sizeof *padding);
}

/* ---- folded axes --------------------------------------------------------------------------------------- */

/* The window over height and width. */
static kn_window plane_of(const kn_window *w) {
    kn_window plane = *w;
    plane.axes = 2;
    for (int i = 0; i < 2; i++) {
        plane.size[i] = w->size[1 + i];
        plane.stride[i] = w->stride[1 + i];
        plane.dilation[i] = w->dilation[1 + i];
        plane.padding[i] = w->padding[1 + i];
        plane.padding[2 + i] = w->padding[4 + i];
    }
    return plane;
}

/* The window over depth, for images with height D. */
static kn_window depth_of(const kn_window *w) {
    kn_window depth = *w;
    depth.axes = 2;
    depth.size[1] = depth.stride[1] = depth.dilation[1] = 1;
    depth.padding[2] = w->padding[3];
    depth.padding[1] = depth.padding[3] = 0;
    return depth;
}

/* Pools height and width, then depth: x (N,C,D,H,W) as (N,C*D,H,W), then (N,C,D,H*W). */
static kn_value *volume_pool(kn_import_call *call, kn_value *x, const kn_window *w, kn_pooling pooling) {
    const kn_window plane = plane_of(w), depth = depth_of(w);
    const kn_shape shape = x->shape;
    kn_graph *graph = call->graph;
    kn_dim dims[4] = {shape.dims[0], kn_dim_multiply(graph, shape.dims[1], shape.dims[2]), shape.dims[3],
                      shape.dims[4]};
    x = kn_window_pool(call, kn_import_reshape(call->import, x, dims, 4), &plane, pooling);
    const kn_dim height = x->shape.dims[2], width = x->shape.dims[3];
    memcpy(dims, shape.dims, 3 * sizeof *dims);
    dims[3] = kn_dim_multiply(graph, height, width);
    x = kn_window_pool(call, kn_import_reshape(call->import, x, dims, 4), &depth, pooling);
    const kn_dim result[5] = {shape.dims[0], shape.dims[1], x->shape.dims[2], height, width};
    return kn_import_reshape(call->import, x, result, 5);
}

/* ---- sums over window elements ------------------------------------------------------------------------- */

/* The number of window positions along an axis. */
static int64_t positions_of(const kn_window *w, int i, int64_t size) {
    int64_t before = w->padding[i], extent = w->dilation[i] * (w->size[i] - 1) + 1;
    int64_t free = size + before + w->padding[i + w->axes] - extent, stride = w->stride[i];
    if (free < 0) return 0;
    int64_t positions = (free + (w->ceil ? stride - 1 : 0)) / stride + 1;
    if (w->ceil && (positions - 1) * stride >= size + before) positions--;
    return positions;
}

/* Pads x along an axis, so that all window positions are inside. */
static kn_value *padded(kn_import_call *call, kn_value *x, const kn_window *w, int i, int64_t positions,
                        double value) {
    int64_t amounts[KN_IMPORT_LIST] = {0}, size = x->shape.dims[2 + i];
    int64_t needed = (positions - 1) * w->stride[i] + w->dilation[i] * (w->size[i] - 1) + 1;
    int64_t after = needed - size - w->padding[i];
    if (!w->padding[i] && after <= 0) return x;
    amounts[2 + i] = w->padding[i];
    amounts[x->shape.rank + 2 + i] = after > 0 ? after : 0;
    return kn_pad(x, kn_import_list(call->import, amounts, 2 * x->shape.rank), value);
}

static kn_value *tap(kn_import_call *call, kn_value *x, const kn_window *w, int i, int64_t k,
                     int64_t positions) {
    int64_t begin = k * w->dilation[i];
    return kn_import_slice(call->import, x, 2 + i, begin, begin + (positions - 1) * w->stride[i] + 1,
                           w->stride[i]);
}

/* 1 / number of valid elements at each window position of axis i, shaped to broadcast over the `after` axes
 * after it. */
static kn_value *reciprocal_counts(kn_import_call *call, const kn_window *w, int i, int64_t size,
                                   int64_t positions, kn_dtype dtype) {
    double *numbers = kn_arena_take(call->import->arena, (size_t)positions, sizeof *numbers);
    if (!numbers) return kn_graph_fail(call->graph, KN_ERROR_MEMORY, "out of host memory");
    int64_t low = w->skip_padding ? 0 : -w->padding[i],
            high = size + (w->skip_padding ? 0 : w->padding[i + w->axes]);
    for (int64_t j = 0; j < positions; j++) {
        int64_t count = 0;
        for (int64_t k = 0; k < w->size[i]; k++) {
            int64_t at = j * w->stride[i] + k * w->dilation[i] - w->padding[i];
            count += at >= low && at < high;
        }
        numbers[j] = 1 / (double)count;
    }
    const int64_t dims[3] = {positions, 1, 1};
    return kn_import_cast(kn_import_constant(call->import, KN_FLOAT64, numbers, dims, w->axes - i), dtype);
}

/* Sums over the elements of the window, axis by axis, for averages and powers with dilations. */
static kn_value *pool_by_taps(kn_import_call *call, kn_value *x, const kn_window *w, kn_pooling pooling) {
    kn_dtype dtype = x->shape.dtype;
    if (pooling == KN_POOL_POWER) x = kn_pow(kn_abs(x), kn_import_scalar(call->import, dtype, w->power));
    for (int i = 0; i < w->axes && kn_import_status(call) == KN_OK; i++) {
        int64_t size = x->shape.dims[2 + i];
        if (!kn_dim_known(size) || w->size[i] > 4096)
            return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                                    "expected an axis of fixed size and a window of at most 4096");
        int64_t positions = positions_of(w, i, size);
        if (positions < 1)
            return kn_import_reject(call, KN_ERROR_SHAPE, "the window is larger than axis %d", 2 + i);
        kn_value *from = padded(call, x, w, i, positions, 0), *sum = tap(call, from, w, i, 0, positions);
        for (int64_t k = 1; k < w->size[i]; k++)
            sum = kn_add(sum, tap(call, from, w, i, k, positions));
        x = pooling == KN_POOL_AVERAGE ? kn_mul(sum, reciprocal_counts(call, w, i, size, positions, dtype))
                                       : sum;
    }
    if (pooling == KN_POOL_POWER) x = kn_pow(x, kn_import_scalar(call->import, dtype, 1 / w->power));
    return x;
}

/* The index of each element of x (N,C,…), int64. */
static kn_value *numbered(kn_import_call *call, const kn_value *x, bool columns) {
    const int rank = x->shape.rank;
    const bool swaps = columns && rank >= 4;
    kn_dim dims[KN_MAX_RANK], elements = 1;
    for (int i = 0; i < rank; i++)
        elements = kn_dim_multiply(call->graph, elements, dims[i] = x->shape.dims[i]);
    if (swaps) dims[rank - 2] = x->shape.dims[rank - 1], dims[rank - 1] = x->shape.dims[rank - 2];
    kn_value *numbers = kn_import_reshape(call->import, kn_import_range(call->import, elements), dims, rank);
    return swaps ? kn_transpose(numbers, rank == 5 ? "0,1,2,4,3" : "0,1,3,2") : numbers;
}

/* All elements of the window along a new last axis: (N,C,…,elements). */
static kn_value *side_by_side(kn_import_call *call, kn_value *x, const kn_window *w, double value) {
    for (int i = 0; i < w->axes && kn_import_status(call) == KN_OK; i++) {
        int64_t positions = kn_dim_known(x->shape.dims[2 + i]) ? positions_of(w, i, x->shape.dims[2 + i]) : 0;
        kn_value *parts[KN_MAX_INPUTS],
            *from = positions < 1 ? NULL : padded(call, x, w, i, positions, value);
        if (!from || w->size[i] > KN_MAX_INPUTS || x->shape.rank == KN_MAX_RANK)
            return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                                    "indices of a window of %" PRId64
                                    " along an axis of size %s are not supported",
                                    w->size[i], kn_import_dims_text(call->import, &x->shape.dims[2 + i], 1));
        for (int64_t k = 0; k < w->size[i]; k++)
            parts[k] = tap(call, from, w, i, k, positions);
        x = kn_stack(parts, (size_t)w->size[i], -1);
    }
    kn_dim dims[KN_MAX_RANK] = {0};
    for (int i = 0; i < 2 + w->axes; i++)
        dims[i] = x->shape.dims[i];
    dims[2 + w->axes] = -1;
    return kn_reshape(x, kn_import_dims_text(call->import, dims, 3 + w->axes));
}

kn_value *kn_pool_positions(kn_import_call *call, kn_value *x, const kn_window *w, bool columns) {
    kn_value *elements = side_by_side(call, x, w, -INFINITY);
    kn_value *numbers = side_by_side(call, numbered(call, x, columns), w, 0);
    int last = elements->shape.rank - 1;
    kn_value *positions = kn_gather_elements(numbers, kn_argmax(elements, last, true), last);
    return kn_cast(kn_squeeze(positions, "-1"), KN_INT64);
}

kn_value *kn_window_pool(kn_import_call *call, kn_value *x, const kn_window *w, kn_pooling pooling) {
    bool dilated = false;
    for (int i = 0; i < w->axes; i++)
        dilated = dilated || w->dilation[i] != 1;
    if (dilated && pooling != KN_POOL_MAX) return pool_by_taps(call, x, w, pooling);
    if (w->axes == 3) return volume_pool(call, x, w, pooling);
    kn_pool_params params = {
        .size = sizeof params, .all_padding = true, .ceil = w->ceil, .skip_padding = w->skip_padding};
    memcpy(params.window, w->size, sizeof params.window);
    kn_window_copy(w, params.stride, params.padding, params.dilation);
    return pooling == KN_POOL_MAX       ? kn_max_pool(x, w->size[0], &params)
           : pooling == KN_POOL_AVERAGE ? kn_average_pool(x, w->size[0], &params)
                                        : kn_lp_pool(x, w->power, w->size[0], &params);
}

kn_value *kn_window_max_pool(kn_import_call *call, kn_value *x, const kn_window *w) {
    kn_dtype dtype = x->shape.dtype;
    if (!kn_dtype_is_float(dtype)) x = kn_cast(x, KN_FLOAT32);
    return kn_import_cast(kn_window_pool(call, x, w, KN_POOL_MAX), dtype);
}

/* ---- convolutions -------------------------------------------------------------------------------------- */

/* Plane k of a weight (O,C,D,H,W): (O,C,H,W). */
static kn_value *plane_of_weight(kn_value *weight, int64_t k) {
    return kn_squeeze(kn_slice(weight, 2, k, k + 1), "2");
}

/* x (N,C,D,H,W) as images (N*D,C,H,W). */
static kn_value *as_images(kn_import_call *call, kn_value *x) {
    x = kn_transpose(x, "0,2,1,3,4");
    const kn_dim *d = x->shape.dims;
    const kn_dim dims[4] = {kn_dim_multiply(call->graph, d[0], d[1]), d[2], d[3], d[4]};
    return kn_import_reshape(call->import, x, dims, 4);
}

/* The inverse of as_images, for given N and D. */
static kn_value *as_volumes(kn_import_call *call, kn_value *x, kn_dim batch, kn_dim depth) {
    const kn_dim dims[5] = {batch, depth, x->shape.dims[1], x->shape.dims[2], x->shape.dims[3]};
    return kn_transpose(kn_import_reshape(call->import, x, dims, 5), "0,2,1,3,4");
}

static kn_conv_params plane_params(const kn_window *w, int64_t groups) {
    const kn_window plane = plane_of(w);
    kn_conv_params params = {.size = sizeof params, .groups = groups, .all_padding = true};
    memcpy(params.stride, plane.stride, sizeof params.stride);
    memcpy(params.dilation, plane.dilation, sizeof params.dilation);
    memcpy(params.padding, plane.padding, sizeof params.padding);
    return params;
}

static kn_status check_volume(kn_import_call *call, const kn_value *x, const kn_value *weight,
                              const kn_window *w) {
    if (weight->shape.rank != 5) return kn_import_fail(call, KN_ERROR_SHAPE, "expected a weight of rank 5");
    bool open = !kn_dim_known(x->shape.dims[2]);
    for (int i = 1; i < 3 && (w->same || w->same_lower); i++) /* the padding then depends on the sizes */
        open = open || !kn_dim_known(x->shape.dims[2 + i]);
    if (open || w->size[0] > 4096)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "expected a fixed depth and a window of at most 4096 planes");
    return kn_import_status(call);
}

/* The sum of image convolutions over the planes of the weight. */
kn_value *kn_volume_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias,
                                const kn_window *w, int64_t groups) {
    if (check_volume(call, x, weight, w) != KN_OK) return kn_import_failed(call);
    kn_conv_params params = plane_params(w, groups);
    kn_value *sum = NULL;
    int64_t depth = positions_of(w, 0, x->shape.dims[2]);
    kn_dim batch = x->shape.dims[0];
    if (depth < 1) return kn_import_reject(call, KN_ERROR_SHAPE, "the window is deeper than the volume");
    x = padded(call, x, w, 0, depth, 0);
    for (int64_t k = 0; k < w->size[0]; k++) {
        kn_value *images = as_images(call, tap(call, x, w, 0, k, depth));
        kn_value *part = kn_conv2d(images, plane_of_weight(weight, k), k ? NULL : bias, &params);
        sum = sum ? kn_add(sum, part) : part;
    }
    return as_volumes(call, sum, batch, depth);
}

/* Inserts stride - 1 planes of zeros between those of x (N,C,D,H,W). */
static kn_value *spread(kn_import_call *call, kn_value *x, int64_t stride) {
    if (stride == 1) return x;
    const kn_dim *d = x->shape.dims;
    const kn_dim split[6] = {d[0], d[1], d[2], 1, d[3], d[4]};
    const kn_dim joined[5] = {d[0], d[1], d[2] * stride, d[3], d[4]};
    int64_t amounts[12] = {[9] = stride - 1};
    kn_value *y =
        kn_pad(kn_import_reshape(call->import, x, split, 6), kn_import_list(call->import, amounts, 12), 0);
    y = kn_import_reshape(call->import, y, joined, 5);
    return kn_import_slice(call->import, y, 2, 0, (d[2] - 1) * stride + 1, 1);
}

/* Each plane of the weight yields a volume; the volumes are added at their offsets. */
kn_value *kn_volume_convolution_back(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias,
                                     const kn_window *w, int64_t groups, const int64_t *more) {
    if (check_volume(call, x, weight, w) != KN_OK) return kn_import_failed(call);
    kn_window whole = *w;
    memset(whole.padding, 0, sizeof whole.padding);
    kn_conv_params params = plane_params(&whole, groups);
    kn_dim batch = x->shape.dims[0], depth = x->shape.dims[2];
    int64_t spread_depth = (depth - 1) * w->stride[0] + 1, extent = w->dilation[0] * (w->size[0] - 1);
    kn_value *images = as_images(call, x), *sum = NULL;
    for (int64_t k = 0; k < w->size[0]; k++) {
        kn_value *part = kn_conv_transpose2d(images, plane_of_weight(weight, k), NULL, &params);
        part = as_volumes(call, part, batch, depth);
        part = spread(call, part, w->stride[0]);
        int64_t amounts[10] = {[2] = k * w->dilation[0], [7] = extent - k * w->dilation[0]};
        if (extent) part = kn_pad(part, kn_import_list(call->import, amounts, 10), 0);
        sum = sum ? kn_add(sum, part) : part;
    }
    /* Crops the padding, and adds zeros for output beyond the windows. */
    int64_t amounts[10] = {0};
    bool pads = false;
    for (int i = 0; i < 3; i++) {
        int64_t cut = w->padding[3 + i] - more[i];
        if (cut < 0) amounts[5 + 2 + i] = -cut, pads = true, cut = 0;
        int64_t size = i ? sum->shape.dims[2 + i] : spread_depth + extent;
        if (!kn_dim_known(size) || size - cut <= w->padding[i])
            return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                                    "padding crops a dynamic size, or leaves no elements");
        if (cut || w->padding[i])
            sum = kn_import_slice(call->import, sum, 2 + i, w->padding[i], size - cut, 1);
    }
    if (pads) sum = kn_pad(sum, kn_import_list(call->import, amounts, 10), 0);
    if (!bias) return sum;
    const kn_dim channels[4] = {bias->shape.dims[0], 1, 1, 1};
    return kn_add(sum, kn_import_reshape(call->import, bias, channels, 4));
}
