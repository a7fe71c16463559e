/* Data structures of sums over data-parallel workers (totals.c, totals_exchange.c). */
#ifndef KN_TOTALS_PRIVATE_H
#define KN_TOTALS_PRIVATE_H

#include "run/run_private.h"

/* A value that the workers add up or gather. */
typedef struct total_value {
    kn_shared_value about;
    int bucket;
    uint64_t
        *at; /* by rank: the offset of its elements of this value in the bucket; spread to all: only [0] */
    kn_event read[KN_MAX_SUBTREES]; /* of its sums, or this worker's shard, into host memory */
    kn_event written;               /* of the result, by the last run */
} total_value;

/* Values that are exchanged together: sums that all workers get in full, sums of which each gets its shard,
 * or shards that are gathered. A bucket contains the elements of rank 0, of rank 1 and so on; for sums that
 * all get in full, each worker adds up an equal slice. */
typedef struct total_bucket {
    int first, count; /* values */
    bool parts;       /* each worker gets its shard */
    kn_dtype dtype;   /* of its elements */
    uint64_t elements;
    uint64_t *starts;     /* by rank, and the end: its elements */
    uint64_t own, result; /* byte offsets in totals->own and totals->result */
    bool votes;           /* it ends with the votes */
} total_bucket;

struct kn_totals {
    kn_host host;
    const kn_communicator *communicator;
    kn_shards shards;
    int *sums_of;                        /* by rank: the number of its sums */
    kn_subtree *subtrees;                /* of all ranks, in order */
    int sum_count, own_count, own_first; /* of all ranks; of this rank; the index of this rank's first */
    total_value *values;
    int value_count;
    total_bucket *buckets;
    int bucket_count;
    uint64_t *places; /* memory of `at` and `starts` */
    char *own;        /* (own sums, bytes of sums) */
    char *result;     /* (bytes) */
    char *incoming;   /* (sums of all ranks, bytes of the largest slice); those of this rank are unused */
    void **pointers;  /* by sum: its slice, for adding up */
    uint64_t own_bytes, result_bytes, slice_bytes;
    void **requests;
    int request_count;
    bool any_order;                                         /* the communicator adds up */
    bool sums, gathers;                                     /* what runs exchange */
    int done;                                               /* exchanged buckets of this run */
    float votes[KN_SESSION_VOTES], voted[KN_SESSION_VOTES]; /* of this worker; the last sums */
};

static inline bool kn_bucket_gathers(const kn_totals *totals, const total_bucket *bucket) {
    return totals->values[bucket->first].about.gathers;
}
/* The number of sums of a value that this worker shares; 1 for its shard of a gathered value. */
static inline int kn_total_shares(const kn_totals *totals, const total_value *value) {
    return value->about.gathers ? value->about.share != NULL : totals->own_count;
}
/* The elements of a value that a rank has or gets; for a value spread to all, all elements. */
static inline uint64_t kn_total_part(const kn_totals *totals, const total_value *value, int rank,
                                     uint64_t *first) {
    const int ranks = totals->shards.ranks, spread = value->about.sharing.spread;
    *first = kn_spread_first(spread, value->about.elements, ranks, rank);
    return kn_spread_first(spread, value->about.elements, ranks, rank + 1) - *first;
}
/* The bytes of `count` elements of a bucket. */
static inline uint64_t kn_bucket_bytes(const total_bucket *bucket, uint64_t count) {
    return count * kn_dtype_bytes(bucket->dtype);
}
/* Adds elements to `left`; 16-bit types are added in float32 and rounded to nearest even (totals_add.c). */
void kn_totals_add(kn_dtype dtype, void *left, const void *right, uint64_t count);
/* Exchanges a bucket: afterwards `result` has this worker's results. */
kn_status kn_totals_exchange(kn_totals *totals, kn_context *context, int number, kn_error *error);

#endif
