/* Filters of several convolutions that are packed in one launch. */
#include "run_tests.h"

#include <string.h>

enum { X = 2 * 16 * 9 * 7, Y = 2 * 16 * 5 * 4, RUNS = 3, LAYERS = 5 };

/* Channels, side of the filter, stride. */
static const int layers[LAYERS][3] = {{24, 3, 1}, {16, 1, 1}, {24, 3, 1}, {40, 1, 1}, {16, 3, 2}};

/* Every weight becomes smaller along its gradient of the mean of y * y. */
static kn_status update(void *user, kn_graph *bound, kn_value **values, size_t count, kn_error *error) {
    kn_value *weights[LAYERS], *gradients[LAYERS];
    size_t found = 0;
    for (size_t i = 0; i < bound->value_count; i++)
        if (bound->values[i]->kind == KN_VALUE_STATE) {
            assert_true(found < LAYERS);
            weights[found++] = bound->values[i];
        }
    assert_int_equal(found, LAYERS);
    kn_value *loss = kn_mean(kn_mul(values[0], values[0]), NULL, false);
    kn_status status = kn_graph_gradient(bound, loss, weights, found, gradients, error);
    for (size_t i = 0; i < found && status == KN_OK; i++)
        kn_assign(bound, weights[i], kn_sub(weights[i], kn_scale(gradients[i], 0.1)));
    return status;
}

static kn_session *open_net(kn_context *context, const char *switches) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *y = kn_input(graph, "x", KN_FLOAT32, "2,16,9,7");
    for (int i = 0; i < LAYERS; i++) {
        const int64_t side = layers[i][1], stride = layers[i][2];
        const kn_conv_params params = {.size = sizeof params,
                                       .padding = {side / 2, side / 2},
                                       .stride = {stride, stride},
                                       .no_bias = true};
        y = kn_conv(y, layers[i][0], side, side, &params);
    }
    y = kn_output(y, "y");
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = true;
    params.precision = KN_PRECISION_BFLOAT16;
    params.switches = switches;
    params.seed = 3;
    const kn_session_request request = {
        .context = context, .values = &y, .count = 1, .params = &params, .extend = update};
    kn_session *session = kn_session_open(&request);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_status(session));
    return session;
}

/* Returns the number of launches that pack filters. */
static int train(kn_context *context, const char *switches, float y[RUNS][Y]) {
    kn_session *session = open_net(context, switches);
    float x[X];
    const kn_feed feed = {"x", x, sizeof x};
    int count = 0;
    fill_numbers(x, X, 5);
    for (int i = 0; i < RUNS; i++) {
        const kn_fetch fetch = {"y", y[i], sizeof y[i]};
        session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
    }
    kn_plan_step step = KN_PLAN_STEP_DEFAULTS;
    for (size_t i = 0; kn_session_plan_step_at(session, i, &step) == KN_OK; i++)
        count += strstr(step.kernel, "kn_pack_blocked") != NULL;
    kn_session_destroy(&session);
    return count;
}

/* Also of those that change between the runs. */
TEST(one_launch_packs_the_same_as_several) {
    static float together[RUNS][Y], separate[RUNS][Y];
    if (test_cases_wanted() != TEST_ALL) skip_because("takes minutes on llvmpipe, and longer in a simulator");
    /* Four filters forward and for gradients: the image x has 32 bits. 1x1 filters are packed in another way.
     */
    assert_int_equal(train(*state, "images=blocked,packs=separate", separate), 8);
    assert_int_equal(train(*state, "images=blocked", together), 3);
    for (int i = 0; i < RUNS; i++) {
        assert_memory_equal(together[i], separate[i], sizeof together[i]);
        if (i) assert_memory_not_equal(together[i], together[i - 1], sizeof together[i]);
    }
}

static int open_unit(void **state) {
    kn_context_params params = device_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    params.matrix_unit = "emulated-mma";
    *state = device_open(&params);
    return 0;
}

TEST_FILE(test_packs, open_unit, device_teardown)
