/* Scaled dot-product attention for wide-vector devices, float32: softmax(scale Q Kᵀ) V by head, in blocks of
 * queries and keys; scores are never written to memory. One work-item has one block of queries of a head, or, in
 * the gradient, a whole head, so that sums have a fixed order. Operands that are vectors of a product are first
 * packed into local memory; the other side is read in place.
 *
 * Defines: those of common/vector.cl, and, with their defaults:
 *   KN_HEAD 64     numbers of a head, D
 *   KN_KEYS 64     keys of a block, a multiple of KN_COLUMNS
 *   KN_BLOCK 64    queries of a block
 *
 * Row t of head h of batch b of an operand begins at first + (b * length + t) * row + h * KN_HEAD, so that q, k and v
 * may lie side by side in one array. log_sum is (batch,head,query): the logarithm of the sum of exp(score).
 * `group` heads of q share one of k and v. Query i stands at key i, or with `last` at
 * i + max(0, keys that count - queries); with `causal` it sees the keys up to there. A query that sees none gives 0.
 * Defined, KN_LENGTHS adds parameters behind the others: lengths, which tells of each batch how many keys count,
 * and lengths_row, 1, or 0 where all have the same. KN_MASK adds what is added to the scores, (batch,head,query,key),
 * and from how far a batch and a head are to the next, 0 where they share it.
 * KN_DROPOUT adds the step counter, the key of the stream in two words, and the rate: weight (batch,head,query,key) is
 * dropped by the random number of its place in row-major order.
 *
 * kn_attention(q, k, v, y, log_sum, queries, keys, q_first, k_first, v_first, q_row, k_row, y_row, causal, last, group,
 *              scale)
 *   global size (ceil(queries / KN_BLOCK), heads, batches)
 * kn_attention_gradient(dy, y, log_sum, q, k, v, dq, dk, dv, queries, keys, q_first, k_first, v_first, q_row, k_row,
 *                       y_row, causal, last, group, scale)
 *   global size (heads of k and v, batches); dq, dk, dv lie as q, k, v. */
#include "common/wanted.cl"
#include "common/vector.cl"
#include "common/weave.cl"
#include "common/exp.cl"
#ifdef KN_DROPOUT
#include "common/keep.cl"
#endif

#ifndef KN_HEAD
#define KN_HEAD 64
#endif
#ifndef KN_KEYS
#define KN_KEYS 64
#endif
#ifndef KN_BLOCK
#define KN_BLOCK 64
#endif
#ifdef KN_LENGTHS
#define KN_LENGTHS_PARAMETERS , global const int *restrict lengths, int lengths_row
#define KN_LIMIT clamp(lengths[batch * lengths_row], 0, keys)
#else
#define KN_LENGTHS_PARAMETERS
#define KN_LIMIT keys
#endif
#ifdef KN_MASK
#define KN_MASK_PARAMETERS , global const float *restrict mask, KN_INDEX mask_batch, KN_INDEX mask_head
#else
#define KN_MASK_PARAMETERS
#endif
#ifdef KN_DROPOUT
#define KN_DROPOUT_PARAMETERS , global const uint *restrict step, uint key_low, uint key_high, float rate
#define KN_DROPOUT_KEY const ulong random_key = ((ulong)key_high << 32 | key_low) + *step * KN_PHILOX_STEP;
#define KN_DROP_PARAMETERS , ulong random_key, float rate, ulong place
#define KN_DROP_ARGUMENTS(place) , random_key, rate, place
#define KN_KEPT(j) kept_of(random_key, rate, place + (j))
#else
#define KN_DROPOUT_PARAMETERS
#define KN_DROPOUT_KEY
#define KN_DROP_PARAMETERS
#define KN_DROP_ARGUMENTS(place)
#define KN_KEPT(j) 1.0f
#endif
/* A head's numbers, filled up to whole tiles. */
#define KN_PADDED ((KN_HEAD + KN_COLUMNS - 1) / KN_COLUMNS * KN_COLUMNS)

/* ---- products: c (rows,columns) = A(rows,depth) · b(depth,columns) ------------------------------------ */

#if KN_VECTORS >= 3
#define KN_NARROW 2
#else
#define KN_NARROW 1
#endif
#define KN_EACH_NARROW(X, row) KN_JOIN(KN_VECTORS_, KN_NARROW)(X, row)
#define KN_ZERO(row, v) vector sum##row##_##v = add ? load(v, c + row * c_row) : (vector)(0.0f);
#define KN_RIGHT(row, v) const vector right##v = load(v, b);
#define KN_ADD(row, v) sum##row##_##v += left * right##v;
#define KN_KEEP_VECTOR(row, v) store(sum##row##_##v, v, c + row * c_row);
#define KN_START_OF(each, row)                                                                               \
    const KN_INDEX at##row = row * a_row;                                                                    \
    each(KN_ZERO, row)
#define KN_STEP_OF(each, row)                                                                                \
    {                                                                                                        \
        const vector left = a[at##row];                                                                      \
        each(KN_ADD, row)                                                                                    \
    }
#define KN_START(row) KN_START_OF(KN_EACH, row)
#define KN_STEP(row) KN_STEP_OF(KN_EACH, row)
#define KN_KEEP(row) KN_EACH(KN_KEEP_VECTOR, row)
#define KN_START_NARROW(row) KN_START_OF(KN_EACH_NARROW, row)
#define KN_STEP_NARROW(row) KN_STEP_OF(KN_EACH_NARROW, row)
#define KN_KEEP_NARROW(row) KN_EACH_NARROW(KN_KEEP_VECTOR, row)
#define KN_TILE(name, space, each_row, each, width)                                                          \
    KN_APART void name(space const float *a, KN_INDEX a_row, KN_INDEX a_column, local const float *b,        \
                       int b_row, int depth, local float *c, int c_row, int add) {                           \
        each_row(KN_START##width);                                                                           \
        for (int k = 0; k < depth; k++, a += a_column, b += b_row) {                                         \
            each(KN_RIGHT, 0);                                                                               \
            each_row(KN_STEP##width);                                                                        \
        }                                                                                                    \
        each_row(KN_KEEP##width);                                                                            \
    }
/* With `causal` much of a block is not seen: query i sees the keys below i + 1 + shift. What the rows, the columns
 * and the depth of a product are tells which of its tiles and steps are left out. */
#define KN_SCORES 0         /* queries, keys, numbers: scores that no query of a tile sees stay what they are */
#define KN_SUMS_OF_KEYS 1   /* queries, numbers, keys: those that are not seen weigh nothing */
#define KN_SUMS_OF_ROWS 2   /* keys, numbers, queries: likewise */
/* The keys that some query of a tile sees end before i + KN_REACH + shift for each of its queries i. */
#define KN_REACH 6
#define KN_MULTIPLY(name, space)                                                                             \
    KN_TILE(name##_6, space, KN_ROWS_6, KN_EACH, )                                                           \
    KN_TILE(name##_6_narrow, space, KN_ROWS_6, KN_EACH_NARROW, _NARROW)                                      \
    KN_TILE(name##_4, space, KN_ROWS_4, KN_EACH, )                                                           \
    KN_TILE(name##_1, space, KN_ROWS_1, KN_EACH, )                                                           \
    KN_INLINE void name(space const float *a, KN_INDEX a_row, KN_INDEX a_column, local const float *b,       \
                        int b_row, int rows, int depth, int columns, local float *c, int c_row, int add,     \
                        int kind, int shift) {                                                               \
        for (int column = 0; column < columns; column += KN_COLUMNS)                                         \
            for (int i = 0, taken; i < rows; i += taken) {                                                   \
                const int rest = rows - i;                                                                   \
                taken = rest >= 6 && rest != 8 ? 6 : rest >= 4 ? 4 : 1;                                      \
                const int seen = i + taken + shift;                                                          \
                const int begin = kind == KN_SUMS_OF_ROWS ? min(max(i - shift, 0), depth) : 0;               \
                const int end = kind == KN_SUMS_OF_KEYS ? min(max(seen, 0), depth) : depth;                  \
                const int most = kind == KN_SCORES ? seen - column : KN_COLUMNS;                             \
                space const float *left = a + i * a_row + begin * a_column;                                  \
                local const float *right = b + column + begin * b_row;                                       \
                local float *result = c + i * c_row + column;                                                \
                if (most <= 0) continue;                                                                     \
                if (KN_NARROW < KN_VECTORS && taken == 6 && most <= KN_NARROW * KN_WIDTH)                    \
                    name##_6_narrow(left, a_row, a_column, right, b_row, end - begin, result, c_row, add);   \
                else if (taken == 6)                                                                         \
                    name##_6(left, a_row, a_column, right, b_row, end - begin, result, c_row, add);          \
                else if (taken == 4)                                                                         \
                    name##_4(left, a_row, a_column, right, b_row, end - begin, result, c_row, add);          \
                else                                                                                         \
                    name##_1(left, a_row, a_column, right, b_row, end - begin, result, c_row, add);          \
            }                                                                                                \
    }
KN_MULTIPLY(multiply_global, global)
KN_MULTIPLY(multiply_local, local)

/* ---- packing -------------------------------------------------------------------------------------------- */

#define KN_TRANSPOSED_LOAD(i) const vector x##i = load(0, from + (KN_INDEX)min(key + i, count - 1) * row + d);
#define KN_TRANSPOSED_STORE(i) store(t##i, 0, to + (d + i) * KN_KEYS + key);

/* to (KN_HEAD,KN_KEYS) = the transposed of `count` rows; those beyond repeat the last. */
KN_INLINE void pack_transposed(global const float *from, KN_INDEX row, int count, local float *to) {
    for (int key = 0; key < KN_KEYS; key += KN_WIDTH) {
        int d = 0;
        for (; d + KN_WIDTH <= KN_HEAD; d += KN_WIDTH) {
            KN_EACH_LANE(KN_TRANSPOSED_LOAD)
            KN_TRANSPOSE(x)
            KN_EACH_LANE(KN_TRANSPOSED_STORE)
        }
        for (; d < KN_HEAD; d++)
            for (int i = 0; i < KN_WIDTH; i++)
                to[d * KN_KEYS + key + i] = from[(KN_INDEX)min(key + i, count - 1) * row + d];
    }
}

/* to (count,KN_PADDED) = `count` rows, filled up with zeros. */
KN_INLINE void pack_rows(global const float *from, KN_INDEX row, int count, local float *to) {
    for (int i = 0; i < count; i++, from += row, to += KN_PADDED) {
        int d = 0;
        for (; d + KN_WIDTH <= KN_HEAD; d += KN_WIDTH)
            store(load(0, from + d), 0, to + d);
        for (; d < KN_PADDED; d++)
            to[d] = d < KN_HEAD ? from[d] : 0.0f;
    }
}

/* Rows of a block back to their place. */
KN_INLINE void unpack_rows(local const float *from, int count, global float *to, KN_INDEX row, int add) {
    for (int i = 0; i < count; i++, from += KN_PADDED, to += row) {
        int d = 0;
        for (; d + KN_WIDTH <= KN_HEAD; d += KN_WIDTH)
            store(add ? load(0, to + d) + load(0, from + d) : load(0, from + d), 0, to + d);
        for (; d < KN_HEAD; d++)
            to[d] = add ? to[d] + from[d] : from[d];
    }
}

/* ---- lanes ----------------------------------------------------------------------------------------------- */

KN_INLINE float sum_4(float4 x) {
    return (x.s0 + x.s2) + (x.s1 + x.s3);
}
KN_INLINE float sum_8(float8 x) {
    return sum_4(x.lo + x.hi);
}
KN_INLINE float sum_16(float16 x) {
    return sum_8(x.lo + x.hi);
}
KN_INLINE float max_4(float4 x) {
    return fmax(fmax(x.s0, x.s2), fmax(x.s1, x.s3));
}
KN_INLINE float max_8(float8 x) {
    return max_4(fmax(x.lo, x.hi));
}
KN_INLINE float max_16(float16 x) {
    return max_8(fmax(x.lo, x.hi));
}
#define KN_SUM_LANES KN_JOIN(sum_, KN_WIDTH)
#define KN_MAX_LANES KN_JOIN(max_, KN_WIDTH)
typedef KN_JOIN(int, KN_WIDTH) whole;
#define KN_LANE_NUMBERS ((whole)(KN_LANE_LIST))
/* The first `count` lanes of x, `other` in the rest. */
#define KN_FIRST_LANES(x, other, count) select((vector)(other), x, KN_LANE_NUMBERS < (whole)(count))

#ifdef KN_MASK
/* scores = scores * scale + mask, as far as there is a mask. */
KN_INLINE void add_mask(local float *scores, int count, float scale, global const float *mask) {
    int j = 0;
    for (; j + KN_WIDTH <= count; j += KN_WIDTH)
        store(load(0, scores + j) * scale + load(0, mask + j), 0, scores + j);
    for (; j < count; j++)
        scores[j] = scores[j] * scale + mask[j];
}
#endif

/* ---- forward ----------------------------------------------------------------------------------------------- */

/* Scores of one query, `seen` of them, become weights exp(score - most), and zeros up to `reach`; the sum and the
 * result so far, if any, are brought to the new maximum. Dropped weights are in the sum. */
KN_INLINE void weigh(local float *scores, int seen, int reach, float scale, int begun, local float *most,
                     local float *sum, local float *result KN_DROP_PARAMETERS) {
    vector largest = -INFINITY;
    for (int j = 0; j < reach; j += KN_WIDTH) {
        const vector score = KN_FIRST_LANES(load(0, scores + j) * scale, -INFINITY, seen - j);
        largest = fmax(largest, score);
        store(score, 0, scores + j);
    }
    const float now = begun ? fmax(*most, KN_MAX_LANES(largest)) : KN_MAX_LANES(largest);
#ifdef KN_MASK
    const float base = now == -INFINITY ? 0.0f : now;
#else
    const float base = now;
#endif
    vector sums = 0.0f;
    for (int j = 0; j < reach; j += KN_WIDTH) {
        const vector weight = exp_of(load(0, scores + j) - base);
        sums += weight;
        store(weight * KN_KEPT(j), 0, scores + j);
    }
    float before = 0.0f;
    if (begun) {
        const float shrink = *most == now ? 1.0f : exp(*most - now);
        if (shrink != 1.0f)
            for (int d = 0; d < KN_PADDED; d += KN_WIDTH)
                store(load(0, result + d) * shrink, 0, result + d);
        before = *sum * shrink;
    }
    *most = now;
    *sum = before + KN_SUM_LANES(sums);
}

#if KN_WANTED(kn_attention)
KN_WIDE kn_attention(global const float *restrict q, global const float *restrict k,
                     global const float *restrict v, global float *restrict y, global float *restrict log_sum,
                     int queries, int keys, KN_INDEX q_first, KN_INDEX k_first, KN_INDEX v_first,
                     KN_INDEX q_row, KN_INDEX k_row, KN_INDEX y_row, int causal, int last, int group,
                     float scale KN_LENGTHS_PARAMETERS KN_MASK_PARAMETERS KN_DROPOUT_PARAMETERS) {
    local float key_columns[KN_HEAD * KN_KEYS], values[KN_KEYS * KN_PADDED];
    local float scores[KN_BLOCK * KN_KEYS], result[KN_BLOCK * KN_PADDED], most[KN_BLOCK], sum[KN_BLOCK];
    const int first = get_global_id(0) * KN_BLOCK, rows = min(KN_BLOCK, queries - first);
    const KN_INDEX head = get_global_id(1), batch = get_global_id(2);
    const int limit = KN_LIMIT, offset = last ? max(0, limit - queries) : 0;
    q += q_first + (batch * queries + first) * q_row + head * KN_HEAD;
    k += k_first + batch * keys * k_row + head / group * KN_HEAD;
    v += v_first + batch * keys * k_row + head / group * KN_HEAD;
    y += (batch * queries + first) * y_row + head * KN_HEAD;
    log_sum += (batch * get_global_size(1) + head) * queries + first;
#ifdef KN_MASK
    mask += batch * mask_batch + head * mask_head;
#endif
#ifdef KN_DROPOUT
    KN_DROPOUT_KEY
    const ulong place = ((ulong)(batch * get_global_size(1) + head) * queries + first) * keys;
#endif
    const int keys_seen = causal ? min(limit, first + offset + rows) : limit;
    for (int key = 0; key < keys_seen; key += KN_KEYS) {
        const int count = min(KN_KEYS, keys_seen - key), start = causal ? max(0, key - first - offset) : 0;
        const int shift = causal ? first + offset + start - key : KN_KEYS;
        pack_transposed(k + key * k_row, k_row, count, key_columns);
        pack_rows(v + key * k_row, k_row, count, values);
        multiply_global(q + start * q_row, q_row, 1, key_columns, KN_KEYS, rows - start, KN_HEAD, KN_KEYS,
                        scores + start * KN_KEYS, KN_KEYS, 0, KN_SCORES, shift);
#ifdef KN_MASK
        for (int i = 0; i < rows - start; i++)
            add_mask(scores + (start + i) * KN_KEYS, min(count, i + 1 + shift), scale,
                     mask + (KN_INDEX)(first + start + i) * keys + key);
        const float score_scale = 1.0f;
#else
        const float score_scale = scale;
#endif
        for (int i = 0; i < rows - start; i++)
            weigh(scores + (start + i) * KN_KEYS, min(count, i + 1 + shift), min(count, i + KN_REACH + shift),
                  score_scale, key > 0, most + start + i, sum + start + i, result + (start + i) * KN_PADDED
                      KN_DROP_ARGUMENTS(place + (ulong)(start + i) * keys + key));
        multiply_local(scores + start * KN_KEYS, KN_KEYS, 1, values, KN_PADDED, rows - start, count, KN_PADDED,
                       result + start * KN_PADDED, KN_PADDED, key > 0, KN_SUMS_OF_KEYS, shift);
    }
#ifdef KN_LENGTHS
    for (int i = 0; i < rows && keys_seen == 0; i++) {
        most[i] = 0.0f;
        sum[i] = 1.0f;
        for (int d = 0; d < KN_PADDED; d += KN_WIDTH)
            store((vector)(0.0f), 0, result + i * KN_PADDED + d);
    }
#endif
    for (int i = 0; i < rows; i++) {
#ifdef KN_MASK
        const int none = sum[i] == 0.0f;
#else
        const int none = 0;
#endif
        const float share = none ? 0.0f : 1.0f / sum[i];
        for (int d = 0; d < KN_PADDED; d += KN_WIDTH)
            store(load(0, result + i * KN_PADDED + d) * share, 0, result + i * KN_PADDED + d);
        log_sum[i] = none ? 0.0f : most[i] + log(sum[i]);
    }
    unpack_rows(result, rows, y, y_row, 0);
}
#endif

/* ---- gradient ------------------------------------------------------------------------------------------------ */

/* Of one query: scores become weights P = exp(score - log_sum), score_scale being 1 where they are
 * scaled already, and dP becomes dS = P (dP - delta) scale, with zeros
 * from `seen` up to `reach`. */
KN_INLINE void slopes(local float *scores, local float *weight_slopes, int seen, int reach, float score_scale,
                      float scale, float log_sum, float delta KN_DROP_PARAMETERS) {
    for (int j = 0; j < reach; j += KN_WIDTH) {
        const vector score = load(0, scores + j) * score_scale - log_sum;
        const vector weight = exp_of(KN_FIRST_LANES(score, -INFINITY, seen - j));
        const vector kept = KN_KEPT(j);
        const vector slope = weight * (load(0, weight_slopes + j) * kept - delta) * scale;
        store(weight * kept, 0, scores + j);
        store(KN_FIRST_LANES(slope, 0.0f, seen - j), 0, weight_slopes + j);
    }
}

/* The product of two rows of a head. */
KN_INLINE float dot_rows(global const float *left, global const float *right) {
    float sum = 0.0f;
    int d = 0;
#if KN_HEAD >= KN_WIDTH
    vector sums = 0.0f;
    for (; d + KN_WIDTH <= KN_HEAD; d += KN_WIDTH)
        sums += load(0, left + d) * load(0, right + d);
    sum = KN_SUM_LANES(sums);
#endif
    for (; d < KN_HEAD; d++)
        sum += left[d] * right[d];
    return sum;
}

#ifdef KN_LENGTHS
KN_INLINE void zero_rows(global float *to, KN_INDEX row, int count) {
    for (int i = 0; i < count; i++, to += row)
        for (int d = 0; d < KN_HEAD; d++)
            to[d] = 0.0f;
}
#endif

#if KN_WANTED(kn_attention_gradient)
KN_WIDE kn_attention_gradient(global const float *restrict dy, global const float *restrict y,
                              global const float *restrict log_sum, global const float *restrict q,
                              global const float *restrict k, global const float *restrict v,
                              global float *dq, global float *dk, global float *dv, int queries, int keys,
                              KN_INDEX q_first, KN_INDEX k_first, KN_INDEX v_first, KN_INDEX q_row,
                              KN_INDEX k_row, KN_INDEX y_row, int causal, int last, int group,
                              float scale KN_LENGTHS_PARAMETERS KN_MASK_PARAMETERS KN_DROPOUT_PARAMETERS) {
    local float key_columns[KN_HEAD * KN_KEYS], value_columns[KN_HEAD * KN_KEYS], key_rows[KN_KEYS * KN_PADDED];
    local float query_rows[KN_BLOCK * KN_PADDED], slope_rows[KN_BLOCK * KN_PADDED];
    local float weights[KN_BLOCK * KN_KEYS], weight_slopes[KN_BLOCK * KN_KEYS], query_slopes[KN_BLOCK * KN_PADDED];
    local float key_slopes[KN_KEYS * KN_PADDED], value_slopes[KN_KEYS * KN_PADDED];
    const KN_INDEX key_head = get_global_id(0), batch = get_global_id(1);
    const int limit = KN_LIMIT, offset = last ? max(0, limit - queries) : 0;
    const KN_INDEX k_at = k_first + batch * keys * k_row + key_head * KN_HEAD;
    const KN_INDEX v_at = v_first + batch * keys * k_row + key_head * KN_HEAD;
    KN_DROPOUT_KEY
    for (int key = 0; key < limit; key += KN_KEYS) {
        const int count = min(KN_KEYS, limit - key), begin = causal ? max(0, key - offset) : 0;
        pack_transposed(k + k_at + key * k_row, k_row, count, key_columns);
        pack_transposed(v + v_at + key * k_row, k_row, count, value_columns);
        pack_rows(k + k_at + key * k_row, k_row, count, key_rows);
        for (int i = 0; i < count * KN_PADDED; i += KN_WIDTH) {
            store((vector)(0.0f), 0, key_slopes + i);
            store((vector)(0.0f), 0, value_slopes + i);
        }
        for (int member = 0; member < group; member++) {
            const KN_INDEX head = key_head * group + member;
            const KN_INDEX q_at = q_first + batch * queries * q_row + head * KN_HEAD;
            const KN_INDEX y_at = batch * queries * y_row + head * KN_HEAD;
            global const float *sums = log_sum + (batch * get_global_size(0) * group + head) * queries;
#ifdef KN_DROPOUT
            const ulong place = (ulong)(batch * get_global_size(0) * group + head) * queries * keys;
#endif
            for (int first = begin / KN_BLOCK * KN_BLOCK; first < queries; first += KN_BLOCK) {
                const int rows = min(KN_BLOCK, queries - first);
                global const float *own = q + q_at + first * q_row, *slope = dy + y_at + first * y_row;
                pack_rows(own, q_row, rows, query_rows);
                pack_rows(slope, y_row, rows, slope_rows);
                const int shift = causal ? first + offset - key : KN_KEYS + KN_BLOCK;
                multiply_global(own, q_row, 1, key_columns, KN_KEYS, rows, KN_HEAD, KN_KEYS, weights, KN_KEYS, 0,
                                KN_SCORES, shift);
                multiply_global(slope, y_row, 1, value_columns, KN_KEYS, rows, KN_HEAD, KN_KEYS, weight_slopes,
                                KN_KEYS, 0, KN_SCORES, shift);
#ifdef KN_MASK
                for (int i = 0; i < rows; i++)
                    add_mask(weights + i * KN_KEYS, min(count, i + 1 + shift), scale,
                             mask + batch * mask_batch + head * mask_head + (KN_INDEX)(first + i) * keys + key);
                const float score_scale = 1.0f;
#else
                const float score_scale = scale;
#endif
                for (int i = 0; i < rows; i++)
                    slopes(weights + i * KN_KEYS, weight_slopes + i * KN_KEYS, min(count, i + 1 + shift),
                           min(count, i + KN_REACH + shift), score_scale, scale, sums[first + i],
                           dot_rows(slope + i * y_row, y + y_at + (first + i) * y_row)
                           KN_DROP_ARGUMENTS(place + (ulong)(first + i) * keys + key));
                multiply_local(weight_slopes, KN_KEYS, 1, key_rows, KN_PADDED, rows, count, KN_PADDED,
                               query_slopes, KN_PADDED, 0, KN_SUMS_OF_KEYS, shift);
                unpack_rows(query_slopes, rows, dq + q_at + first * q_row, q_row, key > 0);
                multiply_local(weights, 1, KN_KEYS, slope_rows, KN_PADDED, count, rows, KN_PADDED, value_slopes,
                               KN_PADDED, 1, KN_SUMS_OF_ROWS, shift);
                multiply_local(weight_slopes, 1, KN_KEYS, query_rows, KN_PADDED, count, rows, KN_PADDED,
                               key_slopes, KN_PADDED, 1, KN_SUMS_OF_ROWS, shift);
            }
        }
        unpack_rows(key_slopes, count, dk + k_at + key * k_row, k_row, 0);
        unpack_rows(value_slopes, count, dv + v_at + key * k_row, k_row, 0);
    }
#ifdef KN_LENGTHS
    zero_rows(dk + k_at + limit * k_row, k_row, keys - limit);
    zero_rows(dv + v_at + limit * k_row, k_row, keys - limit);
    for (int member = 0; member < group && limit == 0; member++)
        zero_rows(dq + q_first + batch * queries * q_row + (key_head * group + member) * KN_HEAD, q_row, queries);
#endif
}
#endif
