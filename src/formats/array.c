/* Arrays: types, sizes, and elements as numbers. */
#include "formats/formats_private.h"

#include <stdio.h>
#include <string.h>

size_t kn_array_type_bytes(kn_dtype type) {
    switch (type) {
#define TYPE_BYTES(name, number, text, bytes)                                                                \
    case name:                                                                                               \
        return bytes;
        KN_DTYPE_LIST(TYPE_BYTES)
#undef TYPE_BYTES
    }
    return 0;
}

const char *kn_array_type_name(kn_dtype type) {
    switch (type) {
#define TYPE_NAME(name, number, text, bytes)                                                                 \
    case name:                                                                                               \
        return text;
        KN_DTYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
    }
    return "unknown";
}

bool kn_array_measure(kn_array *array) {
    uint64_t size = kn_array_type_bytes(array->type);
    if (size == 0 || array->rank < 0 || array->rank > KN_MAX_RANK) return false;
    /* Zeros are skipped in the product, so that overflow is detected whatever the order of the dimensions. */
    uint64_t product = size;
    bool empty = false;
    for (int i = 0; i < array->rank; i++) {
        if (array->shape[i] < 0) return false;
        uint64_t length = (uint64_t)array->shape[i];
        if (length == 0) {
            empty = true;
        } else {
            if (product > (uint64_t)PTRDIFF_MAX / length) return false;
            product *= length;
        }
    }
    array->byte_count = empty ? 0 : product;
    array->count = empty ? 0 : product / size;
    return true;
}

void kn_array_finish(const kn_host *host, kn_array *array) {
    if (!array) return;
    kn_release(host, array->owned);
    *array = (kn_array){.type = KN_FLOAT32};
}

void kn_array_file_close(const kn_host *host, kn_array_file *file) {
    if (!file) return;
    kn_array_finish(host, &file->array);
    kn_file_close_view(host, &file->view);
}

const char *kn_array_shape_text(const kn_array *array, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < array->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)array->shape[i]);
    if (used < size) snprintf(text + used, size - used, array->rank == 1 ? ",)" : ")");
    return text;
}

kn_status kn_array_view(kn_array *array, const char *name, const uint8_t *bytes, uint64_t count,
                        uint64_t begin, kn_error *error) {
    char shape[200];
    if (count - begin != array->byte_count)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: shape %s of %s needs %llu bytes after byte %llu, found %llu", name,
                       kn_array_shape_text(array, shape, sizeof shape), kn_array_type_name(array->type),
                       (unsigned long long)array->byte_count, (unsigned long long)begin,
                       (unsigned long long)(count - begin));
    array->bytes = bytes + begin;
    return KN_OK;
}

const char *kn_quote(const void *bytes, size_t count, char text[KN_QUOTE_BYTES]) {
    const uint8_t *from = bytes;
    if (count == 0) return "nothing";
    size_t used = 0;
    text[used++] = '"';
    for (size_t i = 0; i < count && i < 16; i++) {
        if (from[i] >= 0x20 && from[i] < 0x7f)
            text[used++] = (char)from[i];
        else
            used += (size_t)snprintf(text + used, KN_QUOTE_BYTES - used, "\\x%02x", (unsigned)from[i]);
    }
    text[used++] = '"';
    text[used] = '\0';
    return text;
}

bool kn_little_endian(void) {
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

void kn_swap_bytes(void *to, const void *from, uint64_t count, size_t size) {
    const uint8_t *source = from;
    uint8_t *target = to;
    for (uint64_t i = 0; i < count; i++, source += size, target += size) {
        uint8_t element[8];
        for (size_t j = 0; j < size; j++)
            element[j] = source[size - 1 - j];
        memcpy(target, element, size);
    }
}

void *kn_array_take_copy(const kn_host *host, kn_array *array, kn_error *error) {
    size_t bytes = array->byte_count > 0 ? (size_t)array->byte_count : 1;
    void *copy = kn_resize(host, NULL, bytes, 1);
    if (!copy) {
        kn_fail_memory(error, bytes);
        return NULL;
    }
    if (array->byte_count > 0) memcpy(copy, array->bytes, (size_t)array->byte_count);
    array->owned = copy;
    array->bytes = copy;
    return copy;
}

double kn_array_number(const kn_array *array, uint64_t index) {
    const uint8_t *at = (const uint8_t *)array->bytes + index * kn_array_type_bytes(array->type);
#define LOAD(type, variable)                                                                                 \
    type variable;                                                                                           \
    memcpy(&variable, at, sizeof variable)
    switch (array->type) {
    case KN_FLOAT32: {
        LOAD(float, value);
        return value;
    }
    case KN_FLOAT64: {
        LOAD(double, value);
        return value;
    }
    case KN_FLOAT16: {
        LOAD(uint16_t, value);
        return kn_float_from_half(value);
    }
    case KN_BFLOAT16: {
        LOAD(uint16_t, value);
        return kn_float_from_bfloat(value);
    }
    case KN_INT8:
        return (int8_t)*at;
    case KN_INT16: {
        LOAD(int16_t, value);
        return value;
    }
    case KN_INT32: {
        LOAD(int32_t, value);
        return value;
    }
    case KN_INT64: {
        LOAD(int64_t, value);
        return (double)value;
    }
    case KN_UINT8:
        return *at;
    case KN_UINT16: {
        LOAD(uint16_t, value);
        return value;
    }
    case KN_UINT32: {
        LOAD(uint32_t, value);
        return value;
    }
    case KN_UINT64: {
        LOAD(uint64_t, value);
        return (double)value;
    }
    case KN_BOOL:
        return *at != 0;
    case KN_SMALL_FLOATS:
        return kn_small_float_number(kn_small_float_of(array->type), *at);
    }
#undef LOAD
    return 0;
}
