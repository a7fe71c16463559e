/* A convolution of plain images with few channels, such as a network's first layer, on wide-vector devices:
 * steps for cl/conv/first.cl. Its result is blocked by the vector width; if its channels fill no block, only
 * in scratch memory. */
#include <stdio.h>

#include "ops/conv/conv.h"
#include "ops/conv/packing.h"
#include "ops/lowering.h"

/* KN_LINES of the kernel; limits on panels, filter columns and stride; pixels per part of the statistics. */
enum { LINES = 16384, MAX_PANELS = 16, MAX_SIDE = 16, PART_PIXELS = 128 };

typedef struct first {
    kn_conv_form form;
    kn_packed_filter filter;
    int64_t rows; /* pixels of a tile */
    int64_t line; /* floats of a line */
} first;

static void describe(const kn_target *target, const kn_node *node, first *made) {
    const kn_conv_form *form = &made->form;
    kn_conv_describe(node, &made->form);
    made->filter = kn_conv_packed_filter(target, form, false, true);
    /* Tiles of fewer pixels if they waste less of the last tile in a row. */
    made->rows = kn_conv_tile_rows(&made->filter);
    if (made->filter.vectors > 1 &&
        kn_round_up(form->out_width, 4) < kn_round_up(form->out_width, made->rows))
        made->rows = 4;
    made->line = form->stride[1] * (kn_round_up(form->out_width, made->rows) - 1) + form->filter_width;
    if (made->line < form->padding[1] + 1) made->line = form->padding[1] + 1;
}

static bool accepts(const kn_target *target, const kn_node *node) {
    first made;
    describe(target, node, &made);
    const kn_conv_form *form = &made.form;
    return form->dilation[0] == 1 && form->dilation[1] == 1 && form->stride[0] <= MAX_SIDE &&
           form->stride[1] <= MAX_SIDE && form->filter_width <= MAX_SIDE &&
           made.filter.panels <= MAX_PANELS && form->filter_height <= LINES && form->channels <= LINES &&
           form->channels * form->filter_height <= LINES / made.line;
}

bool kn_conv_first_accepts(const kn_target *target, const kn_node *node) {
    return kn_conv_wide_first_accepts(target, node) && accepts(target, node);
}
bool kn_conv_first_padded_accepts(const kn_target *target, const kn_node *node) {
    return kn_conv_wide_padded_accepts(target, node) && accepts(target, node);
}

/* y (N,K,P,Q) from x (N,C,H,W) and a filter (K,C,R,S). */
kn_status kn_conv_first_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const bool padded = lowering->config & KN_CONV_PADDED;
    first made;
    describe(lowering->target, node, &made);
    const kn_conv_form *form = &made.form;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    kn_status status = kn_conv_pack(lowering, &made.filter, node->inputs[1], false);
    if (status != KN_OK) return status;
    const int64_t height = form->out_height, plane = height * form->out_width,
                  wanted = 8 * (int64_t)lowering->target->compute_units;
    int64_t rows = kn_divide_up(height, kn_divide_up(wanted, form->images));
    /* Statistics are collected in parts of a few rows; work-items process whole parts. */
    int64_t part = PART_PIXELS / form->out_width;
    if (part < 1) part = 1;
    if (lowering->gathers) rows = kn_round_up(rows, part);
    kn_step *step = kn_step_begin(lowering, "conv/first.cl", "kn_conv_first");
    KN_STEP_DEFINE(step, {"KN_WIDTH", made.filter.width}, {"KN_VECTORS", made.filter.vectors},
                   {"KN_ROWS", made.rows}, {"KN_SIDE", form->filter_width}, {"KN_STRIDE", form->stride[1]},
                   {"KN_PANELS", made.filter.panels});
    kn_step_read(step, "x", node->inputs[0]);
    kn_step_read_scratch(step, "filter", made.filter.scratch);
    int scratch = 0;
    if (padded)
        kn_step_scratch(
            step, "y",
            scratch = kn_conv_padded_scratch(lowering, &made.filter, form->images, form->outputs, plane));
    else
        kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"y_channels", kn_round_up(form->outputs, made.filter.width)}, {"line", made.line},
                {"item_rows", rows});
    kn_conv_bind_wide(step, form, false);
    if (!padded)
        kn_conv_gather(lowering, step, form->outputs, form->images * kn_divide_up(height, part), part);
    kn_step_cost_of_node(step, lowering);
    if (!padded) kn_step_epilogue(step, lowering);
    kn_step_size2(step, (size_t)kn_divide_up(height, rows), (size_t)form->images, 1, 1);
    status = kn_step_end(step, lowering);
    if (status != KN_OK || !padded) return status;
    return kn_conv_emit_blocks(lowering, &made.filter, lowering->result, scratch, form->images, form->outputs,
                               plane, false);
}
