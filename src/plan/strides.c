/* The strides of a value along the axes of the space that a kernel traverses. */
#include "plan/plan_private.h"

/* Strides of a plain value in elements; 0 for dimensions of size 1. */
static void plain_strides(const kn_shape *shape, int64_t strides[KN_MAX_RANK]) {
    int64_t step = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        strides[d] = shape->dims[d] == 1 ? 0 : step;
        step *= shape->dims[d];
    }
}

/* The same for a blocked value (N,C,H,W): strides[1] is between blocks of channels, *within between the
 * channels of a block. */
static void blocked_strides(const kn_shape *shape, int width, int64_t strides[KN_MAX_RANK], int64_t *within) {
    int64_t height = shape->dims[2], image_width = shape->dims[3];
    strides[0] = shape->dims[0] == 1 ? 0 : shape->dims[1] * height * image_width;
    strides[1] = shape->dims[1] == width ? 0 : height * image_width * width;
    strides[2] = height == 1 ? 0 : image_width * width;
    strides[3] = image_width == 1 ? 0 : width;
    *within = 1;
}

bool kn_layouts_agree(const kn_value *value) {
    return value->shape.rank == 4 && value->shape.dims[2] == 1 && value->shape.dims[3] == 1;
}

int kn_value_strides(const kn_target *target, const kn_value *value, const kn_shape *space,
                     kn_layout space_layout, int64_t sizes[KN_MAX_RANK + 1],
                     int64_t strides[KN_MAX_RANK + 1]) {
    int rank = space->rank, missing = rank - value->shape.rank, width = kn_block_width(target);
    int64_t own[KN_MAX_RANK] = {0}, within = 0;
    bool blocked = value->layout == KN_LAYOUT_BLOCKED && !kn_layouts_agree(value);
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
