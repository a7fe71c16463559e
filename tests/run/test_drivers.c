/* Drivers of other devices: small work-groups, and programs that do not compile, end the process or
 * compute wrongly. wrapped.c simulates them on the selected device. Each is started twice with the same
 * cache. */
#include "run_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 64 };

static void check_rules(void) {
    assert_int_equal(wrapped_calls.null_arguments, 0);
    assert_int_equal(wrapped_calls.too_many_groups, 0);
    assert_int_equal(wrapped_calls.too_large_groups, 0);
    assert_true(wrapped_calls.launches > 0);
}

static test_part wanted;

static bool is_quick(const char *name) {
    return !strcmp(name, "matmul") || !strcmp(name, "softmax") || !strcmp(name, "sum") ||
           !strcmp(name, "transpose") || !strcmp(name, "layer_norm");
}

/* The cases of the operators that are wanted: at least one of each is computed, and all that are are right.
 */
static void verify_wanted(kn_context *context, const kn_verify_params *verify, const verify_outcome *seen) {
    for (size_t first = 0, next, row = 0; first < kn_verify_case_count(); first = next, row++) {
        const char *name = kn_verify_case_name_at(first);
        const int before = seen->right;
        const bool leave = wanted.parts ? !test_part_has(wanted, row) : !is_quick(name);
        for (next = first; next < kn_verify_case_count() && !strcmp(kn_verify_case_name_at(next), name);
             next++) {
            kn_status status = leave ? KN_OK : kn_verify_case_at(context, next, verify);
            if (status || seen->failures[0]) fail_msg("%s", seen->failures);
        }
        if (!leave && seen->right == before) fail_msg("no case of %s was computed", name);
    }
}

/* The case table, with the device's own work-groups and with small ones; wide-vector kernels have one item.
 * Without a part: a few operators, with small ones. */
static void every_launch_keeps_the_rules(void **state) {
    if (test_cases_wanted() == TEST_SMALLEST) skip_because(TOO_LONG_FOR_A_SIMULATOR);
    static const struct {
        int kind, thoroughness;
        size_t most_items;
    } ways[] = {{2, 2, 64}, {1, 1, 0}, {2, 1, 0}};
    for (size_t i = 0; i < (wanted.parts ? KN_COUNT_OF(ways) : 1); i++) {
        verify_outcome seen = {.right = 0};
        kn_context_params params = device_params();
        kn_verify_params verify;
        kn_verify_params_init(&verify);
        verify.thoroughness = ways[i].thoroughness;
        verify.report = take_verify_result;
        verify.user = &seen;
        wrapped_reset();
        wrapped_calls.most_items = ways[i].most_items;
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.kernels = ways[i].kind;
        kn_context *context = device_open(&params);
        verify_wanted(context, &verify, &seen);
        check_rules();
        kn_context_destroy(&context);
    }
    wrapped_reset();
}

/* result = a b, and whether it is right. */
static bool product_is_right(kn_context *context) {
    static float a[SIDE * SIDE], b[SIDE * SIDE], y[SIDE * SIDE];
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *left = kn_input(graph, "a", KN_FLOAT32, "64,64"),
             *right = kn_input(graph, "b", KN_FLOAT32, "64,64"),
             *result = kn_output(kn_matmul(left, right, false, false), "y");
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(i * 7 % 5 - 2);
        b[i] = (float)(i * 11 % 7 - 3);
        y[i] = 1e9f;
    }
    kn_feed feeds[] = {{"a", a, sizeof a}, {"b", b, sizeof b}};
    kn_fetch fetch = {"y", y, sizeof y};
    kn_session *session = kn_session_create(context, &result, 1, NULL);
    session_good(session, kn_session_run(session, feeds, 2, &fetch, 1));
    kn_session_destroy(&session);
    kn_graph_destroy(&graph);
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += a[row * SIDE + k] * b[k * SIDE + column];
            if (!(y[row * SIDE + column] == sum)) return false;
        }
    return true;
}

static void open_and_multiply(void *params) {
    kn_context *context = device_open(params);
    product_is_right(context);
    kn_context_destroy(&context);
}

static void each_fault_is_survived_twice(void **state) {
    static const enum wrapped_fault faults[] = {WRAPPED_DIES, WRAPPED_FAILS, WRAPPED_LIES};
    for (size_t f = 0; f < KN_COUNT_OF(faults); f++) {
        char *folder = test_folder_make();
        kn_context_params params = device_params();
        params.cache_folder = folder;
        params.device = params.device ? params.device : "0";
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.kernels = KN_KERNELS_CPU;
        wrapped_reset();
        wrapped_calls.text = "matmul/wide.cl";
        wrapped_calls.fault = faults[f];
        /* In this order, since a driver that was used before a fork may not work after it. */
        if (faults[f] == WRAPPED_DIES) assert_true(test_aborts(open_and_multiply, &params));
        for (int start = 0; start < 2; start++) {
            wrapped_calls.faults = 0;
            kn_context *context = device_open(&params);
            if (!kn_context_capabilities(context)->wide_vector) skip_because("no wide-vector device");
            assert_true(product_is_right(context));
            assert_int_equal(device_counts(context).variants_refused, 1);
            /* What ended the process or computed wrongly is not tried again; what did not compile is. */
            assert_int_equal(wrapped_calls.faults > 0,
                             faults[f] == WRAPPED_FAILS || (faults[f] == WRAPPED_LIES && start == 0));
            kn_context_destroy(&context);
        }
        check_rules();
        wrapped_reset();
        test_folder_remove(folder);
    }
}

/* A pointwise kernel of many operands and axes is split before it has too many arguments. */
static void arguments_of_high_rank_fit(void **state) {
    enum { COUNT = 18, ELEMENTS = 256 };
    static const char *const shapes[] = {"2,1,2,1,2,1,2,1", "1,2,1,2,1,2,1,2", "2,2,1,1,2,2,1,1"};
    float values[ELEMENTS], y[ELEMENTS];
    for (int wide = 0; wide < 2; wide++) {
        kn_context_params params = device_params();
        kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
        params.debug = &debug;
        debug.wide_indices = wide;
        kn_context *context = device_open(&params);
        kn_graph *graph = kn_graph_create(NULL);
        kn_feed feeds[COUNT];
        char names[COUNT][8];
        kn_value *sum = NULL;
        for (int i = 0; i < COUNT; i++) {
            snprintf(names[i], sizeof names[i], "x%d", i);
            kn_value *x = kn_input(graph, names[i], KN_FLOAT32, i ? shapes[i % 3] : "2,2,2,2,2,2,2,2");
            feeds[i] = (kn_feed){names[i], values, (i ? 16 : ELEMENTS) * sizeof *values};
            sum = sum ? kn_add(sum, x) : x;
        }
        for (int i = 0; i < ELEMENTS; i++)
            values[i] = 1;
        kn_output(sum, "y");
        kn_fetch fetch = {"y", y, sizeof y};
        kn_plan_info info = {.size = sizeof info};
        kn_session *session = kn_session_create(context, &sum, 1, NULL);
        session_good(session, kn_session_run(session, feeds, COUNT, &fetch, 1));
        session_good(session, kn_session_plan(session, &info));
        for (int i = 0; i < ELEMENTS; i++)
            assert_true(y[i] == COUNT);
        assert_int_equal(info.steps > 1, wide);
        kn_session_destroy(&session);
        kn_graph_destroy(&graph);
        kn_context_destroy(&context);
    }
}

/* With arguments PART PARTS, runs one of PARTS slices of the case table. */
int main(int argc, char **argv) {
    wanted = test_part_of(argc, argv);
    if (wanted.parts) {
        const struct CMUnitTest table[] = {cmocka_unit_test(every_launch_keeps_the_rules)};
        return cmocka_run_group_tests_name("run: drivers with faults", table, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_survived_twice),
        cmocka_unit_test(arguments_of_high_rank_fit),
        cmocka_unit_test(every_launch_keeps_the_rules),
    };
    return cmocka_run_group_tests_name("run: drivers with faults", tests, NULL, NULL);
}
