/* Products of groups of rows with a matrix per group, as in mixtures of experts, and the gradient of the matrices.
 *
 *   KN_T, KN_A             types of elements in memory, and of products and sums (common/types.cl)
 *   KN_HALF_a, _b, _c  0   whether they are stored in 16 bits (common/storage.cl)
 *   KN_WIDTH           0   0: many-thread devices, a column per work-item; 4, 8 or 16: that many columns, in vectors
 *
 *   kn_grouped(a, b, ends, c, groups, rows, k, n)           global size (ceil(n / columns), ceil(rows / KN_ROWS))
 *     row i of c is row i of a times b(e), where ends(e - 1) <= i < ends(e); rows from the last end on are 0
 *   kn_grouped_weight(a, b, ends, c, groups, rows, k, n)    global size (ceil(n / columns), ceil(k / KN_ROWS), groups)
 *     c(e) is the transposed rows of a in group e times the same rows of b
 * kn_grouped: a is (rows,k), b (groups,k,n), c (rows,n). kn_grouped_weight: a is (rows,k), b (rows,n), c (groups,k,n).
 * ends is int32 (groups); an end below the previous one counts as that one, an end beyond the rows as their number.
 * No local memory; an element is one sum in order, so the division of work does not affect results. */
#include "common/storage.cl"
#include "common/types.cl"
#include "common/unroll.cl"
#include "common/wanted.cl"
#ifndef KN_WIDTH
#define KN_WIDTH 0
#endif
#define KN_ROWS 8 /* rows of c that a work-item computes; the same in src/ops/matmul/grouped.c */

#if KN_WIDTH
#include "common/wide_rows.cl"
#define KN_COLUMNS KN_WIDTH
#else
#define KN_ALONE
#define KN_COLUMNS 1
#define KN_LOAD_ONE(kind, p) ((KN_A)KN_READ_AS(kind, p))
#define KN_STORE_ONE(kind, v, p) KN_WRITE_AS(kind, (KN_T)(v), p)
#endif

typedef KN_STORED(KN_HALF_a) a_stored;
typedef KN_STORED(KN_HALF_b) b_stored;
typedef KN_STORED(KN_HALF_c) c_stored;

/* Up to KN_ROWS rows of c: element (row, i) of a is at row * a_row + i * a_step, rows of b and c have n elements. */
#define KN_TILE(name, type, load, store)                                                                     \
    static void name(global const a_stored *a, const KN_INDEX a_row, const KN_INDEX a_step,                  \
                     global const b_stored *b, global c_stored *c, const int rows, const KN_INDEX depth,     \
                     const KN_INDEX n) {                                                                     \
        type sums[KN_ROWS];                                                                                  \
        KN_UNROLL for (int row = 0; row < KN_ROWS; row++) sums[row] = 0;                                     \
        for (KN_INDEX i = 0; i < depth; i++) {                                                               \
            const type right = load(KN_HALF_b, b + i * n);                                                   \
            KN_UNROLL for (int row = 0; row < KN_ROWS; row++)                                                \
                sums[row] += KN_LOAD_ONE(KN_HALF_a, a + min(row, rows - 1) * a_row + i * a_step) * right;    \
        }                                                                                                    \
        KN_UNROLL for (int row = 0; row < KN_ROWS; row++) if (row < rows)                                    \
            store(KN_HALF_c, sums[row], c + row * n);                                                        \
    }
KN_TILE(tile_of_one, KN_A, KN_LOAD_ONE, KN_STORE_ONE)
#if KN_WIDTH
KN_TILE(tile_of_vectors, kn_vector, KN_LOAD, KN_STORE)
#endif

static void tile(global const a_stored *a, const KN_INDEX a_row, const KN_INDEX a_step, global const b_stored *b,
                 global c_stored *c, const int rows, const KN_INDEX depth, const KN_INDEX n, KN_INDEX column) {
    const KN_INDEX end = min(column + KN_COLUMNS, n);
#if KN_WIDTH
    if (column + KN_WIDTH <= n) {
        tile_of_vectors(a, a_row, a_step, b + column, c + column, rows, depth, n);
        return;
    }
#endif
    for (; column < end; column++)
        tile_of_one(a, a_row, a_step, b + column, c + column, rows, depth, n);
}

#if KN_WANTED(kn_grouped)
KN_ALONE kernel void kn_grouped(global const a_stored *restrict a, global const b_stored *restrict b,
                                global const int *restrict ends, global c_stored *restrict c,
                                const KN_INDEX groups, const KN_INDEX rows, const KN_INDEX k, const KN_INDEX n) {
    const KN_INDEX column = (KN_INDEX)get_global_id(0) * KN_COLUMNS;
    const KN_INDEX first = (KN_INDEX)get_global_id(1) * KN_ROWS, last = min(first + KN_ROWS, rows);
    if (column >= n || first >= last) return;
    KN_INDEX end = 0;
    for (KN_INDEX group = 0; group < groups && end < last; group++) {
        const KN_INDEX begin = max(end, first);
        end = min(max(end, (KN_INDEX)ends[group]), rows);
        const KN_INDEX stop = min(end, last);
        if (begin < stop)
            tile(a + begin * k, k, 1, b + group * k * n, c + begin * n, (int)(stop - begin), k, n, column);
    }
    for (KN_INDEX row = max(end, first); row < last; row++)
        for (KN_INDEX at = column; at < min(column + KN_COLUMNS, n); at++)
            KN_STORE_ONE(KN_HALF_c, 0, c + row * n + at);
}
#endif

#if KN_WANTED(kn_grouped_weight)
KN_ALONE kernel void kn_grouped_weight(global const a_stored *restrict a, global const b_stored *restrict b,
                                       global const int *restrict ends, global c_stored *restrict c,
                                       const KN_INDEX groups, const KN_INDEX rows, const KN_INDEX k,
                                       const KN_INDEX n) {
    const KN_INDEX column = (KN_INDEX)get_global_id(0) * KN_COLUMNS;
    const KN_INDEX first = (KN_INDEX)get_global_id(1) * KN_ROWS, group = get_global_id(2);
    if (column >= n || first >= k || group >= groups) return;
    KN_INDEX begin = 0, end = 0;
    for (KN_INDEX i = 0; i <= group; i++) {
        begin = end;
        end = min(max(end, (KN_INDEX)ends[i]), rows);
    }
    tile(a + begin * k + first, 1, k, b + begin * n, c + (group * k + first) * n, (int)min(k - first, (KN_INDEX)KN_ROWS),
         end - begin, n, column);
}
#endif
