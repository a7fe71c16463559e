/* What the files of matrix products and layers share. */
#ifndef KN_MATMUL_PRIVATE_H
#define KN_MATMUL_PRIVATE_H

#include "ops/ops_private.h"

#include <string.h>

/* A product with its leading dimensions joined: level 0 is the innermost. A stride of 0 repeats a matrix. */
enum { KN_MATMUL_LEVELS = KN_MAX_RANK };
typedef struct kn_matmul_form {
    bool transpose_a, transpose_b;
    int64_t m, n, k, batches;
    int levels;
    int64_t sizes[KN_MATMUL_LEVELS], a_strides[KN_MATMUL_LEVELS], b_strides[KN_MATMUL_LEVELS];
} kn_matmul_form;
void kn_matmul_describe(const kn_node *node, kn_matmul_form *form);
void kn_matmul_join_batches(kn_matmul_form *form, const kn_epilogue *epilogue);

/* Whether some node of the bound graph reads a value: hidden results nobody reads need not be written. */
bool kn_is_read(const kn_value *value);
/* Whether a result is too large for caches to hold until it is read: kernels may store it past them. */
bool kn_is_streamed(const kn_value *value);

/* matmul/tiled.c */
bool kn_matmul_tiled_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_tiled_lower(kn_lowering *lowering);
/* matmul/wide.c */
/* The numbers by which kernels of cl/matmul find a batch: outer and inner strides, b's as told. */
void kn_matmul_add_batches(kn_step *step, const kn_matmul_form *form, int64_t b_outer, int64_t b_inner);
bool kn_matmul_library_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_library_lower(kn_lowering *lowering);
bool kn_matmul_wide_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_wide_lower(kn_lowering *lowering);
bool kn_matmul_packed_accepts(const kn_target *target, const kn_node *node);
/* The same kernels with b packed before, once for weights that stay. */
kn_status kn_matmul_packed_lower(kn_lowering *lowering);

/* matmul/skinny.c: products that memory bounds, in place. ALONG: few rows times weights (N,K); ACROSS: few
 * rows times (K,N); SHALLOW: sums of few. */
typedef enum kn_skinny { KN_SKINNY_NOT, KN_SKINNY_ALONG, KN_SKINNY_ACROSS, KN_SKINNY_SHALLOW } kn_skinny;
kn_skinny kn_matmul_skinny_kind(const kn_node *node);
kn_status kn_matmul_skinny_lower(kn_lowering *lowering, kn_skinny kind);

/* ---- layers (matmul/matmul.c) -------------------------------------------------------------------------- */

extern const kn_operator kn_row_matmul;
/* The name that a person gave, in its scope, or the kind and a number. */
const char *kn_layer_name(kn_graph *graph, const char *given, const char *kind);
/* LAYER.NAME; NULL initializer: uniform within 1 / sqrt(fan_in). */
kn_value *kn_layer_parameter(kn_graph *graph, const char *layer, const char *name, const kn_shape *shape,
                             const kn_initializer *initializer, double fan_in);
/* The row's result for x and weight, plus bias (or NULL); its name is the layer's. */
kn_value *kn_layer_product(kn_graph *graph, const kn_operator *row, const char *layer, kn_value *x,
                           kn_value *weight, kn_value *bias, const kn_settings *settings);
/* Fields that the caller's struct has, as its size tells, replace the defaults. */
#define KN_TAKE_PARAMS(into, params)                                                                         \
    do {                                                                                                     \
        if (params) memcpy(&(into), params, (params)->size < sizeof(into) ? (params)->size : sizeof(into));  \
    } while (0)

#endif
