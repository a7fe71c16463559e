/* Moments in fewer bits than float32: their bytes, slow averages, steps that are skipped, files, and losses.
 */
#include "train_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 32, COLUMNS = 128, WIDTH = ROWS * COLUMNS };
static const kn_moments fewer[] = {KN_MOMENTS_BFLOAT16, KN_MOMENTS_8BIT};

/* loss = the sum of a x, so that the gradient of a, (ROWS, COLUMNS), is x. */
typedef struct line {
    kn_graph *graph;
    kn_value *loss;
} line;

static line line_make(void) {
    char shape[16];
    const kn_initializer one = {KN_INITIALIZER_FILL, 1};
    snprintf(shape, sizeof shape, "%d,%d", ROWS, COLUMNS);
    line made = {.graph = kn_graph_create(NULL)};
    kn_value *a = kn_parameter(made.graph, "a", KN_FLOAT32, shape, &one);
    made.loss = kn_sum(kn_mul(a, kn_input(made.graph, "x", KN_FLOAT32, shape)), NULL, false);
    return made;
}

static void line_step(kn_trainer *trainer, const float x[WIDTH]) {
    const kn_feed feed = {"x", x, WIDTH * sizeof *x};
    trainer_good(trainer, kn_trainer_step(trainer, 1, &feed, 1, NULL));
}

static double float8_of(unsigned code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double size = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
    return code >> 7 ? -size : size;
}

/* The value of a moment, and its bytes including its bounds. */
typedef struct seen_moment {
    double numbers[WIDTH];
    uint16_t stored[WIDTH];
    float bounds[ROWS];
} seen_moment;

static void moment_get(kn_trainer *trainer, const char *kind, kn_moments moments, seen_moment *result) {
    char name[40];
    const bool whole = moments == KN_MOMENTS_BFLOAT16;
    kn_states *states = kn_trainer_states(trainer);
    memset(result, 0, sizeof *result);
    snprintf(name, sizeof name, "a.%s", kind);
    if (kn_states_get(states, name, result->stored, (whole ? 2 : 1) * WIDTH))
        fail_msg("%s", kn_states_error(states));
    snprintf(name, sizeof name, "a.%s.bound", kind);
    if (!whole) state_get(states, name, result->bounds, ROWS);
    for (int i = 0; i < WIDTH; i++) {
        const bool root = !strcmp(kind, "moment2");
        const uint32_t bits = (uint32_t)result->stored[i] << 16;
        const float bound = result->bounds[i / COLUMNS];
        float number;
        memcpy(&number, &bits, sizeof bits);
        const double unit = whole ? 0 : exp2(floor(log2(root ? sqrt(bound) : bound))) / 128;
        const double small = float8_of(((const uint8_t *)result->stored)[i]) * unit;
        result->numbers[i] = whole ? number : root ? small * small : small;
    }
}

/* Runs a test on kernels of both kinds. */
static void on_both(void (*test)(kn_context *context, kn_moments moments)) {
    for (int kind = 1; kind <= 2; kind++) {
        kn_context_params params = device_params();
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.kernels = kind;
        kn_context *context = device_open(&params);
        for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++)
            test(context, fewer[i]);
        device_close(&context);
    }
}

/* The mean square moves by a thousandth of what is missing in each step, and a number of bfloat16 has the
 * next one a 128th to a 256th above it: to the nearest it would stop at about a third of what it should be.
 * Roots in 8 bits have the next one an eighth to a sixteenth above them. */
static void follow(kn_context *context, kn_moments moments) {
    enum { STEPS = 5000 };
    static seen_moment square, mean;
    static float x[WIDTH];
    const bool small = moments == KN_MOMENTS_8BIT;
    line made = line_make();
    kn_trainer_params params = adam();
    params.moments = moments;
    kn_trainer *trainer = trainer_make(context, made.loss, &params);
    double ratio = 0, spread = 0, of_mean = 0;
    for (int i = 0; i < WIDTH; i++) /* each row from 1 to 128 */
        x[i] = (i % 2 ? 1e-3f : -1e-3f) * (float)(i % COLUMNS + 1) * (float)(i / COLUMNS + 1);
    for (int step = 0; step < STEPS; step++)
        line_step(trainer, x);
    moment_get(trainer, "moment1", moments, &mean);
    moment_get(trainer, "moment2", moments, &square);
    for (int i = 0; i < WIDTH; i++) {
        const double own = square.numbers[i] / ((double)x[i] * x[i] * (1 - pow(0.999, STEPS)));
        if (!(fabs(own - 1) <= (small ? 0.8 : 0.05) &&
              fabs(mean.numbers[i] / x[i] - 1) <= (small ? 0.3 : 0.01)))
            fail_msg("element %d: mean %.9g and mean square %.9g of a gradient that is always %.9g", i,
                     mean.numbers[i], square.numbers[i], (double)x[i]);
        ratio += own / WIDTH;
        spread += (own - 1) * (own - 1) / WIDTH;
        of_mean += mean.numbers[i] / x[i] / WIDTH;
    }
    print_message("%s: mean squares %.5f of what they should be, give or take %.5f; means %.5f\n",
                  kn_moments_name(moments), ratio, sqrt(spread), of_mean);
    if (!(fabs(ratio - 1) <= (small ? 0.02 : 0.003) && sqrt(spread) <= (small ? 0.2 : 0.01) &&
          fabs(of_mean - 1) <= 0.003))
        fail_msg("expected 1, give or take %g", small ? 0.2 : 0.01);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

static void slow_averages_follow(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    on_both(follow);
}

static void skip_steps(kn_context *context, kn_moments moments) {
    static const char *const kinds[] = {"moment1", "moment2"};
    static seen_moment before[2], after[2];
    static float x[WIDTH];
    line made = line_make();
    kn_trainer_params params = adam();
    params.moments = moments;
    params.skip_not_finite = true;
    kn_trainer *trainer = trainer_make(context, made.loss, &params);
    for (int i = 0; i < WIDTH; i++)
        x[i] = 0.37f * (float)(i % 300) - 5;
    for (int step = 0; step < 3; step++)
        line_step(trainer, x);
    for (int k = 0; k < 2; k++)
        moment_get(trainer, kinds[k], moments, &before[k]);
    x[7] = INFINITY;
    for (int step = 0; step < 3; step++)
        line_step(trainer, x);
    for (int k = 0; k < 2; k++)
        moment_get(trainer, kinds[k], moments, &after[k]);
    assert_memory_equal(before, after, sizeof before);
    assert_true(before[0].numbers[200] > 10 && before[1].numbers[200] > 10);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&made.graph);
}

static void skipped_steps_leave_moments_as_they_are(void **state) {
    on_both(skip_steps);
}

/* ---- bytes and files --------------------------------------------------------------------------------- */

/* Checks the types of the states of a trainer after a step; returns the bytes of its moments. */
static uint64_t look(kn_context *context, kn_moments moments, kn_dtype expected) {
    small_net net = net_make();
    kn_trainer_params params = adam();
    params.moments = moments;
    params.accumulate = 2;
    params.average = 0.9;
    kn_trainer *trainer = trainer_make(context, net.loss.value, &params);
    uint64_t sum = 0;
    int seen = 0;
    trainer_steps(trainer, 8, 1);
    for (size_t i = 0; i < kn_states_count(kn_trainer_states(trainer)); i++) {
        kn_tensor_info about;
        const char *name = kn_states_at(kn_trainer_states(trainer), i, &about);
        const bool moment = strstr(name, ".moment");
        uint64_t bytes = 0;
        assert_true(kn_tensor_bytes(&about, &bytes));
        seen += moment;
        sum += moment ? bytes : 0;
        if (about.dtype != (moment ? expected : KN_FLOAT32) && about.dtype != KN_UINT32)
            fail_msg("%s is %s", name, kn_dtype_name(about.dtype));
    }
    assert_int_equal(seen, 12); /* of the weights and biases of two layers, and of the batch norm */
    kn_trainer_destroy(&trainer);
    net_destroy(&net);
    return sum;
}

/* Weights, averages and accumulated gradients stay float32. */
static void only_moments_are_stored_in_fewer_bits(void **state) {
    const uint64_t whole = look(*state, KN_MOMENTS_FLOAT32, KN_FLOAT32),
                   half = look(*state, KN_MOMENTS_BFLOAT16, KN_BFLOAT16);
    assert_true(whole > 1000 && 2 * half == whole);
}

static void what_cannot_be_stored_is_refused(void **state) {
    line made = line_make();
    for (int turn = 0; turn < 2; turn++) {
        kn_trainer_params params = adam();
        params.optimizer = KN_OPTIMIZER_RMSPROP;
        params.centered = true;
        params.moments = turn ? (kn_moments)77 : KN_MOMENTS_BFLOAT16;
        kn_trainer *trainer = kn_trainer_create(*state, made.loss, &params);
        assert_int_equal(kn_trainer_status(trainer), KN_ERROR_ARGUMENT);
        assert_non_null(strstr(kn_trainer_error(trainer), turn ? "moments is 77" : "are bfloat16"));
        kn_trainer_destroy(&trainer);
    }
    kn_graph_destroy(&made.graph);
}

/* In 8 bits those of large parameters, but for tables of embeddings. */
static void moments_of_large_parameters_have_8_bits(void **state) {
    kn_model *model = kn_model_parse("koine 1\n"
                                     "input x 16 int32\n"
                                     "embedding @x 96 64\n"
                                     "flatten\n"
                                     "linear 40\n"
                                     "logits = linear 10\n",
                                     NULL);
    static const char *const small[] = {"linear1.weight.moment1", "linear1.weight.moment2"};
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_add_loss(model, NULL, &loss)) fail_msg("%s", kn_model_error(model));
    kn_trainer_params params = adam();
    params.moments = KN_MOMENTS_8BIT;
    kn_trainer *trainer = trainer_make(*state, loss.value, &params);
    trainer_good(trainer, kn_trainer_compile(trainer, 4));
    int seen = 0, rows = 0;
    for (size_t i = 0; i < kn_states_count(kn_trainer_states(trainer)); i++) {
        kn_tensor_info about;
        const char *name = kn_states_at(kn_trainer_states(trainer), i, &about);
        const bool expected = !strcmp(name, small[0]) || !strcmp(name, small[1]);
        if ((about.dtype == KN_FLOAT8E4M3FN) != expected)
            fail_msg("%s is %s", name, kn_dtype_name(about.dtype));
        seen += expected;
        if (strstr(name, ".bound")) rows += (int)about.shape[0];
    }
    assert_int_equal(seen, 2);
    assert_in_range(rows, 2, 2 * 1024);
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
}

/* Three steps, a file, and three more steps by another trainer. */
static void training_continues(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    static float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    char path[4096], *folder = test_folder_make();
    test_path(path, sizeof path, folder, "three.safetensors");
    for (size_t m = 0; m < sizeof fewer / sizeof *fewer; m++) {
        uint64_t bits[2];
        for (int turn = 0; turn < 2; turn++) {
            uint32_t word = 99;
            kn_model *model = picture_model(12);
            kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
            kn_model_save_params save;
            kn_model_load_params load;
            kn_model_save_params_init(&save);
            kn_model_load_params_init(&load);
            save.training = load.training = true;
            if (kn_model_add_loss(model, NULL, &loss)) fail_msg("%s", kn_model_error(model));
            kn_trainer_params params = adam();
            params.moments = fewer[m];
            params.skip_not_finite = true;
            kn_trainer *trainer = trainer_make(*state, loss.value, &params);
            for (int step = 0; step < 6; step++) {
                word = picture_batch(word, x, y);
                if (turn && step == 3) {
                    if (kn_model_save(model, path, kn_trainer_states(trainer), &save))
                        fail_msg("%s", kn_model_error(model));
                    kn_trainer_destroy(&trainer);
                    trainer = trainer_make(*state, loss.value, &params);
                    if (kn_model_load(model, path, kn_trainer_states(trainer), &load, NULL))
                        fail_msg("%s", kn_model_error(model));
                    kn_trainer_set_steps(trainer, 3);
                }
                const kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
                trainer_good(trainer, kn_trainer_step(trainer, PICTURES, feeds, 2, NULL));
            }
            bits[turn] = states_hash(kn_trainer_states(trainer));
            kn_trainer_destroy(&trainer);
            kn_model_destroy(&model);
        }
        assert_true(bits[0] == bits[1]);
    }
    test_folder_remove(folder);
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

/* Images of ten classes: noise with a brighter row and column, whose positions determine the class. */
static void bright_batch(uint32_t *word, float x[PICTURES * PICTURE_PIXELS], int32_t y[PICTURES]) {
    *word = picture_batch(*word, x, y);
    for (int i = 0; i < PICTURES; i++) {
        y[i] = (int32_t)(*word >> 9) % 7 * i % 10;
        if (y[i] < 0) y[i] += 10;
        for (int k = 0; k < 14; k++) {
            x[i * PICTURE_PIXELS + (y[i] + 2) * 14 + k] += 0.15f;
            x[i * PICTURE_PIXELS + k * 14 + (y[i] * 3 % 10)] += 0.15f;
        }
    }
}

/* Rows as tokens: each layer attends to earlier rows. */
static kn_model *attending_model(void) {
    return kn_model_parse("koine 1\n"
                          "block layer\n"
                          "layernorm\nlinear 144\nattention heads=2 causal\nlinear 48\nseen = add @ @in\n"
                          "layernorm\nlinear 96\ngelu\nlinear 48\nadd @ @seen\n"
                          "end\n"
                          "input x 1x14x14\nreshape 14x14\nlinear 48\nlayer\nlayer\nlayernorm\nflatten\n"
                          "logits = linear 10\n",
                          NULL);
}

static kn_model *convolving_model(void) {
    return picture_model(12);
}

/* The mean loss of the last hundred of 300 steps. */
static double loss_of(kn_context *context, kn_model *model, kn_optimizer optimizer, kn_moments moments) {
    enum { STEPS = 300, LAST = 100 };
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

static void compare_losses(kn_context *context, kn_moments moments) {
    static kn_model *(*const models[])(void) = {convolving_model, attending_model};
    static const kn_optimizer optimizers[] = {KN_OPTIMIZER_ADAMW, KN_OPTIMIZER_SGD};
    static double whole[2][2];
    for (int m = 0; m < 2; m++)
        for (int o = 0; o < 2; o++) {
            double *known = &whole[m][o];
            if (moments == fewer[0])
                *known = loss_of(context, models[m](), optimizers[o], KN_MOMENTS_FLOAT32);
            const double own = loss_of(context, models[m](), optimizers[o], moments);
            print_message("model %d, %s: %.5f in float32, %.5f in %s\n", m, kn_optimizer_name(optimizers[o]),
                          *known, own, kn_moments_name(moments));
            if (!(*known < 2 && fabs(own - *known) <= 0.03 * *known))
                fail_msg("model %d, %s: the loss is %.5f in float32, %.5f in %s", m,
                         kn_optimizer_name(optimizers[o]), *known, own, kn_moments_name(moments));
        }
}

static void losses_are_those_of_float32(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    if (test_cases_wanted() == TEST_ONE) skip_because(FIRST_IMPLEMENTATION_ONLY);
    on_both(compare_losses);
}

int test_moments_losses(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_are_those_of_float32)};
    return cmocka_run_group_tests_name("moments: losses", tests, NULL, NULL);
}

int test_moments(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_averages_follow),
        cmocka_unit_test(skipped_steps_leave_moments_as_they_are),
        cmocka_unit_test_setup_teardown(only_moments_are_stored_in_fewer_bits, device_setup, device_teardown),
        cmocka_unit_test_setup_teardown(moments_of_large_parameters_have_8_bits, device_setup,
                                        device_teardown),
        cmocka_unit_test_setup_teardown(training_continues, device_setup, device_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_stored_is_refused, device_setup, device_teardown),
        cmocka_unit_test_setup_teardown(files_with_other_moments_can_be_loaded, device_setup,
                                        device_teardown),
    };
    return cmocka_run_group_tests_name("moments", tests, NULL, NULL);
}
