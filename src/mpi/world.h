/* Messages among processes of MPI, for the files of this room. */
#ifndef KN_MPI_WORLD_H
#define KN_MPI_WORLD_H

#include <koine/mpi.h>

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

/* What a communicator's `user` is. */
typedef struct kn_mpi_world {
    MPI_Comm ranks;
    bool began;                     /* this has begun MPI, and ends it */
    pthread_mutex_t *one_at_a_time; /* held in calls of MPI; NULL: threads may call it at the same time */
    char error[512];                /* the first failure */
} kn_mpi_world;

/* A message under way. */
typedef struct kn_mpi_message {
    bool received;
    int other, tag; /* as the caller counts them */
    size_t bytes, pieces;
    void *inner;            /* without pieces: the request of a message within the process */
    MPI_Request requests[]; /* (pieces) */
} kn_mpi_message;

/* Where it goes to, or comes from. */
typedef struct kn_mpi_route {
    MPI_Comm ranks;
    int process, tag;
} kn_mpi_route;

/* Begins MPI unless that was done. Writes the reason of a failure to own->error. */
kn_status kn_mpi_start(kn_mpi_world *own);
/* Begins what is wanted. *made is NULL on failure, whose reason is in own->error. */
kn_status kn_mpi_begin(kn_mpi_world *own, const kn_mpi_message *wanted, char *data, const kn_mpi_route *route,
                       kn_mpi_message **made);
/* Waits for it and frees it, also after a failure. */
kn_status kn_mpi_end(kn_mpi_world *own, kn_mpi_message *waited);
/* Writes what failed, and MPI's words for the code, to own->error. */
kn_status kn_mpi_failed(kn_mpi_world *own, const char *what, int code);
/* The same ranks with separate messages; failures return codes instead of ending the process. Returns MPI's
 * code. */
int kn_mpi_duplicate(MPI_Comm ranks, MPI_Comm *made);
/* Sets own->ranks to all processes, and finds out which of how many this is. */
kn_status kn_mpi_find_ranks(kn_mpi_world *own, int *rank, int *ranks);

#endif
