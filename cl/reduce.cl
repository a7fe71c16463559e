/* Sums, maxima and minima over any axes of a plain array, seen as up to four runs of kept axes and four of
 * reduced ones; axis 0 is the innermost of its kind.
 *
 *   KN_KIND      0  0: sum, 1: maximum, 2: minimum
 *   KN_START        what an empty reduction gives; fits KN_KIND and KN_A
 *   KN_T     float  type of the source         KN_A  float  type of the reduction        KN_R  float  of the
 * result KN_KEPT, KN_REDUCED  1  runs of each kind, 1 to 4 KN_DIVIDE    0  1: results are divided by
 * `divisor` KN_INDEX   int  type of indices KN_WIDTH     0  0: kn_reduce, for many threads (defines of
 * common/lanes.cl); lanes of a vector (4, 8, 16): kn_reduce_rows and kn_reduce_columns, for few work-items
 *
 * A result is made of `count` elements, in parts of `part`: part p of result o is stored at out[p * outputs +
 * o]. How results are dealt to work-items does not change a bit; the parts come from the shape alone.
 *   kn_reduce          groups of KN_ITEMS; global size (ceil(outputs / KN_SLOTS) * KN_ITEMS, parts)
 *   kn_reduce_rows     reduced axis 0 is contiguous; work-item i makes parts i * share … of all outputs *
 * parts kn_reduce_columns  kept axis 0 is contiguous; a task is KN_COLUMNS neighbouring results of one part
 */
#ifndef KN_KIND
#define KN_KIND 0
#endif
#ifndef KN_START
#define KN_START 0
#endif
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A float
#endif
#ifndef KN_R
#define KN_R float
#endif
#ifndef KN_KEPT
#define KN_KEPT 1
#endif
#ifndef KN_REDUCED
#define KN_REDUCED 1
#endif
#ifndef KN_DIVIDE
#define KN_DIVIDE 0
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_WIDTH
#define KN_WIDTH 0
#endif

#include "common/lanes.cl"

#if KN_KIND == 0
#define KN_COMBINE KN_SUM_OF
#elif KN_KIND == 1
#define KN_COMBINE KN_LARGER
#else
#define KN_COMBINE KN_SMALLER
#endif
#if KN_DIVIDE
#define KN_FINISH(x) ((KN_R)((x) / (KN_A)divisor))
#else
#define KN_FINISH(x) ((KN_R)(x))
#endif

#define KN_AXES                                                                                              \
    const KN_INDEX kept0, const KN_INDEX kept_stride0, const KN_INDEX kept1, const KN_INDEX kept_stride1,    \
        const KN_INDEX kept2, const KN_INDEX kept_stride2, const KN_INDEX kept3,                             \
        const KN_INDEX kept_stride3, const KN_INDEX reduced0, const KN_INDEX reduced_stride0,                \
        const KN_INDEX reduced1, const KN_INDEX reduced_stride1, const KN_INDEX reduced2,                    \
        const KN_INDEX reduced_stride2, const KN_INDEX reduced3, const KN_INDEX reduced_stride3

/* Where element i of axes with these sizes and strides stands; the last size is not asked for. */
#define KN_OFFSET_1(i, s0, t0, s1, t1, s2, t2, s3, t3) ((i) * (t0))
#define KN_OFFSET_2(i, s0, t0, s1, t1, s2, t2, s3, t3) ((i) % (s0) * (t0) + (i) / (s0) * (t1))
#define KN_OFFSET_3(i, s0, t0, s1, t1, s2, t2, s3, t3)                                                       \
    ((i) % (s0) * (t0) + (i) / (s0) % (s1) * (t1) + (i) / (s0) / (s1) * (t2))
#define KN_OFFSET_4(i, s0, t0, s1, t1, s2, t2, s3, t3)                                                       \
    ((i) % (s0) * (t0) + (i) / (s0) % (s1) * (t1) + (i) / (s0) / (s1) % (s2) * (t2) +                        \
     (i) / (s0) / (s1) / (s2) * (t3))
#define KN_PASTE_(a, b) a##b
#define KN_PASTE(a, b) KN_PASTE_(a, b)
#define KN_KEPT_OFFSET(i)                                                                                    \
    KN_PASTE(KN_OFFSET_, KN_KEPT)                                                                            \
    (i, kept0, kept_stride0, kept1, kept_stride1, kept2, kept_stride2, kept3, kept_stride3)
#define KN_REDUCED_OFFSET(i)                                                                                 \
    KN_PASTE(KN_OFFSET_, KN_REDUCED)                                                                         \
    (i, reduced0, reduced_stride0, reduced1, reduced_stride1, reduced2, reduced_stride2, reduced3,           \
     reduced_stride3)

#if KN_WIDTH == 0

KN_TREE(kn_tree, KN_COMBINE)

KN_WORK_GROUP kernel void kn_reduce(global const KN_T *restrict in, global KN_R *restrict out,
                                    const KN_INDEX outputs, const KN_INDEX count, const KN_INDEX part,
                                    const KN_INDEX divisor, KN_AXES) {
    local KN_A scratch[KN_ITEMS];
    const int lane = KN_LANE, slot = KN_SLOT;
    const KN_INDEX output = (KN_INDEX)get_group_id(0) * KN_SLOTS + slot;
    const KN_INDEX begin = (KN_INDEX)get_group_id(1) * part, end = min(count, begin + part);
    KN_A total = KN_START;
    if (output < outputs) {
        global const KN_T *from = in + KN_KEPT_OFFSET(output);
        for (KN_INDEX i = begin + lane; i < end; i += KN_LANES) {
            const KN_A element = (KN_A)from[KN_REDUCED_OFFSET(i)];
            total = KN_COMBINE(total, element);
        }
    }
    total = kn_tree(scratch, slot, lane, total);
    if (lane == 0 && output < outputs) out[(KN_INDEX)get_group_id(1) * outputs + output] = KN_FINISH(total);
}

#else

typedef KN_PASTE(KN_A, KN_WIDTH) kn_vector;
#define KN_LOAD(p) KN_PASTE(KN_PASTE(convert_, KN_A), KN_WIDTH)(KN_PASTE(vload, KN_WIDTH)(0, p))
#define KN_STORE(v, p) KN_PASTE(vstore, KN_WIDTH)(KN_PASTE(KN_PASTE(convert_, KN_R), KN_WIDTH)(v), 0, p)
#if KN_DIVIDE
#define KN_FINISH_VECTOR(v) ((v) / (KN_A)divisor)
#else
#define KN_FINISH_VECTOR(v) (v)
#endif
#define KN_ALONE __attribute__((reqd_work_group_size(1, 1, 1)))
#define KN_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define KN_COLUMNS (8 * KN_WIDTH)
/* So many elements go into one accumulator before it is added to the total: sums stay accurate. */
#define KN_ROW_RUN (512 * KN_WIDTH)
#define KN_COLUMN_RUN 256

static KN_A kn_across(const kn_vector vector) {
    KN_A lanes[KN_WIDTH];
    KN_PASTE(vstore, KN_WIDTH)(vector, 0, lanes);
    KN_A total = lanes[0];
    for (int i = 1; i < KN_WIDTH; i++)
        total = KN_COMBINE(total, lanes[i]);
    return total;
}

/* `length` contiguous elements. */
static KN_A kn_row(global const KN_T *in, const KN_INDEX length) {
    kn_vector sum0 = (kn_vector)(KN_START), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    KN_INDEX i = 0;
    for (; i + 4 * KN_WIDTH <= length; i += 4 * KN_WIDTH) {
        const kn_vector v0 = KN_LOAD(in + i), v1 = KN_LOAD(in + i + KN_WIDTH);
        const kn_vector v2 = KN_LOAD(in + i + 2 * KN_WIDTH), v3 = KN_LOAD(in + i + 3 * KN_WIDTH);
        sum0 = KN_COMBINE(sum0, v0);
        sum1 = KN_COMBINE(sum1, v1);
        sum2 = KN_COMBINE(sum2, v2);
        sum3 = KN_COMBINE(sum3, v3);
    }
    for (; i + KN_WIDTH <= length; i += KN_WIDTH) {
        const kn_vector v = KN_LOAD(in + i);
        sum0 = KN_COMBINE(sum0, v);
    }
    KN_A total = KN_START;
    if (length >= KN_WIDTH) {
        sum0 = KN_COMBINE(sum0, sum1);
        sum2 = KN_COMBINE(sum2, sum3);
        total = kn_across(KN_COMBINE(sum0, sum2));
    }
    for (; i < length; i++) {
        const KN_A element = (KN_A)in[i];
        total = KN_COMBINE(total, element);
    }
    return total;
}

KN_ALONE kernel void kn_reduce_rows(global const KN_T *restrict in, global KN_R *restrict out,
                                    const KN_INDEX outputs, const KN_INDEX count, const KN_INDEX part,
                                    const KN_INDEX divisor, const KN_INDEX parts, const KN_INDEX share,
                                    KN_AXES) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, last = min(first + share, outputs * parts);
    for (KN_INDEX task = first; task < last; task++) {
        const KN_INDEX output = task % outputs, begin = task / outputs * part, end = min(count, begin + part);
        global const KN_T *from = in + KN_KEPT_OFFSET(output);
        KN_A total = KN_START;
        for (KN_INDEX i = begin; i < end;) {
            const KN_INDEX length = min(min(reduced0 - i % reduced0, end - i), (KN_INDEX)KN_ROW_RUN);
            const KN_A sum = kn_row(from + KN_REDUCED_OFFSET(i), length);
            total = KN_COMBINE(total, sum);
            i += length;
        }
        out[task] = KN_FINISH(total);
    }
}

/* KN_COLUMNS neighbouring results, elements `begin` to `end` - 1 of each. */
#define KN_BEGIN_TOTAL(v) kn_vector total##v = (kn_vector)(KN_START);
#define KN_BEGIN_SUM(v) kn_vector sum##v = (kn_vector)(KN_START);
#define KN_ADD_ELEMENT(v)                                                                                    \
    {                                                                                                        \
        const kn_vector element = KN_LOAD(row + v * KN_WIDTH);                                               \
        sum##v = KN_COMBINE(sum##v, element);                                                                \
    }
#define KN_ADD_SUM(v) total##v = KN_COMBINE(total##v, sum##v);
#define KN_STORE_TOTAL(v) KN_STORE(KN_FINISH_VECTOR(total##v), out + v * KN_WIDTH);
static void kn_block(global const KN_T *in, global KN_R *out, const KN_INDEX begin, const KN_INDEX end,
                     const KN_INDEX divisor, KN_AXES) {
    KN_EACH(KN_BEGIN_TOTAL)
    for (KN_INDEX i = begin; i < end;) {
        const KN_INDEX length = min(min(reduced0 - i % reduced0, end - i), (KN_INDEX)KN_COLUMN_RUN);
        global const KN_T *row = in + KN_REDUCED_OFFSET(i);
        KN_EACH(KN_BEGIN_SUM)
        for (KN_INDEX j = 0; j < length; j++, row += reduced_stride0) {
            KN_EACH(KN_ADD_ELEMENT)
        }
        KN_EACH(KN_ADD_SUM)
        i += length;
    }
    KN_EACH(KN_STORE_TOTAL)
}

/* One vector of results, elements `begin` to `end` - 1 of each. */
static kn_vector kn_column(global const KN_T *in, const KN_INDEX begin, const KN_INDEX end, KN_AXES) {
    kn_vector total = (kn_vector)(KN_START);
    for (KN_INDEX i = begin; i < end;) {
        const KN_INDEX length = min(min(reduced0 - i % reduced0, end - i), (KN_INDEX)KN_COLUMN_RUN);
        global const KN_T *from = in + KN_REDUCED_OFFSET(i);
        kn_vector sum = (kn_vector)(KN_START);
        for (KN_INDEX j = 0; j < length; j++) {
            const kn_vector v = KN_LOAD(from + j * reduced_stride0);
            sum = KN_COMBINE(sum, v);
        }
        total = KN_COMBINE(total, sum);
        i += length;
    }
    return total;
}

static KN_A kn_single(global const KN_T *in, const KN_INDEX begin, const KN_INDEX end, KN_AXES) {
    KN_A total = KN_START;
    for (KN_INDEX i = begin; i < end;) {
        const KN_INDEX length = min(min(reduced0 - i % reduced0, end - i), (KN_INDEX)KN_COLUMN_RUN);
        global const KN_T *from = in + KN_REDUCED_OFFSET(i);
        KN_A sum = KN_START;
        for (KN_INDEX j = 0; j < length; j++) {
            const KN_A element = (KN_A)from[j * reduced_stride0];
            sum = KN_COMBINE(sum, element);
        }
        total = KN_COMBINE(total, sum);
        i += length;
    }
    return total;
}

#define KN_AXES_PASSED                                                                                       \
    kept0, kept_stride0, kept1, kept_stride1, kept2, kept_stride2, kept3, kept_stride3, reduced0,            \
        reduced_stride0, reduced1, reduced_stride1, reduced2, reduced_stride2, reduced3, reduced_stride3

KN_ALONE kernel void kn_reduce_columns(global const KN_T *restrict in, global KN_R *restrict out,
                                       const KN_INDEX outputs, const KN_INDEX count, const KN_INDEX part,
                                       const KN_INDEX divisor, const KN_INDEX parts, const KN_INDEX share,
                                       KN_AXES) {
    const KN_INDEX blocks = (kept0 + KN_COLUMNS - 1) / KN_COLUMNS, rows = outputs / kept0;
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share,
                   last = min(first + share, blocks * rows * parts);
    for (KN_INDEX task = first; task < last; task++) {
        const KN_INDEX row = task / blocks % rows, begin = task / blocks / rows * part,
                       end = min(count, begin + part);
        KN_INDEX column = task % blocks * KN_COLUMNS;
        const KN_INDEX stop = min(kept0, column + KN_COLUMNS);
        global const KN_T *from = in + KN_KEPT_OFFSET(row * kept0);
        global KN_R *to = out + task / blocks / rows * outputs + row * kept0;
        if (column + KN_COLUMNS <= stop) {
            kn_block(from + column, to + column, begin, end, divisor, KN_AXES_PASSED);
            continue;
        }
        for (; column + KN_WIDTH <= stop; column += KN_WIDTH) {
            const kn_vector result = kn_column(from + column, begin, end, KN_AXES_PASSED);
            KN_STORE(KN_FINISH_VECTOR(result), to + column);
        }
        for (; column < stop; column++) {
            const KN_A result = kn_single(from + column, begin, end, KN_AXES_PASSED);
            to[column] = KN_FINISH(result);
        }
    }
}

#endif
