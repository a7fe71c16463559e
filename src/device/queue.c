/* Transfers, and the order of work on the two queues.
 *
 * Both queues are in order. Work on one queue that must follow work on the other waits for its event; OpenCL
 * requires that the event's queue be flushed, which is done here. */
#include <stdio.h>

#include "device/device_private.h"

/* A command being enqueued. */
typedef struct submission {
    kn_context *context;
    kn_queue number;
    cl_command_queue queue;
    cl_event wait; /* an event to wait for, or NULL */
    cl_event event;
    bool records; /* an event is requested */
} submission;

static cl_uint waits(const submission *work) {
    return work->wait ? 1 : 0;
}
static const cl_event *wait_list(const submission *work) {
    return work->wait ? &work->wait : NULL;
}
static cl_event *event_place(submission *work) {
    return work->records ? &work->event : NULL;
}

static submission submission_begin(kn_context *context, kn_queue number, kn_event after, kn_event *done) {
    submission work = {.context = context, .number = number, .queue = context->queues[number]};
    if (done) done->handle = NULL;
    work.records = done != NULL || context->records;
    if (after.handle) {
        cl_event event = after.handle;
        cl_command_queue other = NULL;
        clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof other, &other, NULL);
        if (other != work.queue) {
            if (other) clFlush(other);
            work.wait = event;
        } /* an earlier event of the same queue is then complete */
    }
    return work;
}

static kn_status submission_end(submission *work, cl_int code, const char *label, const char *what,
                                uint64_t bytes, kn_event *done, kn_error *error) {
    if (code != CL_SUCCESS)
        return kn_fail_cl(error, code, "%s of %llu bytes failed on %s", what, (unsigned long long)bytes,
                          work->context->found.info.name);
    if (!work->event) return KN_OK;
    if (work->context->records) {
        const kn_timeline_entry entry = {.label = label, .queue = (int)work->number, .bytes = (double)bytes};
        kn_timeline_note(work->context, &entry, work->event);
    }
    if (done)
        done->handle = work->event;
    else
        clReleaseEvent(work->event);
    return KN_OK;
}

/* After a failure, commands may still use memory that the caller is about to free. */
static void finish_all(kn_context *context) {
    for (size_t i = 0; i < KN_COUNT_OF(context->queues); i++)
        clFinish(context->queues[i]);
}

/* Waits for a command through its event. Blocking reads and clFinish are not used: in Mesa 22.3, where
 * several threads use a queue, they return too early if another thread has just flushed it. */
static cl_int wait_for(kn_context *context, cl_event event) {
    cl_int code = clWaitForEvents(1, &event);
    if (code != CL_SUCCESS) finish_all(context);
    return code;
}

/* Waits for the command that has just been enqueued. After a failure it has no event any more. */
static cl_int wait_for_new(submission *work) {
    cl_int code = wait_for(work->context, work->event);
    if (code != CL_SUCCESS) clReleaseEvent(work->event);
    return code;
}

static kn_status check_range(const kn_buffer *buffer, uint64_t offset, uint64_t bytes, const char *what,
                             kn_error *error) {
    if (!buffer) return kn_fail(error, KN_ERROR_ARGUMENT, "%s: the buffer is NULL", what);
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return KN_OK;
    return kn_fail(error, KN_ERROR_ARGUMENT, "%s of %llu bytes at %llu is outside a buffer of %llu bytes",
                   what, (unsigned long long)bytes, (unsigned long long)offset,
                   (unsigned long long)buffer->bytes);
}

/* Transfers of zero bytes only keep the order. */
static kn_status nothing_to_do(kn_context *context, kn_queue queue, bool wait, kn_event after, kn_event *done,
                               kn_error *error) {
    if (done) done->handle = NULL;
    kn_status status = kn_queue_after(context, queue, after, error);
    if (!status && done) status = kn_queue_mark(context, queue, done, error);
    if (!status && wait) status = kn_queue_finish(context, queue, error);
    return status;
}

kn_status kn_queue_write(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset,
                         const void *source, uint64_t bytes, bool wait, kn_event after, kn_event *done,
                         kn_error *error) {
    kn_status status = check_range(buffer, offset, bytes, "a write", error);
    if (status) return status;
    if (bytes == 0) return nothing_to_do(context, queue, wait, after, done, error);
    submission work = submission_begin(context, queue, after, done);
    work.records = work.records || wait;
    cl_int code =
        clEnqueueWriteBuffer(work.queue, buffer->root, CL_FALSE, (size_t)(buffer->base + offset),
                             (size_t)bytes, source, waits(&work), wait_list(&work), event_place(&work));
    /* OpenCL's blocking write only promises that `source` may be reused: the other queue might still see the
     * old contents. */
    if (wait && code == CL_SUCCESS) code = wait_for_new(&work);
    return submission_end(&work, code, "upload", "a write", bytes, done, error);
}

kn_status kn_queue_read(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset, void *target,
                        uint64_t bytes, bool wait, kn_event after, kn_event *done, kn_error *error) {
    kn_status status = check_range(buffer, offset, bytes, "a read", error);
    if (status) return status;
    if (bytes == 0) return nothing_to_do(context, queue, wait, after, done, error);
    submission work = submission_begin(context, queue, after, done);
    work.records = work.records || wait;
    cl_int code =
        clEnqueueReadBuffer(work.queue, buffer->root, CL_FALSE, (size_t)(buffer->base + offset),
                            (size_t)bytes, target, waits(&work), wait_list(&work), event_place(&work));
    if (code != CL_SUCCESS)
        finish_all(context);
    else if (wait)
        code = wait_for_new(&work);
    return submission_end(&work, code, "download", "a read", bytes, done, error);
}

kn_status kn_queue_copy(kn_context *context, kn_queue queue, kn_buffer *source, uint64_t source_offset,
                        kn_buffer *target, uint64_t target_offset, uint64_t bytes, kn_event after,
                        kn_event *done, kn_error *error) {
    kn_status status = check_range(source, source_offset, bytes, "a copy's source", error);
    if (!status) status = check_range(target, target_offset, bytes, "a copy's target", error);
    if (status) return status;
    if (bytes == 0) return nothing_to_do(context, queue, false, after, done, error);
    submission work = submission_begin(context, queue, after, done);
    cl_int code =
        clEnqueueCopyBuffer(work.queue, source->root, target->root, (size_t)(source->base + source_offset),
                            (size_t)(target->base + target_offset), (size_t)bytes, waits(&work),
                            wait_list(&work), event_place(&work));
    return submission_end(&work, code, "copy", "a copy", bytes, done, error);
}

kn_status kn_queue_fill(kn_context *context, kn_queue queue, kn_buffer *buffer, uint64_t offset,
                        uint64_t bytes, const void *pattern, size_t pattern_bytes, kn_event *done,
                        kn_error *error) {
    kn_status status = check_range(buffer, offset, bytes, "a fill", error);
    if (status) return status;
    kn_event none = {NULL};
    if (pattern_bytes == 0 || pattern_bytes > 16 || (pattern_bytes & (pattern_bytes - 1)) != 0 ||
        (buffer->base + offset) % pattern_bytes != 0 || bytes % pattern_bytes != 0)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "a fill of %llu bytes at %llu with a pattern of %zu: expected a pattern of 1, 2, 4, 8 "
                       "or 16 bytes, with offset and length multiples of it",
                       (unsigned long long)bytes, (unsigned long long)offset, pattern_bytes);
    if (bytes == 0) return nothing_to_do(context, queue, false, none, done, error);
    submission work = submission_begin(context, queue, none, done);
    cl_int code =
        clEnqueueFillBuffer(work.queue, buffer->root, pattern, pattern_bytes, (size_t)(buffer->base + offset),
                            (size_t)bytes, 0, NULL, event_place(&work));
    return submission_end(&work, code, "fill", "a fill", bytes, done, error);
}

void kn_event_release(kn_event *event) {
    if (event->handle) clReleaseEvent(event->handle);
    event->handle = NULL;
}

kn_status kn_event_wait(kn_context *context, kn_event event, kn_error *error) {
    if (!event.handle) return KN_OK;
    cl_int code = wait_for(context, event.handle);
    if (code == CL_SUCCESS) return KN_OK;
    return kn_fail_cl(error, code, "work on %s did not complete", context->found.info.name);
}

bool kn_event_is_complete(kn_event event) {
    cl_int state = CL_COMPLETE;
    if (!event.handle) return true;
    return clGetEventInfo(event.handle, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) ==
               CL_SUCCESS &&
           state == CL_COMPLETE;
}

kn_status kn_queue_after(kn_context *context, kn_queue queue, kn_event event, kn_error *error) {
    submission work = submission_begin(context, queue, event, NULL);
    if (!work.wait) return KN_OK;
    cl_int code = clEnqueueBarrierWithWaitList(work.queue, 1, &work.wait, NULL);
    if (code == CL_SUCCESS) return KN_OK;
    return kn_fail_cl(error, code, "one queue of %s could not wait for the other", context->found.info.name);
}

kn_status kn_queue_mark(kn_context *context, kn_queue queue, kn_event *event, kn_error *error) {
    cl_event marker = NULL;
    cl_int code = clEnqueueMarkerWithWaitList(context->queues[queue], 0, NULL, &marker);
    event->handle = marker;
    if (code == CL_SUCCESS) return KN_OK;
    return kn_fail_cl(error, code, "a marker could not be enqueued on %s", context->found.info.name);
}

kn_status kn_queue_flush(kn_context *context, kn_queue queue, kn_error *error) {
    cl_int code = clFlush(context->queues[queue]);
    if (code == CL_SUCCESS) return KN_OK;
    return kn_fail_cl(error, code, "a queue of %s could not be flushed", context->found.info.name);
}

kn_status kn_queue_finish(kn_context *context, kn_queue queue, kn_error *error) {
    if (context->described) return KN_OK;
    cl_event last = NULL;
    cl_int code = clEnqueueMarkerWithWaitList(context->queues[queue], 0, NULL, &last);
    if (code == CL_SUCCESS) {
        code = wait_for(context, last);
        clReleaseEvent(last);
    }
    if (code == CL_SUCCESS) return KN_OK;
    return kn_fail_cl(error, code, "work on %s failed", context->found.info.name);
}
