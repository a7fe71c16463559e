/* Helpers of gradient rules. */
#include "ops/gradient.h"

#include "ops/build.h"
#include "ops/pointwise/pointwise.h"
#include "ops/shape/shape.h"

kn_value *kn_gradient_build(kn_gradient_call *call, const kn_operator *row, kn_value *const *inputs,
                            int count, const kn_settings *settings) {
    kn_value *wide[KN_MAX_INPUTS];
    kn_halves halves = {0, 0};
    for (int i = 0; i < count; i++) {
        wide[i] = inputs[i];
        if (inputs[i] && kn_is_half(inputs[i]->shape.dtype)) halves.inputs |= 1u << i;
    }
    /* Results have the type of the inputs. */
    if (halves.inputs) halves.results = 1;
    const bool computes = kn_row_computes_halves(row, halves);
    for (int i = 0; i < count && !computes; i++)
        if (halves.inputs >> i & 1) wide[i] = kn_gradient_cast(call, inputs[i], KN_FLOAT32);
    return kn_node_add(call->graph, row, NULL, wide, count, settings ? settings->values : NULL);
}

static bool same_dims(const kn_shape *left, const kn_shape *right) {
    return left->rank == right->rank && kn_shape_same(left, right);
}

kn_value *kn_gradient_reshape(kn_gradient_call *call, kn_value *x, const kn_shape *shape) {
    if (kn_value_failed(x) || same_dims(&x->shape, shape)) return x;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_reshape);
    kn_settings_list(&settings, "shape", shape->rank, shape->dims);
    return kn_gradient_build(call, &kn_row_reshape, &x, 1, &settings);
}

kn_value *kn_gradient_cast(kn_gradient_call *call, kn_value *x, kn_dtype dtype) {
    if (kn_value_failed(x) || x->shape.dtype == dtype) return x;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_cast);
    kn_settings_int(&settings, "dtype", dtype);
    return kn_gradient_build(call, &kn_row_cast, &x, 1, &settings);
}

kn_value *kn_gradient_broadcast(kn_gradient_call *call, kn_value *x, const kn_shape *shape) {
    if (kn_value_failed(x) || same_dims(&x->shape, shape)) return x;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_broadcast);
    kn_settings_list(&settings, "shape", shape->rank, shape->dims);
    return kn_gradient_build(call, &kn_row_broadcast, &x, 1, &settings);
}

kn_status kn_gradient_status(kn_gradient_call *call) {
    return call->graph->error.status;
}
