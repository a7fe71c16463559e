/* The kinds of layers: small ones, and the list of families. All other kinds are rows of the operator table.
 * A new layer is a row in the table of its family, and the function it names. */
#include <string.h>

#include "models/layers_private.h"

static const kn_option parameter_arguments[] = {
    OPTION("shape", SHAPE, "shape, without the batch: 3x4, or scalar", REQUIRED),
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

enum {
    ATTEND_HEADS,
    ATTEND_KEY_HEADS,
    ATTEND_CAUSAL,
    ATTEND_LAST,
    ATTEND_SCALE,
    ATTEND_RATE,
    ATTEND_WINDOW,
    ATTEND_SOFTCAP
};
static const kn_option attention_arguments[] = {
    WHOLE("heads", "number of heads, which divides the columns", .usual = "1"),
    WHOLE("key_heads", "number of heads of k and v, each shared by several heads of q", .usual = "heads"),
    FLAG("causal", "whether each query only sees keys up to its position", .usual = "no"),
    FLAG("last", "align the queries with the last keys instead of the first", .usual = "no"),
    NUMBER("scale", "factor for the scores", .usual = "1 / sqrt(head size)"),
    NUMBER("rate", "probability that an attention weight becomes 0", .usual = "0.1"),
    WHOLE("window", "keys that a query sees, its own and those before it; unless causal, as many after it",
          .usual = "all"),
    NUMBER("softcap", "scores s become softcap * tanh(s / softcap)", .usual = "no"),
};

/* Inputs are those of the attention operator: q, k and v (B,T,columns), or all three packed in one; lengths
 * (B); first keys (B,T); a mask (B,heads,T,S). */
static kn_value *build_attention_dropout(kn_layer_call *call) {
    const kn_option_value *values = call->values;
    kn_attention_params params = {.size = sizeof params,
                                  .causal = values[ATTEND_CAUSAL].flag,
                                  .last = values[ATTEND_LAST].flag,
                                  .dropout = values[ATTEND_RATE].given ? values[ATTEND_RATE].number : 0.1};
    if (values[ATTEND_HEADS].given) params.heads = values[ATTEND_HEADS].whole;
    if (values[ATTEND_KEY_HEADS].given) params.key_heads = values[ATTEND_KEY_HEADS].whole;
    if (values[ATTEND_WINDOW].given) params.window = values[ATTEND_WINDOW].whole;
    if (values[ATTEND_SCALE].given) params.scale = values[ATTEND_SCALE].number;
    if (values[ATTEND_SOFTCAP].given) params.softcap = values[ATTEND_SOFTCAP].number;
    kn_value *data[3] = {NULL};
    int count = 0;
    for (int i = 0; i < call->input_count; i++) {
        kn_value *input = call->inputs[i];
        int rank = kn_value_rank(input);
        if (rank == 3 && count < 3) data[count++] = input;
        if (rank == 1) params.lengths = input;
        if (rank == 2) params.first = input;
        if (rank == 4) params.mask = input;
    }
    if (count + (params.lengths != NULL) + (params.first != NULL) + (params.mask != NULL) ==
            call->input_count &&
        count % 2)
        return count == 1 ? kn_attention_packed(data[0], &params)
                          : kn_attention(data[0], data[1], data[2], &params);
    return kn_layer_mistake(call,
                            "expected the inputs of attention: (batch,length,columns) once or three times, "
                            "then optionally "
                            "lengths (batch), first keys (batch,length) and a mask "
                            "(batch,heads,length,length)");
}

static kn_value *build_flatten(kn_layer_call *call) {
    return kn_flatten(call->inputs[0]);
}

static const kn_option reshape_arguments[] = {
    OPTION("shape", SHAPE,
           "sizes after the first dimension, which stays the same; one may be -1, which is inferred",
           REQUIRED),
};

/* (N, ...) to (N, shape). */
static kn_value *build_reshape(kn_layer_call *call) {
    char first[256];
    kn_text text;
    const bool fits = kn_value_shape_text(call->inputs[0], first, sizeof first) < sizeof first;
    if (!first[0] && kn_value_rank(call->inputs[0]) > 0) {
        kn_model_no_memory(call->model);
        return NULL;
    }
    if (!fits || !first[0])
        return kn_layer_mistake(call, "found a scalar, or a very long shape; expected a value whose first "
                                      "dimension stays");
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

static const kn_layer_row rows[] = {
    LAYER("dropout", "sets random elements to 0 in training", "drop", dropout_arguments, build_dropout),
    {.name = "attention_dropout",
     .help = "attention with dropout of its weights in training",
     .least_inputs = 1,
     .most_inputs = 5,
     ARGUMENTS(attention_arguments),
     .build = build_attention_dropout},
    {.name = "flatten", .help = "merges all dimensions except the first", ONE_INPUT, .build = build_flatten},
    LAYER("reshape", "changes the shape", "view", reshape_arguments, build_reshape),
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
};
static const kn_layer_family plain_layers = {rows, (int)KN_COUNT_OF(rows)};

/* ---- families ------------------------------------------------------------------------------------------ */

const kn_layer_row *kn_layer_at(int position) {
    static const kn_layer_family *const families[] = {
        &kn_weights_layers, &kn_norm_layers,  &kn_recurrent_layers, &kn_pool_layers,
        &plain_layers,      &kn_shape_layers, &kn_sound_layers};
    for (size_t i = 0; i < KN_COUNT_OF(families); position -= families[i++]->count)
        if (position < families[i]->count) return &families[i]->rows[position];
    return NULL;
}

const kn_layer_row *kn_layer_find(const char *name) {
    const kn_layer_row *row;
    for (int i = 0; (row = kn_layer_at(i)) != NULL && strcmp(row->name, name);)
        i++;
    return row;
}

const kn_layer_row *kn_layer_meant(const char *word) {
    const kn_layer_row *row;
    size_t length = strlen(word);
    for (int i = 0; (row = kn_layer_at(i)) != NULL; i++)
        for (const char *also = row->also; also && *also;) {
            size_t item = strcspn(also, " ");
            if (item == length && !memcmp(also, word, length)) return row;
            also += item;
            also += strspn(also, " ");
        }
    return NULL;
}
