/* System calls that a test can make fail; see meson.build. */
#ifndef KN_BASE_TESTS_WRAPPED_H
#define KN_BASE_TESTS_WRAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* All zero: calls go to the system unchanged. */
typedef struct wrapped {
    int fail_fsync_file, fail_fsync_folder; /* the errno to fail with */
    int fail_read, fail_write;
    bool tedious;       /* reads and writes transfer at most 3 bytes, and every other one is interrupted */
    bool write_nothing; /* write returns 0 */
    int fail_thread, fail_mutex, fail_condition;
    void (*on_fsync)(bool folder); /* called before each fsync */
    size_t reads, writes;
} wrapped;

extern wrapped wrapped_calls;

#endif
