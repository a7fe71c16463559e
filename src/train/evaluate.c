/* Evaluation of a model on a dataset. */
#include <math.h>

#include <koine/fit.h>

#include "train/trainer_private.h"

enum { LOSS, ACCURACY, COUNT, FOUND };

/* An evaluation; with other workers each computes some of the batches, and all get the results. */
typedef struct judge_run {
    kn_session *session;
    const kn_communicator *communicator; /* NULL: there are no others */
    const char *loss, *accuracy;
    kn_session *counting; /* computes `count`, which the loss of a batch is divided by; NULL: its samples */
    const char *count;
    const kn_graph *graph; /* the judged one */
    float (*found)[FOUND]; /* of each batch */
    uint64_t batches;
    double loss_sum, counted, accuracy_sum;
    uint64_t samples;
} judge_run;

static kn_status run_on(kn_session *session, const kn_batch *batch, const kn_fetch *fetches, size_t count) {
    kn_status status = kn_session_bind(session, "batch", (int64_t)batch->count);
    if (status == KN_OK || status == KN_ERROR_NOT_FOUND) /* the sizes may be fixed */
        status = kn_session_run(session, batch->feeds, batch->feed_count, fetches, count);
    return status;
}

/* Runs the session that counts, which knows the inputs of the judged graph alone. */
static kn_status count_batch(judge_run *judging, const kn_batch *batch, float *number) {
    const kn_host *host = kn_session_host(judging->session);
    const kn_fetch fetch = {judging->count, number, sizeof *number};
    kn_feed *feeds = kn_allocate(host, batch->feed_count + 1, sizeof *feeds);
    kn_batch less = *batch;
    less.feeds = feeds;
    less.feed_count = 0;
    for (size_t i = 0; i < batch->feed_count && feeds; i++)
        if (kn_graph_find(judging->graph, batch->feeds[i].name)) feeds[less.feed_count++] = batch->feeds[i];
    kn_status status = feeds ? run_on(judging->counting, &less, &fetch, 1) : KN_ERROR_MEMORY;
    kn_release(host, feeds);
    return status;
}

static kn_status judge_batch(judge_run *judging, const kn_batch *batch) {
    float *found = judging->found[batch->index];
    const kn_fetch fetches[] = {{judging->loss, &found[LOSS], sizeof *found},
                                {judging->accuracy, &found[ACCURACY], sizeof *found}};
    const kn_communicator *all = judging->communicator;
    if (all && batch->index % (uint64_t)all->ranks != (uint64_t)all->rank) return KN_OK;
    kn_status status = run_on(judging->session, batch, fetches, judging->accuracy ? 2 : 1);
    found[COUNT] = (float)batch->count;
    if (status == KN_OK && judging->counting) status = count_batch(judging, batch, &found[COUNT]);
    /* The mean over nothing. */
    if (status == KN_OK && judging->counting && found[COUNT] == 0) found[LOSS] = 0;
    return status;
}

static kn_status judge_batches(judge_run *judging, kn_loader *loader, uint64_t size) {
    kn_batch piece = {.size = sizeof piece};
    kn_status status = kn_loader_status(loader);
    while (status == KN_OK) {
        status = kn_loader_next(loader, &piece);
        if (status != KN_OK || !piece.count) break;
        judging->samples += piece.count;
        status = judge_batch(judging, &piece);
    }
    /* What the others have found is 0 here. */
    if (status == KN_OK && judging->communicator)
        status = kn_all_reduce(judging->communicator, judging->found[0], (size_t)(FOUND * judging->batches));
    for (uint64_t i = 0, left = judging->samples; i < judging->batches && status == KN_OK; i++) {
        const uint64_t count = left < size ? left : size;
        const float *found = judging->found[i];
        judging->loss_sum += (double)found[LOSS] * (double)found[COUNT];
        judging->counted += (double)found[COUNT];
        judging->accuracy_sum += (double)found[ACCURACY] * (double)count;
        left -= count;
    }
    return status;
}

kn_status kn_evaluate_among(const kn_communicator *communicator, kn_session *session,
                            const kn_dataset *dataset, uint64_t batch, const char *loss, const char *accuracy,
                            kn_score *score) {
    if (!session) return KN_ERROR_MEMORY;
    if (!loss || !kn_has_size(score)) return KN_ERROR_ARGUMENT;
    kn_status status = kn_dataset_status(dataset);
    if (status != KN_OK) return status;
    double start = kn_clock();
    const kn_host *host = kn_session_host(session);
    kn_loader_params params = {.size = sizeof params, .batch = batch, .no_shuffle = true, .bytes = true};
    kn_loader *loader = kn_loader_create(dataset, &params);
    judge_run judging = {.session = session,
                         .communicator = communicator,
                         .loss = loss,
                         .accuracy = accuracy,
                         .batches = kn_loader_batches(loader)};
    judging.found = kn_allocate(host, (size_t)judging.batches + 1, sizeof *judging.found);
    status = judging.found ? kn_counts_judge(session, loss, &judging.counting, &judging.count, &judging.graph)
                           : KN_ERROR_MEMORY;
    if (status == KN_OK) status = judge_batches(&judging, loader, batch);
    kn_session_destroy(&judging.counting);
    kn_release(host, judging.found);
    kn_loader_destroy(&loader);
    if (status != KN_OK) return status;
    double samples = (double)judging.samples;
    const kn_score found = {.size = sizeof found,
                            .loss = judging.samples ? judging.loss_sum / judging.counted : NAN,
                            .accuracy = judging.samples && accuracy ? judging.accuracy_sum / samples : NAN,
                            .samples = judging.samples,
                            .seconds = kn_clock() - start};
    return KN_RESULT_GIVE(kn_score, score, &found);
}

kn_status kn_evaluate(kn_session *session, const kn_dataset *dataset, uint64_t batch, const char *loss,
                      const char *accuracy, kn_score *score) {
    return kn_evaluate_among(NULL, session, dataset, batch, loss, accuracy, score);
}
