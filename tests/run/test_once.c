/* Steps that only depend on states: they run when these have changed, and their results are cached. */
#include "run_tests.h"

#include <math.h>
#include <string.h>

enum { WIDE = 600, MAX_ROWS = 8 };

/* y = (x exp(u)) exp(v) * s: x is (batch,3), u (3,600), v (600,2), s a number. The exponentials and their
 * products depend only on states. */
typedef struct deep_net {
    kn_graph *graph;
    kn_value *u, *y, *grown; /* grown = exp(u) */
} deep_net;

static deep_net deep_net_make(void) {
    deep_net net = {.graph = kn_graph_create(NULL)};
    assert_non_null(net.graph);
    kn_initializer one = {KN_INITIALIZER_FILL, 1};
    kn_value *x = kn_input(net.graph, "x", KN_FLOAT32, "batch,3");
    net.u = kn_parameter(net.graph, "u", KN_FLOAT32, "3,600", NULL);
    kn_value *v = kn_parameter(net.graph, "v", KN_FLOAT32, "600,2", NULL);
    kn_value *s = kn_parameter(net.graph, "s", KN_FLOAT32, "", &one);
    net.grown = kn_name(kn_exp(net.u), "grown");
    kn_value *hidden = kn_matmul(x, net.grown, false, false);
    net.y = kn_output(kn_mul(kn_matmul(hidden, kn_exp(v), false, false), s), "y");
    if (kn_graph_status(net.graph)) fail_msg("%s", kn_graph_error(net.graph));
    return net;
}

static kn_session *deep_session(kn_context *context, kn_states *states, uint64_t memory_bytes) {
    deep_net net = deep_net_make();
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    params.memory_bytes = memory_bytes;
    kn_session *session = kn_session_create(context, &net.y, 1, &params);
    kn_graph_destroy(&net.graph);
    session_good(session, kn_session_status(session));
    return session;
}

static void deep_net_check(kn_states *states, const float *x, size_t rows, const float *y) {
    static float u[3 * WIDE], v[2 * WIDE];
    float s;
    states_good(states, kn_states_get(states, "u", u, sizeof u));
    states_good(states, kn_states_get(states, "v", v, sizeof v));
    states_good(states, kn_states_get(states, "s", &s, sizeof s));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 2; j++) {
            double sum = 0, size = 1;
            for (size_t k = 0; k < WIDE; k++) {
                double hidden = 0;
                for (size_t c = 0; c < 3; c++)
                    hidden += (double)x[3 * i + c] * exp((double)u[WIDE * c + k]);
                sum += hidden * exp((double)v[2 * k + j]);
                size += fabs(hidden * exp((double)v[2 * k + j]));
            }
            double difference = sum * (double)s - (double)y[2 * i + j];
            if (!(fabs(difference) <= 1e-5 * size))
                fail_msg("y[%zu][%zu] is %g, expected %g", i, j, (double)y[2 * i + j], sum * (double)s);
        }
}

/* Runs and checks; returns how many kernels were launched. */
static int run_rows(kn_session *session, size_t rows) {
    float x[3 * MAX_ROWS], y[2 * MAX_ROWS];
    fill_numbers(x, 3 * rows, rows);
    memset(y, 0xFF, sizeof y);
    kn_feed feed = {"x", x, 3 * rows * sizeof *x};
    kn_fetch fetch = {"y", y, 2 * rows * sizeof *y};
    session_good(session, kn_session_compile(session, &feed, 1));
    int before = wrapped_calls.launches;
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    int launches = wrapped_calls.launches - before;
    deep_net_check(kn_session_states(session), x, rows, y);
    return launches;
}

static kn_plan_info plan_of(kn_session *session) {
    kn_plan_info info = {.size = sizeof info};
    session_good(session, kn_session_plan(session, &info));
    return info;
}

TEST(the_second_run_leaves_out_what_has_not_changed) {
    kn_session *session = deep_session(*state, NULL, 0);
    int first = run_rows(session, 4), second = run_rows(session, 4);
    assert_int_equal(first, plan_of(session).steps);
    assert_in_range(second, 2, first - 2);
    wrapped_reset();
    assert_int_equal(run_rows(session, 4), second);
    assert_int_equal(wrapped_calls.memory, 0);
    assert_int_equal(wrapped_calls.buffers + wrapped_calls.slices + wrapped_calls.kernels, 0);
    kn_session_destroy(&session);
}

/* A product of two states, as a benchmark runs it. */
TEST(nothing_is_kept_where_that_is_asked_for) {
    deep_net net = deep_net_make();
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = "matmul=tiled,invariant=recompute";
    kn_session *session = kn_session_create(*state, &net.y, 1, &params);
    kn_graph_destroy(&net.graph);
    session_good(session, kn_session_status(session));
    int first = run_rows(session, 4);
    assert_int_equal(run_rows(session, 4), first);
    assert_int_equal(first, plan_of(session).steps);
    assert_int_equal(plan_of(session).kept_bytes, 0);
    kn_session_destroy(&session);
}

TEST(the_plan_tells_what_is_kept) {
    kn_session *session = deep_session(*state, NULL, 0);
    session_good(session, kn_session_bind(session, "batch", 4));
    session_good(session, kn_session_compile(session, NULL, 0));
    kn_plan_info info = plan_of(session);
    /* What the products read: at least both exponentials, plain or packed. */
    assert_true(info.kept_bytes >= (3 + 2) * WIDE * sizeof(float));
    assert_true(info.scratch_bytes >= info.kept_bytes && info.peak_bytes > info.scratch_bytes);
    char *text = kn_session_plan_text(session);
    assert_non_null(text);
    assert_non_null(strstr(text, ", once\n"));
    assert_non_null(strstr(text, "\n  kept "));
    kn_session_free_text(session, text);
    kn_session_destroy(&session);
}

TEST(a_parameter_that_is_set_counts) {
    kn_session *session = deep_session(*state, NULL, 0);
    kn_states *states = kn_session_states(session);
    int first = run_rows(session, 4), less = run_rows(session, 4);
    assert_true(less < first);
    static float numbers[3 * WIDE];
    fill_numbers(numbers, 3 * WIDE, 77);
    states_good(states, kn_states_set(states, "u", NULL, numbers, sizeof numbers));
    assert_int_equal(run_rows(session, 4), first);
    assert_int_equal(run_rows(session, 4), less);
    states_good(states, kn_states_set(states, "v", NULL, numbers, 2 * WIDE * sizeof *numbers));
    assert_int_equal(run_rows(session, 4), first);
    /* No cached result depends on s, whichever way it is set. */
    float half = 0.5f;
    states_good(states, kn_states_set(states, "s", NULL, &half, sizeof half));
    assert_int_equal(run_rows(session, 4), less);
    session_good(session, kn_session_set_scalar(session, "s", 3));
    assert_int_equal(run_rows(session, 4), less);
    kn_session_destroy(&session);
}

TEST(bindings_in_turn_disturb_nothing) {
    kn_session *session = deep_session(*state, NULL, 0);
    static const size_t rows[] = {4, 1, 4, 8, 1, 1, 4, 4};
    int launches[KN_COUNT_OF(rows)];
    for (size_t i = 0; i < KN_COUNT_OF(rows); i++)
        launches[i] = run_rows(session, rows[i]);
    /* Bindings share memory, so results are reused only if the previous run had the same binding. */
    assert_int_equal(launches[2], launches[0]);
    assert_int_equal(launches[6], launches[0]);
    assert_true(launches[5] < launches[4] && launches[7] < launches[6]);
    kn_session_destroy(&session);
}

/* Writes u + 1 to u, as an update would. */
static kn_status grow_u(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    kn_value *u = kn_graph_find(bound, "u");
    kn_assign(bound, u, kn_shift(u, 0.125));
    return KN_OK;
}

TEST(another_session_that_writes_states_counts) {
    kn_context *context = *state;
    kn_states *states = kn_states_create(context, 5);
    kn_session *evaluator = deep_session(context, states, 0);
    deep_net net = deep_net_make();
    kn_session_request request = {.context = context, .values = &net.y, .count = 1, .extend = grow_u};
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    request.params = &params;
    kn_session *trainer = kn_session_open(&request);
    kn_graph_destroy(&net.graph);
    session_good(trainer, kn_session_status(trainer));
    int first = run_rows(evaluator, 4), less = run_rows(evaluator, 4);
    assert_true(less < first);
    float x[12], y[8];
    fill_numbers(x, 12, 3);
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"y", y, sizeof y};
    int training[3];
    for (int i = 0; i < 3; i++) {
        int before = wrapped_calls.launches;
        session_good(trainer, kn_session_run(trainer, &feed, 1, &fetch, 1));
        training[i] = wrapped_calls.launches - before;
        if (i == 1) continue; /* two updates between two evaluations */
        assert_int_equal(run_rows(evaluator, 4), first);
        assert_int_equal(run_rows(evaluator, 4), less);
    }
    /* Results that depend on states written in the same run are computed in each run; all other results are
     * cached. */
    assert_true(training[1] == training[2] && training[1] < training[0]);
    kn_session_destroy(&trainer);
    kn_session_destroy(&evaluator);
    kn_states_destroy(&states);
}

TEST(a_budget_may_leave_nothing_to_keep_with) {
    kn_context *context = *state;
    kn_session *session = deep_session(context, NULL, 0);
    session_good(session, kn_session_bind(session, "batch", 1));
    session_good(session, kn_session_compile(session, NULL, 0));
    kn_plan_info roomy = plan_of(session);
    kn_session_destroy(&session);
    session = deep_session(context, NULL, roomy.peak_bytes);
    run_rows(session, 1);
    assert_int_equal(plan_of(session).kept_bytes, roomy.kept_bytes);
    kn_session_destroy(&session);
    session = deep_session(context, NULL, roomy.peak_bytes - 1);
    int first = run_rows(session, 1);
    kn_plan_info tight = plan_of(session);
    assert_int_equal(tight.kept_bytes, 0);
    assert_true(tight.peak_bytes < roomy.peak_bytes);
    assert_int_equal(run_rows(session, 1), first);
    kn_session_destroy(&session);
}

TEST(what_is_fetched_is_kept) {
    deep_net net = deep_net_make();
    kn_session *session = kn_session_create(*state, &net.grown, 1, NULL);
    kn_graph_destroy(&net.graph);
    static float u[3 * WIDE], got[3 * WIDE];
    kn_fetch fetch = {"grown", got, sizeof got};
    kn_states *states = kn_session_states(session);
    for (int round = 0; round < 4; round++) {
        fill_numbers(u, 3 * WIDE, (uint64_t)round / 2);
        if (round % 2 == 0 && round) states_good(states, kn_states_set(states, "u", NULL, u, sizeof u));
        memset(got, 0, sizeof got);
        session_good(session, kn_session_run(session, NULL, 0, &fetch, 1));
        states_good(states, kn_states_get(states, "u", u, sizeof u));
        for (int i = 0; i < 3 * WIDE; i++)
            assert_true(fabs((double)got[i] - exp((double)u[i])) <= 1e-5 * exp((double)u[i]));
    }
    kn_session_destroy(&session);
}

TEST(a_run_that_fails_is_not_trusted) {
    kn_session *session = deep_session(*state, NULL, 0);
    int first = run_rows(session, 4);
    assert_true(run_rows(session, 4) < first);
    static float numbers[3 * WIDE];
    fill_numbers(numbers, 3 * WIDE, 78);
    kn_states *states = kn_session_states(session);
    states_good(states, kn_states_set(states, "u", NULL, numbers, sizeof numbers));
    float x[12] = {0};
    kn_feed feed = {"x", x, sizeof x};
    /* Some steps are queued before one fails. */
    wrapped_reset();
    wrapped_calls.fail_at = first + 1;
    assert_int_not_equal(kn_session_run(session, &feed, 1, NULL, 0), KN_OK);
    wrapped_reset();
    assert_int_equal(run_rows(session, 4), first);
    kn_session_destroy(&session);
}

TEST_FILE(test_once, device_setup, device_teardown)
