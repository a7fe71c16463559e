/* The test groups of the base module, and their helpers. */
#ifndef KN_BASE_TESTS_H
#define KN_BASE_TESTS_H

#include "support.h"

#include "base/base.h"

/* Each runs one group and returns the number of failed tests. */
int test_errors(void);
int test_params(void);
int test_memory(void);
int test_map(void);
int test_text(void);
int test_numbers(void);
int test_small_floats(void);
int test_shards(void);
int test_random(void);
int test_threads(void);
int test_files(void);
int test_file_writer(void);

/* A host that runs out of memory (support.h). */
kn_host failing_host(failing *state);

/* Pseudo-random numbers, the same in each run. */
uint64_t next_number(uint64_t *state);

/* The number of open file descriptors, to detect leaks. */
int open_descriptors(void);

#endif
