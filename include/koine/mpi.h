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

#ifdef __cplusplus
}
#endif
#endif
