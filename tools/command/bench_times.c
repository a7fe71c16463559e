/* Timing of the benchmarks, and printing. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

double bench_start;

uint64_t bench_peak_rss(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return (uint64_t)usage.ru_maxrss;
#else
    return (uint64_t)usage.ru_maxrss * 1024;
#endif
}

/* If the system does not report the current memory, the peak so far. */
uint64_t bench_rss(void) {
    unsigned long long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    bool known = file && fscanf(file, "%llu %llu", &all, &resident) == 2;
    if (file) fclose(file);
    return known ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : bench_peak_rss();
}

bool bench_measure(bool (*step)(void *user), void *user, double seconds, bench_times *times) {
    times->count = 0;
    for (int i = 0; i < 4; i++) {
        progress_now("warming up");
        if (!step(user)) return false;
        if (i > 0) continue;
        times->first = clock_now() - bench_start;
        precompile_end();
    }
    double begin = clock_now(), now = begin;
    while ((times->count < 5 || now - begin < seconds) && times->count < BENCH_MAX_STEPS) {
        double before = now;
        if (!step(user)) return false;
        now = clock_now();
        times->seconds[times->count++] = now - before;
    }
    return true;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    return count % 2 ? seconds[count / 2] : 0.5 * (seconds[count / 2 - 1] + seconds[count / 2]);
}

void bench_summary(bench_times *times, double *median, double *best, double *p99) {
    const int count = times->count;
    *median = bench_median(times->seconds, count);
    *best = times->seconds[0];
    *p99 = times->seconds[(int)(0.99 * (count - 1) + 0.5)];
}

static void field(const char *name) {
    printf(", \"%s\": ", name);
}

void bench_print_json(const bench_result *result, bench_times *times) {
    double median, best, p99;
    bench_summary(times, &median, &best, &p99);
    progress_clear();
    fputs("{\"case\": ", stdout);
    json_text(stdout, result->name);
    printf(", \"mode\": \"%s\", \"math\": \"%s\", \"precision\": \"%s\", \"batch\": %lld, \"device\": ",
           result->mode, result->math, result->precision, (long long)result->batch);
    json_text(stdout, result->device);
    const struct {
        const char *name;
        double number;
    } measures[] = {{"median_ms", 1e3 * median},
                    {"best_ms", 1e3 * best},
                    {"p99_ms", 1e3 * p99},
                    {"per_s", (double)result->batch / median},
                    {"gflops", result->flops / median * 1e-9},
                    {"first_s", times->first}};
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        field(measures[i].name);
        json_measure(stdout, measures[i].number);
    }
    field("loss");
    json_float(stdout, result->loss);
    field("kernels");
    json_count(stdout, result->kernels);
    field("plan_bytes");
    json_count(stdout, result->plan_bytes);
    field("rss_base_bytes");
    json_count(stdout, result->rss_base_bytes);
    field("rss_peak_bytes");
    json_count(stdout, bench_peak_rss());
    field("n");
    json_count(stdout, (uint64_t)times->count);
}
