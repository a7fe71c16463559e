/* Sessions: results, feeds and fetches, the description of a plan, mistakes. */
#include "run_tests.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static kn_session *small_session(kn_context *context) {
    small_net net = small_net_make();
    kn_session *session = kn_session_create(context, &net.y, 1, NULL);
    assert_non_null(session);
    kn_graph_destroy(&net.graph); /* the session has a copy */
    return session;
}

TEST(results_are_right_for_any_batch) {
    kn_session *session = small_session(*state);
    static const size_t batches[] = {4, 1, 7, 33, 4, 100, 1};
    float x[300], y[200];
    for (size_t i = 0; i < KN_COUNT_OF(batches); i++) {
        size_t batch = batches[i];
        fill_numbers(x, 3 * batch, i);
        kn_feed feed = {"x", x, 3 * batch * sizeof *x};
        kn_fetch fetch = {"y", y, 2 * batch * sizeof *y};
        session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
        small_net_check(kn_session_states(session), x, batch, y);
    }
    kn_session_destroy(&session);
    assert_null(session);
    kn_session_destroy(&session);
}

TEST(an_empty_batch_gives_nothing) {
    kn_session *session = small_session(*state);
    kn_feed feed = {"x", NULL, 0};
    kn_fetch fetch = {"y", NULL, 0};
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    kn_tensor_info info;
    session_good(session, kn_session_info(session, "y", &info));
    assert_true(info.rank == 2 && info.shape[0] == 0 && info.shape[1] == 2);
    kn_session_destroy(&session);
}

TEST(inputs_states_constants_and_views_can_be_fetched) {
    kn_context *context = *state;
    kn_graph *graph = kn_graph_create(NULL);
    float three[3] = {1, 2, 3};
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "n,4");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "4", NULL);
    kn_value *c = kn_name(kn_constant(graph, KN_FLOAT32, "3", three, sizeof three), "c");
    kn_value *view = kn_name(kn_reshape(kn_scale(x, 2), "-1"), "view");
    kn_value *folded = kn_name(kn_scale(c, 3), "folded");
    kn_value *values[] = {x, w, c, view, folded, kn_name(kn_reshape(x, "4,n"), "turned")};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session *session = kn_session_create(context, values, 6, NULL);
    kn_graph_destroy(&graph);
    float xs[8] = {1, 2, 3, 4, 5, 6, 7, 8}, got[6][8], expected[4];
    kn_feed feed = {"x", xs, sizeof xs};
    kn_fetch fetches[] = {{"x", got[0], 32},    {"w", got[1], 16},      {"c", got[2], 12},
                          {"view", got[3], 32}, {"folded", got[4], 12}, {"turned", got[5], 32}};
    for (int round = 0; round < 3; round++) {
        memset(got, 0, sizeof got);
        xs[7] += 1;
        session_good(session, kn_session_run(session, &feed, 1, fetches, 6));
        assert_memory_equal(got[0], xs, sizeof xs);
        assert_memory_equal(got[5], xs, sizeof xs);
        states_good(kn_session_states(session), kn_states_get(kn_session_states(session), "w", expected, 16));
        assert_memory_equal(got[1], expected, 16);
        for (int i = 0; i < 3; i++)
            assert_true(got[2][i] == three[i] && got[4][i] == 3 * three[i]);
        for (int i = 0; i < 8; i++)
            assert_true(got[3][i] == 2 * xs[i]);
    }
    kn_session_destroy(&session);
}

TEST(the_callers_buffers_take_the_place_of_host_memory) {
    kn_context *context = *state;
    kn_session *session = small_session(context);
    kn_error error = {0};
    kn_buffer *x = NULL, *y = NULL;
    float xs[6], ys[4], again[4];
    fill_numbers(xs, 6, 5);
    assert_int_equal(kn_buffer_create(context, sizeof xs, &x, &error), KN_OK);
    assert_int_equal(kn_buffer_create(context, sizeof ys, &y, &error), KN_OK);
    assert_int_equal(kn_queue_write(context, 0, x, 0, xs, sizeof xs, true, (kn_event){NULL}, NULL, &error),
                     KN_OK);
    session_good(session, kn_session_feed_buffer(session, "x", x));
    session_good(session, kn_session_fetch_buffer(session, "y", y));
    session_good(session, kn_session_run(session, NULL, 0, NULL, 0));
    assert_int_equal(kn_queue_read(context, 0, y, 0, ys, sizeof ys, true, (kn_event){NULL}, NULL, &error),
                     KN_OK);
    small_net_check(kn_session_states(session), xs, 2, ys);
    /* For one run only. */
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_run(session, NULL, 0, NULL, 0), "'batch'", NULL);
    kn_feed feed = {"x", xs, sizeof xs};
    kn_fetch fetch = {"y", again, sizeof again};
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    assert_memory_equal(again, ys, sizeof ys);
    xs[0] += 1; /* y is unchanged */
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    assert_int_equal(
        kn_queue_read(context, 0, y, 0, again, sizeof again, true, (kn_event){NULL}, NULL, &error), KN_OK);
    assert_memory_equal(again, ys, sizeof ys);
    session_good(session, kn_session_feed_buffer(session, "x", x));
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, &feed, 1, NULL, 0), "'x'", "twice", NULL);
    session_good(session, kn_session_fetch_buffer(session, "y", x));
    session_bad(session, KN_ERROR_SHAPE, kn_session_run(session, &feed, 1, NULL, 0), "'y'", "24", NULL);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_feed_buffer(session, "z", x), "'z'", NULL);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_fetch_buffer(session, "z", x), "'z'", NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_fetch_buffer(session, "y", NULL), NULL);
    kn_buffer_destroy(&x);
    kn_buffer_destroy(&y);
    kn_session_destroy(&session);
}

TEST(feeds_of_other_inputs_of_the_graph_are_ignored) {
    kn_context *context = *state;
    small_net net = small_net_make();
    kn_input(net.graph, "labels", KN_INT32, "batch");
    kn_session *session = kn_session_create(context, &net.y, 1, NULL);
    kn_graph_destroy(&net.graph);
    float x[6], y[4];
    int32_t labels[2] = {0, 1};
    fill_numbers(x, 6, 1);
    kn_feed feeds[] = {{"labels", labels, sizeof labels}, {"x", x, sizeof x}};
    kn_fetch fetch = {"y", y, sizeof y};
    session_good(session, kn_session_run(session, feeds, 2, &fetch, 1));
    small_net_check(kn_session_states(session), x, 2, y);
    kn_session_destroy(&session);
}

TEST(mistakes_in_feeds_and_fetches_are_told) {
    kn_context *context = *state;
    kn_session *session = small_session(context);
    float x[6] = {0}, y[4];
    kn_feed good = {"x", x, sizeof x}, nameless = {NULL, x, sizeof x}, empty = {"x", NULL, sizeof x},
            unknown = {"xx", x, sizeof x}, twice[] = {good, good};
    kn_fetch fine = {"y", y, sizeof y}, small = {"y", y, 12}, nowhere = {"y", NULL, sizeof y},
             missing = {"z", y, sizeof y}, no_name = {NULL, y, sizeof y};
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, &nameless, 1, &fine, 1), NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, &empty, 1, &fine, 1), "'x'", NULL);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_run(session, &unknown, 1, &fine, 1), "'xx'", "x",
                NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, twice, 2, &fine, 1), "twice", NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, NULL, 1, &fine, 1), NULL);
    session_bad(session, KN_ERROR_SHAPE, kn_session_run(session, &good, 1, &small, 1), "'y'", "float32 (2,2)",
                "16", "12", NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, &good, 1, &nowhere, 1), "'y'", NULL);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_run(session, &good, 1, &missing, 1), "'z'", "y",
                NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, &good, 1, &no_name, 1), NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, &good, 1, NULL, 1), NULL);
    session_good(session, kn_session_bind(session, "batch", 2));
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, NULL, 0, &fine, 1), "'x'", "not fed",
                NULL);
    /* After all these mistakes it works, and waiting reports none of them. */
    session_good(session, kn_session_run(session, &good, 1, &fine, 1));
    small_net_check(kn_session_states(session), x, 2, y);
    session_good(session, kn_session_wait(session));
    assert_string_equal(kn_session_error(session), "");
    kn_session_destroy(&session);
}

/* A loss over embeddings and rows that are picked: `ids` count from 0, `places` from either end, and of the
 * labels -7 stands for none. */
TEST(indices_out_of_range_are_refused) {
    kn_context *context = *state;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *ids = kn_input(graph, "ids", KN_INT32, "n,2"),
             *places = kn_input(graph, "places", KN_INT64, "n");
    kn_value *labels = kn_input(graph, "labels", KN_INT32, "n");
    kn_value *rows = kn_mean(kn_embedding(kn_reshape(ids, "n,2"), 9, 4, NULL), "1", false);
    kn_value *logits = kn_gather(rows, kn_cast(places, KN_INT32), 0);
    kn_cross_entropy_params params = {.size = sizeof params, .has_ignore_index = true, .ignore_index = -7};
    kn_value *loss = kn_name(kn_cross_entropy(logits, labels, &params), "loss");
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session *session = kn_session_create(context, &loss, 1, NULL);
    kn_graph_destroy(&graph);
    int32_t id[6] = {0, 8, 3, 4, 5, 6}, label[3] = {3, -7, 0};
    int64_t place[3] = {2, -3, 0};
    float got = 0;
    kn_feed feeds[] = {
        {"ids", id, sizeof id}, {"places", place, sizeof place}, {"labels", label, sizeof label}};
    kn_fetch fetch = {"loss", &got, sizeof got};
    session_good(session, kn_session_run(session, feeds, 3, &fetch, 1));
    assert_true(got > 0 && got < 20);
    const float before = got;
    id[4] = 9;
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, feeds, 3, &fetch, 1), "'ids'", "index 9",
                "element 4", "embedding", "0 to 8", NULL);
    id[4] = -1;
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, feeds, 3, &fetch, 1), "index -1", NULL);
    id[4] = 5;
    place[1] = -4; /* the rows are as many as the batch */
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, feeds, 3, &fetch, 1), "'places'",
                "-3 to 2", NULL);
    place[1] = -3;
    label[2] = 4;
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, feeds, 3, &fetch, 1), "'labels'",
                "index 4", "0 to 3", NULL);
    label[2] = 0;
    session_good(session, kn_session_run(session, feeds, 3, &fetch, 1));
    assert_true(got == before);
    kn_session_destroy(&session);
}

TEST(a_session_that_cannot_be_says_why) {
    kn_context *context = *state;
    small_net net = small_net_make(), other = small_net_make();
    kn_value *mixed[] = {net.y, other.y}, *nothing = NULL;
    struct {
        kn_value **values;
        size_t count;
        kn_status status;
        const char *word;
    } cases[] = {{mixed, 2, KN_ERROR_ARGUMENT, "graphs"},
                 {&nothing, 1, KN_ERROR_ARGUMENT, "NULL"},
                 {mixed, 0, KN_ERROR_ARGUMENT, "at least one value"},
                 {NULL, 1, KN_ERROR_ARGUMENT, "at least one value"}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_session *session = kn_session_create(context, cases[i].values, cases[i].count, NULL);
        assert_non_null(session);
        session_bad(session, cases[i].status, kn_session_status(session), cases[i].word, NULL);
        session_bad(session, cases[i].status, kn_session_run(session, NULL, 0, NULL, 0), cases[i].word, NULL);
        session_bad(session, cases[i].status, kn_session_compile(session, NULL, 0), cases[i].word, NULL);
        session_bad(session, cases[i].status, kn_session_bind(session, "batch", 1), cases[i].word, NULL);
        session_bad(session, cases[i].status, kn_session_wait(session), cases[i].word, NULL);
        assert_null(kn_session_plan_text(session));
        kn_session_destroy(&session);
    }
    /* A graph with a mistake in it. */
    kn_value *wrong = kn_matmul(net.x, net.b, false, false);
    kn_session *session = kn_session_create(context, &wrong, 1, NULL);
    session_bad(session, KN_ERROR_SHAPE, kn_session_status(session), "matmul", NULL);
    kn_session_destroy(&session);
    /* States of another context. */
    kn_context *second = device_open(NULL);
    kn_states *states = kn_states_create(second, 0);
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    session = kn_session_create(context, &other.y, 1, &params);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_status(session), "context", NULL);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    states = kn_states_create_host(NULL);
    params.states = states;
    session = kn_session_create(context, &other.y, 1, &params);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_status(session), "host memory", NULL);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
    kn_context_destroy(&second);
    /* A context that failed. */
    kn_context_params context_params = device_params();
    context_params.device = "no such device";
    kn_context *failed = kn_context_create(&context_params);
    session = kn_session_create(failed, &other.y, 1, NULL);
    session_bad(session, KN_ERROR_NO_DEVICE, kn_session_status(session), "no such device", NULL);
    kn_session_destroy(&session);
    states = kn_states_create(failed, 0);
    assert_int_equal(kn_states_get(states, "w", NULL, 0), KN_ERROR_NO_DEVICE);
    kn_states_destroy(&states);
    kn_context_destroy(&failed);
    assert_null(kn_session_create(NULL, &other.y, 1, NULL));
    assert_null(kn_states_create(NULL, 0));
    assert_int_equal(kn_session_status(NULL), KN_ERROR_MEMORY);
    assert_true(*kn_session_error(NULL) != '\0');
    kn_graph_destroy(&net.graph);
    kn_graph_destroy(&other.graph);
}

TEST(plans_tell_what_they_are) {
    kn_context *context = *state;
    kn_session *session = small_session(context);
    kn_plan_info info = {.size = sizeof info};
    kn_tensor_info shape;
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_plan(session, &info), "compile", NULL);
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_info(session, "y", &shape), "compile", NULL);
    session_good(session, kn_session_bind(session, "batch", 5));
    uint64_t before = device_counts(context).device_bytes;
    session_good(session, kn_session_compile(session, NULL, 0));
    assert_int_equal(device_counts(context).device_bytes, before); /* nothing is allocated yet */
    session_good(session, kn_session_plan(session, &info));
    session_good(session, kn_session_info(session, "y", &shape));
    assert_true(shape.dtype == KN_FLOAT32 && shape.rank == 2 && shape.shape[0] == 5 && shape.shape[1] == 2);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_info(session, "q", &shape), "'q'", NULL);
    uint64_t unit = kn_context_capabilities(context)->alignment_bytes;
    assert_int_equal(info.state_bytes, 2 * unit);
    assert_true(info.steps >= 1 && info.kernels >= 1 && info.kernels <= info.steps && info.conversions == 0);
    assert_true(info.scratch_bytes >= info.scratch_bound_bytes && info.scratch_bound_bytes >= unit);
    assert_int_equal(info.peak_bytes, info.state_bytes + 2 * unit + info.scratch_bytes);
    assert_true(info.flops >= 60); /* 2 * 5 * 3 * 2 of the product at least */
    char *text = kn_session_plan_text(session);
    assert_non_null(text);
    assert_non_null(strstr(text, "batch = 5\n"));
    assert_non_null(strstr(text, "matmul"));
    assert_non_null(strstr(text, ".cl:"));
    assert_non_null(strstr(text, "float32 (5,2) plain"));
    assert_non_null(strstr(text, "peak"));
    kn_session_free_text(session, text);
    /* A run uses the data that was uploaded ahead. */
    float x[15], y[10];
    fill_numbers(x, 15, 3);
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"y", y, sizeof y};
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    assert_int_equal(device_counts(context).device_bytes - before, info.peak_bytes);
    /* A program built with an older, smaller struct. */
    kn_plan_info part = {.size = offsetof(kn_plan_info, state_bytes)};
    part.state_bytes = 12345;
    session_good(session, kn_session_plan(session, &part));
    assert_true(part.peak_bytes == info.peak_bytes && part.state_bytes == 12345);
    kn_session_destroy(&session);
}

TEST(a_budget_is_kept) {
    kn_context *context = *state;
    small_net net = small_net_make();
    kn_session_params params;
    kn_session_params_init(&params);
    params.memory_bytes = 100000;
    kn_session *session = kn_session_create(context, &net.y, 1, &params);
    kn_graph_destroy(&net.graph);
    session_good(session, kn_session_bind(session, "batch", 100000));
    session_bad(session, KN_ERROR_DEVICE_MEMORY, kn_session_compile(session, NULL, 0), "100000",
                "smaller batch", NULL);
    session_good(session, kn_session_bind(session, "batch", 100));
    session_good(session, kn_session_compile(session, NULL, 0));
    kn_session_destroy(&session);
}

TEST(a_value_above_the_limit_is_named) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.largest_block_bytes = 1 << 16;
    kn_context *context = device_open(&params);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "n");
    kn_value *outer = kn_name(kn_mul(kn_reshape(x, "n,1"), kn_reshape(x, "1,n")), "outer");
    kn_session *session = kn_session_create(context, &outer, 1, NULL);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_bind(session, "n", 200));
    session_bad(session, KN_ERROR_DEVICE_MEMORY, kn_session_compile(session, NULL, 0), "'outer'", "(200,200)",
                "160000", "65536", NULL);
    session_good(session, kn_session_bind(session, "n", 100));
    session_good(session, kn_session_compile(session, NULL, 0));
    kn_session_destroy(&session);
    kn_context_destroy(&context);
}

static void note_progress(void *user, const char *label, uint64_t done, uint64_t total) {
    uint64_t *seen = user;
    assert_non_null(label);
    assert_true(done >= seen[0] && done <= total);
    seen[0] = done;
    seen[1] = total;
}

TEST(compiling_reports_progress) {
    kn_context *context = *state;
    small_net net = small_net_make();
    uint64_t seen[2] = {0, 0};
    kn_session_params params;
    kn_session_params_init(&params);
    params.progress = (kn_progress){seen, note_progress};
    kn_session *session = kn_session_create(context, &net.y, 1, &params);
    kn_graph_destroy(&net.graph);
    session_good(session, kn_session_bind(session, "batch", 4));
    session_good(session, kn_session_compile(session, NULL, 0));
    assert_true(seen[0] >= 1 && seen[0] == seen[1]);
    kn_session_destroy(&session);
}

/* A device that a file describes is planned for, by sessions and by steps, and nothing runs. */
TEST(a_described_device_is_only_planned_for) {
    static const char text[] = "koine-target 1\nname None\nkernels gpu\ncompute_units 2\n"
                               "work_group_items 64\nlocal_memory 16KiB\nmemory 1GiB\n"
                               "largest_allocation 256MiB\n";
    char path[] = "/tmp/koine-target-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, sizeof text - 1) == (long)sizeof text - 1);
    close(file);
    kn_context_params params;
    kn_context_params_init(&params);
    params.target = path;
    kn_context *context = kn_context_create(&params);
    unlink(path);
    if (kn_context_status(context) != KN_OK) fail_msg("%s", kn_context_error(context));
    kn_session *session = small_session(context);
    float x[12] = {0}, y[8];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"y", y, sizeof y};
    kn_plan_info info = {.size = sizeof info};
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_write_programs(session, "/tmp/x"), "no plan", NULL);
    session_good(session, kn_session_compile(session, &feed, 1));
    session_good(session, kn_session_plan(session, &info));
    assert_true(info.steps > 0 && info.kernels > 0);
    session_bad(session, KN_ERROR_CANCELLED, kn_session_run(session, &feed, 1, &fetch, 1),
                "None is only described", NULL);
    kn_session_destroy(&session);
    kn_context_destroy(&context);
}

TEST_FILE(test_sessions, device_setup, device_teardown)
