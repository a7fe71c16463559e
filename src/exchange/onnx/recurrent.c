/* Recurrent layers: Koine's operators if they compute the same, otherwise unrolled step by step. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_STEPS = 512, MAX_GATES = 4 };

typedef struct recurrence {
    kn_import_call *call;
    kn_import *import;
    int gates;
    const int *order;  /* the file's gate for each gate of the operator */
    kn_value *x;       /* (batch, length, inputs) */
    kn_value *lengths; /* int32 (batch), or NULL */
    int64_t units;
    int directions;
    bool batch_first;
    bool quantized;              /* W and R are codes (directions,inputs,rows), with scales and zero points */
    bool relu;                   /* the activation of a plain RNN is relu instead of tanh */
    kn_value *y, *state, *cells; /* of the current direction */
} recurrence;

/* Input i (directions,…) for the current direction, without the first axis; NULL if it is left out. */
static kn_value *of_direction(const recurrence *r, int i, int direction) {
    kn_value *value = kn_import_optional(r->call, i);
    return value ? kn_squeeze(kn_slice(value, 0, direction, direction + 1), "0") : NULL;
}

/* The initial state or cells (batch, units) of the current direction. */
static kn_value *start_of(const recurrence *r, int i, int direction) {
    kn_value *value = kn_import_optional(r->call, i);
    int axis = r->batch_first ? 1 : 0;
    return value ? kn_squeeze(kn_slice(value, axis, direction, direction + 1), axis ? "1" : "0") : NULL;
}

/* Reorders rows to Koine's order of gates. */
static kn_value *reordered(const recurrence *r, kn_value *rows) {
    kn_value *parts[MAX_GATES];
    for (int i = 0; i < r->gates; i++)
        parts[i] = kn_slice(rows, 0, r->order[i] * r->units, (r->order[i] + 1) * r->units);
    return r->gates > 1 ? kn_concat(parts, (size_t)r->gates, 0) : rows;
}

/* The weights of input i (1 or 2) for the current direction: (rows,inputs), in Koine's order of gates if
 * `orders`. Codes are moved before they are dequantized, which happens in each run. */
static kn_value *weight_of(const recurrence *r, int i, int direction, bool orders) {
    kn_value *weight = of_direction(r, i, direction);
    if (!r->quantized) return orders ? reordered(r, weight) : weight;
    kn_value *facts[2] = {of_direction(r, 6 + 2 * i, direction), of_direction(r, 7 + 2 * i, direction)};
    for (int f = 0; f < 2; f++)
        if (facts[f] && facts[f]->shape.rank == 1)
            facts[f] = kn_unsqueeze(orders ? reordered(r, facts[f]) : facts[f], "1");
    weight = kn_transpose(weight, "1,0");
    if (orders) weight = reordered(r, weight);
    return kn_mul(kn_import_without_zero(weight, facts[1], KN_FLOAT32), facts[0]);
}

/* Gate `gate`, in the file's order, of rows (gates * units,…) or columns (…,gates * units). */
static kn_value *gate_of(const recurrence *r, kn_value *value, int axis, int gate) {
    return kn_slice(value, axis, gate * r->units, (gate + 1) * r->units);
}

/* Builds Koine's operator. last_bias: for a GRU, the state bias of its last gate. */
static void by_row(recurrence *r, const char *row, kn_value *given, kn_value *weight, kn_value *last_bias,
                   kn_value *start, kn_value *cells, bool reverse) {
    kn_value *inputs[5] = {given, weight};
    int count = 2;
    if (last_bias) inputs[count++] = last_bias;
    inputs[count++] = start;
    if (r->gates == 4) inputs[count++] = cells;
    inputs[count++] = r->lengths;
    while (!inputs[count - 1])
        count--;
    char text[40];
    snprintf(text, sizeof text, "reverse=%s%s", reverse ? "true" : "false", r->relu ? " relu=true" : "");
    r->y = kn_apply(r->call->graph, row, inputs, (size_t)count, text);
    r->state = kn_result(r->y, 1);
    if (r->gates == 4) r->cells = kn_result(r->y, 2);
}

/* x W plus the input and state biases: (batch, length, gates * units), in the file's order of gates. */
static kn_value *from_inputs(const recurrence *r, kn_value *weight, kn_value *bias) {
    kn_value *given = kn_matmul(r->x, weight, false, true);
    return bias ? kn_add(given, bias) : given;
}

/* Unrolls a GRU that applies the reset gate before the product, or an LSTM with peepholes. */
static void by_steps(recurrence *r, int direction, bool reverse, kn_value *peepholes) {
    kn_value *weight = weight_of(r, 1, direction, false), *hidden = weight_of(r, 2, direction, false);
    kn_value *bias = of_direction(r, 3, direction);
    int64_t rows = r->gates * r->units, length = kn_value_dimension(r->x, 1);
    kn_value *steps[MAX_STEPS], *first = bias ? kn_slice(bias, 0, 0, rows) : NULL;
    if (length < 1 || length > MAX_STEPS) {
        kn_import_fail(r->call, KN_ERROR_UNSUPPORTED,
                       "linear_before_reset 0 and peepholes need a fixed length of at most %d steps",
                       MAX_STEPS);
        return;
    }
    if (bias) first = kn_add(first, kn_slice(bias, 0, rows, 2 * rows));
    kn_value *given = from_inputs(r, weight, first);
    const kn_dim dims[2] = {r->x->shape.dims[0], r->units};
    kn_value *zero =
        kn_import_broadcast(r->import, kn_import_scalar(r->import, r->x->shape.dtype, 0), dims, 2);
    kn_value *h = start_of(r, 5, direction), *c = r->gates == 4 ? start_of(r, 6, direction) : NULL;
    if (!h) h = zero;
    if (!c) c = zero;
    for (int64_t i = 0; i < length; i++) {
        int64_t at = reverse ? length - 1 - i : i;
        kn_value *step = kn_squeeze(kn_slice(given, 1, at, at + 1), "1"), *before = h, *cells_before = c;
        if (r->gates == 3) {
            kn_value *gates =
                kn_sigmoid(kn_add(kn_slice(step, 1, 0, 2 * r->units),
                                  kn_matmul(h, kn_slice(hidden, 0, 0, 2 * r->units), false, true)));
            kn_value *z = gate_of(r, gates, 1, 0), *reset = gate_of(r, gates, 1, 1);
            kn_value *n = kn_tanh(kn_add(gate_of(r, step, 1, 2),
                                         kn_matmul(kn_mul(reset, h), gate_of(r, hidden, 0, 2), false, true)));
            h = kn_add(n, kn_mul(z, kn_sub(h, n)));
        } else {
            step = kn_add(step, kn_matmul(h, hidden, false, true));
            kn_value *in = gate_of(r, step, 1, 0), *out = gate_of(r, step, 1, 1),
                     *forget = gate_of(r, step, 1, 2);
            in = kn_sigmoid(kn_add(in, kn_mul(gate_of(r, peepholes, 0, 0), c)));
            forget = kn_sigmoid(kn_add(forget, kn_mul(gate_of(r, peepholes, 0, 2), c)));
            c = kn_add(kn_mul(forget, c), kn_mul(in, kn_tanh(gate_of(r, step, 1, 3))));
            out = kn_sigmoid(kn_add(out, kn_mul(gate_of(r, peepholes, 0, 1), c)));
            h = kn_mul(out, kn_tanh(c));
        }
        kn_value *result = h;
        if (r->lengths) { /* steps after the end of a sample leave the state unchanged */
            kn_value *counts =
                kn_unsqueeze(kn_greater(r->lengths, kn_import_scalar(r->import, KN_INT32, (double)at)), "1");
            result = kn_where(counts, h, zero);
            h = kn_where(counts, h, before);
            c = kn_where(counts, c, cells_before);
        }
        steps[at] = kn_unsqueeze(result, "1");
    }
    r->y = steps[0];
    for (int64_t i = 1; i < length; i += KN_MAX_INPUTS - 1) {
        kn_value *parts[KN_MAX_INPUTS] = {r->y};
        size_t count = 1;
        for (int64_t k = i; k < length && count < KN_MAX_INPUTS; k++)
            parts[count++] = steps[k];
        r->y = kn_concat(parts, count, 1);
    }
    r->state = h;
    r->cells = c;
}

static void build_direction(recurrence *r, int direction, bool reverse) {
    kn_import_call *call = r->call;
    const char *type = call->node->type;
    bool gru = r->gates == 3, lstm = r->gates == 4;
    kn_value *peepholes = lstm ? of_direction(r, 7, direction) : NULL;
    if (peepholes || (gru && !kn_import_int(call, "linear_before_reset", 0))) {
        by_steps(r, direction, reverse, peepholes);
        return;
    }
    kn_value *weight = weight_of(r, 1, direction, true), *hidden = weight_of(r, 2, direction, true);
    kn_value *bias = of_direction(r, 3, direction), *first = NULL, *last = NULL;
    int64_t rows = r->gates * r->units;
    if (bias) {
        kn_value *second = reordered(r, kn_slice(bias, 0, rows, 2 * rows));
        first = reordered(r, kn_slice(bias, 0, 0, rows));
        if (gru) {
            last = kn_slice(second, 0, 2 * r->units, rows);
            second = kn_pad(kn_slice(second, 0, 0, 2 * r->units),
                            kn_import_list(r->import, (int64_t[]){0, r->units}, 2), 0);
        }
        first = kn_add(first, second);
    } else if (gru) {
        last = kn_import_broadcast(r->import, kn_import_scalar(r->import, r->x->shape.dtype, 0),
                                   (kn_dim[]){r->units}, 1);
    }
    kn_value *given = from_inputs(r, weight, first);
    kn_value *start = start_of(r, 5, direction), *cells = lstm ? start_of(r, 6, direction) : NULL;
    by_row(r,
           !strcmp(type, "RNN") ? "rnn"
           : gru                ? "gru"
                                : "lstm",
           given, hidden, last, start, cells, reverse);
}

/* Checks for the default activations, or relu. */
static kn_status check_activations(recurrence *r) {
    static const char *const usual[] = {"Tanh", "Sigmoid,Tanh", "Sigmoid,Tanh,Tanh"};
    const kn_onnx_attribute *given = kn_import_attribute(r->call, "activations");
    const char *words = usual[r->gates == 1 ? 0 : r->gates - 2];
    if (kn_import_attribute(r->call, "clip") || kn_import_int(r->call, "input_forget", 0))
        return kn_import_fail(r->call, KN_ERROR_UNSUPPORTED, "clip and input_forget are not supported");
    if (!given || given->kind != KN_ONNX_ATTRIBUTE_STRINGS || !given->count) return kn_import_status(r->call);
    r->relu = r->gates == 1 && given->strings[0].count == 4 && !memcmp(given->strings[0].bytes, "Relu", 4);
    if (r->relu) words = "Relu";
    const char *at = words;
    for (size_t i = 0; i < given->count; i++) {
        size_t length = strcspn(at, ",");
        if (given->strings[i].count != length || memcmp(given->strings[i].bytes, at, length))
            return kn_import_fail(r->call, KN_ERROR_UNSUPPORTED, "activations are not supported, except %s",
                                  words);
        at += length;
        at = *at ? at + 1 : words;
    }
    return kn_import_status(r->call);
}

/* Checks how many rows the inputs have besides the recurrence weights: more would be ignored. */
static kn_status check_rows(const recurrence *r) {
    const int64_t rows = r->gates * r->units;
    const struct {
        int input, axis;
        int64_t rows;
    } parts[] = {{1, r->quantized ? 2 : 1, rows},
                 {3, 1, 2 * rows},
                 {7, 1, 3 * r->units},
                 {8, 1, rows},
                 {9, 1, rows},
                 {10, 1, rows},
                 {11, 1, rows}};
    const int count = r->quantized ? 7 : r->gates == 4 ? 3 : 2;
    for (int i = 0; i < count && kn_import_status(r->call) == KN_OK; i++) {
        const kn_value *value = kn_import_optional(r->call, parts[i].input);
        /* One scale or zero point for a direction has no rows. */
        if (!value || (parts[i].input >= 8 && value->shape.rank == 1)) continue;
        const int64_t found =
            value->shape.rank > parts[i].axis ? kn_value_dimension(value, parts[i].axis) : 0;
        if (found != parts[i].rows)
            return kn_import_fail(r->call, KN_ERROR_SHAPE,
                                  "input %d has %" PRId64 " rows; expected %" PRId64 ", with %" PRId64
                                  " units as in the recurrence weights",
                                  parts[i].input, found, parts[i].rows, r->units);
    }
    return kn_import_status(r->call);
}

static kn_status take_inputs(recurrence *r) {
    kn_import_call *call = r->call;
    kn_value *weight = kn_import_in(call, 2);
    if (!kn_import_has(call, 1)) return kn_import_fail(call, KN_ERROR_FORMAT, "input 1 is missing");
    const char *direction = kn_import_string(call, "direction", "forward");
    r->x = kn_import_in(call, 0);
    const int units_axis = r->quantized ? 1 : 2;
    if (r->x->shape.rank != 3 || weight->shape.rank != 3 || kn_value_dimension(weight, units_axis) < 1 ||
        kn_value_dimension(weight, 3 - units_axis) != r->gates * kn_value_dimension(weight, units_axis))
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected x with 3 axes and recurrence weights (directions,gates*units,units)");
    r->units = kn_value_dimension(weight, units_axis);
    r->directions = !strcmp(direction, "bidirectional") ? 2 : 1;
    r->batch_first = kn_import_int(call, "layout", 0) != 0;
    if (kn_value_dimension(weight, 0) != r->directions)
        return kn_import_fail(call, KN_ERROR_SHAPE, "the weights do not match direction '%s'", direction);
    if (!r->batch_first) r->x = kn_transpose(r->x, "1,0,2");
    if (kn_import_has(call, 4)) {
        r->lengths = kn_import_cast(kn_import_in(call, 4), KN_INT32);
    }
    if (check_rows(r) != KN_OK) return kn_import_status(call);
    return check_activations(r);
}

/* Checks the scales and zero points of W and R: one per direction, or per row of a direction. */
static kn_status check_quantized(kn_import_call *call) {
    for (int i = 1; i <= 2; i++) {
        kn_value *x = kn_import_in(call, i), *scale = kn_import_in(call, 6 + 2 * i);
        const kn_value *zero = kn_import_optional(call, 7 + 2 * i);
        if (scale->shape.rank < 1 || scale->shape.rank > 2 || x->shape.rank != 3 ||
            (zero && (zero->shape.rank < 1 || zero->shape.rank > 2)))
            return kn_import_fail(call, KN_ERROR_SHAPE,
                                  "expected weights with 3 axes, and scales and zero points with 1 or 2");
    }
    return kn_import_status(call);
}

static kn_status recurrent(kn_import_call *call) {
    static const int orders[3][MAX_GATES] = {{0}, {1, 0, 2}, {0, 2, 3, 1}};
    const char *type = call->node->type;
    recurrence r = {.call = call,
                    .import = call->import,
                    .quantized = !strcmp(type, "DynamicQuantizeLSTM"),
                    .gates = !strcmp(type, "RNN")   ? 1
                             : !strcmp(type, "GRU") ? 3
                                                    : 4};
    r.order = orders[r.gates == 1 ? 0 : r.gates - 2];
    bool backwards = !strcmp(kn_import_string(call, "direction", "forward"), "reverse");
    kn_value *results[2], *states[2], *cells[2];
    if (r.quantized && check_quantized(call) != KN_OK) return kn_import_status(call);
    if (take_inputs(&r) != KN_OK) return kn_import_status(call);
    for (int i = 0; i < r.directions; i++) {
        build_direction(&r, i, backwards || i == 1);
        results[i] = r.y;
        states[i] = r.state;
        cells[i] = r.cells;
    }
    /* (batch, length, directions, units), or (length, directions, batch, units). */
    kn_value *y = kn_stack(results, (size_t)r.directions, 2);
    if (!r.batch_first) y = kn_transpose(y, "1,2,0,3");
    kn_import_put(call, 0, y);
    kn_import_put(call, 1, kn_stack(states, (size_t)r.directions, r.batch_first ? 1 : 0));
    if (r.gates == 4) kn_import_put(call, 2, kn_stack(cells, (size_t)r.directions, r.batch_first ? 1 : 0));
    return kn_import_status(call);
}

const kn_import_row kn_import_recurrent[] = {
    /* Dequantizes only the weights; ONNX Runtime also quantizes x and the states in each step. */
    KN_OF_MICROSOFT("DynamicQuantizeLSTM", recurrent),
    {.type = "LSTM", .build = recurrent},
    {.type = "GRU", .build = recurrent},
    {.type = "RNN", .build = recurrent},
};
const int kn_import_recurrent_count = (int)KN_COUNT_OF(kn_import_recurrent);
