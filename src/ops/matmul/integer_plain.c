/* Products of 8-bit integers with a work-item per result: steps for cl/matmul/plain.cl. */
#include "ops/lowering.h"
#include "ops/matmul/integer.h"
#include "ops/matmul/matmul.h"

kn_status kn_matmul_integer_plain_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_matmul_integer_form form;
    kn_matmul_integer_describe(node, &form);
    kn_step *step = kn_step_begin(lowering, "matmul/plain.cl", "kn_matmul_integer_plain");
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"count", kn_elements_of(lowering->result)},
                {"a_step", form.matrices.transpose_a ? form.matrices.m : 1},
                {"b_step", form.matrices.transpose_b ? 1 : form.matrices.n}, {"a_zero_row", form.a_zero_row},
                {"b_zero_column", form.b_zero_column}, {"a_signed", node->inputs[0]->shape.dtype == KN_INT8},
                {"b_signed", node->inputs[1]->shape.dtype == KN_INT8});
    kn_matmul_bind(step, &form.matrices, 3);
    kn_step_size_free(step, kn_elements_of(lowering->result), lowering->target);
    return kn_step_end(step, lowering);
}
