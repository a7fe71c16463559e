/* Precompiling: which programs are compiled, in which order, and that states and memory are not touched. */
#include "run_tests.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 32 };

typedef struct compiled {
    char files[MOST][64];
    int count;
} compiled;

static void note_file(void *user, const char *label, uint64_t done, uint64_t total) {
    compiled *seen = user;
    if (total == 0 && seen->count < MOST)
        snprintf(seen->files[seen->count++], sizeof seen->files[0], "%s", label);
}

/* A precompiling context without a cache, which records what is compiled. */
static kn_context *open_precompile(compiled *seen) {
    kn_context_params params = device_params();
    params.cache_folder = NULL;
    params.precompile = true;
    params.compile_progress = (kn_progress){seen, note_file};
    return device_open(&params);
}

/* A product and a softmax, whose kernels are in two files. */
static kn_session *try_session(kn_context *context, kn_status *status) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,3");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "3,7", NULL);
    kn_value *y = kn_output(kn_softmax(kn_matmul(x, w, false, false), -1), "y");
    kn_session *session = kn_session_create(context, &y, 1, NULL);
    kn_graph_destroy(&graph);
    *status = kn_session_bind(session, "batch", 5);
    if (*status == KN_OK) *status = kn_session_compile(session, NULL, 0);
    return session;
}

static kn_session *compiled_session(kn_context *context) {
    kn_status status;
    kn_session *session = try_session(context, &status);
    session_good(session, status);
    return session;
}

TEST(the_same_plan_is_compiled_and_nothing_tried) {
    compiled seen = {.count = 0};
    kn_plan_info expected = {.size = sizeof expected}, info = {.size = sizeof info};
    kn_session *usual = compiled_session(*state);
    session_good(usual, kn_session_plan(usual, &expected));
    kn_session_destroy(&usual);
    if (device_counts(*state).variants_refused)
        skip_because("a kernel is refused on this device, so plans may differ");
    kn_context *context = open_precompile(&seen);
    uint64_t before = device_counts(context).programs_built;
    kn_session *precompiled = compiled_session(context);
    session_good(precompiled, kn_session_plan(precompiled, &info));
    assert_int_equal(info.steps, expected.steps);
    assert_int_equal(info.kernels, expected.kernels);
    assert_true(info.flops == expected.flops);
    assert_int_equal(device_counts(context).programs_built - before, info.kernels);
    assert_true(device_counts(context).device_bytes_peak > 0);
    assert_int_equal(device_counts(context).device_bytes, 0);
    kn_session_destroy(&precompiled);
    kn_context_destroy(&context);
}

TEST(the_last_step_is_compiled_first) {
    compiled seen = {.count = 0};
    kn_context *context = open_precompile(&seen);
    int probes = seen.count;
    kn_session *session = compiled_session(context);
    kn_plan_info info = {.size = sizeof info};
    kn_plan_step first = KN_PLAN_STEP_DEFAULTS, last = KN_PLAN_STEP_DEFAULTS;
    session_good(session, kn_session_plan(session, &info));
    session_good(session, kn_session_plan_step_at(session, 0, &first));
    session_good(session, kn_session_plan_step_at(session, info.steps - 1, &last));
    assert_int_equal(seen.count, probes + info.kernels);
    assert_true(info.kernels > 1);
    assert_non_null(strstr(last.kernel, seen.files[probes]));
    assert_non_null(strstr(first.kernel, seen.files[seen.count - 1]));
    kn_session_destroy(&session);
    kn_context_destroy(&context);
}

TEST(nothing_runs) {
    compiled seen = {.count = 0};
    kn_context *context = open_precompile(&seen);
    kn_session *session = compiled_session(context);
    float x[15] = {0}, y[35];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"y", y, sizeof y};
    session_bad(session, KN_ERROR_CANCELLED, kn_session_run(session, &feed, 1, &fetch, 1), "only precompiles",
                NULL);
    assert_int_equal(device_counts(context).device_bytes, 0);
    kn_session_destroy(&session);
    kn_context_destroy(&context);
}

TEST(what_fails_is_told_and_leaves_nothing) {
    compiled seen = {.count = 0};
    kn_context *context = open_precompile(&seen);
    kn_session *session = compiled_session(context);
    kn_session_destroy(&session);
    int failures = 0;
    for (int n = 1;; n++) {
        kn_status status;
        wrapped_reset();
        wrapped_calls.fail_at = n;
        session = try_session(context, &status);
        bool reached = wrapped_calls.calls >= n;
        wrapped_calls.fail_at = 0;
        failures += status != KN_OK;
        if (status != KN_OK) assert_true(kn_session_error(session)[0]);
        kn_session_destroy(&session);
        assert_int_equal(device_counts(context).device_bytes, 0);
        if (!reached) break;
    }
    assert_true(failures > 4);
    kn_context_destroy(&context);
}

TEST_FILE(test_precompile, device_setup, device_teardown)
