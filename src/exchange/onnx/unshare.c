/* Gives initializers that exporters merged because they were equal at first (the weights of new norms are all
 * ones, and so are running variances) a separate copy each, so that each is trained separately. */
#include "exchange/onnx/import.h"

enum { MAX_READ = 32, STATISTICS = 3 /* index of a batch norm's first input that is a running statistic */ };

typedef struct sharing {
    kn_import *import;
    kn_onnx_graph *graph;
    kn_onnx_tensor *list; /* the initializers, with spare capacity */
    size_t count, capacity;
    size_t *reads;     /* per initializer of the file: how many node inputs read it */
    size_t read_count; /* number of initializers in the file; they come first in the list */
    kn_map names;      /* name -> index of the initializer, plus 1 */
    kn_map split;      /* names of added copies */
    kn_map folded;     /* names of initializers that were folded into others */
    kn_map results;    /* names of the graph's outputs */
    kn_signature signature;
} sharing;

static size_t find(const sharing *all, const char *name) {
    return (size_t)(uintptr_t)kn_map_get_text(&all->names, name);
}

/* Adds a copy of initializer `from` with the given name, unless that name exists. */
static bool add_copy(sharing *all, size_t from, const char *name) {
    if (!name) return kn_model_no_memory(all->import->model);
    if (find(all, name)) return true;
    if (all->count == all->capacity) {
        size_t more = 2 * all->capacity + 16;
        kn_onnx_tensor *list = kn_arena_take(all->import->arena, more, sizeof *list);
        if (!list) return kn_model_no_memory(all->import->model);
        if (all->count) memcpy(list, all->list, all->count * sizeof *list);
        all->list = list;
        all->capacity = more;
    }
    all->list[all->count] = all->list[from];
    all->list[all->count++].name = name;
    return (kn_map_put_text(&all->names, name, (void *)(uintptr_t)all->count) &&
            kn_map_put_text(&all->split, name, all)) ||
           kn_model_no_memory(all->import->model);
}

static const char *last_word(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* ---- metadata of PyTorch's exporter -------------------------------------------------------------------- */

/* Finds words such as "%p_bn_weight" in the description of a node and stores their names in the program;
 * returns the count. */
static int names_read(const sharing *all, const char *text, const char **names) {
    int count = 0;
    while ((text = strchr(text, '%')) != NULL && count < MAX_READ) {
        size_t length = strspn(++text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        const char *name = kn_map_get(&all->signature.targets, text, length);
        if (name) names[count++] = name;
        text += length;
    }
    return count;
}

/* Returns the index of one of names[0..count) without an initializer, preferring names that end in the last
 * word of `like`; -1: none. */
static int find_lost(const sharing *all, const char *const *names, int count, const char *like) {
    int found = -1;
    for (int i = count - 1; i >= 0; i--) {
        if (!names[i] || kn_map_has(&all->folded, names[i], strlen(names[i])) ||
            (find(all, names[i]) && !kn_map_has(&all->split, names[i], strlen(names[i]))))
            continue;
        bool alike = !strcmp(last_word(names[i]), last_word(like));
        if (found < 0 || alike || strcmp(last_word(names[found]), last_word(like))) found = i;
    }
    return found;
}

/* Replaces initializers that other nodes read too, and that were not created for this node, by separate
 * copies. */
static bool restore(sharing *all, const kn_onnx_node *node) {
    const char *text = kn_import_pair(node->metadata, node->metadata_count, "pkg.torch.onnx.fx_node");
    const char *names[MAX_READ];
    bool right[MAX_READ] = {false};
    int count = text ? names_read(all, text, names) : 0;
    for (size_t k = 0; k < node->input_count && k < MAX_READ; k++)
        for (int i = 0; i < count && !right[k]; i++)
            if (names[i] && !strcmp(names[i], node->inputs[k])) {
                right[k] = true;
                names[i] = NULL;
            }
    for (size_t k = 0; count && k < node->input_count && k < MAX_READ; k++) {
        size_t from = find(all, node->inputs[k]);
        if (!from || from > all->read_count || right[k] || all->reads[from - 1] < 2 ||
            !kn_map_get_text(&all->signature.kinds, node->inputs[k]))
            continue;
        int lost = find_lost(all, names, count, node->inputs[k]);
        if (lost < 0) continue;
        if (!add_copy(all, from - 1, names[lost])) return false;
        node->inputs[k] = names[lost];
        names[lost] = NULL;
    }
    return true;
}

/* ---- without metadata ---------------------------------------------------------------------------------- */

static bool is_identity(const kn_onnx_node *node) {
    return !strcmp(node->type, "Identity") && !*node->domain && node->input_count == 1 &&
           node->output_count == 1;
}

/* Whether a node is an Identity of an initializer whose output has a parameter's name: the older exporter
 * writes copies this way. */
static bool is_copy(const sharing *all, const kn_onnx_node *node, size_t *from) {
    const char *name = is_identity(node) ? node->outputs[0] : "";
    if (!strchr(name, '.') || *name == '/' || find(all, name)) return false;
    *from = find(all, node->inputs[0]);
    return *from && all->list[*from - 1].rank == 1 && !kn_map_has(&all->results, name, strlen(name));
}

static bool take_copies(sharing *all) {
    kn_onnx_node *nodes = (kn_onnx_node *)(uintptr_t)all->graph->nodes; /* in the file's arena */
    size_t kept = 0, from;
    for (size_t i = 0; i < all->graph->node_count; i++) {
        if (!is_copy(all, &nodes[i], &from))
            nodes[kept++] = nodes[i];
        else if (!add_copy(all, from - 1, nodes[i].outputs[0]))
            return false;
    }
    all->graph->node_count = kept;
    return true;
}

static bool is_statistic(const kn_onnx_node *node, size_t input) {
    return !strcmp(node->type, "BatchNormalization") && !*node->domain && input >= STATISTICS;
}

/* The initializer that `name` is a copy of, or `name` itself. */
static const char *original(const kn_map *copies, const char *name) {
    const char *from = kn_map_get_text(copies, name);
    return from ? from : name;
}

/* Separates running statistics that are also used elsewhere. Statistics shared by norms may reach the later
 * norms as copies. */
static bool take_statistics(sharing *all) {
    kn_map others, copies;
    bool fine = true;
    kn_map_init(&others, &all->import->model->host);
    kn_map_init(&copies, &all->import->model->host);
    for (size_t i = 0; fine && i < all->graph->node_count; i++) {
        const kn_onnx_node *node = &all->graph->nodes[i];
        if (is_identity(node)) {
            const char *from = original(&copies, node->inputs[0]);
            if (find(all, from)) fine = kn_map_put_text(&copies, node->outputs[0], (void *)(uintptr_t)from);
        }
        for (size_t k = 0; fine && !is_identity(node) && k < node->input_count; k++) {
            const char *from = original(&copies, node->inputs[k]);
            if (is_statistic(node, k))
                node->inputs[k] = from;
            else if (find(all, from))
                fine = kn_map_put_text(&others, from, all);
        }
    }
    if (!fine) kn_model_no_memory(all->import->model);
    for (size_t i = 0; fine && i < all->graph->node_count; i++) {
        const kn_onnx_node *node = &all->graph->nodes[i];
        for (size_t k = STATISTICS; fine && is_statistic(node, k) && k < node->input_count; k++) {
            size_t from = find(all, node->inputs[k]);
            if (!from || !kn_map_get_text(&others, node->inputs[k])) continue;
            const char *part = k == STATISTICS ? "running_mean" : "running_var";
            const char *name = kn_arena_format(all->import->arena, "%s.%s", node->outputs[0], part);
            for (int number = 2; name && find(all, name); number++)
                name = kn_arena_format(all->import->arena, "%s.%s_%d", node->outputs[0], part, number);
            fine = add_copy(all, from - 1, name);
            if (fine) node->inputs[k] = name;
        }
    }
    kn_map_finish(&copies);
    kn_map_finish(&others);
    return fine;
}

/* ---- entry point --------------------------------------------------------------------------------------- */

static bool read_names(sharing *all) {
    bool fine = kn_signature_read(all->import, &all->signature);
    for (size_t i = 0; fine && i < all->count; i++)
        fine = !*all->list[i].name ||
               kn_map_put_text(&all->names, all->list[i].name, (void *)(uintptr_t)(i + 1));
    for (size_t i = 0; fine && i < all->graph->output_count; i++)
        fine =
            !*all->graph->outputs[i].name || kn_map_put_text(&all->results, all->graph->outputs[i].name, all);
    for (size_t i = 0; fine && i < all->graph->value_count; i++) {
        const kn_onnx_value_info *info = &all->graph->values[i];
        const char *list =
            kn_import_pair(info->metadata, info->metadata_count, "pkg.onnxscript.optimizer.folded_from");
        while (fine && list && (list = strchr(list, '\'')) != NULL) {
            size_t length = strcspn(++list, "'");
            fine = kn_map_put(&all->folded, list, length, all);
            list += length + (list[length] == '\'');
        }
    }
    return fine || kn_model_no_memory(all->import->model);
}

bool kn_import_unshare(kn_import *import) {
    const kn_host *host = &import->model->host;
    kn_onnx_graph *graph = &kn_imported_of(import->model)->file->graph;
    sharing all = {.import = import,
                   .graph = graph,
                   .list = (kn_onnx_tensor *)(uintptr_t)graph->initializers,
                   .count = graph->initializer_count,
                   .read_count = graph->initializer_count,
                   .capacity = graph->initializer_count};
    kn_map_init(&all.names, host);
    kn_map_init(&all.split, host);
    kn_map_init(&all.folded, host);
    kn_map_init(&all.results, host);
    all.reads = kn_allocate(host, all.count + 1, sizeof *all.reads);
    bool fine = read_names(&all) && (all.reads || kn_model_no_memory(import->model));
    for (size_t i = 0; fine && i < graph->node_count; i++)
        for (size_t k = 0; k < graph->nodes[i].input_count; k++)
            if (find(&all, graph->nodes[i].inputs[k])) all.reads[find(&all, graph->nodes[i].inputs[k]) - 1]++;
    fine = fine && take_copies(&all);
    for (size_t i = 0; fine && all.signature.kinds.count && i < graph->node_count; i++)
        fine = restore(&all, &graph->nodes[i]);
    fine = fine && take_statistics(&all);
    graph->initializers = all.list;
    graph->initializer_count = all.count;
    kn_release(host, all.reads);
    kn_signature_finish(&all.signature);
    kn_map_finish(&all.names);
    kn_map_finish(&all.split);
    kn_map_finish(&all.folded);
    kn_map_finish(&all.results);
    return fine;
}
