/* Caffe's pooling, local response normalization, and layers along an axis. */
#include <inttypes.h>

#include "exchange/caffe/caffe.h"

/* (N,C,H,W) to (N,C,1,1). */
static bool write_global_pooling(kn_caffe *net, const kn_caffe_layer *layer, bool maximum) {
    const kn_caffe_blob *x = layer->bottoms[0];
    const int64_t dims[4] = {x->dims[0], x->dims[1], 1, 1};
    return kn_caffe_make(
        net, layer, 0,
        kn_caffe_line(net, layer, NULL, "%s @%s", maximum ? "globalmaxpool" : "globalavgpool", x->value), 4,
        dims);
}

/* x is (N,C,H,W). Caffe rounds the number of windows up, unless the last window would begin outside the
 * image, and averages over the window's elements inside the padded image, as `ceil` does here. */
bool kn_caffe_pooling(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    const char *pool = kn_caffe_text(layer->param, "pool", "MAX");
    const bool maximum = !strcmp(pool, "MAX");
    int64_t kernel[2], stride[2], pad[2], dims[4] = {x->dims[0], x->dims[1]};
    if (x->rank != 4)
        return kn_caffe_refuse(net, layer, "'%s' has %d axes; expected 4 (N,C,H,W)", x->name, x->rank);
    if (!maximum && strcmp(pool, "AVE"))
        return kn_caffe_refuse(net, layer, "pool is %.40s; expected MAX or AVE", pool);
    if (layer->top_count > 1)
        return kn_caffe_refuse(net, layer, "a second top (the indices of the maxima) is not supported");
    if (kn_caffe_number(layer->param, "global_pooling", 0) != 0)
        return write_global_pooling(net, layer, maximum);
    if (!kn_caffe_pair(net, layer, "kernel_size", "kernel_h", "kernel_w", 0, 1, kernel) ||
        !kn_caffe_pair(net, layer, "stride", "stride_h", "stride_w", 1, 1, stride) ||
        !kn_caffe_pair(net, layer, "pad", "pad_h", "pad_w", 0, 0, pad))
        return false;
    const bool ceil = strcmp(kn_caffe_text(layer->param, "round_mode", "CEIL"), "FLOOR") != 0;
    for (int i = 0; i < 2; i++) {
        int64_t size = x->dims[2 + i], room = size + 2 * pad[i] - kernel[i];
        if (room < 0 || pad[i] >= kernel[i])
            return kn_caffe_refuse(net, layer,
                                   "a window of %" PRId64 "x%" PRId64 " does not fit '%s' (%" PRId64
                                   "x%" PRId64 ") with its padding",
                                   kernel[0], kernel[1], x->name, x->dims[2], x->dims[3]);
        dims[2 + i] = (room + (ceil ? stride[i] - 1 : 0)) / stride[i] + 1;
        if ((dims[2 + i] - 1) * stride[i] >= size + pad[i]) dims[2 + i]--;
    }
    const char *line = kn_caffe_line(net, layer, NULL, "%s @%s %" PRId64, maximum ? "maxpool" : "avgpool",
                                     x->value, kernel[0]);
    if (kernel[0] != kernel[1]) kn_caffe_more(net, "x%" PRId64, kernel[1]);
    kn_caffe_more_pair(net, "stride", stride, 0);
    kn_caffe_more_pair(net, "padding", pad, 0);
    if (ceil) kn_caffe_more(net, " ceil");
    return kn_caffe_make(net, layer, 0, line, 4, dims);
}

/* x / (1 + alpha * mean of the squares around it in the same channel) ^ beta. */
static bool write_local_in_channel(kn_caffe *net, const kn_caffe_layer *layer, int64_t size, double alpha,
                                   double beta) {
    const char *x = layer->bottoms[0]->value;
    const char *value = kn_caffe_line(net, layer, "squares", "mul @%s @%s", x, x);
    if (value)
        value = kn_caffe_line(net, layer, "means", "avgpool @%s %" PRId64 " stride=1 padding=%" PRId64, value,
                              size, (size - 1) / 2);
    if (value) value = kn_caffe_line(net, layer, "scaled", "scale @%s", value);
    kn_caffe_more_number(net, "factor", alpha);
    if (value) value = kn_caffe_line(net, layer, "divisor", "shift @%s summand=1", value);
    const char *exponent = kn_caffe_line(net, layer, "power", "number");
    kn_caffe_more_number(net, "value", -beta);
    if (value && exponent) value = kn_caffe_line(net, layer, "factors", "pow @%s @%s", value, exponent);
    return value && exponent &&
           kn_caffe_like(net, layer, kn_caffe_line(net, layer, NULL, "mul @%s @%s", x, value));
}

bool kn_caffe_lrn(kn_caffe *net, kn_caffe_layer *layer) {
    const double alpha = kn_caffe_number(layer->param, "alpha", 1),
                 beta = kn_caffe_number(layer->param, "beta", 0.75);
    int64_t size;
    if (!kn_caffe_whole(net, layer, "local_size", 5, 1, &size)) return false;
    if (size % 2 == 0)
        return kn_caffe_refuse(net, layer, "local_size is %" PRId64 "; expected an odd number", size);
    if (!strcmp(kn_caffe_text(layer->param, "norm_region", "ACROSS_CHANNELS"), "WITHIN_CHANNEL"))
        return write_local_in_channel(net, layer, size, alpha, beta);
    const char *line =
        kn_caffe_line(net, layer, NULL, "localnorm @%s %" PRId64, layer->bottoms[0]->value, size);
    kn_caffe_more_number(net, "alpha", alpha);
    kn_caffe_more_number(net, "beta", beta);
    kn_caffe_more_number(net, "k", kn_caffe_number(layer->param, "k", 1));
    return kn_caffe_like(net, layer, line);
}

/* Treats (N,C,1,1) as rows (N,C), which losses expect. */
bool kn_caffe_softmax(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    int axis;
    if (!kn_caffe_axis(net, layer, "axis", 1, &axis)) return false;
    const bool flat = x->rank == 4 && axis == 1 && x->dims[2] == 1 && x->dims[3] == 1;
    const char *value = flat ? kn_caffe_line(net, layer, "rows", "flatten @%s", x->value) : x->value;
    const int rank = flat ? 2 : x->rank;
    if (!value) return false;
    const char *line = kn_caffe_line(net, layer, NULL, "softmax @%s", value);
    if (axis < rank - 1) kn_caffe_more(net, " axis=%d", axis);
    return kn_caffe_make(net, layer, 0, line, rank, x->dims);
}

/* The index of the largest element: along an axis, which remains with size 1, or over all elements after the
 * batch: (N,1,1), with as many axes as x. */
bool kn_caffe_argmax(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    const bool along = kn_caffe_field(layer->param, "axis") != NULL;
    int axis = 1;
    int64_t dims[KN_MAX_RANK];
    if (along && !kn_caffe_axis(net, layer, "axis", 1, &axis)) return false;
    if (axis < 1 || kn_caffe_number(layer->param, "top_k", 1) != 1 ||
        kn_caffe_number(layer->param, "out_max_val", 0) != 0)
        return kn_caffe_refuse(net, layer,
                               "expected top_k 1, an index without the value, and an axis after the batch");
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = 1;
    const char *value = along ? x->value : kn_caffe_line(net, layer, "rows", "flatten @%s", x->value);
    if (value) value = kn_caffe_line(net, layer, "places", "argmax @%s %d keep", value, axis);
    const int rank = along || x->rank > 3 ? x->rank : 3;
    if (value && !along) {
        for (int i = 2; i < rank; i++)
            dims[i] = 1;
        value = kn_caffe_reshaped(net, layer, "places", value, rank, dims);
    }
    return value &&
           kn_caffe_make(net, layer, 0, kn_caffe_line(net, layer, NULL, "cast @%s", value), rank, dims);
}

/* Reduces all axes from `axis` on. */
bool kn_caffe_reduction(kn_caffe *net, kn_caffe_layer *layer) {
    static const char *const kinds[][2] = {
        {"SUM", "sum"}, {"ASUM", "reduce_l1"}, {"SUMSQ", "reduce_sum_square"}, {"MEAN", "mean"}};
    const kn_caffe_blob *x = layer->bottoms[0];
    const char *operation = kn_caffe_text(layer->param, "operation", "SUM"), *kind = NULL;
    const double factor = kn_caffe_number(layer->param, "coeff", 1);
    int axis;
    for (size_t i = 0; i < KN_COUNT_OF(kinds); i++)
        if (!strcmp(kinds[i][0], operation)) kind = kinds[i][1];
    if (!kind)
        return kn_caffe_refuse(net, layer, "operation is %.40s; expected SUM, ASUM, SUMSQ or MEAN",
                               operation);
    if (!kn_caffe_axis(net, layer, "axis", 0, &axis)) return false;
    if (axis < 1) return kn_caffe_refuse(net, layer, "axis 0 (the batch) is not supported");
    const char *line =
        kn_caffe_line(net, layer, factor == 1 ? NULL : "reduced", "%s @%s axes=", kind, x->value);
    for (int i = axis; i < x->rank; i++)
        kn_caffe_more(net, i > axis ? ",%d" : "%d", i);
    if (line && factor != 1) {
        line = kn_caffe_line(net, layer, NULL, "scale @%s", line);
        kn_caffe_more_number(net, "factor", factor);
    }
    return kn_caffe_make(net, layer, 0, line, axis, x->dims);
}
