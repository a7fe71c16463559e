/* Helpers of layer builders: names, parameters, products with a bias. */
#ifndef KN_OPS_LAYER_H
#define KN_OPS_LAYER_H

#include "ops/build.h"

/* The caller's name in its scope, or the kind and a number. */
const char *kn_layer_name(kn_graph *graph, const char *given, const char *kind);
/* LAYER.NAME; NULL initializer: uniform within 1 / sqrt(fan_in). */
kn_value *kn_layer_parameter(kn_graph *graph, const char *layer, const char *name, const kn_shape *shape,
                             const kn_initializer *initializer, double fan_in);
/* The row's result for x and weight, plus bias (or NULL), with the layer's name. */
kn_value *kn_layer_product(kn_graph *graph, const kn_operator *row, const char *layer, kn_value *x,
                           kn_value *weight, kn_value *bias, const kn_settings *settings);
/* KN_PARAMS_TAKE for a builder on x: a struct without a size fails the graph of x. */
#define KN_TAKE_PARAMS(x, type, own, given)                                                                  \
    kn_layer_take(x, #type, 1 ? (own) : (type *)0, 1 ? (given) : (const type *)0, sizeof(type))
void kn_layer_take(const kn_value *x, const char *type, void *own, const void *given, size_t size);

#endif
