/* Layers with weights: linear layers, convolutions, embeddings; and helpers for layers that can share another
 * layer's parameters. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/layers_private.h"

kn_value *kn_shared(kn_layer_call *call, const char *part) {
    char name[KN_MODEL_PATH_BYTES + 32];
    snprintf(name, sizeof name, "%s.%s", call->share, part);
    return kn_graph_find(call->graph, name);
}

kn_value *kn_shared_weight(kn_layer_call *call, int rank, const kn_option_value *units) {
    kn_value *weight = kn_shared(call, "weight");
    if (!weight || kn_value_rank(weight) != rank)
        return kn_layer_mistake(call, "the weight of '%s' %s; expected share= with another %s", call->share,
                                weight ? "has a different number of dimensions" : "does not exist",
                                call->line->word.text);
    if (units->given && units->whole != kn_value_dimension(weight, 0))
        return kn_layer_mistake(
            call,
            "found %" PRId64 " for a %s that shares the weight of '%s', which has %" PRId64
            "; expected the same number, or none",
            units->whole, call->line->word.text, call->share, kn_value_dimension(weight, 0));
    return weight;
}

void kn_copy_pair(const kn_option_value *value, int64_t pair[2]) {
    for (int i = 0; i < value->count && i < 2; i++)
        pair[i] = value->list[i];
}

void kn_copy_sides(const kn_option_value *value, int64_t sides[4]) {
    for (int i = 0; i < 4 && value->count > 0; i++)
        sides[i] = value->list[value->count == 1 ? 0 : value->count == 2 ? i % 2 : i];
}

enum { LINEAR_UNITS, LINEAR_BIAS };
static const kn_option linear_arguments[] = {
    WHOLE("units", "size of the last output dimension", REQUIRED),
    FLAG("bias", "whether to add a trainable bias per unit", .usual = "yes"),
};

/* x is (..., inputs), the result (..., units). */
static kn_value *build_linear(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    bool no_bias = values[LINEAR_BIAS].given && !values[LINEAR_BIAS].flag;
    if (call->share) {
        kn_value *weight = kn_shared_weight(call, 2, &values[LINEAR_UNITS]), *bias = kn_shared(call, "bias");
        if (!weight) return NULL;
        kn_scope_begin(call->graph, call->name); /* so that the product takes no name of the text */
        kn_value *product = kn_matmul(call->inputs[0], weight, false, true);
        kn_scope_end(call->graph);
        return bias && !no_bias ? kn_add(product, bias) : product;
    }
    kn_linear_params params = {.size = sizeof params,
                               .name = call->name,
                               .no_bias = no_bias,
                               .weight = call->init,
                               .bias = call->bias_init};
    return kn_linear(call->inputs[0], values[LINEAR_UNITS].whole, &params);
}

enum { CONV_CHANNELS, CONV_SIZE, CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_GROUPS, CONV_BIAS };
static const kn_option conv_arguments[] = {
    WHOLE("channels", "output channels", REQUIRED),
    PAIR("size", "filter size: 3 or 3x5", REQUIRED),
    PAIR("stride", "stride, down and across", .usual = "1"),
    SIDES("padding",
          "zero padding: all sides, or height,width, or top,left,bottom,right; "
          "same: output size = input size / stride, with an odd row or column after; same-lower: before",
          .words = "same same-lower"),
    PAIR("dilation", "dilation of the filter", .usual = "1"),
    WHOLE("groups", "number of channel groups", .usual = "1"),
    FLAG("bias", "whether to add a trainable bias per channel", .usual = "yes"),
};

/* Whether an option that takes a list was given as a word. */
static bool is_word(const kn_option_value *value, const char *word) {
    return value->text && !strcmp(value->text, word);
}

/* x is (N,C,H,W), the result (N,channels,P,Q); or (N,C,L) and (N,channels,Q). */
static kn_value *build_conv(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_conv_params params = {.size = sizeof params,
                             .name = call->name,
                             .groups = values[CONV_GROUPS].whole,
                             .same = is_word(&values[CONV_PADDING], "same"),
                             .same_lower = is_word(&values[CONV_PADDING], "same-lower"),
                             .all_padding = true,
                             .no_bias = values[CONV_BIAS].given && !values[CONV_BIAS].flag,
                             .weight = call->init,
                             .bias = call->bias_init};
    int64_t size[2] = {0, 0};
    kn_copy_pair(&values[CONV_SIZE], size);
    kn_copy_pair(&values[CONV_STRIDE], params.stride);
    kn_copy_pair(&values[CONV_DILATION], params.dilation);
    kn_copy_sides(&values[CONV_PADDING], params.padding);
    if (!call->share) return kn_conv(call->inputs[0], values[CONV_CHANNELS].whole, size[0], size[1], &params);
    bool along = kn_value_rank(call->inputs[0]) == 3;
    kn_value *weight = kn_shared_weight(call, along ? 3 : 4, &values[CONV_CHANNELS]);
    if (!weight) return NULL;
    int64_t height = kn_value_dimension(weight, 2), width = along ? height : kn_value_dimension(weight, 3);
    if (size[0] && (size[0] != height || (size[1] ? size[1] : size[0]) != width))
        return kn_layer_mistake(
            call, "the shared filter of '%s' is %" PRId64 "x%" PRId64 "; expected the same size, or none",
            call->share, height, width);
    kn_value *bias = params.no_bias ? NULL : kn_shared(call, "bias");
    return (along ? kn_conv1d : kn_conv2d)(call->inputs[0], weight, bias, &params);
}

enum {
    TRANSPOSE_CHANNELS,
    TRANSPOSE_SIZE,
    TRANSPOSE_STRIDE,
    TRANSPOSE_PADDING,
    TRANSPOSE_OUTPUT,
    TRANSPOSE_DILATION,
    TRANSPOSE_GROUPS,
    TRANSPOSE_BIAS
};
static const kn_option transpose_arguments[] = {
    WHOLE("channels", "output channels", REQUIRED),
    PAIR("size", "filter size: 3 or 3x5", REQUIRED),
    PAIR("stride", "stride in the result, down and across", .usual = "1"),
    SIDES("padding", "rows and columns cropped from the result, as for conv", .words = NULL),
    OPTION("output_padding", WHOLES,
           "additional rows and columns at the end of the result, fewer than the stride", .least_count = 1,
           .most_count = 2, .usual = "0"),
    PAIR("dilation", "dilation of the filter", .usual = "1"),
    WHOLE("groups", "number of channel groups", .usual = "1"),
    FLAG("bias", "whether to add a trainable bias per channel", .usual = "yes"),
};

/* Uses the filter of another layer, (C,channels/groups,height,width). */
static kn_value *build_shared_transpose(kn_layer_call *call, const kn_conv_params *params,
                                        const int64_t size[2]) {
    const kn_option_value *channels = &call->values[TRANSPOSE_CHANNELS], any = {.given = false};
    bool along = kn_value_rank(call->inputs[0]) == 3;
    kn_value *weight = kn_shared_weight(call, along ? 3 : 4, &any);
    if (!weight) return NULL;
    int64_t groups = params->groups ? params->groups : 1, made = kn_value_dimension(weight, 1) * groups;
    int64_t height = kn_value_dimension(weight, 2), width = along ? height : kn_value_dimension(weight, 3);
    if ((channels->given && channels->whole != made) ||
        (size[0] && (size[0] != height || (size[1] ? size[1] : size[0]) != width)))
        return kn_layer_mistake(call,
                                "the shared filter of '%s' is %" PRId64 "x%" PRId64 " with %" PRId64
                                " output channels; expected the same, or none",
                                call->share, height, width, made);
    kn_value *bias = params->no_bias ? NULL : kn_shared(call, "bias");
    return (along ? kn_conv_transpose1d : kn_conv_transpose2d)(call->inputs[0], weight, bias, params);
}

/* x is (N,C,P,Q), the result (N,channels,H,W); or (N,C,Q) and (N,channels,L). */
static kn_value *build_conv_transpose(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_conv_params params = {.size = sizeof params,
                             .name = call->name,
                             .groups = values[TRANSPOSE_GROUPS].whole,
                             .all_padding = true,
                             .no_bias = values[TRANSPOSE_BIAS].given && !values[TRANSPOSE_BIAS].flag,
                             .weight = call->init,
                             .bias = call->bias_init};
    int64_t size[2] = {0, 0};
    kn_copy_pair(&values[TRANSPOSE_SIZE], size);
    kn_copy_pair(&values[TRANSPOSE_STRIDE], params.stride);
    kn_copy_pair(&values[TRANSPOSE_DILATION], params.dilation);
    kn_copy_pair(&values[TRANSPOSE_OUTPUT], params.output_padding);
    kn_copy_sides(&values[TRANSPOSE_PADDING], params.padding);
    if (!call->share)
        return kn_conv_transpose(call->inputs[0], values[TRANSPOSE_CHANNELS].whole, size[0], size[1],
                                 &params);
    return build_shared_transpose(call, &params, size);
}

enum { EMBEDDING_ROWS, EMBEDDING_COLUMNS };
static const kn_option embedding_arguments[] = {
    WHOLE("rows", "vocabulary size", REQUIRED),
    WHOLE("columns", "size of the last output dimension", REQUIRED),
};

/* Tokens are int32 (...), the result (..., columns). */
static kn_value *build_embedding(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    if (call->share) {
        kn_value *inputs[2] = {kn_shared_weight(call, 2, &values[EMBEDDING_ROWS]), call->inputs[0]};
        return inputs[0] ? kn_apply(call->graph, "embedding", inputs, 2, NULL) : NULL;
    }
    kn_embedding_params params = {.size = sizeof params, .name = call->name, .weight = call->init};
    return kn_embedding(call->inputs[0], values[EMBEDDING_ROWS].whole, values[EMBEDDING_COLUMNS].whole,
                        &params);
}

static const kn_layer_row rows[] = {
    LAYER_WITH("linear", "matrix product with a trainable weight", "dense fc fully_connected gemm",
               linear_arguments, WITH_WEIGHTS, build_linear),
    LAYER_WITH("conv", "convolution of images, or of sequences (N,channels,length)",
               "conv1d conv2d convolution convolution2d", conv_arguments, WITH_WEIGHTS, build_conv),
    LAYER_WITH("convtranspose", "transposed convolution, which enlarges images",
               "deconv deconvolution conv_transpose convtranspose2d transposed_convolution upconv",
               transpose_arguments, WITH_WEIGHTS, build_conv_transpose),
    LAYER_WITH("embedding", "trainable vector for each token", "embed lookup token_embedding",
               embedding_arguments, KN_TAKES_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE, build_embedding),
};
const kn_layer_family kn_weights_layers = {rows, (int)KN_COUNT_OF(rows)};
