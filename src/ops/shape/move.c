/* Operators that move elements: transpose, slice, concat and pad. */
#include <string.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

int64_t kn_position_of(const kn_shape *shape, const int64_t *place) {
    int64_t position = 0;
    for (int i = 0; i < shape->rank; i++)
        position = position * shape->dims[i] + place[i];
    return position;
}

void kn_place_of(const kn_shape *shape, int64_t position, int64_t *place) {
    for (int i = shape->rank - 1; i >= 0; i--) {
        place[i] = position % shape->dims[i];
        position /= shape->dims[i];
    }
}

void kn_row_strides(const kn_shape *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape->dims[i];
    }
}

/* ---- transpose ------------------------------------------------------------------------------- */

/* Axis i of the result is axis order[i] of x; false if it is not a permutation. */
static bool read_order(const kn_attribute_value *permutation, int rank, int order[KN_MAX_RANK]) {
    bool used[KN_MAX_RANK] = {false};
    if (permutation->count && permutation->count != rank) return false;
    for (int i = 0; i < rank; i++) {
        int64_t axis = permutation->count ? permutation->list[i] : rank - 1 - i;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank || used[axis]) return false;
        used[axis] = true;
        order[i] = (int)axis;
    }
    return true;
}

static kn_status transpose_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    kn_shape *y = &call->outputs[0];
    int order[KN_MAX_RANK];
    if (!read_order(kn_shape_attribute(call, "permutation"), x->rank, order))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected a permutation of its %d axes",
                             kn_shape_words_of(call, 0), x->rank);
    y->dtype = x->dtype;
    y->rank = x->rank;
    for (int i = 0; i < x->rank; i++)
        y->dims[i] = x->dims[order[i]];
    return KN_OK;
}

/* A transposition that moves only axes of size 1 keeps the order of the elements: it is a view, except of a
 * state, whose copy may be fetched after the state has changed. */
static kn_status transpose_at_sizes(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                    kn_value **results) {
    const kn_shape *x = &inputs[0]->shape;
    int order[KN_MAX_RANK], last = -1;
    kn_dim dims[KN_MAX_RANK];
    bool moves = false;
    if (!read_order(kn_attribute_of(node, "permutation"), x->rank, order) ||
        kn_value_root(inputs[0])->kind == KN_VALUE_STATE)
        return KN_OK;
    for (int i = 0; i < x->rank; i++) {
        dims[i] = x->dims[order[i]];
        moves = moves || order[i] != i;
        if (!kn_dim_known(dims[i])) return KN_OK;
        if (dims[i] == 1) continue;
        if (order[i] < last) return KN_OK;
        last = order[i];
    }
    if (moves) results[0] = kn_reshape_to(inputs[0], x->rank, dims);
    return bound->error.status;
}

static kn_status transpose_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    int rank = call->node->inputs[0]->shape.rank, order[KN_MAX_RANK];
    kn_dim back[KN_MAX_RANK];
    read_order(kn_attribute_of(call->node, "permutation"), rank, order);
    for (int i = 0; i < rank; i++)
        back[order[i]] = i;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_transpose);
    kn_settings_list(&settings, "permutation", rank, back);
    call->input_gradients[0] =
        kn_gradient_build(call, &kn_row_transpose, &call->output_gradients[0], 1, &settings);
    return kn_gradient_status(call);
}

static kn_status transpose_reference(kn_reference_call *call) {
    const kn_shape *x = &call->inputs[0].shape, *y = &call->outputs[0].shape;
    int order[KN_MAX_RANK];
    int64_t from[KN_MAX_RANK], to[KN_MAX_RANK];
    read_order(kn_attribute_of(call->node, "permutation"), x->rank, order);
    for (int64_t i = 0; i < call->outputs[0].elements; i++) {
        kn_place_of(y, i, to);
        for (int axis = 0; axis < x->rank; axis++)
            from[order[axis]] = to[axis];
        call->outputs[0].data[i] = call->inputs[0].data[kn_position_of(x, from)];
    }
    return KN_OK;
}

static kn_status lower_transpose(kn_lowering *lowering) {
    const kn_shape *x = &lowering->node->inputs[0]->shape, *y = &lowering->node->outputs[0]->shape;
    int order[KN_MAX_RANK];
    int64_t strides[KN_MAX_RANK];
    kn_strided_copy copy = {.from = lowering->node->inputs[0],
                            .to = lowering->result,
                            .plain = lowering->config == KN_METHOD_PLAIN,
                            .rank = x->rank};
    read_order(kn_attribute_of(lowering->node, "permutation"), x->rank, order);
    kn_row_strides(x, strides);
    kn_row_strides(y, copy.to_strides);
    for (int i = 0; i < x->rank; i++) {
        copy.sizes[i] = y->dims[i];
        copy.from_strides[i] = strides[order[i]];
    }
    return kn_emit_strided_copy(lowering, &copy);
}

KN_OPERATOR(transpose, .help = "permutes axes",
            KN_ATTRIBUTES(KN_INTS("permutation", "",
                                  "axis of x for each axis of the result; none: reversed")),
            .min_inputs = 1, .max_inputs = 1, .moves = true, .at_sizes = transpose_at_sizes,
            .shape = transpose_shape, .gradient = transpose_gradient, .reference = transpose_reference,
            KN_VARIANTS({.name = "wide",
                         .choice.accepts = kn_on_wide_vector,
                         .lower = lower_transpose,
                         .config = KN_METHOD_WIDE},
                        {.name = "tiled", .lower = lower_transpose, .config = KN_METHOD_TREE},
                        {.name = "plain", .lower = lower_transpose, .config = KN_METHOD_PLAIN}),
            KN_CASES({.inputs = {"7,31"}, .smallest = true},
                     {.inputs = {"3,7,5"}, .attributes = "permutation=1,0,2", .smallest = true},
                     {.inputs = {"93,33"}}, {.inputs = {"2,7,5,3"}, .attributes = "permutation=0,2,3,1"},
                     {.inputs = {"2,3,2,3,2,3,2,3"}, .attributes = "permutation=7,2,5,0,3,6,1,4"},
                     {.inputs = {"31,7,3"}, .attributes = "permutation=0,1,2"},
                     {.inputs = {"3,1,7"}, .attributes = "permutation=1,-1,0"}, {.inputs = {""}},
                     {.inputs = {"1,93,1"}}, {.inputs = {"int32 33,7"}, .no_gradient = true},
                     {.inputs = {"bool 7,33"}, .ranges = {"0..1"}, .no_gradient = true},
                     {.inputs = {"float8e5m2 33,7"}, .no_gradient = true}, {.inputs = {"0,5"}}));

/* ---- slice ----------------------------------------------------------------------------------- */

/* An end of at least this means the last element. It is exact in double, in which defaults are stored. */
#define TO_THE_END 4611686018427387904.0

/* A position along a dimension; negative positions count from its end. */
static kn_dim place_along(kn_graph *graph, kn_dim size, int64_t place) {
    if (place >= (int64_t)TO_THE_END) return size;
    return place < 0 ? kn_dim_subtract(graph, size, -place) : place;
}

/* Elements begin, begin + step, … before end. */
static kn_status slice_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    int64_t begin = kn_shape_attribute(call, "begin")->integer,
            end = kn_shape_attribute(call, "end")->integer;
    int64_t step = kn_shape_attribute(call, "step")->integer;
    int axis;
    if (kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, x->rank, &axis))
        return call->error->status;
    if (step < 1)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "the step is %lld; expected at least 1",
                             (long long)step);
    if (begin < -(int64_t)TO_THE_END || end < -(int64_t)TO_THE_END)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "begin or end is out of range");
    kn_dim size = x->dims[axis], first = place_along(call->graph, size, begin),
           last = place_along(call->graph, size, end);
    if (kn_dim_known(size)) {
        int64_t from = begin < 0 ? begin + size : begin, to = end >= (int64_t)TO_THE_END ? size
                                                              : end < 0                  ? end + size
                                                                                         : end;
        if (from < 0 || to > size || from > to)
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "x is %s; elements %lld to %lld of axis %d do not exist",
                                 kn_shape_words_of(call, 0), (long long)from, (long long)to - 1, axis);
    }
    call->outputs[0] = *x;
    kn_dim length = kn_dim_subtract(call->graph, last, first);
    if (step > 1) length = kn_dim_divide(call->graph, kn_dim_add(call->graph, length, step - 1), step);
    call->outputs[0].dims[axis] = length;
    return KN_OK;
}

typedef struct slice_numbers {
    int axis;
    int64_t begin, step;
} slice_numbers;

/* x is the larger array. */
static slice_numbers numbers_of(const kn_node *node, const kn_shape *x) {
    slice_numbers slice = {.axis = kn_axis_of(node, x->rank),
                           .begin = kn_attribute_of(node, "begin")->integer,
                           .step = kn_attribute_of(node, "step")->integer};
    if (slice.begin < 0) slice.begin += x->dims[slice.axis];
    return slice;
}

static kn_status slice_reference(kn_reference_call *call) {
    const kn_shape *x = &call->inputs[0].shape, *y = &call->outputs[0].shape;
    slice_numbers slice = numbers_of(call->node, x);
    int64_t place[KN_MAX_RANK];
    for (int64_t i = 0; i < call->outputs[0].elements; i++) {
        kn_place_of(y, i, place);
        place[slice.axis] = slice.begin + place[slice.axis] * slice.step;
        call->outputs[0].data[i] = call->inputs[0].data[kn_position_of(x, place)];
    }
    return KN_OK;
}

static kn_status lower_slice(kn_lowering *lowering) {
    const kn_shape *x = &lowering->node->inputs[0]->shape, *y = &lowering->node->outputs[0]->shape;
    slice_numbers slice = numbers_of(lowering->node, x);
    kn_strided_copy copy = {.from = lowering->node->inputs[0], .to = lowering->result, .rank = x->rank};
    kn_row_strides(x, copy.from_strides);
    kn_row_strides(y, copy.to_strides);
    copy.from_offset = slice.begin * copy.from_strides[slice.axis];
    copy.from_strides[slice.axis] *= slice.step;
    memcpy(copy.sizes, y->dims, sizeof copy.sizes);
    return kn_emit_strided_copy(lowering, &copy);
}

extern const kn_operator kn_row_slice_gradient;

static kn_status slice_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    const kn_shape *x = &call->node->inputs[0]->shape, *y = &call->node->outputs[0]->shape;
    slice_numbers slice = numbers_of(call->node, x);
    kn_settings settings;
    if (slice.step == 1) {
        kn_dim amounts[2 * KN_MAX_RANK] = {0};
        amounts[slice.axis] = slice.begin;
        amounts[x->rank + slice.axis] = x->dims[slice.axis] - slice.begin - y->dims[slice.axis];
        kn_settings_init(&settings, call->graph, &kn_row_pad);
        kn_settings_list(&settings, "amounts", 2 * x->rank, amounts);
    } else {
        kn_settings_init(&settings, call->graph, &kn_row_slice_gradient);
        kn_settings_int(&settings, "axis", slice.axis);
        kn_settings_int(&settings, "begin", slice.begin);
        kn_settings_int(&settings, "step", slice.step);
        kn_settings_int(&settings, "size", x->dims[slice.axis]);
    }
    call->input_gradients[0] =
        kn_gradient_build(call, settings.row, &call->output_gradients[0], 1, &settings);
    return kn_gradient_status(call);
}

KN_OPERATOR(slice, .help = "elements begin, begin + step, … along an axis",
            KN_ATTRIBUTES(KN_INT("axis", 0, "axis, negative from the end"),
                          KN_INT("begin", 0, "first element, negative from the end"),
                          KN_INT("end", TO_THE_END, "element after the last; default: all"),
                          KN_INT("step", 1, "distance between elements")),
            .min_inputs = 1, .max_inputs = 1, .moves = true, .identity = KN_IDENTITY_WHOLE,
            .shape = slice_shape, .gradient = slice_gradient, .reference = slice_reference,
            KN_VARIANTS(KN_WIDE_VARIANTS(lower_slice, kn_on_wide_vector, .name = "plain")),
            KN_CASES({.inputs = {"7,31"}, .attributes = "axis=1 begin=3 end=30", .smallest = true},
                     {.inputs = {"33,7"}, .attributes = "begin=1 end=-1"},
                     {.inputs = {"3,31,7"}, .attributes = "axis=-2 begin=-30"},
                     {.inputs = {"93"}, .attributes = "begin=2 step=7"},
                     {.inputs = {"3,33,5"}, .attributes = "axis=1 begin=1 end=32 step=3"},
                     {.inputs = {"7,3"}, .attributes = "begin=2 end=2"}, {.inputs = {"7,3"}},
                     {.inputs = {"int32 7,33"}, .attributes = "axis=1 begin=31", .no_gradient = true},
                     {.inputs = {"float4e2m1 7,33"}, .attributes = "axis=1 step=2", .no_gradient = true},
                     {.inputs = {"0,5"}, .attributes = "axis=1 begin=1"}));

/* ---- gradient of a slice with steps ---------------------------------------------------------- */

/* g is the smaller array; the result has `size` elements along the axis, 0 at positions that the slice
 * skipped. */
static kn_status slice_gradient_shape(kn_shape_call *call) {
    int64_t begin = kn_shape_attribute(call, "begin")->integer,
            size = kn_shape_attribute(call, "size")->integer;
    int64_t step = kn_shape_attribute(call, "step")->integer;
    int axis;
    if (kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, call->inputs[0]->shape.rank, &axis))
        return call->error->status;
    kn_dim length = call->inputs[0]->shape.dims[axis];
    if (step < 1 || begin < 0 || size < 0 || !kn_dim_known(length) ||
        (length > 0 && begin + (length - 1) * step >= size))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "g is %s, more than a slice of %lld elements has",
                             kn_shape_words_of(call, 0), (long long)size);
    call->outputs[0] = call->inputs[0]->shape;
    call->outputs[0].dims[axis] = size;
    return KN_OK;
}

static kn_status slice_gradient_reference(kn_reference_call *call) {
    const kn_shape *g = &call->inputs[0].shape, *x = &call->outputs[0].shape;
    slice_numbers slice = numbers_of(call->node, x);
    int64_t place[KN_MAX_RANK];
    for (int64_t i = 0; i < call->inputs[0].elements; i++) {
        kn_place_of(g, i, place);
        place[slice.axis] = slice.begin + place[slice.axis] * slice.step;
        call->outputs[0].data[kn_position_of(x, place)] = call->inputs[0].data[i];
    }
    return KN_OK;
}

static kn_status lower_slice_gradient(kn_lowering *lowering) {
    const kn_shape *g = &lowering->node->inputs[0]->shape, *x = &lowering->node->outputs[0]->shape;
    slice_numbers slice = numbers_of(lowering->node, x);
    if (kn_shape_elements(x) == 0) return KN_OK;
    kn_status status = kn_emit_fill_zero(lowering, lowering->result);
    if (status) return status;
    kn_strided_copy copy = {
        .from = lowering->node->inputs[0], .to = lowering->result, .rank = x->rank, .partial = true};
    kn_row_strides(g, copy.from_strides);
    kn_row_strides(x, copy.to_strides);
    copy.to_offset = slice.begin * copy.to_strides[slice.axis];
    copy.to_strides[slice.axis] *= slice.step;
    memcpy(copy.sizes, g->dims, sizeof copy.sizes);
    return kn_emit_strided_copy(lowering, &copy);
}

KN_OPERATOR(
    slice_gradient, .help = "gradient of a slice with a step",
    KN_ATTRIBUTES(KN_INT("axis", 0, "axis of the slice"), KN_INT("begin", 0, "first element of the slice"),
                  KN_INT("step", 1, "its step"), KN_INT("size", 0, "size of the axis")),
    .min_inputs = 1, .max_inputs = 1, .backward = true, .shape = slice_gradient_shape,
    .reference = slice_gradient_reference,
    KN_VARIANTS(KN_WIDE_VARIANTS(lower_slice_gradient, kn_on_wide_vector, .name = "plain")),
    KN_CASES({.inputs = {"7"}, .attributes = "begin=1 step=3 size=21", .no_gradient = true, .smallest = true},
             {.inputs = {"3,31,7"}, .attributes = "axis=1 step=2 size=61", .no_gradient = true},
             {.inputs = {"3,0"}, .attributes = "axis=1 step=2 size=5", .no_gradient = true}));

/* ---- concat ---------------------------------------------------------------------------------- */

/* All inputs have the same shape except along the axis. */
static kn_status concat_shape(kn_shape_call *call) {
    const kn_shape *first = &call->inputs[0]->shape;
    int axis;
    if (kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, first->rank, &axis))
        return call->error->status;
    call->outputs[0] = *first;
    for (int i = 1; i < call->input_count; i++) {
        kn_shape other = call->inputs[i]->shape;
        if (other.dtype != first->dtype)
            return kn_shape_fail(call, KN_ERROR_DTYPE,
                                 "input 0 is %s and input %d is %s; expected the same type",
                                 kn_shape_words_of(call, 0), i, kn_shape_words_of(call, i));
        if (other.rank == first->rank) {
            call->outputs[0].dims[axis] =
                kn_dim_add(call->graph, call->outputs[0].dims[axis], other.dims[axis]);
            other.dims[axis] = first->dims[axis];
        }
        if (other.rank != first->rank || !kn_shape_same(&other, first))
            return kn_shape_fail(
                call, KN_ERROR_SHAPE,
                "input 0 is %s and input %d is %s; expected the same sizes along all axes except axis %d",
                kn_shape_words_of(call, 0), i, kn_shape_words_of(call, i), axis);
    }
    return KN_OK;
}

static kn_status concat_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[0]) return KN_OK;
    int axis = kn_axis_of(node, node->outputs[0]->shape.rank);
    int64_t begin = 0;
    for (int i = 0; i < node->input_count; i++) {
        int64_t end = begin + node->inputs[i]->shape.dims[axis];
        if (call->wanted[i]) {
            kn_settings settings;
            kn_settings_init(&settings, call->graph, &kn_row_slice);
            kn_settings_int(&settings, "axis", axis);
            kn_settings_int(&settings, "begin", begin);
            kn_settings_int(&settings, "end", end);
            call->input_gradients[i] =
                kn_gradient_build(call, &kn_row_slice, &call->output_gradients[0], 1, &settings);
        }
        begin = end;
    }
    return kn_gradient_status(call);
}

static kn_status concat_reference(kn_reference_call *call) {
    const kn_shape *y = &call->outputs[0].shape;
    int axis = kn_axis_of(call->node, y->rank);
    int64_t begin = 0, place[KN_MAX_RANK];
    for (int i = 0; i < call->input_count; i++) {
        const kn_reference_array *x = &call->inputs[i];
        for (int64_t j = 0; j < x->elements; j++) {
            kn_place_of(&x->shape, j, place);
            place[axis] += begin;
            call->outputs[0].data[kn_position_of(y, place)] = x->data[j];
        }
        begin += x->shape.dims[axis];
    }
    return KN_OK;
}

static kn_status lower_concat(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_shape *y = &node->outputs[0]->shape;
    int axis = kn_axis_of(node, y->rank);
    int64_t begin = 0;
    for (int i = 0; i < node->input_count; i++) {
        const kn_shape *x = &node->inputs[i]->shape;
        kn_strided_copy copy = {.from = node->inputs[i],
                                .to = lowering->result,
                                .rank = y->rank,
                                .partial = node->input_count > 1};
        kn_row_strides(x, copy.from_strides);
        kn_row_strides(y, copy.to_strides);
        copy.to_offset = begin * copy.to_strides[axis];
        memcpy(copy.sizes, x->dims, sizeof copy.sizes);
        kn_status status = kn_emit_strided_copy(lowering, &copy);
        if (status) return status;
        begin += x->dims[axis];
    }
    return KN_OK;
}

KN_OPERATOR(concat, .help = "values concatenated along an axis",
            KN_ATTRIBUTES(KN_INT("axis", 0, "axis, negative from the end")), .min_inputs = 1,
            .max_inputs = KN_MAX_INPUTS, .any_type = true, .identity = KN_IDENTITY_WHOLE,
            .shape = concat_shape, .gradient = concat_gradient, .reference = concat_reference,
            KN_VARIANTS(KN_WIDE_VARIANTS(lower_concat, kn_on_wide_vector, .name = "plain")),
            KN_CASES({.inputs = {"3,7", "3,1"}, .attributes = "axis=1", .smallest = true},
                     {.inputs = {"7,31", "33,31"}},
                     {.inputs = {"2,3,7,5", "2,1,7,5", "2,4,7,5"}, .attributes = "axis=1"},
                     {.inputs = {"3,5,1", "3,5,93"}, .attributes = "axis=-1"}, {.inputs = {"7"}},
                     {.inputs = {"0,5", "3,5"}},
                     {.inputs = {"float8e4m3fn 3,2", "float8e4m3fn 3,5"},
                      .attributes = "axis=1",
                      .no_gradient = true},
                     {.inputs = {"int32 3,2", "int32 3,5"}, .attributes = "axis=1", .no_gradient = true}));

/* ---- pad ------------------------------------------------------------------------------------- */

static kn_status pad_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    const kn_attribute_value *amounts = kn_shape_attribute(call, "amounts");
    if (amounts->count != 2 * x->rank)
        return kn_shape_fail(
            call, KN_ERROR_SHAPE,
            "x is %s and there are %d amounts; expected %d, one before and then one after for each axis",
            kn_shape_words_of(call, 0), amounts->count, 2 * x->rank);
    call->outputs[0] = *x;
    for (int i = 0; i < x->rank; i++) {
        int64_t before = amounts->list[i], after = amounts->list[x->rank + i];
        if (before < 0 || after < 0 || before > INT32_MAX || after > INT32_MAX)
            return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                                 "the amount for axis %d is negative or too large (use slice to crop)", i);
        call->outputs[0].dims[i] = kn_dim_add(call->graph, x->dims[i], before + after);
    }
    return KN_OK;
}

/* The gradient removes the padding: a slice along each padded axis. */
static kn_status pad_gradient(kn_gradient_call *call) {
    const kn_attribute_value *amounts = kn_attribute_of(call->node, "amounts");
    const kn_shape *x = &call->node->inputs[0]->shape;
    kn_value *gradient = call->output_gradients[0];
    if (!gradient || !call->wanted[0]) return KN_OK;
    for (int i = 0; i < x->rank; i++) {
        if (!amounts->list[i] && !amounts->list[x->rank + i]) continue;
        kn_settings settings;
        kn_settings_init(&settings, call->graph, &kn_row_slice);
        kn_settings_int(&settings, "axis", i);
        kn_settings_int(&settings, "begin", amounts->list[i]);
        kn_settings_int(&settings, "end", amounts->list[i] + x->dims[i]);
        gradient = kn_gradient_build(call, &kn_row_slice, &gradient, 1, &settings);
    }
    call->input_gradients[0] = gradient;
    return kn_gradient_status(call);
}

static kn_status pad_reference(kn_reference_call *call) {
    const kn_shape *x = &call->inputs[0].shape, *y = &call->outputs[0].shape;
    const kn_attribute_value *amounts = kn_attribute_of(call->node, "amounts");
    double value = kn_attribute_of(call->node, "value")->number;
    int64_t place[KN_MAX_RANK];
    for (int64_t i = 0; i < call->outputs[0].elements; i++)
        call->outputs[0].data[i] = value;
    for (int64_t i = 0; i < call->inputs[0].elements; i++) {
        kn_place_of(x, i, place);
        for (int axis = 0; axis < x->rank; axis++)
            place[axis] += amounts->list[axis];
        call->outputs[0].data[kn_position_of(y, place)] = call->inputs[0].data[i];
    }
    return KN_OK;
}

static kn_status lower_pad(kn_lowering *lowering) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    const kn_attribute_value *amounts = kn_attribute_of(lowering->node, "amounts");
    return kn_emit_pad(lowering, amounts->list, kn_attribute_of(lowering->node, "value")->number, wide);
}

KN_OPERATOR(
    pad, .help = "x padded with a constant",
    KN_ATTRIBUTES(KN_INTS("amounts", "", "elements before each axis, then after each axis"),
                  KN_FLOAT("value", 0, "the constant")),
    .min_inputs = 1, .max_inputs = 1, .shape = pad_shape, .gradient = pad_gradient,
    .reference = pad_reference, KN_VARIANTS(KN_WIDE_VARIANTS(lower_pad, kn_on_wide_vector, .name = "plain")),
    KN_CASES({.inputs = {"3,7"}, .attributes = "amounts=0,1,2,1", .smallest = true},
             {.inputs = {"31"}, .attributes = "amounts=7,0 value=1.5"},
             {.inputs = {"2,3,7,5"}, .attributes = "amounts=0,0,1,2,0,0,1,0"},
             {.inputs = {"3,1,33"}, .attributes = "amounts=1,0,0,0,1,0 value=-1"},
             {.inputs = {"2,1,2,1,2,1,2,3"}, .attributes = "amounts=1,0,1,0,1,0,1,0,0,1,0,1,0,1,0,1"},
             {.inputs = {"7,3"}, .attributes = "amounts=0,0,0,0"},
             {.inputs = {"0,3"}, .attributes = "amounts=1,1,1,0 value=2"},
             {.inputs = {"int32 3,7"}, .attributes = "amounts=1,1,1,1 value=2147483647", .no_gradient = true},
             {.inputs = {"float64 3,7"}, .attributes = "amounts=1,0,0,1 value=0.1", .no_gradient = true}));

/* ---- builders -------------------------------------------------------------------------------- */

kn_value *kn_transpose(kn_value *x, const char *permutation) {
    if (kn_value_failed(x)) return x;
    kn_dim order[KN_MAX_RANK];
    int count = kn_read_integers(x->graph, &kn_row_transpose, permutation, KN_MAX_RANK, order);
    if (count < 0) return &x->graph->failed;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_transpose);
    kn_settings_list(&settings, "permutation", count, order);
    return kn_build(&kn_row_transpose, &x, 1, &settings);
}

kn_value *kn_slice(kn_value *x, int axis, int64_t begin, int64_t end) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_slice);
    kn_settings_int(&settings, "axis", axis);
    kn_settings_int(&settings, "begin", begin);
    kn_settings_int(&settings, "end", end);
    return kn_build(&kn_row_slice, &x, 1, &settings);
}

kn_value *kn_concat(kn_value *const *values, size_t count, int axis) {
    if (!values || !count || !values[0]) return NULL;
    kn_graph *graph = values[0]->graph;
    if (count > KN_MAX_INPUTS)
        return kn_graph_fail(graph, KN_ERROR_UNSUPPORTED, "concat: %zu values; at most %d at a time", count,
                             KN_MAX_INPUTS);
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_concat);
    kn_settings_int(&settings, "axis", axis);
    return kn_build(&kn_row_concat, values, (int)count, &settings);
}

kn_value *kn_pad(kn_value *x, const char *amounts, double value) {
    if (kn_value_failed(x)) return x;
    kn_dim numbers[2 * KN_MAX_RANK];
    int count = kn_read_integers(x->graph, &kn_row_pad, amounts, 2 * KN_MAX_RANK, numbers);
    if (count < 0) return &x->graph->failed;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_pad);
    kn_settings_list(&settings, "amounts", count, numbers);
    kn_settings_float(&settings, "value", value);
    return kn_build(&kn_row_pad, &x, 1, &settings);
}
