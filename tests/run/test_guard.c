/* The guard of a session: a kernel that writes outside its value is detected, with the value's name. The
 * kernel is the library's pointwise kernel, modified in a folder of the test to process one element too many.
 */
#include <stdlib.h>
#include <string.h>

#include "../ops/changed_kernels.h"
#include "run_tests.h"

/* y = relu(x) with x (7), guarded; returns the session, which the caller destroys. */
static kn_session *guarded_session(kn_context *context, uint64_t guard, kn_status expected) {
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *y = kn_output(kn_relu(kn_input(graph, "x", KN_FLOAT32, "7")), "y");
    kn_session_request request = {.context = context, .values = &y, .count = 1, .guard = guard};
    kn_session *session = kn_session_open(&request);
    session_good(session, kn_session_status(session));
    kn_graph_destroy(&graph);
    float x[7] = {1, -2, 3, -4, 5, -6, 7}, result[7] = {0};
    kn_feed feed = {"x", x, sizeof x};
    kn_fetch fetch = {"y", result, sizeof result};
    for (int run = 0; run < 2; run++) {
        kn_status status = kn_session_run(session, &feed, 1, &fetch, 1);
        if (status != expected)
            fail_msg("%s instead of %s: %s", kn_status_name(status), kn_status_name(expected),
                     kn_session_error(session));
        for (int i = 0; i < 7; i++)
            assert_true(result[i] == (x[i] > 0 ? x[i] : 0));
    }
    return session;
}

TEST(right_kernels_pass) {
    kn_session *session = guarded_session(*state, 1000, KN_OK);
    kn_session_destroy(&session);
}

TEST(wrong_kernels_are_found) {
    char *folder = test_folder_make();
    link_kernels(KERNEL_FOLDER, folder);
    change_kernel(
        folder, "pointwise/pointwise.cl", "static void kn_walk(const KN_INDEX count KN_PARAMETERS) {",
        "static void kn_walk(const KN_INDEX right KN_PARAMETERS) {\n const KN_INDEX count = right + 1;");
    kn_context_params params = device_params();
    params.kernel_folder = folder;
    params.cache_folder = NULL;
    kn_context *context = device_open(&params);
    kn_session *session = guarded_session(context, 1000, KN_ERROR_MISMATCH);
    session_bad(session, KN_ERROR_MISMATCH, KN_ERROR_MISMATCH, "'y'", "28 bytes", "byte 0 after", NULL);
    kn_session_destroy(&session);
    /* Without a guard the error is not detected. */
    session = guarded_session(context, 0, KN_OK);
    kn_session_destroy(&session);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

TEST_FILE(test_guard, device_setup, device_teardown)
