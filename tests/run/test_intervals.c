/* From lifetimes to offsets in memory, without a device. */
#include "run_tests.h"

#include <stdlib.h>

/* Places the intervals, and requires that no two that are live together overlap and that no block exceeds the
 * limit. */
static uint64_t place(kn_interval *intervals, int count, uint64_t alignment, uint64_t limit, int *blocks) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_arena_init(&arena, &host);
    uint64_t *sizes = NULL, total = 0;
    int culprit;
    uint64_t work = 0;
    kn_error error = {0};
    if (kn_intervals_place(&arena, intervals, count, alignment, limit, &sizes, blocks, &culprit, &work,
                           &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < *blocks; i++) {
        assert_true(sizes[i] > 0 && sizes[i] <= limit);
        total += sizes[i];
    }
    for (int i = 0; i < count; i++) {
        const kn_interval *one = &intervals[i];
        assert_in_range(one->block, 0, *blocks - 1);
        assert_int_equal(one->offset % alignment, 0);
        assert_true(one->offset + one->bytes <= sizes[one->block]);
        for (int j = 0; j < i; j++) {
            const kn_interval *other = &intervals[j];
            bool together = one->first <= other->last && other->first <= one->last;
            bool apart = one->block != other->block || one->offset + one->bytes <= other->offset ||
                         other->offset + other->bytes <= one->offset;
            if (together && !apart) fail_msg("intervals %d and %d overlap", i, j);
        }
    }
    kn_arena_finish(&arena);
    return total;
}

static uint64_t bound_of(const kn_interval *intervals, int count, uint64_t alignment) {
    kn_host host = kn_host_defaults();
    return kn_intervals_bound(&host, intervals, count, alignment);
}

TEST(random_lifetimes_never_overlap) {
    enum { COUNT = 120 };
    kn_interval intervals[COUNT];
    double worst = 0;
    for (uint64_t round = 0; round < 60; round++) {
        uint64_t alignment = 1u << (round % 3 * 4 + 1), at = 0;
        for (int i = 0; i < COUNT; i++) {
            int first = (int)kn_random_below(round, at++, 100);
            int length = (int)kn_random_below(round, at++, round % 2 ? 4 : 40);
            intervals[i] =
                (kn_interval){1 + kn_random_below(round, at++, 5000), first, first + length, -1, 0};
        }
        int blocks;
        uint64_t bound = bound_of(intervals, COUNT, alignment);
        uint64_t total = place(intervals, COUNT, alignment, UINT64_MAX / 8, &blocks);
        assert_int_equal(blocks, 1);
        assert_true(total >= bound);
        if ((double)total > worst * (double)bound) worst = (double)total / (double)bound;
        /* Under a limit of twice the largest. */
        place(intervals, COUNT, alignment, 10000, &blocks);
        assert_true(blocks > 1);
    }
    if (!(worst <= 1.1)) fail_msg("the worst placement takes %g times the bound", worst);
}

TEST(chains_reach_the_bound) {
    /* Each lives until the next is computed; for these sizes largest-first order is not optimal by itself. */
    static const uint64_t sizes[][6] = {
        {4, 3, 2, 5, 0, 0}, {5, 4, 5, 4, 5, 4}, {1, 2, 3, 4, 5, 6}, {9, 1, 8, 2, 7, 3}};
    for (size_t k = 0; k < KN_COUNT_OF(sizes); k++) {
        kn_interval intervals[6];
        int count = 0, blocks;
        for (; count < 6 && sizes[k][count]; count++)
            intervals[count] = (kn_interval){sizes[k][count] * 64, count, count + 1, -1, 0};
        assert_int_equal(place(intervals, count, 64, UINT64_MAX / 8, &blocks),
                         bound_of(intervals, count, 64));
    }
    /* Forward and backward: activations live until their gradient is computed. */
    enum { LAYERS = 20 };
    kn_interval training[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        uint64_t bytes = 128 * (uint64_t)(1 + (LAYERS - i) * 3);
        training[i] = (kn_interval){bytes, i, 2 * LAYERS - 1 - i, -1, 0};
        training[LAYERS + i] = (kn_interval){bytes, 2 * LAYERS - 1 - i, 2 * LAYERS - i, -1, 0};
    }
    int blocks;
    assert_int_equal(place(training, 2 * LAYERS, 128, UINT64_MAX / 8, &blocks),
                     bound_of(training, 2 * LAYERS, 128));
}

TEST(the_bound_is_what_is_alive_at_once) {
    kn_interval intervals[] = {{100, 0, 1, 0, 0}, {100, 1, 2, 0, 0}, {1, 2, 2, 0, 0}, {300, 3, 3, 0, 0}};
    assert_int_equal(bound_of(intervals, 4, 1), 300);
    assert_int_equal(bound_of(intervals, 3, 1), 200);
    assert_int_equal(bound_of(intervals, 3, 64), 256);
    assert_int_equal(bound_of(intervals, 0, 64), 0);
}

TEST(the_same_tenants_get_the_same_places) {
    enum { COUNT = 40 };
    kn_interval one[COUNT], other[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int first = (int)kn_random_below(7, (uint64_t)i, 20);
        one[i] = other[i] =
            (kn_interval){64 * (1 + kn_random_below(8, (uint64_t)i, 4)), first, first + 5, -1, 0};
    }
    int blocks;
    place(one, COUNT, 64, UINT64_MAX / 8, &blocks);
    place(other, COUNT, 64, UINT64_MAX / 8, &blocks);
    for (int i = 0; i < COUNT; i++)
        assert_true(one[i].offset == other[i].offset && one[i].block == other[i].block);
}

TEST(what_is_above_the_limit_is_named) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_arena_init(&arena, &host);
    kn_interval intervals[] = {{10, 0, 1, 0, 0}, {4097, 0, 1, 0, 0}, {10, 0, 1, 0, 0}};
    uint64_t *sizes;
    int blocks, culprit = 7;
    uint64_t work = 0;
    kn_error error = {0};
    kn_status status =
        kn_intervals_place(&arena, intervals, 3, 64, 4096, &sizes, &blocks, &culprit, &work, &error);
    assert_int_equal(status, KN_ERROR_DEVICE_MEMORY);
    assert_int_equal(culprit, 1);
    intervals[1].bytes = 4096;
    assert_int_equal(
        kn_intervals_place(&arena, intervals, 3, 64, 4096, &sizes, &blocks, &culprit, &work, &error), KN_OK);
    assert_int_equal(blocks, 2);
    assert_int_equal(
        kn_intervals_place(&arena, intervals, 0, 64, 4096, &sizes, &blocks, &culprit, &work, &error), KN_OK);
    assert_int_equal(blocks, 0);
    intervals[1].bytes = UINT64_MAX - 5;
    assert_int_not_equal(
        kn_intervals_place(&arena, intervals, 3, 64, UINT64_MAX, &sizes, &blocks, &culprit, &work, &error),
        KN_OK);
    kn_arena_finish(&arena);
}

TEST(a_block_may_end_at_an_odd_limit) {
    int blocks;
    kn_interval intervals[] = {{1000, 0, 1, 0, 0}, {1000, 2, 3, 0, 0}, {500, 0, 3, 0, 0}};
    assert_int_equal(place(intervals, 3, 64, 1000, &blocks), 1000 + 512);
    assert_int_equal(blocks, 2);
}

TEST_FILE(test_fit, NULL, NULL)
