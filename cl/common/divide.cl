/* Division by a number that the host knows, without a division instruction: n / divisor for 0 <= n < 2^31, where
 * `multiplier` is kn_divide_multiplier(divisor) (src/base/base.h). */
#ifndef KN_DIVIDE_CL
#define KN_DIVIDE_CL
static inline int divide(const int n, const int divisor, const uint multiplier) {
    return divisor > 1 ? (int)(mul_hi((uint)n, multiplier) >> (31 - clz(divisor - 1))) : n;
}

/* For divisors that kernels compute: exact while n * divisor < 2^32. */
static inline uint multiplier_of(const int divisor) {
    return divisor > 1 ? 0xffffffffu / (uint)divisor + 1 : 0;
}
static inline int divide_short(const int n, const uint multiplier) {
    return multiplier ? (int)mul_hi((uint)n, multiplier) : n;
}
#endif
