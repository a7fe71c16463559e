/* --trace: what the host and both queues did, on one time axis, as Perfetto and chrome://tracing read it. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { HOST = 1, COMPUTE = 2, TRANSFER = 3 };

static FILE *file; /* NULL: nothing is traced */
static const char *path;
static bool broken;

bool trace_open(const char *name, common_options *common) {
    static const char *const threads[] = {"host", "compute queue", "transfer queue"};
    if (!name) return true;
    if (!path_writable(name)) return false;
    path = name;
    file = fopen(name, "w");
    if (!file) return command_fail("'%s' cannot be opened for writing", name) == EXIT_DONE;
    common->timeline = true;
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
          "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": "
          "\"koine\"}}",
          file);
    for (int i = 0; i < 3; i++)
        fprintf(file,
                ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": "
                "\"%s\"}},\n"
                "{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": "
                "{\"sort_index\": %d}}",
                i + HOST, threads[i], i + HOST, i + HOST);
    return true;
}

/* Times in seconds since the context was made; the file has microseconds. The object stays open. */
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

void trace_queues(kn_context *context) {
    size_t count = 0;
    const kn_timeline_entry *entries = file ? kn_context_timeline(context, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        const kn_timeline_entry *entry = &entries[i];
        begin_event(entry->label, entry->queue ? TRANSFER : COMPUTE, entry->start, entry->end);
        fputs(", \"args\": {\"kernel\": ", file);
        json_text(file, entry->kernel);
        fputs(", \"flops\": ", file);
        json_measure(file, entry->flops);
        fputs(", \"bytes\": ", file);
        json_measure(file, entry->bytes);
        fputs("}}", file);
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
