/* Attention on slices of one value: if q, k and v are adjacent slices in this order, the packed value is read
 * in place, and has one gradient instead of three to be concatenated. */
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/lowering.h"
#include "ops/shape/shape.h"

/* A slice of the columns of a value whose last axis has `columns`. */
typedef struct part_of {
    kn_value *whole;
    int64_t columns, begin;
} part_of;

/* Whether x (B,T,C) is a slice of columns of a value, possibly with views in between. The slice may be along
 * an axis before the last one, such as axis 2 of (B,T,3,C), where each element is a range of adjacent
 * columns. */
static bool is_part(kn_value *x, part_of *part) {
    kn_node *slice = kn_value_root(x)->producer;
    if (!slice || slice->derivative || slice->op != &kn_row_slice) return false;
    const kn_shape *from = &slice->inputs[0]->shape, *to = &slice->outputs[0]->shape;
    const int axis = kn_axis_of(slice, from->rank);
    const kn_lanes lanes = kn_lanes_of(from, axis);
    int64_t begin = kn_attribute_of(slice, "begin")->integer;
    if (begin < 0) begin += lanes.size;
    if (kn_attribute_of(slice, "step")->integer != 1 || to->dims[axis] * lanes.inner != x->shape.dims[2])
        return false;
    *part = (part_of){kn_value_root(slice->inputs[0]), lanes.size * lanes.inner, begin * lanes.inner};
    return true;
}

/* For at_sizes (graph/operator.h) of attention. */
kn_status kn_attention_of_parts(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                kn_value **results) {
    part_of parts[3];
    kn_value *packed[KN_MAX_INPUTS];
    int64_t column = 0;
    if (node->input_count < 3) return KN_OK;
    for (int i = 0; i < 3; i++) {
        if (!inputs[i] || inputs[i]->failed || inputs[i]->shape.rank != 3 || !is_part(inputs[i], &parts[i]))
            return KN_OK;
        const kn_shape *own = &inputs[i]->shape, *first = &inputs[0]->shape;
        if (parts[i].whole != parts[0].whole || parts[i].columns != parts[0].columns ||
            parts[i].begin != column || own->dims[0] != first->dims[0] || own->dims[1] != first->dims[1])
            return KN_OK;
        column += own->dims[2];
    }
    if (column != parts[0].columns) return KN_OK;
    const kn_dim dims[3] = {inputs[0]->shape.dims[0], inputs[0]->shape.dims[1], column};
    packed[0] = kn_reshape_to(parts[0].whole, 3, dims);
    for (int i = 3; i < node->input_count; i++)
        packed[i - 2] = inputs[i];
    kn_settings settings;
    kn_settings_init(&settings, bound, node->op);
    kn_settings_copy(&settings, node);
    kn_value *made = kn_build(node->op, packed, node->input_count - 2, &settings);
    if (kn_value_failed(made)) return bound->error.status;
    for (int i = 0; i < node->output_count && i < made->producer->output_count; i++)
        results[i] = made->producer->outputs[i];
    return KN_OK;
}
