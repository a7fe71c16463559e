/* The trainer: a session whose bound graphs are extended by gradients and updates. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer_private.h"

static const kn_shards *shards_of(const kn_trainer *trainer) {
    return trainer->shards.count ? &trainer->shards : NULL;
}

static kn_status extend(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    const kn_trainer *trainer = user;
    const size_t given = trainer->params.extra_count + 1;
    kn_status status = kn_counts_use(trainer, bound, values, given, error);
    if (status == KN_OK)
        status = kn_optimizer_extend(&trainer->params, trainer->settings, trainer->running.precision,
                                     shards_of(trainer), bound, values, given, error);
    /* Extra values were only passed for the search. */
    for (size_t i = given; i < count; i++)
        values[i] = values[0];
    return status;
}

static kn_status open_with(kn_trainer *trainer, kn_value *const *values, size_t count) {
    const kn_trainer_params *params = &trainer->params;
    kn_session_params running = trainer->running;
    running.training = true;
    kn_session_request request = {.context = trainer->context,
                                  .values = values,
                                  .count = count,
                                  .params = &running,
                                  .communicator = params->communicator,
                                  .shards = shards_of(trainer),
                                  .any_order = params->sum_any_order,
                                  .extend = extend,
                                  .user = trainer};
    trainer->session = kn_session_open(&request);
    kn_status status = kn_session_status(trainer->session);
    if (status != KN_OK)
        return kn_fail(&trainer->error, status, "%s",
                       trainer->session ? kn_session_error(trainer->session) : "out of host memory");
    trainer->loss = kn_session_value(trainer->session, 0);
    trainer->states = kn_session_states(trainer->session);
    kn_states_forbid_narrow(trainer->states);
    return KN_OK;
}

static kn_status open_session(kn_trainer *trainer, kn_value *loss) {
    const kn_trainer_params *params = &trainer->params;
    const size_t given = params->extra_count + 1, room = given + loss->graph->value_count;
    const kn_counts *counts = &trainer->counts;
    kn_value **values = kn_allocate(&trainer->host, room, sizeof *values);
    if (!values) return kn_fail_memory(&trainer->error, room * sizeof *values);
    values[0] = loss;
    for (size_t i = 0; i < params->extra_count; i++)
        values[1 + i] = params->extra[i];
    const bool in_pieces = trainer->shards.count > 1 || params->micro_batch;
    kn_status status = in_pieces ? kn_counts_find(trainer, values, given) : KN_OK;
    if (status == KN_OK) status = open_with(trainer, values, given + counts->total_count + counts->sum_count);
    if (status == KN_OK) status = kn_counts_open(trainer, values + given);
    kn_release(&trainer->host, values);
    return status;
}

static kn_status make(kn_trainer *trainer, kn_value *loss, const kn_trainer_params *params) {
    const kn_error *failure = kn_context_failure(trainer->context);
    if (kn_context_status(trainer->context) != KN_OK)
        return kn_fail(&trainer->error, kn_context_status(trainer->context), "%s",
                       failure ? failure->text : "the context is NULL: out of host memory");
    kn_status status = kn_trainer_take_params(trainer, params);
    if (status != KN_OK) return status;
    if (!loss)
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                       "the loss is NULL: its graph could not be created");
    if (kn_value_failed(loss))
        return kn_fail(&trainer->error, kn_graph_status(loss->graph), "%s", kn_graph_error(loss->graph));
    if (loss->shape.rank != 0 || loss->shape.dtype != KN_FLOAT32)
        return kn_fail(&trainer->error, KN_ERROR_SHAPE,
                       "loss '%s' is %s; expected a float32 scalar, such as a mean", loss->name,
                       kn_shape_words(loss->graph, &loss->shape));
    trainer->loss_name = kn_copy_text(&trainer->host, loss->name);
    if (!trainer->loss_name) return kn_fail_memory(&trainer->error, strlen(loss->name) + 1);
    status = kn_trainer_check_groups(trainer, loss);
    if (status == KN_OK) status = open_session(trainer, loss);
    if (status == KN_OK) kn_trainer_recall(trainer);
    return status;
}

kn_trainer *kn_trainer_create(kn_context *context, kn_value *loss, const kn_trainer_params *params) {
    kn_host host = context ? *kn_context_host(context) : kn_host_defaults();
    kn_trainer *trainer = kn_allocate(&host, 1, sizeof *trainer);
    if (!trainer) return NULL;
    trainer->host = host;
    trainer->context = context;
    trainer->made = make(trainer, loss, params);
    return trainer;
}

void kn_trainer_destroy(kn_trainer **trainer) {
    if (!trainer || !*trainer) return;
    kn_trainer *old = *trainer;
    kn_host host = old->host;
    kn_trainer_end_all(old);
    for (int i = 0; i < EVALUATORS; i++)
        kn_session_destroy(&old->evaluators[i].session);
    kn_session_destroy(&old->session);
    kn_counts_close(old);
    kn_rounds_close(old);
    kn_trainer_release_params(old);
    kn_release(&host, old->loss_name);
    kn_release(&host, old);
    *trainer = NULL;
}

kn_status kn_trainer_status(const kn_trainer *trainer) {
    return trainer ? trainer->made : KN_ERROR_MEMORY;
}

const char *kn_trainer_error(const kn_trainer *trainer) {
    return trainer ? trainer->error.text : "out of host memory";
}

/* Starts a call: clears the error, unless the trainer itself has failed. */
static kn_status begin(kn_trainer *trainer) {
    if (!trainer) return KN_ERROR_MEMORY;
    if (trainer->made == KN_OK) kn_error_clear(&trainer->error);
    return trainer->made;
}

static kn_status fail_from(kn_trainer *trainer, kn_session *session, kn_status status) {
    return status == KN_OK ? KN_OK : kn_fail(&trainer->error, status, "%s", kn_session_error(session));
}

/* Graphs with only fixed sizes have no batch to bind; they can be trained, too. */
static kn_status bind_batch(kn_trainer *trainer, kn_session *session, int64_t count) {
    if (count <= 0)
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "a step of %lld samples; expected at least one",
                       (long long)count);
    kn_status status = kn_session_bind(session, "batch", count);
    return status == KN_ERROR_NOT_FOUND ? KN_OK : fail_from(trainer, session, status);
}

/* Sets the scalars that the update of the current plan reads. */
static kn_status set_scalars(kn_trainer *trainer, const kn_train_run *run) {
    const kn_train_moment moment = {trainer->steps, trainer->plateau.fraction, *run};
    double scalars[KN_TRAIN_SCALARS];
    char name[KN_TRAIN_NAME_BYTES];
    kn_status status = KN_OK;
    for (size_t i = 0; i < trainer->setting_count; i++) {
        const kn_update_setting *setting = &trainer->settings[i];
        if (!setting->needs) continue;
        kn_train_scalars_of(&trainer->params, setting, &moment, scalars);
        for (int s = 0; s < KN_TRAIN_SCALARS && status == KN_OK; s++) {
            if (!(setting->needs >> s & 1)) continue;
            kn_train_scalar_name((kn_train_scalar)s, (int)i, name);
            status = kn_session_set_scalar(trainer->session, name, scalars[s]);
            /* A plan only has the states it reads: no additions for other runs, and nothing for parameters
             * without elements. */
            if (status == KN_ERROR_NOT_FOUND) status = KN_OK;
        }
    }
    return fail_from(trainer, trainer->session, status);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* Whether a run ends with an update. */
static bool updates(const kn_trainer *trainer, const kn_train_run *run) {
    return !run->more && (trainer->steps + 1) % trainer->params.accumulate == 0;
}

/* Prepares a run, for a shard or a whole step. */
static kn_status prepare_run(kn_trainer *trainer, const kn_feed_list *list, const kn_train_run *run) {
    kn_session_move(trainer->session, updates(trainer, run));
    kn_status status = bind_batch(trainer, trainer->session, (int64_t)run->samples);
    if (status == KN_OK)
        status = fail_from(trainer, trainer->session,
                           kn_session_compile(trainer->session, list->feeds, list->count));
    return status == KN_OK ? set_scalars(trainer, run) : status;
}

/* Prepares the run for a shard or a part of a shard; `list` becomes its feeds. */
static kn_status prepare_shard(kn_trainer *trainer, uint64_t count, const kn_train_run *run,
                               kn_feed_list *list) {
    kn_status status = kn_run_feeds(trainer, count, run, list);
    if (status == KN_OK) status = prepare_run(trainer, list, run);
    if (status != KN_OK) return status;
    /* Values are gathered for the update, which accumulating steps lack. */
    kn_session_exchange(trainer->session, !run->more, updates(trainer, run));
    /* Workers in rounds also draw different random numbers. */
    const kn_shards *dealt = &trainer->dealt;
    uint64_t turn = trainer->steps;
    if (trainer->params.sync_every) turn = turn * (uint64_t)dealt->ranks + (uint64_t)dealt->rank;
    return fail_from(trainer, trainer->session, kn_shard_set(trainer->session, &trainer->shards, run, turn));
}

/* Executes all runs of a step on `count` samples except the last, for which `list` becomes the feeds. */
static kn_status prepare_runs(kn_trainer *trainer, int64_t count, kn_feed_list *list) {
    const kn_train_run only = {.samples = (uint64_t)count, .weight = 1, .ratio = 1};
    if (!trainer->shards.count || count <= 0) return prepare_run(trainer, list, &only);
    const kn_feed_list whole = *list;
    kn_status status = kn_counts_run(trainer, (uint64_t)count, list);
    kn_train_run run = kn_run_first(trainer, (uint64_t)count);
    if (status == KN_OK) status = prepare_shard(trainer, (uint64_t)count, &run, list);
    while (status == KN_OK && run.more) {
        status = fail_from(trainer, trainer->session,
                           kn_session_start(trainer->session, list->feeds, list->count, false, NULL, 0,
                                            (kn_enqueued_callback){NULL}, NULL));
        *list = whole;
        run = kn_run_next(trainer, (uint64_t)count, &run);
        if (status == KN_OK) status = prepare_shard(trainer, (uint64_t)count, &run, list);
    }
    return status;
}

/* The number of samples that a step of this worker treats as the whole batch of `count`: in rounds, its own
 * samples. */
static int64_t batch_of_step(const kn_trainer *trainer, int64_t count) {
    uint64_t first, own = 0;
    if (!trainer->params.sync_every || count <= 0) return count;
    kn_trainer_local_samples(trainer, (uint64_t)count, &first, &own);
    return (int64_t)own;
}

/* Executes everything before the last run of a step, for which `list` becomes the feeds. */
static kn_status prepare_step(kn_trainer *trainer, int64_t count, kn_feed_list *list) {
    kn_status status = kn_average_check(trainer, "training continues");
    if (status == KN_OK) status = kn_worker_states_restore(trainer);
    if (status == KN_OK) status = prepare_runs(trainer, batch_of_step(trainer, count), list);
    return status == KN_OK ? kn_rounds_begin(trainer) : status;
}

/* If a step failed here, the other workers would keep waiting. */
static kn_status end_group(kn_trainer *trainer, kn_status status) {
    const kn_communicator *communicator = trainer->params.communicator;
    if (status != KN_OK && communicator) communicator->abort(communicator->user, trainer->error.text);
    return status;
}

kn_status kn_trainer_collect(kn_trainer *trainer) {
    kn_status status = begin(trainer);
    const kn_communicator *communicator = trainer ? trainer->params.communicator : NULL;
    if (status != KN_OK) return status;
    status = kn_rounds_end(trainer);
    if (status == KN_OK) status = kn_worker_states_collect(trainer);
    if (status == KN_OK && communicator && communicator->ranks > 1 && trainer->params.shard_optimizer)
        status = kn_states_collect(trainer->states, communicator, &trainer->error);
    return end_group(trainer, status);
}

/* Called after the last run of a step on a batch of `count` was started. */
static kn_status count_step(kn_trainer *trainer, int64_t count) {
    kn_states_parts_move(trainer->states);
    trainer->steps++;
    return end_group(trainer, kn_rounds_count(trainer, (uint64_t)count));
}

kn_status kn_trainer_step_fetch(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                double *loss, const kn_fetch *fetches, size_t fetch_count) {
    kn_fetch all[1 + EVALUATED];
    float number = 0;
    size_t wanted = 0;
    kn_status status = begin(trainer);
    if (status != KN_OK) return status;
    if (fetch_count > EVALUATED)
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "%zu values fetched at once; expected at most %d",
                       fetch_count, EVALUATED);
    if (fetch_count && !fetches)
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "%zu fetches, but their list is NULL",
                       fetch_count);
    if (loss) all[wanted++] = (kn_fetch){trainer->loss_name, &number, sizeof number};
    for (size_t i = 0; i < fetch_count; i++)
        all[wanted++] = fetches[i];
    kn_feed_list list = {feeds, feed_count};
    status = prepare_step(trainer, count, &list);
    if (status == KN_OK)
        status = fail_from(trainer, trainer->session,
                           kn_session_run(trainer->session, list.feeds, list.count, all, wanted));
    if (status != KN_OK) return end_group(trainer, status);
    if (loss) *loss = number;
    return count_step(trainer, count);
}

kn_status kn_trainer_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                          double *loss) {
    return kn_trainer_step_fetch(trainer, count, feeds, feed_count, loss, NULL, 0);
}

/* Whether a step is one run, whose feeds can be written during the previous run. */
static bool feeds_ahead(const kn_trainer *trainer) {
    const kn_shards *shards = &trainer->shards;
    const int own = shards->firsts[shards->rank + 1] - shards->firsts[shards->rank];
    return !shards->count || (own == 1 && !trainer->params.micro_batch);
}

kn_status kn_trainer_begin_step(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                                bool ahead, const char *extra, kn_enqueued_callback on_enqueued) {
    kn_status status = begin(trainer);
    if (status != KN_OK) return status;
    if (trainer->begun_count == KN_STEPS_BEGUN)
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "%d steps are running; end one of them first",
                       KN_STEPS_BEGUN);
    kn_begun_step *begun = &trainer->begun[(trainer->oldest + trainer->begun_count) % KN_STEPS_BEGUN];
    const kn_fetch fetches[] = {{trainer->loss_name, &begun->loss, sizeof begun->loss},
                                {extra, &begun->extra, sizeof begun->extra}};
    kn_feed_list list = {feeds, feed_count};
    begun->extra = NAN;
    status = prepare_step(trainer, count, &list);
    if (status == KN_OK)
        status = fail_from(trainer, trainer->session,
                           kn_session_start(trainer->session, list.feeds, list.count,
                                            ahead && feeds_ahead(trainer), fetches, extra ? 2 : 1,
                                            on_enqueued, &begun->read));
    if (status != KN_OK) return end_group(trainer, status);
    trainer->begun_count++;
    return count_step(trainer, count);
}

kn_status kn_trainer_feed_ahead(kn_trainer *trainer, const kn_feed *feeds, size_t feed_count) {
    if (!feeds_ahead(trainer)) return KN_OK;
    return fail_from(trainer, trainer->session, kn_session_feed_ahead(trainer->session, feeds, feed_count));
}

kn_status kn_trainer_end_step(kn_trainer *trainer, double *loss, double *extra) {
    kn_begun_step *begun = &trainer->begun[trainer->oldest];
    kn_status status = begun->read.handle ? kn_event_wait(trainer->context, begun->read, &trainer->error)
                                          : kn_trainer_wait(trainer);
    kn_event_release(&begun->read);
    trainer->oldest = (trainer->oldest + 1) % KN_STEPS_BEGUN;
    trainer->begun_count--;
    *loss = begun->loss;
    *extra = begun->extra;
    return status;
}

kn_status kn_trainer_step_late(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                               double *loss) {
    double last = NAN, extra;
    kn_status status =
        kn_trainer_begin_step(trainer, count, feeds, feed_count, false, NULL, (kn_enqueued_callback){NULL});
    if (status != KN_OK) return status;
    if (trainer->begun_count > 1) status = kn_trainer_end_step(trainer, &last, &extra);
    if (loss) *loss = last;
    return status;
}

void kn_trainer_end_all(kn_trainer *trainer) {
    if (!trainer || !trainer->begun_count) return;
    kn_trainer_wait(trainer);
    for (int i = 0; i < KN_STEPS_BEGUN; i++)
        kn_event_release(&trainer->begun[i].read);
    trainer->begun_count = 0;
}

/* ---- evaluation --------------------------------------------------------------------------------------- */

static kn_session *evaluator_session(kn_trainer *trainer, kn_value *const *values, size_t count) {
    kn_evaluator *oldest = &trainer->evaluators[0];
    for (int i = 0; i < EVALUATORS; i++) {
        kn_evaluator *evaluator = &trainer->evaluators[i];
        if (evaluator->session && evaluator->count == count &&
            evaluator->graph_made == values[0]->graph->made &&
            !memcmp(evaluator->values, values, count * sizeof *values)) {
            evaluator->used = ++trainer->evaluations;
            return evaluator->session;
        }
        if (evaluator->used < oldest->used) oldest = evaluator;
    }
    kn_session_params running = trainer->running;
    running.states = trainer->states;
    running.training = false;
    kn_session_destroy(&oldest->session);
    oldest->session = kn_session_create(trainer->context, values, count, &running);
    kn_status status = kn_session_status(oldest->session);
    if (status != KN_OK) {
        kn_fail(&trainer->error, status, "%s",
                oldest->session ? kn_session_error(oldest->session) : "out of host memory");
        kn_session_destroy(&oldest->session);
        return NULL;
    }
    memcpy(oldest->values, values, count * sizeof *values);
    oldest->graph_made = values[0]->graph->made;
    oldest->count = count;
    oldest->used = ++trainer->evaluations;
    return oldest->session;
}

kn_status kn_trainer_evaluate(kn_trainer *trainer, int64_t count, const kn_feed *feeds, size_t feed_count,
                              kn_value *const *values, const kn_fetch *fetches, size_t value_count) {
    kn_status status = begin(trainer);
    if (status != KN_OK) return status;
    if (value_count < 1 || value_count > EVALUATED)
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "%zu values to evaluate; expected 1 to %d",
                       value_count, EVALUATED);
    if (!values) return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "the list of values to evaluate is NULL");
    for (size_t i = 0; i < value_count; i++)
        if (kn_value_failed(values[i]))
            return kn_fail(&trainer->error, KN_ERROR_ARGUMENT, "value %zu to evaluate is invalid: %s", i,
                           values[i] ? kn_graph_error(values[i]->graph) : "it is NULL");
    kn_session *session = evaluator_session(trainer, values, value_count);
    if (!session) return trainer->error.status;
    status = bind_batch(trainer, session, count);
    if (status != KN_OK) return status;
    return fail_from(trainer, session, kn_session_run(session, feeds, feed_count, fetches, value_count));
}

/* ---- other functions --------------------------------------------------------------------------- */

kn_status kn_trainer_compile_for(kn_trainer *trainer, int64_t count, const kn_feed *feeds,
                                 size_t feed_count) {
    kn_status status = begin(trainer);
    kn_feed_list list = {feeds, feed_count};
    if (status != KN_OK) return status;
    count = batch_of_step(trainer, count);
    const kn_shards *shards = &trainer->shards;
    if (shards->count && count > 0) {
        const kn_train_run run = kn_run_first(trainer, (uint64_t)count);
        status = kn_run_feeds(trainer, (uint64_t)count, &run, &list);
        if (status == KN_OK) status = kn_counts_compile(trainer, &list, &run);
        count = (int64_t)run.samples;
    }
    if (status == KN_OK) status = bind_batch(trainer, trainer->session, count);
    if (status != KN_OK) return status;
    return fail_from(trainer, trainer->session, kn_session_compile(trainer->session, list.feeds, list.count));
}

kn_status kn_trainer_compile(kn_trainer *trainer, int64_t count) {
    return kn_trainer_compile_for(trainer, count, NULL, 0);
}

kn_status kn_trainer_wait(kn_trainer *trainer) {
    kn_status status = begin(trainer);
    return status == KN_OK ? fail_from(trainer, trainer->session, kn_session_wait(trainer->session)) : status;
}

kn_states *kn_trainer_states(kn_trainer *trainer) {
    return trainer ? trainer->states : NULL;
}

uint64_t kn_trainer_steps(const kn_trainer *trainer) {
    return trainer ? trainer->steps : 0;
}

void kn_trainer_set_steps(kn_trainer *trainer, uint64_t steps) {
    if (!trainer) return;
    trainer->steps = steps;
    kn_trainer_recall(trainer);
}

void kn_trainer_recall(kn_trainer *trainer) {
    kn_rounds_recall(trainer);
    kn_plateau_recall(trainer);
    kn_average_recall(trainer);
}

double kn_trainer_learning_rate(const kn_trainer *trainer) {
    if (!trainer || trainer->made != KN_OK) return 0;
    const kn_trainer_params *params = &trainer->params;
    return kn_schedule_rate(params, trainer->steps / params->accumulate) * trainer->plateau.fraction;
}

/* begin() of a call that changes the settings of a group, or of the parameters without one (-1). */
static kn_status begin_group(kn_trainer *trainer, int group) {
    kn_status status = begin(trainer);
    if (status != KN_OK || group == -1) return status;
    const size_t count = trainer->params.group_count;
    if (group >= 0 && (size_t)group < count) return KN_OK;
    return kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                   "group %d does not exist; expected -1 or an index below %zu", group, count);
}

kn_status kn_trainer_set_learning_rate(kn_trainer *trainer, int group, double rate) {
    kn_status status = begin_group(trainer, group);
    if (status != KN_OK) return status;
    if (!(rate >= 0) || isinf(rate))
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                       "the learning rate of group %d is %g; expected a number of at least 0", group, rate);
    if (group < 0)
        trainer->params.learning_rate = rate;
    else /* with and without weight decay */
        trainer->settings[2 * group + 2].rate_factor = trainer->settings[2 * group + 3].rate_factor = rate;
    return KN_OK;
}

kn_status kn_trainer_set_momentum(kn_trainer *trainer, int group, double momentum, double beta2) {
    kn_status status = begin_group(trainer, group);
    if (status != KN_OK) return status;
    if (!trainer->params.variable_momentum)
        return kn_fail(
            &trainer->error, KN_ERROR_ARGUMENT,
            "the momentum is a constant of the kernels; create the trainer with variable_momentum");
    if (!(momentum >= 0 && momentum < 1) || !(beta2 >= 0 && beta2 < 1))
        return kn_fail(&trainer->error, KN_ERROR_ARGUMENT,
                       "group %d: momentum %g, beta2 %g; expected numbers of at least 0 and below 1", group,
                       momentum, beta2);
    for (int i = 2 * group + 2; i < 2 * group + 4; i++) { /* with and without weight decay */
        trainer->settings[i].momentum = momentum;
        trainer->settings[i].beta2 = beta2;
    }
    return KN_OK;
}

void kn_trainer_set_memory_bytes(kn_trainer *trainer, uint64_t memory_bytes) {
    if (!trainer || trainer->made != KN_OK) return;
    trainer->running.memory_bytes = memory_bytes;
    kn_session_set_memory(trainer->session, memory_bytes);
}

kn_status kn_trainer_plan(kn_trainer *trainer, kn_plan_info *info) {
    kn_status status = begin(trainer);
    return status == KN_OK ? fail_from(trainer, trainer->session, kn_session_plan(trainer->session, info))
                           : status;
}

char *kn_trainer_plan_text(kn_trainer *trainer) {
    return begin(trainer) == KN_OK ? kn_session_plan_text(trainer->session) : NULL;
}

kn_status kn_trainer_plan_step_at(kn_trainer *trainer, size_t position, kn_plan_step *step) {
    kn_status status = begin(trainer);
    return status == KN_OK ? kn_session_plan_step_at(trainer->session, position, step) : status;
}

kn_status kn_trainer_write_programs(kn_trainer *trainer, const char *folder) {
    kn_status status = begin(trainer);
    return status == KN_OK ? kn_session_write_programs(trainer->session, folder) : status;
}

kn_status kn_trainer_plan_pass_at(kn_trainer *trainer, size_t position, kn_plan_pass *pass) {
    kn_status status = begin(trainer);
    return status == KN_OK ? kn_session_plan_pass_at(trainer->session, position, pass) : status;
}

void kn_trainer_free_text(kn_trainer *trainer, char *text) {
    if (trainer) kn_session_free_text(trainer->session, text);
}
