/* Moments that wait in host memory (kn_trainer_params.offload_optimizer): the bits, files and refusals, and
 * where they are. */
#include "train_tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 12, STEPS = 9 };

/* A training of the samples: what differs between cases. */
typedef struct host_case {
    const char *what;
    kn_optimizer optimizer;
    kn_moments moments;
    double clip, average;
    uint64_t accumulate, part;
    bool skips; /* one batch has NaN, and its update is skipped */
    kn_precision precision;
} host_case;

static const host_case cases[] = {
    {.what = "Adam", .optimizer = KN_OPTIMIZER_ADAM},
    {.what = "SGD, clipped", .optimizer = KN_OPTIMIZER_SGD, .clip = 0.1},
    {.what = "AdamW, accumulated, averaged",
     .optimizer = KN_OPTIMIZER_ADAMW,
     .accumulate = 3,
     .average = 0.9},
    {.what = "Adam, in parts", .optimizer = KN_OPTIMIZER_ADAM, .part = 5},
    {.what = "Adam in bfloat16, a step is skipped",
     .optimizer = KN_OPTIMIZER_ADAM,
     .moments = KN_MOMENTS_BFLOAT16,
     .skips = true},
    {.what = "LAMB in float16", .optimizer = KN_OPTIMIZER_LAMB, .precision = KN_PRECISION_FLOAT16},
};

static kn_trainer_params params_of(const host_case *wanted, const kn_session_params *session, bool on_host) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, wanted->optimizer);
    params.session = session;
    params.moments = wanted->moments;
    params.clip_norm = wanted->clip;
    params.average = wanted->average;
    params.accumulate = wanted->accumulate ? wanted->accumulate : 1;
    params.micro_batch = wanted->part;
    params.skip_not_finite = wanted->skips;
    params.offload_optimizer = on_host;
    return params;
}

static void run_steps(kn_trainer *trainer, const host_case *wanted, int until) {
    while ((int)kn_trainer_steps(trainer) < until) {
        const int64_t step = (int64_t)kn_trainer_steps(trainer);
        float spoilt[BATCH][INPUTS];
        kn_feed feeds[2];
        samples_feed(step * BATCH, BATCH, feeds);
        memcpy(spoilt, feeds[0].data, sizeof spoilt);
        if (wanted->skips && step == 4) spoilt[3][2] = NAN;
        feeds[0].data = spoilt;
        trainer_good(trainer, kn_trainer_step(trainer, BATCH, feeds, 2, NULL));
    }
}

static void find_plan(kn_trainer *trainer, kn_plan_info *plan) {
    *plan = (kn_plan_info){.size = sizeof *plan};
    trainer_good(trainer, kn_trainer_plan(trainer, plan));
}

/* The states after all steps equal those with moments on the device. A file connects the two. */
static void compare_case(kn_context *context, const host_case *wanted, const char *path) {
    const kn_session_params session = {.size = sizeof session, .seed = 5, .precision = wanted->precision};
    kn_model_save_params save = KN_MODEL_SAVE_DEFAULTS;
    kn_model_load_params load = KN_MODEL_LOAD_DEFAULTS;
    kn_plan_info plans[2];
    uint64_t bits[2] = {0};
    save.training = load.training = true;
    for (int on_host = 0; on_host < 2; on_host++) {
        small_net net = net_make();
        kn_trainer_params params = params_of(wanted, &session, on_host);
        kn_trainer *trainer = trainer_make(context, net.loss.value, &params);
        run_steps(trainer, wanted, 3);
        find_plan(trainer, &plans[on_host]);
        /* From here on, the other kind of memory. */
        if (kn_model_save(net.model, path, kn_trainer_states(trainer), &save) != KN_OK)
            fail_msg("%s", kn_model_error(net.model));
        kn_trainer_destroy(&trainer);
        params.offload_optimizer = !on_host;
        trainer = trainer_make(context, net.loss.value, &params);
        if (kn_model_load(net.model, path, kn_trainer_states(trainer), &load, NULL) != KN_OK)
            fail_msg("%s", kn_model_error(net.model));
        kn_trainer_set_steps(trainer, 3);
        run_steps(trainer, wanted, STEPS);
        bits[on_host] = states_hash(kn_trainer_states(trainer));
        kn_trainer_destroy(&trainer);
        net_destroy(&net);
        remove(path);
    }
    if (bits[0] != bits[1]) fail_msg("%s: other bits with moments in host memory", wanted->what);
    assert_int_equal(plans[0].host_bytes, 0);
    assert_true(plans[1].host_bytes > 0);
    /* Sums of gradients and averages stay on the device. */
    const bool more = wanted->accumulate || wanted->average > 0;
    assert_int_equal(plans[1].host_bytes < plans[1].moment_bytes, more);
    assert_true(plans[1].host_bytes <= plans[1].moment_bytes);
    assert_int_equal(plans[0].moment_bytes, plans[1].moment_bytes);
    assert_true(plans[1].state_bytes + plans[1].host_bytes <= plans[0].state_bytes);
}

TEST_WITH(all_compute_the_same, device_setup, device_teardown) {
    char path[4096], *folder = test_folder_make();
    test_path(path, sizeof path, folder, "three.safetensors");
    const bool smallest = test_cases_wanted() == TEST_SMALLEST;
    for (size_t i = 0; i < (smallest ? 1 : sizeof cases / sizeof *cases); i++)
        compare_case(*state, &cases[i], path);
    test_folder_remove(folder);
}

/* Between steps without a wait, a read returns what the last step stored. */
TEST_WITH(moments_are_read_and_set_at_any_time, device_setup, device_teardown) {
    const host_case plain = {.optimizer = KN_OPTIMIZER_ADAM};
    const kn_session_params session = {.size = sizeof session, .seed = 5};
    float moments[2][INPUTS * 16], zeros[INPUTS * 16] = {0};
    for (int on_host = 0; on_host < 2; on_host++) {
        small_net net = net_make();
        const kn_trainer_params params = params_of(&plain, &session, on_host);
        kn_trainer *trainer = trainer_make(*state, net.loss.value, &params);
        kn_states *states = kn_trainer_states(trainer);
        const kn_tensor_info info = {.dtype = KN_FLOAT32, .rank = 2, .shape = {16, INPUTS}};
        assert_int_equal(kn_states_set(states, "linear1.weight.moment1", &info, zeros, sizeof zeros), KN_OK);
        run_steps(trainer, &plain, 2);
        state_get(states, "linear1.weight.moment1", moments[on_host], INPUTS * 16);
        assert_memory_not_equal(moments[on_host], zeros, sizeof zeros);
        assert_int_equal(kn_states_set(states, "linear1.weight.moment1", NULL, zeros, sizeof zeros), KN_OK);
        run_steps(trainer, &plain, 3);
        state_get(states, "linear1.weight.moment1", moments[on_host], INPUTS * 16);
        kn_trainer_destroy(&trainer);
        net_destroy(&net);
    }
    assert_memory_equal(moments[0], moments[1], sizeof moments[0]);
}

TEST_WITH(what_does_not_go_together_is_refused, device_setup, device_teardown) {
    small_net net = net_make();
    kn_trainer_params params = adam();
    params.offload_optimizer = params.shard_optimizer = true;
    kn_trainer *trainer = kn_trainer_create(*state, net.loss.value, &params);
    assert_int_equal(kn_trainer_status(trainer), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(kn_trainer_error(trainer), "offload_optimizer"));
    kn_trainer_destroy(&trainer);
    params.shard_optimizer = false;
    trainer = trainer_make(*state, net.loss.value, &params);
    trainer_steps(trainer, BATCH, 1);
    kn_session_params session = {.size = sizeof session, .states = kn_trainer_states(trainer)};
    params.session = &session;
    params.offload_optimizer = false;
    kn_trainer *other = trainer_make(*state, net.loss.value, &params);
    kn_feed feeds[2];
    samples_feed(0, BATCH, feeds);
    assert_int_equal(kn_trainer_step(other, BATCH, feeds, 2, NULL), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(kn_trainer_error(other), "is in host memory"));
    trainer_steps(trainer, BATCH, 1);
    kn_trainer_destroy(&other);
    kn_trainer_destroy(&trainer);
    net_destroy(&net);
}

TEST_FILE(test_host_moments, NULL, NULL)
