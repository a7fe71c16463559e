/* Convolutions as implicit matrix products, whose right side is never stored: code shared by the three files
 * implicit*.cl.
 *
 * right(k,j) is a pixel: column j has a position in the source (an image's plane, y and x), and so has k; the two
 * are added, and pixels outside the image are 0. The positions of KN_TILE_K values of k are in a table in local
 * memory, written by a few work-items, so that pixels need no division.
 * left(i,k) is weight[i * left_row + the table's left].
 *
 * Sizes, strides, padding and dilation are arguments, batch included. Defines: those of common/tile.cl, and
 *   KN_LEFT_ACROSS 0    1: adjacent work-items load adjacent rows of the left side; 0: adjacent k
 *   KN_LEFT_VECTOR 1    4: loads the left side four at a time. Four values of k, starting at a multiple of four, are
 *                       adjacent there; with KN_LEFT_ACROSS four rows
 *   KN_LEFT_NINE 0      1: KN_TILE_K is 9, and for nine values of k, starting at a multiple of nine, all rows of the
 *                       left side are adjacent in memory, row by row, at k * row_end. row_end is a multiple of
 *                       KN_TILE_M, which is KN_ITEMS; part_depth and all of k are multiples of 9
 *   KN_RIGHT_VECTOR 1   4: the same of the right side, with KN_RIGHT_ACROSS four columns. With KN_FRAGMENT also 8, of 16 bits
 *   KN_RESULT_VECTOR 1  4: stores four columns at a time, which are adjacent in the result starting at a multiple of
 *                       four
 *   KN_SMALL_SIDES 0    1: both sides have less than 2^32 bytes; not with KN_FRAGMENT
 *   KN_TAP_BITS 0       1: filters have 32 taps at most; not with KN_FRAGMENT. Which taps are inside the image is then
 *                       stored in a bit for each tap, in `y` of a column's position; `y` of k's has the bit of its tap
 *   KN_DIRECT           defined for devices whose local memory is part of global memory: each work-item reads what it
 *                       multiplies from global memory (conv/implicit_direct.cl); without the table, slices and barriers
 *   KN_LEFT_HALF, KN_RIGHT_HALF, KN_RESULT_HALF   storage types of left_from, right_from and the result
 *                       (common/storage.cl), set by the file that includes this one */
#ifndef KN_IMPLICIT_TILE_CL
#define KN_IMPLICIT_TILE_CL
#ifndef KN_LEFT_ACROSS
#define KN_LEFT_ACROSS 0
#endif
#ifndef KN_LEFT_VECTOR
#define KN_LEFT_VECTOR 1
#endif
#ifndef KN_LEFT_NINE
#define KN_LEFT_NINE 0
#endif
#ifndef KN_RIGHT_VECTOR
#define KN_RIGHT_VECTOR 1
#endif
#ifndef KN_RESULT_VECTOR
#define KN_RESULT_VECTOR 1
#endif
#ifndef KN_SMALL_SIDES
#define KN_SMALL_SIDES 0
#endif
#ifndef KN_TAP_BITS
#define KN_TAP_BITS 0
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

static inline bool is_in_window(const place place, const int y, const int x, const window window) {
    return ((uint)(place.y + y) < (uint)window.height) & ((uint)(place.x + x) < (uint)window.width);
}
#if KN_TAP_BITS
#define KN_OUTSIDE 0
#define KN_SET_TAP(tap) entry.y = (int)(1u << (tap));
static inline bool is_inside(const place place, const entry entry, const window window) {
    return (place.y & entry.y) != 0;
}
/* Sets the bits of a column, for taps that are step_y and step_x apart. */
static inline void set_taps(place *place, const int taps_y, const int taps_x, const int step_y, const int step_x,
                            const window window) {
    uint bits = 0;
    for (int y = 0; y < taps_y; y++)
        for (int x = 0; x < taps_x; x++)
            bits |= (uint)is_in_window(*place, y * step_y, x * step_x, window) << (y * taps_x + x);
    place->y = (int)bits;
}
#else
#define KN_OUTSIDE (-(1 << 28))
#define KN_SET_TAP(tap)
static inline bool is_inside(const place place, const entry entry, const window window) {
    return is_in_window(place, entry.y, entry.x, window);
}
static inline void set_taps(place *place, const int taps_y, const int taps_x, const int step_y, const int step_x,
                            const window window) {
}
#endif

/* The distance of a pixel from the beginning of its plane. */
#define KN_OFFSET(y, x) ((KN_INDEX)(y) * window.width + (x))
/* Element `at` of a side. Many devices can add a 32-bit byte offset to an address as they load. */
#if KN_SMALL_SIDES
#define KN_ELEMENT(kind, from, at)                                                                           \
    ((global const KN_STORED(kind) *)((global const char *)(from) +                                          \
                                      (uint)(at) * (kind ? 2u : (uint)sizeof(KN_T))))
#else
#define KN_ELEMENT(kind, from, at) ((from) + (at))
#endif
/* A piece of KN_LEFT or KN_RIGHT. */
#define KN_LOAD_SIDE(side, from, at)                                                                         \
    KN_OF(KN_LOAD_AS_, side##_VECTOR)(side##_HALF, KN_ELEMENT(side##_HALF, from, at))
#define KN_LOAD_AS_1(kind, pointer) KN_TO_A(KN_READ_AS(kind, pointer))
#define KN_LOAD_AS_4(kind, pointer) KN_TO_A4(KN_READ_4_AS(kind, pointer))

/* KN_RIGHT_ACROSS 1: adjacent work-items load adjacent columns; 0: adjacent k. */
#ifndef KN_RIGHT_ACROSS
#define KN_RIGHT_ACROSS 1
#endif
#ifdef KN_FRAGMENT
/* Elements that are not loaded four or eight at a time are gathered: on the left along k, on the right in deep pieces
 * with KN_RIGHT_ACROSS, otherwise along k. */
#if KN_LEFT_VECTOR == 1
#define KN_LEFT_ORDER KN_ALONG
#define KN_LEFT_COUNT 2
#else
#define KN_LEFT_ORDER KN_LEFT_ACROSS
#define KN_LEFT_COUNT KN_LEFT_VECTOR
#endif
#if KN_RIGHT_VECTOR == 1 && KN_RIGHT_ACROSS
#define KN_RIGHT_ORDER KN_DEEP
#define KN_RIGHT_COUNT KN_DEEP_COUNT
#elif KN_RIGHT_VECTOR == 1
#define KN_RIGHT_ORDER KN_ALONG
#define KN_RIGHT_COUNT 2
#else
#define KN_RIGHT_ORDER KN_RIGHT_ACROSS
#define KN_RIGHT_COUNT KN_RIGHT_VECTOR
#endif
#define KN_LEFT_PIECES KN_PIECES(KN_TILE_M, KN_LEFT_COUNT, KN_LEFT_ORDER)
#define KN_RIGHT_PIECES KN_PIECES(KN_TILE_N, KN_RIGHT_COUNT, KN_RIGHT_ORDER)
#define KN_LEFT_PIECE KN_PASTE(piece_, KN_LEFT_COUNT)
#define KN_RIGHT_PIECE KN_PASTE(piece_, KN_RIGHT_COUNT)
#define KN_LEFT_PIECE_AT(p) piece_at(p, KN_LEFT_ORDER, KN_TILE_M, KN_LEFT_COUNT)
#define KN_RIGHT_PIECE_AT(p) piece_at(p, KN_RIGHT_ORDER, KN_TILE_N, KN_RIGHT_COUNT)
#define KN_COLUMNS_OF_ITEM KN_RIGHT_PIECES
#else
#define KN_LEFT_PIECES KN_PIECES(KN_TILE_M, KN_LEFT_VECTOR)
#define KN_RIGHT_PIECES KN_PIECES(KN_TILE_N, KN_RIGHT_VECTOR)
#define KN_LEFT_PIECE KN_OF(KN_PIECE_, KN_LEFT_VECTOR)
#define KN_RIGHT_PIECE KN_OF(KN_PIECE_, KN_RIGHT_VECTOR)
#define KN_RIGHT_PIECE_AT(p) piece_at(p, KN_RIGHT_ACROSS, KN_TILE_N, KN_RIGHT_VECTOR)
#define KN_COLUMNS_OF_ITEM (KN_PIECE_WIDTH(1, KN_TILE_N, KN_RIGHT_VECTOR) / KN_ITEMS)
#endif
#ifdef KN_DIRECT
#include "conv/implicit_direct.cl"
#else
/* The position of piece p's column, and with KN_RIGHT_ACROSS the column of the tile whose position is places[q]. */
#if KN_RIGHT_ACROSS
#define KN_EACH_PLACE                                                                                        \
    place places[KN_PLACES];                                                                                 \
    KN_UNROLL for (int q = 0; q < KN_PLACES; q++)
#define KN_PLACES (KN_COLUMNS_OF_ITEM > 1 ? KN_COLUMNS_OF_ITEM : 1)
#define KN_PLACE_OF(p) places[(p) % KN_PLACES]
#define KN_PLACE_COLUMN(q) KN_RIGHT_PIECE_AT(q).i
#else
#define KN_EACH_PLACE                                                                                        \
    local place places[KN_TILE_N];                                                                           \
    for (int q = get_local_id(0); q < KN_TILE_N; q += KN_ITEMS)
#define KN_PLACE_OF(p) places[KN_RIGHT_PIECE_AT(p).i]
#define KN_PLACE_COLUMN(q) (q)
#endif

#define KN_LOCAL_MEMORY                                                                                      \
    KN_SLICES(2)                                                                                             \
    local entry table[2 * KN_TILE_K];

/* Writes the table for the slice at k0, starting at table[turn]. KN_WRITE_ENTRY(k) sets the entry of k; pixels for k >=
 * `count` are outside. */
#define KN_WRITE_TABLE(k0, count, turn)                                                                      \
    for (int at = get_local_id(0); at < KN_TILE_K; at += KN_ITEMS) {                                         \
        entry entry = {0, 0, KN_OUTSIDE, 0};                                                                 \
        if ((count) == KN_TILE_K || at < (count)) {                                                          \
            KN_WRITE_ENTRY((k0) + at)                                                                        \
        }                                                                                                    \
        table[(turn) + at] = entry;                                                                          \
    }
/* sums = the part of the product from k_first to k_end. The kernel declares left_from, whose rows of left_row elements
 * end at row_end (rows beyond repeat the last), right_from, window and places: with KN_RIGHT_ACROSS the places of this
 * work-item's columns, otherwise of all columns of the tile, in local memory. While the elements of a slice are loaded,
 * the table of the next is written. */
#define KN_IMPLICIT_PRODUCT                                                                                  \
    KN_LEFT_PIECE left_next[KN_LEFT_PIECES];                                                                 \
    KN_RIGHT_PIECE right_next[KN_RIGHT_PIECES];                                                              \
    int loaded = 0;                                                                                          \
    KN_FIND_LEFT_PLACES                                                                                      \
    sums sums;                                                                                               \
    sums_clear(&sums);                                                                                       \
    KN_WRITE_TABLE(k_first, KN_FIRST_COUNT(k_first, k_end), 0)                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    KN_ADD_OWN_SLICES
#define KN_FIND_LEFT_PLACES
#ifdef KN_FRAGMENT
#define KN_FIRST_COUNT(k_first, k_end) ((k_end) - (k_first))
#define KN_ADD_OWN_SLICES KN_ADD_SLICES(k_first, k_end, KN_FETCH_SLICE, KN_PUT_SLICE)
#define KN_LEFT_BITS(vector, k)                                                                              \
    KN_LOAD_RAW_IF(slice_k + (k) < k_end, KN_LEFT_HALF, vector, left_from,                                   \
                   row * left_row + table[loaded + (k)].left)
#define KN_RIGHT_BITS(vector, k)                                                                             \
    KN_LOAD_RAW_IF(is_inside(place, table[loaded + (k)], window), KN_RIGHT_HALF, vector,                     \
                   right_from, place.at + table[loaded + (k)].at)
#define KN_FETCH_SLICE(k0)                                                                                   \
    const int slice_k = k0;                                                                                  \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++) {                                                    \
        const int k = KN_RIGHT_PIECE_AT(p).k;                                                                \
        const place place = KN_PLACE_OF(p);                                                                  \
        KN_LOAD_PIECE(right_next[p], KN_RIGHT_ORDER, KN_RIGHT_VECTOR, KN_RIGHT_COUNT, KN_RIGHT_BITS, k)      \
    }                                                                                                        \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {                                                     \
        const position at = KN_LEFT_PIECE_AT(p);                                                             \
        const int row = min(row0 + at.i, row_end - (KN_LEFT_ACROSS ? KN_LEFT_VECTOR : 1));                   \
        KN_LOAD_PIECE(left_next[p], KN_LEFT_ORDER, KN_LEFT_VECTOR, KN_LEFT_COUNT, KN_LEFT_BITS, at.k)        \
    }                                                                                                        \
    loaded = KN_TILE_K - loaded;                                                                             \
    KN_WRITE_TABLE(slice_k + KN_TILE_K, k_end - slice_k - KN_TILE_K, loaded)
#define KN_PUT_SLICE(turn)                                                                                   \
    KN_PUT_PIECES(left_next, KN_LEFT_ORDER, KN_TILE_M, KN_LEFT_COUNT, 1, left + (turn) * KN_LEFT_SLICE)      \
    KN_PUT_PIECES(right_next, KN_RIGHT_ORDER, KN_TILE_N, KN_RIGHT_COUNT, 0, right + (turn) * KN_RIGHT_SLICE)
#else
#define KN_RIGHT_FIRST first_in_slice(KN_RIGHT_ACROSS, KN_TILE_N, KN_RIGHT_VECTOR, KN_RIGHT_ROW)
#define KN_ADD_OWN_SLICES                                                                                    \
    KN_ADD_SLICES(k_first, k_end, KN_LEFT_FIRST, KN_RIGHT_FIRST, KN_FETCH_SLICE, KN_PUT_SLICE)
/* The table's entry for the k of a piece. */
#define KN_ENTRY_FIRST(across, side, vector)                                                                 \
    (table + KN_LOCAL_INDEX(loaded + first_piece(across, side, vector).k))
#define KN_FETCH_SLICE(k0, count)                                                                            \
    KN_WRITE_TABLE((k0) + (count), KN_TILE_K, KN_TILE_K - loaded)                                            \
    local const entry *right_entry = KN_ENTRY_FIRST(KN_RIGHT_ACROSS, KN_TILE_N, KN_RIGHT_VECTOR);            \
    KN_FETCH_LEFT(k0, count)                                                                                 \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++) {                                                    \
        const entry entry = right_entry[further_piece(p, KN_RIGHT_ACROSS, KN_TILE_N, KN_RIGHT_VECTOR).k];    \
        const place place = KN_PLACE_OF(p);                                                                  \
        const bool inside = is_inside(place, entry, window);                                                 \
        right_next[p] = inside ? KN_LOAD_SIDE(KN_RIGHT, right_from, place.at + entry.at)                     \
                               : (KN_RIGHT_PIECE)0;                                                          \
    }                                                                                                        \
    loaded = KN_TILE_K - loaded;
#define KN_PUT_SLICE(left_first, right_first)                                                                \
    KN_PUT_LEFT(left_first)                                                                                  \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES; p++)                                                      \
        KN_OF(put_, KN_RIGHT_VECTOR)(right_next[p], p, KN_RIGHT_ACROSS, KN_TILE_N, KN_RIGHT_ROW, right_first);
#endif

#if !defined(KN_FRAGMENT) && KN_LEFT_NINE
/* Adjacent work-items load adjacent elements of the left side: piece p is element p * KN_ITEMS + local id of the slice,
 * nine of each row. */
#undef KN_FIND_LEFT_PLACES
#define KN_FIND_LEFT_PLACES                                                                                  \
    int left_places[KN_LEFT_PIECES];                                                                         \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {                                                     \
        const int number = p * KN_ITEMS + (int)get_local_id(0), row = number / KN_TILE_K;                    \
        left_places[p] = KN_LEFT_AT(number - row * KN_TILE_K) + row;                                         \
    }
#define KN_LEFT_FIRST 0
#define KN_FETCH_LEFT(k0, count)                                                                             \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++)                                                       \
        left_next[p] = KN_LOAD_SIDE(KN_LEFT, left_from, (KN_INDEX)(k0) * row_end + row0 * KN_TILE_K +        \
                                                            p * KN_ITEMS + (int)get_local_id(0));
#define KN_PUT_LEFT(left_first)                                                                              \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) (left_first)[left_places[p]] = left_next[p];
#elif !defined(KN_FRAGMENT)
#define KN_LEFT_FIRST first_in_slice(KN_LEFT_ACROSS, KN_TILE_M, KN_LEFT_VECTOR, KN_LEFT_ROW)
#define KN_FETCH_LEFT(k0, count)                                                                             \
    local const entry *left_entry = KN_ENTRY_FIRST(KN_LEFT_ACROSS, KN_TILE_M, KN_LEFT_VECTOR);               \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {                                                     \
        const position place = piece_at(p, KN_LEFT_ACROSS, KN_TILE_M, KN_LEFT_VECTOR);                       \
        const int i = min(row0 + place.i, row_end - (KN_LEFT_ACROSS ? KN_LEFT_VECTOR : 1));                  \
        const int further = further_piece(p, KN_LEFT_ACROSS, KN_TILE_M, KN_LEFT_VECTOR).k;                   \
        const KN_INDEX at = i * left_row + left_entry[further].left;                                         \
        left_next[p] = (count) == KN_TILE_K || place.k < (count) ? KN_LOAD_SIDE(KN_LEFT, left_from, at)      \
                                                                 : (KN_LEFT_PIECE)0;                         \
    }
#define KN_PUT_LEFT(left_first)                                                                              \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++)                                                       \
        KN_OF(put_, KN_LEFT_VECTOR)(left_next[p], p, KN_LEFT_ACROSS, KN_TILE_M, KN_LEFT_ROW, left_first);
#endif

#endif

/* Stores the sums: for a column of the result, KN_RESULT_COLUMN sets what KN_RESULT needs and `first`; the element of
 * channel channel0 + row is at first + channel * plane, and KN_RESULT(sum, channel, l) applies the epilogue, l columns
 * later if those are adjacent. partials, with parts > 1, has the result's shape. */
#if defined(KN_FRAGMENT) || (!defined(KN_DIRECT) && KN_RESULT_VECTOR == 1 && KN_ITEMS >= KN_TILE_N)
/* Adjacent work-items store adjacent columns. For columns beyond the last nothing is stored, but the work-item takes
 * part in barriers. */
#define KN_STORE_SUMS(result, partials, row0, rows, column0, columns, channel0, plane)                       \
    global KN_STORED(KN_RESULT_HALF) *to = result;                                                           \
    const int first_row = row0, end_row = column0 + KN_STAGED_COLUMN(KN_RESULT_VECTOR) < columns ? rows : 0; \
    const KN_INDEX first_channel = channel0, channel_distance = plane;                                       \
    const KN_INDEX column = min(column0 + KN_STAGED_COLUMN(KN_RESULT_VECTOR), columns - 1);                  \
    KN_RESULT_COLUMN(column)                                                                                 \
    KN_STORE_STAGED(KN_RESULT_VECTOR, KN_STORE_ROW)
#define KN_STORE_ROW(row_at, from)                                                                           \
    const KN_INDEX row = first_row + (row_at), channel = first_channel + row;                                \
    const KN_INDEX at = first + channel * channel_distance;                                                  \
    if (row < end_row) { KN_STORE_RESULTS(from) }
#if KN_RESULT_VECTOR == 4
#define KN_STORE_RESULTS(from)                                                                               \
    const KN_A4 four = *(local const KN_A4 *)(from);                                                         \
    KN_STORE_ADJACENT(KN_RESULT_HALF, to + at, partials + at, four, KN_CHANNEL_RESULT)
#else
#define KN_STORE_RESULTS(from) KN_STORE_RESULT(to, *(from))
#endif
#else
/* Each work-item stores its own sums: four at a time, or one at a time if there are too few work-items for the tile. */
#define KN_STORE_SUMS(result, partials, row0, rows, column0, columns, channel0, plane)                       \
    KN_UNROLL for (int j = 0; j < KN_ITEM_N; j += KN_RESULT_VECTOR) {                                        \
        const KN_INDEX column = column0 + KN_COLUMN(j / 4) + j % 4;                                          \
        if (column < columns) {                                                                              \
            KN_RESULT_COLUMN(column)                                                                         \
            KN_UNROLL for (int i = 0; i < KN_ITEM_M; i++) {                                                  \
                const KN_INDEX row = row0 + KN_ROW(i), channel = channel0 + row;                             \
                const KN_INDEX at = first + channel * plane;                                                 \
                const KN_A4 four = sums.at[i][j / 4];                                                        \
                if (row < rows) { KN_STORE_OF_FOUR(result, j % 4) }                                          \
            }                                                                                                \
        }                                                                                                    \
    }
#if KN_RESULT_VECTOR == 4
#define KN_STORE_OF_FOUR(result, l)                                                                          \
    KN_STORE_ADJACENT(KN_RESULT_HALF, result + at, partials + at, four, KN_CHANNEL_RESULT)
#else
#define KN_STORE_OF_FOUR(result, l)                                                                          \
    const KN_A sum = (l) == 0 ? four.s0 : (l) == 1 ? four.s1 : (l) == 2 ? four.s2 : four.s3;                 \
    KN_STORE_RESULT(result, sum)
#endif
#endif
#define KN_CHANNEL_RESULT(sum, l) KN_RESULT(sum, channel, l)
#define KN_STORE_RESULT(result, sum)                                                                         \
    if (parts > 1)                                                                                           \
        partials[at] = sum;                                                                                  \
    else                                                                                                     \
        KN_WRITE_AS(KN_RESULT_HALF, KN_TO_T(KN_RESULT(sum, channel, 0)), result + at);
#endif
