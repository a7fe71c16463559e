/* Norms composed of other operators: group norm and instance norm, from the mean and variance of groups of
 * each sample; local response norm, from the squares in adjacent channels. */
#include <string.h>

#include "ops/build.h"
#include "ops/conv/conv.h"
#include "ops/layer.h"
#include "ops/pointwise/pointwise.h"
#include "ops/shape/shape.h"

/* The product of the dimensions starting at `first`. */
static kn_dim elements_from(kn_graph *graph, const kn_shape *shape, int first) {
    kn_dim product = 1;
    for (int i = first; i < shape->rank; i++)
        product = kn_dim_multiply(graph, product, shape->dims[i]);
    return product;
}

/* ---- group norm ------------------------------------------------------------------------------ */

/* x is (N,groups,elements): each row is normalized to mean 0 and variance 1. */
static kn_value *normal_rows(kn_value *x, double epsilon) {
    kn_value *centered = kn_sub(x, kn_mean(x, "2", true));
    kn_value *variance = kn_mean(kn_mul(centered, centered), "2", true);
    return kn_mul(centered, kn_rsqrt(kn_shift(variance, epsilon)));
}

/* LAYER.weight or LAYER.bias (C), reshaped to (C,1,...) to broadcast over x (N,C,...). */
static kn_value *per_channel(kn_value *x, const char *layer, const char *name, double start) {
    const kn_shape shape = {.dtype = x->shape.dtype, .rank = 1, .dims = {x->shape.dims[1]}};
    const kn_initializer initializer = {KN_INITIALIZER_FILL, start};
    const kn_dim dims[KN_MAX_RANK] = {x->shape.dims[1], 1, 1, 1, 1, 1, 1, 1};
    kn_value *own = kn_layer_parameter(x->graph, layer, name, &shape, &initializer, 1);
    return kn_reshape_to(own, x->shape.rank - 1, dims);
}

/* Names that start with the layer's are in its scope. */
static kn_value *normalise(kn_value *x, int64_t groups, const char *layer, const kn_norm_params *given) {
    kn_graph *graph = x->graph;
    const kn_shape *shape = &x->shape;
    const char *result = kn_arena_format(&graph->arena, "%s.normal", layer);
    const char *scaled = kn_arena_format(&graph->arena, "%s.scaled", layer);
    if (!result || !scaled)
        return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for the name of a layer");
    const kn_dim rows[3] = {shape->dims[0], groups,
                            kn_dim_multiply(graph, shape->dims[1] / groups, elements_from(graph, shape, 2))};
    kn_value *y = normal_rows(kn_reshape_to(x, 3, rows), given->epsilon);
    y = kn_reshape_named(y, shape->rank, shape->dims, given->no_affine ? layer : result);
    if (given->no_affine || kn_value_failed(y)) return y;
    kn_value *pair[2] = {y, per_channel(x, layer, "weight", 1)};
    y = kn_node_add(graph, &kn_row_mul, given->no_bias ? layer : scaled, pair, 2, NULL);
    if (given->no_bias) return y;
    pair[0] = y;
    pair[1] = per_channel(x, layer, "bias", 0);
    return kn_node_add(graph, &kn_row_add, layer, pair, 2, NULL);
}

/* x is (N,C,...); groups 0: as many as channels. */
static kn_value *group_norm(kn_value *x, int64_t groups, const char *kind, const kn_norm_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_norm_params given;
    kn_norm_params_init(&given);
    KN_TAKE_PARAMS(x, kn_norm_params, &given, params);
    const char *layer = kn_layer_name(graph, given.name, kind);
    if (x->shape.rank < 2 || !kn_dim_known(x->shape.dims[1]) || !kn_dtype_is_float(x->shape.dtype))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "%s: x is %s; expected (N,C,...) with a known number of channels", layer,
                             kn_shape_words(graph, &x->shape));
    if (groups == 0) groups = x->shape.dims[1];
    if (groups < 1 || x->shape.dims[1] % groups)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "%s: x is %s, with %lld groups; channels must be a multiple of the groups",
                             layer, kn_shape_words(graph, &x->shape), (long long)groups);
    if (!(given.epsilon >= 0))
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: expected an epsilon of at least 0", layer);
    kn_scope_begin(graph, layer + strlen(graph->scope));
    kn_value *y = normalise(x, groups, layer, &given);
    kn_scope_end(graph);
    return y;
}

kn_value *kn_group_norm(kn_value *x, int64_t groups, const kn_norm_params *params) {
    if (groups == 0) groups = -1;
    return group_norm(x, groups, "groupnorm", params);
}

kn_value *kn_instance_norm(kn_value *x, const kn_norm_params *params) {
    return group_norm(x, 0, "instancenorm", params);
}

/* ---- local response normalisation ------------------------------------------------------------ */

/* The mean of x (N,C,...) over windows of `size` channels; channels outside x count as zeros. */
static kn_value *channel_means(kn_value *x, int64_t size) {
    kn_graph *graph = x->graph;
    const kn_shape *shape = &x->shape;
    const kn_dim image[4] = {shape->dims[0], 1, shape->dims[1], elements_from(graph, shape, 2)};
    kn_value *seen = kn_reshape_to(x, 4, image);
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_average_pool);
    kn_settings_list(&settings, "window", 2, (kn_dim[]){size, 1});
    kn_settings_list(&settings, "stride", 2, (kn_dim[]){1, 1});
    kn_settings_list(&settings, "padding", 4, (kn_dim[]){size / 2, 0, (size - 1) / 2, 0});
    return kn_reshape_to(kn_build(&kn_row_average_pool, &seen, 1, &settings), shape->rank, shape->dims);
}

/* x is (N,C,...). The power is computed by a logarithm, whose argument is at least k. */
kn_value *kn_local_response_norm(kn_value *x, int64_t size, const kn_local_norm_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_local_norm_params given;
    kn_local_norm_params_init(&given);
    KN_TAKE_PARAMS(x, kn_local_norm_params, &given, params);
    if (x->shape.rank < 2 || !kn_dtype_is_float(x->shape.dtype))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "local_response_norm: x is %s; expected channels, (N,C,...)",
                             kn_shape_words(graph, &x->shape));
    if (size < 1 || size > INT32_MAX)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "local_response_norm: %lld channels; expected at least 1", (long long)size);
    kn_value *means = channel_means(kn_mul(x, x), size);
    kn_value *divisor = kn_shift(kn_scale(means, given.alpha), given.k);
    return kn_mul(x, kn_exp(kn_scale(kn_log(divisor), -given.beta)));
}
