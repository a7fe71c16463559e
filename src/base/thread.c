/* Threads, mutexes, condition variables and the clock, on POSIX threads. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "base/base.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

struct kn_mutex {
    pthread_mutex_t mutex;
};
struct kn_condition {
    pthread_cond_t condition;
};
struct kn_thread {
    pthread_t thread;
    void (*work)(void *);
    void *argument;
};

kn_mutex *kn_mutex_create(const kn_host *host) {
    kn_mutex *mutex = kn_allocate(host, 1, sizeof *mutex);
    if (mutex && pthread_mutex_init(&mutex->mutex, NULL) != 0) {
        kn_release(host, mutex);
        return NULL;
    }
    return mutex;
}

void kn_mutex_destroy(const kn_host *host, kn_mutex **mutex) {
    if (!mutex || !*mutex) return;
    pthread_mutex_destroy(&(*mutex)->mutex);
    kn_release(host, *mutex);
    *mutex = NULL;
}

void kn_mutex_lock(kn_mutex *mutex) {
    pthread_mutex_lock(&mutex->mutex);
}

void kn_mutex_unlock(kn_mutex *mutex) {
    pthread_mutex_unlock(&mutex->mutex);
}

kn_condition *kn_condition_create(const kn_host *host) {
    kn_condition *condition = kn_allocate(host, 1, sizeof *condition);
    if (condition && pthread_cond_init(&condition->condition, NULL) != 0) {
        kn_release(host, condition);
        return NULL;
    }
    return condition;
}

void kn_condition_destroy(const kn_host *host, kn_condition **condition) {
    if (!condition || !*condition) return;
    pthread_cond_destroy(&(*condition)->condition);
    kn_release(host, *condition);
    *condition = NULL;
}

void kn_condition_wait(kn_condition *condition, kn_mutex *mutex) {
    pthread_cond_wait(&condition->condition, &mutex->mutex);
}

void kn_condition_broadcast(kn_condition *condition) {
    pthread_cond_broadcast(&condition->condition);
}

static void *run(void *argument) {
    kn_thread *thread = argument;
    thread->work(thread->argument);
    return NULL;
}

kn_thread *kn_thread_start(const kn_host *host, void (*work)(void *), void *argument) {
    kn_thread *thread = kn_allocate(host, 1, sizeof *thread);
    if (!thread) return NULL;
    thread->work = work;
    thread->argument = argument;
    /* The program's signals are delivered to the program's threads. Synchronous signals, such as from an
     * invalid access, stay with the thread that caused them. */
    sigset_t blocked, before;
    sigfillset(&blocked);
    const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < KN_COUNT_OF(own); i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failed = pthread_create(&thread->thread, NULL, run, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        kn_release(host, thread);
        return NULL;
    }
    return thread;
}

void kn_thread_join(const kn_host *host, kn_thread **thread) {
    if (!thread || !*thread) return;
    pthread_join((*thread)->thread, NULL);
    kn_release(host, *thread);
    *thread = NULL;
}

int kn_processor_count(void) {
#if defined(__linux__)
    /* The processors that this process may use, not all processors of the machine. */
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (int)count;
}

double kn_clock(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0.0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
