/* Softmax and log-softmax over one axis of a plain array seen as (outer, count, inner), and their gradients.
 * A row is the `count` elements, `inner` apart, that add up to 1.
 *
 *   KN_LOG       0  1: log-softmax
 *   KN_T     float  type of the arrays        KN_A  float  type of the computation
 *   KN_INDEX   int  type of indices
 *   KN_WIDTH     0  0: many threads (defines of common/lanes.cl); lanes of a vector (4, 8, 16): few
 * work-items
 *
 *   kn_softmax(x, y, rows, count, inner, share)                 y = exp(x - max) / sum, or its logarithm
 *   kn_softmax_gradient(y, g, dx, rows, count, inner, share)    dx = y (g - sum(g y)), or g - exp(y) sum(g)
 * Many threads: groups of KN_ITEMS, KN_SLOTS rows each. Few: work-item i has the rows from i * share on. */
#ifndef KN_LOG
#define KN_LOG 0
#endif
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A float
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_WIDTH
#define KN_WIDTH 0
#endif

#define KN_ROW_START(row) ((row) / inner * (count * inner) + (row) % inner)
/* Exponentials are computed once: they wait in y for their sum. The logarithm needs them no more. */
#if KN_LOG
#define KN_KEEP(store, e, place)
#define KN_FROM_SUM(sum) log(sum)
#define KN_KEPT x
#define KN_RESULT(v) ((v)-most - sum)
#define KN_DOT(y, g) (g)
#define KN_SLOPE(y, g, sum) ((g)-exp(y) * (sum))
#else
#define KN_KEEP(store, e, place) store(e, place);
#define KN_FROM_SUM(sum) (1 / (sum))
#define KN_KEPT y
#define KN_RESULT(v) ((v)*sum)
#define KN_DOT(y, g) ((y) * (g))
#define KN_SLOPE(y, g, sum) ((y) * ((g) - (sum)))
#endif
#define KN_LOAD_ONE(p) ((KN_A)(*(p)))
#define KN_STORE_ONE(v, p) (*(p) = (KN_T)(v))

#if KN_WIDTH == 0

#include "common/lanes.cl"

KN_TREE(kn_tree_max, KN_LARGER)
KN_TREE(kn_tree_sum, KN_SUM_OF)

KN_WORK_GROUP kernel void kn_softmax(global const KN_T *restrict x, global KN_T *restrict y,
                                     const KN_INDEX rows, const KN_INDEX count, const KN_INDEX inner,
                                     const KN_INDEX share) {
    local KN_A scratch[KN_ITEMS];
    const int lane = KN_LANE, slot = KN_SLOT;
    const KN_INDEX row = (KN_INDEX)get_group_id(0) * KN_SLOTS + slot;
    const KN_INDEX length = row < rows ? count : 0;
    const KN_INDEX start = row < rows ? KN_ROW_START(row) : 0;
    KN_A most = -INFINITY;
    for (KN_INDEX i = lane; i < length; i += KN_LANES) {
        const KN_A v = (KN_A)x[start + i * inner];
        most = KN_LARGER(most, v);
    }
    most = kn_tree_max(scratch, slot, lane, most);
    KN_A sum = 0;
    for (KN_INDEX i = lane; i < length; i += KN_LANES) {
        const KN_A e = exp((KN_A)x[start + i * inner] - most);
        KN_KEEP(KN_STORE_ONE, e, y + start + i * inner)
        sum += e;
    }
    sum = KN_FROM_SUM(kn_tree_sum(scratch, slot, lane, sum));
    for (KN_INDEX i = lane; i < length; i += KN_LANES)
        y[start + i * inner] = (KN_T)KN_RESULT((KN_A)KN_KEPT[start + i * inner]);
}

KN_WORK_GROUP kernel void kn_softmax_gradient(global const KN_T *restrict y, global const KN_T *restrict g,
                                              global KN_T *restrict dx, const KN_INDEX rows,
                                              const KN_INDEX count, const KN_INDEX inner,
                                              const KN_INDEX share) {
    local KN_A scratch[KN_ITEMS];
    const int lane = KN_LANE, slot = KN_SLOT;
    const KN_INDEX row = (KN_INDEX)get_group_id(0) * KN_SLOTS + slot;
    const KN_INDEX length = row < rows ? count : 0;
    const KN_INDEX start = row < rows ? KN_ROW_START(row) : 0;
    KN_A sum = 0;
    for (KN_INDEX i = lane; i < length; i += KN_LANES)
        sum += KN_DOT((KN_A)y[start + i * inner], (KN_A)g[start + i * inner]);
    sum = kn_tree_sum(scratch, slot, lane, sum);
    for (KN_INDEX i = lane; i < length; i += KN_LANES)
        dx[start + i * inner] = (KN_T)KN_SLOPE((KN_A)y[start + i * inner], (KN_A)g[start + i * inner], sum);
}

#else

#include "common/wide_rows.cl"

/* ---- one contiguous row (inner is 1) ---- */

static void kn_row(global const KN_T *x, global KN_T *y, const KN_INDEX count) {
    const KN_A most = kn_row_max(x, count);
    KN_A sum = 0;
    KN_INDEX i = 0;
    if (count >= KN_WIDTH) {
        kn_vector sums = (kn_vector)(0);
        for (; i + KN_WIDTH <= count; i += KN_WIDTH) {
            const kn_vector e = exp(KN_LOAD(x + i) - most);
            KN_KEEP(KN_STORE, e, y + i)
            sums += e;
        }
        sum = kn_sum_of_lanes(sums);
    }
    for (; i < count; i++) {
        const KN_A e = exp((KN_A)x[i] - most);
        KN_KEEP(KN_STORE_ONE, e, y + i)
        sum += e;
    }
    sum = KN_FROM_SUM(sum);
    for (i = 0; i + KN_WIDTH <= count; i += KN_WIDTH)
        KN_STORE(KN_RESULT(KN_LOAD(KN_KEPT + i)), y + i);
    for (; i < count; i++)
        y[i] = (KN_T)KN_RESULT((KN_A)KN_KEPT[i]);
}

static void kn_row_gradient(global const KN_T *y, global const KN_T *g, global KN_T *dx,
                            const KN_INDEX count) {
    KN_A sum = 0;
    KN_INDEX i = 0;
    if (count >= KN_WIDTH) {
        kn_vector sums = (kn_vector)(0);
        for (; i + KN_WIDTH <= count; i += KN_WIDTH)
            sums += KN_DOT(KN_LOAD(y + i), KN_LOAD(g + i));
        sum = kn_sum_of_lanes(sums);
    }
    for (; i < count; i++)
        sum += KN_DOT((KN_A)y[i], (KN_A)g[i]);
    for (i = 0; i + KN_WIDTH <= count; i += KN_WIDTH)
        KN_STORE(KN_SLOPE(KN_LOAD(y + i), KN_LOAD(g + i), sum), dx + i);
    for (; i < count; i++)
        dx[i] = (KN_T)KN_SLOPE((KN_A)y[i], (KN_A)g[i], sum);
}

/* ---- neighbouring rows, `inner` between elements: once for vectors of rows, once for single ones ---- */

#define KN_ROWS(name, type, load, store)                                                                     \
    static void name(global const KN_T *x, global KN_T *y, const KN_INDEX count, const KN_INDEX inner) {     \
        type most = (type)(-INFINITY), sum = (type)(0);                                                      \
        for (KN_INDEX i = 0; i < count; i++) {                                                               \
            const type v = load(x + i * inner);                                                              \
            most = KN_MORE(most, v);                                                                         \
        }                                                                                                    \
        for (KN_INDEX i = 0; i < count; i++) {                                                               \
            const type e = exp(load(x + i * inner) - most);                                                  \
            KN_KEEP(store, e, y + i * inner)                                                                 \
            sum += e;                                                                                        \
        }                                                                                                    \
        sum = KN_FROM_SUM(sum);                                                                              \
        for (KN_INDEX i = 0; i < count; i++)                                                                 \
            store(KN_RESULT(load(KN_KEPT + i * inner)), y + i * inner);                                      \
    }                                                                                                        \
    static void name##_gradient(global const KN_T *y, global const KN_T *g, global KN_T *dx,                 \
                                const KN_INDEX count, const KN_INDEX inner) {                                \
        type sum = (type)(0);                                                                                \
        for (KN_INDEX i = 0; i < count; i++)                                                                 \
            sum += KN_DOT(load(y + i * inner), load(g + i * inner));                                         \
        for (KN_INDEX i = 0; i < count; i++)                                                                 \
            store(KN_SLOPE(load(y + i * inner), load(g + i * inner), sum), dx + i * inner);                  \
    }
KN_ROWS(kn_rows, kn_vector, KN_LOAD, KN_STORE)
KN_ROWS(kn_rows_single, KN_A, KN_LOAD_ONE, KN_STORE_ONE)

KN_ALONE kernel void kn_softmax(global const KN_T *restrict x, global KN_T *restrict y, const KN_INDEX rows,
                                const KN_INDEX count, const KN_INDEX inner, const KN_INDEX share) {
    KN_INDEX row = (KN_INDEX)get_global_id(0) * share;
    const KN_INDEX last = min(rows, row + share);
    while (row < last) {
        const KN_INDEX start = KN_ROW_START(row);
        if (inner == 1) {
            kn_row(x + start, y + start, count);
            row += 1;
        } else if (min(last - row, inner - row % inner) >= KN_WIDTH) {
            kn_rows(x + start, y + start, count, inner);
            row += KN_WIDTH;
        } else {
            kn_rows_single(x + start, y + start, count, inner);
            row += 1;
        }
    }
}

KN_ALONE kernel void kn_softmax_gradient(global const KN_T *restrict y, global const KN_T *restrict g,
                                         global KN_T *restrict dx, const KN_INDEX rows, const KN_INDEX count,
                                         const KN_INDEX inner, const KN_INDEX share) {
    KN_INDEX row = (KN_INDEX)get_global_id(0) * share;
    const KN_INDEX last = min(rows, row + share);
    while (row < last) {
        const KN_INDEX start = KN_ROW_START(row);
        if (inner == 1) {
            kn_row_gradient(y + start, g + start, dx + start, count);
            row += 1;
        } else if (min(last - row, inner - row % inner) >= KN_WIDTH) {
            kn_rows_gradient(y + start, g + start, dx + start, count, inner);
            row += KN_WIDTH;
        } else {
            kn_rows_single_gradient(y + start, g + start, dx + start, count, inner);
            row += 1;
        }
    }
}

#endif
