/* Shards: the parts into which a training cuts each batch, however many workers compute them (shards.c). The
 * number of shards is a power of two. Worker `rank` computes the shards from firsts[rank] to firsts[rank + 1]
 * - 1, at least one, in their order, and sums of all shards are added as a complete binary tree over them: so
 * the bits of a sum depend on the number of shards alone. */
#ifndef KN_BASE_SHARDS_H
#define KN_BASE_SHARDS_H

enum { KN_MAX_SHARDS = 1024, KN_MAX_SUBTREES = 20 };
typedef struct kn_shards {
    int count, ranks, rank;
    int places; /* the most sums on this rank's stack before one of its shards (kn_shard_place) */
    int firsts[KN_MAX_SHARDS + 1];
} kn_shards;

/* `count` shards dealt to `ranks` workers; deal: how many each computes, NULL: as equally as possible. */
kn_status kn_shards_deal(kn_shards *shards, int count, int ranks, int rank, const int *deal, kn_error *error);

/* The samples of a shard in a batch of `samples`: *first and how many. A batch of fewer samples than shards
 * has a sample in each of the first; the others are computed on its last sample, with weight 0. */
uint64_t kn_shard_samples(int shards, int shard, uint64_t samples, uint64_t *first, double *weight);
/* The samples that the shards from `begin` to `end` - 1 need of it. */
uint64_t kn_shards_samples(int shards, int begin, int end, uint64_t samples, uint64_t *first);

/* A subtree of the tree: the sum of `count` shards, a power of two, from `first`, a multiple of it. */
typedef struct kn_subtree {
    int first, count;
} kn_subtree;
/* The sums in which shards `first` to `end` - 1 go into the tree, in order: the fewest subtrees that they
 * consist of. Returns how many. */
int kn_subtrees(const kn_shards *shards, int first, int end, kn_subtree list[KN_MAX_SUBTREES]);
/* Whether the sum of `left` and `right`, which follows it, is a subtree, which *left becomes. */
bool kn_subtrees_merge(kn_subtree *left, const kn_subtree *right);

/* A worker adds up its shards on a stack of sums: the sum of shard `shard` is first merged with the topmost
 * ones, those of the places from `place` on, the last first, and then put in that place. */
typedef struct kn_shard_place {
    int place, merged; /* merged: how many */
} kn_shard_place;
kn_shard_place kn_shard_place_of(const kn_shards *shards, int shard);

/* How a value is spread over the workers: each has all of it, each has a slice of its elements, or, from 0
 * on, the worker of that rank has all of it and the others nothing. */
enum { KN_SPREAD_ALL = -1, KN_SPREAD_SLICES = -2 };
/* The first of `elements` that a rank has; for ranks that have all or slices, the end is the first of the
 * next rank. Not for KN_SPREAD_ALL. */
uint64_t kn_spread_first(int spread, uint64_t elements, int ranks, int rank);

#endif
