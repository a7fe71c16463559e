/* LSTM layers (cl/lstm). What the inputs give to the gates of all steps is one matrix product before; the
 * recurrence is a row of its own, one launch a step; and the gradient of its weights is one product over all
 * steps again. */
#include "ops/matmul_private.h"
#include "ops/product_private.h"

#include <math.h>

extern const kn_operator kn_row_lstm, kn_row_lstm_gradient;

/* Results of lstm, and inputs of both rows. */
enum { RESULT, GATES, CELLS, PREVIOUS };
enum { GIVEN, WEIGHT };
enum { BACK_DY, BACK_GATES, BACK_CELLS, BACK_WEIGHT };

/* ---- shapes ---------------------------------------------------------------------------------------- */

static kn_status check_weight(kn_shape_call *call, int weight, kn_dim units) {
    const kn_shape *own = &call->inputs[weight]->shape;
    if (own->rank == 2 && own->dims[1] == units && own->dims[0] == kn_dim_multiply(call->graph, 4, units) &&
        own->dtype == call->inputs[0]->shape.dtype)
        return KN_OK;
    return kn_shape_fail(call, KN_ERROR_SHAPE, "input 0 is %s and the weight %s; expected (4*units,units)",
                         kn_shape_words_of(call, 0), kn_shape_words_of(call, weight));
}

/* x is (B,T,4H), what the inputs give to the gates i, f, g, o; weight (4H,H). The result is h (B,T,H). Hidden
 * are the gates (B,T,4H), the cells (B,T,H), and the results of the step before, (B,T,H), by which the
 * weight's gradient is one product. */
static kn_status lstm_shape(kn_shape_call *call) {
    const kn_shape *x = &call->inputs[GIVEN]->shape;
    if (kn_shape_float_input(call, GIVEN)) return call->error->status;
    if (x->rank != 3 || (kn_dim_known(x->dims[2]) && x->dims[2] % 4))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected (batch,length,4*units)",
                             kn_shape_words_of(call, GIVEN));
    kn_dim units = kn_dim_divide(call->graph, x->dims[2], 4);
    if (check_weight(call, WEIGHT, units)) return call->error->status;
    for (int i = 0; i < call->output_count; i++) {
        call->outputs[i] = *x;
        if (i != GATES) call->outputs[i].dims[2] = units;
    }
    return KN_OK;
}

/* dy and cells are (B,T,H), gates (B,T,4H), weight (4H,H); the result is the gradient by x, (B,T,4H). */
static kn_status gradient_shape(kn_shape_call *call) {
    const kn_shape *dy = &call->inputs[BACK_DY]->shape, *gates = &call->inputs[BACK_GATES]->shape;
    if (kn_shape_float_input(call, BACK_DY)) return call->error->status;
    if (dy->rank != 3 || gates->rank != 3 || gates->dims[2] != kn_dim_multiply(call->graph, 4, dy->dims[2]) ||
        !kn_shape_same(dy, &call->inputs[BACK_CELLS]->shape))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "dy is %s, the gates %s and the cells %s",
                             kn_shape_words_of(call, BACK_DY), kn_shape_words_of(call, BACK_GATES),
                             kn_shape_words_of(call, BACK_CELLS));
    if (check_weight(call, BACK_WEIGHT, dy->dims[2])) return call->error->status;
    call->outputs[0] = *gates;
    return KN_OK;
}

typedef struct lstm_form {
    int64_t batch, length, units;
} lstm_form;

/* y is (B,T,H). */
static lstm_form describe(const kn_shape *y) {
    return (lstm_form){y->dims[0], y->dims[1], y->dims[2]};
}

/* ---- references ------------------------------------------------------------------------------------- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static kn_status lstm_reference(kn_reference_call *call) {
    const double *x = call->inputs[GIVEN].data, *weight = call->inputs[WEIGHT].data;
    double *y = call->outputs[RESULT].data, *gates = call->outputs[GATES].data;
    double *cells = call->outputs[CELLS].data, *previous = call->outputs[PREVIOUS].data;
    lstm_form form = describe(&call->outputs[RESULT].shape);
    int64_t units = form.units, steps = form.batch * form.length;
    for (int64_t at = 0; at < steps; at++) { /* samples one behind the other, their steps in order */
        bool first = at % form.length == 0;
        double *gate = gates + at * 4 * units, *cell = cells + at * units, *before = previous + at * units;
        for (int64_t u = 0; u < units; u++)
            before[u] = first ? 0 : y[(at - 1) * units + u];
        for (int64_t j = 0; j < 4 * units; j++) {
            double sum = x[at * 4 * units + j];
            for (int64_t u = 0; u < units; u++)
                sum += weight[j * units + u] * before[u];
            gate[j] = j / units == 2 ? tanh(sum) : sigmoid(sum);
        }
        for (int64_t u = 0; u < units; u++) {
            cell[u] = gate[u] * gate[2 * units + u] + (first ? 0 : gate[units + u] * cell[u - units]);
            y[at * units + u] = gate[3 * units + u] * tanh(cell[u]);
        }
    }
    return KN_OK;
}

static kn_status gradient_reference(kn_reference_call *call) {
    const double *dy = call->inputs[BACK_DY].data, *gates = call->inputs[BACK_GATES].data;
    const double *cells = call->inputs[BACK_CELLS].data, *weight = call->inputs[BACK_WEIGHT].data;
    double *dx = call->outputs[0].data;
    lstm_form form = describe(&call->inputs[BACK_DY].shape);
    int64_t units = form.units;
    double *carry = kn_allocate(call->host, (size_t)units + 1, sizeof *carry);
    if (!carry) return kn_fail_memory(call->error, (size_t)units * sizeof *carry);
    for (int64_t at = form.batch * form.length - 1; at >= 0; at--) {
        bool first = at % form.length == 0, last = (at + 1) % form.length == 0;
        const double *gate = gates + at * 4 * units, *cell = cells + at * units;
        double *slope = dx + at * 4 * units;
        for (int64_t u = 0; u < units; u++) {
            double i = gate[u], f = gate[units + u], g = gate[2 * units + u], o = gate[3 * units + u];
            double c = tanh(cell[u]), dh = dy[at * units + u];
            for (int64_t j = 0; j < 4 * units && !last; j++)
                dh += slope[4 * units + j] * weight[j * units + u];
            double dc = dh * o * (1 - c * c) + (last ? 0 : carry[u]);
            carry[u] = dc * f;
            slope[u] = dc * g * i * (1 - i);
            slope[units + u] = first ? 0 : dc * cell[u - units] * f * (1 - f);
            slope[2 * units + u] = dc * i * (1 - g * g);
            slope[3 * units + u] = dh * c * o * (1 - o);
        }
    }
    kn_release(call->host, carry);
    return KN_OK;
}

static void lstm_cost(const kn_node *node, kn_cost *cost) {
    lstm_form form = describe(node->operator->backward ? &node->inputs[0]->shape : & node->outputs[0]->shape);
    double states = (double)form.batch * (double)form.length * (double)form.units;
    kn_cost_set(node, states * (8.0 * (double)form.units + 30), cost);
}

/* ---- lowering ------------------------------------------------------------------------------------------ */

enum { VECTORS = 4, TILE_ROWS = 6 };

/* The tile of a work-group with many threads, by what groups there may be. */
static int tile_of(const kn_target *target) {
    return target->work_group_items >= 64 ? 32 : 16;
}

/* One step's share of the node's work. */
static void cost_of_step(kn_step *step, const kn_node *node, int64_t length) {
    kn_cost cost;
    kn_node_cost(node, &cost);
    kn_step_cost(step, cost.flops / (double)length, cost.bytes / (double)length);
}

static void add_sizes(kn_step *step, const lstm_form *form) {
    kn_step_int(step, form->batch);
    kn_step_int(step, form->length);
    kn_step_int(step, form->units);
}

static kn_step *begin(kn_lowering *lowering, bool wide, const char *kernel) {
    const kn_target *target = lowering->target;
    kn_dtype type = lowering->node->outputs[0]->shape.dtype;
    kn_step *step = kn_step_begin(lowering, wide ? "lstm/wide.cl" : "lstm/tiled.cl", kernel);
    if (wide) {
        kn_step_define(step, "KN_WIDTH", "%d", target->vector_width);
        return step;
    }
    kn_step_define_type(step, "KN_T", type);
    kn_step_define_type(step, "KN_A", kn_accumulator(lowering->node, type));
    kn_step_define(step, "KN_TILE_M", "%d", tile_of(target));
    kn_step_define(step, "KN_TILE_N", "%d", tile_of(target));
    kn_step_define(step, "KN_ITEM_M", "4");
    kn_step_define(step, "KN_ITEM_N", "4");
    return step;
}

/* The last arguments of a step and its size: tiles of rows and of columns, or panels and rows. */
static void size_of_step(kn_step *step, const kn_lowering *lowering, const lstm_form *form, bool wide,
                         int64_t columns, int64_t panel) {
    int64_t units = lowering->target->compute_units;
    if (!wide) {
        size_t tile = (size_t)tile_of(lowering->target), items = tile * tile / 16;
        kn_step_size2(step, (size_t)kn_divide_up(columns, (int64_t)tile) * items,
                      (size_t)kn_divide_up(form->batch, (int64_t)tile), items, 1);
        return;
    }
    /* A panel is read once by each block of rows: rows are split only where panels are few. */
    int64_t panels = kn_divide_up(columns, panel), rows = form->batch, each = panels / (4 * units);
    if (each < 1) each = 1;
    if (panels < 4 * units)
        rows = kn_round_up(kn_divide_up(form->batch, kn_divide_up(4 * units, panels)), TILE_ROWS);
    kn_step_int(step, each);
    kn_step_int(step, rows);
    kn_step_size2(step, (size_t)kn_divide_up(panels, each), (size_t)kn_divide_up(form->batch, rows), 1, 1);
}

/* Weights in panels; answers the scratch memory that has them. */
static kn_status pack(kn_lowering *lowering, const lstm_form *form, kn_value *weight, bool backward,
                      int *panels) {
    int64_t width = lowering->target->vector_width, columns = backward ? VECTORS * width : width;
    int64_t count = kn_divide_up(form->units, columns);
    int64_t numbers = count * (backward ? 4 : 1) * form->units * VECTORS * width;
    *panels = kn_emit_scratch(lowering, (uint64_t)numbers * sizeof(float));
    kn_step *step = begin(lowering, true, backward ? "kn_lstm_pack_back" : "kn_lstm_pack");
    kn_step_read(step, weight);
    kn_step_scratch(step, *panels);
    kn_step_int(step, form->units);
    kn_step_size1(step, (size_t)count, 1);
    return kn_step_end(step, lowering);
}

static kn_status lower_forward(kn_lowering *lowering, bool wide) {
    const kn_node *node = lowering->node;
    lstm_form form = describe(&node->outputs[RESULT]->shape);
    kn_value *weight = node->inputs[WEIGHT], *gates = node->outputs[GATES], *cells = node->outputs[CELLS];
    kn_value *previous = node->outputs[PREVIOUS];
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    int panels = 0, last_cells = 0;
    kn_status status = wide ? pack(lowering, &form, weight, false, &panels) : KN_OK;
    /* Without a gradient only the last cells are kept. */
    bool keep = kn_is_read(cells);
    if (!keep)
        last_cells = kn_emit_scratch(lowering, (uint64_t)(form.batch * form.units) *
                                                   kn_dtype_bytes(cells->shape.dtype));
    for (int64_t t = 0; t < form.length && status == KN_OK; t++) {
        kn_step *step = begin(lowering, wide, "kn_lstm_step");
        kn_step_read(step, node->inputs[GIVEN]);
        if (wide)
            kn_step_read_scratch(step, panels);
        else
            kn_step_read(step, weight);
        kn_step_update(step, lowering->result);
        kn_step_update(step, kn_is_read(gates) ? gates : NULL);
        if (keep)
            kn_step_update(step, cells);
        else
            kn_step_scratch(step, last_cells);
        kn_step_update(step, kn_is_read(previous) ? previous : NULL);
        add_sizes(step, &form);
        kn_step_index(step, keep ? form.length * form.units : form.units);
        kn_step_index(step, keep ? form.units : 0);
        kn_step_int(step, t);
        cost_of_step(step, node, form.length);
        int64_t width = lowering->target->vector_width;
        size_of_step(step, lowering, &form, wide, wide ? form.units : 4 * form.units, width);
        status = kn_step_end(step, lowering);
    }
    return status;
}

static kn_status lower_backward(kn_lowering *lowering, bool wide) {
    const kn_node *node = lowering->node;
    lstm_form form = describe(&node->inputs[BACK_DY]->shape);
    kn_value *weight = node->inputs[BACK_WEIGHT];
    if (kn_elements_of(lowering->result) == 0) return KN_OK;
    int panels = 0;
    kn_dtype type = kn_accumulator(node, lowering->result->shape.dtype);
    int carry = kn_emit_scratch(lowering, (uint64_t)(form.batch * form.units) * kn_dtype_bytes(type));
    kn_status status = wide ? pack(lowering, &form, weight, true, &panels) : KN_OK;
    for (int64_t t = form.length - 1; t >= 0 && status == KN_OK; t--) {
        kn_step *step = begin(lowering, wide, "kn_lstm_back");
        for (int i = BACK_DY; i < BACK_WEIGHT; i++)
            kn_step_read(step, node->inputs[i]);
        if (wide)
            kn_step_read_scratch(step, panels);
        else
            kn_step_read(step, weight);
        kn_step_update(step, lowering->result);
        kn_step_scratch(step, carry);
        add_sizes(step, &form);
        kn_step_int(step, t);
        cost_of_step(step, node, form.length);
        int64_t width = lowering->target->vector_width;
        size_of_step(step, lowering, &form, wide, form.units, VECTORS * width);
        status = kn_step_end(step, lowering);
    }
    return status;
}

static kn_status lower(kn_lowering *lowering, bool wide) {
    return lowering->node->operator->backward ? lower_backward(lowering, wide)
                                              : lower_forward(lowering, wide);
}
static kn_status lower_wide(kn_lowering *lowering) {
    return lower(lowering, true);
}
static kn_status lower_tiled(kn_lowering *lowering) {
    return lower(lowering, false);
}

static bool accepts_wide(const kn_target *target, const kn_node *node) {
    int width = target->vector_width;
    return target->wide_vector && (width == 4 || width == 8 || width == 16) &&
           node->outputs[0]->shape.dtype == KN_FLOAT32;
}
static bool accepts_tiled(const kn_target *target, const kn_node *node) {
    return kn_has_kernels(node->outputs[0]->shape.dtype) && target->work_group_items >= 16;
}

/* ---- gradient ---------------------------------------------------------------------------------------------
 */

/* (B,T,columns) seen as (B*T,columns). */
static kn_value *as_matrix(kn_gradient_call *call, kn_value *x) {
    if (kn_value_failed(x)) return x;
    kn_shape matrix = {.dtype = x->shape.dtype, .rank = 2};
    matrix.dims[0] = x->shape.dims[0] * x->shape.dims[1];
    matrix.dims[1] = x->shape.dims[2];
    return kn_gradient_reshape(call, x, &matrix);
}

static kn_status lstm_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[RESULT]) return KN_OK;
    kn_value *inputs[4] = {call->output_gradients[RESULT], node->outputs[GATES], node->outputs[CELLS],
                           node->inputs[WEIGHT]};
    kn_value *slopes = kn_gradient_build(call, &kn_row_lstm_gradient, inputs, 4, NULL);
    if (call->wanted[GIVEN]) call->input_gradients[GIVEN] = slopes;
    if (call->wanted[WEIGHT]) {
        kn_value *pair[2] = {as_matrix(call, slopes), as_matrix(call, node->outputs[PREVIOUS])};
        kn_settings settings;
        kn_settings_init(&settings, call->graph, &kn_row_matmul);
        kn_settings_int(&settings, "transpose_a", 1);
        call->input_gradients[WEIGHT] = kn_gradient_build(call, &kn_row_matmul, pair, 2, &settings);
    }
    return kn_gradient_status(call);
}

/* ---- the rows
 * ------------------------------------------------------------------------------------------------ */

#define VARIANTS                                                                                             \
    KN_VARIANTS({.name = "wide", .accepts = accepts_wide, .lower = lower_wide, .doubtful = true},            \
                {.name = "tiled", .accepts = accepts_tiled, .lower = lower_tiled})

KN_OPERATOR(
    lstm,
    .help = "recurrence of an LSTM layer over x (B,T,4H), what the inputs give to the gates i, f, g, o, with "
            "a weight (4H,H)",
    .min_inputs = 2, .max_inputs = 2, .hidden = 3, .shape = lstm_shape, .gradient = lstm_gradient,
    .reference = lstm_reference, .cost = lstm_cost, .tolerance = 2, VARIANTS,
    KN_CASES({.inputs = {"2,3,20", "20,5"}, .smallest = true}, {.inputs = {"1,7,4", "4,1"}},
             {.inputs = {"3,7,124", "124,31"}, .ranges = {NULL, "-0.5..0.5"}},
             {.inputs = {"7,31,28", "28,7"}, .ranges = {NULL, "-0.5..0.5"}},
             {.inputs = {"33,2,132", "132,33"}, .ranges = {NULL, "-0.5..0.5"}},
             {.inputs = {"8,3,272", "272,68"}, .ranges = {NULL, "-0.3..0.3"}},
             {.inputs = {"2,2,20", "20,5"}, .ranges = {"-200..200"}, .no_gradient = true},
             {.inputs = {"0,3,20", "20,5"}}, {.inputs = {"2,0,20", "20,5"}}));
/* Any gates and cells do. */
#define GRADIENT_CASE(y, gates, weight)                                                                      \
    .inputs = {y, gates, y, weight}, .ranges = {NULL, "0..1", "-1..1", "-0.3..0.3"}, .no_gradient = true
KN_OPERATOR(lstm_gradient, .help = "gradient of lstm by what the inputs give", .min_inputs = 4,
            .max_inputs = 4, .backward = true, .shape = gradient_shape, .reference = gradient_reference,
            .cost = lstm_cost, .tolerance = 2, VARIANTS,
            KN_CASES({GRADIENT_CASE("2,3,5", "2,3,20", "20,5"), .smallest = true},
                     {GRADIENT_CASE("7,31,7", "7,31,28", "28,7")},
                     {GRADIENT_CASE("33,3,31", "33,3,124", "124,31")},
                     {GRADIENT_CASE("8,3,68", "8,3,272", "272,68")}));

/* ---- builder
 * ------------------------------------------------------------------------------------------------- */

/* LAYER.NAME, so that the layer's name means its result. */
static kn_value *inner(kn_graph *graph, const kn_operator *row, const char *layer, const char *name,
                       kn_value *const inputs[2], const kn_settings *settings) {
    const char *path = kn_arena_format(&graph->arena, "%s.%s", layer, name);
    if (!path) return kn_graph_fail(graph, KN_ERROR_MEMORY, "no memory for the name of a layer");
    return kn_node_add(graph, row, path, inputs, 2, settings ? settings->values : NULL);
}

/* x is (B,T,inputs), weight_ih (4*units,inputs), weight_hh (4*units,units), both biases (4*units); the result
 * is (B,T,units). */
kn_value *kn_lstm(kn_value *x, int64_t units, const kn_recurrent_params *params) {
    if (kn_value_failed(x)) return x;
    kn_graph *graph = x->graph;
    kn_recurrent_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(given, params);
    const char *layer = kn_layer_name(graph, given.name, "lstm");
    if (units < 1 || units > INT32_MAX / 4)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT, "lstm %s: %lld units; expected 1 to %d", layer,
                             (long long)units, INT32_MAX / 4);
    if (x->shape.rank != 3 || !kn_dim_known(x->shape.dims[2]))
        return kn_graph_fail(graph, KN_ERROR_SHAPE,
                             "lstm %s: x is %s; expected (batch,length,inputs) with a known number of inputs",
                             layer, kn_shape_words(graph, &x->shape));
    const kn_shape of_inputs = {.dtype = x->shape.dtype, .rank = 2, .dims = {4 * units, x->shape.dims[2]}};
    const kn_shape of_units = {.dtype = x->shape.dtype, .rank = 2, .dims = {4 * units, units}};
    const kn_shape of_gates = {.dtype = x->shape.dtype, .rank = 1, .dims = {4 * units}};
    double fan = (double)units;
    kn_value *by_input = kn_layer_parameter(graph, layer, "weight_ih", &of_inputs, given.weight, fan);
    kn_value *by_state = kn_layer_parameter(graph, layer, "weight_hh", &of_units, given.weight, fan);
    kn_value *first = kn_layer_parameter(graph, layer, "bias_ih", &of_gates, given.bias, fan);
    kn_value *second = kn_layer_parameter(graph, layer, "bias_hh", &of_gates, given.bias, fan);
    kn_settings settings;
    kn_settings_init(&settings, graph, &kn_row_matmul);
    kn_settings_int(&settings, "transpose_b", 1);
    kn_value *given_to_gates =
        inner(graph, &kn_row_matmul, layer, "product", (kn_value *[]){x, by_input}, &settings);
    given_to_gates = inner(graph, &kn_row_add, layer, "shifted", (kn_value *[]){given_to_gates, first}, NULL);
    given_to_gates = inner(graph, &kn_row_add, layer, "given", (kn_value *[]){given_to_gates, second}, NULL);
    return kn_node_add(graph, &kn_row_lstm, layer, (kn_value *[]){given_to_gates, by_state}, 2, NULL);
}
