/* What the builders of layers share: names, parameters, products with a bias. */
#ifndef KN_OPS_LAYER_H
#define KN_OPS_LAYER_H

#include <string.h>

#include "ops/build.h"

/* The name that the caller gave, in its scope, or the kind and a number. */
const char *kn_layer_name(kn_graph *graph, const char *given, const char *kind);
/* LAYER.NAME; NULL initializer: uniform within 1 / sqrt(fan_in). */
kn_value *kn_layer_parameter(kn_graph *graph, const char *layer, const char *name, const kn_shape *shape,
                             const kn_initializer *initializer, double fan_in);
/* The row's result for x and weight, plus bias (or NULL), named as the layer. */
kn_value *kn_layer_product(kn_graph *graph, const kn_operator *row, const char *layer, kn_value *x,
                           kn_value *weight, kn_value *bias, const kn_settings *settings);
/* Fields that the caller's struct has, by its size, replace the defaults. */
#define KN_TAKE_PARAMS(into, params)                                                                         \
    do {                                                                                                     \
        if (params) memcpy(&(into), params, (params)->size < sizeof(into) ? (params)->size : sizeof(into));  \
    } while (0)

#endif
