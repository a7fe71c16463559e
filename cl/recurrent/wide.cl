/* Recurrences for wide-vector devices, float32, one launch a step, or one for many: the product with the weights and what
 * the cell makes of it are one kernel, so that its sums never leave the registers.
 *
 * Defines: those of common/vector.cl, and
 *   KN_CELL 1        the cell: 1 is recurrent/lstm.cl, 2 recurrent/gru.cl, 3 recurrent/rnn.cl
 *   KN_GATES 4       rows of the weight for each unit: 4, 3 or 1
 *   KN_VECTORS 4     vectors in a row of a tile: 4, with three gates 3; for KN_WIDTH 8 always 3
 *   KN_PARTS 1       tiles side by side in a panel. Its KN_VECTORS * KN_PARTS vectors are one of each gate for KN_WIDTH
 *                    units, then the same for the next, in the gradient all vectors of units. 1; for KN_WIDTH 8, where a
 *                    row of a tile holds no four gates, 4 in the step of four gates, else 2
 *   KN_KEPT 4        numbers kept of each unit and step for the gradient: 4, with one gate 1
 *   KN_RELU 0        the function of recurrent/rnn.cl
 *
 * B samples, T steps, H units, G gates. x (B,T,G*H) has what the inputs give to the gates, weight is (G*H,H), y (B,T,H) has
 * the results h, kept (B,T,KN_KEPT*H) and cells (B,T,H) what the gradient needs, previous (B,T,H) the states before each
 * step. Steps from lengths (B) on leave a sample's state as it is, and their y is 0. lengths, and what is said to be,
 * may be NULL.
 *
 * kn_recurrent_pack(weight, panels, units)       panels (ceil(G * H / (KN_PARTS * KN_COLUMNS)),KN_PARTS,H,KN_COLUMNS)
 * kn_recurrent_pack_back(weight, panels, units)  panels (ceil(H / (KN_PARTS * KN_COLUMNS)),KN_PARTS,G*H,KN_COLUMNS)
 *   global size: panels
 * kn_recurrent_step(x, panels, bias, lengths, before, after, cells_before, cells, y, kept, start, final, final_cells, batch,
 *                   length, units, before_row, before_at, after_row, after_at, cells_before_row, cells_before_at, cells_row,
 *                   cells_at, step, item_panels, item_rows, steps, direction, cells_apart)
 *   global size (ceil(panels / item_panels), ceil(B / item_rows)). The state before the step of sample b begins at before +
 *   b * before_row + before_at, NULL being zeros; so do the one after it and the cells. start (B,T,H) gets the state
 *   before, final and final_cells (B,H) those after. bias (H), before, after, cells_before, cells, kept, start, final and
 *   final_cells may be NULL. With steps above 1, which takes items that have all panels, the step number, the states
 *   (by H) and the cells (by cells_apart) go on from step to step; direction is 1 or -1.
 * kn_recurrent_back(dy, kept, cells, cells_before, previous, panels, lengths, final, final_cells, slopes, hidden, carry,
 *                   carry_cells, start, start_cells, batch, length, units, cells_before_row, cells_before_at, step, from,
 *                   first, item_panels, item_rows, steps, direction, cells_apart)
 *   the same steps the other way round, `from` being the one done before, none with `first`. slopes (B,T,G*H) is the gradient
 *   by x, hidden (B,T,G*H) that by the product, the same memory but for cell 2. carry and carry_cells (B,H) go from step
 *   to step, final and final_cells are the gradients by the last state. With start (B,H) nothing is made but the
 *   gradient by the first state; start_cells (B,H) gets that by its cells. dy, cells_before, final, final_cells, carry,
 *   carry_cells, start and start_cells may be NULL.
 * How panels and rows are dealt changes no bit. */
#include "common/wanted.cl"
#ifndef KN_CELL
#define KN_CELL 1
#endif
#ifndef KN_GATES
#define KN_GATES 4
#endif
#ifndef KN_KEPT
#define KN_KEPT 4
#endif
#ifndef KN_VECTORS
#define KN_VECTORS 4
#endif
#ifndef KN_PARTS
#define KN_PARTS 1
#endif
#ifndef KN_RELU
#define KN_RELU 0
#endif
#include "common/vector.cl"
#include "common/weave.cl"
#include "common/exp.cl"

/* Vectors and columns of a panel; of one of the step, vectors of units and units. */
#define KN_ALL (KN_VECTORS * KN_PARTS)
#define KN_PANEL_COLUMNS (KN_ALL * KN_WIDTH)
#define KN_SPAN (KN_ALL / KN_GATES)
#define KN_PANEL_UNITS (KN_SPAN * KN_WIDTH)
#if KN_ALL == 12
#define KN_EACH_OF_ALL(X, row) \
    KN_VECTORS_4(X, row) X(row, 4) X(row, 5) X(row, 6) X(row, 7) X(row, 8) X(row, 9) X(row, 10) X(row, 11)
#elif KN_ALL == 6
#define KN_EACH_OF_ALL(X, row) KN_VECTORS_4(X, row) X(row, 4) X(row, 5)
#else
#define KN_EACH_OF_ALL(X, row) KN_EACH(X, row)
#endif
#define KN_ROWS_3(X) KN_ROWS_2(X) X(2)
#define KN_ROWS_5(X) KN_ROWS_4(X) X(4)
/* The highest tile, and the lowest but that of one row. With 16 registers 4 rows of 3 vectors need the fewest loads, 7
 * for 12 multiply-adds: loads are what runs short where a core is shared. The tiles of a chunk of rows there take a
 * part of a panel in turn, KN_DEPTH numbers deep at a time, so that a small cache keeps it for all of them. */
#if KN_WIDTH == 8
#define KN_TILE_ROWS 4
#define KN_LEAST_ROWS 2
#define KN_CHUNK_ROWS 32
#define KN_DEPTH 512
#else
#define KN_TILE_ROWS 6
#define KN_LEAST_ROWS 4
#define KN_CHUNK_ROWS KN_TILE_ROWS
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

KN_INLINE int vectors_of(int count) {
    return (count + KN_WIDTH - 1) / KN_WIDTH;
}
KN_INLINE vector sigmoid_of(vector x) {
    return 1.0f / (1.0f + exp_of(-x));
}
KN_INLINE vector tanh_of(vector x) {
    return 1.0f - 2.0f / (exp_of(2.0f * x) + 1.0f);
}

typedef vector number;
#if KN_CELL == 1
#include "recurrent/lstm.cl"
#elif KN_CELL == 2
#include "recurrent/gru.cl"
#else
#include "recurrent/rnn.cl"
#endif

/* ---- panels ------------------------------------------------------------------------------------------------ */

#define KN_TRANSPOSED_LOAD(i) const vector x##i = load(0, from + (KN_INDEX)min(unit + i, units - 1) * units + k);
#define KN_TRANSPOSED_STORE(i) store(t##i, 0, to + (k + i) * KN_COLUMNS);

#if KN_WANTED(kn_recurrent_pack)
/* Columns of a panel: a vector of each gate for the first units, for the next … */
KN_WIDE kn_recurrent_pack(global const float *restrict weight, global float *restrict panels, int units) {
    const int panel = get_global_id(0);
    for (int v = 0; v < KN_ALL; v++) {
        const int unit = panel * KN_PANEL_UNITS + v / KN_GATES * KN_WIDTH;
        global const float *from = weight + (KN_INDEX)(v % KN_GATES) * units * units;
        global float *to = panels + ((KN_INDEX)panel * KN_PARTS + v / KN_VECTORS) * units * KN_COLUMNS +
                           v % KN_VECTORS * KN_WIDTH;
        int k = 0;
        for (; k + KN_WIDTH <= units; k += KN_WIDTH) {
            KN_EACH_LANE(KN_TRANSPOSED_LOAD)
            KN_TRANSPOSE(x)
            KN_EACH_LANE(KN_TRANSPOSED_STORE)
        }
        for (; k < units; k++)
            for (int i = 0; i < KN_WIDTH; i++)
                to[k * KN_COLUMNS + i] = from[(KN_INDEX)min(unit + i, units - 1) * units + k];
    }
}
#endif

#if KN_WANTED(kn_recurrent_pack_back)
KN_WIDE kn_recurrent_pack_back(global const float *restrict weight, global float *restrict panels, int units) {
    const int panel = get_global_id(0), depth = KN_GATES * units;
    weight += panel * KN_PANEL_COLUMNS;
    panels += (KN_INDEX)panel * depth * KN_PANEL_COLUMNS;
    for (int k = 0; k < depth; k++, weight += units, panels += KN_COLUMNS)
        for (int v = 0; v < KN_ALL; v++) {
            const int count = units - panel * KN_PANEL_COLUMNS - v * KN_WIDTH;
            store(count > 0 ? load_part(weight + v * KN_WIDTH, count) : (vector)(0.0f), v % KN_VECTORS,
                  panels + (KN_INDEX)(v / KN_VECTORS) * depth * KN_COLUMNS);
        }
}
#endif

/* ---- the product: result (rows,KN_PANEL_COLUMNS) = left (rows,depth) · panel (KN_PARTS,depth,KN_COLUMNS) ------- */

#define KN_ZERO(row, v) vector sum##row##_##v = fresh ? (vector)(0.0f) : load(row * KN_ALL + v, result);
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
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, row * KN_ALL + v, result);
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)
/* Of one part; without `fresh` on top of what result has. */
#define KN_TILE(name, each_row)                                                                              \
    KN_APART void name(global const float *left, KN_INDEX left_row, global const float *panel, int depth,    \
                       int fresh, float *result) {                                                           \
        each_row(KN_START);                                                                                  \
        for (int k = 0; k < depth; k++, panel += KN_COLUMNS) {                                               \
            KN_EACH(KN_RIGHT, 0);                                                                            \
            each_row(KN_STEP);                                                                               \
        }                                                                                                    \
        each_row(KN_KEEP);                                                                                   \
    }
KN_TILE(tile_4, KN_ROWS_4)
#if KN_WIDTH == 8
KN_TILE(tile_3, KN_ROWS_3)
KN_TILE(tile_2, KN_ROWS_2)
#else
KN_TILE(tile_6, KN_ROWS_6)
KN_TILE(tile_5, KN_ROWS_5)
#endif

/* One row, of all parts at once: sums enough that none waits for the one before. */
#define KN_ZERO_ONE(row, v) vector sum##v = 0.0f;
#define KN_ADD_ONE(row, v) sum##v += one * load(v % KN_VECTORS, panel + v / KN_VECTORS * part);
#define KN_KEEP_ONE(row, v) store(sum##v, v, result);
KN_APART void tile_1(global const float *left, global const float *panel, int depth, float *result) {
    const KN_INDEX part = (KN_INDEX)depth * KN_COLUMNS;
    KN_EACH_OF_ALL(KN_ZERO_ONE, 0)
    for (int k = 0; k < depth; k++, panel += KN_COLUMNS) {
        const vector one = left[k];
        KN_EACH_OF_ALL(KN_ADD_ONE, 0)
    }
    KN_EACH_OF_ALL(KN_KEEP_ONE, 0)
}

/* Of the rows that are left, those of the next tile: tiles as high as may be and alike, so that each reads the panel for
 * many rows. */
KN_INLINE int rows_of_tile(int rest) {
    const int tiles = (rest + KN_TILE_ROWS - 1) / KN_TILE_ROWS, rows = (rest + tiles - 1) / tiles;
    return rows >= KN_LEAST_ROWS ? rows : rest > KN_TILE_ROWS ? KN_TILE_ROWS : 1;
}
KN_INLINE int rows_of_chunk(int rest) {
#if KN_CHUNK_ROWS == KN_TILE_ROWS
    return rows_of_tile(rest);
#else
    const int chunks = (rest + KN_CHUNK_ROWS - 1) / KN_CHUNK_ROWS;
    return (rest + chunks - 1) / chunks;
#endif
}

/* Of the last panel only the first vectors may be wanted, `vectors` in all. */
KN_INLINE void multiply(global const float *left, KN_INDEX left_row, global const float *panel, int depth, int rows,
                        int vectors, float *result) {
    if (rows < KN_LEAST_ROWS) {
        for (int row = 0; row < rows; row++)
            tile_1(left + row * left_row, panel, depth, result + row * KN_PANEL_COLUMNS);
        return;
    }
#if KN_WIDTH == 8
    const int most = KN_DEPTH;
#else
    const int most = depth;
#endif
    for (int part = 0; part < KN_PARTS && part * KN_VECTORS < vectors; part++, panel += (KN_INDEX)depth * KN_COLUMNS) {
        int k = 0;
        do {
            const int deep = min(depth - k, most);
            for (int row = 0; row < rows;) {
                const int taken = rows_of_tile(rows - row);
                global const float *from = left + row * left_row + k, *right = panel + k * KN_COLUMNS;
                float *to = result + row * KN_PANEL_COLUMNS + part * KN_COLUMNS;
                if (taken == 4)
                    tile_4(from, left_row, right, deep, k == 0, to);
#if KN_WIDTH == 8
                else if (taken == 3)
                    tile_3(from, left_row, right, deep, k == 0, to);
                else
                    tile_2(from, left_row, right, deep, k == 0, to);
#else
                else if (taken == 5)
                    tile_5(from, left_row, right, deep, k == 0, to);
                else
                    tile_6(from, left_row, right, deep, k == 0, to);
#endif
                row += taken;
            }
            k += deep;
        } while (k < depth);
    }
}

/* ---- forward ------------------------------------------------------------------------------------------------- */

#if KN_WANTED(kn_recurrent_step)
KN_WIDE kn_recurrent_step(global const float *restrict x, global const float *restrict panels,
                          global const float *restrict bias, global const int *restrict lengths,
                          global const float *before, global float *after, global const float *cells_before,
                          global float *cells, global float *y, global float *kept, global float *start,
                          global float *final, global float *final_cells, int batch, int length, int units,
                          KN_INDEX before_row, KN_INDEX before_at, KN_INDEX after_row, KN_INDEX after_at,
                          KN_INDEX cells_before_row, KN_INDEX cells_before_at, KN_INDEX cells_row,
                          KN_INDEX cells_at, int step, int item_panels, int item_rows, int steps, int direction,
                          KN_INDEX cells_apart) {
    float result[KN_CHUNK_ROWS * KN_PANEL_COLUMNS];
    const int row0 = get_global_id(1) * item_rows, row_end = min(row0 + item_rows, batch);
    const int panel0 = get_global_id(0) * item_panels;
    const int panel_end = min(panel0 + item_panels, (units + KN_PANEL_UNITS - 1) / KN_PANEL_UNITS);
    for (int turn = 0; turn < steps; turn++) {
        for (int p = panel0; p < panel_end; p++) {
            const int unit0 = p * KN_PANEL_UNITS, unit_end = min(unit0 + KN_PANEL_UNITS, units);
            for (int row = row0; row < row_end;) {
                const int taken = rows_of_chunk(row_end - row);
                /* Samples are far apart: what the gates read comes near while the product is made. */
                for (int r = 0; r < taken; r++)
                    for (int unit = unit0; unit < unit_end; unit += KN_WIDTH) {
                        const KN_INDEX at = ((KN_INDEX)(row + r) * length + step) * units * KN_GATES + unit;
#pragma unroll
                        for (int gate = 0; gate < KN_GATES; gate++) {
                            KN_PREFETCH(x + at + gate * units)
                        }
#if KN_CELL == 1
                        KN_PREFETCH(cells_before + (row + r) * cells_before_row + cells_before_at + unit)
#endif
                    }
                multiply(before + row * before_row + before_at, before_row, panels + (KN_INDEX)p * units * KN_PANEL_COLUMNS,
                         before ? units : 0, taken, vectors_of(unit_end - unit0) * KN_GATES, result);
                for (int r = 0; r < taken; r++, row++) {
                    const int live = !lengths || step < lengths[row];
                    const KN_INDEX at = ((KN_INDEX)row * length + step) * units;
#pragma unroll
                    for (int s = 0; s < KN_SPAN; s++) {
                        const int unit = unit0 + s * KN_WIDTH, count = min(KN_WIDTH, units - unit);
                        if (count <= 0) break;
                        vector sum[KN_GATES], given[KN_GATES], gates[KN_KEPT], h, c;
#pragma unroll
                        for (int gate = 0; gate < KN_GATES; gate++) {
                            sum[gate] = load(r * KN_ALL + s * KN_GATES + gate, result);
                            given[gate] = load_part(x + at * KN_GATES + gate * units + unit, count);
                        }
                        vector held = 0.0f, cell_held = 0.0f, shift = 0.0f;
                        if (before && (KN_CELL == 2 || start || !live))
                            held = load_part(before + row * before_row + before_at + unit, count);
                        if (cells_before)
                            cell_held = load_part(cells_before + row * cells_before_row + cells_before_at + unit, count);
                        if (bias) shift = load_part(bias + unit, count);
                        cell_step(sum, given, shift, held, cell_held, gates, &h, &c);
                        if (kept)
#pragma unroll
                            for (int gate = 0; gate < KN_KEPT; gate++)
                                store_part(gates[gate], count, kept + at * KN_KEPT + gate * units + unit);
                        vector shown = h;
                        if (!live) {
                            shown = 0.0f;
                            h = held;
                            c = cell_held;
                        }
                        store_part(shown, count, y + at + unit);
                        if (cells) store_part(c, count, cells + row * cells_row + cells_at + unit);
                        if (after) store_part(h, count, after + row * after_row + after_at + unit);
                        if (start) store_part(held, count, start + at + unit);
                        if (final) store_part(h, count, final + (KN_INDEX)row * units + unit);
                        if (final_cells) store_part(c, count, final_cells + (KN_INDEX)row * units + unit);
                    }
                }
            }
        }
        step += direction;
        before_at += direction * units;
        after_at += direction * units;
        cells_before_at += cells_apart;
        cells_at += cells_apart;
    }
}
#endif

/* ---- gradient ----------------------------------------------------------------------------------------------- */

#if KN_WANTED(kn_recurrent_back)
KN_WIDE kn_recurrent_back(global const float *restrict dy, global const float *restrict kept,
                          global const float *cells, global const float *cells_before,
                          global const float *restrict previous, global const float *restrict panels,
                          global const int *restrict lengths, global const float *restrict final,
                          global const float *restrict final_cells, global float *slopes, global float *hidden,
                          global float *restrict carry, global float *restrict carry_cells,
                          global float *restrict start, global float *restrict start_cells, int batch, int length,
                          int units, KN_INDEX cells_before_row, KN_INDEX cells_before_at, int step, int from,
                          int first, int item_panels, int item_rows, int steps, int direction,
                          KN_INDEX cells_apart) {
    float result[KN_CHUNK_ROWS * KN_PANEL_COLUMNS];
    const int row0 = get_global_id(1) * item_rows, row_end = min(row0 + item_rows, batch);
    const int panel0 = get_global_id(0) * item_panels;
    const int panel_end = min(panel0 + item_panels, (units + KN_PANEL_COLUMNS - 1) / KN_PANEL_COLUMNS);
    const KN_INDEX slopes_row = (KN_INDEX)length * units * KN_GATES;
    for (int turn = 0; turn < steps; turn++) {
        for (int p = panel0; p < panel_end; p++)
            for (int row = row0; row < row_end;) {
                const int taken = rows_of_chunk(row_end - row);
                for (int r = 0; r < taken && !start; r++)
                    for (int unit = p * KN_PANEL_COLUMNS; unit < min((p + 1) * KN_PANEL_COLUMNS, units); unit += KN_WIDTH) {
                        const KN_INDEX at = ((KN_INDEX)(row + r) * length + step) * units;
#pragma unroll
                        for (int gate = 0; gate < KN_KEPT; gate++) {
                            KN_PREFETCH(kept + at * KN_KEPT + gate * units + unit)
                        }
#if KN_CELL == 1
                        KN_PREFETCH(cells + at + unit)
                        KN_PREFETCH(cells_before + (row + r) * cells_before_row + cells_before_at + unit)
#elif KN_CELL == 2
                        KN_PREFETCH(previous + at + unit)
#endif
                        KN_PREFETCH(dy + at + unit)
                    }
                multiply(hidden + row * slopes_row + (KN_INDEX)from * units * KN_GATES, slopes_row,
                         panels + (KN_INDEX)p * KN_GATES * units * KN_PANEL_COLUMNS, first ? 0 : KN_GATES * units, taken,
                         vectors_of(units - p * KN_PANEL_COLUMNS), result);
                for (int r = 0; r < taken; r++, row++) {
                    const int live = !lengths || step < lengths[row];
                    const KN_INDEX at = ((KN_INDEX)row * length + step) * units;
                    for (int v = 0; v < KN_ALL; v++) {
                        const int unit = p * KN_PANEL_COLUMNS + v * KN_WIDTH, count = min(KN_WIDTH, units - unit);
                        if (count <= 0) break;
                        const KN_INDEX carried = (KN_INDEX)row * units + unit;
                        vector dh = load(r * KN_ALL + v, result), dc = 0.0f;
                        if (carry && !first) dh += load_part(carry + carried, count);
                        if (start) {
                            store_part(dh, count, start + carried);
                            continue;
                        }
                        if (final) dh += load_part(final + carried, count);
                        if (carry_cells && !first) dc += load_part(carry_cells + carried, count);
                        if (final_cells) dc += load_part(final_cells + carried, count);
                        vector gates[KN_KEPT], slope[KN_GATES], last = 0.0f, direct = dh, dc_before = dc;
                        if (live) {
                            vector cell = 0.0f, cell_held = 0.0f, held = 0.0f;
                            if (dy) dh += load_part(dy + at + unit, count);
#pragma unroll
                            for (int gate = 0; gate < KN_KEPT; gate++)
                                gates[gate] = load_part(kept + at * KN_KEPT + gate * units + unit, count);
#if KN_CELL == 1
                            cell = load_part(cells + at + unit, count);
                            if (cells_before)
                                cell_held =
                                    load_part(cells_before + row * cells_before_row + cells_before_at + unit, count);
#elif KN_CELL == 2
                            held = load_part(previous + at + unit, count);
#endif
                            cell_back(gates, held, cell, cell_held, dh, dc, slope, &last, &direct, &dc_before);
                        } else
#pragma unroll
                            for (int gate = 0; gate < KN_GATES; gate++)
                                slope[gate] = 0.0f;
#pragma unroll
                        for (int gate = 0; gate < KN_GATES; gate++)
                            store_part(slope[gate], count, slopes + at * KN_GATES + gate * units + unit);
#if KN_CELL == 2
                        slope[KN_GATES - 1] = last;
#pragma unroll
                        for (int gate = 0; gate < KN_GATES; gate++)
                            store_part(slope[gate], count, hidden + at * KN_GATES + gate * units + unit);
#endif
                        if (carry) store_part(direct, count, carry + carried);
                        if (carry_cells) store_part(dc_before, count, carry_cells + carried);
                        if (start_cells) store_part(dc_before, count, start_cells + carried);
                    }
                }
            }
        step += direction;
        from += direction;
        cells_before_at += cells_apart;
    }
}
#endif
