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
    int64_t stride[2];  /* height, width; a 0 means 1, and a 0 in the second repeats the first */
    int64_t padding[4]; /* top, left, bottom, right; only the first set: all alike; the first two: mirrored */
    int64_t dilation[2]; /* as stride */
    int64_t groups;      /* 0 means 1 */
    bool same;           /* pads so that the size is divided by the stride, rounded up; extra at the end */
    bool no_bias;
    const kn_initializer *weight, *bias;
    bool same_lower;  /* as `same`, extra at the beginning */
    bool all_padding; /* the zeros of padding mean no padding: top alone can be set */
    int64_t
        output_padding[2]; /* transposed: lines more at the end of the result, below the stride; as stride */
} kn_conv_params;
/* x is (N,C,H,W), the weight (channels, C/groups, height, width), the result (N,channels,P,Q). width 0: as
 * height. Along a length, x is (N,C,L), the weight (channels, C/groups, height): of pairs the first counts,
 * padding is before and behind (0 behind repeats it, unless all_padding). */
KN_API kn_value *kn_conv(kn_value *x, int64_t channels, int64_t height, int64_t width,
                         const kn_conv_params *params);
/* Transposed: what a convolution with these numbers would read, if x were its result. The weight is (C,
 * channels/groups, height, width); the result has (P - 1) * stride - padding on both sides + dilation *
 * (height - 1) + 1 + output_padding rows. `same` is not for it. */
KN_API kn_value *kn_conv_transpose(kn_value *x, int64_t channels, int64_t height, int64_t width,
                                   const kn_conv_params *params);

typedef struct kn_batch_norm_params {
    size_t size;
    const char *name;
    double epsilon;  /* 1e-5 */
    double momentum; /* 0.1: running = 0.9 running + 0.1 batch */
    bool no_affine;  /* neither weight nor bias */
    bool frozen;     /* in training, too, by the running statistics, which stay as they are */
} kn_batch_norm_params;
KN_API void kn_batch_norm_params_init(kn_batch_norm_params *params);
/* x is (N,C,...): by the batch's statistics in training, by the running ones otherwise. */
KN_API kn_value *kn_batch_norm(kn_value *x, const kn_batch_norm_params *params);
/* The same by values that are there already: weight, bias and the running mean and variance, all (C).
 * Training updates the last two where they are statistics: by each batch norm that shares them, in the order
 * in which they were built. name and no_affine of params are not looked at. */
KN_API kn_value *kn_batch_norm_by(kn_value *x, kn_value *weight, kn_value *bias, kn_value *mean,
                                  kn_value *variance, const kn_batch_norm_params *params);

typedef struct kn_recurrent_params {
    size_t size;
    const char *name;
    const kn_initializer *weight, *bias; /* NULL: uniform within 1 / sqrt(units) */
    int layers;                          /* each reads the results of the one before; 0: 1 */
    bool
        bidirectional; /* a second recurrence goes from the last step to the first; its results come behind */
    double dropout;    /* rate between layers, in training */
    bool relu;         /* of kn_rnn: the larger of the sum and 0, not its tanh */
    bool last;         /* the result is the last layer's state after its last step, (batch, units) */
    kn_value *lengths; /* int32 (batch): steps of each sample; NULL: all */
    kn_value *start, *start_cells; /* (layers * directions, batch, units); NULL: zeros */
    bool stateful;     /* in training each run begins where the one before ended; outside it from zeros */
    const char *share; /* name of another such layer, whose parameters are used; NULL: its own */
    kn_value **final,
        **final_cells; /* NULL, or where the last states go, shaped as `start`; cells: kn_lstm's */
} kn_recurrent_params;
/* Recurrent layers as PyTorch defines them. x is (batch, length, inputs), the result (batch, length, units),
 * or 2 * units with both directions: kn_rnn   h = tanh(W x + b + V h' + c) kn_lstm  c = f c' + i g, h = o
 * tanh(c), with i, f, o = sigmoid(W x + b + V h' + c), g = tanh(...) kn_gru   h = (1 - z) n + z h', with r, z
 * = sigmoid(W x + b + V h' + c), n = tanh(W x + b + r (V h' + c)) Parameters are NAME.weight_ih (gates*units,
 * inputs), NAME.weight_hh (gates*units, units), NAME.bias_ih and NAME.bias_hh (gates*units), with rows for
 * the gates in the order i, f, g, o and r, z, n; the names of layers behind the first end with _l1, _l2 ...,
 * and those of the second direction, after that, with _reverse. Steps beyond a sample's length leave its
 * states as they are and are 0 in the result; the second direction begins at the last step that counts. With
 * `stateful` long sequences can be learnt in pieces (truncated backpropagation through time): sample i of a
 * batch goes on where sample i of the batch before ended, so all batches need the same number of samples;
 * gradients stop where a run begins. The states are NAME.state and NAME.cells, with the same endings;
 * kn_states_set can put them back to zero. */
KN_API kn_value *kn_rnn(kn_value *x, int64_t units, const kn_recurrent_params *params);
KN_API kn_value *kn_lstm(kn_value *x, int64_t units, const kn_recurrent_params *params);
KN_API kn_value *kn_gru(kn_value *x, int64_t units, const kn_recurrent_params *params);

typedef struct kn_norm_params {
    size_t size;
    const char *name;
    double epsilon; /* 1e-5 */
    bool no_bias;
    bool no_affine; /* neither weight nor bias */
} kn_norm_params;
KN_API void kn_norm_params_init(kn_norm_params *params);
/* x is (..., D); each row of D numbers is brought to mean 0 and variance 1, then scaled by a weight (D) and
 * shifted by a bias (D). RMS norm divides by the root of the mean square instead, and has no bias. */
KN_API kn_value *kn_layer_norm(kn_value *x, const kn_norm_params *params);
KN_API kn_value *kn_rms_norm(kn_value *x, const kn_norm_params *params);
/* x is (N,C,...); in each sample each group of C/groups neighbouring channels is brought to mean 0 and
 * variance 1, then each channel scaled by a weight (C) and shifted by a bias (C). Instance norm: each channel
 * is a group. */
KN_API kn_value *kn_group_norm(kn_value *x, int64_t groups, const kn_norm_params *params);
KN_API kn_value *kn_instance_norm(kn_value *x, const kn_norm_params *params);
/* x is an input (N,C,...); each channel less its mean, over its deviation. Both are statistics (C) of the
 * graph, named after the input: "x.mean" (0 at first) and "x.deviation" (1), for kn_states_set with what
 * kn_dataset_statistics measured. */
KN_API kn_value *kn_standardize(kn_value *x);

typedef struct kn_local_norm_params {
    size_t size;
    double alpha, beta, k; /* 1e-4, 0.75, 1 */
} kn_local_norm_params;
KN_API void kn_local_norm_params_init(kn_local_norm_params *params);
/* x is (N,C,...), divided by (k + alpha * m)^beta with m the mean square over so many channels around its
 * own; those that do not exist count as zeros. */
KN_API kn_value *kn_local_response_norm(kn_value *x, int64_t channels, const kn_local_norm_params *params);

typedef struct kn_spectrogram_params {
    size_t size;
    int64_t bands;    /* triangles at equal distances on the mel scale; 0: each frequency by itself */
    double rate;      /* samples a second: 16000 */
    double low, high; /* Hz, where bands begin and end: 0, and half the rate (0) */
    double floor;     /* added to powers in front of the logarithm: 1e-7 */
    bool no_log;      /* powers as they are */
} kn_spectrogram_params;
KN_API void kn_spectrogram_params_init(kn_spectrogram_params *params);
/* x is (N,...,samples), sounds; the result (N,...,T,B), how loud they are by time and pitch: for each of the
 * T = (samples - window) / hop + 1 windows, `hop` samples apart, the logarithm of the power in each of the B
 * bands or window/2 + 1 frequencies, rate/window Hz apart. Windows are Hann's; a tone of amplitude a has the
 * power a*a at its frequency. Made of constants: nothing is learnt, and gradients reach x. */
KN_API kn_value *kn_spectrogram(kn_value *x, int64_t window, int64_t hop,
                                const kn_spectrogram_params *params);

typedef struct kn_embedding_params {
    size_t size;
    const char *name;
    const kn_initializer *weight; /* NULL: normal, with a standard deviation of 1 */
} kn_embedding_params;
/* numbers are int32 (...), such as tokens; the weight is a table (rows, columns), the result (..., columns).
 * A number that is no row of the table gives NaN. */
KN_API kn_value *kn_embedding(kn_value *numbers, int64_t rows, int64_t columns,
                              const kn_embedding_params *params);

/* Zeroes elements with probability `rate` in training, scaling the others by 1 / (1 - rate). */
KN_API kn_value *kn_dropout(kn_value *x, double rate);

/* ---- products and convolutions without parameters of their own ------------------------------ */

/* a is (...,M,K), or (...,K,M) transposed; b is (...,K,N), or (...,N,K) transposed; leading dimensions
 * broadcast. */
KN_API kn_value *kn_matmul(kn_value *a, kn_value *b, bool transpose_a, bool transpose_b);
/* The same of int8 or uint8 (...,M,K) and (...,K,N), less their zero points: int32, exact as long as that
 * holds it. A zero point has its matrix's type and is one number, or one for each row of a and each column of
 * b; NULL: 0. */
KN_API kn_value *kn_matmul_integer(kn_value *a, kn_value *b, kn_value *a_zero, kn_value *b_zero);
/* Sums of products by letters, as "bij,bjk->bik": a letter for each axis of each value; letters that are not
 * in the result are summed over, and without -> it has those that appear once. Twice in one value: its
 * diagonal. In
 * "...ij,jk->...ik" the points stand for axes without letters, which broadcast and come first where there is
 * no ->. */
KN_API kn_value *kn_einsum(const char *equation, kn_value *const *values, size_t count);
/* Convolutions of int8 or uint8, less their zero points, as kn_matmul_integer tells: int32. Beyond the image
 * x_zero, one number, stands; weight_zero is one number or, with one group, one for each filter. Both may be
 * NULL. */
KN_API kn_value *kn_conv2d_integer(kn_value *x, kn_value *weight, kn_value *x_zero, kn_value *weight_zero,
                                   const kn_conv_params *params);
KN_API kn_value *kn_conv1d_integer(kn_value *x, kn_value *weight, kn_value *x_zero, kn_value *weight_zero,
                                   const kn_conv_params *params);
/* params: everything but name, no_bias and initializers is used. bias may be NULL. */
KN_API kn_value *kn_conv2d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params);
KN_API kn_value *kn_conv1d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params);
KN_API kn_value *kn_conv_transpose2d(kn_value *x, kn_value *weight, kn_value *bias,
                                     const kn_conv_params *params);
KN_API kn_value *kn_conv_transpose1d(kn_value *x, kn_value *weight, kn_value *bias,
                                     const kn_conv_params *params);

typedef struct kn_attention_params {
    size_t size;
    int64_t heads;     /* 0 means 1 */
    bool causal;       /* query i sees the keys up to i */
    double scale;      /* 0: 1 / sqrt(D) */
    int64_t key_heads; /* heads of k and v, each shared by heads / key_heads of q; 0: as many */
    bool last; /* the queries stand at the last keys: causal, query i sees those up to i + max(0, S - T), by
                * lengths[b] instead of S where there are lengths */
    kn_value *lengths; /* int32 (B) or (1): how many keys of each sample count; those behind are not seen. Or
                          NULL */
    kn_value *mask; /* (B,heads,T,S), where B and heads may be 1: bool, true where a key is seen, or numbers
                     * that are added to the scaled scores; no gradient flows to them. Or NULL */
    double dropout; /* share of the weights that training drops; the others are scaled by 1 / (1 - dropout) */
} kn_attention_params;
/* softmax(scale q kᵀ) v, head by head: q is (B,T,heads*D), k and v are (B,S,key_heads*D), the result is
 * (B,T,heads*D). Scores are never stored. A query that sees no key gives 0. (B,heads,T,D) reshaped to
 * (B*heads,T,D) is attention with one head. */
KN_API kn_value *kn_attention(kn_value *q, kn_value *k, kn_value *v, const kn_attention_params *params);
/* The same, read in place from one array in which q, k and v lie side by side: (B,T,(heads+2*key_heads)*D),
 * as one linear layer makes it. */
KN_API kn_value *kn_attention_packed(kn_value *qkv, const kn_attention_params *params);

typedef struct kn_rotary_params {
    size_t size;
    int64_t heads;    /* 0 means 1 */
    double base;      /* 0 means 10000 */
    bool interleaved; /* pairs are neighbours; otherwise number i of a head goes with number i + D / 2 */
} kn_rotary_params;
/* Rotary embedding of q or k, (B,T,heads*D): pair i of a head's D numbers is turned by position / base^(2 i /
 * D). Row t stands at position t, or at start[b] + t, where start is int32 (B) or (1), or NULL. */
KN_API kn_value *kn_rotary(kn_value *x, kn_value *start, const kn_rotary_params *params);
/* Rows from a place on that is told at run time: start is int32 (B) or (1). x is (B,M,C). kn_put_rows: x with
 * rows (B,T,C) in place of its own; those that do not fit are left out. Assigned to the state that it was
 * made from, the state is written in place. kn_take_rows: `count` rows of x; 0 where x has none. */
KN_API kn_value *kn_put_rows(kn_value *x, kn_value *rows, kn_value *start);
KN_API kn_value *kn_take_rows(kn_value *x, kn_value *start, int64_t count);
/* What a generating model keeps of the keys or values of earlier runs: a state (B,most,C) of this name, zeros
 * at first, in which each run, outside training too, puts rows (B,T,C) from start on, int32 (1) or (B). B and
 * C are numbers, T may be a symbol. The result is the state with them; attention reads as much of it as its
 * lengths say, start + T. So one plan does for all tokens that come one by one, and one more for the prompt.
 */
KN_API kn_value *kn_cache(kn_value *rows, kn_value *start, int64_t most, const char *name);

typedef struct kn_pool_params {
    size_t size;
    int64_t window[2];  /* a 0 in the second repeats the first */
    int64_t stride[2];  /* 0: the window */
    int64_t padding[4]; /* as kn_conv_params */
    bool skip_padding;  /* average: divide by the elements inside the image only */
    bool ceil; /* a part of a window that is left at the end makes one more, if it begins in the image */
    bool all_padding;    /* as kn_conv_params */
    int64_t dilation[2]; /* maximum: distance of the window's taps; as stride of kn_conv_params */
} kn_pool_params;
/* x is (N,C,H,W); or (N,C,L), as for kn_conv. */
KN_API kn_value *kn_max_pool(kn_value *x, int64_t window, const kn_pool_params *params);
KN_API kn_value *kn_average_pool(kn_value *x, int64_t window, const kn_pool_params *params);
/* (sum of |x|^power)^(1/power). */
KN_API kn_value *kn_lp_pool(kn_value *x, double power, int64_t window, const kn_pool_params *params);
/* To (N,C,height,width), or (N,C,height) of a length: each window has its share of the image, rounded
 * outwards. width 0: as height. */
KN_API kn_value *kn_adaptive_max_pool(kn_value *x, int64_t height, int64_t width);
KN_API kn_value *kn_adaptive_average_pool(kn_value *x, int64_t height, int64_t width);
/* (N,C,H,W) to (N,C,1,1), (N,C,L) to (N,C,1). */
KN_API kn_value *kn_global_average_pool(kn_value *x);
KN_API kn_value *kn_global_max_pool(kn_value *x);

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
KN_API kn_value *kn_floor(kn_value *x);
KN_API kn_value *kn_ceil(kn_value *x);
KN_API kn_value *kn_round(kn_value *x); /* halfway to the even one */
KN_API kn_value *kn_sign(kn_value *x);
/* What is left of x divided by y: mod with the sign of y, fmod with that of x. */
KN_API kn_value *kn_mod(kn_value *x, kn_value *y);
KN_API kn_value *kn_fmod(kn_value *x, kn_value *y);
KN_API kn_value *kn_reciprocal(kn_value *x);
KN_API kn_value *kn_log1p(kn_value *x);
KN_API kn_value *kn_expm1(kn_value *x);
KN_API kn_value *kn_tan(kn_value *x);
KN_API kn_value *kn_asin(kn_value *x);
KN_API kn_value *kn_acos(kn_value *x);
KN_API kn_value *kn_atan(kn_value *x);
/* The angle of the point (x, y), given y first, as in C. */
KN_API kn_value *kn_atan2(kn_value *y, kn_value *x);
KN_API kn_value *kn_sinh(kn_value *x);
KN_API kn_value *kn_cosh(kn_value *x);
KN_API kn_value *kn_asinh(kn_value *x);
KN_API kn_value *kn_acosh(kn_value *x);
KN_API kn_value *kn_atanh(kn_value *x);
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
KN_API kn_value *kn_log_sigmoid(kn_value *x);
KN_API kn_value *kn_mish(kn_value *x);
KN_API kn_value *kn_softsign(kn_value *x);
KN_API kn_value *kn_hard_tanh(kn_value *x);
KN_API kn_value *kn_celu(kn_value *x, double alpha);
KN_API kn_value *kn_thresholded_relu(kn_value *x, double alpha);
/* 0 where |x| <= width; elsewhere x, or x brought nearer to 0 by width. */
KN_API kn_value *kn_hard_shrink(kn_value *x, double width);
KN_API kn_value *kn_soft_shrink(kn_value *x, double width);
/* x where x > 0, slope * x elsewhere; the slope is a value, such as (channels,1,1) for an image. */
KN_API kn_value *kn_prelu(kn_value *x, kn_value *slope);
KN_API kn_value *kn_clip(kn_value *x, double low, double high);
/* Comparisons answer bool. */
KN_API kn_value *kn_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_not_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_less(kn_value *x, kn_value *y);
KN_API kn_value *kn_less_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_greater(kn_value *x, kn_value *y);
KN_API kn_value *kn_greater_equal(kn_value *x, kn_value *y);
/* Truth, as bool: what is not 0 is true. */
KN_API kn_value *kn_and(kn_value *x, kn_value *y);
KN_API kn_value *kn_or(kn_value *x, kn_value *y);
KN_API kn_value *kn_xor(kn_value *x, kn_value *y);
KN_API kn_value *kn_not(kn_value *x);
KN_API kn_value *kn_isnan(kn_value *x);
KN_API kn_value *kn_isinf(kn_value *x);
/* Bits of whole numbers (fractions are cut) of one type. left and right move them by y places, 0 to one less
 * than the type has: right rounds down, and keeps the sign. */
KN_API kn_value *kn_bit_and(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_or(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_xor(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_left(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_right(kn_value *x, kn_value *y);
/* condition ? x : y, element by element. */
KN_API kn_value *kn_where(kn_value *condition, kn_value *x, kn_value *y);
KN_API kn_value *kn_cast(kn_value *x, kn_dtype dtype);

/* ---- reductions and softmax. axes: "0,2", negative counts from the end; NULL or "": all --------------- */

KN_API kn_value *kn_sum(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_mean(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_max(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_min(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_prod(kn_value *x, const char *axes,
                                bool keep); /* over sizes that are numbers above 0 */
KN_API kn_value *kn_reduce_l1(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_l2(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_sum_square(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_log_sum(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_log_sum_exp(kn_value *x, const char *axes, bool keep); /* without overflow */
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
/* Elements before and after along each axis: "0,0,1,1" for a rank-2 value's (before0, before1, after0,
 * after1). */
KN_API kn_value *kn_pad(kn_value *x, const char *amounts, double value);
KN_API kn_value *kn_broadcast(kn_value *x, const char *shape);
/* Axes walked backwards: "0,-1"; NULL or "": all. */
KN_API kn_value *kn_flip(kn_value *x, const char *axes);
/* Without axes of size 1: those named, or all (NULL or ""). */
KN_API kn_value *kn_squeeze(kn_value *x, const char *axes);
/* With axes of size 1, numbered as in the result. */
KN_API kn_value *kn_unsqueeze(kn_value *x, const char *axes);
/* x and the shape broadcast to each other; a -1 or 1 leaves a size as it is. */
KN_API kn_value *kn_expand(kn_value *x, const char *shape);
/* x that often along its last axes: "2,3"; more counts than axes make axes before the first. */
KN_API kn_value *kn_tile(kn_value *x, const char *times);
/* Each element that often, one beside the other, along an axis. */
KN_API kn_value *kn_repeat(kn_value *x, int axis, int64_t times);
/* Writes `count` parts to `parts`. sizes NULL: equal ones, the last smaller. All parts fail together. */
KN_API kn_status kn_split(kn_value *x, int axis, const int64_t *sizes, size_t count, kn_value **parts);
/* Values of one shape along an axis that is new. */
KN_API kn_value *kn_stack(kn_value *const *values, size_t count, int axis);
/* (N,C*block*block,H,W) to (N,C,H*block,W*block), and back. channels_first: a channel's pixels lie side by
 * side in the deep array, as for pixel shuffle; otherwise a pixel's channels do. */
KN_API kn_value *kn_depth_to_space(kn_value *x, int64_t block, bool channels_first);
KN_API kn_value *kn_space_to_depth(kn_value *x, int64_t block, bool channels_first);
/* begin, begin + step, … before end. */
KN_API kn_value *kn_range(kn_graph *graph, kn_dtype dtype, double begin, double end, double step);
/* x is (...,rows,columns); 0 above (tril) or below (triu) the diagonal, 0 the main one and 1 the one above.
 */
KN_API kn_value *kn_tril(kn_value *x, int64_t diagonal);
KN_API kn_value *kn_triu(kn_value *x, int64_t diagonal);
/* Padding by elements of x: mirrored at those at the edges, these again, or those from the other end. Amounts
 * as kn_pad. */
typedef enum kn_pad_mode { KN_PAD_REFLECT = 0, KN_PAD_EDGE = 1, KN_PAD_WRAP = 2 } kn_pad_mode;
KN_API kn_value *kn_pad_with_mode(kn_value *x, const char *amounts, kn_pad_mode mode);

typedef enum kn_resize_mode {
    KN_RESIZE_NEAREST = 0,
    KN_RESIZE_LINEAR = 1,
    KN_RESIZE_CUBIC = 2
} kn_resize_mode;
/* Which places of the result and of x lie on each other: middles of the edges' pixels or their outer borders.
 */
typedef enum kn_resize_coordinates {
    KN_RESIZE_HALF_PIXEL = 0,
    KN_RESIZE_ALIGN_CORNERS = 1,
    KN_RESIZE_ASYMMETRIC = 2,
    KN_RESIZE_PYTORCH_HALF_PIXEL = 3, /* a result of size 1 reads the first element */
} kn_resize_coordinates;
typedef enum kn_resize_rounding {
    KN_RESIZE_ROUND_PREFER_FLOOR = 0,
    KN_RESIZE_ROUND_PREFER_CEIL = 1,
    KN_RESIZE_FLOOR = 2,
    KN_RESIZE_CEIL = 3,
} kn_resize_rounding;
typedef struct kn_resize_params {
    size_t size;
    kn_resize_mode mode;
    kn_resize_coordinates coordinates;
    kn_resize_rounding rounding; /* of the nearest mode */
    double cubic;                /* slope of cubic pieces: -0.75 */
    double scale[2]; /* what height and width were multiplied with; 0: the quotient of the sizes */
} kn_resize_params;
KN_API void kn_resize_params_init(kn_resize_params *params);
/* x is (...,H,W), the result (...,height,width). A size that stays is left alone. */
KN_API kn_value *kn_resize_image(kn_value *x, int64_t height, int64_t width, const kn_resize_params *params);

/* ---- numbers of elements: int32 or int64, negative ones from the end ------------------------------------
 */

/* Slices of x along an axis; the numbers (...) stand for the axis. A number that does not exist gives NaN (0
 * in whole numbers) and no gradient. */
KN_API kn_value *kn_gather(kn_value *x, kn_value *numbers, int axis);
/* For each number the element that stands there along the axis; numbers have the rank of x, and its sizes or
 * less. */
KN_API kn_value *kn_gather_elements(kn_value *x, kn_value *numbers, int axis);
/* numbers are (...,K), places in the first K axes of x. */
KN_API kn_value *kn_gather_nd(kn_value *x, kn_value *numbers);
/* The same in each of the parts that the first `batch` axes of both count; the places are in the K axes of x
 * after these. */
KN_API kn_value *kn_gather_nd_batches(kn_value *x, kn_value *numbers, int batch);
typedef enum kn_scatter_reduction {
    KN_SCATTER_REPLACE = 0, /* of several for one place the last counts */
    KN_SCATTER_ADD = 1,
    KN_SCATTER_MULTIPLY = 2, /* these have no gradient */
    KN_SCATTER_MAX = 3,
    KN_SCATTER_MIN = 4,
} kn_scatter_reduction;
/* x with updates put where kn_gather, kn_gather_elements and kn_gather_nd with these numbers would read, in
 * order. A number that does not exist does nothing. */
KN_API kn_value *kn_scatter(kn_value *x, kn_value *numbers, kn_value *updates, int axis,
                            kn_scatter_reduction reduction);
KN_API kn_value *kn_scatter_elements(kn_value *x, kn_value *numbers, kn_value *updates, int axis,
                                     kn_scatter_reduction reduction);
KN_API kn_value *kn_scatter_nd(kn_value *x, kn_value *numbers, kn_value *updates,
                               kn_scatter_reduction reduction);
/* float32 with a new axis of `classes`: `on` at the number, `off` elsewhere. */
KN_API kn_value *kn_one_hot(kn_value *numbers, int64_t classes, int axis, double on, double off);
/* The k largest or smallest elements along an axis, in order; of equal ones the first comes first, and NaN is
 * larger than any number. *places (may be NULL) are their numbers, int32. */
KN_API kn_value *kn_top_k(kn_value *x, int64_t k, int axis, bool smallest, kn_value **places);
/* The number, int32, of the largest or smallest element along an axis. */
KN_API kn_value *kn_argmax(kn_value *x, int axis, bool keep);
KN_API kn_value *kn_argmin(kn_value *x, int axis, bool keep);
/* Sums up to each element; exclusive: without it. reverse: from the last on. */
KN_API kn_value *kn_cumulative_sum(kn_value *x, int axis, bool exclusive, bool reverse);

/* ---- losses: float32 scalars, means over the batch. Their errors are operators of the table (squared_error,
 * …), for who wants other sums of them
 * ------------------------------------------------------------------------ */

typedef struct kn_cross_entropy_params {
    size_t size;
    double label_smoothing;
    kn_value *class_weights; /* (classes): how much targets of each class count; NULL: all alike */
    bool ignores;            /* targets of class number `ignored` do not count */
    int64_t ignored;
    bool sum; /* instead of the mean, which is over what the targets count */
    /* For samples that are mixtures of two: a second target of class numbers, of the shape of the first, and
     * the share of the first, float from 0 to 1 of the same shape: share of the loss against the first, the
     * rest against the other. A weighted mean goes by what both classes weigh in it. NULL: one target. */
    kn_value *other, *share;
} kn_cross_entropy_params;
/* logits are (...,classes); target is int32 (...) of class numbers, or a distribution of the logits' shape.
 */
KN_API kn_value *kn_cross_entropy(kn_value *logits, kn_value *target, const kn_cross_entropy_params *params);
/* The same from log-probabilities, such as kn_log_softmax makes. */
KN_API kn_value *kn_nll(kn_value *log_probabilities, kn_value *target, const kn_cross_entropy_params *params);
/* Prediction and target are of one shape. */
KN_API kn_value *kn_mse(kn_value *prediction, kn_value *target);
KN_API kn_value *kn_l1(kn_value *prediction, kn_value *target);
KN_API kn_value *kn_huber(kn_value *prediction, kn_value *target, double delta);
/* Half the square over beta up to beta, then straight with slope 1. 0: kn_l1. */
KN_API kn_value *kn_smooth_l1(kn_value *prediction, kn_value *target, double beta);
/* Against probabilities, each by itself; the second counts what speaks for 1 as often as a weight says, which
 * broadcasts to the logits. */
KN_API kn_value *kn_binary_cross_entropy(kn_value *logits, kn_value *target);
KN_API kn_value *kn_binary_cross_entropy_weighted(kn_value *logits, kn_value *target,
                                                  kn_value *positive_weight);
/* The same from probabilities instead of logits; their logarithms end at -100. */
KN_API kn_value *kn_probability_cross_entropy(kn_value *probabilities, kn_value *target);
/* Of a distribution (...,classes), given by its logarithms, from the target: sums over classes, the mean over
 * rows. */
KN_API kn_value *kn_kl_divergence(kn_value *log_prediction, kn_value *target);
/* How far prediction * target stays below the margin; targets are 1 and -1. */
KN_API kn_value *kn_hinge(kn_value *prediction, kn_value *target, double margin);
/* The same of first - second: target 1 says that the first should be larger. */
KN_API kn_value *kn_margin_ranking(kn_value *first, kn_value *second, kn_value *target, double margin);
/* x and y are (...,D), the result (...). */
KN_API kn_value *kn_cosine_similarity(kn_value *x, kn_value *y);
/* target (...) is 1 where the rows of x and y should point the same way, -1 where their cosine should not be
 * above the margin. */
KN_API kn_value *kn_cosine_embedding(kn_value *x, kn_value *y, kn_value *target, double margin);
/* Rows (...,D): the anchor should be nearer to the positive than to the negative, by the margin. */
KN_API kn_value *kn_triplet_margin(kn_value *anchor, kn_value *positive, kn_value *negative, double margin);
typedef struct kn_ctc_params {
    size_t size;
    int64_t blank;      /* class that stands for no label; 0 */
    bool sum;           /* of all samples; without it the mean of each loss over its number of labels */
    bool zero_infinite; /* samples with more labels than fit in their times do not count */
} kn_ctc_params;
/* Connectionist temporal classification: logits are (N,times,classes), labels int32 (N,labels); of each
 * sample only the first times and labels count, as its lengths say, int32 (N) both; NULL: all. */
KN_API kn_value *kn_ctc(kn_value *logits, kn_value *labels, kn_value *times_of, kn_value *labels_of,
                        const kn_ctc_params *params);
/* The share of rows whose largest logit is the target's: logits (...,classes), target int32 (...). No
 * gradient. */
KN_API kn_value *kn_accuracy(kn_value *logits, kn_value *target);

#ifdef __cplusplus
}
#endif
#endif
