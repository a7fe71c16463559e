/* Custom operators: an expression per element, or a kernel.
 *
 * An operator is created once and used in any number of graphs, like the library's own operators: pointwise
 * ones are fused with their neighbours, kernels are compiled once per device and cached on disk, values have
 * memory while they are live, gradients flow. Strings are copied. An error is stored in the operator and
 * becomes the error of each graph that uses it, so that one check at the end is enough.
 *
 *     kn_pointwise_params params = KN_POINTWISE_DEFAULTS;
 *     params.name = "swish2";
 *     params.value = "x / (1 + exp(-beta * x))";
 *     params.attributes = "beta=2.0";
 *     kn_operator *swish = kn_operator_create_pointwise(&params);
 *     kn_value *y = kn_apply_operator(swish, &input, 1, "beta=1.5");
 *     kn_operator_destroy(&swish);
 *
 * Lifetime: graphs, and the sessions and trainers made from them, hold references to the operators of their
 * nodes, so an operator may be destroyed once it has been used. Thread-safety: an operator is immutable and
 * any thread may use it. Callbacks run on the thread that builds a graph, creates a session or trainer, or
 * runs one with new sizes; they must not call that graph, session or trainer. */
#ifndef KOINE_CUSTOM_H
#define KOINE_CUSTOM_H

#include <koine/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_operator kn_operator;

/* KN_OK, or why the operator could not be created, and the message ("" if none). */
KN_API kn_status kn_operator_status(const kn_operator *custom);
KN_API const char *kn_operator_error(const kn_operator *custom);
KN_API void kn_operator_destroy(kn_operator **custom);

/* Adds a node; results after the first are obtained with kn_result. `attributes` as for kn_apply; NULL: the
 * defaults. There must be at least one input; all inputs are non-NULL and belong to one graph. */
KN_API kn_value *kn_apply_operator(const kn_operator *custom, kn_value *const *inputs, size_t count,
                                   const char *attributes);

/* ---- pointwise: each element of the result from elements of up to three broadcast inputs --------------
 *
 * Expressions consist of numbers, names, ( ), * / + -, unary - and !, < <= > >= == !=, && ||, c ? a : b, and
 * calls of exp log sqrt rsqrt abs sin cos tan tanh erf pow min max floor ceil round isnan sigmoid softplus
 * asin acos atan atan2 sinh cosh asinh acosh atanh fmod quotient log1p expm1 bit_and bit_or bit_xor bit_left
 * bit_right. quotient(x, y) is x / y rounded toward 0, and 0 if y is 0. All numbers are real; comparisons and
 * logic give 0 or 1, and comparisons with NaN are false. The result has the inputs' element type; integer
 * inputs are accepted if the expression keeps them integers. */

typedef struct kn_pointwise_params {
    size_t size;
    kn_allocator allocator;
    /* for messages and value names: letters, digits, '_'; must not be the name of a built-in operator */
    const char *name;
    const char *value; /* may read the inputs x, y and z, and the attributes by name */
    /* With respect to x, y and z; may also read r, the result, and g, its gradient. NULL: no gradient. */
    const char *gradients[3];
    /* Attributes with their defaults: "slope=0.01 least=-1.0 steps=3". A default without decimal point and
     * exponent makes an integer attribute. */
    const char *attributes;
} kn_pointwise_params;
KN_API void kn_pointwise_params_init(kn_pointwise_params *params);
#define KN_POINTWISE_DEFAULTS KN_DEFAULTS_ZERO(kn_pointwise_params)

/* Returns NULL only when out of memory. */
KN_API KN_NODISCARD kn_operator *kn_operator_create_pointwise(const kn_pointwise_params *params);

/* ---- a kernel ---------------------------------------------------------------------------------------------
 *
 * Shapes are patterns, one for each input and result, separated by ';': "rows...,n; n". A word is a size, the
 * same wherever it occurs; `rows...` is any number of dimensions and, used as a size, their product; a number
 * must equal the dimension. Result dimensions are sums, differences, products and quotients (rounded down) of
 * words, numbers and integer attributes: "rows...,(n-window)/step+1". An element type may precede a pattern
 * ("int32 rows..."); inputs without one are float32 or float64, all the same, and results without one have
 * the type of those inputs.
 *
 * The kernel's parameters are, in this order:
 *   the inputs, then the results: `global const KN_T0 *x`, …, row-major, of the types KN_T0, KN_T1, … (KN_T:
 * KN_T0); the words, as they first appear in the inputs' patterns: `KN_INDEX rows` (an int; long with 64-bit
 * indices); the attributes: int for integers, float for others. The kernel must write every element of the
 * results. The language is OpenCL C 1.2; avoid what only some devices have (subgroups, half), and keep loops
 * of one work-item below 65,536 iterations, because some drivers end longer loops early. Equal inputs must
 * give equal results: identical nodes are computed once. */

/* One node of the operator, as passed to a callback. `sizes` are the values of the words, in the kernel's
 * order. */
typedef struct kn_custom_node {
    size_t size; /* of this struct, in the version of the library */
    int input_count, result_count;
    const kn_tensor_info *inputs, *results;
    const int64_t *sizes;
    const double *attributes;
} kn_custom_node;

typedef struct kn_custom_gradient {
    size_t size;
    const kn_custom_node *node;
    kn_value *const *inputs, *const *results;
    kn_value *const *result_gradients; /* NULL where no gradient flows back */
    const bool *needs_gradient;        /* per input */
    /* to be set for the inputs that need one: a value of the input's shape and type; NULL: no gradient */
    kn_value **input_gradients;
} kn_custom_gradient;

/* Row-major, in double precision whatever the element types; results are zero on entry. */
typedef struct kn_custom_reference {
    size_t size;
    const kn_custom_node *node;
    const double *const *inputs;
    double *const *results;
} kn_custom_reference;

typedef struct kn_kernel_params {
    size_t size;
    kn_allocator allocator;
    /* for messages and value names: letters, digits, '_'; must not be the name of a built-in operator */
    const char *name;
    const char *source;           /* OpenCL C */
    const char *kernel;           /* name of the kernel in the source; NULL: `name` */
    const char *inputs, *results; /* patterns; at most 16 inputs, 8 results and 16 words */
    /* The number of work-items along one to three axes, as sizes: "n,rows". */
    const char *launch;
    /* Work-group size along the same axes, as numbers: "64,1". The launch is then rounded up to whole
     * work-groups, so the kernel must check its bounds. NULL: a work-group size is chosen that divides the
     * launch. */
    const char *group;
    const char *attributes; /* as for pointwise operators */
    /* The gradient, as another operator: its inputs are the inputs, the results and the gradients of the
     * results; its results are the gradients with respect to the inputs of floating-point types; attributes
     * of equal names have equal values. */
    const kn_operator *gradient_operator;
    /* Or a callback that builds the gradient from graph nodes. With neither, no gradient flows. */
    void (*gradient)(void *user, const kn_custom_gradient *call);
    /* On the host, for kn_verify_operator and for nodes whose inputs are constants. May be NULL. */
    void (*reference)(void *user, const kn_custom_reference *call);
    void *user;
    void (*release)(void *user); /* called when nothing references the operator any more; may be NULL */
} kn_kernel_params;
KN_API void kn_kernel_params_init(kn_kernel_params *params);
#define KN_KERNEL_DEFAULTS KN_DEFAULTS_ZERO(kn_kernel_params)

/* Returns NULL only when out of memory; `release` is called in any case. */
KN_API KN_NODISCARD kn_operator *kn_operator_create_kernel(const kn_kernel_params *params);

#ifdef __cplusplus
}
#endif
#endif
