/* Shared by the matrix products and the convolutions as matrix products on many-thread devices: the tile
 * of a work-group, the split of long sums, and the second launch that adds the parts. */
#ifndef KN_PRODUCT_PRIVATE_H
#define KN_PRODUCT_PRIVATE_H

#include "ops/row.h"

/* What multiplies its numbers: the work-items, from local memory or from where they are; a matrix unit, in
 * the type of the first input or of 8-bit integers, whose depth then counts pairs; or a unit for bfloat16
 * that multiplies float32, each number as the sum of two. */
typedef enum kn_product_way {
    KN_PRODUCT_ITEMS,
    KN_PRODUCT_DIRECT,
    KN_PRODUCT_MATRIX,
    KN_PRODUCT_SPLIT
} kn_product_way;

/* A product of (rows,depth) and (depth,columns), `batches` times. */
typedef struct kn_product {
    const char *file; /* of its kernels */
    int64_t rows, columns, depth, batches;
    kn_product_way way;
    kn_matrix_unit unit; /* that multiplies; KN_MATRIX_UNIT_NONE: the work-items do */
    size_t number;       /* the bytes of a number that it multiplies; 0 without */
    bool emulated;       /* by plain code, for tests */
    int wave_m, wave_n;  /* the sums of a wave of the unit */
    int item_m, item_n;  /* or, without one, of a work-item */
    int tile_m, tile_n;
    int slice;     /* along the sum */
    int registers; /* that a work-item needs */
    size_t items;  /* of a work-group */
    int64_t parts, part_depth;
    int partials; /* scratch memory for the parts, if there are several */
    int row_sums; /* and for those of the sums of the left side's rows, if they are wanted */
} kn_product;

/* The matrix unit that can multiply the first two inputs of a node in this way, in kernels of `file`;
 * KN_MATRIX_UNIT_NONE: none. */
kn_matrix_unit kn_product_unit(const kn_target *target, const kn_node *node, const char *file,
                               kn_product_way way);
/* Whether the variants that split numbers are considered: where a unit is emulated, only if they are forced.
 */
bool kn_product_split_pays(const kn_target *target, const kn_node *node, bool invariant);
/* Chooses the tile and the split by the shape, and takes scratch memory for the parts of the result. */
void kn_product_plan(kn_lowering *lowering, kn_product *product, int64_t result_elements);
/* How many numbers that are adjacent in memory, in rows of `row` of them, a work-item loads at once. */
int kn_product_vector(const kn_product *product, int64_t row);
/* Defines the macros of cl/common/tile.cl, and with a matrix unit those of cl/common/fragment.cl. */
void kn_product_define(kn_step *step, const kn_product *product);
/* Those without the types. */
void kn_product_define_tile(kn_step *step, const kn_product *product);
/* The kernels' argument `partials`: the scratch memory of the parts, or NULL. */
void kn_product_partials(kn_step *step, const kn_product *product);
/* The size of the launch, and its tiles for reports. */
void kn_product_size(kn_step *step, const kn_product *product);
/* The cost of a step that adds the parts of `elements` results. */
void kn_product_cost_of_sum(kn_step *step, const kn_lowering *lowering, const kn_product *product,
                            int64_t elements);
/* Adds the parts, if there are several, with the epilogue; the result is seen as (.., middle, inner).
 * `define` gives the product's file the same macros. */
kn_status kn_product_finish(kn_lowering *lowering, const kn_product *product,
                            void (*define)(kn_step *step, const kn_lowering *lowering,
                                           const kn_product *product),
                            int64_t elements, int64_t middle, int64_t inner);

#endif
