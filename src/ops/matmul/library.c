/* Matrix products by an external library, if the target has one. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"

/* The library is called once per batch: many small products are faster in a single launch of our kernels. */
enum { MAX_BATCHES = 8 };

static bool describe(const kn_node *node, kn_matmul_form *form, kn_library_product *product) {
    kn_matmul_describe(node, form);
    kn_matmul_merge_batches(form, NULL);
    *product = (kn_library_product){.dtype = node->outputs[0]->shape.dtype,
                                    .transpose_a = form->transpose_a,
                                    .transpose_b = form->transpose_b,
                                    .m = form->m,
                                    .n = form->n,
                                    .k = form->k,
                                    .batches = form->batches,
                                    .a_stride = form->levels ? form->a_strides[0] : 0,
                                    .b_stride = form->levels ? form->b_strides[0] : 0};
    return form->levels <= 1 && form->batches <= MAX_BATCHES;
}

bool kn_matmul_library_accepts(const kn_target *target, const kn_node *node) {
    kn_matmul_form form;
    kn_library_product product;
    uint64_t bytes;
    return target->product_scratch && !node->tf32 &&
           node->inputs[1]->shape.dtype == node->outputs[0]->shape.dtype && describe(node, &form, &product) &&
           form.k > 0 && kn_elements_of(node->outputs[0]) > 0 &&
           target->product_scratch(target->library, &product, &bytes);
}

/* a is (..,M,K) or (..,K,M), b (..,K,N) or (..,N,K), the result (..,M,N). */
kn_status kn_matmul_library_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_matmul_form form;
    kn_library_product product;
    describe(node, &form, &product);
    return kn_emit_product(lowering, &product, node->inputs[0], node->inputs[1], lowering->result);
}
