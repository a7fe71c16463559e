/* Shards: the parts into which training splits each batch, independent of the number of workers that compute
 * them (shards.c). The number of shards is a power of two. Worker `rank` computes the shards from
 * firsts[rank] to firsts[rank + 1]
 * - 1, at least one, in order, and sums over all shards are added as a complete binary tree: so the bits of
 * a sum only depend on the number of shards. */
#ifndef KN_BASE_SHARDS_H
#define KN_BASE_SHARDS_H

enum { KN_MAX_SHARDS = 1024, KN_MAX_SUBTREES = 20 };
typedef struct kn_shards {
    int count, ranks, rank;
    int places; /* maximum number of sums on this rank's stack before one of its shards (kn_shard_place) */
    int firsts[KN_MAX_SHARDS + 1];
} kn_shards;

/* Assigns `count` shards to `ranks` workers; deal: how many each worker computes, NULL: as equally as
 * possible. */
kn_status kn_shards_deal(kn_shards *shards, int count, int ranks, int rank, const int *deal, kn_error *error);

/* The samples of a shard in a batch of `samples`: sets *first and returns the number. In a batch with fewer
 * samples than shards, each of the first shards has one sample; the remaining shards compute its last sample
 * with weight 0. */
uint64_t kn_shard_samples(int shards, int shard, uint64_t samples, uint64_t *first, double *weight);
/* The samples of the batch that the shards from `begin` to `end` - 1 need. */
uint64_t kn_shards_samples(int shards, int begin, int end, uint64_t samples, uint64_t *first);

/* A subtree: the sum of `count` shards, a power of two, starting at `first`, a multiple of `count`. */
typedef struct kn_subtree {
    int first, count;
} kn_subtree;
/* The fewest subtrees that make up shards `first` to `end` - 1, in order. Returns their number. */
int kn_subtrees(const kn_shards *shards, int first, int end, kn_subtree list[KN_MAX_SUBTREES]);
/* Whether the sum of `left` and the following `right` is a subtree, which *left becomes. */
bool kn_subtrees_merge(kn_subtree *left, const kn_subtree *right);

/* A worker adds up its shards on a stack of sums: the sum of shard `shard` is merged with the topmost sums,
 * from the last down to that in `place`, and then stored in `place`. */
typedef struct kn_shard_place {
    int place, merged; /* merged: number of merged sums */
} kn_shard_place;
kn_shard_place kn_shard_place_of(const kn_shards *shards, int shard);

/* How a value is distributed over the workers: each has all of it (KN_SPREAD_ALL), each has a slice of its
 * elements, or, from 0 on, only the worker of that rank has it. */
enum { KN_SPREAD_ALL = -1, KN_SPREAD_SLICES = -2 };
/* The first of `elements` that a rank has; for ranks that have all or slices, the end is the first of the
 * next rank. Not for KN_SPREAD_ALL. */
uint64_t kn_spread_first(int spread, uint64_t elements, int ranks, int rank);

#endif
