/* The largest or smallest elements along an axis, in order, and their indices (cl/reduce/top_k.cl). */
#include <math.h>

#include "ops/build.h"
#include "ops/gather/gather.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_top_k;

/* values and indices (int32) are like x with k elements along the axis. */
static kn_status top_k_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    int64_t k = kn_shape_attribute(call, "k")->integer;
    int axis;
    if (kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, x->rank, &axis))
        return call->error->status;
    if (k < 0 || k > INT32_MAX || (kn_dim_known(x->dims[axis]) && k > x->dims[axis]))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s and k is %lld; expected at least that many elements along axis %d",
                             kn_shape_words_of(call, 0), (long long)k, axis);
    call->outputs[0] = *x;
    call->outputs[0].dims[axis] = k;
    call->outputs[1] = call->outputs[0];
    call->outputs[1].dtype = KN_INT32;
    return KN_OK;
}

/* The values' gradients are scattered to their indices. */
static kn_status top_k_gradient(kn_gradient_call *call) {
    const kn_shape *x = &call->node->inputs[0]->shape;
    int axis = kn_axis_of(call->node, x->rank);
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    kn_value *inputs[2] = {call->output_gradients[0], call->node->outputs[1]};
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_gather_gradient);
    kn_settings_int(&settings, "axis", axis);
    kn_settings_int(&settings, "size", x->dims[axis]);
    kn_settings_int(&settings, "elements", 1);
    call->input_gradients[0] = kn_gradient_build(call, &kn_row_gather_gradient, inputs, 2, &settings);
    return kn_gradient_status(call);
}

/* ---- reference ------------------------------------------------------------------------------- */

/* Whether `element` precedes the best so far; equal elements keep their order. */
static bool comes_first(double element, double best, bool smallest) {
    if (isnan(element) || isnan(best)) return smallest ? isnan(best) && !isnan(element) : !isnan(best);
    return smallest ? element < best : element > best;
}

static kn_status top_k_reference(kn_reference_call *call) {
    const kn_shape *shape = &call->inputs[0].shape;
    int axis = kn_axis_of(call->node, shape->rank);
    kn_lanes lanes = kn_lanes_of(shape, axis);
    bool smallest = kn_attribute_of(call->node, "smallest")->integer != 0;
    int64_t k = call->outputs[0].shape.dims[axis];
    for (int64_t lane = 0; lane < lanes.outer * lanes.inner; lane++) {
        int64_t outer = lane / lanes.inner, inner = lane % lanes.inner;
        const double *x = call->inputs[0].data + outer * lanes.size * lanes.inner + inner;
        double *values = call->outputs[0].data + outer * k * lanes.inner + inner;
        double *places = call->outputs[1].data + outer * k * lanes.inner + inner;
        for (int64_t r = 0; r < k; r++) {
            int64_t best = -1;
            for (int64_t j = 0; j < lanes.size; j++) {
                bool taken = false;
                for (int64_t before = 0; before < r && !taken; before++)
                    taken = places[before * lanes.inner] == (double)j;
                if (taken) continue;
                if (best < 0 || comes_first(x[j * lanes.inner], x[best * lanes.inner], smallest)) best = j;
            }
            values[r * lanes.inner] = x[best * lanes.inner];
            places[r * lanes.inner] = (double)best;
        }
    }
    return KN_OK;
}

enum { ROUNDS = 65535 }; /* limit on loop iterations on many-thread devices */

static int64_t size_of(const kn_node *node) {
    const kn_shape *x = &node->inputs[0]->shape;
    return x->dims[kn_axis_of(node, x->rank)];
}

enum { PASSES, RANKS, SORTED, MAX_SORTED = 64 }; /* KN_METHOD and KN_MOST of the kernels */

static int method_of(const kn_node *node, bool wide) {
    int64_t k = kn_attribute_of(node, "k")->integer;
    if (wide) return k <= MAX_SORTED ? SORTED : RANKS;
    return k <= 8 && k * size_of(node) <= ROUNDS ? PASSES : RANKS;
}

static void top_k_cost(const kn_node *node, kn_cost *cost) {
    int64_t looks = method_of(node, true) == SORTED ? 2 : size_of(node);
    kn_cost_set(node, (double)kn_elements_of(node->inputs[0]) * (double)looks, cost);
}

/* ---- lowering -------------------------------------------------------------------------------- */

enum { WORK = 65536 }; /* minimum comparisons per work-item on wide-vector devices */

static kn_status lower_top_k(kn_lowering *lowering) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    const kn_node *node = lowering->node;
    kn_value *x = node->inputs[0];
    kn_lanes lanes = kn_lanes_of(&x->shape, kn_axis_of(node, x->shape.rank));
    int64_t k = kn_attribute_of(node, "k")->integer, chunk = 1;
    static const char *const kernels[] = {"kn_passes", "kn_ranks", "kn_sorted"};
    int method = method_of(node, wide);
    int64_t all = lanes.outer * lanes.inner * (method == RANKS ? lanes.size : 1);
    if (all * k == 0) return KN_OK;
    if (wide) chunk = WORK / (lanes.size * (method == SORTED ? 2 : 1)) + 1;
    kn_step *step = kn_step_begin(lowering, "reduce/top_k.cl", kernels[method]);
    kn_step_define_type(step, "KN_T", x->shape.dtype);
    KN_STEP_DEFINE(step, {"KN_METHOD", method}, {"KN_MOST", MAX_SORTED});
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"smallest", kn_attribute_of(node, "smallest")->integer},
                {method == RANKS ? "all" : "lanes", all}, {"inner", lanes.inner}, {"size", lanes.size},
                {"k", k}, {"chunk", chunk});
    kn_step_size1(step, (size_t)kn_divide_up(all, chunk), wide ? 1 : 0);
    return kn_step_end(step, lowering);
}

static bool compares_threads(const kn_target *target, const kn_node *node) {
    return size_of(node) <= ROUNDS && kn_takes_stored_types(target, node);
}

KN_OPERATOR(
    top_k, .help = "the largest elements along an axis, in order; a second result contains their indices",
    KN_ATTRIBUTES(KN_INT("k", 1, "how many"), KN_INT("axis", -1, "axis, negative from the end"),
                  KN_BOOLEAN("smallest", 0, "the smallest instead")),
    .min_inputs = 1, .max_inputs = 1, .outputs = 2, .input_names = {"x"},
    .output_names = {"values", "places"}, .shape = top_k_shape, .gradient = top_k_gradient,
    .reference = top_k_reference, .cost = top_k_cost,
    KN_VARIANTS(KN_WIDE_VARIANTS(lower_top_k, kn_takes_stored_types_wide, .name = "threads",
                                 .choice.accepts = compares_threads)),
    KN_CASES(
        {.inputs = {"3,7"}, .attributes = "k=2", .smallest = true},
        {.inputs = {"31,93"}, .attributes = "k=5 smallest=true"},
        {.inputs = {"5,33"}, .attributes = "k=33", .smallest = true},
        {.inputs = {"2,93"}, .attributes = "k=67"}, {.inputs = {"33,7"}, .attributes = "k=3 axis=0"},
        {.inputs = {"3,31,5"}, .attributes = "k=17 axis=1 smallest=true"},
        {.inputs = {"int32 7,33"}, .attributes = "k=4", .no_gradient = true},
        {.inputs = {"int32 7,33"}, .attributes = "k=30 smallest=true", .no_gradient = true},
        {.inputs = {"3,33"}, .ranges = {"special"}, .attributes = "k=8", .no_gradient = true},
        {.inputs = {"3,33"}, .ranges = {"special"}, .attributes = "k=33 smallest=true", .no_gradient = true},
        {.inputs = {"0,5"}, .attributes = "k=2"}, {.inputs = {"3,5"}, .attributes = "k=0"}));

/* ---- builders -------------------------------------------------------------------------------- */

static kn_value *top_k(kn_value *x, int64_t k, int axis, bool smallest) {
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_top_k);
    kn_settings_int(&settings, "k", k);
    kn_settings_int(&settings, "axis", axis);
    kn_settings_int(&settings, "smallest", smallest);
    return kn_build(&kn_row_top_k, &x, 1, &settings);
}

kn_value *kn_top_k(kn_value *x, int64_t k, int axis, bool smallest, kn_value **places) {
    if (places) *places = x;
    if (kn_value_failed(x)) return x;
    kn_value *values = top_k(x, k, axis, smallest);
    if (places) *places = kn_value_failed(values) ? values : kn_result(values, 1);
    return values;
}

static kn_value *place_of_one(kn_value *x, int axis, bool keep, bool smallest) {
    if (kn_value_failed(x)) return x;
    kn_value *values = top_k(x, 1, axis, smallest);
    kn_value *places = kn_value_failed(values) ? values : kn_result(values, 1);
    if (kn_value_failed(places) || keep) return places;
    kn_dim dims[KN_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->shape.rank; i++)
        if (i != (axis < 0 ? axis + x->shape.rank : axis)) dims[rank++] = x->shape.dims[i];
    return kn_reshape_to(places, rank, dims);
}

kn_value *kn_argmax(kn_value *x, int axis, bool keep) {
    return place_of_one(x, axis, keep, false);
}
kn_value *kn_argmin(kn_value *x, int axis, bool keep) {
    return place_of_one(x, axis, keep, true);
}
