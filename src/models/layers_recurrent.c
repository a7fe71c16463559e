/* Recurrent layers. */
#include "models/layers_private.h"

#include <koine/operators.h>

#include <stdio.h>
#include <string.h>

enum { UNITS, LAYERS, BIDIRECTIONAL, DROPOUT, LAST, STATEFUL, FUNCTION };

/* The last one is only for plain layers. */
static const kn_option recurrent_arguments[] = {
    WHOLE("units", "size of the last output dimension, per direction", REQUIRED),
    WHOLE("layers", "number of stacked layers", .usual = "1"),
    FLAG("bidirectional", "whether a second recurrence runs backwards through the sequence", .usual = "no"),
    NUMBER("dropout", "dropout probability between stacked layers", .usual = "0"),
    FLAG("last", "whether to return only the last state (N,units) instead of all steps", .usual = "no"),
    FLAG("stateful", "whether training carries the state from batch to batch", .usual = "no"),
    OPTION("function", WORD, "activation", .words = "tanh relu", .usual = "tanh"),
};

/* The number of units, from the line or the shared layer. 0 after a mistake. */
static int64_t units_of(kn_layer_call *call) {
    const kn_option_value *units = &call->values[UNITS];
    if (units->given || !call->share) return units->whole;
    char name[KN_MODEL_PATH_BYTES + 32];
    snprintf(name, sizeof name, "%s.weight_hh", call->share);
    kn_value *weight = kn_graph_find(call->graph, name);
    if (weight && kn_value_rank(weight) == 2) return kn_value_dimension(weight, 1);
    kn_mistake(call->model, call->line, call->line->word.column,
               "'%s' has no weight_hh; expected share= with another %s", call->share, call->line->word.text);
    return 0;
}

/* x is (N,length,inputs), the result (N,length,units). Further inputs are distinguished by type: lengths are
 * integers; then come the initial state and cells. */
static kn_value *build(kn_layer_call *call,
                       kn_value *(*make)(kn_value *, int64_t, const kn_recurrent_params *), bool relu) {
    const kn_option_value *values = call->values;
    const int64_t units = units_of(call);
    if (!units) return NULL;
    kn_recurrent_params params = {.size = sizeof params,
                                  .name = call->name,
                                  .weight = call->init,
                                  .bias = call->bias_init,
                                  .layers = (int)values[LAYERS].whole,
                                  .bidirectional = values[BIDIRECTIONAL].flag,
                                  .dropout = values[DROPOUT].number,
                                  .relu = relu,
                                  .last = values[LAST].flag,
                                  .stateful = values[STATEFUL].flag,
                                  .share = call->share};
    for (int i = 1; i < call->input_count; i++) {
        bool whole = kn_value_dtype(call->inputs[i]) == KN_INT32;
        kn_value **slot = whole ? &params.lengths : params.start ? &params.start_cells : &params.start;
        if (*slot)
            return kn_layer_mistake(call, "found a second value %s; expected at most one",
                                    whole ? "of integers, lengths" : "with first states");
        *slot = call->inputs[i];
    }
    return make(call->inputs[0], units, &params);
}

static kn_value *build_rnn(kn_layer_call *call) {
    const kn_option_value *function = &call->values[FUNCTION];
    return build(call, kn_rnn, function->given && !strcmp(function->text, "relu"));
}
static kn_value *build_lstm(kn_layer_call *call) {
    return build(call, kn_lstm, false);
}
static kn_value *build_gru(kn_layer_call *call) {
    return build(call, kn_gru, false);
}

#define RECURRENT(word, most, count, function)                                                               \
    .name = word, .least_inputs = 1, .most_inputs = most, .arguments = recurrent_arguments,                  \
    .argument_count = count, .takes = WITH_WEIGHTS, .build = function

static const kn_layer_row rows[] = {
    {RECURRENT("lstm", 4, FUNCTION, build_lstm),
     .help = "LSTM layers over a sequence (N,length,inputs); optional inputs: lengths, int32 (N), and the "
             "initial state and cells (layers,N,units)",
     .also = "recurrent"},
    {RECURRENT("gru", 3, FUNCTION, build_gru),
     .help = "GRU layers over a sequence (N,length,inputs); optional inputs: lengths, int32 (N), and the "
             "initial state (layers,N,units)"},
    {RECURRENT("rnn", 3, FUNCTION + 1, build_rnn),
     .help = "plain recurrent layers over a sequence (N,length,inputs); optional inputs: lengths, int32 (N), "
             "and the initial state (layers,N,units)",
     .also = "elman simple_rnn"},
};
const kn_layer_family kn_recurrent_layers = {rows, (int)KN_COUNT_OF(rows)};
