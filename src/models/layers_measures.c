/* Reductions and distances: builders of the public API that are not rows of the operator table. */
#include "models/layers_shape.h"

const kn_option kn_measure_arguments[2] = {
    {.name = "axes",
     .kind = KN_OPTION_WHOLES,
     .by_position = true,
     .most_count = 8,
     .least = -8,
     .usual = "all",
     .help = "axes to reduce; the batch is axis 0"},
    {.name = "keep", .kind = KN_OPTION_FLAG, .usual = "no", .help = "keep reduced axes with size 1"},
};
const kn_option kn_stack_arguments[1] = {
    {.name = "axis",
     .kind = KN_OPTION_WHOLE,
     .least = -8,
     .most = 7,
     .usual = "1",
     .help = "position of the new axis"},
};

/* x has any shape; without axes, the result is a scalar. */
#define MEASURE(name)                                                                                        \
    kn_value *kn_build_##name(kn_layer_call *call) {                                                         \
        char axes[128];                                                                                      \
        bool given = call->values[0].given;                                                                  \
        kn_option_list_text(&call->values[0], axes, sizeof axes);                                            \
        return kn_##name(call->inputs[0], given ? axes : NULL, call->values[1].flag);                        \
    }
MEASURE(reduce_prod)
MEASURE(reduce_l1)
MEASURE(reduce_l2)
MEASURE(reduce_sum_square)
MEASURE(reduce_log_sum)
MEASURE(reduce_log_sum_exp)

/* All inputs have the same shape; the batch remains axis 0. */
kn_value *kn_build_stack(kn_layer_call *call) {
    const kn_option_value *axis = &call->values[0];
    return kn_stack(call->inputs, (size_t)call->input_count, axis->given ? (int)axis->whole : 1);
}

/* x and y are (...,D), the result (...). */
kn_value *kn_build_cosine_similarity(kn_layer_call *call) {
    return kn_cosine_similarity(call->inputs[0], call->inputs[1]);
}
