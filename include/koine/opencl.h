/* For programs that have their own OpenCL context, queue and buffers. The only Koine header with OpenCL
 * types; koine.h does not include it.
 *
 *     kn_context *context = kn_context_create_opencl(NULL, cl_own_context, cl_own_device, cl_own_queue);
 *     kn_buffer *buffer = kn_buffer_from_opencl(context, cl_own_memory, 0, sizeof x);
 *     kn_session_feed_buffer(session, "x", buffer);
 *     // … kn_session_run …
 *     kn_buffer_destroy(&buffer);
 *     kn_context_destroy(&context); */
#ifndef KOINE_OPENCL_H
#define KOINE_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#include <koine/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Like kn_context_create, on the caller's context, device and in-order queue. Koine retains what it uses,
 * releases it when the context is destroyed, and enqueues everything on that queue, which needs no profiling.
 * params->device is ignored; params->target must be NULL or "". */
KN_API KN_NODISCARD kn_context *kn_context_create_opencl(const kn_context_params *params, cl_context context,
                                                         cl_device_id device, cl_command_queue queue);
/* Work that Koine enqueues after this call starts once the events are complete. */
KN_API kn_status kn_context_wait_for(kn_context *context, const cl_event *events, cl_uint count);
/* An event, owned by the caller, that completes when all work enqueued by Koine so far has completed. */
KN_API kn_status kn_context_marker(kn_context *context, cl_event *event);

/* A buffer of the caller, or its range of `bytes` from `offset`, to feed to a session or to fetch into
 * (kn_session_feed_buffer, kn_session_fetch_buffer): row-major, at any offset. Retains the memory object.
 * NULL on failure (kn_context_error does not change). */
typedef struct kn_buffer kn_buffer;
KN_API KN_NODISCARD kn_buffer *kn_buffer_from_opencl(kn_context *context, cl_mem memory, size_t offset,
                                                     size_t bytes);
KN_API void kn_buffer_destroy(kn_buffer **buffer);

#ifdef __cplusplus
}
#endif
#endif
