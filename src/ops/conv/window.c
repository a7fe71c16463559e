/* Windows over images: stride, padding and dilation of convolutions and pooling. */
#include "ops/conv/window.h"

#include <string.h>

#include "ops/build.h"
#include "ops/shape/shape.h"
#include "ops/shape_rule.h"

static kn_status complete(kn_shape_call *call, const char *name, int64_t least) {
    kn_attribute_value *list = kn_shape_attribute(call, name);
    if (list->count == 1) {
        list->list[1] = list->list[0];
        list->count = 2;
    }
    if (list->count != 2 || list->list[0] < least || list->list[1] < least)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "%s must be one number, or two (height, width), of at least %lld", name,
                             (long long)least);
    return KN_OK;
}

kn_status kn_window_lists(kn_shape_call *call) {
    static const char *const pairs[] = {"stride", "dilation", "window"};
    for (size_t i = 0; i < KN_COUNT_OF(pairs); i++)
        for (int j = 0; j < call->row->attribute_count; j++)
            if (!strcmp(call->row->attributes[j].name, pairs[i]) && complete(call, pairs[i], 1))
                return call->error->status;
    kn_attribute_value *padding = kn_shape_attribute(call, "padding");
    if (padding->count == 1) padding->list[1] = padding->list[0];
    if (padding->count == 1 || padding->count == 2) {
        padding->list[2] = padding->list[0];
        padding->list[3] = padding->list[1];
        padding->count = 4;
    }
    bool right = padding->count == 4;
    for (int i = 0; i < 4 && right; i++)
        right = padding->list[i] >= 0 && padding->list[i] <= INT32_MAX;
    if (!right)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT,
                             "padding must be one number, two (height, width), or four (top, left, bottom, "
                             "right), of at least 0");
    return KN_OK;
}

kn_status kn_window_size(kn_shape_call *call, int axis, int64_t size, bool same, bool lower, kn_dim *result) {
    kn_graph *graph = call->graph;
    const char *word = axis ? "width" : "height";
    kn_dim image = call->inputs[0]->shape.dims[2 + axis];
    int64_t stride = kn_shape_attribute(call, "stride")->list[axis];
    kn_attribute_value *padding = kn_shape_attribute(call, "padding");
    int64_t *before = &padding->list[axis], *after = &padding->list[axis + 2];
    if (same) {
        *result = kn_dim_divide(graph, kn_dim_add(graph, image, stride - 1), stride);
        if (kn_dim_known(image)) {
            int64_t total = (*result - 1) * stride + size - image;
            *before = total > 0 ? (total + lower) / 2 : 0;
            *after = total > 0 ? total - *before : 0;
        }
        return KN_OK;
    }
    if (*before > INT32_MAX || *after > INT32_MAX || size > INT32_MAX)
        return kn_shape_fail(call, KN_ERROR_ARGUMENT, "the window or its padding exceeds 32 bits");
    kn_dim padded = kn_dim_add(graph, image, *before + *after);
    if (kn_dim_known(padded) && padded < size)
        return kn_shape_fail(call, KN_ERROR_SHAPE,
                             "x is %s, and its %s with padding is %lld; expected at least the window's %lld: "
                             "use a larger image or padding, or a smaller window",
                             kn_shape_words_of(call, 0), word, (long long)padded, (long long)size);
    *result = kn_dim_add(graph, kn_dim_divide(graph, kn_dim_subtract(graph, padded, size), stride), 1);
    return KN_OK;
}

void kn_window_pair(kn_settings *settings, const char *name, const int64_t pair[2], int64_t usual) {
    kn_dim numbers[2];
    numbers[0] = pair[0] ? pair[0] : usual;
    numbers[1] = pair[1] ? pair[1] : numbers[0];
    kn_settings_list(settings, name, 2, numbers);
}

void kn_window_padding(kn_settings *settings, const int64_t padding[4], bool all) {
    kn_dim numbers[4] = {padding[0], padding[1], padding[2], padding[3]};
    if (!all && !padding[1] && !padding[2] && !padding[3])
        numbers[1] = numbers[2] = numbers[3] = padding[0];
    else if (!all && !padding[2] && !padding[3]) {
        numbers[2] = padding[0];
        numbers[3] = padding[1];
    }
    kn_settings_list(settings, "padding", 4, numbers);
}

void kn_window_length(int64_t pair[2], int64_t usual) {
    pair[1] = pair[0] ? pair[0] : usual;
    pair[0] = 1;
}

void kn_window_length_padding(int64_t padding[4], bool all) {
    int64_t before = padding[0], after = padding[1] || all ? padding[1] : before;
    padding[0] = padding[2] = 0;
    padding[1] = before;
    padding[3] = after;
}

kn_value *kn_as_images(kn_value *x) {
    if (kn_value_failed(x)) return x;
    return kn_reshape_to(x, 4, (kn_dim[]){x->shape.dims[0], x->shape.dims[1], 1, x->shape.dims[2]});
}

kn_value *kn_as_lengths(kn_value *images, const char *name) {
    if (kn_value_failed(images)) return images;
    return kn_reshape_named(
        images, 3, (kn_dim[]){images->shape.dims[0], images->shape.dims[1], images->shape.dims[3]}, name);
}
