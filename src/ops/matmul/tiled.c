/* Matrix products on many-thread devices: steps for cl/matmul/tiled.cl. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/product.h"

enum { TILED_LEVELS = 3 };

bool kn_matmul_tiled_accepts(const kn_target *target, const kn_node *node) {
    (void)target;
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    return form.levels <= TILED_LEVELS && kn_has_kernels(node->outputs[0]->shape.dtype);
}

static void define(kn_step *step, const kn_lowering *lowering, const kn_product *product) {
    kn_matmul_form form;
    kn_matmul_describe(lowering->node, &form);
    int64_t a_row = form.transpose_a ? form.m : form.k, b_row = form.transpose_b ? form.k : form.n;
    kn_product_define(step, product);
    kn_step_define(step, "KN_TRANSPOSE_A", "%d", (int)form.transpose_a);
    kn_step_define(step, "KN_TRANSPOSE_B", "%d", (int)form.transpose_b);
    kn_step_define(step, "KN_VECTOR", "%d", a_row % 4 == 0 && b_row % 4 == 0 && form.n % 4 == 0 ? 4 : 1);
}

kn_status kn_matmul_tiled_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    int64_t elements = kn_elements_of(lowering->result);
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    kn_matmul_merge_batches(&form, lowering->epilogue);
    kn_product product = {.file = "matmul/tiled.cl",
                          .rows = form.m,
                          .columns = form.n,
                          .depth = form.k,
                          .batches = form.batches};
    if (elements == 0) return KN_OK;
    kn_product_plan(lowering, &product, elements);
    kn_step *step = kn_step_begin(lowering, product.file, "kn_matmul");
    define(step, lowering, &product);
    kn_step_read(step, "a", node->inputs[0]);
    kn_step_read(step, "b", node->inputs[1]);
    kn_step_write(step, "c", lowering->result);
    kn_product_partials(step, &product);
    kn_step_int(step, "m", form.m);
    kn_step_int(step, "n", form.n);
    kn_step_int(step, "k", form.k);
    kn_step_int(step, "batches", form.batches);
    kn_step_int(step, "parts", product.parts);
    kn_step_int(step, "part_depth", product.part_depth);
    kn_step_int(step, "middle", form.sizes[1]);
    kn_step_int(step, "inner", form.sizes[0]);
    kn_step_index(step, "a_outer", form.a_strides[2]);
    kn_step_index(step, "a_middle", form.a_strides[1]);
    kn_step_index(step, "a_inner", form.a_strides[0]);
    kn_step_index(step, "b_outer", form.b_strides[2]);
    kn_step_index(step, "b_middle", form.b_strides[1]);
    kn_step_index(step, "b_inner", form.b_strides[0]);
    kn_step_epilogue(step, lowering);
    kn_product_size(step, &product);
    kn_status status = kn_step_end(step, lowering);
    if (status != KN_OK) return status;
    return kn_product_finish(lowering, &product, define, elements, form.m, form.n);
}
