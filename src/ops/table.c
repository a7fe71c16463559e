/* The operator table: every row of this module, in the order of the grammar page. */
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"

/* clang-format off */
#define KN_ROW_NAMES(X)                                                                                      \
    /* arithmetic */                                                                                         \
    X(add) X(sub) X(mul) X(div) X(pow) X(min) X(max) X(scale) X(shift) X(neg) X(exp) X(log) X(sqrt) X(rsqrt)  \
    X(abs) X(sin) X(cos) X(erf) X(clip)                                                                      \
    X(floor) X(ceil) X(round) X(sign) X(mod) X(fmod) X(quotient) X(floor_quotient) X(reciprocal) X(log1p) X(expm1) X(tan) X(asin) X(acos)   \
    X(atan) X(atan2) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh)                                              \
    /* activations */                                                                                        \
    X(sigmoid) X(tanh) X(relu) X(leaky_relu) X(relu6) X(elu) X(selu) X(gelu) X(gelu_tanh) X(silu) X(softplus) \
    X(hard_sigmoid) X(hard_swish) X(log_sigmoid) X(mish) X(softsign) X(celu) X(thresholded_relu) X(shrink)    \
    X(prelu) X(dropout) X(uniform_like)                                                                      \
    /* stored moments */                                                                                     \
    X(round_random) X(round_random_8) X(power_of_two)                                                        \
    /* comparisons, choice, types */                                                                         \
    X(equal) X(not_equal) X(less) X(less_equal) X(greater) X(greater_equal) X(where) X(in_training) X(cast)   \
    X(and) X(or) X(xor) X(not) X(bit_and) X(bit_or) X(bit_xor) X(bit_left) X(bit_right) X(isnan) X(isinf)    \
    /* reductions */                                                                                         \
    X(sum) X(mean) X(reduce_max) X(reduce_min)                                                               \
    X(softmax) X(log_softmax) X(softmax_gradient) X(log_softmax_gradient)                                    \
    /* matrix products and convolutions */                                                                          \
    X(matmul) X(grouped_matmul) X(grouped_matmul_weight) X(matmul_integer) X(matmul_quantized) X(columns) X(conv2d_bytes) X(conv2d) X(conv2d_data) X(conv2d_weight) X(max_pool) X(max_pool_data) X(average_pool)    \
    X(average_pool_data) X(batch_norm) X(batch_norm_gradient)                                                \
    /* sequences */                                                                                          \
    X(embedding) X(embedding_gradient) X(layer_norm) X(layer_norm_gradient) X(rms_norm) X(rms_norm_gradient) \
    X(attention) X(attention_gradient) X(attention_packed_gradient) X(attention_dropout)                     \
    X(attention_dropout_gradient) X(attention_dropout_packed_gradient) X(lstm) X(lstm_gradient)              \
    X(gru) X(gru_gradient) X(rnn) X(rnn_gradient)                                                            \
    /* losses */                                                                                             \
    X(squared_error) X(absolute_error) X(huber_error) X(logits_error) X(weighted_logits_error)                \
    X(probability_error) X(divergence_error) X(hinge_error) X(cosine_error) X(class_share) X(share_error)     \
    X(cross_entropy) X(cross_entropy_gradient) X(cross_entropy_counted) X(cross_entropy_counted_gradient)    \
    X(cross_entropy_of_product) X(picked_slope) X(with_gradients) X(accuracy) X(ctc) X(ctc_gradient)                                                                       \
    /* shapes */                                                                                             \
    X(reshape) X(flatten) X(broadcast) X(transpose) X(concat) X(slice) X(slice_gradient) X(pad)    \
    X(flip) X(resize) X(resize_gradient)                                                                     \
    X(rotary) X(put_rows) X(take_rows)                                                                       \
    /* indexing */                                                                                \
    X(gather) X(gather_elements) X(gather_gradient) X(scatter) X(scatter_elements) X(top_k) X(cumsum)         \
    /* weights in blocks, in bound graphs */                                                                  \
    X(widen_blocks) X(matmul_blocks) X(embedding_blocks) X(round_activations)                                                     \
    /* inserted by the planner */                                                                           \
    X(copy) X(bitcast) X(assign) X(layout) X(widen)

/* clang-format on */

#define KN_ROW_DECLARE(row) extern const kn_operator kn_row_##row;
KN_ROW_NAMES(KN_ROW_DECLARE)

#define KN_ROW_POINTER(row) &kn_row_##row,
const kn_operator *const kn_operator_table[] = {KN_ROW_NAMES(KN_ROW_POINTER)};
const int kn_operator_table_count = (int)KN_COUNT_OF(kn_operator_table);

const kn_operator *kn_operator_find(const char *name) {
    for (int i = 0; name && i < kn_operator_table_count; i++)
        if (!strcmp(kn_operator_table[i]->name, name)) return kn_operator_table[i];
    return NULL;
}

void kn_kernel_name(const kn_variant *variant, int tile, char name[KN_KERNEL_NAME]) {
    char of_tile[KN_TILE_NAME];
    const bool named = tile && kn_product_tile_name(tile, of_tile);
    snprintf(name, KN_KERNEL_NAME, "%s%s%s", variant->name, named ? ":" : "", named ? of_tile : "");
}
