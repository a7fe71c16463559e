/* Every function that adds to a graph, with NULL for a value, a text or a list. */
#include "api_tests.h"

typedef kn_value *unary(kn_value *x);
typedef kn_value *binary(kn_value *x, kn_value *y);

/* Builders that move and select elements; x is of a graph that has not failed. */
static void shapes(kn_value *x) {
    kn_value *parts[2] = {x, x}, *places = x;
    assert_true(kn_value_failed(kn_flip(NULL, NULL)) && kn_value_failed(kn_squeeze(NULL, NULL)));
    assert_true(kn_value_failed(kn_unsqueeze(NULL, NULL)) && kn_value_failed(kn_expand(NULL, NULL)));
    assert_true(kn_value_failed(kn_tile(NULL, NULL)) && kn_value_failed(kn_repeat(NULL, 0, 1)));
    assert_true(kn_split(NULL, 0, NULL, 2, parts) != KN_OK && !parts[0] && !parts[1]);
    assert_true(kn_split(x, 0, NULL, 2, NULL) != KN_OK);
    assert_true(kn_value_failed(kn_stack(NULL, 2, 0)));
    assert_true(kn_value_failed(kn_depth_to_space(NULL, 2, true)));
    assert_true(kn_value_failed(kn_space_to_depth(NULL, 2, true)));
    assert_true(kn_value_failed(kn_range(NULL, KN_INT32, 0, 2, 1)));
    assert_true(kn_value_failed(kn_tril(NULL, 0)) && kn_value_failed(kn_triu(NULL, 0)));
    assert_true(kn_value_failed(kn_pad_with_mode(NULL, NULL, KN_PAD_EDGE)));
    kn_resize_params_init(NULL);
    kn_linear_params_init(NULL);
    kn_conv_params_init(NULL);
    kn_recurrent_params_init(NULL);
    kn_embedding_params_init(NULL);
    kn_attention_params_init(NULL);
    kn_rotary_params_init(NULL);
    kn_pool_params_init(NULL);
    kn_cross_entropy_params_init(NULL);
    kn_ctc_params_init(NULL);
    assert_true(kn_value_failed(kn_resize_image(NULL, 2, 2, NULL)));
    assert_true(kn_value_failed(kn_gather(NULL, NULL, 0)) &&
                kn_value_failed(kn_gather_elements(NULL, NULL, 0)));
    assert_true(kn_value_failed(kn_gather_nd(NULL, NULL)) &&
                kn_value_failed(kn_gather_nd_batches(NULL, NULL, 1)));
    assert_true(kn_value_failed(kn_scatter(NULL, NULL, NULL, 0, KN_SCATTER_ADD)));
    assert_true(kn_value_failed(kn_scatter_elements(NULL, NULL, NULL, 0, KN_SCATTER_ADD)));
    assert_true(kn_value_failed(kn_scatter_nd(NULL, NULL, NULL, KN_SCATTER_ADD)));
    assert_true(kn_value_failed(kn_one_hot(NULL, 3, 0, 1, 0)));
    assert_true(kn_value_failed(kn_top_k(NULL, 1, 0, false, &places)) && !places);
    assert_true(kn_value_failed(kn_top_k(NULL, 1, 0, false, NULL)));
    assert_true(kn_value_failed(kn_argmax(NULL, 0, true)) && kn_value_failed(kn_argmin(NULL, 0, true)));
    assert_true(kn_value_failed(kn_cumulative_sum(NULL, 0, false, false)));
    assert_true(kn_value_failed(kn_einsum(NULL, NULL, 0)) && kn_value_failed(kn_einsum("i->i", NULL, 1)));
    kn_value *(*const reductions[])(kn_value *, const char *, bool) = {
        kn_reduce_prod,       kn_reduce_l1,      kn_reduce_l2,
        kn_reduce_sum_square, kn_reduce_log_sum, kn_reduce_log_sum_exp,
    };
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        assert_true(kn_value_failed(reductions[i](NULL, NULL, false)));
    /* Within a graph the error is the graph's. */
    for (int i = 0; i < 6; i++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *own = kn_input(graph, "x", KN_FLOAT32, "2,3"), *both[2] = {own, NULL}, *value = NULL;
        switch (i) {
        case 0:
            value = kn_gather(own, NULL, 0);
            break;
        case 1:
            value = kn_gather_nd(own, NULL);
            break;
        case 2:
            value = kn_scatter_nd(own, own, NULL, KN_SCATTER_ADD);
            break;
        case 3:
            value = kn_einsum(NULL, both, 1);
            break;
        case 4:
            value = kn_einsum("ij,ij", both, 2);
            break;
        default:
            value = kn_expand(own, NULL);
            break;
        }
        if (!kn_value_failed(value)) fail_msg("case %d made a value", i);
        assert_true(kn_graph_status(graph) != KN_OK);
        kn_graph_destroy(&graph);
    }
}

static void operators(void **state) {
    (void)state;
    static unary *const unaries[] = {
        kn_neg,          kn_exp,
        kn_log,          kn_sqrt,
        kn_rsqrt,        kn_abs,
        kn_sin,          kn_cos,
        kn_erf,          kn_tanh,
        kn_relu,         kn_sigmoid,
        kn_relu6,        kn_selu,
        kn_gelu,         kn_silu,
        kn_flatten,      kn_softplus,
        kn_hard_sigmoid, kn_hard_swish,
        kn_gelu_tanh,    kn_global_average_pool,
        kn_floor,        kn_ceil,
        kn_round,        kn_sign,
        kn_reciprocal,   kn_log1p,
        kn_expm1,        kn_tan,
        kn_asin,         kn_acos,
        kn_atan,         kn_sinh,
        kn_cosh,         kn_asinh,
        kn_acosh,        kn_atanh,
        kn_log_sigmoid,  kn_mish,
        kn_softsign,     kn_not,
        kn_isnan,        kn_isinf,
        kn_hard_tanh,    kn_global_max_pool,
    };
    static binary *const binaries[] = {
        kn_add,
        kn_sub,
        kn_mul,
        kn_div,
        kn_pow,
        kn_min,
        kn_max,
        kn_equal,
        kn_not_equal,
        kn_less,
        kn_less_equal,
        kn_greater,
        kn_greater_equal,
        kn_mse,
        kn_binary_cross_entropy,
        kn_mod,
        kn_fmod,
        kn_atan2,
        kn_prelu,
        kn_and,
        kn_or,
        kn_xor,
        kn_bit_and,
        kn_bit_or,
        kn_bit_xor,
        kn_bit_left,
        kn_bit_right,
        kn_accuracy,
        kn_l1,
        kn_kl_divergence,
        kn_cosine_similarity,
        kn_probability_cross_entropy,
    };
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2,3,4,4");
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        assert_true(kn_value_failed(unaries[i](NULL)));
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
        assert_true(kn_value_failed(binaries[i](NULL, NULL)));
        assert_true(kn_value_failed(binaries[i](x, NULL)));
        assert_true(kn_value_failed(binaries[i](NULL, x)));
    }
    assert_true(kn_value_failed(kn_accuracy_ignoring(NULL, x, -1)));
    assert_true(kn_value_failed(kn_accuracy_ignoring(x, NULL, -1)));
    assert_true(kn_value_failed(kn_linear(NULL, 3, NULL)));
    assert_true(kn_value_failed(kn_conv(NULL, 3, 3, 3, NULL)));
    assert_true(kn_value_failed(kn_batch_norm(NULL, NULL)));
    assert_true(kn_value_failed(kn_batch_norm_with(NULL, NULL, NULL, NULL, NULL, NULL)));
    kn_batch_norm_params_init(NULL);
    kn_norm_params_init(NULL);
    assert_true(kn_value_failed(kn_layer_norm(NULL, NULL)));
    assert_true(kn_value_failed(kn_rms_norm(NULL, NULL)));
    assert_true(kn_value_failed(kn_dropout(NULL, 0.5)));
    assert_true(kn_value_failed(kn_uniform_like(NULL)));
    assert_true(kn_value_failed(kn_matmul(NULL, NULL, false, false)));
    assert_true(kn_value_failed(kn_matmul(x, NULL, true, false)));
    assert_true(kn_value_failed(kn_matmul_integer(NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_matmul_integer(x, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_matmul_quantized(NULL, NULL, NULL, NULL, 8, 0)));
    assert_true(kn_value_failed(kn_matmul_quantized(x, NULL, x, NULL, 8, 0)));
    assert_true(kn_value_failed(kn_unpack_bits(NULL, 4)));
    assert_true(kn_value_failed(kn_unpack_bits(x, 4)));
    assert_true(kn_value_failed(kn_conv2d_integer(NULL, NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv2d_integer(x, NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv1d_integer(NULL, NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv1d_integer(x, NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv2d(NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv2d(x, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv1d(NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv1d(x, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv_transpose(NULL, 3, 3, 3, NULL)));
    assert_true(kn_value_failed(kn_conv_transpose1d(NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv_transpose2d(NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_conv_transpose2d(x, NULL, NULL, NULL)));
    kn_local_norm_params_init(NULL);
    kn_spectrogram_params_init(NULL);
    assert_true(kn_value_failed(kn_spectrogram(NULL, 4, 2, NULL)));
    assert_true(kn_value_failed(kn_local_response_norm(NULL, 5, NULL)));
    assert_true(kn_value_failed(kn_group_norm(NULL, 2, NULL)));
    assert_true(kn_value_failed(kn_instance_norm(NULL, NULL)));
    assert_true(kn_value_failed(kn_standardize(NULL)));
    assert_true(kn_value_failed(kn_lp_pool(NULL, 2, 2, NULL)));
    assert_true(kn_value_failed(kn_adaptive_max_pool(NULL, 2, 2)));
    assert_true(kn_value_failed(kn_adaptive_average_pool(NULL, 2, 2)));
    assert_true(kn_value_failed(kn_max_pool(NULL, 2, NULL)));
    assert_true(kn_value_failed(kn_average_pool(NULL, 2, NULL)));
    assert_true(kn_value_failed(kn_scale(NULL, 2)));
    assert_true(kn_value_failed(kn_shift(NULL, 2)));
    assert_true(kn_value_failed(kn_leaky_relu(NULL, 0.1)));
    assert_true(kn_value_failed(kn_elu(NULL, 1)));
    assert_true(kn_value_failed(kn_celu(NULL, 1)));
    assert_true(kn_value_failed(kn_thresholded_relu(NULL, 1)));
    assert_true(kn_value_failed(kn_hard_shrink(NULL, 1)));
    assert_true(kn_value_failed(kn_soft_shrink(NULL, 1)));
    assert_true(kn_value_failed(kn_clip(NULL, 0, 1)));
    assert_true(kn_value_failed(kn_where(NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_where(NULL, x, x)));
    assert_true(kn_value_failed(kn_cast(NULL, KN_INT32)));
    assert_true(kn_value_failed(kn_sum(NULL, NULL, false)));
    assert_true(kn_value_failed(kn_mean(NULL, NULL, false)));
    assert_true(kn_value_failed(kn_reduce_max(NULL, NULL, false)));
    assert_true(kn_value_failed(kn_reduce_min(NULL, NULL, false)));
    assert_true(kn_value_failed(kn_softmax(NULL, 0)));
    assert_true(kn_value_failed(kn_log_softmax(NULL, 0)));
    assert_true(kn_value_failed(kn_reshape(NULL, "2")));
    assert_true(kn_value_failed(kn_transpose(NULL, "0")));
    assert_true(kn_value_failed(kn_concat(NULL, 0, 0)));
    assert_true(kn_value_failed(kn_slice(NULL, 0, 0, 1)));
    assert_true(kn_value_failed(kn_pad(NULL, "0,0", 0)));
    assert_true(kn_value_failed(kn_broadcast(NULL, "2")));
    shapes(x);
    assert_true(kn_value_failed(kn_cross_entropy(NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_cross_entropy(x, NULL, NULL)));
    assert_true(kn_value_failed(kn_embedding(NULL, 5, 3, NULL)));
    assert_true(kn_value_failed(kn_rnn(NULL, 5, NULL)));
    assert_true(kn_value_failed(kn_lstm(NULL, 5, NULL)));
    assert_true(kn_value_failed(kn_gru(NULL, 5, NULL)));
    assert_true(kn_value_failed(kn_attention_packed(NULL, NULL)));
    assert_true(kn_value_failed(kn_attention(NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_attention(NULL, x, x, NULL)));
    assert_true(kn_value_failed(kn_attention(x, NULL, x, NULL)));
    assert_true(kn_value_failed(kn_attention(x, x, NULL, NULL)));
    assert_true(kn_value_failed(kn_rotary(NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_rotary(NULL, x, NULL)));
    assert_true(kn_value_failed(kn_put_rows(NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_put_rows(NULL, x, x)));
    assert_true(kn_value_failed(kn_put_rows(x, NULL, x)));
    assert_true(kn_value_failed(kn_put_rows(x, x, NULL)));
    assert_true(kn_value_failed(kn_kv_cache(NULL, NULL, 1, NULL)));
    assert_true(kn_value_failed(kn_take_rows(NULL, NULL, 1)));
    assert_true(kn_value_failed(kn_take_rows(NULL, x, 1)));
    assert_true(kn_value_failed(kn_take_rows(x, NULL, 1)));
    assert_true(kn_value_failed(kn_huber(NULL, NULL, 1)));
    assert_true(kn_value_failed(kn_ctc(NULL, NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_ctc(x, NULL, NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_smooth_l1(NULL, NULL, 1)));
    assert_true(kn_value_failed(kn_smooth_l1(NULL, NULL, 0)));
    assert_true(kn_value_failed(kn_nll(NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_nll(x, NULL, NULL)));
    assert_true(kn_value_failed(kn_binary_cross_entropy_weighted(NULL, NULL, NULL)));
    assert_true(kn_value_failed(kn_binary_cross_entropy_weighted(x, x, NULL)));
    assert_true(kn_value_failed(kn_hinge(NULL, NULL, 1)));
    assert_true(kn_value_failed(kn_margin_ranking(NULL, NULL, NULL, 1)));
    assert_true(kn_value_failed(kn_cosine_embedding(NULL, NULL, NULL, 0)));
    assert_true(kn_value_failed(kn_triplet_margin(NULL, NULL, NULL, 1)));
    kn_graph_destroy(&graph);
    /* A missing text is an error of the graph. */
    kn_value *(*const texts[])(kn_value *, const char *) = {kn_reshape, kn_broadcast};
    for (size_t i = 0; i < 2; i++) {
        graph = kn_graph_create(NULL);
        assert_true(kn_value_failed(texts[i](kn_input(graph, "x", KN_FLOAT32, "2,3"), NULL)));
        assert_true(kn_graph_status(graph) != KN_OK);
        kn_graph_destroy(&graph);
    }
    graph = kn_graph_create(NULL);
    assert_true(kn_value_failed(kn_pad(kn_input(graph, "x", KN_FLOAT32, "2,3"), NULL, 0)));
    kn_graph_destroy(&graph);
}

int test_null_builders(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators),
    };
    return cmocka_run_group_tests_name("no values given", tests, NULL, NULL);
}
