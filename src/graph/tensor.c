/* Element types and the sizes of arrays. */
#include <koine/tensor.h>

#include <string.h>

#include "graph/graph_private.h"

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
#define KN_DTYPE_ROW(name, number, text, bytes) [number] = {text, bytes},
    KN_DTYPE_LIST(KN_DTYPE_ROW)
#undef KN_DTYPE_ROW
};

static bool exists(kn_dtype dtype) {
    return (unsigned)dtype < KN_COUNT_OF(types);
}

const char *kn_dtype_name(kn_dtype dtype) {
    return exists(dtype) ? types[dtype].name : "unknown";
}

size_t kn_dtype_bytes(kn_dtype dtype) {
    return exists(dtype) ? types[dtype].bytes : 0;
}

bool kn_dtype_parse(const char *name, kn_dtype *dtype) {
    for (size_t i = 0; name && i < KN_COUNT_OF(types); i++)
        if (strcmp(types[i].name, name) == 0) {
            if (dtype) *dtype = (kn_dtype)i;
            return true;
        }
    return false;
}

static const char *const precisions[] = {
#define KN_PRECISION_ROW(name, number, text) [number] = text,
    KN_PRECISION_LIST(KN_PRECISION_ROW)
#undef KN_PRECISION_ROW
};

const char *kn_precision_name(kn_precision precision) {
    return (unsigned)precision < KN_COUNT_OF(precisions) ? precisions[precision] : "unknown";
}

bool kn_precision_parse(const char *name, kn_precision *precision) {
    for (size_t i = 0; name && i < KN_COUNT_OF(precisions); i++)
        if (strcmp(precisions[i], name) == 0) {
            if (precision) *precision = (kn_precision)i;
            return true;
        }
    return false;
}

/* Multiplies the nonzero sizes even if one is 0, because strides are products of them. */
bool kn_tensor_elements(const kn_tensor_info *info, uint64_t *elements) {
    if (!info || info->rank < 0 || info->rank > KN_MAX_RANK) return false;
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < info->rank; i++) {
        if (info->shape[i] < 0) return false;
        if (info->shape[i] == 0)
            empty = true;
        else if (!kn_multiply_fits(product, info->shape[i], &product))
            return false;
    }
    if (elements) *elements = empty ? 0 : (uint64_t)product;
    return true;
}

bool kn_tensor_bytes(const kn_tensor_info *info, uint64_t *bytes) {
    uint64_t elements;
    if (!info || !exists(info->dtype) || !kn_tensor_elements(info, &elements)) return false;
    size_t size = types[info->dtype].bytes;
    if (elements > (uint64_t)INT64_MAX / size) return false;
    if (bytes) *bytes = elements * size;
    return true;
}

bool kn_same_info(const kn_tensor_info *one, const kn_tensor_info *other) {
    return one->dtype == other->dtype && one->rank == other->rank &&
           !memcmp(one->shape, other->shape, (size_t)one->rank * sizeof *one->shape);
}
