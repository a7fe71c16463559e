/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011) and
 * distributions drawn from it. Each number is a function of only a key and an index. */
#include "base/base.h"

#include <math.h>

#include "base/random_private.h"

void kn_philox_words(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)0xD2511F53u * c0;
        uint64_t right = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(right >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)right;
        c2 = (uint32_t)(left >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)left;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

void kn_philox(uint64_t key, uint64_t block, uint32_t words[4]) {
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    uint32_t keys[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    kn_philox_words(counter, keys, words);
}

uint32_t kn_random_word(uint64_t key, uint64_t index) {
    uint32_t words[4];
    kn_philox(key, index / 4, words);
    return words[index % 4];
}

float kn_random_uniform(uint64_t key, uint64_t index) {
    return (float)(kn_random_word(key, index) >> 8) * 0x1p-24f;
}

float kn_random_normal(uint64_t key, uint64_t index) {
    /* Words 2i and 2i + 1 are in the same block: i / 2, starting at word 0 or 2. */
    uint32_t words[4];
    kn_philox(key, index / 2, words);
    const uint32_t *pair = words + 2 * (index % 2);
    double radius = ((double)pair[0] + 1.0) * 0x1p-32; /* in (0, 1], so that its logarithm is finite */
    double angle = (double)pair[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(radius)) * cos(6.283185307179586476925 * angle));
}

uint32_t kn_random_below(uint64_t key, uint64_t index, uint32_t bound) {
    return (uint32_t)((uint64_t)kn_random_word(key, index) * bound >> 32);
}

uint64_t kn_random_key(uint64_t seed, const char *name) {
    return kn_hash_text(kn_hash_number(KN_HASH_START, seed), name);
}

void kn_random_shuffle(uint64_t key, uint32_t *items, size_t count) {
    for (size_t i = count; i-- > 1;) {
        /* Element i uses word i. Elements past 2^32 - 1 are only swapped with earlier elements. */
        uint32_t bound = i < UINT32_MAX ? (uint32_t)(i + 1) : UINT32_MAX;
        size_t other = kn_random_below(key, i, bound);
        uint32_t item = items[i];
        items[i] = items[other];
        items[other] = item;
    }
}
