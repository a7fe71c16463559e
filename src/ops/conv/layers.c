/* Convolutions and transposed convolutions as layers and functions, for images and sequences. A sequence is
 * an image of one row; a transposed convolution is the row conv2d_data, the gradient of a convolution with
 * respect to its data. */
#include "ops/build.h"
#include "ops/conv/conv.h"
#include "ops/conv/window.h"
#include "ops/layer.h"
#include "ops/pointwise/pointwise.h"
#include "ops/shape/shape.h"

/* One call of a builder. */
typedef struct conv_call {
    kn_graph *graph;
    const char *name;       /* for messages: "conv conv1" */
    bool transposed, along; /* along: x is (N,C,L) */
    kn_conv_params given;   /* completed: as for images, with all_padding */
} conv_call;

static kn_value *fail(const conv_call *call, const kn_value *x, const char *what) {
    return kn_graph_fail(call->graph, KN_ERROR_SHAPE, "%s: x is %s; expected %s", call->name,
                         kn_shape_words(call->graph, &x->shape), what);
}

/* Converts attribute lists of a sequence to those of images; a 0 in a pair is replaced by its first
 * element. */
static void complete(conv_call *call) {
    kn_conv_params *given = &call->given;
    if (call->along) {
        kn_window_length(given->stride, 1);
        kn_window_length(given->dilation, 1);
        kn_window_length_padding(given->padding, given->all_padding);
        given->output_padding[1] = given->output_padding[0];
        given->output_padding[0] = 0;
        given->all_padding = true;
    } else if (!given->output_padding[1]) {
        given->output_padding[1] = given->output_padding[0];
    }
    if (!given->groups) given->groups = 1;
}

static void settings_of(kn_settings *settings, const conv_call *call) {
    const kn_conv_params *given = &call->given;
    kn_settings_init(settings, call->graph, call->transposed ? &kn_row_conv2d_data : &kn_row_conv2d);
    kn_window_pair(settings, "stride", given->stride, 1);
    kn_window_pair(settings, "dilation", given->dilation, 1);
    kn_window_padding(settings, given->padding, given->all_padding);
    kn_settings_int(settings, "groups", given->groups);
    if (call->transposed) return;
    kn_settings_int(settings, "same", given->same);
    kn_settings_int(settings, "same_lower", given->same_lower);
}

/* The list of an attribute that was set. */
static const kn_dim *list_in(const kn_settings *settings, const char *name) {
    return kn_attribute_in(settings->row, settings->values, name)->list;
}

/* Sets the size (H,W) of the result of a transposed convolution of x (N,C,P,Q) with a weight
 * (C,K/groups,R,S). */
static bool set_size(kn_settings *settings, const conv_call *call, const kn_value *x, const kn_dim *filter) {
    const kn_dim *stride = list_in(settings, "stride"), *padding = list_in(settings, "padding");
    const kn_dim *dilation = list_in(settings, "dilation");
    kn_graph *graph = call->graph;
    kn_dim size[2];
    if (call->given.same || call->given.same_lower) {
        kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s: `same` is not supported for transposed convolutions",
                      call->name);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        int64_t more = call->given.output_padding[i];
        bool fits = stride[i] >= 1 && stride[i] <= INT32_MAX && dilation[i] >= 1 &&
                    dilation[i] <= INT32_MAX && padding[i] >= 0 && padding[i] <= INT32_MAX &&
                    padding[i + 2] >= 0 && padding[i + 2] <= INT32_MAX && filter[i] >= 1 &&
                    filter[i] <= INT32_MAX;
        if (!fits || more < 0 || more >= stride[i]) {
            kn_graph_fail(
                graph, KN_ERROR_ARGUMENT,
                "%s: expected strides and dilations of at least 1, padding of at least 0 and output_padding "
                "below the stride",
                call->name);
            return false;
        }
        kn_dim steps = kn_dim_multiply(graph, kn_dim_subtract(graph, x->shape.dims[2 + i], 1), stride[i]);
        int64_t rest = dilation[i] * (filter[i] - 1) + 1 + more - padding[i] - padding[i + 2];
        size[i] = rest < 0 ? kn_dim_subtract(graph, steps, -rest) : kn_dim_add(graph, steps, rest);
        int64_t number;
        if (kn_dim_constant(graph, size[i], &number) && number < 1) {
            fail(call, x, "images larger than what the padding removes");
            return false;
        }
    }
    kn_settings_list(settings, "size", 2, size);
    return graph->error.status == KN_OK;
}

/* (K) reshaped to (K,1,1), so that it is added to each pixel. */
static kn_value *per_channel(kn_value *bias) {
    if (kn_value_failed(bias) || bias->shape.rank != 1) return bias;
    return kn_reshape_to(bias, 3, (kn_dim[]){bias->shape.dims[0], 1, 1});
}

/* ---- functions: the filters are the caller's ------------------------------------------------- */

/* The weight (C,K/groups,R,S) of a transposed convolution must match x (N,C,P,Q); the row relies on it. */
static bool weight_fits(const conv_call *call, const kn_value *x, const kn_value *weight) {
    const kn_shape *shape = &weight->shape;
    bool fits = shape->rank == 4 && shape->dtype == x->shape.dtype && kn_dtype_is_float(shape->dtype);
    for (int i = 0; i < 4 && fits; i++)
        fits = kn_dim_known(shape->dims[i]);
    fits = fits && shape->dims[0] == x->shape.dims[1] && call->given.groups >= 1 &&
           shape->dims[0] % call->given.groups == 0;
    if (!fits)
        kn_graph_fail(call->graph, KN_ERROR_SHAPE,
                      "%s: x is %s and the weight %s with %lld groups; expected filters (C,K/groups,R,S), "
                      "with C the channels of x and a multiple of the groups",
                      call->name, kn_shape_words(call->graph, &x->shape), kn_shape_words(call->graph, shape),
                      (long long)call->given.groups);
    return fits;
}

/* x is (N,C,H,W) or (N,C,L); the weight has as many dimensions. */
static kn_value *convolve(conv_call *call, kn_value *x, kn_value *weight, kn_value *bias,
                          const kn_conv_params *params) {
    if (kn_value_failed(x)) return x;
    if (kn_value_failed(weight)) return kn_missing(x, weight, call->name, "the weight");
    call->graph = x->graph;
    call->given = (kn_conv_params){.size = sizeof call->given};
    KN_TAKE_PARAMS(x, kn_conv_params, &call->given, params);
    complete(call);
    if (call->along && (x->shape.rank != 3 || weight->shape.rank != 3))
        return fail(call, x, "sequences, (N,C,L), and filters of three dimensions");
    if (call->along) {
        x = kn_as_images(x);
        weight = kn_as_images(weight);
    }
    if (kn_value_failed(x) || kn_value_failed(weight)) return &call->graph->failed;
    if (call->transposed && x->shape.rank != 4) return fail(call, x, "images, (N,C,H,W)");
    if (call->transposed && !weight_fits(call, x, weight)) return &call->graph->failed;
    kn_settings settings;
    settings_of(&settings, call);
    if (call->transposed && !set_size(&settings, call, x, weight->shape.dims + 2))
        return &call->graph->failed;
    kn_value *inputs[2] = {x, weight};
    kn_value *product = kn_build(settings.row, inputs, 2, &settings);
    if (bias) product = kn_build2(&kn_row_add, product, per_channel(bias));
    return call->along ? kn_as_lengths(product, NULL) : product;
}

/* x is (N,C,H,W), weight (K,C/groups,R,S), bias (K) or NULL; the result is (N,K,P,Q). */
kn_value *kn_conv2d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params) {
    conv_call call = {.name = "conv2d"};
    return convolve(&call, x, weight, bias, params);
}

/* x is (N,C,L), weight (K,C/groups,S); the result is (N,K,Q). */
kn_value *kn_conv1d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params) {
    conv_call call = {.name = "conv1d", .along = true};
    return convolve(&call, x, weight, bias, params);
}

/* x is (N,C,P,Q), weight (C,K/groups,R,S); the result is (N,K,H,W). */
kn_value *kn_conv_transpose2d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params) {
    conv_call call = {.name = "conv_transpose2d", .transposed = true};
    return convolve(&call, x, weight, bias, params);
}

/* x is (N,C,Q), weight (C,K/groups,S); the result is (N,K,L). */
kn_value *kn_conv_transpose1d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params) {
    conv_call call = {.name = "conv_transpose1d", .transposed = true, .along = true};
    return convolve(&call, x, weight, bias, params);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Names: NAME.product, NAME.shifted, and NAME for the result, reshaped to a sequence. */
static kn_value *along_length(const conv_call *call, const char *layer, kn_value *x, kn_value *weight,
                              kn_value *bias, const kn_settings *settings) {
    const char *product = kn_arena_format(&call->graph->arena, "%s.product", layer);
    const char *shifted = kn_arena_format(&call->graph->arena, "%s.shifted", layer);
    if (!product || !shifted)
        return kn_graph_fail(call->graph, KN_ERROR_MEMORY, "out of memory for the name of a layer");
    kn_value *inputs[2] = {x, weight};
    inputs[0] = kn_node_add(call->graph, settings->row, product, inputs, 2, settings->values);
    inputs[1] = bias;
    if (bias) inputs[0] = kn_node_add(call->graph, &kn_row_add, shifted, inputs, 2, NULL);
    return kn_as_lengths(inputs[0], layer);
}

/* The weight is (channels,C/groups,height,width), or (channels,C/groups,height) for a sequence; transposed:
 * (C,channels/groups,…). */
static kn_value *layer_of(bool transposed, kn_value *x, int64_t channels, int64_t height, int64_t width,
                          const kn_conv_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    conv_call call = {.graph = graph, .transposed = transposed, .along = x->shape.rank == 3};
    call.given = (kn_conv_params){.size = sizeof call.given};
    KN_TAKE_PARAMS(x, kn_conv_params, &call.given, params);
    complete(&call);
    const char *kind = transposed ? "convtranspose" : "conv";
    const char *layer = kn_layer_name(graph, call.given.name, kind);
    call.name = kn_arena_format(&graph->arena, "%s %s", transposed ? "conv_transpose" : "conv", layer);
    if (!call.name) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of memory for the name of a layer");
    if (width == 0) width = height;
    if (channels < 1 || height < 1 || width < 1)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "%s: %lld channels of %lldx%lld; expected at least 1 each", call.name,
                             (long long)channels, (long long)height, (long long)width);
    if ((x->shape.rank != 3 && x->shape.rank != 4) || !kn_dim_known(x->shape.dims[1]))
        return fail(&call, x, "images, (N,C,H,W), or sequences, (N,C,L), with a known number of channels");
    int64_t inputs = x->shape.dims[1], groups = call.given.groups;
    if (groups < 1 || inputs % groups || channels % groups)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "%s: x is %s, with %lld output channels and %lld groups; both numbers of "
                             "channels must be multiples of the groups",
                             call.name, kn_shape_words(graph, &x->shape), (long long)channels,
                             (long long)groups);
    if (call.along) width = 1;
    int64_t first = transposed ? inputs : channels, second = (transposed ? channels : inputs) / groups;
    kn_shape weight_shape = {
        .dtype = x->shape.dtype, .rank = x->shape.rank, .dims = {first, second, height, width}};
    kn_shape bias_shape = {.dtype = x->shape.dtype, .rank = 1, .dims = {channels}};
    double fan_in = (double)second * (double)height * (double)width;
    kn_value *weight = kn_layer_parameter(graph, layer, "weight", &weight_shape, call.given.weight, fan_in);
    kn_value *bias = NULL;
    if (!call.given.no_bias)
        bias = per_channel(kn_layer_parameter(graph, layer, "bias", &bias_shape, call.given.bias, fan_in));
    if (call.along) {
        x = kn_as_images(x);
        weight = kn_as_images(weight);
    }
    if (kn_value_failed(x) || kn_value_failed(weight)) return &graph->failed;
    kn_settings settings;
    settings_of(&settings, &call);
    if (transposed && !set_size(&settings, &call, x, weight->shape.dims + 2)) return &graph->failed;
    if (call.along) return along_length(&call, layer, x, weight, bias, &settings);
    return kn_layer_product(graph, settings.row, layer, x, weight, bias, &settings);
}

kn_value *kn_conv(kn_value *x, int64_t channels, int64_t height, int64_t width,
                  const kn_conv_params *params) {
    return layer_of(false, x, channels, height, width, params);
}

kn_value *kn_conv_transpose(kn_value *x, int64_t channels, int64_t height, int64_t width,
                            const kn_conv_params *params) {
    return layer_of(true, x, channels, height, width, params);
}
