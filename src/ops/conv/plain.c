/* Convolutions with a work-item per result: steps for cl/conv/plain.cl. */
#include "ops/conv/conv.h"
#include "ops/lowering.h"

kn_status kn_conv_plain_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    bool forward = node->op == &kn_row_conv2d, data = node->op == &kn_row_conv2d_data;
    int64_t elements = kn_elements_of(lowering->result);
    kn_conv_form form;
    kn_conv_describe(node, &form);
    kn_step *step = kn_step_begin(lowering, "conv/plain.cl",
                                  forward ? "kn_conv_plain"
                                  : data  ? "kn_conv_data_plain"
                                          : "kn_conv_weight_plain");
    kn_step_types(step, node, node->outputs[0]->shape.dtype);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"count", elements});
    kn_conv_bind(step, &form);
    kn_step_size_free(step, elements, lowering->target);
    return kn_step_end(step, lowering);
}
