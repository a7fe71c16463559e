/* Recurrences for many-thread devices, one launch per step: a work-group computes the product of a tile of
 * samples and units with the weights, and then the cell, in registers.
 *
 * Defines: those of common/tile.cl and of recurrent/unit.cl, which also has the arrays and arguments. Four columns
 * of a tile are the gates of one unit, the fourth unused with three gates; with one gate, and in the gradient, four
 * units. Work-groups: tiles of columns, tiles of samples.
 *   kn_recurrent_step(x, weight, bias, lengths, before, after, cells_before, cells, y, kept, start, final,
 *                     final_cells, …)
 *   kn_recurrent_back(dy, kept, cells, cells_before, previous, weight, lengths, final, final_cells, slopes, hidden,
 *                     carry, carry_cells, start, start_cells, …) */
#include "common/wanted.cl"
#include "common/tile.cl"
#include "recurrent/unit.cl"

/* Units in four columns. */
#define KN_SPAN (4 / KN_UNIT_COLUMNS)

#if KN_WANTED(kn_recurrent_step)
KN_WORK_GROUP kernel void kn_recurrent_step(KN_STEP_PARAMETERS) {
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
    KN_UNROLL for (int m = 0; m < KN_ITEM_M; m++)
        KN_UNROLL for (int n = 0; n < KN_ITEM_N / 4; n++) {
            const KN_A4 four = sums.at[m][n];
            const KN_A each[4] = {four.s0, four.s1, four.s2, four.s3};
            const int row = row0 + KN_ROW(m);
            for (int l = 0; l < KN_SPAN; l++) {
                const int unit = KN_UNIT_OF(column0 + KN_COLUMN(n)) + l;
                if (row >= batch || unit >= units) continue;
                step_unit(row, unit, each + l, KN_STEP_PASSED);
            }
        }
}
#endif

#if KN_WANTED(kn_recurrent_back)
KN_WORK_GROUP kernel void kn_recurrent_back(KN_BACK_PARAMETERS) {
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
    KN_UNROLL for (int m = 0; m < KN_ITEM_M; m++)
        KN_UNROLL for (int n = 0; n < KN_ITEM_N / 4; n++) {
            const KN_A4 four = sums.at[m][n];
            const KN_A each[4] = {four.s0, four.s1, four.s2, four.s3};
            const int row = row0 + KN_ROW(m);
            for (int l = 0; l < 4; l++) {
                const int unit = column0 + KN_COLUMN(n) + l;
                if (row >= batch || unit >= units) continue;
                back_unit(row, unit, each[l], KN_BACK_PASSED);
            }
        }
}
#endif
