/* Conversions between layouts: steps for cl/shape/layout.cl, and on many-thread devices cl/shape/blocks.cl.
 */
#include <string.h>

#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

/* Minimum elements per work-item. */
enum { WIDE_CHUNK = 16384 };

/* On many-thread devices: elements of any type. */
static kn_status lower_threads(kn_lowering *lowering, kn_value *x, kn_value *y) {
    const kn_shape *shape = &x->shape;
    const bool blocking = y->layout == KN_LAYOUT_BLOCKED;
    const int64_t blocks = shape->dims[0] * shape->dims[1] / KN_BLOCK_OF_THREADS,
                  pixels = shape->dims[2] * shape->dims[3];
    kn_step *step = kn_step_begin(lowering, "shape/blocks.cl", blocking ? "kn_to_blocks" : "kn_from_blocks");
    kn_step_define(step, "KN_ELEMENT", "%s", kn_bits_type(shape->dtype));
    kn_step_read(step, blocking ? "plain" : "blocked", x);
    kn_step_write(step, blocking ? "blocked" : "plain", y);
    KN_STEP_SET(step, {"blocks", blocks}, {"pixels", pixels});
    kn_step_size_free(step, blocks * pixels, lowering->target);
    return kn_step_end(step, lowering);
}

/* x is (N,C,H,W) in its value's layout; the result has the layout of its value. */
static kn_status lower_layout(kn_lowering *lowering) {
    kn_value *x = lowering->node->inputs[0], *y = lowering->result;
    const kn_shape *shape = &x->shape;
    int width = kn_block_width(lowering->target);
    const bool wide = lowering->target->wide_vector;
    if (kn_elements_of(x) == 0) return KN_OK;
    if (x->layout == y->layout) return kn_emit_copy(lowering, x, y);
    if (shape->rank != 4 || width < 4 || shape->dims[1] % width ||
        (wide && kn_dtype_bytes(shape->dtype) != 4))
        return kn_fail(lowering->error, KN_ERROR_INTERNAL,
                       "layout '%s': only %s(N,C,H,W) with C a multiple of %d can be blocked",
                       lowering->node->name, wide ? "float32 " : "", width);
    if (!wide) return lower_threads(lowering, x, y);
    bool blocking = y->layout == KN_LAYOUT_BLOCKED;
    int64_t channels = shape->dims[1], pixels = shape->dims[2] * shape->dims[3];
    int64_t chunk = kn_divide_up(WIDE_CHUNK / width, width) * width;
    kn_step *step = kn_step_begin(lowering, "shape/layout.cl", blocking ? "kn_block" : "kn_unblock");
    KN_STEP_DEFINE(step, {"KN_WIDTH", width});
    kn_step_read(step, blocking ? "plain" : "blocked", x);
    kn_step_write(step, blocking ? "blocked" : "plain", y);
    KN_STEP_SET(step, {"channels", channels}, {"pixels", pixels}, {"plain_image", channels * pixels},
                {"plain_channel", pixels}, {"blocked_image", channels * pixels}, {"item_pixels", chunk});
    kn_step_size_wide(step, kn_divide_up(pixels, chunk), (channels / width), shape->dims[0]);
    return kn_step_end(step, lowering);
}

static kn_status layout_reference(kn_reference_call *call) {
    if (call->outputs[0].elements)
        memcpy(call->outputs[0].data, call->inputs[0].data,
               (size_t)call->outputs[0].elements * sizeof(double));
    return KN_OK;
}

KN_OPERATOR(layout, .help = "the same value in another memory layout; inserted by the planner",
            .min_inputs = 1, .max_inputs = 1, .backward = true, .shape = kn_shape_like_first,
            .reference = layout_reference, KN_VARIANTS({.name = "convert", .lower = lower_layout}));
const kn_operator *const kn_layout_row = &kn_row_layout;
