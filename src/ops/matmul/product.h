/* What the matrix products and the convolutions by matrix product share on many-thread devices
 * (matmul/product.c): the tile of a work-group, the split of long sums, and the second launch that adds the
 * parts. */
#ifndef KN_PRODUCT_PRIVATE_H
#define KN_PRODUCT_PRIVATE_H

#include "ops/ops_private.h"

/* A product of (rows,depth) and (depth,columns), `batches` times. */
typedef struct kn_product {
    int64_t rows, columns, depth, batches;
    int tile_m, tile_n, item_m, item_n;
    size_t items; /* of a work-group */
    int64_t parts, part_depth;
    int shares; /* scratch memory for the parts, when there are several */
} kn_product;

/* Chooses the tile and the split by the shape, and takes the scratch memory: parts times the result. */
void kn_product_plan(kn_lowering *lowering, kn_product *product, int64_t result_elements);
/* The macros of common/tile.cl. */
void kn_product_define(kn_step *step, const kn_product *product);
/* Vectors in a row of a tile of the wide-vector kernels (KN_VECTORS), for so many columns. */
int64_t kn_wide_vectors(int64_t width, int64_t columns);
/* At least so many work-items, for a kernel that leaves alone those beyond: groups of any size will do. */
void kn_step_size_free(kn_step *step, int64_t items, const kn_target *target);
/* The fourth argument of the kernels: where the parts go, or nothing. */
void kn_product_shares(kn_step *step, const kn_product *product);
void kn_product_size(kn_step *step, const kn_product *product);
/* Adds the parts, if there are several, with the epilogue; the result is seen as (.., middle, inner). `file`
 * is the kernel file of the product and `define` gives it the same macros. */
kn_status kn_product_finish(kn_lowering *lowering, const kn_product *product, const char *file,
                            void (*define)(kn_step *step, const kn_lowering *lowering,
                                           const kn_product *product),
                            int64_t elements, int64_t middle, int64_t inner);
static inline int64_t kn_divide_up(int64_t number, int64_t by) {
    return (number + by - 1) / by;
}
static inline int64_t kn_round_up(int64_t number, int64_t to) {
    return kn_divide_up(number, to) * to;
}

#endif
