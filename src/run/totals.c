/* Sums over the workers of a training. The values that a plan shares go to host memory while the device
 * computes on, in the order of their total steps, several as one bucket. At the first total step of a bucket
 * the host waits for its values and exchanges them: of the numbers of a bucket each worker owns a slice, gets
 * what the others have of it, adds all in the order of the tree (kn_shards), and gives the result to the
 * others. So each number crosses a link twice, however many workers there are. */
#include <string.h>

#include "run/run_private.h"

enum { BUCKET_BYTES = 4 << 20, TAGS = 2 };
enum { TAG_SUM, TAG_RESULT };

typedef struct total_value {
    uint64_t elements, offset; /* offset: in the numbers of all values */
    int bucket;
    kn_event read[KN_MAX_SUBTREES]; /* of its sums into host memory */
    kn_event written;               /* of the result, by the last run */
} total_value;

typedef struct total_bucket {
    int first, count; /* values */
    uint64_t offset, elements;
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
    float *own;       /* (own sums, numbers) */
    float *result;    /* (numbers) */
    float *incoming;  /* (sums of all ranks, numbers of the largest slice); those of this rank are unused */
    float **pointers; /* by sum: its slice, while they are added */
    uint64_t elements, slice;
    void **requests;
    int request_count;
    bool active;
    int done; /* buckets of this run that are exchanged */
};

/* ---- making ------------------------------------------------------------------------------------------- */

kn_status kn_totals_create(const kn_host *host, const kn_communicator *communicator, const kn_shards *shards,
                           kn_totals **result, kn_error *error) {
    kn_totals *totals = *result = kn_allocate(host, 1, sizeof *totals);
    if (!totals) return kn_fail_memory(error, sizeof *totals);
    totals->host = *host;
    totals->communicator = communicator;
    totals->shards = *shards;
    const size_t ranks = (size_t)shards->ranks;
    totals->sums_of = kn_allocate(host, ranks, sizeof *totals->sums_of);
    totals->subtrees = kn_allocate(host, ranks * KN_MAX_SUBTREES, sizeof *totals->subtrees);
    if (!totals->sums_of || !totals->subtrees)
        return kn_fail_memory(error, ranks * KN_MAX_SUBTREES * sizeof *totals->subtrees);
    for (int r = 0; r < shards->ranks; r++) {
        if (r == shards->rank) totals->own_first = totals->sum_count;
        totals->sums_of[r] = kn_subtrees(shards, shards->firsts[r], shards->firsts[r + 1],
                                         totals->subtrees + totals->sum_count);
        totals->sum_count += totals->sums_of[r];
    }
    totals->own_count = totals->sums_of[shards->rank];
    return KN_OK;
}

void kn_totals_destroy(kn_totals **handle) {
    kn_totals *totals = *handle;
    if (!totals) return;
    kn_host host = totals->host;
    for (int v = 0; v < totals->value_count; v++) {
        for (int i = 0; i < totals->own_count; i++)
            kn_event_release(&totals->values[v].read[i]);
        kn_event_release(&totals->values[v].written);
    }
    kn_release(&host, totals->sums_of);
    kn_release(&host, totals->subtrees);
    kn_release(&host, totals->values);
    kn_release(&host, totals->buckets);
    kn_release(&host, totals->own);
    kn_release(&host, totals->result);
    kn_release(&host, totals->incoming);
    kn_release(&host, totals->pointers);
    kn_release(&host, totals->requests);
    kn_release(&host, totals);
    *handle = NULL;
}

/* The numbers of a bucket that a rank owns. */
static uint64_t slice_of(const kn_totals *totals, const total_bucket *bucket, int rank, uint64_t *offset) {
    const uint64_t ranks = (uint64_t)totals->shards.ranks, at = (uint64_t)rank;
    const uint64_t first = bucket->elements * at / ranks, end = bucket->elements * (at + 1) / ranks;
    *offset = bucket->offset + first;
    return end - first;
}

static kn_status take_memory(kn_totals *totals, kn_error *error) {
    const kn_host *host = &totals->host;
    const size_t others = (size_t)totals->shards.ranks - 1, sums = (size_t)totals->sum_count;
    uint64_t offset;
    for (int b = 0; b < totals->bucket_count; b++)
        for (int r = 0; r < totals->shards.ranks; r++) {
            const uint64_t slice = slice_of(totals, &totals->buckets[b], r, &offset);
            if (slice > totals->slice) totals->slice = slice;
        }
    const uint64_t numbers =
        totals->elements * ((uint64_t)totals->own_count + 1) + totals->slice * (uint64_t)sums;
    if (numbers > SIZE_MAX / sizeof(float)) return kn_fail_memory(error, SIZE_MAX);
    totals->own = kn_allocate(host, (size_t)totals->elements * (size_t)totals->own_count, sizeof(float));
    totals->result = kn_allocate(host, (size_t)totals->elements, sizeof(float));
    totals->incoming = kn_allocate(host, (size_t)totals->slice * sums, sizeof(float));
    totals->pointers = kn_allocate(host, sums, sizeof *totals->pointers);
    /* Each sum to each other rank and from it, and each result. */
    totals->requests = kn_allocate(host, others * (size_t)totals->own_count + sums + 2 * others + 1,
                                   sizeof *totals->requests);
    return totals->own && totals->result && totals->incoming && totals->pointers && totals->requests
               ? KN_OK
               : kn_fail_memory(error, (size_t)numbers * sizeof(float));
}

static void add_value(kn_totals *totals, uint64_t bytes) {
    total_bucket *bucket = totals->bucket_count ? &totals->buckets[totals->bucket_count - 1] : NULL;
    if (!bucket || bucket->elements * sizeof(float) >= BUCKET_BYTES) {
        bucket = &totals->buckets[totals->bucket_count++];
        *bucket = (total_bucket){.first = totals->value_count, .offset = totals->elements};
    }
    totals->values[totals->value_count++] = (total_value){
        .elements = bytes / sizeof(float), .offset = totals->elements, .bucket = totals->bucket_count - 1};
    bucket->count++;
    bucket->elements += bytes / sizeof(float);
    totals->elements += bytes / sizeof(float);
}

/* The values that a plan adds up are those of the session's first plan: sizes of batches do not matter. */
static kn_status find_values(kn_totals *totals, kn_executable *executable, int *value_of, kn_error *error) {
    const bool first = !totals->values;
    const size_t steps = (size_t)executable->plan.step_count;
    int count = 0;
    bool same = true;
    if (first) {
        totals->values = kn_allocate(&totals->host, steps + 1, sizeof *totals->values);
        totals->buckets = kn_allocate(&totals->host, steps + 1, sizeof *totals->buckets);
        if (!totals->values || !totals->buckets) return kn_fail_memory(error, steps * sizeof *totals->values);
    }
    for (size_t s = 0; s < steps && same; s++) {
        const kn_ready_step *ready = &executable->steps[s];
        if (ready->step->kind != KN_STEP_TOTAL) continue;
        if (first) add_value(totals, ready->bytes);
        same = count < totals->value_count && totals->values[count].elements * sizeof(float) == ready->bytes;
        executable->total_of[s] = count;
        value_of[ready->step->node->inputs[0]->producer->id] = count++;
    }
    if (!same || count != totals->value_count)
        return kn_fail(error, KN_ERROR_INTERNAL, "two plans of a session share different values");
    return first ? take_memory(totals, error) : KN_OK;
}

kn_status kn_totals_prepare(kn_totals *totals, kn_executable *executable, kn_error *error) {
    const size_t nodes = executable->graph->node_count;
    int *value_of = kn_allocate(&executable->host, nodes + 1, sizeof *value_of);
    executable->totals = totals;
    executable->total_of =
        kn_arena_take(&executable->arena, (size_t)executable->plan.step_count, sizeof(int));
    kn_status status = value_of && executable->total_of ? find_values(totals, executable, value_of, error)
                                                        : kn_fail_memory(error, nodes * sizeof *value_of);
    for (int s = 0; s < executable->plan.step_count && status == KN_OK; s++) {
        const kn_step *step = executable->steps[s].step;
        if (step->kind == KN_STEP_SHARE) executable->total_of[s] = value_of[step->node->id];
    }
    kn_release(&executable->host, value_of);
    return status;
}

void kn_totals_begin(kn_totals *totals) {
    totals->done = 0;
}

void kn_totals_activate(kn_totals *totals, bool active) {
    totals->active = active;
}

/* ---- exchanging --------------------------------------------------------------------------------------- */

static kn_status check(const kn_totals *totals, kn_status status, kn_error *error) {
    const kn_communicator *own = totals->communicator;
    return status == KN_OK ? KN_OK : kn_fail(error, status, "%s", own->error(own->user));
}

static kn_status send(kn_totals *totals, int rank, int tag, const float *numbers, uint64_t count,
                      kn_error *error) {
    const kn_communicator *own = totals->communicator;
    if (!count) return KN_OK;
    void **request = &totals->requests[totals->request_count++];
    return check(totals, own->send(own->user, rank, tag, numbers, (size_t)count * sizeof *numbers, request),
                 error);
}

static kn_status receive(kn_totals *totals, int rank, int tag, float *numbers, uint64_t count,
                         kn_error *error) {
    const kn_communicator *own = totals->communicator;
    if (!count) return KN_OK;
    void **request = &totals->requests[totals->request_count++];
    return check(
        totals, own->receive(own->user, rank, tag, numbers, (size_t)count * sizeof *numbers, request), error);
}

/* Waits for all requests, also after a failure: they use this memory. */
static kn_status wait(kn_totals *totals, kn_status status, kn_error *error) {
    const kn_communicator *own = totals->communicator;
    for (int i = 0; i < totals->request_count; i++) {
        kn_status each = own->wait(own->user, &totals->requests[i]);
        if (status == KN_OK) status = check(totals, each, error);
    }
    totals->request_count = 0;
    return status;
}

static int tag_of(int bucket, int kind) {
    return bucket % (KN_TAGS / TAGS) * TAGS + kind;
}

/* Gives the others their slices of this worker's sums, and gets theirs of this worker's slice. */
static kn_status exchange_sums(kn_totals *totals, int number, kn_error *error) {
    const total_bucket *bucket = &totals->buckets[number];
    const int me = totals->shards.rank, tag = tag_of(number, TAG_SUM);
    uint64_t offset, mine = slice_of(totals, bucket, me, &offset);
    kn_status status = KN_OK;
    for (int r = 0, sum = 0; r < totals->shards.ranks; r++)
        for (int i = 0; i < totals->sums_of[r] && status == KN_OK; i++, sum++) {
            float *numbers = totals->incoming + (size_t)sum * (size_t)totals->slice;
            if (r == me)
                numbers = totals->own + (size_t)i * (size_t)totals->elements + offset;
            else
                status = receive(totals, r, tag, numbers, mine, error);
            totals->pointers[sum] = numbers;
        }
    for (int r = 0; r < totals->shards.ranks; r++)
        for (int i = 0; i < totals->own_count && r != me && status == KN_OK; i++) {
            const uint64_t count = slice_of(totals, bucket, r, &offset);
            status = send(totals, r, tag, totals->own + (size_t)i * (size_t)totals->elements + offset, count,
                          error);
        }
    return wait(totals, status, error);
}

static void add(float *restrict left, const float *restrict right, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        left[i] += right[i];
}

/* Adds the sums of all workers, in the order of the tree, into the first one. */
static void add_up(kn_totals *totals, uint64_t count) {
    kn_subtree stack[2 * KN_MAX_SUBTREES];
    float *numbers[2 * KN_MAX_SUBTREES];
    int height = 0;
    for (int sum = 0; sum < totals->sum_count; sum++) {
        stack[height] = totals->subtrees[sum];
        numbers[height++] = totals->pointers[sum];
        while (height > 1 && kn_subtrees_merge(&stack[height - 2], &stack[height - 1])) {
            add(numbers[height - 2], numbers[height - 1], count);
            height--;
        }
    }
}

static kn_status exchange_results(kn_totals *totals, int number, kn_error *error) {
    const total_bucket *bucket = &totals->buckets[number];
    const int me = totals->shards.rank, tag = tag_of(number, TAG_RESULT);
    uint64_t offset, own_offset, own = slice_of(totals, bucket, me, &own_offset);
    kn_status status = KN_OK;
    for (int r = 0; r < totals->shards.ranks && status == KN_OK; r++) {
        if (r == me) continue;
        const uint64_t count = slice_of(totals, bucket, r, &offset);
        status = receive(totals, r, tag, totals->result + offset, count, error);
        if (status == KN_OK) status = send(totals, r, tag, totals->result + own_offset, own, error);
    }
    return wait(totals, status, error);
}

static kn_status exchange(kn_totals *totals, kn_context *context, int number, kn_error *error) {
    const total_bucket *bucket = &totals->buckets[number];
    kn_status status = KN_OK;
    for (int v = bucket->first; v < bucket->first + bucket->count; v++) {
        total_value *value = &totals->values[v];
        for (int i = 0; i < totals->own_count; i++) {
            if (value->elements && !value->read[i].handle)
                return kn_fail(error, KN_ERROR_INTERNAL, "a sum is needed before its parts are shared");
            if (status == KN_OK) status = kn_event_wait(context, value->read[i], error);
            kn_event_release(&value->read[i]);
        }
        if (status == KN_OK) status = kn_event_wait(context, value->written, error);
        kn_event_release(&value->written);
    }
    if (status == KN_OK) status = exchange_sums(totals, number, error);
    if (status != KN_OK) return status;
    uint64_t offset, own = slice_of(totals, bucket, totals->shards.rank, &offset);
    add_up(totals, own);
    if (own) memcpy(totals->result + offset, totals->pointers[0], (size_t)own * sizeof(float));
    return exchange_results(totals, number, error);
}

/* ---- steps -------------------------------------------------------------------------------------------- */

kn_status kn_total_share(const kn_executable *executable, const kn_memory *memory, int step,
                         kn_error *error) {
    kn_totals *totals = executable->totals;
    const kn_ready_step *ready = &executable->steps[step];
    if (!totals || !totals->active || !ready->bytes) return KN_OK;
    total_value *value = &totals->values[executable->total_of[step]];
    const kn_node *node = ready->step->node;
    int sum = 0;
    while (sum + 1 < node->input_count && node->inputs[sum] != ready->source)
        sum++;
    kn_event_release(&value->read[sum]);
    return kn_queue_read(executable->context, KN_QUEUE_COMPUTE,
                         kn_executable_buffer(executable, memory, ready->source), 0,
                         totals->own + (size_t)sum * (size_t)totals->elements + value->offset, ready->bytes,
                         false, (kn_event){NULL}, &value->read[sum], error);
}

kn_status kn_total_take(const kn_executable *executable, const kn_memory *memory, int step, kn_error *error) {
    kn_totals *totals = executable->totals;
    const kn_ready_step *ready = &executable->steps[step];
    if (!totals || !totals->active || !ready->bytes) return KN_OK;
    total_value *value = &totals->values[executable->total_of[step]];
    kn_status status = KN_OK;
    while (totals->done <= value->bucket && status == KN_OK)
        status = exchange(totals, executable->context, totals->done++, error);
    kn_buffer *target = kn_executable_buffer(executable, memory, ready->target);
    if (status != KN_OK || !target) return status;
    return kn_queue_write(executable->context, KN_QUEUE_COMPUTE, target, 0, totals->result + value->offset,
                          ready->bytes, false, (kn_event){NULL}, &value->written, error);
}
