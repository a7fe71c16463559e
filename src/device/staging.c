/* Host memory that a device with separate memory reads directly: a block that the driver allocates for the
 * host and that stays mapped. From other host memory, drivers copy into such memory first, and often make the
 * caller wait. */
#include "device/device_private.h"

struct kn_staging {
    kn_context *context;
    cl_mem block;
    void *memory;
    uint64_t bytes;
};

bool kn_staging_pays(const kn_context *context) {
    return !context->capabilities.shares_memory &&
           (context->described || context->queues[KN_QUEUE_COMPUTE] != context->queues[KN_QUEUE_TRANSFER]);
}

static void count(kn_context *context, uint64_t bytes) {
    kn_mutex_lock(context->mutex);
    context->counts.staging_bytes += bytes; /* wraps around to subtract bytes */
    kn_mutex_unlock(context->mutex);
}

/* Maps the block on the transfer queue, which only has transfers: the compute queue would have to finish
 * first. */
static cl_int map(kn_staging *staging) {
    cl_int code;
    staging->block = clCreateBuffer(staging->context->context, CL_MEM_READ_ONLY | CL_MEM_ALLOC_HOST_PTR,
                                    (size_t)staging->bytes, NULL, &code);
    if (!staging->block) return code;
    staging->memory =
        clEnqueueMapBuffer(staging->context->queues[KN_QUEUE_TRANSFER], staging->block, CL_TRUE,
                           CL_MAP_WRITE_INVALIDATE_REGION, 0, (size_t)staging->bytes, 0, NULL, NULL, &code);
    if (staging->memory) return CL_SUCCESS;
    clReleaseMemObject(staging->block);
    return code;
}

kn_status kn_staging_create(kn_context *context, uint64_t bytes, kn_staging **staging, kn_error *error) {
    *staging = NULL;
    if (!bytes || bytes > context->capabilities.largest_block_bytes || bytes > SIZE_MAX)
        return kn_fail(error, KN_ERROR_ARGUMENT, "%llu bytes of memory for uploads; expected 1 to %llu",
                       (unsigned long long)bytes,
                       (unsigned long long)context->capabilities.largest_block_bytes);
    kn_staging *result = kn_allocate(&context->host, 1, sizeof *result);
    if (!result) return kn_fail_memory(error, sizeof *result);
    *result = (kn_staging){.context = context, .bytes = bytes};
    cl_int code = map(result);
    if (code != CL_SUCCESS) {
        kn_release(&context->host, result);
        return kn_fail_cl(error, code, "could not allocate %llu bytes of memory for uploads to %s",
                          (unsigned long long)bytes, context->found.info.name);
    }
    count(context, bytes);
    *staging = result;
    return KN_OK;
}

void *kn_staging_memory(const kn_staging *staging) {
    return staging->memory;
}

void kn_staging_destroy(kn_staging **staging) {
    if (!staging || !*staging) return;
    kn_staging *old = *staging;
    cl_command_queue queue = old->context->queues[KN_QUEUE_TRANSFER];
    /* Not all drivers keep released memory until it is unmapped. */
    if (clEnqueueUnmapMemObject(queue, old->block, old->memory, 0, NULL, NULL) == CL_SUCCESS) clFinish(queue);
    clReleaseMemObject(old->block);
    count(old->context, 0 - old->bytes);
    kn_release(&old->context->host, old);
    *staging = NULL;
}
