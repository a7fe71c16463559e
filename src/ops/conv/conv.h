/* Shared by the files of the convolutions. */
#ifndef KN_CONV_PRIVATE_H
#define KN_CONV_PRIVATE_H

#include "ops/matmul/product.h"
#include "ops/row.h"

/* The sizes of a convolution y (images,outputs,out_height,out_width) of x (images,channels,height,width) with
 * weight (outputs,channels/groups,filter_height,filter_width), for all three rows. */
typedef struct kn_conv_form {
    int64_t images, channels, height, width, outputs, out_height, out_width, filter_height, filter_width;
    int64_t stride[2], padding[4], dilation[2], groups;
} kn_conv_form;
void kn_conv_describe(const kn_node *node, kn_conv_form *form);
/* The shape of a forward convolution: x is (N,C,H,W), weight (K,C/groups,R,S), the result (N,K,P,Q) of a
 * type. */
kn_status kn_conv_shape(kn_shape_call *call, kn_dtype dtype);
void kn_conv_cost(const kn_node *node, kn_cost *cost);
/* Of a convolution, forward with optional zero points x_zero () and zeros () or (K) as inputs 2 and 3, and of
 * its gradients. */
kn_status kn_conv_reference(kn_reference_call *call);
extern const kn_operator kn_row_conv2d, kn_row_conv2d_data, kn_row_conv2d_weight, kn_row_average_pool;

/* bind.c: describes the convolution to a kernel. */
void kn_conv_bind(kn_step *step, const kn_conv_form *form);
/* Configurations of winograd.c and winograd_tiled.c: a tile of 2 or 4; on wide-vector devices transforms and
 * products in separate launches. Of wide.c and first.c: the source is plain; the result is padded in scratch
 * memory. Of implicit.c: a kn_product_way. */
enum { KN_CONV_TILE = 7, KN_CONV_PHASES = 8, KN_CONV_PLAIN = 1, KN_CONV_PADDED = 2 };

/* implicit.c */
kn_status kn_conv_implicit_lower(kn_lowering *lowering);
/* On a matrix unit, if the first operand has 16 bits. */
bool kn_conv_matrix_accepts(const kn_target *target, const kn_node *node);
/* Float32, with each element split into two bfloat16. */
bool kn_conv_matrix_split_accepts(const kn_target *target, const kn_node *node);
bool kn_conv_direct_accepts(const kn_target *target, const kn_node *node);
/* The convolution as a matrix product for kernels of `file`, not yet planned. The gradient of the data has
 * one product per phase of the stride and group; its depth is that of the phase with the most taps. */
kn_product kn_conv_product(const kn_target *target, const kn_node *node, const kn_conv_form *form,
                           const char *file, kn_product_way way);
/* For reports: sets the depth of a data gradient to the average over its phases. */
void kn_conv_report_phases(kn_product *product, const kn_node *node, const kn_conv_form *form);
/* blocked.c: the same for blocked images. */
bool kn_conv_blocked_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_blocked_lower(kn_lowering *lowering);
/* plain.c */
kn_status kn_conv_plain_lower(kn_lowering *lowering);
/* depthwise.c */
bool kn_conv_depthwise_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_depthwise_lower(kn_lowering *lowering);
/* depthwise_wide.c */
bool kn_conv_depthwise_wide_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_depthwise_wide_lower(kn_lowering *lowering);
/* wide.c */
bool kn_conv_wide_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_wide_lower(kn_lowering *lowering);
bool kn_conv_wide_first_accepts(const kn_target *target, const kn_node *node);
bool kn_conv_wide_last_accepts(const kn_target *target, const kn_node *node);
bool kn_conv_wide_padded_accepts(const kn_target *target, const kn_node *node);
/* 1x1 filters with stride 1 and no padding: both sides have the same pixels. */
bool kn_conv_is_pointwise(const kn_conv_form *form);
/* first.c */
bool kn_conv_first_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_first_lower(kn_lowering *lowering);
bool kn_conv_first_padded_accepts(const kn_target *target, const kn_node *node);
/* transposed.c: for at_sizes (graph/operator.h) of conv2d_data. */
kn_status kn_conv_transposed_at_sizes(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                      kn_value **results);
/* Adds the parts of a filter gradient dw (channels,taps), each (blocks of channels,taps,lanes), in order. */
kn_status kn_conv_depthwise_sum(kn_lowering *lowering, int partials, int64_t channels, int64_t taps,
                                int64_t parts);
/* grouped.c: blocked images; others are padded. */
bool kn_conv_grouped_accepts(const kn_target *target, const kn_node *node);
bool kn_conv_grouped_padded_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_grouped_lower(kn_lowering *lowering);
/* rows.c */
bool kn_conv_rows_accepts(const kn_target *target, const kn_node *node);
kn_status kn_conv_rows_lower(kn_lowering *lowering);
/* A depthwise convolution with the 1x1 convolution that produces its input fused into it. */
bool kn_conv_fused_depthwise_fuses(const kn_target *target, const kn_node *node, const kn_node *before);
kn_status kn_conv_fused_depthwise_lower(kn_lowering *lowering);
/* winograd.c */
bool kn_conv_winograd_accepts(const kn_target *target, const kn_node *node);
bool kn_conv_winograd_pays(const kn_target *target, const kn_node *node, int config, bool filter_stays);
kn_status kn_conv_winograd_lower(kn_lowering *lowering);
/* winograd_tiled.c */
bool kn_conv_winograd_tiled_accepts(const kn_target *target, const kn_node *node);
bool kn_conv_winograd_tiled_pays(const kn_target *target, const kn_node *node, int config, bool filter_stays);
kn_status kn_conv_winograd_tiled_lower(kn_lowering *lowering);
bool kn_conv_winograd_tiled_expected(const kn_target *target, const kn_node *node);

#endif
