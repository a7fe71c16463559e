/* Hashes and the hash map. */
#include "base_tests.h"

#include <stdio.h>
#include <string.h>

/* The published values of 64-bit FNV-1a. */
TEST(hash_is_fnv) {
    assert_true(kn_hash_text(KN_HASH_START, "") == 0xcbf29ce484222325ull);
    assert_true(kn_hash_text(KN_HASH_START, "a") == 0xaf63dc4c8601ec8cull);
    assert_true(kn_hash_text(KN_HASH_START, "foobar") == 0x85944171f73967e8ull);
    assert_true(kn_hash_bytes(kn_hash_text(KN_HASH_START, "foo"), "bar", 3) == 0x85944171f73967e8ull);
    assert_true(kn_hash_bytes(KN_HASH_START, NULL, 0) == KN_HASH_START);
    assert_true(kn_hash_bytes(KN_HASH_START, "\xff\0", 2) != kn_hash_bytes(KN_HASH_START, "\xff", 1));
}

TEST(fingerprints_see_every_change) {
    unsigned char bytes[300] = {0};
    for (size_t count = 0; count <= sizeof bytes; count++) {
        uint64_t plain = kn_fingerprint(bytes, count);
        assert_true(plain == kn_fingerprint(bytes, count));
        if (count < sizeof bytes) assert_true(plain != kn_fingerprint(bytes, count + 1));
        for (size_t i = 0; i < count; i++) {
            bytes[i] = 0x80;
            assert_true(plain != kn_fingerprint(bytes, count));
            for (size_t j = i + 4; j < count; j += 4) { /* like changing the signs of two floats */
                bytes[j] = 0x80;
                assert_true(plain != kn_fingerprint(bytes, count));
                bytes[j] = 0;
            }
            bytes[i] = 0;
        }
    }
    float numbers[64], turned[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = turned[63 - i] = (float)i;
    assert_true(kn_fingerprint(numbers, sizeof numbers) != kn_fingerprint(turned, sizeof turned));
}

TEST(an_empty_map_has_no_entries) {
    kn_host host = kn_host_defaults();
    kn_map map;
    kn_map_init(&map, &host);
    size_t position = 0;
    assert_null(kn_map_get_text(&map, "name"));
    assert_false(kn_map_has(&map, "", 0));
    assert_false(kn_map_remove(&map, "name", 4));
    assert_null(kn_map_next(&map, &position));
    kn_map_finish(&map);
    kn_map_finish(&map);
}

TEST(keys_are_bytes) {
    kn_host host = kn_host_defaults();
    kn_map map;
    kn_map_init(&map, &host);
    int a, b, c, d;
    assert_true(kn_map_put(&map, "x\0y", 3, &a));
    assert_true(kn_map_put(&map, "x\0z", 3, &b));
    assert_true(kn_map_put(&map, "x", 1, &c));
    assert_true(kn_map_put(&map, NULL, 0, &d));
    assert_int_equal(map.count, 4);
    assert_ptr_equal(kn_map_get(&map, "x\0y", 3), &a);
    assert_ptr_equal(kn_map_get(&map, "x\0z", 3), &b);
    assert_ptr_equal(kn_map_get_text(&map, "x"), &c);
    assert_ptr_equal(kn_map_get_text(&map, ""), &d);
    assert_null(kn_map_get(&map, "x\0", 2));
    /* A value may be NULL; only kn_map_has distinguishes it from a missing key. */
    assert_true(kn_map_put_text(&map, "null", NULL));
    assert_null(kn_map_get_text(&map, "null"));
    assert_true(kn_map_has(&map, "null", 4));
    /* The empty key can be added and removed like any other. */
    assert_true(kn_map_remove(&map, "", 0));
    assert_false(kn_map_has(&map, "", 0));
    assert_false(kn_map_remove(&map, "", 0));
    assert_true(kn_map_put(&map, "", 0, &a));
    assert_ptr_equal(kn_map_get_text(&map, ""), &a);
    assert_int_equal(map.count, 5);
    kn_map_finish(&map);
}

TEST(keys_are_copied_and_values_replaced) {
    kn_host host = kn_host_defaults();
    kn_map map;
    kn_map_init(&map, &host);
    int a, b;
    char key[] = "key";
    assert_true(kn_map_put_text(&map, key, &a));
    key[0] = 'x';
    assert_ptr_equal(kn_map_get_text(&map, "key"), &a);
    assert_true(kn_map_put_text(&map, "key", &b));
    assert_ptr_equal(kn_map_get_text(&map, "key"), &b);
    assert_int_equal(map.count, 1);
    size_t position = 0;
    const kn_map_entry *entry = kn_map_next(&map, &position);
    assert_string_equal(entry->key, "key");
    assert_int_equal(entry->key_bytes, 3);
    assert_true(entry->hash == kn_hash_text(KN_HASH_START, "key"));
    assert_null(kn_map_next(&map, &position));
    kn_map_finish(&map);
}

/* Thousands of random insertions and removals, compared with a plain list. */
TEST(the_map_agrees_with_a_list) {
    enum { KEYS = 3000, STEPS = 60000 };
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_map map;
    kn_map_init(&map, &host);
    static size_t value[KEYS], born[KEYS]; /* 0: not there */
    memset(value, 0, sizeof value);
    uint64_t seed = 2;
    for (size_t step = 1; step <= STEPS; step++) {
        size_t i = (size_t)(next_number(&seed) % KEYS);
        char key[32];
        snprintf(key, sizeof key, "key %zu", i);
        /* Grow, shrink to almost nothing, and grow again. */
        bool put = next_number(&seed) % 100 < (step / (STEPS / 4) % 2 ? 15u : 80u);
        assert_ptr_equal(kn_map_get_text(&map, key), (void *)value[i]);
        if (put) {
            assert_true(kn_map_put_text(&map, key, (void *)step));
            if (!value[i]) born[i] = step;
            value[i] = step;
        } else {
            assert_int_equal(kn_map_remove(&map, key, strlen(key)), value[i] != 0);
            value[i] = 0;
        }
        if (step % 1000 != 0) continue;
        size_t count = 0, walked = 0, position = 0, last = 0;
        for (size_t k = 0; k < KEYS; k++) {
            snprintf(key, sizeof key, "key %zu", k);
            assert_int_equal(kn_map_has(&map, key, strlen(key)), value[k] != 0);
            assert_ptr_equal(kn_map_get_text(&map, key), (void *)value[k]);
            count += value[k] != 0;
        }
        assert_int_equal(map.count, count);
        const kn_map_entry *entry;
        while ((entry = kn_map_next(&map, &position))) {
            size_t k;
            assert_int_equal(sscanf(entry->key, "key %zu", &k), 1);
            assert_ptr_equal(entry->value, (void *)value[k]);
            assert_true(born[k] > last); /* insertion order */
            last = born[k];
            walked++;
        }
        assert_int_equal(walked, count);
        /* Removed entries do not accumulate. */
        assert_true(map.used <= 2 * KEYS + 64);
    }
    kn_map_finish(&map);
    assert_int_equal(memory.live, 0);
}

TEST(removed_entries_free_their_memory) {
    kn_host host = kn_host_defaults();
    kn_map map;
    kn_map_init(&map, &host);
    for (int i = 0; i < 100000; i++) {
        char key[32];
        snprintf(key, sizeof key, "%d", i);
        assert_true(kn_map_put_text(&map, key, &map));
        assert_true(kn_map_remove(&map, key, strlen(key)));
    }
    assert_int_equal(map.count, 0);
    assert_true(map.capacity < 200);
    assert_true(map.slot_count < 400);
    kn_map_finish(&map);
}

TEST(entries_may_be_removed_in_a_loop) {
    kn_host host = kn_host_defaults();
    kn_map map;
    kn_map_init(&map, &host);
    for (uint32_t i = 0; i < 1000; i++)
        assert_true(kn_map_put(&map, &i, sizeof i, &map));
    size_t position = 0, seen = 0;
    const kn_map_entry *entry;
    while ((entry = kn_map_next(&map, &position))) {
        uint32_t i;
        memcpy(&i, entry->key, sizeof i);
        assert_int_equal(i, seen++);
        if (i % 3) assert_true(kn_map_remove(&map, &i, sizeof i));
    }
    assert_int_equal(seen, 1000);
    assert_int_equal(map.count, 334);
    kn_map_finish(&map);
}

TEST(the_map_survives_failing_memory) {
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_map map;
        kn_map_init(&map, &host);
        size_t failures = 0;
        for (uint32_t i = 0; i < 60; i++) {
            size_t before = map.count;
            if (!kn_map_put(&map, &i, sizeof i, &map)) {
                failures++;
                assert_int_equal(map.count, before);
                assert_false(kn_map_has(&map, &i, sizeof i));
                assert_true(kn_map_put(&map, &i, sizeof i, &map)); /* and works afterwards */
            }
        }
        for (uint32_t i = 0; i < 60; i++)
            assert_ptr_equal(kn_map_get(&map, &i, sizeof i), &map);
        assert_int_equal(map.count, 60);
        kn_map_finish(&map);
        assert_int_equal(memory.live, 0);
        assert_int_equal(failures, memory.calls >= fail_at ? 1 : 0);
        if (memory.calls < fail_at) {
            assert_true(fail_at > 60);
            return;
        }
    }
}

TEST_FILE(test_map, NULL, NULL)
