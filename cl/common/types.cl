/* The types that kernels are compiled for, with their defaults:
 *   KN_T float      elements of the arrays; a kernel that only copies them takes any type of their size
 *   KN_A KN_T       products and sums
 *   KN_INDEX int    indices, strides and offsets; long for values of 2^31 elements or more */
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
#endif
