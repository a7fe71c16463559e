/* --trace: the activity of the host and both queues on one time axis, for Perfetto and chrome://tracing. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* followed by the device's transfer queue, then the queues of the next device */
enum { HOST = 1, COMPUTE = 2 };

static FILE *file; /* NULL: not tracing */
static const char *path;
static bool broken;
static int devices; /* number of devices whose rows have names */

/* A row of the trace. */
static void name_row(int row, const char *name, const char *device) {
    fprintf(
        file,
        ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": ", row);
    char whole[100];
    snprintf(whole, sizeof whole, device ? "%s of %s" : "%s", name, device);
    json_text(file, whole);
    fprintf(file,
            "}},\n{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": "
            "{\"sort_index\": %d}}",
            row, row);
}

bool trace_open(const char *name, bool replace, const char *mark, common_options *common) {
    if (!name) return true;
    if (!path_writable(name, PATH_STREAM, replace)) return false;
    path = name;
    file = fopen(name, "w");
    if (!file) return command_error("'%s' cannot be opened for writing", name);
    common->timeline = true;
    if (mark)
        fprintf(file, "{\"otherData\": {\"training\": \"%s\"}, ", mark);
    else
        fputc('{', file);
    fputs("\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
          "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": "
          "\"koine\"}}",
          file);
    name_row(HOST, "host", NULL);
    name_row(COMPUTE, "compute queue", NULL);
    name_row(COMPUTE + 1, "transfer queue", NULL);
    devices = 1;
    return true;
}

/* Times are in seconds since the context was created; the file has microseconds. The object stays open. */
static void begin_event(const char *name, int thread, double begin, double end) {
    fputs(",\n{\"name\": ", file);
    json_text(file, name);
    fprintf(file, ", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f", thread,
            begin > 0 ? 1e6 * begin : 0, end > begin ? 1e6 * (end - begin) : 0);
}

void trace_host(const char *name, double begin, double end) {
    if (!file) return;
    begin_event(name, HOST, begin, end);
    fputs("}", file);
}

/* `later`: seconds from the creation of the first context to the creation of this one. */
static void trace_device(kn_context *context, int first, double later) {
    size_t count = 0;
    const kn_timeline_entry *entries = kn_context_timeline(context, &count);
    for (size_t i = 0; i < count; i++) {
        const kn_timeline_entry *entry = &entries[i];
        begin_event(entry->label, first + (entry->queue != 0), entry->start + later, entry->end + later);
        fputs(", \"args\": {\"kernel\": ", file);
        json_text(file, entry->kernel);
        json_measure_member(file, "flops", entry->flops);
        json_measure_member(file, "bytes", entry->bytes);
        fputs("}}", file);
    }
}

void trace_queues(kn_context *context) {
    const int count = (int)kn_context_device_count(context);
    for (int i = 0; file && i < count; i++) {
        kn_context *device = kn_context_device_at(context, (size_t)i);
        const char *name = kn_context_device_name_at(context, (size_t)i);
        for (; devices <= i; devices++) {
            name_row(COMPUTE + 2 * i, "compute queue", name);
            name_row(COMPUTE + 2 * i + 1, "transfer queue", name);
        }
        trace_device(device, COMPUTE + 2 * i, i ? kn_context_clock(context) - kn_context_clock(device) : 0);
    }
}

bool trace_close(void) {
    if (!file) return !broken;
    fputs("\n]}\n", file);
    broken = (ferror(file) | fclose(file)) != 0;
    file = NULL;
    if (broken) command_fail("the trace '%s' could not be written", path);
    return !broken;
}
