/* Element types, sizes of arrays, and elements as numbers. */
#include "graph_tests.h"

#include <math.h>

TEST(test_names) {
    kn_dtype dtype = KN_INT8;
    assert_string_equal(kn_dtype_name(KN_FLOAT32), "float32");
    assert_string_equal(kn_dtype_name(KN_BOOL), "bool");
    assert_string_equal(kn_dtype_name((kn_dtype)(KN_FLOAT4E2M1 + 1)), "unknown");
    assert_string_equal(kn_dtype_name((kn_dtype)-1), "unknown");
    assert_int_equal(kn_dtype_bytes(KN_BFLOAT16), 2);
    assert_int_equal(kn_dtype_bytes((kn_dtype)99), 0);
    for (int i = 0; i <= KN_FLOAT4E2M1; i++) {
        assert_true(kn_dtype_parse(kn_dtype_name((kn_dtype)i), &dtype));
        assert_int_equal(dtype, i);
    }
    assert_false(kn_dtype_parse("float", &dtype));
    assert_false(kn_dtype_parse(NULL, &dtype));
    assert_int_equal(dtype, KN_FLOAT4E2M1);
}

TEST(test_sizes) {
    uint64_t count = 99;
    kn_tensor_info info = {.dtype = KN_FLOAT64, .rank = 3, .shape = {2, 3, 5}};
    assert_true(kn_tensor_elements(&info, &count) && count == 30);
    assert_true(kn_tensor_bytes(&info, &count) && count == 240);
    info.rank = 0;
    assert_true(kn_tensor_elements(&info, &count) && count == 1);
    info = (kn_tensor_info){.dtype = KN_FLOAT32, .rank = 2, .shape = {0, 7}};
    assert_true(kn_tensor_bytes(&info, &count) && count == 0);
    info = (kn_tensor_info){.dtype = KN_FLOAT32, .rank = 2, .shape = {INT64_C(1) << 32, INT64_C(1) << 31}};
    assert_false(kn_tensor_elements(&info, &count));
    info = (kn_tensor_info){.dtype = KN_FLOAT32, .rank = 3, .shape = {INT64_C(1) << 32, INT64_C(1) << 31, 0}};
    assert_false(kn_tensor_elements(&info, &count));
    info = (kn_tensor_info){.dtype = KN_FLOAT32, .rank = 1, .shape = {INT64_C(1) << 62}};
    assert_true(kn_tensor_elements(&info, &count));
    assert_false(kn_tensor_bytes(&info, &count));
    info = (kn_tensor_info){.dtype = KN_FLOAT32, .rank = 1, .shape = {-1}};
    assert_false(kn_tensor_elements(&info, &count));
    info = (kn_tensor_info){.dtype = KN_FLOAT32, .rank = 9};
    assert_false(kn_tensor_elements(&info, &count));
    info = (kn_tensor_info){.dtype = (kn_dtype)77, .rank = 1, .shape = {1}};
    assert_false(kn_tensor_bytes(&info, &count));
    assert_false(kn_tensor_bytes(NULL, &count));
}

/* Each bfloat16 and half is read and written back to the same bits. */
TEST(test_short_floats_round_trip) {
    const kn_dtype types[] = {KN_FLOAT16, KN_BFLOAT16};
    for (int t = 0; t < 2; t++)
        for (int bits = 0; bits < 65536; bits++) {
            uint16_t before = (uint16_t)bits, after = 0;
            double number = kn_element_get(types[t], &before, 0);
            kn_element_set(types[t], &after, 0, number);
            if (isnan(number))
                assert_true(isnan(kn_element_get(types[t], &after, 0)));
            else
                assert_int_equal(before, after);
        }
}

static uint16_t shortened(kn_dtype dtype, double number) {
    uint16_t bits = 0;
    kn_element_set(dtype, &bits, 0, number);
    return bits;
}

TEST(test_short_floats_round) {
    assert_int_equal(shortened(KN_FLOAT16, 1), 0x3C00);
    assert_int_equal(shortened(KN_FLOAT16, -2), 0xC000);
    assert_int_equal(shortened(KN_FLOAT16, 65504), 0x7BFF);
    assert_int_equal(shortened(KN_FLOAT16, 65519.99), 0x7BFF);
    assert_int_equal(shortened(KN_FLOAT16, 65520), 0x7C00); /* the tie goes to even, which is infinity */
    assert_int_equal(shortened(KN_FLOAT16, 1e300), 0x7C00);
    assert_int_equal(shortened(KN_FLOAT16, -INFINITY), 0xFC00);
    assert_int_equal(shortened(KN_FLOAT16, 1 + ldexp(1, -11)), 0x3C00);     /* tie, to even: down */
    assert_int_equal(shortened(KN_FLOAT16, 1 + 3 * ldexp(1, -11)), 0x3C02); /* tie, to even: up */
    assert_int_equal(shortened(KN_FLOAT16, 1 + ldexp(1, -11) + ldexp(1, -40)),
                     0x3C01); /* rounded once only */
    assert_int_equal(shortened(KN_FLOAT16, ldexp(1, -24)), 0x0001);
    assert_int_equal(shortened(KN_FLOAT16, ldexp(1, -25)), 0x0000);
    assert_int_equal(shortened(KN_FLOAT16, ldexp(1.5, -25)), 0x0001);
    assert_int_equal(shortened(KN_FLOAT16, ldexp(2047, -25)), 0x0400); /* a subnormal rounds up to a normal */
    assert_int_equal(shortened(KN_FLOAT16, -0.0), 0x8000);
    assert_int_equal(shortened(KN_BFLOAT16, 1), 0x3F80);
    assert_int_equal(shortened(KN_BFLOAT16, 3.4e38), 0x7F80);
    assert_int_equal(shortened(KN_BFLOAT16, 1e-300), 0x0000);
}

TEST(test_other_elements) {
    uint64_t room[2] = {0};
    const struct {
        kn_dtype dtype;
        double number, kept;
    } cases[] = {
        {KN_INT8, 127.9, 127},
        {KN_INT8, -1000, -128},
        {KN_INT8, -3.9, -3},
        {KN_UINT8, -1, 0},
        {KN_UINT8, 255.5, 255},
        {KN_INT16, 1e9, 32767},
        {KN_UINT16, 70000, 65535},
        {KN_INT32, -3e9, -2147483648.0},
        {KN_UINT32, 4294967295.0, 4294967295.0},
        {KN_INT64, 1e30, 9223372036854775808.0},
        {KN_INT64, -1e30, -9223372036854775808.0},
        {KN_UINT64, 1e30, 18446744073709551616.0},
        {KN_UINT64, -5, 0},
        {KN_UINT64, 1e19, 1e19},
        {KN_INT32, NAN, 0},
        {KN_BOOL, 0.25, 1},
        {KN_BOOL, 0, 0},
        {KN_FLOAT32, 0.1, (float)0.1},
        {KN_FLOAT64, 0.1, 0.1},
        {KN_UINT64, NAN, 0},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_element_set(cases[i].dtype, room, 1, cases[i].number);
        double kept = kn_element_get(cases[i].dtype, room, 1);
        if (kept != cases[i].kept)
            fail_msg("case %zu: %s of %g is %g, expected %g", i, kn_dtype_name(cases[i].dtype),
                     cases[i].number, kept, cases[i].kept);
    }
}

TEST_FILE(test_tensor, NULL, NULL)
