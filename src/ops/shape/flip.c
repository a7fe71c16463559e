/* Reverses axes (cl/shape/strided.cl). */
#include <string.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

/* Marks the axes of the node (all if there are none). */
static void marked(const kn_attribute_value *axes, int rank, bool flipped[KN_MAX_RANK]) {
    for (int i = 0; i < rank; i++)
        flipped[i] = axes->count == 0;
    for (int i = 0; i < axes->count; i++)
        flipped[axes->list[i] < 0 ? axes->list[i] + rank : axes->list[i]] = true;
}

static kn_status flip_shape(kn_shape_call *call) {
    const kn_attribute_value *axes = kn_shape_attribute(call, "axes");
    int axis;
    for (int i = 0; i < axes->count; i++)
        if (kn_shape_axis(call, axes->list[i], call->inputs[0]->shape.rank, &axis))
            return call->error->status;
    return kn_shape_like_first(call);
}

static kn_status flip_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    const kn_attribute_value *axes = kn_attribute_of(call->node, "axes");
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_flip);
    kn_settings_list(&settings, "axes", axes->count, axes->list);
    call->input_gradients[0] =
        kn_gradient_build(call, &kn_row_flip, &call->output_gradients[0], 1, &settings);
    return kn_gradient_status(call);
}

static kn_status flip_reference(kn_reference_call *call) {
    const kn_shape *x = &call->inputs[0].shape;
    bool flipped[KN_MAX_RANK];
    int64_t place[KN_MAX_RANK];
    marked(kn_attribute_of(call->node, "axes"), x->rank, flipped);
    for (int64_t i = 0; i < call->outputs[0].elements; i++) {
        kn_place_of(x, i, place);
        for (int axis = 0; axis < x->rank; axis++)
            if (flipped[axis]) place[axis] = x->dims[axis] - 1 - place[axis];
        call->outputs[0].data[i] = call->inputs[0].data[kn_position_of(x, place)];
    }
    return KN_OK;
}

static kn_status lower_flip(kn_lowering *lowering) {
    const kn_shape *x = &lowering->node->inputs[0]->shape;
    bool flipped[KN_MAX_RANK];
    kn_strided_copy copy = {.from = lowering->node->inputs[0], .to = lowering->result, .rank = x->rank};
    marked(kn_attribute_of(lowering->node, "axes"), x->rank, flipped);
    kn_row_strides(x, copy.from_strides);
    kn_row_strides(x, copy.to_strides);
    memcpy(copy.sizes, x->dims, sizeof copy.sizes);
    for (int i = 0; i < x->rank; i++)
        if (flipped[i]) {
            copy.from_offset += (x->dims[i] - 1) * copy.from_strides[i];
            copy.from_strides[i] = -copy.from_strides[i];
        }
    return kn_emit_strided_copy(lowering, &copy);
}

KN_OPERATOR(flip, .help = "x with axes reversed",
            KN_ATTRIBUTES(KN_INTS("axes", "", "axes to reverse, negative from the end; none: all")),
            .min_inputs = 1, .max_inputs = 1, .any_type = true, .shape = flip_shape,
            .gradient = flip_gradient, .reference = flip_reference,
            KN_VARIANTS(KN_WIDE_VARIANTS(lower_flip, kn_on_wide_vector, .name = "plain")),
            KN_CASES({.inputs = {"7,31"}, .attributes = "axes=1", .smallest = true},
                     {.inputs = {"7,31"}, .attributes = "axes=0"},
                     {.inputs = {"3,31,7"}, .attributes = "axes=-2"}, {.inputs = {"2,3,7,5"}},
                     {.inputs = {"2,3,7,5"}, .attributes = "axes=0,2"}, {.inputs = {"5,1,3"}},
                     {.inputs = {"int32 7,33"}, .attributes = "axes=1", .no_gradient = true},
                     {.inputs = {"float8e4m3fnuz 7,3"}, .no_gradient = true}, {.inputs = {"0,5"}},
                     {.inputs = {""}}));

/* ---- builder ------------------------------------------------------------------------------------------- */

kn_value *kn_flip(kn_value *x, const char *axes) {
    if (kn_value_failed(x)) return x;
    kn_dim numbers[KN_MAX_RANK];
    kn_settings settings;
    int count = kn_read_integers(x->graph, &kn_row_flip, axes, KN_MAX_RANK, numbers);
    if (count < 0) return &x->graph->failed;
    kn_settings_init(&settings, x->graph, &kn_row_flip);
    kn_settings_list(&settings, "axes", count, numbers);
    return kn_build(&kn_row_flip, &x, 1, &settings);
}
