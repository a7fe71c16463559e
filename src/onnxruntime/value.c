/* Values: tensors in the program's memory or in new memory, tensors of strings, sequences and maps. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/onnxruntime.h"

/* ---- making and releasing ---------------------------------------------------------------- */

static OrtValue *value_new(ONNXType kind) {
    OrtValue *value = calloc(1, sizeof *value);
    if (!value) return NULL;
    atomic_init(&value->users, 1);
    value->kind = kind;
    value->memory = ort_host_memory;
    return value;
}

OrtValue *ort_value_hold(const OrtValue *value) {
    OrtValue *held = (OrtValue *)value;
    atomic_fetch_add(&held->users, 1);
    return held;
}

void ort_ReleaseValue(OrtValue *value) {
    if (!value || atomic_fetch_sub(&value->users, 1) > 1) return;
    for (size_t i = 0; value->strings && i < value->count; i++)
        free(value->strings[i]);
    for (size_t i = 0; value->items && i < value->count; i++)
        ort_ReleaseValue(value->items[i]);
    if (value->allocator && value->data) value->allocator->Free(value->allocator, value->data);
    free(value->strings);
    free(value->lengths);
    free(value->items);
    free(value->sizes);
    free(value);
}

/* A tensor without elements yet. */
static OrtStatus *tensor_shaped(const int64_t *sizes, size_t rank, ONNXTensorElementDataType type,
                                OrtValue **out) {
    size_t count;
    const size_t bits = ort_element_bits(type);
    if (!bits && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
        return ort_fail(ORT_NOT_IMPLEMENTED, "tensors of element type %d are not supported", (int)type);
    if (!ort_count_elements(sizes, rank, &count))
        return ort_fail(ORT_INVALID_ARGUMENT, "the shape of a tensor has a negative size, or is too large");
    OrtValue *value = value_new(ONNX_TYPE_TENSOR);
    if (value) value->sizes = calloc(rank + 1, sizeof *value->sizes);
    if (!value || !value->sizes) {
        ort_ReleaseValue(value);
        return ort_no_memory();
    }
    value->type = type;
    value->rank = rank;
    value->count = count;
    /* ort_count_elements leaves room for 16 bytes an element, but not for a number of bits. */
    value->bytes = bits < CHAR_BIT ? (count * bits + CHAR_BIT - 1) / CHAR_BIT : count * (bits / CHAR_BIT);
    if (rank) memcpy(value->sizes, sizes, rank * sizeof *sizes);
    *out = value;
    return NULL;
}

OrtStatus *ort_tensor_new(OrtAllocator *allocator, const int64_t *sizes, size_t rank,
                          ONNXTensorElementDataType type, OrtValue **out) {
    OrtValue *value = NULL;
    OrtStatus *status = tensor_shaped(sizes, rank, type, &value);
    if (status) return status;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
        value->strings = calloc(value->count + 1, sizeof *value->strings);
        value->lengths = calloc(value->count + 1, sizeof *value->lengths);
        for (size_t i = 0; value->strings && i < value->count; i++)
            if (!(value->strings[i] = ort_copy_text(""))) status = ort_no_memory();
        if (!value->strings || !value->lengths) status = ort_no_memory();
    } else if (value->bytes) {
        value->allocator = allocator;
        value->data = allocator->Alloc(allocator, value->bytes);
        if (!value->data) status = ort_no_memory();
    }
    if (status)
        ort_ReleaseValue(value);
    else
        *out = value;
    return status;
}

OrtStatus *ort_CreateTensorAsOrtValue(OrtAllocator *allocator, const int64_t *sizes, size_t rank,
                                      ONNXTensorElementDataType type, OrtValue **out) {
    ORT_NEED(allocator);
    ORT_NEED_FOR(rank, sizes);
    ORT_NEED(out);
    return ort_tensor_new(allocator, sizes, rank, type, out);
}

static OrtStatus *around(const OrtMemoryInfo *info, OrtAllocator *deleter, void *data, size_t bytes,
                         const int64_t *sizes, size_t rank, ONNXTensorElementDataType type, OrtValue **out) {
    OrtValue *value = NULL;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
        return ort_fail(ORT_INVALID_ARGUMENT, "a tensor of strings is made by CreateTensorAsOrtValue");
    OrtStatus *status = tensor_shaped(sizes, rank, type, &value);
    if (status) return status;
    if (bytes < value->bytes || (value->bytes && !data)) {
        status = ort_fail(ORT_INVALID_ARGUMENT,
                          "not enough space: expected %zu, got %zu bytes for a tensor of %zu elements",
                          value->bytes, data ? bytes : 0, value->count);
        ort_ReleaseValue(value);
        return status;
    }
    value->data = data;
    value->allocator = deleter;
    if (info) value->memory = *info;
    *out = value;
    return NULL;
}

OrtStatus *ort_CreateTensorWithDataAsOrtValue(const OrtMemoryInfo *info, void *data, size_t bytes,
                                              const int64_t *sizes, size_t rank,
                                              ONNXTensorElementDataType type, OrtValue **out) {
    ORT_NEED(info);
    ORT_NEED_FOR(rank, sizes);
    ORT_NEED(out);
    return around(info, NULL, data, bytes, sizes, rank, type, out);
}

OrtStatus *ort_CreateTensorWithDataAndDeleterAsOrtValue(OrtAllocator *deleter, void *data, size_t bytes,
                                                        const int64_t *sizes, size_t rank,
                                                        ONNXTensorElementDataType type, OrtValue **out) {
    ORT_NEED(deleter);
    ORT_NEED_FOR(rank, sizes);
    ORT_NEED(out);
    return around(deleter->Info(deleter), deleter, data, bytes, sizes, rank, type, out);
}

/* ---- what it is -------------------------------------------------------------------------- */

ORT_GETTER(IsTensor, const OrtValue, value, int, value->kind == ONNX_TYPE_TENSOR)
ORT_GETTER(IsSparseTensor, const OrtValue, value, int, 0)
ORT_GETTER(HasValue, const OrtValue, value, int, value->kind != ONNX_TYPE_UNKNOWN)
ORT_GETTER(GetValueType, const OrtValue, value, ONNXType, value->kind)

OrtStatus *ort_GetTypeInfo(const OrtValue *value, OrtTypeInfo **out) {
    ORT_NEED(value);
    ORT_NEED(out);
    *out = ort_type_info_new(value->kind, value->type, value->kind == ONNX_TYPE_TENSOR, value->rank,
                             value->sizes, NULL);
    if (*out && value->kind == ONNX_TYPE_MAP) (*out)->value = value->items[1]->type;
    return *out ? NULL : ort_no_memory();
}

/* From here on, a value must be a tensor. */
#define TENSOR(value)                                                                                        \
    do {                                                                                                     \
        ORT_NEED(value);                                                                                     \
        if ((value)->kind != ONNX_TYPE_TENSOR)                                                               \
            return ort_fail(ORT_INVALID_ARGUMENT, "%s: the value is not a tensor", ort_function(__func__));  \
    } while (0)

OrtStatus *ort_GetTensorTypeAndShape(const OrtValue *value, OrtTensorTypeAndShapeInfo **out) {
    TENSOR(value);
    ORT_NEED(out);
    OrtStatus *status = ort_CreateTensorTypeAndShapeInfo(out);
    if (status) return status;
    (*out)->type = value->type;
    if ((status = ort_SetDimensions(*out, value->sizes, value->rank)) != NULL) {
        ort_ReleaseTensorTypeAndShapeInfo(*out);
        *out = NULL;
    }
    return status;
}

OrtStatus *ort_GetTensorElementTypeAndShapeDataReference(const OrtValue *value,
                                                         ONNXTensorElementDataType *type,
                                                         const int64_t **sizes, size_t *rank) {
    TENSOR(value);
    ORT_NEED(type);
    ORT_NEED(sizes);
    ORT_NEED(rank);
    *type = value->type;
    *sizes = value->rank ? value->sizes : NULL;
    *rank = value->rank;
    return NULL;
}

OrtStatus *ort_GetTensorMemoryInfo(const OrtValue *value, const OrtMemoryInfo **out) {
    TENSOR(value);
    ORT_NEED(out);
    *out = &value->memory;
    return NULL;
}

/* ---- elements ---------------------------------------------------------------------------- */

static OrtStatus *need_numbers(const OrtValue *value) {
    return value->strings ? ort_fail(ORT_NOT_IMPLEMENTED,
                                     "the elements of a tensor of strings have functions of their own")
                          : NULL;
}

OrtStatus *ort_GetTensorMutableData(OrtValue *value, void **out) {
    TENSOR(value);
    ORT_NEED(out);
    *out = value->data;
    return need_numbers(value);
}

OrtStatus *ort_GetTensorData(const OrtValue *value, const void **out) {
    TENSOR(value);
    ORT_NEED(out);
    *out = value->data;
    return need_numbers(value);
}

OrtStatus *ort_GetTensorSizeInBytes(const OrtValue *value, size_t *out) {
    TENSOR(value);
    ORT_NEED(out);
    *out = value->bytes;
    return need_numbers(value);
}

OrtStatus *ort_TensorAt(OrtValue *value, const int64_t *place, size_t rank, void **out) {
    TENSOR(value);
    ORT_NEED_FOR(rank, place);
    ORT_NEED(out);
    if (rank != value->rank)
        return ort_fail(ORT_INVALID_ARGUMENT, "location dimensions do not match shape size");
    size_t at = 0;
    for (size_t i = 0; i < rank; i++) {
        if (place[i] < 0 || place[i] >= value->sizes[i])
            return ort_fail(ORT_INVALID_ARGUMENT, "invalid location range");
        at = at * (size_t)value->sizes[i] + (size_t)place[i];
    }
    const size_t bits = ort_element_bits(value->type);
    if (bits % CHAR_BIT) return ort_fail(ORT_NOT_IMPLEMENTED, "TensorAt: elements of less than a byte");
    *out = (char *)value->data + at * (bits / CHAR_BIT);
    return need_numbers(value);
}

/* ---- strings ----------------------------------------------------------------------------- */

#define STRINGS(value)                                                                                       \
    do {                                                                                                     \
        TENSOR(value);                                                                                       \
        if (!(value)->strings)                                                                               \
            return ort_fail(ORT_INVALID_ARGUMENT, "%s: the tensor is not one of strings",                    \
                            ort_function(__func__));                                                         \
    } while (0)
#define STRING(value, index)                                                                                 \
    do {                                                                                                     \
        STRINGS(value);                                                                                      \
        if ((index) >= (value)->count)                                                                       \
            return ort_fail(ORT_INVALID_ARGUMENT, "element index is out of bounds: %zu of %zu", index,       \
                            (value)->count);                                                                 \
    } while (0)

/* Makes an element `length` zero bytes. */
static OrtStatus *resize_text(OrtValue *value, size_t index, size_t length) {
    char *room = length < SIZE_MAX ? calloc(length + 1, 1) : NULL;
    if (!room) return ort_no_memory();
    free(value->strings[index]);
    value->strings[index] = room;
    value->lengths[index] = length;
    return NULL;
}

/* The text may contain zero bytes. */
static OrtStatus *put_text(OrtValue *value, size_t index, const char *text, size_t length) {
    OrtStatus *status = resize_text(value, index, length);
    if (!status) memcpy(value->strings[index], text, length);
    return status;
}

OrtStatus *ort_FillStringTensorElement(OrtValue *value, const char *text, size_t index) {
    STRING(value, index);
    ORT_NEED(text);
    return put_text(value, index, text, strlen(text));
}

OrtStatus *ort_FillStringTensor(OrtValue *value, const char *const *texts, size_t count) {
    STRINGS(value);
    ORT_NEED_FOR(count, texts);
    if (count != value->count)
        return ort_fail(ORT_INVALID_ARGUMENT, "input array doesn't equal tensor size: %zu strings for %zu",
                        count, value->count);
    for (size_t i = 0; i < count; i++) {
        OrtStatus *status = ort_FillStringTensorElement(value, texts[i], i);
        if (status) return status;
    }
    return NULL;
}

OrtStatus *ort_GetResizedStringTensorElementBuffer(OrtValue *value, size_t index, size_t length,
                                                   char **buffer) {
    STRING(value, index);
    ORT_NEED(buffer);
    OrtStatus *status = resize_text(value, index, length);
    if (!status) *buffer = value->strings[index];
    return status;
}

OrtStatus *ort_GetStringTensorElementLength(const OrtValue *value, size_t index, size_t *out) {
    STRING(value, index);
    ORT_NEED(out);
    *out = value->lengths[index];
    return NULL;
}

OrtStatus *ort_GetStringTensorElement(const OrtValue *value, size_t room, size_t index, void *text) {
    STRING(value, index);
    ORT_NEED_FOR(room, text);
    const size_t length = value->lengths[index];
    if (room < length) return ort_fail(ORT_FAIL, "buffer size is too small for string element");
    if (length) memcpy(text, value->strings[index], length);
    return NULL;
}

OrtStatus *ort_GetStringTensorDataLength(const OrtValue *value, size_t *out) {
    STRINGS(value);
    ORT_NEED(out);
    *out = 0;
    for (size_t i = 0; i < value->count; i++)
        *out += value->lengths[i];
    return NULL;
}

/* One after the other without terminators, with the offset of each. */
OrtStatus *ort_GetStringTensorContent(const OrtValue *value, void *text, size_t room, size_t *offsets,
                                      size_t count) {
    STRINGS(value);
    ORT_NEED_FOR(room, text);
    ORT_NEED_FOR(count, offsets);
    if (count != value->count)
        return ort_fail(ORT_FAIL, "offsets buffer is not equal to tensor size: %zu for %zu", count,
                        value->count);
    size_t at = 0;
    ort_GetStringTensorDataLength(value, &at);
    if (room < at) return ort_fail(ORT_FAIL, "output buffer is too small: %zu bytes of %zu", room, at);
    at = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t length = value->lengths[i];
        offsets[i] = at;
        if (length) memcpy((char *)text + at, value->strings[i], length);
        at += length;
    }
    return NULL;
}

/* ---- sequences and maps ------------------------------------------------------------------ */

/* Whether the values can be the items: of a sequence, tensors or maps of one kind; of a map, keys and values.
 */
static const char *wrong_items(const OrtValue *const *items, size_t count, ONNXType kind) {
    if (kind == ONNX_TYPE_MAP && count != 2) return "For map type num_values MUST be 2";
    for (size_t i = 0; i < count; i++) {
        if (!items[i]) return "an item is NULL";
        if (kind == ONNX_TYPE_MAP && items[i]->kind != ONNX_TYPE_TENSOR)
            return "a map's keys and values are tensors";
        if (items[i]->kind != items[0]->kind) return "the items of a sequence are of one type";
        if (kind == ONNX_TYPE_SEQUENCE && items[i]->type != items[0]->type)
            return "the items of a sequence are of one element type";
    }
    if (kind == ONNX_TYPE_MAP && items[0]->count != items[1]->count)
        return "a map has as many keys as values";
    return NULL;
}

OrtValue *ort_list_new(ONNXType kind, ONNXTensorElementDataType type, OrtValue *const *items, size_t count) {
    OrtValue *value = value_new(kind);
    if (value) value->items = calloc(count + 1, sizeof(OrtValue *));
    if (!value || !value->items) {
        ort_ReleaseValue(value);
        return NULL;
    }
    value->count = count;
    value->type = type;
    for (size_t i = 0; i < count; i++)
        value->items[i] = ort_value_hold(items[i]);
    return value;
}

OrtStatus *ort_CreateValue(const OrtValue *const *items, size_t count, ONNXType kind, OrtValue **out) {
    ORT_NEED(items);
    ORT_NEED(out);
    if (count == 0) return ort_fail(ORT_FAIL, "Number of values should be at least 1.");
    if (kind != ONNX_TYPE_SEQUENCE && kind != ONNX_TYPE_MAP)
        return ort_fail(ORT_NOT_IMPLEMENTED, "CreateValue makes sequences and maps");
    const char *wrong = wrong_items(items, count, kind);
    if (wrong) return ort_fail(ORT_INVALID_ARGUMENT, "%s", wrong);
    OrtValue *value = ort_list_new(kind, items[0]->type, (OrtValue *const *)items, count);
    if (!value) return ort_no_memory();
    *out = value;
    return NULL;
}

OrtStatus *ort_GetValueCount(const OrtValue *value, size_t *out) {
    ORT_NEED(value);
    ORT_NEED(out);
    if (!value->items) return ort_fail(ORT_FAIL, "the value is neither a sequence nor a map");
    *out = value->count;
    return NULL;
}

/* Copies a tensor, and gives one more holder of a map. */
OrtStatus *ort_GetValue(const OrtValue *value, int index, OrtAllocator *allocator, OrtValue **out) {
    ORT_NEED(value);
    ORT_NEED(allocator);
    ORT_NEED(out);
    if (!value->items) return ort_fail(ORT_FAIL, "the value is neither a sequence nor a map");
    if (index < 0 || (size_t)index >= value->count)
        return ort_fail(ORT_FAIL, "invalid index requested: %d of %zu", index, value->count);
    const OrtValue *item = value->items[index];
    if (item->kind != ONNX_TYPE_TENSOR) {
        *out = ort_value_hold(item);
        return NULL;
    }
    OrtValue *copy = NULL;
    OrtStatus *status = ort_tensor_new(allocator, item->sizes, item->rank, item->type, &copy);
    if (status) return status;
    for (size_t i = 0; !status && item->strings && i < item->count; i++)
        status = put_text(copy, i, item->strings[i], item->lengths[i]);
    if (item->bytes) memcpy(copy->data, item->data, item->bytes);
    if (status)
        ort_ReleaseValue(copy);
    else
        *out = copy;
    return status;
}
