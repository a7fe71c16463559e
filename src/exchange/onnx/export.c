/* Writes a graph as an ONNX file: the nodes that the outputs need, as their rows specify (export_rows.c), and
 * weights and constants as initializers with the names of their values. */
#include "exchange/onnx/export.h"

#include <stdio.h>

/* ---- weights and constants ----------------------------------------------------------------------------- */

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
    return kn_export_add_tensor(export, value->name, info.dtype, info.rank, info.shape, data, trainable) ||
           kn_model_no_memory(export->model);
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
    kn_text_pair *pairs = kn_arena_take(&export.arena, params->pair_count + 1, sizeof *pairs);
    mark_needed(model, needed);
    bool fine = pairs ? fill(&export, &file.graph) : kn_model_no_memory(model);
    for (size_t i = 0; fine && i < params->pair_count; i++)
        pairs[i] = (kn_text_pair){params->pairs[i].key, params->pairs[i].value};
    file.metadata = pairs;
    file.metadata_count = params->pair_count;
    kn_status status =
        fine ? kn_onnx_write(&model->host, path, &file, NULL, &model->error) : model->error.status;
    kn_arena_finish(&export.arena);
    kn_release(&model->host, needed);
    return status;
}
