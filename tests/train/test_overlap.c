/* The upload of the next batch while a step is in progress: several workers begin it before the host waits
 * for the others, the bits are those of a training without it, and a failure of it ends the training.
 * Functions of Koine are led through this file by the linker, which notes their order. */
#include <stdio.h>
#include <string.h>

#include <koine/koine.h>

#include "device_support.h"
#include "run/totals_private.h"
#include "train/trainer_private.h"
#include "workers.h"

#include "wrapping.h"

enum { SAMPLES = 40, INPUTS = 6, CLASSES = 3, BATCH = 12, EPOCHS = 2, STEPS = 8, MOST = 2, EVENTS = 4096 };
enum { STEP = 'B', LAUNCH = 'L', UPLOAD = 'U', WAIT = 'W' };
static float sample_x[SAMPLES][INPUTS];
static int32_t sample_y[SAMPLES];

typedef struct worker {
    bool late;   /* no batch is ready in time */
    int fail_at; /* the upload with this number fails; 0: none */
    int uploads, steps;
    char events[EVENTS]; /* without repetitions */
    size_t count;
    kn_status status, after;
    kn_fit_result result;
    double losses[STEPS];
    float weights[CLASSES * INPUTS];
} worker;

/* ---- what the linker leads here ----------------------------------------------------------------------- */

static _Thread_local worker *self;

static void note(char event) {
    if (!self || self->count + 1 >= EVENTS) return;
    if (!self->count || self->events[self->count - 1] != event) self->events[self->count++] = event;
}

WRAPPED(bool, kn_loader_ready, (kn_loader * loader)) {
    const double begin = kn_clock();
    while (!self->late && !__real_kn_loader_ready(loader) && kn_clock() - begin < 60)
        continue;
    return !self->late;
}

WRAPPED(kn_status, kn_session_feed_ahead, (kn_session * session, const kn_feed *feeds, size_t feed_count)) {
    if (++self->uploads == self->fail_at) return kn_session_bind(session, "nothing", 1);
    kn_status status = __real_kn_session_feed_ahead(session, feeds, feed_count);
    note(UPLOAD);
    return status;
}

WRAPPED(kn_status, kn_totals_exchange,
        (kn_totals * totals, kn_context *context, int number, kn_error *error)) {
    note(WAIT);
    return __real_kn_totals_exchange(totals, context, number, error);
}

WRAPPED(kn_status, kn_kernel_launch,
        (kn_context * context, kn_kernel *kernel, const kn_launch *launch, const char *label,
         kn_error *error)) {
    note(LAUNCH);
    return __real_kn_kernel_launch(context, kernel, launch, label, error);
}

WRAPPED(kn_status, kn_trainer_begin_step,
        (kn_trainer * trainer, int64_t count, const kn_feed *feeds, size_t feed_count, bool ahead,
         const char *extra, kn_enqueued_callback on_enqueued)) {
    note(STEP);
    return __real_kn_trainer_begin_step(trainer, count, feeds, feed_count, ahead, extra, on_enqueued);
}

/* ---- the training -------------------------------------------------------------------------------- */

static bool on_step(void *user, const kn_fit_step *step) {
    worker *own = user;
    if (own->steps < STEPS) own->losses[own->steps++] = step->loss;
    return true;
}

static void fit(worker *own, kn_trainer *trainer) {
    const kn_dataset_array arrays[] = {
        {"x", {KN_FLOAT32, 1, {INPUTS}}, sample_x, sizeof sample_x, KN_FLOAT32, 0},
        {"y", {KN_INT32, 0, {0}}, sample_y, sizeof sample_y, KN_INT32, 0},
    };
    kn_dataset *data = kn_dataset_create_from_arrays(SAMPLES, arrays, 2, CLASSES, NULL);
    const kn_loader_params loader = {.size = sizeof loader, .batch = BATCH, .seed = 3};
    kn_fit_params how = {
        .size = sizeof how, .epochs = EPOCHS, .loader = &loader, .user = own, .on_step = on_step};
    own->result = (kn_fit_result)KN_FIT_RESULT_DEFAULTS;
    own->status = kn_fit(trainer, data, &how, &own->result);
    /* A failure leaves everything usable, as far as the other workers continue. */
    own->after =
        kn_states_get(kn_trainer_states(trainer), "logits.weight", own->weights, sizeof own->weights);
    if (own->fail_at && !trainer->params.communicator) own->after = kn_fit(trainer, data, &how, &own->result);
    kn_dataset_destroy(&data);
}

static void work(void *argument, const kn_communicator *communicator) {
    worker *own = self = argument;
    worker_net net = worker_open(NULL, kn_model_parse("koine 1\ninput x 6\nlogits = linear 3\n", NULL));
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    params.communicator = communicator->ranks > 1 ? communicator : NULL;
    params.shards = params.communicator ? MOST : 0;
    own->status = net.status;
    kn_trainer *trainer = kn_trainer_create(net.context, net.loss, &params);
    if (own->status == KN_OK) fit(own, trainer);
    kn_trainer_destroy(&trainer);
    worker_close(&net);
    self = NULL;
}

static void run(worker *workers, int count) {
    workers_run(workers, sizeof *workers, count, work);
}

static void good(const worker *workers, int count) {
    for (int r = 0; r < count; r++)
        if (workers[r].status != KN_OK) fail_msg("worker %d of %d: %s", r, count, workers[r].result.message);
}

/* Each step launches the work that needs no other worker, uploads the next batch, if the epoch has one, and
 * only then waits. */
static void check_order(const worker *own) {
    const char *step = strchr(own->events, STEP);
    for (int i = 0; i < STEPS; i++) {
        if (!step) fail_msg("%d steps: %s", i, own->events);
        const char *next = strchr(step + 1, STEP), *end = next ? next : own->events + own->count;
        const char *launch = strchr(step, LAUNCH), *upload = strchr(step, UPLOAD), *wait = strchr(step, WAIT);
        const bool uploads = upload && upload < end, last = i % (STEPS / EPOCHS) == STEPS / EPOCHS - 1;
        if (!(launch && wait && launch < wait && wait < end) || uploads == last ||
            (uploads && !(launch < upload && upload < wait)))
            fail_msg("step %d: %s", i, own->events);
        step = next;
    }
    assert_null(step);
}

static void the_next_batch_is_uploaded_before_the_wait(void **state) {
    worker early[MOST] = {{.late = false}}, late[MOST] = {{.late = true}, {.late = true}};
    run(early, MOST);
    run(late, MOST);
    good(early, MOST);
    good(late, MOST);
    for (int r = 0; r < MOST; r++) {
        check_order(&early[r]);
        assert_int_equal(early[r].uploads, STEPS - EPOCHS);
        assert_int_equal(late[r].uploads, 0);
        assert_memory_equal(early[r].losses, late[0].losses, sizeof late[0].losses);
        assert_memory_equal(early[r].weights, late[0].weights, sizeof late[0].weights);
    }
}

static void a_failure_ends_the_step(void **state) {
    worker workers[MOST] = {{.fail_at = 3}, {.fail_at = 0}};
    run(workers, MOST);
    assert_int_equal(workers[0].status, KN_ERROR_NOT_FOUND);
    if (!strstr(workers[0].result.message, "'nothing'")) fail_msg("%s", workers[0].result.message);
    assert_int_equal(workers[0].after, KN_OK);
    assert_int_equal(workers[1].status, KN_ERROR_CANCELLED);
    assert_int_equal(workers[1].after, KN_OK);
}

/* With one worker, the next batch follows all launches of the step; the trainer continues after a failure. */
static void one_worker_does_the_same(void **state) {
    worker early = {.late = false}, late = {.late = true}, broken = {.fail_at = 3};
    run(&early, 1);
    run(&late, 1);
    run(&broken, 1);
    good(&early, 1);
    assert_memory_equal(early.losses, late.losses, sizeof late.losses);
    assert_memory_equal(early.weights, late.weights, sizeof late.weights);
    assert_int_equal(early.uploads, STEPS - EPOCHS);
    assert_int_equal(broken.status, KN_ERROR_NOT_FOUND);
    assert_int_equal(broken.after, KN_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_batch_is_uploaded_before_the_wait),
                                       cmocka_unit_test(a_failure_ends_the_step),
                                       cmocka_unit_test(one_worker_does_the_same)};
    if (!device_is_there()) return 77;
    for (int i = 0; i < SAMPLES; i++) {
        sample_y[i] = i * 7 % CLASSES;
        for (int k = 0; k < INPUTS; k++)
            sample_x[i][k] = (float)((i * 31 + k * 17) % 13) / 13 + (k % CLASSES == sample_y[i] ? 1 : 0);
    }
    return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
