/* Statistics for batch norms, collected by the convolutions before them. */
#include "run_tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/shape/shape.h"

enum { IMAGES = 2, CHANNELS = 3, HEIGHT = 13, WIDTH = 11, PIXELS = HEIGHT * WIDTH, LAYERS = 4, WIDEST = 80 };

/* Channels, side of the filter, groups: sizes for which the last tile, panel and part are incomplete. */
static const int layers[LAYERS][3] = {{16, 3, 1}, {WIDEST, 3, 1}, {WIDEST, 3, WIDEST}, {48, 1, 1}};

/* x (2,3,13,11) through convolutions, each followed by a batch norm, whose input has means of about 100 and
 * deviations below 1. */
static kn_session *open_net(kn_context *context, const char *variants) {
    kn_graph *graph = kn_graph_create(NULL);
    assert_non_null(graph);
    const kn_initializer far = {KN_INITIALIZER_FILL, 100};
    kn_value *results[LAYERS + 1], *at = kn_input(graph, "x", KN_FLOAT32, "2,3,13,11");
    for (int i = 0; i < LAYERS; i++) {
        kn_conv_params conv = {.size = sizeof conv, .groups = layers[i][2], .bias = &far};
        kn_batch_norm_params norm;
        char name[16], result[16];
        conv.padding[0] = layers[i][1] / 2;
        kn_batch_norm_params_init(&norm);
        norm.momentum = 1;
        snprintf(name, sizeof name, "norm%d", i);
        norm.name = name;
        at = kn_conv(at, layers[i][0], layers[i][1], layers[i][1], &conv);
        snprintf(result, sizeof result, "y%d", i);
        results[i] = at = kn_output(at, result);
        at = kn_batch_norm(at, &norm);
    }
    results[LAYERS] = kn_output(at, "last");
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = true;
    params.switches = variants;
    kn_session *session = kn_session_create(context, results, LAYERS + 1, &params);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_status(session));
    return session;
}

/* y (images,channels,pixels): the running statistics are those of its channels. */
static void check_layer(kn_session *session, int layer, const float *y) {
    kn_states *states = kn_session_states(session);
    int channels = layers[layer][0];
    float means[WIDEST], variances[WIDEST];
    size_t bytes = (size_t)channels * sizeof(float);
    char name[32];
    snprintf(name, sizeof name, "norm%d.running_mean", layer);
    states_good(states, kn_states_get(states, name, means, bytes));
    snprintf(name, sizeof name, "norm%d.running_var", layer);
    states_good(states, kn_states_get(states, name, variances, bytes));
    for (int c = 0; c < channels; c++) {
        double mean = 0, variance = 0, count = IMAGES * PIXELS;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < IMAGES * PIXELS; i++) {
                double value = (double)y[(i / PIXELS * channels + c) * PIXELS + i % PIXELS];
                if (pass)
                    variance += (value - mean) * (value - mean) / (count - 1);
                else
                    mean += value / count;
            }
        if (!(fabs((double)means[c] - mean) <= 5e-7 * fabs(mean)))
            fail_msg("layer %d, channel %d: mean %.9g, expected %.9g", layer, c, (double)means[c], mean);
        if (!(fabs((double)variances[c] - variance) <= 1e-4 * variance))
            fail_msg("layer %d, channel %d: variance %.9g, expected %.9g", layer, c, (double)variances[c],
                     variance);
    }
}

/* y (images,channels,pixels) is the input of the last norm, last its result: mean 0 and variance 1, except
 * for epsilon. */
static void check_norm(const float *y, const float *last) {
    const int channels = layers[LAYERS - 1][0];
    for (int c = 0; c < channels; c++) {
        double sums[2] = {0}, squares[2] = {0}, count = IMAGES * PIXELS;
        for (int i = 0; i < IMAGES * PIXELS; i++) {
            int place = (i / PIXELS * channels + c) * PIXELS + i % PIXELS;
            const double found[2] = {(double)y[place] - (double)y[c * PIXELS], (double)last[place]};
            for (int k = 0; k < 2; k++) {
                sums[k] += found[k] / count;
                squares[k] += found[k] * found[k] / count;
            }
        }
        double read = squares[0] - sums[0] * sums[0], made = squares[1] - sums[1] * sums[1];
        if (!(fabs(sums[1]) <= 1e-3 && fabs(made - read / (read + 1e-5)) <= 1e-3))
            fail_msg("channel %d: mean %g and variance %g, expected 0 and %g", c, sums[1], made,
                     read / (read + 1e-5));
    }
}

static void run_and_check(kn_context *context, const char *variants) {
    static float y[LAYERS + 1][IMAGES * WIDEST * PIXELS];
    float x[IMAGES * CHANNELS * PIXELS];
    kn_session *session = open_net(context, variants);
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetches[LAYERS + 1];
    static const char *const names[LAYERS + 1] = {"y0", "y1", "y2", "y3", "last"};
    fill_numbers(x, IMAGES * CHANNELS * PIXELS, 7);
    for (int i = 0; i <= LAYERS; i++)
        fetches[i] =
            (kn_fetch){names[i], y[i],
                       sizeof(float) * (size_t)(IMAGES * PIXELS * layers[i < LAYERS ? i : LAYERS - 1][0])};
    session_good(session, kn_session_run(session, &feed, 1, fetches, LAYERS + 1));
    for (int i = 0; i < LAYERS; i++)
        check_layer(session, i, y[i]);
    check_norm(y[LAYERS - 1], y[LAYERS]);
    /* A kernel that computes wrongly would be replaced by one that does not collect statistics. */
    if (test_cases_wanted() == TEST_SMALLEST) assert_int_equal(device_counts(context).variants_refused, 0);
    kn_session_destroy(&session);
}

TEST(convolutions_gather_them) {
    run_and_check(*state, NULL);
}
TEST(convolutions_by_blocks_of_tiles_gather_them) {
    run_and_check(*state, "*=winograd4");
}
TEST(convolutions_by_phases_gather_them) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    run_and_check(*state, "*=winograd4_phases");
}
TEST(batch_norms_gather_them) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    run_and_check(*state, "statistics=separate");
}

/* Two norms of x (2,16,13,11) and of 2 x that share their statistics, in the second run and outside training.
 */
TEST(shared_statistics_follow_both) {
    enum { COUNT = IMAGES * 16 * PIXELS };
    static float x[COUNT], y[COUNT], twice[COUNT];
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *in = kn_input(graph, "x", KN_FLOAT32, "2,16,13,11");
    kn_batch_norm_params params = {.size = sizeof params, .name = "norm", .momentum = 0.25, .epsilon = 1e-5};
    kn_value *values[2] = {kn_batch_norm(in, &params)};
    kn_value *const *shared = values[0]->producer->inputs;
    values[1] = kn_batch_norm_with(kn_scale(in, 2), shared[1], shared[2], shared[3], shared[4], &params);
    values[0] = kn_output(values[0], "y");
    values[1] = kn_output(values[1], "twice");
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params session_params;
    kn_session_params_init(&session_params);
    session_params.training = true;
    kn_session *training = kn_session_create(*state, values, 2, &session_params);
    session_good(training, kn_session_status(training));
    session_params.training = false;
    session_params.states = kn_session_states(training);
    kn_session *evaluation = kn_session_create(*state, values, 2, &session_params);
    kn_graph_destroy(&graph);
    session_good(evaluation, kn_session_status(evaluation));
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetches[2] = {{"y", y, sizeof y}, {"twice", twice, sizeof twice}};
    fill_numbers(x, COUNT, 7);
    for (int i = 0; i < 2; i++)
        session_good(training, kn_session_run(training, &feed, 1, fetches, 2));
    session_good(evaluation, kn_session_run(evaluation, &feed, 1, fetches, 2));
    float means[16], variances[16];
    kn_states *states = kn_session_states(training);
    states_good(states, kn_states_get(states, "norm.running_mean", means, sizeof means));
    states_good(states, kn_states_get(states, "norm.running_var", variances, sizeof variances));
    for (int c = 0; c < 16; c++) {
        double sum = 0, squares = 0, count = IMAGES * PIXELS, mean = 0, variance = 1;
        for (int i = 0; i < IMAGES * PIXELS; i++) {
            double number = (double)x[(i / PIXELS * 16 + c) * PIXELS + i % PIXELS];
            sum += number;
            squares += number * number;
        }
        double spread = (squares - sum * sum / count) / (count - 1);
        for (int use = 0; use < 4; use++) {
            double factor = use % 2 ? 2 : 1;
            mean = 0.75 * mean + 0.25 * factor * sum / count;
            variance = 0.75 * variance + 0.25 * factor * factor * spread;
        }
        assert_true(fabs((double)means[c] - mean) <= 1e-6 &&
                    fabs((double)variances[c] - variance) <= 1e-5 * variance);
        double at = (double)x[c * PIXELS], inverse = 1 / sqrt(variance + 1e-5);
        assert_true(fabs((double)y[c * PIXELS] - (at - mean) * inverse) <= 1e-5);
        assert_true(fabs((double)twice[c * PIXELS] - (2 * at - mean) * inverse) <= 1e-5);
    }
    kn_session_destroy(&evaluation);
    kn_session_destroy(&training);
}

enum { MOST = 9216 };

/* The gradient by x of a layer norm, for a gradient of its result of r + 1. */
static kn_value *layer_norm_gradient(kn_value *x, kn_value *r) {
    const int rank = x->shape.rank;
    const kn_dim *dims = x->shape.dims;
    kn_value *inputs[5] = {x, kn_shift(r, 1), kn_broadcast_to(kn_scalar(x->graph, 2), 1, dims + rank - 1),
                           kn_broadcast_to(kn_scalar(x->graph, 0.5), rank - 1, dims),
                           kn_broadcast_to(kn_scalar(x->graph, 3), rank - 1, dims)};
    return kn_node_add(x->graph, kn_operator_find("layer_norm_gradient"), NULL, inputs, 5, NULL);
}

static kn_value *batch_norm(kn_value *x, kn_value *r) {
    return kn_batch_norm(x, NULL);
}

typedef struct norm_case {
    kn_value *(*norm)(kn_value *x, kn_value *r);
    const char *row, *shape;
    size_t count;
} norm_case;

/* y = relu(norm(x) * r), of the shape of x. */
static void run_scaled(kn_context *context, const norm_case *of, const char *variant, float *y) {
    static float x[MOST], r[MOST];
    char switches[64];
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *at = kn_input(graph, "x", KN_FLOAT32, of->shape),
             *by = kn_input(graph, "r", KN_FLOAT32, of->shape);
    kn_value *made = kn_output(kn_relu(kn_mul(of->norm(at, by), by)), "y");
    if (kn_graph_status(graph)) fail_msg("%s: %s", of->shape, kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = true;
    snprintf(switches, sizeof switches, "%s=%s", of->row, variant);
    params.switches = switches;
    kn_session *session = kn_session_create(context, &made, 1, &params);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_status(session));
    fill_numbers(x, of->count, 7);
    fill_numbers(r, of->count, 8);
    kn_feed feeds[2] = {{"x", x, of->count * sizeof *x}, {"r", r, of->count * sizeof *r}};
    kn_fetch fetch = {"y", y, of->count * sizeof *y};
    session_good(session, kn_session_run(session, feeds, 2, &fetch, 1));
    kn_session_destroy(&session);
}

/* What follows a norm reads its operands at the places of the norm's results: as where it is computed
 * separately, after the plain kernels. The long ones do not fit in a work-group. */
TEST(epilogues_read_their_places) {
#define BATCH_NORM(shape, count)                                                                             \
    { batch_norm, "batch_norm", shape, count }
#define LAYER_NORM(shape, count)                                                                             \
    { layer_norm_gradient, "layer_norm_gradient", shape, count }
    static const norm_case cases[] = {
        BATCH_NORM("131,9", 1179),      BATCH_NORM("5,3,37", 555),     BATCH_NORM("3,5,4,6", 360),
        BATCH_NORM("3,5,3,7", 315),     BATCH_NORM("2,3,2,5,4", 240),  BATCH_NORM("2,3,2,4,5", 240),
        BATCH_NORM("3001,3", 9003),     BATCH_NORM("2,1,64,66", 8448), BATCH_NORM("3,1,37,59", 6549),
        BATCH_NORM("3,1,7,59,7", 8673), LAYER_NORM("131,9", 1179),     LAYER_NORM("5,3,37", 555),
        LAYER_NORM("3,5,4,6", 360),     LAYER_NORM("2,3,2,5,4", 240),  LAYER_NORM("37", 37)};
    static float fused[MOST], separate[MOST];
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    kn_context *context = device_open(&params);
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        const norm_case *of = &cases[i];
        run_scaled(context, of, of->norm == batch_norm ? "parts" : "tree", fused);
        run_scaled(context, of, "plain", separate);
        for (size_t k = 0; k < of->count; k++)
            if (!(fabsf(fused[k] - separate[k]) <= 1e-5f * (1 + fabsf(separate[k]))))
                fail_msg("%s of (%s), element %zu: %g, expected %g", of->row, of->shape, k, (double)fused[k],
                         (double)separate[k]);
    }
    device_close(&context);
}

/* Wide-vector convolutions collect statistics; a simulator, which checks their memory accesses, is made to
 * run them. */
static int open_gathering(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    if (test_cases_wanted() == TEST_SMALLEST) {
        debug.kernels = KN_KERNELS_CPU;
        params.trust_claims = true; /* short loops are right everywhere */
        debug.vector_width = 4;
    }
    *state = device_open(&params);
    return 0;
}

TEST_FILE(test_statistics, open_gathering, device_teardown)
