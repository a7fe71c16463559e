/* Weights in quantized blocks: rows that read a state in blocks (kn_value.blocks). */
#ifndef KN_OPS_BLOCKS_H
#define KN_OPS_BLOCKS_H

#include "ops/row.h"

extern const kn_operator kn_row_widen_blocks, kn_row_embedding_blocks;

/* A matrix (rows,columns) in blocks. */
typedef struct kn_blocks_form {
    const kn_block_type *type;
    int64_t rows, columns;
    int64_t blocks; /* of a row */
} kn_blocks_form;
/* Of the bound input `input` of a node with attribute `type`. */
void kn_blocks_describe(const kn_node *node, int input, kn_blocks_form *form);
/* Checks input `input` against attribute `type`, and describes it; the sizes must be known. Returns whether
 * it is valid. */
bool kn_shape_blocks(kn_shape_call *call, int input, kn_blocks_form *form);
/* Dequantizes rows [first, first + rows) of a reference's bytes to `to`. */
kn_status kn_reference_blocks(const kn_reference_call *call, int input, double *to, int64_t first,
                              int64_t rows);
/* The attribute of these rows. */
#define KN_BLOCKS_TYPE KN_INT("type", 8, "the type of the blocks: its number in GGUF files")
/* A node of `row` whose last or only input in blocks is `codes`. */
kn_value *kn_build_blocks(const kn_operator *row, kn_value *const *inputs, int count,
                          const kn_block_type *type);
/* Rows [first, first + rows) of a state in blocks as float32. */
kn_value *kn_widen_rows(kn_value *codes, const kn_block_type *type, int64_t first, int64_t rows);
/* For gradients: if x is a dequantized state, the same dequantized again, so that x is not kept for the
 * backward pass; otherwise x. */
kn_value *kn_widen_again(kn_value *x);
/* For with_blocks of embedding. */
kn_status kn_embedding_of_blocks(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                 kn_value **results);

#endif
