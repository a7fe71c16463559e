/* The allocator of the host, growing arrays, and the arena. */
#include "base_tests.h"

#include <string.h>

TEST(allocated_memory_is_zero) {
    failing memory = {0};
    kn_host own = failing_host(&memory), usual = kn_host_defaults(), empty = {0};
    const kn_host *hosts[] = {&own, &usual, &empty, NULL};
    for (size_t h = 0; h < KN_COUNT_OF(hosts); h++) {
        unsigned char *bytes = kn_allocate(hosts[h], 100, 10);
        assert_non_null(bytes);
        for (size_t i = 0; i < 1000; i++)
            assert_int_equal(bytes[i], 0);
        kn_release(hosts[h], bytes);
        assert_null(kn_allocate(hosts[h], 0, 10));
        assert_null(kn_allocate(hosts[h], 10, 0));
        kn_release(hosts[h], NULL);
    }
    assert_int_equal(memory.calls, 1);
    assert_int_equal(memory.live, 0);
}

TEST(allocate_refuses_overflow) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    assert_null(kn_allocate(&host, SIZE_MAX, 2));
    assert_null(kn_allocate(&host, SIZE_MAX / 2 + 2, 2)); /* wraps to 2 */
    assert_null(kn_allocate(&host, 3, SIZE_MAX / 2));
    assert_null(kn_allocate(&host, SIZE_MAX, 1)); /* more than the address space holds */
    void *block = kn_allocate(&host, 4, 4);
    assert_null(kn_resize(&host, block, SIZE_MAX / 4 + 2, 4));
    assert_null(kn_resize(&host, block, 0, 4)); /* refused, and not freed */
    assert_int_equal(memory.calls, 1);
    assert_int_equal(memory.live, 1);
    kn_release(&host, block);
    assert_int_equal(memory.live, 0);
}

TEST(resize_keeps_the_content) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    unsigned char *bytes = kn_resize(&host, NULL, 8, 1);
    assert_non_null(bytes);
    memcpy(bytes, "12345678", 8);
    bytes = kn_resize(&host, bytes, 1000, 100);
    assert_non_null(bytes);
    assert_memory_equal(bytes, "12345678", 8);
    memory.fail_at = memory.calls + 1;
    assert_null(kn_resize(&host, bytes, 2000, 100));
    assert_memory_equal(bytes, "12345678", 8);
    kn_release(&host, bytes);
    assert_int_equal(memory.live, 0);
}

TEST(copy_text_copies) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    const char *text = "some text";
    char *copy = kn_copy_text(&host, text);
    assert_string_equal(copy, text);
    assert_ptr_not_equal(copy, text);
    char *empty = kn_copy_text(&host, "");
    assert_string_equal(empty, "");
    assert_null(kn_copy_text(&host, NULL));
    memory.fail_at = memory.calls + 1;
    assert_null(kn_copy_text(&host, text));
    kn_release(&host, copy);
    kn_release(&host, empty);
    assert_int_equal(memory.live, 0);
}

TEST(reserve_doubles) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    void *items = NULL;
    size_t capacity = 0;
    assert_true(kn_reserve(&host, &items, &capacity, 0, 4));
    assert_null(items);
    for (size_t i = 0; i < 10000; i++) {
        assert_true(kn_reserve(&host, &items, &capacity, i + 1, sizeof(size_t)));
        assert_true(capacity > i);
        ((size_t *)items)[i] = i;
    }
    assert_true(memory.calls < 20);
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(((size_t *)items)[i], i);

    void *before = items;
    size_t had = capacity;
    memory.fail_at = memory.calls + 1;
    assert_false(kn_reserve(&host, &items, &capacity, capacity + 1, sizeof(size_t)));
    assert_false(kn_reserve(&host, &items, &capacity, SIZE_MAX, sizeof(size_t)));
    assert_false(kn_reserve(&host, &items, &capacity, SIZE_MAX / 2 + 2, 2));
    assert_false(kn_reserve(&host, &items, &capacity, SIZE_MAX / 8 + 2, 8));
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, had);
    assert_int_equal(((size_t *)items)[9999], 9999);
    kn_release(&host, items);
    assert_int_equal(memory.live, 0);
}

TEST(arena_allocations_do_not_overlap) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_arena arena;
    kn_arena_init(&arena, &host);
    enum { PIECES = 3000 };
    unsigned char *pieces[PIECES];
    size_t sizes[PIECES], total = 0;
    uint64_t seed = 1;
    for (size_t i = 0; i < PIECES; i++) {
        sizes[i] = (size_t)(next_number(&seed) % 300);
        if (i % 500 == 7) sizes[i] *= 3000; /* larger than any block */
        pieces[i] = kn_arena_take(&arena, sizes[i], 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            if (pieces[i][j] != 0) fail_msg("byte %zu of piece %zu is not zero", j, i);
        memset(pieces[i], (int)(i % 251) + 1, sizes[i]);
        total += sizes[i];
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            if (pieces[i][j] != i % 251 + 1) fail_msg("byte %zu of piece %zu was overwritten", j, i);
    assert_true(arena.bytes >= total);
    assert_true(memory.calls < PIECES / 10);
    kn_arena_finish(&arena);
    assert_int_equal(memory.live, 0);
    assert_int_equal(arena.bytes, 0);
    /* The arena can be used again. */
    assert_non_null(kn_arena_take(&arena, 1, 1));
    kn_arena_finish(&arena);
    kn_arena_finish(&arena);
    assert_int_equal(memory.live, 0);
}

/* An allocator that aligns to 8 bytes only. */
static void *crooked_resize(void *user, void *pointer, size_t bytes) {
    char *block = pointer ? (char *)pointer - 8 : NULL;
    block = kn_host_defaults().allocator.resize(NULL, block, bytes ? bytes + 8 : 0);
    return block ? block + 8 : NULL;
}

TEST(arena_aligns_whatever_the_allocator_does) {
    kn_host host = kn_host_defaults();
    host.allocator.resize = crooked_resize;
    kn_arena arena;
    kn_arena_init(&arena, &host);
    for (size_t i = 0; i < 2000; i++) {
        unsigned char *piece = kn_arena_take(&arena, i, 1);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % 16, 0);
        memset(piece, 0xFF, i); /* a sanitizer detects writes past the end of a block */
    }
    kn_arena_finish(&arena);
}

TEST(arena_allocates_nothing_and_refuses_too_much) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_arena arena;
    kn_arena_init(&arena, &host);
    char *none = kn_arena_take(&arena, 0, 8);
    char *other = kn_arena_take(&arena, 8, 0);
    assert_non_null(none);
    assert_non_null(other);
    assert_ptr_not_equal(none, other);
    size_t calls = memory.calls;
    assert_null(kn_arena_take(&arena, SIZE_MAX, 1));
    assert_null(kn_arena_take(&arena, SIZE_MAX, SIZE_MAX));
    assert_null(kn_arena_take(&arena, SIZE_MAX / 8 + 2, 8)); /* wraps to 8 */
    assert_null(kn_arena_copy(&arena, "", SIZE_MAX / 8 + 2, 8));
    assert_int_equal(memory.calls, calls);
    kn_arena_finish(&arena);
    assert_int_equal(memory.live, 0);
}

TEST(arena_keeps_texts) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_arena_init(&arena, &host);
    char source[] = "changes";
    char *text = kn_arena_text(&arena, source);
    char *formatted = kn_arena_format(&arena, "%s-%d", source, 42);
    char *longer = kn_arena_format(&arena, "%9000d", 1);
    const int numbers[] = {1, 2, 3};
    int *copy = kn_arena_copy(&arena, numbers, 3, sizeof *numbers);
    memset(source, 'x', sizeof source - 1);
    assert_string_equal(text, "changes");
    assert_string_equal(formatted, "changes-42");
    assert_int_equal(strlen(longer), 9000);
    assert_memory_equal(copy, numbers, sizeof numbers);
    assert_non_null(kn_arena_copy(&arena, NULL, 0, 4));
    assert_null(kn_arena_text(&arena, NULL));
    assert_string_equal(kn_path_join(&arena, "folder", "name"), "folder/name");
    assert_string_equal(kn_path_join(&arena, "folder/", "name"), "folder/name");
    assert_string_equal(kn_path_join(&arena, "/", "name"), "/name");
    assert_string_equal(kn_path_join(&arena, "", "name"), "name");
    kn_arena_finish(&arena);
}

TEST(arena_survives_failing_memory) {
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_arena arena;
        kn_arena_init(&arena, &host);
        size_t failures = 0;
        for (size_t i = 0; i < 100; i++) {
            char *text = kn_arena_format(&arena, "%zu %300d", i, 7);
            char *piece = kn_arena_take(&arena, i, 100);
            char *copied = kn_arena_text(&arena, "text");
            char *joined = kn_path_join(&arena, "folder", "name");
            failures += !text + !piece + !copied + !joined;
            if (text) assert_int_equal(strlen(text), 301 + (i < 10 ? 1 : 2));
            if (piece) memset(piece, 1, i * 100);
        }
        kn_arena_finish(&arena);
        assert_int_equal(memory.live, 0);
        assert_int_equal(failures, memory.calls >= fail_at ? 1 : 0);
        if (memory.calls < fail_at) {
            assert_true(fail_at > 5);
            return;
        }
    }
}

TEST_FILE(test_memory, NULL, NULL)
