/* Recurrences on matrix units, one launch per step, like recurrent/tiled.cl, with products as in common/fragment.cl:
 * states, slopes of gates and weights are float32, and rounded to the unit's type as they are read. The sums pass
 * through local memory to the work-items, each of which computes units.
 *
 * Defines, with their defaults:
 *   KN_TILE_M 32, KN_TILE_N 32    samples and columns of a work-group; columns are as in recurrent/tiled.cl
 *   KN_TILE_K 64                  the depth of a slice
 *   KN_WAVE_M 16, KN_WAVE_N 16    of a wave
 *   KN_VECTOR 1                   4: elements read at a time; the number of units is a multiple of it
 *   KN_FRAGMENT 1, KN_FORMAT 2   the unit and its element format; emulated by default (KN_EMULATED 1)
 * and those of recurrent/unit.cl, which also has the arrays and arguments. Kernels and groups: as in recurrent/tiled.cl. */
#include "common/wanted.cl"
#ifndef KN_FRAGMENT
#define KN_FRAGMENT 1
#define KN_EMULATED 1
#endif
#ifndef KN_TILE_M
#define KN_TILE_M 32
#endif
#ifndef KN_TILE_N
#define KN_TILE_N 32
#endif
#ifndef KN_TILE_K
#define KN_TILE_K 64
#endif
#ifndef KN_WAVE_M
#define KN_WAVE_M 16
#endif
#ifndef KN_WAVE_N
#define KN_WAVE_N 16
#endif
#ifndef KN_VECTOR
#define KN_VECTOR 1
#endif
#include "common/tile.cl"
#include "recurrent/unit.cl"

/* Rows of the left side are along k, as are the weights of a gate; in the gradient the weights are across. */
typedef KN_PASTE(piece_, KN_VECTOR) piece;
#define KN_LEFT_PIECES KN_PIECES(KN_TILE_M, KN_VECTOR, KN_ALONG)
#define KN_LEFT_PIECE(p) piece_at(p, KN_ALONG, KN_TILE_M, KN_VECTOR)
#define KN_RIGHT_PIECES(order) KN_PIECES(KN_TILE_N, KN_VECTOR, order)
#define KN_RIGHT_PIECE(p, order) piece_at(p, order, KN_TILE_N, KN_VECTOR)
/* The elements at from[at], rounded; 0 starting at `depth` along k, for which from[0] may be loaded. */
#define KN_LOAD_LINE(from, at, k) KN_LOAD_RAW_IF((k) < depth, 0, KN_VECTOR, from, at)
#define KN_FETCH_LEFT(from, k0)                                                                              \
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) left_next[p].line[0] =                                \
        KN_LOAD_LINE(from, left_at[p] + (k0), (k0) + KN_LEFT_PIECE(p).k);
#define KN_PUT_SIDES(order, turn)                                                                            \
    KN_PUT_PIECES(left_next, KN_ALONG, KN_TILE_M, KN_VECTOR, 1, left + (turn) * KN_LEFT_SLICE)               \
    KN_PUT_PIECES(right_next, order, KN_TILE_N, KN_VECTOR, 0, right + (turn) * KN_RIGHT_SLICE)

#if KN_WANTED(kn_recurrent_step)
#define KN_FETCH_STEP(k0)                                                                                    \
    KN_FETCH_LEFT(before + before_at, k0)                                                                    \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES(KN_ALONG); p++) right_next[p].line[0] =                    \
        KN_LOAD_LINE(weight, right_at[p] + (k0), (k0) + KN_RIGHT_PIECE(p, KN_ALONG).k);
#define KN_PUT_STEP(turn) KN_PUT_SIDES(KN_ALONG, turn)
#define KN_STEP_STAGED(row_at, from)                                                                         \
    const int row = row0 + (row_at);                                                                         \
    if (row < batch && unit < units) {                                                                       \
        KN_A each[KN_GATES];                                                                                 \
        KN_UNROLL for (int gate = 0; gate < KN_GATES; gate++) each[gate] = (from)[gate];                     \
        step_unit(row, unit, each, KN_STEP_PASSED);                                                          \
    }
KN_WORK_GROUP kernel void kn_recurrent_step(KN_STEP_PARAMETERS) {
    KN_SLICES(2)
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M, column0 = KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const int depth = KN_PRESENT(step_before) ? units : 0;
    piece left_next[KN_LEFT_PIECES], right_next[KN_RIGHT_PIECES(KN_ALONG)];
    /* Pieces beyond the last sample or unit repeat it, in sums that are not used. */
    KN_INDEX left_at[KN_LEFT_PIECES], right_at[KN_RIGHT_PIECES(KN_ALONG)];
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {
        const position place = KN_LEFT_PIECE(p);
        left_at[p] = min(row0 + place.i, batch - 1) * before_row + place.k;
    }
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES(KN_ALONG); p++) {
        const position place = KN_RIGHT_PIECE(p, KN_ALONG);
        const int column = column0 + place.i, unit = min(KN_UNIT_OF(column), units - 1);
        right_at[p] = ((KN_INDEX)min(KN_GATE_OF(column), KN_GATES - 1) * units + unit) * units + place.k;
    }
    sums sums;
    sums_clear(&sums);
    KN_ADD_SLICES(0, depth, KN_FETCH_STEP, KN_PUT_STEP)
    const int unit = KN_UNIT_OF(column0 + KN_STAGED_COLUMN(KN_UNIT_COLUMNS));
    KN_STORE_STAGED(KN_UNIT_COLUMNS, KN_STEP_STAGED)
}
#endif

#if KN_WANTED(kn_recurrent_back)
#define KN_FETCH_BACK(k0)                                                                                    \
    KN_FETCH_LEFT(hidden + (KN_INDEX)from * gate_units, k0)                                                  \
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES(KN_ACROSS); p++)                                           \
        KN_UNROLL for (int line = 0; line < KN_IN_WORD; line++) right_next[p].line[line] =                   \
            KN_LOAD_LINE(weight, right_at[p] + (KN_INDEX)((k0) + line) * units,                              \
                         (k0) + KN_RIGHT_PIECE(p, KN_ACROSS).k + line);
#define KN_PUT_BACK(turn) KN_PUT_SIDES(KN_ACROSS, turn)
#define KN_BACK_STAGED(row_at, from)                                                                         \
    const int row = row0 + (row_at);                                                                         \
    if (row < batch && unit < units) back_unit(row, unit, *(from), KN_BACK_PASSED);
KN_WORK_GROUP kernel void kn_recurrent_back(KN_BACK_PARAMETERS) {
    KN_SLICES(2)
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M, column0 = KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const int gate_units = KN_GATES * units, depth = first ? 0 : gate_units;
    piece left_next[KN_LEFT_PIECES], right_next[KN_RIGHT_PIECES(KN_ACROSS)];
    KN_INDEX left_at[KN_LEFT_PIECES], right_at[KN_RIGHT_PIECES(KN_ACROSS)];
    KN_UNROLL for (int p = 0; p < KN_LEFT_PIECES; p++) {
        const position place = KN_LEFT_PIECE(p);
        left_at[p] = (KN_INDEX)min(row0 + place.i, batch - 1) * length * gate_units + place.k;
    }
    KN_UNROLL for (int p = 0; p < KN_RIGHT_PIECES(KN_ACROSS); p++) {
        const position place = KN_RIGHT_PIECE(p, KN_ACROSS);
        right_at[p] = (KN_INDEX)place.k * units + min(column0 + place.i, units - KN_VECTOR);
    }
    sums sums;
    sums_clear(&sums);
    KN_ADD_SLICES(0, depth, KN_FETCH_BACK, KN_PUT_BACK)
    const int unit = column0 + KN_STAGED_COLUMN(1);
    KN_STORE_STAGED(1, KN_BACK_STAGED)
}
#endif
