/* What the tests of running plans share. */
#include "run_tests.h"

#include <string.h>

void session_good(const kn_session *session, kn_status status) {
    if (status != KN_OK) fail_msg("%s: %s", kn_status_name(status), kn_session_error(session));
    assert_int_equal(kn_session_status(session), KN_OK);
}

void states_good(const kn_states *states, kn_status status) {
    if (status != KN_OK) fail_msg("%s: %s", kn_status_name(status), kn_states_error(states));
}

void session_bad(const kn_session *session, kn_status expected, kn_status status, ...) {
    const char *text = kn_session_error(session);
    if (status != expected)
        fail_msg("%s instead of %s: %s", kn_status_name(status), kn_status_name(expected), text);
    assert_int_equal(kn_session_status(session), expected);
    va_list words;
    va_start(words, status);
    for (const char *word; (word = va_arg(words, const char *)) != NULL;)
        if (!strstr(text, word)) fail_msg("'%s' is missing in: %s", word, text);
    va_end(words);
}

small_net small_net_make(void) {
    small_net net = {.graph = kn_graph_create(NULL)};
    assert_non_null(net.graph);
    net.x = kn_input(net.graph, "x", KN_FLOAT32, "batch,3");
    net.w = kn_parameter(net.graph, "w", KN_FLOAT32, "3,2", NULL);
    net.b = kn_parameter(net.graph, "b", KN_FLOAT32, "2", NULL);
    net.y = kn_output(kn_relu(kn_add(kn_matmul(net.x, net.w, false, false), net.b)), "y");
    if (kn_graph_status(net.graph)) fail_msg("%s", kn_graph_error(net.graph));
    return net;
}

void small_net_check(kn_states *states, const float *x, size_t rows, const float *y) {
    float w[6], b[2];
    states_good(states, kn_states_get(states, "w", w, sizeof w));
    states_good(states, kn_states_get(states, "b", b, sizeof b));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 2; j++) {
            double sum = b[j];
            for (size_t k = 0; k < 3; k++)
                sum += (double)x[3 * i + k] * (double)w[2 * k + j];
            if (sum < 0) sum = 0;
            double difference = sum - (double)y[2 * i + j];
            if (!(difference <= 1e-5 && difference >= -1e-5))
                fail_msg("y[%zu][%zu] is %g, expected %g", i, j, (double)y[2 * i + j], sum);
        }
}

void fill_numbers(float *target, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++)
        target[i] = 2 * kn_random_uniform(seed, i) - 1;
}

adder adder_make(const char *shape) {
    adder made = {.graph = kn_graph_create(NULL)};
    assert_non_null(made.graph);
    kn_initializer zero = {KN_INITIALIZER_FILL, 0};
    kn_value *x = kn_input(made.graph, "x", KN_FLOAT32, shape);
    made.sum = kn_parameter(made.graph, "sum", KN_FLOAT32, shape, &zero);
    made.total = kn_output(kn_add(made.sum, x), "total");
    if (kn_graph_status(made.graph)) fail_msg("%s", kn_graph_error(made.graph));
    return made;
}

adder slow_adder_make(bool simulated) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_initializer zero = {KN_INITIALIZER_FILL, 0};
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, simulated ? "16,16" : "256,256", NULL), *heavy = w;
    for (int i = 0; i < (simulated ? 1 : 6); i++)
        heavy = kn_matmul(heavy, w, false, false);
    kn_value *nothing = kn_scale(kn_sum(heavy, NULL, false), 0);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "256");
    kn_value *sum = kn_parameter(graph, "sum", KN_FLOAT32, "256", &zero);
    return (adder){graph, sum, kn_output(kn_add(sum, kn_add(x, nothing)), "total")};
}

kn_status adder_extend(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    for (size_t i = 0; i < bound->value_count; i++)
        if (bound->values[i]->kind == KN_VALUE_STATE && !strcmp(bound->values[i]->name, "sum"))
            kn_assign(bound, bound->values[i], values[0]);
    return KN_OK;
}

kn_session *adder_session(kn_context *context, adder *made) {
    kn_session_request request = {
        .context = context, .values = &made->total, .count = 1, .extend = adder_extend};
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = true;
    request.params = &params;
    kn_session *session = kn_session_open(&request);
    assert_non_null(session);
    session_good(session, kn_session_status(session));
    kn_graph_destroy(&made->graph);
    return session;
}
