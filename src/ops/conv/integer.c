/* Convolutions of 8-bit integers: windows become the columns of a matrix (im2col), and the convolution a
 * matrix product. */
#include "ops/build.h"
#include "ops/conv/window.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/row.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

extern const kn_operator kn_row_columns;

/* The extent of a window along each axis, 0 height or 1 width, with its dilation. */
typedef struct axis_form {
    int64_t image, window, places, stride, padding, dilation;
} axis_form;

static axis_form axis_of(const kn_node *node, int axis) {
    return (axis_form){.image = node->inputs[0]->shape.dims[2 + axis],
                       .window = kn_attribute_of(node, "window")->list[axis],
                       .places = node->outputs[0]->shape.dims[2 + axis],
                       .stride = kn_attribute_of(node, "stride")->list[axis],
                       .padding = kn_attribute_of(node, "padding")->list[axis],
                       .dilation = kn_attribute_of(node, "dilation")->list[axis]};
}

/* x is (N,C,H,W), blank a scalar; the result is (N,C*R*S,P,Q). */
static kn_status columns_shape(kn_shape_call *call) {
    const kn_shape *x = call->inputs[0] ? &call->inputs[0]->shape : NULL;
    const kn_value *blank = call->input_count > 1 ? call->inputs[1] : NULL;
    kn_shape *y = &call->outputs[0];
    if (!x || x->rank != 4 || (x->dtype != KN_INT8 && x->dtype != KN_UINT8) || !kn_dim_known(x->dims[1]))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected images (N,C,H,W) of int8 or uint8",
                             x ? kn_shape_words_of(call, 0) : "missing");
    if (blank && (blank->shape.dtype != x->dtype || kn_shape_elements(&blank->shape) != 1))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "the blank is %s; expected a scalar of the type of x",
                             kn_shape_words_of(call, 1));
    if (kn_window_lists(call)) return call->error->status;
    bool lower = kn_shape_attribute(call, "same_lower")->integer != 0;
    bool same = lower || kn_shape_attribute(call, "same")->integer != 0;
    *y = *x;
    for (int axis = 0; axis < 2; axis++) {
        int64_t window = kn_shape_attribute(call, "window")->list[axis],
                dilation = kn_shape_attribute(call, "dilation")->list[axis];
        if (window > INT32_MAX || dilation > INT32_MAX || y->dims[1] > INT32_MAX)
            return kn_shape_fail(call, KN_ERROR_SHAPE, "the window is too large");
        y->dims[1] *= window;
        if (kn_window_size(call, axis, (window - 1) * dilation + 1, same, lower, &y->dims[2 + axis]))
            return call->error->status;
    }
    return KN_OK;
}

static kn_status columns_reference(kn_reference_call *call) {
    const axis_form h = axis_of(call->node, 0), w = axis_of(call->node, 1);
    const double *x = call->inputs[0].data, *blank = call->input_count > 1 ? call->inputs[1].data : NULL;
    double *y = call->outputs[0].data;
    for (int64_t i = 0; i < call->outputs[0].elements; i++) {
        int64_t q = i % w.places, rest = i / w.places, p = rest % h.places;
        rest /= h.places;
        int64_t column = q * w.stride + rest % w.window * w.dilation - w.padding;
        rest /= w.window;
        int64_t row = p * h.stride + rest % h.window * h.dilation - h.padding, plane = rest / h.window;
        bool inside = row >= 0 && row < h.image && column >= 0 && column < w.image;
        y[i] = inside ? x[(plane * h.image + row) * w.image + column] : blank ? blank[0] : 0;
    }
    return KN_OK;
}

static kn_status columns_lower(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const axis_form h = axis_of(node, 0), w = axis_of(node, 1);
    int64_t elements = kn_elements_of(lowering->result), lines = elements ? elements / w.places : 0;
    if (lines == 0) return KN_OK;
    kn_step *step = kn_step_begin(lowering, "conv/columns.cl", "kn_columns");
    kn_step_define_type(step, "KN_T", lowering->result->shape.dtype);
    kn_step_bind_values(step, lowering);
    KN_STEP_SET(step, {"lines", lines}, {"height", h.image}, {"width", w.image}, {"filter_height", h.window},
                {"filter_width", w.window}, {"out_height", h.places}, {"out_width", w.places},
                {"stride_y", h.stride}, {"stride_x", w.stride}, {"pad_top", h.padding},
                {"pad_left", w.padding}, {"dilation_y", h.dilation}, {"dilation_x", w.dilation});
    kn_step_size_free(step, lines, lowering->target);
    return kn_step_end(step, lowering);
}

KN_OPERATOR(
    columns, .help = "the elements of x in each window, (N,C*R*S,P,Q), with `blank` outside the images",
    KN_ATTRIBUTES(
        KN_INTS("window", "3", "size of the window: one number, or height,width"),
        KN_INTS("stride", "1", "stride of the window: one number, or height,width"),
        KN_INTS("padding", "0", "padding: one number for all sides, height,width, or top,left,bottom,right"),
        KN_INTS("dilation", "1", "distance between the window's taps"),
        KN_BOOLEAN("same", 0, "pads so that the output size is the input size / stride, rounded up"),
        KN_BOOLEAN("same_lower", 0, "the same, with an odd line of padding above or on the left")),
    .min_inputs = 1, .max_inputs = 2, .input_names = {"x", "blank"}, .output_names = {"columns"},
    .shape = columns_shape, .reference = columns_reference,
    KN_VARIANTS({.name = "lines", .lower = columns_lower}),
    KN_CASES({.inputs = {"uint8 2,3,7,5", "uint8"},
              .attributes = "padding=1",
              .ranges = {"0..255", "0..255"},
              .smallest = true},
             {.inputs = {"uint8 1,2,9,8", "uint8"},
              .attributes = "window=3,2 stride=2,3 padding=1,0,2,1 dilation=1,2",
              .ranges = {"0..255", "0..255"}},
             {.inputs = {"uint8 1,2,8,7"}, .attributes = "stride=2 same_lower=1", .ranges = {"0..255"}},
             {.inputs = {"uint8 0,2,8,7"}},
             {.inputs = {"int8 2,1,5,33", "int8 1"},
              .attributes = "window=1,4 padding=0,3",
              .ranges = {"-128..127", "-128..127"}}));

/* Whether the columns are the images: 1x1 windows, stride 1, no padding. */
static bool is_pointwise(const kn_dim *filter, const kn_value *x_zero, const kn_conv_params *given) {
    bool is = filter[2] == 1 && filter[3] == 1 && (!x_zero || kn_shape_elements(&x_zero->shape) == 1);
    for (int i = 0; i < 2; i++)
        is = is && (given->stride[i] == 1 || !given->stride[i]) && !given->padding[i] &&
             !given->padding[2 + i];
    return is;
}

/* x is (N,C,H,W), x_zero a scalar or NULL, window height and width; the result is (N,C*R*S,P,Q). */
static kn_value *columns_of(kn_value *x, kn_value *x_zero, const kn_dim *window,
                            const kn_conv_params *given) {
    kn_settings settings;
    kn_settings_init(&settings, x->graph, &kn_row_columns);
    kn_settings_list(&settings, "window", 2, window);
    kn_window_pair(&settings, "stride", given->stride, 1);
    kn_window_pair(&settings, "dilation", given->dilation, 1);
    kn_window_padding(&settings, given->padding, given->all_padding);
    kn_settings_int(&settings, "same", given->same);
    kn_settings_int(&settings, "same_lower", given->same_lower);
    return kn_build(&kn_row_columns, (kn_value *[]){x, x_zero}, x_zero ? 2 : 1, &settings);
}

/* x is (N,C,H,W), weight (K,C/groups,R,S), x_zero a scalar, weight_zero a scalar or, with one group, (K); the
 * result is int32 (N,K,P,Q). */
static kn_value *convolve(kn_value *x, kn_value *weight, kn_value *x_zero, kn_value *weight_zero,
                          const kn_conv_params *given) {
    kn_graph *graph = x->graph;
    const kn_dim *filter = weight->shape.dims;
    int64_t groups = given->groups ? given->groups : 1, filters = filter[0], depth = 1;
    bool fits = x->shape.rank == 4 && weight->shape.rank == 4 && groups > 0 && kn_dim_known(x->shape.dims[1]);
    for (int i = 0; fits && i < 4; i++)
        fits = kn_dim_known(filter[i]) && filter[i] >= 0 && filter[i] <= INT32_MAX;
    if (!fits || filters % groups || filter[1] * groups != x->shape.dims[1] || filter[2] < 1 || filter[3] < 1)
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "conv2d_integer: x is %s and the weight %s with %lld groups; expected (N,C,H,W) "
                             "and (K,C/groups,R,S), with C and K multiples of the groups",
                             kn_shape_words(graph, &x->shape), kn_shape_words(graph, &weight->shape),
                             (long long)groups);
    for (int i = 1; i < 4; i++)
        depth *= filter[i];
    kn_value *seen = is_pointwise(filter, x_zero, given) ? x : columns_of(x, x_zero, filter + 2, given);
    if (kn_value_failed(seen)) return seen;
    kn_dim images = x->shape.dims[0], rows = seen->shape.dims[2], lines = seen->shape.dims[3];
    kn_dim places = kn_dim_multiply(graph, rows, lines);
    kn_value *sums;
    if (groups == 1)
        sums =
            kn_matmul_integer(kn_reshape_to(weight, 2, (kn_dim[]){filters, depth}),
                              kn_reshape_to(seen, 3, (kn_dim[]){images, depth, places}), weight_zero, x_zero);
    else
        sums = kn_matmul_integer(kn_reshape_to(weight, 3, (kn_dim[]){groups, filters / groups, depth}),
                                 kn_reshape_to(seen, 4, (kn_dim[]){images, groups, depth, places}),
                                 weight_zero, x_zero);
    return kn_reshape_to(sums, 4, (kn_dim[]){images, filters, rows, lines});
}

kn_value *kn_conv2d_integer(kn_value *x, kn_value *weight, kn_value *x_zero, kn_value *weight_zero,
                            const kn_conv_params *params) {
    if (kn_value_failed(x)) return x;
    if (kn_value_failed(weight)) return kn_missing(x, weight, "conv2d_integer", "the weight");
    kn_conv_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(x, kn_conv_params, &given, params);
    return convolve(x, weight, x_zero, weight_zero, &given);
}

/* x is (N,C,L), weight (K,C/groups,S). */
kn_value *kn_conv1d_integer(kn_value *x, kn_value *weight, kn_value *x_zero, kn_value *weight_zero,
                            const kn_conv_params *params) {
    if (kn_value_failed(x)) return x;
    if (kn_value_failed(weight)) return kn_missing(x, weight, "conv1d_integer", "the weight");
    kn_conv_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(x, kn_conv_params, &given, params);
    kn_window_length(given.stride, 1);
    kn_window_length(given.dilation, 1);
    kn_window_length_padding(given.padding, given.all_padding);
    given.all_padding = true;
    if (x->shape.rank != 3 || weight->shape.rank != 3)
        return kn_graph_fail(x->graph, KN_ERROR_SHAPE,
                             "conv1d_integer: x is %s and the weight %s; expected (N,C,L) "
                             "and (K,C/groups,S)",
                             kn_shape_words(x->graph, &x->shape), kn_shape_words(x->graph, &weight->shape));
    x = kn_as_images(x);
    weight = kn_as_images(weight);
    if (kn_value_failed(x) || kn_value_failed(weight)) return x;
    return kn_as_lengths(convolve(x, weight, x_zero, weight_zero, &given), NULL);
}
