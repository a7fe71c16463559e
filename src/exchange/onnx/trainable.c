/* Decides which initializers are trainable: the network's parameters, not its tables, windows, masks and
 * constants. The file's metadata decides; without metadata names and values do, and then the nodes that read
 * them. */
#include "exchange/onnx/import.h"

/* How nodes use an initializer; a use as a parameter outweighs uses as a constant. */
typedef struct uses {
    const char *trains, *constant; /* node types; NULL: none */
} uses;

typedef struct finder {
    kn_import *import;
    const kn_onnx_graph *graph;
    kn_map infos; /* name -> metadata of the value */
    kn_signature signature;
    kn_map origins; /* name of a value -> index, plus 1, of the initializer whose elements it holds */
    uses *uses;     /* by initializer */
    bool names;     /* parameters and buffers have their names in the program */
    bool failed;    /* out of memory */
} finder;

static void put(finder *find, kn_map *map, const char *name, const void *value) {
    if (*name && !kn_map_put_text(map, name, (void *)(uintptr_t)value)) find->failed = true;
}

/* ---- metadata of PyTorch's exporter -------------------------------------------------------------------- */

const char *kn_import_pair(const kn_text_pair *pairs, size_t count, const char *key) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(pairs[i].key, key)) return pairs[i].value;
    return NULL;
}

/* Parses a line such as "p_lin_weight: PARAMETER target='lin.weight'". */
static bool read_line(kn_import *import, kn_signature *signature, const char *text, size_t length) {
    char *line = kn_arena_format(import->arena, "%.*s", (int)(length < 4096 ? length : 4096), text);
    char *kind = line ? strstr(line, ": ") : NULL, *target = line ? strstr(line, " target='") : NULL;
    if (!kind || !target || target < kind + 2) return line;
    *kind = *target = '\0';
    kind += 2;
    target += strlen(" target='");
    target[strcspn(target, "'")] = '\0';
    return kn_map_put_text(&signature->kinds, target, kind) &&
           kn_map_put_text(&signature->targets, line, target);
}

bool kn_signature_read(kn_import *import, kn_signature *signature) {
    const kn_onnx_graph *graph = &import->file->graph;
    const char *text = kn_import_pair(graph->metadata, graph->metadata_count,
                                      "pkg.torch.export.ExportedProgram.graph_signature");
    kn_map_init(&signature->kinds, &import->model->host);
    kn_map_init(&signature->targets, &import->model->host);
    for (size_t length; text && *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        if (!read_line(import, signature, text, length)) return false;
    }
    return true;
}

void kn_signature_finish(kn_signature *signature) {
    kn_map_finish(&signature->kinds);
    kn_map_finish(&signature->targets);
}

/* Whether a list such as "['lin.weight', 'val_3']" names a parameter. */
static bool names_parameter(const finder *find, const char *list) {
    while ((list = strchr(list, '\'')) != NULL) {
        const char *end = strchr(++list, '\'');
        if (!end) break;
        const char *kind = kn_map_get(&find->signature.kinds, list, (size_t)(end - list));
        if (kind && !strcmp(kind, "PARAMETER")) return true;
        list = end + 1;
    }
    return false;
}

/* Decides by the file's metadata; false if it has none. */
static bool read_metadata(finder *find, const kn_onnx_tensor *tensor, kn_trainability *trainable) {
    const kn_onnx_value_info *info = kn_map_get_text(&find->infos, tensor->name);
    const char *kind = NULL, *folded = NULL;
    if (info) {
        kind = kn_import_pair(info->metadata, info->metadata_count,
                              "pkg.torch.export.graph_signature.InputSpec.kind");
        folded = kn_import_pair(info->metadata, info->metadata_count, "pkg.onnxscript.optimizer.folded_from");
    }
    if (!kind) kind = kn_map_get_text(&find->signature.kinds, tensor->name);
    if (kind) {
        trainable->yes = !strcmp(kind, "PARAMETER");
        trainable->why = kn_arena_format(find->import->arena, "marked %.40s in the file", kind);
    } else if (folded && find->signature.kinds.count) {
        trainable->yes = names_parameter(find, folded);
        trainable->why = trainable->yes ? "folded from parameters" : "not folded from parameters";
    }
    return kind || (folded && find->signature.kinds.count);
}

/* ---- names and values ---------------------------------------------------------------------------------- */

static bool is_among(const char *word, size_t length, const char *const *list) {
    for (; *list; list++)
        if (strlen(*list) == length && !strncmp(*list, word, length)) return true;
    return false;
}

/* The last meaningful word of a name; *length 0: none. */
static const char *last_word(const char *name, size_t *length) {
    static const char *const empty[] = {"cached", "cache", "table", "matrix", "buffer", "real", "imag", NULL};
    const char *end = name + strlen(name), *start = end;
    for (*length = 0; end > name; end = start - (start > name)) {
        start = end;
        while (start > name && !strchr("._/:-", start[-1]))
            start--;
        *length = (size_t)(end - start);
        if (*length && strspn(start, "0123456789") < *length && !is_among(start, *length, empty))
            return start;
    }
    *length = 0;
    return name;
}

static bool has_constant_name(const char *name) {
    static const char *const words[] = {
        "mask", "window", "cos", "sin", "freq",     "freqs", "fb",   "filterbank", "pe",   "mean",     "std",
        "var",  "grid",   "mel", "dft", "variance", "tril",  "triu", "win",        "bank", "constant", NULL};
    size_t length;
    const char *word = last_word(name, &length);
    return is_among(word, length, words);
}

static bool has_trainable_name(const char *name) {
    static const char *const words[] = {"weight", "bias",      "gamma",  "beta",      "alpha",
                                        "scale",  "token",     "embed",  "embedding", "embeddings",
                                        "param",  "parameter", "kernel", NULL};
    size_t length;
    const char *word = last_word(name, &length);
    return is_among(word, length, words);
}

/* Whether the name was generated by an exporter: "onnx::Add_12", "/Constant_output_0", "val_7". */
static bool is_generated(const char *name) {
    return !strncmp(name, "onnx::", 6) || (*name == '/' && strstr(name, "_output_")) ||
           (!strncmp(name, "val_", 4) && !name[4 + strspn(name + 4, "0123456789")]) ||
           !strncmp(name, "lifted_tensor_", 14) || !strncmp(name, "Constant_", 9) ||
           !strncmp(name, "const_", 6) || !name[strspn(name, "0123456789")];
}

static int long_axes(const kn_onnx_tensor *tensor) {
    int count = 0;
    for (size_t i = 0; i < tensor->rank; i++)
        count += tensor->shape[i] > 1;
    return count;
}

/* Whether the values look like a mask: zeros and one other number, or only large negative numbers. */
static bool is_mask(const kn_onnx_tensor *tensor) {
    bool zero = false, far = true, two = true;
    double other = 0;
    for (uint64_t i = 0; i < tensor->count && (far || two); i++) {
        double number = kn_onnx_tensor_number(tensor, i);
        zero = zero || number == 0;
        far = far && number <= -1e4;
        two = two && (number == 0 || other == 0 || number == other);
        if (number != 0) other = number;
    }
    return far || (two && zero && other != 0 && long_axes(tensor) > 1);
}

/* Whether nodes read it like a mask, and its name does not contradict that. */
static bool may_be_mask(const kn_onnx_tensor *tensor, const char *type) {
    static const char *const types[] = {"Add", "Sub", "Mul", "Div", "Where", NULL};
    if (has_trainable_name(tensor->name)) return false;
    return !type || is_among(type, strlen(type), types) ||
           (!strcmp(type, "MatMul") && !is_generated(tensor->name));
}

/* ---- uses ---------------------------------------------------------------------------------------------- */

/* Whether the results hold the elements of the first input. */
static bool carries(const char *type) {
    static const char *const types[] = {"Identity", "Transpose", "Reshape",  "Squeeze", "Unsqueeze",
                                        "Flatten",  "Cast",      "CastLike", "Expand",  "Slice",
                                        "Split",    "Tile",      NULL};
    return is_among(type, strlen(type), types);
}

/* Whether the node uses the input as a constant: a limit, a grid, a transform, or an operand of a comparison.
 */
static bool reads_constant(const char *type, size_t input) {
    static const char *const types[] = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal",  "Max",
                                        "Min",  "Clip",        "Mod",     "Floor",          "Ceil",   "Round",
                                        "Sign", "STFT",        "DFT",     "AffineGrid",     "Resize", NULL};
    return is_among(type, strlen(type), types) || (!strcmp(type, "GridSample") && input == 1);
}

static bool trains(const finder *find, const kn_onnx_tensor *tensor, const char *type, size_t input) {
    bool subtracted = !strcmp(type, "Sub") || !strcmp(type, "Div");
    bool added = !strcmp(type, "Add") || !strcmp(type, "Where"), multiplied = !strcmp(type, "Mul");
    if (has_trainable_name(tensor->name)) return true;
    if (reads_constant(type, input)) return false;
    if (!strcmp(type, "MatMul") && input == 0) return !is_generated(tensor->name);
    if (subtracted) return find->names && !is_generated(tensor->name);
    if (added) return long_axes(tensor) < 2 || !is_generated(tensor->name);
    if (multiplied) return long_axes(tensor) < 2;
    return true;
}

static void walk(finder *find, const kn_onnx_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const kn_onnx_node *node = &nodes[i];
        for (size_t k = 0; k < node->input_count; k++) {
            uintptr_t found = (uintptr_t)kn_map_get_text(&find->origins, node->inputs[k]);
            if (!found) continue;
            uses *of = &find->uses[found - 1];
            const bool same = k == 0 && carries(node->type);
            for (size_t j = 0; same && j < node->output_count; j++)
                put(find, &find->origins, node->outputs[j], (void *)found);
            if (!same)
                *(trains(find, &find->graph->initializers[found - 1], node->type, k) ? &of->trains
                                                                                     : &of->constant) =
                    node->type;
        }
        for (size_t j = 0; j < node->attribute_count; j++) {
            const kn_onnx_attribute *attribute = &node->attributes[j];
            bool graphs =
                attribute->kind == KN_ONNX_ATTRIBUTE_GRAPH || attribute->kind == KN_ONNX_ATTRIBUTE_GRAPHS;
            for (size_t k = 0; graphs && k < attribute->count; k++)
                walk(find, attribute->graphs[k].nodes, attribute->graphs[k].node_count);
        }
    }
}

/* ---- decisions ----------------------------------------------------------------------------------------- */

static const char *unfit(const kn_onnx_tensor *tensor) {
    kn_dtype dtype;
    if (!kn_onnx_type_to(tensor->type, &dtype) || !kn_dtype_is_float(dtype)) return "not floating-point";
    if (tensor->count == 0) return "empty";
    return kn_onnx_tensor_finite(tensor) ? NULL : "has non-finite elements";
}

static kn_trainability decide(finder *find, size_t i) {
    const kn_onnx_tensor *tensor = &find->graph->initializers[i];
    kn_trainability trainable = {.why = unfit(tensor)};
    if (trainable.why || read_metadata(find, tensor, &trainable)) return trainable;
    if (tensor->rank == 0 && !(find->names && !is_generated(tensor->name)))
        return (kn_trainability){false, "a scalar"};
    if (!strcmp(find->import->file->producer, "koine")) return (kn_trainability){true, "written by Koine"};
    if (has_constant_name(tensor->name)) return (kn_trainability){false, "named like a table or mask"};
    const uses *of = &find->uses[i];
    if (may_be_mask(tensor, of->trains) && is_mask(tensor))
        return (kn_trainability){false, "has the values of a mask"};
    trainable.yes = of->trains || !of->constant;
    trainable.why =
        kn_arena_format(find->import->arena, trainable.yes ? "read by %.60s" : "read by %.60s as a constant",
                        of->trains     ? of->trains
                        : of->constant ? of->constant
                                       : "no node");
    return trainable;
}

bool kn_import_decide_trainable(kn_import *import) {
    const kn_host *host = &import->model->host;
    const kn_onnx_graph *graph = &import->file->graph;
    finder find = {.import = import, .graph = graph, .names = !strcmp(import->file->producer, "pytorch")};
    kn_trainability *trainable =
        kn_arena_take(import->arena, graph->initializer_count + 1, sizeof *trainable);
    find.uses = kn_allocate(host, graph->initializer_count + 1, sizeof *find.uses);
    kn_map_init(&find.infos, host);
    kn_map_init(&find.origins, host);
    for (size_t i = 0; i < graph->input_count; i++)
        put(&find, &find.infos, graph->inputs[i].name, &graph->inputs[i]);
    for (size_t i = 0; i < graph->value_count; i++)
        put(&find, &find.infos, graph->values[i].name, &graph->values[i]);
    for (size_t i = 0; i < graph->initializer_count; i++)
        put(&find, &find.origins, graph->initializers[i].name, (void *)(uintptr_t)(i + 1));
    bool fine = kn_signature_read(import, &find.signature) && trainable && find.uses && !find.failed;
    if (fine) walk(&find, graph->nodes, graph->node_count);
    for (size_t i = 0; fine && i < graph->initializer_count; i++) {
        trainable[i] = decide(&find, i);
        fine = trainable[i].why && !find.failed;
    }
    kn_map_finish(&find.infos);
    kn_signature_finish(&find.signature);
    kn_map_finish(&find.origins);
    kn_release(host, find.uses);
    kn_imported_of(import->model)->trainable = trainable;
    return fine || kn_model_no_memory(import->model);
}

const kn_trainability *kn_import_trainability(const kn_imported *imported, const kn_onnx_tensor *tensor) {
    const kn_onnx_graph *graph = &imported->file->graph;
    uintptr_t first = (uintptr_t)graph->initializers, at = (uintptr_t)tensor;
    size_t position = at >= first ? (at - first) / sizeof *tensor : SIZE_MAX;
    return imported->trainable && position < graph->initializer_count ? &imported->trainable[position] : NULL;
}
