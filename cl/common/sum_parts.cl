/* The second half of a sum that was split: result = the parts, each of the result's own shape, added in
 * order. The result is (outer, middle, inner) as the epilogue sees it.
 *
 * kn_sum_parts(shares, result, elements, parts, middle_size, inner_size, EPILOGUE)
 *   one work-item per element; shares is (parts, elements). */
#ifndef KN_SUM_PARTS_CL
#define KN_SUM_PARTS_CL
#include "common/tile.cl"
kernel void kn_sum_parts(global const KN_A *restrict shares, global KN_T *restrict result, KN_INDEX elements,
                         int parts, KN_INDEX middle_size, KN_INDEX inner_size KN_EPILOGUE_PARAMETERS) {
    const KN_INDEX i = get_global_id(0);
    if (i >= elements) return;
    KN_A sum = shares[i];
    for (int part = 1; part < parts; part++)
        sum += shares[i + part * elements];
    const KN_INDEX inner = i % inner_size, middle = i / inner_size % middle_size;
    const KN_INDEX outer = i / inner_size / middle_size;
    result[i] = KN_TO_T(KN_EPILOGUE(sum, outer, middle, inner));
}
#endif
