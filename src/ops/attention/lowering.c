/* Lowering common to both variants of attention. */
#include "ops/attention/attention.h"
#include "ops/lowering.h"

kn_value *kn_attention_part(kn_value *const *values, const kn_attention_form *form, int part) {
    return values[form->packed ? 0 : part];
}

void kn_attention_add_numbers(kn_step *step, const kn_node *node, const kn_attention_form *form) {
    const kn_dtype type = kn_accumulator(node, node->outputs[0]->shape.dtype);
    KN_STEP_SET(step, {"queries", form->queries}, {"keys", form->keys}, {"q_first", form->q_first},
                {"k_first", form->k_first}, {"v_first", form->v_first}, {"q_row", form->q_row},
                {"k_row", form->k_row}, {"y_row", form->y_row}, {"causal", form->causal},
                {"last", form->last}, {"group", form->group}, {"heads", form->heads});
    kn_step_number(step, "scale", type, form->scale);
    if (form->window) KN_STEP_SET(step, {"window", form->window});
    if (form->softcap > 0) kn_step_number(step, "softcap", type, form->softcap);
    if (form->lengths_at >= 0) {
        kn_step_read(step, "lengths", node->inputs[form->lengths_at]);
        KN_STEP_SET(step, {"lengths_row", form->lengths_row});
    }
    if (form->first_at >= 0) {
        kn_step_read(step, "first_keys", node->inputs[form->first_at]);
        KN_STEP_SET(step, {"first_row", form->first_row});
    }
    if (form->mask_at >= 0) {
        kn_step_read(step, "mask", node->inputs[form->mask_at]);
        KN_STEP_SET(step, {"mask_batch", form->mask_batch}, {"mask_head", form->mask_head});
    }
    if (form->step_at >= 0) {
        kn_step_read(step, "step", node->inputs[form->step_at]);
        KN_STEP_SET(step, {"key_low", (uint32_t)node->random_key},
                    {"key_high", (uint32_t)(node->random_key >> 32)});
        kn_step_number(step, "rate", type, form->rate);
    }
}

const char *const kn_attention_gradient_names[] = {"dq", "dk", "dv"};

void kn_attention_define_limits(kn_step *step, const kn_attention_form *form) {
    if (form->lengths_at >= 0) KN_STEP_DEFINE(step, {"KN_LENGTHS", 1});
    if (form->first_at >= 0) KN_STEP_DEFINE(step, {"KN_FIRST", 1});
    if (form->mask_at >= 0) KN_STEP_DEFINE(step, {"KN_MASK", 1});
    if (form->step_at >= 0) KN_STEP_DEFINE(step, {"KN_DROPOUT", 1});
    if (form->window) KN_STEP_DEFINE(step, {"KN_WINDOW", 1});
    if (form->softcap > 0) KN_STEP_DEFINE(step, {"KN_SOFTCAP", 1});
}

void kn_attention_read_parts(kn_step *step, const kn_node *node, const kn_attention_form *form, int first) {
    static const char *const names[] = {"q", "k", "v"};
    for (int part = 0; part < 3; part++)
        kn_step_read(step, names[part], kn_attention_part(node->inputs + first, form, part));
}

bool kn_attention_is_empty(const kn_attention_form *form) {
    return form->batches == 0 || form->queries == 0 || form->keys == 0 || form->head == 0;
}

kn_status kn_attention_fill_zero(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    for (int i = 0; i < node->output_count; i++) {
        kn_value *value = i == 0 ? lowering->result : node->outputs[i];
        kn_status status = kn_elements_of(value) > 0 ? kn_emit_fill_zero(lowering, value) : KN_OK;
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

int kn_attention_first(const kn_node *node) {
    return node->op->backward ? KN_ATTENTION_Q : 0;
}
