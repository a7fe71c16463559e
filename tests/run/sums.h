/* Numbers whose sums depend on the order, and the order that kn_all_reduce promises. */
#ifndef KN_TESTS_SUMS_H
#define KN_TESTS_SUMS_H

#include <stddef.h>

/* The values of a rank, and an array of `count` values followed by a guard, 77, which must not change. */
float sum_number(int rank, size_t index);
float *sum_numbers(int rank, size_t count);
/* The sum over all ranks, as a binary tree. */
float sum_expected(int ranks, size_t index);

#endif
