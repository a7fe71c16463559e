/* Work on several threads. */
#include "base/base.h"

#include <stdatomic.h>

enum { MAX_THREADS = 16 };

/* Shared by all threads. */
typedef struct parallel {
    kn_work *work;
    void *user;
    size_t count;
    atomic_size_t next;
    atomic_bool failed;
} parallel;

typedef struct chunk {
    parallel *all;
    size_t failed; /* index at which this thread stopped; SIZE_MAX: it did not */
    kn_error error;
} chunk;

/* Indices are claimed in order, so all indices below a failed one have been claimed. */
static void run_chunk(void *argument) {
    chunk *self = argument;
    parallel *all = self->all;
    while (!atomic_load(&all->failed)) {
        const size_t index = atomic_fetch_add(&all->next, 1);
        if (index >= all->count) return;
        if (all->work(all->user, index, &self->error) == KN_OK) continue;
        self->failed = index;
        atomic_store(&all->failed, true);
    }
}

kn_status kn_in_parallel(const kn_host *host, size_t count, kn_work *work, void *user, kn_error *error) {
    chunk chunks[MAX_THREADS];
    kn_thread *running[MAX_THREADS] = {NULL};
    parallel all = {.work = work, .user = user, .count = count};
    size_t threads = (size_t)kn_processor_count();
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads > count) threads = count ? count : 1;
    for (size_t t = 0; t < threads; t++) {
        chunks[t].all = &all;
        chunks[t].failed = SIZE_MAX;
        kn_error_clear(&chunks[t].error);
        if (t > 0) running[t] = kn_thread_start(host, run_chunk, &chunks[t]);
    }
    run_chunk(&chunks[0]); /* all of the work if no thread could be started */
    const chunk *first = &chunks[0];
    for (size_t t = 1; t < threads; t++) {
        kn_thread_join(host, &running[t]);
        if (chunks[t].failed < first->failed) first = &chunks[t];
    }
    if (first->failed == SIZE_MAX) return KN_OK;
    const kn_status status = first->error.status;
    if (error) *error = first->error;
    return status;
}
