/* Graphs computed on two devices: here two contexts on the same device, so that all results must have the
 * same bits as on one device. */
#include "run_tests.h"

#include <string.h>

typedef struct two_devices {
    kn_context *single, *main; /* `other` is joined to main */
} two_devices;

static int open_two(void **state) {
    static two_devices two;
    kn_context *other = device_open(NULL);
    two.single = device_open(NULL);
    two.main = device_open(NULL);
    assert_int_equal(kn_context_join(two.main, "other", &other), KN_OK);
    assert_null(other);
    *state = &two;
    return 0;
}

static int close_two(void **state) {
    two_devices *two = *state;
    assert_int_equal(device_counts(kn_context_device_at(two->main, 1)).device_bytes, 0);
    device_close(&two->main);
    device_close(&two->single);
    return 0;
}

/* y is computed on main and the other device, and by another path on main only. */
typedef struct winding_net {
    kn_graph *graph;
    kn_value *values[3]; /* y, and intermediate values: on the other device, and on main */
} winding_net;

/* pins: further pins. x is (batch,3), y (batch,2). */
static winding_net winding_net_make(const char *pin) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "batch,3");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "3,8", NULL);
    kn_value *v = kn_parameter(graph, "v", KN_FLOAT32, "8,8", NULL);
    kn_value *u = kn_parameter(graph, "u", KN_FLOAT32, "8,2", NULL);
    kn_value *h = kn_name(kn_relu(kn_matmul(x, w, false, false)), "h");
    if (pin) kn_pin_begin(graph, pin);
    kn_value *far = kn_name(kn_tanh(kn_matmul(h, v, false, false)), "far");
    if (pin) kn_pin_end(graph);
    kn_value *near = kn_matmul(kn_relu(kn_scale(h, 2)), u, false, false);
    kn_value *y = kn_output(kn_add(kn_matmul(far, u, false, false), near), "y");
    winding_net net = {graph, {y, far, h}};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    return net;
}

static kn_session *winding_session(kn_context *context, const char *pin, const kn_session_params *params) {
    winding_net net = winding_net_make(pin);
    kn_session *session = kn_session_create(context, net.values, 3, params);
    assert_non_null(session);
    kn_graph_destroy(&net.graph);
    return session;
}

typedef struct winding_results {
    float y[66], far[264], h[264];
} winding_results;

static void run_winding(kn_session *session, size_t batch, uint64_t seed, winding_results *results) {
    float x[99];
    fill_numbers(x, 3 * batch, seed);
    memset(results, 0, sizeof *results);
    const kn_feed feed = {"x", x, 3 * batch * sizeof *x};
    const kn_fetch fetches[] = {{"y", results->y, 2 * batch * sizeof(float)},
                                {"far", results->far, 8 * batch * sizeof(float)},
                                {"h", results->h, 8 * batch * sizeof(float)}};
    /* A run without fetches does not wait; with the next, both buffers of the inputs are in use. */
    session_good(session, kn_session_run(session, &feed, 1, NULL, 0));
    session_good(session, kn_session_run(session, &feed, 1, fetches, 3));
}

static void results_are_those_of_one_device(void **state) {
    const two_devices *two = *state;
    static const size_t batches[] = {4, 1, 33, 0, 4};
    kn_session *one = winding_session(two->single, "main", NULL),
               *both = winding_session(two->main, "other", NULL);
    for (size_t i = 0; i < KN_COUNT_OF(batches); i++) {
        winding_results expected, found;
        run_winding(one, batches[i], i, &expected);
        run_winding(both, batches[i], i, &found);
        assert_memory_equal(&expected, &found, sizeof expected);
        assert_true(batches[i] == 0 || expected.y[0] != 0);
    }
    kn_session_destroy(&one);
    kn_session_destroy(&both);
}

/* The guard checks that no step writes outside its values, and that no element stays unwritten (NaN). */
static void transfers_stay_inside_their_values(void **state) {
    const two_devices *two = *state;
    winding_net net = winding_net_make("other");
    winding_results expected, found;
    kn_session *one = winding_session(two->single, NULL, NULL);
    kn_session_request request = {.context = two->main, .values = net.values, .count = 3, .guard = 256};
    kn_session *both = kn_session_open(&request);
    run_winding(one, 33, 5, &expected);
    run_winding(both, 33, 5, &found);
    assert_memory_equal(&expected, &found, sizeof expected);
    kn_graph_destroy(&net.graph);
    kn_session_destroy(&one);
    kn_session_destroy(&both);
}

static void a_plan_tells_devices_and_transfers(void **state) {
    const two_devices *two = *state;
    kn_session *both = winding_session(two->main, "other", NULL);
    const kn_feed feed = {"x", NULL, 4 * 3 * sizeof(float)};
    kn_plan_info info = {.size = sizeof info};
    session_good(both, kn_session_compile(both, &feed, 1));
    session_good(both, kn_session_plan(both, &info));
    assert_int_equal(info.devices, 2);
    assert_int_equal(info.transfers, 2); /* h to the other device, far back */
    assert_int_equal(info.transfer_bytes, 2 * 4 * 8 * sizeof(float));
    char *text = kn_session_plan_text(both);
    static const char *const expected[] = {"device main: ",
                                           "device other: ",
                                           "send h",
                                           "to other",
                                           "receive h",
                                           "from main",
                                           "2 transfers between devices, 256 B"};
    for (size_t i = 0; i < KN_COUNT_OF(expected); i++)
        if (!text || !strstr(text, expected[i])) fail_msg("'%s' is missing in:\n%s", expected[i], text);
    kn_session_free_text(both, text);
    int sends[2] = {-1, -1}, found = 0;
    for (int i = 0; i < info.steps; i++) {
        kn_plan_step step = KN_PLAN_STEP_DEFAULTS;
        session_good(both, kn_session_plan_step_at(both, i, &step));
        bool far = !strcmp(step.device, "other");
        assert_true(far || !strcmp(step.device, KN_DEVICE_MAIN));
        if (!strncmp(step.label, "send ", 5)) sends[far] = i;
        if (strncmp(step.label, "receive ", 8)) continue;
        /* It reads from the step that sent it, which comes before it. */
        assert_int_equal(step.input_count, 1);
        assert_true(step.inputs[0] < i);
        kn_plan_step sender = KN_PLAN_STEP_DEFAULTS;
        session_good(both, kn_session_plan_step_at(both, step.inputs[0], &sender));
        assert_string_equal(sender.label + 5, step.label + 8);
        assert_string_not_equal(sender.device, step.device);
        found++;
    }
    assert_true(sends[0] >= 0 && sends[1] >= 0 && found == 2);
    kn_plan_step beyond = KN_PLAN_STEP_DEFAULTS;
    assert_int_equal(kn_session_plan_step_at(both, info.steps, &beyond), KN_ERROR_NOT_FOUND);
    kn_session_destroy(&both);
}

static void a_joined_device_without_pins_changes_no_plan(void **state) {
    const two_devices *two = *state;
    char *texts[2];
    kn_session *sessions[] = {winding_session(two->single, NULL, NULL),
                              winding_session(two->main, NULL, NULL)};
    const kn_feed feed = {"x", NULL, 4 * 3 * sizeof(float)};
    for (int i = 0; i < 2; i++) {
        kn_plan_info info = {.size = sizeof info};
        session_good(sessions[i], kn_session_compile(sessions[i], &feed, 1));
        session_good(sessions[i], kn_session_plan(sessions[i], &info));
        assert_true(info.devices == 1 && info.transfers == 0 && info.transfer_bytes == 0);
        texts[i] = kn_session_plan_text(sessions[i]);
        assert_non_null(texts[i]);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_null(strstr(texts[0], "device main"));
    for (int i = 0; i < 2; i++) {
        kn_session_free_text(sessions[i], texts[i]);
        kn_session_destroy(&sessions[i]);
    }
}

/* Pinned to the only device, a node is still equal to the same node without a pin. */
static void pins_to_main_alone_change_no_plan(void **state) {
    const two_devices *two = *state;
    int steps[2];
    for (int pinned = 0; pinned < 2; pinned++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_value *x = kn_input(graph, "x", KN_FLOAT32, "2,3"),
                 *w = kn_parameter(graph, "w", KN_FLOAT32, "3,3", NULL);
        kn_value *left = kn_matmul(x, w, false, false), *right = kn_matmul(x, w, false, false);
        if (pinned) kn_pin(left, KN_DEVICE_MAIN);
        kn_value *y = kn_output(kn_matmul(left, right, true, false), "y");
        kn_session *session = kn_session_create(two->main, &y, 1, NULL);
        kn_plan_info info = {.size = sizeof info};
        session_good(session, kn_session_compile(session, NULL, 0));
        session_good(session, kn_session_plan(session, &info));
        steps[pinned] = info.steps;
        kn_session_destroy(&session);
        kn_graph_destroy(&graph);
    }
    assert_int_equal(steps[0], steps[1]);
}

/* sum is written on the other device, and read on both: main reads the value of before the run. */
/* v (8,8) in 16 bits is stored where it is read, and is not transferred between the devices. */
static void narrow_weights_live_where_they_are_read(void **state) {
    const two_devices *two = *state;
    kn_plan_info infos[2];
    for (int narrow = 0; narrow < 2; narrow++) {
        winding_net net = winding_net_make("other");
        if (narrow) kn_store_as(kn_graph_find(net.graph, "v"), KN_FLOAT16);
        kn_session *both = kn_session_create(two->main, net.values, 3, NULL);
        const kn_feed feed = {"x", NULL, 4 * 3 * sizeof(float)};
        infos[narrow].size = sizeof *infos;
        session_good(both, kn_session_compile(both, &feed, 1));
        session_good(both, kn_session_plan(both, &infos[narrow]));
        kn_graph_destroy(&net.graph);
        kn_session_destroy(&both);
    }
    assert_int_equal(infos[1].transfers, infos[0].transfers);
    assert_int_equal(infos[1].own_state_bytes, infos[0].own_state_bytes);
    assert_true(infos[1].state_bytes > infos[1].own_state_bytes); /* v is on the other */
}

static void a_state_lives_on_one_device_and_is_read_on_both(void **state) {
    const two_devices *two = *state;
    adder made = adder_make("5");
    kn_value *twice = kn_name(kn_scale(made.sum, 2), "twice");
    kn_pin(made.total, "other");
    kn_value *values[] = {made.total, twice};
    kn_session_request request = {.context = two->main, .values = values, .count = 2, .extend = adder_extend};
    kn_session_params params;
    kn_session_params_init(&params);
    params.training = true;
    request.params = &params;
    kn_session *session = kn_session_open(&request);
    kn_states *states = kn_session_states(session);
    float x[5] = {1, 2, 3, 4, 5}, total[5], doubled[5], sum[5];
    const kn_feed feed = {"x", x, sizeof x};
    const kn_fetch fetches[] = {{"total", total, sizeof total}, {"twice", doubled, sizeof doubled}};
    for (int round = 1; round <= 6; round++) {
        bool looks = round % 3 == 0;
        session_good(session, kn_session_run(session, &feed, 1, fetches, looks ? 2 : 0));
        for (int i = 0; i < 5 && looks; i++) {
            assert_float_equal(total[i], (float)round * x[i], 0);
            assert_float_equal(doubled[i], (float)(round - 1) * 2 * x[i], 0);
        }
    }
    states_good(states, kn_states_get(states, "sum", sum, sizeof sum));
    assert_memory_equal(sum, total, sizeof sum);
    states_good(states, kn_states_set(states, "sum", NULL, x, sizeof x));
    session_good(session, kn_session_run(session, &feed, 1, fetches, 2));
    assert_float_equal(total[4], 10, 0);
    assert_float_equal(doubled[4], 10, 0);

    /* Another session with these states finds them on their devices, also without a pin. */
    kn_pin(made.total, NULL);
    kn_session_params_init(&params);
    params.states = states;
    kn_session *plain = kn_session_create(two->main, values, 2, &params);
    session_good(plain, kn_session_run(plain, &feed, 1, fetches, 2));
    assert_float_equal(total[4], 15, 0);
    assert_float_equal(doubled[4], 20, 0);
    kn_session_destroy(&plain);
    kn_session_destroy(&session);
    kn_graph_destroy(&made.graph);
}

/* States that the host sets between runs reach both devices, in the order of the runs. */
static void scalars_reach_both_devices(void **state) {
    const two_devices *two = *state;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "n,4");
    kn_value *rate = kn_parameter(graph, "rate", KN_FLOAT32, "", NULL);
    kn_value *here = kn_name(kn_mul(x, rate), "here"),
             *there = kn_name(kn_pin(kn_mul(kn_scale(x, 3), rate), "other"), "there");
    kn_value *values[] = {here, there};
    kn_session *session = kn_session_create(two->main, values, 2, NULL);
    float xs[4] = {1, 2, 3, 4}, heres[4], theres[4];
    const kn_feed feed = {"x", xs, sizeof xs};
    const kn_fetch fetches[] = {{"here", heres, sizeof heres}, {"there", theres, sizeof theres}};
    session_good(session, kn_session_compile(session, &feed, 1));
    for (int i = 1; i <= 4; i++) {
        session_good(session, kn_session_set_scalar(session, "rate", i));
        session_good(session, kn_session_run(session, &feed, 1, fetches, i == 2 ? 0 : 2));
        if (i == 2) continue;
        assert_float_equal(heres[3], 4 * i, 0);
        assert_float_equal(theres[3], 12 * i, 0);
    }
    kn_session_destroy(&session);
    kn_graph_destroy(&graph);
}

static void mistakes_are_reported(void **state) {
    const two_devices *two = *state;
    const kn_feed feed = {"x", NULL, 4 * 3 * sizeof(float)};
    kn_session *session = winding_session(two->main, "others", NULL);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_compile(session, &feed, 1), "pinned", "'others'",
                "main, other", "did you mean 'other'", NULL);
    kn_session_destroy(&session);
    session = winding_session(two->single, "other", NULL);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_compile(session, &feed, 1), "'other'", "it has: main",
                NULL);
    kn_session_destroy(&session);
    /* A kernel that does not exist: the error names the device. */
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = "matmul=library";
    session = winding_session(two->main, "other", &params);
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_compile(session, &feed, 1), "on the device 'main'",
                "matmul", NULL);
    kn_session_destroy(&session);
    /* Memory is counted on each device. */
    kn_session_params_init(&params);
    params.memory_bytes = 64;
    session = winding_session(two->main, "other", &params);
    session_bad(session, KN_ERROR_DEVICE_MEMORY, kn_session_compile(session, &feed, 1), "on the device",
                NULL);
    kn_session_destroy(&session);

    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4");
    assert_true(kn_value_failed(kn_pin(x, "other")));
    assert_non_null(strstr(kn_graph_error(graph), "'x' is not the result of a node"));
    kn_graph_destroy(&graph);
}

static void contexts_are_joined_by_name(void **state) {
    kn_context *main = device_open(NULL), *other = device_open(NULL), *third = device_open(NULL),
               *none = NULL;
    assert_int_equal(kn_context_join(main, "other", &none), KN_ERROR_MEMORY);
    assert_int_equal(kn_context_join(main, NULL, &other), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_context_join(main, "", &other), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_context_join(main, KN_DEVICE_MAIN, &other), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_context_join(main, "other", &main), KN_ERROR_ARGUMENT);
    char name[KN_DEVICE_NAME_BYTES + 1];
    memset(name, 'n', sizeof name);
    name[KN_DEVICE_NAME_BYTES] = '\0';
    assert_int_equal(kn_context_join(main, name, &other), KN_ERROR_ARGUMENT);
    kn_context *kept = other;
    assert_int_equal(kn_context_join(main, "other", &other), KN_OK);
    assert_int_equal(kn_context_join(main, "other", &third), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_context_join(main, "again", &kept), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_context_join(third, "whole", &main),
                     KN_ERROR_ARGUMENT); /* devices are already joined to it */
    kn_context *copy = kept; /* main destroys it: no other context may own it or join devices to it */
    assert_int_equal(kn_context_join(third, "stolen", &copy), KN_ERROR_ARGUMENT);
    assert_ptr_equal(copy, kept);
    assert_int_equal(kn_context_device_count(third), 1);
    assert_int_equal(kn_context_join(kept, "deeper", &third), KN_ERROR_ARGUMENT);
    assert_non_null(third);
    assert_int_equal(kn_context_device_count(main), 2);
    assert_ptr_equal(kn_context_device_at(main, 0), main);
    assert_ptr_equal(kn_context_device_at(main, 1), kept);
    assert_string_equal(kn_context_device_name_at(main, 1), "other");
    assert_null(kn_context_device_at(main, 2));
    assert_null(kn_context_device_name_at(main, -1));
    name[KN_DEVICE_NAME_BYTES - 1] = '\0'; /* the longest that fits */
    assert_int_equal(kn_context_join(main, name, &third), KN_OK);
    assert_string_equal(kn_context_device_name_at(main, 2), name);
    kn_context_destroy(&third);
    kn_context_destroy(&main);
}

int test_devices(void) {
    /* Simulators cannot run two kernels at once: they only plan. */
    const struct CMUnitTest planned[] = {
        cmocka_unit_test(a_plan_tells_devices_and_transfers),
        cmocka_unit_test(a_joined_device_without_pins_changes_no_plan),
        cmocka_unit_test(pins_to_main_alone_change_no_plan),
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(contexts_are_joined_by_name),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_one_device),
        cmocka_unit_test(transfers_stay_inside_their_values),
        cmocka_unit_test(a_plan_tells_devices_and_transfers),
        cmocka_unit_test(a_joined_device_without_pins_changes_no_plan),
        cmocka_unit_test(pins_to_main_alone_change_no_plan),
        cmocka_unit_test(a_state_lives_on_one_device_and_is_read_on_both),
        cmocka_unit_test(narrow_weights_live_where_they_are_read),
        cmocka_unit_test(scalars_reach_both_devices),
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(contexts_are_joined_by_name),
    };
    if (test_cases_wanted() == TEST_SMALLEST)
        return cmocka_run_group_tests_name("devices", planned, open_two, close_two);
    return cmocka_run_group_tests_name("devices", tests, open_two, close_two);
}
