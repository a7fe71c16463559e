/* Products of many rows, rounded to 8 bits in groups of 32 (common/activations.cl), with weights in quantized blocks, for
 * CPUs that multiply bytes four at a time: C(M,N) = A(M,K) · Wᵀ, float32. Each work-item extracts the codes of panels of
 * KN_COLUMNS columns into local memory, with the columns in lanes.
 *
 * Defines, with their defaults:
 *   KN_BLOCKS 8          the type of the blocks (matmul/block_units.cl)
 *   KN_UNITS 8           local memory for columns of as many units
 *   KN_EMULATED          common/quads.cl
 *   KN_HALF_a, KN_HALF_c 0   whether a and c have 16 bits in memory (common/storage.cl)
 * and those of common/epilogue.cl, which sees (row / middle, row % middle, column); EPILOGUE is its operands.
 *
 * a is (M,K), codes the blocks of W (N,K), arranged, of which each row has `blocks`, c (M,N).
 *
 * kn_round_rows(a, lefts, facts, count, chunk)
 *   a has `count` groups of 32, of which a work-item rounds `chunk`. lefts is (M,K) int8; facts (M,K / KN_SHARED,4): scale,
 *   -KN_ZERO times the sum of the codes (int), scale times their sum
 * kn_matmul_blocks_panels(lefts, facts, codes, c, m, n, k, blocks, middle, item_rows, item_panels, EPILOGUE)
 *   work-groups of (1,1,1), numbering (ceil(m / item_rows), ceil(panels / item_panels)) */
#ifndef KN_WIDTH
#define KN_WIDTH 16
#endif
#ifndef KN_VECTORS
#define KN_VECTORS 2
#endif
#include "common/activations.cl"
#include "common/types.cl"
#include "common/vector.cl"
#include "common/wanted.cl"
#include "matmul/block_units.cl"
#include "matmul/wide_finish.cl"
#ifndef KN_UNITS
#define KN_UNITS 8
#endif
/* Codes along k that share a scale. */
#define KN_SHARED (KN_BLOCKS == KN_Q6_K ? 16 : 32)
#define KN_ROWS 6

#if KN_WANTED(kn_round_rows)
static inline float4 facts_of(const float scale, const int sum) {
    return (float4)(scale, as_float(-KN_ZERO * sum), scale * (float)sum, 0.0f);
}
kernel void kn_round_rows(global const a_stored *restrict a, global char *restrict lefts, global float *restrict facts,
                          const KN_INDEX count, const KN_INDEX chunk) {
    const KN_INDEX begin = get_global_id(0) * chunk, end = min(begin + chunk, count);
    for (KN_INDEX i = begin; i < end; i++) {
        const float16 lo = KN_READ_16_AS(KN_HALF_a, a + 32 * i), hi = KN_READ_16_AS(KN_HALF_a, a + 32 * i + 16);
        const float2 of = kn_round_scales(lo, hi);
        const char16 first = convert_char16(convert_int16(rint(lo * of.y))), second = convert_char16(convert_int16(rint(hi * of.y)));
        vstore4(as_int4(first), 2 * i, (global int *)lefts);
        vstore4(as_int4(second), 2 * i + 1, (global int *)lefts);
        if (KN_SHARED == 32) {
            vstore4(facts_of(of.x, kn_sum_codes(first) + kn_sum_codes(second)), i, facts);
        } else {
            vstore4(facts_of(of.x, kn_sum_codes(first)), 2 * i, facts);
            vstore4(facts_of(of.x, kn_sum_codes(second)), 2 * i + 1, facts);
        }
    }
}
#endif

#if KN_WANTED(kn_matmul_blocks_panels)
/* ---- panels --------------------------------------------------------------------------------------------- */

/* Column `lane` of a panel: quads (k / 4,KN_COLUMNS), and scales and offsets (k / KN_SHARED,KN_COLUMNS). */
static inline __attribute__((always_inline)) void put_unit(const unit w, const int first, const int k,
                                                           local int *quads, local float *scales,
                                                           local float *mins) {
    int codes[16 * KN_CODES];
    float of[16 * KN_PARTS], offsets[8];
    for (int v = 0; v < KN_CODES; v++)
        vstore16(w.codes[v], v, codes);
    for (int p = 0; p < KN_PARTS; p++)
        vstore16(w.scales[p], p, of);
    vstore8(w.mins, 0, offsets);
    KN_UNROLL for (int g = 0; g < KN_UNIT / 16; g++) {
        const int place = KN_PLACE(g), at = first + 16 * g;
        if (at >= k) break;
        for (int i = 0; i < 4; i++)
            quads[(at / 4 + i) * KN_COLUMNS] = codes[4 * place + i];
        if (16 * g % KN_SHARED == 0) {
            scales[at / KN_SHARED * KN_COLUMNS] = of[4 * (KN_PARTS == 1 ? place % 4 : place)];
            if (KN_MINS) mins[at / KN_SHARED * KN_COLUMNS] = offsets[KN_BLOCKS == KN_Q4_1 ? g + 1 : g / 2];
        }
    }
}

static inline void put_column(global const uchar *codes, const KN_INDEX total, const KN_INDEX column, const int blocks,
                              const int k, local int *quads, local float *scales, local float *mins) {
    const int whole = blocks / KN_UNIT_BLOCKS, left = blocks % KN_UNIT_BLOCKS;
    const KN_INDEX block = column * blocks;
    for (int u = 0; u < whole; u++)
        put_unit(unit_at(codes, total, block + u * KN_UNIT_BLOCKS, KN_UNIT_BLOCKS), u * KN_UNIT, k, quads, scales, mins);
    if (KN_UNIT_BLOCKS > 1 && left)
        put_unit(unit_at(codes, total, block + whole * KN_UNIT_BLOCKS, left), whole * KN_UNIT, k, quads, scales, mins);
}

/* ---- the product ---------------------------------------------------------------------------------------- */

#define KN_START_VECTOR(row, v) vector sum##row##_##v = 0.0f;
#define KN_START(row)                                                                                        \
    global const int *a##row = lefts + min(row, rows - 1) * (KN_INDEX)(k / 4);                               \
    global const float *f##row = facts + min(row, rows - 1) * (KN_INDEX)(k / KN_SHARED) * 4;                  \
    KN_EACH(KN_START_VECTOR, row)
#define KN_BEGIN_VECTOR(row, v) int16 dot##row##_##v = as_int(f##row[1]);
#define KN_BEGIN(row) KN_EACH(KN_BEGIN_VECTOR, row)
#define KN_RIGHT(row, v) const int16 right##v = vload16(v, quads);
#define KN_ADD_VECTOR(row, v) dot##row##_##v = kn_add_quads(dot##row##_##v, left, right##v);
#define KN_ADD(row)                                                                                          \
    {                                                                                                        \
        const int16 left = *a##row++;                                                                        \
        KN_EACH(KN_ADD_VECTOR, row)                                                                          \
    }
#define KN_SCALE(row, v) const vector scale##v = vload16(v, scales);
#define KN_OFFSET(row, v) const vector offset##v = vload16(v, mins);
#if KN_MINS
#define KN_END_VECTOR(row, v)                                                                                \
    sum##row##_##v += convert_float16(dot##row##_##v) * (scale##v * f##row[0]) + offset##v * f##row[2];
#else
#define KN_END_VECTOR(row, v) sum##row##_##v += convert_float16(dot##row##_##v) * (scale##v * f##row[0]);
#endif
#define KN_END(row) KN_EACH(KN_END_VECTOR, row) f##row += 4;
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, row * KN_VECTORS + v, result);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)

/* result (KN_ROWS,KN_COLUMNS); of the rows, `rows` exist. */
KN_INLINE void tile(global const int *lefts, global const float *facts, const int rows, const int k,
                      local const int *quads, local const float *scales, local const float *mins, float *result) {
    KN_ROWS_6(KN_START)
    for (int group = 0; group < k / KN_SHARED; group++) {
        KN_ROWS_6(KN_BEGIN)
        KN_UNROLL for (int q = 0; q < KN_SHARED / 4; q++) {
            KN_EACH(KN_RIGHT, 0)
            KN_ROWS_6(KN_ADD)
            quads += KN_COLUMNS;
        }
        KN_EACH(KN_SCALE, 0)
#if KN_MINS
        KN_EACH(KN_OFFSET, 0)
#endif
        KN_ROWS_6(KN_END)
        scales += KN_COLUMNS;
        mins += KN_MINS ? KN_COLUMNS : 0;
    }
    KN_ROWS_6(KN_KEEP)
}

KN_WIDE kn_matmul_blocks_panels(global const char *restrict lefts, global const float *restrict facts,
                                global const uchar *restrict codes, global c_stored *restrict c, int m, int n, int k,
                                int blocks, int middle, int item_rows, int item_panels KN_EPILOGUE_PARAMETERS) {
    local int quads[KN_UNITS * (KN_UNIT / 4) * KN_COLUMNS];
    local float scales[KN_UNITS * (KN_UNIT / KN_SHARED) * KN_COLUMNS];
    local float mins[KN_MINS ? KN_UNITS * (KN_UNIT / KN_SHARED) * KN_COLUMNS : 1];
    float result[KN_ROWS * KN_COLUMNS];
    const int row_begin = (int)get_global_id(0) * item_rows, row_end = min(row_begin + item_rows, m);
    const int panel0 = (int)get_global_id(1) * item_panels;
    const int panel_end = min(panel0 + item_panels, (n + KN_COLUMNS - 1) / KN_COLUMNS);
    const KN_INDEX total = (KN_INDEX)n * blocks, c_row = n;
    global c_stored *const all = c;
    for (int p = panel0; p < panel_end; p++) {
        for (int lane = 0; lane < KN_COLUMNS; lane++)
            put_column(codes, total, min(p * KN_COLUMNS + lane, n - 1), blocks, k, quads + lane, scales + lane,
                       mins + (KN_MINS ? lane : 0));
        for (int row0 = row_begin; row0 < row_end; row0 += KN_ROWS) {
            const int rows = min(KN_ROWS, row_end - row0);
            tile((global const int *)lefts + row0 * (KN_INDEX)(k / 4), facts + row0 * (KN_INDEX)(k / KN_SHARED) * 4, rows, k,
                 quads, scales, mins, result);
            for (int r = 0; r < rows; r++) {
                const int batch = (row0 + r) / middle, row = (row0 + r) % middle;
                global c_stored *c = all + (KN_INDEX)batch * middle * n;
                for (int v = 0; v < KN_VECTORS; v++) {
                    const int column = p * KN_COLUMNS + v * KN_WIDTH;
                    if (column < n) KN_FINISH(load(r * KN_VECTORS + v, result), column, n - column, 0, 1)
                }
            }
        }
    }
}
#endif
