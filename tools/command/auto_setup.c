/* --device auto for a model with its data: a step uploads a batch and downloads the loss. */
#include "auto.h"
#include "batch.h"

typedef struct setup_trial {
    const common_options *common;
    training_setup *setup;
    const kn_trainer_params *params; /* NULL: evaluation */
    int64_t batch;
    kn_loader *loader;
    kn_batch first;      /* the loader's */
    kn_trainer *trainer; /* either a trainer or a session */
    kn_session *session;
    kn_states *states;
} setup_trial;

/* Reads the first samples of the data. */
static bool read_batch(setup_trial *trial, const kn_dataset *dataset) {
    const kn_loader_params params = {
        .size = sizeof params, .batch = (uint64_t)trial->batch, .no_shuffle = true, .bytes = true};
    trial->loader = kn_loader_create(dataset, &params);
    if (kn_loader_status(trial->loader) == KN_OK && kn_loader_next(trial->loader, &trial->first) == KN_OK)
        return true;
    return command_error("%s", trial->loader ? kn_loader_error(trial->loader) : "out of memory");
}

static bool prepare_training(void *user, kn_context *context) {
    setup_trial *trial = user;
    /* the feeds come only from the data */
    trial->trainer = kn_trainer_create(context, trial->setup->loss.eval_loss, trial->params);
    if (kn_trainer_status(trial->trainer) == KN_OK &&
        kn_trainer_compile_for(trial->trainer, trial->batch, trial->first.feeds, trial->first.feed_count) ==
            KN_OK)
        return true;
    return command_error("%s", trial->trainer ? kn_trainer_error(trial->trainer) : "out of memory");
}

static bool train_step(void *user) {
    setup_trial *trial = user;
    double loss;
    if (kn_trainer_step(trial->trainer, trial->batch, trial->first.feeds, trial->first.feed_count, &loss) ==
        KN_OK)
        return true;
    return command_error("%s", kn_trainer_error(trial->trainer));
}

static bool prepare_evaluation(void *user, kn_context *context) {
    setup_trial *trial = user;
    trial->states = kn_states_create(context, 1);
    trial->session =
        setup_evaluation(trial->setup, context, trial->states, &trial->common->arithmetic, false);
    if (!trial->session) return false;
    return batch_bind(trial->session, trial->batch) == KN_OK ||
           command_error("%s", kn_session_error(trial->session));
}

static bool evaluate_step(void *user) {
    setup_trial *trial = user;
    float loss, accuracy;
    kn_fetch fetches[] = {{trial->setup->loss_name, &loss, sizeof loss},
                          {trial->setup->accuracy_name, &accuracy, sizeof accuracy}};
    if (kn_session_run(trial->session, trial->first.feeds, trial->first.feed_count, fetches,
                       trial->setup->accuracy ? 2 : 1) == KN_OK)
        return true;
    return command_error("%s", kn_session_error(trial->session));
}

static void finish(void *user) {
    setup_trial *trial = user;
    kn_trainer_destroy(&trial->trainer);
    kn_session_destroy(&trial->session);
    kn_states_destroy(&trial->states);
}

static bool choose(common_options *common, setup_trial *trial, const kn_dataset *dataset, uint64_t batch) {
    char what[90];
    uint64_t samples = kn_dataset_count(dataset);
    trial->first = (kn_batch)KN_BATCH_DEFAULTS;
    trial->batch = (int64_t)(batch < samples ? batch : samples);
    snprintf(what, sizeof what, "%s of %lld samples, transfers included,",
             trial->params ? "a training step" : "evaluating a batch", (long long)trial->batch);
    auto_trial about = {.what = what,
                        .model = trial->setup->model,
                        .user = trial,
                        .prepare = trial->params ? prepare_training : prepare_evaluation,
                        .step = trial->params ? train_step : evaluate_step,
                        .finish = finish};
    bool fine = read_batch(trial, dataset) && device_auto(common, &about);
    kn_loader_destroy(&trial->loader);
    return fine;
}

bool device_auto_training(common_options *common, training_setup *setup, const kn_trainer_params *params,
                          uint64_t batch) {
    setup_trial trial = {.common = common, .setup = setup, .params = params};
    return !device_is_auto(common) || choose(common, &trial, setup->train ? setup->train : setup->all, batch);
}

bool device_auto_evaluation(common_options *common, training_setup *setup, uint64_t batch) {
    setup_trial trial = {.common = common, .setup = setup};
    return !device_is_auto(common) || choose(common, &trial, setup_evaluation_data(setup), batch);
}
