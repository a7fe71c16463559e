/* Archives: the names and bytes of their members, and damaged files. */
#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/images.h>

#ifdef KN_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

static failing memory;
static kn_allocator allocator;

typedef struct seen {
    int asked, taken;
    size_t bytes;
    kn_status answer;
} seen;

static bool want_pictures(void *user, const char *name) {
    ((seen *)user)->asked++;
    assert_true(strncmp(name, "pets/", 5) == 0);
    return strstr(name, ".png") != NULL;
}

/* Byte i of an image depends on the length of its name. */
static kn_status take(void *user, const char *name, void *bytes, size_t count) {
    seen *state = user;
    state->taken++;
    state->bytes += count;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(((uint8_t *)bytes)[i], (uint8_t)(i * strlen(name)));
    allocator.resize(allocator.user, bytes, 0);
    return state->answer;
}

static kn_status read_archive(const char *path, uint64_t most, seen *state, char message[300]) {
    kn_archive_reader reader = kn_images_archives();
    const kn_archive_visitor visitor = {state, want_pictures, take};
    message[0] = 0;
    return reader.read(reader.user, &allocator, path, most, &visitor, message, 300);
}

#ifdef KN_HAVE_ARCHIVE
static const struct {
    const char *name;
    size_t bytes;
} members[] = {
    {"pets/cat/1.png", 5}, {"./pets/cat/2.png", 200000}, {"pets/notes.txt", 9}, {"pets/dog/größe.png", 0}};
enum { ASKED = 4, TAKEN = 3, BYTES = 200005 };

static void add_member(struct archive *archive, const char *name, size_t bytes, bool folder) {
    struct archive_entry *entry = archive_entry_new();
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    size_t length = strlen(name) - (name[0] == '.' ? 2 : 0);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * length);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)bytes);
    archive_entry_set_filetype(entry, folder ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, 0600);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    if (bytes > 0) assert_int_equal(archive_write_data(archive, data, bytes), bytes);
    archive_entry_free(entry);
    free(data);
}

static void write_archive(const char *path, bool zip, bool packed) {
    struct archive *archive = archive_write_new();
    assert_non_null(archive);
    if (zip)
        archive_write_set_format_zip(archive);
    else
        archive_write_set_format_ustar(archive);
    if (packed) archive_write_add_filter_gzip(archive);
    assert_int_equal(archive_write_open_filename(archive, path), ARCHIVE_OK);
    add_member(archive, "pets/", 0, true);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        add_member(archive, members[i].name, members[i].bytes, false);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
}

/* A truncated file is refused, without a leak. */
static void check_cut(const char *folder, const char *path, double share) {
    char cut[600], message[300];
    seen state = {.answer = KN_OK};
    test_path(cut, sizeof cut, folder, "cut");
    FILE *from = fopen(path, "rb"), *to = fopen(cut, "wb");
    assert_true(from && to);
    assert_int_equal(fseek(from, 0, SEEK_END), 0);
    size_t count = (size_t)((double)ftell(from) * share);
    uint8_t *bytes = malloc(count + 1);
    assert_non_null(bytes);
    rewind(from);
    assert_int_equal(fread(bytes, 1, count, from), count);
    assert_int_equal(fwrite(bytes, 1, count, to), count);
    fclose(from);
    assert_int_equal(fclose(to), 0);
    free(bytes);
    assert_int_equal(read_archive(cut, 1 << 20, &state, message), KN_ERROR_FORMAT);
    assert_true(message[0] != 0);
    assert_int_equal(memory.live, 0);
}

static void archives_are_read(void **state) {
    static const struct {
        const char *name;
        bool zip, packed;
    } kinds[] = {{"a.tar", false, false}, {"a.tar.gz", false, true}, {"a.zip", true, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[600], message[300];
        seen read = {.answer = KN_OK};
        write_archive(test_path(path, sizeof path, *state, kinds[i].name), kinds[i].zip, kinds[i].packed);
        if (read_archive(path, 1 << 20, &read, message) != KN_OK) fail_msg("%s: %s", kinds[i].name, message);
        assert_int_equal(read.asked * 10 + read.taken, ASKED * 10 + TAKEN);
        assert_int_equal(read.bytes, BYTES);
        assert_int_equal(memory.live, 0);
        read = (seen){.answer = KN_ERROR_DEVICE};
        assert_int_equal(read_archive(path, 1 << 20, &read, message), KN_ERROR_DEVICE);
        assert_int_equal(read.taken, 1);
        read = (seen){.answer = KN_OK};
        assert_int_equal(read_archive(path, 100000, &read, message), KN_ERROR_UNSUPPORTED);
        assert_non_null(strstr(message, "pets/cat/2.png: has more than 100000 bytes"));
        assert_int_equal(memory.live, 0);
        check_cut(*state, path, 0.4);
        check_cut(*state, path, 0.1);
    }
}

static void what_is_no_archive(void **state) {
    char path[600], message[300];
    seen read = {.answer = KN_OK};
    test_path(path, sizeof path, *state, "text");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("a text that is not an archive", file);
    fclose(file);
    assert_int_equal(read_archive(path, 100, &read, message), KN_ERROR_FORMAT);
    assert_true(message[0] != 0);
    assert_int_equal(read_archive("/nonexistent/a.zip", 100, &read, message), KN_ERROR_FORMAT);
    assert_true(message[0] != 0);
    assert_int_equal(memory.live, 0);
}
#else
static void archives_need_a_library(void **state) {
    char message[300];
    seen read = {.answer = KN_OK};
    assert_int_equal(read_archive("a.zip", 100, &read, message), KN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(message, "libarchive-dev"));
}
#endif

int main(void) {
    allocator = failing_allocator(&memory);
    const struct CMUnitTest tests[] = {
#ifdef KN_HAVE_ARCHIVE
        cmocka_unit_test_setup_teardown(archives_are_read, test_folder_begin, test_folder_end),
        cmocka_unit_test_setup_teardown(what_is_no_archive, test_folder_begin, test_folder_end),
#else
        cmocka_unit_test_setup_teardown(archives_need_a_library, test_folder_begin, test_folder_end),
#endif
    };
    return cmocka_run_group_tests_name("archives", tests, NULL, NULL);
}
