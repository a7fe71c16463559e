/* Operators that compute step by step along an axis, or that read and write part of an axis at computed
 * positions. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_STEPS = 1024 };

/* ---- cumulative products ------------------------------------------------------------------------------- */

/* Shifts x along an axis by `count`, filling with ones; the length stays the same. */
static kn_value *shift_in_ones(kn_import_call *call, kn_value *x, int axis, int64_t count) {
    int64_t amounts[KN_IMPORT_LIST] = {0};
    amounts[axis] = count;
    kn_value *first = kn_slice(x, axis, 0, x->shape.dims[axis] - count);
    return kn_pad(first, kn_import_list(call->import, amounts, 2 * x->shape.rank), 1);
}

/* Cumulative product by doubling: round r multiplies each element by the element 2^r before it. */
static kn_status cumulative_product(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    int64_t number = 0;
    kn_import_integers(call, 1, &number, 1, NULL);
    const int axis = kn_import_axis(call, number, x->shape.rank);
    int64_t size = x->shape.dims[axis];
    if (!kn_dim_known(size))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "axis %d is dynamic; expected a fixed size", axis);
    const char *axes = kn_import_list(call->import, (int64_t[]){axis}, 1);
    bool reverse = kn_import_int(call, "reverse", 0) != 0;
    if (reverse) x = kn_flip(x, axes);
    if (kn_import_int(call, "exclusive", 0) && size > 0) x = shift_in_ones(call, x, axis, 1);
    for (int64_t step = 1; step < size; step *= 2)
        x = kn_mul(x, shift_in_ones(call, x, axis, step));
    return kn_import_put(call, 0, reverse ? kn_flip(x, axes) : x);
}

/* ---- causal convolution with state --------------------------------------------------------------------- */

/* x is (B,C,L), weight (C,1,k), and the past elements (B,C,k-1). */
static kn_status causal_convolution(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *weight = kn_import_in(call, 1), *bias = kn_import_optional(call, 2),
             *past = kn_import_optional(call, 3);
    if (x->shape.rank != 3 || weight->shape.rank != 3 || !kn_dim_known(weight->shape.dims[2]))
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected x (B,C,L) and a weight (C,1,k)");
    int64_t before = weight->shape.dims[2] - 1;
    const char *activation = kn_import_string(call, "activation", "none");
    if (before > 0) {
        int64_t amounts[6] = {[2] = before};
        x = past ? kn_concat((kn_value *[]){past, x}, 2, 2)
                 : kn_pad(x, kn_import_list(call->import, amounts, 6), 0);
    }
    kn_conv_params params = {.size = sizeof params, .groups = weight->shape.dims[0]};
    kn_value *y = kn_conv1d(x, weight, bias, &params);
    if (strcmp(activation, "none") != 0) y = kn_silu(y);
    kn_import_put(call, 0, y);
    if (!kn_import_wants(call, 1)) return kn_import_status(call);
    return kn_import_put(call, 1,
                         before ? kn_import_slice(call->import, x, 2, -before, INT64_MAX, 1)
                                : kn_import_slice(call->import, x, 2, 0, 0, 1));
}

/* ---- linear attention ---------------------------------------------------------------------------------- */

typedef struct linear_attention {
    kn_import_call *call;
    kn_value *q, *k, *v, *decay, *beta; /* (B,T,…), heads concatenated */
    kn_value *state;                    /* (B,heads,K,V) */
    kn_dim batch;
    int64_t q_heads, heads, times;
    double scale;
} linear_attention;

/* Step t of x (B,T,heads*…) as (B,heads,count,…). */
static kn_value *step_of(const linear_attention *a, kn_value *x, int64_t t, int64_t heads, int64_t count) {
    const kn_dim dims[4] = {a->batch, heads, count, x->shape.dims[2] / (heads * count)};
    return kn_import_reshape(a->call->import, kn_slice(x, 1, t, t + 1), dims, 4);
}

/* state = exp(decay) state + k (x) v', where v' is v or beta (v - state k); the result is q state. */
static kn_value *attend(linear_attention *a, int64_t t) {
    kn_value *k = step_of(a, a->k, t, a->heads, 1), *v = step_of(a, a->v, t, a->heads, 1);
    kn_value *q = step_of(a, a->q, t, a->heads, a->q_heads / a->heads);
    if (a->decay) {
        kn_value *decay = step_of(a, a->decay, t, a->heads, 1);
        a->state = kn_mul(a->state, kn_exp(kn_transpose(decay, "0,1,3,2")));
    }
    if (a->beta) {
        int64_t betas = a->beta->shape.dims[2];
        v = kn_mul(step_of(a, a->beta, t, betas, 1), kn_sub(v, kn_matmul(k, a->state, false, false)));
    }
    a->state = kn_add(a->state, kn_mul(kn_transpose(k, "0,1,3,2"), v));
    kn_value *y = kn_scale(kn_matmul(q, a->state, false, false), a->scale);
    const kn_dim dims[3] = {a->batch, 1, a->q_heads * a->v->shape.dims[2] / a->heads};
    return kn_import_reshape(a->call->import, y, dims, 3);
}

static kn_status take_linear(linear_attention *a) {
    kn_import_call *call = a->call;
    kn_value **inputs[6] = {&a->q, &a->k, &a->v, &a->state, &a->decay, &a->beta};
    for (int i = 0; i < 6; i++)
        *inputs[i] = i < 3 ? kn_import_in(call, i) : kn_import_optional(call, i);
    bool fits = a->heads > 0 && a->q_heads > 0 && a->q_heads % a->heads == 0;
    for (int i = 0; i < 6; i++) {
        const kn_value *x = *inputs[i];
        if (!x || i == 3) continue;
        int64_t heads = i ? a->heads : a->q_heads;
        fits = fits && x->shape.rank == 3 && kn_dim_known(x->shape.dims[2]) && x->shape.dims[2] > 0 &&
               (x->shape.dims[2] % heads == 0 || (i == 5 && x->shape.dims[2] == 1));
    }
    if (!fits)
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected (B,T,heads*size), with sizes divisible by the number of heads");
    a->batch = a->q->shape.dims[0];
    a->times = a->q->shape.dims[1];
    if (!kn_dim_known(a->times) || a->times < 1 || a->times > MAX_STEPS)
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the length is dynamic or above %d", MAX_STEPS);
    kn_import *import = call->import;
    int64_t keys = a->k->shape.dims[2] / a->heads, values = a->v->shape.dims[2] / a->heads;
    const kn_dim dims[4] = {a->batch, a->heads, keys, values};
    if (!a->state)
        a->state = kn_import_broadcast(import, kn_import_scalar(import, a->q->shape.dtype, 0), dims, 4);
    a->scale = kn_import_float(call, "scale", 0);
    if (a->scale == 0) a->scale = 1 / sqrt((double)keys);
    return kn_import_status(call);
}

static kn_status linear(kn_import_call *call) {
    linear_attention a = {.call = call,
                          .q_heads = kn_import_int(call, "q_num_heads", 0),
                          .heads = kn_import_int(call, "kv_num_heads", 0)};
    kn_value *parts[KN_MAX_INPUTS];
    int count = 0;
    if (take_linear(&a) != KN_OK) return kn_import_status(call);
    for (int64_t t = 0; t < a.times; t++) {
        parts[count++] = attend(&a, t);
        if (count < KN_MAX_INPUTS && t + 1 < a.times) continue;
        parts[0] = count == 1 ? parts[0] : kn_concat(parts, (size_t)count, 1);
        count = 1;
    }
    kn_import_put(call, 0, parts[0]);
    return kn_import_put(call, 1, a.state);
}

/* ---- computed positions -------------------------------------------------------------------------------- */

/* 0 to count - 1 as int32 along one axis; the other axes have size 1. */
static kn_value *counted_along(kn_import *import, kn_dim count, int axis, int rank) {
    kn_dim dims[KN_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? count : 1;
    return kn_import_reshape(import, kn_import_range(import, count), dims, rank);
}

static kn_value *int_scalar(kn_import *import, int64_t number) {
    return kn_import_scalar(import, KN_INT32, (double)number);
}

/* Reverses the first steps of each sample, as many as its length. */
static kn_status reverse_sequence(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *lengths = kn_import_in(call, 1);
    kn_import *import = call->import;
    bool times_first = kn_import_int(call, "time_axis", 0) == 0;
    int64_t order[KN_MAX_RANK];
    int rank = x->shape.rank;
    if (rank < 2 || kn_import_int(call, "batch_axis", 1) != (times_first ? 1 : 0))
        return kn_import_fail(call, KN_ERROR_SHAPE, "expected batch_axis and time_axis to be 0 and 1");
    for (int i = 0; i < rank; i++)
        order[i] = i < 2 ? 1 - i : i;
    const char *swap = kn_import_list(import, order, rank);
    if (times_first) x = kn_transpose(x, swap);
    const kn_shape shape = x->shape;
    kn_dim rows = kn_dim_multiply(call->graph, shape.dims[0], shape.dims[1]), flat[KN_MAX_RANK], line[2];
    if (!kn_dim_known(shape.dims[1]))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "the length is dynamic; expected a fixed size");
    flat[0] = rows;
    memcpy(flat + 1, shape.dims + 2, (size_t)(rank - 2) * sizeof *flat);
    line[0] = shape.dims[0];
    line[1] = 1;
    kn_value *length = kn_import_reshape(import, kn_import_cast(lengths, KN_INT32), line, 2);
    kn_value *step = counted_along(import, shape.dims[1], 1, 2);
    kn_value *mirrored = kn_sub(kn_sub(length, int_scalar(import, 1)), step);
    kn_value *position = kn_where(kn_less(step, length), mirrored, step);
    kn_value *first = kn_mul(counted_along(import, shape.dims[0], 0, 2), int_scalar(import, shape.dims[1]));
    kn_value *numbers = kn_import_reshape(import, kn_add(first, position), &rows, 1);
    kn_value *y = kn_gather(kn_import_reshape(import, x, flat, rank - 1), numbers, 0);
    y = kn_import_reshape(import, y, shape.dims, rank);
    return kn_import_put(call, 0, times_first ? kn_transpose(y, swap) : y);
}

/* past is (B,…,S,…), the update (B,…,T,…): writes steps starting at each sample's position. */
static kn_status put_steps(kn_import_call *call) {
    kn_value *past = kn_import_in(call, 0), *update = kn_import_in(call, 1),
             *begin = kn_import_optional(call, 2);
    kn_import *import = call->import;
    const int axis = kn_import_axis(call, kn_import_int(call, "axis", -2), past->shape.rank);
    int rank = past->shape.rank;
    const kn_shape shape = past->shape;
    if (axis == 0 || update->shape.rank != rank || !kn_dim_known(shape.dims[axis]))
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected (B,…) and an axis of fixed size after the batch");
    kn_dim between = 1, inner = 1, times = update->shape.dims[axis], size = shape.dims[axis];
    for (int i = 1; i < rank; i++)
        if (i < axis)
            between = kn_dim_multiply(call->graph, between, shape.dims[i]);
        else if (i > axis)
            inner = kn_dim_multiply(call->graph, inner, shape.dims[i]);
    kn_dim outer = kn_dim_multiply(call->graph, shape.dims[0], between);
    const kn_dim rows[2] = {kn_dim_multiply(call->graph, outer, size), inner};
    const kn_dim new_rows[2] = {kn_dim_multiply(call->graph, outer, times), inner};
    const kn_dim start[3] = {shape.dims[0], 1, 1}, starts[3] = {shape.dims[0], between, 1};
    kn_value *step = counted_along(import, times, 2, 3);
    if (begin) step = kn_add(kn_import_reshape(import, kn_import_cast(begin, KN_INT32), start, 3), step);
    if (!strcmp(kn_import_string(call, "mode", "linear"), "circular"))
        step = kn_mod(step, int_scalar(import, size));
    kn_value *first = kn_import_reshape(
        import, kn_mul(kn_import_range(import, outer), int_scalar(import, size)), starts, 3);
    kn_value *numbers = kn_import_reshape(import, kn_add(first, step), new_rows, 1);
    kn_value *y = kn_scatter(kn_import_reshape(import, past, rows, 2), numbers,
                             kn_import_reshape(import, update, new_rows, 2), 0, KN_SCATTER_REPLACE);
    return kn_import_put(call, 0, kn_import_reshape(import, y, shape.dims, rank));
}

const kn_import_row kn_import_steps[] = {
    {.type = "CumProd", .build = cumulative_product},
    {.type = "CausalConvWithState", .build = causal_convolution},
    {.type = "LinearAttention", .build = linear},
    {.type = "ReverseSequence", .build = reverse_sequence},
    {.type = "TensorScatter", .build = put_steps},
};
const int kn_import_steps_count = (int)KN_COUNT_OF(kn_import_steps);
