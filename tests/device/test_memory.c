/* Blocks and slices: limits, alignment, counters, and that slices do not overlap. */
#include "device_tests.h"

#include <stdlib.h>
#include <string.h>

static const kn_event none = {NULL};

static uint64_t device_bytes(kn_context *context) {
    kn_context_counts counts = {.size = sizeof counts};
    assert_int_equal(kn_context_get_counts(context, &counts), KN_OK);
    return counts.device_bytes;
}

TEST(blocks_have_any_size) {
    kn_context *context = open_context(NULL);
    kn_error error = {0};
    static const uint64_t sizes[] = {0, 1, 3, 63, 64, 65, 127, 4097, 1u << 20};
    uint64_t before = device_bytes(context);
    for (size_t i = 0; i < KN_COUNT_OF(sizes); i++) {
        kn_buffer *buffer = NULL;
        if (kn_buffer_create(context, sizes[i], &buffer, &error)) fail_msg("%s", error.text);
        assert_int_equal(kn_buffer_bytes(buffer), sizes[i]);
        assert_true(device_bytes(context) - before >= sizes[i] && device_bytes(context) > before);
        kn_buffer_destroy(&buffer);
        assert_null(buffer);
        assert_int_equal(device_bytes(context), before);
    }
    kn_context_counts counts = {.size = sizeof counts};
    kn_context_get_counts(context, &counts);
    assert_true(counts.device_bytes_peak >= 1u << 20);
    kn_buffer *buffer = NULL;
    kn_buffer_destroy(&buffer);
    kn_buffer_destroy(NULL);
    assert_int_equal(kn_buffer_bytes(NULL), 0);
    kn_context_destroy(&context);
}

/* Drivers that allocate a block at its first use fail when it is created, not in a later launch. */
TEST(blocks_of_a_gpu_are_allocated_at_once) {
    kn_context *context = open_context(NULL);
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    context->found.info.type = KN_DEVICE_GPU;
    context->capabilities.shares_memory = false;
    const uint64_t before = device_bytes(context);
    for (int turn = 0; turn < 2; turn++) {
        wrapped_reset();
        wrapped_calls.fail_name = turn ? "clFinish" : "clEnqueueFillBuffer";
        wrapped_calls.fail_code = CL_OUT_OF_RESOURCES;
        assert_int_equal(kn_buffer_create(context, 8u << 20, &buffer, &error), KN_ERROR_DEVICE_MEMORY);
        assert_null(buffer);
        assert_non_null(strstr(error.text, "8388608"));
        assert_non_null(strstr(error.text, "a smaller batch needs less"));
        assert_int_equal(device_bytes(context), before);
    }
    wrapped_reset();
    assert_int_equal(kn_buffer_create(context, 8u << 20, &buffer, &error), KN_OK);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(limits_are_kept_and_named) {
    kn_context_params params = test_params();
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.largest_block_bytes = 1000;
    kn_context *context = open_context(&params);
    assert_int_equal(kn_context_capabilities(context)->largest_block_bytes, 1000);
    kn_buffer *buffer = NULL;
    kn_error error = {0};
    assert_int_equal(kn_buffer_create(context, 1000, &buffer, &error), KN_OK);
    kn_buffer_destroy(&buffer);
    assert_int_equal(kn_buffer_create(context, 1001, &buffer, &error), KN_ERROR_DEVICE_MEMORY);
    assert_null(buffer);
    assert_non_null(strstr(error.text, "1001"));
    assert_non_null(strstr(error.text, "1000"));
    assert_int_equal(kn_buffer_create(context, UINT64_MAX, &buffer, &error), KN_ERROR_DEVICE_MEMORY);
    /* The sum of blocks does not exceed the device's memory. */
    context->capabilities.memory_bytes = device_bytes(context) + 1024;
    kn_buffer *second = NULL;
    assert_int_equal(kn_buffer_create(context, 512, &buffer, &error), KN_OK);
    assert_int_equal(kn_buffer_create(context, 1000, &second, &error), KN_ERROR_DEVICE_MEMORY);
    assert_null(second);
    assert_non_null(strstr(error.text, "1000 bytes, with 512 of 1024"));
    kn_buffer_destroy(&buffer);
    assert_int_equal(kn_buffer_create(context, 1000, &second, &error), KN_OK);
    kn_buffer_destroy(&second);
    kn_context_destroy(&context);
    /* A limit may lower it, but not raise it. */
    debug.largest_block_bytes = UINT64_MAX;
    context = open_context(&params);
    kn_context *unlimited = open_context(NULL);
    assert_int_equal(kn_context_capabilities(context)->largest_block_bytes,
                     kn_context_capabilities(unlimited)->largest_block_bytes);
    kn_context_destroy(&unlimited);
    kn_context_destroy(&context);
}

TEST(a_driver_without_memory_is_survived) {
    kn_context *context = open_context(NULL);
    kn_buffer *buffer = NULL, *slice = NULL;
    kn_error error = {0};
    uint64_t before = device_bytes(context);
    static const struct {
        cl_int code;
        kn_status status;
    } cases[] = {{CL_MEM_OBJECT_ALLOCATION_FAILURE, KN_ERROR_DEVICE_MEMORY},
                 {CL_OUT_OF_RESOURCES, KN_ERROR_DEVICE_MEMORY},
                 {CL_OUT_OF_HOST_MEMORY, KN_ERROR_MEMORY},
                 {CL_INVALID_VALUE, KN_ERROR_DEVICE}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        wrapped_reset();
        wrapped_calls.fail_name = "clCreateBuffer";
        wrapped_calls.fail_code = cases[i].code;
        assert_int_equal(kn_buffer_create(context, 4096, &buffer, &error), cases[i].status);
        assert_null(buffer);
        assert_non_null(strstr(error.text, "4096"));
        assert_int_equal(strstr(error.text, "smaller batch") != NULL,
                         cases[i].status == KN_ERROR_DEVICE_MEMORY);
        assert_int_equal(device_bytes(context), before);
    }
    wrapped_reset();
    assert_int_equal(kn_buffer_create(context, 4096, &buffer, &error), KN_OK);
    wrapped_calls.fail_name = "clCreateSubBuffer";
    wrapped_calls.fail_code = CL_OUT_OF_RESOURCES;
    assert_int_equal(kn_buffer_slice(buffer, 0, 64, &slice, &error), KN_ERROR_DEVICE);
    assert_null(slice);
    wrapped_reset();
    assert_int_equal(kn_buffer_slice(buffer, 0, 64, &slice, &error), KN_OK);
    kn_buffer_destroy(&slice);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST(slices_are_checked) {
    kn_context *context = open_context(NULL);
    uint32_t unit = kn_context_capabilities(context)->alignment_bytes;
    kn_buffer *block = NULL, *slice = NULL;
    kn_error error = {0};
    assert_int_equal(kn_buffer_create(context, 4 * unit, &block, &error), KN_OK);
    assert_int_equal(kn_buffer_slice(block, unit / 2, unit, &slice, &error), KN_ERROR_ARGUMENT);
    assert_null(slice);
    assert_int_equal(kn_buffer_slice(block, 1, 1, &slice, &error), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_buffer_slice(block, 3 * unit, unit + 1, &slice, &error), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_buffer_slice(block, 5 * unit, 0, &slice, &error), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_buffer_slice(block, unit, UINT64_MAX - unit + 1, &slice, &error), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_buffer_slice(block, 3 * unit, unit, &slice, &error), KN_OK);
    kn_buffer_destroy(&slice);
    assert_int_equal(kn_buffer_slice(block, 4 * unit, 0, &slice, &error), KN_OK);
    assert_int_equal(kn_buffer_bytes(slice), 0);
    kn_buffer_destroy(&slice);
    kn_buffer_destroy(&block);
    kn_context_destroy(&context);
}

/* A kernel doubles a slice of a slice; the bytes before and after it are unchanged. */
TEST(slices_do_not_overlap) {
    enum { FLOATS = 37 };
    kn_context *context = open_context(NULL);
    uint32_t unit = kn_context_capabilities(context)->alignment_bytes;
    size_t bytes = 8 * unit + FLOATS * sizeof(float) + 5, count = bytes / sizeof(float);
    kn_buffer *block = NULL, *outer = NULL, *inner = NULL;
    kn_kernel *kernel = NULL;
    kn_error error = {0};
    float *values = calloc(count + 2, sizeof *values);
    assert_int_equal(kn_buffer_create(context, bytes, &block, &error), KN_OK);
    assert_int_equal(kn_buffer_slice(block, 2 * unit, bytes - 2 * unit, &outer, &error), KN_OK);
    assert_int_equal(kn_buffer_slice(outer, 3 * unit, FLOATS * sizeof(float), &inner, &error), KN_OK);
    assert_int_equal(kn_kernel_create(context, twice_program(context), "twice", &kernel, &error), KN_OK);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)i;
    assert_int_equal(kn_queue_write(context, KN_QUEUE_COMPUTE, block, 0, values, count * sizeof(float), true,
                                    none, NULL, &error),
                     KN_OK);
    launch_twice(context, kernel, inner, FLOATS);
    /* The block is destroyed first; the slices still work. */
    kn_buffer_destroy(&block);
    memset(values, 0, count * sizeof(float));
    assert_int_equal(kn_queue_read(context, KN_QUEUE_COMPUTE, outer, 0, values, kn_buffer_bytes(outer), true,
                                   none, NULL, &error),
                     KN_OK);
    size_t outer_first = 2 * unit / sizeof(float), first = 5 * unit / sizeof(float);
    for (size_t i = outer_first; i < count; i++) {
        float expected = i >= first && i < first + FLOATS ? 2.0f * (float)i : (float)i;
        assert_true(values[i - outer_first] == expected);
    }
    free(values);
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&inner);
    kn_buffer_destroy(&outer);
    kn_context_destroy(&context);
}

/* Memory of the host from which writes need no wait, on a device that has separate memory; and drivers
 * without it. */
TEST(staging_memory_is_written_from) {
    enum { BYTES = 5000 };
    kn_context *shared = open_context(NULL);
    const bool shares = kn_context_capabilities(shared)->shares_memory;
    assert_int_equal(kn_staging_pays(shared), !shares);
    kn_context_destroy(&shared);
    wrapped_reset();
    wrapped_calls.lie_about = CL_DEVICE_HOST_UNIFIED_MEMORY;
    kn_context *context = open_context(NULL);
    kn_context_counts counts = {.size = sizeof counts};
    kn_buffer *buffer = NULL;
    kn_staging *staging = NULL;
    kn_event written = {NULL};
    kn_error error = {0};
    uint8_t got[BYTES];
    assert_true(kn_staging_pays(context));
    assert_int_equal(kn_buffer_create(context, BYTES, &buffer, &error), KN_OK);
    if (kn_staging_create(context, BYTES, &staging, &error)) fail_msg("%s", error.text);
    kn_context_get_counts(context, &counts);
    assert_int_equal(counts.staging_bytes, BYTES);
    uint8_t *memory = kn_staging_memory(staging);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BYTES; i++)
            memory[i] = (uint8_t)(i * 7 + round);
        assert_int_equal(kn_queue_write(context, KN_QUEUE_TRANSFER, buffer, 0, memory, BYTES, false, none,
                                        &written, &error),
                         KN_OK);
        assert_int_equal(
            kn_queue_read(context, KN_QUEUE_COMPUTE, buffer, 0, got, BYTES, true, written, NULL, &error),
            KN_OK);
        kn_event_release(&written);
        assert_memory_equal(got, memory, BYTES);
    }
    kn_staging_destroy(&staging);
    assert_null(staging);
    static const char *const calls[] = {"clCreateBuffer", "clEnqueueMapBuffer"};
    for (size_t i = 0; i < KN_COUNT_OF(calls); i++) {
        wrapped_reset();
        wrapped_calls.fail_name = calls[i];
        wrapped_calls.fail_code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        assert_int_equal(kn_staging_create(context, BYTES, &staging, &error), KN_ERROR_DEVICE_MEMORY);
        assert_null(staging);
        assert_non_null(strstr(error.text, "5000"));
    }
    wrapped_reset();
    assert_int_equal(kn_staging_create(context, 0, &staging, &error), KN_ERROR_ARGUMENT);
    assert_int_equal(kn_staging_create(context, UINT64_MAX, &staging, &error), KN_ERROR_ARGUMENT);
    kn_staging_destroy(&staging);
    kn_context_get_counts(context, &counts);
    assert_int_equal(counts.staging_bytes, 0);
    kn_buffer_destroy(&buffer);
    kn_context_destroy(&context);
}

TEST_FILE(test_memory, NULL, NULL)
