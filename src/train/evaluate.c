/* Evaluation of a model on a dataset. */
#include <math.h>

#include <koine/fit.h>

#include "train/trainer_private.h"

enum { LOSS, ACCURACY, MEASURES };

/* A mean over samples, or over the number that a session counts. */
typedef struct measure {
    const char *name;     /* of the value; NULL: not wanted */
    kn_session *counting; /* computes `count`, the divisor of the batch's mean; NULL: the number of samples */
    const char *count;
    const kn_graph *graph; /* the evaluated graph */
    double sum, counted;
} measure;

/* The mean of a batch, and its number of elements. */
typedef struct batch_mean {
    float mean, count;
} batch_mean;

/* An evaluation; with several workers, each computes some of the batches, and all get the results. */
typedef struct evaluation_run {
    kn_session *session;
    const kn_communicator *communicator; /* NULL: there are no other workers */
    measure measures[MEASURES];
    int measure_count;
    batch_mean (*found)[MEASURES]; /* by batch */
    uint64_t batches, samples, all;
    kn_evaluation_report report;
} evaluation_run;

static kn_status run_on(kn_session *session, const kn_batch *batch, const kn_fetch *fetches, size_t count) {
    kn_status status = kn_session_bind(session, "batch", (int64_t)batch->count);
    if (status == KN_OK || status == KN_ERROR_NOT_FOUND) /* all sizes may be fixed */
        status = kn_session_run(session, batch->feeds, batch->feed_count, fetches, count);
    return status;
}

/* Runs the counting session, which only has inputs of the evaluated graph. */
static kn_status count_batch(const evaluation_run *evaluating, const measure *own, const kn_batch *batch,
                             batch_mean *found) {
    const kn_host *host = kn_session_host(evaluating->session);
    const kn_fetch fetch = {own->count, &found->count, sizeof found->count};
    kn_feed *feeds = kn_allocate(host, batch->feed_count + 1, sizeof *feeds);
    kn_batch less = *batch;
    less.feeds = feeds;
    less.feed_count = 0;
    for (size_t i = 0; i < batch->feed_count && feeds; i++)
        if (kn_graph_find(own->graph, batch->feeds[i].name)) feeds[less.feed_count++] = batch->feeds[i];
    kn_status status = feeds ? run_on(own->counting, &less, &fetch, 1) : KN_ERROR_MEMORY;
    kn_release(host, feeds);
    if (status == KN_OK && found->count == 0) found->mean = 0; /* an empty mean */
    return status;
}

static kn_status evaluate_batch(evaluation_run *evaluating, const kn_batch *batch) {
    batch_mean *found = evaluating->found[batch->index];
    kn_fetch fetches[MEASURES];
    const kn_communicator *all = evaluating->communicator;
    if (all && batch->index % (uint64_t)all->ranks != (uint64_t)all->rank) return KN_OK;
    for (int m = 0; m < evaluating->measure_count; m++)
        fetches[m] = (kn_fetch){evaluating->measures[m].name, &found[m].mean, sizeof found[m].mean};
    kn_status status = run_on(evaluating->session, batch, fetches, (size_t)evaluating->measure_count);
    for (int m = 0; m < evaluating->measure_count && status == KN_OK; m++) {
        found[m].count = (float)batch->count;
        if (evaluating->measures[m].counting)
            status = count_batch(evaluating, &evaluating->measures[m], batch, &found[m]);
    }
    return status;
}

static kn_status evaluate_batches(evaluation_run *evaluating, kn_loader *loader) {
    kn_batch piece = {.size = sizeof piece};
    kn_status status = kn_loader_status(loader);
    while (status == KN_OK) {
        status = kn_loader_next(loader, &piece);
        if (status != KN_OK || !piece.count) break;
        evaluating->samples += piece.count;
        status = evaluate_batch(evaluating, &piece);
        if (status == KN_OK && evaluating->report.call)
            evaluating->report.call(evaluating->report.user, evaluating->samples, evaluating->all);
    }
    /* Results of other workers are 0 here, so their sum is complete. */
    if (status == KN_OK && evaluating->communicator)
        status = kn_all_reduce(evaluating->communicator, &evaluating->found[0][0].mean,
                               (size_t)evaluating->batches * sizeof *evaluating->found / sizeof(float));
    for (uint64_t i = 0; i < evaluating->batches && status == KN_OK; i++)
        for (int m = 0; m < evaluating->measure_count; m++) {
            const batch_mean *found = &evaluating->found[i][m];
            evaluating->measures[m].sum += (double)found->mean * (double)found->count;
            evaluating->measures[m].counted += (double)found->count;
        }
    return status;
}

static double mean_of(const evaluation_run *evaluating, int place) {
    const measure *own = &evaluating->measures[place];
    return evaluating->samples && own->name ? own->sum / own->counted : NAN;
}

kn_status kn_evaluate_among(const kn_communicator *communicator, kn_session *session,
                            const kn_dataset *dataset, uint64_t batch, const char *loss, const char *accuracy,
                            kn_evaluation_report report, kn_score *score) {
    if (!session) return KN_ERROR_MEMORY;
    if (!loss || !kn_has_size(score)) return KN_ERROR_ARGUMENT;
    kn_status status = kn_dataset_status(dataset);
    if (status != KN_OK) return status;
    double start = kn_clock();
    const kn_host *host = kn_session_host(session);
    kn_loader_params params = {.size = sizeof params, .batch = batch, .no_shuffle = true, .bytes = true};
    kn_loader *loader = kn_loader_create(dataset, &params);
    evaluation_run evaluating = {.session = session,
                                 .communicator = communicator,
                                 .measures = {{.name = loss}, {.name = accuracy}},
                                 .measure_count = accuracy ? MEASURES : ACCURACY,
                                 .batches = kn_loader_batches(loader),
                                 .all = kn_dataset_count(dataset),
                                 .report = report};
    evaluating.found = kn_allocate(host, (size_t)evaluating.batches + 1, sizeof *evaluating.found);
    if (!evaluating.found) status = KN_ERROR_MEMORY;
    for (int m = 0; m < evaluating.measure_count && status == KN_OK; m++) {
        measure *own = &evaluating.measures[m];
        status = kn_counts_evaluate(session, own->name, &own->counting, &own->count, &own->graph);
    }
    if (status == KN_OK) status = evaluate_batches(&evaluating, loader);
    for (int m = 0; m < evaluating.measure_count; m++)
        kn_session_destroy(&evaluating.measures[m].counting);
    kn_release(host, evaluating.found);
    kn_loader_destroy(&loader);
    if (status != KN_OK) return status;
    const kn_score found = {.size = sizeof found,
                            .loss = mean_of(&evaluating, LOSS),
                            .accuracy = mean_of(&evaluating, ACCURACY),
                            .samples = evaluating.samples,
                            .seconds = kn_clock() - start};
    return KN_RESULT_GIVE(kn_score, score, &found);
}

kn_status kn_evaluate(kn_session *session, const kn_dataset *dataset, uint64_t batch, const char *loss,
                      const char *accuracy, kn_score *score) {
    return kn_evaluate_among(NULL, session, dataset, batch, loss, accuracy, (kn_evaluation_report){0}, score);
}
