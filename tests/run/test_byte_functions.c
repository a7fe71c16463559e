/* Functions between casts from and to 8-bit integers, as in files of quantized networks: kernels for wide
 * vectors compute them in vectors of floats, with the same numbers as one by one. */
#include "run_tests.h"

#include <math.h>
#include <string.h>

enum { COUNT = 1003 };

static uint8_t stored_as(kn_dtype dtype, double number) {
    return dtype == KN_UINT8 ? (uint8_t)(int)number : (uint8_t)(int8_t)(int)number;
}

/* y = 300 erf(c / 64) as bytes, which wrap around, and its half as float32. */
static void check_type(kn_context *context, kn_dtype dtype) {
    uint8_t codes[COUNT], made[COUNT];
    float halves[COUNT];
    int compared = 0;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *c = kn_input(graph, "c", dtype, "n");
    kn_value *numbers = kn_scale(kn_erf(kn_scale(kn_cast(c, KN_FLOAT32), 1.0 / 64)), 300);
    kn_value *y = kn_cast(numbers, dtype);
    kn_value *values[] = {kn_output(y, "made"), kn_output(kn_scale(kn_cast(y, KN_FLOAT32), 0.5), "halves")};
    const kn_session_request request = {.context = context, .values = values, .count = 2};
    kn_session *session = kn_session_open(&request);
    session_good(session, kn_session_status(session));
    kn_graph_destroy(&graph);
    for (int i = 0; i < COUNT; i++)
        codes[i] = (uint8_t)i;
    const kn_feed feed = {"c", codes, sizeof codes};
    const kn_fetch fetches[] = {{"made", made, sizeof made}, {"halves", halves, sizeof halves}};
    session_good(session, kn_session_run(session, &feed, 1, fetches, 2));
    for (int i = 0; i < COUNT; i++) {
        const double code = dtype == KN_UINT8 ? codes[i] : (int8_t)codes[i], number = 300 * erf(code / 64);
        const double stored = dtype == KN_UINT8 ? made[i] : (int8_t)made[i];
        assert_true((double)halves[i] == stored / 2);
        /* Rounding may go to either side of an integer. */
        if (number != 0 && fabs(number - rint(number)) < 1e-3) continue;
        assert_int_equal(made[i], stored_as(dtype, number));
        compared++;
    }
    assert_true(compared > COUNT / 2);
    kn_session_destroy(&session);
}

TEST(functions_of_bytes) {
    check_type(*state, KN_UINT8);
    check_type(*state, KN_INT8);
}

TEST_FILE(test_byte_functions, device_setup, device_teardown)
