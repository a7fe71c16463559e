/* Kernels: their arguments and how they are launched. */
#include "device_tests.h"

#include <string.h>

static const kn_event none = {NULL};

TEST(mistakes_are_named) {
    kn_context *context = open_context(NULL);
    kn_program *program = twice_program(context);
    kn_kernel *kernel = NULL;
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    assert_int_equal(kn_kernel_create(context, program, "thrice", &kernel, &error), KN_ERROR_DEVICE);
    assert_null(kernel);
    assert_non_null(strstr(error.text, "\"thrice\" of \"twice.cl\""));
    assert_int_equal(kn_kernel_create(context, program, "twice", &kernel, &error), KN_OK);
    assert_int_equal(kn_buffer_create(context, 64, &buffer, &error), KN_OK);

    kn_launch launch = {.dimensions = 1, .global = {16, 1, 1}, .local = {1, 1, 1}};
    assert_int_not_equal(kn_kernel_launch(context, kernel, &launch, "twice", &error),
                         KN_OK); /* no argument set */
    assert_non_null(strstr(error.text, "twice"));
    cl_int number = 1;
    assert_int_equal(kn_kernel_set_bytes(kernel, 7, &number, sizeof number, &error), KN_ERROR_DEVICE);
    assert_non_null(strstr(error.text, "argument 7"));
    assert_int_equal(kn_kernel_set_buffer(kernel, 0, buffer, &error), KN_OK);

    static const kn_launch wrong[] = {
        {.dimensions = 0, .global = {16, 1, 1}, .local = {1, 1, 1}},
        {.dimensions = 4, .global = {16, 1, 1}, .local = {1, 1, 1}},
        {.dimensions = 1, .global = {16, 1, 1}, .local = {3, 1, 1}},
        {.dimensions = 1, .global = {16, 1, 1}, .local = {0, 1, 1}},
        {.dimensions = 2, .global = {4, 5, 1}, .local = {1, 2, 1}},
    };
    for (size_t i = 0; i < KN_COUNT_OF(wrong); i++) {
        assert_int_equal(kn_kernel_launch(context, kernel, &wrong[i], "twice", &error), KN_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, "\"twice\""));
    }
    size_t most = kn_kernel_work_group_items(kernel);
    assert_true(most >= 1);
    kn_launch large = {.dimensions = 1, .global = {2 * most, 1, 1}, .local = {2 * most, 1, 1}};
    assert_int_equal(kn_kernel_launch(context, kernel, &large, "twice", &error), KN_ERROR_ARGUMENT);
    kn_kernel_destroy(&kernel);
    kn_kernel_destroy(&kernel);
    kn_kernel_destroy(NULL);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(zero_work_launches_nothing) {
    kn_context *context = open_context(NULL);
    kn_kernel *kernel = NULL;
    kn_error error = {0};
    assert_int_equal(kn_kernel_create(context, twice_program(context), "twice", &kernel, &error), KN_OK);
    wrapped_reset();
    wrapped_calls.fail_name = "clEnqueueNDRangeKernel";
    wrapped_calls.fail_code = CL_INVALID_GLOBAL_WORK_SIZE;
    kn_launch launch = {.dimensions = 3, .global = {16, 0, 4}, .local = {4, 1, 1}};
    assert_int_equal(kn_kernel_launch(context, kernel, &launch, "twice", &error), KN_OK);
    wrapped_reset();
    kn_kernel_destroy(&kernel);
    kn_context_destroy(&context);
}

TEST(work_groups_share_local_memory) {
    enum { GROUPS = 3 };
    kn_context *context = open_context(NULL);
    kn_kernel *kernel = NULL;
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    assert_int_equal(kn_kernel_create(context, twice_program(context), "grouped", &kernel, &error), KN_OK);
    size_t local = kn_kernel_work_group_items(kernel) < 16 ? kn_kernel_work_group_items(kernel) : 16;
    cl_int got[GROUPS * 16];
    assert_int_equal(kn_buffer_create(context, sizeof got, &buffer, &error), KN_OK);
    assert_int_equal(kn_kernel_set_buffer(kernel, 0, buffer, &error), KN_OK);
    assert_int_equal(kn_kernel_set_local(kernel, 1, local * sizeof(cl_int), &error), KN_OK);
    kn_launch launch = {.dimensions = 1, .global = {GROUPS * local, 1, 1}, .local = {local, 1, 1}};
    if (kn_kernel_launch(context, kernel, &launch, "grouped", &error)) fail_msg("%s", error.text);
    assert_int_equal(kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, got, GROUPS * local * sizeof(cl_int),
                                   true, none, NULL, &error),
                     KN_OK);
    for (size_t i = 0; i < GROUPS * local; i++)
        assert_int_equal(got[i], local - 1 - i % local);
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(failing_drivers_are_reported) {
    kn_context *context = open_context(NULL);
    kn_kernel *kernel = NULL;
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    float values[4] = {1, 2, 3, 4};
    assert_int_equal(kn_buffer_create(context, 16, &buffer, &error), KN_OK);
    assert_int_equal(kn_kernel_create(context, twice_program(context), "twice", &kernel, &error), KN_OK);
    assert_int_equal(kn_kernel_set_buffer(kernel, 0, buffer, &error), KN_OK);
    kn_launch launch = {.dimensions = 1, .global = {4, 1, 1}, .local = {1, 1, 1}};
    kn_event event = {NULL};
    wrapped_reset();
    wrapped_calls.fail_code = CL_OUT_OF_RESOURCES;
    wrapped_calls.fail_name = "clEnqueueNDRangeKernel";
    assert_int_equal(kn_kernel_launch(context, kernel, &launch, "twice", &error), KN_ERROR_DEVICE);
    assert_non_null(strstr(error.text, "CL_OUT_OF_RESOURCES"));
    wrapped_calls.fail_name = "clEnqueueWriteBuffer";
    assert_int_equal(kn_queue_write(context, 0, buffer, 0, values, 16, true, none, &event, &error),
                     KN_ERROR_DEVICE);
    assert_null(event.handle);
    wrapped_calls.fail_name = "clEnqueueReadBuffer";
    assert_int_equal(kn_queue_read(context, 0, buffer, 0, values, 16, true, none, &event, &error),
                     KN_ERROR_DEVICE);
    wrapped_calls.fail_name = "clEnqueueFillBuffer";
    assert_int_equal(kn_queue_fill(context, 0, buffer, 0, 16, values, 4, &event, &error), KN_ERROR_DEVICE);
    wrapped_calls.fail_name = "clEnqueueCopyBuffer";
    assert_int_equal(kn_queue_copy(context, 0, buffer, 0, buffer, 8, 8, none, &event, &error),
                     KN_ERROR_DEVICE);
    wrapped_calls.fail_name = "clEnqueueMarkerWithWaitList";
    assert_int_equal(kn_queue_mark(context, 0, &event, &error), KN_ERROR_DEVICE);
    assert_null(event.handle);
    wrapped_reset();
    /* The context still works. */
    assert_int_equal(kn_queue_write(context, 0, buffer, 0, values, 16, true, none, NULL, &error), KN_OK);
    assert_int_equal(kn_kernel_launch(context, kernel, &launch, "twice", &error), KN_OK);
    assert_int_equal(kn_queue_read(context, 0, buffer, 0, values, 16, true, none, NULL, &error), KN_OK);
    assert_true(values[3] == 8.0f);
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST_FILE(test_launch, NULL, NULL)
