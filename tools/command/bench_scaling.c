/* koine bench MODEL --scaling: predicts training speed on more workers with a model of the step. Its terms
 * are measured here, with threads of this process on one device or with mpirun processes. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "ranks.h"
#include "scaling.h"

enum {
    ROUNDS = 30,
    FEW = 5,
    BURST = 32, /* concurrent messages */
    SMALL = 4,
    LARGE = 4 << 20, /* bytes per bucket, as in src/run/totals.c */
    MAX_RANKS = 1024,
    TAG = 7
};

/* One worker and its measurements. */
typedef struct scaling_worker {
    const char *name;
    bench_options options;
    kn_communicator all;
    scaling_terms terms;
    double measured;
    int64_t batch;
    bool good;
} scaling_worker;

/* The maximum over all workers; NaN after a failure. */
static double largest(const kn_communicator *all, double own) {
    double *every = calloc((size_t)all->ranks, sizeof *every), most = NAN;
    if (every && kn_all_gather(all, &own, every, sizeof own) == KN_OK) most = every[0];
    for (int r = 1; r < all->ranks && !isnan(most); r++)
        most = fmax(most, every[r]);
    free(every);
    return most;
}

/* ---- the link ------------------------------------------------------------------------------------------ */

/* Sends `count` messages to one rank while receiving as many from another (-1: none), and waits for all of
 * them. */
static bool exchange(const kn_communicator *all, int to, int from, char *out, char *in, size_t bytes,
                     int count) {
    void *requests[2 * BURST] = {NULL};
    bool good = true;
    int used = 0;
    for (int i = 0; i < count && from >= 0; i++)
        good = good && !all->receive(all->user, from, TAG, in, bytes, &requests[used++]);
    for (int i = 0; i < count && to >= 0; i++)
        good = good && !all->send(all->user, to, TAG, out, bytes, &requests[used++]);
    for (int i = 0; i < used; i++)
        good = !all->wait(all->user, &requests[i]) && good;
    return good;
}

/* Half the round-trip time of `count` messages between ranks 0 and 1; other ranks do nothing. */
static bool half_round(const kn_communicator *all, char *out, char *in, int count, double *seconds) {
    double times[ROUNDS];
    bool good = true;
    for (int i = 0; i < ROUNDS && good && all->rank < 2; i++) {
        const double begin = clock_now();
        if (all->rank == 0)
            good = exchange(all, 1, -1, out, in, SMALL, count) && exchange(all, -1, 1, out, in, SMALL, count);
        else
            good = exchange(all, -1, 0, out, in, SMALL, count) && exchange(all, 0, -1, out, in, SMALL, count);
        times[i] = (clock_now() - begin) / 2;
    }
    *seconds = all->rank < 2 && good ? bench_median(times, ROUNDS) : 0;
    return good && !kn_barrier(all);
}

/* Each rank sends to the next rank and receives from the previous one. */
static bool measure_link(scaling_worker *own) {
    const kn_communicator *all = &own->all;
    const int next = (all->rank + 1) % all->ranks, before = (all->rank + all->ranks - 1) % all->ranks;
    char *out = calloc(1, LARGE), *in = calloc(1, LARGE);
    double burst = 0, times[FEW], adds[FEW];
    bool good = out && in && !kn_barrier(all) && half_round(all, out, in, 1, &own->terms.latency) &&
                half_round(all, out, in, BURST, &burst);
    for (int i = 0; i < FEW && good; i++) {
        good = !kn_barrier(all);
        const double begin = clock_now();
        good = good && exchange(all, next, before, out, in, LARGE, 1);
        times[i] = clock_now() - begin;
    }
    for (int i = 0; i < FEW && good; i++) {
        float *left = (float *)(void *)out, *right = (float *)(void *)in;
        const double begin = clock_now();
        for (size_t k = 0; k < LARGE / sizeof *left; k++)
            left[k] += right[k];
        adds[i] = (clock_now() - begin) / LARGE;
    }
    own->terms.latency = largest(all, own->terms.latency);
    own->terms.message = fmax(0, (largest(all, burst) - own->terms.latency) / (BURST - 1));
    const double large = good ? largest(all, bench_median(times, FEW)) : NAN;
    own->terms.bandwidth = LARGE / fmax(large - own->terms.latency, 1e-9);
    own->terms.add = good ? largest(all, bench_median(adds, FEW)) : NAN;
    free(out);
    free(in);
    return good && own->terms.bandwidth > 0;
}

/* ---- a worker ------------------------------------------------------------------------------------------ */

static bool find(scaling_worker *own) {
    bench_among among = {.all = &own->all};
    scaling_terms *terms = &own->terms;
    terms->backward = 2.0 / 3;
    terms->bucket_bytes = LARGE;
    if (!measure_link(own))
        return command_error("the link between the workers: %s", own->all.error(own->all.user));
    if (!bench_model_among(own->name, &own->options, &among)) return false;
    own->batch = among.batch;
    terms->gradient_bytes = (double)among.parameters * sizeof(float);
    terms->transfer = largest(&own->all, among.transfer);
    terms->compute = largest(&own->all, among.alone);
    own->measured = largest(&own->all, among.together);
    return terms->compute > 0 && own->measured > 0;
}

static void *work(void *argument) {
    scaling_worker *own = argument;
    own->good = find(own);
    if (!own->good) own->all.abort(own->all.user, "a worker has failed");
    return NULL;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static void print_json(const scaling_worker *own) {
    const scaling_terms *terms = &own->terms;
    const int ranks = own->all.ranks;
    printf("{\"case\": ");
    json_text(stdout, own->name);
    printf(
        ", \"mode\": \"scaling\", \"batch\": %lld, \"ranks\": %d, \"compute_ms\": %.6g, \"gradient_bytes\": "
        "%.0f, \"latency_us\": %.6g, \"message_us\": %.6g, \"bandwidth_gb_s\": %.6g, \"add_gb_s\": %.6g, "
        "\"transfer_ms\": %.6g, \"predicted_ms\": %.6g, \"measured_ms\": %.6g, \"extrapolated\": [",
        (long long)own->batch, ranks, 1e3 * terms->compute, terms->gradient_bytes, 1e6 * terms->latency,
        1e6 * terms->message, 1e-9 * terms->bandwidth, 1e-9 / terms->add,
        1e3 * terms->transfer * terms->gradient_bytes, 1e3 * scaling_step(terms, SCALING_SLICES, ranks),
        1e3 * own->measured);
    for (int n = 2; n <= MAX_RANKS; n *= 2) {
        printf("%s{\"ranks\": %d", n > 2 ? ", " : "", n);
        for (scaling_way way = 0; way < SCALING_WAYS; way++)
            printf(", \"%s_ms\": %.6g", scaling_names[way], 1e3 * scaling_step(terms, way, n));
        printf("}");
    }
    printf("]}\n");
}

static void print_text(const scaling_worker *own) {
    const scaling_terms *terms = &own->terms;
    const int ranks = own->all.ranks;
    const double predicted = scaling_step(terms, SCALING_SLICES, ranks);
    progress_clear();
    printf("%s scaling, batch %lld for each of %d workers\n", own->name, (long long)own->batch, ranks);
    printf("  compute     %10.3f ms a step of one worker, while all compute; the backward pass is taken for "
           "2/3\n",
           1e3 * terms->compute);
    printf("  gradients   %10.3f MB in buckets of %.1f MB, during the backward pass\n",
           1e-6 * terms->gradient_bytes, 1e-6 * terms->bucket_bytes);
    printf("  latency     %10.3f us a message, and %.3f us for each more at the same time\n",
           1e6 * terms->latency, 1e6 * terms->message);
    printf("  bandwidth   %10.3f GB/s each way; sums at %.3f GB/s on the host\n", 1e-9 * terms->bandwidth,
           1e-9 / terms->add);
    printf("  transfer    %10.3f ms of all gradients from the device, and of the sums back\n",
           1e3 * terms->transfer * terms->gradient_bytes);
    printf("  a step      %10.3f ms predicted, %.3f ms measured (%+.1f%%); efficiency %.0f%%\n",
           1e3 * predicted, 1e3 * own->measured, 100 * (own->measured / predicted - 1),
           100 * terms->compute / own->measured);
    printf("\nextrapolated, with as many samples for each worker: ms a step (efficiency)\n");
    printf("%7s%22s%22s%22s\n", "workers", "slices (Koine)", "ring", "tree");
    for (int n = 2; n <= MAX_RANKS; n *= 2) {
        printf("%7d", n);
        for (scaling_way way = 0; way < SCALING_WAYS; way++) {
            const double step = scaling_step(terms, way, n);
            printf("%15.3f (%3.0f%%)", 1e3 * step, 100 * terms->compute / step);
        }
        printf("\n");
    }
}

/* ---- the workers --------------------------------------------------------------------------------------- */

static bool by_processes(scaling_worker *own) {
    char reason[512] = "";
    own->all = (kn_communicator){.size = sizeof own->all};
    if (ranks_open(&own->all, reason, sizeof reason)) return command_error("%s", reason);
    const unsigned ranks = (unsigned)own->all.ranks;
    if (ranks & (ranks - 1))
        command_fail("%u processes; --scaling expects a power of two, so that all have equal parts", ranks);
    else
        own->good = find(own);
    if (!own->good) own->all.abort(own->all.user, "a rank has failed");
    if (own->all.rank == 0 && own->good) (own->options.common.json ? print_json : print_text)(own);
    fflush(stdout);
    ranks_close(&own->all);
    return own->good;
}

static bool by_threads(const char *name, const bench_options *options, int count) {
    scaling_worker workers[BENCH_WORKERS];
    pthread_t threads[BENCH_WORKERS];
    kn_group *group = NULL;
    bool good = kn_group_create(count, NULL, &group) == KN_OK;
    int started = 0;
    if (!good) command_fail("out of memory");
    for (; started < count && good; started += good) {
        workers[started] = (scaling_worker){
            .name = name, .options = *options, .all = *kn_group_communicator(group, started)};
        good = !pthread_create(&threads[started], NULL, work, &workers[started]);
        if (!good) {
            command_fail("a thread could not be started");
            workers[started].all.abort(workers[started].all.user, "a thread could not be started");
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        good = good && workers[i].good;
    }
    if (good) (options->common.json ? print_json : print_text)(&workers[0]);
    kn_group_destroy(&group);
    return good;
}

int bench_scaling(const char *name, const bench_options *options, int workers) {
    scaling_worker own = {.name = name, .options = *options};
    const bool good =
        ranks_of_environment(NULL) < 2 ? by_threads(name, options, workers) : by_processes(&own);
    return good ? EXIT_DONE : EXIT_FAILED;
}
