/* Profiles of sessions: a file of events in the format that the original writes, which browsers and its own
 * tools show. Kernels take the place of nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "onnxruntime/onnxruntime.h"

/* As in the original, later events are dropped. */
enum { MAX_EVENTS = 1000000 };

struct ort_profile {
    FILE *file; /* NULL: ended */
    char *path;
    struct timespec start; /* of CLOCK_MONOTONIC */
    uint64_t started;      /* nanoseconds since 1970 */
    size_t events;
};

static bool make_path(ort_profile *profile, const char *prefix) {
    struct timespec now;
    struct tm parts;
    char date[64] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_MONOTONIC, &profile->start);
    profile->started = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (localtime_r(&now.tv_sec, &parts)) strftime(date, sizeof date, "%Y-%m-%d_%H-%M-%S", &parts);
    const size_t room = strlen(prefix) + strlen(date) + 16;
    profile->path = malloc(room);
    if (profile->path)
        snprintf(profile->path, room, "%s_%s_%03d.json", prefix, date, (int)(now.tv_nsec / 1000000));
    return profile->path != NULL;
}

OrtStatus *ort_profile_start(const char *prefix, ort_profile **out) {
    ort_profile *profile = calloc(1, sizeof *profile);
    OrtStatus *status = NULL;
    if (!profile || !make_path(profile, prefix)) {
        status = ort_no_memory();
    } else if (!(profile->file = fopen(profile->path, "w"))) {
        status = ort_fail(ORT_FAIL, "the profile '%s' cannot be written; EnableProfiling takes a path",
                          profile->path);
    } else {
        fputs("[\n", profile->file);
        *out = profile;
        return NULL;
    }
    ort_profile_destroy(profile);
    return status;
}

double ort_profile_now(const ort_profile *profile) {
    struct timespec now;
    if (!profile) return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - profile->start.tv_sec) * 1e6 +
           (double)(now.tv_nsec - profile->start.tv_nsec) * 1e-3;
}

static void put_text(FILE *file, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20)
            fprintf(file, "\\u%04x", (unsigned)text[i]);
        else
            fprintf(file, text[i] == '"' || text[i] == '\\' ? "\\%c" : "%c", text[i]);
    }
}

/* Begins an event, up to its name. */
static bool put_event(ort_profile *profile, const char *category, double start, double end) {
    if (!profile->file || profile->events == MAX_EVENTS) return false;
    const double length = end > start ? end - start : 0;
    fprintf(profile->file,
            "%s{\"cat\" : \"%s\",\"pid\" :%ld,\"tid\" :%lu,\"dur\" :%.0f,\"ts\" :%.0f,\"ph\" : "
            "\"X\",\"name\" :\"",
            profile->events++ ? ",\n" : "", category, (long)getpid(), (unsigned long)pthread_self(), length,
            start > 0 ? start : 0);
    return true;
}

void ort_profile_span(ort_profile *profile, const char *name, double start) {
    if (profile && put_event(profile, "Session", start, ort_profile_now(profile)))
        fprintf(profile->file, "%s\",\"args\" : {}}", name);
}

/* A label is an operator and, after a space, a node. */
static void put_entry(ort_profile *profile, const kn_timeline_entry *entry, size_t position, double offset) {
    const size_t length = strcspn(entry->label, " ");
    const char *node = entry->label[length] ? entry->label + length + 1 : entry->label;
    if (!put_event(profile, "Node", offset + entry->start * 1e6, offset + entry->end * 1e6)) return;
    put_text(profile->file, node, strlen(node));
    fputs("_kernel_time\",\"args\" : {\"op_name\" : \"", profile->file);
    put_text(profile->file, entry->label, length);
    fputs("\",\"provider\" : \"KoineExecutionProvider\",\"kernel\" : \"", profile->file);
    put_text(profile->file, entry->kernel, strlen(entry->kernel));
    fprintf(profile->file, "\",\"node_index\" : \"%zu\",\"flops\" : \"%.0f\",\"bytes\" : \"%.0f\"}}",
            position, entry->flops, entry->bytes);
}

void ort_profile_run(ort_profile *profile, kn_context *context, double start) {
    if (!profile || !profile->file) return;
    size_t count = 0;
    const double offset = ort_profile_now(profile) - kn_context_clock(context) * 1e6;
    const kn_timeline_entry *entry = kn_context_timeline(context, &count);
    for (size_t i = 0; i < count; i++) {
        put_entry(profile, entry, i, offset);
        entry = (const kn_timeline_entry *)(const void *)((const char *)entry + entry->size);
    }
    kn_context_timeline_clear(context);
    ort_profile_span(profile, "SequentialExecutor::Execute", start);
    ort_profile_span(profile, "model_run", start);
}

OrtStatus *ort_profile_end(ort_profile *profile) {
    if (!profile || !profile->file) return NULL;
    fputs("\n]\n", profile->file);
    const bool failed = ferror(profile->file);
    const bool closed = !fclose(profile->file);
    profile->file = NULL;
    return closed && !failed ? NULL
                             : ort_fail(ORT_FAIL, "the profile '%s' could not be written", profile->path);
}

void ort_profile_destroy(ort_profile *profile) {
    if (!profile) return;
    ort_ReleaseStatus(ort_profile_end(profile));
    free(profile->path);
    free(profile);
}

/* ---- the interface ----------------------------------------------------------------------- */

OrtStatus *ort_EnableProfiling(OrtSessionOptions *options, const char *prefix) {
    ORT_NEED(options);
    ORT_NEED(prefix);
    return ort_replace_text(&options->profile_prefix, prefix);
}

OrtStatus *ort_DisableProfiling(OrtSessionOptions *options) {
    ORT_NEED(options);
    free(options->profile_prefix);
    options->profile_prefix = NULL;
    return NULL;
}

ORT_GETTER(SessionGetProfilingStartTimeNs, const OrtSession, session, uint64_t,
           session->profile ? session->profile->started : 0)

/* "" without a profile, and after the first call. */
OrtStatus *ort_SessionEndProfiling(OrtSession *session, OrtAllocator *allocator, char **out) {
    ORT_NEED(session);
    ORT_NEED(allocator);
    ORT_NEED(out);
    pthread_mutex_lock(&session->lock);
    const bool running = session->profile && session->profile->file;
    OrtStatus *status = ort_profile_end(session->profile);
    pthread_mutex_unlock(&session->lock);
    if (status) return status;
    *out = ort_allocate_text(allocator, running ? session->profile->path : "");
    return *out ? NULL : ort_no_memory();
}
