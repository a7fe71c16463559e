#include "wrapped.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "wrapping.h"

wrapped wrapped_calls;

void wrapped_reset(void) {
    memset(&wrapped_calls, 0, sizeof wrapped_calls);
}

/* Several threads build at once. */
static void count(int *counter) {
    __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
}

static bool fails(const char *name) {
    int call = __atomic_add_fetch(&wrapped_calls.calls, 1, __ATOMIC_SEQ_CST);
    bool chosen = (wrapped_calls.fail_name && strcmp(wrapped_calls.fail_name, name) == 0) ||
                  (wrapped_calls.fail_at && call == wrapped_calls.fail_at);
    if (chosen) wrapped_calls.failed = name;
    return chosen;
}

/* WRAP(function, parameters, arguments) returns a code; MAKE(type, …) returns an object and sets *code. */
#define WRAP(name, parameters, arguments)                                                                    \
    WRAPPED(cl_int, name, parameters) {                                                                      \
        if (fails(#name)) return wrapped_calls.fail_code;                                                    \
        return __real_##name arguments;                                                                      \
    }
#define MAKE(type, name, parameters, arguments, counter)                                                     \
    WRAPPED(type, name, parameters) {                                                                        \
        count(counter);                                                                                      \
        if (fails(#name)) {                                                                                  \
            if (code) *code = wrapped_calls.fail_code;                                                       \
            return NULL;                                                                                     \
        }                                                                                                    \
        return __real_##name arguments;                                                                      \
    }

static int uncounted;

MAKE(cl_program, clCreateProgramWithSource,
     (cl_context context, cl_uint texts, const char **strings, const size_t *lengths, cl_int *code),
     (context, texts, strings, lengths, code), &wrapped_calls.sources)
MAKE(cl_program, clCreateProgramWithBinary,
     (cl_context context, cl_uint devices, const cl_device_id *device, const size_t *lengths,
      const unsigned char **binaries, cl_int *status, cl_int *code),
     (context, devices, device, lengths, binaries, status, code), &wrapped_calls.binaries)
MAKE(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code),
     (context, flags, bytes, host, code), &wrapped_calls.buffers)
MAKE(void *, clEnqueueMapBuffer,
     (cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset,
      size_t bytes, cl_uint waits, const cl_event *wait, cl_event *event, cl_int *code),
     (queue, memory, blocking, flags, offset, bytes, waits, wait, event, code), &uncounted)
MAKE(cl_mem, clCreateSubBuffer,
     (cl_mem memory, cl_mem_flags flags, cl_buffer_create_type type, const void *region, cl_int *code),
     (memory, flags, type, region, code), &uncounted)
MAKE(cl_context, clCreateContext,
     (const cl_context_properties *properties, cl_uint devices, const cl_device_id *device,
      void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code),
     (properties, devices, device, notify, user, code), &uncounted)
MAKE(cl_command_queue, clCreateCommandQueue,
     (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *code),
     (context, device, properties, code), &uncounted)
MAKE(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *code), (program, name, code),
     &uncounted)

WRAPPED(cl_int, clBuildProgram,
        (cl_program program, cl_uint devices, const cl_device_id *device, const char *options,
         void(CL_CALLBACK *notify)(cl_program, void *), void *user)) {
    count(&wrapped_calls.builds);
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    snprintf(wrapped_calls.options, sizeof wrapped_calls.options, "%s", options ? options : "");
    pthread_mutex_unlock(&one_at_a_time);
    if (fails("clBuildProgram")) return wrapped_calls.fail_code;
    if (wrapped_calls.shows_warnings && options && strstr(options, " -w")) return CL_INVALID_BUILD_OPTIONS;
    return __real_clBuildProgram(program, devices, device, options, notify, user);
}

WRAP(clGetProgramInfo, (cl_program program, cl_program_info what, size_t bytes, void *value, size_t *needed),
     (program, what, bytes, value, needed))
WRAP(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t bytes, const void *value),
     (kernel, index, bytes, value))
WRAP(clEnqueueNDRangeKernel,
     (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
      const size_t *global, const size_t *local, cl_uint waits, const cl_event *wait, cl_event *event),
     (queue, kernel, dimensions, offset, global, local, waits, wait, event))
WRAP(clEnqueueWriteBuffer,
     (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
      const void *source, cl_uint waits, const cl_event *wait, cl_event *event),
     (queue, memory, blocking, offset, bytes, source, waits, wait, event))
WRAP(clEnqueueReadBuffer,
     (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes, void *target,
      cl_uint waits, const cl_event *wait, cl_event *event),
     (queue, memory, blocking, offset, bytes, target, waits, wait, event))
WRAP(clEnqueueCopyBuffer,
     (cl_command_queue queue, cl_mem source, cl_mem target, size_t source_offset, size_t target_offset,
      size_t bytes, cl_uint waits, const cl_event *wait, cl_event *event),
     (queue, source, target, source_offset, target_offset, bytes, waits, wait, event))
WRAP(clEnqueueFillBuffer,
     (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_bytes, size_t offset,
      size_t bytes, cl_uint waits, const cl_event *wait, cl_event *event),
     (queue, memory, pattern, pattern_bytes, offset, bytes, waits, wait, event))
WRAP(clEnqueueMarkerWithWaitList,
     (cl_command_queue queue, cl_uint waits, const cl_event *wait, cl_event *event),
     (queue, waits, wait, event))
WRAP(clEnqueueBarrierWithWaitList,
     (cl_command_queue queue, cl_uint waits, const cl_event *wait, cl_event *event),
     (queue, waits, wait, event))
WRAP(clGetPlatformIDs, (cl_uint room, cl_platform_id *platforms, cl_uint *found), (room, platforms, found))
WRAP(clGetDeviceIDs,
     (cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices, cl_uint *found),
     (platform, type, room, devices, found))
WRAP(clWaitForEvents, (cl_uint count, const cl_event *events), (count, events))

WRAPPED(cl_int, clFinish, (cl_command_queue queue)) {
    count(&wrapped_calls.finishes);
    return fails("clFinish") ? wrapped_calls.fail_code : __real_clFinish(queue);
}

WRAPPED(cl_int, clGetDeviceInfo,
        (cl_device_id device, cl_device_info what, size_t bytes, void *value, size_t *needed)) {
    if (fails("clGetDeviceInfo")) return wrapped_calls.fail_code;
    cl_int code = __real_clGetDeviceInfo(device, what, bytes, value, needed);
    if (code == CL_SUCCESS && what == wrapped_calls.lie_about)
        memcpy(value, &wrapped_calls.lie, bytes < 8 ? bytes : 8);
    return code;
}

WRAPPED(cl_int, clGetCommandQueueInfo,
        (cl_command_queue queue, cl_command_queue_info what, size_t bytes, void *value, size_t *written)) {
    if (fails("clGetCommandQueueInfo")) return wrapped_calls.fail_code;
    const cl_int code = __real_clGetCommandQueueInfo(queue, what, bytes, value, written);
    if (code == CL_SUCCESS && what == CL_QUEUE_REFERENCE_COUNT && wrapped_calls.holds > 0) {
        wrapped_calls.holds--;
        ++*(cl_uint *)value;
    }
    return code;
}

WRAPPED(cl_int, clReleaseDevice, (cl_device_id device)) {
    count(&wrapped_calls.devices_released);
    return __real_clReleaseDevice(device);
}
