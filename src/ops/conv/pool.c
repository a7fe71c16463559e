/* Pooling over windows of images: maxima, averages, and their gradients (cl/conv/pool.cl). */
#include <math.h>
#include <string.h>

#include "ops/build.h"
#include "ops/conv/window.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_max_pool, kn_row_max_pool_data, kn_row_average_pool_data;

/* ---- shapes ----------------------------------------------------------------------------------------- */

/* The type of a position in a window: a byte for windows of at most 256 positions. Adaptive window sizes
 * depend on the image. */
static kn_dtype place_type(bool adaptive, const int64_t window[2]) {
    return !adaptive && window[0] * window[1] <= 256 ? KN_UINT8 : KN_INT32;
}

static kn_status complete_lists(kn_shape_call *call) {
    kn_attribute_value *stride = kn_shape_attribute(call, "stride");
    const kn_attribute_value *window = kn_shape_attribute(call, "window");
    for (int i = 0; i < window->count && i < 2; i++)
        if (window->list[i] < 1)
            return kn_shape_fail(call, KN_ERROR_ARGUMENT, "a window of %lld elements; expected at least 1",
                                 (long long)window->list[i]);
    if (stride->count == 0) {
        stride->count = window->count;
        for (int i = 0; i < window->count && i < 2; i++)
            stride->list[i] = window->list[i];
    }
    if (kn_window_lists(call)) return call->error->status;
    const kn_attribute_value *padding = kn_shape_attribute(call, "padding");
    for (int i = 0; i < 4; i++)
        if (padding->list[i] >= window->list[i % 2])
            return kn_shape_fail(
                call, KN_ERROR_ARGUMENT,
                "padding %lld is not below the window's %lld: a window could be outside the image",
                (long long)padding->list[i], (long long)window->list[i % 2]);
    if (window->list[0] > INT32_MAX / window->list[1])
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "the window exceeds 32 bits");
    kn_attribute_value *output = kn_shape_attribute(call, "output");
    if (output->count == 1) output->list[1] = output->list[0], output->count = 2;
    if (output->count == 0) return KN_OK;
    if (output->count != 2 || output->list[0] < 1 || output->list[1] < 1 || output->list[0] > INT32_MAX ||
        output->list[1] > INT32_MAX)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "output must be one number, or two (height, width), of at least 1");
    return KN_OK;
}

/* Whether the row has the attribute and it is not 0. */
static bool is_set(const kn_shape_call *call, const char *name) {
    for (int i = 0; i < call->row->attribute_count; i++)
        if (!strcmp(call->row->attributes[i].name, name)) return kn_shape_attribute(call, name)->integer != 0;
    return false;
}

/* With `ceil`, adds a window if part of the image remains, provided that it begins inside the image or the
 * padding before it. */
static kn_status round_up(kn_shape_call *call, int axis, int64_t size, kn_dim *result) {
    kn_graph *graph = call->graph;
    kn_dim image = call->inputs[0]->shape.dims[2 + axis];
    int64_t stride = kn_shape_attribute(call, "stride")->list[axis];
    const kn_attribute_value *padding = kn_shape_attribute(call, "padding");
    int64_t before = padding->list[axis], sides = before + padding->list[axis + 2];
    kn_dim rest = kn_dim_subtract(graph, kn_dim_add(graph, image, sides + stride - 1), size);
    *result = kn_dim_add(graph, kn_dim_divide(graph, rest, stride), 1);
    if (kn_dim_known(image)) {
        if ((*result - 1) * stride >= image + before) *result -= 1;
        return KN_OK;
    }
    /* The last window begins before image + sides - size + stride. */
    if (padding->list[axis + 2] + stride <= size) return KN_OK;
    return kn_shape_fail(call, KN_ERROR_UNSUPPORTED,
                         "x is %s, and whether the last window begins in the image depends on its size; "
                         "expected a stride and padding of at most the window, or a size without symbols",
                         kn_shape_words_of(call, 0));
}

/* x is (N,C,H,W), the result (N,C,P,Q); the hidden output of max_pool is the position of the maximum in each
 * window. */
static kn_status pool_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[0]->shape;
    kn_shape *y = &call->outputs[0];
    if (kn_shape_float_input(call, 0)) return call->error->status;
    if (x->rank != 4)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected images, (N,C,H,W)",
                             kn_shape_words_of(call, 0));
    if (complete_lists(call)) return call->error->status;
    const kn_attribute_value *window = kn_shape_attribute(call, "window");
    *y = *x;
    const kn_attribute_value *output = kn_shape_attribute(call, "output");
    bool adaptive = output->count > 0, ceil = is_set(call, "ceil");
    for (int axis = 0; axis < 2; axis++) {
        int64_t size = window->list[axis];
        if (adaptive) {
            y->dims[2 + axis] = output->list[axis];
            if (x->dims[2 + axis] == 0)
                return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected images with at least one pixel",
                                     kn_shape_words_of(call, 0));
            continue;
        }
        if (call->output_count > 1) {
            int64_t dilation = kn_shape_attribute(call, "dilation")->list[axis];
            if (dilation > INT32_MAX || (size > 1 && dilation > (INT32_MAX - 1) / (size - 1)))
                return kn_shape_fail(call, KN_ERROR_ARGUMENT, "the window and its dilation exceed 32 bits");
            size = (size - 1) * dilation + 1;
        }
        if (kn_window_size(call, axis, size, false, false, &y->dims[2 + axis])) return call->error->status;
        if (ceil && round_up(call, axis, size, &y->dims[2 + axis])) return call->error->status;
    }
    if (call->output_count > 1) {
        call->outputs[1] = *y;
        call->outputs[1].dtype = place_type(adaptive, window->list);
    }
    return KN_OK;
}

/* dy is (N,C,P,Q), for max_pool with positions (N,C,P,Q); "size" is H,W of the result (N,C,H,W). */
static kn_status pool_data_shape(kn_shape_call *call) {
    const kn_shape *dy = &call->inputs[0]->shape;
    const kn_attribute_value *size = kn_shape_attribute(call, "size");
    if (dy->rank != 4 || size->count != 2)
        return kn_shape_fail(call, KN_ERROR_SHAPE, "expected dy (N,C,P,Q) and size=H,W");
    if (complete_lists(call)) return call->error->status;
    call->outputs[0] = *dy;
    call->outputs[0].dims[2] = size->list[0];
    call->outputs[0].dims[3] = size->list[1];
    return KN_OK;
}

typedef struct pool_form {
    bool data, maximum, skip_padding, adaptive;
    int64_t planes, channels, height, width, out_height, out_width; /* height and width of x */
    int64_t window[2], stride[2], padding[2], dilation[2];
    int64_t end[2]; /* of the image with its padding */
} pool_form;

static pool_form describe(const kn_node *node) {
    pool_form form = {.data = node->op->backward};
    form.maximum = node->op == &kn_row_max_pool || node->op == &kn_row_max_pool_data;
    const kn_shape *x = form.data ? &node->outputs[0]->shape : &node->inputs[0]->shape;
    const kn_shape *y = form.data ? &node->inputs[0]->shape : &node->outputs[0]->shape;
    form.planes = x->dims[0] * x->dims[1];
    form.channels = x->dims[1];
    form.height = x->dims[2];
    form.width = x->dims[3];
    form.out_height = y->dims[2];
    form.out_width = y->dims[3];
    if (!form.maximum) form.skip_padding = kn_attribute_of(node, "skip_padding")->integer != 0;
    form.adaptive = kn_attribute_of(node, "output")->count > 0;
    for (int i = 0; i < 2; i++) {
        form.window[i] = kn_attribute_of(node, "window")->list[i];
        form.stride[i] = kn_attribute_of(node, "stride")->list[i];
        form.padding[i] = kn_attribute_of(node, "padding")->list[i];
        form.dilation[i] = form.maximum ? kn_attribute_of(node, "dilation")->list[i] : 1;
        form.end[i] = x->dims[2 + i] + kn_attribute_of(node, "padding")->list[i + 2];
        if (!form.adaptive) continue;
        /* The largest size of a window; where each begins follows from its position. */
        form.window[i] = y->dims[2 + i] ? kn_divide_up(x->dims[2 + i], y->dims[2 + i]) + 1 : 1;
        form.stride[i] = form.dilation[i] = 1;
        form.padding[i] = 0;
        form.end[i] = x->dims[2 + i];
    }
    return form;
}

/* ---- references --------------------------------------------------------------------------------------- */

/* The range of window `place` along an axis; taps are `dilation` apart. */
static void window_ends(const pool_form *form, int axis, int64_t place, int64_t *begin, int64_t *end) {
    int64_t size = axis ? form->width : form->height, count = axis ? form->out_width : form->out_height;
    *begin = place * form->stride[axis] - form->padding[axis];
    *end = *begin + (form->window[axis] - 1) * form->dilation[axis] + 1;
    if (!form->adaptive) return;
    *begin = place * size / count;
    *end = kn_divide_up((place + 1) * size, count);
}

static int64_t at_most(int64_t number, int64_t most) {
    return number < most ? number : most;
}

/* One window of one plane; x and dx are (H,W). Forward, returns the result and its position; with dx,
 * distributes the gradient g */
static double window_reference(const pool_form *form, int64_t p, int64_t q, const double *x, double *dx,
                               double g, int64_t *place) {
    double most = -INFINITY, sum = 0;
    int64_t top, bottom, left, right, inside = 0, chosen = *place;
    window_ends(form, 0, p, &top, &bottom);
    window_ends(form, 1, q, &left, &right);
    int64_t all = (at_most(bottom, form->end[0]) - top) * (at_most(right, form->end[1]) - left);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t v = top; v < bottom; v += form->dilation[0])
            for (int64_t u = left; u < right; u += form->dilation[1]) {
                if (v < 0 || v >= form->height || u < 0 || u >= form->width) continue;
                int64_t at = v * form->width + u;
                int64_t tap =
                    (v - top) / form->dilation[0] * form->window[1] + (u - left) / form->dilation[1];
                if (pass == 0) {
                    inside++;
                    if (!x) continue;
                    sum += x[at];
                    if (most < x[at] || isnan(x[at]) || *place < 0) most = x[at], *place = tap;
                } else if (dx && form->maximum) {
                    if (tap == chosen) dx[at] += g;
                } else if (dx) {
                    dx[at] += g / (double)(form->skip_padding ? inside : all);
                }
            }
    return form->maximum ? most : sum / (double)(form->skip_padding ? inside : all);
}

static kn_status pool_reference(kn_reference_call *call) {
    pool_form form = describe(call->node);
    int64_t outputs = form.out_height * form.out_width, pixels = form.height * form.width;
    for (int64_t i = 0; i < form.planes * outputs; i++) {
        int64_t plane = i / outputs, p = i % outputs / form.out_width, q = i % form.out_width, place = -1;
        if (form.data) {
            if (form.maximum) place = (int64_t)call->inputs[1].data[i];
            window_reference(&form, p, q, NULL, call->outputs[0].data + plane * pixels,
                             call->inputs[0].data[i], &place);
        } else {
            call->outputs[0].data[i] =
                window_reference(&form, p, q, call->inputs[0].data + plane * pixels, NULL, 0, &place);
            if (form.maximum) call->outputs[1].data[i] = (double)place;
        }
    }
    return KN_OK;
}

static void pool_cost(const kn_node *node, kn_cost *cost) {
    pool_form form = describe(node);
    double taps = (double)form.window[0] * (double)form.window[1];
    kn_cost_set(node, taps * (double)form.planes * (double)form.out_height * (double)form.out_width, cost);
}

/* ---- lowering -------------------------------------------------------------------------------- */

enum { LINE = 64 }; /* adjacent pixels whose maxima fit in the first-level cache */

/* Whether, on many-thread devices, each computes two pixels (KN_PAIRS): few columns of a window are loaded
 * twice. */
static bool takes_pairs(const kn_target *target, const kn_node *node, const pool_form *form) {
    enum { MAX_TAPS = 4 };
    return !target->wide_vector && node->outputs[0]->layout != KN_LAYOUT_BLOCKED && form->maximum &&
           !form->data && !form->adaptive && form->width % 4 == 0 && form->out_width % 2 == 0 &&
           form->stride[1] == 2 && form->dilation[1] == 1 && form->window[1] <= MAX_TAPS;
}

static kn_status lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_target *target = lowering->target;
    kn_dtype type = node->outputs[0]->shape.dtype;
    pool_form form = describe(node);
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    int64_t lanes = node->outputs[0]->layout == KN_LAYOUT_BLOCKED ? kn_block_width(target) : 1;
    int64_t total = kn_elements_of(lowering->result) / lanes, chunk = 1;
    if (target->wide_vector) chunk = kn_divide_up(total, 8 * (int64_t)target->compute_units);
    const bool pairs = takes_pairs(target, node, &form);
    if (pairs) chunk = 2;
    kn_step *step = kn_step_begin(lowering, "conv/pool.cl",
                                  form.maximum ? form.data ? "kn_max_pool_data" : "kn_max_pool"
                                  : form.data  ? "kn_average_pool_data"
                                               : "kn_average_pool");
    KN_STEP_DEFINE(step, {"KN_BLOCK", lanes});
    if (lanes > 1 && !target->wide_vector) KN_STEP_DEFINE(step, {"KN_ALIGNED", 1});
    kn_step_types(step, node, type);
    kn_step_define_type(step, "KN_PLACE", place_type(form.adaptive, form.window));
    KN_STEP_DEFINE(step, {"KN_DILATION_Y", form.dilation[0]}, {"KN_DILATION_X", form.dilation[1]},
                   {"KN_ADAPTIVE", form.adaptive}, {"KN_TAPS_Y", form.window[0]},
                   {"KN_TAPS_X", form.window[1]}, {"KN_STRIDE_Y", form.stride[0]},
                   {"KN_STRIDE_X", form.stride[1]});
    if (target->wide_vector && lanes == 1 && !form.adaptive && form.maximum && !form.data)
        KN_STEP_DEFINE(step, {"KN_LINE", LINE});
    if (pairs) {
        KN_STEP_DEFINE(step, {"KN_PAIRS", 1}, {"KN_PAD_X", form.padding[1]});
    }
    if (form.maximum && !form.data)
        kn_step_write(step, "places", kn_is_read(node->outputs[1]) ? node->outputs[1] : NULL);
    kn_step_bind_values(step, lowering);
    KN_STEP_BIND(step, {"skip_padding", form.skip_padding}, {"total", total}, {"chunk", chunk},
                 {"blocks", form.channels / lanes}, {"height", form.height}, {"width", form.width},
                 {"out_height", form.out_height}, {"out_width", form.out_width}, {"pad_top", form.padding[0]},
                 {"pad_left", form.padding[1]}, {"bottom", form.end[0]}, {"right", form.end[1]});
    kn_step_epilogue(step, lowering);
    kn_step_size_free(step, kn_divide_up(total, chunk), target);
    return kn_step_end(step, lowering);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static kn_status pool_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    bool maximum = node->op == &kn_row_max_pool;
    const kn_operator *row = maximum ? &kn_row_max_pool_data : &kn_row_average_pool_data;
    if (!call->output_gradients[0] || !call->wanted[0]) return KN_OK;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, row);
    kn_settings_list(&settings, "window", 2, kn_attribute_of(node, "window")->list);
    kn_settings_list(&settings, "stride", 2, kn_attribute_of(node, "stride")->list);
    kn_settings_list(&settings, "padding", 4, kn_attribute_of(node, "padding")->list);
    kn_settings_list(&settings, "size", 2, node->inputs[0]->shape.dims + 2);
    const kn_attribute_value *output = kn_attribute_of(node, "output");
    kn_settings_list(&settings, "output", output->count, output->list);
    if (maximum)
        kn_settings_list(&settings, "dilation", 2, kn_attribute_of(node, "dilation")->list);
    else
        kn_settings_int(&settings, "skip_padding", kn_attribute_of(node, "skip_padding")->integer);
    kn_value *inputs[2] = {call->output_gradients[0], maximum ? node->outputs[1] : NULL};
    call->input_gradients[0] = kn_gradient_build(call, row, inputs, maximum ? 2 : 1, &settings);
    return kn_gradient_status(call);
}

/* Describes an error in a gradient node of a program; NULL if there is none. */
static const char *data_wrong(const kn_node *node) {
    pool_form form = describe(node);
    const kn_attribute_value *output = kn_attribute_of(node, "output");
    const int64_t *padding = kn_attribute_of(node, "padding")->list;
    const int64_t sizes[2] = {form.height, form.width}, out[2] = {form.out_height, form.out_width};
    for (int axis = 0; axis < 2; axis++) {
        if (sizes[axis] < 1 || sizes[axis] > INT32_MAX || form.stride[axis] > INT32_MAX)
            return "expected sizes of at least 1x1 and at most 32 bits";
        if (output->count) {
            if (out[axis] != output->list[axis]) return "dy must have the output size";
            continue;
        }
        int64_t before = sizes[axis] + padding[axis], rest = before + padding[axis + 2] - form.window[axis];
        int64_t whole = rest < 0 ? 0 : rest / form.stride[axis] + 1;
        if (rest < 0 ||
            (out[axis] != whole && (out[axis] != whole + 1 || whole * form.stride[axis] >= before)))
            return "dy must have the output size of the pool of x";
    }
    return NULL;
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define WINDOW                                                                                               \
    KN_INTS("window", "2", "size of the window: one number, or height,width"),                               \
        KN_INTS("stride", "", "stride of the window; default: its size"),                                    \
        KN_INTS("padding", "0",                                                                              \
                "padding: one number for all sides, height,width, or top,left,bottom,right"),                \
        KN_INTS("output", "", "size of the result, with adaptive windows that divide the image")
#define CEIL KN_BOOLEAN("ceil", 0, "rounds the output size up: a partial window at the end counts")
#define DILATION KN_INTS("dilation", "1", "distance between the window's taps")
#define SIZE KN_INTS("size", "", "height and width of the images")
#define SKIP KN_BOOLEAN("skip_padding", 0, "divides by the number of elements inside the image")
#define FORWARD                                                                                              \
    .min_inputs = 1, .max_inputs = 1, .input_names = {"x"}, .output_names = {"y", "places"},                 \
    .shape = pool_shape, .gradient = pool_gradient, .reference = pool_reference, .cost = pool_cost,          \
    KN_VARIANTS({.name = "window",                                                                           \
                 .choice.accepts = kn_takes_kernel_types,                                                    \
                 .lower = lower,                                                                             \
                 .promise.halves = {1, 1},                                                                   \
                 .promise.takes_epilogue = true,                                                             \
                 .promise.any = true})
#define BACKWARD                                                                                             \
    .backward = true, .input_names = {"dy", "places"}, .output_names = {"dx"}, .shape = pool_data_shape,     \
    .reference = pool_reference, .cost = pool_cost,                                                          \
    KN_VARIANTS({.name = "window",                                                                           \
                 .choice.accepts = kn_takes_kernel_types,                                                    \
                 .lower = lower,                                                                             \
                 .promise.halves = {1, 1},                                                                   \
                 .promise.takes_epilogue = true,                                                             \
                 .promise.any = true})
#define CASES(more, ...)                                                                                     \
    KN_CASES({.inputs = {"2,2,5,4"}, .attributes = more, .smallest = true},                                  \
             {.inputs = {"1,2,7,6"}, .attributes = "window=3 stride=2 padding=1 " more},                     \
             {.inputs = {"1,2,5,5"}, .attributes = "window=3,2 stride=1 " more},                             \
             {.inputs = {"3,1,7,9"}, .attributes = "window=2,3 stride=3,2 padding=1 " more},                 \
             {.inputs = {"1,3,9,31"}, .attributes = "window=2 stride=3 " more},                              \
             {.inputs = {"1,2,7,7"}, .attributes = "window=3 stride=2 padding=0,1,2,0 " more},               \
             {.inputs = {"2,32,7,9"}, .attributes = "window=3 stride=1 padding=1 " more},                    \
             {.inputs = {"1,1,33,33"}, .attributes = "window=17 stride=8 " more},                            \
             {.inputs = {"93,1,1,1"}, .attributes = "window=1 " more},                                       \
             {.inputs = {"2,3,7,16"}, .attributes = "window=3 stride=2 padding=1 " more, .smallest = true},  \
             {.inputs = {"1,2,5,8"}, .attributes = "window=2,4 stride=2 padding=1,3,0,3 " more},             \
             {.inputs = {"2,2,7,6"}, .attributes = "window=3,2 stride=2 padding=1,0 ceil=1 " more},          \
             {.inputs = {"2,16,7,5"}, .attributes = "output=3,2 " more, .smallest = true},                   \
             {.inputs = {"1,2,3,9"}, .attributes = "output=5,4 " more}, __VA_ARGS__,                         \
             {.inputs = {"0,3,5,5"}, .attributes = more},                                                    \
             {.inputs = {"2,3,6,6"}, .attributes = more, .ranges = {"special"}, .no_gradient = true})

KN_OPERATOR(max_pool, .help = "largest element of each window of images (N,C,H,W)",
            KN_ATTRIBUTES(WINDOW, DILATION, CEIL), .hidden = 1, FORWARD,
            CASES("",
                  {.inputs = {"1,2,9,8"}, .attributes = "window=3,2 stride=2,1 dilation=2,3 padding=1,0"}));
KN_OPERATOR(average_pool, .help = "mean of each window of images (N,C,H,W)",
            KN_ATTRIBUTES(WINDOW, SKIP, CEIL), FORWARD,
            CASES("skip_padding=1",
                  {.inputs = {"1,2,7,6"}, .attributes = "window=3 stride=2 padding=1 ceil=1"},
                  {.inputs = {"2,16,7,5"}, .attributes = "output=3,2", .smallest = true}));
KN_OPERATOR(max_pool_data, .help = "gradient of max_pool", KN_ATTRIBUTES(WINDOW, DILATION, SIZE),
            .min_inputs = 2, .max_inputs = 2, BACKWARD,
            KN_CASES({.inputs = {"2,2,2,2", "uint8 2,2,2,2"},
                      .ranges = {NULL, "0..3"},
                      .attributes = "size=5,4",
                      .no_gradient = true,
                      .smallest = true},
                     {.inputs = {"1,3,4,3", "uint8 1,3,4,3"},
                      .ranges = {NULL, "4..4"},
                      .no_gradient = true,
                      .attributes = "window=3 stride=2 padding=1 size=7,6"}));
KN_OPERATOR(average_pool_data, .help = "gradient of average_pool", KN_ATTRIBUTES(WINDOW, SIZE, SKIP),
            .min_inputs = 1, .max_inputs = 1, .wrong = data_wrong, BACKWARD,
            KN_CASES({.inputs = {"2,2,2,2"}, .attributes = "size=5,4", .no_gradient = true, .smallest = true},
                     {.inputs = {"1,3,4,3"},
                      .no_gradient = true,
                      .attributes = "window=3 stride=2 padding=1 size=7,6"}));

/* ---- builders -------------------------------------------------------------------------------- */

/* x is (N,C,H,W), or (N,C,L) with the first element of each pair. */
static kn_value *pool(const kn_operator *row, kn_value *x, int64_t window, const kn_pool_params *params) {
    if (kn_value_failed(x)) return x;
    kn_pool_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(x, kn_pool_params, &given, params);
    bool along = x->shape.rank == 3;
    if (along) {
        given.window[1] = given.window[0] ? given.window[0] : window;
        given.window[0] = 1;
        if (given.stride[0]) kn_window_length(given.stride, 1);
        kn_window_length(given.dilation, 1);
        kn_window_length_padding(given.padding, given.all_padding);
        given.all_padding = true;
    }
    kn_settings settings;
    kn_settings_init(&settings, x->graph, row);
    kn_window_pair(&settings, "window", given.window, window);
    if (given.stride[0]) kn_window_pair(&settings, "stride", given.stride, 1);
    kn_window_padding(&settings, given.padding, given.all_padding);
    kn_settings_int(&settings, "ceil", given.ceil);
    if (row == &kn_row_average_pool) {
        kn_settings_int(&settings, "skip_padding", given.skip_padding);
        if (given.dilation[0] > 1 || given.dilation[1] > 1)
            return kn_graph_fail(x->graph, KN_ERROR_ARGUMENT, "average_pool: dilation is only for max_pool");
    } else {
        kn_window_pair(&settings, "dilation", given.dilation, 1);
    }
    if (along) x = kn_as_images(x);
    kn_value *y = kn_build(row, &x, 1, &settings);
    return along ? kn_as_lengths(y, NULL) : y;
}

kn_value *kn_max_pool(kn_value *x, int64_t window, const kn_pool_params *params) {
    return pool(&kn_row_max_pool, x, window, params);
}

kn_value *kn_average_pool(kn_value *x, int64_t window, const kn_pool_params *params) {
    return pool(&kn_row_average_pool, x, window, params);
}

/* A sum of powers is the average times the window size: pixels outside the image count as zeros. */
kn_value *kn_lp_pool(kn_value *x, double power, int64_t window, const kn_pool_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_pool_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(x, kn_pool_params, &given, params);
    if (!(power >= 1 && power < INFINITY))
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "lp_pool: the power must be at least 1");
    if (given.ceil)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "lp_pool: `ceil` is only for max_pool and average_pool");
    given.skip_padding = false;
    int64_t height = given.window[0] ? given.window[0] : window;
    double taps = (double)height * (double)(x->shape.rank == 3 ? 1
                                            : given.window[1]  ? given.window[1]
                                                               : height);
    kn_value *powers = power == 2 ? kn_mul(x, x) : kn_abs(x);
    if (power != 1 && power != 2) powers = kn_pow(powers, kn_cast(kn_scalar(graph, power), x->shape.dtype));
    kn_value *sums = kn_scale(kn_average_pool(powers, window, &given), taps);
    if (power == 1) return sums;
    return power == 2 ? kn_sqrt(sums) : kn_pow(sums, kn_cast(kn_scalar(graph, 1 / power), x->shape.dtype));
}

/* x is (N,C,H,W), or (N,C,L) with only the width. */
static kn_value *adaptive(const kn_operator *row, kn_value *x, int64_t height, int64_t width) {
    if (kn_value_failed(x)) return x;
    bool along = x->shape.rank == 3;
    kn_dim size[2] = {along ? 1 : height, along ? height : width ? width : height};
    kn_settings settings;
    kn_settings_init(&settings, x->graph, row);
    kn_settings_list(&settings, "output", 2, size);
    if (along) x = kn_as_images(x);
    kn_value *y = kn_build(row, &x, 1, &settings);
    return along ? kn_as_lengths(y, NULL) : y;
}

kn_value *kn_adaptive_max_pool(kn_value *x, int64_t height, int64_t width) {
    return adaptive(&kn_row_max_pool, x, height, width);
}

kn_value *kn_adaptive_average_pool(kn_value *x, int64_t height, int64_t width) {
    return adaptive(&kn_row_average_pool, x, height, width);
}

/* x is (N,C,H,W) or (N,C,L); the result has spatial size 1. */
static kn_value *global(kn_value *x, const char *name, kn_value *(*reduce)(kn_value *, const char *, bool)) {
    if (kn_value_failed(x)) return x;
    if (x->shape.rank != 3 && x->shape.rank != 4)
        return kn_graph_fail(x->graph, KN_ERROR_SHAPE,
                             "%s: x is %s; expected images, (N,C,H,W), or sequences, (N,C,L)", name,
                             kn_shape_words(x->graph, &x->shape));
    return reduce(x, x->shape.rank == 4 ? "2,3" : "2", true);
}

kn_value *kn_global_average_pool(kn_value *x) {
    return global(x, "global_average_pool", kn_mean);
}

kn_value *kn_global_max_pool(kn_value *x) {
    return global(x, "global_max_pool", kn_reduce_max);
}
