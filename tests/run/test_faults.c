/* Each allocation and each OpenCL call fails once: an error comes back, nothing leaks, and the same session
 * or a new one works afterwards. */
#include "run_tests.h"

#include <stdlib.h>
#include <string.h>

/* Checks without a failing call. */
static void check_quietly(kn_states *states, const float *x, size_t batch, const float *y) {
    wrapped before = wrapped_calls;
    wrapped_calls.fail_at = 0;
    small_net_check(states, x, batch, y);
    wrapped_calls = before;
}

/* Creates, runs and queries a session; returns the first failure. The caller destroys `session`. */
static kn_status live(kn_context *context, kn_states *states, kn_session **session) {
    small_net net = small_net_make();
    float two[2] = {2, 2};
    kn_value *twos = kn_constant(net.graph, KN_FLOAT32, "2", two, sizeof two);
    kn_value *values[] = {net.y, kn_name(kn_mul(net.y, twos), "twice")};
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    *session = kn_session_create(context, values, 2, &params);
    kn_graph_destroy(&net.graph);
    if (!*session) return KN_ERROR_MEMORY;
    float x[30], y[20], twice[20];
    fill_numbers(x, 30, 1);
    kn_status status = kn_session_status(*session);
    static const size_t batches[] = {4, 10, 1}; /* a batch of 1 may need other kernels */
    for (size_t k = 0; k < KN_COUNT_OF(batches) && !status; k++) {
        size_t batch = batches[k];
        kn_feed feed = {"x", x, 3 * batch * sizeof *x};
        kn_fetch fetches[] = {{"y", y, 2 * batch * sizeof *y}, {"twice", twice, 2 * batch * sizeof *y}};
        status = kn_session_run(*session, &feed, 1, NULL, 0);
        if (!status) status = kn_session_run(*session, &feed, 1, fetches, 2);
        if (!status) check_quietly(states, x, batch, y);
        for (size_t i = 0; i < 2 * batch && !status; i++)
            assert_true(twice[i] == 2 * y[i]);
    }
    if (status) {
        if (!*kn_session_error(*session)) fail_msg("%s without a word", kn_status_name(status));
        return status;
    }
    char *text = kn_session_plan_text(*session);
    if (!text) return kn_session_status(*session);
    kn_session_free_text(*session, text);
    return KN_OK;
}

static void allocations_fail(kn_kernels kernels) {
    failing memory = {0};
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    debug.kernels = kernels;
    kn_context_params params = device_params();
    params.allocator = failing_allocator(&memory);
    params.debug = &debug;
    kn_context *context = device_open(&params);
    kn_session *session = NULL;
    kn_states *states = kn_states_create(context, 1);
    assert_int_equal(live(context, states, &session), KN_OK);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    size_t base = memory.live, step = test_cases_wanted() == TEST_ALL ? 1 : 7, failures = 0;
    for (size_t n = 1;; n += step) {
        memory.calls = 0;
        memory.fail_at = n;
        states = kn_states_create(context, 1);
        kn_status status = states ? live(context, states, &session) : KN_ERROR_MEMORY;
        bool reached = memory.calls >= n;
        memory.fail_at = 0;
        if (!reached) assert_int_equal(status, KN_OK);
        if (status) {
            failures++;
            if (status != KN_ERROR_MEMORY)
                fail_msg("allocation %zu: %s: %s", n, kn_status_name(status), kn_session_error(session));
            /* The session works afterwards, unless it was never complete. */
            float x[3] = {1, 2, 3}, y[2], twice[2];
            kn_feed feed = {"x", x, sizeof x};
            kn_fetch fetches[] = {{"y", y, sizeof y}, {"twice", twice, sizeof twice}};
            if (session && kn_session_compile(session, &feed, 1) == KN_OK) {
                session_good(session, kn_session_run(session, &feed, 1, fetches, 2));
                small_net_check(states, x, 1, y);
            }
        }
        kn_session_destroy(&session);
        kn_states_destroy(&states);
        if (memory.live != base)
            fail_msg("allocation %zu: %zu blocks were held before, and now %zu", n, base, memory.live);
        assert_int_equal(device_counts(context).device_bytes, 0);
        if (!reached) break;
    }
    if (failures < 100 / step) fail_msg("only %zu allocations failed", failures);
    kn_context_destroy(&context);
    assert_int_equal(memory.live, 0);
}

TEST(every_allocation_may_fail) {
    allocations_fail(KN_KERNELS_PROBED);
}

TEST(every_allocation_may_fail_with_gpu_kernels) {
    allocations_fail(KN_KERNELS_GPU);
}

TEST(every_opencl_call_may_fail) {
    kn_context *context = *state;
    kn_session *session = NULL;
    kn_states *states = kn_states_create(context, 1);
    assert_int_equal(live(context, states, &session), KN_OK); /* programs are compiled now */
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    int step = test_cases_wanted() == TEST_ALL ? 1 : 5;
    for (int n = 1;; n += step) {
        wrapped_reset();
        wrapped_calls.fail_at = n;
        states = kn_states_create(context, 1);
        kn_status status = live(context, states, &session);
        bool reached = wrapped_calls.calls >= n;
        wrapped_calls.fail_at = 0;
        /* A failed flush delays work, and loses none. */
        bool harmless = wrapped_calls.failed && !strcmp(wrapped_calls.failed, "clFlush");
        if (reached && !harmless && !status)
            fail_msg("call %d, %s, failed unnoticed", n, wrapped_calls.failed);
        if (status && !strstr(kn_session_error(session), "CL_OUT_OF_HOST_MEMORY"))
            fail_msg("call %d, %s: %s", n, wrapped_calls.failed, kn_session_error(session));
        float x[3] = {1, 2, 3}, y[2];
        kn_feed feed = {"x", x, sizeof x};
        kn_fetch fetch = {"y", y, sizeof y};
        session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
        small_net_check(states, x, 1, y);
        kn_session_destroy(&session);
        kn_states_destroy(&states);
        assert_int_equal(device_counts(context).device_bytes, 0);
        if (!reached) break;
    }
}

TEST_FILE(test_faults, device_setup, device_teardown)
