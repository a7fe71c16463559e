/* Threads, locks, conditions and the clock. */
#include "base_tests.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "wrapped.h"

typedef struct counter {
    kn_mutex *mutex;
    long value;
} counter;

static void count_up(void *argument) {
    counter *shared = argument;
    for (int i = 0; i < 20000; i++) {
        kn_mutex_lock(shared->mutex);
        shared->value++;
        kn_mutex_unlock(shared->mutex);
    }
}

TEST(a_mutex_excludes) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    counter shared = {.mutex = kn_mutex_create(&host)};
    assert_non_null(shared.mutex);
    kn_thread *threads[4];
    for (int i = 0; i < 4; i++)
        assert_non_null(threads[i] = kn_thread_start(&host, count_up, &shared));
    for (int i = 0; i < 4; i++) {
        kn_thread_join(&host, &threads[i]);
        assert_null(threads[i]);
    }
    assert_int_equal(shared.value, 80000);
    kn_mutex_destroy(&host, &shared.mutex);
    assert_null(shared.mutex);
    assert_int_equal(memory.live, 0);
}

/* A queue with four places: producers wait when it is full, consumers when it is empty. */
typedef struct belt {
    kn_mutex *mutex;
    kn_condition *filled, *emptied;
    long places[4];
    size_t count;
    bool closed;
    long taken, sum;
} belt;

enum { PIECES = 5000 };

static void produce(void *argument) {
    belt *shared = argument;
    for (long i = 1; i <= PIECES; i++) {
        kn_mutex_lock(shared->mutex);
        while (shared->count == KN_COUNT_OF(shared->places))
            kn_condition_wait(shared->emptied, shared->mutex);
        shared->places[shared->count++] = i;
        kn_condition_broadcast(shared->filled);
        kn_mutex_unlock(shared->mutex);
    }
}

static void consume(void *argument) {
    belt *shared = argument;
    kn_mutex_lock(shared->mutex);
    for (;;) {
        while (shared->count == 0 && !shared->closed)
            kn_condition_wait(shared->filled, shared->mutex);
        if (shared->count == 0) break;
        shared->sum += shared->places[--shared->count];
        shared->taken++;
        kn_condition_broadcast(shared->emptied);
    }
    kn_mutex_unlock(shared->mutex);
}

TEST(conditions_wake_waiting_threads) {
    kn_host host = kn_host_defaults();
    belt shared = {.mutex = kn_mutex_create(&host),
                   .filled = kn_condition_create(&host),
                   .emptied = kn_condition_create(&host)};
    assert_true(shared.mutex && shared.filled && shared.emptied);
    kn_thread *producers[2], *consumers[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(consumers[i] = kn_thread_start(&host, consume, &shared));
    for (int i = 0; i < 2; i++)
        assert_non_null(producers[i] = kn_thread_start(&host, produce, &shared));
    for (int i = 0; i < 2; i++)
        kn_thread_join(&host, &producers[i]);
    kn_mutex_lock(shared.mutex);
    shared.closed = true;
    kn_condition_broadcast(shared.filled); /* all three must return, or the joins hang */
    kn_mutex_unlock(shared.mutex);
    for (int i = 0; i < 3; i++)
        kn_thread_join(&host, &consumers[i]);
    assert_int_equal(shared.taken, 2 * PIECES);
    assert_int_equal(shared.sum, (long)PIECES * (PIECES + 1));
    kn_condition_destroy(&host, &shared.filled);
    kn_condition_destroy(&host, &shared.emptied);
    kn_mutex_destroy(&host, &shared.mutex);
    assert_null(shared.filled);
}

static void look_at_signals(void *argument) {
    pthread_sigmask(SIG_SETMASK, NULL, argument);
}

TEST(threads_leave_signals_to_the_program) {
    kn_host host = kn_host_defaults();
    sigset_t before, after, inside;
    sigemptyset(&inside);
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    kn_thread *thread = kn_thread_start(&host, look_at_signals, &inside);
    assert_non_null(thread);
    kn_thread_join(&host, &thread);
    pthread_sigmask(SIG_UNBLOCK, &before, &after);
    assert_true(sigismember(&inside, SIGINT));
    assert_true(sigismember(&inside, SIGTERM));
    assert_false(sigismember(&inside, SIGSEGV));
    /* The caller's signal mask is unchanged. */
    assert_true(sigismember(&after, SIGUSR1));
    assert_false(sigismember(&after, SIGINT));
}

static void do_nothing(void *argument) {}

TEST(threads_survive_failing_calls) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    wrapped_calls = (wrapped){.fail_thread = EAGAIN, .fail_mutex = ENOMEM, .fail_condition = ENOMEM};
    kn_mutex *mutex = kn_mutex_create(&host);
    kn_condition *condition = kn_condition_create(&host);
    kn_thread *thread = kn_thread_start(&host, do_nothing, NULL);
    wrapped_calls = (wrapped){0};
    assert_null(mutex);
    assert_null(condition);
    assert_null(thread);
    assert_int_equal(memory.calls, 3);
    assert_int_equal(memory.live, 0);
    memory = (failing){.fail_at = 1, .fail_after = true};
    assert_null(kn_mutex_create(&host));
    assert_null(kn_condition_create(&host));
    assert_null(kn_thread_start(&host, do_nothing, NULL));
    /* Destroying NULL is allowed. */
    kn_mutex_destroy(&host, &mutex);
    kn_mutex_destroy(&host, NULL);
    kn_condition_destroy(&host, &condition);
    kn_condition_destroy(&host, NULL);
    kn_thread_join(&host, &thread);
    kn_thread_join(&host, NULL);
}

static kn_status mark(void *user, size_t index, kn_error *error) {
    char *marks = user;
    marks[index]++;
    return index % 100 == 37 && marks[1000] ? kn_fail(error, KN_ERROR_FORMAT, "piece %zu", index) : KN_OK;
}

/* Each chunk runs once; the first failure of a loop is returned, whichever thread met it; without threads the
 * caller does all chunks. */
TEST(chunks_are_divided_among_threads) {
    for (int alone = 0; alone < 2; alone++) {
        kn_host host = kn_host_defaults();
        kn_error error = {0};
        char marks[1001] = {0};
        wrapped_calls = (wrapped){.fail_thread = alone ? EAGAIN : 0};
        assert_int_equal(kn_in_parallel(&host, 1000, mark, marks, &error), KN_OK);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(marks[i], 1);
        marks[1000] = 1;
        assert_int_equal(kn_in_parallel(&host, 1000, mark, marks, &error), KN_ERROR_FORMAT);
        assert_string_equal(error.text, "piece 37");
        for (int i = 0; i <= 37; i++)
            assert_int_equal(marks[i], 2);
        assert_int_equal(marks[999], 1);
        assert_int_equal(kn_in_parallel(&host, 0, mark, marks, NULL), KN_OK);
        wrapped_calls = (wrapped){0};
    }
}

TEST(the_clock_counts_seconds) {
    double start = kn_clock(), last = start;
    const struct timespec pause = {.tv_nsec = 30000000};
    nanosleep(&pause, NULL);
    assert_true(kn_clock() - start >= 0.029);
    assert_true(kn_clock() - start < 30);
    for (int i = 0; i < 10000; i++) {
        double now = kn_clock();
        assert_true(now >= last);
        last = now;
    }
}

TEST(there_is_a_processor) {
    int count = kn_processor_count();
    assert_true(count >= 1 && count < 100000);
}

TEST_FILE(test_threads, NULL, NULL)
