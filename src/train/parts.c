/* A step in shards: which samples of a batch a worker computes, and the feeds of each of its runs. */
#include "train/trainer_private.h"

/* The samples of a batch that this worker's shards need. */
static uint64_t own_samples(const kn_trainer *trainer, uint64_t count, uint64_t *first) {
    const kn_shards *shards = &trainer->shards;
    *first = 0;
    if (!shards->count) return count;
    const int *firsts = shards->firsts + shards->rank;
    return kn_shards_samples(shards->count, firsts[0], firsts[1], count, first);
}

kn_status kn_trainer_part(const kn_trainer *trainer, uint64_t count, uint64_t *first, uint64_t *own) {
    if (!trainer || !count || !first || !own) return KN_ERROR_ARGUMENT;
    *own = own_samples(trainer, count, first);
    return KN_OK;
}

/* Makes `list` the feeds of `samples` samples from `first` on, of the `own` that it has. */
static kn_status cut_feeds(kn_trainer *trainer, uint64_t own, uint64_t first, uint64_t samples,
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
                "the input '%s' of a training in shards has %zu bytes; expected a multiple of the %llu "
                "samples that this worker computes: each has a part of it",
                feed->name ? feed->name : "NULL", feed->bytes, (unsigned long long)own);
        const size_t each = feed->bytes / (size_t)own;
        if (feed->data) feed->data = (const char *)feed->data + (size_t)first * each;
        feed->bytes = (size_t)samples * each;
    }
    list->feeds = trainer->feeds;
    return KN_OK;
}

kn_status kn_part_of_shard(kn_trainer *trainer, uint64_t count, int shard, kn_feed_list *list,
                           kn_train_run *run) {
    const kn_shards *shards = &trainer->shards;
    uint64_t begin, first;
    const uint64_t own = own_samples(trainer, count, &begin);
    run->samples = kn_shard_samples(shards->count, shard, count, &first, &run->weight);
    run->ratio = (double)count / (double)run->samples;
    run->more = shard + 1 < shards->firsts[shards->rank + 1];
    return cut_feeds(trainer, own, first - begin, run->samples, list);
}
