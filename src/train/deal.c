/* The shards of each worker: how many a batch has, and how devices of different speed share them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/trainer_private.h"

enum { USUAL_SHARDS = 16, TIMED_STEPS = 3 };

int kn_shard_count(int workers, bool equal, uint64_t batch) {
    const bool power = workers > 0 && !(workers & (workers - 1));
    int shards = power && equal ? workers : USUAL_SHARDS;
    while (shards < workers && shards < KN_MAX_SHARDS)
        shards *= 2;
    while (shards > 1 && (uint64_t)shards > batch)
        shards /= 2;
    return shards;
}

kn_status kn_deal_shards(const double *seconds, int workers, int shards, int *counts) {
    if (!seconds || !counts || workers < 1 || shards < 1 || shards > KN_MAX_SHARDS) return KN_ERROR_ARGUMENT;
    memset(counts, 0, (size_t)workers * sizeof *counts);
    counts[0] = 1;
    for (int dealt = 1; dealt < shards; dealt++) {
        int next = 0;
        for (int i = 1; i < workers; i++)
            if ((counts[i] + 1) * seconds[i] < (counts[next] + 1) * seconds[next]) next = i;
        counts[next]++;
    }
    return KN_OK;
}

/* The shortest of a few steps, after the first, which compiles. */
static kn_status time_steps(kn_trainer *trainer, kn_loader *loader, double *seconds, kn_error *error) {
    kn_batch one = KN_BATCH_DEFAULTS;
    double loss, least = INFINITY;
    kn_status status = kn_trainer_status(trainer);
    if (status == KN_OK && (status = kn_loader_next(loader, &one)) != KN_OK)
        return kn_fail(error, status, "%s", kn_loader_error(loader));
    for (int i = 0; i <= TIMED_STEPS && status == KN_OK; i++) {
        const double begin = kn_clock();
        status = kn_trainer_step(trainer, (int64_t)one.count, one.feeds, one.feed_count, &loss);
        if (i) least = fmin(least, kn_clock() - begin);
    }
    if (status != KN_OK)
        return kn_fail(error, status, "%s", trainer ? kn_trainer_error(trainer) : "out of host memory");
    *seconds = least;
    return KN_OK;
}

kn_status kn_shard_seconds(kn_context *context, kn_value *loss, const kn_trainer_params *params,
                           const kn_dataset *dataset, const kn_loader_params *batches, double *seconds,
                           char *message, size_t size) {
    kn_trainer_params single = KN_TRAINER_DEFAULTS;
    kn_loader_params shard = KN_LOADER_DEFAULTS;
    kn_error error = {.status = KN_OK};
    if (!seconds) return KN_ERROR_ARGUMENT;
    *seconds = INFINITY;
    if (KN_PARAMS_TAKE(kn_trainer_params, &single, params, &error) == KN_OK &&
        KN_PARAMS_TAKE(kn_loader_params, &shard, batches, &error) == KN_OK) {
        const uint64_t shards = single.shards > 0 ? (uint64_t)single.shards : 1;
        const uint64_t samples = kn_dataset_count(dataset);
        const uint64_t batch = shard.batch < samples ? shard.batch : samples;
        single.communicator = NULL;
        single.shards = 1;
        single.shard_counts = NULL;
        single.sync_every = 0;
        shard.batch = (batch + shards - 1) / shards;
        kn_trainer *trainer = kn_trainer_create(context, loss, &single);
        kn_loader *loader = kn_loader_create(dataset, &shard);
        time_steps(trainer, loader, seconds, &error);
        kn_loader_destroy(&loader);
        kn_trainer_destroy(&trainer);
    }
    if (message) snprintf(message, size, "%s", error.text);
    return error.status;
}
