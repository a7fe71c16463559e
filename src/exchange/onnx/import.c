/* Builds a graph from a file: reports all unsupported operators first, then builds the nodes in order. If a
 * node needs the values of an input (a shape, an axis, k), the graph is built again with that input as a
 * constant. */
#include "exchange/onnx/import.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

/* The newest operator set that the rows implement. */
enum { NEWEST_OPSET = 28 };

/* ---- names --------------------------------------------------------------------------------------------- */

/* Makes a name of the file valid as a symbol of a graph, in the arena. */
static const char *symbol_of(kn_import *import, const char *name) {
    if (import->batch && !strcmp(import->batch, name)) return "batch";
    bool first = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || *name == '_';
    char *clean = kn_arena_format(import->arena, "%s%.200s", first ? "" : "n", name);
    for (char *c = clean; c && *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!letter) *c = '_';
    }
    return clean;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static const kn_onnx_function *find_function(const kn_import *import, const kn_onnx_node *node) {
    for (size_t i = 0; i < import->file->function_count; i++) {
        const kn_onnx_function *function = &import->file->functions[i];
        if (!strcmp(function->name, node->type) && !strcmp(function->domain, node->domain) &&
            !strcmp(function->overload, node->overload))
            return function;
    }
    return NULL;
}

/* Builds nodes in order, in the current scope. */
static kn_status build_nodes(kn_import *import, const kn_onnx_node *nodes, size_t count);

/* Builds the nodes of a function in a new scope, where the function's names refer to its inputs. */
static kn_status build_function(kn_import_call *call, const kn_onnx_function *function) {
    kn_import *import = call->import;
    kn_import_scope scope = {.call = call,
                             .definition = function,
                             .opsets = function->opsets,
                             .opset_count = function->opset_count};
    if (++import->depth > KN_IMPORT_DEPTH)
        return kn_import_fail(call, KN_ERROR_FORMAT, "functions are nested more than %d deep",
                              KN_IMPORT_DEPTH);
    kn_import_open_scope(import, &scope);
    for (size_t i = 0; i < function->input_count && i < (size_t)call->input_count; i++)
        if (call->inputs[i]) kn_import_define(import, function->inputs[i], call->inputs[i]);
    build_nodes(import, function->nodes, function->node_count);
    for (size_t i = 0; i < function->output_count && i < (size_t)call->output_count; i++) {
        const kn_item *item = kn_import_item(import, function->outputs[i]);
        if (item)
            call->outputs[i] = *item;
        else if (*call->outputs[i].name)
            kn_import_fail(call, KN_ERROR_FORMAT, "the function does not define its output '%.100s'",
                           function->outputs[i]);
    }
    kn_import_close_scope(import, &scope);
    import->depth--;
    return kn_import_status(call);
}

static int64_t opset_of(const kn_import *import, const char *domain) {
    for (const kn_import_scope *scope = import->scope; scope; scope = scope->outer)
        if (scope->opset_count) {
            int64_t version = kn_onnx_find_opset(scope->opsets, scope->opset_count, domain);
            if (version) return version;
        }
    return kn_onnx_find_opset(import->file->opsets, import->file->opset_count, domain);
}

static kn_status find_inputs(kn_import_call *call) {
    const kn_onnx_node *node = call->node;
    for (int i = 0; i < call->input_count; i++) {
        if (!*node->inputs[i]) continue;
        call->inputs[i] = kn_import_item(call->import, node->inputs[i]);
        if (!call->inputs[i])
            return kn_import_fail(call, KN_ERROR_FORMAT, "no node defines its input '%.100s'",
                                  node->inputs[i]);
    }
    /* Ignore inputs left out at the end. */
    while (call->input_count && !call->inputs[call->input_count - 1])
        call->input_count--;
    return kn_import_status(call);
}

static kn_status build_node(kn_import_call *call) {
    kn_import *import = call->import;
    const kn_onnx_node *node = call->node;
    const kn_onnx_function *function = find_function(import, node);
    if (node->input_count > INT16_MAX || node->output_count > INT16_MAX || ++import->nodes > KN_IMPORT_NODES)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED,
                              "the model has too many nodes, or the node too many inputs or outputs");
    call->inputs = kn_arena_take(import->arena, node->input_count + 1, sizeof *call->inputs);
    call->outputs = kn_arena_take(import->arena, node->output_count + 1, sizeof *call->outputs);
    if (!call->inputs || !call->outputs) return kn_import_no_memory(import);
    call->input_count = (int)node->input_count;
    call->output_count = (int)node->output_count;
    for (int i = 0; i < call->output_count; i++)
        call->outputs[i].name = node->outputs[i];
    if (find_inputs(call) != KN_OK) return kn_import_status(call);
    if (function) return build_function(call, function);
    call->row = kn_import_find(call->node->domain, call->node->type);
    if (!call->row) return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the operator is not supported");
    bool texts = false;
    if (kn_import_check_texts(call, &texts) != KN_OK) return kn_import_status(call);
    kn_status status = KN_OK;
    if (!(call->row->sizes && kn_sizes_apply(call)) && kn_import_status(call) == KN_OK)
        status = call->row->build(call);
    for (int i = 0; texts && call->row->moves_text && i < call->output_count; i++)
        call->outputs[i].text = true;
    return status == KN_OK ? kn_import_status(call) : status;
}

/* Replaces a result of the file's graph by the elements that the caller gave for it. */
static void take_given(kn_import *import, const char *name, kn_item *item) {
    if (import->scope->outer || !*name || item->sequence) return;
    for (size_t i = 0; i < import->params->given_count; i++) {
        const kn_model_given *given = &import->params->given[i];
        uint64_t bytes = 0;
        if (!given->name || strcmp(given->name, name)) continue;
        if (given->info.dtype != item->dtype || !given->data || !kn_tensor_bytes(&given->info, &bytes)) {
            kn_graph_fail(import->graph, KN_ERROR_ARGUMENT,
                          "the array for '%.100s' is %s; expected %s, with elements", name,
                          kn_dtype_name(given->info.dtype), kn_dtype_name(item->dtype));
            return;
        }
        kn_value *value = kn_constant(import->graph, given->info.dtype,
                                      kn_import_list(import, given->info.shape, given->info.rank),
                                      given->data, (size_t)bytes);
        *item = (kn_item){.name = name, .dtype = item->dtype, .text = item->text, .value = value};
        return;
    }
}

static kn_status import_node(kn_import *import, const kn_onnx_node *node) {
    kn_import_call call = {.import = import, .graph = import->graph, .node = node};
    /* ONNX Runtime's operators have one version; those that ONNX also has take their newest form. */
    call.opset = strcmp(node->domain, KN_MICROSOFT) ? opset_of(import, node->domain) : NEWEST_OPSET;
    kn_status status = build_node(&call);
    for (int i = 0; i < call.output_count && status == KN_OK; i++) {
        take_given(import, node->outputs[i], &call.outputs[i]);
        if (*node->outputs[i]) status = kn_import_define(import, node->outputs[i], &call.outputs[i]);
    }
    /* If a node of a function or body has failed, its error is already there. */
    if (status != KN_OK && import->model->error.status == KN_OK)
        kn_import_fail_node(import, node, status, kn_graph_error(import->graph));
    return status;
}

static kn_status build_nodes(kn_import *import, const kn_onnx_node *nodes, size_t count) {
    for (size_t i = 0; i < count && kn_graph_status(import->graph) == KN_OK; i++)
        import_node(import, &nodes[i]);
    return kn_graph_status(import->graph);
}

static kn_status define_initializers(kn_import *import, const kn_onnx_graph *graph) {
    for (size_t i = 0; i < graph->initializer_count; i++) {
        const kn_onnx_tensor *tensor = &graph->initializers[i];
        kn_item item = {.tensor = tensor, .initializer = true};
        if (kn_map_get_text(&import->scope->items, tensor->name))
            continue; /* an input that the caller gave */
        if (tensor->type == KN_ONNX_STRING)
            item = (kn_item){.dtype = KN_INT64,
                             .text = true,
                             .value =
                                 kn_import_texts(import, tensor->strings, tensor->shape, (int)tensor->rank)};
        else if (!kn_item_type(tensor->type, &item.dtype, &item.bits))
            kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED,
                          "initializer '%.100s' has the unsupported type %s", tensor->name,
                          kn_onnx_type_name(tensor->type));
        if (kn_import_define(import, tensor->name, &item) != KN_OK) break;
    }
    return kn_graph_status(import->graph);
}

kn_status kn_import_subgraph(kn_import_call *call, const kn_onnx_graph *body, const kn_item *inputs,
                             size_t input_count, kn_item *outputs, size_t output_count) {
    kn_import *import = call->import;
    kn_import_scope scope = {.opset_count = 0};
    if (input_count > body->input_count || output_count > body->output_count)
        return kn_import_fail(call, KN_ERROR_FORMAT,
                              "the body has %zu inputs and %zu outputs; expected %zu and %zu",
                              body->input_count, body->output_count, input_count, output_count);
    if (++import->depth > KN_IMPORT_DEPTH)
        return kn_import_fail(call, KN_ERROR_FORMAT, "branches and loops are nested more than %d deep",
                              KN_IMPORT_DEPTH);
    kn_import_open_scope(import, &scope);
    for (size_t i = 0; i < input_count; i++)
        kn_import_define(import, body->inputs[i].name, &inputs[i]);
    define_initializers(import, body);
    build_nodes(import, body->nodes, body->node_count);
    for (size_t i = 0; i < output_count; i++) {
        const kn_item *item = kn_import_item(import, body->outputs[i].name);
        if (item)
            outputs[i] = *item;
        else
            kn_import_fail(call, KN_ERROR_FORMAT, "the body does not define its output '%.100s'",
                           body->outputs[i].name);
    }
    kn_import_close_scope(import, &scope);
    import->depth--;
    return kn_import_status(call);
}

/* ---- unsupported operators, all at once ---------------------------------------------------------------- */

typedef struct unknown_list {
    kn_import *import;
    kn_text text;
    int count, depth;
    bool blocked; /* an operator on images in a CPU-specific blocked layout */
    kn_map seen;
} unknown_list;

static void list_unknown(unknown_list *list, const kn_onnx_node *nodes, size_t count);

static void list_graph(unknown_list *list, const kn_onnx_graph *graph) {
    if (++list->depth <= KN_IMPORT_DEPTH) list_unknown(list, graph->nodes, graph->node_count);
    list->depth--;
}

static void list_unknown(unknown_list *list, const kn_onnx_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const kn_onnx_node *node = &nodes[i];
        for (size_t j = 0; j < node->attribute_count; j++)
            for (size_t k = 0; k < node->attributes[j].count; k++)
                if (node->attributes[j].kind == KN_ONNX_ATTRIBUTE_GRAPH ||
                    node->attributes[j].kind == KN_ONNX_ATTRIBUTE_GRAPHS)
                    list_graph(list, &node->attributes[j].graphs[k]);
        if (find_function(list->import, node) || kn_import_find(node->domain, node->type)) continue;
        const char *key = kn_arena_format(list->import->arena, "%.100s.%.100s", node->domain, node->type);
        if (!key || kn_map_has(&list->seen, key, strlen(key))) continue;
        kn_map_put_text(&list->seen, key, list);
        list->blocked = list->blocked || !strcmp(node->domain, KN_MICROSOFT ".nchwc");
        const char *name = *node->name ? node->name : node->output_count ? node->outputs[0] : "";
        if (list->count++ < 40)
            kn_text_format(&list->text, "%s%.60s%s%.60s (node '%.60s')", list->count > 1 ? ", " : "",
                           node->domain, *node->domain ? "." : "", node->type, name);
    }
}

static bool check_operators(kn_import *import) {
    unknown_list list = {.import = import};
    int64_t opset = kn_onnx_find_opset(import->file->opsets, import->file->opset_count, "");
    kn_error *error = &import->model->error;
    kn_text_init(&list.text, &import->model->host);
    kn_map_init(&list.seen, &import->model->host);
    list_unknown(&list, import->file->graph.nodes, import->file->graph.node_count);
    for (size_t i = 0; i < import->file->function_count; i++)
        list_unknown(&list, import->file->functions[i].nodes, import->file->functions[i].node_count);
    if (kn_text_failed(&list.text))
        kn_model_no_memory(import->model);
    else if (opset > NEWEST_OPSET)
        kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: uses opset %" PRId64 "; opsets up to %d are supported%s%s",
                import->model->source, opset, NEWEST_OPSET, list.count ? "; unsupported operators: " : "",
                list.text.data);
    else if (list.count)
        kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: unsupported operators: %s%s", import->model->source,
                list.text.data,
                list.blocked ? "; the model is optimized for one CPU: save it from ONNX Runtime at level "
                               "ORT_ENABLE_EXTENDED"
                             : "");
    kn_text_finish(&list.text);
    kn_map_finish(&list.seen);
    return error->status == KN_OK;
}

/* ---- inputs and outputs -------------------------------------------------------------------------------- */

static bool is_initializer(const kn_onnx_graph *graph, const char *name) {
    for (size_t i = 0; i < graph->initializer_count; i++)
        if (!strcmp(graph->initializers[i].name, name)) return true;
    return false;
}

/* The array that the caller gave for an input; an array without a name is for the first input. */
static const kn_model_given *find_given(const kn_import *import, const char *name) {
    const kn_onnx_graph *graph = &import->file->graph;
    size_t first = 0;
    while (first < graph->input_count && is_initializer(graph, graph->inputs[first].name))
        first++;
    const bool is_first = first < graph->input_count && !strcmp(graph->inputs[first].name, name);
    for (size_t i = 0; i < import->params->given_count; i++) {
        const char *given = import->params->given[i].name;
        if (given && *given ? !strcmp(given, name) : is_first) return &import->params->given[i];
    }
    return NULL;
}

static kn_status fail_input(kn_import *import, const char *name, kn_status status, const char *what) {
    kn_graph_fail(import->graph, status, "input '%.100s': %s", name, what);
    return status;
}

/* The caller's value for a dynamic size, by its name in the file or its symbol; -1 for none. */
static int64_t wanted_size(kn_import *import, const char *name, const char *symbol) {
    const kn_model_params *params = import->params;
    int64_t number = -1;
    for (size_t i = 0; i < params->setting_count; i++) {
        const char *wanted = params->settings[i].name;
        if (!wanted || (strcmp(wanted, symbol) && (!*name || strcmp(wanted, name)))) continue;
        number = params->settings[i].value;
        import->taken[i] = true;
    }
    return number;
}

/* Checks that each of the caller's settings is a dynamic size of an input. */
static kn_status check_wanted(const kn_import *import) {
    const kn_model_params *params = import->params;
    kn_error *error = &import->model->error;
    for (size_t i = 0; i < params->setting_count; i++) {
        const kn_model_setting *wanted = &params->settings[i];
        if (import->taken[i] && wanted->value >= 0) continue;
        if (import->taken[i])
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "%s: size '%.100s' is set to %" PRId64 "; expected 0 or more",
                           import->model->source, wanted->name, wanted->value);
        const char *nearest = NULL, *symbols[20];
        char list[400] = "";
        size_t count = 0, used = 0;
        for (; count < KN_COUNT_OF(symbols) && (symbols[count] = kn_graph_symbol(import->graph, (int)count));
             count++)
            if (used < sizeof list)
                used += (size_t)snprintf(list + used, sizeof list - used, "%s%.100s", count ? ", " : "",
                                         symbols[count]);
        if (wanted->name) nearest = kn_nearest_word(wanted->name, symbols, count);
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s: has no dynamic size '%.100s'; dynamic sizes: %s%s%s%s",
                       import->model->source, wanted->name ? wanted->name : "", count ? list : "none",
                       nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
    }
    return KN_OK;
}

static void keep_open(kn_model *model, const char *symbol, bool first) {
    int position = 0;
    while (position < model->open_size_count && strcmp(model->open_sizes[position].name, symbol))
        position++;
    if (!strcmp(symbol, "batch") || position == (int)KN_COUNT_OF(model->open_sizes)) return;
    if (position == model->open_size_count) model->open_sizes[model->open_size_count++].first = false;
    model->open_sizes[position].name = symbol;
    model->open_sizes[position].first = model->open_sizes[position].first || first;
}

/* Whether a dimension has a fixed size. Some exporters write -1 for a dynamic size. */
static bool has_number(const kn_onnx_dimension *dimension) {
    return dimension->known && dimension->length >= 0;
}

/* The name of a dynamic dimension, which equal sizes share; "" if it has none. Words without a letter or
 * digit, such as "?", are no names: each is a separate size. */
static const char *open_name(const kn_onnx_dimension *dimension) {
    if (dimension->known) return "";
    for (const char *c = dimension->name; *c; c++)
        if (isalnum((unsigned char)*c)) return dimension->name;
    return "";
}

/* "batch,3,28": sizes as in the file; dynamic sizes from the caller's settings and arrays. */
static kn_status input_shape(kn_import *import, const kn_onnx_value_info *input, const kn_model_given *given,
                             kn_text *text) {
    const kn_onnx_value_type *type = &input->type;
    if (!given && (!type->has_shape || type->rank > KN_MAX_RANK))
        return fail_input(import, input->name, KN_ERROR_UNSUPPORTED,
                          type->has_shape ? "has too many dimensions" : "has no rank in the file");
    if (given && type->has_shape && type->rank != (size_t)given->info.rank)
        kn_graph_fail(import->graph, KN_ERROR_SHAPE,
                      "input '%.100s': has %zu dimensions, but the array has %d", input->name, type->rank,
                      given->info.rank);
    int rank = given ? given->info.rank : (int)type->rank;
    for (int i = 0; i < rank && kn_graph_status(import->graph) == KN_OK; i++) {
        const kn_onnx_dimension *dimension = type->has_shape ? &type->shape[i] : NULL;
        const int64_t told = given ? given->info.shape[i] : -1;
        if (i) kn_text_add(text, ",");
        const char *name = dimension ? open_name(dimension) : "";
        bool nameless_batch = import->batch && !*import->batch && i == 0 && !import->model->input_count;
        const char *symbol =
            *name            ? symbol_of(import, name)
            : nameless_batch ? "batch"
                             : kn_arena_format(import->arena, "%.150s_%d", symbol_of(import, input->name), i);
        if (!symbol) return kn_import_no_memory(import);
        int64_t number =
            dimension && has_number(dimension) ? dimension->length : wanted_size(import, name, symbol);
        if (told >= 0 && number >= 0 && number != told)
            kn_graph_fail(import->graph, KN_ERROR_SHAPE,
                          "input '%.100s': dimension %d has size %" PRId64 ", but the array has %" PRId64,
                          input->name, i, number, told);
        if (number < 0) number = told;
        if (number < 0) {
            keep_open(import->model, symbol, i == 0);
            import->open = true;
        }
        if (number >= 0)
            kn_text_format(text, "%" PRId64, number);
        else
            kn_text_add(text, symbol);
    }
    return kn_text_failed(text) ? kn_import_no_memory(import) : kn_graph_status(import->graph);
}

static bool is_open(const kn_onnx_value_info *info, size_t axis) {
    return info->type.kind == KN_ONNX_TENSOR && info->type.has_shape && axis < info->type.rank &&
           !has_number(&info->type.shape[axis]);
}

static bool has_size(const kn_onnx_value_info *info, const char *name) {
    for (size_t i = 0; info->type.kind == KN_ONNX_TENSOR && info->type.has_shape && i < info->type.rank; i++)
        if (!has_number(&info->type.shape[i]) && !strcmp(open_name(&info->type.shape[i]), name)) return true;
    return false;
}

/* The batch is the dynamic first dimension of the first input, whatever its name ("" only if no other
 * dimension is called so). If that dimension is fixed, the batch is the first dimension of another input,
 * provided that the first input has it at a later axis or the first output begins with it; otherwise there is
 * none. */
static const char *find_batch(const kn_onnx_graph *graph) {
    const kn_onnx_value_info *first = NULL;
    for (size_t i = 0; i < graph->input_count; i++) {
        const kn_onnx_value_info *input = &graph->inputs[i];
        if (is_initializer(graph, input->name)) continue;
        if (has_size(input, "batch")) return NULL;
        if (!first && input->type.kind == KN_ONNX_TENSOR && input->type.has_shape) first = input;
    }
    if (!first) return NULL;
    if (is_open(first, 0)) return open_name(&first->type.shape[0]);
    for (size_t i = 0; i < graph->input_count; i++) {
        const kn_onnx_value_info *input = &graph->inputs[i];
        if (is_initializer(graph, input->name) || !is_open(input, 0)) continue;
        const char *name = open_name(&input->type.shape[0]);
        if (*name && (has_size(first, name) || (graph->output_count && is_open(&graph->outputs[0], 0) &&
                                                !strcmp(open_name(&graph->outputs[0].type.shape[0]), name))))
            return name;
    }
    return "batch";
}

/* The strings that the caller gave for an input. */
static kn_value *given_texts(kn_import *import, const char *name, const kn_model_given *given) {
    uint64_t count = 0;
    bool whole = kn_tensor_elements(&given->info, &count);
    for (uint64_t i = 0; whole && i < count; i++)
        whole = given->texts[i] != NULL;
    kn_onnx_string *strings = whole ? kn_arena_take(import->arena, (size_t)count + 1, sizeof *strings) : NULL;
    for (uint64_t i = 0; strings && i < count; i++)
        strings[i] = (kn_onnx_string){given->texts[i], strlen(given->texts[i])};
    if (strings) return kn_import_texts(import, strings, given->info.shape, given->info.rank);
    if (whole) return kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
    return kn_graph_fail(import->graph, KN_ERROR_ARGUMENT,
                         "input '%.100s': a string is NULL, or a size is open", name);
}

/* Makes a sequence or an optional, whose element is *item for an optional that contains one. */
static kn_status hold(kn_import *import, kn_item *item, size_t count) {
    item->sequence = true;
    item->element_count = count;
    item->elements = kn_arena_take(import->arena, count + 1, sizeof *item->elements);
    for (size_t i = 0; item->elements && i < count; i++)
        if (!(item->elements[i] = kn_arena_take(import->arena, 1, sizeof **item->elements)))
            return kn_import_no_memory(import);
    return item->elements ? KN_OK : kn_import_no_memory(import);
}

/* The item for the elements that the caller gave for an input of this type: constants. */
static kn_status given_item(kn_import *import, const char *name, const kn_onnx_value_type *type,
                            const kn_model_given *given, kn_item *item) {
    static const kn_onnx_value_type unknown = {.kind = KN_ONNX_NO_KIND};
    const kn_onnx_value_type *inner = type->inner ? type->inner : &unknown;
    kn_status status = KN_OK;
    uint64_t bytes = 0;
    *item = (kn_item){.name = name};
    if (type->kind == KN_ONNX_SEQUENCE) {
        if (given->data || given->texts)
            return fail_input(import, name, KN_ERROR_ARGUMENT, "expected a sequence, found a tensor");
        status = hold(import, item, given->element_count);
        for (size_t i = 0; status == KN_OK && i < given->element_count; i++)
            status = given_item(import, name, inner, &given->elements[i], item->elements[i]);
        kn_item_type(inner->type, &item->dtype, &item->bits);
        return status;
    }
    if (type->kind == KN_ONNX_OPTIONAL) {
        const kn_model_given *own =
            given->element_count && inner->kind == KN_ONNX_TENSOR ? given->elements : given;
        const bool has = given->element_count || given->data || given->texts;
        if (inner->kind == KN_ONNX_TENSOR && given->element_count > 1)
            return fail_input(import, name, KN_ERROR_ARGUMENT,
                              "an optional tensor has more than one element");
        status = hold(import, item, has);
        if (status == KN_OK && has) status = given_item(import, name, inner, own, item->elements[0]);
        return status;
    }
    item->text = type->type == KN_ONNX_STRING;
    item->dtype = KN_INT64;
    if (type->kind != KN_ONNX_TENSOR || (!item->text && !kn_item_type(type->type, &item->dtype, &item->bits)))
        return fail_input(import, name, KN_ERROR_UNSUPPORTED, "has elements of an unsupported type");
    if (given->info.dtype != item->dtype)
        return fail_input(import, name, KN_ERROR_DTYPE, "an element has a different type");
    if (item->text ? !given->texts : !given->data || !kn_tensor_bytes(&given->info, &bytes))
        return fail_input(import, name, KN_ERROR_ARGUMENT, "an element has no data");
    item->value = item->text ? given_texts(import, name, given)
                             : kn_constant(import->graph, item->dtype,
                                           kn_import_list(import, given->info.shape, given->info.rank),
                                           given->data, (size_t)bytes);
    return kn_graph_status(import->graph);
}

static kn_status add_input(kn_import *import, int position, const kn_onnx_value_info *input) {
    const kn_model_given *given = find_given(import, input->name);
    kn_item item = {.given = given, .wanted = &import->wanted[position]};
    if (!given && is_initializer(&import->file->graph, input->name)) return KN_OK;
    if (input->type.kind == KN_ONNX_SEQUENCE || input->type.kind == KN_ONNX_OPTIONAL) {
        if (!given) import->needs_array = input->name;
        if (given && given_item(import, input->name, &input->type, given, &item) != KN_OK)
            return kn_graph_status(import->graph);
        item.sequence = true;
        return kn_import_define(import, input->name, &item);
    }
    if (input->type.kind != KN_ONNX_TENSOR)
        return fail_input(import, input->name, KN_ERROR_UNSUPPORTED, "is neither a tensor nor a sequence");
    item.text = input->type.type == KN_ONNX_STRING;
    if (item.text) {
        item.dtype = KN_INT64;
        if (!given || !given->texts) import->needs_array = input->name;
    } else if (!kn_item_type(input->type.type, &item.dtype, &item.bits)) {
        kn_graph_fail(import->graph, KN_ERROR_UNSUPPORTED, "input '%.100s' has the unsupported type %s",
                      input->name, kn_onnx_type_name(input->type.type));
        return KN_ERROR_UNSUPPORTED;
    }
    const bool widened = given && item.dtype == KN_INT64 && !item.text && given->info.dtype == KN_INT32;
    if (given && given->info.dtype != item.dtype && !widened)
        return fail_input(import, input->name, KN_ERROR_DTYPE, "the array has a different type");
    kn_text shape;
    kn_text_init(&shape, &import->model->host);
    kn_model *model = import->model;
    uint64_t bytes = 0;
    input_shape(import, input, given, &shape);
    if (item.text && given && given->texts) {
        item.value = given_texts(import, input->name, given);
    } else if (import->wanted[position]) {
        if (!given || !given->data || !kn_tensor_bytes(&given->info, &bytes))
            fail_input(import, input->name, KN_ERROR_ARGUMENT,
                       "its values must be known; expected an array with its whole shape");
        else
            item.value =
                kn_constant(import->graph, given->info.dtype, shape.data, given->data, (size_t)bytes);
        if (widened) item.value = kn_cast(item.value, KN_INT64);
    } else {
        const char *name = kn_import_name(import, input->name);
        bool narrow = import->params->narrow_integers && item.dtype == KN_INT64 && !item.text;
        item.value = kn_input(import->graph, name ? name : "", narrow ? KN_INT32 : item.dtype, shape.data);
        /* data sets call a single input "x" */
        if (import->one_input && !kn_value_failed(item.value)) kn_input_alias(item.value, "x");
        model->input_names[model->input_count] = input->name;
        model->inputs[model->input_count++] = item.value;
        if (narrow) item.value = kn_cast(item.value, KN_INT64);
    }
    kn_text_finish(&shape);
    return kn_import_define(import, input->name, &item);
}

/* Whether the model has a single input, which is then also called "x". */
static bool has_one_input(const kn_import *import) {
    const kn_onnx_graph *graph = &import->file->graph;
    int count = 0;
    for (size_t i = 0; i < graph->input_count; i++)
        count += !import->wanted[i] &&
                 (find_given(import, graph->inputs[i].name) || !is_initializer(graph, graph->inputs[i].name));
    return count == 1;
}

static bool is_output_already(const kn_model *model, const kn_value *value) {
    for (int i = 0; i < model->output_count; i++)
        if (model->outputs[i] == value) return true;
    return false;
}

/* Room for one more output; false when out of memory. */
static bool grow_outputs(kn_import *import) {
    kn_model *model = import->model;
    const size_t count = (size_t)model->output_count, more = 2 * import->output_capacity;
    if (count < import->output_capacity) return true;
    if (more > INT16_MAX) return false;
    kn_value **outputs = kn_arena_take(&model->arena, more, sizeof *outputs);
    const char **names = kn_arena_take(&model->arena, more, sizeof *names);
    bool *texts = kn_arena_take(&model->arena, more, sizeof *texts);
    if (!outputs || !names || !texts) return false;
    memcpy(outputs, model->outputs, count * sizeof *outputs);
    memcpy(names, model->output_names, count * sizeof *names);
    memcpy(texts, import->output_texts, count * sizeof *texts);
    model->outputs = outputs;
    model->output_names = names;
    model->output_texts = import->output_texts = texts;
    import->output_capacity = more;
    return true;
}

/* Makes each output a separate node, with the type in the file; a sequence is as many outputs as it has
 * tensors. */
static kn_status add_item(kn_import *import, const kn_onnx_value_info *output, kn_item *item) {
    kn_model *model = import->model;
    kn_graph *graph = import->graph;
    const bool tensor = output->type.kind == KN_ONNX_TENSOR;
    kn_dtype declared;
    int bits;
    for (size_t i = 0; item->sequence && !tensor && i < item->element_count; i++)
        if (add_item(import, output, item->elements[i]) != KN_OK) break;
    if (item->sequence && tensor)
        kn_graph_fail(graph, KN_ERROR_FORMAT, "output '%.100s' is declared as a tensor, but it is a sequence",
                      output->name);
    if (item->sequence || kn_graph_status(graph) != KN_OK) return kn_graph_status(graph);
    kn_value *value = kn_import_cast(kn_item_value(import, item), item->dtype);
    if (tensor && (output->type.type == KN_ONNX_STRING) != item->text)
        kn_graph_fail(graph, KN_ERROR_FORMAT, "output '%.100s' is declared as %s, but its node computes %s",
                      output->name, kn_onnx_type_name(output->type.type), item->text ? "strings" : "numbers");
    if (tensor && kn_item_type(output->type.type, &declared, &bits) && declared != item->dtype)
        kn_graph_fail(graph, KN_ERROR_FORMAT, "output '%.100s' is declared as %s, but its node computes %s",
                      output->name, kn_dtype_name(declared), kn_dtype_name(item->dtype));
    if (value->kind != KN_VALUE_RESULT || is_output_already(model, value))
        value = kn_apply(graph, "copy", &value, 1, NULL);
    const char *name = kn_import_name(import, output->name);
    value = kn_output(value, name ? name : "");
    if (!grow_outputs(import)) return kn_import_no_memory(import);
    import->output_texts[model->output_count] = item->text;
    model->output_names[model->output_count] = output->name;
    model->outputs[model->output_count++] = value;
    return kn_graph_status(graph);
}

static kn_status add_output(kn_import *import, const kn_onnx_value_info *output) {
    kn_item *item = kn_import_item(import, output->name);
    if (item) return add_item(import, output, item);
    kn_graph_fail(import->graph, KN_ERROR_FORMAT, "output '%.100s' is not defined by any node", output->name);
    return kn_graph_status(import->graph);
}

/* ---- entry points -------------------------------------------------------------------------------------- */

/* Begins a new graph with the inputs. */
static kn_status begin_graph(kn_import *import) {
    kn_model *model = import->model;
    const kn_onnx_graph *graph = &import->file->graph;
    kn_graph_params params = KN_GRAPH_DEFAULTS;
    params.allocator = model->host.allocator;
    params.log = model->host.log;
    kn_graph_destroy(&model->graph);
    model->graph = import->graph = kn_graph_create(&params);
    if (!import->graph) return kn_fail_memory(&model->error, 0);
    model->input_count = model->output_count = model->open_size_count = 0;
    import->state_count = import->training_count = import->nodes = 0;
    import->depth = 0;
    import->lacks = import->open = false;
    import->needs_array = NULL;
    kn_map_finish(&import->texts);
    kn_map_init(&import->texts, &model->host);
    model->text_count = import->text_capacity = 0;
    import->one_input = has_one_input(import);
    kn_status status = KN_OK;
    for (size_t i = 0; status == KN_OK && i < graph->input_count; i++)
        status = add_input(import, (int)i, &graph->inputs[i]);
    return status;
}

/* Sets the model's error to the graph's, unless a node has done so. */
static kn_status end_graph(kn_import *import) {
    kn_error *error = &import->model->error;
    const kn_status status = kn_graph_status(import->graph);
    if (status != KN_OK && error->status == KN_OK)
        kn_fail(error, status, "%s: %s", import->model->source, kn_graph_error(import->graph));
    return error->status;
}

/* Builds the nodes up to the one that defines the value to compute. */
static kn_status build_value(kn_import *import, const kn_onnx_graph *graph) {
    const kn_onnx_value_info output = {.name = import->model->only};
    for (size_t i = 0; i < graph->node_count && !kn_import_item(import, output.name) &&
                       kn_graph_status(import->graph) == KN_OK;
         i++)
        import_node(import, &graph->nodes[i]);
    return kn_graph_status(import->graph) == KN_OK ? add_output(import, &output)
                                                   : kn_graph_status(import->graph);
}

static kn_status build_outputs(kn_import *import, const kn_onnx_graph *graph) {
    kn_status status = build_nodes(import, graph->nodes, graph->node_count);
    for (size_t i = 0; status == KN_OK && i < graph->output_count; i++)
        status = add_output(import, &graph->outputs[i]);
    return status;
}

static kn_status build_graph(kn_import *import) {
    const kn_onnx_graph *graph = &import->file->graph;
    kn_import_scope scope = {.opset_count = 0};
    kn_import_open_scope(import, &scope);
    kn_status status = begin_graph(import);
    if (status == KN_OK) status = define_initializers(import, graph);
    if (status == KN_OK && import->needs_array) {
        import->lacks = true;
        status = fail_input(
            import, import->needs_array, KN_ERROR_UNSUPPORTED,
            "its elements must be given before the graph can be built, since it is not a tensor of numbers");
    }
    if (status == KN_OK)
        status = import->model->only ? build_value(import, graph) : build_outputs(import, graph);
    kn_import_close_scope(import, &scope);
    return end_graph(import);
}

/* Whether a graph that could not be built may be built once shapes or values of inputs are known. */
static bool may_be_bound(const kn_import *import) {
    const kn_status status = import->model->error.status;
    return (status == KN_ERROR_SHAPE && import->open) ||
           (status == KN_ERROR_UNSUPPORTED && (import->open || import->lacks));
}

/* Keeps only the inputs, the names of the outputs, and the error text, which reports what is missing. */
static bool keep_inputs(kn_import *import) {
    kn_model *model = import->model;
    const kn_onnx_graph *graph = &import->file->graph;
    const kn_error reason = model->error;
    const char *missing = import->lacks ? import->missing : NULL;
    kn_import_scope scope = {.opset_count = 0};
    kn_error_clear(&model->error);
    import->again = false;
    memset(import->wanted, 0, graph->input_count * sizeof *import->wanted);
    kn_import_open_scope(import, &scope);
    begin_graph(import);
    kn_import_close_scope(import, &scope);
    for (size_t i = 0; i < graph->output_count; i++) {
        model->outputs[i] = NULL;
        model->output_names[i] = graph->outputs[i].name;
    }
    model->output_count = (int)graph->output_count;
    if (end_graph(import) != KN_OK || check_wanted(import) != KN_OK) return false;
    model->unbound = true;
    model->missing = missing;
    model->error = reason;
    model->error.status = KN_OK;
    return true;
}

static bool sort_nodes(kn_import *import) {
    const kn_onnx_model *file = import->file;
    bool fine = kn_import_sort(import, file->graph.nodes, file->graph.node_count);
    for (size_t i = 0; fine && i < file->function_count; i++)
        fine = kn_import_sort(import, file->functions[i].nodes, file->functions[i].node_count);
    return fine;
}

static bool make_room(kn_import *import) {
    kn_model *model = import->model;
    const kn_onnx_graph *graph = &import->file->graph;
    if (!graph->output_count) {
        kn_fail(&model->error, KN_ERROR_FORMAT, "%s: has no outputs", model->source);
        return false;
    }
    if (graph->input_count > INT16_MAX || graph->output_count > INT16_MAX) {
        kn_fail(&model->error, KN_ERROR_UNSUPPORTED, "%s: has more than %d inputs or outputs", model->source,
                INT16_MAX);
        return false;
    }
    model->inputs = kn_arena_take(&model->arena, graph->input_count + 1, sizeof *model->inputs);
    model->outputs = kn_arena_take(&model->arena, graph->output_count + 1, sizeof *model->outputs);
    model->input_names = kn_arena_take(&model->arena, graph->input_count + 1, sizeof *model->input_names);
    model->output_names = kn_arena_take(&model->arena, graph->output_count + 1, sizeof *model->output_names);
    import->wanted = kn_arena_take(&model->arena, graph->input_count + 1, sizeof *import->wanted);
    import->output_capacity = graph->output_count + 1;
    model->output_texts = import->output_texts =
        kn_arena_take(&model->arena, graph->output_count + 1, sizeof *import->output_texts);
    import->taken = kn_arena_take(&model->arena, import->params->setting_count + 1, sizeof *import->taken);
    return (model->inputs && model->outputs && model->input_names && model->output_names && import->wanted &&
            import->output_texts && import->taken) ||
           kn_model_no_memory(model);
}

static kn_import import_of(kn_model *model) {
    return (kn_import){.model = model,
                       .arena = &model->arena,
                       .file = kn_imported_of(model)->file,
                       .params = &model->params};
}

bool kn_import_prepare(kn_model *model) {
    kn_import import = import_of(model);
    return check_operators(&import) && sort_nodes(&import) && kn_import_unshare(&import) &&
           kn_import_decide_trainable(&import) && kn_import_name_weights(&import);
}

bool kn_import_onnx(kn_model *model) {
    kn_imported *imported = kn_imported_of(model);
    kn_import import = import_of(model);
    if (!make_room(&import)) return false;
    import.batch = find_batch(&import.file->graph);
    kn_map_init(&import.constants, &model->host);
    kn_map_init(&import.texts, &model->host);
    do {
        import.again = false;
        import.missing = NULL;
        kn_error_clear(&model->error);
        build_graph(&import);
    } while (import.again);
    const bool fine = model->error.status == KN_OK ? check_wanted(&import) == KN_OK
                                                   : may_be_bound(&import) && keep_inputs(&import);
    kn_map_finish(&import.constants);
    kn_map_finish(&import.texts);
    imported->states = import.states;
    imported->state_count = import.state_count;
    imported->training_nodes = import.training;
    imported->training_node_count = import.training_count;
    return fine;
}
