#include "wrapped.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wrapping.h"

wrapped wrapped_calls;
static int write_count;

void wrapped_reset(void) {
    memset(&wrapped_calls, 0, sizeof wrapped_calls);
    write_count = 0;
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

WRAPPED(void *, malloc, (size_t bytes)) {
    count(&wrapped_calls.memory);
    return __real_malloc(bytes);
}
WRAPPED(void *, calloc, (size_t items, size_t bytes)) {
    count(&wrapped_calls.memory);
    return __real_calloc(items, bytes);
}
WRAPPED(void *, realloc, (void *old, size_t bytes)) {
    count(&wrapped_calls.memory);
    return __real_realloc(old, bytes);
}

/* WRAP returns a status; MAKE returns an object and sets *code. */
#define WRAP(name, counter, parameters, arguments)                                                           \
    WRAPPED(cl_int, name, parameters) {                                                                      \
        count(counter);                                                                                      \
        if (fails(#name)) return CL_OUT_OF_HOST_MEMORY;                                                      \
        return __real_##name arguments;                                                                      \
    }
#define MAKE(type, name, counter, parameters, arguments)                                                     \
    WRAPPED(type, name, parameters) {                                                                        \
        count(counter);                                                                                      \
        if (fails(#name)) {                                                                                  \
            *code = CL_OUT_OF_HOST_MEMORY;                                                                   \
            return NULL;                                                                                     \
        }                                                                                                    \
        return __real_##name arguments;                                                                      \
    }

static int uncounted;

static int *upload(size_t bytes, cl_bool wait) {
    if (wait) count(&wrapped_calls.waited_uploads);
    __atomic_add_fetch(&wrapped_calls.uploaded, bytes, __ATOMIC_SEQ_CST);
    return &uncounted;
}

/* ---- memory that is mapped, and uploads from it; by one thread ----------------------------------- */

enum { MAPS = 16, WRITES = 16 };
int wrapped_maps;
static struct {
    const unsigned char *memory;
    size_t bytes;
    cl_event written; /* the last upload from it, retained; NULL: none */
} maps[MAPS];
/* Uploads from mapped memory that no barrier waits for yet; compared only. */
static cl_event writes[WRITES];

/* The number of the map that has these bytes; -1: none. */
static int map_of(const void *memory, size_t bytes) {
    for (int i = 0; i < wrapped_maps; i++)
        if ((const unsigned char *)memory >= maps[i].memory &&
            (const unsigned char *)memory + bytes <= maps[i].memory + maps[i].bytes)
            return i;
    return -1;
}

static void note_write(cl_command_queue queue, const void *source, size_t bytes, cl_uint waits,
                       const cl_event *list, cl_event event) {
    const int map = map_of(source, bytes);
    cl_command_queue other = queue;
    cl_int state = CL_COMPLETE;
    if (map < 0) return;
    count(&wrapped_calls.staged_uploads);
    if (waits) clGetEventInfo(list[0], CL_EVENT_COMMAND_QUEUE, sizeof other, &other, NULL);
    if (other != queue) count(&wrapped_calls.staged_after);
    if (write_count < WRITES) writes[write_count++] = event;
    if (maps[map].written) {
        clGetEventInfo(maps[map].written, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        clReleaseEvent(maps[map].written);
    }
    if (state > CL_COMPLETE) count(&wrapped_calls.overwritten);
    maps[map].written = event;
    if (event) clRetainEvent(event);
}

static int *note_barrier(cl_uint waits, const cl_event *list) {
    for (int i = 0; waits && i < write_count; i++)
        if (writes[i] == list[0]) writes[i--] = writes[--write_count];
    return &uncounted;
}

WRAPPED(cl_mem, clCreateBuffer,
        (cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code)) {
    count(&wrapped_calls.buffers);
    const bool refused = wrapped_calls.no_staging && flags & CL_MEM_ALLOC_HOST_PTR;
    if (!fails("clCreateBuffer") && !refused) return __real_clCreateBuffer(context, flags, bytes, host, code);
    *code = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

WRAPPED(void *, clEnqueueMapBuffer,
        (cl_command_queue queue, cl_mem memory, cl_bool wait, cl_map_flags flags, size_t offset, size_t bytes,
         cl_uint waits, const cl_event *list, cl_event *event, cl_int *code)) {
    const bool refused = fails("clEnqueueMapBuffer") || wrapped_calls.no_maps;
    if (refused && code) *code = CL_OUT_OF_HOST_MEMORY;
    void *mapped = refused ? NULL
                           : __real_clEnqueueMapBuffer(queue, memory, wait, flags, offset, bytes, waits, list,
                                                       event, code);
    if (mapped && wrapped_maps < MAPS) {
        maps[wrapped_maps].memory = mapped;
        maps[wrapped_maps].written = NULL;
        maps[wrapped_maps++].bytes = bytes;
    }
    return mapped;
}

WRAPPED(cl_int, clEnqueueUnmapMemObject,
        (cl_command_queue queue, cl_mem memory, void *mapped, cl_uint waits, const cl_event *list,
         cl_event *event)) {
    for (int i = 0; i < wrapped_maps; i++) {
        if (maps[i].memory != mapped) continue;
        if (maps[i].written) clReleaseEvent(maps[i].written);
        maps[i--] = maps[--wrapped_maps];
    }
    return __real_clEnqueueUnmapMemObject(queue, memory, mapped, waits, list, event);
}

MAKE(cl_mem, clCreateSubBuffer, &wrapped_calls.slices,
     (cl_mem memory, cl_mem_flags flags, cl_buffer_create_type type, const void *region, cl_int *code),
     (memory, flags, type, region, code))
MAKE(cl_kernel, clCreateKernel, &wrapped_calls.kernels, (cl_program program, const char *name, cl_int *code),
     (program, name, code))
/* Whether the fault is this one, and the program's text has what the fault asks for. */
static bool has_fault(enum wrapped_fault fault, cl_program program) {
    size_t bytes = 0;
    bool found = false;
    if (wrapped_calls.fault != fault ||
        clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes) != CL_SUCCESS || bytes == 0)
        return false;
    char *text = __real_malloc(bytes + 1);
    if (text && clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, text, NULL) == CL_SUCCESS) {
        text[bytes] = '\0';
        found =
            strstr(text, wrapped_calls.text) && !(wrapped_calls.unless && strstr(text, wrapped_calls.unless));
    }
    free(text);
    if (found) count(&wrapped_calls.faults);
    return found;
}

WRAPPED(cl_int, clBuildProgram,
        (cl_program program, cl_uint devices, const cl_device_id *device, const char *options,
         void(CL_CALLBACK *notify)(cl_program, void *), void *user)) {
    count(&wrapped_calls.builds);
    if (fails("clBuildProgram")) return CL_OUT_OF_HOST_MEMORY;
    if (has_fault(WRAPPED_FAILS, program)) return CL_BUILD_PROGRAM_FAILURE;
    if (has_fault(WRAPPED_DIES, program)) abort();
    return __real_clBuildProgram(program, devices, device, options, notify, user);
}

/* Indices of 64 bits are not told from memory, so tests that look at null_arguments have narrow ones. */
WRAPPED(cl_int, clSetKernelArg, (cl_kernel kernel, cl_uint position, size_t bytes, const void *value)) {
    static const cl_mem nothing;
    count(&wrapped_calls.arguments);
    if (fails("clSetKernelArg")) return CL_OUT_OF_HOST_MEMORY;
    if (value && bytes == sizeof nothing && !memcmp(value, &nothing, bytes))
        count(&wrapped_calls.null_arguments);
    return __real_clSetKernelArg(kernel, position, bytes, value);
}

/* Whether the limit on work-groups is for this kernel too. */
static bool is_limited(cl_kernel kernel) {
    char name[64] = "";
    if (!wrapped_calls.most_items || !wrapped_calls.kernel) return wrapped_calls.most_items > 0;
    return clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
           !strcmp(name, wrapped_calls.kernel);
}

WRAPPED(cl_int, clGetKernelWorkGroupInfo,
        (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t bytes, void *value,
         size_t *needed)) {
    cl_int code = __real_clGetKernelWorkGroupInfo(kernel, device, what, bytes, value, needed);
    size_t most = wrapped_calls.most_items;
    if (code == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE && is_limited(kernel) &&
        *(size_t *)value > most)
        *(size_t *)value = most;
    return code;
}

WRAPPED(cl_int, clGetDeviceInfo,
        (cl_device_id device, cl_device_info what, size_t bytes, void *value, size_t *needed)) {
    cl_int code = __real_clGetDeviceInfo(device, what, bytes, value, needed);
    if (code == CL_SUCCESS && what == CL_DEVICE_MAX_WORK_GROUP_SIZE && value && wrapped_calls.most_items &&
        !wrapped_calls.kernel)
        *(size_t *)value = wrapped_calls.most_items;
    if (code == CL_SUCCESS && what == CL_DEVICE_HOST_UNIFIED_MEMORY && value && wrapped_calls.apart)
        *(cl_bool *)value = CL_FALSE;
    return code;
}

/* Counts launches that break a rule. False: the driver refuses the launch. */
static bool check_launch(cl_kernel kernel, cl_uint dimensions, const size_t *global, const size_t *local) {
    cl_device_id device = NULL;
    cl_context context = NULL;
    size_t items = 1, most = 0;
    clGetKernelInfo(kernel, CL_KERNEL_CONTEXT, sizeof context, &context, NULL);
    clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
    for (cl_uint i = 0; i < dimensions; i++) {
        items *= local[i];
        if (i > 0 && global[i] / local[i] > 65535) count(&wrapped_calls.too_many_groups);
    }
    if (__wrap_clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                        NULL) == CL_SUCCESS &&
        items > most)
        count(&wrapped_calls.too_large_groups);
    return !is_limited(kernel) || items <= wrapped_calls.most_items;
}

/* Whether a kernel's program has the fault. */
static bool lies(cl_kernel kernel) {
    cl_program program = NULL;
    return wrapped_calls.fault == WRAPPED_LIES &&
           clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL) == CL_SUCCESS &&
           has_fault(WRAPPED_LIES, program);
}

WRAPPED(cl_int, clEnqueueNDRangeKernel,
        (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
         const size_t *global, const size_t *local, cl_uint waits, const cl_event *list, cl_event *event)) {
    count(&wrapped_calls.launches);
    if (write_count) count(&wrapped_calls.unordered);
    if (fails("clEnqueueNDRangeKernel")) return CL_OUT_OF_HOST_MEMORY;
    if (!check_launch(kernel, dimensions, global, local)) return CL_INVALID_WORK_GROUP_SIZE;
    bool divisible = false;
    for (cl_uint i = 0; local && i < dimensions; i++) {
        const size_t groups = global[i] / local[i];
        divisible = divisible || groups > 1;
        if (i > 0 && groups > wrapped_calls.most_groups) wrapped_calls.most_groups = groups;
    }
    if (divisible) count(&wrapped_calls.divisible);
    if (lies(kernel) && !event) return CL_SUCCESS;
    return __real_clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, waits, list,
                                         event);
}

WRAPPED(cl_int, clEnqueueWriteBuffer,
        (cl_command_queue queue, cl_mem memory, cl_bool wait, size_t offset, size_t bytes, const void *source,
         cl_uint waits, const cl_event *list, cl_event *event)) {
    upload(bytes, wait);
    if (fails("clEnqueueWriteBuffer")) return CL_OUT_OF_HOST_MEMORY;
    cl_int code = __real_clEnqueueWriteBuffer(queue, memory, wait, offset, bytes, source, waits, list, event);
    if (code == CL_SUCCESS) note_write(queue, source, bytes, waits, list, event ? *event : NULL);
    return code;
}
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
WRAP(clEnqueueBarrierWithWaitList, note_barrier(waits, list),
     (cl_command_queue queue, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, waits, list, event))
WRAP(clFlush, &wrapped_calls.flushes, (cl_command_queue queue), (queue))
