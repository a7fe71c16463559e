/* Each worker stores and updates a part of the moments: the same bits as without, whatever the optimizer and
 * the number of workers; files work with any number of workers; each worker needs only part of the memory. */
#include "device_support.h"

#include <koine/koine.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run_private.h"
#include "../forwarded.h"
#include "workers.h"

enum { MOST = 4, BATCH = 12, PIXELS = 14 * 14, CLASSES = 10, STEPS = 4 };

/* What all workers of a training do. */
typedef struct task {
    kn_trainer_params params;
    kn_precision precision;
    const char *from, *to; /* files to resume from and to write; NULL: none */
    uint64_t done;         /* steps in `from` */
} spread_task;

/* What a worker has and finds. */
typedef struct worker {
    forwarded end;
    const spread_task *task;
    bool shards_optimizer;
    kn_status status;
    uint64_t hash; /* of all states; of rank 0 */
    double losses[STEPS];
    kn_plan_info plan;
    uint64_t sent;    /* bytes to other workers */
    int sums;         /* by the communicator */
    uint64_t moments; /* bytes of moments with device memory */
    char error[400];
} worker;

/* The moments that have memory on the device. */
static uint64_t count_moments(const kn_states *states) {
    uint64_t bytes = 0;
    const kn_state *state;
    for (size_t i = 0; (state = kn_state_at(states, i)); i++)
        if (state->buffer && strstr(state->name, ".moment")) bytes += state->bytes;
    return bytes;
}

static void draw(uint64_t step, float *x, int32_t *y) {
    uint32_t word = 7 + (uint32_t)step * 1000;
    for (int i = 0; i < BATCH; i++) {
        y[i] = (i * 7 + (int)step) % CLASSES;
        for (int k = 0; k < PIXELS; k++) {
            word = word * 1664525u + 1013904223u;
            x[i * PIXELS + k] = (float)(word >> 8) / (float)(1 << 24) - 0.5f + (k % CLASSES == y[i]);
        }
    }
}

static kn_status run_steps(worker *own, kn_trainer *trainer) {
    float x[BATCH * PIXELS];
    int32_t y[BATCH];
    kn_status status = kn_trainer_status(trainer);
    for (uint64_t step = own->task->done; step < STEPS && status == KN_OK; step++) {
        uint64_t first, mine;
        draw(step, x, y);
        status = kn_trainer_local_samples(trainer, BATCH, &first, &mine);
        const kn_feed feeds[] = {{"x", x + first * PIXELS, mine * PIXELS * sizeof *x},
                                 {"y", y + first, mine * sizeof *y}};
        if (status == KN_OK) status = kn_trainer_step(trainer, BATCH, feeds, 2, &own->losses[step]);
        if (own->task->to && step == 1) break;
    }
    return status;
}

static kn_status count_and_send(void *user, int rank, int tag, const void *data, size_t bytes,
                                void **request) {
    worker *own = user;
    own->sent += bytes;
    return own->end.inner->send(own->end.inner->user, rank, tag, data, bytes, request);
}
/* In a different order than the tree of the shards. */
static kn_status sum_anyhow(void *user, float *data, size_t count) {
    worker *own = user;
    own->sums++;
    return kn_all_reduce(own->end.inner, data, count);
}

static void train(worker *own, kn_context *context, kn_model *model, kn_value *loss) {
    const spread_task *task = own->task;
    const bool first = !own->end.inner->rank;
    kn_session_params session = KN_SESSION_DEFAULTS;
    kn_trainer_params params = task->params;
    session.seed = 5;
    session.precision = task->precision;
    params.session = &session;
    params.shards = 4;
    params.communicator = &own->end.outer;
    params.shard_optimizer = own->shards_optimizer;
    kn_trainer *trainer = kn_trainer_create(context, loss, &params);
    kn_model_load_params load = KN_MODEL_LOAD_DEFAULTS;
    kn_model_save_params save = KN_MODEL_SAVE_DEFAULTS;
    load.training = save.training = true;
    if (task->from) {
        own->status = kn_model_load(model, task->from, kn_trainer_states(trainer), &load, NULL);
        kn_trainer_set_steps(trainer, task->done);
    }
    if (own->status == KN_OK) own->status = run_steps(own, trainer);
    own->plan = (kn_plan_info){.size = sizeof own->plan};
    if (own->status == KN_OK) own->status = kn_trainer_plan(trainer, &own->plan);
    own->moments = count_moments(kn_trainer_states(trainer));
    const uint64_t sent = own->sent;
    if (own->status == KN_OK) own->status = kn_trainer_collect(trainer);
    own->sent = sent;
    if (own->status == KN_OK && task->to && first)
        own->status = kn_model_save(model, task->to, kn_trainer_states(trainer), &save);
    snprintf(own->error, sizeof own->error, "%s %s", kn_trainer_error(trainer), kn_model_error(model));
    if (own->status == KN_OK && first) own->hash = states_hash(kn_trainer_states(trainer));
    kn_trainer_destroy(&trainer);
}

static void work(void *argument, const kn_communicator *communicator) {
    worker *own = argument;
    forward_to(&own->end, communicator);
    own->end.outer.send = count_and_send;
    if (own->task->params.sum_any_order) own->end.outer.sum = sum_anyhow;
    worker_net net = worker_open(
        NULL, kn_model_parse("koine 1\ninput x 1x14x14\nflatten\nlinear 60\ntanh\nlinear 30\ntanh\n"
                             "logits = linear 10\n",
                             NULL));
    own->status = net.status;
    if (own->status == KN_OK) train(own, net.context, net.model, net.loss);
    if (own->status != KN_OK) communicator->abort(communicator->user, own->error);
    worker_close(&net);
}

static void train_by(const spread_task *task, int count, bool shards_optimizer, worker workers[MOST]) {
    for (int r = 0; r < count; r++)
        workers[r] = (worker){.task = task, .shards_optimizer = shards_optimizer};
    workers_run(workers, sizeof *workers, count, work);
    for (int r = 0; r < count; r++)
        if (workers[r].status != KN_OK) fail_msg("worker %d of %d: %s", r, count, workers[r].error);
}

static kn_trainer_params of(kn_optimizer optimizer) {
    kn_trainer_params params = KN_TRAINER_DEFAULTS;
    kn_trainer_params_choose(&params, optimizer);
    return params;
}

/* One worker without the option and `count` workers with it get the same bits. */
static void check(const char *what, const spread_task *task, const int *counts) {
    worker alone[MOST], others[MOST];
    train_by(task, 1, false, alone);
    for (; *counts; counts++) {
        train_by(task, *counts, true, others);
        if (memcmp(others[0].losses, alone[0].losses, sizeof alone[0].losses) != 0 ||
            others[0].hash != alone[0].hash || !alone[0].hash)
            fail_msg("%s: %d workers have different bits than one", what, *counts);
    }
}

static void every_optimizer_has_the_same_bits(void **state) {
    static const int four[] = {4, 0};
    for (size_t i = 0; i < kn_optimizer_count(); i++) {
        const spread_task one = {.params = of((kn_optimizer)i)};
        check(kn_optimizer_name((kn_optimizer)i), &one, four);
    }
}

static void adamw_has_the_same_bits(void **state) {
    static const int some[] = {2, 3, 4, 0};
    spread_task one = {.params = of(KN_OPTIMIZER_ADAMW)};
    one.params.clip_norm = 0.5;
    one.params.accumulate = 2;
    one.params.average = 0.9;
    check("clipping, accumulation, averages", &one, some);
}

static void whatever_comes_before_the_rule_has_the_same_bits(void **state) {
    static const int three[] = {3, 0};
    static const kn_parameter_group groups[] = {
        {.size = sizeof groups[0], .pattern = "linear2.*", .rate_factor = 0.5, .weight_decay = 0.1},
        {.size = sizeof groups[0], .pattern = "linear1.bias", .rate_factor = 1, .frozen = true}};
    spread_task one = {.params = of(KN_OPTIMIZER_SGD)};
    one.params.clip_value = 0.01;
    one.params.clip_norm = 0.1;
    one.params.skip_not_finite = true;
    one.params.groups = groups;
    one.params.group_count = 2;
    check("clipping twice, groups", &one, three);
    one = (spread_task){.params = of(KN_OPTIMIZER_LAMB)};
    one.params.clip_norm = 0.5;
    check("norms of steps", &one, three);
    one = (spread_task){.params = of(KN_OPTIMIZER_ADAM), .precision = KN_PRECISION_FLOAT16};
    one.params.schedule = KN_SCHEDULE_COSINE;
    one.params.total_steps = STEPS;
    check("float16", &one, three);
    for (int m = KN_MOMENTS_BFLOAT16; m <= KN_MOMENTS_8BIT; m++) {
        one = (spread_task){.params = of(KN_OPTIMIZER_ADAM)};
        one.params.moments = (kn_moments)m;
        check(kn_moments_name((kn_moments)m), &one, three);
    }
}

static uint64_t sent_by_all(const worker *workers, int count) {
    uint64_t sent = 0;
    for (int r = 0; r < count; r++)
        sent += workers[r].sent;
    return sent;
}

/* Gradients in 16 bits: different bits than in 32, but the same for any number of workers, and half the
 * bytes. */
static void gradients_travel_in_16_bits(void **state) {
    worker alone[MOST], whole[MOST], half[MOST], parts[MOST];
    spread_task one = {.params = of(KN_OPTIMIZER_ADAM)};
    train_by(&one, 3, false, whole);
    for (int type = KN_FLOAT16; type <= KN_BFLOAT16; type++) {
        one.params.gradient_dtype = (kn_dtype)type;
        train_by(&one, 1, false, alone);
        train_by(&one, 3, false, half);
        train_by(&one, 4, true, parts);
        assert_int_equal(alone[0].sent, 0);
        assert_int_equal(half[0].hash, alone[0].hash);
        assert_int_equal(parts[0].hash, alone[0].hash);
        assert_true(half[0].hash != whole[0].hash);
        assert_float_equal(half[0].losses[STEPS - 1], whole[0].losses[STEPS - 1], 0.02);
        const double ratio = (double)sent_by_all(half, 3) / (double)sent_by_all(whole, 3);
        if (!(fabs(ratio - 0.5) < 0.01)) fail_msg("%g of the bytes are sent", ratio);
    }
}

static void the_communicator_may_add(void **state) {
    worker whole[MOST], own[MOST], parts[MOST];
    spread_task one = {.params = of(KN_OPTIMIZER_SGD)};
    train_by(&one, 3, false, whole);
    one.params.sum_any_order = true;
    train_by(&one, 3, false, own);
    train_by(&one, 3, true, parts);
    assert_int_equal(own[0].hash, parts[0].hash);
    for (int r = 0; r < 3; r++) {
        /* Only counts of targets are sent otherwise. */
        assert_true(own[r].sums >= STEPS && parts[r].sums >= STEPS && own[r].sent < whole[r].sent / 100);
        assert_float_equal(own[r].losses[STEPS - 1], whole[0].losses[STEPS - 1], 1e-5);
    }
}

/* AdamW on four workers: each plans and allocates a quarter of the moments. */
static void moments_are_a_part_of_those_of_one(void **state) {
    spread_task one = {.params = of(KN_OPTIMIZER_ADAMW)};
    worker alone[MOST], others[MOST];
    train_by(&one, 1, false, alone);
    train_by(&one, 4, true, others);
    const double whole = (double)alone[0].moments;
    assert_int_equal(alone[0].moments, 2 * 4 * (196 * 60 + 60 + 60 * 30 + 30 + 30 * 10 + 10));
    assert_int_equal(alone[0].plan.moment_bytes, alone[0].moments);
    uint64_t sum = 0;
    for (int r = 0; r < 4; r++) {
        assert_true(fabs((double)others[r].moments / whole - 0.25) < 0.25 * 0.05);
        assert_int_equal(others[r].plan.moment_bytes, others[r].moments);
        sum += others[r].moments;
    }
    assert_int_equal(sum, alone[0].moments);
}

static char *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *data = malloc(1 << 20);
    *bytes = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

/* Files after two steps are equal, and other workers resume from them with the same bits. */
static void files_are_those_of_one_worker(void **state) {
    static const struct {
        int count;
        bool shards_optimizer;
    } all[] = {{1, false}, {4, true}, {3, false}, {2, true}};
    char paths[4][64];
    worker whole[MOST], found[MOST];
    size_t first = 0;
    char *expected = NULL;
    spread_task one = {.params = of(KN_OPTIMIZER_ADAM)};
    train_by(&one, 1, false, whole);
    for (int i = 0; i < 4; i++) {
        snprintf(paths[i], sizeof paths[i], "spread-%d.safetensors", i);
        spread_task begins = one;
        size_t bytes;
        begins.to = paths[i];
        train_by(&begins, all[i].count, all[i].shards_optimizer, found);
        char *data = read_file(paths[i], &bytes);
        if (!i) {
            expected = data;
            first = bytes;
            continue;
        }
        assert_int_equal(bytes, first);
        assert_memory_equal(data, expected, first);
        free(data);
    }
    free(expected);
    for (int i = 0; i < 4; i++) {
        const spread_task goes_on = {.params = one.params, .from = paths[i], .done = 2};
        train_by(&goes_on, all[3 - i].count, all[3 - i].shards_optimizer, found);
        assert_int_equal(found[0].hash, whole[0].hash);
    }
    for (int i = 0; i < 4; i++)
        remove(paths[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest some[] = {cmocka_unit_test(adamw_has_the_same_bits),
                                      cmocka_unit_test(the_communicator_may_add),
                                      cmocka_unit_test(moments_are_a_part_of_those_of_one),
                                      cmocka_unit_test(files_are_those_of_one_worker)};
    const struct CMUnitTest all[] = {cmocka_unit_test(gradients_travel_in_16_bits),
                                     cmocka_unit_test(every_optimizer_has_the_same_bits),
                                     cmocka_unit_test(whatever_comes_before_the_rule_has_the_same_bits)};
    if (!device_is_there()) return 77;
    if (argc > 1 && !strcmp(argv[1], "all"))
        return cmocka_run_group_tests_name("spread-all", all, NULL, NULL);
    return cmocka_run_group_tests_name("spread", some, NULL, NULL);
}
