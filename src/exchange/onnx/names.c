/* Names of values: valid in a graph, and for each weight of a file the same in every graph that is built from
 * any part of the file. */
#include "exchange/onnx/import.h"

/* A name of the file with only the characters that a graph allows; NULL when out of memory. */
static char *clean_name(kn_arena *arena, const char *name) {
    char *clean = kn_arena_text(arena, *name ? name : "value");
    for (char *c = clean; c && *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!letter && *c != '_' && *c != '.' && *c != '/' && *c != '-') *c = '_';
    }
    return clean;
}

const char *kn_import_name(kn_import *import, const char *name) {
    const char *clean = clean_name(import->arena, name), *unique = clean;
    /* "y" is the name of the target in training. */
    for (int i = 2; unique && (kn_graph_find(import->graph, unique) || !strcmp(unique, "y")); i++)
        unique = kn_arena_format(import->arena, "%s_%d", clean, i);
    return unique;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

typedef struct naming {
    kn_import *import;
    kn_map *names;
    kn_map taken;
    int depth;
} naming;

static bool take(naming *all, const char *name) {
    return name && kn_map_put_text(&all->taken, name, all);
}

static bool name_weight(naming *all, const kn_onnx_tensor *tensor) {
    kn_arena *arena = all->import->arena;
    const char *clean = clean_name(arena, tensor->name), *unique = clean;
    for (int i = 2; unique && kn_map_has(&all->taken, unique, strlen(unique)); i++)
        unique = kn_arena_format(arena, "%s_%d", clean, i);
    return take(all, unique) && kn_map_put(all->names, &tensor, sizeof tensor, (void *)(uintptr_t)unique);
}

static bool name_weights(naming *all, const kn_onnx_graph *graph);

static bool name_bodies(naming *all, const kn_onnx_node *nodes, size_t count) {
    bool fine = true;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < nodes[i].attribute_count; j++) {
            const kn_onnx_attribute *attribute = &nodes[i].attributes[j];
            const bool graphs =
                attribute->kind == KN_ONNX_ATTRIBUTE_GRAPH || attribute->kind == KN_ONNX_ATTRIBUTE_GRAPHS;
            for (size_t k = 0; fine && graphs && k < attribute->count; k++)
                fine = name_weights(all, &attribute->graphs[k]);
        }
    return fine;
}

static bool name_weights(naming *all, const kn_onnx_graph *graph) {
    bool fine = true;
    if (++all->depth <= KN_IMPORT_DEPTH) {
        for (size_t i = 0; fine && i < graph->initializer_count; i++)
            fine = name_weight(all, &graph->initializers[i]);
        fine = fine && name_bodies(all, graph->nodes, graph->node_count);
    }
    all->depth--;
    return fine;
}

bool kn_import_name_weights(kn_import *import) {
    const kn_onnx_model *file = import->file;
    kn_imported *imported = kn_imported_of(import->model);
    naming all = {.import = import, .names = imported->names};
    kn_map_init(&all.taken, &import->model->host);
    bool fine = take(&all, "y");
    for (size_t i = 0; fine && i < file->graph.input_count; i++) {
        bool weight = false; /* an input whose default is an initializer */
        for (size_t k = 0; k < file->graph.initializer_count && !weight; k++)
            weight = !strcmp(file->graph.initializers[k].name, file->graph.inputs[i].name);
        fine = weight || take(&all, clean_name(import->arena, file->graph.inputs[i].name));
    }
    fine = fine && name_weights(&all, &file->graph);
    for (size_t i = 0; fine && i < file->function_count; i++)
        fine = name_bodies(&all, file->functions[i].nodes, file->functions[i].node_count);
    kn_map_finish(&all.taken);
    return fine || kn_model_no_memory(import->model);
}

const char *kn_import_weight_name(kn_import *import, const kn_onnx_tensor *tensor, kn_value **made) {
    const char *name = kn_map_get(kn_imported_of(import->model)->names, &tensor, sizeof tensor);
    kn_value *value = name ? kn_graph_find(import->graph, name) : NULL;
    *made = NULL;
    if (!name || !value) return name ? name : kn_import_name(import, tensor->name);
    for (size_t i = 0; i < import->state_count; i++)
        if (import->states[i].value == value && import->states[i].tensor == tensor) *made = value;
    return *made ? name : kn_import_name(import, tensor->name);
}
