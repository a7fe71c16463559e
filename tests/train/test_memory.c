/* Training that saves memory by computing values twice gives the same bits. */
#include "train_tests.h"

#include <stdio.h>
#include <string.h>

static kn_context *context;

static kn_model *residual_model(void) {
    return kn_model_parse("koine 1\n"
                          "block same channels\n"
                          "conv channels 3 padding=1\nbatchnorm\nrelu\n"
                          "conv channels 3 padding=1\nbatchnorm\nadd @ @in\nrelu\n"
                          "end\n"
                          "input x 1x14x14\n"
                          "conv 16 3 padding=1\nbatchnorm\nrelu\n"
                          "same 16\nsame 16\nsame 16\nsame 16\nsame 16\n"
                          "globalavgpool\nflatten\ndropout 0.2\nlogits = linear 10\n",
                          NULL);
}

static kn_model *deep_model(void) {
    return kn_model_parse("koine 1\n"
                          "block layer\n"
                          "seen = layernorm\nlinear 40\ngelu\ndropout 0.1\nlinear 14\nadd @ @in\n"
                          "end\n"
                          "input x 1x14x14\n"
                          "reshape 14x14\n"
                          "layer\nlayer\nlayer\nlayer\ngru 14\nlayer\nlayer\n"
                          "flatten\nlogits = linear 10\n",
                          NULL);
}

/* Its first product and bias are replaced at binding: they are computed on the table of the embedding. */
static kn_model *picking_model(void) {
    return kn_model_parse("koine 1\n"
                          "block layer\n"
                          "linear 40\ngelu\nlinear 14\nadd @ @in\n"
                          "end\n"
                          "input x 1x14x14\n"
                          "reshape 14x14\n"
                          "scale factor=8\ncast dtype=int32\n"
                          "embedding 8 24\nlinear 4\n"
                          "reshape 56x14\n"
                          "layer\nlayer\nlayer\nlayer\n"
                          "flatten\nlogits = linear 10\n",
                          NULL);
}

typedef struct outcome {
    kn_status status;
    uint64_t bits;
    kn_plan_info info;
    char error[400];
} outcome;

/* Trains a model for some steps in this way. */
static outcome train(kn_model *(*make)(void), kn_precision precision, kn_recompute recompute,
                     uint64_t memory_bytes) {
    static float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    uint32_t word = 99;
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    kn_session_params session = KN_SESSION_DEFAULTS;
    kn_trainer_params params = adam();
    outcome result = {.info = {.size = sizeof result.info}};
    kn_model *model = make();
    if (kn_model_add_loss(model, NULL, &loss)) fail_msg("%s", kn_model_error(model));
    session.seed = 5;
    session.precision = precision;
    session.recompute = recompute;
    session.memory_bytes = memory_bytes;
    params.session = &session;
    kn_trainer *trainer = trainer_make(context, loss.value, &params);
    for (int step = 0; step < 4 && result.status == KN_OK; step++) {
        word = picture_batch(word, x, y);
        const kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
        result.status = kn_trainer_step(trainer, PICTURES, feeds, 2, NULL);
    }
    snprintf(result.error, sizeof result.error, "%s", kn_trainer_error(trainer));
    if (result.status == KN_OK) {
        result.bits = states_hash(kn_trainer_states(trainer));
        trainer_good(trainer, kn_trainer_plan(trainer, &result.info));
    }
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
    return result;
}

static void check(kn_model *(*make)(void), kn_precision precision) {
    const outcome whole = train(make, precision, KN_RECOMPUTE_NEVER, 0);
    assert_int_equal(whole.status, KN_OK);
    assert_int_equal(whole.info.recomputed, 0);
    const outcome least = train(make, precision, KN_RECOMPUTE_ALWAYS, 0);
    if (least.status != KN_OK) fail_msg("%s", least.error);
    assert_true(least.info.recomputed > 0 && least.info.recomputed_flops > 0);
    if (!(least.info.peak_bytes < whole.info.peak_bytes))
        fail_msg("%s: %d groups run twice, and the peak is %llu bytes, without it %llu",
                 kn_precision_name(precision), least.info.recomputed,
                 (unsigned long long)least.info.peak_bytes, (unsigned long long)whole.info.peak_bytes);
    assert_true(least.info.flops <= 1.4 * whole.info.flops);
    assert_true(least.bits == whole.bits);
    /* A budget between the two is kept, and costs no more than all that is possible. */
    const uint64_t budget = (least.info.peak_bytes + whole.info.peak_bytes) / 2;
    const outcome needed = train(make, precision, KN_RECOMPUTE_NEEDED, budget);
    if (needed.status != KN_OK) fail_msg("%s", needed.error);
    assert_in_range(needed.info.peak_bytes, 1, budget);
    assert_in_range(needed.info.recomputed, 1, 1000);
    assert_true(needed.info.flops <= least.info.flops);
    assert_true(needed.bits == whole.bits);
    const outcome refused = train(make, precision, KN_RECOMPUTE_NEVER, budget);
    assert_int_equal(refused.status, KN_ERROR_DEVICE_MEMORY);
    const outcome small = train(make, precision, KN_RECOMPUTE_NEEDED, least.info.state_bytes);
    assert_int_equal(small.status, KN_ERROR_DEVICE_MEMORY);
    if (!strstr(small.error, "even with recomputation")) fail_msg("%s", small.error);
}

/* What is checked, all or a part: deep_model on CPU kernels only in float32, since it takes long. Without a
 * part the first three, which together have each model, kind and precision. */
static const struct {
    kn_model *(*make)(void);
    int kind;
    kn_precision precision;
} checks[] = {
    {residual_model, 2, KN_PRECISION_BFLOAT16}, {deep_model, 1, KN_PRECISION_FLOAT32},
    {picking_model, 2, KN_PRECISION_FLOAT32},   {residual_model, 1, KN_PRECISION_FLOAT32},
    {residual_model, 1, KN_PRECISION_BFLOAT16}, {residual_model, 2, KN_PRECISION_FLOAT32},
    {deep_model, 2, KN_PRECISION_FLOAT32},      {deep_model, 2, KN_PRECISION_BFLOAT16},
    {picking_model, 1, KN_PRECISION_FLOAT32},   {picking_model, 2, KN_PRECISION_BFLOAT16},
};
static test_part wanted;

static void bits_stay_where_values_are_computed_twice(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    if (test_cases_wanted() == TEST_ONE) skip_because(FIRST_IMPLEMENTATION_ONLY);
    for (size_t c = 0; c < sizeof checks / sizeof *checks; c++) {
        if (wanted.parts ? !test_part_has(wanted, c) : c >= 3) continue;
        kn_context_params params = device_params();
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.kernels = checks[c].kind;
        context = device_open(&params);
        check(checks[c].make, checks[c].precision);
        device_close(&context);
    }
}

int test_memory(test_part part) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_stay_where_values_are_computed_twice)};
    wanted = part;
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
