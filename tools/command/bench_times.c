/* Timing for the benchmarks. */
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "bench.h"

double bench_start;

double bench_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double bench_peak_rss(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024;
}

bool bench_measure(bool (*step)(void *user), void *user, bench_times *times) {
    times->count = 0;
    for (int i = 0; i < 4; i++) {
        if (!step(user)) return false;
        if (i == 0) times->first = bench_now() - bench_start;
    }
    double begin = bench_now();
    while ((times->count < 5 || bench_now() - begin < 3) && times->count < BENCH_MOST) {
        double before = bench_now();
        if (!step(user)) return false;
        times->seconds[times->count++] = bench_now() - before;
    }
    return true;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void bench_summary(bench_times *times, double *median, double *best, double *p99) {
    int count = times->count;
    qsort(times->seconds, (size_t)count, sizeof *times->seconds, compare);
    *best = times->seconds[0];
    *median = count % 2 ? times->seconds[count / 2]
                        : 0.5 * (times->seconds[count / 2 - 1] + times->seconds[count / 2]);
    *p99 = times->seconds[(int)(0.99 * (count - 1) + 0.5)];
}
