/* Shared by the files of matrix products. */
#ifndef KN_MATMUL_PRIVATE_H
#define KN_MATMUL_PRIVATE_H

#include "ops/row.h"

/* A product with its leading dimensions merged into levels: level 0 is the innermost. Stride 0 broadcasts a
 * matrix. */
enum { KN_MATMUL_LEVELS = KN_MAX_RANK };
typedef struct kn_matmul_form {
    bool transpose_a, transpose_b;
    int64_t m, n, k, batches;
    int levels;
    int64_t sizes[KN_MATMUL_LEVELS], a_strides[KN_MATMUL_LEVELS], b_strides[KN_MATMUL_LEVELS];
} kn_matmul_form;
void kn_matmul_describe(const kn_node *node, kn_matmul_form *form);
void kn_matmul_merge_batches(kn_matmul_form *form, const kn_epilogue *epilogue);

/* matmul/tiled.c; the configuration is a kn_product_way */
kn_status kn_matmul_tiled_lower(kn_lowering *lowering);
bool kn_matmul_tiled_accepts(const kn_target *target, const kn_node *node);
bool kn_matmul_direct_accepts(const kn_target *target, const kn_node *node);
/* Whether the variant can also sum the rows of A. */
bool kn_matmul_sums_rows(const kn_target *target, const kn_node *node, const kn_node *sum);
/* On a matrix unit, if an operand has 16 bits. */
bool kn_matmul_matrix_accepts(const kn_target *target, const kn_node *node);
/* Float32, with each element split into two bfloat16. */
bool kn_matmul_matrix_split_accepts(const kn_target *target, const kn_node *node);
/* matmul/amx.c: on tile registers of CPUs, if an operand is bfloat16. */
bool kn_matmul_amx_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_amx_lower(kn_lowering *lowering);
/* Float32, split in the same way. */
bool kn_matmul_amx_split_accepts(const kn_target *target, const kn_node *node);
bool kn_matmul_amx_split_pays(const kn_target *target, const kn_node *node, int config, bool invariant);
/* matmul/plain.c */
kn_status kn_matmul_plain_lower(kn_lowering *lowering);
/* matmul/wide.c */
/* Describes the matrices to a kernel that finds a batch by two or three levels. */
void kn_matmul_bind(kn_step *step, const kn_matmul_form *form, int levels);
bool kn_matmul_library_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_library_lower(kn_lowering *lowering);
bool kn_matmul_wide_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_wide_lower(kn_lowering *lowering);
bool kn_matmul_packed_accepts(const kn_target *target, const kn_node *node);
/* The same kernels, with b packed by a previous step, which runs once for constant weights. */
kn_status kn_matmul_packed_lower(kn_lowering *lowering);

/* Memory-bound products that read b in place. ALONG: few rows times weights (N,K); ACROSS: few rows times
 * (K,N); SHALLOW: short sums. */
typedef enum kn_skinny { KN_SKINNY_NOT, KN_SKINNY_ALONG, KN_SKINNY_ACROSS, KN_SKINNY_SHALLOW } kn_skinny;
kn_skinny kn_matmul_skinny_kind(const kn_node *node);
kn_status kn_matmul_skinny_lower(kn_lowering *lowering, kn_skinny kind);

/* Of m rows, how many the kernels for weights in blocks compute together. */
static inline int kn_matmul_few_rows(int64_t m) {
    return m > 2 ? 4 : m > 1 ? 2 : 1;
}

/* matmul/activations.c */
/* x, whose rows have a multiple of 32 elements, rounded to 8 bits as by products that round activations. */
kn_value *kn_round_activations(kn_value *x);
/* The same for `count` numbers, for references. */
void kn_activations_round(const double *x, int64_t count, double *rounded);
/* matmul/blocks.c: for with_blocks of matmul. */
kn_status kn_matmul_of_blocks(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                              kn_value **results);

extern const kn_operator kn_row_matmul;

#endif
