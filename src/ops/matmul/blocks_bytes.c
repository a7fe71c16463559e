/* Matrix products with weights in quantized blocks and activations that are rounded to 8 bits, for CPUs that
 * multiply bytes four at a time (AVX512-VNNI). */
#include "ops/lowering.h"
#include "ops/matmul/blocks.h"
#include "ops/matmul/matmul.h"

/* As in the kernels: the width of vectors, columns of a panel, rows of a tile; groups that a work-item
 * rounds. */
enum { WIDTH = 16, COLUMNS = 32, ROWS = 6, CHUNK = 32 };

/* As in cl/matmul/block_units.cl: weights of a unit, vectors of scales, whether there are offsets, and
 * weights that share a scale. */
typedef struct unit_sizes {
    int number; /* of the type */
    int weights, parts, offsets, shared;
} unit_sizes;

static const unit_sizes *sizes_of(const kn_block_type *type) {
    static const unit_sizes types[] = {{2, 128, 1, 0, 32},   /* Q4_0 */
                                       {3, 128, 1, 1, 32},   /* Q4_1 */
                                       {6, 128, 1, 0, 32},   /* Q5_0 */
                                       {8, 128, 2, 0, 32},   /* Q8_0 */
                                       {12, 256, 4, 1, 32},  /* Q4_K */
                                       {14, 256, 4, 0, 16}}; /* Q6_K */
    for (size_t i = 0; i < KN_COUNT_OF(types); i++)
        if (types[i].number == type->number) return &types[i];
    return NULL;
}

static bool accepts(const kn_target *target, const kn_matmul_blocks_form *form) {
    return form->rounds && target->byte_products && target->vector_width == WIDTH && sizes_of(form->w.type);
}

/* The units of a row, rounded up to avoid a program for each size. */
static int64_t units_of(const kn_matmul_blocks_form *form) {
    return (int64_t)kn_power_of_two(kn_divide_up(form->w.columns, sizes_of(form->w.type)->weights), 1 << 20);
}

static kn_step *begin(kn_lowering *lowering, const kn_matmul_blocks_form *form, const char *file,
                      const char *kernel) {
    kn_step *step = kn_matmul_blocks_begin(lowering, form, file, kernel);
    KN_STEP_DEFINE(step, {"KN_UNITS", units_of(form)});
    if (lowering->target->emulates_matrix_unit) KN_STEP_DEFINE(step, {"KN_EMULATED", 1});
    return step;
}

/* ---- few rows ----------------------------------------------------------------------------------------- */

/* Rows that fit in half of the local memory, at most those computed together; 0: none. */
static int rows_together(const kn_target *target, const kn_matmul_blocks_form *form) {
    const unit_sizes *sizes = sizes_of(form->w.type);
    const int64_t unit = sizes->weights + 64 * sizes->parts + 32 * sizes->offsets;
    int rows = form->rows;
    while (rows && (uint64_t)(rows * units_of(form) * unit) > target->local_bytes / 2)
        rows /= 2;
    return rows;
}

bool kn_matmul_quads_accepts(const kn_target *target, const kn_node *node) {
    kn_matmul_blocks_form form;
    kn_matmul_blocks_describe(node, &form);
    return form.m <= KN_MATMUL_FEW && accepts(target, &form) && rows_together(target, &form) > 0;
}

kn_status kn_matmul_quads_lower(kn_lowering *lowering) {
    kn_matmul_blocks_form form;
    kn_matmul_blocks_describe(lowering->node, &form);
    const int rows = rows_together(lowering->target, &form), columns = rows == 1 ? 4 : 2;
    const int64_t units = lowering->target->compute_units;
    const int64_t each = kn_round_up(kn_divide_up(form.w.rows, 4 * units), columns);
    kn_step *step = begin(lowering, &form, "matmul/blocks_quads.cl", "kn_matmul_blocks_quads");
    if (step) step->joint = "kn_matmul_blocks_quads_joint";
    KN_STEP_DEFINE(step, {"KN_ROWS", rows}, {"KN_COLUMNS", columns});
    KN_STEP_SET(step, {"item_columns", each});
    kn_step_epilogue(step, lowering);
    kn_step_size1(step, form.m > 0 && form.w.rows > 0 ? (size_t)kn_divide_up(form.w.rows, each) : 0, 1);
    return kn_step_end(step, lowering);
}

/* ---- many rows ---------------------------------------------------------------------------------------- */

bool kn_matmul_panels_accepts(const kn_target *target, const kn_node *node) {
    kn_matmul_blocks_form form;
    kn_matmul_blocks_describe(node, &form);
    if (form.m <= KN_MATMUL_FEW || !accepts(target, &form)) return false;
    const unit_sizes *sizes = sizes_of(form.w.type);
    const int64_t column =
        units_of(&form) * (sizes->weights + sizes->weights / sizes->shared * 4 * (1 + sizes->offsets));
    return (uint64_t)(COLUMNS * column) <= target->local_bytes / 2;
}

static kn_status round_rows(kn_lowering *lowering, const kn_matmul_blocks_form *form, int lefts, int facts) {
    const int64_t count = form->m * form->w.columns / 32;
    kn_step *step = kn_step_begin(lowering, "matmul/blocks_panels.cl", "kn_round_rows");
    KN_STEP_DEFINE(step, {"KN_BLOCKS", form->w.type->number});
    kn_step_read(step, "a", lowering->node->inputs[0]);
    kn_step_scratch(step, "lefts", lefts);
    kn_step_scratch(step, "facts", facts);
    KN_STEP_SET(step, {"count", count}, {"chunk", CHUNK});
    kn_step_size_free(step, kn_divide_up(count, CHUNK), lowering->target);
    return kn_step_end(step, lowering);
}

kn_status kn_matmul_panels_lower(kn_lowering *lowering) {
    kn_matmul_blocks_form form;
    kn_matmul_blocks_describe(lowering->node, &form);
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    const uint64_t codes = (uint64_t)(form.m * form.w.columns);
    const int lefts = kn_emit_scratch(lowering, codes);
    const int facts = kn_emit_scratch(lowering, codes / (uint64_t)sizes_of(form.w.type)->shared * 16);
    kn_status status = round_rows(lowering, &form, lefts, facts);
    if (status != KN_OK) return status;
    /* Enough work-items for all cores; each extracts the codes of its panels. */
    const int64_t panels = kn_divide_up(form.w.rows, COLUMNS), wanted = 4 * lowering->target->compute_units;
    const int64_t item_panels = panels < wanted ? 1 : kn_divide_up(panels, wanted);
    const int64_t items = kn_divide_up(panels, item_panels);
    int64_t rows = kn_round_up(kn_divide_up(form.m, kn_divide_up(wanted, items)), ROWS);
    if (rows < 8 * ROWS) rows = 8 * ROWS;
    kn_step *step = begin(lowering, &form, "matmul/blocks_panels.cl", "kn_matmul_blocks_panels");
    kn_step_read_scratch(step, "lefts", lefts);
    kn_step_read_scratch(step, "facts", facts);
    KN_STEP_SET(step, {"item_rows", rows}, {"item_panels", item_panels});
    kn_step_cost_of_node(step, lowering);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(form.m, rows), items, 1);
    return kn_step_end(step, lowering);
}
