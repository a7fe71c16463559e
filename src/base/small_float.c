/* Floating-point numbers of a byte or less, with the format parameters in small_float.h. */
#include <math.h>
#include <stdio.h>

#include "base/base.h"

/* Bits of float32. */
enum { MANTISSA = 23, BIAS = 127 };
static const uint32_t hidden = 1u << MANTISSA, infinity = 0x7f800000u;

#define SIGN(exponent, mantissa) (1u << ((exponent) + (mantissa)))
/* The largest exponent is reserved for infinities, or its largest mantissa for NaN, or all codes are numbers.
 */
#define LARGEST(exponent, mantissa, infinities, nan)                                                         \
    ((infinities) ? SIGN(exponent, mantissa) - SIGN(0, mantissa) - 1                                         \
                  : SIGN(exponent, mantissa) - 1 - ((nan) == SIGN(exponent, mantissa) - 1))
#define FORMAT(exponent, mantissa, bias, infinities, nan)                                                    \
    {                                                                                                        \
        exponent, mantissa, bias, SIGN(exponent, mantissa), LARGEST(exponent, mantissa, infinities, nan),    \
            LARGEST(exponent, mantissa, infinities, nan) + ((infinities) || (nan)), nan                      \
    }

const kn_small_float *kn_small_float_of(kn_dtype dtype) {
    static const kn_small_float formats[] = {
#define ENTRY(type, exponent, mantissa, bias, infinities, nan)                                               \
    [type - KN_FLOAT8E4M3FN] = FORMAT(exponent, mantissa, bias, infinities, nan),
        KN_SMALL_FLOAT_LIST(ENTRY)
#undef ENTRY
    };
    return kn_is_small_float(dtype) ? &formats[dtype - KN_FLOAT8E4M3FN] : NULL;
}

const char *kn_small_float_facts(const kn_small_float *format, char text[KN_SMALL_FACTS]) {
    snprintf(text, KN_SMALL_FACTS, "%d, %d, 0x%x, 0x%x, 0x%x, 0x%x", format->mantissa_bits, format->bias,
             format->sign, format->largest, format->beyond, format->nan);
    return text;
}

kn_small_float kn_small_float_plain(int exponent_bits, int mantissa_bits, int bias) {
    return (kn_small_float)FORMAT(exponent_bits, mantissa_bits, bias, false, 0);
}

float kn_small_float_number(const kn_small_float *format, unsigned code) {
    const unsigned size = code & (format->sign - 1), one = 1u << format->mantissa_bits;
    const bool negative = code & format->sign;
    if (size > format->largest)
        return copysignf(size != format->beyond || size == format->nan ? NAN : INFINITY, negative ? -1 : 1);
    if (code && code == format->nan) return NAN;
    /* Without a mantissa, exponent 0 is an ordinary exponent. */
    int exponent = (int)(size >> format->mantissa_bits);
    bool subnormal = exponent == 0 && one > 1;
    float mantissa = (float)((size & (one - 1)) + (subnormal ? 0 : one));
    float number = ldexpf(mantissa, exponent + subnormal - format->bias - format->mantissa_bits);
    return negative ? -number : number;
}

static uint8_t power_of_two(const kn_small_float *format, uint32_t size, bool saturates,
                            kn_power_rounding rounding) {
    const uint32_t exponent = size >> MANTISSA, rest = size & (hidden - 1), half = hidden / 2;
    if (size >= infinity) return (uint8_t)format->nan;
    bool up = rounding == KN_POWER_UP        ? rest > 0
              : rounding == KN_POWER_NEAREST ? rest > half || (rest == half && exponent > 0)
                                             : false;
    return (uint8_t)(exponent + (up && !(saturates && exponent == format->largest)));
}

uint8_t kn_small_float_code(const kn_small_float *format, float number, bool saturates,
                            kn_power_rounding rounding) {
    const uint32_t bits = kn_bits_of_float(number);
    const uint32_t size = bits & 0x7fffffffu, sign = bits >> 31 ? format->sign : 0;
    if (format->mantissa_bits == 0) return power_of_two(format, size, saturates, rounding);
    if (size > infinity)
        return (uint8_t)(format->nan == 0              ? sign ^ format->sign
                         : format->nan == format->sign ? format->nan
                                                       : format->nan | sign);
    /* The remaining mantissa loses `shift` bits. A carry propagates into the exponent. */
    const int more = BIAS - format->bias, least = more + 1, exponent = (int)(size >> MANTISSA);
    int shift = MANTISSA - format->mantissa_bits;
    uint32_t left = size - ((uint32_t)more << MANTISSA);
    if (exponent < least) { /* subnormal, or 0 if all bits are lost */
        left = (size & (hidden - 1)) | hidden;
        shift += least - exponent;
        if (shift > MANTISSA + 2) shift = MANTISSA + 2;
    }
    uint32_t code = (left + (1u << (shift - 1)) - 1 + (left >> shift & 1)) >> shift;
    if (code > format->largest) code = saturates ? format->largest : format->beyond;
    /* There is only one zero if -0 is NaN. */
    return (uint8_t)(code == 0 && format->nan == format->sign ? 0 : code | sign);
}

/* ---- 16 bits ------------------------------------------------------------------------------------- */

float kn_float_from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        /* Subnormal: fraction * 2^-24, exact in a float. */
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return kn_float_of_bits(bits);
}

float kn_float_from_bfloat(uint16_t bits) {
    return kn_float_of_bits((uint32_t)bits << 16);
}

uint16_t kn_half_from_float(float number) {
    const uint32_t bits = kn_bits_of_float(number), size = bits & 0x7fffffffu;
    const uint32_t sign = bits >> 16 & 0x8000u;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x47800000u) return (uint16_t)(sign | 0x7c00u); /* 65536 and more */
    /* Subnormal numbers: adding 1/2 rounds to multiples of 2^-24. */
    if (size < 0x38800000u) {
        const float rounded = kn_float_of_bits(size) + 0.5f;
        return (uint16_t)(sign | (kn_bits_of_float(rounded) - 0x3f000000u));
    }
    return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13);
}

uint16_t kn_bfloat_from_float(float number) {
    const uint32_t bits = kn_bits_of_float(number);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
