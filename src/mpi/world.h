/* Messages between MPI processes. Private to the mpi module. */
#ifndef KN_MPI_WORLD_H
#define KN_MPI_WORLD_H

#include <koine/mpi.h>

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

/* The `user` of a communicator. */
typedef struct kn_mpi_world {
    MPI_Comm ranks;
    bool began;                     /* this object has initialized MPI, and finalizes it */
    pthread_mutex_t *one_at_a_time; /* held in MPI calls; NULL: threads may call it at the same time */
    char error[512];                /* the first failure */
} kn_mpi_world;

/* A message in progress. */
typedef struct kn_mpi_message {
    bool received;
    int other, tag; /* rank and tag as the caller counts them */
    size_t bytes, pieces;
    void *inner;            /* if there are no pieces: the request of a message within the process */
    MPI_Request requests[]; /* (pieces) */
} kn_mpi_message;

/* The MPI communicator, rank and tag of a message. */
typedef struct kn_mpi_route {
    MPI_Comm ranks;
    int process, tag;
} kn_mpi_route;

/* Initializes MPI unless that was done. Writes the reason for a failure to self->error. */
kn_status kn_mpi_start(kn_mpi_world *self);
/* Begins a message. *made is NULL on failure, and the reason is in self->error. */
kn_status kn_mpi_begin(kn_mpi_world *self, const kn_mpi_message *wanted, char *data,
                       const kn_mpi_route *route, kn_mpi_message **made);
/* Waits for a message and frees it, also after a failure. */
kn_status kn_mpi_end(kn_mpi_world *self, kn_mpi_message *waited);
/* Writes what failed, and MPI's text for the code, to self->error. */
kn_status kn_mpi_failed(kn_mpi_world *self, const char *what, int code);
/* Duplicates a communicator, with separate messages; failures return codes instead of ending the process.
 * Returns MPI's code. */
int kn_mpi_duplicate(MPI_Comm ranks, MPI_Comm *made);
/* Sets self->ranks to all processes, and determines this process's rank and the number of ranks. */
kn_status kn_mpi_find_ranks(kn_mpi_world *self, int *rank, int *ranks);

#endif
