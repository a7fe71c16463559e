/* Public header of the ops module: the operator table, one row per operator. The table is declared in
 * graph/operator.h, the builders in koine/operators.h; nothing else is public. */
#ifndef KN_OPS_DOOR_H
#define KN_OPS_DOOR_H

#include <koine/operators.h>

#include "graph/graph.h"

/* The uint32 scalar state that counts training steps, created at first use; random rows read it. Trainers
 * increment it in each step. */
#define KN_STEP_COUNTER "koine.step"
kn_value *kn_step_counter(kn_graph *graph);

/* Casts x to KN_BFLOAT16 or (up to 256) KN_FLOAT8E4M3FN with stochastic rounding, so that the mean is x. The
 * random numbers depend on the name, the step and the element's index. */
kn_value *kn_round_random(kn_value *x, kn_dtype dtype, const char *name);
/* The largest power of two that is at most |x|, with the sign of x. */
kn_value *kn_power_below(kn_value *x);

/* Results of rows batch_norm (including hidden ones) and batch_norm_gradient. */
enum { KN_NORM_Y, KN_NORM_MEAN, KN_NORM_INVERSE, KN_NORM_NEXT_MEAN, KN_NORM_NEXT_VARIANCE };
enum { KN_NORM_DX, KN_NORM_DWEIGHT, KN_NORM_DBIAS };

/* The name of a tile of the matrix products on many-thread devices, counted from 1: "64x64x8/8x4" has
 * work-groups of 64 x 64 results, slices of depth 8, and work-items of 8 x 4 results. False after the
 * last. */
enum { KN_TILE_NAME = 32 };
bool kn_product_tile_name(int tile, char name[KN_TILE_NAME]);

/* The arguments and launch size of a step that adds parts, at most KN_MAX_SUMS sums (reduce/sums.c). */
void kn_step_sums(kn_step *step, const kn_target *target, const kn_part_sum *sums, int count);

/* The arguments and launch size of a step that packs at most KN_MAX_PACKS filters (conv/blocked.c). */
void kn_step_packs(kn_step *step, const kn_filter_pack *packs, int count);

/* The name of a variant with a tile (0: chosen by shape): "tiled", "tiled:64x64x8/8x4". */
enum { KN_KERNEL_NAME = 64 };
void kn_kernel_name(const kn_variant *variant, int tile, char name[KN_KERNEL_NAME]);

/* The rows of nodes that the planner adds: layout conversion; conversion of an input's bytes to float32
 * (attribute scale). */
extern const kn_operator *const kn_layout_row, *const kn_widen_row;

#endif
