/* Cross-entropy of softmax(x) against a target, its gradient, and the share of right answers.
 * x is (rows, classes), plain. The target is a class number for each row, or a distribution like x.
 *
 *   KN_LABELS    1  1: class numbers (int); 0: distributions (KN_T)
 *   KN_T     float  type of x        KN_A  float  type of the computation and of what is kept for a row
 *   KN_INDEX   int  type of indices
 *   KN_WIDTH     0  0: many threads (defines of common/lanes.cl); lanes of a vector (4, 8, 16): few
 * work-items
 *
 *   kn_cross_entropy(x, target, most, log_sum, loss, rows, classes, smoothing, share)
 *     most: the largest x of a row; log_sum: log(sum(exp(x - most))); loss: of the row. Each is (rows)
 *   kn_cross_entropy_gradient(x, target, most, log_sum, g, dx, rows, classes, smoothing, share)
 *     g is the gradient of the mean of the losses, one number
 *   kn_hits(x, target, hit, rows, classes, share)   1 where the largest x is the target's (the first of
 * several), else 0 Label smoothing mixes the target with the uniform distribution. A class number that does
 * not exist gives NaN. Many threads: groups of KN_ITEMS, KN_SLOTS rows each. Few: work-item i has the rows
 * from i * share on. */
#ifndef KN_LABELS
#define KN_LABELS 1
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

#if KN_LABELS
typedef int kn_target;
#define KN_TARGET_OF(row) (target + (row))
#define KN_SHARE(j) ((KN_INDEX)label == (j) ? 1 - smoothing + even : even)
#else
typedef KN_T kn_target;
#define KN_TARGET_OF(row) (target + (row)*classes)
#define KN_SHARE(j) ((1 - smoothing) * (KN_A)target[j] + even)
#endif

#if KN_WIDTH == 0

#include "common/lanes.cl"

KN_TREE(kn_tree_max, KN_LARGER)
KN_TREE(kn_tree_sum, KN_SUM_OF)

#define KN_ROW_OF_GROUP                                                                                      \
    local KN_A scratch[KN_ITEMS];                                                                            \
    const int lane = KN_LANE, slot = KN_SLOT;                                                                \
    const KN_INDEX row = (KN_INDEX)get_group_id(0) * KN_SLOTS + slot;                                        \
    const KN_INDEX length = row < rows ? classes : 0;                                                        \
    x += (row < rows ? row : 0) * classes;

KN_WORK_GROUP kernel void
kn_cross_entropy(global const KN_T *restrict x, global const kn_target *restrict target,
                 global KN_A *restrict most, global KN_A *restrict log_sum, global KN_A *restrict loss,
                 const KN_INDEX rows, const KN_INDEX classes, const float smoothing, const KN_INDEX share) {
    KN_ROW_OF_GROUP
    const KN_A even = smoothing / (KN_A)classes;
    KN_A largest = -INFINITY;
    for (KN_INDEX j = lane; j < length; j += KN_LANES) {
        const KN_A v = (KN_A)x[j];
        largest = KN_LARGER(largest, v);
    }
    largest = kn_tree_max(scratch, slot, lane, largest);
    KN_A sum = 0, far = 0, mass = 0;
    target = KN_TARGET_OF(row < rows ? row : 0);
    for (KN_INDEX j = lane; j < length; j += KN_LANES) {
        const KN_A below = (KN_A)x[j] - largest;
        sum += exp(below);
#if !KN_LABELS
        const KN_A part = KN_SHARE(j);
        mass += part;
        far -= part * below;
#else
        if (even != 0) far -= even * below;
#endif
    }
    sum = log(kn_tree_sum(scratch, slot, lane, sum));
    far = kn_tree_sum(scratch, slot, lane, far);
#if !KN_LABELS
    mass = kn_tree_sum(scratch, slot, lane, mass);
#endif
    if (lane != 0 || row >= rows) return;
#if KN_LABELS
    const int label = target[0];
    mass = 1;
    if (label >= 0 && label < classes)
        far += (1 - smoothing) * (largest - (KN_A)x[label]);
    else
        far = NAN;
#endif
    most[row] = largest;
    log_sum[row] = sum;
    loss[row] = mass * sum + far;
}

KN_WORK_GROUP kernel void
kn_cross_entropy_gradient(global const KN_T *restrict x, global const kn_target *restrict target,
                          global const KN_A *restrict most, global const KN_A *restrict log_sum,
                          global const KN_A *restrict g, global KN_T *restrict dx, const KN_INDEX rows,
                          const KN_INDEX classes, const float smoothing, const KN_INDEX share) {
    KN_ROW_OF_GROUP
    const KN_A even = smoothing / (KN_A)classes;
    target = KN_TARGET_OF(row < rows ? row : 0);
    KN_A mass = 0;
#if KN_LABELS
    const int label = target[0];
    mass = label >= 0 && label < classes ? 1 : NAN;
#else
    for (KN_INDEX j = lane; j < length; j += KN_LANES)
        mass += KN_SHARE(j);
    mass = kn_tree_sum(scratch, slot, lane, mass);
#endif
    if (row >= rows) return;
    const KN_A scale = g[0] / (KN_A)rows, largest = most[row], sum = log_sum[row];
    dx += row * classes;
    for (KN_INDEX j = lane; j < length; j += KN_LANES)
        dx[j] = (KN_T)(scale * (mass * exp((KN_A)x[j] - largest - sum) - KN_SHARE(j)));
}

KN_WORK_GROUP kernel void kn_hits(global const KN_T *restrict x, global const int *restrict target,
                                  global KN_A *restrict hit, const KN_INDEX rows, const KN_INDEX classes,
                                  const KN_INDEX share) {
    KN_ROW_OF_GROUP
    local KN_INDEX places[KN_ITEMS];
    KN_A best = -INFINITY;
    KN_INDEX place = -1;
    for (KN_INDEX j = lane; j < length; j += KN_LANES) {
        const KN_A v = (KN_A)x[j];
        if (v > best || (place < 0 && v == v)) {
            best = v;
            place = j;
        }
    }
    scratch[slot * KN_LANES + lane] = best;
    places[slot * KN_LANES + lane] = place;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane != 0 || row >= rows) return;
    for (int i = 1; i < KN_LANES; i++) {
        const KN_A v = scratch[slot * KN_LANES + i];
        const KN_INDEX other = places[slot * KN_LANES + i];
        if (other >= 0 && (place < 0 || v > best || (v == best && other < place))) {
            best = v;
            place = other;
        }
    }
    hit[row] = place >= 0 && place == (KN_INDEX)target[row] ? 1 : 0;
}

#else

#include "common/wide_rows.cl"

/* The sum of (largest - x) times `even`, of smoothing alone. */
static KN_A kn_row_even(global const KN_T *x, const KN_INDEX classes, const KN_A largest) {
    KN_A sum = 0;
    for (KN_INDEX j = 0; j < classes; j++)
        sum += largest - (KN_A)x[j];
    return sum;
}

KN_ALONE kernel void kn_cross_entropy(global const KN_T *restrict x, global const kn_target *restrict target,
                                      global KN_A *restrict most, global KN_A *restrict log_sum,
                                      global KN_A *restrict loss, const KN_INDEX rows, const KN_INDEX classes,
                                      const float smoothing, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, last = min(rows, first + share);
    const KN_A even = smoothing / (KN_A)classes;
    x += first * classes;
    target = KN_TARGET_OF(first);
    for (KN_INDEX row = first; row < last; row++, x += classes) {
        const KN_A largest = kn_row_max(x, classes);
        const KN_A sum = log(kn_row_sum_exp(x, classes, largest));
        KN_A far = 0, mass = 1;
#if KN_LABELS
        const int label = target[0];
        if (even != 0) far = even * kn_row_even(x, classes, largest);
        if (label >= 0 && label < classes)
            far += (1 - smoothing) * (largest - (KN_A)x[label]);
        else
            far = NAN;
        target++;
#else
        mass = 0;
        for (KN_INDEX j = 0; j < classes; j++) {
            const KN_A part = KN_SHARE(j);
            mass += part;
            far += part * (largest - (KN_A)x[j]);
        }
        target += classes;
#endif
        most[row] = largest;
        log_sum[row] = sum;
        loss[row] = mass * sum + far;
    }
}

KN_ALONE kernel void
kn_cross_entropy_gradient(global const KN_T *restrict x, global const kn_target *restrict target,
                          global const KN_A *restrict most, global const KN_A *restrict log_sum,
                          global const KN_A *restrict g, global KN_T *restrict dx, const KN_INDEX rows,
                          const KN_INDEX classes, const float smoothing, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, last = min(rows, first + share);
    const KN_A even = smoothing / (KN_A)classes, scale = g[0] / (KN_A)rows;
    x += first * classes;
    dx += first * classes;
    target = KN_TARGET_OF(first);
    for (KN_INDEX row = first; row < last; row++, x += classes, dx += classes) {
        const KN_A shift = most[row], sum = log_sum[row];
        KN_INDEX j = 0;
#if KN_LABELS
        const int label = target[0];
        const bool known = label >= 0 && label < classes;
        const KN_A mass = known ? 1 : NAN;
        for (; j + KN_WIDTH <= classes; j += KN_WIDTH)
            KN_STORE(scale * (mass * exp(KN_LOAD(x + j) - shift - sum) - even), dx + j);
        for (; j < classes; j++)
            dx[j] = (KN_T)(scale * (mass * exp((KN_A)x[j] - shift - sum) - even));
        if (known) dx[label] = (KN_T)(scale * (exp((KN_A)x[label] - shift - sum) - KN_SHARE(label)));
        target++;
#else
        KN_A mass = 0;
        for (; j < classes; j++)
            mass += KN_SHARE(j);
        for (j = 0; j + KN_WIDTH <= classes; j += KN_WIDTH)
            KN_STORE(scale * (mass * exp(KN_LOAD(x + j) - shift - sum) -
                              ((1 - smoothing) * KN_LOAD(target + j) + even)),
                     dx + j);
        for (; j < classes; j++)
            dx[j] = (KN_T)(scale * (mass * exp((KN_A)x[j] - shift - sum) - KN_SHARE(j)));
        target += classes;
#endif
    }
}

KN_ALONE kernel void kn_hits(global const KN_T *restrict x, global const int *restrict target,
                             global KN_A *restrict hit, const KN_INDEX rows, const KN_INDEX classes,
                             const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, last = min(rows, first + share);
    for (KN_INDEX row = first; row < last; row++) {
        KN_A best = -INFINITY;
        KN_INDEX place = -1;
        for (KN_INDEX j = 0; j < classes; j++) {
            const KN_A v = (KN_A)x[row * classes + j];
            if (v > best || (place < 0 && v == v)) {
                best = v;
                place = j;
            }
        }
        hit[row] = place >= 0 && place == (KN_INDEX)target[row] ? 1 : 0;
    }
}

#endif
