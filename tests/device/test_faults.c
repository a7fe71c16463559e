/* Each allocation and each OpenCL call fails once: an error comes back, nothing leaks, nothing is left
 * broken. */
#include "device_tests.h"

#include <stdlib.h>
#include <string.h>

/* A small life of a context: programs, a block, a slice, work. Answers the first failure. */
static kn_status live(const kn_context_params *params, bool *made) {
    kn_context *context = kn_context_create(params);
    *made = context != NULL;
    if (!context) return KN_ERROR_MEMORY;
    kn_program *programs[2] = {NULL};
    kn_kernel *kernel = NULL;
    kn_buffer *block = NULL, *slice = NULL;
    kn_error error = {0};
    kn_event none = {NULL};
    float values[4] = {1, 2, 3, 4};
    kn_program_request requests[2] = {{.file = "probe/matmul.cl"},
                                      {.file = "probe/matmul.cl", .prelude = "#define X"}};
    kn_status status = kn_context_status(context);
    if (!status) status = kn_program_get_all(context, requests, 2, NULL, programs, &error);
    if (!status) status = kn_program_get_source(context, "twice.cl", twice_source, &programs[0], &error);
    if (!status) status = kn_kernel_create(context, programs[0], "twice", &kernel, &error);
    if (!status) status = kn_buffer_create(context, 4096, &block, &error);
    if (!status) status = kn_buffer_slice(block, 0, sizeof values, &slice, &error);
    if (!status)
        status = kn_queue_write(context, 1, slice, 0, values, sizeof values, true, none, NULL, &error);
    if (!status) {
        kn_launch launch = {.dimensions = 1, .global = {4, 1, 1}, .local = {1, 1, 1}};
        status = kn_kernel_set_buffer(kernel, 0, slice, &error);
        if (!status) status = kn_kernel_launch(context, kernel, &launch, "twice", &error);
    }
    if (!status)
        status = kn_queue_read(context, 0, slice, 0, values, sizeof values, true, none, NULL, &error);
    if (!status) {
        assert_true(values[3] == 8.0f);
        size_t count;
        kn_context_timeline(context, &count);
    } else {
        /* A failure says something. */
        assert_true(strlen(error.text) > 0 || strlen(kn_context_error(context)) > 0);
    }
    kn_buffer_destroy(&slice);
    kn_buffer_destroy(&block);
    kn_kernel_destroy(&kernel);
    kn_context_destroy(&context);
    return status;
}

static void every_allocation_may_fail(void **state) {
    char *folder = test_folder_make();
    failing memory = {0};
    bool made;
    for (int cached = 0; cached < 2; cached++) {
        kn_context_params params = test_params();
        params.allocator = failing_allocator(&memory);
        params.timeline = true;
        params.cache_folder = cached ? folder : NULL;
        /* Once with a cold cache, so that the calls to fail below find a warm one. */
        assert_int_equal(live(&params, &made), KN_OK);
        memory.calls = 0;
        assert_int_equal(live(&params, &made), KN_OK);
        size_t calls = memory.calls, step = cached && test_cases_wanted() == TEST_ALL ? 1 : 7, failed = 0;
        assert_true(calls > 20);
        for (size_t at = 1; at <= calls; at += step) {
            memory.calls = 0;
            memory.fail_at = at;
            kn_status status = live(&params, &made);
            memory.fail_at = 0;
            /* What is only kept for later may be dropped; all else is out of memory, or of no device seen for
             * it. */
            if (status != KN_OK && status != KN_ERROR_MEMORY)
                fail_msg("allocation %zu of %zu: %s", at, calls, kn_status_name(status));
            failed += status != KN_OK;
            if (memory.live != 0) fail_msg("allocation %zu of %zu: %zu blocks leak", at, calls, memory.live);
        }
        assert_true(failed > 5);
    }
    test_folder_remove(folder);
}

static void every_opencl_call_may_fail(void **state) {
    char *folder = test_folder_make();
    failing memory = {0};
    bool made;
    kn_context_params params = test_params();
    params.allocator = failing_allocator(&memory);
    params.cache_folder = folder;
    assert_int_equal(live(&params, &made), KN_OK);
    wrapped_reset();
    assert_int_equal(live(&params, &made), KN_OK);
    int calls = wrapped_calls.calls, failed = 0, step = test_cases_wanted() == TEST_ALL ? 1 : 5;
    for (int at = 1; at <= calls; at += step) {
        wrapped_reset();
        wrapped_calls.fail_at = at;
        wrapped_calls.fail_code = CL_OUT_OF_HOST_MEMORY;
        kn_status status = live(&params, &made);
        assert_true(made);
        failed += status != KN_OK;
        if (memory.live != 0)
            fail_msg("OpenCL call %d (%s): %zu blocks leak", at, wrapped_calls.failed, memory.live);
    }
    assert_true(failed > 1);
    wrapped_reset();
    assert_int_equal(live(&params, &made), KN_OK);
    test_folder_remove(folder);
}

static void lists_survive_failing_allocations(void **state) {
    failing memory = {0};
    kn_allocator allocator = failing_allocator(&memory);
    kn_device_list *list = kn_device_list_create(&allocator, NULL);
    assert_non_null(list);
    kn_device_list_destroy(&list);
    size_t calls = memory.calls;
    assert_true(calls >= 3);
    for (size_t at = 1; at <= calls; at++) {
        memory.calls = 0;
        memory.fail_at = at;
        assert_null(list = kn_device_list_create(&allocator, NULL));
        assert_int_equal(memory.live, 0);
    }
}

int test_faults(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_opencl_call_may_fail),
        cmocka_unit_test(lists_survive_failing_allocations),
    };
    return cmocka_run_group_tests_name("device: faults", tests, NULL, NULL);
}
