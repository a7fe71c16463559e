/* Convolutions of plain images on wide-vector devices with vectors along the pixels of a row: steps for
 * cl/conv/rows.cl. For depthwise and grouped convolutions, and for those with few results per pixel, whose
 * channels do not fill blocks. */
#include <stdio.h>

#include "ops/conv/conv.h"
#include "ops/conv/packing.h"
#include "ops/lowering.h"

/* KN_LINES, KN_SUMS and KN_TAPS of the kernel; vectors of results in a part of a long row; the largest
 * stride; the most results per pixel. */
enum { LINES = 12288, SUMS = 8192, TAPS = 1024, LONG = 32, MAX_STRIDE = 16, MAX_OUTPUTS = 8 };

typedef struct rows {
    kn_conv_form form;
    int64_t outputs, channels; /* of a group */
    int64_t tile_rows, tile_vectors;
    int64_t item_rows, item_columns, item_channels, item_groups;
    bool flat;
} rows;

/* The most channels of y in a tile that waste little. */
static int64_t tile_rows_for(int64_t outputs) {
    int64_t tile = 8;
    while (2 * kn_round_up(outputs, tile) > 3 * outputs)
        tile /= 2;
    return tile;
}

/* The vectors of a tile, for the remaining registers. With one channel, those that suit runs of `vectors`
 * vectors best: a tile, and a vector that is left over, take as long as at least four multiplications. */
static int64_t tile_vectors_for(const kn_target *target, int64_t tile_rows, int64_t vectors) {
    const bool few = target->vector_width == 8; /* registers */
    if (tile_rows > 1) return tile_rows == 8 ? (few ? 1 : 2) : tile_rows == 4 && few ? 2 : 4;
    int64_t best = 4, least = 0;
    for (int64_t wide = 4; wide <= (few ? 6 : 8); wide += 2) {
        const int64_t time = vectors / wide * wide + vectors % wide * 4;
        if (wide == 4 || time <= least) best = wide, least = time;
    }
    return best;
}

/* Floats of a channel's lines in an item, and of its sums. */
static int64_t lines_of(const rows *made) {
    const kn_conv_form *form = &made->form;
    int64_t lines = 1;
    for (int axis = 0; axis < 2; axis++) {
        const int64_t reach = ((axis ? form->filter_width : form->filter_height) - 1) * form->dilation[axis];
        const int64_t phases = reach + 1 < form->stride[axis] ? reach + 1 : form->stride[axis];
        lines *= phases * ((axis ? made->item_columns : made->item_rows) + reach / form->stride[axis]);
    }
    return lines;
}
static int64_t sums_of(const rows *made, int64_t width) {
    const int64_t pitch =
        made->item_columns + (made->form.filter_width - 1) * made->form.dilation[1] / made->form.stride[1];
    const int64_t line = made->flat ? pitch : kn_round_up(made->item_columns, width);
    return made->tile_rows * (made->item_rows * line + width);
}

static bool fits(const rows *made, int64_t width) {
    return made->item_channels * lines_of(made) + width <= LINES && sums_of(made, width) <= SUMS;
}

/* The largest number up to *field that fits, or false. */
static bool reduce(rows *made, int64_t *field, int64_t width) {
    while (!fits(made, width)) {
        if (*field == 1) return false;
        *field = kn_divide_up(*field, 2);
    }
    return true;
}

static bool describe(const kn_target *target, const kn_node *node, rows *made) {
    kn_conv_form *form = &made->form;
    kn_conv_describe(node, form);
    if (form->channels == 0 || form->outputs == 0) return false;
    made->outputs = form->outputs / form->groups;
    made->channels = form->channels / form->groups;
    made->tile_rows = tile_rows_for(made->outputs);
    const int64_t width = target->vector_width, units = target->compute_units;
    const int64_t reach_x = (form->filter_width - 1) * form->dilation[1] / form->stride[1];
    if (form->filter_height * form->filter_width > TAPS || form->stride[0] > MAX_STRIDE ||
        form->stride[1] > MAX_STRIDE || form->filter_height > LINES || reach_x > LINES ||
        form->dilation[0] > LINES || form->dilation[1] > LINES)
        return false;
    /* Long rows are divided; short rows are processed in bands, for a few items per unit. */
    made->item_columns = form->out_width < LONG * width ? form->out_width : LONG * width;
    made->item_rows = 1;
    made->item_channels = made->channels;
    made->flat = false;
    if (form->images == 0 || made->item_columns == 0 || form->out_height == 0) return false;
    if (!fits(made, width)) {
        made->item_channels = 1;
        if (!reduce(made, &made->item_columns, width)) return false;
        while (made->item_channels < made->channels) {
            made->item_channels++;
            if (fits(made, width)) continue;
            made->item_channels--;
            break;
        }
    }
    /* Several groups in an item share the preparation. */
    const int64_t items = 4 * units, parts = kn_divide_up(form->out_width, made->item_columns);
    made->item_groups = form->groups * form->images * parts / items;
    if (made->item_groups < 1) made->item_groups = 1;
    made->item_groups = kn_divide_up(form->groups, kn_divide_up(form->groups, made->item_groups));
    made->flat = true;
    if (parts == 1) {
        const int64_t wanted =
            kn_divide_up(items, form->images * kn_divide_up(form->groups, made->item_groups));
        made->flat = form->out_width + reach_x < kn_round_up(form->out_width, width);
        made->item_rows =
            kn_divide_up(form->out_height, wanted < form->out_height ? wanted : form->out_height);
        if (!reduce(made, &made->item_rows, width)) return false;
    }
    const int64_t run =
        made->item_columns + (made->flat ? (made->item_rows - 1) * (made->item_columns + reach_x) : 0);
    made->tile_vectors = tile_vectors_for(target, made->tile_rows, kn_divide_up(run, width));
    return true;
}

bool kn_conv_rows_accepts(const kn_target *target, const kn_node *node) {
    rows made;
    if (!kn_has_float_vectors(target, node) || !describe(target, node, &made)) return false;
    const int64_t width = target->vector_width;
    if (made.form.groups > 1) return made.outputs % width != 0 || made.channels % width != 0;
    const bool one_pixel = made.form.filter_height * made.form.filter_width == 1;
    return made.outputs <= MAX_OUTPUTS && (!one_pixel || made.channels % width != 0);
}

/* y (N,K,P,Q) from x (N,C,H,W) and a filter (K,C/groups,R,S). */
kn_status kn_conv_rows_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    rows made;
    if (!describe(lowering->target, node, &made))
        return kn_fail(lowering->error, KN_ERROR_UNSUPPORTED, "conv2d '%s': rows of this size do not fit",
                       node->name);
    const kn_conv_form *form = &made.form;
    kn_step *step = kn_step_begin(lowering, "conv/rows.cl", "kn_conv_rows");
    KN_STEP_DEFINE(step, {"KN_WIDTH", lowering->target->vector_width}, {"KN_VECTORS", made.tile_vectors},
                   {"KN_ROWS", made.tile_rows});
    kn_step_read(step, "x", node->inputs[0]);
    kn_step_read(step, "filter", node->inputs[1]);
    kn_step_write(step, "y", lowering->result);
    kn_conv_bind(step, form);
    KN_STEP_SET(step, {"item_rows", made.item_rows}, {"item_columns", made.item_columns},
                {"item_channels", made.item_channels}, {"item_groups", made.item_groups},
                {"flat", made.flat});
    kn_step_cost_of_node(step, lowering);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step,
                      kn_divide_up(form->out_height, made.item_rows) *
                          kn_divide_up(form->out_width, made.item_columns),
                      kn_divide_up(form->groups, made.item_groups), form->images);
    return kn_step_end(step, lowering);
}
