/* Recurrences on matrix units, for 16-bit inputs: the tiles of cl/recurrent/fragment.cl. */
#include "ops/fragment.h"
#include "ops/recurrent/recurrent.h"

/* Samples, columns, and the depth of a slice. */
static const struct {
    int rows, columns, depth;
} tiles[] = {{64, 64, 32}, {32, 64, 64}, {32, 32, 64}, {16, 32, 64}};
/* The tile of a wave, by unit and tile of the work-group. */
static const struct {
    int rows, columns;
} waves[][KN_COUNT_OF(tiles)] = {[KN_MATRIX_UNIT_MMA] = {{32, 32}, {16, 32}, {16, 16}, {16, 16}},
                                 [KN_MATRIX_UNIT_WMMA] = {{32, 32}, {16, 32}, {16, 16}, {16, 16}},
                                 [KN_MATRIX_UNIT_WMMA12] = {{32, 32}, {16, 32}, {16, 16}, {16, 16}},
                                 [KN_MATRIX_UNIT_MFMA] = {{32, 32}, {16, 32}, {16, 16}, {16, 16}},
                                 [KN_MATRIX_UNIT_DPAS8] = {{16, 16}, {16, 16}, {8, 16}, {8, 8}},
                                 [KN_MATRIX_UNIT_DPAS16] = {{16, 16}, {16, 16}, {8, 16}, {8, 16}},
                                 [KN_MATRIX_UNIT_MMA8] = {{32, 32}, {16, 32}, {16, 16}, {16, 16}}};

/* The type of the first input stored in 16 bits; KN_FLOAT32: none. */
static kn_dtype narrow_type(const kn_node *node) {
    const int first = node->op->backward ? KN_RECURRENT_BACK_KEPT : KN_RECURRENT_X;
    const int last = node->op->backward ? KN_RECURRENT_BACK_DY : KN_RECURRENT_X;
    for (int i = first; i <= last && i < node->input_count; i++)
        if (node->inputs[i] && kn_is_half(node->inputs[i]->shape.dtype)) return node->inputs[i]->shape.dtype;
    return KN_FLOAT32;
}

static bool fits(const kn_target *target, const kn_recurrent_tile *tile) {
    const kn_fragment *fragment = kn_fragment_of(tile->unit);
    const int64_t slices = 2 * 2 * (tile->rows + tile->columns) * (tile->depth + fragment->padding);
    const int64_t stage = 4 * tile->rows / tile->wave_m * fragment->rows * (tile->columns + 4);
    const uint64_t bytes =
        (uint64_t)(slices > stage ? slices : stage) + kn_fragment_exchange(target, tile->unit, tile->items);
    return (!target->local_bytes || bytes <= target->local_bytes) &&
           tile->items <= kn_group_limit(target, tile->file);
}

/* What a compute unit reads of both sides per step along the depth, if all have the same number of
 * work-groups. */
static int64_t reads(const kn_target *target, const kn_recurrent_form *form, const kn_recurrent_tile *tile,
                     int64_t columns) {
    const int64_t groups = kn_divide_up(form->batch, tile->rows) * kn_divide_up(columns, tile->columns);
    return kn_divide_up(groups, target->compute_units) * (tile->rows + tile->columns);
}

/* Chooses the tile for which compute units read least, since a step waits for memory. The order of additions
 * is the same for all. */
bool kn_recurrent_matrix_tile(const kn_target *target, const kn_node *node, kn_recurrent_tile *tile) {
    const kn_recurrent_form form = kn_recurrent_describe(node);
    const int64_t columns = kn_recurrent_columns(&form, node->op->backward);
    const kn_dtype type = narrow_type(node);
    const kn_matrix_unit unit = kn_is_half(type) ? kn_fragment_unit(target, type) : KN_MATRIX_UNIT_NONE;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < KN_COUNT_OF(tiles) && unit; i++) {
        kn_recurrent_tile one = {.file = "recurrent/fragment.cl",
                                 .unit = unit,
                                 .numbers = kn_half_kind(type),
                                 .rows = tiles[i].rows,
                                 .columns = tiles[i].columns,
                                 .depth = tiles[i].depth,
                                 .wave_m = waves[unit][i].rows,
                                 .wave_n = waves[unit][i].columns,
                                 .tiles_too_large = (2u << i) - 1};
        one.items = (size_t)(one.rows / one.wave_m * (one.columns / one.wave_n)) *
                    (size_t)kn_fragment_of(unit)->lanes;
        const int64_t numbers = reads(target, &form, &one, columns);
        if (numbers >= least || !fits(target, &one) || kn_tile_is_refused(target, one.file, (int)i)) continue;
        least = numbers;
        *tile = one;
    }
    return least < INT64_MAX;
}

bool kn_recurrent_matrix_accepts(const kn_target *target, const kn_node *node) {
    const int weight = node->op->backward ? KN_RECURRENT_BACK_WEIGHT : KN_RECURRENT_WEIGHT;
    kn_recurrent_tile tile;
    return node->outputs[0]->shape.dtype == KN_FLOAT32 && node->inputs[weight]->shape.dtype == KN_FLOAT32 &&
           kn_recurrent_matrix_tile(target, node, &tile);
}
