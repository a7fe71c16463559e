/* Convolutions on wide-vector devices: steps for cl/conv/wide.cl, wide_single.cl, wide_weights.cl and
 * packing.cl. Images are blocked by the vector width, except for a first layer with few channels; filters are
 * plain and are packed by a separate step. */
#include <stdio.h>

#include "ops/conv/conv.h"
#include "ops/conv/packing.h"
#include "ops/lowering.h"

/* Bytes of packed filters that a sweep over pixels may use, to stay in the second-level cache, and of pixels
 * that are read panel by panel; pixels in a band; how many blocks of less than 16 channels an item processes
 * together. */
enum { SWEEP_BYTES = 600 << 10, NEAR_BYTES = 256 << 10, BAND = 96 };
/* The fewest tiles of pixels in an item; they use the same panel, which each item reads again. */
enum { MIN_TILES = 4, SINGLE_TILES = 9 };
enum { MIN_PART = 2048, MAX_PARTS = 8, NARROW_BLOCKS = 3 };
/* For statistics: a sufficient number of parts, and the most pixels of a part. */
enum { MANY_PARTS = 256, GATHERED = 128 };

/* Whether the channels that a product reads, and those that it computes, fill whole blocks in each group; for
 * the filter gradient the channels of x and dy. */
static bool describe(const kn_target *target, const kn_node *node, kn_conv_form *form, bool *sources,
                     bool *targets) {
    if (!kn_has_float_vectors(target, node)) return false;
    kn_conv_describe(node, form);
    if (form->channels == 0 || form->outputs == 0) return false;
    bool swapped = node->op == &kn_row_conv2d_data;
    int64_t channels = form->channels / form->groups, outputs = form->outputs / form->groups;
    *sources = (swapped ? outputs : channels) % target->vector_width == 0;
    *targets = (swapped ? channels : outputs) % target->vector_width == 0;
    return true;
}

/* Both sides fill whole blocks, in each group. */
bool kn_conv_wide_accepts(const kn_target *target, const kn_node *node) {
    kn_conv_form form;
    bool sources, targets;
    return describe(target, node, &form, &sources, &targets) && sources && targets;
}

/* The source's channels fill no whole blocks, as in a first layer: it is read in the plain layout. */
bool kn_conv_wide_first_accepts(const kn_target *target, const kn_node *node) {
    kn_conv_form form;
    bool sources, targets;
    return describe(target, node, &form, &sources, &targets) && !sources && targets && form.groups == 1;
}

/* The result's channels fill no whole blocks: it is padded in scratch memory, and plain for its consumers. */
bool kn_conv_wide_last_accepts(const kn_target *target, const kn_node *node) {
    kn_conv_form form;
    bool sources, targets;
    return describe(target, node, &form, &sources, &targets) && sources && !targets && form.groups == 1;
}

/* Neither side fills whole blocks. */
bool kn_conv_wide_padded_accepts(const kn_target *target, const kn_node *node) {
    kn_conv_form form;
    bool sources, targets;
    return describe(target, node, &form, &sources, &targets) && !sources && !targets && form.groups == 1;
}

/* Describes the convolution to a kernel; channels are those of a group. */
static void bind(kn_step *step, const kn_conv_form *form, const kn_packed_filter *pack, bool swapped) {
    KN_STEP_SET(step, {"x_channels", pack->sources}, {"x_lanes", pack->lanes}, {"y_channels", pack->targets});
    kn_conv_bind_wide(step, form, swapped);
}

/* 1x1 filters without padding. */
static bool is_one_pixel(const kn_conv_form *form) {
    bool single = form->filter_height * form->filter_width == 1;
    for (int i = 0; i < 4; i++)
        single = single && form->padding[i] == 0;
    return single;
}

bool kn_conv_is_pointwise(const kn_conv_form *form) {
    return is_one_pixel(form) && form->stride[0] == 1 && form->stride[1] == 1;
}

/* 1x1 filters whose sources all fit in one sweep. */
static bool is_single(const kn_conv_form *form, const kn_packed_filter *filter, bool swapped) {
    return (swapped ? kn_conv_is_pointwise(form) : is_one_pixel(form)) && filter->groups == 1 &&
           filter->sources * filter->columns * (int64_t)sizeof(float) <= SWEEP_BYTES;
}

/* Adds the step's arguments after the images, for 1x1 filters; an item has `chunk` pixels and `panels`
 * panels. */
static void add_single(kn_step *step, const kn_conv_form *form, const kn_packed_filter *filter, bool swapped,
                       int64_t chunk, int64_t panels) {
    const int64_t x_size[2] = {form->height, form->width}, y_size[2] = {form->out_height, form->out_width};
    const int64_t *from = swapped ? y_size : x_size, *to = swapped ? x_size : y_size;
    int64_t plane = from[0] * from[1], lanes = filter->lanes;
    bool plain = lanes == 1;
    KN_STEP_SET(step, {"x_channels", filter->sources}, {"y_channels", filter->targets}, {"rows", to[0]},
                {"columns", to[1]}, {"x_row", form->stride[0] * from[1] * lanes},
                {"x_column", form->stride[1] * lanes}, {"x_pass", plain ? 0 : plane * lanes},
                {"pass_channels", plain ? filter->sources : lanes}, {"channel_step", plain ? plane : 1},
                {"pixels", form->images * to[0] * to[1]}, {"item_pixels", chunk}, {"item_panels", panels});
}

/* The pixels of one work-item, in whole tiles, for at most `items` work-items. */
static int64_t chunk_pixels(const kn_packed_filter *filter, bool single, int64_t pixels, int64_t items) {
    const int64_t rows = kn_conv_tile_rows(filter), least = (single ? SINGLE_TILES : MIN_TILES) * rows;
    int64_t chunk = kn_round_up(kn_divide_up(pixels, items), rows);
    if (chunk < least) chunk = least;
    if (!single) return chunk;
    /* With 1x1 filters an item uses several panels while its part of x stays in the cache; items have the
     * same size. */
    int64_t near = NEAR_BYTES / (filter->sources * (int64_t)sizeof(float)) / rows * rows;
    if (near < MIN_TILES * rows) near = MIN_TILES * rows;
    if (chunk > near) chunk = near;
    return kn_round_up(kn_divide_up(pixels, kn_divide_up(pixels, chunk)), rows);
}

/* y from x, or dx from dy with the filter's channels swapped. `plain` reads a plain source, `padded` converts
 * a padded result to a plain one. */
static kn_status lower_sweep(kn_lowering *lowering, bool plain, bool padded) {
    const kn_node *node = lowering->node;
    bool swapped = node->op == &kn_row_conv2d_data;
    int64_t units = lowering->target->compute_units;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    kn_packed_filter filter = kn_conv_packed_filter(lowering->target, &form, swapped, plain);
    kn_status status = kn_conv_pack(lowering, &filter, node->inputs[1], swapped);
    if (status != KN_OK) return status;
    const kn_shape *result = &node->outputs[0]->shape;
    int64_t source = kn_elements_of(node->inputs[0]) / form.images, plane = result->dims[2] * result->dims[3];
    int64_t result_channels = padded ? kn_round_up(result->dims[1], filter.width) : result->dims[1];
    int scratch = padded ? kn_conv_padded_scratch(lowering, &filter, form.images, result->dims[1], plane) : 0;
    int64_t rows = kn_conv_tile_rows(&filter);
    int64_t step_y = swapped ? form.stride[0] : 1, step_x = swapped ? form.stride[1] : 1,
            phases = step_y * step_x;
    int64_t pixels =
        form.images * kn_divide_up(result->dims[2], step_y) * kn_divide_up(result->dims[3], step_x);
    int64_t columns = filter.groups * filter.panels;
    bool single = is_single(&form, &filter, swapped);
    int64_t chunk =
        chunk_pixels(&filter, single, pixels, kn_divide_up(8 * units, single ? 1 : columns * phases));
    /* Statistics are collected in parts of a few tiles; work-items process whole parts. */
    int64_t tiles = pixels / (MANY_PARTS * rows), most = GATHERED / rows;
    int64_t part = rows * (tiles < 4 ? 4 : tiles > most ? most : tiles);
    bool gathers = lowering->gathers && !padded && phases == 1;
    if (gathers) chunk = kn_round_up(chunk, part);
    int64_t blocks = SWEEP_BYTES / (filter.taps * filter.lanes * filter.columns * (int64_t)sizeof(float));
    const int64_t items = kn_divide_up(pixels, chunk), panel_items = kn_divide_up(4 * units, items);
    const int64_t item_panels =
        single ? kn_divide_up(columns, panel_items < columns ? panel_items : columns) : 1;
    kn_step *step = single ? kn_conv_begin(lowering, &filter, "conv/wide_single.cl", "kn_conv_single")
                           : kn_conv_begin(lowering, &filter, "conv/wide.cl", "kn_conv");
    kn_step_read(step, "x", node->inputs[0]);
    kn_step_read_scratch(step, "filter", filter.scratch);
    if (padded)
        kn_step_scratch(step, "y", scratch);
    else
        kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"x_image", source}, {"y_image", result_channels * plane});
    if (single) {
        add_single(step, &form, &filter, swapped, chunk, item_panels);
    } else {
        bind(step, &form, &filter, swapped);
        KN_STEP_SET(step, {"gradient", swapped}, {"item_pixels", chunk},
                    {"pass_blocks", blocks > 1 ? blocks : 1}, {"accumulate", 0});
    }
    if (gathers) kn_conv_gather(lowering, step, result->dims[1], kn_divide_up(pixels, part), part);
    kn_step_cost_of_node(step, lowering);
    if (!padded) kn_step_epilogue(step, lowering);
    if (single)
        kn_step_size2(step, (size_t)items, (size_t)kn_divide_up(columns, item_panels), 1, 1);
    else
        kn_step_size_wide(step, phases, items, columns);
    status = kn_step_end(step, lowering);
    if (status != KN_OK || !padded) return status;
    return kn_conv_emit_blocks(lowering, &filter, lowering->result, scratch, form.images, result->dims[1],
                               plane, false);
}

/* dw (K,C/groups,R,S) from dy and x: partial sums in packed form, then their sum in the plain layout.
 * `padded` reads a plain dy, too. */
static kn_status lower_weights(kn_lowering *lowering, bool plain, bool padded) {
    const kn_node *node = lowering->node;
    int64_t units = lowering->target->compute_units;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    int64_t plane = form.out_height * form.out_width, pixels = form.images * plane;
    if (pixels == 0) return kn_emit_fill_zero(lowering, lowering->result);
    kn_packed_filter filter = kn_conv_packed_filter(lowering->target, &form, false, plain);
    int dy = padded ? kn_conv_padded_scratch(lowering, &filter, form.images, form.outputs, plane) : 0;
    kn_status status = KN_OK;
    if (padded)
        status = kn_conv_emit_blocks(lowering, &filter, node->inputs[0], dy, form.images, form.outputs, plane,
                                     true);
    if (status != KN_OK) return status;
    /* The parts determine rounding, so they depend only on the shape. */
    int64_t blocks = kn_divide_up(filter.sources, filter.width), columns = filter.groups * filter.panels;
    int64_t parts = kn_divide_up(64, blocks * filter.taps * columns), most = kn_divide_up(pixels, MIN_PART);
    if (parts > most) parts = most;
    if (parts > MAX_PARTS) parts = MAX_PARTS;
    int64_t part = kn_round_up(kn_divide_up(pixels, parts), BAND);
    parts = kn_divide_up(pixels, part);
    /* An item processes several narrow blocks, so that the list of pixels is used more often. */
    int64_t item_blocks = filter.width < 16 ? NARROW_BLOCKS : 1;
    if (kn_divide_up(blocks, item_blocks) * columns * parts * filter.taps < 4 * units) item_blocks = 1;
    int64_t groups = kn_divide_up(blocks, item_blocks);
    int64_t items = groups * columns * parts, taps = filter.taps;
    if (items < 4 * units) taps = kn_divide_up(taps * items, 4 * units);
    int partials = kn_emit_scratch(lowering, (uint64_t)(filter.floats * parts) * sizeof(float));
    kn_step *step = kn_conv_begin(lowering, &filter, "conv/wide_weights.cl", "kn_conv_weights");
    if (kn_conv_is_pointwise(&form)) KN_STEP_DEFINE(step, {"KN_SINGLE", 1});
    if (padded) kn_step_scratch(step, "dy", dy);
    kn_step_scratch(step, "dw", partials);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"x_image", form.channels * form.height * form.width},
                {"y_image", (padded ? kn_round_up(form.outputs, filter.width) : form.outputs) * plane});
    bind(step, &form, &filter, false);
    KN_STEP_SET(step, {"item_blocks", item_blocks}, {"item_taps", taps}, {"part_pixels", part},
                {"dw_part", filter.floats});
    kn_step_cost_of_node(step, lowering);
    kn_step_size_wide(step, (groups * kn_divide_up(filter.taps, taps)), columns, parts);
    status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    return kn_conv_unpack(lowering, &filter, partials, parts);
}

kn_status kn_conv_wide_lower(kn_lowering *lowering) {
    const bool plain = lowering->config & KN_CONV_PLAIN, padded = lowering->config & KN_CONV_PADDED;
    return lowering->node->op == &kn_row_conv2d_weight ? lower_weights(lowering, plain, padded)
                                                       : lower_sweep(lowering, plain, padded);
}
