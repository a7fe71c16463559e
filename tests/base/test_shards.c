/* Shards: how samples and shards are dealt, and that sums follow the same tree however they are dealt. */
#include <stdio.h>
#include <string.h>

#include "base_tests.h"

enum { MOST = 16, SUM_BYTES = 256 };

/* A sum, as the text of its tree: "((0+1)+(2+3))". */
typedef struct sum {
    char text[SUM_BYTES];
    kn_subtree place;
} sum;

static void merge(sum *left, const sum *right) {
    char text[SUM_BYTES];
    assert_true(snprintf(text, sizeof text, "(%.100s+%.100s)", left->text, right->text) < SUM_BYTES);
    strcpy(left->text, text);
}

/* Adds up the shards of a rank on its stack; appends the remaining sums to `list`. Returns their number. */
static int add_own(const kn_shards *shards, sum *list) {
    sum stack[KN_MAX_SUBTREES];
    int height = 0;
    const int begin = shards->firsts[shards->rank], end = shards->firsts[shards->rank + 1];
    for (int shard = begin; shard < end; shard++) {
        const kn_shard_place own = kn_shard_place_of(shards, shard);
        sum added;
        snprintf(added.text, sizeof added.text, "%d", shard);
        assert_int_equal(own.place + own.merged, height);
        assert_true(height <= shards->places);
        while (height > own.place) {
            merge(&stack[height - 1], &added);
            added = stack[--height];
        }
        stack[height++] = added;
    }
    kn_subtree places[KN_MAX_SUBTREES];
    assert_int_equal(kn_subtrees(shards, begin, end, places), height);
    for (int i = 0; i < height; i++) {
        list[i] = stack[i];
        list[i].place = places[i];
    }
    return height;
}

/* The sum over all ranks. */
static void add_all(int count, int ranks, const int *deal, char *text) {
    sum stack[MOST] = {{{0}, {0}}}, list[KN_MAX_SUBTREES];
    kn_error error = {0};
    kn_shards shards;
    int height = 0;
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(kn_shards_deal(&shards, count, ranks, rank, deal, &error), KN_OK);
        const int own = add_own(&shards, list);
        for (int i = 0; i < own; i++) {
            stack[height++] = list[i];
            while (height > 1 && kn_subtrees_merge(&stack[height - 2].place, &stack[height - 1].place)) {
                merge(&stack[height - 2], &stack[height - 1]);
                height--;
            }
        }
    }
    assert_int_equal(height, 1);
    strcpy(text, stack[0].text);
}

/* Tries each way to assign the remaining shards, `left` of `count`, to the ranks from `rank` on. */
static void try_deals(int count, int rank, int left, int *deal, const char *wanted) {
    char text[SUM_BYTES];
    if (!left) {
        add_all(count, rank, deal, text);
        assert_string_equal(text, wanted);
    }
    for (int own = 1; own <= left; own++) {
        deal[rank] = own;
        try_deals(count, rank + 1, left - own, deal, wanted);
    }
}

TEST(sums_follow_one_tree_however_shards_are_dealt) {
    char wanted[SUM_BYTES];
    int deal[MOST];
    add_all(4, 1, NULL, wanted);
    assert_string_equal(wanted, "((0+1)+(2+3))");
    for (int count = 1; count <= 8; count *= 2) {
        add_all(count, 1, NULL, wanted);
        try_deals(count, 0, count, deal, wanted);
    }
    add_all(MOST, 1, NULL, wanted);
    for (int ranks = 2; ranks <= MOST; ranks++) {
        char text[SUM_BYTES];
        add_all(MOST, ranks, NULL, text);
        assert_string_equal(text, wanted);
    }
}

TEST(each_sample_counts_once) {
    for (int count = 1; count <= MOST; count *= 2)
        for (uint64_t samples = 1; samples < 40; samples++) {
            uint64_t next = 0, first, begin;
            double weights = 0, weight;
            for (int shard = 0; shard < count; shard++) {
                const uint64_t own = kn_shard_samples(count, shard, samples, &first, &weight);
                assert_true(own >= 1 && first + own <= samples);
                weights += weight;
                if (weight == 0) continue;
                assert_int_equal(first, next);
                assert_true(weight == (double)own / (double)samples);
                next += own;
            }
            assert_int_equal(next, samples);
            assert_true(weights > 1 - 1e-12 && weights < 1 + 1e-12);
            assert_int_equal(kn_shards_samples(count, 0, count, samples, &begin), samples);
            assert_int_equal(begin, 0);
        }
}

TEST(wrong_deals_are_refused) {
    static const int more[] = {3, 2}, none[] = {4, 0}, few[] = {1, 2};
    const int *const deals[] = {more, none, few};
    kn_shards shards;
    for (size_t i = 0; i < KN_COUNT_OF(deals); i++) {
        kn_error error = {0};
        assert_int_equal(kn_shards_deal(&shards, 4, 2, 0, deals[i], &error), KN_ERROR_ARGUMENT);
    }
    static const int numbers[][3] = {{3, 1, 0}, {0, 1, 0}, {2048, 1, 0}, {4, 5, 0},
                                     {4, 0, 0}, {4, 2, 2}, {4, 2, -1}};
    for (size_t i = 0; i < KN_COUNT_OF(numbers); i++) {
        kn_error error = {0};
        assert_int_equal(kn_shards_deal(&shards, numbers[i][0], numbers[i][1], numbers[i][2], NULL, &error),
                         KN_ERROR_ARGUMENT);
        assert_true(error.text[0]);
    }
}

TEST_FILE(test_shards, NULL, NULL)
