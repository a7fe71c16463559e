/* Functions between casts from and to 8-bit integers, as in files of quantized networks: kernels for wide
 * vectors compute them in vectors of floats, with the same numbers as one by one, and convolutions of bytes
 * store their results as bytes. */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
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

/* ---- convolutions that store bytes ----------------------------------------------------------------- */

/* Two convolutions, each of bytes, and quantized to bytes: x is (images,channels,height,width), the filters
 * (between,channels/groups,taps,taps) and (outputs,between,1,1). Without limits, numbers wrap around. */
typedef struct chain_case {
    int images, channels, height, width, between, outputs, taps, groups;
    const char *attributes; /* of the first convolution */
    kn_dtype first, second; /* of the image, and of the results */
    bool by_channel, limits;
} chain_case;
enum { MAX_BYTES = 8192 };

/* Codes of x: rounded quotients by the scale, plus a zero point. */
static kn_value *quantized(kn_value *x, kn_value *scale, double zero, const chain_case *of) {
    const bool is_signed = of->second == KN_INT8;
    kn_value *codes = kn_shift(kn_round(kn_div(x, scale)), zero);
    if (of->limits) codes = kn_clip(codes, is_signed ? -128 : 0, is_signed ? 127 : 255);
    return kn_cast(codes, of->second);
}

static kn_value *made_chain(kn_graph *graph, const chain_case *of) {
    char shape[64];
    snprintf(shape, sizeof shape, "%d,%d,%d,%d", of->images, of->channels, of->height, of->width);
    kn_value *x = kn_input(graph, "x", of->first, shape);
    snprintf(shape, sizeof shape, "%d,%d,%d,%d", of->between, of->channels / of->groups, of->taps, of->taps);
    kn_value *filter = kn_input(graph, "f", KN_INT8, shape);
    snprintf(shape, sizeof shape, "%d,%d,1,1", of->outputs, of->between);
    kn_value *last = kn_input(graph, "g", KN_INT8, shape);
    snprintf(shape, sizeof shape, of->by_channel ? "%d,1,1" : "1", of->between);
    kn_value *scale = kn_input(graph, "s", KN_FLOAT32, shape),
             *divisor = kn_input(graph, "d", KN_FLOAT32, "");
    kn_value *y =
        kn_mul(kn_apply(graph, "conv2d_bytes", (kn_value *[]){x, filter}, 2, of->attributes), scale);
    kn_value *codes = quantized(kn_relu(kn_add(y, scale)), divisor, 3, of);
    y = kn_apply(graph, "conv2d_bytes", (kn_value *[]){codes, last}, 2, "");
    return kn_output(quantized(y, divisor, -2, of), "y");
}

/* Writes the result, whose size it returns; 0: the device does not have the kernel. */
static size_t run_chain(kn_context *context, const chain_case *of, const char *switches, uint8_t *y) {
    static float numbers[MAX_BYTES];
    static int8_t bytes[3][MAX_BYTES];
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *made = made_chain(graph, of);
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    const size_t size = (size_t)kn_shape_elements(&made->shape);
    const size_t sizes[3] = {(size_t)(of->images * of->channels * of->height * of->width),
                             (size_t)(of->between * of->channels / of->groups * of->taps * of->taps),
                             (size_t)(of->outputs * of->between)};
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = switches;
    kn_session *session = kn_session_create(context, &made, 1, &params);
    kn_graph_destroy(&graph);
    kn_status status = kn_session_status(session);
    for (int i = 0; i < 3; i++) {
        assert_true(sizes[i] <= MAX_BYTES && size <= MAX_BYTES);
        fill_numbers(numbers, sizes[i], 3 + (uint64_t)i);
        for (size_t k = 0; k < sizes[i]; k++)
            bytes[i][k] = (int8_t)floorf(128 * numbers[k]);
    }
    fill_numbers(numbers, (size_t)of->between, 9);
    /* Quotients by it often lie halfway between whole numbers. */
    const float divisor = 0.5f;
    for (int k = 0; k < of->between; k++)
        numbers[k] = of->by_channel ? numbers[k] / 256 : 1.0f / 1024;
    const kn_feed feeds[] = {{"x", bytes[0], sizes[0]},
                             {"f", bytes[1], sizes[1]},
                             {"g", bytes[2], sizes[2]},
                             {"s", numbers, (of->by_channel ? (size_t)of->between : 1) * sizeof *numbers},
                             {"d", &divisor, sizeof divisor}};
    const kn_fetch fetch = {"y", y, size};
    if (status == KN_OK) status = kn_session_run(session, feeds, KN_COUNT_OF(feeds), &fetch, 1);
    if (status != KN_ERROR_NOT_FOUND) session_good(session, status);
    kn_session_destroy(&session);
    return status == KN_OK ? size : 0;
}

/* The same bytes as from the plain kernel, which has no epilogue: functions and casts are launches of their
 * own. */
TEST(convolutions_store_bytes) {
    static const chain_case cases[] = {
        {2, 4, 9, 11, 6, 4, 3, 1, "padding=1", KN_UINT8, KN_UINT8, true, true},
        {1, 5, 13, 17, 9, 7, 3, 1, "stride=2,1 padding=0,1,2,1", KN_UINT8, KN_UINT8, true, true},
        {3, 10, 7, 6, 12, 5, 2, 2, "groups=2 dilation=2,1", KN_UINT8, KN_UINT8, true, true},
        {1, 4, 1, 1, 4, 4, 1, 1, "", KN_UINT8, KN_UINT8, true, true},
        {2, 7, 8, 5, 5, 8, 1, 1, "", KN_INT8, KN_INT8, false, true},
        {1, 4, 12, 31, 5, 4, 3, 1, "padding=1", KN_INT8, KN_INT8, false, true},
        {1, 4, 6, 19, 4, 6, 3, 1, "padding=1", KN_UINT8, KN_UINT8, false, false},
        {1, 4, 6, 19, 4, 6, 3, 1, "padding=1", KN_INT8, KN_INT8, false, false}};
    static uint8_t fused[MAX_BYTES], separate[MAX_BYTES];
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        const size_t size = run_chain(*state, &cases[i], "conv2d_bytes=pairs", fused);
        if (!size) return;
        assert_int_equal(size, run_chain(*state, &cases[i], "conv2d_bytes=plain", separate));
        for (size_t k = 0; k < size; k++)
            if (fused[k] != separate[k])
                fail_msg("case %zu, byte %zu: %d, expected %d", i, k, fused[k], separate[k]);
    }
}

TEST_FILE(test_byte_functions, device_setup, device_teardown)
