/* Kernels with their arguments, and launching them. */
#include "device/device_private.h"

struct kn_kernel {
    kn_context *context;
    const kn_program *program;
    cl_kernel kernel;
    char *name;
    size_t work_group_items;
    size_t reported_items;
};

kn_status kn_kernel_create(kn_context *context, kn_program *program, const char *name, kn_kernel **kernel,
                           kn_error *error) {
    *kernel = NULL;
    kn_kernel *result = kn_allocate(&context->host, 1, sizeof *result);
    if (!result) return kn_fail_memory(error, sizeof *result);
    result->context = context;
    result->program = program;
    result->name = kn_copy_text(&context->host, name);
    if (!result->name) {
        kn_release(&context->host, result);
        return kn_fail_memory(error, sizeof *result);
    }
    cl_int code;
    result->kernel = clCreateKernel(program->program, name, &code);
    if (result->kernel) {
        code = clGetKernelWorkGroupInfo(result->kernel, context->found.device, CL_KERNEL_WORK_GROUP_SIZE,
                                        sizeof result->work_group_items, &result->work_group_items, NULL);
    }
    const size_t most = context->capabilities.work_group_items;
    if (result->work_group_items < 1) result->work_group_items = 1;
    if (result->work_group_items > most) result->work_group_items = most;
    result->reported_items = result->work_group_items;
    /* A kernel with a required work-group size was compiled for it, even if the driver reports a smaller
     * limit: Mesa's rusticl reports the limit of a kernel without one. */
    size_t asked[3] = {0, 0, 0};
    if (code == CL_SUCCESS &&
        clGetKernelWorkGroupInfo(result->kernel, context->found.device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                 sizeof asked, asked, NULL) == CL_SUCCESS &&
        asked[0] <= most && asked[1] <= most && asked[2] <= most &&
        asked[0] * asked[1] * asked[2] > result->work_group_items)
        result->work_group_items = asked[0] * asked[1] * asked[2];
    if (code != CL_SUCCESS) {
        kn_kernel_destroy(&result);
        return kn_fail_cl(error, code, "kernel \"%s\" of \"%s\" could not be created on %s", name,
                          program->name, context->found.info.name);
    }
    *kernel = result;
    return KN_OK;
}

void kn_kernel_destroy(kn_kernel **kernel) {
    if (!kernel || !*kernel) return;
    const kn_host *host = &(*kernel)->context->host;
    if ((*kernel)->kernel) clReleaseKernel((*kernel)->kernel);
    kn_release(host, (*kernel)->name);
    kn_release(host, *kernel);
    *kernel = NULL;
}

static kn_status argument_result(const kn_kernel *kernel, int argument, cl_int code, const char *what,
                                 kn_error *error) {
    if (code == CL_SUCCESS) return KN_OK;
    return kn_fail_cl(error, code, "argument %d (%s) of kernel \"%s\" of \"%s\" could not be set", argument,
                      what, kernel->name, kernel->program->name);
}

kn_status kn_kernel_set_buffer(kn_kernel *kernel, int argument, kn_buffer *buffer, kn_error *error) {
    cl_mem memory = buffer ? buffer->view : NULL;
    if (!buffer) {
        kn_status status = kn_context_nothing(kernel->context, &memory, error);
        if (status) return status;
    } else if (!memory) {
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "argument %d of kernel \"%s\" begins at byte %llu of a memory object, which is "
                       "not a multiple of %u bytes; copy it first",
                       argument, kernel->name, (unsigned long long)buffer->base,
                       (unsigned)kernel->context->capabilities.alignment_bytes);
    }
    cl_int code = clSetKernelArg(kernel->kernel, (cl_uint)argument, sizeof memory, &memory);
    return argument_result(kernel, argument, code, "a buffer", error);
}

kn_status kn_kernel_set_bytes(kn_kernel *kernel, int argument, const void *bytes, size_t count,
                              kn_error *error) {
    return argument_result(kernel, argument, clSetKernelArg(kernel->kernel, (cl_uint)argument, count, bytes),
                           "a value", error);
}

kn_status kn_kernel_set_local(kn_kernel *kernel, int argument, size_t bytes, kn_error *error) {
    return argument_result(kernel, argument, clSetKernelArg(kernel->kernel, (cl_uint)argument, bytes, NULL),
                           "local memory", error);
}

size_t kn_kernel_work_group_items(const kn_kernel *kernel) {
    return kernel->work_group_items;
}

size_t kn_kernel_reported_items(const kn_kernel *kernel) {
    return kernel->reported_items;
}

/* CL_KERNEL_SPILL_MEM_SIZE_INTEL, of this extension: its drivers do not count spills as private memory. */
static const char spill_extension[] = "cl_intel_required_subgroup_size";
enum { SPILL_MEM_SIZE = 0x4109 };

bool kn_kernel_private_bytes(const kn_kernel *kernel, uint64_t *bytes) {
    static const cl_kernel_work_group_info queries[] = {CL_KERNEL_PRIVATE_MEM_SIZE, SPILL_MEM_SIZE};
    const cl_device_id device = kernel->context->found.device;
    const int count = kn_device_claims(device, spill_extension) ? 2 : 1;
    bool known = false;
    *bytes = 0;
    for (int i = 0; i < count; i++) {
        cl_ulong reported = 0;
        if (clGetKernelWorkGroupInfo(kernel->kernel, device, queries[i], sizeof reported, &reported, NULL) !=
            CL_SUCCESS)
            continue;
        *bytes += reported;
        known = true;
    }
    return known;
}

int kn_kernel_parameters(const kn_kernel *kernel) {
    cl_uint count = 0;
    cl_int code = clGetKernelInfo(kernel->kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL);
    return code == CL_SUCCESS ? (int)count : -1;
}

/* Fails unless the sizes are whole groups that the kernel allows. */
static kn_status check_launch(const kn_kernel *kernel, const kn_launch *launch, kn_error *error) {
    size_t items = 1;
    if (launch->dimensions < 1 || launch->dimensions > 3)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "kernel \"%s\" was launched in %d dimensions; expected 1 to 3", kernel->name,
                       launch->dimensions);
    for (int i = 0; i < launch->dimensions; i++) {
        if (launch->local[i] == 0 || launch->global[i] % launch->local[i] != 0)
            return kn_fail(
                error, KN_ERROR_ARGUMENT,
                "kernel \"%s\" was launched with %zu work-items in work-groups of %zu (dimension %d): "
                "the first must be a multiple of the second",
                kernel->name, launch->global[i], launch->local[i], i);
        items *= launch->local[i];
    }
    if (items > kernel->work_group_items)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "kernel \"%s\" was launched in work-groups of %zu; on %s it allows at most %zu",
                       kernel->name, items, kernel->context->found.info.name, kernel->work_group_items);
    return KN_OK;
}

/* Launches `part` of the work; NULL offset: from the first item. */
static kn_status enqueue(kn_context *context, kn_kernel *kernel, const kn_launch *launch,
                         const size_t *offset, const size_t *global, double part, const char *label,
                         kn_error *error) {
    cl_event event = NULL;
    kn_attempt_phase(context, true);
    cl_int code =
        clEnqueueNDRangeKernel(context->queues[KN_QUEUE_COMPUTE], kernel->kernel, (cl_uint)launch->dimensions,
                               offset, global, launch->local, 0, NULL, context->records ? &event : NULL);
    if (code != CL_SUCCESS)
        return kn_fail_cl(error, code, "kernel \"%s\" of \"%s\" could not be launched on %s", kernel->name,
                          kernel->program->name, context->found.info.name);
    if (event) {
        const kn_timeline_entry work = {.label = label,
                                        .kernel = kernel->name,
                                        .queue = KN_QUEUE_COMPUTE,
                                        .flops = part * launch->flops,
                                        .bytes = part * launch->bytes};
        kn_timeline_note(context, &work, event);
        clReleaseEvent(event);
    }
    return KN_OK;
}

/* Splits a launch along its dimensions into launches that are submitted one after the other, so that none of
 * them occupies the device for long. */
static kn_status launch_cut(kn_context *context, kn_kernel *kernel, const kn_launch *launch,
                            const char *label, kn_error *error) {
    size_t each[3] = {1, 1, 1}, all[3] = {1, 1, 1}, at[3];
    for (int i = 0; i < launch->dimensions; i++) {
        size_t groups = launch->global[i] / launch->local[i], cut = launch->cut[i] ? launch->cut[i] : 1;
        all[i] = launch->global[i];
        each[i] = ((groups - 1) / cut + 1) * launch->local[i];
    }
    for (at[2] = 0; at[2] < all[2]; at[2] += each[2])
        for (at[1] = 0; at[1] < all[1]; at[1] += each[1])
            for (at[0] = 0; at[0] < all[0]; at[0] += each[0]) {
                size_t size[3];
                double part = 1;
                for (int i = 0; i < 3; i++) {
                    size[i] = all[i] - at[i] < each[i] ? all[i] - at[i] : each[i];
                    part *= (double)size[i] / (double)all[i];
                }
                kn_status status = enqueue(context, kernel, launch, at, size, part, label, error);
                if (status == KN_OK) status = kn_queue_flush(context, KN_QUEUE_COMPUTE, error);
                if (status != KN_OK) return status;
            }
    return KN_OK;
}

kn_status kn_kernel_launch(kn_context *context, kn_kernel *kernel, const kn_launch *launch, const char *label,
                           kn_error *error) {
    bool cut = false;
    for (int i = 0; i < launch->dimensions && i < 3; i++) {
        if (launch->global[i] == 0) return KN_OK;
        cut = cut || launch->cut[i] > 1;
    }
    kn_status status = check_launch(kernel, launch, error);
    if (status != KN_OK) return status;
    atomic_fetch_add(&context->launches, 1);
    return cut ? launch_cut(context, kernel, launch, label, error)
               : enqueue(context, kernel, launch, NULL, launch->global, 1, label, error);
}
