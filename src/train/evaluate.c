/* Evaluation of a model on a dataset. */
#include <math.h>

#include <koine/fit.h>

#include "train/trainer_private.h"

/* An evaluation; with other workers each computes some of the batches, and all get the results. */
typedef struct judge_run {
    kn_session *session;
    const kn_communicator *communicator; /* NULL: there are no others */
    const char *loss, *accuracy;
    float *means; /* (batches,2): loss and accuracy of each batch */
    uint64_t batches;
    double loss_sum, accuracy_sum;
    uint64_t samples;
} judge_run;

static kn_status judge_batch(judge_run *judging, const kn_batch *batch) {
    float *means = &judging->means[2 * batch->index];
    kn_fetch fetches[2] = {{judging->loss, &means[0], sizeof *means},
                           {judging->accuracy, &means[1], sizeof *means}};
    const kn_communicator *all = judging->communicator;
    if (all && batch->index % (uint64_t)all->ranks != (uint64_t)all->rank) return KN_OK;
    kn_status status = kn_session_bind(judging->session, "batch", (int64_t)batch->count);
    if (status == KN_OK || status == KN_ERROR_NOT_FOUND) /* the sizes may be fixed */
        status = kn_session_run(judging->session, batch->feeds, batch->feed_count, fetches,
                                judging->accuracy ? 2 : 1);
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
    /* The others' means are 0 here. */
    if (status == KN_OK && judging->communicator)
        status = kn_all_reduce(judging->communicator, judging->means, (size_t)(2 * judging->batches));
    for (uint64_t i = 0, left = judging->samples; i < judging->batches && status == KN_OK; i++) {
        const uint64_t count = left < size ? left : size;
        judging->loss_sum += judging->means[2 * i] * (double)count;
        judging->accuracy_sum += judging->means[2 * i + 1] * (double)count;
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
    judging.means = kn_allocate(host, (size_t)judging.batches + 1, 2 * sizeof *judging.means);
    status = judging.means ? judge_batches(&judging, loader, batch) : KN_ERROR_MEMORY;
    kn_release(host, judging.means);
    kn_loader_destroy(&loader);
    if (status != KN_OK) return status;
    double samples = (double)judging.samples;
    const kn_score found = {.size = sizeof found,
                            .loss = judging.samples ? judging.loss_sum / samples : NAN,
                            .accuracy = judging.samples && accuracy ? judging.accuracy_sum / samples : NAN,
                            .samples = judging.samples,
                            .seconds = kn_clock() - start};
    return KN_RESULT_GIVE(kn_score, score, &found);
}

kn_status kn_evaluate(kn_session *session, const kn_dataset *dataset, uint64_t batch, const char *loss,
                      const char *accuracy, kn_score *score) {
    return kn_evaluate_among(NULL, session, dataset, batch, loss, accuracy, score);
}
