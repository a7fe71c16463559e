/* Depthwise convolutions on wide-vector devices: steps for cl/conv/depthwise_wide.cl. Images are blocked
 * by the vector width. */
#include "ops/conv/conv.h"
#include "ops/conv/packing.h"
#include "ops/lowering.h"

/* KN_TAPS of the kernels; how many parts the sum over pixels should have for all blocks together; pixels per
 * part of the statistics. */
enum { MAX_TAPS = 64, PARTS = 64, GATHERED = 96 };

bool kn_conv_depthwise_wide_accepts(const kn_target *target, const kn_node *node) {
    kn_conv_form form;
    kn_conv_describe(node, &form);
    return kn_has_float_vectors(target, node) && form.groups == form.channels &&
           form.groups == form.outputs && form.channels % target->vector_width == 0 &&
           form.filter_height * form.filter_width <= MAX_TAPS;
}

static kn_step *begin(kn_lowering *lowering, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, "conv/depthwise_wide.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_WIDTH", lowering->target->vector_width});
    return step;
}

/* Computes y from x and weight, or dx from dy and weight. */
static kn_status lower_sweep(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_shape *result = &node->outputs[0]->shape;
    bool swapped = node->op == &kn_row_conv2d_data;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    /* An item processes whole images if there are enough of them, and several if there are many. */
    int64_t blocks = form.channels / lowering->target->vector_width, planes = blocks * form.images;
    int64_t wanted = 8 * (int64_t)lowering->target->compute_units, rows = result->dims[2], images = 1;
    if (planes < wanted) rows = kn_divide_up(rows, kn_divide_up(wanted, planes));
    if (planes >= 2 * wanted) images = kn_divide_up(form.images, kn_divide_up(2 * wanted, blocks));
    /* Statistics are collected in parts of about this many pixels, in whole rows. */
    int64_t part = kn_divide_up(GATHERED, result->dims[3]);
    if (part > result->dims[2]) part = result->dims[2];
    bool gathers = lowering->gathers && result->dims[3] <= 2 * GATHERED && (!swapped || form.stride[1] == 1);
    if (gathers) rows = kn_round_up(rows, part);
    kn_step *step = begin(lowering, "kn_depthwise");
    kn_step_read(step, "x", node->inputs[0]);
    kn_step_read(step, "filter", node->inputs[1]);
    kn_step_write(step, "y", lowering->result);
    kn_conv_bind_wide(step, &form, swapped);
    KN_STEP_SET(step, {"gradient", swapped}, {"item_rows", rows}, {"item_images", images},
                {"stream", kn_is_streamed(lowering->result)});
    if (gathers)
        kn_conv_gather(lowering, step, form.channels, form.images * kn_divide_up(result->dims[2], part),
                       part);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(result->dims[2], rows), blocks, kn_divide_up(form.images, images));
    return kn_step_end(step, lowering);
}

kn_status kn_conv_depthwise_sum(kn_lowering *lowering, int partials, int64_t channels, int64_t taps,
                                int64_t parts) {
    kn_step *step = begin(lowering, "kn_depthwise_weights_sum");
    kn_step_scratch(step, "partials", partials);
    kn_step_write(step, "dw", lowering->result);
    KN_STEP_SET(step, {"channels", channels}, {"taps", taps}, {"parts", parts});
    kn_step_size1(step, (size_t)kn_divide_up(channels, lowering->target->vector_width), 1);
    return kn_step_end(step, lowering);
}

/* dw (C,1,R,S) from dy and x: partial sums, chosen by the shape, then their sum. */
static kn_status lower_filters(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    int64_t elements = kn_elements_of(lowering->result), rows = form.images * form.out_height;
    if (elements == 0) return KN_OK;
    if (rows == 0 || form.out_width == 0) return kn_emit_fill_zero(lowering, lowering->result);
    int64_t blocks = form.channels / lowering->target->vector_width, parts = kn_divide_up(PARTS, blocks);
    int64_t part = kn_divide_up(rows, parts);
    parts = kn_divide_up(rows, part);
    int partials = kn_emit_scratch(lowering, (uint64_t)(parts * elements) * sizeof(float));
    kn_step *step = begin(lowering, "kn_depthwise_weights");
    kn_step_bind_values(step, lowering);
    kn_step_scratch(step, "partials", partials);
    kn_conv_bind_wide(step, &form, false);
    KN_STEP_SET(step, {"part_rows", part});
    kn_step_size_wide(step, parts, blocks, 1);
    kn_status status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    return kn_conv_depthwise_sum(lowering, partials, form.channels, form.filter_height * form.filter_width,
                                 parts);
}

kn_status kn_conv_depthwise_wide_lower(kn_lowering *lowering) {
    if (lowering->node->op == &kn_row_conv2d_weight) return lower_filters(lowering);
    if (lowering->producer) return kn_conv_fused_depthwise_lower(lowering);
    return lower_sweep(lowering);
}
