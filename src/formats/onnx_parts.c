/* ONNX: writes messages without a table: tensors, attributes, types, values. */
#include <stdio.h>
#include <string.h>

#include "formats/onnx_private.h"

static void fail(kn_onnx_sink *out, const char *what, const char *name, const char *words) {
    if (out->status != KN_OK) return;
    out->status = kn_fail(out->error, KN_ERROR_ARGUMENT, "%s: %s \"%.200s\" %s", out->name, what,
                          name ? name : "", words);
}

/* ---- tensors ---------------------------------------------------------------------------- */

static void put_pair(kn_onnx_sink *out, uint32_t field, const char *key, const char *value) {
    kn_text_pair pair = {key, value};
    kn_onnx_put_message(out, field, &kn_onnx_pair_message, &pair);
}

/* Each tensor begins at a page boundary, so that it can be mapped separately. */
static void put_external(kn_onnx_sink *out, const kn_onnx_tensor *tensor) {
    static const uint8_t zeros[4096];
    char number[32];
    kn_onnx_put_data(out, zeros, (sizeof zeros - out->data_count % sizeof zeros) % sizeof zeros);
    put_pair(out, 13, "location", out->data_name);
    snprintf(number, sizeof number, "%llu", (unsigned long long)out->data_count);
    put_pair(out, 13, "offset", number);
    snprintf(number, sizeof number, "%llu", (unsigned long long)tensor->byte_count);
    put_pair(out, 13, "length", number);
    kn_onnx_put_data(out, tensor->bytes, tensor->byte_count);
    kn_onnx_put_number(out, 14, 1);
}

void kn_onnx_write_tensor(kn_onnx_sink *out, const void *object) {
    kn_onnx_tensor tensor = *(const kn_onnx_tensor *)object;
    if (!kn_onnx_tensor_measure(&tensor)) {
        fail(out, "tensor", tensor.name, "has an invalid type or shape");
        return;
    }
    if (tensor.count > 0 && !(tensor.type == KN_ONNX_STRING ? (const void *)tensor.strings : tensor.bytes)) {
        fail(out, "tensor", tensor.name, "has no elements");
        return;
    }
    for (size_t i = 0; i < tensor.rank; i++)
        kn_onnx_put_number(out, 1, tensor.shape[i]);
    kn_onnx_put_number(out, 2, tensor.type);
    if (tensor.type == KN_ONNX_STRING)
        for (uint64_t i = 0; i < tensor.count; i++)
            kn_onnx_put_bytes(out, 6, tensor.strings[i].bytes, tensor.strings[i].count);
    kn_onnx_put_text(out, 8, tensor.name);
    if (tensor.type != KN_ONNX_STRING && out->data_name && tensor.byte_count >= out->external_from)
        put_external(out, &tensor);
    else if (tensor.type != KN_ONNX_STRING)
        kn_onnx_put_bytes(out, 9, tensor.bytes, tensor.byte_count);
    kn_onnx_put_text(out, 12, tensor.doc);
    for (size_t i = 0; i < tensor.metadata_count; i++)
        kn_onnx_put_message(out, 16, &kn_onnx_pair_message, &tensor.metadata[i]);
}

void kn_onnx_write_sparse(kn_onnx_sink *out, const void *object) {
    const kn_onnx_sparse *sparse = object;
    kn_onnx_put_message(out, 1, &kn_onnx_tensor_message, &sparse->values);
    kn_onnx_put_message(out, 2, &kn_onnx_tensor_message, &sparse->indices);
    for (size_t i = 0; i < sparse->rank; i++)
        kn_onnx_put_number(out, 3, sparse->shape[i]);
}

/* ---- types ------------------------------------------------------------------------------- */

static void put_shape(kn_onnx_sink *out, const kn_onnx_value_type *type) {
    size_t shape = kn_onnx_begin(out, 2);
    for (size_t i = 0; i < type->rank; i++) {
        const kn_onnx_dimension *dimension = &type->shape[i];
        size_t begun = kn_onnx_begin(out, 1);
        if (dimension->known)
            kn_onnx_put_number(out, 1, dimension->length);
        else
            kn_onnx_put_text(out, 2, dimension->name);
        kn_onnx_put_text(out, 3, dimension->denotation);
        kn_onnx_end(out, begun);
    }
    kn_onnx_end(out, shape);
}

void kn_onnx_write_type(kn_onnx_sink *out, const void *object) {
    static const uint8_t fields[] = {0, 1, 8, 4, 9, 5, 7};
    const kn_onnx_value_type *type = object;
    if (type->kind != KN_ONNX_NO_KIND && (size_t)type->kind < KN_COUNT_OF(fields)) {
        bool tensor = type->kind == KN_ONNX_TENSOR || type->kind == KN_ONNX_SPARSE,
             map = type->kind == KN_ONNX_MAP;
        size_t begun = kn_onnx_begin(out, fields[type->kind]);
        if (tensor || map) kn_onnx_put_number(out, 1, type->type);
        if (tensor && type->has_shape) put_shape(out, type);
        if (type->inner) kn_onnx_put_message(out, map ? 2 : 1, &kn_onnx_type_message, type->inner);
        kn_onnx_end(out, begun);
    }
    kn_onnx_put_text(out, 6, type->denotation);
}

/* ---- attributes --------------------------------------------------------------------------- */

static void put_value(kn_onnx_sink *out, const kn_onnx_attribute *attribute, uint32_t field, size_t i) {
    switch (attribute->kind) {
    case KN_ONNX_ATTRIBUTE_NONE:
        break;
    case KN_ONNX_ATTRIBUTE_FLOAT:
    case KN_ONNX_ATTRIBUTE_FLOATS:
        kn_onnx_put_float(out, field, attribute->floats[i]);
        break;
    case KN_ONNX_ATTRIBUTE_INT:
    case KN_ONNX_ATTRIBUTE_INTS:
        kn_onnx_put_number(out, field, attribute->ints[i]);
        break;
    case KN_ONNX_ATTRIBUTE_STRING:
    case KN_ONNX_ATTRIBUTE_STRINGS:
        kn_onnx_put_bytes(out, field, attribute->strings[i].bytes, attribute->strings[i].count);
        break;
    case KN_ONNX_ATTRIBUTE_TENSOR:
    case KN_ONNX_ATTRIBUTE_TENSORS:
        kn_onnx_put_message(out, field, &kn_onnx_tensor_message, &attribute->tensors[i]);
        break;
    case KN_ONNX_ATTRIBUTE_GRAPH:
    case KN_ONNX_ATTRIBUTE_GRAPHS:
        kn_onnx_put_message(out, field, &kn_onnx_graph_message, &attribute->graphs[i]);
        break;
    case KN_ONNX_ATTRIBUTE_SPARSE:
    case KN_ONNX_ATTRIBUTE_SPARSES:
        kn_onnx_put_message(out, field, &kn_onnx_sparse_message, &attribute->sparses[i]);
        break;
    case KN_ONNX_ATTRIBUTE_TYPE:
    case KN_ONNX_ATTRIBUTE_TYPES:
        kn_onnx_put_message(out, field, &kn_onnx_type_message, &attribute->types[i]);
        break;
    }
}

void kn_onnx_write_attribute(kn_onnx_sink *out, const void *object) {
    const kn_onnx_attribute *attribute = object;
    uint32_t field = kn_onnx_attribute_field(attribute->kind);
    bool reference = attribute->reference && attribute->reference[0] != '\0';
    if (field == 0 && !reference) fail(out, "attribute", attribute->name, "has no kind");
    kn_onnx_put_text(out, 1, attribute->name);
    for (size_t i = 0; i < attribute->count && !reference && out->status == KN_OK; i++)
        put_value(out, attribute, field, i);
    kn_onnx_put_text(out, 13, attribute->doc);
    if (attribute->kind != KN_ONNX_ATTRIBUTE_NONE) kn_onnx_put_number(out, 20, attribute->kind);
    kn_onnx_put_text(out, 21, attribute->reference);
}

/* ---- single values -------------------------------------------------------------------------- */

void kn_onnx_write_value(kn_onnx_sink *out, const void *object) {
    static const uint8_t numbers[] = {0, 1, 2, 3, 5, 4}; /* in the order of kn_onnx_kind */
    const kn_onnx_value *value = object;
    uint32_t field = kn_onnx_item_field(value->item_kind);
    kn_onnx_put_text(out, 1, value->name);
    if ((size_t)value->item_kind < KN_COUNT_OF(numbers))
        kn_onnx_put_number(out, 2, numbers[value->item_kind]);
    for (size_t i = 0; i < value->count && out->status == KN_OK; i++) {
        const kn_onnx_value *item = &value->items[i];
        if (item->kind != value->item_kind) fail(out, "the value", value->name, "contains different kinds");
        if (item->kind == KN_ONNX_TENSOR)
            kn_onnx_put_message(out, field, &kn_onnx_tensor_message, item->tensor);
        else if (item->kind == KN_ONNX_SPARSE)
            kn_onnx_put_message(out, field, &kn_onnx_sparse_message, item->sparse);
        else
            kn_onnx_put_message(out, field, &kn_onnx_value_message, item);
    }
}

const kn_onnx_message kn_onnx_value_message = {
    .name = "value", .bytes = sizeof(kn_onnx_value), .write = kn_onnx_write_value};
