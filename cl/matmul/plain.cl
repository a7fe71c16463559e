/* Matrix products, one work-item per result, for devices where no other kernel works correctly: no local memory, no
 * vectors, and sums in runs, to limit rounding errors.
 *
 * Defines, with their defaults:
 *   KN_T, KN_A            types of elements in memory, and of products and sums (common/types.cl)
 *   KN_HALF_a, _b, _c 0   whether they are stored in 16 bits (common/storage.cl)
 *
 * kn_matmul_plain(a, b, c, count, m, n, k, middle, inner, a_outer, a_middle, a_inner, a_row, a_step, b_outer, b_middle,
 *                 b_inner, b_column, b_step)
 *   count results, c (batches,M,N); the batches as in matmul/tiled.cl. Element (row, k) of a matrix of a is at
 *   row * a_row + k * a_step, element (k, column) of one of b at column * b_column + k * b_step.
 * kn_matmul_integer_plain(a, b, c, a_zero, b_zero, present, count, …, b_step, a_zero_row, b_zero_column, a_signed,
 *                         b_signed)
 *   bytes, int8 where `signed`, minus their zero points (absent: 0) as in matmul/integer_tiled.cl */
#include "common/present.cl"
#include "common/storage.cl"
#include "common/types.cl"
#include "common/wanted.cl"

#define KN_SIZES                                                                                             \
    KN_INDEX count, int m, int n, int k, int middle, int inner, KN_INDEX a_outer, KN_INDEX a_middle,         \
        KN_INDEX a_inner, KN_INDEX a_row, KN_INDEX a_step, KN_INDEX b_outer, KN_INDEX b_middle,              \
        KN_INDEX b_inner, KN_INDEX b_column, KN_INDEX b_step
/* The matrices of a work-item's batch, at its row and its column. */
#define KN_PLACES                                                                                            \
    const KN_INDEX i = get_global_id(0);                                                                     \
    if (i >= count) return;                                                                                  \
    const KN_INDEX column = i % n, row = i / n % m, batch = i / n / m;                                       \
    a += batch / inner / middle * a_outer + batch / inner % middle * a_middle + batch % inner * a_inner +    \
         row * a_row;                                                                                        \
    b += batch / inner / middle * b_outer + batch / inner % middle * b_middle + batch % inner * b_inner +    \
         column * b_column;

#if KN_WANTED(kn_matmul_plain)
kernel void kn_matmul_plain(global const KN_STORED(KN_HALF_a) *restrict a,
                            global const KN_STORED(KN_HALF_b) *restrict b,
                            global KN_STORED(KN_HALF_c) *restrict c, KN_SIZES) {
    KN_PLACES
    KN_A sum = 0;
    for (int first = 0; first < k; first += 256) {
        KN_A run = 0;
        for (int at = first; at < min(first + 256, k); at++)
            run += (KN_A)KN_READ_AS(KN_HALF_a, a + at * a_step) * (KN_A)KN_READ_AS(KN_HALF_b, b + at * b_step);
        sum += run;
    }
    KN_WRITE_AS(KN_HALF_c, (KN_T)sum, c + i);
}
#endif

#if KN_WANTED(kn_matmul_integer_plain)
enum { kn_at_a_zero = 3, kn_at_b_zero = 4 };

static int number(uchar byte, int is_signed) {
    return is_signed && byte > 127 ? byte - 256 : byte;
}

kernel void kn_matmul_integer_plain(global const uchar *restrict a, global const uchar *restrict b,
                                    global int *restrict c, global const uchar *restrict a_zero,
                                    global const uchar *restrict b_zero, uint present, KN_SIZES,
                                    KN_INDEX a_zero_row, KN_INDEX b_zero_column, int a_signed, int b_signed) {
    KN_PLACES
    const int less_a = KN_PRESENT(a_zero) ? number(a_zero[row * a_zero_row], a_signed) : 0;
    const int less_b = KN_PRESENT(b_zero) ? number(b_zero[column * b_zero_column], b_signed) : 0;
    int sum = 0;
    for (int at = 0; at < k; at++)
        sum += (number(a[at * a_step], a_signed) - less_a) * (number(b[at * b_step], b_signed) - less_b);
    c[i] = sum;
}
#endif
