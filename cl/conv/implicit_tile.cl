/* Convolutions as implicit matrix products, whose right side is never stored: the code that the three files
 * implicit*.cl have in common.
 *
 * right(k,j) is a pixel: column j has a position in the source (an image's plane, y and x), and so has k; the two
 * are added, and pixels outside the image are 0. The positions of KN_TILE_K values of k are in a table in local
 * memory, written by a few work-items, so that pixels need no division.
 * left(i,k) is weight[i * left_row + the table's left].
 *
 * Sizes, strides, padding and dilation are arguments, batch included. Defines: those of common/tile.cl, and
 *   KN_STRIDED 0   1: positions are divided by the stride, for the gradient of the data */
#ifndef KN_IMPLICIT_TILE_CL
#define KN_IMPLICIT_TILE_CL
#include "common/tile.cl"
#ifndef KN_STRIDED
#define KN_STRIDED 0
#endif

typedef struct place {
    KN_INDEX base;
    int y, x;
} place;

typedef struct window {
    int height, width; /* of the source's planes */
    int stride_y, stride_x;
} window;

/* Adjacent work-items load adjacent pixels: one column each, or several if there are fewer work-items than columns.
 * */
#define KN_ITEM_COLUMNS ((KN_TILE_N + KN_ITEMS - 1) / KN_ITEMS)
#define KN_ROW_STEP (KN_ITEMS > KN_TILE_N ? KN_ITEMS / KN_TILE_N : 1)
#define KN_OUTSIDE (-(1 << 28))

#define KN_LOCAL_MEMORY                                                                                      \
    local KN_A left[KN_TILE_K * KN_LEFT_ROW];                                                                \
    local KN_A right[KN_TILE_K * KN_RIGHT_ROW];                                                              \
    local KN_INDEX table_base[KN_TILE_K], table_left[KN_TILE_K];                                             \
    local int table_y[KN_TILE_K], table_x[KN_TILE_K];

static inline void load_left(global const KN_T *source, KN_INDEX stride, int i0, int i_end, int k0, int k_end,
                             local const KN_INDEX *table_left, local KN_A *left) {
    for (int at = get_local_id(0); at < KN_TILE_M * KN_TILE_K; at += KN_ITEMS) {
        const int k = at % KN_TILE_K, i = at / KN_TILE_K;
        const bool inside = i0 + i < i_end && k0 + k < k_end;
        left[k * KN_LEFT_ROW + i] = inside ? KN_TO_A(source[(i0 + i) * stride + table_left[k]]) : 0;
    }
}

static inline void load_right(global const KN_T *source, const window *window, const place *columns,
                              local const KN_INDEX *table_base, local const int *table_y,
                              local const int *table_x, local KN_A *right) {
    for (int c = 0; c < KN_ITEM_COLUMNS; c++) {
        const int column = (get_local_id(0) + c * KN_ITEMS) % KN_TILE_N;
        for (int k = get_local_id(0) / KN_TILE_N; k < KN_TILE_K; k += KN_ROW_STEP) {
            int y = columns[c].y + table_y[k], x = columns[c].x + table_x[k];
#if KN_STRIDED
            const bool between = y % window->stride_y != 0 || x % window->stride_x != 0;
            y /= window->stride_y;
            x /= window->stride_x;
#else
            const bool between = false;
#endif
            const bool inside = !between && y >= 0 && y < window->height && x >= 0 && x < window->width;
            right[k * KN_RIGHT_ROW + column] =
                inside ? KN_TO_A(source[columns[c].base + table_base[k] + (KN_INDEX)y * window->width + x])
                       : 0;
        }
    }
}

/* sums = the part of the product from k_first to k_end, for rows from row0 to row_end of the left side.
 * KN_PLACE_TABLE(k, at) sets the table's entry `at` for k. */
#define KN_IMPLICIT_PRODUCT(weight, left_row, row0, row_end, source, window, columns)                        \
    sums_clear(&sums);                                                                                       \
    for (int k0 = k_first; k0 < k_end; k0 += KN_TILE_K) {                                                    \
        for (int at = get_local_id(0); at < KN_TILE_K; at += KN_ITEMS)                                       \
            if (k0 + at < k_end) {                                                                           \
                KN_PLACE_TABLE(k0 + at, at)                                                                  \
            } else {                                                                                         \
                table_base[at] = table_left[at] = 0;                                                         \
                table_y[at] = table_x[at] = KN_OUTSIDE;                                                      \
            }                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        load_left(weight, left_row, row0, row_end, k0, k_end, table_left, left);                             \
        load_right(source, &window, columns, table_base, table_y, table_x, right);                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        sums_add(&sums, left, right);                                                                        \
    }

/* Stores the sums: for a column of the result, KN_RESULT_COLUMN sets what KN_RESULT needs and `first`; the element
 * of channel channel0 + row is at first + channel * plane, and KN_RESULT(sum, channel) is its epilogue. partials,
 * with parts > 1, has the result's shape. */
#define KN_STORE_SUMS(result, partials, row0, rows, column0, columns, channel0, plane)                         \
    _Pragma("unroll") for (int j = 0; j < KN_ITEM_N; j++) {                                                  \
        const KN_INDEX column = column0 + KN_COLUMN(j / 4) + j % 4;                                          \
        if (column < columns) {                                                                              \
            KN_RESULT_COLUMN(column)                                                                         \
            _Pragma("unroll") for (int i = 0; i < KN_ITEM_M; i++) {                                          \
                const KN_INDEX row = row0 + KN_ROW(i), channel = channel0 + row;                             \
                const KN_INDEX at = first + channel * plane;                                                 \
                const KN_A4 four = sums.at[i][j / 4];                                                        \
                const KN_A sum = j % 4 == 0   ? four.s0                                                      \
                                 : j % 4 == 1 ? four.s1                                                      \
                                 : j % 4 == 2 ? four.s2                                                      \
                                              : four.s3;                                                     \
                if (row < rows) {                                                                            \
                    if (parts > 1)                                                                           \
                        partials[at] = sum;                                                                    \
                    else                                                                                     \
                        result[at] = KN_TO_T(KN_RESULT(sum, channel));                                       \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
#endif
