/* Recurrences: the common parts of their rows except lowering. The inputs' contribution to the gates of all
 * time steps is one matrix product before the recurrence; the gradient of the weight is one product over all
 * steps. */
#include "ops/recurrent/recurrent.h"

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/lowering.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

static const kn_recurrent_cell *const cells[] = {&kn_cell_lstm, &kn_cell_gru, &kn_cell_rnn};

const kn_recurrent_cell *kn_recurrent_cell_of(const kn_operator *row) {
    for (size_t i = 0; i < KN_COUNT_OF(cells); i++)
        if (cells[i]->row == row || cells[i]->gradient_row == row) return cells[i];
    return cells[0];
}

/* The next index, or -1 if absent. */
static int place(int *count, bool there) {
    return there ? (*count)++ : -1;
}

kn_recurrent_places kn_recurrent_places_of(const kn_recurrent_cell *cell) {
    kn_recurrent_places at = {.inputs = KN_RECURRENT_WEIGHT + 1};
    at.bias = place(&at.inputs, cell->has_bias);
    at.start = place(&at.inputs, true);
    at.start_cells = place(&at.inputs, cell->has_cells);
    at.lengths = place(&at.inputs, true);
    at.y = place(&at.outputs, true);
    at.final = place(&at.outputs, true);
    at.final_cells = place(&at.outputs, cell->has_cells);
    at.kept = place(&at.outputs, cell->kept > 0);
    at.cells = place(&at.outputs, cell->has_cells);
    at.previous = place(&at.outputs, true);
    return at;
}

kn_recurrent_back_places kn_recurrent_back_places_of(const kn_recurrent_cell *cell) {
    kn_recurrent_back_places at = {.inputs = KN_RECURRENT_BACK_DY + 1};
    at.cells = place(&at.inputs, cell->has_cells);
    at.start_cells = place(&at.inputs, cell->has_cells);
    at.previous = place(&at.inputs, cell->has_bias);
    at.final = place(&at.inputs, true);
    at.final_cells = place(&at.inputs, cell->has_cells);
    at.lengths = place(&at.inputs, true);
    at.slopes = place(&at.outputs, true);
    at.hidden = place(&at.outputs, cell->has_bias);
    at.start = place(&at.outputs, true);
    at.start_cells_out = place(&at.outputs, cell->has_cells);
    return at;
}

kn_recurrent_form kn_recurrent_describe(const kn_node *node) {
    const kn_recurrent_cell *cell = kn_recurrent_cell_of(node->op);
    bool backward = node->op->backward;
    const kn_shape *x = &(backward ? node->outputs[0] : node->inputs[KN_RECURRENT_X])->shape;
    return (kn_recurrent_form){.cell = cell,
                               .batch = x->dims[0],
                               .length = x->dims[1],
                               .units = x->dims[2] / cell->gates,
                               .reverse = kn_attribute_of(node, "reverse")->integer != 0,
                               .relu = cell->has_relu && kn_attribute_of(node, "relu")->integer != 0};
}

/* ---- shapes ---------------------------------------------------------------------------------------- */

static kn_shape shape_of(kn_dtype dtype, int rank, kn_dim first, kn_dim second, kn_dim third) {
    return (kn_shape){.dtype = dtype, .rank = rank, .dims = {first, second, third}};
}

/* Checks an input that may be absent. */
static kn_status check_input(kn_shape_call *call, int input, const kn_shape *expected) {
    const kn_value *value = input >= 0 && input < call->input_count ? call->inputs[input] : NULL;
    if (!value || (value->shape.dtype == expected->dtype && kn_shape_same(&value->shape, expected)))
        return KN_OK;
    return kn_shape_fail(call, KN_ERROR_SHAPE, "input %d is %s; expected %s", input,
                         kn_shape_words_of(call, input), kn_shape_words(call->graph, expected));
}

static kn_status check_all(kn_shape_call *call, const int *places, const kn_shape *const *expected,
                           int count) {
    for (int i = 0; i < count; i++)
        if (check_input(call, places[i], expected[i])) return call->error->status;
    return KN_OK;
}

kn_status kn_recurrent_shape(kn_shape_call *call) {
    const kn_recurrent_cell *cell = kn_recurrent_cell_of(call->row);
    kn_recurrent_places at = kn_recurrent_places_of(cell);
    const kn_shape *x = &call->inputs[KN_RECURRENT_X]->shape;
    if (kn_shape_float_input(call, KN_RECURRENT_X)) return call->error->status;
    if (x->rank != 3 || (kn_dim_known(x->dims[2]) && x->dims[2] % cell->gates))
        return kn_shape_fail(call, KN_ERROR_SHAPE, "x is %s; expected (batch,length,%d*units)",
                             kn_shape_words_of(call, KN_RECURRENT_X), cell->gates);
    kn_dim batch = x->dims[0], units = kn_dim_divide(call->graph, x->dims[2], cell->gates);
    kn_shape weight = shape_of(x->dtype, 2, x->dims[2], units, 0), bias = shape_of(x->dtype, 1, units, 0, 0);
    kn_shape state = shape_of(x->dtype, 2, batch, units, 0), lengths = shape_of(KN_INT32, 1, batch, 0, 0);
    kn_shape y = shape_of(x->dtype, 3, batch, x->dims[1], units), kept = y;
    const int places[] = {KN_RECURRENT_WEIGHT, at.bias, at.start, at.start_cells, at.lengths};
    if (check_all(call, places, (const kn_shape *const[]){&weight, &bias, &state, &state, &lengths}, 5))
        return call->error->status;
    kept.dims[2] = kn_dim_multiply(call->graph, cell->kept, units);
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i] = i == at.final || i == at.final_cells ? state : i == at.kept ? kept : y;
    return KN_OK;
}

kn_status kn_recurrent_gradient_shape(kn_shape_call *call) {
    const kn_recurrent_cell *cell = kn_recurrent_cell_of(call->row);
    kn_recurrent_back_places at = kn_recurrent_back_places_of(cell);
    const kn_shape *kept = &call->inputs[KN_RECURRENT_BACK_KEPT]->shape;
    int numbers = cell->kept ? cell->kept : 1;
    if (kn_shape_float_input(call, KN_RECURRENT_BACK_KEPT)) return call->error->status;
    if (kept->rank != 3 || (kn_dim_known(kept->dims[2]) && kept->dims[2] % numbers))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "the stored gates are %s; expected (batch,length,%d*units)",
                             kn_shape_words_of(call, KN_RECURRENT_BACK_KEPT), numbers);
    kn_dim batch = kept->dims[0], units = kn_dim_divide(call->graph, kept->dims[2], numbers);
    kn_dim rows = kn_dim_multiply(call->graph, cell->gates, units);
    kn_shape weight = shape_of(kept->dtype, 2, rows, units, 0);
    kn_shape state = shape_of(kept->dtype, 2, batch, units, 0), lengths = shape_of(KN_INT32, 1, batch, 0, 0);
    kn_shape y = shape_of(kept->dtype, 3, batch, kept->dims[1], units), slopes = y;
    slopes.dims[2] = rows;
    const int places[] = {KN_RECURRENT_BACK_WEIGHT,
                          KN_RECURRENT_BACK_DY,
                          at.cells,
                          at.start_cells,
                          at.previous,
                          at.final,
                          at.final_cells,
                          at.lengths};
    if (check_all(call, places,
                  (const kn_shape *const[]){&weight, &y, &y, &state, &y, &state, &state, &lengths}, 8))
        return call->error->status;
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i] = i == at.slopes || i == at.hidden ? slopes : state;
    return KN_OK;
}

void kn_recurrent_cost(const kn_node *node, kn_cost *cost) {
    kn_recurrent_form form = kn_recurrent_describe(node);
    double states = (double)form.batch * (double)form.length * (double)form.units;
    kn_cost_set(node, states * form.cell->gates * (2.0 * (double)form.units + 8), cost);
}

/* ---- references ------------------------------------------------------------------------------------- */

/* The data of an input or a result; NULL if it is absent. */
static const double *given(const kn_reference_call *call, int input) {
    return input >= 0 && input < call->input_count ? call->inputs[input].data : NULL;
}
static double *made(const kn_reference_call *call, int output) {
    return output >= 0 ? call->outputs[output].data : NULL;
}

static bool is_live(const double *lengths, int64_t sample, int64_t time) {
    return !lengths || (double)time < lengths[sample];
}

/* One sample; h and c are its state, sums (G*H) is space for the product. */
static void compute_sample(const kn_reference_call *call, const kn_recurrent_form *form, int64_t sample,
                           double *h, double *c, double *sums) {
    const kn_recurrent_cell *cell = form->cell;
    kn_recurrent_places at = kn_recurrent_places_of(cell);
    const double *x = given(call, KN_RECURRENT_X), *weight = given(call, KN_RECURRENT_WEIGHT);
    const double *bias = given(call, at.bias), *start = given(call, at.start);
    const double *start_cells = given(call, at.start_cells), *lengths = given(call, at.lengths);
    int64_t units = form->units, gates = cell->gates;
    for (int64_t u = 0; u < units; u++) {
        h[u] = start ? start[sample * units + u] : 0;
        c[u] = start_cells ? start_cells[sample * units + u] : 0;
    }
    for (int64_t done = 0; done < form->length; done++) {
        int64_t time = kn_recurrent_time(form, done), step = sample * form->length + time;
        bool live = is_live(lengths, sample, time);
        for (int64_t u = 0; u < units; u++) {
            made(call, at.previous)[step * units + u] = h[u];
            for (int64_t g = 0; g < gates; g++) {
                const double *row = weight + (g * units + u) * units;
                double sum = 0;
                for (int64_t k = 0; k < units; k++)
                    sum += row[k] * h[k];
                sums[u * gates + g] = sum;
            }
        }
        for (int64_t u = 0; u < units; u++) {
            double from_inputs[4];
            for (int64_t g = 0; g < gates; g++)
                from_inputs[g] = x[(step * gates + g) * units + u];
            kn_cell_step one = {.relu = form->relu,
                                .sum = sums + u * gates,
                                .x = from_inputs,
                                .bias = bias ? bias[u] : 0,
                                .before = h[u],
                                .cell_before = c[u]};
            cell->step(&one);
            for (int64_t g = 0; g < cell->kept; g++)
                made(call, at.kept)[(step * cell->kept + g) * units + u] = one.kept[g];
            made(call, at.y)[step * units + u] = live ? one.h : 0;
            if (live) {
                h[u] = one.h;
                c[u] = one.cell;
            }
            if (cell->has_cells) made(call, at.cells)[step * units + u] = c[u];
        }
    }
    for (int64_t u = 0; u < units; u++) {
        made(call, at.final)[sample * units + u] = h[u];
        if (cell->has_cells) made(call, at.final_cells)[sample * units + u] = c[u];
    }
}

/* One sample, from the last step to the first; dh and dc are the gradients of the state, slopes (G*H) of the
 * product. */
static void compute_sample_gradient(const kn_reference_call *call, const kn_recurrent_form *form,
                                    int64_t sample, double *dh, double *dc, double *slopes) {
    const kn_recurrent_cell *cell = form->cell;
    kn_recurrent_back_places at = kn_recurrent_back_places_of(cell);
    const double *weight = given(call, KN_RECURRENT_BACK_WEIGHT), *kept = given(call, KN_RECURRENT_BACK_KEPT);
    const double *dy = given(call, KN_RECURRENT_BACK_DY), *states = given(call, at.cells);
    const double *start_cells = given(call, at.start_cells), *previous = given(call, at.previous);
    const double *final = given(call, at.final), *final_cells = given(call, at.final_cells);
    const double *lengths = given(call, at.lengths);
    int64_t units = form->units, gates = cell->gates, numbers = cell->kept ? cell->kept : 1;
    for (int64_t u = 0; u < units; u++) {
        dh[u] = final ? final[sample * units + u] : 0;
        dc[u] = final_cells ? final_cells[sample * units + u] : 0;
    }
    for (int64_t done = form->length - 1; done >= 0; done--) {
        int64_t time = kn_recurrent_time(form, done), step = sample * form->length + time;
        bool live = is_live(lengths, sample, time);
        for (int64_t u = 0; u < units; u++) {
            kn_cell_back one = {.relu = form->relu, .direct = dh[u], .dc_before = dc[u]};
            if (live) {
                one.dh = dh[u] + (dy ? dy[step * units + u] : 0);
                one.dc = dc[u];
                one.before = previous ? previous[step * units + u] : 0;
                for (int64_t g = 0; g < numbers; g++)
                    one.kept[g] = kept[(step * numbers + g) * units + u];
                if (states) {
                    one.cell = states[step * units + u];
                    if (done > 0)
                        one.cell_before = states[(step + (form->reverse ? 1 : -1)) * units + u];
                    else
                        one.cell_before = start_cells ? start_cells[sample * units + u] : 0;
                }
                cell->back(&one);
            }
            dh[u] = one.direct;
            dc[u] = one.dc_before;
            for (int64_t g = 0; g < gates; g++) {
                double by_product = g == gates - 1 ? one.hidden : one.slopes[g];
                made(call, at.slopes)[(step * gates + g) * units + u] = one.slopes[g];
                if (cell->has_bias) made(call, at.hidden)[(step * gates + g) * units + u] = by_product;
                slopes[g * units + u] = by_product;
            }
        }
        for (int64_t j = 0; j < gates * units; j++)
            for (int64_t u = 0; u < units; u++)
                dh[u] += slopes[j] * weight[j * units + u];
    }
    for (int64_t u = 0; u < units; u++) {
        made(call, at.start)[sample * units + u] = dh[u];
        if (cell->has_cells) made(call, at.start_cells_out)[sample * units + u] = dc[u];
    }
}

static kn_status refer(kn_reference_call *call, bool backward) {
    kn_recurrent_form form = kn_recurrent_describe(call->node);
    size_t units = (size_t)form.units, gates = (size_t)form.cell->gates;
    double *room = kn_allocate(call->host, (2 + gates) * units + 1, sizeof *room);
    if (!room) return kn_fail_memory(call->error, (2 + gates) * units * sizeof *room);
    for (int64_t sample = 0; sample < form.batch; sample++)
        (backward ? compute_sample_gradient : compute_sample)(call, &form, sample, room, room + units,
                                                              room + 2 * units);
    kn_release(call->host, room);
    return KN_OK;
}

kn_status kn_recurrent_reference(kn_reference_call *call) {
    return refer(call, false);
}
kn_status kn_recurrent_gradient_reference(kn_reference_call *call) {
    return refer(call, true);
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* (B,T,columns) reshaped to (B*T,columns). */
static kn_value *as_matrix(kn_gradient_call *call, kn_value *x) {
    if (kn_value_failed(x)) return x;
    kn_shape matrix = {.dtype = x->shape.dtype, .rank = 2};
    matrix.dims[0] = x->shape.dims[0] * x->shape.dims[1];
    matrix.dims[1] = x->shape.dims[2];
    return kn_gradient_reshape(call, x, &matrix);
}

/* The last gate's columns of slopes (B,T,G*H), summed to (H). */
static kn_value *by_bias(kn_gradient_call *call, kn_value *slopes, int64_t units) {
    if (kn_value_failed(slopes)) return slopes;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, &kn_row_slice);
    kn_settings_int(&settings, "axis", 2);
    kn_settings_int(&settings, "begin", -units);
    kn_value *last = kn_gradient_build(call, &kn_row_slice, &slopes, 1, &settings);
    const kn_dim axes[2] = {0, 1};
    kn_settings_init(&settings, call->graph, &kn_row_sum);
    kn_settings_list(&settings, "axes", 2, axes);
    return kn_gradient_build(call, &kn_row_sum, &last, 1, &settings);
}

static void set(kn_value **list, int position, kn_value *value) {
    if (position >= 0) list[position] = value;
}

kn_status kn_recurrent_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    const kn_recurrent_cell *cell = kn_recurrent_cell_of(node->op);
    kn_recurrent_places at = kn_recurrent_places_of(cell);
    kn_recurrent_back_places back = kn_recurrent_back_places_of(cell);
    kn_value *all[KN_MAX_INPUTS] = {NULL}, *inputs[KN_MAX_INPUTS] = {NULL};
    for (int i = 0; i < node->input_count; i++)
        all[i] = node->inputs[i];
    set(inputs, KN_RECURRENT_BACK_WEIGHT, all[KN_RECURRENT_WEIGHT]);
    set(inputs, KN_RECURRENT_BACK_KEPT, node->outputs[at.kept >= 0 ? at.kept : at.y]);
    set(inputs, KN_RECURRENT_BACK_DY, call->output_gradients[at.y]);
    set(inputs, back.final, call->output_gradients[at.final]);
    set(inputs, back.lengths, all[at.lengths]);
    if (cell->has_cells) {
        set(inputs, back.cells, node->outputs[at.cells]);
        set(inputs, back.start_cells, all[at.start_cells]);
        set(inputs, back.final_cells, call->output_gradients[at.final_cells]);
    }
    if (cell->has_bias) set(inputs, back.previous, node->outputs[at.previous]);
    kn_settings settings;
    kn_settings_init(&settings, call->graph, cell->gradient_row);
    kn_settings_copy(&settings, node);
    kn_value *slopes = kn_gradient_build(call, cell->gradient_row, inputs, back.inputs, &settings);
    if (kn_value_failed(slopes)) return kn_gradient_status(call);
    kn_value **results = slopes->producer->outputs,
             *hidden = results[back.hidden >= 0 ? back.hidden : back.slopes];
    const bool *wanted = call->wanted;
    if (wanted[KN_RECURRENT_X]) call->input_gradients[KN_RECURRENT_X] = slopes;
    if (wanted[KN_RECURRENT_WEIGHT]) {
        kn_value *pair[2] = {as_matrix(call, hidden), as_matrix(call, node->outputs[at.previous])};
        kn_settings_init(&settings, call->graph, &kn_row_matmul);
        kn_settings_int(&settings, "transpose_a", 1);
        call->input_gradients[KN_RECURRENT_WEIGHT] =
            kn_gradient_build(call, &kn_row_matmul, pair, 2, &settings);
    }
    if (cell->has_bias && wanted[at.bias])
        call->input_gradients[at.bias] =
            by_bias(call, hidden, node->inputs[KN_RECURRENT_WEIGHT]->shape.dims[1]);
    if (all[at.start] && wanted[at.start]) call->input_gradients[at.start] = results[back.start];
    if (cell->has_cells && all[at.start_cells] && wanted[at.start_cells])
        call->input_gradients[at.start_cells] = results[back.start_cells_out];
    return kn_gradient_status(call);
}
