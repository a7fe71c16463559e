/* Sums over a whole batch in shards and in parts: losses with class weights, ignored targets, masks and sums
 * equal those of an undivided batch, for any number of shards, parts and workers. */
#include "train_tests.h"
#include "workers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4, STEPS = 4, BATCH = 12, NUMBERS = CLASSES * INPUTS + CLASSES };
#define RATE 0.2
static const float weights_of_classes[CLASSES] = {1, 3, 0.5f};

/* A graph on x (batch,6), class numbers y (batch) of which -1 is ignored, and m (batch), a mask. */
typedef struct test_net {
    kn_graph *graph;
    kn_value *logits, *y, *m, *loss, *extra;
} test_net;

static test_net net_begin(const char *batch) {
    char x[32];
    snprintf(x, sizeof x, "%s,6", batch);
    test_net made = {.graph = kn_graph_create(NULL)};
    const kn_initializer begins = {KN_INITIALIZER_FILL, 0.1}, zero = {KN_INITIALIZER_FILL, 0};
    const kn_linear_params named = {.size = sizeof named, .name = "out", .weight = &begins, .bias = &zero};
    made.y = kn_input(made.graph, "y", KN_INT32, batch);
    made.m = kn_input(made.graph, "m", KN_FLOAT32, batch);
    made.logits = kn_linear(kn_input(made.graph, "x", KN_FLOAT32, x), CLASSES, &named);
    return made;
}

static kn_value *class_loss(const test_net *own, bool weighted, bool sum, double smoothing) {
    kn_cross_entropy_params params = {.size = sizeof params,
                                      .has_ignore_index = true,
                                      .ignore_index = -1,
                                      .sum = sum,
                                      .label_smoothing = smoothing};
    if (weighted)
        params.class_weights =
            kn_constant(own->graph, KN_FLOAT32, "3", weights_of_classes, sizeof weights_of_classes);
    return kn_cross_entropy(own->logits, own->y, &params);
}

/* (batch): how far the logits are from 0. */
static kn_value *distances(const test_net *own) {
    return kn_sum(kn_mul(own->logits, own->logits), "1", false);
}

static test_net weighted_net(void) {
    test_net made = net_begin("batch");
    made.loss = class_loss(&made, true, false, 0);
    made.extra = kn_accuracy_ignoring(made.logits, made.y, -1);
    return made;
}

/* Two losses that divide by different numbers, one that divides by none, and a penalty of a parameter. */
static test_net mixed_net(void) {
    test_net made = net_begin("batch");
    const kn_initializer begins = {KN_INITIALIZER_FILL, 0.5};
    kn_value *weight = kn_parameter(made.graph, "other", KN_FLOAT32, "3,1", &begins);
    kn_value *errors =
        kn_mul(kn_reshape(kn_abs(kn_matmul(kn_tanh(made.logits), weight, false, false)), "batch"), made.m);
    kn_value *masked = kn_div(kn_sum(errors, NULL, false), kn_sum(made.m, NULL, false));
    kn_value *penalty = kn_sum(kn_mul(weight, weight), NULL, false);
    made.loss = kn_add(kn_add(class_loss(&made, true, false, 0.1), kn_scale(masked, 3)),
                       kn_add(kn_mean(distances(&made), NULL, false), kn_scale(penalty, 0.5)));
    /* The fraction of the counted samples whose first logit is positive, from integers. */
    kn_value *counts = kn_cast(kn_greater(made.m, kn_scalar(made.graph, 0.5)), KN_INT32);
    kn_value *first = kn_reshape(kn_slice(made.logits, 1, 0, 1), "batch");
    kn_value *right = kn_mul(kn_cast(kn_greater(first, kn_scalar(made.graph, 0)), KN_INT32), counts);
    made.extra = kn_div(kn_cast(kn_sum(right, NULL, false), KN_FLOAT32),
                        kn_cast(kn_sum(counts, NULL, false), KN_FLOAT32));
    return made;
}

static test_net sum_net(void) {
    test_net made = net_begin("batch");
    made.loss = kn_scale(class_loss(&made, false, true, 0), 0.1);
    made.extra = kn_sum(made.m, NULL, false);
    return made;
}

/* Nothing is scaled, and the sum is read by nothing else. */
static test_net counting_net(void) {
    test_net made = net_begin("batch");
    made.loss = kn_mean(distances(&made), NULL, false);
    made.extra = kn_sum(made.m, NULL, false);
    return made;
}

/* Weights that the batch normalises before the loss divides by their sum again; and a mean of the mask. */
static test_net nested_net(void) {
    test_net made = net_begin("batch");
    kn_value *share = kn_div(made.m, kn_sum(made.m, NULL, false));
    kn_value *square = kn_mul(share, kn_shift(share, 0.1));
    made.loss =
        kn_add(kn_div(kn_sum(kn_mul(distances(&made), square), NULL, false), kn_sum(square, NULL, false)),
               kn_div(kn_mean(kn_mul(distances(&made), made.m), NULL, false), kn_mean(made.m, NULL, false)));
    return made;
}

/* Sizes that are numbers: 3 samples a shard. */
static test_net fixed_net(void) {
    test_net made = net_begin("3");
    made.loss = class_loss(&made, true, false, 0);
    made.extra = kn_accuracy_ignoring(made.logits, made.y, -1);
    return made;
}

/* Each batch has different samples; in the first batches whole shards count for nothing. */
static void draw_batch(int step, int32_t y[BATCH], float m[BATCH]) {
    for (int i = 0; i < BATCH; i++) {
        y[i] = sample_y[(step * 5 + i) % SAMPLES];
        m[i] = (float)((i * 7 + step) % 4);
        if (step < 3 ? i < 4 - step : i % 3 != 0) {
            y[i] = -1;
            m[i] = 0;
        }
    }
}

/* ---- training by several workers ---------------------------------------------------------------------- */

typedef struct test_task {
    test_net (*make)(void);
    int shards;  /* 0: in one piece */
    int samples; /* of the last batch */
    uint64_t accumulate;
    uint64_t part; /* the most samples at once; 0: all */
} test_task;

typedef struct worker {
    const test_task *task;
    const kn_communicator *communicator;
    const int *deal;
    kn_status status;
    double losses[STEPS], extras[STEPS];
    float numbers[NUMBERS];
    char error[400];
} worker;

static void train(worker *own, kn_context *context, const test_net *net) {
    kn_value *extra = net->extra;
    kn_trainer_params params = adam();
    params.optimizer = KN_OPTIMIZER_SGD;
    params.learning_rate = RATE;
    params.momentum = 0;
    params.accumulate = own->task->accumulate;
    params.shards = own->task->shards;
    params.micro_batch = own->task->part;
    params.communicator = own->communicator;
    params.shard_counts = own->deal;
    params.extra = &extra;
    params.extra_count = extra != NULL;
    kn_trainer *trainer = kn_trainer_create(context, net->loss, &params);
    own->status = kn_trainer_status(trainer);
    for (int step = 0; step < STEPS && own->status == KN_OK; step++) {
        const uint64_t count = step + 1 < STEPS ? BATCH : (uint64_t)own->task->samples;
        uint64_t first, mine;
        int32_t y[BATCH];
        float m[BATCH], found = 0;
        kn_fetch fetch = {extra ? kn_value_name(extra) : NULL, &found, sizeof found};
        draw_batch(step, y, m);
        own->status = kn_trainer_local_samples(trainer, count, &first, &mine);
        const kn_feed feeds[] = {{"x", sample_x[step * 5 + (int)first], mine * sizeof sample_x[0]},
                                 {"y", y + first, mine * sizeof *y},
                                 {"m", m + first, mine * sizeof *m}};
        if (own->status == KN_OK)
            own->status = kn_trainer_step_fetch(trainer, (int64_t)count, feeds, 3, &own->losses[step], &fetch,
                                                extra != NULL);
        own->extras[step] = found;
    }
    snprintf(own->error, sizeof own->error, "%s", kn_trainer_error(trainer));
    if (own->status == KN_OK) {
        state_get(kn_trainer_states(trainer), "out.weight", own->numbers, CLASSES * INPUTS);
        state_get(kn_trainer_states(trainer), "out.bias", own->numbers + CLASSES * INPUTS, CLASSES);
    }
    kn_trainer_destroy(&trainer);
}

static void work(void *argument, const kn_communicator *communicator) {
    worker *own = argument;
    own->communicator = communicator;
    kn_context_params params = device_params();
    kn_context *context = device_open(&params);
    test_net made = own->task->make();
    train(own, context, &made);
    kn_graph_destroy(&made.graph);
    device_close(&context);
}

static worker train_by(const test_task *task, int count, const int *deal) {
    worker workers[MOST] = {{.task = task}};
    for (int r = 0; r < count; r++)
        workers[r] = (worker){.task = task, .deal = deal};
    workers_run(workers, sizeof *workers, count, work);
    for (int r = 0; r < count; r++) {
        if (workers[r].status != KN_OK) fail_msg("worker %d of %d: %s", r, count, workers[r].error);
        assert_memory_equal(workers[r].numbers, workers[0].numbers, sizeof workers[r].numbers);
        assert_memory_equal(workers[r].losses, workers[0].losses, sizeof workers[r].losses);
    }
    return workers[0];
}

static void near(const char *what, int at, double found, double expected) {
    if (!(fabs(found - expected) <= 2e-5 * (1 + fabs(expected))))
        fail_msg("%s %d is %.9g, expected %.9g", what, at, found, expected);
}

static void same(const worker *found, const worker *expected) {
    for (int i = 0; i < STEPS; i++) {
        near("loss", i, found->losses[i], expected->losses[i]);
        near("extra value", i, found->extras[i], expected->extras[i]);
    }
    for (int i = 0; i < NUMBERS; i++)
        near("number", i, (double)found->numbers[i], (double)expected->numbers[i]);
}

/* Any number of shards and parts computes what one piece does, and any number of workers the same bits. */
static void check(test_task task) {
    static const int uneven[] = {1, 3};
    const worker whole = train_by(&task, 1, NULL);
    task.shards = 16;
    const worker sixteen = train_by(&task, 1, NULL);
    task.shards = 4;
    const worker four = train_by(&task, 1, NULL), others = train_by(&task, 2, uneven);
    same(&sixteen, &whole);
    same(&four, &whole);
    assert_memory_equal(others.numbers, four.numbers, sizeof four.numbers);
    assert_memory_equal(others.losses, four.losses, sizeof four.losses);
    task.part = 2;
    const worker cut = train_by(&task, 1, NULL), cut_others = train_by(&task, 2, uneven);
    same(&cut, &whole);
    assert_memory_equal(cut_others.numbers, cut.numbers, sizeof cut.numbers);
    assert_memory_equal(cut_others.losses, cut.losses, sizeof cut.losses);
    task.shards = 0;
    task.part = 5;
    const worker parts = train_by(&task, 1, NULL);
    same(&parts, &whole);
}

TEST(weighted_means_are_those_of_the_batch) {
    check((test_task){.make = weighted_net, .samples = 3});
}

/* A batch of softmax regression in double precision: returns the loss, and updates weights (3,6) and bias. */
static double reference_step(int step, int count, double weight[CLASSES][INPUTS], double bias[CLASSES]) {
    double by_weight[CLASSES][INPUTS] = {{0}}, by_bias[CLASSES] = {0}, loss = 0, total = 0;
    int32_t y[BATCH];
    float m[BATCH];
    draw_batch(step, y, m);
    for (int i = 0; i < count; i++) {
        const float *x = sample_x[step * 5 + i];
        double powers[CLASSES], sum = 0;
        if (y[i] < 0) continue;
        const double own = (double)weights_of_classes[y[i]];
        for (int c = 0; c < CLASSES; c++) {
            double logit = bias[c];
            for (int k = 0; k < INPUTS; k++)
                logit += weight[c][k] * (double)x[k];
            sum += powers[c] = exp(logit);
        }
        total += own;
        loss -= own * log(powers[y[i]] / sum);
        for (int c = 0; c < CLASSES; c++) {
            const double by_logit = own * (powers[c] / sum - (c == y[i]));
            by_bias[c] += by_logit;
            for (int k = 0; k < INPUTS; k++)
                by_weight[c][k] += by_logit * (double)x[k];
        }
    }
    for (int c = 0; c < CLASSES; c++) {
        bias[c] -= RATE * by_bias[c] / total;
        for (int k = 0; k < INPUTS; k++)
            weight[c][k] -= RATE * by_weight[c][k] / total;
    }
    return loss / total;
}

TEST(weighted_means_are_those_of_a_reference) {
    const test_task task = {.make = weighted_net, .samples = 3, .shards = 8};
    const worker found = train_by(&task, 3, NULL);
    double weight[CLASSES][INPUTS], bias[CLASSES] = {0};
    for (int i = 0; i < CLASSES * INPUTS; i++)
        weight[i / INPUTS][i % INPUTS] = 0.1;
    for (int step = 0; step < STEPS; step++)
        near("loss", step, found.losses[step],
             reference_step(step, step + 1 < STEPS ? BATCH : task.samples, weight, bias));
    for (int i = 0; i < CLASSES * INPUTS; i++)
        near("weight", i, (double)found.numbers[i], weight[i / INPUTS][i % INPUTS]);
    for (int c = 0; c < CLASSES; c++)
        near("bias", c, (double)found.numbers[CLASSES * INPUTS + c], bias[c]);
}

TEST(fixed_sizes_count_over_the_batch) {
    const test_task whole = {.make = weighted_net, .samples = BATCH};
    const test_task fixed = {.make = fixed_net, .samples = BATCH, .shards = 4};
    const test_task cut = {.make = fixed_net, .samples = BATCH, .part = 3};
    const worker expected = train_by(&whole, 1, NULL), found = train_by(&fixed, 2, NULL),
                 parts = train_by(&cut, 1, NULL);
    same(&found, &expected);
    same(&parts, &expected);
}

/* The loss and the accuracy of all samples, as an evaluation in batches of `batch` finds them. */
static kn_score evaluated(kn_context *context, const test_net *made, uint64_t batch) {
    static int32_t y[SAMPLES];
    static float m[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        y[i] = i < 12 || i % 4 == 0 ? -1 : sample_y[i]; /* whole batches count for nothing */
    const kn_dataset_array arrays[] = {
        {"x", {KN_FLOAT32, 1, {INPUTS}}, sample_x, sizeof sample_x, KN_FLOAT32, 0},
        {"y", {KN_INT32, 0, {0}}, y, sizeof y, KN_INT32, 0},
        {"m", {KN_FLOAT32, 0, {0}}, m, sizeof m, KN_FLOAT32, 0},
    };
    kn_dataset *data = kn_dataset_create_from_arrays(SAMPLES, arrays, 3, 0, NULL);
    kn_value *const values[] = {made->loss, made->extra};
    kn_session *session = kn_session_create(context, values, 2, NULL);
    kn_score score = KN_SCORE_DEFAULTS;
    kn_status status =
        kn_evaluate(session, data, batch, kn_value_name(made->loss), kn_value_name(made->extra), &score);
    if (status != KN_OK) fail_msg("%s%s", kn_session_error(session), kn_dataset_error(data));
    kn_session_destroy(&session);
    kn_dataset_destroy(&data);
    return score;
}

TEST(an_evaluation_weights_batches_by_what_counts) {
    kn_context_params params = device_params();
    kn_context *context = device_open(&params);
    test_net made = weighted_net();
    const kn_score whole = evaluated(context, &made, SAMPLES);
    int counted = 0, right = 0;
    for (int i = 12; i < SAMPLES; i++) { /* the weights are all alike, so class 0 is the largest of equals */
        counted += i % 4 != 0;
        right += i % 4 != 0 && sample_y[i] == 0;
    }
    assert_true(isfinite(whole.loss) && right > 0);
    near("accuracy in batches of", SAMPLES, whole.accuracy, (double)right / counted);
    for (uint64_t batch = 4; batch <= 7; batch += 3) {
        const kn_score cut = evaluated(context, &made, batch);
        near("loss in batches of", (int)batch, cut.loss, whole.loss);
        near("accuracy in batches of", (int)batch, cut.accuracy, whole.accuracy);
    }
    kn_graph_destroy(&made.graph);
    device_close(&context);
}

TEST(an_accuracy_leaves_out_ignored_targets) {
    static const float logits[5][CLASSES] = {{0, 2, 1}, {3, 1, 2}, {1, 1, 4}, {5, 0, 0}, {0, 0, 0}};
    static const int32_t y[5] = {1, 2, 2, -1, 0};
    kn_context_params params = device_params();
    kn_context *context = device_open(&params);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,3"),
             *target = kn_input(graph, "y", KN_INT32, "batch");
    kn_value *values[] = {kn_name(kn_accuracy(x, target), "all"),
                          kn_name(kn_accuracy_ignoring(x, target, -1), "known"),
                          kn_name(kn_accuracy_ignoring(x, target, 2), "others")};
    float all, known, others;
    const kn_fetch fetches[] = {{"all", &all, 4}, {"known", &known, 4}, {"others", &others, 4}};
    const kn_feed feeds[] = {{"x", logits, sizeof logits}, {"y", y, sizeof y}};
    const kn_feed none[] = {{"x", logits[3], sizeof *logits}, {"y", y + 3, sizeof *y}};
    kn_session *session = kn_session_create(context, values, 3, NULL);
    if (kn_session_run(session, feeds, 2, fetches, 3)) fail_msg("%s", kn_session_error(session));
    near("right of all", 5, (double)all, 3.0 / 5);
    near("right of known", 4, (double)known, 3.0 / 4);
    near("right of others", 3, (double)others, 2.0 / 3);
    assert_int_equal(kn_session_run(session, none, 2, fetches, 3), KN_OK);
    assert_true(all == 0 && isnan(known) && others == 0);
    kn_session_destroy(&session);
    kn_graph_destroy(&graph);
    device_close(&context);
}

TEST(several_losses_divide_by_their_own_counts) {
    check((test_task){.make = mixed_net, .samples = 11, .accumulate = 2});
}

TEST(sums_are_those_of_the_batch) {
    check((test_task){.make = sum_net, .samples = 5});
    check((test_task){.make = counting_net, .samples = 2});
}

TEST(totals_may_depend_on_totals) {
    check((test_task){.make = nested_net, .samples = 7});
}

TEST_FILE(test_counts, NULL, NULL)
