/* Batch norms over all workers: the result equals that of an undivided batch, including running statistics.
 */
#include "train_tests.h"
#include "workers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4, STEPS = 4, NAMES = 8, ELEMENTS = 16 * 16 * 9 };

/* Two norms of images, one of which has another one after it, and one of vectors; inputs are far from 0. */
static kn_model *normal_model(void) {
    return kn_model_parse("koine 1\ninput x 1x14x14\nbatchnorm\nconv 16 3\nbatchnorm\nrelu\nmaxpool 2\n"
                          "conv 8 3\nbatchnorm\nflatten\nlinear 12\nbatchnorm\ntanh\nlogits = linear 10\n",
                          NULL);
}

typedef struct worker {
    const kn_communicator *communicator;
    int shards, last; /* samples of the last batch */
    bool separate;    /* each norm uses only its shard */
    kn_status status;
    double losses[STEPS];
    uint64_t bits;
    size_t count;
    float numbers[NAMES * ELEMENTS];
    char error[400];
} worker;

/* All float32 states, in the order of their names in the trainer, which is that of the graph. */
static void read_states(worker *own, kn_states *states) {
    for (size_t i = 0; i < kn_states_count(states); i++) {
        kn_tensor_info info;
        uint64_t bytes = 0;
        const char *name = kn_states_at(states, i, &info);
        if (!kn_tensor_bytes(&info, &bytes) || info.dtype != KN_FLOAT32 || !info.rank) continue;
        const size_t count = (size_t)bytes / sizeof(float);
        assert_true(own->count + count <= sizeof own->numbers / sizeof(float));
        state_get(states, name, own->numbers + own->count, count);
        own->count += count;
    }
}

static void train(worker *own, kn_context *context, kn_value *loss) {
    float x[PICTURES * PICTURE_PIXELS];
    int32_t y[PICTURES];
    uint32_t word = 99;
    kn_trainer_params params = adam();
    params.optimizer = KN_OPTIMIZER_SGD;
    params.learning_rate = 0.02;
    params.momentum = 0;
    params.communicator = own->communicator;
    params.shards = own->shards;
    params.sync_batch_norm = !own->separate;
    kn_trainer *trainer = kn_trainer_create(context, loss, &params);
    own->status = kn_trainer_status(trainer);
    for (int step = 0; step < STEPS && own->status == KN_OK; step++) {
        const uint64_t count = step + 1 < STEPS ? PICTURES : (uint64_t)own->last;
        uint64_t first, mine;
        word = picture_batch(word, x, y);
        for (int i = 0; i < PICTURES * PICTURE_PIXELS; i++)
            x[i] = x[i] * (float)(1 + i / PICTURE_PIXELS % 3) + 20;
        own->status = kn_trainer_local_samples(trainer, count, &first, &mine);
        const kn_feed feeds[] = {{"x", x + first * PICTURE_PIXELS, mine * PICTURE_PIXELS * sizeof(float)},
                                 {"y", y + first, mine * sizeof *y}};
        if (own->status == KN_OK)
            own->status = kn_trainer_step(trainer, (int64_t)count, feeds, 2, &own->losses[step]);
    }
    snprintf(own->error, sizeof own->error, "%s", kn_trainer_error(trainer));
    if (own->status == KN_OK) {
        own->bits = states_hash(kn_trainer_states(trainer));
        read_states(own, kn_trainer_states(trainer));
    }
    kn_trainer_destroy(&trainer);
}

static void work(void *argument, const kn_communicator *communicator) {
    worker *own = argument;
    own->communicator = communicator;
    worker_net net = worker_open(NULL, normal_model());
    own->status = net.status;
    if (own->status == KN_OK) train(own, net.context, net.loss);
    worker_close(&net);
}

static worker workers[MOST];

/* Trains by `count` workers, all of which must find the same bits. */
static worker *train_by(const worker *task, int count) {
    for (int r = 0; r < count; r++)
        workers[r] = *task;
    workers_run(workers, sizeof *workers, count, work);
    for (int r = 0; r < count && workers[0].status == KN_OK; r++) {
        if (workers[r].status != KN_OK) fail_msg("worker %d of %d: %s", r, count, workers[r].error);
        assert_int_equal(workers[r].bits, workers[0].bits);
        assert_memory_equal(workers[r].losses, workers[0].losses, sizeof workers[r].losses);
    }
    return &workers[0];
}

/* The largest difference of the states, relative to 1 plus their size. */
static double apart(const worker *found, const worker *expected) {
    double most = 0;
    assert_int_equal(found->count, expected->count);
    for (size_t i = 0; i < found->count; i++) {
        const double own = (double)found->numbers[i], other = (double)expected->numbers[i];
        const double difference = fabs(own - other) / (1 + fabs(other));
        most = difference <= most ? most : difference; /* NaN stays */
    }
    for (int i = 0; i < STEPS; i++) {
        const double difference = fabs(found->losses[i] - expected->losses[i]);
        most = difference <= most ? most : difference;
    }
    return most;
}

TEST(norms_are_those_of_the_batch) {
    static worker whole;
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    for (int last = 3; last <= 11; last += 8) { /* 3: a worker has no sample */
        worker task = {.last = last};
        whole = *train_by(&task, 1);
        if (whole.status != KN_OK) fail_msg("%s", whole.error);
        for (int count = 2; count <= 4; count += 2) {
            const worker *found = train_by(&task, count);
            if (found->status != KN_OK) fail_msg("%d workers: %s", count, found->error);
            const double most = apart(found, &whole);
            if (!(most <= 2e-4)) fail_msg("%d workers, %d samples: states differ by %g", count, last, most);
        }
    }
    /* Statistics of single shards give different results. */
    worker task = {.last = 11, .separate = true};
    assert_true(apart(train_by(&task, 4), &whole) > 1e-2);
}

TEST(shards_one_after_the_other_are_refused) {
    const worker task = {.last = 3, .shards = 4};
    for (int count = 1; count <= 2; count++) {
        const worker *found = train_by(&task, count);
        assert_int_equal(found->status, KN_ERROR_UNSUPPORTED);
        if (!strstr(found->error, "as many shards as workers")) fail_msg("%s", found->error);
    }
}

TEST_FILE(test_sync_norm, NULL, NULL)
