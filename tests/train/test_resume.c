/* A training that is saved and resumed has the same bits as an uninterrupted one. */
#include "train_tests.h"

#include <string.h>

enum { BATCH = 8 };

/* Ten steps without interruption. */
static uint64_t straight(kn_context *context, const kn_trainer_params *params) {
    small_net net = net_make();
    kn_trainer *trainer = trainer_make(context, net.loss.value, params);
    trainer_steps(trainer, BATCH, 10);
    uint64_t hash = states_hash(kn_trainer_states(trainer));
    kn_trainer_destroy(&trainer);
    net_destroy(&net);
    return hash;
}

/* Five steps, a checkpoint, and five more by another trainer, whose seed differs in what the file does not
 * hold. */
static uint64_t continued(kn_context *context, kn_trainer_params params, bool training, const char *path) {
    small_net net = net_make();
    kn_trainer *trainer = trainer_make(context, net.loss.value, &params);
    trainer_steps(trainer, BATCH, 5);
    kn_model_save_params save;
    kn_model_save_params_init(&save);
    save.training = training;
    if (kn_model_save(net.model, path, kn_trainer_states(trainer), &save))
        fail_msg("%s", kn_model_error(net.model));
    kn_trainer_destroy(&trainer);
    net_destroy(&net);

    net = net_open(path);
    trainer = trainer_make(context, net.loss.value, &params);
    kn_model_load_params load;
    kn_model_load_params_init(&load);
    load.training = training;
    int loaded = 0;
    if (kn_model_load(net.model, NULL, kn_trainer_states(trainer), &load, &loaded))
        fail_msg("%s", kn_model_error(net.model));
    assert_true(loaded >= 8);
    kn_trainer_set_steps(trainer, 5);
    trainer_steps(trainer, BATCH, 5);
    assert_int_equal(kn_trainer_steps(trainer), 10);
    uint64_t hash = states_hash(kn_trainer_states(trainer));
    kn_trainer_destroy(&trainer);
    net_destroy(&net);
    return hash;
}

static void compare(kn_context *context, const kn_trainer_params *params) {
    char path[4096], *folder = test_folder_make();
    test_path(path, sizeof path, folder, "five.safetensors");
    uint64_t once = straight(context, params);
    assert_true(once == straight(context, params));
    assert_true(once == continued(context, *params, true, path));
    /* The weights are not enough to resume training: otherwise the checkpoint would not matter. */
    assert_true(once != continued(context, *params, false, path));
    test_folder_remove(folder);
}

TEST(adam_continues) {
    kn_trainer_params params = adam();
    compare(*state, &params);
}

TEST(sgd_with_a_schedule_continues) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    const kn_session_params session = {.size = sizeof session, .seed = 9};
    params.session = &session;
    params.nesterov = true;
    params.clip_norm = 0.5;
    params.schedule = KN_SCHEDULE_COSINE;
    params.warmup_steps = 3;
    params.total_steps = 10;
    compare(*state, &params);
}

/* Five steps end in the middle of an accumulated update. */
TEST(accumulated_averages_continue) {
    kn_trainer_params params = adam();
    params.amsgrad = true;
    params.accumulate = 2;
    params.average = 0.9;
    params.schedule = KN_SCHEDULE_POLYNOMIAL;
    params.total_steps = 5;
    compare(*state, &params);
}

TEST(lamb_with_groups_continues) {
    const kn_parameter_group groups[] = {{sizeof *groups, "*.bias", 2, 0, false}};
    kn_trainer_params params = adam();
    kn_trainer_params_choose(&params, KN_OPTIMIZER_LAMB);
    params.groups = groups;
    params.group_count = 1;
    compare(*state, &params);
}

/* Rounding is random, but by the seed and the step. */
TEST(moments_in_fewer_bits_continue) {
    kn_trainer_params params = adam();
    params.moments = KN_MOMENTS_BFLOAT16;
    params.amsgrad = true;
    params.clip_norm = 0.5;
    params.accumulate = 2;
    params.average = 0.9;
    compare(*state, &params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    compare(*state, &params);
}

TEST(another_seed_is_another_training) {
    kn_trainer_params params = adam();
    uint64_t one = straight(*state, &params);
    kn_session_params other = *params.session;
    other.seed++;
    params.session = &other;
    assert_true(one != straight(*state, &params));
}

TEST_FILE(test_resume, device_setup, device_teardown)
