/* Floating-point numbers of 8 and 4 bits on the device: every code, and numbers around every place where
 * rounding goes the other way, as the host converts them (tests/base/test_small_floats.c checks the host). */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CODES = 256, NUMBERS = 3 * CODES + 12, FIRST = KN_FLOAT8E4M3FN, LAST = KN_FLOAT4E2M1 };

/* Each number, those halfway to the next one and next to it, and special ones. */
static void fill(const kn_small_float *format, float numbers[NUMBERS]) {
    static const float special[] = {0,     -0.0f, 1e-7f,     -1e-7f,   1e6f,
                                    -1e6f, 3e38f, 0x1p-140f, INFINITY, -INFINITY};
    int count = 0;
    for (unsigned code = 0; code < CODES; code++) {
        const float low = kn_small_float_number(format, code), high = kn_small_float_number(format, code + 1),
                    middle = (low + high) / 2;
        numbers[count++] = low;
        numbers[count++] = middle;
        numbers[count++] = nextafterf(middle, high);
    }
    for (size_t i = 0; i < KN_COUNT_OF(special); i++)
        numbers[count++] = special[i];
    numbers[count++] = copysignf(NAN, 1);
    numbers[count++] = copysignf(NAN, -1);
}

/* One run: codes to float32, codes moved, and numbers to codes. */
static void check_type(kn_context *context, kn_dtype dtype, bool saturates, kn_power_rounding rounding) {
    static const char *const words[] = {"up", "down", "nearest"};
    const kn_small_float *format = kn_small_float_of(dtype);
    char attributes[100];
    uint8_t codes[CODES], moved[CODES], made[NUMBERS];
    float numbers[NUMBERS], found[CODES];
    snprintf(attributes, sizeof attributes, "dtype=%s saturate=%d round=%s", kn_dtype_name(dtype), saturates,
             words[rounding]);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *c = kn_input(graph, "c", dtype, "16,16"), *x = kn_input(graph, "x", KN_FLOAT32, "n");
    kn_value *values[] = {kn_output(kn_cast(c, KN_FLOAT32), "found"),
                          kn_output(kn_transpose(c, NULL), "moved"),
                          kn_output(kn_apply(graph, "cast", &x, 1, attributes), "made")};
    const kn_session_request request = {.context = context, .values = values, .count = 3};
    kn_session *session = kn_session_open(&request);
    session_good(session, kn_session_status(session));
    kn_graph_destroy(&graph);
    for (int i = 0; i < CODES; i++)
        codes[i] = (uint8_t)i;
    fill(format, numbers);
    const kn_feed feeds[] = {{"c", codes, sizeof codes}, {"x", numbers, sizeof numbers}};
    const kn_fetch fetches[] = {
        {"found", found, sizeof found}, {"moved", moved, sizeof moved}, {"made", made, sizeof made}};
    session_good(session, kn_session_run(session, feeds, 2, fetches, 3));
    for (unsigned i = 0; i < CODES; i++) {
        const float expected = kn_small_float_number(format, i);
        if (isnan(expected) ? !isnan(found[i]) : memcmp(&found[i], &expected, sizeof expected) != 0)
            fail_msg("%s, code %#x: %g, expected %g", kn_dtype_name(dtype), i, (double)found[i],
                     (double)expected);
        assert_int_equal(moved[i], i % 16 * 16 + i / 16);
    }
    for (int i = 0; i < NUMBERS; i++) {
        const int expected = kn_small_float_code(format, numbers[i], saturates, rounding);
        if (made[i] != expected)
            fail_msg("%s: %.9g is %#x, expected %#x", attributes, (double)numbers[i], made[i], expected);
    }
    kn_session_destroy(&session);
}

TEST(the_device_converts_as_the_host) {
    for (int type = FIRST; type <= LAST; type++)
        for (int saturates = 0; saturates < 2; saturates++)
            check_type(*state, (kn_dtype)type, saturates != 0, KN_POWER_UP);
    for (int rounding = KN_POWER_DOWN; rounding <= KN_POWER_NEAREST; rounding++)
        check_type(*state, KN_FLOAT8E8M0, true, (kn_power_rounding)rounding);
}

/* The cast of a product, which a kernel of the product may store itself only in types that it can write. */
TEST(products_are_cast) {
    enum { SIZE = 32, COUNT = SIZE * SIZE };
    static const kn_dtype types[] = {KN_FLOAT16, KN_BFLOAT16, KN_FLOAT8E4M3FN, KN_FLOAT8E5M2};
    float x[COUNT], y[COUNT];
    uint16_t found[COUNT], expected;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 7 - 3);
        y[i] = i / SIZE == i % SIZE ? 2 : 0;
    }
    for (size_t t = 0; t < KN_COUNT_OF(types); t++) {
        const size_t each = kn_dtype_bytes(types[t]);
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *product = kn_matmul(kn_input(graph, "x", KN_FLOAT32, "32,32"),
                                      kn_input(graph, "y", KN_FLOAT32, "32,32"), false, false);
        kn_value *z = kn_output(kn_cast(product, types[t]), "z");
        const kn_session_request request = {.context = *state, .values = &z, .count = 1};
        kn_session *session = kn_session_open(&request);
        session_good(session, kn_session_status(session));
        kn_graph_destroy(&graph);
        const kn_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
        const kn_fetch fetch = {"z", found, COUNT * each};
        session_good(session, kn_session_run(session, feeds, 2, &fetch, 1));
        for (int i = 0; i < COUNT; i++) {
            kn_element_set(types[t], &expected, 0, 2 * (double)x[i]);
            assert_memory_equal((const uint8_t *)found + (size_t)i * each, &expected, each);
        }
        kn_session_destroy(&session);
    }
}

TEST(nothing_else_computes_with_them) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT8E5M2, "2,2");
    assert_true(kn_value_dtype(kn_concat((kn_value *[]){kn_flip(x, "0"), x}, 2, 0)) == KN_FLOAT8E5M2);
    kn_add(x, x);
    assert_int_equal(kn_graph_status(graph), KN_ERROR_DTYPE);
    assert_non_null(strstr(kn_graph_error(graph),
                           "input 1 is float8e5m2, a storage-only type; cast it to float32 first"));
    kn_graph_destroy(&graph);
    graph = kn_graph_create(NULL);
    kn_parameter(graph, "w", KN_FLOAT8E4M3FN, "2", NULL);
    assert_int_equal(kn_graph_status(graph), KN_ERROR_DTYPE);
    kn_graph_destroy(&graph);
}

TEST_FILE(test_small_floats, device_setup, device_teardown)
