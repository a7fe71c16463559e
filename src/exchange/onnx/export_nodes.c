/* What the rows of the exporter write with: nodes, their attributes, constants and dynamic sizes. */
#include "exchange/onnx/export.h"

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

bool kn_export_add_tensor(kn_export *export, const char *name, kn_dtype dtype, int rank, const int64_t *shape,
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
    return kn_export_add_tensor(call->export, name, dtype, rank, shape, data, false) ? name : NULL;
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
