/* Matrix product for many-thread devices: C (batches,M,N) = A (..,M,K) · B (..,K,N), and an epilogue.
 * The portable variant: OpenCL C 1.2 without optional features. Tiles and their defines: common/tile.cl. Further
 * defines:
 *   KN_TRANSPOSE_A 0   1: A is stored as (..,K,M)
 *   KN_TRANSPOSE_B 0   1: B is stored as (..,N,K)
 *   KN_NARROW 0        B is stored in 16 bits (common/narrow.cl)
 *   KN_VECTOR 1        4: the stored rows of A and of B, and N, are multiples of 4 long; reads four at a time
 * Global loads: at most 4 * (1 / KN_TILE_M + 1 / KN_TILE_N) bytes per multiply-add, 2 bytes for 16 with the
 * defaults.
 *
 * kn_matmul(a, b, c, partials, m, n, k, parts, part_depth, middle, inner, a_outer, a_middle, a_inner,
 *           b_outer, b_middle, b_inner, EPILOGUE)
 *   work-groups of (KN_ITEMS,1,1), in number (ceil(n / KN_TILE_N), ceil(m / KN_TILE_M), batches * parts).
 *   Batch t is (t / (middle * inner), t / inner % middle, t % inner); the strides of a and b by these count
 *   elements, and 0 repeats a matrix. The epilogue sees (batch, row, column).
 *   With parts > 1, part p sums k from p * part_depth on, a multiple of KN_TILE_K, and stores its partial sums in
 *   partials (parts,batches,M,N), for kn_sum_parts (common/sum_parts.cl), which has the epilogue. */
#include "common/tile.cl"
#include "common/sum_parts.cl"
#define KN_WHOLE KN_T
#include "common/narrow.cl"

#ifndef KN_TRANSPOSE_A
#define KN_TRANSPOSE_A 0
#endif
#ifndef KN_TRANSPOSE_B
#define KN_TRANSPOSE_B 0
#endif
#ifndef KN_VECTOR
#define KN_VECTOR 1
#endif

/* tile (KN_TILE_K,width), rows of `row` elements, from a matrix stored (side,K): source[i * stride + k] for i
 * from i0 and k from k0. Elements beyond i_end or k_end are 0. */
#if KN_VECTOR == 4
#define KN_PUT_ALONG(read, read_4)                                                                           \
    const KN_A4 four = inside ? KN_TO_A4(read_4(from)) : (KN_A4)(0);                                         \
    to[0] = four.s0;                                                                                         \
    to[row] = four.s1;                                                                                       \
    to[2 * row] = four.s2;                                                                                   \
    to[3 * row] = four.s3;
#define KN_PUT_ACROSS(read, read_4) vstore4(inside ? KN_TO_A4(read_4(from)) : (KN_A4)(0), 0, to);
#else
#define KN_PUT_ALONG(read, read_4) to[0] = inside ? KN_TO_A(read(from)) : 0;
#define KN_PUT_ACROSS(read, read_4) KN_PUT_ALONG(read, read_4)
#endif
#define KN_DEFINE_ALONG(name, type, read, read_4)                                                            \
    static inline void name(global const type *source, KN_INDEX stride, int i0, int i_end, int k0,           \
                            int k_end, local KN_A *tile, int width, int row) {                               \
        for (int at = get_local_id(0); at < width * KN_TILE_K / KN_VECTOR; at += KN_ITEMS) {                 \
            const int k = at % (KN_TILE_K / KN_VECTOR) * KN_VECTOR, i = at / (KN_TILE_K / KN_VECTOR);        \
            const bool inside = i0 + i < i_end && k0 + k < k_end;                                            \
            global const type *from = source + (i0 + i) * stride + k0 + k;                                   \
            local KN_A *to = tile + k * row + i;                                                             \
            KN_PUT_ALONG(read, read_4)                                                                       \
        }                                                                                                    \
    }
/* The same from a matrix stored (K,side): source[k * stride + i]. */
#define KN_DEFINE_ACROSS(name, type, read, read_4)                                                           \
    static inline void name(global const type *source, KN_INDEX stride, int i0, int i_end, int k0,           \
                            int k_end, local KN_A *tile, int width, int row) {                               \
        for (int at = get_local_id(0); at < width * KN_TILE_K / KN_VECTOR; at += KN_ITEMS) {                 \
            const int i = at % (width / KN_VECTOR) * KN_VECTOR, k = at / (width / KN_VECTOR);                \
            const bool inside = i0 + i < i_end && k0 + k < k_end;                                            \
            global const type *from = source + (k0 + k) * stride + i0 + i;                                   \
            local KN_A *to = tile + k * row + i;                                                             \
            KN_PUT_ACROSS(read, read_4)                                                                      \
        }                                                                                                    \
    }

#define KN_ONE(pointer) (*(pointer))
#define KN_FOUR(pointer) vload4(0, pointer)
#if KN_TRANSPOSE_A
KN_DEFINE_ACROSS(load_left, KN_T, KN_ONE, KN_FOUR)
#else
KN_DEFINE_ALONG(load_left, KN_T, KN_ONE, KN_FOUR)
#endif
#if KN_TRANSPOSE_B
KN_DEFINE_ALONG(load_right, KN_SOURCE, KN_READ, KN_READ_4)
#else
KN_DEFINE_ACROSS(load_right, KN_SOURCE, KN_READ, KN_READ_4)
#endif

KN_WORK_GROUP kernel void kn_matmul(global const KN_T *restrict a, global const KN_SOURCE *restrict b,
                                    global KN_T *restrict c, global KN_A *restrict partials, int m, int n,
                                    int k, int parts, int part_depth, int middle, int inner, KN_INDEX a_outer,
                                    KN_INDEX a_middle, KN_INDEX a_inner, KN_INDEX b_outer, KN_INDEX b_middle,
                                    KN_INDEX b_inner KN_EPILOGUE_PARAMETERS) {
    local KN_A left[KN_TILE_K * KN_LEFT_ROW];
    local KN_A right[KN_TILE_K * KN_RIGHT_ROW];
    const int batch = get_group_id(2) / parts, part = get_group_id(2) % parts;
    const int row0 = get_group_id(1) * KN_TILE_M, column0 = get_group_id(0) * KN_TILE_N;
    const KN_INDEX i0 = batch / inner / middle, i1 = batch / inner % middle, i2 = batch % inner;
    a += i0 * a_outer + i1 * a_middle + i2 * a_inner;
    b += i0 * b_outer + i1 * b_middle + i2 * b_inner;
    const int k_first = part * part_depth, k_end = parts > 1 ? min(k_first + part_depth, k) : k;
    sums sums;
    sums_clear(&sums);
    for (int k0 = k_first; k0 < k_end; k0 += KN_TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        load_left(a, KN_TRANSPOSE_A ? m : k, row0, m, k0, k_end, left, KN_TILE_M, KN_LEFT_ROW);
        load_right(b, KN_TRANSPOSE_B ? k : n, column0, n, k0, k_end, right, KN_TILE_N, KN_RIGHT_ROW);
        barrier(CLK_LOCAL_MEM_FENCE);
        sums_add(&sums, left, right);
    }
    if (parts > 1)
        partials += ((KN_INDEX)part * (get_num_groups(2) / parts) + batch) * m * n;
    else
        c += (KN_INDEX)batch * m * n;
#pragma unroll
    for (int i = 0; i < KN_ITEM_M; i++)
#pragma unroll
        for (int j = 0; j < KN_ITEM_N / 4; j++) {
            const KN_INDEX row = row0 + KN_ROW(i), column = column0 + KN_COLUMN(j);
            if (row >= m || column >= n) continue;
            const KN_A4 four = sums.at[i][j];
#if KN_VECTOR == 4
            if (parts > 1) {
                vstore4(four, 0, partials + row * n + column);
            } else {
                KN_CONCAT(KN_T, 4) out;
                out.s0 = KN_TO_T(KN_EPILOGUE(four.s0, batch, row, column));
                out.s1 = KN_TO_T(KN_EPILOGUE(four.s1, batch, row, column + 1));
                out.s2 = KN_TO_T(KN_EPILOGUE(four.s2, batch, row, column + 2));
                out.s3 = KN_TO_T(KN_EPILOGUE(four.s3, batch, row, column + 3));
                vstore4(out, 0, c + row * n + column);
            }
#else
            const KN_A each[4] = {four.s0, four.s1, four.s2, four.s3};
            for (int l = 0; l < 4 && column + l < n; l++)
                if (parts > 1)
                    partials[row * n + column + l] = each[l];
                else
                    c[row * n + column + l] = KN_TO_T(KN_EPILOGUE(each[l], batch, row, column + l));
#endif
        }
}
