#include "support.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

test_amount test_cases_wanted(void) {
    const char *word = getenv("KOINE_TEST_CASES");
    if (!word || !*word || !strcmp(word, "all")) return TEST_ALL;
    if (!strcmp(word, "one")) return TEST_ONE;
    if (!strcmp(word, "smallest")) return TEST_SMALLEST;
    fail_msg("KOINE_TEST_CASES is '%s'; it may be smallest, one or all", word);
    return TEST_ALL;
}

void test_filter(void) {
    const char *pattern = getenv("KOINE_TEST_NAME");
    if (pattern && *pattern) cmocka_set_test_filter(pattern);
}

test_part test_part_of(int count, char **arguments) {
    if (count < 3) return (test_part){0, 0};
    return (test_part){atoi(arguments[count - 2]), atoi(arguments[count - 1])};
}

bool test_part_has(test_part wanted, size_t number) {
    return wanted.parts > 0 && wanted.part >= 0 && number % (size_t)wanted.parts == (size_t)wanted.part;
}

char *test_folder_make(void) {
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent) parent = "/tmp";
    size_t bytes = strlen(parent) + sizeof "/koine-test-XXXXXX";
    char *folder = malloc(bytes);
    assert_non_null(folder);
    snprintf(folder, bytes, "%s/koine-test-XXXXXX", parent);
    if (!mkdtemp(folder)) fail_msg("cannot create a folder below %s", parent);
    return folder;
}

/* Removes a folder with its contents; returns whether that succeeded. */
static int remove_tree(const char *folder) {
    chmod(folder, 0700); /* a test may have made it read-only */
    DIR *listing = opendir(folder);
    if (!listing) return 0;
    int all = 1;
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        size_t bytes = strlen(folder) + strlen(entry->d_name) + 2;
        char *path = malloc(bytes);
        struct stat about;
        if (!path) {
            all = 0;
            break;
        }
        snprintf(path, bytes, "%s/%s", folder, entry->d_name);
        if (!lstat(path, &about) && S_ISDIR(about.st_mode))
            all &= remove_tree(path);
        else
            all &= !unlink(path);
        free(path);
    }
    closedir(listing);
    return !rmdir(folder) && all;
}

void test_folder_remove(char *folder) {
    if (!folder) return;
    int all = remove_tree(folder);
    if (!all) print_error("some of %s could not be removed\n", folder);
    free(folder);
    assert_true(all);
}

int test_folder_begin(void **state) {
    *state = test_folder_make();
    return 0;
}

int test_folder_end(void **state) {
    test_folder_remove(*state);
    return 0;
}

const char *test_path(char *buffer, size_t bytes, const char *folder, const char *name) {
    int length = snprintf(buffer, bytes, "%s/%s", folder, name);
    assert_true(length > 0 && (size_t)length < bytes);
    return buffer;
}

void test_file_write(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file)) fail_msg("cannot write %s", path);
}

/* The size of a block is stored before it. */
typedef union block {
    size_t bytes;
    max_align_t aligned;
} block;

static void *failing_resize(void *user, void *pointer, size_t bytes) {
    failing *state = user;
    block *old = pointer ? (block *)pointer - 1 : NULL;
    const size_t before = old ? old->bytes : 0;
    if (bytes == 0) {
        if (old) __atomic_sub_fetch(&state->live, 1, __ATOMIC_SEQ_CST);
        __atomic_sub_fetch(&state->bytes, before, __ATOMIC_SEQ_CST);
        free(old);
        return NULL;
    }
    size_t call = __atomic_add_fetch(&state->calls, 1, __ATOMIC_SEQ_CST);
    if (state->fail_at && (call == state->fail_at || (state->fail_after && call > state->fail_at)))
        return NULL;
    block *moved = realloc(old, sizeof *moved + bytes);
    if (!moved) return NULL;
    moved->bytes = bytes;
    if (!old) {
        __atomic_add_fetch(&state->live, 1, __ATOMIC_SEQ_CST);
        memset(moved + 1, 0xA5, bytes); /* callers that need zeros must write them */
    }
    const size_t now = __atomic_add_fetch(&state->bytes, bytes - before, __ATOMIC_SEQ_CST);
    for (size_t peak = __atomic_load_n(&state->peak, __ATOMIC_SEQ_CST); now > peak;)
        if (__atomic_compare_exchange_n(&state->peak, &peak, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            break;
    return moved + 1;
}

kn_allocator failing_allocator(failing *state) {
    return (kn_allocator){.user = state, .resize = failing_resize};
}

static void keep_message(void *user, kn_log_level level, const char *message) {
    failing *state = user;
    strncpy(state->message, message, sizeof state->message - 1);
}

kn_logger failing_log(failing *state) {
    return (kn_logger){state, KN_LOG_ERROR, keep_message};
}

size_t failing_calls(const failing *state) {
    return __atomic_load_n(&state->calls, __ATOMIC_SEQ_CST);
}

bool test_aborts(void (*work)(void *), void *argument) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka reports it otherwise */
        work(argument);
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
