/* Watches the workers of a training run: error messages include rank, host and device, and a worker that does
 * not respond ends the run instead of blocking the others forever. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train.h"

enum {
    TICKS = 10, /* ticks per second; counting ticks avoids timeouts after the process itself was suspended */
    LATER = 10, /* maximum extra seconds before a rank that only waits reports a timeout */
    TOLD_TICKS = 3 /* ticks without a message after the launcher's signal to end */
};

void train_host(char *name, size_t bytes) {
    if (gethostname(name, bytes - 1)) snprintf(name, bytes, "unknown");
    name[bytes - 1] = '\0';
}

const char *train_how_to_go_on(const train_options *options) {
    return options->outputs.checkpoints
               ? ". To resume from the last checkpoint, repeat the command with --resume auto"
               : ". Nothing was saved; --checkpoints saves states to resume from";
}

/* ---- the communicator ---------------------------------------------------------------------------------- */

static kn_status watched_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    const kn_communicator *inner = &((train_watched *)user)->inner;
    return inner->send(inner->user, rank, tag, data, bytes, request);
}

static kn_status watched_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    const kn_communicator *inner = &((train_watched *)user)->inner;
    return inner->receive(inner->user, rank, tag, data, bytes, request);
}

static kn_status watched_wait(void *user, void **request) {
    train_watched *own = user;
    atomic_store(&own->waits, true);
    kn_status status = own->inner.wait(own->inner.user, request);
    atomic_fetch_add(&own->passed, 1);
    atomic_store(&own->waits, false);
    return status;
}

static kn_status watched_sum(void *user, float *data, size_t count) {
    train_watched *own = user;
    atomic_store(&own->waits, true);
    kn_status status = own->inner.sum(own->inner.user, data, count);
    atomic_fetch_add(&own->passed, 1);
    atomic_store(&own->waits, false);
    return status;
}

static void watched_abort(void *user, const char *reason) {
    train_watched *own = user;
    char text[WATCH_REASON];
    snprintf(text, sizeof text, "%s: %.*s", own->name, WATCH_REASON - WATCH_NAME - 2,
             reason ? reason : "ended without a reason");
    if (own->watch->processes) {
        command_fail("%s%s", text, train_how_to_go_on(own->watch->options));
        fflush(stderr);
    }
    own->inner.abort(own->inner.user, text);
}

static const char *watched_error(void *user) {
    const kn_communicator *inner = &((train_watched *)user)->inner;
    return inner->error(inner->user);
}

kn_communicator watch_rank(train_watch *watch, const kn_communicator *inner, kn_context *context) {
    train_watched *own = &watch->ranks[watch->count++];
    own->watch = watch;
    own->inner = *inner;
    own->context = context;
    char host[64];
    train_host(host, sizeof host);
    snprintf(own->name, sizeof own->name, "rank %d on %s, %s", inner->rank, host,
             kn_context_device(context)->name);
    kn_communicator outer = *inner;
    outer.user = own;
    outer.send = watched_send;
    outer.receive = watched_receive;
    outer.wait = watched_wait;
    outer.sum = inner->sum ? watched_sum : NULL;
    outer.abort = watched_abort;
    outer.error = watched_error;
    return outer;
}

/* ---- the watch ----------------------------------------------------------------------------------------- */

/* Increases with each kernel that is built or launched and each message of this process. */
static uint64_t progress(const train_watch *watch) {
    uint64_t sum = 0;
    for (int i = 0; i < watch->count; i++) {
        kn_context_counts counts = {.size = sizeof counts};
        kn_context_get_counts(watch->ranks[i].context, &counts);
        sum += counts.launches + counts.programs_built + counts.programs_loaded +
               atomic_load(&watch->ranks[i].passed);
    }
    return sum;
}

/* The first worker of this process that does not wait for messages; NULL: all wait. */
static const train_watched *one_at_work(const train_watch *watch) {
    for (int i = 0; i < watch->count; i++)
        if (!atomic_load(&watch->ranks[i].waits)) return &watch->ranks[i];
    return NULL;
}

/* The factor for --timeout while waiting for other processes: with --sync-every, a fast process waits for all
 * local steps of a slow one. */
static uint64_t times_of_waiting(const train_watch *watch) {
    return watch->processes && watch->options->config.params.sync_every > 1
               ? watch->options->config.params.sync_every
               : 1;
}

/* Ends this process, because the blocked thread cannot be ended. */
static void end_process(const train_watch *watch) {
    const train_watched *silent = one_at_work(watch);
    const double seconds = watch->options->crew.timeout;
    const uint64_t times = times_of_waiting(watch);
    progress_clear();
    if (silent)
        command_fail("%s: the device, or the data, has not answered for %g s (--timeout)%s", silent->name,
                     seconds, train_how_to_go_on(watch->options));
    else if (times > 1)
        command_fail("%s: the other ranks have not answered for %g s (--timeout, times the %llu steps of "
                     "a round)%s",
                     watch->ranks[0].name, seconds * (double)times, (unsigned long long)times,
                     train_how_to_go_on(watch->options));
    else
        command_fail("%s: %s for %g s (--timeout)%s", watch->ranks[0].name,
                     watch->processes ? "the other ranks have not answered"
                                      : "all ranks wait for one another and no message has come",
                     seconds, train_how_to_go_on(watch->options));
    fflush(stderr);
    _exit(EXIT_FAILED);
}

/* If a process is killed, the launcher ends all processes without giving them the reason. */
static void print_of_launcher(const train_watch *watch) {
    if (watch->another_reports && watch->another_reports()) return;
    command_fail("%s: received a request to end while it waited for other ranks. If one of them has failed%s",
                 watch->ranks[0].name,
                 watch->options->outputs.checkpoints
                     ? ", repeat the command with --resume auto to resume from the last checkpoint"
                     : ", nothing was saved; --checkpoints saves states to resume from");
    fflush(stderr);
}

/* If processes wait for a rank in another process, the lowest rank reports it. */
static double patience(const train_watch *watch) {
    const train_watched *first = &watch->ranks[0];
    double seconds = watch->options->crew.timeout;
    if (watch->processes && !one_at_work(watch))
        seconds = seconds * (double)times_of_waiting(watch) +
                  (first->inner.rank < LATER ? first->inner.rank + 1 : LATER);
    return seconds * TICKS;
}

static void *keep_watch(void *argument) {
    train_watch *watch = argument;
    const struct timespec tick = {.tv_nsec = 1000000000 / TICKS};
    const bool ends = watch->options->crew.timeout > 0;
    uint64_t before = progress(watch);
    bool told = false;
    for (double quiet = 0; !atomic_load(&watch->ends); quiet++) {
        nanosleep(&tick, NULL);
        /* Read the limit first: the end of a wait changes it before it counts as progress. */
        const double most = patience(watch);
        const uint64_t now = progress(watch);
        if (now != before) quiet = 0;
        before = now;
        if (watch->processes && !told && quiet >= TOLD_TICKS && interrupted() && !one_at_work(watch)) {
            print_of_launcher(watch);
            told = true;
        }
        if (ends && quiet >= most && !atomic_load(&watch->ends)) end_process(watch);
    }
    return NULL;
}

bool watch_begin(train_watch *watch) {
    if (!watch->count) return true;
    watch->started = !pthread_create(&watch->thread, NULL, keep_watch, watch);
    return watch->started || command_error("a thread could not be started");
}

void watch_end(train_watch *watch) {
    if (!watch->started) return;
    atomic_store(&watch->ends, true);
    pthread_join(watch->thread, NULL);
    watch->started = false;
}
