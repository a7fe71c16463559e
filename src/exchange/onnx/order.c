/* Topological order of nodes, which files may have in any order. */
#include "exchange/onnx/import.h"

#include <stdio.h>

/* Names defined in a body, which hide outer names. */
typedef struct inner {
    kn_map made;
    const struct inner *outer;
} inner;

/* Dependencies: node i reads results of nodes needs[first[i]] to needs[first[i + 1] - 1]. */
typedef struct order {
    kn_import *import;
    const kn_onnx_node *nodes;
    size_t count;
    kn_map made; /* name -> index of the node that makes it, plus 1 */
    size_t *first, *needs, *stack, *sorted;
    uint8_t *state; /* by node */
    size_t need_count;
    bool failed; /* out of memory */
} order;

enum { UNSEEN, OPEN, DONE };

static void add_need(order *list, const inner *body, const char *name) {
    for (; body; body = body->outer)
        if (kn_map_get_text(&body->made, name)) return;
    uintptr_t found = (uintptr_t)kn_map_get_text(&list->made, name);
    if (!found) return;
    if (list->needs) list->needs[list->need_count] = found - 1;
    list->need_count++;
}

static void put_name(order *list, kn_map *map, const char *name, uintptr_t number) {
    if (*name && !kn_map_put_text(map, name, (void *)number)) list->failed = true;
}

/* Adds the nodes that a node depends on, including those that nodes of its branches and bodies read. */
static void add_needs(order *list, const inner *outer, const kn_onnx_node *node);

static void add_body_needs(order *list, const inner *outer, const kn_onnx_graph *graph) {
    inner body = {.outer = outer};
    kn_map_init(&body.made, &list->import->model->host);
    for (size_t i = 0; i < graph->input_count; i++)
        put_name(list, &body.made, graph->inputs[i].name, 1);
    for (size_t i = 0; i < graph->initializer_count; i++)
        put_name(list, &body.made, graph->initializers[i].name, 1);
    for (size_t i = 0; i < graph->node_count; i++)
        for (size_t k = 0; k < graph->nodes[i].output_count; k++)
            put_name(list, &body.made, graph->nodes[i].outputs[k], 1);
    for (size_t i = 0; i < graph->node_count; i++)
        add_needs(list, &body, &graph->nodes[i]);
    for (size_t i = 0; i < graph->output_count; i++)
        add_need(list, &body, graph->outputs[i].name);
    kn_map_finish(&body.made);
}

static bool holds_graphs(const kn_onnx_attribute *attribute) {
    return attribute->kind == KN_ONNX_ATTRIBUTE_GRAPH || attribute->kind == KN_ONNX_ATTRIBUTE_GRAPHS;
}

static void add_needs(order *list, const inner *outer, const kn_onnx_node *node) {
    for (size_t i = 0; i < node->input_count; i++)
        add_need(list, outer, node->inputs[i]);
    for (size_t i = 0; i < node->attribute_count; i++)
        for (size_t k = 0; holds_graphs(&node->attributes[i]) && k < node->attributes[i].count; k++)
            add_body_needs(list, outer, &node->attributes[i].graphs[k]);
}

static bool find_needs(order *list) {
    const kn_host *host = &list->import->model->host;
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < list->nodes[i].output_count; k++)
            put_name(list, &list->made, list->nodes[i].outputs[k], i + 1);
    for (int pass = 0; pass < 2 && !list->failed; pass++) { /* first pass: count; second pass: store */
        size_t count = list->need_count;
        if (pass && !(list->needs = kn_allocate(host, count + 1, sizeof *list->needs))) list->failed = true;
        list->need_count = 0;
        for (size_t i = 0; i < list->count && !list->failed; i++) {
            list->first[i] = list->need_count;
            add_needs(list, NULL, &list->nodes[i]);
        }
        list->first[list->count] = list->need_count;
    }
    return !list->failed || kn_model_no_memory(list->import->model);
}

static bool fail_cycle(const order *list, size_t at, size_t from) {
    const kn_onnx_node *maker = &list->nodes[from];
    char text[400];
    snprintf(text, sizeof text,
             "reads the result of node '%.100s' (%.60s), which depends on this node: the nodes form a cycle",
             *maker->name ? maker->name : maker->outputs[0], maker->type);
    kn_import_fail_node(list->import, &list->nodes[at], KN_ERROR_FORMAT, text);
    return false;
}

/* Puts each node after those it depends on; the order is otherwise unchanged. */
static bool sort(order *list) {
    size_t done = 0;
    for (size_t i = 0; i < list->count; i++) {
        size_t depth = 0;
        if (list->state[i] == UNSEEN) list->stack[depth++] = i;
        while (depth) {
            size_t at = list->stack[depth - 1], k = list->first[at];
            list->state[at] = OPEN;
            while (k < list->first[at + 1] && list->state[list->needs[k]] == DONE)
                k++;
            list->first[at] = k;
            if (k == list->first[at + 1]) {
                list->state[at] = DONE;
                list->sorted[done++] = at;
                depth--;
            } else if (list->state[list->needs[k]] == OPEN) {
                return fail_cycle(list, at, list->needs[k]);
            } else {
                list->stack[depth++] = list->needs[k];
            }
        }
    }
    return true;
}

/* The nodes are in the file's arena, where they may be modified. */
static bool move_nodes(const order *list) {
    const kn_host *host = &list->import->model->host;
    kn_onnx_node *to = (kn_onnx_node *)(uintptr_t)list->nodes;
    kn_onnx_node *moved = kn_allocate(host, list->count + 1, sizeof *moved);
    if (!moved) return kn_model_no_memory(list->import->model);
    for (size_t i = 0; i < list->count; i++)
        moved[i] = list->nodes[list->sorted[i]];
    memcpy(to, moved, list->count * sizeof *moved);
    kn_release(host, moved);
    return true;
}

bool kn_import_sort(kn_import *import, const kn_onnx_node *nodes, size_t count) {
    const kn_host *host = &import->model->host;
    if (!count) return true;
    order list = {.import = import, .nodes = nodes, .count = count};
    list.first = kn_allocate(host, count + 1, sizeof *list.first);
    list.stack = kn_allocate(host, count, sizeof *list.stack);
    list.sorted = kn_allocate(host, count, sizeof *list.sorted);
    list.state = kn_allocate(host, count, sizeof *list.state);
    list.failed = !list.first || !list.stack || !list.sorted || !list.state;
    kn_map_init(&list.made, host);
    bool fine = list.failed ? kn_model_no_memory(import->model)
                            : find_needs(&list) && sort(&list) && move_nodes(&list);
    kn_map_finish(&list.made);
    kn_release(host, list.first);
    kn_release(host, list.needs);
    kn_release(host, list.stack);
    kn_release(host, list.sorted);
    kn_release(host, list.state);
    for (size_t i = 0; fine && i < count; i++)
        for (size_t j = 0; j < nodes[i].attribute_count; j++)
            for (size_t k = 0;
                 fine && holds_graphs(&nodes[i].attributes[j]) && k < nodes[i].attributes[j].count; k++)
                fine = kn_import_sort(import, nodes[i].attributes[j].graphs[k].nodes,
                                      nodes[i].attributes[j].graphs[k].node_count);
    return fine;
}
