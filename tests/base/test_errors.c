/* Status codes, errors and the log. */
#include "base_tests.h"

#include <stdio.h>
#include <string.h>

TEST(every_status_has_a_name) {
    const struct {
        kn_status status;
        int number;
        const char *name, *message;
    } list[] = {
#define ROW(name, number, message) {name, number, #name, message},
        KN_STATUS_LIST(ROW)
#undef ROW
    };
    for (size_t i = 0; i < KN_COUNT_OF(list); i++) {
        assert_int_equal(list[i].status, list[i].number);
        assert_string_equal(kn_status_name(list[i].status), list[i].name);
        assert_string_equal(kn_status_message(list[i].status), list[i].message);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(list[i].number, list[j].number);
    }
    assert_string_equal(kn_status_name(KN_ERROR_SHAPE), "KN_ERROR_SHAPE");
    assert_int_equal(KN_OK, 0);
    assert_string_equal(kn_status_name((kn_status)4711), "unknown");
    assert_string_equal(kn_status_message((kn_status)-1), "unknown");
}

TEST(fail_fills_the_error) {
    kn_error error;
    memset(&error, 'x', sizeof error);
    kn_error_clear(&error);
    assert_int_equal(error.status, KN_OK);
    assert_string_equal(error.text, "");
    kn_error_clear(NULL);

    assert_int_equal(kn_fail(&error, KN_ERROR_SHAPE, "found %d, expected %s", 3, "(2, 4)"), KN_ERROR_SHAPE);
    assert_int_equal(error.status, KN_ERROR_SHAPE);
    assert_string_equal(error.text, "found 3, expected (2, 4)");
    assert_int_equal(kn_fail(NULL, KN_ERROR_FILE, "%s", "no error to fill in"), KN_ERROR_FILE);
    kn_fail(&error, KN_ERROR_FILE, "found '%s'", "\x1b[31m\nred\x7f");
    assert_string_equal(error.text, "found '?[31m?red?'");
    kn_fail(&error, KN_ERROR_FILE, "\xc2\x9b\x33m \xc3\xbc \xc2\xb5");
    assert_string_equal(error.text, "??3m \xc3\xbc \xc2\xb5");

    assert_int_equal(kn_fail_memory(&error, 12345), KN_ERROR_MEMORY);
    assert_int_equal(error.status, KN_ERROR_MEMORY);
    assert_non_null(strstr(error.text, "12345"));
    assert_int_equal(kn_fail_memory(NULL, 1), KN_ERROR_MEMORY);
    /* 0: the size is unknown; SIZE_MAX: it overflowed. */
    kn_fail_memory(&error, 0);
    assert_string_equal(error.text, "out of host memory");
    kn_fail_memory(&error, SIZE_MAX);
    assert_string_equal(error.text, "the size of an allocation exceeds the address space");
    kn_fail_memory_for(&error, "the samples", 7, 100);
    assert_string_equal(
        error.text, "the samples (7 times 100 bytes): out of host memory: 700 bytes could not be allocated");
    assert_int_equal(kn_fail_memory_for(&error, "the samples", (uint64_t)1 << 62, 4), KN_ERROR_MEMORY);
    assert_string_equal(error.text, "the samples (4611686018427387904 times 4 bytes): the size of an "
                                    "allocation exceeds the address space");
    assert_int_equal(kn_fail_memory_for(NULL, "x", 0, 0), KN_ERROR_MEMORY);
}

TEST(fail_may_use_its_own_text) {
    kn_error error = {0};
    kn_fail(&error, KN_ERROR_FILE, "inner");
    kn_fail(&error, KN_ERROR_FORMAT, "outer (%s)", error.text);
    assert_string_equal(error.text, "outer (inner)");
    kn_fail_in(&error, "after %s", error.text);
    assert_string_equal(error.text, "after outer (inner): outer (inner)");
}

TEST(fail_in_prefixes_the_place) {
    kn_error error = {0};
    kn_fail(&error, KN_ERROR_DTYPE, "float expected");
    assert_int_equal(kn_fail_in(&error, "node %s", "conv1"), KN_ERROR_DTYPE);
    assert_int_equal(kn_fail_in(&error, "line %d", 7), KN_ERROR_DTYPE);
    assert_string_equal(error.text, "line 7: node conv1: float expected");
    /* Without an error to fill in, the status must still be a failure. */
    assert_int_not_equal(kn_fail_in(NULL, "nowhere"), KN_OK);
    /* An error that holds KN_OK stays KN_OK. */
    kn_error fine = {0};
    assert_int_equal(kn_fail_in(&fine, "somewhere"), KN_OK);
    assert_string_equal(fine.text, "");
}

TEST(long_texts_are_cut) {
    struct {
        kn_error error;
        char canary[16];
    } place;
    char text[4096];
    for (size_t length = sizeof place.error.text - 6; length < sizeof place.error.text + 6; length++) {
        memset(&place, 'c', sizeof place);
        memset(text, 'a', length);
        text[length] = '\0';
        kn_fail(&place.error, KN_ERROR_FORMAT, "%s", text);
        size_t stands = strlen(place.error.text);
        if (length < sizeof place.error.text) {
            assert_string_equal(place.error.text, text);
        } else {
            assert_int_equal(stands, sizeof place.error.text - 1);
            assert_string_equal(place.error.text + stands - 4, "a...");
        }
        for (size_t i = 0; i < sizeof place.canary; i++)
            assert_int_equal(place.canary[i], 'c');

        /* A prefix truncates the end of the text. */
        kn_fail_in(&place.error, "here");
        assert_memory_equal(place.error.text, "here: aaa", 9);
        assert_int_equal(strlen(place.error.text), sizeof place.error.text - 1);
        assert_string_equal(place.error.text + sizeof place.error.text - 5, "a...");
        /* So does a prefix that fills the whole text. */
        kn_fail_in(&place.error, "%s%s", text, text);
        assert_int_equal(strlen(place.error.text), sizeof place.error.text - 1);
        for (size_t i = 0; i < sizeof place.canary; i++)
            assert_int_equal(place.canary[i], 'c');
    }
}

TEST(long_texts_are_cut_between_characters) {
    kn_error error;
    char text[4096];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 4 < sizeof text; i += 4)
            memcpy(text + i, "\xF0\x9F\x90\x8B", 5);
        kn_fail(&error, KN_ERROR_FORMAT, "%s", text);
        size_t length = strlen(error.text);
        assert_string_equal(error.text + length - 3, "...");
        assert_int_equal((length - 3 - shift) % 4, 0);
        assert_memory_equal(error.text, text, length - 3);
        assert_true(length >= sizeof error.text - 4);
    }
}

typedef struct heard {
    int count;
    kn_log_level level;
    char message[4096];
} heard;

static void hear(void *user, kn_log_level level, const char *message) {
    heard *log = user;
    log->count++;
    log->level = level;
    snprintf(log->message, sizeof log->message, "%s", message);
}

TEST(log_drops_lower_levels) {
    heard log = {0};
    kn_host host = kn_host_defaults();
    kn_log_write(&host, KN_LOG_ERROR, "dropped"); /* the default drops everything */
    kn_log_write(NULL, KN_LOG_ERROR, "dropped");
    host.log = (kn_logger){.user = &log, .level = KN_LOG_INFO, .write = hear};
    kn_log_write(&host, KN_LOG_INFO, "%d of %s", 3, "ten");
    assert_int_equal(log.count, 1);
    assert_int_equal(log.level, KN_LOG_INFO);
    assert_string_equal(log.message, "3 of ten");
    kn_log_write(&host, KN_LOG_DEBUG, "too fine");
    assert_int_equal(log.count, 1);
    kn_log_write(&host, KN_LOG_ERROR, "coarse");
    assert_int_equal(log.count, 2);
    assert_int_equal(log.level, KN_LOG_ERROR);
}

TEST(log_messages_are_one_line) {
    heard log = {0};
    kn_host host = kn_host_defaults();
    host.log = (kn_logger){.user = &log, .level = KN_LOG_DEBUG, .write = hear};
    kn_log_write(&host, KN_LOG_DEBUG, "one\ntwo\r\nthree\n\n");
    assert_string_equal(log.message, "one two  three");
    kn_log_write(&host, KN_LOG_DEBUG, "%s", "");
    assert_string_equal(log.message, "");
    kn_log_write(&host, KN_LOG_DEBUG, "%5000d|", 1);
    size_t length = strlen(log.message);
    assert_int_equal(length, 2047);
    assert_string_equal(log.message + length - 3, "...");
}

TEST_FILE(test_errors, NULL, NULL)
