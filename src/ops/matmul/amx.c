/* Matrix products on CPUs with tile registers: steps for cl/matmul/amx.cl. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/product.h"

/* As in cl/matmul/amx.cl. LEAST: with fewer rows, columns or depth most of the tiles would be empty. NEAR:
 * bytes of a panel and of rows, which stay in the second-level cache; WIDEST: columns beyond which packing
 * rows for each panel costs little; NARROW: columns below which it costs much. */
enum {
    WIDTH = 16,
    LEVELS = 2,
    SIDE = 32,
    CHUNK = 32,
    LEAST = 16,
    NARROW = 128,
    NEAR = 768 << 10,
    WIDEST = 512
};

/* Bytes for packed tiles, in addition to the accumulators. */
static int64_t tile_bytes(const kn_target *target) {
    const int64_t all = target->local_bytes < NEAR ? (int64_t)target->local_bytes : NEAR;
    const int64_t sums = SIDE * SIDE * sizeof(float);
    return all > sums ? (all - sums) / 64 * 64 : 0;
}

/* The maximum columns of a panel that fit with the rows; less than SIDE: none fit. */
static int64_t most_columns(const kn_target *target, const kn_matmul_form *form, bool split) {
    const int64_t column = kn_round_up(form->k, CHUNK) * (split ? 4 : 2);
    const int64_t columns = tile_bytes(target) / column / SIDE * SIDE - SIDE;
    return columns < WIDEST ? columns : WIDEST;
}

/* `split`: each float32 as two bfloat16. */
static bool accepts(const kn_target *target, const kn_node *node, bool split) {
    kn_matmul_form form;
    const kn_dtype a = node->inputs[0]->shape.dtype, b = node->inputs[1]->shape.dtype,
                   c = node->outputs[0]->shape.dtype;
    const bool types = split ? a == KN_FLOAT32 && b == a && c == a
                             : a == KN_BFLOAT16 && (b == a || b == KN_FLOAT32) && (c == a || c == KN_FLOAT32);
    if (!target->wide_vector || target->vector_width != WIDTH || !target->matrix_unit || !types ||
        kn_matmul_skinny_kind(node) != KN_SKINNY_NOT)
        return false;
    kn_matmul_describe(node, &form);
    return form.levels <= LEVELS && form.m >= LEAST && form.n >= LEAST && form.k >= LEAST &&
           most_columns(target, &form, split) >= SIDE &&
           target->matrix_unit(target->device, KN_BFLOAT16) == KN_MATRIX_UNIT_AMX;
}

bool kn_matmul_amx_accepts(const kn_target *target, const kn_node *node) {
    return accepts(target, node, false);
}

bool kn_matmul_amx_split_accepts(const kn_target *target, const kn_node *node) {
    return accepts(target, node, true);
}

/* Smaller products, and those so deep that panels are narrow, spend more time on splitting than the unit
 * saves. */
bool kn_matmul_amx_split_pays(const kn_target *target, const kn_node *node, int config, bool invariant) {
    enum { FEWEST = 64, PANEL = 96 };
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    return kn_product_split_pays(target, node, config, invariant) && form.m >= FEWEST && form.n >= FEWEST &&
           form.k >= FEWEST && most_columns(target, &form, true) >= PANEL;
}

/* Columns of a work-item, in panels of equal size: wide, but with work for all cores. */
static int64_t choose_columns(const kn_matmul_form *form, int64_t most, int64_t units) {
    const int64_t fewest = kn_divide_up(form->n, most), many = kn_divide_up(form->n, NARROW);
    int64_t panels = kn_divide_up(2 * units, form->batches);
    if (panels > many) panels = many;
    if (panels < fewest) panels = fewest;
    return kn_round_up(kn_divide_up(form->n, panels), SIDE);
}

kn_status kn_matmul_amx_lower(kn_lowering *lowering) {
    const kn_target *target = lowering->target;
    const bool split = lowering->config == KN_PRODUCT_SPLIT;
    kn_matmul_form form;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    kn_matmul_describe(lowering->node, &form);
    kn_matmul_merge_batches(&form, lowering->epilogue);
    const int64_t units = target->compute_units;
    const int64_t columns = choose_columns(&form, most_columns(target, &form, split), units);
    const int64_t items = kn_divide_up(form.n, columns) * form.batches;
    int64_t rows = kn_round_up(form.m, SIDE);
    if (items < 4 * units) rows = kn_round_up(kn_divide_up(form.m, kn_divide_up(4 * units, items)), SIDE);
    kn_step *step = kn_step_begin(lowering, "matmul/amx.cl", "kn_matmul_amx");
    KN_STEP_DEFINE(step, {"KN_WIDTH", WIDTH}, {"KN_LEFT_ALONG", !form.transpose_a},
                   {"KN_RIGHT_ALONG", form.transpose_b}, {"KN_ROOM", tile_bytes(target) / 2});
    if (split) {
        KN_STEP_DEFINE(step, {"KN_SPLIT", 1}, {"KN_HALF_a", 0});
    }
    if (target->emulates_matrix_unit) KN_STEP_DEFINE(step, {"KN_EMULATED", 1});
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"a_step", form.transpose_a ? form.m : form.k},
                {"b_step", form.transpose_b ? form.k : form.n}, {"item_rows", rows},
                {"item_columns", columns});
    kn_matmul_bind(step, &form, 2);
    kn_step_cost_of_node(step, lowering);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(form.m, rows), kn_divide_up(form.n, columns), form.batches);
    return kn_step_end(step, lowering);
}
