#include "limited.h"

#include <stdint.h>
#include <stdlib.h>

#include <koine/opencl.h>

#include "wrapping.h"

enum { GROUPS = 64, ITEMS = 16, BUFFERS = 1024, KNOWN_BYTES = 4000 };
static const cl_uint filled = 0x7fc0beefu; /* NaN */

limited_counts limited_calls;

/* Whether Oclgrind tracks writes. */
static bool follows(void) {
    return getenv("OCLGRIND_UNINITIALIZED") != NULL;
}

/* ---- replaced calls ------------------------------------------------------------------------------ */

WRAPPED(cl_int, clGetDeviceInfo,
        (cl_device_id device, cl_device_info what, size_t bytes, void *value, size_t *needed)) {
    cl_int code = __real_clGetDeviceInfo(device, what, bytes, value, needed);
    if (code != CL_SUCCESS || !value) return code;
    size_t *items = value;
    cl_ulong *number = value;
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE && *items > LIMITED_ITEMS) *items = LIMITED_ITEMS;
    if (what == CL_DEVICE_LOCAL_MEM_SIZE && *number > LIMITED_LOCAL_BYTES) *number = LIMITED_LOCAL_BYTES;
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && *number > LIMITED_BLOCK_BYTES) *number = LIMITED_BLOCK_BYTES;
    return code;
}

WRAPPED(cl_int, clGetKernelWorkGroupInfo,
        (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t bytes, void *value,
         size_t *needed)) {
    cl_int code = __real_clGetKernelWorkGroupInfo(kernel, device, what, bytes, value, needed);
    size_t *items = value;
    if (code == CL_SUCCESS && value && what == CL_KERNEL_WORK_GROUP_SIZE && *items > LIMITED_ITEMS)
        *items = LIMITED_ITEMS;
    return code;
}

/* ---- buffers in Oclgrind ----------------------------------------------------------------------- */

/* Buffers that have not been examined yet, each with an extra reference. */
static cl_mem made[BUFFERS];
static int made_count;

/* All of the buffer that `memory` is, or is a part of, counts as written: it is mapped, but not to be read.
 */
static cl_int count_as_written(cl_command_queue queue, cl_mem memory) {
    cl_mem whole = NULL;
    size_t bytes = 0;
    cl_int code = clGetMemObjectInfo(memory, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL);
    if (!whole) whole = memory;
    if (code == CL_SUCCESS) code = clGetMemObjectInfo(whole, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (code != CL_SUCCESS) return code;
    void *place = clEnqueueMapBuffer(queue, whole, CL_TRUE, CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, &code);
    return place ? clEnqueueUnmapMemObject(queue, whole, place, 0, NULL, NULL) : code;
}

static cl_int after_write(cl_command_queue queue, cl_mem memory, cl_int code) {
    return code == CL_SUCCESS && follows() ? count_as_written(queue, memory) : code;
}

WRAPPED(cl_mem, clCreateBuffer,
        (cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code)) {
    if (bytes > LIMITED_BLOCK_BYTES) {
        limited_calls.refused++;
        *code = CL_INVALID_BUFFER_SIZE;
        return NULL;
    }
    cl_mem memory = __real_clCreateBuffer(context, flags, bytes, host, code);
    if (memory && follows() && made_count < BUFFERS && clRetainMemObject(memory) == CL_SUCCESS)
        made[made_count++] = memory;
    return memory;
}

#define WRITES(name, target, parameters, arguments)                                                          \
    WRAPPED(cl_int, name, parameters) {                                                                      \
        return after_write(queue, target, __real_##name arguments);                                          \
    }

WRITES(clEnqueueWriteBuffer, memory,
       (cl_command_queue queue, cl_mem memory, cl_bool wait, size_t offset, size_t bytes, const void *source,
        cl_uint waits, const cl_event *list, cl_event *event),
       (queue, memory, wait, offset, bytes, source, waits, list, event))
WRITES(clEnqueueCopyBuffer, target,
       (cl_command_queue queue, cl_mem source, cl_mem target, size_t from, size_t to, size_t bytes,
        cl_uint waits, const cl_event *list, cl_event *event),
       (queue, source, target, from, to, bytes, waits, list, event))
WRITES(clEnqueueFillBuffer, memory,
       (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_bytes, size_t offset,
        size_t bytes, cl_uint waits, const cl_event *list, cl_event *event),
       (queue, memory, pattern, pattern_bytes, offset, bytes, waits, list, event))

static cl_int count_made_as_written(cl_command_queue queue) {
    cl_int code = CL_SUCCESS;
    while (made_count > 0 && code == CL_SUCCESS) {
        code = count_as_written(queue, made[--made_count]);
        clReleaseMemObject(made[made_count]);
    }
    return code;
}

/* ---- local memory elsewhere ---------------------------------------------------------------------- */

/* The kernels of one context, which its program keeps alive. */
static struct {
    cl_context context;
    cl_program program;
    cl_kernel fill, look;
    cl_mem found;
    bool counts; /* the driver reports how much local memory a kernel uses; some report too much */
} filling;

static const char *filling_source =
    "kernel void fill(local uint *memory, uint words, uint value, global uint *found) {\n"
    "    for (uint i = get_local_id(0); i < words; i += get_local_size(0)) memory[i] = value;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (words == 0) found[0] = memory[get_local_id(0)]; /* never: so that the writes have a reader */\n"
    "}\n"
    "kernel void look(local uint *memory, global uint *found) {\n"
    "    found[get_group_id(0)] = memory[get_local_id(0)];\n"
    "}\n"
    "kernel void known(global uint *found) {\n"
    "    local uint memory[1000];\n"
    "    memory[get_local_id(0)] = found[0];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    found[get_global_id(0)] = memory[get_local_id(0) + 1];\n"
    "}\n";

cl_int __real_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global, const size_t *local,
                                     cl_uint waits, const cl_event *list, cl_event *event);

static cl_int launch(cl_command_queue queue, cl_kernel kernel, size_t items) {
    size_t global = GROUPS * items;
    return __real_clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &items, 0, NULL, NULL);
}

static void end(void) {
    if (filling.found) clReleaseMemObject(filling.found);
    if (filling.fill) clReleaseKernel(filling.fill);
    if (filling.look) clReleaseKernel(filling.look);
    if (filling.program) clReleaseProgram(filling.program);
    filling.context = NULL;
    filling.program = NULL;
    filling.fill = filling.look = NULL;
    filling.found = NULL;
}

static cl_ulong local_bytes_of(cl_kernel kernel, cl_device_id device) {
    cl_ulong bytes = 0;
    cl_int code =
        __real_clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return code == CL_SUCCESS ? bytes : 0;
}

static cl_int begin(cl_context context, cl_device_id device) {
    const cl_uint words = LIMITED_LOCAL_BYTES / sizeof words;
    cl_int code;
    end();
    filling.program = clCreateProgramWithSource(context, 1, &filling_source, NULL, &code);
    if (code == CL_SUCCESS) code = clBuildProgram(filling.program, 0, NULL, NULL, NULL, NULL);
    if (code == CL_SUCCESS) filling.fill = clCreateKernel(filling.program, "fill", &code);
    if (code == CL_SUCCESS) filling.look = clCreateKernel(filling.program, "look", &code);
    cl_kernel known = code == CL_SUCCESS ? clCreateKernel(filling.program, "known", &code) : NULL;
    if (known) {
        filling.counts = local_bytes_of(known, device) == KNOWN_BYTES;
        clReleaseKernel(known);
    }
    if (code == CL_SUCCESS)
        filling.found =
            __real_clCreateBuffer(context, CL_MEM_READ_WRITE, GROUPS * sizeof filled, NULL, &code);
    if (code == CL_SUCCESS) code = clSetKernelArg(filling.fill, 0, LIMITED_LOCAL_BYTES, NULL);
    if (code == CL_SUCCESS) code = clSetKernelArg(filling.fill, 1, sizeof words, &words);
    if (code == CL_SUCCESS) code = clSetKernelArg(filling.fill, 2, sizeof filled, &filled);
    if (code == CL_SUCCESS) code = clSetKernelArg(filling.fill, 3, sizeof filling.found, &filling.found);
    if (code == CL_SUCCESS) code = clSetKernelArg(filling.look, 0, sizeof filled, NULL);
    if (code == CL_SUCCESS) code = clSetKernelArg(filling.look, 1, sizeof filling.found, &filling.found);
    if (code == CL_SUCCESS) filling.context = context;
    return code;
}

/* Whether a kernel finds values that another kernel has left. */
static cl_int look(cl_command_queue queue) {
    cl_uint found[GROUPS] = {0};
    cl_int code = launch(queue, filling.fill, ITEMS);
    if (code == CL_SUCCESS) code = launch(queue, filling.look, 1);
    if (code == CL_SUCCESS)
        code = clEnqueueReadBuffer(queue, filling.found, CL_TRUE, 0, sizeof found, found, 0, NULL, NULL);
    limited_calls.dirty = code == CL_SUCCESS;
    for (int i = 0; i < GROUPS; i++)
        limited_calls.dirty = limited_calls.dirty && found[i] == filled;
    return code;
}

static cl_int fill_local_memory(cl_command_queue queue, cl_device_id device) {
    cl_context context = NULL;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS && context != filling.context) {
        code = begin(context, device);
        if (code == CL_SUCCESS) code = look(queue);
    }
    return code == CL_SUCCESS ? launch(queue, filling.fill, ITEMS) : code;
}

/* ---- launches -------------------------------------------------------------------------------------- */

cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global, const size_t *local,
                                     cl_uint waits, const cl_event *list, cl_event *event);
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global, const size_t *local,
                                     cl_uint waits, const cl_event *list, cl_event *event) {
    size_t items = 1;
    cl_device_id device = NULL;
    for (cl_uint d = 0; local && d < dimensions; d++)
        items *= local[d];
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        code = follows() ? count_made_as_written(queue) : fill_local_memory(queue, device);
    if (code == CL_SUCCESS && items > LIMITED_ITEMS) code = CL_INVALID_WORK_GROUP_SIZE;
    if (code == CL_SUCCESS && filling.counts && local_bytes_of(kernel, device) > LIMITED_LOCAL_BYTES)
        code = CL_OUT_OF_RESOURCES;
    if (code != CL_SUCCESS) {
        limited_calls.refused++;
        return code;
    }
    limited_calls.launches++;
    return __real_clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, waits, list,
                                         event);
}
