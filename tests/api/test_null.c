/* Every public function with NULL for whatever it takes: an error or an empty answer, and never a crash.
 * tests/api/complete.py sees to it that none is forgotten. */
#include "api_tests.h"

#include <math.h>
#include <string.h>

#include <koine/images.h>
#include <koine/opencl.h>

typedef kn_value *unary(kn_value *x);
typedef kn_value *binary(kn_value *x, kn_value *y);

static void status_and_version(void **state) {
    (void)state;
    assert_string_equal(kn_status_name((kn_status)12345), "unknown");
    assert_non_null(kn_status_message((kn_status)-1));
    assert_true(strlen(kn_status_message((kn_status)12345)) > 0);
    assert_true(kn_version_number() >= 100 && strchr(kn_version_text(), '.'));
}

static void tensors(void **state) {
    (void)state;
    uint64_t number = 7;
    kn_dtype dtype = KN_INT8;
    assert_string_equal(kn_dtype_name((kn_dtype)99), "unknown");
    assert_int_equal(kn_dtype_bytes((kn_dtype)-5), 0);
    assert_false(kn_dtype_parse(NULL, &dtype));
    assert_true(kn_dtype_parse("float32", NULL));
    assert_false(kn_dtype_parse("float33", &dtype));
    assert_int_equal(dtype, KN_INT8);
    const kn_tensor_info huge = {KN_FLOAT64, 4, {1 << 20, 1 << 20, 1 << 20, 1 << 20}},
                         none = {KN_FLOAT32, 1, {-1}}, deep = {KN_FLOAT32, KN_MAX_RANK + 1, {0}},
                         typeless = {(kn_dtype)77, 1, {4}};
    assert_false(kn_tensor_elements(NULL, &number) || kn_tensor_elements(&none, &number));
    assert_false(kn_tensor_elements(&deep, &number) || kn_tensor_bytes(&deep, &number));
    assert_false(kn_tensor_bytes(NULL, &number) || kn_tensor_bytes(&huge, &number));
    assert_false(kn_tensor_bytes(&typeless, &number));
    assert_false(kn_tensor_elements(&huge, NULL) || kn_tensor_bytes(&huge, NULL));
    assert_int_equal(number, 7);
}

static void devices(void **state) {
    (void)state;
    kn_device_list *list = NULL;
    kn_device_list_destroy(&list);
    kn_device_list_destroy(NULL);
    assert_int_equal(kn_device_list_count(NULL), 0);
    assert_null(kn_device_list_entry(NULL, 0));
    list = kn_device_list_create(NULL, NULL);
    assert_null(kn_device_list_entry(list, -1));
    assert_null(kn_device_list_entry(list, kn_device_list_count(list)));
    kn_device_list_destroy(&list);
    assert_null(list);
}

static void contexts(void **state) {
    (void)state;
    kn_context *context = NULL;
    size_t count = 5;
    char folder[8] = "unset";
    kn_context_counts counts = {.size = sizeof counts};
    kn_context_params_init(NULL);
    kn_context_destroy(NULL);
    kn_context_destroy(&context);
    assert_int_equal(kn_context_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_context_error(NULL));
    assert_null(kn_context_device(NULL));
    assert_null(kn_context_capabilities(NULL));
    assert_int_equal(kn_context_get_counts(NULL, &counts), KN_ERROR_ARGUMENT);
    kn_limits limits = {.size = sizeof limits};
    assert_true(kn_context_measure_limits(NULL, false, &limits) != KN_OK);
    assert_true(kn_context_measure_limits(NULL, true, NULL) != KN_OK);
    kn_transfers transfers = {.size = sizeof transfers};
    assert_true(kn_context_measure_transfers(NULL, &transfers) != KN_OK);
    assert_null(kn_context_timeline(NULL, &count));
    assert_int_equal(count, 0);
    kn_context_timeline(NULL, NULL);
    kn_context_timeline_clear(NULL);
    assert_true(kn_context_clock(NULL) == 0);
    assert_false(kn_default_cache_folder(NULL, NULL, folder, sizeof folder));
    assert_false(kn_default_cache_folder("/somewhere", NULL, NULL, 0));
}

static void opencl(void **state) {
    (void)state;
    cl_event event = NULL;
    kn_buffer *buffer = NULL;
    kn_context *context = kn_context_create_opencl(NULL, NULL, NULL, NULL);
    assert_true(kn_context_status(context) != KN_OK);
    assert_true(strlen(kn_context_error(context)) > 0);
    assert_true(kn_context_wait_for(context, NULL, 0) != KN_OK);
    assert_true(kn_context_marker(context, &event) != KN_OK);
    assert_null(kn_buffer_from_opencl(context, NULL, 0, 4));
    kn_context_destroy(&context);
    assert_true(kn_context_wait_for(NULL, NULL, 0) != KN_OK);
    assert_true(kn_context_wait_for(NULL, NULL, 3) != KN_OK);
    assert_true(kn_context_marker(NULL, &event) != KN_OK);
    assert_true(kn_context_marker(NULL, NULL) != KN_OK);
    assert_null(kn_buffer_from_opencl(NULL, NULL, 0, 0));
    kn_buffer_destroy(NULL);
    kn_buffer_destroy(&buffer);
}

static void graphs(void **state) {
    (void)state;
    kn_graph *graph = NULL;
    char text[8] = "unset";
    const float one = 1;
    kn_graph_params_init(NULL);
    kn_graph_destroy(NULL);
    kn_graph_destroy(&graph);
    assert_true(kn_graph_status(NULL) != KN_OK);
    assert_non_null(kn_graph_error(NULL));
    assert_true(kn_value_failed(kn_input(NULL, "x", KN_FLOAT32, "2")));
    assert_true(kn_value_failed(kn_parameter(NULL, "x", KN_FLOAT32, "2", NULL)));
    assert_true(kn_value_failed(kn_constant(NULL, KN_FLOAT32, "", &one, sizeof one)));
    assert_true(kn_value_failed(kn_number(NULL, 1)));
    assert_true(kn_value_failed(kn_name(NULL, "name")));
    assert_true(kn_value_failed(kn_output(NULL, "name")));
    assert_true(kn_value_failed(kn_apply(NULL, "add", NULL, 2, NULL)));
    assert_true(kn_value_failed(kn_result(NULL, 0)));
    kn_freeze(NULL);
    kn_scope_begin(NULL, "scope");
    kn_scope_end(NULL);
    assert_null(kn_graph_find(NULL, "x"));
    assert_int_equal(kn_graph_input_count(NULL), 0);
    assert_int_equal(kn_graph_output_count(NULL), 0);
    assert_int_equal(kn_graph_parameter_count(NULL), 0);
    assert_null(kn_graph_input(NULL, 0));
    assert_null(kn_graph_output(NULL, 0));
    assert_null(kn_graph_parameter(NULL, 0));
    assert_null(kn_value_graph(NULL));
    assert_non_null(kn_value_name(NULL));
    kn_value_dtype(NULL);
    kn_value_rank(NULL);
    assert_int_equal(kn_value_dimension(NULL, 0), -1);
    assert_int_equal(kn_value_shape_text(NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
    kn_value_shape_text(NULL, NULL, 0);
    assert_true(kn_value_failed(NULL));
}

/* Each on a graph of its own, whose error then has to say something. */
static void graphs_with_nulls_inside(void **state) {
    (void)state;
    for (int i = 0; i < 9; i++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2,3"), *both[2] = {x, NULL}, *value = NULL;
        assert_null(kn_graph_find(graph, NULL));
        assert_null(kn_graph_find(graph, "y"));
        assert_null(kn_graph_input(graph, 7));
        assert_null(kn_graph_input(graph, -1));
        assert_int_equal(kn_value_dimension(x, -1), -1);
        assert_int_equal(kn_value_dimension(x, 2), -1);
        switch (i) {
        case 0:
            value = kn_input(graph, NULL, KN_FLOAT32, "2");
            break;
        case 1:
            value = kn_input(graph, "y", KN_FLOAT32, NULL);
            break;
        case 2:
            value = kn_parameter(graph, NULL, KN_FLOAT32, "2", NULL);
            break;
        case 3:
            value = kn_parameter(graph, "w", KN_FLOAT32, NULL, NULL);
            break;
        case 4:
            value = kn_constant(graph, KN_FLOAT32, "4", NULL, 16);
            break;
        case 5:
            value = kn_apply(graph, NULL, &x, 1, NULL);
            break;
        case 6:
            value = kn_apply(graph, "add", NULL, 2, NULL);
            break;
        case 7:
            value = kn_apply(graph, "add", both, 2, NULL);
            break;
        default:
            value = kn_concat(NULL, 2, 0);
            break;
        }
        if (!kn_value_failed(value)) fail_msg("case %d made a value", i);
        if (i < 8) {
            assert_true(kn_graph_status(graph) != KN_OK);
            assert_true(strlen(kn_graph_error(graph)) > 10);
        }
        kn_graph_destroy(&graph);
    }
}

/* What moves and picks elements; x is of a graph that does not fail here. */
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
    assert_true(kn_value_failed(kn_pad_own(NULL, NULL, KN_PAD_EDGE)));
    kn_resize_params_init(NULL);
    assert_true(kn_value_failed(kn_resize_image(NULL, 2, 2, NULL)));
    assert_true(kn_value_failed(kn_gather(NULL, NULL, 0)) && kn_value_failed(kn_gather_elements(NULL, NULL, 0)));
    assert_true(kn_value_failed(kn_gather_nd(NULL, NULL)));
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
    /* Inside a graph it is told. */
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
        kn_floor, kn_ceil, kn_round, kn_sign, kn_reciprocal,
        kn_log1p, kn_expm1, kn_tan, kn_asin, kn_acos,
        kn_atan, kn_sinh, kn_cosh, kn_asinh, kn_acosh,
        kn_atanh, kn_log_sigmoid, kn_mish, kn_softsign, kn_not,
        kn_isnan, kn_isinf, kn_hard_tanh,
        kn_global_max_pool,
    };
    static binary *const binaries[] = {
        kn_add,        kn_sub,     kn_mul,           kn_div,       kn_pow,
        kn_min,        kn_max,     kn_equal,         kn_not_equal, kn_less,
        kn_less_equal, kn_greater, kn_greater_equal, kn_mse,       kn_binary_cross_entropy,
        kn_mod, kn_fmod, kn_atan2, kn_prelu, kn_and, kn_or, kn_xor,
        kn_accuracy,   kn_l1,      kn_kl_divergence, kn_cosine_similarity, kn_probability_cross_entropy,
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
    assert_true(kn_value_failed(kn_linear(NULL, 3, NULL)));
    assert_true(kn_value_failed(kn_conv(NULL, 3, 3, 3, NULL)));
    assert_true(kn_value_failed(kn_batch_norm(NULL, NULL)));
    kn_batch_norm_params_init(NULL);
    kn_norm_params_init(NULL);
    assert_true(kn_value_failed(kn_layer_norm(NULL, NULL)));
    assert_true(kn_value_failed(kn_rms_norm(NULL, NULL)));
    assert_true(kn_value_failed(kn_dropout(NULL, 0.5)));
    assert_true(kn_value_failed(kn_matmul(NULL, NULL, false, false)));
    assert_true(kn_value_failed(kn_matmul(x, NULL, true, false)));
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
    assert_true(kn_value_failed(kn_cache(NULL, NULL, 1, NULL)));
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
    /* A text that is missing is the graph's error. */
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

static void states(void **state) {
    (void)state;
    kn_states *states = NULL;
    float number = 0;
    kn_states_destroy(NULL);
    kn_states_destroy(&states);
    assert_null(kn_states_create(NULL, 1));
    assert_int_equal(kn_states_count(NULL), 0);
    assert_null(kn_states_entry(NULL, 0, NULL));
    assert_true(kn_states_get(NULL, "w", &number, sizeof number) != KN_OK);
    assert_true(kn_states_set(NULL, "w", NULL, &number, sizeof number) != KN_OK);
    assert_non_null(kn_states_error(NULL));
}

static void sessions(void **state) {
    (void)state;
    kn_session *session = NULL;
    kn_tensor_info info;
    kn_plan_info plan = {.size = sizeof plan};
    kn_session_params_init(NULL);
    kn_session_destroy(NULL);
    kn_session_destroy(&session);
    session = kn_session_create(NULL, NULL, 0, NULL);
    assert_true(kn_session_status(session) != KN_OK);
    kn_session_destroy(&session);
    assert_true(kn_session_status(NULL) != KN_OK);
    assert_true(strlen(kn_session_error(NULL)) > 0);
    assert_null(kn_session_states(NULL));
    assert_true(kn_session_bind(NULL, "batch", 1) != KN_OK);
    assert_true(kn_session_compile(NULL, NULL, 0) != KN_OK);
    assert_true(kn_session_run(NULL, NULL, 0, NULL, 0) != KN_OK);
    assert_true(kn_session_wait(NULL) != KN_OK);
    assert_true(kn_session_info(NULL, "y", &info) != KN_OK);
    assert_true(kn_session_feed_buffer(NULL, "x", NULL) != KN_OK);
    assert_true(kn_session_fetch_buffer(NULL, "y", NULL) != KN_OK);
    assert_true(kn_session_plan(NULL, &plan) != KN_OK);
    assert_null(kn_session_plan_text(NULL));
    kn_session_free_text(NULL, NULL);
}

static void trainers(void **state) {
    (void)state;
    kn_trainer *trainer = NULL;
    kn_plan_info plan = {.size = sizeof plan};
    char sentence[8];
    double loss;
    kn_trainer_params_init(NULL);
    kn_trainer_params_choose(NULL, KN_LION);
    kn_trainer_destroy(NULL);
    kn_trainer_destroy(&trainer);
    trainer = kn_trainer_create(NULL, NULL, NULL);
    assert_true(kn_trainer_status(trainer) != KN_OK);
    assert_true(strlen(kn_trainer_error(trainer)) > 0);
    assert_true(kn_trainer_step(trainer, 1, NULL, 0, &loss) != KN_OK);
    assert_true(kn_trainer_find_not_finite(trainer, 1, NULL, 0, NULL, 0) != KN_OK);
    assert_null(kn_trainer_plan_text(trainer));
    kn_trainer_destroy(&trainer);
    assert_true(kn_trainer_status(NULL) != KN_OK);
    assert_true(strlen(kn_trainer_error(NULL)) > 0);
    assert_true(kn_trainer_step(NULL, 1, NULL, 0, &loss) != KN_OK);
    assert_true(kn_trainer_step_fetch(NULL, 1, NULL, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_trainer_evaluate(NULL, 1, NULL, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_trainer_compile(NULL, 1) != KN_OK);
    assert_true(kn_trainer_wait(NULL) != KN_OK);
    assert_null(kn_trainer_states(NULL));
    assert_int_equal(kn_trainer_steps(NULL), 0);
    kn_trainer_set_steps(NULL, 3);
    assert_true(kn_trainer_learning_rate(NULL) == 0);
    assert_true(kn_trainer_judged(NULL, 1) != KN_OK);
    assert_true(kn_trainer_use_averages(NULL, true) != KN_OK);
    assert_true(kn_trainer_plan(NULL, &plan) != KN_OK);
    assert_null(kn_trainer_plan_text(NULL));
    kn_trainer_free_text(NULL, NULL);
    assert_true(kn_trainer_find_not_finite(NULL, 1, NULL, 0, sentence, sizeof sentence) != KN_OK);
}

static void data(void **state) {
    (void)state;
    kn_dataset *dataset = NULL, *one = NULL, *other = NULL;
    kn_loader *loader = NULL;
    kn_batch batch = KN_BATCH_DEFAULTS;
    kn_field field;
    size_t index;
    double number = 0;
    kn_dataset_params_init(NULL);
    kn_loader_params_init(NULL);
    kn_dataset_destroy(NULL);
    kn_dataset_destroy(&dataset);
    kn_loader_destroy(NULL);
    kn_loader_destroy(&loader);
    dataset = kn_dataset_open(NULL, NULL);
    assert_true(kn_dataset_status(dataset) != KN_OK);
    kn_dataset_destroy(&dataset);
    dataset = kn_dataset_from_arrays(NULL, 3, NULL, 2, 0);
    assert_true(kn_dataset_status(dataset) != KN_OK);
    kn_dataset_destroy(&dataset);
    assert_true(kn_dataset_status(NULL) != KN_OK);
    assert_non_null(kn_dataset_error(NULL));
    assert_int_equal(kn_dataset_count(NULL), 0);
    assert_int_equal(kn_dataset_classes(NULL), 0);
    assert_true(isnan(kn_dataset_explainable(NULL)));
    assert_null(kn_dataset_vocabulary(NULL));
    assert_null(kn_dataset_columns(NULL));
    assert_string_equal(kn_dataset_about(NULL), "");
    assert_false(kn_dataset_target(NULL, NULL));
    assert_null(kn_dataset_class_name(NULL, 0));
    assert_true(kn_images_reader().read(NULL, NULL, NULL, 0, 0, NULL, NULL, 0) != KN_OK);
    assert_true(kn_dataset_variance(NULL, 0, &number) != KN_OK);
    assert_null(kn_data_source_usage(-1));
    assert_null(kn_data_source_about(kn_data_source_count()));
    assert_int_equal(kn_dataset_field_count(NULL), 0);
    assert_false(kn_dataset_field(NULL, 0, &field));
    assert_false(kn_dataset_find_field(NULL, "x", &index));
    assert_true(kn_dataset_read(NULL, NULL, 0, 0, NULL, 0) != KN_OK);
    assert_false(kn_dataset_has_test(NULL));
    dataset = kn_dataset_test(NULL);
    assert_true(kn_dataset_status(dataset) != KN_OK);
    kn_dataset_destroy(&dataset);
    assert_true(kn_dataset_split(NULL, 0.5, 1, &one, &other) != KN_OK);
    kn_dataset_destroy(&one);
    kn_dataset_destroy(&other);
    assert_true(kn_dataset_split(NULL, 0.5, 1, NULL, NULL) != KN_OK);
    loader = kn_loader_create(NULL, NULL);
    assert_true(kn_loader_status(loader) != KN_OK);
    kn_loader_destroy(&loader);
    assert_true(kn_loader_status(NULL) != KN_OK);
    assert_non_null(kn_loader_error(NULL));
    assert_int_equal(kn_loader_batches(NULL), 0);
    assert_true(kn_loader_next(NULL, &batch) != KN_OK);
    assert_true(kn_loader_next(NULL, NULL) != KN_OK);
    assert_true(kn_loader_seek(NULL, 0, 0) != KN_OK);
    assert_true(kn_loader_waited(NULL) == 0);
}

static void fitting(void **state) {
    (void)state;
    kn_fit_result result = {.size = sizeof result};
    kn_score score = KN_SCORE_DEFAULTS;
    kn_fit_params_init(NULL);
    assert_true(kn_fit(NULL, NULL, NULL, &result) != KN_OK);
    assert_int_equal(result.end, KN_FIT_FAILED);
    assert_true(kn_fit(NULL, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_evaluate(NULL, NULL, 1, NULL, NULL, &score) != KN_OK);
    assert_true(kn_evaluate(NULL, NULL, 1, "loss", NULL, NULL) != KN_OK);
}

static void models(void **state) {
    (void)state;
    kn_model *model = NULL;
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    int loaded = 0;
    kn_model_params_init(NULL);
    kn_model_save_params_init(NULL);
    kn_model_load_params_init(NULL);
    kn_model_destroy(NULL);
    kn_model_destroy(&model);
    kn_model *(*const makers[])(const char *, const kn_model_params *) = {kn_model_create_named,
                                                                          kn_model_parse, kn_model_open};
    for (size_t i = 0; i < 3; i++) {
        model = makers[i](NULL, NULL);
        assert_true(kn_model_status(model) != KN_OK);
        assert_true(strlen(kn_model_error(model)) > 0);
        assert_string_equal(kn_model_name(model), "");
        assert_string_equal(kn_model_text(model), "");
        assert_null(kn_model_graph(model));
        assert_true(kn_model_add_loss(model, NULL, &loss) != KN_OK);
        assert_true(kn_model_save(model, "/nowhere/x", NULL, NULL) != KN_OK);
        assert_true(kn_model_load(model, NULL, NULL, NULL, NULL) != KN_OK);
        kn_model_destroy(&model);
    }
    assert_int_equal(kn_model_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_model_error(NULL));
    assert_string_equal(kn_model_name(NULL), "");
    assert_string_equal(kn_model_text(NULL), "");
    kn_model_task(NULL);
    assert_non_null(kn_model_loss_name(NULL));
    assert_null(kn_model_graph(NULL));
    assert_int_equal(kn_model_input_count(NULL), 0);
    assert_null(kn_model_input(NULL, 0));
    assert_int_equal(kn_model_output_count(NULL), 0);
    assert_null(kn_model_output(NULL, 0));
    assert_null(kn_model_step(NULL, 1, NULL));
    assert_string_equal(kn_model_input_name(NULL, 0), "");
    assert_string_equal(kn_model_output_name(NULL, 0), "");
    assert_int_equal(kn_model_parameter_elements(NULL), 0);
    assert_true(kn_model_flops(NULL) == 0);
    assert_true(kn_model_add_loss(NULL, NULL, &loss) != KN_OK);
    assert_true(kn_model_save(NULL, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_model_load(NULL, NULL, NULL, NULL, &loaded) != KN_OK);
    assert_false(kn_model_has_weights(NULL));
    assert_null(kn_model_metadata(NULL, "key"));
    assert_false(kn_model_setting_value(NULL, "inputs", NULL));
    assert_null(kn_zoo_name(-1));
    assert_null(kn_zoo_name(kn_zoo_count()));
    assert_null(kn_zoo_text(-1));
    assert_null(kn_zoo_text(kn_zoo_count()));
    assert_true(kn_model_grammar(NULL, 0) > 1000);
    model = kn_model_open("linear", NULL);
    assert_int_equal(kn_model_status(model), KN_OK);
    assert_true(kn_model_add_loss(model, NULL, NULL) != KN_OK);
    assert_true(kn_model_save(model, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_model_load(model, NULL, NULL, NULL, NULL) != KN_OK);
    assert_null(kn_model_metadata(model, NULL));
    assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK);
    kn_model_destroy(&model);
}

static void checkpoints(void **state) {
    (void)state;
    kn_checkpoints *none = NULL;
    kn_checkpoints_params_init(NULL);
    kn_checkpoints_destroy(NULL);
    kn_checkpoints_destroy(&none);
    assert_int_equal(kn_checkpoints_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_checkpoints_error(NULL));
    assert_int_equal(kn_checkpoints_count(NULL), 0);
    assert_null(kn_checkpoints_newest(NULL));
    assert_null(kn_checkpoints_best(NULL));
    assert_true(kn_checkpoints_save(NULL, NULL, NULL, 1, NULL, 0) != KN_OK);
    assert_true(kn_checkpoints_save_best(NULL, NULL, NULL, NULL, 1) != KN_OK);
    kn_checkpoints *failed = kn_checkpoints_open(NULL, NULL);
    assert_int_equal(kn_checkpoints_status(failed), KN_ERROR_ARGUMENT);
    assert_null(kn_checkpoints_newest(failed));
    assert_true(kn_checkpoints_save(failed, NULL, NULL, 1, NULL, 0) != KN_OK);
    assert_true(kn_checkpoints_save_best(failed, NULL, NULL, NULL, 0) != KN_OK);
    kn_checkpoints_destroy(&failed);
}

static void event_files(void **state) {
    (void)state;
    kn_events *none = NULL;
    kn_events_close(NULL);
    kn_events_close(&none);
    assert_int_equal(kn_events_status(NULL), KN_ERROR_MEMORY);
    assert_non_null(kn_events_error(NULL));
    assert_string_equal(kn_events_path(NULL), "");
    kn_events *failed = kn_events_open(NULL, NULL);
    assert_int_equal(kn_events_status(failed), KN_ERROR_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        kn_events *events = i ? failed : NULL;
        assert_true(kn_events_scalar(events, NULL, 0, 1) != KN_OK);
        assert_true(kn_events_histogram(events, NULL, 0, NULL, 3) != KN_OK);
        assert_true(kn_events_image(events, "x", 0, 1, 1, 1, NULL) != KN_OK);
    }
    kn_events_close(&failed);
}

static void npy_files(void **state) {
    (void)state;
    kn_npy_file *file = NULL;
    kn_tensor_info info;
    char message[64] = "";
    kn_npy_file_destroy(NULL);
    kn_npy_file_destroy(&file);
    file = kn_npy_file_open(NULL, NULL);
    assert_true(kn_npy_file_status(file) != KN_OK);
    kn_npy_file_destroy(&file);
    assert_true(kn_npy_file_status(NULL) != KN_OK);
    assert_non_null(kn_npy_file_error(NULL));
    assert_false(kn_npy_file_info(NULL, &info));
    assert_true(kn_npy_file_copy(NULL, KN_FLOAT32, NULL, 0) != KN_OK);
    assert_true(kn_npy_file_save(NULL, NULL, NULL, message, sizeof message) != KN_OK);
    assert_true(strlen(message) > 0);
    assert_true(kn_npy_file_save(NULL, NULL, NULL, NULL, 0) != KN_OK);
}

static void onnx_files(void **state) {
    (void)state;
    kn_onnx_file *file = NULL;
    const char *type;
    kn_onnx_file_destroy(NULL);
    kn_onnx_file_destroy(&file);
    file = kn_onnx_file_open(NULL, NULL);
    assert_true(kn_onnx_file_status(file) != KN_OK);
    assert_null(kn_onnx_file_input(file, 0, &type));
    kn_onnx_file_destroy(&file);
    assert_true(kn_onnx_file_status(NULL) != KN_OK);
    assert_non_null(kn_onnx_file_error(NULL));
    assert_int_equal(kn_onnx_file_input_count(NULL), 0);
    assert_int_equal(kn_onnx_file_output_count(NULL), 0);
    assert_null(kn_onnx_file_input(NULL, 0, NULL));
    assert_null(kn_onnx_file_output(NULL, 0, NULL));
    kn_onnx_tensor_file *tensor = NULL;
    kn_tensor_info info;
    char message[64] = "";
    kn_onnx_tensor_file_destroy(NULL);
    kn_onnx_tensor_file_destroy(&tensor);
    tensor = kn_onnx_tensor_file_open(NULL, NULL);
    assert_true(kn_onnx_tensor_file_status(tensor) != KN_OK);
    kn_onnx_tensor_file_destroy(&tensor);
    assert_true(kn_onnx_tensor_file_status(NULL) != KN_OK);
    assert_non_null(kn_onnx_tensor_file_error(NULL));
    assert_string_equal(kn_onnx_tensor_file_name(NULL), "");
    assert_false(kn_onnx_tensor_file_info(NULL, &info));
    assert_true(kn_onnx_tensor_file_copy(NULL, KN_FLOAT32, NULL, 0) != KN_OK);
    assert_true(kn_onnx_tensor_file_save(NULL, NULL, NULL, NULL, message, sizeof message) != KN_OK);
    assert_true(strlen(message) > 0);
    assert_true(kn_onnx_tensor_file_save(NULL, NULL, NULL, NULL, NULL, 0) != KN_OK);
}

static void safetensors_files(void **state) {
    (void)state;
    kn_safetensors_file *file = NULL;
    kn_tensor_info info;
    char message[64] = "";
    kn_safetensors_file_destroy(NULL);
    kn_safetensors_file_destroy(&file);
    file = kn_safetensors_file_open(NULL, NULL);
    assert_true(kn_safetensors_file_status(file) != KN_OK);
    kn_safetensors_file_destroy(&file);
    assert_true(kn_safetensors_file_status(NULL) != KN_OK);
    assert_non_null(kn_safetensors_file_error(NULL));
    assert_int_equal(kn_safetensors_file_count(NULL), 0);
    assert_null(kn_safetensors_file_entry(NULL, 0, &info));
    assert_false(kn_safetensors_file_info(NULL, NULL, &info));
    assert_true(kn_safetensors_file_copy(NULL, NULL, KN_FLOAT32, NULL, 0) != KN_OK);
    assert_true(kn_safetensors_file_save(NULL, NULL, 0, message, sizeof message) != KN_OK);
    assert_true(strlen(message) > 0);
    assert_true(kn_safetensors_file_save("unwritten", NULL, 1, NULL, 0) != KN_OK);
}

static void own_operators(void **state) {
    (void)state;
    kn_operator *own = NULL;
    kn_operator_destroy(NULL);
    kn_operator_destroy(&own);
    assert_true(kn_operator_status(NULL) != KN_OK);
    assert_true(strlen(kn_operator_error(NULL)) > 0);
    kn_pointwise_params_init(NULL);
    kn_kernel_params_init(NULL);
    assert_null(kn_apply_operator(NULL, NULL, 2, NULL));
    for (int i = 0; i < 2; i++) {
        own = i ? kn_operator_create_kernel(NULL) : kn_operator_create_pointwise(NULL);
        assert_true(kn_operator_status(own) != KN_OK && strlen(kn_operator_error(own)) > 0);
        assert_true(kn_verify_operator(NULL, own, NULL, 0, NULL, NULL, NULL) != KN_OK);
        assert_true(kn_value_failed(kn_apply_operator(own, NULL, 0, NULL)));
        kn_operator_destroy(&own);
        assert_null(own);
    }
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *inputs[2] = {NULL, kn_input(graph, "x", KN_FLOAT32, "2")};
    kn_pointwise_params params = KN_POINTWISE_DEFAULTS;
    params.name = "product";
    params.value = "x * y";
    own = kn_operator_create_pointwise(&params);
    assert_true(kn_value_failed(kn_apply_operator(own, inputs, 2, NULL)));
    assert_non_null(strstr(kn_graph_error(graph), "product 'product1': input 1 is NULL"));
    assert_true(kn_value_failed(kn_apply_operator(NULL, inputs, 2, NULL)));
    assert_true(kn_value_failed(kn_apply_operator(own, inputs + 1, 1, NULL)));
    kn_graph_destroy(&graph);
    kn_operator_destroy(&own);
}

static void verifying(void **state) {
    (void)state;
    int passed = 0, failed = 0;
    kn_verify_params_init(NULL);
    assert_true(kn_verify(NULL, NULL, &passed, &failed) != KN_OK);
    assert_true(kn_verify(NULL, NULL, NULL, NULL) != KN_OK);
    assert_true(kn_verify_one(NULL, 0, NULL) != KN_OK);
    assert_true(kn_verify_operator(NULL, NULL, NULL, 1, NULL, &passed, &failed) != KN_OK);
    assert_null(kn_verify_name(-1));
    assert_null(kn_verify_name(kn_verify_count()));
}

/* What is made from a context that failed carries its error. */
static void failed_contexts(void **state) {
    (void)state;
    kn_context_params params;
    kn_context_params_init(&params);
    params.device = "no such device anywhere";
    kn_context *context = kn_context_create(&params);
    kn_status status = kn_context_status(context);
    assert_true(status != KN_OK);
    assert_non_null(strstr(kn_context_error(context), "no such device anywhere"));
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2"), *loss = kn_mean(kn_linear(x, 2, NULL), NULL, false);
    float numbers[2] = {1, 2};
    const kn_feed feed = {"x", numbers, sizeof numbers};

    kn_states *states = kn_states_create(context, 1);
    const kn_tensor_info info = {KN_FLOAT32, 1, {2}};
    assert_int_equal(kn_states_set(states, "w", &info, numbers, sizeof numbers), status);
    assert_true(strlen(kn_states_error(states)) > 0);
    kn_states_destroy(&states);

    kn_session *session = kn_session_create(context, &loss, 1, NULL);
    assert_int_equal(kn_session_status(session), status);
    assert_string_equal(kn_session_error(session), kn_context_error(context));
    assert_int_equal(kn_session_run(session, &feed, 1, NULL, 0), status);
    assert_int_equal(kn_session_wait(session), status);
    kn_session_destroy(&session);

    kn_trainer *trainer = kn_trainer_create(context, loss, NULL);
    assert_int_equal(kn_trainer_status(trainer), status);
    assert_string_equal(kn_trainer_error(trainer), kn_context_error(context));
    assert_int_equal(kn_trainer_step(trainer, 1, &feed, 1, NULL), status);
    assert_int_equal(kn_trainer_evaluate(trainer, 1, &feed, 1, &loss, NULL, 1), status);
    assert_int_equal(kn_trainer_wait(trainer), status);
    kn_trainer_destroy(&trainer);

    assert_int_equal(kn_verify(context, NULL, NULL, NULL), status);
    assert_int_equal(kn_verify_one(context, 0, NULL), status);
    size_t count = 9;
    kn_context_timeline(context, &count);
    assert_int_equal(count, 0);
    kn_context_timeline_clear(context);
    kn_graph_destroy(&graph);
    kn_context_destroy(&context);
}

int test_null(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_version),
        cmocka_unit_test(tensors),
        cmocka_unit_test(devices),
        cmocka_unit_test(contexts),
        cmocka_unit_test(opencl),
        cmocka_unit_test(graphs),
        cmocka_unit_test(graphs_with_nulls_inside),
        cmocka_unit_test(operators),
        cmocka_unit_test(states),
        cmocka_unit_test(sessions),
        cmocka_unit_test(trainers),
        cmocka_unit_test(data),
        cmocka_unit_test(fitting),
        cmocka_unit_test(models),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(event_files),
        cmocka_unit_test(npy_files),
        cmocka_unit_test(onnx_files),
        cmocka_unit_test(safetensors_files),
        cmocka_unit_test(own_operators), cmocka_unit_test(verifying),
        cmocka_unit_test(failed_contexts),
    };
    return cmocka_run_group_tests_name("nothing given", tests, NULL, NULL);
}
