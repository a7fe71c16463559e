/* Matrix products with a work-item per result: steps for cl/matmul/plain.cl. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"

kn_status kn_matmul_plain_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_matmul_form form;
    kn_matmul_describe(node, &form);
    kn_step *step = kn_step_begin(lowering, "matmul/plain.cl", "kn_matmul_plain");
    kn_step_types(step, node, node->outputs[0]->shape.dtype);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"count", kn_elements_of(lowering->result)}, {"a_step", form.transpose_a ? form.m : 1},
                {"b_step", form.transpose_b ? 1 : form.n});
    kn_matmul_bind(step, &form, 3);
    kn_step_size_free(step, kn_elements_of(lowering->result), lowering->target);
    return kn_step_end(step, lowering);
}
