/* Shared by matrix products, and convolutions as matrix products, on many-thread devices: the tile
 * of a work-group, split-K, and the second launch that adds the parts. */
#ifndef KN_PRODUCT_PRIVATE_H
#define KN_PRODUCT_PRIVATE_H

#include "ops/row.h"

/* What multiplies: work-items, from local or global memory; a matrix unit, in the type of the first input or
 * in 8-bit integers, where the depth counts pairs; or a bfloat16 unit that multiplies float32, with each
 * element split into two. */
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
    kn_matrix_unit unit; /* used for multiplying; KN_MATRIX_UNIT_NONE: work-items */
    size_t number;       /* bytes per element that the unit multiplies; 0 without unit */
    bool emulated;       /* emulated in plain code, for tests */
    int wave_m, wave_n;  /* the tile of a wave of the unit */
    int item_m, item_n;  /* or, without a unit, of a work-item */
    int tile_m, tile_n;
    int slice;                /* depth at a time */
    int registers;            /* per work-item */
    size_t items;             /* of a work-group */
    uint32_t tiles_too_large; /* for kn_step */
    int64_t parts, part_depth;
    int partials; /* scratch memory of the parts, if there are several */
    int row_sums; /* and of the sums of the left side's rows, if requested */
} kn_product;

/* The matrix unit that can multiply the first two inputs of a node in this way, for kernels of `file`;
 * KN_MATRIX_UNIT_NONE: none. */
kn_matrix_unit kn_product_unit(const kn_target *target, const kn_node *node, const char *file,
                               kn_product_way way);
/* Whether variants that split float32 are considered: if a unit is emulated, only when forced. */
bool kn_product_split_pays(const kn_target *target, const kn_node *node, int config, bool invariant);
/* Chooses the tile and the split by shape, and allocates scratch memory for the parts of the result. */
void kn_product_plan(kn_lowering *lowering, kn_product *product, int64_t result_elements);
/* How many contiguous elements, in rows of length `row`, a work-item loads at once. */
int kn_product_vector(const kn_product *product, int64_t row);
/* Defines the macros of cl/common/tile.cl and, with a matrix unit, of cl/common/fragment.cl. */
void kn_product_define(kn_step *step, const kn_product *product);
/* The same, without the types. */
void kn_product_define_tile(kn_step *step, const kn_product *product);
/* Sets `partials`, the scratch memory of the parts or NULL, `parts` and `part_depth`. */
void kn_product_bind(kn_step *step, const kn_product *product);
/* Sets the launch size, and its tiles for reports. */
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
