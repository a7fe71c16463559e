/* The public functions: each builds the row that it is named after, passes its parameters on, and carries
 * failures. */
#include "ops/build.h"
#include "ops/shape_rule.h"
#include "ops_tests.h"

#include <math.h>
#include <string.h>

static kn_graph *graph;
static kn_value *x, *y, *labels;

static int begin(void **state) {
    graph = kn_graph_create(NULL);
    x = kn_input(graph, "x", KN_FLOAT32, "batch,4");
    y = kn_input(graph, "y", KN_FLOAT32, "batch,4");
    labels = kn_input(graph, "labels", KN_INT32, "batch");
    return kn_value_failed(x) || kn_value_failed(y) || kn_value_failed(labels);
}

static int end(void **state) {
    kn_graph_destroy(&graph);
    return 0;
}

static void is_row(kn_value *value, const char *name) {
    if (kn_value_failed(value)) fail_msg("%s: %s", name, kn_graph_error(graph));
    assert_string_equal(value->producer->op->name, name);
}

static double number(const kn_value *value, const char *attribute) {
    return kn_attribute_of(value->producer, attribute)->number;
}

static int64_t integer(const kn_value *value, const char *attribute) {
    return kn_attribute_of(value->producer, attribute)->integer;
}

TEST_WITH(one_input, begin, end) {
    is_row(kn_neg(x), "neg");
    is_row(kn_exp(x), "exp");
    is_row(kn_log(x), "log");
    is_row(kn_sqrt(x), "sqrt");
    is_row(kn_rsqrt(x), "rsqrt");
    is_row(kn_abs(x), "abs");
    is_row(kn_sin(x), "sin");
    is_row(kn_cos(x), "cos");
    is_row(kn_erf(x), "erf");
    is_row(kn_sigmoid(x), "sigmoid");
    is_row(kn_tanh(x), "tanh");
    is_row(kn_relu(x), "relu");
    is_row(kn_relu6(x), "relu6");
    is_row(kn_selu(x), "selu");
    is_row(kn_gelu(x), "gelu");
    is_row(kn_gelu_tanh(x), "gelu_tanh");
    is_row(kn_silu(x), "silu");
    is_row(kn_softplus(x), "softplus");
    is_row(kn_hard_sigmoid(x), "hard_sigmoid");
    is_row(kn_hard_swish(x), "hard_swish");
    is_row(kn_flatten(x), "flatten");
    is_row(kn_floor(x), "floor");
    is_row(kn_ceil(x), "ceil");
    is_row(kn_round(x), "round");
    is_row(kn_sign(x), "sign");
    is_row(kn_reciprocal(x), "reciprocal");
    is_row(kn_log1p(x), "log1p");
    is_row(kn_expm1(x), "expm1");
    is_row(kn_tan(x), "tan");
    is_row(kn_asin(x), "asin");
    is_row(kn_acos(x), "acos");
    is_row(kn_atan(x), "atan");
    is_row(kn_sinh(x), "sinh");
    is_row(kn_cosh(x), "cosh");
    is_row(kn_asinh(x), "asinh");
    is_row(kn_acosh(x), "acosh");
    is_row(kn_atanh(x), "atanh");
    is_row(kn_log_sigmoid(x), "log_sigmoid");
    is_row(kn_mish(x), "mish");
    is_row(kn_softsign(x), "softsign");
    is_row(kn_not(x), "not");
    is_row(kn_isnan(x), "isnan");
    is_row(kn_isinf(x), "isinf");
    is_row(kn_hard_tanh(x), "clip");
}

TEST_WITH(two_inputs, begin, end) {
    is_row(kn_add(x, y), "add");
    is_row(kn_sub(x, y), "sub");
    is_row(kn_mul(x, y), "mul");
    is_row(kn_div(x, y), "div");
    is_row(kn_pow(x, y), "pow");
    is_row(kn_min(x, y), "min");
    is_row(kn_max(x, y), "max");
    is_row(kn_equal(x, y), "equal");
    is_row(kn_not_equal(x, y), "not_equal");
    is_row(kn_less(x, y), "less");
    is_row(kn_less_equal(x, y), "less_equal");
    is_row(kn_greater(x, y), "greater");
    is_row(kn_greater_equal(x, y), "greater_equal");
    is_row(kn_mod(x, y), "mod");
    is_row(kn_fmod(x, y), "fmod");
    is_row(kn_quotient(labels, labels), "quotient");
    is_row(kn_floor_quotient(labels, labels), "floor_quotient");
    is_row(kn_atan2(x, y), "atan2");
    is_row(kn_prelu(x, y), "prelu");
    is_row(kn_and(x, y), "and");
    is_row(kn_or(x, y), "or");
    is_row(kn_xor(x, y), "xor");
    is_row(kn_bit_and(x, y), "bit_and");
    is_row(kn_bit_or(x, y), "bit_or");
    is_row(kn_bit_xor(x, y), "bit_xor");
    is_row(kn_bit_left(x, y), "bit_left");
    is_row(kn_bit_right(x, y), "bit_right");
    is_row(kn_where(kn_less(x, y), x, y), "where");
    kn_value *difference = kn_sub(x, y);
    assert_ptr_equal(difference->producer->inputs[0], x);
    assert_ptr_equal(difference->producer->inputs[1], y);
}

TEST_WITH(numbers_are_passed, begin, end) {
    kn_value *value;
    is_row(value = kn_scale(x, -2.5), "scale");
    assert_true(number(value, "factor") == -2.5);
    is_row(value = kn_shift(x, 0), "shift");
    assert_true(number(value, "summand") == 0);
    is_row(value = kn_leaky_relu(x, 0.3), "leaky_relu");
    assert_true(number(value, "slope") == 0.3);
    is_row(value = kn_elu(x, 0.3), "elu");
    assert_true(number(value, "alpha") == 0.3);
    is_row(value = kn_celu(x, 0.3), "celu");
    assert_true(number(value, "alpha") == 0.3);
    is_row(value = kn_thresholded_relu(x, 0.3), "thresholded_relu");
    assert_true(number(value, "alpha") == 0.3);
    is_row(value = kn_hard_shrink(x, 0.3), "shrink");
    assert_true(number(value, "lambd") == 0.3 && number(value, "bias") == 0);
    is_row(value = kn_soft_shrink(x, 0.3), "shrink");
    assert_true(number(value, "lambd") == 0.3 && number(value, "bias") == 0.3);
    is_row(value = kn_clip(x, -INFINITY, 3), "clip");
    assert_true(number(value, "low") == -INFINITY && number(value, "high") == 3);
    is_row(value = kn_cast(x, KN_INT16), "cast");
    assert_int_equal(value->shape.dtype, KN_INT16);
    is_row(value = kn_softmax(x, 0), "softmax");
    assert_int_equal(integer(value, "axis"), 0);
    is_row(value = kn_log_softmax(x, -1), "log_softmax");
    assert_int_equal(integer(value, "axis"), -1);
}

static void shape_is(kn_value *value, const char *row, const char *words) {
    is_row(value, row);
    assert_string_equal(kn_shape_words(graph, &value->shape), words);
}

TEST_WITH(texts_are_read, begin, end) {
    shape_is(kn_sum(x, NULL, false), "sum", "float32 ()");
    shape_is(kn_sum(x, "", true), "sum", "float32 (1,1)");
    shape_is(kn_mean(x, "-1", false), "mean", "float32 (batch)");
    shape_is(kn_reduce_max(x, " 0 , 1 ", true), "reduce_max", "float32 (1,1)");
    shape_is(kn_reduce_min(x, "0", false), "reduce_min", "float32 (4)");
    shape_is(kn_reshape(x, "2, 2, batch"), "reshape", "float32 (2,2,batch)");
    shape_is(kn_reshape(x, "-1"), "reshape", "float32 (4*batch)");
    shape_is(kn_broadcast(x, "3,batch,4"), "broadcast", "float32 (3,batch,4)");
    shape_is(kn_transpose(x, "1,0"), "transpose", "float32 (4,batch)");
    shape_is(kn_transpose(x, NULL), "transpose", "float32 (4,batch)");
    shape_is(kn_concat((kn_value *const[]){x, y, x}, 3, 1), "concat", "float32 (batch,12)");
    shape_is(kn_slice(x, 1, 1, INT64_MAX), "slice", "float32 (batch,3)");
    shape_is(kn_slice(x, -1, -3, -1), "slice", "float32 (batch,2)");
    shape_is(kn_pad(x, "0,1,0,2", 1.5), "pad", "float32 (batch,7)");
}

TEST_WITH(losses, begin, end) {
    kn_cross_entropy_params params = {.size = sizeof params, .label_smoothing = 0.1};
    kn_value *value;
    is_row(value = kn_cross_entropy(x, labels, &params), "cross_entropy");
    assert_true(number(value, "label_smoothing") == 0.1);
    is_row(value = kn_cross_entropy(x, y, NULL), "cross_entropy");
    assert_true(number(value, "label_smoothing") == 0);
    shape_is(kn_accuracy(x, labels), "accuracy", "float32 ()");
    shape_is(kn_accuracy_ignoring(x, labels, -1), "div", "float32 ()");
    shape_is(kn_mse(x, y), "mean", "float32 ()");
    shape_is(kn_binary_cross_entropy(x, y), "mean", "float32 ()");
    shape_is(value = kn_huber(x, y, 0.5), "mean", "float32 ()");
    assert_true(number(value->producer->inputs[0], "delta") == 0.5);
    shape_is(kn_l1(x, y), "mean", "float32 ()");
    shape_is(value = kn_smooth_l1(x, y, 0.25), "scale", "float32 ()");
    assert_true(number(value, "factor") == 4);
    is_row(value = kn_smooth_l1(x, y, 0), "mean");
    is_row(value->producer->inputs[0], "absolute_error");
    shape_is(kn_probability_cross_entropy(x, y), "mean", "float32 ()");
    shape_is(kn_kl_divergence(x, y), "mean", "float32 ()");
    is_row(value = kn_hinge(x, y, 0.5), "mean");
    assert_true(number(value->producer->inputs[0], "margin") == 0.5);
    shape_is(kn_cosine_similarity(x, y), "div", "float32 (batch)");
    shape_is(kn_triplet_margin(x, y, x, 1), "mean", "float32 ()");
}

/* Parameters that the operator cross_entropy lacks are composed of other operators. */
TEST_WITH(weighted_losses, begin, end) {
    kn_value *weights = kn_input(graph, "weights", KN_FLOAT32, "4"), *value;
    kn_cross_entropy_params params = {.size = sizeof params, .class_weights = weights};
    shape_is(kn_cross_entropy(x, labels, &params), "div", "float32 ()");
    shape_is(kn_cross_entropy(x, y, &params), "mean", "float32 ()");
    params = (kn_cross_entropy_params){.size = sizeof params, .has_ignore_index = true, .ignore_index = -100};
    shape_is(kn_nll(x, labels, &params), "div", "float32 ()");
    params = (kn_cross_entropy_params){.size = sizeof params, .sum = true};
    shape_is(kn_nll(x, y, &params), "sum", "float32 ()");
    is_row(value = kn_nll(x, labels, NULL), "mean");
    is_row(value->producer->inputs[0]->producer->inputs[0], "share_error");
    shape_is(kn_binary_cross_entropy_weighted(x, y, weights), "mean", "float32 ()");
}

/* By hand: the mean over samples of share * loss for one class and (1 - share) * loss for the other; with
 * class weights, divided by their sum. */
TEST_WITH(mixed_losses, begin, end) {
    enum { BATCH = 3, MANY = 4 };
    static const double rows[BATCH * MANY] = {0.5, -1, 2, 0.25, -0.5, 1.5, 0, 1, 3, -2, 0.75, -0.25};
    static const double own[BATCH] = {2, 0, 3}, others[BATCH] = {1, 0, 0}, shares[BATCH] = {0.75, 0.5, 0.125};
    static const double weights[MANY] = {1, 0.5, 2, 3};
    kn_value *other = kn_input(graph, "other", KN_INT32, "batch"),
             *share = kn_input(graph, "share", KN_FLOAT32, "batch");
    kn_value *weight = kn_input(graph, "weights", KN_FLOAT32, "4");
    for (int kind = 0; kind < 4; kind++) {
        const double smoothing = kind % 2 ? 0.25 : 0;
        const bool weighted = kind > 1;
        kn_cross_entropy_params params = {.size = sizeof params,
                                          .label_smoothing = smoothing,
                                          .other = other,
                                          .share = share,
                                          .class_weights = weighted ? weight : NULL};
        kn_value *loss = kn_cross_entropy(x, labels, &params), *result;
        kn_graph *bound;
        kn_error error = {0};
        kn_binding binding = {"batch", BATCH};
        kn_bind_request request = {.bindings = &binding, .binding_count = 1};
        is_row(loss, weighted ? "div" : "cross_entropy");
        if (kn_graph_bind(graph, &loss, 1, &request, &bound, &result, &error)) fail_msg("%s", error.text);
        const host_input inputs[] = {
            {"x", rows}, {"labels", own}, {"other", others}, {"share", shares}, {"weights", weights}};
        host_values values = host_compute(bound, inputs, 5);
        double sum = 0, counted = 0;
        for (int i = 0; i < BATCH; i++) {
            double all = 0;
            for (int c = 0; c < MANY; c++)
                all += exp(rows[i * MANY + c]);
            for (int t = 0; t < 2; t++) {
                const double part = t ? 1 - shares[i] : shares[i];
                const int class = (int)(t ? others[i] : own[i]);
                for (int c = 0; c < MANY; c++)
                    sum += part * ((c == class ? 1 - smoothing : 0) + smoothing / MANY) *
                           (weighted ? weights[c] : 1) * (log(all) - rows[i * MANY + c]);
                counted += part * (weighted ? weights[class] : 1);
            }
        }
        const double found = values.numbers[result->id][0];
        if (!(fabs(found - sum / counted) < 1e-6))
            fail_msg("kind %d: %.9g, expected %.9g", kind, found, sum / counted);
        host_release(&values);
        kn_graph_destroy(&bound);
    }
    kn_cross_entropy_params half = {.size = sizeof half, .other = other};
    assert_true(kn_value_failed(kn_cross_entropy(x, labels, &half)));
    assert_non_null(strstr(kn_graph_error(graph), "the fraction of the first"));
}

/* One state counts the steps of all dropouts; outside training nothing is dropped. */
TEST_WITH(dropout_counts_steps, begin, end) {
    kn_value *first = kn_dropout(x, 0.25), *second = kn_dropout(first, 0.5), *result;
    is_row(second, "dropout");
    assert_true(number(first, "rate") == 0.25);
    assert_ptr_equal(first->producer->inputs[1], second->producer->inputs[1]);
    assert_ptr_equal(first->producer->inputs[1], kn_step_counter(graph));
    assert_int_equal(kn_step_counter(graph)->role, KN_STATE_CONTROL);
    kn_value *drawn = kn_uniform_like(second);
    is_row(drawn, "uniform_like");
    assert_ptr_equal(drawn->producer->inputs[1], kn_step_counter(graph));
    for (int training = 0; training < 2; training++) {
        kn_graph *bound;
        kn_error error = {0};
        kn_binding binding = {"batch", 3};
        kn_bind_request request = {.bindings = &binding, .binding_count = 1, .training = training};
        if (kn_graph_bind(graph, &second, 1, &request, &bound, &result, &error)) fail_msg("%s", error.text);
        assert_int_equal(bound->node_count, training ? 2 : 0);
        kn_graph_destroy(&bound);
    }
}

TEST_WITH(recurrences, begin, end) {
    kn_value *steps = kn_input(graph, "steps", KN_FLOAT32, "batch,length,4"), *final = NULL, *cells = NULL;
    kn_recurrent_params params = {.size = sizeof params,
                                  .name = "two",
                                  .layers = 2,
                                  .bidirectional = true,
                                  .lengths = labels,
                                  .start = kn_input(graph, "start", KN_FLOAT32, "4,batch,5"),
                                  .final = &final,
                                  .final_cells = &cells};
    shape_is(kn_lstm(steps, 5, &params), "concat", "float32 (batch,length,10)");
    shape_is(final, "concat", "float32 (4,batch,5)");
    shape_is(cells, "concat", "float32 (4,batch,5)");
    assert_non_null(kn_graph_find(graph, "two.bias_hh_l1_reverse"));
    params = (kn_recurrent_params){.size = sizeof params, .name = "plain", .relu = true};
    is_row(kn_rnn(steps, 5, &params), "rnn");
    assert_int_equal(integer(kn_graph_find(graph, "plain"), "relu"), 1);
    params = (kn_recurrent_params){.size = sizeof params, .name = "again", .share = "plain", .final = &final};
    kn_value *again = kn_rnn(steps, 5, &params);
    is_row(again, "rnn");
    assert_ptr_equal(again->producer->inputs[1], kn_graph_find(graph, "plain.weight_hh"));
    assert_null(kn_graph_find(graph, "again.weight_hh"));
    shape_is(final, "reshape", "float32 (1,batch,5)");
    params = (kn_recurrent_params){.size = sizeof params, .name = "end", .last = true, .stateful = true};
    shape_is(kn_gru(steps, 5, &params), "gru", "float32 (batch,5)");
    assert_non_null(kn_graph_find(graph, "end.state")->assign);
}

/* Each in a separate graph, since the first failure is permanent. */
TEST(recurrent_mistakes) {
    for (int i = 0; i < 7; i++) {
        kn_graph *own = kn_graph_create(NULL);
        kn_value *final = NULL;
        kn_value *steps = kn_input(own, "steps", KN_FLOAT32, i == 0 ? "batch,4" : "batch,length,4");
        kn_recurrent_params params = {.size = sizeof params, .final = &final};
        if (i == 1) params.layers = -1;
        if (i == 2) params.layers = 33, params.bidirectional = true;
        if (i == 3) params.start = kn_input(own, "start", KN_FLOAT32, "2,batch,5");
        if (i == 4) params.start = kn_input(own, "start", KN_FLOAT32, "1,batch,5"), params.stateful = true;
        if (i == 5) params.share = "missing";
        if (i == 6) params.lengths = kn_input(own, "lengths", KN_FLOAT32, "batch");
        assert_true(kn_value_failed(kn_lstm(steps, 5, &params)) && kn_value_failed(final));
        assert_int_equal(kn_graph_status(own), i == 5                       ? KN_ERROR_NOT_FOUND
                                               : i == 1 || i == 2 || i == 4 ? KN_ERROR_ARGUMENT
                                                                            : KN_ERROR_SHAPE);
        kn_graph_destroy(&own);
    }
}

/* Drops about the given fraction, differently for each step and node, and scales the rest. */
TEST(dropout_drops) {
    kn_graph *own = kn_graph_create(NULL), *bound;
    kn_value *input = kn_input(own, "x", KN_FLOAT32, "4000"), *steps = kn_input(own, "steps", KN_UINT32, "");
    kn_value *pair[2] = {input, steps}, *outputs[2], *results[2];
    outputs[0] = kn_apply(own, "dropout", pair, 2, "rate=0.25");
    outputs[1] = kn_apply(own, "dropout", pair, 2, "rate=0.25");
    kn_error error = {0};
    kn_bind_request request = {.training = true, .seed = 5};
    if (kn_graph_bind(own, outputs, 2, &request, &bound, results, &error)) fail_msg("%s", error.text);
    static double ones[4000], kept[3][4000];
    for (int i = 0; i < 4000; i++)
        ones[i] = 1;
    for (int step = 0; step < 2; step++) {
        double counter = step;
        host_input inputs[2] = {{"x", ones}, {"steps", &counter}};
        host_values values = host_compute(bound, inputs, 2);
        memcpy(kept[step], values.numbers[results[0]->id], sizeof kept[0]);
        memcpy(kept[2], values.numbers[results[1]->id], sizeof kept[0]);
        host_release(&values);
    }
    for (int run = 0; run < 3; run++) {
        int zeros = 0, same = 0;
        for (int i = 0; i < 4000; i++) {
            assert_true(kept[run][i] == 0 || fabs(kept[run][i] - 4.0 / 3) < 1e-12);
            zeros += kept[run][i] == 0;
            same += (kept[run][i] == 0) == (kept[(run + 1) % 3][i] == 0);
        }
        assert_in_range(zeros, 880, 1120); /* 1000, 4.4 standard deviations */
        assert_in_range(same, 2360, 2640); /* 2500 */
    }
    kn_graph_destroy(&bound);
    kn_graph_destroy(&own);
}

/* A bool mask hides keys where it is false; lengths are applied before it. */
TEST_WITH(attention_takes_limits, begin, end) {
    kn_value *q = kn_input(graph, "q", KN_FLOAT32, "batch,2,8"),
             *k = kn_input(graph, "k", KN_FLOAT32, "batch,3,4");
    kn_value *mask = kn_input(graph, "mask", KN_BOOL, "1,1,2,3");
    kn_attention_params params = {.size = sizeof params,
                                  .heads = 4,
                                  .key_heads = 2,
                                  .causal = true,
                                  .last = true,
                                  .lengths = labels,
                                  .mask = mask};
    kn_value *value = kn_attention(q, k, k, &params), *result;
    is_row(value, "attention");
    assert_int_equal(integer(value, "key_heads"), 2);
    assert_int_equal(integer(value, "last"), 1);
    assert_int_equal(value->producer->input_count, 5);
    assert_ptr_equal(value->producer->inputs[3], labels);
    kn_graph *bound;
    kn_error error = {0};
    kn_binding binding = {"batch", 1};
    kn_bind_request request = {.bindings = &binding, .binding_count = 1};
    if (kn_graph_bind(graph, &value, 1, &request, &bound, &result, &error)) fail_msg("%s", error.text);
    double queries[16] = {0}, keys[12], length = 3, shown[6] = {0, 1, 0, 0, 0, 0};
    for (int i = 0; i < 12; i++)
        keys[i] = i;
    host_input inputs[4] = {{"q", queries}, {"k", keys}, {"labels", &length}, {"mask", shown}};
    host_values values = host_compute(bound, inputs, 4);
    const double *numbers = values.numbers[result->id];
    for (int i = 0; i < 16; i++) /* two heads share one key head; the second query sees no keys */
        assert_true(numbers[i] == (i < 8 ? 4 + i / 4 * 2 + i % 2 : 0));
    host_release(&values);
    kn_graph_destroy(&bound);
}

/* Keys of more samples than queries are an error, unless they are the slots of a cache. */
TEST(attention_reads_slots_on_request) {
    kn_attention_params params = {.size = sizeof params};
    for (int slots = 0; slots < 2; slots++) {
        kn_graph *own = kn_graph_create(NULL);
        kn_value *q = kn_input(own, "q", KN_FLOAT32, "2,1,4"), *k = kn_input(own, "k", KN_FLOAT32, "3,5,4");
        params.slots = slots;
        kn_attention(q, k, k, &params);
        assert_int_equal(kn_graph_status(own), slots ? KN_OK : KN_ERROR_SHAPE);
        kn_graph_destroy(&own);
    }
}

enum { DROPPED_KEYS = 4000 };

/* Equal scores on ones: the result is the fraction that is kept, and the gradient of v shows which elements
 * were kept. */
TEST(attention_drops) {
    static double ones[DROPPED_KEYS], query[1];
    for (int i = 0; i < DROPPED_KEYS; i++)
        ones[i] = 1;
    kn_graph *own = kn_graph_create(NULL), *bound;
    kn_value *q = kn_input(own, "q", KN_FLOAT32, "1,1,1"), *k = kn_input(own, "k", KN_FLOAT32, "1,4000,1");
    kn_attention_params params = {.size = sizeof params, .dropout = 0.25};
    kn_value *value = kn_attention(q, k, k, &params), *result;
    is_row(value, "attention_dropout");
    assert_true(number(value, "rate") == 0.25);
    assert_ptr_equal(value->producer->inputs[3], kn_step_counter(own));
    kn_error error = {0};
    kn_bind_request request = {.training = false, .seed = 5};
    if (kn_graph_bind(own, &value, 1, &request, &bound, &result, &error)) fail_msg("%s", error.text);
    is_row(result, "attention");
    assert_int_equal(result->producer->input_count, 3);
    kn_graph_destroy(&bound);
    request.training = true;
    if (kn_graph_bind(own, &value, 1, &request, &bound, &result, &error)) fail_msg("%s", error.text);
    kn_value *loss = kn_sum(result, NULL, false), *by = kn_graph_find(bound, "k"), *gradient;
    if (kn_graph_gradient(bound, loss, &by, 1, &gradient, &error)) fail_msg("%s", error.text);
    static bool kept[2][DROPPED_KEYS];
    for (int step = 0; step < 2; step++) {
        double counter = step, sum = 0;
        int zeros = 0;
        host_input inputs[3] = {{"q", query}, {"k", ones}, {KN_STEP_COUNTER, &counter}};
        host_values values = host_compute(bound, inputs, 3);
        const double *slopes = values.numbers[gradient->id], mean = *values.numbers[result->id];
        for (int i = 0; i < DROPPED_KEYS; i++) {
            zeros += slopes[i] == 0;
            sum += slopes[i];
            kept[step][i] = slopes[i] != 0;
            assert_true(slopes[i] == 0 || fabs(slopes[i] * DROPPED_KEYS - 4.0 / 3) < 1e-9);
        }
        assert_in_range(zeros, 880, 1120); /* 1000, 4.4 standard deviations */
        assert_true(fabs(sum - mean) < 1e-9);
        host_release(&values);
    }
    int same = 0;
    for (int i = 0; i < DROPPED_KEYS; i++)
        same += kept[0][i] == kept[1][i];
    assert_in_range(same, 2360, 2640); /* 2500 */
    kn_graph_destroy(&bound);
    kn_graph_destroy(&own);
}

/* Each in a separate graph, since the first failure is permanent. */
TEST(mistakes) {
    for (int i = 0; i < 24; i++) {
        kn_graph *own = kn_graph_create(NULL);
        kn_value *a = kn_input(own, "a", KN_FLOAT32, "3,1"), *b = kn_input(own, "b", KN_FLOAT32, "3"),
                 *value = NULL;
        kn_status expected = KN_ERROR_SHAPE;
        switch (i) {
        case 0:
            value = kn_mse(a, b);
            break;
        case 1:
            value = kn_binary_cross_entropy(a, b);
            break;
        case 2:
            value = kn_huber(a, b, 1);
            break;
        case 3:
            value = kn_sum(a, "0,x", false), expected = KN_ERROR_ARGUMENT;
            break;
        case 4:
            value = kn_sum(a, "0,", false), expected = KN_ERROR_ARGUMENT;
            break;
        case 5:
            value = kn_sum(a, "0 1", false), expected = KN_ERROR_ARGUMENT;
            break;
        case 6:
            value = kn_transpose(a, "0,1,2,3,4,5,6,7,8"), expected = KN_ERROR_ARGUMENT;
            break;
        case 7:
            value = kn_reshape(a, "3,,1"), expected = KN_ERROR_FORMAT;
            break;
        case 8:
            value = kn_cast(a, (kn_dtype)99), expected = KN_ERROR_DTYPE;
            break;
        case 9:
            value = kn_add(a, NULL), expected = KN_ERROR_ARGUMENT;
            break;
        case 10:
            value = kn_add(NULL, a), expected = KN_ERROR_ARGUMENT;
            break;
        case 11:
            value = kn_concat((kn_value *const[]){a, NULL}, 2, 0), expected = KN_ERROR_ARGUMENT;
            break;
        case 12:
            value = kn_dropout(a, -0.5), expected = KN_ERROR_ARGUMENT;
            break;
        case 13:
            value = kn_huber(a, a, -1), expected = KN_ERROR_ARGUMENT;
            break;
        case 14:
            value = kn_l1(a, b);
            break;
        case 15:
            value = kn_nll(a, b, NULL);
            break;
        case 16:
            value = kn_kl_divergence(a, b);
            break;
        case 17:
            value = kn_nll(
                a, a,
                &(kn_cross_entropy_params){.size = sizeof(kn_cross_entropy_params), .class_weights = b});
            break;
        case 18:
            value = kn_cross_entropy(a, a,
                                     &(kn_cross_entropy_params){.size = sizeof(kn_cross_entropy_params),
                                                                .sum = true,
                                                                .label_smoothing = 2}),
            expected = KN_ERROR_ARGUMENT;
            break;
        case 19:
            value = kn_binary_cross_entropy_weighted(b, b, a);
            break;
        case 20:
            value = kn_probability_cross_entropy(a, b);
            break;
        case 21:
            value = kn_cosine_embedding(a, a, a, 0);
            break;
        case 22:
            value = kn_triplet_margin(a, a, b, 1);
            break;
        case 23:
            value = kn_margin_ranking(a, b, a, 1);
            break;
        }
        if (!kn_value_failed(value)) fail_msg("mistake %d was accepted", i);
        if (kn_graph_status(own) != expected) fail_msg("mistake %d: %s", i, kn_graph_error(own));
        assert_true(strlen(kn_graph_error(own)) > 20);
        /* Later calls fail too, and the first message stays. */
        char message[200];
        strncpy(message, kn_graph_error(own), sizeof message - 1);
        message[sizeof message - 1] = 0;
        kn_value *later[2] = {value, a};
        assert_true(kn_value_failed(kn_softmax(kn_relu(kn_clip(value, 0, 1)), 0)));
        assert_true(kn_value_failed(kn_mse(value, a)));
        assert_true(kn_value_failed(kn_cross_entropy(value, b, NULL)));
        assert_true(kn_value_failed(kn_concat(later, 2, 0)));
        assert_true(kn_value_failed(kn_pad(kn_slice(kn_transpose(value, NULL), 0, 0, 1), "0,0,0,0", 0)));
        assert_true(
            kn_value_failed(kn_dropout(kn_reshape(kn_scale(kn_cast(value, KN_FLOAT32), 1), "3"), 0.5)));
        assert_int_equal(strncmp(kn_graph_error(own), message, sizeof message - 1), 0);
        kn_graph_destroy(&own);
    }
    /* Without any value there is no graph to carry the error. */
    assert_null(kn_add(NULL, NULL));
    assert_null(kn_relu(NULL));
    assert_null(kn_concat(NULL, 0, 0));
    assert_true(kn_value_failed(kn_mse(NULL, NULL)));
    assert_true(kn_value_failed(kn_cross_entropy(NULL, NULL, NULL)));
}

static kn_status misspelt_rule(kn_shape_call *call) {
    call->outputs[0] = call->inputs[0]->shape;
    return kn_shape_attribute(call, "widht")->integer < 0 ? KN_ERROR_SHAPE : KN_OK;
}

/* An attribute that a row or a builder misspells is an error, not 0. */
TEST_WITH(misspelt_attributes, begin, end) {
    static const kn_attribute attributes[] = {KN_INT("width", 3, ""), KN_INT("stride", 1, "")};
    const kn_operator row = {.name = "odd",
                             .min_inputs = 1,
                             .max_inputs = 1,
                             .shape = misspelt_rule,
                             .attributes = attributes,
                             .attribute_count = 2};
    kn_settings settings;
    assert_true(kn_value_failed(kn_build1(&row, x)));
    if (!strstr(kn_graph_error(graph), "no attribute 'widht'; it has 'width', 'stride'"))
        fail_msg("%s", kn_graph_error(graph));
    kn_graph *other = kn_graph_create(NULL);
    kn_value *in = kn_input(other, "x", KN_FLOAT32, "batch,4");
    kn_settings_init(&settings, other, kn_operator_find("leaky_relu"));
    kn_settings_float(&settings, "slop", 0.1);
    assert_true(kn_value_failed(kn_build(kn_operator_find("leaky_relu"), &in, 1, &settings)));
    if (!strstr(kn_graph_error(other), "leaky_relu: no attribute 'slop'; it has 'slope'"))
        fail_msg("%s", kn_graph_error(other));
    kn_graph_destroy(&other);
}

TEST_FILE(test_builders, NULL, NULL)
