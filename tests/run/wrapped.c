#include "wrapped.h"

#include <stdbool.h>
#include <string.h>

wrapped wrapped_calls;

void wrapped_reset(void) {
    memset(&wrapped_calls, 0, sizeof wrapped_calls);
}

static void count(int *counter) {
    __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
}

static bool fails(const char *name) {
    int call = __atomic_add_fetch(&wrapped_calls.calls, 1, __ATOMIC_SEQ_CST);
    if (!wrapped_calls.fail_at || call != wrapped_calls.fail_at) return false;
    wrapped_calls.failed = name;
    return true;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    count(&wrapped_calls.memory);
    return __real_malloc(bytes);
}
void *__real_calloc(size_t items, size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes) {
    count(&wrapped_calls.memory);
    return __real_calloc(items, bytes);
}
void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes) {
    count(&wrapped_calls.memory);
    return __real_realloc(old, bytes);
}

/* WRAP returns a status; MAKE returns an object and sets *code. */
#define WRAP(name, counter, parameters, arguments)                                                           \
    cl_int __real_##name parameters;                                                                         \
    cl_int __wrap_##name parameters;                                                                         \
    cl_int __wrap_##name parameters {                                                                        \
        count(counter);                                                                                      \
        if (fails(#name)) return CL_OUT_OF_HOST_MEMORY;                                                      \
        return __real_##name arguments;                                                                      \
    }
#define MAKE(type, name, counter, parameters, arguments)                                                     \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters {                                                                          \
        count(counter);                                                                                      \
        if (fails(#name)) {                                                                                  \
            *code = CL_OUT_OF_HOST_MEMORY;                                                                   \
            return NULL;                                                                                     \
        }                                                                                                    \
        return __real_##name arguments;                                                                      \
    }

static int uncounted;

static int *upload(size_t bytes) {
    __atomic_add_fetch(&wrapped_calls.uploaded, bytes, __ATOMIC_SEQ_CST);
    return &uncounted;
}

MAKE(cl_mem, clCreateBuffer, &wrapped_calls.buffers,
     (cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code),
     (context, flags, bytes, host, code))
MAKE(cl_mem, clCreateSubBuffer, &wrapped_calls.slices,
     (cl_mem memory, cl_mem_flags flags, cl_buffer_create_type type, const void *region, cl_int *code),
     (memory, flags, type, region, code))
MAKE(cl_kernel, clCreateKernel, &wrapped_calls.kernels, (cl_program program, const char *name, cl_int *code),
     (program, name, code))
WRAP(clBuildProgram, &wrapped_calls.builds,
     (cl_program program, cl_uint devices, const cl_device_id *device, const char *options,
      void(CL_CALLBACK *notify)(cl_program, void *), void *user),
     (program, devices, device, options, notify, user))
WRAP(clSetKernelArg, &wrapped_calls.arguments,
     (cl_kernel kernel, cl_uint position, size_t bytes, const void *value), (kernel, position, bytes, value))
WRAP(clEnqueueNDRangeKernel, &wrapped_calls.launches,
     (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
      const size_t *global, const size_t *local, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, kernel, dimensions, offset, global, local, waits, list, event))
WRAP(clEnqueueWriteBuffer, upload(bytes),
     (cl_command_queue queue, cl_mem memory, cl_bool wait, size_t offset, size_t bytes, const void *source,
      cl_uint waits, const cl_event *list, cl_event *event),
     (queue, memory, wait, offset, bytes, source, waits, list, event))
WRAP(clEnqueueReadBuffer, &uncounted,
     (cl_command_queue queue, cl_mem memory, cl_bool wait, size_t offset, size_t bytes, void *target,
      cl_uint waits, const cl_event *list, cl_event *event),
     (queue, memory, wait, offset, bytes, target, waits, list, event))
WRAP(clEnqueueCopyBuffer, &uncounted,
     (cl_command_queue queue, cl_mem source, cl_mem target, size_t from, size_t to, size_t bytes,
      cl_uint waits, const cl_event *list, cl_event *event),
     (queue, source, target, from, to, bytes, waits, list, event))
WRAP(clEnqueueFillBuffer, &uncounted,
     (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_bytes, size_t offset,
      size_t bytes, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, memory, pattern, pattern_bytes, offset, bytes, waits, list, event))
WRAP(clEnqueueMarkerWithWaitList, &uncounted,
     (cl_command_queue queue, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, waits, list, event))
WRAP(clEnqueueBarrierWithWaitList, &uncounted,
     (cl_command_queue queue, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, waits, list, event))
WRAP(clFlush, &uncounted, (cl_command_queue queue), (queue))
