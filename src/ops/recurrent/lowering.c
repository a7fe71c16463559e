/* Recurrences as launches (cl/recurrent): one per time step, or one for most of the steps. */
#include "ops/fragment.h"
#include "ops/lowering.h"
#include "ops/recurrent/recurrent.h"

enum {
    BAND_ROWS_LEAST = 12,
    PANEL_BYTES_MOST = 8 << 20,
    TILED_ITEM = 4 /* rows and columns of a work-item */
};

/* How a step is computed: few work-items with vectors, a matrix unit, work-groups with tiles, or a work-item
 * per unit. */
typedef enum recurrent_way { WIDE, MATRIX, TILED, PLAIN } recurrent_way;

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

static bool is_wanted(const kn_value *value) {
    return value->wanted || kn_is_read(value);
}

/* The tile of a work-group on many-thread devices, limited by the device's work-groups. */
static kn_recurrent_tile tile_of(const kn_lowering *lowering, recurrent_way way) {
    kn_recurrent_tile tile = {.file = "recurrent/tiled.cl"};
    if (way == MATRIX) {
        kn_recurrent_matrix_tile(lowering->target, lowering->node, &tile);
        return tile;
    }
    tile.rows = tile.columns = kn_group_limit(lowering->target, tile.file) >= 64 ? 32 : 16;
    tile.items = (size_t)(tile.rows * tile.columns) / (TILED_ITEM * TILED_ITEM);
    return tile;
}

static kn_value *input_of(const kn_node *node, int input) {
    return input >= 0 && input < node->input_count ? node->inputs[input] : NULL;
}
static kn_value *output_of(const kn_node *node, int output) {
    return output >= 0 ? node->outputs[output] : NULL;
}

/* Rows of a wide-vector tile, vectors per row, and adjacent tiles of a panel: it contains all gates of a
 * panel's units, and 16 registers hold at most 4 rows of three vectors. */
static int rows_of(const kn_target *target) {
    return target->vector_width == 8 ? 4 : 6;
}
static int vectors_of(const kn_target *target, const kn_recurrent_cell *cell) {
    return target->vector_width == 8 ? 3 : cell->vectors;
}
static int parts_of(const kn_target *target, const kn_recurrent_cell *cell, bool backward) {
    if (target->vector_width != 8) return 1;
    return cell->gates == 4 && !backward ? 4 : 2;
}

/* ---- parts of a step --------------------------------------------------------------------------------- */

static kn_step *begin(kn_lowering *lowering, const kn_recurrent_form *form, recurrent_way way,
                      const char *kernel) {
    const kn_target *target = lowering->target;
    const kn_recurrent_cell *cell = form->cell;
    kn_dtype type = lowering->node->outputs[0]->shape.dtype;
    static const char *const files[] = {[WIDE] = "recurrent/wide.cl",
                                        [MATRIX] = "recurrent/fragment.cl",
                                        [TILED] = "recurrent/tiled.cl",
                                        [PLAIN] = "recurrent/plain.cl"};
    kn_step *step = kn_step_begin(lowering, files[way], kernel);
    KN_STEP_DEFINE(step, {"KN_CELL", cell->number}, {"KN_GATES", cell->gates},
                   {"KN_KEPT", cell->kept ? cell->kept : 1}, {"KN_RELU", form->relu});
    if (way == WIDE) {
        KN_STEP_DEFINE(step, {"KN_WIDTH", target->vector_width}, {"KN_VECTORS", vectors_of(target, cell)},
                       {"KN_PARTS", parts_of(target, cell, lowering->node->op->backward)});
        return step;
    }
    kn_step_types(step, lowering->node, type);
    if (way == PLAIN) return step;
    const kn_recurrent_tile tile = tile_of(lowering, way);
    KN_STEP_DEFINE(step, {"KN_TILE_M", tile.rows}, {"KN_TILE_N", tile.columns});
    if (way == TILED) {
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

static void add_sizes(kn_step *step, const kn_recurrent_form *form) {
    KN_STEP_SET(step, {"batch", form->batch}, {"length", form->length}, {"units", form->units});
}

static void read_weight(kn_step *step, kn_value *weight, recurrent_way way, int panels) {
    if (way == WIDE)
        kn_step_read_scratch(step, "panels", panels);
    else
        kn_step_read(step, "weight", weight);
}

/* The columns and units of a panel. */
static int64_t columns_of(const kn_lowering *lowering, const kn_recurrent_form *form, bool backward) {
    const kn_target *target = lowering->target;
    return (int64_t)target->vector_width * vectors_of(target, form->cell) *
           parts_of(target, form->cell, backward);
}
static int64_t panel_of(const kn_lowering *lowering, const kn_recurrent_form *form, bool backward) {
    int64_t columns = columns_of(lowering, form, backward);
    return backward ? columns : columns / form->cell->gates;
}

/* Time steps of one launch; the cells of consecutive steps are cells_apart elements apart. */
typedef struct walk {
    int64_t steps, cells_apart;
} walk;

/* How the index of the time step changes from one step to the next. */
static int64_t direction_of(const kn_recurrent_form *form, bool backward) {
    return form->reverse == backward ? 1 : -1;
}

/* Samples are independent: each compute unit can process a band of samples through all time steps without
 * waiting for other units. Each unit then reads all weights in each step, which costs little if caches hold
 * them and a band has enough rows. Returns the rows of a band; 0: each time step is a launch. */
static int64_t band_of(const kn_lowering *lowering, const kn_recurrent_form *form, recurrent_way way) {
    int64_t rows = kn_divide_up(form->batch, lowering->target->compute_units);
    int64_t weights = form->cell->gates * form->units * form->units * (int64_t)sizeof(float);
    return way == WIDE && rows >= BAND_ROWS_LEAST && weights <= PANEL_BYTES_MOST ? rows : 0;
}

/* Sets the cost of `on` as part of the node's, the last arguments and the global size: tiles of columns and
 * of rows, or panels and rows. */
static kn_status finish(kn_step *step, kn_lowering *lowering, const kn_recurrent_form *form,
                        recurrent_way way, const walk *on) {
    const kn_target *target = lowering->target;
    bool backward = lowering->node->op->backward;
    double fraction = (double)on->steps / (double)form->length;
    kn_cost cost;
    kn_node_cost(lowering->node, &cost);
    kn_step_cost(step, cost.flops * fraction, cost.bytes * fraction);
    if (way == PLAIN) {
        kn_step_size2(step, (size_t)kn_round_up(form->units, 64), (size_t)form->batch, 0, 0);
        return kn_step_end(step, lowering);
    }
    if (way != WIDE) {
        const kn_recurrent_tile tile = tile_of(lowering, way);
        const int64_t columns = kn_recurrent_columns(form, backward);
        const int64_t depth = form->units * (backward ? form->cell->gates : 1);
        if (way == MATRIX)
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
        return kn_step_end(step, lowering);
    }
    /* Each block of rows reads a panel once: rows are split only if panels are few. If they are wide, an item
     * has fewer of them, so that all units have equal work. */
    bool few = target->vector_width == 8;
    int64_t units = target->compute_units,
            panels = kn_divide_up(form->units, panel_of(lowering, form, backward));
    int64_t rows = form->batch, each = panels / (few ? 8 * units : 4 * units);
    if (each < 1) each = 1;
    if (panels < 4 * units)
        rows = kn_round_up(kn_divide_up(form->batch, kn_divide_up(4 * units, panels)), rows_of(target));
    if (on->steps > 1) {
        each = panels;
        rows = band_of(lowering, form, way);
    }
    KN_STEP_SET(step, {"item_panels", each}, {"item_rows", rows}, {"steps", on->steps},
                {"direction", direction_of(form, backward)}, {"cells_apart", on->cells_apart});
    kn_step_size2(step, (size_t)kn_divide_up(panels, each), (size_t)kn_divide_up(form->batch, rows), 1, 1);
    return kn_step_end(step, lowering);
}

/* Packs the weight in panels; returns their scratch memory. */
static kn_status pack(kn_lowering *lowering, const kn_recurrent_form *form, kn_value *weight, int *panels) {
    bool backward = lowering->node->op->backward;
    int64_t count = kn_divide_up(form->units, panel_of(lowering, form, backward));
    int64_t columns = columns_of(lowering, form, backward);
    int64_t numbers = count * (backward ? form->cell->gates : 1) * form->units * columns;
    *panels = kn_emit_scratch(lowering, (uint64_t)numbers * sizeof(float));
    kn_step *step = begin(lowering, form, WIDE, backward ? "kn_recurrent_pack_back" : "kn_recurrent_pack");
    kn_step_read(step, "weight", weight);
    kn_step_scratch(step, "panels", *panels);
    KN_STEP_SET(step, {"units", form->units});
    kn_step_size1(step, (size_t)count, 1);
    return kn_step_end(step, lowering);
}

/* Scratch memory for one element per unit and sample. */
static int state_scratch(kn_lowering *lowering, const kn_recurrent_form *form, kn_dtype type) {
    return kn_emit_scratch(lowering, (uint64_t)(form->batch * form->units) * kn_dtype_bytes(type));
}

/* Without time steps a state is copied. */
static kn_status copy_state(kn_lowering *lowering, kn_value *from, kn_value *to) {
    if (!to || kn_elements_of(to) == 0) return KN_OK;
    return from ? kn_emit_copy(lowering, from, to) : kn_emit_fill_zero(lowering, to);
}

/* ---- forward ----------------------------------------------------------------------------------------- */

typedef struct forward {
    kn_recurrent_form form;
    kn_recurrent_places at;
    kn_value *cells, *previous; /* NULL without a gradient */
    int turns[2], last_cells; /* scratch memory; with lengths, states alternate between `turns` if previous is
                                 not stored */
    recurrent_way way;
    bool masked;
    int panels;
} forward;

/* The state after `done` steps; after 0 steps the initial state. */
static place state_after(const kn_lowering *lowering, const forward *on, int64_t done) {
    const kn_recurrent_form *form = &on->form;
    const kn_node *node = lowering->node;
    int64_t units = form->units, row = form->length * units;
    if (done == 0) return of_value(input_of(node, on->at.start), units, 0);
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
    if (done == 0) return of_value(input_of(lowering->node, on->at.start_cells), units, 0);
    if (on->cells)
        return of_value(on->cells, form->length * units, kn_recurrent_time(form, done - 1) * units);
    return of_scratch(on->last_cells, units);
}

static kn_status forward_steps(kn_lowering *lowering, const forward *on, int64_t done, int64_t steps) {
    const kn_recurrent_form *form = &on->form;
    const kn_node *node = lowering->node;
    kn_value *kept = output_of(node, on->at.kept), *final_cells = output_of(node, on->at.final_cells);
    const walk along = {steps, on->cells ? direction_of(form, false) * form->units : 0};
    bool first = done == 0, last = done + 1 == form->length;
    place before = state_after(lowering, on, done), after = state_after(lowering, on, done + 1);
    place cells_before = cells_after(lowering, on, done), cells = cells_after(lowering, on, done + 1);
    /* y is written in any case. */
    if (after.value == lowering->result) after = of_value(NULL, 0, 0);
    kn_step *step = begin(lowering, form, on->way, "kn_recurrent_step");
    kn_step_read(step, "x", node->inputs[KN_RECURRENT_X]);
    read_weight(step, node->inputs[KN_RECURRENT_WEIGHT], on->way, on->panels);
    kn_step_read(step, "bias", input_of(node, on->at.bias));
    kn_step_read(step, "lengths", input_of(node, on->at.lengths));
    read_place(step, "before", &before);
    write_place(step, "after", &after);
    read_place(step, "cells_before", &cells_before);
    write_place(step, "cells", &cells);
    kn_step_update(step, "y", lowering->result);
    kn_step_update(step, "kept", kept && is_wanted(kept) ? kept : NULL);
    kn_step_update(step, "start", first ? on->previous : NULL);
    kn_step_update(step, "final",
                   last && is_wanted(node->outputs[on->at.final]) ? node->outputs[on->at.final] : NULL);
    kn_step_update(step, "final_cells", last && final_cells && is_wanted(final_cells) ? final_cells : NULL);
    kn_step_present(step);
    add_sizes(step, form);
    add_place(step, "before_row", "before_at", &before);
    add_place(step, "after_row", "after_at", &after);
    add_place(step, "cells_before_row", "cells_before_at", &cells_before);
    add_place(step, "cells_row", "cells_at", &cells);
    KN_STEP_SET(step, {"step", kn_recurrent_time(form, done)});
    return finish(step, lowering, form, on->way, &along);
}

static kn_status lower_forward(kn_lowering *lowering, recurrent_way way) {
    const kn_node *node = lowering->node;
    forward on = {.form = kn_recurrent_describe(node), .way = way};
    const kn_recurrent_form *form = &on.form;
    on.at = kn_recurrent_places_of(form->cell);
    if (kn_elements_of(lowering->result) == 0) {
        kn_status status = copy_state(lowering, input_of(node, on.at.start), node->outputs[on.at.final]);
        if (status) return status;
        return copy_state(lowering, input_of(node, on.at.start_cells), output_of(node, on.at.final_cells));
    }
    kn_value *cells = output_of(node, on.at.cells), *previous = node->outputs[on.at.previous];
    kn_dtype type = lowering->result->shape.dtype;
    on.masked = input_of(node, on.at.lengths) != NULL;
    on.previous = is_wanted(previous) ? previous : NULL;
    on.cells = cells && is_wanted(cells) ? cells : NULL;
    if (cells && !on.cells) on.last_cells = state_scratch(lowering, form, type);
    for (int i = 0; i < 2 && on.masked && !on.previous; i++)
        on.turns[i] = state_scratch(lowering, form, type);
    kn_status status =
        way == WIDE ? pack(lowering, form, node->inputs[KN_RECURRENT_WEIGHT], &on.panels) : KN_OK;
    /* The first and the last step store states at other positions. */
    int64_t most = (on.previous || !on.masked) && band_of(lowering, form, way) ? form->length - 2 : 1;
    for (int64_t done = 0, steps; done < form->length && status == KN_OK; done += steps) {
        steps = done == 1 && most > 1 ? most : 1;
        status = forward_steps(lowering, &on, done, steps);
    }
    return status;
}

/* ---- backward ---------------------------------------------------------------------------------------- */

typedef struct backward {
    kn_recurrent_form form;
    kn_recurrent_back_places at;
    place carry, carry_cells;
    recurrent_way way;
    int panels;
} backward;

/* The backward step after `done` others; -1: the gradient of the initial state. */
static kn_status backward_steps(kn_lowering *lowering, const backward *on, int64_t done, int64_t steps) {
    const kn_recurrent_form *form = &on->form;
    const kn_node *node = lowering->node;
    int64_t units = form->units, last = form->length - 1;
    const walk along = {steps, direction_of(form, true) * units};
    bool start = done < 0, first = done == last;
    kn_value *cells = input_of(node, on->at.cells), *start_cells = output_of(node, on->at.start_cells_out);
    place cells_before =
        of_value(cells, form->length * units, start ? 0 : kn_recurrent_time(form, done - 1) * units);
    if (done == 0) cells_before = of_value(input_of(node, on->at.start_cells), units, 0);
    kn_step *step = begin(lowering, form, on->way, "kn_recurrent_back");
    kn_step_read(step, "dy", input_of(node, KN_RECURRENT_BACK_DY));
    kn_step_read(step, "kept", node->inputs[KN_RECURRENT_BACK_KEPT]);
    kn_step_read(step, "cells", cells);
    read_place(step, "cells_before", &cells_before);
    kn_step_read(step, "previous", input_of(node, on->at.previous));
    read_weight(step, node->inputs[KN_RECURRENT_BACK_WEIGHT], on->way, on->panels);
    kn_step_read(step, "lengths", input_of(node, on->at.lengths));
    kn_step_read(step, "final", first ? input_of(node, on->at.final) : NULL);
    kn_step_read(step, "final_cells", first ? input_of(node, on->at.final_cells) : NULL);
    kn_step_update(step, "slopes", lowering->result);
    kn_step_update(step, "hidden", on->at.hidden >= 0 ? node->outputs[on->at.hidden] : lowering->result);
    write_place(step, "carry", &on->carry);
    write_place(step, "carry_cells", &on->carry_cells);
    kn_step_update(step, "start", start ? node->outputs[on->at.start] : NULL);
    kn_step_update(step, "start_cells",
                   done == 0 && start_cells && is_wanted(start_cells) ? start_cells : NULL);
    kn_step_present(step);
    add_sizes(step, form);
    add_place(step, "cells_before_row", "cells_before_at", &cells_before);
    KN_STEP_SET(step, {"step", start ? 0 : kn_recurrent_time(form, done)},
                {"from", first ? 0 : kn_recurrent_time(form, done + 1)}, {"first", first});
    return finish(step, lowering, form, on->way, &along);
}

static kn_status lower_backward(kn_lowering *lowering, recurrent_way way) {
    const kn_node *node = lowering->node;
    backward on = {.form = kn_recurrent_describe(node), .way = way};
    const kn_recurrent_form *form = &on.form;
    on.at = kn_recurrent_back_places_of(form->cell);
    kn_value *start = node->outputs[on.at.start];
    if (kn_elements_of(lowering->result) == 0) {
        kn_status status = copy_state(lowering, input_of(node, on.at.final), start);
        if (status) return status;
        return copy_state(lowering, input_of(node, on.at.final_cells),
                          output_of(node, on.at.start_cells_out));
    }
    kn_dtype type = kn_accumulator(node, lowering->result->shape.dtype);
    /* In addition to the product's part of the gradient: a part of a GRU's state, and the gradient that
     * bypasses the steps beyond a length */
    if (form->cell->has_bias || input_of(node, on.at.lengths))
        on.carry = of_scratch(state_scratch(lowering, form, type), form->units);
    if (form->cell->has_cells) on.carry_cells = of_scratch(state_scratch(lowering, form, type), form->units);
    kn_status status =
        way == WIDE ? pack(lowering, form, node->inputs[KN_RECURRENT_BACK_WEIGHT], &on.panels) : KN_OK;
    /* The last and the first step of the sequence access other positions. */
    int64_t last = form->length - 1, most = band_of(lowering, form, way) ? form->length - 2 : 1;
    for (int64_t done = last, steps; done >= (is_wanted(start) ? -1 : 0) && status == KN_OK; done -= steps) {
        steps = done == last - 1 && most > 1 ? most : 1;
        status = backward_steps(lowering, &on, done, steps);
    }
    return status;
}

/* ---- variants ---------------------------------------------------------------------------------------- */

static kn_status lower(kn_lowering *lowering, recurrent_way way) {
    return lowering->node->op->backward ? lower_backward(lowering, way) : lower_forward(lowering, way);
}
kn_status kn_recurrent_wide_lower(kn_lowering *lowering) {
    return lower(lowering, WIDE);
}
kn_status kn_recurrent_matrix_lower(kn_lowering *lowering) {
    return lower(lowering, MATRIX);
}
kn_status kn_recurrent_tiled_lower(kn_lowering *lowering) {
    return lower(lowering, TILED);
}
kn_status kn_recurrent_plain_lower(kn_lowering *lowering) {
    return lower(lowering, PLAIN);
}

bool kn_recurrent_tiled_accepts(const kn_target *target, const kn_node *node) {
    return kn_has_kernels(node->outputs[0]->shape.dtype) &&
           kn_group_limit(target, "recurrent/tiled.cl") >= 16;
}
