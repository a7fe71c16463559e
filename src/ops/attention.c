/* Scaled dot-product attention: softmax(scale Q Kᵀ) V by head. Scores are made and used up tile by tile. */
#include "ops/attention_private.h"

#include <math.h>

enum { RESULT, LOG_SUM };

void kn_attention_describe(const kn_node *node, int first, kn_attention_form *form) {
    const kn_shape *q = &node->inputs[first]->shape;
    *form = (kn_attention_form){.packed = node->input_count == first + 1};
    form->heads = kn_attribute_of(node, "heads")->integer;
    form->causal = kn_attribute_of(node, "causal")->integer != 0;
    form->batches = q->dims[0];
    form->queries = form->keys = q->dims[1];
    int64_t width = form->packed ? q->dims[2] / 3 : q->dims[2];
    if (!form->packed) form->keys = node->inputs[first + 1]->shape.dims[1];
    form->head = width / form->heads;
    form->q_row = form->k_row = q->dims[2];
    form->y_row = width;
    if (form->packed) {
        form->k_first = width;
        form->v_first = 2 * width;
    }
    double scale = kn_attribute_of(node, "scale")->number;
    form->scale = scale != 0 ? scale : form->head > 0 ? 1 / sqrt((double)form->head) : 1;
}

/* ---- shapes ---------------------------------------------------------------------------------------- */

static kn_status check_heads(kn_shape_call *call, int first) {
    const kn_shape *q = &call->inputs[first]->shape;
    bool packed = call->input_count == first + 1;
    int64_t heads = kn_shape_attribute(call, "heads")->integer, parts = packed ? 3 : 1;
    for (int i = first; i < call->input_count; i++)
        if (kn_shape_float_input(call, i)) return call->error->status;
    if (heads < 1)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "%lld heads; expected at least 1", (long long)heads);
    if (q->rank != 3 || !kn_dim_known(q->dims[2]) || heads > INT64_MAX / 3 || q->dims[2] % (parts * heads))
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "%s is %s; expected (batch,length,columns) with columns a multiple of %lld",
                             packed ? "the array of q, k and v" : "q", kn_shape_words_of(call, first),
                             (long long)(parts * heads));
    return KN_OK;
}

/* One input, q, k and v side by side, (B,T,3*heads*D); or three, q (B,T,heads*D), k and v (B,S,heads*D). The
 * result is (B,T,heads*D); hidden is the logarithm of each query's sum of exp(score), (B,heads,T). */
static kn_status attention_shape(kn_shape_call *call) {
    const kn_shape *q = &call->inputs[0]->shape;
    if (call->input_count == 2)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "two inputs; expected q, k and v, or one array of all");
    if (check_heads(call, 0)) return call->error->status;
    for (int i = 1; i < call->input_count; i++) {
        const kn_shape *own = &call->inputs[i]->shape, *keys = &call->inputs[1]->shape;
        if (own->dtype != q->dtype || own->rank != 3 || own->dims[0] != q->dims[0] ||
            own->dims[1] != keys->dims[1] || own->dims[2] != q->dims[2])
            return kn_shape_fail(
                call, KN_ERROR_SHAPE,
                "q is %s, k is %s and v is %s; expected (B,T,columns) and twice (B,S,columns)",
                kn_shape_words_of(call, 0), kn_shape_words_of(call, 1), kn_shape_words_of(call, 2));
    }
    kn_shape *y = &call->outputs[RESULT], *sums = &call->outputs[LOG_SUM];
    *y = *sums = *q;
    if (call->input_count == 1) y->dims[2] = q->dims[2] / 3;
    sums->dims[1] = kn_shape_attribute(call, "heads")->integer;
    sums->dims[2] = q->dims[1];
    return KN_OK;
}

/* dy, y, log_sum, then what the attention had; the results are the gradients of that. */
static kn_status gradient_shape(kn_shape_call *call) {
    if (check_heads(call, KN_ATTENTION_Q)) return call->error->status;
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i] = call->inputs[KN_ATTENTION_Q + i]->shape;
    return KN_OK;
}

/* ---- references -------------------------------------------------------------------------------------- */

/* Rows of q, k, v or of their gradients, whose arrays are given, for a head of a batch. */
typedef struct head_rows {
    double *q, *k, *v;
    int64_t y_at, sums_at;
} head_rows;

static head_rows rows_of(const kn_attention_form *form, double *const *arrays, int64_t batch, int64_t head) {
    double *k = form->packed ? arrays[0] : arrays[1], *v = form->packed ? arrays[0] : arrays[2];
    int64_t in_head = head * form->head;
    return (head_rows){arrays[0] + form->q_first + batch * form->queries * form->q_row + in_head,
                       k + form->k_first + batch * form->keys * form->k_row + in_head,
                       v + form->v_first + batch * form->keys * form->k_row + in_head,
                       batch * form->queries * form->y_row + in_head,
                       (batch * form->heads + head) * form->queries};
}

static double dot(const double *left, const double *right, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += left[i] * right[i];
    return sum;
}

static int64_t keys_seen(const kn_attention_form *form, int64_t query) {
    return form->causal && query + 1 < form->keys ? query + 1 : form->keys;
}

static void attend(const kn_attention_form *form, const head_rows *rows, double *y, double *log_sum) {
    for (int64_t i = 0; i < form->queries; i++) {
        const double *query = rows->q + i * form->q_row;
        double *result = y + rows->y_at + i * form->y_row, most = -INFINITY, sum = 0;
        int64_t seen = keys_seen(form, i);
        for (int64_t j = 0; j < seen; j++)
            most = fmax(most, form->scale * dot(query, rows->k + j * form->k_row, form->head));
        for (int64_t j = 0; j < seen; j++) {
            double weight = exp(form->scale * dot(query, rows->k + j * form->k_row, form->head) - most);
            sum += weight;
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
    double *arrays[3];
    for (int i = 0; i < call->input_count; i++)
        arrays[i] = call->inputs[i].data;
    for (int64_t batch = 0; batch < form.batches; batch++)
        for (int64_t head = 0; head < form.heads; head++) {
            head_rows rows = rows_of(&form, arrays, batch, head);
            attend(&form, &rows, call->outputs[RESULT].data, call->outputs[LOG_SUM].data);
        }
    return KN_OK;
}

static void attend_back(const kn_attention_form *form, const head_rows *rows, const head_rows *slopes,
                        const double *dy, const double *y, const double *log_sum) {
    for (int64_t i = 0; i < form->queries; i++) {
        const double *query = rows->q + i * form->q_row, *slope = dy + rows->y_at + i * form->y_row;
        double delta = dot(slope, y + rows->y_at + i * form->y_row, form->head);
        for (int64_t j = 0; j < keys_seen(form, i); j++) {
            const double *key = rows->k + j * form->k_row, *value = rows->v + j * form->k_row;
            double weight = exp(form->scale * dot(query, key, form->head) - log_sum[rows->sums_at + i]);
            double score_slope = weight * (dot(slope, value, form->head) - delta) * form->scale;
            for (int64_t d = 0; d < form->head; d++) {
                slopes->q[i * form->q_row + d] += score_slope * key[d];
                slopes->k[j * form->k_row + d] += score_slope * query[d];
                slopes->v[j * form->k_row + d] += weight * slope[d];
            }
        }
    }
}

static kn_status gradient_reference(kn_reference_call *call) {
    kn_attention_form form;
    kn_attention_describe(call->node, KN_ATTENTION_Q, &form);
    double *arrays[3], *gradients[3];
    for (int i = 0; i < call->output_count; i++) {
        arrays[i] = call->inputs[KN_ATTENTION_Q + i].data;
        gradients[i] = call->outputs[i].data;
    }
    for (int64_t batch = 0; batch < form.batches; batch++)
        for (int64_t head = 0; head < form.heads; head++) {
            head_rows rows = rows_of(&form, arrays, batch, head),
                      slopes = rows_of(&form, gradients, batch, head);
            attend_back(&form, &rows, &slopes, call->inputs[KN_ATTENTION_DY].data,
                        call->inputs[KN_ATTENTION_Y].data, call->inputs[KN_ATTENTION_LOG_SUM].data);
        }
    return KN_OK;
}

/* Two products forward, five backward; half of that where half is masked. */
static void attention_cost(const kn_node *node, kn_cost *cost) {
    kn_attention_form form;
    bool backward = node->operator->backward;
    kn_attention_describe(node, backward ? KN_ATTENTION_Q : 0, &form);
    double pairs = (double)form.batches * (double)form.heads * (double)form.queries * (double)form.keys;
    if (form.causal) pairs /= 2;
    kn_cost_set(node, (backward ? 5 : 2) * 2 * pairs * (double)form.head, cost);
}

/* ---- gradient and rows -----------------------------------------------------------------------------------
 */

static kn_status attention_gradient(kn_gradient_call *call) {
    const kn_node *node = call->node;
    if (!call->output_gradients[RESULT]) return KN_OK;
    kn_value *inputs[6] = {call->output_gradients[RESULT], node->outputs[RESULT], node->outputs[LOG_SUM]};
    for (int i = 0; i < node->input_count; i++)
        inputs[KN_ATTENTION_Q + i] = node->inputs[i];
    const kn_operator *row =
        node->input_count == 1 ? &kn_row_attention_packed_gradient : &kn_row_attention_gradient;
    kn_settings settings;
    kn_settings_init(&settings, call->graph, row);
    kn_settings_int(&settings, "heads", kn_attribute_of(node, "heads")->integer);
    kn_settings_int(&settings, "causal", kn_attribute_of(node, "causal")->integer);
    kn_settings_float(&settings, "scale", kn_attribute_of(node, "scale")->number);
    kn_value *data = kn_gradient_build(call, row, inputs, KN_ATTENTION_Q + node->input_count, &settings);
    if (kn_value_failed(data)) return kn_gradient_status(call);
    for (int i = 0; i < node->input_count; i++)
        if (call->wanted[i]) call->input_gradients[i] = data->producer->outputs[i];
    return KN_OK;
}

#define ATTRIBUTES                                                                                           \
    KN_ATTRIBUTES(KN_INT("heads", 1, "parts into which the columns are split"),                              \
                  KN_BOOLEAN("causal", 0, "each query sees the keys up to its own position"),                \
                  KN_FLOAT("scale", 0, "factor of the scores; 0: 1 / sqrt(columns of a head)"))
#define VARIANTS                                                                                             \
    KN_VARIANTS({.name = "wide",                                                                             \
                 .accepts = kn_attention_wide_accepts,                                                       \
                 .lower = kn_attention_wide_lower,                                                           \
                 .doubtful = true},                                                                          \
                {.name = "tiled", .accepts = kn_attention_tiled_accepts, .lower = kn_attention_tiled_lower})

KN_OPERATOR(
    attention,
    .help = "softmax(scale q kᵀ) v by head, for q (B,T,columns), k and v (B,S,columns), or all three side by "
            "side in one (B,T,3*columns)",
    ATTRIBUTES, .min_inputs = 1, .max_inputs = 3, .hidden = 1, .shape = attention_shape,
    .gradient = attention_gradient, .reference = attention_reference, .cost = attention_cost, .tolerance = 2,
    VARIANTS,
    KN_CASES({.inputs = {"1,3,15"}, .smallest = true},
             {.inputs = {"2,7,30"}, .attributes = "heads=2 causal=1", .smallest = true},
             {.inputs = {"1,5,15", "1,3,15", "1,3,15"}, .attributes = "heads=3", .smallest = true},
             {.inputs = {"1,33,93"}}, {.inputs = {"2,31,96"}, .attributes = "heads=2 causal=1"},
             {.inputs = {"2,7,15", "2,31,15", "2,31,15"}, .attributes = "heads=3 scale=0.3"},
             {.inputs = {"1,93,31", "1,33,31", "1,33,31"}, .attributes = "causal=1"},
             {.inputs = {"1,1,31", "1,1,31", "1,1,31"}}, {.inputs = {"1,93,192"}, .attributes = "causal=1"},
             {.inputs = {"1,7,384"}, .ranges = {"-0.5..0.5"}},
             {.inputs = {"1,140,48"}, .attributes = "causal=1"}, {.inputs = {"1,131,48"}},
             {.inputs = {"1,33,48"}, .ranges = {"-9..9"}, .no_gradient = true}, {.inputs = {"0,3,6"}},
             {.inputs = {"2,0,6"}}));
/* Any numbers do for the result and the sums. */
#define PACKED_CASE(x, y, sums)                                                                              \
    .inputs = {y, y, sums, x}, .ranges = {NULL, NULL, "1..2", "-1..1"}, .no_gradient = true
#define APART_CASE(q, k, sums)                                                                               \
    .inputs = {q, q, sums, q, k, k}, .ranges = {NULL, NULL, "1..2", "-1..1", "-1..1"}, .no_gradient = true
KN_OPERATOR(attention_gradient, .help = "gradients of attention by q, k and v", ATTRIBUTES, .min_inputs = 6,
            .max_inputs = 6, .outputs = 3, .backward = true, .shape = gradient_shape,
            .reference = gradient_reference, .cost = attention_cost, .tolerance = 2, VARIANTS,
            KN_CASES({APART_CASE("1,3,10", "1,7,10", "1,2,3"), .attributes = "heads=2", .smallest = true},
                     {APART_CASE("2,33,31", "2,7,31", "2,1,33"), .attributes = "causal=1"},
                     {APART_CASE("1,31,32", "1,93,32", "1,2,31"), .attributes = "heads=2 scale=0.1"},
                     {APART_CASE("0,3,6", "0,5,6", "0,2,3"), .attributes = "heads=2"}));
KN_OPERATOR(attention_packed_gradient, .help = "gradient of attention by q, k and v side by side", ATTRIBUTES,
            .min_inputs = 4, .max_inputs = 4, .backward = true, .shape = gradient_shape,
            .reference = gradient_reference, .cost = attention_cost, .tolerance = 2, VARIANTS,
            KN_CASES({PACKED_CASE("1,3,30", "1,3,10", "1,2,3"), .attributes = "heads=2 causal=1",
                      .smallest = true},
                     {PACKED_CASE("2,33,93", "2,33,31", "2,1,33")},
                     {PACKED_CASE("1,140,96", "1,140,32", "1,2,140"), .attributes = "heads=2 causal=1"},
                     {PACKED_CASE("1,93,192", "1,93,64", "1,1,93"), .attributes = "causal=1"}));

/* ---- builders
 * ----------------------------------------------------------------------------------------------- */

static kn_value *build(kn_value *const *inputs, int count, const kn_attention_params *params) {
    if (kn_value_failed(inputs[0])) return inputs[0];
    kn_attention_params given = {.size = sizeof given};
    KN_TAKE_PARAMS(given, params);
    kn_settings settings;
    kn_settings_init(&settings, inputs[0]->graph, &kn_row_attention);
    kn_settings_int(&settings, "heads", given.heads ? given.heads : 1);
    kn_settings_int(&settings, "causal", given.causal);
    kn_settings_float(&settings, "scale", given.scale);
    return kn_build(&kn_row_attention, inputs, count, &settings);
}

kn_value *kn_attention(kn_value *q, kn_value *k, kn_value *v, const kn_attention_params *params) {
    return build((kn_value *const[]){q, k, v}, 3, params);
}
kn_value *kn_attention_packed(kn_value *qkv, const kn_attention_params *params) {
    return build(&qkv, 1, params);
}
