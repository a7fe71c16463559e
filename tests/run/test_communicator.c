/* Communicators, among threads: sums to the bits of the tree, order, ends of groups, failures. */
#include "run_tests.h"

#include <stdlib.h>
#include <string.h>

#include <koine/communicator.h>

#include "sums.h"

enum { MOST = 7 }; /* ranks */

/* What a rank does, in a thread; checks are left to the test. */
typedef struct worker {
    const kn_communicator *communicator;
    kn_status (*work)(struct worker *worker);
    size_t count;
    float *data, *result;
    int from;
    kn_status status;
} worker;

static void work_of(void *argument) {
    worker *own = argument;
    own->status = own->work(own);
}

/* Runs the workers of a group, each in its thread. */
static void run_workers(kn_group *group, worker *workers, int ranks) {
    const kn_host host = kn_host_defaults();
    kn_thread *threads[MOST];
    for (int r = 0; r < ranks; r++) {
        workers[r].communicator = kn_group_communicator(group, r);
        assert_non_null(workers[r].communicator);
        threads[r] = kn_thread_start(&host, work_of, &workers[r]);
        assert_non_null(threads[r]);
    }
    for (int r = 0; r < ranks; r++)
        kn_thread_join(&host, &threads[r]);
}

static void run_group(worker *workers, int ranks) {
    kn_group *group = NULL;
    assert_int_equal(kn_group_create(ranks, NULL, &group), KN_OK);
    run_workers(group, workers, ranks);
    for (int r = 0; r < ranks; r++)
        if (workers[r].status)
            fail_msg("rank %d of %d: %s", r, ranks,
                     workers[r].communicator->error(workers[r].communicator->user));
    kn_group_destroy(&group);
    assert_null(group);
}

static void check_sums(const float *sums, int ranks, size_t first, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float expected = sum_expected(ranks, first + i);
        if (memcmp(&sums[i], &expected, sizeof expected) != 0)
            fail_msg("%d ranks, sum %zu: %.9g, expected %.9g", ranks, first + i, sums[i], expected);
    }
    assert_true(sums[count] == 77);
}

static kn_status all_reduce(worker *own) {
    return kn_all_reduce(own->communicator, own->data, own->count);
}

TEST(sums_are_the_tree) {
    static const size_t counts[] = {0, 1, 5, 2048, 2049, 1000003, 2500003};
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (size_t k = 0; k < KN_COUNT_OF(counts); k++) {
            if (k + 1 == KN_COUNT_OF(counts) && ranks < MOST) continue; /* many pieces, once */
            worker workers[MOST];
            for (int r = 0; r < ranks; r++)
                workers[r] =
                    (worker){.work = all_reduce, .count = counts[k], .data = sum_numbers(r, counts[k])};
            run_group(workers, ranks);
            check_sums(workers[ranks / 2].data, ranks, 0, counts[k]);
            for (int r = 0; r < ranks; r++)
                assert_memory_equal(workers[r].data, workers[0].data, (counts[k] + 1) * sizeof(float));
            for (int r = 0; r < ranks; r++)
                free(workers[r].data);
        }
}

static kn_status reduce_scatter(worker *own) {
    return kn_reduce_scatter(own->communicator, own->data, own->result, own->count);
}

TEST(each_rank_gets_its_sums) {
    static const size_t counts[] = {0, 1, 5, 142859};
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (size_t k = 0; k < KN_COUNT_OF(counts); k++) {
            const size_t count = counts[k], all = count * (size_t)ranks;
            worker workers[MOST];
            for (int r = 0; r < ranks; r++)
                workers[r] = (worker){.work = reduce_scatter,
                                      .count = count,
                                      .data = sum_numbers(r, all),
                                      .result = sum_numbers(0, count)};
            run_group(workers, ranks);
            for (int r = 0; r < ranks; r++) {
                check_sums(workers[r].result, ranks, (size_t)r * count, count);
                free(workers[r].result);
                for (size_t i = 0; i < all; i++)
                    assert_true(workers[r].data[i] == sum_number(r, i));
                workers[r].result = workers[r].data + (size_t)r * count; /* in place */
            }
            run_group(workers, ranks);
            for (int r = 0; r < ranks; r++) {
                if (r == ranks - 1) check_sums(workers[r].result, ranks, (size_t)r * count, count);
                free(workers[r].data);
            }
        }
}

static kn_status all_gather(worker *own) {
    return kn_all_gather(own->communicator, own->data, own->result, own->count * sizeof(float));
}

TEST(gathers_have_the_order_of_ranks) {
    static const size_t counts[] = {0, 1, 100003};
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (size_t k = 0; k < KN_COUNT_OF(counts); k++) {
            const size_t count = counts[k];
            worker workers[MOST];
            for (int r = 0; r < ranks; r++) {
                workers[r] = (worker){.work = all_gather, .count = count, .data = sum_numbers(r, count)};
                workers[r].result = malloc((count * (size_t)ranks + 1) * sizeof(float));
            }
            run_group(workers, ranks);
            for (int r = 0; r < ranks; r++)
                for (int from = 0; from < ranks; from++)
                    assert_memory_equal(workers[r].result + (size_t)from * count, workers[from].data,
                                        count * sizeof(float));
            for (int r = 0; r < ranks; r++) {
                free(workers[r].data);
                free(workers[r].result);
            }
        }
}

static kn_status broadcast(worker *own) {
    kn_status status = kn_broadcast_from(own->communicator, own->from, own->data, own->count * sizeof(float));
    return status ? status : kn_barrier(own->communicator);
}

TEST(all_get_what_one_rank_has) {
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int from = 0; from < ranks; from++) {
            worker workers[MOST];
            for (int r = 0; r < ranks; r++)
                workers[r] =
                    (worker){.work = broadcast, .count = 5003, .data = sum_numbers(r, 5003), .from = from};
            run_group(workers, ranks);
            float *expected = sum_numbers(from, 5003);
            for (int r = 0; r < ranks; r++) {
                assert_memory_equal(workers[r].data, expected, 5004 * sizeof(float));
                free(workers[r].data);
            }
            free(expected);
        }
}

/* A barrier: no rank leaves it before all have arrived. */
static int arrived, early;

static kn_status arrive(worker *own) {
    for (int round = 1; round <= 50; round++) {
        __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
        kn_status status = kn_barrier(own->communicator);
        if (status) return status;
        if (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < round * own->communicator->ranks)
            __atomic_add_fetch(&early, 1, __ATOMIC_SEQ_CST);
    }
    return KN_OK;
}

TEST(nobody_passes_a_barrier_early) {
    arrived = early = 0;
    worker workers[5];
    for (int r = 0; r < 5; r++)
        workers[r] = (worker){.work = arrive};
    run_group(workers, 5);
    assert_int_equal(early, 0);
}

/* ---- messages, all from one thread: send and receive return at once ---------------------------------- */

static kn_group *two(const kn_communicator **a, const kn_communicator **b) {
    kn_group *group = NULL;
    assert_int_equal(kn_group_create(2, NULL, &group), KN_OK);
    *a = kn_group_communicator(group, 0);
    *b = kn_group_communicator(group, 1);
    return group;
}

TEST(messages_keep_their_order) {
    const kn_communicator *a, *b;
    kn_group *group = two(&a, &b);
    const int sent[6] = {1, 2, 3, 4, 5, 6};
    int got[6] = {0};
    void *sends[6], *receives[6];
    /* Those with the tag 9 are 2, 4 and 6; some are expected before they are sent, some after. */
    for (int i = 0; i < 2; i++)
        assert_int_equal(b->receive(b->user, 0, 9, &got[3 + i], sizeof(int), &receives[3 + i]), KN_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(a->send(a->user, 1, i % 2 ? 9 : 0, &sent[i], sizeof(int), &sends[i]), KN_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(b->receive(b->user, 0, 0, &got[i], sizeof(int), &receives[i]), KN_OK);
    assert_int_equal(b->receive(b->user, 0, 9, &got[5], sizeof(int), &receives[5]), KN_OK);
    for (int i = 0; i < 6; i++) {
        if (i % 2) assert_int_equal(a->wait(a->user, &sends[i]), KN_OK);
        assert_int_equal(b->wait(b->user, &receives[5 - i]), KN_OK);
        assert_null(receives[5 - i]);
        if (i % 2 == 0) assert_int_equal(a->wait(a->user, &sends[i]), KN_OK);
    }
    static const int expected[6] = {1, 3, 5, 2, 4, 6};
    assert_memory_equal(got, expected, sizeof expected);
    assert_int_equal(a->wait(a->user, &sends[0]), KN_OK); /* complete */
    assert_string_equal(a->error(a->user), "");
    /* To itself, and nothing. */
    assert_int_equal(a->send(a->user, 0, 3, &sent[4], sizeof(int), &sends[0]), KN_OK);
    assert_int_equal(a->receive(a->user, 0, 3, &got[0], sizeof(int), &receives[0]), KN_OK);
    assert_int_equal(a->wait(a->user, &receives[0]), KN_OK);
    assert_int_equal(a->wait(a->user, &sends[0]), KN_OK);
    assert_int_equal(got[0], 5);
    assert_int_equal(a->send(a->user, 1, 3, NULL, 0, &sends[0]), KN_OK);
    assert_int_equal(b->receive(b->user, 0, 3, NULL, 0, &receives[0]), KN_OK);
    assert_int_equal(b->wait(b->user, &receives[0]), KN_OK);
    assert_int_equal(a->wait(a->user, &sends[0]), KN_OK);
    kn_group_destroy(&group);
}

TEST(wrong_messages_end_the_group) {
    static const struct {
        int rank, tag;
        bool data;
        size_t bytes;
        const char *says;
    } wrong[] = {{2, 0, true, 4, "from rank 0 to rank 2 with tag 0; expected ranks below 2"},
                 {-1, 0, true, 4, "to rank -1"},
                 {1, -1, true, 4, "tag -1"},
                 {1, KN_COMMUNICATOR_TAGS, true, 4, "tags below 16384"},
                 {1, 0, false, 4, "4 bytes from rank 0 to rank 1: its memory"},
                 {1, 0, true, 3, "rank 0 sent 3 bytes to rank 1 with tag 0, which expected 4"}};
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++) {
        const kn_communicator *a, *b;
        kn_group *group = two(&a, &b);
        int number = 0, other = 0;
        void *request, *waits;
        assert_int_equal(b->receive(b->user, 0, 0, &other, sizeof other, &waits), KN_OK);
        assert_int_equal(a->send(a->user, wrong[i].rank, wrong[i].tag, wrong[i].data ? &number : NULL,
                                 wrong[i].bytes, &request),
                         KN_ERROR_ARGUMENT);
        assert_null(request);
        if (!strstr(a->error(a->user), wrong[i].says)) fail_msg("%s", a->error(a->user));
        assert_int_equal(a->send(a->user, 1, 0, &number, sizeof number, &request), KN_ERROR_CANCELLED);
        assert_int_equal(b->wait(b->user, &waits), KN_ERROR_CANCELLED);
        assert_null(waits);
        assert_string_equal(b->error(b->user), a->error(a->user));
        kn_group_destroy(&group);
    }
}

static kn_status sum_or_end(worker *own) {
    /* The last rank ends the group while the others wait for it. */
    if (own->communicator->rank < own->communicator->ranks - 1)
        return kn_all_reduce(own->communicator, own->data, own->count);
    own->communicator->abort(own->communicator->user, "the device of rank 3\nwas lost");
    own->communicator->abort(own->communicator->user, "another reason");
    return kn_barrier(own->communicator);
}

TEST(an_end_wakes_all) {
    static const size_t counts[] = {3, 100000, 3000000};
    for (size_t k = 0; k < KN_COUNT_OF(counts); k++) {
        kn_group *group = NULL;
        assert_int_equal(kn_group_create(4, NULL, &group), KN_OK);
        worker workers[4];
        for (int r = 0; r < 4; r++)
            workers[r] = (worker){.work = sum_or_end, .count = counts[k], .data = sum_numbers(r, counts[k])};
        run_workers(group, workers, 4);
        for (int r = 0; r < 4; r++) {
            const kn_communicator *end = workers[r].communicator;
            assert_int_equal(workers[r].status, KN_ERROR_CANCELLED);
            assert_string_equal(end->error(end->user), "the device of rank 3?was lost");
            free(workers[r].data);
        }
        kn_group_destroy(&group);
    }
}

/* ---- failures ------------------------------------------------------------------------------------------ */

static kn_status sum_twice(worker *own) {
    kn_status status = kn_all_reduce(own->communicator, own->data, own->count);
    if (!status) status = kn_all_reduce(own->communicator, own->data, 7);
    if (status) own->communicator->abort(own->communicator->user, "another rank failed");
    return status;
}

TEST(every_allocation_may_fail) {
    failing memory = {0};
    const kn_allocator allocator = failing_allocator(&memory);
    size_t failures = 0;
    for (size_t n = 1;; n++) {
        memory.calls = 0;
        memory.fail_at = n;
        kn_group *group = NULL;
        kn_status status = kn_group_create(3, &allocator, &group);
        assert_true((status == KN_OK) == (group != NULL));
        if (group) {
            worker workers[3];
            for (int r = 0; r < 3; r++)
                workers[r] = (worker){.work = sum_twice, .count = 5000, .data = sum_numbers(r, 5000)};
            run_workers(group, workers, 3);
            for (int r = 0; r < 3; r++) {
                assert_true(workers[r].status == KN_OK || workers[r].status == KN_ERROR_CANCELLED ||
                            workers[r].status == KN_ERROR_MEMORY);
                if (workers[r].status && status != KN_ERROR_MEMORY) status = workers[r].status;
                free(workers[r].data);
            }
            kn_group_destroy(&group);
        }
        assert_int_equal(memory.live, 0);
        if (memory.calls < n) {
            assert_int_equal(status, KN_OK);
            break;
        }
        assert_int_equal(status, KN_ERROR_MEMORY);
        failures++;
    }
    assert_true(failures > 10);
}

/* One that a program brought fails at call number fail_at, from 1 on. */
static int calls, fail_at, begun;

static kn_status begin_or_fail(void **request) {
    if (++calls == fail_at) return KN_ERROR_DEVICE;
    begun++;
    *request = &begun;
    return KN_OK;
}

static kn_status brought_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    return begin_or_fail(request);
}

static kn_status brought_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    memset(data, 0, bytes);
    return begin_or_fail(request);
}

static kn_status brought_wait(void *user, void **request) {
    begun--;
    *request = NULL;
    return ++calls == fail_at ? KN_ERROR_DEVICE : KN_OK;
}

static void brought_abort(void *user, const char *reason) {}

static const char *brought_error(void *user) {
    return "";
}

TEST(failed_calls_leave_nothing_behind) {
    const kn_communicator brought = {.size = offsetof(kn_communicator, sum), /* of an older program */
                                     .rank = 1,
                                     .ranks = 3,
                                     .send = brought_send,
                                     .receive = brought_receive,
                                     .wait = brought_wait,
                                     .abort = brought_abort,
                                     .error = brought_error};
    float *data = sum_numbers(1, 2000001), *result = sum_numbers(1, 2000001);
    kn_status status[5];
    int failures = 0;
    do {
        fail_at++;
        for (int which = 0; which < 5; which++) {
            calls = 0;
            status[which] = which == 0   ? kn_all_reduce(&brought, data, 2000001)
                            : which == 1 ? kn_all_reduce(&brought, data, 10)
                            : which == 2 ? kn_reduce_scatter(&brought, data, result, 666667)
                            : which == 3 ? kn_all_gather(&brought, data, result, 1000)
                                         : kn_broadcast_from(&brought, 0, data, 1000);
            assert_int_equal(begun, 0);
            assert_int_equal(status[which], calls >= fail_at ? KN_ERROR_DEVICE : KN_OK);
            failures += status[which] != KN_OK;
        }
    } while (status[0]);
    assert_true(failures > 50);
    free(result);
    free(data);
}

TEST_FILE(test_communicator, NULL, NULL)
