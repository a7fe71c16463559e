/* What the machine does at most: multiply-adds from registers, and reading memory, on THREADS threads.
 *
 *     cc -O3 -march=native -ffp-contract=fast -pthread probe.c -o probe && ./probe 2
 *
 * prints GFLOP/s and GB/s. With MEGABYTES after the threads so much memory is read (256; 0: none). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

enum { SUMS = 12, ROUNDS = 1 << 23, MAX_THREADS = 256 };

typedef struct share {
    pthread_t thread;
    const lanes *memory;
    size_t count;
    float result;
} share;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *multiply(void *user) {
    share *own = user;
    lanes zero = {0}, factor = zero + 0.999f, addend = zero + 0.001f;
    lanes a = addend, b = a + a, c = b + a, d = c + a, e = d + a, f = e + a;
    lanes g = f + a, h = g + a, i = h + a, j = i + a, k = j + a, l = k + a;
    for (int round = 0; round < ROUNDS; round++) {
        a = a * factor + addend;
        b = b * factor + addend;
        c = c * factor + addend;
        d = d * factor + addend;
        e = e * factor + addend;
        f = f * factor + addend;
        g = g * factor + addend;
        h = h * factor + addend;
        i = i * factor + addend;
        j = j * factor + addend;
        k = k * factor + addend;
        l = l * factor + addend;
    }
    a = a + b + c + d + e + f + g + h + i + j + k + l;
    own->result = a[0] + a[LANES - 1];
    return NULL;
}

static void *read_memory(void *user) {
    share *own = user;
    lanes a = {0}, b = a, c = a, d = a;
    for (size_t i = 0; i + 4 <= own->count; i += 4) {
        a += own->memory[i];
        b += own->memory[i + 1];
        c += own->memory[i + 2];
        d += own->memory[i + 3];
    }
    a = a + b + c + d;
    own->result = a[0] + a[LANES - 1];
    return NULL;
}

/* Seconds of all threads together: the shortest of a few runs. */
static double run(void *(*work)(void *), share *shares, int threads) {
    double best = 1e9;
    for (int turn = 0; turn < 3; turn++) {
        double start = now();
        int started = 0;
        while (started < threads && !pthread_create(&shares[started].thread, NULL, work, &shares[started]))
            started++;
        for (int i = 0; i < started; i++)
            pthread_join(shares[i].thread, NULL);
        if (started < threads) return 1e9;
        double taken = now() - start;
        if (taken < best) best = taken;
    }
    return best;
}

int main(int count, char **words) {
    static share shares[MAX_THREADS];
    int threads = count > 1 ? atoi(words[1]) : 1, megabytes = count > 2 ? atoi(words[2]) : 256;
    if (threads < 1 || threads > MAX_THREADS || megabytes < 0) return 2;
    double seconds = run(multiply, shares, threads);
    printf("%.2f ", 2e-9 * SUMS * LANES * (double)ROUNDS * threads / seconds);
    size_t each = ((size_t)megabytes << 20) / (size_t)threads / sizeof(lanes), all = each * (size_t)threads;
    float *memory = all ? aligned_alloc(64, (all * sizeof(lanes) + 63) / 64 * 64) : NULL;
    for (size_t i = 0; memory && i < all * LANES; i++)
        memory[i] = 1;
    for (int i = 0; i < threads && memory; i++) {
        shares[i].memory = (const lanes *)memory + (size_t)i * each;
        shares[i].count = each;
    }
    if (memory) seconds = run(read_memory, shares, threads);
    printf("%.2f\n", memory ? (double)(all * sizeof(lanes)) / seconds * 1e-9 : 0.0);
    free(memory);
    return 0;
}
