/* Scaled dot-product attention on matrix units: softmax(scale Q Kᵀ) V by head, like attention/tiled.cl, with q, k, v
 * and dy in 16 bits and products from common/fragment.cl. A work-group computes KN_TILE_M queries (or, for the
 * gradients of keys and values, keys) and loops over tiles of KN_TILE_K rows of the other side. Scores are float32;
 * the weights, and the slopes of scores, are rounded to the unit's type for the left side of the second product.
 *
 * A wave computes KN_WAVE_M rows: a part of their scores, and KN_WAVE_N of the columns of the result, whose sums stay in
 * registers. The constant tiles are left slices along the head, KN_TILE_K elements each; the tiles of the other side
 * are right slices along the head, or one slice across it, or both.
 *
 * Defines, with their defaults:
 *   KN_TILE_M 64, KN_TILE_K 32    rows of a work-group, and of the other side at a time: multiples of the unit's sizes
 *   KN_TILE_N 64                  the head, rounded up to a multiple of KN_TILE_K
 *   KN_WAVE_M 16, KN_WAVE_N 64    of a wave, of which there are KN_TILE_M / KN_WAVE_M by KN_TILE_N / KN_WAVE_N
 *   KN_HELD 1                     1: each wave holds its rows of the constant tiles in registers
 *   KN_VECTOR 1                   4 or 8: heads and rows are multiples of it; elements read at a time
 *   KN_FRAGMENT 1, KN_FORMAT 2   the unit and its element format; emulated by default (KN_EMULATED 1)
 * and those of attention/numbers.cl, which has the arguments after the arrays.
 *
 * Kernels, their arguments and groups: as in attention/tiled.cl. No name is a prefix of another: simulators count the
 * local memory of a kernel by its name. */
#include "attention/numbers.cl"
#include "common/wanted.cl"
#ifndef KN_FRAGMENT
#define KN_FRAGMENT 1
#define KN_EMULATED 1
#endif
#ifndef KN_TILE_M
#define KN_TILE_M 64
#endif
#ifndef KN_TILE_K
#define KN_TILE_K 32
#endif
#ifndef KN_TILE_N
#define KN_TILE_N 64
#endif
#ifndef KN_WAVE_M
#define KN_WAVE_M 16
#endif
#ifndef KN_WAVE_N
#define KN_WAVE_N 64
#endif
#ifndef KN_HELD
#define KN_HELD 1
#endif
#ifndef KN_VECTOR
#define KN_VECTOR 1
#endif
#include "common/tile.cl"

/* ---- local memory ------------------------------------------------------------------------------------- */

/* The elements of a tile of the work-group's rows, and of a tile of the other side in either orientation. */
#define KN_LASTING_TILE (KN_TILE_N / KN_TILE_K * KN_LASTING_SLICE)
/* Padding between the slices of a tile, whose rows are stored at the same time, so that they are in different banks. */
#if KN_LINES_AT_ONCE > 1 && KN_FRAGMENT < 5
#define KN_LASTING_SLICE (KN_LEFT_SLICE + KN_TILE_K)
#else
#define KN_LASTING_SLICE KN_LEFT_SLICE
#endif
#define KN_OTHER_TILE KN_RIGHT_SLICE
/* Unit 1 stores to four rows of scores at a time, which are 8 banks apart. To avoid conflicts in loads, too, every
 * second work-item of a row begins with its second four scores. */
#if KN_FRAGMENT == 1
#define KN_SCORE_ROW (KN_TILE_K + 8)
#define KN_SCORE_TURN(part) (KN_ROW_SCORES >= 8 ? (part) % 2 * 4 : 0)
#else
#define KN_SCORE_ROW (KN_TILE_K + 4)
#define KN_SCORE_TURN(part) 0
#endif
#define KN_SCORE_BYTES (4 * KN_TILE_M * KN_SCORE_ROW)
#define KN_MOST(a, b) ((a) > (b) ? (a) : (b))
/* `own` constant tiles stay there, or are on their way to registers, one after another; the loop has tiles of the other
 * side, left slices and bytes of scores; after it there are rows of results before they are stored. */
#if KN_HELD
#define KN_LASTING_BYTES(own) 0
#define KN_PASSING_BYTES (2 * KN_LASTING_TILE)
#else
#define KN_LASTING_BYTES(own) (2 * (own) * KN_LASTING_TILE)
#define KN_PASSING_BYTES 0
#endif
#define KN_LOOP_BYTES(others, slices, scores) (2 * ((others) * KN_OTHER_TILE + (slices) * KN_LEFT_SLICE) + (scores))
#define KN_MEMORY(own, others, slices, scores)                                                               \
    local uint4 memory[(KN_LASTING_BYTES(own) + KN_MOST(KN_LOOP_BYTES(others, slices, scores),                   \
                                                    KN_MOST(KN_STAGE_BYTES, KN_PASSING_BYTES))) / 16];       \
    local KN_NUMBER *own_tiles = (local KN_NUMBER *)memory, *tiles = own_tiles + KN_LASTING_BYTES(own) / 2,      \
                    *lefts = tiles + (others) * KN_OTHER_TILE;                                               \
    local KN_A *stage = (local KN_A *)tiles;                                                                 \
    KN_EMULATION

/* ---- the rows of a work-group ------------------------------------------------------------------------- */

/* The vector of elements at (i,d) of rows starting at `row0`; 0 beyond the last row and the head. */
#define KN_LOAD_ROW(kind, from, row, i, rows, d)                                                             \
    KN_LOAD_RAW_IF((i) < (rows) && (d) < KN_HEAD, kind, KN_VECTOR, from, (KN_INDEX)(i) * (row) + (d))
#define KN_PUT_ROW KN_PASTE(put_piece_, KN_VECTOR)
typedef KN_PASTE(piece_, KN_VECTOR) piece;

/* A tile of rows, as left slices along the head. */
#define KN_DEFINE_LOAD_OWN(name, kind)                                                                       \
    static inline void name(global const KN_STORED(kind) *from, const KN_INDEX row, const int row0,          \
                            const int rows, local KN_NUMBER *slices) {                                       \
        for (int at = get_local_id(0); at < KN_TILE_M * (KN_TILE_N / KN_VECTOR); at += KN_ITEMS) {           \
            const int i = at / (KN_TILE_N / KN_VECTOR), d = at % (KN_TILE_N / KN_VECTOR) * KN_VECTOR;        \
            const position place = {d % KN_TILE_K, i};                                                       \
            piece loaded;                                                                                    \
            loaded.line[0] = KN_LOAD_ROW(kind, from, row, row0 + i, rows, d);                                \
            KN_PUT_ROW(loaded, place, false, true, slices + d / KN_TILE_K * KN_LASTING_SLICE);               \
        }                                                                                                    \
    }

/* This wave's rows of a constant tile. */
typedef struct own_rows {
#if KN_HELD
    fragment_left at[KN_TILES_M][KN_TILE_N / KN_DEPTH];
#else
    local const KN_NUMBER *slices;
#endif
} own_rows;
static inline fragment_left own_in_slices(local const KN_NUMBER *slices, const int i, const int k) {
    return load_left(slices + k / KN_TILE_K * KN_LASTING_SLICE, KN_WAVE / KN_WAVES_N * KN_WAVE_M + i * KN_ROWS,
                     k % KN_TILE_K);
}
#if KN_HELD
#define KN_LASTING_AT(own, i, k) (own)->at[i][(k) / KN_DEPTH]
/* Loads constant tile `number`; all work-items of the group together. */
#define KN_TAKE_OWN(own, number, load, from, row, rows)                                                      \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    load(from, row, first, rows, own_tiles);                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)                                                     \
        KN_UNROLL_TILES for (int k = 0; k < KN_TILE_N; k += KN_DEPTH) KN_LASTING_AT(&own, i, k) =                \
            own_in_slices(own_tiles, i, k);
#else
#define KN_LASTING_AT(own, i, k) own_in_slices((own)->slices, i, k)
#define KN_TAKE_OWN(own, number, load, from, row, rows)                                                      \
    load(from, row, first, rows, own_tiles + (number) * KN_LASTING_TILE);                                        \
    own.slices = own_tiles + (number) * KN_LASTING_TILE;
#endif

/* ---- tiles of the other side -------------------------------------------------------------------------- */

/* The next tile, being loaded into local memory in pieces of two rows. */
#define KN_FETCHED ((KN_TILE_K / 2 * (KN_TILE_N / KN_VECTOR) + KN_ITEMS - 1) / KN_ITEMS)
typedef struct fetched {
    piece at[KN_FETCHED];
} fetched;
#define KN_FETCHED_PLACE(p) piece_at(p, KN_ACROSS, KN_TILE_N, KN_VECTOR)
#define KN_DEFINE_FETCH(name, kind)                                                                          \
    static inline void name(fetched *to, global const KN_STORED(kind) *from, const KN_INDEX row,             \
                            const int row0, const int rows) {                                                \
        KN_UNROLL for (int p = 0; p < KN_FETCHED; p++) {                                                     \
            const position place = KN_FETCHED_PLACE(p);                                                      \
            KN_UNROLL for (int line = 0; line < 2; line++) to->at[p].line[line] =                            \
                KN_LOAD_ROW(kind, from, row, row0 + place.k + line, rows, place.i);                          \
        }                                                                                                    \
    }
KN_DEFINE_LOAD_OWN(own_q, KN_HALF_q)
KN_DEFINE_LOAD_OWN(own_k, KN_HALF_k)
KN_DEFINE_LOAD_OWN(own_v, KN_HALF_v)
KN_DEFINE_LOAD_OWN(own_dy, KN_HALF_dy)
KN_DEFINE_FETCH(fetch_q, KN_HALF_q)
KN_DEFINE_FETCH(fetch_k, KN_HALF_k)
KN_DEFINE_FETCH(fetch_v, KN_HALF_v)
KN_DEFINE_FETCH(fetch_dy, KN_HALF_dy)

/* Stored as right slices along the head. */
#define KN_ALONG_SLICE (KN_TILE_K * KN_SLICE_ROW)
static inline void put_along(const fetched *from, local KN_NUMBER *slices) {
    KN_UNROLL for (int p = 0; p < KN_FETCHED; p++) {
        const position place = KN_FETCHED_PLACE(p);
        KN_UNROLL for (int line = 0; line < 2; line++) {
            const position along = {place.i % KN_TILE_K, place.k + line};
            piece row;
            row.line[0] = from->at[p].line[line];
            if (place.i < KN_TILE_N)
                KN_PUT_ROW(row, along, false, false, slices + place.i / KN_TILE_K * KN_ALONG_SLICE);
        }
    }
}
/* Stored as one right slice across the head. */
static inline void put_across(const fetched *from, local KN_NUMBER *slice) {
    KN_UNROLL for (int p = 0; p < KN_FETCHED; p++) {
        const position place = KN_FETCHED_PLACE(p);
        if (place.i < KN_TILE_N) KN_PUT_ROW(from->at[p], place, true, false, slice);
    }
}

/* ---- scores ------------------------------------------------------------------------------------------- */

#define KN_WAVE_SCORES (KN_TILE_K / KN_WAVES_N)
#define KN_TILES_K (KN_WAVE_SCORES / KN_COLUMNS)
typedef struct scores {
    KN_SUM_VECTOR at[KN_TILES_M][KN_TILES_K];
} scores;

/* This wave's part of the products of rows with rows of right slices along the head. */
#define multiply_rows(scores, own, right) multiply_rows_tiles(scores, own, right KN_EXCHANGE)
static inline void multiply_rows_tiles(scores *scores, const own_rows *own,
                                       local const KN_NUMBER *right KN_EXCHANGE_PARAMETER) {
    KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
        KN_UNROLL_TILES for (int j = 0; j < KN_TILES_K; j++) scores->at[i][j] = 0;
    const int column0 = KN_WAVE % KN_WAVES_N * KN_WAVE_SCORES;
    KN_UNROLL_TILES for (int k = 0; k < KN_TILE_N; k += KN_DEPTH) {
        fragment_right columns[KN_TILES_K];
        KN_UNROLL_TILES for (int j = 0; j < KN_TILES_K; j++) columns[j] =
            load_right(right + k / KN_TILE_K * KN_ALONG_SLICE, column0 + j * KN_COLUMNS, k % KN_TILE_K);
        KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++) {
            const fragment_left rows = KN_LASTING_AT(own, i, k);
            KN_UNROLL_TILES for (int j = 0; j < KN_TILES_K; j++)
                multiply_add(&scores->at[i][j], rows, columns[j] KN_EXCHANGE_PASSED);
        }
    }
}
/* For each score: element e of the unit's tile (i,j), and its position in the tile of scores. */
#define KN_EACH_SCORE                                                                                        \
    KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)                                                     \
        KN_UNROLL_TILES for (int j = 0; j < KN_TILES_K; j++) KN_UNROLL for (int e = 0; e < KN_SUM_EACH; e++)
#define KN_SCORE_COLUMN(j, e)                                                                                \
    (KN_WAVE % KN_WAVES_N * KN_WAVE_SCORES + (j) * KN_COLUMNS + KN_SUM_COLUMN(KN_LANE, e))
#define KN_SUM_IN_ROW(i, e) (KN_WAVE / KN_WAVES_N * KN_WAVE_M + (i) * KN_ROWS + KN_SUM_ROW(KN_LANE, e))
#define KN_SUM_AT(sums, i, j, e) ((KN_A *)&(sums).at[i][j])[e]

/* ---- results ------------------------------------------------------------------------------------------ */

static inline void multiply_sums(sums *sums, local const KN_A *factors) {
    KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++)
        KN_UNROLL for (int e = 0; e < KN_SUM_EACH; e++) {
            const KN_A factor = factors[KN_SUM_IN_ROW(i, e)];
            KN_UNROLL_TILES for (int j = 0; j < KN_TILES_N; j++) KN_SUM_AT(*sums, i, j, e) *= factor;
        }
}

/* Stores the sums, times FACTOR of their row, in an array stored as `kind`, rows starting at `row0`, through the
 * stage. */
#if KN_VECTOR >= 4
#define KN_STORE_WIDTH 4
#define KN_STORE_SUMS(kind, from, factor, to) KN_WRITE_4_AS(kind, *(local const KN_A4 *)(from) * (factor), to)
#else
#define KN_STORE_WIDTH 1
#define KN_STORE_SUMS(kind, from, factor, to) KN_WRITE_AS(kind, *(from) * (factor), to)
#endif
#define KN_FACTORS , local const KN_A *factors
#define KN_NO_FACTORS
#define KN_BY_ROW(row) factors[row]
#define KN_BY_ONE(row) (KN_A)1
#define KN_DEFINE_STORE(name, kind, PARAMETER, FACTOR)                                                       \
    static inline void name(const sums *sums, local KN_A *stage, global KN_STORED(kind) *to,                 \
                            const KN_INDEX row, const int row0, const int rows PARAMETER) {                  \
        KN_UNROLL_TILES for (int i = 0; i < KN_TILES_M; i++) {                                               \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            sums_stage(sums, i, stage);                                                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            for (int at = get_local_id(0); at < KN_STAGE_ROWS * (KN_TILE_N / KN_STORE_WIDTH); at += KN_ITEMS) { \
                const int r = at / (KN_TILE_N / KN_STORE_WIDTH);                                             \
                const int d = at % (KN_TILE_N / KN_STORE_WIDTH) * KN_STORE_WIDTH;                            \
                const int place = row0 + KN_STAGED_ROW(i, r);                                                \
                if (place < rows && d < KN_HEAD) {                                                           \
                    KN_STORE_SUMS(kind, stage + KN_STAGE_LINE(r) * KN_STAGE_ROW + d, FACTOR(KN_STAGED_ROW(i, r)), \
                                  to + (KN_INDEX)place * row + d);                                           \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
KN_DEFINE_STORE(store_y, KN_HALF_y, KN_FACTORS, KN_BY_ROW)
KN_DEFINE_STORE(store_dq, KN_HALF_dq, KN_NO_FACTORS, KN_BY_ONE)
KN_DEFINE_STORE(store_dk, KN_HALF_dk, KN_NO_FACTORS, KN_BY_ONE)
KN_DEFINE_STORE(store_dv, KN_HALF_dv, KN_NO_FACTORS, KN_BY_ONE)

/* ---- the kernels -------------------------------------------------------------------------------------- */

/* Work-items that share a row. A query attends to the keys below KN_SEEN_KEYS of its row. */
#define KN_ROW_ITEMS (KN_ITEMS / KN_TILE_M)
#define KN_ROW_SCORES (KN_TILE_K / KN_ROW_ITEMS)
#define KN_PLACES                                                                                            \
    const int item = get_local_id(0), first = KN_GROUP(0, KN_ITEMS) * KN_TILE_M;                             \
    const KN_INDEX batch = KN_GROUP(2, 1);                                                                   \
    KN_LIMITS                                                                                                \
    const int seen_more = causal ? offset + 1 : keys;
#define KN_SEEN_KEYS(query) min(limit, (query) + seen_more)
/* For a score, in gradients: the weight, its dropout factor, and the slope of the score; requires `seen`, and the
 * log-sum and delta of its query. */
#define KN_WEIGHT_AND_SLOPE(log_sum_at, delta_at)                                                            \
    const KN_A score = KN_SCORE_OF(KN_SUM_AT(scores, i, j, e)), slope = KN_SUM_AT(slopes, i, j, e);               \
    const KN_A weight = seen ? exp(KN_MASKED(score, query, key) - (log_sum_at)) : (KN_A)0;                   \
    const KN_A kept = KN_KEPT(query, key);                                                                   \
    const KN_A score_slope = seen ? weight * (slope * kept - (delta_at)) * KN_SCORE_SLOPE(score) : (KN_A)0;
/* For kernels whose work-groups compute a head of q. */
#define KN_HEAD_PLACES                                                                                       \
    KN_PLACES                                                                                                \
    const int own_row = item / KN_ROW_ITEMS, part = item % KN_ROW_ITEMS;                                     \
    const KN_INDEX head = KN_GROUP(1, 1), key_head = head / group;                                           \
    KN_QUERY_PLACES                                                                                          \
    KN_KEY_PLACES                                                                                            \
    const int keys_seen = causal ? min(limit, first + offset + KN_TILE_M) : limit;

#if KN_WANTED(kn_attention_forward)
KN_WORK_GROUP kernel void kn_attention_forward(global const KN_STORED(KN_HALF_q) *restrict q, global const KN_STORED(KN_HALF_k) *restrict k,
                                               global const KN_STORED(KN_HALF_v) *restrict v, global KN_STORED(KN_HALF_y) *restrict y,
                                               global KN_T *restrict log_sum, KN_SIZES) {
    KN_MEMORY(1, 2, 1, KN_SCORE_BYTES)
    local KN_A factors[KN_TILE_M];
    KN_HEAD_PLACES
    local KN_NUMBER *key_tile = tiles, *value_tile = tiles + KN_OTHER_TILE, *weights = lefts;
    local KN_A *score_tile = (local KN_A *)(lefts + KN_LEFT_SLICE), *row_scores = score_tile + KN_STAGE_LINE(own_row) * KN_SCORE_ROW;
    local KN_A *own_scores = row_scores + part * KN_ROW_SCORES;
    KN_A most = -INFINITY, sum = 0;
    own_rows own;
    KN_TAKE_OWN(own, 0, own_q, q + q_at, q_row, queries)
    sums sums;
    sums_clear(&sums);
    fetched key_next, value_next;
    fetch_k(&key_next, k + k_at, k_row, 0, limit);
    fetch_v(&value_next, v + v_at, k_row, 0, limit);
    for (int key0 = 0; key0 < keys_seen; key0 += KN_TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        put_along(&key_next, key_tile);
        put_across(&value_next, value_tile);
        barrier(CLK_LOCAL_MEM_FENCE);
        fetch_k(&key_next, k + k_at, k_row, key0 + KN_TILE_K, limit);
        fetch_v(&value_next, v + v_at, k_row, key0 + KN_TILE_K, limit);
        scores scores;
        multiply_rows(&scores, &own, key_tile);
        KN_EACH_SCORE {
            const int row = KN_SUM_IN_ROW(i, e), column = KN_SCORE_COLUMN(j, e);
            const int query = first + row, key = key0 + column;
            const bool seen = key < KN_SEEN_KEYS(query);
            const KN_A score = KN_SCORE_OF(KN_SUM_AT(scores, i, j, e));
            score_tile[KN_STAGE_LINE(row) * KN_SCORE_ROW + column] = seen ? KN_MASKED(score, query, key) : (KN_A)(-INFINITY);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        KN_A4 now4 = *(local const KN_A4 *)row_scores;
        KN_UNROLL for (int j = 4; j < KN_TILE_K; j += 4) now4 = fmax(now4, *(local const KN_A4 *)(row_scores + j));
        const KN_A now = fmax(most, fmax(fmax(now4.s0, now4.s1), fmax(now4.s2, now4.s3)));
        const KN_A base = now == -INFINITY ? (KN_A)0 : now, shrink = most == now ? (KN_A)1 : exp(most - now);
        most = now;
        sum *= shrink;
        KN_UNROLL for (int j = 0; j < KN_ROW_SCORES; j += 4) {
            const int turned = j ^ KN_SCORE_TURN(part), column = part * KN_ROW_SCORES + turned;
            KN_A4 weight = exp(*(local const KN_A4 *)(own_scores + turned) - base);
            sum += (weight.s0 + weight.s2) + (weight.s1 + weight.s3);
#ifdef KN_DROPOUT
            const int query = first + own_row, key = key0 + column;
            weight *= (KN_A4)(KN_KEPT(query, key), KN_KEPT(query, key + 1), KN_KEPT(query, key + 2),
                              KN_KEPT(query, key + 3));
#endif
            *(local KN_RAW_4 *)(weights + KN_LEFT_PLACE(own_row, column)) = round_4(weight);
        }
        if (part == 0) factors[own_row] = shrink;
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_sums(&sums, factors);
        sums_add(&sums, weights, value_tile);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    row_scores[part] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (part == 0) {
        KN_A total = 0;
        for (int other = 0; other < KN_ROW_ITEMS; other++)
            total += row_scores[other];
        factors[own_row] = total == 0 ? (KN_A)0 : 1 / total;
        if (first + own_row < queries)
            log_sum[sums_at + first + own_row] = total == 0 ? (KN_T)0 : (KN_T)(most + log(total));
    }
    store_y(&sums, stage, y + y_at, y_row, first, queries, factors);
}
#endif

#if KN_WANTED(kn_attention_queries)
/* The sum of the products of KN_VECTOR elements of dy and y. */
static inline KN_A sum_of_4(const KN_A4 four) {
    return (four.s0 + four.s2) + (four.s1 + four.s3);
}
#if KN_VECTOR == 8
static inline KN_A sum_of_8(const float8 eight) {
    return sum_of_4(eight.lo + eight.hi);
}
#define KN_DELTA_OF(at) sum_of_8(KN_READ_8_AS(KN_HALF_dy, dy + (at)) * KN_READ_8_AS(KN_HALF_y, y + (at)))
#elif KN_VECTOR == 4
#define KN_DELTA_OF(at) sum_of_4(KN_READ_4_AS(KN_HALF_dy, dy + (at)) * KN_READ_4_AS(KN_HALF_y, y + (at)))
#else
#define KN_DELTA_OF(at) ((KN_A)KN_READ_AS(KN_HALF_dy, dy + (at)) * (KN_A)KN_READ_AS(KN_HALF_y, y + (at)))
#endif
KN_WORK_GROUP kernel void kn_attention_queries(global const KN_STORED(KN_HALF_dy) *restrict dy,
                                               global const KN_STORED(KN_HALF_y) *restrict y,
                                               global const KN_T *restrict log_sum, global KN_A *restrict delta,
                                               global const KN_STORED(KN_HALF_q) *restrict q, global const KN_STORED(KN_HALF_k) *restrict k,
                                               global const KN_STORED(KN_HALF_v) *restrict v, global KN_STORED(KN_HALF_dq) *restrict dq,
                                               KN_SIZES) {
    KN_MEMORY(2, 3, 1, 0)
    local KN_A own_sums[KN_TILE_M], deltas[KN_TILE_M], delta_parts[KN_ITEMS];
    KN_HEAD_PLACES
    local KN_NUMBER *key_tile = tiles, *key_across = tiles + KN_OTHER_TILE, *value_tile = tiles + 2 * KN_OTHER_TILE;
    const int own_query = min(first + own_row, queries - 1);
    const KN_INDEX row_at = y_at + own_query * y_row;
    KN_A delta_part = 0;
    for (int d = part * KN_VECTOR; d < KN_HEAD; d += KN_ROW_ITEMS * KN_VECTOR) delta_part += KN_DELTA_OF(row_at + d);
    delta_parts[item] = delta_part;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (part == 0) {
        KN_A total = 0;
        for (int other = 0; other < KN_ROW_ITEMS; other++)
            total += delta_parts[item + other];
        deltas[own_row] = total;
        own_sums[own_row] = (KN_A)log_sum[sums_at + own_query];
        if (first + own_row < queries) delta[sums_at + own_query] = total;
    }
    own_rows own_queries, own_slopes;
    KN_TAKE_OWN(own_queries, 0, own_q, q + q_at, q_row, queries)
    KN_TAKE_OWN(own_slopes, 1, own_dy, dy + y_at, y_row, queries)
    sums sums;
    sums_clear(&sums);
    fetched key_next, value_next;
    fetch_k(&key_next, k + k_at, k_row, 0, limit);
    fetch_v(&value_next, v + v_at, k_row, 0, limit);
    for (int key0 = 0; key0 < keys_seen; key0 += KN_TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        put_along(&key_next, key_tile);
        put_across(&key_next, key_across);
        put_along(&value_next, value_tile);
        barrier(CLK_LOCAL_MEM_FENCE);
        fetch_k(&key_next, k + k_at, k_row, key0 + KN_TILE_K, limit);
        fetch_v(&value_next, v + v_at, k_row, key0 + KN_TILE_K, limit);
        scores scores, slopes;
        multiply_rows(&scores, &own_queries, key_tile);
        multiply_rows(&slopes, &own_slopes, value_tile);
        KN_EACH_SCORE {
            const int row = KN_SUM_IN_ROW(i, e), column = KN_SCORE_COLUMN(j, e);
            const int query = first + row, key = key0 + column;
            const bool seen = key < KN_SEEN_KEYS(query);
            KN_WEIGHT_AND_SLOPE(own_sums[row], deltas[row])
            *(lefts + KN_LEFT_PLACE(row, column)) = round_1(score_slope);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        sums_add(&sums, lefts, key_across);
    }
    store_dq(&sums, stage, dq + q_at, q_row, first, queries);
}
#endif

#if KN_WANTED(kn_attention_keys)
KN_WORK_GROUP kernel void kn_attention_keys(global const KN_STORED(KN_HALF_dy) *restrict dy,
                                            global const KN_T *restrict log_sum,
                                            global const KN_A *restrict delta, global const KN_STORED(KN_HALF_q) *restrict q,
                                            global const KN_STORED(KN_HALF_k) *restrict k, global const KN_STORED(KN_HALF_v) *restrict v,
                                            global KN_STORED(KN_HALF_dk) *dk, global KN_STORED(KN_HALF_dv) *dv, KN_SIZES) {
    KN_MEMORY(2, 4, 2, 0)
    local KN_A query_sums[KN_TILE_K], deltas[KN_TILE_K];
    KN_PLACES
    const KN_INDEX key_head = KN_GROUP(1, 1);
    KN_KEY_PLACES
    local KN_NUMBER *query_tile = tiles, *query_across = tiles + KN_OTHER_TILE, *slope_tile = tiles + 2 * KN_OTHER_TILE,
                    *slope_across = tiles + 3 * KN_OTHER_TILE, *weight_tile = lefts, *score_slopes = lefts + KN_LEFT_SLICE;
    own_rows own_keys, own_values;
    KN_TAKE_OWN(own_keys, 0, own_k, k + k_at, k_row, limit)
    KN_TAKE_OWN(own_values, 1, own_v, v + v_at, k_row, limit)
    sums key_sums, value_sums;
    sums_clear(&key_sums);
    sums_clear(&value_sums);
    const int query_first = causal ? max(0, first - offset) : 0;
    for (KN_INDEX head = key_head * group; head < (key_head + 1) * group; head++) {
        KN_QUERY_PLACES
        fetched query_next, slope_next;
        fetch_q(&query_next, q + q_at, q_row, query_first, queries);
        fetch_dy(&slope_next, dy + y_at, y_row, query_first, queries);
        for (int query0 = query_first; query0 < queries; query0 += KN_TILE_K) {
            barrier(CLK_LOCAL_MEM_FENCE);
            put_along(&query_next, query_tile);
            put_across(&query_next, query_across);
            put_along(&slope_next, slope_tile);
            put_across(&slope_next, slope_across);
            if (item < KN_TILE_K) {
                const KN_INDEX sum_at = sums_at + min(query0 + item, queries - 1);
                query_sums[item] = (KN_A)log_sum[sum_at];
                deltas[item] = delta[sum_at];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            fetch_q(&query_next, q + q_at, q_row, query0 + KN_TILE_K, queries);
            fetch_dy(&slope_next, dy + y_at, y_row, query0 + KN_TILE_K, queries);
            scores scores, slopes;
            multiply_rows(&scores, &own_keys, query_tile);
            multiply_rows(&slopes, &own_values, slope_tile);
            KN_EACH_SCORE {
                const int row = KN_SUM_IN_ROW(i, e), column = KN_SCORE_COLUMN(j, e);
                const int query = query0 + column, key = first + row;
                const bool seen = query < queries && key < KN_SEEN_KEYS(query);
                KN_WEIGHT_AND_SLOPE(query_sums[column], deltas[column])
                *(weight_tile + KN_LEFT_PLACE(row, column)) = round_1(weight * kept);
                *(score_slopes + KN_LEFT_PLACE(row, column)) = round_1(score_slope);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            sums_add(&value_sums, weight_tile, slope_across);
            sums_add(&key_sums, score_slopes, query_across);
        }
    }
    store_dk(&key_sums, stage, dk + k_at, k_row, first, keys);
    store_dv(&value_sums, stage, dv + v_at, k_row, first, keys);
}
#endif
