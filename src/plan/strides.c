/* How far apart neighbours lie in a value's memory, along the axes of the space that a kernel walks. */
#include "plan/plan_private.h"

/* Elements between neighbours of each dimension of a plain value; 0 where it has only one. */
static void plain_strides(const kn_shape *shape, int64_t strides[KN_MAX_RANK]) {
    int64_t step = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        strides[d] = shape->dims[d] == 1 ? 0 : step;
        step *= shape->dims[d];
    }
}

/* The same for a blocked value: entry 1 is between blocks of channels, *within between channels of one. */
static void blocked_strides(const kn_shape *shape, int width, int64_t strides[KN_MAX_RANK], int64_t *within) {
    int64_t height = shape->dims[2], across = shape->dims[3];
    strides[0] = shape->dims[0] == 1 ? 0 : shape->dims[1] * height * across;
    strides[1] = shape->dims[1] == width ? 0 : height * across * width;
    strides[2] = height == 1 ? 0 : across * width;
    strides[3] = across == 1 ? 0 : width;
    *within = 1;
}

bool kn_lies_alike(const kn_value *value) {
    return value->shape.rank == 4 && value->shape.dims[2] == 1 && value->shape.dims[3] == 1;
}

int kn_value_strides(const kn_target *target, const kn_value *value, const kn_shape *space,
                     kn_layout space_layout, int64_t sizes[KN_MAX_RANK + 1],
                     int64_t strides[KN_MAX_RANK + 1]) {
    int rank = space->rank, missing = rank - value->shape.rank, width = target->vector_width;
    int64_t own[KN_MAX_RANK] = {0}, within = 0;
    bool blocked = value->layout == KN_LAYOUT_BLOCKED && !kn_lies_alike(value);
    if (blocked)
        blocked_strides(&value->shape, width, own, &within);
    else
        plain_strides(&value->shape, own);
    for (int d = 0; d < rank; d++) {
        sizes[d] = space->dims[d];
        strides[d] = d < missing ? 0 : own[d - missing];
    }
    if (space_layout == KN_LAYOUT_PLAIN) return rank;
    /* The space is (N, C/width, H, W, width). */
    sizes[1] /= width;
    sizes[4] = width;
    strides[4] = blocked ? within : strides[1];
    if (!blocked) strides[1] *= width;
    return 5;
}
