/* Writes a graph as an ONNX file: the nodes that the outputs need, as their rows specify (export_rows.c), and
 * weights and constants as initializers with the names of their values. */
#include "exchange/onnx/export.h"

#include <stdio.h>

/* ---- nodes --------------------------------------------------------------------------------------------- */

const char *kn_export_name(kn_export_call *call) {
    const char *name = call->node->name;
    return kn_arena_format(&call->export->arena, "%s.part%d", name ? name : "node", ++call->export->made);
}

const char *kn_export_node(kn_export_call *call, const char *type, const char *output,
                           const char *const *inputs) {
    kn_export *export = call->export;
    size_t count = 0;
    while (inputs[count])
        count++;
    if (!output) output = kn_export_name(call);
    const char **names = kn_arena_take(&export->arena, count + 2, sizeof *names);
    if (!names || !output || export->node_count == export->node_capacity) return NULL;
    memcpy(names, inputs, count * sizeof *names);
    names[count] = output;
    export->nodes[export->node_count++] = (kn_onnx_node){.name = output,
                                                         .type = type,
                                                         .inputs = names,
                                                         .input_count = count,
                                                         .outputs = names + count,
                                                         .output_count = 1};
    return output;
}

bool kn_export_results(kn_export_call *call, const char *const *names, size_t count) {
    kn_onnx_node *node = &call->export->nodes[call->export->node_count - 1];
    const char **kept = kn_arena_copy(&call->export->arena, names, count, sizeof *names);
    if (!kept) return false;
    node->outputs = kept;
    node->output_count = count;
    return true;
}

static bool add_attribute(kn_export_call *call, kn_onnx_attribute attribute) {
    enum { ROOM = 8 };
    kn_export *export = call->export;
    kn_onnx_node *node = &export->nodes[export->node_count - 1];
    kn_onnx_attribute *list = kn_arena_take(&export->arena, ROOM, sizeof *list);
    if (!list || node->attribute_count == ROOM) return false;
    if (node->attribute_count) memcpy(list, node->attributes, node->attribute_count * sizeof *list);
    list[node->attribute_count++] = attribute;
    node->attributes = list;
    return true;
}

bool kn_export_int(kn_export_call *call, const char *name, int64_t number) {
    const int64_t *kept = kn_arena_copy(&call->export->arena, &number, 1, sizeof number);
    return kept &&
           add_attribute(call, (kn_onnx_attribute){
                                   .name = name, .kind = KN_ONNX_ATTRIBUTE_INT, .count = 1, .ints = kept});
}

bool kn_export_float(kn_export_call *call, const char *name, double number) {
    const float single = (float)number;
    const float *kept = kn_arena_copy(&call->export->arena, &single, 1, sizeof single);
    return kept && add_attribute(
                       call, (kn_onnx_attribute){
                                 .name = name, .kind = KN_ONNX_ATTRIBUTE_FLOAT, .count = 1, .floats = kept});
}

bool kn_export_ints(kn_export_call *call, const char *name, const int64_t *numbers, size_t count) {
    int64_t *kept = kn_arena_take(&call->export->arena, count + 1, sizeof *kept);
    if (!kept) return false;
    if (count) memcpy(kept, numbers, count * sizeof *kept);
    return add_attribute(
        call,
        (kn_onnx_attribute){.name = name, .kind = KN_ONNX_ATTRIBUTE_INTS, .count = count, .ints = kept});
}

bool kn_export_strings(kn_export_call *call, const char *name, const char *const *texts, size_t count) {
    kn_onnx_string *kept = kn_arena_take(&call->export->arena, count + 1, sizeof *kept);
    for (size_t i = 0; kept && i < count; i++)
        kept[i] = (kn_onnx_string){texts[i], strlen(texts[i])};
    return kept && add_attribute(call, (kn_onnx_attribute){.name = name,
                                                           .kind = KN_ONNX_ATTRIBUTE_STRINGS,
                                                           .count = count,
                                                           .strings = kept});
}

bool kn_export_string(kn_export_call *call, const char *name, const char *text) {
    if (!kn_export_strings(call, name, &text, 1)) return false;
    kn_export *export = call->export;
    const kn_onnx_node *node = &export->nodes[export->node_count - 1];
    kn_onnx_attribute *last = (kn_onnx_attribute *)(uintptr_t)&node->attributes[node->attribute_count - 1];
    last->kind = KN_ONNX_ATTRIBUTE_STRING;
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static bool add_constant(kn_export *export, const kn_onnx_tensor *tensor) {
    const kn_onnx_attribute value = {
        .name = "value", .kind = KN_ONNX_ATTRIBUTE_TENSOR, .count = 1, .tensors = tensor};
    const kn_onnx_attribute *attribute = kn_arena_copy(&export->arena, &value, 1, sizeof value);
    const char **output = kn_arena_copy(&export->arena, &tensor->name, 1, sizeof *output);
    if (!attribute || !output || export->node_count == export->node_capacity) return false;
    export->nodes[export->node_count++] = (kn_onnx_node){.name = tensor->name,
                                                         .type = "Constant",
                                                         .outputs = output,
                                                         .output_count = 1,
                                                         .attributes = attribute,
                                                         .attribute_count = 1};
    return true;
}

/* data holds the elements in native byte order, in the arena; they are converted in place. trainable: always
 * an initializer. */
static bool add_tensor(kn_export *export, const char *name, kn_dtype dtype, int rank, const int64_t *shape,
                       void *data, bool trainable) {
    kn_onnx_tensor *tensor = &export->tensors[export->tensor_count];
    int64_t *kept = kn_arena_take(&export->arena, (size_t)rank + 1, sizeof *kept);
    if (!name || !kept || !data || export->tensor_count == export->tensor_capacity) return false;
    if (rank) memcpy(kept, shape, (size_t)rank * sizeof *kept);
    *tensor =
        (kn_onnx_tensor){.name = name, .type = kn_onnx_type_from(dtype), .rank = (size_t)rank, .shape = kept};
    if (!kn_onnx_tensor_measure(tensor)) return false;
    kn_onnx_pack(dtype, data, tensor->count);
    tensor->bytes = data;
    if (!trainable && rank && kn_dtype_is_float(dtype)) {
        const kn_onnx_tensor *copy = kn_arena_copy(&export->arena, tensor, 1, sizeof *tensor);
        return copy && add_constant(export, copy);
    }
    export->tensor_count++;
    return true;
}

const char *kn_export_tensor(kn_export_call *call, kn_dtype dtype, int rank, const int64_t *shape,
                             void *data) {
    const char *name = kn_export_name(call);
    return add_tensor(call->export, name, dtype, rank, shape, data, false) ? name : NULL;
}

const char *kn_export_number(kn_export_call *call, kn_dtype dtype, double number) {
    uint64_t *data = kn_arena_take(&call->export->arena, 1, sizeof *data);
    if (data) kn_element_set(dtype, data, 0, number);
    return kn_export_tensor(call, dtype, 0, NULL, data);
}

const char *kn_export_list(kn_export_call *call, const int64_t *numbers, size_t count) {
    int64_t length = (int64_t)count, *data = kn_arena_take(&call->export->arena, count + 1, sizeof *data);
    if (data && count) memcpy(data, numbers, count * sizeof *data);
    return kn_export_tensor(call, KN_INT64, 1, &length, data);
}

/* Statistics that no batch norm updates were measured once; readers of the file must not take them for
 * weights. */
static bool is_followed(const kn_export *export, const kn_value *value) {
    const kn_graph *graph = export->model->graph;
    for (size_t i = 0; i < graph->node_count; i++) {
        const kn_node *node = graph->nodes[i];
        bool norm = !strcmp(node->op->name, "batch_norm");
        for (int k = 0; norm && k < node->input_count; k++)
            if (node->inputs[k] == value) return true;
    }
    return false;
}

/* Adds the current value of a weight, or a constant, under the name of its value. */
static bool add_value(kn_export *export, const kn_value *value) {
    kn_error *error = &export->model->error;
    kn_tensor_info info = {.dtype = value->shape.dtype, .rank = value->shape.rank};
    memcpy(info.shape, value->shape.dims, sizeof info.shape);
    uint64_t bytes = 0;
    if (!kn_tensor_bytes(&info, &bytes)) {
        kn_fail(error, KN_ERROR_UNSUPPORTED, "'%s' has dynamic sizes, so it cannot be an initializer",
                value->name);
        return false;
    }
    void *data = kn_arena_take(&export->arena, (size_t)bytes + 8, 1);
    if (!data) return kn_model_no_memory(export->model);
    if (value->kind == KN_VALUE_CONSTANT && bytes) memcpy(data, value->data, (size_t)bytes);
    if (value->kind == KN_VALUE_STATE) {
        kn_status status = kn_states_get(export->states, value->name, data, (size_t)bytes);
        if (status != KN_OK) {
            kn_fail(error, status, "weight '%s': %s", value->name, kn_states_error(export->states));
            return false;
        }
    }
    bool trainable =
        value->kind == KN_VALUE_STATE && (value->role != KN_STATE_STATISTIC || is_followed(export, value));
    return add_tensor(export, value->name, info.dtype, info.rank, info.shape, data, trainable) ||
           kn_model_no_memory(export->model);
}

/* ---- dynamic sizes ------------------------------------------------------------------------------------- */

static bool has_size(const kn_export *export, const kn_value *value, kn_dim dim, int *axis) {
    if (!value || !export->needed[value->id]) return false;
    for (*axis = 0; *axis < value->shape.rank; ++*axis)
        if (value->shape.dims[*axis] == dim) return true;
    return false;
}

/* A dynamic size as int64 (1). */
static const char *dynamic_size(kn_export_call *call, kn_dim dim) {
    const kn_export *export = call->export;
    const kn_graph *graph = export->model->graph;
    const kn_value *found = NULL;
    int axis = 0;
    for (int i = 0; i < export->model->input_count && !found; i++)
        if (has_size(export, export->model->inputs[i], dim, &axis)) found = export->model->inputs[i];
    for (size_t i = 0; i < graph->node_count && graph->nodes[i] != call->node && !found; i++)
        if (has_size(export, graph->nodes[i]->outputs[0], dim, &axis)) found = graph->nodes[i]->outputs[0];
    const char *size = kn_export_one(call, "Shape", NULL, found ? found->name : NULL);
    return size && kn_export_int(call, "start", axis) && kn_export_int(call, "end", axis + 1) ? size : NULL;
}

const char *kn_export_sizes(kn_export_call *call, const kn_dim *dims, int count) {
    const char *parts[KN_MAX_RANK + 1] = {NULL};
    int used = 0, known = 0;
    for (int i = 0; i < count; i += known ? known : 1) {
        for (known = 0; i + known < count && kn_dim_known(dims[i + known]); known++)
            ;
        parts[used] = known ? kn_export_list(call, dims + i, (size_t)known) : dynamic_size(call, dims[i]);
        if (!parts[used++]) return NULL;
    }
    if (used < 2) return used ? parts[0] : kn_export_list(call, NULL, 0);
    const char *whole = kn_export_node(call, "Concat", NULL, parts);
    return whole && kn_export_int(call, "axis", 0) ? whole : NULL;
}

/* ---- inputs and outputs -------------------------------------------------------------------------------- */

static bool describe(kn_export *export, const kn_value *value, const char *name, kn_onnx_value_info *info) {
    kn_onnx_dimension *dims = kn_arena_take(&export->arena, (size_t)value->shape.rank + 1, sizeof *dims);
    if (!dims) return kn_model_no_memory(export->model);
    for (int i = 0; i < value->shape.rank; i++) {
        dims[i] =
            (kn_onnx_dimension){.known = kn_dim_known(value->shape.dims[i]), .length = value->shape.dims[i]};
        if (dims[i].known) continue;
        kn_text text;
        kn_text_init(&text, &export->model->host);
        kn_dim_text(value->graph, value->shape.dims[i], &text);
        dims[i].name = kn_text_failed(&text) ? NULL : kn_arena_text(&export->arena, text.data);
        kn_text_finish(&text);
        if (!dims[i].name) return kn_model_no_memory(export->model);
    }
    *info = (kn_onnx_value_info){.name = name,
                                 .type = {.kind = KN_ONNX_TENSOR,
                                          .type = kn_onnx_type_from(value->shape.dtype),
                                          .has_shape = true,
                                          .rank = (size_t)value->shape.rank,
                                          .shape = dims}};
    return true;
}

/* ---- entry point --------------------------------------------------------------------------------------- */

static bool wanted(const kn_node *node, const bool *needed) {
    for (int k = 0; k < node->output_count; k++)
        if (needed[node->outputs[k]->id]) return true;
    return false;
}

/* Marks, by id, the values that the outputs need. */
static void mark_needed(const kn_model *model, bool *needed) {
    const kn_graph *graph = model->graph;
    for (int i = 0; i < model->output_count; i++)
        needed[model->outputs[i]->id] = true;
    for (size_t i = graph->node_count; i-- > 0;) {
        const kn_node *node = graph->nodes[i];
        /* Leaves out inputs that only training reads, such as the step counter of dropout. */
        const kn_value *reads[KN_MAX_INPUTS];
        int count = wanted(node, needed) ? kn_export_reads(node, reads) : 0;
        for (int k = 0; k < count; k++)
            needed[reads[k]->id] = true;
    }
}

/* Whether the opset supports the node for the types of its values: for 8-bit floats it only has Cast, and not
 * for float8e8m0. */
static bool has_types(const kn_node *node) {
    bool fine = true;
    for (int i = 0; i < node->input_count + node->output_count; i++) {
        const kn_value *value =
            i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        const kn_dtype dtype = value ? value->shape.dtype : KN_FLOAT32;
        if (kn_is_small_float(dtype))
            fine =
                fine && !strcmp(node->op->name, "cast") && dtype != KN_FLOAT8E8M0 && dtype != KN_FLOAT4E2M1;
    }
    return fine;
}

static bool export_node(kn_export *export, const kn_node *node, kn_text *unknown) {
    kn_export_call call = {.export = export, .node = node, .output = node->outputs[0]->name};
    kn_export_builder build = kn_export_find(node->op);
    for (int i = 0; i < node->input_count; i++) {
        const kn_value *read = kn_export_read(node->inputs[i]);
        call.inputs[i] = read ? read->name : NULL;
    }
    if (build && has_types(node) && build(&call)) return true;
    kn_text_format(unknown, "%s%s '%.100s'", kn_text_failed(unknown) || !unknown->length ? "" : ", ",
                   node->op->name, node->name);
    return false;
}

static bool export_nodes(kn_export *export) {
    const kn_graph *graph = export->model->graph;
    bool fine = true;
    kn_text unknown;
    kn_text_init(&unknown, &export->model->host);
    for (size_t i = 0; i < graph->node_count; i++)
        if (wanted(graph->nodes[i], export->needed) && unknown.length < 800)
            fine = export_node(export, graph->nodes[i], &unknown) && fine;
    if (!fine)
        kn_fail(&export->model->error, KN_ERROR_UNSUPPORTED,
                "model '%s': nodes that have no ONNX counterpart: %s", export->model->name,
                kn_text_failed(&unknown) ? "" : unknown.data);
    kn_text_finish(&unknown);
    return fine;
}

static bool fill(kn_export *export, kn_onnx_graph *file) {
    kn_model *model = export->model;
    const kn_graph *graph = model->graph;
    kn_onnx_value_info *inputs =
        kn_arena_take(&export->arena, (size_t)model->input_count + 1, sizeof *inputs);
    kn_onnx_value_info *outputs =
        kn_arena_take(&export->arena, (size_t)model->output_count + 1, sizeof *outputs);
    export->node_capacity = graph->value_count + graph->node_count * KN_EXPORT_MORE;
    export->tensor_capacity = graph->value_count + graph->node_count * KN_EXPORT_MORE;
    export->nodes = kn_arena_take(&export->arena, export->node_capacity + 1, sizeof *export->nodes);
    export->tensors = kn_arena_take(&export->arena, export->tensor_capacity + 1, sizeof *export->tensors);
    if (!inputs || !outputs || !export->nodes || !export->tensors) return kn_model_no_memory(model);
    for (int i = 0; i < model->input_count; i++)
        if (!describe(export, model->inputs[i], model->inputs[i]->name, &inputs[i])) return false;
    for (int i = 0; i < model->output_count; i++)
        if (!describe(export, model->outputs[i], model->outputs[i]->name, &outputs[i])) return false;
    for (size_t i = 0; i < graph->value_count; i++) {
        const kn_value *value = graph->values[i];
        bool kept = value->kind == KN_VALUE_STATE || value->kind == KN_VALUE_CONSTANT;
        if (kept && export->needed[value->id] && !add_value(export, value)) return false;
    }
    if (!export_nodes(export)) return false;
    *file = (kn_onnx_graph){.name = model->name,
                            .nodes = export->nodes,
                            .node_count = export->node_count,
                            .initializers = export->tensors,
                            .initializer_count = export->tensor_count,
                            .inputs = inputs,
                            .input_count = (size_t)model->input_count,
                            .outputs = outputs,
                            .output_count = (size_t)model->output_count};
    return true;
}

kn_status kn_export_onnx(kn_model *model, const char *path, kn_states *states,
                         const kn_model_save_params *params) {
    const kn_onnx_opset opset = {"", KN_EXPORT_OPSET};
    kn_onnx_model file = {
        .ir_version = KN_EXPORT_IR, .opsets = &opset, .opset_count = 1, .producer = "koine"};
    bool *needed = kn_allocate(&model->host, model->graph->value_count + 1, sizeof *needed);
    kn_export export = {.model = model, .states = states, .needed = needed};
    if (!needed) return kn_fail_memory(&model->error, model->graph->value_count);
    kn_arena_init(&export.arena, &model->host);
    kn_onnx_pair *pairs = kn_arena_take(&export.arena, params->pair_count + 1, sizeof *pairs);
    mark_needed(model, needed);
    bool fine = pairs ? fill(&export, &file.graph) : kn_model_no_memory(model);
    for (size_t i = 0; fine && i < params->pair_count; i++)
        pairs[i] = (kn_onnx_pair){params->pairs[i].key, params->pairs[i].value};
    file.metadata = pairs;
    file.metadata_count = params->pair_count;
    kn_status status =
        fine ? kn_onnx_write(&model->host, path, &file, NULL, &model->error) : model->error.status;
    kn_arena_finish(&export.arena);
    kn_release(&model->host, needed);
    return status;
}
