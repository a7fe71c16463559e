/* Elements from one pattern of strides to another: slices, parts of a concatenation, permuted axes.
 *
 *   KN_T      uint  an unsigned type of the elements' size
 *   KN_AXES      1  axes, 1 to 8; axis 0 is the innermost
 *   KN_INDEX   int  type of indices
 *
 *   kn_strided(in, out, in_offset, out_offset, count, AXES)              one work-item per element of `count`
 *   kn_strided_rows(in, out, in_offset, out_offset, rows, share, AXES)   work-item i walks the rows (axis 0)
 * from i * share on: for few work-items AXES is, from the innermost out, (size, in_stride, out_stride) for
 * each of the KN_AXES. */
#ifndef KN_T
#define KN_T uint
#endif
#ifndef KN_AXES
#define KN_AXES 1
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif

#include "common/axes.cl"

#define KN_AXIS(i) , const KN_INDEX size##i, const KN_INDEX in_stride##i, const KN_INDEX out_stride##i
#define KN_WALK(i)                                                                                           \
    in += place % size##i * in_stride##i;                                                                    \
    out += place % size##i * out_stride##i;                                                                  \
    place /= size##i;

kernel void kn_strided(global const KN_T *restrict in, global KN_T *restrict out, const KN_INDEX in_offset,
                       const KN_INDEX out_offset, const KN_INDEX count KN_AXIS(0) KN_OUTER(KN_AXIS)) {
    KN_INDEX place = (KN_INDEX)get_global_id(0);
    if (place >= count) return;
    in += in_offset;
    out += out_offset;
    KN_WALK(0)
    KN_OUTER(KN_WALK)
    *out = *in;
}

__attribute__((reqd_work_group_size(1, 1, 1))) kernel void
kn_strided_rows(global const KN_T *restrict all_in, global KN_T *restrict all_out, const KN_INDEX in_offset,
                const KN_INDEX out_offset, const KN_INDEX rows,
                const KN_INDEX share KN_AXIS(0) KN_OUTER(KN_AXIS)) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share, last = min(rows, first + share);
    for (KN_INDEX row = first; row < last; row++) {
        global const KN_T *in = all_in + in_offset;
        global KN_T *out = all_out + out_offset;
        KN_INDEX place = row;
        KN_OUTER(KN_WALK)
        if (in_stride0 == 1 && out_stride0 == 1)
            for (KN_INDEX i = 0; i < size0; i++)
                out[i] = in[i];
        else
            for (KN_INDEX i = 0; i < size0; i++)
                out[i * out_stride0] = in[i * in_stride0];
    }
}
