/* Matrix products with weights in quantized blocks: blocks.c, and those that round their other input to 8
 * bits, blocks_bytes.c. */
#ifndef KN_MATMUL_BLOCKS_H
#define KN_MATMUL_BLOCKS_H

#include "ops/gather/blocks.h"

/* The most rows that kernels compute without dequantizing whole rows of weights. */
enum { KN_MATMUL_FEW = 8 };

typedef struct kn_matmul_blocks_form {
    kn_blocks_form w;
    int64_t m, middle; /* rows; of the last matrix */
    int rows;          /* that are computed together if they are few */
    bool rounds;       /* to 8 bits */
} kn_matmul_blocks_form;
void kn_matmul_blocks_describe(const kn_node *node, kn_matmul_blocks_form *form);
/* Rows of all matrices of a. */
static inline int64_t kn_matmul_rows(const kn_shape *a) {
    int64_t rows = 1;
    for (int i = 0; i < a->rank - 1; i++)
        rows *= a->dims[i];
    return rows;
}
/* Begins a step of a product, with the arguments that all kernels have. */
kn_step *kn_matmul_blocks_begin(kn_lowering *lowering, const kn_matmul_blocks_form *form, const char *file,
                                const char *kernel);

/* Few rows (cl/matmul/blocks_quads.cl), and many (cl/matmul/blocks_panels.cl). */
bool kn_matmul_quads_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_quads_lower(kn_lowering *lowering);
bool kn_matmul_panels_accepts(const kn_target *target, const kn_node *node);
kn_status kn_matmul_panels_lower(kn_lowering *lowering);

#endif
