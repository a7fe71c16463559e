/* Permuted axes where the innermost one changes: seen as a batch of matrices (a, b), contiguous along b when
 * read and along a when written.
 *
 *   KN_T      uint  an unsigned type of the elements' size
 *   KN_TILE     16  edge of a tile (many threads: a power of two, and KN_TILE squared work-items in a group)
 *   KN_INDEX   int  type of indices
 *   KN_WIDTH     0  few work-items and elements of 4 bytes: lanes of a vector (4, 8, 16); otherwise 0
 *
 *   kn_transpose(in, out, a, b, in_stride, out_stride, BATCH)        many threads: tiles through local
 * memory, groups of (KN_TILE, KN_TILE, 1); global size (b and a rounded up to tiles, batch)
 *   kn_transpose_wide(in, out, a, b, in_stride, out_stride, BATCH)   few: a work-item per tile; global size
 *     (ceil(b / KN_TILE), ceil(a / KN_TILE), batch)
 * in_stride is that of a, out_stride that of b. BATCH is, from the innermost out, six times (size, in_stride,
 * out_stride); unused sizes are 1. */
#ifndef KN_T
#define KN_T uint
#endif
#ifndef KN_TILE
#define KN_TILE 16
#endif
#ifndef KN_WIDTH
#define KN_WIDTH 0
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif

#define KN_AXIS(i) const KN_INDEX size##i, const KN_INDEX in_stride##i, const KN_INDEX out_stride##i
#define KN_BATCH KN_AXIS(0), KN_AXIS(1), KN_AXIS(2), KN_AXIS(3), KN_AXIS(4), KN_AXIS(5)
#define KN_STEP(i)                                                                                           \
    in += place % size##i * in_stride##i;                                                                    \
    out += place % size##i * out_stride##i;                                                                  \
    place /= size##i;
#define KN_FIND_MATRIX                                                                                       \
    KN_INDEX place = (KN_INDEX)get_global_id(2);                                                             \
    KN_STEP(0)                                                                                               \
    KN_STEP(1)                                                                                               \
    KN_STEP(2)                                                                                               \
    KN_STEP(3)                                                                                               \
    KN_STEP(4)                                                                                               \
    KN_STEP(5)

__attribute__((reqd_work_group_size(KN_TILE, KN_TILE, 1))) kernel void
kn_transpose(global const KN_T *restrict in, global KN_T *restrict out, const KN_INDEX a, const KN_INDEX b,
             const KN_INDEX in_stride, const KN_INDEX out_stride, KN_BATCH) {
    local KN_T tile[KN_TILE][KN_TILE + 1];
    const int x = get_local_id(0), y = get_local_id(1);
    const KN_INDEX b0 = (KN_INDEX)get_group_id(0) * KN_TILE, a0 = (KN_INDEX)get_group_id(1) * KN_TILE;
    KN_FIND_MATRIX
    if (a0 + y < a && b0 + x < b) tile[y][x] = in[(a0 + y) * in_stride + b0 + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (a0 + x < a && b0 + y < b) out[(b0 + y) * out_stride + a0 + x] = tile[x][y];
}

/* Blocks of KN_WIDTH by KN_WIDTH go through registers, so that a line of the cache is read once and written
 * once. */
#if KN_WIDTH > 0
#include "common/weave.cl"
#define KN_LOAD_ROW(r) const vector x##r = load(0, (global const float *)(from + r * in_stride));
#define KN_STORE_ROW(r) store(t##r, 0, (global float *)(to + r * out_stride));
static void kn_transpose_block(global const KN_T *from, global KN_T *to, const KN_INDEX in_stride,
                               const KN_INDEX out_stride) {
    KN_EACH_LANE(KN_LOAD_ROW)
    KN_TRANSPOSE(x)
    KN_EACH_LANE(KN_STORE_ROW)
}
#endif

__attribute__((reqd_work_group_size(1, 1, 1))) kernel void
kn_transpose_wide(global const KN_T *restrict in, global KN_T *restrict out, const KN_INDEX a,
                  const KN_INDEX b, const KN_INDEX in_stride, const KN_INDEX out_stride, KN_BATCH) {
    const KN_INDEX b0 = (KN_INDEX)get_global_id(0) * KN_TILE, a0 = (KN_INDEX)get_global_id(1) * KN_TILE;
    const KN_INDEX b1 = min(b, b0 + KN_TILE), a1 = min(a, a0 + KN_TILE);
    KN_FIND_MATRIX
    KN_INDEX a_whole = a0, b_whole = b0; /* what the blocks have done */
#if KN_WIDTH > 0
    a_whole += (a1 - a0) / KN_WIDTH * KN_WIDTH;
    b_whole += (b1 - b0) / KN_WIDTH * KN_WIDTH;
    for (KN_INDEX j = b0; j < b_whole; j += KN_WIDTH)
        for (KN_INDEX i = a0; i < a_whole; i += KN_WIDTH)
            kn_transpose_block(in + i * in_stride + j, out + j * out_stride + i, in_stride, out_stride);
#endif
    for (KN_INDEX j = b0; j < b1; j++)
        for (KN_INDEX i = j < b_whole ? a_whole : a0; i < a1; i++)
            out[j * out_stride + i] = in[i * in_stride + j];
}
