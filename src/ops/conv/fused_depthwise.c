/* A depthwise convolution with the 1x1 convolution that produces its input fused into it; the
 * intermediate is never stored: steps for cl/conv/fused_depthwise.cl. Images are blocked by the vector
 * width. */
#include "ops/conv/conv.h"
#include "ops/conv/packing.h"
#include "ops/lowering.h"

/* KN_TAPS, KN_RING and KN_PIXELS of the kernel; the fewest rows of a band, since each band recomputes the
 * rows around it. */
enum { MAX_TAPS = 64, RING = 16384, PIXELS = 8, MIN_ROWS = 8 };

typedef struct fused {
    kn_conv_form first, second;
    kn_packed_filter filter; /* of the 1x1 convolution */
    int64_t ring_rows, ring_width;
} fused;

/* Uses as many vectors as fit in the ring, up to `vectors`; false: not even one fits. */
static bool fill_ring(fused *form, int64_t vectors) {
    const kn_conv_form *second = &form->second;
    const int64_t reach =
        second->stride[1] * (second->out_width > PIXELS ? second->out_width - 1 : PIXELS - 1);
    form->ring_width = second->padding[1] + second->width;
    if (form->ring_width < reach + second->filter_width) form->ring_width = reach + second->filter_width;
    for (form->filter.vectors = vectors; form->filter.vectors > 0; form->filter.vectors--) {
        kn_conv_panels(&form->filter);
        const int64_t rows = kn_conv_tile_rows(&form->filter);
        form->ring_rows = second->filter_height + kn_divide_up(rows - 1, second->width);
        if (second->height * second->width < rows) continue;
        if (form->ring_rows * form->ring_width <= RING / form->filter.columns) return true;
    }
    return false;
}

static bool describe(const kn_target *target, const kn_node *node, const kn_node *before, fused *form) {
    kn_conv_describe(before, &form->first);
    kn_conv_describe(node, &form->second);
    const int64_t blocks = form->first.outputs / target->vector_width;
    form->filter = kn_conv_packed_filter(target, &form->first, false, false);
    /* Three vectors if all panels are full, otherwise two: with more, the ring would be too small for its
     * rows */
    return fill_ring(form, blocks % 3 == 0 ? 3 : blocks > 1 ? 2 : 1);
}

bool kn_conv_fused_depthwise_fuses(const kn_target *target, const kn_node *node, const kn_node *before) {
    fused form;
    if (node->op != &kn_row_conv2d || before->op != &kn_row_conv2d) return false;
    if (kn_elements_of(node->outputs[0]) == 0 || !describe(target, node, before, &form)) return false;
    const kn_conv_form *second = &form.second;
    return kn_conv_is_pointwise(&form.first) && form.first.groups == 1 &&
           form.first.channels % target->vector_width == 0 && second->dilation[0] == 1 &&
           second->dilation[1] == 1 && second->filter_height * second->filter_width <= MAX_TAPS;
}

/* The work of both, without writing and reading the intermediate. */
static void add_cost(kn_step *step, const kn_lowering *lowering) {
    kn_cost first, second;
    const kn_value *between = lowering->producer->node->outputs[0];
    kn_node_cost(lowering->producer->node, &first);
    kn_node_cost(lowering->node, &second);
    kn_step_cost(step, first.flops + second.flops,
                 first.bytes + second.bytes - 2 * (double)kn_elements_of(between) * sizeof(float));
}

/* y (N,K,P,Q) from x (N,C,H,W), a filter (K,C,1,1) and a filter (K,1,R,S). */
kn_status kn_conv_fused_depthwise_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node, *before = lowering->producer->node;
    fused form;
    describe(lowering->target, node, before, &form);
    kn_status status = kn_conv_pack(lowering, &form.filter, before->inputs[1], false);
    if (status != KN_OK) return status;
    const kn_conv_form *second = &form.second;
    const int64_t wanted = 4 * (int64_t)lowering->target->compute_units;
    int64_t bands = kn_divide_up(wanted, form.filter.panels * second->images);
    int64_t rows = kn_divide_up(second->out_height, bands);
    if (rows < MIN_ROWS) rows = MIN_ROWS;
    bands = kn_divide_up(second->out_height, rows);
    kn_step *step = kn_step_begin(lowering, "conv/fused_depthwise.cl", "kn_fused_depthwise");
    KN_STEP_DEFINE(step, {"KN_WIDTH", form.filter.width}, {"KN_VECTORS", form.filter.vectors});
    kn_step_read(step, "x", before->inputs[0]);
    kn_step_read_scratch(step, "filter", form.filter.scratch);
    kn_step_read(step, "weight", node->inputs[1]);
    kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"x_channels", form.first.channels}, {"y_channels", second->channels},
                {"ring_rows", form.ring_rows}, {"ring_width", form.ring_width}, {"item_rows", rows},
                {"stream", kn_is_streamed(lowering->result)});
    kn_conv_bind_wide(step, second, false);
    add_cost(step, lowering);
    kn_step_producer(step, lowering);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, bands, form.filter.panels, second->images);
    return kn_step_end(step, lowering);
}
