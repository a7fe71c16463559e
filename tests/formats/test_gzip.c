/* gzip: limits, members, damage. */
#include "formats_tests.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 300000 };

static uint8_t *make_large(void) {
    uint8_t *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (int i = 0; i < LARGE; i++)
        bytes[i] = (uint8_t)(kn_random_word(5, (uint64_t)i / 3) >> (i % 3));
    return bytes;
}

TEST(data_is_decompressed) {
    uint8_t *large = make_large(), *inflated;
    size_t packed_count;
    uint8_t *packed = pack(large, LARGE, &packed_count);
    uint64_t count;
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_error error = {0};
    assert_true(kn_gzip_is(packed, packed_count));
    assert_false(kn_gzip_is(packed, 1));
    assert_false(kn_gzip_is(large, 0));
    const uint64_t limits[] = {LARGE, LARGE + 1, UINT64_MAX};
    for (size_t i = 0; i < KN_COUNT_OF(limits); i++) {
        assert_fine(
            kn_gzip_inflate(&host, "x.gz", packed, packed_count, limits[i], &inflated, &count, &error),
            &error);
        assert_int_equal(count, LARGE);
        assert_memory_equal(inflated, large, LARGE);
        assert_int_equal(inflated[LARGE], 0);
        kn_release(&host, inflated);
        assert_int_equal(memory.live, 0);
    }
    assert_refused(kn_gzip_inflate(&host, "x.gz", packed, packed_count, LARGE - 1, &inflated, &count, &error),
                   &error, KN_ERROR_FORMAT, "more than 299999 bytes");
    assert_null(inflated);
    assert_int_equal(memory.live, 0);
    free(packed);
    free(large);
}

TEST(bombs_are_stopped) {
    /* 32 MiB of zeros in about 32 KiB; with a limit of 1 MiB about 1 MiB is allocated. */
    size_t packed_count, zeros = 32u << 20;
    uint8_t *bytes = calloc(zeros, 1), *inflated;
    uint8_t *packed = pack(bytes, zeros, &packed_count);
    uint64_t count;
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_error error = {0};
    assert_refused(kn_gzip_inflate(&host, "bomb", packed, packed_count, 1 << 20, &inflated, &count, &error),
                   &error, KN_ERROR_FORMAT, "bomb: inflates to more than 1048576 bytes");
    assert_true(memory.peak < 3u << 20);
    assert_int_equal(memory.live, 0);
    free(packed);
    free(bytes);
}

TEST(members_follow_each_other) {
    size_t first_count, second_count;
    uint8_t *first = pack("one, ", 5, &first_count), *second = pack("two", 3, &second_count), *inflated;
    uint8_t *both = malloc(first_count + second_count + 1);
    uint64_t count;
    kn_error error = {0};
    memcpy(both, first, first_count);
    memcpy(both + first_count, second, second_count);
    assert_fine(kn_gzip_inflate(NULL, "x", both, first_count + second_count, 8, &inflated, &count, &error),
                &error);
    assert_string_equal((const char *)inflated, "one, two");
    kn_release(NULL, inflated);
    both[first_count + second_count] = 'x'; /* trailing bytes that are not a member */
    assert_refused(
        kn_gzip_inflate(NULL, "x", both, first_count + second_count + 1, 8, &inflated, &count, &error),
        &error, KN_ERROR_FORMAT, "x: ");
    free(both);
    free(first);
    free(second);
}

TEST(damage_is_found) {
    uint8_t text[200], *inflated;
    uint64_t count;
    kn_error error = {0};
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)kn_random_word(9, i);
    size_t packed_count;
    uint8_t *packed = pack(text, sizeof text, &packed_count);
    for (size_t cut = 0; cut < packed_count; cut++) {
        uint8_t *exact = malloc(cut + 1); /* so that a sanitizer detects reads past the end */
        memcpy(exact, packed, cut);
        assert_int_equal(kn_gzip_inflate(NULL, "x", exact, cut, 1000, &inflated, &count, &error),
                         KN_ERROR_FORMAT);
        free(exact);
    }
    packed[packed_count - 6] ^= 1; /* the checksum */
    assert_refused(kn_gzip_inflate(NULL, "x", packed, packed_count, 1000, &inflated, &count, &error), &error,
                   KN_ERROR_FORMAT, "damaged gzip data");
    free(packed);
}

TEST(memory_may_run_out) {
    uint8_t *large = make_large(), *inflated;
    size_t packed_count;
    uint8_t *packed = pack(large, LARGE, &packed_count);
    uint64_t count;
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_host host = failing_host(&memory);
        kn_error error = {0};
        kn_status status =
            kn_gzip_inflate(&host, "x", packed, packed_count, LARGE, &inflated, &count, &error);
        if (status == KN_OK) {
            kn_release(&host, inflated);
            assert_int_equal(memory.live, 0);
            assert_true(fail_at > 3);
            break;
        }
        assert_int_equal(status, KN_ERROR_MEMORY);
        assert_int_equal(memory.live, 0);
    }
    free(packed);
    free(large);
}

TEST_FILE(test_gzip, NULL, NULL)
