/* Helpers of the tests of all modules: cmocka with its includes, tests, the number of cases to run, temporary
 * folders, and allocators that fail. */
#ifndef KN_TESTS_SUPPORT_H
#define KN_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <koine/host.h>

/* cmocka 2 deprecates it; cmocka 1 has nothing else. */
#ifdef assert_int_in_range
#undef assert_in_range
#define assert_in_range(value, minimum, maximum) assert_int_in_range(value, minimum, maximum)
#endif

/* A test is TEST(name) { … }, or TEST_WITH(name, begin, end) { … }, where begin(&state) and end(&state) run
 * before and after it. TEST_FILE(function, begin, end), once in a file, defines int function(void), which
 * runs the file's tests in order between begin and end, and returns how many failed; begin and end may be
 * NULL. */
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, begin, end)                                                                          \
    static void name(void **state);                                                                          \
    __attribute__((constructor)) static void add_##name(void) {                                              \
        assert_true(file_test_count < sizeof file_tests / sizeof *file_tests);                               \
        file_tests[file_test_count++] =                                                                      \
            (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, begin, end);                            \
    }                                                                                                        \
    static void name(void **state)
#define TEST_FILE(function, begin, end)                                                                      \
    int function(void) {                                                                                     \
        test_filter();                                                                                       \
        return _cmocka_run_group_tests(__FILE__, file_tests, file_test_count, begin, end);                   \
    }
/* Lets only the tests run whose names match KOINE_TEST_NAME, a pattern with * and ?, if it is set. */
void test_filter(void);
static __attribute__((unused)) struct CMUnitTest file_tests[50];
static __attribute__((unused)) size_t file_test_count;

/* How much of a case table to run, from KOINE_TEST_CASES: `smallest` (a simulator), `one` per operator (a
 * second implementation), or `all`, the default. Other words fail the test. */
typedef enum test_amount {
    TEST_SMALLEST,
    TEST_ONE,
    TEST_ALL,
} test_amount;

test_amount test_cases_wanted(void);

/* Selects the cases of one run of a long test: those whose index modulo `parts` is `part`. {0, 0}: no part
 * was requested, and few cases run instead of all. */
typedef struct test_part {
    int part, parts;
} test_part;
/* The last two words of a command line, if there are two or more after the program's name. */
test_part test_part_of(int count, char **arguments);
bool test_part_has(test_part wanted, size_t number);

/* Skips the case, with a reason. */
#define skip_because(reason)                                                                                 \
    do {                                                                                                     \
        print_message("  %s\n", reason);                                                                     \
        skip();                                                                                              \
    } while (0)
#define TOO_LONG_FOR_A_SIMULATOR "takes hours in a simulator"
#define FIRST_IMPLEMENTATION_ONLY "this training runs on the first implementation only"

/* A new empty folder below TMPDIR or /tmp; test_folder_remove removes it with its content and frees the path.
 * Both fail the test if they cannot. */
char *test_folder_make(void);
void test_folder_remove(char *folder);
/* A test with such a folder as *state. */
#define TEST_IN_FOLDER(name) TEST_WITH(name, test_folder_begin, test_folder_end)
int test_folder_begin(void **state);
int test_folder_end(void **state);

/* FOLDER/NAME in the caller's buffer, which must be large enough. */
const char *test_path(char *buffer, size_t bytes, const char *folder, const char *name);
/* Writes a file, or fails the test. */
void test_file_write(const char *path, const void *bytes, size_t count);

/* Does `work` in another process: whether that aborted. A driver that this process has used may not work in
 * the other. */
bool test_aborts(void (*work)(void *), void *argument);

/* An allocator that counts calls, live blocks, and bytes in use with their peak, and fails at call number
 * `fail_at` (from 1 on; 0 for never) and at every later one too if `fail_after` is set. Frees do not count as
 * calls. Threads may share it. */
typedef struct failing {
    size_t calls, fail_at, live, bytes, peak;
    bool fail_after;
    char message[512]; /* the last error of failing_log */
} failing;
kn_allocator failing_allocator(failing *state);
kn_logger failing_log(failing *state);
/* The calls so far, while other threads may call it. */
size_t failing_calls(const failing *state);

#endif
