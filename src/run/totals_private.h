/* The members of the sums over the workers of a training (totals.c, totals_exchange.c). */
#ifndef KN_TOTALS_PRIVATE_H
#define KN_TOTALS_PRIVATE_H

#include "run/run_private.h"

/* A value that the workers add up or gather. */
typedef struct total_value {
    kn_shared_value about;
    int bucket;
    uint64_t *at; /* by rank: where its numbers of this value are in the bucket; spread to all: [0], of all */
    kn_event read[KN_MAX_SUBTREES]; /* of its sums, or this worker's part, into host memory */
    kn_event written;               /* of the result, by the last run */
} total_value;

/* Values that travel together: sums of which all get everything, sums of which each gets its part, or parts
 * that are gathered. The numbers of a bucket are those of rank 0, of rank 1 and so on; where all get
 * everything, each adds up an equal slice of them. */
typedef struct total_bucket {
    int first, count; /* values */
    bool parts;       /* each gets its part */
    kn_dtype dtype;   /* of its numbers */
    uint64_t elements;
    uint64_t *starts;     /* by rank, and the end: its numbers */
    uint64_t own, result; /* where it begins in the bytes of each */
    bool votes;           /* it ends with the votes */
} total_bucket;

struct kn_totals {
    kn_host host;
    const kn_communicator *communicator;
    kn_shards shards;
    int *sums_of;                        /* by rank: how many sums it gives */
    kn_subtree *subtrees;                /* of all ranks, in order */
    int sum_count, own_count, own_first; /* of all ranks; of this one; the position of its first */
    total_value *values;
    int value_count;
    total_bucket *buckets;
    int bucket_count;
    uint64_t *places; /* what `at` and `starts` point to */
    char *own;        /* (own sums, bytes of sums) */
    char *result;     /* (bytes) */
    char *incoming;   /* (sums of all ranks, bytes of the largest slice); those of this rank are unused */
    void **pointers;  /* by sum: its slice, while they are added */
    uint64_t own_bytes, result_bytes, slice_bytes;
    void **requests;
    int request_count;
    bool any_order;                                         /* sums by the communicator */
    bool sums, gathers;                                     /* what runs exchange */
    int done;                                               /* buckets of this run that are exchanged */
    float votes[KN_SESSION_VOTES], voted[KN_SESSION_VOTES]; /* of this worker; the last sums */
};

static inline bool kn_bucket_gathers(const kn_totals *totals, const total_bucket *bucket) {
    return totals->values[bucket->first].about.gathers;
}
/* The sums of a value that this worker shares, or its part of a gathered one. */
static inline int kn_total_shares(const kn_totals *totals, const total_value *value) {
    return value->about.gathers ? value->about.share != NULL : totals->own_count;
}
/* The elements of a value that a rank has, or gets; spread to all: each slice of none. */
static inline uint64_t kn_total_part(const kn_totals *totals, const total_value *value, int rank,
                                     uint64_t *first) {
    const int ranks = totals->shards.ranks, spread = value->about.sharing.spread;
    *first = kn_spread_first(spread, value->about.elements, ranks, rank);
    return kn_spread_first(spread, value->about.elements, ranks, rank + 1) - *first;
}
/* The bytes of some numbers of a bucket. */
static inline uint64_t kn_bucket_bytes(const total_bucket *bucket, uint64_t count) {
    return count * kn_dtype_bytes(bucket->dtype);
}
/* Adds numbers to those on the left; those of 16 bits are added in float32 and rounded to nearest even
 * (totals_add.c). */
void kn_totals_add(kn_dtype dtype, void *left, const void *right, uint64_t count);
/* Exchanges a bucket: afterwards `result` has what this worker gets. */
kn_status kn_totals_exchange(kn_totals *totals, kn_context *context, int number, kn_error *error);

#endif
