/* Wrong feeds, names, types and numbers on a device: each call reports the mistake, and the right call after
 * it works on the same session, trainer and context. */
#include "api_tests.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, WIDTH = 3 };

/* y = relu(linear(x)) and a mean squared error against t. */
typedef struct fixture {
    kn_context *context;
    kn_graph *graph;
    kn_value *x, *y, *loss;
    kn_session *session;
    kn_trainer *trainer;
    float numbers[BATCH * WIDTH], targets[BATCH * 2], results[BATCH * 2];
    kn_feed feeds[2];
    kn_fetch fetch;
} fixture;

static int set_up(void **state) {
    static fixture made;
    made = (fixture){.context = device_open(NULL), .graph = kn_graph_create(NULL)};
    made.x = kn_input(made.graph, "x", KN_FLOAT32, "batch,3");
    made.y = kn_name(kn_relu(kn_linear(made.x, 2, NULL)), "y");
    made.loss = kn_name(kn_mse(made.y, kn_input(made.graph, "t", KN_FLOAT32, "batch,2")), "loss");
    if (kn_graph_status(made.graph)) fail_msg("%s", kn_graph_error(made.graph));
    for (int i = 0; i < BATCH * WIDTH; i++)
        made.numbers[i] = (float)(i % 5) - 2;
    made.feeds[0] = (kn_feed){"x", made.numbers, sizeof made.numbers};
    made.feeds[1] = (kn_feed){"t", made.targets, sizeof made.targets};
    made.fetch = (kn_fetch){"y", made.results, sizeof made.results};
    made.session = kn_session_create(made.context, &made.y, 1, NULL);
    made.trainer = kn_trainer_create(made.context, made.loss, NULL);
    if (kn_session_status(made.session)) fail_msg("%s", kn_session_error(made.session));
    if (kn_trainer_status(made.trainer)) fail_msg("%s", kn_trainer_error(made.trainer));
    *state = &made;
    return 0;
}

static int tear_down(void **state) {
    fixture *made = *state;
    kn_session_destroy(&made->session);
    kn_trainer_destroy(&made->trainer);
    kn_graph_destroy(&made->graph);
    device_close(&made->context);
    return 0;
}

/* ---- what every mistake is followed by ------------------------------------------------------- */

static void session_works(fixture *made) {
    made->results[0] = -1;
    kn_status status = kn_session_run(made->session, made->feeds, 1, &made->fetch, 1);
    if (status != KN_OK) fail_msg("%s", kn_session_error(made->session));
    assert_string_equal(kn_session_error(made->session), "");
    assert_true(made->results[0] >= 0);
}

static void trainer_works(fixture *made) {
    double loss = NAN;
    kn_status status = kn_trainer_step(made->trainer, BATCH, made->feeds, 2, &loss);
    if (status != KN_OK) fail_msg("%s", kn_trainer_error(made->trainer));
    assert_string_equal(kn_trainer_error(made->trainer), "");
    assert_true(loss >= 0);
}

static void say(kn_status status, kn_status expected, const char *text, const char *word) {
    if (status != expected)
        fail_msg("%s instead of %s: %s", kn_status_name(status), kn_status_name(expected), text);
    if (!strstr(text, word)) fail_msg("'%s' is missing in: %s", word, text);
}

static void wrong_run(fixture *made, const kn_feed *feeds, size_t feed_count, const kn_fetch *fetches,
                      size_t fetch_count, kn_status expected, const char *word) {
    kn_status status = kn_session_run(made->session, feeds, feed_count, fetches, fetch_count);
    say(status, expected, kn_session_error(made->session), word);
    session_works(made);
}

static void wrong_step(fixture *made, int64_t count, const kn_feed *feeds, size_t feed_count,
                       kn_status expected, const char *word) {
    uint64_t steps = kn_trainer_steps(made->trainer);
    kn_status status = kn_trainer_step(made->trainer, count, feeds, feed_count, NULL);
    say(status, expected, kn_trainer_error(made->trainer), word);
    assert_int_equal(kn_trainer_steps(made->trainer), steps);
    trainer_works(made);
}

/* ---- sessions -------------------------------------------------------------------------------- */

TEST(feeds_of_sessions) {
    fixture *made = *state;
    const kn_fetch *fetch = &made->fetch;
    kn_feed feed = made->feeds[0], both[2] = {feed, feed};
    session_works(made);
    wrong_run(made, NULL, 0, fetch, 1, KN_ERROR_NOT_FOUND, "'batch'");
    wrong_run(made, NULL, 1, fetch, 1, KN_ERROR_ARGUMENT, "NULL");
    wrong_run(made, both, 2, fetch, 1, KN_ERROR_ARGUMENT, "'x'");
    feed.bytes -= 1;
    wrong_run(made, &feed, 1, fetch, 1, KN_ERROR_SHAPE, "47");
    feed.bytes = 0;
    feed.data = NULL;
    wrong_run(made, &feed, 1, fetch, 1, KN_ERROR_SHAPE, "y");
    feed = made->feeds[0];
    feed.data = NULL;
    wrong_run(made, &feed, 1, fetch, 1, KN_ERROR_ARGUMENT, "'x'");
    feed = (kn_feed){"xx", made->numbers, sizeof made->numbers};
    wrong_run(made, &feed, 1, fetch, 1, KN_ERROR_NOT_FOUND, "x");
    feed.name = NULL;
    wrong_run(made, &feed, 1, fetch, 1, KN_ERROR_ARGUMENT, "name");
    feed = (kn_feed){"x", made->numbers, SIZE_MAX / 16 * 12};
    assert_true(kn_session_run(made->session, &feed, 1, fetch, 1) != KN_OK);
    session_works(made);
}

/* Enumerators that this library does not have. */
TEST(unknown_choices) {
    fixture *made = *state;
    for (int i = 0; i < 3; i++) {
        const int unknown[] = {4, 3, 2};
        const char *const names[] = {"precision", "recompute", "activations"};
        kn_session_params params = KN_SESSION_DEFAULTS;
        if (i == 0) params.precision = (kn_precision)unknown[i];
        if (i == 1) params.recompute = (kn_recompute)unknown[i];
        if (i == 2) params.activations = (kn_activations)unknown[i];
        kn_session *bad = kn_session_create(made->context, &made->y, 1, &params);
        assert_int_equal(kn_session_status(bad), KN_ERROR_ARGUMENT);
        assert_non_null(strstr(kn_session_error(bad), names[i]));
        kn_session_destroy(&bad);
    }
    session_works(made);
}

TEST(fetches_of_sessions) {
    fixture *made = *state;
    kn_fetch fetch = made->fetch;
    wrong_run(made, made->feeds, 1, NULL, 1, KN_ERROR_ARGUMENT, "NULL");
    fetch.bytes++;
    wrong_run(made, made->feeds, 1, &fetch, 1, KN_ERROR_SHAPE, "33");
    fetch.bytes = 4;
    wrong_run(made, made->feeds, 1, &fetch, 1, KN_ERROR_SHAPE, "32");
    fetch = (kn_fetch){"z", made->results, sizeof made->results};
    wrong_run(made, made->feeds, 1, &fetch, 1, KN_ERROR_NOT_FOUND, "'z'");
    fetch.name = NULL;
    wrong_run(made, made->feeds, 1, &fetch, 1, KN_ERROR_ARGUMENT, "name");
    fetch = (kn_fetch){"y", NULL, sizeof made->results};
    wrong_run(made, made->feeds, 1, &fetch, 1, KN_ERROR_ARGUMENT, "'y'");
}

TEST(the_rest_of_sessions) {
    fixture *made = *state;
    kn_session *session = made->session;
    kn_tensor_info info;
    kn_plan_info plan = {.size = 0};
    kn_session *fresh = kn_session_create(made->context, &made->y, 1, NULL);
    assert_true(kn_session_info(fresh, "y", &info) != KN_OK);
    assert_null(kn_session_plan_text(fresh));
    assert_true(strlen(kn_session_error(fresh)) > 0);
    kn_session_destroy(&fresh);
    session_works(made);
    say(kn_session_bind(session, "bach", 3), KN_ERROR_NOT_FOUND, kn_session_error(session), "'bach'");
    say(kn_session_bind(session, NULL, 3), KN_ERROR_ARGUMENT, kn_session_error(session), "NULL");
    assert_true(kn_session_bind(session, "batch", -3) != KN_OK);
    session_works(made);
    assert_true(kn_session_info(session, NULL, &info) != KN_OK);
    assert_true(kn_session_info(session, "y", NULL) != KN_OK);
    say(kn_session_info(session, "z", &info), KN_ERROR_NOT_FOUND, kn_session_error(session), "'z'");
    assert_true(kn_session_plan(session, NULL) != KN_OK);
    assert_true(kn_session_plan(session, &plan) != KN_OK);
    assert_true(kn_session_feed_buffer(session, "x", NULL) != KN_OK);
    assert_true(kn_session_fetch_buffer(session, NULL, NULL) != KN_OK);
    session_works(made);
    kn_value *twice[] = {made->y, NULL};
    const struct {
        kn_value *const *values;
        size_t count;
    } wrong[] = {{NULL, 0}, {NULL, 2}, {twice, 0}, {twice, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_session *bad = kn_session_create(made->context, wrong[i].values, wrong[i].count, NULL);
        say(kn_session_status(bad), KN_ERROR_ARGUMENT, kn_session_error(bad), "value");
        say(kn_session_run(bad, made->feeds, 1, &made->fetch, 1), KN_ERROR_ARGUMENT, kn_session_error(bad),
            "value");
        kn_session_destroy(&bad);
    }
    session_works(made);
}

TEST(limits_and_variants) {
    fixture *made = *state;
    kn_session_params params;
    kn_session_params_init(&params);
    params.memory_bytes = 16;
    kn_session *session = kn_session_create(made->context, &made->y, 1, &params);
    say(kn_session_run(session, made->feeds, 1, &made->fetch, 1), KN_ERROR_DEVICE_MEMORY,
        kn_session_error(session), "16");
    kn_session_destroy(&session);
    kn_session_params_init(&params);
    params.switches = "matmul=nonesuch";
    session = kn_session_create(made->context, &made->y, 1, &params);
    assert_true(kn_session_run(session, made->feeds, 1, &made->fetch, 1) != KN_OK);
    assert_non_null(strstr(kn_session_error(session), "nonesuch"));
    kn_session_destroy(&session);
    session_works(made);
}

/* A batch that does not fit the memory of any device: an error when it is planned, then smaller ones work. */
TEST(more_than_the_device_has) {
    fixture *made = *state;
    kn_session *session = kn_session_create(made->context, &made->y, 1, NULL);
    assert_int_equal(kn_session_bind(session, "batch", INT64_C(1) << 45), KN_OK);
    kn_status status = kn_session_compile(session, NULL, 0);
    assert_true(status == KN_ERROR_UNSUPPORTED || status == KN_ERROR_DEVICE_MEMORY);
    assert_true(strlen(kn_session_error(session)) > 10);
    kn_session_bind(session, "batch", INT64_MAX);
    assert_true(kn_session_compile(session, NULL, 0) != KN_OK);
    assert_int_equal(kn_session_bind(session, "batch", BATCH), KN_OK);
    assert_int_equal(kn_session_run(session, made->feeds, 1, &made->fetch, 1), KN_OK);
    kn_session_destroy(&session);
}

/* ---- states ---------------------------------------------------------------------------------- */

TEST(wrong_states) {
    fixture *made = *state;
    session_works(made);
    kn_states *states = kn_session_states(made->session);
    const char *name = kn_states_at(states, 0, NULL);
    float weight[WIDTH * 2];
    const kn_tensor_info other = {KN_FLOAT32, 2, {3, 2}}, typed = {KN_INT32, 2, {2, 3}},
                         deep = {KN_FLOAT32, 99, {1}};
    assert_non_null(name);
    assert_null(kn_states_at(states, -1, NULL));
    assert_null(kn_states_at(states, kn_states_count(states), NULL));
    say(kn_states_get(states, "nothing", weight, 4), KN_ERROR_NOT_FOUND, kn_states_error(states),
        "'nothing'");
    say(kn_states_get(states, NULL, weight, 4), KN_ERROR_ARGUMENT, kn_states_error(states), "NULL");
    say(kn_states_get(states, "linear1.weight", NULL, sizeof weight), KN_ERROR_ARGUMENT,
        kn_states_error(states), "NULL");
    say(kn_states_get(states, "linear1.weight", weight, 5), KN_ERROR_SHAPE, kn_states_error(states), "24");
    say(kn_states_set(states, "linear1.weight", NULL, weight, 20), KN_ERROR_SHAPE, kn_states_error(states),
        "24");
    say(kn_states_set(states, "linear1.weight", &other, weight, sizeof weight), KN_ERROR_SHAPE,
        kn_states_error(states), "(3,2)");
    say(kn_states_set(states, "linear1.weight", &typed, weight, sizeof weight), KN_ERROR_DTYPE,
        kn_states_error(states), "int32");
    say(kn_states_set(states, "new", NULL, weight, 4), KN_ERROR_NOT_FOUND, kn_states_error(states), "'new'");
    say(kn_states_set(states, "new", &deep, weight, 4), KN_ERROR_ARGUMENT, kn_states_error(states), "'new'");
    assert_int_equal(kn_states_get(states, "linear1.weight", weight, sizeof weight), KN_OK);
    assert_string_equal(kn_states_error(states), "");
    session_works(made);
    /* States of a different context. */
    kn_context *second = device_open(NULL);
    kn_states *foreign = kn_states_create(second, 1);
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = foreign;
    kn_session *session = kn_session_create(made->context, &made->y, 1, &params);
    say(kn_session_status(session), KN_ERROR_ARGUMENT, kn_session_error(session), "different context");
    kn_session_destroy(&session);
    kn_states_destroy(&foreign);
    device_close(&second);
}

/* ---- trainers -------------------------------------------------------------------------------- */

TEST(steps_of_trainers) {
    fixture *made = *state;
    kn_feed feeds[2] = {made->feeds[0], made->feeds[1]};
    trainer_works(made);
    wrong_step(made, 0, feeds, 2, KN_ERROR_ARGUMENT, "0");
    wrong_step(made, -1, feeds, 2, KN_ERROR_ARGUMENT, "-1");
    wrong_step(made, BATCH - 1, feeds, 2, KN_ERROR_SHAPE, "'x'");
    wrong_step(made, BATCH, feeds, 1, KN_ERROR_ARGUMENT, "'t'");
    wrong_step(made, BATCH, NULL, 2, KN_ERROR_ARGUMENT, "NULL");
    feeds[1].bytes = sizeof(float);
    wrong_step(made, BATCH, feeds, 2, KN_ERROR_SHAPE, "'t'");
    feeds[1].name = "target";
    wrong_step(made, BATCH, feeds, 2, KN_ERROR_NOT_FOUND, "'target'");
    kn_fetch fetch = {"y", made->results, sizeof made->results};
    assert_true(kn_trainer_step_fetch(made->trainer, BATCH, made->feeds, 2, NULL, NULL, 3) != KN_OK);
    assert_true(kn_trainer_step_fetch(made->trainer, BATCH, made->feeds, 2, NULL, &fetch, 1000) != KN_OK);
    say(kn_trainer_step_fetch(made->trainer, BATCH, made->feeds, 2, NULL, &fetch, 1), KN_ERROR_NOT_FOUND,
        kn_trainer_error(made->trainer), "'y'");
    trainer_works(made);
}

TEST(the_rest_of_trainers) {
    fixture *made = *state;
    kn_trainer *trainer = made->trainer;
    kn_fetch fetch = {"y", made->results, sizeof made->results};
    kn_value *none = NULL;
    trainer_works(made);
    assert_true(kn_trainer_evaluate(trainer, BATCH, made->feeds, 1, NULL, &fetch, 1) != KN_OK);
    assert_true(kn_trainer_evaluate(trainer, BATCH, made->feeds, 1, &made->y, NULL, 1) != KN_OK);
    assert_true(kn_trainer_evaluate(trainer, BATCH, made->feeds, 1, &made->y, &fetch, 0) != KN_OK);
    assert_true(kn_trainer_evaluate(trainer, BATCH, made->feeds, 1, &none, &fetch, 1) != KN_OK);
    assert_true(kn_trainer_evaluate(trainer, 0, made->feeds, 1, &made->y, &fetch, 1) != KN_OK);
    assert_true(kn_trainer_evaluate(trainer, BATCH, NULL, 0, &made->y, &fetch, 1) != KN_OK);
    assert_true(strlen(kn_trainer_error(trainer)) > 0);
    assert_int_equal(kn_trainer_evaluate(trainer, BATCH, made->feeds, 1, &made->y, &fetch, 1), KN_OK);
    assert_true(kn_trainer_compile(trainer, 0) != KN_OK);
    assert_true(kn_trainer_compile_for(trainer, BATCH, NULL, 1) != KN_OK);
    assert_true(kn_trainer_plan(trainer, NULL) != KN_OK);
    assert_true(kn_trainer_find_not_finite(trainer, BATCH, NULL, 0, NULL, 0) != KN_OK);
    assert_true(kn_trainer_find_not_finite(trainer, BATCH, made->feeds, 2, NULL, 8) != KN_OK);
    trainer_works(made);
}

TEST(trainers_that_cannot_be) {
    fixture *made = *state;
    const kn_session_params switched = {.size = sizeof switched, .switches = "matmul=nonesuch"};
    const kn_session_params sizeless = {.size = 0};
    const struct {
        kn_trainer_params params;
        const char *word;
    } wrong[] = {
        {{.learning_rate = -1}, "-1"},
        {{.learning_rate = NAN}, "learning_rate"},
        {{.learning_rate = INFINITY}, "learning_rate"},
        {{.momentum = 1}, "momentum"},
        {{.momentum = NAN}, "momentum"},
        {{.nesterov = true}, "Nesterov"},
        {{.beta1 = 1}, "beta"},
        {{.beta2 = -0.1}, "beta"},
        {{.clip_norm = -1}, "clip_norm"},
        {{.weight_decay = NAN}, "decay"},
        {{.optimizer = (kn_optimizer)99}, "optimizer"},
        {{.schedule = (kn_schedule)9}, "schedule"},
        {{.extra_count = 2}, "NULL"},
        {{.session = &switched}, "nonesuch"},
        {{.session = &sizeless}, "size"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_trainer_params params = wrong[i].params;
        params.size = sizeof params;
        kn_trainer *trainer = kn_trainer_create(made->context, made->loss, &params);
        kn_status status = kn_trainer_step(trainer, BATCH, made->feeds, 2, NULL);
        if (status == KN_OK) fail_msg("case %zu is accepted", i);
        if (!strstr(kn_trainer_error(trainer), wrong[i].word))
            fail_msg("case %zu: '%s' is missing in: %s", i, wrong[i].word, kn_trainer_error(trainer));
        kn_trainer_destroy(&trainer);
    }
    /* A loss that is not a scalar, and one without trainable parameters. */
    kn_trainer *trainer = kn_trainer_create(made->context, made->y, NULL);
    say(kn_trainer_status(trainer), KN_ERROR_SHAPE, kn_trainer_error(trainer), "scalar");
    kn_trainer_destroy(&trainer);
    trainer = kn_trainer_create(made->context, kn_mean(made->x, NULL, false), NULL);
    say(kn_trainer_step(trainer, BATCH, made->feeds, 1, NULL), KN_ERROR_ARGUMENT, kn_trainer_error(trainer),
        "trainable parameter");
    kn_trainer_destroy(&trainer);
    trainer_works(made);
}

/* ---- contexts -------------------------------------------------------------------------------- */

TEST(wrong_contexts) {
    fixture *made = *state;
    static const char *const devices[] = {"99", "7:0", "0:99", "-1", "1:", "nonesuch", "0:0:0"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        kn_context_params params = device_params();
        params.device = devices[i];
        kn_context *context = kn_context_create(&params);
        if (kn_context_status(context) == KN_OK) fail_msg("the device '%s' was found", devices[i]);
        if (!strstr(kn_context_error(context), devices[i])) fail_msg("%s", kn_context_error(context));
        kn_context_destroy(&context);
    }
    kn_context_params params = device_params();
    params.kernel_folder = "/no/such/folder";
    params.cache_folder = NULL;
    kn_context *context = kn_context_create(&params);
    kn_session *session = kn_session_create(context, &made->y, 1, NULL);
    assert_true(kn_session_run(session, made->feeds, 1, &made->fetch, 1) != KN_OK);
    assert_non_null(strstr(kn_session_error(session), "/no/such/folder"));
    kn_session_destroy(&session);
    kn_context_destroy(&context);
    /* A cache that cannot be created is not an error. */
    params = device_params();
    params.cache_folder = "/proc/no/such/place";
    context = device_open(&params);
    device_close(&context);
    params.size = 0;
    context = kn_context_create(&params);
    kn_context_destroy(&context);
    kn_context_counts counts = {.size = 1};
    assert_true(kn_context_get_counts(made->context, NULL) != KN_OK);
    assert_true(kn_context_get_counts(made->context, &counts) != KN_OK);
    session_works(made);
}

TEST(wrong_verification) {
    fixture *made = *state;
    int passed = 5, failed = 5;
    kn_verify_params params;
    kn_verify_params_init(&params);
    assert_int_equal(kn_verify_case_at(made->context, -1, &params), KN_ERROR_NOT_FOUND);
    assert_int_equal(kn_verify_case_at(made->context, kn_verify_case_count(), &params), KN_ERROR_NOT_FOUND);
    params.operators = "nonesuch";
    assert_int_equal(kn_verify(made->context, &params, &passed, &failed), KN_ERROR_NOT_FOUND);
    params.operators = "relu";
    params.thoroughness = 2;
    assert_int_equal(kn_verify(made->context, &params, &passed, &failed), KN_OK);
    assert_true(passed >= 1 && failed == 0);
    session_works(made);
}

TEST(wrong_evaluations) {
    fixture *made = *state;
    kn_score score = KN_SCORE_DEFAULTS;
    const kn_dataset_array arrays[] = {
        {"x", {KN_FLOAT32, 1, {WIDTH}}, made->numbers, sizeof made->numbers, KN_FLOAT32, 0},
        {"t", {KN_FLOAT32, 1, {2}}, made->targets, sizeof made->targets, KN_FLOAT32, 0},
    };
    kn_dataset *data = kn_dataset_create_from_arrays(BATCH, arrays, 2, 0, NULL);
    kn_session *evaluator = kn_session_create(made->context, &made->loss, 1, NULL);
    assert_true(kn_evaluate(evaluator, NULL, BATCH, "loss", NULL, &score) != KN_OK);
    assert_true(kn_evaluate(evaluator, data, 0, "loss", NULL, &score) != KN_OK);
    assert_true(kn_evaluate(evaluator, data, BATCH, NULL, NULL, &score) != KN_OK);
    assert_true(kn_evaluate(evaluator, data, BATCH, "loss", NULL, NULL) != KN_OK);
    say(kn_evaluate(evaluator, data, BATCH, "lost", NULL, &score), KN_ERROR_NOT_FOUND,
        kn_session_error(evaluator), "'lost'");
    say(kn_evaluate(evaluator, data, BATCH, "loss", "accurate", &score), KN_ERROR_NOT_FOUND,
        kn_session_error(evaluator), "'accurate'");
    assert_int_equal(kn_evaluate(evaluator, data, BATCH, "loss", NULL, &score), KN_OK);
    assert_int_equal(score.samples, BATCH);
    assert_true(isnan(score.accuracy) && score.loss >= 0);
    kn_session_destroy(&evaluator);
    kn_dataset_destroy(&data);
}

/* Also by the loss of a large vocabulary (cross_entropy_of_product): without an ignored class, the smallest
 * int32 is not one either. */
TEST(targets_of_a_large_vocabulary) {
    fixture *made = *state;
    static const float x[2] = {1, -2};
    kn_model *model = kn_model_parse("koine 1\nloss cross-entropy\ninput x 1\nlinear 5000 bias=no\n", NULL);
    kn_model_loss added = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, NULL, &added) != KN_OK) fail_msg("%s", kn_model_error(model));
    kn_session *session = kn_session_create(made->context, &added.value, 1, NULL);
    for (int i = 0; i < 4; i++) {
        const int32_t y[2] = {4999, i == 0 ? INT32_MIN : i == 1 ? -1 : i == 2 ? 5000 : 0};
        const kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
        float loss = NAN;
        const kn_fetch fetch = {kn_value_name(added.value), &loss, sizeof loss};
        const kn_status status = kn_session_run(session, feeds, 2, &fetch, 1);
        if (i < 3)
            say(status, KN_ERROR_ARGUMENT, kn_session_error(session), "cross_entropy_of_product");
        else
            assert_true(status == KN_OK && loss > 0 && loss < INFINITY);
    }
    kn_session_destroy(&session);
    kn_model_destroy(&model);
}

TEST_FILE(test_wrong_runs, set_up, tear_down)
