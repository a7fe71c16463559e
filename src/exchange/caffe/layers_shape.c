/* Caffe layers that concatenate, slice and reshape. */
#include <inttypes.h>
#include <math.h>

#include "exchange/caffe/caffe.h"

/* `axis`, or its old name. */
static bool find_axis(kn_caffe *net, const kn_caffe_layer *layer, const char *older, int *axis) {
    return kn_caffe_axis(net, layer, kn_caffe_field(layer->param, "axis") ? "axis" : older, 1, axis);
}

/* All bottoms have the same shape except along the axis. */
bool kn_caffe_concat(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    int64_t dims[KN_MAX_RANK];
    int axis;
    if (!find_axis(net, layer, "concat_dim", &axis)) return false;
    if (axis == 0) return kn_caffe_refuse(net, layer, "axis 0 (the batch) is not supported");
    memcpy(dims, x->dims, sizeof dims);
    for (int i = 1; i < layer->bottom_count; i++) {
        const kn_caffe_blob *other = layer->bottoms[i];
        for (int k = 0; k < x->rank; k++)
            if (other->rank != x->rank || (k != axis && other->dims[k] != x->dims[k]))
                return kn_caffe_refuse(net, layer, "'%s' and '%s' differ in more than axis %d", x->name,
                                       other->name, axis);
        dims[axis] += other->dims[axis];
    }
    const char *line = kn_caffe_line(net, layer, NULL, "concat");
    for (int i = 0; i < layer->bottom_count; i++)
        kn_caffe_more(net, " @%s", layer->bottoms[i]->value);
    kn_caffe_more(net, " axis=%d", axis);
    return kn_caffe_make(net, layer, 0, line, x->rank, dims);
}

static const char *write_slice(kn_caffe *net, const kn_caffe_layer *layer, const char *part,
                               const char *value, int axis, int64_t begin, int64_t end) {
    return kn_caffe_line(net, layer, part, "slice @%s axis=%d begin=%" PRId64 " end=%" PRId64, value, axis,
                         begin, end);
}

/* Slices that end at the given slice points, or have equal sizes. */
bool kn_caffe_slice(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    const int points = kn_caffe_count(layer->param, "slice_point");
    int axis;
    if (!find_axis(net, layer, "slice_dim", &axis)) return false;
    const int64_t size = x->dims[axis];
    if (axis == 0) return kn_caffe_refuse(net, layer, "axis 0 (the batch) is not supported");
    if (points ? points != layer->top_count - 1 : size % layer->top_count != 0)
        return kn_caffe_refuse(net, layer,
                               "%" PRId64 " elements cannot be split into %d tops with %d slice points", size,
                               layer->top_count, points);
    const kn_caffe_item *point = NULL;
    int64_t begin = 0;
    for (int i = 0; i < layer->top_count; i++) {
        int64_t dims[KN_MAX_RANK], end = points ? size : size / layer->top_count * (i + 1);
        if (points && (point = kn_caffe_next(layer->param, "slice_point", point)))
            end = point->kind == KN_CAFFE_NUMBER && point->as.number > (double)begin &&
                          point->as.number < (double)size
                      ? (int64_t)point->as.number
                      : begin;
        if (end <= begin)
            return kn_caffe_refuse(net, layer, "expected increasing slice points below the size %" PRId64,
                                   size);
        memcpy(dims, x->dims, sizeof dims);
        dims[axis] = end - begin;
        if (!kn_caffe_make(net, layer, i,
                           write_slice(net, layer, layer->top_count > 1 ? layer->tops[i] : NULL, x->value,
                                       axis, begin, end),
                           x->rank, dims))
            return false;
        begin = end;
    }
    return true;
}

bool kn_caffe_split(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    for (int i = 0; i < layer->top_count; i++)
        if (!kn_caffe_make(net, layer, i, x->value, x->rank, x->dims)) return false;
    return true;
}

/* Merges the axes from `axis` to `end_axis`. */
bool kn_caffe_flatten(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    int64_t dims[KN_MAX_RANK];
    int axis, end;
    if (!kn_caffe_axis(net, layer, "axis", 1, &axis) || !kn_caffe_axis(net, layer, "end_axis", -1, &end))
        return false;
    if (axis < 1 || end < axis)
        return kn_caffe_refuse(net, layer, "cannot flatten axes %d to %d; expected axes after the batch",
                               axis, end);
    memcpy(dims, x->dims, sizeof dims);
    if (!kn_caffe_product(net, layer, x->dims + axis, end + 1 - axis, &dims[axis])) return false;
    memcpy(dims + axis + 1, x->dims + end + 1, (size_t)(x->rank - end - 1) * sizeof *dims);
    const int rank = x->rank - (end - axis);
    return kn_caffe_make(net, layer, 0, kn_caffe_reshaped(net, layer, NULL, x->value, rank, dims), rank,
                         dims);
}

/* Changes the sizes of some axes: 0 copies a size, -1 is inferred. */
bool kn_caffe_reshape(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    const kn_caffe_item *shape = kn_caffe_field(layer->param, "shape"), *dim = NULL;
    int64_t first, count, dims[KN_MAX_RANK], all, known;
    int rank = 0, open = -1;
    if (!kn_caffe_whole(net, layer, "axis", 0, -KN_MAX_RANK, &first) ||
        !kn_caffe_whole(net, layer, "num_axes", -1, -1, &count))
        return false;
    if (first < 0) first += x->rank + 1;
    const int64_t end = count < 0 ? x->rank : first + count, made = kn_caffe_count(shape, "dim");
    if (first < 0 || first > x->rank || end > x->rank || first + made + x->rank - end > KN_MAX_RANK)
        return kn_caffe_refuse(net, layer,
                               "axes are out of range for '%s', or the result has more than %d axes", x->name,
                               KN_MAX_RANK);
    while (rank < first) {
        dims[rank] = x->dims[rank];
        rank++;
    }
    for (; (dim = kn_caffe_next(shape, "dim", dim)); rank++) {
        const double size = dim->kind == KN_CAFFE_NUMBER ? dim->as.number : -2;
        if (!(size >= -1 && size <= KN_CAFFE_SIZE) || size != floor(size) || (size == -1 && open >= 0) ||
            (size == 0 && rank >= x->rank))
            return kn_caffe_refuse(net, layer,
                                   "expected sizes, with at most one -1, and 0 only for axes that '%s' has",
                                   x->name);
        if (size == -1) open = rank;
        dims[rank] = size == -1 ? 1 : size == 0 ? x->dims[rank] : (int64_t)size;
    }
    for (int64_t i = end; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    /* The batch is left out if it is unchanged: files may give it as 0. */
    const int from = rank > 0 && open != 0 && dims[0] == x->dims[0];
    if (!kn_caffe_product(net, layer, x->dims + from, x->rank - from, &all) ||
        !kn_caffe_product(net, layer, dims + from, rank - from, &known))
        return false;
    if (open >= 0 && known > 0) dims[open] = all / known;
    if (rank < 1 || dims[0] != x->dims[0] ||
        !kn_caffe_product(net, layer, dims + from, rank - from, &known) || known != all)
        return kn_caffe_refuse(
            net, layer, "cannot reshape '%s': the number of elements or the batch would change", x->name);
    return kn_caffe_make(net, layer, 0, kn_caffe_reshaped(net, layer, NULL, x->value, rank, dims), rank,
                         dims);
}

bool kn_caffe_permute(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    int order[KN_MAX_RANK], count = 0;
    unsigned seen = 0;
    int64_t dims[KN_MAX_RANK];
    for (const kn_caffe_item *item = NULL; (item = kn_caffe_next(layer->param, "order", item)); count++) {
        const double axis = item->kind == KN_CAFFE_NUMBER ? item->as.number : -1;
        if (!(axis >= 0 && axis < x->rank) || axis != floor(axis) || (seen & 1u << (int)axis))
            return kn_caffe_refuse(net, layer, "expected each axis of '%s' once", x->name);
        seen |= 1u << (int)axis;
        order[count] = (int)axis;
    }
    for (int axis = 0; axis < x->rank; axis++)
        if (!(seen & 1u << axis)) order[count++] = axis;
    if (order[0] != 0)
        return kn_caffe_refuse(net, layer, "cannot move the batch; expected axis 0 to stay first");
    const char *line = kn_caffe_line(net, layer, NULL, "transpose @%s permutation=", x->value);
    for (int i = 0; i < count; i++) {
        kn_caffe_more(net, i ? ",%d" : "%d", order[i]);
        dims[i] = x->dims[order[i]];
    }
    return kn_caffe_make(net, layer, 0, line, count, dims);
}

/* Crops the first bottom to the size of the second, from `axis` on. */
bool kn_caffe_crop(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0], *like = layer->bottoms[1];
    const int offsets = kn_caffe_count(layer->param, "offset");
    const char *value = x->value;
    int64_t dims[KN_MAX_RANK];
    int axis;
    if (!kn_caffe_axis(net, layer, "axis", 2, &axis)) return false;
    if (like->rank != x->rank || axis < 1 || (offsets > 1 && offsets != x->rank - axis))
        return kn_caffe_refuse(
            net, layer,
            "expected two bottoms with the same number of axes, and one offset, or one per cropped axis");
    memcpy(dims, x->dims, sizeof dims);
    const kn_caffe_item *offset = NULL;
    for (int i = axis; i < x->rank && value; i++) {
        if (offsets > 1 || !offset) offset = kn_caffe_next(layer->param, "offset", offset);
        const double begin = offset && offset->kind == KN_CAFFE_NUMBER ? offset->as.number : 0;
        if (!(begin >= 0 && begin + (double)like->dims[i] <= (double)x->dims[i]) || begin != floor(begin))
            return kn_caffe_refuse(net, layer,
                                   "%" PRId64
                                   " elements from offset %g do not fit axis %d of '%s' with size %" PRId64,
                                   like->dims[i], begin, i, x->name, x->dims[i]);
        dims[i] = like->dims[i];
        value = write_slice(net, layer, i + 1 < x->rank ? "part" : NULL, value, i, (int64_t)begin,
                            (int64_t)begin + dims[i]);
    }
    return kn_caffe_make(net, layer, 0, value, x->rank, dims);
}

bool kn_caffe_tile(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    int64_t dims[KN_MAX_RANK], times;
    int axis;
    if (!kn_caffe_axis(net, layer, "axis", 1, &axis) || !kn_caffe_whole(net, layer, "tiles", 0, 1, &times))
        return false;
    memcpy(dims, x->dims, sizeof dims);
    if (axis == 0 || !kn_caffe_product(net, layer, (int64_t[]){dims[axis], times}, 2, &dims[axis]))
        return kn_caffe_refuse(net, layer, "cannot tile the batch, or too many tiles");
    const char *line = kn_caffe_line(net, layer, NULL, "tile @%s times=%" PRId64, x->value, times);
    for (int i = axis + 1; i < x->rank; i++)
        kn_caffe_more(net, ",1");
    return kn_caffe_make(net, layer, 0, line, x->rank, dims);
}
