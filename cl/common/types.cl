/* The types that kernels are compiled for, with defaults:
 *   KN_T float      elements of the arrays; a kernel that only copies them takes any type of their size
 *   KN_A KN_T       products and sums
 *   KN_INDEX int    indices, strides and offsets; long for values of 2^31 elements or more
 * and KN_GROUP(dimension, items), the number of the work-group of `items` along a dimension: get_group_id does not
 * count the groups of earlier launches where a long launch is cut into several by a global offset. Such kernels get
 * the number of groups, and of items, as arguments. */
#ifndef KN_TYPES_CL
#define KN_TYPES_CL
#ifndef KN_T
#define KN_T float
#endif
#ifndef KN_A
#define KN_A KN_T
#endif
#ifndef KN_INDEX
#define KN_INDEX int
#endif
#define KN_GROUP(dimension, items) ((int)(get_group_id(dimension) + get_global_offset(dimension) / (items)))
#endif
