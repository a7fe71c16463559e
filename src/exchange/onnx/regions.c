/* Regions of images, each sampled at a grid of points. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_CELLS = 4096, MAX_SAMPLES = 64 };

/* Interpolation along one axis of the image for the points of each region, (R,cells * samples): indices of
 * the elements on both sides, int32, and their weights, which are 0 outside the image. */
typedef struct sides {
    int64_t cells, size;
    kn_value *at[2], *weight[2];
} sides;

typedef struct regions {
    kn_import *import;
    kn_dim count;
    int64_t samples; /* samples per cell along each axis */
    double scale;
    bool half_pixel;
    kn_value *corners; /* (R,4): x, y, x, y */
} regions;

/* The sample positions along an axis, in cells: (1,cells * samples). */
static kn_value *sample_positions(const regions *r, int64_t cells) {
    int64_t count = cells * r->samples;
    float *positions = kn_arena_take(r->import->arena, (size_t)count, sizeof *positions);
    if (!positions) return kn_graph_fail(r->import->graph, KN_ERROR_MEMORY, "out of host memory");
    for (int64_t i = 0; i < count; i++)
        positions[i] = (float)(((double)i + 0.5) / (double)r->samples);
    return kn_import_constant(r->import, KN_FLOAT32, positions, (int64_t[]){1, count}, 2);
}

/* axis is 0 for heights, 1 for widths. */
static void find_sides(const regions *r, int axis, sides *s) {
    kn_value *begin = kn_slice(r->corners, 1, 1 - axis, 2 - axis);
    kn_value *end = kn_slice(r->corners, 1, 3 - axis, 4 - axis);
    begin = kn_shift(kn_scale(begin, r->scale), r->half_pixel ? -0.5 : 0);
    kn_value *length = kn_sub(kn_shift(kn_scale(end, r->scale), r->half_pixel ? -0.5 : 0), begin);
    kn_value *one = kn_import_scalar(r->import, KN_FLOAT32, 1), *last;
    if (!r->half_pixel) length = kn_max(length, one);
    kn_value *cell = kn_scale(length, 1 / (double)s->cells);
    kn_value *position = kn_add(begin, kn_mul(cell, sample_positions(r, s->cells)));
    last = kn_import_scalar(r->import, KN_FLOAT32, (double)s->size);
    kn_value *inside = kn_and(kn_greater_equal(position, kn_neg(one)), kn_less_equal(position, last));
    position = kn_clip(position, 0, (double)(s->size - 1));
    kn_value *below = kn_floor(position), *part = kn_sub(position, below);
    s->weight[0] = kn_mul(kn_sub(one, part), kn_cast(inside, KN_FLOAT32));
    s->weight[1] = kn_mul(part, kn_cast(inside, KN_FLOAT32));
    s->at[0] = kn_cast(below, KN_INT32);
    s->at[1] = kn_cast(kn_clip(kn_shift(below, 1), 0, (double)(s->size - 1)), KN_INT32);
}

/* One of the four elements around each point, times its weight: (R,heights,widths,C), gathered from rows
 * (N*H*W,C). first (R,1,1) is the batch index of each region. */
static kn_value *corner(const regions *r, kn_value *rows, kn_value *first, const sides s[2], int y, int x) {
    kn_value *height = kn_import_scalar(r->import, KN_INT32, (double)s[0].size);
    kn_value *width = kn_import_scalar(r->import, KN_INT32, (double)s[1].size);
    kn_value *row = kn_add(kn_mul(first, height), kn_unsqueeze(s[0].at[y], "2"));
    kn_value *position = kn_add(kn_mul(row, width), kn_unsqueeze(s[1].at[x], "1"));
    kn_value *weight = kn_mul(kn_unsqueeze(s[0].weight[y], "2"), kn_unsqueeze(s[1].weight[x], "1"));
    return kn_mul(kn_gather(rows, position, 0),
                  kn_unsqueeze(kn_import_cast(weight, kn_value_dtype(rows)), "3"));
}

static kn_status take_regions(kn_import_call *call, const kn_value *x, kn_value *corners,
                              const kn_value *images, regions *r, sides s[2]) {
    const char *usual = call->opset >= 16 ? "half_pixel" : "output_half_pixel";
    *r = (regions){.import = call->import, .corners = kn_import_cast(corners, KN_FLOAT32)};
    r->samples = kn_import_int(call, "sampling_ratio", 0);
    r->scale = kn_import_float(call, "spatial_scale", 1);
    r->half_pixel = !strcmp(kn_import_string(call, "coordinate_transformation_mode", usual), "half_pixel");
    s[0] = (sides){.cells = kn_import_int(call, "output_height", 1)};
    s[1] = (sides){.cells = kn_import_int(call, "output_width", 1)};
    if (x->shape.rank != 4 || corners->shape.rank != 2 || corners->shape.dims[1] != 4 ||
        images->shape.rank != 1 || images->shape.dims[0] != corners->shape.dims[0])
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected images (N,C,H,W), regions (R,4) and batch indices (R)");
    r->count = corners->shape.dims[0];
    if (r->samples == 0)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "sampling_ratio 0, a different number of samples per region, is not supported");
    for (int i = 0; i < 2; i++) {
        s[i].size = x->shape.dims[2 + i];
        if (!kn_dim_known(s[i].size) || s[i].size < 1)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                                  "the image size is dynamic; expected a fixed size");
        if (s[i].cells < 1 || s[i].cells > MAX_CELLS || r->samples < 0 || r->samples > MAX_SAMPLES)
            return kn_import_fail(call, KN_ERROR_ARGUMENT,
                                  "%" PRId64 " cells of %" PRId64
                                  " samples are not supported; expected at most %d of %d",
                                  s[i].cells, r->samples, MAX_CELLS, MAX_SAMPLES);
        find_sides(r, i, &s[i]);
    }
    return kn_import_status(call);
}

/* The mean, or the maximum, of the samples of each cell: (R,C,height,width). */
static kn_status roi_align(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *corners = kn_import_in(call, 1);
    kn_value *images = kn_import_in(call, 2), *sum = NULL;
    bool largest = !strcmp(kn_import_string(call, "mode", "avg"), "max");
    regions r;
    sides s[2];
    if (take_regions(call, x, corners, images, &r, s) != KN_OK) return kn_import_status(call);
    kn_dim channels = x->shape.dims[1];
    kn_dim rows =
        kn_dim_multiply(call->graph, kn_dim_multiply(call->graph, x->shape.dims[0], s[0].size), s[1].size);
    x = kn_import_reshape(call->import, kn_transpose(x, "0,2,3,1"), (kn_dim[]){rows, channels}, 2);
    kn_value *first = kn_unsqueeze(kn_import_cast(images, KN_INT32), "1,2");
    for (int i = 0; i < 4; i++) {
        kn_value *value = corner(&r, x, first, s, i / 2, i % 2);
        sum = !sum ? value : largest ? kn_max(sum, value) : kn_add(sum, value);
    }
    const kn_dim dims[6] = {r.count, s[0].cells, r.samples, s[1].cells, r.samples, channels};
    sum = kn_import_reshape(call->import, sum, dims, 6);
    sum = largest ? kn_reduce_max(sum, "2,4", false) : kn_mean(sum, "2,4", false);
    return kn_import_put(call, 0, kn_transpose(sum, "0,3,1,2"));
}

const kn_import_row kn_import_regions[] = {
    {.type = "RoiAlign", .build = roi_align},
};
const int kn_import_regions_count = (int)KN_COUNT_OF(kn_import_regions);
