/* The timeline: when each command ran, from the events' profiling times.
 *
 * The device's clock is aligned with the host's once, when the context is created. Events are read once they
 * are complete, at the latest when the timeline is requested; until then up to a thousand are pending. */
#include <string.h>

#include "device/device_private.h"

enum { MAX_PENDING = 1024 };

/* Start and end of the event in seconds of the device's clock; false if the queue does not report them. */
static bool event_times(cl_event event, double *start, double *end) {
    cl_ulong first, last;
    if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof first, &first, NULL) !=
            CL_SUCCESS ||
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof last, &last, NULL) != CL_SUCCESS)
        return false;
    *start = (double)first * 1e-9;
    *end = (double)last * 1e-9;
    return true;
}

bool kn_timeline_open(kn_context *context) {
    kn_timeline *timeline = &context->timeline;
    kn_map_init(&timeline->labels, &context->host);
    if (!context->records) return true;
    /* A caller's queue may lack profiling; nothing is recorded then. */
    cl_event event = NULL;
    cl_int value = 0, code;
    cl_mem memory = clCreateBuffer(context->context, CL_MEM_READ_WRITE, 64, NULL, &code);
    double start, end = 0;
    cl_command_queue_properties properties = 0;
    clGetCommandQueueInfo(context->queues[0], CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    bool works = memory && (properties & CL_QUEUE_PROFILING_ENABLE) &&
                 clEnqueueWriteBuffer(context->queues[0], memory, CL_FALSE, 0, sizeof value, &value, 0, NULL,
                                      &event) == CL_SUCCESS;
    works = works && clWaitForEvents(1, &event) == CL_SUCCESS;
    double now = kn_clock();
    works = works && event_times(event, &start, &end);
    if (event) {
        if (!works) clFinish(context->queues[0]); /* the write may still be running */
        clReleaseEvent(event);
    }
    if (memory) clReleaseMemObject(memory);
    timeline->offset = now - end - context->made;
    context->records = works;
    if (!works)
        kn_log_write(&context->host, KN_LOG_WARNING,
                     "the queue of %s has no profiling, so the timeline stays empty",
                     context->found.info.name);
    return works;
}

void kn_timeline_close(kn_context *context) {
    kn_timeline *timeline = &context->timeline;
    for (size_t i = 0; i < timeline->pending_count; i++)
        clReleaseEvent(timeline->pending[i].event);
    kn_release(&context->host, timeline->pending);
    kn_release(&context->host, timeline->entries);
    kn_release(&context->host, timeline->shown);
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&timeline->labels, &position)) != NULL;)
        kn_release(&context->host, entry->value);
    if (timeline->labels.host) kn_map_finish(&timeline->labels);
    memset(timeline, 0, sizeof *timeline);
}

/* Moves finished work from pending to the entries. The mutex is held. */
static void drain(kn_context *context) {
    kn_timeline *timeline = &context->timeline;
    for (size_t i = 0; i < timeline->pending_count; i++) {
        struct kn_timeline_pending *work = &timeline->pending[i];
        double start, end;
        void *entries = timeline->entries;
        if (clWaitForEvents(1, &work->event) == CL_SUCCESS && event_times(work->event, &start, &end) &&
            kn_reserve(&context->host, &entries, &timeline->capacity, timeline->count + 1,
                       sizeof *timeline->entries)) {
            timeline->entries = entries;
            kn_timeline_entry *entry = &timeline->entries[timeline->count++];
            *entry = work->work;
            entry->size = sizeof *entry;
            entry->start = start + timeline->offset;
            entry->end = end + timeline->offset;
        }
        clReleaseEvent(work->event);
    }
    timeline->pending_count = 0;
}

/* A copy of the text that lives as long as the timeline; NULL when out of memory. */
static const char *keep(kn_context *context, const char *text) {
    kn_map *labels = &context->timeline.labels;
    if (!text) text = "";
    char *kept = kn_map_get_text(labels, text);
    if (kept || (kept = kn_copy_text(&context->host, text)) == NULL) return kept;
    if (kn_map_put_text(labels, text, kept)) return kept;
    kn_release(&context->host, kept);
    return NULL;
}

void kn_timeline_note(kn_context *context, const kn_timeline_entry *work, cl_event event) {
    kn_timeline *timeline = &context->timeline;
    kn_mutex_lock(context->mutex);
    kn_timeline_entry kept = *work;
    kept.label = keep(context, work->label);
    kept.kernel = keep(context, work->kernel);
    if (timeline->pending_count >= MAX_PENDING) drain(context);
    void *pending = timeline->pending;
    if (kept.label && kept.kernel &&
        kn_reserve(&context->host, &pending, &timeline->pending_capacity, timeline->pending_count + 1,
                   sizeof *timeline->pending)) {
        timeline->pending = pending;
        if (clRetainEvent(event) == CL_SUCCESS)
            timeline->pending[timeline->pending_count++] =
                (struct kn_timeline_pending){.event = event, .work = kept};
    }
    kn_mutex_unlock(context->mutex);
}

const kn_timeline_entry *kn_context_timeline(kn_context *context, size_t *count) {
    if (count) *count = 0;
    if (!context || !count || context->failure.status || !context->records) return NULL;
    kn_mutex_lock(context->mutex);
    drain(context);
    kn_timeline *timeline = &context->timeline;
    void *shown = timeline->shown;
    if (timeline->count > 0 && kn_reserve(&context->host, &shown, &timeline->shown_capacity, timeline->count,
                                          sizeof *timeline->shown)) {
        timeline->shown = shown;
        memcpy(shown, timeline->entries, timeline->count * sizeof *timeline->shown);
        *count = timeline->count;
    }
    kn_mutex_unlock(context->mutex);
    return *count > 0 ? timeline->shown : NULL;
}

double kn_context_clock(const kn_context *context) {
    return context && !context->failure.status ? kn_clock() - context->made : 0;
}

void kn_context_timeline_clear(kn_context *context) {
    for (size_t i = 1; i < kn_context_device_count(context); i++)
        kn_context_timeline_clear(kn_context_device_at(context, i));
    if (!context || context->failure.status || !context->records) return;
    kn_mutex_lock(context->mutex);
    drain(context);
    context->timeline.count = 0;
    kn_mutex_unlock(context->mutex);
}
