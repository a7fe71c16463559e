/* Conversion of array elements to other types, for arrays read from files. */
#include "data/array_copy.h"

#include <math.h>
#include <string.h>

/* Rounds a number to an integer and saturates it to a range; NaN becomes 0. */
static int64_t whole(double number, double low, double high) {
    if (!(number >= low)) return isnan(number) ? 0 : (int64_t)low;
    return number >= high ? (int64_t)high : (int64_t)nearbyint(number);
}

static bool set_element(kn_dtype dtype, void *data, uint64_t i, double number) {
    switch (dtype) {
    case KN_FLOAT32:
        ((float *)data)[i] = (float)number;
        return true;
    case KN_FLOAT64:
        ((double *)data)[i] = number;
        return true;
    case KN_INT32:
        ((int32_t *)data)[i] = (int32_t)whole(number, INT32_MIN, INT32_MAX);
        return true;
    case KN_INT64:
        ((int64_t *)data)[i] = whole(number, -0x1p62, 0x1p62);
        return true;
    case KN_UINT32:
        ((uint32_t *)data)[i] = (uint32_t)whole(number, 0, UINT32_MAX);
        return true;
    case KN_UINT8:
        ((uint8_t *)data)[i] = (uint8_t)whole(number, 0, 255);
        return true;
    case KN_BOOL:
        ((uint8_t *)data)[i] = number != 0;
        return true;
    default:
        return false;
    }
}

kn_status kn_array_copy(const kn_array *array, kn_dtype dtype, void *data, size_t bytes) {
    size_t size = kn_array_type_bytes(dtype);
    if (size == 0 || bytes / size != array->count || bytes % size || (!data && bytes > 0))
        return KN_ERROR_ARGUMENT;
    if (dtype == array->type) {
        if (bytes) memcpy(data, array->bytes, bytes);
        return KN_OK;
    }
    for (uint64_t i = 0; i < array->count; i++)
        if (!set_element(dtype, data, i, kn_array_number(array, i))) return KN_ERROR_UNSUPPORTED;
    return KN_OK;
}
