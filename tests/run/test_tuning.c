/* The tuner: it records shapes and measures candidates, and plans use only the stored choices. */
#include "run_tests.h"

#include <stdio.h>
#include <string.h>

#include <koine/tune.h>

#include "verify/verify_private.h"

/* c = a b, with a and b (24,24). */
typedef struct product_net {
    kn_graph *graph;
    kn_value *c;
} product_net;

static product_net product_make(void) {
    product_net net = {.graph = kn_graph_create(NULL)};
    kn_value *a = kn_input(net.graph, "a", KN_FLOAT32, "24,24"),
             *b = kn_input(net.graph, "b", KN_FLOAT32, "24,24");
    net.c = kn_name(kn_matmul(a, b, false, false), "c");
    return net;
}

static kn_context *open_kind(int kind, const char *cache) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = kind;
    params.cache_folder = cache;
    return device_open(&params);
}

/* The plan's text; the caller frees it with kn_session_free_text. */
static char *plan_text(kn_context *context, const product_net *net, const char *switches,
                       kn_session **session) {
    kn_session_params params = KN_SESSION_DEFAULTS;
    params.switches = switches;
    *session = kn_session_create(context, &net->c, 1, &params);
    session_good(*session, kn_session_compile(*session, NULL, 0));
    return kn_session_plan_text(*session);
}

static bool plan_has(kn_context *context, const product_net *net, const char *switches, const char *word) {
    kn_session *session;
    char *text = plan_text(context, net, switches, &session);
    const bool has = text && strstr(text, word);
    kn_session_free_text(session, text);
    kn_session_destroy(&session);
    return has;
}

typedef struct seen {
    int tried, refused;
} seen;

static void count_events(void *user, kn_tuner_event event, const char *kernel, const char *message) {
    seen *events = user;
    assert_true(kernel[0] && message);
    events->tried += event == KN_TUNER_EVENT_START;
    events->refused += event != KN_TUNER_EVENT_START;
}

/* Whether the results are right: all ones give sums of 24. */
static void check_results(kn_context *context, const product_net *net, const char *switches) {
    float ones[24 * 24], result[24 * 24];
    for (int i = 0; i < 24 * 24; i++)
        ones[i] = 1;
    const kn_feed feeds[] = {{"a", ones, sizeof ones}, {"b", ones, sizeof ones}};
    const kn_fetch fetch = {"c", result, sizeof result};
    kn_session_params params = KN_SESSION_DEFAULTS;
    params.switches = switches;
    kn_session *session = kn_session_create(context, &net->c, 1, &params);
    session_good(session, kn_session_run(session, feeds, 2, &fetch, 1));
    for (int i = 0; i < 24 * 24; i++)
        assert_float_equal(result[i], 24, 1e-4);
    session_good(session, kn_session_run(session, feeds, 2, NULL, 0));
    session_good(session, kn_session_repeat(session, kn_operator_find("matmul"), 3));
    assert_int_equal(kn_session_repeat(session, kn_operator_find("softmax"), 1), KN_ERROR_NOT_FOUND);
    session_good(session, kn_session_wait(session));
    kn_session_destroy(&session);
}

static void shapes_are_noted_and_tuned(int kind) {
    char *cache = test_folder_make();
    product_net net = product_make();
    kn_context *context = open_kind(kind, cache);
    kn_tuner *tuner = kn_tuner_create(context);
    kn_tuner_shape shape = KN_TUNER_SHAPE_DEFAULTS;
    seen events = {0, 0};
    kn_tuner_params params = KN_TUNER_DEFAULTS;
    params.user = &events;
    params.report = count_events;
    assert_non_null(tuner);
    assert_null(kn_tuner_create(context)); /* one at a time */
    assert_false(plan_has(context, &net, NULL, "tuned: "));
    assert_int_equal(kn_tuner_shape_count(tuner), 0); /* only requested shapes are recorded */
    assert_false(plan_has(context, &net, "tuning=noted,programs=none", "tuned: "));
    assert_false(plan_has(context, &net, "tuning=noted,programs=none", "tuned: "));
    assert_int_equal(kn_tuner_shape_count(tuner), 1);
    assert_int_equal(kn_tuner_shape_at(tuner, 1, &shape), KN_ERROR_NOT_FOUND);
    assert_int_equal(kn_tuner_shape_at(tuner, 0, &shape), KN_OK);
    assert_string_equal(shape.name, "matmul float32 24,24; 24,24");
    assert_true(shape.nodes == 2 && shape.candidates >= 2 && !shape.tuned && shape.share == 1);
    params.seconds = 1e-9;
    assert_int_equal(kn_tuner_run(tuner, 0, &params), KN_ERROR_CANCELLED);
    assert_int_equal(kn_tuner_shape_at(tuner, 0, &shape), KN_OK);
    assert_false(shape.tuned);
    params.seconds = 0;
    assert_int_equal(kn_tuner_run(tuner, 0, &params), KN_OK);
    assert_true(events.tried > shape.candidates && !events.refused);
    assert_int_equal(kn_tuner_shape_at(tuner, 0, &shape), KN_OK);
    assert_true(shape.tuned && shape.kernel[0] && shape.microseconds > 0);
    assert_true(shape.microseconds <= shape.untuned_microseconds);
    kn_tuner_destroy(&tuner);
    kn_context_destroy(&context);
    context = open_kind(kind, cache); /* from the file */
    assert_true(plan_has(context, &net, NULL, "tuned: "));
    assert_false(plan_has(context, &net, "tuning=off", "tuned: "));
    check_results(context, &net, NULL);
    tuner = kn_tuner_create(context);
    assert_int_equal(kn_tuner_forget(tuner, 0), KN_ERROR_NOT_FOUND);
    assert_false(plan_has(context, &net, "tuning=noted,programs=none", "tuned: "));
    assert_int_equal(kn_tuner_forget(tuner, 0), KN_OK);
    assert_false(plan_has(context, &net, NULL, "tuned: "));
    kn_tuner_destroy(&tuner);
    kn_context_destroy(&context);
    kn_graph_destroy(&net.graph);
    test_folder_remove(cache);
}

TEST(shapes_of_many_threads) {
    shapes_are_noted_and_tuned(2);
}

TEST(shapes_of_wide_vectors) {
    shapes_are_noted_and_tuned(1);
}

/* Stores a choice for the product, as a file from elsewhere might have it. */
static void choose_kernel(kn_context *context, const char *key, const char *kernel) {
    kn_tuned entry = {.end = KN_TUNED_MEASURED, .microseconds = 1, .untuned = 2};
    snprintf(entry.key, sizeof entry.key, "%s", key);
    snprintf(entry.kernel, sizeof entry.kernel, "%s", kernel);
    kn_tuned_put(context, &entry);
}

TEST(choices_from_elsewhere) {
    char *cache = test_folder_make(), path[512], key[KN_TUNED_KEY];
    product_net net = product_make();
    kn_context *context = open_kind(2, cache);
    kn_tuner *tuner = kn_tuner_create(context);
    kn_tuner_shape shape = KN_TUNER_SHAPE_DEFAULTS;
    kn_tuner_entry entry = KN_TUNER_ENTRY_DEFAULTS;
    kn_tuner_counts counts = KN_TUNER_COUNTS_DEFAULTS;
    plan_has(context, &net, "tuning=noted,programs=none", "");
    assert_int_equal(kn_tuner_shape_count(tuner), 1);
    assert_int_equal(kn_tuner_shape_at(tuner, 0, &shape), KN_OK);
    snprintf(key, sizeof key, "%s", shape.key);
    choose_kernel(context, key, "plain");
    assert_true(plan_has(context, &net, NULL, "tuned: plain"));
    check_results(context, &net, NULL);
    choose_kernel(context, key, "tiled:8x8x16/8x8");
    assert_true(plan_has(context, &net, NULL, "tuned: tiled:8x8x16/8x8"));
    check_results(context, &net, NULL);
    /* Variants that do not apply to the shape, or do not exist, are ignored. */
    choose_kernel(context, key, "wide");
    assert_false(plan_has(context, &net, NULL, "tuned: "));
    choose_kernel(context, key, "no_such_kernel");
    assert_false(plan_has(context, &net, NULL, "tuned: "));
    check_results(context, &net, NULL);
    choose_kernel(context, key, "tiled:8x8x16/8x9");
    assert_false(plan_has(context, &net, NULL, "tuned: "));
    /* Export and import. */
    choose_kernel(context, key, "plain");
    assert_int_equal(kn_tuner_exclude(tuner, key, "tiled", KN_TUNER_EVENT_HUNG), KN_OK);
    assert_int_equal(kn_tuner_exclude(tuner, key, "tiled two", KN_TUNER_EVENT_HUNG), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_tuner_exclude(tuner, key, "tiled", KN_TUNER_EVENT_START), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_tuned_end_of(context, key, "tiled"), KN_TUNED_HUNG);
    assert_int_equal(kn_tuner_export(tuner, test_path(path, sizeof path, cache, "exported")), KN_OK);
    assert_int_equal(kn_tuner_forget(tuner, 0), KN_OK);
    assert_int_equal(kn_tuner_entry_at(tuner, 0, &entry), KN_ERROR_NOT_FOUND);
    assert_int_equal(kn_tuner_import(tuner, path, &counts), KN_OK);
    assert_true(counts.imported == 2 && !counts.damaged && !counts.other_kernels && !counts.unknown);
    assert_int_equal(kn_tuner_entry_at(tuner, 0, &entry), KN_OK);
    assert_true(entry.current && !strcmp(entry.key, key));
    assert_int_equal(kn_tuner_entry_at(tuner, 1, &entry), KN_OK);
    assert_int_equal(kn_tuner_entry_at(tuner, 2, &entry), KN_ERROR_NOT_FOUND);
    assert_true(plan_has(context, &net, NULL, "tuned: plain"));
    assert_int_equal(kn_tuner_import(tuner, cache, NULL), KN_ERROR_FILE);
    assert_true(strlen(kn_tuner_error(tuner)) > 0);
    kn_tuner_destroy(&tuner);
    kn_context_destroy(&context);
    kn_graph_destroy(&net.graph);
    test_folder_remove(cache);
}

TEST_FILE(test_tuning, NULL, NULL)
