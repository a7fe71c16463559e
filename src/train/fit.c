/* The training loop. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <koine/fit.h>

#include "data/data.h"
#include "train/trainer_private.h"

KN_DEFINE_INIT(kn_fit_params, KN_FIT_DEFAULTS)

/* A step that has begun. */
typedef struct begun_step {
    kn_batch batch;
    uint64_t step;
    double rate, begin;
} begun_step;

typedef struct fit_run {
    kn_trainer *trainer;
    const kn_fit_params *params;
    kn_fit_result *result;
    kn_loader *loader;
    uint64_t batch;                   /* samples per evaluation batch */
    uint64_t batches;                 /* per epoch; 0 for a failed loader */
    kn_batch next;                    /* the next batch to train on, if `taken` */
    bool taken, ahead;                /* and whether it has been uploaded (`ahead`) */
    bool waits;                       /* on_step needs the states of the step that has begun */
    begun_step begun[KN_STEPS_BEGUN]; /* steps that have begun and not ended, oldest first */
    int begun_count;
    double ended;                  /* when the last step ended */
    double start;                  /* of the call */
    double excluded;               /* seconds of validation and callbacks, excluded from training time */
    double recent, recent_samples; /* decaying sums, for the recent speed */
    uint64_t samples;
    kn_fit_memory memory;
    bool leaves;                     /* a callback of this worker requests a stop */
    double best_loss, best_accuracy; /* scores of the best epoch; NaN if it was before this call */
    bool recalled;                   /* the best epoch belongs to an earlier training run */
    kn_snapshot kept;                /* with patience: the states of the best epoch */
} fit_run;

/* Mean loss over the samples that the current epoch has trained on. */
static double epoch_loss(const fit_run *fitting) {
    return fitting->memory.samples > 0 ? fitting->memory.loss / fitting->memory.samples : NAN;
}
static double epoch_accuracy(const fit_run *fitting) {
    return fitting->memory.counted > 0 ? fitting->memory.right / fitting->memory.counted : NAN;
}

static kn_status fail(fit_run *fitting, kn_status status, const char *text) {
    fitting->result->stop_reason = KN_STOP_ERROR;
    const int most = (int)sizeof fitting->result->message - 1;
    snprintf(fitting->result->message, sizeof fitting->result->message, "%.*s", most, text);
    return status;
}

static bool steps_are_done(const fit_run *fitting) {
    const kn_fit_params *params = fitting->params;
    return params->steps && kn_trainer_steps(fitting->trainer) >= params->steps;
}

static bool time_is_up(const fit_run *fitting) {
    const kn_fit_params *params = fitting->params;
    return params->seconds > 0 && kn_clock() - fitting->start >= params->seconds;
}

/* The communicator of this training; NULL: there is only one worker. */
static const kn_communicator *others(const fit_run *fitting) {
    const kn_communicator *all = fitting->trainer->params.communicator;
    return all && all->ranks > 1 ? all : NULL;
}

/* A callback requests a stop; with several workers it takes effect at the next step at which all agree. */
static void leave(fit_run *fitting, bool *stop) {
    fitting->leaves = true;
    if (others(fitting)) return;
    fitting->result->stop_reason = KN_STOP_CALLBACK;
    *stop = true;
}

/* Requests of a worker, which become the number of workers with the request. */
enum { TIME, WISH, STATES, VOTES };
static void list_votes(const fit_run *fitting, float votes[VOTES]) {
    votes[TIME] = time_is_up(fitting);
    votes[WISH] = fitting->leaves;
    votes[STATES] = fitting->waits;
}

static void count_votes(fit_run *fitting, const float votes[VOTES], bool *stop) {
    fitting->waits = votes[STATES] > 0;
    if (votes[WISH] > 0) fitting->result->stop_reason = KN_STOP_CALLBACK;
    *stop = *stop || votes[TIME] > 0 || votes[WISH] > 0;
}

/* Stops all workers after the same epoch or round if one of them requests it. */
static kn_status agree(fit_run *fitting, bool *stop) {
    const kn_communicator *all = others(fitting);
    kn_error error = {.status = KN_OK};
    float votes[VOTES];
    if (!all) return KN_OK;
    list_votes(fitting, votes);
    if (kn_communicator_fail(all, kn_all_reduce(all, votes, VOTES), &error) != KN_OK)
        return fail(fitting, error.status, error.text);
    count_votes(fitting, votes, stop);
    return KN_OK;
}

/* Collects states that are distributed over the workers, before a callback that may save them. */
static kn_status collect(fit_run *fitting) {
    kn_status status = kn_trainer_collect(fitting->trainer);
    return status == KN_OK ? KN_OK : fail(fitting, status, kn_trainer_error(fitting->trainer));
}

/* Ends a round that the end of an epoch or of the call interrupts. */
static kn_status end_round(fit_run *fitting) {
    kn_trainer *trainer = fitting->trainer;
    kn_status status = kn_trainer_local_steps(trainer) ? kn_rounds_end(trainer) : KN_OK;
    return status == KN_OK ? KN_OK : fail(fitting, status, kn_trainer_error(trainer));
}

static kn_status explain_not_finite(fit_run *fitting, const kn_batch *batch, double loss) {
    kn_fit_result *result = fitting->result;
    char sentence[400] = "";
    uint64_t first, own = 0;
    kn_trainer_local_samples(fitting->trainer, batch->count, &first, &own);
    if (fitting->params->find_not_finite &&
        kn_trainer_find_not_finite(fitting->trainer, (int64_t)own, batch->feeds, batch->feed_count, sentence,
                                   sizeof sentence) != KN_OK)
        snprintf(sentence, sizeof sentence, "%s", kn_trainer_error(fitting->trainer));
    result->stop_reason = KN_STOP_ERROR;
    snprintf(result->message, sizeof result->message, "the loss of step %llu is %s%s%s",
             (unsigned long long)result->step, isnan(loss) ? "NaN" : "infinite", sentence[0] ? ": " : "",
             sentence);
    return KN_ERROR_NOT_FINITE;
}

static kn_status remember(fit_run *fitting) {
    if (!fitting->params->save_progress) return KN_OK;
    kn_status status = kn_fit_remember(fitting->trainer, &fitting->memory);
    return status == KN_OK ? KN_OK : fail(fitting, status, kn_trainer_error(fitting->trainer));
}

/* Uploads the next batch, if it is ready, while a step is in progress. */
static kn_status take_next(void *user, kn_error *error) {
    fit_run *fitting = user;
    kn_batch *next = &fitting->next;
    /* Diagnosing a failed step needs its batch. */
    if (fitting->taken || fitting->params->find_not_finite || !kn_loader_ready(fitting->loader)) return KN_OK;
    /* A failure is reported again when the batch is requested: the current step still counts. */
    fitting->taken = kn_loader_next(fitting->loader, next) == KN_OK;
    fitting->ahead = fitting->taken && next->count;
    if (!fitting->ahead) return KN_OK;
    kn_status status = kn_trainer_feed_ahead(fitting->trainer, next->feeds, next->feed_count);
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s", kn_trainer_error(fitting->trainer));
}

/* Stops all workers after the same step: the step's sums include the votes, so no other message is needed. In
 * rounds, workers agree at the end of a round. */
static kn_status begin_and_vote(fit_run *fitting, const kn_batch *batch, bool *stop) {
    kn_trainer *trainer = fitting->trainer;
    const kn_fit_params *params = fitting->params;
    const bool in_rounds = trainer->params.sync_every, by_sums = others(fitting) && !in_rounds;
    const bool ahead = fitting->ahead;
    float votes[VOTES];
    fitting->ahead = false;
    fitting->waits =
        params->needs_states && params->needs_states(params->user, kn_trainer_steps(trainer) + 1);
    list_votes(fitting, votes);
    if (by_sums) kn_session_vote(trainer->session, votes);
    kn_status status =
        kn_trainer_begin_step(trainer, (int64_t)batch->count, batch->feeds, batch->feed_count, ahead,
                              params->train_accuracy, (kn_enqueued_callback){take_next, fitting});
    if (status != KN_OK) return fail(fitting, status, kn_trainer_error(trainer));
    if (by_sums) {
        kn_session_voted(trainer->session, votes);
        count_votes(fitting, votes, stop);
    }
    return in_rounds && !kn_trainer_local_steps(trainer) ? agree(fitting, stop) : KN_OK;
}

/* Begins a step and meanwhile uploads the next batch: before the step waits for other workers, or once it is
 * enqueued. *more: the next step may begin before this one has ended. */
static kn_status begin_step(fit_run *fitting, const kn_batch *batch, bool *more, bool *stop) {
    kn_trainer *trainer = fitting->trainer;
    kn_error error = {.status = KN_OK};
    begun_step begun = {.batch = *batch, .rate = kn_trainer_learning_rate(trainer), .begin = kn_clock()};
    kn_status status = begin_and_vote(fitting, batch, stop);
    if (status != KN_OK) return status;
    begun.step = kn_trainer_steps(trainer);
    fitting->begun[fitting->begun_count++] = begun;
    status = take_next(fitting, &error); /* unless the batch has been taken */
    *more = fitting->ahead && !fitting->waits;
    return status == KN_OK ? KN_OK : fail(fitting, status, error.text);
}

static kn_status next_batch(fit_run *fitting, kn_batch *batch) {
    kn_status status = fitting->taken ? KN_OK : kn_loader_next(fitting->loader, &fitting->next);
    fitting->taken = false;
    *batch = fitting->next;
    return status == KN_OK ? KN_OK : fail(fitting, status, kn_loader_error(fitting->loader));
}

/* Ends the oldest step that has begun, and reports its results. */
static kn_status end_step(fit_run *fitting, bool *stop) {
    kn_trainer *trainer = fitting->trainer;
    kn_fit_result *result = fitting->result;
    const begun_step ended = fitting->begun[0];
    const kn_batch *batch = &ended.batch;
    double loss = 0, accuracy = NAN;
    fitting->begun_count--;
    memmove(fitting->begun, fitting->begun + 1, (size_t)fitting->begun_count * sizeof *fitting->begun);
    kn_status status = kn_trainer_end_step(trainer, &loss, &accuracy);
    if (status != KN_OK) return fail(fitting, status, kn_trainer_error(trainer));
    const double now = kn_clock(), taken = now - fmax(ended.begin, fitting->ended);
    fitting->ended = now;
    result->step = ended.step;
    result->epoch = batch->epoch + 1;
    result->loss = loss;
    fitting->samples += batch->count;
    fitting->recent = 0.9 * fitting->recent + taken;
    fitting->recent_samples = 0.9 * fitting->recent_samples + (double)batch->count;
    fitting->memory.loss += loss * (double)batch->count;
    fitting->memory.samples += (double)batch->count;
    if (isfinite(accuracy)) {
        fitting->memory.right += accuracy * (double)batch->count;
        fitting->memory.counted += (double)batch->count;
    }
    if (isfinite(loss)) status = remember(fitting);
    if (status != KN_OK) return status;
    kn_fit_step step = {.size = sizeof step,
                        .step = result->step,
                        .epoch = batch->epoch + 1,
                        .batch = batch->index + 1,
                        .batches = fitting->batches,
                        .samples = batch->count,
                        .loss = loss,
                        .learning_rate = ended.rate,
                        .samples_per_s = fitting->recent > 0 ? fitting->recent_samples / fitting->recent : 0,
                        .seconds = kn_clock() - fitting->start,
                        .accuracy = accuracy};
    double before = kn_clock();
    if (fitting->params->on_step && !fitting->params->on_step(fitting->params->user, &step))
        leave(fitting, stop);
    fitting->excluded += kn_clock() - before;
    return isfinite(loss) ? KN_OK : explain_not_finite(fitting, batch, loss);
}

/* Ends steps until at most `left` are running. */
static kn_status end_steps(fit_run *fitting, int left, bool *stop) {
    kn_status status = KN_OK;
    while (status == KN_OK && fitting->begun_count > left)
        status = end_step(fitting, stop);
    return status;
}

static kn_status train_batch(fit_run *fitting, const kn_batch *batch, bool *stop) {
    bool more = false;
    kn_status status = begin_step(fitting, batch, &more, stop);
    if (status == KN_OK && fitting->waits && !kn_trainer_local_steps(fitting->trainer))
        status = collect(fitting);
    fitting->waits = false;
    return status == KN_OK ? end_steps(fitting, more ? 1 : 0, stop) : status;
}

/* Restores the weights, even after a failure. */
static kn_status evaluate_weights(fit_run *fitting) {
    const kn_fit_params *params = fitting->params;
    kn_trainer *trainer = fitting->trainer;
    kn_status status = params->use_averages ? kn_trainer_use_averages(trainer, true) : KN_OK;
    if (status != KN_OK) return fail(fitting, status, kn_trainer_error(trainer));
    const kn_communicator *all = others(fitting);
    status = kn_evaluate_among(all, params->eval_session, params->validation, fitting->batch, params->loss,
                               params->accuracy, (kn_evaluation_report){params->on_validation, params->user},
                               &fitting->result->validation);
    if (status != KN_OK) {
        const char *text = kn_session_error(params->eval_session);
        if (!text[0] && all) text = all->error(all->user);
        fail(fitting, status, text[0] ? text : kn_status_message(status));
    }
    kn_status back = params->use_averages ? kn_trainer_use_averages(trainer, false) : KN_OK;
    return status != KN_OK || back == KN_OK ? status : fail(fitting, back, kn_trainer_error(trainer));
}

/* Only evaluations at the end of an epoch count for the schedule, because a resumed run sees only these. */
static kn_status evaluate(fit_run *fitting) {
    const kn_fit_params *params = fitting->params;
    kn_trainer *trainer = fitting->trainer;
    if (!params->validation || !params->eval_session) return KN_OK;
    double before = kn_clock();
    kn_status status = evaluate_weights(fitting);
    fitting->excluded += kn_clock() - before;
    if (status != KN_OK || kn_trainer_steps(trainer) % fitting->batches) return status;
    status = kn_trainer_report_validation(trainer, fitting->result->validation.loss);
    return status == KN_OK ? KN_OK : fail(fitting, status, kn_trainer_error(trainer));
}

static kn_status keep_best(fit_run *fitting) {
    const char *problem = "";
    double before = kn_clock();
    kn_status status = kn_snapshot_take(&fitting->kept, &problem);
    fitting->excluded += kn_clock() - before;
    return status == KN_OK ? KN_OK : fail(fitting, status, problem);
}

/* With patience, the result is the best epoch, not the last. A stopped run keeps its current states, so that
 * it can be resumed. */
static kn_status return_to_best(fit_run *fitting) {
    kn_fit_result *result = fitting->result;
    const char *problem = "";
    uint64_t steps = kn_trainer_steps(fitting->trainer);
    const kn_fit_params *params = fitting->params;
    bool before = !fitting->kept.taken && fitting->recalled && params->patience && params->restore_best &&
                  fitting->memory.best.samples && fitting->memory.best_step != (double)steps;
    if (result->stop_reason == KN_STOP_CALLBACK) return KN_OK;
    if (before) {
        if (!params->restore_best(params->user))
            return fail(fitting, KN_ERROR_NOT_FOUND, "the states of the best epoch could not be restored");
    } else {
        if (!fitting->kept.taken || fitting->kept.steps == steps) return KN_OK;
        kn_status status = kn_snapshot_restore(&fitting->kept, &problem);
        if (status != KN_OK) return fail(fitting, status, problem);
        if ((status = collect(fitting)) != KN_OK) return status;
    }
    result->step = kn_trainer_steps(fitting->trainer);
    result->discarded_steps = steps - result->step;
    result->validation = fitting->memory.best;
    result->epoch_loss = fitting->best_loss;
    result->epoch_accuracy = fitting->best_accuracy;
    return KN_OK;
}

/* Whether the states are at the end of an epoch; a run may also end elsewhere. */
static bool epoch_is_whole(const fit_run *fitting) {
    return kn_trainer_steps(fitting->trainer) % fitting->batches == 0;
}

/* Updates the best epoch with a score. Only ends of epochs are recorded, as for the schedule. */
static kn_status after_evaluation(fit_run *fitting, bool *best) {
    const kn_fit_params *params = fitting->params;
    const kn_score *score = &fitting->result->validation;
    kn_fit_memory memory = fitting->memory;
    double step = (double)kn_trainer_steps(fitting->trainer);
    *best = score->samples > 0 && score->loss < (memory.best.samples ? memory.best.loss : INFINITY);
    if (*best) {
        memory.best = *score;
        memory.best_step = step;
    }
    memory.since_best = *best ? 0 : memory.since_best + 1;
    memory.evaluated = step;
    memory.loss = memory.samples = memory.right = memory.counted = 0;
    fitting->memory = memory;
    kn_status status = epoch_is_whole(fitting) ? remember(fitting) : KN_OK;
    return status == KN_OK && *best && params->patience ? keep_best(fitting) : status;
}

static bool out_of_patience(const fit_run *fitting) {
    return fitting->params->patience && fitting->memory.since_best >= (double)fitting->params->patience;
}

static kn_status end_epoch(fit_run *fitting, uint64_t epoch, bool *stop) {
    const kn_fit_params *params = fitting->params;
    kn_fit_result *result = fitting->result;
    kn_fit_epoch report = {.size = sizeof report,
                           .epoch = epoch + 1,
                           .loss = epoch_loss(fitting),
                           .accuracy = epoch_accuracy(fitting)};
    result->epoch_loss = report.loss;
    result->epoch_accuracy = report.accuracy;
    kn_status status = end_round(fitting);
    if (status == KN_OK) status = evaluate(fitting);
    if (status == KN_OK) status = after_evaluation(fitting, &report.best);
    if (status != KN_OK) return status;
    if (report.best) {
        fitting->best_loss = report.loss;
        fitting->best_accuracy = report.accuracy;
    }
    report.validation = result->validation;
    report.seconds = kn_clock() - fitting->start;
    double before = kn_clock();
    status = collect(fitting);
    if (status != KN_OK) return status;
    if (params->on_epoch && !params->on_epoch(params->user, &report)) leave(fitting, stop);
    fitting->excluded += kn_clock() - before;
    status = agree(fitting, stop);
    if (status != KN_OK) return status;
    if (!*stop && result->validation.samples && out_of_patience(fitting)) {
        result->stop_reason = KN_STOP_PATIENCE;
        *stop = true;
    }
    return KN_OK;
}

/* A run that was stopped at the end of an epoch, before its evaluation, resumes as if it had been evaluated.
 */
static kn_status evaluate_before(fit_run *fitting, uint64_t epoch, bool *stop) {
    uint64_t steps = kn_trainer_steps(fitting->trainer);
    bool whole = steps && epoch_is_whole(fitting);
    kn_status status = KN_OK;
    if (whole && fitting->recalled && fitting->memory.evaluated != (double)steps) {
        status = end_epoch(fitting, epoch - 1, stop);
    } else if (whole && !kn_plateau_is_current(fitting->trainer)) {
        status = evaluate(fitting);
    } else if (fitting->recalled && out_of_patience(fitting)) {
        fitting->result->stop_reason = KN_STOP_PATIENCE;
        *stop = true;
    }
    fitting->result->validation = (kn_score)KN_SCORE_DEFAULTS;
    return status;
}

static kn_status run(fit_run *fitting) {
    const kn_fit_params *params = fitting->params;
    bool stop = false, evaluated = true;
    kn_batch batch;
    uint64_t epoch = kn_trainer_steps(fitting->trainer) / fitting->batches;
    kn_status status = evaluate_before(fitting, epoch, &stop);
    const bool alone = !others(fitting);
    while (status == KN_OK && !stop && !(params->epochs && epoch >= params->epochs) &&
           !steps_are_done(fitting) && !(alone && time_is_up(fitting))) {
        status = next_batch(fitting, &batch);
        if (status != KN_OK) return status;
        if (batch.count) {
            status = train_batch(fitting, &batch, &stop);
            evaluated = false;
            continue;
        }
        status = end_epoch(fitting, epoch, &stop);
        evaluated = true;
        epoch++;
    }
    if (status == KN_OK) status = end_steps(fitting, 0, &stop);
    if (!evaluated) {
        fitting->result->epoch_loss = epoch_loss(fitting);
        fitting->result->epoch_accuracy = epoch_accuracy(fitting);
    }
    /* A run that ends within an epoch is evaluated there, unless a callback stopped it. */
    if (status != KN_OK || (fitting->result->stop_reason == KN_STOP_CALLBACK && !evaluated)) {
        fitting->result->validation = (kn_score)KN_SCORE_DEFAULTS;
    } else if (!evaluated) {
        bool ignored = false;
        kn_stop_reason reason = fitting->result->stop_reason;
        status = end_epoch(fitting, epoch, &ignored);
        if (status == KN_OK) fitting->result->stop_reason = reason;
    }
    if (status == KN_OK) status = collect(fitting);
    return status == KN_OK ? return_to_best(fitting) : status;
}

/* The samples per evaluation batch: no more than training computes at once. */
static uint64_t evaluation_batch(const kn_trainer *trainer, uint64_t batch) {
    const uint64_t most = trainer ? trainer->params.micro_batch : 0;
    return most && most < batch ? most : batch;
}

static kn_status open_loader(fit_run *fitting, const kn_dataset *dataset) {
    kn_loader_params params = KN_LOADER_DEFAULTS;
    kn_error error = {0};
    kn_status status = KN_PARAMS_TAKE(kn_loader_params, &params, fitting->params->loader, &error);
    if (status != KN_OK) return fail(fitting, status, error.text);
    params.bytes = true;
    const kn_shards *shards = &fitting->trainer->dealt;
    params.shards = shards->count;
    params.first_shard = shards->firsts[shards->rank];
    params.own_shards = shards->firsts[shards->rank + 1] - params.first_shard;
    fitting->loader = kn_loader_create(dataset, &params);
    status = kn_loader_status(fitting->loader);
    if (status != KN_OK)
        return fail(fitting, status,
                    fitting->loader ? kn_loader_error(fitting->loader) : "out of host memory");
    uint64_t batches = kn_loader_batches(fitting->loader), steps = kn_trainer_steps(fitting->trainer);
    fitting->batches = batches;
    if (!batches)
        return fail(fitting, KN_ERROR_ARGUMENT,
                    "the dataset has no full batch: use a smaller batch, or keep partial batches");
    status = kn_loader_seek(fitting->loader, steps / batches, steps % batches);
    return status == KN_OK ? KN_OK : fail(fitting, status, kn_loader_error(fitting->loader));
}

/* Other workers' callbacks may also end the training. */
static kn_status check_end(fit_run *fitting) {
    const kn_fit_params *params = fitting->params;
    if (!(params->seconds >= 0))
        return fail(fitting, KN_ERROR_ARGUMENT, "the time limit is not a number of at least 0");
    if (params->epochs || params->steps || params->seconds > 0 || params->patience || params->on_step ||
        params->on_epoch || fitting->trainer->params.communicator)
        return KN_OK;
    return fail(fitting, KN_ERROR_ARGUMENT,
                "training would never end: expected a limit of epochs, steps or seconds, patience, or a "
                "callback");
}

kn_status kn_fit(kn_trainer *trainer, const kn_dataset *dataset, const kn_fit_params *params,
                 kn_fit_result *result) {
    kn_fit_params own = KN_FIT_DEFAULTS;
    kn_loader_params batches = KN_LOADER_DEFAULTS;
    kn_fit_result whole = KN_FIT_RESULT_DEFAULTS, *asked = result;
    kn_error error = {0};
    if (asked && !kn_has_size(asked)) return KN_ERROR_ARGUMENT;
    KN_PARAMS_TAKE(kn_fit_params, &own, params, &error);
    if (error.status == KN_OK) KN_PARAMS_TAKE(kn_loader_params, &batches, own.loader, &error);
    own.loader = &batches;
    result = &whole;
    fit_run fitting = {.trainer = trainer,
                       .params = &own,
                       .result = result,
                       .batch = evaluation_batch(trainer, batches.batch),
                       .next = {.size = sizeof(kn_batch)},
                       .start = kn_clock(),
                       .best_loss = NAN,
                       .best_accuracy = NAN,
                       .kept = {.trainer = trainer}};
    result->loss = result->epoch_loss = result->epoch_accuracy = NAN;
    result->step = kn_trainer_steps(trainer);
    kn_status status = kn_trainer_status(trainer);
    if (status == KN_OK && error.status != KN_OK)
        status = fail(&fitting, error.status, error.text);
    else if (status != KN_OK)
        fail(&fitting, status, kn_trainer_error(trainer));
    else if ((status = kn_dataset_status(dataset)) != KN_OK)
        fail(&fitting, status, kn_dataset_error(dataset));
    else if ((status = check_end(&fitting)) == KN_OK)
        status = open_loader(&fitting, dataset);
    if (status == KN_OK) {
        kn_trainer_end_all(trainer); /* of kn_trainer_step_late */
        fitting.recalled = own.save_progress && kn_fit_recall(trainer, &fitting.memory);
        status = run(&fitting);
    }
    /* The other workers wait for this one. */
    const kn_communicator *communicator = trainer ? trainer->params.communicator : NULL;
    if (status != KN_OK && communicator) communicator->abort(communicator->user, result->message);
    double training = kn_clock() - fitting.start - fitting.excluded;
    result->samples_per_s = training > 0 ? (double)fitting.samples / training : 0;
    result->training_seconds = training;
    result->data_seconds = kn_loader_wait_seconds(fitting.loader);
    kn_trainer_end_all(trainer);
    kn_snapshot_finish(&fitting.kept);
    kn_loader_destroy(&fitting.loader);
    if (asked) KN_RESULT_GIVE(kn_fit_result, asked, &whole);
    return status;
}
