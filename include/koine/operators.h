/* Layers and operators: the words that graphs are written in.
 *
 * Each call adds to the graph of its first value and answers the new value; failed values in, failed
 * values out (see graph.h). Parameter structs: NULL means defaults; begin with their size. Names of
 * layers ("conv1", "linear2", counted per scope) can be set in their parameters; parameters of a
 * layer are called NAME.weight, NAME.bias. Broadcasting aligns shapes at the last dimension.
 * Every operator of the table can also be reached by kn_apply with attributes as text. */
#ifndef KOINE_OPERATORS_H
#define KOINE_OPERATORS_H

#include <koine/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layers: they make their parameters ------------------------------------------------- */

typedef struct kn_linear_params {
    size_t size;
    const char *name;
    bool no_bias;
    const kn_initializer *weight, *bias; /* NULL: uniform within 1 / sqrt(inputs) */
} kn_linear_params;
/* x is (..., inputs), the weight (units, inputs), the result (..., units). */
KN_API kn_value *kn_linear(kn_value *x, int64_t units, const kn_linear_params *params);

typedef struct kn_conv_params {
    size_t size;
    const char *name;
    int64_t stride[2];   /* height, width; a 0 means 1, and a 0 in the second repeats the first */
    int64_t padding[4];  /* top, left, bottom, right; only the first set: all alike; the first two: mirrored */
    int64_t dilation[2]; /* as stride */
    int64_t groups;      /* 0 means 1 */
    bool same;           /* pads so that the size is divided by the stride, rounded up; extra at the end */
    bool no_bias;
    const kn_initializer *weight, *bias;
} kn_conv_params;
/* x is (N,C,H,W), the weight (channels, C/groups, height, width), the result (N,channels,P,Q). width 0: as height. */
KN_API kn_value *kn_conv(kn_value *x, int64_t channels, int64_t height, int64_t width, const kn_conv_params *params);

typedef struct kn_batch_norm_params {
    size_t size;
    const char *name;
    double epsilon;  /* 1e-5 */
    double momentum; /* 0.1: running = 0.9 running + 0.1 batch */
} kn_batch_norm_params;
KN_API void kn_batch_norm_params_init(kn_batch_norm_params *params);
/* x is (N,C,...): by the batch's statistics in training, by the running ones otherwise. */
KN_API kn_value *kn_batch_norm(kn_value *x, const kn_batch_norm_params *params);

typedef struct kn_recurrent_params {
    size_t size;
    const char *name;
    const kn_initializer *weight, *bias; /* NULL: uniform within 1 / sqrt(units) */
} kn_recurrent_params;
/* An LSTM layer from a state of zero: x is (batch, length, inputs), the result (batch, length, units). Its parameters
 * are those of PyTorch's LSTMCell: NAME.weight_ih (4*units, inputs), NAME.weight_hh (4*units, units), NAME.bias_ih and
 * NAME.bias_hh (4*units), each with the rows of the gates i, f, g, o in this order. Several layers are several calls. */
KN_API kn_value *kn_lstm(kn_value *x, int64_t units, const kn_recurrent_params *params);

typedef struct kn_norm_params {
    size_t size;
    const char *name;
    double epsilon; /* 1e-5 */
    bool no_bias;
} kn_norm_params;
KN_API void kn_norm_params_init(kn_norm_params *params);
/* x is (..., D); each row of D numbers is brought to mean 0 and variance 1, then scaled by a weight (D) and shifted by
 * a bias (D). RMS norm divides by the root of the mean square instead, and has no bias. */
KN_API kn_value *kn_layer_norm(kn_value *x, const kn_norm_params *params);
KN_API kn_value *kn_rms_norm(kn_value *x, const kn_norm_params *params);

typedef struct kn_embedding_params {
    size_t size;
    const char *name;
    const kn_initializer *weight; /* NULL: normal, with a standard deviation of 1 */
} kn_embedding_params;
/* numbers are int32 (...), such as tokens; the weight is a table (rows, columns), the result (..., columns). A number
 * that is no row of the table gives NaN. */
KN_API kn_value *kn_embedding(kn_value *numbers, int64_t rows, int64_t columns, const kn_embedding_params *params);

/* Zeroes elements with probability `rate` in training, scaling the others by 1 / (1 - rate). */
KN_API kn_value *kn_dropout(kn_value *x, double rate);

/* ---- products and convolutions without parameters of their own ------------------------------ */

/* a is (...,M,K), or (...,K,M) transposed; b is (...,K,N), or (...,N,K) transposed; leading dimensions broadcast. */
KN_API kn_value *kn_matmul(kn_value *a, kn_value *b, bool transpose_a, bool transpose_b);
/* params: everything but name, no_bias and initializers is used. bias may be NULL. */
KN_API kn_value *kn_conv2d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params);

typedef struct kn_attention_params {
    size_t size;
    int64_t heads; /* 0 means 1 */
    bool causal;   /* query i sees the keys up to i */
    double scale;  /* 0: 1 / sqrt(D) */
} kn_attention_params;
/* softmax(scale q kᵀ) v, head by head: q is (B,T,heads*D), k and v are (B,S,heads*D), the result is (B,T,heads*D). Scores
 * are never stored. (B,heads,T,D) reshaped to (B*heads,T,D) is attention with one head. */
KN_API kn_value *kn_attention(kn_value *q, kn_value *k, kn_value *v, const kn_attention_params *params);
/* The same, read in place from one array in which q, k and v lie side by side: (B,T,3*heads*D), as one linear layer makes
 * it. */
KN_API kn_value *kn_attention_packed(kn_value *qkv, const kn_attention_params *params);

typedef struct kn_pool_params {
    size_t size;
    int64_t window[2];  /* a 0 in the second repeats the first */
    int64_t stride[2];  /* 0: the window */
    int64_t padding[4]; /* as kn_conv_params */
    bool skip_padding;  /* average: divide by the elements inside the image only */
} kn_pool_params;
/* x is (N,C,H,W). */
KN_API kn_value *kn_max_pool(kn_value *x, int64_t window, const kn_pool_params *params);
KN_API kn_value *kn_average_pool(kn_value *x, int64_t window, const kn_pool_params *params);
/* (N,C,H,W) to (N,C,1,1). */
KN_API kn_value *kn_global_average_pool(kn_value *x);

/* ---- pointwise, with broadcasting --------------------------------------------------------------- */

KN_API kn_value *kn_add(kn_value *x, kn_value *y);
KN_API kn_value *kn_sub(kn_value *x, kn_value *y);
KN_API kn_value *kn_mul(kn_value *x, kn_value *y);
KN_API kn_value *kn_div(kn_value *x, kn_value *y);
KN_API kn_value *kn_pow(kn_value *x, kn_value *y);
KN_API kn_value *kn_min(kn_value *x, kn_value *y);
KN_API kn_value *kn_max(kn_value *x, kn_value *y);
/* x times a number, x plus a number. */
KN_API kn_value *kn_scale(kn_value *x, double factor);
KN_API kn_value *kn_shift(kn_value *x, double summand);
KN_API kn_value *kn_neg(kn_value *x);
KN_API kn_value *kn_exp(kn_value *x);
KN_API kn_value *kn_log(kn_value *x);
KN_API kn_value *kn_sqrt(kn_value *x);
KN_API kn_value *kn_rsqrt(kn_value *x);
KN_API kn_value *kn_abs(kn_value *x);
KN_API kn_value *kn_sin(kn_value *x);
KN_API kn_value *kn_cos(kn_value *x);
KN_API kn_value *kn_erf(kn_value *x);
KN_API kn_value *kn_sigmoid(kn_value *x);
KN_API kn_value *kn_tanh(kn_value *x);
KN_API kn_value *kn_relu(kn_value *x);
KN_API kn_value *kn_leaky_relu(kn_value *x, double slope);
KN_API kn_value *kn_relu6(kn_value *x);
KN_API kn_value *kn_elu(kn_value *x, double alpha);
KN_API kn_value *kn_selu(kn_value *x);
KN_API kn_value *kn_gelu(kn_value *x);      /* exact, by erf */
KN_API kn_value *kn_gelu_tanh(kn_value *x); /* the usual approximation */
KN_API kn_value *kn_silu(kn_value *x);
KN_API kn_value *kn_softplus(kn_value *x);
KN_API kn_value *kn_hard_sigmoid(kn_value *x);
KN_API kn_value *kn_hard_swish(kn_value *x);
KN_API kn_value *kn_clip(kn_value *x, double low, double high);
/* Comparisons answer bool. */
KN_API kn_value *kn_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_not_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_less(kn_value *x, kn_value *y);
KN_API kn_value *kn_less_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_greater(kn_value *x, kn_value *y);
KN_API kn_value *kn_greater_equal(kn_value *x, kn_value *y);
/* condition ? x : y, element by element. */
KN_API kn_value *kn_where(kn_value *condition, kn_value *x, kn_value *y);
KN_API kn_value *kn_cast(kn_value *x, kn_dtype dtype);

/* ---- reductions and softmax. axes: "0,2", negative counts from the end; NULL or "": all --------------- */

KN_API kn_value *kn_sum(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_mean(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_max(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_min(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_softmax(kn_value *x, int axis);
KN_API kn_value *kn_log_softmax(kn_value *x, int axis);

/* ---- shapes -------------------------------------------------------------------------------------- */

/* shape as in graph.h; one dimension may be -1. */
KN_API kn_value *kn_reshape(kn_value *x, const char *shape);
/* (N, everything else). */
KN_API kn_value *kn_flatten(kn_value *x);
/* permutation: "0,2,1". */
KN_API kn_value *kn_transpose(kn_value *x, const char *permutation);
KN_API kn_value *kn_concat(kn_value *const *values, size_t count, int axis);
/* Elements begin to end - 1 along an axis; negative ones count from the end; end INT64_MAX: to the end. */
KN_API kn_value *kn_slice(kn_value *x, int axis, int64_t begin, int64_t end);
/* Elements before and after along each axis: "0,0,1,1" for a rank-2 value's (before0, before1, after0, after1). */
KN_API kn_value *kn_pad(kn_value *x, const char *amounts, double value);
KN_API kn_value *kn_broadcast(kn_value *x, const char *shape);

/* ---- losses: float32 scalars, means over the batch -------------------------------------------------- */

typedef struct kn_cross_entropy_params {
    size_t size;
    double label_smoothing;
} kn_cross_entropy_params;
/* logits are (...,classes); target is int32 (...) of class numbers, or a distribution of the logits' shape. */
KN_API kn_value *kn_cross_entropy(kn_value *logits, kn_value *target, const kn_cross_entropy_params *params);
KN_API kn_value *kn_mse(kn_value *prediction, kn_value *target);
KN_API kn_value *kn_binary_cross_entropy(kn_value *logits, kn_value *target);
KN_API kn_value *kn_huber(kn_value *prediction, kn_value *target, double delta);
/* The share of rows whose largest logit is the target's: logits (...,classes), target int32 (...). No gradient. */
KN_API kn_value *kn_accuracy(kn_value *logits, kn_value *target);

#ifdef __cplusplus
}
#endif
#endif
