/* Bits of floating-point numbers; and formats of a byte or less, stored in a byte each: the parameters that
 * distinguish them, and the two conversions that follow. cl/common/small_float.cl converts with the same
 * parameters. Included by base.h. */
#ifndef KN_BASE_SMALL_FLOAT_H
#define KN_BASE_SMALL_FLOAT_H

#include <stdint.h>
#include <string.h>

#include <koine/tensor.h>

static inline uint32_t kn_bits_of_float(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
static inline float kn_float_of_bits(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}
static inline uint64_t kn_bits_of_double(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
static inline double kn_double_of_bits(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The number that 16 bits represent; exact. */
float kn_float_from_half(uint16_t half);
float kn_float_from_bfloat(uint16_t bits);
/* The nearest such number, ties to even; beyond the largest, infinity. */
uint16_t kn_half_from_float(float number);
uint16_t kn_bfloat_from_float(float number);

/* X(type, bits of the exponent, bits of the mantissa, bias, whether there are infinities, NaN). A sign
 * precedes exponent and mantissa if the byte has room for it. NaN is its code without a sign: all ones, or -0
 * in formats with one zero and one NaN; 0: there is none. The largest exponent is an ordinary exponent,
 * except in formats with infinities. */
#define KN_SMALL_FLOAT_LIST(X)                                                                               \
    X(KN_FLOAT8E4M3FN, 4, 3, 7, false, 0x7f)                                                                 \
    X(KN_FLOAT8E4M3FNUZ, 4, 3, 8, false, 0x80)                                                               \
    X(KN_FLOAT8E5M2, 5, 2, 15, true, 0x7e)                                                                   \
    X(KN_FLOAT8E5M2FNUZ, 5, 2, 16, false, 0x80)                                                              \
    X(KN_FLOAT8E8M0, 8, 0, 127, false, 0xff)                                                                 \
    X(KN_FLOAT4E2M1, 2, 1, 1, false, 0)

typedef struct kn_small_float {
    int exponent_bits, mantissa_bits, bias;
    /* Codes: of the sign, of the largest number, of the value beyond it (without a sign), of NaN. 0x100:
     * none. */
    unsigned sign, largest, beyond, nan;
} kn_small_float;

/* How a power of two (KN_FLOAT8E8M0) is chosen; other formats round to nearest, ties to even. */
typedef enum kn_power_rounding {
    KN_POWER_UP,      /* the next power, away from zero */
    KN_POWER_DOWN,    /* the previous power */
    KN_POWER_NEAREST, /* ties go up */
} kn_power_rounding;

/* For switches: `case KN_SMALL_FLOATS:` covers all of them. */
#define KN_SMALL_FLOATS                                                                                      \
    KN_FLOAT8E4M3FN:                                                                                         \
    case KN_FLOAT8E4M3FNUZ:                                                                                  \
    case KN_FLOAT8E5M2:                                                                                      \
    case KN_FLOAT8E5M2FNUZ:                                                                                  \
    case KN_FLOAT8E8M0:                                                                                      \
    case KN_FLOAT4E2M1

/* NULL for other types. */
const kn_small_float *kn_small_float_of(kn_dtype dtype);
static inline bool kn_is_small_float(kn_dtype dtype) {
    return dtype >= KN_FLOAT8E4M3FN && dtype <= KN_FLOAT4E2M1;
}
/* Its parameters as the last arguments of the functions in cl/common/small_float.cl. */
enum { KN_SMALL_FACTS = 96 };
const char *kn_small_float_facts(const kn_small_float *format, char text[KN_SMALL_FACTS]);
/* A format with these bits and without infinities and NaN, for formats that are not element types. */
kn_small_float kn_small_float_plain(int exponent_bits, int mantissa_bits, int bias);

/* The number that a code represents; exact. */
float kn_small_float_number(const kn_small_float *format, unsigned code);
/* The code of a number. A number that is too large becomes the largest number if `saturates`; otherwise an
 * infinity, or NaN in a format without infinities, or the largest number in a format with neither. NaN
 * becomes a zero of the opposite sign in a format without NaN. A power of two ignores the sign: an infinity
 * becomes NaN, whether it saturates or not, and a number below the smallest normal float32 is rounded by
 * whether it has bits, or by the uppermost of them. All this matches ONNX's reference implementation. */
uint8_t kn_small_float_code(const kn_small_float *format, float number, bool saturates,
                            kn_power_rounding rounding);

#endif
