/* The effects of a step: clipping, skipping gradients that are not finite, accumulation, moving averages,
 * groups, frozen parameters, values fetched with the loss. */
#include "train_tests.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* loss = a x0 + b x1 with parameters a and b, which start at 1; the gradients are x0 and x1. */
typedef struct plane {
    kn_graph *graph;
    kn_value *a, *b, *loss;
} plane;

static plane plane_make(void) {
    const kn_initializer one = {KN_INITIALIZER_FILL, 1};
    plane made = {.graph = kn_graph_create(NULL)};
    made.a = kn_parameter(made.graph, "a", KN_FLOAT32, "", &one);
    made.b = kn_parameter(made.graph, "b", KN_FLOAT32, "", &one);
    kn_value *x = kn_input(made.graph, "x0", KN_FLOAT32, ""), *y = kn_input(made.graph, "x1", KN_FLOAT32, "");
    made.loss = kn_add(kn_mul(made.a, x), kn_mul(made.b, y));
    return made;
}

static double plane_step(kn_trainer *trainer, float x, float y) {
    double loss = NAN;
    const kn_feed feeds[] = {{"x0", &x, sizeof x}, {"x1", &y, sizeof y}};
    trainer_good(trainer, kn_trainer_step(trainer, 1, feeds, 2, &loss));
    return loss;
}

static void expect(kn_trainer *trainer, double a, double b) {
    float now[2];
    state_get(kn_trainer_states(trainer), "a", &now[0], 1);
    state_get(kn_trainer_states(trainer), "b", &now[1], 1);
    if (!(fabs(now[0] - a) <= 1e-6 && fabs(now[1] - b) <= 1e-6))
        fail_msg("(%.9g, %.9g), expected (%.9g, %.9g)", (double)now[0], (double)now[1], a, b);
}

static kn_trainer_params plain(void) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    params.learning_rate = 0.5;
    params.momentum = 0;
    return params;
}

TEST(clipping_scales_all_gradients) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    params.clip_norm = 1;
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    assert_true(fabs(plane_step(trainer, 3, 4) - 7) <= 1e-6);
    expect(trainer, 1 - 0.5 * 0.6, 1 - 0.5 * 0.8);
    /* A norm below the limit is not clipped. */
    plane_step(trainer, 0.25f, -0.5f);
    expect(trainer, 0.7 - 0.125, 0.6 + 0.25);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(updates_that_are_not_finite_are_skipped) {
    for (int momentum = 0; momentum < 2; momentum++) {
        plane made = plane_make();
        kn_trainer_params params = plain();
        params.momentum = momentum ? 0.5 : 0;
        params.skip_not_finite = true;
        kn_trainer *trainer = trainer_make(*state, made.loss, &params);
        plane_step(trainer, 1, 2);
        expect(trainer, 0.5, 0);
        assert_true(isinf(plane_step(trainer, INFINITY, 1)));
        expect(trainer, 0.5, 0);
        assert_true(isnan(plane_step(trainer, 1, NAN)));
        expect(trainer, 0.5, 0);
        assert_int_equal(kn_trainer_steps(trainer), 3);
        /* The moments did not change either. */
        plane_step(trainer, 1, 2);
        expect(trainer, momentum ? 0.5 - 0.75 : 0, momentum ? -1.5 : -1);
        kn_trainer_destroy(&trainer);
        kn_graph_destroy(&made.graph);
    }
}

static double loss_scale_of(kn_trainer *trainer) {
    float scale;
    state_get(kn_trainer_states(trainer), "koine.loss_scale", &scale, 1);
    return scale;
}

/* An overflow costs one step; the device detects it without the host. */
TEST(the_loss_scale_follows_overflows) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    const kn_session_params session = {.size = sizeof session, .precision = KN_PRECISION_FLOAT16};
    params.session = &session;
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    for (int step = 0; step < 50; step++)
        plane_step(trainer, step % 2 ? 1 : -1, step % 2 ? -2 : 2);
    expect(trainer, 1, 1);
    assert_true(loss_scale_of(trainer) == 65536);
    plane_step(trainer, INFINITY, 1);
    expect(trainer, 1, 1);
    assert_true(loss_scale_of(trainer) == 32768);
    plane_step(trainer, 1, -2);
    expect(trainer, 0.5, 2);
    assert_true(loss_scale_of(trainer) == 32768);
    /* It grows after 2,000 steps without an overflow. */
    const float good = 1999;
    const kn_tensor_info scalar = {.dtype = KN_FLOAT32};
    assert_int_equal(
        kn_states_set(kn_trainer_states(trainer), "koine.loss_scale.good", &scalar, &good, sizeof good),
        KN_OK);
    plane_step(trainer, -1, 2);
    expect(trainer, 1, 1);
    assert_true(loss_scale_of(trainer) == 65536);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

/* Each element is clipped, then the norm of the result. */
TEST(clipping_limits_elements) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    params.clip_value = 2;
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    plane_step(trainer, 3, -0.5f);
    expect(trainer, 0, 1.25);
    plane_step(trainer, -30, 2);
    expect(trainer, 1, 0.25);
    kn_trainer_destroy(&trainer);
    params.clip_norm = 1;
    params.skip_not_finite = true;
    trainer = trainer_make(*state, made.loss, &params);
    plane_step(trainer, 20, 2); /* clipped to (2,2), and then to norm 1 */
    expect(trainer, 1 - 0.5 * sqrt(0.5), 1 - 0.5 * sqrt(0.5));
    plane_step(trainer, INFINITY, 2);
    expect(trainer, 1 - 0.5 * sqrt(0.5), 1 - 0.5 * sqrt(0.5));
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(gradients_are_accumulated) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    params.accumulate = 3;
    params.skip_not_finite = true;
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    plane_step(trainer, 1, 3);
    plane_step(trainer, 2, 0);
    expect(trainer, 1, 1);
    plane_step(trainer, 3, 6);
    expect(trainer, 0, -0.5);
    /* If one of three gradients is not finite, only that update is skipped. */
    plane_step(trainer, 1, 1);
    plane_step(trainer, 1, NAN);
    plane_step(trainer, 1, 1);
    expect(trainer, 0, -0.5);
    for (int i = 0; i < 3; i++)
        plane_step(trainer, 2, -1);
    expect(trainer, -1, 0);
    assert_int_equal(kn_trainer_steps(trainer), 9);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(averages_replace_weights) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    params.average = 0.75;
    params.skip_not_finite = true;
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    trainer_good(trainer, kn_trainer_use_averages(trainer, true)); /* there are none yet */
    plane_step(trainer, NAN, 1);
    trainer_good(trainer, kn_trainer_use_averages(trainer, true));
    expect(trainer, 1, 1);
    plane_step(trainer, 1, -2); /* (0.5, 2), all of it */
    plane_step(trainer, 1, 2);  /* (0, 1), a quarter of it */
    expect(trainer, 0, 1);
    trainer_good(trainer, kn_trainer_use_averages(trainer, true));
    trainer_good(trainer, kn_trainer_use_averages(trainer, true));
    expect(trainer, 0.375, 1.75);
    const float x = 1;
    const kn_feed feeds[] = {{"x0", &x, sizeof x}, {"x1", &x, sizeof x}};
    assert_int_equal(kn_trainer_step(trainer, 1, feeds, 2, NULL), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_trainer_error(trainer), "kn_trainer_use_averages"));
    /* Another trainer on these states detects that they hold the averages. */
    const kn_session_params session = {.size = sizeof session, .states = kn_trainer_states(trainer)};
    params.session = &session;
    kn_trainer *next = trainer_make(*state, made.loss, &params);
    kn_trainer_destroy(&trainer);
    assert_int_equal(kn_trainer_step(next, 1, feeds, 2, NULL), KN_ERROR_ARGUMENT);
    trainer_good(next, kn_trainer_use_averages(next, false));
    expect(next, 0, 1);
    plane_step(next, 0, 0);
    trainer_good(next, kn_trainer_use_averages(next, true));
    expect(next, 0.75 * 0.375, 0.75 * 1.75 + 0.25);
    kn_trainer_destroy(&next);
    kn_graph_destroy(&made.graph);
}

TEST(groups_are_found_by_name) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    kn_parameter_group groups[] = {{sizeof *groups, "*", 2, 0.5, false}, {sizeof *groups, "?", 1, -1, true}};
    params.weight_decay = 0.1;
    params.groups = groups;
    params.group_count = 1;
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    plane_step(trainer, 1, -2);
    expect(trainer, 1 - 1.5, 1 + 1.5);
    kn_trainer_destroy(&trainer);
    groups[1].pattern = "a*a*"; /* an a, and then an a */
    params.group_count = 2;
    trainer = kn_trainer_create(*state, made.loss, &params);
    assert_int_equal(kn_trainer_status(trainer), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_trainer_error(trainer), "'a*a*' matches none"));
    assert_non_null(strstr(kn_trainer_error(trainer), "such as '"));
    kn_trainer_destroy(&trainer);
    groups[1].pattern = "*a*";
    trainer = trainer_make(*state, made.loss, &params);
    plane_step(trainer, 1, -2);
    expect(trainer, 1, 1 + 1.5);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(settings_out_of_range_are_reported) {
    const struct {
        size_t field;
        double number;
        const char *word;
    } wrong[] = {
        {offsetof(kn_trainer_params, beta2), 1, "beta2 is 1"},
        {offsetof(kn_trainer_params, average), 1, "average is 1"},
        {offsetof(kn_trainer_params, learning_rate), NAN, "learning_rate is nan"},
        {offsetof(kn_trainer_params, clip_value), -1, "clip_value is -1"},
        {offsetof(kn_trainer_params, power), INFINITY, "power is inf"},
    };
    plane made = plane_make();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kn_trainer_params params = plain();
        memcpy((char *)&params + wrong[i].field, &wrong[i].number, sizeof(double));
        kn_trainer *trainer = kn_trainer_create(*state, made.loss, &params);
        assert_int_equal(kn_trainer_status(trainer), KN_ERROR_ARGUMENT);
        if (!strstr(kn_trainer_error(trainer), wrong[i].word)) fail_msg("%s", kn_trainer_error(trainer));
        kn_trainer_destroy(&trainer);
    }
    kn_graph_destroy(&made.graph);
}

TEST(without_skipping_weights_become_nan) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    plane_step(trainer, NAN, 1);
    float a;
    state_get(kn_trainer_states(trainer), "a", &a, 1);
    assert_true(isnan(a));
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(frozen_parameters_stay) {
    plane made = plane_make();
    kn_trainer_params params = plain();
    params.weight_decay = 0.1;
    kn_freeze(made.a);
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    plane_step(trainer, 1, 1);
    expect(trainer, 1, 1 - 0.5 * 1.1);
    kn_trainer_destroy(&trainer);
    kn_freeze(made.b);
    trainer = kn_trainer_create(*state, made.loss, &params);
    double loss;
    float x = 1;
    const kn_feed feeds[] = {{"x0", &x, sizeof x}, {"x1", &x, sizeof x}};
    kn_status status = kn_trainer_step(trainer, 1, feeds, 2, &loss);
    assert_int_equal(status, KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_trainer_error(trainer), "trainable parameter"));
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(values_are_fetched_with_the_loss) {
    small_net net = net_make();
    kn_trainer_params params = adam();
    params.extra = &net.loss.accuracy;
    params.extra_count = 1;
    kn_trainer *trainer = trainer_make(*state, net.loss.value, &params);
    kn_feed feeds[2];
    double loss = NAN;
    float accuracy = NAN;
    kn_fetch fetch = {kn_value_name(net.loss.accuracy), &accuracy, sizeof accuracy};
    samples_feed(0, 10, feeds);
    trainer_good(trainer, kn_trainer_step_fetch(trainer, 10, feeds, 2, &loss, &fetch, 1));
    assert_true(loss > 0 && accuracy >= 0 && accuracy <= 1);
    assert_true(fabs(accuracy * 10 - round((double)accuracy * 10)) < 1e-5);
    kn_trainer_destroy(&trainer);
    net_destroy(&net);
}

/* The last batch of an epoch: a different size, the same states; the mean is over its samples. */
TEST(partial_batches_have_their_mean) {
    small_net net = net_make();
    kn_trainer_params params = adam();
    params.learning_rate = 0;
    kn_trainer *trainer = trainer_make(*state, net.loss.value, &params);
    const char *name = kn_value_name(net.loss.value);
    float all = NAN, most = NAN, last = NAN;
    const int64_t counts[] = {SAMPLES, SAMPLES - 3, 3}, firsts[] = {0, 0, SAMPLES - 3};
    float *const losses[] = {&all, &most, &last};
    for (int i = 0; i < 3; i++) {
        kn_feed feeds[2];
        samples_feed(firsts[i], counts[i], feeds);
        trainer_good(trainer, kn_trainer_step(trainer, counts[i], feeds, 2, NULL));
    }
    assert_int_equal(kn_trainer_steps(trainer), 3);
    for (int i = 0; i < 3; i++) {
        kn_feed feeds[2];
        kn_fetch fetch = {name, losses[i], sizeof(float)};
        samples_feed(firsts[i], counts[i], feeds);
        trainer_good(trainer, kn_trainer_evaluate(trainer, counts[i], feeds, 2, &net.loss.value, &fetch, 1));
    }
    double together = ((double)most * (SAMPLES - 3) + (double)last * 3) / SAMPLES;
    if (!(fabs(together - all) <= 1e-6 * fabs(together)))
        fail_msg("%.9g in two batches, %.9g in one", together, (double)all);
    assert_true(most != last);
    kn_trainer_destroy(&trainer);
    net_destroy(&net);
}

/* An allocator that starts at the same address for each graph. */
static _Alignas(16) unsigned char ground[1 << 20];
static size_t ground_used;
static void *ground_resize(void *user, void *pointer, size_t bytes) {
    if (!bytes) return NULL;
    size_t place = ground_used, before = 0;
    if (sizeof ground - place < bytes + 32) return NULL;
    if (pointer) memcpy(&before, (unsigned char *)pointer - 16, sizeof before);
    memcpy(ground + place, &bytes, sizeof bytes);
    ground_used = place + 16 + (bytes + 15) / 16 * 16;
    if (pointer) memcpy(ground + place + 16, pointer, before < bytes ? before : bytes);
    return ground + place + 16;
}

/* Values of a new graph at the address of an old graph are not mistaken for the old graph's. */
TEST(graphs_at_one_address_are_distinguished) {
    plane made = plane_make();
    kn_trainer *trainer = trainer_make(*state, made.loss, NULL);
    kn_value *places[2];
    for (int i = 0; i < 2; i++) {
        kn_graph_params params = KN_GRAPH_DEFAULTS;
        params.allocator.resize = ground_resize;
        ground_used = 0;
        kn_graph *graph = kn_graph_create(&params);
        kn_value *y = kn_name(kn_scale(kn_input(graph, "x", KN_FLOAT32, ""), i == 0 ? 2 : 3), "y");
        float x = 5, result = 0;
        const kn_feed feed = {"x", &x, sizeof x};
        const kn_fetch fetch = {"y", &result, sizeof result};
        trainer_good(trainer, kn_trainer_evaluate(trainer, 1, &feed, 1, &y, &fetch, 1));
        assert_true(result == (i == 0 ? 10 : 15));
        places[i] = y;
        kn_graph_destroy(&graph);
    }
    assert_ptr_equal(places[0], places[1]);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

/* A trainer keeps its weights in float32, also for queries: small steps are not rounded away. */
TEST(trained_weights_are_float32) {
    plane made = plane_make();
    kn_store_as(made.a, KN_BFLOAT16);
    kn_trainer_params params = plain();
    params.learning_rate = 1e-4;
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    const float x = 1, y = 1;
    float loss = 0;
    const kn_feed feeds[] = {{"x0", &x, sizeof x}, {"x1", &y, sizeof y}};
    const kn_fetch fetch = {kn_value_name(made.loss), &loss, sizeof loss};
    trainer_good(trainer, kn_trainer_evaluate(trainer, 1, feeds, 2, &made.loss, &fetch, 1));
    plane_step(trainer, 1, 1);
    expect(trainer, 1 - 1e-4, 1 - 1e-4);
    trainer_good(trainer, kn_trainer_evaluate(trainer, 1, feeds, 2, &made.loss, &fetch, 1));
    assert_true(fabs((double)loss - (2 - 2e-4)) <= 1e-6);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

TEST(optimizers_list_their_parameters) {
    static const char *const fields[] = {"momentum", "dampening", "nesterov", "amsgrad",    "centered",
                                         "beta1",    "beta2",     "epsilon",  "rate_decay", "accumulator"};
    for (size_t i = 0; i < kn_optimizer_count(); i++) {
        kn_optimizer optimizer = (kn_optimizer)i;
        int read = 0;
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            read += kn_optimizer_reads(optimizer, fields[f]);
        assert_true(read > 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(kn_optimizer_name(optimizer), kn_optimizer_name((kn_optimizer)j));
    }
    assert_string_equal(kn_optimizer_name(KN_OPTIMIZER_ADAMW), "adamw");
    assert_true(kn_optimizer_reads(KN_OPTIMIZER_SGD, "nesterov") &&
                kn_optimizer_reads(KN_OPTIMIZER_SGD, "momentum"));
    assert_false(
        kn_optimizer_reads(KN_OPTIMIZER_LION, "epsilon") || kn_optimizer_reads(KN_OPTIMIZER_LION, "beta") ||
        kn_optimizer_reads(KN_OPTIMIZER_LION, "beta1 beta2") || kn_optimizer_reads(KN_OPTIMIZER_LION, ""));
}

TEST(late_steps_give_the_previous_loss) {
    enum { STEPS = 5 };
    static const float x[STEPS] = {1, -2, 0.5f, 3, 1}, y[STEPS] = {2, 1, -1, 0.25f, 4};
    const kn_trainer_params params = plain();
    double losses[STEPS], late;
    plane made = plane_make(), other = plane_make();
    kn_trainer *trainer = trainer_make(*state, made.loss, &params);
    for (int i = 0; i < STEPS; i++)
        losses[i] = plane_step(trainer, x[i], y[i]);
    float expected[2];
    state_get(kn_trainer_states(trainer), "a", &expected[0], 1);
    state_get(kn_trainer_states(trainer), "b", &expected[1], 1);
    kn_trainer_destroy(&trainer);
    trainer = trainer_make(*state, other.loss, &params);
    for (int i = 0; i < STEPS; i++) {
        const kn_feed feeds[] = {{"x0", &x[i], sizeof x[i]}, {"x1", &y[i], sizeof y[i]}};
        /* Usual steps may come in between; a late one then has the loss of the late one before. */
        if (i == 3) {
            assert_true(plane_step(trainer, x[i], y[i]) == losses[i]);
            continue;
        }
        /* The loss of the step before may be left out. */
        trainer_good(trainer, kn_trainer_step_late(trainer, 1, feeds, 2, i == STEPS - 1 ? NULL : &late));
        if (i == STEPS - 1) continue;
        if (i == 0)
            assert_true(isnan(late));
        else
            assert_true(late == losses[i == 4 ? 2 : i - 1]);
    }
    expect(trainer, expected[0], expected[1]);
    assert_int_equal(kn_trainer_steps(trainer), STEPS);
    const kn_feed none = {"x0", &x[0], sizeof x[0]};
    assert_int_equal(kn_trainer_step_late(trainer, 1, &none, 1, &late), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_trainer_step_late(NULL, 1, &none, 1, &late), KN_ERROR_MEMORY);
    kn_trainer_destroy(&trainer); /* while a loss was not read */
    kn_graph_destroy(&made.graph);
    kn_graph_destroy(&other.graph);
}

TEST_FILE(test_updates, device_setup, device_teardown)
