/* Reductions composed of sums, maxima and products: norms, log-sum-exp, and products over axes. */
#include <float.h>

#include "ops/build.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"

kn_value *kn_reduce_l1(kn_value *x, const char *axes, bool keep) {
    return kn_sum(kn_abs(x), axes, keep);
}
kn_value *kn_reduce_sum_square(kn_value *x, const char *axes, bool keep) {
    return kn_sum(kn_mul(x, x), axes, keep);
}
kn_value *kn_reduce_l2(kn_value *x, const char *axes, bool keep) {
    return kn_sqrt(kn_reduce_sum_square(x, axes, keep));
}
kn_value *kn_reduce_log_sum(kn_value *x, const char *axes, bool keep) {
    return kn_log(kn_sum(x, axes, keep));
}

/* x without the reduced axes, which `kept` still has, with size 1. */
static kn_value *without_axes(kn_value *x, kn_value *kept, const char *axes) {
    kn_value *model = kn_sum(x, axes, false); /* has no readers: never computed */
    return kn_value_failed(model) ? model : kn_reshape_to(kept, model->shape.rank, model->shape.dims);
}

/* The largest element is subtracted before exp and added after log, so that nothing overflows; if it is
 * infinite it is made finite first, since infinity minus infinity is NaN. */
kn_value *kn_reduce_log_sum_exp(kn_value *x, const char *axes, bool keep) {
    if (kn_value_failed(x)) return x;
    kn_value *most = kn_clip(kn_reduce_max(x, axes, true), -FLT_MAX, FLT_MAX);
    kn_value *result = kn_add(kn_log(kn_sum(kn_exp(kn_sub(x, most)), axes, true)), most);
    return keep ? result : without_axes(x, result, axes);
}

/* The two halves are multiplied until one element is left: gradients are also correct where elements are 0 */
static kn_value *product_along(kn_value *x, int axis) {
    int64_t size = kn_value_failed(x) ? 1 : x->shape.dims[axis];
    while (size > 1 && !kn_value_failed(x)) {
        int64_t half = size / 2;
        kn_value *product = kn_mul(kn_slice(x, axis, 0, half), kn_slice(x, axis, half, 2 * half));
        kn_value *parts[2] = {product, size % 2 ? kn_slice(x, axis, 2 * half, size) : NULL};
        x = size % 2 ? kn_concat(parts, 2, axis) : product;
        size = half + size % 2;
    }
    return x;
}

kn_value *kn_reduce_prod(kn_value *x, const char *axes, bool keep) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_value *model = kn_sum(x, axes, true); /* has no readers: never computed */
    if (kn_value_failed(model)) return model;
    kn_dim numbers[KN_MAX_RANK];
    bool reduced[KN_MAX_RANK] = {false};
    int count = kn_read_integers(graph, &kn_row_sum, axes, KN_MAX_RANK, numbers);
    for (int i = 0; i < count; i++)
        reduced[numbers[i] < 0 ? numbers[i] + x->shape.rank : numbers[i]] = true;
    kn_value *result = x;
    for (int i = 0; i < x->shape.rank; i++) {
        if (count && !reduced[i]) continue;
        if (!kn_dim_known(x->shape.dims[i]) || x->shape.dims[i] < 1)
            return kn_graph_fail(
                graph, KN_ERROR_SHAPE,
                "reduce_prod: x is %s; expected a size that is a number above 0 along axis %d",
                kn_shape_words(graph, &x->shape), i);
        result = product_along(result, i);
    }
    return keep ? result : without_axes(x, result, axes);
}
