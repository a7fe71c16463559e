/* A step in shards or parts of shards: the samples of a batch that a worker computes, its runs, and their
 * feeds. */
#include "train/trainer_private.h"

/* Number of samples of a batch that this worker's shards need. */
static uint64_t own_samples(const kn_shards *shards, uint64_t count, uint64_t *first) {
    *first = 0;
    if (!shards->count) return count;
    const int *firsts = shards->firsts + shards->rank;
    return kn_shards_samples(shards->count, firsts[0], firsts[1], count, first);
}

kn_status kn_trainer_local_samples(const kn_trainer *trainer, uint64_t count, uint64_t *first,
                                   uint64_t *own) {
    if (!trainer || !count || !first || !own) return KN_ERROR_ARGUMENT;
    *own = own_samples(&trainer->dealt, count, first);
    return KN_OK;
}

kn_status kn_cut_feeds(kn_trainer *trainer, uint64_t own, uint64_t first, uint64_t samples,
                       kn_feed_list *list) {
    if (!kn_reserve(&trainer->host, (void **)&trainer->feeds, &trainer->feed_capacity, list->count + 1,
                    sizeof *trainer->feeds))
        return kn_fail_memory(&trainer->error, list->count * sizeof *trainer->feeds);
    for (size_t i = 0; i < list->count; i++) {
        kn_feed *feed = &trainer->feeds[i];
        *feed = list->feeds[i];
        if (feed->bytes % own)
            return kn_fail(
                &trainer->error, KN_ERROR_SHAPE,
                "input '%s' has %zu bytes; for training in shards or parts, expected a multiple of the "
                "%llu samples that this worker computes",
                feed->name ? feed->name : "NULL", feed->bytes, (unsigned long long)own);
        const size_t each = feed->bytes / (size_t)own;
        if (feed->data) feed->data = (const char *)feed->data + (size_t)first * each;
        feed->bytes = (size_t)samples * each;
    }
    list->feeds = trainer->feeds;
    return KN_OK;
}

/* The run for the given shard and part of a batch of `count` samples. */
static kn_train_run run_of(const kn_trainer *trainer, uint64_t count, int shard, uint64_t part) {
    const kn_shards *shards = &trainer->shards;
    kn_train_run run = {.shard = shard, .part = part};
    const uint64_t all = kn_shard_samples(shards->count, shard, count, &run.first, &run.weight);
    const uint64_t most = trainer->params.micro_batch ? trainer->params.micro_batch : all;
    const uint64_t before = part * most;
    run.first += before;
    run.samples = all - before < most ? all - before : most;
    run.holds = before + run.samples < all;
    if (run.weight > 0) run.weight = (double)run.samples / (double)count;
    run.ratio = (double)count / (double)run.samples;
    run.more = run.holds || shard + 1 < shards->firsts[shards->rank + 1];
    return run;
}

kn_train_run kn_run_first(const kn_trainer *trainer, uint64_t count) {
    return run_of(trainer, count, trainer->shards.firsts[trainer->shards.rank], 0);
}

kn_train_run kn_run_next(const kn_trainer *trainer, uint64_t count, const kn_train_run *run) {
    return run->holds ? run_of(trainer, count, run->shard, run->part + 1)
                      : run_of(trainer, count, run->shard + 1, 0);
}

kn_status kn_run_feeds(kn_trainer *trainer, uint64_t count, const kn_train_run *run, kn_feed_list *list) {
    uint64_t begin;
    const uint64_t own = own_samples(&trainer->shards, count, &begin);
    return kn_cut_feeds(trainer, own, run->first - begin, run->samples, list);
}
