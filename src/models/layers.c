/* The kinds of layers: which arguments they take and which public function makes them. Every other kind is a
 * row of the operator table. A new layer is a row here and the function it names. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/layers_recurrent.h"
#include "models/layers_shape.h"
#include "models/models_private.h"

#define WHOLE(word, about, ...)                                                                              \
    { .name = word, .kind = KN_OPTION_WHOLE, .least = 1, .help = about, __VA_ARGS__ }
#define PAIR(word, about, ...)                                                                               \
    {                                                                                                        \
        .name = word, .kind = KN_OPTION_WHOLES, .least_count = 1, .most_count = 2, .least = 1,               \
        .help = about, __VA_ARGS__                                                                           \
    }
#define SIDES(word, about, ...)                                                                              \
    {                                                                                                        \
        .name = word, .kind = KN_OPTION_WHOLES, .least_count = 1, .most_count = 4, .help = about,            \
        .usual = "0", __VA_ARGS__                                                                            \
    }
#define NUMBER(word, about, ...)                                                                             \
    { .name = word, .kind = KN_OPTION_NUMBER, .help = about, __VA_ARGS__ }
#define FLAG(word, about, ...)                                                                               \
    { .name = word, .kind = KN_OPTION_FLAG, .help = about, __VA_ARGS__ }
#define REQUIRED .by_position = true, .required = true
#define BY_POSITION .by_position = true

/* ---- what builders need ------------------------------------------------------------------------------ */

/* Parameter `part` of the layer at call->share; NULL if that one has none. */
static kn_value *shared(kn_layer_call *call, const char *part) {
    char name[KN_MODEL_PATH_BYTES + 32];
    snprintf(name, sizeof name, "%s.%s", call->share, part);
    return kn_graph_find(call->graph, name);
}

/* The shared weight, which has to have `rank` dimensions and, if given, `units` rows. NULL after a mistake.
 */
static kn_value *shared_weight(kn_layer_call *call, int rank, const kn_option_value *units) {
    kn_value *weight = shared(call, "weight");
    if (!weight || kn_value_rank(weight) != rank) {
        kn_mistake(call->model, call->line, call->line->word.column,
                   "the weight of '%s' %s; expected share= with another %s", call->share,
                   weight ? "has another number of dimensions" : "does not exist", call->line->word.text);
        return NULL;
    }
    if (units->given && units->whole != kn_value_dimension(weight, 0)) {
        kn_mistake(call->model, call->line, call->line->word.column,
                   "found %" PRId64 " for a %s whose shared weight, that of '%s', has %" PRId64
                   "; expected the same, or no number",
                   units->whole, call->line->word.text, call->share, kn_value_dimension(weight, 0));
        return NULL;
    }
    return weight;
}

/* One number or two: a 0 in the second repeats the first. */
static void copy_pair(const kn_option_value *value, int64_t pair[2]) {
    for (int i = 0; i < value->count && i < 2; i++)
        pair[i] = value->list[i];
}

/* One for all sides, two for height and width, or four: top, left, bottom, right. */
static void copy_sides(const kn_option_value *value, int64_t sides[4]) {
    for (int i = 0; i < 4 && value->count > 0; i++)
        sides[i] = value->list[value->count == 1 ? 0 : value->count == 2 ? i % 2 : i];
}

/* ---- layers with parameters ------------------------------------------------------------------------------
 */

enum { LINEAR_UNITS, LINEAR_BIAS };
static const kn_option linear_arguments[] = {
    WHOLE("units", "size of the last dimension of the result", REQUIRED),
    FLAG("bias", "whether a learnt number is added to each unit", .usual = "yes"),
};

/* x is (..., inputs), the result (..., units). */
static kn_value *build_linear(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    bool no_bias = values[LINEAR_BIAS].given && !values[LINEAR_BIAS].flag;
    if (call->share) {
        kn_value *weight = shared_weight(call, 2, &values[LINEAR_UNITS]), *bias = shared(call, "bias");
        if (!weight) return NULL;
        kn_scope_begin(call->graph,
                       call->name); /* so that the product takes no name that the text may want */
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
    WHOLE("channels", "channels of the result", REQUIRED),
    PAIR("size", "height and width of the filter: 3 or 3x5", REQUIRED),
    PAIR("stride", "steps of the filter, down and across", .usual = "1"),
    SIDES("padding",
          "rows and columns of zeros around the image: all sides, or height,width, or top,left,bottom,right; "
          "same: as many as keep the size, divided by the stride, an odd one behind; same-lower: before",
          .words = "same same-lower"),
    PAIR("dilation", "distance between the points of the filter", .usual = "1"),
    WHOLE("groups", "parts into which the channels are split", .usual = "1"),
    FLAG("bias", "whether a learnt number is added to each channel", .usual = "yes"),
};

/* Whether a list stands for a word. */
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
    copy_pair(&values[CONV_SIZE], size);
    copy_pair(&values[CONV_STRIDE], params.stride);
    copy_pair(&values[CONV_DILATION], params.dilation);
    copy_sides(&values[CONV_PADDING], params.padding);
    if (!call->share) return kn_conv(call->inputs[0], values[CONV_CHANNELS].whole, size[0], size[1], &params);
    bool along = kn_value_rank(call->inputs[0]) == 3;
    kn_value *weight = shared_weight(call, along ? 3 : 4, &values[CONV_CHANNELS]);
    if (!weight) return NULL;
    int64_t height = kn_value_dimension(weight, 2), width = along ? height : kn_value_dimension(weight, 3);
    if (size[0] && (size[0] != height || (size[1] ? size[1] : size[0]) != width)) {
        kn_mistake(call->model, call->line, call->line->word.column,
                   "the shared filter, that of '%s', is %" PRId64 "x%" PRId64 "; expected that size, or none",
                   call->share, height, width);
        return NULL;
    }
    kn_value *bias = params.no_bias ? NULL : shared(call, "bias");
    return (along ? kn_conv1d : kn_conv2d)(call->inputs[0], weight, bias, &params);
}

enum { TRANSPOSE_CHANNELS, TRANSPOSE_SIZE, TRANSPOSE_STRIDE, TRANSPOSE_PADDING, TRANSPOSE_OUTPUT, TRANSPOSE_DILATION,
       TRANSPOSE_GROUPS, TRANSPOSE_BIAS };
static const kn_option transpose_arguments[] = {
    WHOLE("channels", "channels of the result", REQUIRED),
    PAIR("size", "height and width of the filter: 3 or 3x5", REQUIRED),
    PAIR("stride", "steps in the result from one pixel to the next, down and across", .usual = "1"),
    SIDES("padding", "rows and columns of the result that are cut off, as for conv", .words = NULL),
    {.name = "output_padding",
     .kind = KN_OPTION_WHOLES,
     .least_count = 1,
     .most_count = 2,
     .help = "rows and columns more at the end of the result, fewer than the stride",
     .usual = "0"},
    PAIR("dilation", "distance between the points of the filter", .usual = "1"),
    WHOLE("groups", "parts into which the channels are split", .usual = "1"),
    FLAG("bias", "whether a learnt number is added to each channel", .usual = "yes"),
};

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
    copy_pair(&values[TRANSPOSE_SIZE], size);
    copy_pair(&values[TRANSPOSE_STRIDE], params.stride);
    copy_pair(&values[TRANSPOSE_DILATION], params.dilation);
    copy_pair(&values[TRANSPOSE_OUTPUT], params.output_padding);
    copy_sides(&values[TRANSPOSE_PADDING], params.padding);
    return kn_conv_transpose(call->inputs[0], values[TRANSPOSE_CHANNELS].whole, size[0], size[1], &params);
}

enum { NORM_EPSILON, NORM_MOMENTUM, NORM_AFFINE };
static const kn_option norm_arguments[] = {
    NUMBER("epsilon", "added to the variance", .usual = "1e-5"),
    NUMBER("momentum", "share of the batch in the running statistics", .usual = "0.1"),
    FLAG("affine", "whether each channel is scaled and shifted as learnt", .usual = "yes"),
};

/* A row of the operator table with its attribute epsilon. */
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

/* By the parameters and statistics of another layer. Those follow the other's batches only: a state is
 * written once in a run. */
static kn_value *build_shared_norm(kn_layer_call *call, const kn_batch_norm_params *params) {
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    kn_value *inputs[5] = {call->inputs[0]};
    for (int i = 0; i < 4; i++) {
        inputs[1 + i] = shared(call, parts[i]);
        if (inputs[1 + i]) continue;
        kn_mistake(call->model, call->line, call->line->word.column,
                   "'%s' has no %s; expected share= with another %s", call->share, parts[i],
                   call->line->word.text);
        return NULL;
    }
    return apply_epsilon(call, "batch_norm", inputs, 5, params->epsilon);
}

/* x is (N,C,...). */
static kn_value *build_batch_norm(kn_layer_call *call) {
    kn_batch_norm_params params;
    kn_batch_norm_params_init(&params);
    params.name = call->name;
    if (call->values[NORM_EPSILON].given) params.epsilon = call->values[NORM_EPSILON].number;
    if (call->values[NORM_MOMENTUM].given) params.momentum = call->values[NORM_MOMENTUM].number;
    params.no_affine = call->values[NORM_AFFINE].given && !call->values[NORM_AFFINE].flag;
    return call->share ? build_shared_norm(call, &params) : kn_batch_norm(call->inputs[0], &params);
}

enum { GROUPS, GROUP_EPSILON, GROUP_AFFINE };
#define GROUP_ARGUMENTS                                                                                      \
    NUMBER("epsilon", "added to the variance", .usual = "1e-5"),                                             \
        FLAG("affine", "whether each channel is scaled and shifted as learnt", .usual = "yes")
static const kn_option group_norm_arguments[] = {
    WHOLE("groups", "parts of the channels that are brought to mean 0 and variance 1 apart", REQUIRED),
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

/* x is (N,C,...). */
static kn_value *build_group_norm(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_norm_params params = group_params(call, &values[GROUP_EPSILON], &values[GROUP_AFFINE]);
    return kn_group_norm(call->inputs[0], values[GROUPS].whole, &params);
}

static kn_value *build_instance_norm(kn_layer_call *call) {
    kn_norm_params params = group_params(call, &call->values[0], &call->values[1]);
    return kn_instance_norm(call->inputs[0], &params);
}

enum { LOCAL_CHANNELS, LOCAL_ALPHA, LOCAL_BETA, LOCAL_K };
static const kn_option local_norm_arguments[] = {
    WHOLE("channels", "how many neighbouring channels count", REQUIRED),
    NUMBER("alpha", "what the mean of their squares is multiplied by", .usual = "1e-4"),
    NUMBER("beta", "power of the divisor", .usual = "0.75"),
    NUMBER("k", "added to the divisor", .usual = "1"),
};

/* x is (N,C,...). What it is made of takes no name that the text may want. */
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
    FLAG("bias", "whether a learnt number is added to each element of a row", .usual = "yes"),
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
    kn_value *inputs[3] = {call->inputs[0], shared_weight(call, 1, &any),
                           rms || params.no_bias ? NULL : shared(call, "bias")};
    if (!inputs[1]) return NULL;
    return apply_epsilon(call, rms ? "rms_norm" : "layer_norm", inputs, inputs[2] ? 3 : 2, params.epsilon);
}

static kn_value *build_layer_norm(kn_layer_call *call) {
    return build_row_norm(call, false);
}
static kn_value *build_rms_norm(kn_layer_call *call) {
    return build_row_norm(call, true);
}

enum { EMBEDDING_ROWS, EMBEDDING_COLUMNS };
static const kn_option embedding_arguments[] = {
    WHOLE("rows", "how many tokens there are", REQUIRED),
    WHOLE("columns", "size of the last dimension of the result", REQUIRED),
};

/* Tokens are int32 (...), the result (..., columns). */
static kn_value *build_embedding(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    if (call->share) {
        kn_value *inputs[2] = {shared_weight(call, 2, &values[EMBEDDING_ROWS]), call->inputs[0]};
        return inputs[0] ? kn_apply(call->graph, "embedding", inputs, 2, NULL) : NULL;
    }
    kn_embedding_params params = {.size = sizeof params, .name = call->name, .weight = call->init};
    return kn_embedding(call->inputs[0], values[EMBEDDING_ROWS].whole, values[EMBEDDING_COLUMNS].whole,
                        &params);
}

static const kn_option parameter_arguments[] = {
    {.name = "shape",
     .kind = KN_OPTION_SHAPE,
     REQUIRED,
     .help = "its sizes, without the batch: 3x4, or scalar"},
};

static kn_value *build_parameter(kn_layer_call *call) {
    if (call->share) return kn_graph_find(call->graph, call->share);
    return kn_parameter(call->graph, call->name, KN_FLOAT32, call->values[0].text, call->init);
}

/* ---- layers without
 * ----------------------------------------------------------------------------------------- */

static const kn_option number_arguments[] = {NUMBER("value", "the number", REQUIRED)};

static kn_value *build_number(kn_layer_call *call) {
    return kn_number(call->graph, call->values[0].number);
}

static const kn_option dropout_arguments[] = {
    NUMBER("rate", "probability of an element to become 0", BY_POSITION, .usual = "0.5"),
};

static kn_value *build_dropout(kn_layer_call *call) {
    return kn_dropout(call->inputs[0], call->values[0].given ? call->values[0].number : 0.5);
}

enum { ATTEND_HEADS, ATTEND_KEY_HEADS, ATTEND_CAUSAL, ATTEND_LAST, ATTEND_SCALE, ATTEND_RATE };
static const kn_option attention_arguments[] = {
    WHOLE("heads", "parts into which the columns are split", .usual = "1"),
    WHOLE("key_heads", "those of k and v, each for some heads of q", .usual = "as many"),
    FLAG("causal", "each query sees the keys up to its own position", .usual = "no"),
    FLAG("last", "the queries stand at the last keys, not at the first", .usual = "no"),
    NUMBER("scale", "factor of the scores", .usual = "1 / sqrt(columns of a head)"),
    NUMBER("rate", "probability of a weight to become 0", .usual = "0.1"),
};

/* Inputs as those of the operator attention: (B,T,columns) three times or once, lengths (B), a mask (B,heads,T,S). */
static kn_value *build_attention_dropout(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_attention_params params = {.size = sizeof params,
                                  .causal = values[ATTEND_CAUSAL].flag,
                                  .last = values[ATTEND_LAST].flag,
                                  .dropout = values[ATTEND_RATE].given ? values[ATTEND_RATE].number : 0.1};
    if (values[ATTEND_HEADS].given) params.heads = values[ATTEND_HEADS].whole;
    if (values[ATTEND_KEY_HEADS].given) params.key_heads = values[ATTEND_KEY_HEADS].whole;
    if (values[ATTEND_SCALE].given) params.scale = values[ATTEND_SCALE].number;
    kn_value *data[3] = {NULL};
    int count = 0;
    for (int i = 0; i < call->input_count; i++) {
        kn_value *input = call->inputs[i];
        int rank = kn_value_rank(input);
        if (rank == 3 && count < 3) data[count++] = input;
        if (rank == 1) params.lengths = input;
        if (rank == 4) params.mask = input;
    }
    if (count + (params.lengths != NULL) + (params.mask != NULL) == call->input_count && count % 2)
        return count == 1 ? kn_attention_packed(data[0], &params)
                          : kn_attention(data[0], data[1], data[2], &params);
    kn_mistake(call->model, call->line, call->line->word.column,
               "the inputs are not those of attention; expected (batch,length,columns) once or three times, then perhaps "
               "lengths (batch) and a mask (batch,heads,length,length)");
    return NULL;
}

enum { POOL_WINDOW, POOL_STRIDE, POOL_PADDING, POOL_CEIL, POOL_LAST };
#define POOL_ARGUMENTS                                                                                       \
    PAIR("window", "height and width of the window: 2 or 2x3", REQUIRED),                                    \
        PAIR("stride", "steps of the window, down and across", .usual = "the window"),                       \
        SIDES("padding", "rows and columns around the image, as for conv", .words = NULL),                   \
        FLAG("ceil", "whether a part of a window that is left at the end makes one more", .usual = "no")
static const kn_option max_pool_arguments[] = {
    POOL_ARGUMENTS,
    PAIR("dilation", "distance between the points of the window", .usual = "1"),
};
static const kn_option average_pool_arguments[] = {
    POOL_ARGUMENTS,
    FLAG("skip_padding", "divide by the elements inside the image only", .usual = "no"),
};
static const kn_option power_pool_arguments[] = {
    POOL_ARGUMENTS,
    NUMBER("power", "of the elements", .usual = "2"),
};

static kn_pool_params pool_params(const kn_layer_call *call) {
    kn_pool_params params = {.size = sizeof params, .ceil = call->values[POOL_CEIL].flag, .all_padding = true};
    copy_pair(&call->values[POOL_WINDOW], params.window);
    copy_pair(&call->values[POOL_STRIDE], params.stride);
    copy_sides(&call->values[POOL_PADDING], params.padding);
    return params;
}

/* x is (N,C,H,W), the result (N,C,P,Q). */
static kn_value *build_max_pool(kn_layer_call *call) {
    kn_pool_params params = pool_params(call);
    copy_pair(&call->values[POOL_LAST], params.dilation);
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
    PAIR("size", "height and width of the result: 6 or 6x4", REQUIRED),
};

/* x is (N,C,H,W), the result (N,C,size). */
static kn_value *build_adaptive_max_pool(kn_layer_call *call) {
    int64_t size[2] = {0, 0};
    copy_pair(&call->values[0], size);
    return kn_adaptive_max_pool(call->inputs[0], size[0], size[1]);
}

static kn_value *build_adaptive_average_pool(kn_layer_call *call) {
    int64_t size[2] = {0, 0};
    copy_pair(&call->values[0], size);
    return kn_adaptive_average_pool(call->inputs[0], size[0], size[1]);
}

/* (N,C,H,W) to (N,C,1,1). */
static kn_value *build_global_average_pool(kn_layer_call *call) {
    return kn_global_average_pool(call->inputs[0]);
}

static kn_value *build_global_max_pool(kn_layer_call *call) {
    return kn_global_max_pool(call->inputs[0]);
}

static kn_value *build_flatten(kn_layer_call *call) {
    return kn_flatten(call->inputs[0]);
}

static const kn_option reshape_arguments[] = {
    {.name = "shape",
     .kind = KN_OPTION_SHAPE,
     REQUIRED,
     .help = "the sizes after the first dimension, which stays; one may be -1: whatever is left"},
};

/* (N, ...) to (N, shape). */
static kn_value *build_reshape(kn_layer_call *call) {
    char first[256];
    kn_text text;
    if (kn_value_shape_text(call->inputs[0], first, sizeof first) >= sizeof first || first[0] == '\0') {
        kn_mistake(call->model, call->line, call->line->word.column,
                   "found a value without dimensions, or with very long ones; expected one whose first "
                   "dimension stays");
        return NULL;
    }
    size_t length = 0;
    for (int depth = 0; first[length] && (depth > 0 || first[length] != ','); length++)
        depth += (first[length] == '(') - (first[length] == ')');
    first[length] = '\0';
    kn_text_init(&text, &call->model->host);
    kn_text_add(&text, first);
    if (call->values[0].text[0]) kn_text_format(&text, ",%s", call->values[0].text);
    kn_value *value = NULL;
    if (kn_text_failed(&text))
        kn_model_no_memory(call->model);
    else
        value = kn_reshape(call->inputs[0], text.data);
    kn_text_finish(&text);
    return value;
}

/* ---- the table
 * ------------------------------------------------------------------------------------------------- */

enum { WITH_WEIGHTS = KN_TAKES_INIT | KN_TAKES_BIAS_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE };
#define ARGUMENTS(list) .arguments = list, .argument_count = (int)KN_COUNT_OF(list)
#define ONE_INPUT .least_inputs = 1, .most_inputs = 1

const kn_layer_row kn_layer_table[] = {
    {.name = "linear",
     .help = "a matrix product with a learnt weight",
     .also = "dense fc fully_connected gemm",
     ONE_INPUT,
     ARGUMENTS(linear_arguments),
     .takes = WITH_WEIGHTS,
     .build = build_linear},
    {.name = "conv",
     .help = "a convolution of images, or along sequences (N,channels,length)",
     .also = "conv1d conv2d convolution convolution2d",
     ONE_INPUT,
     ARGUMENTS(conv_arguments),
     .takes = WITH_WEIGHTS,
     .build = build_conv},
    {.name = "convtranspose",
     .help = "a convolution the other way round, which makes images larger",
     .also = "deconv deconvolution conv_transpose convtranspose2d transposed_convolution upconv",
     ONE_INPUT,
     ARGUMENTS(transpose_arguments),
     .takes = KN_TAKES_INIT | KN_TAKES_BIAS_INIT | KN_TAKES_FREEZE,
     .build = build_conv_transpose},
    {.name = "batchnorm",
     .help = "each channel brought to mean 0 and variance 1, then scaled and shifted as learnt",
     .also = "batch_norm batchnorm2d bn",
     ONE_INPUT,
     ARGUMENTS(norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = build_batch_norm},
    KN_RECURRENT_LAYERS,
    {.name = "layernorm",
     .help =
         "each row, the last dimension, brought to mean 0 and variance 1, then scaled and shifted as learnt",
     .also = "layer_norm ln",
     ONE_INPUT,
     ARGUMENTS(layer_norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = build_layer_norm},
    {.name = "rmsnorm",
     .help = "each row divided by the root of its mean square, then scaled as learnt",
     .also = "rms_norm",
     ONE_INPUT,
     ARGUMENTS(rms_norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = build_rms_norm},
    {.name = "groupnorm",
     .help = "groups of channels of each sample brought to mean 0 and variance 1, then scaled and shifted as learnt",
     .also = "group_norm gn",
     ONE_INPUT,
     ARGUMENTS(group_norm_arguments),
     .takes = KN_TAKES_FREEZE,
     .build = build_group_norm},
    {.name = "instancenorm",
     .help = "each channel of each sample brought to mean 0 and variance 1, then scaled and shifted as learnt",
     .also = "instance_norm instancenorm2d",
     ONE_INPUT,
     ARGUMENTS(instance_norm_arguments),
     .takes = KN_TAKES_FREEZE,
     .build = build_instance_norm},
    {.name = "localnorm",
     .help = "each element divided by a power of the squares in neighbouring channels",
     .also = "lrn local_response_norm localresponsenorm",
     ONE_INPUT,
     ARGUMENTS(local_norm_arguments),
     .build = build_local_norm},
    {.name = "embedding",
     .help = "a learnt row of numbers for each token",
     .also = "embed lookup token_embedding",
     ONE_INPUT,
     ARGUMENTS(embedding_arguments),
     .takes = KN_TAKES_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = build_embedding},
    {.name = "dropout",
     .help = "zeroes elements at random in training",
     .also = "drop",
     ONE_INPUT,
     ARGUMENTS(dropout_arguments),
     .build = build_dropout},
    {.name = "attention_dropout",
     .help = "attention, by the same inputs, whose weights become 0 at random in training",
     .least_inputs = 1,
     .most_inputs = 5,
     ARGUMENTS(attention_arguments),
     .build = build_attention_dropout},
    {.name = "maxpool",
     .help = "the largest element of each window",
     .also = "max_pool maxpool2d max_pool2d",
     ONE_INPUT,
     ARGUMENTS(max_pool_arguments),
     .build = build_max_pool},
    {.name = "avgpool",
     .help = "the average of each window",
     .also = "avg_pool avg_pool2d average_pool averagepool avgpool2d mean_pool",
     ONE_INPUT,
     ARGUMENTS(average_pool_arguments),
     .build = build_average_pool},
    {.name = "lppool",
     .help = "the root of the sum of powers of each window",
     .also = "lp_pool lppool2d",
     ONE_INPUT,
     ARGUMENTS(power_pool_arguments),
     .build = build_power_pool},
    {.name = "adaptivemaxpool",
     .help = "the largest element of each window, as many windows as the size asks for",
     .also = "adaptive_max_pool adaptivemaxpool2d",
     ONE_INPUT,
     ARGUMENTS(adaptive_arguments),
     .build = build_adaptive_max_pool},
    {.name = "adaptiveavgpool",
     .help = "the average of each window, as many windows as the size asks for",
     .also = "adaptive_avg_pool adaptiveavgpool2d",
     ONE_INPUT,
     ARGUMENTS(adaptive_arguments),
     .build = build_adaptive_average_pool},
    {.name = "globalmaxpool",
     .help = "the largest element of each channel, as an image of 1x1",
     .also = "global_max_pool gmp",
     ONE_INPUT,
     .build = build_global_max_pool},
    {.name = "globalavgpool",
     .help = "the average of each channel, as an image of 1x1",
     .also = "global_average_pool gap globalaveragepool",
     ONE_INPUT,
     .build = build_global_average_pool},
    {.name = "flatten", .help = "all dimensions but the first become one", ONE_INPUT, .build = build_flatten},
    {.name = "reshape",
     .help = "the same elements under another shape",
     .also = "view",
     ONE_INPUT,
     ARGUMENTS(reshape_arguments),
     .build = build_reshape},
    {.name = "parameter",
     .help = "a learnt value by itself",
     .also = "weight variable",
     ARGUMENTS(parameter_arguments),
     .takes = KN_TAKES_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = build_parameter},
    {.name = "number",
     .help = "a number as a value",
     .also = "constant scalar",
     ARGUMENTS(number_arguments),
     .build = build_number},
    KN_SHAPE_LAYERS,
};
const int kn_layer_table_count = (int)KN_COUNT_OF(kn_layer_table);

const kn_layer_row *kn_layer_find(const char *name) {
    for (int i = 0; i < kn_layer_table_count; i++)
        if (!strcmp(kn_layer_table[i].name, name)) return &kn_layer_table[i];
    return NULL;
}

const kn_layer_row *kn_layer_meant(const char *word) {
    size_t length = strlen(word);
    for (int i = 0; i < kn_layer_table_count; i++)
        for (const char *also = kn_layer_table[i].also; also && *also;) {
            size_t item = strcspn(also, " ");
            if (item == length && !memcmp(also, word, length)) return &kn_layer_table[i];
            also += item;
            also += strspn(also, " ");
        }
    return NULL;
}
