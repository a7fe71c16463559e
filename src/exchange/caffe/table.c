/* Caffe layer types, and the functions that write them. */
#include "exchange/caffe/caffe.h"

#define MOST KN_MAX_INPUTS
#define ROW(type, first, param, least, most, function)                                                       \
    { type, first, param, least, most, function, KN_CAFFE_MAKES, "" }
#define READS(type, first, param)                                                                            \
    { type, first, param, 0, 0, NULL, KN_CAFFE_READS, "" }
#define LOSES(type, first, lines)                                                                            \
    { type, first, NULL, 0, 0, NULL, KN_CAFFE_LOSES, lines }

const kn_caffe_row kn_caffe_table[] = {
    ROW("AbsVal", "ABSVAL", NULL, 1, 1, kn_caffe_plain),
    ROW("ArgMax", "ARGMAX", "argmax_param", 1, 1, kn_caffe_argmax),
    ROW("BatchNorm", NULL, "batch_norm_param", 1, 1, kn_caffe_batch_norm),
    ROW("Bias", NULL, "bias_param", 1, 2, kn_caffe_bias),
    ROW("BNLL", NULL, NULL, 1, 1, kn_caffe_plain),
    ROW("Clip", NULL, "clip_param", 1, 1, kn_caffe_clip),
    ROW("Concat", "CONCAT", "concat_param", 1, MOST, kn_caffe_concat),
    ROW("Convolution", "CONVOLUTION", "convolution_param", 1, 1, kn_caffe_convolution),
    ROW("ConvolutionDepthwise", NULL, "convolution_param", 1, 1, kn_caffe_convolution),
    ROW("DepthwiseConvolution", NULL, "convolution_param", 1, 1, kn_caffe_convolution),
    ROW("Crop", NULL, "crop_param", 2, 2, kn_caffe_crop),
    ROW("Deconvolution", "DECONVOLUTION", "convolution_param", 1, 1, kn_caffe_deconvolution),
    ROW("Dropout", "DROPOUT", "dropout_param", 1, 1, kn_caffe_dropout),
    ROW("Eltwise", "ELTWISE", "eltwise_param", 1, MOST, kn_caffe_eltwise),
    ROW("ELU", NULL, "elu_param", 1, 1, kn_caffe_elu),
    ROW("Exp", "EXP", "exp_param", 1, 1, kn_caffe_exp),
    ROW("Flatten", "FLATTEN", "flatten_param", 1, 1, kn_caffe_flatten),
    ROW("InnerProduct", "INNER_PRODUCT", "inner_product_param", 1, 1, kn_caffe_inner_product),
    ROW("Log", NULL, "log_param", 1, 1, kn_caffe_log),
    ROW("LRN", NULL, "lrn_param", 1, 1, kn_caffe_lrn),
    ROW("Permute", NULL, "permute_param", 1, 1, kn_caffe_permute),
    ROW("Pooling", "POOLING", "pooling_param", 1, 1, kn_caffe_pooling),
    ROW("Power", "POWER", "power_param", 1, 1, kn_caffe_power),
    ROW("PReLU", NULL, "prelu_param", 1, 1, kn_caffe_prelu),
    ROW("Reduction", NULL, "reduction_param", 1, 1, kn_caffe_reduction),
    ROW("ReLU", "RELU", "relu_param", 1, 1, kn_caffe_relu),
    ROW("Reshape", NULL, "reshape_param", 1, 1, kn_caffe_reshape),
    ROW("Scale", NULL, "scale_param", 1, 2, kn_caffe_scale),
    ROW("Sigmoid", "SIGMOID", NULL, 1, 1, kn_caffe_plain),
    ROW("Slice", "SLICE", "slice_param", 1, 1, kn_caffe_slice),
    ROW("Softmax", "SOFTMAX", "softmax_param", 1, 1, kn_caffe_softmax),
    ROW("Split", "SPLIT", NULL, 1, 1, kn_caffe_split),
    ROW("Swish", NULL, "swish_param", 1, 1, kn_caffe_swish),
    ROW("TanH", "TANH", NULL, 1, 1, kn_caffe_plain),
    ROW("Threshold", "THRESHOLD", "threshold_param", 1, 1, kn_caffe_threshold),
    ROW("Tile", NULL, "tile_param", 1, 1, kn_caffe_tile),

    READS("Input", NULL, "input_param"),
    READS("DummyData", "DUMMY_DATA", "dummy_data_param"),
    READS("MemoryData", "MEMORY_DATA", "memory_data_param"),
    READS("Data", "DATA", NULL),
    READS("ImageData", "IMAGE_DATA", NULL),
    READS("HDF5Data", "HDF5_DATA", NULL),
    READS("WindowData", "WINDOW_DATA", NULL),

    LOSES("SoftmaxWithLoss", "SOFTMAX_LOSS", ""),
    LOSES("Accuracy", "ACCURACY", ""),
    LOSES("EuclideanLoss", "EUCLIDEAN_LOSS", "task regression\n"),
    LOSES("SigmoidCrossEntropyLoss", "SIGMOID_CROSS_ENTROPY_LOSS",
          "task regression\nloss binary-cross-entropy\n"),
    LOSES("HingeLoss", "HINGE_LOSS", ""),
    LOSES("InfogainLoss", "INFOGAIN_LOSS", ""),
    LOSES("MultinomialLogisticLoss", "MULTINOMIAL_LOGISTIC_LOSS", ""),
    LOSES("ContrastiveLoss", "CONTRASTIVE_LOSS", ""),
    LOSES("HDF5Output", "HDF5_OUTPUT", ""),
    {"Silence", "SILENCE", NULL, 0, 0, NULL, KN_CAFFE_SILENT, ""},
};
const int kn_caffe_table_count = (int)KN_COUNT_OF(kn_caffe_table);
