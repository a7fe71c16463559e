/* 3x3 convolutions by Winograd's method on wide-vector devices: steps for cl/conv/winograd.cl, and when they
 * pay. */
#include <stdio.h>

#include "ops/conv/conv.h"
#include "ops/conv/packing.h"
#include "ops/lowering.h"

/* Costs other than multiply-adds, in FLOPs of the same time: reading and writing an element of a transformed
 * filter, packing an element of a plain filter, and transforming a tile of one channel. */
enum { READ = 36, WRITE = 60, TRANSFORM_4 = 700, TRANSFORM_2 = 300 };
/* Bytes of a filter, and of transformed images, that fit in caches; tiles of a block of the fused kernel;
 * channels of the sums that errors are measured with. */
enum { FILTER_BYTES = 4 << 20, IMAGE_BYTES = 16 << 20, MIN_TILES = 24, MAX_TILES = 96 };
enum { GATHERED = 6 }; /* tiles per part of statistics; blocks of tiles are multiples of it */
/* For the filter gradient: bytes and tiles of a round, and images of a sample. */
enum { ROUND_BYTES = 8 << 20, MIN_ROUND = 48, MAX_ROUND = 512 };

/* The convolution to compute: y from x, or dx from dy with the filter rotated. */
typedef struct winograd {
    int64_t width, vectors, panels, columns, tile, points;
    int64_t images, sources, targets, tiles;
    int64_t x_size[2], y_size[2], pad[2];
    bool swapped;
    int filter;
} winograd;

static void describe(const kn_target *target, const kn_node *node, int tile, winograd *form) {
    kn_conv_form conv;
    kn_conv_describe(node, &conv);
    const int64_t sizes[2][2] = {{conv.height, conv.width}, {conv.out_height, conv.out_width}};
    *form = (winograd){.width = target->vector_width, .tile = tile, .points = (tile + 2) * (tile + 2)};
    form->swapped = node->op == &kn_row_conv2d_data;
    form->images = conv.images;
    form->sources = form->swapped ? conv.outputs : conv.channels;
    form->targets = form->swapped ? conv.channels : conv.outputs;
    form->tiles = conv.images;
    for (int i = 0; i < 2; i++) {
        form->x_size[i] = sizes[form->swapped][i];
        form->y_size[i] = sizes[!form->swapped][i];
        form->pad[i] = form->swapped ? 2 - conv.padding[i] : conv.padding[i];
        form->tiles *= kn_divide_up(form->y_size[i], tile);
    }
    form->vectors = kn_wide_vectors(form->width, form->targets);
    form->columns = form->width * form->vectors;
    form->panels = kn_divide_up(form->targets, form->columns);
}

/* 3x3 filters, stride 1, whole blocks on both sides. */
bool kn_conv_winograd_accepts(const kn_target *target, const kn_node *node) {
    const int width = target->vector_width;
    if (!kn_has_float_vectors(target, node)) return false;
    kn_conv_form form;
    kn_conv_describe(node, &form);
    bool fits = form.groups == 1 && form.channels > 0 && form.outputs > 0 && form.channels % width == 0 &&
                form.outputs % width == 0 && form.filter_height == 3 && form.filter_width == 3;
    for (int i = 0; i < 2; i++)
        fits = fits && form.stride[i] == 1 && form.dilation[i] == 1 && form.padding[i] <= 2;
    return fits;
}

/* ---- where it pays ------------------------------------------------------------------------------------- */

/* filter_stays: it is transformed once instead of in each run. */
static double work_of(const winograd *form, bool filter_stays) {
    double channels = (double)form->sources + (double)form->targets, tiles = (double)form->tiles;
    double filter = (double)form->points * (double)form->sources * (double)(form->panels * form->columns);
    double product = 2 * tiles > READ ? 2 * tiles : READ;
    return filter * (product + (filter_stays ? 0 : WRITE)) +
           tiles * channels * (form->tile == 4 ? TRANSFORM_4 : TRANSFORM_2);
}

static double direct_work(const winograd *form, bool filter_stays) {
    double filter = 9 * (double)form->sources * (double)(form->panels * form->columns);
    double pixels = (double)form->images * (double)form->y_size[0] * (double)form->y_size[1];
    return filter * (2 * pixels + (filter_stays ? 0 : WRITE));
}

static int64_t filter_bytes(const winograd *form) {
    return form->points * form->sources * form->panels * form->columns * (int64_t)sizeof(float);
}

/* Whether the tiles are few enough to be computed at once, and it pays: a large filter is read only once, and
 * a few tiles are divided among units by transformed points. */
static bool takes_phases(const kn_target *target, const winograd *form) {
    int64_t channels = form->sources + form->panels * form->columns;
    return form->tiles <= IMAGE_BYTES / (form->points * channels * (int64_t)sizeof(float)) &&
           (filter_bytes(form) > FILTER_BYTES || form->tiles < 2 * MIN_TILES * target->compute_units);
}

/* The tile with less work, if that is less than by the direct method. */
bool kn_conv_winograd_pays(const kn_target *target, const kn_node *node, int config, bool filter_stays) {
    const bool weights = node->op == &kn_row_conv2d_weight, large_tile = (config & KN_CONV_TILE) == 4;
    winograd large, small;
    describe(target, node, 4, &large);
    describe(target, node, 2, &small);
    if (weights)
        filter_stays = false;
    else if (takes_phases(target, large_tile ? &large : &small) != !!(config & KN_CONV_PHASES))
        return false;
    double by_large = work_of(&large, filter_stays), by_small = work_of(&small, filter_stays);
    double limit = 0.9 * direct_work(&large, filter_stays);
    return large_tile ? by_large < limit && by_large <= by_small : by_small < limit;
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* For a kernel that does not depend on panels: it is the same for all numbers of channels. */
static kn_step *begin_plain(kn_lowering *lowering, const winograd *form, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, "conv/winograd.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_WIDTH", form->width}, {"KN_TILE", form->tile});
    return step;
}

static kn_step *begin(kn_lowering *lowering, const winograd *form, const char *kernel) {
    kn_step *step = begin_plain(lowering, form, kernel);
    KN_STEP_DEFINE(step, {"KN_VECTORS", form->vectors});
    return step;
}

/* Describes the convolution to the kernel, and launches first x second work-items. */
static kn_status finish(kn_step *step, kn_lowering *lowering, const winograd *form, int64_t first,
                        int64_t second) {
    KN_STEP_BIND(step, {"images", form->images}, {"sources", form->sources}, {"targets", form->targets},
                 {"x_channels", form->sources}, {"y_channels", form->targets}, {"x_height", form->x_size[0]},
                 {"x_width", form->x_size[1]}, {"y_height", form->y_size[0]}, {"y_width", form->y_size[1]},
                 {"pad_top", form->pad[0]}, {"pad_left", form->pad[1]},
                 {"x_image", form->sources * form->x_size[0] * form->x_size[1]},
                 {"y_image", form->targets * form->y_size[0] * form->y_size[1]});
    kn_step_size2(step, (size_t)first, (size_t)second, 1, 1);
    return kn_step_end(step, lowering);
}

static int take_floats(kn_lowering *lowering, int64_t floats) {
    return kn_emit_scratch(lowering, (uint64_t)floats * sizeof(float));
}

/* A separate step, since it depends only on the filter. */
static kn_status lower_filter(kn_lowering *lowering, winograd *form) {
    int64_t plane = form->panels * form->sources * form->columns + form->width;
    form->filter = take_floats(lowering, form->points * plane + form->width);
    kn_step *step = begin(lowering, form, "kn_winograd_filter");
    kn_step_read(step, "plain", lowering->node->inputs[1]);
    kn_step_scratch(step, "packed", form->filter);
    KN_STEP_SET(step, {"plain_target", form->swapped ? 9 : form->sources * 9},
                {"plain_source", form->swapped ? form->targets * 9 : 9}, {"turned", form->swapped});
    return finish(step, lowering, form, form->sources / form->width, form->panels);
}

/* Statistics are collected in parts of a few tiles; blocks and chunks are multiples of them. */
static void gather(kn_lowering *lowering, const winograd *form, kn_step *step) {
    kn_conv_gather(lowering, step, form->targets, kn_divide_up(form->tiles, GATHERED), GATHERED);
}

/* Each work-item computes a block of tiles at a time. */
static kn_status lower_fused(kn_lowering *lowering, const winograd *form, int64_t block) {
    int64_t items = kn_divide_up(form->tiles, block), most = 2 * (int64_t)lowering->target->compute_units;
    if (items > most) items = most;
    int64_t channels = form->sources + form->panels * form->columns;
    int scratch = take_floats(lowering, items * form->points * (block * channels + 2 * form->width));
    kn_step *step = begin(lowering, form, "kn_winograd");
    kn_step_read(step, "x", lowering->node->inputs[0]);
    kn_step_read_scratch(step, "filter", form->filter);
    kn_step_scratch(step, "scratch", scratch);
    kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"block_tiles", block});
    gather(lowering, form, step);
    kn_step_cost_of_node(step, lowering);
    kn_step_epilogue(step, lowering);
    return finish(step, lowering, form, items, 1);
}

/* Zeros, to be read for pixels outside the image. */
static kn_status lower_zeros(kn_lowering *lowering, const winograd *form, int *zeros) {
    *zeros = take_floats(lowering, form->width);
    kn_step *step = begin_plain(lowering, form, "kn_winograd_zeros");
    kn_step_scratch(step, "zeros", *zeros);
    return finish(step, lowering, form, 1, 1);
}

/* Computes sources (points,tiles,channels) from x, for `tiles` tiles starting at `first`. */
static kn_status lower_source(kn_lowering *lowering, const winograd *form, kn_value *x, int zeros,
                              int sources, int64_t first, int64_t tiles) {
    int64_t chunk = kn_divide_up(tiles, 4 * (int64_t)lowering->target->compute_units);
    kn_step *step = begin_plain(lowering, form, "kn_winograd_source");
    kn_step_read(step, "x", x);
    kn_step_read_scratch(step, "zeros", zeros);
    kn_step_scratch(step, "sources", sources);
    KN_STEP_SET(step, {"first_tile", first}, {"tiles", tiles}, {"item_tiles", chunk});
    return finish(step, lowering, form, kn_divide_up(tiles, chunk), 1);
}

/* All tiles at once, in three launches: a large filter is read only once. */
static kn_status lower_phases(kn_lowering *lowering, const winograd *form) {
    int64_t units = lowering->target->compute_units, chunk = kn_divide_up(form->tiles, 4 * units);
    if (lowering->gathers) chunk = kn_round_up(chunk, GATHERED);
    int64_t chunks = kn_divide_up(form->tiles, chunk), products = form->points * form->panels;
    int64_t part =
        products >= 4 * units ? form->tiles : kn_round_up(kn_divide_up(form->tiles, 4 * units), 12);
    int sources = take_floats(lowering, form->points * (form->tiles * form->sources + form->width));
    int targets =
        take_floats(lowering, form->points * (form->tiles * form->panels * form->columns + form->width));
    int zeros;
    kn_status status = lower_zeros(lowering, form, &zeros);
    if (status == KN_OK)
        status = lower_source(lowering, form, lowering->node->inputs[0], zeros, sources, 0, form->tiles);
    if (status != KN_OK) return status;

    kn_step *step = begin(lowering, form, "kn_winograd_product");
    kn_step_read_scratch(step, "sources", sources);
    kn_step_read_scratch(step, "filter", form->filter);
    kn_step_scratch(step, "targets", targets);
    KN_STEP_SET(step, {"tiles", form->tiles}, {"item_tiles", part});
    kn_step_cost_of_node(step, lowering);
    status = finish(step, lowering, form, products, kn_divide_up(form->tiles, part));
    if (status != KN_OK) return status;

    step = begin(lowering, form, "kn_winograd_target");
    kn_step_read_scratch(step, "targets", targets);
    kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"item_tiles", chunk});
    gather(lowering, form, step);
    kn_step_epilogue(step, lowering);
    return finish(step, lowering, form, chunks, 1);
}

static int64_t block_of(const kn_target *target, const winograd *form) {
    int64_t block = kn_round_up(filter_bytes(form) / (MIN_TILES << 11), 6),
            chunk = kn_round_up(kn_divide_up(form->tiles, 2 * (int64_t)target->compute_units), 6);
    if (block > MAX_TILES) block = MAX_TILES;
    if (block > chunk) block = chunk;
    return block > MIN_TILES ? block : MIN_TILES;
}

/* Neither the method nor the size of a block changes the bits of results, so both may depend on the
 * device. */
static kn_status lower_images(kn_lowering *lowering) {
    const int config = lowering->config;
    winograd form;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    describe(lowering->target, lowering->node, config & KN_CONV_TILE, &form);
    kn_status status = lower_filter(lowering, &form);
    if (status != KN_OK) return status;
    int64_t channels = form.sources + form.panels * form.columns;
    bool fits = lowering->target->wide_indices || form.tiles < INT32_MAX / form.points / channels;
    return config & KN_CONV_PHASES && fits ? lower_phases(lowering, &form)
                                           : lower_fused(lowering, &form, block_of(lowering->target, &form));
}

/* ---- the gradient of the filter -------------------------------------------------------------- */

/* Tiles of a round: as many as have transforms that fit in a cache. They depend only on the shape, since the
 * sums of rounds are added. */
static int64_t round_of(const winograd *form) {
    int64_t channels = form->sources + form->panels * form->columns;
    int64_t tiles = ROUND_BYTES / (form->points * channels * (int64_t)sizeof(float));
    if (tiles > MAX_ROUND) tiles = MAX_ROUND;
    if (tiles < MIN_ROUND) tiles = MIN_ROUND;
    int64_t rounds = kn_divide_up(form->tiles, tiles);
    return kn_divide_up(form->tiles, rounds);
}

static kn_status lower_gradient(kn_lowering *lowering, const winograd *form, int gradients, int64_t first,
                                int64_t tiles) {
    int64_t chunk = kn_divide_up(tiles, 4 * (int64_t)lowering->target->compute_units);
    kn_step *step = begin(lowering, form, "kn_winograd_gradient");
    kn_step_read(step, "dy", lowering->node->inputs[0]);
    kn_step_scratch(step, "gradients", gradients);
    KN_STEP_SET(step, {"first_tile", first}, {"tiles", tiles}, {"item_tiles", chunk});
    return finish(step, lowering, form, kn_divide_up(tiles, chunk), 1);
}

/* dw (targets,sources,3,3) from dy and x. */
static kn_status lower_weights(kn_lowering *lowering) {
    winograd form;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    describe(lowering->target, lowering->node, lowering->config & KN_CONV_TILE, &form);
    if (form.tiles == 0) return kn_emit_fill_zero(lowering, lowering->result);
    int64_t tiles = round_of(&form), columns = form.panels * form.columns;
    int sources = take_floats(lowering, form.points * (tiles * form.sources + form.width));
    int gradients = take_floats(lowering, form.points * (tiles * columns + form.width));
    int sums = take_floats(lowering, form.points * (form.sources * columns + form.width)), zeros;
    kn_status status = lower_zeros(lowering, &form, &zeros);
    for (int64_t first = 0; first < form.tiles && status == KN_OK; first += tiles) {
        int64_t count = tiles < form.tiles - first ? tiles : form.tiles - first;
        status = lower_source(lowering, &form, lowering->node->inputs[1], zeros, sources, first, count);
        if (status == KN_OK) status = lower_gradient(lowering, &form, gradients, first, count);
        if (status != KN_OK) return status;
        kn_step *step = begin(lowering, &form, "kn_winograd_weights");
        kn_step_read_scratch(step, "all_sources", sources);
        kn_step_read_scratch(step, "all_gradients", gradients);
        kn_step_scratch(step, "all_sums", sums);
        KN_STEP_SET(step, {"tiles", count}, {"item_channels", form.sources}, {"accumulate", first > 0});
        kn_cost cost;
        kn_node_cost(lowering->node, &cost);
        double fraction = (double)count / (double)form.tiles;
        kn_step_cost(step, cost.flops * fraction, cost.bytes * fraction);
        status = finish(step, lowering, &form, form.points * form.panels, 1);
    }
    if (status != KN_OK) return status;
    kn_step *step = begin(lowering, &form, "kn_winograd_unfilter");
    kn_step_read_scratch(step, "sums", sums);
    kn_step_write(step, "plain", lowering->result);
    KN_STEP_SET(step, {"plain_target", form.sources * 9});
    return finish(step, lowering, &form, form.sources / form.width, form.panels);
}

kn_status kn_conv_winograd_lower(kn_lowering *lowering) {
    return lowering->node->op == &kn_row_conv2d_weight ? lower_weights(lowering) : lower_images(lowering);
}
