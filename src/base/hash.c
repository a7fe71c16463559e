/* FNV-1a, 64 bits. */
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
