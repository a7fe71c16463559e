/* Products of 8-bit integers on wide-vector devices: steps for cl/matmul/integer_wide.cl. */
#include "ops/lowering.h"
#include "ops/matmul/integer.h"
#include "ops/matmul/matmul.h"

enum { WIDE_LEVELS = 2, ROWS = 6, QUADS_WIDTH = 16 };

bool kn_matmul_integer_wide_accepts(const kn_target *target, const kn_node *node) {
    kn_matmul_form form;
    if (!kn_has_vectors(target)) return false;
    kn_matmul_describe(node, &form);
    return form.levels <= WIDE_LEVELS;
}

bool kn_matmul_integer_quads_accepts(const kn_target *target, const kn_node *node) {
    return target->byte_products && target->vector_width == QUADS_WIDTH &&
           kn_matmul_integer_wide_accepts(target, node);
}

bool kn_matmul_integer_packed_accepts(const kn_target *target, const kn_node *node) {
    kn_matmul_form form;
    if (!kn_matmul_integer_quads_accepts(target, node)) return false;
    kn_matmul_describe(node, &form);
    return kn_elements_of(node->inputs[1]) == form.k * form.n;
}

/* Sizes as named in the kernel, as large as local memory allows. */
typedef struct wide_sizes {
    int64_t vectors, panels, item_panels, left_rows, depth, slice_depth, rows;
} wide_sizes;

static wide_sizes plan(const kn_target *target, const kn_matmul_form *form, bool quads) {
    wide_sizes sizes = {
        .vectors = kn_wide_vectors(target->vector_width, form->n), .left_rows = 48, .depth = 512};
    int64_t columns = sizes.vectors * target->vector_width;
    sizes.panels = kn_divide_up(form->n, columns);
    sizes.item_panels = sizes.panels < 4 ? sizes.panels : 4;
    while ((uint64_t)(2 * sizes.depth * (sizes.left_rows + sizes.item_panels * columns)) >
           target->local_bytes) {
        if (sizes.item_panels > 1)
            sizes.item_panels /= 2;
        else if (sizes.depth > 128)
            sizes.depth /= 2;
        else if (sizes.left_rows > ROWS)
            sizes.left_rows /= 2;
        else if (sizes.depth > 16)
            sizes.depth /= 2;
        else
            break;
    }
    sizes.item_panels = kn_divide_up(sizes.panels, kn_divide_up(sizes.panels, sizes.item_panels));
    int64_t chunks = form->k > 0 ? kn_divide_up(form->k, sizes.depth) : 1;
    sizes.slice_depth = kn_round_up(kn_divide_up(form->k > 0 ? form->k : 1, chunks), quads ? 4 : 2);
    int64_t items = kn_divide_up(sizes.panels, sizes.item_panels) * form->batches,
            units = target->compute_units;
    sizes.rows = form->m;
    if (items < 4 * units) {
        sizes.rows = kn_round_up(kn_divide_up(form->m, kn_divide_up(4 * units, items)), sizes.left_rows);
        if (sizes.rows < 2 * sizes.left_rows) sizes.rows = 2 * sizes.left_rows;
    }
    return sizes;
}

static kn_step *begin(kn_lowering *lowering, const wide_sizes *sizes, const char *kernel) {
    const kn_node *node = lowering->node;
    kn_step *step = kn_step_begin(lowering, "matmul/integer_wide.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_WIDTH", lowering->target->vector_width}, {"KN_VECTORS", sizes->vectors});
    kn_step_define_type(step, "KN_LEFT_T", node->inputs[0]->shape.dtype);
    kn_step_define_type(step, "KN_RIGHT_T", node->inputs[1]->shape.dtype);
    KN_STEP_DEFINE(step, {"KN_DEPTH", sizes->depth}, {"KN_LEFT_ROWS", sizes->left_rows},
                   {"KN_PANELS", sizes->item_panels});
    if (lowering->config) KN_STEP_DEFINE(step, {"KN_QUADS", 1});
    if (lowering->config == KN_INTEGER_PACKED) KN_STEP_DEFINE(step, {"KN_PACKED", 1});
    if (lowering->config && lowering->target->emulates_matrix_unit) KN_STEP_DEFINE(step, {"KN_EMULATED", 1});
    return step;
}

/* Packs b in scratch memory. */
static kn_status lower_pack(kn_lowering *lowering, const wide_sizes *sizes,
                            const kn_matmul_integer_form *form, int *scratch) {
    const int64_t columns = sizes->vectors * lowering->target->vector_width;
    const int64_t ints = sizes->panels * (kn_divide_up(form->matrices.k, 4) + 2) * columns;
    *scratch = kn_emit_scratch(lowering, (uint64_t)ints * sizeof(int32_t));
    kn_step *step = begin(lowering, sizes, "kn_matmul_integer_pack");
    kn_step_scratch(step, "panels", *scratch);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"n", form->matrices.n}, {"k", form->matrices.k},
                {"b_zero_column", form->b_zero_column});
    kn_step_size_wide(step, sizes->panels, 1, 1);
    return kn_step_end(step, lowering);
}

kn_status kn_matmul_integer_wide_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    kn_matmul_integer_form form;
    kn_matmul_integer_describe_merged(node, &form);
    const kn_matmul_form *of = &form.matrices;
    const wide_sizes sizes = plan(lowering->target, of, lowering->config != 0);
    const bool packed = lowering->config == KN_INTEGER_PACKED;
    int panels = 0;
    kn_status status = packed ? lower_pack(lowering, &sizes, &form, &panels) : KN_OK;
    if (status != KN_OK) return status;
    kn_step *step = begin(lowering, &sizes, "kn_matmul_integer");
    if (packed) kn_step_read_scratch(step, "b", panels);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"a_zero_row", form.a_zero_row}, {"b_zero_column", form.b_zero_column},
                {"item_rows", sizes.rows}, {"item_panels", sizes.item_panels},
                {"slice_depth", sizes.slice_depth});
    kn_step_cost_of_node(step, lowering);
    kn_matmul_bind(step, of, WIDE_LEVELS);
    kn_step_size_wide(step, kn_divide_up(of->m, sizes.rows), kn_divide_up(sizes.panels, sizes.item_panels),
                      of->batches);
    return kn_step_end(step, lowering);
}
