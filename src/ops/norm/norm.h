/* Shared by the files of batch norm. */
#ifndef KN_NORM_H
#define KN_NORM_H

#include "ops/lowering.h"
#include "ops/ops.h"

/* x viewed as (images,channels,inner); a channel has `total` elements. */
typedef struct kn_batch_norm_form {
    int64_t images, channels, inner, total;
} kn_batch_norm_form;
static inline kn_batch_norm_form kn_batch_norm_form_of(const kn_shape *x) {
    kn_batch_norm_form form = {.images = x->dims[0], .channels = x->dims[1], .inner = 1};
    for (int i = 2; i < x->rank; i++)
        form.inner *= x->dims[i];
    form.total = form.images * form.inner;
    return form;
}

/* The cost of a step that reads or writes `images` values like x, with `flops` per element. */
static inline void kn_batch_norm_cost(kn_step *step, const kn_lowering *lowering, double images,
                                      double flops) {
    const kn_value *x = lowering->node->inputs[0];
    double elements = (double)kn_elements_of(x);
    kn_step_cost(step, flops * elements, images * elements * (double)kn_dtype_bytes(x->shape.dtype));
}

/* The arguments epsilon and momentum. */
static inline void kn_batch_norm_numbers(kn_step *step, const kn_node *node) {
    const kn_dtype type = kn_accumulator(node, node->inputs[0]->shape.dtype);
    kn_step_number(step, "epsilon", type, kn_attribute_of(node, "epsilon")->number);
    kn_step_number(step, "momentum", type, kn_attribute_of(node, "momentum")->number);
}

/* For the plain layout, by work-groups with local memory (batch_norm_groups.c). */
kn_status kn_batch_norm_groups_lower(kn_lowering *lowering);
kn_status kn_batch_norm_groups_gradient_lower(kn_lowering *lowering);

#endif
