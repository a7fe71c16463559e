/* zip: members stored and deflated, and damaged files; and CIFAR records. */
#include "formats_tests.h"

#include "zip_bytes.h"

#include <stdlib.h>
#include <string.h>

static const char story[] =
    "a text that is long enough, a text that is long enough, a text that is long enough";

static void make(zip_bytes *zip) {
    zip_add(zip, "plain.txt", "stored", 6, false);
    zip_add(zip, "a/story", story, sizeof story, true);
    zip_add(zip, "none", "", 0, true);
    zip_end(zip);
}

TEST(members_are_read) {
    for (int large = 0; large < 2; large++) {
        zip_bytes made = {.large = large != 0};
        kn_error error = {0};
        kn_arena arena;
        kn_zip zip;
        const uint8_t *bytes;
        void *owned;
        make(&made);
        kn_arena_init(&arena, NULL);
        assert_fine(kn_zip_read(&arena, "some.zip", made.bytes, made.count, &zip, &error), &error);
        assert_int_equal(zip.count, 3);
        assert_null(kn_zip_find(&zip, "story"));
        const kn_zip_member *member = kn_zip_find(&zip, "plain.txt");
        assert_non_null(member);
        assert_fine(kn_zip_member_read(NULL, &zip, member, 6, &bytes, &owned, &error), &error);
        assert_null(owned);
        assert_true(bytes > made.bytes && bytes < made.bytes + made.count);
        assert_memory_equal(bytes, "stored", 6);
        assert_refused(kn_zip_member_read(NULL, &zip, member, 5, &bytes, &owned, &error), &error,
                       KN_ERROR_FORMAT, "expected at most 5");
        member = kn_zip_find(&zip, "a/story");
        assert_non_null(member);
        assert_int_equal(member->size, sizeof story);
        assert_fine(kn_zip_member_read(NULL, &zip, member, 1000, &bytes, &owned, &error), &error);
        assert_ptr_equal(bytes, owned);
        assert_string_equal((const char *)bytes, story);
        kn_release(NULL, owned);
        assert_fine(kn_zip_member_read(NULL, &zip, kn_zip_find(&zip, "none"), 0, &bytes, &owned, &error),
                    &error);
        kn_release(NULL, owned);
        kn_arena_finish(&arena);
        free(made.bytes);
    }
}

/* The whole file with one byte changed, at offset `at` from the text `mark`. */
static void refuse(const char *mark, size_t at, uint8_t value, kn_status status, const char *message) {
    zip_bytes made = {.count = 0};
    kn_error error = {0};
    make(&made);
    size_t found = made.count;
    for (size_t i = 0; i + 4 <= made.count && found == made.count; i++)
        if (memcmp(made.bytes + i, mark, 4) == 0) found = i;
    assert_true(found + at < made.count);
    made.bytes[found + at] = value;
    assert_refused(read_zip(NULL, made.bytes, made.count, &error), &error, status, message);
    free(made.bytes);
}

TEST(faults_are_named) {
    kn_error error = {0};
    zip_bytes made = {.count = 0};
    refuse("PK\1\2", 8, 1, KN_ERROR_UNSUPPORTED, "encrypted");
    refuse("PK\1\2", 10, 12, KN_ERROR_UNSUPPORTED, "(method 12)");
    refuse("PK\1\2", 16, 1, KN_ERROR_FORMAT, "checksum is wrong");
    refuse("PK\1\2", 24, 7, KN_ERROR_FORMAT, "has two sizes");
    refuse("PK\1\2", 27, 7, KN_ERROR_FORMAT, "expected at most");
    refuse("PK\1\2", 42, 1, KN_ERROR_FORMAT, "expected a member of the zip file");
    refuse("PK\1\2", 29, 1, KN_ERROR_FORMAT, "extends past the end");
    refuse("PK\1\2", 3, 1, KN_ERROR_FORMAT, "expected an entry of the zip directory");
    refuse("PK\1\2", 46, 0, KN_ERROR_FORMAT, "no valid name");
    refuse("PK\5\6", 17, 1, KN_ERROR_FORMAT, "is truncated");
    refuse("PK\5\6", 11, 1, KN_ERROR_FORMAT, "is truncated");
    refuse("PK\3\4", 39, 'S', KN_ERROR_FORMAT, "checksum is wrong");
    make(&made);
    for (size_t count = 0; count < made.count; count++)
        assert_int_equal(read_zip(NULL, made.bytes, count, &error), KN_ERROR_FORMAT);
    free(made.bytes);
}

/* A small member that claims to inflate to a large size. */
TEST(bombs_are_refused) {
    zip_bytes made = {.count = 0};
    kn_error error = {0};
    zip_add(&made, "x", story, sizeof story, true);
    zip_end(&made);
    uint8_t *entry = made.bytes;
    while (memcmp(entry, "PK\1\2", 4) != 0)
        entry++;
    entry[27] = 0x7f;
    failing memory = {0};
    kn_host host = failing_host(&memory);
    assert_refused(read_zip(&host, made.bytes, made.count, &error), &error, KN_ERROR_FORMAT,
                   "expected at most");
    assert_true(memory.peak < 100000);
    free(made.bytes);
}

TEST(cifar_records) {
    uint8_t *bytes = calloc(3, 3074);
    kn_error error = {0};
    kn_cifar file;
    assert_non_null(bytes);
    bytes[3073] = 9;
    assert_fine(kn_cifar_read("a.bin", bytes, 3 * 3073, KN_CIFAR_COARSE, &file, &error), &error);
    assert_int_equal(file.count, 3);
    assert_int_equal(file.record_bytes * 100 + file.label_at * 10 + file.pixels_at, 307301);
    bytes[3073] = 10;
    assert_refused(kn_cifar_read("a.bin", bytes, 3 * 3073, KN_CIFAR_COARSE, &file, &error), &error,
                   KN_ERROR_FORMAT, "a.bin: byte 3073: class 10; expected 0 to 9");
    bytes[3074] = 200; /* the coarse label, which is ignored; the fine label of the second record follows */
    bytes[3075] = 99;
    assert_fine(kn_cifar_read("b.bin", bytes, 2 * 3074, KN_CIFAR_FINE, &file, &error), &error);
    assert_int_equal(file.count * 100000 + file.record_bytes * 10 + file.label_at, 230741);
    assert_refused(kn_cifar_read("b.bin", bytes, 3073, KN_CIFAR_FINE, &file, &error), &error, KN_ERROR_FORMAT,
                   "3073 bytes; expected records of 3074");
    assert_refused(kn_cifar_read("b.bin", bytes, 0, KN_CIFAR_FINE, &file, &error), &error, KN_ERROR_FORMAT,
                   "0 bytes");
    free(bytes);
}

TEST_FILE(test_zip, NULL, NULL)
