/* Opens the trainer of koine train and its evaluation within the available memory. */
#include <math.h>

#include "batch.h"
#include "train.h"

uint64_t learner_batches(const train_options *options, uint64_t samples) {
    return options->drop_last ? samples / options->batch : (samples + options->batch - 1) / options->batch;
}

/* The last step unless something stops training earlier; 0: unknown. */
static uint64_t steps_of(const train_options *options, uint64_t samples) {
    uint64_t steps = options->epochs * learner_batches(options, samples);
    if (options->steps && (!steps || options->steps < steps)) steps = options->steps;
    return steps;
}

kn_trainer_params learner_params(const train_options *options, uint64_t samples, kn_session_params *session) {
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    const uint64_t together = options->rule.accumulate, steps = steps_of(options, samples);
    train_rule_apply(&options->rule, (steps + together - 1) / together, &params);
    params.skip_not_finite = options->find_nan;
    *session = (kn_session_params)KN_SESSION_DEFAULTS;
    session->seed = options->seed;
    arithmetic_apply(&options->common.arithmetic, session);
    session->memory_bytes = options->memory;
    params.session = session;
    params.shards = options->shards == UINT64_MAX ? 0 : (int)options->shards;
    params.shard_counts = options->dealt ? options->deal : NULL;
    params.shard_optimizer = options->shard_optimizer;
    params.gradient_dtype = options->gradient_type;
    params.sum_any_order = options->sum_any_order;
    params.sync_batch_norm = options->sync_batch_norm;
    params.sync_every = options->sync_every;
    if (!isnan(options->outer_rate)) params.outer_rate = options->outer_rate;
    if (!isnan(options->outer_momentum)) params.outer_momentum = options->outer_momentum;
    params.micro_batch = options->part;
    return params;
}

uint64_t learner_evaluation_batch(const train_options *options, uint64_t samples) {
    uint64_t batch = options->batch < samples ? options->batch : samples;
    return options->part && options->part < batch ? options->part : batch;
}

bool learner_reports_accuracy(const train_learner *learner) {
    return learner->setup->accuracy && learner->setup->loss.value == learner->setup->loss.eval_loss &&
           !learner->options->check;
}

static bool open_evaluation(train_learner *learner) {
    kn_session_destroy(&learner->evaluator);
    learner->evaluator = setup_evaluation(
        learner->setup, learner->context, kn_trainer_states(learner->trainer),
        &learner->options->common.arithmetic, false, learner->frugal ? "invariant=recompute" : NULL);
    return learner->evaluator != NULL;
}

/* Creates the trainer and the evaluation session for the batch size in the options. */
static bool open_trainer(train_learner *learner) {
    training_setup *setup = learner->setup;
    learner->total_steps = steps_of(learner->options, learner->samples);
    kn_session_params session;
    kn_trainer_params params = learner_params(learner->options, learner->samples, &session);
    kn_session_destroy(&learner->evaluator);
    kn_trainer_destroy(&learner->trainer);
    learner->options->how = params;
    learner->options->how.session = NULL; /* which ends here */
    if (learner_reports_accuracy(learner)) {
        params.extra = &setup->accuracy;
        params.extra_count = 1;
    }
    params.communicator = learner->communicator;
    learner->trainer = kn_trainer_create(learner->context, setup->loss.value, &params);
    if (kn_trainer_status(learner->trainer) != KN_OK)
        return command_error("%s", learner->trainer ? kn_trainer_error(learner->trainer) : "out of memory");
    return !setup->validation || open_evaluation(learner);
}

static uint64_t memory_allowed(const train_learner *learner) {
    return learner->options->memory ? learner->options->memory
                                    : kn_context_capabilities(learner->context)->memory_bytes;
}

/* Training and evaluation share the parameters; the rest of their memory adds up. Training is limited to the
 * memory that evaluation leaves. */
static kn_status plan_batch(void *user, int64_t batch, uint64_t *bytes) {
    train_learner *learner = user;
    kn_feed feeds[SETUP_FIELDS];
    kn_plan_info info = {.size = sizeof info}, evaluator = {.size = sizeof evaluator};
    const bool as_bytes =
        learner->setup->changes && kn_augmentation_keeps_bytes(&learner->setup->augmentation);
    const int64_t evaluation_batch = (int64_t)learner_evaluation_batch(learner->options, (uint64_t)batch);
    size_t count = setup_sizes(learner->setup, evaluation_batch, true, feeds);
    kn_status status = KN_OK;
    if (learner->evaluator)
        status = batch_plan_session(learner->evaluator, evaluation_batch, feeds, count, &evaluator);
    const uint64_t all = memory_allowed(learner), more = evaluator.own_peak_bytes - evaluator.own_state_bytes;
    kn_trainer_set_memory_bytes(learner->trainer, all > more ? all - more : 1);
    uint64_t first, own = (uint64_t)batch;
    kn_trainer_local_samples(learner->trainer, (uint64_t)batch, &first, &own);
    setup_sizes(learner->setup, (int64_t)own, as_bytes, feeds);
    if (status == KN_OK) status = kn_trainer_compile_for(learner->trainer, batch, feeds, count);
    if (status == KN_OK) status = kn_trainer_plan(learner->trainer, &info);
    learner->recomputed = info.recomputed;
    learner->host_bytes = info.host_bytes;
    learner->recomputed_part = info.flops > 0 ? info.recomputed_flops / info.flops : 0;
    *bytes = learner->planned_bytes =
        info.own_peak_bytes + evaluator.own_peak_bytes - evaluator.own_state_bytes;
    return status;
}

static const char *plan_error(void *user) {
    const train_learner *learner = user;
    return kn_trainer_error(learner->trainer)[0] ? kn_trainer_error(learner->trainer)
                                                 : kn_session_error(learner->evaluator);
}

/* Reports the cost of saving memory. */
static void print_recomputed(const train_learner *learner) {
    char bytes[32];
    if (!learner->recomputed) return;
    const double part = learner->recomputed_part;
    command_info(
        "%d kernels of the forward pass run twice, %.0f %% more operations, so that training takes %s "
        "of device memory",
        learner->recomputed, 100 * part / (1 - part),
        bytes_text((double)learner->planned_bytes, bytes, sizeof bytes));
}

static void print_waiting(const train_learner *learner) {
    char bytes[32];
    if (!learner->host_bytes) return;
    command_info("moments, %s, stay in host memory between updates",
                 bytes_text((double)learner->host_bytes, bytes, sizeof bytes));
}

static bool fits(train_learner *learner, int64_t batch) {
    uint64_t bytes = 0;
    return plan_batch(learner, batch, &bytes) == KN_OK && bytes <= memory_allowed(learner);
}

/* If not even parts of one sample fit, keep moments in host memory. */
static bool move_moments(train_learner *learner, int64_t batch) {
    train_options *options = learner->options;
    if (options->rule.host_moments || options->shard_optimizer) return true;
    const uint64_t part = options->part;
    if (!options->in_sequence && batch > 1) options->part = INT64_MAX;
    if (!open_trainer(learner)) return false;
    const bool enough = fits(learner, 1);
    if (!enough) options->rule.host_moments = true;
    options->part = part;
    return open_trainer(learner);
}

/* Split a batch that does not fit into parts and add their gradients: the updates are equal to the updates of
 * the whole batch. With shards, split each shard. Sequential samples have states per position in the batch,
 * so reduce the batch size instead. */
static bool make_smaller(train_learner *learner, int64_t largest) {
    train_options *options = learner->options;
    batch_plans plans = {
        .allowed = options->memory, .user = learner, .plan = plan_batch, .error = plan_error};
    const bool parts = !options->in_sequence;
    const uint64_t shards = options->shards == UINT64_MAX ? 1 : options->shards;
    int64_t batch = largest;
    /* Adding gradients takes memory too. */
    if (parts && largest > 1) options->part = INT64_MAX;
    if (!open_trainer(learner) ||
        !batch_fit(learner->context, &plans, parts,
                   parts ? "the gradients of parts are added, of" : "training continues with", &batch))
        return false;
    if (parts)
        options->part = ((uint64_t)batch + shards - 1) / shards;
    else
        options->batch = (uint64_t)batch;
    /* A different batch size changes the number of steps, on which the schedule may depend. */
    if (!open_trainer(learner)) return false;
    return fits(learner, parts ? largest : batch) || command_error("%s", plan_error(learner));
}

/* Makes training fit into memory: first tries an evaluation that keeps no memory between runs. */
bool learner_open(train_learner *learner) {
    if (!open_trainer(learner)) return false;
    const train_options *options = learner->options;
    const int64_t batch = (int64_t)(options->batch < learner->samples ? options->batch : learner->samples);
    bool done = fits(learner, batch);
    if (!done && learner->evaluator) {
        learner->frugal = true;
        if (!open_evaluation(learner)) return false;
        done = fits(learner, batch);
    }
    /* The first device of --devices determines the size for this process; processes agree later
     * (world_choose_part). */
    if (!done && learner->other)
        return command_error("%s: %s", kn_context_device(learner->context)->name, plan_error(learner));
    if (!done) {
        if (!move_moments(learner, batch)) return false;
        done = options->rule.host_moments && fits(learner, batch);
    }
    if (!done && !make_smaller(learner, batch)) return false;
    print_recomputed(learner);
    print_waiting(learner);
    return true;
}

void learner_close(train_learner *learner) {
    kn_session_destroy(&learner->evaluator);
    kn_trainer_destroy(&learner->trainer);
}
