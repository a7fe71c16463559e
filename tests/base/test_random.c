/* Philox and the distributions drawn from it. */
#include "base_tests.h"

#include <math.h>
#include <string.h>

#include "base/random_private.h"

/* The known answers published by the authors of Random123. */
TEST(philox_gives_the_published_words) {
    const struct {
        uint32_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < KN_COUNT_OF(known); i++) {
        uint32_t words[4];
        kn_philox_words(known[i].counter, known[i].key, words);
        assert_memory_equal(words, known[i].words, sizeof words);
    }
}

TEST(words_are_in_the_documented_order) {
    uint64_t key = 0x0123456789abcdefull, block = 0xfedcba9876543210ull;
    uint32_t words[4], same[4];
    kn_philox(key, block, words);
    kn_philox_words((const uint32_t[4]){0x76543210, 0xfedcba98, 0, 0},
                    (const uint32_t[2]){0x89abcdef, 0x01234567}, same);
    assert_memory_equal(words, same, sizeof words);
    kn_philox(0, 0, words);
    assert_int_equal(words[0], 0x6627e8d5);
    for (uint64_t index = 0; index < 64; index++) {
        kn_philox(key, index / 4, words);
        assert_int_equal(kn_random_word(key, index), words[index % 4]);
    }
}

TEST(uniform_is_in_range_and_even) {
    enum { COUNT = 200000, BINS = 20 };
    size_t bins[BINS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        float value = kn_random_uniform(7, i);
        assert_true(value >= 0.0f && value < 1.0f);
        assert_true(value == (float)(kn_random_word(7, i) >> 8) / 16777216.0f);
        bins[(int)(value * BINS)]++;
        sum += (double)value;
    }
    assert_true(fabs(sum / COUNT - 0.5) < 0.003); /* 4.6 standard errors */
    for (int i = 0; i < BINS; i++)
        assert_true(fabs((double)bins[i] - COUNT / BINS) < 500);
}

TEST(normal_has_the_right_moments) {
    enum { COUNT = 200000 };
    double sum = 0, squares = 0, cubes = 0, fourths = 0;
    size_t inside = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double value = (double)kn_random_normal(11, i);
        assert_true(isfinite(value) && fabs(value) < 7);
        sum += value;
        squares += value * value;
        cubes += value * value * value;
        fourths += value * value * value * value;
        inside += fabs(value) < 1;
    }
    assert_true(fabs(sum / COUNT) < 0.01);
    assert_true(fabs(squares / COUNT - 1) < 0.015);
    assert_true(fabs(cubes / COUNT) < 0.04);
    assert_true(fabs(fourths / COUNT - 3) < 0.11);
    assert_true(fabs((double)inside / COUNT - 0.682689) < 0.005);
}

TEST(normal_uses_words_2i_and_2i_plus_1) {
    for (uint64_t i = 0; i < 1000; i++) {
        double first = ((double)kn_random_word(5, 2 * i) + 1) / 4294967296.0;
        double second = (double)kn_random_word(5, 2 * i + 1) / 4294967296.0;
        double expected = sqrt(-2 * log(first)) * cos(2 * 3.14159265358979323846 * second);
        assert_true(fabs((double)kn_random_normal(5, i) - expected) <= 1e-6);
    }
    assert_true(isfinite(kn_random_normal(5, UINT64_MAX)));
}

TEST(below_is_in_range) {
    enum { COUNT = 100000 };
    size_t seen[10] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        uint32_t value = kn_random_below(3, i, 10);
        assert_true(value < 10);
        seen[value]++;
        assert_int_equal(kn_random_below(3, i, 1), 0);
        assert_true(kn_random_below(3, i, UINT32_MAX) < UINT32_MAX);
    }
    for (int i = 0; i < 10; i++)
        assert_true(fabs((double)seen[i] - COUNT / 10) < 500);
}

TEST(keys_differ_by_seed_and_name) {
    unsigned char bytes[12] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 'n', 'a', 'm', 'e'};
    assert_true(kn_random_key(0x0123456789abcdefull, "name") ==
                kn_hash_bytes(KN_HASH_START, bytes, sizeof bytes));
    assert_true(kn_random_key(1, "dropout") != kn_random_key(2, "dropout"));
    assert_true(kn_random_key(1, "dropout") != kn_random_key(1, "dropout2"));
}

TEST(shuffle_permutes) {
    enum { COUNT = 1000 };
    uint32_t items[COUNT], again[COUNT], other[COUNT];
    bool seen[COUNT] = {false};
    for (uint32_t i = 0; i < COUNT; i++)
        items[i] = again[i] = other[i] = i;
    kn_random_shuffle(1, items, COUNT);
    kn_random_shuffle(1, again, COUNT);
    kn_random_shuffle(2, other, COUNT);
    assert_memory_equal(items, again, sizeof items);
    assert_memory_not_equal(items, other, sizeof items);
    size_t stayed = 0;
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(items[i] < COUNT);
        assert_false(seen[items[i]]);
        seen[items[i]] = true;
        stayed += items[i] == i;
    }
    assert_true(stayed < 10);
    uint32_t one = 9;
    kn_random_shuffle(1, &one, 1);
    kn_random_shuffle(1, NULL, 0);
    assert_int_equal(one, 9);
    /* Each of the six permutations of three elements is about equally frequent. */
    size_t orders[27] = {0};
    for (uint64_t key = 0; key < 60000; key++) {
        uint32_t three[3] = {0, 1, 2};
        kn_random_shuffle(key, three, 3);
        orders[three[0] * 9 + three[1] * 3 + three[2]]++;
    }
    size_t kinds = 0;
    for (int i = 0; i < 27; i++) {
        if (!orders[i]) continue;
        kinds++;
        assert_true(fabs((double)orders[i] - 10000) < 450);
    }
    assert_int_equal(kinds, 6);
}

TEST_FILE(test_random, NULL, NULL)
