/* Floating-point numbers of 16, 8 and 4 bits: every code against an independent formula, and every point at
 * which rounding changes direction. */
#include "base_tests.h"

#include <math.h>
#include <string.h>

#include <koine/tensor.h>

/* The formats as described in their papers. */
typedef struct paper {
    kn_dtype dtype;
    int codes, exponents, fractions, bias; /* of exponents and fractions: how many there are */
    double least, most;                    /* above 0 */
    int infinity;                          /* code of the positive one, or -1 */
    int nans[7];                           /* of both signs, -1 at the end */
    int from_nan, from_negative_nan;       /* codes that NaN becomes */
    int beyond;                            /* the code of numbers that are too large, without saturation */
} paper;
static const paper papers[] = {
    {KN_FLOAT8E4M3FN, 256, 16, 8, 7, 0x1p-9, 448, -1, {0x7f, 0xff, -1}, 0x7f, 0xff, 0x7f},
    {KN_FLOAT8E4M3FNUZ, 256, 16, 8, 8, 0x1p-10, 240, -1, {0x80, -1}, 0x80, 0x80, 0x80},
    {KN_FLOAT8E5M2,
     256,
     32,
     4,
     15,
     0x1p-16,
     57344,
     0x7c,
     {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff, -1},
     0x7e,
     0xfe,
     0x7c},
    {KN_FLOAT8E5M2FNUZ, 256, 32, 4, 16, 0x1p-17, 57344, -1, {0x80, -1}, 0x80, 0x80, 0x80},
    {KN_FLOAT4E2M1, 16, 4, 2, 1, 0.5, 6, -1, {-1}, 0x08, 0x00, 0x07},
};

static bool is_nan_code(const paper *on, int code) {
    bool found = false;
    for (int i = 0; on->nans[i] >= 0; i++)
        found = found || on->nans[i] == code;
    return found;
}

static double number_of(const paper *on, int code) {
    const int half = on->codes / 2, size = code % half;
    const double sign = code < half ? 1 : -1, fraction = (double)(size % on->fractions) / on->fractions;
    const int exponent = size / on->fractions;
    if (is_nan_code(on, code)) return (double)NAN;
    if (size == on->infinity) return sign * HUGE_VAL;
    if (exponent == 0) return sign * fraction * pow(2, 1 - on->bias);
    return sign * (1 + fraction) * pow(2, exponent - on->bias);
}

TEST(every_code_is_its_number) {
    for (size_t p = 0; p < KN_COUNT_OF(papers); p++) {
        const paper *on = &papers[p];
        const kn_small_float *format = kn_small_float_of(on->dtype);
        double least = HUGE_VAL, most = 0;
        assert_non_null(format);
        for (int code = 0; code < on->codes; code++) {
            const double expected = number_of(on, code),
                         found = kn_small_float_number(format, (unsigned)code);
            if (isnan(expected) ? !isnan(found) : found != expected || !signbit(found) != !signbit(expected))
                fail_msg("type %d, code %#x: %g, expected %g", on->dtype, code, found, expected);
            if (isnan(expected)) continue;
            if (expected > 0 && expected < least) least = expected;
            if (!isinf(expected) && expected > most) most = expected;
            for (int saturates = 0; saturates < 2 && !isinf(expected); saturates++)
                assert_int_equal(
                    kn_small_float_code(format, (float)found, saturates != 0, (kn_power_rounding)saturates),
                    code);
        }
        assert_true(least == on->least && most == on->most);
    }
}

static void expect(const paper *on, float number, bool saturates, int code) {
    const int found = kn_small_float_code(kn_small_float_of(on->dtype), number, saturates, KN_POWER_UP);
    if (found != code) fail_msg("type %d: %.9g is %#x, expected %#x", on->dtype, (double)number, found, code);
}

/* Checks a number and its negative; `code` is for the positive number. */
static void expect_both(const paper *on, float number, bool saturates, int code) {
    const bool unsigned_zero = on->nans[0] == on->codes / 2;
    expect(on, number, saturates, code);
    expect(on, -number, saturates,
           unsigned_zero && (code == 0 || code == on->nans[0]) ? code : code | on->codes / 2);
}

/* Between two neighbours: the even code at the middle, the nearer one next to it. */
TEST(numbers_are_rounded_to_the_nearest) {
    for (size_t p = 0; p < KN_COUNT_OF(papers); p++) {
        const paper *on = &papers[p];
        for (int code = 0; number_of(on, code) < on->most; code++) {
            const float low = (float)number_of(on, code), high = (float)number_of(on, code + 1),
                        middle = (low + high) / 2;
            expect_both(on, middle, true, code % 2 ? code + 1 : code);
            expect_both(on, nextafterf(middle, low), false, code);
            expect_both(on, nextafterf(middle, high), false, code + 1);
            expect_both(on, nextafterf(high, 0), true, code + 1);
        }
        expect_both(on, 0x1p-149f, true, 0);
        expect_both(on, 0x1p-40f, false, 0);
    }
}

TEST(what_is_too_large_saturates_or_not) {
    for (size_t p = 0; p < KN_COUNT_OF(papers); p++) {
        const paper *on = &papers[p];
        int last = 0;
        while (number_of(on, last) < on->most)
            last++;
        const float most = (float)on->most, step = most - (float)number_of(on, last - 1),
                    edge = most + step / 2;
        expect_both(on, nextafterf(edge, 0), false, last);
        expect_both(on, edge, false, last % 2 ? on->beyond : last);
        expect_both(on, edge, true, last);
        const float large[] = {nextafterf(edge, INFINITY), 1e6f, 3e38f, INFINITY};
        for (size_t i = 0; i < KN_COUNT_OF(large); i++) {
            expect_both(on, large[i], true, last);
            expect_both(on, large[i], false, on->beyond);
        }
        expect(on, copysignf(NAN, 1), true, on->from_nan);
        expect(on, copysignf(NAN, -1), false, on->from_negative_nan);
    }
}

TEST(powers_of_two) {
    static const struct {
        float number;
        int up, down, nearest, beyond_up; /* beyond_up: rounded up without saturation */
    } cases[] = {
        {1, 127, 127, 127, 127},
        {1.1f, 128, 127, 127, 128},
        {1.5f, 128, 127, 128, 128},
        {1.75f, 128, 127, 128, 128},
        {-3, 129, 128, 129, 129},
        {0.124f, 124, 123, 124, 124},
        {0x1p-126f, 1, 1, 1, 1},
        {0x1.8p-126f, 2, 1, 2, 2},
        {0x1.8p-127f, 1, 0, 1, 1}, /* below 2^-126: by its bits */
        {0x1p-127f, 1, 0, 0, 1},
        {0x1p-149f, 1, 0, 0, 1},
        {0, 0, 0, 0, 0},
        {0x1p127f, 254, 254, 254, 254},
        {0x1.2p127f, 254, 254, 254, 255},
        {0x1.8p127f, 254, 254, 254, 255},
        {INFINITY, 255, 255, 255, 255},
        {NAN, 255, 255, 255, 255},
    };
    const kn_small_float *format = kn_small_float_of(KN_FLOAT8E8M0);
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        const float number = cases[i].number;
        assert_int_equal(kn_small_float_code(format, number, true, KN_POWER_UP), cases[i].up);
        assert_int_equal(kn_small_float_code(format, number, true, KN_POWER_DOWN), cases[i].down);
        assert_int_equal(kn_small_float_code(format, number, true, KN_POWER_NEAREST), cases[i].nearest);
        assert_int_equal(kn_small_float_code(format, number, false, KN_POWER_UP), cases[i].beyond_up);
    }
    for (unsigned code = 0; code < 255; code++) {
        const float number = kn_small_float_number(format, code);
        assert_true((double)number == pow(2, (double)code - 127));
        assert_int_equal(kn_small_float_code(format, number, false, KN_POWER_DOWN), code);
        assert_int_equal(kn_small_float_code(format, number, false, KN_POWER_NEAREST), code);
    }
    assert_true(isnan(kn_small_float_number(format, 255)));
}

TEST(other_formats) {
    kn_small_float plain = kn_small_float_plain(3, 2, 3); /* 6 bits */
    assert_true(kn_small_float_number(&plain, 0x1f) == 28);
    assert_true(kn_small_float_number(&plain, 0x21) == -0.0625f);
    assert_null(kn_small_float_of(KN_FLOAT16));
    assert_null(kn_small_float_of(KN_BOOL));
}

/* Between neighbours, halfway goes to the even one, and the next float on either side to the nearer one. */
TEST(sixteen_bits_are_rounded_to_the_nearest) {
    for (int kind = 0; kind < 2; kind++) {
        float (*const widen)(uint16_t) = kind ? kn_float_from_bfloat : kn_float_from_half;
        uint16_t (*const narrow)(float) = kind ? kn_bfloat_from_float : kn_half_from_float;
        const uint16_t infinity = kind ? 0x7f80 : 0x7c00;
        for (uint16_t low = 0; low < infinity; low++) {
            const uint16_t high = (uint16_t)(low + 1), even = low & 1 ? high : low;
            /* The step above the largest number is the same as the one below it. */
            const double above =
                high < infinity ? (double)widen(high) : 2 * (double)widen(low) - (double)widen(low - 1);
            const float half = (float)(((double)widen(low) + above) / 2);
            assert_int_equal(narrow(widen(low)), low);
            assert_int_equal(narrow(-widen(low)), low | 0x8000);
            assert_int_equal(narrow(half), even);
            assert_int_equal(narrow(nextafterf(half, 0)), low);
            assert_int_equal(narrow(nextafterf(half, INFINITY)), high);
        }
        assert_int_equal(narrow(INFINITY), infinity);
        assert_true(isnan(widen(narrow(NAN))));
        assert_true(isnan(widen(narrow(kn_float_of_bits(0x7f800001u)))));
    }
}

TEST_FILE(test_small_floats, NULL, NULL)
