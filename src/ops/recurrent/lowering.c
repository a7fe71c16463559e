/* Recurrences as launches (cl/recurrent), one per time step: on matrix units, in work-groups with tiles, or
 * with a work-item per unit. For wide vectors: wide.c. */
#include "ops/fragment.h"
#include "ops/lowering.h"
#include "ops/recurrent/recurrent.h"

enum { TILED_ITEM = 4 /* rows and columns of a work-item */ };

/* Where the state of a sample is stored: memory, the stride between samples, the offset of the first. */
typedef struct place {
    kn_value *value; /* NULL: scratch memory, or nothing */
    bool is_scratch;
    int scratch;
    int64_t row, at;
} place;

static place of_value(kn_value *value, int64_t row, int64_t at) {
    return (place){.value = value, .row = row, .at = at};
}
static place of_scratch(int scratch, int64_t row) {
    return (place){.is_scratch = true, .scratch = scratch, .row = row};
}

/* ---- for all variants -------------------------------------------------------------------------------- */

void kn_recurrent_define(kn_step *step, const kn_recurrent_form *form) {
    const kn_recurrent_cell *cell = form->cell;
    KN_STEP_DEFINE(step, {"KN_CELL", cell->number}, {"KN_GATES", cell->gates},
                   {"KN_KEPT", cell->kept ? cell->kept : 1}, {"KN_RELU", form->relu});
}

void kn_recurrent_set_sizes(kn_step *step, const kn_recurrent_form *form) {
    KN_STEP_SET(step, {"batch", form->batch}, {"length", form->length}, {"units", form->units});
}

void kn_recurrent_cost_of_steps(kn_step *step, const kn_node *node, const kn_recurrent_form *form,
                                int64_t steps) {
    const double fraction = (double)steps / (double)form->length;
    kn_cost cost;
    kn_node_cost(node, &cost);
    kn_step_cost(step, cost.flops * fraction, cost.bytes * fraction);
}

int kn_recurrent_state_scratch(kn_lowering *lowering, const kn_recurrent_form *form, kn_dtype type) {
    return kn_emit_scratch(lowering, (uint64_t)(form->batch * form->units) * kn_dtype_bytes(type));
}

static kn_status copy_state(kn_lowering *lowering, kn_value *from, kn_value *to) {
    if (!to || kn_elements_of(to) == 0) return KN_OK;
    return from ? kn_emit_copy(lowering, from, to) : kn_emit_fill_zero(lowering, to);
}

kn_status kn_recurrent_lower_empty(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    const kn_recurrent_cell *cell = kn_recurrent_cell_of(node->op);
    const kn_recurrent_places at = kn_recurrent_places_of(cell);
    const kn_recurrent_back_places back = kn_recurrent_back_places_of(cell);
    const bool backward = node->op->backward;
    kn_status status = copy_state(lowering, kn_recurrent_input(node, backward ? back.final : at.start),
                                  node->outputs[backward ? back.start : at.final]);
    if (status) return status;
    return copy_state(lowering, kn_recurrent_input(node, backward ? back.final_cells : at.start_cells),
                      kn_recurrent_output(node, backward ? back.start_cells_out : at.final_cells));
}

/* ---- parts of a step --------------------------------------------------------------------------------- */

/* The tile of a work-group on many-thread devices, limited by the device's work-groups. */
static kn_recurrent_tile tile_of(const kn_lowering *lowering) {
    kn_recurrent_tile tile = {.file = "recurrent/tiled.cl"};
    if (lowering->config == KN_RECURRENT_MATRIX) {
        kn_recurrent_matrix_tile(lowering->target, lowering->node, &tile);
        return tile;
    }
    tile.rows = tile.columns = kn_group_limit(lowering->target, tile.file) >= 64 ? 32 : 16;
    tile.items = (size_t)(tile.rows * tile.columns) / (TILED_ITEM * TILED_ITEM);
    return tile;
}

static kn_step *begin(kn_lowering *lowering, const kn_recurrent_form *form, const char *kernel) {
    const kn_target *target = lowering->target;
    kn_dtype type = lowering->node->outputs[0]->shape.dtype;
    static const char *const files[] = {[KN_RECURRENT_MATRIX] = "recurrent/fragment.cl",
                                        [KN_RECURRENT_TILED] = "recurrent/tiled.cl",
                                        [KN_RECURRENT_PLAIN] = "recurrent/plain.cl"};
    kn_step *step = kn_step_begin(lowering, files[lowering->config], kernel);
    kn_recurrent_define(step, form);
    kn_step_types(step, lowering->node, type);
    if (lowering->config == KN_RECURRENT_PLAIN) return step;
    const kn_recurrent_tile tile = tile_of(lowering);
    KN_STEP_DEFINE(step, {"KN_TILE_M", tile.rows}, {"KN_TILE_N", tile.columns});
    if (lowering->config == KN_RECURRENT_TILED) {
        KN_STEP_DEFINE(step, {"KN_ITEM_M", TILED_ITEM}, {"KN_ITEM_N", TILED_ITEM});
        return step;
    }
    KN_STEP_DEFINE(step, {"KN_TILE_K", tile.depth}, {"KN_VECTOR", form->units % 4 ? 1 : 4});
    kn_step_fragment(step, tile.unit, tile.numbers, target->emulates_matrix_unit, tile.wave_m, tile.wave_n);
    return step;
}

static void read_place(kn_step *step, const char *name, const place *from) {
    if (from->is_scratch)
        kn_step_read_scratch(step, name, from->scratch);
    else
        kn_step_read(step, name, from->value);
}
static void write_place(kn_step *step, const char *name, const place *to) {
    if (to->is_scratch)
        kn_step_scratch(step, name, to->scratch);
    else
        kn_step_update(step, name, to->value);
}
static void add_place(kn_step *step, const char *row_name, const char *at_name, const place *where) {
    KN_STEP_SET(step, {row_name, where->row}, {at_name, where->at});
}

/* Sets the cost of a time step as part of the node's, and the global size: tiles of columns and of rows. */
static kn_status finish(kn_step *step, kn_lowering *lowering, const kn_recurrent_form *form) {
    const bool backward = lowering->node->op->backward;
    kn_recurrent_cost_of_steps(step, lowering->node, form, 1);
    if (lowering->config == KN_RECURRENT_PLAIN) {
        kn_step_size2(step, (size_t)kn_round_up(form->units, 64), (size_t)form->batch, 0, 0);
        return kn_step_end(step, lowering);
    }
    const kn_recurrent_tile tile = tile_of(lowering);
    const int64_t columns = kn_recurrent_columns(form, backward);
    const int64_t depth = form->units * (backward ? form->cell->gates : 1);
    if (lowering->config == KN_RECURRENT_MATRIX)
        kn_step_tile(step, &(kn_step_tiles){.rows = form->batch,
                                            .columns = columns,
                                            .depth = depth,
                                            .batches = 1,
                                            .tile_rows = tile.rows,
                                            .tile_columns = tile.columns,
                                            .tile_depth = tile.depth,
                                            .products = 1,
                                            .parts = 1,
                                            .part_depth = depth,
                                            .matrix = true});
    kn_step_size2(step, (size_t)kn_divide_up(columns, tile.columns) * tile.items,
                  (size_t)kn_divide_up(form->batch, tile.rows), tile.items, 1);
    if (step) step->tiles_too_large = tile.tiles_too_large;
    return kn_step_end(step, lowering);
}

/* ---- forward ----------------------------------------------------------------------------------------- */

typedef struct forward {
    kn_recurrent_form form;
    kn_recurrent_places at;
    kn_value *cells, *previous; /* NULL without a gradient */
    int turns[2], last_cells; /* scratch memory; with lengths, states alternate between `turns` if previous is
                                 not stored */
    bool masked;
} forward;

/* The state after `done` steps; after 0 steps the initial state. */
static place state_after(const kn_lowering *lowering, const forward *on, int64_t done) {
    const kn_recurrent_form *form = &on->form;
    const kn_node *node = lowering->node;
    int64_t units = form->units, row = form->length * units;
    if (done == 0) return of_value(kn_recurrent_input(node, on->at.start), units, 0);
    if (on->previous) {
        if (done == form->length) return of_value(NULL, 0, 0);
        return of_value(on->previous, row, kn_recurrent_time(form, done) * units);
    }
    if (on->masked) return of_scratch(on->turns[done % 2], units);
    return of_value(lowering->result, row, kn_recurrent_time(form, done - 1) * units);
}

static place cells_after(const kn_lowering *lowering, const forward *on, int64_t done) {
    const kn_recurrent_form *form = &on->form;
    int64_t units = form->units;
    if (!form->cell->has_cells) return of_value(NULL, 0, 0);
    if (done == 0) return of_value(kn_recurrent_input(lowering->node, on->at.start_cells), units, 0);
    if (on->cells)
        return of_value(on->cells, form->length * units, kn_recurrent_time(form, done - 1) * units);
    return of_scratch(on->last_cells, units);
}

static kn_status forward_step(kn_lowering *lowering, const forward *on, int64_t done) {
    const kn_recurrent_form *form = &on->form;
    const kn_node *node = lowering->node;
    kn_value *kept = kn_recurrent_output(node, on->at.kept),
             *final_cells = kn_recurrent_output(node, on->at.final_cells);
    bool first = done == 0, last = done + 1 == form->length;
    place before = state_after(lowering, on, done), after = state_after(lowering, on, done + 1);
    place cells_before = cells_after(lowering, on, done), cells = cells_after(lowering, on, done + 1);
    /* y is written in any case. */
    if (after.value == lowering->result) after = of_value(NULL, 0, 0);
    kn_step *step = begin(lowering, form, "kn_recurrent_step");
    kn_step_read(step, "x", node->inputs[KN_RECURRENT_X]);
    kn_step_read(step, "weight", node->inputs[KN_RECURRENT_WEIGHT]);
    kn_step_read(step, "bias", kn_recurrent_input(node, on->at.bias));
    kn_step_read(step, "lengths", kn_recurrent_input(node, on->at.lengths));
    read_place(step, "before", &before);
    write_place(step, "after", &after);
    read_place(step, "cells_before", &cells_before);
    write_place(step, "cells", &cells);
    kn_step_update(step, "y", lowering->result);
    kn_step_update(step, "kept", kept && kn_recurrent_wanted(kept) ? kept : NULL);
    kn_step_update(step, "start", first ? on->previous : NULL);
    kn_step_update(step, "final",
                   last && kn_recurrent_wanted(node->outputs[on->at.final]) ? node->outputs[on->at.final]
                                                                            : NULL);
    kn_step_update(step, "final_cells",
                   last && final_cells && kn_recurrent_wanted(final_cells) ? final_cells : NULL);
    kn_step_present(step);
    kn_recurrent_set_sizes(step, form);
    add_place(step, "before_row", "before_at", &before);
    add_place(step, "after_row", "after_at", &after);
    add_place(step, "cells_before_row", "cells_before_at", &cells_before);
    add_place(step, "cells_row", "cells_at", &cells);
    KN_STEP_SET(step, {"step", kn_recurrent_time(form, done)});
    return finish(step, lowering, form);
}

static kn_status lower_forward(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    forward on = {.form = kn_recurrent_describe(node)};
    const kn_recurrent_form *form = &on.form;
    on.at = kn_recurrent_places_of(form->cell);
    if (kn_elements_of(lowering->result) == 0) return kn_recurrent_lower_empty(lowering);
    kn_value *cells = kn_recurrent_output(node, on.at.cells), *previous = node->outputs[on.at.previous];
    kn_dtype type = lowering->result->shape.dtype;
    on.masked = kn_recurrent_input(node, on.at.lengths) != NULL;
    on.previous = kn_recurrent_wanted(previous) ? previous : NULL;
    on.cells = cells && kn_recurrent_wanted(cells) ? cells : NULL;
    if (cells && !on.cells) on.last_cells = kn_recurrent_state_scratch(lowering, form, type);
    for (int i = 0; i < 2 && on.masked && !on.previous; i++)
        on.turns[i] = kn_recurrent_state_scratch(lowering, form, type);
    kn_status status = KN_OK;
    for (int64_t done = 0; done < form->length && status == KN_OK; done++)
        status = forward_step(lowering, &on, done);
    return status;
}

/* ---- backward ---------------------------------------------------------------------------------------- */

typedef struct backward {
    kn_recurrent_form form;
    kn_recurrent_back_places at;
    place carry, carry_cells;
} backward;

/* The backward step after `done` others; -1: the gradient of the initial state. */
static kn_status backward_step(kn_lowering *lowering, const backward *on, int64_t done) {
    const kn_recurrent_form *form = &on->form;
    const kn_node *node = lowering->node;
    int64_t units = form->units, last = form->length - 1;
    bool start = done < 0, first = done == last;
    kn_value *cells = kn_recurrent_input(node, on->at.cells),
             *start_cells = kn_recurrent_output(node, on->at.start_cells_out);
    place cells_before =
        of_value(cells, form->length * units, start ? 0 : kn_recurrent_time(form, done - 1) * units);
    if (done == 0) cells_before = of_value(kn_recurrent_input(node, on->at.start_cells), units, 0);
    kn_step *step = begin(lowering, form, "kn_recurrent_back");
    kn_step_read(step, "dy", kn_recurrent_input(node, KN_RECURRENT_BACK_DY));
    kn_step_read(step, "kept", node->inputs[KN_RECURRENT_BACK_KEPT]);
    kn_step_read(step, "cells", cells);
    read_place(step, "cells_before", &cells_before);
    kn_step_read(step, "previous", kn_recurrent_input(node, on->at.previous));
    kn_step_read(step, "weight", node->inputs[KN_RECURRENT_BACK_WEIGHT]);
    kn_step_read(step, "lengths", kn_recurrent_input(node, on->at.lengths));
    kn_step_read(step, "final", first ? kn_recurrent_input(node, on->at.final) : NULL);
    kn_step_read(step, "final_cells", first ? kn_recurrent_input(node, on->at.final_cells) : NULL);
    kn_step_update(step, "slopes", lowering->result);
    kn_step_update(step, "hidden", on->at.hidden >= 0 ? node->outputs[on->at.hidden] : lowering->result);
    write_place(step, "carry", &on->carry);
    write_place(step, "carry_cells", &on->carry_cells);
    kn_step_update(step, "start", start ? node->outputs[on->at.start] : NULL);
    kn_step_update(step, "start_cells",
                   done == 0 && start_cells && kn_recurrent_wanted(start_cells) ? start_cells : NULL);
    kn_step_present(step);
    kn_recurrent_set_sizes(step, form);
    add_place(step, "cells_before_row", "cells_before_at", &cells_before);
    KN_STEP_SET(step, {"step", start ? 0 : kn_recurrent_time(form, done)},
                {"from", first ? 0 : kn_recurrent_time(form, done + 1)}, {"first", first});
    return finish(step, lowering, form);
}

static kn_status lower_backward(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    backward on = {.form = kn_recurrent_describe(node)};
    const kn_recurrent_form *form = &on.form;
    on.at = kn_recurrent_back_places_of(form->cell);
    kn_value *start = node->outputs[on.at.start];
    if (kn_elements_of(lowering->result) == 0) return kn_recurrent_lower_empty(lowering);
    kn_dtype type = kn_accumulator(node, lowering->result->shape.dtype);
    /* In addition to the product's part of the gradient: a part of a GRU's state, and the gradient that
     * bypasses the steps beyond a length */
    if (form->cell->has_bias || kn_recurrent_input(node, on.at.lengths))
        on.carry = of_scratch(kn_recurrent_state_scratch(lowering, form, type), form->units);
    if (form->cell->has_cells)
        on.carry_cells = of_scratch(kn_recurrent_state_scratch(lowering, form, type), form->units);
    kn_status status = KN_OK;
    for (int64_t done = form->length - 1; done >= (kn_recurrent_wanted(start) ? -1 : 0) && status == KN_OK;
         done--)
        status = backward_step(lowering, &on, done);
    return status;
}

/* ---- variants ---------------------------------------------------------------------------------------- */

kn_status kn_recurrent_lower(kn_lowering *lowering) {
    return lowering->node->op->backward ? lower_backward(lowering) : lower_forward(lowering);
}

bool kn_recurrent_tiled_accepts(const kn_target *target, const kn_node *node) {
    return kn_has_kernels(node->outputs[0]->shape.dtype) &&
           kn_group_limit(target, "recurrent/tiled.cl") >= 16;
}
