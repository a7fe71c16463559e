/* The largest or smallest elements along an axis, in order, and where they stand.
 *
 *   KN_T     float  type of the elements
 *   KN_INDEX   int  type of indices
 *   KN_RANKS     0  1: the file is kn_ranks, otherwise kn_passes
 *
 *   kn_passes(x, values, places, smallest, lanes, inner, size, k, share)   work-item i has `share` lanes; for each of
 *     the k results it looks through the lane for the best that comes after the one before: for few results
 *   kn_ranks(x, values, places, smallest, all, inner, size, k, share)      work-item i has `share` elements; each counts
 *     those of its lane that come before it, and is written if these are less than k: for many results
 * x is (outer,size,inner), values and places (int) are (outer,k,inner). Of equal ones the first comes first. NaN is
 * larger than any number. */
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_RANKS
#define KN_RANKS 0
#endif

/* Whether a is larger than b. */
#define KN_LARGER(a, b) (((a) > (b)) | (((a) != (a)) & ((b) == (b))))
/* Whether a, which stands at i, comes before b, which stands at j. */
static bool kn_before(const KN_T a, const KN_INDEX i, const KN_T b, const KN_INDEX j, const int smallest) {
    const bool larger = KN_LARGER(a, b), less = KN_LARGER(b, a);
    return smallest ? less | (!larger & (i < j)) : larger | (!less & (i < j));
}

#if KN_RANKS == 0

kernel void kn_passes(global const KN_T *restrict x, global KN_T *restrict values, global int *restrict places,
                      const int smallest, const KN_INDEX lanes, const KN_INDEX inner, const KN_INDEX size,
                      const KN_INDEX k, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share;
    if (first >= lanes) return;
    const KN_INDEX end = min(lanes, first + share);
    for (KN_INDEX lane = first; lane < end; lane++) {
        const KN_INDEX o = lane / inner, i = lane - o * inner;
        global const KN_T *from = x + o * size * inner + i;
        KN_T last = 0;
        KN_INDEX last_place = -1;
        for (KN_INDEX r = 0; r < k; r++) {
            KN_T best = 0;
            KN_INDEX place = -1;
            for (KN_INDEX j = 0; j < size; j++) {
                const KN_T element = from[j * inner];
                const bool left = r == 0 || kn_before(last, last_place, element, j, smallest);
                if (left && (place < 0 || kn_before(element, j, best, place, smallest))) {
                    best = element;
                    place = j;
                }
            }
            values[(o * k + r) * inner + i] = last = best;
            places[(o * k + r) * inner + i] = (int)(last_place = place);
        }
    }
}

#else

kernel void kn_ranks(global const KN_T *restrict x, global KN_T *restrict values, global int *restrict places,
                     const int smallest, const KN_INDEX all, const KN_INDEX inner, const KN_INDEX size,
                     const KN_INDEX k, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share;
    if (first >= all) return;
    const KN_INDEX end = min(all, first + share);
    for (KN_INDEX at = first; at < end; at++) {
        const KN_INDEX row = at / inner, i = at - row * inner, o = row / size, own = row - o * size;
        global const KN_T *from = x + o * size * inner + i;
        const KN_T element = x[at];
        KN_INDEX rank = 0;
        for (KN_INDEX j = 0; j < size; j++)
            rank += kn_before(from[j * inner], j, element, own, smallest) ? 1 : 0;
        if (rank >= k) continue;
        values[(o * k + rank) * inner + i] = element;
        places[(o * k + rank) * inner + i] = (int)own;
    }
}

#endif
