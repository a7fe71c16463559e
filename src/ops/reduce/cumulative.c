/* Cumulative sums along an axis (cl/reduce/cumulative.cl). */
#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_cumsum;

static kn_status cumsum_shape(kn_shape_call *call) {
    int axis;
    if (kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, call->inputs[0]->shape.rank, &axis))
        return call->error->status;
    return kn_shape_like_first(call);
}

/* Each element is part of all later sums: gradients are summed from the other end. */
static kn_status cumsum_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_cumsum);
    kn_settings_int(&settings, "axis", kn_attribute_of(call->node, "axis")->integer);
    kn_settings_int(&settings, "exclusive", kn_attribute_of(call->node, "exclusive")->integer);
    kn_settings_int(&settings, "reverse", !kn_attribute_of(call->node, "reverse")->integer);
    call->input_gradients[0] =
        kn_gradient_build(call, &kn_row_cumsum, &call->output_gradients[0], 1, &settings);
    return kn_gradient_status(call);
}

static kn_status cumsum_reference(kn_reference_call *call) {
    const kn_shape *x = &call->inputs[0].shape;
    kn_lanes lanes = kn_lanes_of(x, kn_axis_of(call->node, x->rank));
    bool exclusive = kn_attribute_of(call->node, "exclusive")->integer != 0;
    bool reverse = kn_attribute_of(call->node, "reverse")->integer != 0;
    for (int64_t lane = 0; lane < lanes.outer * lanes.inner; lane++) {
        int64_t start = lane / lanes.inner * lanes.size * lanes.inner + lane % lanes.inner;
        double sum = 0;
        for (int64_t j = 0; j < lanes.size; j++) {
            int64_t at = start + (reverse ? lanes.size - 1 - j : j) * lanes.inner;
            double before = sum;
            sum += call->inputs[0].data[at];
            call->outputs[0].data[at] = exclusive ? before : sum;
        }
    }
    return KN_OK;
}

enum { ROUNDS = 32768 }; /* limit on loop iterations on many-thread devices */

/* Elements [begin, stop) of each lane, in the order in which they are added. */
static kn_status emit_cumsum(kn_lowering *lowering, bool wide, int64_t begin, int64_t stop) {
    const kn_node *node = lowering->node;
    kn_value *x = node->inputs[0];
    kn_lanes form = kn_lanes_of(&x->shape, kn_axis_of(node, x->shape.rank));
    int64_t lanes = form.outer * form.inner, chunk = 1;
    bool reverse = kn_attribute_of(node, "reverse")->integer != 0;
    /* An item adds at least 16 adjacent lanes together. */
    if (wide) chunk = kn_round_up(kn_divide_up(lanes, 4 * (int64_t)lowering->target->compute_units), 16);
    kn_step *step = kn_step_begin(lowering, "reduce/cumulative.cl", "kn_cumulative_sum");
    kn_step_define_type(step, "KN_T", x->shape.dtype);
    kn_step_read(step, "all_x", x);
    if (begin)
        kn_step_update(step, "all_y", lowering->result);
    else
        kn_step_write(step, "all_y", lowering->result);
    KN_STEP_SET(step, {"lanes", lanes}, {"inner", form.inner}, {"size", form.size},
                {"first", reverse ? form.size - 1 : 0}, {"step", reverse ? -1 : 1},
                {"exclusive", kn_attribute_of(node, "exclusive")->integer}, {"chunk", chunk},
                {"begin", begin}, {"stop", stop});
    kn_step_size1(step, (size_t)kn_divide_up(lanes, chunk), wide ? 1 : 0);
    return kn_step_end(step, lowering);
}

static kn_status lower_cumsum(kn_lowering *lowering) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    const kn_shape *x = &lowering->node->inputs[0]->shape;
    if (kn_shape_elements(x) == 0) return KN_OK;
    int64_t size = x->dims[kn_axis_of(lowering->node, x->rank)], most = wide ? size : ROUNDS;
    for (int64_t begin = 0; begin < size; begin += most) {
        kn_status status = emit_cumsum(lowering, wide, begin, size - begin < most ? size : begin + most);
        if (status) return status;
    }
    return KN_OK;
}

KN_OPERATOR(cumsum, .help = "cumulative sums along an axis",
            KN_ATTRIBUTES(KN_INT("axis", 0, "axis, negative from the end"),
                          KN_BOOLEAN("exclusive", 0, "excludes each element from its own sum"),
                          KN_BOOLEAN("reverse", 0, "sums from the last element to the first")),
            .min_inputs = 1, .max_inputs = 1, .shape = cumsum_shape, .gradient = cumsum_gradient,
            .reference = cumsum_reference,
            KN_VARIANTS(KN_WIDE_VARIANTS(lower_cumsum, kn_takes_stored_types_wide, .name = "threads",
                                         .choice.accepts = kn_takes_stored_types)),
            KN_CASES({.inputs = {"7"}, .smallest = true}, {.inputs = {"31,93"}, .attributes = "axis=-1"},
                     {.inputs = {"7,33"}, .attributes = "exclusive=true reverse=true", .smallest = true},
                     {.inputs = {"3,31,17"}, .attributes = "axis=1 reverse=true"},
                     {.inputs = {"2,3,7,5"}, .attributes = "axis=-2 exclusive=true"},
                     {.inputs = {"5,1"}, .attributes = "axis=1 exclusive=true"},
                     {.inputs = {"int32 70001,2"}, .attributes = "exclusive=true", .no_gradient = true},
                     {.inputs = {"int32 31,7"}, .no_gradient = true},
                     {.inputs = {"3,33"}, .ranges = {"special"}, .no_gradient = true}, {.inputs = {"0,5"}},
                     {.inputs = {"3,0"}}));

/* ---- builder ------------------------------------------------------------------------------------------- */

kn_value *kn_cumulative_sum(kn_value *x, int axis, bool exclusive, bool reverse) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_cumsum);
    kn_settings_int(&settings, "axis", axis);
    kn_settings_int(&settings, "exclusive", exclusive);
    kn_settings_int(&settings, "reverse", reverse);
    return kn_build(&kn_row_cumsum, &x, 1, &settings);
}
