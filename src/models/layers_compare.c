/* Layers that compute a loss of several values; a model whose result is such a loss is trained on it. Losses
 * of one output against a target are in the table of loss.c. */
#include "models/layers_private.h"
#include "models/layers_shape.h"

const kn_option kn_apart_arguments[1] = {
    NUMBER("margin", "required distance", .by_position = true, .usual = "1")};
const kn_option kn_least_arguments[1] = {NUMBER("margin", "tolerance", .by_position = true, .usual = "0")};

/* x and y are (...,D), target (...) is 1 or -1; the result is a scalar. */
kn_value *kn_build_cosine_embedding(kn_layer_call *call) {
    return kn_cosine_embedding(call->inputs[0], call->inputs[1], call->inputs[2], call->values[0].number);
}

/* All three inputs are (...,D). */
kn_value *kn_build_triplet_margin(kn_layer_call *call) {
    return kn_triplet_margin(call->inputs[0], call->inputs[1], call->inputs[2], call->values[0].number);
}

/* All three inputs have the same shape. */
kn_value *kn_build_margin_ranking(kn_layer_call *call) {
    return kn_margin_ranking(call->inputs[0], call->inputs[1], call->inputs[2], call->values[0].number);
}
