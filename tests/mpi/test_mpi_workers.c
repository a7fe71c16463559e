/* Processes of MPI with several workers each: process p has 1 + p % 3 of them, each a thread. Run by mpi.py
 * under mpirun. The word says at which level of threads this program begins MPI: multiple, serialized,
 * funneled; or `end`, where one worker ends all. A rank whose check fails prints the reason on stderr and
 * exits with 1. */
#include <koine/mpi.h>

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

enum { WORKERS_MOST = 3, RANKS_MOST = 6, TAG = KN_COMMUNICATOR_TAGS - 2 };

#define EXPECT(condition) EXPECT_OF(c, condition)

static bool ends;

/* Each rank sends to each one, itself included, with two tags: two messages with one of them, which must stay
 * in order. They are received in another order than sent, and have several pieces. */
static void exchange(const kn_communicator *c) {
    enum { NUMBERS = 700, MESSAGES = 3 };
    static const int tags[MESSAGES] = {TAG, 0, TAG};
    static int sent[RANKS_MOST][RANKS_MOST][MESSAGES][NUMBERS],
        got[RANKS_MOST][RANKS_MOST][MESSAGES][NUMBERS];
    void *sends[RANKS_MOST][MESSAGES], *receives[RANKS_MOST][MESSAGES];
    for (int other = 0; other < c->ranks; other++)
        for (int m = 0; m < MESSAGES; m++) {
            for (int i = 0; i < NUMBERS; i++)
                sent[c->rank][other][m][i] = (c->rank * 16 + other) * 16 + m;
            EXPECT(c->send(c->user, other, tags[m], sent[c->rank][other][m], sizeof sent[0][0][0],
                           &sends[other][m]) == KN_OK);
        }
    EXPECT(kn_barrier(c) == KN_OK);
    for (int other = c->ranks - 1; other >= 0; other--)
        for (int m = 0; m < MESSAGES; m++)
            EXPECT(c->receive(c->user, other, tags[m], got[c->rank][other][m], sizeof got[0][0][0],
                              &receives[other][m]) == KN_OK);
    for (int other = 0; other < c->ranks; other++)
        for (int m = MESSAGES - 1; m >= 0; m--) {
            EXPECT(c->wait(c->user, &receives[other][m]) == KN_OK && !receives[other][m]);
            EXPECT(c->wait(c->user, &sends[other][m]) == KN_OK && !sends[other][m]);
            for (int i = 0; i < NUMBERS; i++)
                EXPECT(got[c->rank][other][m][i] == (other * 16 + c->rank) * 16 + m);
        }
    EXPECT(c->wait(c->user, &sends[0][0]) == KN_OK); /* complete */
    EXPECT(!strcmp(c->error(c->user), ""));
}

static void *work(void *argument) {
    const kn_communicator *c = argument;
    static const size_t counts[] = {0, 1, 5, 2049, 30011};
    if (ends && c->rank == c->ranks - 1) c->abort(c->user, "a test");
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        sum_and_gather(c, counts[k]);
    exchange(c);
    EXPECT(kn_barrier(c) == KN_OK);
    if (c->rank == 0) printf("%d workers\n", c->ranks);
    return NULL;
}

/* After the others: a rank that is not there ends this worker's end, and MPI does not end. */
static void no_such_rank(const kn_communicator *c) {
    void *request = NULL;
    EXPECT(c->send(c->user, c->ranks, 0, &request, 1, &request) == KN_ERROR_ARGUMENT && !request);
    EXPECT(strstr(c->error(c->user), "a message of 1 bytes to rank"));
    EXPECT(c->receive(c->user, 0, 0, &request, 1, &request) == KN_ERROR_CANCELLED && !request);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const int wanted = !strcmp(what, "serialized") ? MPI_THREAD_SERIALIZED
                       : !strcmp(what, "funneled") ? MPI_THREAD_FUNNELED
                                                   : MPI_THREAD_MULTIPLE;
    int level, process, count;
    char error[512] = "";
    ends = !strcmp(what, "end");
    if (MPI_Init_thread(NULL, NULL, wanted, &level) || MPI_Comm_rank(MPI_COMM_WORLD, &process)) return 1;
    count = 1 + process % WORKERS_MOST;
    kn_group *group;
    const kn_communicator *within[WORKERS_MOST];
    pthread_t threads[WORKERS_MOST];
    kn_mpi_workers *workers;
    if (kn_group_create(count, NULL, &group)) return 1;
    for (int i = 0; i < count; i++)
        within[i] = kn_group_communicator(group, i);
    if (kn_mpi_workers_create(within, count - 1, &workers, error, sizeof error) != KN_ERROR_ARGUMENT ||
        workers || !error[0] || kn_mpi_workers_communicator(NULL, 0) ||
        kn_mpi_workers_create(NULL, 0, NULL, NULL, 0) != KN_ERROR_ARGUMENT)
        return 1;
    const kn_status status = kn_mpi_workers_create(within, count, &workers, error, sizeof error);
    if (status && process == 1) puts(error);
    fflush(stdout);
    if (status) _exit(1);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work,
                           (void *)(uintptr_t)kn_mpi_workers_communicator(workers, i)))
            return 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    if (!strcmp(what, "missing") && process == 0) no_such_rank(kn_mpi_workers_communicator(workers, 0));
    if (kn_mpi_workers_communicator(workers, count) || kn_mpi_workers_communicator(workers, -1)) return 1;
    kn_mpi_workers_destroy(&workers);
    kn_mpi_workers_destroy(&workers);
    kn_group_destroy(&group);
    return workers || MPI_Finalize() != MPI_SUCCESS;
}
