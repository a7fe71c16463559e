/* Communicators: how the workers of one training run exchange data. Koine has two: threads of one process
 * (kn_group_create) and MPI (koine/mpi.h). A program may bring its own by filling in a kn_communicator.
 *
 *     kn_group *group = NULL;
 *     if (kn_group_create(2, NULL, &group) == KN_OK) {
 *         kn_trainer_params params = KN_TRAINER_DEFAULTS;
 *         params.communicator = kn_group_communicator(group, 0); // in the thread of rank 0
 *         // … create a trainer, train, destroy it …
 *     }
 *     kn_group_destroy(&group);
 *
 * Thread-safety: a communicator belongs to one thread at a time, except for `abort`; the communicators of
 * different ranks are independent of one another. */
#ifndef KOINE_COMMUNICATOR_H
#define KOINE_COMMUNICATOR_H

#include <koine/host.h>
#include <koine/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One worker's connection to a group of `ranks` workers, numbered from 0. After a function failed, `error`
 * says why, and every later call fails. All memory is host memory. */
typedef struct kn_communicator {
    size_t size;
    int rank, ranks;
    void *user; /* passed to the functions */
    /* Begin to send bytes to another rank, or to receive them from it, and return at once. The memory must
     * stay valid, and the bytes to send unchanged, until `wait` has returned for *request. Messages from one
     * rank to another with the same tag, from 0 to KN_COMMUNICATOR_TAGS - 1, arrive in the order in which
     * they were sent, and have the size that the receiver expects. */
    kn_status (*send)(void *user, int rank, int tag, const void *data, size_t bytes, void **request);
    kn_status (*receive)(void *user, int rank, int tag, void *data, size_t bytes, void **request);
    /* Waits for a request and sets *request to NULL, also after a failure; then its memory is no longer used.
     * NULL is a complete request. */
    kn_status (*wait)(void *user, void **request);
    /* Ends the group: waiting and later calls of all ranks fail with KN_ERROR_CANCELLED and this reason. Only
     * the first reason is kept. Called from any thread. */
    void (*abort)(void *user, const char *reason);
    /* Why the last call failed; "" if none did. Valid until the next call. */
    const char *(*error)(void *user);
    /* Sums `count` float32 numbers of all ranks in any order, which may change from call to call; every rank
     * gets the same result. NULL: not available. */
    kn_status (*sum)(void *user, float *data, size_t count);
    /* For temporary memory of the functions below; zeros: malloc's. */
    kn_allocator allocator;
} kn_communicator;
#define KN_COMMUNICATOR_DEFAULTS KN_DEFAULTS_ZERO(kn_communicator)
enum { KN_COMMUNICATOR_TAGS = 16384 };

/* ---- all ranks together -------------------------------------------------------------------------------
 * Every rank calls the same functions in the same order with the same sizes. They return when this rank's
 * part is done. They send messages with the tag KN_COMMUNICATOR_TAGS - 1. KN_ERROR_ARGUMENT and
 * KN_ERROR_MEMORY may be returned without a text from `error`. After any failure other ranks may be waiting
 * for this one: call `abort`. */

/* Sums `count` float32 numbers of all ranks; each rank gets the sums. They are added as a binary tree over
 * the ranks, which gives the same bits each time: ((r0 + r1) + (r2 + r3)) + r4. */
KN_API kn_status kn_all_reduce(const kn_communicator *communicator, float *data, size_t count);
/* The same for ranks * count numbers, of whose sums rank r gets those from r * count to (r + 1) * count - 1.
 * `result` may be their place in `data`, and may not overlap it otherwise. */
KN_API kn_status kn_reduce_scatter(const kn_communicator *communicator, const float *data, float *result,
                                   size_t count);
/* Each rank gives `bytes` bytes; each gets the bytes of all ranks, in the order of the ranks. `data` may be
 * its place in `result`, and may not overlap it otherwise. */
KN_API kn_status kn_all_gather(const kn_communicator *communicator, const void *data, void *result,
                               size_t bytes);
/* All ranks get the bytes of the rank `from`. */
KN_API kn_status kn_broadcast_from(const kn_communicator *communicator, int from, void *data, size_t bytes);
/* Returns when all ranks have called it. */
KN_API kn_status kn_barrier(const kn_communicator *communicator);

/* ---- threads of one process ----------------------------------------------------------------------- */

typedef struct kn_group kn_group;
/* A group of `ranks` workers, each a thread of this process. allocator NULL: malloc's. *group is NULL on
 * failure. */
KN_API KN_NODISCARD kn_status kn_group_create(int ranks, const kn_allocator *allocator, kn_group **group);
/* Call it when no rank is in a call. */
KN_API void kn_group_destroy(kn_group **group);
/* The communicator of a rank; lives as long as the group. NULL if there is no such rank. */
KN_API const kn_communicator *kn_group_communicator(kn_group *group, int rank);

#ifdef __cplusplus
}
#endif
#endif
