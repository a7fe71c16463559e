/* A plain array with elements put around it along some axes.
 *
 *   KN_T     float  type of the elements
 *   KN_AXES      1  axes, 1 to 8; axis 0 is the innermost
 *   KN_INDEX   int  type of indices
 *
 *   kn_pad(in, out, value, count, AXES)              one work-item per element of the result
 *   kn_pad_rows(in, out, value, rows, share, AXES)   work-item i makes the rows (axis 0) of the result from
 *                                                    i * share on: for few work-items
 * AXES is, from the innermost out, (size in the result, elements before, size in the source) for each of the
 * KN_AXES; both arrays are contiguous. */
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_AXES
#define KN_AXES 1
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif

#include "common/axes.cl"

#define KN_AXIS(i) , const KN_INDEX size##i, const KN_INDEX before##i, const KN_INDEX source##i
/* Where the element stands in the source, if it is inside along each axis. */
#define KN_WALK(i)                                                                                           \
    {                                                                                                        \
        const KN_INDEX at = place % size##i - before##i;                                                     \
        inside = inside && at >= 0 && at < source##i;                                                        \
        from += at * stride;                                                                                 \
        stride *= source##i;                                                                                 \
        place /= size##i;                                                                                    \
    }

kernel void kn_pad(global const KN_T *restrict in, global KN_T *restrict out, const float value,
                   const KN_INDEX count KN_AXIS(0) KN_OUTER(KN_AXIS)) {
    const KN_INDEX element = (KN_INDEX)get_global_id(0);
    if (element >= count) return;
    KN_INDEX place = element, from = 0, stride = 1;
    bool inside = true;
    KN_WALK(0)
    KN_OUTER(KN_WALK)
    out[element] = inside ? in[from] : (KN_T)value;
}

__attribute__((reqd_work_group_size(1, 1, 1))) kernel void
kn_pad_rows(global const KN_T *restrict in, global KN_T *restrict out, const float value, const KN_INDEX rows,
            const KN_INDEX share KN_AXIS(0) KN_OUTER(KN_AXIS)) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, last = min(rows, first + share);
    for (KN_INDEX row = first; row < last; row++) {
        KN_INDEX place = row, from = 0, stride = source0;
        bool inside = true;
        KN_OUTER(KN_WALK)
        global KN_T *to = out + row * size0;
        const KN_INDEX begin = inside ? before0 : size0, end = inside ? before0 + source0 : size0;
        for (KN_INDEX i = 0; i < begin; i++)
            to[i] = (KN_T)value;
        for (KN_INDEX i = begin; i < end; i++)
            to[i] = in[from + i - before0];
        for (KN_INDEX i = end; i < size0; i++)
            to[i] = (KN_T)value;
    }
}
