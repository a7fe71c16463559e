/* Arrays: sizes that overflow, and element access. */
#include "formats_tests.h"

#include <math.h>
#include <string.h>

TEST(sizes_are_measured) {
    static const struct {
        kn_dtype type;
        int rank;
        int64_t shape[KN_MAX_RANK];
        bool good;
        uint64_t count, bytes;
    } cases[] = {
        {KN_FLOAT32, 0, {0}, true, 1, 4},
        {KN_FLOAT64, 2, {3, 5}, true, 15, 120},
        {KN_UINT8, 3, {2, 0, 5}, true, 0, 0},
        {KN_UINT8, 8, {1, 1, 1, 1, 1, 1, 1, 2}, true, 2, 2},
        {KN_UINT8, 9, {1}, false, 0, 0},
        {KN_UINT8, -1, {1}, false, 0, 0},
        {KN_UINT8, 1, {-1}, false, 0, 0},
        {KN_UINT8, 1, {INT64_MAX}, true, INT64_MAX, INT64_MAX},
        {KN_UINT16, 1, {INT64_MAX}, false, 0, 0},
        {KN_UINT8, 2, {1ll << 32, 1ll << 32}, false, 0, 0},    /* the product is 2^64 */
        {KN_UINT8, 3, {1ll << 32, 1ll << 32, 0}, false, 0, 0}, /* in any order */
        {KN_UINT8, 3, {0, 1ll << 32, 1ll << 32}, false, 0, 0},
        {(kn_dtype)99, 1, {1}, false, 0, 0},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_array array = {.type = cases[i].type, .rank = cases[i].rank};
        memcpy(array.shape, cases[i].shape, sizeof array.shape);
        assert_int_equal(kn_array_measure(&array), cases[i].good);
        if (!cases[i].good) continue;
        assert_int_equal(array.count, cases[i].count);
        assert_int_equal(array.byte_count, cases[i].bytes);
    }
}

TEST(shapes_are_shown) {
    char text[32], tiny[6];
    kn_array array = {.rank = 0};
    assert_string_equal(kn_array_shape_text(&array, text, sizeof text), "()");
    array = (kn_array){.rank = 1, .shape = {7}};
    assert_string_equal(kn_array_shape_text(&array, text, sizeof text), "(7,)");
    array = (kn_array){.rank = 3, .shape = {60000, 28, 28}};
    assert_string_equal(kn_array_shape_text(&array, text, sizeof text), "(60000, 28, 28)");
    assert_string_equal(kn_array_shape_text(&array, tiny, sizeof tiny), "(6000");
}

TEST(types_have_names) {
    assert_string_equal(kn_array_type_name(KN_BFLOAT16), "bfloat16");
    assert_string_equal(kn_array_type_name((kn_dtype)99), "unknown");
    assert_int_equal(kn_array_type_bytes(KN_INT64), 8);
    assert_int_equal(kn_array_type_bytes(KN_BOOL), 1);
    assert_int_equal(kn_array_type_bytes((kn_dtype)99), 0);
}

TEST(halves_are_exact) {
    static const struct {
        uint16_t half;
        double value;
    } cases[] = {
        {0x0000, 0},          {0x3c00, 1},        {0xc000, -2},        {0x7bff, 65504},
        {0x0400, 0x1p-14},    {0x0001, 0x1p-24},  {0x8001, -0x1p-24},  {0x03ff, 0x1p-14 - 0x1p-24},
        {0x3555, 0x1.554p-2}, {0x7c00, INFINITY}, {0xfc00, -INFINITY},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++)
        assert_true(kn_float_from_half(cases[i].half) == cases[i].value);
    assert_true(signbit(kn_float_from_half(0x8000)));
    assert_true(isnan(kn_float_from_half(0x7e01)));
    assert_true(kn_float_from_bfloat(0x3fc0) == 1.5f);
    assert_true(isnan(kn_float_from_bfloat(0x7fc0)));
}

TEST(elements_are_numbers) {
    const int16_t small[] = {-3, 9};
    const uint64_t large[] = {1ull << 63};
    kn_array array = {.type = KN_INT16, .bytes = small};
    assert_true(kn_array_number(&array, 1) == 9 && kn_array_number(&array, 0) == -3);
    array = (kn_array){.type = KN_UINT64, .bytes = large};
    assert_true(kn_array_number(&array, 0) == 0x1p63);
    array = (kn_array){.type = KN_BOOL, .bytes = "\0\5"};
    assert_true(kn_array_number(&array, 0) == 0 && kn_array_number(&array, 1) == 1);
}

TEST_FILE(test_arrays, NULL, NULL)
