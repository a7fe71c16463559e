/* Values of bound graphs: their bytes. */
#include "plan/plan_private.h"

bool kn_value_bytes(const kn_value *value, uint64_t *bytes) {
    int64_t elements = kn_shape_elements(&value->shape);
    if (elements < 0) return false;
    uint64_t size = kn_dtype_bytes(value->shape.dtype);
    if (size && (uint64_t)elements > UINT64_MAX / size) return false;
    *bytes = (uint64_t)elements * size;
    return true;
}
