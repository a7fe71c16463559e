/* Standardizing an input: mean 0 and deviation 1, by statistics that were measured beforehand. */
#include "ops/shape/shape.h"

/* "x.mean" or "x.deviation" (C), reshaped to (C,1,...) of `rank` dimensions; the same state on every
 * call. */
static kn_value *measured(kn_value *x, const char *kind, double start, int rank, const kn_dim *dims) {
    kn_graph *graph = x->graph;
    const kn_shape shape = {.dtype = x->shape.dtype, .rank = 1, .dims = {x->shape.dims[1]}};
    const kn_initializer fill = {KN_INITIALIZER_FILL, start};
    const char *name = kn_arena_format(&graph->arena, "%s.%s", x->name, kind);
    if (!name) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for the name of a statistic");
    kn_value *state = kn_graph_find(graph, name);
    if (!state || state->kind != KN_VALUE_STATE)
        state = kn_state_add(graph, name, &shape, KN_STATE_STATISTIC, &fill);
    return kn_reshape_to(state, rank, dims);
}

/* x is (N,C,...). */
kn_value *kn_standardize(kn_value *x) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_dim dims[KN_MAX_RANK];
    const int rank = x->shape.rank - 1;
    if (x->kind != KN_VALUE_INPUT)
        return kn_graph_fail(
            graph, KN_ERROR_ARGUMENT,
            "standardize: %s is computed; expected an input, which can be measured beforehand", x->name);
    if (rank < 1 || !kn_dim_known(x->shape.dims[1]) || !kn_dtype_is_float(x->shape.dtype))
        return kn_graph_fail(
            graph, KN_ERROR_SHAPE,
            "standardize: %s is %s; expected a numeric (N,C,...) with a known number of channels", x->name,
            kn_shape_words(graph, &x->shape));
    for (int d = 0; d < rank; d++)
        dims[d] = d == 0 ? x->shape.dims[1] : 1;
    return kn_div(kn_sub(x, measured(x, "mean", 0, rank, dims)), measured(x, "deviation", 1, rank, dims));
}
