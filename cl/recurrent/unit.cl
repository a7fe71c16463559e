/* One unit of one sample in one time step, of the many-thread recurrences, after the product with the weights. Defines,
 * with their defaults: KN_CELL 1, KN_GATES 4, KN_KEPT 4 and KN_RELU 0 as in recurrent/wide.cl, and the types of
 * common/types.cl. Arrays and arguments are those of recurrent/wide.cl, with the weight instead of panels, and without
 * item_panels and item_rows; carry and carry_cells have the accumulators' type. KN_HALF_x, KN_HALF_kept and KN_HALF_dy
 * are the storage types (common/storage.cl) of arrays that no later step reads. */
#ifndef KN_UNIT_CL
#define KN_UNIT_CL
#include "common/storage.cl"
#include "common/types.cl"
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

/* The columns of a unit in tiles of the forward product: its gates, in four, or one with one gate. */
#define KN_UNIT_COLUMNS (KN_GATES > 1 ? 4 : 1)
#define KN_UNIT_OF(column) ((column) / KN_UNIT_COLUMNS)
#define KN_GATE_OF(column) ((column) % KN_UNIT_COLUMNS)

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

/* For kernels and the functions below. Without `restrict`, whose scopes Oclgrind does not track after inlining. */
#define KN_STEP_PARAMETERS                                                                                   \
    global const KN_STORED(KN_HALF_x) *x, global const KN_T *weight, global const KN_T *bias, global const int *lengths,     \
        global const KN_T *before, global KN_T *after, global const KN_T *cells_before,                      \
        global KN_T *cells, global KN_T *y, global KN_STORED(KN_HALF_kept) *kept, global KN_T *start, global KN_T *final, \
        global KN_T *final_cells, uint present, int batch, int length, int units, KN_INDEX before_row,       \
        KN_INDEX before_at, KN_INDEX after_row, KN_INDEX after_at, KN_INDEX cells_before_row,                \
        KN_INDEX cells_before_at, KN_INDEX cells_row, KN_INDEX cells_at, int step
#define KN_STEP_PASSED                                                                                       \
    x, weight, bias, lengths, before, after, cells_before, cells, y, kept, start, final, final_cells,        \
        present, batch, length, units, before_row, before_at, after_row, after_at, cells_before_row,         \
        cells_before_at, cells_row, cells_at, step
#define KN_BACK_PARAMETERS                                                                                   \
    global const KN_STORED(KN_HALF_dy) *dy, global const KN_STORED(KN_HALF_kept) *kept, global const KN_T *cells, \
        global const KN_T *cells_before, global const KN_T *previous, global const KN_T *weight,             \
        global const int *lengths, global const KN_T *final, global const KN_T *final_cells,                 \
        global KN_T *slopes, global KN_T *hidden, global KN_A *carry, global KN_A *carry_cells,              \
        global KN_T *start, global KN_T *start_cells, uint present, int batch, int length, int units,        \
        KN_INDEX cells_before_row, KN_INDEX cells_before_at, int step, int from, int first
#define KN_BACK_PASSED                                                                                       \
    dy, kept, cells, cells_before, previous, weight, lengths, final, final_cells, slopes, hidden, carry,     \
        carry_cells, start, start_cells, present, batch, length, units, cells_before_row,                    \
        cells_before_at, step, from, first

/* sums: for each gate, the product with the previous state. */
KN_INLINE void step_unit(const int row, const int unit, const KN_A *sums, KN_STEP_PARAMETERS) {
    const bool live = !KN_PRESENT(step_lengths) || step < lengths[row];
    const KN_INDEX at = ((KN_INDEX)row * length + step) * units;
    KN_A given[KN_GATES], gates[KN_KEPT], h, c;
    for (int gate = 0; gate < KN_GATES; gate++)
        given[gate] = (KN_A)KN_READ_AS(KN_HALF_x, x + at * KN_GATES + gate * units + unit);
    const KN_A held = KN_PRESENT(step_before) ? (KN_A)before[row * before_row + before_at + unit] : 0;
    const KN_A cell_held =
        KN_PRESENT(step_cells_before) ? (KN_A)cells_before[row * cells_before_row + cells_before_at + unit] : 0;
    cell_step(sums, given, KN_PRESENT(step_bias) ? (KN_A)bias[unit] : 0, held, cell_held, gates, &h, &c);
    if (KN_PRESENT(step_kept))
        for (int gate = 0; gate < KN_KEPT; gate++)
            KN_WRITE_AS(KN_HALF_kept, (KN_T)gates[gate], kept + at * KN_KEPT + gate * units + unit);
    y[at + unit] = live ? (KN_T)h : 0;
    if (!live) {
        h = held;
        c = cell_held;
    }
    if (KN_PRESENT(step_cells)) cells[row * cells_row + cells_at + unit] = (KN_T)c;
    if (KN_PRESENT(step_after)) after[row * after_row + after_at + unit] = (KN_T)h;
    if (KN_PRESENT(step_start)) start[at + unit] = (KN_T)held;
    if (KN_PRESENT(step_final)) final[(KN_INDEX)row * units + unit] = (KN_T)h;
    if (KN_PRESENT(step_final_cells)) final_cells[(KN_INDEX)row * units + unit] = (KN_T)c;
}

/* sum: the product with the slopes of the next step. */
KN_INLINE void back_unit(const int row, const int unit, const KN_A sum, KN_BACK_PARAMETERS) {
    const bool live = !KN_PRESENT(back_lengths) || step < lengths[row];
    const KN_INDEX carried = (KN_INDEX)row * units + unit;
    const KN_INDEX at = ((KN_INDEX)row * length + step) * units;
    KN_A dh = sum, dc = 0;
    if (KN_PRESENT(back_carry) && !first) dh += carry[carried];
    if (KN_PRESENT(back_start)) {
        start[carried] = (KN_T)dh;
        return;
    }
    if (KN_PRESENT(back_final)) dh += (KN_A)final[carried];
    if (KN_PRESENT(back_carry_cells) && !first) dc += carry_cells[carried];
    if (KN_PRESENT(back_final_cells)) dc += (KN_A)final_cells[carried];
    KN_A gates[KN_KEPT], slope[KN_GATES], last = 0, direct = dh, dc_before = dc;
    if (live) {
        KN_A cell = 0, cell_held = 0, held = 0;
        if (KN_PRESENT(back_dy)) dh += (KN_A)KN_READ_AS(KN_HALF_dy, dy + at + unit);
        for (int gate = 0; gate < KN_KEPT; gate++)
            gates[gate] = (KN_A)KN_READ_AS(KN_HALF_kept, kept + at * KN_KEPT + gate * units + unit);
#if KN_CELL == 1
        cell = (KN_A)cells[at + unit];
        if (KN_PRESENT(back_cells_before))
            cell_held = (KN_A)cells_before[row * cells_before_row + cells_before_at + unit];
#elif KN_CELL == 2
        held = (KN_A)previous[at + unit];
#endif
        cell_back(gates, held, cell, cell_held, dh, dc, slope, &last, &direct, &dc_before);
    } else
        for (int gate = 0; gate < KN_GATES; gate++)
            slope[gate] = 0;
    for (int gate = 0; gate < KN_GATES; gate++)
        slopes[at * KN_GATES + gate * units + unit] = (KN_T)slope[gate];
#if KN_CELL == 2
    slope[KN_GATES - 1] = last;
    for (int gate = 0; gate < KN_GATES; gate++)
        hidden[at * KN_GATES + gate * units + unit] = (KN_T)slope[gate];
#endif
    if (KN_PRESENT(back_carry)) carry[carried] = direct;
    if (KN_PRESENT(back_carry_cells)) carry_cells[carried] = dc_before;
    if (KN_PRESENT(back_start_cells)) start_cells[carried] = (KN_T)dc_before;
}
#endif
