/* The first error of a graph, which later calls return. */
#include <stdio.h>

#include "graph/graph_private.h"

kn_value *kn_graph_fail(kn_graph *graph, kn_status status, const char *format, ...) {
    if (!graph) return NULL;
    if (graph->error.status != KN_OK) return &graph->failed;
    char text[sizeof graph->error.text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kn_fail(&graph->error, status, "%s", text);
    return &graph->failed;
}

kn_value *kn_graph_fail_with(kn_graph *graph, const kn_error *error) {
    if (graph->error.status == KN_OK) graph->error = *error;
    return &graph->failed;
}

bool kn_value_failed(const kn_value *value) {
    return !value || value->failed;
}
