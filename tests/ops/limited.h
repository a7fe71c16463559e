/* Makes the device look like a small one, for programs whose OpenCL calls the linker routes through
 * limited.c: it has work-groups of 64, 32 KiB of local memory and 128 MiB for one allocation, and refuses
 * more.
 *
 * Before each launch all local memory is filled with NaN, so that a kernel that reads what it has not written
 * gives wrong results. In Oclgrind, whose check of uninitialized values finds such reads itself, nothing is
 * filled. That check follows local and private memory, but of a buffer it knows the last write of the host
 * alone: there, all of a buffer counts as written after each of them. */
#ifndef KN_TESTS_LIMITED_H
#define KN_TESTS_LIMITED_H

#include <stdbool.h>

enum { LIMITED_ITEMS = 64, LIMITED_LOCAL_BYTES = 32 << 10, LIMITED_BLOCK_BYTES = 128 << 20 };

typedef struct limited_counts {
    int launches; /* accepted */
    int refused;  /* launches and allocations, above the limits or failed before */
    bool dirty;   /* kernels find in local memory what was filled in before */
} limited_counts;

extern limited_counts limited_calls;

#endif
