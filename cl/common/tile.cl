/* The tile of the many-thread matrix products and convolutions: a work-group computes KN_TILE_M x KN_TILE_N
 * sums, each work-item KN_ITEM_M x KN_ITEM_N of them in registers. Slices of KN_TILE_K along the sum are loaded into
 * local memory: left (KN_TILE_K,KN_TILE_M) and right (KN_TILE_K,KN_TILE_N), with rows padded against
 * bank conflicts. There are two of each: while one slice is multiplied, the next is stored to the other, and the
 * elements of the slice after that are being loaded from global memory into registers, so that a slice costs one
 * barrier.
 *
 * Defines, with their defaults:
 *   KN_T, KN_A            types of elements in memory, and of products and sums (common/types.cl)
 *   KN_TILE_M, _N, _K     64, 64, 8: the tile and the depth of a slice
 *   KN_ITEM_M, _N         8, 4: sums of one work-item, multiples of 4 that divide the tile
 *   KN_REGISTERS          defined if work-items need more than 128 registers, which some compilers give only on request
 *   KN_FRAGMENT           defined if a matrix unit computes the sums (common/fragment.cl, with other slices);
 *                         KN_ITEM_M and _N then only determine the number of work-items: by default as many as the
 *                         waves have
 * and those of common/epilogue.cl. */
#ifndef KN_TILE_CL
#define KN_TILE_CL
#include "common/epilogue.cl"
#include "common/types.cl"
#include "common/unroll.cl"
#ifndef KN_TILE_M
#define KN_TILE_M 64
#endif
#ifndef KN_TILE_N
#define KN_TILE_N 64
#endif
#ifndef KN_TILE_K
#define KN_TILE_K 8
#endif
#ifndef KN_ITEM_M
#ifdef KN_FRAGMENT
#define KN_ITEM_M (KN_WAVE_M / 8)
#define KN_ITEM_N (KN_WAVE_N * 8 / KN_LANES)
#else
#define KN_ITEM_M 8
#define KN_ITEM_N 4
#endif
#endif

#define KN_ITEMS_M (KN_TILE_M / KN_ITEM_M)
#define KN_ITEMS_N (KN_TILE_N / KN_ITEM_N)
#define KN_ITEMS (KN_ITEMS_M * KN_ITEMS_N)

#define KN_CONCAT_(a, b) a##b
#define KN_CONCAT(a, b) KN_CONCAT_(a, b)
#define KN_A4 KN_CONCAT(KN_A, 4)
#define KN_TO_A KN_CONCAT(convert_, KN_A)
#define KN_TO_A4 KN_CONCAT(convert_, KN_A4)
#define KN_TO_T KN_CONCAT(convert_, KN_T)
#define KN_WORK_GROUP __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1))) KN_WAVE_SIZE
/* Deep slices are not unrolled further, since compilers load everything that they unroll before they multiply. */
#if KN_TILE_K == 9
#define KN_UNROLL_SLICE KN_UNROLL
#else
#define KN_UNROLL_SLICE KN_UNROLL_EIGHT
#endif

#ifdef KN_FRAGMENT
#include "common/fragment.cl"
#else
#define KN_WAVE_SIZE
#define KN_UNROLL_TILES KN_UNROLL
#define KN_LEFT_ROW (KN_TILE_M + 4)
#define KN_RIGHT_ROW (KN_TILE_N + 4)
/* The position of row k of a left slice. Elements of the first and the ninth row may be stored at the same time, to
 * different banks. */
#if KN_TILE_K == 9
#define KN_LEFT_AT(k) ((k) * KN_LEFT_ROW + (k) / 8 * 4)
#else
#define KN_LEFT_AT(k) ((k) * KN_LEFT_ROW)
#endif
#define KN_LEFT_SLICE KN_LEFT_AT(KN_TILE_K)
#define KN_RIGHT_SLICE (KN_TILE_K * KN_RIGHT_ROW)

/* A work-item's sums are in groups of four rows and four columns, so that adjacent work-items access adjacent
 * memory: rows KN_ROW(0) … and columns KN_COLUMN(0), +1, +2, +3, KN_COLUMN(1) … of the tile. */
#define KN_ROW(i) ((i) / 4 * (KN_ITEMS_M * 4) + (int)get_local_id(0) / KN_ITEMS_N * 4 + (i) % 4)
#define KN_COLUMN(j) ((j) * (KN_ITEMS_N * 4) + (int)get_local_id(0) % KN_ITEMS_N * 4)

/* A side of a slice is loaded in pieces of `vector` elements, 1 or 4, that are adjacent in memory and aligned, in lines
 * of `width` pieces: across the side, or along k. KN_ITEMS is a multiple of the width, or vice versa. A work-item's
 * pieces have the position (k,i) of the first and a constant distance from it, which compilers fold into addresses. */
#define KN_PIECES(side, vector) ((side) * KN_TILE_K / (vector) / KN_ITEMS)
#define KN_PIECE_WIDTH(across, side, vector) (((across) ? (side) : KN_TILE_K) / (vector))
#define KN_PIECE_LINE(p, width) (KN_ITEMS >= (width) ? (p) * (KN_ITEMS / (width)) : (p) / ((width) / KN_ITEMS))
#define KN_PIECE_IN_LINE(p, width) (KN_ITEMS >= (width) ? 0 : (p) % ((width) / KN_ITEMS) * KN_ITEMS)

typedef struct position {
    int k, i;
} position;

/* The position of this work-item's first piece. */
static inline position first_piece(const bool across, const int side, const int vector) {
    const int width = KN_PIECE_WIDTH(across, side, vector), item = get_local_id(0);
    const int line = (uint)item / (uint)width, in_line = (uint)item % (uint)width * vector;
    const position place = {across ? line : in_line, across ? in_line : line};
    return place;
}
/* The offset of piece p from the first. */
static inline position further_piece(const int p, const bool across, const int side, const int vector) {
    const int width = KN_PIECE_WIDTH(across, side, vector);
    const int line = KN_PIECE_LINE(p, width), in_line = KN_PIECE_IN_LINE(p, width) * vector;
    const position place = {across ? line : in_line, across ? in_line : line};
    return place;
}
static inline position piece_at(const int p, const bool across, const int side, const int vector) {
    const position first = first_piece(across, side, vector), further = further_piece(p, across, side, vector);
    const position place = {first.k + further.k, first.i + further.i};
    return place;
}
/* The position of this work-item's first piece in a slice with rows of `row`. */
static inline int first_in_slice(const bool across, const int side, const int vector, const int row) {
    const position first = first_piece(across, side, vector);
    return first.k * row + first.i;
}
/* The offset of piece p from the first, in a slice. */
static inline int further_in_slice(const int p, const bool across, const int side, const int vector, const int row) {
    const position further = further_piece(p, across, side, vector);
    return further.k * row + further.i;
}

/* Types and functions of pieces of 1 and of 4: KN_OF(KN_PIECE_, vector). KN_CONCAT cannot be used for the names, since
 * they use it: a macro is not expanded within itself. */
#define KN_OF_(name, vector) name##vector
#define KN_OF(name, vector) KN_OF_(name, vector)
#define KN_PIECE_1 KN_A
#define KN_PIECE_4 KN_A4
#define KN_LOAD_1(pointer) KN_TO_A(*(pointer))
#define KN_LOAD_4(pointer) KN_TO_A4(*(global const KN_CONCAT(KN_T, 4) *)(pointer))

/* Stores piece p; `first` is the position of the first one. */
static inline void put_1(const KN_A piece, const int p, const bool across, const int side, const int row,
                         local KN_A *first) {
    first[further_in_slice(p, across, side, 1, row)] = piece;
}
static inline void put_4(const KN_A4 piece, const int p, const bool across, const int side, const int row,
                         local KN_A *first) {
    local KN_A *to = first + further_in_slice(p, across, side, 4, row);
    if (across) {
        *(local KN_A4 *)to = piece;
    } else {
        to[0] = piece.s0;
        to[row] = piece.s1;
        to[2 * row] = piece.s2;
        to[3 * row] = piece.s3;
    }
}

/* Slices of each side, as vectors so that they are aligned. After the last slice, the right side's memory is the stage:
 * a row of sums of each work-item before they are stored. */
#define KN_STAGES KN_ITEM_M
#define KN_STAGE_ROWS KN_ITEMS_M
#define KN_STAGE_ROW KN_RIGHT_ROW
#define KN_STAGE_LINE(r) (r)
#define KN_SLICES(number)                                                                                    \
    local KN_A4 left_slices[(number) * KN_LEFT_SLICE / 4], right_slices[(number) * KN_RIGHT_SLICE / 4];      \
    local KN_A *left = (local KN_A *)left_slices, *right = (local KN_A *)right_slices;                       \
    local KN_A *stage = right;

typedef struct sums {
    KN_A4 at[KN_ITEM_M][KN_ITEM_N / 4];
} sums;

static inline void sums_clear(sums *sums) {
    KN_UNROLL for (int i = 0; i < KN_ITEM_M; i++)
        KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) sums->at[i][j] = 0;
}

/* One column of left times one row of right, KN_TILE_K times; `rows` and `columns` are this work-item's in slices of
 * KN_SLICES. */
static inline void sums_add_own(sums *sums, local const KN_A4 *rows, local const KN_A4 *columns) {
    KN_UNROLL_SLICE for (int k = 0; k < KN_TILE_K; k++) {
        KN_A4 b[KN_ITEM_N / 4];
        KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) b[j] = columns[k * KN_RIGHT_ROW / 4 + j * KN_ITEMS_N];
        KN_UNROLL for (int i = 0; i < KN_ITEM_M; i += 4) {
            const KN_A4 a = rows[KN_LEFT_AT(k) / 4 + i / 4 * KN_ITEMS_M];
            KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) {
                sums->at[i + 0][j] += a.s0 * b[j];
                sums->at[i + 1][j] += a.s1 * b[j];
                sums->at[i + 2][j] += a.s2 * b[j];
                sums->at[i + 3][j] += a.s3 * b[j];
            }
        }
    }
}

static inline void sums_add(sums *sums, local const KN_A *left, local const KN_A *right) {
    sums_add_own(sums, (local const KN_A4 *)(left + KN_ROW(0)), (local const KN_A4 *)(right + KN_COLUMN(0)));
}

/* Row i of each work-item's sums goes into the stage. Row r of the stage is row KN_STAGED_ROW(i, r) of the tile. */
#define KN_STAGED_ROW(i, r) ((i) / 4 * (KN_ITEMS_M * 4) + (r) * 4 + (i) % 4)
static inline void sums_stage(const sums *sums, const int i, local KN_A *stage) {
    local KN_A4 *to = (local KN_A4 *)(stage + (int)get_local_id(0) / KN_ITEMS_N * KN_STAGE_ROW + KN_COLUMN(0));
    KN_UNROLL for (int j = 0; j < KN_ITEM_N / 4; j++) to[j * KN_ITEMS_N] = sums->at[i][j];
}
#endif

/* Stores all sums through the stage: STORE(row, from) stores `width` adjacent sums in a row of the work-group's tile,
 * starting at column KN_STAGED_COLUMN(width), which is the same for all sums of a work-item. Needs KN_TILE_N / width
 * work-items. */
#define KN_STAGED_COLUMN(width) ((int)get_local_id(0) % (KN_TILE_N / (width)) * (width))
#define KN_STORE_STAGED(width, STORE)                                                                        \
    KN_UNROLL_TILES for (int i = 0; i < KN_STAGES; i++) {                                                    \
        sums_stage(&sums, i, stage);                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        for (int r = get_local_id(0) / (KN_TILE_N / (width)); r < KN_STAGE_ROWS;                             \
             r += KN_ITEMS * (width) / KN_TILE_N) {                                                          \
            STORE(KN_STAGED_ROW(i, r), stage + KN_STAGE_LINE(r) * KN_STAGE_ROW + KN_STAGED_COLUMN(width))    \
        }                                                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
    }

/* Stores four adjacent sums: as partial sums if there are several parts, otherwise in the result, which is stored as
 * `kind` (common/storage.cl), after the epilogue: RESULT(sum, l) applies it to the sum l after the first. */
#define KN_STORE_ADJACENT(kind, to, to_partials, four, RESULT)                                               \
    if (parts > 1) {                                                                                         \
        *(global KN_A4 *)(to_partials) = four;                                                               \
    } else {                                                                                                 \
        const KN_A4 out =                                                                                    \
            (KN_A4)(RESULT(four.s0, 0), RESULT(four.s1, 1), RESULT(four.s2, 2), RESULT(four.s3, 3));         \
        KN_WRITE_4_AS(kind, KN_CONCAT(KN_CONCAT(convert_, KN_T), 4)(out), to);                               \
    }

/* Adds the slices from k_first to k_end. */
#ifdef KN_FRAGMENT
/* FETCH(k0) loads the slice at k0 into private variables, PUT(turn) stores these to slice `turn` of the local
 * memory. */
#define KN_ADD_SLICES(k_first, k_end, FETCH, PUT)                                                            \
    if (k_first < k_end) {                                                                                   \
        int turn = 0;                                                                                        \
        FETCH(k_first)                                                                                       \
        PUT(0)                                                                                               \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        for (int k0 = k_first; k0 < k_end; k0 += KN_TILE_K) {                                                \
            const bool more = k0 + KN_TILE_K < k_end;                                                        \
            if (more) { FETCH(k0 + KN_TILE_K) }                                                              \
            sums_add(&sums, left + turn * KN_LEFT_SLICE, right + turn * KN_RIGHT_SLICE);                     \
            turn = 1 - turn;                                                                                 \
            if (more) { PUT(turn) }                                                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
        }                                                                                                    \
    }
#else
/* A condition that is nearly always true: code that depends on it stays in its position between other instructions. */
#ifdef __has_builtin
#if __has_builtin(__builtin_expect)
#define KN_LIKELY(condition) __builtin_expect(condition, 1)
#endif
#endif
#ifndef KN_LIKELY
#define KN_LIKELY(condition) (condition)
#endif

/* An index into local memory. The mask tells compilers that it is not negative: then offsets from it become part of
 * instructions. */
#define KN_LOCAL_INDEX(at) ((at)&0xffff)
#define KN_OTHER(which) KN_LOCAL_INDEX(both_##which - which##_at)

/* The first slice has the remainder, so that all others are whole and need no comparison. */
#define KN_FIRST_COUNT(k_first, k_end) (((k_end) - (k_first) - 1) % KN_TILE_K + 1)
/* FETCH(k0, count) loads the slice at k0 into private variables, with 0 starting at `count`; PUT(to_left, to_right)
 * stores these, where to_left and to_right are this work-item's first pieces of a slice: at left_first and right_first
 * in the first. Compilers move instructions within an iteration, so each iteration stores what the previous one loaded.
 * Positions in local memory alternate between two values, each in a variable, since offsets from a variable are
 * free. */
#define KN_ADD_SLICES(k_first, k_end, left_first, right_first, FETCH, PUT)                                   \
    if (k_first < k_end) {                                                                                   \
        const int first_count = KN_FIRST_COUNT(k_first, k_end);                                              \
        int rows_at = KN_ROW(0), columns_at = KN_COLUMN(0);                                                  \
        int left_at = left_first, right_at = right_first;                                                    \
        const int both_rows = 2 * rows_at + KN_LEFT_SLICE, both_columns = 2 * columns_at + KN_RIGHT_SLICE;   \
        const int both_left = 2 * left_at + KN_LEFT_SLICE, both_right = 2 * right_at + KN_RIGHT_SLICE;       \
        { FETCH(k_first, first_count) }                                                                      \
        PUT(left + left_at, right + right_at)                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        if (k_first + first_count < k_end) { FETCH(k_first + first_count, KN_TILE_K) }                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        for (int next = k_first + first_count; next < k_end + KN_TILE_K; next += KN_TILE_K) {                \
            left_at = KN_OTHER(left);                                                                        \
            right_at = KN_OTHER(right);                                                                      \
            if (KN_LIKELY(next < k_end)) { PUT(left + left_at, right + right_at) }                           \
            if (KN_LIKELY(next + KN_TILE_K < k_end)) { FETCH(next + KN_TILE_K, KN_TILE_K) }                  \
            sums_add_own(&sums, (local const KN_A4 *)(left + rows_at),                                       \
                         (local const KN_A4 *)(right + columns_at));                                         \
            rows_at = KN_OTHER(rows);                                                                        \
            columns_at = KN_OTHER(columns);                                                                  \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
        }                                                                                                    \
    }
#endif
#endif
