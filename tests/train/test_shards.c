/* Training in shards: the same bits however many workers compute them. */
#include "train_tests.h"
#include "../forwarded.h"
#include "workers.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 4, STEPS = 5 };

static kn_model *recurrent_model(void) {
    return kn_model_parse("koine 1\ninput x 1x14x14\nreshape 14x14\ngru 12\nlayernorm\nflatten\n"
                          "dropout 0.1\nlogits = linear 10\n",
                          NULL);
}

static kn_model *convolutional_model(void) {
    return picture_model(16);
}

/* What all workers of a training do. */
typedef struct task {
    kn_model *(*make)(void);
    kn_trainer_params params;
    kn_session_params session;
    int kind;    /* of kn_context_params */
    int samples; /* in the last batch; the others have PICTURES */
} shard_task;

/* What a worker has and finds. */
typedef struct worker {
    const shard_task *task;
    const kn_communicator *communicator;
    const int *deal;
    kn_status status;
    uint64_t bits;
    double losses[STEPS];
    char error[400];
} worker;

static void train(worker *own, kn_context *context, kn_value *loss) {
    static const size_t picture = PICTURE_PIXELS * sizeof(float);
    float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    uint32_t word = 99;
    kn_trainer_params params = own->task->params;
    params.session = &own->task->session;
    params.communicator = own->communicator;
    params.shard_counts = own->deal;
    kn_trainer *trainer = kn_trainer_create(context, loss, &params);
    own->status = kn_trainer_status(trainer);
    for (int step = 0; step < STEPS && own->status == KN_OK; step++) {
        uint64_t count = step + 1 < STEPS ? PICTURES : (uint64_t)own->task->samples, first, mine;
        word = picture_batch(word, x, y);
        own->status = kn_trainer_local_samples(trainer, count, &first, &mine);
        const kn_feed feeds[] = {{"x", x + first * PICTURE_PIXELS, mine * picture},
                                 {"y", y + first, mine * sizeof *y}};
        if (own->status == KN_OK)
            own->status = kn_trainer_step(trainer, (int64_t)count, feeds, 2, &own->losses[step]);
    }
    snprintf(own->error, sizeof own->error, "%s", kn_trainer_error(trainer));
    if (own->status == KN_OK) own->bits = states_hash(kn_trainer_states(trainer));
    kn_trainer_destroy(&trainer);
}

static void work(void *argument, const kn_communicator *communicator) {
    worker *own = argument;
    own->communicator = communicator;
    kn_context_params device = device_params();
    const kn_context_debug debug = {.size = sizeof debug, .kernels = (kn_kernels)own->task->kind};
    device.debug = &debug;
    worker_net net = worker_open(&device, own->task->make());
    own->status = net.status;
    if (own->status == KN_OK) train(own, net.context, net.loss);
    worker_close(&net);
}

/* Trains by `count` workers; all must find the same. */
static worker train_by(const shard_task *task, int count, const int *deal) {
    worker workers[MOST] = {{.task = task}};
    for (int r = 0; r < count; r++)
        workers[r] = (worker){.task = task, .deal = deal};
    workers_run(workers, sizeof *workers, count, work);
    for (int r = 0; r < count; r++) {
        if (workers[r].status != KN_OK) fail_msg("worker %d of %d: %s", r, count, workers[r].error);
        assert_int_equal(workers[r].bits, workers[0].bits);
        assert_memory_equal(workers[r].losses, workers[0].losses, sizeof workers[r].losses);
    }
    return workers[0];
}

static void check(const shard_task *task) {
    static const int uneven[] = {1, 3}, three[] = {1, 2, 1};
    const worker alone = train_by(task, 1, NULL);
    const worker others[] = {train_by(task, 2, uneven), train_by(task, 3, three)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_memory_equal(others[i].losses, alone.losses, sizeof alone.losses);
        assert_int_equal(others[i].bits, alone.bits);
    }
}

TEST(any_number_of_workers_computes_the_same_bits) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    shard_task task = {.make = convolutional_model, .params = adam(), .kind = 1, .samples = 3};
    task.session = (kn_session_params){.size = sizeof task.session, .seed = 5};
    task.params.shards = 4;
    check(&task);
    task.kind = 2;
    task.make = recurrent_model;
    task.samples = 17;
    task.params.accumulate = 2;
    task.params.clip_norm = 0.5;
    task.params.average = 0.9;
    check(&task);
}

/* The mean over the shards equals the batch's, except for rounding, if nothing depends on the whole batch. */
static kn_model *plain_model(void) {
    return kn_model_parse("koine 1\ninput x 1x14x14\nflatten\nlinear 30\ntanh\nlogits = linear 10\n", NULL);
}

TEST(shards_compute_the_mean_over_the_batch) {
    shard_task task = {.make = plain_model, .params = adam(), .samples = 11};
    task.session = (kn_session_params){.size = sizeof task.session, .seed = 5};
    task.params.optimizer = KN_OPTIMIZER_SGD;
    const worker whole = train_by(&task, 1, NULL), two = train_by(&task, 2, NULL);
    task.params.shards = 16;
    const worker sixteen = train_by(&task, 3, NULL);
    for (int step = 0; step < STEPS; step++) {
        assert_float_equal(two.losses[step], whole.losses[step], 1e-5);
        assert_float_equal(sixteen.losses[step], whole.losses[step], 1e-5);
    }
}

/* ---- the training loop --------------------------------------------------------------------------- */

typedef struct fitter {
    forwarded end;      /* without `inner`: a single worker */
    int steps, stop_at; /* reported steps; the step at which the callback stops */
    bool fails;         /* this worker's data ends the training */
    uint64_t most;      /* steps; 0: limited by epochs */
    int sent;           /* messages */
    kn_status status;
    kn_fit_result result;
    double losses[16];
    uint64_t bits;
} fitter;

static bool on_step(void *user, const kn_fit_step *step) {
    fitter *own = user;
    if (own->steps < 16) own->losses[own->steps] = step->loss;
    return ++own->steps != own->stop_at;
}

static void fit_net(fitter *own, kn_context *context, const small_net *net) {
    const kn_dataset_array arrays[] = {
        {"x", {KN_FLOAT32, 1, {INPUTS}}, sample_x, sizeof sample_x, KN_FLOAT32, 0},
        {"y", {KN_INT32, 0, {0}}, sample_y, sizeof sample_y, KN_INT32, 0},
    };
    kn_dataset *data = kn_dataset_create_from_arrays(SAMPLES, arrays, own->fails ? 1 : 2, CLASSES, NULL);
    kn_trainer_params params = adam();
    kn_session_params session = KN_SESSION_DEFAULTS;
    kn_value *values[] = {net->loss.value, net->loss.accuracy};
    kn_loader_params loader = {.size = sizeof loader, .batch = 12, .seed = 3};
    params.communicator = own->end.inner ? &own->end.outer : NULL;
    params.shards = 4;
    kn_trainer *trainer = kn_trainer_create(context, net->loss.value, &params);
    session.states = kn_trainer_states(trainer);
    kn_session *evaluator = kn_session_create(context, values, 2, &session);
    kn_fit_params how = {.size = sizeof how,
                         .epochs = 3,
                         .steps = own->most,
                         .loader = &loader,
                         .validation = own->fails ? NULL : data,
                         .eval_session = evaluator,
                         .loss = kn_value_name(values[0]),
                         .accuracy = kn_value_name(values[1]),
                         .user = own,
                         .on_step = on_step};
    own->result = (kn_fit_result)KN_FIT_RESULT_DEFAULTS;
    own->status = kn_fit(trainer, data, &how, &own->result);
    own->bits = own->status == KN_OK ? states_hash(kn_trainer_states(trainer)) : 0;
    kn_session_destroy(&evaluator);
    kn_trainer_destroy(&trainer);
    kn_dataset_destroy(&data);
}

static kn_status send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    fitter *own = user;
    const kn_communicator *inner = own->end.inner;
    own->sent++;
    return inner->send(inner->user, rank, tag, data, bytes, request);
}

static void fit(void *argument, const kn_communicator *communicator) {
    fitter *own = argument;
    if (communicator) {
        forward_to(&own->end, communicator);
        own->end.outer.send = send;
    }
    kn_context_params params = device_params();
    kn_context *context = device_open(&params);
    small_net net = net_make();
    fit_net(own, context, &net);
    net_destroy(&net);
    device_close(&context);
}

static void fit_by(fitter *fitters, int count) {
    samples_draw();
    workers_run(fitters, sizeof *fitters, count, fit);
}

/* Loaders deliver parts of the batches, of 12, 12, 12 and 4 samples, and evaluations are shared out. */
TEST(the_loop_of_several_workers_is_that_of_one) {
    fitter alone = {.steps = 0};
    fit_by(&alone, 1);
    assert_int_equal(alone.status, KN_OK);
    assert_int_equal(alone.steps, 12);
    for (int count = 2; count <= 3; count++) {
        fitter fitters[MOST] = {{.steps = 0}};
        fit_by(fitters, count);
        for (int r = 0; r < count; r++) {
            if (fitters[r].status != KN_OK) fail_msg("%s", fitters[r].result.message);
            assert_memory_equal(fitters[r].losses, alone.losses, sizeof alone.losses);
            assert_true(fitters[r].result.validation.loss == alone.result.validation.loss);
            assert_true(fitters[r].result.validation.accuracy == alone.result.validation.accuracy);
            assert_int_equal(fitters[r].result.validation.samples, SAMPLES);
            assert_int_equal(fitters[r].bits, alone.bits);
        }
    }
}

TEST(all_stop_where_one_wants_to) {
    fitter fitters[MOST] = {{.steps = 0}, {.stop_at = 5}, {.steps = 0}};
    fit_by(fitters, 3);
    for (int r = 0; r < 3; r++) {
        if (fitters[r].status != KN_OK) fail_msg("%s", fitters[r].result.message);
        assert_int_equal(fitters[r].result.stop_reason, KN_STOP_CALLBACK);
        assert_in_range(fitters[r].result.step, 5, 7);
        assert_int_equal(fitters[r].result.step, fitters[0].result.step);
        assert_int_equal(fitters[r].bits, fitters[0].bits);
    }
}

/* A step sends a bucket's slice and its result to the other worker; stopping needs no further message. */
TEST(a_step_sends_nothing_but_sums) {
    fitter one[MOST] = {{.most = 1}, {.most = 1}}, three[MOST] = {{.most = 3}, {.most = 3}};
    fit_by(one, 2);
    fit_by(three, 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(one[r].result.step, 1);
        assert_int_equal(three[r].result.step, 3);
        assert_int_equal(three[r].sent - one[r].sent, 2 * 2);
    }
}

TEST(the_failure_of_one_ends_all) {
    fitter fitters[MOST] = {{.steps = 0}, {.fails = true}};
    fit_by(fitters, 2);
    assert_int_equal(fitters[0].status, KN_ERROR_CANCELLED);
    assert_true(fitters[1].status != KN_OK && fitters[1].status != KN_ERROR_CANCELLED);
    if (!strstr(fitters[0].result.message, "'y'")) fail_msg("%s", fitters[0].result.message);
}

TEST_FILE(test_shards, NULL, NULL)
