/* The recurrence of an LSTM layer for devices with many threads, one launch a step: a work-group computes the product of
 * a tile of samples and units with the weights, and in registers what gates and cells make of it.
 *
 * Defines: those of common/tile.cl; columns of a tile are the four gates of one unit, then those of the next, or units in
 * the gradient.
 *
 * B samples, T steps, H units. x (B,T,4H) has what the inputs give to the gates i, f, g, o; gates (B,T,4H) what became of
 * them; y (B,T,H) the results h, previous (B,T,H) those of the step before, and cells the states c. weight is (4H,H).
 *     c = f c' + i g,  h = o tanh(c),  with i, f, o = sigmoid(x + weight h'), g = tanh(x + weight h')
 *
 * kn_lstm_step(x, weight, y, gates, cells, previous, batch, length, units, cells_row, cells_step, step)
 *   groups: tiles of columns, tiles of samples. The cells of sample b and step t begin at b * cells_row + t *
 *   cells_step, with a step of 0 where only the last are kept. gates and previous may be NULL.
 * kn_lstm_back(dy, gates, cells, weight, dx, carry, batch, length, units, step)
 *   the steps from the last to the first; dx (B,T,4H), carry (B,H) what the cells hand on; cells (B,T,H) */
#include "common/tile.cl"

static KN_A sigmoid_of(const KN_A x) {
    return 1 / (1 + exp(-x));
}

KN_WORK_GROUP kernel void kn_lstm_step(global const KN_T *restrict x, global const KN_T *restrict weight,
                                       global KN_T *y, global KN_T *gates, global KN_T *cells,
                                       global KN_T *previous, int batch, int length, int units,
                                       KN_INDEX cells_row, KN_INDEX cells_step, int step) {
    local KN_A left[KN_TILE_K * KN_LEFT_ROW];
    local KN_A right[KN_TILE_K * KN_RIGHT_ROW];
    const int row0 = get_group_id(1) * KN_TILE_M, column0 = get_group_id(0) * KN_TILE_N;
    const KN_INDEX y_row = (KN_INDEX)length * units;
    sums sums;
    sums_clear(&sums);
    for (int k0 = 0; step > 0 && k0 < units; k0 += KN_TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int at = get_local_id(0); at < KN_TILE_M * KN_TILE_K; at += KN_ITEMS) {
            const int k = at % KN_TILE_K, i = at / KN_TILE_K;
            const bool inside = row0 + i < batch && k0 + k < units;
            left[k * KN_LEFT_ROW + i] =
                inside ? KN_TO_A(y[(row0 + i) * y_row + (KN_INDEX)(step - 1) * units + k0 + k]) : 0;
        }
        for (int at = get_local_id(0); at < KN_TILE_N * KN_TILE_K; at += KN_ITEMS) {
            const int k = at % KN_TILE_K, i = at / KN_TILE_K, column = column0 + i;
            const bool inside = column < 4 * units && k0 + k < units;
            right[k * KN_RIGHT_ROW + i] =
                inside ? KN_TO_A(weight[((KN_INDEX)(column % 4) * units + column / 4) * units + k0 + k]) : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        sums_add(&sums, left, right);
    }
#pragma unroll
    for (int m = 0; m < KN_ITEM_M; m++)
#pragma unroll
        for (int n = 0; n < KN_ITEM_N / 4; n++) {
            const int row = row0 + KN_ROW(m), unit = (column0 + KN_COLUMN(n)) / 4;
            if (row >= batch || unit >= units) continue;
            const KN_A4 sum = sums.at[m][n];
            const KN_INDEX at = row * y_row + (KN_INDEX)step * units + unit;
            const KN_INDEX x_at = at * 4 - 3 * unit, cell = row * cells_row + step * cells_step + unit;
            const KN_A i = sigmoid_of(sum.s0 + KN_TO_A(x[x_at]));
            const KN_A f = sigmoid_of(sum.s1 + KN_TO_A(x[x_at + units]));
            const KN_A g = tanh(sum.s2 + KN_TO_A(x[x_at + 2 * units]));
            const KN_A o = sigmoid_of(sum.s3 + KN_TO_A(x[x_at + 3 * units]));
            const KN_A c = i * g + (step > 0 ? f * KN_TO_A(cells[cell - cells_step]) : 0);
            const KN_T h = KN_TO_T(o * tanh(c));
            cells[cell] = KN_TO_T(c);
            y[at] = h;
            if (gates) {
                gates[x_at] = KN_TO_T(i);
                gates[x_at + units] = KN_TO_T(f);
                gates[x_at + 2 * units] = KN_TO_T(g);
                gates[x_at + 3 * units] = KN_TO_T(o);
            }
            if (previous && step + 1 < length) previous[at + units] = h;
            if (previous && step == 0) previous[at] = 0;
        }
}

KN_WORK_GROUP kernel void kn_lstm_back(global const KN_T *restrict dy, global const KN_T *restrict gates,
                                       global const KN_T *restrict cells, global const KN_T *restrict weight,
                                       global KN_T *dx, global KN_A *restrict carry, int batch, int length,
                                       int units, int step) {
    local KN_A left[KN_TILE_K * KN_LEFT_ROW];
    local KN_A right[KN_TILE_K * KN_RIGHT_ROW];
    const int row0 = get_group_id(1) * KN_TILE_M, column0 = get_group_id(0) * KN_TILE_N;
    const int last = step + 1 == length;
    const KN_INDEX y_row = (KN_INDEX)length * units;
    sums sums;
    sums_clear(&sums);
    for (int k0 = 0; !last && k0 < 4 * units; k0 += KN_TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int at = get_local_id(0); at < KN_TILE_M * KN_TILE_K; at += KN_ITEMS) {
            const int k = at % KN_TILE_K, i = at / KN_TILE_K;
            const bool inside = row0 + i < batch && k0 + k < 4 * units;
            left[k * KN_LEFT_ROW + i] =
                inside ? KN_TO_A(dx[((row0 + i) * y_row + (KN_INDEX)(step + 1) * units) * 4 + k0 + k]) : 0;
        }
        for (int at = get_local_id(0); at < KN_TILE_N * KN_TILE_K; at += KN_ITEMS) {
            const int i = at % KN_TILE_N, k = at / KN_TILE_N;
            const bool inside = column0 + i < units && k0 + k < 4 * units;
            right[k * KN_RIGHT_ROW + i] =
                inside ? KN_TO_A(weight[(KN_INDEX)(k0 + k) * units + column0 + i]) : 0;
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
            for (int l = 0; l < 4; l++) {
                const int row = row0 + KN_ROW(m), unit = column0 + KN_COLUMN(n) + l;
                if (row >= batch || unit >= units) continue;
                const KN_INDEX at = row * y_row + (KN_INDEX)step * units + unit, x_at = at * 4 - 3 * unit;
                const KN_INDEX carried = (KN_INDEX)row * units + unit;
                const KN_A i = KN_TO_A(gates[x_at]), f = KN_TO_A(gates[x_at + units]);
                const KN_A g = KN_TO_A(gates[x_at + 2 * units]), o = KN_TO_A(gates[x_at + 3 * units]);
                const KN_A c = tanh(KN_TO_A(cells[at])), before = step > 0 ? KN_TO_A(cells[at - units]) : 0;
                const KN_A dh = KN_TO_A(dy[at]) + each[l];
                const KN_A dc = dh * o * (1 - c * c) + (last ? 0 : carry[carried]);
                carry[carried] = dc * f;
                dx[x_at] = KN_TO_T(dc * g * i * (1 - i));
                dx[x_at + units] = KN_TO_T(dc * before * f * (1 - f));
                dx[x_at + 2 * units] = KN_TO_T(dc * i * (1 - g * g));
                dx[x_at + 3 * units] = KN_TO_T(dh * c * o * (1 - o));
            }
        }
}
