/* Opens the trainer of koine train and its evaluation within the available memory. */
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
    kn_trainer_params params = options->config.params;
    const uint64_t together = params.accumulate, steps = steps_of(options, samples);
    params.total_steps = (steps + together - 1) / together;
    if (options->config.cosine && !steps) params.schedule = KN_SCHEDULE_CONSTANT;
    params.skip_not_finite = options->find_nan;
    *session = (kn_session_params)KN_SESSION_DEFAULTS;
    session->seed = options->seed;
    arithmetic_apply(&options->common.arithmetic, session);
    session->memory_bytes = options->memory;
    params.session = session;
    params.shards = options->crew.shards == UINT64_MAX ? 0 : (int)options->crew.shards;
    params.shard_counts = options->crew.dealt ? options->crew.deal : NULL;
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

/* Reports what saving memory costs. */
static void print_measures(const kn_memory_fit *fit) {
    char bytes[32];
    const double part = fit->recomputed_fraction;
    if (fit->recomputed)
        command_info("%d kernels of the forward pass run twice, %.0f %% more operations, so that training "
                     "takes %s of device memory",
                     fit->recomputed, 100 * part / (1 - part),
                     bytes_text((double)fit->bytes, bytes, sizeof bytes));
    if (fit->host_bytes)
        command_info("moments, %s, stay in host memory between updates",
                     bytes_text((double)fit->host_bytes, bytes, sizeof bytes));
}

bool learner_open(train_learner *learner) {
    train_options *options = learner->options;
    training_setup *setup = learner->setup;
    kn_session_params session;
    kn_trainer_params params = learner_params(options, learner->samples, &session);
    kn_feed feeds[SETUP_FIELDS], eval_feeds[SETUP_FIELDS];
    kn_value *values[2] = {setup->loss.eval_loss, setup->accuracy};
    kn_memory_fit fit = KN_MEMORY_FIT_DEFAULTS;
    const bool as_bytes = setup->changes && kn_augmentation_keeps_bytes(&setup->augmentation);
    const size_t count = setup_sizes(setup, 1, as_bytes, feeds);
    setup_sizes(setup, 1, true, eval_feeds);
    const kn_memory_request request = {.size = sizeof request,
                                       .batch = options->batch < learner->samples ? options->batch
                                                                                  : learner->samples,
                                       .feeds = feeds,
                                       .eval_feeds = eval_feeds,
                                       .feed_count = count,
                                       .eval_values = values,
                                       .eval_value_count = !setup->validation ? 0
                                                           : setup->accuracy  ? 2
                                                                              : 1,
                                       .whole = options->in_sequence,
                                       .fixed = learner->other};
    if (learner_reports_accuracy(learner)) {
        params.extra = &setup->accuracy;
        params.extra_count = 1;
    }
    params.communicator = learner->communicator;
    learner_close(learner);
    learner->total_steps = steps_of(options, learner->samples);
    const kn_status status = kn_fit_prepare(learner->context, setup->loss.value, &params, &request,
                                            &learner->trainer, &learner->evaluator, &fit);
    /* The first device of --devices determines the size for this process; processes agree later
     * (world_choose_part). */
    if (status != KN_OK)
        return learner->other
                   ? command_error("%s: %s", kn_context_device(learner->context)->name, fit.message)
                   : command_error("%s", fit.message);
    if (fit.message[0])
        command_warn("a batch of %llu does not fit: %s; %s %llu, the largest %s",
                     (unsigned long long)request.batch, fit.message,
                     fit.part ? "the gradients of parts are added, of" : "training continues with",
                     (unsigned long long)(fit.part ? fit.part : fit.batch),
                     fit.part ? "equal ones that do" : "that does");
    if (fit.batch != request.batch) { /* it changes the number of steps, on which the schedule may depend */
        options->batch = fit.batch;
        return learner_open(learner);
    }
    options->part = params.micro_batch;
    options->config.params.offload_optimizer = params.offload_optimizer;
    options->how = params;
    options->how.session = NULL; /* which ends here */
    learner->planned_bytes = fit.bytes;
    print_measures(&fit);
    return true;
}

void learner_close(train_learner *learner) {
    kn_session_destroy(&learner->evaluator);
    kn_trainer_destroy(&learner->trainer);
}
