/* Learning rates over the steps, asked of the trainer and seen in what a step does to a parameter. */
#include "train_tests.h"

#include <math.h>

/* loss = w · mean(x), whose gradient by w is mean(x). */
static kn_value *line_loss(kn_graph *graph) {
    const kn_initializer one = {KN_INITIALIZE_FILL, 1};
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
    params.learning_rate = rate;
    params.momentum = 0;
    return params;
}

static void constant(void **state) {
    const double rates[] = {0.125, 0.125, 0.125};
    const kn_trainer_params params = plain(0.125);
    check_rates(*state, &params, rates, 3);
}

static void steps(void **state) {
    const double rates[] = {0.5, 0.5, 0.25, 0.25, 0.125, 0.125};
    kn_trainer_params params = plain(0.5);
    params.schedule = KN_STEP;
    params.step_every = 2;
    params.step_factor = 0.5;
    check_rates(*state, &params, rates, 6);
}

static void warm_up_then_cosine(void **state) {
    /* Two steps of warm-up, then from 0.4 down to a tenth of it over four steps; it stays there. */
    const double half = 0.70710678118654752440, low = 0.04, span = 0.36;
    const double rates[] = {
        0.2, 0.4, 0.4, low + span * (1 + half) / 2, low + span / 2, low + span * (1 - half) / 2, low, low};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_COSINE;
    params.warmup_steps = 2;
    params.total_steps = 6;
    params.final_share = 0.1;
    check_rates(*state, &params, rates, 8);
}

static void warm_up_then_constant(void **state) {
    const double rates[] = {0.1, 0.2, 0.3, 0.4, 0.4, 0.4};
    kn_trainer_params params = plain(0.4);
    params.warmup_steps = 4;
    check_rates(*state, &params, rates, 6);
}

static void cosine_without_length_ends_at_once(void **state) {
    const double rates[] = {0, 0};
    kn_trainer_params params = plain(0.4);
    params.schedule = KN_COSINE;
    check_rates(*state, &params, rates, 2);
}

int test_schedules(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant),
        cmocka_unit_test(steps),
        cmocka_unit_test(warm_up_then_cosine),
        cmocka_unit_test(warm_up_then_constant),
        cmocka_unit_test(cosine_without_length_ends_at_once),
    };
    return cmocka_run_group_tests_name("schedules", tests, device_setup, device_teardown);
}
