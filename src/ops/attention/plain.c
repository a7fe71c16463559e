/* Attention with a work-item per query or key: steps for cl/attention/plain.cl. */
#include "ops/attention/attention.h"
#include "ops/lowering.h"

static kn_step *begin(kn_lowering *lowering, const kn_attention_form *form, const char *kernel) {
    kn_dtype type = lowering->node->outputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "attention/plain.cl", kernel);
    kn_step_types(step, lowering->node, type);
    KN_STEP_DEFINE(step, {"KN_HEAD", form->head});
    kn_attention_define_limits(step, form);
    return step;
}

static kn_status end(kn_step *step, kn_lowering *lowering, const kn_attention_form *form, int64_t length,
                     int64_t heads) {
    kn_attention_add_numbers(step, lowering->node, form);
    kn_step_size3(step, (size_t[3]){(size_t)kn_round_up(length, 64), (size_t)heads, (size_t)form->batches},
                  (size_t[3]){0, 0, 0});
    return kn_step_end(step, lowering);
}

static kn_status lower_gradient(kn_lowering *lowering, const kn_attention_form *form) {
    const kn_node *node = lowering->node;
    kn_status status = KN_OK;
    for (int by_keys = 0; by_keys < 2 && status == KN_OK; by_keys++) {
        kn_step *step = begin(lowering, form, by_keys ? "kn_attention_keys" : "kn_attention_queries");
        kn_step_bind_values(step, lowering);
        kn_attention_read_parts(step, node, form, KN_ATTENTION_Q);
        for (int part = by_keys; part <= 2 * by_keys; part++)
            kn_step_write(step, kn_attention_gradient_names[part],
                          kn_attention_part(node->outputs, form, part));
        status = by_keys ? end(step, lowering, form, form->keys, form->key_heads)
                         : end(step, lowering, form, form->queries, form->heads);
    }
    return status;
}

kn_status kn_attention_plain_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_attention_form form;
    kn_attention_describe(node, kn_attention_first(node), &form);
    if (kn_attention_is_empty(&form)) return kn_attention_fill_zero(lowering);
    if (node->op->backward) return lower_gradient(lowering, &form);
    kn_step *step = begin(lowering, &form, "kn_attention_forward");
    kn_attention_read_parts(step, node, &form, 0);
    kn_step_bind_values(step, lowering);
    return end(step, lowering, &form, form.queries, form.heads);
}
