/* Elements picked along an axis by their numbers, and put there.
 *
 *   KN_T     float  type of the elements: any of their size for kn_gather
 *   KN_I       int  type of the numbers: int or long
 *   KN_INDEX   int  type of indices
 *   KN_SCATTER   0  1: the file is kn_scatter, otherwise kn_gather
 *
 *   kn_gather(x, numbers, y, missing, NUMBERS, all, inner, count, size, share)
 *     y is (outer,count,inner), x is (outer,size,inner): y(o,j,i) = x(o, number of (o,j,i), i). Where there is no such
 *     element y gets `missing`, in the upper half of elements of 8 bytes. Work-item i makes `share` elements of y.
 *   kn_scatter(x, numbers, updates, y, mode, NUMBERS, lanes, inner, count, size, share, rows, begin, stop)
 *     y and x are (outer,size,inner), updates is (outer,count,inner): y is x, then for each j in order updates(o,j,i) is
 *     put to its place by `mode`: 0 instead of what is there, 1 added, 2 multiplied, 3 the larger, 4 the smaller. x may
 *     be null: 0. A number that is no element does nothing. Work-item (i,k) makes the elements k * rows and on of
 *     `share` lanes (o,i): it reads all their numbers, so that nobody else writes there and bits never depend on dealing.
 *     Only the updates from j = begin to stop - 1 are looked at; unless begin is 0, y is what an earlier launch left.
 * NUMBERS is (number_outer, number_each, number_inner): from one number to the next along o, j and i. Negative numbers
 * count from the end. */
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_I
#define KN_I int
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_SCATTER
#define KN_SCATTER 0
#endif

#define KN_NUMBERS const KN_INDEX number_outer, const KN_INDEX number_each, const KN_INDEX number_inner

#if KN_SCATTER == 0

kernel void kn_gather(global const KN_T *restrict x, global const KN_I *restrict numbers, global KN_T *restrict y,
                      const uint missing, KN_NUMBERS, const KN_INDEX all, const KN_INDEX inner,
                      const KN_INDEX count, const KN_INDEX size, const KN_INDEX share) {
    const KN_INDEX first = (KN_INDEX)get_global_id(0) * share;
    if (first >= all) return;
    const KN_INDEX end = min(all, first + share);
    const KN_T nothing = sizeof(KN_T) == 8 ? (KN_T)((ulong)missing << 32) : (KN_T)missing;
    for (KN_INDEX at = first; at < end;) {
        const KN_INDEX row = at / inner, from = at - row * inner, to = min(inner, from + end - at);
        const KN_INDEX o = row / count;
        global const KN_I *number = numbers + o * number_outer + (row - o * count) * number_each;
        global const KN_T *source = x + o * size * inner;
        if (number_inner == 0) {
            const KN_I n = *number < 0 ? *number + (KN_I)size : *number;
            const bool known = n >= 0 && n < (KN_I)size;
            source += known ? (KN_INDEX)n * inner : 0;
            if (known)
                for (KN_INDEX i = from; i < to; i++)
                    y[row * inner + i] = source[i];
            else
                for (KN_INDEX i = from; i < to; i++)
                    y[row * inner + i] = nothing;
        } else
            for (KN_INDEX i = from; i < to; i++) {
                const KN_I given = number[i * number_inner], n = given < 0 ? given + (KN_I)size : given;
                const bool known = n >= 0 && n < (KN_I)size;
                y[row * inner + i] = known ? source[(KN_INDEX)n * inner + i] : nothing;
            }
        at += to - from;
    }
}

#else

#define KN_IS_NAN(v) ((v) != (v))

static KN_T kn_combine(const KN_T old, const KN_T update, const int mode) {
    switch (mode) {
    case 1:
        return old + update;
    case 2:
        return old * update;
    case 3:
        return update > old || KN_IS_NAN(update) ? update : old;
    case 4:
        return update < old || KN_IS_NAN(update) ? update : old;
    default:
        return update;
    }
}

kernel void kn_scatter(global const KN_T *restrict x, global const KN_I *restrict numbers,
                       global const KN_T *restrict updates, global KN_T *restrict y, const int mode, KN_NUMBERS,
                       const KN_INDEX lanes, const KN_INDEX inner, const KN_INDEX count, const KN_INDEX size,
                       const KN_INDEX share, const KN_INDEX rows, const KN_INDEX begin, const KN_INDEX stop) {
    const KN_INDEX first_lane = (KN_INDEX)get_global_id(0) * share;
    const KN_INDEX first = (KN_INDEX)get_global_id(1) * rows, end = min(size, first + rows);
    if (first_lane >= lanes) return;
    const KN_INDEX end_lane = min(lanes, first_lane + share);
    for (KN_INDEX lane = first_lane; lane < end_lane;) {
        const KN_INDEX o = lane / inner, from = lane - o * inner, to = min(inner, from + end_lane - lane);
        global KN_T *result = y + o * size * inner;
        for (KN_INDEX row = begin == 0 ? first : end; row < end; row++)
            for (KN_INDEX i = from; i < to; i++)
                result[row * inner + i] = x ? x[(o * size + row) * inner + i] : (KN_T)0;
        for (KN_INDEX j = begin; j < stop; j++) {
            global const KN_I *number = numbers + o * number_outer + j * number_each;
            global const KN_T *update = updates + (o * count + j) * inner;
            if (number_inner == 0) {
                const KN_I n = *number < 0 ? *number + (KN_I)size : *number;
                if (n < (KN_I)first || n >= (KN_I)end) continue;
                global KN_T *place = result + (KN_INDEX)n * inner;
                if (mode == 1)
                    for (KN_INDEX i = from; i < to; i++)
                        place[i] += update[i];
                else
                    for (KN_INDEX i = from; i < to; i++)
                        place[i] = kn_combine(place[i], update[i], mode);
            } else
                for (KN_INDEX i = from; i < to; i++) {
                    const KN_I given = number[i * number_inner], n = given < 0 ? given + (KN_I)size : given;
                    if (n < (KN_I)first || n >= (KN_I)end) continue;
                    global KN_T *place = result + (KN_INDEX)n * inner + i;
                    *place = kn_combine(*place, update[i], mode);
                }
        }
        lane += to - from;
    }
}

#endif
