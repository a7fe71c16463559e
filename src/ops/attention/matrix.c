/* Attention on matrix units, for 16-bit inputs: steps for cl/attention/fragment.cl. */
#include "ops/attention/attention.h"
#include "ops/fragment.h"
#include "ops/lowering.h"

/* How a unit's waves share a tile: `waves_m` times `wave_m` rows, and about `wave_n` columns of the result
 * each. Tiles that do not change are held in registers if they fit. If a work-item of a pass needs more than
 * 128 registers, they are requested from the compiler. */
typedef struct unit_waves {
    int wave_m, waves_m, wave_n;
    bool held;
    int registers[3];
} unit_waves;
static const unit_waves units[] = {[KN_MATRIX_UNIT_MMA] = {16, 4, 64, true, {0}},
                                   [KN_MATRIX_UNIT_WMMA] = {16, 4, 32, true, {0}},
                                   [KN_MATRIX_UNIT_WMMA12] = {16, 4, 32, true, {0}},
                                   [KN_MATRIX_UNIT_MFMA] = {16, 4, 64, true, {0}},
                                   [KN_MATRIX_UNIT_DPAS8] = {8, 8, 16, false, {192, 192, 192}},
                                   [KN_MATRIX_UNIT_DPAS16] = {8, 8, 32, false, {[KN_ATTENTION_KEYS] = 192}},
                                   [KN_MATRIX_UNIT_MMA8] = {16, 4, 64, true, {0}}};
enum {
    DEPTH = 32,         /* rows of the other side at a time, or half of them */
    LARGEST_HEAD = 128, /* rounded up to a multiple of DEPTH */
    STAGE_PADDING = 16, /* at most, after a row of results */
    SCORE_PADDING = 8,  /* at most, after a row of scores */
    LOCAL_BYTES =
        32768 /* exceeded only if a tile has few rows otherwise: several work-groups should be resident */
};

static int columns_of(const kn_attention_form *form) {
    return (int)kn_round_up(form->head, DEPTH);
}

/* Waves that share the columns of the scores and of the result. */
static int waves_n(kn_matrix_unit unit, int columns) {
    const int least = kn_fragment_of(unit)->columns;
    int waves = 1;
    while (columns > waves * units[unit].wave_n && 2 * waves * least <= DEPTH &&
           columns % (2 * waves * least) == 0)
        waves *= 2;
    return waves;
}

/* The bytes of KN_MEMORY in the kernel, and of the arrays by row. */
static int64_t local_bytes(int64_t columns, const kn_attention_tile *tile, kn_attention_pass pass) {
    const unit_waves *unit = &units[tile->unit];
    const kn_fragment *fragment = kn_fragment_of(tile->unit);
    static const struct {
        int own, others, lefts;
    } tiles[] = {[KN_ATTENTION_FORWARD] = {1, 2, 1},
                 [KN_ATTENTION_QUERIES] = {2, 3, 1},
                 [KN_ATTENTION_KEYS] = {2, 4, 2}};
    const int64_t rows = tile->rows, row = 2 * (tile->depth + fragment->padding);
    const int64_t own = rows * columns / tile->depth * row + (fragment->padding ? 2 * columns : 0);
    const int64_t stage = 4 * (rows / unit->wave_m) * fragment->rows * (columns + STAGE_PADDING);
    int64_t loop = (tiles[pass].others * columns + tiles[pass].lefts * rows) * row;
    if (pass == KN_ATTENTION_FORWARD) loop += 4 * rows * (tile->depth + SCORE_PADDING);
    if (loop < stage) loop = stage;
    if (unit->held && loop < own) loop = own;
    return loop + (unit->held ? 0 : tiles[pass].own * own) + 4 * (2 * rows + (int64_t)tile->items);
}

/* Chooses the most rows, at least `least` waves, and then the deepest tile, that fit in `bytes`. */
static bool choose_within(const kn_target *target, const kn_attention_form *form, kn_attention_pass pass,
                          int least, uint64_t most_bytes, kn_attention_tile *tile) {
    const unit_waves *unit = &units[tile->unit];
    const kn_fragment *fragment = kn_fragment_of(tile->unit);
    const int columns = columns_of(form), across = waves_n(tile->unit, columns);
    int number = 0;
    for (int waves = unit->waves_m; waves >= least; waves /= 2)
        for (tile->depth = DEPTH; tile->depth >= KN_FRAGMENT_DEPTH; tile->depth /= 2, number++) {
            tile->tiles_too_large = (2u << number) - 1;
            tile->rows = waves * unit->wave_m;
            tile->items = (size_t)(waves * across * fragment->lanes);
            const uint64_t bytes = (uint64_t)local_bytes(columns, tile, pass);
            const uint64_t more = kn_fragment_exchange(target, tile->unit, tile->items);
            if (tile->depth % (across * fragment->columns) == 0 && bytes <= most_bytes &&
                (!target->local_bytes || bytes + more <= target->local_bytes) &&
                tile->items <= kn_group_limit(target, tile->file) &&
                !kn_tile_is_refused(target, tile->file, number))
                return true;
        }
    return false;
}

static bool choose(const kn_target *target, const kn_node *node, const kn_attention_form *form,
                   kn_attention_pass pass, kn_attention_tile *tile) {
    *tile = (kn_attention_tile){
        .file = "attention/fragment.cl",
        .unit = kn_fragment_unit(target, node->inputs[kn_attention_first(node)]->shape.dtype)};
    if (!tile->unit || form->head > LARGEST_HEAD) return false;
    tile->registers = units[tile->unit].registers[pass];
    return choose_within(target, form, pass, units[tile->unit].waves_m / 2, LOCAL_BYTES, tile) ||
           choose_within(target, form, pass, 1, target->local_bytes, tile);
}

static void define(kn_step *step, const kn_lowering *lowering, const kn_attention_form *form,
                   const kn_attention_tile *tile) {
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    const unit_waves *unit = &units[tile->unit];
    const int columns = columns_of(form);
    kn_step_fragment(step, tile->unit, kn_half_kind(node->inputs[kn_attention_first(node)]->shape.dtype),
                     target->emulates_matrix_unit, unit->wave_m, columns / waves_n(tile->unit, columns));
    KN_STEP_DEFINE(step, {"KN_TILE_M", tile->rows}, {"KN_TILE_N", columns}, {"KN_TILE_K", tile->depth},
                   {"KN_HELD", unit->held});
    if (tile->registers && target->item_registers &&
        tile->registers <= target->item_registers(target->device))
        KN_STEP_DEFINE(step, {"KN_REGISTERS", tile->registers});
    KN_STEP_DEFINE(step, {"KN_VECTOR", form->head % 8 == 0 ? 8 : form->head % 4 == 0 ? 4 : 1});
}

static const kn_attention_tiling tiling = {choose, define};

/* q, k, v and the gradient of the result have the same 16-bit type. */
static bool may_multiply(const kn_node *node) {
    const int first = kn_attention_first(node);
    const kn_dtype type = node->inputs[first]->shape.dtype;
    kn_attention_form form;
    kn_attention_describe(node, first, &form);
    for (int i = first + 1; i < first + 3 && !form.packed; i++)
        if (node->inputs[i]->shape.dtype != type) return false;
    return kn_is_half(type) && (!first || node->inputs[KN_ATTENTION_DY]->shape.dtype == type);
}

bool kn_attention_matrix_accepts(const kn_target *target, const kn_node *node) {
    return may_multiply(node) && kn_attention_tiles_fit(target, node, &tiling);
}

kn_status kn_attention_matrix_lower(kn_lowering *lowering) {
    return kn_attention_lower_tiles(lowering, &tiling);
}
