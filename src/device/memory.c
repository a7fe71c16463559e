/* Blocks of device memory, and slices of them. */
#include "device/device_private.h"

enum { LARGE_BYTES = 4 << 20 };

/* Some drivers refuse tiny or zero sizes, so a block has at least one unit of alignment. */
static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    if (bytes == 0) return unit;
    return bytes > UINT64_MAX - unit ? bytes : kn_align_up(bytes, unit);
}

static kn_buffer *buffer_new(kn_context *context, cl_mem root, uint64_t base, uint64_t bytes,
                             kn_error *error) {
    kn_buffer *buffer = kn_allocate(&context->host, 1, sizeof *buffer);
    if (!buffer) {
        kn_fail_memory(error, sizeof *buffer);
        return NULL;
    }
    buffer->context = context;
    buffer->root = root;
    buffer->base = base;
    buffer->bytes = bytes;
    return buffer;
}

/* Reserves bytes of the device's memory, since many drivers would only fail later, in a launch. */
static bool charge(kn_context *context, uint64_t bytes, uint64_t *taken) {
    kn_mutex_lock(context->mutex);
    kn_context_counts *counts = &context->counts;
    *taken = counts->device_bytes;
    uint64_t memory = context->capabilities.memory_bytes;
    bool fits = memory == 0 || (bytes <= memory && counts->device_bytes <= memory - bytes);
    if (fits) {
        counts->device_bytes += bytes;
        if (counts->device_bytes > counts->device_bytes_peak)
            counts->device_bytes_peak = counts->device_bytes;
    }
    kn_mutex_unlock(context->mutex);
    return fits;
}

static void discharge(kn_context *context, uint64_t bytes) {
    if (bytes == 0) return;
    kn_mutex_lock(context->mutex);
    context->counts.device_bytes -= bytes;
    kn_mutex_unlock(context->mutex);
}

/* The functions below use a separate queue, because the other queues may wait for work that the program has
 * yet to enqueue. */

/* Places a CPU's large blocks in large pages, which reduces TLB misses for distant rows. Mapping a block
 * reveals its address. */
static cl_int advise_large_pages(const kn_context *context, cl_mem block, uint64_t bytes) {
    if (context->found.info.type != KN_DEVICE_CPU || !context->capabilities.shares_memory ||
        bytes < LARGE_BYTES)
        return CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(context->context, context->found.device, 0, NULL);
    if (!queue) return CL_SUCCESS; /* the system's default applies */
    cl_int code = CL_SUCCESS;
    void *mapped = clEnqueueMapBuffer(queue, block, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, (size_t)bytes,
                                      0, NULL, NULL, NULL);
    if (mapped) {
        kn_advise_large_pages(mapped, (size_t)bytes);
        code = clEnqueueUnmapMemObject(queue, block, mapped, 0, NULL, NULL);
        if (code == CL_SUCCESS) code = clFinish(queue);
    }
    clReleaseCommandQueue(queue);
    return code;
}

/* Some drivers of GPUs allocate a block when it is used for the first time, so that a launch in the middle of
 * a step would fail. A fill of a few bytes makes them do it now. */
static cl_int use_first(const kn_context *context, cl_mem block, uint64_t bytes) {
    static const unsigned char zeros[16] = {0};
    if (context->found.info.type == KN_DEVICE_CPU || context->capabilities.shares_memory ||
        bytes < LARGE_BYTES)
        return CL_SUCCESS;
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(context->context, context->found.device, 0, &code);
    if (!queue) return code;
    code = clEnqueueFillBuffer(queue, block, zeros, sizeof zeros, 0, sizeof zeros, 0, NULL, NULL);
    if (code == CL_SUCCESS) code = clFinish(queue);
    clReleaseCommandQueue(queue);
    return code;
}

/* A new block of device memory, or NULL with an error code. */
static cl_mem block_new(const kn_context *context, uint64_t bytes, cl_int *code) {
    /* If memory is shared, such a block can be mapped without a copy. */
    cl_mem_flags flags =
        CL_MEM_READ_WRITE | (context->capabilities.shares_memory ? CL_MEM_ALLOC_HOST_PTR : 0);
    cl_mem block = clCreateBuffer(context->context, flags, (size_t)bytes, NULL, code);
    if (!block) return NULL;
    *code = advise_large_pages(context, block, bytes);
    if (*code == CL_SUCCESS) *code = use_first(context, block, bytes);
    if (*code == CL_SUCCESS) return block;
    clReleaseMemObject(block);
    return NULL;
}

kn_status kn_buffer_create(kn_context *context, uint64_t bytes, kn_buffer **buffer, kn_error *error) {
    *buffer = NULL;
    if (context->failure.status) return kn_error_copy(error, &context->failure);
    if (context->described) return kn_fail_described(context, error);
    const kn_capabilities *capabilities = &context->capabilities;
    uint64_t rounded = round_up(bytes, capabilities->alignment_bytes);
    if (bytes > capabilities->largest_block_bytes || bytes > SIZE_MAX)
        return kn_fail(error, KN_ERROR_DEVICE_MEMORY,
                       "a block of %llu bytes exceeds the largest allocation of %s (%llu bytes)",
                       (unsigned long long)bytes, context->found.info.name,
                       (unsigned long long)capabilities->largest_block_bytes);
    if (rounded > capabilities->largest_block_bytes) rounded = bytes ? bytes : 1;
    uint64_t taken = 0;
    if (!charge(context, rounded, &taken))
        return kn_fail(
            error, KN_ERROR_DEVICE_MEMORY,
            "out of memory on %s: requested a block of %llu bytes, with %llu of %llu bytes in use; "
            "a smaller batch needs less",
            context->found.info.name, (unsigned long long)bytes, (unsigned long long)taken,
            (unsigned long long)capabilities->memory_bytes);
    kn_buffer *result = buffer_new(context, NULL, 0, bytes, error);
    if (!result) {
        discharge(context, rounded);
        return KN_ERROR_MEMORY;
    }
    cl_int code;
    result->root = block_new(context, rounded, &code);
    if (!result->root) {
        discharge(context, rounded);
        kn_release(&context->host, result);
        if (code == CL_OUT_OF_RESOURCES) code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return kn_fail_cl(error, code,
                          "%s: could not allocate a block of %llu bytes, with %llu of %llu bytes in use%s",
                          context->found.info.name, (unsigned long long)bytes, (unsigned long long)taken,
                          (unsigned long long)capabilities->memory_bytes,
                          code == CL_MEM_OBJECT_ALLOCATION_FAILURE ? "; a smaller batch needs less" : "");
    }
    result->view = result->root;
    result->charged = rounded;
    *buffer = result;
    return KN_OK;
}

kn_status kn_buffer_slice(kn_buffer *block, uint64_t offset, uint64_t bytes, kn_buffer **slice,
                          kn_error *error) {
    kn_context *context = block->context;
    *slice = NULL;
    if (offset > block->bytes || bytes > block->bytes - offset)
        return kn_fail(error, KN_ERROR_ARGUMENT, "a slice of %llu bytes at %llu is outside its block of %llu",
                       (unsigned long long)bytes, (unsigned long long)offset,
                       (unsigned long long)block->bytes);
    if (offset % context->capabilities.alignment_bytes != 0)
        return kn_fail(error, KN_ERROR_ARGUMENT, "a slice at %llu is not aligned to %u bytes",
                       (unsigned long long)offset, (unsigned)context->capabilities.alignment_bytes);
    kn_buffer *result = buffer_new(context, block->root, block->base + offset, bytes, error);
    if (!result) return KN_ERROR_MEMORY;
    cl_int code = clRetainMemObject(block->root);
    if (code != CL_SUCCESS) {
        kn_release(&context->host, result);
        return kn_fail_cl(error, code, "a block could not be retained");
    }
    if (bytes == 0) {
        result->view = result->root; /* nothing is read or written through it */
    } else {
        /* Always a sub-buffer of the root: OpenCL does not allow sub-buffers of sub-buffers. */
        cl_buffer_region region = {(size_t)result->base, (size_t)bytes};
        result->view =
            clCreateSubBuffer(result->root, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        if (!result->view) {
            kn_buffer_destroy(&result);
            return kn_fail_cl(error, code, "a slice of %llu bytes at %llu could not be created",
                              (unsigned long long)bytes, (unsigned long long)offset);
        }
    }
    *slice = result;
    return KN_OK;
}

void kn_buffer_destroy(kn_buffer **buffer) {
    if (!buffer || !*buffer) return;
    kn_buffer *old = *buffer;
    if (old->view && old->view != old->root) clReleaseMemObject(old->view);
    if (old->root) clReleaseMemObject(old->root);
    discharge(old->context, old->charged);
    kn_release(&old->context->host, old);
    *buffer = NULL;
}

uint64_t kn_buffer_bytes(const kn_buffer *buffer) {
    return buffer ? buffer->bytes : 0;
}

kn_status kn_context_nothing(kn_context *context, cl_mem *memory, kn_error *error) {
    cl_int code = CL_SUCCESS;
    kn_mutex_lock(context->mutex);
    if (!context->nothing)
        context->nothing = clCreateBuffer(context->context, CL_MEM_READ_WRITE,
                                          context->capabilities.alignment_bytes, NULL, &code);
    *memory = context->nothing;
    kn_mutex_unlock(context->mutex);
    return *memory
               ? KN_OK
               : kn_fail_cl(error, code, "no memory for an absent argument on %s", context->found.info.name);
}
