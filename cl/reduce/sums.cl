/* Several sums of parts in one launch: result i of a sum is the sum of partials[i + part * stride] over its parts,
 * in order.
 *
 *   KN_T, KN_A   types of the results, and of the parts (common/types.cl)
 *   KN_ITEMS 64  work-items of a work-group
 *
 * kn_sums(partials0, result0, offset0, stride0, elements0, parts0, groups0, partials1, …, groups15)
 *   partials begin at an offset; absent sums have no groups. Work-groups: those of sum 0, then those of sum 1, and so
 *   on. A work-item computes four elements, where offset, stride and elements are multiples of 4; or one, if there are
 *   enough groups for that. */
#include "common/types.cl"
#include "common/unroll.cl"
#ifndef KN_ITEMS
#define KN_ITEMS 64
#endif
#define KN_CONCAT_(a, b) a##b
#define KN_CONCAT(a, b) KN_CONCAT_(a, b)
typedef KN_CONCAT(KN_A, 4) four;
typedef KN_CONCAT(KN_T, 4) four_results;

/* Adds `parts` parts in order, of elements of a type. All loads of a round are issued before any result is needed. */
#define KN_ADD_ROUND(number)                                                                                 \
    {                                                                                                        \
        KN_UNROLL for (int i = 0; i < number; i++) sum += from[i * step];                                    \
        from += number * step;                                                                               \
        left -= number;                                                                                      \
    }
#define KN_ADD_PARTS(name, type, most)                                                                       \
    static inline type name(global const type *from, const KN_INDEX step, const int parts) {                 \
        type sum = 0;                                                                                        \
        int left = parts;                                                                                    \
        while (left >= most)                                                                                 \
            KN_ADD_ROUND(most)                                                                               \
        if (most > 8 && left >= 8) KN_ADD_ROUND(8)                                                           \
        if (left >= 4) KN_ADD_ROUND(4)                                                                       \
        if (left >= 2) KN_ADD_ROUND(2)                                                                       \
        if (left >= 1) KN_ADD_ROUND(1)                                                                       \
        return sum;                                                                                          \
    }
KN_ADD_PARTS(add_single, KN_A, 16)
KN_ADD_PARTS(add_fours, four, 8)

#define KN_SUM(i)                                                                                            \
    global const KN_A *restrict partials##i, global KN_T *restrict result##i, KN_INDEX offset##i,            \
        KN_INDEX stride##i, KN_INDEX elements##i, int parts##i, int groups##i
#define KN_CHOOSE(i)                                                                                         \
    if (group < groups##i) {                                                                                 \
        partials = partials##i + offset##i;                                                                  \
        result = result##i;                                                                                  \
        stride = stride##i;                                                                                  \
        elements = elements##i;                                                                              \
        parts = parts##i;                                                                                    \
        groups = groups##i;                                                                                  \
        break;                                                                                               \
    }                                                                                                        \
    group -= groups##i;

__attribute__((reqd_work_group_size(KN_ITEMS, 1, 1)))
kernel void kn_sums(KN_SUM(0), KN_SUM(1), KN_SUM(2), KN_SUM(3), KN_SUM(4), KN_SUM(5), KN_SUM(6), KN_SUM(7),
                    KN_SUM(8), KN_SUM(9), KN_SUM(10), KN_SUM(11), KN_SUM(12), KN_SUM(13), KN_SUM(14),
                    KN_SUM(15)) {
    global const KN_A *partials = partials0;
    global KN_T *result = result0;
    KN_INDEX stride = 0, elements = 0;
    int parts = 0, groups = 0, group = KN_GROUP(0, KN_ITEMS);
    do {
        KN_CHOOSE(0) KN_CHOOSE(1) KN_CHOOSE(2) KN_CHOOSE(3) KN_CHOOSE(4) KN_CHOOSE(5) KN_CHOOSE(6) KN_CHOOSE(7)
        KN_CHOOSE(8) KN_CHOOSE(9) KN_CHOOSE(10) KN_CHOOSE(11) KN_CHOOSE(12) KN_CHOOSE(13) KN_CHOOSE(14) KN_CHOOSE(15)
    } while (false);
    const bool by_fours = elements > (KN_INDEX)groups * KN_ITEMS;
    const KN_INDEX item = (KN_INDEX)group * KN_ITEMS + (int)get_local_id(0), first = by_fours ? 4 * item : item;
    if (first >= elements) return;
    partials += first;
    result += first;
    /* Vectors of four are aligned: memory begins at multiples of 64 bytes. */
    if (by_fours)
        *(global four_results *)result = KN_CONCAT(KN_CONCAT(convert_, KN_T), 4)(
            add_fours((global const four *)partials, stride / 4, parts));
    else
        *result = KN_CONCAT(convert_, KN_T)(add_single(partials, stride, parts));
}
