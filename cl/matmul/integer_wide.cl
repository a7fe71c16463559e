/* Matrix product of 8-bit whole numbers for wide-vector devices (CPUs): C(M,N) = (A(M,K) - a_zero) · (B(K,N) - b_zero),
 * int32, batches. The numbers are packed into local memory as 16 bits, less their zero points, in pairs along k: a pair
 * from A and one from B become one addition to a sum, which processors have an instruction for.
 *
 * Defines: those of common/vector.cl (no epilogue), and, with their defaults:
 *   KN_A uchar, KN_B uchar  types of A and B; char where they have signs
 *   KN_DEPTH 256            the most k in one chunk, even
 *   KN_LEFT_ROWS 48         rows of A that are packed together
 *   KN_PANELS 1             the most panels of KN_COLUMNS columns of one item, packed together
 *   They take 2 * KN_DEPTH * (KN_LEFT_ROWS + KN_PANELS * KN_COLUMNS) bytes of local memory.
 *
 * kn_matmul_integer(a, b, c, a_zero, b_zero, m, n, k, a_zero_row, b_zero_column, batch_inner, a_outer, a_inner, b_outer,
 *                   b_inner, item_rows, item_panels, chunk_depth)
 *   groups of (1,1,1), of which (ceil(m / item_rows), ceil(panels / item_panels), batches). A, B and C are dense; batch t
 *   adds (t / batch_inner) * outer + (t % batch_inner) * inner to a and b. The zero point of row i is at i * a_zero_row,
 *   that of column j at j * b_zero_column; NULL is 0. chunk_depth is even. */
#include "common/wanted.cl"
#include "common/vector.cl"

#ifndef KN_A
#define KN_A uchar
#endif
#ifndef KN_B
#define KN_B uchar
#endif
#ifndef KN_DEPTH
#define KN_DEPTH 256
#endif
#ifndef KN_LEFT_ROWS
#define KN_LEFT_ROWS 48
#endif
#ifndef KN_PANELS
#define KN_PANELS 1
#endif
#define KN_ROWS 6
#define KN_PAIRS (KN_DEPTH / 2)

typedef KN_JOIN(int, KN_WIDTH) ints;
#define KN_TO_INTS KN_JOIN(convert_int, KN_WIDTH)
#define KN_LOAD KN_JOIN(vload, KN_WIDTH)
#define KN_STORE KN_JOIN(vstore, KN_WIDTH)
#define KN_PAIR(first, second) (((first)&0xffff) | (second) << 16)

/* sum + the products of both halves of each lane. Compilers know even times even plus odd times odd as one instruction,
 * but only of whole vectors. */
#if KN_WIDTH == 4
#define KN_SHORTS short8
#elif KN_WIDTH == 8
#define KN_SHORTS short16
#elif defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
typedef short shorts __attribute__((ext_vector_type(2 * KN_WIDTH)));
#define KN_SHORTS shorts
#endif
KN_INLINE ints add_products(ints sum, ints left, ints right) {
#ifdef KN_SHORTS
#ifdef __clang__
    const KN_SHORTS a = __builtin_astype(left, KN_SHORTS), b = __builtin_astype(right, KN_SHORTS);
#else
    const KN_SHORTS a = KN_JOIN(as_, KN_SHORTS)(left), b = KN_JOIN(as_, KN_SHORTS)(right);
#endif
    return sum + (KN_TO_INTS(a.even) * KN_TO_INTS(b.even) + KN_TO_INTS(a.odd) * KN_TO_INTS(b.odd));
#else
    const short16 a = as_short16(left.lo), b = as_short16(right.lo), c = as_short16(left.hi),
                  d = as_short16(right.hi);
    sum.lo += convert_int8(a.even) * convert_int8(b.even) + convert_int8(a.odd) * convert_int8(b.odd);
    sum.hi += convert_int8(c.even) * convert_int8(d.even) + convert_int8(c.odd) * convert_int8(d.odd);
    return sum;
#endif
}

/* ---- packing --------------------------------------------------------------- */

/* panel [pair][KN_COLUMNS] from B(depth,columns) in rows of n; 0 beyond. */
KN_INLINE void pack_right(global const KN_B *b, int n, int columns, int depth, global const KN_B *zero,
                          KN_INDEX zero_column, local int *panel) {
    for (int k = 0; k < depth; k += 2, b += 2 * (KN_INDEX)n, panel += KN_COLUMNS) {
        const bool both = k + 1 < depth;
        for (int v = 0; v < KN_VECTORS; v++) {
            const int column = v * KN_WIDTH, count = columns - column;
            if (count >= KN_WIDTH) {
                ints less = 0, second = 0;
                if (zero) less = zero_column ? KN_TO_INTS(KN_LOAD(v, zero)) : (ints)((int)zero[0]);
                const ints first = KN_TO_INTS(KN_LOAD(v, b)) - less;
                if (both) second = KN_TO_INTS(KN_LOAD(v, b + n)) - less;
                KN_STORE(KN_PAIR(first, second), v, panel);
                continue;
            }
            for (int lane = 0; lane < KN_WIDTH; lane++) {
                int first = 0, second = 0;
                if (lane < count) {
                    const int less = zero ? zero[(column + lane) * zero_column] : 0;
                    first = b[column + lane] - less;
                    if (both) second = b[n + column + lane] - less;
                }
                panel[column + lane] = KN_PAIR(first, second);
            }
        }
    }
}

/* packed [row][KN_PAIRS] from A(rows,depth) in rows of k. */
KN_INLINE void pack_left(global const KN_A *a, int k, int rows, int depth, global const KN_A *zero,
                         KN_INDEX zero_row, local int *packed) {
    for (int row = 0; row < rows; row++, a += k, packed += KN_PAIRS) {
        const int less = zero ? zero[row * zero_row] : 0;
        int at = 0;
        for (; at + 16 <= depth; at += 16)
            vstore8(as_int8(convert_short16(vload16(0, a + at)) - (short)less), 0, packed + at / 2);
        for (; at < depth; at += 2) {
            const int first = a[at] - less, second = at + 1 < depth ? a[at + 1] - less : 0;
            packed[at / 2] = KN_PAIR(first, second);
        }
    }
}

/* ---- the product ----------------------------------------------------------- */

#define KN_ZERO(row, v) ints sum##row##_##v = 0;
#define KN_START(row)                                                                                        \
    local const int *a##row = a + row * KN_PAIRS;                                                            \
    KN_EACH(KN_ZERO, row)
#define KN_RIGHT(row, v) const ints right##v = KN_LOAD(v, b);
#define KN_ADD(row, v) sum##row##_##v = add_products(sum##row##_##v, left, right##v);
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const ints left = a##row[pair];                                                                      \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_KEEP_VECTOR(row, v) KN_STORE(sum##row##_##v, row *KN_VECTORS + v, result);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)

/* result (rows,KN_COLUMNS) = A(rows,pairs) · panel(pairs,KN_COLUMNS) */
#define KN_TILE(name, each_row)                                                                              \
    KN_APART void name(local const int *a, local const int *b, int pairs, int *result) {                     \
        each_row(KN_START);                                                                                  \
        for (int pair = 0; pair < pairs; pair++, b += KN_COLUMNS) {                                          \
            KN_EACH(KN_RIGHT, 0);                                                                            \
            each_row(KN_STEP);                                                                               \
        }                                                                                                    \
        each_row(KN_KEEP);                                                                                   \
    }
KN_TILE(tile_6, KN_ROWS_6)
KN_TILE(tile_4, KN_ROWS_4)
KN_TILE(tile_1, KN_ROWS_1)

KN_WIDE kn_matmul_integer(global const KN_A *restrict a, global const KN_B *restrict b, global int *restrict c,
                          global const KN_A *restrict a_zero, global const KN_B *restrict b_zero, int m, int n,
                          int k, KN_INDEX a_zero_row, KN_INDEX b_zero_column, int batch_inner,
                          KN_INDEX a_outer, KN_INDEX a_inner, KN_INDEX b_outer, KN_INDEX b_inner,
                          int item_rows, int item_panels, int chunk_depth) {
    local int right[KN_PANELS * KN_PAIRS * KN_COLUMNS];
    local int packed[KN_LEFT_ROWS * KN_PAIRS];
    int result[KN_ROWS * KN_COLUMNS];
    const int batch = get_global_id(2), outer = batch / batch_inner, inner = batch % batch_inner;
    a += outer * a_outer + inner * a_inner;
    b += outer * b_outer + inner * b_inner;
    c += (KN_INDEX)batch * m * n;
    const int row0 = get_global_id(0) * item_rows, row_end = min(row0 + item_rows, m);
    const int panel0 = get_global_id(1) * item_panels;
    const int panel_end = min(panel0 + item_panels, (n + KN_COLUMNS - 1) / KN_COLUMNS);

    for (int k0 = 0; k0 == 0 || k0 < k; k0 += chunk_depth) {
        const int depth = min(chunk_depth, k - k0), pairs = (depth + 1) / 2;
        for (int p = panel0; p < panel_end; p++)
            pack_right(b + (KN_INDEX)k0 * n + p * KN_COLUMNS, n, n - p * KN_COLUMNS, depth,
                       b_zero ? b_zero + (KN_INDEX)p * KN_COLUMNS * b_zero_column : 0, b_zero_column,
                       right + (p - panel0) * KN_PAIRS * KN_COLUMNS);
        for (int first = row0; first < row_end; first += KN_LEFT_ROWS) {
            const int block_end = min(first + KN_LEFT_ROWS, row_end);
            pack_left(a + (KN_INDEX)first * k + k0, k, block_end - first, depth,
                      a_zero ? a_zero + first * a_zero_row : 0, a_zero_row, packed);
            for (int p = panel0; p < panel_end; p++) {
                local const int *panel = right + (p - panel0) * KN_PAIRS * KN_COLUMNS;
                for (int i = first; i < block_end;) {
                    local const int *left = packed + (i - first) * KN_PAIRS;
                    const int remaining = block_end - i;
                    const int rows = remaining >= KN_ROWS && remaining != 8 ? 6 : remaining >= 4 ? 4 : 1;
                    if (rows == 6)
                        tile_6(left, panel, pairs, result);
                    else if (rows == 4)
                        tile_4(left, panel, pairs, result);
                    else
                        tile_1(left, panel, pairs, result);
                    for (int r = 0; r < rows; r++, i++) {
                        global int *to = c + (KN_INDEX)i * n + p * KN_COLUMNS;
                        const int *from = result + r * KN_COLUMNS;
                        const int columns = min(n - p * KN_COLUMNS, KN_COLUMNS);
                        int column = 0;
                        for (; column + KN_WIDTH <= columns; column += KN_WIDTH) {
                            ints sum = KN_LOAD(0, from + column);
                            if (k0 > 0) sum += KN_LOAD(0, to + column);
                            KN_STORE(sum, 0, to + column);
                        }
                        for (; column < columns; column++)
                            to[column] = from[column] + (k0 > 0 ? to[column] : 0);
                    }
                }
            }
        }
    }
}
