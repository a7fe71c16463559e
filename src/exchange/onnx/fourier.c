/* The discrete Fourier transform, as a matrix product with sines and cosines. */
#include "exchange/onnx/import.h"

#include <inttypes.h>
#include <math.h>

enum { FOURIER_NUMBERS = 1 << 24 }; /* maximum size of a transform's matrix */

typedef struct transform {
    int64_t rows, columns; /* numbers of input and output elements, of `components` and `results` numbers
                            * each */
    int64_t components, results;
    int64_t length;
    bool inverse, onesided;
} transform;

/* The factor of input `in`, component p (real or imaginary), in output `out`, component r. */
static double factor(const transform *t, int64_t in, int64_t p, int64_t out, int64_t r) {
    double angle = 8 * atan(1.0) * (double)(in * out % t->length) / (double)t->length;
    double number = p == r ? cos(angle) : (p == 1) != t->inverse ? sin(angle) : -sin(angle);
    if (!t->inverse) return number;
    /* The missing half of a real signal's frequencies mirrors the other half. */
    bool twice = t->onesided && in != 0 && 2 * in != t->length;
    return number * (twice ? 2 : 1) / (double)t->length;
}

/* x (…,rows,…,components) becomes (…,columns,…,results) along an axis. */
static kn_value *transformed(kn_import_call *call, kn_value *x, int axis, const transform *t) {
    kn_import *import = call->import;
    int rank = x->shape.rank;
    int64_t in = t->rows * t->components, out = t->columns * t->results, order[KN_MAX_RANK];
    kn_dtype dtype = x->shape.dtype;
    if (in < 1 || out < 1 || in > FOURIER_NUMBERS / out)
        return kn_import_reject(call, KN_ERROR_UNSUPPORTED,
                                "a transform from %" PRId64 " to %" PRId64 " elements is empty or too large",
                                t->rows, t->columns);
    double *numbers = kn_arena_take(import->arena, (size_t)(in * out), sizeof *numbers);
    if (!numbers) return kn_graph_fail(import->graph, KN_ERROR_MEMORY, "out of host memory");
    for (int64_t i = 0; i < in; i++)
        for (int64_t j = 0; j < out; j++)
            numbers[i * out + j] =
                factor(t, i / t->components, i % t->components, j / t->results, j % t->results);
    for (int i = 0; i < rank; i++)
        order[i] = i;
    order[axis] = rank - 2;
    order[rank - 2] = axis;
    const char *swap = kn_import_list(import, order, rank);
    kn_value *matrix = kn_import_constant(import, KN_FLOAT64, numbers, (int64_t[]){in, out}, 2);
    if (axis != rank - 2) x = kn_transpose(x, swap);
    kn_dim dims[KN_MAX_RANK];
    memcpy(dims, x->shape.dims, sizeof dims);
    dims[rank - 2] = in;
    x = kn_matmul(kn_import_reshape(import, x, dims, rank - 1), kn_import_cast(matrix, dtype), false, false);
    dims[rank - 2] = t->columns;
    dims[rank - 1] = t->results;
    x = kn_import_reshape(import, x, dims, rank);
    return axis != rank - 2 ? kn_transpose(x, swap) : x;
}

/* x is real (…,1) or complex (…,2). */
static kn_status fourier(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const int axis = kn_import_axis(
        call, call->opset < 20 ? kn_import_int(call, "axis", 1) : kn_import_input_integer(call, 2, -2),
        x->shape.rank);
    const int64_t length = kn_import_input_integer(call, 1, -1);
    const int last = x->shape.rank ? x->shape.rank - 1 : 0;
    transform t = {.rows = x->shape.dims[axis],
                   .components = x->shape.dims[last],
                   .inverse = kn_import_int(call, "inverse", 0) != 0,
                   .onesided = kn_import_int(call, "onesided", 0) != 0};
    if (axis == last || (t.components != 1 && t.components != 2))
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected a real (…,1) or complex (…,2) signal, and another axis");
    if (!kn_dim_known(t.rows))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "axis %d is dynamic; expected a fixed size", axis);
    bool halved = t.inverse && t.onesided;
    t.length = length >= 0 ? length : halved ? 2 * (t.rows - 1) : t.rows;
    if (t.length < 1 || t.length > INT32_MAX)
        return kn_import_fail(call, KN_ERROR_ARGUMENT, "dft_length is %" PRId64 "; expected 1 to %d",
                              t.length, INT32_MAX);
    t.columns = t.onesided && !t.inverse ? t.length / 2 + 1 : t.length;
    t.results = halved ? 1 : 2;
    /* Missing elements at the end are zeros, which add nothing. */
    int64_t most = halved ? t.length / 2 + 1 : t.length;
    if (t.rows > most) {
        x = kn_slice(x, axis, 0, most);
        t.rows = most;
    }
    return kn_import_put(call, 0, transformed(call, x, axis, &t));
}

/* Frames (B,frames,length,components) of a signal (B,L,components), `step` apart. */
static kn_value *framed(kn_import_call *call, kn_value *x, int64_t frames, int64_t length, int64_t step) {
    int32_t *positions = kn_arena_take(call->import->arena, (size_t)(frames * length) + 1, sizeof *positions);
    if (!positions) return kn_graph_fail(call->graph, KN_ERROR_MEMORY, "out of host memory");
    for (int64_t i = 0; i < frames * length; i++)
        positions[i] = (int32_t)(i / length * step + i % length);
    const int64_t dims[2] = {frames, length};
    return kn_gather(x, kn_import_constant(call->import, KN_INT32, positions, dims, 2), 1);
}

/* Transforms of windowed frames: (B,frames,frequencies,2). */
static kn_status short_time_fourier(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0), *window = kn_import_optional(call, 2);
    int64_t step = 0;
    kn_import_integers(call, 1, &step, 1, NULL);
    int64_t length = kn_import_input_integer(call, 3, 0);
    if (x->shape.rank != 3 || (x->shape.dims[2] != 1 && x->shape.dims[2] != 2) ||
        !kn_dim_known(x->shape.dims[1]) ||
        (window && (window->shape.rank != 1 || !kn_dim_known(window->shape.dims[0]))))
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "expected a signal (batch,length,1 or 2) of fixed length");
    int64_t size = x->shape.dims[1];
    if (!kn_import_has(call, 3)) length = window ? window->shape.dims[0] : size;
    transform t = {
        .rows = window ? window->shape.dims[0] : length, .components = x->shape.dims[2], .results = 2};
    t.length = length;
    t.onesided = kn_import_int(call, "onesided", 1) != 0;
    t.columns = t.onesided ? length / 2 + 1 : length;
    if (step < 1 || length < 1 || length > size || t.rows < 1 || t.rows > length || size > INT32_MAX ||
        size / step + 1 > FOURIER_NUMBERS / t.rows)
        return kn_import_fail(call, KN_ERROR_ARGUMENT,
                              "frame length %" PRId64 " and step %" PRId64
                              " do not fit a signal of length %" PRId64,
                              length, step, size);
    x = framed(call, x, (size - length) / step + 1, t.rows, step);
    if (window) x = kn_mul(x, kn_unsqueeze(kn_import_cast(window, kn_value_dtype(x)), "1"));
    return kn_import_put(call, 0, transformed(call, x, 2, &t));
}

/* ONNX Runtime's transforms of real signals along the last axes, and their inverses: (…,n) and (…,n/2+1,2).
 */
static kn_status real_fourier(kn_import_call *call) {
    kn_value *x = kn_import_in(call, 0);
    const bool inverse = !strcmp(call->node->type, "Irfft");
    const int64_t axes = kn_import_int(call, "signal_ndim", 1);
    if (!kn_import_int(call, "onesided", 1) || kn_import_int(call, "normalized", 0))
        return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "expected onesided 1 and normalized 0");
    if (axes < 1 || axes > x->shape.rank - inverse || (inverse && x->shape.dims[x->shape.rank - 1] != 2))
        return kn_import_fail(call, KN_ERROR_SHAPE,
                              "signal_ndim is %" PRId64 ", which does not fit the input", axes);
    if (!inverse) x = kn_unsqueeze(x, "-1");
    for (int64_t i = 0; i < axes && kn_import_status(call) == KN_OK; i++) {
        const int64_t back = inverse ? axes - 1 - i : i; /* from the last axis on; the inverse ends with
                                                          * the last axis */
        const int axis = x->shape.rank - 2 - (int)back;
        transform t = {.rows = x->shape.dims[axis], .components = back || inverse ? 2 : 1, .results = 2};
        if (!kn_dim_known(t.rows) || t.rows < 1)
            return kn_import_fail(call, KN_ERROR_UNSUPPORTED, "axis %d is dynamic; expected a fixed size",
                                  axis);
        t.inverse = inverse;
        t.onesided = !back;
        t.length = t.columns = !back && inverse ? 2 * (t.rows - 1) : t.rows;
        if (!back && !inverse) t.columns = t.length / 2 + 1;
        if (!back && inverse) t.results = 1;
        if (t.length < 1) return kn_import_fail(call, KN_ERROR_SHAPE, "the signal is empty");
        x = transformed(call, x, axis, &t);
    }
    if (inverse) x = kn_squeeze(x, "-1");
    return kn_import_put(call, 0, x);
}

const kn_import_row kn_import_fourier[] = {
    KN_OF_MICROSOFT("Rfft", real_fourier),
    KN_OF_MICROSOFT("Irfft", real_fourier),
    {.type = "DFT", .build = fourier},
    {.type = "STFT", .build = short_time_fourier},
};
const int kn_import_fourier_count = (int)KN_COUNT_OF(kn_import_fourier);
