/* Scaled dot-product attention for devices with many threads: softmax(scale Q Kᵀ) V by head, in tiles that pass
 * through local memory; scores are never written to memory. A work-group has KN_ROWS queries (or, for the gradients
 * of keys and values, keys) and walks over tiles of KN_ROWS of the other side, so that sums have a fixed order. Four
 * work-items share a row: each has a quarter of its scores and of its columns.
 *
 * Defines, with their defaults:
 *   KN_T float     type of the arrays      KN_A KN_T    type of the computation
 *   KN_INDEX int   type of indices
 *   KN_HEAD 64     numbers of a head, D
 *   KN_ROWS 16     rows of a tile, a multiple of 4
 *
 * Row t of head h of batch b of an operand begins at first + (b * length + t) * row + h * KN_HEAD, so that q, k and v
 * may lie side by side in one array. log_sum and delta are (batch,head,query).
 * `group` heads of q share one of k and v. Query i stands at key i, or with `last` at
 * i + max(0, keys that count - queries); with `causal` it sees the keys up to there. A query that sees none gives 0.
 * Defined, KN_LENGTHS adds parameters behind the others: lengths, which tells of each batch how many keys count,
 * and lengths_row, 1, or 0 where all have the same. KN_MASK adds what is added to the scores, (batch,head,query,key),
 * and from how far a batch and a head are to the next, 0 where they share it.
 * Groups of 4 * KN_ROWS; their second and third numbers are head and batch.
 *
 * kn_attention(q, k, v, y, log_sum, queries, keys, q_first, k_first, v_first, q_row, k_row, y_row, causal, last, group,
 *              scale)
 *   y and log_sum, the logarithm of the sum of exp(score)
 * kn_attention_delta(dy, y, delta, queries, y_row)
 *   delta = sum(dy y) over a head's numbers; one item per query
 * kn_attention_queries(dy, log_sum, delta, q, k, v, dq, queries, …)       with the numbers of kn_attention
 * kn_attention_keys(dy, log_sum, delta, q, k, v, dk, dv, queries, …)      groups by tiles of keys and their heads */
#include "common/wanted.cl"
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A KN_T
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_HEAD
#define KN_HEAD 64
#endif
#ifndef KN_ROWS
#define KN_ROWS 16
#endif

#define KN_JOIN_(a, b) a##b
#define KN_JOIN(a, b) KN_JOIN_(a, b)
#define KN_A4 KN_JOIN(KN_A, 4)
#define KN_ITEMS (4 * KN_ROWS)
#define KN_WORK_GROUP __attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))
/* A row of a tile in fours, one more than needed against bank conflicts; and how many of them an item owns. */
#define KN_FOURS ((KN_HEAD + 3) / 4)
#define KN_STRIDE (KN_FOURS | 1)
#define KN_OWN ((KN_FOURS + 3) / 4)
#define KN_OWN_FOUR(o) ((o) * 4 + lane)

/* tile (KN_ROWS,KN_FOURS) = rows from `row0` on; those beyond the last repeat it, columns beyond are 0. */
static void load_tile(global const KN_T *from, const KN_INDEX row, const int row0, const int rows,
                      local KN_A4 *tile) {
    local KN_A *numbers = (local KN_A *)tile;
    for (int at = get_local_id(0); at < KN_ROWS * KN_FOURS * 4; at += KN_ITEMS) {
        const int i = at / (KN_FOURS * 4), d = at % (KN_FOURS * 4);
        numbers[i * KN_STRIDE * 4 + d] =
            d < KN_HEAD ? (KN_A)from[(KN_INDEX)min(row0 + i, rows - 1) * row + d] : (KN_A)0;
    }
}

static KN_A dot_rows(local const KN_A4 *left, local const KN_A4 *right) {
    KN_A4 sum = left[0] * right[0];
    for (int d = 1; d < KN_FOURS; d++)
        sum += left[d] * right[d];
    return (sum.s0 + sum.s2) + (sum.s1 + sum.s3);
}

/* The columns that an item owns, back to their place. */
static void store_own(const KN_A4 *own, const KN_A factor, const int lane, global KN_T *to) {
    for (int o = 0; o < KN_OWN; o++) {
        const KN_A4 four = own[o] * factor;
        const KN_A each[4] = {four.s0, four.s1, four.s2, four.s3};
        for (int i = 0; i < 4; i++)
            if (KN_OWN_FOUR(o) * 4 + i < KN_HEAD) to[KN_OWN_FOUR(o) * 4 + i] = (KN_T)each[i];
    }
}

#ifdef KN_LENGTHS
#define KN_LENGTHS_PARAMETERS , global const int *restrict lengths, const int lengths_row
#define KN_LIMIT clamp(lengths[batch * lengths_row], 0, keys)
#else
#define KN_LENGTHS_PARAMETERS
#define KN_LIMIT keys
#endif
#ifdef KN_MASK
#define KN_MASK_PARAMETERS , global const KN_T *restrict mask, const KN_INDEX mask_batch, const KN_INDEX mask_head
#define KN_MASKED(score, query, key)                                                                         \
    ((score) + (KN_A)mask[batch * mask_batch + head * mask_head +                                            \
                          (KN_INDEX)min(query, queries - 1) * keys + min(key, keys - 1)])
#else
#define KN_MASK_PARAMETERS
#define KN_MASKED(score, query, key) (score)
#endif
#define KN_NUMBERS                                                                                           \
    const int queries, const int keys, const KN_INDEX q_first, const KN_INDEX k_first,                       \
        const KN_INDEX v_first, const KN_INDEX q_row, const KN_INDEX k_row, const KN_INDEX y_row,            \
        const int causal, const int last, const int group,                                                   \
        const float scale KN_LENGTHS_PARAMETERS KN_MASK_PARAMETERS
#define KN_PLACES                                                                                            \
    const int row = get_local_id(0) / 4, lane = get_local_id(0) % 4, first = get_group_id(0) * KN_ROWS;      \
    const KN_INDEX batch = get_group_id(2);                                                                  \
    const int limit = KN_LIMIT, offset = last ? max(0, limit - queries) : 0;
#define KN_QUERY_PLACES                                                                                      \
    const KN_INDEX q_at = q_first + batch * queries * q_row + head * KN_HEAD;                                \
    const KN_INDEX y_at = batch * queries * y_row + head * KN_HEAD;                                          \
    const KN_INDEX sums_at = (batch * heads + head) * queries;
#define KN_KEY_PLACES                                                                                        \
    const KN_INDEX k_at = k_first + batch * keys * k_row + key_head * KN_HEAD;                               \
    const KN_INDEX v_at = v_first + batch * keys * k_row + key_head * KN_HEAD;
/* In kernels whose groups have a head of q. */
#define KN_HEAD_PLACES                                                                                       \
    KN_PLACES                                                                                                \
    const KN_INDEX head = get_group_id(1), heads = get_num_groups(1), key_head = head / group;               \
    KN_QUERY_PLACES                                                                                          \
    KN_KEY_PLACES

#if KN_WANTED(kn_attention)
KN_WORK_GROUP kernel void kn_attention(global const KN_T *restrict q, global const KN_T *restrict k,
                                       global const KN_T *restrict v, global KN_T *restrict y,
                                       global KN_T *restrict log_sum, KN_NUMBERS) {
    local KN_A4 query_tile[KN_ROWS * KN_STRIDE], key_tile[KN_ROWS * KN_STRIDE], value_tile[KN_ROWS * KN_STRIDE];
    local KN_A scores[KN_ROWS * (KN_ROWS + 1)];
    KN_HEAD_PLACES
    local KN_A *own_scores = scores + row * (KN_ROWS + 1);
    const int query = first + row, keys_seen = causal ? min(limit, first + offset + KN_ROWS) : limit;
    KN_A most = -INFINITY, sum = 0;
    KN_A4 result[KN_OWN];
    for (int o = 0; o < KN_OWN; o++)
        result[o] = 0;
    load_tile(q + q_at, q_row, first, queries, query_tile);
    for (int key0 = 0; key0 < keys_seen; key0 += KN_ROWS) {
        const int count = min(KN_ROWS, limit - key0);
        barrier(CLK_LOCAL_MEM_FENCE);
        load_tile(k + k_at, k_row, key0, keys, key_tile);
        load_tile(v + v_at, k_row, key0, keys, value_tile);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = lane; j < KN_ROWS; j += 4) {
            const bool seen = j < count && (!causal || key0 + j <= query + offset);
            const KN_A score = dot_rows(query_tile + row * KN_STRIDE, key_tile + j * KN_STRIDE) * scale;
            own_scores[j] = seen ? KN_MASKED(score, query, key0 + j) : (KN_A)(-INFINITY);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        KN_A now = most;
        for (int j = 0; j < KN_ROWS; j++)
            now = fmax(now, own_scores[j]);
        const KN_A base = now == -INFINITY ? (KN_A)0 : now;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = lane; j < KN_ROWS; j += 4)
            own_scores[j] = exp(own_scores[j] - base);
        barrier(CLK_LOCAL_MEM_FENCE);
        const KN_A shrink = most == now ? (KN_A)1 : exp(most - now);
        most = now;
        sum *= shrink;
        for (int o = 0; o < KN_OWN; o++)
            result[o] *= shrink;
        for (int j = 0; j < count; j++) {
            const KN_A weight = own_scores[j];
            sum += weight;
            for (int o = 0; o < KN_OWN; o++)
                if (KN_OWN_FOUR(o) < KN_FOURS) result[o] += weight * value_tile[j * KN_STRIDE + KN_OWN_FOUR(o)];
        }
    }
    if (query >= queries) return;
    store_own(result, sum == 0 ? (KN_A)0 : 1 / sum, lane, y + y_at + query * y_row);
    if (lane == 0) log_sum[sums_at + query] = sum == 0 ? (KN_T)0 : (KN_T)(most + log(sum));
}
#endif

#if KN_WANTED(kn_attention_delta)
KN_WORK_GROUP kernel void kn_attention_delta(global const KN_T *restrict dy, global const KN_T *restrict y,
                                             global KN_A *restrict delta, const int queries,
                                             const KN_INDEX y_row) {
    const int query = get_global_id(0);
    const KN_INDEX head = get_global_id(1), batch = get_global_id(2);
    const KN_INDEX at = (batch * queries + query) * y_row + head * KN_HEAD;
    if (query >= queries) return;
    KN_A sum = 0;
    for (int d = 0; d < KN_HEAD; d++)
        sum += (KN_A)dy[at + d] * (KN_A)y[at + d];
    delta[(batch * get_global_size(1) + head) * queries + query] = sum;
}
#endif

#if KN_WANTED(kn_attention_queries)
KN_WORK_GROUP kernel void kn_attention_queries(global const KN_T *restrict dy,
                                               global const KN_T *restrict log_sum,
                                               global const KN_A *restrict delta,
                                               global const KN_T *restrict q, global const KN_T *restrict k,
                                               global const KN_T *restrict v, global KN_T *restrict dq,
                                               KN_NUMBERS) {
    local KN_A4 query_tile[KN_ROWS * KN_STRIDE], slope_tile[KN_ROWS * KN_STRIDE];
    local KN_A4 key_tile[KN_ROWS * KN_STRIDE], value_tile[KN_ROWS * KN_STRIDE];
    local KN_A slopes[KN_ROWS * (KN_ROWS + 1)];
    KN_HEAD_PLACES
    local KN_A *own_slopes = slopes + row * (KN_ROWS + 1);
    const int query = first + row, keys_seen = causal ? min(limit, first + offset + KN_ROWS) : limit;
    const KN_A own_sum = (KN_A)log_sum[sums_at + min(query, queries - 1)];
    const KN_A own_delta = delta[sums_at + min(query, queries - 1)];
    KN_A4 result[KN_OWN];
    for (int o = 0; o < KN_OWN; o++)
        result[o] = 0;
    load_tile(q + q_at, q_row, first, queries, query_tile);
    load_tile(dy + y_at, y_row, first, queries, slope_tile);
    for (int key0 = 0; key0 < keys_seen; key0 += KN_ROWS) {
        const int count = min(KN_ROWS, limit - key0);
        barrier(CLK_LOCAL_MEM_FENCE);
        load_tile(k + k_at, k_row, key0, keys, key_tile);
        load_tile(v + v_at, k_row, key0, keys, value_tile);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = lane; j < KN_ROWS; j += 4) {
            const bool seen = j < count && (!causal || key0 + j <= query + offset);
            const KN_A score = dot_rows(query_tile + row * KN_STRIDE, key_tile + j * KN_STRIDE) * scale;
            const KN_A slope = dot_rows(slope_tile + row * KN_STRIDE, value_tile + j * KN_STRIDE);
            own_slopes[j] =
                seen ? exp(KN_MASKED(score, query, key0 + j) - own_sum) * (slope - own_delta) * scale : (KN_A)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < count; j++)
            for (int o = 0; o < KN_OWN; o++)
                if (KN_OWN_FOUR(o) < KN_FOURS)
                    result[o] += own_slopes[j] * key_tile[j * KN_STRIDE + KN_OWN_FOUR(o)];
    }
    if (query < queries) store_own(result, 1, lane, dq + q_at + query * q_row);
}
#endif

#if KN_WANTED(kn_attention_keys)
KN_WORK_GROUP kernel void kn_attention_keys(global const KN_T *restrict dy,
                                            global const KN_T *restrict log_sum,
                                            global const KN_A *restrict delta, global const KN_T *restrict q,
                                            global const KN_T *restrict k, global const KN_T *restrict v,
                                            global KN_T *dk, global KN_T *dv, KN_NUMBERS) {
    local KN_A4 query_tile[KN_ROWS * KN_STRIDE], slope_tile[KN_ROWS * KN_STRIDE];
    local KN_A4 key_tile[KN_ROWS * KN_STRIDE], value_tile[KN_ROWS * KN_STRIDE];
    local KN_A weights[KN_ROWS * (KN_ROWS + 1)], slopes[KN_ROWS * (KN_ROWS + 1)];
    KN_PLACES
    const KN_INDEX key_head = get_group_id(1), heads = get_num_groups(1) * group;
    KN_KEY_PLACES
    local KN_A *own_weights = weights + row * (KN_ROWS + 1), *own_slopes = slopes + row * (KN_ROWS + 1);
    const int key = first + row;
    KN_A4 key_result[KN_OWN], value_result[KN_OWN];
    for (int o = 0; o < KN_OWN; o++)
        key_result[o] = value_result[o] = 0;
    load_tile(k + k_at, k_row, first, keys, key_tile);
    load_tile(v + v_at, k_row, first, keys, value_tile);
    for (KN_INDEX head = key_head * group; head < (key_head + 1) * group; head++) {
        KN_QUERY_PLACES
        for (int query0 = causal ? max(0, first - offset) : 0; query0 < queries; query0 += KN_ROWS) {
            const int count = min(KN_ROWS, queries - query0);
            barrier(CLK_LOCAL_MEM_FENCE);
            load_tile(q + q_at, q_row, query0, queries, query_tile);
            load_tile(dy + y_at, y_row, query0, queries, slope_tile);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = lane; i < KN_ROWS; i += 4) {
                const bool seen = i < count && key < limit && (!causal || key <= query0 + i + offset);
                const KN_INDEX sum_at = sums_at + min(query0 + i, queries - 1);
                const KN_A score = dot_rows(query_tile + i * KN_STRIDE, key_tile + row * KN_STRIDE) * scale;
                const KN_A slope = dot_rows(slope_tile + i * KN_STRIDE, value_tile + row * KN_STRIDE);
                const KN_A weight = seen ? exp(KN_MASKED(score, query0 + i, key) - (KN_A)log_sum[sum_at]) : (KN_A)0;
                own_weights[i] = weight;
                own_slopes[i] = seen ? weight * (slope - delta[sum_at]) * scale : (KN_A)0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = 0; i < count; i++)
                for (int o = 0; o < KN_OWN; o++)
                    if (KN_OWN_FOUR(o) < KN_FOURS) {
                        value_result[o] += own_weights[i] * slope_tile[i * KN_STRIDE + KN_OWN_FOUR(o)];
                        key_result[o] += own_slopes[i] * query_tile[i * KN_STRIDE + KN_OWN_FOUR(o)];
                    }
        }
    }
    if (key >= keys) return;
    store_own(key_result, 1, lane, dk + k_at + key * k_row);
    store_own(value_result, 1, lane, dv + v_at + key * k_row);
}
#endif
