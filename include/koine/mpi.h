/* libkoine-mpi: MPI processes as the workers of a communicator. A separate library, because libkoine needs no
 * MPI; a program links it, or loads it if it was started by mpirun.
 *
 *     kn_communicator communicator = KN_COMMUNICATOR_DEFAULTS;
 *     char message[512];
 *     if (kn_mpi_create(&communicator, message, sizeof message) != KN_OK)
 *         fprintf(stderr, "%s\n", message);
 *     else if (kn_all_reduce(&communicator, x, count) != KN_OK)
 *         fprintf(stderr, "%s\n", communicator.error(communicator.user));
 *     kn_mpi_destroy(&communicator);
 *
 * Thread-safety: as far as MPI's level allows (MPI_Query_thread). A communicator belongs to one thread at a
 * time; calls of several communicators at once, and `abort` from another thread, need MPI_THREAD_MULTIPLE. */
#ifndef KOINE_MPI_H
#define KOINE_MPI_H

#include <koine/communicator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a communicator of all processes, each of which must call this. Its `size` and `allocator` must be
 * set; other fields are overwritten. Unless the program has initialised MPI, it is initialised, with
 * MPI_THREAD_MULTIPLE if possible; MPI itself ends the process if that fails. Messages are separate from the
 * program's (MPI_Comm_dup). On failure the reason is in `message`.
 *
 * `abort` ends all processes (MPI_Abort): print the reason before. */
KN_API KN_NODISCARD kn_status kn_mpi_create(kn_communicator *communicator, char *message, size_t size);
/* All processes must call it, when no message is pending. Finalizes MPI if kn_mpi_create initialised it; MPI
 * cannot be initialised again in this process. After a failure of the communicator, MPI is not finalized: end
 * the process. */
KN_API void kn_mpi_destroy(kn_communicator *communicator);

/* ---- several workers in each process --------------------------------------------------------------------
 * One communicator for worker threads, such as one per device of a machine, in several processes. The ranks
 * of the first process come first. Messages within a process are sent by its group, all others by MPI. */

typedef struct kn_mpi_workers kn_mpi_workers;
enum { KN_MPI_MAX_WORKERS = 256 /* per process */ };
/* `within` has the communicators of the `count` workers of this process, such as those of
 * kn_group_communicator, which must outlive the result. Each process must call it; counts may differ. MPI is
 * initialised as by kn_mpi_create; its level must be MPI_THREAD_MULTIPLE or, which is slower,
 * MPI_THREAD_SERIALIZED; for one worker any level suffices. *workers is NULL on failure, and the reason is in
 * `message`. The communicators have no `sum`, and their `abort` ends all processes. */
KN_API KN_NODISCARD kn_status kn_mpi_workers_create(const kn_communicator *const *within, int count,
                                                    kn_mpi_workers **workers, char *message, size_t size);
/* The communicator of a worker of this process; NULL if there is no such worker. */
KN_API const kn_communicator *kn_mpi_workers_communicator(kn_mpi_workers *workers, int number);
/* All processes must call it, before kn_mpi_destroy and when no message is pending. After a failure: like
 * kn_mpi_destroy. */
KN_API void kn_mpi_workers_destroy(kn_mpi_workers **workers);

#ifdef __cplusplus
}
#endif
#endif
