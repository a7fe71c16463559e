/* Values of bound graphs: their bytes, and the values that views lead back to. */
#include "plan/plan_private.h"

bool kn_value_bytes(const kn_value *value, uint64_t *bytes) {
    int64_t elements = kn_shape_elements(&value->shape);
    if (elements < 0) return false;
    uint64_t size = kn_dtype_bytes(value->shape.dtype);
    if (size && (uint64_t)elements > UINT64_MAX / size) return false;
    *bytes = (uint64_t)elements * size;
    return true;
}

kn_value *kn_value_root(kn_value *value) {
    while (value->kind == KN_VALUE_RESULT && value->producer->op->class == KN_CLASS_VIEW)
        value = value->producer->inputs[0];
    return value;
}
