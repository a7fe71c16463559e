/* Recurrences for devices with many threads, one launch per step: a work-group computes the product of a tile of
 * samples and units with the weights, and then the cell, in registers.
 *
 * Defines: those of common/tile.cl, and KN_CELL, KN_GATES, KN_KEPT and KN_RELU as in recurrent/wide.cl. Four columns
 * of a tile are the gates of one unit, the fourth unused with three gates; with one gate, and in the gradient, four
 * units.
 *
 * Arrays and arguments are those of recurrent/wide.cl, with the weight instead of panels, and without item_panels and
 * item_rows; carry and carry_cells have the accumulators' type. Work-groups: tiles of columns, tiles of samples.
 *   kn_recurrent_step(x, weight, bias, lengths, before, after, cells_before, cells, y, kept, start, final,
 *                     final_cells, …)
 *   kn_recurrent_back(dy, kept, cells, cells_before, previous, weight, lengths, final, final_cells, slopes, hidden,
 *                     carry, carry_cells, start, start_cells, …) */
#include "common/wanted.cl"
#include "recurrent/present.cl"
#ifndef KN_CELL
#define KN_CELL 1
#endif
#ifndef KN_GATES
#define KN_GATES 4
#endif
#ifndef KN_KEPT
#define KN_KEPT 4
#endif
#ifndef KN_RELU
#define KN_RELU 0
#endif
#include "common/tile.cl"

#define KN_INLINE static inline
typedef KN_A number;
KN_INLINE number sigmoid_of(const number x) {
    return 1 / (1 + exp(-x));
}
KN_INLINE number tanh_of(const number x) {
    return tanh(x);
}
#if KN_CELL == 1
#include "recurrent/lstm.cl"
#elif KN_CELL == 2
#include "recurrent/gru.cl"
#else
#include "recurrent/rnn.cl"
#endif

/* Units in four columns. */
#define KN_SPAN (4 / KN_GATES)
#define KN_UNIT_OF(column) (KN_SPAN == 4 ? (column) : (column) / 4)
#define KN_GATE_OF(column) (KN_SPAN == 4 ? 0 : (column) % 4)

#if KN_WANTED(kn_recurrent_step)
KN_WORK_GROUP kernel void kn_recurrent_step(
    global const KN_T *restrict x, global const KN_T *restrict weight, global const KN_T *restrict bias,
    global const int *restrict lengths, global const KN_T *before, global KN_T *after, global const KN_T *cells_before,
    global KN_T *cells, global KN_T *y, global KN_T *kept, global KN_T *start, global KN_T *final,
    global KN_T *final_cells, uint present, int batch, int length, int units, KN_INDEX before_row, KN_INDEX before_at,
    KN_INDEX after_row, KN_INDEX after_at, KN_INDEX cells_before_row, KN_INDEX cells_before_at, KN_INDEX cells_row,
    KN_INDEX cells_at, int step) {
    KN_SLICES(1)
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M, column0 = KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    sums sums;
    sums_clear(&sums);
    for (int k0 = 0; KN_PRESENT(step_before) && k0 < units; k0 += KN_TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int at = get_local_id(0); at < KN_TILE_M * KN_TILE_K; at += KN_ITEMS) {
            const int k = at % KN_TILE_K, i = at / KN_TILE_K;
            const bool inside = row0 + i < batch && k0 + k < units;
            left[k * KN_LEFT_ROW + i] = inside ? KN_TO_A(before[(row0 + i) * before_row + before_at + k0 + k]) : 0;
        }
        for (int at = get_local_id(0); at < KN_TILE_N * KN_TILE_K; at += KN_ITEMS) {
            const int k = at % KN_TILE_K, i = at / KN_TILE_K, column = column0 + i;
            const int unit = KN_UNIT_OF(column), gate = KN_GATE_OF(column);
            const int last = gate < KN_GATES ? units : 0; /* compilers warn about a constant comparison */
            const bool inside = unit < last && k0 + k < units;
            right[k * KN_RIGHT_ROW + i] = inside ? KN_TO_A(weight[((KN_INDEX)gate * units + unit) * units + k0 + k]) : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        sums_add(&sums, left, right);
    }
#pragma unroll
    for (int m = 0; m < KN_ITEM_M; m++)
#pragma unroll
        for (int n = 0; n < KN_ITEM_N / 4; n++) {
            const KN_A4 four = sums.at[m][n];
            const KN_A each[4] = {four.s0, four.s1, four.s2, four.s3};
            const int row = row0 + KN_ROW(m), live = row < batch && (!KN_PRESENT(step_lengths) || step < lengths[row]);
            for (int l = 0; l < KN_SPAN; l++) {
                const int unit = KN_UNIT_OF(column0 + KN_COLUMN(n)) + l;
                if (row >= batch || unit >= units) continue;
                const KN_INDEX at = ((KN_INDEX)row * length + step) * units;
                KN_A given[KN_GATES], gates[KN_KEPT], h, c;
                for (int gate = 0; gate < KN_GATES; gate++)
                    given[gate] = KN_TO_A(x[at * KN_GATES + gate * units + unit]);
                const KN_A held = KN_PRESENT(step_before) ? KN_TO_A(before[row * before_row + before_at + unit]) : 0;
                const KN_A cell_held =
                    KN_PRESENT(step_cells_before) ? KN_TO_A(cells_before[row * cells_before_row + cells_before_at + unit]) : 0;
                cell_step(each + l, given, KN_PRESENT(step_bias) ? KN_TO_A(bias[unit]) : 0, held, cell_held, gates, &h, &c);
                if (KN_PRESENT(step_kept))
                    for (int gate = 0; gate < KN_KEPT; gate++)
                        kept[at * KN_KEPT + gate * units + unit] = KN_TO_T(gates[gate]);
                y[at + unit] = live ? KN_TO_T(h) : 0;
                if (!live) {
                    h = held;
                    c = cell_held;
                }
                if (KN_PRESENT(step_cells)) cells[row * cells_row + cells_at + unit] = KN_TO_T(c);
                if (KN_PRESENT(step_after)) after[row * after_row + after_at + unit] = KN_TO_T(h);
                if (KN_PRESENT(step_start)) start[at + unit] = KN_TO_T(held);
                if (KN_PRESENT(step_final)) final[(KN_INDEX)row * units + unit] = KN_TO_T(h);
                if (KN_PRESENT(step_final_cells)) final_cells[(KN_INDEX)row * units + unit] = KN_TO_T(c);
            }
        }
}
#endif

#if KN_WANTED(kn_recurrent_back)
KN_WORK_GROUP kernel void kn_recurrent_back(
    global const KN_T *restrict dy, global const KN_T *restrict kept, global const KN_T *cells,
    global const KN_T *cells_before, global const KN_T *restrict previous, global const KN_T *restrict weight,
    global const int *restrict lengths, global const KN_T *restrict final, global const KN_T *restrict final_cells,
    global KN_T *slopes, global KN_T *hidden, global KN_A *restrict carry, global KN_A *restrict carry_cells,
    global KN_T *restrict start, global KN_T *restrict start_cells, uint present, int batch, int length, int units,
    KN_INDEX cells_before_row, KN_INDEX cells_before_at, int step, int from, int first) {
    KN_SLICES(1)
    const int row0 = KN_GROUP(1, 1) * KN_TILE_M, column0 = KN_GROUP(0, KN_ITEMS) * KN_TILE_N;
    const int depth = KN_GATES * units;
    sums sums;
    sums_clear(&sums);
    for (int k0 = 0; !first && k0 < depth; k0 += KN_TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int at = get_local_id(0); at < KN_TILE_M * KN_TILE_K; at += KN_ITEMS) {
            const int k = at % KN_TILE_K, i = at / KN_TILE_K;
            const bool inside = row0 + i < batch && k0 + k < depth;
            left[k * KN_LEFT_ROW + i] =
                inside ? KN_TO_A(hidden[((KN_INDEX)(row0 + i) * length + from) * depth + k0 + k]) : 0;
        }
        for (int at = get_local_id(0); at < KN_TILE_N * KN_TILE_K; at += KN_ITEMS) {
            const int i = at % KN_TILE_N, k = at / KN_TILE_N;
            const bool inside = column0 + i < units && k0 + k < depth;
            right[k * KN_RIGHT_ROW + i] = inside ? KN_TO_A(weight[(KN_INDEX)(k0 + k) * units + column0 + i]) : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        sums_add(&sums, left, right);
    }
#pragma unroll
    for (int m = 0; m < KN_ITEM_M; m++)
#pragma unroll
        for (int n = 0; n < KN_ITEM_N / 4; n++) {
            const KN_A4 four = sums.at[m][n];
            const KN_A each[4] = {four.s0, four.s1, four.s2, four.s3};
            const int row = row0 + KN_ROW(m), live = row < batch && (!KN_PRESENT(back_lengths) || step < lengths[row]);
            for (int l = 0; l < 4; l++) {
                const int unit = column0 + KN_COLUMN(n) + l;
                if (row >= batch || unit >= units) continue;
                const KN_INDEX carried = (KN_INDEX)row * units + unit;
                const KN_INDEX at = ((KN_INDEX)row * length + step) * units;
                KN_A dh = each[l], dc = 0;
                if (KN_PRESENT(back_carry) && !first) dh += carry[carried];
                if (KN_PRESENT(back_start)) {
                    start[carried] = KN_TO_T(dh);
                    continue;
                }
                if (KN_PRESENT(back_final)) dh += KN_TO_A(final[carried]);
                if (KN_PRESENT(back_carry_cells) && !first) dc += carry_cells[carried];
                if (KN_PRESENT(back_final_cells)) dc += KN_TO_A(final_cells[carried]);
                KN_A gates[KN_KEPT], slope[KN_GATES], last = 0, direct = dh, dc_before = dc;
                if (live) {
                    KN_A cell = 0, cell_held = 0, held = 0;
                    if (KN_PRESENT(back_dy)) dh += KN_TO_A(dy[at + unit]);
                    for (int gate = 0; gate < KN_KEPT; gate++)
                        gates[gate] = KN_TO_A(kept[at * KN_KEPT + gate * units + unit]);
#if KN_CELL == 1
                    cell = KN_TO_A(cells[at + unit]);
                    if (KN_PRESENT(back_cells_before))
                        cell_held = KN_TO_A(cells_before[row * cells_before_row + cells_before_at + unit]);
#elif KN_CELL == 2
                    held = KN_TO_A(previous[at + unit]);
#endif
                    cell_back(gates, held, cell, cell_held, dh, dc, slope, &last, &direct, &dc_before);
                } else
                    for (int gate = 0; gate < KN_GATES; gate++)
                        slope[gate] = 0;
                for (int gate = 0; gate < KN_GATES; gate++)
                    slopes[at * KN_GATES + gate * units + unit] = KN_TO_T(slope[gate]);
#if KN_CELL == 2
                slope[KN_GATES - 1] = last;
                for (int gate = 0; gate < KN_GATES; gate++)
                    hidden[at * KN_GATES + gate * units + unit] = KN_TO_T(slope[gate]);
#endif
                if (KN_PRESENT(back_carry)) carry[carried] = direct;
                if (KN_PRESENT(back_carry_cells)) carry_cells[carried] = dc_before;
                if (KN_PRESENT(back_start_cells)) start_cells[carried] = KN_TO_T(dc_before);
            }
        }
}
#endif
