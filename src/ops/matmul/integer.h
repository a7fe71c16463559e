/* Shared by the files of integer matrix products. */
#ifndef KN_MATMUL_INTEGER_H
#define KN_MATMUL_INTEGER_H

#include "ops/matmul/matmul.h"

/* A product whose zero points are known to be scalars, or one per row of a and column of b. */
typedef struct kn_matmul_integer_form {
    kn_matmul_form matrices;
    kn_value *a_zero, *b_zero;         /* NULL: 0 */
    int64_t a_zero_row, b_zero_column; /* 0: a scalar for all; 1: one each */
} kn_matmul_integer_form;
void kn_matmul_integer_describe(const kn_node *node, kn_matmul_integer_form *form);
/* The same with batches merged into rows if each has the same zero points. */
void kn_matmul_integer_describe_merged(const kn_node *node, kn_matmul_integer_form *form);

bool kn_matmul_integer_tiled_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_integer_tiled_lower(kn_lowering *lowering);
/* The same on a matrix unit. */
bool kn_matmul_integer_matrix_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_integer_plain_lower(kn_lowering *lowering);
/* `config`: products of quads of bytes instead of pairs of 16 bits; the same with b packed in advance. */
enum { KN_INTEGER_QUADS = 1, KN_INTEGER_PACKED };
bool kn_matmul_integer_packed_accepts(const kn_target *target, const kn_node *node);
bool kn_matmul_integer_quads_accepts(const kn_target *target, const kn_node *node);
bool kn_matmul_integer_wide_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_integer_wide_lower(kn_lowering *lowering);

#endif
