/* Resizes an axis by interpolation (cl/shape/resize.cl); images are resized axis by axis. */
#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_resize, kn_row_resize_gradient;

/* The values of the attributes, in order. */
enum { NEAREST, LINEAR, CUBIC };
enum { HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, PYTORCH_HALF_PIXEL };
enum { PREFER_FLOOR, PREFER_CEIL, DOWN, UP };

/* ---- source positions of results ------------------------------------------------------- */

/* Position j of the result is at (j * scale + offset) / divisor of the source, rounded down for the first
 * tap. */
typedef struct places {
    int taps;
    int64_t scale, offset, divisor;
    double cubic;
} places;

/* The simplest fraction that equals `number` within the rounding of a float32. */
static void fraction_of(double number, int64_t *above, int64_t *below) {
    int64_t before[2] = {0, 1}, now[2] = {1, 0};
    double rest = number;
    for (int i = 0; i < 32; i++) {
        double whole = floor(rest);
        if (whole * (double)now[0] + (double)before[0] > 1e6 ||
            whole * (double)now[1] + (double)before[1] > 1e6)
            break;
        for (int k = 0; k < 2; k++) {
            int64_t next = (int64_t)whole * now[k] + before[k];
            before[k] = now[k];
            now[k] = next;
        }
        if (fabs((double)now[0] / (double)now[1] - number) <= 1e-7 * number) break;
        rest = 1 / (rest - whole);
    }
    *above = now[0];
    *below = now[1];
}

/* From `source` elements to `size`. */
static places places_of(const kn_operator *row, const kn_attribute_value *attributes, int64_t source,
                        int64_t size) {
    static const int taps[] = {[NEAREST] = 1, [LINEAR] = 2, [CUBIC] = 4};
    int64_t mode = kn_attribute_in(row, attributes, "mode")->integer;
    int64_t coordinates = kn_attribute_in(row, attributes, "coordinates")->integer;
    int64_t rounding = kn_attribute_in(row, attributes, "rounding")->integer;
    places at = {.taps = taps[mode], .cubic = kn_attribute_in(row, attributes, "cubic")->number};
    /* A step in the result is source / size of a step in the source, unless a scale was given. */
    double scale = kn_attribute_in(row, attributes, "scale")->number;
    int64_t above = source, below = size;
    if (scale > 0) fraction_of(1 / scale, &above, &below);
    if (coordinates == ALIGN_CORNERS) {
        at.scale = size > 1 ? source - 1 : 0;
        at.divisor = size > 1 ? size - 1 : 1;
    } else if (coordinates == ASYMMETRIC) {
        at.scale = above;
        at.divisor = below;
    } else if (coordinates == PYTORCH_HALF_PIXEL && size == 1) {
        at.divisor = 1;
    } else { /* (j + 1/2) * above / below - 1/2 */
        at.scale = 2 * above;
        at.offset = above - below;
        at.divisor = 2 * below;
    }
    if (mode != NEAREST || rounding == DOWN) return at;
    if (rounding == UP) { /* rounded down after adding slightly less than 1 */
        at.offset += at.divisor - 1;
        return at;
    }
    /* To nearest: rounded down after adding a half, or slightly less than a half. */
    at.scale *= 2;
    at.offset = 2 * at.offset + at.divisor - (rounding == PREFER_FLOOR);
    at.divisor *= 2;
    return at;
}

/* The taps of position j: positions in the source, and weights. */
static void taps_of(const places *at, int64_t j, int64_t source, int64_t *positions, double *weights) {
    int64_t place = j * at->scale + at->offset, whole = kn_floor_divide(place, at->divisor);
    double part = (double)(place - whole * at->divisor) / (double)at->divisor, a = at->cubic;
    for (int t = 0; t < at->taps; t++) {
        int64_t position = whole + t - (at->taps == 4);
        double distance = part - (t - (at->taps == 4)), d = distance < 0 ? -distance : distance;
        positions[t] = position < 0 ? 0 : position >= source ? source - 1 : position;
        weights[t] = at->taps == 1   ? 1
                     : at->taps == 2 ? 1 - d
                     : d <= 1        ? ((a + 2) * d - (a + 3)) * d * d + 1
                                     : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    }
}

/* ---- shapes, references and gradients -------------------------------------------------------- */

/* The axis of the first input gets size `size`; positions are 32-bit integers. */
static kn_status resize_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    int64_t size = kn_shape_attribute(call, "size")->integer;
    int axis;
    if (kn_shape_float_input(call, 0) ||
        kn_shape_axis(call, kn_shape_attribute(call, "axis")->integer, x->rank, &axis))
        return call->error->status;
    kn_dim source = x->dims[axis];
    if (size < 0 || (source == 0) != (size == 0) || size > INT32_MAX / 8 || source > INT32_MAX / 8)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; axis %d cannot be resized to %lld",
                             kn_shape_words_of(call, 0), axis, (long long)size);
    double scale = kn_shape_attribute(call, "scale")->number;
    if (scale != 0 && !(scale >= 1e-4 && scale <= 1e4))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "the scale is %g; expected 0 (the ratio of the sizes), or 1e-4 to 1e4", scale);
    call->outputs[0] = *x;
    call->outputs[0].dims[axis] = size;
    return KN_OK;
}

/* Sizes of the forward node, in both directions. */
typedef struct resizing {
    kn_lanes lanes; /* size: of the result of the forward node */
    int64_t source;
    places at;
} resizing;

static resizing resizing_of(const kn_node *node) {
    bool backward = node->op->backward;
    const kn_shape *x = &(backward ? node->outputs[0] : node->inputs[0])->shape;
    const kn_shape *y = &(backward ? node->inputs[0] : node->outputs[0])->shape;
    int axis = kn_axis_of(node, x->rank);
    resizing form = {.lanes = kn_lanes_of(y, axis), .source = x->dims[axis]};
    form.at = places_of(node->op, node->attributes, form.source, form.lanes.size);
    return form;
}

static kn_status resize_reference(kn_reference_call *call) {
    resizing form = resizing_of(call->node);
    bool backward = call->node->op->backward;
    kn_lanes lanes = form.lanes;
    for (int64_t o = 0; o < lanes.outer; o++)
        for (int64_t j = 0; j < lanes.size; j++) {
            int64_t positions[4];
            double weights[4];
            taps_of(&form.at, j, form.source, positions, weights);
            for (int t = 0; t < form.at.taps; t++)
                for (int64_t i = 0; i < lanes.inner; i++) {
                    int64_t x = (o * form.source + positions[t]) * lanes.inner + i;
                    int64_t y = (o * lanes.size + j) * lanes.inner + i;
                    if (backward)
                        call->outputs[0].data[x] += weights[t] * call->inputs[0].data[y];
                    else
                        call->outputs[0].data[y] += weights[t] * call->inputs[0].data[x];
                }
        }
    return KN_OK;
}

static kn_status resize_gradient(kn_gradient_call *call) {
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    const kn_shape *x = &call->node->inputs[0]->shape;
    int axis = kn_axis_of(call->node, x->rank);
    static const char *const same[] = {"mode", "coordinates", "rounding"};
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_resize_gradient);
    kn_settings_int(&settings, "axis", axis);
    kn_settings_int(&settings, "size", x->dims[axis]);
    for (size_t i = 0; i < KN_COUNT_OF(same); i++)
        kn_settings_int(&settings, same[i], kn_attribute_of(call->node, same[i])->integer);
    kn_settings_float(&settings, "cubic", kn_attribute_of(call->node, "cubic")->number);
    kn_settings_float(&settings, "scale", kn_attribute_of(call->node, "scale")->number);
    call->input_gradients[0] =
        kn_gradient_build(call, &kn_row_resize_gradient, &call->output_gradients[0], 1, &settings);
    return kn_gradient_status(call);
}

static void resize_cost(const kn_node *node, kn_cost *cost) {
    resizing form = resizing_of(node);
    double elements = (double)form.lanes.outer * (double)form.lanes.size * (double)form.lanes.inner;
    kn_cost_set(node, form.at.taps == 1 ? 0 : 2.0 * form.at.taps * elements, cost);
}

/* ---- lowering -------------------------------------------------------------------------------- */

enum { WORK = 16384 }; /* minimum elements per work-item on wide-vector devices */

static kn_status lower_resize(kn_lowering *lowering) {
    const bool wide = lowering->config == KN_METHOD_WIDE;
    const kn_node *node = lowering->node;
    kn_value *from = node->inputs[0];
    bool backward = node->op->backward;
    resizing form = resizing_of(node);
    kn_lanes lanes = form.lanes;
    int64_t rows = backward ? form.source : lanes.size; /* of the result */
    int64_t outer_chunk = 1, row_chunk = 1, inner_chunk = 1;
    if (kn_elements_of(node->outputs[0]) == 0) return KN_OK;
    if (wide) {
        inner_chunk = lanes.inner;
        row_chunk = WORK / lanes.inner + 1;
        /* Several images together, so that each position is computed once for all of them. */
        if (row_chunk > rows) row_chunk = rows;
        outer_chunk = WORK / (lanes.inner * row_chunk) + 1;
    }
    kn_step *step = kn_step_begin(lowering, "shape/resize.cl", backward ? "kn_resize_gradient" : "kn_resize");
    kn_step_types(step, node, from->shape.dtype);
    KN_STEP_DEFINE(step, {"KN_BACKWARD", backward ? 1 : 0});
    kn_step_read(step, backward ? "dy" : "x", from);
    kn_step_write(step, backward ? "dx" : "y", lowering->result);
    KN_STEP_SET(step, {"outer", lanes.outer}, {"source", form.source}, {"size", lanes.size},
                {"inner", lanes.inner}, {"outer_chunk", outer_chunk}, {"row_chunk", row_chunk},
                {"inner_chunk", inner_chunk}, {"taps", form.at.taps}, {"scale", form.at.scale},
                {"offset", form.at.offset}, {"divisor", form.at.divisor});
    kn_step_float(step, "cubic", form.at.cubic);
    kn_step_size3(step,
                  (size_t[3]){(size_t)kn_divide_up(lanes.inner, inner_chunk),
                              (size_t)kn_divide_up(rows, row_chunk),
                              (size_t)kn_divide_up(lanes.outer, outer_chunk)},
                  wide ? (size_t[3]){1, 1, 1} : (size_t[3]){0, 0, 0});
    return kn_step_end(step, lowering);
}

/* Some many-thread devices limit loops to 65,535 iterations. */
static bool accepts_threads(const kn_target *target, const kn_node *node) {
    return resizing_of(node).lanes.size <= 65535 && kn_takes_kernel_types(target, node);
}
#define RESIZING                                                                                             \
    KN_ATTRIBUTES(                                                                                           \
        KN_INT("axis", -1, "axis, negative from the end"), KN_INT("size", 1, "its new size"),                \
        KN_CHOICE("mode", "nearest linear cubic", NEAREST, "interpolation between elements"),                \
        KN_CHOICE("coordinates", "half_pixel align_corners asymmetric pytorch_half_pixel", HALF_PIXEL,       \
                  "mapping of coordinates"),                                                                 \
        KN_CHOICE("rounding", "round_prefer_floor round_prefer_ceil floor ceil", PREFER_FLOOR,               \
                  "rounding to the nearest element"),                                                        \
        KN_FLOAT("cubic", -0.75, "coefficient of cubic interpolation"),                                      \
        KN_FLOAT("scale", 0, "the scale that the size was computed with; 0: the ratio of the sizes")),       \
        .min_inputs = 1, .max_inputs = 1, .shape = resize_shape, .reference = resize_reference,              \
        .cost = resize_cost,                                                                                 \
        KN_VARIANTS(KN_WIDE_VARIANTS(lower_resize, kn_takes_kernel_types_wide, .name = "threads",            \
                                     .choice.accepts = accepts_threads))

KN_OPERATOR(
    resize, .help = "resizes an axis by interpolation", .gradient = resize_gradient, RESIZING,
    KN_CASES({.inputs = {"3,7"}, .attributes = "size=13 mode=linear", .smallest = true},
             {.inputs = {"2,3,7,5"}, .attributes = "axis=2 size=14"},
             {.inputs = {"2,3,7,5"}, .attributes = "axis=2 size=4 rounding=floor coordinates=asymmetric"},
             {.inputs = {"31,33"}, .attributes = "size=20 rounding=ceil"},
             {.inputs = {"31,33"}, .attributes = "size=66 rounding=round_prefer_ceil"},
             {.inputs = {"3,31,7"}, .attributes = "axis=1 size=93 mode=linear coordinates=align_corners"},
             {.inputs = {"3,31,7"}, .attributes = "axis=1 size=11 mode=linear coordinates=asymmetric"},
             {.inputs = {"31,33"}, .attributes = "size=50 mode=cubic"},
             {.inputs = {"5,3,7"}, .attributes = "axis=1 size=7 mode=cubic coordinates=align_corners"},
             {.inputs = {"5,9"}, .attributes = "size=1 mode=linear coordinates=pytorch_half_pixel"},
             {.inputs = {"5,1"}, .attributes = "size=4 mode=cubic cubic=-0.5"},
             {.inputs = {"31,7"}, .attributes = "size=9 mode=linear scale=1.3"},
             {.inputs = {"31,7"}, .attributes = "size=4 coordinates=asymmetric scale=0.6"},
             {.inputs = {"0,5"}, .attributes = "size=3 mode=linear"}));
KN_OPERATOR(
    resize_gradient, .help = "gradient of resize", .backward = true, RESIZING,
    KN_CASES({.inputs = {"3,13"}, .attributes = "size=7 mode=linear", .smallest = true},
             {.inputs = {"2,3,14,5"}, .attributes = "axis=2 size=7"},
             {.inputs = {"31,20"}, .attributes = "size=33 rounding=ceil"},
             {.inputs = {"3,93,7"}, .attributes = "axis=1 size=31 mode=linear coordinates=align_corners"},
             {.inputs = {"3,11,7"}, .attributes = "axis=1 size=31 mode=linear coordinates=asymmetric"},
             {.inputs = {"31,50"}, .attributes = "size=33 mode=cubic"},
             {.inputs = {"31,33"}, .attributes = "size=50 mode=cubic"},
             {.inputs = {"5,1"}, .attributes = "size=9 mode=linear coordinates=align_corners"},
             {.inputs = {"5,4"}, .attributes = "size=1 mode=cubic cubic=-0.5"}));

/* ---- builder --------------------------------------------------------------------------------- */

static kn_value *resize_axis(kn_value *x, int axis, int64_t size, double scale,
                             const kn_resize_params *given) {
    if (kn_value_failed(x)) return x;
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_resize);
    kn_settings_int(&settings, "axis", axis);
    kn_settings_int(&settings, "size", size);
    kn_settings_int(&settings, "mode", given->mode);
    kn_settings_int(&settings, "coordinates", given->coordinates);
    kn_settings_int(&settings, "rounding", given->rounding);
    kn_settings_float(&settings, "cubic", given->cubic);
    kn_settings_float(&settings, "scale", scale);
    return kn_build(&kn_row_resize, &x, 1, &settings);
}

/* x is (...,H,W), the result (...,height,width). */
kn_value *kn_resize_image(kn_value *x, int64_t height, int64_t width, const kn_resize_params *params) {
    if (kn_value_failed(x)) return x;
    kn_resize_params given;
    kn_resize_params_init(&given);
    KN_TAKE_PARAMS(x, kn_resize_params, &given, params);
    int rank = x->shape.rank;
    if (rank < 2 || height < 1 || width < 1)
        return kn_graph_fail(x->graph, KN_ERROR_SHAPE,
                             "resize: x is %s, to be resized to %lld by %lld; expected (...,H,W)",
                             kn_shape_words(x->graph, &x->shape), (long long)height, (long long)width);
    if ((unsigned)given.mode > KN_RESIZE_CUBIC ||
        (unsigned)given.coordinates > KN_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL ||
        (unsigned)given.rounding > KN_RESIZE_ROUNDING_CEIL)
        return kn_graph_fail(x->graph, KN_ERROR_ARGUMENT, "resize: mode, coordinates or rounding is unknown");
    if (x->shape.dims[rank - 2] != height) x = resize_axis(x, rank - 2, height, given.scale[0], &given);
    if (!kn_value_failed(x) && x->shape.dims[rank - 1] != width)
        x = resize_axis(x, rank - 1, width, given.scale[1], &given);
    return x;
}
