/* What the files of the convolutions share. */
#ifndef KN_CONV_PRIVATE_H
#define KN_CONV_PRIVATE_H

#include "ops/matmul/matmul.h"

/* The numbers of a convolution y (images,outputs,out_height,out_width) of x (images,channels,height,width)
 * with weight (outputs,channels/groups,filter_height,filter_width), for all three rows alike. */
typedef struct kn_conv_form {
    int64_t images, channels, height, width, outputs, out_height, out_width, filter_height, filter_width;
    int64_t stride[2], padding[4], dilation[2], groups;
} kn_conv_form;
void kn_conv_describe(const kn_node *node, kn_conv_form *form);
/* Sizes, stride, padding and dilation, as kernels for wide vectors take them. swapped: they read y and make
 * x. */
void kn_conv_add_sizes(kn_step *step, const kn_conv_form *form, bool swapped);
extern const kn_operator kn_row_conv2d, kn_row_conv2d_data, kn_row_conv2d_weight;

/* Windows over images, as convolutions and pooling use them (conv/window.c). Completes the lists of
 * attributes: stride and dilation to 2, padding to 4 (top, left, bottom, right). */
kn_status kn_window_lists(kn_shape_call *call);
/* The size of the result along one axis, 0 height or 1 width, for a window of `size` with its dilation. With
 * `same` the padding is worked out, too, and an odd line put before the image with `lower`. */
kn_status kn_window_size(kn_shape_call *call, int axis, int64_t size, bool same, bool lower, kn_dim *result);
/* As parameter structs have them: 0 means 1 in the first and the first in the second. */
void kn_window_pair(kn_settings *settings, const char *name, const int64_t pair[2], int64_t usual);
/* With `all` as it stands; otherwise only the first set: all alike; the first two: mirrored. */
void kn_window_padding(kn_settings *settings, const int64_t padding[4], bool all);
/* Numbers along a length L as those of images of 1 x L: the first of a pair becomes the second. Of padding
 * (before, behind) a 0 in the second repeats the first, unless `all`. */
void kn_window_length(int64_t pair[2], int64_t usual);
void kn_window_length_padding(int64_t padding[4], bool all);
/* (N,C,L) seen as (N,C,1,L), and back under the name of a layer (NULL: its own). */
kn_value *kn_as_images(kn_value *x);
kn_value *kn_as_lengths(kn_value *images, const char *name);

/* conv/implicit.c */
kn_status kn_conv_implicit_lower(kn_lowering *lowering);
/* conv/depthwise.c */
bool kn_conv_depthwise_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_depthwise_lower(kn_lowering *lowering);
/* conv/depthwise_wide.c */
bool kn_conv_depthwise_wide_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_depthwise_wide_lower(kn_lowering *lowering);
/* conv/wide.c */
bool kn_conv_wide_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_wide_lower(kn_lowering *lowering);
bool kn_conv_wide_first_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_wide_first_lower(kn_lowering *lowering);
bool kn_conv_wide_last_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_wide_last_lower(kn_lowering *lowering);
bool kn_conv_wide_padded_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_wide_padded_lower(kn_lowering *lowering);
void kn_conv_wide_sample(const kn_node *node, kn_sample *sample);
/* A filter as it is packed: from `sources` channels of a group to `targets`. */
typedef struct kn_packing {
    int64_t width, vectors, lanes, groups, targets, sources, taps, panels, columns, floats;
    int scratch;
} kn_packing;
/* That of a convolution's filter, or, `swapped`, from its targets to its sources; `plain`: sources one by
 * one, not by vectors of them. */
kn_packing kn_conv_packing(const kn_target *target, const kn_conv_form *form, bool swapped, bool plain);
/* The panels of one whose other numbers, vectors among them, are known. */
void kn_conv_panels(kn_packing *pack);
/* Packs a weight into scratch memory; `swapped`: from the targets of the convolution to its sources. */
kn_status kn_conv_pack(kn_lowering *lowering, kn_packing *pack, kn_value *weight, bool swapped);
/* Scratch memory for images (images,channels,pixels) whose channels fill no blocks, in blocks. */
int kn_conv_padded_scratch(kn_lowering *lowering, const kn_packing *pack, int64_t images, int64_t channels,
                           int64_t pixels);
/* x (images,channels,pixels), from blocks to plain with the epilogue, or the other way; scratch holds the
 * blocks. */
kn_status kn_conv_lower_blocks(kn_lowering *lowering, const kn_packing *pack, kn_value *plain, int scratch,
                               int64_t images, int64_t channels, int64_t pixels, bool blocking);
/* Pixels of the tile that goes with so many vectors (KN_ROWS of cl/common/pixel_tile.cl). */
int64_t kn_conv_tile_rows(const kn_packing *filter);
/* Filters of one pixel without padding, one pixel a step: both sides have the same pixels. */
bool kn_conv_is_pointwise(const kn_conv_form *form);
/* conv/first.c */
bool kn_conv_first_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_first_lower(kn_lowering *lowering);
bool kn_conv_first_padded_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_first_padded_lower(kn_lowering *lowering);
void kn_conv_first_sample(const kn_node *node, kn_sample *sample);
/* conv/fused_depthwise.c: a convolution with a filter for each channel that computes the one in front of it
 * on the way. */
bool kn_conv_depthwise_joins(const kn_target *target, const kn_node *node, const kn_node *before);
kn_status kn_conv_joined_lower(kn_lowering *lowering);
/* Behind a step's other arguments, before its epilogue: it gathers statistics (cl/common/statistics.cl),
 * where they are wanted, of so many parts of `part` of the result's `channels`. */
void kn_conv_gather(kn_lowering *lowering, kn_step *step, int64_t channels, int64_t parts, int64_t part);
/* conv/winograd.c */
bool kn_conv_winograd_accepts(const kn_target *target, const kn_node *node);
void kn_conv_winograd_sample(const kn_node *node, kn_sample *sample);
#define KN_WINOGRAD(name)                                                                                    \
    bool kn_conv_##name##_pays(const kn_target *target, const kn_node *node, bool invariant);                \
    kn_status kn_conv_##name##_lower(kn_lowering *lowering);
#define KN_WINOGRAD_WEIGHTS(name)                                                                            \
    bool kn_conv_##name##_weights_pays(const kn_target *target, const kn_node *node, bool invariant);        \
    kn_status kn_conv_##name##_weights_lower(kn_lowering *lowering);
KN_WINOGRAD_WEIGHTS(winograd4)
KN_WINOGRAD_WEIGHTS(winograd2)
void kn_conv_winograd_weights_sample(const kn_node *node, kn_sample *sample);
KN_WINOGRAD(winograd4)
KN_WINOGRAD(winograd4_phases)
KN_WINOGRAD(winograd2)
KN_WINOGRAD(winograd2_phases)

#endif
