/* Recurrences for wide vectors (cl/recurrent/wide.cl): a launch for many time steps, in which each work-item
 * computes some samples, or a launch per step, in which each computes some units. */
#include "ops/lowering.h"
#include "ops/recurrent/recurrent.h"

/* A launch takes less than half a second even if a compute unit is this slow. */
static const double slow_flops_per_second = 4e9, longest_launch_seconds = 0.2;
/* Estimates for a compute unit, and what it reads per second from its own caches, a shared cache, and memory.
 * A launch per step must be faster by `margin`, because it also depends on how fast other units wake up. */
static const double flops_per_second = 60e9, launch_seconds = 5e-6, margin = 1.25;
static const struct {
    double bytes, bytes_per_second;
} caches[] = {{1 << 20, 80e9}, {8 << 20, 50e9}, {INFINITY, 15e9}};

/* Rows of a tile, vectors per row, and adjacent tiles of a panel: it contains all gates of a panel's units,
 * and 16 registers hold at most 4 rows of three vectors. */
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

typedef struct wide {
    kn_recurrent_form form;
    bool backward;
    int64_t columns, panels; /* columns of a panel; panels */
    int panel_memory;        /* scratch memory */
    int64_t steps;           /* of a launch, at most; 1: panels are divided among work-items */
} wide;

static kn_step *begin(kn_lowering *lowering, const wide *on, const char *kernel) {
    const kn_target *target = lowering->target;
    kn_step *step = kn_step_begin(lowering, "recurrent/wide.cl", kernel);
    kn_recurrent_define(step, &on->form);
    KN_STEP_DEFINE(step, {"KN_WIDTH", target->vector_width},
                   {"KN_VECTORS", vectors_of(target, on->form.cell)},
                   {"KN_PARTS", parts_of(target, on->form.cell, on->backward)});
    return step;
}

/* ---- how many steps a launch has ---------------------------------------------------------------------- */

/* The estimated seconds of a time step, without its launch, of a work-item that computes `rows` samples and
 * `part` of the units. */
static double seconds_of(const kn_recurrent_form *form, double rows, double part) {
    const double weights = part * (double)(form->cell->gates * form->units * form->units);
    const double bytes = weights * sizeof(float), math = 2 * weights * rows / flops_per_second;
    int level = 0;
    while (bytes > caches[level].bytes)
        level++;
    const double reading = bytes / caches[level].bytes_per_second;
    return reading > math ? reading : math;
}

/* Samples are independent: a work-item can compute a band of samples through all time steps without waiting
 * for others, but reads all weights in each step. */
static int64_t band_of(const kn_lowering *lowering, const kn_recurrent_form *form) {
    return kn_divide_up(form->batch, lowering->target->compute_units);
}

/* The time steps of a launch. Compares the time of a step if compute units divide the samples, in launches of
 * many steps, and if they divide the units of the layer, in a launch per step. */
static int64_t steps_of(const kn_lowering *lowering, const kn_recurrent_form *form) {
    const double units = lowering->target->compute_units, band = (double)band_of(lowering, form);
    const double work = 2.0 * (double)(form->cell->gates * form->units * form->units) * band;
    const double most = slow_flops_per_second * longest_launch_seconds / work;
    const double by_samples = seconds_of(form, band, 1) + launch_seconds / most;
    const double by_units = seconds_of(form, (double)form->batch, 1 / units) + launch_seconds;
    if (most < 2 || by_samples > margin * by_units) return 1;
    return most < (double)form->length ? (int64_t)most : form->length + 1;
}

/* ---- parts of a launch -------------------------------------------------------------------------------- */

/* Packs the weight in panels. */
static kn_status prepare(kn_lowering *lowering, wide *on, kn_value *weight) {
    const kn_target *target = lowering->target;
    const kn_recurrent_form *form = &on->form;
    const int64_t gates = form->cell->gates;
    on->backward = lowering->node->op->backward;
    on->columns = (int64_t)target->vector_width * vectors_of(target, form->cell) *
                  parts_of(target, form->cell, on->backward);
    on->panels = kn_divide_up(form->units, on->backward ? on->columns : on->columns / gates);
    on->steps = steps_of(lowering, form);
    const int64_t depth = (on->backward ? gates : 1) * form->units;
    on->panel_memory =
        kn_emit_scratch(lowering, (uint64_t)(on->panels * depth * on->columns) * sizeof(float));
    kn_step *step = begin(lowering, on, on->backward ? "kn_recurrent_pack_back" : "kn_recurrent_pack");
    kn_step_read(step, "weight", weight);
    kn_step_scratch(step, "panels", on->panel_memory);
    KN_STEP_SET(step, {"units", form->units});
    kn_step_size1(step, (size_t)on->panels, 1);
    return kn_step_end(step, lowering);
}

/* Sets the cost, the last arguments and the global size. */
static kn_status finish(kn_step *step, kn_lowering *lowering, const wide *on, int64_t done, int64_t steps) {
    const kn_target *target = lowering->target;
    const kn_recurrent_form *form = &on->form;
    /* A launch per step: each block of rows reads a panel once, so rows are split only if panels are few. If
     * panels are wide, an item has fewer of them, so that all units have equal work. */
    int64_t units = target->compute_units, rows = form->batch,
            each = on->panels / (target->vector_width == 8 ? 8 * units : 4 * units);
    if (each < 1) each = 1;
    if (on->panels < 4 * units)
        rows = kn_round_up(kn_divide_up(form->batch, kn_divide_up(4 * units, on->panels)), rows_of(target));
    if (on->steps > 1) {
        each = on->panels;
        rows = band_of(lowering, form);
    }
    kn_recurrent_cost_of_steps(step, lowering->node, form, steps);
    kn_step_present(step);
    kn_recurrent_set_sizes(step, form);
    KN_STEP_SET(step, {"done", done}, {"steps", steps}, {"reverse", form->reverse}, {"item_panels", each});
    kn_step_size2(step, (size_t)kn_divide_up(on->panels, each), (size_t)kn_divide_up(form->batch, rows), 1,
                  1);
    /* Both directions of a layer become one launch. */
    if (step && on->steps > form->length)
        step->pair = on->backward ? "kn_recurrent_back_pair" : "kn_recurrent_step_pair";
    return kn_step_end(step, lowering);
}

static kn_value *if_wanted(kn_value *value) {
    return value && kn_recurrent_wanted(value) ? value : NULL;
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static kn_status lower_forward(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    wide on = {.form = kn_recurrent_describe(node)};
    const kn_recurrent_cell *cell = on.form.cell;
    const kn_recurrent_places at = kn_recurrent_places_of(cell);
    kn_status status = prepare(lowering, &on, node->inputs[KN_RECURRENT_WEIGHT]);
    const int states =
        kn_emit_scratch(lowering, 2 * (uint64_t)(on.form.batch * on.form.units) * sizeof(float));
    const int held_cells = cell->has_cells ? kn_recurrent_state_scratch(lowering, &on.form, KN_FLOAT32) : 0;
    for (int64_t done = 0, steps; done < on.form.length && status == KN_OK; done += steps) {
        steps = on.form.length - done < on.steps ? on.form.length - done : on.steps;
        const bool last = done + steps == on.form.length;
        kn_step *step = begin(lowering, &on, "kn_recurrent_step");
        kn_step_read(step, "x", node->inputs[KN_RECURRENT_X]);
        kn_step_read_scratch(step, "panels", on.panel_memory);
        kn_step_read(step, "bias", kn_recurrent_input(node, at.bias));
        kn_step_read(step, "lengths", kn_recurrent_input(node, at.lengths));
        kn_step_read(step, "start", kn_recurrent_input(node, at.start));
        kn_step_read(step, "start_cells", kn_recurrent_input(node, at.start_cells));
        kn_step_scratch(step, "states", states);
        if (cell->has_cells)
            kn_step_scratch(step, "held_cells", held_cells);
        else
            kn_step_update(step, "held_cells", NULL);
        kn_step_update(step, "y", lowering->result);
        kn_step_update(step, "kept", if_wanted(kn_recurrent_output(node, at.kept)));
        kn_step_update(step, "cells", if_wanted(kn_recurrent_output(node, at.cells)));
        kn_step_update(step, "previous", if_wanted(node->outputs[at.previous]));
        kn_step_update(step, "final", last ? if_wanted(node->outputs[at.final]) : NULL);
        kn_step_update(step, "final_cells",
                       last ? if_wanted(kn_recurrent_output(node, at.final_cells)) : NULL);
        status = finish(step, lowering, &on, done, steps);
    }
    return status;
}

/* ---- backward ----------------------------------------------------------------------------------------- */

static kn_status lower_backward(kn_lowering *lowering) {
    const kn_node *node = lowering->node;
    wide on = {.form = kn_recurrent_describe(node)};
    const kn_recurrent_cell *cell = on.form.cell;
    const kn_recurrent_back_places at = kn_recurrent_back_places_of(cell);
    kn_value *start = if_wanted(node->outputs[at.start]);
    kn_status status = prepare(lowering, &on, node->inputs[KN_RECURRENT_BACK_WEIGHT]);
    /* In addition to the product's part of the gradient: a part of a GRU's state, and the gradient that
     * bypasses the steps beyond a length. */
    const bool carries = cell->has_bias || kn_recurrent_input(node, at.lengths);
    const int carry = carries ? kn_recurrent_state_scratch(lowering, &on.form, KN_FLOAT32) : 0;
    const int carry_cells = cell->has_cells ? kn_recurrent_state_scratch(lowering, &on.form, KN_FLOAT32) : 0;
    /* Step -1 is the gradient of the initial state. */
    const int64_t all = on.form.length + (start ? 1 : 0);
    for (int64_t passed = 0, steps; passed < all && status == KN_OK; passed += steps) {
        steps = all - passed < on.steps ? all - passed : on.steps;
        const int64_t done = on.form.length - 1 - passed;
        const bool first = passed == 0;
        kn_step *step = begin(lowering, &on, "kn_recurrent_back");
        kn_step_read(step, "dy", kn_recurrent_input(node, KN_RECURRENT_BACK_DY));
        kn_step_read(step, "kept", node->inputs[KN_RECURRENT_BACK_KEPT]);
        kn_step_read(step, "cells", kn_recurrent_input(node, at.cells));
        kn_step_read(step, "start_cells", kn_recurrent_input(node, at.start_cells));
        kn_step_read(step, "previous", kn_recurrent_input(node, at.previous));
        kn_step_read_scratch(step, "panels", on.panel_memory);
        kn_step_read(step, "lengths", kn_recurrent_input(node, at.lengths));
        kn_step_read(step, "final", first ? kn_recurrent_input(node, at.final) : NULL);
        kn_step_read(step, "final_cells", first ? kn_recurrent_input(node, at.final_cells) : NULL);
        kn_step_update(step, "slopes", lowering->result);
        kn_step_update(step, "hidden", at.hidden >= 0 ? node->outputs[at.hidden] : lowering->result);
        if (carries)
            kn_step_scratch(step, "carry", carry);
        else
            kn_step_update(step, "carry", NULL);
        if (cell->has_cells)
            kn_step_scratch(step, "carry_cells", carry_cells);
        else
            kn_step_update(step, "carry_cells", NULL);
        kn_step_update(step, "d_start", done - steps < -1 ? start : NULL);
        kn_step_update(step, "d_start_cells",
                       done - steps < 0 ? if_wanted(kn_recurrent_output(node, at.start_cells_out)) : NULL);
        status = finish(step, lowering, &on, done, steps);
    }
    return status;
}

kn_status kn_recurrent_wide_lower(kn_lowering *lowering) {
    if (kn_elements_of(lowering->result) == 0) return kn_recurrent_lower_empty(lowering);
    return lowering->node->op->backward ? lower_backward(lowering) : lower_forward(lowering);
}
