/* The kinds of layers of layers_shape.c, layers_measures.c, layers_compare.c and layers_sound.c: their rows
 * in the table of layers. */
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

/* A list as the public API wants it: "1,-1". */
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
    {.name = "einsum", .help = "sums of products by letters", .least_inputs = 1, .most_inputs = KN_MAX_INPUTS,\
     .arguments = kn_einsum_arguments, .argument_count = 1, .build = kn_build_einsum},                       \
    {.name = "gather_nd", .help = "elements or slices of x at places (...,K) in its axes", .least_inputs = 2,\
     .most_inputs = 2, .arguments = kn_gather_nd_arguments, .argument_count = 1, .build = kn_build_gather_nd},\
    KN_SHAPE_LAYER("squeeze", "axes of size 1 left out", NULL,                                               \
                   kn_squeeze_arguments, kn_build_squeeze),                                                  \
    KN_SHAPE_LAYER("unsqueeze", "axes of size 1 put in", "expand_dims",                                      \
                   kn_unsqueeze_arguments, kn_build_unsqueeze),                                              \
    KN_SHAPE_LAYER("tile", "the value several times along its last axes", NULL,                              \
                   kn_tile_arguments, kn_build_tile),                                                        \
    KN_SHAPE_LAYER("repeat_elements", "each element several times along an axis", "repeat_interleave",       \
                   kn_repeat_arguments, kn_build_repeat),                                                    \
    KN_SHAPE_LAYER("depth_to_space", "channels become pixels: (N,C*b*b,H,W) to (N,C,H*b,W*b)",               \
                   "pixel_shuffle pixelshuffle",                                                             \
                   kn_block_arguments, kn_build_depth_to_space),                                             \
    KN_SHAPE_LAYER("space_to_depth", "pixels become channels: (N,C,H*b,W*b) to (N,C*b*b,H,W)",               \
                   "pixel_unshuffle",                                                                        \
                   kn_block_arguments, kn_build_space_to_depth),                                             \
    KN_SHAPE_LAYER("tril", "0 above a diagonal of the last two axes", NULL,                                  \
                   kn_triangle_arguments, kn_build_tril),                                                    \
    KN_SHAPE_LAYER("triu", "0 below a diagonal of the last two axes", NULL,                                  \
                   kn_triangle_arguments, kn_build_triu),                                                    \
    KN_SHAPE_LAYER("upsample", "images brought to another height and width", "interpolate resize2d",         \
                   kn_image_size_arguments, kn_build_image_size),                                            \
    KN_SHAPE_LAYER("padimage", "images padded by their own pixels",                                          \
                   "reflect_pad reflection_pad replication_pad",                                             \
                   kn_mode_padding_arguments, kn_build_mode_padding),                                          \
    KN_SHAPE_LAYER("argmax", "where the largest element along an axis stands, as int32", NULL,               \
                   kn_place_arguments, kn_build_argmax),                                                     \
    KN_SHAPE_LAYER("argmin", "where the smallest element along an axis stands, as int32", NULL,              \
                   kn_place_arguments, kn_build_argmin),                                                     \
    KN_SHAPE_LAYER("one_hot", "1 at the number, 0 elsewhere, along a new axis", "onehot",                    \
                   kn_one_hot_arguments, kn_build_one_hot),                                                  \
    KN_SHAPE_LAYER("reduce_prod", "products along axes", "prod",                                             \
                   kn_measure_arguments, kn_build_reduce_prod),                                              \
    KN_SHAPE_LAYER("reduce_l1", "sums of sizes along axes", NULL,                                            \
                   kn_measure_arguments, kn_build_reduce_l1),                                                \
    KN_SHAPE_LAYER("reduce_l2", "roots of the sums of squares along axes", "norm",                           \
                   kn_measure_arguments, kn_build_reduce_l2),                                                \
    KN_SHAPE_LAYER("reduce_sum_square", "sums of squares along axes", NULL,                                  \
                   kn_measure_arguments, kn_build_reduce_sum_square),                                        \
    KN_SHAPE_LAYER("reduce_log_sum", "logarithms of sums along axes", NULL,                                  \
                   kn_measure_arguments, kn_build_reduce_log_sum),                                           \
    KN_SHAPE_LAYER("reduce_log_sum_exp", "logarithms of sums of exponentials along axes", "logsumexp",       \
                   kn_measure_arguments, kn_build_reduce_log_sum_exp),                                       \
    {.name = "stack", .help = "values of one shape along a new axis", .least_inputs = 1, \
     .most_inputs = KN_MAX_INPUTS, .arguments = kn_stack_arguments, .argument_count = 1, .build = kn_build_stack},\
    {.name = "cosine_similarity", .help = "the cosine between rows (...,D) of two values", .least_inputs = 2,\
     .most_inputs = 2, .build = kn_build_cosine_similarity},                                                 \
    {.name = "cosine_embedding", .help = "a loss: rows of the first two alike where the third is 1, not where -1",\
     .least_inputs = 3, .most_inputs = 3, .arguments = kn_least_arguments, .argument_count = 1,              \
     .build = kn_build_cosine_embedding},                                                                    \
    {.name = "triplet_margin", .help = "a loss: rows of the first nearer to the second's than to the third's",\
     .least_inputs = 3, .most_inputs = 3, .arguments = kn_apart_arguments, .argument_count = 1,              \
     .build = kn_build_triplet_margin},                                                                      \
    {.name = "margin_ranking", .help = "a loss: the first above the second where the third is 1, below where -1",\
     .least_inputs = 3, .most_inputs = 3, .arguments = kn_least_arguments, .argument_count = 1,              \
     .build = kn_build_margin_ranking},                                                                      \
    KN_SHAPE_LAYER("spectrogram", "how loud a sound is by time and pitch: (N,1,samples) to (N,1,windows,bands)",\
                   "mel melspectrogram mel_spectrogram stft fft logmel",                                     \
                   kn_spectrogram_arguments, kn_build_spectrogram)
/* clang-format on */

#endif
