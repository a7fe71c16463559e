/* Operators that compute nothing: reshape and flatten are views; broadcast repeats elements as it reads. Copy
 * and assign move whole values. */
#include <string.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

/* The product of dimensions, except entries of -1. */
static kn_dim product(kn_graph *graph, int count, const kn_dim *dims) {
    kn_dim result = 1;
    for (int i = 0; i < count; i++)
        if (dims[i] != -1) result = kn_dim_multiply(graph, result, dims[i]);
    return result;
}

/* ---- reshape ------------------------------------------------------------------------------------- */

/* One dimension of the new shape may be -1: it is inferred from the number of elements of x. */
static kn_status reshape_shape(kn_shape_call *call) {
    kn_graph *graph = call->graph;
    const kn_shape *x = &call->inputs[0]->shape;
    kn_attribute_value *shape = kn_shape_attribute(call, "shape");
    int open = -1;
    if (shape->count > KN_MAX_RANK)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "the shape has %d dimensions; at most %d are supported",
                             shape->count, KN_MAX_RANK);
    for (int i = 0; i < shape->count; i++) {
        if (shape->list[i] != -1) continue;
        if (open >= 0)
            return kn_shape_fail(call, KN_ERROR_SHAPE, "two dimensions are -1; only one can be inferred");
        open = i;
    }
    kn_dim elements = product(graph, x->rank, x->dims), given = product(graph, shape->count, shape->list);
    kn_shape *y = &call->outputs[0];
    y->dtype = x->dtype;
    y->rank = shape->count;
    for (int i = 0; i < shape->count; i++)
        y->dims[i] = shape->list[i];
    bool fits = elements == given;
    if (open >= 0) {
        if (given == 0)
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "x is %s; with a dimension of 0 the -1 cannot be inferred",
                                 kn_shape_words_of(call, 0));
        kn_dim rest = kn_dim_divide(graph, elements, given);
        y->dims[open] = shape->list[open] = rest;
        /* With symbols, divisibility is checked when they are bound. */
        fits = !kn_dim_known(elements) || !kn_dim_known(given) || elements % given == 0;
    }
    if (fits) return KN_OK;
    return kn_shape_fail(
        call, KN_ERROR_SHAPE,
        "x is %s, whose number of elements does not match %s; one of the sizes may be -1 to infer it",
        kn_shape_words_of(call, 0), strchr(kn_shape_words(graph, y), '('));
}

/* (N, everything else). */
static kn_status flatten_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    if (x->rank < 1)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected a batch, (N, ...)",
                             kn_shape_words_of(call, 0));
    kn_shape *y = &call->outputs[0];
    y->dtype = x->dtype;
    y->rank = 2;
    y->dims[0] = x->dims[0];
    y->dims[1] = product(call->graph, x->rank - 1, x->dims + 1);
    return KN_OK;
}

static kn_status view_gradient(kn_gradient_call *call) {
    if (call->output_gradients[0] && call->wanted[0])
        call->input_gradients[0] =
            kn_gradient_reshape(call, call->output_gradients[0], &call->node->inputs[0]->shape);
    return kn_gradient_status(call);
}

static kn_status same_numbers(kn_reference_call *call) {
    if (call->outputs[0].elements)
        memcpy(call->outputs[0].data, call->inputs[0].data,
               (size_t)call->outputs[0].elements * sizeof(double));
    return KN_OK;
}

KN_OPERATOR(reshape, .class = KN_CLASS_VIEW, .help = "the same elements in another shape",
            KN_ATTRIBUTES(KN_DIMS("shape", "", "new dimensions; one may be -1")), .min_inputs = 1,
            .max_inputs = 1, .shape = reshape_shape, .gradient = view_gradient, .reference = same_numbers,
            KN_CASES({.inputs = {"3,7"}, .attributes = "shape=7,3", .smallest = true},
                     {.inputs = {"2,3,31"}, .attributes = "shape=-1,31"},
                     {.inputs = {"1,1"}, .attributes = "shape="},
                     {.inputs = {"0,5"}, .attributes = "shape=5,0"}));
KN_OPERATOR(flatten, .class = KN_CLASS_VIEW, .help = "merges all axes except the first", .min_inputs = 1,
            .max_inputs = 1, .shape = flatten_shape, .gradient = view_gradient, .reference = same_numbers,
            KN_CASES({.inputs = {"3,7,2"}, .smallest = true}, {.inputs = {"7"}}, {.inputs = {"2,3,31,1"}},
                     {.inputs = {"0,5,3"}}));

/* ---- broadcast -------------------------------------------------------------------------------------- */

static kn_status broadcast_shape(kn_shape_call *call) {
    const kn_attribute_value *shape = kn_shape_attribute(call, "shape");
    const kn_shape *x = &call->inputs[0]->shape;
    kn_shape target = {.dtype = x->dtype, .rank = shape->count}, *y = &call->outputs[0];
    if (shape->count > KN_MAX_RANK)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "the shape has %d dimensions; at most %d are supported",
                             shape->count, KN_MAX_RANK);
    for (int i = 0; i < shape->count; i++)
        target.dims[i] = shape->list[i];
    if (!kn_shape_broadcast(call->graph, x, &target, y) || y->rank != target.rank ||
        !kn_shape_same(y, &target))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s and cannot be broadcast to %s; expected sizes that are equal, or 1 in "
                             "x, aligned at the last axis",
                             kn_shape_words_of(call, 0), kn_shape_words(call->graph, &target));
    return KN_OK;
}

KN_POINTWISE(broadcast, .help = "broadcasts x along axes of size 1", .value = "x", .by = {"g"},
             KN_ATTRIBUTES(KN_DIMS("shape", "", "dimensions of the result")), .any_type = true,
             .shape = broadcast_shape,
             KN_CASES({.inputs = {"7"}, .attributes = "shape=3,7", .smallest = true},
                      {.inputs = {"31,1"}, .attributes = "shape=31,33"},
                      {.inputs = {""}, .attributes = "shape=7,93"},
                      {.inputs = {"3,1,5,1"}, .attributes = "shape=3,7,5,2"},
                      {.inputs = {"float8e8m0 31,1"},
                       .ranges = {"1..2"},
                       .attributes = "shape=31,33",
                       .no_gradient = true},
                      {.inputs = {"1,5"}, .attributes = "shape=0,5"}));

/* ---- copy and assign ---------------------------------------------------------------------------------- */

static kn_status copy_gradient(kn_gradient_call *call) {
    if (call->wanted[0]) call->input_gradients[0] = call->output_gradients[0];
    return KN_OK;
}

static kn_status lower_copy(kn_lowering *lowering) {
    if (kn_elements_of(lowering->node->inputs[0]) == 0) return KN_OK;
    return kn_emit_copy(lowering, lowering->node->inputs[0], lowering->result);
}

KN_OPERATOR(copy, .help = "a copy of the value in separate memory", .min_inputs = 1, .max_inputs = 1,
            .any_type = true, .shape = kn_shape_like_first, .gradient = copy_gradient,
            .reference = same_numbers,
            KN_VARIANTS({.name = "copy", .lower = lower_copy, .promise.any = true}),
            KN_CASES({.inputs = {"7"}, .smallest = true}, {.inputs = {"31,33"}},
                     {.inputs = {"int32 93"}, .no_gradient = true},
                     {.inputs = {"float8e5m2fnuz 93"}, .no_gradient = true},
                     {.inputs = {"bool 7,3"}, .ranges = {"0..1"}, .no_gradient = true}, {.inputs = {"0,5"}}));

/* ---- the same bits ------------------------------------------------------------------------------------ */

/* x has any shape; the result's type has the same size. */
static kn_status bitcast_shape(kn_shape_call *call) {
    const kn_dtype from = call->inputs[0]->shape.dtype;
    const kn_dtype dtype = (kn_dtype)kn_shape_attribute(call, "dtype")->integer;
    call->outputs[0] = call->inputs[0]->shape;
    call->outputs[0].dtype = dtype;
    if (kn_dtype_bytes(from) == kn_dtype_bytes(dtype) && dtype != KN_BOOL) return KN_OK;
    return kn_shape_fail(call, KN_ERROR_DTYPE, "x is %s, whose elements do not have the size of %s",
                         kn_shape_words_of(call, 0), kn_dtype_name(dtype));
}

static kn_status bitcast_reference(kn_reference_call *call) {
    for (int64_t i = 0; i < call->outputs[0].elements; i++) {
        uint64_t element = 0;
        kn_element_set(call->inputs[0].shape.dtype, &element, 0, call->inputs[0].data[i]);
        call->outputs[0].data[i] = kn_element_get(call->outputs[0].shape.dtype, &element, 0);
    }
    return KN_OK;
}

KN_OPERATOR(
    bitcast, .help = "the same bits as another type of the same size", KN_ATTRIBUTES(KN_RESULT_DTYPE),
    .min_inputs = 1, .max_inputs = 1, .any_type = true, .shape = bitcast_shape,
    .reference = bitcast_reference, KN_VARIANTS({.name = "copy", .lower = lower_copy}),
    KN_CASES(
        {.inputs = {"7"}, .attributes = "dtype=int32", .no_gradient = true, .smallest = true},
        {.inputs = {"int32 31,33"},
         .ranges = {"1065353216..1082130431"},
         .attributes = "dtype=float32",
         .no_gradient = true},
        {.inputs = {"int8 93"}, .ranges = {"-128..127"}, .attributes = "dtype=uint8", .no_gradient = true},
        {.inputs = {"uint16 3,7"}, .ranges = {"0..65535"}, .attributes = "dtype=int16", .no_gradient = true},
        {.inputs = {"uint32 3,7"}, .ranges = {"0..99"}, .attributes = "dtype=int32", .no_gradient = true},
        {.inputs = {"bool 7"}, .ranges = {"0..1"}, .attributes = "dtype=uint8", .no_gradient = true},
        {.inputs = {"float16 31"}, .attributes = "dtype=int16", .no_gradient = true},
        {.inputs = {"0,5"}, .attributes = "dtype=int32"}));

/* The first input is the state, the second its new value. The graph checks that their shapes agree. */
KN_OPERATOR(assign, .class = KN_CLASS_ASSIGN, .help = "writes a state at the end of a run", .min_inputs = 2,
            .max_inputs = 2);

/* ---- builders -------------------------------------------------------------------------------- */

/* The text becomes the attribute "shape", which has no spaces. */
static kn_value *with_shape(const kn_operator *row, kn_value *x, const char *text) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_error error = {0};
    kn_settings settings = {.row = row};
    kn_text attribute;
    kn_text_init(&attribute, &graph->host);
    kn_text_add(&attribute, "shape=");
    for (; text && *text; text++)
        if (*text != ' ') kn_text_add_bytes(&attribute, text, 1);
    if (kn_text_failed(&attribute))
        kn_fail_memory(&error, attribute.length);
    else
        kn_attributes_parse(graph, row, attribute.data, settings.values, &error);
    kn_text_finish(&attribute);
    if (error.status) return kn_graph_fail(graph, error.status, "%s", error.text);
    return kn_build(row, &x, 1, &settings);
}

kn_value *kn_reshape(kn_value *x, const char *shape) {
    return with_shape(&kn_row_reshape, x, shape);
}
kn_value *kn_broadcast(kn_value *x, const char *shape) {
    return with_shape(&kn_row_broadcast, x, shape);
}
kn_value *kn_flatten(kn_value *x) {
    return kn_build1(&kn_row_flatten, x);
}
