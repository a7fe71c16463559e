/* The settings of a trainer by name; training that fits into memory; the shards of workers. */
#include "train_tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 100, TEXT = 64 };

static size_t list(kn_trainer_setting rows[MOST]) {
    size_t count = 0;
    for (rows[0].size = sizeof *rows; kn_trainer_setting_at(count, &rows[count]);)
        rows[++count].size = sizeof *rows;
    return count;
}

TEST(settings_are_told_apart) {
    kn_trainer_setting rows[MOST];
    const size_t count = list(rows);
    assert_true(count > 30 && count < MOST);
    assert_string_equal(rows[0].name, "optimizer");
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(rows[i].help) > 4);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(rows[i].name, rows[j].name);
            if (rows[i].option && rows[j].option) assert_string_not_equal(rows[i].option, rows[j].option);
        }
    }
}

/* Another value of a setting than the one it has. */
static void other_value(const kn_trainer_setting *setting, const char *now, char text[TEXT]) {
    static const char *const numbers[] = {"0.25", "0.75", "1.5", "7"};
    const char *word = kn_trainer_setting_word_at(setting->name, 0);
    if (word) word = strcmp(word, now) ? word : kn_trainer_setting_word_at(setting->name, 1);
    if (!setting->argument && !setting->is_count) word = strcmp(now, "yes") ? "yes" : "no";
    for (size_t i = 0; !word; i++) {
        kn_trainer_params trial = KN_TRAINER_DEFAULTS;
        assert_true(i < sizeof numbers / sizeof *numbers);
        if (strcmp(numbers[i], now) != 0 &&
            kn_trainer_params_set(&trial, setting->name, numbers[i], NULL, 0) == KN_OK)
            word = numbers[i];
    }
    snprintf(text, TEXT, "%s", word);
}

/* Setting a field by name changes this field and no other; the optimizer has usual settings, too. */
TEST(a_setting_is_one_field) {
    kn_trainer_setting rows[MOST];
    const size_t count = list(rows);
    for (size_t i = 1; i < count; i++) {
        kn_trainer_params params = KN_TRAINER_DEFAULTS, before;
        memcpy(&before, &params, sizeof before);
        char now[TEXT], wanted[TEXT], message[200];
        assert_int_equal(kn_trainer_params_get(&params, rows[i].name, now, TEXT), KN_OK);
        other_value(&rows[i], now, wanted);
        if (kn_trainer_params_set(&params, rows[i].name, wanted, message, sizeof message) != KN_OK)
            fail_msg("%s %s", rows[i].name, message);
        for (size_t j = 0; j < count; j++) {
            char first[TEXT], second[TEXT];
            kn_trainer_params_get(&before, rows[j].name, first, TEXT);
            kn_trainer_params_get(&params, rows[j].name, second, TEXT);
            if (!strcmp(first, second) == (i == j))
                fail_msg("%s: %s, and %s is %s", rows[i].name, wanted, rows[j].name, second);
        }
        /* A count may be required where it is used, and 0 elsewhere. */
        if (rows[i].is_count && !strcmp(now, "0")) continue;
        assert_int_equal(kn_trainer_params_set(&params, rows[i].name, now, message, sizeof message), KN_OK);
        assert_memory_equal(&params, &before, sizeof params);
    }
}

TEST(numbers_keep_all_their_digits) {
    static const double numbers[] = {0.1, 1.0 / 3, 1e-300, 12345678.9};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        kn_trainer_params params = KN_TRAINER_DEFAULTS, other = KN_TRAINER_DEFAULTS;
        char text[TEXT];
        params.learning_rate = numbers[i];
        kn_trainer_params_get(&params, "learning_rate", text, TEXT);
        assert_int_equal(kn_trainer_params_set(&other, "learning_rate", text, NULL, 0), KN_OK);
        assert_true(other.learning_rate == numbers[i]);
    }
}

/* In text and in fields. */
TEST(wrong_values_are_refused) {
    static const struct {
        const char *optimizer, *name, *text, *message;
    } rows[] = {
        {"sgd", "learning_rate", "-1", "is '-1'; expected a number of at least 0"},
        {"sgd", "learning_rate", "nan", "is 'nan'; expected a number of at least 0"},
        {"sgd", "learning_rate", "inf", "is 'inf'; expected a number of at least 0"},
        {"sgd", "learning_rate", "1x", "is '1x'; expected a number of at least 0"},
        {"sgd", "learning_rate", "", "is ''; expected a number of at least 0"},
        {"sgd", "momentum", "1", "is '1'; expected a number of at least 0 and below 1"},
        {"sgd", "nesterov", "true", "is 'true'; expected yes or no"},
        {"sgd", "accumulate", "0", "is '0'; expected an integer of at least 1"},
        {"sgd", "accumulate", "1.5", "is '1.5'; expected an integer of at least 1"},
        {"sgd", "cycle_divisor", "0", "is '0'; expected a number above 0"},
        {"sgd", "moments", "4bit", "is '4bit'; expected float32, bfloat16 or 8bit"},
        {"sgd", "gradient_dtype", "int32", "is 'int32'; expected float32, float16 or bfloat16"},
    };
    char message[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kn_trainer_params params = KN_TRAINER_DEFAULTS, before;
        kn_trainer_params_set(&params, "optimizer", rows[i].optimizer, NULL, 0);
        memcpy(&before, &params, sizeof before);
        assert_int_equal(kn_trainer_params_set(&params, rows[i].name, rows[i].text, message, sizeof message),
                         KN_ERROR_ARGUMENT);
        assert_string_equal(message, rows[i].message);
        assert_memory_equal(&params, &before, sizeof params);
    }
    kn_trainer_params params = KN_TRAINER_DEFAULTS;
    assert_int_equal(kn_trainer_params_set(&params, "warmth", "1", message, sizeof message),
                     KN_ERROR_ARGUMENT);
    assert_string_equal(message, "");
    assert_int_equal(kn_trainer_params_check(&params, message, sizeof message), KN_OK);
    params.weight_decay = -0.5;
    assert_int_equal(kn_trainer_params_check(&params, message, sizeof message), KN_ERROR_ARGUMENT);
    assert_string_equal(message, "weight_decay is -0.5; expected a number of at least 0");
    params = (kn_trainer_params)KN_TRAINER_DEFAULTS;
    params.schedule = (kn_schedule)77;
    assert_int_equal(kn_trainer_params_check(&params, message, sizeof message), KN_ERROR_ARGUMENT);
    assert_non_null(strstr(message, "schedule is 77; expected constant, step, cosine"));
}

TEST(settings_belong_to_others) {
    kn_trainer_params params = KN_TRAINER_DEFAULTS;
    kn_trainer_params_set(&params, "optimizer", "adam", NULL, 0);
    assert_true(params.learning_rate == 0.001 && !kn_trainer_params_use(&params, "momentum"));
    assert_true(kn_trainer_params_use(&params, "beta1") && kn_trainer_params_use(&params, "weight_decay"));
    kn_trainer_params_set(&params, "optimizer", "sgd", NULL, 0);
    assert_true(params.learning_rate == 0.01 && kn_trainer_params_use(&params, "momentum"));
    assert_false(kn_trainer_params_use(&params, "step_factor") ||
                 kn_trainer_params_use(&params, "outer_rate"));
    kn_trainer_params_set(&params, "schedule", "plateau", NULL, 0);
    kn_trainer_params_set(&params, "sync_every", "4", NULL, 0);
    assert_true(kn_trainer_params_use(&params, "step_factor") &&
                kn_trainer_params_use(&params, "outer_rate"));
    assert_false(kn_trainer_params_use(&params, "warmth") || kn_trainer_params_use(NULL, "momentum"));
    assert_string_equal(kn_trainer_setting_word_at("schedule", KN_SCHEDULE_ONE_CYCLE), "one-cycle");
    assert_string_equal(kn_trainer_setting_word_at("gradient_dtype", 2), "bfloat16");
    assert_null(kn_trainer_setting_word_at("gradient_dtype", 3));
    assert_null(kn_trainer_setting_word_at("momentum", 0));
}

/* ---- memory -------------------------------------------------------------------------------------------- */

typedef struct opened {
    kn_model *model;
    kn_model_loss loss;
    kn_session_params session;
    kn_trainer_params params;
    kn_feed feeds[2];
    kn_memory_request request;
    kn_trainer *trainer;
    kn_session *evaluation;
    kn_memory_fit fit;
} opened;

static kn_status open_again(opened *own, kn_context *context) {
    kn_session_destroy(&own->evaluation);
    kn_trainer_destroy(&own->trainer);
    own->fit = (kn_memory_fit)KN_MEMORY_FIT_DEFAULTS;
    own->params.micro_batch = 0;
    own->params.offload_optimizer = false;
    return kn_fit_prepare(context, own->loss.value, &own->params, &own->request, &own->trainer,
                          &own->evaluation, &own->fit);
}

/* The loss before and after a step on a batch. */
static void step(opened *own, double losses[2]) {
    static float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    picture_batch(99, x, y);
    const kn_feed feeds[] = {{"x", x, sizeof x, 0}, {"y", y, sizeof y, 0}};
    for (int i = 0; i < 2; i++)
        trainer_good(own->trainer, kn_trainer_step(own->trainer, PICTURES, feeds, 2, &losses[i]));
}

TEST(training_fits_into_memory) {
    kn_context *context = *state;
    opened own = {.model = picture_model(16),
                  .loss = KN_MODEL_LOSS_DEFAULTS,
                  .session = KN_SESSION_DEFAULTS,
                  .params = adam(),
                  .feeds = {{"x", NULL, PICTURE_PIXELS * sizeof(float), 0}, {"y", NULL, sizeof(int32_t), 0}}};
    if (kn_model_add_loss(own.model, NULL, &own.loss)) fail_msg("%s", kn_model_error(own.model));
    own.session.seed = 5;
    own.session.recompute = KN_RECOMPUTE_NEVER;
    own.params.session = &own.session;
    own.request = (kn_memory_request){.size = sizeof own.request,
                                      .batch = PICTURES,
                                      .feeds = own.feeds,
                                      .eval_feeds = own.feeds,
                                      .feed_count = 2,
                                      .eval_values = &own.loss.eval_loss,
                                      .eval_value_count = 1};
    double whole[2], parts[2];
    if (open_again(&own, context)) fail_msg("%s", own.fit.message);
    const uint64_t all = own.fit.bytes;
    assert_true(all > 0 && own.evaluation && !own.fit.part && !own.fit.message[0] && !own.params.micro_batch);
    assert_int_equal(own.fit.batch, PICTURES);
    step(&own, whole);

    /* In parts, and with the same loss. */
    own.session.memory_bytes = all * 7 / 10;
    if (open_again(&own, context)) fail_msg("%s", own.fit.message);
    assert_true(own.fit.bytes <= own.session.memory_bytes && own.params.micro_batch > 0 &&
                own.params.micro_batch < PICTURES && own.fit.part == own.params.micro_batch);
    assert_true(strlen(own.fit.message) > 10 && own.evaluation);
    step(&own, parts);
    assert_true(isfinite(parts[1]) && parts[1] < parts[0]);

    /* A smaller batch instead. */
    own.request.whole = true;
    if (open_again(&own, context)) fail_msg("%s", own.fit.message);
    assert_true(own.fit.batch < PICTURES && own.fit.batch > 1 && !own.fit.part && !own.params.micro_batch);
    own.request.whole = false;

    /* Nothing may change. */
    own.request.fixed = true;
    assert_int_equal(open_again(&own, context), KN_ERROR_DEVICE_MEMORY);
    assert_true(!own.trainer && !own.evaluation && own.fit.message[0]);
    own.request.fixed = false;

    /* Nothing fits. */
    own.session.memory_bytes = 1000;
    assert_int_equal(open_again(&own, context), KN_ERROR_DEVICE_MEMORY);
    assert_non_null(strstr(own.fit.message, "too large for the device, even with a batch of 1"));
    own.request.batch = 0;
    assert_int_equal(open_again(&own, context), KN_ERROR_ARGUMENT);
    kn_model_destroy(&own.model);
}

/* ---- shards -------------------------------------------------------------------------------------------- */

TEST(shards_are_dealt_by_speed) {
    int counts[3];
    assert_int_equal(kn_shard_count(4, true, 64), 4);
    assert_int_equal(kn_shard_count(4, false, 64), 16);
    assert_int_equal(kn_shard_count(3, true, 64), 16);
    assert_int_equal(kn_shard_count(20, false, 64), 32);
    assert_int_equal(kn_shard_count(3, true, 6), 4);
    const double seconds[] = {1, 3, 100}, alone[] = {INFINITY, INFINITY, 1};
    assert_int_equal(kn_deal_shards(seconds, 3, 16, counts), KN_OK);
    assert_true(counts[0] == 12 && counts[1] == 4 && counts[2] == 0);
    assert_int_equal(kn_deal_shards(alone, 3, 16, counts), KN_OK);
    assert_true(counts[0] == 1 && counts[1] == 0 && counts[2] == 15);
    assert_int_equal(kn_deal_shards(seconds, 3, 0, counts), KN_ERROR_ARGUMENT);
}

TEST(a_shard_is_timed) {
    small_net net = net_make();
    samples_draw();
    const kn_dataset_array arrays[] = {
        {"x", {KN_FLOAT32, 1, {INPUTS}}, sample_x, sizeof sample_x, KN_FLOAT32, 0},
        {"y", {KN_INT32, 0, {0}}, sample_y, sizeof sample_y, KN_INT32, 0},
    };
    kn_dataset *data = kn_dataset_create_from_arrays(SAMPLES, arrays, 2, CLASSES, NULL);
    kn_trainer_params params = adam();
    kn_loader_params batches = KN_LOADER_DEFAULTS;
    char message[200];
    batches.batch = 16;
    params.shards = 4;
    double seconds;
    kn_status status =
        kn_shard_seconds(*state, net.loss.value, &params, data, &batches, &seconds, message, sizeof message);
    if (status) fail_msg("%s", message);
    assert_true(seconds > 0 && seconds < 60);
    assert_string_equal(message, "");
    params.weight_decay = -1;
    status =
        kn_shard_seconds(*state, net.loss.value, &params, data, &batches, &seconds, message, sizeof message);
    assert_true(status == KN_ERROR_ARGUMENT && isinf(seconds));
    assert_non_null(strstr(message, "weight_decay is -1"));
    kn_dataset_destroy(&data);
    net_destroy(&net);
}

TEST_FILE(test_config, device_setup, device_teardown)
