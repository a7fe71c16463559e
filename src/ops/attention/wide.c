/* Attention on wide-vector devices, in blocks with packed operands: steps for cl/attention/wide.cl. */
#include "ops/attention/attention.h"
#include "ops/lowering.h"

typedef struct wide_form {
    int64_t vectors, keys, block; /* vectors per row of a tile; keys and queries per block */
} wide_form;

/* The largest block whose operands fit in local memory; false: not even the smallest does. */
static bool choose_block(const kn_target *target, const kn_node *node, const kn_attention_form *form,
                         wide_form *wide) {
    const bool backward = node->op->backward;
    const bool packs_queries = !backward && kn_is_half(node->inputs[kn_attention_first(node)]->shape.dtype);
    int64_t width = target->vector_width;
    wide->vectors = kn_wide_vectors(width, form->head);
    int64_t columns = width * wide->vectors, padded = kn_round_up(form->head, columns);
    for (int64_t block = 128; block >= 16; block /= 2) {
        int64_t most = block < 64 ? block : 64;
        wide->keys = columns > most ? columns : most / columns * columns;
        wide->block = backward && block > 64 ? 64 : block;
        while (wide->block > 16 && wide->block / 2 >= form->queries)
            wide->block /= 2;
        int64_t numbers = backward ? 2 * form->head * wide->keys + 3 * wide->keys * padded +
                                         3 * wide->block * padded +
                                         (form->softcap > 0 ? 3 : 2) * wide->block * wide->keys
                                   : form->head * wide->keys + wide->keys * padded +
                                         wide->block * (wide->keys + padded * (packs_queries ? 2 : 1) + 2);
        if ((uint64_t)numbers * sizeof(float) <= target->local_bytes) return true;
    }
    return false;
}

bool kn_attention_wide_accepts(const kn_target *target, const kn_node *node) {
    kn_attention_form form;
    wide_form wide;
    if (!kn_has_vectors(target)) return false;
    kn_attention_describe(node, kn_attention_first(node), &form);
    const kn_dtype type = node->outputs[0]->shape.dtype;
    return (type == KN_FLOAT32 || kn_is_half(type)) && choose_block(target, node, &form, &wide);
}

kn_status kn_attention_wide_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    bool backward = node->op->backward;
    int first = kn_attention_first(node);
    kn_attention_form form;
    wide_form wide;
    kn_attention_describe(node, first, &form);
    if (kn_attention_is_empty(&form)) return kn_attention_fill_zero(lowering);
    choose_block(lowering->target, node, &form, &wide);
    const bool separate_sums = backward && kn_is_half(node->outputs[0]->shape.dtype);
    const uint64_t numbers = (uint64_t)(form.batches * form.heads * form.queries * form.head);
    const int sums = separate_sums ? kn_emit_scratch(lowering, numbers * sizeof(float)) : 0;
    kn_step *step = kn_step_begin(lowering, "attention/wide.cl",
                                  backward ? "kn_attention_gradient" : "kn_attention_forward");
    KN_STEP_DEFINE(step, {"KN_WIDTH", lowering->target->vector_width}, {"KN_VECTORS", wide.vectors},
                   {"KN_HEAD", form.head}, {"KN_KEYS", wide.keys}, {"KN_BLOCK", wide.block});
    kn_attention_define_limits(step, &form);
    if (backward) kn_step_bind_values(step, lowering);
    kn_attention_read_parts(step, node, &form, first);
    if (backward) {
        /* The gradient of q is accumulated in place, one block of keys after another, or separately in
         * float32. */
        for (int part = 0; part < 3; part++)
            kn_step_update(step, kn_attention_gradient_names[part],
                           kn_attention_part(node->outputs, &form, part));
        if (separate_sums) kn_step_scratch(step, "sums", sums);
        kn_step_size2(step, (size_t)form.key_heads, (size_t)form.batches, 1, 1);
    } else {
        kn_step_bind_values(step, lowering);
        kn_step_size_wide(step, kn_divide_up(form.queries, wide.block), form.heads, form.batches);
    }
    kn_attention_add_numbers(step, node, &form);
    return kn_step_end(step, lowering);
}
