/* Scaled dot-product attention by head: softmax(scale Q Kᵀ) V. Scores are computed and consumed tile by tile;
 * they are never stored. */
#include "ops/attention/attention.h"

#include <math.h>

#include "ops/build.h"
#include "ops/gradient.h"
#include "ops/layer.h"
#include "ops/lowering.h"
#include "ops/ops.h"
#include "ops/row.h"
#include "ops/shape_rule.h"

enum { RESULT, LOG_SUM };

/* q, k and v have three axes, lengths (B) one, first keys (B,T) two, a mask (B,heads,T,S) four. */
enum { RANK_OF_LENGTHS = 1, RANK_OF_FIRST = 2, RANK_OF_DATA = 3, RANK_OF_MASK = 4 };

/* The number of inputs starting at `first` that hold q, k and v: one (packed) or three. */
static int count_data(kn_value *const *inputs, int first, int count) {
    int data = 0;
    while (first + data < count && data < 3 && inputs[first + data] &&
           inputs[first + data]->shape.rank == RANK_OF_DATA)
        data++;
    return data;
}

void kn_attention_describe(const kn_node *node, int first, kn_attention_form *form) {
    const kn_shape *q = &node->inputs[first]->shape;
    int data = count_data(node->inputs, first, node->input_count);
    *form = (kn_attention_form){
        .packed = data == 1, .lengths_at = -1, .first_at = -1, .mask_at = -1, .step_at = -1};
    form->heads = kn_attribute_of(node, "heads")->integer;
    form->key_heads = kn_attribute_of(node, "key_heads")->integer;
    if (form->key_heads == 0) form->key_heads = form->heads;
    form->group = form->heads / form->key_heads;
    form->causal = kn_attribute_of(node, "causal")->integer != 0;
    form->last = kn_attribute_of(node, "last")->integer != 0;
    form->batches = q->dims[0];
    form->queries = form->keys = q->dims[1];
    if (!form->packed) form->keys = node->inputs[first + 1]->shape.dims[1];
    form->head = q->dims[2] / (form->packed ? form->heads + 2 * form->key_heads : form->heads);
    form->q_row = q->dims[2];
    form->k_row = form->packed ? form->q_row : form->key_heads * form->head;
    form->y_row = form->heads * form->head;
    if (form->packed) {
        form->k_first = form->y_row;
        form->v_first = form->y_row + form->key_heads * form->head;
    }
    double scale = kn_attribute_of(node, "scale")->number;
    form->scale = scale != 0 ? scale : form->head > 0 ? 1 / sqrt((double)form->head) : 1;
    form->softcap = kn_attribute_of(node, "softcap")->number;
    /* A window as wide as all positions is none; so sums of positions and the window fit in the kernels' int.
     */
    form->window = kn_attribute_of(node, "window")->integer;
    if (form->window >= form->queries + form->keys) form->window = 0;
    for (int i = first + data; i < node->input_count; i++) {
        const kn_shape *shape = &node->inputs[i]->shape;
        if (shape->rank == RANK_OF_LENGTHS) {
            form->lengths_at = i;
            form->lengths_row = shape->dims[0] == 1 ? 0 : 1;
        } else if (shape->rank == RANK_OF_FIRST) {
            form->first_at = i;
            form->first_row = shape->dims[0] == 1 ? 0 : form->queries;
        } else if (shape->rank == 0) {
            form->step_at = i;
            form->rate = kn_attribute_of(node, "rate")->number;
        } else {
            form->mask_at = i;
            int64_t pairs = form->queries * form->keys;
            form->mask_head = shape->dims[1] == 1 ? 0 : pairs;
            form->mask_batch = shape->dims[0] == 1 ? 0 : shape->dims[1] * pairs;
        }
    }
}

/* ---- shapes ---------------------------------------------------------------------------------------- */

static kn_status check_heads(kn_shape_call *call, int first) {
    const kn_shape *q = &call->inputs[first]->shape;
    int data = count_data(call->inputs, first, call->input_count);
    int64_t heads = kn_shape_attribute(call, "heads")->integer;
    int64_t key_heads = kn_shape_attribute(call, "key_heads")->integer;
    if (kn_shape_float_input(call, first)) return call->error->status;
    if (heads < 1 || key_heads < 0 || heads > INT64_MAX / 3 || (key_heads > 0 && heads % key_heads))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "%lld heads and %lld heads of k and v; expected at least 1, with the first a "
                             "multiple of the second",
                             (long long)heads, (long long)key_heads);
    if (kn_shape_attribute(call, "window")->integer < 0)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "a window of %lld; expected at least 0",
                             (long long)kn_shape_attribute(call, "window")->integer);
    const double softcap = kn_shape_attribute(call, "softcap")->number;
    if (!(softcap >= 0 && softcap < INFINITY))
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "a softcap of %g; expected a number of at least 0",
                             softcap);
    if (key_heads == 0) key_heads = heads;
    int64_t parts = data == 1 ? heads + 2 * key_heads : heads;
    if (q->rank != 3 || !kn_dim_known(q->dims[2]) || q->dims[2] % parts)
        return kn_shape_fail(
            call, KN_ERROR_SHAPE, "%s is %s; expected (batch,length,columns) with columns a multiple of %lld",
            data == 1 ? "the packed q, k and v" : "q", kn_shape_words_of(call, first), (long long)parts);
    if (data == 2)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "two inputs; expected q, k and v, or a single packed input");
    const bool slots = !first && kn_shape_attribute(call, "slots")->integer;
    for (int i = first + 1; i < first + data; i++) {
        const kn_shape *own = &call->inputs[i]->shape, *keys = &call->inputs[first + 1]->shape;
        const bool same = own->dims[0] == q->dims[0];
        if (own->dtype != q->dtype || own->dims[0] != keys->dims[0] || own->dims[1] != keys->dims[1] ||
            own->dims[2] != q->dims[2] / heads * key_heads ||
            !(same || (slots && kn_shape_has_samples(own, q))))
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "q is %s, k is %s and v is %s; expected (B,T,columns) for q and "
                                 "(B,S,columns) for k and v, with columns matching the heads",
                                 kn_shape_words_of(call, first), kn_shape_words_of(call, first + 1),
                                 kn_shape_words_of(call, first + 2));
    }
    return KN_OK;
}

/* The inputs after q, k and v: lengths, first keys and a mask, each optional, in this order. */
static kn_status check_limits(kn_shape_call *call, int first) {
    const kn_shape *q = &call->inputs[first]->shape;
    int data = count_data(call->inputs, first, call->input_count), last_rank = 0;
    int64_t heads = kn_shape_attribute(call, "heads")->integer;
    int64_t keys = call->inputs[first + (data == 3)]->shape.dims[1];
    int count = call->input_count;
    if (call->row->random) {
        const kn_value *step = call->inputs[--count];
        double rate = kn_shape_attribute(call, "rate")->number;
        if (!(rate >= 0 && rate < 1))
            return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                                 "the rate is the fraction of weights to drop; expected 0 <= rate < 1");
        if (!step || step->shape.rank != 0 || step->shape.dtype != KN_UINT32)
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "the last input is %s; expected the step counter, a uint32 scalar",
                                 step ? kn_shape_words_of(call, count) : "missing");
    }
    for (int i = first + data; i < count; i++) {
        if (!call->inputs[i])
            return kn_shape_fail(
                call, KN_ERROR_ARGUMENT,
                "input %d is missing; expected q, k and v, or a single packed input, then lengths, "
                "first keys and a mask",
                i - first);
        const kn_shape *own = &call->inputs[i]->shape;
        bool lengths = own->rank == RANK_OF_LENGTHS && own->dtype == KN_INT32;
        bool firsts = own->rank == RANK_OF_FIRST && own->dtype == KN_INT32 && own->dims[1] == q->dims[1];
        bool mask = own->rank == RANK_OF_MASK && own->dtype == q->dtype &&
                    (own->dims[1] == 1 || own->dims[1] == heads) && own->dims[2] == q->dims[1] &&
                    own->dims[3] == keys;
        if ((!lengths && !firsts && !mask) || (own->dims[0] != 1 && own->dims[0] != q->dims[0]) ||
            own->rank <= last_rank)
            return kn_shape_fail(
                call, KN_ERROR_SHAPE,
                "input %d after q, k and v is %s; expected lengths, int32 (B), then first keys, int32 (B,T), "
                "then a mask of the type of q, (B,heads,T,S), where B and heads may be 1",
                i - first - data + 1, kn_shape_words_of(call, i));
        last_rank = own->rank;
    }
    return KN_OK;
}

/* Either one packed input q, k and v, (B,T,(heads+2*key_heads)*D); or three, q (B,T,heads*D), k and v
 * (B,S,key_heads*D), with `slots` (at least B,S,key_heads*D). Then, optionally, lengths (B), first keys (B,T)
 * and a mask (B,heads,T,S). The result is (B,T,heads*D); the hidden output is each query's
 * log(sum(exp(score))), (B,heads,T). */
static kn_status attention_shape(kn_shape_call *call) {
    const kn_shape *q = &call->inputs[0]->shape;
    if (check_heads(call, 0) || check_limits(call, 0)) return call->error->status;
    int64_t heads = kn_shape_attribute(call, "heads")->integer;
    int64_t key_heads = kn_shape_attribute(call, "key_heads")->integer;
    kn_shape *y = &call->outputs[RESULT], *sums = &call->outputs[LOG_SUM];
    *y = *sums = *q;
    if (count_data(call->inputs, 0, call->input_count) == 1)
        y->dims[2] = q->dims[2] / (heads + 2 * (key_heads ? key_heads : heads)) * heads;
    sums->dims[1] = heads;
    sums->dims[2] = q->dims[1];
    return KN_OK;
}

/* Inputs: dy, y, log_sum, then the inputs of the attention; results: the gradients of q, k and v. */
static kn_status gradient_shape(kn_shape_call *call) {
    if (check_heads(call, KN_ATTENTION_Q) || check_limits(call, KN_ATTENTION_Q)) return call->error->status;
    const kn_shape *q = &call->inputs[KN_ATTENTION_Q]->shape;
    const int data = count_data(call->inputs, KN_ATTENTION_Q, call->input_count);
    const int64_t heads = kn_shape_attribute(call, "heads")->integer;
    const int64_t key_heads = kn_shape_attribute(call, "key_heads")->integer;
    const int64_t parts = data == 1 ? heads + 2 * (key_heads ? key_heads : heads) : heads;
    const kn_shape result = {.rank = 3, .dims = {q->dims[0], q->dims[1], q->dims[2] / parts * heads}};
    const kn_shape sums = {.rank = 3, .dims = {q->dims[0], heads, q->dims[1]}};
    for (int i = 0; i < KN_ATTENTION_Q; i++)
        if (!kn_shape_same(&call->inputs[i]->shape, i == KN_ATTENTION_LOG_SUM ? &sums : &result))
            return kn_shape_fail(call, KN_ERROR_SHAPE,
                                 "input %d is %s; expected dy and y like the result of the attention, and "
                                 "log-sums (B,heads,T)",
                                 i, kn_shape_words_of(call, i));
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i] = call->inputs[KN_ATTENTION_Q + i]->shape;
    return KN_OK;
}

/* Describes an error in a gradient node of a program; NULL if there is none. */
static const char *gradient_wrong(const kn_node *node) {
    for (int i = 0; i < KN_ATTENTION_Q; i++)
        if (node->inputs[i]->shape.dtype != node->inputs[KN_ATTENTION_Q]->shape.dtype)
            return "dy, y and the log-sums must have the type of q";
    return NULL;
}

/* ---- references -------------------------------------------------------------------------------------- */

/* One head of one sample: where its rows of q, k, v or of their gradients begin in the arrays, and which keys
 * its queries see. */
typedef struct head_rows {
    double *q, *k, *v;
    int64_t y_at, sums_at;
    int64_t length, offset; /* keys within the length; query i is at position i + offset */
    const double *first;    /* (T), or NULL */
    const double *mask;     /* (T,S), or NULL */
    bool drops;
    uint64_t key; /* key of the step's random numbers */
} head_rows;

static head_rows rows_of(const kn_attention_form *form, const kn_reference_call *call, double *const *arrays,
                         int64_t batch, int64_t head) {
    double *k = form->packed ? arrays[0] : arrays[1], *v = form->packed ? arrays[0] : arrays[2];
    int64_t in_head = head * form->head, in_keys = head / form->group * form->head;
    head_rows rows = {.q = arrays[0] + form->q_first + batch * form->queries * form->q_row + in_head,
                      .k = k + form->k_first + batch * form->keys * form->k_row + in_keys,
                      .v = v + form->v_first + batch * form->keys * form->k_row + in_keys,
                      .y_at = batch * form->queries * form->y_row + in_head,
                      .sums_at = (batch * form->heads + head) * form->queries,
                      .length = form->keys};
    if (form->lengths_at >= 0) {
        double length = call->inputs[form->lengths_at].data[batch * form->lengths_row];
        rows.length = (int64_t)fmin(fmax(length, 0), (double)form->keys);
    }
    if (form->last && rows.length > form->queries) rows.offset = rows.length - form->queries;
    if (form->first_at >= 0) rows.first = call->inputs[form->first_at].data + batch * form->first_row;
    if (form->mask_at >= 0)
        rows.mask = call->inputs[form->mask_at].data + batch * form->mask_batch + head * form->mask_head;
    rows.drops = form->step_at >= 0;
    if (rows.drops)
        rows.key = kn_random_step(call->node->random_key, (uint64_t)call->inputs[form->step_at].data[0]);
    return rows;
}

/* The factor by which dropout multiplies a weight: 0, or 1 / (1 - rate). */
static double kept(const kn_attention_form *form, const head_rows *rows, int64_t query, int64_t key) {
    if (!rows->drops) return 1;
    uint64_t place = (uint64_t)((rows->sums_at + query) * form->keys + key);
    return kn_random_uniform(rows->key, place) >= form->rate ? 1 / (1 - form->rate) : 0;
}

static double dot(const double *left, const double *right, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += left[i] * right[i];
    return sum;
}

static int64_t keys_seen(const kn_attention_form *form, const head_rows *rows, int64_t query) {
    int64_t position = query + rows->offset;
    return form->causal && position + 1 < rows->length ? position + 1 : rows->length;
}

/* Before the mask. */
static double own_score(const kn_attention_form *form, const head_rows *rows, int64_t query, int64_t key) {
    double score = form->scale * dot(rows->q + query * form->q_row, rows->k + key * form->k_row, form->head);
    return form->softcap > 0 ? form->softcap * tanh(score / form->softcap) : score;
}

static double score_of(const kn_attention_form *form, const head_rows *rows, int64_t query, int64_t key) {
    int64_t before = query + rows->offset - key;
    if (form->window && (before >= form->window || (!form->causal && -before >= form->window)))
        return -INFINITY;
    if (rows->first && (double)key < rows->first[query]) return -INFINITY;
    double score = own_score(form, rows, query, key);
    return rows->mask ? score + rows->mask[query * form->keys + key] : score;
}

static void attend(const kn_attention_form *form, const head_rows *rows, double *y, double *log_sum) {
    for (int64_t i = 0; i < form->queries; i++) {
        double *result = y + rows->y_at + i * form->y_row, most = -INFINITY, sum = 0;
        int64_t seen = keys_seen(form, rows, i);
        for (int64_t j = 0; j < seen; j++)
            most = fmax(most, score_of(form, rows, i, j));
        if (most == -INFINITY) seen = 0;
        for (int64_t j = 0; j < seen; j++) {
            double weight = exp(score_of(form, rows, i, j) - most);
            sum += weight;
            weight *= kept(form, rows, i, j);
            for (int64_t d = 0; d < form->head; d++)
                result[d] += weight * rows->v[j * form->k_row + d];
        }
        for (int64_t d = 0; d < form->head && seen > 0; d++)
            result[d] /= sum;
        log_sum[rows->sums_at + i] = seen > 0 ? most + log(sum) : 0;
    }
}

static kn_status attention_reference(kn_reference_call *call) {
    kn_attention_form form;
    kn_attention_describe(call->node, 0, &form);
    double *arrays[3] = {NULL};
    for (int i = 0; i < (form.packed ? 1 : 3); i++)
        arrays[i] = call->inputs[i].data;
    for (int64_t batch = 0; batch < form.batches; batch++)
        for (int64_t head = 0; head < form.heads; head++) {
            head_rows rows = rows_of(&form, call, arrays, batch, head);
            attend(&form, &rows, call->outputs[RESULT].data, call->outputs[LOG_SUM].data);
        }
    return KN_OK;
}

static void attend_back(const kn_attention_form *form, const head_rows *rows, const head_rows *slopes,
                        const double *dy, const double *y, const double *log_sum) {
    for (int64_t i = 0; i < form->queries; i++) {
        const double *query = rows->q + i * form->q_row, *slope = dy + rows->y_at + i * form->y_row;
        double delta = dot(slope, y + rows->y_at + i * form->y_row, form->head);
        for (int64_t j = 0; j < keys_seen(form, rows, i); j++) {
            const double *key = rows->k + j * form->k_row, *value = rows->v + j * form->k_row;
            double weight = exp(score_of(form, rows, i, j) - log_sum[rows->sums_at + i]);
            double factor = kept(form, rows, i, j);
            double score_slope = weight * (factor * dot(slope, value, form->head) - delta) * form->scale;
            if (form->softcap > 0) score_slope *= 1 - pow(own_score(form, rows, i, j) / form->softcap, 2);
            for (int64_t d = 0; d < form->head; d++) {
                slopes->q[i * form->q_row + d] += score_slope * key[d];
                slopes->k[j * form->k_row + d] += score_slope * query[d];
                slopes->v[j * form->k_row + d] += weight * factor * slope[d];
            }
        }
    }
}

static kn_status gradient_reference(kn_reference_call *call) {
    kn_attention_form form;
    kn_attention_describe(call->node, KN_ATTENTION_Q, &form);
    double *arrays[3] = {NULL}, *gradients[3] = {NULL};
    for (int i = 0; i < call->output_count; i++) {
        arrays[i] = call->inputs[KN_ATTENTION_Q + i].data;
        gradients[i] = call->outputs[i].data;
    }
    for (int64_t batch = 0; batch < form.batches; batch++)
        for (int64_t head = 0; head < form.heads; head++) {
            head_rows rows = rows_of(&form, call, arrays, batch, head),
                      slopes = rows_of(&form, call, gradients, batch, head);
            attend_back(&form, &rows, &slopes, call->inputs[KN_ATTENTION_DY].data,
                        call->inputs[KN_ATTENTION_Y].data, call->inputs[KN_ATTENTION_LOG_SUM].data);
        }
    return KN_OK;
}

/* Two products forward, five backward; half of that if causal. */
static void attention_cost(const kn_node *node, kn_cost *cost) {
    kn_attention_form form;
    bool backward = node->op->backward;
    kn_attention_describe(node, backward ? KN_ATTENTION_Q : 0, &form);
    double pairs = (double)form.batches * (double)form.heads * (double)form.queries * (double)form.keys;
    if (form.causal) pairs /= 2;
    if (form.window) {
        double seen = (double)form.window * (form.causal ? 1 : 2);
        pairs = fmin(pairs, (double)form.batches * (double)form.heads * (double)form.queries * seen);
    }
    kn_cost_set(node, (backward ? 5 : 2) * 2 * pairs * (double)form.head, cost);
}

/* ---- gradient and rows ----------------------------------------------------------------------- */

/* Lengths, first keys and masks have no gradient. The random key of the forward node reproduces the dropped
 * weights */
static kn_status attention_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[RESULT]) return KN_OK;
    kn_value *inputs[10] = {call->output_gradients[RESULT], node->outputs[RESULT], node->outputs[LOG_SUM]};
    for (int i = 0; i < node->input_count; i++)
        inputs[KN_ATTENTION_Q + i] = node->inputs[i];
    int data = count_data(node->inputs, 0, node->input_count);
    bool random = node->op->random;
    const kn_operator *separate = random ? &kn_row_attention_dropout_gradient : &kn_row_attention_gradient;
    const kn_operator *packed =
        random ? &kn_row_attention_dropout_packed_gradient : &kn_row_attention_packed_gradient;
    const kn_operator *row = data == 1 ? packed : separate;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, row);
    kn_settings_copy(&settings, node);
    kn_value *slopes = kn_gradient_build(call, row, inputs, KN_ATTENTION_Q + node->input_count, &settings);
    if (kn_value_failed(slopes)) return kn_gradient_status(call);
    for (int i = 0; i < data; i++)
        if (call->wanted[i]) call->input_gradients[i] = slopes->producer->outputs[i];
    return KN_OK;
}

/* Attention without dropout. */
static kn_status without_training(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                  kn_value **results) {
    kn_settings settings;
    kn_settings_init(&settings, bound, &kn_row_attention);
    kn_settings_copy(&settings, node);
    results[RESULT] = kn_build(&kn_row_attention, inputs, node->input_count - 1, &settings);
    return bound->error.status;
}

#define LIST                                                                                                 \
    KN_INT("heads", 1, "number of heads of q"),                                                              \
        KN_INT("key_heads", 0,                                                                               \
               "number of heads of k and v, each shared by several heads of q; 0: as many as of q"),         \
        KN_BOOLEAN("causal", 0, "each query sees only the keys up to its own position"),                     \
        KN_BOOLEAN("last", 0, "aligns the queries with the last keys instead of the first"),                 \
        KN_FLOAT("scale", 0, "factor of the scores; 0: 1 / sqrt(columns per head)"),                         \
        KN_INT(                                                                                              \
            "window", 0,                                                                                     \
            "each query sees only keys fewer than this many positions before it and, unless causal, after "  \
            "it; 0: all"),                                                                                   \
        KN_FLOAT("softcap", 0, "scores s become softcap tanh(s / softcap); 0: they stay"),                   \
        KN_BOOLEAN("slots", 0,                                                                               \
                   "k and v may have more samples than q, which reads the first ones; no gradient")
#define ATTRIBUTES KN_ATTRIBUTES(LIST)
#define RATE_TOO KN_ATTRIBUTES(LIST, KN_FLOAT("rate", 0.1, "fraction of weights dropped"))
/* The arguments are kn_halves: all except the log-sums. */
#define VARIANTS(...)                                                                                        \
    KN_VARIANTS({.name = "wide",                                                                             \
                 .choice.accepts = kn_attention_wide_accepts,                                                \
                 .lower = kn_attention_wide_lower,                                                           \
                 .promise.halves = {__VA_ARGS__},                                                            \
                 .choice.doubtful = true},                                                                   \
                {.name = "matrix",                                                                           \
                 .choice.accepts = kn_attention_matrix_accepts,                                              \
                 .lower = kn_attention_matrix_lower,                                                         \
                 .promise.halves = {__VA_ARGS__},                                                            \
                 .promise.rounds = true},                                                                    \
                {.name = "tiled",                                                                            \
                 .choice.accepts = kn_attention_tiled_accepts,                                               \
                 .lower = kn_attention_tiled_lower,                                                          \
                 .promise.halves = {__VA_ARGS__}},                                                           \
                {.name = "plain",                                                                            \
                 .choice.accepts = kn_takes_kernel_types,                                                    \
                 .lower = kn_attention_plain_lower,                                                          \
                 .promise.halves = {__VA_ARGS__}})
#define FORWARD_VARIANTS .output_names = {"y", "log_sum"}, VARIANTS(~0u, 1)
#define BACKWARD_VARIANTS .input_names = {"dy", "y", "log_sum"}, VARIANTS(~(1u << KN_ATTENTION_LOG_SUM), 7)

KN_OPERATOR(
    attention,
    .help = "softmax(scale q kᵀ) v by head, for q (B,T,columns), k and v (B,S,columns), or one packed input "
            "(B,T,3*columns); optionally with int32 lengths (B), the first key that each query sees, int32 "
            "(B,T), and a mask (B,heads,T,S) that is added to the scores",
    ATTRIBUTES, .min_inputs = 1, .max_inputs = 6, .hidden = 1, .at_sizes = kn_attention_of_parts,
    .shape = attention_shape, .gradient = attention_gradient, .reference = attention_reference,
    .cost = attention_cost, .tolerance = 2, FORWARD_VARIANTS,
    KN_CASES(
        {.inputs = {"1,3,15"}, .smallest = true},
        {.inputs = {"2,7,30"}, .attributes = "heads=2 causal=1", .smallest = true},
        {.inputs = {"1,5,15", "1,3,15", "1,3,15"}, .attributes = "heads=3", .smallest = true},
        {.inputs = {"1,33,93"}}, {.inputs = {"2,31,96"}, .attributes = "heads=2 causal=1"},
        {.inputs = {"2,7,15", "2,31,15", "2,31,15"}, .attributes = "heads=3 scale=0.3"},
        {.inputs = {"1,93,31", "1,33,31", "1,33,31"}, .attributes = "causal=1"},
        {.inputs = {"float64 1,7,30"}, .attributes = "heads=2 scale=0.3", .no_gradient = true},
        {.inputs = {"1,1,31", "1,1,31", "1,1,31"}}, {.inputs = {"1,93,192"}, .attributes = "causal=1"},
        {.inputs = {"1,7,384"}, .ranges = {"-0.5..0.5"}}, {.inputs = {"1,140,48"}, .attributes = "causal=1"},
        {.inputs = {"1,131,48"}}, {.inputs = {"1,33,48"}, .ranges = {"-9..9"}, .no_gradient = true},
        {.inputs = {"0,3,6"}}, {.inputs = {"2,0,6"}},
        {.inputs = {"2,33,155"}, .attributes = "heads=3 key_heads=1 causal=1"},
        {.inputs = {"2,7,20", "2,3,10", "2,3,10", "int32 2"},
         .attributes = "heads=4 key_heads=2 causal=1 last=1",
         .ranges = {NULL, NULL, NULL, "0..4"},
         .smallest = true},
        {.inputs = {"3,31,15", "3,93,15", "3,93,15", "int32 3"}, .ranges = {NULL, NULL, NULL, "0..93"}},
        {.inputs = {"2,1,20", "3,7,10", "3,7,10", "int32 2"},
         .attributes = "heads=4 key_heads=2 causal=1 last=1 slots=1",
         .ranges = {NULL, NULL, NULL, "0..7"},
         .smallest = true,
         .no_gradient = true},
        {.inputs = {"2,3,10", "2,7,10", "2,7,10", "2,1,3,7"},
         .attributes = "heads=2",
         .smallest = true,
         .no_gradient = true},
        {.inputs = {"2,33,60", "int32 1", "1,4,33,33"},
         .attributes = "heads=4 causal=1",
         .ranges = {NULL, "21..21"},
         .no_gradient = true},
        {.inputs = {"2,7,30"}, .attributes = "heads=2 causal=1 window=3", .smallest = true},
        {.inputs = {"1,140,48"}, .attributes = "causal=1 window=37"},
        {.inputs = {"1,131,48"}, .attributes = "window=20"},
        {.inputs = {"1,93,31", "1,33,31", "1,33,31"}, .attributes = "causal=1 window=9", .no_gradient = true},
        {.inputs = {"2,31,20", "2,93,10", "2,93,10", "int32 2"},
         .attributes = "heads=4 key_heads=2 causal=1 last=1 window=17",
         .ranges = {NULL, NULL, NULL, "0..93"}},
        {.inputs = {"2,7,30"}, .attributes = "heads=2 causal=1 scale=2 softcap=1.5", .smallest = true},
        {.inputs = {"1,140,48"}, .attributes = "causal=1 scale=1 softcap=4"},
        {.inputs = {"1,131,48"}, .attributes = "window=20 scale=9 softcap=2"},
        {.inputs = {"2,31,20", "2,93,10", "2,93,10", "int32 2", "1,4,31,93"},
         .attributes = "heads=4 key_heads=2 causal=1 last=1 scale=1 softcap=0.7",
         .ranges = {NULL, NULL, NULL, "0..93"},
         .no_gradient = true},
        {.inputs = {"float64 1,7,30"}, .attributes = "heads=2 softcap=0.5", .no_gradient = true},
        {.inputs = {"2,7,30", "int32 2,7"},
         .attributes = "heads=2 causal=1",
         .ranges = {NULL, "0..5"},
         .smallest = true},
        {.inputs = {"1,140,48", "int32 1,140"}, .attributes = "causal=1", .ranges = {NULL, "0..120"}},
        {.inputs = {"2,31,20", "2,93,10", "2,93,10", "int32 2", "int32 2,31"},
         .attributes = "heads=4 key_heads=2 causal=1 last=1 window=40",
         .ranges = {NULL, NULL, NULL, "0..93", "0..90"}},
        {.inputs = {"1,131,48", "int32 1,131"}, .attributes = "softcap=1", .ranges = {NULL, "64..140"}},
        {.inputs = {"1,31,20", "1,200,20", "1,200,20", "int32 1", "int32 1,31"},
         .attributes = "heads=2 causal=1 last=1",
         .ranges = {NULL, NULL, NULL, "150..150", "130..148"}},
        {.inputs = {"1,140,48", "int32 1,140"},
         .attributes = "causal=1",
         .ranges = {NULL, "-2147483648..-2147483648"}},
        {.inputs = {"2,1,20", "2,93,10", "2,93,10", "int32 2", "1,4,1,93"},
         .attributes = "heads=4 key_heads=2 causal=1 last=1 window=5",
         .ranges = {NULL, NULL, NULL, "0..93"},
         .no_gradient = true}));
/* Any values work for the result and the log-sums. */
#define PACKED_CASE(x, y, sums)                                                                              \
    .inputs = {y, y, sums, x}, .ranges = {NULL, NULL, "1..2", "-1..1"}, .no_gradient = true
#define APART_CASE(q, k, sums)                                                                               \
    .inputs = {q, q, sums, q, k, k}, .ranges = {NULL, NULL, "1..2", "-1..1", "-1..1"}, .no_gradient = true
#define LIMITED_CASE(q, k, sums, lengths, mask, length)                                                      \
    .inputs = {q, q, sums, q, k, k, lengths, mask},                                                          \
    .ranges = {NULL, NULL, "1..2", "-1..1", "-1..1", NULL, length}, .no_gradient = true
#define FIRST_CASE(q, k, sums, first, range)                                                                 \
    .inputs = {q, q, sums, q, k, k, first}, .ranges = {NULL, NULL, "1..2", "-1..1", "-1..1", NULL, range},   \
    .no_gradient = true
KN_OPERATOR(attention_gradient, .help = "gradients of attention with respect to q, k and v", ATTRIBUTES,
            .min_inputs = 6, .max_inputs = 9, .outputs = 3, .backward = true, .wrong = gradient_wrong,
            .shape = gradient_shape, .reference = gradient_reference, .cost = attention_cost, .tolerance = 2,
            BACKWARD_VARIANTS,
            KN_CASES({APART_CASE("1,3,10", "1,7,10", "1,2,3"), .attributes = "heads=2", .smallest = true},
                     {APART_CASE("2,33,31", "2,7,31", "2,1,33"), .attributes = "causal=1"},
                     {APART_CASE("1,31,32", "1,93,32", "1,2,31"), .attributes = "heads=2 scale=0.1"},
                     {APART_CASE("0,3,6", "0,5,6", "0,2,3"), .attributes = "heads=2"},
                     {LIMITED_CASE("2,3,20", "2,7,10", "2,4,3", "int32 2", "1,4,3,7", "0..7"),
                      .attributes = "heads=4 key_heads=2 causal=1 last=1", .smallest = true},
                     {LIMITED_CASE("1,7,20", "1,93,10", "1,4,7", "int32 1", "1,4,7,93", "71..71"),
                      .attributes = "heads=4 key_heads=2 causal=1 last=1", .smallest = true},
                     {LIMITED_CASE("2,93,20", "2,33,10", "2,4,93", "int32 1", "2,1,93,33", "31..31"),
                      .attributes = "heads=4 key_heads=2"},
                     {APART_CASE("2,33,31", "2,93,31", "2,1,33"), .attributes = "causal=1 window=4",
                      .smallest = true},
                     {APART_CASE("1,93,32", "1,33,32", "1,2,93"), .attributes = "heads=2 window=12"},
                     {LIMITED_CASE("1,7,20", "1,93,10", "1,4,7", "int32 1", "1,4,7,93", "71..71"),
                      .attributes = "heads=4 key_heads=2 causal=1 last=1 window=6"},
                     {APART_CASE("2,33,31", "2,93,31", "2,1,33"),
                      .attributes = "causal=1 window=20 scale=1 softcap=3", .smallest = true},
                     {APART_CASE("1,31,32", "1,93,32", "1,2,31"), .attributes = "heads=2 softcap=0.5"},
                     {FIRST_CASE("2,33,20", "2,33,10", "2,4,33", "int32 2,33", "0..30"),
                      .attributes = "heads=4 key_heads=2 causal=1", .smallest = true},
                     {FIRST_CASE("1,200,32", "1,200,32", "1,2,200", "int32 1,200", "64..190"),
                      .attributes = "heads=2 causal=1"},
                     {FIRST_CASE("2,93,31", "2,33,31", "2,1,93", "int32 1,93", "20..40"),
                      .attributes = "window=60"},
                     {LIMITED_CASE("1,7,20", "1,93,10", "1,4,7", "int32 1", "1,4,7,93", "71..71"),
                      .attributes = "heads=4 key_heads=2 causal=1 last=1 scale=1 softcap=2"}));
KN_OPERATOR(
    attention_packed_gradient, .help = "gradient of attention with respect to packed q, k and v", ATTRIBUTES,
    .min_inputs = 4, .max_inputs = 7, .backward = true, .shape = gradient_shape,
    .reference = gradient_reference, .cost = attention_cost, .tolerance = 2, BACKWARD_VARIANTS,
    KN_CASES({PACKED_CASE("1,3,30", "1,3,10", "1,2,3"), .attributes = "heads=2 causal=1", .smallest = true},
             {PACKED_CASE("2,33,93", "2,33,31", "2,1,33")},
             {PACKED_CASE("1,140,96", "1,140,32", "1,2,140"), .attributes = "heads=2 causal=1"},
             {PACKED_CASE("1,93,192", "1,93,64", "1,1,93"), .attributes = "causal=1"},
             {PACKED_CASE("1,140,96", "1,140,32", "1,2,140"), .attributes = "heads=2 causal=1 window=33"},
             {PACKED_CASE("1,140,96", "1,140,32", "1,2,140"),
              .attributes = "heads=2 causal=1 scale=1 softcap=1"},
             {.inputs = {"1,140,32", "1,140,32", "1,2,140", "1,140,96", "int32 1,140"},
              .attributes = "heads=2 causal=1",
              .ranges = {NULL, NULL, "1..2", "-1..1", "0..139"},
              .no_gradient = true}));

KN_OPERATOR(attention_dropout, .help = "attention with dropout of the weights in training", RATE_TOO,
            .min_inputs = 2, .max_inputs = 7, .hidden = 1, .random = true, .at_sizes = kn_attention_of_parts,
            .shape = attention_shape, .gradient = attention_gradient, .without_training = without_training,
            .reference = attention_reference, .cost = attention_cost, .tolerance = 2, FORWARD_VARIANTS,
            KN_CASES({.inputs = {"2,7,20", "2,3,10", "2,3,10", "int32 2", "uint32"},
                      .attributes = "heads=4 key_heads=2 causal=1 last=1 rate=0.25",
                      .ranges = {NULL, NULL, NULL, "0..4", "0..9"},
                      .training = true,
                      .smallest = true},
                     {.inputs = {"2,33,155", "uint32"},
                      .attributes = "heads=3 key_heads=1 causal=1 rate=0.5",
                      .ranges = {NULL, "0..9"},
                      .training = true},
                     {.inputs = {"2,33,155", "uint32"},
                      .attributes = "heads=3 key_heads=1 causal=1 softcap=0.6 rate=0.5",
                      .ranges = {NULL, "0..9"},
                      .training = true},
                     {.inputs = {"1,3,15", "uint32"}, .ranges = {NULL, "0..9"}}));
KN_OPERATOR(attention_dropout_gradient, .help = "gradients of attention_dropout with respect to q, k and v",
            RATE_TOO, .min_inputs = 7, .max_inputs = 10, .outputs = 3, .backward = true, .random = true,
            .shape = gradient_shape, .reference = gradient_reference, .cost = attention_cost, .tolerance = 2,
            BACKWARD_VARIANTS,
            KN_CASES({.inputs = {"1,31,32", "1,31,32", "1,2,31", "1,31,32", "1,93,16", "1,93,16", "uint32"},
                      .attributes = "heads=2 key_heads=1 rate=0.25",
                      .ranges = {NULL, NULL, "1..2", "-1..1", "-1..1", NULL, "0..9"},
                      .no_gradient = true,
                      .training = true,
                      .smallest = true}));
KN_OPERATOR(attention_dropout_packed_gradient,
            .help = "gradient of attention_dropout with respect to packed q, k and v", RATE_TOO,
            .min_inputs = 5, .max_inputs = 8, .backward = true, .random = true, .shape = gradient_shape,
            .reference = gradient_reference, .cost = attention_cost, .tolerance = 2, BACKWARD_VARIANTS,
            KN_CASES({.inputs = {"1,3,10", "1,3,10", "1,2,3", "1,3,30", "uint32"},
                      .attributes = "heads=2 causal=1",
                      .ranges = {NULL, NULL, "1..2", "-1..1", "0..9"},
                      .no_gradient = true,
                      .training = true,
                      .smallest = true}));

/* ---- builders ------------------------------------------------------------------------------------------ */

/* The mask to add to scores: 0 where a bool mask is true, minus infinity elsewhere. */
static kn_value *mask_of(kn_value *mask, kn_dtype dtype) {
    if (kn_value_failed(mask) || mask->shape.dtype != KN_BOOL) return mask;
    kn_value *added = kn_where(mask, kn_scalar(mask->graph, 0), kn_scalar(mask->graph, -INFINITY));
    return dtype == KN_FLOAT32 ? added : kn_cast(added, dtype);
}

static kn_value *build(kn_value *const *data, int count, const kn_attention_params *params) {
    if (kn_value_failed(data[0])) return data[0];
    kn_attention_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(data[0], kn_attention_params, &given, params);
    kn_value *inputs[7];
    for (int i = 0; i < count; i++)
        inputs[i] = data[i];
    if (given.lengths) inputs[count++] = given.lengths;
    if (given.first) inputs[count++] = given.first;
    if (given.mask) inputs[count++] = mask_of(given.mask, data[0]->shape.dtype);
    bool drops = given.dropout != 0;
    const kn_operator *row = drops ? &kn_row_attention_dropout : &kn_row_attention;
    if (drops) inputs[count++] = kn_step_counter(data[0]->graph);
    kn_settings settings;
    kn_settings_init(&settings, data[0]->graph, row);
    if (drops) kn_settings_float(&settings, "rate", given.dropout);
    kn_settings_int(&settings, "heads", given.heads ? given.heads : 1);
    kn_settings_int(&settings, "key_heads", given.key_heads);
    kn_settings_int(&settings, "causal", given.causal);
    kn_settings_int(&settings, "last", given.last);
    kn_settings_float(&settings, "scale", given.scale);
    kn_settings_int(&settings, "window", given.window);
    kn_settings_float(&settings, "softcap", given.softcap);
    kn_settings_int(&settings, "slots", given.slots);
    return kn_build(row, inputs, count, &settings);
}

kn_value *kn_attention(kn_value *q, kn_value *k, kn_value *v, const kn_attention_params *params) {
    return build((kn_value *const[]){q, k, v}, 3, params);
}
kn_value *kn_attention_packed(kn_value *qkv, const kn_attention_params *params) {
    return build(&qkv, 1, params);
}
