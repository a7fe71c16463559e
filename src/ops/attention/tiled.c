/* Attention as steps of cl/attention: blocks with packed operands on wide-vector devices, tiles in local
 * memory where many threads share it. */
#include "ops/attention/attention.h"

/* Results of the gradient rows are q's, k's and v's, or one array with all. */
static kn_value *part_of(kn_value *const *values, const kn_attention_form *form, int part) {
    return values[form->packed ? 0 : part];
}

static void add_numbers(kn_step *step, const kn_node *node, const kn_attention_form *form) {
    kn_step_int(step, "queries", form->queries);
    kn_step_int(step, "keys", form->keys);
    kn_step_index(step, "q_first", form->q_first);
    kn_step_index(step, "k_first", form->k_first);
    kn_step_index(step, "v_first", form->v_first);
    kn_step_index(step, "q_row", form->q_row);
    kn_step_index(step, "k_row", form->k_row);
    kn_step_index(step, "y_row", form->y_row);
    kn_step_int(step, "causal", form->causal);
    kn_step_int(step, "last", form->last);
    kn_step_int(step, "group", form->group);
    kn_step_float(step, "scale", form->scale);
    if (form->lengths_at >= 0) {
        kn_step_read(step, "lengths", node->inputs[form->lengths_at]);
        kn_step_int(step, "lengths_row", form->lengths_row);
    }
    if (form->mask_at >= 0) {
        kn_step_read(step, "mask", node->inputs[form->mask_at]);
        kn_step_index(step, "mask_batch", form->mask_batch);
        kn_step_index(step, "mask_head", form->mask_head);
    }
    if (form->step_at >= 0) {
        kn_step_read(step, "step", node->inputs[form->step_at]);
        kn_step_uint(step, "key_low", (uint32_t)node->random_key);
        kn_step_uint(step, "key_high", (uint32_t)(node->random_key >> 32));
        kn_step_float(step, "rate", form->rate);
    }
}

static const char *const gradient_names[] = {"dq", "dk", "dv"};

/* Parameters and work that attention without limits does not have. */
static void define_limits(kn_step *step, const kn_attention_form *form) {
    if (form->lengths_at >= 0) kn_step_define(step, "KN_LENGTHS", "1");
    if (form->mask_at >= 0) kn_step_define(step, "KN_MASK", "1");
    if (form->step_at >= 0) kn_step_define(step, "KN_DROPOUT", "1");
}

static void read_parts(kn_step *step, const kn_node *node, const kn_attention_form *form, int first) {
    static const char *const names[] = {"q", "k", "v"};
    for (int part = 0; part < 3; part++)
        kn_step_read(step, names[part], part_of(node->inputs + first, form, part));
}

/* Without queries or keys there is nothing to add up: zeros, which kernels would divide by. */
static bool is_empty(const kn_attention_form *form) {
    return form->batches == 0 || form->queries == 0 || form->keys == 0 || form->head == 0;
}

static kn_status fill_zero(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    for (int i = 0; i < node->output_count; i++) {
        kn_value *value = i == 0 ? lowering->result : node->outputs[i];
        kn_status status = kn_elements_of(value) > 0 ? kn_emit_fill_zero(lowering, value) : KN_OK;
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

static int first_of(const kn_node *node) {
    return node->op->backward ? KN_ATTENTION_Q : 0;
}

/* ---- wide -----------------------------------------------------------------------------------------------
 */

typedef struct wide_form {
    int64_t vectors, keys, block; /* of a tile's row, and of a block */
} wide_form;

/* The largest block whose operands fit in local memory; false: not even the smallest does. */
static bool choose_block(const kn_target *target, const kn_attention_form *form, bool backward,
                         wide_form *wide) {
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
                                         3 * wide->block * padded + 2 * wide->block * wide->keys
                                   : form->head * wide->keys + wide->keys * padded +
                                         wide->block * (wide->keys + padded + 2);
        if ((uint64_t)numbers * sizeof(float) <= target->local_bytes) return true;
    }
    return false;
}

bool kn_attention_wide_accepts(const kn_target *target, const kn_node *node) {
    kn_attention_form form;
    wide_form wide;
    int width = target->vector_width;
    if (!target->wide_vector || (width != 4 && width != 8 && width != 16)) return false;
    kn_attention_describe(node, first_of(node), &form);
    return node->outputs[0]->shape.dtype == KN_FLOAT32 &&
           choose_block(target, &form, node->op->backward, &wide);
}

kn_status kn_attention_wide_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    bool backward = node->op->backward;
    int first = first_of(node);
    kn_attention_form form;
    wide_form wide;
    kn_attention_describe(node, first, &form);
    if (is_empty(&form)) return fill_zero(lowering);
    choose_block(lowering->target, &form, backward, &wide);
    kn_step *step =
        kn_step_begin(lowering, "attention/wide.cl", backward ? "kn_attention_gradient" : "kn_attention");
    kn_step_define(step, "KN_WIDTH", "%d", lowering->target->vector_width);
    kn_step_define(step, "KN_VECTORS", "%d", (int)wide.vectors);
    kn_step_define(step, "KN_HEAD", "%d", (int)form.head);
    kn_step_define(step, "KN_KEYS", "%d", (int)wide.keys);
    kn_step_define(step, "KN_BLOCK", "%d", (int)wide.block);
    define_limits(step, &form);
    size_t heads = (size_t)form.heads, batches = (size_t)form.batches;
    if (backward) {
        kn_step_read(step, "dy", node->inputs[KN_ATTENTION_DY]);
        kn_step_read(step, "y", node->inputs[KN_ATTENTION_Y]);
        kn_step_read(step, "log_sum", node->inputs[KN_ATTENTION_LOG_SUM]);
    }
    read_parts(step, node, &form, first);
    if (backward) {
        /* Gradients of queries add up in place, block of keys by block of keys. */
        for (int part = 0; part < 3; part++)
            kn_step_update(step, gradient_names[part], part_of(node->outputs, &form, part));
        add_numbers(step, node, &form);
        kn_step_size2(step, (size_t)form.key_heads, batches, 1, 1);
    } else {
        kn_step_write(step, "y", lowering->result);
        kn_step_write(step, "log_sum", node->outputs[1]);
        add_numbers(step, node, &form);
        size_t blocks = (size_t)kn_divide_up(form.queries, wide.block);
        kn_step_size3(step, (size_t[3]){blocks, heads, batches}, (size_t[3]){1, 1, 1});
    }
    return kn_step_end(step, lowering);
}

/* ---- tiled -----------------------------------------------------------------------------------------------
 */

/* Rows of a tile: as many as four tiles of a head's numbers leave room for; 0: none. */
static int64_t tile_rows(const kn_target *target, const kn_node *node, int64_t head) {
    kn_dtype type = node->outputs[0]->shape.dtype;
    uint64_t bytes = kn_dtype_bytes(type);
    for (int64_t rows = 16; rows >= 4; rows /= 2) {
        uint64_t stride = 4 * ((uint64_t)((head + 3) / 4) | 1);
        uint64_t numbers = 4 * (uint64_t)rows * stride + 2 * (uint64_t)(rows * (rows + 1));
        if (numbers * bytes <= target->local_bytes && (size_t)(4 * rows) <= target->work_group_items)
            return rows;
    }
    return 0;
}

bool kn_attention_tiled_accepts(const kn_target *target, const kn_node *node) {
    kn_attention_form form;
    kn_attention_describe(node, first_of(node), &form);
    return kn_has_kernels(node->outputs[0]->shape.dtype) && tile_rows(target, node, form.head) > 0;
}

static kn_step *begin_tiled(kn_lowering *lowering, const kn_attention_form *form, int64_t rows,
                            const char *kernel) {
    kn_dtype type = lowering->node->outputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "attention/tiled.cl", kernel);
    kn_step_define_type(step, "KN_T", type);
    kn_step_define_type(step, "KN_A", kn_accumulator(lowering->node, type));
    kn_step_define(step, "KN_HEAD", "%d", (int)form->head);
    kn_step_define(step, "KN_ROWS", "%d", (int)rows);
    define_limits(step, form);
    return step;
}

static kn_status end_tiled(kn_step *step, kn_lowering *lowering, const kn_attention_form *form, int64_t rows,
                           int64_t length, int64_t heads) {
    size_t items = (size_t)(4 * rows), tiles = (size_t)kn_divide_up(length, rows);
    add_numbers(step, lowering->node, form);
    kn_step_size3(step, (size_t[3]){tiles * items, (size_t)heads, (size_t)form->batches},
                  (size_t[3]){items, 1, 1});
    return kn_step_end(step, lowering);
}

static kn_status lower_delta(kn_lowering *lowering, const kn_attention_form *form, int64_t rows, int delta) {
    kn_step *step = begin_tiled(lowering, form, rows, "kn_attention_delta");
    kn_step_read(step, "dy", lowering->node->inputs[KN_ATTENTION_DY]);
    kn_step_read(step, "y", lowering->node->inputs[KN_ATTENTION_Y]);
    kn_step_scratch(step, "delta", delta);
    kn_step_int(step, "queries", form->queries);
    kn_step_index(step, "y_row", form->y_row);
    size_t items = (size_t)(4 * rows);
    kn_step_size3(step, (size_t[3]){(size_t)form->queries, (size_t)form->heads, (size_t)form->batches},
                  (size_t[3]){items, 1, 1});
    return kn_step_end(step, lowering);
}

static kn_status lower_tiled_gradient(kn_lowering *lowering, const kn_attention_form *form, int64_t rows) {
    const kn_node *node = lowering->node;
    kn_dtype type = kn_accumulator(node, node->outputs[0]->shape.dtype);
    uint64_t sums = (uint64_t)(form->batches * form->heads * form->queries);
    kn_cost cost;
    kn_node_cost(node, &cost);
    int delta = kn_emit_scratch(lowering, sums * kn_dtype_bytes(type));
    kn_status status = lower_delta(lowering, form, rows, delta);
    for (int by_keys = 0; by_keys < 2 && status == KN_OK; by_keys++) {
        kn_step *step =
            begin_tiled(lowering, form, rows, by_keys ? "kn_attention_keys" : "kn_attention_queries");
        kn_step_read(step, "dy", node->inputs[KN_ATTENTION_DY]);
        kn_step_read(step, "log_sum", node->inputs[KN_ATTENTION_LOG_SUM]);
        kn_step_scratch(step, "delta", delta);
        read_parts(step, node, form, KN_ATTENTION_Q);
        for (int part = by_keys; part <= 2 * by_keys; part++)
            kn_step_write(step, gradient_names[part], part_of(node->outputs, form, part));
        /* Of the five products two belong to the queries. */
        kn_step_cost(step, cost.flops * (by_keys ? 0.6 : 0.4), cost.bytes / 2);
        status = by_keys ? end_tiled(step, lowering, form, rows, form->keys, form->key_heads)
                         : end_tiled(step, lowering, form, rows, form->queries, form->heads);
    }
    return status;
}

kn_status kn_attention_tiled_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_attention_form form;
    kn_attention_describe(node, first_of(node), &form);
    if (is_empty(&form)) return fill_zero(lowering);
    int64_t rows = tile_rows(lowering->target, node, form.head);
    if (node->op->backward) return lower_tiled_gradient(lowering, &form, rows);
    kn_step *step = begin_tiled(lowering, &form, rows, "kn_attention");
    read_parts(step, node, &form, 0);
    kn_step_write(step, "y", lowering->result);
    kn_step_write(step, "log_sum", node->outputs[1]);
    return end_tiled(step, lowering, &form, rows, form.queries, form.heads);
}
