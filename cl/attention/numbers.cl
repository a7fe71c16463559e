/* The arguments of the many-thread attention kernels other than arrays of elements, and where rows begin.
 *
 * Defines, with their defaults:
 *   KN_T, KN_A  types of the arrays, and of the computation (common/types.cl)
 *   KN_HEAD 64     elements of a head, D
 * and those of attention/stored.cl.
 *
 * Row t of head h of batch b of an operand begins at first + (b * length + t) * row + h * KN_HEAD, so that q, k and v
 * may be interleaved in one array. log_sum and delta are (batch,head,query).
 * `group` of the `heads` of q use the same head of k and v. Query i has the position of key i, or with `last`
 * i + max(0, valid keys - queries); with `causal` it attends to keys up to that position. A query without keys gives
 * 0.
 * KN_LENGTHS appends parameters: lengths, the number of valid keys of each batch, and lengths_row, 1, or 0 if all
 * batches have the same. KN_MASK appends a mask that is added to the scores, (batch,head,query,key), and its strides
 * by batch and head, 0 where it is broadcast. KN_DROPOUT appends the step counter, the key of the stream in two words,
 * and the rate: weight (batch,head,query,key) is dropped depending on the random number at its row-major index.
 * KN_WINDOW appends a window: a query attends only to keys fewer than `window` positions before it and, unless causal,
 * after it. KN_SOFTCAP appends softcap: a score s becomes softcap tanh(s / softcap) before the mask is added. KN_FIRST
 * appends first, the first key that each query sees, (batch,query), and its stride by batch, 0 where it is broadcast. */
#include "attention/stored.cl"
#include "common/types.cl"
#ifndef KN_HEAD
#define KN_HEAD 64
#endif

#ifdef KN_LENGTHS
#define KN_LENGTHS_PARAMETERS , global const int *restrict lengths, const int lengths_row
#define KN_LIMIT clamp(lengths[batch * lengths_row], 0, keys)
#else
#define KN_LENGTHS_PARAMETERS
#define KN_LIMIT keys
#endif
#ifdef KN_FIRST
#define KN_FIRST_PARAMETERS , global const int *restrict first_keys, const KN_INDEX first_row
#define KN_FIRST_OF(query) first_keys[batch * first_row + min(query, queries - 1)]
#define KN_FROM_FIRST(score, query, key) ((key) >= KN_FIRST_OF(query) ? (score) : (KN_A)(-INFINITY))
/* The least of the first keys of `count` queries. */
static inline int least_first(global const int *first_keys, const int query, const int count, const int queries) {
    int least = first_keys[query];
    for (int i = query + 1; i < min(query + count, queries); i++)
        least = min(least, first_keys[i]);
    return max(least, 0);
}
/* The end of the queries before `end` that see a key up to `last`. */
static inline int end_of_seeing(global const int *first_keys, const int last, int end) {
    while (end > 0 && first_keys[end - 1] > last)
        end--;
    return end;
}
#define KN_LEAST_FIRST(query, count) min(least_first(first_keys + batch * first_row, query, count, queries), keys)
#define KN_END_OF_SEEING(last, end) end_of_seeing(first_keys + batch * first_row, last, end)
#else
#define KN_FIRST_PARAMETERS
#define KN_FROM_FIRST(score, query, key) (score)
#define KN_LEAST_FIRST(query, count) 0
#define KN_END_OF_SEEING(last, end) (end)
#endif
#ifdef KN_WINDOW
#define KN_WINDOW_PARAMETERS , const int window
#define KN_IN_WINDOW(score, query, key)                                                                      \
    ((query) + offset - (key) < window && (causal || (key) - (query) - offset < window)                      \
         ? KN_FROM_FIRST(score, query, key)                                                                  \
         : (KN_A)(-INFINITY))
/* The first key that any of `count` queries may see, and the end of the queries that may see a key up to `last`. */
#define KN_FIRST_KEY(query, count) max(KN_LEAST_FIRST(query, count), (query) + offset - window + 1)
#define KN_END_QUERY(last) KN_END_OF_SEEING(last, min(queries, (last) - offset + window))
#else
#define KN_WINDOW_PARAMETERS
#define KN_IN_WINDOW(score, query, key) KN_FROM_FIRST(score, query, key)
#define KN_FIRST_KEY(query, count) KN_LEAST_FIRST(query, count)
#define KN_END_QUERY(last) KN_END_OF_SEEING(last, queries)
#endif
/* The score of a dot product of a query and a key, and the derivative of that score by the dot product. */
#ifdef KN_SOFTCAP
#define KN_SOFTCAP_PARAMETERS , const KN_A softcap
#define KN_SCORE_OF(dot) (softcap * tanh((dot) * scale / softcap))
#define KN_SCORE_SLOPE(score) (scale * ((softcap - (score)) * (softcap + (score)) / (softcap * softcap)))
#else
#define KN_SOFTCAP_PARAMETERS
#define KN_SCORE_OF(dot) ((dot) * scale)
#define KN_SCORE_SLOPE(score) scale
#endif
#ifdef KN_MASK
#define KN_MASK_PARAMETERS , global const mask_stored *restrict mask, const KN_INDEX mask_batch, const KN_INDEX mask_head
#define KN_MASKED(score, query, key)                                                                         \
    KN_IN_WINDOW((score) + (KN_A)KN_READ_AS(KN_HALF_mask, mask + batch * mask_batch + head * mask_head +     \
                                                (KN_INDEX)min(query, queries - 1) * keys + min(key, keys - 1)), \
                 query, key)
#else
#define KN_MASK_PARAMETERS
#define KN_MASKED(score, query, key) KN_IN_WINDOW(score, query, key)
#endif
#ifdef KN_DROPOUT
#include "common/random.cl"
#define KN_DROPOUT_PARAMETERS , global const uint *restrict step, const uint key_low, const uint key_high, const KN_A rate
#define KN_KEPT(query, key)                                                                                  \
    (kn_uniform((ulong)key_high << 32 | key_low, *step,                                                      \
                ((ulong)sums_at + (query)) * keys + (key)) >= rate ? (KN_A)1 / ((KN_A)1 - rate) : (KN_A)0)
#else
#define KN_DROPOUT_PARAMETERS
#define KN_KEPT(query, key) ((KN_A)1)
#endif
#define KN_SIZES                                                                                           \
    const int queries, const int keys, const KN_INDEX q_first, const KN_INDEX k_first,                       \
        const KN_INDEX v_first, const KN_INDEX q_row, const KN_INDEX k_row, const KN_INDEX y_row,            \
        const int causal, const int last, const int group, const int heads,                                  \
        const KN_A scale KN_LENGTHS_PARAMETERS KN_MASK_PARAMETERS KN_DROPOUT_PARAMETERS KN_WINDOW_PARAMETERS KN_SOFTCAP_PARAMETERS \
            KN_FIRST_PARAMETERS
/* The number of keys of a batch, and the position of its first query. */
#define KN_LIMITS const int limit = KN_LIMIT, offset = last ? max(0, limit - queries) : 0;
#define KN_QUERY_PLACES                                                                                      \
    const KN_INDEX q_at = q_first + batch * queries * q_row + head * KN_HEAD;                                \
    const KN_INDEX y_at = batch * queries * y_row + head * KN_HEAD;                                          \
    const KN_INDEX sums_at = (batch * heads + head) * queries;
#define KN_KEY_PLACES                                                                                        \
    const KN_INDEX k_at = k_first + batch * keys * k_row + key_head * KN_HEAD;                               \
    const KN_INDEX v_at = v_first + batch * keys * k_row + key_head * KN_HEAD;
