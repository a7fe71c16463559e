/* Activations rounded to 8 bits in groups of 32 (common/activations.cl), for products that do not round them.
 *
 *   KN_HALF_x, KN_HALF_y 0   the storage types of x and y (common/storage.cl)
 *
 * kn_round_activations(x, y, count, chunk)   x and y have `count` groups; a work-item rounds `chunk` of them */
#include "common/activations.cl"
#include "common/storage.cl"
#include "common/types.cl"
typedef KN_STORED(KN_HALF_x) x_stored;
typedef KN_STORED(KN_HALF_y) y_stored;

static inline void write_16(const float16 v, global y_stored *to) {
    KN_WRITE_8_AS(KN_HALF_y, v.lo, to);
    KN_WRITE_8_AS(KN_HALF_y, v.hi, to + 8);
}

kernel void kn_round_activations(global const x_stored *restrict x, global y_stored *restrict y, const KN_INDEX count,
                                 const KN_INDEX chunk) {
    const KN_INDEX begin = get_global_id(0) * chunk, end = min(begin + chunk, count);
    for (KN_INDEX i = begin; i < end; i++) {
        const float16 lo = KN_READ_16_AS(KN_HALF_x, x + 32 * i), hi = KN_READ_16_AS(KN_HALF_x, x + 32 * i + 16);
        const float2 scales = kn_round_scales(lo, hi);
        write_16(rint(lo * scales.y) * scales.x, y + 32 * i);
        write_16(rint(hi * scales.y) * scales.x, y + 32 * i + 16);
    }
}
