/* The door of the ops room: the operator table, one row per operator. The table itself is declared where rows
 * are (graph/operator.h), the words to build graphs with in koine/operators.h; nothing else leaves this room.
 */
#ifndef KN_OPS_DOOR_H
#define KN_OPS_DOOR_H

#include <koine/operators.h>

#include "graph/graph.h"

/* The uint32 scalar state that counts training steps, made at the first call; random rows read it. Who trains
 * assigns it one more at each step. */
#define KN_STEP_COUNTER "koine.step"
kn_value *kn_step_counter(kn_graph *graph);

/* x in KN_BFLOAT16, or up to 256 in KN_FLOAT8E4M3FN, rounded up or down at random so that the mean is x. The
 * random numbers are those of the name, of the step and of the element's index. */
kn_value *kn_round_random(kn_value *x, kn_dtype dtype, const char *name);
/* The largest power of two that is not above |x|, with the sign of x. */
kn_value *kn_power_below(kn_value *x);

/* Results of the row batch_norm, hidden ones included, and of batch_norm_gradient. */
enum { KN_NORM_Y, KN_NORM_MEAN, KN_NORM_INVERSE, KN_NORM_NEXT_MEAN, KN_NORM_NEXT_VARIANCE };
enum { KN_NORM_DX, KN_NORM_DWEIGHT, KN_NORM_DBIAS };

/* The name of a tile of the matrix products for many threads, counted from 1: "64x64x8/8x4" has work-groups
 * of 64 x 64 sums, slices of 8 along the sum, and work-items of 8 x 4 sums. False past the last. */
enum { KN_TILE_NAME = 32 };
bool kn_product_tile_name(int tile, char name[KN_TILE_NAME]);

/* The arguments and the size of a step that adds parts, at most KN_MAX_SUMS sums (reduce/sums.c). */
void kn_step_sums(kn_step *step, const kn_target *target, const kn_part_sum *sums, int count);

/* The name of a variant with a tile (0: chosen by the shape): "tiled", "tiled:64x64x8/8x4". */
enum { KN_KERNEL_NAME = 64 };
void kn_kernel_name(const kn_variant *variant, int tile, char name[KN_KERNEL_NAME]);

/* The rows of nodes that the planner adds: the same value in another layout; float32 from the bytes of an
 * input (attribute scale). */
extern const kn_operator *const kn_layout_row, *const kn_widen_row;

#endif
