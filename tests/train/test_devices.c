/* Training on two devices: here two contexts on one device, so that all states and evaluations must have the
 * same bits as on one. */
#include "train_tests.h"

#include <string.h>

/* The result of a training: a hash of the states, and the logits of an evaluation. */
typedef struct trained {
    uint64_t bits;
    float logits[PICTURES * 10];
    int devices, transfers;
} trained;

/* All options that process gradients and weights, so that updates need values from the other device. */
static kn_trainer_params rich_params(kn_moments moments) {
    kn_trainer_params params = adam();
    params.moments = moments;
    params.clip_norm = 1;
    params.accumulate = 2;
    params.skip_not_finite = true;
    params.weight_decay = 0.01;
    params.average = 0.9;
    params.schedule = KN_SCHEDULE_EXPONENTIAL;
    params.step_every = 2;
    return params;
}

static void train(kn_context *context, const char *const *pinned, kn_moments moments, trained *result) {
    static float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    kn_model *model = picture_model(12);
    for (int i = 0; pinned[i]; i++)
        assert_true(kn_model_pin(model, pinned[i], "other") > 0);
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, NULL, &loss)) fail_msg("%s", kn_model_error(model));
    kn_trainer_params params = rich_params(moments);
    kn_trainer *trainer = trainer_make(context, loss.value, &params);
    uint32_t word = 7;
    for (int step = 0; step < 6; step++) {
        double number;
        word = picture_batch(word, x, y);
        const kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
        trainer_good(trainer, kn_trainer_step(trainer, PICTURES, feeds, 2, step == 3 ? &number : NULL));
    }
    kn_plan_info info = {.size = sizeof info};
    trainer_good(trainer, kn_trainer_plan(trainer, &info));
    result->devices = info.devices;
    result->transfers = info.transfers;
    result->bits = states_hash(kn_trainer_states(trainer));
    kn_value *logits = kn_model_output_at(model, 0);
    const kn_feed feed = {"x", x, sizeof x};
    const kn_fetch fetch = {kn_value_name(logits), result->logits, sizeof result->logits};
    trainer_good(trainer, kn_trainer_evaluate(trainer, PICTURES, &feed, 1, &logits, &fetch, 1));
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
}

TEST(training_has_the_bits_of_one_device) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    static const char *const none[] = {NULL}, *const some[] = {"conv1", "dropout1", "linear*", NULL};
    kn_context *context = device_open(NULL), *other = device_open(NULL);
    trained single, both, fewer[3];
    for (int m = KN_MOMENTS_BFLOAT16; m <= KN_MOMENTS_8BIT; m++)
        train(context, none, (kn_moments)m, &fewer[m]);
    train(context, none, KN_MOMENTS_FLOAT32, &single);
    assert_true(fewer[1].bits != single.bits && fewer[2].bits != single.bits);
    assert_true(fewer[1].bits != fewer[2].bits);
    assert_true(single.devices == 1 && single.transfers == 0);
    assert_int_equal(kn_context_join(context, "other", &other), KN_OK);
    for (int m = KN_MOMENTS_BFLOAT16; m <= KN_MOMENTS_8BIT; m++) {
        train(context, some, (kn_moments)m, &both);
        assert_int_equal(fewer[m].bits, both.bits);
    }
    train(context, some, KN_MOMENTS_FLOAT32, &both);
    assert_int_equal(both.devices, 2);
    assert_true(both.transfers > 4);
    assert_int_equal(single.bits, both.bits);
    assert_memory_equal(single.logits, both.logits, sizeof single.logits);
    assert_int_equal(device_counts(kn_context_device_at(context, 1)).device_bytes, 0);
    device_close(&context);
}

/* Devices named in the text, and patterns added by the caller; the last match decides. */
TEST(lines_and_blocks_are_pinned) {
    kn_model *model = kn_model_parse("koine 1\n"
                                     "block two units where\n"
                                     "    linear units device=where\n"
                                     "    relu\n"
                                     "end\n"
                                     "input x 4\n"
                                     "a = two 5 near\n"
                                     "b = two 6 far device=middle\n"
                                     "sigmoid device=near\n"
                                     "logits = linear 3\n",
                                     NULL);
    if (kn_model_status(model)) fail_msg("%s", kn_model_error(model));
    const kn_graph *graph = kn_model_graph(model);
    assert_string_equal(kn_graph_pinned_at(graph, 0), "near");
    assert_string_equal(kn_graph_pinned_at(graph, 1), "far");
    assert_string_equal(kn_graph_pinned_at(graph, 2), "middle");
    assert_null(kn_graph_pinned_at(graph, 3));
    assert_non_null(strstr(kn_model_text(model), "b = two 6 far device=middle\n"));
    assert_int_equal(kn_model_pin(model, "*", ""), 0);
    assert_non_null(strstr(kn_model_error(model), "the device name of a pin is empty"));
    assert_string_equal(kn_graph_pinned_at(graph, 0), "near");
    assert_int_equal(kn_model_pin(model, "nothing*", "far"), 0);
    assert_string_equal(kn_model_error(model), "");
    assert_int_equal(kn_model_pin(model, "b.*", "last"), 2);
    assert_int_equal(kn_model_pin(model, "a", "last"), 1);
    assert_string_equal(kn_graph_pinned_at(graph, 0), "last");
    assert_string_equal(kn_graph_pinned_at(graph, 1), "near"); /* the sigmoid */
    assert_null(kn_graph_pinned_at(graph, 2));
    assert_int_equal(kn_model_pin(model, "*", NULL), 8);
    assert_null(kn_graph_pinned_at(graph, 0));
    kn_model_destroy(&model);
}

TEST_FILE(test_devices, NULL, NULL)
