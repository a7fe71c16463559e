/* Matrix products with a work-item per result: steps for cl/matmul/plain.cl. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"

void kn_matmul_plain_sizes(kn_step *step, const kn_lowering *lowering, const kn_matmul_form *form) {
    kn_step_index(step, "count", kn_elements_of(lowering->result));
    kn_step_int(step, "m", form->m);
    kn_step_int(step, "n", form->n);
    kn_step_int(step, "k", form->k);
    kn_step_int(step, "middle", form->sizes[1]);
    kn_step_int(step, "inner", form->sizes[0]);
    kn_step_index(step, "a_outer", form->a_strides[2]);
    kn_step_index(step, "a_middle", form->a_strides[1]);
    kn_step_index(step, "a_inner", form->a_strides[0]);
    kn_step_index(step, "a_row", form->transpose_a ? 1 : form->k);
    kn_step_index(step, "a_step", form->transpose_a ? form->m : 1);
    kn_step_index(step, "b_outer", form->b_strides[2]);
    kn_step_index(step, "b_middle", form->b_strides[1]);
    kn_step_index(step, "b_inner", form->b_strides[0]);
    kn_step_index(step, "b_column", form->transpose_b ? form->k : 1);
    kn_step_index(step, "b_step", form->transpose_b ? 1 : form->n);
}

kn_status kn_matmul_plain_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    kn_step *step = kn_step_begin(lowering, "matmul/plain.cl", "kn_matmul_plain");
    kn_step_types(step, node, node->outputs[0]->shape.dtype);
    kn_step_read(step, "a", node->inputs[0]);
    kn_step_read(step, "b", node->inputs[1]);
    kn_step_write(step, "c", lowering->result);
    kn_matmul_plain_sizes(step, lowering, &form);
    kn_step_size_free(step, kn_elements_of(lowering->result), lowering->target);
    return kn_step_end(step, lowering);
}
