/* Windows over images, for convolutions and pooling. */
#ifndef KN_CONV_WINDOW_H
#define KN_CONV_WINDOW_H

#include "ops/build.h"

/* Completes attribute lists: stride and dilation to 2, padding to 4 (top, left, bottom, right). */
kn_status kn_window_lists(kn_shape_call *call);
/* The size of the result along one axis (0 height, 1 width) for a window of `size` with its dilation. With
 * `same` the padding is computed too; with `lower` an odd line of it comes before the image. */
kn_status kn_window_size(kn_shape_call *call, int axis, int64_t size, bool same, bool lower, kn_dim *result);
/* A pair of a parameter struct: 0 means `usual` in the first element, and the first element in the second. */
void kn_window_pair(kn_settings *settings, const char *name, const int64_t pair[2], int64_t usual);
/* Padding (top, left, bottom, right). Unless `all`: if only the first is set, it applies to all sides; if the
 * first two are, bottom and right repeat them. */
void kn_window_padding(kn_settings *settings, const int64_t padding[4], bool all);
/* Converts settings along a length L to those of 1 x L images: the first of a pair becomes the second. In
 * padding (before, after) a 0 in the second repeats the first, unless `all`. */
void kn_window_length(int64_t pair[2], int64_t usual);
void kn_window_length_padding(int64_t padding[4], bool all);
/* (N,C,L) reshaped to (N,C,1,L), and back with the name of a layer (NULL: a generated name). */
kn_value *kn_as_images(kn_value *x);
kn_value *kn_as_lengths(kn_value *images, const char *name);

#endif
