/* MPI processes as a communicator, and messages between them. */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/* MPI counts with an int, so larger messages are split. A test makes the pieces small. */
#ifndef KN_MPI_PIECE
#define KN_MPI_PIECE ((size_t)1 << 30)
#endif

static size_t bytes_of(const kn_mpi_message *m, size_t piece) {
    const size_t rest = m->bytes - piece * KN_MPI_PIECE;
    return rest < KN_MPI_PIECE ? rest : KN_MPI_PIECE;
}

/* The text of an MPI code. */
static const char *text_of(int code, char text[MPI_MAX_ERROR_STRING]) {
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) strcpy(text, "an unknown MPI error");
    return text;
}

kn_status kn_mpi_failed(kn_mpi_world *self, const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING];
    snprintf(self->error, sizeof self->error, "%s: %s", what, text_of(code, text));
    return KN_ERROR_COMMUNICATION;
}

static kn_status fail(kn_mpi_world *self, const kn_mpi_message *m, const char *why) {
    if (!self->error[0])
        snprintf(self->error, sizeof self->error, "a message of %zu bytes %s rank %d with the tag %d: %s",
                 m->bytes, m->received ? "from" : "to", m->other, m->tag, why);
    return KN_ERROR_COMMUNICATION;
}

static kn_status fail_by_code(kn_mpi_world *self, const kn_mpi_message *m, int code) {
    char text[MPI_MAX_ERROR_STRING];
    return fail(self, m, text_of(code, text));
}

/* ---- messages ---------------------------------------------------------------------------------------- */

/* Locks MPI if threads of this process may only call it one at a time. */
static void enter(kn_mpi_world *self) {
    if (self->one_at_a_time) pthread_mutex_lock(self->one_at_a_time);
}

static void leave(kn_mpi_world *self) {
    if (self->one_at_a_time) pthread_mutex_unlock(self->one_at_a_time);
}

/* Waits for a request; other threads may call MPI meanwhile. */
static int wait_for(kn_mpi_world *self, MPI_Request *request, MPI_Status *state) {
    if (!self->one_at_a_time) return MPI_Wait(request, state);
    for (;;) {
        int done = 0;
        enter(self);
        const int code = MPI_Test(request, &done, state);
        leave(self);
        if (code != MPI_SUCCESS || done) return code;
        sched_yield();
    }
}

/* Cleans up a message after a failure: receives end here, sends whenever MPI finishes them. */
static void give_up(kn_mpi_world *self, kn_mpi_message *m) {
    for (size_t i = 0; i < m->pieces; i++) {
        if (m->requests[i] == MPI_REQUEST_NULL) continue;
        enter(self);
        const bool cancelled = m->received && MPI_Cancel(&m->requests[i]) == MPI_SUCCESS;
        if (!cancelled) MPI_Request_free(&m->requests[i]);
        leave(self);
        MPI_Status state;
        if (cancelled) wait_for(self, &m->requests[i], &state);
    }
}

static int begin_piece(kn_mpi_message *m, size_t piece, char *data, const kn_mpi_route *route) {
    char *place = data ? data + piece * KN_MPI_PIECE : NULL;
    const int bytes = (int)bytes_of(m, piece);
    return m->received ? MPI_Irecv(place, bytes, MPI_BYTE, route->process, route->tag, route->ranks,
                                   &m->requests[piece])
                       : MPI_Isend(place, bytes, MPI_BYTE, route->process, route->tag, route->ranks,
                                   &m->requests[piece]);
}

kn_status kn_mpi_begin(kn_mpi_world *self, const kn_mpi_message *wanted, char *data,
                       const kn_mpi_route *route, kn_mpi_message **made) {
    *made = NULL;
    if (self->error[0]) return KN_ERROR_CANCELLED;
    const size_t pieces = wanted->bytes ? (wanted->bytes - 1) / KN_MPI_PIECE + 1 : 1;
    kn_mpi_message *begun = malloc(sizeof *begun + pieces * sizeof *begun->requests);
    if (!begun) {
        fail(self, wanted, "out of memory");
        return KN_ERROR_MEMORY;
    }
    *begun = *wanted;
    for (begun->pieces = 0; begun->pieces < pieces; begun->pieces++) {
        enter(self);
        const int code = begin_piece(begun, begun->pieces, data, route);
        leave(self);
        if (code == MPI_SUCCESS) continue;
        kn_status status = fail_by_code(self, begun, code);
        give_up(self, begun);
        free(begun);
        return status;
    }
    *made = begun;
    return KN_OK;
}

static kn_status wait_for_piece(kn_mpi_world *self, kn_mpi_message *m, size_t piece) {
    MPI_Status state;
    int code = wait_for(self, &m->requests[piece], &state), bytes = 0;
    if (code == MPI_SUCCESS && m->received) code = MPI_Get_count(&state, MPI_BYTE, &bytes);
    if (code != MPI_SUCCESS) return fail_by_code(self, m, code);
    return m->received && (size_t)bytes != bytes_of(m, piece) ? fail(self, m, "fewer bytes arrived") : KN_OK;
}

kn_status kn_mpi_end(kn_mpi_world *self, kn_mpi_message *waited) {
    kn_status status = self->error[0] ? KN_ERROR_CANCELLED : KN_OK;
    for (size_t i = 0; i < waited->pieces && !status; i++)
        status = wait_for_piece(self, waited, i);
    if (status) give_up(self, waited);
    free(waited);
    return status;
}

/* ---- one worker per process ---------------------------------------------------------------------------- */

static kn_status begin(kn_mpi_world *self, const kn_mpi_message *wanted, char *data, void **request) {
    if (!request) return KN_ERROR_ARGUMENT;
    const kn_mpi_route route = {.ranks = self->ranks, .process = wanted->other, .tag = wanted->tag};
    kn_mpi_message *made;
    kn_status status = kn_mpi_begin(self, wanted, data, &route, &made);
    *request = made;
    return status;
}

static kn_status mpi_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    const kn_mpi_message wanted = {.other = rank, .tag = tag, .bytes = bytes};
    return begin(user, &wanted, (char *)(uintptr_t)data, request); /* MPI only reads it */
}

static kn_status mpi_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    const kn_mpi_message wanted = {.received = true, .other = rank, .tag = tag, .bytes = bytes};
    return begin(user, &wanted, data, request);
}

static kn_status mpi_wait(void *user, void **request) {
    kn_mpi_world *self = user;
    kn_mpi_message *waited = request ? *request : NULL;
    if (!waited) return self->error[0] ? KN_ERROR_CANCELLED : KN_OK;
    *request = NULL;
    return kn_mpi_end(self, waited);
}

static kn_status mpi_sum(void *user, float *data, size_t count) {
    kn_mpi_world *self = user;
    if (self->error[0]) return KN_ERROR_CANCELLED;
    const size_t most = KN_MPI_PIECE / sizeof *data;
    for (size_t done = 0; done < count; done += most) {
        const size_t now = count - done < most ? count - done : most;
        const int code = MPI_Allreduce(MPI_IN_PLACE, data + done, (int)now, MPI_FLOAT, MPI_SUM, self->ranks);
        if (code == MPI_SUCCESS) continue;
        char what[64];
        snprintf(what, sizeof what, "adding %zu numbers", count);
        return kn_mpi_failed(self, what, code);
    }
    return KN_OK;
}

static void mpi_abort(void *user, const char *reason) {
    (void)reason; /* unused: MPI_Abort takes no reason */
    MPI_Abort(((kn_mpi_world *)user)->ranks, 1);
}

static const char *mpi_error(void *user) {
    return ((kn_mpi_world *)user)->error;
}

/* ---- starting and ending ------------------------------------------------------------------------------- */

kn_status kn_mpi_start(kn_mpi_world *self) {
    int is = 0, level = 0;
    if (MPI_Finalized(&is) != MPI_SUCCESS || is) {
        snprintf(self->error, sizeof self->error,
                 "MPI has been finalized in this process and cannot be initialized again");
        return KN_ERROR_UNSUPPORTED;
    }
    if (MPI_Initialized(&is) == MPI_SUCCESS && is) return KN_OK;
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    self->began = code == MPI_SUCCESS;
    if (self->began) {
        /* Some MPIs raise failures of waits on MPI_COMM_WORLD. */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        return KN_OK;
    }
    snprintf(self->error, sizeof self->error, "MPI_Init_thread failed with code %d", code);
    return KN_ERROR_COMMUNICATION;
}

int kn_mpi_duplicate(MPI_Comm ranks, MPI_Comm *made) {
    const int code = MPI_Comm_dup(ranks, made);
    return code == MPI_SUCCESS ? MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN) : code;
}

kn_status kn_mpi_find_ranks(kn_mpi_world *self, int *rank, int *ranks) {
    int code = kn_mpi_duplicate(MPI_COMM_WORLD, &self->ranks);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(self->ranks, rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(self->ranks, ranks);
    return code == MPI_SUCCESS ? KN_OK : kn_mpi_failed(self, "MPI's ranks", code);
}

/* Copies the fields that the caller's version of a communicator has, except the allocator. */
static void give(kn_communicator *communicator, const kn_communicator *made) {
    const size_t size = communicator->size;
    memcpy(communicator, made,
           size < offsetof(kn_communicator, allocator) ? size : offsetof(kn_communicator, allocator));
    communicator->size = size;
}

kn_status kn_mpi_create(kn_communicator *communicator, char *message, size_t size) {
    if (message && size) message[0] = '\0';
    if (!communicator || communicator->size < offsetof(kn_communicator, sum)) {
        if (message) snprintf(message, size, "expected a communicator whose size is set");
        return KN_ERROR_ARGUMENT;
    }
    kn_communicator made = {.send = mpi_send,
                            .receive = mpi_receive,
                            .wait = mpi_wait,
                            .abort = mpi_abort,
                            .error = mpi_error,
                            .sum = mpi_sum};
    give(communicator, &(kn_communicator){0});
    kn_mpi_world *self = calloc(1, sizeof *self);
    if (!self) {
        if (message) snprintf(message, size, "out of memory");
        return KN_ERROR_MEMORY;
    }
    kn_status status = kn_mpi_start(self);
    if (!status) status = kn_mpi_find_ranks(self, &made.rank, &made.ranks);
    if (status) {
        if (message) snprintf(message, size, "%s", self->error);
        free(self);
        return status;
    }
    made.user = self;
    give(communicator, &made);
    return KN_OK;
}

void kn_mpi_destroy(kn_communicator *communicator) {
    if (!communicator || communicator->size < offsetof(kn_communicator, sum) || !communicator->user) return;
    kn_mpi_world *self = communicator->user;
    if (!self->error[0]) {
        MPI_Comm_free(&self->ranks);
        if (self->began) MPI_Finalize();
    }
    free(self);
    give(communicator, &(kn_communicator){0});
}
