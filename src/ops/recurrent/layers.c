/* Recurrent layers: for each layer and direction, a matrix product with the inputs of all time steps, then
 * the recurrence. */
#include <stdio.h>
#include <string.h>

#include "ops/build.h"
#include "ops/layer.h"
#include "ops/matmul/matmul.h"
#include "ops/ops.h"
#include "ops/pointwise/pointwise.h"
#include "ops/recurrent/recurrent.h"
#include "ops/shape/shape.h"

typedef struct stack {
    kn_graph *graph;
    const kn_recurrent_cell *cell;
    const char *name;
    kn_recurrent_params given;
    int64_t units;
    int layer, direction; /* of the part that is being built */
} stack;

enum { MAX_PARTS = KN_MAX_INPUTS }; /* layers times directions: their last states are concatenated */

static int directions(const stack *on) {
    return on->given.bidirectional ? 2 : 1;
}

/* LAYER.NAME_l1_reverse: the layer's name refers to its result. */
static const char *path(const stack *on, const char *layer, const char *name) {
    char level[16] = "";
    if (on->layer) snprintf(level, sizeof level, "_l%d", on->layer);
    const char *whole =
        kn_arena_format(&on->graph->arena, "%s.%s%s%s", layer, name, level, on->direction ? "_reverse" : "");
    if (!whole) kn_graph_fail(on->graph, KN_ERROR_MEMORY, "out of memory for the name of a layer");
    return whole ? whole : "";
}

static kn_value *node(const stack *on, const kn_operator *row, const char *name, kn_value *const *inputs,
                      int count, const kn_settings *settings) {
    return kn_node_add(on->graph, row, path(on, on->name, name), inputs, count,
                       settings ? settings->values : NULL);
}

/* ---- parameters ---------------------------------------------------------------------------------------- */

static kn_value *parameter(const stack *on, const char *name, const kn_shape *shape,
                           const kn_initializer *start) {
    kn_graph *graph = on->graph;
    if (!on->given.share) {
        const kn_initializer usual = {KN_INITIALIZER_UNIFORM, 1 / sqrt((double)on->units)};
        return kn_state_add(graph, path(on, on->name, name), shape, KN_STATE_PARAMETER,
                            start ? start : &usual);
    }
    kn_value *shared = kn_graph_find(graph, path(on, on->given.share, name));
    if (!shared)
        return kn_graph_fail(graph, KN_ERROR_NOT_FOUND,
                             "%s %s: '%s' has no %s; expected the name of another %s layer", on->cell->kind,
                             on->name, on->given.share, name, on->cell->kind);
    if (!kn_shape_same(&shared->shape, shape) || shared->shape.dtype != shape->dtype)
        return kn_graph_fail(graph, KN_ERROR_SHAPE, "%s %s: %s of '%s' is %s; expected %s", on->cell->kind,
                             on->name, name, on->given.share, kn_shape_words(graph, &shared->shape),
                             kn_shape_words(graph, shape));
    return shared;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* x (...) from `begin` to `end` along its first axis. */
static kn_value *cut(const stack *on, const char *name, kn_value *x, int64_t begin, int64_t end) {
    kn_settings settings;
    kn_settings_init(&settings, on->graph, &kn_row_slice);
    kn_settings_int(&settings, "begin", begin);
    kn_settings_int(&settings, "end", end);
    return node(on, &kn_row_slice, name, &x, 1, &settings);
}

static kn_value *reshaped(const stack *on, const char *name, kn_value *x, int rank, const kn_dim *dims) {
    return kn_reshape_named(x, rank, dims, path(on, on->name, name));
}

/* This part's initial state (batch,units): from the caller's (parts,batch,units), or the state at the end of
 * the last run, which becomes *kept; NULL for zeros. */
static kn_value *start_of(const stack *on, kn_value *all, kn_dim batch, kn_dtype dtype, const char *name,
                          kn_value **kept) {
    const kn_dim dims[2] = {batch, on->units};
    int part = on->layer * directions(on) + on->direction;
    const bool cells = name[0] == 'c';
    if (all)
        return reshaped(on, cells ? "start_cells" : "start",
                        cut(on, cells ? "cells_part" : "part", all, part, part + 1), 2, dims);
    if (!on->given.stateful) return NULL;
    const kn_shape shape = {.dtype = dtype, .rank = 2, .dims = {batch, on->units}};
    const kn_initializer zero = {KN_INITIALIZER_FILL, 0};
    *kept = kn_state_add(on->graph, path(on, on->name, name), &shape, KN_STATE_CONTROL, &zero);
    const kn_shape scalar = {.dtype = dtype};
    const double nothing = 0;
    kn_settings settings;
    kn_settings_init(&settings, on->graph, &kn_row_broadcast);
    kn_settings_list(&settings, "shape", 2, dims);
    kn_value *zeros = kn_constant_add(on->graph, &scalar, &nothing, kn_dtype_bytes(dtype));
    zeros = node(on, &kn_row_broadcast, cells ? "no_cells" : "no_state", &zeros, 1, &settings);
    return node(on, &kn_row_in_training, cells ? "start_cells" : "start", (kn_value *[]){zeros, *kept}, 2,
                NULL);
}

/* A GRU's bias_hh (3*units) without its last gate, which the recurrence adds. */
static kn_value *without_last(const stack *on, kn_value *bias) {
    const int64_t units = on->units;
    const kn_dim amounts[2] = {0, units};
    kn_settings settings;
    kn_settings_init(&settings, on->graph, &kn_row_pad);
    kn_settings_list(&settings, "amounts", 2, amounts);
    kn_value *first = cut(on, "bias_first", bias, 0, (on->cell->gates - 1) * units);
    return node(on, &kn_row_pad, "bias_padded", &first, 1, &settings);
}

/* One direction of one layer; x is (batch,length,inputs). The result is named `result`. */
static kn_value *build_direction(const stack *on, kn_value *x, const char *result) {
    kn_graph *graph = on->graph;
    const kn_recurrent_cell *cell = on->cell;
    const int64_t rows = cell->gates * on->units;
    if (kn_value_failed(x)) return x;
    const kn_dtype dtype = x->shape.dtype;
    const kn_dim batch = x->shape.dims[0];
    const kn_shape of_inputs = {.dtype = dtype, .rank = 2, .dims = {rows, x->shape.dims[2]}};
    const kn_shape of_units = {.dtype = dtype, .rank = 2, .dims = {rows, on->units}};
    const kn_shape of_gates = {.dtype = dtype, .rank = 1, .dims = {rows}};
    kn_value *by_input = parameter(on, "weight_ih", &of_inputs, on->given.weight);
    kn_value *by_state = parameter(on, "weight_hh", &of_units, on->given.weight);
    kn_value *first = parameter(on, "bias_ih", &of_gates, on->given.bias);
    kn_value *second = parameter(on, "bias_hh", &of_gates, on->given.bias), *last_bias = NULL;
    if (kn_value_failed(second)) return second;
    if (cell->has_bias) {
        last_bias = cut(on, "bias_last", second, rows - on->units, rows);
        second = without_last(on, second);
    }
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_matmul);
    kn_settings_int(&settings, "transpose_b", 1);
    kn_value *given = node(on, &kn_row_matmul, "product", (kn_value *[]){x, by_input}, 2, &settings);
    given = node(on, &kn_row_add, "shifted", (kn_value *[]){given, first}, 2, NULL);
    given = node(on, &kn_row_add, "given", (kn_value *[]){given, second}, 2, NULL);
    kn_recurrent_places at = kn_recurrent_places_of(cell);
    kn_value *inputs[KN_MAX_INPUTS] = {given, by_state}, *state = NULL, *cells = NULL;
    if (cell->has_bias) inputs[at.bias] = last_bias;
    inputs[at.start] = start_of(on, on->given.start, batch, dtype, "state", &state);
    if (cell->has_cells)
        inputs[at.start_cells] = start_of(on, on->given.start_cells, batch, dtype, "cells", &cells);
    inputs[at.lengths] = on->given.lengths;
    kn_settings_init(&settings, graph, cell->row);
    kn_settings_int(&settings, "reverse", on->direction);
    if (cell->has_relu) kn_settings_int(&settings, "relu", on->given.relu);
    int count = at.inputs;
    while (!inputs[count - 1])
        count--;
    kn_value *y = kn_node_add(graph, cell->row, result, inputs, count, settings.values);
    if (kn_value_failed(y)) return y;
    if (state) kn_assign(graph, state, y->producer->outputs[at.final]);
    if (cells) kn_assign(graph, cells, y->producer->outputs[at.final_cells]);
    return graph->error.status ? &graph->failed : y;
}

/* Values concatenated along an axis; a single value is returned unchanged. */
static kn_value *concatenated(const stack *on, kn_value *const *values, int count, int axis,
                              const char *name) {
    if (count == 1) return values[0];
    kn_settings settings;
    kn_settings_init(&settings, on->graph, &kn_row_concat);
    kn_settings_int(&settings, "axis", axis);
    return kn_node_add(on->graph, &kn_row_concat, name, values, count, settings.values);
}

static kn_value *dropped(const stack *on, kn_value *x) {
    kn_settings settings;
    if (on->given.dropout == 0 || kn_value_failed(x)) return x;
    kn_settings_init(&settings, on->graph, &kn_row_dropout);
    kn_settings_float(&settings, "rate", on->given.dropout);
    return node(on, &kn_row_dropout, "dropped", (kn_value *[]){x, kn_step_counter(on->graph)}, 2, &settings);
}

/* The last states of all parts, each (batch,units), as (parts,batch,units). */
static kn_value *all_states(stack *on, kn_value *const *states, int count, const char *name) {
    kn_value *each[MAX_PARTS] = {NULL};
    for (int i = 0; i < count; i++) {
        on->layer = i / directions(on);
        on->direction = i % directions(on);
        each[i] = reshaped(on, name, states[i], 3, (kn_dim[]){1, states[i]->shape.dims[0], on->units});
    }
    const char *whole = kn_arena_format(&on->graph->arena, "%s.%ss", on->name, name);
    return whole ? concatenated(on, each, count, 0, whole)
                 : kn_graph_fail(on->graph, KN_ERROR_MEMORY, "out of memory for the name of a layer");
}

static kn_value *build_parts(stack *on, kn_value *x) {
    kn_value *finals[MAX_PARTS] = {NULL}, *final_cells[MAX_PARTS] = {NULL}, *results[2] = {NULL};
    const int layers = on->given.layers, sides = directions(on);
    kn_recurrent_places at = kn_recurrent_places_of(on->cell);
    for (on->layer = 0; on->layer < layers; on->layer++) {
        bool last = on->layer + 1 == layers;
        for (on->direction = 0; on->direction < sides; on->direction++) {
            bool named = last && sides == 1 && !on->given.last;
            kn_value *y = build_direction(on, x, named ? on->name : path(on, on->name, "result"));
            int part = on->layer * sides + on->direction;
            if (kn_value_failed(y)) return y;
            results[on->direction] = y;
            finals[part] = y->producer->outputs[at.final];
            if (on->cell->has_cells) final_cells[part] = y->producer->outputs[at.final_cells];
        }
        on->direction = 0;
        if (last && on->given.last) break;
        x = concatenated(on, results, sides, 2, last ? on->name : path(on, on->name, "both"));
        if (!last) x = dropped(on, x);
        if (kn_value_failed(x)) return x;
    }
    const int parts = layers * sides;
    if (on->given.last) {
        x = concatenated(on, finals + parts - sides, sides, 1, on->name);
        if (sides == 1) x = kn_name(x, on->name + strlen(on->graph->scope));
    }
    if (on->given.final) *on->given.final = all_states(on, finals, parts, "last_state");
    if (on->given.final_cells && on->cell->has_cells)
        *on->given.final_cells = all_states(on, final_cells, parts, "last_cell");
    return on->graph->error.status ? &on->graph->failed : x;
}

/* ---- the layers ------------------------------------------------------------------------------ */

static kn_value *check_start(const stack *on, kn_value *start, const kn_value *x) {
    int parts = on->given.layers * directions(on);
    if (!start || kn_value_failed(start)) return start;
    const kn_shape expected = {
        .dtype = x->shape.dtype, .rank = 3, .dims = {parts, x->shape.dims[0], on->units}};
    if (kn_shape_same(&start->shape, &expected) && start->shape.dtype == expected.dtype) return start;
    return kn_graph_fail(on->graph, KN_ERROR_SHAPE, "%s %s: the initial state is %s; expected %s",
                         on->cell->kind, on->name, kn_shape_words(on->graph, &start->shape),
                         kn_shape_words(on->graph, &expected));
}

/* Failed values from the caller fail the layer. */
static kn_value *check(const stack *on, const kn_value *x) {
    const kn_recurrent_params *given = &on->given;
    kn_graph *graph = on->graph;
    const char *kind = on->cell->kind;
    const int32_t most = INT32_MAX / 4;
    if (on->units < 1 || on->units > most)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s %s: %lld units; expected 1 to %d", kind, on->name,
                             (long long)on->units, most);
    if (given->layers < 1 || given->layers > MAX_PARTS / directions(on))
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "%s %s: %d layers; expected 1 to %d", kind, on->name,
                             given->layers, MAX_PARTS / directions(on));
    if (x->shape.rank != 3 || !kn_dim_known(x->shape.dims[2]))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "%s %s: x is %s; expected (batch,length,inputs) with a known number of inputs",
                             kind, on->name, kn_shape_words(graph, &x->shape));
    if (given->stateful && (given->start || given->start_cells))
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "%s %s: stateful and an initial state are mutually exclusive", kind, on->name);
    kn_value *const values[] = {check_start(on, given->start, x), check_start(on, given->start_cells, x),
                                given->lengths};
    for (size_t i = 0; i < KN_COUNT_OF(values); i++)
        if (values[i] && kn_value_failed(values[i])) return &graph->failed;
    return NULL;
}

static kn_value *build(const kn_recurrent_cell *cell, kn_value *x, int64_t units,
                       const kn_recurrent_params *params) {
    stack on = {.cell = cell, .given = {.size = sizeof on.given}, .units = units};
    KN_TAKE_PARAMS(x, kn_recurrent_params, &on.given, params);
    if (on.given.final) *on.given.final = x;
    if (on.given.final_cells) *on.given.final_cells = x;
    if (kn_value_failed(x)) return x;
    on.graph = x->graph;
    if (!on.given.layers) on.given.layers = 1;
    on.name = kn_layer_name(on.graph, on.given.name, cell->kind);
    kn_value *failed = check(&on, x), *y = failed ? failed : build_parts(&on, x);
    if (!kn_value_failed(y)) return y;
    if (on.given.final) *on.given.final = y;
    if (on.given.final_cells) *on.given.final_cells = y;
    return y;
}

kn_value *kn_rnn(kn_value *x, int64_t units, const kn_recurrent_params *params) {
    return build(&kn_cell_rnn, x, units, params);
}
kn_value *kn_lstm(kn_value *x, int64_t units, const kn_recurrent_params *params) {
    return build(&kn_cell_lstm, x, units, params);
}
kn_value *kn_gru(kn_value *x, int64_t units, const kn_recurrent_params *params) {
    return build(&kn_cell_gru, x, units, params);
}
