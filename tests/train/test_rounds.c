/* Workers in rounds (kn_trainer_params.sync_every), compared with separate trainings whose means are computed
 * by the test, and with themselves. */
#include "../forwarded.h"
#include "train_tests.h"
#include "workers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3, STEPS = 12, BATCH = 20, NAMES = 100, NUMBERS = 400 };

/* The float32 states of a trainer by name. */
typedef struct numbers {
    int count;
    char names[NAMES][100];
    size_t sizes[NAMES];
    float values[NAMES][NUMBERS];
} numbers;

static void read_numbers(kn_states *states, numbers *found) {
    found->count = 0;
    for (size_t i = 0; i < kn_states_count(states); i++) {
        kn_tensor_info info;
        uint64_t bytes = 0;
        const char *name = kn_states_at(states, i, &info);
        if (!kn_tensor_bytes(&info, &bytes) || info.dtype != KN_FLOAT32 || !bytes) continue;
        assert_true(found->count < NAMES && bytes <= sizeof found->values[0]);
        snprintf(found->names[found->count], sizeof found->names[0], "%s", name);
        found->sizes[found->count] = (size_t)bytes / sizeof(float);
        state_get(states, name, found->values[found->count], found->sizes[found->count]);
        found->count++;
    }
}

static const float *numbers_of(const numbers *own, const char *name, size_t count) {
    for (int i = 0; i < own->count; i++)
        if (!strcmp(own->names[i], name) && own->sizes[i] == count) return own->values[i];
    fail_msg("there is no state '%s' of %zu numbers", name, count);
    return NULL;
}

/* Whether it belongs to the model, and so is equal after a round. */
static bool is_of_model(const char *name) {
    return !strncmp(name, "linear", 6) || !strncmp(name, "logits", 6) || !strncmp(name, "batchnorm", 9)
               ? strstr(name, ".moment") == NULL && strstr(name, ".outer") == NULL
               : false;
}

static double distance(double left, double right) {
    return fabs(left - right) / (1 + fabs(right));
}

/* ---- workers ------------------------------------------------------------------------------------- */

typedef struct rounds_task {
    kn_trainer_params params;
    int steps; /* in the end */
    const int *deal;
    const char *from, *to; /* a file to resume from; a file that is written at the end */
    bool same_samples;     /* all workers have the first worker's samples */
    uint64_t sync_of_last; /* the last worker has a different sync_every */
    bool last_skips;       /* and nothing that an update could be made of */
    int more_of_others;    /* steps of all but the first */
    bool steps_before;     /* all make a step before they read `from` */
} rounds_task;

typedef struct worker {
    forwarded end; /* counts sent bytes */
    int messages;
    const rounds_task *task;
    const kn_communicator *communicator;
    kn_status status;
    double losses[STEPS];
    int sent[STEPS];
    uint64_t alone[STEPS], hash;
    numbers last;
    char error[400];
} worker;

static kn_status count_and_send(void *user, int rank, int tag, const void *data, size_t bytes,
                                void **request) {
    worker *own = user;
    const kn_communicator *inner = own->end.inner;
    own->messages++;
    return inner->send(inner->user, rank, tag, data, bytes, request);
}

static kn_model *model_of(const rounds_task *task) {
    return task->same_samples || task->to || task->from
               ? kn_model_parse("koine 1\ninput x 6\nlinear 16\nbatchnorm\nrelu\ndropout 0.25\n"
                                "logits = linear 3\n",
                                NULL)
               : kn_model_parse("koine 1\ninput x 6\nlinear 16\nbatchnorm\nrelu\nlogits = linear 3\n", NULL);
}

static void feed_batch(uint64_t step, uint64_t first, uint64_t count, kn_feed feeds[2]) {
    const uint64_t at = step % (SAMPLES / BATCH) * BATCH + first;
    feeds[0] = (kn_feed){"x", sample_x[at], (size_t)count * sizeof sample_x[0]};
    feeds[1] = (kn_feed){"y", sample_y + at, (size_t)count * sizeof sample_y[0]};
}

static kn_status run_step(worker *own, kn_trainer *trainer, uint64_t step) {
    static const float nothing[BATCH][INPUTS] = {{NAN}};
    const kn_communicator *all = own->communicator;
    uint64_t first, mine;
    kn_feed feeds[2];
    kn_status status = kn_trainer_local_samples(trainer, BATCH, &first, &mine);
    feed_batch(step, own->task->same_samples ? 0 : first, mine, feeds);
    if (own->task->last_skips && all->rank == all->ranks - 1) feeds[0].data = nothing;
    own->messages = 0;
    if (status == KN_OK) status = kn_trainer_step(trainer, BATCH, feeds, 2, &own->losses[step]);
    own->sent[step] = own->messages;
    own->alone[step] = kn_trainer_local_steps(trainer);
    return status;
}

static kn_status run_steps(worker *own, kn_trainer *trainer) {
    const kn_communicator *all = own->communicator;
    const uint64_t end = (uint64_t)(own->task->steps + (all->rank ? own->task->more_of_others : 0));
    kn_status status = KN_OK;
    for (uint64_t step = kn_trainer_steps(trainer); step < end && status == KN_OK; step++)
        status = run_step(own, trainer, step);
    return status;
}

static void train(worker *own, kn_context *context, kn_model *model, kn_value *loss) {
    const rounds_task *task = own->task;
    const kn_session_params session = {.size = sizeof session, .seed = 5};
    const bool first = !own->communicator->rank,
               last = own->communicator->rank == own->communicator->ranks - 1;
    kn_trainer_params params = task->params;
    forward_to(&own->end, own->communicator);
    own->end.outer.send = count_and_send;
    params.session = &session;
    params.shards = 4;
    params.shard_counts = task->deal;
    params.communicator = &own->end.outer;
    if (last && task->sync_of_last) params.sync_every = task->sync_of_last;
    kn_trainer *trainer = kn_trainer_create(context, loss, &params);
    kn_model_load_params load = KN_MODEL_LOAD_DEFAULTS;
    kn_model_save_params save = KN_MODEL_SAVE_DEFAULTS;
    load.training = save.training = true;
    own->status = kn_trainer_status(trainer);
    if (own->status == KN_OK && task->steps_before) own->status = run_step(own, trainer, 0);
    if (own->status == KN_OK && task->from) {
        uint32_t steps = 0;
        own->status = kn_model_load(model, task->from, kn_trainer_states(trainer), &load, NULL);
        if (own->status == KN_OK)
            own->status = kn_states_get(kn_trainer_states(trainer), "koine.step", &steps, sizeof steps);
        kn_trainer_set_steps(trainer, steps);
    }
    if (own->status == KN_OK) own->status = run_steps(own, trainer);
    if (own->status == KN_OK) own->status = kn_trainer_collect(trainer);
    if (own->status == KN_OK && task->to && first)
        own->status = kn_model_save(model, task->to, kn_trainer_states(trainer), &save);
    snprintf(own->error, sizeof own->error, "%s %s", kn_trainer_error(trainer), kn_model_error(model));
    if (own->status == KN_OK) {
        own->hash = states_hash(kn_trainer_states(trainer));
        read_numbers(kn_trainer_states(trainer), &own->last);
    }
    kn_trainer_destroy(&trainer);
}

static void work(void *argument, const kn_communicator *communicator) {
    worker *own = argument;
    own->communicator = communicator;
    worker_net net = worker_open(NULL, model_of(own->task));
    own->status = net.status;
    if (own->status == KN_OK) train(own, net.context, net.model, net.loss);
    if (own->status != KN_OK) communicator->abort(communicator->user, own->error);
    worker_close(&net);
}

/* The workers of a run; what belongs to the model must be equal in the end. */
static void train_by(const rounds_task *task, int count, worker workers[MOST]) {
    memset(workers, 0, (size_t)count * sizeof *workers);
    for (int r = 0; r < count; r++)
        workers[r].task = task;
    workers_run(workers, sizeof *workers, count, work);
    for (int r = 0; r < count; r++) {
        const numbers *first = &workers[0].last, *own = &workers[r].last;
        if (workers[r].status != KN_OK) fail_msg("worker %d of %d: %s", r, count, workers[r].error);
        for (int i = 0; i < own->count; i++)
            if (is_of_model(own->names[i]))
                assert_memory_equal(own->values[i], numbers_of(first, own->names[i], own->sizes[i]),
                                    own->sizes[i] * sizeof(float));
    }
}

static kn_trainer_params plain(uint64_t every, double rate, double momentum) {
    kn_trainer_params params = KN_TRAINER_DEFAULTS;
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    params.learning_rate = 0.1;
    params.momentum = 0;
    params.sync_every = every;
    params.outer_rate = rate;
    params.outer_momentum = momentum;
    return params;
}

/* ---- by hand ------------------------------------------------------------------------------------- */

enum { SEPARATE = 2 };

/* Independent trainings, on samples `firsts[r]` to `firsts[r + 1]` of each batch. */
typedef struct by_hand {
    kn_context *context;
    small_net net;
    kn_trainer *trainers[SEPARATE];
    int count;
    const int *firsts;
    numbers start, momentum, now[SEPARATE];
    double losses[SEPARATE][STEPS];
} by_hand;

static void begin_by_hand(by_hand *own, const rounds_task *task, int count, const int *firsts) {
    const kn_session_params session = {.size = sizeof session, .seed = 5};
    kn_trainer_params params = task->params;
    kn_context_params opening = device_params();
    params.sync_every = 0;
    params.session = &session;
    own->context = device_open(&opening);
    own->net = (small_net){.model = model_of(task), .loss = KN_MODEL_LOSS_DEFAULTS};
    assert_int_equal(kn_model_add_loss(own->net.model, NULL, &own->net.loss), KN_OK);
    own->count = count;
    own->firsts = firsts;
    for (int r = 0; r < count; r++) {
        own->trainers[r] = trainer_make(own->context, own->net.loss.value, &params);
        trainer_good(own->trainers[r], kn_trainer_compile(own->trainers[r], firsts[r + 1] - firsts[r]));
    }
    read_numbers(kn_trainer_states(own->trainers[0]), &own->start);
    own->momentum = own->start;
    memset(own->momentum.values, 0, sizeof own->momentum.values);
}

static void end_by_hand(by_hand *own) {
    for (int r = 0; r < own->count; r++)
        kn_trainer_destroy(&own->trainers[r]);
    net_destroy(&own->net);
    device_close(&own->context);
}

/* Statistics become their mean; parameters make a step of SGD with Nesterov momentum, in double. */
static void end_round(by_hand *own, const kn_trainer_params *params) {
    for (int r = 0; r < own->count; r++)
        read_numbers(kn_trainer_states(own->trainers[r]), &own->now[r]);
    for (int i = 0; i < own->start.count; i++) {
        const char *name = own->start.names[i];
        const size_t count = own->start.sizes[i];
        if (!is_of_model(name)) continue;
        const bool statistic = strstr(name, ".running_") != NULL;
        for (size_t k = 0; k < count; k++) {
            double mean = 0;
            for (int r = 0; r < own->count; r++)
                mean += (double)numbers_of(&own->now[r], name, count)[k] *
                        (own->firsts[r + 1] - own->firsts[r]) / (double)own->firsts[own->count];
            const double start = (double)own->start.values[i][k], change = start - mean,
                         momentum = params->outer_momentum * (double)own->momentum.values[i][k] + change;
            own->momentum.values[i][k] = (float)momentum;
            own->start.values[i][k] =
                (float)(statistic
                            ? mean
                            : start - params->outer_rate * (change + params->outer_momentum * momentum));
        }
        for (int r = 0; r < own->count; r++)
            assert_int_equal(kn_states_set(kn_trainer_states(own->trainers[r]), name, NULL,
                                           own->start.values[i], count * sizeof(float)),
                             KN_OK);
    }
}

static void step_by_hand(by_hand *own, uint64_t step) {
    for (int r = 0; r < own->count; r++) {
        const uint64_t count = (uint64_t)(own->firsts[r + 1] - own->firsts[r]);
        kn_feed feeds[2];
        feed_batch(step, (uint64_t)own->firsts[r], count, feeds);
        trainer_good(own->trainers[r],
                     kn_trainer_step(own->trainers[r], (int64_t)count, feeds, 2, &own->losses[r][step]));
    }
}

static void compare_by_hand(const rounds_task *task, int count, const int *firsts) {
    static worker workers[MOST];
    static by_hand own;
    const int every = (int)task->params.sync_every;
    train_by(task, count, workers);
    own = (by_hand){.count = 0};
    begin_by_hand(&own, task, count, firsts);
    for (int step = 0; step < task->steps; step++) {
        step_by_hand(&own, (uint64_t)step);
        if ((step + 1) % every == 0 || step + 1 == task->steps) end_round(&own, &task->params);
        for (int r = 0; r < count; r++)
            if (!(distance(workers[r].losses[step], own.losses[r][step]) < 1e-4))
                fail_msg("step %d of worker %d: a loss of %g, and %g by hand", step, r,
                         workers[r].losses[step], own.losses[r][step]);
    }
    for (int i = 0; i < own.start.count; i++) {
        const size_t size = own.start.sizes[i];
        if (!is_of_model(own.start.names[i])) continue;
        const float *found = numbers_of(&workers[0].last, own.start.names[i], size);
        for (size_t k = 0; k < size; k++)
            if (!(distance((double)found[k], (double)own.start.values[i][k]) < 1e-4))
                fail_msg("%s, element %zu: %g, and %g by hand", own.start.names[i], k, (double)found[k],
                         (double)own.start.values[i][k]);
    }
    end_by_hand(&own);
}

TEST(two_workers_are_the_mean_of_two_trainings) {
    static const int deal[] = {3, 1}, firsts[] = {0, 15, 20};
    const rounds_task task = {.params = plain(2, 1, 0), .steps = 5, .deal = deal};
    compare_by_hand(&task, 2, firsts);
}

TEST(the_outer_step_is_that_of_nesterov) {
    static const int one[] = {0, 20}, two[] = {0, 10, 20};
    const rounds_task task = {.params = plain(3, 0.7, 0.9), .steps = 10};
    compare_by_hand(&task, 1, one);
    compare_by_hand(&task, 2, two);
}

/* ---- rounds -------------------------------------------------------------------------------------- */

TEST(no_message_is_sent_within_a_round) {
    static worker workers[MOST];
    const rounds_task task = {.params = plain(4, 0.7, 0.9), .steps = 8};
    train_by(&task, 2, workers);
    for (int r = 0; r < 2; r++)
        for (int step = 0; step < task.steps; step++) {
            const bool ends = (step + 1) % 4 == 0;
            if ((workers[r].sent[step] > 0) != ends)
                fail_msg("worker %d sends %d messages in step %d", r, workers[r].sent[step], step);
            assert_int_equal(workers[r].alone[step], ends ? 0 : (step + 1) % 4);
        }
}

TEST(the_loss_falls) {
    static worker workers[MOST];
    rounds_task task = {.params = plain(3, 0.7, 0.9), .steps = STEPS};
    task.params.optimizer = KN_OPTIMIZER_ADAM;
    task.params.learning_rate = 0.01;
    train_by(&task, 3, workers);
    for (int r = 0; r < 3; r++)
        if (!(workers[r].losses[STEPS - 1] < 0.7 * workers[r].losses[0]))
            fail_msg("worker %d: the loss is %g, and was %g", r, workers[r].losses[STEPS - 1],
                     workers[r].losses[0]);
}

TEST(workers_draw_different_numbers) {
    static worker workers[MOST];
    const rounds_task task = {.params = plain(2, 1, 0), .steps = 2, .same_samples = true};
    train_by(&task, 2, workers);
    assert_true(workers[0].losses[0] != workers[1].losses[0]);
}

static rounds_task lasting(int steps, const char *from, const char *to) {
    rounds_task task = {.params = plain(2, 0.7, 0.9), .steps = steps, .from = from, .to = to};
    task.params.optimizer = KN_OPTIMIZER_ADAM;
    task.params.learning_rate = 0.01;
    task.params.average = 0.9;
    return task;
}

/* Moments of all workers, the outer momentum and moving averages are in the file. */
TEST(a_training_goes_on_with_the_same_bits) {
    static worker whole[MOST], again[MOST], rest[MOST];
    char path[4096], unused[4096], *folder = test_folder_make();
    test_path(path, sizeof path, folder, "part");
    test_path(unused, sizeof unused, folder, "whole");
    const rounds_task through = lasting(8, NULL, unused), first = lasting(4, NULL, path),
                      second = lasting(8, path, unused), others = lasting(6, path, unused);
    train_by(&through, 2, whole);
    train_by(&through, 2, again);
    train_by(&first, 2, rest);
    train_by(&second, 2, rest);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(again[r].hash, whole[r].hash);
        assert_int_equal(rest[r].hash, whole[r].hash);
        assert_memory_equal(rest[r].losses + 4, whole[r].losses + 4, 4 * sizeof(double));
    }
    numbers_of(&whole[0].last, "linear1.weight.outer", 96);
    const float *own = numbers_of(&whole[0].last, "linear1.weight.moment1", 96);
    assert_memory_not_equal(own, numbers_of(&whole[0].last, "koine.worker.1.linear1.weight.moment1", 96),
                            96 * sizeof(float));
    /* Reading and writing the states does not change them, even by trainers that have made steps. */
    const rounds_task again_written = {
        .params = first.params, .steps = 4, .from = path, .to = unused, .steps_before = true};
    train_by(&first, 2, again);
    train_by(&again_written, 2, rest);
    for (int r = 0; r < 2; r++)
        assert_int_equal(rest[r].hash, again[r].hash);
    /* Different numbers of workers can also resume. */
    for (int count = 1; count <= 3; count += 2) {
        train_by(&others, count, rest);
        assert_true(rest[0].losses[5] < whole[0].losses[0]);
    }
    test_folder_remove(folder);
}

TEST(the_outer_momentum_is_dropped_without_rounds) {
    static worker workers[MOST];
    char path[4096], *folder = test_folder_make();
    test_path(path, sizeof path, folder, "part");
    rounds_task first = lasting(4, NULL, path), second = lasting(6, path, path);
    second.params.sync_every = 0;
    train_by(&first, 2, workers);
    numbers_of(&workers[0].last, "linear1.weight.outer", 96);
    train_by(&second, 2, workers);
    for (int i = 0; i < workers[0].last.count; i++)
        assert_null(strstr(workers[0].last.names[i], ".outer"));
    test_folder_remove(folder);
}

TEST(averages_begin_with_those_of_all) {
    static worker workers[MOST];
    rounds_task task = {.params = plain(1, 1, 0), .steps = 1, .last_skips = true};
    task.params.average = 0.9;
    task.params.skip_not_finite = true;
    train_by(&task, 2, workers);
    for (int r = 0; r < 2; r++)
        assert_memory_equal(numbers_of(&workers[r].last, "linear1.weight.average", 96),
                            numbers_of(&workers[r].last, "linear1.weight", 96), 96 * sizeof(float));
}

/* ---- what cannot be ------------------------------------------------------------------------------ */

TEST(what_needs_messages_in_each_step_is_refused) {
    static const char *const names[] = {"shard_optimizer", "sync_batch_norm", "sum_any_order",
                                        "gradient_dtype",  "outer_rate",      "outer_momentum",
                                        "accumulate"};
    kn_context_params opening = device_params();
    kn_context *context = device_open(&opening);
    small_net net = net_make();
    for (int i = 0; i < 7; i++) {
        kn_trainer_params params = plain(5, i == 4 ? -1 : 1, i == 5 ? 1 : 0);
        params.shard_optimizer = i == 0;
        params.sync_batch_norm = i == 1;
        params.sum_any_order = i == 2;
        if (i == 3) params.gradient_dtype = KN_BFLOAT16;
        if (i == 6) params.accumulate = 2;
        kn_trainer *trainer = kn_trainer_create(context, net.loss.value, &params);
        assert_int_equal(kn_trainer_status(trainer), i < 4 ? KN_ERROR_UNSUPPORTED : KN_ERROR_ARGUMENT);
        if (!strstr(kn_trainer_error(trainer), names[i])) fail_msg("%s", kn_trainer_error(trainer));
        kn_trainer_destroy(&trainer);
    }
    net_destroy(&net);
    device_close(&context);
}

static void are_told(const rounds_task *task) {
    static worker workers[MOST];
    memset(workers, 0, sizeof workers);
    for (int r = 0; r < 2; r++)
        workers[r].task = task;
    workers_run(workers, sizeof *workers, 2, work);
    const bool told =
        strstr(workers[0].error, "ends a round of") || strstr(workers[1].error, "ends a round of");
    if (workers[0].status == KN_OK || workers[1].status == KN_OK || !told)
        fail_msg("%s; %s", workers[0].error, workers[1].error);
}

TEST(different_rounds_are_told) {
    are_told(&(rounds_task){.params = plain(2, 1, 0), .steps = 6, .sync_of_last = 3});
    are_told(&(rounds_task){.params = plain(2, 1, 0), .steps = 4, .more_of_others = 1});
}

TEST_FILE(test_rounds, NULL, NULL)
