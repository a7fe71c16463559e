/* Builders on top of gather and scatter: indices along several axes, one-hot rows, padding with the array's
 * elements. */
#include <inttypes.h>

#include "ops/build.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"

/* ---- the rows -------------------------------------------------------------------------------- */

/* inputs[0] is x. */
static kn_value *along(const kn_operator *row, kn_value *const *inputs, int count, int axis, int reduction) {
    kn_graph *graph = NULL;
    for (int i = 0; i < count && !graph; i++)
        if (inputs[i]) graph = inputs[i]->graph;
    if (!graph) return NULL;
    kn_settings settings;
    kn_settings_init(&settings, graph, row);
    kn_settings_int(&settings, "axis", axis);
    if (reduction) kn_settings_int(&settings, "reduction", reduction);
    return kn_build(row, inputs, count, &settings);
}

kn_value *kn_gather(kn_value *x, kn_value *numbers, int axis) {
    kn_value *inputs[2] = {x, numbers};
    return along(&kn_row_gather, inputs, 2, axis, 0);
}

/* Whether axis i of x is longer than that of the indices, which is allowed. */
static bool is_longer(const kn_value *x, const kn_value *numbers, int i) {
    kn_dim size = x->shape.dims[i], part = numbers->shape.dims[i];
    return size != part && kn_dim_known(part) && (!kn_dim_known(size) || part < size);
}

kn_value *kn_gather_elements(kn_value *x, kn_value *numbers, int axis) {
    kn_value *inputs[2] = {x, numbers};
    if (kn_value_failed(x) || kn_value_failed(numbers) || x->shape.rank != numbers->shape.rank)
        return along(&kn_row_gather_elements, inputs, 2, axis, 0);
    int rank = x->shape.rank, picked = axis < 0 ? axis + rank : axis;
    for (int i = 0; i < rank; i++)
        if (i != picked && is_longer(inputs[0], numbers, i))
            inputs[0] = kn_slice(inputs[0], i, 0, numbers->shape.dims[i]);
    return along(&kn_row_gather_elements, inputs, 2, axis, 0);
}

static bool check_reduction(kn_graph *graph, const char *builder, kn_scatter_reduction reduction) {
    if ((unsigned)reduction <= KN_SCATTER_MIN) return true;
    kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: unknown reduction %d; use one of kn_scatter_reduction",
                  builder, (int)reduction);
    return false;
}

kn_value *kn_scatter(kn_value *x, kn_value *numbers, kn_value *updates, int axis,
                     kn_scatter_reduction reduction) {
    kn_value *inputs[3] = {x, numbers, updates};
    if (x && !check_reduction(x->graph, "scatter", reduction)) return &x->graph->failed;
    return along(&kn_row_scatter, inputs, 3, axis, (int)reduction);
}

/* If x is longer than the indices along another axis, the remaining elements are unchanged. */
kn_value *kn_scatter_elements(kn_value *x, kn_value *numbers, kn_value *updates, int axis,
                              kn_scatter_reduction reduction) {
    kn_value *inputs[3] = {x, numbers, updates};
    if (x && !check_reduction(x->graph, "scatter_elements", reduction)) return &x->graph->failed;
    if (kn_value_failed(x) || kn_value_failed(numbers) || x->shape.rank != numbers->shape.rank)
        return along(&kn_row_scatter_elements, inputs, 3, axis, (int)reduction);
    int rank = x->shape.rank, picked = axis < 0 ? axis + rank : axis;
    for (int i = 0; i < rank; i++) {
        if (i == picked || !is_longer(x, numbers, i)) continue;
        int64_t part = numbers->shape.dims[i];
        kn_value *parts[2] = {kn_scatter_elements(kn_slice(x, i, 0, part), numbers, updates, axis, reduction),
                              kn_slice(x, i, part, INT64_MAX)};
        return kn_concat(parts, 2, i);
    }
    return along(&kn_row_scatter_elements, inputs, 3, axis, (int)reduction);
}

/* ---- numbers of several axes ----------------------------------------------------------------- */

/* The value of a symbolic size, counted on the device as a sum of ones. */
static kn_value *size_value(kn_graph *graph, kn_dim size, kn_dtype dtype) {
    kn_value *count = kn_sum(kn_broadcast_to(kn_int_scalar(graph, 1), 1, &size), "0", false);
    return dtype == KN_INT32 ? count : kn_cast(count, dtype);
}

/* Converts negative indices to indices from the beginning. */
static kn_value *from_beginning(kn_value *numbers, kn_dim size) {
    if (kn_value_failed(numbers)) return numbers;
    const kn_shape scalar = {.dtype = numbers->shape.dtype};
    const uint64_t nothing = 0;
    kn_value *zero = kn_constant_add(numbers->graph, &scalar, &nothing, kn_dtype_bytes(scalar.dtype));
    kn_value *moved = kn_dim_known(size) ? kn_shift(numbers, (double)size)
                                         : kn_add(numbers, size_value(numbers->graph, size, scalar.dtype));
    return kn_where(kn_less(numbers, zero), moved, numbers);
}

/* numbers times a size. */
static kn_value *times_size(kn_value *numbers, kn_dim size) {
    if (kn_value_failed(numbers)) return numbers;
    return kn_dim_known(size) ? kn_scale(numbers, (double)size)
                              : kn_mul(numbers, size_value(numbers->graph, size, numbers->shape.dtype));
}

/* numbers is (...,K): K indices into K axes of x starting at `first`. Returns (...) flat indices into those
 * axes merged into one, sets *length to its size and *axes to K. NULL after failing the graph. */
static kn_value *flat_indices(const char *builder, kn_value *x, kn_value *numbers, int first, kn_dim *length,
                              int *axes) {
    kn_graph *graph = x->graph;
    const kn_shape *shape = &numbers->shape;
    kn_dim depth = shape->rank ? shape->dims[shape->rank - 1] : -1;
    bool fits = shape->rank > 0 && kn_dim_known(depth) && depth >= 1 && first + depth <= x->shape.rank &&
                (shape->dtype == KN_INT32 || shape->dtype == KN_INT64);
    kn_dim strides[KN_MAX_RANK];
    *length = 1;
    for (int i = fits ? (int)depth - 1 : -1; i >= 0; i--) {
        kn_dim size = x->shape.dims[first + i];
        strides[i] = *length;
        if (kn_dim_known(size) && kn_dim_known(*length))
            fits = fits && size > 0 && *length <= INT32_MAX / size;
        *length = fits ? kn_dim_multiply(graph, *length, size) : 1;
    }
    if (!fits) {
        kn_graph_fail(graph, KN_ERROR_SHAPE,
                      "%s: x is %s and the indices are %s; expected int32 or int64 (...,K), with K axes of x "
                      "that are not empty and have at most 2^31 - 1 elements",
                      builder, kn_shape_words(graph, &x->shape), kn_shape_words(graph, shape));
        return NULL;
    }
    *axes = (int)depth;
    kn_value *flat = NULL;
    for (int i = 0; i < (int)depth; i++) {
        kn_value *one = kn_slice(numbers, -1, i, i + 1);
        if (!kn_value_failed(one)) one = kn_reshape_to(one, shape->rank - 1, one->shape.dims);
        one = times_size(from_beginning(one, x->shape.dims[first + i]), strides[i]);
        flat = flat ? kn_add(flat, one) : one;
    }
    return flat;
}

/* x with its first `axes` axes merged into one of size `length`. */
static kn_value *merge_axes(kn_value *x, int axes, kn_dim length) {
    kn_dim dims[KN_MAX_RANK] = {length};
    for (int i = axes; i < x->shape.rank; i++)
        dims[1 + i - axes] = x->shape.dims[i];
    return kn_reshape_to(x, x->shape.rank - axes + 1, dims);
}

kn_value *kn_gather_nd(kn_value *x, kn_value *numbers) {
    if (kn_value_failed(x) || kn_value_failed(numbers)) return kn_gather(x, numbers, 0);
    kn_dim length;
    int axes;
    kn_value *flat = flat_indices("gather_nd", x, numbers, 0, &length, &axes);
    return flat ? kn_gather(merge_axes(x, axes, length), flat, 0) : &x->graph->failed;
}

/* The product of dimensions [first, last). */
static kn_dim elements_between(kn_graph *graph, const kn_shape *shape, int first, int last) {
    kn_dim product = 1;
    for (int i = first; i < last; i++)
        product = kn_dim_multiply(graph, product, shape->dims[i]);
    return product;
}

static bool share_batches(const kn_shape *x, const kn_shape *numbers, int batch) {
    bool shared = batch >= 0 && batch < numbers->rank && batch < x->rank;
    for (int i = 0; i < batch && shared; i++)
        shared = x->dims[i] == numbers->dims[i];
    return shared;
}

/* x is (B...,places...,rest...), numbers (B...,I...,K): reshaped to (B,length,R) and (B,I), so that the batch
 * may be a symbol. */
kn_value *kn_gather_nd_batches(kn_value *x, kn_value *numbers, int batch) {
    if (kn_value_failed(x) || kn_value_failed(numbers) || batch == 0) return kn_gather_nd(x, numbers);
    kn_graph *graph = x->graph;
    kn_dim length;
    int axes;
    if (!share_batches(&x->shape, &numbers->shape, batch))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "gather_nd: x is %s and the indices are %s; expected the same first %d axes, "
                             "and more axes after them",
                             kn_shape_words(graph, &x->shape), kn_shape_words(graph, &numbers->shape), batch);
    kn_value *flat = flat_indices("gather_nd", x, numbers, batch, &length, &axes);
    if (kn_value_failed(flat)) return &graph->failed;
    int rank = flat->shape.rank, rest = x->shape.rank - batch - axes;
    if (rank + rest > KN_MAX_RANK)
        return kn_graph_fail(
            graph, KN_ERROR_SHAPE, "gather_nd: x is %s and the indices are %s: more than %d dimensions",
            kn_shape_words(graph, &x->shape), kn_shape_words(graph, &numbers->shape), KN_MAX_RANK);
    kn_dim dims[KN_MAX_RANK], all[3] = {elements_between(graph, &x->shape, 0, batch), length,
                                        elements_between(graph, &x->shape, batch + axes, x->shape.rank)};
    kn_dim picked[3] = {all[0], elements_between(graph, &flat->shape, batch, rank), 1};
    for (int i = 0; i < rank + rest; i++)
        dims[i] = i < rank ? flat->shape.dims[i] : x->shape.dims[i - rank + batch + axes];
    kn_value *lanes = kn_reshape_to(x, 3, all), *places = kn_reshape_to(flat, 3, picked);
    picked[2] = all[2];
    return kn_reshape_to(kn_gather_elements(lanes, kn_broadcast_to(places, 3, picked), 1), rank + rest, dims);
}

kn_value *kn_scatter_nd(kn_value *x, kn_value *numbers, kn_value *updates, kn_scatter_reduction reduction) {
    if (kn_value_failed(x) || kn_value_failed(numbers)) return kn_scatter(x, numbers, updates, 0, reduction);
    kn_dim length;
    int axes;
    kn_value *flat = flat_indices("scatter_nd", x, numbers, 0, &length, &axes);
    if (!flat) return &x->graph->failed;
    kn_value *y = kn_scatter(merge_axes(x, axes, length), flat, updates, 0, reduction);
    return kn_reshape_to(y, x->shape.rank, x->shape.dims);
}

/* ---- one-hot --------------------------------------------------------------------------------- */

kn_value *kn_one_hot(kn_value *numbers, int64_t classes, int axis, double on, double off) {
    if (kn_value_failed(numbers)) return numbers;
    kn_graph *graph = numbers->graph;
    int rank = numbers->shape.rank + 1, at;
    kn_dtype dtype = numbers->shape.dtype;
    if (dtype != KN_INT32 && dtype != KN_INT64)
        return kn_graph_fail(graph, KN_ERROR_DTYPE, "one_hot: the indices are %s; expected int32 or int64",
                             kn_shape_words(graph, &numbers->shape));
    if (classes < 1 || classes > INT32_MAX)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "one_hot: %" PRId64 " classes; expected at least 1",
                             classes);
    if (!kn_take_axis(graph, "one_hot", axis, rank, &at)) return &graph->failed;
    kn_dim dims[KN_MAX_RANK + 1];
    for (int i = 0; i < rank; i++)
        dims[i] = i == at ? 1 : numbers->shape.dims[i < at ? i : i - 1];
    kn_value *expanded = kn_reshape_to(from_beginning(numbers, classes), rank, dims);
    if (kn_value_failed(expanded)) return expanded;
    kn_value *counted = kn_iota(graph, classes, at, rank);
    if (dtype != KN_INT32) counted = kn_cast(counted, dtype);
    kn_value *hot = kn_cast(kn_equal(expanded, counted), KN_FLOAT32);
    if (on - off != 1) hot = kn_scale(hot, on - off);
    return off != 0 ? kn_shift(hot, off) : hot;
}

/* ---- padding by the array's own elements ----------------------------------------------------- */

/* The index of the element at each position of an axis of `size`, where positions are relative to its first
 * element */
static kn_value *elements_at(kn_value *places, int32_t size, kn_pad_mode mode) {
    if (kn_value_failed(places)) return places;
    if (mode == KN_PAD_EDGE) return kn_clip(places, 0, size - 1);
    if (mode == KN_PAD_WRAP) return kn_mod(places, kn_int_scalar(places->graph, size));
    if (size == 1) return kn_scale(places, 0);
    /* Reflected at the first and last element. */
    int32_t period = 2 * (size - 1);
    kn_value *there = kn_mod(places, kn_int_scalar(places->graph, period));
    return kn_min(there, kn_sub(kn_int_scalar(places->graph, period), there));
}

static kn_value *pad_axis(kn_value *x, int axis, int64_t before, int64_t after, kn_pad_mode mode) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_dim size = x->shape.dims[axis];
    if (!kn_dim_known(size) || size < 1 || before < 0 || after < 0 || before > INT32_MAX ||
        after > INT32_MAX || before + after + size > INT32_MAX / 2)
        return kn_graph_fail(
            graph, KN_ERROR_SHAPE,
            "pad: x is %s; axis %d cannot be padded with %" PRId64 " elements before and %" PRId64
            " after; expected amounts of at least 0, and a positive size that is not a symbol",
            kn_shape_words(graph, &x->shape), axis, before, after);
    kn_value *places = kn_shift(kn_iota(graph, before + size + after, 0, 1), -(double)before);
    return kn_gather(x, elements_at(places, (int32_t)size, mode), axis);
}

kn_value *kn_pad_with_mode(kn_value *x, const char *amounts, kn_pad_mode mode) {
    if (kn_value_failed(x)) return x;
    kn_dim numbers[2 * KN_MAX_RANK];
    int rank = x->shape.rank;
    int count = kn_read_integers(x->graph, &kn_row_pad, amounts, 2 * KN_MAX_RANK, numbers);
    if (count < 0) return &x->graph->failed;
    if (count != 2 * rank || (unsigned)mode > KN_PAD_WRAP)
        return kn_graph_fail(x->graph, KN_ERROR_ARGUMENT,
                             "pad: x is %s and there are %d amounts; expected %d, one before and then one "
                             "after for each axis, and a mode of kn_pad_mode",
                             kn_shape_words(x->graph, &x->shape), count, 2 * rank);
    for (int i = 0; i < rank; i++)
        if (numbers[i] || numbers[rank + i]) x = pad_axis(x, i, numbers[i], numbers[rank + i], mode);
    return x;
}
