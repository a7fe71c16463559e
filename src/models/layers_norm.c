/* Normalization layers. */
#include <inttypes.h>
#include <stdio.h>

#include "models/layers_private.h"

enum { NORM_EPSILON, NORM_MOMENTUM, NORM_AFFINE };
static const kn_option norm_arguments[] = {
    NUMBER("epsilon", "added to the variance", .usual = "1e-5"),
    NUMBER("momentum", "weight of the batch in the running statistics", .usual = "0.1"),
    FLAG("affine", "whether to apply a trainable scale and shift per channel", .usual = "yes"),
};

/* Applies a row of the operator table with the attribute epsilon. */
static kn_value *apply_epsilon(kn_layer_call *call, const char *row, kn_value *const *inputs, size_t count,
                               double epsilon) {
    kn_value *value = NULL;
    kn_text text;
    kn_text_init(&text, &call->model->host);
    kn_text_add(&text, "epsilon=");
    kn_text_number(&text, epsilon);
    if (kn_text_failed(&text))
        kn_model_no_memory(call->model);
    else
        value = kn_apply(call->graph, row, inputs, count, text.data);
    kn_text_finish(&text);
    return value;
}

/* Uses the parameters and running statistics of another layer. The statistics follow only that layer's
 * batches, since a state is written once per run. */
static kn_value *build_shared_norm(kn_layer_call *call, const kn_batch_norm_params *params) {
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    kn_value *inputs[5] = {call->inputs[0]};
    for (int i = 0; i < 4; i++) {
        inputs[1 + i] = kn_shared(call, parts[i]);
        if (inputs[1 + i]) continue;
        return kn_layer_mistake(call, "'%s' has no %s; expected share= with another %s", call->share,
                                parts[i], call->line->word.text);
    }
    return kn_batch_norm_with(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], params);
}

/* x is (N,C,...). */
static kn_value *build_batch_norm(kn_layer_call *call) {
    kn_batch_norm_params params;
    kn_batch_norm_params_init(&params);
    params.name = call->name;
    if (call->values[NORM_EPSILON].given) params.epsilon = call->values[NORM_EPSILON].number;
    if (call->values[NORM_MOMENTUM].given) params.momentum = call->values[NORM_MOMENTUM].number;
    params.frozen = call->model->params.frozen_statistics;
    params.no_affine = call->values[NORM_AFFINE].given && !call->values[NORM_AFFINE].flag;
    return call->share ? build_shared_norm(call, &params) : kn_batch_norm(call->inputs[0], &params);
}

enum { GROUPS, GROUP_EPSILON, GROUP_AFFINE };
#define GROUP_ARGUMENTS                                                                                      \
    NUMBER("epsilon", "added to the variance", .usual = "1e-5"),                                             \
        FLAG("affine", "whether to apply a trainable scale and shift per channel", .usual = "yes")
static const kn_option group_norm_arguments[] = {
    WHOLE("groups", "number of channel groups", REQUIRED),
    GROUP_ARGUMENTS,
};
static const kn_option instance_norm_arguments[] = {GROUP_ARGUMENTS};

static kn_norm_params group_params(const kn_layer_call *call, const kn_option_value *epsilon,
                                   const kn_option_value *affine) {
    kn_norm_params params;
    kn_norm_params_init(&params);
    params.name = call->name;
    if (epsilon->given) params.epsilon = epsilon->number;
    params.no_affine = affine->given && !affine->flag;
    return params;
}

/* Reshapes a parameter (C) to (C,1,...), which broadcasts to x (N,C,...). */
static kn_value *per_channel(kn_value *value, int rank) {
    char shape[64];
    int length = snprintf(shape, sizeof shape, "%" PRId64, kn_value_dimension(value, 0));
    for (int i = 2; i < rank && length + 2 < (int)sizeof shape; i++)
        length += snprintf(shape + length, sizeof shape - (size_t)length, ",1");
    return kn_reshape(value, shape);
}

/* Scales and shifts each channel with the parameters of another layer; groups 0: one group per channel. */
static kn_value *build_shared_group_norm(kn_layer_call *call, kn_norm_params *params, int64_t groups) {
    const kn_option_value any = {.given = false};
    kn_value *x = call->inputs[0], *weight = kn_shared_weight(call, 1, &any), *bias = kn_shared(call, "bias");
    if (!weight) return NULL;
    if (kn_value_rank(x) < 2 || kn_value_dimension(x, 1) != kn_value_dimension(weight, 0))
        return kn_layer_mistake(call,
                                "the weight of '%s' has %" PRId64
                                " channels; expected a value (batch,channels,...) with the same number",
                                call->share, kn_value_dimension(weight, 0));
    params->no_affine = true;
    params->name = "normal";
    kn_scope_begin(call->graph, call->name);
    kn_value *y = groups ? kn_group_norm(x, groups, params) : kn_instance_norm(x, params);
    y = kn_mul(y, per_channel(weight, kn_value_rank(x)));
    bias = bias ? per_channel(bias, kn_value_rank(x)) : NULL;
    kn_scope_end(call->graph);
    return bias ? kn_add(y, bias) : y;
}

/* x is (N,C,...). */
static kn_value *build_group_norm(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_norm_params params = group_params(call, &values[GROUP_EPSILON], &values[GROUP_AFFINE]);
    if (!call->share) return kn_group_norm(call->inputs[0], values[GROUPS].whole, &params);
    if (values[GROUPS].given) return build_shared_group_norm(call, &params, values[GROUPS].whole);
    return kn_layer_mistake(call,
                            "found a groupnorm without groups; expected groups=, which share= does not copy");
}

static kn_value *build_instance_norm(kn_layer_call *call) {
    kn_norm_params params = group_params(call, &call->values[0], &call->values[1]);
    return call->share ? build_shared_group_norm(call, &params, 0)
                       : kn_instance_norm(call->inputs[0], &params);
}

/* x is an input (N,C,...). Internal nodes get their own scope, so that the text's names stay free. */
static kn_value *build_standardize(kn_layer_call *call) {
    kn_scope_begin(call->graph, call->name);
    kn_value *y = kn_standardize(call->inputs[0]);
    kn_scope_end(call->graph);
    return y;
}

enum { LOCAL_CHANNELS, LOCAL_ALPHA, LOCAL_BETA, LOCAL_K };
static const kn_option local_norm_arguments[] = {
    WHOLE("channels", "number of neighbouring channels", REQUIRED),
    NUMBER("alpha", "factor for the mean of their squares", .usual = "1e-4"),
    NUMBER("beta", "exponent of the divisor", .usual = "0.75"),
    NUMBER("k", "added to the divisor", .usual = "1"),
};

/* x is (N,C,...). Internal nodes get their own scope, so that the text's names stay free. */
static kn_value *build_local_norm(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_local_norm_params params;
    kn_local_norm_params_init(&params);
    if (values[LOCAL_ALPHA].given) params.alpha = values[LOCAL_ALPHA].number;
    if (values[LOCAL_BETA].given) params.beta = values[LOCAL_BETA].number;
    if (values[LOCAL_K].given) params.k = values[LOCAL_K].number;
    kn_scope_begin(call->graph, call->name);
    kn_value *y = kn_local_response_norm(call->inputs[0], values[LOCAL_CHANNELS].whole, &params);
    kn_scope_end(call->graph);
    return y;
}

enum { ROW_NORM_EPSILON, ROW_NORM_BIAS };
static const kn_option layer_norm_arguments[] = {
    NUMBER("epsilon", "added to the variance", .usual = "1e-5"),
    FLAG("bias", "whether to add a trainable bias", .usual = "yes"),
};
static const kn_option rms_norm_arguments[] = {
    NUMBER("epsilon", "added to the mean square", .usual = "1e-5"),
};

/* x is (..., D). */
static kn_value *build_row_norm(kn_layer_call *call, bool rms) {
    const kn_option_value *values = call->values;
    kn_norm_params params;
    kn_norm_params_init(&params);
    params.name = call->name;
    if (values[ROW_NORM_EPSILON].given) params.epsilon = values[ROW_NORM_EPSILON].number;
    if (!rms) params.no_bias = values[ROW_NORM_BIAS].given && !values[ROW_NORM_BIAS].flag;
    if (!call->share)
        return rms ? kn_rms_norm(call->inputs[0], &params) : kn_layer_norm(call->inputs[0], &params);
    const kn_option_value any = {.given = false};
    kn_value *inputs[3] = {call->inputs[0], kn_shared_weight(call, 1, &any),
                           rms || params.no_bias ? NULL : kn_shared(call, "bias")};
    if (!inputs[1]) return NULL;
    return apply_epsilon(call, rms ? "rms_norm" : "layer_norm", inputs, inputs[2] ? 3 : 2, params.epsilon);
}

static kn_value *build_layer_norm(kn_layer_call *call) {
    return build_row_norm(call, false);
}
static kn_value *build_rms_norm(kn_layer_call *call) {
    return build_row_norm(call, true);
}

static const kn_layer_row rows[] = {
    LAYER_WITH("batchnorm", "batch normalization: normalizes each channel, with a trainable scale and shift",
               "batch_norm batchnorm2d bn", norm_arguments, KN_TAKES_SHARE | KN_TAKES_FREEZE,
               build_batch_norm),
    LAYER_WITH("layernorm",
               "layer normalization: normalizes along the last dimension, with a trainable scale and shift",
               "layer_norm ln", layer_norm_arguments, KN_TAKES_SHARE | KN_TAKES_FREEZE, build_layer_norm),
    LAYER_WITH("rmsnorm", "divides along the last dimension by the root mean square, with a trainable scale",
               "rms_norm", rms_norm_arguments, KN_TAKES_SHARE | KN_TAKES_FREEZE, build_rms_norm),
    LAYER_WITH(
        "groupnorm",
        "group normalization: normalizes groups of channels of each sample, with a trainable scale and shift",
        "group_norm gn", group_norm_arguments, KN_TAKES_SHARE | KN_TAKES_FREEZE, build_group_norm),
    LAYER_WITH(
        "instancenorm",
        "instance normalization: normalizes each channel of each sample, with a trainable scale and shift",
        "instance_norm instancenorm2d", instance_norm_arguments, KN_TAKES_SHARE | KN_TAKES_FREEZE,
        build_instance_norm),
    {.name = "standardize",
     .help = "standardizes an input's channels to mean 0 and deviation 1, as koine train measures them "
             "before training "
             "begins",
     .also = "standardise normalize normalise",
     ONE_INPUT,
     .build = build_standardize},
    LAYER("localnorm", "local response normalization across neighbouring channels",
          "lrn local_response_norm localresponsenorm", local_norm_arguments, build_local_norm),
};
const kn_layer_family kn_norm_layers = {rows, (int)KN_COUNT_OF(rows)};
