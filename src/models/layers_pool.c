/* Pooling layers. */
#include "models/layers_private.h"

enum { POOL_WINDOW, POOL_STRIDE, POOL_PADDING, POOL_CEIL, POOL_LAST };
#define POOL_ARGUMENTS                                                                                       \
    PAIR("window", "window size: 2 or 2x3", REQUIRED),                                                       \
        PAIR("stride", "stride, down and across", .usual = "window size"),                                   \
        SIDES("padding", "padding of the image, as for conv", .words = NULL),                                \
        FLAG("ceil", "whether a partial window at the end counts", .usual = "no")
static const kn_option max_pool_arguments[] = {
    POOL_ARGUMENTS,
    PAIR("dilation", "dilation of the window", .usual = "1"),
};
static const kn_option average_pool_arguments[] = {
    POOL_ARGUMENTS,
    FLAG("skip_padding", "divide only by the number of elements inside the image", .usual = "no"),
};
static const kn_option power_pool_arguments[] = {
    POOL_ARGUMENTS,
    NUMBER("power", "p of the p-norm", .usual = "2"),
};

static kn_pool_params pool_params(const kn_layer_call *call) {
    kn_pool_params params = {
        .size = sizeof params, .ceil = call->values[POOL_CEIL].flag, .all_padding = true};
    kn_copy_pair(&call->values[POOL_WINDOW], params.window);
    kn_copy_pair(&call->values[POOL_STRIDE], params.stride);
    kn_copy_sides(&call->values[POOL_PADDING], params.padding);
    return params;
}

/* x is (N,C,H,W), the result (N,C,P,Q). */
static kn_value *build_max_pool(kn_layer_call *call) {
    kn_pool_params params = pool_params(call);
    kn_copy_pair(&call->values[POOL_LAST], params.dilation);
    return kn_max_pool(call->inputs[0], params.window[0], &params);
}

static kn_value *build_average_pool(kn_layer_call *call) {
    kn_pool_params params = pool_params(call);
    params.skip_padding = call->values[POOL_LAST].flag;
    return kn_average_pool(call->inputs[0], params.window[0], &params);
}

static kn_value *build_power_pool(kn_layer_call *call) {
    kn_pool_params params = pool_params(call);
    const kn_option_value *power = &call->values[POOL_LAST];
    kn_scope_begin(call->graph, call->name);
    kn_value *y = kn_lp_pool(call->inputs[0], power->given ? power->number : 2, params.window[0], &params);
    kn_scope_end(call->graph);
    return y;
}

static const kn_option adaptive_arguments[] = {
    PAIR("size", "output size: 6 or 6x4", REQUIRED),
};

/* x is (N,C,H,W), the result (N,C,size). */
static kn_value *build_adaptive_max_pool(kn_layer_call *call) {
    int64_t size[2] = {0, 0};
    kn_copy_pair(&call->values[0], size);
    return kn_adaptive_max_pool(call->inputs[0], size[0], size[1]);
}

static kn_value *build_adaptive_average_pool(kn_layer_call *call) {
    int64_t size[2] = {0, 0};
    kn_copy_pair(&call->values[0], size);
    return kn_adaptive_average_pool(call->inputs[0], size[0], size[1]);
}

/* (N,C,H,W) to (N,C,1,1). */
static kn_value *build_global_average_pool(kn_layer_call *call) {
    return kn_global_average_pool(call->inputs[0]);
}

static kn_value *build_global_max_pool(kn_layer_call *call) {
    return kn_global_max_pool(call->inputs[0]);
}

static const kn_layer_row rows[] = {
    LAYER("maxpool", "maximum of each window", "max_pool maxpool2d max_pool2d", max_pool_arguments,
          build_max_pool),
    LAYER("avgpool", "average of each window",
          "avg_pool avg_pool2d average_pool averagepool avgpool2d mean_pool", average_pool_arguments,
          build_average_pool),
    LAYER("lppool", "p-norm of each window", "lp_pool lppool2d", power_pool_arguments, build_power_pool),
    LAYER("adaptivemaxpool", "maximum of each window, for a given output size",
          "adaptive_max_pool adaptivemaxpool2d", adaptive_arguments, build_adaptive_max_pool),
    LAYER("adaptiveavgpool", "average of each window, for a given output size",
          "adaptive_avg_pool adaptiveavgpool2d", adaptive_arguments, build_adaptive_average_pool),
    {.name = "globalmaxpool",
     .help = "maximum of each channel, as a 1x1 image",
     .also = "global_max_pool gmp",
     ONE_INPUT,
     .build = build_global_max_pool},
    {.name = "globalavgpool",
     .help = "average of each channel, as a 1x1 image",
     .also = "global_average_pool gap globalaveragepool",
     ONE_INPUT,
     .build = build_global_average_pool},
};
const kn_layer_family kn_pool_layers = {rows, (int)KN_COUNT_OF(rows)};
