/* Layers and operators: the functions that build graphs.
 *
 *     kn_conv_params params = KN_CONV_DEFAULTS;
 *     params.padding[0] = 1;
 *     kn_value *h = kn_relu(kn_conv(input, 32, 3, 3, &params)); // a layer creates its parameters
 *     kn_value *logits = kn_linear(kn_flatten(kn_max_pool(h, 2, NULL)), 10, NULL);
 *     kn_value *loss = kn_cross_entropy(logits, target, NULL);
 *
 * Each call adds to the graph of its first value and returns the new value; given failed values it returns a
 * failed value (see graph.h). NULL parameters mean defaults. Layer names ("conv1", "linear2", counted per
 * scope) can be set in their parameters; the parameters of a layer are named NAME.weight and NAME.bias.
 * Layers work in one and two dimensions by the rank of x (kn_conv); operators with given weights have the
 * number of dimensions in their name (kn_conv2d). Broadcasting aligns shapes at the last dimension. kn_apply
 * reaches every operator of the table, with attributes as text. */
#ifndef KOINE_OPERATORS_H
#define KOINE_OPERATORS_H

#include <koine/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layers: they create their parameters --------------------------------------------------- */

typedef struct kn_linear_params {
    size_t size;
    const char *name;
    bool no_bias;
    const kn_initializer *weight, *bias; /* NULL: uniform within 1 / sqrt(inputs) */
} kn_linear_params;
#define KN_LINEAR_DEFAULTS KN_DEFAULTS_ZERO(kn_linear_params)
KN_API void kn_linear_params_init(kn_linear_params *params);
/* x is (..., inputs), the weight (units, inputs), the result (..., units). */
KN_API kn_value *kn_linear(kn_value *x, int64_t units, const kn_linear_params *params);

typedef struct kn_conv_params {
    size_t size;
    const char *name;
    int64_t stride[2]; /* height, width; 0 means 1, and a second 0 repeats the first */
    /* top, left, bottom, right; only the first set: the same on all sides; the first two: symmetric */
    int64_t padding[4];
    int64_t dilation[2]; /* as stride */
    int64_t groups;      /* 0 means 1 */
    /* pads so that the result size is the size divided by the stride, rounded up; extra padding at the end */
    bool same;
    bool no_bias;
    const kn_initializer *weight, *bias;
    bool same_lower;  /* as `same`, extra padding at the beginning */
    bool all_padding; /* zeros in `padding` are literal: only one side may be padded */
    /* transposed: extra lines at the end of the result, fewer than the stride; as stride */
    int64_t output_padding[2];
} kn_conv_params;
#define KN_CONV_DEFAULTS KN_DEFAULTS_ZERO(kn_conv_params)
KN_API void kn_conv_params_init(kn_conv_params *params);
/* x is (N,C,H,W), the weight (channels, C/groups, height, width), the result (N,channels,P,Q). width 0: as
 * height. In one dimension x is (N,C,L) and the weight (channels, C/groups, height); then the first of each
 * pair counts, and padding is before and after (after 0 repeats before, unless all_padding). */
KN_API kn_value *kn_conv(kn_value *x, int64_t channels, int64_t height, int64_t width,
                         const kn_conv_params *params);
/* Transposed convolution: maps a result x of a convolution with these parameters to the shape of that
 * convolution's input. The weight is (C, channels/groups, height, width); the result has (P - 1) * stride -
 * padding on both sides + dilation * (height - 1) + 1 + output_padding rows. `same` is not supported. */
KN_API kn_value *kn_conv_transpose(kn_value *x, int64_t channels, int64_t height, int64_t width,
                                   const kn_conv_params *params);

typedef struct kn_batch_norm_params {
    size_t size;
    const char *name;
    double epsilon;  /* 1e-5 */
    double momentum; /* 0.1: running = 0.9 running + 0.1 batch */
    bool no_affine;  /* no weight and bias */
    bool frozen;     /* use the running statistics in training too, and leave them unchanged */
} kn_batch_norm_params;
#define KN_BATCH_NORM_DEFAULTS                                                                               \
    KN_DEFAULTS(kn_batch_norm_params, KN_FIELD(epsilon, 1e-5), KN_FIELD(momentum, 0.1))
KN_API void kn_batch_norm_params_init(kn_batch_norm_params *params);
/* x is (N,C,...). Normalises by the statistics of the batch in training, by the running statistics
 * otherwise. */
KN_API kn_value *kn_batch_norm(kn_value *x, const kn_batch_norm_params *params);
/* The same with existing values: weight, bias, running mean and running variance, all (C). If the last two
 * are statistics, training updates them: by each batch norm that shares them, in the order in which they were
 * built. name and no_affine of params are ignored. */
KN_API kn_value *kn_batch_norm_with(kn_value *x, kn_value *weight, kn_value *bias, kn_value *mean,
                                    kn_value *variance, const kn_batch_norm_params *params);

typedef struct kn_recurrent_params {
    size_t size;
    const char *name;
    const kn_initializer *weight, *bias; /* NULL: uniform within 1 / sqrt(units) */
    int layers;                          /* each reads the results of the one before; 0 means 1 */
    /* a second recurrence runs from the last step to the first; its results are appended to the features */
    bool bidirectional;
    double dropout;    /* rate between layers, in training */
    bool relu;         /* of kn_rnn: relu instead of tanh */
    bool last;         /* return only the last layer's state after the last step, (batch, units) */
    kn_value *lengths; /* int32 (batch): number of steps of each sample; NULL: all steps */
    kn_value *start, *start_cells; /* (layers * directions, batch, units); NULL: zeros */
    /* in training each run starts from the final states of the previous run; in inference from zeros */
    bool stateful;
    /* name of another such layer whose parameters this layer uses; NULL: its own parameters */
    const char *share;
    kn_value **final,
        **final_cells; /* NULL, or where to store the final states, shaped as `start`; cells: kn_lstm's */
} kn_recurrent_params;
#define KN_RECURRENT_DEFAULTS KN_DEFAULTS_ZERO(kn_recurrent_params)
KN_API void kn_recurrent_params_init(kn_recurrent_params *params);
/* Recurrent layers as PyTorch defines them. x is (batch, length, inputs), the result (batch, length, units),
 * or 2 * units if bidirectional:
 *   kn_rnn   h = tanh(W x + b + V h' + c)
 *   kn_lstm  c = f c' + i g, h = o tanh(c), with i, f, o = sigmoid(W x + b + V h' + c), g = tanh(...)
 *   kn_gru   h = (1 - z) n + z h', with r, z = sigmoid(W x + b + V h' + c), n = tanh(W x + b + r (V h' + c))
 * The parameters are NAME.weight_ih (gates*units, inputs), NAME.weight_hh (gates*units, units), NAME.bias_ih
 * and NAME.bias_hh (gates*units), with the rows of the gates in the order i, f, g, o or r, z, n. Names of
 * later layers end in _l1, _l2 ..., those of the second direction additionally in _reverse. Steps past a
 * sample's length keep its states and are 0 in the result; the second direction starts at the sample's last
 * step. `stateful` trains long sequences in pieces (truncated backpropagation through time): sample i of a
 * batch continues sample i of the batch before, so all batches need the same number of samples; gradients
 * stop at the start of a run. The states are named NAME.state and NAME.cells, with the same endings;
 * kn_states_set can reset them to zero. */
KN_API kn_value *kn_rnn(kn_value *x, int64_t units, const kn_recurrent_params *params);
KN_API kn_value *kn_lstm(kn_value *x, int64_t units, const kn_recurrent_params *params);
KN_API kn_value *kn_gru(kn_value *x, int64_t units, const kn_recurrent_params *params);

typedef struct kn_norm_params {
    size_t size;
    const char *name;
    double epsilon; /* 1e-5 */
    bool no_bias;
    bool no_affine; /* no weight and bias */
} kn_norm_params;
#define KN_NORM_DEFAULTS KN_DEFAULTS(kn_norm_params, KN_FIELD(epsilon, 1e-5))
KN_API void kn_norm_params_init(kn_norm_params *params);
/* x is (..., D). Normalises each row of D elements to mean 0 and variance 1, then scales by a weight (D) and
 * adds a bias (D). RMS norm divides by the root mean square instead and has no bias. */
KN_API kn_value *kn_layer_norm(kn_value *x, const kn_norm_params *params);
KN_API kn_value *kn_rms_norm(kn_value *x, const kn_norm_params *params);
/* x is (N,C,...). Normalises each group of C/groups adjacent channels of each sample to mean 0 and variance
 * 1, then scales each channel by a weight (C) and adds a bias (C). Instance norm: each channel is a group. */
KN_API kn_value *kn_group_norm(kn_value *x, int64_t groups, const kn_norm_params *params);
KN_API kn_value *kn_instance_norm(kn_value *x, const kn_norm_params *params);
/* x is an input (N,C,...). Subtracts the mean of each channel and divides by its standard deviation. Both are
 * statistics (C) of the graph, named after the input: "x.mean" (initially 0) and "x.deviation" (initially 1),
 * to be set with kn_states_set from kn_dataset_statistics. */
KN_API kn_value *kn_standardize(kn_value *x);

typedef struct kn_local_norm_params {
    size_t size;
    double alpha, beta, k; /* 1e-4, 0.75, 1 */
} kn_local_norm_params;
#define KN_LOCAL_NORM_DEFAULTS                                                                               \
    KN_DEFAULTS(kn_local_norm_params, KN_FIELD(alpha, 1e-4), KN_FIELD(beta, 0.75), KN_FIELD(k, 1))
KN_API void kn_local_norm_params_init(kn_local_norm_params *params);
/* x is (N,C,...); divides it by (k + alpha * m)^beta, where m is the mean square over a window of this many
 * channels centred on each; missing channels count as zeros. */
KN_API kn_value *kn_local_response_norm(kn_value *x, int64_t channels, const kn_local_norm_params *params);

typedef struct kn_spectrogram_params {
    size_t size;
    int64_t bands;    /* triangular filters evenly spaced on the mel scale; 0: one band per frequency */
    double rate;      /* samples per second: 16000 */
    double low, high; /* Hz, limits of the bands: 0, and half the rate (0) */
    double floor;     /* added to powers before the logarithm: 1e-7 */
    bool no_log;      /* powers without logarithm */
} kn_spectrogram_params;
#define KN_SPECTROGRAM_DEFAULTS                                                                              \
    KN_DEFAULTS(kn_spectrogram_params, KN_FIELD(rate, 16000), KN_FIELD(floor, 1e-7))
KN_API void kn_spectrogram_params_init(kn_spectrogram_params *params);
/* x is (N,...,samples), sounds; the result is (N,...,T,B): for each of T = (samples - window) / hop + 1
 * windows, `hop` samples apart, the logarithm of the power in each of B bands, or in window/2 + 1 frequencies
 * rate/window Hz apart. Uses Hann windows; a tone of amplitude a has power a*a at its frequency. Consists of
 * constants: nothing is trained, and gradients flow to x. */
KN_API kn_value *kn_spectrogram(kn_value *x, int64_t window, int64_t hop,
                                const kn_spectrogram_params *params);

typedef struct kn_embedding_params {
    size_t size;
    const char *name;
    const kn_initializer *weight; /* NULL: normal, with a standard deviation of 1 */
} kn_embedding_params;
#define KN_EMBEDDING_DEFAULTS KN_DEFAULTS_ZERO(kn_embedding_params)
KN_API void kn_embedding_params_init(kn_embedding_params *params);
/* indices is int32 (...), such as tokens; the weight is a table (rows, columns), the result (..., columns).
 * An index outside the table gives NaN; sessions refuse it in an input that the host feeds
 * (KN_ERROR_ARGUMENT), like invalid indices of kn_gather and kn_gather_elements and labels of
 * kn_cross_entropy that are not a class. */
KN_API kn_value *kn_embedding(kn_value *indices, int64_t rows, int64_t columns,
                              const kn_embedding_params *params);

/* In training, sets elements to zero with probability `rate` and scales the others by 1 / (1 - rate). */
KN_API kn_value *kn_dropout(kn_value *x, double rate);
/* Random numbers from 0 up to but excluding 1, with the shape of x; redrawn in each training step by the seed
 * and the node's name, like dropout's. Otherwise the state "koine.step", a uint32, which trainers count up,
 * may be set to redraw them. The elements of x do not matter. No gradient. */
KN_API kn_value *kn_uniform_like(kn_value *x);

/* ---- products and convolutions with given weights -------------------------------------------- */

/* a is (...,M,K), or (...,K,M) transposed; b is (...,K,N), or (...,N,K) transposed; leading dimensions
 * broadcast. */
KN_API kn_value *kn_matmul(kn_value *a, kn_value *b, bool transpose_a, bool transpose_b);

/* Rows of a (rows,K) times one matrix of b (groups,K,N) per group, as in mixtures of experts: row i belongs
 * to the first group e with i < ends[e]. ends is int32 (groups), ascending. Rows from the last end on are 0.
 * The result is (rows,N). */
KN_API kn_value *kn_grouped_matmul(kn_value *a, kn_value *b, kn_value *ends);
/* The same for int8 or uint8 matrices (...,M,K) and (...,K,N) minus their zero points. The result is int32,
 * exact while it does not overflow. A zero point has its matrix's type and is a scalar, or has one element
 * per row of a or per column of b; NULL: 0. */
KN_API kn_value *kn_matmul_integer(kn_value *a, kn_value *b, kn_value *a_zero, kn_value *b_zero);
/* a (...,M,K) times the transpose of weights (N,K) that are stored as codes: weight (n,k) is
 * (code - zero) * scale. codes are int8 or a type of 8 or 4 bits, (N,K), or uint8 (N,bytes) with codes of
 * `bits` 8, 4 or 2, of which a byte has several, beginning with its lowest bits. `block` codes of a row share
 * an element of scale and zero, float32 (N,blocks), and a row has whole blocks; 0: all codes of a row share
 * one. zero may be NULL: 0, or for uint8 half of the codes' range. Weights are dequantized inside the product
 * for up to 8 rows of a, and before it for more. */
KN_API kn_value *kn_matmul_quantized(kn_value *a, kn_value *codes, kn_value *scale, kn_value *zero, int bits,
                                     int64_t block);
/* Einstein summation, as "bij,bjk->bik": a letter for each axis of each value. Letters that are not in the
 * result are summed over; without -> the result has the letters that appear once. A letter twice in one value
 * takes its diagonal. In "...ij,jk->...ik" the dots stand for unnamed axes, which broadcast, and which come
 * first if there is no ->. */
KN_API kn_value *kn_einsum(const char *equation, kn_value *const *values, size_t count);
/* Convolutions of int8 or uint8 minus their zero points, as in kn_matmul_integer; the result is int32.
 * Outside the image x is x_zero, a scalar; weight_zero is a scalar or, with one group, one element per
 * filter. Both may be NULL. */
KN_API kn_value *kn_conv2d_integer(kn_value *x, kn_value *weight, kn_value *x_zero, kn_value *weight_zero,
                                   const kn_conv_params *params);
KN_API kn_value *kn_conv1d_integer(kn_value *x, kn_value *weight, kn_value *x_zero, kn_value *weight_zero,
                                   const kn_conv_params *params);
/* Of params, name, no_bias and the initializers are ignored. bias may be NULL. */
KN_API kn_value *kn_conv2d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params);
KN_API kn_value *kn_conv1d(kn_value *x, kn_value *weight, kn_value *bias, const kn_conv_params *params);
KN_API kn_value *kn_conv_transpose2d(kn_value *x, kn_value *weight, kn_value *bias,
                                     const kn_conv_params *params);
KN_API kn_value *kn_conv_transpose1d(kn_value *x, kn_value *weight, kn_value *bias,
                                     const kn_conv_params *params);

typedef struct kn_attention_params {
    size_t size;
    int64_t heads; /* 0 means 1 */
    bool causal;   /* query i attends to keys up to i */
    double scale;  /* 0: 1 / sqrt(D) */
    /* grouped-query attention: number of heads of k and v, each used by heads / key_heads heads of q; 0: as
     * heads */
    int64_t key_heads;
    /* the queries are at the positions of the last keys: if causal, query i attends to keys up to i + max(0,
     * S - T), with lengths[b] in place of S if there are lengths */
    bool last;
    /* int32 (B) or (1): number of valid keys of each sample; later ones are masked. May be NULL */
    kn_value *lengths;
    /* (B,heads,T,S), where B and heads may be 1: bool, true where a key is visible, or floats added to the
     * scaled scores; gets no gradient. May be NULL */
    kn_value *mask;
    /* fraction of the weights dropped in training; the others are scaled by 1 / (1 - dropout) */
    double dropout;
    /* a query attends only to keys fewer than this many positions before it and, unless causal, after it; 0:
     * to all */
    int64_t window;
    /* scaled scores s become softcap * tanh(s / softcap), before the mask is added; 0: they stay */
    double softcap;
    /* int32 (B,T) or (1,T): the first key that each query sees, so that several texts fit in one row. May be
     * NULL */
    kn_value *first;
    /* k and v may have more samples than q, as a cache has slots for more texts than a run reads: sample b of
     * q reads sample b of them. No gradient */
    bool slots;
} kn_attention_params;
#define KN_ATTENTION_DEFAULTS KN_DEFAULTS_ZERO(kn_attention_params)
KN_API void kn_attention_params_init(kn_attention_params *params);
/* softmax(scale q kᵀ) v per head: q is (B,T,heads*D), k and v are (B,S,key_heads*D), the result is
 * (B,T,heads*D). Scores are never stored. A query without visible keys gives 0. (B,heads,T,D) reshaped to
 * (B*heads,T,D) is attention with one head. */
KN_API kn_value *kn_attention(kn_value *q, kn_value *k, kn_value *v, const kn_attention_params *params);
/* The same with q, k and v adjacent in one array, read in place: (B,T,(heads+2*key_heads)*D), as one linear
 * layer produces it. */
KN_API kn_value *kn_attention_packed(kn_value *qkv, const kn_attention_params *params);

typedef struct kn_rotary_params {
    size_t size;
    int64_t heads; /* 0 means 1 */
    double base;   /* 0 means 10000 */
    /* pairs are adjacent elements; otherwise element i of a head pairs with element i + D / 2 */
    bool interleaved;
} kn_rotary_params;
#define KN_ROTARY_DEFAULTS KN_DEFAULTS_ZERO(kn_rotary_params)
KN_API void kn_rotary_params_init(kn_rotary_params *params);
/* Rotary embedding of q or k, (B,T,heads*D): rotates pair i of a head's D elements by position / base^(2 i /
 * D). The position of row t is t, or start[b] + t, where start is int32 (B) or (1), or NULL. */
KN_API kn_value *kn_rotary(kn_value *x, kn_value *start, const kn_rotary_params *params);
/* Rows from a run-time position: start is int32 (B) or (1), x is (B,M,C). kn_put_rows: x with the rows from
 * start on replaced by rows (B,T,C); rows outside x are ignored, and x may have more samples than rows. If
 * the result is assigned to the state that x is, the state is updated in place. kn_take_rows: `count` rows of
 * x from start on; 0 outside x. */
KN_API kn_value *kn_put_rows(kn_value *x, kn_value *rows, kn_value *start);
KN_API kn_value *kn_take_rows(kn_value *x, kn_value *start, int64_t count);
/* The key-value cache of a language model: a state (B,length,C) of this name, initially zero, into which each
 * run, also in inference, writes rows (B,T,C) from `start` on, int32 (1) or (B). B and C are numbers, T may
 * be a symbol. The result is the updated state; attention reads as much of it as its lengths say, start + T.
 * One plan serves all tokens that are generated one by one, and a second one the prompt. */
KN_API kn_value *kn_kv_cache(kn_value *rows, kn_value *start, int64_t length, const char *name);

typedef struct kn_pool_params {
    size_t size;
    int64_t window[2];   /* a second 0 repeats the first */
    int64_t stride[2];   /* 0: the window */
    int64_t padding[4];  /* as kn_conv_params */
    bool skip_padding;   /* average: divide by the number of elements inside the image */
    bool ceil;           /* a partial window at the end counts if it begins inside the image */
    bool all_padding;    /* as kn_conv_params */
    int64_t dilation[2]; /* maximum: distance between the window's elements; as stride of kn_conv_params */
} kn_pool_params;
#define KN_POOL_DEFAULTS KN_DEFAULTS_ZERO(kn_pool_params)
KN_API void kn_pool_params_init(kn_pool_params *params);
/* x is (N,C,H,W); or (N,C,L), as for kn_conv. */
KN_API kn_value *kn_max_pool(kn_value *x, int64_t window, const kn_pool_params *params);
KN_API kn_value *kn_average_pool(kn_value *x, int64_t window, const kn_pool_params *params);
/* (sum of |x|^power)^(1/power). */
KN_API kn_value *kn_lp_pool(kn_value *x, double power, int64_t window, const kn_pool_params *params);
/* To (N,C,height,width), or (N,C,height) in one dimension: the image is divided into this many windows, whose
 * bounds are rounded outwards. width 0: as height. */
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
/* x times a scalar, x plus a scalar. */
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
KN_API kn_value *kn_round(kn_value *x); /* ties to even */
KN_API kn_value *kn_sign(kn_value *x);
/* The remainder of x divided by y: mod has the sign of y, fmod that of x. */
KN_API kn_value *kn_mod(kn_value *x, kn_value *y);
KN_API kn_value *kn_fmod(kn_value *x, kn_value *y);
/* x / y of integers, rounded toward 0 and rounded down. 0 where y is 0. */
KN_API kn_value *kn_quotient(kn_value *x, kn_value *y);
KN_API kn_value *kn_floor_quotient(kn_value *x, kn_value *y);

KN_API kn_value *kn_reciprocal(kn_value *x);
KN_API kn_value *kn_log1p(kn_value *x);
KN_API kn_value *kn_expm1(kn_value *x);
KN_API kn_value *kn_tan(kn_value *x);
KN_API kn_value *kn_asin(kn_value *x);
KN_API kn_value *kn_acos(kn_value *x);
KN_API kn_value *kn_atan(kn_value *x);
/* The angle of the point (x, y); y is the first argument, as in C. */
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
KN_API kn_value *kn_gelu(kn_value *x);      /* exact, with erf */
KN_API kn_value *kn_gelu_tanh(kn_value *x); /* the tanh approximation */
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
/* 0 where |x| <= width; elsewhere x (hard), or x moved towards 0 by width (soft). */
KN_API kn_value *kn_hard_shrink(kn_value *x, double width);
KN_API kn_value *kn_soft_shrink(kn_value *x, double width);
/* x where x > 0, slope * x elsewhere; slope is a value, such as (channels,1,1) for an image. */
KN_API kn_value *kn_prelu(kn_value *x, kn_value *slope);

KN_API kn_value *kn_clip(kn_value *x, double low, double high);
/* Comparisons return bool. */
KN_API kn_value *kn_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_not_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_less(kn_value *x, kn_value *y);
KN_API kn_value *kn_less_equal(kn_value *x, kn_value *y);
KN_API kn_value *kn_greater(kn_value *x, kn_value *y);
KN_API kn_value *kn_greater_equal(kn_value *x, kn_value *y);
/* Logical operators return bool; nonzero is true. */
KN_API kn_value *kn_and(kn_value *x, kn_value *y);
KN_API kn_value *kn_or(kn_value *x, kn_value *y);
KN_API kn_value *kn_xor(kn_value *x, kn_value *y);
KN_API kn_value *kn_not(kn_value *x);

KN_API kn_value *kn_isnan(kn_value *x);
KN_API kn_value *kn_isinf(kn_value *x);
/* Bitwise operators on integers of one type (fractions are truncated). left and right shift x by y bits, 0 to
 * one less than the type has: right rounds down and keeps the sign. */
KN_API kn_value *kn_bit_and(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_or(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_xor(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_left(kn_value *x, kn_value *y);
KN_API kn_value *kn_bit_right(kn_value *x, kn_value *y);
/* Codes of `bits` 4, 2 or 1 of which a byte has several: x is uint8 (...,bytes), the result (...,codes),
 * beginning with the lowest bits of a byte. */
KN_API kn_value *kn_unpack_bits(kn_value *x, int bits);
/* condition ? x : y, elementwise. */
KN_API kn_value *kn_where(kn_value *condition, kn_value *x, kn_value *y);
/* The same numbers in another type. To a type of 8 or 4 bits it saturates; kn_apply(graph, "cast", …) with
 * "dtype=float8e4m3fn saturate=false round=nearest" does otherwise (docs/storage-types.md). */
KN_API kn_value *kn_cast(kn_value *x, kn_dtype dtype);

/* ---- reductions and softmax. axes: "0,2", negative ones count from the end; NULL or "": all ---- */

KN_API kn_value *kn_sum(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_mean(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_max(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_min(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_prod(kn_value *x, const char *axes,
                                bool keep); /* reduced sizes must be numbers above 0 */
KN_API kn_value *kn_reduce_l1(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_l2(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_sum_square(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_log_sum(kn_value *x, const char *axes, bool keep);
KN_API kn_value *kn_reduce_log_sum_exp(kn_value *x, const char *axes, bool keep); /* overflow-safe */
KN_API kn_value *kn_softmax(kn_value *x, int axis);
KN_API kn_value *kn_log_softmax(kn_value *x, int axis);

/* ---- shapes -------------------------------------------------------------------------------------- */

/* shape as in graph.h; one dimension may be -1. */
KN_API kn_value *kn_reshape(kn_value *x, const char *shape);
/* (N, product of the other dimensions). */
KN_API kn_value *kn_flatten(kn_value *x);
/* permutation: "0,2,1"; NULL or "": the axes reversed. */
KN_API kn_value *kn_transpose(kn_value *x, const char *permutation);

KN_API kn_value *kn_concat(kn_value *const *values, size_t count, int axis);
/* Elements begin to end - 1 along an axis; negative positions count from the end; end INT64_MAX: to the
 * end. */
KN_API kn_value *kn_slice(kn_value *x, int axis, int64_t begin, int64_t end);
/* Numbers of elements to add before and after along each axis: "0,0,1,1" for a rank-2 value's (before0,
 * before1, after0, after1). */
KN_API kn_value *kn_pad(kn_value *x, const char *amounts, double value);

KN_API kn_value *kn_broadcast(kn_value *x, const char *shape);
/* Reverses axes: "0,-1"; NULL or "": all. */
KN_API kn_value *kn_flip(kn_value *x, const char *axes);
/* Removes axes of size 1: those listed, or all (NULL or ""). */
KN_API kn_value *kn_squeeze(kn_value *x, const char *axes);
/* Inserts axes of size 1, numbered as in the result; NULL or "": none. */
KN_API kn_value *kn_unsqueeze(kn_value *x, const char *axes);
/* Broadcasts x and the shape to each other; a -1 or 1 keeps a size. */
KN_API kn_value *kn_expand(kn_value *x, const char *shape);
/* Repeats x along its last axes: "2,3"; more numbers than axes add axes before the first. NULL or "": x. */
KN_API kn_value *kn_tile(kn_value *x, const char *times);
/* Repeats each element `times` times along an axis, adjacent to one another. */
KN_API kn_value *kn_repeat(kn_value *x, int axis, int64_t times);
/* Writes `count` slices to `parts`. sizes NULL: equal sizes, the last one smaller. If one fails, all fail. */
KN_API kn_status kn_split(kn_value *x, int axis, const int64_t *sizes, size_t count, kn_value **parts);
/* Joins values of equal shape along a new axis. */
KN_API kn_value *kn_stack(kn_value *const *values, size_t count, int axis);
/* (N,C*block*block,H,W) to (N,C,H*block,W*block), and back. channels_first: the pixels of a block are
 * adjacent in the deep array's channels, as for pixel shuffle; otherwise the channels of a pixel are. */
KN_API kn_value *kn_depth_to_space(kn_value *x, int64_t block, bool channels_first);
KN_API kn_value *kn_space_to_depth(kn_value *x, int64_t block, bool channels_first);
/* begin, begin + step, … up to but excluding end. */
KN_API kn_value *kn_range(kn_graph *graph, kn_dtype dtype, double begin, double end, double step);
/* x is (...,rows,columns); sets elements above (tril) or below (triu) a diagonal to 0; diagonal 0 is the main
 * one, 1 the one above it. */
KN_API kn_value *kn_tril(kn_value *x, int64_t diagonal);
KN_API kn_value *kn_triu(kn_value *x, int64_t diagonal);
/* Padding with elements of x: mirrored about the edge elements, copies of the edge elements, or elements from
 * the other end. Amounts as kn_pad. */
typedef enum kn_pad_mode { KN_PAD_REFLECT = 0, KN_PAD_EDGE = 1, KN_PAD_WRAP = 2 } kn_pad_mode;
KN_API kn_value *kn_pad_with_mode(kn_value *x, const char *amounts, kn_pad_mode mode);

typedef enum kn_resize_mode {
    KN_RESIZE_NEAREST = 0,
    KN_RESIZE_LINEAR = 1,
    KN_RESIZE_CUBIC = 2
} kn_resize_mode;
/* How positions in the result map to positions in x: aligned at the centres of the corner pixels or at their
 * outer edges. */
typedef enum kn_resize_coordinates {
    KN_RESIZE_COORDINATES_HALF_PIXEL = 0,
    KN_RESIZE_COORDINATES_ALIGN_CORNERS = 1,
    KN_RESIZE_COORDINATES_ASYMMETRIC = 2,
    KN_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL = 3, /* a result of size 1 reads the first element */
} kn_resize_coordinates;
typedef enum kn_resize_rounding {
    KN_RESIZE_ROUNDING_PREFER_FLOOR = 0,
    KN_RESIZE_ROUNDING_PREFER_CEIL = 1,
    KN_RESIZE_ROUNDING_FLOOR = 2,
    KN_RESIZE_ROUNDING_CEIL = 3,
} kn_resize_rounding;
typedef struct kn_resize_params {
    size_t size;
    kn_resize_mode mode;
    kn_resize_coordinates coordinates;
    kn_resize_rounding rounding; /* of mode nearest */
    double cubic;                /* coefficient of the cubic: -0.75 */
    double scale[2];             /* the scales of height and width; 0: the quotients of the sizes */
} kn_resize_params;
#define KN_RESIZE_DEFAULTS KN_DEFAULTS(kn_resize_params, KN_FIELD(cubic, -0.75))
KN_API void kn_resize_params_init(kn_resize_params *params);
/* x is (...,H,W), the result (...,height,width). A dimension that does not change is not resampled. */
KN_API kn_value *kn_resize_image(kn_value *x, int64_t height, int64_t width, const kn_resize_params *params);

/* ---- indices of elements: int32 or int64, negative ones count from the end ------------------ */

/* Slices of x along an axis; the dimensions of the indices (...) replace the axis. An invalid index gives NaN
 * (0 for integer types) and no gradient. */
KN_API kn_value *kn_gather(kn_value *x, kn_value *indices, int axis);
/* For each index the element at that position along the axis; the indices have the rank of x and at most its
 * sizes. */
KN_API kn_value *kn_gather_elements(kn_value *x, kn_value *indices, int axis);
/* The indices are (...,K), positions in the first K axes of x. */
KN_API kn_value *kn_gather_nd(kn_value *x, kn_value *indices);
/* The same, separately for each entry of the first `batch` axes, which both have in common; the positions are
 * in the following K axes of x. */
KN_API kn_value *kn_gather_nd_batches(kn_value *x, kn_value *indices, int batch);
typedef enum kn_scatter_reduction {
    KN_SCATTER_REPLACE = 0, /* the last update of a position wins */
    KN_SCATTER_ADD = 1,
    KN_SCATTER_MULTIPLY = 2, /* this and the following have no gradient */
    KN_SCATTER_MAX = 3,
    KN_SCATTER_MIN = 4,
} kn_scatter_reduction;
/* x with updates applied, in order, at the elements that kn_gather, kn_gather_elements and kn_gather_nd with
 * these indices would read. Invalid indices are ignored. */
KN_API kn_value *kn_scatter(kn_value *x, kn_value *indices, kn_value *updates, int axis,
                            kn_scatter_reduction reduction);
KN_API kn_value *kn_scatter_elements(kn_value *x, kn_value *indices, kn_value *updates, int axis,
                                     kn_scatter_reduction reduction);
KN_API kn_value *kn_scatter_nd(kn_value *x, kn_value *indices, kn_value *updates,
                               kn_scatter_reduction reduction);
/* float32 with a new axis of `classes`: `on` at the index, `off` elsewhere. */
KN_API kn_value *kn_one_hot(kn_value *indices, int64_t classes, int axis, double on, double off);
/* The k largest or smallest elements along an axis, sorted; ties keep their order, and NaN is larger than any
 * number. *places (may be NULL) is set to their indices, int32. */
KN_API kn_value *kn_top_k(kn_value *x, int64_t k, int axis, bool smallest, kn_value **places);
/* The index, int32, of the largest or smallest element along an axis. */
KN_API kn_value *kn_argmax(kn_value *x, int axis, bool keep);
KN_API kn_value *kn_argmin(kn_value *x, int axis, bool keep);
/* Cumulative sum along an axis; exclusive: without the element itself. reverse: from the end. */
KN_API kn_value *kn_cumulative_sum(kn_value *x, int axis, bool exclusive, bool reverse);

/* ---- losses: float32 scalars, means over the batch. Their per-element errors are operators of the table
 * (squared_error, …), for other reductions ------------------------------------------------------------- */

typedef struct kn_cross_entropy_params {
    size_t size;
    double label_smoothing;
    kn_value *class_weights; /* (classes): weight of each target class; NULL: all equal */
    bool has_ignore_index;   /* targets of class ignore_index do not count */
    int64_t ignore_index;
    bool sum; /* sum instead of the mean; the mean divides by the total weight of the targets */
    /* For samples that are mixtures of two: a second target of class indices, shaped as the first, and the
     * fraction of the first, float from 0 to 1 of the same shape. The loss is share times the loss against
     * the first target plus (1 - share) times the loss against the other. A weighted mean divides by the
     * class weights combined in the same way. NULL: one target. */
    kn_value *other, *share;
} kn_cross_entropy_params;
#define KN_CROSS_ENTROPY_DEFAULTS KN_DEFAULTS_ZERO(kn_cross_entropy_params)
KN_API void kn_cross_entropy_params_init(kn_cross_entropy_params *params);
/* logits are (...,classes); target is int32 (...) of class indices, or a distribution of the logits'
 * shape. */
KN_API kn_value *kn_cross_entropy(kn_value *logits, kn_value *target, const kn_cross_entropy_params *params);
/* The same from log-probabilities, as kn_log_softmax computes them. */
KN_API kn_value *kn_nll(kn_value *log_probabilities, kn_value *target, const kn_cross_entropy_params *params);
/* Prediction and target have the same shape. */
KN_API kn_value *kn_mse(kn_value *prediction, kn_value *target);
KN_API kn_value *kn_l1(kn_value *prediction, kn_value *target);
KN_API kn_value *kn_huber(kn_value *prediction, kn_value *target, double delta);
/* The square divided by 2 beta for errors up to beta, linear with slope 1 above. 0: kn_l1. */
KN_API kn_value *kn_smooth_l1(kn_value *prediction, kn_value *target, double beta);
/* Binary cross-entropy of each logit with a target probability; the second multiplies the positive term by a
 * weight that broadcasts to the logits. */
KN_API kn_value *kn_binary_cross_entropy(kn_value *logits, kn_value *target);
KN_API kn_value *kn_binary_cross_entropy_weighted(kn_value *logits, kn_value *target,
                                                  kn_value *positive_weight);
/* The same from probabilities instead of logits; their logarithms are clamped at -100. */
KN_API kn_value *kn_probability_cross_entropy(kn_value *probabilities, kn_value *target);
/* From the target to a distribution (...,classes) given by its logarithms: summed over classes, mean over
 * rows. */
KN_API kn_value *kn_kl_divergence(kn_value *log_prediction, kn_value *target);
/* max(0, margin - prediction * target); targets are 1 and -1. */
KN_API kn_value *kn_hinge(kn_value *prediction, kn_value *target, double margin);
/* The same of first - second: target 1 says that the first should be larger. */
KN_API kn_value *kn_margin_ranking(kn_value *first, kn_value *second, kn_value *target, double margin);
/* x and y are (...,D), the result (...). */
KN_API kn_value *kn_cosine_similarity(kn_value *x, kn_value *y);
/* target (...) is 1 where the rows of x and y should have the same direction, -1 where their cosine should
 * not exceed the margin. */
KN_API kn_value *kn_cosine_embedding(kn_value *x, kn_value *y, kn_value *target, double margin);
/* Rows (...,D): the anchor should be closer to the positive than to the negative by at least the margin. */
KN_API kn_value *kn_triplet_margin(kn_value *anchor, kn_value *positive, kn_value *negative, double margin);
typedef struct kn_ctc_params {
    size_t size;
    int64_t blank; /* class of the blank label; 0 */
    bool sum;      /* sum over the samples; otherwise the mean of each loss divided by its number of labels */
    bool zero_infinite; /* samples with more labels than fit in their time steps do not count */
} kn_ctc_params;
#define KN_CTC_DEFAULTS KN_DEFAULTS_ZERO(kn_ctc_params)
KN_API void kn_ctc_params_init(kn_ctc_params *params);
/* Connectionist temporal classification: logits are (N,times,classes), labels int32 (N,labels); times_of and
 * labels_of, int32 (N), are the numbers of valid times and labels of each sample; NULL: all. */
KN_API kn_value *kn_ctc(kn_value *logits, kn_value *labels, kn_value *times_of, kn_value *labels_of,
                        const kn_ctc_params *params);
/* The fraction of rows whose largest logit is the target's: logits (...,classes), target int32 (...). No
 * gradient. A target outside the classes counts as wrong. */
KN_API kn_value *kn_accuracy(kn_value *logits, kn_value *target);
/* The same over the rows whose target is not ignore_index, as kn_cross_entropy with has_ignore_index; NaN if
 * there are none. A trainer in shards or parts divides by the number of such rows in the batch, kn_evaluate
 * by their number in the dataset. */
KN_API kn_value *kn_accuracy_ignoring(kn_value *logits, kn_value *target, int64_t ignore_index);

#ifdef __cplusplus
}
#endif
#endif
