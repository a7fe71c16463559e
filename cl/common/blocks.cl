/* Quantized weights in arranged blocks (src/base/blocks.h): fields of all blocks one after another. A file defines
 *   KN_BLOCKS 8  the number of the type of blocks in GGUF files
 * before it includes this one, which defines
 *   KN_BLOCK_WEIGHTS, KN_BLOCK_GROUPS   weights of a block, and groups of 16 of them, which share a scale
 *   kn_weights_at(blocks, total, block, group)   a float16: weights 16 * group and the following ones of a block, of
 *                                                `total` blocks at `blocks`, an address aligned to 64 bytes
 * A weight is scale * code + offset. The product is exact, and so the weight has the bits of ggml's reference whether
 * or not the compiler contracts it. */
#ifndef KN_BLOCKS_CL
#define KN_BLOCKS_CL
#include "common/types.cl"

#ifndef KN_BLOCKS
#define KN_BLOCKS 8
#endif
#define KN_Q4_0 2
#define KN_Q4_1 3
#define KN_Q5_0 6
#define KN_Q5_1 7
#define KN_Q8_0 8
#define KN_Q2_K 10
#define KN_Q3_K 11
#define KN_Q4_K 12
#define KN_Q5_K 13
#define KN_Q6_K 14
#define KN_IQ4_NL 20

#if KN_BLOCKS >= KN_Q2_K && KN_BLOCKS <= KN_Q6_K
#define KN_BLOCK_WEIGHTS 256
#else
#define KN_BLOCK_WEIGHTS 32
#endif
#define KN_BLOCK_GROUPS (KN_BLOCK_WEIGHTS / 16)

/* Codes whose fields follow `before` bytes for each block, with `bytes` bytes for each, from byte `at` of the block. */
#define KN_FIELD(before, bytes, at) (blocks + (KN_INDEX)(before) * total + block * (bytes) + (at))
#define KN_BYTES_OF(before, bytes, at)                                                                       \
    convert_int16(*(global const uchar16 *)KN_FIELD(before, bytes, at))
#define KN_HALF_OF(before, bytes, at) KN_LOAD_HALF((global const half *)KN_FIELD(before, bytes, at))
/* Some implementations convert by integer arithmetic, which takes longer than all else, although the CPU has an
 * instruction. */
#define KN_LOAD_HALF(p) vload_half(0, p)
#if defined(__has_builtin) && defined(__F16C__)
#if __has_builtin(__builtin_load_halff)
#undef KN_LOAD_HALF
#define KN_LOAD_HALF(p) __builtin_load_halff(p)
#endif
#endif
/* Lane i of bits that are numbered from the lowest: 0 or -1. */
#define KN_LANE_BITS (int16)(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)

#if KN_BLOCKS == KN_Q8_0
static inline int16 kn_codes_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                const int group) {
    return convert_int16(*(global const char16 *)KN_FIELD(0, 32, 16 * group));
}
static inline float2 kn_scale_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                 const int group) {
    return (float2)(KN_HALF_OF(32, 2, 0), 0.0f);
}

#elif KN_BLOCK_WEIGHTS == 32
/* The first 16 weights are in the low halves of the bytes. */
#define KN_NIBBLES (KN_BYTES_OF(0, 16, 0) >> 4 * group & 15)
static inline int16 kn_codes_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                const int group) {
#if KN_BLOCKS == KN_Q4_0
    return KN_NIBBLES - 8;
#elif KN_BLOCKS == KN_Q4_1
    return KN_NIBBLES;
#elif KN_BLOCKS == KN_IQ4_NL
    const char16 levels = (char16)(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    return convert_int16(shuffle(levels, convert_uchar16(KN_NIBBLES)));
#else
    const int high = (int)(*(global const uint *)KN_FIELD(16, 4, 0) >> 16 * group & 0xffffu);
    const int16 absent = (high & KN_LANE_BITS) == 0;
    return KN_NIBBLES + (absent << 4) + (KN_BLOCKS == KN_Q5_1 ? 16 : 0);
#endif
}
static inline float2 kn_scale_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                 const int group) {
#if KN_BLOCKS == KN_Q4_1
    return (float2)(KN_HALF_OF(16, 4, 0), KN_HALF_OF(16, 4, 2));
#elif KN_BLOCKS == KN_Q5_1
    return (float2)(KN_HALF_OF(20, 4, 0), KN_HALF_OF(20, 4, 2));
#elif KN_BLOCKS == KN_Q5_0
    return (float2)(KN_HALF_OF(20, 2, 0), 0.0f);
#else
    return (float2)(KN_HALF_OF(16, 2, 0), 0.0f);
#endif
}

#elif KN_BLOCKS == KN_Q2_K || KN_BLOCKS == KN_Q3_K
/* In each half of the block, four times 32 weights share 32 bytes. */
#define KN_PAIRS (KN_BYTES_OF(0, 64, 32 * (group >> 3) + 16 * (group & 1)) >> 2 * (group >> 1 & 3) & 3)
static inline int16 kn_codes_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                const int group) {
#if KN_BLOCKS == KN_Q2_K
    return KN_PAIRS;
#else
    return KN_PAIRS - 4 + ((KN_BYTES_OF(64, 32, 16 * (group & 1)) >> (group >> 1) & 1) << 2);
#endif
}
static inline float2 kn_scale_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                 const int group) {
#if KN_BLOCKS == KN_Q2_K
    const int both = *KN_FIELD(64, 16, group);
    return (float2)(KN_HALF_OF(80, 4, 0) * (float)(both & 15), -(KN_HALF_OF(80, 4, 2) * (float)(both >> 4)));
#else
    const int low = *KN_FIELD(96, 12, group & 7) >> 4 * (group >> 3) & 15;
    const int high = *KN_FIELD(96, 12, 8 + (group & 3)) >> 2 * (group >> 2) & 3;
    return (float2)(KN_HALF_OF(108, 2, 0) * (float)((low | high << 4) - 32), 0.0f);
#endif
}

#elif KN_BLOCKS == KN_Q4_K || KN_BLOCKS == KN_Q5_K
static inline int16 kn_codes_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                const int group) {
    const int16 low = KN_BYTES_OF(0, 128, 32 * (group >> 2) + 16 * (group & 1)) >> 4 * (group >> 1 & 1) & 15;
#if KN_BLOCKS == KN_Q4_K
    return low;
#else
    return low + ((KN_BYTES_OF(128, 32, 16 * (group & 1)) >> (group >> 1) & 1) << 4);
#endif
}
/* 32 weights share a scale and a minimum of six bits each. */
static inline float2 kn_scale_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                 const int group) {
    const int head = KN_BLOCKS == KN_Q4_K ? 128 : 160, j = group >> 1;
    const int first = *KN_FIELD(head, 16, 4 + (j & 3)), second = *KN_FIELD(head, 16, 8 + (j & 3));
    const int third = *KN_FIELD(head, 16, 12 + (j & 3));
    const int scale = j < 4 ? first & 63 : (third & 15) | first >> 6 << 4;
    const int minimum = j < 4 ? second & 63 : third >> 4 | second >> 6 << 4;
    return (float2)(KN_HALF_OF(head, 16, 0) * (float)scale, -(KN_HALF_OF(head, 16, 2) * (float)minimum));
}

#elif KN_BLOCKS == KN_Q6_K
static inline int16 kn_codes_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                const int group) {
    const int16 low = KN_BYTES_OF(0, 128, 64 * (group >> 3) + 16 * (group & 3)) >> 4 * (group >> 2 & 1) & 15;
    const int16 high = KN_BYTES_OF(128, 64, 32 * (group >> 3) + 16 * (group & 1)) >> 2 * (group >> 1 & 3) & 3;
    return (low | high << 4) - 32;
}
static inline float2 kn_scale_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                 const int group) {
    return (float2)(KN_HALF_OF(208, 2, 0) * (float)as_char(*KN_FIELD(192, 16, group)), 0.0f);
}
#endif

static inline float16 kn_weights_at(global const uchar *blocks, const KN_INDEX total, const KN_INDEX block,
                                    const int group) {
    const float2 scale = kn_scale_at(blocks, total, block, group);
    const float16 codes = convert_float16(kn_codes_at(blocks, total, block, group));
#if KN_BLOCKS == KN_Q4_1 || KN_BLOCKS == KN_Q5_1 || KN_BLOCKS == KN_Q2_K || KN_BLOCKS == KN_Q4_K ||         \
    KN_BLOCKS == KN_Q5_K
    return codes * scale.x + scale.y;
#else
    return codes * scale.x;
#endif
}
#endif
