/* Sequence operators as ONNX nodes: recurrences, attention, and norms of rows. */
#include "exchange/onnx/export.h"

#include <math.h>

/* Reshapes x: 0 keeps a size, -1 is inferred. */
static const char *reshaped(kn_export_call *call, const char *x, const int64_t *sizes, size_t count,
                            const char *output) {
    const char *shape = kn_export_list(call, sizes, count);
    return kn_export_two(call, "Reshape", output, x, shape);
}

static const char *transposed(kn_export_call *call, const char *x, const int64_t *order, size_t count,
                              const char *output) {
    const char *name = kn_export_one(call, "Transpose", output, x);
    return name && kn_export_ints(call, "perm", order, count) ? name : NULL;
}

static const char *squeezed(kn_export_call *call, const char *x, int64_t axis, const char *output) {
    const char *axes = kn_export_list(call, &axis, 1);
    return kn_export_two(call, "Squeeze", output, x, axes);
}

/* ---- recurrences --------------------------------------------------------------------------------------- */

enum { MAX_GATES = 4 };
typedef struct cell_type {
    const char *row, *type;
    int gates;
    int order[MAX_GATES];            /* the operator's gate for each gate of the file */
    int bias, start, cells, lengths; /* input positions; 0 for none */
    int results;                     /* how many of y, the last state and its cells */
} cell_type;
static const cell_type cells[] = {
    {"lstm", "LSTM", 4, {0, 3, 1, 2}, .start = 2, .cells = 3, .lengths = 4, .results = 3},
    {"gru", "GRU", 3, {1, 0, 2}, .bias = 2, .start = 3, .lengths = 4, .results = 2},
    {"rnn", "RNN", 1, {0}, .start = 2, .lengths = 3, .results = 2},
};

static const cell_type *cell_of(const kn_operator *row) {
    for (size_t i = 0; i < KN_COUNT_OF(cells); i++)
        if (!strcmp(cells[i].row, row->name)) return &cells[i];
    return NULL;
}

static const kn_value *input_of(const kn_node *node, int position) {
    return position > 0 && position < node->input_count ? node->inputs[position] : NULL;
}

static const kn_node *made_by(const kn_value *value, const char *row) {
    return value->producer && !strcmp(value->producer->op->name, row) ? value->producer : NULL;
}

/* The input of the gates, x Wᵀ with up to two biases, which the ONNX node includes; if no product precedes
 * the operator, only x. */
typedef struct recurrence {
    const cell_type *cell;
    const kn_value *x, *weight, *biases[2], *hidden, *last_bias, *start, *start_cells, *lengths;
    int64_t units;
} recurrence;

/* Whether the value is all zeros, or the initial value of a state that training carries from batch to batch.
 */
static bool is_zero(const kn_value *value) {
    const kn_node *node = made_by(value, "in_training");
    if (node) value = node->inputs[0];
    if (!(node = made_by(value, "broadcast")) || node->inputs[0]->kind != KN_VALUE_CONSTANT ||
        node->inputs[0]->shape.rank)
        return false;
    return kn_element_get(node->inputs[0]->shape.dtype, node->inputs[0]->data, 0) == 0;
}

static bool describe(const kn_node *node, recurrence *r) {
    const cell_type *cell = cell_of(node->op);
    if (!cell) return false;
    *r = (recurrence){.cell = cell, .x = node->inputs[0], .hidden = node->inputs[1]};
    r->units = r->hidden->shape.dims[1];
    r->last_bias = input_of(node, cell->bias);
    r->start = input_of(node, cell->start);
    r->start_cells = input_of(node, cell->cells);
    r->lengths = input_of(node, cell->lengths);
    if (r->start && is_zero(r->start)) r->start = NULL;
    if (r->start_cells && is_zero(r->start_cells)) r->start_cells = NULL;
    const kn_value *given = r->x, *biases[2] = {NULL};
    const kn_node *step;
    int count = 0;
    while (count < 2 && (step = made_by(given, "add")) && step->inputs[1]->shape.rank == 1 &&
           step->inputs[1]->shape.dims[0] == cell->gates * r->units) {
        biases[count++] = step->inputs[1];
        given = step->inputs[0];
    }
    step = made_by(given, "matmul");
    if (!step || step->inputs[0]->shape.rank != 3 || step->inputs[1]->shape.rank != 2 ||
        kn_attribute_of(step, "transpose_a")->integer || !kn_attribute_of(step, "transpose_b")->integer)
        return true;
    r->x = step->inputs[0];
    r->weight = step->inputs[1];
    /* The outer addition is found first: of two biases, that of the inputs was added first. */
    r->biases[0] = biases[count == 2];
    r->biases[1] = biases[count != 2];
    return true;
}

const kn_value *kn_export_read(const kn_value *value) {
    /* A norm's statistics outputs have the positions of the corresponding inputs. */
    while (value && value->producer && !strcmp(value->producer->op->name, "batch_norm")) {
        int position = 0;
        while (value->producer->outputs[position] != value)
            position++;
        if (!position) break;
        value = value->producer->inputs[position];
    }
    return value;
}

int kn_export_reads(const kn_node *node, const kn_value **reads) {
    recurrence r;
    int count = 0;
    if (describe(node, &r)) {
        const kn_value *const all[] = {r.x,         r.weight, r.biases[0],   r.biases[1], r.hidden,
                                       r.last_bias, r.start,  r.start_cells, r.lengths};
        for (size_t i = 0; i < KN_COUNT_OF(all); i++)
            if (all[i]) reads[count++] = all[i];
        return count;
    }
    for (int i = 0; i < node->input_count; i++) {
        bool training =
            i > 0 && (node->op->training_only || (node->op->random && i + 1 == node->input_count));
        if (node->inputs[i] && !training) reads[count++] = kn_export_read(node->inputs[i]);
    }
    return count;
}

/* x (gates * units, columns), or (gates * units) if columns is 0, with the gates in the file's order; first:
 * with a leading axis of size 1. */
static const char *by_gates(kn_export_call *call, const recurrence *r, const char *x, int64_t columns,
                            bool first) {
    int64_t order[MAX_GATES], sizes[3], *at = sizes;
    for (int i = 0; i < r->cell->gates; i++)
        order[i] = r->cell->order[i];
    if (r->cell->gates > 1) {
        const char *positions = kn_export_list(call, order, (size_t)r->cell->gates);
        x = reshaped(call, x, (int64_t[]){r->cell->gates, r->units, -1}, columns ? 3 : 2, NULL);
        x = kn_export_two(call, "Gather", NULL, x, positions);
    }
    if (first) *at++ = 1;
    *at++ = r->cell->gates * r->units;
    if (columns) *at++ = columns;
    return reshaped(call, x, sizes, (size_t)(at - sizes), NULL);
}

/* A computed value, not an initializer, which a reader of the file would train. */
static const char *zeros(kn_export_call *call, const int64_t *shape, size_t rank) {
    const char *zero = kn_export_number(call, KN_FLOAT32, 0), *sizes = kn_export_list(call, shape, rank);
    return kn_export_two(call, "Expand", NULL, zero, sizes);
}

/* An identity weight, so that the node adds nothing to the operator's input. */
static const char *unit_weight(kn_export_call *call, const recurrence *r) {
    const int64_t rows = r->cell->gates * r->units;
    const char *unit = kn_export_one(call, "EyeLike", NULL, zeros(call, (int64_t[]){rows, rows}, 2));
    return by_gates(call, r, unit, rows, true);
}

/* Biases (1, 2 * gates * units): input biases, then state biases; "" if there are none. */
static const char *both_biases(kn_export_call *call, const recurrence *r) {
    const int64_t rows = r->cell->gates * r->units;
    const char *parts[2] = {NULL}, *last = NULL;
    if (!r->biases[0] && !r->last_bias) return "";
    for (int i = 0; i < 2; i++)
        if (r->biases[i] && !(parts[i] = by_gates(call, r, r->biases[i]->name, 0, false))) return NULL;
    if (r->last_bias) {
        const char *amounts = kn_export_list(call, (int64_t[]){rows - r->units, 0}, 2);
        last = kn_export_two(call, "Pad", NULL, r->last_bias->name, amounts);
        parts[1] = parts[1] ? kn_export_two(call, "Add", NULL, parts[1], last) : last;
        if (!parts[1]) return NULL;
    }
    for (int i = 0; i < 2; i++)
        if (!parts[i]) parts[i] = zeros(call, &rows, 1);
    const char *whole = kn_export_two(call, "Concat", NULL, parts[0], parts[1]);
    if (!whole || !kn_export_int(call, "axis", 0)) return NULL;
    return reshaped(call, whole, (int64_t[]){1, 2 * rows}, 2, NULL);
}

/* (batch, units) as (1, batch, units); "" for none. */
static const char *state_of(kn_export_call *call, const kn_value *value) {
    if (!value) return "";
    const char *axes = kn_export_list(call, (int64_t[]){0}, 1);
    return kn_export_two(call, "Unsqueeze", NULL, value->name, axes);
}

static bool recurrent(kn_export_call *call) {
    const kn_node *node = call->node;
    recurrence r;
    if (!describe(node, &r) || r.units < 1 || r.x->shape.dtype != KN_FLOAT32) return false;
    bool gru = r.cell->gates == 3, relu = r.cell->gates == 1 && kn_attribute_of(node, "relu")->integer;
    const char *x = transposed(call, r.x->name, (int64_t[]){1, 0, 2}, 3, NULL);
    const char *weight =
        r.weight ? by_gates(call, &r, r.weight->name, r.weight->shape.dims[1], true) : unit_weight(call, &r);
    const char *hidden = by_gates(call, &r, r.hidden->name, r.units, true), *bias = both_biases(call, &r);
    const char *start = state_of(call, r.start);
    const char *start_cells = r.cell->cells ? state_of(call, r.start_cells) : NULL;
    if (!x || !weight || !hidden || !bias || !start || (r.cell->cells && !start_cells)) return false;
    const char *names[3] = {kn_export_node(
        call, r.cell->type, NULL,
        KN_EXPORT_INPUTS(x, weight, hidden, bias, r.lengths ? r.lengths->name : "", start, start_cells))};
    if (!names[0] || !kn_export_int(call, "hidden_size", r.units) ||
        !kn_export_string(call, "direction",
                          kn_attribute_of(node, "reverse")->integer ? "reverse" : "forward"))
        return false;
    if (gru && !kn_export_int(call, "linear_before_reset", 1)) return false;
    if (relu && !kn_export_strings(call, "activations", (const char *const[]){"Relu"}, 1)) return false;
    for (int i = 1; i < r.cell->results; i++)
        if (!(names[i] = kn_export_name(call))) return false;
    if (!kn_export_results(call, names, (size_t)r.cell->results)) return false;
    /* (length, 1, batch, units) and (1, batch, units) */
    if (!transposed(call, squeezed(call, names[0], 1, NULL), (int64_t[]){1, 0, 2}, 3, call->output))
        return false;
    for (int i = 1; i < r.cell->results; i++)
        if (call->export->needed[node->outputs[i]->id] &&
            !squeezed(call, names[i], 0, node->outputs[i]->name))
            return false;
    return true;
}

/* ---- attention ----------------------------------------------------------------------------------------- */

typedef struct attention {
    int64_t heads, key_heads, head;
    bool packed, causal, last;
    const kn_value *q, *k, *lengths, *mask;
} attention;

/* The inputs are q, k and v, or one packed tensor, then lengths, a mask and dropout's step counter,
 * distinguished by rank. False: there is no counterpart, as for a window or first keys. */
static bool describe_attention(const kn_node *node, attention *a) {
    int data = 0, count = node->input_count - (node->op->random ? 1 : 0);
    while (data < count && data < 3 && node->inputs[data]->shape.rank == 3)
        data++;
    *a = (attention){.heads = kn_attribute_of(node, "heads")->integer,
                     .key_heads = kn_attribute_of(node, "key_heads")->integer,
                     .packed = data == 1,
                     .causal = kn_attribute_of(node, "causal")->integer != 0,
                     .last = kn_attribute_of(node, "last")->integer != 0,
                     .q = node->inputs[0],
                     .k = node->inputs[data > 1 ? 1 : 0]};
    if (!a->key_heads) a->key_heads = a->heads;
    a->head = a->q->shape.dims[2] / (a->packed ? a->heads + 2 * a->key_heads : a->heads);
    for (int i = data; i < count; i++) {
        if (node->inputs[i]->shape.rank == 2) return false;
        *(node->inputs[i]->shape.rank == 4 ? &a->mask : &a->lengths) = node->inputs[i];
    }
    return a->head > 0 && kn_attribute_of(node, "window")->integer == 0 &&
           kn_attribute_of(node, "slots")->integer == 0;
}

/* Splits q (part 0), k (1) or v (2) by heads: (batch, heads, length, head), k (batch, heads, head, length).
 */
static const char *by_heads(kn_export_call *call, const attention *a, int part) {
    const int64_t heads = part ? a->key_heads : a->heads, columns = heads * a->head,
                  group = a->heads / a->key_heads;
    const char *x = call->inputs[a->packed ? 0 : part];
    if (a->packed) {
        int64_t begin = part == 0 ? 0 : (a->heads + (part == 2 ? a->key_heads : 0)) * a->head;
        const char *from = kn_export_list(call, &begin, 1),
                   *to = kn_export_list(call, (int64_t[]){begin + columns}, 1);
        const char *axis = kn_export_list(call, (int64_t[]){2}, 1);
        if (!from || !to || !axis) return NULL;
        x = kn_export_node(call, "Slice", NULL, KN_EXPORT_INPUTS(x, from, to, axis));
    }
    if (part && group > 1) { /* each head of k and v serves a group of q's heads */
        const char *shape = kn_export_list(call, (int64_t[]){1, 1, 1, group, 1}, 5);
        x = reshaped(call, x, (int64_t[]){0, 0, heads, 1, a->head}, 5, NULL);
        x = kn_export_two(call, "Expand", NULL, x, shape);
    }
    x = reshaped(call, x, (int64_t[]){0, 0, a->heads, a->head}, 4, NULL);
    return transposed(call, x, part == 1 ? (int64_t[]){0, 2, 3, 1} : (int64_t[]){0, 2, 1, 3}, 4, NULL);
}

static const char *length_of(kn_export_call *call, const kn_value *x) {
    const char *name = kn_export_one(call, "Shape", NULL, x->name);
    return name && kn_export_int(call, "start", 1) && kn_export_int(call, "end", 2) ? name : NULL;
}

/* The first diagonal that a causal mask hides, as a scalar. */
static const char *diagonal_of(kn_export_call *call, const attention *a) {
    const kn_dim queries = a->q->shape.dims[1], keys = a->k->shape.dims[1];
    if (!a->last || queries == keys) return kn_export_number(call, KN_INT64, 1);
    if (kn_dim_known(queries) && kn_dim_known(keys))
        return kn_export_number(call, KN_INT64, keys > queries ? (double)(1 + keys - queries) : 1);
    const char *zero = kn_export_number(call, KN_INT64, 0), *unit = kn_export_number(call, KN_INT64, 1);
    const char *more = kn_export_two(call, "Sub", NULL, length_of(call, a->k), length_of(call, a->q));
    return squeezed(
        call, kn_export_two(call, "Add", NULL, kn_export_two(call, "Max", NULL, more, zero), unit), 0, NULL);
}

/* (queries, keys): minus infinity where a query does not see the key. */
static const char *causal_mask(kn_export_call *call, const attention *a) {
    const char *shape = kn_export_two(call, "Concat", NULL, length_of(call, a->q), length_of(call, a->k));
    if (!shape || !kn_export_int(call, "axis", 0)) return NULL;
    const char *least = kn_export_number(call, a->q->shape.dtype, -INFINITY);
    const char *whole = kn_export_two(call, "Expand", NULL, least, shape);
    const char *mask = kn_export_two(call, "Trilu", NULL, whole, diagonal_of(call, a));
    return mask && kn_export_int(call, "upper", 1) ? mask : NULL;
}

/* 0, 1, … along axis 1 of x, int64. */
static const char *positions_of(kn_export_call *call, const kn_value *x) {
    const char *begin = kn_export_number(call, KN_INT64, 0), *step = kn_export_number(call, KN_INT64, 1);
    const char *end = squeezed(call, length_of(call, x), 0, NULL);
    return begin && step && end ? kn_export_node(call, "Range", NULL, KN_EXPORT_INPUTS(begin, end, step))
                                : NULL;
}

static const char *unsqueezed(kn_export_call *call, const char *x, const int64_t *axes, size_t count) {
    return kn_export_two(call, "Unsqueeze", NULL, x, kn_export_list(call, axes, count));
}

static const char *as_long(kn_export_call *call, const char *x) {
    const char *name = kn_export_one(call, "Cast", NULL, x);
    return name && kn_export_int(call, "to", kn_onnx_type_from(KN_INT64)) ? name : NULL;
}

/* Whether a query sees a key, by lengths: bool (batch,1,queries or 1,keys). */
static const char *seen_by_lengths(kn_export_call *call, const attention *a) {
    const char *lengths = unsqueezed(call, as_long(call, a->lengths->name), (int64_t[]){1, 2, 3}, 3);
    const char *keys = positions_of(call, a->k), *counts = kn_export_two(call, "Less", NULL, keys, lengths);
    if (!a->causal) return counts;
    const char *queries = unsqueezed(call, positions_of(call, a->q), (int64_t[]){1}, 1);
    if (a->last) {
        const char *more = kn_export_two(call, "Sub", NULL, lengths, length_of(call, a->q));
        queries = kn_export_two(call, "Add", NULL, queries,
                                kn_export_two(call, "Max", NULL, more, kn_export_number(call, KN_INT64, 0)));
    }
    return kn_export_two(call, "And", NULL, counts, kn_export_two(call, "LessOrEqual", NULL, keys, queries));
}

static const char *where(kn_export_call *call, const char *seen, const char *x, kn_dtype dtype,
                         double otherwise) {
    const char *number = kn_export_number(call, dtype, otherwise);
    return seen && x && number ? kn_export_node(call, "Where", NULL, KN_EXPORT_INPUTS(seen, x, number))
                               : NULL;
}

static bool attend(kn_export_call *call) {
    attention a;
    if (!describe_attention(call->node, &a)) return false;
    double scale = kn_attribute_of(call->node, "scale")->number;
    const char *factor =
        kn_export_number(call, a.q->shape.dtype, scale != 0 ? scale : 1 / sqrt((double)a.head));
    const char *q = by_heads(call, &a, 0), *k = by_heads(call, &a, 1), *v = by_heads(call, &a, 2);
    const char *scores = kn_export_two(call, "Mul", NULL, kn_export_two(call, "MatMul", NULL, q, k), factor),
               *seen = NULL;
    const double softcap = kn_attribute_of(call->node, "softcap")->number;
    if (softcap > 0) {
        const char *cap = kn_export_number(call, a.q->shape.dtype, softcap);
        scores = kn_export_one(call, "Tanh", NULL, kn_export_two(call, "Div", NULL, scores, cap));
        scores = kn_export_two(call, "Mul", NULL, scores, cap);
    }
    if (a.lengths && !(seen = seen_by_lengths(call, &a))) return false;
    if (a.causal && !seen) scores = kn_export_two(call, "Add", NULL, scores, causal_mask(call, &a));
    if (a.mask) scores = kn_export_two(call, "Add", NULL, scores, a.mask->name);
    if (seen) scores = where(call, seen, scores, a.q->shape.dtype, -INFINITY);
    const char *weights = kn_export_one(call, "Softmax", NULL, scores);
    if (!weights || !kn_export_int(call, "axis", -1)) return false;
    if (seen) weights = where(call, seen, weights, a.q->shape.dtype, 0); /* NaN for queries that see no key */
    if (call->node->op->random)
        weights =
            kn_export_two(call, "Dropout", NULL, weights,
                          kn_export_number(call, KN_FLOAT32, kn_attribute_of(call->node, "rate")->number));
    const char *y = kn_export_two(call, "MatMul", NULL, weights, v);
    y = transposed(call, y, (int64_t[]){0, 2, 1, 3}, 4, NULL);
    return reshaped(call, y, (int64_t[]){0, 0, a.heads * a.head}, 3, call->output) != NULL;
}

/* ---- rotary embeddings --------------------------------------------------------------------------------- */

/* The angle of each pair: (1 or batch,length,1) with a pair axis in the position of the rotated axis. */
static const char *angles(kn_export_call *call, int64_t pairs, bool interleaved) {
    const kn_node *node = call->node;
    const double base = kn_attribute_of(node, "base")->number;
    const char *positions = unsqueezed(call, positions_of(call, node->inputs[0]), (int64_t[]){0}, 1);
    if (node->input_count > 1)
        positions = kn_export_two(call, "Add", NULL, positions,
                                  unsqueezed(call, as_long(call, call->inputs[1]), (int64_t[]){1}, 1));
    float *rates = kn_arena_take(&call->export->arena, (size_t)pairs + 1, sizeof *rates);
    for (int64_t i = 0; rates && i < pairs; i++)
        rates[i] = (float)(pow(base, -(double)i / (double)pairs) / kn_attribute_of(node, "divisor")->number);
    const char *rate = kn_export_tensor(call, KN_FLOAT32, 1, &pairs, rates);
    const char *real = kn_export_one(call, "Cast", NULL, positions);
    if (!real || !kn_export_int(call, "to", kn_onnx_type_from(KN_FLOAT32))) return NULL;
    real = kn_export_two(call, "Mul", NULL, unsqueezed(call, real, (int64_t[]){2}, 1), rate);
    return unsqueezed(call, real, (int64_t[]){2, interleaved ? 4 : 3}, 2);
}

/* Puts the two elements of each pair along a separate axis: (batch,length,heads,pairs,2) or
 * (batch,length,heads,2,pairs). */
static bool rotary(kn_export_call *call) {
    const kn_node *node = call->node;
    const int64_t heads = kn_attribute_of(node, "heads")->integer, columns = node->inputs[0]->shape.dims[2];
    const int64_t pairs = columns / (2 * heads), list[] = {0, 1, 2};
    const bool interleaved = kn_attribute_of(node, "interleaved")->integer != 0;
    const bool inverse = kn_attribute_of(node, "inverse")->integer != 0;
    const int64_t pair_axis = interleaved ? 4 : 3;
    if (node->inputs[0]->shape.dtype != KN_FLOAT32) return false;
    for (int i = 1; i < node->input_count; i++)
        if (node->inputs[i]->shape.dtype != KN_INT32) return false; /* divisors */
    const char *x =
        reshaped(call, call->inputs[0],
                 (int64_t[]){0, 0, heads, interleaved ? pairs : 2, interleaved ? 2 : pairs}, 5, NULL);
    const char *angle = angles(call, pairs, interleaved), *axis = kn_export_list(call, &pair_axis, 1);
    const char *cosine = kn_export_one(call, "Cos", NULL, angle),
               *sine = kn_export_one(call, "Sin", NULL, angle), *halves[2];
    if (!x || !axis || !cosine || !sine) return false;
    for (int i = 0; i < 2; i++) {
        const char *from = kn_export_list(call, list + i, 1), *to = kn_export_list(call, list + i + 1, 1);
        halves[i] =
            from && to ? kn_export_node(call, "Slice", NULL, KN_EXPORT_INPUTS(x, from, to, axis)) : NULL;
    }
    const char *rotated[2];
    for (int i = 0; i < 2; i++) /* x cos - y sin, y cos + x sin */
        rotated[i] = kn_export_two(call, (i == 0) == inverse ? "Add" : "Sub", NULL,
                                   kn_export_two(call, "Mul", NULL, halves[i], cosine),
                                   kn_export_two(call, "Mul", NULL, halves[1 - i], sine));
    const char *joined = kn_export_two(call, "Concat", NULL, rotated[0], rotated[1]);
    return joined && kn_export_int(call, "axis", pair_axis) &&
           reshaped(call, joined, (int64_t[]){0, 0, columns}, 3, call->output);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static bool rms_norm(kn_export_call *call) {
    const char *axes = kn_export_list(call, (int64_t[]){-1}, 1), *x = call->inputs[0];
    const char *mean = kn_export_two(call, "ReduceMean", NULL, kn_export_two(call, "Mul", NULL, x, x), axes);
    if (!mean || !kn_export_int(call, "keepdims", 1)) return false;
    const char *epsilon = kn_export_number(call, call->node->inputs[0]->shape.dtype,
                                           kn_attribute_of(call->node, "epsilon")->number);
    const char *root = kn_export_one(call, "Sqrt", NULL, kn_export_two(call, "Add", NULL, mean, epsilon));
    const char *row = kn_export_two(call, "Div", NULL, x, root);
    return kn_export_two(call, "Mul", call->output, row, call->inputs[1]) != NULL;
}

const kn_export_row kn_export_sequences[] = {
    {"lstm", recurrent},           {"gru", recurrent},     {"rnn", recurrent}, {"attention", attend},
    {"attention_dropout", attend}, {"rms_norm", rms_norm}, {"rotary", rotary},
};
const int kn_export_sequences_count = (int)KN_COUNT_OF(kn_export_sequences);
