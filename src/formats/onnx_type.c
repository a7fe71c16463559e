/* ONNX: element types, and elements as numbers. */
#include <math.h>
#include <string.h>

#include "formats/formats_private.h"

const char *kn_onnx_type_name(kn_onnx_type type) {
    switch (type) {
#define TYPE_NAME(name, number, text, bits)                                                                  \
    case name:                                                                                               \
        return text;
        KN_ONNX_TYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
    case KN_ONNX_UNDEFINED:
        return "undefined";
    }
    return "unknown";
}

int kn_onnx_type_bits(kn_onnx_type type) {
    switch (type) {
#define TYPE_BITS(name, number, text, bits)                                                                  \
    case name:                                                                                               \
        return bits;
        KN_ONNX_TYPE_LIST(TYPE_BITS)
#undef TYPE_BITS
    case KN_ONNX_UNDEFINED:
        break;
    }
    return 0;
}

static const struct {
    kn_onnx_type type;
    kn_dtype dtype;
} pairs[] = {
    {KN_ONNX_FLOAT32, KN_FLOAT32},
    {KN_ONNX_FLOAT64, KN_FLOAT64},
    {KN_ONNX_FLOAT16, KN_FLOAT16},
    {KN_ONNX_BFLOAT16, KN_BFLOAT16},
    {KN_ONNX_INT8, KN_INT8},
    {KN_ONNX_INT16, KN_INT16},
    {KN_ONNX_INT32, KN_INT32},
    {KN_ONNX_INT64, KN_INT64},
    {KN_ONNX_UINT8, KN_UINT8},
    {KN_ONNX_UINT16, KN_UINT16},
    {KN_ONNX_UINT32, KN_UINT32},
    {KN_ONNX_UINT64, KN_UINT64},
    {KN_ONNX_BOOL, KN_BOOL},
    {KN_ONNX_FLOAT8E4M3FN, KN_FLOAT8E4M3FN},
    {KN_ONNX_FLOAT8E4M3FNUZ, KN_FLOAT8E4M3FNUZ},
    {KN_ONNX_FLOAT8E5M2, KN_FLOAT8E5M2},
    {KN_ONNX_FLOAT8E5M2FNUZ, KN_FLOAT8E5M2FNUZ},
    {KN_ONNX_FLOAT8E8M0, KN_FLOAT8E8M0},
    {KN_ONNX_FLOAT4E2M1, KN_FLOAT4E2M1}, /* two elements per byte in files, one per byte here */
    /* Elements smaller than a byte take a byte each; never used in the reverse direction. */
    {KN_ONNX_INT4, KN_INT8},
    {KN_ONNX_UINT4, KN_UINT8},
    {KN_ONNX_INT2, KN_INT8},
    {KN_ONNX_UINT2, KN_UINT8},
};

bool kn_onnx_type_to(kn_onnx_type type, kn_dtype *dtype) {
    for (size_t i = 0; i < KN_COUNT_OF(pairs); i++)
        if (pairs[i].type == type) {
            *dtype = pairs[i].dtype;
            return true;
        }
    return false;
}

kn_onnx_type kn_onnx_type_from(kn_dtype dtype) {
    for (size_t i = 0; i < KN_COUNT_OF(pairs); i++)
        if (pairs[i].dtype == dtype) return pairs[i].type;
    return KN_ONNX_UNDEFINED;
}

const char *kn_onnx_kind_name(kn_onnx_kind kind) {
    static const char *const names[] = {"unspecified", "a tensor", "a sparse tensor", "a sequence",
                                        "an optional", "a map",    "an opaque value"};
    return (size_t)kind < KN_COUNT_OF(names) ? names[kind] : "an unknown kind";
}

const char *kn_onnx_attribute_kind_name(kn_onnx_attribute_kind kind) {
    static const char *const names[] = {"unspecified",
                                        "a number",
                                        "an integer",
                                        "a string",
                                        "a tensor",
                                        "a graph",
                                        "a list of numbers",
                                        "a list of integers",
                                        "a list of strings",
                                        "a list of tensors",
                                        "a list of graphs",
                                        "a sparse tensor",
                                        "a list of sparse tensors",
                                        "a type",
                                        "a list of types"};
    return (size_t)kind < KN_COUNT_OF(names) ? names[kind] : "an unknown kind";
}

bool kn_onnx_tensor_measure(kn_onnx_tensor *tensor) {
    uint64_t bits = (uint64_t)kn_onnx_type_bits(tensor->type);
    if (bits == 0 && tensor->type != KN_ONNX_STRING) return false;
    /* Zeros are skipped in the product, so that overflow is detected whatever the order of the dimensions. */
    uint64_t product = 1;
    const uint64_t most = (uint64_t)PTRDIFF_MAX / (bits > 0 ? bits : 8 * sizeof(kn_onnx_string));
    bool empty = false;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0) return false;
        uint64_t length = (uint64_t)tensor->shape[i];
        if (length == 0) {
            empty = true;
        } else {
            if (product > most / length) return false;
            product *= length;
        }
    }
    tensor->count = empty ? 0 : product;
    tensor->byte_count = (tensor->count * bits + 7) / 8;
    return true;
}

/* The bits of an element, which may span two bytes; at most 16 bits. */
static uint32_t bits_at(const kn_onnx_tensor *tensor, uint64_t index, int bits) {
    uint64_t first = index * (uint64_t)bits, byte = first / 8;
    uint32_t two = tensor->bytes[byte];
    if (byte + 1 < tensor->byte_count) two |= (uint32_t)tensor->bytes[byte + 1] << 8;
    return two >> first % 8 & ((1u << bits) - 1);
}

static double narrow_number(kn_onnx_type type, uint32_t bits) {
    kn_dtype dtype;
    kn_small_float format = {0};
    if (kn_onnx_type_to(type, &dtype) && kn_is_small_float(dtype))
        format = *kn_small_float_of(dtype);
    else if (type == KN_ONNX_FLOAT6E2M3)
        format = kn_small_float_plain(2, 3, 1);
    else if (type == KN_ONNX_FLOAT6E3M2)
        format = kn_small_float_plain(3, 2, 3);
    else
        return 0;
    return kn_small_float_number(&format, bits);
}

bool kn_onnx_tensor_integer(const kn_onnx_tensor *tensor, uint64_t index, int64_t *number) {
    int bits = kn_onnx_type_bits(tensor->type);
    switch (tensor->type) {
    case KN_ONNX_INT64:
    case KN_ONNX_UINT64:
        *number = (int64_t)kn_little_uint(tensor->bytes + 8 * index, 8);
        return true;
    case KN_ONNX_UINT32:
        *number = (int64_t)kn_little_uint(tensor->bytes + 4 * index, 4);
        return true;
    case KN_ONNX_INT32:
        *number = (int32_t)(uint32_t)kn_little_uint(tensor->bytes + 4 * index, 4);
        return true;
    case KN_ONNX_BOOL:
        *number = tensor->bytes[index] != 0;
        return true;
    case KN_ONNX_UINT16:
    case KN_ONNX_UINT8:
    case KN_ONNX_UINT4:
    case KN_ONNX_UINT2:
        *number = bits_at(tensor, index, bits);
        return true;
    case KN_ONNX_INT16:
    case KN_ONNX_INT8:
    case KN_ONNX_INT4:
    case KN_ONNX_INT2:
        *number = (int64_t)bits_at(tensor, index, bits);
        if (*number >> (bits - 1)) *number -= (int64_t)1 << bits;
        return true;
    default:
        return false;
    }
}

double kn_onnx_tensor_number(const kn_onnx_tensor *tensor, uint64_t index) {
    int64_t integer;
    if (tensor->type == KN_ONNX_UINT64) return (double)kn_little_uint(tensor->bytes + 8 * index, 8);
    if (kn_onnx_tensor_integer(tensor, index, &integer)) return (double)integer;
    int bits = kn_onnx_type_bits(tensor->type);
    switch (tensor->type) {
    case KN_ONNX_FLOAT32:
    case KN_ONNX_COMPLEX64:
        return kn_float_of_bits((uint32_t)kn_little_uint(tensor->bytes + index * (uint64_t)bits / 8, 4));
    case KN_ONNX_FLOAT64:
    case KN_ONNX_COMPLEX128:
        return kn_double_of_bits(kn_little_uint(tensor->bytes + index * (uint64_t)bits / 8, 8));
    case KN_ONNX_FLOAT16:
        return kn_float_from_half((uint16_t)bits_at(tensor, index, bits));
    case KN_ONNX_BFLOAT16:
        return kn_float_from_bfloat((uint16_t)bits_at(tensor, index, bits));
    case KN_ONNX_STRING:
        return 0;
    default:
        return narrow_number(tensor->type, bits_at(tensor, index, bits));
    }
}

/* Whether no element of a type's size has all bits of the mask, which is in the byte order of tensors. The
 * loops have no branches: large models have 10^9 elements. */
#define LACKS_MASK(name, type)                                                                               \
    static bool name(const uint8_t *bytes, uint64_t count, const uint8_t mask_bytes[sizeof(type)]) {         \
        type mask, bits;                                                                                     \
        unsigned found = 0;                                                                                  \
        memcpy(&mask, mask_bytes, sizeof mask);                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            memcpy(&bits, bytes + i * sizeof bits, sizeof bits);                                             \
            found |= (bits & mask) == mask;                                                                  \
        }                                                                                                    \
        return !found;                                                                                       \
    }
LACKS_MASK(lacks_mask4, uint32_t)
LACKS_MASK(lacks_mask2, uint16_t)

bool kn_onnx_tensor_finite(const kn_onnx_tensor *tensor) {
    switch (tensor->type) {
    case KN_ONNX_FLOAT32:
        return lacks_mask4(tensor->bytes, tensor->count, (const uint8_t[]){0, 0, 0x80, 0x7f});
    case KN_ONNX_FLOAT16:
        return lacks_mask2(tensor->bytes, tensor->count, (const uint8_t[]){0, 0x7c});
    case KN_ONNX_BFLOAT16:
        return lacks_mask2(tensor->bytes, tensor->count, (const uint8_t[]){0x80, 0x7f});
    default:
        for (uint64_t i = 0; i < tensor->count; i++)
            if (!isfinite(kn_onnx_tensor_number(tensor, i))) return false;
        return true;
    }
}

/* Widens 4-bit and 2-bit elements to bytes: integers are sign-extended, float codes are copied. */
static kn_status unpack(const kn_host *host, const kn_onnx_tensor *tensor, kn_array *array, kn_error *error) {
    uint8_t *bytes = kn_resize(host, NULL, (size_t)tensor->count + 1, 1);
    if (!bytes) return kn_fail_memory(error, (size_t)tensor->count + 1);
    for (uint64_t i = 0; i < tensor->count; i++)
        bytes[i] = tensor->type == KN_ONNX_FLOAT4E2M1 ? (uint8_t)bits_at(tensor, i, 4)
                                                      : (uint8_t)(int)kn_onnx_tensor_number(tensor, i);
    array->bytes = array->owned = bytes;
    array->byte_count = tensor->count;
    return KN_OK;
}

void kn_onnx_pack(kn_dtype dtype, void *elements, uint64_t count) {
    size_t size = kn_array_type_bytes(dtype);
    uint8_t *bytes = elements;
    if (!kn_little_endian() && size > 1) kn_swap_bytes(elements, elements, count, size);
    for (uint64_t i = 0; dtype == KN_FLOAT4E2M1 && i < count; i += 2)
        bytes[i / 2] = (uint8_t)((bytes[i] & 15) | (i + 1 < count ? bytes[i + 1] << 4 : 0));
}

kn_status kn_onnx_tensor_array(const kn_host *host, const kn_onnx_tensor *tensor, kn_array *array,
                               kn_error *error) {
    *array = (kn_array){.type = KN_FLOAT32};
    if (!kn_onnx_type_to(tensor->type, &array->type))
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "tensor \"%s\" has elements of type %s, which Koine does not support",
                       tensor->name ? tensor->name : "", kn_onnx_type_name(tensor->type));
    if (tensor->rank > KN_MAX_RANK)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "tensor \"%s\" has %zu dimensions; at most %d are supported",
                       tensor->name ? tensor->name : "", tensor->rank, KN_MAX_RANK);
    array->rank = (int)tensor->rank;
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array->count = tensor->count;
    if (kn_onnx_type_bits(tensor->type) < 8) return unpack(host, tensor, array, error);
    array->bytes = tensor->bytes;
    array->byte_count = tensor->byte_count;
    size_t size = kn_array_type_bytes(array->type);
    if (kn_little_endian() || size == 1) return KN_OK;
    void *copy = kn_array_take_copy(host, array, error);
    if (!copy) return KN_ERROR_MEMORY;
    kn_swap_bytes(copy, copy, array->count, size);
    return KN_OK;
}
