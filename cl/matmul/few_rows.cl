/* How products of few rows, c (M,N), store their sums. The kernels have n, middle, c and the operands of the epilogue.
 *
 * KN_STORE_RESULT(sum, row, column)   stores an element of c after the epilogue
 * KN_STORE_SUMS(sums)                 adds the sums (KN_ROWS,KN_COLUMNS) of a work-group's KN_ITEMS work-items by a tree
 *                                     in local memory `tree` (KN_SUMS,KN_ITEMS) and stores them at (row0, column0) */
#define KN_STORE_RESULT(sum, row, column)                                                                    \
    {                                                                                                        \
        const float result = KN_EPILOGUE(sum, (row) / middle, (row) % middle, column);                       \
        KN_WRITE_AS(KN_HALF_c, result, c + (KN_INDEX)(row) * n + (column));                                  \
    }
#define KN_STORE_SUMS(sums)                                                                                  \
    {                                                                                                        \
        for (int i = 0; i < KN_SUMS; i++)                                                                    \
            tree[i * KN_ITEMS + item] = sum_of(sums[i]);                                                     \
        for (int others = KN_ITEMS / 2; others > 0; others /= 2) {                                           \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            for (int i = 0; i < KN_SUMS && item < others; i++)                                               \
                tree[i * KN_ITEMS + item] += tree[i * KN_ITEMS + item + others];                             \
        }                                                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        for (int i = item; i < KN_SUMS; i += KN_ITEMS) {                                                     \
            const int row = row0 + i / KN_COLUMNS, column = column0 + i % KN_COLUMNS;                        \
            if (row < m && column < n) KN_STORE_RESULT(tree[i * KN_ITEMS], row, column)                      \
        }                                                                                                    \
    }
