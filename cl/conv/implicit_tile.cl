/* Convolutions as implicit matrix products, whose right side is never stored: the code that the three files
 * implicit*.cl have in common.
 *
 * right(k,j) is a pixel: column j has a position in the source (an image's plane, y and x), and so has k; the two
 * are added, and pixels outside the image are 0. The positions of KN_TILE_K values of k are in a table in local
 * memory, written by a few work-items, so that pixels need no division.
 * left(i,k) is weight[i * left_row + the table's left].
 *
 * Sizes, strides, padding and dilation are arguments, batch included. Defines: those of common/tile.cl, and
 *   KN_LEFT_VECTOR 1    4: loads the left side four at a time. Four values of k, from a multiple of four on, are
 *                       adjacent there; with KN_LEFT_ACROSS four rows
 *   KN_RIGHT_VECTOR 1   4: the same of the right side, with KN_RIGHT_ACROSS four columns
 *   KN_LEFT_HALF, KN_RIGHT_HALF, KN_RESULT_HALF   how left_from, right_from and the result are stored
 *                       (common/storage.cl), set by the file that includes this one */
#ifndef KN_IMPLICIT_TILE_CL
#define KN_IMPLICIT_TILE_CL
#ifndef KN_LEFT_VECTOR
#define KN_LEFT_VECTOR 1
#endif
#ifndef KN_RIGHT_VECTOR
#define KN_RIGHT_VECTOR 1
#endif
#include "common/divide.cl"
#include "common/storage.cl"
#include "common/tile.cl"

typedef struct window {
    int height, width; /* of the source's planes */
} window;

/* A column's position: `at` is the offset of (y,x) in the source. */
typedef struct place {
    KN_INDEX at;
    int y, x;
} place;

/* What k adds to a column's position, and its offset in a row of the left side. */
typedef struct entry {
    KN_INDEX at, left;
    int y, x;
} entry;

/* KN_LEFT_ACROSS 1: adjacent work-items load adjacent rows; 0: adjacent k. */
#ifndef KN_LEFT_ACROSS
#define KN_LEFT_ACROSS 0
#endif
/* KN_RIGHT_ACROSS 1: adjacent work-items load adjacent columns; 0: adjacent k. */
#ifndef KN_RIGHT_ACROSS
#define KN_RIGHT_ACROSS 1
#endif
#define KN_LEFT_PIECES KN_PIECES(KN_TILE_M, KN_LEFT_VECTOR)
#define KN_RIGHT_PIECES KN_PIECES(KN_TILE_N, KN_RIGHT_VECTOR)
#define KN_LEFT_PIECE KN_OF(KN_PIECE_, KN_LEFT_VECTOR)
#define KN_RIGHT_PIECE KN_OF(KN_PIECE_, KN_RIGHT_VECTOR)
/* The position of piece p's column, and with KN_RIGHT_ACROSS the column of the tile whose position is places[q]. */
#if KN_RIGHT_ACROSS
#define KN_RIGHT_WIDTH KN_PIECE_WIDTH(1, KN_TILE_N, KN_RIGHT_VECTOR)
#define KN_PLACES (KN_RIGHT_WIDTH > KN_ITEMS ? KN_RIGHT_WIDTH / KN_ITEMS : 1)
#define KN_PLACE_OF(p) places[(p) % KN_PLACES]
#define KN_PLACE_COLUMN(q) piece_at(q, 1, KN_TILE_N, KN_RIGHT_VECTOR).i
#else
#define KN_PLACE_OF(p) places[piece_at(p, 0, KN_TILE_N, KN_RIGHT_VECTOR).i]
#endif
#define KN_OUTSIDE (-(1 << 28))

#define KN_LOCAL_MEMORY                                                                                      \
    KN_SLICES(2)                                                                                             \
    local entry table[2 * KN_TILE_K];

/* Writes the table for the slice at k0. KN_WRITE_ENTRY(k) sets the entry of k. */
#define KN_WRITE_TABLE(k0, turn)                                                                             \
    for (int at = get_local_id(0); at < KN_TILE_K; at += KN_ITEMS) {                                         \
        entry entry = {0, 0, KN_OUTSIDE, 0};                                                                 \
        if ((k0) + at < k_end) {                                                                             \
            KN_WRITE_ENTRY((k0) + at)                                                                        \
        }                                                                                                    \
        table[(turn) * KN_TILE_K + at] = entry;                                                              \
    }
/* The distance of a pixel from the beginning of its plane. */
#define KN_OFFSET(y, x) ((KN_INDEX)(y) * window.width + (x))

/* sums = the part of the product from k_first to k_end. The kernel declares left_from, whose rows of left_row elements
 * end at row_end (those beyond repeat the last), right_from, window and places: with KN_RIGHT_ACROSS those of this
 * work-item's columns, otherwise those of all columns of the tile, in local memory. While the elements of a slice are
 * loaded, the table of the next is written. */
#define KN_IMPLICIT_PRODUCT                                                                                  \
    KN_LEFT_PIECE left_next[KN_LEFT_PIECES];                                                                 \
    KN_RIGHT_PIECE right_next[KN_RIGHT_PIECES];                                                              \
    int loaded = 0;                                                                                          \
    sums sums;                                                                                               \
    sums_clear(&sums);                                                                                       \
    KN_WRITE_TABLE(k_first, 0)                                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    KN_ADD_SLICES(k_first, k_end, KN_FETCH_SLICE, KN_PUT_SLICE)
/* A piece of KN_LEFT or KN_RIGHT. */
#define KN_LOAD_SIDE(side, pointer) KN_OF(KN_LOAD_AS_, side##_VECTOR)(side##_HALF, pointer)
#define KN_LOAD_AS_1(kind, pointer) KN_TO_A(KN_READ_AS(kind, pointer))
#define KN_LOAD_AS_4(kind, pointer) KN_TO_A4(KN_READ_4_AS(kind, pointer))
#define KN_FETCH_SLICE(k0)                                                                                   \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {                                                     \
        const position place = piece_at(p, KN_LEFT_ACROSS, KN_TILE_M, KN_LEFT_VECTOR);                       \
        const int i = min(row0 + place.i, row_end - (KN_LEFT_ACROSS ? KN_LEFT_VECTOR : 1));                  \
        const KN_INDEX at = i * left_row + table[loaded * KN_TILE_K + place.k].left;                         \
        left_next[p] =                                                                                       \
            (k0) + place.k < k_end ? KN_LOAD_SIDE(KN_LEFT, left_from + at) : (KN_LEFT_PIECE)0;               \
    }                                                                                                        \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++) {                                                    \
        const int k = piece_at(p, KN_RIGHT_ACROSS, KN_TILE_N, KN_RIGHT_VECTOR).k;                            \
        const entry entry = table[loaded * KN_TILE_K + k];                                                   \
        const place place = KN_PLACE_OF(p);                                                                  \
        const bool inside = (uint)(place.y + entry.y) < (uint)window.height &&                               \
                            (uint)(place.x + entry.x) < (uint)window.width;                                  \
        right_next[p] = inside ? KN_LOAD_SIDE(KN_RIGHT, right_from + place.at + entry.at)                    \
                               : (KN_RIGHT_PIECE)0;                                                          \
    }                                                                                                        \
    loaded = 1 - loaded;                                                                                     \
    KN_WRITE_TABLE((k0) + KN_TILE_K, loaded)
#define KN_PUT_SLICE(turn)                                                                                   \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++)                                                       \
        KN_OF(put_, KN_LEFT_VECTOR)(left_next[p], p, KN_LEFT_ACROSS, KN_TILE_M, KN_LEFT_ROW,                 \
                                    left + (turn) * KN_LEFT_SLICE);                                          \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++)                                                      \
        KN_OF(put_, KN_RIGHT_VECTOR)(right_next[p], p, KN_RIGHT_ACROSS, KN_TILE_N, KN_RIGHT_ROW,             \
                                     right + (turn) * KN_RIGHT_SLICE);

/* Stores the sums: for a column of the result, KN_RESULT_COLUMN sets what KN_RESULT needs and `first`; the element
 * of channel channel0 + row is at first + channel * plane, and KN_RESULT(sum, channel) is its epilogue. partials,
 * with parts > 1, has the result's shape. */
#define KN_STORE_SUMS(result, partials, row0, rows, column0, columns, channel0, plane)                       \
    KN_UNROLL for (int j = 0; j < KN_ITEM_N; j++) {                                                          \
        const KN_INDEX column = column0 + KN_COLUMN(j / 4) + j % 4;                                          \
        if (column < columns) {                                                                              \
            KN_RESULT_COLUMN(column)                                                                         \
            KN_UNROLL for (int i = 0; i < KN_ITEM_M; i++) {                                                  \
                const KN_INDEX row = row0 + KN_ROW(i), channel = channel0 + row;                             \
                const KN_INDEX at = first + channel * plane;                                                 \
                const KN_A4 four = sums.at[i][j / 4];                                                        \
                const KN_A sum = j % 4 == 0   ? four.s0                                                      \
                                 : j % 4 == 1 ? four.s1                                                      \
                                 : j % 4 == 2 ? four.s2                                                      \
                                              : four.s3;                                                     \
                if (row < rows) {                                                                            \
                    if (parts > 1)                                                                           \
                        partials[at] = sum;                                                                  \
                    else                                                                                     \
                        KN_WRITE_AS(KN_RESULT_HALF, KN_TO_T(KN_RESULT(sum, channel)), result + at);          \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
#endif
