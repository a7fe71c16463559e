/* Exchanges of sums and shards between data-parallel workers, through their communicator. */
#include <string.h>

#include "run/totals_private.h"

enum { TAGS = 2 };
enum { TAG_SUM, TAG_RESULT };

static kn_status send(kn_totals *totals, int rank, int tag, const void *numbers, uint64_t bytes,
                      kn_error *error) {
    const kn_communicator *own = totals->communicator;
    if (!bytes) return KN_OK;
    void **request = &totals->requests[totals->request_count++];
    return kn_communicator_fail(own, own->send(own->user, rank, tag, numbers, (size_t)bytes, request), error);
}

static kn_status receive(kn_totals *totals, int rank, int tag, void *numbers, uint64_t bytes,
                         kn_error *error) {
    const kn_communicator *own = totals->communicator;
    if (!bytes) return KN_OK;
    void **request = &totals->requests[totals->request_count++];
    return kn_communicator_fail(own, own->receive(own->user, rank, tag, numbers, (size_t)bytes, request),
                                error);
}

static kn_status wait(kn_totals *totals, kn_status status, kn_error *error) {
    status =
        kn_communicator_wait(totals->communicator, totals->requests, totals->request_count, status, error);
    totals->request_count = 0;
    return status;
}

static int tag_of(int bucket, int kind) {
    return bucket % (KN_COMMUNICATOR_TAGS / TAGS) * TAGS + kind;
}

/* The bytes of a bucket in a rank's slice. */
static uint64_t slice_of(const total_bucket *bucket, int rank, uint64_t *first) {
    *first = kn_bucket_bytes(bucket, bucket->starts[rank]);
    return kn_bucket_bytes(bucket, bucket->starts[rank + 1]) - *first;
}

/* One of this worker's sums of a bucket. */
static char *own_sum(const kn_totals *totals, const total_bucket *bucket, int sum) {
    return totals->own + (size_t)sum * (size_t)totals->own_bytes + bucket->own;
}

/* Sends the other workers their slices of this worker's sums, and receives this worker's slice of theirs. */
static kn_status exchange_sums(kn_totals *totals, int number, kn_error *error) {
    const total_bucket *bucket = &totals->buckets[number];
    const int me = totals->shards.rank, tag = tag_of(number, TAG_SUM);
    uint64_t first, mine = slice_of(bucket, me, &first);
    kn_status status = KN_OK;
    for (int r = 0, sum = 0; r < totals->shards.ranks; r++)
        for (int i = 0; i < totals->sums_of[r] && status == KN_OK; i++, sum++) {
            char *numbers = totals->incoming + (size_t)sum * (size_t)totals->slice_bytes;
            if (r == me)
                numbers = own_sum(totals, bucket, i) + first;
            else
                status = receive(totals, r, tag, numbers, mine, error);
            totals->pointers[sum] = numbers;
        }
    for (int r = 0; r < totals->shards.ranks; r++)
        for (int i = 0; i < totals->own_count && r != me && status == KN_OK; i++) {
            const uint64_t count = slice_of(bucket, r, &first);
            status = send(totals, r, tag, own_sum(totals, bucket, i) + first, count, error);
        }
    return wait(totals, status, error);
}

/* Adds the sums of all workers into the first one, in the order of the tree. */
static void add_up(kn_totals *totals, kn_dtype dtype, uint64_t count) {
    kn_subtree stack[2 * KN_MAX_SUBTREES];
    void *numbers[2 * KN_MAX_SUBTREES];
    int height = 0;
    for (int sum = 0; sum < totals->sum_count; sum++) {
        stack[height] = totals->subtrees[sum];
        numbers[height++] = totals->pointers[sum];
        while (height > 1 && kn_subtrees_merge(&stack[height - 2], &stack[height - 1])) {
            kn_totals_add(dtype, numbers[height - 2], numbers[height - 1], count);
            height--;
        }
    }
}

static kn_status exchange_results(kn_totals *totals, int number, kn_error *error) {
    const total_bucket *bucket = &totals->buckets[number];
    const int me = totals->shards.rank, tag = tag_of(number, TAG_RESULT);
    char *numbers = totals->result + bucket->result;
    uint64_t first, mine, own = slice_of(bucket, me, &mine);
    kn_status status = KN_OK;
    for (int r = 0; r < totals->shards.ranks && status == KN_OK; r++) {
        if (r == me) continue;
        const uint64_t count = slice_of(bucket, r, &first);
        status = receive(totals, r, tag, numbers + first, count, error);
        if (status == KN_OK) status = send(totals, r, tag, numbers + mine, own, error);
    }
    return wait(totals, status, error);
}

/* Sums a bucket using the communicator, in any order. */
static kn_status sum_in_any_order(kn_totals *totals, const total_bucket *bucket, kn_error *error) {
    const kn_communicator *all = totals->communicator;
    char *sum = own_sum(totals, bucket, 0);
    for (int i = 1; i < totals->own_count; i++)
        kn_totals_add(bucket->dtype, sum, own_sum(totals, bucket, i), bucket->elements);
    kn_status status =
        kn_communicator_fail(all, all->sum(all->user, (float *)(void *)sum, (size_t)bucket->elements), error);
    if (status != KN_OK) return status;
    uint64_t first = 0, bytes = kn_bucket_bytes(bucket, bucket->elements);
    if (bucket->parts) bytes = slice_of(bucket, totals->shards.rank, &first);
    memcpy(totals->result + bucket->result, sum + first, (size_t)bytes);
    return KN_OK;
}

/* Waits until this worker's shared values are in host memory, and the last run no longer needs the
 * results. */
static kn_status wait_for_device(kn_totals *totals, kn_context *context, const total_bucket *bucket,
                                 kn_error *error) {
    kn_status status = KN_OK;
    for (int v = bucket->first; v < bucket->first + bucket->count; v++) {
        total_value *value = &totals->values[v];
        const kn_shape *shared =
            value->about.share ? &value->about.share->inputs[0]->shape : &(kn_shape){.rank = 1};
        for (int i = 0; i < kn_total_shares(totals, value); i++) {
            if (kn_shape_elements(shared) && !value->read[i].handle)
                return kn_fail(error, KN_ERROR_INTERNAL, "a sum is needed before its parts are shared");
            if (status == KN_OK) status = kn_event_wait(context, value->read[i], error);
            kn_event_release(&value->read[i]);
        }
        if (status == KN_OK) status = kn_event_wait(context, value->written, error);
        kn_event_release(&value->written);
    }
    return status;
}

/* The offset of the votes, after the other elements of their bucket. */
static uint64_t before_votes(const total_bucket *bucket) {
    return kn_bucket_bytes(bucket, bucket->elements - KN_SESSION_VOTES);
}

/* The votes are in the first of this worker's sums. */
static void put_votes(kn_totals *totals, const total_bucket *bucket) {
    static const float none[KN_SESSION_VOTES];
    for (int i = 0; i < totals->own_count; i++)
        memcpy(own_sum(totals, bucket, i) + before_votes(bucket), i ? none : totals->votes, sizeof none);
}

static kn_status exchange(kn_totals *totals, int number, kn_error *error) {
    const total_bucket *bucket = &totals->buckets[number];
    if (kn_bucket_gathers(totals, bucket)) return exchange_results(totals, number, error);
    if (totals->any_order) return sum_in_any_order(totals, bucket, error);
    kn_status status = exchange_sums(totals, number, error);
    if (status != KN_OK) return status;
    uint64_t first, own = slice_of(bucket, totals->shards.rank, &first);
    add_up(totals, bucket->dtype, own / kn_bucket_bytes(bucket, 1));
    char *result = totals->result + bucket->result + (bucket->parts ? 0 : first);
    if (own) memcpy(result, totals->pointers[0], (size_t)own);
    return bucket->parts ? KN_OK : exchange_results(totals, number, error);
}

kn_status kn_totals_exchange(kn_totals *totals, kn_context *context, int number, kn_error *error) {
    const total_bucket *bucket = &totals->buckets[number];
    kn_status status = wait_for_device(totals, context, bucket, error);
    if (status == KN_OK && bucket->votes) put_votes(totals, bucket);
    if (status == KN_OK) status = exchange(totals, number, error);
    if (status == KN_OK && bucket->votes)
        memcpy(totals->voted, totals->result + bucket->result + before_votes(bucket), sizeof totals->voted);
    return status;
}
