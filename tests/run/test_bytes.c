/* Inputs that are fed as bytes: a quarter is uploaded, and the device makes the host's bits of them. */
#include "run_tests.h"

#include <math.h>
#include <string.h>

enum { PIXELS = 256, BATCH = 3, COUNT = BATCH * PIXELS };

/* x is (batch,256); y is x + shift, which a compiler could contract with the product that made x. */
typedef struct pixel_net {
    kn_graph *graph;
    kn_value *values[2]; /* x and y */
} pixel_net;

static pixel_net pixel_net_make(void) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,256");
    kn_value *shift = kn_parameter(graph, "shift", KN_FLOAT32, "256", NULL);
    kn_value *y = kn_output(kn_add(x, shift), "y");
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    return (pixel_net){graph, {x, y}};
}

static kn_session *pixel_session(kn_context *context, uint64_t guard) {
    pixel_net net = pixel_net_make();
    const kn_session_request request = {.context = context, .values = net.values, .count = 2, .guard = guard};
    kn_session *session = kn_session_open(&request);
    session_good(session, kn_session_status(session));
    kn_graph_destroy(&net.graph);
    return session;
}

typedef struct pixels {
    uint8_t bytes[COUNT]; /* each of the 256 */
    float numbers[COUNT]; /* the host's conversion */
} pixels;

static pixels pixels_make(double scale) {
    pixels made;
    for (int i = 0; i < COUNT; i++) {
        made.bytes[i] = (uint8_t)(i * 37 + i / PIXELS);
        made.numbers[i] = (float)made.bytes[i] * (float)scale;
    }
    return made;
}

typedef struct pixel_results {
    float x[COUNT], y[COUNT];
} pixel_results;

static pixel_results run_pixels(kn_session *session, const kn_feed *feed) {
    pixel_results results;
    const kn_fetch fetches[] = {{"x", results.x, sizeof results.x}, {"y", results.y, sizeof results.y}};
    session_good(session, kn_session_run(session, feed, 1, fetches, 2));
    return results;
}

TEST(bytes_become_the_bits_of_the_host) {
    static const double scales[] = {1.0 / 255, -0.3, 1, 1.5e37, 1.2e-38};
    kn_session *session = pixel_session(*state, 0);
    for (size_t i = 0; i < KN_COUNT_OF(scales); i++) {
        const pixels made = pixels_make(scales[i]);
        const kn_feed wide = {"x", made.numbers, sizeof made.numbers};
        const kn_feed narrow = {"x", made.bytes, sizeof made.bytes, scales[i]};
        const pixel_results expected = run_pixels(session, &wide), found = run_pixels(session, &narrow);
        assert_memory_equal(found.x, made.numbers, sizeof made.numbers);
        assert_memory_equal(&found, &expected, sizeof found);
    }
    kn_session_destroy(&session);
}

TEST(widening_stays_inside_its_values) {
    kn_session *session = pixel_session(*state, 256);
    const pixels made = pixels_make(0.7);
    const kn_feed narrow = {"x", made.bytes, sizeof made.bytes, 0.7};
    const pixel_results found = run_pixels(session, &narrow);
    assert_memory_equal(found.x, made.numbers, sizeof made.numbers);
    kn_session_destroy(&session);
}

/* Also alternating: each form has a plan, and only the first run builds one. */
TEST(a_quarter_is_uploaded) {
    kn_session *session = pixel_session(*state, 0);
    const pixels made = pixels_make(1.0 / 255);
    const kn_feed feeds[] = {{"x", made.numbers, sizeof made.numbers},
                             {"x", made.bytes, sizeof made.bytes, 1.0 / 255}};
    for (int i = 0; i < 2; i++)
        run_pixels(session, &feeds[i]);
    for (int i = 0; i < 6; i++) {
        wrapped_reset();
        run_pixels(session, &feeds[i % 2]);
        assert_int_equal(wrapped_calls.uploaded, feeds[i % 2].bytes);
        assert_int_equal(wrapped_calls.builds + wrapped_calls.buffers + wrapped_calls.kernels, 0);
        assert_int_equal(wrapped_calls.launches, 1 + i % 2);
    }
    kn_session_destroy(&session);
}

/* The next batch is fed during a run, in the other form than the previous batch. */
TEST(bytes_are_fed_ahead) {
    kn_session *session = pixel_session(*state, 0);
    const pixels made = pixels_make(0.25);
    const kn_feed wide = {"x", made.numbers, sizeof made.numbers},
                  narrow = {"x", made.bytes, sizeof made.bytes, 0.25};
    pixel_results results[6];
    memset(results, 0, sizeof results);
    for (int i = 0; i < 6; i++) {
        const kn_feed *feed = i % 3 ? &narrow : &wide, *next = (i + 1) % 3 ? &narrow : &wide;
        const kn_fetch fetches[] = {{"x", results[i].x, sizeof results[i].x},
                                    {"y", results[i].y, sizeof results[i].y}};
        session_good(session, kn_session_start(session, feed, 1, i > 0, fetches, 2,
                                               (kn_enqueued_callback){NULL}, NULL));
        session_good(session, kn_session_feed_ahead(session, next, 1));
        session_good(session, kn_session_wait(session));
        assert_memory_equal(results[i].x, made.numbers, sizeof made.numbers);
        assert_memory_equal(&results[i], &results[0], sizeof results[i]);
    }
    kn_session_destroy(&session);
}

/* The bytes determine the batch, and the plan has them as its inputs, twice, and the numbers once. */
TEST(a_plan_is_for_bytes) {
    kn_session *session = pixel_session(*state, 0);
    const kn_feed feed = {"x", NULL, 64 * PIXELS, 1.0 / 255};
    kn_plan_info info = {.size = sizeof info};
    kn_plan_step step = KN_PLAN_STEP_DEFAULTS;
    kn_tensor_info shape;
    session_good(session, kn_session_compile(session, &feed, 1));
    session_good(session, kn_session_info(session, "x", &shape));
    assert_int_equal(shape.shape[0], 64);
    assert_int_equal(shape.dtype, KN_FLOAT32);
    session_good(session, kn_session_plan(session, &info));
    assert_int_equal(info.peak_bytes - info.state_bytes - info.scratch_bytes, 2 * 64 * PIXELS);
    session_good(session, kn_session_plan_step_at(session, 0, &step));
    assert_string_equal(step.label, "widen x");
    kn_session_destroy(&session);
}

/* Each device that reads an input gets its bytes: none receives numbers from another device. */
TEST(devices_get_bytes) {
    kn_context *other = device_open(NULL), *both = device_open(NULL);
    assert_int_equal(kn_context_join(both, "other", &other), KN_OK);
    pixel_net net = pixel_net_make();
    kn_pin_begin(net.graph, "other");
    kn_value *far = kn_name(kn_scale(kn_reshape(net.values[0], "batch,16,16"), 2), "far");
    kn_pin_end(net.graph);
    kn_value *values[] = {net.values[1], far};
    kn_session *session = kn_session_create(both, values, 2, NULL);
    kn_graph_destroy(&net.graph);
    const pixels made = pixels_make(0.1);
    const kn_feed feed = {"x", made.bytes, sizeof made.bytes, 0.1};
    float y[COUNT], doubled[COUNT], shift[PIXELS];
    const kn_fetch fetches[] = {{"y", y, sizeof y}, {"far", doubled, sizeof doubled}};
    kn_plan_info info = {.size = sizeof info};
    session_good(session, kn_session_run(session, &feed, 1, NULL, 0));
    wrapped_reset();
    session_good(session, kn_session_run(session, &feed, 1, fetches, 2));
    assert_int_equal(wrapped_calls.uploaded, 2 * sizeof made.bytes);
    session_good(session, kn_session_plan(session, &info));
    assert_int_equal(info.devices, 2);
    assert_int_equal(info.transfers, 0);
    states_good(kn_session_states(session),
                kn_states_get(kn_session_states(session), "shift", shift, sizeof shift));
    for (int i = 0; i < COUNT; i++)
        assert_true(doubled[i] == 2 * made.numbers[i] && y[i] == made.numbers[i] + shift[i % PIXELS]);
    kn_session_destroy(&session);
    device_close(&both);
}

TEST(wrong_bytes_are_refused) {
    static const uint8_t bytes[2 * PIXELS];
    static const double scales[] = {NAN, INFINITY, 1e-39, 1e-60, -1e39};
    kn_session *session = pixel_session(*state, 0);
    for (size_t i = 0; i < KN_COUNT_OF(scales); i++) {
        const kn_feed feed = {"x", bytes, sizeof bytes, scales[i]};
        session_bad(session, KN_ERROR_ARGUMENT, kn_session_run(session, &feed, 1, NULL, 0), "scale", "'x'",
                    "normal", NULL);
    }
    const kn_feed odd = {"x", bytes, PIXELS + 1, 1};
    session_bad(session, KN_ERROR_SHAPE, kn_session_run(session, &odd, 1, NULL, 0), "'x'", NULL);
    const kn_feed good = {"x", bytes, sizeof bytes, 1};
    session_good(session, kn_session_bind(session, "batch", 3));
    session_bad(session, KN_ERROR_SHAPE, kn_session_run(session, &good, 1, NULL, 0), "fed as uint8",
                "expected 768 bytes", "got 512", NULL);
    session_good(session, kn_session_bind(session, "batch", 2));
    session_good(session, kn_session_run(session, &good, 1, NULL, 0));
    kn_session_destroy(&session);

    kn_graph *graph = kn_graph_create(NULL);
    kn_value *y = kn_output(kn_neg(kn_input(graph, "n", KN_INT32, "batch")), "y");
    session = kn_session_create(*state, &y, 1, NULL);
    kn_graph_destroy(&graph);
    const kn_feed integers = {"n", bytes, 8, 1};
    session_bad(session, KN_ERROR_DTYPE, kn_session_run(session, &integers, 1, NULL, 0), "'n'", "int32",
                NULL);
    kn_session_destroy(&session);
}

TEST_FILE(test_bytes, device_setup, device_teardown)
