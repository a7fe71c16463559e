/* This process as one of several that an MPI launcher, such as mpirun, has started together. */
#ifndef KOINE_RANKS_H
#define KOINE_RANKS_H

#include <koine/mpi.h>

/* The number of processes that were started together, from the launcher's variables; 1 if none is set.
 * `variable` (may be NULL) gets the name of the variable, or NULL. */
int ranks_of_environment(const char **variable);

/* Loads libkoine-mpi and opens the communicator of these processes; each process must call it. On failure the
 * reason is in `error`. */
kn_status ranks_open(kn_communicator *communicator, char *error, size_t bytes);
/* All processes must call it, after the last message. */
void ranks_close(kn_communicator *communicator);
/* Like the functions of koine/mpi.h, after ranks_open. */
kn_status ranks_open_workers(const kn_communicator *const *within, int count, kn_mpi_workers **workers,
                             char *error, size_t bytes);
const kn_communicator *ranks_worker(kn_mpi_workers *workers, int number);
void ranks_close_workers(kn_mpi_workers **workers);

#endif
