/* States: initial contents, setting and getting, sharing, blocks. */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A session over sums of parameters, so that their states exist. */
static kn_session *session_over(kn_context *context, kn_graph *graph, kn_value **values, size_t count,
                                kn_states *states, uint64_t seed) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    params.seed = seed;
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session *session = kn_session_create(context, values, count, &params);
    assert_non_null(session);
    session_good(session, kn_session_status(session));
    return session;
}

TEST(first_contents_follow_seed_and_name) {
    kn_context *context = *state;
    kn_graph *graph = kn_graph_create(NULL);
    kn_initializer uniform = {KN_INITIALIZER_UNIFORM, 0.3}, normal = {KN_INITIALIZER_NORMAL, 2},
                   fill = {KN_INITIALIZER_FILL, 5};
    kn_value *values[] = {
        kn_exp(kn_parameter(graph, "u", KN_FLOAT32, "5,70001", &uniform)),
        kn_exp(kn_parameter(graph, "n", KN_FLOAT32, "7", &normal)),
        kn_exp(kn_parameter(graph, "f", KN_FLOAT32, "5", &fill)),
        kn_neg(kn_state_add(graph, "i", &(kn_shape){KN_INT32, 1, {300}}, KN_STATE_CONTROL, &fill)),
        kn_exp(kn_parameter(graph, "w", KN_FLOAT32, "10,4", NULL)),
    };
    kn_session *session = session_over(context, graph, values, 5, NULL, 42);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_compile(session, NULL, 0));
    kn_states *states = kn_session_states(session);
    assert_int_equal(kn_states_count(states), 5);
    static float u[5 * 70001];
    float n[7], f[5], w[40];
    int32_t i[300];
    states_good(states, kn_states_get(states, "u", u, sizeof u));
    states_good(states, kn_states_get(states, "n", n, sizeof n));
    states_good(states, kn_states_get(states, "f", f, sizeof f));
    states_good(states, kn_states_get(states, "i", i, sizeof i));
    states_good(states, kn_states_get(states, "w", w, sizeof w));
    for (size_t k = 0; k < 5 * 70001; k++)
        if (u[k] != (2.0f * kn_random_uniform(kn_random_key(42, "u"), k) - 1.0f) * 0.3f)
            fail_msg("u[%zu] is %g", k, (double)u[k]);
    for (size_t k = 0; k < 7; k++)
        assert_true(n[k] == kn_random_normal(kn_random_key(42, "n"), k) * 2.0f);
    for (size_t k = 0; k < 5; k++)
        assert_true(f[k] == 5.0f);
    for (size_t k = 0; k < 300; k++)
        assert_int_equal(i[k], 5);
    for (size_t k = 0; k < 40; k++) /* within 1 / sqrt(elements of a row) */
        assert_true(w[k] == (2.0f * kn_random_uniform(kn_random_key(42, "w"), k) - 1.0f) * 0.5f);
    kn_session_destroy(&session);
}

/* The rows (the columns, if there are fewer) are orthogonal, with the square of the gain as square norm. */
static void check_orthogonal(const float *numbers, int rows, int columns, double gain) {
    bool wide = columns >= rows;
    int count = wide ? rows : columns, length = wide ? columns : rows;
    for (int a = 0; a < count; a++)
        for (int b = 0; b <= a; b++) {
            double sum = 0, expected = a == b ? gain * gain : 0;
            for (int i = 0; i < length; i++)
                sum += (double)numbers[wide ? a * columns + i : i * columns + a] *
                       (double)numbers[wide ? b * columns + i : i * columns + b];
            if (!(fabs(sum - expected) <= 1e-6)) fail_msg("%d and %d: %.9g, not %g", a, b, sum, expected);
        }
}

TEST(normal_numbers_can_be_cut_off_or_straightened) {
    kn_context *context = *state;
    kn_graph *graph = kn_graph_create(NULL);
    const kn_initializer cut = {KN_INITIALIZER_TRUNCATED_NORMAL, 0.5}, right = {KN_INITIALIZER_ORTHOGONAL, 1},
                         half = {KN_INITIALIZER_ORTHOGONAL, 0.5};
    kn_value *values[] = {
        kn_exp(kn_parameter(graph, "t", KN_FLOAT32, "20000", &cut)),
        kn_exp(kn_parameter(graph, "wide", KN_FLOAT32, "7,3,5", &right)),
        kn_exp(kn_parameter(graph, "tall", KN_FLOAT32, "31,9", &half)),
        kn_exp(kn_parameter(graph, "square", KN_FLOAT32, "16,16", &right)),
        kn_exp(kn_parameter(graph, "empty", KN_FLOAT32, "0,4", &right)),
    };
    static float t[20000], again[256], wide[7 * 15], tall[31 * 9], square[256];
    for (int round = 0; round < 3; round++) { /* the same seed, and another */
        kn_session *session = session_over(context, graph, values, 5, NULL, round < 2 ? 42 : 43);
        session_good(session, kn_session_compile(session, NULL, 0));
        kn_states *states = kn_session_states(session);
        states_good(states, kn_states_get(states, "t", t, sizeof t));
        states_good(states, kn_states_get(states, "wide", wide, sizeof wide));
        states_good(states, kn_states_get(states, "tall", tall, sizeof tall));
        states_good(states, kn_states_get(states, "square", square, sizeof square));
        check_orthogonal(wide, 7, 15, 1);
        check_orthogonal(tall, 31, 9, 0.5);
        check_orthogonal(square, 16, 16, 1);
        if (round) assert_true((memcmp(square, again, sizeof square) == 0) == (round == 1));
        memcpy(again, square, sizeof square);
        kn_session_destroy(&session);
    }
    kn_graph_destroy(&graph);
    double sum = 0, squares = 0;
    int far = 0;
    for (int i = 0; i < 20000; i++) {
        assert_true(fabsf(t[i]) <= 1);
        far += fabsf(t[i]) > 0.9f;
        sum += t[i];
        squares += (double)t[i] * t[i];
    }
    /* The deviation of a normal truncated at two deviations is 0.8796 of that of the normal. */
    assert_true(fabs(sum / 20000) < 0.02 && fabs(sqrt(squares / 20000) - 0.5 * 0.8796) < 0.01 && far > 100);
}

TEST(entries_are_listed_in_order) {
    kn_context *context = *state;
    small_net net = small_net_make();
    kn_session *session = session_over(context, net.graph, &net.y, 1, NULL, 0);
    session_good(session, kn_session_bind(session, "batch", 4));
    session_good(session, kn_session_compile(session, NULL, 0));
    kn_states *states = kn_session_states(session);
    kn_tensor_info info;
    assert_int_equal(kn_states_count(states), 2);
    assert_string_equal(kn_states_at(states, 0, &info), "w");
    assert_true(info.dtype == KN_FLOAT32 && info.rank == 2 && info.shape[0] == 3 && info.shape[1] == 2);
    assert_string_equal(kn_states_at(states, 1, NULL), "b");
    assert_null(kn_states_at(states, 2, &info));
    assert_null(kn_states_at(states, -1, &info));
    kn_session_destroy(&session);
    kn_graph_destroy(&net.graph);
}

TEST(what_was_set_before_is_kept) {
    kn_context *context = *state;
    kn_states *states = kn_states_create(context, 1);
    float w[6] = {1, 2, 3, 4, 5, 6}, b[2] = {-1, 1}, got[6];
    kn_tensor_info info = {KN_FLOAT32, 2, {3, 2}};
    states_good(states, kn_states_set(states, "w", &info, w, sizeof w));
    states_good(states, kn_states_get(states, "w", got, sizeof got)); /* not on the device yet */
    assert_memory_equal(got, w, sizeof w);
    small_net net = small_net_make();
    kn_session *session = session_over(context, net.graph, &net.y, 1, states, 9);
    kn_graph_destroy(&net.graph);
    float x[3] = {1, 0, -1}, y[2];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"y", y, sizeof y};
    session_good(session, kn_session_compile(session, &feed, 1));
    states_good(states, kn_states_set(states, "b", NULL, b, sizeof b)); /* queried without memory */
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    assert_true(y[0] == 0.0f && y[1] == 0.0f);
    b[0] = 5;
    states_good(states, kn_states_set(states, "b", NULL, b, sizeof b)); /* on the device */
    session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    assert_true(y[0] == 1.0f && y[1] == 0.0f);
    small_net_check(states, x, 1, y);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
}

TEST(only_changes_are_written) {
    kn_context *context = *state;
    kn_states *states = kn_states_create(context, 1);
    float w[6] = {1, 2, 3, 4, 5, 6}, b[2] = {-1, 1}, got[6];
    kn_tensor_info info = {KN_FLOAT32, 2, {3, 2}};
    bool changed = false;
    states_good(states, kn_states_refresh(states, "w", &info, w, sizeof w, &changed)); /* new */
    assert_true(changed);
    small_net net = small_net_make();
    kn_session *session = session_over(context, net.graph, &net.y, 1, states, 9);
    kn_graph_destroy(&net.graph);
    float x[3] = {1, 0, -1}, y[2];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"y", y, sizeof y};
    session_good(session, kn_session_compile(session, &feed, 1));
    for (int round = 0; round < 3; round++) {
        states_good(states, kn_states_refresh(states, "w", NULL, w, sizeof w, &changed));
        assert_false(changed);
        states_good(states, kn_states_refresh(states, "b", NULL, b, sizeof b, &changed));
        assert_int_equal(changed, round == 0);
        session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
        small_net_check(states, x, 1, y);
    }
    w[5] = -6;
    states_good(states, kn_states_refresh(states, "w", &info, w, sizeof w, &changed));
    assert_true(changed);
    states_good(states, kn_states_get(states, "w", got, sizeof got));
    assert_memory_equal(got, w, sizeof w);
    got[0] = 7; /* written differently: the last written value is gone */
    states_good(states, kn_states_set(states, "w", &info, got, sizeof got));
    states_good(states, kn_states_refresh(states, "w", &info, w, sizeof w, &changed));
    assert_true(changed);
    states_good(states, kn_states_get(states, "w", got, sizeof got));
    assert_memory_equal(got, w, sizeof w);
    info.shape[0] = 2; /* a different shape */
    assert_int_equal(kn_states_refresh(states, "w", &info, w, sizeof w, NULL), KN_ERROR_SHAPE);
    assert_int_equal(kn_states_refresh(states, "w", NULL, w, sizeof w - 4, NULL), KN_ERROR_SHAPE);
    assert_int_equal(kn_states_refresh(states, NULL, NULL, w, sizeof w, NULL), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_states_refresh(NULL, "w", NULL, w, sizeof w, NULL), KN_ERROR_ARGUMENT);
    kn_session_destroy(&session);
    kn_states_destroy(&states);
}

TEST(two_sessions_share_states) {
    kn_context *context = *state;
    kn_states *states = kn_states_create(context, 3);
    small_net net = small_net_make();
    kn_session *one = session_over(context, net.graph, &net.y, 1, states, 0);
    kn_value *twice = kn_add(net.w, net.w);
    kn_name(twice, "twice");
    kn_session *other = session_over(context, net.graph, &twice, 1, states, 0);
    kn_graph_destroy(&net.graph);
    float x[3] = {1, 2, 3}, y[2], w[6] = {1, 1, 2, 2, 3, 3}, doubled[6];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch_y = {"y", y, sizeof y}, fetch_w = {"twice", doubled, sizeof doubled};
    session_good(one, kn_session_run(one, &feed, 1, &fetch_y, 1));
    states_good(states, kn_states_set(states, "w", NULL, w, sizeof w));
    session_good(other, kn_session_run(other, NULL, 0, &fetch_w, 1));
    for (int i = 0; i < 6; i++)
        assert_true(doubled[i] == 2 * w[i]);
    assert_int_equal(kn_states_count(states), 2);
    /* The sessions keep the states alive. */
    kn_states_destroy(&states);
    session_good(one, kn_session_run(one, &feed, 1, &fetch_y, 1));
    small_net_check(kn_session_states(one), x, 1, y);
    kn_session_destroy(&one);
    assert_int_equal(kn_states_count(kn_session_states(other)), 2);
    kn_session_destroy(&other);
}

TEST(mistakes_are_reported) {
    kn_context *context = *state;
    kn_states *states = kn_states_create(context, 3);
    float data[6] = {0};
    kn_tensor_info info = {KN_FLOAT32, 2, {2, 3}}, other = {KN_FLOAT32, 2, {3, 2}},
                   negative = {KN_FLOAT32, 1, {-1}};
    assert_int_equal(kn_states_get(states, "w", data, sizeof data), KN_ERROR_NOT_FOUND);
    assert_non_null(strstr(kn_states_error(states), "'w'"));
    assert_int_equal(kn_states_set(states, "w", NULL, data, sizeof data), KN_ERROR_NOT_FOUND);
    assert_int_equal(kn_states_set(states, "w", &info, data, 20), KN_ERROR_SHAPE);
    assert_non_null(strstr(kn_states_error(states), "24 bytes"));
    assert_int_equal(kn_states_count(states), 0);
    assert_int_not_equal(kn_states_set(states, "w", &negative, data, 4), KN_OK);
    assert_int_equal(kn_states_set(states, "w", &info, NULL, sizeof data), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_states_set(states, NULL, &info, data, sizeof data), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_states_count(states), 0);
    states_good(states, kn_states_set(states, "w", &info, data, sizeof data));
    assert_string_equal(kn_states_error(states), "");
    assert_int_equal(kn_states_set(states, "w", &other, data, sizeof data), KN_ERROR_SHAPE);
    assert_non_null(strstr(kn_states_error(states), "(2,3)"));
    assert_non_null(strstr(kn_states_error(states), "(3,2)"));
    assert_int_equal(kn_states_get(states, "w", data, 4), KN_ERROR_SHAPE);
    /* A session whose graph has a different shape for it. */
    small_net net = small_net_make();
    kn_session *session = session_over(context, net.graph, &net.y, 1, states, 0);
    float x[3] = {0};
    kn_feed feed = {"x", x, sizeof x};
    session_bad(session, KN_ERROR_SHAPE, kn_session_run(session, &feed, 1, NULL, 0), "'w'", "(2,3)", "(3,2)",
                NULL);
    kn_session_destroy(&session);
    kn_graph_destroy(&net.graph);
    kn_states_destroy(&states);
    kn_states_destroy(&states);
}

TEST(states_share_blocks_within_the_limit) {
    for (int limited = 0; limited < 2; limited++) {
        kn_context_params params = device_params();
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        if (limited) debug.largest_block_bytes = 16384;
        kn_context *context = device_open(&params);
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *sum = NULL;
        for (int i = 0; i < 30; i++) {
            char name[16];
            snprintf(name, sizeof name, "p%d", i);
            kn_initializer number = {KN_INITIALIZER_FILL, i};
            kn_value *parameter = kn_parameter(graph, name, KN_FLOAT32, "1000", &number);
            sum = sum ? kn_add(sum, parameter) : parameter;
        }
        kn_name(sum, "sum");
        kn_session *session = session_over(context, graph, &sum, 1, NULL, 0);
        kn_graph_destroy(&graph);
        static float got[1000];
        kn_fetch fetch = {"sum", got, sizeof got};
        session_good(session, kn_session_compile(session, NULL, 0));
        wrapped_reset();
        session_good(session, kn_session_run(session, NULL, 0, &fetch, 1));
        /* 30 states of 4000 bytes: one block, or four in each; and the scratch. */
        assert_in_range(wrapped_calls.buffers, limited ? 9 : 2, limited ? 11 : 2);
        for (int i = 0; i < 1000; i++)
            assert_true(got[i] == 435.0f);
        states_good(kn_session_states(session),
                    kn_states_get(kn_session_states(session), "p29", got, sizeof got));
        assert_true(got[999] == 29.0f);
        kn_session_destroy(&session);
        assert_int_equal(device_counts(context).device_bytes, 0);
        kn_context_destroy(&context);
    }
}

enum { SIDE = 64 };

/* y = relu(x w) + rows of t, picked by an input named like a generated node: x is (2,64), w (64,64), t
 * (64,64), cast1 (2). */
static kn_session *narrow_session(kn_context *context, kn_states *states, kn_dtype w_type, kn_dtype t_type) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "64,64", NULL);
    kn_value *t = kn_parameter(graph, "t", KN_FLOAT32, "64,64", NULL);
    kn_store_as(w, w_type);
    kn_store_as(t, t_type);
    kn_value *product = kn_matmul(kn_input(graph, "x", KN_FLOAT32, "2,64"), w, false, false);
    kn_value *rows =
        kn_apply(graph, "embedding", (kn_value *[]){t, kn_input(graph, "cast1", KN_INT32, "2")}, 2, NULL);
    kn_value *y = kn_name(kn_add(kn_relu(product), rows), "y");
    kn_session *session = session_over(context, graph, &y, 1, states, 4);
    kn_graph_destroy(&graph);
    return session;
}

static void narrow_run(kn_session *session, kn_states *states) {
    static float w[SIDE * SIDE], t[SIDE * SIDE];
    float x[2 * SIDE], y[2 * SIDE];
    const int32_t n[2] = {63, 5};
    fill_numbers(x, 2 * SIDE, 8);
    const kn_feed feeds[] = {{"x", x, sizeof x}, {"cast1", n, sizeof n}};
    kn_fetch fetch = {"y", y, sizeof y};
    session_good(session, kn_session_run(session, feeds, 2, &fetch, 1));
    states_good(states, kn_states_get(states, "w", w, sizeof w));
    states_good(states, kn_states_get(states, "t", t, sizeof t));
    for (int i = 0; i < 2 * SIDE; i++) {
        double sum = 0;
        for (int k = 0; k < SIDE; k++)
            sum += (double)x[i / SIDE * SIDE + k] * (double)w[k * SIDE + i % SIDE];
        sum = (sum > 0 ? sum : 0) + (double)t[n[i / SIDE] * SIDE + i % SIDE];
        if (!(fabs((double)y[i] - sum) <= 1e-5)) fail_msg("y[%d] is %g, expected %g", i, (double)y[i], sum);
    }
}

static kn_plan_info info_of_plan(kn_session *session) {
    kn_plan_info info = {.size = sizeof info};
    session_good(session, kn_session_plan(session, &info));
    return info;
}

/* States stored in 16 bits take half the memory, and no float32 copy is kept. */
TEST(weights_are_stored_narrow) {
    kn_context *context = *state;
    static float w[SIDE * SIDE], got[SIDE * SIDE];
    kn_session *whole = narrow_session(context, NULL, KN_FLOAT32, KN_FLOAT32);
    narrow_run(whole, kn_session_states(whole));
    const kn_plan_info wide = info_of_plan(whole);
    kn_states *states = kn_states_create(context, 4);
    fill_numbers(w, SIDE * SIDE, 3);
    w[1] = 1e6f;
    w[2] = 1.0f / 3;
    const kn_tensor_info info = {KN_FLOAT32, 2, {SIDE, SIDE}};
    states_good(states, kn_states_set(states, "t", &info, w, sizeof w)); /* before it has memory */
    kn_session *session = narrow_session(context, states, KN_FLOAT16, KN_BFLOAT16);
    narrow_run(session, states); /* w as initialized */
    states_good(states, kn_states_get(states, "t", got, sizeof got));
    assert_true(got[1] == 999424.0f && got[2] == 0.333984375f);
    w[1] = 7;
    states_good(states, kn_states_set(states, "w", NULL, w, sizeof w));
    states_good(states, kn_states_get(states, "w", got, sizeof got));
    assert_true(got[1] == 7.0f && got[2] == 0.333251953125f);
    narrow_run(session, states);
    const kn_plan_info narrow = info_of_plan(session);
    assert_int_equal(wide.state_bytes, 2 * SIDE * SIDE * 4);
    assert_int_equal(narrow.state_bytes, SIDE * SIDE * 4);
    assert_int_equal(narrow.kept_bytes, 0);
    assert_true(narrow.peak_bytes <= wide.peak_bytes - SIDE * SIDE * 4);
    kn_session_destroy(&session);
    /* Later sessions use them as they are, unless they need float32. */
    kn_session *other = narrow_session(context, states, KN_FLOAT16, KN_FLOAT32);
    const float x[2 * SIDE] = {0};
    const int32_t n[2] = {0};
    const kn_feed feeds[] = {{"x", x, sizeof x}, {"cast1", n, sizeof n}};
    session_bad(other, KN_ERROR_DTYPE, kn_session_run(other, feeds, 2, NULL, 0), "'t'", "bfloat16", "float32",
                NULL);
    kn_session_destroy(&other);
    kn_states_destroy(&states);
    /* States that are stored in float32 stay so, as do a trainer's states. */
    for (int trained = 0; trained < 2; trained++) {
        states = trained ? kn_states_create(context, 4) : kn_session_states(whole);
        if (trained) kn_states_forbid_narrow(states);
        session = narrow_session(context, states, KN_FLOAT16, KN_BFLOAT16);
        narrow_run(session, states);
        assert_int_equal(info_of_plan(session).state_bytes, wide.state_bytes);
        kn_session_destroy(&session);
        if (trained) kn_states_destroy(&states);
    }
    kn_session_destroy(&whole);
}

/* A precision of 16 bits stores weights so that products read, and tables of such rows: not what else reads.
 */
TEST(a_precision_stores_weights_narrow) {
    kn_context *context = *state;
    for (int precise = 0; precise < 2; precise++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "64,64", NULL);
        kn_value *t = kn_parameter(graph, "t", KN_FLOAT32, "64,64", NULL);
        kn_value *both = kn_parameter(graph, "both", KN_FLOAT32, "64,64", NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2,64"), *n = kn_input(graph, "n", KN_INT32, "2");
        kn_value *rows = kn_apply(graph, "embedding", (kn_value *[]){t, n}, 2, NULL);
        kn_value *y = kn_matmul(kn_add(kn_relu(kn_matmul(x, w, false, true)), rows), both, false, false);
        kn_value *values[] = {kn_name(y, "y"), kn_name(kn_sum(kn_mul(both, both), "0,1", false), "s")};
        kn_session_params params;
        kn_session_params_init(&params);
        params.precision = precise ? KN_PRECISION_FLOAT32 : KN_PRECISION_BFLOAT16;
        kn_session *session = kn_session_create(context, values, 2, &params);
        kn_graph_destroy(&graph);
        session_good(session, kn_session_compile(session, NULL, 0));
        const uint64_t bytes = info_of_plan(session).state_bytes, whole = SIDE * SIDE * 4;
        assert_int_equal(bytes, precise ? 3 * whole : 2 * whole);
        static float numbers[SIDE * SIDE];
        kn_states *states = kn_session_states(session);
        for (int i = 0; i < SIDE * SIDE; i++)
            numbers[i] = 1.0f / 3;
        states_good(states, kn_states_set(states, "w", NULL, numbers, sizeof numbers));
        const int32_t rows_of[2] = {0, 63};
        const kn_feed feeds[] = {{"x", numbers, 2 * SIDE * 4}, {"n", rows_of, sizeof rows_of}};
        session_good(session, kn_session_run(session, feeds, 2, NULL, 0)); /* it takes them into memory */
        states_good(states, kn_states_get(states, "w", numbers, sizeof numbers));
        assert_true(numbers[5] == (precise ? 1.0f / 3 : 0.333984375f));
        kn_session_destroy(&session);
    }
}

TEST(only_weights_are_stored_narrow) {
    for (int i = 0; i < 3; i++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2");
        kn_value *p = kn_parameter(graph, "p", i == 1 ? KN_FLOAT64 : KN_FLOAT32, "2", NULL);
        kn_store_as(i == 0 ? x : p, i == 2 ? KN_INT8 : KN_FLOAT16);
        assert_int_equal(kn_graph_status(graph), i == 2 ? KN_ERROR_DTYPE : KN_ERROR_ARGUMENT);
        assert_non_null(strstr(kn_graph_error(graph), i == 0 ? "'x'" : "'p'"));
        kn_graph_destroy(&graph);
    }
}

enum { CACHED = 8, CACHE_COLUMNS = 6 };

/* A prompt of three rows at once, then row by row: the same as all rows together, with two plans in all. */
TEST(caches_are_kept_between_runs) {
    kn_context *context = *state;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "1,length,6");
    kn_value *start = kn_input(graph, "start", KN_INT32, "1"),
             *lengths = kn_input(graph, "lengths", KN_INT32, "1");
    kn_value *q = kn_scale(x, 1.5), *v = kn_neg(x);
    kn_attention_params params = {.size = sizeof params, .heads = 2, .causal = true};
    kn_value *all = kn_name(kn_attention(q, x, v, &params), "all");
    params.last = true;
    params.lengths = lengths;
    kn_value *keys = kn_kv_cache(x, start, CACHED, "keys"), *values = kn_kv_cache(v, start, CACHED, "values");
    kn_value *step = kn_name(kn_attention(q, keys, values, &params), "step");
    kn_session *whole = session_over(context, graph, &all, 1, NULL, 0);
    kn_session *single = session_over(context, graph, &step, 1, NULL, 0);
    kn_graph_destroy(&graph);
    float numbers[CACHED * CACHE_COLUMNS], expected[CACHED * CACHE_COLUMNS], got[3 * CACHE_COLUMNS];
    fill_numbers(numbers, CACHED * CACHE_COLUMNS, 5);
    kn_feed feed = {"x", numbers, sizeof numbers};
    kn_fetch fetch = {"all", expected, sizeof expected};
    session_good(whole, kn_session_run(whole, &feed, 1, &fetch, 1));
    int kernels = 0;
    for (int round = 0; round < 2; round++) /* the second round overwrites the first */
        for (int32_t first = 0, taken = 3; first < CACHED; first += taken, taken = 1) {
            int32_t length = first + taken;
            size_t bytes = (size_t)taken * CACHE_COLUMNS * sizeof(float);
            kn_feed feeds[3] = {{"x", numbers + first * CACHE_COLUMNS, bytes},
                                {"start", &first, sizeof first},
                                {"lengths", &length, sizeof length}};
            kn_fetch one = {"step", got, bytes};
            session_good(single, kn_session_run(single, feeds, 3, &one, 1));
            for (int i = 0; i < taken * CACHE_COLUMNS; i++)
                if (!(fabsf(got[i] - expected[first * CACHE_COLUMNS + i]) <= 1e-5f))
                    fail_msg("row %d, number %d: %g; expected %g", first, i, (double)got[i],
                             (double)expected[first * CACHE_COLUMNS + i]);
            if (round == 0 && first <= 3) kernels = wrapped_calls.kernels;
        }
    assert_int_equal(wrapped_calls.kernels, kernels);
    kn_session_destroy(&single);
    kn_session_destroy(&whole);
}

TEST_FILE(test_states, device_setup, device_teardown)
