/* Attention on many-thread devices, with tiles in local memory: steps for cl/attention/tiled.cl, and
 * for fragment.cl, whose kernels have the same arguments. */
#include "ops/attention/attention.h"
#include "ops/lowering.h"

/* ---- steps ------------------------------------------------------------------------------------------ */

bool kn_attention_tiles_fit(const kn_target *target, const kn_node *node, const kn_attention_tiling *tiling) {
    kn_attention_form form;
    kn_attention_tile tile;
    kn_attention_describe(node, kn_attention_first(node), &form);
    if (!node->op->backward) return tiling->choose(target, node, &form, KN_ATTENTION_FORWARD, &tile);
    return tiling->choose(target, node, &form, KN_ATTENTION_QUERIES, &tile) &&
           tiling->choose(target, node, &form, KN_ATTENTION_KEYS, &tile);
}

static kn_step *begin(kn_lowering *lowering, const kn_attention_form *form, const kn_attention_tiling *tiling,
                      const kn_attention_tile *tile, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, tile->file, kernel);
    kn_step_types(step, lowering->node, lowering->node->outputs[0]->shape.dtype);
    KN_STEP_DEFINE(step, {"KN_HEAD", form->head});
    tiling->define(step, lowering, form, tile);
    kn_attention_define_limits(step, form);
    return step;
}

/* `length` rows of `heads` heads are in tiles, each of which adds over `depth` rows of the other side with
 * `products` products; causal attention skips half of them, except for tiles on the diagonal. */
static kn_status end(kn_step *step, kn_lowering *lowering, const kn_attention_form *form,
                     const kn_attention_tile *tile, int64_t length, int64_t heads, int64_t depth,
                     int products) {
    const size_t tiles = (size_t)kn_divide_up(length, tile->rows);
    kn_attention_add_numbers(step, lowering->node, form);
    kn_step_tile(step, &(kn_step_tiles){.rows = length,
                                        .columns = form->head,
                                        .depth = depth,
                                        .batches = heads * form->batches,
                                        .tile_rows = tile->rows,
                                        .tile_columns = (int)form->head,
                                        .tile_depth = tile->depth,
                                        .products = products,
                                        .parts = 1,
                                        .part_depth = form->causal ? (depth + tile->rows) / 2 : depth,
                                        .matrix = tile->unit != KN_MATRIX_UNIT_NONE});
    kn_step_size3(step, (size_t[3]){tiles * tile->items, (size_t)heads, (size_t)form->batches},
                  (size_t[3]){tile->items, 1, 1});
    if (step) step->tiles_too_large = tile->tiles_too_large;
    return kn_step_end(step, lowering);
}

static kn_status lower_gradient(kn_lowering *lowering, const kn_attention_form *form,
                                const kn_attention_tiling *tiling) {
    const kn_node *node = lowering->node;
    kn_dtype type = kn_accumulator(node, node->outputs[0]->shape.dtype);
    uint64_t sums = (uint64_t)(form->batches * form->heads * form->queries);
    kn_cost cost;
    kn_node_cost(node, &cost);
    int delta = kn_emit_scratch(lowering, sums * kn_dtype_bytes(type));
    kn_status status = KN_OK;
    for (int by_keys = 0; by_keys < 2 && status == KN_OK; by_keys++) {
        kn_attention_tile tile = {.rows = 0};
        tiling->choose(lowering->target, node, form, by_keys ? KN_ATTENTION_KEYS : KN_ATTENTION_QUERIES,
                       &tile);
        kn_step *step =
            begin(lowering, form, tiling, &tile, by_keys ? "kn_attention_keys" : "kn_attention_queries");
        kn_step_bind_values(step, lowering);
        if (by_keys)
            kn_step_read_scratch(step, "delta", delta);
        else
            kn_step_scratch(step, "delta", delta);
        kn_attention_read_parts(step, node, form, KN_ATTENTION_Q);
        for (int part = by_keys; part <= 2 * by_keys; part++)
            kn_step_write(step, kn_attention_gradient_names[part],
                          kn_attention_part(node->outputs, form, part));
        /* Two of the five products are for the queries. */
        kn_step_cost(step, cost.flops * (by_keys ? 0.6 : 0.4), cost.bytes / 2);
        status = by_keys ? end(step, lowering, form, &tile, form->keys, form->key_heads,
                               form->queries * form->group, 4)
                         : end(step, lowering, form, &tile, form->queries, form->heads, form->keys, 3);
    }
    return status;
}

kn_status kn_attention_lower_tiles(kn_lowering *lowering, const kn_attention_tiling *tiling) {
    const kn_node *node = lowering->node;
    kn_attention_form form;
    kn_attention_tile tile = {.rows = 0};
    kn_attention_describe(node, kn_attention_first(node), &form);
    if (kn_attention_is_empty(&form)) return kn_attention_fill_zero(lowering);
    if (node->op->backward) return lower_gradient(lowering, &form, tiling);
    tiling->choose(lowering->target, node, &form, KN_ATTENTION_FORWARD, &tile);
    kn_step *step = begin(lowering, &form, tiling, &tile, "kn_attention_forward");
    kn_attention_read_parts(step, node, &form, 0);
    kn_step_bind_values(step, lowering);
    return end(step, lowering, &form, &tile, form.queries, form.heads, form.keys, 2);
}

/* ---- by the work-items ------------------------------------------------------------------------------ */

/* Chooses as many rows as fit in local memory with four tiles of a head's elements. */
static bool choose(const kn_target *target, const kn_node *node, const kn_attention_form *form,
                   kn_attention_pass pass, kn_attention_tile *tile) {
    (void)pass;
    static const char file[] = "attention/tiled.cl";
    uint64_t bytes = kn_dtype_bytes(kn_accumulator(node, node->outputs[0]->shape.dtype));
    for (int rows = 16; rows >= 4; rows /= 2) {
        uint64_t stride = 4 * ((uint64_t)((form->head + 3) / 4) | 1);
        uint64_t numbers = 4 * (uint64_t)rows * stride + 2 * (uint64_t)(rows * (rows + 1));
        *tile = (kn_attention_tile){.file = file, .rows = rows, .depth = rows, .items = 4 * (size_t)rows};
        if (numbers * bytes <= target->local_bytes && tile->items <= kn_group_limit(target, file))
            return true;
    }
    return false;
}

static void define(kn_step *step, const kn_lowering *lowering, const kn_attention_form *form,
                   const kn_attention_tile *tile) {
    (void)lowering, (void)form;
    KN_STEP_DEFINE(step, {"KN_ROWS", tile->rows});
}

static const kn_attention_tiling tiling = {choose, define};

bool kn_attention_tiled_accepts(const kn_target *target, const kn_node *node) {
    return kn_has_kernels(node->outputs[0]->shape.dtype) && kn_attention_tiles_fit(target, node, &tiling);
}

kn_status kn_attention_tiled_lower(kn_lowering *lowering) {
    return kn_attention_lower_tiles(lowering, &tiling);
}
