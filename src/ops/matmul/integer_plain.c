/* Products of 8-bit integers with a work-item per result: steps for cl/matmul/plain.cl. */
#include "ops/lowering.h"
#include "ops/matmul/integer.h"
#include "ops/matmul/matmul.h"

kn_status kn_matmul_integer_plain_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_matmul_integer_form form;
    kn_matmul_integer_describe(node, &form);
    kn_step *step = kn_step_begin(lowering, "matmul/plain.cl", "kn_matmul_integer_plain");
    kn_step_read(step, "a", node->inputs[0]);
    kn_step_read(step, "b", node->inputs[1]);
    kn_step_write(step, "c", lowering->result);
    kn_step_read(step, "a_zero", form.a_zero);
    kn_step_read(step, "b_zero", form.b_zero);
    kn_step_present(step);
    kn_matmul_plain_sizes(step, lowering, &form.matrices);
    kn_step_index(step, "a_zero_row", form.a_zero_row);
    kn_step_index(step, "b_zero_column", form.b_zero_column);
    kn_step_int(step, "a_signed", node->inputs[0]->shape.dtype == KN_INT8);
    kn_step_int(step, "b_signed", node->inputs[1]->shape.dtype == KN_INT8);
    kn_step_size_free(step, kn_elements_of(lowering->result), lowering->target);
    return kn_step_end(step, lowering);
}
