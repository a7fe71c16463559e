/* Files are written completely or not at all; each way in which writing can fail. */
#include "base_tests.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapped.h"

typedef struct place {
    char *folder, path[512]; /* of the file under test */
    int descriptors;
    failing memory;
    kn_host host;
    kn_error error;
} place;

static int set_up(void **state) {
    place *here = calloc(1, sizeof *here);
    assert_non_null(here);
    here->folder = test_folder_make();
    test_path(here->path, sizeof here->path, here->folder, "file");
    here->descriptors = open_descriptors();
    here->host = failing_host(&here->memory);
    wrapped_calls = (wrapped){0};
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    place *here = *state;
    wrapped_calls = (wrapped){0};
    int leaked = open_descriptors() - here->descriptors != 0 || here->memory.live != 0;
    test_folder_remove(here->folder);
    free(here);
    return leaked;
}

static int count_entries(const char *folder) {
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    int count = 0;
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

static void check_content(place *here, const void *expected, size_t count) {
    uint8_t *bytes;
    uint64_t found;
    kn_host host = kn_host_defaults();
    assert_int_equal(kn_file_read(&host, here->path, 1 << 24, &bytes, &found, NULL), KN_OK);
    assert_int_equal(found, count);
    assert_memory_equal(bytes, expected, count);
    kn_release(&host, bytes);
}

/* The old file is unchanged, and no other file remains. */
static void check_old(place *here) {
    check_content(here, "old", 3);
    assert_int_equal(count_entries(here->folder), 1);
}

static void write_old(place *here) {
    assert_int_equal(kn_file_write(&here->host, here->path, "old", 3, &here->error), KN_OK);
    check_old(here);
}

static void check_error(place *here, kn_status status, const char *reason) {
    assert_int_equal(status, KN_ERROR_FILE);
    assert_int_equal(here->error.status, KN_ERROR_FILE);
    if (!strstr(here->error.text, here->path) || !strstr(here->error.text, reason))
        fail_msg("'%s' should name '%s' and '%s'", here->error.text, here->path, reason);
}

TEST_WITH(files_are_written, set_up, tear_down) {
    place *here = *state;
    assert_int_equal(kn_file_write(&here->host, here->path, NULL, 0, &here->error), KN_OK);
    check_content(here, "", 0);
    assert_int_equal(kn_file_write(&here->host, here->path, "new", 3, &here->error), KN_OK);
    check_content(here, "new", 3);
    assert_int_equal(count_entries(here->folder), 1);
    assert_int_equal(here->error.status, KN_OK);
    /* A name without a folder refers to the working folder. */
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(here->folder), 0);
    kn_status status = kn_file_write(&here->host, "file", "by name", 7, &here->error);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, KN_OK);
    check_content(here, "by name", 7);
}

TEST_WITH(parts_are_written_in_order, set_up, tear_down) {
    place *here = *state;
    enum { TOTAL = 1 << 20 };
    uint8_t *expected = malloc(TOTAL);
    assert_non_null(expected);
    uint64_t seed = 8;
    for (size_t i = 0; i < TOTAL; i++)
        expected[i] = (uint8_t)next_number(&seed);
    kn_file_writer *writer;
    assert_int_equal(kn_file_writer_open(&here->host, here->path, &writer, &here->error), KN_OK);
    for (size_t at = 0; at < TOTAL;) {
        /* Around the size of the writer's buffer, far below and far above it. */
        const size_t sizes[] = {0, 1, 100, 5000, 65535, 65536, 65537, 200000};
        size_t count = sizes[next_number(&seed) % KN_COUNT_OF(sizes)];
        if (count > TOTAL - at) count = TOTAL - at;
        assert_int_equal(kn_file_writer_add(writer, expected + at, count, &here->error), KN_OK);
        at += count;
    }
    assert_false(kn_path_exists(here->path)); /* not before the commit */
    assert_int_equal(kn_file_writer_commit(&writer, &here->error), KN_OK);
    assert_null(writer);
    check_content(here, expected, TOTAL);
    assert_int_equal(count_entries(here->folder), 1);
    free(expected);
}

TEST_WITH(short_and_interrupted_writes_continue, set_up, tear_down) {
    place *here = *state;
    wrapped_calls = (wrapped){.tedious = true};
    kn_status status = kn_file_write(&here->host, here->path, "in little pieces", 16, &here->error);
    wrapped_calls.tedious = false;
    assert_int_equal(status, KN_OK);
    assert_true(wrapped_calls.writes >= 11);
    check_content(here, "in little pieces", 16);
}

TEST_WITH(an_abandoned_writer_keeps_the_old_file, set_up, tear_down) {
    place *here = *state;
    write_old(here);
    kn_file_writer *writer;
    assert_int_equal(kn_file_writer_open(&here->host, here->path, &writer, &here->error), KN_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(kn_file_writer_add(writer, "many bytes, more than a buffer holds", 36 * 1, NULL),
                         KN_OK);
    char *large = calloc(1, 1 << 20);
    assert_non_null(large);
    assert_int_equal(kn_file_writer_add(writer, large, 1 << 20, &here->error), KN_OK);
    free(large);
    check_content(here, "old", 3);
    assert_int_equal(count_entries(here->folder), 2);
    kn_file_writer_abandon(&writer);
    assert_null(writer);
    check_old(here);
    kn_file_writer_abandon(&writer);
    kn_file_writer_abandon(NULL);
}

TEST_WITH(two_writers_do_not_interfere, set_up, tear_down) {
    place *here = *state;
    kn_file_writer *writers[20];
    char text[20][8];
    for (size_t i = 0; i < 20; i++) {
        snprintf(text[i], sizeof text[i], "%zu", i);
        assert_int_equal(kn_file_writer_open(&here->host, here->path, &writers[i], &here->error), KN_OK);
        assert_int_equal(kn_file_writer_add(writers[i], text[i], strlen(text[i]), &here->error), KN_OK);
    }
    assert_int_equal(count_entries(here->folder), 20);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(kn_file_writer_commit(&writers[i], &here->error), KN_OK);
        check_content(here, text[i], strlen(text[i]));
    }
    assert_int_equal(count_entries(here->folder), 1);
}

TEST_WITH(permissions_are_kept, set_up, tear_down) {
    place *here = *state;
    struct stat about;
    mode_t before = umask(027);
    kn_status status = kn_file_write(&here->host, here->path, "new", 3, &here->error);
    umask(before);
    assert_int_equal(status, KN_OK);
    assert_int_equal(stat(here->path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_int_equal(chmod(here->path, 0600), 0);
    assert_int_equal(kn_file_write(&here->host, here->path, "newer", 5, &here->error), KN_OK);
    assert_int_equal(stat(here->path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
}

/* ---- failures -------------------------------------------------------------------- */

TEST_WITH(a_missing_folder_is_reported, set_up, tear_down) {
    place *here = *state;
    kn_file_writer *writer = (kn_file_writer *)here;
    test_path(here->path, sizeof here->path, here->folder, "missing/file");
    check_error(here, kn_file_writer_open(&here->host, here->path, &writer, &here->error), "No such file");
    assert_null(writer);
    assert_int_equal(kn_file_write(&here->host, here->path, "x", 1, NULL), KN_ERROR_FILE);
    /* A file where a folder should be. */
    char file[512];
    test_path(file, sizeof file, here->folder, "file");
    assert_int_equal(kn_file_write(&here->host, file, "old", 3, NULL), KN_OK);
    test_path(here->path, sizeof here->path, here->folder, "file/x");
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "Not a directory");
    strcpy(here->path, file);
    check_old(here);
}

TEST_WITH(a_read_only_folder_is_reported, set_up, tear_down) {
    place *here = *state;
    if (geteuid() == 0) skip_because("root may write everywhere");
    write_old(here);
    assert_int_equal(chmod(here->folder, 0500), 0);
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "Permission denied");
    assert_int_equal(chmod(here->folder, 0700), 0);
    check_old(here);
}

/* A folder of the kernel's file system, in which even root cannot create files. */
TEST_WITH(a_folder_that_takes_no_files_is_reported, set_up, tear_down) {
    place *here = *state;
    if (!kn_path_is_folder("/proc/self")) skip_because("no /proc");
    strcpy(here->path, "/proc/self/koine-test");
    assert_int_equal(kn_file_write(&here->host, here->path, "x", 1, &here->error), KN_ERROR_FILE);
    assert_non_null(strstr(here->error.text, here->path));
}

TEST_WITH(a_target_that_is_no_file_is_not_replaced, set_up, tear_down) {
    place *here = *state;
    assert_int_equal(mkdir(here->path, 0700), 0);
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "it is a folder");
    assert_int_equal(count_entries(here->folder), 1);
    assert_int_equal(rmdir(here->path), 0);
    assert_int_equal(mkfifo(here->path, 0600), 0);
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "a pipe or a device");
    assert_int_equal(count_entries(here->folder), 1);
    assert_int_equal(unlink(here->path), 0);
    /* Most of all where the caller has permission to replace it. */
    assert_int_equal(symlink("/dev/null", here->path), 0);
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "a pipe or a device");
    strcpy(here->path, "/dev/null");
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "a pipe or a device");
    test_path(here->path, sizeof here->path, here->folder, "folder/");
    assert_int_equal(mkdir(here->path, 0700), 0);
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "name of a file");
    strcpy(here->path, "");
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "name of a file");
    memset(here->path, 'n', 300);
    here->path[300] = '\0';
    check_error(here, kn_file_write(&here->host, here->path, "x", 1, &here->error), "too long");
}

TEST_WITH(a_full_disk_is_reported, set_up, tear_down) {
    place *here = *state;
    write_old(here);
    const wrapped faults[] = {{.fail_write = ENOSPC}, {.write_nothing = true}};
    for (size_t i = 0; i < KN_COUNT_OF(faults); i++) {
        wrapped_calls = faults[i];
        kn_status status = kn_file_write(&here->host, here->path, "new", 3, &here->error);
        wrapped_calls = (wrapped){0};
        check_error(here, status, strerror(ENOSPC));
        check_old(here);
    }
}

/* The limit of the system: the first part is written, the rest is not. */
TEST_WITH(a_limit_in_the_middle_is_reported, set_up, tear_down) {
    place *here = *state;
    write_old(here);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    char *large = calloc(1, 1 << 20);
    assert_non_null(large);
    kn_file_writer *writer = NULL;
    kn_status opened = kn_file_writer_open(&here->host, here->path, &writer, &here->error);
    setrlimit(RLIMIT_FSIZE, &small);
    kn_status added = kn_file_writer_add(writer, large, 1 << 20, &here->error);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    free(large);
    assert_int_equal(opened, KN_OK);
    check_error(here, added, "File too large");
    /* A later successful write does not hide the missing part. */
    check_error(here, kn_file_writer_add(writer, "x", 1, &here->error), "an earlier write failed");
    check_error(here, kn_file_writer_commit(&writer, &here->error), "an earlier write failed");
    assert_null(writer);
    check_old(here);
}

TEST_WITH(a_failing_sync_is_reported, set_up, tear_down) {
    place *here = *state;
    write_old(here);
    wrapped_calls.fail_fsync_file = EIO;
    kn_status status = kn_file_write(&here->host, here->path, "new", 3, &here->error);
    check_error(here, status, strerror(EIO));
    check_old(here);
    /* The folder is synced after the rename, when the new file exists already; a failure is reported as well.
     */
    wrapped_calls = (wrapped){.fail_fsync_folder = EIO};
    status = kn_file_write(&here->host, here->path, "new", 3, &here->error);
    check_error(here, status, strerror(EIO));
    check_content(here, "new", 3);
    assert_int_equal(count_entries(here->folder), 1);
    /* EINVAL means that the file system cannot sync folders; it is ignored. */
    wrapped_calls = (wrapped){.fail_fsync_folder = EINVAL};
    assert_int_equal(kn_file_write(&here->host, here->path, "newer", 5, &here->error), KN_OK);
    check_content(here, "newer", 5);
}

static place *watched;
static int synced_files, synced_folders;

/* The data is synced before the rename, and the folder before success is returned. */
static void watch_sync(bool folder) {
    check_content(watched, folder ? "new" : "old", 3);
    assert_int_equal(synced_folders, 0);
    assert_int_equal(synced_files, folder ? 1 : 0);
    if (folder)
        synced_folders++;
    else
        synced_files++;
}

TEST_WITH(syncs_are_in_order, set_up, tear_down) {
    watched = *state;
    write_old(watched);
    synced_files = synced_folders = 0;
    wrapped_calls.on_fsync = watch_sync;
    kn_status status = kn_file_write(&watched->host, watched->path, "new", 3, &watched->error);
    wrapped_calls = (wrapped){0};
    assert_int_equal(status, KN_OK);
    assert_int_equal(synced_files, 1);
    assert_int_equal(synced_folders, 1);
}

TEST_WITH(a_failing_rename_leaves_nothing, set_up, tear_down) {
    place *here = *state;
    kn_file_writer *writer;
    assert_int_equal(kn_file_writer_open(&here->host, here->path, &writer, &here->error), KN_OK);
    assert_int_equal(kn_file_writer_add(writer, "new", 3, &here->error), KN_OK);
    assert_int_equal(mkdir(here->path, 0700), 0); /* between opening and commit */
    check_error(here, kn_file_writer_commit(&writer, &here->error), "Is a directory");
    assert_null(writer);
    assert_true(kn_path_is_folder(here->path));
    assert_int_equal(count_entries(here->folder), 1);
}

TEST_WITH(writing_survives_failing_memory, set_up, tear_down) {
    place *here = *state;
    write_old(here);
    for (size_t fail_at = 1;; fail_at++) {
        here->memory = (failing){.fail_at = fail_at};
        kn_error_clear(&here->error);
        kn_status status = kn_file_write(&here->host, here->path, "new", 3, &here->error);
        assert_int_equal(here->memory.live, 0);
        if (here->memory.calls < fail_at) {
            assert_int_equal(status, KN_OK);
            assert_true(fail_at > 1);
            check_content(here, "new", 3);
            return;
        }
        assert_int_equal(status, KN_ERROR_MEMORY);
        assert_int_equal(here->error.status, KN_ERROR_MEMORY);
        check_old(here);
    }
}

TEST_FILE(test_file_writer, NULL, NULL)
