/* Rows of the layer table for layers_recurrent.c. */
#ifndef KN_LAYERS_RECURRENT_H
#define KN_LAYERS_RECURRENT_H

#include "models/models_private.h"

extern const kn_option kn_recurrent_arguments[6];
extern const kn_option kn_rnn_arguments[7];

kn_value *kn_build_rnn(kn_layer_call *call);
kn_value *kn_build_lstm(kn_layer_call *call);
kn_value *kn_build_gru(kn_layer_call *call);

/* clang-format off */
#define KN_RECURRENT_LAYER(word, about, others, most, list, function)                                        \
    {.name = word, .help = about, .also = others, .least_inputs = 1, .most_inputs = most,                    \
     .arguments = list, .argument_count = (int)KN_COUNT_OF(list),                                            \
     .takes = KN_TAKES_INIT | KN_TAKES_BIAS_INIT | KN_TAKES_SHARE | KN_TAKES_FREEZE, .build = function}
#define KN_RECURRENT_LAYERS                                                                                  \
    KN_RECURRENT_LAYER("lstm", "LSTM layers over a sequence (N,length,inputs); optional inputs: " \
                       "lengths, int32 (N), and the initial state and cells (layers,N,units)",             \
                       "recurrent", 4, kn_recurrent_arguments, kn_build_lstm),                               \
    KN_RECURRENT_LAYER("gru", "GRU layers over a sequence (N,length,inputs); optional inputs: "     \
                       "lengths, int32 (N), and the initial state (layers,N,units)",                   \
                       NULL, 3, kn_recurrent_arguments, kn_build_gru),                                       \
    KN_RECURRENT_LAYER("rnn", "plain recurrent layers over a sequence (N,length,inputs); optional inputs: lengths, " \
                       "int32 (N), and the initial state (layers,N,units)",                                    \
                       "elman simple_rnn", 3, kn_rnn_arguments, kn_build_rnn)
/* clang-format on */

#endif
