/* Helpers of the tests of the public interface. */
#ifndef KN_API_TESTS_H
#define KN_API_TESTS_H

#include <koine/koine.h>

#include "device_support.h"

/* Each runs one group and returns the number of its tests that failed. */
int test_null(void);
int test_wrong_graphs(void);
int test_custom(bool device); /* groups that need a device, or that need none */
int test_wrong_runs(void);
int test_steps(void);

#endif
