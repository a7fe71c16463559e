/* Tiles and splits of the portable matrix products; the kernels include cl/common/tile.cl. */
#include "ops/matmul/product.h"

#include "ops/lowering.h"

enum { SLICE = 16, ENOUGH_TILES = 64, MIN_PART = 256, MAX_PARTS = 32 };

/* Tiles from the largest to the smallest: the device's work-groups limit them, the shape selects one. */
static const struct { int tile, item_m, item_n; } tiles[] = {{64, 8, 4}, {32, 4, 4}, {16, 4, 4}, {8, 8, 8}};

/* Both slices, and the convolutions' tables. */
static uint64_t local_bytes(int tile, size_t element) {
    return SLICE * (2 * (uint64_t)(tile + 4) * element + 2 * sizeof(int64_t) + 2 * sizeof(int32_t));
}

void kn_product_plan(kn_lowering *lowering, kn_product *product, int64_t result_elements) {
    const kn_target *target = lowering->target;
    kn_dtype type = kn_accumulator(lowering->node, lowering->node->outputs[0]->shape.dtype);
    size_t choice = product->rows <= 32 || product->columns <= 32 ? 1 : 0;
    for (; choice + 1 < KN_COUNT_OF(tiles); choice++) {
        int tile = tiles[choice].tile;
        size_t items = (size_t)(tile / tiles[choice].item_m * tile / tiles[choice].item_n);
        if (items <= target->work_group_items &&
            (!target->local_bytes || local_bytes(tile, kn_dtype_bytes(type)) <= target->local_bytes))
            break;
    }
    product->tile_m = product->tile_n = tiles[choice].tile;
    product->item_m = tiles[choice].item_m;
    product->item_n = tiles[choice].item_n;
    product->items = (size_t)(product->tile_m / product->item_m * (product->tile_n / product->item_n));
    /* With few tiles and a long sum, the sum is split, so that there is work for all units. */
    product->parts = 1;
    product->part_depth = product->depth;
    int64_t count =
        kn_divide_up(product->rows, product->tile_m) * kn_divide_up(product->columns, product->tile_n);
    count *= product->batches;
    if (count > 0 && count < ENOUGH_TILES && product->depth >= 2 * MIN_PART) {
        int64_t parts = kn_divide_up(ENOUGH_TILES, count), most = product->depth / MIN_PART;
        if (parts > most) parts = most;
        if (parts > MAX_PARTS) parts = MAX_PARTS;
        product->part_depth = kn_round_up(kn_divide_up(product->depth, parts), SLICE);
        product->parts = kn_divide_up(product->depth, product->part_depth);
    }
    if (product->parts > 1) {
        uint64_t bytes = (uint64_t)result_elements * kn_dtype_bytes(type) * (uint64_t)product->parts;
        product->partials = kn_emit_scratch(lowering, bytes);
    }
}

void kn_product_define(kn_step *step, const kn_product *product) {
    const kn_node *node = step->node;
    kn_dtype type = node->outputs[0]->shape.dtype;
    kn_step_define_type(step, "KN_T", type);
    kn_step_define_type(step, "KN_A", kn_accumulator(node, type));
    kn_step_define(step, "KN_TILE_M", "%d", product->tile_m);
    kn_step_define(step, "KN_TILE_N", "%d", product->tile_n);
    kn_step_define(step, "KN_ITEM_M", "%d", product->item_m);
    kn_step_define(step, "KN_ITEM_N", "%d", product->item_n);
}

void kn_product_partials(kn_step *step, const kn_product *product) {
    if (product->parts > 1)
        kn_step_scratch(step, "partials", product->partials);
    else
        kn_step_write(step, "partials", NULL);
}

void kn_product_size(kn_step *step, const kn_product *product) {
    size_t global[3] = {(size_t)kn_divide_up(product->columns, product->tile_n) * product->items,
                        (size_t)kn_divide_up(product->rows, product->tile_m),
                        (size_t)(product->batches * product->parts)};
    kn_step_size3(step, global, (const size_t[3]){product->items, 1, 1});
    kn_step_tile(step, &(kn_step_tiles){.rows = product->rows,
                                        .columns = product->columns,
                                        .depth = product->depth,
                                        .batches = product->batches,
                                        .tile_rows = product->tile_m,
                                        .tile_columns = product->tile_n,
                                        .tile_depth = SLICE,
                                        .products = 1,
                                        .parts = product->parts,
                                        .part_depth = product->part_depth});
}

kn_status kn_product_finish(kn_lowering *lowering, const kn_product *product, const char *file,
                            void (*define)(kn_step *step, const kn_lowering *lowering,
                                           const kn_product *product),
                            int64_t elements, int64_t middle, int64_t inner) {
    if (product->parts <= 1) return KN_OK;
    kn_step *step = kn_step_begin(lowering, file, "kn_sum_parts");
    define(step, lowering, product);
    kn_step_scratch(step, "partials", product->partials);
    kn_step_write(step, "result", lowering->result);
    kn_step_index(step, "elements", elements);
    kn_step_int(step, "parts", product->parts);
    kn_step_index(step, "middle_size", middle);
    kn_step_index(step, "inner_size", inner);
    kn_step_epilogue(step, lowering);
    kn_step_size_free(step, elements, lowering->target);
    return kn_step_end(step, lowering);
}
