/* Uploads to a device with separate memory: from mapped memory of the host, without a wait, after the run
 * that read the buffer before and before the run that reads it next. wrapped.c simulates this on the selected
 * device.
 */
#include "run_tests.h"

#include <string.h>

enum { COUNT = 256, RUNS = 12 };

static int apart_setup(void **state) {
    wrapped_reset();
    wrapped_calls.apart = true;
    *state = device_open(NULL);
    return 0;
}

static kn_status call_nothing(void *user, kn_error *error) {
    return KN_OK;
}

static kn_status start(kn_session *session, const kn_feed *feed, bool ahead) {
    return kn_session_start(session, feed, 1, ahead, NULL, 0, (kn_enqueued_callback){call_nothing, NULL},
                            NULL);
}

/* Fills different numbers for each run. */
static void fill_for(int run, float x[COUNT]) {
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(run * 7 + i % 13);
}

/* Adds the numbers of all runs, by turns fed in the run and ahead of it, or all ahead but the first. The data
 * changes when a call returns. */
static kn_status add_all(kn_session *session, bool all_ahead) {
    float x[COUNT];
    kn_feed feed = {"x", x, sizeof x};
    kn_status status = KN_OK;
    for (int run = 0; run < RUNS && status == KN_OK; run++) {
        const bool ahead = run && (all_ahead || run % 2);
        fill_for(run, x);
        status = start(session, &feed, ahead);
        fill_for(run + 1, x);
        if (status == KN_OK && (all_ahead || run % 2 == 0)) status = kn_session_feed_ahead(session, &feed, 1);
        memset(x, 0, sizeof x);
    }
    return status;
}

static void check_sum(kn_session *session) {
    float sum[COUNT], expected[COUNT] = {0}, x[COUNT];
    states_good(kn_session_states(session),
                kn_states_get(kn_session_states(session), "sum", sum, sizeof sum));
    for (int run = 0; run < RUNS; run++) {
        fill_for(run, x);
        for (int i = 0; i < COUNT; i++)
            expected[i] += x[i];
    }
    assert_memory_equal(sum, expected, sizeof sum);
}

static uint64_t staging_of(const kn_context *context) {
    return device_counts(context).staging_bytes;
}

static void reset_apart(void) {
    wrapped_reset();
    wrapped_calls.apart = true;
}

TEST(uploads_are_from_mapped_memory) {
    kn_context *context = *state;
    assert_false(kn_context_capabilities(context)->shares_memory);
    for (int all_ahead = 0; all_ahead < 2; all_ahead++) {
        adder made = slow_adder_make(test_cases_wanted() == TEST_SMALLEST);
        kn_session *session = adder_session(context, &made);
        kn_plan_info info = {.size = sizeof info};
        float x[COUNT];
        kn_feed feed = {"x", x, sizeof x};
        session_good(session, kn_session_compile(session, &feed, 1));
        session_good(session, kn_session_plan(session, &info));
        assert_int_equal(info.staging_bytes, 2 * sizeof x);
        assert_int_equal(staging_of(context), 0);
        reset_apart();
        session_good(session, add_all(session, all_ahead));
        const int uploads = RUNS + all_ahead; /* the last is for a run that does not come */
        assert_int_equal(wrapped_calls.staged_uploads, uploads);
        assert_int_equal(wrapped_calls.waited_uploads, 0);
        assert_int_equal(wrapped_calls.staged_after, uploads - 2);
        assert_int_equal(wrapped_calls.unordered, 0);
        assert_int_equal(wrapped_calls.overwritten, 0);
        assert_int_equal(staging_of(context), info.staging_bytes);
        assert_int_equal(wrapped_maps, 2);
        check_sum(session);
        kn_session_destroy(&session);
        assert_int_equal(staging_of(context), 0);
        assert_int_equal(wrapped_maps, 0);
    }
}

/* Runs that the host waits for upload on the compute queue, and need no such memory. */
TEST(runs_with_fetches_take_no_memory) {
    adder made = adder_make("256");
    kn_session *session = adder_session(*state, &made);
    float x[COUNT] = {1}, total[COUNT];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"total", total, sizeof total};
    reset_apart();
    for (int run = 0; run < 3; run++)
        session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    assert_true(total[0] == 3);
    assert_int_equal(wrapped_calls.staged_uploads, 0);
    assert_int_equal(staging_of(*state), 0);
    kn_session_destroy(&session);
}

TEST(a_driver_without_such_memory_works) {
    for (int maps = 0; maps < 2; maps++) {
        adder made = adder_make("256");
        kn_session *session = adder_session(*state, &made);
        reset_apart();
        *(maps ? &wrapped_calls.no_maps : &wrapped_calls.no_staging) = true;
        session_good(session, add_all(session, true));
        assert_int_equal(wrapped_calls.staged_uploads, 0);
        assert_int_equal(staging_of(*state), 0);
        check_sum(session);
        kn_session_destroy(&session);
    }
    reset_apart();
}

/* The second of three inputs would take more than the limit, so that it has none. Nothing is allocated: a
 * simulated device may have less memory. */
TEST(the_memory_is_limited) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *a = kn_sum(kn_input(graph, "a", KN_FLOAT32, "26214400"), NULL, false),
             *b = kn_sum(kn_input(graph, "b", KN_FLOAT32, "10485760"), NULL, false),
             *c = kn_sum(kn_input(graph, "c", KN_FLOAT32, "1000"), NULL, false),
             *y = kn_output(kn_add(a, kn_add(b, c)), "y");
    kn_session_params params = KN_SESSION_DEFAULTS;
    params.switches = "programs=none";
    params.memory_bytes = 1 << 30;
    kn_session *session = kn_session_create(*state, &y, 1, &params);
    kn_plan_info info = {.size = sizeof info};
    kn_feed feeds[] = {{"a", NULL, 104857600}, {"b", NULL, 41943040}, {"c", NULL, 4000}};
    session_good(session, kn_session_compile(session, feeds, 3));
    session_good(session, kn_session_plan(session, &info));
    assert_int_equal(info.staging_bytes, 2 * (104857600 + 4000));
    assert_true(info.staging_bytes <= KN_STAGING_MOST);
    char *text = kn_session_plan_text(session);
    assert_non_null(strstr(text, "209723200 bytes  of host memory, for uploads"));
    kn_session_free_text(session, text);
    kn_session_destroy(&session);
    kn_graph_destroy(&graph);
}

/* Batches of several sizes, the largest not first: the memory grows, and blocks that are too small are freed.
 */
TEST(the_memory_grows) {
    static const size_t batches[] = {4, 10, 1, 32, 10};
    small_net net = small_net_make();
    kn_session *session = kn_session_create(*state, &net.y, 1, NULL);
    float x[96], y[64];
    reset_apart();
    for (size_t i = 0; i < KN_COUNT_OF(batches); i++) {
        const size_t rows = batches[i];
        kn_feed feed = {"x", x, rows * 3 * sizeof *x};
        kn_fetch fetch = {"y", y, rows * 2 * sizeof *y};
        fill_numbers(x, rows * 3, i);
        session_good(session, kn_session_start(session, &feed, 1, false, &fetch, 1,
                                               (kn_enqueued_callback){call_nothing, NULL}, NULL));
        session_good(session, kn_session_wait(session));
        small_net_check(kn_session_states(session), x, rows, y);
    }
    assert_int_equal(wrapped_calls.staged_uploads, KN_COUNT_OF(batches));
    assert_int_equal(wrapped_calls.unordered, 0);
    assert_int_equal(staging_of(*state), 2 * sizeof x);
    assert_int_equal(wrapped_maps, 2);
    kn_session_destroy(&session);
    kn_graph_destroy(&net.graph);
    assert_int_equal(staging_of(*state), 0);
    assert_int_equal(wrapped_maps, 0);
}

/* If the memory cannot be allocated, the upload works without it; any other failure is the run's. */
static bool is_harmless(const char *call) {
    return !strcmp(call, "clFlush") || !strcmp(call, "clCreateBuffer") || !strcmp(call, "clEnqueueMapBuffer");
}

TEST(every_opencl_call_may_fail) {
    const int step = test_cases_wanted() == TEST_ALL ? 1 : 3;
    for (int n = 1;; n += step) {
        adder made = adder_make("256");
        kn_session *session = adder_session(*state, &made);
        float x[COUNT] = {0}, total[COUNT];
        kn_feed feed = {"x", x, sizeof x};
        kn_fetch fetch = {"total", total, sizeof total};
        reset_apart();
        wrapped_calls.fail_at = n;
        kn_status status = add_all(session, true);
        const bool reached = wrapped_calls.calls >= n;
        wrapped_calls.fail_at = 0;
        if (status && !strstr(kn_session_error(session), "CL_OUT_OF_HOST_MEMORY"))
            fail_msg("call %d, %s: %s", n, wrapped_calls.failed, kn_session_error(session));
        if (reached && !status && !is_harmless(wrapped_calls.failed))
            fail_msg("call %d, %s, failed unnoticed", n, wrapped_calls.failed);
        if (!status) check_sum(session);
        session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
        kn_session_destroy(&session);
        assert_int_equal(staging_of(*state), 0);
        assert_int_equal(wrapped_maps, 0);
        assert_int_equal(device_counts(*state).device_bytes, 0);
        if (!reached) break;
    }
}

TEST_FILE(test_staging, apart_setup, device_teardown)
