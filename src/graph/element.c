/* Elements of arrays of any type as double-precision numbers. */
#include <math.h>

#include "graph/graph_private.h"

bool kn_dtype_is_float(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64 || kn_is_half(dtype);
}

float kn_round_tf32(float number) {
    if (number != number) return number;
    return kn_float_of_bits((kn_bits_of_float(number) + 0x1000u) & ~0x1fffu);
}

/* Expands a float with the given exponent and mantissa widths to a double. */
static double expand(uint16_t bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int exponent = bits >> mantissa_bits & top;
    double mantissa = bits & ((1 << mantissa_bits) - 1);
    double number;
    if (exponent == top)
        number = mantissa != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        number = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        number = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return bits >> 15 ? -number : number;
}

/* Rounds a double once, to nearest even. */
static uint16_t shorten(double number, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    uint16_t sign = signbit(number) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)(top << mantissa_bits);
    if (isnan(number)) return (uint16_t)(infinity | 1u << (mantissa_bits - 1));
    double size = fabs(number);
    if (isinf(size)) return sign | infinity;
    if (size == 0) return sign;
    int exponent;
    frexp(size, &exponent); /* size = f * 2^exponent, 0.5 <= f < 1 */
    int lowest = 1 - bias;  /* lowest exponent of normal numbers */
    if (exponent - 1 < lowest) exponent = lowest + 1;
    /* In units of the last place; scaling is exact, so the remainder decides the rounding. */
    double units = ldexp(size, mantissa_bits + 1 - exponent);
    double whole = floor(units), rest = units - whole;
    uint32_t mantissa = (uint32_t)whole;
    if (rest > 0.5 || (rest == 0.5 && (mantissa & 1))) mantissa++;
    /* The addition carries into the exponent, as does the hidden bit of normal numbers. */
    uint32_t bits = mantissa + ((uint32_t)(exponent - 1 - lowest) << mantissa_bits);
    return bits >= infinity ? sign | infinity : (uint16_t)(sign | bits);
}

double kn_element_get(kn_dtype dtype, const void *data, int64_t position) {
    switch (dtype) {
    case KN_FLOAT32:
        return ((const float *)data)[position];
    case KN_FLOAT64:
        return ((const double *)data)[position];
    case KN_FLOAT16:
        return expand(((const uint16_t *)data)[position], 5, 10);
    case KN_BFLOAT16:
        return kn_float_of_bits((uint32_t)((const uint16_t *)data)[position] << 16);
    case KN_INT8:
        return ((const int8_t *)data)[position];
    case KN_INT16:
        return ((const int16_t *)data)[position];
    case KN_INT32:
        return ((const int32_t *)data)[position];
    case KN_INT64:
        return (double)((const int64_t *)data)[position];
    case KN_UINT8:
        return ((const uint8_t *)data)[position];
    case KN_UINT16:
        return ((const uint16_t *)data)[position];
    case KN_UINT32:
        return ((const uint32_t *)data)[position];
    case KN_UINT64:
        return (double)((const uint64_t *)data)[position];
    case KN_BOOL:
        return ((const uint8_t *)data)[position] != 0;
    case KN_SMALL_FLOATS:
        return kn_small_float_number(kn_small_float_of(dtype), ((const uint8_t *)data)[position]);
    }
    return 0;
}

/* low and high are exact as doubles, or powers of two just outside the range. */
static int64_t to_integer(double number, double low, double high, int64_t lowest, int64_t highest) {
    if (isnan(number)) return 0;
    if (number <= low) return lowest;
    if (number >= high) return highest;
    return (int64_t)number;
}

static int64_t within(double number, int64_t lowest, int64_t highest) {
    return to_integer(number, (double)lowest, (double)highest, lowest, highest);
}

void kn_element_set(kn_dtype dtype, void *data, int64_t position, double number) {
    switch (dtype) {
    case KN_FLOAT32:
        ((float *)data)[position] = (float)number;
        break;
    case KN_FLOAT64:
        ((double *)data)[position] = number;
        break;
    case KN_FLOAT16:
        ((uint16_t *)data)[position] = shorten(number, 5, 10);
        break;
    case KN_BFLOAT16:
        ((uint16_t *)data)[position] = shorten(number, 8, 7);
        break;
    case KN_INT8:
        ((int8_t *)data)[position] = (int8_t)within(number, INT8_MIN, INT8_MAX);
        break;
    case KN_INT16:
        ((int16_t *)data)[position] = (int16_t)within(number, INT16_MIN, INT16_MAX);
        break;
    case KN_INT32:
        ((int32_t *)data)[position] = (int32_t)within(number, INT32_MIN, INT32_MAX);
        break;
    case KN_INT64:
        ((int64_t *)data)[position] = within(number, INT64_MIN, INT64_MAX);
        break;
    case KN_UINT8:
        ((uint8_t *)data)[position] = (uint8_t)within(number, 0, UINT8_MAX);
        break;
    case KN_UINT16:
        ((uint16_t *)data)[position] = (uint16_t)within(number, 0, UINT16_MAX);
        break;
    case KN_UINT32:
        ((uint32_t *)data)[position] = (uint32_t)within(number, 0, UINT32_MAX);
        break;
    case KN_UINT64:
        /* The upper half of the range exceeds int64_t. */
        if (number >= 18446744073709551616.0)
            ((uint64_t *)data)[position] = UINT64_MAX;
        else if (number >= 1)
            ((uint64_t *)data)[position] = (uint64_t)number;
        else
            ((uint64_t *)data)[position] = 0;
        break;
    case KN_BOOL:
        ((uint8_t *)data)[position] = number != 0;
        break;
    case KN_SMALL_FLOATS:
        ((uint8_t *)data)[position] =
            kn_small_float_code(kn_small_float_of(dtype), (float)number, false, KN_POWER_NEAREST);
        break;
    }
}
