/* Filters and images as the wide-vector kernels of cl/conv read them: packed filters, blocked images. */
#ifndef KN_CONV_PACKING_H
#define KN_CONV_PACKING_H

#include "ops/conv/conv.h"

/* A packed filter, from `sources` channels of a group to `targets`. */
typedef struct kn_packed_filter {
    int64_t width, vectors, lanes, groups, targets, sources, taps, panels, columns, floats;
    int scratch;
} kn_packed_filter;
/* The packed filter of a convolution or (`swapped`) of its data gradient, from targets to sources; `plain`:
 * single sources instead of vectors of them. */
kn_packed_filter kn_conv_packed_filter(const kn_target *target, const kn_conv_form *form, bool swapped,
                                       bool plain);
/* Begins a step whose kernel has KN_WIDTH and KN_VECTORS. */
kn_step *kn_conv_begin(kn_lowering *lowering, const kn_packed_filter *filter, const char *file,
                       const char *kernel);
/* Computes columns, panels and floats from the other fields. */
void kn_conv_panels(kn_packed_filter *pack);
/* Packs a weight into scratch memory; `swapped`: from the targets of the convolution to its sources. */
kn_status kn_conv_pack(kn_lowering *lowering, kn_packed_filter *pack, kn_value *weight, bool swapped);
/* Adds the packed parts of a weight's gradient in order and stores it in the plain layout. */
kn_status kn_conv_unpack(kn_lowering *lowering, const kn_packed_filter *filter, int scratch, int64_t parts);
/* Allocates scratch memory for images (images,channels,pixels) in blocks, with channels padded to whole
 * blocks. */
int kn_conv_padded_scratch(kn_lowering *lowering, const kn_packed_filter *pack, int64_t images,
                           int64_t channels, int64_t pixels);
/* Converts images (images,channels,pixels) from blocks in scratch memory to `plain`, with the epilogue,
 * or with `blocking` from `plain` to blocks. */
kn_status kn_conv_emit_blocks(kn_lowering *lowering, const kn_packed_filter *pack, kn_value *plain,
                              int scratch, int64_t images, int64_t channels, int64_t pixels, bool blocking);
/* The pixels of a tile for this many vectors (KN_ROWS of cl/common/pixel_tile.cl). */
int64_t kn_conv_tile_rows(const kn_packed_filter *filter);
/* Describes the convolution to a wide-vector kernel. swapped: it reads y and computes x. */
void kn_conv_bind_wide(kn_step *step, const kn_conv_form *form, bool swapped);
/* Lets the step collect statistics (cl/common/statistics.cl), if requested, in parts of `part` pixels of the
 * result's `channels`. Call after adding the step's other arguments, before its epilogue. */
void kn_conv_gather(kn_lowering *lowering, kn_step *step, int64_t channels, int64_t parts, int64_t part);

#endif
