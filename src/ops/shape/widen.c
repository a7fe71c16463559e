/* Widens inputs that are fed as bytes: a step for cl/shape/widen.cl. It is not a pointwise row: fused with
 * others, its product could be contracted with their sums, which would give different bits than on the
 * host. */
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* Minimum elements per work-item on wide-vector devices. */
enum { WIDE_CHUNK = 16384 };

static kn_status widen_shape(kn_shape_call *call) {
    if (call->inputs[0]->shape.dtype != KN_UINT8)
        return kn_shape_fail(call, KN_ERROR_DTYPE, "the input is %s; expected uint8",
                             kn_shape_words_of(call, 0));
    call->outputs[0] = call->inputs[0]->shape;
    call->outputs[0].dtype = KN_FLOAT32;
    return KN_OK;
}

static kn_status widen_reference(kn_reference_call *call) {
    const float scale = (float)kn_attribute_of(call->node, "scale")->number;
    for (int64_t i = 0; i < call->outputs[0].elements; i++)
        call->outputs[0].data[i] = scale * (float)call->inputs[0].data[i];
    return KN_OK;
}

static kn_status lower_widen(kn_lowering *lowering) {
    kn_value *x = lowering->node->inputs[0];
    const int64_t count = kn_elements_of(x), chunk = lowering->target->wide_vector ? WIDE_CHUNK : 1;
    kn_step *step = kn_step_begin(lowering, "shape/widen.cl", "kn_widen");
    kn_step_read(step, "x", x);
    kn_step_write(step, "y", lowering->result);
    kn_step_float(step, "scale", kn_attribute_of(lowering->node, "scale")->number);
    KN_STEP_SET(step, {"count", count}, {"chunk", chunk});
    kn_step_size_free(step, kn_divide_up(count, chunk), lowering->target);
    return kn_step_end(step, lowering);
}

KN_OPERATOR(widen, .help = "float32 from the bytes of an input, times a scale; inserted by the planner",
            .min_inputs = 1, .max_inputs = 1, .backward = true, .shape = widen_shape,
            .reference = widen_reference, KN_ATTRIBUTES(KN_FLOAT("scale", 1, "the scale")),
            KN_VARIANTS({.name = "threads", .lower = lower_widen}),
            KN_CASES({.inputs = {"uint8 7"},
                      .ranges = {"0..255"},
                      .attributes = "scale=0.00392156862745098",
                      .smallest = true},
                     {.inputs = {"uint8 5,3,37,101"}, .ranges = {"0..255"}, .attributes = "scale=-0.3"},
                     {.inputs = {"uint8 0,5"}}));
const kn_operator *const kn_widen_row = &kn_row_widen;
