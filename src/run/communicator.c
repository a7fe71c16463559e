/* All-reduce, gather and broadcast, using a communicator's messages. */
#include <koine/communicator.h>

#include <string.h>

#include "run/run_private.h"

enum {
    TAG = KN_COMMUNICATOR_TAGS - 1,
    SMALL = 2048,    /* up to this many elements are summed with the fewest messages */
    ROUND = 1 << 18, /* elements from other ranks for a piece of a slice: fits in caches */
    DEPTH = 4,       /* pieces in flight, so that a rank that is late briefly delays none */
};

/* Copies and checks the fields that the caller's version of the struct has. */
static kn_status take(kn_communicator *own, const kn_communicator *given) {
    *own = (kn_communicator){0};
    if (!given || KN_PARAMS_TAKE(kn_communicator, own, given, NULL)) return KN_ERROR_ARGUMENT;
    if (own->rank < 0 || own->rank >= own->ranks) return KN_ERROR_ARGUMENT;
    const bool complete = own->send && own->receive && own->wait && own->abort && own->error;
    return complete || own->ranks == 1 ? KN_OK : KN_ERROR_ARGUMENT;
}

static bool fits(size_t count, size_t size, int ranks) {
    return count <= PTRDIFF_MAX / size / (size_t)ranks;
}

/* Waits for all requests, even after a failure. Returns `status` if it is a failure, otherwise the first
 * failure. */
static kn_status wait_all(const kn_communicator *c, void **requests, size_t count, kn_status status) {
    for (size_t i = 0; i < count; i++) {
        if (!requests[i]) continue;
        kn_status waited = c->wait(c->user, &requests[i]);
        if (!status) status = waited;
    }
    return status;
}

kn_status kn_communicator_fail(const kn_communicator *communicator, kn_status status, kn_error *error) {
    if (status == KN_OK) return KN_OK;
    const char *text = communicator->error(communicator->user);
    return kn_fail(error, status, "%s", text[0] ? text : kn_status_message(status));
}

kn_status kn_communicator_wait(const kn_communicator *communicator, void **requests, int count,
                               kn_status status, kn_error *error) {
    kn_status waited = wait_all(communicator, requests, (size_t)count, KN_OK);
    return status == KN_OK ? kn_communicator_fail(communicator, waited, error) : status;
}

static kn_status send_and_wait(const kn_communicator *c, int rank, const void *data, size_t bytes) {
    void *request = NULL;
    kn_status status = c->send(c->user, rank, TAG, data, bytes, &request);
    return wait_all(c, &request, 1, status);
}

static kn_status receive_and_wait(const kn_communicator *c, int rank, void *data, size_t bytes) {
    void *request = NULL;
    kn_status status = c->receive(c->user, rank, TAG, data, bytes, &request);
    return wait_all(c, &request, 1, status);
}

kn_status kn_communicator_send(const kn_communicator *communicator, int rank, const void *data, size_t bytes,
                               kn_error *error) {
    return kn_communicator_fail(communicator, send_and_wait(communicator, rank, data, bytes), error);
}

kn_status kn_communicator_receive(const kn_communicator *communicator, int rank, void *data, size_t bytes,
                                  kn_error *error) {
    return kn_communicator_fail(communicator, receive_and_wait(communicator, rank, data, bytes), error);
}

static void add(float *restrict target, const float *restrict other, size_t count) {
    for (size_t i = 0; i < count; i++)
        target[i] += other[i];
}

/* ---- broadcast: ranks forward the bytes along a binary tree ------------------------ */

static kn_status broadcast(const kn_communicator *c, int from, void *data, size_t bytes) {
    const unsigned ranks = (unsigned)c->ranks, own = ((unsigned)c->rank + ranks - (unsigned)from) % ranks;
    unsigned step = 1; /* the lowest bit of `own`, which is relative to the root */
    while (step < ranks && !(own & step))
        step *= 2;
    kn_status status = KN_OK;
    if (own) status = receive_and_wait(c, (int)((own - step + (unsigned)from) % ranks), data, bytes);
    void *requests[8 * sizeof step] = {NULL};
    size_t count = 0;
    while (!status && (step /= 2))
        if (own + step < ranks)
            status = c->send(c->user, (int)((own + step + (unsigned)from) % ranks), TAG, data, bytes,
                             &requests[count++]);
    return wait_all(c, requests, count, status);
}

kn_status kn_broadcast_from(const kn_communicator *communicator, int from, void *data, size_t bytes) {
    kn_communicator own;
    if (take(&own, communicator) || from < 0 || from >= own.ranks || (bytes && !data))
        return KN_ERROR_ARGUMENT;
    return bytes ? broadcast(&own, from, data, bytes) : KN_OK;
}

/* ---- sums ------------------------------------------------------------------------------------------- */

/* Sums go up the tree to rank 0, which broadcasts the result. At most SMALL elements. */
static kn_status sum_small(const kn_communicator *c, float *data, size_t count) {
    const unsigned rank = (unsigned)c->rank, ranks = (unsigned)c->ranks;
    float other[SMALL];
    kn_status status = KN_OK;
    for (unsigned step = 1; step < ranks && !status; step *= 2) {
        if (rank & step) {
            status = send_and_wait(c, (int)(rank - step), data, count * sizeof *data);
            break;
        }
        if (rank + step >= ranks) continue;
        status = receive_and_wait(c, (int)(rank + step), other, count * sizeof *data);
        if (!status) add(data, other, count);
    }
    return status ? status : broadcast(c, 0, data, count * sizeof *data);
}

/* The data is cut into a slice per rank, which adds the slice over all ranks. Slices are cut into pieces:
 * while one piece is added, the next ones arrive, and earlier ones are sent to all ranks. */
typedef struct sums {
    const kn_communicator *c;
    const float *data;
    float *result; /* of this rank's slice */
    float *all;    /* destination for the sums of all slices; NULL: none */
    size_t count, slice, piece;
    float *received; /* (DEPTH, ranks, piece) */
    float **parts;   /* (ranks) */
    void **requests; /* (DEPTH, 4, ranks): receive, send; receive sums, send sums */
} sums;

typedef struct span {
    size_t begin, count;
} span;

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A piece of a rank's slice; the last ones may be shorter or empty. */
static span piece_of(const sums *s, int rank, size_t number) {
    const size_t slice = (size_t)rank * s->slice, begin = least(slice + number * s->piece, s->count),
                 end = least(slice + least((number + 1) * s->piece, s->slice), s->count);
    return (span){begin, end > begin ? end - begin : 0};
}

static float *received_from(const sums *s, int rank, size_t number) {
    return s->received + (number % DEPTH * (size_t)s->c->ranks + (size_t)rank) * s->piece;
}

static void **requests_of(const sums *s, size_t number) {
    return s->requests + number % DEPTH * 4 * (size_t)s->c->ranks;
}

/* The destination for the sums of this rank's piece. */
static float *result_of(const sums *s, size_t number) {
    return s->result + number * s->piece;
}

static kn_status begin_receive(const sums *s, int rank, float *data, size_t count, void **request) {
    return count ? s->c->receive(s->c->user, rank, TAG, data, count * sizeof *data, request) : KN_OK;
}

static kn_status begin_send(const sums *s, int rank, const float *data, size_t count, void **request) {
    return count ? s->c->send(s->c->user, rank, TAG, data, count * sizeof *data, request) : KN_OK;
}

/* Each rank gets its piece from all others. */
static kn_status begin_scatter(const sums *s, size_t number) {
    const int ranks = s->c->ranks, own = s->c->rank;
    void **receives = requests_of(s, number), **sends = receives + ranks;
    kn_status status = KN_OK;
    for (int i = 1; i < ranks && !status; i++) {
        const int other = (own + i) % ranks;
        const span theirs = piece_of(s, other, number);
        status = begin_receive(s, other, received_from(s, other, number), piece_of(s, own, number).count,
                               &receives[other]);
        if (!status) status = begin_send(s, other, s->data + theirs.begin, theirs.count, &sends[other]);
    }
    return status;
}

/* Each rank gets the sums of the other ranks' pieces. */
static kn_status begin_gather(const sums *s, size_t number) {
    const int ranks = s->c->ranks, own = s->c->rank;
    void **receives = requests_of(s, number) + 2 * ranks, **sends = receives + ranks;
    kn_status status = KN_OK;
    for (int i = 1; i < ranks && !status; i++) {
        const int other = (own + i) % ranks;
        const span theirs = piece_of(s, other, number);
        status = begin_receive(s, other, s->all + theirs.begin, theirs.count, &receives[other]);
        if (!status)
            status =
                begin_send(s, other, result_of(s, number), piece_of(s, own, number).count, &sends[other]);
    }
    return status;
}

/* Waits for the messages of a piece, and adds it: in place if this rank's data is one of the operands. */
static kn_status add_piece(const sums *s, size_t number) {
    const unsigned ranks = (unsigned)s->c->ranks;
    const span own = piece_of(s, s->c->rank, number);
    kn_status status = wait_all(s->c, requests_of(s, number), 2 * (size_t)ranks, KN_OK);
    if (status || !own.count) return status;
    float *result = result_of(s, number);
    if (result != s->data + own.begin) memcpy(result, s->data + own.begin, own.count * sizeof *result);
    for (unsigned r = 0; r < ranks; r++)
        s->parts[r] = (int)r == s->c->rank ? result : received_from(s, (int)r, number);
    for (unsigned step = 1; step < ranks; step *= 2)
        for (unsigned r = 0; r + step < ranks; r += 2 * step) {
            float *left = s->parts[r], *right = s->parts[r + step];
            s->parts[r] = right == result ? right : left;
            add(s->parts[r], right == result ? left : right, own.count);
        }
    return KN_OK;
}

static kn_status sum_pieces(const sums *s) {
    const size_t ranks = (size_t)s->c->ranks, pieces = (s->slice - 1) / s->piece + 1;
    kn_status status = KN_OK;
    for (size_t p = 0; p < DEPTH - 1 && p < pieces && !status; p++)
        status = begin_scatter(s, p);
    for (size_t p = 0; p < pieces && !status; p++) {
        if (p + DEPTH - 1 < pieces) status = begin_scatter(s, p + DEPTH - 1);
        if (!status) status = add_piece(s, p);
        if (!status && s->all) status = begin_gather(s, p);
        /* The requests of the piece DEPTH - 1 later. */
        if (!status) status = wait_all(s->c, requests_of(s, p + 1) + 2 * ranks, 2 * ranks, KN_OK);
    }
    return wait_all(s->c, s->requests, DEPTH * 4 * ranks, status);
}

/* Allocates memory for the sums, which the caller has described. */
static kn_status sum_large(sums *s) {
    const kn_host host = kn_host_with(&s->c->allocator);
    const size_t ranks = (size_t)s->c->ranks;
    s->piece = least(ROUND / (ranks - 1) + 1, s->slice);
    kn_status status = KN_ERROR_MEMORY;
    s->parts = kn_allocate(&host, ranks, sizeof *s->parts);
    s->requests = kn_allocate(&host, DEPTH * 4 * ranks, sizeof *s->requests);
    s->received = kn_resize(&host, NULL, DEPTH * ranks * s->piece, sizeof *s->received);
    if (s->parts && s->requests && s->received) status = sum_pieces(s);
    kn_release(&host, s->received);
    kn_release(&host, s->requests);
    kn_release(&host, s->parts);
    return status;
}

kn_status kn_all_reduce(const kn_communicator *communicator, float *data, size_t count) {
    kn_communicator own;
    if (take(&own, communicator) || !fits(count, sizeof *data, 1) || (count && !data))
        return KN_ERROR_ARGUMENT;
    if (own.ranks == 1 || !count) return KN_OK;
    if (count <= SMALL) return sum_small(&own, data, count);
    const size_t slice = (count - 1) / (size_t)own.ranks + 1, begin = least((size_t)own.rank * slice, count);
    return sum_large(&(sums){
        .c = &own, .data = data, .result = data + begin, .all = data, .count = count, .slice = slice});
}

kn_status kn_reduce_scatter(const kn_communicator *communicator, const float *data, float *result,
                            size_t count) {
    kn_communicator own;
    if (take(&own, communicator) || !fits(count, sizeof *data, own.ranks) || (count && !(data && result)))
        return KN_ERROR_ARGUMENT;
    if (!count) return KN_OK;
    if (own.ranks == 1) {
        memmove(result, data, count * sizeof *data);
        return KN_OK;
    }
    return sum_large(&(sums){
        .c = &own, .data = data, .result = result, .count = count * (size_t)own.ranks, .slice = count});
}

kn_status kn_barrier(const kn_communicator *communicator) {
    float nothing = 0;
    return kn_all_reduce(communicator, &nothing, 1);
}

/* ---- gather ----------------------------------------------------------------------------------------- */

kn_status kn_all_gather(const kn_communicator *communicator, const void *data, void *result, size_t bytes) {
    kn_communicator own;
    if (take(&own, communicator) || !fits(bytes, 1, own.ranks) || (bytes && !(data && result)))
        return KN_ERROR_ARGUMENT;
    if (!bytes) return KN_OK;
    char *all = result;
    memmove(all + (size_t)own.rank * bytes, data, bytes);
    kn_status status = KN_OK;
    for (int i = 1; i < own.ranks && !status; i++) {
        const int to = (own.rank + i) % own.ranks, from = (own.rank + own.ranks - i) % own.ranks;
        void *requests[2] = {NULL, NULL};
        status = own.receive(own.user, from, TAG, all + (size_t)from * bytes, bytes, &requests[0]);
        if (!status) status = own.send(own.user, to, TAG, data, bytes, &requests[1]);
        status = wait_all(&own, requests, 2, status);
    }
    return status;
}
