/* float32 from the bytes of an input: y = scale * x, rounded once, as the host would have done.
 *
 * kn_widen(x, y, scale, count, chunk): x and y have `count` elements; the global size is at least
 * ceil(count / chunk), with any work-groups. Each work-item computes `chunk` of them: 1 on many-thread devices. */
#include "common/types.cl"

kernel void kn_widen(global const uchar *restrict x, global float *restrict y, float scale, KN_INDEX count,
                     KN_INDEX chunk) {
    const KN_INDEX begin = (KN_INDEX)get_global_id(0) * chunk;
    if (begin >= count) return;
    const KN_INDEX end = begin + min(chunk, count - begin);
    for (KN_INDEX i = begin; i < end; i++)
        y[i] = scale * (float)x[i];
}
