/* Private to the base module and its tests: Philox with its whole counter. */
#ifndef KN_BASE_RANDOM_PRIVATE_H
#define KN_BASE_RANDOM_PRIVATE_H

#include <stdint.h>

/* Philox4x32-10 on four counter words and two key words. */
void kn_philox_words(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);

#endif
