/* Work by several threads. */
#include "base/base.h"

#include <stdatomic.h>

enum { MOST_THREADS = 16 };

/* What all threads share. */
typedef struct parallel {
    kn_work *work;
    void *user;
    size_t count;
    atomic_size_t next;
    atomic_bool failed;
} parallel;

typedef struct share {
    parallel *all;
    size_t failed; /* where this thread stopped; SIZE_MAX: it did not */
    kn_error error;
} share;

/* Indices are taken in order, so that all below one that fails are taken already. */
static void do_share(void *argument) {
    share *own = argument;
    parallel *all = own->all;
    while (!atomic_load(&all->failed)) {
        const size_t index = atomic_fetch_add(&all->next, 1);
        if (index >= all->count) return;
        if (all->work(all->user, index, &own->error) == KN_OK) continue;
        own->failed = index;
        atomic_store(&all->failed, true);
    }
}

kn_status kn_in_parallel(const kn_host *host, size_t count, kn_work *work, void *user, kn_error *error) {
    share shares[MOST_THREADS];
    kn_thread *running[MOST_THREADS] = {NULL};
    parallel all = {.work = work, .user = user, .count = count};
    size_t threads = (size_t)kn_processor_count();
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > count) threads = count ? count : 1;
    for (size_t t = 0; t < threads; t++) {
        shares[t].all = &all;
        shares[t].failed = SIZE_MAX;
        kn_error_clear(&shares[t].error);
        if (t > 0) running[t] = kn_thread_start(host, do_share, &shares[t]);
    }
    do_share(&shares[0]); /* all of it, where no thread could be had */
    const share *first = &shares[0];
    for (size_t t = 1; t < threads; t++) {
        kn_thread_join(host, &running[t]);
        if (shares[t].failed < first->failed) first = &shares[t];
    }
    if (first->failed == SIZE_MAX) return KN_OK;
    const kn_status status = first->error.status;
    if (error) *error = first->error;
    return status;
}
