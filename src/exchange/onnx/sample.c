/* Sampling of images at computed points. */
#include "exchange/onnx/window.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_TAPS = 64, SAMPLE_AXES = 3, GRID_NUMBERS = 1 << 24 };

typedef enum beyond { BEYOND_ZEROS, BEYOND_BORDER, BEYOND_REFLECTION } beyond;

typedef struct sampling {
    kn_import *import;
    kn_graph *graph;
    beyond beyond;
    bool corners; /* -1 and 1 are the centers of the outer elements, instead of their outer edges */
    int axes, taps;
    kn_dim batch, positions;
    int64_t size[SAMPLE_AXES];
    kn_value *at[SAMPLE_AXES];    /* (N,points), in elements */
    kn_value *first[SAMPLE_AXES]; /* rounded down */
    kn_dtype dtype;               /* number of points */
} sampling;

static kn_value *number(const sampling *s, double value) {
    return kn_import_scalar(s->import, s->dtype, value);
}

/* ---- along one axis ------------------------------------------------------------------------------------ */

/* Reflects x at the borders until it is between them. */
static kn_value *reflected(const sampling *s, kn_value *x, int axis) {
    double low = s->corners ? 0 : -0.5, range = (double)s->size[axis] - (s->corners ? 1 : 0);
    if (range <= 0) return kn_mul(x, number(s, 0));
    kn_value *distance = kn_abs(kn_shift(x, -low)), *times = kn_floor(kn_scale(distance, 1 / range));
    kn_value *rest = kn_sub(distance, kn_scale(times, range));
    kn_value *odd = kn_greater(kn_sub(times, kn_scale(kn_floor(kn_scale(times, 0.5)), 2)), number(s, 0.5));
    return kn_where(odd, kn_shift(kn_neg(rest), low + range), kn_shift(rest, low));
}

/* Converts a grid coordinate along an axis, -1 to 1, to elements. */
static kn_value *pixel_coordinate(const sampling *s, kn_value *x, int axis, bool nearest) {
    double size = (double)s->size[axis];
    x = s->corners ? kn_scale(kn_shift(x, 1), (size - 1) / 2)
                   : kn_scale(kn_shift(kn_scale(kn_shift(x, 1), size), -1), 0.5);
    if (nearest) x = kn_round(x);
    if (s->beyond == BEYOND_BORDER) return kn_clip(x, 0, size - 1);
    return s->beyond == BEYOND_REFLECTION ? reflected(s, x, axis) : x;
}

/* The weight of tap t for a point that is a fraction `part` after the first tap. */
static kn_value *weight_of(const sampling *s, kn_value *part, int t) {
    const double a = -0.75;
    if (s->taps == 2) return t ? part : kn_shift(kn_neg(part), 1);
    kn_value *d = t == 0 ? kn_shift(part, 1) : t == 1 ? part : kn_shift(kn_neg(part), t - 1);
    if (t == 1 || t == 2) /* ((a + 2) d - (a + 3)) d d + 1 */
        return kn_shift(kn_mul(kn_mul(kn_shift(kn_scale(d, a + 2), -(a + 3)), d), d), 1);
    kn_value *inner = kn_shift(kn_mul(kn_shift(kn_scale(d, a), -5 * a), d), 8 * a);
    return kn_shift(kn_mul(inner, d), -4 * a);
}

/* Tap t along an axis: the index of its element, int32, and its weight (NULL: 1). */
static kn_value *tap_of(const sampling *s, int axis, int t, kn_value **weight) {
    kn_value *at = kn_shift(s->first[axis], s->taps == 4 ? t - 1 : t);
    double last = (double)(s->size[axis] - 1);
    *weight = s->taps == 1 ? NULL : weight_of(s, kn_sub(s->at[axis], s->first[axis]), t);
    if (s->beyond == BEYOND_REFLECTION) at = kn_round(reflected(s, at, axis));
    kn_value *inside = kn_clip(at, 0, last);
    if (s->beyond == BEYOND_ZEROS) {
        kn_value *counts = kn_cast(kn_equal(at, inside), s->dtype);
        *weight = *weight ? kn_mul(*weight, counts) : counts;
    }
    return kn_cast(inside, KN_INT32);
}

/* ---- all axes ------------------------------------------------------------------------------------------ */

/* The contribution of one combination of taps, from rows (N*elements,C): (N,points,C). */
static kn_value *combination(const sampling *s, kn_value *rows, int number_of_taps) {
    kn_value *numbers =
        kn_import_reshape(s->import, kn_import_range(s->import, s->batch), (kn_dim[]){s->batch, 1}, 2);
    kn_value *weight = NULL;
    for (int axis = 0; axis < s->axes; axis++) {
        kn_value *factor;
        kn_value *at = tap_of(s, axis, number_of_taps % s->taps, &factor);
        number_of_taps /= s->taps;
        kn_value *stride = kn_import_scalar(s->import, KN_INT32, (double)s->size[axis]);
        numbers = kn_add(kn_mul(numbers, stride), at);
        if (factor) weight = weight ? kn_mul(weight, factor) : factor;
    }
    const kn_dim line[1] = {kn_dim_multiply(s->graph, s->batch, s->positions)};
    const kn_dim dims[3] = {s->batch, s->positions, rows->shape.dims[1]},
                 one[3] = {s->batch, s->positions, 1};
    kn_value *picked = kn_gather(rows, kn_import_reshape(s->import, numbers, line, 1), 0);
    picked = kn_import_reshape(s->import, picked, dims, 3);
    if (!weight) return picked;
    return kn_mul(picked, kn_import_cast(kn_import_reshape(s->import, weight, one, 3), rows->shape.dtype));
}

static kn_status take_sampling(kn_import_call *call, const kn_value *x, kn_value *grid, sampling *s) {
    const char *mode = kn_import_string(call, "mode", "linear");
    const char *padding = kn_import_string(call, "padding_mode", "zeros");
    *s = (sampling){.import = call->import, .graph = call->graph, .batch = x->shape.dims[0], .positions = 1};
    s->beyond = !strcmp(padding, "border")       ? BEYOND_BORDER
                : !strcmp(padding, "reflection") ? BEYOND_REFLECTION
                                                 : BEYOND_ZEROS;
    s->corners = kn_import_int(call, "align_corners", 0) != 0;
    s->axes = x->shape.rank - 2;
    s->dtype = grid->shape.dtype;
    s->taps = !strcmp(mode, "nearest") ? 1 : !strcmp(mode, "cubic") || !strcmp(mode, "bicubic") ? 4 : 2;
    if (s->axes < 1 || s->axes > SAMPLE_AXES || grid->shape.rank != x->shape.rank ||
        grid->shape.dims[x->shape.rank - 1] != s->axes)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected x (N,C,…) and a grid (N,…,axes) with one coordinate per axis");
    for (int i = 0; i < s->axes; i++) {
        s->positions = kn_dim_multiply(call->graph, s->positions, grid->shape.dims[1 + i]);
        s->size[i] = x->shape.dims[2 + i];
        if (!kn_dim_known(s->size[i]) || s->size[i] < 1)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "the image size is dynamic; expected a fixed size");
    }
    for (int i = 0; i < s->axes; i++) { /* the last coordinate of a point is along the first axis */
        const kn_dim dims[2] = {s->batch, s->positions};
        kn_value *numbers = kn_slice(grid, s->axes + 1, s->axes - 1 - i, s->axes - i);
        s->at[i] = pixel_coordinate(s, kn_import_reshape(call->import, numbers, dims, 2), i, s->taps == 1);
        s->first[i] = s->taps == 1 ? s->at[i] : kn_floor(s->at[i]);
    }
    return kn_import_status(call);
}

/* Samples x, whose elements are in the order (batch,channels,…), at all points: (batch,points,channels). */
static kn_value *sampled(const sampling *s, kn_value *x, kn_dim channels) {
    kn_dim elements = 1;
    kn_value *sum = NULL;
    int combinations = 1;
    for (int i = 0; i < s->axes; i++) {
        elements = kn_dim_multiply(s->graph, elements, s->size[i]);
        combinations *= s->taps;
    }
    const kn_dim flat[3] = {s->batch, channels, elements};
    const kn_dim rows[2] = {kn_dim_multiply(s->graph, s->batch, elements), channels};
    kn_value *lines = kn_transpose(kn_import_reshape(s->import, x, flat, 3), "0,2,1");
    lines = kn_import_reshape(s->import, lines, rows, 2);
    for (int t = 0; t < combinations; t++) {
        kn_value *part = combination(s, lines, t);
        sum = sum ? kn_add(sum, part) : part;
    }
    return sum;
}

/* Samples x (N,C,…) at the points of a grid (N,…,axes). */
static kn_status grid_sample(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *grid = kn_import_in(call, 1);
    sampling s;
    if (take_sampling(call, x, grid, &s) != KN_OK) return kn_import_status(call);
    kn_dim dims[KN_MAX_RANK] = {s.batch, x->shape.dims[1]};
    for (int i = 0; i < s.axes; i++)
        dims[2 + i] = grid->shape.dims[1 + i];
    kn_value *sum = sampled(&s, x, x->shape.dims[1]);
    return kn_import_put(call, 0,
                         kn_import_reshape(call->import, kn_transpose(sum, "0,2,1"), dims, x->shape.rank));
}

/* ---- deformable convolutions --------------------------------------------------------------------------- */

typedef struct deform {
    kn_window window;
    int64_t groups, offset_groups, channels, filters, taps, positions, size[2]; /* of the result */
} deform;

/* Fails unless the sizes match: x (N,C,H,W), weight (O,C/groups,height,width), offset (N,offset
 * groups*taps*2,P,Q). */
static kn_status measure_deform(kn_import_call *call, const kn_value *x, const kn_value *weight,
                                const kn_value *offset, deform *d) {
    bool known = x->shape.rank == 4 && weight->shape.rank == 4 && offset->shape.rank == 4;
    for (int i = 1; known && i < 4; i++)
        known = kn_dim_known(x->shape.dims[i]) && kn_dim_known(weight->shape.dims[i]) &&
                kn_dim_known(offset->shape.dims[i]);
    if (!known || !kn_dim_known(weight->shape.dims[0]))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "expected images (N,C,H,W), weights and offsets of fixed sizes");
    if (kn_window_take(call, x, weight, &d->window) != KN_OK) return kn_import_status(call);
    d->groups = kn_import_int(call, "group", 1);
    d->offset_groups = kn_import_int(call, "offset_group", 1);
    d->channels = x->shape.dims[1];
    d->filters = weight->shape.dims[0];
    d->taps = d->window.size[0] * d->window.size[1];
    d->size[0] = offset->shape.dims[2];
    d->size[1] = offset->shape.dims[3];
    d->positions = d->size[0] * d->size[1];
    if (d->groups < 1 || d->offset_groups < 1 || d->channels % d->groups || d->filters % d->groups ||
        d->channels % d->offset_groups || weight->shape.dims[1] * d->groups != d->channels ||
        offset->shape.dims[1] != 2 * d->taps * d->offset_groups || d->positions < 1 ||
        d->taps > GRID_NUMBERS / d->positions)
        return kn_import_fail(call, KN_ERROR_SHAPE, "the channels, groups and offsets do not match");
    return kn_import_status(call);
}

/* The positions of all taps along an axis, (N*offset groups,taps*positions), with the offsets added. */
static kn_value *offset_taps(kn_import_call *call, const deform *d, kn_value *offset, kn_dim batch,
                             int axis) {
    const kn_window *w = &d->window;
    const int64_t count = d->taps * d->positions;
    float *numbers = kn_arena_take(call->import->arena, (size_t)count, sizeof *numbers);
    if (!numbers) return kn_graph_fail(call->graph, KN_ERROR_MEMORY, "out of host memory");
    for (int64_t i = 0; i < count; i++) {
        int64_t tap = i / d->positions, position = i % d->positions;
        int64_t step = axis ? position % d->size[1] : position / d->size[1];
        int64_t part = axis ? tap % w->size[1] : tap / w->size[1];
        numbers[i] = (float)(step * w->stride[axis] - w->padding[axis] + part * w->dilation[axis]);
    }
    const kn_dim separate[4] = {batch, d->taps, 2, d->positions}, flat[2] = {batch, count};
    kn_value *base = kn_import_constant(call->import, KN_FLOAT32, numbers, &count, 1);
    kn_value *moves = kn_slice(kn_import_reshape(call->import, offset, separate, 4), 2, axis, axis + 1);
    return kn_add(kn_import_reshape(call->import, moves, flat, 2), kn_import_cast(base, offset->shape.dtype));
}

/* A convolution whose taps are sampled at offset positions and weighted by a mask, as a product with the
 * samples. */
static kn_status deform_conv(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1), *offset = kn_import_in(call, 2);
    kn_value *bias = kn_import_optional(call, 3), *mask = kn_import_optional(call, 4);
    kn_import *import = call->import;
    deform d;
    if (measure_deform(call, x, weight, offset, &d) != KN_OK) return kn_import_status(call);
    const kn_dim batch = x->shape.dims[0], all = kn_dim_multiply(call->graph, batch, d.offset_groups);
    sampling s = {.import = import,
                  .graph = call->graph,
                  .axes = 2,
                  .taps = 2,
                  .batch = all,
                  .positions = d.taps * d.positions,
                  .dtype = offset->shape.dtype};
    for (int i = 0; i < 2; i++) {
        s.size[i] = x->shape.dims[2 + i];
        s.at[i] = offset_taps(call, &d, offset, all, i);
        s.first[i] = kn_floor(s.at[i]);
    }
    const int64_t own = d.channels / d.offset_groups, rows = d.channels / d.groups * d.taps;
    kn_value *samples = sampled(&s, x, own);
    if (mask) samples = kn_mul(samples, kn_import_reshape(import, mask, (kn_dim[]){all, s.positions, 1}, 3));
    const kn_dim separate[4] = {all, d.taps, d.positions, own},
                 columns[4] = {batch, d.groups, rows, d.positions};
    samples = kn_transpose(kn_import_reshape(import, samples, separate, 4), "0,3,1,2");
    samples = kn_import_reshape(import, samples, columns, 4);
    weight = kn_import_reshape(import, weight, (kn_dim[]){d.groups, d.filters / d.groups, rows}, 3);
    kn_value *y = kn_matmul(weight, samples, false, false);
    y = kn_import_reshape(import, y, (kn_dim[]){batch, d.filters, d.size[0], d.size[1]}, 4);
    if (bias) y = kn_add(y, kn_import_reshape(import, bias, (kn_dim[]){d.filters, 1, 1}, 3));
    return kn_import_put(call, 0, y);
}

/* ---- grids and unpooling ------------------------------------------------------------------------------- */

/* Applies theta (N,axes,axes+1) to the coordinates of all elements: (N,…,axes). */
static kn_status affine_grid(kn_import_call *call) {
    kn_value *theta = kn_import_in(call, 0);
    int64_t size[2 + SAMPLE_AXES], positions = 1;
    kn_dim dims[KN_MAX_RANK];
    int count = 0;
    bool corners = kn_import_int(call, "align_corners", 0) != 0;
    kn_import_dims(call, 1, dims, 2 + SAMPLE_AXES, &count);
    int axes = count - 2;
    if (axes < 1 || theta->shape.rank != 3)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected theta (N,axes,axes+1) and a size (N,C,…)");
    for (int i = 0; i < axes; i++) {
        if (!kn_dim_constant(call->graph, dims[2 + i], &size[2 + i]))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "size %s of the grid is dynamic; expected a fixed size",
                                  kn_import_dims_text(call->import, &dims[2 + i], 1));
        if (size[2 + i] < 1 || size[2 + i] > GRID_NUMBERS / positions / (axes + 1))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the grid has too many points");
        positions *= size[2 + i];
    }
    float *numbers = kn_arena_take(call->import->arena, (size_t)(positions * (axes + 1)), sizeof *numbers);
    if (!numbers) return kn_import_no_memory(call->import);
    for (int64_t p = 0; p < positions; p++) {
        int64_t rest = p;
        for (int i = axes - 1; i >= 0; i--) { /* the last axis has the first coordinate */
            double n = (double)size[2 + i], at = (double)(rest % size[2 + i]);
            double position = !corners ? (2 * at + 1) / n - 1 : n > 1 ? 2 * at / (n - 1) - 1 : 0;
            numbers[(int64_t)(axes - 1 - i) * positions + p] = (float)position;
            rest /= size[2 + i];
        }
        numbers[(int64_t)axes * positions + p] = 1;
    }
    const int64_t shape[2] = {axes + 1, positions};
    kn_value *base = kn_import_constant(call->import, KN_FLOAT32, numbers, shape, 2);
    kn_value *grid = kn_matmul(theta, kn_import_cast(base, theta->shape.dtype), false, false);
    dims[0] = theta->shape.dims[0];
    for (int i = 0; i < axes; i++)
        dims[1 + i] = size[2 + i];
    dims[1 + axes] = axes;
    return kn_import_put(call, 0,
                         kn_import_reshape(call->import, kn_transpose(grid, "0,2,1"), dims, axes + 2));
}

/* Scatters x into zeros at the given indices. */
static kn_status max_unpool(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *numbers = kn_import_in(call, 1);
    kn_dim size[KN_MAX_RANK], whole[KN_MAX_RANK], all = 1, flat[1] = {1};
    int64_t given[3][2 * KN_MAX_RANK] = {{0}};
    int count = 0;
    int rank = x->shape.rank, axes = rank - 2;
    int kernels = kn_import_ints(call, "kernel_shape", given[0], KN_MAX_RANK);
    int strides = kn_import_ints(call, "strides", given[1], KN_MAX_RANK);
    int pads = kn_import_ints(call, "pads", given[2], 2 * KN_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        int k = i - 2;
        size[i] = x->shape.dims[i];
        if (k < 0) continue;
        if (!kn_dim_known(size[i]))
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "size %s of axis %d is dynamic; expected a fixed size",
                                  kn_import_dims_text(call->import, &size[i], 1), i);
        if (k >= kernels)
            return kn_import_fail(call, KN_ERROR_FORMAT, "kernel_shape has %d numbers; expected %d", kernels,
                                  axes);
        size[i] = (size[i] - 1) * (k < strides ? given[1][k] : 1) + given[0][k];
        if (pads == 2 * axes) size[i] -= given[2][k] + given[2][k + axes];
    }
    /* The indices refer to the pooled image, which is at the start of a larger output. */
    int64_t amounts[KN_IMPORT_LIST] = {0};
    memcpy(whole, size, sizeof whole);
    if (kn_import_has(call, 2) && kn_import_dims(call, 2, whole, rank, &count) != KN_OK)
        return kn_import_status(call);
    kn_import *import = call->import;
    bool more = false;
    for (int i = 0; i < rank; i++) {
        all = kn_dim_multiply(call->graph, all, size[i]);
        flat[0] = kn_dim_multiply(call->graph, flat[0], x->shape.dims[i]);
        if (whole[i] == size[i] && (i < 2 || size[i] >= 0)) continue;
        amounts[rank + i] = whole[i] - size[i];
        more = true;
        if (!kn_dim_known(size[i]) || !kn_dim_known(whole[i]) || whole[i] < size[i])
            return kn_import_fail(call, KN_ERROR_SHAPE, "output_shape is smaller than the unpooled image");
    }
    kn_value *zeros = kn_import_broadcast(import, kn_import_scalar(import, x->shape.dtype, 0), &all, 1);
    kn_value *y = kn_scatter_elements(zeros, kn_import_reshape(import, numbers, flat, 1),
                                      kn_import_reshape(import, x, flat, 1), 0, KN_SCATTER_REPLACE);
    y = kn_import_reshape(import, y, size, rank);
    return kn_import_put(call, 0, more ? kn_pad(y, kn_import_list(import, amounts, 2 * rank), 0) : y);
}

const kn_import_row kn_import_sample[] = {
    {.type = "GridSample", .build = grid_sample}, KN_OF_MICROSOFT("GridSample", grid_sample),
    {.type = "DeformConv", .build = deform_conv}, {.type = "AffineGrid", .build = affine_grid},
    {.type = "MaxUnpool", .build = max_unpool},
};
const int kn_import_sample_count = (int)KN_COUNT_OF(kn_import_sample);
