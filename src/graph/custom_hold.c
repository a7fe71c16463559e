/* Lifetime of custom operators: graphs hold references to those of their nodes. */
#include "graph/custom_private.h"

void kn_custom_drop(struct kn_custom *custom) {
    if (!custom || atomic_fetch_sub(&custom->holders, 1) > 1) return;
    kn_host host = custom->host;
    if (custom->release) custom->release(custom->user);
    kn_custom_drop(custom->gradient_operator);
    kn_arena_finish(&custom->arena);
    kn_release(&host, custom);
}

bool kn_custom_hold(kn_graph *graph, const kn_operator *row) {
    struct kn_custom *custom = row->custom;
    if (!custom || kn_map_has(&graph->held, &custom, sizeof custom)) return true;
    if (!kn_map_put(&graph->held, &custom, sizeof custom, custom)) return false;
    atomic_fetch_add(&custom->holders, 1);
    return true;
}

void kn_custom_release(kn_graph *graph) {
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&graph->held, &position)) != NULL;)
        kn_custom_drop(entry->value);
    kn_map_finish(&graph->held);
}
