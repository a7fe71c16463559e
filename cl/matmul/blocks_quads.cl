/* Products of few rows, rounded to 8 bits in groups of 32 (common/activations.cl), with weights in quantized blocks, for
 * CPUs that multiply bytes four at a time: C(M,N) = A(M,K) · Wᵀ, float32.
 *
 * A work-item rounds its rows of A and puts the codes into local memory in the order in which those of weights are
 * extracted (matmul/block_units.cl). Sums of products of codes are exact.
 *
 * Defines, with their defaults:
 *   KN_BLOCKS 8          the type of the blocks (matmul/block_units.cl)
 *   KN_ROWS 1            rows that are computed together
 *   KN_COLUMNS 2         columns that are computed together
 *   KN_UNITS 8           local memory for rows of as many units, each of 128 or 256 weights
 *   KN_EMULATED          common/quads.cl
 *   KN_HALF_a, KN_HALF_c 0   whether a and c have 16 bits in memory (common/storage.cl)
 * and those of common/epilogue.cl, which sees (row / middle, row % middle, column); EPILOGUE is its operands.
 *
 * a is (M,K), codes the blocks of W (N,K), arranged, of which each row has `blocks`, c (M,N).
 *
 * kn_matmul_blocks_quads(a, codes, c, m, n, k, blocks, middle, item_columns, EPILOGUE)
 *   work-groups of (1,1,1), numbering ceil(n / item_columns)
 * kn_matmul_blocks_quads_joint: several such products (common/joint.cl) */
#include "common/activations.cl"
#include "common/epilogue.cl"
#include "common/joint.cl"
#include "common/types.cl"
#include "matmul/block_units.cl"
#include "matmul/few_rows.cl"
#ifndef KN_ROWS
#define KN_ROWS 1
#endif
#ifndef KN_COLUMNS
#define KN_COLUMNS 2
#endif
#ifndef KN_UNITS
#define KN_UNITS 8
#endif
#define KN_SUMS (KN_ROWS * KN_COLUMNS)
typedef KN_STORED(KN_HALF_a) a_stored;
typedef KN_STORED(KN_HALF_c) c_stored;

/* ---- activations ---------------------------------------------------------------------------------------- */

/* The codes of a row, (units,KN_UNIT); the scale of each lane, (units,KN_PARTS,16); with KN_MINS, sums of rounded
 * activations, (units,8), in the order of `mins`. */
static inline void round_row(global const a_stored *row, const int k, const int units, local int *codes,
                             local float *scales, local float *sums) {
    for (int group = 0; group < units * (KN_UNIT / 32); group++) {
        const int u = group / (KN_UNIT / 32), own = group % (KN_UNIT / 32);
        float16 lo = 0.0f, hi = 0.0f;
        if (32 * group < k) {
            lo = KN_READ_16_AS(KN_HALF_a, row + 32 * group);
            hi = KN_READ_16_AS(KN_HALF_a, row + 32 * group + 16);
        }
        const float2 of = kn_round_scales(lo, hi);
        const char16 first = convert_char16(convert_int16(rint(lo * of.y))), second = convert_char16(convert_int16(rint(hi * of.y)));
        const int places[2] = {KN_PLACE(2 * own), KN_PLACE(2 * own + 1)};
        vstore4(as_int4(first), u * 4 * KN_CODES + places[0], codes);
        vstore4(as_int4(second), u * 4 * KN_CODES + places[1], codes);
        vstore4((float4)(of.x), u * 4 * KN_PARTS + places[0], scales);
        if (KN_PARTS > 1) vstore4((float4)(of.x), u * 4 * KN_PARTS + places[1], scales);
#if KN_MINS
        const float sum = of.x * (float)(kn_sum_codes(first) + kn_sum_codes(second));
#if KN_BLOCKS == KN_Q4_1
        sums[8 * u + 2 * own] = 0.0f;
        sums[8 * u + 2 * own + 1] = sum;
#else
        sums[8 * u + own] = sum;
#endif
#endif
    }
}

/* ---- the product ---------------------------------------------------------------------------------------- */

static inline float sum_of(const float16 sums) {
    const float8 eight = sums.lo + sums.hi;
    const float4 four = eight.lo + eight.hi;
    return (four.s0 + four.s2) + (four.s1 + four.s3);
}
/* Adds the products of unit u to sums and extras (KN_ROWS,KN_COLUMNS). Columns beyond the last repeat it. */
#define KN_ADD_UNIT(u, left)                                                                                 \
    {                                                                                                        \
        int16 lefts[KN_ROWS * KN_CODES], less[KN_ROWS * KN_PARTS];                                         \
        KN_UNROLL for (int i = 0; i < KN_ROWS * KN_PARTS; i++) less[i] = 0;                                  \
        KN_UNROLL for (int i = 0; i < KN_ROWS * KN_CODES; i++) {                                           \
            const int r = i / KN_CODES, v = i % KN_CODES;                                                \
            lefts[i] = vload16((r * KN_UNITS + (u)) * KN_CODES + v, lefts_of);                             \
            if (KN_ZERO)                                                                                     \
                less[r * KN_PARTS + KN_PART(v)] =                                                            \
                    kn_add_quads(less[r * KN_PARTS + KN_PART(v)], lefts[i], (int16)(KN_ZERO * 0x01010101u)); \
        }                                                                                                    \
        KN_UNROLL for (int j = 0; j < KN_COLUMNS; j++) {                                                     \
            const KN_INDEX column = min(column0 + j, n - 1);                                                 \
            const unit w = unit_at(codes, total, column * blocks + (u)*KN_UNIT_BLOCKS, left);                \
            KN_UNROLL for (int r = 0; r < KN_ROWS; r++) {                                                    \
                int16 dots[KN_PARTS];                                                                        \
                KN_UNROLL for (int p = 0; p < KN_PARTS; p++) dots[p] = -less[r * KN_PARTS + p];              \
                KN_UNROLL for (int v = 0; v < KN_CODES; v++)                                               \
                    dots[KN_PART(v)] = kn_add_quads(dots[KN_PART(v)], lefts[r * KN_CODES + v], w.codes[v]); \
                KN_UNROLL for (int p = 0; p < KN_PARTS; p++)                                                 \
                    sums[r * KN_COLUMNS + j] +=                                                              \
                        convert_float16(dots[p]) *                                                           \
                        (w.scales[p] * vload16((r * KN_UNITS + (u)) * KN_PARTS + p, scales_of));             \
                if (KN_MINS) extras[r * KN_COLUMNS + j] += w.mins * vload8(r * KN_UNITS + (u), sums_of);     \
            }                                                                                                \
        }                                                                                                    \
    }

__attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float16)))
#ifdef KN_JOINT_kn_matmul_blocks_quads
kernel void kn_matmul_blocks_quads_joint(KN_JOINT_PARAMETERS) {
    KN_JOINT_SELECT
#else
kernel void kn_matmul_blocks_quads(global const a_stored *restrict a, global const uchar *restrict codes,
                                   global c_stored *restrict c, int m, int n, int k, int blocks, int middle,
                                   int item_columns KN_EPILOGUE_PARAMETERS) {
#endif
    local int lefts_of[KN_ROWS * KN_UNITS * KN_UNIT / 4];
    local float scales_of[KN_ROWS * KN_UNITS * KN_PARTS * 16];
    local float sums_of[KN_MINS ? KN_ROWS * KN_UNITS * 8 : 8];
    const int first = (int)get_global_id(0) * item_columns, end = min(first + item_columns, n);
    const int whole = blocks / KN_UNIT_BLOCKS, left_blocks = blocks % KN_UNIT_BLOCKS;
    const KN_INDEX total = (KN_INDEX)n * blocks;
    for (int row0 = 0; row0 < m; row0 += KN_ROWS) {
        for (int r = 0; r < KN_ROWS; r++)
            round_row(a + (KN_INDEX)min(row0 + r, m - 1) * k, k, whole + (left_blocks > 0),
                      lefts_of + r * KN_UNITS * KN_UNIT / 4, scales_of + r * KN_UNITS * KN_PARTS * 16,
                      sums_of + (KN_MINS ? r * KN_UNITS * 8 : 0));
        for (int column0 = first; column0 < end; column0 += KN_COLUMNS) {
            float16 sums[KN_SUMS];
            float8 extras[KN_SUMS];
            KN_UNROLL for (int i = 0; i < KN_SUMS; i++) {
                sums[i] = 0.0f;
                extras[i] = 0.0f;
            }
            for (int u = 0; u < whole; u++)
                KN_ADD_UNIT(u, KN_UNIT_BLOCKS)
            if (KN_UNIT_BLOCKS > 1 && left_blocks) KN_ADD_UNIT(whole, left_blocks)
            KN_UNROLL for (int i = 0; i < KN_SUMS; i++) {
                const int row = row0 + i / KN_COLUMNS, column = column0 + i % KN_COLUMNS;
                const float8 extra = extras[i];
                if (row < m && column < end)
                    KN_STORE_RESULT(sum_of(sums[i] + (float16)(extra, (float8)(0.0f))), row, column)
            }
        }
    }
}
