/* Workers that are MPI processes, run by mpi.py under mpirun. The first word selects the test; a rank that
 * fails prints the reason to stderr and exits with 1. */
#include <koine/mpi.h>

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

static kn_communicator c = {.size = sizeof c};

#define EXPECT(condition) EXPECT_OF(&c, condition)

static void open_ranks(void) {
    char error[512] = "";
    if (kn_mpi_create(&c, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        _exit(1);
    }
}

/* ---- all ranks together ------------------------------------------------------------------------------- */

static void collect(void) {
    static const size_t counts[] = {0, 1, 5, 2049, 100003};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        sum_and_gather(&c, counts[k]);
    EXPECT(kn_barrier(&c) == KN_OK);
    /* MPI's sum, in any order: it is exact for small integers. It is split like messages. */
    enum { COUNT = 3001 };
    float numbers[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(i + c.rank);
    EXPECT(c.sum(c.user, numbers, COUNT) == KN_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT(numbers[i] == (float)(c.ranks * i + c.ranks * (c.ranks - 1) / 2));
}

/* ---- messages ----------------------------------------------------------------------------------------- */

/* To the next rank, some expected before they can have come, in another order of tags. Sizes are 0, one
 * piece, many. */
static void exchange(void) {
    static const size_t sizes[] = {0, 1, 999, 1000, 1001, 54321};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    const int to = (c.rank + 1) % c.ranks, from = (c.rank + c.ranks - 1) % c.ranks;
    unsigned char *sent[COUNT], *got[COUNT];
    void *sends[COUNT], *receives[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sent[i] = malloc(sizes[i] + 1);
        got[i] = malloc(sizes[i] + 1);
        EXPECT(sent[i] && got[i]);
        memset(sent[i], 16 * i + c.rank, sizes[i] + 1);
        memset(got[i], 255, sizes[i] + 1);
    }
    for (int i = 1; i < COUNT; i += 2)
        EXPECT(c.receive(c.user, from, KN_COMMUNICATOR_TAGS - 2, got[i], sizes[i], &receives[i]) == KN_OK);
    EXPECT(kn_barrier(&c) == KN_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT(c.send(c.user, to, i % 2 ? KN_COMMUNICATOR_TAGS - 2 : 0, sent[i], sizes[i], &sends[i]) ==
               KN_OK);
    for (int i = 0; i < COUNT; i += 2)
        EXPECT(c.receive(c.user, from, 0, got[i], sizes[i], &receives[i]) == KN_OK);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(c.wait(c.user, &receives[i]) == KN_OK && !receives[i]);
        EXPECT(c.wait(c.user, &sends[i]) == KN_OK && !sends[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            EXPECT(got[i][k] == 16 * i + from);
        EXPECT(got[i][sizes[i]] == 255);
        free(sent[i]);
        free(got[i]);
    }
    EXPECT(c.wait(c.user, &sends[0]) == KN_OK); /* complete */
    EXPECT(!strcmp(c.error(c.user), ""));
}

/* ---- failures ------------------------------------------------------------------------------------------ */

/* A message of a different size than expected; then every call fails. Two ranks. */
static void mismatch(size_t sent, size_t expected, const char *says) {
    char data[200] = {0};
    void *request = NULL, *other = NULL;
    if (c.rank == 1) {
        EXPECT(c.send(c.user, 0, 5, data, sent, &request) == KN_OK);
        EXPECT(c.wait(c.user, &request) == KN_OK);
        return;
    }
    EXPECT(c.receive(c.user, 1, 6, data, 10, &other) == KN_OK);
    EXPECT(c.receive(c.user, 1, 5, data, expected, &request) == KN_OK);
    EXPECT(c.wait(c.user, &request) == KN_ERROR_COMMUNICATION && !request);
    EXPECT(strstr(c.error(c.user), "from rank 1 with the tag 5") && strstr(c.error(c.user), says));
    EXPECT(c.send(c.user, 1, 0, data, 1, &request) == KN_ERROR_CANCELLED && !request);
    EXPECT(c.sum(c.user, (float *)data, 1) == KN_ERROR_CANCELLED);
    EXPECT(c.wait(c.user, &other) == KN_ERROR_CANCELLED && !other); /* which never arrives */
    EXPECT(strstr(c.error(c.user), "with the tag 5"));
    puts("it said so");
}

static void no_such_rank(void) {
    void *request = NULL;
    EXPECT(c.send(c.user, c.ranks, 0, &c, 1, &request) == KN_ERROR_COMMUNICATION && !request);
    EXPECT(strstr(c.error(c.user), "a message of 1 bytes to rank"));
    EXPECT(kn_barrier(&c) == (c.ranks == 1 ? KN_OK : KN_ERROR_CANCELLED));
    if (c.rank == 0) puts("it said so");
}

/* The last rank ends all, which wait for it. */
static void end_all(void) {
    if (c.rank == c.ranks - 1) c.abort(c.user, "a test");
    kn_barrier(&c);
    puts("still here");
}

/* Opening and closing, with nothing, twice, and within a program that has begun MPI itself. */
static void life(bool begun) {
    char error[512] = "";
    kn_communicator unsized = {0}, other = {.size = sizeof other};
    EXPECT(kn_mpi_create(NULL, error, sizeof error) == KN_ERROR_ARGUMENT && error[0]);
    EXPECT(kn_mpi_create(&unsized, NULL, 0) == KN_ERROR_ARGUMENT);
    kn_mpi_destroy(NULL);
    kn_mpi_destroy(&unsized);
    kn_mpi_destroy(&other);
    if (begun) EXPECT(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    open_ranks();
    kn_communicator old = {.size = offsetof(kn_communicator, sum)}; /* of an older program */
    EXPECT(kn_mpi_create(&old, error, sizeof error) == KN_OK && !error[0] && !old.sum && old.send);
    EXPECT(old.rank == c.rank && old.ranks == c.ranks && old.user != c.user);
    kn_mpi_destroy(&old);
    EXPECT(!old.user && old.size == offsetof(kn_communicator, sum));
    EXPECT(kn_barrier(&c) == KN_OK);
    kn_mpi_destroy(&c);
    int ended = 0;
    EXPECT(MPI_Finalized(&ended) == MPI_SUCCESS && ended == !begun);
    if (begun) {
        EXPECT(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
        EXPECT(MPI_Finalize() == MPI_SUCCESS);
    }
    EXPECT(kn_mpi_create(&other, error, sizeof error) == KN_ERROR_UNSUPPORTED);
    EXPECT(strstr(error, "cannot be initialized again") && !other.user);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strncmp(what, "life", 4)) {
        life(!strcmp(what, "life-within"));
        return 0;
    }
    open_ranks();
    if (!strcmp(what, "collect")) collect();
    if (!strcmp(what, "exchange")) exchange();
    if (!strcmp(what, "more")) mismatch(100, 40, ":");
    if (!strcmp(what, "fewer")) mismatch(40, 100, "fewer bytes arrived");
    if (!strcmp(what, "missing")) no_such_rank();
    if (!strcmp(what, "end")) end_all();
    if (c.rank == 0) printf("%d ranks\n", c.ranks);
    kn_mpi_destroy(&c);
    return 0;
}
