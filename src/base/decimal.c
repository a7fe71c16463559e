/* Fast integer-only conversion of short decimal numbers to doubles. */
#include "base/base.h"

#include <float.h>

/* MAX_DIGITS digits always fit 64 bits; powers of ten up to MAX_EXACT are exact in a double, those up to
 * MAX_POWER in 64 bits. */
enum { MAX_DIGITS = 19, MAX_EXACT = 22, MAX_POWER = 19 };

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
#define ROUNDS_ONCE 1 /* an operation on doubles rounds to double immediately */
#else
#define ROUNDS_ONCE 0
#endif

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 wide;

/* number / 10^power, rounded to nearest. number > 0, 0 < power <= MAX_POWER */
static bool divide(uint64_t number, int power, double *value) {
    uint64_t by = 1;
    for (int i = 0; i < power; i++)
        by *= 10;
    const int up = __builtin_clzll(number), by_up = __builtin_clzll(by);
    const wide over = (wide)(number << up) << 63;
    by <<= by_up;
    /* 63 or 64 bits, of which a double keeps 53: a set last bit stands for the remainder, so that ties are
     * decided correctly. */
    uint64_t quotient = (uint64_t)(over / by);
    quotient |= (uint64_t)over != quotient * by;
    const uint64_t scale_bits = (uint64_t)(1023 + by_up - up - 63) << 52; /* a power of two */
    *value = (double)quotient * kn_double_of_bits(scale_bits);
    return true;
}
#else
static bool divide(uint64_t number, int power, double *value) {
    (void)number, (void)power, (void)value;
    return false;
}
#endif

static bool scale(uint64_t number, int power, double *value) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (number == 0) {
        *value = 0;
        return true;
    }
    if (ROUNDS_ONCE && number <= (uint64_t)1 << DBL_MANT_DIG && power <= MAX_EXACT && power >= -MAX_EXACT) {
        *value = power < 0 ? (double)number / powers[-power] : (double)number * powers[power];
        return true;
    }
    return ROUNDS_ONCE && power < 0 && power >= -MAX_POWER && divide(number, -power, value);
}

bool kn_parse_short(const char *text, size_t length, char comma, double *value) {
    const char *c = text, *end = text + length;
    const bool negative = c < end && *c == '-';
    uint64_t number = 0;
    int digits = 0, power = 0, exponent = 0;
    bool any = false, point = false;
    if (c < end && (*c == '-' || *c == '+')) c++;
    for (; c < end; c++) {
        const unsigned digit = (unsigned)(unsigned char)*c - '0';
        if (digit <= 9) {
            any = true;
            power -= point;
            number = 10 * number + digit;
            if (number && ++digits > MAX_DIGITS) return false;
        } else if (!point && (*c == '.' || *c == comma)) {
            point = true;
        } else {
            break;
        }
    }
    if (!any) return false;
    if (c < end && (*c == 'e' || *c == 'E')) {
        const bool down = ++c < end && *c == '-';
        if (c < end && (*c == '-' || *c == '+')) c++;
        if (c == end || end - c > 4) return false;
        for (; c < end && *c >= '0' && *c <= '9'; c++)
            exponent = 10 * exponent + (*c - '0');
        if (down) exponent = -exponent;
    }
    if (c != end || !scale(number, power + exponent, value)) return false;
    if (negative) *value = -*value;
    return true;
}
