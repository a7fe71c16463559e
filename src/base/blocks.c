/* Quantized weights in blocks. `d` and `m` are float16 scales; all products are exact
 * in float32, so that only the last sum of a weight rounds, and contraction to fma changes no bit. */
#include <string.h>

#include "base/base.h"

static float half_at(const uint8_t *bytes) {
    return kn_float_from_half((uint16_t)kn_little_uint(bytes, 2));
}

static void widen_f32(const uint8_t *block, float *to) {
    uint32_t bits = (uint32_t)kn_little_uint(block, 4);
    memcpy(to, &bits, sizeof bits);
}

static void widen_f16(const uint8_t *block, float *to) {
    *to = half_at(block);
}

static void widen_bf16(const uint8_t *block, float *to) {
    *to = kn_float_from_bfloat((uint16_t)kn_little_uint(block, 2));
}

/* ---- blocks of 32 ------------------------------------------------------------------ */

/* Code i of 32 codes of four bits: the first 16 are in the low halves of the bytes. */
static int nibble(const uint8_t *codes, int i) {
    return codes[i % 16] >> 4 * (i / 16) & 15;
}

static void widen_q8_0(const uint8_t *block, float *to) {
    float d = half_at(block);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(int8_t)block[2 + i];
}

static void widen_q4_0(const uint8_t *block, float *to) {
    float d = half_at(block);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(nibble(block + 2, i) - 8);
}

static void widen_q4_1(const uint8_t *block, float *to) {
    float d = half_at(block), m = half_at(block + 2);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)nibble(block + 4, i) + m;
}

static void widen_q5_0(const uint8_t *block, float *to) {
    float d = half_at(block);
    uint32_t high = (uint32_t)kn_little_uint(block + 2, 4);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(nibble(block + 6, i) + (int)(high >> i & 1) * 16 - 16);
}

static void widen_q5_1(const uint8_t *block, float *to) {
    float d = half_at(block), m = half_at(block + 2);
    uint32_t high = (uint32_t)kn_little_uint(block + 4, 4);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(nibble(block + 8, i) + (int)(high >> i & 1) * 16) + m;
}

static void widen_iq4_nl(const uint8_t *block, float *to) {
    static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    float d = half_at(block);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)levels[nibble(block + 2, i)];
}

/* ---- blocks of 256 in groups of 16 or 32, each with a scale ------------------------------------ */

/* Code i of 256 codes of two bits: in each half of the block, four groups of 32 share 32 bytes. */
static int pair(const uint8_t *codes, int i) {
    return codes[i / 128 * 32 + i % 32] >> 2 * (i / 32 % 4) & 3;
}

static void widen_q2_k(const uint8_t *block, float *to) {
    float d = half_at(block + 80), m = half_at(block + 82);
    for (int i = 0; i < 256; i++) {
        int scales = block[i / 16];
        to[i] = d * (float)(scales & 15) * (float)pair(block + 16, i) - m * (float)(scales >> 4);
    }
}

static void widen_q3_k(const uint8_t *block, float *to) {
    const uint8_t *scales = block + 96;
    float d = half_at(block + 108);
    for (int group = 0; group < 16; group++) {
        int low = (group < 8 ? scales[group] : scales[group - 8] >> 4) & 15;
        int high = scales[8 + group % 4] >> 2 * (group / 4) & 3;
        for (int i = group * 16; i < group * 16 + 16; i++) {
            int code = pair(block + 32, i) - 4 + 4 * (block[i % 32] >> (i / 32) & 1);
            to[i] = d * (float)((low | high << 4) - 32) * (float)code;
        }
    }
}

/* Q4_K and Q5_K: scale and minimum of group j, six bits each. */
static void scales_of(const uint8_t *scales, int j, int *scale, int *minimum) {
    if (j < 4) {
        *scale = scales[j] & 63;
        *minimum = scales[j + 4] & 63;
    } else {
        *scale = (scales[j + 4] & 15) | scales[j - 4] >> 6 << 4;
        *minimum = scales[j + 4] >> 4 | scales[j] >> 6 << 4;
    }
}

static void widen_k(const uint8_t *block, const uint8_t *codes, const uint8_t *high, float *to) {
    float d = half_at(block), m = half_at(block + 2);
    for (int j = 0; j < 8; j++) {
        int scale, minimum;
        scales_of(block + 4, j, &scale, &minimum);
        for (int i = 0; i < 32; i++) {
            int code = codes[j / 2 * 32 + i] >> 4 * (j % 2) & 15;
            if (high) code += 16 * (high[i] >> j & 1);
            to[j * 32 + i] = d * (float)scale * (float)code - m * (float)minimum;
        }
    }
}

static void widen_q4_k(const uint8_t *block, float *to) {
    widen_k(block, block + 16, NULL, to);
}

static void widen_q5_k(const uint8_t *block, float *to) {
    widen_k(block, block + 48, block + 16, to);
}

static void widen_q6_k(const uint8_t *block, float *to) {
    float d = half_at(block + 208);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) {
            int low = block[j / 4 * 64 + j % 2 * 32 + i] >> 4 * (j / 2 % 2) & 15;
            int high = block[128 + j / 4 * 32 + i] >> 2 * (j % 4) & 3;
            to[j * 32 + i] = d * (float)(int8_t)block[192 + 2 * j + i / 16] * (float)((low | high << 4) - 32);
        }
}

/* Fields are ordered by size, so that each is aligned to the vectors that kernels read. */
static const kn_block_type types[] = {
    {0, "F32", 1, 4, widen_f32, {{0, 0}}},
    {1, "F16", 1, 2, widen_f16, {{0, 0}}},
    {2, "Q4_0", 32, 18, widen_q4_0, {{2, 16}, {0, 2}}},
    {3, "Q4_1", 32, 20, widen_q4_1, {{4, 16}, {0, 4}}},
    {6, "Q5_0", 32, 22, widen_q5_0, {{6, 16}, {2, 4}, {0, 2}}},
    {7, "Q5_1", 32, 24, widen_q5_1, {{8, 16}, {4, 4}, {0, 4}}},
    {8, "Q8_0", 32, 34, widen_q8_0, {{2, 32}, {0, 2}}},
    {10, "Q2_K", 256, 84, widen_q2_k, {{16, 64}, {0, 16}, {80, 4}}},
    {11, "Q3_K", 256, 110, widen_q3_k, {{32, 64}, {0, 32}, {96, 12}, {108, 2}}},
    {12, "Q4_K", 256, 144, widen_q4_k, {{16, 128}, {0, 16}}},
    {13, "Q5_K", 256, 176, widen_q5_k, {{48, 128}, {16, 32}, {0, 16}}},
    {14, "Q6_K", 256, 210, widen_q6_k, {{0, 128}, {128, 64}, {192, 16}, {208, 2}}},
    {20, "IQ4_NL", 32, 18, widen_iq4_nl, {{2, 16}, {0, 2}}},
    {30, "BF16", 1, 2, widen_bf16, {{0, 0}}},
};

const kn_block_type *kn_block_types(size_t *count) {
    *count = KN_COUNT_OF(types);
    return types;
}

const kn_block_type *kn_block_type_find(int number) {
    for (size_t i = 0; i < KN_COUNT_OF(types); i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}

const kn_block_type *kn_block_type_named(const char *name) {
    for (size_t i = 0; i < KN_COUNT_OF(types); i++)
        if (!strcmp(types[i].name, name)) return &types[i];
    return NULL;
}

void kn_blocks_widen(const kn_block_type *type, const uint8_t *blocks, uint64_t count, float *weights) {
    for (uint64_t i = 0; i < count; i++)
        type->widen(blocks + i * (uint64_t)type->bytes, weights + i * (uint64_t)type->weights);
}

/* ---- arrangement in device memory -------------------------------------------------------------- */

void kn_blocks_arrange(const kn_block_type *type, const uint8_t *blocks, uint64_t count, uint64_t first,
                       uint64_t bytes, uint8_t *to) {
    const uint64_t end = first + bytes;
    uint64_t section = 0; /* where the fields of all blocks begin */
    for (int f = 0; f < KN_BLOCK_FIELDS && type->fields[f].bytes; f++) {
        const uint64_t size = (uint64_t)type->fields[f].bytes, section_end = section + count * size;
        uint64_t at = first > section ? first : section;
        const uint64_t stop = end < section_end ? end : section_end;
        while (at < stop) {
            const uint64_t block = (at - section) / size, inside = (at - section) % size;
            const uint64_t piece = stop - at < size - inside ? stop - at : size - inside;
            memcpy(to + (at - first),
                   blocks + block * (uint64_t)type->bytes + (uint64_t)type->fields[f].at + inside,
                   (size_t)piece);
            at += piece;
        }
        section = section_end;
    }
}

void kn_blocks_take(const kn_block_type *type, const uint8_t *arranged, uint64_t count, uint64_t index,
                    uint8_t *block) {
    for (int f = 0; f < KN_BLOCK_FIELDS && type->fields[f].bytes; f++) {
        const uint64_t size = (uint64_t)type->fields[f].bytes;
        memcpy(block + type->fields[f].at, arranged + index * size, (size_t)size);
        arranged += count * size;
    }
}

void kn_blocks_widen_arranged(const kn_block_type *type, const uint8_t *arranged, uint64_t count,
                              uint64_t first, uint64_t wanted, float *weights) {
    uint8_t block[KN_BLOCK_MOST_BYTES] = {0};
    for (uint64_t i = 0; i < wanted; i++) {
        kn_blocks_take(type, arranged, count, first + i, block);
        type->widen(block, weights + i * (uint64_t)type->weights);
    }
}
