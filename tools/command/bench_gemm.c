/* The matrix product on the device, compared with a plain C loop. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auto.h"
#include "bench.h"

typedef struct gemm_bench {
    kn_graph *graph;
    kn_session *session;
    int64_t m, n, k;
} gemm_bench;

/* Rows begin to end of c (m,n) = a (m,k) times b (k,n), computed by one thread. */
typedef struct plain_chunk {
    const float *a, *b;
    float *c;
    int64_t n, k, begin, end;
} plain_chunk;

static void *plain_rows(void *user) {
    const plain_chunk *share = user;
    for (int64_t i = share->begin; i < share->end; i++) {
        float *row = share->c + i * share->n;
        memset(row, 0, (size_t)share->n * sizeof *row);
        for (int64_t p = 0; p < share->k; p++) {
            float factor = share->a[i * share->k + p];
            const float *other = share->b + p * share->n;
            for (int64_t j = 0; j < share->n; j++)
                row[j] += factor * other[j];
        }
    }
    return NULL;
}

enum { PLAIN_FLOPS = 1 << 30 };

/* The number of rows of the result that are computed in plain C: fewer than all if that takes seconds. */
static int64_t plain_rows_of(int64_t m, int64_t n, int64_t k, int threads) {
    const double rows = (double)PLAIN_FLOPS * threads / (2.0 * (double)n * (double)k);
    return rows >= (double)m ? m : rows < threads ? (threads < m ? threads : m) : (int64_t)rows;
}

/* Seconds per product on `threads` threads. */
static double plain_seconds(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
                            int threads) {
    pthread_t handles[64];
    plain_chunk chunks[64];
    int started = 0;
    const int64_t rows = plain_rows_of(m, n, k, threads);
    double begin = clock_now();
    for (int t = 0; t < threads; t++) {
        chunks[t] = (plain_chunk){a, b, c, n, k, rows * t / threads, rows * (t + 1) / threads};
        if (t + 1 < threads && !pthread_create(&handles[started], NULL, plain_rows, &chunks[t]))
            started++;
        else
            plain_rows(&chunks[t]);
    }
    for (int t = 0; t < started; t++)
        pthread_join(handles[t], NULL);
    return (clock_now() - begin) * (double)m / (double)rows;
}

static bool step(void *user) {
    gemm_bench *bench = user;
    if (kn_session_run(bench->session, NULL, 0, NULL, 0) == KN_OK && kn_session_wait(bench->session) == KN_OK)
        return true;
    return command_error("%s", kn_session_error(bench->session));
}

/* Both factors are states, so that each step times only the product. */
static bool prepare(void *user, kn_context *context) {
    gemm_bench *bench = user;
    int64_t m = bench->m, n = bench->n, k = bench->k;
    char a[48], b[48];
    kn_session_params params;
    snprintf(a, sizeof a, "%lld,%lld", (long long)m, (long long)k);
    snprintf(b, sizeof b, "%lld,%lld", (long long)k, (long long)n);
    bench->graph = kn_graph_create(NULL);
    kn_value *product = kn_matmul(kn_parameter(bench->graph, "a", KN_FLOAT32, a, NULL),
                                  kn_parameter(bench->graph, "b", KN_FLOAT32, b, NULL), false, false);
    kn_session_params_init(&params);
    params.switches = "invariant=recompute";
    bench->session = kn_session_create(context, &product, 1, &params);
    if (kn_session_status(bench->session) == KN_OK) return true;
    return command_error("%s", bench->session ? kn_session_error(bench->session) : "out of memory");
}

/* Best seconds of the plain product on one core and on all cores. */
static void compare_plain(int64_t m, int64_t n, int64_t k, double *one, double *all, int *cores) {
    float *a = malloc((size_t)(m * k) * sizeof *a), *b = malloc((size_t)(k * n) * sizeof *b);
    float *c = malloc((size_t)(m * n) * sizeof *c);
    *cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (*cores < 1) *cores = 1;
    if (*cores > 64) *cores = 64;
    *one = *all = NAN;
    if (a && b && c) {
        for (int64_t i = 0; i < m * k; i++)
            a[i] = (float)(i % 17) * 0.1f;
        for (int64_t i = 0; i < k * n; i++)
            b[i] = (float)(i % 13) * 0.1f;
        double begin = clock_now();
        for (int turn = 0; turn < 3 && (!turn || clock_now() - begin < 3); turn++) {
            progress_now("the same in plain C");
            *one = fmin(*one, plain_seconds(a, b, c, m, n, k, 1));
            *all = fmin(*all, plain_seconds(a, b, c, m, n, k, *cores));
        }
    }
    free(a);
    free(b);
    free(c);
}

static void print_text(bench_times *times, const bench_result *result, const bench_power *power,
                       const int64_t *sizes, double one, double all, int cores) {
    double median, best, p99;
    bench_summary(times, &median, &best, &p99);
    progress_clear();
    printf(
        "gemm %lld x %lld x %lld: %.3f ms (best %.3f, p99 %.3f), %.1f GFLOP/s; plain C takes %.1f times as "
        "long on one core, %.1f times on %d\n",
        (long long)sizes[0], (long long)sizes[1], (long long)sizes[2], 1e3 * median, 1e3 * best, 1e3 * p99,
        result->flops / median * 1e-9, one / median, all / median, cores);
    bench_power_text(power, 1 / median);
}

static void print_json(bench_times *times, const bench_result *result, const bench_power *power,
                       const int64_t *sizes, double one, double all, int cores) {
    double median, best, p99;
    bench_summary(times, &median, &best, &p99);
    bench_print_json(result, times);
    bench_power_json(power, 1 / median);
    printf(", \"sizes\": [%lld, %lld, %lld], \"times_plain_one_core\": ", (long long)sizes[0],
           (long long)sizes[1], (long long)sizes[2]);
    json_measure(stdout, one / median);
    printf(", \"times_plain_all_cores\": ");
    json_measure(stdout, all / median);
    printf(", \"cores\": %d}\n", cores);
}

static void finish(void *user) {
    gemm_bench *bench = user;
    kn_session_destroy(&bench->session);
    kn_graph_destroy(&bench->graph);
}

static int bench(const bench_options *given, int64_t m, int64_t n, int64_t k) {
    bench_options own = *given;
    const common_options *common = &own.common;
    gemm_bench gemm = {.m = m, .n = n, .k = k};
    auto_trial trial = {"a product of what is on the device", NULL, &gemm, prepare, step, finish};
    if (!device_auto(&own.common, &trial)) return EXIT_FAILED;
    if (device_is_auto(&given->common)) bench_start = clock_now();
    kn_context *context = context_open(common);
    static bench_times times;
    kn_plan_info info = {.size = sizeof info};
    uint64_t base = bench_rss();
    int status = EXIT_FAILED, cores = 1;
    if (context && prepare(&gemm, context) && bench_measure(step, &gemm, own.seconds, &times) &&
        bench_power_measure(&own.power, kn_context_device(context), step, &gemm, own.seconds, 1) &&
        kn_session_plan(gemm.session, &info) == KN_OK) {
        const int64_t sizes[3] = {m, n, k};
        bench_result result = {.name = "gemm",
                               .mode = "infer",
                               .math = common->arithmetic.exact ? "exact" : "fast",
                               .precision = common->precision ? common->precision : "float32",
                               .device = kn_context_device(context)->name,
                               .batch = 1,
                               .flops = 2.0 * (double)m * (double)n * (double)k,
                               .loss = NAN,
                               .kernels = (uint64_t)info.kernels,
                               .plan_bytes = info.peak_bytes,
                               .rss_base_bytes = base};
        double one, all;
        compare_plain(m, n, k, &one, &all, &cores);
        (common->json ? print_json : print_text)(&times, &result, &own.power, sizes, one, all, cores);
        status = EXIT_DONE;
    }
    finish(&gemm);
    kn_context_destroy(&context);
    return status;
}

static int run(int count, char **arguments) {
    bench_options options = BENCH_DEFAULTS;
    uint64_t size = 1024, sizes[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const option rows[] = {
        HEADING("product"),
        {"size", OPTION_COUNT, "N", "all three sizes (1024)", &size},
        {"m", OPTION_COUNT, "N", "rows of the result", &sizes[0]},
        {"n", OPTION_COUNT, "N", "columns of the result", &sizes[1]},
        {"k", OPTION_COUNT, "N", "length of the dot products", &sizes[2]},
        {"seconds", OPTION_NUMBER, "S", "minimum measuring time after the warm-up (3)", &options.seconds},
        HEADING("energy"),
        POWER_OPTIONS(options.power),
        HEADING("device"),
        MATH_OPTIONS(options.common),
        KERNEL_OPTIONS(options.common),
        COMMON_OPTIONS(options.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    bench_start = clock_now();
    if (!options_read(&command_bench_gemm, rows, count, arguments, words, &word_count, 0, &status) ||
        (status = bench_check(&options, 3)) != EXIT_DONE)
        return status;
    for (int i = 0; i < 3; i++) {
        if (sizes[i] == UINT64_MAX) sizes[i] = size;
        if (sizes[i] < 1 || sizes[i] > 32768)
            return command_misuse("a size is %llu; expected 1 to 32768", (unsigned long long)sizes[i]);
    }
    return bench(&options, (int64_t)sizes[0], (int64_t)sizes[1], (int64_t)sizes[2]);
}

const command command_bench_gemm = {"bench-gemm",
                                    "time a matrix product",
                                    "[--size N] [--OPTION …]",
                                    "size m n k seconds precision device json",
                                    "koine bench-gemm --size 512\n"
                                    "koine bench-gemm --m 64 --n 1024 --k 1024",
                                    "Times the product of an m x k and a k x n matrix, and compares it with "
                                    "a plain C loop on one core and on\n"
                                    "all cores.",
                                    run};
