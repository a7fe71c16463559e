/* Adds elements that workers have exchanged. */
#include "run/totals_private.h"

/* Drops the lowest `dropped` bits, rounding to nearest even. */
static uint32_t rounded(uint32_t bits, int dropped) {
    return (bits + ((1u << (dropped - 1)) - 1) + (bits >> dropped & 1)) >> dropped;
}

static float of_bfloat16(uint16_t code) {
    return kn_float_of_bits((uint32_t)code << 16);
}

static uint16_t to_bfloat16(float number) {
    const uint32_t bits = kn_bits_of_float(number);
    if (number != number) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)rounded(bits, 16);
}

static float of_float16(uint16_t code) {
    const uint32_t sign = (uint32_t)(code & 0x8000) << 16, exponent = code >> 10 & 31, rest = code & 1023;
    if (!exponent) return kn_float_of_bits(sign | kn_bits_of_float((float)rest * 0x1p-24f));
    return kn_float_of_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | rest << 13);
}

static uint16_t to_float16(float number) {
    const uint32_t bits = kn_bits_of_float(number), size = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (number != number) return sign | 0x7e00;
    if (size >= 0x477ff000) return sign | 0x7c00; /* 65520 or more */
    /* Below 2^-14 half numbers are multiples of 2^-24, as are floats from 0.5 to 1. */
    if (size < 0x38800000)
        return (uint16_t)(sign | (kn_bits_of_float(kn_float_of_bits(size) + 0.5f) - kn_bits_of_float(0.5f)));
    return (uint16_t)(sign | rounded(size - 0x38000000, 13));
}

static void add_float32(float *restrict left, const float *restrict right, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        left[i] += right[i];
}

static void add_bfloat16(uint16_t *restrict left, const uint16_t *restrict right, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        left[i] = to_bfloat16(of_bfloat16(left[i]) + of_bfloat16(right[i]));
}

static void add_float16(uint16_t *restrict left, const uint16_t *restrict right, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        left[i] = to_float16(of_float16(left[i]) + of_float16(right[i]));
}

void kn_totals_add(kn_dtype dtype, void *left, const void *right, uint64_t count) {
    if (dtype == KN_FLOAT16)
        add_float16(left, right, count);
    else if (dtype == KN_BFLOAT16)
        add_bfloat16(left, right, count);
    else
        add_float32(left, right, count);
}
