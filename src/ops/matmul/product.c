/* Tiles and splits of the portable matrix products; the kernels include cl/common/tile.cl. */
#include "ops/matmul/product.h"

#include <math.h>
#include <stdio.h>

#include "ops/fragment.h"
#include "ops/lowering.h"
#include "ops/ops.h"

/* Tiles from the largest to the smallest, with the depth of their slices, the accumulators of a work-item, a
 * relative measure of the peak that they reach, and the registers that a work-item needs. Tiles of matrix
 * units come first; they have as many work-items as the unit's waves. */
typedef struct product_tile {
    int side, slice, item_m, item_n;
    double efficiency;
    int registers;
    size_t matrix; /* bytes per element that a matrix unit multiplies; 0: work-items multiply */
} product_tile;
static const product_tile tiles[] = {
    {128, 32, 0, 0, 6, 0, 2},   {64, 32, 0, 0, 3.5, 0, 2}, {128, 16, 0, 0, 3, 0, 4},
    {64, 16, 0, 0, 1.75, 0, 4}, {64, 8, 8, 8, 0.85, 192},  {64, 8, 8, 4, 0.7, 128},
    {32, 16, 4, 4, 0.45, 0},    {16, 16, 4, 4, 0.15, 0},   {8, 16, 8, 8, 0.03, 0}};
enum {
    TILES = KN_COUNT_OF(tiles),
    PART_STEP = 16,       /* a multiple of all slices */
    DIRECT_SUMS = 4,      /* rows and columns of a work-item that reads from global memory */
    MATRIX_PART_STEP = 32 /* for matrix units */
};

/* The tile of a wave by the side of the work-group's tile, and the registers of a work-item that the large
 * tile requests from the compiler. */
static const struct {
    struct {
        int m, n;
    } large, small;
    int registers;
} units[] = {
    [KN_MATRIX_UNIT_MMA] = {{64, 64}, {32, 32}, 0},     [KN_MATRIX_UNIT_WMMA] = {{64, 32}, {32, 32}, 0},
    [KN_MATRIX_UNIT_WMMA12] = {{64, 32}, {32, 32}, 0},  [KN_MATRIX_UNIT_MFMA] = {{64, 64}, {32, 32}, 0},
    [KN_MATRIX_UNIT_DPAS8] = {{32, 16}, {16, 16}, 192}, [KN_MATRIX_UNIT_DPAS16] = {{32, 32}, {16, 32}, 192},
    [KN_MATRIX_UNIT_MMA8] = {{64, 64}, {32, 32}, 0}};
enum { LARGE_SIDE = 128, SLICE_PADDING = 16 /* bytes */ };

/* The device that splits are chosen for: a large one, since a smaller one loses little with larger partial
 * sums. It is the same for all devices, so that results depend only on the shape: a tile changes the order in
 * which results are computed, but not the order of additions within one. */
enum { UNITS = 128, FEW_ITEMS = 32, MIN_PART = 128, MAX_PARTS = 128 };
static const double unit_multiply_adds_per_second = 240e9, load_seconds = 0.35e-6;
static const double bytes_per_second = 2e12, launch_seconds = 4e-6;

/* The convolutions' tables of k for two slices, and of columns. */
static uint64_t table_bytes(const product_tile *tile) {
    return 2 * (uint64_t)tile->slice * (2 * sizeof(int64_t) + 2 * sizeof(int32_t)) +
           (uint64_t)tile->side * (sizeof(int64_t) + 2 * sizeof(int32_t));
}

/* Two slices of both sides. */
static uint64_t local_bytes(const product_tile *tile, size_t element) {
    return 2 * 2 * (uint64_t)tile->slice * (uint64_t)(tile->side + 4) * element + table_bytes(tile);
}

/* Two slices of both sides in the unit's type, which also hold rows of results before they are stored, and
 * the elements that lanes exchange in tests without the unit. */
static uint64_t matrix_local_bytes(const kn_target *target, const product_tile *tile, kn_matrix_unit unit,
                                   size_t items) {
    const uint64_t row = (uint64_t)tile->slice * tile->matrix + SLICE_PADDING;
    return 2 * 2 * (uint64_t)tile->side * row + table_bytes(tile) + kn_fragment_exchange(target, unit, items);
}

static int64_t count_tiles(const kn_product *product, const product_tile *tile) {
    return kn_divide_up(product->rows, tile->side) * kn_divide_up(product->columns, tile->side) *
           product->batches;
}

/* The predicted time with a tile and a split: slices of work-groups of a unit or, if there are few, loads
 * that nothing hides, plus the sum of the parts. Below the time of a launch all are equal. */
static double predict(const kn_product *product, const product_tile *tile, int64_t parts,
                      double result_bytes) {
    double slice =
        (double)tile->side * tile->side * tile->slice / (unit_multiply_adds_per_second * tile->efficiency);
    double groups = (double)kn_divide_up(count_tiles(product, tile) * parts, UNITS);
    double busy = groups * slice, alone = slice + load_seconds;
    double seconds =
        (busy > alone ? busy : alone) * (double)kn_divide_up(product->depth, parts * tile->slice);
    if (seconds < launch_seconds) seconds = launch_seconds;
    if (parts > 1) seconds += launch_seconds + 2 * (double)parts * result_bytes / bytes_per_second;
    return seconds;
}

static int wave_m(const product_tile *tile, kn_matrix_unit unit) {
    return tile->side == LARGE_SIDE ? units[unit].large.m : units[unit].small.m;
}
static int wave_n(const product_tile *tile, kn_matrix_unit unit) {
    return tile->side == LARGE_SIDE ? units[unit].large.n : units[unit].small.n;
}

static size_t items_of(const product_tile *tile, kn_matrix_unit unit) {
    if (tile->matrix)
        return (size_t)(tile->side / wave_m(tile, unit)) * (size_t)(tile->side / wave_n(tile, unit)) *
               (size_t)kn_fragment_of(unit)->lanes;
    return (size_t)(tile->side / tile->item_m) * (size_t)(tile->side / tile->item_n);
}

static int registers_of(const product_tile *tile, kn_matrix_unit unit) {
    return tile->matrix && tile->side == LARGE_SIDE ? units[unit].registers : tile->registers;
}

static bool is_possible(const kn_target *target, const kn_product *product, const product_tile *tile,
                        size_t element) {
    if (tile->matrix != product->number) return false;
    const size_t items = items_of(tile, product->unit);
    const int registers = registers_of(tile, product->unit);
    /* Elements that each work-item reads separately: many accumulators would not share them. */
    if (product->way == KN_PRODUCT_DIRECT)
        return tile->item_m == DIRECT_SUMS && items <= kn_group_limit(target, product->file) &&
               !kn_tile_is_refused(target, product->file, (int)(tile - tiles));
    const uint64_t local =
        tile->matrix ? matrix_local_bytes(target, tile, product->unit, items) : local_bytes(tile, element);
    return items <= kn_group_limit(target, product->file) &&
           (!target->local_bytes || local <= target->local_bytes) &&
           (!registers ||
            registers <= (target->item_registers ? target->item_registers(target->device) : 128)) &&
           !kn_tile_is_refused(target, product->file, (int)(tile - tiles));
}

/* Whether both inputs are 8-bit integers. */
static bool has_bytes(const kn_node *node) {
    for (int i = 0; i < 2; i++) {
        const kn_dtype type = node->inputs[i]->shape.dtype;
        if (type != KN_INT8 && type != KN_UINT8) return false;
    }
    return true;
}

/* Whether a matrix unit may multiply: 8-bit integers; 16 bits, in the type of the first input; or float32
 * rounded to TF32. The second input has the same type, or is float32 and rounded when it is read. With split,
 * both are float32. */
static bool may_multiply(const kn_node *node, kn_product_way way) {
    const kn_dtype type = node->inputs[0]->shape.dtype,
                   others[] = {node->inputs[1]->shape.dtype, node->outputs[0]->shape.dtype};
    if (has_bytes(node)) return way == KN_PRODUCT_MATRIX;
    for (int i = 0; i < 2; i++)
        if (others[i] != type && others[i] != KN_FLOAT32) return false;
    if (way == KN_PRODUCT_SPLIT) return type == KN_FLOAT32 && !node->tf32;
    return way == KN_PRODUCT_MATRIX && (kn_is_half(type) || (type == KN_FLOAT32 && node->tf32));
}

/* The bytes of an element for the unit: a pair of 8-bit integers, or the two bfloat16 of a split float32. */
static size_t matrix_number(const kn_node *node) {
    return has_bytes(node) ? 2 : kn_dtype_bytes(node->inputs[0]->shape.dtype);
}

kn_matrix_unit kn_product_unit(const kn_target *target, const kn_node *node, const char *file,
                               kn_product_way way) {
    if (target->wide_vector || !target->matrix_unit || !may_multiply(node, way)) return KN_MATRIX_UNIT_NONE;
    const kn_dtype type = way == KN_PRODUCT_SPLIT ? KN_BFLOAT16
                          : has_bytes(node)       ? KN_INT8
                                                  : node->inputs[0]->shape.dtype;
    const kn_product product = {
        .file = file, .unit = target->matrix_unit(target->device, type), .number = matrix_number(node)};
    for (int i = 0; product.unit && i < TILES && tiles[i].matrix; i++)
        if (is_possible(target, &product, &tiles[i], 0)) return product.unit;
    return KN_MATRIX_UNIT_NONE;
}

bool kn_product_split_pays(const kn_target *target, const kn_node *node, int config, bool invariant) {
    (void)node;
    (void)config;
    (void)invariant;
    return !target->emulates_matrix_unit;
}

/* Whether the tile is considered when choosing a split. */
static bool is_split_candidate(const kn_product *product, const product_tile *tile) {
    return tile->matrix == product->number && (tile->matrix || items_of(tile, product->unit) >= FEW_ITEMS);
}

/* Sets the number of parts that the fastest tile would have. */
static void choose_parts(kn_product *product, double result_bytes) {
    double least = INFINITY;
    for (int i = 0; i < TILES; i++)
        for (int64_t parts = 1; is_split_candidate(product, &tiles[i]) && parts <= MAX_PARTS &&
                                (parts == 1 || product->depth >= parts * MIN_PART);
             parts *= 2) {
            double seconds = predict(product, &tiles[i], parts, result_bytes);
            if (!(seconds < least)) continue;
            least = seconds;
            product->parts = parts;
        }
    product->part_depth = product->depth;
    if (product->parts == 1) return;
    product->part_depth = kn_round_up(kn_divide_up(product->depth, product->parts),
                                      product->unit ? MATRIX_PART_STEP : PART_STEP);
    product->parts = kn_divide_up(product->depth, product->part_depth);
}

/* The fastest of the possible tiles; the last one is always possible. */
static const product_tile *choose_tile(const kn_lowering *lowering, const kn_product *product,
                                       size_t element) {
    const product_tile *chosen = NULL, *asked = lowering->tile ? &tiles[lowering->tile - 1] : NULL;
    double least = INFINITY;
    if (asked && is_possible(lowering->target, product, asked, element)) return asked;
    for (int i = 0; i < TILES; i++) {
        /* for devices that allow no more */
        if (chosen && (product->unit ? !tiles[i].matrix : items_of(&tiles[i], product->unit) < FEW_ITEMS))
            break;
        if (i + 1 < TILES && !is_possible(lowering->target, product, &tiles[i], element)) continue;
        double seconds = predict(product, &tiles[i], product->parts, 0);
        if (chosen && !(seconds < least)) continue;
        chosen = &tiles[i];
        least = seconds;
    }
    return chosen;
}

/* The tile and the larger ones of its kind, unless it is the smallest. */
static uint32_t too_large(const product_tile *chosen) {
    uint32_t mask = 0;
    for (const product_tile *tile = tiles; tile <= chosen; tile++)
        if (tile->matrix == chosen->matrix) mask |= 1u << (tile - tiles);
    return chosen == &tiles[TILES - 1] ? 0 : mask;
}

void kn_product_plan(kn_lowering *lowering, kn_product *product, int64_t result_elements) {
    product->number = product->unit ? matrix_number(lowering->node) : 0;
    kn_dtype type = kn_accumulator(lowering->node, lowering->node->outputs[0]->shape.dtype);
    const double bytes = (double)result_elements * (double)kn_dtype_bytes(type);
    choose_parts(product, bytes);
    const product_tile *chosen = choose_tile(lowering, product, kn_dtype_bytes(type));
    product->emulated = lowering->target->emulates_matrix_unit;
    product->tile_m = product->tile_n = chosen->side;
    product->item_m = chosen->item_m;
    product->item_n = chosen->item_n;
    product->slice = chosen->slice;
    product->registers = registers_of(chosen, product->unit);
    product->items = items_of(chosen, product->unit);
    product->tiles_too_large = too_large(chosen);
    if (chosen->matrix) {
        product->wave_m = wave_m(chosen, product->unit);
        product->wave_n = wave_n(chosen, product->unit);
    }
    if (product->parts > 1)
        product->partials = kn_emit_scratch(lowering, (uint64_t)bytes * (uint64_t)product->parts);
}

bool kn_product_tile_name(int tile, char name[KN_TILE_NAME]) {
    if (tile < 1 || tile > TILES) return false;
    const product_tile *row = &tiles[tile - 1];
    int used = snprintf(name, KN_TILE_NAME, "%dx%dx%d", row->side, row->side, row->slice);
    if (!row->matrix) snprintf(name + used, KN_TILE_NAME - (size_t)used, "/%dx%d", row->item_m, row->item_n);
    return true;
}

int kn_product_vector(const kn_product *product, int64_t row) {
    /* At least two vectors of 8 elements per work-item. */
    const bool wide =
        product->number == 2 && (size_t)(product->tile_m * product->slice) >= 2 * 8 * product->items;
    return wide && row % 8 == 0 ? 8 : row % 4 == 0 ? 4 : 1;
}

/* KN_FORMAT of cl/common/fragment.cl. */
static int numbers_of(const kn_node *node, kn_product_way way) {
    const kn_dtype type = node->inputs[0]->shape.dtype;
    if (has_bytes(node)) return 5;
    return way == KN_PRODUCT_SPLIT ? 4 : kn_is_half(type) ? kn_half_kind(type) : 3;
}

void kn_product_define(kn_step *step, const kn_product *product) {
    if (!step) return;
    kn_step_types(step, step->node, step->node->outputs[0]->shape.dtype);
    kn_product_define_tile(step, product);
}

void kn_product_define_tile(kn_step *step, const kn_product *product) {
    if (!step) return;
    KN_STEP_DEFINE(step, {"KN_TILE_M", product->tile_m}, {"KN_TILE_N", product->tile_n},
                   {"KN_TILE_K", product->slice});
    if (product->way == KN_PRODUCT_DIRECT) KN_STEP_DEFINE(step, {"KN_DIRECT", 1});
    if (product->registers > 128) KN_STEP_DEFINE(step, {"KN_REGISTERS", product->registers});
    if (product->unit) {
        kn_step_fragment(step, product->unit, numbers_of(step->node, product->way), product->emulated,
                         product->wave_m, product->wave_n);
    } else {
        KN_STEP_DEFINE(step, {"KN_ITEM_M", product->item_m}, {"KN_ITEM_N", product->item_n});
    }
}

void kn_product_bind(kn_step *step, const kn_product *product) {
    if (product->parts > 1)
        kn_step_scratch(step, "partials", product->partials);
    else
        kn_step_write(step, "partials", NULL);
    KN_STEP_SET(step, {"parts", product->parts}, {"part_depth", product->part_depth});
}

void kn_product_size(kn_step *step, const kn_product *product) {
    if (!step) return;
    size_t global[3] = {(size_t)kn_divide_up(product->columns, product->tile_n) * product->items,
                        (size_t)kn_divide_up(product->rows, product->tile_m),
                        (size_t)(product->batches * product->parts)};
    kn_step_size3(step, global, (const size_t[3]){product->items, 1, 1});
    step->tiles_too_large = product->tiles_too_large;
    kn_step_tile(step, &(kn_step_tiles){.rows = product->rows,
                                        .columns = product->columns,
                                        .depth = product->depth,
                                        .batches = product->batches,
                                        .tile_rows = product->tile_m,
                                        .tile_columns = product->tile_n,
                                        .tile_depth = product->slice,
                                        .products = 1,
                                        .parts = product->parts,
                                        .part_depth = product->part_depth,
                                        .matrix = product->number != 0,
                                        .split = product->way == KN_PRODUCT_SPLIT,
                                        .integers = has_bytes(step->node)});
}

void kn_product_cost_of_sum(kn_step *step, const kn_lowering *lowering, const kn_product *product,
                            int64_t elements) {
    const kn_dtype of_parts = kn_accumulator(lowering->node, lowering->node->outputs[0]->shape.dtype);
    const double bytes = (double)product->parts * (double)kn_dtype_bytes(of_parts) +
                         (double)kn_dtype_bytes(lowering->result->shape.dtype);
    kn_step_cost(step, (double)elements * (product->parts - 1), (double)elements * bytes);
}

kn_status kn_product_finish(kn_lowering *lowering, const kn_product *product,
                            void (*define)(kn_step *step, const kn_lowering *lowering,
                                           const kn_product *product),
                            int64_t elements, int64_t middle, int64_t inner) {
    if (product->parts <= 1) return KN_OK;
    const kn_part_sum sum = {.partials = product->partials,
                             .result = lowering->result,
                             .stride = elements,
                             .elements = elements,
                             .parts = product->parts};
    if (!lowering->epilogue && !kn_is_half(lowering->result->shape.dtype))
        return kn_emit_sums(lowering, &sum, 1);
    kn_step *step = kn_step_begin(lowering, product->file, "kn_sum_parts");
    define(step, lowering, product);
    kn_step_scratch(step, "partials", product->partials);
    kn_step_write(step, "result", lowering->result);
    KN_STEP_SET(step, {"elements", elements}, {"parts", product->parts}, {"middle_size", middle},
                {"inner_size", inner});
    kn_step_epilogue(step, lowering);
    kn_product_cost_of_sum(step, lowering, product, elements);
    kn_step_size_free(step, elements, lowering->target);
    return kn_step_end(step, lowering);
}
