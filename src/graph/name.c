/* Names given by the user, generated names, and scopes. */
#include <string.h>

#include "graph/graph_private.h"

bool kn_name_valid(const char *name) {
    if (!name || !*name) return false;
    for (const char *c = name; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool other = (*c >= '0' && *c <= '9') || *c == '_' || *c == '.' || *c == '/' || *c == '-';
        if (!letter && !other) return false;
    }
    return true;
}

/* Increments a counter that starts at 1 and returns it; 0 if out of memory. */
static size_t count_up(kn_graph *graph, const char *key) {
    uintptr_t number = (uintptr_t)kn_map_get_text(&graph->counters, key) + 1;
    return kn_map_put_text(&graph->counters, key, (void *)number) ? number : 0;
}

const char *kn_name_make(kn_graph *graph, const char *kind) {
    const char *stem = kn_arena_format(&graph->arena, "%s%s", graph->scope, kind);
    for (;;) {
        size_t number = stem ? count_up(graph, stem) : 0;
        const char *name = number ? kn_arena_format(&graph->arena, "%s%zu", stem, number) : NULL;
        if (!name) {
            kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory for a name");
            return "";
        }
        if (!kn_map_get_text(&graph->names, name)) return name;
    }
}

const char *kn_name_here(kn_graph *graph, const char *name) {
    if (!kn_name_valid(name)) {
        kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                      "'%.100s' is not a valid name; use letters, digits, '_', '.', '/' and '-'",
                      name ? name : "");
        return "";
    }
    const char *whole = kn_arena_format(&graph->arena, "%s%s", graph->scope, name);
    if (!whole) kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory for a name");
    return whole ? whole : "";
}

/* In bound graphs, a duplicate "relu1" becomes "relu1~2". */
static const char *make_unique(kn_graph *graph, const char *name) {
    const char *stem = kn_arena_format(&graph->arena, "%s~", name), *varied = name;
    while (varied && kn_map_get_text(&graph->names, varied)) {
        size_t number = stem ? count_up(graph, stem) : 0;
        varied = number ? kn_arena_format(&graph->arena, "%s%zu", stem, number + 1) : NULL;
    }
    return varied;
}

bool kn_value_rename(kn_graph *graph, kn_value *value, const char *name) {
    kn_value *holder = kn_map_get_text(&graph->names, name);
    if (holder == value) return true;
    if (holder && !graph->bound) {
        kn_graph_fail(graph, KN_ERROR_ARGUMENT, "the name '%s' is taken; names are unique in a graph", name);
        return false;
    }
    if (holder)
        name = make_unique(graph, name);
    else
        name = kn_arena_text(&graph->arena, name);
    if (!name || !kn_map_put_text(&graph->names, name, value)) {
        kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory for a name");
        return false;
    }
    if (*value->name && kn_map_get_text(&graph->names, value->name) == value)
        kn_map_remove(&graph->names, value->name, strlen(value->name));
    value->name = name;
    return true;
}

void kn_input_alias(kn_value *input, const char *field) {
    kn_graph *graph = input->graph;
    if (kn_map_has(&graph->names, field, strlen(field))) return;
    input->field = kn_arena_text(&graph->arena, field);
    if (!input->field || !kn_map_put_text(&graph->names, input->field, input))
        kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory for a name");
}

/* ---- scopes: `scope` is "stage2.block1."; scope_lengths holds its length before each level ------------- */

void kn_scope_begin(kn_graph *graph, const char *name) {
    if (!graph) return;
    size_t length = strlen(graph->scope);
    if (!kn_name_valid(name)) {
        kn_graph_fail(graph, KN_ERROR_ARGUMENT,
                      "a scope needs a name of letters, digits, '_', '.', '/' and '-', found '%.100s'",
                      name ? name : "");
        name = "x"; /* begin the scope anyway, so that its end matches */
    }
    if (graph->scope_depth >= (int)KN_COUNT_OF(graph->scope_lengths) ||
        strlen(name) + 2 > sizeof graph->scope - length) {
        kn_graph_fail(graph, KN_ERROR_UNSUPPORTED,
                      "scope '%.100s': scopes nest at most %zu deep and have at most %zu characters", name,
                      KN_COUNT_OF(graph->scope_lengths), sizeof graph->scope - 1);
        return;
    }
    graph->scope_lengths[graph->scope_depth++] = (uint16_t)length;
    memcpy(graph->scope + length, name, strlen(name));
    memcpy(graph->scope + length + strlen(name), ".", 2);
}

void kn_scope_end(kn_graph *graph) {
    if (!graph) return;
    if (graph->scope_depth == 0) {
        kn_graph_fail(graph, KN_ERROR_ARGUMENT, "kn_scope_end without kn_scope_begin");
        return;
    }
    graph->scope[graph->scope_lengths[--graph->scope_depth]] = '\0';
}
