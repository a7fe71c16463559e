/* The graph of a model that generates a few positions per run: attention reads keys and values from caches,
 * recurrent layers resume from states. The caches may have slots for several texts: a run then reads rows of
 * the text in one slot, or one row of each of the first texts. */
#include <stdio.h>
#include <string.h>

#include "models/models_private.h"

enum { MAX_SLOTS = 256 };

typedef struct carrying {
    const kn_graph *from;
    kn_graph *to;
    kn_value **values; /* by id of values in `from`: their counterparts in `to`; NULL: none yet */
    bool *needed;      /* by id: an output needs the value */
    bool *along;       /* by id: the value is (batch,window,…) and depends on the input */
    bool *all;         /* by id: all rows of this run are computed, otherwise only the last valid one */
    kn_value **last;   /* by id: the last valid row of a value with all rows; NULL: none yet */
    kn_value *start, *count, *index; /* index: of the last valid row in this run */
    int64_t window, rows;
    int64_t slots, texts; /* slots of the caches, 0: one text without slots; texts that this run reads */
    bool together;        /* a row of each of the first texts */
    kn_value *slot_starts, *slot_first; /* for the text in one slot: first row in each slot, none in the
                                         * others; the slot's place in (1,slots*window,C) */
    struct {
        int64_t rows;
        kn_value *start, *end; /* positions of the first row, and after the last one */
    } run, final, now;         /* all rows; the last valid row; those of the node that is being carried */
    bool bounded;  /* the window limits the number of positions: a layer depends on absolute positions */
    bool absolute; /* a table has a row for each position, or a layer is recurrent */
} carrying;

/* Recurrent operators: the index of the input that is the initial state; cells, if any, and lengths follow
 * it. */
typedef struct recurrence {
    const char *name;
    int start;
    bool cells;
} recurrence;

static const recurrence *recurrence_of(const kn_node *node) {
    static const recurrence all[] = {{"lstm", 2, true}, {"gru", 3, false}, {"rnn", 2, false}};
    for (size_t i = 0; i < KN_COUNT_OF(all); i++)
        if (!strcmp(node->op->name, all[i].name)) return &all[i];
    return NULL;
}

static bool is_attention(const kn_node *node) {
    return !strcmp(node->op->name, "attention") || !strcmp(node->op->name, "attention_dropout");
}

static bool is_along(const carrying *c, const kn_value *value) {
    return value && c->along[value->id];
}

static void mark_needed(carrying *c, const kn_value *output) {
    c->needed[output->id] = true;
    for (size_t i = c->from->node_count; i-- > 0;) {
        const kn_node *node = c->from->nodes[i];
        bool needed = false;
        for (int k = 0; k < node->output_count; k++)
            needed = needed || c->needed[node->outputs[k]->id];
        const recurrence *kind = recurrence_of(node); /* the initial state is replaced below */
        for (int k = 0; k < (kind ? kind->start : node->input_count) && needed; k++)
            if (node->inputs[k]) c->needed[node->inputs[k]->id] = true;
    }
}

/* Marks values all of whose rows are needed: those that attention reads as keys and values, what they are
 * computed from, and all of what is read in the order of positions. */
static void mark_all(carrying *c) {
    for (size_t i = c->from->node_count; i-- > 0;) {
        const kn_node *node = c->from->nodes[i];
        if (node->output_count == 0) continue; /* assigns a state */
        const bool mixes = recurrence_of(node) || !strcmp(node->op->name, "embedding");
        for (int k = 0; k < node->output_count && mixes; k++)
            c->all[node->outputs[k]->id] = true;
        const bool attention = is_attention(node), all = c->all[node->outputs[0]->id];
        const bool packed = attention && (node->input_count < 3 || node->inputs[1]->shape.rank != 3);
        for (int k = 0; k < node->input_count; k++)
            if (node->inputs[k] && c->needed[node->outputs[0]->id] &&
                (all || (attention && (packed || k > 0))))
                c->all[node->inputs[k]->id] = true;
    }
}

/* A carried value with the rows that the current node computes, (texts,rows,C); NULL: not possible. */
static kn_value *rows_now(carrying *c, const kn_value *value, kn_value *copy) {
    if (!is_along(c, value) || !c->all[value->id] || c->now.rows == c->rows) return copy;
    kn_value **last = &c->last[value->id];
    if (!*last && value->shape.rank == 3) *last = kn_take_rows(copy, c->index, 1);
    return *last;
}

/* The counterpart of a value: a state, a constant, or a value made before; NULL for inputs other than the
 * model's input. */
static kn_value *carried(carrying *c, const kn_value *value) {
    kn_value **copy = &c->values[value->id];
    if (*copy) return *copy;
    if (value->kind == KN_VALUE_STATE) {
        *copy = kn_state_add(c->to, value->name, &value->shape, value->role, &value->initializer);
        if (value->stored != value->shape.dtype) kn_store_as(*copy, value->stored);
        if (value->contents.file && !kn_value_failed(*copy) && !kn_value_fill_from(*copy, &value->contents))
            return NULL;
    } else if (value->kind == KN_VALUE_CONSTANT && kn_shape_elements(&value->shape) >= 0) {
        *copy = kn_constant_add(c->to, &value->shape, value->data, value->data_bytes);
    }
    return *copy;
}

/* Copies a node, with the given inputs. */
static bool copy_node(carrying *c, const kn_node *node, kn_value *const *inputs) {
    const kn_attribute_value *attributes = node->given ? node->given : node->attributes;
    for (int i = 0; i < node->op->attribute_count; i++)
        for (int j = 0; j < attributes[i].count && node->op->attributes[i].kind == KN_ATTRIBUTE_DIMS; j++)
            if (!kn_dim_known(attributes[i].list[j]) && attributes[i].list[j] != -1) return false;
    kn_value *first = kn_node_add(c->to, node->op, NULL, inputs, node->input_count, attributes);
    if (kn_value_failed(first)) return false;
    for (int k = 0; k < node->output_count; k++)
        c->values[node->outputs[k]->id] = first->producer->outputs[k];
    return true;
}

static kn_value *number(carrying *c, int64_t n) {
    const int32_t value = (int32_t)n;
    return kn_constant(c->to, KN_INT32, "1", &value, sizeof value);
}

/* Selects the rows of this run, (texts,rows,C), from a table with one row per position, (window,C) or
 * (1,window,C). */
static kn_value *rows_of_run(carrying *c, const kn_value *table, kn_value *rows) {
    char shape[64];
    c->bounded = c->absolute = true;
    if (c->together) {
        kn_value *start = kn_max(c->now.start, number(c, 0)); /* a slot without a text has -1 */
        snprintf(shape, sizeof shape, "%lld,%lld", (long long)c->window,
                 (long long)table->shape.dims[table->shape.rank - 1]);
        kn_value *inputs[2] = {kn_reshape(rows, shape), kn_reshape(start, "-1,1")};
        return kn_apply(c->to, "embedding", inputs, 2, NULL);
    }
    snprintf(shape, sizeof shape, "1,%lld,%lld", (long long)c->window,
             (long long)table->shape.dims[table->shape.rank - 1]);
    return kn_take_rows(kn_reshape(rows, shape), c->now.start, c->now.rows);
}

/* A pointwise node: inputs with the result's rank run along the window; others broadcast, or have one row per
 * position. */
static bool carry_pointwise(carrying *c, const kn_node *node, kn_value **inputs) {
    int rank = node->outputs[0]->shape.rank;
    if (rank < 2 || node->op->random) return false;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *input = node->inputs[i];
        if (!input) continue;
        const kn_shape *shape = &input->shape;
        int axis = shape->rank - rank + 1;
        if (is_along(c, input)) {
            if (axis != 1) return false;
        } else if (axis >= 0 && shape->dims[axis] != 1) {
            bool table = rank == 3 && (shape->rank == 2 || (shape->rank == 3 && shape->dims[0] == 1));
            if (!table || shape->dims[axis] != c->window) return false;
            inputs[i] = rows_of_run(c, input, inputs[i]);
        }
    }
    return copy_node(c, node, inputs);
}

/* The keys or values of all positions so far, in a state (window,C) per slot, after writing the rows of this
 * run, (texts,rows,C); (texts,window,C), or, for the first texts, (slots,window,C). */
static kn_value *cached(carrying *c, kn_value *rows, const char *layer, const char *what) {
    char name[600], shape[64];
    snprintf(name, sizeof name, "%s.%s", layer, what);
    if (!c->slots) return kn_kv_cache(rows, c->start, c->window, name);
    if (kn_value_failed(rows)) return rows;
    const kn_shape all = {
        .dtype = rows->shape.dtype, .rank = 3, .dims = {c->slots, c->window, rows->shape.dims[2]}};
    kn_value *state = kn_state_add(c->to, kn_name_here(c->to, name), &all, KN_STATE_CACHE, NULL);
    if (c->slot_starts) {
        snprintf(shape, sizeof shape, "%lld,1,1", (long long)c->slots);
        rows = kn_expand(rows, shape);
    }
    kn_value *written = kn_put_rows(state, rows, c->slot_starts ? c->slot_starts : c->start);
    if (!kn_value_failed(written)) kn_assign(c->to, state, written);
    if (!c->slot_starts) return written;
    snprintf(shape, sizeof shape, "1,-1,%lld", (long long)all.dims[2]);
    return kn_take_rows(kn_reshape(written, shape), c->slot_first, c->window);
}

/* q, k and v are one value or three. Dropout is omitted; keys and values of earlier runs come from the
 * caches. */
static bool carry_attention(carrying *c, const kn_node *node, kn_value **inputs) {
    kn_value *k = inputs[0], *v = inputs[0], *q = inputs[0];
    int count = node->input_count - (node->op->random ? 1 : 0); /* without the step counter */
    for (int i = 0; i < count; i++)
        if (!is_along(c, node->inputs[i]) || node->inputs[i]->shape.rank != 3) return false;
    if (!kn_attribute_of(node, "causal")->integer || kn_attribute_of(node, "last")->integer) return false;
    kn_attention_params params = {.size = sizeof params, .causal = true, .last = true, .slots = c->together};
    params.heads = kn_attribute_of(node, "heads")->integer;
    params.lengths = c->now.end;
    params.key_heads = kn_attribute_of(node, "key_heads")->integer;
    params.window = kn_attribute_of(node, "window")->integer;
    params.scale = kn_attribute_of(node, "scale")->number;
    params.softcap = kn_attribute_of(node, "softcap")->number;
    if (count == 1) {
        int64_t columns = node->outputs[0]->shape.dims[2], all = node->inputs[0]->shape.dims[2];
        int64_t between = columns + (all - columns) / 2;
        q = kn_slice(rows_now(c, node->inputs[0], inputs[0]), 2, 0, columns);
        k = kn_slice(inputs[0], 2, columns, between);
        v = kn_slice(inputs[0], 2, between, all);
    } else {
        q = rows_now(c, node->inputs[0], inputs[0]);
        k = inputs[1];
        v = inputs[2];
    }
    if (!q) return false;
    c->bounded = true;
    kn_value *y =
        kn_attention(q, cached(c, k, node->name, "keys"), cached(c, v, node->name, "values"), &params);
    c->values[node->outputs[0]->id] = y;
    return !kn_value_failed(y);
}

/* The initial state (1,units): the final state of the previous run, or zeros at the first position. */
static kn_value *initial_state(carrying *c, const kn_node *node, const char *what, kn_value **state) {
    char name[600];
    const kn_shape shape = {
        .dtype = node->outputs[0]->shape.dtype, .rank = 2, .dims = {1, node->outputs[0]->shape.dims[2]}};
    const int32_t nothing = 0;
    snprintf(name, sizeof name, "%s.%s", node->name, what);
    *state = kn_state_add(c->to, kn_name_here(c->to, name), &shape, KN_STATE_CACHE, NULL);
    kn_value *later = kn_greater(c->start, kn_constant(c->to, KN_INT32, "1", &nothing, sizeof nothing));
    return kn_where(later, *state, kn_cast(kn_scalar(c->to, 0), shape.dtype));
}

/* Runs forward from zeros, as the model does outside training, or from the end of the previous run. */
static bool carry_recurrence(carrying *c, const kn_node *node, const recurrence *kind) {
    kn_value *inputs[KN_MAX_INPUTS] = {NULL}, *state, *cells = NULL;
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *input = node->inputs[i];
        if (!input) continue;
        /* An initial state that the model itself defines is only used in training. */
        if (i >= kind->start && !(input->producer && input->producer->op->training_only)) return false;
        if (i >= kind->start) continue;
        inputs[i] = carried(c, input);
        if (kn_value_failed(inputs[i]) || is_along(c, input) != (i == 0)) return false;
    }
    const kn_shape *shape = &node->outputs[0]->shape;
    c->absolute = true;
    if (c->slots || shape->dims[1] != c->window || kn_attribute_of(node, "reverse")->integer) return false;
    inputs[kind->start] = initial_state(c, node, "state", &state);
    if (kind->cells) inputs[kind->start + 1] = initial_state(c, node, "cells", &cells);
    int count = kind->start + 1 + kind->cells;
    inputs[count++] = c->count;
    kn_value *y = kn_node_add(c->to, node->op, NULL, inputs, count, node->attributes);
    if (kn_value_failed(y)) return false;
    kn_assign(c->to, state, y->producer->outputs[1]);
    if (cells) kn_assign(c->to, cells, y->producer->outputs[2]);
    c->values[node->outputs[0]->id] = y;
    c->along[node->outputs[0]->id] = true;
    return true;
}

/* Operators that compute each position independently if only the first input runs along the window. */
static bool is_positionwise(const kn_node *node) {
    const char *name = node->op->name;
    if (!strcmp(name, "layer_norm") || !strcmp(name, "rms_norm")) return node->inputs[0]->shape.rank >= 3;
    if (node->inputs[0]->shape.rank != 3) return false;
    if (!strcmp(name, "matmul"))
        return !kn_attribute_of(node, "transpose_a")->integer && node->inputs[1]->shape.rank == 2;
    if (!strcmp(name, "softmax") || !strcmp(name, "log_softmax")) {
        int64_t axis = kn_attribute_of(node, "axis")->integer;
        return axis == -1 || axis == 2;
    }
    return false;
}

/* A reshape that keeps the batch and the positions. */
static bool carry_reshape(carrying *c, const kn_node *node, kn_value *x) {
    const kn_shape *shape = &node->outputs[0]->shape;
    char text[32 * KN_MAX_RANK];
    int length = snprintf(text, sizeof text, "%lld,%lld", (long long)c->texts, (long long)c->now.rows);
    for (int i = 2; i < shape->rank; i++) {
        if (!kn_dim_known(shape->dims[i])) return false;
        length += snprintf(text + length, sizeof text - (size_t)length, ",%lld", (long long)shape->dims[i]);
    }
    if (shape->dims[0] != node->inputs[0]->shape.dims[0]) return false;
    kn_value *y = c->values[node->outputs[0]->id] = kn_reshape(x, text);
    return !kn_value_failed(y);
}

static bool carry_node(carrying *c, const kn_node *node) {
    kn_value *inputs[KN_MAX_INPUTS];
    int along = 0;
    if (node->derivative) return false;
    const recurrence *kind = recurrence_of(node);
    if (kind) return carry_recurrence(c, node, kind);
    for (int i = 0; i < node->input_count; i++) {
        inputs[i] = NULL;
        if (!node->inputs[i]) continue;
        inputs[i] = carried(c, node->inputs[i]);
        if (kn_value_failed(inputs[i])) return false;
        along += is_along(c, node->inputs[i]);
    }
    c->now = c->all[node->outputs[0]->id] ? c->run : c->final;
    if (node->op->training_only) {
        if (!(inputs[0] = rows_now(c, node->inputs[0], inputs[0]))) return false;
        c->values[node->outputs[0]->id] = inputs[0];
        c->along[node->outputs[0]->id] = is_along(c, node->inputs[0]);
        return true;
    }
    if (along == 0) return copy_node(c, node, inputs);
    const kn_shape *shape = &node->outputs[0]->shape;
    if (shape->rank < 2 || shape->dims[1] != c->window) return false;
    c->along[node->outputs[0]->id] = true;
    const char *name = node->op->name;
    if (is_attention(node)) return carry_attention(c, node, inputs);
    for (int i = 0; i < node->input_count; i++)
        if (inputs[i] && !(inputs[i] = rows_now(c, node->inputs[i], inputs[i]))) return false;
    if (node->op->class == KN_CLASS_POINTWISE) return carry_pointwise(c, node, inputs);
    if (along != 1) return false;
    if (!strcmp(name, "embedding") && is_along(c, node->inputs[1])) return copy_node(c, node, inputs);
    if (!is_along(c, node->inputs[0])) return false;
    if (!strcmp(name, "reshape")) return carry_reshape(c, node, inputs[0]);
    const bool divides = node->input_count == 2 && node->inputs[1]->shape.dtype != KN_INT32;
    if (!strcmp(name, "rotary") && (node->input_count == 1 || divides)) {
        kn_value *all[3] = {inputs[0], c->now.start, divides ? inputs[1] : NULL};
        c->bounded = true;
        kn_value *y = kn_node_add(c->to, node->op, NULL, all, divides ? 3 : 2, node->attributes);
        c->values[node->outputs[0]->id] = y;
        return !kn_value_failed(y);
    }
    return is_positionwise(node) && copy_node(c, node, inputs);
}

/* Adds the input `slot` of a run that reads the text in one slot. */
static void add_slot(carrying *c) {
    char shape[32];
    int32_t numbers[MAX_SLOTS];
    kn_value *slot = kn_input(c->to, "slot", KN_INT32, "1");
    for (int32_t i = 0; i < c->slots; i++)
        numbers[i] = i;
    snprintf(shape, sizeof shape, "%lld", (long long)c->slots);
    kn_value *all = kn_constant(c->to, KN_INT32, shape, numbers, (size_t)c->slots * sizeof *numbers);
    c->slot_starts = kn_where(kn_equal(all, slot), c->start, number(c, c->window));
    c->slot_first = kn_mul(slot, number(c, c->window));
}

/* last: computes the output only at the last valid row. */
static bool carry(carrying *c, const kn_value *input, const kn_value *output, bool last) {
    char shape[48];
    snprintf(shape, sizeof shape, "%lld,%lld", (long long)c->texts, (long long)c->rows);
    c->values[input->id] = kn_input(c->to, input->name, input->shape.dtype, shape);
    c->along[input->id] = true;
    kn_scope_begin(c->to, "step");
    snprintf(shape, sizeof shape, "%lld", (long long)c->texts);
    c->start = kn_input(c->to, "start", KN_INT32, shape);
    kn_value *one = number(c, 1);
    c->count = c->together ? one : kn_input(c->to, "count", KN_INT32, shape);
    if (c->slots && !c->together) add_slot(c);
    c->run.rows = c->rows;
    c->run.start = c->start;
    c->run.end = kn_add(c->start, number(c, c->rows));
    c->final.rows = 1;
    c->final.end = kn_add(c->start, c->count);
    c->final.start = kn_sub(c->final.end, one);
    c->index = kn_sub(c->count, one);
    mark_needed(c, output);
    c->all[output->id] = !last;
    mark_all(c);
    for (size_t i = 0; i < c->from->node_count; i++) {
        const kn_node *node = c->from->nodes[i];
        bool needed = false;
        for (int k = 0; k < node->output_count; k++)
            needed = needed || c->needed[node->outputs[k]->id];
        kn_pin_begin(c->to, node->pin);
        bool carried = !needed || carry_node(c, node);
        kn_pin_end(c->to);
        if (!carried) return false;
    }
    c->now = last ? c->final : c->run;
    kn_value *made = c->values[output->id] = rows_now(c, output, c->values[output->id]);
    kn_scope_end(c->to);
    return made && is_along(c, output) && kn_graph_status(c->to) == KN_OK;
}

/* What a run reads. */
typedef struct reading {
    int64_t rows, slots, texts;
    bool last, together;
} reading;

/* bounded, absolute: as in `carrying`; may be NULL. */
static kn_graph *make_step(const kn_model *model, const reading *how, kn_value **output, bool *bounded,
                           bool *absolute) {
    const kn_value *input = kn_model_input_at(model, 0), *made = kn_model_output_at(model, 0);
    if (output) *output = NULL;
    if (!output || !input || !made || kn_model_input_count(model) != 1 || input->shape.rank != 2) return NULL;
    int64_t window = input->shape.dims[1];
    if (!kn_dim_known(window) || how->rows < 1 || how->rows > window || window > INT32_MAX || how->texts < 1)
        return NULL;
    if (how->slots && (how->slots < how->texts || how->slots > MAX_SLOTS || window > INT32_MAX / how->slots))
        return NULL;
    const kn_graph *from = model->graph;
    kn_graph_params params = {.size = sizeof params, .allocator = model->host.allocator};
    carrying c = {.from = from,
                  .window = window,
                  .rows = how->rows,
                  .slots = how->slots,
                  .texts = how->texts,
                  .together = how->together,
                  .to = kn_graph_create(&params)};
    c.values = kn_allocate(&model->host, from->value_count + 1, sizeof *c.values);
    c.needed = kn_allocate(&model->host, from->value_count + 1, sizeof *c.needed);
    c.along = kn_allocate(&model->host, from->value_count + 1, sizeof *c.along);
    c.all = kn_allocate(&model->host, from->value_count + 1, sizeof *c.all);
    c.last = kn_allocate(&model->host, from->value_count + 1, sizeof *c.last);
    if (c.to && c.values && c.needed && c.along && c.all && c.last && carry(&c, input, made, how->last))
        *output = kn_name(c.values[made->id], made->name);
    if (!*output || kn_value_failed(*output)) {
        *output = NULL;
        kn_graph_destroy(&c.to);
    }
    kn_release(&model->host, c.values);
    kn_release(&model->host, c.needed);
    kn_release(&model->host, c.along);
    kn_release(&model->host, c.all);
    kn_release(&model->host, c.last);
    if (bounded) *bounded = c.bounded;
    if (absolute) *absolute = c.absolute;
    return c.to;
}

kn_graph *kn_model_step(const kn_model *model, int64_t rows, kn_value **output) {
    const reading how = {.rows = rows, .texts = 1};
    return make_step(model, &how, output, NULL, NULL);
}

kn_graph *kn_model_step_last(const kn_model *model, int64_t rows, kn_value **output) {
    const reading how = {.rows = rows, .texts = 1, .last = true};
    return make_step(model, &how, output, NULL, NULL);
}

kn_graph *kn_model_step_slot(const kn_model *model, int64_t rows, int64_t slots, kn_value **output) {
    const reading how = {.rows = rows, .texts = 1, .slots = slots, .last = true};
    if (output) *output = NULL;
    return slots < 1 ? NULL : make_step(model, &how, output, NULL, NULL);
}

kn_graph *kn_model_step_texts(const kn_model *model, int64_t texts, int64_t slots, kn_value **output) {
    const reading how = {.rows = 1, .texts = texts, .slots = slots, .last = true, .together = true};
    if (output) *output = NULL;
    return slots < 1 ? NULL : make_step(model, &how, output, NULL, NULL);
}

bool kn_model_can_stream(const kn_model *model) {
    bool bounded = true;
    kn_value *output;
    const reading how = {.rows = 1, .texts = 1};
    kn_graph *graph = make_step(model, &how, &output, &bounded, NULL);
    bool made = graph != NULL;
    kn_graph_destroy(&graph);
    return made && !bounded;
}

bool kn_model_sees_distances(const kn_model *model) {
    bool absolute = true;
    kn_value *output;
    const reading how = {.rows = 1, .texts = 1};
    kn_graph *graph = make_step(model, &how, &output, NULL, &absolute);
    const bool made = graph != NULL;
    kn_graph_destroy(&graph);
    return made && !absolute;
}
