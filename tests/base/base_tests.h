/* The groups of the base room's tests, and what they share. */
#ifndef KN_BASE_TESTS_H
#define KN_BASE_TESTS_H

#include "support.h"

#include "base/base.h"

/* Each runs one group and answers the number of its tests that failed. */
int test_errors(void);
int test_params(void);
int test_memory(void);
int test_map(void);
int test_text(void);
int test_numbers(void);
int test_random(void);
int test_threads(void);
int test_files(void);
int test_file_writer(void);

/* A host whose memory runs out (support.h). */
kn_host failing_host(failing *state);

/* Numbers that look random, the same each time. */
uint64_t next_number(uint64_t *state);

/* How many file descriptors are open, to see that none leaks. */
int open_descriptors(void);

#endif
