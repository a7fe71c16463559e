/* Grouped convolutions on wide-vector devices, for groups whose channels fill no vectors: steps for
 * cl/conv/grouped_wide.cl. Images are blocked by the vector width; if their channels fill no blocks, only in
 * scratch memory. */
#include "ops/conv/conv.h"
#include "ops/conv/packing.h"
#include "ops/lowering.h"

/* KN_LINES and KN_TAPS of the kernels; floats of lines that stay in the L1 cache; the largest stride. Of the
 * filter gradient: sums of a tile, pixels between additions to the partial sums, and parts of the sum over
 * pixels for all blocks together. Pixels per part of the statistics, and the most. */
enum { LINES = 16384, TAPS = 256, NEAR = 7168, MAX_STRIDE = 16, SUMS = 12, BAND = 56, PARTS = 64 };
enum { GATHERED = 96, MAX_GATHERED = 192 };

typedef struct grouped {
    kn_conv_form form;
    int64_t width, sources, targets; /* lanes; channels of a group on the sides that are read and computed */
    int64_t step, move; /* in a row: distance between results that share taps, and of their sources */
    int64_t tile, item_columns, pitch, ring_lines;
    int64_t deep, across, band_rows; /* of the filter gradient: KN_DEEP, KN_VECTORS, band_rows */
} grouped;

/* The tile for a run of adjacent results that takes least time: each tap also loads a weight, and fewer than
 * eight sums wait for one another. */
static int64_t tile_for(int64_t run) {
    static const int64_t tiles[] = {4, 7, 8, 10, 12, 14};
    int64_t best = 0, least = 0;
    for (size_t i = 0; i < KN_COUNT_OF(tiles); i++) {
        const int64_t time = kn_divide_up(run, tiles[i]) * ((tiles[i] < 8 ? 8 : tiles[i]) + 1);
        if (!best || time < least) best = tiles[i], least = time;
    }
    return best;
}

/* Divides the rows of the result, (…,columns), into parts whose lines stay near, unless these are short. */
static bool divide_rows(grouped *made, bool swapped, int64_t columns, int64_t reach) {
    const kn_conv_form *form = &made->form;
    const int64_t stride = form->stride[1], pad = form->padding[1];
    /* Columns of the source beyond those of the first tap. */
    const int64_t more =
        swapped ? kn_floor_divide(stride - 1 + pad, stride) - kn_floor_divide(pad - reach, stride) : reach;
    for (int64_t parts = 1;; parts++) {
        const int64_t run = kn_divide_up(kn_divide_up(columns, made->step), parts);
        made->tile = tile_for(run);
        made->item_columns = run * made->step;
        made->pitch = (kn_round_up(run, made->tile) - 1) * made->move + more + 1;
        const int64_t line = (made->sources * made->pitch + 1) * made->width;
        if (made->ring_lines <= NEAR / line || (run <= 8 && made->ring_lines <= LINES / line)) return true;
        if (run <= 4) return false;
    }
}

static bool describe(const kn_target *target, const kn_node *node, grouped *made) {
    kn_conv_form *form = &made->form;
    kn_conv_describe(node, form);
    if (form->groups < 2 || kn_elements_of(node->inputs[0]) == 0 || kn_elements_of(node->inputs[1]) == 0 ||
        kn_elements_of(node->outputs[0]) == 0)
        return false;
    const bool swapped = node->op == &kn_row_conv2d_data, filter = node->op == &kn_row_conv2d_weight;
    const int64_t channels = form->channels / form->groups, outputs = form->outputs / form->groups;
    made->width = target->vector_width;
    made->sources = swapped ? outputs : channels;
    made->targets = swapped ? channels : outputs;
    made->step = swapped ? form->stride[1] : 1;
    made->move = swapped ? 1 : form->stride[1];
    int64_t reach[2];
    for (int axis = 0; axis < 2; axis++) {
        const int64_t taps = axis ? form->filter_width : form->filter_height;
        reach[axis] = (taps - 1) * form->dilation[axis];
        if (taps > TAPS || reach[axis] > LINES || form->stride[axis] > MAX_STRIDE ||
            form->padding[axis] > LINES)
            return false;
    }
    if (made->sources > LINES) return false;
    made->ring_lines = swapped ? reach[0] / form->stride[0] + 1 : reach[0] + 1;
    if (!divide_rows(made, swapped, swapped ? form->width : form->out_width, reach[1])) return false;
    if (!filter) return true;
    /* Rows are added to the sums several at a time if they are short. */
    made->band_rows = 1;
    const int64_t line = (made->sources * made->pitch + 1) * made->width;
    while (made->band_rows * made->item_columns < BAND && made->band_rows < form->out_height &&
           (made->ring_lines + form->stride[0]) * line <= NEAR) {
        made->band_rows++;
        made->ring_lines += form->stride[0];
    }
    made->across = form->filter_width < 3 ? form->filter_width : 3;
    static const int64_t deep[] = {1, 2, 3, 4, 6, 8, 12};
    for (size_t i = 0; i < KN_COUNT_OF(deep); i++)
        if (deep[i] <= made->sources && deep[i] * made->across <= SUMS) made->deep = deep[i];
    return true;
}

/* Whether channels fill whole blocks, on both sides. */
static bool is_blocked(const grouped *made) {
    return made->form.channels % made->width == 0 && made->form.outputs % made->width == 0;
}

static bool accepts(const kn_target *target, const kn_node *node, bool blocked) {
    grouped made;
    return kn_has_float_vectors(target, node) && describe(target, node, &made) &&
           (made.sources % made.width != 0 || made.targets % made.width != 0) && is_blocked(&made) == blocked;
}

bool kn_conv_grouped_accepts(const kn_target *target, const kn_node *node) {
    return accepts(target, node, true);
}
bool kn_conv_grouped_padded_accepts(const kn_target *target, const kn_node *node) {
    return accepts(target, node, false);
}

static kn_step *begin(kn_lowering *lowering, const grouped *made, const char *kernel) {
    const int64_t sources = made->sources;
    const bool permutes = sources == made->targets && sources < made->width && made->width % sources == 0;
    kn_step *step = kn_step_begin(lowering, "conv/grouped_wide.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_WIDTH", made->width}, {"KN_GROUP", permutes ? sources : 0},
                   {"KN_MOVE", made->move});
    return step;
}

static void bind(kn_step *step, const grouped *made, bool swapped) {
    kn_conv_bind_wide(step, &made->form, swapped);
    KN_STEP_SET(step, {"item_columns", made->item_columns}, {"ring_lines", made->ring_lines},
                {"pitch", made->pitch});
}

/* Packs the filter; returns its scratch memory in *packed. */
static kn_status pack(kn_lowering *lowering, const grouped *made, bool swapped, int64_t channels,
                      int *packed) {
    const int64_t blocks = kn_divide_up(channels, made->width);
    const int64_t taps = made->form.filter_height * made->form.filter_width;
    *packed =
        kn_emit_scratch(lowering, (uint64_t)(blocks * made->width * made->sources * taps) * sizeof(float));
    kn_step *step = kn_step_begin(lowering, "conv/grouped_wide.cl", "kn_grouped_filter");
    KN_STEP_DEFINE(step, {"KN_WIDTH", made->width});
    kn_step_read(step, "plain", lowering->node->inputs[1]);
    kn_step_scratch(step, "packed", *packed);
    KN_STEP_SET(step, {"targets", made->targets}, {"sources", made->sources},
                {"filter_height", made->form.filter_height}, {"filter_width", made->form.filter_width},
                {"channels", channels}, {"plain_target", swapped ? taps : made->sources * taps},
                {"plain_source", swapped ? made->targets * taps : taps});
    kn_step_size1(step, (size_t)blocks, 1);
    return kn_step_end(step, lowering);
}

/* Images (images,channels,pixels) in blocks in scratch memory; `value`: copied from it. */
static kn_status pad(kn_lowering *lowering, const kn_packed_filter *filter, kn_value *value, bool copied,
                     int *scratch) {
    const kn_shape *shape = &value->shape;
    const int64_t pixels = shape->dims[2] * shape->dims[3];
    *scratch = kn_conv_padded_scratch(lowering, filter, shape->dims[0], shape->dims[1], pixels);
    if (!copied) return KN_OK;
    return kn_conv_emit_blocks(lowering, filter, value, *scratch, shape->dims[0], shape->dims[1], pixels,
                               true);
}

/* y from x, or dx from dy with the filter's channels swapped. */
static kn_status lower_sweep(kn_lowering *lowering, const grouped *made, bool padded) {
    const kn_node *node = lowering->node;
    const kn_shape *result = &node->outputs[0]->shape;
    const bool swapped = node->op == &kn_row_conv2d_data;
    const int64_t images = result->dims[0], channels = result->dims[1], height = result->dims[2];
    const kn_packed_filter filter = kn_conv_packed_filter(lowering->target, &made->form, swapped, false);
    int packed, x = 0, y = 0;
    kn_status status = pack(lowering, made, swapped, channels, &packed);
    if (status == KN_OK && padded) status = pad(lowering, &filter, node->inputs[0], true, &x);
    if (status == KN_OK && padded) status = pad(lowering, &filter, node->outputs[0], false, &y);
    if (status != KN_OK) return status;
    /* An item processes whole images if there are enough of them, and several if there are many. */
    const int64_t blocks = kn_divide_up(channels, made->width), units = lowering->target->compute_units;
    const int64_t parts = kn_divide_up(result->dims[3], made->item_columns), planes = blocks * parts * images;
    int64_t wanted = 8 * units, rows = height, item_images = 1;
    if (planes < wanted) rows = kn_divide_up(rows, kn_divide_up(wanted, planes));
    if (planes >= 2 * wanted) item_images = kn_divide_up(images, kn_divide_up(2 * wanted, blocks * parts));
    /* Statistics are collected in parts of about GATHERED pixels, in whole rows of an item. */
    int64_t part = kn_divide_up(GATHERED, made->item_columns);
    if (part > height) part = height;
    const bool gathers =
        lowering->gathers && !padded && made->item_columns <= MAX_GATHERED && made->step == 1;
    if (gathers) rows = kn_round_up(rows, part);
    kn_step *step = begin(lowering, made, "kn_grouped");
    KN_STEP_DEFINE(step, {"KN_PIXELS", made->tile});
    if (padded) {
        kn_step_read_scratch(step, "x", x);
        kn_step_scratch(step, "y", y);
    } else {
        kn_step_read(step, "x", node->inputs[0]);
        kn_step_write(step, "y", lowering->result);
    }
    kn_step_read_scratch(step, "filter", packed);
    bind(step, made, swapped);
    KN_STEP_SET(step, {"gradient", swapped}, {"item_rows", rows}, {"item_images", item_images},
                {"stream", !padded && kn_is_streamed(lowering->result)});
    if (gathers) kn_conv_gather(lowering, step, channels, images * kn_divide_up(height, part) * parts, part);
    kn_step_cost_of_node(step, lowering);
    if (!padded) kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(height, rows) * parts, blocks, kn_divide_up(images, item_images));
    status = kn_step_end(step, lowering);
    if (status != KN_OK || !padded) return status;
    return kn_conv_emit_blocks(lowering, &filter, lowering->result, y, images, channels,
                               height * result->dims[3], false);
}

/* dw (K,C/groups,R,S) from dy and x: partial sums, chosen by the shape, then their sum. */
static kn_status lower_filters(kn_lowering *lowering, const grouped *made, bool padded) {
    const kn_node *node = lowering->node;
    const kn_conv_form *form = &made->form;
    const kn_packed_filter filter = kn_conv_packed_filter(lowering->target, form, false, false);
    const int64_t blocks = kn_divide_up(form->outputs, made->width), rows = form->images * form->out_height;
    const int64_t taps = form->filter_height * form->filter_width * made->sources;
    const int64_t part = kn_divide_up(rows, kn_divide_up(PARTS, blocks)), parts = kn_divide_up(rows, part);
    int inputs[2] = {0, 0};
    for (int i = 0; padded && i < 2; i++) {
        kn_status status = pad(lowering, &filter, node->inputs[i], true, &inputs[i]);
        if (status != KN_OK) return status;
    }
    const int partials =
        kn_emit_scratch(lowering, (uint64_t)(parts * blocks * made->width * taps) * sizeof(float));
    kn_step *step = begin(lowering, made, "kn_grouped_weights");
    KN_STEP_DEFINE(step, {"KN_DEEP", made->deep}, {"KN_VECTORS", made->across});
    if (padded) {
        kn_step_read_scratch(step, "dy", inputs[0]);
        kn_step_read_scratch(step, "x", inputs[1]);
    } else {
        kn_step_bind_values(step, lowering);
    }
    kn_step_scratch(step, "partials", partials);
    bind(step, made, false);
    KN_STEP_SET(step, {"part_rows", part}, {"band_rows", made->band_rows});
    kn_step_cost_of_node(step, lowering);
    kn_step_size_wide(step, parts, blocks, 1);
    kn_status status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    return kn_conv_depthwise_sum(lowering, partials, form->outputs, taps, parts);
}

kn_status kn_conv_grouped_lower(kn_lowering *lowering) {
    grouped made;
    const bool padded = lowering->config & KN_CONV_PADDED;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    if (!describe(lowering->target, lowering->node, &made))
        return kn_fail(lowering->error, KN_ERROR_UNSUPPORTED, "%s '%s': lines of this size do not fit",
                       lowering->node->op->name, lowering->node->name);
    return lowering->node->op == &kn_row_conv2d_weight ? lower_filters(lowering, &made, padded)
                                                       : lower_sweep(lowering, &made, padded);
}
