/* 3x3 convolutions by Winograd's method on many-thread devices: steps for cl/conv/winograd_tiled.cl,
 * with the tiled matrix product between the transforms, and when they pay. */
#include "ops/conv/conv.h"
#include "ops/lowering.h"
#include "ops/matmul/product.h"

static const char file[] = "conv/winograd_tiled.cl", product_file[] = "matmul/tiled.cl";

/* Limits in bytes on transformed filters, and on transformed images and results, which are computed in chunks
 * of tiles; the columns of a chunk are a multiple of COLUMN_STEP, so that rows of points start at multiples
 * of 64 bytes. */
enum { FILTER_BYTES = 256 << 20, CHUNK_BYTES = 256 << 20, COLUMN_STEP = 16 };

/* The convolution to compute: y (images,targets,y_size) from x (images,sources,x_size), or dx from dy with
 * the filter rotated. */
typedef struct winograd {
    int64_t tile, points, images, sources, targets;
    int64_t x_size[2], y_size[2], pad[2];
    int64_t row_tiles, image_tiles, tiles;
    int64_t columns; /* of a chunk */
    bool turned;
    kn_value *x;
} winograd;

static bool is_turned(const kn_node *node) {
    return node->op == &kn_row_conv2d_data;
}

static uint64_t within(uint64_t bytes, const kn_target *target) {
    return bytes < target->largest_block_bytes ? bytes : target->largest_block_bytes;
}

/* The columns per chunk, the same for all chunks, which wastes few. */
static int64_t columns_of(const kn_target *target, const winograd *form) {
    const int64_t column_bytes = form->points * (int64_t)sizeof(float), sides = form->sources + form->targets;
    const int64_t larger = form->sources > form->targets ? form->sources : form->targets;
    const int64_t together = CHUNK_BYTES / (column_bytes * sides),
                  alone = (int64_t)within(CHUNK_BYTES, target) / (column_bytes * larger);
    int64_t most = (together < alone ? together : alone) / COLUMN_STEP * COLUMN_STEP;
    if (most < COLUMN_STEP) most = COLUMN_STEP;
    return kn_round_up(kn_divide_up(form->tiles, kn_divide_up(form->tiles, most)), COLUMN_STEP);
}

static void describe(const kn_target *target, const kn_node *node, int tile, winograd *form) {
    kn_conv_form conv;
    kn_conv_describe(node, &conv);
    const int64_t sizes[2][2] = {{conv.height, conv.width}, {conv.out_height, conv.out_width}};
    const bool turned = is_turned(node);
    *form = (winograd){.tile = tile,
                       .points = (tile + 2) * (tile + 2),
                       .images = conv.images,
                       .sources = turned ? conv.outputs : conv.channels,
                       .targets = turned ? conv.channels : conv.outputs,
                       .turned = turned,
                       .x = node->inputs[node->op == &kn_row_conv2d_weight]};
    for (int i = 0; i < 2; i++) {
        form->x_size[i] = sizes[turned][i];
        form->y_size[i] = sizes[!turned][i];
        form->pad[i] = turned ? 2 - conv.padding[i] : conv.padding[i];
    }
    form->row_tiles = kn_divide_up(form->y_size[1], tile);
    form->image_tiles = form->row_tiles * kn_divide_up(form->y_size[0], tile);
    form->tiles = form->images * form->image_tiles;
    form->columns = form->tiles ? columns_of(target, form) : 0;
}

static int64_t filter_bytes(const winograd *form) {
    return form->points * form->sources * form->targets * (int64_t)sizeof(float);
}

/* Whether the points of a chunk with the fewest columns fit in a block of memory. */
static bool fits_chunk(const kn_target *target, const winograd *form) {
    const int64_t larger = form->sources > form->targets ? form->sources : form->targets;
    return (uint64_t)(form->points * COLUMN_STEP * larger * (int64_t)sizeof(float)) <=
           within(CHUNK_BYTES, target);
}

/* 3x3 filters of float32 or 16 bits with stride 1, if the filters fit and tiles can be counted. Results may
 * have no elements although x has some. */
bool kn_conv_winograd_tiled_accepts(const kn_target *target, const kn_node *node) {
    const kn_dtype type = node->outputs[0]->shape.dtype;
    enum { LARGE_TILE = 4, MIN_CHANNELS = 8 };
    kn_conv_form conv;
    winograd form;
    if (target->wide_vector || node->tf32 || !(type == KN_FLOAT32 || kn_is_half(type))) return false;
    kn_conv_describe(node, &conv);
    bool fits = conv.groups == 1 && conv.channels >= MIN_CHANNELS && conv.outputs >= MIN_CHANNELS &&
                conv.filter_height == 3 && conv.filter_width == 3;
    for (int i = 0; i < 2; i++)
        fits = fits && conv.stride[i] == 1 && conv.dilation[i] == 1;
    if (!fits || conv.channels > INT32_MAX / conv.outputs) return false;
    describe(target, node, LARGE_TILE, &form);
    return kn_elements_of(form.x) > 0 && (uint64_t)filter_bytes(&form) <= within(FILTER_BYTES, target) &&
           form.tiles > 0 && form.tiles < INT32_MAX / LARGE_TILE && fits_chunk(target, &form);
}

/* ---- the steps ------------------------------------------------------------------------------- */

static int take_floats(kn_lowering *lowering, int64_t floats) {
    return kn_emit_scratch(lowering, (uint64_t)floats * sizeof(float));
}

static kn_step *begin(kn_lowering *lowering, const winograd *form, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, file, kernel);
    KN_STEP_DEFINE(step, {"KN_TILE", form->tile});
    return step;
}

/* Adds the arguments columns … width: a chunk of tiles starting at `first`, in images of this size. */
static void add_tiles(kn_step *step, const winograd *form, int64_t first, int64_t channels,
                      const int64_t size[2]) {
    KN_STEP_SET(step, {"columns", form->columns}, {"columns_multiplier", kn_divide_multiplier(form->columns)},
                {"first_tile", first}, {"tiles", form->tiles}, {"image_tiles", form->image_tiles},
                {"image_multiplier", kn_divide_multiplier(form->image_tiles)}, {"row_tiles", form->row_tiles},
                {"row_multiplier", kn_divide_multiplier(form->row_tiles)}, {"channels", channels},
                {"height", size[0]}, {"width", size[1]});
}

/* Sets the cost of a transform of the tiles of a chunk, between points and float32 pixels: its bytes. */
static void add_cost(kn_step *step, const winograd *form, int64_t channels) {
    kn_step_cost(step, 0,
                 4.0 * (double)(channels * form->columns) * (double)(form->points + form->tile * form->tile));
}

/* A separate step, since it depends only on the filter. */
static kn_status lower_filters(kn_lowering *lowering, const winograd *form, int filters) {
    const int64_t pairs = form->sources * form->targets;
    kn_step *step = begin(lowering, form, "kn_winograd_filters");
    kn_step_read(step, "weight", lowering->node->inputs[1]);
    kn_step_scratch(step, "filters", filters);
    KN_STEP_SET(step, {"items", pairs}, {"turned", form->turned});
    kn_step_cost(step, 0, 4.0 * (double)(pairs * (form->points + 9)));
    kn_step_size_free(step, pairs, lowering->target);
    return kn_step_end(step, lowering);
}

static kn_status lower_images(kn_lowering *lowering, const winograd *form, int images, int64_t first) {
    const int64_t items = form->sources * form->columns;
    const bool fours = form->tile == 4 && form->pad[1] == 1 && form->x_size[1] % 4 == 0;
    kn_step *step = begin(lowering, form, "kn_winograd_images");
    KN_STEP_DEFINE(step, {"KN_VECTOR", fours ? 4 : 1});
    kn_step_read(step, "x", form->x);
    kn_step_scratch(step, "images", images);
    KN_STEP_SET(step, {"items", items});
    add_tiles(step, form, first, form->sources, form->x_size);
    KN_STEP_SET(step, {"pad_top", form->pad[0]}, {"pad_left", form->pad[1]});
    add_cost(step, form, form->sources);
    kn_step_size_free(step, items, lowering->target);
    return kn_step_end(step, lowering);
}

/* A product at each point, and how its sides are stored. */
typedef struct point_product {
    kn_product product;
    bool transpose_a, transpose_b;
    int a, b, sums;
} point_product;

/* Chooses its tiles, and allocates memory for the results. */
static void plan_products(kn_lowering *lowering, const winograd *form, point_product *products) {
    kn_product *product = &products->product;
    const int64_t sums = form->points * product->rows * product->columns;
    product->file = product_file;
    product->way = KN_PRODUCT_ITEMS;
    product->batches = form->points;
    kn_product_plan(lowering, product, sums);
    products->sums = product->parts > 1 ? product->partials : take_floats(lowering, sums);
}

static int vector_of(const point_product *products) {
    const kn_product *product = &products->product;
    const int a = kn_product_vector(product, products->transpose_a ? product->rows : product->depth),
              b = kn_product_vector(product, products->transpose_b ? product->depth : product->columns);
    return product->columns % 4 ? 1 : a < b ? a : b;
}

static kn_status lower_products(kn_lowering *lowering, const winograd *form, const point_product *products) {
    const kn_product *product = &products->product;
    kn_step *step = kn_step_begin(lowering, product_file, "kn_matmul");
    kn_product_define(step, product);
    KN_STEP_DEFINE(step, {"KN_TRANSPOSE_A", products->transpose_a}, {"KN_TRANSPOSE_B", products->transpose_b},
                   {"KN_VECTOR", vector_of(products)});
    kn_step_read_scratch(step, "a", products->a);
    kn_step_read_scratch(step, "b", products->b);
    if (product->parts > 1)
        kn_step_write(step, "c", NULL);
    else
        kn_step_scratch(step, "c", products->sums);
    kn_product_bind(step, product);
    KN_STEP_SET(step, {"m", product->rows}, {"n", product->columns}, {"k", product->depth},
                {"batches", product->batches}, {"middle", 1}, {"inner", product->batches}, {"a_outer", 0},
                {"a_middle", 0}, {"a_inner", product->rows * product->depth}, {"b_outer", 0}, {"b_middle", 0},
                {"b_inner", product->depth * product->columns});
    kn_cost cost;
    kn_node_cost(lowering->node, &cost);
    const double fraction = (double)form->columns / (double)kn_round_up(form->tiles, form->columns);
    kn_step_cost(step, cost.flops * fraction, cost.bytes * fraction);
    kn_product_size(step, product);
    return kn_step_end(step, lowering);
}

static kn_status lower_results(kn_lowering *lowering, const winograd *form, const point_product *products,
                               int64_t first) {
    const int64_t items = form->targets * form->columns;
    kn_step *step = begin(lowering, form, "kn_winograd_results");
    KN_STEP_DEFINE(step, {"KN_VECTOR", form->tile == 4 && form->y_size[1] % 4 == 0 ? 4 : 1});
    kn_step_read_scratch(step, "sums", products->sums);
    kn_step_write(step, "y", lowering->result);
    KN_STEP_SET(step, {"items", items}, {"parts", products->product.parts});
    add_tiles(step, form, first, form->targets, form->y_size);
    add_cost(step, form, form->targets);
    kn_step_epilogue(step, lowering);
    kn_step_size_free(step, items, lowering->target);
    return kn_step_end(step, lowering);
}

/* At each point (targets,sources) · (sources,columns), where filters are stored like weights: transposed for
 * dx. Neither chunks nor tiles of the product change the bits of results. */
static kn_status lower_result(kn_lowering *lowering, int tile) {
    winograd form;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    describe(lowering->target, lowering->node, tile, &form);
    point_product products = {
        .product = {.rows = form.targets, .columns = form.columns, .depth = form.sources},
        .transpose_a = form.turned,
        .a = take_floats(lowering, form.points * form.sources * form.targets),
        .b = take_floats(lowering, form.points * form.sources * form.columns)};
    plan_products(lowering, &form, &products);
    kn_status status = lower_filters(lowering, &form, products.a);
    for (int64_t first = 0; first < form.tiles && status == KN_OK; first += form.columns) {
        status = lower_images(lowering, &form, products.b, first);
        if (status == KN_OK) status = lower_products(lowering, &form, &products);
        if (status == KN_OK) status = lower_results(lowering, &form, &products, first);
    }
    return status;
}

/* ---- the gradient of the filter -------------------------------------------------------------- */

static kn_status lower_gradients(kn_lowering *lowering, const winograd *form, int gradients, int64_t first) {
    const int64_t items = form->targets * form->columns;
    kn_step *step = begin(lowering, form, "kn_winograd_gradients");
    KN_STEP_DEFINE(step, {"KN_VECTOR", form->tile == 4 && form->y_size[1] % 4 == 0 ? 4 : 1});
    kn_step_read(step, "dy", lowering->node->inputs[0]);
    kn_step_scratch(step, "gradients", gradients);
    KN_STEP_SET(step, {"items", items});
    add_tiles(step, form, first, form->targets, form->y_size);
    add_cost(step, form, form->targets);
    kn_step_size_free(step, items, lowering->target);
    return kn_step_end(step, lowering);
}

/* total: the gradient of the chunks so far, if there are several. */
static kn_status lower_unfilters(kn_lowering *lowering, const winograd *form, const point_product *products,
                                 int total, int64_t first) {
    const int64_t pairs = form->sources * form->targets;
    const bool last = first + form->columns >= form->tiles;
    kn_step *step = begin(lowering, form, "kn_winograd_unfilters");
    kn_step_read_scratch(step, "sums", products->sums);
    if (form->columns < form->tiles)
        kn_step_scratch(step, "total", total);
    else
        kn_step_write(step, "total", NULL);
    if (last)
        kn_step_write(step, "dw", lowering->result);
    else
        kn_step_write(step, "dw", NULL);
    KN_STEP_SET(step, {"items", pairs}, {"parts", products->product.parts}, {"first", first == 0},
                {"last", last});
    kn_step_cost(step, 0, 4.0 * (double)(pairs * (form->points + 9)));
    kn_step_size_free(step, pairs, lowering->target);
    return kn_step_end(step, lowering);
}

/* dw (targets,sources,3,3) from dy and x: at each point (targets,columns) · (columns,sources). The sums of
 * chunks are added in order. */
static kn_status lower_weights(kn_lowering *lowering, int tile) {
    winograd form;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    describe(lowering->target, lowering->node, tile, &form);
    point_product products = {
        .product = {.rows = form.targets, .columns = form.sources, .depth = form.columns},
        .transpose_b = true,
        .a = take_floats(lowering, form.points * form.targets * form.columns),
        .b = take_floats(lowering, form.points * form.sources * form.columns)};
    plan_products(lowering, &form, &products);
    const int total = form.columns < form.tiles ? take_floats(lowering, kn_elements_of(lowering->result)) : 0;
    kn_status status = KN_OK;
    for (int64_t first = 0; first < form.tiles && status == KN_OK; first += form.columns) {
        status = lower_images(lowering, &form, products.b, first);
        if (status == KN_OK) status = lower_gradients(lowering, &form, products.a, first);
        if (status == KN_OK) status = lower_products(lowering, &form, &products);
        if (status == KN_OK) status = lower_unfilters(lowering, &form, &products, total, first);
    }
    return status;
}

kn_status kn_conv_winograd_tiled_lower(kn_lowering *lowering) {
    const int tile = lowering->config & KN_CONV_TILE;
    return lowering->node->op == &kn_row_conv2d_weight ? lower_weights(lowering, tile)
                                                       : lower_result(lowering, tile);
}

/* ---- where it pays ------------------------------------------------------------------------------------- */

/* Multiply-adds that take as long as moving a byte to or from memory: at most 15 at the peaks of most GPUs,
 * of which products reach half to two thirds. */
static const double byte_work = 12;

/* In multiply-adds. Points are written and read once each. filter_stays: it is transformed once instead of in
 * each run. */
static double work_of(const winograd *form, bool filter_stays) {
    const double pairs = (double)form->sources * (double)form->targets, points = (double)form->points;
    const double columns = (double)kn_round_up(form->tiles, form->columns);
    const double numbers =
        columns * (double)(form->sources + form->targets) * (2 * points + (double)(form->tile * form->tile)) +
        pairs * (filter_stays ? points : 2 * points + 9);
    return pairs * points * columns + byte_work * (double)sizeof(float) * numbers;
}

static double direct_work(const winograd *form) {
    return 9 * (double)form->sources * (double)form->targets * (double)form->images *
           (double)form->y_size[0] * (double)form->y_size[1];
}

/* The tile with less work, if that is less than by the direct method; not if a matrix unit multiplies 16-bit
 * elements. */
bool kn_conv_winograd_tiled_pays(const kn_target *target, const kn_node *node, int config,
                                 bool filter_stays) {
    winograd large, small;
    if (kn_conv_matrix_accepts(target, node)) return false;
    if (node->op == &kn_row_conv2d_weight) filter_stays = false;
    describe(target, node, 4, &large);
    describe(target, node, 2, &small);
    const double by_large = work_of(&large, filter_stays), by_small = work_of(&small, filter_stays);
    const double limit = 0.9 * direct_work(&large);
    return (config & KN_CONV_TILE) == 4 ? by_large < limit && by_large <= by_small : by_small < limit;
}

/* The fastest units are expected to be faster with split float32 (docs/measurements/gpu-lab.md). */
bool kn_conv_winograd_tiled_expected(const kn_target *target, const kn_node *node) {
    return !kn_conv_matrix_split_accepts(target, node) ||
           target->matrix_unit(target->device, KN_BFLOAT16) != KN_MATRIX_UNIT_MMA;
}
