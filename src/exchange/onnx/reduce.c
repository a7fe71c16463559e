/* Reductions, and normalization along an axis. */
#include "exchange/onnx/import.h"

#include <inttypes.h>

/* Reads the axes as text; "" for all. *none: there is nothing to reduce. */
static const char *reduced_axes(kn_import_call *call, const kn_value *x, bool *none) {
    int64_t axes[KN_MAX_RANK];
    int count = -1, since = !strcmp(call->node->type, "ReduceSum") ? 13 : 18;
    if (call->opset < since)
        count = kn_import_ints(call, "axes", axes, KN_MAX_RANK);
    else if (kn_import_has(call, 1))
        kn_import_integers(call, 1, axes, KN_MAX_RANK, &count);
    *none = x->shape.rank == 0 || (count <= 0 && kn_import_int(call, "noop_with_empty_axes", 0));
    return kn_import_list(call->import, axes, count < 0 ? 0 : count);
}

/* The reduction of single elements, for reductions over no axis. */
static kn_value *of_one(kn_import_call *call, kn_value *x) {
    const char *type = call->node->type;
    if (!strcmp(type, "ReduceL1") || !strcmp(type, "ReduceL2")) return kn_abs(x);
    if (!strcmp(type, "ReduceSumSquare")) return kn_mul(x, x);
    if (!strcmp(type, "ReduceLogSum")) return kn_log(x);
    return x;
}

static kn_status reduce(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    bool none, keep = kn_import_int(call, "keepdims", 1) != 0;
    const char *axes = reduced_axes(call, x, &none);
    if (none) return kn_import_put(call, 0, of_one(call, x));
    kn_dtype dtype = x->shape.dtype;
    if (dtype == KN_BOOL) x = kn_cast(x, KN_UINT8);
    /* An empty product is 1, an empty sum 0. */
    if (call->row->reduce == kn_reduce_prod && kn_shape_elements(&x->shape) == 0)
        return kn_import_put(call, 0, kn_shift(kn_sum(x, axes, keep), 1));
    bool whole = !kn_dtype_is_float(dtype),
         order = call->row->reduce == kn_reduce_max || call->row->reduce == kn_reduce_min;
    /* Logarithms, roots and means of integers are not integers. */
    bool fractions = whole && !order && call->row->reduce != kn_sum && call->row->reduce != kn_reduce_prod;
    if (fractions) x = kn_cast(x, KN_FLOAT32);
    kn_value *result = call->row->reduce(x, axes, keep);
    return kn_import_put(call, 0, kn_import_cast(result, whole ? dtype : kn_value_dtype(result)));
}

/* x and the node's axis, as defined by an opset: before opset 13, the axes from it on are flattened. */
static kn_value *with_axis(kn_import_call *call, kn_value *x, int64_t opset, int *axis) {
    const int rank = x->shape.rank;
    *axis = kn_import_axis(call, kn_import_int(call, "axis", opset < 13 ? 1 : -1), rank ? rank : 1);
    if (opset >= 13 || *axis == rank - 1) return x;
    x = kn_import_flatten(call->import, x, *axis);
    *axis = 1;
    return x;
}

kn_value *kn_import_softmax(kn_import_call *call, kn_value *x, int64_t opset, bool logarithm) {
    int axis;
    const kn_shape shape = x->shape;
    x = with_axis(call, x, opset, &axis);
    x = logarithm ? kn_log_softmax(x, axis) : kn_softmax(x, axis);
    return kn_import_reshape(call->import, x, shape.dims, shape.rank);
}

static kn_status softmax(kn_import_call *call) {
    const bool logarithm = !strcmp(call->node->type, "LogSoftmax");
    return kn_import_put(call, 0, kn_import_softmax(call, kn_import_in(call, 0), call->opset, logarithm));
}

/* 1 at the first maximum along an axis, 0 elsewhere. */
static kn_status hardmax(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int axis;
    const kn_shape shape = x->shape;
    x = with_axis(call, x, call->opset, &axis);
    const kn_dim size = x->shape.dims[axis];
    if (!kn_dim_known(size) || size < 1)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "axis %d is dynamic; expected a fixed size", axis);
    x = kn_one_hot(kn_argmax(x, axis, false), size, axis, 1, 0);
    x = kn_import_reshape(call->import, x, shape.dims, shape.rank);
    return kn_import_put(call, 0, kn_import_cast(x, shape.dtype));
}

/* x divided by its p-norm along an axis. */
static kn_status lp_normalization(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", -1), x->shape.rank);
    const char *axes = kn_import_list(call->import, (int64_t[]){axis}, 1);
    kn_value *norm =
        kn_import_int(call, "p", 2) == 1 ? kn_reduce_l1(x, axes, true) : kn_reduce_l2(x, axes, true);
    kn_value *zero = kn_import_scalar(call->import, x->shape.dtype, 0);
    return kn_import_put(call, 0, kn_where(kn_equal(norm, zero), zero, kn_div(x, norm)));
}

/* (x - mean) / (standard deviation + 1e-9) */
static kn_status mean_variance(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t axes[KN_MAX_RANK] = {0, 2, 3};
    int count = kn_import_ints(call, "axes", axes, KN_MAX_RANK);
    const char *list = kn_import_list(call->import, axes, count < 0 ? 3 : count);
    kn_value *centered = kn_sub(x, kn_mean(x, list, true));
    kn_value *variance = kn_mean(kn_mul(centered, centered), list, true);
    return kn_import_put(call, 0, kn_div(centered, kn_shift(kn_sqrt(variance), 1e-9)));
}

#define REDUCE(word, function)                                                                               \
    { .type = word, .build = reduce, .reduce = function }
#define REDUCE_SIZED(word, function)                                                                         \
    { .type = word, .build = reduce, .reduce = function, .sizes = kn_sizes_reduce }
const kn_import_row kn_import_reduce[] = {
    REDUCE_SIZED("ReduceSum", kn_sum),
    REDUCE("ReduceMean", kn_mean),
    REDUCE_SIZED("ReduceMax", kn_reduce_max),
    REDUCE_SIZED("ReduceMin", kn_reduce_min),
    REDUCE_SIZED("ReduceProd", kn_reduce_prod),
    REDUCE("ReduceL1", kn_reduce_l1),
    REDUCE("ReduceL2", kn_reduce_l2),
    REDUCE("ReduceSumSquare", kn_reduce_sum_square),
    REDUCE("ReduceLogSum", kn_reduce_log_sum),
    REDUCE("ReduceLogSumExp", kn_reduce_log_sum_exp),
    {.type = "Softmax", .build = softmax},
    {.type = "LogSoftmax", .build = softmax},
    {.type = "Hardmax", .build = hardmax},
    {.type = "LpNormalization", .build = lp_normalization},
    {.type = "MeanVarianceNormalization", .build = mean_variance},
};
const int kn_import_reduce_count = (int)KN_COUNT_OF(kn_import_reduce);
