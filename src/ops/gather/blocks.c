/* Weights in quantized blocks as float32: all, some rows, or rows selected by index (cl/gather/blocks.cl). */
#include "ops/gather/blocks.h"

#include <inttypes.h>
#include <math.h>

#include "ops/build.h"
#include "ops/lowering.h"
#include "ops/shape_rule.h"

/* ---- blocks ------------------------------------------------------------------------------------------- */

static void describe(const kn_shape *codes, int64_t number, kn_blocks_form *form) {
    *form = (kn_blocks_form){.type = kn_block_type_find((int)number), .rows = codes->dims[0]};
    form->blocks = codes->dims[1] / form->type->bytes;
    form->columns = form->blocks * form->type->weights;
}

void kn_blocks_describe(const kn_node *node, int input, kn_blocks_form *form) {
    describe(&node->inputs[input]->shape, kn_attribute_of(node, "type")->integer, form);
}

bool kn_shape_blocks(kn_shape_call *call, int input, kn_blocks_form *form) {
    const int64_t number = kn_shape_attribute(call, "type")->integer;
    const kn_shape *codes = &call->inputs[input]->shape;
    const kn_block_type *type = number >= 0 && number <= INT32_MAX ? kn_block_type_find((int)number) : NULL;
    if (!type || !kn_block_type_has_fields(type)) {
        kn_shape_fail(call, KN_ERROR_ARGUMENT,
                      "type is %" PRId64 "; expected the number of a type of blocks in GGUF files", number);
        return false;
    }
    if (codes->dtype != KN_UINT8 || codes->rank != 2 || !kn_dim_known(codes->dims[0]) ||
        !kn_dim_known(codes->dims[1]) || codes->dims[1] % type->bytes) {
        kn_shape_fail(call, KN_ERROR_SHAPE,
                      "the blocks are %s; expected uint8 (rows,bytes) with a multiple of %d bytes for %s",
                      kn_shape_words_of(call, input), type->bytes, type->name);
        return false;
    }
    describe(codes, number, form);
    return true;
}

kn_status kn_reference_blocks(const kn_reference_call *call, int input, double *to, int64_t first,
                              int64_t rows) {
    const kn_reference_array *codes = &call->inputs[input];
    kn_blocks_form form;
    describe(&codes->shape, kn_attribute_of(call->node, "type")->integer, &form);
    float weights[KN_BLOCK_MOST_WEIGHTS];
    uint8_t *bytes = kn_allocate(call->host, (size_t)codes->elements + 1, 1);
    if (!bytes) return kn_fail_memory(call->error, (size_t)codes->elements);
    for (int64_t i = 0; i < codes->elements; i++)
        bytes[i] = (uint8_t)codes->data[i];
    for (int64_t b = first * form.blocks; b < (first + rows) * form.blocks; b++) {
        kn_blocks_widen_arranged(form.type, bytes, (uint64_t)(form.rows * form.blocks), (uint64_t)b, 1,
                                 weights);
        for (int i = 0; i < form.type->weights; i++)
            *to++ = (double)weights[i];
    }
    kn_release(call->host, bytes);
    return KN_OK;
}

kn_value *kn_build_blocks(const kn_operator *row, kn_value *const *inputs, int count,
                          const kn_block_type *type) {
    if (kn_value_failed(inputs[0])) return inputs[0];
    kn_settings settings;
    kn_settings_init(&settings, inputs[0]->graph, row);
    kn_settings_int(&settings, "type", type->number);
    return kn_build(row, inputs, count, &settings);
}

kn_value *kn_widen_rows(kn_value *codes, const kn_block_type *type, int64_t first, int64_t rows) {
    if (kn_value_failed(codes)) return codes;
    kn_settings settings;
    kn_settings_init(&settings, codes->graph, &kn_row_widen_blocks);
    kn_settings_int(&settings, "type", type->number);
    kn_settings_int(&settings, "first", first);
    kn_settings_int(&settings, "rows", rows);
    return kn_build(&kn_row_widen_blocks, &codes, 1, &settings);
}

kn_value *kn_widen_again(kn_value *x) {
    const kn_node *node = x && !x->failed ? x->producer : NULL;
    if (!node || node->op != &kn_row_widen_blocks) return x;
    const kn_node *again = kn_node_repeat(x->graph, node, node->inputs);
    return again ? again->outputs[0] : &x->graph->failed;
}

/* ---- shapes and references ---------------------------------------------------------------------------- */

/* The blocks are uint8 (N,bytes); the result is (rows,K). */
static kn_status widen_shape(kn_shape_call *call) {
    kn_blocks_form form;
    if (!kn_shape_blocks(call, 0, &form)) return call->error->status;
    kn_attribute_value *first = kn_shape_attribute(call, "first"), *rows = kn_shape_attribute(call, "rows");
    if (rows->integer < 0) rows->integer = form.rows - first->integer;
    if (first->integer < 0 || rows->integer < 0 || first->integer > form.rows ||
        rows->integer > form.rows - first->integer)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "%" PRId64 " rows from row %" PRId64 " on; the blocks have %" PRId64 " rows",
                             rows->integer, first->integer, form.rows);
    call->outputs[0] = (kn_shape){.dtype = KN_FLOAT32, .rank = 2, .dims = {rows->integer, form.columns}};
    return KN_OK;
}

static kn_status widen_reference(kn_reference_call *call) {
    return kn_reference_blocks(call, 0, call->outputs[0].data, kn_attribute_of(call->node, "first")->integer,
                               call->outputs[0].shape.dims[0]);
}

/* The table is uint8 (V,bytes), the indices int32 (...), the result (...,D). */
static kn_status embedding_shape(kn_shape_call *call) {
    const kn_shape *numbers = &call->inputs[1]->shape;
    kn_blocks_form form;
    if (!kn_shape_blocks(call, 0, &form)) return call->error->status;
    if (numbers->dtype != KN_INT32 || numbers->rank >= KN_MAX_RANK)
        return kn_shape_fail(call, KN_ERROR_DTYPE, "the indices are %s; expected int32 and fewer dimensions",
                             kn_shape_words_of(call, 1));
    kn_shape *y = &call->outputs[0];
    *y = *numbers;
    y->dtype = KN_FLOAT32;
    y->dims[y->rank++] = form.columns;
    return KN_OK;
}

static kn_status embedding_reference(kn_reference_call *call) {
    const kn_reference_array *numbers = &call->inputs[1];
    const int64_t rows = call->inputs[0].shape.dims[0];
    const int64_t columns = call->outputs[0].shape.dims[call->outputs[0].shape.rank - 1];
    kn_status status = KN_OK;
    for (int64_t i = 0; i < numbers->elements && status == KN_OK; i++) {
        const double number = numbers->data[i];
        double *to = call->outputs[0].data + i * columns;
        if (number >= 0 && number < (double)rows)
            status = kn_reference_blocks(call, 0, to, (int64_t)number, 1);
        else
            for (int64_t j = 0; j < columns; j++)
                to[j] = NAN;
    }
    return status;
}

/* Only the selected rows are read. */
static void embedding_cost(const kn_node *node, kn_cost *cost) {
    const double y = (double)kn_elements_of(node->outputs[0]);
    kn_blocks_form form;
    kn_blocks_describe(node, 0, &form);
    cost->flops = y;
    cost->bytes = y * (4 + (double)form.type->bytes / form.type->weights);
}

/* ---- lowering ----------------------------------------------------------------------------------------- */

enum { GROUP = 16, CHUNK = 1024 }; /* elements of a group, as in cl/common/blocks.cl; groups per work-item */

static kn_step *begin(kn_lowering *lowering, const char *kernel, const kn_blocks_form *form,
                      int64_t elements) {
    kn_step *step = kn_step_begin(lowering, "gather/blocks.cl", kernel);
    const int64_t count = elements / GROUP, chunk = lowering->target->wide_vector ? CHUNK : 1;
    KN_STEP_DEFINE(step, {"KN_BLOCKS", form->type->number});
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"count", count}, {"chunk", chunk});
    kn_step_size_free(step, kn_divide_up(count, chunk), lowering->target);
    return step;
}

static kn_status widen_lower(kn_lowering *lowering) {
    kn_blocks_form form;
    kn_blocks_describe(lowering->node, 0, &form);
    kn_step *step = begin(lowering, "kn_widen_blocks", &form, kn_elements_of(lowering->result));
    KN_STEP_SET(step, {"total", form.rows * form.blocks},
                {"first", kn_attribute_of(lowering->node, "first")->integer * form.blocks});
    return kn_step_end(step, lowering);
}

static kn_status embedding_lower(kn_lowering *lowering) {
    kn_blocks_form form;
    kn_blocks_describe(lowering->node, 0, &form);
    kn_step *step = begin(lowering, "kn_embedding_blocks", &form, kn_elements_of(lowering->result));
    KN_STEP_SET(step, {"rows", form.rows}, {"groups", form.columns / GROUP});
    return kn_step_end(step, lowering);
}

/* ---- rows --------------------------------------------------------------------------------------------- */

/* Random bytes that are small and positive as float16, too. */
#define BYTES "0..52"
#define CASE(number, bytes)                                                                                  \
    { .inputs = {"uint8 5," bytes}, .attributes = "type=" number, .ranges = {BYTES}, .no_gradient = true }

KN_OPERATOR(widen_blocks, .help = "weights in quantized blocks, uint8 (N,bytes), as float32; for states only",
            KN_ATTRIBUTES(KN_BLOCKS_TYPE, KN_INT("first", 0, "the first row"),
                          KN_INT("rows", -1, "rows; -1: all")),
            .min_inputs = 1, .max_inputs = 1, .input_names = {"codes"}, .output_names = {"y"},
            .backward = true, .wrong = kn_nothing_wrong, .transient = true, .matrices = true,
            .shape = widen_shape, .reference = widen_reference,
            KN_VARIANTS({.name = "plain", .lower = widen_lower, .promise.halves = {0, 1}}),
            KN_CASES({.inputs = {"uint8 7,54"},
                      .attributes = "type=2 first=2 rows=3",
                      .ranges = {BYTES},
                      .no_gradient = true,
                      .smallest = true},
                     CASE("2", "18"), CASE("3", "40"), CASE("6", "44"), CASE("7", "48"), CASE("8", "68"),
                     CASE("10", "168"), CASE("11", "220"), CASE("12", "288"), CASE("13", "352"),
                     CASE("14", "420"), CASE("20", "36"),
                     {.inputs = {"uint8 0,18"}, .attributes = "type=2", .no_gradient = true}));

KN_OPERATOR(embedding_blocks, .help = "rows, selected by int32 indices, of a table in quantized blocks",
            KN_ATTRIBUTES(KN_BLOCKS_TYPE), .min_inputs = 2, .max_inputs = 2,
            .input_names = {"table", "numbers"}, .output_names = {"y"}, .backward = true,
            .wrong = kn_nothing_wrong, .index = {.number = 2}, .shape = embedding_shape,
            .reference = embedding_reference, .cost = embedding_cost,
            KN_VARIANTS({.name = "plain", .lower = embedding_lower, .promise.halves = {0, 1}}),
            KN_CASES({.inputs = {"uint8 7,54", "int32 3"},
                      .attributes = "type=2",
                      .ranges = {BYTES, "0..6"},
                      .no_gradient = true,
                      .smallest = true},
                     {.inputs = {"uint8 9,68", "int32 2,31"},
                      .attributes = "type=8",
                      .ranges = {BYTES, "-1..9"},
                      .no_gradient = true},
                     {.inputs = {"uint8 33,420", "int32 3,7"},
                      .attributes = "type=14",
                      .ranges = {BYTES, "0..32"},
                      .no_gradient = true}));

kn_status kn_embedding_of_blocks(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                 kn_value **results) {
    kn_value *codes = kn_value_in_blocks(inputs[0]);
    (void)node;
    if (!codes) return KN_OK;
    kn_value *pair[2] = {codes, inputs[1]};
    results[0] = kn_build_blocks(&kn_row_embedding_blocks, pair, 2, codes->blocks);
    return bound->error.status;
}
