/* How batches are split into shards, and in which order the sums of shards are added. */
#include "base/base.h"

kn_status kn_shards_deal(kn_shards *shards, int count, int ranks, int rank, const int *deal,
                         kn_error *error) {
    *shards = (kn_shards){.count = count, .ranks = ranks, .rank = rank};
    if (count < 1 || count > KN_MAX_SHARDS || (count & (count - 1)))
        return kn_fail(error, KN_ERROR_ARGUMENT, "%d shards; expected a power of two, at most %d", count,
                       KN_MAX_SHARDS);
    if (ranks < 1 || ranks > count)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "%d workers for %d shards; expected 1 to %d workers, or more shards", ranks, count,
                       count);
    if (rank < 0 || rank >= ranks)
        return kn_fail(error, KN_ERROR_ARGUMENT, "rank %d of %d workers; expected 0 to %d", rank, ranks,
                       ranks - 1);
    int dealt = 0;
    for (int r = 0; r < ranks; r++) {
        int own = deal ? deal[r] : count / ranks + (r < count % ranks);
        if (own < 1 || own > count - dealt)
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "worker %d is assigned %d shards; expected at least one, and %d for all workers",
                           r, own, count);
        dealt += own;
        shards->firsts[r + 1] = dealt;
    }
    if (dealt != count)
        return kn_fail(error, KN_ERROR_ARGUMENT, "%d shards are assigned to %d workers; expected %d", dealt,
                       ranks, count);
    for (int shard = shards->firsts[rank]; shard < shards->firsts[rank + 1]; shard++) {
        kn_subtree list[KN_MAX_SUBTREES];
        const int before = kn_subtrees(shards, shards->firsts[rank], shard, list);
        if (before > shards->places) shards->places = before;
    }
    return KN_OK;
}

/* The first sample of a shard if each shard has some, in ranges that differ by at most one sample. */
static uint64_t first_sample(int shards, int shard, uint64_t samples) {
    const uint64_t count = (uint64_t)shards, at = (uint64_t)shard, rest = samples % count;
    return samples / count * at + (at < rest ? at : rest);
}

uint64_t kn_shard_samples(int shards, int shard, uint64_t samples, uint64_t *first, double *weight) {
    const bool empty = (uint64_t)shard >= samples;
    *first = empty ? samples - 1 : first_sample(shards, shard, samples);
    const uint64_t own = empty ? 1 : first_sample(shards, shard + 1, samples) - *first;
    *weight = empty ? 0 : (double)own / (double)samples;
    return own;
}

uint64_t kn_shards_samples(int shards, int begin, int end, uint64_t samples, uint64_t *first) {
    uint64_t last;
    double weight;
    kn_shard_samples(shards, begin, samples, first, &weight);
    const uint64_t own = kn_shard_samples(shards, end - 1, samples, &last, &weight);
    return last + own - *first;
}

int kn_subtrees(const kn_shards *shards, int first, int end, kn_subtree list[KN_MAX_SUBTREES]) {
    int count = 0;
    while (first < end) {
        int size = first ? first & -first : shards->count;
        while (first + size > end)
            size /= 2;
        list[count++] = (kn_subtree){first, size};
        first += size;
    }
    return count;
}

bool kn_subtrees_merge(kn_subtree *left, const kn_subtree *right) {
    if (left->count != right->count || left->first % (2 * left->count)) return false;
    left->count *= 2;
    return true;
}

kn_shard_place kn_shard_place_of(const kn_shards *shards, int shard) {
    kn_subtree list[KN_MAX_SUBTREES];
    const int begin = shards->firsts[shards->rank];
    const int before = kn_subtrees(shards, begin, shard, list);
    const int after = kn_subtrees(shards, begin, shard + 1, list);
    return (kn_shard_place){.place = after - 1, .merged = before + 1 - after};
}

uint64_t kn_spread_first(int spread, uint64_t elements, int ranks, int rank) {
    if (spread != KN_SPREAD_SLICES) return rank > spread ? elements : 0;
    const uint64_t count = (uint64_t)ranks, at = (uint64_t)rank;
    return elements / count * at + elements % count * at / count;
}
