/* Resizes axes: with the operator resize if it supports the mode, otherwise by a matrix product with the
 * interpolation weights of each result element. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

enum { RESIZE_WEIGHTS = 1 << 24 }; /* maximum number of weights of one axis */

typedef struct resizing {
    const char *mode, *coordinates, *rounding;
    double cubic, beyond; /* beyond: the value outside the source */
    bool antialias, exclude;
    double part[2][KN_MAX_RANK]; /* the region along each axis: start, end */
} resizing;

/* ---- weights ------------------------------------------------------------------------------------------- */

/* Computes the source coordinate of element j of `size`; false if it is outside the source. */
static bool source_coordinate(const resizing *how, int axis, int64_t j, int64_t source, int64_t size,
                              double scale, double *position) {
    const char *word = how->coordinates;
    double width = scale * (double)source, last = (double)(source - 1), at = (double)j;
    if (!strcmp(word, "align_corners")) {
        *position = width == 1 ? 0 : at * last / (width - 1);
    } else if (!strcmp(word, "asymmetric")) {
        *position = at / scale;
    } else if (!strcmp(word, "tf_crop_and_resize")) {
        double from = how->part[0][axis], extent = how->part[1][axis] - from;
        *position = from * last + (width == 1 ? extent * last / 2 : at * extent * last / (width - 1));
        return *position >= 0 && *position <= last;
    } else {
        *position = (at + 0.5) / scale - 0.5;
        if (!strcmp(word, "half_pixel_symmetric"))
            *position += (double)source / 2 * (1 - (double)size / width);
        if (!strcmp(word, "pytorch_half_pixel") && width == 1) *position = -0.5;
    }
    return true;
}

/* The cubic weight of the element at `distance`. */
static double weight_of(const resizing *how, double distance) {
    double d = fabs(distance), a = how->cubic;
    if (strcmp(how->mode, "cubic") != 0) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Which of two neighbors (0 or 1) is nearest to a point `part` after the first, 0 < part <= 1. */
static int nearest_of(const resizing *how, double part) {
    if (part == 1) return 1;
    if (!strcmp(how->rounding, "floor")) return 0;
    if (!strcmp(how->rounding, "ceil")) return 1;
    return !strcmp(how->rounding, "round_prefer_ceil") ? part >= 0.5 : part > 0.5;
}

/* Writes the weights of the source elements for one result element into a zeroed row of `source` numbers. */
static void fill_weights(const resizing *how, double position, int64_t source, double scale, double *row) {
    double first = ceil(position) - 1, part = position - first, sum = 0;
    bool nearest = !strcmp(how->mode, "nearest"), cubic = !strcmp(how->mode, "cubic");
    double shrink = how->antialias && scale < 1 ? scale : 1;
    int64_t start = nearest ? nearest_of(how, part) : (int64_t)floor((cubic ? -2 : -1) / shrink) + 1;
    int64_t end = nearest ? start + 1 : 2 - start;
    for (int pass = 0; pass < 2; pass++) /* normalize by the sum */
        for (int64_t i = start; i < end; i++) {
            double at = first + (double)i, weight = nearest ? 1 : weight_of(how, ((double)i - part) * shrink);
            bool outside = at < 0 || at >= (double)source;
            if (how->exclude && outside) continue;
            if (pass == 0)
                sum += weight;
            else if (sum != 0)
                row[at < 0 ? 0 : at >= (double)source ? source - 1 : (int64_t)at] += weight / sum;
        }
}

/* x (…,source,…) becomes (…,size,…): weights (size,source) times x. */
static kn_value *weigh_axis(kn_import_call *call, kn_value *x, int axis, int64_t size, double scale,
                            const resizing *how) {
    kn_import *import = call->import;
    kn_dtype dtype = x->shape.dtype, computed = kn_dtype_is_float(dtype) ? dtype : KN_FLOAT64;
    kn_dim dims[KN_MAX_RANK], folded[3] = {1, x->shape.dims[axis], 1};
    int64_t source = folded[1];
    int rank = x->shape.rank;
    bool any = false;
    if (scale <= 0) scale = (double)size / (double)source;
    if (size < 1 || source < 1 || size > RESIZE_WEIGHTS / source || !(scale >= 1e-4 && scale <= 1e4))
        return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                                "cannot resize axis %d from %" PRId64 " to %" PRId64 " elements", axis,
                                source, size);
    double *weights = kn_arena_take(import->arena, (size_t)(size * source), sizeof *weights);
    double *beyond = kn_arena_take(import->arena, (size_t)size, sizeof *beyond);
    if (!weights || !beyond) return kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
    memset(weights, 0, (size_t)(size * source) * sizeof *weights);
    for (int64_t j = 0; j < size; j++) {
        double position;
        bool inside = source_coordinate(how, axis, j, source, size, scale, &position);
        beyond[j] = inside ? 0 : how->beyond;
        any = any || beyond[j] != 0;
        if (inside) fill_weights(how, position, source, scale, weights + j * source);
    }
    for (int i = 0; i < rank; i++) {
        dims[i] = i == axis ? size : x->shape.dims[i];
        if (i != axis)
            folded[i < axis ? 0 : 2] = kn_dim_multiply(call->graph, folded[i < axis ? 0 : 2], dims[i]);
    }
    kn_value *matrix = kn_import_constant(import, KN_FLOAT64, weights, (int64_t[]){size, source}, 2);
    x = kn_import_reshape(import, kn_import_cast(x, computed), folded, 3);
    kn_value *y = kn_matmul(kn_import_cast(matrix, computed), x, false, false);
    if (any) {
        kn_value *column = kn_import_constant(import, KN_FLOAT64, beyond, (int64_t[]){size, 1}, 2);
        y = kn_add(y, kn_import_cast(column, computed));
    }
    return kn_import_cast(kn_import_reshape(import, y, dims, rank), dtype);
}

/* Whether the operator resize supports the mode and sizes. */
static bool operator_supports(const resizing *how, const kn_value *x, int axis, int64_t size, double scale) {
    static const char *const known[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"};
    bool position = false;
    for (size_t i = 0; i < KN_COUNT_OF(known); i++)
        position = position || !strcmp(known[i], how->coordinates);
    /* With align_corners, the scale is not the ratio of the sizes. */
    bool corners = !strcmp(how->coordinates, "align_corners") && scale > 0 &&
                   fabs((double)x->shape.dims[axis] * scale - (double)size) > 1e-5 * (double)size;
    bool shrinks = size < x->shape.dims[axis] && strcmp(how->mode, "nearest") != 0;
    return position && !corners && !how->exclude && !(how->antialias && shrinks) &&
           kn_dtype_is_float(x->shape.dtype);
}

/* ---- dynamic axes -------------------------------------------------------------------------------------- */

enum { MAX_TIMES = 64 };

/* x shifted along an axis by one, so that each element is replaced by its neighbor before (-1) or after it
 * (1); the ends repeat. */
static kn_value *neighbours(kn_import *import, kn_value *x, int axis, int side) {
    if (!side) return x;
    kn_value *parts[2];
    parts[side > 0] = kn_import_slice(import, x, axis, side < 0 ? 0 : -1, side < 0 ? 1 : INT64_MAX, 1);
    parts[side < 0] = kn_import_slice(import, x, axis, side < 0 ? 0 : 1, side < 0 ? -1 : INT64_MAX, 1);
    return kn_concat(parts, 2, axis);
}

/* x (…,size,…) becomes (…,times*size,…): each element yields `times` elements, which depend only on its
 * neighbors in modes whose coordinates do not depend on the size. */
static kn_value *resize_times(kn_import_call *call, kn_value *x, int axis, int64_t times,
                              const resizing *how) {
    kn_value *parts[MAX_TIMES];
    kn_dim dims[KN_MAX_RANK];
    const int rank = x->shape.rank;
    bool nearest = !strcmp(how->mode, "nearest"), repeats = true;
    memcpy(dims, x->shape.dims, sizeof dims);
    if ((!nearest && strcmp(how->mode, "linear")) || !strcmp(how->coordinates, "align_corners") ||
        !strcmp(how->coordinates, "tf_crop_and_resize") || how->exclude || times > MAX_TIMES ||
        rank == KN_MAX_RANK)
        return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                                "axis %d is dynamic (%s), but mode %s with coordinates %s needs a fixed size",
                                axis, kn_import_dims_text(call->import, &dims[axis], 1), how->mode,
                                how->coordinates);
    for (int64_t i = 0; i < times; i++) {
        double position; /* relative to the element, far from the ends */
        source_coordinate(how, axis, i + 2 * times, 5, 5 * times, (double)times, &position);
        double first = ceil(position - 2) - 1, part = position - 2 - first;
        int side = (int)first + (nearest ? nearest_of(how, part) : 0);
        if (!nearest && part == 1) side++;
        parts[i] = neighbours(call->import, x, axis, side);
        repeats = repeats && nearest && side == 0;
        if (nearest || part == 1) continue;
        kn_value *next = neighbours(call->import, x, axis, side + 1);
        parts[i] = kn_add(kn_scale(parts[i], 1 - part), kn_scale(next, part));
    }
    if (repeats) return kn_repeat(x, axis, times);
    dims[axis] = kn_dim_multiply(call->graph, dims[axis], times);
    return kn_import_reshape(call->import, kn_stack(parts, (size_t)times, axis + 1), dims, rank);
}

/* ---- axes ---------------------------------------------------------------------------------------------- */

static kn_value *resize_axis(kn_import_call *call, kn_value *x, int axis, int64_t size, double scale,
                             const resizing *how) {
    if (!kn_dim_known(x->shape.dims[axis])) return resize_times(call, x, axis, size, how);
    if (!operator_supports(how, x, axis, size, scale)) return weigh_axis(call, x, axis, size, scale, how);
    kn_text text;
    kn_text_init(&text, &call->import->model->host);
    kn_text_format(&text, "axis=%d size=%" PRId64 " mode=%s coordinates=%s rounding=%s cubic=", axis, size,
                   how->mode, how->coordinates, how->rounding);
    kn_text_number(&text, how->cubic);
    kn_text_add(&text, " scale=");
    kn_text_number(&text, scale);
    x = kn_text_failed(&text) ? kn_import_reject(call, KN_ERROR_MEMORY, "out of host memory")
                              : kn_apply(call->graph, "resize", &x, 1, text.data);
    kn_text_finish(&text);
    return x;
}

/* How many times a dynamic `size` fits the requested size or scale; 0: not an integer. */
static int64_t times_of(const kn_import_call *call, kn_dim size, const kn_dim *wanted, double scale) {
    for (int64_t times = 1; times <= MAX_TIMES; times++)
        if (wanted ? *wanted == kn_dim_multiply(call->graph, size, times) : scale == (double)times)
            return times;
    return 0;
}

/* Reads sizes or scales of the axes; axes without one get 0. A dynamic axis may only be multiplied. */
static kn_status resize_targets(kn_import_call *call, const kn_value *x, double *scales, int64_t *sizes) {
    int64_t axes[KN_MAX_RANK];
    kn_dim wanted[KN_MAX_RANK];
    double factors[KN_MAX_RANK];
    int named = kn_import_ints(call, "axes", axes, KN_MAX_RANK), count = 0, rank = x->shape.rank;
    bool old = call->opset < 11 || !strcmp(call->node->type, "Upsample");
    bool by_size = !old && kn_import_has(call, 3);
    memset(scales, 0, KN_MAX_RANK * sizeof *scales);
    memset(sizes, 0, KN_MAX_RANK * sizeof *sizes);
    if (by_size) {
        kn_import_dims(call, 3, wanted, KN_MAX_RANK, &count);
    } else if (old && call->opset < 9) {
        const kn_onnx_attribute *given = kn_import_attribute(call, "scales");
        for (size_t i = 0;
             given && given->kind == KN_ONNX_ATTRIBUTE_FLOATS && i < given->count && i < KN_MAX_RANK; i++)
            factors[count++] = (double)given->floats[i];
    } else {
        kn_import_numbers(call, old ? 1 : 2, factors, KN_MAX_RANK, &count);
    }
    if (count != (named < 0 ? rank : named))
        return kn_import_fail(call, KN_ERROR_FORMAT, "has %d sizes or scales; expected %d", count,
                              named < 0 ? rank : named);
    for (int i = 0; i < count; i++) {
        const int axis = kn_import_axis(call, named < 0 ? i : axes[i], rank);
        kn_dim size = x->shape.dims[axis];
        if (!by_size) scales[axis] = factors[i];
        if (by_size ? wanted[i] == size && !kn_dim_known(size) : factors[i] == 1)
            continue; /* a dynamic axis keeps its size */
        if (!kn_dim_known(size) &&
            (sizes[axis] = times_of(call, size, by_size ? &wanted[i] : NULL, factors[i])) != 0)
            continue;
        if (!kn_dim_known(size) || size < 1 ||
            (by_size && !kn_dim_constant(call->graph, wanted[i], &sizes[axis])))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "cannot resize axis %d from %s to %s; expected fixed sizes, or a multiple",
                                  axis, kn_import_dims_text(call->import, &size, 1),
                                  by_size ? kn_import_dims_text(call->import, &wanted[i], 1)
                                          : "a scaled size");
        if (!by_size) sizes[axis] = (int64_t)floor((double)size * factors[i]);
    }
    return kn_import_status(call);
}

/* Uses one scale for all axes, so that no size is above (or below) the requested one. */
static void keep_ratio(const kn_value *x, const char *policy, int64_t *sizes, double *scales) {
    double scale = -1;
    for (int i = 0; i < x->shape.rank; i++) {
        if (!sizes[i]) continue;
        double own = (double)sizes[i] / (double)x->shape.dims[i];
        if (scale < 0 || (!strcmp(policy, "not_larger") ? own < scale : own > scale)) scale = own;
    }
    for (int i = 0; i < x->shape.rank; i++) {
        if (!sizes[i]) continue;
        sizes[i] = (int64_t)floor(scale * (double)x->shape.dims[i] + 0.5);
        scales[i] = scale;
    }
}

/* Reads the region of each axis, by default the whole axis: starts, then ends. */
static kn_status take_region(kn_import_call *call, const kn_value *x, resizing *how) {
    int64_t axes[KN_MAX_RANK];
    double part[2 * KN_MAX_RANK];
    int named = kn_import_ints(call, "axes", axes, KN_MAX_RANK), count = 0, rank = x->shape.rank;
    for (int i = 0; i < KN_MAX_RANK; i++)
        how->part[1][i] = 1;
    if (strcmp(how->coordinates, "tf_crop_and_resize") != 0) return kn_import_status(call);
    kn_import_numbers(call, 1, part, 2 * KN_MAX_RANK, &count);
    int all = named < 0 ? rank : named;
    if (count != 2 * all)
        return kn_import_fail(call, KN_ERROR_FORMAT, "roi has %d numbers; expected %d", count, 2 * all);
    for (int i = 0; i < all; i++) {
        const int axis = kn_import_axis(call, named < 0 ? i : axes[i], rank);
        how->part[0][axis] = part[i];
        how->part[1][axis] = part[all + i];
    }
    return kn_import_status(call);
}

static kn_status resize(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    bool old = call->opset < 11 || !strcmp(call->node->type, "Upsample");
    double scales[KN_MAX_RANK];
    int64_t sizes[KN_MAX_RANK];
    resizing how = {.mode = kn_import_string(call, "mode", "nearest"),
                    .coordinates = kn_import_string(call, "coordinate_transformation_mode",
                                                    old ? "asymmetric" : "half_pixel"),
                    .rounding = kn_import_string(call, "nearest_mode", old ? "floor" : "round_prefer_floor"),
                    .cubic = kn_import_float(call, "cubic_coeff_a", -0.75),
                    .beyond = kn_import_float(call, "extrapolation_value", 0),
                    .antialias = kn_import_int(call, "antialias", 0) != 0,
                    .exclude = kn_import_int(call, "exclude_outside", 0) != 0};
    const char *policy = kn_import_string(call, "keep_aspect_ratio_policy", "stretch");
    if (resize_targets(call, x, scales, sizes) != KN_OK || take_region(call, x, &how) != KN_OK)
        return kn_import_status(call);
    static const char *const known[] = {"half_pixel",         "align_corners",        "asymmetric",
                                        "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize"};
    bool position = false;
    if (!strcmp(how.mode, "bilinear")) how.mode = "linear";
    for (size_t i = 0; i < KN_COUNT_OF(known); i++)
        position = position || !strcmp(known[i], how.coordinates);
    if (!position)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "coordinate_transformation_mode '%.40s' is not supported", how.coordinates);
    for (int i = 0; strcmp(policy, "stretch") && i < x->shape.rank; i++)
        if (sizes[i] && !kn_dim_known(x->shape.dims[i]))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "keep_aspect_ratio_policy '%.40s' needs axes of fixed size", policy);
    if (strcmp(policy, "stretch")) keep_ratio(x, policy, sizes, scales);
    for (int i = 0; i < x->shape.rank; i++) {
        bool whole = how.part[0][i] == 0 && how.part[1][i] == 1;
        if (!sizes[i] || (sizes[i] == x->shape.dims[i] && (scales[i] == 0 || scales[i] == 1) && whole))
            continue;
        x = resize_axis(call, x, i, sizes[i], scales[i], &how);
    }
    return kn_import_put(call, 0, x);
}

const kn_import_row kn_import_resize[] = {
    {.type = "Resize", .build = resize},
    {.type = "Upsample", .build = resize},
};
const int kn_import_resize_count = (int)KN_COUNT_OF(kn_import_resize);
