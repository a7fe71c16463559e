/* Common parts of recurrences: shapes, iteration over the steps, references, lowering. A cell
 * (recurrent/lstm.c, recurrent/gru.c, recurrent/rnn.c) defines its rows and the computation for one unit in
 * one step.
 *
 * Inputs of a row, absent ones NULL: x (B,T,G*H), the inputs' contribution to the gates of all steps; the
 * weight (G*H,H); with has_bias a bias (H); the initial state h0 (B,H), with has_cells its cells c0 (B,H);
 * lengths, int32 (B). Results: y (B,T,H), the state after the last step (B,H), with has_cells its cells
 * (B,H); hidden, for the gradient: with `kept` the stored gates (B,T,kept*H), with has_cells the cells
 * (B,T,H), then the state before each step (B,T,H), which makes the weight's gradient one product. Steps at
 * or beyond a sample's length do not change its state, and have y = 0.
 *
 * Inputs of the gradient's row: the weight, the stored gates (without `kept`: y), dy; with has_cells the
 * cells and c0; with has_bias the states before each step; the gradients of the last state and of its cells;
 * lengths. All except the first two may be absent. Results: the gradients with respect to x; with has_bias
 * the recurrent product (B,T,G*H); h0; c0. */
#ifndef KN_RECURRENT_PRIVATE_H
#define KN_RECURRENT_PRIVATE_H

#include <math.h>

#include "ops/lowering.h"

/* One unit in one step, in double precision. */
typedef struct kn_cell_step {
    bool relu;
    const double *sum, *x; /* of each gate: the product with the state, and the inputs' contribution */
    double bias, before, cell_before;
    double kept[4], h, cell; /* the results */
} kn_cell_step;
typedef struct kn_cell_back {
    bool relu;
    double kept[4], before, cell, cell_before, dh, dc;
    double slopes[4], hidden; /* gradients of x, and of the last gate of the product */
    double direct, dc_before; /* gradients of the previous state, without the product, and of its cell */
} kn_cell_back;

typedef struct kn_recurrent_cell {
    const char *kind; /* of layers: "lstm" */
    const kn_operator *row, *gradient_row;
    int number; /* KN_CELL of the kernels */
    int gates, kept;
    int vectors; /* per row of a tile of the wide-vector kernels, except for vectors of 8 */
    bool has_cells, has_bias, has_relu; /* the last: an attribute of its rows */
    void (*step)(kn_cell_step *step);
    void (*back)(kn_cell_back *back);
} kn_recurrent_cell;
extern const kn_recurrent_cell kn_cell_lstm, kn_cell_gru, kn_cell_rnn;
extern const kn_operator kn_row_lstm, kn_row_lstm_gradient, kn_row_gru, kn_row_gru_gradient, kn_row_rnn,
    kn_row_rnn_gradient;
const kn_recurrent_cell *kn_recurrent_cell_of(const kn_operator *row);

/* Indices of inputs and results; -1 if a cell lacks one. */
enum { KN_RECURRENT_X, KN_RECURRENT_WEIGHT };
enum { KN_RECURRENT_BACK_WEIGHT, KN_RECURRENT_BACK_KEPT, KN_RECURRENT_BACK_DY };
typedef struct kn_recurrent_places {
    int bias, start, start_cells, lengths, inputs;
    int y, final, final_cells, kept, cells, previous, outputs;
} kn_recurrent_places;
typedef struct kn_recurrent_back_places {
    int cells, start_cells, previous, final, final_cells, lengths, inputs;
    int slopes, hidden, start, start_cells_out, outputs;
} kn_recurrent_back_places;
kn_recurrent_places kn_recurrent_places_of(const kn_recurrent_cell *cell);
kn_recurrent_back_places kn_recurrent_back_places_of(const kn_recurrent_cell *cell);

typedef struct kn_recurrent_form {
    const kn_recurrent_cell *cell;
    int64_t batch, length, units;
    bool reverse, relu;
} kn_recurrent_form;
kn_recurrent_form kn_recurrent_describe(const kn_node *node);
/* The columns of the product of a step on many-thread devices: one per unit, or four in the forward
 * pass with several gates. */
static inline int64_t kn_recurrent_columns(const kn_recurrent_form *form, bool backward) {
    return form->units * (backward || form->cell->gates == 1 ? 1 : 4);
}
/* The time step that is computed after `done` others. */
static inline int64_t kn_recurrent_time(const kn_recurrent_form *form, int64_t done) {
    return form->reverse ? form->length - 1 - done : done;
}

/* ---- for variants ------------------------------------------------------------------------------------ */

/* By an index of kn_recurrent_places or kn_recurrent_back_places; NULL if it is absent. */
static inline kn_value *kn_recurrent_input(const kn_node *node, int input) {
    return input >= 0 && input < node->input_count ? node->inputs[input] : NULL;
}
static inline kn_value *kn_recurrent_output(const kn_node *node, int output) {
    return output >= 0 ? node->outputs[output] : NULL;
}
static inline bool kn_recurrent_wanted(const kn_value *value) {
    return value->wanted || kn_is_read(value);
}
/* KN_CELL and the other macros that describe the cell. */
void kn_recurrent_define(kn_step *step, const kn_recurrent_form *form);
void kn_recurrent_set_sizes(kn_step *step, const kn_recurrent_form *form);
/* The cost of `steps` time steps, as part of the node's. */
void kn_recurrent_cost_of_steps(kn_step *step, const kn_node *node, const kn_recurrent_form *form,
                                int64_t steps);
/* Scratch memory for one element per unit and sample. */
int kn_recurrent_state_scratch(kn_lowering *lowering, const kn_recurrent_form *form, kn_dtype type);
/* Without time steps or samples, states are copied. */
kn_status kn_recurrent_lower_empty(kn_lowering *lowering);

/* The tile of a work-group on many-thread devices: samples and columns. */
typedef struct kn_recurrent_tile {
    const char *file;
    int rows, columns;
    size_t items;
    /* With a matrix unit: its element format (KN_FORMAT), the depth of a slice, and the tile of a wave. */
    kn_matrix_unit unit;
    int numbers, depth, wave_m, wave_n;
    uint32_t tiles_too_large; /* for kn_step */
} kn_recurrent_tile;
/* The tile for a matrix unit; false: none can compute the node. */
bool kn_recurrent_matrix_tile(const kn_target *target, const kn_node *node, kn_recurrent_tile *tile);

/* For the rows. */
kn_status kn_recurrent_shape(kn_shape_call *call);
kn_status kn_recurrent_gradient_shape(kn_shape_call *call);
kn_status kn_recurrent_gradient(kn_gradient_call *call);
kn_status kn_recurrent_reference(kn_reference_call *call);
kn_status kn_recurrent_gradient_reference(kn_reference_call *call);
void kn_recurrent_cost(const kn_node *node, kn_cost *cost);
kn_status kn_recurrent_wide_lower(kn_lowering *lowering);
/* The configurations of kn_recurrent_lower: how a step is computed, by a matrix unit, by work-groups with
 * tiles, or by a work-item per unit. */
enum { KN_RECURRENT_MATRIX, KN_RECURRENT_TILED, KN_RECURRENT_PLAIN };
kn_status kn_recurrent_lower(kn_lowering *lowering);
bool kn_recurrent_matrix_accepts(const kn_target *target, const kn_node *node);
bool kn_recurrent_tiled_accepts(const kn_target *target, const kn_node *node);

#define KN_RECURRENT_REVERSE KN_BOOLEAN("reverse", 0, "from the last step to the first")
/* 16 bits for results that no other step reads. */
#define KN_RECURRENT_VARIANTS(...)                                                                           \
    KN_VARIANTS({.name = "wide",                                                                             \
                 .choice.accepts = kn_has_float_vectors,                                                     \
                 .lower = kn_recurrent_wide_lower,                                                           \
                 .promise.halves = {__VA_ARGS__},                                                            \
                 .choice.doubtful = true},                                                                   \
                {.name = "matrix",                                                                           \
                 .choice.accepts = kn_recurrent_matrix_accepts,                                              \
                 .lower = kn_recurrent_lower,                                                                \
                 .config = KN_RECURRENT_MATRIX,                                                              \
                 .promise.halves = {__VA_ARGS__},                                                            \
                 .promise.rounds = true},                                                                    \
                {.name = "tiled",                                                                            \
                 .choice.accepts = kn_recurrent_tiled_accepts,                                               \
                 .lower = kn_recurrent_lower,                                                                \
                 .config = KN_RECURRENT_TILED,                                                               \
                 .promise.halves = {__VA_ARGS__}},                                                           \
                {.name = "plain",                                                                            \
                 .choice.accepts = kn_takes_kernel_types,                                                    \
                 .lower = kn_recurrent_lower,                                                                \
                 .config = KN_RECURRENT_PLAIN,                                                               \
                 .promise.halves = {__VA_ARGS__}})
/* `kept`: the bit of that result; 0 if a cell stores only its results. */
#define KN_RECURRENT_ROW(kept)                                                                               \
    .shape = kn_recurrent_shape, .gradient = kn_recurrent_gradient, .reference = kn_recurrent_reference,     \
    .cost = kn_recurrent_cost, .tolerance = 2, .fed_back = 2,                                                \
    KN_RECURRENT_VARIANTS(1 << KN_RECURRENT_X, kept)
#define KN_RECURRENT_GRADIENT_ROW                                                                            \
    .min_inputs = 2, .backward = true, .shape = kn_recurrent_gradient_shape,                                 \
    .reference = kn_recurrent_gradient_reference, .cost = kn_recurrent_cost, .tolerance = 2, .fed_back = 1,  \
    KN_RECURRENT_VARIANTS(1 << KN_RECURRENT_BACK_KEPT | 1 << KN_RECURRENT_BACK_DY, 0)

/* For the references of cells. */
static inline double kn_recurrent_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

#endif
