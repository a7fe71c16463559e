/* The processes of MPI as a communicator. */
#include <koine/mpi.h>

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPI counts with an int, so larger messages go in pieces. A test makes them small. */
#ifndef KN_MPI_PIECE
#define KN_MPI_PIECE ((size_t)1 << 30)
#endif

/* What a communicator's `user` is. */
typedef struct world {
    MPI_Comm ranks;
    bool began;      /* this has begun MPI, and ends it */
    char error[512]; /* the first failure */
} world;

/* A message under way. */
typedef struct message {
    bool received;
    int other, tag;
    size_t bytes, pieces;
    MPI_Request requests[]; /* (pieces) */
} message;

static size_t bytes_of(const message *m, size_t piece) {
    const size_t rest = m->bytes - piece * KN_MPI_PIECE;
    return rest < KN_MPI_PIECE ? rest : KN_MPI_PIECE;
}

/* The text of a code of MPI. */
static const char *text_of(int code, char text[MPI_MAX_ERROR_STRING]) {
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        strcpy(text, "a failure that MPI does not know");
    return text;
}

static kn_status fail(world *own, const message *m, const char *why) {
    if (!own->error[0])
        snprintf(own->error, sizeof own->error, "a message of %zu bytes %s rank %d with the tag %d: %s",
                 m->bytes, m->received ? "from" : "to", m->other, m->tag, why);
    return KN_ERROR_COMMUNICATION;
}

static kn_status fail_by_code(world *own, const message *m, int code) {
    char text[MPI_MAX_ERROR_STRING];
    return fail(own, m, text_of(code, text));
}

/* After a failure, what is left of a message: receives end here, sends in MPI's own time. */
static void give_up(message *m) {
    for (size_t i = 0; i < m->pieces; i++) {
        if (m->requests[i] == MPI_REQUEST_NULL) continue;
        if (m->received && MPI_Cancel(&m->requests[i]) == MPI_SUCCESS)
            MPI_Wait(&m->requests[i], MPI_STATUS_IGNORE);
        else
            MPI_Request_free(&m->requests[i]);
    }
}

static kn_status begin(world *own, const message *wanted, char *data, void **request) {
    if (!request) return KN_ERROR_ARGUMENT;
    *request = NULL;
    if (own->error[0]) return KN_ERROR_CANCELLED;
    const size_t pieces = wanted->bytes ? (wanted->bytes - 1) / KN_MPI_PIECE + 1 : 1;
    message *begun = malloc(sizeof *begun + pieces * sizeof *begun->requests);
    if (!begun) {
        fail(own, wanted, "out of memory");
        return KN_ERROR_MEMORY;
    }
    *begun = *wanted;
    for (begun->pieces = 0; begun->pieces < pieces; begun->pieces++) {
        const size_t i = begun->pieces;
        char *place = data ? data + i * KN_MPI_PIECE : NULL;
        const int bytes = (int)bytes_of(begun, i);
        const int code = begun->received ? MPI_Irecv(place, bytes, MPI_BYTE, begun->other, begun->tag,
                                                     own->ranks, &begun->requests[i])
                                         : MPI_Isend(place, bytes, MPI_BYTE, begun->other, begun->tag,
                                                     own->ranks, &begun->requests[i]);
        if (code == MPI_SUCCESS) continue;
        kn_status status = fail_by_code(own, begun, code);
        give_up(begun);
        free(begun);
        return status;
    }
    *request = begun;
    return KN_OK;
}

static kn_status mpi_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    const message wanted = {.other = rank, .tag = tag, .bytes = bytes};
    return begin(user, &wanted, (char *)(uintptr_t)data, request); /* MPI only reads it */
}

static kn_status mpi_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    const message wanted = {.received = true, .other = rank, .tag = tag, .bytes = bytes};
    return begin(user, &wanted, data, request);
}

static kn_status wait_for_piece(world *own, message *m, size_t piece) {
    MPI_Status state;
    int code = MPI_Wait(&m->requests[piece], &state), bytes = 0;
    if (code == MPI_SUCCESS && m->received) code = MPI_Get_count(&state, MPI_BYTE, &bytes);
    if (code != MPI_SUCCESS) return fail_by_code(own, m, code);
    return m->received && (size_t)bytes != bytes_of(m, piece) ? fail(own, m, "fewer bytes came") : KN_OK;
}

static kn_status mpi_wait(void *user, void **request) {
    world *own = user;
    message *waited = request ? *request : NULL;
    kn_status status = own->error[0] ? KN_ERROR_CANCELLED : KN_OK;
    if (!waited) return status;
    for (size_t i = 0; i < waited->pieces && !status; i++)
        status = wait_for_piece(own, waited, i);
    if (status) give_up(waited);
    free(waited);
    *request = NULL;
    return status;
}

static kn_status mpi_sum(void *user, float *data, size_t count) {
    world *own = user;
    if (own->error[0]) return KN_ERROR_CANCELLED;
    const size_t most = KN_MPI_PIECE / sizeof *data;
    for (size_t done = 0; done < count; done += most) {
        const size_t now = count - done < most ? count - done : most;
        const int code = MPI_Allreduce(MPI_IN_PLACE, data + done, (int)now, MPI_FLOAT, MPI_SUM, own->ranks);
        if (code == MPI_SUCCESS) continue;
        char text[MPI_MAX_ERROR_STRING];
        snprintf(own->error, sizeof own->error, "the sum of %zu numbers: %s", count, text_of(code, text));
        return KN_ERROR_COMMUNICATION;
    }
    return KN_OK;
}

static void mpi_abort(void *user, const char *reason) {
    (void)reason; /* MPI_Abort takes none */
    MPI_Abort(((world *)user)->ranks, 1);
}

static const char *mpi_error(void *user) {
    return ((world *)user)->error;
}

/* ---- its life ---------------------------------------------------------------------------------------- */

/* Begins MPI unless that was done. Writes the reason of a failure to own->error. */
static kn_status begin_mpi(world *own) {
    int is = 0, level = 0;
    if (MPI_Finalized(&is) != MPI_SUCCESS || is) {
        snprintf(own->error, sizeof own->error, "MPI has ended in this process and cannot begin again");
        return KN_ERROR_UNSUPPORTED;
    }
    if (MPI_Initialized(&is) == MPI_SUCCESS && is) return KN_OK;
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    own->began = code == MPI_SUCCESS;
    if (own->began) {
        /* Some MPIs raise failures of waits there. */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        return KN_OK;
    }
    snprintf(own->error, sizeof own->error, "MPI_Init_thread failed with the code %d", code);
    return KN_ERROR_COMMUNICATION;
}

/* The ranks with their own context of messages; failures return codes instead of ending the process. */
static kn_status find_ranks(world *own, kn_communicator *made) {
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &own->ranks);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(own->ranks, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(own->ranks, &made->rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(own->ranks, &made->ranks);
    if (code == MPI_SUCCESS) return KN_OK;
    char text[MPI_MAX_ERROR_STRING];
    snprintf(own->error, sizeof own->error, "MPI's ranks: %s", text_of(code, text));
    return KN_ERROR_COMMUNICATION;
}

/* The fields of a communicator that the caller's version has. */
static void give(kn_communicator *communicator, const kn_communicator *made) {
    const size_t size = communicator->size;
    memcpy(communicator, made,
           size < offsetof(kn_communicator, allocator) ? size : offsetof(kn_communicator, allocator));
    communicator->size = size;
}

kn_status kn_mpi_open(kn_communicator *communicator, char *error, size_t bytes) {
    if (error && bytes) error[0] = '\0';
    if (!communicator || communicator->size < offsetof(kn_communicator, sum)) {
        if (error) snprintf(error, bytes, "a communicator with its size set is expected");
        return KN_ERROR_ARGUMENT;
    }
    kn_communicator made = {.send = mpi_send,
                            .receive = mpi_receive,
                            .wait = mpi_wait,
                            .abort = mpi_abort,
                            .error = mpi_error,
                            .sum = mpi_sum};
    give(communicator, &(kn_communicator){0});
    world *own = calloc(1, sizeof *own);
    if (!own) {
        if (error) snprintf(error, bytes, "out of memory");
        return KN_ERROR_MEMORY;
    }
    kn_status status = begin_mpi(own);
    if (!status) status = find_ranks(own, &made);
    if (status) {
        if (error) snprintf(error, bytes, "%s", own->error);
        free(own);
        return status;
    }
    made.user = own;
    give(communicator, &made);
    return KN_OK;
}

void kn_mpi_close(kn_communicator *communicator) {
    if (!communicator || communicator->size < offsetof(kn_communicator, sum) || !communicator->user) return;
    world *own = communicator->user;
    if (!own->error[0]) {
        MPI_Comm_free(&own->ranks);
        if (own->began) MPI_Finalize();
    }
    free(own);
    give(communicator, &(kn_communicator){0});
}
