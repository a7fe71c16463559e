/* Matrix products with quantized weights, for few rows: C(M,N) = A(M,K) · Wᵀ, float32. Weight (n, k) is the value of
 * code (n, k) minus a zero point, times a scale, which `KN_BLOCK` codes of a row share. Codes are read once and
 * dequantized in registers.
 *
 * Defines, with their defaults:
 *   KN_BITS 8            bits of a code: 8, 4 or 2; several in a byte begin with the lowest bits
 *   KN_SIGNED 0          1: codes of 8 bits are int8
 *   KN_CODE_FACTS        the constants of the 8-bit float type of codes (common/small_float.cl); not defined: integers
 *   KN_ZEROS 1           0: there are no zero points
 *   KN_USUAL_ZERO 0.0f   the zero point if there are none
 *   KN_BLOCK 0           codes that share a scale and a zero point; 0: all of a row. In all kernels but the plain one a
 *                        multiple of 16
 *   KN_WHOLE 0           1: k and row_bytes are multiples of 16, so that vectors are aligned, and rows are whole pieces
 *   KN_ROWS 1            rows that are computed together
 *   KN_ITEMS 64          work-items of a work-group, a power of two
 *   KN_WIDTH 16          elements of a vector: 16, or 4 for kn_matmul_quantized
 *   KN_HALF_a, KN_HALF_c 0   whether a and c have 16 bits in memory (common/storage.cl)
 * and those of common/epilogue.cl, which sees (row / middle, row % middle, column); EPILOGUE is its operands.
 *
 * a is (M,K), codes (N,row_bytes), scale and zero, which may be absent, (N,blocks), c (M,N).
 *
 * kn_matmul_quantized(a, codes, scale, zero, c, present, m, n, k, row_bytes, blocks, middle, EPILOGUE)
 *   work-groups of (KN_ITEMS,1,1), numbering (ceil(n / KN_COLUMNS), ceil(m / KN_ROWS)); work-items share a row of codes
 * kn_matmul_quantized_wide(a, codes, scale, zero, c, present, m, n, k, row_bytes, blocks, middle,
 *                          item_columns, EPILOGUE)
 *   work-groups of (1,1,1), numbering ceil(n / item_columns)
 * kn_matmul_quantized_plain(a, codes, scale, zero, c, present, count, n, k, row_bytes, blocks)
 *   a work-item per result, `count` in total */
#include "common/present.cl"
#include "common/wanted.cl"
#ifndef KN_WIDTH
#define KN_WIDTH 16
#endif
#include "common/epilogue.cl"
#include "common/prefetch.cl"
#include "common/small_float.cl"
#include "common/types.cl"
#include "common/unroll.cl"
#include "matmul/few_rows.cl"

#ifndef KN_BITS
#define KN_BITS 8
#endif
#ifndef KN_SIGNED
#define KN_SIGNED 0
#endif
#ifndef KN_ZEROS
#define KN_ZEROS 1
#endif
#ifndef KN_USUAL_ZERO
#define KN_USUAL_ZERO 0.0f
#endif
#ifndef KN_BLOCK
#define KN_BLOCK 0
#endif
#ifndef KN_WHOLE
#define KN_WHOLE 0
#endif
#ifndef KN_ROWS
#define KN_ROWS 1
#endif
#ifndef KN_ITEMS
#define KN_ITEMS 64
#endif
/* Columns that are computed together: fewer for several rows, to save registers. */
#define KN_COLUMNS (KN_ROWS == 1 ? 4 : 2)
#define KN_SUMS (KN_ROWS * KN_COLUMNS)
#define KN_PIECE 16
typedef KN_STORED(KN_HALF_a) a_stored;
typedef KN_STORED(KN_HALF_c) c_stored;
enum { kn_at_zero = 3 };

/* The value of code `k` of a row. */
static inline float number_at(global const uchar *row, const int k) {
#if KN_BITS < 8
    return (float)(row[k / (8 / KN_BITS)] >> k % (8 / KN_BITS) * KN_BITS & ((1 << KN_BITS) - 1));
#elif defined(KN_CODE_FACTS)
    return kn_from_small(row[k], KN_CODE_FACTS);
#elif KN_SIGNED
    return (float)as_char(row[k]);
#else
    return (float)row[k];
#endif
}

#if KN_WANTED(kn_matmul_quantized) || KN_WANTED(kn_matmul_quantized_wide)
/* 16 values are computed together, in the order in which codes are extracted from their bytes: the lowest bits of all
 * bytes, then the next. KN_FOUR_n is the n-th four of this order, of two halves of 16 values. */
typedef struct halves {
    float8 lo, hi;
} halves;
#if KN_BITS == 2
#define KN_FOUR_0(v) (float4)((v).lo.s04, (v).hi.s04)
#define KN_FOUR_1(v) (float4)((v).lo.s15, (v).hi.s15)
#define KN_FOUR_2(v) (float4)((v).lo.s26, (v).hi.s26)
#define KN_FOUR_3(v) (float4)((v).lo.s37, (v).hi.s37)
#elif KN_BITS == 4
#define KN_FOUR_0(v) (v).lo.s0246
#define KN_FOUR_1(v) (v).hi.s0246
#define KN_FOUR_2(v) (v).lo.s1357
#define KN_FOUR_3(v) (v).hi.s1357
#endif
/* They are vectors of KN_WIDTH in this order, which KN_OF_FOURS and KN_OF_HALVES initialize. */
#define KN_PARTS (16 / KN_WIDTH)
#define KN_EACH_PART(i) KN_UNROLL for (int i = 0; i < KN_PARTS; i++)
typedef struct sixteen {
    KN_FLOATS part[KN_PARTS];
} sixteen;
#if KN_WIDTH == 16
#define KN_OF_FOURS(type, a, b, c, d) {(type##16)(a, b, c, d)}
#define KN_OF_HALVES(type, a, b) {(type##16)(a, b)}
#else
#define KN_OF_FOURS(type, a, b, c, d) {a, b, c, d}
#define KN_OF_HALVES(type, a, b) {(a).lo, (a).hi, (b).lo, (b).hi}
#endif

#if KN_WHOLE
#define KN_BYTES(n, p) (*(global const uchar##n *)(p))
#define KN_LEFTS(at, p) KN_READ_8_AS(KN_HALF_a, (p) + at * 8)
#else
#define KN_BYTES(n, p) vload##n(0, p)
#define KN_LEFTS(at, p) KN_READ_N_AS(8, KN_HALF_a, at, p)
#endif

static inline sixteen in_order(const halves numbers) {
#if KN_BITS < 8
    const sixteen ordered = {
        KN_OF_FOURS(float, KN_FOUR_0(numbers), KN_FOUR_1(numbers), KN_FOUR_2(numbers), KN_FOUR_3(numbers))};
#else
    const sixteen ordered = {KN_OF_HALVES(float, numbers.lo, numbers.hi)};
#endif
    return ordered;
}

/* The values of 16 codes starting at `k`, a multiple of 16. */
static inline sixteen numbers_at(global const uchar *row, const int k) {
#if KN_BITS == 2
    const uint4 bytes = convert_uint4(KN_BYTES(4, row + k / 4));
    const KN_CODES codes[] = KN_OF_FOURS(uint, bytes & 3u, bytes >> 2u & 3u, bytes >> 4u & 3u, bytes >> 6u);
#elif KN_BITS == 4
    const uint8 bytes = convert_uint8(KN_BYTES(8, row + k / 2));
    const KN_CODES codes[] = KN_OF_HALVES(uint, bytes & 15u, bytes >> 4u);
#elif KN_WHOLE && KN_WIDTH == 16
    const uchar16 codes[] = {*(global const uchar16 *)(row + k)};
#elif KN_WHOLE
    const uint4 fours = *(global const uint4 *)(row + k);
    const uchar4 codes[] = {as_uchar4(fours.s0), as_uchar4(fours.s1), as_uchar4(fours.s2), as_uchar4(fours.s3)};
#else
    const KN_PASTE(uchar, KN_WIDTH) codes[] = KN_OF_HALVES(uchar, vload8(0, row + k), vload8(1, row + k));
#endif
    sixteen numbers;
    KN_EACH_PART(i)
#ifdef KN_CODE_FACTS
        numbers.part[i] = kn_from_small_vector(KN_PASTE(convert_uint, KN_WIDTH)(codes[i]), KN_CODE_FACTS);
#elif KN_SIGNED
        numbers.part[i] = KN_PASTE(convert_float, KN_WIDTH)(KN_PASTE(as_char, KN_WIDTH)(codes[i]));
#else
        numbers.part[i] = KN_PASTE(convert_float, KN_WIDTH)(codes[i]);
#endif
    return numbers;
}
#endif

#define KN_ZERO_OF(i) (KN_ZEROS && KN_PRESENT(zero) ? zero[i] : KN_USUAL_ZERO)
#define KN_BLOCK_OF(k) (KN_BLOCK > 0 ? (k) / (KN_BLOCK > 0 ? KN_BLOCK : 1) : 0)

#if KN_WANTED(kn_matmul_quantized) || KN_WANTED(kn_matmul_quantized_wide)
/* 16 weights of a row starting at `k`; only `left` of them exist, the others are 0. */
static inline sixteen weights_at(global const uchar *row, const float scale, const float zero, const int k,
                                 const int left) {
    sixteen weights = numbers_at(row, k);
    KN_EACH_PART(i) weights.part[i] = (weights.part[i] - zero) * scale;
    return weights;
}
static inline sixteen last_weights_at(global const uchar *row, const float scale, const float zero, const int k,
                                      const int left) {
    float part[KN_PIECE];
    for (int i = 0; i < KN_PIECE; i++)
        part[i] = i < left ? (number_at(row, k + i) - zero) * scale : 0.0f;
    const halves weights = {vload8(0, part), vload8(1, part)};
    return in_order(weights);
}

/* The elements of a row of a that are multiplied by them. */
static inline sixteen lefts_at(global const a_stored *row, const int left) {
    const halves lefts = {KN_LEFTS(0, row), KN_LEFTS(1, row)};
    return in_order(lefts);
}
static inline sixteen last_lefts_at(global const a_stored *row, const int left) {
    float part[KN_PIECE];
    for (int i = 0; i < KN_PIECE; i++)
        part[i] = i < left ? (float)KN_READ_AS(KN_HALF_a, row + i) : 0.0f;
    const halves lefts = {vload8(0, part), vload8(1, part)};
    return in_order(lefts);
}

/* Adds to sums (KN_ROWS,KN_COLUMNS) the products of the piece starting at `at`. Rows and columns beyond the last repeat
 * it. */
#define KN_ADD_PIECE(lefts_of, weights_of, ahead)                                                            \
    {                                                                                                        \
        sixteen lefts[KN_ROWS];                                                                              \
        KN_UNROLL for (int r = 0; r < KN_ROWS; r++)                                                          \
            lefts[r] = lefts_of(a + (KN_INDEX)min(row0 + r, m - 1) * k + at, k - at);                        \
        KN_UNROLL for (int j = 0; j < KN_COLUMNS; j++) {                                                     \
            const KN_INDEX column = min(column0 + j, n - 1), shared = column * blocks + KN_BLOCK_OF(at);     \
            const float less = KN_ZERO_OF(shared);                                                           \
            const sixteen weights = weights_of(codes + column * row_bytes, scale[shared], less, at, k - at); \
            ahead(codes + (column + KN_COLUMNS) * row_bytes + at * KN_BITS / 8)                              \
            KN_UNROLL for (int r = 0; r < KN_ROWS; r++)                                                      \
                KN_EACH_PART(i) sums[r * KN_COLUMNS + j] += lefts[r].part[i] * weights.part[i];              \
        }                                                                                                    \
    }
/* The pieces starting at `start`, `step` elements apart. `ahead` prefetches the next columns, or nothing: rows have so
 * few bytes that hardware prefetching is too late. */
#define KN_NOT_AHEAD(pointer)
#define KN_ADD_PIECES(start, step, ahead)                                                                    \
    int at = (start);                                                                                        \
    for (; at + KN_PIECE <= k; at += (step))                                                                 \
        KN_ADD_PIECE(lefts_at, weights_at, ahead)                                                            \
    if (!KN_WHOLE && at < k) KN_ADD_PIECE(last_lefts_at, last_weights_at, ahead)
static inline float sum_of(const KN_FLOATS sums) {
#if KN_WIDTH == 16
    const float8 eight = sums.lo + sums.hi;
    const float4 four = eight.lo + eight.hi;
#else
    const float4 four = sums;
#endif
    return (four.s0 + four.s2) + (four.s1 + four.s3);
}
#endif

#if KN_WANTED(kn_matmul_quantized)
__attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))
kernel void kn_matmul_quantized(global const a_stored *restrict a, global const uchar *restrict codes,
                                global const float *restrict scale, global const float *restrict zero,
                                global c_stored *restrict c, uint present, int m, int n, int k, KN_INDEX row_bytes,
                                int blocks, int middle KN_EPILOGUE_PARAMETERS) {
    local float tree[KN_SUMS * KN_ITEMS];
    const int item = get_local_id(0);
    const int column0 = KN_GROUP(0, KN_ITEMS) * KN_COLUMNS, row0 = KN_GROUP(1, 1) * KN_ROWS;
    KN_FLOATS sums[KN_SUMS];
    KN_UNROLL for (int i = 0; i < KN_SUMS; i++) sums[i] = 0.0f;
    KN_ADD_PIECES(KN_PIECE * item, KN_PIECE * KN_ITEMS, KN_NOT_AHEAD)
    KN_STORE_SUMS(sums)
}
#endif

#if KN_WANTED(kn_matmul_quantized_wide)
__attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float16)))
kernel void kn_matmul_quantized_wide(global const a_stored *restrict a, global const uchar *restrict codes,
                                     global const float *restrict scale, global const float *restrict zero,
                                     global c_stored *restrict c, uint present, int m, int n, int k,
                                     KN_INDEX row_bytes, int blocks, int middle, int item_columns KN_EPILOGUE_PARAMETERS) {
    const int first = (int)get_global_id(0) * item_columns, end = min(first + item_columns, n);
    for (int column0 = first; column0 < end; column0 += KN_COLUMNS)
        for (int row0 = 0; row0 < m; row0 += KN_ROWS) {
            KN_FLOATS sums[KN_SUMS];
            KN_UNROLL for (int i = 0; i < KN_SUMS; i++) sums[i] = 0.0f;
            KN_ADD_PIECES(0, KN_PIECE, KN_PREFETCH)
            KN_UNROLL for (int i = 0; i < KN_SUMS; i++) {
                const int row = row0 + i / KN_COLUMNS, column = column0 + i % KN_COLUMNS;
                if (row < m && column < end) KN_STORE_RESULT(sum_of(sums[i]), row, column)
            }
        }
}
#endif

#if KN_WANTED(kn_matmul_quantized_plain)
kernel void kn_matmul_quantized_plain(global const a_stored *restrict a, global const uchar *restrict codes,
                                      global const float *restrict scale, global const float *restrict zero,
                                      global c_stored *restrict c, uint present, KN_INDEX count, int n, int k,
                                      KN_INDEX row_bytes, int blocks) {
    const KN_INDEX i = get_global_id(0);
    if (i >= count) return;
    const KN_INDEX column = i % n, row = i / n;
    float sum = 0.0f;
    for (int block = 0; block < blocks; block++) {
        const KN_INDEX shared = column * blocks + block;
        const float less = KN_ZERO_OF(shared);
        const int end = KN_BLOCK > 0 ? min(k, (block + 1) * KN_BLOCK) : k;
        float part = 0.0f;
        for (int at = block * KN_BLOCK; at < end; at++)
            part += (float)KN_READ_AS(KN_HALF_a, a + row * k + at) * (number_at(codes + column * row_bytes, at) - less);
        sum += part * scale[shared];
    }
    KN_WRITE_AS(KN_HALF_c, sum, c + i);
}
#endif
