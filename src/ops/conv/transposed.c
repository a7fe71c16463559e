/* Transposed convolutions whose windows do not overlap, with few results: a 1x1 convolution and a
 * permutation. The gradient of a convolution's data would compute them one phase of the stride after the
 * other, each for few results. */
#include "ops/build.h"
#include "ops/conv/conv.h"
#include "ops/shape/shape.h"

/* The most results of the 1x1 convolution for a pixel. */
enum { MAX_RESULTS = 8 };

static int64_t number_of(const kn_node *node, const char *attribute, int place) {
    return kn_attribute_of(node, attribute)->list[place];
}

/* Whether the filter (K,C,R,S) has the size of the stride, and the result (N,C,H*R,W*S) has only its pixels.
 */
static bool is_suitable(const kn_node *node, const kn_shape *x, const kn_shape *filter) {
    const kn_attribute_value *size = kn_attribute_of(node, "size");
    if (kn_attribute_of(node, "groups")->integer != 1 || size->count != 2) return false;
    for (int i = 0; i < 4; i++)
        if (!kn_dim_known(x->dims[i]) || !kn_dim_known(filter->dims[i]) || x->dims[i] < 1 ||
            number_of(node, "padding", i) != 0)
            return false;
    for (int axis = 0; axis < 2; axis++)
        if (number_of(node, "stride", axis) != filter->dims[2 + axis] ||
            number_of(node, "dilation", axis) != 1 ||
            size->list[axis] != x->dims[2 + axis] * filter->dims[2 + axis])
            return false;
    const int64_t taps = filter->dims[2] * filter->dims[3];
    return taps > 1 && taps <= MAX_RESULTS && filter->dims[1] >= 1 && filter->dims[1] <= MAX_RESULTS / taps;
}

kn_status kn_conv_transposed_at_sizes(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                      kn_value **results) {
    static const int order[2] = {1, 0}, places[6] = {0, 1, 4, 2, 5, 3};
    const kn_shape *x = &inputs[0]->shape, *filter = &inputs[1]->shape;
    if (!is_suitable(node, x, filter)) return KN_OK;
    const kn_dim images = x->dims[0], height = x->dims[2], width = x->dims[3], channels = filter->dims[1],
                 rows = filter->dims[2], columns = filter->dims[3], count = channels * rows * columns;
    kn_value *weight = kn_reshape_to(inputs[1], 2, (kn_dim[]){filter->dims[0], count});
    weight = kn_reshape_to(kn_permute(weight, order), 4, (kn_dim[]){count, filter->dims[0], 1, 1});
    kn_settings settings;
    kn_settings_init(&settings, bound, &kn_row_conv2d);
    kn_value *y = kn_build(&kn_row_conv2d, (kn_value *[]){inputs[0], weight}, 2, &settings);
    y = kn_reshape_to(y, 6, (kn_dim[]){images, channels, rows, columns, height, width});
    results[0] =
        kn_reshape_to(kn_permute(y, places), 4, (kn_dim[]){images, channels, height * rows, width * columns});
    return bound->error.status;
}
