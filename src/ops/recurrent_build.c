/* Recurrent layers. */
#include "ops/recurrent_private.h"

/* ---- builder
 * ------------------------------------------------------------------------------------------------- */

/* LAYER.NAME, so that the layer's name means its result. */
static kn_value *inner(kn_graph *graph, const kn_operator *row, const char *layer, const char *name,
                       kn_value *const inputs[2], const kn_settings *settings) {
    const char *path = kn_arena_format(&graph->arena, "%s.%s", layer, name);
    if (!path) return kn_graph_fail(graph, KN_ERROR_MEMORY, "no memory for the name of a layer");
    return kn_node_add(graph, row, path, inputs, 2, settings ? settings->values : NULL);
}

/* x is (B,T,inputs), weight_ih (4*units,inputs), weight_hh (4*units,units), both biases (4*units); the result
 * is (B,T,units). */
kn_value *kn_lstm(kn_value *x, int64_t units, const kn_recurrent_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_recurrent_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(given, params);
    const char *layer = kn_layer_name(graph, given.name, "lstm");
    if (units < 1 || units > INT32_MAX / 4)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "lstm %s: %lld units; expected 1 to %d", layer,
                             (long long)units, INT32_MAX / 4);
    if (x->shape.rank != 3 || !kn_dim_known(x->shape.dims[2]))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "lstm %s: x is %s; expected (batch,length,inputs) with a known number of inputs",
                             layer, kn_shape_words(graph, &x->shape));
    const kn_shape of_inputs = {.dtype = x->shape.dtype, .rank = 2, .dims = {4 * units, x->shape.dims[2]}};
    const kn_shape of_units = {.dtype = x->shape.dtype, .rank = 2, .dims = {4 * units, units}};
    const kn_shape of_gates = {.dtype = x->shape.dtype, .rank = 1, .dims = {4 * units}};
    double fan = (double)units;
    kn_value *by_input = kn_layer_parameter(graph, layer, "weight_ih", &of_inputs, given.weight, fan);
    kn_value *by_state = kn_layer_parameter(graph, layer, "weight_hh", &of_units, given.weight, fan);
    kn_value *first = kn_layer_parameter(graph, layer, "bias_ih", &of_gates, given.bias, fan);
    kn_value *second = kn_layer_parameter(graph, layer, "bias_hh", &of_gates, given.bias, fan);
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_matmul);
    kn_settings_int(&settings, "transpose_b", 1);
    kn_value *given_to_gates =
        inner(graph, &kn_row_matmul, layer, "product", (kn_value *[]){x, by_input}, &settings);
    given_to_gates = inner(graph, &kn_row_add, layer, "shifted", (kn_value *[]){given_to_gates, first}, NULL);
    given_to_gates = inner(graph, &kn_row_add, layer, "given", (kn_value *[]){given_to_gates, second}, NULL);
    return kn_node_add(graph, &kn_row_lstm, layer, (kn_value *[]){given_to_gates, by_state}, 2, NULL);
}
