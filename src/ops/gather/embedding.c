/* Gathers rows of a table by index (cl/gather/embedding.cl): tokens become vectors. */
#include <math.h>

#include "ops/build.h"
#include "ops/gather/blocks.h"
#include "ops/gather/gather.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_embedding, kn_row_embedding_gradient;

/* ---- shapes ---------------------------------------------------------------------------------------- */

static kn_status check_numbers(kn_shape_call *call) {
    const kn_shape *numbers = &call->inputs[1]->shape;
    if (numbers->dtype != KN_INT32)
        return kn_shape_fail(call, KN_ERROR_DTYPE, "the indices are %s; cast them to int32",
                             kn_shape_words_of(call, 1));
    if (numbers->rank >= KN_MAX_RANK)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "the indices are %s; expected at most %d dimensions",
                             kn_shape_words_of(call, 1), KN_MAX_RANK - 1);
    return KN_OK;
}

/* table is (V,D), the indices int32 (...), the result (...,D). */
static kn_status embedding_shape(kn_shape_call *call) {
    const kn_shape *table = &call->inputs[0]->shape;
    if (kn_shape_float_input(call, 0) || check_numbers(call)) return call->error->status;
    if (table->rank != 2)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "the table is %s; expected (rows,columns)",
                             kn_shape_words_of(call, 0));
    kn_shape *y = &call->outputs[0];
    *y = call->inputs[1]->shape;
    y->dtype = table->dtype;
    y->dims[y->rank++] = table->dims[1];
    return KN_OK;
}

/* dy is (...,D), the indices int32 (...), the result (rows,D). */
static kn_status gradient_shape(kn_shape_call *call) {
    const kn_shape *dy = &call->inputs[0]->shape, *numbers = &call->inputs[1]->shape;
    int64_t rows = kn_shape_attribute(call, "rows")->integer;
    if (kn_shape_float_input(call, 0) || check_numbers(call)) return call->error->status;
    kn_shape leading = *dy;
    leading.rank--;
    if (dy->rank != numbers->rank + 1 || !kn_shape_same(&leading, numbers))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "dy is %s and the indices are %s; expected dy to have one more dimension",
                             kn_shape_words_of(call, 0), kn_shape_words_of(call, 1));
    if (rows < 0) return kn_shape_fail(call, KN_ERROR_ARGUMENT, "%lld rows", (long long)rows);
    call->outputs[0] = (kn_shape){.dtype = dy->dtype, .rank = 2, .dims = {rows, dy->dims[dy->rank - 1]}};
    return KN_OK;
}

/* ---- references -------------------------------------------------------------------------------------- */

static kn_status embedding_reference(kn_reference_call *call) {
    const kn_reference_array *table = &call->inputs[0], *numbers = &call->inputs[1];
    int64_t rows = table->shape.dims[0], columns = table->shape.dims[1];
    for (int64_t i = 0; i < numbers->elements; i++) {
        double number = numbers->data[i];
        bool known = number >= 0 && number < (double)rows;
        for (int64_t j = 0; j < columns; j++)
            call->outputs[0].data[i * columns + j] = known ? table->data[(int64_t)number * columns + j] : NAN;
    }
    return KN_OK;
}

static kn_status gradient_reference(kn_reference_call *call) {
    const kn_reference_array *numbers = &call->inputs[1];
    int64_t rows = call->outputs[0].shape.dims[0], columns = call->outputs[0].shape.dims[1];
    for (int64_t i = 0; i < numbers->elements; i++) {
        double number = numbers->data[i];
        if (!(number >= 0 && number < (double)rows)) continue;
        for (int64_t j = 0; j < columns; j++)
            call->outputs[0].data[(int64_t)number * columns + j] += call->inputs[0].data[i * columns + j];
    }
    return KN_OK;
}

/* Only the gathered rows of the table are read. */
static void embedding_cost(const kn_node *node, kn_cost *cost) {
    kn_cost_set(node, 0, cost);
    const kn_value *table = node->inputs[0], *y = node->outputs[0];
    double size = (double)kn_dtype_bytes(y->shape.dtype);
    cost->bytes += size * ((double)kn_elements_of(y) - (double)kn_elements_of(table));
}

static void gradient_cost(const kn_node *node, kn_cost *cost) {
    kn_cost_set(node, (double)kn_elements_of(node->inputs[0]), cost);
}

/* ---- lowering ------------------------------------------------------------------------------------------ */

enum { ITEMS = 64, WORK = 16384 }; /* per group; the minimum elements per work-item */

static kn_status lower(kn_lowering *lowering) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    bool backward = node->op->backward;
    const kn_value *table = backward ? node->outputs[0] : node->inputs[0];
    int64_t count = kn_elements_of(node->inputs[1]);
    int64_t rows = table->shape.dims[0], columns = table->shape.dims[1], chunk = 1;
    if (kn_elements_of(node->outputs[0]) == 0) return KN_OK;
    kn_step *step =
        kn_step_begin(lowering, "gather/embedding.cl", backward ? "kn_embedding_gradient" : "kn_embedding");
    if (kn_is_half(table->shape.dtype)) { /* only the bits are moved */
        KN_STEP_DEFINE(step, {"KN_BITS", 1});
        kn_step_define(step, "KN_T", "ushort");
        kn_step_define(step, "KN_MISSING", table->shape.dtype == KN_FLOAT16 ? "0x7e00" : "0x7fc0");
    } else {
        kn_step_define_type(step, "KN_T", table->shape.dtype);
    }
    kn_step_define_type(step, "KN_A", kn_accumulator(node, table->shape.dtype));
    if (wide) {
        int64_t made = backward ? rows : count;
        KN_STEP_DEFINE(step, {"KN_WIDTH", target->vector_width});
        /* Each work-item reads all indices, so there are few work-items. */
        chunk = backward ? kn_divide_up(rows, 4 * (int64_t)target->compute_units) : WORK / columns + 1;
        kn_step_size1(step, (size_t)kn_divide_up(made, chunk), 1);
    } else {
        size_t items = kn_group_items_for(target, "gather/embedding.cl", ITEMS, ITEMS);
        KN_STEP_DEFINE(step, {"KN_ITEMS", items});
        if (backward) {
            int64_t across = kn_divide_up(columns, (int64_t)items);
            chunk = kn_divide_up(rows * across, 4096);
            kn_step_size2(step, (size_t)(across * (int64_t)items), (size_t)kn_divide_up(rows, chunk), items,
                          1);
        } else {
            kn_step_size1(step, (size_t)(count * columns), items);
        }
    }
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"count", count}, {"rows", rows}, {"columns", columns}, {"chunk", chunk});
    return kn_step_end(step, lowering);
}

/* ---- gradient and rows ----------------------------------------------------------------------- */

static kn_status embedding_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    kn_value *inputs[2] = {call->output_gradients[0], call->node->inputs[1]};
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_embedding_gradient);
    kn_settings_int(&settings, "rows", call->node->inputs[0]->shape.dims[0]);
    call->input_gradients[0] = kn_gradient_build(call, &kn_row_embedding_gradient, inputs, 2, &settings);
    return kn_gradient_status(call);
}

static bool takes_tables(const kn_target *target, const kn_node *node) {
    return kn_is_half(node->outputs[0]->shape.dtype) || kn_takes_kernel_types(target, node);
}
static bool takes_tables_wide(const kn_target *target, const kn_node *node) {
    return target->wide_vector && takes_tables(target, node);
}

KN_OPERATOR(embedding,
            .help = "rows of a table (V,D) selected by int32 indices; NaN if an index is out of range",
            .min_inputs = 2, .max_inputs = 2, .input_names = {"table", "numbers"}, .output_names = {"y"},
            .moves = true, .with_blocks = kn_embedding_of_blocks, .index = {.number = 2},
            .shape = embedding_shape, .gradient = embedding_gradient, .reference = embedding_reference,
            .cost = embedding_cost,
            KN_VARIANTS({.name = "wide",
                         .choice.accepts = takes_tables_wide,
                         .lower = lower,
                         .config = KN_METHOD_WIDE,
                         .promise.halves = {0, 1}},
                        {.name = "threads",
                         .choice.accepts = takes_tables,
                         .lower = lower,
                         .config = KN_METHOD_TREE,
                         .promise.halves = {0, 1}}),
            KN_CASES({.inputs = {"7,5", "int32 3"}, .ranges = {NULL, "0..6"}, .smallest = true},
                     {.inputs = {"3,33", "int32 2,7"}, .ranges = {NULL, "0..2"}, .smallest = true},
                     {.inputs = {"93,31", "int32 31,33"}, .ranges = {NULL, "0..92"}},
                     {.inputs = {"1,1", "int32"}, .ranges = {NULL, "0..0"}},
                     {.inputs = {"96,128", "int32 7,31"}, .ranges = {NULL, "0..95"}},
                     {.inputs = {"1033,7", "int32 93"}, .ranges = {NULL, "0..1032"}},
                     {.inputs = {"float16 5,17", "int32 31"}, .ranges = {NULL, "-2..6"}, .no_gradient = true},
                     {.inputs = {"5,17", "int32 31"}, .ranges = {NULL, "-2..6"}, .no_gradient = true},
                     {.inputs = {"5,7", "int32 0,3"}}, {.inputs = {"0,7", "int32 3"}, .no_gradient = true}));
KN_OPERATOR(
    embedding_gradient, .help = "gradient of embedding with respect to its table", .backward = true,
    .wrong = kn_nothing_wrong, KN_ATTRIBUTES(KN_INT("rows", 1, "rows of the table")), .min_inputs = 2,
    .max_inputs = 2, .input_names = {"dy", "numbers"}, .output_names = {"dtable"}, .shape = gradient_shape,
    .reference = gradient_reference, .cost = gradient_cost,
    KN_VARIANTS({.name = "wide",
                 .choice.accepts = kn_takes_kernel_types_wide,
                 .lower = lower,
                 .config = KN_METHOD_WIDE,
                 .promise.halves = {1, 0}},
                {.name = "threads",
                 .choice.accepts = kn_takes_kernel_types,
                 .lower = lower,
                 .config = KN_METHOD_TREE,
                 .promise.halves = {1, 0}}),
    KN_CASES(
        {.inputs = {"3,5", "int32 3"}, .ranges = {NULL, "-1..4"}, .attributes = "rows=4", .smallest = true},
        {.inputs = {"31,33,17", "int32 31,33"}, .ranges = {NULL, "0..92"}, .attributes = "rows=93"},
        {.inputs = {"7,31,128", "int32 7,31"}, .ranges = {NULL, "0..6"}, .attributes = "rows=9"},
        {.inputs = {"0,7", "int32 0"}, .attributes = "rows=3"}));

/* ---- what follows a table -------------------------------------------------------------------- */

/* The embedding that produced x, if its table has at most half as many rows as are gathered from it: then
 * operations on x can be applied to the table instead. */
static kn_node *small_table(const kn_value *x) {
    kn_node *node = x && !x->failed ? x->producer : NULL;
    if (!node || node->op != &kn_row_embedding || node->derivative) return NULL;
    return 2 * node->inputs[0]->shape.dims[0] <= kn_elements_of(node->inputs[1]) ? node : NULL;
}

static kn_value *pick(kn_graph *bound, kn_value *table, const kn_node *embedding) {
    if (kn_value_failed(table)) return NULL;
    kn_value *inputs[2] = {table, embedding->inputs[1]};
    return kn_node_add(bound, &kn_row_embedding, NULL, inputs, 2, NULL);
}

/* A product of gathered rows and a matrix equals gathered rows of the table times the matrix. x is (...,D), w
 * (D,N) or (N,D) */
kn_status kn_product_of_table(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                              kn_value **results) {
    const kn_node *embedding = small_table(inputs[0]);
    bool transpose_b = kn_attribute_of(node, "transpose_b")->integer != 0;
    if (!embedding || kn_attribute_of(node, "transpose_a")->integer || inputs[1]->shape.rank != 2 ||
        inputs[0]->shape.rank < 2)
        return KN_OK;
    kn_settings settings;
    kn_settings_init(&settings, bound, &kn_row_matmul);
    kn_settings_int(&settings, "transpose_b", transpose_b);
    kn_value *pair[2] = {embedding->inputs[0], inputs[1]};
    kn_value *product = kn_node_add(bound, &kn_row_matmul, NULL, pair, 2, settings.values);
    results[0] = pick(bound, product, embedding);
    return bound->error.status;
}

/* Gathered rows plus a bias (D) equal gathered rows of the table plus the bias. */
kn_status kn_sum_of_table(kn_graph *bound, const kn_node *node, kn_value *const *inputs, kn_value **results) {
    const kn_node *embedding = small_table(inputs[0]);
    (void)node;
    if (!embedding || inputs[1]->shape.rank != 1 ||
        inputs[1]->shape.dims[0] != embedding->inputs[0]->shape.dims[1])
        return KN_OK;
    kn_value *pair[2] = {embedding->inputs[0], inputs[1]};
    results[0] = pick(bound, kn_node_add(bound, &kn_row_add, NULL, pair, 2, NULL), embedding);
    return bound->error.status;
}

/* ---- builder --------------------------------------------------------------------------------- */

/* numbers are int32 (...), the table (rows,columns), the result (...,columns). */
kn_value *kn_embedding(kn_value *numbers, int64_t rows, int64_t columns, const kn_embedding_params *params) {
    if (kn_value_failed(numbers)) return numbers;
    kn_graph *graph = numbers->graph;
    kn_embedding_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(numbers, kn_embedding_params, &given, params);
    const char *layer = kn_layer_name(graph, given.name, "embedding");
    if (rows < 1 || columns < 1)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "embedding %s: a table of %lld rows and %lld columns; expected at least 1 each",
                             layer, (long long)rows, (long long)columns);
    const kn_shape shape = {.dtype = KN_FLOAT32, .rank = 2, .dims = {rows, columns}};
    const kn_initializer usual = {KN_INITIALIZER_NORMAL, 1};
    kn_value *table =
        kn_layer_parameter(graph, layer, "weight", &shape, given.weight ? given.weight : &usual, 1);
    kn_value *inputs[2] = {table, numbers};
    return kn_node_add(graph, &kn_row_embedding, layer, inputs, 2, NULL);
}
