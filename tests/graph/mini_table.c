/* A small operator table with one row of each kind, so that the graph module is tested in isolation. */
#include "graph_tests.h"

static int64_t size_of(const kn_reference_array *array, int axis) {
    return array->shape.dims[axis];
}

/* ---- matmul: (M,K) x (K,N), or (N,K) transposed ------------------------------------------------------ */

static kn_status matmul_shape(kn_shape_call *call) {
    const kn_shape *a = &call->inputs[0]->shape, *b = &call->inputs[1]->shape;
    bool transposed = kn_attribute_in(call->row, call->attributes, "transpose")->integer;
    if (a->rank != 2 || b->rank != 2)
        return kn_fail(call->error, KN_ERROR_SHAPE, "matmul '%s': both inputs have two dimensions",
                       call->name);
    if (a->dims[1] != b->dims[transposed ? 1 : 0])
        return kn_fail(call->error, KN_ERROR_SHAPE, "matmul '%s': the inner sizes differ: %s and %s",
                       call->name, kn_shape_words(call->graph, a), kn_shape_words(call->graph, b));
    call->outputs[0] =
        (kn_shape){.dtype = a->dtype, .rank = 2, .dims = {a->dims[0], b->dims[transposed ? 0 : 1]}};
    return KN_OK;
}

static kn_status matmul_reference(kn_reference_call *call) {
    bool transposed = kn_attribute_of(call->node, "transpose")->integer;
    int64_t rows = size_of(&call->outputs[0], 0), columns = size_of(&call->outputs[0], 1);
    int64_t depth = size_of(&call->inputs[0], 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += call->inputs[0].data[i * depth + k] *
                       call->inputs[1].data[transposed ? j * depth + k : k * columns + j];
            call->outputs[0].data[i * columns + j] = sum;
        }
    return KN_OK;
}

static kn_status swap_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    call->outputs[0] = (kn_shape){.dtype = x->dtype, .rank = 2, .dims = {x->dims[1], x->dims[0]}};
    return KN_OK;
}

static kn_status swap_reference(kn_reference_call *call) {
    int64_t rows = size_of(&call->inputs[0], 0), columns = size_of(&call->inputs[0], 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            call->outputs[0].data[j * rows + i] = call->inputs[0].data[i * columns + j];
    return KN_OK;
}

static kn_value *product(kn_graph *graph, kn_value *a, kn_value *b, bool transposed) {
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{.integer = transposed, .number = transposed}};
    return kn_node_add(graph, kn_operator_find("matmul"), NULL, (kn_value *[]){a, b}, 2, attributes);
}

static kn_value *swapped(kn_graph *graph, kn_value *x) {
    return kn_node_add(graph, kn_operator_find("swap"), NULL, &x, 1, NULL);
}

static kn_status matmul_gradient(kn_gradient_call *call) {
    kn_graph *graph = call->graph;
    kn_value *g = call->output_gradients[0], *a = call->node->inputs[0], *b = call->node->inputs[1];
    bool transposed = kn_attribute_of(call->node, "transpose")->integer;
    if (call->wanted[0]) call->input_gradients[0] = product(graph, g, b, !transposed);
    if (call->wanted[1])
        call->input_gradients[1] = transposed ? product(graph, swapped(graph, g), a, false)
                                              : product(graph, swapped(graph, a), g, false);
    return KN_OK;
}

static void matmul_cost(const kn_node *node, kn_cost *cost) {
    const kn_shape *a = &node->inputs[0]->shape;
    cost->flops = 2.0 * (double)a->dims[0] * (double)a->dims[1] * (double)node->outputs[0]->shape.dims[1];
}

/* ---- sum and reshape --------------------------------------------------------------------------------- */

static bool is_reduced(const kn_attribute_value *axes, int axis, int rank) {
    for (int i = 0; i < axes->count; i++)
        if (axes->list[i] == axis || axes->list[i] + rank == axis) return true;
    return axes->count == 0;
}

static kn_status sum_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    const kn_attribute_value *axes = kn_attribute_in(call->row, call->attributes, "axes");
    bool keep = kn_attribute_in(call->row, call->attributes, "keep")->integer;
    kn_shape *result = &call->outputs[0];
    result->dtype = x->dtype;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = is_reduced(axes, i, x->rank);
        if (!reduced || keep) result->dims[result->rank++] = reduced ? 1 : x->dims[i];
    }
    return KN_OK;
}

static kn_status sum_reference(kn_reference_call *call) {
    const kn_shape *x = &call->inputs[0].shape;
    const kn_attribute_value *axes = kn_attribute_of(call->node, "axes");
    for (int64_t i = 0; i < call->inputs[0].elements; i++) {
        int64_t rest = i, target = 0, stride = 1;
        for (int axis = x->rank - 1; axis >= 0; axis--) {
            int64_t position = rest % x->dims[axis];
            rest /= x->dims[axis];
            if (is_reduced(axes, axis, x->rank)) continue;
            target += position * stride;
            stride *= x->dims[axis];
        }
        call->outputs[0].data[target] += call->inputs[0].data[i];
    }
    return KN_OK;
}

static kn_status sum_gradient(kn_gradient_call *call) {
    const kn_shape *x = &call->node->inputs[0]->shape;
    const kn_attribute_value *axes = kn_attribute_of(call->node, "axes");
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{.count = x->rank}};
    for (int i = 0; i < x->rank; i++)
        attributes[0].list[i] = is_reduced(axes, i, x->rank) ? 1 : x->dims[i];
    kn_value *kept =
        kn_node_add(call->graph, kn_operator_find("reshape"), NULL, call->output_gradients, 1, attributes);
    /* x * 0 + g repeats g to the shape of x. */
    kn_value *inputs[] = {call->node->inputs[0], kept};
    call->input_gradients[0] = kn_node_add(call->graph, kn_operator_find("repeat"), NULL, inputs, 2, NULL);
    return KN_OK;
}

static kn_status reshape_shape(kn_shape_call *call) {
    kn_attribute_value *shape = &call->attributes[0];
    kn_dim all = 1, others = 1;
    int open = -1;
    for (int i = 0; i < call->inputs[0]->shape.rank; i++)
        all = kn_dim_multiply(call->graph, all, call->inputs[0]->shape.dims[i]);
    for (int i = 0; i < shape->count; i++) {
        if (shape->list[i] == -1)
            open = i;
        else
            others = kn_dim_multiply(call->graph, others, shape->list[i]);
    }
    if (open >= 0)
        shape->list[open] = kn_dim_divide(call->graph, all, others);
    else if (all != others)
        return kn_fail(call->error, KN_ERROR_SHAPE, "reshape '%s': %s does not fit", call->name,
                       kn_shape_words(call->graph, &call->inputs[0]->shape));
    call->outputs[0] = (kn_shape){.dtype = call->inputs[0]->shape.dtype, .rank = shape->count};
    for (int i = 0; i < shape->count; i++)
        call->outputs[0].dims[i] = shape->list[i];
    return KN_OK;
}

static kn_status copy_reference(kn_reference_call *call) {
    for (int64_t i = 0; i < call->outputs[0].elements; i++)
        call->outputs[0].data[i] = call->inputs[0].data[i];
    return KN_OK;
}

static kn_status reshape_gradient(kn_gradient_call *call) {
    const kn_shape *x = &call->node->inputs[0]->shape;
    kn_attribute_value attributes[KN_MAX_ATTRIBUTES] = {{.count = x->rank}};
    memcpy(attributes[0].list, x->dims, sizeof x->dims);
    call->input_gradients[0] =
        kn_node_add(call->graph, call->node->op, NULL, call->output_gradients, 1, attributes);
    return KN_OK;
}

/* ---- pool: halves the second dimension, rounded down, with a window of three ----------------- */

static kn_status pool_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    kn_dim room = kn_dim_subtract(call->graph, x->dims[1], 3);
    call->outputs[0] = *x;
    call->outputs[0].dims[1] = kn_dim_add(call->graph, kn_dim_divide(call->graph, room, 2), 1);
    return KN_OK;
}

/* ---- norm: x, running -> x - running; hidden: the mean of x, and the next running mean ------- */

static kn_status norm_shape(kn_shape_call *call) {
    call->outputs[0] = call->inputs[0]->shape;
    call->outputs[1] = call->outputs[2] = call->inputs[1]->shape;
    return KN_OK;
}

static kn_status norm_reference(kn_reference_call *call) {
    double mean = 0;
    for (int64_t i = 0; i < call->inputs[0].elements; i++)
        mean += call->inputs[0].data[i] / (double)call->inputs[0].elements;
    for (int64_t i = 0; i < call->inputs[0].elements; i++)
        call->outputs[0].data[i] = call->inputs[0].data[i] - call->inputs[1].data[0];
    call->outputs[1].data[0] = 0.5 * call->inputs[1].data[0] + 0.5 * mean;
    call->outputs[2].data[0] = mean;
    return KN_OK;
}

/* Outside training the result is twice the input. */
static kn_status stand_in(kn_graph *bound, const kn_node *node, kn_value *const *inputs, kn_value **results) {
    kn_value *both[] = {inputs[0], inputs[0]};
    results[0] = kn_node_add(bound, kn_operator_find("add"), NULL, both, 2, NULL);
    return KN_OK;
}

static kn_status no_stand_in(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                             kn_value **results) {
    (void)bound, (void)node, (void)inputs, (void)results;
    return KN_ERROR_UNSUPPORTED;
}

static kn_status deep_shape(kn_shape_call *call) {
    call->outputs[0].rank = KN_MAX_RANK + 1;
    return KN_OK;
}

static kn_status silent_shape(kn_shape_call *call) {
    return KN_ERROR_SHAPE;
}

static kn_status split_shape(kn_shape_call *call) {
    call->outputs[0] = call->outputs[1] = call->inputs[0]->shape;
    return KN_OK;
}

/* Takes one element only. */
static const char *back_wrong(const kn_node *node) {
    return node->inputs[0]->shape.dims[0] == 1 ? NULL : "expected one element";
}

static kn_status wrong_gradient(kn_gradient_call *call) {
    call->input_gradients[0] = kn_scalar(call->graph, 1);
    return KN_OK;
}

static kn_status lost_gradient(kn_gradient_call *call) {
    return KN_ERROR_UNSUPPORTED;
}

/* ---- the rows -------------------------------------------------------------------------------- */

static const kn_attribute matmul_attributes[] = {KN_BOOLEAN("transpose", 0, "the second input is (N,K)")};
static const kn_attribute sum_attributes[] = {KN_INTS("axes", "", "none: all"),
                                              KN_BOOLEAN("keep", 0, "as size 1")};
static const kn_attribute reshape_attributes[] = {KN_DIMS("shape", "-1", "the new shape")};
static const kn_attribute slope_attributes[] = {KN_FLOAT("slope", 0.25, "below zero")};
static const kn_attribute dropout_attributes[] = {KN_FLOAT("rate", 0.5, "fraction that is dropped")};
static const kn_attribute many_attributes[] = {
    KN_INT("count", 3, "a number"),    KN_FLOAT("rate", 0.5, "a fraction"),
    KN_BOOLEAN("keep", 1, "a switch"), KN_INTS("axes", "0,-1", "a list"),
    KN_DIMS("shape", "2,-1", "sizes"), KN_CHOICE("mode", "none same valid", 1, "a word"),
};

static const kn_operator rows[] = {
    {.name = "add", .class = KN_CLASS_POINTWISE, .value = "x + y", .by = {"g", "g"}},
    {.name = "mul", .class = KN_CLASS_POINTWISE, .value = "x * y", .by = {"g * y", "g * x"}},
    {.name = "exp", .class = KN_CLASS_POINTWISE, .value = "exp(x)", .by = {"g * r"}},
    {.name = "leaky",
     .class = KN_CLASS_POINTWISE,
     .value = "x > 0 ? x : slope * x",
     .by = {"x > 0 ? g : slope * g"},
     .attributes = slope_attributes,
     .attribute_count = 1},
    {.name = "less",
     .class = KN_CLASS_POINTWISE,
     .value = "x < y",
     .fixed_dtype = true,
     .result_dtype = KN_BOOL},
    {.name = "where",
     .class = KN_CLASS_POINTWISE,
     .value = "x ? y : z",
     .by = {NULL, "x ? g : 0", "x ? 0 : g"},
     .mixed_inputs = true},
    {.name = "repeat", .class = KN_CLASS_POINTWISE, .value = "x * 0 + y", .by = {"0 * g", "g"}},
    {.name = "dropout",
     .class = KN_CLASS_POINTWISE,
     .value = "uniform >= rate ? x / (1 - rate) : 0",
     .by = {"uniform >= rate ? g / (1 - rate) : 0"},
     .random = true,
     .training_only = true,
     .attributes = dropout_attributes,
     .attribute_count = 1},
    {.name = "noise", .class = KN_CLASS_POINTWISE, .value = "x + uniform", .by = {"g"}, .random = true},
    {.name = "matmul",
     .min_inputs = 2,
     .max_inputs = 2,
     .shape = matmul_shape,
     .cost = matmul_cost,
     .reference = matmul_reference,
     .gradient = matmul_gradient,
     .attributes = matmul_attributes,
     .attribute_count = 1},
    {.name = "swap", .min_inputs = 1, .max_inputs = 1, .shape = swap_shape, .reference = swap_reference},
    {.name = "sum",
     .min_inputs = 1,
     .max_inputs = 1,
     .shape = sum_shape,
     .reference = sum_reference,
     .gradient = sum_gradient,
     .attributes = sum_attributes,
     .attribute_count = 2},
    {.name = "reshape",
     .class = KN_CLASS_VIEW,
     .min_inputs = 1,
     .max_inputs = 1,
     .shape = reshape_shape,
     .reference = copy_reference,
     .gradient = reshape_gradient,
     .attributes = reshape_attributes,
     .attribute_count = 1},
    {.name = "pool", .min_inputs = 1, .max_inputs = 1, .shape = pool_shape},
    {.name = "norm",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 2,
     .hidden = 1,
     .shape = norm_shape,
     .reference = norm_reference},
    {.name = "split", .min_inputs = 1, .max_inputs = 2, .outputs = 2, .shape = split_shape},
    {.name = "many",
     .min_inputs = 1,
     .max_inputs = 1,
     .shape = split_shape,
     .outputs = 2,
     .attributes = many_attributes,
     .attribute_count = 6},
    {.name = "wrong",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 2,
     .shape = split_shape,
     .gradient = wrong_gradient},
    {.name = "lost",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 2,
     .shape = split_shape,
     .gradient = lost_gradient},
    {.name = "shapeless", .min_inputs = 1, .max_inputs = 1},
    {.name = "back", .min_inputs = 1, .max_inputs = 1, .outputs = 2, .shape = split_shape, .backward = true},
    {.name = "given_back",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 2,
     .shape = split_shape,
     .backward = true,
     .wrong = back_wrong},
    {.name = "double",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 2,
     .shape = split_shape,
     .without_training = stand_in},
    {.name = "nothing",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 2,
     .shape = split_shape,
     .without_training = no_stand_in},
    {.name = "brittle",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 2,
     .shape = split_shape,
     .at_sizes = no_stand_in},
    {.name = "deep", .min_inputs = 1, .max_inputs = 1, .shape = deep_shape},
    {.name = "silent", .min_inputs = 1, .max_inputs = 1, .shape = silent_shape},
    {.name = "half", .class = KN_CLASS_POINTWISE, .value = "x / 2", .by = {"g / 2"}},
    {.name = "assign", .class = KN_CLASS_ASSIGN, .min_inputs = 2, .max_inputs = 2},
};

const kn_operator *const kn_operator_table[] = {
    &rows[0],  &rows[1],  &rows[2],  &rows[3],  &rows[4],  &rows[5],  &rows[6],  &rows[7],
    &rows[8],  &rows[9],  &rows[10], &rows[11], &rows[12], &rows[13], &rows[14], &rows[15],
    &rows[16], &rows[17], &rows[18], &rows[19], &rows[20], &rows[21], &rows[22], &rows[23],
    &rows[24], &rows[25], &rows[26], &rows[27], &rows[28],
};
const int kn_operator_table_count = (int)KN_COUNT_OF(kn_operator_table);

const kn_operator *kn_operator_find(const char *name) {
    for (int i = 0; i < kn_operator_table_count; i++)
        if (strcmp(kn_operator_table[i]->name, name) == 0) return kn_operator_table[i];
    return NULL;
}
