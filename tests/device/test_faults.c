/* Each allocation and each OpenCL call fails once: an error is returned, nothing leaks, and everything works
 * afterwards. */
#include "device_tests.h"

#include <stdlib.h>
#include <string.h>

/* A short life of a context: programs, a block, a slice, work. Returns the first failure. */
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
    if (!status) status = kn_program_get_all(context, requests, 2, NULL, programs, NULL, &error);
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
        /* A failure has a message. */
        assert_true(strlen(error.text) > 0 || strlen(kn_context_error(context)) > 0);
    }
    kn_buffer_destroy(&slice);
    kn_buffer_destroy(&block);
    kn_kernel_destroy(&kernel);
    kn_context_destroy(&context);
    return status;
}

TEST(every_allocation_may_fail) {
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
            /* What is optional may be dropped; otherwise the error is out of memory, or no device found
             * because of it. */
            if (status != KN_OK && status != KN_ERROR_MEMORY)
                fail_msg("allocation %zu of %zu: %s", at, calls, kn_status_name(status));
            failed += status != KN_OK;
            if (memory.live != 0) fail_msg("allocation %zu of %zu: %zu blocks leak", at, calls, memory.live);
        }
        assert_true(failed > 5);
    }
    test_folder_remove(folder);
}

TEST(every_opencl_call_may_fail) {
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

static bool same_capabilities(const kn_context *context, const kn_capabilities *expected) {
    const kn_capabilities *found = kn_context_capabilities(context);
    return found->wide_vector == expected->wide_vector && found->vector_width == expected->vector_width &&
           found->double_precision == expected->double_precision &&
           found->integer_dot == expected->integer_dot;
}

/* A transient full disk must not decide about the device permanently. */
TEST(failed_trials_are_repeated) {
    static const char *const functions[] = {"clBuildProgram", "clCreateKernel", "clCreateBuffer",
                                            "clEnqueueNDRangeKernel", "clEnqueueReadBuffer"};
    kn_context *context = open_context(NULL);
    const kn_capabilities sound = *kn_context_capabilities(context);
    kn_context_destroy(&context);
    for (size_t i = 0; i < KN_COUNT_OF(functions); i++) {
        char *folder = test_folder_make();
        kn_context_params params = test_params();
        params.cache_folder = folder;
        wrapped_reset();
        wrapped_calls.fail_name = functions[i];
        wrapped_calls.fail_code = CL_OUT_OF_RESOURCES;
        context = kn_context_create(&params);
        assert_non_null(context);
        kn_context_destroy(&context);
        wrapped_reset();
        context = open_context(&params);
        if (!same_capabilities(context, &sound))
            fail_msg("%s failed once, and is believed for good", functions[i]);
        kn_context_destroy(&context);
        test_folder_remove(folder);
    }
}

static void check_numbers(const kn_capabilities *c) {
    assert_in_range(c->compute_units, 1, 1 << 16);
    assert_in_range(c->work_group_items, 1, 1 << 20);
    assert_in_range(c->memory_bytes, 1 << 20, 1ull << 50);
    assert_in_range(c->largest_block_bytes, 1 << 20, c->memory_bytes);
    assert_in_range(c->local_bytes, 0, 1 << 30);
    assert_in_range(c->alignment_bytes, 64, 1 << 20);
    assert_in_range(c->vector_width, 1, 16);
}

/* A context works whatever number the driver reports for its device. */
TEST(reported_numbers_are_checked) {
    static const cl_device_info questions[] = {
        CL_DEVICE_MAX_COMPUTE_UNITS,   CL_DEVICE_MAX_CLOCK_FREQUENCY, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT,
        CL_DEVICE_MEM_BASE_ADDR_ALIGN, CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
        CL_DEVICE_GLOBAL_MEM_SIZE,     CL_DEVICE_LOCAL_MEM_SIZE};
    static const cl_ulong lies[] = {0, UINT64_MAX, 1ull << 63};
    for (size_t i = 0; i < KN_COUNT_OF(questions); i++)
        for (size_t j = 0; j < KN_COUNT_OF(lies); j++) {
            wrapped_reset();
            wrapped_calls.lie_about = questions[i];
            wrapped_calls.lie = lies[j];
            kn_context *context = open_context(NULL);
            check_numbers(kn_context_capabilities(context));
            kn_context_destroy(&context);
        }
    wrapped_reset();
}

/* The driver may still read or write the caller's memory: the call returns only when the queues have
 * finished. */
TEST(failed_waits_leave_no_work_running) {
    kn_context *context = open_context(NULL);
    kn_error error = {0};
    kn_event none = {NULL}, done;
    kn_buffer *buffer = NULL;
    float values[4] = {1, 2, 3, 4};
    assert_int_equal(kn_buffer_create(context, sizeof values, &buffer, &error), KN_OK);
    for (int way = 0; way < 3; way++) {
        kn_status status = KN_OK;
        wrapped_reset();
        wrapped_calls.fail_name = way == 1 ? "clEnqueueReadBuffer" : "clWaitForEvents";
        wrapped_calls.fail_code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        if (way == 0)
            status = kn_queue_write(context, KN_QUEUE_TRANSFER, buffer, 0, values, sizeof values, true, none,
                                    NULL, &error);
        else if (way == 1)
            status = kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, values, sizeof values, true, none,
                                   NULL, &error);
        else {
            assert_int_equal(kn_queue_write(context, KN_QUEUE_TRANSFER, buffer, 0, values, sizeof values,
                                            false, none, &done, &error),
                             KN_OK);
            status = kn_event_wait(context, done, &error);
            kn_event_release(&done);
        }
        assert_int_equal(status, KN_ERROR_DEVICE);
        assert_int_equal(wrapped_calls.finishes, 2); /* of both queues */
    }
    wrapped_reset();
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(lists_survive_failing_allocations) {
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

TEST_FILE(test_faults, NULL, NULL)
