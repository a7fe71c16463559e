/* Matrix product for many-thread devices: C (batches,M,N) = A (..,M,K) · B (..,K,N), and an epilogue.
 * The portable variant: OpenCL C 1.2 without optional features. Tiles and their defines: common/tile.cl. Further
 * defines:
 *   KN_TRANSPOSE_A 0   1: A is stored as (..,K,M)
 *   KN_TRANSPOSE_B 0   1: B is stored as (..,N,K)
 *   KN_HALF_a, _b, _c  storage types (common/storage.cl)
 *   KN_DIRECT          defined if operands are not copied to local memory (common/direct.cl); not with KN_FRAGMENT
 *   KN_ROW_SUMS        defined to also compute the sums of A's rows; not with KN_FRAGMENT
 *   KN_VECTOR 1        4: the stored row lengths of A and B, and N, are multiples of 4; reads four at a time; with
 *                      KN_FRAGMENT also 8, of 16 bits
 * Global loads: at most 4 * (1 / KN_TILE_M + 1 / KN_TILE_N) bytes per multiply-add, 2 bytes for 16 with the
 * defaults.
 *
 * kn_matmul(a, b, c, partials, m, n, k, batches, parts, part_depth, middle, inner, a_outer, a_middle, a_inner,
 *           b_outer, b_middle, b_inner, ROW_SUMS, EPILOGUE)
 *   work-groups of (KN_ITEMS,1,1), numbering (ceil(n / KN_TILE_N), ceil(m / KN_TILE_M), batches * parts).
 *   Batch t is (t / (middle * inner), t / inner % middle, t % inner); the strides of a and b for these count elements,
 *   and 0 broadcasts a matrix. The epilogue sees (batch, row, column). With parts > 1, part p sums k from p *
 *   part_depth, a multiple of KN_TILE_K, and stores its partial sums in partials (parts,batches,M,N), for
 *   kn_sum_parts (common/sum_parts.cl), which has the epilogue. With KN_ROW_SUMS there is one batch, and row_sums is
 *   (parts,M). */
#include "common/tile.cl"
#include "common/sum_parts.cl"
#include "common/storage.cl"

#ifndef KN_TRANSPOSE_A
#define KN_TRANSPOSE_A 0
#endif
#ifndef KN_TRANSPOSE_B
#define KN_TRANSPOSE_B 0
#endif

#ifndef KN_VECTOR
#define KN_VECTOR 1
#endif

#ifdef KN_ROW_SUMS
#define KN_ROW_SUMS_PARAMETERS , global KN_A *restrict row_sums
#else
#define KN_ROW_SUMS_PARAMETERS
#endif

/* Pieces are across the tile in a matrix stored (K,side), and along k in one stored (side,K). Pieces of 32-bit elements
 * have four, so that work-items that load 16 bytes at a time are adjacent. */
#if KN_VECTOR == 8 && KN_HALF_a == 0
#define KN_A_VECTOR 4
#else
#define KN_A_VECTOR KN_VECTOR
#endif
#if KN_VECTOR == 8 && KN_HALF_b == 0
#define KN_B_VECTOR 4
#else
#define KN_B_VECTOR KN_VECTOR
#endif
#ifndef KN_FRAGMENT
#define KN_A_PIECE KN_OF(KN_PIECE_, KN_VECTOR)
#define KN_B_PIECE KN_A_PIECE
#define KN_PIECES_OF(side, vector, across) KN_PIECES(side, vector)
#if KN_VECTOR == 4
#define KN_LOAD(kind, pointer) KN_TO_A4(KN_READ_4_AS(kind, pointer))
#else
#define KN_LOAD(kind, pointer) KN_TO_A(KN_READ_AS(kind, pointer))
#endif
#else
#define KN_A_PIECE KN_PASTE(piece_, KN_A_VECTOR)
#define KN_B_PIECE KN_PASTE(piece_, KN_B_VECTOR)
#define KN_PIECES_OF(side, vector, across) KN_PIECES(side, vector, across)
#endif

/* The position of piece p of the first slice in a matrix with rows of `stride`. Pieces beyond the last row or column
 * repeat it, in sums that are not stored. */
static inline KN_INDEX element_at(const int p, const bool across, const int side, const int vector, const int i0,
                                  const int i_end, const KN_INDEX stride) {
    const position place = piece_at(p, across, side, vector);
    const int i = i0 + place.i;
    return across ? place.k * stride + min(i, i_end - vector) : min(i, i_end - 1) * stride + place.k;
}

#ifdef KN_DIRECT
#include "common/direct.cl"
#endif
#define KN_B_ACROSS !KN_TRANSPOSE_B
#define KN_A_PIECES KN_PIECES_OF(KN_TILE_M, KN_A_VECTOR, KN_TRANSPOSE_A)
#define KN_B_PIECES KN_PIECES_OF(KN_TILE_N, KN_B_VECTOR, KN_B_ACROSS)
#ifdef KN_FRAGMENT
/* A line of a piece: a piece across has a second line, `stride` elements later. */
#define KN_FETCH_LINE(kind, vector, from, k)                                                                 \
    ((k) < k_end ? KN_LOAD_RAW(kind, vector, from) : (KN_PASTE(KN_RAW_, vector))0)
#define KN_FETCH_SIDE(next, pieces, side, vector, across, kind, from, at, stride, k0)                        \
    KN_UNROLL for (int p = 0; p < pieces; p++) {                                                             \
        const int along = (k0) + piece_at(p, across, side, vector).k;                                        \
        next[p].line[0] = KN_FETCH_LINE(kind, vector, from + at[p], along);                                  \
        if (across && KN_IN_WORD == 2)                                                                       \
            next[p].line[KN_IN_WORD - 1] = KN_FETCH_LINE(kind, vector, from + at[p] + stride, along + 1);    \
    }                                                                                                        \
    from += across ? KN_TILE_K * (KN_INDEX)stride : KN_TILE_K;
#define KN_FETCH_SLICE(k0)                                                                                   \
    KN_FETCH_SIDE(a_next, KN_A_PIECES, KN_TILE_M, KN_A_VECTOR, KN_TRANSPOSE_A, KN_HALF_a, a, a_at, m, k0)    \
    KN_FETCH_SIDE(b_next, KN_B_PIECES, KN_TILE_N, KN_B_VECTOR, KN_B_ACROSS, KN_HALF_b, b, b_at, n, k0)
#define KN_PUT_SLICE(turn)                                                                                   \
    KN_PUT_PIECES(a_next, KN_TRANSPOSE_A, KN_TILE_M, KN_A_VECTOR, 1, left + (turn) * KN_LEFT_SLICE)          \
    KN_PUT_PIECES(b_next, KN_B_ACROSS, KN_TILE_N, KN_B_VECTOR, 0, right + (turn) * KN_RIGHT_SLICE)
#define KN_ADD_OWN_SLICES KN_ADD_SLICES(k_first, k_end, KN_FETCH_SLICE, KN_PUT_SLICE)
#else
#define KN_IS_WITHIN(count, side, across) ((count) == KN_TILE_K || piece_at(p, across, side, KN_VECTOR).k < (count))
#define KN_FETCH_SLICE(k0, count)                                                                            \
    KN_UNROLL for (int p = 0; p < KN_A_PIECES; p++) a_next[p] =                                              \
        KN_IS_WITHIN(count, KN_TILE_M, KN_TRANSPOSE_A) ? KN_LOAD(KN_HALF_a, a + a_at[p]) : (KN_A_PIECE)0;    \
    KN_UNROLL for (int p = 0; p < KN_B_PIECES; p++) b_next[p] =                                              \
        KN_IS_WITHIN(count, KN_TILE_N, KN_B_ACROSS) ? KN_LOAD(KN_HALF_b, b + b_at[p]) : (KN_B_PIECE)0;       \
    a += KN_TRANSPOSE_A ? (count) * (KN_INDEX)m : (count);                                                   \
    b += KN_TRANSPOSE_B ? (count) : (count) * (KN_INDEX)n;
/* Each work-item adds what it loads of A: the sums of rows are complete when those of the group are added. */
#ifdef KN_ROW_SUMS
#define KN_ADD_PIECES KN_UNROLL for (int p = 0; p < KN_A_PIECES; p++) a_sums[p] += a_next[p];
#else
#define KN_ADD_PIECES
#endif
#define KN_PUT_A(pieces, first)                                                                              \
    KN_UNROLL for (int p = 0; p < KN_A_PIECES; p++)                                                          \
        KN_OF(put_, KN_VECTOR)(pieces[p], p, KN_TRANSPOSE_A, KN_TILE_M, KN_LEFT_ROW, first);
#define KN_PUT_SLICE(a_first, b_first)                                                                       \
    KN_ADD_PIECES                                                                                            \
    KN_PUT_A(a_next, a_first)                                                                                \
    KN_UNROLL for (int p = 0; p < KN_B_PIECES; p++)                                                          \
        KN_OF(put_, KN_VECTOR)(b_next[p], p, KN_B_ACROSS, KN_TILE_N, KN_RIGHT_ROW, b_first);
#define KN_A_FIRST first_in_slice(KN_TRANSPOSE_A, KN_TILE_M, KN_VECTOR, KN_LEFT_ROW)
#define KN_B_FIRST first_in_slice(KN_B_ACROSS, KN_TILE_N, KN_VECTOR, KN_RIGHT_ROW)
#define KN_ADD_OWN_SLICES KN_ADD_SLICES(k_first, k_end, KN_A_FIRST, KN_B_FIRST, KN_FETCH_SLICE, KN_PUT_SLICE)
#endif

/* Stores four sums of a row. */
#if KN_VECTOR >= 4 && defined(KN_FRAGMENT)
#define KN_STORE_FOUR(four, row, column)                                                                     \
    if (parts > 1)                                                                                           \
        *(global KN_A4 *)(partials + row * n + column) = four;                                               \
    else                                                                                                     \
        KN_WRITE_4_AS(KN_HALF_c, KN_EPILOGUE_4(four, batch, row, column), c + row * n + column);
#elif KN_VECTOR >= 4
#define KN_RESULT(sum, l) KN_EPILOGUE(sum, batch, row, column + (l))
#define KN_STORE_FOUR(four, row, column)                                                                     \
    KN_STORE_ADJACENT(KN_HALF_c, c + row * n + column, partials + row * n + column, four, KN_RESULT)
#else
#define KN_STORE_FOUR(four, row, column)                                                                     \
    const KN_A each[4] = {four.s0, four.s1, four.s2, four.s3};                                               \
    for (int l = 0; l < 4 && column + l < n; l++)                                                            \
        if (parts > 1)                                                                                       \
            partials[row * n + column + l] = each[l];                                                        \
        else                                                                                                 \
            KN_WRITE_AS(KN_HALF_c, KN_TO_T(KN_EPILOGUE(each[l], batch, row, column + l)),                    \
                        c + row * n + column + l);
#endif

#define KN_STORE_ROW(row_at, from)                                                                           \
    const KN_INDEX row = row0 + (row_at);                                                                    \
    if (row < m && column < n) {                                                                             \
        const KN_A4 four = *(local const KN_A4 *)(from);                                                     \
        KN_STORE_FOUR(four, row, column)                                                                     \
    }

KN_WORK_GROUP kernel void kn_matmul(global const KN_STORED(KN_HALF_a) *restrict a,
                                    global const KN_STORED(KN_HALF_b) *restrict b,
                                    global KN_STORED(KN_HALF_c) *restrict c, global KN_A *restrict partials,
                                    int m, int n, int k, int batches, int parts, int part_depth, int middle, int inner,
                                    KN_INDEX a_outer, KN_INDEX a_middle, KN_INDEX a_inner, KN_INDEX b_outer,
                                    KN_INDEX b_middle, KN_INDEX b_inner KN_ROW_SUMS_PARAMETERS KN_EPILOGUE_PARAMETERS) {
#ifndef KN_DIRECT
    KN_SLICES(2)
#endif
    const int batch = KN_GROUP(2, 1) / parts, part = KN_GROUP(2, 1) % parts;
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M, column0 = KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const KN_INDEX i0 = batch / inner / middle, i1 = batch / inner % middle, i2 = batch % inner;
    const int k_first = part * part_depth, k_end = parts > 1 ? min(k_first + part_depth, k) : k;
    a += i0 * a_outer + i1 * a_middle + i2 * a_inner + (KN_TRANSPOSE_A ? k_first * (KN_INDEX)m : k_first);
    b += i0 * b_outer + i1 * b_middle + i2 * b_inner + (KN_TRANSPOSE_B ? k_first : k_first * (KN_INDEX)n);
    sums sums;
    sums_clear(&sums);
#ifdef KN_DIRECT
#ifdef KN_ROW_SUMS
    KN_A4 a_sums[KN_ITEM_M / 4];
    KN_UNROLL for (int f = 0; f < KN_ITEM_M / 4; f++) a_sums[f] = 0;
#endif
    KN_ADD_DIRECTLY
#ifdef KN_ROW_SUMS
    KN_UNROLL for (int f = 0; f < KN_ITEM_M / 4; f++) {
        const KN_A each[4] = {a_sums[f].s0, a_sums[f].s1, a_sums[f].s2, a_sums[f].s3};
        const int row = row0 + KN_ROW(f * 4);
        for (int i = 0; i < 4 && column0 + KN_COLUMN(0) == 0 && row + i < m; i++)
            row_sums[part * (KN_INDEX)m + row + i] = each[i];
    }
#endif
#else
    KN_A_PIECE a_next[KN_A_PIECES];
    KN_B_PIECE b_next[KN_B_PIECES];
    KN_INDEX a_at[KN_A_PIECES], b_at[KN_B_PIECES];
    KN_UNROLL for (int p = 0; p < KN_A_PIECES; p++)
        a_at[p] = element_at(p, KN_TRANSPOSE_A, KN_TILE_M, KN_A_VECTOR, row0, m, KN_TRANSPOSE_A ? m : k);
    KN_UNROLL for (int p = 0; p < KN_B_PIECES; p++)
        b_at[p] = element_at(p, KN_B_ACROSS, KN_TILE_N, KN_B_VECTOR, column0, n, KN_TRANSPOSE_B ? k : n);
#ifdef KN_ROW_SUMS
    KN_A_PIECE a_sums[KN_A_PIECES];
    KN_UNROLL for (int p = 0; p < KN_A_PIECES; p++) a_sums[p] = 0;
#endif
    KN_ADD_OWN_SLICES
#ifdef KN_ROW_SUMS
    KN_PUT_A(a_sums, left + KN_A_FIRST)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(0); column0 == 0 && i < min(KN_TILE_M, m - row0); i += KN_ITEMS) {
        KN_A sum = 0;
        for (int at = 0; at < KN_TILE_K; at++)
            sum += left[at * KN_LEFT_ROW + i];
        row_sums[part * (KN_INDEX)m + row0 + i] = sum;
    }
#endif
#endif
    if (parts > 1)
        partials += ((KN_INDEX)part * batches + batch) * m * n;
    else
        c += (KN_INDEX)batch * m * n;
#ifdef KN_FRAGMENT
    const KN_INDEX column = column0 + KN_STAGED_COLUMN(4);
    KN_STORE_STAGED(4, KN_STORE_ROW)
#else
    KN_UNROLL for (int i = 0; i < KN_ITEM_M; i++)
        KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) {
            const KN_INDEX row = row0 + KN_ROW(i), column = column0 + KN_COLUMN(j);
            if (row >= m || column >= n) continue;
            const KN_A4 four = sums.at[i][j];
            KN_STORE_FOUR(four, row, column)
        }
#endif
}
