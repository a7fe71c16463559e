/* Consecutive runs: nothing is allocated, the caller may change its data at once, states are updated in
 * order. */
#include "run_tests.h"

#include <math.h>
#include <string.h>

TEST(a_state_is_written_once_a_run) {
    adder made = adder_make("5");
    kn_session *session = adder_session(*state, &made);
    float x[5] = {1, 2, 3, 4, 5}, total[5], sum[5];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"total", total, sizeof total};
    for (int run = 1; run <= 4; run++) {
        session_good(session, kn_session_run(session, &feed, 1, &fetch, 1));
        states_good(kn_session_states(session),
                    kn_states_get(kn_session_states(session), "sum", sum, sizeof sum));
        for (int i = 0; i < 5; i++)
            assert_true(total[i] == (float)run * x[i] && sum[i] == total[i]);
    }
    kn_session_destroy(&session);
}

/* With and without a run in progress, when the data is written by the transfer queue or within the run. */
TEST(data_may_change_when_a_run_returns) {
    enum { COUNT = 1 << 16, RUNS = 40 };
    static float x[COUNT], sum[COUNT];
    adder made = adder_make("65536");
    kn_session *session = adder_session(*state, &made);
    kn_feed feed = {"x", x, sizeof x};
    float expected = 0;
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)(run + 1);
        expected += (float)(run + 1);
        const bool idle = run % 4 == 0;
        if (idle) session_good(session, kn_session_wait(session));
        wrapped_reset();
        session_good(session, kn_session_run(session, &feed, 1, NULL, 0));
        for (int i = 0; i < COUNT; i++)
            x[i] = -1000;
        if (idle) assert_int_equal(wrapped_calls.waited_uploads, 0);
    }
    session_good(session, kn_session_wait(session));
    states_good(kn_session_states(session),
                kn_states_get(kn_session_states(session), "sum", sum, sizeof sum));
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != expected)
            fail_msg("element %d is %g, expected %g", i, (double)sum[i], (double)expected);
    kn_session_destroy(&session);
}

/* Drivers that start nothing before a flush begin early in a long run. */
TEST(long_runs_are_flushed_in_between) {
    enum { PRODUCTS = 70 };
    static const float xs[16] = {0};
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4,4"), *y = x;
    for (int i = 0; i < PRODUCTS; i++)
        y = kn_matmul(y, x, false, false);
    kn_session *session = kn_session_create(*state, &y, 1, NULL);
    kn_feed feed = {"x", xs, sizeof xs};
    session_good(session, kn_session_run(session, &feed, 1, NULL, 0));
    session_good(session, kn_session_wait(session));
    wrapped_reset();
    session_good(session, kn_session_run(session, &feed, 1, NULL, 0));
    assert_int_equal(wrapped_calls.launches, PRODUCTS);
    assert_int_equal(wrapped_calls.flushes, 3); /* after 8 and 64 launches, and at the end */
    kn_session_destroy(&session);
    kn_graph_destroy(&graph);
}

/* The input is read at the end of a long run: an upload during the run must use a different buffer, and the
 * upload after that must wait. */
TEST(uploads_do_not_disturb_runs_under_way) {
    enum { COUNT = 256, RUNS = 12 };
    adder made = slow_adder_make(test_cases_wanted() == TEST_SMALLEST);
    kn_session *session = adder_session(*state, &made);
    float xs[COUNT], got[COUNT], expected = 0;
    kn_feed feed = {"x", xs, sizeof xs};
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < COUNT; i++)
            xs[i] = (float)(1 << run);
        expected += (float)(1 << run);
        int turn = session->memories[0].turn;
        session_good(session, kn_session_run(session, &feed, 1, NULL, 0));
        assert_int_equal(session->memories[0].turn, !turn);
    }
    states_good(kn_session_states(session),
                kn_states_get(kn_session_states(session), "sum", got, sizeof got));
    for (int i = 0; i < COUNT; i++)
        if (got[i] != expected)
            fail_msg("element %d is %g, expected %g", i, (double)got[i], (double)expected);
    kn_session_destroy(&session);
}

/* Sessions with separate states run concurrently on one context. */
typedef struct side {
    kn_session *session;
    kn_status status;
    bool right;
} side;

static void run_side(void *argument) {
    side *own = argument;
    float x[48], y[32], first[32];
    fill_numbers(x, 48, 7);
    for (int run = 0; run < 30 && !own->status; run++) {
        size_t rows = run % 2 ? 16 : 8;
        kn_feed feed = {"x", x, rows * 3 * sizeof *x};
        kn_fetch fetch = {"y", y, rows * 2 * sizeof *y};
        own->status = kn_session_run(own->session, &feed, 1, &fetch, 1);
        if (run == 0) memcpy(first, y, sizeof first);
        own->right = own->right && !memcmp(first, y, 16 * sizeof *y);
    }
}

TEST(sessions_run_side_by_side) {
    /* Oclgrind stops the program when two threads run kernels. */
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    kn_context *context = *state;
    kn_host host = kn_host_defaults();
    side sides[3];
    kn_thread *threads[3];
    for (int i = 0; i < 3; i++) {
        small_net net = small_net_make();
        kn_session_params params;
        kn_session_params_init(&params);
        params.seed = (uint64_t)i;
        sides[i] = (side){kn_session_create(context, &net.y, 1, &params), KN_OK, true};
        kn_graph_destroy(&net.graph);
    }
    for (int i = 0; i < 3; i++)
        assert_non_null(threads[i] = kn_thread_start(&host, run_side, &sides[i]));
    for (int i = 0; i < 3; i++)
        kn_thread_join(&host, &threads[i]);
    for (int i = 0; i < 3; i++) {
        session_good(sides[i].session, sides[i].status);
        assert_true(sides[i].right);
        kn_session_destroy(&sides[i].session);
    }
}

TEST(scalars_change_in_the_order_of_the_runs) {
    kn_context *context = *state;
    kn_graph *graph = kn_graph_create(NULL);
    kn_initializer two = {KN_INITIALIZER_FILL, 2};
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "3");
    kn_value *rate = kn_parameter(graph, "rate", KN_FLOAT32, "", &two);
    kn_value *y = kn_name(kn_mul(x, rate), "y");
    kn_session *session = kn_session_create(context, &y, 1, NULL);
    kn_graph_destroy(&graph);
    float xs[3] = {1, 2, 3}, got[3];
    kn_feed feed = {"x", xs, sizeof xs};
    kn_buffer *places[6] = {NULL};
    kn_error error = {0};
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_set_scalar(session, "rate", 1), "'rate'", NULL);
    session_good(session, kn_session_compile(session, NULL, 0));
    session_good(session, kn_session_set_scalar(session, "rate", 0.5)); /* before it has memory */
    for (int i = 0; i < 6; i++) {
        assert_int_equal(kn_buffer_create(context, sizeof got, &places[i], &error), KN_OK);
        if (i) session_good(session, kn_session_set_scalar(session, "rate", i));
        session_good(session, kn_session_fetch_buffer(session, "y", places[i]));
        session_good(session, kn_session_run(session, &feed, 1, NULL, 0));
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(
            kn_queue_read(context, 0, places[i], 0, got, sizeof got, true, (kn_event){NULL}, NULL, &error),
            KN_OK);
        for (int k = 0; k < 3; k++)
            assert_true(got[k] == xs[k] * (i ? (float)i : 0.5f));
        kn_buffer_destroy(&places[i]);
    }
    session_bad(session, KN_ERROR_NOT_FOUND, kn_session_set_scalar(session, "nothing", 1), "'nothing'", NULL);
    kn_session_destroy(&session);
}

TEST(only_scalars_are_set_as_scalars) {
    adder made = adder_make("5");
    kn_session *session = adder_session(*state, &made);
    session_good(session, kn_session_compile(session, NULL, 0));
    session_bad(session, KN_ERROR_ARGUMENT, kn_session_set_scalar(session, "sum", 1), "'sum'", NULL);
    kn_session_destroy(&session);
}

/* Several steps of several kinds. */
TEST(runs_allocate_nothing) {
    kn_context *context = *state;
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *input = kn_input(graph, "x", KN_FLOAT32, "n,6");
    kn_value *w = kn_parameter(graph, "w", KN_FLOAT32, "6,4", NULL);
    kn_value *hidden = kn_tanh(kn_matmul(kn_scale(input, 2), w, false, false));
    kn_value *values[] = {kn_name(hidden, "hidden"), kn_name(kn_mean(hidden, NULL, false), "loss")};
    if (kn_graph_status(graph)) fail_msg("%s", kn_graph_error(graph));
    kn_session_request request = {.context = context, .values = values, .count = 2, .extend = NULL};
    kn_session *session = kn_session_open(&request);
    kn_graph_destroy(&graph);
    session_good(session, kn_session_status(session));
    session_good(session, kn_session_bind(session, "n", 8));
    float x[48], loss, first = 0;
    fill_numbers(x, 48, 1);
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"loss", &loss, sizeof loss};
    for (int run = 0; run < 20; run++) {
        if (run == 3) wrapped_reset();
        session_good(session, kn_session_bind(session, "n", 8)); /* as a trainer does for each batch */
        bool reads = run % 3 != 1;
        session_good(session, kn_session_run(session, &feed, 1, &fetch, reads ? 1 : 0));
        if (run == 0) first = loss;
        if (loss != first) fail_msg("run %d: the loss is %g, it was %g", run, (double)loss, (double)first);
    }
    session_good(session, kn_session_set_scalar(session, "w", 1) == KN_ERROR_ARGUMENT
                              ? kn_session_wait(session)
                              : KN_ERROR_INTERNAL);
    assert_int_equal(wrapped_calls.memory, 0);
    assert_int_equal(wrapped_calls.buffers, 0);
    assert_int_equal(wrapped_calls.slices, 0);
    assert_int_equal(wrapped_calls.kernels, 0);
    assert_int_equal(wrapped_calls.builds, 0);
    /* Only the steps that read the input get other arguments. */
    assert_in_range(wrapped_calls.arguments, 17, 17 * 4);
    kn_session_destroy(&session);
}

/* The first device found, for a program with its own context. */
static cl_device_id any_device(void) {
    cl_platform_id platforms[8];
    cl_uint count = 0;
    cl_device_id device = NULL;
    clGetPlatformIDs(8, platforms, &count);
    for (cl_uint i = 0; i < count && i < 8 && !device; i++)
        clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    return device;
}

/* Drivers keep a queue's last command, with all that it refers to, for a while: so the guest runs a little
 * work of another kind before it counts. */
static void count_references(cl_context context, cl_command_queue queue, cl_uint counts[2]) {
    cl_int zero = 0, code;
    cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof zero, NULL, &code);
    assert_int_equal(clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, sizeof zero, &zero, 0, NULL, NULL),
                     CL_SUCCESS);
    clFinish(queue);
    clReleaseMemObject(memory);
    clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof counts[0], &counts[0], NULL);
    clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof counts[1], &counts[1], NULL);
}

TEST(a_callers_queue_is_used_and_left_as_it_was) {
    cl_int code;
    cl_device_id device = any_device();
    assert_non_null(device);
    cl_context given = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queue = clCreateCommandQueue(given, device, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_uint before[2], after[2];
    count_references(given, queue, before);
    kn_context_params params = device_params();
    kn_context *context = kn_context_create_opencl(&params, given, device, queue);
    if (kn_context_status(context)) fail_msg("%s", kn_context_error(context));
    adder made = adder_make("7");
    kn_session *session = adder_session(context, &made);
    float x[7] = {1, 2, 3, 4, 5, 6, 7}, total[7];
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"total", total, sizeof total};
    for (int run = 1; run <= 6; run++)
        session_good(session, kn_session_run(session, &feed, 1, &fetch, run % 2 ? 0 : 1));
    for (int i = 0; i < 7; i++)
        assert_true(total[i] == 6 * x[i]);
    kn_session_destroy(&session);
    kn_context_destroy(&context);
    /* Some drivers release it in another thread. */
    double start = kn_clock();
    do
        count_references(given, queue, after);
    while (kn_clock() - start < 5 && memcmp(after, before, sizeof after));
    assert_int_equal(after[0], before[0]);
    assert_int_equal(after[1], before[1]);
    clReleaseCommandQueue(queue);
    clReleaseContext(given);
}

/* In training two runs over the halves of sequences compute the same as one run over all; outside training
 * each starts with zeros. */
TEST(recurrences_go_on) {
    enum { BATCH = 2, LENGTH = 6, INPUTS = 3, UNITS = 5, HALF = LENGTH / 2 };
    kn_context *context = *state;
    float x[BATCH][LENGTH][INPUTS], half[BATCH][HALF][INPUTS];
    float whole[BATCH][LENGTH][UNITS], got[BATCH][HALF][UNITS], first[BATCH][HALF][UNITS];
    fill_numbers(&x[0][0][0], BATCH * LENGTH * INPUTS, 4);
    for (int training = 0; training < 2; training++) {
        kn_graph *graph = kn_graph_create(NULL);
        kn_recurrent_params params = {.size = sizeof params, .name = "walk", .stateful = true};
        kn_value *y = kn_lstm(kn_input(graph, "x", KN_FLOAT32, "2,length,3"), UNITS, &params);
        kn_session_params wanted;
        kn_session_params_init(&wanted);
        wanted.seed = 3;
        wanted.training = training;
        kn_session *one = kn_session_create(context, &y, 1, &wanted);
        kn_session *two = kn_session_create(context, &y, 1, &wanted);
        kn_graph_destroy(&graph);
        kn_feed feed = {"x", x, sizeof x}, part = {"x", half, sizeof half};
        kn_fetch fetch = {"walk", whole, sizeof whole}, fetch_part = {"walk", got, sizeof got};
        session_good(one, kn_session_run(one, &feed, 1, &fetch, 1));
        for (int run = 0; run < 2; run++) {
            for (int b = 0; b < BATCH; b++)
                memcpy(half[b], x[b][run * HALF], sizeof half[b]);
            session_good(two, kn_session_run(two, &part, 1, &fetch_part, 1));
            if (run == 0) memcpy(first, got, sizeof first);
            float apart = 0;
            for (int i = 0; i < BATCH * HALF * UNITS; i++) {
                int b = i / (HALF * UNITS), t = i / UNITS % HALF, u = i % UNITS;
                apart = fmaxf(apart, fabsf(got[b][t][u] - whole[b][run * HALF + t][u]));
            }
            assert_true(run == 0 || training ? apart < 1e-5f : apart > 1e-3f);
        }
        if (training) { /* with the state reset it starts again */
            float zeros[BATCH][UNITS] = {{0}};
            kn_states *states = kn_session_states(two);
            states_good(states, kn_states_set(states, "walk.state", NULL, zeros, sizeof zeros));
            states_good(states, kn_states_set(states, "walk.cells", NULL, zeros, sizeof zeros));
        }
        for (int b = 0; b < BATCH; b++)
            memcpy(half[b], x[b][0], sizeof half[b]);
        session_good(two, kn_session_run(two, &part, 1, &fetch_part, 1));
        assert_memory_equal(got, first, sizeof first);
        kn_session_destroy(&one);
        kn_session_destroy(&two);
    }
}

TEST_FILE(test_running, device_setup, device_teardown)
