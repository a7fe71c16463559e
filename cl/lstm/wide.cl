/* The recurrence of an LSTM layer for wide-vector devices, float32, one launch a step: the product with the weights and
 * what gates and cells make of it are one kernel, so that its sums never leave the registers.
 *
 * Defines: those of common/vector.cl with KN_VECTORS 4: a row of a tile is one vector for each gate of KN_WIDTH units,
 * or four vectors of units in the gradient.
 *
 * B samples, T steps, H units. x (B,T,4H) has what the inputs give to the gates i, f, g, o; gates (B,T,4H) what became of
 * them; y (B,T,H) the results h, previous (B,T,H) those of the step before, and cells the states c. weight is (4H,H).
 *     c = f c' + i g,  h = o tanh(c),  with i, f, o = sigmoid(x + weight h'), g = tanh(x + weight h')
 *
 * kn_lstm_pack(weight, panels, units)            panels (ceil(H / KN_WIDTH),H,4,KN_WIDTH); global size: panels
 * kn_lstm_pack_back(weight, panels, units)       panels (ceil(H / KN_COLUMNS),4H,KN_COLUMNS); global size: panels
 * kn_lstm_step(x, panels, y, gates, cells, previous, batch, length, units, cells_row, cells_step, step, item_panels,
 *              item_rows)
 *   global size (ceil(panels / item_panels), ceil(B / item_rows)). The cells of sample b and step t begin at b *
 *   cells_row + t * cells_step, with a step of 0 where only the last are kept. gates and previous may be NULL.
 * kn_lstm_back(dy, gates, cells, panels, dx, carry, batch, length, units, step, item_panels, item_rows)
 *   the steps from the last to the first; dx (B,T,4H), carry (B,H) what the cells hand on; cells (B,T,H)
 * How panels and rows are dealt changes no bit. */
#define KN_VECTORS 4
#include "common/vector.cl"
#include "common/weave.cl"
#include "common/exp.cl"

#define KN_ROWS_3(X) KN_ROWS_2(X) X(2)
#define KN_ROWS_5(X) KN_ROWS_4(X) X(4)
/* The highest tile, and the lowest but that of one row. */
#if KN_WIDTH == 8
#define KN_TILE_ROWS 3 /* 16 registers */
#define KN_LEAST_ROWS 3
#else
#define KN_TILE_ROWS 6
#define KN_LEAST_ROWS 4
#endif

/* ---- parts of a vector --------------------------------------------------------------------------------- */

KN_INLINE vector load_part(global const float *source, int count) {
    if (count >= KN_WIDTH) return load(0, source);
    float part[KN_WIDTH];
    for (int i = 0; i < KN_WIDTH; i++)
        part[i] = i < count ? source[i] : 0.0f;
    return load(0, part);
}

KN_INLINE void store_part(vector value, int count, global float *to) {
    if (count >= KN_WIDTH) {
        store(value, 0, to);
        return;
    }
    float part[KN_WIDTH];
    store(value, 0, part);
    for (int i = 0; i < count; i++)
        to[i] = part[i];
}

KN_INLINE vector sigmoid_of(vector x) {
    return 1.0f / (1.0f + exp_of(-x));
}
KN_INLINE vector tanh_of(vector x) {
    return 1.0f - 2.0f / (exp_of(2.0f * x) + 1.0f);
}

/* ---- panels ------------------------------------------------------------------------------------------------ */

#define KN_TRANSPOSED_LOAD(i) const vector x##i = load(0, from + (KN_INDEX)min(i, count - 1) * units + k);
#define KN_TRANSPOSED_STORE(i) store(t##i, 0, to + (k + i) * KN_COLUMNS);

KN_WIDE kn_lstm_pack(global const float *restrict weight, global float *restrict panels, int units) {
    const int panel = get_global_id(0), count = units - panel * KN_WIDTH;
    for (int gate = 0; gate < 4; gate++) {
        global const float *from = weight + ((KN_INDEX)gate * units + panel * KN_WIDTH) * units;
        global float *to = panels + (KN_INDEX)panel * units * KN_COLUMNS + gate * KN_WIDTH;
        int k = 0;
        for (; k + KN_WIDTH <= units; k += KN_WIDTH) {
            KN_EACH_LANE(KN_TRANSPOSED_LOAD)
            KN_TRANSPOSE(x)
            KN_EACH_LANE(KN_TRANSPOSED_STORE)
        }
        for (; k < units; k++)
            for (int i = 0; i < KN_WIDTH; i++)
                to[k * KN_COLUMNS + i] = from[(KN_INDEX)min(i, count - 1) * units + k];
    }
}

KN_WIDE kn_lstm_pack_back(global const float *restrict weight, global float *restrict panels, int units) {
    const int panel = get_global_id(0);
    weight += panel * KN_COLUMNS;
    panels += (KN_INDEX)panel * 4 * units * KN_COLUMNS;
    for (int k = 0; k < 4 * units; k++, weight += units, panels += KN_COLUMNS)
        for (int v = 0; v < 4; v++) {
            const int count = units - panel * KN_COLUMNS - v * KN_WIDTH;
            store(count > 0 ? load_part(weight + v * KN_WIDTH, count) : (vector)(0.0f), v, panels);
        }
}

/* ---- the product: result (rows,KN_COLUMNS) = left (rows,depth) · panel (depth,KN_COLUMNS) ---------------------- */

#define KN_ZERO(row, v) vector sum##row##_##v = 0.0f;
#define KN_START(row)                                                                                        \
    global const float *left##row = left + row * left_row;                                                   \
    KN_EACH(KN_ZERO, row)
#define KN_RIGHT(row, v) const vector right##v = load(v, panel);
#define KN_ADD(row, v) sum##row##_##v += one * right##v;
#define KN_STEP(row)                                                                                         \
    {                                                                                                        \
        const vector one = left##row[k];                                                                     \
        KN_EACH(KN_ADD, row)                                                                                 \
    }
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, row * 4 + v, result);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)
#define KN_TILE(name, each_row)                                                                              \
    KN_APART void name(global const float *left, KN_INDEX left_row, global const float *panel, int depth,    \
                       float *result) {                                                                      \
        each_row(KN_START);                                                                                  \
        for (int k = 0; k < depth; k++, panel += KN_COLUMNS) {                                               \
            KN_EACH(KN_RIGHT, 0);                                                                            \
            each_row(KN_STEP);                                                                               \
        }                                                                                                    \
        each_row(KN_KEEP);                                                                                   \
    }
KN_TILE(tile_most, KN_JOIN(KN_ROWS_, KN_TILE_ROWS))
#if KN_WIDTH != 8
KN_TILE(tile_5, KN_ROWS_5)
KN_TILE(tile_4, KN_ROWS_4)
#endif
KN_TILE(tile_1, KN_ROWS_1)

/* Of the rows that are left, those of the next tile: tiles as high as may be and alike, so that each reads the panel for
 * many rows. */
KN_INLINE int rows_of_tile(int rest) {
    const int tiles = (rest + KN_TILE_ROWS - 1) / KN_TILE_ROWS, rows = (rest + tiles - 1) / tiles;
    return rows >= KN_LEAST_ROWS ? rows : rest > KN_TILE_ROWS ? KN_TILE_ROWS : 1;
}

KN_INLINE void multiply(global const float *left, KN_INDEX left_row, global const float *panel, int depth, int rows,
                        float *result) {
    if (rows == KN_TILE_ROWS)
        tile_most(left, left_row, panel, depth, result);
#if KN_WIDTH != 8
    else if (rows == 5)
        tile_5(left, left_row, panel, depth, result);
    else if (rows == 4)
        tile_4(left, left_row, panel, depth, result);
#endif
    else
        tile_1(left, left_row, panel, depth, result);
}

/* ---- forward ------------------------------------------------------------------------------------------------- */

KN_WIDE kn_lstm_step(global const float *restrict x, global const float *restrict panels, global float *y,
                     global float *gates, global float *cells, global float *previous, int batch, int length,
                     int units, KN_INDEX cells_row, KN_INDEX cells_step, int step, int item_panels,
                     int item_rows) {
    float result[KN_TILE_ROWS * KN_COLUMNS];
    const int row0 = get_global_id(1) * item_rows, row_end = min(row0 + item_rows, batch);
    const int panel0 = get_global_id(0) * item_panels;
    const int panel_end = min(panel0 + item_panels, (units + KN_WIDTH - 1) / KN_WIDTH);
    const KN_INDEX y_row = (KN_INDEX)length * units;
    for (int p = panel0; p < panel_end; p++) {
        const int unit = p * KN_WIDTH, count = min(KN_WIDTH, units - unit);
        for (int row = row0; row < row_end;) {
            const int taken = rows_of_tile(row_end - row);
            /* Samples are far apart: what the gates read comes near while the product is made. */
            for (int r = 0; r < taken; r++) {
                const KN_INDEX at = (row + r) * y_row + (KN_INDEX)step * units, x_at = at * 4 + unit;
                KN_PREFETCH(x + x_at)
                KN_PREFETCH(x + x_at + units)
                KN_PREFETCH(x + x_at + 2 * units)
                KN_PREFETCH(x + x_at + 3 * units)
                KN_PREFETCH(cells + (row + r) * cells_row + (step - 1) * cells_step + unit)
            }
            multiply(y + row * y_row + (step - 1) * units, y_row, panels + (KN_INDEX)p * units * KN_COLUMNS,
                     step > 0 ? units : 0, taken, result);
            for (int r = 0; r < taken; r++, row++) {
                const KN_INDEX at = (row * y_row + (KN_INDEX)step * units) + unit, x_at = at * 4 - 3 * unit;
                const KN_INDEX cell = row * cells_row + step * cells_step + unit;
                const vector before = step > 0 ? load_part(cells + cell - cells_step, count) : (vector)(0.0f);
                const vector i = sigmoid_of(load(r * 4, result) + load_part(x + x_at, count));
                const vector f = sigmoid_of(load(r * 4 + 1, result) + load_part(x + x_at + units, count));
                const vector g = tanh_of(load(r * 4 + 2, result) + load_part(x + x_at + 2 * units, count));
                const vector o = sigmoid_of(load(r * 4 + 3, result) + load_part(x + x_at + 3 * units, count));
                const vector c = f * before + i * g, h = o * tanh_of(c);
                store_part(c, count, cells + cell);
                store_part(h, count, y + at);
                if (gates) {
                    store_part(i, count, gates + x_at);
                    store_part(f, count, gates + x_at + units);
                    store_part(g, count, gates + x_at + 2 * units);
                    store_part(o, count, gates + x_at + 3 * units);
                }
                if (previous && step + 1 < length) store_part(h, count, previous + at + units);
                if (previous && step == 0) store_part((vector)(0.0f), count, previous + at);
            }
        }
    }
}

/* ---- gradient ----------------------------------------------------------------------------------------------- */

KN_WIDE kn_lstm_back(global const float *restrict dy, global const float *restrict gates,
                     global const float *restrict cells, global const float *restrict panels, global float *dx,
                     global float *restrict carry, int batch, int length, int units, int step, int item_panels,
                     int item_rows) {
    float result[KN_TILE_ROWS * KN_COLUMNS];
    const int row0 = get_global_id(1) * item_rows, row_end = min(row0 + item_rows, batch);
    const int panel0 = get_global_id(0) * item_panels, last = step + 1 == length;
    const int panel_end = min(panel0 + item_panels, (units + KN_COLUMNS - 1) / KN_COLUMNS);
    const KN_INDEX y_row = (KN_INDEX)length * units;
    for (int p = panel0; p < panel_end; p++)
        for (int row = row0; row < row_end;) {
            const int taken = rows_of_tile(row_end - row);
            for (int r = 0; r < taken; r++)
                for (int unit = p * KN_COLUMNS; unit < min((p + 1) * KN_COLUMNS, units); unit += KN_WIDTH) {
                    const KN_INDEX at = (row + r) * y_row + (KN_INDEX)step * units, x_at = at * 4 + unit;
                    KN_PREFETCH(gates + x_at)
                    KN_PREFETCH(gates + x_at + units)
                    KN_PREFETCH(gates + x_at + 2 * units)
                    KN_PREFETCH(gates + x_at + 3 * units)
                    KN_PREFETCH(cells + at + unit)
                    KN_PREFETCH(cells + at + unit - units)
                    KN_PREFETCH(dy + at + unit)
                }
            multiply(dx + (row * y_row + (KN_INDEX)(step + 1) * units) * 4, y_row * 4,
                     panels + (KN_INDEX)p * 4 * units * KN_COLUMNS, last ? 0 : 4 * units, taken, result);
            for (int r = 0; r < taken; r++, row++)
                for (int v = 0; v < 4 && p * KN_COLUMNS + v * KN_WIDTH < units; v++) {
                    const int unit = p * KN_COLUMNS + v * KN_WIDTH, count = min(KN_WIDTH, units - unit);
                    const KN_INDEX at = row * y_row + (KN_INDEX)step * units + unit, x_at = at * 4 - 3 * unit;
                    const KN_INDEX carried = (KN_INDEX)row * units + unit;
                    const vector i = load_part(gates + x_at, count);
                    const vector f = load_part(gates + x_at + units, count);
                    const vector g = load_part(gates + x_at + 2 * units, count);
                    const vector o = load_part(gates + x_at + 3 * units, count);
                    const vector c = tanh_of(load_part(cells + at, count));
                    const vector before = step > 0 ? load_part(cells + at - units, count) : (vector)(0.0f);
                    const vector dh = load_part(dy + at, count) + load(r * 4 + v, result);
                    vector dc = dh * o * (1.0f - c * c);
                    if (!last) dc += load_part(carry + carried, count);
                    store_part(dc * f, count, carry + carried);
                    store_part(dc * g * i * (1.0f - i), count, dx + x_at);
                    store_part(dc * before * f * (1.0f - f), count, dx + x_at + units);
                    store_part(dc * i * (1.0f - g * g), count, dx + x_at + 2 * units);
                    store_part(dh * c * o * (1.0f - o), count, dx + x_at + 3 * units);
                }
        }
}
