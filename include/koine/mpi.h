/* libkoine-mpi: the processes of MPI as the workers of a communicator. A separate library, because libkoine
 * needs no MPI; a program links it, or loads it when it is started by mpirun.
 *
 *     kn_communicator communicator = {.size = sizeof communicator};
 *     char error[512];
 *     if (kn_mpi_open(&communicator, error, sizeof error)) ...
 *     kn_all_reduce(&communicator, numbers, count);
 *     kn_mpi_close(&communicator);
 *
 * Thread-safety: as far as MPI's level allows (MPI_Query_thread). A communicator belongs to one thread at a
 * time; calls of several communicators at once, and abort from another thread, need MPI_THREAD_MULTIPLE. */
#ifndef KOINE_MPI_H
#define KOINE_MPI_H

#include <koine/communicator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a communicator of all processes, each of which must call this. Its `size` must be set; other fields
 * are overwritten, the allocator excepted. MPI is initialised, with MPI_THREAD_MULTIPLE if it can, unless the
 * program has done that. Messages are apart from those of the program (MPI_Comm_dup). On failure the reason
 * is in `error`. MPI itself ends the process where it cannot be initialised.
 *
 * `abort` ends all processes (MPI_Abort): print the reason before. */
KN_API kn_status kn_mpi_open(kn_communicator *communicator, char *error, size_t bytes);
/* All processes must call it; no message may be under way. Ends MPI if kn_mpi_open has begun it, after which
 * MPI cannot begin again in this process. After a failure of the communicator, MPI does not end: the process
 * should. */
KN_API void kn_mpi_close(kn_communicator *communicator);

/* ---- several workers in each process --------------------------------------------------------------------
 * Workers that are threads, such as one for each device of a machine, in several processes: one communicator
 * of all, which are numbered through, those of the first process first. Messages within a process go by its
 * group, the others by MPI. */

typedef struct kn_mpi_workers kn_mpi_workers;
enum { KN_MPI_WORKERS = 256 /* at most, in a process */ };
/* `within` has the communicators of the `count` workers of this process, such as those of kn_group_rank,
 * which must outlive these. Each process must call it; their counts may differ. MPI is begun as kn_mpi_open
 * does. Its level must be MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED, which costs time; for one worker any
 * level will do. *workers is NULL on failure, and the reason is in `error`. The communicators have no `sum`,
 * and their `abort` ends all processes. */
KN_API kn_status kn_mpi_workers_open(const kn_communicator *const *within, int count,
                                     kn_mpi_workers **workers, char *error, size_t bytes);
/* The communicator of a worker of this process; NULL if there is no such one. */
KN_API const kn_communicator *kn_mpi_workers_rank(kn_mpi_workers *workers, int number);
/* All processes must call it, before kn_mpi_close; no message may be under way. As kn_mpi_close after a
 * failure. */
KN_API void kn_mpi_workers_close(kn_mpi_workers **workers);

#ifdef __cplusplus
}
#endif
#endif
