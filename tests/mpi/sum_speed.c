/* How long sums of all ranks take, against MPI's own, in turn:
 *
 *     mpirun -n 2 build/tests/mpi/sum-speed [MEGABYTES [TIMES]]     processes; kn_all_reduce, then
 * MPI_Allreduce build/tests/mpi/sum-speed [MEGABYTES [TIMES [THREADS]]]       threads of one process
 *
 * Prints medians of the slowest rank's milliseconds. No test runs it. */
#include <koine/mpi.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

enum { MAX_TIMES = 101, MAX_THREADS = 64 };

static size_t count = 25000000;
static int times = 11;

static int compare(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *seconds) {
    qsort(seconds, (size_t)times, sizeof *seconds, compare);
    return 1e3 * seconds[times / 2];
}

static float *memory(void) {
    float *data = malloc(count * sizeof *data);
    if (!data) exit(1);
    for (size_t i = 0; i < count; i++)
        data[i] = 1.0f;
    return data;
}

/* From a barrier to the end of the slowest rank. */
static double seconds_of(const kn_communicator *c, kn_status (*sum)(void *, float *, size_t), float *data) {
    if (kn_barrier(c)) exit(1);
    const double begin = kn_clock();
    if (sum ? sum(c->user, data, count) : kn_all_reduce(c, data, count)) exit(1);
    if (kn_barrier(c)) exit(1);
    return kn_clock() - begin;
}

static int processes(void) {
    kn_communicator c = {.size = sizeof c};
    char error[512];
    if (kn_mpi_create(&c, error, sizeof error)) return puts(error), 1;
    float *data = memory();
    double own[MAX_TIMES], theirs[MAX_TIMES];
    seconds_of(&c, NULL, data);
    seconds_of(&c, c.sum, data);
    for (int i = 0; i < times; i++) {
        own[i] = seconds_of(&c, NULL, data);
        theirs[i] = seconds_of(&c, c.sum, data);
    }
    const double a = median(own), b = median(theirs);
    if (c.rank == 0)
        printf("%d processes, %.0f MB: kn_all_reduce %.1f ms, MPI_Allreduce %.1f ms, %.2f times\n", c.ranks,
               (double)count * 4e-6, a, b, a / b);
    free(data);
    kn_mpi_destroy(&c);
    return 0;
}

static double taken[MAX_TIMES];

static void one_thread(void *argument) {
    const kn_communicator *c = argument;
    float *data = memory();
    seconds_of(c, NULL, data);
    for (int i = 0; i < times; i++) {
        const double seconds = seconds_of(c, NULL, data);
        if (c->rank == 0) taken[i] = seconds;
    }
    free(data);
}

static int threads(int ranks) {
    const kn_host host = kn_host_defaults();
    kn_group *group = NULL;
    kn_thread *running[MAX_THREADS];
    if (kn_group_create(ranks, NULL, &group)) return 1;
    for (int r = 0; r < ranks; r++)
        running[r] = kn_thread_start(&host, one_thread, (void *)(uintptr_t)kn_group_communicator(group, r));
    for (int r = 0; r < ranks; r++)
        kn_thread_join(&host, &running[r]);
    kn_group_destroy(&group);
    printf("%d threads, %.0f MB: kn_all_reduce %.1f ms\n", ranks, (double)count * 4e-6, median(taken));
    return 0;
}

int main(int argc, char **argv) {
    const int ranks = argc > 3 ? atoi(argv[3]) : 0;
    if (argc > 1) count = (size_t)(atof(argv[1]) * 0.25e6);
    if (argc > 2) times = atoi(argv[2]);
    if (count < 1 || times < 1 || times > MAX_TIMES || ranks < 0 || ranks > MAX_THREADS) return 2;
    return ranks ? threads(ranks) : processes();
}
