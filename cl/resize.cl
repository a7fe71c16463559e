/* An axis brought to another size: each place of the result reads one, two or four neighbours of the source.
 *
 *   KN_T     float  type of the elements        KN_A  float  type of weights and sums
 *   KN_INDEX   int  type of indices
 *   KN_BACKWARD  0  1: the file is kn_resize_gradient, otherwise kn_resize
 *
 *   kn_resize(x, y, SIZES, taps, scale, offset, divisor, cubic)             y is (outer,size,inner), x (outer,source,inner)
 *   kn_resize_gradient(dy, dx, SIZES, taps, scale, offset, divisor, cubic)  the other way: each element of dx finds the
 *     places of dy that have read it, and adds them in order
 * Place j of the result is (j * scale + offset) / divisor in the source: whole numbers, so that no rounding moves it.
 * 1 tap takes the element at or before it, 2 go straight from there to the next, 4 are cubic with the slope `cubic`.
 * Beyond the edges stand the elements at the edges.
 * SIZES is (outer, source, size, inner, outer_share, row_share, inner_share); the last three are how much of the result
 * a work-item makes along each axis, whose numbers are (inner, row, outer). */
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A float
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifndef KN_BACKWARD
#define KN_BACKWARD 0
#endif

#define KN_SIZES                                                                                             \
    const KN_INDEX outer, const KN_INDEX source, const KN_INDEX size, const KN_INDEX inner,                  \
        const KN_INDEX outer_share, const KN_INDEX row_share, const KN_INDEX inner_share

static long kn_floor_divide(const long number, const long by) {
    return number >= 0 ? number / by : -((by - 1 - number) / by);
}

/* Weights of the taps, for a place `part` behind the middle one; answers how many taps stand before that. */
static int kn_weigh(const int taps, const KN_A part, const KN_A cubic, KN_A *weights) {
    if (taps == 1) {
        weights[0] = 1;
        return 0;
    }
    if (taps == 2) {
        weights[0] = 1 - part;
        weights[1] = part;
        return 0;
    }
    const KN_A far = part + 1, back = 1 - part, beyond = 2 - part;
    weights[0] = ((cubic * far - 5 * cubic) * far + 8 * cubic) * far - 4 * cubic;
    weights[1] = ((cubic + 2) * part - (cubic + 3)) * part * part + 1;
    weights[2] = ((cubic + 2) * back - (cubic + 3)) * back * back + 1;
    weights[3] = ((cubic * beyond - 5 * cubic) * beyond + 8 * cubic) * beyond - 4 * cubic;
    return 1;
}

#if KN_BACKWARD == 0

kernel void kn_resize(global const KN_T *restrict x, global KN_T *restrict y, KN_SIZES, const int taps,
                      const int scale, const int offset, const int divisor, const float cubic) {
    const KN_INDEX i0 = (KN_INDEX)get_global_id(0) * inner_share, i1 = min(inner, i0 + inner_share);
    const KN_INDEX j0 = (KN_INDEX)get_global_id(1) * row_share, j1 = min(size, j0 + row_share);
    const KN_INDEX o0 = (KN_INDEX)get_global_id(2) * outer_share, o1 = min(outer, o0 + outer_share);
    for (KN_INDEX j = j0; j < j1; j++) {
        const long place = (long)j * scale + offset, whole = kn_floor_divide(place, divisor);
        KN_A weights[4];
        const int before = kn_weigh(taps, (KN_A)(place - whole * divisor) / (KN_A)divisor, (KN_A)cubic, weights);
        KN_INDEX from[4];
        for (int t = 0; t < taps; t++)
            from[t] = (KN_INDEX)clamp(whole + t - before, (long)0, (long)source - 1) * inner;
        for (KN_INDEX o = o0; o < o1; o++) {
            global const KN_T *in = x + o * source * inner;
            global KN_T *out = y + (o * size + j) * inner;
            if (taps == 1)
                for (KN_INDEX i = i0; i < i1; i++)
                    out[i] = in[from[0] + i];
            else if (taps == 2)
                for (KN_INDEX i = i0; i < i1; i++)
                    out[i] = (KN_T)(weights[0] * (KN_A)in[from[0] + i] + weights[1] * (KN_A)in[from[1] + i]);
            else
                for (KN_INDEX i = i0; i < i1; i++)
                    out[i] = (KN_T)(weights[0] * (KN_A)in[from[0] + i] + weights[1] * (KN_A)in[from[1] + i] +
                                    weights[2] * (KN_A)in[from[2] + i] + weights[3] * (KN_A)in[from[3] + i]);
        }
    }
}

#else

/* The first place of the result whose tap without weight before it stands at `at` or behind. */
static long kn_first_place(const long at, const int scale, const int offset, const int divisor) {
    return -kn_floor_divide(offset - at * divisor, scale);
}

kernel void kn_resize_gradient(global const KN_T *restrict dy, global KN_T *restrict dx, KN_SIZES, const int taps,
                               const int scale, const int offset, const int divisor, const float cubic) {
    const KN_INDEX i0 = (KN_INDEX)get_global_id(0) * inner_share, i1 = min(inner, i0 + inner_share);
    const KN_INDEX r0 = (KN_INDEX)get_global_id(1) * row_share, r1 = min(source, r0 + row_share);
    const KN_INDEX o0 = (KN_INDEX)get_global_id(2) * outer_share, o1 = min(outer, o0 + outer_share);
    const int before = taps == 4 ? 1 : 0, behind = taps - 1 - before;
    for (KN_INDEX row = r0; row < r1; row++) {
        long first = 0, end = size;
        if (scale > 0 && row > 0) first = max(first, kn_first_place((long)row - behind, scale, offset, divisor));
        if (scale > 0 && row < source - 1)
            end = min(end, kn_first_place((long)row + before + 1, scale, offset, divisor));
        for (KN_INDEX o = o0; o < o1; o++) {
            global KN_T *out = dx + (o * source + row) * inner;
            for (KN_INDEX i = i0; i < i1; i++)
                out[i] = 0;
        }
        for (long j = first; j < end; j++) {
            const long place = j * scale + offset, whole = kn_floor_divide(place, divisor);
            KN_A weights[4], weight = 0;
            kn_weigh(taps, (KN_A)(place - whole * divisor) / (KN_A)divisor, (KN_A)cubic, weights);
            for (int t = 0; t < taps; t++)
                if (clamp(whole + t - before, (long)0, (long)source - 1) == row) weight += weights[t];
            for (KN_INDEX o = o0; o < o1; o++) {
                global const KN_T *in = dy + (o * size + (KN_INDEX)j) * inner;
                global KN_T *out = dx + (o * source + row) * inner;
                for (KN_INDEX i = i0; i < i1; i++)
                    out[i] = (KN_T)((KN_A)out[i] + weight * (KN_A)in[i]);
            }
        }
    }
}

#endif
