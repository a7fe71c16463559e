/* FNV-1a, 64 bits; and a hash of large memory. */
#include "base/base.h"

#include <string.h>

uint64_t kn_hash_bytes(uint64_t seed, const void *bytes, size_t count) {
    const unsigned char *byte = bytes;
    uint64_t hash = seed;
    for (size_t i = 0; i < count; i++) {
        hash ^= byte[i];
        hash *= 0x100000001b3ull;
    }
    return hash;
}

uint64_t kn_hash_text(uint64_t seed, const char *text) {
    return kn_hash_bytes(seed, text, strlen(text));
}

uint64_t kn_hash_number(uint64_t seed, uint64_t number) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    return kn_hash_bytes(seed, bytes, sizeof bytes);
}

/* Every step is a bijection of the lane, so that one changed word always changes the result. The rotation
 * carries the highest bit, the sign of a float, to lower ones: changes of two signs do not cancel. */
static inline uint64_t mix(uint64_t lane, uint64_t word) {
    lane ^= word;
    lane = lane << 29 | lane >> 35;
    return lane * 0x9e3779b185ebca87ull;
}

uint64_t kn_fingerprint(const void *bytes, size_t count) {
    enum { LANES = 8, CHUNK = LANES * sizeof(uint64_t) };
    const unsigned char *byte = bytes;
    uint64_t lanes[LANES], words[LANES], hash = mix(KN_HASH_START, count);
    for (int i = 0; i < LANES; i++)
        lanes[i] = mix(hash, (uint64_t)i);
    for (; count >= CHUNK; byte += CHUNK, count -= CHUNK) {
        memcpy(words, byte, CHUNK);
        for (int i = 0; i < LANES; i++)
            lanes[i] = mix(lanes[i], words[i]);
    }
    if (count) {
        memset(words, 0, sizeof words);
        memcpy(words, byte, count);
        for (int i = 0; i < LANES; i++)
            lanes[i] = mix(lanes[i], words[i]);
    }
    for (int i = 0; i < LANES; i++)
        hash = mix(hash, lanes[i]);
    hash = mix(hash, hash >> 32);
    return hash ^ hash >> 32;
}
