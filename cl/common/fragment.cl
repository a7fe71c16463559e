/* Sums of products of 16-bit elements, of TF32, or of 8-bit integers, on matrix units, instead of the work-items' sums
 * in common/tile.cl, which includes this file if KN_FRAGMENT is defined. A wave computes KN_WAVE_M x KN_WAVE_N sums of
 * a work-group's tile, in tiles of the unit, whose elements are distributed over the wave's lanes
 * (common/fragment_layout.cl). Slices are in local memory as left (KN_TILE_M,KN_TILE_K) and right
 * (KN_TILE_N,KN_TILE_K), so that elements that a lane needs together are adjacent, with rows padded against bank
 * conflicts; for units 5 and 6 tile by tile, as block reads of sub-groups require.
 *   KN_FRAGMENT      the unit
 *   KN_FORMAT 2     the element format: 1 float16, 2 bfloat16; float32 operands are rounded to it when they are
 *                    loaded, to nearest even. 3, only with unit 1: TF32, float32 rounded to 10 bits of mantissa, to
 *                    nearest with ties away from 0. 4: each float32 is the sum of two bfloat16, rounded to nearest
 *                    even; a product is the sum of three, omitting low times low. A slice has both in a word, the high
 *                    one in its upper half. 5: pairs of 8-bit integers that are adjacent along the depth, the first in
 *                    the lower half; sums are int. Elements and depths then refer to pairs
 *   KN_SIGNED_A, KN_SIGNED_B 0   with KN_FORMAT 5: 1: left, or right, is int8, otherwise uint8
 *   KN_EMULATED 0    1: without a unit; lanes hold the same elements and exchange them through local memory.
 *                    2: a cheap operation replaces the products: results are wrong, but work-items access memory as
 *                    they do with a unit, so that accesses can be counted without one (tools/gpu-lab/counts)
 *   KN_WAVE_M, _N 32 the tile of a wave, multiples of the unit's tile */
#if defined(KN_FRAGMENT) && !defined(KN_FRAGMENT_CL)
#define KN_FRAGMENT_CL
#include "common/fragment_layout.cl"
#include "common/storage.cl"
#ifndef KN_EMULATED
#define KN_EMULATED 0
#endif
#ifndef KN_WAVE_M
#define KN_WAVE_M 32
#endif
#ifndef KN_WAVE_N
#define KN_WAVE_N 32
#endif
/* An element of a slice, and how many fit in a 32-bit word; and the same for the elements that the unit multiplies. */
#if KN_FORMAT == 3 || KN_FORMAT == 4
#define KN_NUMBER uint
#define KN_IN_WORD 1
#else
#define KN_NUMBER ushort
#define KN_IN_WORD 2
#endif
#if KN_FORMAT == 3
#define KN_FACTOR uint
#define KN_FACTORS_IN_WORD 1
#else
#define KN_FACTOR ushort
#define KN_FACTORS_IN_WORD 2
#endif
#if KN_FORMAT == 5
#define KN_SUM int
#else
#define KN_SUM float
#endif
#ifndef KN_SIGNED_A
#define KN_SIGNED_A 0
#endif
#ifndef KN_SIGNED_B
#define KN_SIGNED_B 0
#endif
#define KN_WAVES_M (KN_TILE_M / KN_WAVE_M)
#define KN_WAVES_N (KN_TILE_N / KN_WAVE_N)
#define KN_WAVES (KN_WAVES_M * KN_WAVES_N)
#define KN_TILES_M (KN_WAVE_M / KN_ROWS)
#define KN_TILES_N (KN_WAVE_N / KN_COLUMNS)
#define KN_LANE ((int)get_local_id(0) % KN_LANES)
/* Sub-groups of the size that the unit requires, if the compiler would choose. */
#if KN_FRAGMENT >= 5 && !KN_EMULATED
#define KN_WAVE_SIZE __attribute__((intel_reqd_sub_group_size(KN_LANES)))
#define KN_WAVE ((int)get_sub_group_id())
#else
#define KN_WAVE_SIZE
#define KN_WAVE ((int)get_local_id(0) / KN_LANES)
#endif

/* Loops over tiles of the unit; without a unit, unrolling them makes compilation slow. */
#if KN_EMULATED == 1
#define KN_UNROLL_TILES
#else
#define KN_UNROLL_TILES KN_UNROLL
#endif

/* The position of an element in a slice: by row and k on the left, by column and k on the right. Two elements starting
 * at an even k are adjacent, except for units 5 and 6 if each is a word of two: there block reads return the even
 * elements, and the odd ones. For unit 1 the four elements of a row that a lane needs are adjacent.
 *
 * In other slices lines are padded so that the same k of adjacent lines is in different banks: by 16 bytes, or 8 if
 * unit 4 reads 8 at a time and its slices begin there. */
#define KN_SLICE_TILE(i, k, side) (((i) / (side) * (KN_TILE_K / KN_DEPTH) + (k) / KN_DEPTH) * ((side) * KN_DEPTH))
#define KN_EVEN_AND_ODD(k, rows) ((k) % 2 * ((rows) * KN_DEPTH / 2))
#if KN_FORMAT == 4 && KN_FRAGMENT >= 5
#define KN_SLICE_ROW KN_TILE_K
#if KN_FRAGMENT == 5
#define KN_LEFT_PLACE(i, k)                                                                                  \
    (KN_SLICE_TILE(i, k, KN_ROWS) + KN_EVEN_AND_ODD(k, KN_ROWS) + (i) % KN_ROWS * (KN_DEPTH / 2) + (k) % KN_DEPTH / 2)
#else
#define KN_LEFT_PLACE(i, k) (KN_SLICE_TILE(i, k, KN_ROWS) + (i) % KN_ROWS * KN_DEPTH + (k) % KN_DEPTH)
#endif
#define KN_RIGHT_PLACE(i, k)                                                                                 \
    (KN_SLICE_TILE(i, k, KN_COLUMNS) + KN_EVEN_AND_ODD(k, KN_COLUMNS) + (k) % KN_DEPTH / 2 * KN_COLUMNS +    \
     (i) % KN_COLUMNS)
#elif KN_FRAGMENT >= 5
#define KN_SLICE_ROW KN_TILE_K
#define KN_LEFT_PLACE(i, k) (KN_SLICE_TILE(i, k, KN_ROWS) + (i) % KN_ROWS * KN_DEPTH + (k) % KN_DEPTH)
#define KN_RIGHT_PLACE(i, k)                                                                                 \
    (KN_SLICE_TILE(i, k, KN_COLUMNS) + (k) % KN_DEPTH / 2 * (2 * KN_COLUMNS) + (i) % KN_COLUMNS * 2 + (k) % 2)
#elif KN_FORMAT == 4 && KN_FRAGMENT == 1
#define KN_SLICE_ROW KN_TILE_K
#define KN_LEFT_PLACE(i, k)                                                                                  \
    ((i) * KN_SLICE_ROW + (k) / 16 * 16 + (k) % 8 / 2 * 4 + (k) % 16 / 8 * 2 + (k) % 2)
#define KN_RIGHT_PLACE(i, k) KN_LEFT_PLACE(i, k)
#elif KN_FRAGMENT == 4 && KN_IN_WORD == 2
#define KN_SLICE_ROW (KN_TILE_K + 4)
#define KN_LEFT_PLACE(i, k) ((i) * KN_SLICE_ROW + (k))
#define KN_RIGHT_PLACE(i, k) KN_LEFT_PLACE(i, k)
#else
#define KN_SLICE_ROW (KN_TILE_K + 4 * KN_IN_WORD)
#define KN_LEFT_PLACE(i, k) ((i) * KN_SLICE_ROW + (k))
#define KN_RIGHT_PLACE(i, k) KN_LEFT_PLACE(i, k)
#endif
#define KN_LEFT_SLICE (KN_TILE_M * KN_SLICE_ROW)
#define KN_RIGHT_SLICE (KN_TILE_N * KN_SLICE_ROW)

/* ---- local memory ------------------------------------------------------------------------------------- */

/* After the last slice it has a row of tiles of sums of each wave before they are stored. What a wave writes there at a
 * time is in different banks: for unit 1 pairs of columns in four rows, for unit 2 two adjacent rows, for unit 3 two
 * rows that are 8 apart, for which KN_STAGE_LINE changes the order of rows. */
#define KN_STAGES KN_TILES_M
#define KN_STAGE_ROWS (KN_WAVES_M * KN_ROWS)
#if KN_FRAGMENT == 1
#define KN_STAGE_ROW (KN_TILE_N + 8)
#elif KN_FRAGMENT == 2
#define KN_STAGE_ROW (KN_TILE_N + 16)
#else
#define KN_STAGE_ROW (KN_TILE_N + 4)
#endif
#if KN_FRAGMENT == 3
#define KN_STAGE_LINE(r) ((r) ^ ((r) >> 1 & 4))
#else
#define KN_STAGE_LINE(r) (r)
#endif
#define KN_STAGE_BYTES (4 * KN_STAGE_ROWS * KN_STAGE_ROW)
#define KN_SLICE_BYTES(number) (4 / KN_IN_WORD * (number) * (KN_LEFT_SLICE + KN_RIGHT_SLICE))
#define KN_LOCAL_BYTES(number)                                                                               \
    (KN_SLICE_BYTES(number) > KN_STAGE_BYTES ? KN_SLICE_BYTES(number) : KN_STAGE_BYTES)
#define KN_SLICES(number)                                                                                    \
    local uint4 slices[KN_LOCAL_BYTES(number) / 16];                                                         \
    local KN_NUMBER *left = (local KN_NUMBER *)slices, *right = left + (number) * KN_LEFT_SLICE;                   \
    local KN_A *stage = (local KN_A *)slices;                                                                \
    KN_EMULATION
#if KN_EMULATED == 1
#define KN_EXCHANGED (KN_ROWS * KN_DEPTH + KN_COLUMNS * KN_DEPTH)
#define KN_EMULATION local KN_FACTOR exchange[KN_WAVES * KN_EXCHANGED];
#define KN_EXCHANGE , exchange + KN_WAVE * KN_EXCHANGED
#define KN_EXCHANGE_PARAMETER , local KN_FACTOR *exchange
#define KN_EXCHANGE_PASSED , exchange
#else
#define KN_EMULATION
#define KN_EXCHANGE
#define KN_EXCHANGE_PARAMETER
#define KN_EXCHANGE_PASSED
#endif

/* ---- fragments ---------------------------------------------------------------------------------------- */

#if KN_FRAGMENT >= 5 && !KN_EMULATED
/* As returned by block reads, if elements of different rows are in different registers. */
#define KN_BLOCK_5 int8
#define KN_BLOCK_6 short8
typedef KN_PASTE(KN_BLOCK_, KN_FRAGMENT) fragment_left;
typedef int8 fragment_right;
#else
typedef struct fragment_left {
    uint word[KN_LEFT_EACH / KN_FACTORS_IN_WORD];
} fragment_left;
typedef struct fragment_right {
    uint word[KN_RIGHT_EACH / KN_FACTORS_IN_WORD];
} fragment_right;
#endif
#define KN_SUM_VECTOR KN_PASTE(KN_SUM, KN_SUM_EACH)

#if KN_FORMAT == 4
/* The high and the low elements of a tile; loaded by address, since Oclgrind cannot run what LLVM makes of functions
 * that return them. */
typedef struct split_left {
    fragment_left high, low;
} split_left;
typedef struct split_right {
    fragment_right high, low;
} split_right;
/* The high and the low elements of two words. */
#define KN_HIGH_OF(first, second) ((first) >> 16 | ((second) & 0xffff0000u))
#define KN_LOW_OF(first, second) (((first) & 0xffffu) | (second) << 16)
#if KN_FRAGMENT >= 5 && !KN_EMULATED
static inline uint8 read_block(local const uint *from) {
    return intel_sub_group_block_read8(from);
}
static inline void load_split_left(local const uint *slice, const int row, const int k, split_left *loaded) {
    local const uint *from = slice + KN_LEFT_PLACE(row, k);
#if KN_FRAGMENT == 5
    const uint8 even = read_block(from), odd = read_block(from + KN_ROWS * KN_DEPTH / 2);
    loaded->high = as_int8(KN_HIGH_OF(even, odd));
    loaded->low = as_int8(KN_LOW_OF(even, odd));
#else
    const uint8 words = read_block(from);
    loaded->high = as_short8(convert_ushort8(words >> 16));
    loaded->low = as_short8(convert_ushort8(words & 0xffffu));
#endif
}
static inline void load_split_right(local const uint *slice, const int column, const int k, split_right *loaded) {
    local const uint *from = slice + KN_RIGHT_PLACE(column, k);
    const uint8 even = read_block(from), odd = read_block(from + KN_COLUMNS * KN_DEPTH / 2);
    loaded->high = as_int8(KN_HIGH_OF(even, odd));
    loaded->low = as_int8(KN_LOW_OF(even, odd));
}
#else
/* Element e of a lane is at `PLACE`; if a run of four or more is adjacent, and for unit 1, four are loaded at once. */
static inline void split_pair(const uint first, const uint second, const int at, uint *high, uint *low) {
    high[at] = KN_HIGH_OF(first, second);
    low[at] = KN_LOW_OF(first, second);
}
#define KN_LOAD_SPLIT(loaded, slice, PLACE, side, k, each, run, AT, ALONG)                                   \
    if (KN_FRAGMENT == 1) {                                                                                  \
        KN_UNROLL for (int e = 0; e < (each) / 2; e += 2) {                                                  \
            const uint4 words =                                                                              \
                *(local const uint4 *)((slice) + PLACE((side) + AT(KN_LANE, e), (k) + ALONG(KN_LANE, e)));   \
            split_pair(words.s0, words.s1, e / 2, loaded->high.word, loaded->low.word);                      \
            split_pair(words.s2, words.s3, e / 2 + (each) / 4, loaded->high.word, loaded->low.word);         \
        }                                                                                                    \
    } else if ((run) % 4 == 0) {                                                                             \
        KN_UNROLL for (int e = 0; e < (each); e += 4) {                                                      \
            const uint4 words =                                                                              \
                *(local const uint4 *)((slice) + PLACE((side) + AT(KN_LANE, e), (k) + ALONG(KN_LANE, e)));   \
            split_pair(words.s0, words.s1, e / 2, loaded->high.word, loaded->low.word);                      \
            split_pair(words.s2, words.s3, e / 2 + 1, loaded->high.word, loaded->low.word);                  \
        }                                                                                                    \
    } else {                                                                                                 \
        KN_UNROLL for (int e = 0; e < (each); e += 2)                                                        \
            split_pair((slice)[PLACE((side) + AT(KN_LANE, e), (k) + ALONG(KN_LANE, e))],                     \
                       (slice)[PLACE((side) + AT(KN_LANE, e + 1), (k) + ALONG(KN_LANE, e + 1))], e / 2,      \
                       loaded->high.word, loaded->low.word);                                                 \
    }
static inline void load_split_left(local const uint *slice, const int row, const int k, split_left *loaded) {
    KN_LOAD_SPLIT(loaded, slice, KN_LEFT_PLACE, row, k, KN_LEFT_EACH, KN_LEFT_RUN, KN_LEFT_AT, KN_LEFT_DEPTH)
}
static inline void load_split_right(local const uint *slice, const int column, const int k, split_right *loaded) {
    KN_LOAD_SPLIT(loaded, slice, KN_RIGHT_PLACE, column, k, KN_RIGHT_EACH, KN_RIGHT_RUN, KN_RIGHT_AT, KN_RIGHT_DEPTH)
}
#endif
#else
/* `run` adjacent elements of a lane starting at `first`; two 16-bit elements per word. */
#if KN_FORMAT == 3
static inline void load_run(local const uint *from, const int first, const int run, uint *word) {
    KN_UNROLL for (int at = 0; at < run; at++) word[first + at] = from[at];
}
#else
static inline void load_run(local const ushort *from, const int first, const int run, uint *word) {
    if (run == 1) {
        word[first / 2] = first % 2 ? word[first / 2] | (uint)*from << 16 : *from;
    } else if (run == 2) {
        word[first / 2] = *(local const uint *)from;
    } else if (run == 4) {
        const uint2 words = *(local const uint2 *)from;
        word[first / 2] = words.s0;
        word[first / 2 + 1] = words.s1;
    } else {
        KN_UNROLL for (int at = 0; at < run; at += 8) {
            const uint4 words = *(local const uint4 *)(from + at);
            word[(first + at) / 2] = words.s0;
            word[(first + at) / 2 + 1] = words.s1;
            word[(first + at) / 2 + 2] = words.s2;
            word[(first + at) / 2 + 3] = words.s3;
        }
    }
}
#endif
/* This lane's elements of a tile that begins at a row, or at a column, of a slice, at `k` along it. */
#if KN_FRAGMENT >= 5 && !KN_EMULATED
static inline fragment_left load_left(local const ushort *slice, const int row, const int k) {
    local const ushort *from = slice + KN_LEFT_PLACE(row, k);
#if KN_FRAGMENT == 5
    return as_int8(intel_sub_group_block_read8((local const uint *)from));
#else
    return as_short8(intel_sub_group_block_read_us8(from));
#endif
}
static inline fragment_right load_right(local const ushort *slice, const int column, const int k) {
    return as_int8(intel_sub_group_block_read8((local const uint *)(slice + KN_RIGHT_PLACE(column, k))));
}
#else
static inline fragment_left load_left(local const KN_NUMBER *slice, const int row, const int k) {
    fragment_left loaded;
    KN_UNROLL for (int e = 0; e < KN_LEFT_EACH; e += KN_LEFT_RUN)
        load_run(slice + KN_LEFT_PLACE(row + KN_LEFT_AT(KN_LANE, e), k + KN_LEFT_DEPTH(KN_LANE, e)), e, KN_LEFT_RUN,
                 loaded.word);
    return loaded;
}
static inline fragment_right load_right(local const KN_NUMBER *slice, const int column, const int k) {
    fragment_right loaded;
    KN_UNROLL for (int e = 0; e < KN_RIGHT_EACH; e += KN_RIGHT_RUN)
        load_run(slice + KN_RIGHT_PLACE(column + KN_RIGHT_AT(KN_LANE, e), k + KN_RIGHT_DEPTH(KN_LANE, e)), e,
                 KN_RIGHT_RUN, loaded.word);
    return loaded;
}
#endif
#endif

/* sums += left * right, by all lanes of a wave together. */
#if KN_EMULATED == 2
/* The words of a fragment together, in vectors as loaded by load_run: compilers split vectors if they see that single
 * words are used. */
static inline uint4 words_used(const uint *word, const int count, const int run) {
    uint4 used = 0;
    if (run % 4 == 0) {
        KN_UNROLL for (int w = 0; w < count; w += 4) used ^= *(const uint4 *)(word + w);
    } else if (run % 2 == 0) {
        KN_UNROLL for (int w = 0; w < count; w += 2) used.lo ^= *(const uint2 *)(word + w);
    } else {
        KN_UNROLL for (int w = 0; w < count; w++) used ^= word[w];
    }
    return used;
}
#define KN_WORDS_USED(fragment, each, run)                                                                   \
    words_used(fragment.word, (each) / KN_FACTORS_IN_WORD, (run) / KN_FACTORS_IN_WORD)
static inline void multiply_add(KN_SUM_VECTOR *sums, const fragment_left left, const fragment_right right) {
    const uint4 used =
        KN_WORDS_USED(left, KN_LEFT_EACH, KN_LEFT_RUN) ^ KN_WORDS_USED(right, KN_RIGHT_EACH, KN_RIGHT_RUN);
    KN_UNROLL for (int e = 0; e < KN_SUM_EACH / 4; e++) ((KN_PASTE(KN_SUM, 4) *)sums)[e] +=
        KN_PASTE(convert_, KN_PASTE(KN_SUM, 4))(used);
}
#elif KN_EMULATED
#if KN_FORMAT == 1
#define KN_NUMBER_AT(p) vload_half(0, (local const half *)(p))
#elif KN_FORMAT == 3
#define KN_NUMBER_AT(p) as_float(*(p))
#else
#define KN_NUMBER_AT(p) as_float((uint)*(p) << 16)
#endif
#if KN_FORMAT == 5
#define KN_BYTE(is_signed, bits) ((is_signed) ? (int)(char)(bits) : (int)(uchar)(bits))
static inline int product_at(local const ushort *left, local const ushort *right) {
    return KN_BYTE(KN_SIGNED_A, *left) * KN_BYTE(KN_SIGNED_B, *right) +
           KN_BYTE(KN_SIGNED_A, *left >> 8) * KN_BYTE(KN_SIGNED_B, *right >> 8);
}
#else
#define product_at(left, right) (KN_NUMBER_AT(left) * KN_NUMBER_AT(right))
#endif
#define KN_NUMBER_OF(fragment, e) (fragment.word[(e) / KN_FACTORS_IN_WORD] >> 16 * ((e) % KN_FACTORS_IN_WORD))
static inline void multiply_add(KN_SUM_VECTOR *sums, const fragment_left left, const fragment_right right,
                                local KN_FACTOR *exchange) {
    local KN_FACTOR *rows = exchange, *columns = exchange + KN_ROWS * KN_DEPTH;
    const int lane = KN_LANE;
    for (int e = 0; e < KN_LEFT_EACH; e++)
        rows[KN_LEFT_AT(lane, e) * KN_DEPTH + KN_LEFT_DEPTH(lane, e)] = KN_NUMBER_OF(left, e);
    for (int e = 0; e < KN_RIGHT_EACH; e++)
        columns[KN_RIGHT_AT(lane, e) * KN_DEPTH + KN_RIGHT_DEPTH(lane, e)] = KN_NUMBER_OF(right, e);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = 0; e < KN_SUM_EACH; e++) {
        KN_SUM sum = ((KN_SUM *)sums)[e];
        for (int k = 0; k < KN_DEPTH; k++)
            sum += product_at(rows + KN_SUM_ROW(lane, e) * KN_DEPTH + k,
                              columns + KN_SUM_COLUMN(lane, e) * KN_DEPTH + k);
        ((KN_SUM *)sums)[e] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
#elif KN_FORMAT == 5
/* The instructions take words of four bytes instead of two 16-bit elements. If an instruction multiplies only some of a
 * lane's words, two are needed; a word has the same depths on both sides. */
#if KN_FRAGMENT == 1
#define KN_MMA_TYPE_0 ".u8"
#define KN_MMA_TYPE_1 ".s8"
#define KN_MMA                                                                                               \
    "mma.sync.aligned.m16n8k32.row.col.s32" KN_PASTE(KN_MMA_TYPE_, KN_SIGNED_A)                              \
        KN_PASTE(KN_MMA_TYPE_, KN_SIGNED_B) ".s32"
#elif KN_FRAGMENT >= 5
#define KN_DPAS_TYPE_0 u8
#define KN_DPAS_TYPE_1 i8
#define KN_DPAS_(a, b) intel_sub_group_##a##_##b##_matrix_mad_k32
#define KN_DPAS_OF(a, b) KN_DPAS_(a, b)
#define KN_DPAS KN_DPAS_OF(KN_PASTE(KN_DPAS_TYPE_, KN_SIGNED_A), KN_PASTE(KN_DPAS_TYPE_, KN_SIGNED_B))
#if KN_SIGNED_A
#define KN_DPAS_LEFT(words) words
#elif KN_FRAGMENT == 5
#define KN_DPAS_LEFT(words) as_uint8(words)
#else
#define KN_DPAS_LEFT(words) as_ushort8(words)
#endif
#if KN_SIGNED_B
#define KN_DPAS_RIGHT(words) words
#else
#define KN_DPAS_RIGHT(words) as_uint8(words)
#endif
#endif
static inline void multiply_add(KN_SUM_VECTOR *sums, const fragment_left left, const fragment_right right) {
#if KN_FRAGMENT == 1
    int s0 = sums->s0, s1 = sums->s1, s2 = sums->s2, s3 = sums->s3;
    __asm__ volatile(KN_MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(s0), "+r"(s1), "+r"(s2), "+r"(s3)
                     : "r"(left.word[0]), "r"(left.word[1]), "r"(left.word[2]), "r"(left.word[3]), "r"(right.word[0]),
                       "r"(right.word[1]));
    *sums = (int4)(s0, s1, s2, s3);
#elif KN_FRAGMENT == 2
    KN_UNROLL for (int w = 0; w < 8; w += 4) *sums = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(
        KN_SIGNED_A, (int4)(left.word[w], left.word[w + 1], left.word[w + 2], left.word[w + 3]), KN_SIGNED_B,
        (int4)(right.word[w], right.word[w + 1], right.word[w + 2], right.word[w + 3]), *sums, false);
#elif KN_FRAGMENT == 3
    KN_UNROLL for (int w = 0; w < 4; w += 2) *sums = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(
        KN_SIGNED_A, (int2)(left.word[w], left.word[w + 1]), KN_SIGNED_B, (int2)(right.word[w], right.word[w + 1]),
        *sums, false);
#elif KN_FRAGMENT == 4 && (!KN_SIGNED_A || !KN_SIGNED_B)
#error "mfma multiplies only signed bytes"
#elif KN_FRAGMENT == 4
#ifdef __gfx90a__
    KN_UNROLL for (int w = 0; w < 2; w++) *sums =
        __builtin_amdgcn_mfma_i32_16x16x16i8((int)left.word[w], (int)right.word[w], *sums, 0, 0, 0);
#else
    *sums = __builtin_amdgcn_mfma_i32_16x16x32_i8(as_long((uint2)(left.word[0], left.word[1])),
                                                  as_long((uint2)(right.word[0], right.word[1])), *sums, 0, 0, 0);
#endif
#else
    *sums = KN_DPAS(KN_DPAS_LEFT(left), KN_DPAS_RIGHT(right), *sums);
#endif
}
#elif KN_FRAGMENT == 1
#if KN_FORMAT == 1
#define KN_MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#elif KN_FORMAT == 3
#define KN_MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#else
#define KN_MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif
static inline void multiply_add(float4 *sums, const fragment_left left, const fragment_right right) {
    float s0 = sums->s0, s1 = sums->s1, s2 = sums->s2, s3 = sums->s3;
#if KN_MMA_DEPTH == 8
    KN_UNROLL for (int half_depth = 0; half_depth < 2; half_depth++)
        __asm__ volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                         "{%0, %1, %2, %3};"
                         : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)
                         : "r"(left.word[2 * half_depth]), "r"(left.word[2 * half_depth + 1]),
                           "r"(right.word[half_depth]));
#else
    __asm__ volatile(KN_MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)
                     : "r"(left.word[0]), "r"(left.word[1]), "r"(left.word[2]), "r"(left.word[3]), "r"(right.word[0]),
                       "r"(right.word[1]));
#endif
    *sums = (float4)(s0, s1, s2, s3);
}
#else
#if KN_FORMAT == 1
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define KN_AS_NUMBERS(n, words) KN_PASTE(as_half, n)(words)
#define KN_BY_TYPE(half_name, bfloat_name) half_name
#else
#define KN_AS_NUMBERS(n, words) KN_PASTE(as_short, n)(words)
#define KN_BY_TYPE(half_name, bfloat_name) bfloat_name
#endif
#define KN_WORDS_2(w) ((uint2)(w[0], w[1]))
#define KN_WORDS_4(w) ((uint4)(w[0], w[1], w[2], w[3]))
#define KN_WORDS_8(w) ((uint8)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]))
static inline void multiply_add(KN_SUM_VECTOR *sums, const fragment_left left, const fragment_right right) {
#if KN_FRAGMENT == 2
    *sums = KN_BY_TYPE(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32)(
        KN_AS_NUMBERS(16, KN_WORDS_8(left.word)), KN_AS_NUMBERS(16, KN_WORDS_8(right.word)), *sums);
#elif KN_FRAGMENT == 3
    *sums = KN_BY_TYPE(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12,
                       __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12)(
        KN_AS_NUMBERS(8, KN_WORDS_4(left.word)), KN_AS_NUMBERS(8, KN_WORDS_4(right.word)), *sums);
#elif KN_FRAGMENT == 4
    *sums = KN_BY_TYPE(__builtin_amdgcn_mfma_f32_16x16x16f16, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k)(
        KN_AS_NUMBERS(4, KN_WORDS_2(left.word)), KN_AS_NUMBERS(4, KN_WORDS_2(right.word)), *sums, 0, 0, 0);
#else
    *sums = KN_BY_TYPE(intel_sub_group_f16_f16_matrix_mad_k16, intel_sub_group_bf16_bf16_matrix_mad_k16)(left, right,
                                                                                                         *sums);
#endif
}
#endif

/* ---- the sums of a wave ------------------------------------------------------------------------------- */

typedef struct sums {
    KN_SUM_VECTOR at[KN_TILES_M][KN_TILES_N];
} sums;

static inline void sums_clear(sums *sums) {
    KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
        KN_UNROLL_TILES for (int j = 0; j < KN_TILES_N; j++) sums->at[i][j] = 0;
}

/* The rows of left times the columns of right, KN_TILE_K deep; slices of KN_SLICES. */
#define sums_add(sums, left, right) sums_add_tiles(sums, left, right KN_EXCHANGE)
static inline void sums_add_tiles(sums *sums, local const KN_NUMBER *left,
                                  local const KN_NUMBER *right KN_EXCHANGE_PARAMETER) {
    const int row0 = KN_WAVE / KN_WAVES_N * KN_WAVE_M, column0 = KN_WAVE % KN_WAVES_N * KN_WAVE_N;
    KN_UNROLL_TILES for (int k = 0; k < KN_TILE_K; k += KN_DEPTH) {
#if KN_FORMAT == 4
        /* The small products first. */
        split_left rows[KN_TILES_M];
        KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
            load_split_left(left, row0 + i * KN_ROWS, k, &rows[i]);
        KN_UNROLL_TILES for (int j = 0; j < KN_TILES_N; j++) {
            split_right columns;
            load_split_right(right, column0 + j * KN_COLUMNS, k, &columns);
            KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
                multiply_add(&sums->at[i][j], rows[i].low, columns.high KN_EXCHANGE_PASSED);
            KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
                multiply_add(&sums->at[i][j], rows[i].high, columns.low KN_EXCHANGE_PASSED);
            KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
                multiply_add(&sums->at[i][j], rows[i].high, columns.high KN_EXCHANGE_PASSED);
        }
#else
        fragment_left rows[KN_TILES_M];
        fragment_right columns[KN_TILES_N];
        KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++) rows[i] = load_left(left, row0 + i * KN_ROWS, k);
        KN_UNROLL_TILES for (int j = 0; j < KN_TILES_N; j++) columns[j] =
            load_right(right, column0 + j * KN_COLUMNS, k);
        KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
            KN_UNROLL_TILES for (int j = 0; j < KN_TILES_N; j++)
                multiply_add(&sums->at[i][j], rows[i], columns[j] KN_EXCHANGE_PASSED);
#endif
    }
}

/* Row i of each wave's tiles goes into the stage. Row r of the stage is row KN_STAGED_ROW(i, r) of the work-group's
 * tile. */
#define KN_STAGED_ROW(i, r) ((r) / KN_ROWS * KN_WAVE_M + (i) * KN_ROWS + (r) % KN_ROWS)
static inline void sums_stage(const sums *sums, const int i, local KN_A *stage) {
    stage += KN_WAVE / KN_WAVES_N * KN_ROWS * KN_STAGE_ROW + KN_WAVE % KN_WAVES_N * KN_WAVE_N;
#define KN_STAGED(j, e)                                                                                      \
    (stage + KN_STAGE_LINE(KN_SUM_ROW(KN_LANE, e)) * KN_STAGE_ROW + (j) * KN_COLUMNS + KN_SUM_COLUMN(KN_LANE, e))
    KN_UNROLL_TILES for (int j = 0; j < KN_TILES_N; j++) {
        const KN_SUM *each = (const KN_SUM *)&sums->at[i][j];
#if KN_FRAGMENT == 1
        KN_UNROLL for (int e = 0; e < KN_SUM_EACH; e += 2) *(local KN_PASTE(KN_A, 2) *)KN_STAGED(j, e) =
            (KN_PASTE(KN_A, 2))(each[e], each[e + 1]);
#else
        KN_UNROLL for (int e = 0; e < KN_SUM_EACH; e++) *KN_STAGED(j, e) = each[e];
#endif
    }
}
#include "common/fragment_pieces.cl"
#endif
