/* Matrix products on many-thread devices, with or without local memory, or on a matrix unit: steps
 * for cl/matmul/tiled.cl. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/product.h"
#include "ops/reduce/reduce.h"

enum { TILED_LEVELS = 3 };
static const char file[] = "matmul/tiled.cl";

bool kn_matmul_tiled_accepts(const kn_target *target, const kn_node *node) {
    (void)target;
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    return form.levels <= TILED_LEVELS && kn_has_kernels(node->outputs[0]->shape.dtype);
}

bool kn_matmul_direct_accepts(const kn_target *target, const kn_node *node) {
    return target->local_is_global && !target->wide_vector && kn_matmul_tiled_accepts(target, node);
}

bool kn_matmul_matrix_accepts(const kn_target *target, const kn_node *node) {
    return kn_matmul_tiled_accepts(target, node) &&
           kn_product_unit(target, node, file, KN_PRODUCT_MATRIX) != KN_MATRIX_UNIT_NONE;
}

bool kn_matmul_matrix_split_accepts(const kn_target *target, const kn_node *node) {
    return kn_matmul_tiled_accepts(target, node) &&
           kn_product_unit(target, node, file, KN_PRODUCT_SPLIT) != KN_MATRIX_UNIT_NONE;
}

static void define(kn_step *step, const kn_lowering *lowering, const kn_product *product) {
    kn_matmul_form form;
    kn_matmul_describe(lowering->node, &form);
    int64_t a_row = form.transpose_a ? form.m : form.k, b_row = form.transpose_b ? form.k : form.n;
    kn_product_define(step, product);
    KN_STEP_DEFINE(step, {"KN_TRANSPOSE_A", form.transpose_a}, {"KN_TRANSPOSE_B", form.transpose_b});
    const int a_vector = kn_product_vector(product, a_row), b_vector = kn_product_vector(product, b_row);
    const int vector = form.n % 4 ? 1 : a_vector < b_vector ? a_vector : b_vector;
    KN_STEP_DEFINE(step, {"KN_VECTOR", vector});
}

/* Requires A stored as (K,M), and a sum over all dimensions except the last. */
bool kn_matmul_sums_rows(const kn_target *target, const kn_node *node, const kn_node *sum) {
    const kn_value *rows = sum->inputs[0], *result = sum->outputs[0];
    kn_matmul_form form;
    if (target->wide_vector || sum->op != &kn_row_sum) return false;
    kn_matmul_describe(node, &form);
    const kn_attribute_value *axes = kn_attribute_of(sum, "axes");
    if (!form.transpose_a || form.batches != 1 || form.n == 0) return false;
    if (axes->count == 0 || axes->count != rows->shape.rank - 1) return false;
    for (int i = 0; i < axes->count; i++)
        if ((axes->list[i] + rows->shape.rank) % rows->shape.rank == rows->shape.rank - 1) return false;
    return rows->shape.dims[rows->shape.rank - 1] == form.m &&
           result->shape.dtype == kn_accumulator(node, node->outputs[0]->shape.dtype) &&
           result->shape.dtype == kn_accumulator(sum, rows->shape.dtype);
}

/* The sums of A's rows are (parts,M). */
static void add_row_sums(kn_step *step, const kn_lowering *lowering, const kn_product *product) {
    KN_STEP_DEFINE(step, {"KN_ROW_SUMS", 1});
    if (product->parts > 1)
        kn_step_scratch(step, "row_sums", product->row_sums);
    else
        kn_step_write(step, "row_sums", lowering->summed);
}

static kn_status finish_row_sums(kn_lowering *lowering, const kn_product *product) {
    const kn_part_sum sum = {.partials = product->row_sums,
                             .result = lowering->summed,
                             .stride = product->rows,
                             .elements = product->rows,
                             .parts = product->parts};
    return product->parts > 1 ? kn_emit_sums(lowering, &sum, 1) : KN_OK;
}

kn_status kn_matmul_tiled_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_product_way way = (kn_product_way)lowering->config;
    int64_t elements = kn_elements_of(lowering->result);
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    kn_matmul_merge_batches(&form, lowering->epilogue);
    kn_product product = {.file = file,
                          .way = way,
                          .unit = kn_product_unit(lowering->target, node, file, way),
                          .rows = form.m,
                          .columns = form.n,
                          .depth = form.k,
                          .batches = form.batches};
    if (elements == 0) return KN_OK;
    kn_product_plan(lowering, &product, elements);
    if (lowering->summed && product.parts > 1)
        product.row_sums = kn_emit_scratch(lowering, (uint64_t)(product.parts * form.m) *
                                                         kn_dtype_bytes(lowering->summed->shape.dtype));
    kn_step *step = kn_step_begin(lowering, product.file, "kn_matmul");
    define(step, lowering, &product);
    kn_step_bind_values(step, lowering);
    kn_product_bind(step, &product);
    kn_matmul_bind(step, &form, TILED_LEVELS);
    if (lowering->summed) add_row_sums(step, lowering, &product);
    kn_step_epilogue(step, lowering);
    kn_step_cost_of_node(step, lowering);
    kn_product_size(step, &product);
    kn_status status = kn_step_end(step, lowering);
    if (status == KN_OK) status = kn_product_finish(lowering, &product, define, elements, form.m, form.n);
    return status == KN_OK && lowering->summed ? finish_row_sums(lowering, &product) : status;
}
