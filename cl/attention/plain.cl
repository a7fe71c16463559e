/* Scaled dot-product attention, one work-item per query or key, for devices where no other kernel works correctly: no
 * local memory, no vectors; scores are recomputed when needed. A row of results is summed in private memory.
 *
 * Defines: those of attention/numbers.cl, which has the arguments after the arrays. Global size: queries (or, for the
 * last kernel, keys), their heads, batches.
 *
 * kn_attention_forward(q, k, v, y, log_sum, queries, …)
 * kn_attention_queries(dy, y, log_sum, q, k, v, dq, queries, …)
 * kn_attention_keys(dy, y, log_sum, q, k, v, dk, dv, queries, …)     as in attention/tiled.cl, with y instead of delta */
#include "attention/numbers.cl"
#include "common/wanted.cl"

/* Dot products over a head's elements, of arrays stored as `kind`. */
#define KN_DOT(name, left_kind, right_kind)                                                                  \
    static KN_A name(global const KN_STORED(left_kind) *left, global const KN_STORED(right_kind) *right) {   \
        KN_A sum = 0;                                                                                        \
        for (int d = 0; d < KN_HEAD; d++)                                                                    \
            sum += (KN_A)KN_READ_AS(left_kind, left + d) * (KN_A)KN_READ_AS(right_kind, right + d);          \
        return sum;                                                                                          \
    }
KN_DOT(dot_query_key, KN_HALF_q, KN_HALF_k)
KN_DOT(dot_slope_value, KN_HALF_dy, KN_HALF_v)
KN_DOT(dot_slope_result, KN_HALF_dy, KN_HALF_y)
#define KN_CLEAR(row)                                                                                        \
    KN_A row[KN_HEAD];                                                                                       \
    for (int d = 0; d < KN_HEAD; d++)                                                                        \
        row[d] = 0;
#define KN_ADD_ROW(row, factor, kind, from)                                                                  \
    {                                                                                                        \
        const KN_A weighs = factor;                                                                          \
        for (int d = 0; d < KN_HEAD; d++)                                                                    \
            row[d] += weighs * (KN_A)KN_READ_AS(kind, (from) + d);                                           \
    }
#define KN_STORE_ROW(row, kind, to)                                                                          \
    for (int d = 0; d < KN_HEAD; d++)                                                                        \
        KN_WRITE_AS(kind, (KN_T)row[d], (to) + d);

#define KN_QUERY(i) (q + q_at + (i)*q_row)
#define KN_KEY(j) (k + k_at + (j)*k_row)
#define KN_VALUE(j) (v + v_at + (j)*k_row)
/* Before the mask and the window. */
#define KN_PLAIN_SCORE(i, j) KN_SCORE_OF(dot_query_key(KN_QUERY(i), KN_KEY(j)))
#define KN_SCORE(i, j) KN_MASKED(KN_PLAIN_SCORE(i, j), i, j)
/* For a query: its head, and the number of keys that it attends to. */
#define KN_QUERY_ITEM                                                                                        \
    const int query = get_global_id(0);                                                                      \
    const KN_INDEX head = get_global_id(1), key_head = head / group;                                         \
    const KN_INDEX batch = get_global_id(2);                                                                 \
    if (query >= queries) return;                                                                            \
    KN_LIMITS                                                                                                \
    KN_QUERY_PLACES                                                                                          \
    KN_KEY_PLACES                                                                                            \
    const int seen = causal ? min(limit, query + offset + 1) : limit;

#if KN_WANTED(kn_attention_forward)
kernel void kn_attention_forward(global const KN_STORED(KN_HALF_q) *restrict q, global const KN_STORED(KN_HALF_k) *restrict k, global const KN_STORED(KN_HALF_v) *restrict v,
                                 global KN_STORED(KN_HALF_y) *restrict y, global KN_T *restrict log_sum, KN_SIZES) {
    KN_QUERY_ITEM
    KN_A most = -INFINITY, sum = 0;
    KN_CLEAR(result)
    for (int j = KN_FIRST_KEY(query, 1); j < seen; j++)
        most = fmax(most, KN_SCORE(query, j));
    for (int j = KN_FIRST_KEY(query, 1); j < seen && most != -INFINITY; j++) {
        const KN_A weight = exp(KN_SCORE(query, j) - most);
        sum += weight;
        KN_ADD_ROW(result, weight * KN_KEPT(query, j), KN_HALF_v, KN_VALUE(j))
    }
    for (int d = 0; d < KN_HEAD; d++)
        result[d] = sum == 0 ? (KN_A)0 : result[d] / sum;
    KN_STORE_ROW(result, KN_HALF_y, y + y_at + query * y_row)
    log_sum[sums_at + query] = sum == 0 ? (KN_T)0 : (KN_T)(most + log(sum));
}
#endif

#if KN_WANTED(kn_attention_queries)
kernel void kn_attention_queries(global const KN_STORED(KN_HALF_dy) *restrict dy, global const KN_STORED(KN_HALF_y) *restrict y,
                                 global const KN_T *restrict log_sum, global const KN_STORED(KN_HALF_q) *restrict q,
                                 global const KN_STORED(KN_HALF_k) *restrict k, global const KN_STORED(KN_HALF_v) *restrict v,
                                 global KN_STORED(KN_HALF_dq) *restrict dq, KN_SIZES) {
    KN_QUERY_ITEM
    global const KN_STORED(KN_HALF_dy) *slope = dy + y_at + query * y_row;
    const KN_A delta = dot_slope_result(slope, y + y_at + query * y_row), own_sum = (KN_A)log_sum[sums_at + query];
    KN_CLEAR(result)
    for (int j = KN_FIRST_KEY(query, 1); j < seen; j++) {
        const KN_A score = KN_PLAIN_SCORE(query, j), weight = exp(KN_MASKED(score, query, j) - own_sum);
        KN_ADD_ROW(result, weight * (dot_slope_value(slope, KN_VALUE(j)) * KN_KEPT(query, j) - delta) * KN_SCORE_SLOPE(score),
                   KN_HALF_k, KN_KEY(j))
    }
    KN_STORE_ROW(result, KN_HALF_dq, dq + q_at + query * q_row)
}
#endif

#if KN_WANTED(kn_attention_keys)
kernel void kn_attention_keys(global const KN_STORED(KN_HALF_dy) *restrict dy, global const KN_STORED(KN_HALF_y) *restrict y,
                              global const KN_T *restrict log_sum, global const KN_STORED(KN_HALF_q) *restrict q,
                              global const KN_STORED(KN_HALF_k) *restrict k, global const KN_STORED(KN_HALF_v) *restrict v, global KN_STORED(KN_HALF_dk) *dk,
                              global KN_STORED(KN_HALF_dv) *dv, KN_SIZES) {
    const int key = get_global_id(0);
    const KN_INDEX key_head = get_global_id(1), batch = get_global_id(2);
    if (key >= keys) return;
    KN_LIMITS
    KN_KEY_PLACES
    KN_CLEAR(key_result)
    KN_CLEAR(value_result)
    for (KN_INDEX head = key_head * group; head < (key_head + 1) * group && key < limit; head++) {
        KN_QUERY_PLACES
        const int query_end = KN_END_QUERY(key);
        for (int query = causal ? max(0, key - offset) : 0; query < query_end; query++) {
            global const KN_STORED(KN_HALF_dy) *slope = dy + y_at + query * y_row;
            const KN_A delta = dot_slope_result(slope, y + y_at + query * y_row), kept = KN_KEPT(query, key);
            const KN_A score = KN_PLAIN_SCORE(query, key);
            const KN_A weight = exp(KN_MASKED(score, query, key) - (KN_A)log_sum[sums_at + query]);
            KN_ADD_ROW(value_result, weight * kept, KN_HALF_dy, slope)
            KN_ADD_ROW(key_result,
                       weight * (dot_slope_value(slope, KN_VALUE(key)) * kept - delta) * KN_SCORE_SLOPE(score), KN_HALF_q,
                       KN_QUERY(query))
        }
    }
    KN_STORE_ROW(key_result, KN_HALF_dk, dk + k_at + key * k_row)
    KN_STORE_ROW(value_result, KN_HALF_dv, dv + v_at + key * k_row)
}
#endif
