/* Floating-point numbers of a byte or less (src/base/small_float.h), which are converted to float for computation. The
 * constants of a format are the last arguments, which the host writes as literals, so that the compiler can fold them:
 *   mantissa_bits, bias, and the codes of the sign, of the largest number, of overflow, and of NaN
 * Uses only integer operations, since devices may flush subnormal floats.
 *   kn_from_small(code, FACTS)                           the number that a code represents
 *   kn_to_small(number, saturates, rounding, FACTS)      the code of a number
 *   kn_as_small(number, saturates, rounding, FACTS)      the number after rounding
 * and with KN_WIDTH, for formats with a mantissa, kn_from_small_vector, kn_to_small_vector and kn_as_small_vector, the
 * same for vectors of that width.
 * rounding, of powers of two (no mantissa): 0 up, 1 down, 2 nearest; exact numbers are stored by 0, 1. */
#ifndef KN_SMALL_FLOAT_CL
#define KN_SMALL_FLOAT_CL
#define KN_FACTS                                                                                             \
    const int mantissa_bits, const int bias, const uint sign, const uint largest, const uint beyond, const uint nan_code
#define KN_SMALL_NAN 0x7fc00000u
#define KN_SMALL_INFINITY 0x7f800000u
#define KN_SMALL_HIDDEN 0x800000u

static inline float kn_from_small(const uint code, KN_FACTS) {
    const uint size = code & (sign - 1u), negative = code & sign ? 0x80000000u : 0u;
    if (size > largest)
        return as_float(negative | (size != beyond || size == nan_code ? KN_SMALL_NAN : KN_SMALL_INFINITY));
    if (code != 0 && code == nan_code) return as_float(KN_SMALL_NAN);
    /* The smallest power of two, half of the smallest normal float. */
    if (mantissa_bits == 0) return as_float(size == 0 ? KN_SMALL_HIDDEN / 2 : size << 23);
    const float unit = as_float((uint)(128 - bias - mantissa_bits) << 23);
    const uint bits = size >> mantissa_bits == 0 ? as_uint((float)size * unit)
                                                 : (size << (23 - mantissa_bits)) + ((uint)(127 - bias) << 23);
    return as_float(negative | bits);
}

static inline uint kn_to_small(const float number, const int saturates, const int rounding, KN_FACTS) {
    const uint bits = as_uint(number), size = bits & 0x7fffffffu, negative = bits >> 31 ? sign : 0u;
    const int exponent = (int)(size >> 23);
    const uint rest = size & (KN_SMALL_HIDDEN - 1);
    if (mantissa_bits == 0) {
        if (size >= KN_SMALL_INFINITY) return nan_code;
        const uint half_way = KN_SMALL_HIDDEN / 2;
        const bool up = rounding == 0   ? rest > 0
                        : rounding == 2 ? rest > half_way || (rest == half_way && exponent > 0)
                                        : false;
        return (uint)exponent + (up && !(saturates && exponent == (int)largest) ? 1u : 0u);
    }
    if (size > KN_SMALL_INFINITY)
        return nan_code == 0 ? sign ^ negative : nan_code == sign ? nan_code : nan_code | negative;
    /* The mantissa loses `places` more bits. A carry propagates into the exponent. */
    const int least = 128 - bias;
    const bool subnormal = exponent < least;
    const uint left = subnormal ? rest | KN_SMALL_HIDDEN : size - ((uint)(127 - bias) << 23);
    const int places = 23 - mantissa_bits + (subnormal ? min(least - exponent, mantissa_bits + 2) : 0);
    uint code = (left + (1u << (places - 1)) - 1u + (left >> places & 1u)) >> places;
    if (code > largest) code = saturates ? largest : beyond;
    return code == 0 && nan_code == sign ? 0u : code | negative;
}

static inline float kn_as_small(const float number, const int saturates, const int rounding, KN_FACTS) {
    return kn_from_small(kn_to_small(number, saturates, rounding, mantissa_bits, bias, sign, largest, beyond, nan_code),
                         mantissa_bits, bias, sign, largest, beyond, nan_code);
}

#ifdef KN_WIDTH
#include "common/storage.cl"
#define KN_CODES KN_PASTE(uint, KN_WIDTH)
/* b where the condition is true, otherwise a. */
#define KN_CHOOSE(a, b, condition) select(a, b, KN_PASTE(as_uint, KN_WIDTH)(condition))
static inline KN_FLOATS kn_from_small_vector(const KN_CODES code, KN_FACTS) {
    const KN_CODES size = code & (sign - 1u), negative = (code & sign) * (0x80000000u / sign);
    const float unit = as_float((uint)(128 - bias - mantissa_bits) << 23);
    const KN_CODES normal = (size << (uint)(23 - mantissa_bits)) + ((uint)(127 - bias) << 23);
    const KN_CODES tiny = KN_PASTE(as_uint, KN_WIDTH)(KN_PASTE(convert_float, KN_WIDTH)(size) * unit);
    const KN_CODES none = KN_CHOOSE((KN_CODES)(KN_SMALL_NAN), (KN_CODES)(KN_SMALL_INFINITY),
                                    (size == beyond) & (size != nan_code));
    KN_CODES bits = negative | KN_CHOOSE(normal, tiny, size >> (uint)mantissa_bits == 0u);
    bits = KN_CHOOSE(bits, negative | none, size > largest);
    bits = KN_CHOOSE(bits, (KN_CODES)(KN_SMALL_NAN), (code != 0u) & (code == nan_code));
    return KN_PASTE(as_float, KN_WIDTH)(bits);
}

static inline KN_CODES kn_to_small_vector(const KN_FLOATS number, const int saturates, const int rounding, KN_FACTS) {
    const KN_CODES bits = KN_PASTE(as_uint, KN_WIDTH)(number), size = bits & 0x7fffffffu;
    const KN_CODES negative = (bits >> 31u) * sign;
    const KN_CODES exponent = size >> 23u, rest = size & (KN_SMALL_HIDDEN - 1u);
    const uint least = (uint)(128 - bias), kept = (uint)(23 - mantissa_bits);
    /* For exponents >= `least`, the difference is not used. */
    const KN_CODES below = least - exponent, enough = (KN_CODES)((uint)mantissa_bits + 2u);
    const KN_CODES lost = KN_CHOOSE((KN_CODES)(0u), KN_CHOOSE(below, enough, below > enough), exponent < least);
    const KN_CODES left = KN_CHOOSE(size - ((uint)(127 - bias) << 23), rest | KN_SMALL_HIDDEN, exponent < least);
    const KN_CODES places = lost + kept;
    KN_CODES code = (left + ((KN_CODES)(1u) << (places - 1u)) - 1u + (left >> places & 1u)) >> places;
    code = KN_CHOOSE(code, (KN_CODES)(saturates ? largest : beyond), code > largest);
    code = nan_code == sign ? KN_CHOOSE(code | negative, code, code == 0u) : code | negative;
    const KN_CODES none = nan_code == 0u     ? sign ^ negative
                          : nan_code == sign ? (KN_CODES)(nan_code)
                                             : nan_code | negative;
    return KN_CHOOSE(code, none, size > KN_SMALL_INFINITY);
}

static inline KN_FLOATS kn_as_small_vector(const KN_FLOATS number, const int saturates, const int rounding, KN_FACTS) {
    const KN_CODES codes =
        kn_to_small_vector(number, saturates, rounding, mantissa_bits, bias, sign, largest, beyond, nan_code);
    return kn_from_small_vector(codes, mantissa_bits, bias, sign, largest, beyond, nan_code);
}
#endif
#endif
