/* Depthwise convolutions in the plain layout, on any device: steps for cl/conv/depthwise.cl. */
#include "ops/conv/conv.h"
#include "ops/lowering.h"

enum { ITEMS = 64, MAX_PARTS = 16 };

static bool is_depthwise(const kn_node *node, kn_conv_form *form) {
    kn_conv_describe(node, form);
    return form->groups == form->channels && form->groups == form->outputs &&
           kn_has_kernels(node->outputs[0]->shape.dtype);
}

bool kn_conv_depthwise_accepts(const kn_target *target, const kn_node *node) {
    (void)target;
    kn_conv_form form;
    return is_depthwise(node, &form);
}

static kn_step *begin(kn_lowering *lowering, const char *kernel, size_t items) {
    kn_dtype type = lowering->node->outputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "conv/depthwise.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_ITEMS", items});
    kn_step_types(step, lowering->node, type);
    return step;
}

/* Computes y from x and weight, or dx from dy and weight. */
static kn_status lower_pixels(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    int64_t total = kn_elements_of(lowering->result), chunk = 1;
    if (total == 0) return KN_OK;
    bool forward = node->op == &kn_row_conv2d;
    if (target->wide_vector) chunk = kn_divide_up(total, 8 * (int64_t)target->compute_units);
    kn_step *step = begin(lowering, forward ? "kn_depthwise" : "kn_depthwise_data", 1);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"total", total}, {"chunk", chunk});
    kn_conv_bind(step, &form);
    kn_step_epilogue(step, lowering);
    kn_step_size_free(step, kn_divide_up(total, chunk), target);
    return kn_step_end(step, lowering);
}

/* dw (C,1,R,S) from dy and x: partial sums over groups of images, chosen by the shape, then their sum. */
static kn_status lower_filters(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    int64_t taps = form.filter_height * form.filter_width, elements = kn_elements_of(lowering->result);
    if (elements == 0) return KN_OK;
    if (form.images == 0) return kn_emit_fill_zero(lowering, lowering->result);
    int64_t part = kn_divide_up(form.images, MAX_PARTS), parts = kn_divide_up(form.images, part);
    size_t items = kn_group_items_for(target, "conv/depthwise.cl", form.out_width, ITEMS);
    kn_dtype sums = kn_accumulator(node, node->outputs[0]->shape.dtype);
    int partials = kn_emit_scratch(lowering, (uint64_t)(parts * elements) * kn_dtype_bytes(sums));
    kn_step *step = begin(lowering, "kn_depthwise_weight", items);
    kn_step_bind_values(step, lowering);
    kn_step_scratch(step, "partials", partials);
    KN_STEP_SET(step, {"part", part});
    kn_conv_bind(step, &form);
    kn_step_size2(step, (size_t)(taps * parts) * items, (size_t)form.channels, items, 1);
    kn_status status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    step = begin(lowering, "kn_depthwise_sum", items);
    kn_step_scratch(step, "partials", partials);
    kn_step_write(step, "dw", lowering->result);
    KN_STEP_SET(step, {"elements", elements}, {"parts", parts});
    kn_step_size_free(step, elements, target);
    return kn_step_end(step, lowering);
}

kn_status kn_conv_depthwise_lower(kn_lowering *lowering) {
    if (lowering->node->op == &kn_row_conv2d_weight) return lower_filters(lowering);
    return lower_pixels(lowering);
}
