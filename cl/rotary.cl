/* Rotary embedding: pairs of a head's numbers are turned by angles that grow with the position.
 *
 *   KN_T     float  type of the elements
 *   KN_A      KN_T  type of the computation
 *   KN_INDEX   int  type of indices
 *
 *   kn_rotary(x, y, items, length, heads, pairs, interleaved, inverse, base)
 * x and y are (batches,length,heads,2*pairs). Pair i of row t is turned by position / base^(i / pairs), back with
 * `inverse`; its numbers stand `pairs` apart, or side by side with `interleaved`. The position is t; with KN_STARTS there
 * are two parameters more, starts and starts_row, and it is starts[batch * starts_row] + t. Item (batch,t,i) turns
 * that pair in all heads. */
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A KN_T
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#ifdef KN_STARTS
#define KN_STARTS_PARAMETERS , global const int *restrict starts, const int starts_row
#define KN_START starts[row / length * starts_row]
#else
#define KN_STARTS_PARAMETERS
#define KN_START 0
#endif

kernel void kn_rotary(global const KN_T *restrict x, global KN_T *restrict y, const KN_INDEX items,
                      const KN_INDEX length, const KN_INDEX heads, const KN_INDEX pairs, const int interleaved,
                      const int inverse, const float base KN_STARTS_PARAMETERS) {
    const KN_INDEX item = get_global_id(0);
    if (item >= items) return;
    const KN_INDEX row = item / pairs, pair = item - row * pairs;
    const KN_INDEX apart = interleaved ? 1 : pairs, first = row * heads * 2 * pairs + (interleaved ? 2 * pair : pair);
    const KN_A position = (KN_A)(row % length + KN_START);
    const KN_A angle = position * pow((KN_A)base, -(KN_A)pair / (KN_A)pairs);
    const KN_A c = cos(angle), s = inverse ? -sin(angle) : sin(angle);
    for (KN_INDEX head = 0; head < heads; head++) {
        const KN_INDEX at = first + head * 2 * pairs;
        const KN_A left = (KN_A)x[at], right = (KN_A)x[at + apart];
        y[at] = (KN_T)(left * c - right * s);
        y[at + apart] = (KN_T)(right * c + left * s);
    }
}
