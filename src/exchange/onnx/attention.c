/* Attention with masks and caches, and rotary position embeddings. */
#include "exchange/onnx/attention.h"

#include <math.h>

typedef struct attention {
    kn_import_call *call;
    kn_import *import;
    kn_value *q, *k, *v; /* (N,heads,length,size) */
    kn_value *scores;    /* what output 3 returns */
    int64_t q_heads, kv_heads;
    bool flat;        /* the inputs are (N,length,heads*size) */
    kn_value *offset; /* int32: number of keys before the first query, a scalar or (N,1,1,1) */
    kn_value *bias;   /* added to the scores, or NULL */
} attention;

kn_value *kn_split_heads(kn_import *import, kn_value *x, int64_t heads) {
    const kn_dim dims[4] = {x->shape.dims[0], x->shape.dims[1], heads, -1};
    return kn_transpose(kn_reshape(x, kn_import_dims_text(import, dims, 4)), "0,2,1,3");
}

kn_value *kn_merge_heads(kn_import *import, kn_value *x) {
    const kn_dim dims[3] = {x->shape.dims[0], x->shape.dims[2],
                            kn_dim_multiply(import->graph, x->shape.dims[1], x->shape.dims[3])};
    return kn_import_reshape(import, kn_transpose(x, "0,2,1,3"), dims, 3);
}

static kn_value *float_scalar(const attention *a, double number) {
    return kn_import_scalar(a->import, a->q->shape.dtype, number);
}

static void add_bias(attention *a, kn_value *more) {
    a->bias = a->bias ? kn_add(a->bias, more) : more;
}

/* 0 where the mask is true, minus infinity elsewhere. */
static kn_value *bias_of(const attention *a, kn_value *allowed) {
    return kn_where(allowed, float_scalar(a, 0), float_scalar(a, -INFINITY));
}

/* Adds the mask as a bias, its last axis padded to the number of keys. */
static void add_mask(attention *a) {
    kn_value *mask = kn_import_in(a->call, 3);
    if (mask->shape.dtype == KN_BOOL) mask = bias_of(a, mask);
    mask = kn_import_cast(mask, a->q->shape.dtype);
    kn_dim keys = a->k->shape.dims[2];
    int rank = mask->shape.rank;
    const kn_dim size = rank ? mask->shape.dims[rank - 1] : keys;
    if (kn_dim_known(size) && kn_dim_known(keys) && size < keys) {
        int64_t amounts[KN_IMPORT_LIST] = {0};
        amounts[2 * rank - 1] = keys - size;
        mask = kn_pad(mask, kn_import_list(a->import, amounts, 2 * rank), -INFINITY);
    }
    add_bias(a, mask);
}

/* Adds the bias for causal attention and lengths, from the positions of queries and keys. */
static void add_position_bias(attention *a) {
    kn_import_call *call = a->call;
    int64_t left = kn_import_int(call, "left_window_size", -1),
            right = kn_import_int(call, "right_window_size", -1);
    bool causal = kn_import_int(call, "is_causal", 0) != 0;
    if (!causal && left < 0 && right < 0) return;
    kn_value *i = kn_unsqueeze(kn_import_range(a->import, a->q->shape.dims[2]), "1");
    kn_value *j = kn_import_range(a->import, a->k->shape.dims[2]);
    kn_value *position = kn_add(i, a->offset);
    if (causal) add_bias(a, bias_of(a, kn_less_equal(j, position)));
    if (left >= 0)
        add_bias(a, bias_of(a, kn_less_equal(kn_sub(position, j),
                                             kn_import_scalar(a->import, KN_INT32, (double)left))));
    if (right >= 0)
        add_bias(a, bias_of(a, kn_less_equal(kn_sub(j, position),
                                             kn_import_scalar(a->import, KN_INT32, (double)right))));
}

kn_value *kn_import_size(kn_import *import, kn_dim dim) {
    kn_item item = {.dtype = KN_INT32, .sizes = &dim, .count = 1};
    return kn_item_value(import, &item);
}

static kn_status take_inputs(attention *a) {
    kn_import_call *call = a->call;
    a->q = kn_import_in(call, 0);
    a->k = kn_import_in(call, 1);
    a->v = kn_import_in(call, 2);
    a->flat = a->q->shape.rank == 3;
    if (a->q->shape.rank != a->k->shape.rank || a->k->shape.rank != a->v->shape.rank ||
        (!a->flat && a->q->shape.rank != 4))
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected queries, keys and values with the same rank, 3 or 4");
    a->q_heads = a->flat ? kn_import_int(call, "q_num_heads", 1) : a->q->shape.dims[1];
    a->kv_heads = a->flat ? kn_import_int(call, "kv_num_heads", a->q_heads) : a->k->shape.dims[1];
    if (a->q_heads < 1 || a->kv_heads < 1 || a->q_heads % a->kv_heads)
        return kn_import_fail(
            call, KN_ERROR_SHAPE,
            "expected the number of query heads to be a multiple of the number of key heads");
    return kn_import_status(call);
}

/* The attention operator suffices if there are only queries, keys and values of the same size. */
static bool is_plain(const attention *a) {
    const kn_import_call *call = a->call;
    return call->input_count <= 3 && a->q_heads == a->kv_heads && call->output_count == 1 &&
           kn_import_float(call, "softcap", 0) >= 0 && kn_import_int(call, "left_window_size", -1) < 0 &&
           kn_import_int(call, "right_window_size", -1) < 0 &&
           a->k->shape.dims[a->flat ? 2 : 3] == a->v->shape.dims[a->flat ? 2 : 3];
}

static kn_status plain(attention *a) {
    kn_attention_params params = {.size = sizeof params,
                                  .heads = a->flat ? a->q_heads : 1,
                                  .causal = kn_import_int(a->call, "is_causal", 0) != 0,
                                  .scale = kn_import_float(a->call, "scale", 0),
                                  .softcap = kn_import_float(a->call, "softcap", 0)};
    if (a->flat) return kn_import_put(a->call, 0, kn_attention(a->q, a->k, a->v, &params));
    kn_value *rows[3] = {a->q, a->k, a->v};
    for (int i = 0; i < 3; i++) {
        const kn_dim *d = rows[i]->shape.dims;
        const kn_dim dims[3] = {kn_dim_multiply(a->call->graph, d[0], d[1]), d[2], d[3]};
        rows[i] = kn_import_reshape(a->import, rows[i], dims, 3);
    }
    kn_dim dims[4];
    memcpy(dims, a->q->shape.dims, sizeof dims);
    return kn_import_put(
        a->call, 0, kn_import_reshape(a->import, kn_attention(rows[0], rows[1], rows[2], &params), dims, 4));
}

/* Prepends cached keys and values. */
static void join_past(attention *a) {
    kn_import_call *call = a->call;
    kn_value *valid = NULL;
    a->offset = kn_import_scalar(a->import, KN_INT32, 0);
    if (kn_import_has(call, 4)) {
        kn_value *past_key = kn_import_in(call, 4), *past_value = kn_import_in(call, 5);
        a->offset = kn_import_size(a->import, past_key->shape.dims[2]);
        a->k = kn_concat((kn_value *[]){past_key, a->k}, 2, 2);
        a->v = kn_concat((kn_value *[]){past_value, a->v}, 2, 2);
    } else if (kn_import_has(call, 6)) {
        valid = kn_import_in(call, 6);
        const kn_dim dims[4] = {a->q->shape.dims[0], 1, 1, 1};
        valid = kn_import_reshape(a->import, kn_import_cast(valid, KN_INT32), dims, 4);
        a->offset = kn_sub(valid, kn_import_size(a->import, a->q->shape.dims[2]));
    }
    kn_import_put(call, 1, a->k);
    kn_import_put(call, 2, a->v);
    if (kn_import_has(call, 3)) add_mask(a);
    add_position_bias(a);
    if (valid) add_bias(a, bias_of(a, kn_less(kn_import_range(a->import, a->k->shape.dims[2]), valid)));
}

/* Softmax over the keys; zeros for queries that see no key. */
static kn_value *probabilities(attention *a, kn_value *scores) {
    if (!a->bias) return kn_softmax(scores, -1);
    kn_value *none = kn_less(kn_reduce_max(a->bias, "-1", true), float_scalar(a, -3e38));
    kn_value *attention_weights = kn_softmax(kn_where(none, float_scalar(a, 0), scores), -1);
    return kn_where(none, float_scalar(a, 0), attention_weights);
}

static kn_status build_attention(kn_import_call *call) {
    attention a = {.call = call, .import = call->import};
    if (take_inputs(&a) != KN_OK) return kn_import_status(call);
    if (is_plain(&a)) return plain(&a);
    int64_t mode = kn_import_int(call, "qk_matmul_output_mode", 0);
    if (a.flat) {
        a.q = kn_split_heads(a.import, a.q, a.q_heads);
        a.k = kn_split_heads(a.import, a.k, a.kv_heads);
        a.v = kn_split_heads(a.import, a.v, a.kv_heads);
    }
    join_past(&a);
    kn_dim size = a.q->shape.dims[3];
    if (!kn_dim_known(size) || size < 1)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the head size is dynamic; expected a fixed size");
    double scale = kn_import_float(call, "scale", 0), softcap = kn_import_float(call, "softcap", 0);
    int64_t times = a.q_heads / a.kv_heads;
    kn_value *k = times > 1 ? kn_repeat(a.k, 1, times) : a.k, *v = times > 1 ? kn_repeat(a.v, 1, times) : a.v;
    kn_value *scores = kn_scale(kn_matmul(a.q, k, false, true), scale != 0 ? scale : 1 / sqrt((double)size));
    if (softcap > 0) scores = kn_scale(kn_tanh(kn_scale(scores, 1 / softcap)), softcap);
    a.scores = scores;
    if (a.bias) scores = kn_add(scores, a.bias);
    if (mode == 2) a.scores = scores;
    kn_value *attention_weights = probabilities(&a, scores),
             *y = kn_matmul(attention_weights, v, false, false);
    if (mode == 3) a.scores = attention_weights;
    if (a.flat) y = kn_merge_heads(a.import, y);
    kn_import_put(call, 3, a.scores);
    return kn_import_put(call, 0, y);
}

/* ---- rotary embeddings --------------------------------------------------------------------------------- */

kn_value *kn_import_rotate(kn_import *import, kn_value *x, kn_value *cosine, kn_value *sine, int64_t part,
                           bool interleaved) {
    int64_t half = part / 2;
    kn_value *rotated = kn_slice(x, 3, 0, part), *rest = NULL;
    if (x->shape.dims[3] != part) rest = kn_slice(x, 3, part, INT64_MAX);
    kn_value *first =
        interleaved ? kn_import_slice(import, rotated, 3, 0, INT64_MAX, 2) : kn_slice(rotated, 3, 0, half);
    kn_value *second =
        interleaved ? kn_import_slice(import, rotated, 3, 1, INT64_MAX, 2) : kn_slice(rotated, 3, half, part);
    kn_value *real = kn_sub(kn_mul(cosine, first), kn_mul(sine, second));
    kn_value *imaginary = kn_add(kn_mul(sine, first), kn_mul(cosine, second));
    kn_value *parts[2] = {real, imaginary};
    if (interleaved) {
        kn_dim dims[4] = {x->shape.dims[0], x->shape.dims[1], x->shape.dims[2], part};
        rotated = kn_import_reshape(import, kn_stack(parts, 2, 4), dims, 4);
    } else {
        rotated = kn_concat(parts, 2, 3);
    }
    parts[0] = rotated;
    parts[1] = rest;
    return rest ? kn_concat(parts, 2, 3) : rotated;
}

/* The tables (positions,half), gathered by `position_ids`: (N,length), or for ONNX Runtime (1), the first
 * position. */
static kn_status rotary(kn_import_call *call) {
    const bool runtime = !strcmp(call->node->domain, KN_MICROSOFT);
    kn_value *x = kn_import_in(call, 0), *cosine = kn_import_in(call, runtime ? 2 : 1);
    kn_value *sine = kn_import_in(call, runtime ? 3 : 2),
             *positions = kn_import_optional(call, runtime ? 1 : 3);
    kn_import *import = call->import;
    const kn_shape shape = x->shape;
    int64_t heads = kn_import_int(call, "num_heads", 0),
            part = kn_import_int(call, "rotary_embedding_dim", 0);
    const bool one = positions && runtime && positions->shape.rank == 1;
    if (kn_import_int(call, "is_packed_batching", 0) || kn_import_float(call, "scale", 1) != 1)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "scale and is_packed_batching are not supported");
    if (runtime && heads == 0 && shape.rank == 3 && cosine->shape.rank == 2 && kn_dim_known(shape.dims[2]) &&
        kn_dim_known(cosine->shape.dims[1]) && cosine->shape.dims[1] > 0)
        heads = shape.dims[2] / (2 * cosine->shape.dims[1]);
    if (shape.rank == 3 && heads < 1) return kn_import_fail(call, KN_ERROR_FORMAT, "num_heads is missing");
    if (shape.rank != 3 && shape.rank != 4)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected x with 3 or 4 axes");
    if (one) /* the first of consecutive positions */
        positions = kn_unsqueeze(
            kn_add(kn_import_range(import, shape.dims[shape.rank - 2]), kn_import_cast(positions, KN_INT32)),
            "0");
    if (positions) {
        cosine = kn_gather(cosine, positions, 0);
        sine = kn_gather(sine, positions, 0);
    }
    const kn_dim dims[4] = {shape.dims[0], shape.dims[1], heads, -1};
    x = shape.rank == 4 ? kn_transpose(x, "0,2,1,3") : kn_reshape(x, kn_import_dims_text(import, dims, 4));
    if (part == 0) part = x->shape.dims[3];
    if (part < 2 || part % 2)
        return kn_import_fail(call, KN_ERROR_SHAPE, "the rotary dimension is %s; expected an even size",
                              kn_import_dims_text(import, &part, 1));
    kn_value *y = kn_import_rotate(import, x, kn_unsqueeze(cosine, "2"), kn_unsqueeze(sine, "2"), part,
                                   kn_import_int(call, "interleaved", 0) != 0);
    y = shape.rank == 4 ? kn_transpose(y, "0,2,1,3") : kn_import_reshape(import, y, shape.dims, 3);
    return kn_import_put(call, 0, y);
}

/* Applies a subgraph attribute of the node to scores or weights; x if there is none. */
static kn_value *modified(kn_import_call *call, const char *name, kn_value *x) {
    const kn_onnx_attribute *found = kn_import_attribute(call, name);
    if (!found) return x;
    const kn_item from = {.dtype = x->shape.dtype, .value = x};
    kn_item made = {.rank = 0};
    if (found->kind != KN_ONNX_ATTRIBUTE_GRAPH || found->count != 1)
        return kn_import_reject(call, KN_ERROR_FORMAT, "attribute '%s' is not a graph", name);
    kn_import_subgraph(call, &found->graphs[0], &from, 1, &made, 1);
    return kn_item_value(call->import, &made);
}

/* q is (B,heads,T,K), k (B,groups,S,K), v (B,groups,S,V); the heads of a group are adjacent. */
static kn_status flexible(kn_import_call *call) {
    kn_value *q = kn_import_in(call, 0), *k = kn_import_in(call, 1);
    kn_value *v = kn_import_in(call, 2);
    kn_graph *graph = call->graph;
    const kn_shape shape = q->shape;
    bool fits = shape.rank == 4 && k->shape.rank == 4 && v->shape.rank == 4;
    fits =
        fits && kn_dim_known(shape.dims[3]) && kn_dim_known(shape.dims[1]) && kn_dim_known(k->shape.dims[1]);
    if (!fits || k->shape.dims[1] < 1 || shape.dims[1] % k->shape.dims[1] || shape.dims[3] < 1)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected queries, keys and values (batch,heads,length,size), with query heads "
                              "a multiple of key heads");
    const kn_dim batch = shape.dims[0], heads = shape.dims[1];
    const kn_dim groups = k->shape.dims[1], keys = k->shape.dims[2];
    const kn_dim lines = kn_dim_multiply(graph, heads / groups, shape.dims[2]);
    const kn_dim grouped[4] = {batch, groups, lines, shape.dims[3]};
    const kn_dim scored[4] = {batch, heads, shape.dims[2], keys};
    const kn_dim weighed[4] = {batch, groups, lines, keys};
    const kn_dim result[4] = {batch, heads, shape.dims[2], v->shape.dims[3]};
    double scale = kn_import_float(call, "scale", (float)(1 / sqrt((double)shape.dims[3])));
    kn_import *import = call->import;
    kn_value *scores = kn_matmul(kn_import_reshape(import, q, grouped, 4), k, false, true);
    scores = modified(call, "score_mod", kn_scale(kn_import_reshape(import, scores, scored, 4), scale));
    kn_value *weights = modified(call, "prob_mod", kn_softmax(scores, -1));
    weights = kn_import_cast(kn_import_reshape(import, weights, weighed, 4), v->shape.dtype);
    return kn_import_put(call, 0, kn_import_reshape(import, kn_matmul(weights, v, false, false), result, 4));
}

const kn_import_row kn_import_attention[] = {
    {.type = "FlexAttention", .build = flexible, .domain = "ai.onnx.preview"},
    {.type = "Attention", .build = build_attention},
    {.type = "RotaryEmbedding", .build = rotary},
    KN_OF_MICROSOFT("RotaryEmbedding", rotary),
};
const int kn_import_attention_count = (int)KN_COUNT_OF(kn_import_attention);
