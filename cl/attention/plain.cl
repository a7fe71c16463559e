/* Scaled dot-product attention, one work-item per query or key, for devices on which no other kernel computes right: no
 * local memory, no vectors; scores are computed anew where they are needed. Results are summed where they are stored.
 *
 * Defines: those of attention/numbers.cl, which has the arguments after the arrays. Global size: queries (or, for the
 * last kernel, keys), their heads, batches.
 *
 * kn_attention(q, k, v, y, log_sum, queries, …)
 * kn_attention_queries(dy, y, log_sum, q, k, v, dq, queries, …)
 * kn_attention_keys(dy, y, log_sum, q, k, v, dk, dv, queries, …)     as in attention/tiled.cl, with y instead of delta */
#include "attention/numbers.cl"
#include "common/wanted.cl"

static KN_A dot_rows(global const KN_T *left, global const KN_T *right) {
    KN_A sum = 0;
    for (int d = 0; d < KN_HEAD; d++)
        sum += (KN_A)left[d] * (KN_A)right[d];
    return sum;
}
static void clear_row(global KN_T *row) {
    for (int d = 0; d < KN_HEAD; d++)
        row[d] = 0;
}
static void add_row(global KN_T *row, const KN_A factor, global const KN_T *from) {
    for (int d = 0; d < KN_HEAD; d++)
        row[d] = (KN_T)((KN_A)row[d] + factor * (KN_A)from[d]);
}

#define KN_QUERY(i) (q + q_at + (i)*q_row)
#define KN_KEY(j) (k + k_at + (j)*k_row)
#define KN_VALUE(j) (v + v_at + (j)*k_row)
#define KN_SCORE(i, j) KN_MASKED(dot_rows(KN_QUERY(i), KN_KEY(j)) * scale, i, j)
/* Of a query: its head, and how many keys it sees. */
#define KN_QUERY_ITEM                                                                                        \
    const int query = get_global_id(0);                                                                      \
    const KN_INDEX head = get_global_id(1), key_head = head / group;                                         \
    const KN_INDEX batch = get_global_id(2);                                                                 \
    if (query >= queries) return;                                                                            \
    KN_LIMITS                                                                                                \
    KN_QUERY_PLACES                                                                                          \
    KN_KEY_PLACES                                                                                            \
    const int seen = causal ? min(limit, query + offset + 1) : limit;

#if KN_WANTED(kn_attention)
kernel void kn_attention(global const KN_T *restrict q, global const KN_T *restrict k, global const KN_T *restrict v,
                         global KN_T *restrict y, global KN_T *restrict log_sum, KN_NUMBERS) {
    KN_QUERY_ITEM
    global KN_T *result = y + y_at + query * y_row;
    KN_A most = -INFINITY, sum = 0;
    clear_row(result);
    for (int j = 0; j < seen; j++)
        most = fmax(most, KN_SCORE(query, j));
    for (int j = 0; j < seen && most != -INFINITY; j++) {
        const KN_A weight = exp(KN_SCORE(query, j) - most);
        sum += weight;
        add_row(result, weight * KN_KEPT(query, j), KN_VALUE(j));
    }
    for (int d = 0; d < KN_HEAD; d++)
        result[d] = sum == 0 ? (KN_T)0 : (KN_T)((KN_A)result[d] / sum);
    log_sum[sums_at + query] = sum == 0 ? (KN_T)0 : (KN_T)(most + log(sum));
}
#endif

#if KN_WANTED(kn_attention_queries)
kernel void kn_attention_queries(global const KN_T *restrict dy, global const KN_T *restrict y,
                                 global const KN_T *restrict log_sum, global const KN_T *restrict q,
                                 global const KN_T *restrict k, global const KN_T *restrict v,
                                 global KN_T *restrict dq, KN_NUMBERS) {
    KN_QUERY_ITEM
    global const KN_T *slope = dy + y_at + query * y_row;
    const KN_A delta = dot_rows(slope, y + y_at + query * y_row), own_sum = (KN_A)log_sum[sums_at + query];
    global KN_T *result = dq + q_at + query * q_row;
    clear_row(result);
    for (int j = 0; j < seen; j++) {
        const KN_A weight = exp(KN_SCORE(query, j) - own_sum);
        add_row(result, weight * (dot_rows(slope, KN_VALUE(j)) * KN_KEPT(query, j) - delta) * scale, KN_KEY(j));
    }
}
#endif

#if KN_WANTED(kn_attention_keys)
kernel void kn_attention_keys(global const KN_T *restrict dy, global const KN_T *restrict y,
                              global const KN_T *restrict log_sum, global const KN_T *restrict q,
                              global const KN_T *restrict k, global const KN_T *restrict v, global KN_T *dk,
                              global KN_T *dv, KN_NUMBERS) {
    const int key = get_global_id(0);
    const KN_INDEX key_head = get_global_id(1), batch = get_global_id(2);
    if (key >= keys) return;
    KN_LIMITS
    KN_KEY_PLACES
    global KN_T *key_result = dk + k_at + key * k_row, *value_result = dv + v_at + key * k_row;
    clear_row(key_result);
    clear_row(value_result);
    for (KN_INDEX head = key_head * group; head < (key_head + 1) * group && key < limit; head++) {
        KN_QUERY_PLACES
        for (int query = causal ? max(0, key - offset) : 0; query < queries; query++) {
            global const KN_T *slope = dy + y_at + query * y_row;
            const KN_A delta = dot_rows(slope, y + y_at + query * y_row), kept = KN_KEPT(query, key);
            const KN_A weight = exp(KN_SCORE(query, key) - (KN_A)log_sum[sums_at + query]);
            add_row(value_result, weight * kept, slope);
            add_row(key_result, weight * (dot_rows(slope, KN_VALUE(key)) * kept - delta) * scale, KN_QUERY(query));
        }
    }
}
#endif
