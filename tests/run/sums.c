/* Numbers to be summed among ranks. */
#include "sums.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/base.h"

float sum_number(int rank, size_t index) {
    const uint64_t word = kn_random_word(7 + (uint64_t)rank, index);
    return ((float)(word & 0xffffff) - 8388608.0f) * (word & 0x1000000 ? 1e-4f : 1.0f);
}

float *sum_numbers(int rank, size_t count) {
    float *numbers = malloc((count + 1) * sizeof *numbers);
    if (!numbers) abort();
    for (size_t i = 0; i < count; i++)
        numbers[i] = sum_number(rank, i);
    numbers[count] = 77;
    return numbers;
}

/* By its definition: the left half has the largest power of two of ranks that leaves some for the right. */
static float tree(int first, int ranks, size_t index) {
    if (ranks == 1) return sum_number(first, index);
    int left = 1;
    while (2 * left < ranks)
        left *= 2;
    return tree(first, left, index) + tree(first + left, ranks - left, index);
}

float sum_expected(int ranks, size_t index) {
    return tree(0, ranks, index);
}
