/* Caffe layers with weights. */
#include <inttypes.h>

#include "exchange/caffe/caffe.h"

/* ---- initializers -------------------------------------------------------------------------------------- */

/* Appends " init=..." for a filler; nothing if no initializer of the text matches it. */
static void write_filler(kn_caffe *net, const char *option, const kn_caffe_item *filler) {
    const char *type = kn_caffe_text(filler, "type", "constant"),
               *variance = kn_caffe_text(filler, "variance_norm", "FAN_IN");
    const bool out = !strcmp(variance, "FAN_OUT"), in = !strcmp(variance, "FAN_IN");
    double low = kn_caffe_number(filler, "min", 0), high = kn_caffe_number(filler, "max", 1);
    const char *word = NULL;
    double number = 1;
    if (!strcmp(type, "constant")) word = "fill", number = kn_caffe_number(filler, "value", 0);
    if (!strcmp(type, "gaussian") && kn_caffe_number(filler, "mean", 0) == 0)
        word = "normal", number = kn_caffe_number(filler, "std", 1);
    if (!strcmp(type, "uniform") && low == -high && high > 0) word = "uniform", number = high;
    /* Caffe's xavier filler uses only the fan-in. */
    if (!strcmp(type, "xavier"))
        word = in ? "kaiming_uniform" : out ? "kaiming_uniform_out" : "xavier_uniform";
    if (!strcmp(type, "msra") && (in || out))
        word = in ? "kaiming_normal" : "kaiming_normal_out", number = 1.4142135623730951;
    if (!word) return;
    kn_caffe_more(net, " %s=%s:", option, word);
    kn_text_number(&net->lines, number);
}

/* Weights without a filler, as in nets for inference, get the default initializer. */
static void write_fillers(kn_caffe *net, const kn_caffe_layer *layer, bool bias) {
    const kn_caffe_item *weight = kn_caffe_field(layer->param, "weight_filler");
    if (!weight) return;
    write_filler(net, "init", weight);
    if (bias) write_filler(net, "bias_init", kn_caffe_field(layer->param, "bias_filler"));
}

/* Whether the layer is frozen: each of its blobs has learning rate 0. */
static bool is_frozen(const kn_caffe_layer *layer, int blobs) {
    int still = 0;
    for (const kn_caffe_item *param = NULL; (param = kn_caffe_next(layer->item, "param", param));)
        still += kn_caffe_number(param, "lr_mult", 1) == 0;
    for (const kn_caffe_item *rate = NULL; (rate = kn_caffe_next(layer->item, "blobs_lr", rate));)
        still += rate->kind == KN_CAFFE_NUMBER && rate->as.number == 0;
    return still >= blobs;
}

/* The shared name of the weight (blob 0) or bias (1): layers with the same name share it. NULL: none. */
static const char *shared_name(const kn_caffe_layer *layer, int blob) {
    const kn_caffe_item *param = kn_caffe_next(layer->item, "param", NULL);
    if (param && blob == 1) param = kn_caffe_next(layer->item, "param", param);
    if (!param) return NULL;
    const char *name = param->kind == KN_CAFFE_TEXT ? param->as.text : kn_caffe_text(param, "name", "");
    return *name ? name : NULL;
}

/* A line of the text shares either all parameters of another line or none. */
static bool share_weights(kn_caffe *net, const kn_caffe_layer *layer, const kn_caffe_layer *owner,
                          bool bias) {
    const char *name = bias ? shared_name(layer, 1) : NULL, *its = bias ? shared_name(owner, 1) : NULL;
    if (bias && (!name || !its || strcmp(name, its)))
        return kn_caffe_refuse(
            net, layer, "shares its weight but not its bias with layer '%.80s'; expected both or neither",
            owner->name);
    kn_caffe_more(net, " share=%s", owner->line);
    return true;
}

/* Ends a line with weights: writes which layer shares them, and records which blobs have them. `shape` is the
 * weight's shape in the file. */
static bool write_weights(kn_caffe *net, const kn_caffe_layer *layer, int rank, const int64_t *shape,
                          int64_t units, bool bias, kn_caffe_change change) {
    const char *shared = shared_name(layer, 0);
    const kn_caffe_layer *owner = shared ? kn_map_get_text(&net->shared, shared) : NULL;
    if (!bias) kn_caffe_more(net, " bias=no");
    if (owner) return share_weights(net, layer, owner, bias);
    if (shared && !kn_map_put_text(&net->shared, shared, (void *)(uintptr_t)layer))
        return kn_model_no_memory(net->model);
    write_fillers(net, layer, bias);
    if (is_frozen(layer, bias ? 2 : 1)) kn_caffe_more(net, " freeze");
    return kn_caffe_add_weight(net, layer, 0, layer->line, "weight", rank, shape, 0, change) &&
           (!bias ||
            kn_caffe_add_weight(net, layer, 1, layer->line, "bias", 1, &units, 0, KN_CAFFE_AS_IT_IS));
}

/* ---- convolutions -------------------------------------------------------------------------------------- */

typedef struct filters {
    int64_t channels, groups, kernel[2], stride[2], pad[2], dilation[2];
} filters;

static bool read_filters(kn_caffe *net, const kn_caffe_layer *layer, filters *f) {
    const kn_caffe_blob *x = layer->bottoms[0];
    if (x->rank != 4)
        return kn_caffe_refuse(net, layer, "'%s' has %d axes; expected 4 (N,C,H,W)", x->name, x->rank);
    if (kn_caffe_number(layer->param, "axis", 1) != 1)
        return kn_caffe_refuse(net, layer, "expected axis 1 (the channels)");
    /* Layers of this type are depthwise. */
    const int64_t groups = strcmp(layer->row->type, "ConvolutionDepthwise") ? 1 : x->dims[1];
    if (!kn_caffe_whole(net, layer, "num_output", 0, 1, &f->channels) ||
        !kn_caffe_whole(net, layer, "group", groups, 1, &f->groups) ||
        !kn_caffe_pair(net, layer, "kernel_size", "kernel_h", "kernel_w", 0, 1, f->kernel) ||
        !kn_caffe_pair(net, layer, "stride", "stride_h", "stride_w", 1, 1, f->stride) ||
        !kn_caffe_pair(net, layer, "pad", "pad_h", "pad_w", 0, 0, f->pad) ||
        !kn_caffe_pair(net, layer, "dilation", "", "", 1, 1, f->dilation))
        return false;
    if (x->dims[1] % f->groups || f->channels % f->groups)
        return kn_caffe_refuse(net, layer,
                               "%" PRId64 " input and %" PRId64
                               " output channels are not divisible by %" PRId64 " groups",
                               x->dims[1], f->channels, f->groups);
    return true;
}

static void write_filters(kn_caffe *net, const filters *f) {
    if (f->kernel[0] != f->kernel[1]) kn_caffe_more(net, "x%" PRId64, f->kernel[1]);
    kn_caffe_more_pair(net, "stride", f->stride, 1);
    kn_caffe_more_pair(net, "padding", f->pad, 0);
    kn_caffe_more_pair(net, "dilation", f->dilation, 1);
    if (f->groups > 1) kn_caffe_more(net, " groups=%" PRId64, f->groups);
}

/* x is (N,C,H,W), the weight (channels,C/groups,height,width). */
bool kn_caffe_convolution(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    filters f;
    if (!read_filters(net, layer, &f)) return false;
    const int64_t shape[4] = {f.channels, x->dims[1] / f.groups, f.kernel[0], f.kernel[1]};
    int64_t dims[4] = {x->dims[0], f.channels};
    for (int i = 0; i < 2; i++) {
        int64_t room = x->dims[2 + i] + 2 * f.pad[i] - (f.dilation[i] * (f.kernel[i] - 1) + 1);
        if (room < 0)
            return kn_caffe_refuse(
                net, layer, "the filter is larger than '%s' (%" PRId64 "x%" PRId64 ") with its padding",
                x->name, x->dims[2], x->dims[3]);
        dims[2 + i] = room / f.stride[i] + 1;
    }
    const char *line =
        kn_caffe_line(net, layer, NULL, "conv @%s %" PRId64 " %" PRId64, x->value, f.channels, f.kernel[0]);
    write_filters(net, &f);
    return write_weights(net, layer, 4, shape, f.channels, kn_caffe_number(layer->param, "bias_term", 1) != 0,
                         KN_CAFFE_AS_IT_IS) &&
           kn_caffe_make(net, layer, 0, line, 4, dims);
}

/* x is (N,C,P,Q), the weight (C,channels/groups,height,width). */
bool kn_caffe_deconvolution(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    filters f;
    if (!read_filters(net, layer, &f)) return false;
    const int64_t shape[4] = {x->dims[1], f.channels / f.groups, f.kernel[0], f.kernel[1]};
    int64_t dims[4] = {x->dims[0], f.channels};
    for (int i = 0; i < 2; i++) {
        dims[2 + i] =
            f.stride[i] * (x->dims[2 + i] - 1) + f.dilation[i] * (f.kernel[i] - 1) + 1 - 2 * f.pad[i];
        if (dims[2 + i] < 1 || dims[2 + i] > KN_CAFFE_SIZE)
            return kn_caffe_refuse(net, layer, "the output would have size %" PRId64, dims[2 + i]);
    }
    const char *line = kn_caffe_line(net, layer, NULL, "convtranspose @%s %" PRId64 " %" PRId64, x->value,
                                     f.channels, f.kernel[0]);
    write_filters(net, &f);
    return write_weights(net, layer, 4, shape, f.channels, kn_caffe_number(layer->param, "bias_term", 1) != 0,
                         KN_CAFFE_AS_IT_IS) &&
           kn_caffe_make(net, layer, 0, line, 4, dims);
}

/* x is (N,...,...), flattened from the axis on to rows; the weight is (units,row), or (row,units) if
 * transposed. */
bool kn_caffe_inner_product(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    const char *value = x->value;
    int axis;
    int64_t units, row, dims[KN_MAX_RANK];
    if (!kn_caffe_whole(net, layer, "num_output", 0, 1, &units) ||
        !kn_caffe_axis(net, layer, "axis", 1, &axis) ||
        !kn_caffe_product(net, layer, x->dims + axis, x->rank - axis, &row))
        return false;
    if (axis < 1) return kn_caffe_refuse(net, layer, "axis 0 (the batch) is not supported");
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = row;
    if (axis < x->rank - 1)
        value = axis == 1 ? kn_caffe_line(net, layer, "rows", "flatten @%s", value)
                          : kn_caffe_reshaped(net, layer, "rows", value, axis + 1, dims);
    if (!value) return false;
    const bool turned = kn_caffe_number(layer->param, "transpose", 0) != 0;
    const int64_t shape[2] = {turned ? row : units, turned ? units : row};
    const char *line = kn_caffe_line(net, layer, NULL, "linear @%s %" PRId64, value, units);
    dims[axis] = units;
    return write_weights(net, layer, 2, shape, units, kn_caffe_number(layer->param, "bias_term", 1) != 0,
                         turned ? KN_CAFFE_TRANSPOSED : KN_CAFFE_AS_IT_IS) &&
           kn_caffe_make(net, layer, 0, line, axis + 1, dims);
}

/* ---- normalization and scaling ------------------------------------------------------------------------- */

/* Whether a later layer reads the blob before a layer overwrites it. */
static bool is_read(const kn_caffe *net, const kn_caffe_layer *after, const char *blob) {
    for (const kn_caffe_layer *layer = after + 1; layer < net->layers + net->layer_count; layer++) {
        if (layer->row->effect != KN_CAFFE_MAKES) continue;
        for (const kn_caffe_item *bottom = NULL; (bottom = kn_caffe_next(layer->item, "bottom", bottom));)
            if (!strcmp(kn_caffe_text_of(bottom), blob)) return true;
        for (int i = 0; i < layer->top_count; i++)
            if (!strcmp(layer->tops[i], blob)) return false;
    }
    return false;
}

/* The Scale layer after a BatchNorm that provides its weight and bias; NULL if there is none. */
static kn_caffe_layer *scale_behind(kn_caffe *net, kn_caffe_layer *norm) {
    kn_caffe_layer *scale = norm + 1;
    if (scale >= net->layers + net->layer_count || strcmp(scale->row->type, "Scale") || scale->top_count != 1)
        return NULL;
    const kn_caffe_item *bottom = kn_caffe_field(scale->item, "bottom");
    if (kn_caffe_count(scale->item, "bottom") != 1 || strcmp(kn_caffe_text_of(bottom), norm->tops[0]) ||
        kn_caffe_number(scale->param, "axis", 1) != 1 || kn_caffe_number(scale->param, "num_axes", 1) != 1 ||
        kn_caffe_number(scale->param, "bias_term", 0) != 1)
        return NULL;
    return strcmp(scale->tops[0], norm->tops[0]) && is_read(net, scale, norm->tops[0]) ? NULL : scale;
}

/* x is (N,C,...). The file has sums, and a factor to divide them by. */
bool kn_caffe_batch_norm(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    if (x->rank < 2) return kn_caffe_refuse(net, layer, "'%s' has no channels", x->name);
    kn_caffe_layer *scale = scale_behind(net, layer);
    const int64_t *channels = &x->dims[1];
    const char *line = kn_caffe_line(net, layer, NULL, "batchnorm @%s", x->value);
    kn_caffe_more_number(net, "epsilon", kn_caffe_number(layer->param, "eps", 1e-5));
    const kn_caffe_item *fraction = kn_caffe_field(layer->param, "moving_average_fraction");
    if (fraction && fraction->kind == KN_CAFFE_NUMBER)
        kn_caffe_more_number(net, "momentum", 1 - fraction->as.number);
    if (!scale) kn_caffe_more(net, " affine=no");
    if (!kn_caffe_add_weight(net, layer, 0, layer->line, "running_mean", 1, channels, 0,
                             KN_CAFFE_OVER_FACTOR) ||
        !kn_caffe_add_weight(net, layer, 1, layer->line, "running_var", 1, channels, 0, KN_CAFFE_OVER_FACTOR))
        return false;
    if (!scale) return kn_caffe_like(net, layer, line);
    scale->done = true;
    return kn_caffe_add_weight(net, scale, 0, layer->line, "weight", 1, channels, 0, KN_CAFFE_AS_IT_IS) &&
           kn_caffe_add_weight(net, scale, 1, layer->line, "bias", 1, channels, 0, KN_CAFFE_AS_IT_IS) &&
           kn_caffe_make(net, scale, 0, line, x->rank, x->dims);
}

/* Writes a parameter with `count` axes that aligns with axis `axis` of x and broadcasts over the other axes;
 * NULL after a refusal. */
static const char *write_parameter(kn_caffe *net, const kn_caffe_layer *layer, int blob, const char *part,
                                   int axis, int64_t count, const char *init) {
    const kn_caffe_blob *x = layer->bottoms[0];
    int end = count < 0 ? x->rank : axis + (int)count;
    if (axis < 1 || count > x->rank || end > x->rank) {
        kn_caffe_refuse(net, layer, "its axes are out of range for '%s' without the batch", x->name);
        return NULL;
    }
    const int rank = end - axis, ones = count == 0 ? 1 : x->rank - end;
    const char *line = kn_caffe_line(net, layer, part, "parameter ");
    for (int i = 0; i < rank + ones; i++)
        kn_caffe_more(net, i ? "x%" PRId64 : "%" PRId64, i < rank ? x->dims[axis + i] : 1);
    kn_caffe_more(net, " init=%s", init);
    return line && kn_caffe_add_weight(net, layer, blob, line, "", rank, x->dims + axis, ones,
                                       KN_CAFFE_AS_IT_IS)
               ? line
               : NULL;
}

/* The second bottom (...) with trailing axes of size 1, so that it broadcasts to the first, aligned with
 * `axis`. */
static const char *write_second(kn_caffe *net, const kn_caffe_layer *layer, int axis) {
    const kn_caffe_blob *x = layer->bottoms[0], *by = layer->bottoms[1];
    int64_t dims[KN_MAX_RANK];
    if (axis != 0 || by->rank > x->rank || by->rank < 1) {
        kn_caffe_refuse(net, layer,
                        "its axis is %d for '%s' with %d axes; expected 0 if the second bottom has a batch",
                        axis, by->name, by->rank);
        return NULL;
    }
    for (int i = 0; i < x->rank; i++) {
        dims[i] = i < by->rank ? by->dims[i] : 1;
        if (i < by->rank && i > 0 && by->dims[i] != x->dims[i]) {
            kn_caffe_refuse(net, layer, "'%s' and '%s' differ in axis %d", x->name, by->name, i);
            return NULL;
        }
    }
    return by->rank == x->rank ? by->value : kn_caffe_reshaped(net, layer, "by", by->value, x->rank, dims);
}

bool kn_caffe_scale(kn_caffe *net, kn_caffe_layer *layer) {
    const kn_caffe_blob *x = layer->bottoms[0];
    const bool bias = kn_caffe_number(layer->param, "bias_term", 0) != 0;
    int axis;
    int64_t count;
    if (!kn_caffe_axis(net, layer, "axis", 1, &axis) ||
        !kn_caffe_whole(net, layer, "num_axes", 1, -1, &count))
        return false;
    const bool two = layer->bottom_count == 2;
    if (two && bias) return kn_caffe_refuse(net, layer, "a bias and a second bottom cannot be combined");
    const char *by =
        two ? write_second(net, layer, axis) : write_parameter(net, layer, 0, "weight", axis, count, "one");
    const char *shift = by && bias ? write_parameter(net, layer, 1, "bias", axis, count, "zero") : NULL;
    if (!by || (bias && !shift)) return false;
    const char *line = kn_caffe_line(net, layer, bias ? "scaled" : NULL, "mul @%s @%s", x->value, by);
    if (line && bias) line = kn_caffe_line(net, layer, NULL, "add @%s @%s", line, shift);
    return kn_caffe_like(net, layer, line);
}

bool kn_caffe_bias(kn_caffe *net, kn_caffe_layer *layer) {
    int axis;
    int64_t count;
    if (!kn_caffe_axis(net, layer, "axis", 1, &axis) ||
        !kn_caffe_whole(net, layer, "num_axes", 1, -1, &count))
        return false;
    const char *by = layer->bottom_count == 2 ? write_second(net, layer, axis)
                                              : write_parameter(net, layer, 0, "bias", axis, count, "zero");
    return by && kn_caffe_like(net, layer,
                               kn_caffe_line(net, layer, NULL, "add @%s @%s", layer->bottoms[0]->value, by));
}

/* One slope per channel, or a single one. */
bool kn_caffe_prelu(kn_caffe *net, kn_caffe_layer *layer) {
    const bool one = kn_caffe_number(layer->param, "channel_shared", 0) != 0;
    if (layer->bottoms[0]->rank < 2)
        return kn_caffe_refuse(net, layer, "'%s' has no channels", layer->bottoms[0]->name);
    const char *slope = write_parameter(net, layer, 0, "slope", 1, one ? 0 : 1, "fill:0.25");
    return slope &&
           kn_caffe_like(net, layer,
                         kn_caffe_line(net, layer, NULL, "prelu @%s @%s", layer->bottoms[0]->value, slope));
}
