/* Codes of weights in quantized blocks as bytes, and their scales as vectors, for CPUs that multiply bytes four at a time
 * (common/quads.cl). A weight is scale * (code - KN_ZERO) + offset, with unsigned codes. The codes of a row are extracted
 * in units of 128 or 256, which may end with fewer blocks.
 *
 * Defines, with their defaults:
 *   KN_BLOCKS 8   the type of the blocks (common/blocks.cl): Q4_0, Q4_1, Q5_0, Q8_0, Q4_K or Q6_K
 * This file defines
 *   KN_UNIT, KN_UNIT_BLOCKS          weights and blocks of a unit
 *   unit_at(blocks, total, block, left)   the unit that begins at a block, of which `left` blocks exist */
#ifndef KN_BLOCK_UNITS_CL
#define KN_BLOCK_UNITS_CL
#include "common/blocks.cl"
#include "common/quads.cl"
#include "common/storage.cl"
#include "common/unroll.cl"

/* The codes of a unit are KN_CODES vectors of four pieces of 16 codes. KN_PLACE is the place, 4 * vector + piece, of the
 * 16 weights that begin at weight 16 * g of the unit. The vectors have a vector of scales each, or all the same one
 * (KN_PARTS 1): lane l belongs to the codes of lane l. With KN_MINS, the offset of weights 32 * g and the following ones is
 * mins[g], or of Q4_1 mins[2 * g + 1]. */
#if KN_BLOCKS == KN_Q8_0
#define KN_CODES 2
#define KN_PARTS 2
#define KN_ZERO 128
#define KN_PLACE(g) (g)
#elif KN_BLOCKS == KN_Q6_K
#define KN_CODES 4
#define KN_PARTS 4
#define KN_ZERO 32
#define KN_PLACE(g) (g)
#elif KN_BLOCKS == KN_Q4_K
#define KN_CODES 4
#define KN_PARTS 4
#define KN_ZERO 0
#define KN_PLACE(g) ((g) / 8 * 8 + ((g) / 2 & 1) * 4 + ((g) / 4 & 1) * 2 + ((g)&1))
#else
#define KN_CODES 2
#define KN_PARTS 1
#define KN_ZERO (KN_BLOCKS == KN_Q4_0 ? 8 : KN_BLOCKS == KN_Q5_0 ? 16 : 0)
#define KN_PLACE(g) ((g) / 2 + ((g)&1) * 4)
#endif
#define KN_MINS (KN_BLOCKS == KN_Q4_1 || KN_BLOCKS == KN_Q4_K)
#define KN_UNIT (64 * KN_CODES)
#define KN_UNIT_BLOCKS (KN_UNIT / KN_BLOCK_WEIGHTS)
#define KN_PART(v) (KN_PARTS == 1 ? 0 : (v))

typedef struct unit {
    int16 codes[KN_CODES];
    float16 scales[KN_PARTS];
    float8 mins;
} unit;

#define KN_INTS_AT(n, p) vload##n(0, (global const int *)(p))
#define KN_LOW 0x0f0f0f0f
/* Float16 numbers at p, of which `left` exist; the others are 0. */
#define KN_HALF_AT(i, p) (i < left ? KN_LOAD_HALF((global const half *)(p) + i) : 0.0f)
#define KN_FOUR_AT(p) (float4)(KN_HALF_AT(0, p), KN_HALF_AT(1, p), KN_HALF_AT(2, p), KN_HALF_AT(3, p))
#if KN_EMULATED
static inline float4 four_halves(global const uchar *p) { return vload_half4(0, (global const half *)p); }
static inline float8 eight_halves(global const uchar *p) { return vload_half8(0, (global const half *)p); }
#else
/* Some implementations convert by integer arithmetic. */
static inline float8 from_halves(const ushort8 bits) {
    float8 numbers;
    __asm__("vcvtph2ps %1, %0" : "=v"(numbers) : "v"(bits));
    return numbers;
}
static inline float4 four_halves(global const uchar *p) {
    return from_halves((ushort8)(KN_LOAD_BITS(4, 0, (global const ushort *)p), (ushort4)(0))).lo;
}
static inline float8 eight_halves(global const uchar *p) {
    return from_halves(KN_LOAD_BITS(8, 0, (global const ushort *)p));
}
#endif

#if KN_BLOCK_WEIGHTS == 32
/* Four blocks, of which `left` exist. The following code is inlined with `left` constant but in a row's last unit. */
#define KN_FIELDS_AT(before, bytes) (blocks + (KN_INDEX)(before) * total + block * (bytes))
#if KN_BLOCKS == KN_Q8_0
#define KN_SCALES_AT KN_FIELDS_AT(32, 2)
#elif KN_BLOCKS == KN_Q4_0
#define KN_SCALES_AT KN_FIELDS_AT(16, 2)
#elif KN_BLOCKS == KN_Q5_0
#define KN_SCALES_AT KN_FIELDS_AT(20, 2)
#else
#define KN_SCALES_AT KN_FIELDS_AT(16, 4)
#endif

static inline int16 pieces_at(global const uchar *from, const int bytes, const int left) {
    if (left >= 4) return KN_INTS_AT(16, from);
    int4 pieces[4];
    for (int i = 0; i < 4; i++)
        pieces[i] = 16 * i < bytes ? KN_INTS_AT(4, from + 16 * i) : (int4)(0);
    return (int16)(pieces[0], pieces[1], pieces[2], pieces[3]);
}

#if KN_BLOCKS == KN_Q5_0
/* 16 in each byte whose bit is set: bits 0 to 15 of each of four blocks, or 16 to 31 if `high`. */
static inline int16 fifth_bits(const uint4 bits, const bool high) {
    const uint16 low_steps = (uint16)(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    const uint16 steps = high ? low_steps + 16u : low_steps;
    const uint16 four = bits.s0000111122223333 >> steps & 15u;
    /* Each of the four bits to its byte. */
    return as_int16(four * 0x02040810u & 0x10101010u);
}
#endif

static inline __attribute__((always_inline)) unit unit_at(global const uchar *blocks, const KN_INDEX total,
                                                          const KN_INDEX block, const int left) {
    unit u;
#if KN_BLOCKS == KN_Q8_0
    global const uchar *from = KN_FIELDS_AT(0, 32);
    u.codes[0] = pieces_at(from, 32 * left, 2 * left) ^ (int)0x80808080;
    u.codes[1] = pieces_at(from + 64, 32 * left - 64, 2 * left - 4) ^ (int)0x80808080;
#else
    const int16 both = pieces_at(KN_FIELDS_AT(0, 16), 16 * left, left);
    u.codes[0] = both & KN_LOW;
    u.codes[1] = both >> 4 & KN_LOW;
#endif
#if KN_BLOCKS == KN_Q5_0
    uint4 bits = 0;
    global const uchar *fifth = KN_FIELDS_AT(16, 4);
    if (left >= 4) {
        bits = vload4(0, (global const uint *)fifth);
    } else {
        bits.s0 = *(global const uint *)fifth;
        if (left > 1) bits.s1 = *((global const uint *)fifth + 1);
        if (left > 2) bits.s2 = *((global const uint *)fifth + 2);
    }
    u.codes[0] |= fifth_bits(bits, false);
    u.codes[1] |= fifth_bits(bits, true);
#endif
    u.mins = 0.0f;
#if KN_BLOCKS == KN_Q4_1
    /* Pairs of a scale and an offset. */
    global const uchar *pairs = KN_SCALES_AT;
    if (left >= 4) {
        u.mins = eight_halves(pairs);
    } else {
        u.mins.s01 = (float2)(KN_HALF_AT(0, pairs), KN_HALF_AT(0, pairs + 2));
        if (left > 1) u.mins.s23 = (float2)(KN_HALF_AT(0, pairs + 4), KN_HALF_AT(0, pairs + 6));
        if (left > 2) u.mins.s45 = (float2)(KN_HALF_AT(0, pairs + 8), KN_HALF_AT(0, pairs + 10));
    }
    const float4 scales = u.mins.s0246;
#else
    const float4 scales = left >= 4 ? four_halves(KN_SCALES_AT) : KN_FOUR_AT(KN_SCALES_AT);
#endif
#if KN_PARTS == 1
    u.scales[0] = scales.s0000111122223333;
#else
    u.scales[0] = scales.s0000000011111111;
    u.scales[1] = scales.s2222222233333333;
#endif
    return u;
}

#else
static inline __attribute__((always_inline)) unit unit_at(global const uchar *blocks, const KN_INDEX total,
                                                          const KN_INDEX block, const int left) {
    unit u;
    u.mins = 0.0f;
#if KN_BLOCKS == KN_Q4_K
    const int16 first = KN_INTS_AT(16, KN_FIELD(0, 128, 0)), second = KN_INTS_AT(16, KN_FIELD(0, 128, 64));
    u.codes[0] = first & KN_LOW;
    u.codes[1] = first >> 4 & KN_LOW;
    u.codes[2] = second & KN_LOW;
    u.codes[3] = second >> 4 & KN_LOW;
    /* kn_scale_at of all groups. */
    const uint4 head = vload4(0, (global const uint *)KN_FIELD(128, 16, 0));
    const uint2 scales = (uint2)(head.s1 & 0x3f3f3f3f, (head.s3 & KN_LOW) | (head.s1 >> 6 & 0x03030303) << 4);
    const uint2 mins = (uint2)(head.s2 & 0x3f3f3f3f, (head.s3 >> 4 & KN_LOW) | (head.s2 >> 6 & 0x03030303) << 4);
    const float8 own = convert_float8(as_uchar8(scales)) * KN_HALF_OF(128, 16, 0);
    u.mins = convert_float8(as_uchar8(mins)) * -KN_HALF_OF(128, 16, 2);
    u.scales[0] = own.s0000000022222222;
    u.scales[1] = own.s1111111133333333;
    u.scales[2] = own.s4444444466666666;
    u.scales[3] = own.s5555555577777777;
#elif KN_BLOCKS == KN_Q6_K
    KN_UNROLL for (int half_block = 0; half_block < 2; half_block++) {
        const int16 low = KN_INTS_AT(16, KN_FIELD(0, 128, 64 * half_block));
        const int8 bits = KN_INTS_AT(8, KN_FIELD(128, 64, 32 * half_block));
        const int16 high = (int16)(bits, bits >> 2);
        u.codes[2 * half_block] = (low & KN_LOW) | (high & 0x03030303) << 4;
        u.codes[2 * half_block + 1] = (low >> 4 & KN_LOW) | (high >> 4 & 0x03030303) << 4;
    }
    const char16 scales = as_char16(KN_INTS_AT(4, KN_FIELD(192, 16, 0)));
    const float16 own = convert_float16(scales) * KN_HALF_OF(208, 2, 0);
    u.scales[0] = own.s0000111122223333;
    u.scales[1] = own.s4444555566667777;
    u.scales[2] = own.s88889999aaaabbbb;
    u.scales[3] = own.sccccddddeeeeffff;
#endif
    return u;
}
#endif
#endif
