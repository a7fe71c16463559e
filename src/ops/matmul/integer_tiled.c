/* Products of 8-bit integers on many-thread devices, or on a matrix unit: steps for
 * cl/matmul/integer_tiled.cl. */
#include "ops/lowering.h"
#include "ops/matmul/integer.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/product.h"

enum { TILED_LEVELS = 3 };
static const char file[] = "matmul/integer_tiled.cl";

static bool is_signed(const kn_node *node, int input) {
    return node->inputs[input]->shape.dtype == KN_INT8;
}

bool kn_matmul_integer_tiled_accepts(const kn_target *target, const kn_node *node) {
    (void)target;
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    return form.levels <= TILED_LEVELS;
}

bool kn_matmul_integer_matrix_accepts(const kn_target *target, const kn_node *node) {
    return kn_matmul_integer_tiled_accepts(target, node) &&
           kn_product_unit(target, node, file, KN_PRODUCT_MATRIX) != KN_MATRIX_UNIT_NONE;
}

/* For a unit that multiplies only signed bytes, 128 is subtracted from unsigned operands and their zero
 * points. */
static bool is_biased(const kn_node *node, const kn_product *product, int input) {
    return product->unit == KN_MATRIX_UNIT_MFMA && !is_signed(node, input);
}

static void define_tiled(kn_step *step, const kn_lowering *lowering, const kn_product *product) {
    kn_product_define_tile(step, product);
    const kn_node *node = lowering->node;
    const bool bias_a = is_biased(node, product, 0), bias_b = is_biased(node, product, 1);
    KN_STEP_DEFINE(step, {"KN_SIGNED_A", bias_a || is_signed(node, 0)},
                   {"KN_SIGNED_B", bias_b || is_signed(node, 1)});
    if (bias_a) KN_STEP_DEFINE(step, {"KN_BIAS_A", 128});
    if (bias_b) KN_STEP_DEFINE(step, {"KN_BIAS_B", 128});
    if (product->unit) {
        kn_matmul_form form;
        kn_matmul_describe(node, &form);
        KN_STEP_DEFINE(step, {"KN_ALIGNED_A", form.k % 4 == 0}, {"KN_ALIGNED_B", form.n % 4 == 0});
    }
    if (product->unit || !lowering->target->integer_dot) return;
    kn_step_language(step, "CL3.0");
    KN_STEP_DEFINE(step, {"KN_DOT", 1});
}

/* Computes the sums of the rows of a, or of the columns of b, of all batches; returns their scratch
 * memory. */
static int emit_line_sums(kn_lowering *lowering, const kn_matmul_form *form, bool of_b, kn_status *status) {
    const kn_node *node = lowering->node;
    const int64_t *strides = of_b ? form->b_strides : form->a_strides;
    int64_t lines = of_b ? form->n : form->m;
    int sums = kn_emit_scratch(lowering, (uint64_t)(form->batches * lines) * sizeof(int32_t));
    kn_step *step = kn_step_begin(lowering, file, "kn_line_sums");
    kn_step_read(step, "source", node->inputs[of_b]);
    kn_step_scratch(step, "sums", sums);
    KN_STEP_SET(step, {"batches", form->batches}, {"lines", lines}, {"length", form->k},
                {"line", of_b ? 1 : form->k}, {"step", of_b ? form->n : 1}, {"middle", form->sizes[1]},
                {"inner", form->sizes[0]}, {"outer_stride", strides[2]}, {"middle_stride", strides[1]},
                {"inner_stride", strides[0]}, {"is_signed", is_signed(node, of_b)});
    const double of_lines = (double)(form->batches * lines);
    kn_step_cost(step, of_lines * (double)form->k,
                 (double)kn_elements_of(node->inputs[of_b]) + of_lines * sizeof(int32_t));
    kn_step_size_free(step, form->batches * lines, lowering->target);
    *status = kn_step_end(step, lowering);
    return sums;
}

static void read_sums(kn_step *step, const char *name, bool there, int sums) {
    if (there)
        kn_step_read_scratch(step, name, sums);
    else
        kn_step_read(step, name, NULL);
}

kn_status kn_matmul_integer_tiled_lower(kn_lowering *lowering) {
    const kn_product_way way = (kn_product_way)lowering->config;
    const kn_node *node = lowering->node;
    int64_t elements = kn_elements_of(lowering->result);
    if (elements == 0) return KN_OK;
    kn_matmul_integer_form form;
    kn_matmul_integer_describe_merged(node, &form);
    const kn_matmul_form *of = &form.matrices;
    kn_product product = {.file = file,
                          .way = way,
                          .unit = kn_product_unit(lowering->target, node, file, way),
                          .rows = of->m,
                          .columns = of->n,
                          .depth = way == KN_PRODUCT_MATRIX ? kn_divide_up(of->k, 2) : of->k,
                          .batches = of->batches};
    kn_product_plan(lowering, &product, elements);
    kn_status status = KN_OK;
    int row_sums = 0, column_sums = 0;
    const bool sums_rows = form.b_zero || is_biased(node, &product, 1),
               sums_columns = form.a_zero || is_biased(node, &product, 0);
    if (sums_rows) row_sums = emit_line_sums(lowering, of, false, &status);
    if (sums_columns && status == KN_OK) column_sums = emit_line_sums(lowering, of, true, &status);
    if (status != KN_OK) return status;
    kn_step *step = kn_step_begin(lowering, product.file, "kn_matmul_integer");
    define_tiled(step, lowering, &product);
    read_sums(step, "row_sums", sums_rows, row_sums);
    read_sums(step, "column_sums", sums_columns, column_sums);
    kn_step_bind_values(step, lowering);
    kn_product_bind(step, &product);
    KN_STEP_SET(step, {"a_zero_row", form.a_zero_row}, {"b_zero_column", form.b_zero_column});
    kn_matmul_bind(step, of, TILED_LEVELS);
    kn_step_cost_of_node(step, lowering);
    kn_product_size(step, &product);
    status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    return kn_product_finish(lowering, &product, define_tiled, elements, of->m, of->n);
}
