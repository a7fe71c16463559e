/* Support for programs with their own OpenCL context, queue and buffers. */
#include "device/device_private.h"

/* Whether `device` belongs to the OpenCL context. */
static bool context_has(const kn_host *host, cl_context context, cl_device_id device) {
    size_t bytes = 0;
    if (clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &bytes) != CL_SUCCESS || bytes == 0)
        return false;
    cl_device_id *devices = kn_allocate(host, bytes, 1);
    if (!devices) return false;
    bool found = false;
    if (clGetContextInfo(context, CL_CONTEXT_DEVICES, bytes, devices, NULL) == CL_SUCCESS)
        for (size_t i = 0; i < bytes / sizeof *devices; i++)
            found = found || devices[i] == device;
    kn_release(host, devices);
    return found;
}

static kn_status check_given(const kn_host *host, cl_context context, cl_device_id device,
                             cl_command_queue queue, kn_error *error) {
    if (!context || !device || !queue)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "expected an OpenCL context, a device and a queue; one is NULL");
    cl_context queue_context = NULL;
    cl_device_id queue_device = NULL;
    cl_command_queue_properties properties = 0;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof queue_context, &queue_context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof queue_device, &queue_device, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code != CL_SUCCESS) return kn_fail_cl(error, code, "the given queue could not be queried");
    if (!context_has(host, context, device))
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "the given device does not belong to the given OpenCL context");
    if (queue_context != context || queue_device != device)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "the given queue belongs to a different OpenCL context or device");
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "the given queue is out-of-order; Koine needs an in-order queue");
    return KN_OK;
}

/* Describes the device as discovery does; a sub-device, which discovery does not list, is queried directly.
 */
static kn_status find_device(kn_context *context, cl_device_id device, kn_found_device *found) {
    kn_device_list *list = kn_device_list_create(&context->host.allocator, &context->host.log);
    if (!list) return kn_fail_memory(&context->failure, sizeof *found);
    bool listed = false;
    for (int i = 0; i < list->count && !listed; i++)
        if (list->entries[i].device == device) {
            *found = list->entries[i];
            listed = true;
        }
    kn_device_list_destroy(&list);
    if (!listed) {
        cl_platform_id platform = NULL;
        cl_int code = clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
        if (code != CL_SUCCESS)
            return kn_fail_cl(&context->failure, code, "the given device could not be queried");
        *found = (kn_found_device){.info = {.index = -1, .platform_index = -1, .device_index = -1}};
        kn_found_describe(&context->host, found, platform, device);
    }
    if (found->info.usable) return KN_OK;
    return kn_fail(&context->failure, KN_ERROR_NO_DEVICE, "%s cannot be used: %s", found->info.name,
                   found->info.problem);
}

kn_context *kn_context_create_opencl(const kn_context_params *params, cl_context given, cl_device_id device,
                                     cl_command_queue queue) {
    kn_context_params known;
    kn_found_device found;
    kn_context *context = kn_context_begin(params, &known);
    if (!context || context->failure.status) return context;
    if (known.target && known.target[0]) {
        kn_fail(&context->failure, KN_ERROR_ARGUMENT,
                "the parameters have both the target \"%.200s\", a described device, and an OpenCL context; "
                "expected only one",
                known.target);
        return context;
    }
    kn_status status = check_given(&context->host, given, device, queue, &context->failure);
    if (!status) status = find_device(context, device, &found);
    if (!status) status = kn_context_open(context, &found, given, queue);
    if (!status) kn_context_probe(context, &context->failure);
    return context;
}

kn_status kn_context_wait_for(kn_context *context, const cl_event *events, cl_uint count) {
    kn_status status = kn_context_status(context);
    if (status || count == 0) return status;
    if (!events) return KN_ERROR_ARGUMENT;
    cl_int code = clEnqueueBarrierWithWaitList(context->queues[0], count, events, NULL);
    if (code == CL_SUCCESS && context->queues[1] != context->queues[0])
        code = clEnqueueBarrierWithWaitList(context->queues[1], count, events, NULL);
    if (code == CL_SUCCESS) return KN_OK;
    kn_error error = {0};
    status = kn_fail_cl(&error, code, "work could not be made to wait for the given events");
    kn_log_write(&context->host, KN_LOG_ERROR, "%s", error.text);
    return status;
}

kn_status kn_context_marker(kn_context *context, cl_event *event) {
    kn_status status = kn_context_status(context);
    if (!event) return KN_ERROR_ARGUMENT;
    *event = NULL;
    if (status) return status;
    cl_event transfers = NULL;
    cl_int code = CL_SUCCESS;
    if (context->queues[1] != context->queues[0]) {
        code = clEnqueueMarkerWithWaitList(context->queues[1], 0, NULL, &transfers);
        if (code == CL_SUCCESS) code = clFlush(context->queues[1]);
    }
    /* A wait list would replace "all previous commands", so a barrier adds the transfers. */
    if (code == CL_SUCCESS && transfers)
        code = clEnqueueBarrierWithWaitList(context->queues[0], 1, &transfers, NULL);
    if (code == CL_SUCCESS) code = clEnqueueMarkerWithWaitList(context->queues[0], 0, NULL, event);
    if (code == CL_SUCCESS) code = clFlush(context->queues[0]);
    if (transfers) clReleaseEvent(transfers);
    if (code == CL_SUCCESS) return KN_OK;
    kn_error error = {0};
    status = kn_fail_cl(&error, code, "no event could be created for the work so far");
    kn_log_write(&context->host, KN_LOG_ERROR, "%s", error.text);
    return status;
}

/* The memory object for a slice at an aligned offset, for use in kernels; NULL if there is none. */
static cl_mem aligned_view(const kn_context *context, cl_mem memory, size_t offset, size_t bytes) {
    if (offset == 0 || bytes == 0) return memory;
    cl_mem parent = NULL;
    size_t start = 0;
    clGetMemObjectInfo(memory, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL);
    if (parent && clGetMemObjectInfo(memory, CL_MEM_OFFSET, sizeof start, &start, NULL) != CL_SUCCESS)
        return NULL;
    cl_buffer_region region = {start + offset, bytes};
    if (region.origin % context->capabilities.alignment_bytes != 0) return NULL;
    cl_int code;
    return clCreateSubBuffer(parent ? parent : memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
}

kn_buffer *kn_buffer_from_opencl(kn_context *context, cl_mem memory, size_t offset, size_t bytes) {
    if (kn_context_status(context)) return NULL;
    const kn_host *host = &context->host;
    cl_mem_object_type type = 0;
    cl_context owner = NULL;
    size_t size = 0;
    if (!memory || clGetMemObjectInfo(memory, CL_MEM_TYPE, sizeof type, &type, NULL) != CL_SUCCESS ||
        clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof owner, &owner, NULL) != CL_SUCCESS ||
        clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof size, &size, NULL) != CL_SUCCESS ||
        type != CL_MEM_OBJECT_BUFFER || owner != context->context) {
        kn_log_write(host, KN_LOG_ERROR, "the given memory is not a buffer of the context's OpenCL context");
        return NULL;
    }
    if (offset > size || bytes > size - offset) {
        kn_log_write(host, KN_LOG_ERROR, "%zu bytes at %zu are outside the given buffer of %zu bytes", bytes,
                     offset, size);
        return NULL;
    }
    kn_buffer *buffer = kn_allocate(host, 1, sizeof *buffer);
    if (!buffer || clRetainMemObject(memory) != CL_SUCCESS) {
        kn_release(host, buffer);
        return NULL;
    }
    buffer->context = context;
    buffer->root = memory;
    buffer->base = offset;
    buffer->bytes = bytes;
    buffer->view = aligned_view(context, memory, offset, bytes);
    return buffer;
}
