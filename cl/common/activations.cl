/* Activations rounded to 8 bits: in each group of 32 numbers, which share a scale, to multiples of their largest
 * magnitude / 127.
 *   kn_round_scales(lo, hi)   of a group: (scale, 1 / scale). The multiple is rint(x * y), the rounded number that times
 *                             x. Groups below 2^-100 are 0; a group with NaN or an infinity is NaN
 *   kn_sum_codes(codes)       the sum of a char16
 * All operations round correctly, so that the multiples are the reference's. */
#ifndef KN_ACTIVATIONS_CL
#define KN_ACTIVATIONS_CL
static inline float2 kn_round_scales(const float16 lo, const float16 hi) {
    /* As integers, since NaN is the largest. */
    const int16 sixteen = max(as_int16(lo) & 0x7fffffff, as_int16(hi) & 0x7fffffff);
    const int8 eight = max(sixteen.lo, sixteen.hi);
    const int4 four = max(eight.lo, eight.hi);
    const int bits = max(max(four.s0, four.s2), max(four.s1, four.s3));
    const float largest = as_float(bits);
    if (bits >= 0x7f800000) return (float2)(as_float(0x7fc00000), 0.0f);
    if (!(largest >= 0x1p-100f)) return (float2)(0.0f, 0.0f);
    /* Devices may divide with an error of a few units in the last place. */
    const float quotient = 127.0f / largest;
    const float rest = fma(-quotient, largest, 127.0f);
    return (float2)(largest * 0x1.020408p-7f, fma(rest, quotient * 0x1.020408p-7f, quotient));
}
static inline int kn_sum_codes(const char16 codes) {
    const int16 sixteen = convert_int16(codes);
    const int8 eight = sixteen.lo + sixteen.hi;
    const int4 four = eight.lo + eight.hi;
    return (four.s0 + four.s2) + (four.s1 + four.s3);
}
#endif
