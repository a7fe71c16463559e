/* Builds a graph from a file: reports all unsupported operators first, then builds the nodes in order. If a
 * node needs the values of an input (a shape, an axis, k), the graph is built again with that input as a
 * constant. */
#include "exchange/onnx/import.h"

#include <inttypes.h>

/* The newest operator set that the rows implement. */
enum { NEWEST_OPSET = 28 };

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

static kn_status import_node(kn_import *import, const kn_onnx_node *node) {
    kn_import_call call = {.import = import, .graph = import->graph, .node = node};
    /* ONNX Runtime's operators have one version; those that ONNX also has take their newest form. */
    call.opset = strcmp(node->domain, KN_MICROSOFT) ? opset_of(import, node->domain) : NEWEST_OPSET;
    kn_status status = build_node(&call);
    for (int i = 0; i < call.output_count && status == KN_OK; i++) {
        kn_import_take_given(import, node->outputs[i], &call.outputs[i]);
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

/* ---- entry points -------------------------------------------------------------------------------------- */

/* Begins a new graph with the inputs. */
static kn_status begin_graph(kn_import *import) {
    kn_model *model = import->model;
    kn_graph_params params = KN_GRAPH_DEFAULTS;
    params.allocator = model->host.allocator;
    params.log = model->host.log;
    kn_graph_destroy(&model->graph);
    model->graph = import->graph = kn_graph_create(&params);
    if (!import->graph) return kn_fail_memory(&model->error, 0);
    model->output_count = 0;
    import->state_count = import->training_count = import->nodes = 0;
    import->depth = 0;
    import->lacks = false;
    kn_map_finish(&import->texts);
    kn_map_init(&import->texts, &model->host);
    model->text_count = import->text_capacity = 0;
    return kn_import_add_inputs(import);
}

/* Sets the model's error to the graph's, unless a node has done so. */
static kn_status end_graph(kn_import *import) {
    kn_error *error = &import->model->error;
    const kn_status status = kn_graph_status(import->graph);
    if (status != KN_OK && error->status == KN_OK)
        kn_fail(error, status, "%s: %s", import->model->source, kn_graph_error(import->graph));
    return error->status;
}

/* Builds the nodes up to the one that defines the value to compute, or whose loop has the part to compute. */
static kn_status build_part(kn_import *import, const kn_onnx_graph *graph) {
    const kn_onnx_value_info output = {.name = import->model->only};
    const kn_model *model = import->model;
    import->model->loop = NULL; /* set when a part of a loop is built */
    for (size_t i = 0; i < graph->node_count && !kn_import_item(import, output.name) && !model->loop &&
                       kn_graph_status(import->graph) == KN_OK;
         i++)
        import_node(import, &graph->nodes[i]);
    return kn_graph_status(import->graph) == KN_OK && !model->loop ? kn_import_add_output(import, &output)
                                                                   : kn_graph_status(import->graph);
}

static kn_status build_outputs(kn_import *import, const kn_onnx_graph *graph) {
    kn_status status = build_nodes(import, graph->nodes, graph->node_count);
    for (size_t i = 0; status == KN_OK && i < graph->output_count; i++)
        status = kn_import_add_output(import, &graph->outputs[i]);
    return status;
}

static kn_status build_graph(kn_import *import) {
    const kn_onnx_graph *graph = &import->file->graph;
    kn_import_scope scope = {.opset_count = 0};
    kn_import_open_scope(import, &scope);
    kn_status status = begin_graph(import);
    if (status == KN_OK) status = define_initializers(import, graph);
    if (status == KN_OK) status = kn_import_need_arrays(import);
    if (status == KN_OK)
        status = import->model->only ? build_part(import, graph) : build_outputs(import, graph);
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
    if (end_graph(import) != KN_OK || kn_import_check_wanted(import) != KN_OK) return false;
    model->unbound = true;
    model->missing = missing;
    model->missing_loop = missing && import->missing_loop;
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
    const size_t inputs = graph->input_count + import->params->given_count + 1;
    model->inputs = kn_arena_take(&model->arena, inputs, sizeof *model->inputs);
    model->outputs = kn_arena_take(&model->arena, graph->output_count + 1, sizeof *model->outputs);
    model->input_names = kn_arena_take(&model->arena, inputs, sizeof *model->input_names);
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
    import.batch = kn_import_find_batch(&import.file->graph);
    kn_map_init(&import.constants, &model->host);
    kn_map_init(&import.texts, &model->host);
    do {
        import.again = false;
        import.missing = NULL;
        import.missing_loop = false;
        import.spared = false;
        kn_error_clear(&model->error);
        build_graph(&import);
        /* A node may support only known integers. */
        const bool failed = model->error.status != KN_OK && !import.again && !import.missing;
        if (failed && import.spared && !import.eager) import.again = import.eager = true;
    } while (import.again);
    const bool fine = model->error.status == KN_OK ? kn_import_check_wanted(&import) == KN_OK
                                                   : may_be_bound(&import) && keep_inputs(&import);
    kn_map_finish(&import.constants);
    kn_map_finish(&import.texts);
    imported->states = import.states;
    imported->state_count = import.state_count;
    imported->training_nodes = import.training;
    imported->training_node_count = import.training_count;
    return fine;
}
