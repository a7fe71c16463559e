/* Matrix products on wide-vector devices: steps for cl/matmul/wide.cl. */
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"

/* LEFT_COLUMNS: columns of the panels that use the same packed rows; LEFT_PAD: padding of packed rows;
 * MAX_SUMS: rows of an item whose sums stay in local memory. */
enum {
    WIDE_LEVELS = 2,
    ROWS = 6,
    LEFT_ROWS = 96,
    LEFT_COLUMNS = 256,
    LEFT_PAD = 3,
    MAX_SUMS = 192,
    CHUNK_STEP = 16
};

/* Sizes as named in the kernel, chosen by shape. */
typedef struct wide_form {
    kn_matmul_form form;
    int64_t width, vectors, panels, depth, parts, part_depth, slice_depth, units;
    int64_t left_rows, item_panels; /* rows of a packed block of a, and the panels that use it */
    int64_t sums;                   /* rows whose sums stay in local memory: KN_SUMS of the kernel */
    bool packed, along;             /* b is packed; KN_LEFT_ALONG of the kernel */
    int64_t packed_batch;           /* floats of one packed b; 0 if all batches share it */
    int partials, weights;          /* scratch memory: the parts, and packed b */
} wide_form;

bool kn_matmul_wide_accepts(const kn_target *target, const kn_node *node) {
    kn_matmul_form form;
    if (!kn_has_vectors(target)) return false;
    kn_matmul_describe(node, &form);
    const kn_dtype type = node->outputs[0]->shape.dtype;
    return form.levels <= WIDE_LEVELS && (type == KN_FLOAT32 || kn_is_half(type));
}

/* A 16-bit b is widened while it is read: packing it in advance would take twice the memory. */
bool kn_matmul_packed_accepts(const kn_target *target, const kn_node *node) {
    return kn_matmul_wide_accepts(target, node) && node->inputs[1]->shape.dtype == KN_FLOAT32;
}

/* Local memory holds a chunk of panels, and of rows of a transposed a: the largest that fits. */
static void choose_chunks(wide_form *wide, uint64_t local_bytes) {
    const bool blocks = wide->form.transpose_a || wide->along || wide->sums;
    wide->depth = wide->form.transpose_a ? 256 : 512;
    wide->left_rows = blocks ? LEFT_ROWS : 0;
    const int64_t most = LEFT_COLUMNS / (wide->width * wide->vectors);
    wide->item_panels = !blocks ? 1 : wide->panels < most ? wide->panels : most;
    for (;;) {
        const int64_t columns = wide->item_panels * wide->width * wide->vectors;
        const int64_t column = (wide->packed ? 0 : wide->depth) + wide->sums;
        const int64_t floats = column * columns + (wide->depth + LEFT_PAD) * wide->left_rows;
        if ((uint64_t)floats * sizeof(float) <= local_bytes) break;
        if (wide->item_panels > 1)
            wide->item_panels /= 2;
        else if (wide->sums > LEFT_ROWS)
            wide->sums = kn_round_up(wide->sums / 2, ROWS);
        else if (wide->left_rows > LEFT_ROWS / 2)
            wide->left_rows = LEFT_ROWS / 2;
        else if (wide->depth > 32)
            wide->depth /= 2;
        else
            break;
    }
    /* Items of equal size: three panels and three rather than four and two. */
    if (blocks && wide->panels > 0)
        wide->item_panels = kn_divide_up(wide->panels, kn_divide_up(wide->panels, wide->item_panels));
}

static wide_form plan(kn_lowering *lowering, bool packed) {
    const kn_target *target = lowering->target;
    wide_form wide = {.packed = packed, .width = target->vector_width, .units = target->compute_units};
    kn_matmul_form *form = &wide.form;
    kn_matmul_describe(lowering->node, form);
    kn_matmul_merge_batches(form, lowering->epilogue);
    wide.vectors = kn_wide_vectors(wide.width, form->n);
    /* Two panels of three vectors rather than two of four with half of the second empty. */
    int64_t blocks = kn_divide_up(form->n, wide.width);
    if (wide.vectors == 4 && kn_round_up(blocks, 3) < kn_round_up(blocks, 4)) wide.vectors = 3;
    wide.panels = kn_divide_up(form->n, wide.width * wide.vectors);
    wide.parts = 1;
    wide.part_depth = form->k > 0 ? form->k : 1;
    /* With few tiles and a long sum, the sum is split, depending only on the shape, so that there is work for
     * all cores. */
    int64_t tiles = kn_divide_up(form->m, ROWS) * wide.panels * form->batches;
    if (tiles < 32 && form->k >= 1024) {
        int64_t parts = kn_divide_up(32, tiles), most = kn_divide_up(form->k, 512);
        if (parts > most) parts = most;
        wide.part_depth = kn_round_up(kn_divide_up(form->k, parts), 256);
        wide.parts = kn_divide_up(form->k, wide.part_depth);
    }
    /* A 16-bit a is widened in blocks; a 16-bit c is stored when its sums are complete. */
    wide.along = !form->transpose_a && kn_is_half(lowering->node->inputs[0]->shape.dtype);
    choose_chunks(&wide, target->local_bytes);
    if (wide.parts == 1 && kn_is_half(lowering->result->shape.dtype) && form->k > wide.depth) {
        wide.sums = form->m < MAX_SUMS ? kn_round_up(form->m, ROWS) : MAX_SUMS;
        wide.along = !form->transpose_a;
        choose_chunks(&wide, target->local_bytes);
    }
    /* Chunks of equal depth, so that partial sums are read and written as rarely as possible. */
    int64_t chunks = kn_divide_up(wide.part_depth, wide.depth);
    wide.slice_depth = kn_round_up(kn_divide_up(wide.part_depth, chunks), CHUNK_STEP);
    return wide;
}

static kn_step *begin(kn_lowering *lowering, const wide_form *wide, const char *kernel) {
    kn_step *step = kn_step_begin(lowering, "matmul/wide.cl", kernel);
    KN_STEP_DEFINE(step, {"KN_WIDTH", wide->width}, {"KN_VECTORS", wide->vectors},
                   {"KN_PACKED", wide->packed}, {"KN_DEPTH", wide->depth});
    if (wide->left_rows) {
        KN_STEP_DEFINE(step, {"KN_LEFT_ROWS", wide->left_rows}, {"KN_PANELS", wide->item_panels});
    }
    if (wide->along) KN_STEP_DEFINE(step, {"KN_LEFT_ALONG", 1});
    if (wide->sums) KN_STEP_DEFINE(step, {"KN_SUMS", wide->sums});
    return step;
}

void kn_matmul_bind(kn_step *step, const kn_matmul_form *form, int levels) {
    const int64_t *a = form->a_strides, *b = form->b_strides, *sizes = form->sizes;
    KN_STEP_BIND(step, {"m", form->m}, {"n", form->n}, {"k", form->k}, {"batches", form->batches},
                 {"middle", sizes[1]}, {"inner", sizes[0]}, {"batch_inner", sizes[0]},
                 {"a_outer", a[levels - 1]}, {"a_middle", a[1]}, {"a_inner", a[0]},
                 {"b_outer", b[levels - 1]}, {"b_middle", b[1]}, {"b_inner", b[0]},
                 {"c_outer", sizes[0] * form->m * form->n}, {"c_inner", form->m * form->n},
                 {"a_row", form->transpose_a ? 1 : form->k}, {"a_column", form->transpose_a ? form->m : 1},
                 {"b_row", form->transpose_b ? 1 : form->n}, {"b_column", form->transpose_b ? form->k : 1},
                 {"c_row", form->n});
}

static kn_status lower_sum(kn_lowering *lowering, const wide_form *wide) {
    const kn_matmul_form *form = &wide->form;
    int64_t rows = kn_divide_up(form->m, 4 * wide->units);
    kn_step *step = begin(lowering, wide, "kn_matmul_sum");
    kn_step_scratch(step, "source", wide->partials);
    kn_step_write(step, "c", lowering->result);
    KN_STEP_SET(step, {"parts", wide->parts}, {"source_row", form->n},
                {"source_part", form->batches * form->m * form->n}, {"source_batch", form->m * form->n},
                {"item_rows", rows}, {"item_columns", kn_round_up(form->n, wide->width)}, {"accumulate", 0});
    kn_matmul_bind(step, form, WIDE_LEVELS);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(form->m, rows), 1, form->batches);
    return kn_step_end(step, lowering);
}

static kn_status lower_pack(kn_lowering *lowering, wide_form *wide) {
    const kn_matmul_form *form = &wide->form;
    int64_t floats = wide->panels * form->k * wide->width * wide->vectors;
    int64_t panels = wide->panels / (4 * wide->units), batches = 1;
    if (panels < 1) panels = 1;
    if (form->b_strides[0] || form->b_strides[1]) {
        wide->packed_batch = floats;
        batches = form->batches;
    }
    wide->weights = kn_emit_scratch(lowering, (uint64_t)(floats * batches) * sizeof(float));
    kn_step *step = begin(lowering, wide, "kn_matmul_pack");
    kn_step_read(step, "b", lowering->node->inputs[1]);
    kn_step_scratch(step, "panels", wide->weights);
    KN_STEP_SET(step, {"panels_batch", wide->packed_batch}, {"item_panels", panels});
    kn_matmul_bind(step, form, WIDE_LEVELS);
    kn_step_size_wide(step, kn_divide_up(wide->panels, panels), 1, batches);
    return kn_step_end(step, lowering);
}

static kn_status lower_product(kn_lowering *lowering, wide_form *wide) {
    const kn_matmul_form *form = &wide->form;
    int64_t elements = form->batches * form->m * form->n;
    if (wide->parts > 1)
        wide->partials = kn_emit_scratch(lowering, (uint64_t)(wide->parts * elements) * sizeof(float));
    /* Each block of rows reads or packs its panel again: blocks are few, but enough for all cores. */
    int64_t item_panels = wide->item_panels, batches = form->batches * wide->parts;
    int64_t row_items = wide->left_rows ? kn_divide_up(form->m, wide->left_rows) : 1;
    while (item_panels > 1 && kn_divide_up(wide->panels, item_panels) * row_items * batches < 4 * wide->units)
        item_panels = kn_divide_up(item_panels, 2);
    int64_t panels = kn_divide_up(wide->panels, item_panels), items = panels * batches;
    int64_t rows = form->m, least = wide->packed ? 24 : 96;
    if (items < 4 * wide->units) {
        rows = kn_divide_up(form->m, kn_divide_up(4 * wide->units, items));
        rows = kn_round_up(rows, wide->left_rows && !wide->along ? wide->left_rows : ROWS);
        if (rows < least) rows = least;
    }
    if (wide->sums && rows > wide->sums)
        rows = kn_round_up(kn_divide_up(form->m, kn_divide_up(form->m, wide->sums)), ROWS);
    kn_step *step = begin(lowering, wide, "kn_matmul");
    if (wide->packed) {
        kn_step_read_scratch(step, "b", wide->weights);
        KN_STEP_SET(step, {"b_outer", form->sizes[0] * wide->packed_batch}, {"b_inner", wide->packed_batch});
    }
    if (wide->parts > 1) kn_step_scratch(step, "c", wide->partials);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"c_part", elements}, {"item_rows", rows}, {"item_panels", item_panels},
                {"part_depth", wide->part_depth}, {"slice_depth", wide->slice_depth}, {"accumulate", 0});
    kn_matmul_bind(step, form, WIDE_LEVELS);
    kn_step_cost_of_node(step, lowering);
    kn_step_epilogue(step, lowering);
    kn_step_size_wide(step, kn_divide_up(form->m, rows), panels, batches);
    kn_status status = kn_step_end(step, lowering);
    return status == KN_OK && wide->parts > 1 ? lower_sum(lowering, wide) : status;
}

kn_status kn_matmul_wide_lower(kn_lowering *lowering) {
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    const kn_skinny kind = kn_matmul_skinny_kind(lowering->node);
    if (kind != KN_SKINNY_NOT) return kn_matmul_skinny_lower(lowering, kind);
    wide_form wide = plan(lowering, false);
    return lower_product(lowering, &wide);
}

kn_status kn_matmul_packed_lower(kn_lowering *lowering) {
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    wide_form wide = plan(lowering, true);
    kn_status status = lower_pack(lowering, &wide);
    return status == KN_OK ? lower_product(lowering, &wide) : status;
}
