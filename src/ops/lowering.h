/* Helpers of variants: what they support, costs, launch sizes, and values of bound graphs, whose dimensions
 * are all numbers. */
#ifndef KN_OPS_LOWERING_H
#define KN_OPS_LOWERING_H

#include "ops/row.h"

/* ---- what variants support -------------------------------------------------------------------------- */

/* The types that most kernels with sums support; a plan stores results in 16 bits only if all kernels of a
 * node support that. */
static inline bool kn_has_kernels(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64 || kn_is_half(dtype);
}
bool kn_on_wide_vector(const kn_target *target, const kn_node *node);
/* Whether the target has wide vectors of a width that all wide-vector kernels support. */
bool kn_has_vectors(const kn_target *target);
/* The same, for a float32 result. */
bool kn_has_float_vectors(const kn_target *target, const kn_node *node);
/* Whether the result has one of these types; float64 only on wide-vector devices. */
bool kn_takes_kernel_types(const kn_target *target, const kn_node *node);
bool kn_takes_kernel_types_wide(const kn_target *target, const kn_node *node);
/* The same for kernels that compute in the stored type: excludes 16-bit floating-point types. */
bool kn_takes_stored_types(const kn_target *target, const kn_node *node);
bool kn_takes_stored_types_wide(const kn_target *target, const kn_node *node);

/* ---- values of a bound graph ----------------------------------------------------------------------- */

static inline int64_t kn_elements_of(const kn_value *value) {
    return kn_shape_elements(&value->shape);
}
/* An array viewed along one axis: (outer,size,inner). */
typedef struct kn_lanes {
    int64_t outer, size, inner;
} kn_lanes;
kn_lanes kn_lanes_of(const kn_shape *shape, int axis);
/* The axis of attribute "axis" for a value of rank `rank`. */
int kn_axis_of(const kn_node *node, int rank);
/* The accumulator type of this node for elements of type `dtype`. */
kn_dtype kn_accumulator(const kn_node *node, kn_dtype dtype);
/* Whether any node reads the value: a hidden result without readers need not be written. */
bool kn_is_read(const kn_value *value);
/* Whether a value is too large to stay in caches until it is read: then kernels may bypass the caches. */
bool kn_is_streamed(const kn_value *value);
/* Sets `flops`, and the bytes of all inputs and outputs. */
void kn_cost_set(const kn_node *node, double flops, kn_cost *cost);

/* ---- launches --------------------------------------------------------------------------------------- */

/* How a kernel's results are divided among work-items. */
typedef enum kn_method {
    KN_METHOD_WIDE,  /* few work-items, each with vectors and many results */
    KN_METHOD_TREE,  /* a work-group uses local memory for trees (cl/common/lanes.cl) or tiles */
    KN_METHOD_PLAIN, /* a work-item per result, without local memory and barriers */
} kn_method;
/* Variants whose configuration is the method, for any types; the remaining arguments are the promise of each.
 */
#define KN_METHOD_VARIANTS(lowering, ...)                                                                    \
    {.name = "wide",                                                                                         \
     .choice.accepts = kn_on_wide_vector,                                                                    \
     .lower = lowering,                                                                                      \
     .config = KN_METHOD_WIDE,                                                                               \
     __VA_ARGS__},                                                                                           \
        {.name = "tree", .lower = lowering, .config = KN_METHOD_TREE, __VA_ARGS__}, {                        \
        .name = "plain", .lower = lowering, .config = KN_METHOD_PLAIN, __VA_ARGS__                           \
    }
/* Two variants: for wide vectors, and one with the remaining arguments. */
#define KN_WIDE_VARIANTS(lowering, accepts_wide, ...)                                                        \
    {.name = "wide", .choice.accepts = accepts_wide, .lower = lowering, .config = KN_METHOD_WIDE}, {         \
        .lower = lowering, .config = KN_METHOD_PLAIN, __VA_ARGS__                                            \
    }
/* Defines the macros of cl/common/lanes.cl and the launch size: `lanes` work-items per result, in work-groups
 * of `items`; for 1 lane in work-groups of any size. `parts` is the second dimension. */
void kn_step_lanes(kn_step *step, const kn_target *target, int64_t results, int64_t parts, size_t lanes,
                   size_t items);

/* The smallest power of two >= `number`, at most `limit` (a power of two). */
size_t kn_power_of_two(int64_t number, size_t limit);
/* The largest work-group for the kernels of a cl/ file. */
size_t kn_group_limit(const kn_target *target, const char *file);
/* Whether the device's compiler failed on this tile of the file. */
bool kn_tile_is_refused(const kn_target *target, const char *file, int tile);
/* The work-group size for such a kernel on many-thread devices that use local memory: a power of two, at most
 * 256. */
size_t kn_group_items(const kn_target *target, const char *file);
/* The work-group size for computing `number` results together: a power of two, at most kn_group_items and
 * `most`; at least 32 on many-thread devices, since devices run 32 or more together anyway. */
size_t kn_group_items_for(const kn_target *target, const char *file, int64_t number, size_t most);
/* Launches at least this many work-items, for a kernel that ignores surplus items: any group size works. */
void kn_step_size_free(kn_step *step, int64_t items, const kn_target *target);
/* Launches a x b x c work-items, each a work-group by itself: the kernels for wide vectors. */
void kn_step_size_wide(kn_step *step, int64_t a, int64_t b, int64_t c);
/* Adds the arguments middle_size and inner_size: the axes that the epilogue (step.h) sees for results of this
 * shape in the plain layout (rank 4: images). */
void kn_step_epilogue_sizes(kn_step *step, const kn_shape *shape);
/* Vectors per row of a tile of the wide-vector kernels (KN_VECTORS), for this many columns. */
int64_t kn_wide_vectors(int64_t width, int64_t columns);
/* Adds parts in order, without local memory; the results have one type, and the parts the accumulator type of
 * the node. The planner may postpone it and merge it with others. */
kn_status kn_emit_sums(kn_lowering *lowering, const kn_part_sum *sums, int count);
/* If a step emitted shortly before only adds the parts of this value (float32), makes the kernel being
 * lowered add them instead, and returns true; `vector` elements at a time. The kernel must also write the
 * value if other nodes read it. */
bool kn_take_sum(kn_lowering *lowering, const kn_value *value, int64_t vector, kn_part_sum *sum);
/* Whether only this node reads the value. */
bool kn_is_read_by_one(const kn_value *value);
/* Defines KN_T and KN_A for a kernel that computes in a type; 16-bit types are only for storage
 * (cl/common/storage.cl). */
void kn_step_types(kn_step *step, const kn_node *node, kn_dtype type);

#endif
