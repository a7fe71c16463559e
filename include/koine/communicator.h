/* Communicators: how the workers of one training exchange numbers. Koine has two: threads of one process
 * (kn_group_create), and MPI (koine/mpi.h). A program may bring its own by filling in a kn_communicator.
 *
 * Thread-safety: a communicator belongs to one thread at a time, abort excepted; those of different ranks are
 * independent of one another. */
#ifndef KOINE_COMMUNICATOR_H
#define KOINE_COMMUNICATOR_H

#include <koine/host.h>
#include <koine/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's end of a group of `ranks` workers, numbered from 0. The functions return a status; after a
 * failure `error` says why, and every later call fails. All memory is host memory. */
typedef struct kn_communicator {
    size_t size;
    int rank, ranks;
    void *user; /* given to the functions */
    /* Begin to send bytes to another rank, or to receive them from it, and return at once. The memory must
     * stay, and the bytes to send unchanged, until `wait` has returned for *request. Messages from one rank
     * to another with the same tag, from 0 to KN_TAGS - 1, arrive in the order in which they were sent, and
     * have the size that the receiver expects. */
    kn_status (*send)(void *user, int rank, int tag, const void *data, size_t bytes, void **request);
    kn_status (*receive)(void *user, int rank, int tag, void *data, size_t bytes, void **request);
    /* Waits for one of them, and sets *request to NULL, also after a failure: then the memory is not used
     * any more. NULL is complete. */
    kn_status (*wait)(void *user, void **request);
    /* Ends the group: calls of all ranks that wait, or that come, fail with KN_ERROR_CANCELLED and this
     * reason. The first reason counts. From any thread. */
    void (*abort)(void *user, const char *reason);
    /* Why the last call failed; "" if none has. Valid until the next call. */
    const char *(*error)(void *user);
    /* Sums `count` float32 numbers of all ranks in any order, which need not be the same each time;
     * every rank gets the same result. NULL: it has no such function. */
    kn_status (*sum)(void *user, float *data, size_t count);
    /* For what the functions below need while they run; zeros: malloc's. */
    kn_allocator allocator;
} kn_communicator;
enum { KN_TAGS = 16384 };

/* ---- all ranks together -------------------------------------------------------------------------------
 * Every rank calls the same functions in the same order with the same sizes. They return when this rank's
 * part is done, and send messages with the tag KN_TAGS - 1. KN_ERROR_ARGUMENT and KN_ERROR_MEMORY may be
 * their own, without a text from `error`. After any failure the other ranks may wait for this one: call
 * `abort`. */

/* Sums `count` float32 numbers of all ranks; each rank gets the sums. They are added as a binary tree over
 * the ranks, so that the same group gives the same bits: ((r0 + r1) + (r2 + r3)) + r4. */
KN_API kn_status kn_all_reduce(const kn_communicator *communicator, float *data, size_t count);
/* The same; rank r gets only numbers r * count to (r + 1) * count - 1 of the ranks * count sums. `result`
 * may be where these are in `data`, and may not overlap it otherwise. */
KN_API kn_status kn_reduce_scatter(const kn_communicator *communicator, const float *data, float *result,
                                   size_t count);
/* Each rank gives `bytes` bytes; all get those of all ranks, in their order. `data` may be its place in
 * `result`, and may not overlap it otherwise. */
KN_API kn_status kn_all_gather(const kn_communicator *communicator, const void *data, void *result,
                               size_t bytes);
/* All get the bytes of one rank. */
KN_API kn_status kn_broadcast_from(const kn_communicator *communicator, int from, void *data, size_t bytes);
/* Returns when all ranks have called it. */
KN_API kn_status kn_barrier(const kn_communicator *communicator);

/* ---- threads of one process ----------------------------------------------------------------------- */

typedef struct kn_group kn_group;
/* A group of `ranks` workers, each a thread of this process. allocator NULL: malloc's. *group is NULL on
 * failure. */
KN_API kn_status kn_group_create(int ranks, const kn_allocator *allocator, kn_group **group);
/* No rank may be in a call. */
KN_API void kn_group_destroy(kn_group **group);
/* The communicator of a rank; lives as long as the group. NULL if there is no such rank. */
KN_API const kn_communicator *kn_group_rank(kn_group *group, int rank);

#ifdef __cplusplus
}
#endif
#endif
