/* Rows of the layer table for layers_shape.c, layers_measures.c, layers_compare.c and layers_sound.c. */
#ifndef KN_LAYERS_SHAPE_H
#define KN_LAYERS_SHAPE_H

#include "models/models_private.h"

extern const kn_option kn_einsum_arguments[1];
extern const kn_option kn_squeeze_arguments[1];
extern const kn_option kn_unsqueeze_arguments[1];
extern const kn_option kn_tile_arguments[1];
extern const kn_option kn_repeat_arguments[2];
extern const kn_option kn_block_arguments[2];
extern const kn_option kn_triangle_arguments[1];
extern const kn_option kn_image_size_arguments[4];
extern const kn_option kn_mode_padding_arguments[2];
extern const kn_option kn_place_arguments[2];
extern const kn_option kn_one_hot_arguments[2];
extern const kn_option kn_gather_nd_arguments[1];
extern const kn_option kn_measure_arguments[2];
extern const kn_option kn_apart_arguments[1];
extern const kn_option kn_least_arguments[1];
extern const kn_option kn_stack_arguments[1];
extern const kn_option kn_spectrogram_arguments[8];

/* A list in the form of the public API: "1,-1". */
const char *kn_option_list_text(const kn_option_value *value, char *text, size_t bytes);

kn_value *kn_build_squeeze(kn_layer_call *call);
kn_value *kn_build_unsqueeze(kn_layer_call *call);
kn_value *kn_build_tile(kn_layer_call *call);
kn_value *kn_build_repeat(kn_layer_call *call);
kn_value *kn_build_depth_to_space(kn_layer_call *call);
kn_value *kn_build_space_to_depth(kn_layer_call *call);
kn_value *kn_build_tril(kn_layer_call *call);
kn_value *kn_build_triu(kn_layer_call *call);
kn_value *kn_build_image_size(kn_layer_call *call);
kn_value *kn_build_mode_padding(kn_layer_call *call);
kn_value *kn_build_argmax(kn_layer_call *call);
kn_value *kn_build_argmin(kn_layer_call *call);
kn_value *kn_build_one_hot(kn_layer_call *call);
kn_value *kn_build_gather_nd(kn_layer_call *call);
kn_value *kn_build_einsum(kn_layer_call *call);
kn_value *kn_build_stack(kn_layer_call *call);
kn_value *kn_build_cosine_similarity(kn_layer_call *call);
kn_value *kn_build_cosine_embedding(kn_layer_call *call);
kn_value *kn_build_triplet_margin(kn_layer_call *call);
kn_value *kn_build_margin_ranking(kn_layer_call *call);
kn_value *kn_build_reduce_prod(kn_layer_call *call);
kn_value *kn_build_reduce_l1(kn_layer_call *call);
kn_value *kn_build_reduce_l2(kn_layer_call *call);
kn_value *kn_build_reduce_sum_square(kn_layer_call *call);
kn_value *kn_build_reduce_log_sum(kn_layer_call *call);
kn_value *kn_build_reduce_log_sum_exp(kn_layer_call *call);
kn_value *kn_build_spectrogram(kn_layer_call *call);

/* clang-format off */
#define KN_SHAPE_LAYER(word, about, others, list, function)                                                  \
    {.name = word, .help = about, .also = others, .least_inputs = 1, .most_inputs = 1,                       \
     .arguments = list, .argument_count = (int)KN_COUNT_OF(list), .build = function}
#define KN_SHAPE_LAYERS                                                                                      \
    {.name = "einsum", .help = "Einstein summation", .least_inputs = 1, .most_inputs = KN_MAX_INPUTS,\
     .arguments = kn_einsum_arguments, .argument_count = 1, .build = kn_build_einsum},                       \
    {.name = "gather_nd", .help = "elements or slices of x at indices (...,K)", .least_inputs = 2,\
     .most_inputs = 2, .arguments = kn_gather_nd_arguments, .argument_count = 1, .build = kn_build_gather_nd},\
    KN_SHAPE_LAYER("squeeze", "removes axes of size 1", NULL,                                               \
                   kn_squeeze_arguments, kn_build_squeeze),                                                  \
    KN_SHAPE_LAYER("unsqueeze", "inserts axes of size 1", "expand_dims",                                      \
                   kn_unsqueeze_arguments, kn_build_unsqueeze),                                              \
    KN_SHAPE_LAYER("tile", "repeats the value along its last axes", NULL,                              \
                   kn_tile_arguments, kn_build_tile),                                                        \
    KN_SHAPE_LAYER("repeat_elements", "repeats each element along an axis", "repeat_interleave",       \
                   kn_repeat_arguments, kn_build_repeat),                                                    \
    KN_SHAPE_LAYER("depth_to_space", "channels become pixels: (N,C*b*b,H,W) to (N,C,H*b,W*b)",               \
                   "pixel_shuffle pixelshuffle",                                                             \
                   kn_block_arguments, kn_build_depth_to_space),                                             \
    KN_SHAPE_LAYER("space_to_depth", "pixels become channels: (N,C,H*b,W*b) to (N,C*b*b,H,W)",               \
                   "pixel_unshuffle",                                                                        \
                   kn_block_arguments, kn_build_space_to_depth),                                             \
    KN_SHAPE_LAYER("tril", "lower triangle of the last two axes, 0 above", NULL,                                  \
                   kn_triangle_arguments, kn_build_tril),                                                    \
    KN_SHAPE_LAYER("triu", "upper triangle of the last two axes, 0 below", NULL,                                  \
                   kn_triangle_arguments, kn_build_triu),                                                    \
    KN_SHAPE_LAYER("upsample", "resizes images", "interpolate resize2d",         \
                   kn_image_size_arguments, kn_build_image_size),                                            \
    KN_SHAPE_LAYER("padimage", "pads images with their own pixels",                                          \
                   "reflect_pad reflection_pad replication_pad",                                             \
                   kn_mode_padding_arguments, kn_build_mode_padding),                                          \
    KN_SHAPE_LAYER("argmax", "index of the largest element along an axis, int32", NULL,               \
                   kn_place_arguments, kn_build_argmax),                                                     \
    KN_SHAPE_LAYER("argmin", "index of the smallest element along an axis, int32", NULL,              \
                   kn_place_arguments, kn_build_argmin),                                                     \
    KN_SHAPE_LAYER("one_hot", "1 at the index, 0 elsewhere, along a new axis", "onehot",                    \
                   kn_one_hot_arguments, kn_build_one_hot),                                                  \
    KN_SHAPE_LAYER("reduce_prod", "products along axes", "prod",                                             \
                   kn_measure_arguments, kn_build_reduce_prod),                                              \
    KN_SHAPE_LAYER("reduce_l1", "sums of absolute values along axes", NULL,                                            \
                   kn_measure_arguments, kn_build_reduce_l1),                                                \
    KN_SHAPE_LAYER("reduce_l2", "roots of the sums of squares along axes", "norm",                           \
                   kn_measure_arguments, kn_build_reduce_l2),                                                \
    KN_SHAPE_LAYER("reduce_sum_square", "sums of squares along axes", NULL,                                  \
                   kn_measure_arguments, kn_build_reduce_sum_square),                                        \
    KN_SHAPE_LAYER("reduce_log_sum", "logarithms of sums along axes", NULL,                                  \
                   kn_measure_arguments, kn_build_reduce_log_sum),                                           \
    KN_SHAPE_LAYER("reduce_log_sum_exp", "logarithms of sums of exponentials along axes", "logsumexp",       \
                   kn_measure_arguments, kn_build_reduce_log_sum_exp),                                       \
    {.name = "stack", .help = "joins values of equal shape along a new axis", .least_inputs = 1, \
     .most_inputs = KN_MAX_INPUTS, .arguments = kn_stack_arguments, .argument_count = 1, .build = kn_build_stack},\
    {.name = "cosine_similarity", .help = "cosine similarity of rows (...,D) of two values", .least_inputs = 2,\
     .most_inputs = 2, .build = kn_build_cosine_similarity},                                                 \
    {.name = "cosine_embedding", .help = "loss: rows of the first two values are similar where the third is 1, dissimilar where -1",\
     .least_inputs = 3, .most_inputs = 3, .arguments = kn_least_arguments, .argument_count = 1,              \
     .build = kn_build_cosine_embedding},                                                                    \
    {.name = "triplet_margin", .help = "loss: rows of the first value are nearer to the second than to the third",\
     .least_inputs = 3, .most_inputs = 3, .arguments = kn_apart_arguments, .argument_count = 1,              \
     .build = kn_build_triplet_margin},                                                                      \
    {.name = "margin_ranking", .help = "loss: the first value is above the second where the third is 1, below where -1",\
     .least_inputs = 3, .most_inputs = 3, .arguments = kn_least_arguments, .argument_count = 1,              \
     .build = kn_build_margin_ranking},                                                                      \
    KN_SHAPE_LAYER("spectrogram", "spectrogram of sounds: (N,1,samples) to (N,1,windows,bands)",\
                   "mel melspectrogram mel_spectrogram stft fft logmel",                                     \
                   kn_spectrogram_arguments, kn_build_spectrogram)
/* clang-format on */

#endif
