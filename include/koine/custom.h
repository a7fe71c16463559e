/* Operators of your own: an expression for each element, or a kernel.
 *
 * An operator is made once and used in any number of graphs, where it is one like the library's: pointwise
 * ones are fused with their neighbours, kernels are compiled once for a device and kept on disk, values get
 * memory while they are needed, gradients flow. Texts are copied. A mistake stays in the operator and becomes
 * the error of the graph that it is used in, so that one check at the end is enough.
 *
 * Lifetime: graphs keep the operators of their nodes, and so do sessions and trainers made from them: an
 * operator may be destroyed once it has been used. Thread-safety: an operator never changes once it is made,
 * and any thread may use it. Callbacks are called by the thread that makes a graph, a session or a trainer,
 * or runs one with new sizes; they call nothing of those. */
#ifndef KOINE_CUSTOM_H
#define KOINE_CUSTOM_H

#include <koine/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_operator kn_operator;

/* KN_OK, or what is wrong with how it was made, and its text ("" if nothing). */
KN_API kn_status kn_operator_status(const kn_operator *custom);
KN_API const char *kn_operator_error(const kn_operator *custom);
KN_API void kn_operator_destroy(kn_operator **custom);

/* A node of it; results beyond the first are got with kn_result. `attributes` as for kn_apply; NULL: the
 * defaults. inputs, at least one, are all there and of one graph. */
KN_API kn_value *kn_apply_operator(const kn_operator *custom, kn_value *const *inputs, size_t count,
                                   const char *attributes);

/* ---- pointwise: each element of the result from elements of up to three inputs, which broadcast
 * --------------
 *
 * Expressions have numbers, names, ( ), * / + -, unary - and !, < <= > >= == !=, && ||, c ? a : b, and calls
 * of exp log sqrt rsqrt abs sin cos tan tanh erf pow min max floor ceil round isnan sigmoid softplus asin
 * acos atan atan2 sinh cosh asinh acosh atanh fmod log1p expm1 bit_and bit_or bit_xor bit_left bit_right. All
 * numbers are real; comparisons and logic give 0 or 1, and comparisons with NaN are false. The type is that
 * of the inputs; whole numbers are taken where the expression makes no fractions of them. */

typedef struct kn_pointwise_params {
    size_t size;
    kn_allocator allocator;
    const char *name;  /* for messages, and names of values: letters, digits, '_'; none of the library's */
    const char *value; /* reads x, y and z, the inputs, and the attributes by their names */
    /* By x, y and z; they also read r, the result, and g, its gradient. NULL: none flows. */
    const char *gradients[3];
    /* With their defaults: "slope=0.01 least=-1.0 steps=3". One without point and exponent is a whole number.
     */
    const char *attributes;
} kn_pointwise_params;
KN_API void kn_pointwise_params_init(kn_pointwise_params *params);
#define KN_POINTWISE_DEFAULTS                                                                                \
    { sizeof(kn_pointwise_params), {0, 0}, 0, 0, {0, 0, 0}, 0 }

/* NULL only when out of memory. */
KN_API kn_operator *kn_operator_create_pointwise(const kn_pointwise_params *params);

/* ---- a kernel ---------------------------------------------------------------------------------------------
 *
 * Shapes are patterns, one for each input and result, separated by ';': "rows...,n; n". A word is a size, the
 * same one wherever it stands; `rows...` are any number of dimensions, and as a size their product; a number
 * has to be that size. Results are made of sums, differences, products and quotients (rounded down) of words,
 * numbers and whole attributes: "rows...,(n-window)/step+1". A type may stand in front ("int32 rows...");
 * inputs without one are float32 or float64, all the same, and results without one are like them.
 *
 * The kernel's parameters are, in this order,
 *   the inputs, then the results: `global const KN_T0 *x`, …, row-major, of the types KN_T0, KN_T1, … (KN_T:
 * KN_T0); the words, as they first appear in the inputs' patterns: `KN_INDEX rows` (an int, long with 64-bit
 * indices); the attributes: int for whole numbers, float for others. Every element of the results has to be
 * written. The language is OpenCL C 1.2; what only some devices have (sub-groups, halves) is best avoided,
 * and loops of one work-item stay below 65,536 rounds, since some drivers end them there. Equal inputs have
 * to give equal results: nodes that are alike are computed once. */

/* One node of it, in a callback. Sizes are those of the words, in the kernel's order. */
typedef struct kn_custom_node {
    int input_count, result_count;
    const kn_tensor_info *inputs, *results;
    const int64_t *sizes;
    const double *attributes;
} kn_custom_node;

typedef struct kn_custom_gradient {
    const kn_custom_node *node;
    kn_value *const *inputs, *const *results;
    kn_value *const *result_gradients; /* NULL where none flows back */
    const bool *wanted;                /* by input */
    kn_value **input_gradients; /* to be filled in where wanted: a value of the input's shape and type; NULL:
                                   none flows */
} kn_custom_gradient;

/* Row-major, in double precision whatever their types; results are zero at first. */
typedef struct kn_custom_reference {
    const kn_custom_node *node;
    const double *const *inputs;
    double *const *results;
} kn_custom_reference;

typedef struct kn_kernel_params {
    size_t size;
    kn_allocator allocator;
    const char *name;   /* for messages, and names of values: letters, digits, '_'; none of the library's */
    const char *source; /* OpenCL C */
    const char *kernel; /* in the source; NULL: `name` */
    const char *inputs, *results; /* patterns; at most 16 inputs, 8 results and 16 words */
    /* Work-items along one to three axes, as sizes: "n,rows". */
    const char *launch;
    /* Work-items of a group along the same axes, as numbers: "64,1". The launch is then rounded up to whole
     * groups, so that the kernel has to look where it ends. NULL: groups are chosen so that they fit exactly.
     */
    const char *group;
    const char *attributes; /* as for pointwise operators */
    /* The gradient, by another operator: its inputs are the inputs, the results and the results' gradients,
     * its results the gradients by the inputs of float types; attributes of the same names have the same
     * values. */
    const kn_operator *gradient_operator;
    /* Or built of anything that builds graphs. Without either none flows. */
    void (*gradient)(void *user, const kn_custom_gradient *call);
    /* On the host, for kn_verify_operator, and for nodes whose inputs are constants. May be NULL. */
    void (*reference)(void *user, const kn_custom_reference *call);
    void *user;
    void (*release)(void *user); /* when nothing needs the operator any more; may be NULL */
} kn_kernel_params;
KN_API void kn_kernel_params_init(kn_kernel_params *params);
#define KN_KERNEL_DEFAULTS                                                                                   \
    { sizeof(kn_kernel_params), {0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* NULL only when out of memory; `release` is called in any case. */
KN_API kn_operator *kn_operator_create_kernel(const kn_kernel_params *params);

#ifdef __cplusplus
}
#endif
#endif
