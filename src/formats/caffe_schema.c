/* Field numbers of Caffe's messages, as far as layers and weights need them. */
#include "formats/caffe_private.h"

#define WHOLE(number, name)                                                                                  \
    { number, KN_CAFFE_AS_WHOLE, name, NULL }
#define FLOAT(number, name)                                                                                  \
    { number, KN_CAFFE_AS_FLOAT, name, NULL }
#define TEXT(number, name)                                                                                   \
    { number, KN_CAFFE_AS_TEXT, name, NULL }
#define WORD(number, name, words)                                                                            \
    { number, KN_CAFFE_AS_WORD, name, words }
#define MESSAGE(number, name, fields)                                                                        \
    { number, KN_CAFFE_AS_MESSAGE, name, fields }
#define END                                                                                                  \
    { 0, KN_CAFFE_AS_WHOLE, NULL, NULL }
#define FIELDS(name) static const kn_caffe_about name[]
#define WORDS(name) static const kn_caffe_word name[]

WORDS(phases) = {{0, "TRAIN"}, {1, "TEST"}, {0, NULL}};
WORDS(pools) = {{0, "MAX"}, {1, "AVE"}, {2, "STOCHASTIC"}, {0, NULL}};
WORDS(roundings) = {{0, "CEIL"}, {1, "FLOOR"}, {0, NULL}};
WORDS(regions) = {{0, "ACROSS_CHANNELS"}, {1, "WITHIN_CHANNEL"}, {0, NULL}};
WORDS(elementwise) = {{0, "PROD"}, {1, "SUM"}, {2, "MAX"}, {0, NULL}};
WORDS(reductions) = {{1, "SUM"}, {2, "ASUM"}, {3, "SUMSQ"}, {4, "MEAN"}, {0, NULL}};
WORDS(variances) = {{0, "FAN_IN"}, {1, "FAN_OUT"}, {2, "AVERAGE"}, {0, NULL}};
/* Layer types of the format in which they were numbers. */
WORDS(first_types) = {
    {1, "ACCURACY"},
    {2, "BNLL"},
    {3, "CONCAT"},
    {4, "CONVOLUTION"},
    {5, "DATA"},
    {6, "DROPOUT"},
    {7, "EUCLIDEAN_LOSS"},
    {8, "FLATTEN"},
    {9, "HDF5_DATA"},
    {10, "HDF5_OUTPUT"},
    {11, "IM2COL"},
    {12, "IMAGE_DATA"},
    {13, "INFOGAIN_LOSS"},
    {14, "INNER_PRODUCT"},
    {15, "LRN"},
    {16, "MULTINOMIAL_LOGISTIC_LOSS"},
    {17, "POOLING"},
    {18, "RELU"},
    {19, "SIGMOID"},
    {20, "SOFTMAX"},
    {21, "SOFTMAX_LOSS"},
    {22, "SPLIT"},
    {23, "TANH"},
    {24, "WINDOW_DATA"},
    {25, "ELTWISE"},
    {26, "POWER"},
    {27, "SIGMOID_CROSS_ENTROPY_LOSS"},
    {28, "HINGE_LOSS"},
    {29, "MEMORY_DATA"},
    {30, "ARGMAX"},
    {31, "THRESHOLD"},
    {32, "DUMMY_DATA"},
    {33, "SLICE"},
    {34, "MVN"},
    {35, "ABSVAL"},
    {36, "SILENCE"},
    {37, "CONTRASTIVE_LOSS"},
    {38, "EXP"},
    {39, "DECONVOLUTION"},
    {0, NULL},
};

FIELDS(shape) = {WHOLE(1, "dim"), END};
FIELDS(blob) = {
    WHOLE(1, "num"),
    WHOLE(2, "channels"),
    WHOLE(3, "height"),
    WHOLE(4, "width"),
    {5, KN_CAFFE_AS_FLOATS, "data", NULL},
    MESSAGE(7, "shape", shape),
    {8, KN_CAFFE_AS_DOUBLES, "double_data", NULL},
    END,
};
FIELDS(filler) = {
    TEXT(1, "type"),
    FLOAT(2, "value"),
    FLOAT(3, "min"),
    FLOAT(4, "max"),
    FLOAT(5, "mean"),
    FLOAT(6, "std"),
    WORD(8, "variance_norm", variances),
    END,
};
FIELDS(rule) = {
    WORD(1, "phase", phases), WHOLE(2, "min_level"), WHOLE(3, "max_level"),
    TEXT(4, "stage"),         TEXT(5, "not_stage"),  END,
};
FIELDS(param) = {TEXT(1, "name"), FLOAT(3, "lr_mult"), FLOAT(4, "decay_mult"), END};
FIELDS(argmax) = {WHOLE(1, "out_max_val"), WHOLE(2, "top_k"), WHOLE(3, "axis"), END};
FIELDS(concat) = {WHOLE(1, "concat_dim"), WHOLE(2, "axis"), END};
FIELDS(convolution) = {
    WHOLE(1, "num_output"),
    WHOLE(2, "bias_term"),
    WHOLE(3, "pad"),
    WHOLE(4, "kernel_size"),
    WHOLE(5, "group"),
    WHOLE(6, "stride"),
    MESSAGE(7, "weight_filler", filler),
    MESSAGE(8, "bias_filler", filler),
    WHOLE(9, "pad_h"),
    WHOLE(10, "pad_w"),
    WHOLE(11, "kernel_h"),
    WHOLE(12, "kernel_w"),
    WHOLE(13, "stride_h"),
    WHOLE(14, "stride_w"),
    WHOLE(16, "axis"),
    WHOLE(18, "dilation"),
    END,
};
FIELDS(dropout) = {FLOAT(1, "dropout_ratio"), END};
FIELDS(dummy) = {
    WHOLE(2, "num"),   WHOLE(3, "channels"),       WHOLE(4, "height"),
    WHOLE(5, "width"), MESSAGE(6, "shape", shape), END,
};
FIELDS(eltwise) = {WORD(1, "operation", elementwise), FLOAT(2, "coeff"), END};
FIELDS(exponential) = {FLOAT(1, "base"), FLOAT(2, "scale"), FLOAT(3, "shift"), END};
FIELDS(product) = {
    WHOLE(1, "num_output"),
    WHOLE(2, "bias_term"),
    MESSAGE(3, "weight_filler", filler),
    MESSAGE(4, "bias_filler", filler),
    WHOLE(5, "axis"),
    WHOLE(6, "transpose"),
    END,
};
FIELDS(local) = {
    WHOLE(1, "local_size"),          FLOAT(2, "alpha"), FLOAT(3, "beta"),
    WORD(4, "norm_region", regions), FLOAT(5, "k"),     END,
};
FIELDS(memory) = {WHOLE(1, "batch_size"), WHOLE(2, "channels"), WHOLE(3, "height"), WHOLE(4, "width"), END};
FIELDS(pooling) = {
    WORD(1, "pool", pools),
    WHOLE(2, "kernel_size"),
    WHOLE(3, "stride"),
    WHOLE(4, "pad"),
    WHOLE(5, "kernel_h"),
    WHOLE(6, "kernel_w"),
    WHOLE(7, "stride_h"),
    WHOLE(8, "stride_w"),
    WHOLE(9, "pad_h"),
    WHOLE(10, "pad_w"),
    WHOLE(12, "global_pooling"),
    WORD(13, "round_mode", roundings),
    END,
};
FIELDS(power) = {FLOAT(1, "power"), FLOAT(2, "scale"), FLOAT(3, "shift"), END};
FIELDS(relu) = {FLOAT(1, "negative_slope"), END};
FIELDS(slice) = {WHOLE(1, "slice_dim"), WHOLE(2, "slice_point"), WHOLE(3, "axis"), END};
FIELDS(softmax) = {WHOLE(2, "axis"), END};
FIELDS(threshold) = {FLOAT(1, "threshold"), END};
FIELDS(prelu) = {MESSAGE(1, "filler", filler), WHOLE(2, "channel_shared"), END};
FIELDS(reshape) = {MESSAGE(1, "shape", shape), WHOLE(2, "axis"), WHOLE(3, "num_axes"), END};
FIELDS(flatten) = {WHOLE(1, "axis"), WHOLE(2, "end_axis"), END};
FIELDS(reduction) = {WORD(1, "operation", reductions), WHOLE(2, "axis"), FLOAT(3, "coeff"), END};
FIELDS(tile) = {WHOLE(1, "axis"), WHOLE(2, "tiles"), END};
FIELDS(batch_norm) = {WHOLE(1, "use_global_stats"), FLOAT(2, "moving_average_fraction"), FLOAT(3, "eps"),
                      END};
FIELDS(elu) = {FLOAT(1, "alpha"), END};
FIELDS(bias) = {WHOLE(1, "axis"), WHOLE(2, "num_axes"), MESSAGE(3, "filler", filler), END};
FIELDS(scale) = {
    WHOLE(1, "axis"),
    WHOLE(2, "num_axes"),
    MESSAGE(3, "filler", filler),
    WHOLE(4, "bias_term"),
    MESSAGE(5, "bias_filler", filler),
    END,
};
FIELDS(input) = {MESSAGE(1, "shape", shape), END};
FIELDS(crop) = {WHOLE(1, "axis"), WHOLE(2, "offset"), END};
FIELDS(swish) = {FLOAT(1, "beta"), END};
FIELDS(clip) = {FLOAT(1, "min"), FLOAT(2, "max"), END};
FIELDS(permute) = {WHOLE(1, "order"), END};

FIELDS(layer) = {
    TEXT(1, "name"),
    TEXT(2, "type"),
    TEXT(3, "bottom"),
    TEXT(4, "top"),
    MESSAGE(6, "param", param),
    MESSAGE(7, "blobs", blob),
    MESSAGE(8, "include", rule),
    MESSAGE(9, "exclude", rule),
    MESSAGE(103, "argmax_param", argmax),
    MESSAGE(104, "concat_param", concat),
    MESSAGE(106, "convolution_param", convolution),
    MESSAGE(108, "dropout_param", dropout),
    MESSAGE(109, "dummy_data_param", dummy),
    MESSAGE(110, "eltwise_param", eltwise),
    MESSAGE(111, "exp_param", exponential),
    MESSAGE(117, "inner_product_param", product),
    MESSAGE(118, "lrn_param", local),
    MESSAGE(119, "memory_data_param", memory),
    MESSAGE(121, "pooling_param", pooling),
    MESSAGE(122, "power_param", power),
    MESSAGE(123, "relu_param", relu),
    MESSAGE(125, "softmax_param", softmax),
    MESSAGE(126, "slice_param", slice),
    MESSAGE(128, "threshold_param", threshold),
    MESSAGE(131, "prelu_param", prelu),
    MESSAGE(133, "reshape_param", reshape),
    MESSAGE(134, "log_param", exponential),
    MESSAGE(135, "flatten_param", flatten),
    MESSAGE(136, "reduction_param", reduction),
    MESSAGE(138, "tile_param", tile),
    MESSAGE(139, "batch_norm_param", batch_norm),
    MESSAGE(140, "elu_param", elu),
    MESSAGE(141, "bias_param", bias),
    MESSAGE(142, "scale_param", scale),
    MESSAGE(143, "input_param", input),
    MESSAGE(144, "crop_param", crop),
    MESSAGE(147, "swish_param", swish),
    MESSAGE(148, "clip_param", clip),
    MESSAGE(202, "permute_param", permute),
    END,
};
/* Layers of the first format (V0) have different field numbers. */
FIELDS(oldest_layer) = {TEXT(1, "name"), END};
FIELDS(first_layer) = {
    MESSAGE(1, "layer", oldest_layer),
    TEXT(2, "bottom"),
    TEXT(3, "top"),
    TEXT(4, "name"),
    WORD(5, "type", first_types),
    MESSAGE(6, "blobs", blob),
    FLOAT(7, "blobs_lr"),
    MESSAGE(9, "concat_param", concat),
    MESSAGE(10, "convolution_param", convolution),
    MESSAGE(12, "dropout_param", dropout),
    MESSAGE(17, "inner_product_param", product),
    MESSAGE(18, "lrn_param", local),
    MESSAGE(19, "pooling_param", pooling),
    MESSAGE(21, "power_param", power),
    MESSAGE(22, "memory_data_param", memory),
    MESSAGE(23, "argmax_param", argmax),
    MESSAGE(24, "eltwise_param", eltwise),
    MESSAGE(25, "threshold_param", threshold),
    MESSAGE(26, "dummy_data_param", dummy),
    MESSAGE(30, "relu_param", relu),
    MESSAGE(31, "slice_param", slice),
    MESSAGE(32, "include", rule),
    MESSAGE(33, "exclude", rule),
    MESSAGE(39, "softmax_param", softmax),
    MESSAGE(41, "exp_param", exponential),
    TEXT(1001, "param"),
    END,
};

const kn_caffe_about kn_caffe_net_fields[] = {
    TEXT(1, "name"),
    MESSAGE(2, "layers", first_layer),
    TEXT(3, "input"),
    WHOLE(4, "input_dim"),
    MESSAGE(8, "input_shape", shape),
    MESSAGE(100, "layer", layer),
    END,
};

kn_caffe_item *kn_caffe_add(kn_caffe_reader *in, kn_caffe_item ***last, const char *name, kn_caffe_kind kind,
                            uint64_t position) {
    if (++in->items > KN_CAFFE_ITEMS) {
        kn_fail(in->error, KN_ERROR_FORMAT, "%s: has more than %d fields", in->name, KN_CAFFE_ITEMS);
        return NULL;
    }
    kn_caffe_item *item = kn_arena_take(&in->net->arena, 1, sizeof *item);
    if (!item) {
        kn_fail_memory(in->error, sizeof *item);
        return NULL;
    }
    item->name = name;
    item->kind = kind;
    item->position = position;
    **last = item;
    *last = &item->next;
    return item;
}

const char *kn_caffe_keep_text(kn_caffe_reader *in, const void *bytes, size_t count) {
    const uint8_t *from = bytes;
    if (count > KN_CAFFE_NAME_BYTES) {
        kn_fail(in->error, KN_ERROR_FORMAT, "%s: has a string of %zu bytes; expected at most %d", in->name,
                count, KN_CAFFE_NAME_BYTES);
        return NULL;
    }
    char *text = kn_arena_take(&in->net->arena, count + 1, 1);
    if (!text) kn_fail_memory(in->error, count + 1);
    for (size_t i = 0; text && i < count;) {
        uint32_t code;
        size_t length = kn_utf8_read(from + i, count - i, &code);
        if (length == 0 || code < 32 || code == 127) {
            text[i++] = '?';
        } else {
            memcpy(text + i, from + i, length);
            i += length;
        }
    }
    return text;
}
