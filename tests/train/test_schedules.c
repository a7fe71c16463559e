/* Learning rates and momentum over the steps: what the trainer reports, and what updates show. */
#include "train_tests.h"

#include <math.h>
#include <string.h>

/* loss = w · mean(x), whose gradient by w is mean(x). */
static kn_value *line_loss(kn_graph *graph) {
    const kn_initializer one = {KN_INITIALIZER_FILL, 1};
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch");
    return kn_mean(kn_mul(kn_parameter(graph, "w", KN_FLOAT32, "", &one), x), NULL, false);
}

static void check_rates(kn_context *context, const kn_trainer_params *params, const double *rates,
                        int count) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_trainer *trainer = trainer_make(context, line_loss(graph), params);
    const float x[2] = {2, 4}; /* the gradient is 3 */
    const kn_feed feed = {"x", x, sizeof x};
    double w = 1;
    for (int step = 0; step < count; step++) {
        double rate = kn_trainer_learning_rate(trainer);
        float now;
        if (!(fabs(rate - rates[step]) <= 1e-12))
            fail_msg("step %d: %.17g, expected %.17g", step, rate, rates[step]);
        trainer_good(trainer, kn_trainer_step(trainer, 2, &feed, 1, NULL));
        w -= 3 * rates[step];
        state_get(kn_trainer_states(trainer), "w", &now, 1);
        if (!(fabs(now - w) <= 1e-6)) fail_msg("step %d: w is %.9g, expected %.9g", step, (double)now, w);
    }
    kn_trainer_set_steps(trainer, 1);
    assert_true(fabs(kn_trainer_learning_rate(trainer) - rates[1]) <= 1e-12);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
}

static kn_trainer_params plain(double rate) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    params.learning_rate = rate;
    params.momentum = 0;
    return params;
}

TEST(constant) {
    const double rates[] = {0.125, 0.125, 0.125};
    const kn_trainer_params params = plain(0.125);
    check_rates(*state, &params, rates, 3);
}

TEST(steps) {
    const double rates[] = {0.5, 0.5, 0.25, 0.25, 0.125, 0.125};
    kn_trainer_params params = plain(0.5);
    params.schedule = KN_SCHEDULE_STEP;
    params.step_every = 2;
    params.step_factor = 0.5;
    check_rates(*state, &params, rates, 6);
}

TEST(warm_up_then_cosine) {
    /* Two steps of warm-up, then from 0.4 down to a tenth of it over four steps; then it stays there. */
    const double half = 0.70710678118654752440, low = 0.04, span = 0.36;
    const double rates[] = {
        0.2, 0.4, 0.4, low + span * (1 + half) / 2, low + span / 2, low + span * (1 - half) / 2, low, low};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_COSINE;
    params.warmup_steps = 2;
    params.total_steps = 6;
    params.final_fraction = 0.1;
    check_rates(*state, &params, rates, 8);
}

TEST(warm_up_then_constant) {
    const double rates[] = {0.1, 0.2, 0.3, 0.4, 0.4, 0.4};
    kn_trainer_params params = plain(0.4);
    params.warmup_steps = 4;
    check_rates(*state, &params, rates, 6);
}

/* The gradient of w is 3 and that of v is 1; only v is in the group, and only v decays. */
TEST(rates_set_by_the_caller) {
    const kn_initializer one = {KN_INITIALIZER_FILL, 1};
    kn_parameter_group group = KN_PARAMETER_GROUP_DEFAULTS;
    group.pattern = "v";
    group.weight_decay = 0.5;
    kn_trainer_params params = plain(1);
    params.groups = &group;
    params.group_count = 1;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *loss = kn_add(line_loss(graph), kn_parameter(graph, "v", KN_FLOAT32, "", &one));
    kn_trainer *trainer = trainer_make(*state, loss, &params);
    const float x[2] = {2, 4};
    const kn_feed feed = {"x", x, sizeof x};
    const double rates[][2] = {{0.25, 0.5}, {0.125, 2}, {0, 4}};
    double w = 1, v = 1;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        float now[2];
        trainer_good(trainer, kn_trainer_set_learning_rate(trainer, -1, rates[i][0]));
        trainer_good(trainer, kn_trainer_set_learning_rate(trainer, 0, rates[i][1]));
        assert_true(kn_trainer_learning_rate(trainer) == rates[i][0]);
        trainer_good(trainer, kn_trainer_step(trainer, 2, &feed, 1, NULL));
        w -= rates[i][0] * 3;
        v -= rates[i][0] * rates[i][1] * (1 + 0.5 * v);
        state_get(kn_trainer_states(trainer), "w", &now[0], 1);
        state_get(kn_trainer_states(trainer), "v", &now[1], 1);
        assert_true(fabs(now[0] - w) <= 1e-6 && fabs(now[1] - v) <= 1e-6);
    }
    assert_int_equal(kn_trainer_set_learning_rate(trainer, 1, 1), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_trainer_error(trainer), "group 1"));
    assert_int_equal(kn_trainer_set_learning_rate(trainer, -2, 1), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_trainer_set_learning_rate(trainer, -1, NAN), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_trainer_set_learning_rate(trainer, 0, -1), KN_ERROR_ARGUMENT);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
}

/* The gradient of w is 3 and that of v is 1; v has its own momentum. */
TEST(momentum_set_by_the_caller) {
    const kn_initializer one = {KN_INITIALIZER_FILL, 1};
    kn_parameter_group group = KN_PARAMETER_GROUP_DEFAULTS;
    group.pattern = "v";
    kn_trainer_params params = plain(0.125);
    params.groups = &group;
    params.group_count = 1;
    params.variable_momentum = true;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *loss = kn_add(line_loss(graph), kn_parameter(graph, "v", KN_FLOAT32, "", &one));
    kn_trainer *trainer = trainer_make(*state, loss, &params);
    const float x[2] = {2, 4};
    const kn_feed feed = {"x", x, sizeof x};
    const double momenta[][2] = {{0.5, 0.9}, {0.25, 0}, {0, 0.75}, {0.95, 0.75}};
    double w = 1, v = 1, w_velocity = 0, v_velocity = 0;
    for (size_t i = 0; i < sizeof momenta / sizeof *momenta; i++) {
        float now[2];
        trainer_good(trainer, kn_trainer_set_momentum(trainer, -1, momenta[i][0], 0));
        trainer_good(trainer, kn_trainer_set_momentum(trainer, 0, momenta[i][1], 0));
        trainer_good(trainer, kn_trainer_step(trainer, 2, &feed, 1, NULL));
        w -= 0.125 * (w_velocity = momenta[i][0] * w_velocity + 3);
        v -= 0.125 * (v_velocity = momenta[i][1] * v_velocity + 1);
        state_get(kn_trainer_states(trainer), "w", &now[0], 1);
        state_get(kn_trainer_states(trainer), "v", &now[1], 1);
        assert_true(fabs(now[0] - w) <= 1e-6 && fabs(now[1] - v) <= 1e-6);
    }
    assert_int_equal(kn_trainer_set_momentum(trainer, 1, 0.5, 0), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_trainer_error(trainer), "group 1"));
    assert_int_equal(kn_trainer_set_momentum(trainer, -1, 1, 0), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_trainer_set_momentum(trainer, -1, 0.5, -0.5), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_trainer_set_momentum(trainer, -1, NAN, 0), KN_ERROR_ARGUMENT);
    kn_trainer_destroy(&trainer);
    params.variable_momentum = false;
    trainer = trainer_make(*state, loss, &params);
    assert_int_equal(kn_trainer_set_momentum(trainer, -1, 0.5, 0), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_trainer_error(trainer), "variable_momentum"));
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
}

/* Adam with the gradient 3. The bias corrections use the betas of the step, as PyTorch does. */
TEST(betas_set_by_the_caller) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    params.learning_rate = 0.1;
    params.variable_momentum = true;
    kn_graph *graph = kn_graph_create(NULL);
    kn_trainer *trainer = trainer_make(*state, line_loss(graph), &params);
    const float x[2] = {2, 4};
    const kn_feed feed = {"x", x, sizeof x};
    const double betas[][2] = {{0.95, 0.999}, {0.9, 0.99}, {0.85, 0.999}, {0.5, 0.9}};
    double w = 1, mean = 0, square = 0;
    for (size_t i = 0; i < sizeof betas / sizeof *betas; i++) {
        const double beta1 = betas[i][0], beta2 = betas[i][1], count = (double)i + 1;
        float now;
        trainer_good(trainer, kn_trainer_set_momentum(trainer, -1, beta1, beta2));
        trainer_good(trainer, kn_trainer_step(trainer, 2, &feed, 1, NULL));
        mean = beta1 * mean + (1 - beta1) * 3;
        square = beta2 * square + (1 - beta2) * 9;
        w -= 0.1 * mean / (1 - pow(beta1, count)) / (sqrt(square / (1 - pow(beta2, count))) + 1e-8);
        state_get(kn_trainer_states(trainer), "w", &now, 1);
        if (!(fabs(now - w) <= 1e-6)) fail_msg("step %zu: w is %.9g, expected %.9g", i, (double)now, w);
    }
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
}

/* w after four steps on mean((w - x)^2), with momentum 0.875, or betas 0.875 and 0.96875. */
static float after_four_steps(kn_context *context, kn_optimizer optimizer, bool variable) {
    const kn_initializer one = {KN_INITIALIZER_FILL, 1};
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, optimizer);
    params.learning_rate = 0.05;
    params.weight_decay = 0.1;
    params.variable_momentum = variable;
    if (!variable) params.momentum = params.beta1 = 0.875, params.beta2 = 0.96875;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *away =
        kn_sub(kn_parameter(graph, "w", KN_FLOAT32, "", &one), kn_input(graph, "x", KN_FLOAT32, "batch"));
    kn_trainer *trainer = trainer_make(context, kn_mean(kn_mul(away, away), NULL, false), &params);
    if (variable) trainer_good(trainer, kn_trainer_set_momentum(trainer, -1, 0.875, 0.96875));
    float w;
    for (int i = 0; i < 4; i++) {
        const float x[2] = {(float)i, -3};
        const kn_feed feed = {"x", x, sizeof x};
        trainer_good(trainer, kn_trainer_step(trainer, 2, &feed, 1, NULL));
    }
    state_get(kn_trainer_states(trainer), "w", &w, 1);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
    return w;
}

TEST(variable_momentum_changes_nothing_else) {
    for (size_t i = 0; i < kn_optimizer_count(); i++) {
        const double fixed = after_four_steps(*state, (kn_optimizer)i, false);
        const double variable = after_four_steps(*state, (kn_optimizer)i, true);
        assert_true(fixed != 1);
        if (!(fabs(fixed - variable) <= 1e-6))
            fail_msg("%s: %.9g, expected %.9g", kn_optimizer_name((kn_optimizer)i), variable, fixed);
    }
}

/* Two counters next to the loss: of runs, and a sum of what each run's batch has. */
TEST(statistics_follow_the_runs) {
    kn_graph *graph = kn_graph_create(NULL);
    const int32_t one = 1;
    kn_value *runs = kn_statistic(graph, "runs", KN_INT32, "", NULL);
    kn_value *sum = kn_statistic(graph, "sum", KN_FLOAT32, "", &(kn_initializer){KN_INITIALIZER_FILL, 10});
    kn_value *loss = line_loss(graph);
    kn_statistic_set_next(runs, kn_add(runs, kn_constant(graph, KN_INT32, "", &one, sizeof one)));
    kn_statistic_set_next(sum, kn_add(sum, kn_sum(kn_graph_find(graph, "x"), NULL, false)));
    /* Read, so that training needs it. */
    loss = kn_add(loss, kn_scale(kn_cast(runs, KN_FLOAT32), 100));
    const kn_trainer_params params = plain(0);
    kn_trainer *trainer = trainer_make(*state, kn_add(loss, kn_scale(sum, 0)), &params);
    const float x[2] = {2, 4};
    const kn_feed feed = {"x", x, sizeof x};
    for (int i = 0; i < 3; i++) {
        double found;
        float total;
        trainer_good(trainer, kn_trainer_step(trainer, 2, &feed, 1, &found));
        assert_true(fabs(found - (3 + 100 * i)) <= 1e-4);
        state_get(kn_trainer_states(trainer), "sum", &total, 1);
        assert_true(total == (float)(10 + 6 * (i + 1)));
    }
    kn_trainer_destroy(&trainer);
    kn_value *x_value = kn_graph_find(graph, "x");
    assert_true(kn_value_failed(kn_statistic_set_next(x_value, x_value)));
    assert_non_null(strstr(kn_graph_error(graph), "not a statistic"));
    kn_graph_destroy(&graph);
}

/* Rates of PyTorch's schedulers of these names, queried in any order. */
static void check_asked(kn_context *context, const kn_trainer_params *params, const double *rates,
                        int count) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_trainer *trainer = trainer_make(context, line_loss(graph), params);
    for (int step = count - 1; step >= 0; step--) {
        kn_trainer_set_steps(trainer, (uint64_t)step);
        double rate = kn_trainer_learning_rate(trainer);
        if (!(fabs(rate - rates[step]) <= 1e-12))
            fail_msg("step %d: %.17g, expected %.17g", step, rate, rates[step]);
    }
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
}

TEST(milestones) {
    const double rates[] = {0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1};
    uint64_t falls[] = {2, 5};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_MULTI_STEP;
    params.step_factor = 0.5;
    params.milestones = falls;
    params.milestone_count = 2;
    check_asked(*state, &params, rates, 8);
}

TEST(exponential) {
    const double rates[] = {0.4, 0.36, 0.324, 0.2916, 0.26244, 0.236196};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_EXPONENTIAL;
    params.step_factor = 0.9;
    check_asked(*state, &params, rates, 6);
    params.step_every = 2;
    params.step_factor = 0.81;
    check_asked(*state, &params, rates, 6);
}

TEST(cosine) {
    const double rates[] = {0.4, 0.375884572681199, 0.31, 0.22, 0.13, 0.06411542731880104, 0.04, 0.04};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_COSINE;
    params.total_steps = 6;
    params.final_fraction = 0.1;
    check_asked(*state, &params, rates, 8);
}

TEST(cosine_with_restarts) {
    const double doubled[] = {0.4,
                              0.22,
                              0.4,
                              0.3472792206135786,
                              0.22,
                              0.09272077938642145,
                              0.4,
                              0.3862983158520316,
                              0.3472792206135786,
                              0.2888830178257162,
                              0.22,
                              0.15111698217428388,
                              0.09272077938642145,
                              0.05370168414796839,
                              0.4};
    const double alike[] = {0.4, 0.3, 0.1, 0.4, 0.3, 0.1, 0.4};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_COSINE_RESTARTS;
    params.restart_every = 3;
    check_asked(*state, &params, alike, 7);
    params.restart_every = 2;
    params.restart_factor = 2;
    params.final_fraction = 0.1;
    check_asked(*state, &params, doubled, 15);
}

TEST(one_cycle) {
    const double rates[] = {0.016,
                            0.208,
                            0.4,
                            0.38019385280538953,
                            0.3246982615799052,
                            0.24450480877451572,
                            0.1554967912254843,
                            0.0753033384200948,
                            0.019807747194610516,
                            1.6e-6,
                            1.6e-6};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_ONE_CYCLE;
    params.total_steps = 10;
    check_asked(*state, &params, rates, 11);
}

TEST(polynomial) {
    const double squares[] = {0.4, 2.5 / 9, 1.6 / 9, 0.1, 0.4 / 9, 0.1 / 9, 0, 0};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_POLYNOMIAL;
    params.total_steps = 6;
    params.power = 2;
    check_asked(*state, &params, squares, 8);
    params.power = 1;
    params.warmup_steps = 4;
    params.total_steps = 8;
    const double later[] = {0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.2, 0.1, 0};
    check_asked(*state, &params, later, 9);
}

/* The progress of the schedule is saved in the states, so that another trainer resumes it. */
TEST(plateau) {
    const double losses[] = {1, 0.9, 0.895, 0.9, 0.89, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8};
    const double rates[] = {0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.06, 0.06};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_PLATEAU;
    params.step_factor = 0.5;
    params.plateau_patience = 1;
    params.plateau_cooldown = 1;
    params.plateau_threshold = 0.01;
    params.final_fraction = 0.15;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *loss = line_loss(graph);
    kn_trainer *trainer = trainer_make(*state, loss, &params);
    const kn_session_params session = {.size = sizeof session, .states = kn_trainer_states(trainer)};
    for (int i = 0; i < 12; i++) {
        if (i == 6) { /* while the schedule waits */
            params.session = &session;
            kn_trainer *next = trainer_make(*state, loss, &params);
            kn_trainer_destroy(&trainer);
            trainer = next;
        }
        trainer_good(trainer, kn_trainer_report_validation(trainer, losses[i]));
        double rate = kn_trainer_learning_rate(trainer);
        if (!(fabs(rate - rates[i]) <= 1e-12))
            fail_msg("evaluation %d: %.17g, expected %.17g", i, rate, rates[i]);
    }
    kn_trainer_destroy(&trainer);
    params.session = NULL;
    params.schedule = KN_SCHEDULE_CONSTANT;
    trainer = trainer_make(*state, loss, &params);
    for (int i = 0; i < 12; i++)
        trainer_good(trainer, kn_trainer_report_validation(trainer, 1));
    assert_true(kn_trainer_learning_rate(trainer) == 0.4);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
}

TEST(cosine_without_length_ends_at_once) {
    const double rates[] = {0, 0};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_SCHEDULE_COSINE;
    check_rates(*state, &params, rates, 2);
}

TEST_FILE(test_schedules, device_setup, device_teardown)
