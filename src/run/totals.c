/* Sums over data-parallel workers, and values gathered from their shards. The values that a plan shares are
 * copied to host memory while the device continues, in the order of their total steps, with several values
 * per bucket. At the first total step of a bucket the host waits for its values and exchanges them: each
 * worker receives its slice of a bucket from all workers, adds them up in the order of the tree (kn_shards),
 * and sends the result to the others unless each needs only its own shard. So each element of a sum crosses a
 * link twice, regardless of the number of workers. */
#include <stddef.h>
#include <string.h>

#include "run/totals_private.h"

enum { BUCKET_BYTES = 4 << 20 };

/* ---- making ------------------------------------------------------------------------------------------- */

kn_status kn_totals_create(const kn_host *host, const kn_communicator *communicator, const kn_shards *shards,
                           bool any_order, kn_totals **result, kn_error *error) {
    *result = NULL;
    if (any_order && (communicator->size < offsetof(kn_communicator, allocator) || !communicator->sum))
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "sum_any_order needs a communicator with a function `sum`, such as MPI's; this "
                       "communicator has none");
    kn_totals *totals = *result = kn_allocate(host, 1, sizeof *totals);
    if (!totals) return kn_fail_memory(error, sizeof *totals);
    totals->host = *host;
    totals->communicator = communicator;
    totals->shards = *shards;
    totals->any_order = any_order;
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
        for (int i = 0; i < KN_MAX_SUBTREES; i++)
            kn_event_release(&totals->values[v].read[i]);
        kn_event_release(&totals->values[v].written);
    }
    kn_release(&host, totals->sums_of);
    kn_release(&host, totals->subtrees);
    kn_release(&host, totals->values);
    kn_release(&host, totals->buckets);
    kn_release(&host, totals->places);
    kn_release(&host, totals->own);
    kn_release(&host, totals->result);
    kn_release(&host, totals->incoming);
    kn_release(&host, totals->pointers);
    kn_release(&host, totals->requests);
    kn_release(&host, totals);
    *handle = NULL;
}

/* Computes the offsets of a bucket's elements. */
static void lay_out(kn_totals *totals, total_bucket *bucket) {
    const uint64_t ranks = (uint64_t)totals->shards.ranks;
    uint64_t at = 0, first;
    const total_value *values = totals->values + bucket->first;
    const bool whole = values[0].about.sharing.spread == KN_SPREAD_ALL;
    for (int v = 0; v < bucket->count && whole; v++) {
        values[v].at[0] = at;
        at += values[v].about.elements;
    }
    if (bucket->votes) at += KN_SESSION_VOTES;
    for (uint64_t r = 0; r < ranks; r++) {
        bucket->starts[r] = whole ? kn_spread_first(KN_SPREAD_SLICES, at, (int)ranks, (int)r) : at;
        for (int v = 0; v < bucket->count && !whole; v++) {
            values[v].at[r] = at;
            at += kn_total_part(totals, &values[v], (int)r, &first);
        }
    }
    bucket->starts[ranks] = at;
}

/* The bytes of `count` elements, rounded up for alignment. */
static uint64_t padded_bytes(const total_bucket *bucket, uint64_t count) {
    return kn_align_up(kn_bucket_bytes(bucket, count), sizeof(float));
}

/* The first bucket that can contain votes ends with them. */
static void add_votes(kn_totals *totals) {
    for (int b = 0; b < totals->bucket_count; b++) {
        total_bucket *bucket = &totals->buckets[b];
        if (bucket->parts || kn_bucket_gathers(totals, bucket) || bucket->dtype != KN_FLOAT32) continue;
        bucket->votes = true;
        bucket->elements += KN_SESSION_VOTES;
        return;
    }
}

static kn_status lay_out_all(kn_totals *totals, kn_error *error) {
    const size_t ranks = (size_t)totals->shards.ranks, me = (size_t)totals->shards.rank;
    const size_t places = (size_t)totals->value_count * ranks + (size_t)totals->bucket_count * (ranks + 1);
    uint64_t *place = totals->places = kn_allocate(&totals->host, places, sizeof *place);
    if (!place) return kn_fail_memory(error, places * sizeof *place);
    add_votes(totals);
    for (int v = 0; v < totals->value_count; v++, place += ranks)
        totals->values[v].at = place;
    for (int b = 0; b < totals->bucket_count; b++, place += ranks + 1) {
        total_bucket *bucket = &totals->buckets[b];
        bucket->starts = place;
        lay_out(totals, bucket);
        bucket->own = totals->own_bytes;
        bucket->result = totals->result_bytes;
        if (!kn_bucket_gathers(totals, bucket)) totals->own_bytes += padded_bytes(bucket, bucket->elements);
        totals->result_bytes += padded_bytes(
            bucket, bucket->parts ? bucket->starts[me + 1] - bucket->starts[me] : bucket->elements);
        for (size_t r = 0; r < ranks; r++) {
            const uint64_t slice = padded_bytes(bucket, bucket->starts[r + 1] - bucket->starts[r]);
            if (slice > totals->slice_bytes && !kn_bucket_gathers(totals, bucket))
                totals->slice_bytes = slice;
        }
    }
    return KN_OK;
}

uint64_t kn_totals_bytes(const kn_totals *totals) {
    if (!totals) return 0;
    return totals->own_bytes * (uint64_t)totals->own_count + totals->result_bytes +
           totals->slice_bytes * (uint64_t)totals->sum_count;
}

static kn_status take_memory(kn_totals *totals, kn_error *error) {
    const kn_host *host = &totals->host;
    const size_t others = (size_t)totals->shards.ranks - 1, sums = (size_t)totals->sum_count;
    kn_status status = lay_out_all(totals, error);
    if (status != KN_OK) return status;
    if (kn_totals_bytes(totals) > SIZE_MAX) return kn_fail_memory(error, SIZE_MAX);
    totals->own = kn_allocate(host, (size_t)totals->own_bytes, (size_t)totals->own_count);
    totals->result = kn_allocate(host, (size_t)totals->result_bytes, 1);
    totals->incoming = kn_allocate(host, (size_t)totals->slice_bytes, sums);
    totals->pointers = kn_allocate(host, sums, sizeof *totals->pointers);
    /* Each sum to and from each other rank, and each result. */
    totals->requests = kn_allocate(host, others * (size_t)totals->own_count + sums + 2 * others + 1,
                                   sizeof *totals->requests);
    return totals->own && totals->result && totals->incoming && totals->pointers && totals->requests
               ? KN_OK
               : kn_fail_memory(error, (size_t)kn_totals_bytes(totals));
}

/* Whether a value is exchanged together with the last value of a bucket. */
static bool travels_with(const kn_totals *totals, const total_bucket *bucket, const kn_shared_value *about) {
    const kn_shared_value *last = &totals->values[bucket->first + bucket->count - 1].about;
    return last->gathers == about->gathers && last->sharing.round == about->sharing.round &&
           (last->sharing.spread == KN_SPREAD_ALL) == (about->sharing.spread == KN_SPREAD_ALL) &&
           last->dtype == about->dtype && kn_bucket_bytes(bucket, bucket->elements) < BUCKET_BYTES;
}

static void add_value(kn_totals *totals, const kn_shared_value *about) {
    total_bucket *bucket = totals->bucket_count ? &totals->buckets[totals->bucket_count - 1] : NULL;
    if (!bucket || !travels_with(totals, bucket, about)) {
        bucket = &totals->buckets[totals->bucket_count++];
        *bucket = (total_bucket){.first = totals->value_count,
                                 .dtype = about->dtype,
                                 .parts = !about->gathers && about->sharing.spread != KN_SPREAD_ALL};
    }
    totals->values[totals->value_count++] =
        (total_value){.about = *about, .bucket = totals->bucket_count - 1};
    bucket->count++;
    bucket->elements += about->elements;
}

static bool same_value(const kn_shared_value *left, const kn_shared_value *right) {
    return left->elements == right->elements && left->gathers == right->gathers &&
           !left->share == !right->share && left->sharing.spread == right->sharing.spread &&
           left->sharing.round == right->sharing.round && left->dtype == right->dtype;
}

/* The values that a plan adds up are those of the session's first plan: batch sizes do not matter. */
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
        kn_shared_value about;
        kn_shared_value_of(ready->step->node, &about);
        if (first) add_value(totals, &about);
        same = count < totals->value_count && same_value(&totals->values[count].about, &about);
        executable->total_of[s] = count;
        if (about.share) value_of[about.share->id] = count;
        count++;
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

void kn_totals_vote(kn_totals *totals, const float votes[KN_SESSION_VOTES]) {
    memcpy(totals->votes, votes, sizeof totals->votes);
}

void kn_totals_voted(const kn_totals *totals, float sums[KN_SESSION_VOTES]) {
    memcpy(sums, totals->voted, sizeof totals->voted);
}

void kn_totals_activate(kn_totals *totals, bool sums, bool gathers) {
    totals->sums = sums;
    totals->gathers = gathers;
}

/* ---- steps -------------------------------------------------------------------------------------------- */

/* Elements in host memory, and elements of a value on the device. */
typedef struct piece {
    kn_event *done;
    char *numbers;
    kn_buffer *buffer;
    uint64_t first, count;
    uint64_t unit; /* bytes per element */
} piece;

static kn_status move_piece(const kn_executable *executable, const piece *moved, bool reads,
                            kn_error *error) {
    const uint64_t offset = moved->first * moved->unit, bytes = moved->count * moved->unit;
    if (!bytes || !moved->buffer) return KN_OK;
    kn_event_release(moved->done);
    return reads ? kn_queue_read(executable->context, KN_QUEUE_COMPUTE, moved->buffer, offset, moved->numbers,
                                 bytes, false, (kn_event){NULL}, moved->done, error)
                 : kn_queue_write(executable->context, KN_QUEUE_COMPUTE, moved->buffer, offset,
                                  moved->numbers, bytes, false, (kn_event){NULL}, moved->done, error);
}

/* Moves all shards of a value, whose elements start at moved->numbers; the queue is in order, so the last
 * event covers them all. */
static kn_status move_parts(const kn_executable *executable, const total_value *value, piece *moved,
                            bool reads, kn_error *error) {
    const kn_totals *totals = executable->totals;
    const bool whole = value->about.sharing.spread == KN_SPREAD_ALL;
    char *numbers = moved->numbers;
    kn_status status = KN_OK;
    for (int r = 0; r < (whole ? 1 : totals->shards.ranks) && status == KN_OK; r++) {
        moved->first = 0;
        moved->count = whole ? value->about.elements : kn_total_part(totals, value, r, &moved->first);
        moved->numbers = numbers + value->at[r] * moved->unit;
        status = move_piece(executable, moved, reads, error);
    }
    return status;
}

static bool is_exchanged(const kn_totals *totals, const total_value *value) {
    return value->about.gathers ? totals->gathers : totals->sums;
}

bool kn_total_waits(const kn_executable *executable, int step) {
    const kn_totals *totals = executable->totals;
    return totals && is_exchanged(totals, &totals->values[executable->total_of[step]]);
}

kn_status kn_total_share(const kn_executable *executable, const kn_memory *memory, int step,
                         kn_error *error) {
    kn_totals *totals = executable->totals;
    const kn_ready_step *ready = &executable->steps[step];
    if (!totals) return KN_OK;
    total_value *value = &totals->values[executable->total_of[step]];
    const total_bucket *bucket = &totals->buckets[value->bucket];
    if (!is_exchanged(totals, value)) return KN_OK;
    const kn_node *node = ready->step->node;
    int sum = 0;
    while (sum + 1 < node->input_count && node->inputs[sum] != ready->source)
        sum++;
    piece moved = {.done = &value->read[sum],
                   .unit = kn_bucket_bytes(bucket, 1),
                   .buffer = kn_executable_buffer(executable, memory, ready->source)};
    kn_event_release(&value->read[sum]);
    if (!value->about.gathers) {
        moved.numbers = totals->own + (size_t)sum * (size_t)totals->own_bytes + bucket->own;
        return move_parts(executable, value, &moved, true, error);
    }
    moved.numbers = totals->result + bucket->result + value->at[totals->shards.rank] * moved.unit;
    moved.count = kn_total_part(totals, value, totals->shards.rank, &moved.first);
    moved.first = 0;
    return move_piece(executable, &moved, true, error);
}

/* In a run without an exchange, a value is unchanged. */
static kn_status keep(const kn_executable *executable, const kn_memory *memory, const kn_ready_step *ready,
                      kn_error *error) {
    kn_buffer *target = kn_executable_buffer(executable, memory, ready->target);
    kn_buffer *source = ready->source ? kn_executable_buffer(executable, memory, ready->source) : target;
    if (!ready->bytes || !target || source == target) return KN_OK;
    return kn_queue_copy(executable->context, KN_QUEUE_COMPUTE, source, 0, target, 0, ready->bytes,
                         (kn_event){NULL}, NULL, error);
}

kn_status kn_total_take(const kn_executable *executable, const kn_memory *memory, int step, kn_error *error) {
    kn_totals *totals = executable->totals;
    const kn_ready_step *ready = &executable->steps[step];
    if (!kn_total_waits(executable, step)) return keep(executable, memory, ready, error);
    total_value *value = &totals->values[executable->total_of[step]];
    const total_bucket *bucket = &totals->buckets[value->bucket];
    kn_status status = KN_OK;
    for (; totals->done <= value->bucket && status == KN_OK; totals->done++)
        if (totals->gathers || !kn_bucket_gathers(totals, &totals->buckets[totals->done]))
            status = kn_totals_exchange(totals, executable->context, totals->done, error);
    piece moved = {.done = &value->written,
                   .unit = kn_bucket_bytes(bucket, 1),
                   .numbers = totals->result + bucket->result,
                   .buffer = kn_executable_buffer(executable, memory, ready->target)};
    if (status != KN_OK || !bucket->parts)
        return status == KN_OK ? move_parts(executable, value, &moved, false, error) : status;
    const int me = totals->shards.rank;
    moved.count = kn_total_part(totals, value, me, &moved.first);
    moved.numbers += (value->at[me] - bucket->starts[me]) * moved.unit;
    moved.first = 0;
    return move_piece(executable, &moved, false, error);
}
