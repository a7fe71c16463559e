/* Reads a graph of ONNX Runtime: its values and nodes by number, and each node as a message of an ONNX file.
 */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/fields.h"
#include "onnxruntime/plugin/provider.h"

/* The graph being read. `status`: the first error, after which nothing more is read. */
typedef struct reading {
    const provider_host *host;
    const OrtApi *api;
    graph *own;
    OrtStatus *status;
} reading;

/* Stores an error; false if there is one. */
static bool keep(reading *from, OrtStatus *status) {
    if (from->status)
        from->api->ReleaseStatus(status);
    else
        from->status = status;
    return !from->status;
}

/* New memory for `count` elements, at least one. */
static void *room_for(reading *from, size_t count, size_t bytes) {
    if (from->status) return NULL;
    void *memory = calloc(count + 1, bytes);
    if (!memory) from->status = provider_no_memory(from->host);
    return memory;
}

void graph_release(graph *own) {
    for (size_t i = 0; i < own->value_count; i++) {
        free(own->values[i].sizes);
        free(own->values[i].symbols);
    }
    for (size_t i = 0; i < own->node_count; i++) {
        free(own->nodes[i].inputs);
        free(own->nodes[i].outputs);
        free(own->nodes[i].implicit);
        encode_release(&own->nodes[i].bytes);
    }
    free(own->values);
    free(own->nodes);
    free(own->outputs);
    free(own->domains);
    free(own->versions);
    free(own->names);
    *own = (graph){.value_count = 0};
}

/* ---- values -------------------------------------------------------------------------------- */

static size_t hash(const char *name) {
    uint64_t sum = 1469598103934665603u;
    for (; *name; name++)
        sum = (sum ^ (unsigned char)*name) * 1099511628211u;
    return (size_t)(sum ^ sum >> 29);
}

/* The place of a name in the table, or the free place for it. */
static size_t place_of(const graph *own, const char *name) {
    size_t place = hash(name) & (own->name_room - 1);
    while (own->names[place] != NONE && strcmp(own->values[own->names[place]].name, name))
        place = (place + 1) & (own->name_room - 1);
    return place;
}

size_t graph_find(const graph *own, const char *name) {
    return own->name_room ? own->names[place_of(own, name)] : NONE;
}

static void read_shape(reading *from, const OrtTensorTypeAndShapeInfo *info, graph_value *value) {
    const OrtApi *api = from->api;
    if (!keep(from, api->GetTensorElementType(info, &value->type)) ||
        !keep(from, api->GetDimensionsCount(info, &value->rank)))
        return;
    /* Without the function, a rank of 0 may mean that the rank is unknown, but not for a constant. */
    value->has_shape = from->host->has_shapes ? api->TensorTypeAndShape_HasShape(info)
                                              : value->rank > 0 || value->is_constant;
    value->sizes = room_for(from, value->rank, sizeof *value->sizes);
    value->symbols = room_for(from, value->rank, sizeof *value->symbols);
    if (!value->sizes || !value->symbols || !value->rank) return;
    if (keep(from, api->GetDimensions(info, value->sizes, value->rank)))
        keep(from, api->GetSymbolicDimensions(info, value->symbols, value->rank));
}

static void read_value(reading *from, graph_value *value) {
    const OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *tensor = NULL;
    value->producer = NONE;
    if (!keep(from, from->api->GetValueInfoTypeInfo(value->info, &type))) return;
    if (!keep(from, from->api->ValueInfo_IsConstantInitializer(value->info, &value->is_constant))) return;
    if (type && !keep(from, from->api->CastTypeInfoToTensorInfo(type, &tensor))) return;
    if (tensor) read_shape(from, tensor, value);
}

/* Doubles the tables when they are full. */
static bool grow(reading *from) {
    graph *own = from->own;
    if (own->value_count < own->name_room / 2) return true;
    const size_t room = own->name_room ? own->name_room * 2 : 64;
    graph_value *values = realloc(own->values, room / 2 * sizeof *values);
    if (values) own->values = values;
    size_t *names = room_for(from, room, sizeof *names);
    if (!values || !names) {
        free(names);
        return keep(from, provider_no_memory(from->host));
    }
    free(own->names);
    own->names = names;
    own->name_room = room;
    for (size_t i = 0; i < room; i++)
        names[i] = NONE;
    for (size_t i = 0; i < own->value_count; i++)
        names[place_of(own, own->values[i].name)] = i;
    return true;
}

/* The number of a value, which is read when it first occurs. */
static size_t number_of(reading *from, const OrtValueInfo *info) {
    const char *name = NULL;
    if (!info || !keep(from, from->api->GetValueInfoName(info, &name)) || !name || !*name) return NONE;
    if (!grow(from)) return NONE;
    size_t *place = &from->own->names[place_of(from->own, name)];
    if (*place == NONE) {
        *place = from->own->value_count++;
        graph_value *value = &from->own->values[*place];
        *value = (graph_value){.name = name, .info = info};
        read_value(from, value);
    }
    return *place;
}

typedef OrtStatus *(*count_function)(const OrtNode *, size_t *);
typedef OrtStatus *(*values_function)(const OrtNode *, const OrtValueInfo **, size_t);

static size_t *read_values(reading *from, const OrtNode *node, count_function how_many, values_function which,
                           size_t *out) {
    size_t count = 0;
    if (!keep(from, how_many(node, &count))) return NULL;
    const OrtValueInfo **infos = room_for(from, count, sizeof *infos);
    size_t *values = room_for(from, count, sizeof *values);
    if (infos && values && (!count || keep(from, which(node, infos, count)))) {
        *out = count;
        for (size_t i = 0; i < count; i++)
            values[i] = number_of(from, infos[i]);
    }
    free(infos);
    return values;
}

/* ---- attributes ---------------------------------------------------------------------------- */

/* The value of an attribute in new memory; NULL if it cannot be read. */
static void *read_attribute(reading *from, const OrtOpAttr *attribute, OrtOpAttrType type, size_t *bytes) {
    /* The first call finds the size, and fails unless that is 0. */
    from->api->ReleaseStatus(from->api->ReadOpAttr(attribute, type, NULL, 0, bytes));
    void *data = room_for(from, *bytes, 1);
    OrtStatus *status = NULL;
    if (data && *bytes) status = from->api->ReadOpAttr(attribute, type, data, *bytes, bytes);
    if (!status) return data;
    from->api->ReleaseStatus(status);
    free(data);
    return NULL;
}

static void encode_values(encoded *to, OrtOpAttrType type, const void *data, size_t bytes) {
    const char *text = data;
    if (type == ORT_OP_ATTR_INT || type == ORT_OP_ATTR_INTS) {
        for (size_t i = 0; i < bytes / sizeof(int64_t); i++)
            encode_number(to, type == ORT_OP_ATTR_INT ? ATTRIBUTE_INT : ATTRIBUTE_INTS,
                          (uint64_t)((const int64_t *)data)[i]);
    } else if (type == ORT_OP_ATTR_FLOAT || type == ORT_OP_ATTR_FLOATS) {
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            encode_float(to, type == ORT_OP_ATTR_FLOAT ? ATTRIBUTE_FLOAT : ATTRIBUTE_FLOATS,
                         ((const float *)data)[i]);
    } else if (type == ORT_OP_ATTR_STRING) {
        /* newer versions return it without the zero at its end */
        encode_packet(to, ATTRIBUTE_STRING, text, bytes && !text[bytes - 1] ? bytes - 1 : bytes);
    } else {
        for (size_t at = 0; at < bytes; at += strlen(text + at) + 1) /* each ends with a zero */
            encode_text(to, ATTRIBUTE_STRINGS, text + at);
    }
}

/* The tensor of an attribute; false if it cannot be written. */
static bool encode_tensor_attribute(reading *from, const OrtOpAttr *attribute, encoded *to) {
    OrtValue *value = NULL;
    OrtStatus *status = from->api->OpAttr_GetTensorAttributeAsOrtValue(attribute, &value);
    const bool fine = !status && value && tensor_encode(from->host, ATTRIBUTE_TENSOR, value, to);
    from->api->ReleaseStatus(status);
    from->api->ReleaseValue(value);
    return fine;
}

/* Types of attributes by ONNX Runtime's number: the number in files. */
static const uint8_t file_types[] = {
    [ORT_OP_ATTR_INT] = 2,    [ORT_OP_ATTR_INTS] = 7,    [ORT_OP_ATTR_FLOAT] = 1, [ORT_OP_ATTR_FLOATS] = 6,
    [ORT_OP_ATTR_STRING] = 3, [ORT_OP_ATTR_STRINGS] = 8, [ORT_OP_ATTR_TENSOR] = 4};

/* False if an attribute of this type cannot be written. */
static bool encode_attribute(reading *from, const OrtOpAttr *attribute, encoded *node) {
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    const char *name = NULL;
    encoded message = {.count = 0};
    OrtStatus *status = from->api->OpAttr_GetType(attribute, &type);
    const bool known = !status && (size_t)type < sizeof file_types && file_types[type];
    from->api->ReleaseStatus(status);
    if (!known || !keep(from, from->api->OpAttr_GetName(attribute, &name))) return false;
    bool fine = true;
    encode_text(&message, ATTRIBUTE_NAME, name);
    encode_number(&message, ATTRIBUTE_TYPE, file_types[type]);
    if (type == ORT_OP_ATTR_TENSOR) {
        fine = encode_tensor_attribute(from, attribute, &message);
    } else {
        size_t bytes = 0;
        void *data = read_attribute(from, attribute, type, &bytes);
        fine = data != NULL;
        if (data) encode_values(&message, type, data, bytes);
        free(data);
    }
    encode_message(node, NODE_ATTRIBUTE, &message);
    return fine;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static void encode_names(const graph *own, encoded *to, uint32_t field, const size_t *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        encode_text(to, field, values[i] == NONE ? "" : own->values[values[i]].name);
}

static void encode_node(reading *from, graph_node *own) {
    size_t count = 0, graphs = 0;
    if (!keep(from, from->api->Node_GetNumAttributes(own->node, &count)) ||
        !keep(from, from->api->Node_GetNumSubgraphs(own->node, &graphs)))
        return;
    const OrtOpAttr **attributes = room_for(from, count, sizeof *attributes);
    if (!attributes) return;
    own->is_encoded = graphs == 0;
    if (!count || keep(from, from->api->Node_GetAttributes(own->node, attributes, count))) {
        encode_names(from->own, &own->bytes, NODE_INPUT, own->inputs, own->input_count);
        encode_names(from->own, &own->bytes, NODE_OUTPUT, own->outputs, own->output_count);
        encode_text(&own->bytes, NODE_NAME, own->name);
        encode_text(&own->bytes, NODE_TYPE, own->type);
        encode_text(&own->bytes, NODE_DOMAIN, own->domain);
        for (size_t i = 0; own->is_encoded && i < count; i++)
            own->is_encoded = encode_attribute(from, attributes[i], &own->bytes);
    }
    free(attributes);
    if (own->bytes.failed) keep(from, provider_no_memory(from->host));
    if (!own->is_encoded) encode_release(&own->bytes);
}

static void read_node(reading *from, size_t number) {
    const OrtApi *api = from->api;
    graph_node *own = &from->own->nodes[number];
    if (!keep(from, api->Node_GetName(own->node, &own->name)) ||
        !keep(from, api->Node_GetOperatorType(own->node, &own->type)) ||
        !keep(from, api->Node_GetDomain(own->node, &own->domain)))
        return;
    own->inputs =
        read_values(from, own->node, api->Node_GetNumInputs, api->Node_GetInputs, &own->input_count);
    own->outputs =
        read_values(from, own->node, api->Node_GetNumOutputs, api->Node_GetOutputs, &own->output_count);
    own->implicit = read_values(from, own->node, api->Node_GetNumImplicitInputs, api->Node_GetImplicitInputs,
                                &own->implicit_count);
    for (size_t i = 0; i < own->output_count; i++)
        if (own->outputs[i] != NONE) from->own->values[own->outputs[i]].producer = number;
    if (!from->status) encode_node(from, own);
}

/* ---- the graph ----------------------------------------------------------------------------- */

static void read_operator_sets(reading *from, const OrtGraph *source) {
    size_t count = 0;
    if (!keep(from, from->api->Graph_GetNumOperatorSets(source, &count))) return;
    from->own->domains = room_for(from, count, sizeof *from->own->domains);
    from->own->versions = room_for(from, count, sizeof *from->own->versions);
    if (count && !from->status &&
        keep(from, from->api->Graph_GetOperatorSets(source, from->own->domains, from->own->versions, count)))
        from->own->domain_count = count;
}

static void read_nodes(reading *from, const OrtGraph *source) {
    size_t count = 0;
    if (!keep(from, from->api->Graph_GetNumNodes(source, &count))) return;
    const OrtNode **nodes = room_for(from, count, sizeof *nodes);
    from->own->nodes = room_for(from, count, sizeof *from->own->nodes);
    if (count && !from->status && keep(from, from->api->Graph_GetNodes(source, nodes, count)))
        from->own->node_count = count;
    for (size_t i = 0; i < from->own->node_count; i++)
        from->own->nodes[i].node = nodes[i];
    for (size_t i = 0; i < from->own->node_count && !from->status; i++)
        read_node(from, i);
    free(nodes);
}

static void read_outputs(reading *from, const OrtGraph *source) {
    size_t count = 0;
    if (from->status || !keep(from, from->api->Graph_GetNumOutputs(source, &count))) return;
    const OrtValueInfo **infos = room_for(from, count, sizeof *infos);
    from->own->outputs = room_for(from, count, sizeof *from->own->outputs);
    if (count && !from->status && keep(from, from->api->Graph_GetOutputs(source, infos, count)))
        from->own->output_count = count;
    for (size_t i = 0; i < from->own->output_count; i++) {
        from->own->outputs[i] = number_of(from, infos[i]);
        if (from->own->outputs[i] != NONE) from->own->values[from->own->outputs[i]].is_output = true;
    }
    free(infos);
}

OrtStatus *graph_read(const provider_host *host, const OrtGraph *source, graph *own) {
    *own = (graph){.value_count = 0};
    reading from = {.host = host, .api = host->api, .own = own};
    read_operator_sets(&from, source);
    read_nodes(&from, source);
    read_outputs(&from, source);
    if (from.status) graph_release(own);
    return from.status;
}
