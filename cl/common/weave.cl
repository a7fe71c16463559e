/* KN_WIDTH vectors transposed in registers: log2 KN_WIDTH rounds, each weaving vector i with vector
 * i + KN_WIDTH / 2. KN_TRANSPOSE(x) makes t0, t1 … of x0, x1 …, and KN_EACH_LANE(X) is X(0) X(1) … for each.
 * KN_LANE_LIST is 0, 1, … */
#ifndef KN_WEAVE_CL
#define KN_WEAVE_CL
#include "common/vector.cl"

KN_INLINE vector weave_low(vector a, vector b) {
    vector c;
    c.even = a.lo;
    c.odd = b.lo;
    return c;
}
KN_INLINE vector weave_high(vector a, vector b) {
    vector c;
    c.even = a.hi;
    c.odd = b.hi;
    return c;
}
#define KN_WEAVE(from, to, i, j, low, high)                                                                  \
    const vector to##low = weave_low(from##i, from##j), to##high = weave_high(from##i, from##j);
#define KN_LANES_4(X) X(0) X(1) X(2) X(3)
#define KN_LANES_8(X) KN_LANES_4(X) X(4) X(5) X(6) X(7)
#define KN_LANES_16(X) KN_LANES_8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define KN_EACH_LANE(X) KN_JOIN(KN_LANES_, KN_WIDTH)(X)
#define KN_LANE_LIST_4 0, 1, 2, 3
#define KN_LANE_LIST_8 KN_LANE_LIST_4, 4, 5, 6, 7
#define KN_LANE_LIST_16 KN_LANE_LIST_8, 8, 9, 10, 11, 12, 13, 14, 15
#define KN_LANE_LIST KN_JOIN(KN_LANE_LIST_, KN_WIDTH)
#if KN_WIDTH == 16
#define KN_ROUND(from, to)                                                                                   \
    KN_WEAVE(from, to, 0, 8, 0, 1)                                                                           \
    KN_WEAVE(from, to, 1, 9, 2, 3)                                                                           \
    KN_WEAVE(from, to, 2, 10, 4, 5)                                                                          \
    KN_WEAVE(from, to, 3, 11, 6, 7)                                                                          \
    KN_WEAVE(from, to, 4, 12, 8, 9)                                                                          \
    KN_WEAVE(from, to, 5, 13, 10, 11)                                                                        \
    KN_WEAVE(from, to, 6, 14, 12, 13)                                                                        \
    KN_WEAVE(from, to, 7, 15, 14, 15)
#define KN_TRANSPOSE(x) KN_ROUND(x, p) KN_ROUND(p, q) KN_ROUND(q, r) KN_ROUND(r, t)
#elif KN_WIDTH == 8
#define KN_ROUND(from, to)                                                                                   \
    KN_WEAVE(from, to, 0, 4, 0, 1)                                                                           \
    KN_WEAVE(from, to, 1, 5, 2, 3)                                                                           \
    KN_WEAVE(from, to, 2, 6, 4, 5)                                                                           \
    KN_WEAVE(from, to, 3, 7, 6, 7)
#define KN_TRANSPOSE(x) KN_ROUND(x, p) KN_ROUND(p, q) KN_ROUND(q, t)
#else
#define KN_ROUND(from, to) KN_WEAVE(from, to, 0, 2, 0, 1) KN_WEAVE(from, to, 1, 3, 2, 3)
#define KN_TRANSPOSE(x) KN_ROUND(x, p) KN_ROUND(p, t)
#endif
#endif
