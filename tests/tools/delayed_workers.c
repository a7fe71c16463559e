/* Preloaded: the workers of one process get their messages as late as over a link of DELAY_SECONDS latency
 * and DELAY_RATE bytes per second for all that a worker sends. */
#define _GNU_SOURCE
#include "group_end.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

/* When a message arrives; those of one way and tag are numbered. */
typedef struct arrival {
    struct arrival *next;
    int from, to, tag;
    unsigned long number;
    double time;
} arrival;

typedef struct counter {
    struct counter *next;
    int from, to, tag;
    unsigned long sent, expected;
} counter;

/* A receive under way; a send's has no counter. */
typedef struct pending {
    void *inner;
    bool receives;
    int from, to, tag;
    unsigned long number;
} pending;

typedef struct end {
    forwarded base;
    double idle; /* when all that was sent has left */
} end;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static arrival *arrivals;
static counter *counters;
static end ends[MOST];

static double number_of(const char *variable, double usual) {
    const char *text = getenv(variable);
    return text ? atof(text) : usual;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static counter *counter_of(int from, int to, int tag) {
    for (counter *at = counters; at; at = at->next)
        if (at->from == from && at->to == to && at->tag == tag) return at;
    counter *made = calloc(1, sizeof *made);
    if (!made) abort();
    *made = (counter){.next = counters, .from = from, .to = to, .tag = tag};
    return counters = made;
}

static kn_status delayed_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    end *own = user;
    pending *begun = calloc(1, sizeof *begun);
    arrival *comes = calloc(1, sizeof *comes);
    if (!begun || !comes) abort();
    const int from = own->base.inner->rank;
    pthread_mutex_lock(&mutex);
    const double begin = now() > own->idle ? now() : own->idle;
    own->idle = begin + (double)bytes / number_of("DELAY_RATE", 1e12);
    *comes = (arrival){.next = arrivals,
                       .from = from,
                       .to = rank,
                       .tag = tag,
                       .number = counter_of(from, rank, tag)->sent++,
                       .time = own->idle + number_of("DELAY_SECONDS", 0)};
    arrivals = comes;
    pthread_mutex_unlock(&mutex);
    *request = begun;
    return own->base.inner->send(own->base.inner->user, rank, tag, data, bytes, &begun->inner);
}

static kn_status delayed_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    end *own = user;
    pending *begun = calloc(1, sizeof *begun);
    if (!begun) abort();
    const int to = own->base.inner->rank;
    pthread_mutex_lock(&mutex);
    *begun = (pending){.receives = true,
                       .from = rank,
                       .to = to,
                       .tag = tag,
                       .number = counter_of(rank, to, tag)->expected++};
    pthread_mutex_unlock(&mutex);
    *request = begun;
    return own->base.inner->receive(own->base.inner->user, rank, tag, data, bytes, &begun->inner);
}

/* When a message that has come may be seen; 0: at once. */
static double time_of(const pending *wanted) {
    double time = 0;
    pthread_mutex_lock(&mutex);
    for (arrival **at = &arrivals; *at; at = &(*at)->next) {
        arrival *one = *at;
        if (one->from != wanted->from || one->to != wanted->to || one->tag != wanted->tag ||
            one->number != wanted->number)
            continue;
        time = one->time;
        *at = one->next;
        free(one);
        break;
    }
    pthread_mutex_unlock(&mutex);
    return time;
}

static kn_status delayed_wait(void *user, void **request) {
    end *own = user;
    pending *waited = request ? *request : NULL;
    if (!waited) return own->base.inner->wait(own->base.inner->user, request);
    kn_status status = own->base.inner->wait(own->base.inner->user, &waited->inner);
    if (!status && waited->receives) {
        const double rest = time_of(waited) - now();
        const struct timespec nap = {.tv_sec = (time_t)(rest > 0 ? rest : 0),
                                     .tv_nsec = rest > 0 ? (long)(1e9 * (rest - (double)(time_t)rest)) : 0};
        if (rest > 0) nanosleep(&nap, NULL);
    }
    free(waited);
    *request = NULL;
    return status;
}

__attribute__((visibility("default"))) const kn_communicator *kn_group_communicator(kn_group *group,
                                                                                    int rank) {
    kn_communicator *outer = rank >= 0 && rank < MOST ? group_end_open(&ends[rank].base, group, rank) : NULL;
    if (!outer) return NULL;
    outer->send = delayed_send;
    outer->receive = delayed_receive;
    outer->wait = delayed_wait;
    return outer;
}
