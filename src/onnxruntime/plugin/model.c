/* Writes a part of a graph as an ONNX file in memory, with its constants. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/fields.h"
#include "onnxruntime/plugin/provider.h"

/* IR_VERSION: of the files that are written. */
enum { IR_VERSION = 10 };

/* ---- tensors ------------------------------------------------------------------------------- */

/* All of a tensor's message except its elements, which follow. False if it cannot be written. */
static bool tensor_head(const provider_host *host, const char *name, const OrtValue *value, encoded *head,
                        const void **data, size_t *bytes) {
    const OrtApi *api = host->api;
    OrtTensorTypeAndShapeInfo *info = NULL;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t rank = 0, count = 0;
    int64_t *sizes = NULL;
    OrtStatus *status = api->GetTensorTypeAndShape(value, &info);
    if (!status) status = api->GetTensorElementType(info, &type);
    if (!status) status = api->GetDimensionsCount(info, &rank);
    if (!status) status = api->GetTensorShapeElementCount(info, &count);
    *bytes = status ? 0 : engine_bytes(type, count);
    bool fine = !status && (count == 0 || *bytes > 0);
    if (fine) sizes = calloc(rank + 1, sizeof *sizes);
    head->failed |= fine && !sizes;
    if (sizes && rank) status = api->GetDimensions(info, sizes, rank);
    if (sizes && !status && *bytes) status = api->GetTensorData(value, data);
    fine = sizes && !status && (*bytes == 0 || *data);
    for (size_t i = 0; fine && i < rank; i++)
        encode_number(head, TENSOR_DIMENSION, (uint64_t)sizes[i]);
    encode_number(head, TENSOR_TYPE, (uint64_t)type);
    encode_text(head, TENSOR_NAME, name);
    encode_head(head, TENSOR_BYTES, *bytes);
    free(sizes);
    if (info) api->ReleaseTensorTypeAndShapeInfo(info);
    api->ReleaseStatus(status);
    return fine;
}

static bool add_tensor(const provider_host *host, uint32_t field, const char *name, const OrtValue *value,
                       encoded *to) {
    const void *data = NULL;
    size_t bytes = 0;
    encoded head = {.count = 0};
    const bool fine = tensor_head(host, name, value, &head, &data, &bytes);
    to->failed |= head.failed;
    if (fine) {
        encode_head(to, field, head.count + bytes);
        encode_bytes(to, head.bytes, head.count);
        encode_bytes(to, data, bytes);
    }
    encode_release(&head);
    return fine;
}

bool tensor_encode(const provider_host *host, uint32_t field, const OrtValue *value, encoded *to) {
    return add_tensor(host, field, "", value, to);
}

/* ---- values -------------------------------------------------------------------------------- */

/* An input or output of the graph, with its type and shape. */
static void add_value(encoded *to, uint32_t field, const graph_value *value) {
    encoded shape = {.count = 0}, tensor = {.count = 0}, type = {.count = 0}, message = {.count = 0};
    for (size_t i = 0; i < value->rank; i++) {
        encoded size = {.count = 0};
        if (value->sizes[i] >= 0)
            encode_number(&size, DIMENSION_SIZE, (uint64_t)value->sizes[i]);
        else if (value->symbols[i] && *value->symbols[i])
            encode_text(&size, DIMENSION_SYMBOL, value->symbols[i]);
        encode_message(&shape, SHAPE_DIMENSION, &size);
    }
    encode_number(&tensor, TENSOR_TYPE_ELEMENT, (uint64_t)value->type);
    if (value->has_shape)
        encode_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
    else
        encode_release(&shape);
    encode_message(&type, TYPE_TENSOR, &tensor);
    encode_text(&message, VALUE_NAME, value->name);
    encode_message(&message, VALUE_TYPE, &type);
    encode_message(to, field, &message);
}

/* Adds the constants that the nodes read, each once. `added` has a mark for each value. False if one cannot
 * be written. */
static bool add_constants(const provider_host *host, const graph *own, const graph_part *part, bool *added,
                          encoded *to) {
    for (size_t i = 0; i < part->node_count; i++) {
        const graph_node *node = &own->nodes[part->nodes[i]];
        for (size_t k = 0; k < node->input_count; k++) {
            const size_t value = node->inputs[k];
            const OrtValue *data = NULL;
            if (value == NONE || !own->values[value].is_constant || added[value]) continue;
            added[value] = true;
            OrtStatus *status = host->api->ValueInfo_GetInitializerValue(own->values[value].info, &data);
            const bool found = !status && data;
            host->api->ReleaseStatus(status);
            if (!found || !add_tensor(host, GRAPH_INITIALIZER, own->values[value].name, data, to))
                return false;
        }
    }
    return true;
}

/* ---- files --------------------------------------------------------------------------------- */

/* The operator sets of the nodes' domains, and the beginning of the graph, whose `count` bytes follow. */
static void add_start(const graph *own, const graph_part *part, size_t count, encoded *to) {
    encode_number(to, MODEL_IR_VERSION, IR_VERSION);
    for (size_t i = 0; i < own->domain_count; i++) {
        encoded set = {.count = 0};
        bool used = false;
        for (size_t k = 0; !used && k < part->node_count; k++)
            used = !strcmp(own->nodes[part->nodes[k]].domain, own->domains[i]);
        if (!used) continue;
        encode_text(&set, OPERATOR_SET_DOMAIN, own->domains[i]);
        encode_number(&set, OPERATOR_SET_VERSION, (uint64_t)own->versions[i]);
        encode_message(to, MODEL_OPERATOR_SET, &set);
    }
    encode_head(to, MODEL_GRAPH, count);
}

static bool add_graph(const provider_host *host, const graph *own, const graph_part *part, encoded *to) {
    bool *added = calloc(own->value_count + 1, sizeof *added);
    to->failed |= !added;
    bool fine = added && add_constants(host, own, part, added, to);
    free(added);
    for (size_t i = 0; i < part->node_count; i++) {
        const graph_node *node = &own->nodes[part->nodes[i]];
        fine = fine && node->is_encoded;
        encode_packet(to, GRAPH_NODE, node->bytes.bytes, node->bytes.count);
    }
    encode_text(to, GRAPH_NAME, "part");
    for (size_t i = 0; i < part->input_count; i++)
        add_value(to, GRAPH_INPUT, &own->values[part->inputs[i]]);
    for (size_t i = 0; i < part->output_count; i++)
        add_value(to, GRAPH_OUTPUT, &own->values[part->outputs[i]]);
    return fine;
}

/* What precedes the graph contains its length, so the graph is written first, after room for it. */
OrtStatus *part_encode(const provider_host *host, const graph *own, const graph_part *part, part_file *file) {
    encoded start = {.count = 0}, all = {.count = 0};
    *file = (part_file){.memory = NULL};
    add_start(own, part, SIZE_MAX, &start);
    const size_t room = start.count;
    encode_release(&start);
    encode_reserve(&all, room);
    if (!all.failed) memset(all.bytes, 0, room);
    all.count = all.failed ? 0 : room;
    const bool fine = add_graph(host, own, part, &all);
    add_start(own, part, all.count - (all.failed ? 0 : room), &start);
    OrtStatus *status = NULL;
    if (all.failed || start.failed || start.count > room)
        status = provider_no_memory(host);
    else if (!fine)
        status = host->api->CreateStatus(ORT_NOT_IMPLEMENTED, "a constant or an attribute cannot be written");
    if (status) {
        encode_release(&all);
    } else {
        memcpy(all.bytes + room - start.count, start.bytes, start.count);
        *file = (part_file){all.bytes, all.bytes + room - start.count, all.count - room + start.count};
    }
    encode_release(&start);
    return status;
}

/* ---- borders ------------------------------------------------------------------------------- */

void part_release(graph_part *part) {
    free((void *)part->inputs);
    free((void *)part->outputs);
    *part = (graph_part){.nodes = NULL};
}

/* Marks of values. */
enum { READ_INSIDE = 1, MADE_INSIDE = 2, READ_OUTSIDE = 4 };

static void mark(uint8_t *marks, const size_t *values, size_t count, uint8_t which) {
    for (size_t i = 0; i < count; i++)
        if (values[i] != NONE) marks[values[i]] |= which;
}

bool part_borders(const graph *own, const size_t *nodes, size_t count, graph_part *part) {
    *part = (graph_part){.nodes = nodes, .node_count = count};
    uint8_t *marks = calloc(own->value_count + 1, sizeof *marks);
    bool *inside = calloc(own->node_count + 1, sizeof *inside);
    size_t *inputs = calloc(own->value_count + 1, sizeof *inputs);
    size_t *outputs = calloc(own->value_count + 1, sizeof *outputs);
    const bool fine = marks && inside && inputs && outputs;
    for (size_t i = 0; fine && i < count; i++)
        inside[nodes[i]] = true;
    for (size_t i = 0; fine && i < own->node_count; i++) {
        const graph_node *node = &own->nodes[i];
        mark(marks, node->inputs, node->input_count, inside[i] ? READ_INSIDE : READ_OUTSIDE);
        mark(marks, node->implicit, node->implicit_count, READ_OUTSIDE);
        if (inside[i]) mark(marks, node->outputs, node->output_count, MADE_INSIDE);
    }
    for (size_t i = 0; fine && i < own->value_count; i++) {
        const graph_value *value = &own->values[i];
        if ((marks[i] & READ_INSIDE) && !(marks[i] & MADE_INSIDE) && !value->is_constant)
            inputs[part->input_count++] = i;
        if ((marks[i] & MADE_INSIDE) && (value->is_output || (marks[i] & READ_OUTSIDE)))
            outputs[part->output_count++] = i;
    }
    part->inputs = inputs;
    part->outputs = outputs;
    free(marks);
    free(inside);
    if (!fine) part_release(part);
    return fine;
}
