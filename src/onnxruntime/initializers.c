/* Initializers that the program gives in place of those of the model: the model is written again, with their
 * elements, before it is opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/encode.h"
#include "onnxruntime/fields.h"
#include "onnxruntime/onnxruntime.h"

/* ---- options ----------------------------------------------------------------------------- */

void ort_initializers_clear(ort_initializers *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->rows[i].name);
        ort_ReleaseValue(list->rows[i].value);
    }
    free(list->rows);
    *list = (ort_initializers){.count = 0};
}

static OrtStatus *add(ort_initializers *list, const char *name, const ort_initializer *row) {
    ort_initializer *rows = realloc(list->rows, (list->count + 1) * sizeof *rows);
    if (!rows) return ort_no_memory();
    list->rows = rows;
    rows[list->count] = *row;
    rows[list->count].name = ort_copy_text(name);
    if (!rows[list->count].name) return ort_no_memory();
    if (row->value) ort_value_hold(row->value);
    list->count++;
    return NULL;
}

bool ort_initializers_copy(const ort_initializers *list, ort_initializers *copy) {
    OrtStatus *status = NULL;
    for (size_t i = 0; !status && i < list->count; i++)
        status = add(copy, list->rows[i].name, &list->rows[i]);
    return !status;
}

static const ort_initializer *find(const ort_initializers *list, const char *name, size_t length, bool file) {
    for (size_t i = 0; i < list->count; i++) {
        const ort_initializer *row = &list->rows[i];
        if (!row->value == file && strlen(row->name) == length && !memcmp(row->name, name, length))
            return row;
    }
    return NULL;
}

static OrtStatus *add_value(OrtSessionOptions *options, const char *name, const OrtValue *value,
                            bool external) {
    ORT_NEED(name);
    ORT_NEED(value);
    if (value->kind != ONNX_TYPE_TENSOR || value->strings)
        return ort_fail(ORT_INVALID_ARGUMENT, "the initializer '%s' is not a tensor of numbers", name);
    if (find(&options->initializers, name, strlen(name), false))
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "An OrtValue for this name has already been added. Duplicate initializer name: %s",
                        name);
    return add(&options->initializers, name,
               &(ort_initializer){.value = (OrtValue *)value, .external = external});
}

OrtStatus *ort_AddInitializer(OrtSessionOptions *options, const char *name, const OrtValue *value) {
    ORT_NEED(options);
    return add_value(options, name, value, false);
}

OrtStatus *ort_AddExternalInitializers(OrtSessionOptions *options, const char *const *names,
                                       const OrtValue *const *values, size_t count) {
    ORT_NEED(options);
    ORT_NEED(names);
    ORT_NEED(values);
    OrtStatus *status = NULL;
    for (size_t i = 0; !status && i < count; i++)
        status = add_value(options, names[i], values[i], true);
    return status;
}

OrtStatus *ort_AddExternalInitializersFromFilesInMemory(OrtSessionOptions *options, const char *const *names,
                                                        char *const *buffers, const size_t *lengths,
                                                        size_t count) {
    ORT_NEED(options);
    ORT_NEED(names);
    ORT_NEED(buffers);
    ORT_NEED(lengths);
    for (size_t i = 0; i < count; i++) {
        ORT_NEED(names[i]);
        ORT_NEED(buffers[i]);
        if (find(&options->initializers, names[i], strlen(names[i]), true))
            return ort_fail(ORT_INVALID_ARGUMENT, "the file '%s' has already been added", names[i]);
        OrtStatus *status = add(&options->initializers, names[i],
                                &(ort_initializer){.buffer = buffers[i], .length = lengths[i]});
        if (status) return status;
    }
    return NULL;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* A field of a message: a number, or bytes. `start` and `end` include its tag. */
typedef struct field {
    uint64_t number, value;
    const uint8_t *bytes, *start, *end;
    size_t count;
    bool packet;
} field;

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

/* Reads the next field; false at the end, and where the message is damaged, where *at stays before the end.
 */
static bool next(const uint8_t **at, const uint8_t *end, field *own) {
    const uint8_t *place = *at;
    uint64_t tag;
    *own = (field){.start = place};
    if (place == end || !read_varint(&place, end, &tag)) return false;
    const unsigned wire = tag & 7;
    own->number = tag >> 3;
    own->packet = wire == 2;
    if ((wire == 0 || wire == 2) && !read_varint(&place, end, &own->value)) return false;
    if (wire == 3 || wire == 4 || wire > 5) return false;
    const uint64_t length = wire == 0 ? 0 : wire == 1 ? 8 : wire == 2 ? own->value : 4;
    if (length > (uint64_t)(end - place)) return false;
    own->bytes = place;
    own->count = (size_t)length;
    own->end = *at = place + length;
    return true;
}

enum { MAX_DIMENSIONS = 64 };

/* What is needed of a tensor of the model. Texts are not terminated. */
typedef struct tensor_facts {
    const char *name, *file;
    size_t name_length, file_length, rank;
    int64_t sizes[MAX_DIMENSIONS];
    uint64_t type, offset, length; /* length: of the elements in the file; 0: not known */
    bool external;
} tensor_facts;

/* An entry of the place of external elements. */
static void read_place(const field *entry, tensor_facts *tensor) {
    const uint8_t *at = entry->bytes;
    field own, key = {.count = 0}, value = {.count = 0};
    char number[24];
    while (next(&at, entry->end, &own)) {
        if (own.number == PAIR_KEY) key = own;
        if (own.number == PAIR_VALUE) value = own;
    }
    snprintf(number, sizeof number, "%.*s", (int)(value.count < 23 ? value.count : 23),
             value.count ? (const char *)value.bytes : "");
#define IS(text) (key.count == strlen(text) && !memcmp(key.bytes, text, key.count))
    if (IS("location")) {
        tensor->file = (const char *)value.bytes;
        tensor->file_length = value.count;
    } else if (IS("offset")) {
        tensor->offset = strtoull(number, NULL, 10);
    } else if (IS("length")) {
        tensor->length = strtoull(number, NULL, 10);
    }
#undef IS
}

/* False if it is damaged, which opening the model will report. */
static bool read_tensor(const field *message, tensor_facts *tensor) {
    const uint8_t *at = message->bytes;
    field own;
    *tensor = (tensor_facts){.rank = 0};
    while (next(&at, message->end, &own)) {
        const uint8_t *list = own.bytes;
        if (own.number == TENSOR_NAME) {
            tensor->name = (const char *)own.bytes;
            tensor->name_length = own.count;
        } else if (own.number == TENSOR_TYPE) {
            tensor->type = own.value;
        } else if (own.number == TENSOR_DIMENSION) {
            uint64_t size = own.value;
            while (tensor->rank < MAX_DIMENSIONS && (!own.packet || read_varint(&list, own.end, &size))) {
                tensor->sizes[tensor->rank++] = (int64_t)size;
                if (!own.packet) break;
            }
        } else if (own.number == TENSOR_PLACE) {
            tensor->external = true;
            read_place(&own, tensor);
        }
    }
    return at == message->end;
}

/* ---- writing ----------------------------------------------------------------------------- */

static void put_tensor(encoded *graph, const tensor_facts *tensor, const void *data, size_t bytes) {
    encoded head = {.count = 0};
    for (size_t i = 0; i < tensor->rank; i++)
        encode_number(&head, TENSOR_DIMENSION, (uint64_t)tensor->sizes[i]);
    encode_number(&head, TENSOR_TYPE, tensor->type);
    encode_packet(&head, TENSOR_NAME, tensor->name, tensor->name_length);
    encode_head(&head, TENSOR_BYTES, bytes);
    graph->failed |= head.failed;
    encode_head(graph, GRAPH_INITIALIZER, head.count + bytes);
    encode_bytes(graph, head.bytes, head.count);
    encode_bytes(graph, data, bytes);
    encode_release(&head);
}

static OrtStatus *replace_by_value(encoded *graph, const tensor_facts *tensor, const ort_initializer *row) {
    const OrtValue *value = row->value;
    if (row->external && !tensor->external)
        return ort_fail(ORT_FAIL, "Trying to replace non-external initializer with external data: %s",
                        row->name);
    if (tensor->type != (uint64_t)value->type)
        return ort_fail(ORT_FAIL, "Replacement tensor's data type does not match: %s", row->name);
    if (tensor->rank != value->rank ||
        (value->rank && memcmp(tensor->sizes, value->sizes, value->rank * sizeof *value->sizes)))
        return ort_fail(ORT_FAIL, "Replacement tensor's dimensions do not match: %s", row->name);
    put_tensor(graph, tensor, value->data, value->bytes);
    return NULL;
}

static OrtStatus *replace_by_file(encoded *graph, const tensor_facts *tensor, const ort_initializer *row) {
    size_t count = 0;
    const size_t bits = ort_element_bits((ONNXTensorElementDataType)tensor->type);
    if (!bits || !ort_count_elements(tensor->sizes, tensor->rank, &count))
        return ort_fail(ORT_FAIL, "External initializer: %.*s has an unknown type or shape",
                        (int)tensor->name_length, tensor->name);
    const size_t bytes = bits < 8 ? (count * bits + 7) / 8 : count * (bits / 8);
    if ((tensor->length && tensor->length != bytes) || tensor->offset > row->length ||
        bytes > row->length - tensor->offset)
        return ort_fail(
            ORT_FAIL,
            "External initializer: %.*s offset: %llu size to read: %zu given file_length: %zu are out "
            "of bounds or can not be read in full.",
            (int)tensor->name_length, tensor->name, (unsigned long long)tensor->offset, bytes, row->length);
    put_tensor(graph, tensor, row->buffer + tensor->offset, bytes);
    return NULL;
}

/* used: by row, whether it replaced one. */
static OrtStatus *write_initializer(encoded *graph, const field *message, const ort_initializers *list,
                                    bool *used) {
    tensor_facts tensor;
    bool files = false;
    if (read_tensor(message, &tensor)) {
        const ort_initializer *row = find(list, tensor.name, tensor.name_length, false);
        if (row) {
            used[row - list->rows] = true;
            return replace_by_value(graph, &tensor, row);
        }
        for (size_t i = 0; i < list->count; i++)
            files |= !list->rows[i].value;
        row = tensor.external ? find(list, tensor.file, tensor.file_length, true) : NULL;
        if (row) return replace_by_file(graph, &tensor, row);
        if (files && tensor.external)
            return ort_fail(ORT_FAIL, "External file: %.*s not found from the table user provided.",
                            (int)tensor.file_length, tensor.file ? tensor.file : "");
    }
    encode_bytes(graph, message->start, (size_t)(message->end - message->start));
    return NULL;
}

OrtStatus *ort_replace_initializers(const ort_initializers *list, const void *bytes, size_t count, void **out,
                                    size_t *out_count) {
    encoded model = {.count = 0};
    const uint8_t *at = bytes, *const end = at + count;
    OrtStatus *status = NULL;
    field own, inner;
    bool *used = calloc(list->count + 1, sizeof *used);
    if (!used) return ort_no_memory();
    while (!status && next(&at, end, &own)) {
        if (own.number != MODEL_GRAPH || !own.packet) {
            encode_bytes(&model, own.start, (size_t)(own.end - own.start));
            continue;
        }
        encoded graph = {.count = 0};
        const uint8_t *place = own.bytes;
        while (!status && next(&place, own.end, &inner)) {
            if (inner.number == GRAPH_INITIALIZER && inner.packet)
                status = write_initializer(&graph, &inner, list, used);
            else
                encode_bytes(&graph, inner.start, (size_t)(inner.end - inner.start));
        }
        encode_bytes(&graph, place, (size_t)(own.end - place));
        encode_message(&model, MODEL_GRAPH, &graph);
    }
    encode_bytes(&model, at, (size_t)(end - at));
    for (size_t i = 0; !status && i < list->count; i++)
        if (list->rows[i].external && !used[i])
            status =
                ort_fail(ORT_FAIL, "Failed to find existing initializer with name %s.", list->rows[i].name);
    free(used);
    if (!status && model.failed) status = ort_no_memory();
    if (status) {
        encode_release(&model);
        return status;
    }
    *out = model.bytes;
    *out_count = model.count;
    return NULL;
}
