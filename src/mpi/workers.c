/* MPI processes with several workers each, as one communicator: messages within a process go through memory,
 * and messages between processes through MPI, where the tag encodes the sending and receiving worker of the
 * two processes. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/* The largest MPI tag to use. A test makes it small, so that several communicators are needed. */
#ifndef KN_MPI_TAGS
#define KN_MPI_TAGS INT_MAX
#endif

typedef struct worker {
    kn_mpi_world world; /* its communicator is the process's */
    kn_mpi_workers *all;
    kn_communicator within, outer;
    int number; /* index in the process */
} worker;

/* `first` and `most` map workers to processes: process p has the workers first[p] to first[p + 1] - 1, at
 * most `most`. */
struct kn_mpi_workers {
    kn_mpi_world world;
    worker *list;    /* (count) */
    int *first;      /* (processes + 1) */
    MPI_Comm *ranks; /* (communicators): pairs of workers of two processes are distributed over them, */
    int pairs;       /* this many pairs per communicator, since MPI's tags are limited */
    int communicators;
    int count, process, processes, most;
    pthread_mutex_t lock;
    bool locks;
};

/* ---- messages ---------------------------------------------------------------------------------------- */

/* The process of a rank. */
static int process_of(const kn_mpi_workers *all, int rank) {
    int low = 0, high = all->processes;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (all->first[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static kn_mpi_route route_of(const worker *self, const kn_mpi_message *m, int process) {
    const kn_mpi_workers *all = self->all;
    const int there = m->other - all->first[process], from = m->received ? there : self->number,
              to = m->received ? self->number : there, pair = from * all->most + to;
    return (kn_mpi_route){.ranks = all->ranks[pair / all->pairs],
                          .process = process,
                          .tag = pair % all->pairs * KN_COMMUNICATOR_TAGS + m->tag};
}

/* Begins a message to or from a worker of the same process. */
static kn_status begin_within(worker *self, const kn_mpi_message *wanted, char *data, void **request) {
    const kn_communicator *within = &self->within;
    const int other = wanted->other - self->all->first[self->all->process];
    kn_mpi_message *made = malloc(sizeof *made);
    if (!made) {
        snprintf(self->world.error, sizeof self->world.error, "out of memory");
        return KN_ERROR_MEMORY;
    }
    *made = *wanted;
    kn_status status =
        wanted->received
            ? within->receive(within->user, other, wanted->tag, data, wanted->bytes, &made->inner)
            : within->send(within->user, other, wanted->tag, data, wanted->bytes, &made->inner);
    if (status) {
        free(made);
        return status;
    }
    *request = made;
    return KN_OK;
}

static kn_status begin(worker *self, const kn_mpi_message *wanted, char *data, void **request) {
    const kn_mpi_workers *all = self->all;
    if (!request) return KN_ERROR_ARGUMENT;
    *request = NULL;
    if (self->world.error[0]) return KN_ERROR_CANCELLED;
    const int ranks = all->first[all->processes];
    if (wanted->other < 0 || wanted->other >= ranks || wanted->tag < 0 ||
        wanted->tag >= KN_COMMUNICATOR_TAGS) {
        snprintf(
            self->world.error, sizeof self->world.error,
            "a message of %zu bytes %s rank %d with the tag %d; expected ranks below %d and tags below %d",
            wanted->bytes, wanted->received ? "from" : "to", wanted->other, wanted->tag, ranks,
            KN_COMMUNICATOR_TAGS);
        return KN_ERROR_ARGUMENT;
    }
    const int process = process_of(all, wanted->other);
    if (process == all->process) return begin_within(self, wanted, data, request);
    const kn_mpi_route route = route_of(self, wanted, process);
    kn_mpi_message *made;
    kn_status status = kn_mpi_begin(&self->world, wanted, data, &route, &made);
    *request = made;
    return status;
}

static kn_status workers_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    const kn_mpi_message wanted = {.other = rank, .tag = tag, .bytes = bytes};
    return begin(user, &wanted, (char *)(uintptr_t)data, request); /* only read */
}

static kn_status workers_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    const kn_mpi_message wanted = {.received = true, .other = rank, .tag = tag, .bytes = bytes};
    return begin(user, &wanted, data, request);
}

static kn_status workers_wait(void *user, void **request) {
    worker *self = user;
    kn_mpi_message *waited = request ? *request : NULL;
    if (!waited) return self->world.error[0] ? KN_ERROR_CANCELLED : KN_OK;
    *request = NULL;
    if (waited->pieces) return kn_mpi_end(&self->world, waited);
    kn_status status = self->within.wait(self->within.user, &waited->inner);
    free(waited);
    return status ? status : self->world.error[0] ? KN_ERROR_CANCELLED : KN_OK;
}

static void workers_abort(void *user, const char *reason) {
    (void)reason; /* unused: MPI_Abort takes no reason */
    MPI_Abort(((worker *)user)->all->world.ranks, 1);
}

static const char *workers_error(void *user) {
    const worker *self = user;
    return self->world.error[0] ? self->world.error : self->within.error(self->within.user);
}

/* ---- creation ------------------------------------------------------------------------------------------ */

/* Determines whether the threads of this process may call MPI, and whether only one at a time. */
static kn_status find_level(kn_mpi_workers *all) {
    int level = MPI_THREAD_SINGLE;
    const int code = MPI_Query_thread(&level);
    if (code != MPI_SUCCESS) return kn_mpi_failed(&all->world, "the thread level of MPI", code);
    if (level >= MPI_THREAD_MULTIPLE || all->count == 1) return KN_OK;
    if (level < MPI_THREAD_SERIALIZED) {
        snprintf(
            all->world.error, sizeof all->world.error,
            "this MPI only allows calls from its first thread (%s), but the %d workers of this process are "
            "threads: start one process per worker, or use an MPI with MPI_THREAD_MULTIPLE",
            level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED" : "MPI_THREAD_SINGLE", all->count);
        return KN_ERROR_UNSUPPORTED;
    }
    all->locks = pthread_mutex_init(&all->lock, NULL) == 0;
    if (all->locks) all->world.one_at_a_time = &all->lock;
    return all->locks ? KN_OK : KN_ERROR_MEMORY;
}

/* Gathers the number of workers per process. */
static kn_status find_workers(kn_mpi_workers *all) {
    kn_mpi_world *world = &all->world;
    kn_status status = kn_mpi_find_ranks(world, &all->process, &all->processes);
    if (status) return status;
    all->first = calloc((size_t)all->processes + 1, sizeof *all->first);
    if (!all->first) return KN_ERROR_MEMORY;
    const int code = MPI_Allgather(&all->count, 1, MPI_INT, all->first + 1, 1, MPI_INT, world->ranks);
    if (code != MPI_SUCCESS) return kn_mpi_failed(world, "the numbers of workers per process", code);
    int64_t ranks = 0;
    for (int p = 1; p <= all->processes; p++) {
        if (all->first[p] > all->most) all->most = all->first[p];
        ranks += all->first[p];
        all->first[p] = (int)ranks;
    }
    if (ranks <= INT_MAX && all->most <= KN_MPI_MAX_WORKERS) return KN_OK;
    snprintf(world->error, sizeof world->error,
             "%lld workers, up to %d per process; expected at most %d per process", (long long)ranks,
             all->most, KN_MPI_MAX_WORKERS);
    return KN_ERROR_ARGUMENT;
}

/* Creates communicators with enough tags for all pairs. */
static kn_status find_tags(kn_mpi_workers *all) {
    int found = 0, *greatest = NULL, last = 32767; /* the minimum that MPI guarantees */
    int code = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &greatest, &found);
    if (code != MPI_SUCCESS) return kn_mpi_failed(&all->world, "the largest MPI tag", code);
    if (found && greatest) last = *greatest < KN_MPI_TAGS ? *greatest : KN_MPI_TAGS;
    all->pairs = (int)(((int64_t)last + 1) / KN_COMMUNICATOR_TAGS);
    if (all->pairs < 1) {
        snprintf(all->world.error, sizeof all->world.error, "the largest MPI tag is %d; expected at least %d",
                 last, KN_COMMUNICATOR_TAGS - 1);
        return KN_ERROR_UNSUPPORTED;
    }
    const int needed = (all->most * all->most - 1) / all->pairs + 1;
    all->ranks = malloc((size_t)needed * sizeof(MPI_Comm));
    if (!all->ranks) return KN_ERROR_MEMORY;
    for (; all->communicators < needed; all->communicators++) {
        code = kn_mpi_duplicate(all->world.ranks, &all->ranks[all->communicators]);
        if (code != MPI_SUCCESS) return kn_mpi_failed(&all->world, "an MPI communicator", code);
    }
    return KN_OK;
}

static kn_status make_workers(kn_mpi_workers *all, const kn_communicator *const *within) {
    all->list = calloc((size_t)all->count, sizeof *all->list);
    if (!all->list) return KN_ERROR_MEMORY;
    for (int i = 0; i < all->count; i++) {
        worker *self = &all->list[i];
        self->world = (kn_mpi_world){.ranks = all->world.ranks, .one_at_a_time = all->world.one_at_a_time};
        self->all = all;
        self->number = i;
        const size_t size = within[i]->size < sizeof self->within ? within[i]->size : sizeof self->within;
        memcpy(&self->within, within[i], size);
        self->outer = (kn_communicator){.size = sizeof self->outer,
                                        .rank = all->first[all->process] + i,
                                        .ranks = all->first[all->processes],
                                        .user = self,
                                        .send = workers_send,
                                        .receive = workers_receive,
                                        .wait = workers_wait,
                                        .abort = workers_abort,
                                        .error = workers_error,
                                        .allocator = self->within.allocator};
    }
    return KN_OK;
}

static void free_workers(kn_mpi_workers *all) {
    if (all->locks) pthread_mutex_destroy(&all->lock);
    free(all->ranks);
    free(all->first);
    free(all->list);
    free(all);
}

/* Whether these are the ranks of one group of this process. */
static bool are_group(const kn_communicator *const *within, int count) {
    bool good = within && count > 0;
    for (int i = 0; good && i < count; i++)
        good = within[i] && within[i]->size >= offsetof(kn_communicator, sum) && within[i]->rank == i &&
               within[i]->ranks == count && within[i]->send && within[i]->receive && within[i]->wait &&
               within[i]->error;
    return good;
}

kn_status kn_mpi_workers_create(const kn_communicator *const *within, int count, kn_mpi_workers **workers,
                                char *message, size_t size) {
    if (message && size) message[0] = '\0';
    if (workers) *workers = NULL;
    if (!workers || !are_group(within, count)) {
        if (message) snprintf(message, size, "expected the communicators of all workers of this process");
        return KN_ERROR_ARGUMENT;
    }
    kn_mpi_workers *all = calloc(1, sizeof *all);
    if (!all) {
        if (message) snprintf(message, size, "out of memory");
        return KN_ERROR_MEMORY;
    }
    all->count = count;
    kn_status status = kn_mpi_start(&all->world);
    if (!status) status = find_level(all);
    if (!status) status = find_workers(all);
    if (!status) status = find_tags(all);
    if (!status) status = make_workers(all, within);
    if (!status) {
        *workers = all;
        return KN_OK;
    }
    if (message) snprintf(message, size, "%s", all->world.error[0] ? all->world.error : "out of memory");
    free_workers(all);
    return status;
}

const kn_communicator *kn_mpi_workers_communicator(kn_mpi_workers *workers, int number) {
    return workers && number >= 0 && number < workers->count ? &workers->list[number].outer : NULL;
}

void kn_mpi_workers_destroy(kn_mpi_workers **workers) {
    if (!workers || !*workers) return;
    kn_mpi_workers *all = *workers;
    bool failed = false;
    for (int i = 0; i < all->count; i++)
        failed = failed || all->list[i].world.error[0];
    if (!failed) {
        for (int i = 0; i < all->communicators; i++)
            MPI_Comm_free(&all->ranks[i]);
        MPI_Comm_free(&all->world.ranks);
        if (all->world.began) MPI_Finalize();
    }
    free_workers(all);
    *workers = NULL;
}
