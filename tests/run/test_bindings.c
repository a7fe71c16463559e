/* Symbols bound by feeds and explicitly, and the plans kept for their numbers. */
#include "run_tests.h"

#include <stdio.h>
#include <string.h>

/* x is (batch,length), y is (length), z is (batch + 1): sum = x + y, last = z. */
static kn_session *two_symbols(kn_context *context) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,length");
    kn_value *y = kn_input(graph, "y", KN_FLOAT32, "length");
    kn_value *z = kn_input(graph, "z", KN_FLOAT32, "batch+1");
    kn_value *values[] = {kn_name(kn_add(x, y), "sum"), kn_name(kn_neg(z), "negative")};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session *session = kn_session_create(context, values, 2, NULL);
    kn_graph_destroy(&graph);
    return session;
}

TEST(inputs_are_consulted_in_turn) {
    kn_session *session = two_symbols(*state);
    float x[12], y[4], z[4], sum[12], negative[4];
    fill_numbers(x, 12, 1);
    fill_numbers(y, 4, 2);
    fill_numbers(z, 4, 3);
    /* The shape of x leaves two symbols open; y, or z, then determines the other one. */
    kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}, {"z", z, sizeof z}};
    kn_fetch fetches[] = {{"sum", sum, sizeof sum}, {"negative", negative, sizeof negative}};
    session_good(session, kn_session_run(session, feeds, 3, fetches, 2));
    for (int i = 0; i < 12; i++)
        assert_true(sum[i] == x[i] + y[i % 4]);
    for (int i = 0; i < 4; i++)
        assert_true(negative[i] == -z[i]);
    /* From two of them. */
    kn_feed without_y[] = {{"x", x, sizeof x}, {"z", z, sizeof z}};
    session_good(session, kn_session_compile(session, without_y, 2));
    kn_tensor_info info;
    session_good(session, kn_session_info(session, "sum", &info));
    assert_true(info.shape[0] == 3 && info.shape[1] == 4);
    kn_session_destroy(&session);
}

TEST(contradictions_name_input_and_bytes) {
    kn_session *session = two_symbols(*state);
    float data[64] = {0};
    kn_feed short_z[] = {{"x", data, 48}, {"y", data, 16}, {"z", data, 12}};
    session_bad(session, KN_ERROR_SHAPE, kn_session_compile(session, short_z, 3), "'x'", "(batch,length)",
                "batch = 2", "32", "48", NULL);
    kn_feed long_z[] = {{"y", data, 16}, {"x", data, 48}, {"z", data, 20}};
    session_good(session, kn_session_bind(session, "batch", 3));
    session_bad(session, KN_ERROR_SHAPE, kn_session_compile(session, long_z, 3), "'z'", "(batch+1)", "16",
                "20", "batch = 3", NULL);
    kn_session_destroy(&session);
    session = two_symbols(*state);
    kn_feed odd_x[] = {{"x", data, 52}, {"y", data, 16}, {"z", data, 16}};
    session_bad(session, KN_ERROR_SHAPE, kn_session_compile(session, odd_x, 3), "'x'", NULL);
    kn_feed torn[] = {{"x", data, 48}, {"y", data, 15}};
    session_bad(session, KN_ERROR_SHAPE, kn_session_compile(session, torn, 2), "'y'", "15", "float32", NULL);
    kn_feed open[] = {{"x", data, 48}};
    session_bad(session, KN_ERROR_SHAPE, kn_session_compile(session, open, 1), "'x'", NULL);
    kn_feed none[] = {{"z", data, 0}};
    session_bad(session, KN_ERROR_SHAPE, kn_session_compile(session, none, 1), "'z'", NULL);
    session_good(session, kn_session_bind(session, "length", 5));
    kn_feed bound[] = {{"y", data, 16}};
    session_bad(session, KN_ERROR_SHAPE, kn_session_compile(session, bound, 1), "'y'", "length = 5", "20",
                "16", NULL);
    kn_feed rest[] = {{"x", data, 40}};
    session_good(session, kn_session_compile(session, rest, 1));
    kn_tensor_info info;
    session_good(session, kn_session_info(session, "sum", &info));
    assert_true(info.shape[0] == 2 && info.shape[1] == 5);
    kn_session_destroy(&session);
}

TEST(what_nothing_tells_must_be_bound) {
    kn_session *session = two_symbols(*state);
    int failures = 0;
    failures += kn_session_compile(session, NULL, 0) != KN_OK;
    assert_int_equal(failures, 1);
    assert_true(strstr(kn_session_error(session), "batch") || strstr(kn_session_error(session), "length"));
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_bind(session, "bach", 2), "'bach'", "'batch'", NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_bind(session, "batch", -1), "'batch'", NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_bind(session, NULL, 1), NULL);
    session_good(session, kn_session_bind(session, "batch", 2));
    session_good(session, kn_session_bind(session, "length", 3));
    session_good(session, kn_session_compile(session, NULL, 0));
    kn_session_destroy(&session);
}

TEST(another_number_gives_another_plan) {
    kn_session *session = two_symbols(*state);
    kn_tensor_info info;
    session_good(session, kn_session_bind(session, "length", 3));
    for (int64_t batch = 2; batch < 5; batch++) {
        session_good(session, kn_session_bind(session, "batch", batch));
        session_good(session, kn_session_compile(session, NULL, 0));
        session_good(session, kn_session_info(session, "sum", &info));
        assert_int_equal(info.shape[0], batch);
    }
    kn_session_destroy(&session);
}

static void run_batch(kn_session *session, size_t batch, uint64_t seed) {
    float x[300], y[200];
    fill_numbers(x, 3 * batch, seed);
    kn_feed feed = {"x", x, 3 * batch * sizeof *x};
    kn_fetch fetch = {"y", y, 2 * batch * sizeof *y};
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    small_net_check(kn_session_states(session), x, batch, y);
}

TEST(another_binding_compiles_nothing) {
    kn_context *context = *state;
    small_net net = small_net_make();
    kn_session *session = kn_session_create(context, &net.y, 1, NULL);
    kn_graph_destroy(&net.graph);
    run_batch(session, 64, 1);
    kn_context_counts before = device_counts(context);
    wrapped_reset();
    run_batch(session, 17, 2);
    kn_context_counts after = device_counts(context);
    assert_int_equal(after.programs_built, before.programs_built);
    assert_int_equal(after.programs_loaded, before.programs_loaded);
    assert_int_equal(wrapped_calls.buffers, 0); /* a smaller batch needs no new block */
    assert_int_equal(after.device_bytes, before.device_bytes);
    assert_true(wrapped_calls.kernels > 0); /* it is a separate plan */
    wrapped_reset();
    run_batch(session, 64, 3);
    run_batch(session, 17, 4);
    assert_int_equal(wrapped_calls.kernels, 0); /* both plans are cached */
    assert_int_equal(wrapped_calls.slices, 0);
    kn_session_destroy(&session);
}

TEST(a_larger_batch_takes_the_place_of_smaller_ones) {
    kn_context *context = *state;
    small_net net = small_net_make();
    kn_session *session = kn_session_create(context, &net.y, 1, NULL);
    kn_graph_destroy(&net.graph);
    run_batch(session, 3, 1);
    run_batch(session, 90, 2);
    kn_plan_info info = {.size = sizeof info};
    session_good(session, kn_session_plan(session, &info));
    /* Nothing of the small one is left. */
    assert_int_equal(device_counts(context).device_bytes, info.peak_bytes);
    for (int i = 0; i < KN_SESSION_PLANS; i++)
        if (session->plans[i] && session->plans[i] != session->current)
            assert_int_equal(session->plans[i]->generation, 0);
    wrapped_reset();
    run_batch(session, 3, 3);
    run_batch(session, 90, 4);
    run_batch(session, 3, 5);
    assert_int_equal(wrapped_calls.kernels, 0);
    assert_int_equal(wrapped_calls.buffers, 0);
    kn_session_destroy(&session);
}

TEST(few_plans_are_kept) {
    kn_context *context = *state;
    small_net net = small_net_make();
    kn_session *session = kn_session_create(context, &net.y, 1, NULL);
    kn_graph_destroy(&net.graph);
    for (size_t batch = 1; batch <= 8; batch++)
        run_batch(session, batch, batch);
    wrapped_reset();
    for (size_t batch = 1; batch <= 8; batch++)
        run_batch(session, batch, batch);
    assert_int_equal(wrapped_calls.kernels, 0);
    run_batch(session, 1, 1);
    run_batch(session, 9, 1); /* 2 is the least recently used: its plan is dropped */
    wrapped_reset();
    for (size_t batch = 3; batch <= 9; batch++)
        run_batch(session, batch, batch);
    run_batch(session, 1, 1);
    assert_int_equal(wrapped_calls.kernels, 0);
    run_batch(session, 2, 1);
    assert_true(wrapped_calls.kernels > 0);
    kn_session_destroy(&session);
}

TEST_FILE(test_bindings, device_setup, device_teardown)
