/* ONNX: models, graphs, nodes and functions as tables of their fields. */
#include <string.h>

#include "formats/onnx_private.h"

#define TEXT(number, type, member)                                                                           \
    { number, KN_ONNX_TEXT, #member, offsetof(type, member), 0, NULL }
#define DOMAIN_NAME(number, type, member)                                                                    \
    { number, KN_ONNX_DOMAIN, #member, offsetof(type, member), 0, NULL }
#define NUMBER(number, type, member)                                                                         \
    { number, KN_ONNX_NUMBER, #member, offsetof(type, member), 0, NULL }
#define ONE(number, type, member, of)                                                                        \
    { number, KN_ONNX_ONE, #member, offsetof(type, member), 0, &(of) }
#define TEXTS(number, type, member, counted)                                                                 \
    { number, KN_ONNX_TEXTS, #member, offsetof(type, member), offsetof(type, counted), NULL }
#define MANY(number, type, member, counted, of)                                                              \
    { number, KN_ONNX_MESSAGES, #member, offsetof(type, member), offsetof(type, counted), &(of) }
#define MESSAGE(text, type, list)                                                                            \
    .name = (text), .bytes = sizeof(type), .fields = (list), .field_count = KN_COUNT_OF(list)

static const kn_onnx_field pair_fields[] = {
    TEXT(1, kn_text_pair, key),
    TEXT(2, kn_text_pair, value),
};
const kn_onnx_message kn_onnx_pair_message = {MESSAGE("pair", kn_text_pair, pair_fields)};

static const kn_onnx_field value_info_fields[] = {
    TEXT(1, kn_onnx_value_info, name),
    ONE(2, kn_onnx_value_info, type, kn_onnx_type_message),
    TEXT(3, kn_onnx_value_info, doc),
    MANY(4, kn_onnx_value_info, metadata, metadata_count, kn_onnx_pair_message),
};
static const kn_onnx_message value_info = {MESSAGE("value", kn_onnx_value_info, value_info_fields)};

static const kn_onnx_field node_fields[] = {
    TEXTS(1, kn_onnx_node, inputs, input_count),
    TEXTS(2, kn_onnx_node, outputs, output_count),
    TEXT(3, kn_onnx_node, name),
    TEXT(4, kn_onnx_node, type),
    MANY(5, kn_onnx_node, attributes, attribute_count, kn_onnx_attribute_message),
    TEXT(6, kn_onnx_node, doc),
    DOMAIN_NAME(7, kn_onnx_node, domain),
    TEXT(8, kn_onnx_node, overload),
    MANY(9, kn_onnx_node, metadata, metadata_count, kn_onnx_pair_message),
};
static const kn_onnx_message node = {MESSAGE("node", kn_onnx_node, node_fields), .check = kn_onnx_check_node};

static const kn_onnx_field annotation_fields[] = {
    TEXT(1, kn_onnx_annotation, tensor),
    MANY(2, kn_onnx_annotation, parameters, parameter_count, kn_onnx_pair_message),
};
static const kn_onnx_message annotation = {MESSAGE("annotation", kn_onnx_annotation, annotation_fields)};

static const kn_onnx_field graph_fields[] = {
    MANY(1, kn_onnx_graph, nodes, node_count, node),
    TEXT(2, kn_onnx_graph, name),
    MANY(5, kn_onnx_graph, initializers, initializer_count, kn_onnx_tensor_message),
    TEXT(10, kn_onnx_graph, doc),
    MANY(11, kn_onnx_graph, inputs, input_count, value_info),
    MANY(12, kn_onnx_graph, outputs, output_count, value_info),
    MANY(13, kn_onnx_graph, values, value_count, value_info),
    MANY(14, kn_onnx_graph, annotations, annotation_count, annotation),
    MANY(15, kn_onnx_graph, sparse_initializers, sparse_initializer_count, kn_onnx_sparse_message),
    MANY(16, kn_onnx_graph, metadata, metadata_count, kn_onnx_pair_message),
};
const kn_onnx_message kn_onnx_graph_message = {MESSAGE("graph", kn_onnx_graph, graph_fields),
                                               .check = kn_onnx_check_graph};

static const kn_onnx_field opset_fields[] = {
    DOMAIN_NAME(1, kn_onnx_opset, domain),
    NUMBER(2, kn_onnx_opset, version),
};
static const kn_onnx_message opset = {MESSAGE("opset", kn_onnx_opset, opset_fields)};

static const kn_onnx_field function_fields[] = {
    TEXT(1, kn_onnx_function, name),
    TEXTS(4, kn_onnx_function, inputs, input_count),
    TEXTS(5, kn_onnx_function, outputs, output_count),
    TEXTS(6, kn_onnx_function, attribute_names, attribute_name_count),
    MANY(7, kn_onnx_function, nodes, node_count, node),
    TEXT(8, kn_onnx_function, doc),
    MANY(9, kn_onnx_function, opsets, opset_count, opset),
    DOMAIN_NAME(10, kn_onnx_function, domain),
    MANY(11, kn_onnx_function, attributes, attribute_count, kn_onnx_attribute_message),
    MANY(12, kn_onnx_function, values, value_count, value_info),
    TEXT(13, kn_onnx_function, overload),
    MANY(14, kn_onnx_function, metadata, metadata_count, kn_onnx_pair_message),
};
static const kn_onnx_message function = {MESSAGE("function", kn_onnx_function, function_fields),
                                         .check = kn_onnx_check_function};

static const kn_onnx_field model_fields[] = {
    NUMBER(1, kn_onnx_model, ir_version),
    TEXT(2, kn_onnx_model, producer),
    TEXT(3, kn_onnx_model, producer_version),
    DOMAIN_NAME(4, kn_onnx_model, domain),
    NUMBER(5, kn_onnx_model, version),
    TEXT(6, kn_onnx_model, doc),
    ONE(7, kn_onnx_model, graph, kn_onnx_graph_message),
    MANY(8, kn_onnx_model, opsets, opset_count, opset),
    MANY(14, kn_onnx_model, metadata, metadata_count, kn_onnx_pair_message),
    MANY(25, kn_onnx_model, functions, function_count, function),
};
const kn_onnx_message kn_onnx_model_message = {MESSAGE("model", kn_onnx_model, model_fields),
                                               .check = kn_onnx_check_model};

kn_status kn_onnx_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                       const char *folder, kn_onnx_model *model, kn_error *error) {
    *model = (kn_onnx_model){.opsets = NULL};
    kn_arena_init(&model->arena, host);
    kn_map_init(&model->by_location, host);
    kn_onnx_reader in = {.input = {.name = name, .kind = "an ONNX file", .start = bytes, .error = error},
                         .host = host,
                         .arena = &model->arena,
                         .folder = folder,
                         .model = model};
    kn_wire whole = {bytes, bytes + count};
    kn_status status = kn_onnx_read_message(&in, &kn_onnx_model_message, whole, model);
    /* Any valid fields, even none, are a message; only these make it a model. */
    if (status == KN_OK && (!model->graph.name || model->opset_count == 0))
        status = kn_fail(error, KN_ERROR_FORMAT, "%s: has no %s; expected an ONNX model", name,
                         model->graph.name ? "operator set version" : "graph");
    if (status != KN_OK) kn_onnx_close(host, model);
    return status;
}

/* The folder of a path, in new memory. */
static char *folder_of(const kn_host *host, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return kn_copy_text(host, ".");
    char *folder = kn_copy_text(host, path);
    if (folder) folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

kn_status kn_onnx_open(const kn_host *host, const char *path, kn_onnx_model *model, kn_error *error) {
    *model = (kn_onnx_model){.opsets = NULL};
    kn_file_view view;
    kn_status status = kn_file_open_view(host, path, &view, error);
    if (status != KN_OK) return status;
    char *folder = folder_of(host, path);
    status = folder ? kn_onnx_read(host, path, view.bytes, view.count, folder, model, error)
                    : kn_fail_memory(error, strlen(path) + 1);
    kn_release(host, folder);
    if (status != KN_OK)
        kn_file_close_view(host, &view);
    else
        model->view = view;
    return status;
}

void kn_onnx_close(const kn_host *host, kn_onnx_model *model) {
    if (!model) return;
    for (kn_onnx_external *external = model->external; external; external = external->next)
        kn_file_close_view(host, &external->view);
    /* A zeroed structure has neither. */
    if (model->by_location.host || model->by_location.entries) kn_map_finish(&model->by_location);
    if (model->arena.host || model->arena.blocks) kn_arena_finish(&model->arena);
    if (model->view.bytes) kn_file_close_view(host, &model->view);
    *model = (kn_onnx_model){.opsets = NULL};
}

const kn_onnx_attribute *kn_onnx_find_attribute(const kn_onnx_node *of, const char *name) {
    for (size_t i = 0; i < of->attribute_count; i++)
        if (strcmp(of->attributes[i].name, name) == 0) return &of->attributes[i];
    return NULL;
}

int64_t kn_onnx_find_opset(const kn_onnx_opset *opsets, size_t count, const char *domain) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(opsets[i].domain, domain) == 0) return opsets[i].version;
    return 0;
}
