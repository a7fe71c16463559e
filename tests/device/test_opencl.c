/* Programs that bring their own OpenCL context, queue, events and buffers. */
#include "device_tests.h"

#include <stdlib.h>
#include <string.h>

static const kn_event none = {NULL};

/* What a program may have before it uses Koine. */
typedef struct guest {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} guest;

static guest guest_open(cl_command_queue_properties properties) {
    guest own = {0};
    kn_context *context = open_context(NULL); /* the device under test */
    own.device = context->found.device;
    kn_context_destroy(&context);
    cl_int code;
    own.context = clCreateContext(NULL, 1, &own.device, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    own.queue = clCreateCommandQueue(own.context, own.device, properties, &code);
    assert_int_equal(code, CL_SUCCESS);
    return own;
}

static void guest_close(guest *own) {
    clReleaseCommandQueue(own->queue);
    clReleaseContext(own->context);
}

static cl_uint context_references(cl_context context) {
    cl_uint count = 0;
    assert_int_equal(clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL),
                     CL_SUCCESS);
    return count;
}

static cl_uint queue_references(cl_command_queue queue) {
    cl_uint count = 0;
    assert_int_equal(clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL),
                     CL_SUCCESS);
    return count;
}

static cl_uint memory_references(cl_mem memory) {
    cl_uint count = 0;
    assert_int_equal(clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL),
                     CL_SUCCESS);
    return count;
}

typedef struct references {
    cl_uint context, queue, memory;
} references;

/* Drivers keep a queue's last command, with all objects it refers to, and release it later; so the guest runs
 * a little unrelated work before counting. */
static references count_references(const guest *own, cl_mem memory) {
    cl_int zero = 0;
    assert_int_equal(clEnqueueWriteBuffer(own->queue, memory, CL_TRUE, 0, 4, &zero, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(clFinish(own->queue), CL_SUCCESS);
    return (references){context_references(own->context), queue_references(own->queue),
                        memory_references(memory)};
}

static void expect_references(const guest *own, cl_mem memory, references expected) {
    references now = {0};
    for (double start = kn_clock(); kn_clock() - start < 5.0;) {
        now = count_references(own, memory);
        if (memcmp(&now, &expected, sizeof now) == 0) return;
    }
    assert_int_equal(now.context, expected.context);
    assert_int_equal(now.queue, expected.queue);
    assert_int_equal(now.memory, expected.memory);
}

static kn_context *borrow(const guest *own) {
    kn_context_params params = test_params();
    params.device = "ignored";
    kn_context *context = kn_context_create_opencl(&params, own->context, own->device, own->queue);
    assert_non_null(context);
    if (kn_context_status(context)) fail_msg("%s", kn_context_error(context));
    return context;
}

TEST(reference_counts_are_restored) {
    guest own = guest_open(0);
    cl_int code;
    cl_mem memory = clCreateBuffer(own.context, CL_MEM_READ_WRITE, 1000, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    references before = count_references(&own, memory);
    kn_context *context = borrow(&own);
    assert_int_equal(kn_context_device(context)->index >= 0, true);
    assert_ptr_equal(context->queues[KN_QUEUE_COMPUTE], own.queue);
    assert_ptr_equal(context->queues[KN_QUEUE_TRANSFER], own.queue);

    /* Some of everything: a program, a kernel, blocks, work with events, a guest's buffer. */
    kn_kernel *kernel = NULL;
    kn_buffer *block = NULL, *part = NULL;
    kn_error error = {0};
    kn_event done = {NULL};
    float values[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    assert_int_equal(kn_kernel_create(context, twice_program(context), "twice", &kernel, &error), KN_OK);
    assert_int_equal(kn_buffer_create(context, sizeof values, &block, &error), KN_OK);
    assert_non_null(part = kn_buffer_from_opencl(context, memory, 3, sizeof values));
    assert_int_equal(kn_queue_write(context, KN_QUEUE_TRANSFER, block, 0, values, sizeof values, false, none,
                                    &done, &error),
                     KN_OK);
    assert_int_equal(kn_queue_after(context, KN_QUEUE_COMPUTE, done, &error), KN_OK);
    launch_twice(context, kernel, block, 10);
    assert_int_equal(
        kn_queue_copy(context, KN_QUEUE_COMPUTE, block, 0, part, 0, sizeof values, done, NULL, &error),
        KN_OK);
    cl_event event = NULL;
    assert_int_equal(kn_context_marker(context, &event), KN_OK);
    assert_int_equal(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
    kn_event_release(&done);
    /* The guest sees the result through its own queue. */
    float got[10] = {0};
    assert_int_equal(clEnqueueReadBuffer(own.queue, memory, CL_TRUE, 3, sizeof got, got, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int i = 0; i < 10; i++)
        assert_true(got[i] == 2.0f * values[i]);
    kn_buffer_destroy(&part);
    kn_buffer_destroy(&block);
    kn_kernel_destroy(&kernel);
    kn_context_destroy(&context);
    expect_references(&own, memory, before);
    clReleaseMemObject(memory);
    guest_close(&own);
}

static void refuse(cl_context context, cl_device_id device, cl_command_queue queue, const char *part) {
    kn_context *refused = kn_context_create_opencl(NULL, context, device, queue);
    assert_non_null(refused);
    assert_int_equal(kn_context_status(refused), KN_ERROR_ARGUMENT);
    if (!strstr(kn_context_error(refused), part))
        fail_msg("\"%s\" does not speak of \"%s\"", kn_context_error(refused), part);
    kn_context_destroy(&refused);
}

TEST(foreign_objects_are_refused) {
    guest own = guest_open(0), other = guest_open(0);
    cl_uint contexts = context_references(own.context), queues = queue_references(own.queue);
    refuse(NULL, own.device, own.queue, "NULL");
    refuse(own.context, NULL, own.queue, "NULL");
    refuse(own.context, own.device, NULL, "NULL");
    refuse(own.context, own.device, other.queue, "different OpenCL context");
    cl_int made;
    cl_command_queue unordered =
        clCreateCommandQueue(own.context, own.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &made);
    if (made == CL_SUCCESS) { /* not every device has them */
        refuse(own.context, own.device, unordered, "out-of-order");
        clReleaseCommandQueue(unordered);
    }
    assert_int_equal(context_references(own.context), contexts);
    assert_int_equal(queue_references(own.queue), queues);
    kn_context *context = borrow(&own);
    cl_int code;
    cl_mem foreign = clCreateBuffer(other.context, CL_MEM_READ_WRITE, 64, NULL, &code);
    cl_mem memory = clCreateBuffer(own.context, CL_MEM_READ_WRITE, 64, NULL, &code);
    assert_null(kn_buffer_from_opencl(context, foreign, 0, 64));
    assert_null(kn_buffer_from_opencl(context, NULL, 0, 64));
    assert_null(kn_buffer_from_opencl(context, memory, 0, 65));
    assert_null(kn_buffer_from_opencl(context, memory, 65, 0));
    assert_null(kn_buffer_from_opencl(context, memory, 1, SIZE_MAX));
    assert_int_equal(kn_context_status(context), KN_OK);
    clReleaseMemObject(foreign);
    clReleaseMemObject(memory);
    kn_context_destroy(&context);
    guest_close(&own);
    guest_close(&other);
}

/* Whether an event is complete; errors count as complete. */
static bool complete(cl_event event) {
    cl_int status = CL_QUEUED;
    assert_int_equal(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL),
                     CL_SUCCESS);
    return status <= CL_COMPLETE;
}

/* Work waits for the guest's event; the marker is complete after the work, in both kinds of contexts. */
TEST(work_waits_and_marks) {
    guest own = guest_open(0);
    for (int borrowed = 0; borrowed < 2; borrowed++) {
        kn_context *context = borrowed ? borrow(&own) : open_context(NULL);
        kn_buffer *block = NULL;
        kn_error error = {0};
        cl_int code, before = 7, got = 0;
        assert_int_equal(kn_buffer_create(context, 4, &block, &error), KN_OK);
        cl_event start = clCreateUserEvent(context->context, &code), end = NULL;
        assert_int_equal(code, CL_SUCCESS);
        assert_int_equal(kn_context_wait_for(context, &start, 1), KN_OK);
        /* A simulator executes everything at once in the caller's thread, so it cannot be made to wait. */
        bool waits = !context->found.simulated;
        if (!waits) clSetUserEventStatus(start, CL_COMPLETE);
        kn_event uploaded = {NULL};
        assert_int_equal(
            kn_queue_write(context, KN_QUEUE_TRANSFER, block, 0, &before, 4, false, none, &uploaded, &error),
            KN_OK);
        assert_int_equal(
            kn_queue_read(context, KN_QUEUE_COMPUTE, block, 0, &got, 4, false, uploaded, NULL, &error),
            KN_OK);
        assert_int_equal(kn_context_marker(context, &end), KN_OK);
        assert_non_null(end);
        if (waits) {
            assert_false(complete(end));
            assert_int_equal(got, 0);
            assert_int_equal(clSetUserEventStatus(start, CL_COMPLETE), CL_SUCCESS);
        }
        assert_int_equal(clWaitForEvents(1, &end), CL_SUCCESS);
        assert_int_equal(got, 7);
        kn_event_release(&uploaded);
        clReleaseEvent(start);
        clReleaseEvent(end);
        assert_int_equal(kn_context_wait_for(context, NULL, 0), KN_OK);
        assert_int_equal(kn_context_wait_for(context, NULL, 1), KN_ERROR_ARGUMENT);
        assert_int_equal(kn_context_marker(context, NULL), KN_ERROR_ARGUMENT);
        kn_buffer_destroy(&block);
        kn_context_destroy(&context);
    }
    guest_close(&own);
}

/* Guests' buffers begin at any offset: copies work at every offset, kernels where the alignment allows. */
TEST(guests_buffers_begin_anywhere) {
    guest own = guest_open(0);
    cl_uint bits = 0;
    clGetDeviceInfo(own.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
    size_t unit = bits / 8 > 64 ? bits / 8 : 64, size = 4 * unit;
    cl_int code;
    cl_mem memory = clCreateBuffer(own.context, CL_MEM_READ_WRITE, size, NULL, &code);
    references before = count_references(&own, memory);
    kn_context *context = borrow(&own);
    cl_buffer_region region = {unit, 3 * unit};
    cl_mem sub = clCreateSubBuffer(memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    assert_int_equal(code, CL_SUCCESS);
    kn_kernel *kernel = NULL;
    kn_buffer *block = NULL;
    kn_error error = {0};
    float *got = calloc(size, 1), values[4] = {1, 2, 3, 4}, zero = 0.0f;
    assert_int_equal(kn_kernel_create(context, twice_program(context), "twice", &kernel, &error), KN_OK);
    assert_int_equal(kn_buffer_create(context, sizeof values, &block, &error), KN_OK);
    assert_int_equal(kn_queue_write(context, 0, block, 0, values, sizeof values, true, none, NULL, &error),
                     KN_OK);

    const struct {
        cl_mem memory;
        size_t offset, place; /* place: in the whole memory */
        bool aligned;
    } cases[] = {{memory, 0, 0, true},       {memory, unit, unit, true}, {memory, 4, 4, false},
                 {memory, 1, 1, false},      {sub, 0, unit, true},       {sub, unit, 2 * unit, true},
                 {sub, 12, unit + 12, false}};
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        assert_int_equal(clEnqueueFillBuffer(own.queue, memory, &zero, 4, 0, size, 0, NULL, NULL),
                         CL_SUCCESS);
        kn_buffer *buffer = kn_buffer_from_opencl(context, cases[i].memory, cases[i].offset, sizeof values);
        assert_non_null(buffer);
        assert_int_equal(kn_buffer_bytes(buffer), sizeof values);
        assert_int_equal(kn_queue_copy(context, 0, block, 0, buffer, 0, sizeof values, none, NULL, &error),
                         KN_OK);
        kn_status status = kn_kernel_set_buffer(kernel, 0, buffer, &error);
        assert_int_equal(status, cases[i].aligned ? KN_OK : KN_ERROR_ARGUMENT);
        if (cases[i].aligned) launch_twice(context, kernel, buffer, 4);
        assert_int_equal(clEnqueueReadBuffer(own.queue, memory, CL_TRUE, 0, size, got, 0, NULL, NULL),
                         CL_SUCCESS);
        for (size_t byte = 0; byte < size; byte++) {
            float expected[4];
            for (int k = 0; k < 4; k++)
                expected[k] = values[k] * (cases[i].aligned ? 2.0f : 1.0f);
            bool inside = byte >= cases[i].place && byte < cases[i].place + sizeof expected;
            uint8_t right = inside ? ((uint8_t *)expected)[byte - cases[i].place] : 0;
            assert_int_equal(((uint8_t *)got)[byte], right);
        }
        kn_buffer_destroy(&buffer);
    }
    free(got);
    kn_kernel_destroy(&kernel);
    kn_buffer_destroy(&block);
    kn_context_destroy(&context);
    clReleaseMemObject(sub);
    expect_references(&own, memory, before);
    clReleaseMemObject(memory);
    guest_close(&own);
}

TEST(a_queue_without_profiling_gives_an_empty_timeline) {
    for (int profiling = 0; profiling < 2; profiling++) {
        guest own = guest_open(profiling ? CL_QUEUE_PROFILING_ENABLE : 0);
        remembered lines;
        kn_context_params params = test_params();
        params.timeline = true;
        params.log = remembering_log(&lines);
        kn_context *context = kn_context_create_opencl(&params, own.context, own.device, own.queue);
        assert_int_equal(kn_context_status(context), KN_OK);
        kn_context_timeline_clear(context);
        kn_buffer *block = NULL;
        kn_error error = {0};
        cl_int zero = 0;
        assert_int_equal(kn_buffer_create(context, 64, &block, &error), KN_OK);
        assert_int_equal(kn_queue_fill(context, 0, block, 0, 64, &zero, 4, NULL, &error), KN_OK);
        size_t count = 9;
        kn_context_timeline(context, &count);
        assert_int_equal(count, profiling ? 1 : 0);
        assert_int_equal(strstr(lines.all, "profiling") != NULL, !profiling);
        kn_buffer_destroy(&block);
        kn_context_destroy(&context);
        guest_close(&own);
    }
}

TEST_FILE(test_opencl, NULL, NULL)
