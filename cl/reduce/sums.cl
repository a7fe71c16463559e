/* Several sums of parts in one launch: result i of a sum is the sum of partials[i + part * stride] over its parts,
 * in order.
 *
 *   KN_T, KN_A   types of the results, and of the parts (common/types.cl)
 *
 * kn_sums(partials0, result0, offset0, stride0, elements0, parts0, …, partials15, …)
 *   partials begin at an offset; absent sums have no elements. Work-items (a fourth of the most elements, sums): each
 *   computes four elements of one sum. */
#include "common/types.cl"
#define KN_CONCAT_(a, b) a##b
#define KN_CONCAT(a, b) KN_CONCAT_(a, b)
typedef KN_CONCAT(KN_A, 4) four;
typedef KN_CONCAT(KN_T, 4) four_results;

/* Memory begins at multiples of 64 bytes: with multiples of 4, vectors are aligned. */
static inline void add_parts(global const KN_A *partials, global KN_T *result, const KN_INDEX offset,
                             const KN_INDEX stride, const KN_INDEX elements, const int parts) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * 4;
    if (first >= elements) return;
    partials += offset;
    if ((offset | stride | elements) % 4 == 0) {
        global const four *from = (global const four *)(partials + first);
        four sum = parts > 0 ? from[0] : (four)0;
#pragma unroll 8
        for (int part = 1; part < parts; part++)
            sum += from[part * (stride / 4)];
        *(global four_results *)(result + first) = KN_CONCAT(KN_CONCAT(convert_, KN_T), 4)(sum);
        return;
    }
    for (KN_INDEX i = first; i < min(first + 4, elements); i++) {
        KN_A sum = parts > 0 ? partials[i] : 0;
        for (int part = 1; part < parts; part++)
            sum += partials[i + part * stride];
        result[i] = KN_CONCAT(convert_, KN_T)(sum);
    }
}

#define KN_SUM(i)                                                                                            \
    global const KN_A *restrict partials##i, global KN_T *restrict result##i, KN_INDEX offset##i,            \
        KN_INDEX stride##i, KN_INDEX elements##i, int parts##i
#define KN_CHOOSE(i)                                                                                         \
    case i:                                                                                                  \
        partials = partials##i;                                                                              \
        result = result##i;                                                                                  \
        offset = offset##i;                                                                                  \
        stride = stride##i;                                                                                  \
        elements = elements##i;                                                                              \
        parts = parts##i;                                                                                    \
        break;

kernel void kn_sums(KN_SUM(0), KN_SUM(1), KN_SUM(2), KN_SUM(3), KN_SUM(4), KN_SUM(5), KN_SUM(6), KN_SUM(7),
                    KN_SUM(8), KN_SUM(9), KN_SUM(10), KN_SUM(11), KN_SUM(12), KN_SUM(13), KN_SUM(14),
                    KN_SUM(15)) {
    global const KN_A *partials = partials0;
    global KN_T *result = result0;
    KN_INDEX offset = 0, stride = 0, elements = 0;
    int parts = 0;
    switch ((int)get_global_id(1)) {
        KN_CHOOSE(0) KN_CHOOSE(1) KN_CHOOSE(2) KN_CHOOSE(3) KN_CHOOSE(4) KN_CHOOSE(5) KN_CHOOSE(6) KN_CHOOSE(7)
        KN_CHOOSE(8) KN_CHOOSE(9) KN_CHOOSE(10) KN_CHOOSE(11) KN_CHOOSE(12) KN_CHOOSE(13) KN_CHOOSE(14) KN_CHOOSE(15)
    }
    add_parts(partials, result, offset, stride, elements, parts);
}
