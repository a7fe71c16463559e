/* The bits of floating-point numbers; and those of a byte or less, a byte each: what distinguishes their
 * formats, and the two conversions that follow from it. cl/common/small_float.cl converts by the same facts.
 * Included by base.h. */
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

/* X(type, bits of the exponent, bits of the mantissa, bias, whether there are infinities, NaN). A sign
 * precedes exponent and mantissa if they leave room for it in the byte. NaN is its code without a sign: all
 * ones, or that of -0 in formats with one zero and one NaN; 0: there is none. The largest exponent is one of
 * numbers, except in formats with infinities. */
#define KN_SMALL_FLOAT_LIST(X)                                                                               \
    X(KN_FLOAT8E4M3FN, 4, 3, 7, false, 0x7f)                                                                 \
    X(KN_FLOAT8E4M3FNUZ, 4, 3, 8, false, 0x80)                                                               \
    X(KN_FLOAT8E5M2, 5, 2, 15, true, 0x7e)                                                                   \
    X(KN_FLOAT8E5M2FNUZ, 5, 2, 16, false, 0x80)                                                              \
    X(KN_FLOAT8E8M0, 8, 0, 127, false, 0xff)                                                                 \
    X(KN_FLOAT4E2M1, 2, 1, 1, false, 0)

typedef struct kn_small_float {
    int exponent_bits, mantissa_bits, bias;
    /* Codes: of the sign, of the largest number, of what is beyond it (without a sign), of NaN. 0x100: none.
     */
    unsigned sign, largest, beyond, nan;
} kn_small_float;

/* How a power of two (KN_FLOAT8E8M0) is chosen; other formats round to nearest, ties to even. */
typedef enum kn_power_rounding {
    KN_POWER_UP,      /* the next one, away from zero */
    KN_POWER_DOWN,    /* the one before */
    KN_POWER_NEAREST, /* ties go up */
} kn_power_rounding;

/* For switches: `case KN_SMALL_FLOATS:` stands for all of them. */
#define KN_SMALL_FLOATS                                                                                      \
    KN_FLOAT8E4M3FN:                                                                                         \
    case KN_FLOAT8E4M3FNUZ:                                                                                  \
    case KN_FLOAT8E5M2:                                                                                      \
    case KN_FLOAT8E5M2FNUZ:                                                                                  \
    case KN_FLOAT8E8M0:                                                                                      \
    case KN_FLOAT4E2M1

/* NULL for types of other kinds. */
const kn_small_float *kn_small_float_of(kn_dtype dtype);
static inline bool kn_is_small_float(kn_dtype dtype) {
    return dtype >= KN_FLOAT8E4M3FN && dtype <= KN_FLOAT4E2M1;
}
/* Its facts as the functions in cl/common/small_float.cl take them, their last arguments. */
enum { KN_SMALL_FACTS = 96 };
const char *kn_small_float_facts(const kn_small_float *format, char text[KN_SMALL_FACTS]);
/* The format with these bits, without infinities and NaN, for formats that are no element type. */
kn_small_float kn_small_float_plain(int exponent_bits, int mantissa_bits, int bias);

/* The number that a code stands for; exact. */
float kn_small_float_number(const kn_small_float *format, unsigned code);
/* The code of a number. One that is too large becomes the largest if it `saturates`; otherwise an infinity,
 * or NaN in a format without, or the largest in one without both. NaN becomes a zero of the other sign in a
 * format that has none. A power of two ignores the sign: an infinity becomes NaN, whether it saturates or
 * not, and a number below the smallest normal float32 is rounded by whether it has bits, or the uppermost of
 * them. All this is what ONNX's reference implementation does. */
uint8_t kn_small_float_code(const kn_small_float *format, float number, bool saturates,
                            kn_power_rounding rounding);

#endif
