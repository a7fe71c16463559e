/* Reading files, folders and paths. */
#include "base_tests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapped.h"

typedef struct place {
    char *folder;
    int descriptors;
} place;

static int set_up(void **state) {
    place *here = calloc(1, sizeof *here);
    assert_non_null(here);
    here->folder = test_folder_make();
    here->descriptors = open_descriptors();
    wrapped_calls = (wrapped){0};
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    place *here = *state;
    wrapped_calls = (wrapped){0};
    int leaked = open_descriptors() - here->descriptors;
    test_folder_remove(here->folder);
    free(here);
    return leaked;
}

static const char *in(void **state, char *buffer, const char *name) {
    return test_path(buffer, 512, ((place *)*state)->folder, name);
}

static void make_file(const char *path, const void *bytes, size_t count) {
    test_file_write(path, bytes, count);
}

/* Each reading function with paths that it refuses: the error names the path and a reason. */
static void check_refusal(const char *path, const char *reason) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_error error = {0};
    uint8_t *bytes = (uint8_t *)"x";
    uint64_t count = 7;
    assert_int_equal(kn_file_read(&host, path, 1000, &bytes, &count, &error), KN_ERROR_FILE);
    assert_int_equal(error.status, KN_ERROR_FILE);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, reason));
    assert_null(bytes);
    assert_int_equal(count, 0);
    kn_file_view view = {.count = 5};
    kn_error_clear(&error);
    assert_int_equal(kn_file_open_view(&host, path, &view, &error), KN_ERROR_FILE);
    assert_int_equal(error.status, KN_ERROR_FILE);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, reason));
    assert_null(view.bytes);
    assert_int_equal(view.count, 0);
    kn_file_close_view(&host, &view);
    assert_int_equal(kn_file_open_view(&host, path, &view, NULL), KN_ERROR_FILE);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(paths_that_are_no_files_are_refused, set_up, tear_down) {
    char path[512];
    check_refusal(in(state, path, "missing"), "No such file");
    check_refusal(in(state, path, "missing/deeper"), "No such file");
    check_refusal(((place *)*state)->folder, "it is a folder");
    check_refusal("/dev/null", "a pipe or a device");
    assert_int_equal(mkfifo(in(state, path, "pipe"), 0600), 0);
    check_refusal(path, "a pipe or a device"); /* and does not wait for a writer */
}

TEST_WITH(unreadable_files_are_refused, set_up, tear_down) {
    if (geteuid() == 0) skip_because("root may read everything");
    char path[512];
    make_file(in(state, path, "secret"), "x", 1);
    assert_int_equal(chmod(path, 0), 0);
    check_refusal(path, "Permission denied");
}

TEST_WITH(files_are_read_completely, set_up, tear_down) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    char path[512];
    const size_t sizes[] = {0, 1, 4095, 4096, 4097, 300000};
    for (size_t s = 0; s < KN_COUNT_OF(sizes); s++) {
        size_t size = sizes[s];
        uint8_t *expected = malloc(size + 1), *bytes;
        assert_non_null(expected);
        for (size_t i = 0; i < size; i++)
            expected[i] = (uint8_t)(i * 7 + i / 256);
        make_file(in(state, path, "file"), expected, size);
        for (int tedious = 0; tedious < 2; tedious++) {
            uint64_t count;
            wrapped_calls = (wrapped){.tedious = tedious && size < 5000};
            assert_int_equal(kn_file_read(&host, path, size, &bytes, &count, NULL), KN_OK);
            wrapped_calls = (wrapped){0};
            assert_int_equal(count, size);
            assert_memory_equal(bytes, expected, size);
            assert_int_equal(bytes[size], 0);
            kn_release(&host, bytes);
        }
        kn_file_view view;
        assert_int_equal(kn_file_open_view(&host, path, &view, NULL), KN_OK);
        assert_int_equal(view.count, size);
        assert_non_null(view.bytes);
        assert_memory_equal(view.bytes, expected, size);
        kn_file_close_view(&host, &view);
        assert_null(view.bytes);
        assert_int_equal(view.count, 0);
        kn_file_close_view(&host, &view);
        free(expected);
    }
    kn_file_close_view(&host, NULL);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(a_view_outlives_the_file_name, set_up, tear_down) {
    kn_host host = kn_host_defaults();
    char path[512];
    make_file(in(state, path, "file"), "still there", 11);
    kn_file_view view;
    assert_int_equal(kn_file_open_view(&host, path, &view, NULL), KN_OK);
    assert_int_equal(kn_file_write(&host, path, "new", 3, NULL), KN_OK);
    assert_memory_equal(view.bytes, "still there", 11);
    assert_int_equal(unlink(path), 0);
    assert_memory_equal(view.bytes, "still there", 11);
    kn_file_close_view(&host, &view);
}

TEST_WITH(the_limit_holds, set_up, tear_down) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_error error = {0};
    char path[512];
    uint8_t *bytes;
    uint64_t count;
    make_file(in(state, path, "file"), "12345678", 8);
    assert_int_equal(kn_file_read(&host, path, 7, &bytes, &count, &error), KN_ERROR_FILE);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, "7 bytes"));
    assert_null(bytes);
    assert_int_equal(memory.calls, 0); /* refused before memory is allocated */
    assert_int_equal(kn_file_read(&host, path, 0, &bytes, &count, &error), KN_ERROR_FILE);
    assert_int_equal(kn_file_read(&host, path, 8, &bytes, &count, &error), KN_OK);
    kn_release(&host, bytes);
    assert_int_equal(kn_file_read(&host, path, UINT64_MAX, &bytes, &count, &error), KN_OK);
    assert_int_equal(count, 8);
    kn_release(&host, bytes);
    assert_int_equal(memory.live, 0);
    /* A file that is longer than its reported size, like the files of /proc. */
    if (!kn_path_exists("/proc/self/status")) return;
    assert_int_equal(kn_file_read(&host, "/proc/self/status", 20, &bytes, &count, &error), KN_ERROR_FILE);
    assert_non_null(strstr(error.text, "20 bytes"));
    assert_int_equal(memory.live, 0);
}

TEST_WITH(files_of_the_system_are_read, set_up, tear_down) {
    /* One reports size 0, the other the size of a page; neither can be mapped. */
    const char *const paths[] = {"/proc/self/status", "/sys/devices/system/cpu/online"};
    failing memory = {0};
    kn_host host = failing_host(&memory);
    size_t tried = 0;
    for (size_t i = 0; i < KN_COUNT_OF(paths); i++) {
        if (!kn_path_exists(paths[i])) continue;
        tried++;
        uint8_t *bytes;
        uint64_t count;
        assert_int_equal(kn_file_read(&host, paths[i], 100000, &bytes, &count, NULL), KN_OK);
        assert_true(count > 0 && count == strlen((char *)bytes));
        kn_release(&host, bytes);
        kn_file_view view;
        assert_int_equal(kn_file_open_view(&host, paths[i], &view, NULL), KN_OK);
        assert_true(view.count > 0);
        assert_int_equal(view.bytes[view.count - 1], '\n');
        kn_file_close_view(&host, &view);
    }
    assert_int_equal(memory.live, 0);
    if (tried == 0) skip_because("no file with a size of 0 and contents");
}

TEST_WITH(a_failing_read_is_reported, set_up, tear_down) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_error error = {0};
    char path[512];
    uint8_t *bytes;
    uint64_t count;
    make_file(in(state, path, "file"), "12345678", 8);
    wrapped_calls = (wrapped){.fail_read = EIO};
    kn_status status = kn_file_read(&host, path, 100, &bytes, &count, &error);
    wrapped_calls = (wrapped){0};
    assert_int_equal(status, KN_ERROR_FILE);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, strerror(EIO)));
    assert_null(bytes);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(reading_survives_failing_memory, set_up, tear_down) {
    char path[512];
    make_file(in(state, path, "file"), "", 0); /* an empty file is read rather than mapped */
    const char *const paths[] = {path, "/proc/self/status"};
    for (size_t i = 0; i < KN_COUNT_OF(paths); i++) {
        if (!kn_path_exists(paths[i])) continue;
        for (int view_it = 0; view_it < 2; view_it++) {
            for (size_t fail_at = 1;; fail_at++) {
                failing memory = {.fail_at = fail_at};
                kn_host host = failing_host(&memory);
                kn_error error = {0};
                kn_file_view view = {0};
                uint8_t *bytes = NULL;
                uint64_t count;
                kn_status status = view_it ? kn_file_open_view(&host, paths[i], &view, &error)
                                           : kn_file_read(&host, paths[i], 1 << 20, &bytes, &count, &error);
                bool failed = memory.calls >= fail_at;
                assert_int_equal(status, failed ? KN_ERROR_MEMORY : KN_OK);
                assert_int_equal(error.status, status);
                if (view_it)
                    kn_file_close_view(&host, &view);
                else
                    kn_release(&host, bytes);
                assert_int_equal(memory.live, 0);
                if (!failed) {
                    assert_true(fail_at > 1);
                    break;
                }
            }
        }
    }
}

TEST_WITH(descriptors_are_not_inherited, set_up, tear_down) {
    /* No other thread opens files, so the reader gets the lowest free number. */
    kn_host host = kn_host_defaults();
    char path[512];
    kn_file_writer *writer;
    int before[256];
    for (int i = 0; i < 256; i++)
        before[i] = fcntl(i, F_GETFD);
    assert_int_equal(kn_file_writer_open(&host, in(state, path, "file"), &writer, NULL), KN_OK);
    int found = 0;
    for (int i = 0; i < 256; i++) {
        int flags = fcntl(i, F_GETFD);
        if (flags < 0 || before[i] >= 0) continue;
        assert_true(flags & FD_CLOEXEC);
        found++;
    }
    assert_true(found >= 1);
    kn_file_writer_abandon(&writer);
}

TEST_WITH(paths_are_classified, set_up, tear_down) {
    char path[512], link[512];
    make_file(in(state, path, "file"), "x", 1);
    assert_true(kn_path_exists(path));
    assert_false(kn_path_is_folder(path));
    assert_true(kn_path_exists(((place *)*state)->folder));
    assert_true(kn_path_is_folder(((place *)*state)->folder));
    assert_false(kn_path_exists(in(state, link, "missing")));
    assert_false(kn_path_is_folder(link));
    assert_int_equal(symlink(((place *)*state)->folder, in(state, link, "link")), 0);
    assert_true(kn_path_is_folder(link));
}

TEST_WITH(folders_are_created, set_up, tear_down) {
    failing memory = {0};
    kn_host host = failing_host(&memory);
    kn_error error = {0};
    char path[512], file[512];
    struct stat about;
    assert_int_equal(kn_folder_make(&host, in(state, path, "one"), &error), KN_OK);
    assert_int_equal(kn_folder_make(&host, path, &error), KN_OK); /* it exists */
    assert_int_equal(kn_folder_make(&host, in(state, path, "one/two//three/"), &error), KN_OK);
    assert_true(kn_path_is_folder(path));
    assert_int_equal(stat(in(state, path, "one/two"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(kn_folder_make(&host, "/", &error), KN_OK);
    assert_int_equal(kn_folder_make_for(&host, in(state, path, "of/a/file"), &error), KN_OK);
    assert_true(kn_path_is_folder(in(state, path, "of/a")) && !kn_path_exists(in(state, path, "of/a/file")));
    assert_int_equal(kn_folder_make_for(&host, "file", &error), KN_OK);
    assert_int_equal(kn_folder_make_for(&host, "/file", &error), KN_OK);
    assert_int_equal(kn_folder_make(&host, ".", &error), KN_OK);
    assert_int_equal(error.status, KN_OK);

    make_file(in(state, file, "file"), "x", 1);
    assert_int_equal(kn_folder_make(&host, file, &error), KN_ERROR_FILE);
    assert_non_null(strstr(error.text, file));
    assert_int_equal(kn_folder_make(&host, in(state, path, "file/deeper"), &error), KN_ERROR_FILE);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, "is not a folder"));
    assert_int_equal(symlink("nowhere", in(state, path, "dangling")), 0);
    assert_int_equal(kn_folder_make(&host, path, &error), KN_ERROR_FILE);
    assert_int_equal(kn_folder_make(&host, "", &error), KN_ERROR_FILE);
    if (kn_path_is_folder("/proc/self")) {
        assert_int_equal(kn_folder_make(&host, "/proc/self/koine/x", &error), KN_ERROR_FILE);
        assert_non_null(strstr(error.text, "/proc/self/koine"));
    }
    memory.fail_at = memory.calls + 1;
    assert_int_equal(kn_folder_make(&host, in(state, path, "more"), &error), KN_ERROR_MEMORY);
    assert_false(kn_path_exists(path));
    assert_int_equal(memory.live, 0);
}

TEST_FILE(test_files, NULL, NULL)
