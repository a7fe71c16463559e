/* Pins: the device that nodes run on, by its name in the context. */
#include <string.h>

#include "graph/graph_private.h"

/* A stack of kn_pin_begin calls. */
struct kn_pinning {
    const char *device;
    struct kn_pinning *around;
};

const char *kn_pin_now(const kn_graph *graph) {
    return graph->pinning ? graph->pinning->device : NULL;
}

/* Copies the name into the graph's arena; false on failure. */
static bool keep_name(kn_graph *graph, const char *device, const char **kept) {
    *kept = NULL;
    if (!device) return true;
    if (*device) *kept = kn_arena_text(&graph->arena, device);
    if (*kept) return true;
    kn_graph_fail(graph, *device ? KN_ERROR_MEMORY : KN_ERROR_ARGUMENT,
                  *device ? "out of host memory for a name" : "the device name of a pin is empty");
    return false;
}

kn_value *kn_pin(kn_value *value, const char *device) {
    const char *name;
    if (kn_value_failed(value)) return value;
    kn_graph *graph = value->graph;
    if (!value->producer)
        return kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                             "'%s' is not the result of a node, so it cannot be pinned: inputs, parameters "
                             "and constants are stored on the devices that read them",
                             value->name);
    if (!keep_name(graph, device, &name)) return &graph->failed;
    value->producer->pin = name;
    return value;
}

void kn_pin_begin(kn_graph *graph, const char *device) {
    const char *name;
    if (!graph || !keep_name(graph, device, &name)) return;
    struct kn_pinning *pinning = kn_arena_take(&graph->arena, 1, sizeof *pinning);
    if (!pinning) {
        kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory for a pin");
        return;
    }
    *pinning = (struct kn_pinning){name, graph->pinning};
    graph->pinning = pinning;
}

void kn_pin_end(kn_graph *graph) {
    if (!graph || graph->error.status != KN_OK) return; /* kn_pin_begin may have failed */
    if (graph->pinning)
        graph->pinning = graph->pinning->around;
    else
        kn_graph_fail(graph, KN_ERROR_ARGUMENT, "kn_pin_end without kn_pin_begin");
}

int kn_graph_pin(kn_graph *graph, const char *pattern, const char *device) {
    const char *name;
    int count = 0;
    if (!graph || !pattern || !keep_name(graph, device, &name)) return 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        kn_node *node = graph->nodes[i];
        bool fits = false;
        for (int k = 0; k < node->output_count; k++)
            fits = fits || kn_pattern_fits(pattern, node->outputs[k]->name);
        if (!fits) continue;
        node->pin = name;
        count++;
    }
    return count;
}

const char *kn_graph_pinned_at(const kn_graph *graph, size_t position) {
    size_t count = 0;
    for (size_t i = 0; graph && i < graph->node_count; i++) {
        const char *pin = graph->nodes[i]->pin;
        bool seen = !pin;
        for (size_t j = 0; j < i && !seen; j++)
            seen = graph->nodes[j]->pin && !strcmp(graph->nodes[j]->pin, pin);
        if (!seen && count++ == position) return pin;
    }
    return NULL;
}
