/* Tuning one shape: each candidate is checked and timed briefly, then the fastest are timed in turns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/tuner_private.h"

enum { FINALISTS = 4, ROUNDS = 9, SLOW_ROUNDS = 3 };
/* A candidate replaces the untuned kernel only with this speedup: less is within the noise. */
static const double least_gain = 1.03;
static const double close = 1.3;    /* limit on the time of finalists, as a multiple of the shortest time */
static const double far_slower = 4; /* then one brief timing is enough */
static const double turn_seconds = 0.01; /* launch time between waits */
static const double slow = 0.1;          /* launches that take longer are timed in fewer turns */
static const double warm_seconds = 0.2;
static const double upload_seconds = 0.1; /* longer than uploads take, which are included in the first run */

/* A candidate with correct results. */
typedef struct timed {
    const kn_candidate *candidate;
    double seconds; /* from the brief timing, then the median */
    kn_session *session;
    double rounds[ROUNDS];
    int times;
} timed;

typedef struct tuning_run {
    kn_tuner *tuner;
    kn_tuner_node *shape;
    const kn_tuner_params *params;
    double begin;
    kn_measurement measure;
    timed timed[KN_TUNER_CANDIDATES];
    int count;
    double untuned; /* of the untuned kernel; 0: it does not work */
} tuning_run;

static void report(const tuning_run *run, kn_tuner_event event, const kn_candidate *candidate,
                   const char *message) {
    if (run->params->report) run->params->report(run->params->user, event, candidate->name, message);
}

static bool time_is_over(const tuning_run *run) {
    return run->params->seconds > 0 && kn_clock() - run->begin > run->params->seconds;
}

static kn_status fail_time(const tuning_run *run) {
    return kn_fail(&run->tuner->error, KN_ERROR_CANCELLED, "time ran out before all candidates were timed");
}

/* ---- checks and glances ------------------------------------------------------------------------------ */

/* Whether the candidate caused a failure, as opposed to host memory or files. */
static bool is_refusal(kn_status status) {
    return status != KN_ERROR_MEMORY && status != KN_ERROR_FILE && status != KN_ERROR_NOT_FOUND;
}

/* `least`: the shortest time so far; 0: none. */
static kn_status estimate(tuning_run *run, const kn_candidate *candidate, double least, double *seconds,
                          kn_error *error) {
    kn_session *session = NULL;
    kn_context *context = run->tuner->context;
    kn_status status = KN_OK;
    const double enough = least > 0 ? far_slower * least + upload_seconds : INFINITY;
    if (candidate->programs)
        status = kn_trial_run_small(context, &run->shape->node, candidate->variant, candidate->tile,
                                    candidate->programs, error);
    if (status == KN_OK)
        status = kn_measurement_open(&run->measure, candidate->variant, candidate->tile, enough, seconds,
                                     &session, error);
    if (status == KN_OK && *seconds < enough)
        status = kn_measurement_estimate(session, run->shape->node.row, least > 0 ? far_slower * least : slow,
                                         seconds, error);
    kn_session_destroy(&session);
    return status;
}

static void refuse(const tuning_run *run, const kn_candidate *candidate, const kn_error *error,
                   kn_status status) {
    kn_tuner_event event = status == KN_ERROR_MISMATCH ? KN_TUNER_EVENT_WRONG : KN_TUNER_EVENT_FAILED;
    kn_tuner_exclude(run->tuner, run->shape->key, candidate->name, event);
    report(run, event, candidate, error->text);
}

static kn_status estimate_all(tuning_run *run) {
    double least = 0;
    for (int i = 0; i < run->shape->candidate_count; i++) {
        const kn_candidate *candidate = &run->shape->candidates[i];
        kn_error error = {.status = KN_OK};
        double seconds = 0;
        if (kn_tuned_end_of(run->tuner->context, run->shape->key, candidate->name) != KN_TUNED_MEASURED)
            continue;
        if (time_is_over(run)) return fail_time(run);
        report(run, KN_TUNER_EVENT_START, candidate, "");
        kn_status status = estimate(run, candidate, least, &seconds, &error);
        if (status != KN_OK && !is_refusal(status))
            return kn_fail(&run->tuner->error, status, "%s, %s: %s", run->shape->name, candidate->name,
                           error.text);
        if (status != KN_OK) {
            refuse(run, candidate, &error, status);
            continue;
        }
        run->timed[run->count++] = (timed){.candidate = candidate, .seconds = seconds};
        if (least <= 0 || seconds < least) least = seconds;
    }
    return KN_OK;
}

/* ---- the fastest in turn --------------------------------------------------------------------------- */

static int by_seconds(const void *left, const void *right) {
    const double a = ((const timed *)left)->seconds, b = ((const timed *)right)->seconds;
    return a < b ? -1 : a > b;
}

static int by_number(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static bool is_untuned(const tuning_run *run, const timed *one) {
    return one->candidate == &run->shape->candidates[0];
}

/* Keeps candidates that may be the fastest, and the untuned one unless it was clearly slower. */
static void choose_finalists(tuning_run *run) {
    int kept = 0;
    qsort(run->timed, (size_t)run->count, sizeof *run->timed, by_seconds);
    for (int i = 0; i < run->count; i++) {
        const timed one = run->timed[i];
        const double factor = is_untuned(run, &one) ? far_slower : close;
        if (is_untuned(run, &one)) run->untuned = one.seconds;
        if ((kept < FINALISTS || is_untuned(run, &one)) && one.seconds <= factor * run->timed[0].seconds)
            run->timed[kept++] = one;
    }
    run->count = kept;
}

static kn_status time_turn(const tuning_run *run, timed *one, double *seconds) {
    report(run, KN_TUNER_EVENT_START, one->candidate, "");
    return kn_measurement_time(one->session, run->shape->node.row, one->times, seconds, &run->tuner->error);
}

static kn_status time_in_turn(tuning_run *run) {
    const int rounds = run->timed[run->count - 1].seconds > slow ? SLOW_ROUNDS : ROUNDS;
    double warm = kn_clock() + warm_seconds, seconds;
    kn_status status = KN_OK;
    for (int i = 0; i < run->count && status == KN_OK; i++) {
        timed *one = &run->timed[i];
        one->times = kn_measurement_times(one->seconds, turn_seconds);
        report(run, KN_TUNER_EVENT_START, one->candidate, "");
        status = kn_measurement_open(&run->measure, one->candidate->variant, one->candidate->tile, INFINITY,
                                     &seconds, &one->session, &run->tuner->error);
    }
    while (status == KN_OK && kn_clock() < warm)
        for (int i = 0; i < run->count && status == KN_OK; i++)
            status = time_turn(run, &run->timed[i], &seconds);
    for (int round = 0; round < rounds && status == KN_OK; round++)
        for (int i = 0; i < run->count && status == KN_OK; i++)
            status = time_turn(run, &run->timed[i], &run->timed[i].rounds[round]);
    for (int i = 0; i < run->count; i++) {
        timed *one = &run->timed[i];
        kn_session_destroy(&one->session);
        if (status != KN_OK) continue;
        qsort(one->rounds, (size_t)rounds, sizeof *one->rounds, by_number);
        one->seconds = one->rounds[rounds / 2];
        if (is_untuned(run, one)) run->untuned = one->seconds;
    }
    return status;
}

/* Keeps the choice: the untuned kernel unless another gains enough. */
static kn_status keep_fastest(const tuning_run *run) {
    const timed *best = NULL, *untuned = NULL;
    for (int i = 0; i < run->count; i++) {
        const timed *one = &run->timed[i];
        if (is_untuned(run, one)) untuned = one;
        if (!best || one->seconds < best->seconds) best = one;
    }
    if (!best) return KN_OK;
    if (untuned && !(best->seconds * least_gain < untuned->seconds)) best = untuned;
    kn_tuned entry = {
        .end = KN_TUNED_MEASURED, .microseconds = 1e6 * best->seconds, .untuned = 1e6 * run->untuned};
    memcpy(entry.key, run->shape->key, strlen(run->shape->key) + 1);
    memcpy(entry.kernel, best->candidate->name, sizeof entry.kernel);
    kn_tuned_put(run->tuner->context, &entry);
    return KN_OK;
}

/* ---- a shape ------------------------------------------------------------------------------------------- */

KN_DEFINE_INIT(kn_tuner_params, KN_TUNER_DEFAULTS)

kn_status kn_tuner_run(kn_tuner *tuner, size_t position, const kn_tuner_params *params) {
    if (!tuner) return KN_ERROR_ARGUMENT;
    kn_tuner_params own;
    kn_tuner_params_init(&own);
    kn_status status = KN_PARAMS_TAKE(kn_tuner_params, &own, params, &tuner->error);
    kn_tuner_node *shape = kn_tuner_node_at(tuner, position);
    if (status != KN_OK) return status;
    if (!shape) return kn_fail(&tuner->error, KN_ERROR_NOT_FOUND, "the tuner has no shape %zu", position);
    if (kn_context_is_described(tuner->context) || kn_context_precompiles(tuner->context))
        return kn_fail(&tuner->error, KN_ERROR_UNSUPPORTED,
                       "kernels can only be timed on a device that is present");
    tuning_run *run = kn_allocate(&tuner->host, 1, sizeof *run);
    if (!run) return kn_fail_memory(&tuner->error, sizeof *run);
    *run = (tuning_run){.tuner = tuner, .shape = shape, .params = &own, .begin = kn_clock()};
    run->measure = (kn_measurement){
        .context = tuner->context, .node = shape->node, .kept = shape->kept, .fast = shape->fast};
    status = kn_measurement_make(&run->measure, &tuner->error);
    if (status == KN_OK) status = estimate_all(run);
    if (status == KN_OK) choose_finalists(run);
    if (status == KN_OK && run->count) status = time_is_over(run) ? fail_time(run) : time_in_turn(run);
    if (status == KN_OK) status = keep_fastest(run);
    kn_measurement_finish(&run->measure);
    kn_release(&tuner->host, run);
    return status;
}
