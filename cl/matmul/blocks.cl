/* Matrix products with weights in quantized blocks, for few rows: C(M,N) = A(M,K) · Wᵀ, float32. Blocks are read once
 * and dequantized in registers.
 *
 * Defines, with their defaults:
 *   KN_BLOCKS 8          the type of the blocks (common/blocks.cl)
 *   KN_ROWS 1            rows that are computed together
 *   KN_COLUMNS 2         columns that are computed together
 *   KN_ITEMS 64          work-items of a work-group, a power of two
 *   KN_ACTIVATIONS 0     8: kn_matmul_blocks_plain rounds a to 8 bits (common/activations.cl)
 *   KN_HALF_a, KN_HALF_c 0   whether a and c have 16 bits in memory (common/storage.cl)
 * and those of common/epilogue.cl, which sees (row / middle, row % middle, column); EPILOGUE is its operands.
 *
 * a is (M,K), codes the blocks of W (N,K), arranged, of which each row has `blocks`, c (M,N).
 *
 * kn_matmul_blocks(a, codes, c, m, n, k, blocks, middle, EPILOGUE)
 *   work-groups of (KN_ITEMS,1,1), numbering (ceil(n / KN_COLUMNS), ceil(m / KN_ROWS)); work-items share rows of W
 * kn_matmul_blocks_wide(a, codes, c, m, n, k, blocks, middle, item_columns, EPILOGUE)
 *   work-groups of (1,1,1), numbering ceil(n / item_columns)
 * kn_matmul_blocks_plain(a, codes, c, count, n, k, blocks)
 *   a work-item per result, `count` in total
 * kn_matmul_blocks_joint, kn_matmul_blocks_wide_joint: several such products (common/joint.cl) */
#include "common/activations.cl"
#include "common/blocks.cl"
#include "common/epilogue.cl"
#include "common/joint.cl"
#include "common/types.cl"
#include "common/unroll.cl"
#include "common/wanted.cl"
#include "matmul/few_rows.cl"
#ifndef KN_ROWS
#define KN_ROWS 1
#endif
#ifndef KN_ITEMS
#define KN_ITEMS 64
#endif
#ifndef KN_ACTIVATIONS
#define KN_ACTIVATIONS 0
#endif
#ifndef KN_COLUMNS
#define KN_COLUMNS 2
#endif
#define KN_SUMS (KN_ROWS * KN_COLUMNS)
typedef KN_STORED(KN_HALF_a) a_stored;
typedef KN_STORED(KN_HALF_c) c_stored;

static inline float4 fold(const float16 sums) {
    const float8 eight = sums.lo + sums.hi;
    return eight.lo + eight.hi;
}
static inline float sum_of(const float4 four) {
    return (four.s0 + four.s2) + (four.s1 + four.s3);
}
/* Calls ADD(r, j, left, weights) for the 16 products of a group of block `block` of each row and column. Rows and
 * columns beyond the last repeat it. */
#define KN_EACH_PRODUCT(block, group, ADD)                                                                   \
    {                                                                                                        \
        const KN_INDEX at = (KN_INDEX)(block) * KN_BLOCK_WEIGHTS + 16 * (group);                             \
        float16 lefts[KN_ROWS];                                                                              \
        KN_UNROLL for (int r = 0; r < KN_ROWS; r++)                                                          \
            lefts[r] = KN_READ_16_AS(KN_HALF_a, a + (KN_INDEX)min(row0 + r, m - 1) * k + at);                \
        KN_UNROLL for (int j = 0; j < KN_COLUMNS; j++) {                                                     \
            const KN_INDEX column = min(column0 + j, n - 1);                                                 \
            const float16 weights = kn_weights_at(codes, total, column * blocks + (block), group);           \
            KN_UNROLL for (int r = 0; r < KN_ROWS; r++) ADD(r, j, lefts[r], weights);                        \
        }                                                                                                    \
    }

#if KN_WANTED(kn_matmul_blocks) || KN_WANTED(kn_matmul_blocks_joint)
#define KN_ADD_FOUR(r, j, left, weights) sums[r * KN_COLUMNS + j] += fold(left * weights)
__attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))
#ifdef KN_JOINT_kn_matmul_blocks
kernel void kn_matmul_blocks_joint(KN_JOINT_PARAMETERS) {
    KN_JOINT_SELECT
#else
kernel void kn_matmul_blocks(global const a_stored *restrict a, global const uchar *restrict codes,
                             global c_stored *restrict c, int m, int n, int k, int blocks,
                             int middle KN_EPILOGUE_PARAMETERS) {
#endif
    local float tree[KN_SUMS * KN_ITEMS];
    const int item = get_local_id(0);
    const int column0 = KN_GROUP(0, KN_ITEMS) * KN_COLUMNS, row0 = KN_GROUP(1, 1) * KN_ROWS;
    const KN_INDEX total = (KN_INDEX)n * blocks;
    float4 sums[KN_SUMS];
    KN_UNROLL for (int i = 0; i < KN_SUMS; i++) sums[i] = 0.0f;
    for (int i = item; i < blocks * KN_BLOCK_GROUPS; i += KN_ITEMS)
        KN_EACH_PRODUCT(i / KN_BLOCK_GROUPS, i % KN_BLOCK_GROUPS, KN_ADD_FOUR)
    KN_STORE_SUMS(sums)
}
#endif

#if KN_WANTED(kn_matmul_blocks_wide) || KN_WANTED(kn_matmul_blocks_wide_joint)
#define KN_ADD_SIXTEEN(r, j, left, weights) sums[r * KN_COLUMNS + j] += left * weights
__attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float16)))
#ifdef KN_JOINT_kn_matmul_blocks_wide
kernel void kn_matmul_blocks_wide_joint(KN_JOINT_PARAMETERS) {
    KN_JOINT_SELECT
#else
kernel void kn_matmul_blocks_wide(global const a_stored *restrict a, global const uchar *restrict codes,
                                  global c_stored *restrict c, int m, int n, int k, int blocks, int middle,
                                  int item_columns KN_EPILOGUE_PARAMETERS) {
#endif
    const int first = (int)get_global_id(0) * item_columns, end = min(first + item_columns, n);
    const KN_INDEX total = (KN_INDEX)n * blocks;
    for (int column0 = first; column0 < end; column0 += KN_COLUMNS)
        for (int row0 = 0; row0 < m; row0 += KN_ROWS) {
            float16 sums[KN_SUMS];
            KN_UNROLL for (int i = 0; i < KN_SUMS; i++) sums[i] = 0.0f;
            for (int block = 0; block < blocks; block++)
                KN_UNROLL for (int group = 0; group < KN_BLOCK_GROUPS; group++)
                    KN_EACH_PRODUCT(block, group, KN_ADD_SIXTEEN)
            KN_UNROLL for (int i = 0; i < KN_SUMS; i++) {
                const int row = row0 + i / KN_COLUMNS, column = column0 + i % KN_COLUMNS;
                if (row < m && column < end) KN_STORE_RESULT(sum_of(fold(sums[i])), row, column)
            }
        }
}
#endif

#if KN_WANTED(kn_matmul_blocks_plain)
/* The 16 elements of a row at `at`. */
static inline float16 plain_lefts_at(global const a_stored *row, const KN_INDEX at) {
    const float16 lefts = KN_READ_16_AS(KN_HALF_a, row + at);
#if KN_ACTIVATIONS
    const float2 scales = kn_round_scales(lefts, KN_READ_16_AS(KN_HALF_a, row + (at ^ 16)));
    return rint(lefts * scales.y) * scales.x;
#else
    return lefts;
#endif
}
kernel void kn_matmul_blocks_plain(global const a_stored *restrict a, global const uchar *restrict codes,
                                   global c_stored *restrict c, KN_INDEX count, int n, int k, int blocks) {
    const KN_INDEX i = get_global_id(0);
    if (i >= count) return;
    const KN_INDEX column = i % n, row = i / n, total = (KN_INDEX)n * blocks;
    float4 sums = 0.0f;
    for (int block = 0; block < blocks; block++)
        for (int group = 0; group < KN_BLOCK_GROUPS; group++)
            sums += fold(plain_lefts_at(a + row * k, block * KN_BLOCK_WEIGHTS + 16 * group) *
                         kn_weights_at(codes, total, column * blocks + block, group));
    KN_WRITE_AS(KN_HALF_c, sum_of(sums), c + i);
}
#endif
