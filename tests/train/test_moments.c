/* Moments in fewer bits than float32: their bytes, slow averages, steps that are skipped, files, and losses.
 */
#include "train_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 256 };

/* loss = the sum of a x, so that the gradient of a, (WIDTH), is x. */
typedef struct line {
    kn_graph *graph;
    kn_value *loss;
} line;

static line line_make(void) {
    char shape[16];
    const kn_initializer one = {KN_INITIALIZE_FILL, 1};
    snprintf(shape, sizeof shape, "%d", WIDTH);
    line made = {.graph = kn_graph_create(NULL)};
    kn_value *a = kn_parameter(made.graph, "a", KN_FLOAT32, shape, &one);
    made.loss = kn_sum(kn_mul(a, kn_input(made.graph, "x", KN_FLOAT32, shape)), NULL, false);
    return made;
}

static void line_step(kn_trainer *trainer, const float x[WIDTH]) {
    const kn_feed feed = {"x", x, WIDTH * sizeof *x};
    trainer_good(trainer, kn_trainer_step(trainer, 1, &feed, 1, NULL));
}

/* A moment of bfloat16, widened. */
static void moment_get(kn_trainer *trainer, const char *name, float numbers[WIDTH]) {
    uint16_t stored[WIDTH];
    kn_states *states = kn_trainer_states(trainer);
    if (kn_states_get(states, name, stored, sizeof stored) != KN_OK) fail_msg("%s", kn_states_error(states));
    for (int i = 0; i < WIDTH; i++) {
        const uint32_t bits = (uint32_t)stored[i] << 16;
        memcpy(&numbers[i], &bits, sizeof bits);
    }
}

/* Runs a test on kernels of both kinds. */
static void on_both(void (*test)(kn_context *context)) {
    for (int kind = 1; kind <= 2; kind++) {
        kn_context_params params = device_params();
        params.kind = kind;
        kn_context *context = device_open(&params);
        test(context);
        device_close(&context);
    }
}

/* The mean square moves by a thousandth of what is missing in each step, and a number of bfloat16 has the
 * next one a 128th to a 256th above it: to the nearest it would stop at about a third of what it should be.
 */
static void follow(kn_context *context) {
    enum { STEPS = 5000 };
    line made = line_make();
    kn_trainer_params params = adam();
    params.moments = KN_MOMENTS_BFLOAT16;
    kn_trainer *trainer = trainer_make(context, made.loss, &params);
    float x[WIDTH], square[WIDTH], mean[WIDTH];
    double ratio = 0, spread = 0;
    for (int i = 0; i < WIDTH; i++)
        x[i] = (i % 2 ? 1e-3f : -1e-3f) * (float)(i + 1);
    for (int step = 0; step < STEPS; step++)
        line_step(trainer, x);
    moment_get(trainer, "a.moment2", square);
    moment_get(trainer, "a.moment1", mean);
    for (int i = 0; i < WIDTH; i++) {
        const double own = square[i] / ((double)x[i] * x[i] * (1 - pow(0.999, STEPS)));
        if (!(fabs(own - 1) <= 0.05 && fabs(mean[i] / x[i] - 1) <= 0.01))
            fail_msg("element %d: mean %.9g and mean square %.9g of a gradient that is always %.9g", i,
                     (double)mean[i], (double)square[i], (double)x[i]);
        ratio += own / WIDTH;
        spread += (own - 1) * (own - 1) / WIDTH;
    }
    print_message("mean squares: %.5f of what they should be, give or take %.5f\n", ratio, sqrt(spread));
    if (!(fabs(ratio - 1) <= 0.003 && sqrt(spread) <= 0.01)) fail_msg("expected 1, give or take 0.01");
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

static void slow_averages_follow(void **state) {
    (void)state;
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    on_both(follow);
}

static void skip_steps(kn_context *context) {
    line made = line_make();
    kn_trainer_params params = adam();
    params.moments = KN_MOMENTS_BFLOAT16;
    params.skip_not_finite = true;
    kn_trainer *trainer = trainer_make(context, made.loss, &params);
    float x[WIDTH], before[2][WIDTH], after[2][WIDTH];
    for (int i = 0; i < WIDTH; i++)
        x[i] = 0.37f * (float)i - 5;
    for (int step = 0; step < 3; step++)
        line_step(trainer, x);
    moment_get(trainer, "a.moment1", before[0]);
    moment_get(trainer, "a.moment2", before[1]);
    x[7] = INFINITY;
    for (int step = 0; step < 3; step++)
        line_step(trainer, x);
    moment_get(trainer, "a.moment1", after[0]);
    moment_get(trainer, "a.moment2", after[1]);
    assert_memory_equal(before, after, sizeof before);
    assert_true(before[0][200] > 10 && before[1][200] > 10);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

static void skipped_steps_leave_moments_as_they_are(void **state) {
    (void)state;
    on_both(skip_steps);
}

/* ---- bytes and files --------------------------------------------------------------------------------- */

/* The types of the states of a trainer after a step, and their bytes as its plan has them. */
static uint64_t look(kn_context *context, kn_moments moments, kn_dtype expected) {
    small_net net = net_make();
    kn_trainer_params params = adam();
    params.moments = moments;
    params.accumulate = 2;
    params.average = 0.9;
    kn_trainer *trainer = trainer_make(context, net.loss.value, &params);
    kn_plan_info info = {.size = sizeof info};
    int seen = 0;
    trainer_steps(trainer, 8, 1);
    trainer_good(trainer, kn_trainer_plan(trainer, &info));
    for (int i = 0; i < kn_states_count(kn_trainer_states(trainer)); i++) {
        kn_tensor_info about;
        const char *name = kn_states_entry(kn_trainer_states(trainer), i, &about);
        const bool moment = strstr(name, ".moment");
        seen += moment;
        if (about.dtype != (moment ? expected : KN_FLOAT32) && about.dtype != KN_UINT32)
            fail_msg("%s is %s", name, kn_dtype_name(about.dtype));
    }
    assert_int_equal(seen, 12); /* of the weights and biases of two layers, and of the batch norm */
    kn_trainer_destroy(&trainer);
    net_destroy(&net);
    return info.state_bytes;
}

/* Weights, averages and accumulated gradients stay float32. */
static void only_moments_are_stored_in_fewer_bits(void **state) {
    const uint64_t whole = look(*state, KN_MOMENTS_FLOAT32, KN_FLOAT32),
                   half = look(*state, KN_MOMENTS_BFLOAT16, KN_BFLOAT16);
    assert_true(half < whole);
}

static void what_cannot_be_stored_is_refused(void **state) {
    line made = line_make();
    for (int turn = 0; turn < 2; turn++) {
        kn_trainer_params params = adam();
        params.optimizer = KN_RMSPROP;
        params.centered = true;
        params.moments = turn ? (kn_moments)77 : KN_MOMENTS_BFLOAT16;
        kn_trainer *trainer = kn_trainer_create(*state, made.loss, &params);
        assert_int_equal(kn_trainer_status(trainer), KN_ERROR_ARGUMENT);
        assert_non_null(strstr(kn_trainer_error(trainer), turn ? "moments 77" : "are bfloat16"));
        kn_trainer_destroy(&trainer);
    }
    kn_graph_destroy(&made.graph);
}

/* A file with other moments is converted into states that a plan has. */
static void files_with_other_moments_can_be_loaded(void **state) {
    char path[4096], *folder = test_folder_make();
    float whole[16], back[16];
    test_path(path, sizeof path, folder, "five.safetensors");
    for (int turn = 0; turn < 2; turn++) {
        kn_trainer_params params = adam();
        kn_model_save_params save;
        kn_model_load_params load;
        kn_model_save_params_init(&save);
        kn_model_load_params_init(&load);
        save.training = load.training = true;
        small_net net = net_make();
        params.moments = turn ? KN_MOMENTS_BFLOAT16 : KN_MOMENTS_FLOAT32;
        kn_trainer *trainer = trainer_make(*state, net.loss.value, &params);
        trainer_steps(trainer, 8, 5);
        if (!turn) state_get(kn_trainer_states(trainer), "linear1.bias.moment1", whole, 16);
        if (kn_model_save(net.model, path, kn_trainer_states(trainer), &save))
            fail_msg("%s", kn_model_error(net.model));
        kn_trainer_destroy(&trainer);
        params.moments = turn ? KN_MOMENTS_FLOAT32 : KN_MOMENTS_BFLOAT16;
        trainer = trainer_make(*state, net.loss.value, &params);
        trainer_good(trainer, kn_trainer_compile(trainer, 8));
        if (kn_model_load(net.model, path, kn_trainer_states(trainer), &load, NULL))
            fail_msg("%s", kn_model_error(net.model));
        if (turn) state_get(kn_trainer_states(trainer), "linear1.bias.moment1", back, 16);
        kn_trainer_set_steps(trainer, 5);
        assert_true(isfinite(trainer_steps(trainer, 8, 2)));
        kn_trainer_destroy(&trainer);
        net_destroy(&net);
    }
    for (int i = 0; i < 16; i++)
        if (!(fabsf(whole[i] - back[i]) <= 0.1f * fabsf(whole[i]) + 1e-3f))
            fail_msg("element %d: %.9g in float32, %.9g from a file of bfloat16", i, (double)whole[i],
                     (double)back[i]);
    test_folder_remove(folder);
}

/* ---- losses ------------------------------------------------------------------------------------------- */

/* Images of ten classes: noise with a brighter row and column, whose places tell the class. */
static void bright_batch(uint32_t *word, float x[PICTURES * PICTURE_PIXELS], int32_t y[PICTURES]) {
    *word = picture_batch(*word, x, y);
    for (int i = 0; i < PICTURES; i++) {
        y[i] = (int32_t)(*word >> 9) % 7 * i % 10;
        if (y[i] < 0) y[i] += 10;
        for (int k = 0; k < 14; k++) {
            x[i * PICTURE_PIXELS + (y[i] + 2) * 14 + k] += 0.3f;
            x[i * PICTURE_PIXELS + k * 14 + (y[i] * 3 % 10)] += 0.3f;
        }
    }
}

/* Rows as tokens: each layer attends to earlier rows. */
static kn_model *attending_model(void) {
    return kn_model_parse("koine 1\n"
                          "block layer\n"
                          "layernorm\nlinear 42\nattention heads=2 causal\nlinear 14\nseen = add @ @in\n"
                          "layernorm\nlinear 56\ngelu\nlinear 14\nadd @ @seen\n"
                          "end\n"
                          "input x 1x14x14\nreshape 14x14\nlayer\nlayer\nlayernorm\nflatten\n"
                          "logits = linear 10\n",
                          NULL);
}

static kn_model *convolving_model(void) {
    return picture_model(12);
}

/* The mean loss of the steps 250 to 300. */
static double loss_of(kn_context *context, kn_model *model, kn_optimizer optimizer, kn_moments moments) {
    enum { STEPS = 300, LAST = 50 };
    static float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    uint32_t word = 3;
    double sum = 0;
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, NULL, &loss)) fail_msg("%s", kn_model_error(model));
    kn_trainer_params params = adam();
    kn_trainer_params_choose(&params, optimizer);
    params.moments = moments;
    kn_trainer *trainer = trainer_make(context, loss.value, &params);
    for (int step = 0; step < STEPS; step++) {
        double now = 0;
        bright_batch(&word, x, y);
        const kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
        trainer_good(trainer, kn_trainer_step(trainer, PICTURES, feeds, 2, &now));
        sum += step >= STEPS - LAST ? now / LAST : 0;
    }
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
    return sum;
}

static void compare_losses(kn_context *context) {
    static kn_model *(*const models[])(void) = {convolving_model, attending_model};
    static const kn_optimizer optimizers[] = {KN_ADAMW, KN_SGD};
    for (int m = 0; m < 2; m++)
        for (int o = 0; o < 2; o++) {
            const double whole = loss_of(context, models[m](), optimizers[o], KN_MOMENTS_FLOAT32),
                         half = loss_of(context, models[m](), optimizers[o], KN_MOMENTS_BFLOAT16);
            print_message("model %d, %s: %.5f in float32, %.5f in bfloat16\n", m,
                          kn_optimizer_name(optimizers[o]), whole, half);
            if (!(whole < 2 && fabs(half - whole) <= 0.05 * whole))
                fail_msg("model %d, %s: the loss is %.5f in float32, %.5f in bfloat16", m,
                         kn_optimizer_name(optimizers[o]), whole, half);
        }
}

static void losses_are_those_of_float32(void **state) {
    (void)state;
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    on_both(compare_losses);
}

int test_moments(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_averages_follow),
        cmocka_unit_test(skipped_steps_leave_moments_as_they_are),
        cmocka_unit_test_setup_teardown(only_moments_are_stored_in_fewer_bits, device_setup, device_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_stored_is_refused, device_setup, device_teardown),
        cmocka_unit_test_setup_teardown(files_with_other_moments_can_be_loaded, device_setup,
                                        device_teardown),
        cmocka_unit_test(losses_are_those_of_float32),
    };
    return cmocka_run_group_tests_name("moments", tests, NULL, NULL);
}
