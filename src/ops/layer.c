/* Names, parameters and products of layers. */
#include "ops/layer.h"

#include <math.h>

#include "ops/build.h"
#include "ops/pointwise/pointwise.h"

const char *kn_layer_name(kn_graph *graph, const char *given, const char *kind) {
    return given && given[0] ? kn_name_here(graph, given) : kn_name_make(graph, kind);
}

kn_value *kn_layer_parameter(kn_graph *graph, const char *layer, const char *name, const kn_shape *shape,
                             const kn_initializer *initializer, double fan_in) {
    const char *path = kn_arena_format(&graph->arena, "%s.%s", layer, name);
    if (!path) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for the name of a parameter");
    kn_initializer usual = {KN_INITIALIZER_UNIFORM, fan_in > 0 ? 1 / sqrt(fan_in) : 0};
    return kn_state_add(graph, path, shape, KN_STATE_PARAMETER, initializer ? initializer : &usual);
}

/* If a bias follows, the product gets a different name, so that the layer's name refers to its result. */
kn_value *kn_layer_product(kn_graph *graph, const kn_operator *row, const char *layer, kn_value *x,
                           kn_value *weight, kn_value *bias, const kn_settings *settings) {
    kn_value *inputs[2] = {x, weight};
    if (!bias) return kn_node_add(graph, row, layer, inputs, 2, settings->values);
    const char *name = kn_arena_format(&graph->arena, "%s.product", layer);
    if (!name) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for the name of a layer");
    inputs[0] = kn_node_add(graph, row, name, inputs, 2, settings->values);
    inputs[1] = bias;
    return kn_node_add(graph, &kn_row_add, layer, inputs, 2, NULL);
}

void kn_layer_take(const kn_value *x, const char *type, void *own, const void *given, size_t size) {
    kn_error error = {0};
    if (kn_params_take(type, own, given, size, &error) != KN_OK && x)
        kn_graph_fail(x->graph, error.status, "%s", error.text);
}
