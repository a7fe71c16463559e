/* Attention as written by ONNX Runtime's optimizer and its tools for language models: with a preceding
 * projection, several kinds of masks, caches, and grouped heads. */
#include "exchange/onnx/attention.h"

#include <inttypes.h>
#include <math.h>

/* The default added to the scores of masked keys. */
static const double usual_filter = -10000, lowest = -3.4028234e38;

typedef struct heads {
    kn_import_call *call;
    kn_import *import;
    kn_value *q, *k, *v; /* (B,T,heads*D), (B,S,kv_heads*D), (B,S,kv_heads*E) */
    int64_t heads, kv_heads;
    double scale; /* 0: 1 / sqrt(head size) */
    double softcap;
    bool causal;
    int64_t window;    /* number of keys before its position that a query sees; -1: all */
    kn_value *mask;    /* (B or 1,1,T or 1,S), added to the scores, not trained; or NULL */
    kn_value *bias;    /* added to the scores, (B or 1,heads or 1,T,S); or NULL */
    kn_value *lengths; /* int32 (B): number of valid keys per sample; or NULL */
    kn_value *sink;    /* the score (heads) or () of an extra key require_absent a value; or NULL */
} heads;

/* Reads the attributes that all of these operators have. */
static kn_status start(heads *a, kn_import_call *call) {
    *a = (heads){.call = call, .import = call->import, .window = -1};
    a->heads = a->kv_heads = kn_import_int(call, "num_heads", 0);
    a->scale = kn_import_float(call, "scale", 0);
    a->causal = kn_import_int(call, "unidirectional", 0) != 0;
    if (a->heads < 1 || a->heads > INT32_MAX)
        return kn_import_fail(call, KN_ERROR_FORMAT, "num_heads is %" PRId64 "; expected 1 or more",
                              a->heads);
    return kn_import_status(call);
}

/* Fails if an unsupported input or attribute is present. */
static void require_absent(kn_import_call *call, int input, const char *attribute, const char *what) {
    if (kn_import_has(call, input) || (attribute && kn_import_int(call, attribute, 0)))
        kn_import_fail(call, KN_ERROR_UNSUPPORTED, "%s is not supported", what);
}

static kn_value *number(const heads *a, double value) {
    return kn_import_scalar(a->import, KN_FLOAT32, value);
}

/* ---- masks --------------------------------------------------------------------------------------------- */

/* Reads input i, a mask, as a bias: (B) lengths; (2*B) ends, then starts; or (B,S) or (B,T,S), where 0 masks
 * a key. */
static void take_mask(heads *a, int i) {
    kn_value *given = kn_import_optional(a->call, i), *seen = NULL;
    kn_import *import = a->import;
    if (!given) return;
    const kn_dim batch = a->q->shape.dims[0], keys = a->k->shape.dims[1];
    const kn_dim *dims = given->shape.dims;
    const kn_dim twice = kn_dim_multiply(import->graph, 2, batch);
    const kn_dim column[4] = {batch, 1, 1, 1};
    kn_value *zero = kn_import_scalar(import, given->shape.dtype, 0);
    const int rank = given->shape.rank;
    if (rank == 1 && dims[0] == twice) {
        kn_value *positions = kn_import_cast(kn_import_range(import, keys), given->shape.dtype);
        const kn_dim pair[5] = {2, batch, 1, 1, 1};
        given = kn_import_reshape(import, given, pair, 5);
        kn_value *end = kn_import_reshape(import, kn_slice(given, 0, 0, 1), column, 4);
        kn_value *first = kn_import_reshape(import, kn_slice(given, 0, 1, 2), column, 4);
        seen = kn_and(kn_less(positions, end), kn_greater_equal(positions, first));
    } else if (rank == 1 && (dims[0] == batch || !kn_dim_known(dims[0]) || !kn_dim_known(batch))) {
        kn_value *positions = kn_import_cast(kn_import_range(import, keys), given->shape.dtype);
        seen = kn_less(positions, kn_import_reshape(import, given, column, 4));
    } else if (rank == 2 || rank == 3) {
        seen = kn_unsqueeze(kn_greater(given, zero), rank == 2 ? "1,2" : "1");
    } else {
        kn_import_fail(a->call, KN_ERROR_SHAPE,
                       "expected a mask (batch), (2*batch), (batch,keys) or (batch,queries,keys)");
    }
    a->mask =
        kn_where(seen, number(a, 0), number(a, kn_import_float(a->call, "mask_filter_value", usual_filter)));
}

/* Replaces scores of keys that are never seen: later keys, keys outside the window, and keys beyond the
 * lengths. */
static kn_value *mask_scores(const heads *a, kn_value *scores) {
    kn_import *import = a->import;
    if (!a->causal && !a->lengths && a->window < 0) return scores;
    const kn_dim column[4] = {a->q->shape.dims[0], 1, 1, 1};
    kn_value *key = kn_import_range(import, a->k->shape.dims[1]), *seen = NULL, *all;
    all = a->lengths ? kn_import_reshape(import, a->lengths, column, 4)
                     : kn_import_size(import, a->k->shape.dims[1]);
    if (a->lengths) seen = kn_less(key, all);
    kn_value *before = kn_sub(all, kn_import_size(import, a->q->shape.dims[1]));
    before = kn_max(before, kn_import_scalar(import, KN_INT32, 0));
    kn_value *position = kn_add(kn_unsqueeze(kn_import_range(import, a->q->shape.dims[1]), "1"), before);
    if (a->causal) {
        kn_value *earlier = kn_less_equal(key, position);
        seen = seen ? kn_and(seen, earlier) : earlier;
    }
    if (a->window >= 0) {
        kn_value *near =
            kn_less_equal(kn_sub(position, key), kn_import_scalar(import, KN_INT32, (double)a->window));
        seen = seen ? kn_and(seen, near) : near;
    }
    return kn_where(seen, scores, number(a, lowest));
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* Softmax over the keys and the sink. */
static kn_value *probabilities(const heads *a, kn_value *scores) {
    if (!a->sink) return kn_softmax(scores, -1);
    kn_dim dims[4];
    memcpy(dims, scores->shape.dims, sizeof dims);
    dims[3] = 1;
    kn_value *sink = a->sink->shape.rank ? kn_unsqueeze(a->sink, "1,2") : a->sink;
    kn_value *parts[2] = {scores, kn_import_broadcast(a->import, sink, dims, 4)};
    return kn_slice(kn_softmax(kn_concat(parts, 2, 3), -1), 3, 0, -1);
}

/* Composed of products, which store the scores. */
static kn_value *by_products(const heads *a) {
    kn_import *import = a->import;
    const int64_t times = a->heads / a->kv_heads;
    kn_value *q = kn_split_heads(import, a->q, a->heads);
    kn_value *k = kn_split_heads(import, a->k, a->kv_heads), *v = kn_split_heads(import, a->v, a->kv_heads);
    const kn_dim size = q->shape.dims[3];
    if (!kn_dim_known(size) || size < 1)
        return kn_import_reject(a->call, KN_ERROR_UNSUPPORTED,
                                "the head size is dynamic; expected a fixed size");
    if (times > 1) k = kn_repeat(k, 1, times), v = kn_repeat(v, 1, times);
    kn_value *scores =
        kn_scale(kn_matmul(q, k, false, true), a->scale != 0 ? a->scale : 1 / sqrt((double)size));
    if (a->softcap > 0) scores = kn_scale(kn_tanh(kn_scale(scores, 1 / a->softcap)), a->softcap);
    if (a->bias) scores = kn_add(scores, a->bias);
    if (a->mask) scores = kn_add(scores, a->mask);
    return kn_merge_heads(import, kn_matmul(probabilities(a, mask_scores(a, scores)), v, false, false));
}

/* (B,T,heads*E). Uses the attention operator unless a bias needs a gradient. */
static kn_value *attended(const heads *a) {
    bool same = a->k->shape.dims[2] == a->v->shape.dims[2];
    if (a->bias || a->sink || a->window >= 0 || !same) return by_products(a);
    kn_attention_params params = {.size = sizeof params,
                                  .heads = a->heads,
                                  .key_heads = a->kv_heads,
                                  .causal = a->causal,
                                  .last = true,
                                  .scale = a->scale,
                                  .softcap = a->softcap > 0 ? a->softcap : 0,
                                  .lengths = a->lengths,
                                  .mask = a->mask};
    if (a->mask) {
        const kn_dim dims[4] = {a->mask->shape.dims[0], 1, a->q->shape.dims[1], a->k->shape.dims[1]};
        params.mask = kn_import_broadcast(a->import, a->mask, dims, 4);
    }
    return kn_attention(a->q, a->k, a->v, &params);
}

/* ---- packed projection --------------------------------------------------------------------------------- */

/* The sizes of q, k and v in `all` columns. */
static kn_status sizes_of(const heads *a, kn_dim all, int64_t sizes[3]) {
    int count = kn_import_ints(a->call, "qkv_hidden_sizes", sizes, 3);
    for (int i = 0; count < 0 && kn_dim_known(all) && i < 3; i++)
        sizes[i] = all / 3;
    bool fine = kn_dim_known(all) && (count < 0 || count == 3) && sizes[0] == sizes[1] &&
                sizes[0] + sizes[1] + sizes[2] == all;
    for (int i = 0; fine && i < 3; i++)
        fine = sizes[i] > 0 && sizes[i] % a->heads == 0;
    return fine ? kn_import_status(a->call)
                : kn_import_fail(a->call, KN_ERROR_SHAPE,
                                 "expected projection weights of queries, keys and values with %" PRId64
                                 " heads each",
                                 a->heads);
}

/* Prepends the cache (2,B,heads,P,D) of input `past`, and sets the output for the new cache. */
static void prepend_cache(heads *a, int past) {
    kn_import_call *call = a->call;
    bool present = kn_import_wants(call, 1);
    kn_value *cache = kn_import_optional(call, past), *parts[2];
    if (!cache && !present) return;
    for (int i = 0; i < 2; i++) {
        kn_value **flat = i ? &a->v : &a->k;
        parts[i] = kn_split_heads(a->import, *flat, a->heads);
        if (cache) {
            kn_value *old = kn_squeeze(kn_slice(cache, 0, i, i + 1), "0");
            parts[i] = kn_concat((kn_value *[]){old, parts[i]}, 2, 2);
            *flat = kn_merge_heads(a->import, parts[i]);
        }
    }
    if (present) kn_import_put(call, 1, kn_stack(parts, 2, 0));
}

/* Attention over the projection (B,T,columns). */
static kn_status attend_projection(heads *a, kn_value *x, int mask, int past) {
    int64_t sizes[3], at = 0;
    kn_value **parts[3] = {&a->q, &a->k, &a->v};
    require_absent(a->call, -1, "do_rotary", "do_rotary 1");
    require_absent(a->call, -1, "past_present_share_buffer", "past_present_share_buffer 1");
    if (x->shape.rank != 3) return kn_import_fail(a->call, KN_ERROR_SHAPE, "expected (batch,length,size)");
    if (sizes_of(a, x->shape.dims[2], sizes) != KN_OK) return kn_import_status(a->call);
    for (int i = 0; i < 3; at += sizes[i++])
        *parts[i] = kn_slice(x, 2, at, at + sizes[i]);
    prepend_cache(a, past);
    take_mask(a, mask);
    return kn_import_put(a->call, 0, attended(a));
}

static kn_status attention(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1), *bias = kn_import_optional(call, 2);
    heads a;
    if (start(&a, call) != KN_OK) return kn_import_status(call);
    a.bias = kn_import_optional(call, 5);
    x = kn_matmul(x, weight, false, false);
    return attend_projection(&a, bias ? kn_add(x, bias) : x, 3, 4);
}

/* The projection is an integer product. */
static kn_status quantized_attention(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1);
    kn_value *x_scale = kn_import_in(call, 3), *scale = kn_import_in(call, 4),
             *bias = kn_import_optional(call, 2);
    kn_value *x_zero = kn_import_optional(call, 6), *zero = kn_import_optional(call, 7);
    heads a;
    if (start(&a, call) != KN_OK) return kn_import_status(call);
    kn_value *sums = kn_import_integer_product(x, x_zero, weight, zero);
    x = kn_mul(kn_import_cast(sums, KN_FLOAT32), kn_mul(x_scale, scale));
    return attend_projection(&a, bias ? kn_add(x, bias) : x, 5, 8);
}

/* ---- separate inputs ----------------------------------------------------------------------------------- */

/* Part `i` of `count` in packed heads (B,S,heads,count,D), as (B,S,heads*D). */
static kn_value *unpacked(heads *a, kn_value *x, int i, int count) {
    kn_value *part = kn_slice(x, 3, i, i + 1);
    if (x->shape.rank != 5 || x->shape.dims[3] != count)
        return kn_import_reject(a->call, KN_ERROR_SHAPE, "expected packed heads (batch,length,heads,%d,size)",
                                count);
    const kn_dim *d = part->shape.dims;
    const kn_dim dims[3] = {d[0], d[1], kn_dim_multiply(a->call->graph, d[2], d[4])};
    return kn_import_reshape(a->import, part, dims, 3);
}

/* Keys or values in input i, as (B,S,heads*D): the same, or (B,heads,S,D) from an encoder. */
static kn_value *flat(heads *a, int i) {
    kn_value *x = kn_import_in(a->call, i);
    return x->shape.rank == 4 ? kn_merge_heads(a->import, x) : x;
}

/* Reads q, k and v; *biased: keys and values also get biases. */
static kn_status take_three(heads *a, bool *biased) {
    kn_import_call *call = a->call;
    a->q = kn_import_in(call, 0);
    *biased = true;
    if (!kn_import_has(call, 1)) {
        kn_value *all = a->q;
        if (all->shape.rank != 5) return kn_import_fail(call, KN_ERROR_SHAPE, "input 1 (key) is missing");
        a->q = unpacked(a, all, 0, 3);
        a->k = unpacked(a, all, 1, 3);
        a->v = unpacked(a, all, 2, 3);
    } else if (!kn_import_has(call, 2)) {
        kn_value *both = kn_import_in(call, 1);
        if (both->shape.rank != 5) return kn_import_fail(call, KN_ERROR_SHAPE, "input 2 (value) is missing");
        a->k = unpacked(a, both, 0, 2);
        a->v = unpacked(a, both, 1, 2);
    } else {
        *biased = kn_item_shape(a->import, call->inputs[1]).rank == 3;
        a->k = flat(a, 1);
        a->v = flat(a, 2);
    }
    if (a->q->shape.rank != 3 || a->k->shape.rank != 3 || a->v->shape.rank != 3)
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected (batch,length,size)");
    return kn_import_status(call);
}

/* Adds a bias (2*heads*D+heads*E) to q, k and v. */
static void add_biases(heads *a, kn_value *bias, bool biased) {
    const int64_t size = kn_value_dimension(a->q, 2);
    if (size < 1)
        kn_import_fail(a->call, KN_ERROR_UNSUPPORTED, "the head size is dynamic; expected a fixed size");
    a->q = kn_add(a->q, kn_slice(bias, 0, 0, size));
    if (!biased) return;
    a->k = kn_add(a->k, kn_slice(bias, 0, size, 2 * size));
    a->v = kn_add(a->v, kn_slice(bias, 0, 2 * size, INT64_MAX));
}

static kn_status multi_head(kn_import_call *call) {
    heads a;
    bool biased;
    if (start(&a, call) != KN_OK || take_three(&a, &biased) != KN_OK) return kn_import_status(call);
    kn_value *bias = kn_import_optional(call, 3);
    a.bias = kn_import_optional(call, 5);
    kn_value *past[2] = {kn_import_optional(call, 6), kn_import_optional(call, 7)};
    require_absent(call, 8, NULL, "input 8 (past_sequence_length)");
    require_absent(call, 9, NULL, "input 9 (cache_indirection)");
    if (bias) add_biases(&a, bias, biased);
    if (kn_import_wants(call, 3))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "output 3 (the scores) is not supported");
    for (int i = 0; i < 2; i++) {
        kn_value **all = i ? &a.v : &a.k;
        bool present = kn_import_wants(call, 1 + i);
        if (!past[i] && !present) continue;
        kn_value *part = kn_split_heads(a.import, *all, a.heads);
        if (past[i]) part = kn_concat((kn_value *[]){past[i], part}, 2, 2);
        if (past[i]) *all = kn_merge_heads(a.import, part);
        kn_import_put(call, 1 + i, part);
    }
    take_mask(&a, 4);
    return kn_import_put(call, 0, attended(&a));
}

/* ---- grouped heads ------------------------------------------------------------------------------------- */

enum {
    GROUP_PAST = 3,
    GROUP_LENGTHS = 5,
    GROUP_TOTAL = 6,
    GROUP_COSINE = 7,
    GROUP_POSITIONS = 9,
    GROUP_BIAS = 10,
    GROUP_SINK = 11,
    GROUP_SCALES = 12,
    GROUP_NORMS = 14,
    GROUP_QUERIES = 16
};

static kn_status take_group(heads *a) {
    kn_import_call *call = a->call;
    a->kv_heads = kn_import_int(call, "kv_num_heads", 0);
    a->causal = kn_import_int(call, "causal", 1) != 0;
    a->softcap = kn_import_float(call, "softcap", 0);
    a->window = kn_import_int(call, "local_window_size", -1) - 1;
    if (a->window < 0) a->window = -1;
    a->q = kn_import_in(call, 0);
    if (a->kv_heads < 1 || a->heads % a->kv_heads || a->q->shape.rank != 3)
        return kn_import_fail(
            call, KN_ERROR_SHAPE,
            "expected queries (batch,length,size), and num_heads a multiple of kv_num_heads");
    if (kn_import_has(call, 1)) {
        a->k = kn_import_in(call, 1);
        a->v = kn_import_in(call, 2);
        return kn_import_status(call);
    }
    const int64_t all = kn_value_dimension(a->q, 2), size = all / (a->heads + 2 * a->kv_heads);
    const int64_t first = a->heads * size, second = first + a->kv_heads * size;
    if (size < 1 || second + a->kv_heads * size != all)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected packed queries, keys and values (batch,length,size)");
    a->k = kn_slice(a->q, 2, first, second);
    a->v = kn_slice(a->q, 2, second, all);
    a->q = kn_slice(a->q, 2, 0, first);
    return kn_import_status(call);
}

/* Divides each head of x (B,T,count*D) by its root mean square, if input i, the weights (D), is given. */
static void norm_heads(heads *a, kn_value **x, int64_t count, int i, const char *name) {
    kn_value *weight = kn_import_optional(a->call, i);
    if (!weight) return;
    const kn_shape shape = (*x)->shape;
    const kn_dim dims[4] = {shape.dims[0], shape.dims[1], count, -1};
    const kn_import_norm norm = {
        .scale = weight,
        .epsilon = kn_import_float(a->call, name, kn_import_float(a->call, "qk_norm_epsilon", 1e-6f)),
        .rms = true};
    *x = kn_import_normalized_rows(a->call, kn_reshape(*x, kn_import_dims_text(a->import, dims, 4)), &norm);
    *x = kn_import_reshape(a->import, *x, shape.dims, 3);
}

/* Rotates x (B,T,count*D) by the node's cosine and sine tables at positions (B,T). */
static kn_value *rotated(heads *a, kn_value *x, int64_t count, kn_value *positions) {
    kn_value *cosine = kn_import_in(a->call, GROUP_COSINE), *sine = kn_import_in(a->call, GROUP_COSINE + 1);
    const kn_shape shape = x->shape;
    const int64_t part = 2 * kn_value_dimension(cosine, 1);
    const kn_dim dims[4] = {shape.dims[0], shape.dims[1], count, -1};
    cosine = kn_unsqueeze(kn_gather(cosine, positions, 0), "2");
    sine = kn_unsqueeze(kn_gather(sine, positions, 0), "2");
    x = kn_reshape(x, kn_import_dims_text(a->import, dims, 4));
    if (part < 2 || part > x->shape.dims[3])
        return kn_import_reject(a->call, KN_ERROR_SHAPE,
                                "expected cosines (positions,size) with at most half the head size");
    x = kn_import_rotate(a->import, x, cosine, sine, part,
                         kn_import_int(a->call, "rotary_interleaved", 0) != 0);
    return kn_import_reshape(a->import, x, shape.dims, 3);
}

/* Writes x (B,T,C) into the cache (B,kv_heads,P,D) of input i, starting at `first` (B). The cache grows by T,
 * unless P is known to suffice. */
static kn_value *cached(heads *a, kn_value *x, int i, kn_value *first) {
    kn_value *old = kn_merge_heads(a->import, kn_import_in(a->call, i));
    kn_item *total = a->call->inputs[GROUP_TOTAL];
    int64_t needed = -1;
    const kn_dim room = old->shape.dims[1];
    if (kn_dim_known(room) && kn_item_sized(a->import, total))
        kn_dim_constant(a->call->graph, total->sizes[0], &needed);
    if (needed < 0 || needed > room) {
        kn_dim dims[3] = {x->shape.dims[0], x->shape.dims[1], x->shape.dims[2]};
        if (needed >= 0) dims[1] = needed - room;
        kn_value *more = kn_import_broadcast(a->import, number(a, 0), dims, 3);
        old = kn_concat((kn_value *[]){old, more}, 2, 1);
    }
    return kn_put_rows(old, x, first);
}

static kn_status group_query(kn_import_call *call) {
    heads a;
    kn_value *lengths = kn_import_in(call, GROUP_LENGTHS);
    const bool smooth = kn_import_int(call, "smooth_softmax", 0) > 0;
    if (start(&a, call) != KN_OK || take_group(&a) != KN_OK) return kn_import_status(call);
    if (!kn_import_has(call, GROUP_TOTAL))
        return kn_import_fail(call, KN_ERROR_FORMAT, "input %d is missing", GROUP_TOTAL);
    a.bias = kn_import_optional(call, GROUP_BIAS);
    a.sink = kn_import_optional(call, GROUP_SINK);
    kn_value *positions = kn_import_optional(call, GROUP_POSITIONS);
    require_absent(call, GROUP_SCALES, "kv_cache_bit_width", "a quantized cache");
    require_absent(call, GROUP_QUERIES, "sliding_window_cache",
                   "a query length input or sliding_window_cache 1");
    norm_heads(&a, &a.q, a.heads, GROUP_NORMS, "q_norm_epsilon");
    norm_heads(&a, &a.k, a.kv_heads, GROUP_NORMS + 1, "k_norm_epsilon");
    if (kn_import_wants(call, 3))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "output 3 (the scores) is not supported");
    if (smooth && !a.sink) a.sink = number(&a, 0);
    const kn_dim batch = a.q->shape.dims[0], length = a.q->shape.dims[1];
    a.lengths = kn_shift(kn_import_cast(kn_import_reshape(a.import, lengths, &batch, 1), KN_INT32), 1);
    kn_value *first =
        kn_max(kn_sub(a.lengths, kn_import_size(a.import, length)), kn_import_scalar(a.import, KN_INT32, 0));
    if (kn_import_int(call, "do_rotary", 0)) {
        if (!positions) positions = kn_add(kn_unsqueeze(first, "1"), kn_import_range(a.import, length));
        a.q = rotated(&a, a.q, a.heads, positions);
        a.k = rotated(&a, a.k, a.kv_heads, positions);
    }
    for (int i = 0; i < 2; i++) {
        kn_value **all = i ? &a.v : &a.k;
        if (kn_import_has(call, GROUP_PAST + i)) *all = cached(&a, *all, GROUP_PAST + i, first);
        if (kn_import_wants(call, 1 + i))
            kn_import_put(call, 1 + i, kn_split_heads(a.import, *all, a.kv_heads));
    }
    return kn_import_put(call, 0, attended(&a));
}

const kn_import_row kn_import_runtime_attention[] = {
    KN_OF_MICROSOFT("Attention", attention),
    KN_OF_MICROSOFT("QAttention", quantized_attention),
    KN_OF_MICROSOFT("MultiHeadAttention", multi_head),
    KN_OF_MICROSOFT("GroupQueryAttention", group_query),
};
const int kn_import_runtime_attention_count = (int)KN_COUNT_OF(kn_import_runtime_attention);
