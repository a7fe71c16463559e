/* Sums, means, maxima and minima over any axes. Their kernels are launched by reduce/lowering.c. */
#include "ops/reduce/reduce.h"

#include <math.h>
#include <string.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* Marks the axes in a list (all if it is empty). */
static bool mark_axes(const kn_attribute_value *axes, int rank, bool reduced[KN_MAX_RANK]) {
    for (int i = 0; i < KN_MAX_RANK; i++)
        reduced[i] = !axes->count && i < rank;
    for (int i = 0; i < axes->count; i++) {
        int64_t axis = axes->list[i] < 0 ? axes->list[i] + rank : axes->list[i];
        if (axis < 0 || axis >= rank || reduced[axis]) return false;
        reduced[axis] = true;
    }
    return true;
}

/* x has any shape; the result lacks the reduced axes, or has size 1 there. */
static kn_status reduce_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    kn_shape *y = &call->outputs[0];
    bool reduced[KN_MAX_RANK];
    if (!mark_axes(kn_shape_attribute(call, "axes"), x->rank, reduced))
        return kn_shape_fail(
            call, KN_ERROR_SHAPE,
            "x is %s, and an axis is out of range or repeated; expected different axes from %d to %d",
            kn_shape_words_of(call, 0), -x->rank, x->rank - 1);
    if (x->dtype == KN_BOOL)
        return kn_shape_fail(call, KN_ERROR_DTYPE, "x is %s; cast it to a numeric type",
                             kn_shape_words_of(call, 0));
    if (call->row == &kn_row_mean && kn_shape_float_input(call, 0)) return call->error->status;
    bool keep = kn_shape_attribute(call, "keep")->integer != 0;
    y->dtype = x->dtype;
    y->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (!reduced[i])
            y->dims[y->rank++] = x->dims[i];
        else if (keep)
            y->dims[y->rank++] = 1;
    }
    return KN_OK;
}

/* The shape of x with 1 in the reduced axes; returns the number of elements per result. */
static int64_t kept_shape(const kn_node *node, bool reduced[KN_MAX_RANK], kn_shape *kept) {
    *kept = node->inputs[0]->shape;
    mark_axes(kn_attribute_of(node, "axes"), kept->rank, reduced);
    int64_t count = 1;
    for (int i = 0; i < kept->rank; i++)
        if (reduced[i]) {
            count *= kept->dims[i];
            kept->dims[i] = 1;
        }
    return count;
}

static kn_status reduce_reference(kn_reference_call *call) {
    const kn_reference_array *x = &call->inputs[0];
    kn_reference_array *y = &call->outputs[0];
    const kn_operator *row = call->node->op;
    bool reduced[KN_MAX_RANK], most = !strcmp(row->name, "reduce_max"),
                               least = !strcmp(row->name, "reduce_min");
    mark_axes(kn_attribute_of(call->node, "axes"), x->shape.rank, reduced);
    int64_t strides[KN_MAX_RANK], step = 1; /* of the result, along the axes of x */
    for (int i = x->shape.rank - 1; i >= 0; i--) {
        strides[i] = reduced[i] ? 0 : step;
        if (!reduced[i]) step *= x->shape.dims[i];
    }
    for (int64_t i = 0; i < y->elements; i++)
        y->data[i] = most ? -INFINITY : least ? INFINITY : 0;
    for (int64_t i = 0; i < x->elements; i++) {
        int64_t rest = i, at = 0;
        for (int axis = x->shape.rank - 1; axis >= 0; axis--) {
            at += rest % x->shape.dims[axis] * strides[axis];
            rest /= x->shape.dims[axis];
        }
        double number = x->data[i], *result = &y->data[at];
        if (most || least)
            *result = isnan(*result) || (most ? *result > number : *result < number) ? *result : number;
        else
            *result += number;
    }
    if (row == &kn_row_mean)
        for (int64_t i = 0; i < y->elements; i++)
            y->data[i] /= (double)(x->elements / y->elements);
    return KN_OK;
}

static kn_reduction describe(const kn_node *node) {
    const kn_operator *row = node->op;
    kn_shape kept;
    kn_reduction reduction = {.kind = KN_REDUCE_SUM, .source = node->inputs[0]};
    int64_t count = kept_shape(node, reduction.reduced, &kept);
    if (!strcmp(row->name, "reduce_max")) reduction.kind = KN_REDUCE_MAX;
    if (!strcmp(row->name, "reduce_min")) reduction.kind = KN_REDUCE_MIN;
    reduction.divide = row == &kn_row_mean;
    reduction.divisor = count; /* of no elements: 0 / 0 is NaN */
    reduction.dtype = node->inputs[0]->shape.dtype;
    reduction.rank = node->inputs[0]->shape.rank;
    memcpy(reduction.dims, node->inputs[0]->shape.dims, sizeof reduction.dims);
    return reduction;
}

static kn_status lower_reduce(kn_lowering *lowering) {
    kn_reduction reduction = describe(lowering->node);
    return kn_emit_reduction(lowering, &reduction, lowering->config);
}

/* Images (N,C,H,W), reduced over pixels, or pixels and images: they may be blocked by channels. */
static bool accepts_images(const kn_target *target, const kn_node *node) {
    const kn_shape *x = &node->inputs[0]->shape;
    bool reduced[KN_MAX_RANK];
    if (!target->wide_vector || target->vector_width < 4 || x->rank != 4 || x->dtype != KN_FLOAT32)
        return false;
    mark_axes(kn_attribute_of(node, "axes"), x->rank, reduced);
    return x->dims[1] % target->vector_width == 0 && !reduced[1] && reduced[2] && reduced[3];
}

/* Blocked, x is (N,C/width,H*W,width) in memory; the result's channels are then in plain order. */
static kn_status lower_images(kn_lowering *lowering) {
    const kn_value *x = lowering->node->inputs[0];
    kn_reduction reduction = describe(lowering->node);
    if (x->layout == KN_LAYOUT_BLOCKED) {
        int64_t width = lowering->target->vector_width;
        reduction.dims[1] = x->shape.dims[1] / width;
        reduction.dims[2] = x->shape.dims[2] * x->shape.dims[3];
        reduction.dims[3] = width;
        reduction.reduced[3] = false;
    }
    return kn_emit_reduction(lowering, &reduction, KN_METHOD_WIDE);
}

static void reduce_cost(const kn_node *node, kn_cost *cost) {
    kn_cost_set(node, (double)kn_elements_of(node->inputs[0]), cost);
}

/* ---- gradients ------------------------------------------------------------------------------------- */

/* Each summand has the gradient of its sum; for a mean, divided by their number. */
static kn_status sum_gradient(kn_gradient_call *call) {
    kn_value *gradient = call->output_gradients[0];
    if (!gradient || !call->wanted[0] || !kn_dtype_is_float(gradient->shape.dtype)) return KN_OK;
    bool reduced[KN_MAX_RANK];
    kn_shape kept;
    int64_t count = kept_shape(call->node, reduced, &kept);
    gradient = kn_gradient_reshape(call, gradient, &kept);
    if (call->node->op == &kn_row_mean && !kn_value_failed(gradient)) {
        kn_settings settings;
        kn_settings_init(&settings, call->graph, &kn_row_scale);
        kn_settings_float(&settings, "factor", count ? 1.0 / (double)count : 0);
        gradient = kn_gradient_build(call, &kn_row_scale, &gradient, 1, &settings);
    }
    call->input_gradients[0] = kn_gradient_broadcast(call, gradient, &call->node->inputs[0]->shape);
    return kn_gradient_status(call);
}

/* The gradient is divided equally among the elements that equal the result. x has any shape; result, gradient
 * and number of such elements have 1 in the reduced axes. */
static kn_status extreme_gradient(kn_gradient_call *call) {
    kn_value *gradient = call->output_gradients[0], *x = call->node->inputs[0],
             *result = call->node->outputs[0];
    if (!gradient || !call->wanted[0] || !kn_dtype_is_float(gradient->shape.dtype)) return KN_OK;
    bool reduced[KN_MAX_RANK];
    kn_shape kept;
    kept_shape(call->node, reduced, &kept);
    gradient = kn_gradient_reshape(call, gradient, &kept);
    result = kn_gradient_reshape(call, result, &kept);
    kn_value *pair[2] = {x, result};
    kn_value *winners = kn_gradient_build(call, &kn_row_equal, pair, 2, NULL);
    if (kn_value_failed(winners)) return kn_gradient_status(call);
    winners = kn_gradient_cast(call, winners, x->shape.dtype);
    kn_dim axes[KN_MAX_RANK];
    int count = 0;
    for (int i = 0; i < x->shape.rank; i++)
        if (reduced[i]) axes[count++] = i;
    kn_value *number = winners;
    if (count) { /* a scalar has no axis, and an empty list would mean all */
        kn_settings settings;
        kn_settings_init(&settings, call->graph, &kn_row_sum);
        kn_settings_list(&settings, "axes", count, axes);
        kn_settings_int(&settings, "keep", 1);
        number = kn_gradient_build(call, &kn_row_sum, &winners, 1, &settings);
    }
    kn_value *division[2] = {gradient, number};
    kn_value *product[2] = {winners, kn_gradient_build(call, &kn_row_div, division, 2, NULL)};
    call->input_gradients[0] = kn_gradient_build(call, &kn_row_mul, product, 2, NULL);
    return kn_gradient_status(call);
}

/* ---- rows -------------------------------------------------------------------------------------------- */

#define REDUCE_ATTRIBUTES                                                                                    \
    KN_ATTRIBUTES(KN_INTS("axes", "", "axes to reduce, negative from the end; none: all"),                   \
                  KN_BOOLEAN("keep", 0, "keep reduced axes with size 1"))
#define REDUCE_CASES(...)                                                                                    \
    KN_CASES({.inputs = {"3,7"}, .attributes = "axes=1", .smallest = true},                                  \
             {.inputs = {"3,7"}, .attributes = "axes=0", .smallest = true}, {.inputs = {"31,33"}},           \
             {.inputs = {"93"}, .attributes = "keep=true"}, {.inputs = {""}},                                \
             {.inputs = {"7,31,33"}, .attributes = "axes=0,2"},                                              \
             {.inputs = {"7,31,33"}, .attributes = "axes=1 keep=true"},                                      \
             {.inputs = {"3,5,2,7,3"}, .attributes = "axes=-1,1,-3"},                                        \
             {.inputs = {"3,2,2,3,2,3,2,2"}, .attributes = "axes=0,2,4,6"},                                  \
             {.inputs = {"3,5,2,8"}, .attributes = "axes=1,3", .smallest = true},                            \
             {.inputs = {"3,2,2,3,2,3,2,12"}, .attributes = "axes=1,3,5,7"},                                 \
             {.inputs = {"2,5,3,2,600"}, .attributes = "axes=0,2,4"},                                        \
             {.inputs = {"2,9001"}, .attributes = "axes=1"},                                                 \
             {.inputs = {"20011,3"}, .attributes = "axes=0"}, {.inputs = {"70001"}},                         \
             {.inputs = {"2,16,5,7"}, .attributes = "axes=0,2,3", .smallest = true},                         \
             {.inputs = {"3,48,9,3"}, .attributes = "axes=2,3 keep=true"},                                   \
             {.inputs = {"1,1,7"}, .attributes = "axes=0,1"}, {.inputs = {"0,5"}, .attributes = "axes=1"},   \
             {.inputs = {"float64 7,31,33"}, .attributes = "axes=0,2", .no_gradient = true}, __VA_ARGS__)
/* bits_of_results: results that may be stored in 16 bits. */
#define REDUCTION(row, words, bits_of_results, ...)                                                          \
    KN_OPERATOR(row, .help = words, REDUCE_ATTRIBUTES, .min_inputs = 1, .max_inputs = 1,                     \
                .shape = reduce_shape, .reference = reduce_reference, .cost = reduce_cost,                   \
                KN_VARIANTS({.name = "images",                                                               \
                             .choice.accepts = accepts_images,                                               \
                             .lower = lower_images,                                                          \
                             .promise.any = true},                                                           \
                            KN_METHOD_VARIANTS(lower_reduce, .promise.halves = {1, bits_of_results})),       \
                __VA_ARGS__)

REDUCTION(
    sum, "sum over axes", 1, .gradient = sum_gradient,
    REDUCE_CASES({.inputs = {"3,33"}, .attributes = "axes=1", .ranges = {"special"}, .no_gradient = true},
                 {.inputs = {"int32 31,7"}, .attributes = "axes=0", .no_gradient = true},
                 {.inputs = {"int64 5,64"}, .attributes = "axes=1", .no_gradient = true},
                 {.inputs = {"7,40,4,1300"}, .attributes = "axes=0,2,3", .no_gradient = true, .large = true},
                 {.inputs = {"0,5"}, .attributes = "axes=0"}));
REDUCTION(
    mean, "mean over axes", 1, .gradient = sum_gradient,
    REDUCE_CASES({.inputs = {"3,33"}, .attributes = "axes=1", .ranges = {"special"}, .no_gradient = true},
                 {.inputs = {"0,5"}, .attributes = "axes=0", .no_gradient = true}));
/* Gradients look for the elements that equal the result, so it is not rounded. */
REDUCTION(
    reduce_max, "largest element over axes; NaN if any is NaN", 0, .gradient = extreme_gradient,
    REDUCE_CASES({.inputs = {"3,33"}, .attributes = "axes=1", .ranges = {"special"}, .no_gradient = true},
                 {.inputs = {"int32 31,7"}, .attributes = "axes=0", .no_gradient = true}));
REDUCTION(
    reduce_min, "smallest element over axes; NaN if any is NaN", 0, .gradient = extreme_gradient,
    REDUCE_CASES({.inputs = {"3,33"}, .attributes = "axes=1", .ranges = {"special"}, .no_gradient = true},
                 {.inputs = {"int32 31,7"}, .attributes = "axes=0", .no_gradient = true}));

/* ---- builders ------------------------------------------------------------------------------------ */

static kn_value *reduce(const kn_operator *row, kn_value *x, const char *axes, bool keep) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, row);
    kn_dim numbers[KN_MAX_RANK];
    int count = kn_read_integers(x->graph, row, axes, KN_MAX_RANK, numbers);
    if (count < 0) return &x->graph->failed;
    kn_settings_list(&settings, "axes", count, numbers);
    kn_settings_int(&settings, "keep", keep);
    return kn_build(row, &x, 1, &settings);
}

kn_value *kn_sum(kn_value *x, const char *axes, bool keep) {
    return reduce(&kn_row_sum, x, axes, keep);
}
kn_value *kn_mean(kn_value *x, const char *axes, bool keep) {
    return reduce(&kn_row_mean, x, axes, keep);
}
kn_value *kn_reduce_max(kn_value *x, const char *axes, bool keep) {
    return reduce(&kn_row_reduce_max, x, axes, keep);
}
kn_value *kn_reduce_min(kn_value *x, const char *axes, bool keep) {
    return reduce(&kn_row_reduce_min, x, axes, keep);
}
