/* Attention on many-thread devices, tiles in local memory: steps for cl/attention/tiled.cl. */
#include "ops/attention/attention.h"
#include "ops/lowering.h"

/* Rows of a tile: as many as fit in local memory, where four tiles of a head's numbers go; 0: none fit. */
static int64_t tile_rows(const kn_target *target, const kn_node *node, int64_t head) {
    uint64_t bytes = kn_dtype_bytes(kn_accumulator(node, node->outputs[0]->shape.dtype));
    for (int64_t rows = 16; rows >= 4; rows /= 2) {
        uint64_t stride = 4 * ((uint64_t)((head + 3) / 4) | 1);
        uint64_t numbers = 4 * (uint64_t)rows * stride + 2 * (uint64_t)(rows * (rows + 1));
        if (numbers * bytes <= target->local_bytes &&
            (size_t)(4 * rows) <= kn_group_limit(target, "attention/tiled.cl"))
            return rows;
    }
    return 0;
}

bool kn_attention_tiled_accepts(const kn_target *target, const kn_node *node) {
    kn_attention_form form;
    kn_attention_describe(node, kn_attention_first(node), &form);
    return kn_has_kernels(node->outputs[0]->shape.dtype) && tile_rows(target, node, form.head) > 0;
}

static kn_step *begin_tiled(kn_lowering *lowering, const kn_attention_form *form, int64_t rows,
                            const char *kernel) {
    kn_dtype type = lowering->node->outputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, "attention/tiled.cl", kernel);
    kn_step_types(step, lowering->node, type);
    kn_step_define(step, "KN_HEAD", "%d", (int)form->head);
    kn_step_define(step, "KN_ROWS", "%d", (int)rows);
    kn_attention_define_limits(step, form);
    return step;
}

/* `length` rows of `heads` heads are in tiles, each of which adds over `depth` rows of the other side by
 * `products` products; where the attention is causal, half of them are skipped, but for tiles at the
 * diagonal. */
static kn_status end_tiled(kn_step *step, kn_lowering *lowering, const kn_attention_form *form, int64_t rows,
                           int64_t length, int64_t heads, int64_t depth, int products) {
    size_t items = (size_t)(4 * rows), tiles = (size_t)kn_divide_up(length, rows);
    kn_attention_add_numbers(step, lowering->node, form);
    kn_step_tile(step, &(kn_step_tiles){.rows = length,
                                        .columns = form->head,
                                        .depth = depth,
                                        .batches = heads * form->batches,
                                        .tile_rows = (int)rows,
                                        .tile_columns = (int)form->head,
                                        .tile_depth = (int)rows,
                                        .products = products,
                                        .parts = 1,
                                        .part_depth = form->causal ? (depth + rows) / 2 : depth});
    kn_step_size3(step, (size_t[3]){tiles * items, (size_t)heads, (size_t)form->batches},
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
    kn_status status = KN_OK;
    for (int by_keys = 0; by_keys < 2 && status == KN_OK; by_keys++) {
        kn_step *step =
            begin_tiled(lowering, form, rows, by_keys ? "kn_attention_keys" : "kn_attention_queries");
        kn_step_read(step, "dy", node->inputs[KN_ATTENTION_DY]);
        if (!by_keys) kn_step_read(step, "y", node->inputs[KN_ATTENTION_Y]);
        kn_step_read(step, "log_sum", node->inputs[KN_ATTENTION_LOG_SUM]);
        if (by_keys)
            kn_step_read_scratch(step, "delta", delta);
        else
            kn_step_scratch(step, "delta", delta);
        kn_attention_read_parts(step, node, form, KN_ATTENTION_Q);
        for (int part = by_keys; part <= 2 * by_keys; part++)
            kn_step_write(step, kn_attention_gradient_names[part],
                          kn_attention_part(node->outputs, form, part));
        /* Of the five products two belong to the queries. */
        kn_step_cost(step, cost.flops * (by_keys ? 0.6 : 0.4), cost.bytes / 2);
        status = by_keys ? end_tiled(step, lowering, form, rows, form->keys, form->key_heads,
                                     form->queries * form->group, 4)
                         : end_tiled(step, lowering, form, rows, form->queries, form->heads, form->keys, 3);
    }
    return status;
}

kn_status kn_attention_tiled_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    kn_attention_form form;
    kn_attention_describe(node, kn_attention_first(node), &form);
    if (kn_attention_is_empty(&form)) return kn_attention_fill_zero(lowering);
    int64_t rows = tile_rows(lowering->target, node, form.head);
    if (node->op->backward) return lower_tiled_gradient(lowering, &form, rows);
    kn_step *step = begin_tiled(lowering, &form, rows, "kn_attention");
    kn_attention_read_parts(step, node, &form, 0);
    kn_step_write(step, "y", lowering->result);
    kn_step_write(step, "log_sum", node->outputs[1]);
    return end_tiled(step, lowering, &form, rows, form.queries, form.heads, form.keys, 2);
}
