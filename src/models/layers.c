/* The kinds of layers: their arguments, and the public functions that build them. All other kinds are rows of
 * the operator table. A new layer is a row here and the function it names. */
#include <string.h>

#include "models/layers_private.h"
#include "models/layers_recurrent.h"
#include "models/layers_shape.h"

static const kn_option parameter_arguments[] = {
    {.name = "shape", .kind = KN_OPTION_SHAPE, REQUIRED, .help = "shape, without the batch: 3x4, or scalar"},
};

static kn_value *build_parameter(kn_layer_call *call) {
    if (call->share) return kn_graph_find(call->graph, call->share);
    return kn_parameter(call->graph, call->name, KN_FLOAT32, call->values[0].text, call->init);
}

static const kn_option number_arguments[] = {NUMBER("value", "value of the scalar", REQUIRED)};

static kn_value *build_number(kn_layer_call *call) {
    return kn_scalar(call->graph, call->values[0].number);
}

static const kn_option dropout_arguments[] = {
    NUMBER("rate", "probability that an element becomes 0", BY_POSITION, .usual = "0.5"),
};

static kn_value *build_dropout(kn_layer_call *call) {
    return kn_dropout(call->inputs[0], call->values[0].given ? call->values[0].number : 0.5);
}

enum { ATTEND_HEADS, ATTEND_KEY_HEADS, ATTEND_CAUSAL, ATTEND_LAST, ATTEND_SCALE, ATTEND_RATE };
static const kn_option attention_arguments[] = {
    WHOLE("heads", "number of heads, which divides the columns", .usual = "1"),
    WHOLE("key_heads", "number of heads of k and v, each shared by several heads of q", .usual = "heads"),
    FLAG("causal", "whether each query only sees keys up to its position", .usual = "no"),
    FLAG("last", "align the queries with the last keys instead of the first", .usual = "no"),
    NUMBER("scale", "factor for the scores", .usual = "1 / sqrt(head size)"),
    NUMBER("rate", "probability that an attention weight becomes 0", .usual = "0.1"),
};

/* Inputs are those of the attention operator: q, k and v (B,T,columns), or all three packed in one; lengths
 * (B); a mask (B,heads,T,S). */
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
               "expected the inputs of attention: (batch,length,columns) once or three times, "
               "then optionally "
               "lengths (batch) and a mask (batch,heads,length,length)");
    return NULL;
}

static kn_value *build_flatten(kn_layer_call *call) {
    return kn_flatten(call->inputs[0]);
}

static const kn_option reshape_arguments[] = {
    {.name = "shape",
     .kind = KN_OPTION_SHAPE,
     REQUIRED,
     .help = "sizes after the first dimension, which stays the same; one may be -1, which is inferred"},
};

/* (N, ...) to (N, shape). */
static kn_value *build_reshape(kn_layer_call *call) {
    char first[256];
    kn_text text;
    if (kn_value_shape_text(call->inputs[0], first, sizeof first) >= sizeof first || first[0] == '\0') {
        kn_mistake(call->model, call->line, call->line->word.column,
                   "found a scalar, or a very long shape; expected a value whose first "
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

/* ---- the table ----------------------------------------------------------------------------------------- */

enum { WITH_WEIGHTS = KN_TAKES_INIT | KN_TAKES_BIAS_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE };
#define ARGUMENTS(list) .arguments = list, .argument_count = (int)KN_COUNT_OF(list)
#define ONE_INPUT .least_inputs = 1, .most_inputs = 1

const kn_layer_row kn_layer_table[] = {
    {.name = "linear",
     .help = "matrix product with a trainable weight",
     .also = "dense fc fully_connected gemm",
     ONE_INPUT,
     ARGUMENTS(kn_linear_arguments),
     .takes = WITH_WEIGHTS,
     .build = kn_build_linear},
    {.name = "conv",
     .help = "convolution of images, or of sequences (N,channels,length)",
     .also = "conv1d conv2d convolution convolution2d",
     ONE_INPUT,
     ARGUMENTS(kn_conv_arguments),
     .takes = WITH_WEIGHTS,
     .build = kn_build_conv},
    {.name = "convtranspose",
     .help = "transposed convolution, which enlarges images",
     .also = "deconv deconvolution conv_transpose convtranspose2d transposed_convolution upconv",
     ONE_INPUT,
     ARGUMENTS(kn_transpose_arguments),
     .takes = WITH_WEIGHTS,
     .build = kn_build_conv_transpose},
    {.name = "batchnorm",
     .help = "batch normalization: normalizes each channel, with a trainable scale and shift",
     .also = "batch_norm batchnorm2d bn",
     ONE_INPUT,
     ARGUMENTS(kn_norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = kn_build_batch_norm},
    KN_RECURRENT_LAYERS,
    {.name = "layernorm",
     .help = "layer normalization: normalizes along the last dimension, with a trainable scale and shift",
     .also = "layer_norm ln",
     ONE_INPUT,
     ARGUMENTS(kn_layer_norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = kn_build_layer_norm},
    {.name = "rmsnorm",
     .help = "divides along the last dimension by the root mean square, with a trainable scale",
     .also = "rms_norm",
     ONE_INPUT,
     ARGUMENTS(kn_rms_norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = kn_build_rms_norm},
    {.name = "groupnorm",
     .help = "group normalization: normalizes groups of channels of each sample, with a trainable scale and "
             "shift",
     .also = "group_norm gn",
     ONE_INPUT,
     ARGUMENTS(kn_group_norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = kn_build_group_norm},
    {.name = "instancenorm",
     .help =
         "instance normalization: normalizes each channel of each sample, with a trainable scale and shift",
     .also = "instance_norm instancenorm2d",
     ONE_INPUT,
     ARGUMENTS(kn_instance_norm_arguments),
     .takes = KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = kn_build_instance_norm},
    {.name = "standardize",
     .help = "standardizes an input's channels to mean 0 and deviation 1, as koine train measures them "
             "before training "
             "begins",
     .also = "standardise normalize normalise",
     ONE_INPUT,
     .build = kn_build_standardize},
    {.name = "localnorm",
     .help = "local response normalization across neighbouring channels",
     .also = "lrn local_response_norm localresponsenorm",
     ONE_INPUT,
     ARGUMENTS(kn_local_norm_arguments),
     .build = kn_build_local_norm},
    {.name = "embedding",
     .help = "trainable vector for each token",
     .also = "embed lookup token_embedding",
     ONE_INPUT,
     ARGUMENTS(kn_embedding_arguments),
     .takes = KN_TAKES_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = kn_build_embedding},
    {.name = "dropout",
     .help = "sets random elements to 0 in training",
     .also = "drop",
     ONE_INPUT,
     ARGUMENTS(dropout_arguments),
     .build = build_dropout},
    {.name = "attention_dropout",
     .help = "attention with dropout of its weights in training",
     .least_inputs = 1,
     .most_inputs = 5,
     ARGUMENTS(attention_arguments),
     .build = build_attention_dropout},
    {.name = "maxpool",
     .help = "maximum of each window",
     .also = "max_pool maxpool2d max_pool2d",
     ONE_INPUT,
     ARGUMENTS(kn_max_pool_arguments),
     .build = kn_build_max_pool},
    {.name = "avgpool",
     .help = "average of each window",
     .also = "avg_pool avg_pool2d average_pool averagepool avgpool2d mean_pool",
     ONE_INPUT,
     ARGUMENTS(kn_average_pool_arguments),
     .build = kn_build_average_pool},
    {.name = "lppool",
     .help = "p-norm of each window",
     .also = "lp_pool lppool2d",
     ONE_INPUT,
     ARGUMENTS(kn_power_pool_arguments),
     .build = kn_build_power_pool},
    {.name = "adaptivemaxpool",
     .help = "maximum of each window, for a given output size",
     .also = "adaptive_max_pool adaptivemaxpool2d",
     ONE_INPUT,
     ARGUMENTS(kn_adaptive_arguments),
     .build = kn_build_adaptive_max_pool},
    {.name = "adaptiveavgpool",
     .help = "average of each window, for a given output size",
     .also = "adaptive_avg_pool adaptiveavgpool2d",
     ONE_INPUT,
     ARGUMENTS(kn_adaptive_arguments),
     .build = kn_build_adaptive_average_pool},
    {.name = "globalmaxpool",
     .help = "maximum of each channel, as a 1x1 image",
     .also = "global_max_pool gmp",
     ONE_INPUT,
     .build = kn_build_global_max_pool},
    {.name = "globalavgpool",
     .help = "average of each channel, as a 1x1 image",
     .also = "global_average_pool gap globalaveragepool",
     ONE_INPUT,
     .build = kn_build_global_average_pool},
    {.name = "flatten", .help = "merges all dimensions except the first", ONE_INPUT, .build = build_flatten},
    {.name = "reshape",
     .help = "changes the shape",
     .also = "view",
     ONE_INPUT,
     ARGUMENTS(reshape_arguments),
     .build = build_reshape},
    {.name = "parameter",
     .help = "trainable value",
     .also = "weight variable",
     ARGUMENTS(parameter_arguments),
     .takes = KN_TAKES_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE,
     .build = build_parameter},
    {.name = "number",
     .help = "constant scalar",
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
