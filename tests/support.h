/* What the tests of all rooms share: cmocka with what it needs, the number of
 * cases that a run wants, temporary folders, and memory that runs out. */
#ifndef KN_TESTS_SUPPORT_H
#define KN_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <koine/host.h>

/* How much of a case table to run, from KOINE_TEST_CASES: `smallest` (a
 * simulator), `one` per operator (a second implementation), or `all`, which is
 * also the answer when the variable is not set. Other words fail the test. */
typedef enum test_amount {
    TEST_SMALLEST,
    TEST_ONE,
    TEST_ALL,
} test_amount;

test_amount test_cases_wanted(void);

/* Skips the case, and says what for. */
#define skip_because(reason)                                                                                 \
    do {                                                                                                     \
        print_message("  %s\n", reason);                                                                     \
        skip();                                                                                              \
    } while (0)
#define TOO_LONG_FOR_A_SIMULATOR "takes hours in a simulator"

/* A new empty folder below TMPDIR or /tmp; the path is released by
 * test_folder_remove, which removes all that is in it. Both fail the test when
 * they cannot. */
char *test_folder_make(void);
void test_folder_remove(char *folder);

/* FOLDER/NAME in a buffer of the caller's, which must be large enough. */
const char *test_path(char *buffer, size_t bytes, const char *folder, const char *name);

/* An allocator that counts, and fails at call number `fail_at` (from 1 on; 0 for never) and
 * at every later one too if `fail_after` is set. Frees do not count as calls. Threads may share it. */
typedef struct failing {
    size_t calls, fail_at, live;
    bool fail_after;
} failing;
kn_allocator failing_allocator(failing *state);

#endif
