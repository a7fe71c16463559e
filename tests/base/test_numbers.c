/* Numbers to text and back, in the C locale and in one with a decimal comma. */
#include "base_tests.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is written -------------------------------------------------------- */

static void check_number(double value, const char *expected) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    kn_text_number(&text, value);
    assert_string_equal(text.data, expected);
    kn_text_finish(&text);
}

static void check_float(float value, const char *expected) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    kn_text_number_float(&text, value);
    assert_string_equal(text.data, expected);
    kn_text_finish(&text);
}

static void check_fixed(double value, int decimals, const char *expected) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    kn_text_fixed(&text, value, decimals);
    assert_string_equal(text.data, expected);
    kn_text_finish(&text);
}

TEST(known_numbers_are_written_shortest) {
    check_number(0, "0");
    check_number(-0.0, "-0");
    check_number((double)NAN, "nan");
    check_number(-(double)NAN, "nan");
    check_number(HUGE_VAL, "inf");
    check_number(-HUGE_VAL, "-inf");
    check_number(1, "1");
    check_number(-1.5, "-1.5");
    check_number(10, "10");
    check_number(0.1, "0.1");
    check_number(0.1 + 0.2, "0.30000000000000004");
    check_number(1.0 / 3, "0.3333333333333333");
    check_number(100000, "100000");
    check_number(123456.789, "123456.789");
    check_number(9007199254740991, "9007199254740991");
    check_number(9007199254740992, "9007199254740992");
    check_number(1e16, "1e16");
    check_number(1.25e30, "1.25e30");
    check_number(1e23, "1e23");
    check_number(0.00001, "0.00001");
    check_number(0.000012, "0.000012");
    check_number(0.000001, "1e-6");
    check_number(-1.25e-7, "-1.25e-7");
    check_number(DBL_MAX, "1.7976931348623157e308");
    check_number(DBL_MIN, "2.2250738585072014e-308");
    check_number(4.9406564584124654e-324, "5e-324");
    check_number(0x0.fffffffffffffp-1022, "2.225073858507201e-308");
    /* Numbers are closer together below a power of two: the nearest 16 digits, ...801, do not read back, but
     * the next larger ones do. */
    check_number(0x1p-44, "5.684341886080802e-14");
    check_number(0x1p+89, "6.189700196426902e26");

    check_float(0.1f, "0.1");
    check_float(1.0f / 3, "0.33333334");
    check_float(16777216.0f, "16777216");
    check_float(FLT_MAX, "3.4028235e38");
    check_float(FLT_MIN, "1.1754944e-38");
    check_float(0x1p-149f, "1e-45");
    check_float(-HUGE_VALF, "-inf");
    check_float(NAN, "nan");
    check_float(-0.0f, "-0");
    check_float(8589973504.0f, "8589974000"); /* ...73000 reads back too, but is further away */
}

/* A double with random bits, so that each exponent is equally frequent. */
static double any_double(uint64_t *seed) {
    double value;
    do {
        uint64_t bits = next_number(seed);
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

static float any_float(uint64_t *seed) {
    float value;
    do {
        uint32_t bits = (uint32_t)(next_number(seed) >> 32);
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

static size_t count_digits(const char *text) {
    size_t count = 0, zeros = 0;
    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text < '0' || *text > '9') continue;
        if (*text == '0' && count == 0) continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        count++;
    }
    return count - zeros;
}

static bool fewer_digits_would_do(double value, size_t count, bool as_float) {
    char shorter[64];
    if (count < 2) return false;
    snprintf(shorter, sizeof shorter, "%.*e", (int)count - 2, value);
    if (!as_float) return strtod(shorter, NULL) == value;
    return strtof(shorter, NULL) == (float)value && (float)strtod(shorter, NULL) == (float)value;
}

TEST(doubles_survive_writing_and_reading) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    uint64_t seed = 3;
    for (int i = 0; i < 40000; i++) {
        double value = any_double(&seed);
        if (i % 4 == 1) value = (double)(int64_t)next_number(&seed) / 1000; /* few digits */
        if (i % 4 == 2) value = ldexp(1, (int)(next_number(&seed) % 2000) - 1000);
        if (i % 4 == 3) value = fmod(value, 1) * DBL_MIN; /* subnormal */
        kn_text_clear(&text);
        kn_text_number(&text, value);
        double read = -1, own = strtod(text.data, NULL);
        const char *end = NULL;
        assert_true(kn_parse_double(text.data, &end, &read));
        if (*end != '\0' || memcmp(&read, &value, sizeof value) || memcmp(&own, &value, sizeof value))
            fail_msg("%a was written as %s and read as %a", value, text.data, read);
        if (fewer_digits_would_do(value, count_digits(text.data), false))
            fail_msg("%a was written as %s, which is too long", value, text.data);
        if (strlen(text.data) > 25) fail_msg("%s is too long", text.data);
    }
    kn_text_finish(&text);
}

TEST(floats_survive_writing_and_reading) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    uint64_t seed = 4;
    for (int i = 0; i < 40000; i++) {
        float value = any_float(&seed);
        if (i % 4 == 2) value = ldexpf(1, (int)(next_number(&seed) % 277) - 149);
        if (i % 4 == 3) value = fmodf(value, 1) * FLT_MIN;
        kn_text_clear(&text);
        kn_text_number_float(&text, value);
        double read = -1;
        float own = strtof(text.data, NULL);
        assert_true(kn_parse_double(text.data, NULL, &read));
        float narrowed = (float)read;
        if (memcmp(&narrowed, &value, sizeof value) || memcmp(&own, &value, sizeof value))
            fail_msg("%a was written as %s and read as %a", (double)value, text.data, read);
        if (fewer_digits_would_do((double)value, count_digits(text.data), true))
            fail_msg("%a was written as %s, which is too long", (double)value, text.data);
    }
    kn_text_finish(&text);
}

TEST(fixed_numbers_have_their_decimals) {
    check_fixed(3.14159, 2, "3.14");
    check_fixed(-3.14159, 4, "-3.1416");
    check_fixed(2.5, 0, "2");
    check_fixed(-0.25, 1, "-0.2");
    check_fixed(0, 3, "0.000");
    check_fixed(1e15, 1, "1000000000000000.0");
    check_fixed(99.999, 2, "100.00");
    check_fixed(1.5, -3, "2");
    check_fixed((double)NAN, 2, "nan");
    check_fixed(-HUGE_VAL, 2, "-inf");
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    kn_text_fixed(&text, -DBL_MAX, 1000); /* 60 decimals at most */
    assert_int_equal(text.length, 1 + 309 + 1 + 60);
    assert_false(kn_text_failed(&text));
    kn_text_finish(&text);
}

/* ---- what is read -------------------------------------------------------------- */

static void check_read(const char *text, double expected, const char *rest) {
    double value = 42;
    const char *end = NULL;
    if (!kn_parse_double(text, &end, &value)) fail_msg("'%s' was not read", text);
    if (isnan(expected) ? !isnan(value) : memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("'%.60s' was read as %a, expected %a", text, value, expected);
    assert_string_equal(end, rest);
}

static void check_refused(const char *text) {
    double value = 42;
    const char *end = "untouched";
    if (kn_parse_double(text, &end, &value)) fail_msg("'%.60s' was read as %g", text, value);
    assert_true(value == 42);
    assert_string_equal(end, "untouched");
}

TEST(the_end_of_a_double_is_found) {
    check_read("1", 1, "");
    check_read("-2.5 and more", -2.5, " and more");
    check_read("+.5", 0.5, "");
    check_read("5.", 5, "");
    check_read("1.2.3", 1.2, ".3");
    check_read("1,5", 1, ",5");
    check_read("007", 7, "");
    check_read("-0", -0.0, "");
    check_read("0e5", 0, "");
    check_read("0.000e99999999999999999999", 0, "");
    check_read("1e3", 1000, "");
    check_read("1E+3x", 1000, "x");
    check_read("25e-1", 2.5, "");
    check_read("1e", 1, "e");
    check_read("1e+", 1, "e+");
    check_read("1ex", 1, "ex");
    check_read("1 e5", 1, " e5");
    check_read("1p5", 1, "p5");
    check_read("nan", (double)NAN, "");
    check_read("-NaN(7)", (double)NAN, "(7)");
    check_read("inf", HUGE_VAL, "");
    check_read("-INFINITY", -HUGE_VAL, "");
    check_read("infinit", HUGE_VAL, "init");
    check_read("0x10", 16, "");
    check_read("-0X1.8P+3!", -12, "!");
    check_read("0x.8", 0.5, "");
    check_read("0xA.p-1", 5, "");
    check_read("0x1p", 1, "p");
    check_read("0x1e5", 0x1e5, "");
    check_read("0x", 0, "x");
    check_read("0xg", 0, "xg");
    check_read("0x.", 0, "x.");
    double value;
    assert_true(kn_parse_double("3", NULL, &value));

    const char *const none[] = {
        "",        " 1",  "x",   "-",  "+",  ".",     "-.",     "e5",
        ".e5",     "--1", "+-1", "in", "na", "1e309", "-1e309", "1e99999999999999999999",
        "0x1p1024"};
    for (size_t i = 0; i < KN_COUNT_OF(none); i++)
        check_refused(none[i]);
}

TEST(doubles_are_rounded_correctly) {
    check_read("9007199254740993", 9007199254740992.0, ""); /* a tie rounds to even */
    check_read("9007199254740995", 9007199254740996.0, "");
    check_read("9007199254740993.00000000000000000000000000000001", 9007199254740994.0, "");
    check_read("2.2250738585072011e-308", 0x0.fffffffffffffp-1022, "");
    check_read("2.2250738585072012e-308", DBL_MIN, "");
    check_read("1.7976931348623158e308", DBL_MAX, "");
    check_refused("1.7976931348623159e308");
    check_read("2.4703282292062327e-324", 0, "");
    check_read("2.4703282292062328e-324", 0x1p-1074, "");
    check_read("-1e-400", -0.0, "");
    check_read("1e-99999999999999999999", 0, "");
    check_read("0x1.00000000000008p0", 1, ""); /* slightly more than a tie */
    check_read("0x1.000000000000080000000000001p0", 0x1.0000000000001p0, "");
    check_read("0x1p-1075", 0, "");
    check_read("0x1.0000000000001p-1075", 0x1p-1074, "");
    check_read("0x0.0000000001p1063", 0x1p1023, "");
}

/* `count` times `c` at the end of `text`. */
static void repeat(kn_text *text, char c, size_t count) {
    while (count-- > 0)
        kn_text_add_bytes(text, &c, 1);
}

TEST(long_numbers_are_rounded_correctly) {
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    /* A tie that is decided by a digit far beyond the digits that are kept. */
    for (size_t zeros = 700; zeros < 5000; zeros += zeros < 900 ? 1 : 500) {
        kn_text_clear(&text);
        kn_text_add(&text, "9007199254740993.");
        repeat(&text, '0', zeros);
        check_read(text.data, 9007199254740992.0, "");
        kn_text_add(&text, "1");
        check_read(text.data, 9007199254740994.0, "");
        kn_text_add(&text, "e-2 ");
        check_read(text.data, 90071992547409.93, " ");
    }
    /* Leading and trailing zeros, compensated by the exponent. */
    kn_text_clear(&text);
    kn_text_add(&text, "0.");
    repeat(&text, '0', 5000);
    kn_text_add(&text, "125e5002");
    check_read(text.data, 12.5, "");
    kn_text_clear(&text);
    kn_text_add(&text, "125");
    repeat(&text, '0', 5000);
    kn_text_add(&text, "e-5001.");
    check_read(text.data, 12.5, ".");
    kn_text_clear(&text);
    repeat(&text, '9', 3000);
    check_refused(text.data);
    kn_text_add(&text, "e-3000");
    check_read(text.data, 1, "");
    kn_text_clear(&text);
    kn_text_add(&text, "0x1");
    repeat(&text, '0', 2000);
    kn_text_add(&text, "p-8000");
    check_read(text.data, 1, "");
    kn_text_clear(&text);
    kn_text_add(&text, "0x1.00000000000008");
    repeat(&text, '0', 2000);
    check_read(text.data, 1, "");
    kn_text_add(&text, "1");
    check_read(text.data, 0x1.0000000000001p0, "");
    /* The smallest numbers have the longest expansions: halfway between 0 and the smallest. */
    kn_text_clear(&text);
    kn_text_format(&text, "%.1075f", 0x1p-1074);
    check_read(text.data, 0x1p-1074, "");
    kn_text_finish(&text);
}

/* In the C locale strtod itself is the reference. */
TEST(doubles_read_as_strtod_does) {
    uint64_t seed = 5;
    for (int i = 0; i < 40000; i++) {
        char text[128], *own;
        double value = any_double(&seed);
        const char *const formats[] = {"%.*e", "%.*g", "%.*a", "%.*f"};
        size_t kind = next_number(&seed) % 4;
        if (kind == 3) value = fmod(value, 1e10);
        snprintf(text, sizeof text, formats[kind], (int)(next_number(&seed) % 40), value);
        double expected = strtod(text, &own);
        if (isinf(expected))
            check_refused(text);
        else
            check_read(text, expected, own);
    }
}

/* Returns whether the text was read; if so, the bits must be those of strtod. */
static bool read_short(const char *text) {
    double value = 7, expected = strtod(text, NULL);
    if (!kn_parse_short(text, strlen(text), '.', &value)) {
        assert_true(value == 7);
        return false;
    }
    if (memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("%s: %.17g, expected %.17g", text, value, expected);
    return true;
}

TEST(short_numbers_are_read_as_strtod_does) {
    uint64_t seed = 9;
    size_t count = 0;
    char text[128];
    for (int i = 0; i < 40000; i++) { /* any double, and numbers as in tables, with up to 40 digits */
        const char *const formats[] = {"%.*e", "%.*g", "%.*f"};
        const size_t kind = next_number(&seed) % 3;
        double value = any_double(&seed);
        if (i % 2 || kind == 2) value = fmod(value, 1e6);
        if (i % 4 == 1) value = (double)(int64_t)next_number(&seed) / 9e18;
        snprintf(text, sizeof text, formats[kind], (int)(next_number(&seed) % (i % 8 ? 17 : 40)), value);
        count += read_short(text);
    }
    assert_true(count > 15000);
    count = 0;
    for (int i = 0; i < 40000; i++) { /* up to 19 digits with a point anywhere, with or without an exponent */
        const int digits = 1 + (int)(next_number(&seed) % 19),
                  point = (int)(next_number(&seed) % (uint64_t)(digits + 1));
        int used = 0;
        for (int d = 0; d < digits; d++) {
            if (d == point) text[used++] = '.';
            text[used++] = (char)('0' + next_number(&seed) % 10);
        }
        text[used] = 0;
        if (i % 4 == 0)
            snprintf(text + used, sizeof text - (size_t)used, "e%d", (int)(next_number(&seed) % 700) - 350);
        count += read_short(text);
    }
    assert_true(count > 25000);
    for (int i = 0; i < 20000; i++) { /* midpoints between two doubles, and their neighbours */
        const int j = (int)(next_number(&seed) % 4);
        const uint64_t whole = ((uint64_t)1 << (52 - j)) + next_number(&seed) % ((uint64_t)1 << (52 - j));
        const uint64_t part =
            (next_number(&seed) % ((uint64_t)1 << j) * 2 + 1) * 10000 >> (j + 1); /* in units of 1/10000 */
        for (int away = -1; away <= 1; away++) {
            snprintf(text, sizeof text, "%llu.%04llu", (unsigned long long)whole,
                     (unsigned long long)part + (unsigned long long)away);
            read_short(text);
            text[strlen(text) - (j == 0 ? 2 : 1)] = '\0';
            read_short(text);
        }
    }
    for (uint64_t i = 0; i < 2000; i++) { /* where integers begin to be rounded */
        snprintf(text, sizeof text, "%llue-%d", 9007199254740992ull - 1000 + (unsigned long long)i,
                 (int)(i % 23));
        read_short(text);
    }
}

TEST(short_numbers_have_no_rest) {
    static const char *const refused[] = {
        "",      "-",      "+",       ".",      "-.",   "e5",  "1e",  "1e+",
        "1.2.3", "1 ",     " 1",      "+-1",    "0x10", "inf", "nan", "12345678901234567890",
        "1e400", "1e-400", "1e99999", "5e-324", "1,5"};
    static const char *const read[] = {"0",
                                       "-0",
                                       "+0",
                                       "-0.0e9",
                                       "5.",
                                       ".5",
                                       "+7",
                                       "-1.25e3",
                                       "1E+05",
                                       "0000000000000000000000001",
                                       "0.000000000000000000001",
                                       "9007199254740993e-1",
                                       "1e22",
                                       "1e-22"};
    double value = 7;
    for (size_t i = 0; i < KN_COUNT_OF(refused); i++)
        if (read_short(refused[i])) fail_msg("\"%s\" was read", refused[i]);
    for (size_t i = 0; i < KN_COUNT_OF(read); i++)
        if (!read_short(read[i])) fail_msg("\"%s\" was not read", read[i]);
    assert_true(kn_parse_short("1,5x", 3, ',', &value) && value == 1.5);
    assert_true(kn_parse_short("12345", 2, '.', &value) && value == 12);
    assert_false(kn_parse_short("1,2.5", 5, ',', &value));
}

TEST(reading_keeps_errno) {
    double value;
    errno = 77;
    assert_true(kn_parse_double("1e-400", NULL, &value));
    assert_false(kn_parse_double("1e400", NULL, &value));
    assert_int_equal(errno, 77);
}

TEST(integers_are_read_or_refused) {
    const struct {
        const char *text;
        int64_t value;
        const char *rest;
    } list[] = {
        {"0", 0, ""},
        {"-17 left", -17, " left"},
        {"+5", 5, ""},
        {"0042", 42, ""},
        {"28x28", 28, "x28"},
        {"1.5", 1, ".5"},
        {"9223372036854775807", INT64_MAX, ""},
        {"-9223372036854775808", INT64_MIN, ""},
        {"0000000000000000000000000000001", 1, ""},
    };
    for (size_t i = 0; i < KN_COUNT_OF(list); i++) {
        int64_t value = 42;
        const char *end = NULL;
        assert_true(kn_parse_int64(list[i].text, &end, &value));
        assert_true(value == list[i].value);
        assert_string_equal(end, list[i].rest);
        assert_true(kn_parse_int64(list[i].text, NULL, &value));
    }
    const char *const none[] = {"",
                                "-",
                                "+",
                                " 1",
                                "x",
                                ".5",
                                "--1",
                                "9223372036854775808",
                                "-9223372036854775809",
                                "99999999999999999999",
                                "10000000000000000000000000000000"};
    for (size_t i = 0; i < KN_COUNT_OF(none); i++) {
        int64_t value = 42;
        const char *end = "untouched";
        assert_false(kn_parse_int64(none[i], &end, &value));
        assert_true(value == 42);
        assert_string_equal(end, "untouched");
    }
}

/* ---- the locale ------------------------------------------------------------------ */

static bool comma_locale(void) {
    const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "de_DE", "fr_FR"};
    for (size_t i = 0; i < KN_COUNT_OF(names); i++)
        if (setlocale(LC_ALL, names[i]) && localeconv()->decimal_point[0] == ',') return true;
    return false;
}

static int restore_locale(void **state) {
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    test_folder_remove(*state);
    return 0;
}

TEST_WITH(no_locale_changes_numbers, NULL, restore_locale) {
    if (!comma_locale()) {
        /* Create one if the system has the sources of its locales. */
        char *folder = test_folder_make();
        *state = folder;
        char command[1024];
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1",
                 folder);
        if (system(command) == 0) setenv("LOCPATH", folder, 1);
        if (!comma_locale()) skip_because("no locale with a decimal comma");
    }
    char comma[16];
    snprintf(comma, sizeof comma, "%.1f", 2.5);
    assert_string_equal(comma, "2,5"); /* otherwise this test would prove nothing */

    check_number(2.5, "2.5");
    check_number(1.25e-30, "1.25e-30");
    check_number(0.1 + 0.2, "0.30000000000000004");
    check_float(1.0f / 3, "0.33333334");
    check_fixed(-1234567.891, 2, "-1234567.89");
    check_fixed(2.5, 0, "2");
    check_read("2.5", 2.5, "");
    check_read("2,5", 2, ",5");
    check_read("1.25e-3;", 1.25e-3, ";");
    check_read("0x1.8p1", 3, "");
    kn_host host = kn_host_defaults();
    kn_text text;
    kn_text_init(&text, &host);
    kn_text_json_number(&text, 0.5);
    assert_string_equal(text.data, "0.5");
    uint64_t seed = 6;
    for (int i = 0; i < 2000; i++) {
        double value = any_double(&seed), read;
        kn_text_clear(&text);
        kn_text_number(&text, value);
        assert_null(strchr(text.data, ','));
        assert_true(kn_parse_double(text.data, NULL, &read));
        assert_true(read == value);
    }
    kn_text_finish(&text);
}

/* As kernels divide (cl/common/divide.cl). */
static int64_t divide(int64_t number, int64_t divisor) {
    int bits = 0;
    while ((int64_t)1 << bits < divisor)
        bits++;
    return bits ? (int64_t)((uint64_t)number * kn_divide_multiplier(divisor) >> (31 + bits)) : number;
}

TEST(multipliers_divide) {
    const int64_t most = INT32_MAX,
                  divisors[] = {1,   2,   3,   5,    7,    9,     10,    16,      25,       49,      121,
                                196, 641, 784, 1024, 3136, 12544, 50177, 1 << 20, 16777217, 1 << 30, most};
    for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
        const int64_t divisor = divisors[i];
        for (int64_t n = 0; n <= most; n += 1 + n / 7)
            assert_int_equal(divide(n, divisor), n / divisor);
        for (int64_t multiple = most / divisor * divisor; multiple > most / 2 && multiple > 0;
             multiple -= (1 + multiple / divisor / 1000) * divisor) {
            assert_int_equal(divide(multiple, divisor), multiple / divisor);
            assert_int_equal(divide(multiple - 1, divisor), (multiple - 1) / divisor);
        }
        assert_int_equal(divide(most, divisor), most / divisor);
    }
}

TEST_FILE(test_numbers, NULL, NULL)
