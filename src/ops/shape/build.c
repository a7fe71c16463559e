/* Builders for reshape, broadcast, transpose, slice and concat, and shape operations composed of these. */
#include <inttypes.h>
#include <string.h>

#include "ops/build.h"
#include "ops/shape/shape.h"

/* ---- helpers ------------------------------------------------------------------------------ */

static kn_value *with_dims(const kn_operator *row, kn_value *x, int rank, const kn_dim *dims,
                           const char *name) {
    if (kn_value_failed(x)) return x;
    if (rank > KN_MAX_RANK)
        return kn_graph_fail(x->graph, KN_ERROR_SHAPE, "%s: %d dimensions; at most %d are supported",
                             row->name, rank, KN_MAX_RANK);
    kn_settings settings;
    kn_settings_init(&settings, x->graph, row);
    kn_settings_list(&settings, "shape", rank, dims);
    return kn_node_add(x->graph, row, name, &x, 1, settings.values);
}

kn_value *kn_reshape_to(kn_value *x, int rank, const kn_dim *dims) {
    return with_dims(&kn_row_reshape, x, rank, dims, NULL);
}
kn_value *kn_reshape_named(kn_value *x, int rank, const kn_dim *dims, const char *name) {
    return with_dims(&kn_row_reshape, x, rank, dims, name);
}
kn_value *kn_broadcast_to(kn_value *x, int rank, const kn_dim *dims) {
    return with_dims(&kn_row_broadcast, x, rank, dims, NULL);
}

kn_value *kn_permute(kn_value *x, const int *order) {
    if (kn_value_failed(x)) return x;
    kn_dim numbers[KN_MAX_RANK];
    bool same = true;
    for (int i = 0; i < x->shape.rank; i++) {
        numbers[i] = order[i];
        same = same && order[i] == i;
    }
    if (same) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_transpose);
    kn_settings_list(&settings, "permutation", x->shape.rank, numbers);
    return kn_build(&kn_row_transpose, &x, 1, &settings);
}

bool kn_take_axis(kn_graph *graph, const char *builder, int64_t axis, int rank, int *taken) {
    *taken = 0;
    if (axis >= -rank && axis < rank) {
        *taken = (int)(axis < 0 ? axis + rank : axis);
        return true;
    }
    kn_graph_fail(graph, KN_ERROR_SHAPE, "%s: no axis %" PRId64 "; expected %d to %d", builder, axis, -rank,
                  rank - 1);
    return false;
}

/* Parses axes below `rank`, without duplicates. */
static bool take_axes(kn_graph *graph, const kn_operator *row, const char *builder, const char *text,
                      int rank, bool marked[KN_MAX_RANK], int *count) {
    kn_dim numbers[KN_MAX_RANK];
    memset(marked, 0, KN_MAX_RANK * sizeof *marked);
    *count = kn_read_integers(graph, row, text, KN_MAX_RANK, numbers);
    for (int i = 0, axis; i < *count; i++) {
        if (!kn_take_axis(graph, builder, numbers[i], rank, &axis)) return false;
        if (marked[axis]) {
            kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: axis %d is repeated", builder, axis);
            return false;
        }
        marked[axis] = true;
    }
    return *count >= 0;
}

kn_value *kn_int_scalar(kn_graph *graph, int32_t number) {
    const kn_shape scalar = {.dtype = KN_INT32};
    return kn_constant_add(graph, &scalar, &number, sizeof number);
}

/* Counts from 0 along an axis of a size that may be a symbol, as sums of ones: a huge size in a program needs
 * no memory here. */
static kn_value *size_counted(kn_graph *graph, kn_dim size, int axis, int rank) {
    kn_dim dims[KN_MAX_RANK];
    for (int i = 0; i < rank && i < KN_MAX_RANK; i++)
        dims[i] = i == axis ? size : 1;
    return kn_cumulative_sum(kn_broadcast_to(kn_int_scalar(graph, 1), rank, dims), axis, true, false);
}

kn_value *kn_iota(kn_graph *graph, int64_t count, int axis, int rank) {
    if (count < 0 || count > INT32_MAX)
        return kn_graph_fail(graph, KN_ERROR_SHAPE, "%" PRId64 " elements cannot be counted in int32", count);
    return size_counted(graph, count, axis, rank);
}

/* ---- axes of size 1 ------------------------------------------------------------------------------------ */

kn_value *kn_squeeze(kn_value *x, const char *axes) {
    if (kn_value_failed(x)) return x;
    bool marked[KN_MAX_RANK];
    int count, rank = 0;
    kn_dim dims[KN_MAX_RANK];
    if (!take_axes(x->graph, &kn_row_reshape, "squeeze", axes, x->shape.rank, marked, &count))
        return &x->graph->failed;
    for (int i = 0; i < x->shape.rank; i++) {
        if (marked[i] && x->shape.dims[i] != 1)
            return kn_graph_fail(x->graph, KN_ERROR_SHAPE, "squeeze: x is %s; axis %d must have size 1",
                                 kn_shape_words(x->graph, &x->shape), i);
        if (count ? !marked[i] : x->shape.dims[i] != 1) dims[rank++] = x->shape.dims[i];
    }
    return kn_reshape_to(x, rank, dims);
}

kn_value *kn_unsqueeze(kn_value *x, const char *axes) {
    if (kn_value_failed(x)) return x;
    bool marked[KN_MAX_RANK];
    kn_dim dims[KN_MAX_RANK], numbers[KN_MAX_RANK];
    int count = kn_read_integers(x->graph, &kn_row_reshape, axes, KN_MAX_RANK, numbers);
    int rank = x->shape.rank + count, from = 0;
    if (count < 0) return &x->graph->failed;
    if (rank > KN_MAX_RANK)
        return kn_graph_fail(x->graph, KN_ERROR_SHAPE, "unsqueeze: %d dimensions; at most %d are supported",
                             rank, KN_MAX_RANK);
    if (!take_axes(x->graph, &kn_row_reshape, "unsqueeze", axes, rank, marked, &count))
        return &x->graph->failed;
    for (int i = 0; i < rank; i++)
        dims[i] = marked[i] ? 1 : x->shape.dims[from++];
    return kn_reshape_to(x, rank, dims);
}

/* ---- repeating ------------------------------------------------------------------------------- */

kn_value *kn_expand(kn_value *x, const char *shape) {
    if (kn_value_failed(x)) return x;
    kn_error error = {0};
    kn_shape target = {.dtype = x->shape.dtype}, result;
    if (!shape) return kn_graph_fail(x->graph, KN_ERROR_ARGUMENT, "expand: the shape is NULL");
    if (kn_shape_parse(x->graph, shape, &target, &error))
        return kn_graph_fail(x->graph, error.status, "expand: %s", error.text);
    for (int i = 0; i < target.rank; i++)
        if (target.dims[i] == -1) target.dims[i] = 1; /* unchanged */
    if (!kn_shape_broadcast(x->graph, &x->shape, &target, &result))
        return kn_graph_fail(x->graph, KN_ERROR_SHAPE,
                             "expand: x is %s and does not fit (%s); expected equal sizes, or 1 in one of "
                             "them, aligned at the last axis",
                             kn_shape_words(x->graph, &x->shape), shape);
    return kn_broadcast_to(x, result.rank, result.dims);
}

/* (outer..., size, inner...) with axis `axis` repeated: as a whole, or each element of it. */
static kn_value *repeat_axis(kn_value *x, int axis, int64_t times, bool each) {
    if (kn_value_failed(x) || times == 1) return x;
    kn_graph *graph = x->graph;
    const kn_shape shape = x->shape;
    /* (outer, size, inner) leaves space for another axis at any rank. */
    kn_dim outer = 1, inner = 1, size = shape.dims[axis], dims[KN_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        dims[i] = shape.dims[i];
        if (i < axis) outer = kn_dim_multiply(graph, outer, shape.dims[i]);
        if (i > axis) inner = kn_dim_multiply(graph, inner, shape.dims[i]);
    }
    dims[axis] = kn_dim_multiply(graph, size, times);
    const kn_dim split[4] = {outer, each ? size : 1, each ? 1 : size, inner};
    const kn_dim wide[4] = {outer, each ? size : times, each ? times : size, inner};
    return kn_reshape_to(kn_broadcast_to(kn_reshape_to(x, 4, split), 4, wide), shape.rank, dims);
}

static bool check_times(kn_graph *graph, const char *builder, int64_t times) {
    if (times >= 0 && times <= INT32_MAX) return true;
    kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: %" PRId64 " times; expected 0 or more", builder, times);
    return false;
}

kn_value *kn_tile(kn_value *x, const char *times) {
    if (kn_value_failed(x)) return x;
    kn_dim counts[KN_MAX_RANK], dims[KN_MAX_RANK];
    int count = kn_read_integers(x->graph, &kn_row_broadcast, times, KN_MAX_RANK, counts);
    int rank = x->shape.rank > count ? x->shape.rank : count, more = rank - x->shape.rank;
    if (count < 0) return &x->graph->failed;
    for (int i = 0; i < count; i++)
        if (!check_times(x->graph, "tile", counts[i])) return &x->graph->failed;
    for (int i = 0; i < rank; i++)
        dims[i] = i < more ? 1 : x->shape.dims[i - more];
    if (more) x = kn_reshape_to(x, rank, dims);
    for (int i = 0; i < count; i++)
        x = repeat_axis(x, rank - count + i, counts[i], false);
    return x;
}

kn_value *kn_repeat(kn_value *x, int axis, int64_t times) {
    if (kn_value_failed(x)) return x;
    if (!kn_take_axis(x->graph, "repeat", axis, x->shape.rank, &axis) ||
        !check_times(x->graph, "repeat", times))
        return &x->graph->failed;
    return repeat_axis(x, axis, times, true);
}

/* ---- splitting and concatenating ------------------------------------------------------- */

/* All parts fail together. */
static kn_status split_fails(kn_value **parts, size_t count, kn_value *failed) {
    for (size_t i = 0; i < count; i++)
        parts[i] = failed;
    return failed ? failed->graph->error.status : KN_ERROR_ARGUMENT;
}

kn_status kn_split(kn_value *x, int axis, const int64_t *sizes, size_t count, kn_value **parts) {
    if (!parts) return KN_ERROR_ARGUMENT;
    if (kn_value_failed(x)) return split_fails(parts, count, x);
    kn_graph *graph = x->graph;
    if (!kn_take_axis(graph, "split", axis, x->shape.rank, &axis))
        return split_fails(parts, count, &graph->failed);
    kn_dim size = x->shape.dims[axis];
    if (!kn_dim_known(size) || !count)
        return split_fails(
            parts, count,
            kn_graph_fail(
                graph, KN_ERROR_SHAPE,
                "split: x is %s; expected a size that is not a symbol along axis %d, and at least one part",
                kn_shape_words(graph, &x->shape), axis));
    int64_t slice = (size + (int64_t)count - 1) / (int64_t)count, begin = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t rest = size - begin, take = sizes ? sizes[i] : rest < slice ? rest : slice;
        if (take < 0 || take > rest || (i + 1 == count && take != rest))
            return split_fails(
                parts, count,
                kn_graph_fail(
                    graph, KN_ERROR_SHAPE,
                    "split: part %zu has %" PRId64 " of the %" PRId64
                    " elements that are left along axis %d; the parts must have a total of %" PRId64,
                    i, take, rest, axis, size));
        parts[i] = kn_slice(x, axis, begin, begin + take);
        begin += take;
    }
    return graph->error.status;
}

kn_value *kn_stack(kn_value *const *values, size_t count, int axis) {
    kn_value *made[KN_MAX_INPUTS];
    if (!values || !count || count > KN_MAX_INPUTS) return kn_concat(values, count, 0);
    for (size_t i = 0; i < count; i++) {
        if (kn_value_failed(values[i])) return values[i];
        kn_shape shape = values[i]->shape;
        int at;
        if (!kn_take_axis(values[i]->graph, "stack", axis, shape.rank + 1, &at))
            return &values[i]->graph->failed;
        kn_dim dims[KN_MAX_RANK + 1];
        for (int k = 0; k <= shape.rank; k++)
            dims[k] = k == at ? 1 : shape.dims[k < at ? k : k - 1];
        made[i] = kn_reshape_to(values[i], shape.rank + 1, dims);
    }
    return kn_concat(made, count, axis);
}

/* ---- pixels and channels --------------------------------------------------------------------- */

static bool check_block(kn_value *x, const char *builder, int64_t block, bool divides) {
    const kn_shape *shape = &x->shape;
    int64_t square = block * block;
    bool fits = shape->rank == 4 && block >= 1 && block <= 1024;
    if (fits && !divides) fits = kn_dim_known(shape->dims[1]) && shape->dims[1] % square == 0;
    for (int i = 2; fits && divides && i < 4; i++)
        fits = !kn_dim_known(shape->dims[i]) || shape->dims[i] % block == 0;
    if (!fits)
        kn_graph_fail(x->graph, KN_ERROR_SHAPE, "%s: x is %s; expected (N,C,H,W) with %s of %" PRId64,
                      builder, kn_shape_words(x->graph, shape),
                      divides ? "H and W multiples" : "C a multiple", divides ? block : square);
    return fits;
}

/* (N,C*b*b,H,W) to (N,C,H*b,W*b). */
kn_value *kn_depth_to_space(kn_value *x, int64_t block, bool channels_first) {
    if (kn_value_failed(x)) return x;
    if (!check_block(x, "depth_to_space", block, false)) return &x->graph->failed;
    const kn_dim *d = x->shape.dims;
    kn_dim channels = d[1] / (block * block);
    const kn_dim split[6] = {
        d[0], channels_first ? channels : block, block, channels_first ? block : channels, d[2], d[3]};
    const kn_dim merged[4] = {d[0], channels, kn_dim_multiply(x->graph, d[2], block),
                              kn_dim_multiply(x->graph, d[3], block)};
    static const int orders[2][6] = {{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}};
    return kn_reshape_to(kn_permute(kn_reshape_to(x, 6, split), orders[channels_first]), 4, merged);
}

/* (N,C,H*b,W*b) to (N,C*b*b,H,W). */
kn_value *kn_space_to_depth(kn_value *x, int64_t block, bool channels_first) {
    if (kn_value_failed(x)) return x;
    if (!check_block(x, "space_to_depth", block, true)) return &x->graph->failed;
    const kn_dim *d = x->shape.dims;
    kn_dim height = kn_dim_divide(x->graph, d[2], block), width = kn_dim_divide(x->graph, d[3], block);
    const kn_dim split[6] = {d[0], d[1], height, block, width, block};
    const kn_dim merged[4] = {d[0], kn_dim_multiply(x->graph, d[1], block * block), height, width};
    static const int orders[2][6] = {{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}};
    return kn_reshape_to(kn_permute(kn_reshape_to(x, 6, split), orders[channels_first]), 4, merged);
}

/* ---- ranges and triangles --------------------------------------------------------- */

kn_value *kn_range(kn_graph *graph, kn_dtype dtype, double begin, double end, double step) {
    if (!graph) return NULL;
    double count = step != 0 ? (end - begin) / step : -1; /* rounded up below */
    if (!kn_dtype_bytes(dtype) || !(step != 0) || !(count <= INT32_MAX) || !(begin - begin == 0))
        return kn_graph_fail(
            graph, KN_ERROR_ARGUMENT,
            "range: expected a type, a nonzero step, and an end in the direction of the step");
    int64_t elements = count > 0 ? (int64_t)count : 0;
    if ((double)elements < count) elements++;
    const kn_shape shape = {.dtype = dtype, .rank = 1, .dims = {elements}};
    size_t bytes = (size_t)elements * kn_dtype_bytes(dtype);
    void *data = kn_arena_take(&graph->arena, (size_t)elements + 1, kn_dtype_bytes(dtype));
    if (!data) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for %zu bytes", bytes);
    for (int64_t i = 0; i < elements; i++)
        kn_element_set(dtype, data, i, begin + (double)i * step);
    return kn_constant_add(graph, &shape, data, bytes);
}

/* x is (...,rows,columns); keeps elements on one side of the diagonal, by column - row. */
static kn_value *triangle(kn_value *x, int64_t diagonal, bool lower) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    const kn_shape *shape = &x->shape;
    if (shape->rank < 2 || diagonal > INT32_MAX / 2 || diagonal < INT32_MIN / 2)
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "%s: x is %s; expected (...,rows,columns) and a diagonal inside it",
                             lower ? "tril" : "triu", kn_shape_words(graph, shape));
    kn_value *row = size_counted(graph, shape->dims[shape->rank - 2], 0, 2);
    kn_value *column = size_counted(graph, shape->dims[shape->rank - 1], 1, 2);
    kn_value *edge = kn_shift(row, (double)diagonal);
    const kn_shape scalar = {.dtype = shape->dtype};
    const uint64_t nothing = 0;
    kn_value *zero = kn_constant_add(graph, &scalar, &nothing, kn_dtype_bytes(shape->dtype));
    return kn_where(lower ? kn_less_equal(column, edge) : kn_greater_equal(column, edge), x, zero);
}

kn_value *kn_tril(kn_value *x, int64_t diagonal) {
    return triangle(x, diagonal, true);
}
kn_value *kn_triu(kn_value *x, int64_t diagonal) {
    return triangle(x, diagonal, false);
}
