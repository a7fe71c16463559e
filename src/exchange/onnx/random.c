/* Random numbers. They come from Koine's generator and depend on the model's seed, the node's place in the
 * file and the step counter; the attribute `seed` has no effect. */
#include "exchange/onnx/import.h"

#include <math.h>

/* ---- distributions ------------------------------------------------------------------------------------- */

/* Uniform random numbers in [0, 1), float32. */
static kn_value *uniform(kn_import_call *call, const kn_dim *dims, int rank) {
    kn_value *zero = kn_import_scalar(call->import, KN_FLOAT32, 0);
    return kn_uniform_like(rank ? kn_import_broadcast(call->import, zero, dims, rank) : zero);
}

/* Box and Muller's transform of two uniform numbers, of which the first must not be 0. */
static kn_value *normal(kn_import_call *call, const kn_dim *dims, int rank) {
    kn_value *size = kn_shift(kn_neg(uniform(call, dims, rank)), 1);
    kn_value *angle = kn_scale(uniform(call, dims, rank), 2 * acos(-1));
    return kn_mul(kn_sqrt(kn_scale(kn_log(size), -2)), kn_cos(angle));
}

/* The attribute dtype; `usual` if it is not given. */
static kn_dtype type_of(kn_import_call *call, kn_dtype usual) {
    kn_dtype dtype = usual;
    if (kn_import_attribute(call, "dtype") &&
        !kn_onnx_type_to((kn_onnx_type)kn_import_int(call, "dtype", 1), &dtype))
        kn_import_fail(call, KN_ERROR_UNSUPPORTED, "dtype is not a supported type");
    return dtype;
}

static kn_status put(kn_import_call *call, kn_value *value, kn_dtype dtype) {
    return kn_import_put_as(call, 0, kn_import_cast(value, kn_is_half(dtype) ? KN_FLOAT32 : dtype), dtype);
}

static kn_status put_numbers(kn_import_call *call, const kn_dim *dims, int rank, kn_dtype dtype) {
    if (!kn_dtype_is_float(dtype))
        return kn_import_fail(call, KN_ERROR_FORMAT, "dtype is %s; expected a floating-point type",
                              kn_dtype_name(dtype));
    if (!strncmp(call->node->type, "RandomNormal", 12)) {
        const double mean = kn_import_float(call, "mean", 0), scale = kn_import_float(call, "scale", 1);
        return put(call, kn_shift(kn_scale(normal(call, dims, rank), scale), mean), dtype);
    }
    const double low = kn_import_float(call, "low", 0), high = kn_import_float(call, "high", 1);
    return put(call, kn_shift(kn_scale(uniform(call, dims, rank), high - low), low), dtype);
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static kn_status of_shape(kn_import_call *call) {
    int64_t sizes[KN_MAX_RANK];
    kn_dim dims[KN_MAX_RANK];
    const int rank = kn_import_ints(call, "shape", sizes, KN_MAX_RANK);
    if (rank < 0) return kn_import_fail(call, KN_ERROR_FORMAT, "the attribute shape is missing");
    for (int i = 0; i < rank; i++) {
        if (sizes[i] < 0) return kn_import_fail(call, KN_ERROR_SHAPE, "a size is negative");
        dims[i] = kn_dim_of(call->graph, sizes[i]);
    }
    return put_numbers(call, dims, rank, type_of(call, KN_FLOAT32));
}

static kn_status like(kn_import_call *call) {
    const kn_shape shape = kn_import_input_shape(call, 0);
    return put_numbers(call, shape.dims, shape.rank, type_of(call, kn_import_dtype(call, 0)));
}

static kn_status bernoulli(kn_import_call *call) {
    kn_value *chance = kn_import_in(call, 0);
    const kn_shape shape = kn_import_input_shape(call, 0);
    const kn_dtype dtype = type_of(call, kn_import_dtype(call, 0));
    kn_value *drawn = uniform(call, shape.dims, shape.rank);
    return put(call, kn_less(drawn, kn_import_cast(chance, KN_FLOAT32)), dtype);
}

/* The number of classes whose cumulative probability is at most a uniform number. */
static kn_status multinomial(kn_import_call *call) {
    const kn_shape shape = kn_import_input_shape(call, 0);
    const int64_t samples = kn_import_int(call, "sample_size", 1);
    const kn_dtype dtype = type_of(call, KN_INT32);
    if (shape.rank != 2) return kn_import_fail(call, KN_ERROR_SHAPE, "expected (batch,classes)");
    if (samples < 1) return kn_import_fail(call, KN_ERROR_ARGUMENT, "sample_size must be positive");
    if (dtype != KN_INT32 && dtype != KN_INT64)
        return kn_import_fail(call, KN_ERROR_FORMAT, "dtype must be int32 or int64");
    const kn_dim dims[] = {shape.dims[0], kn_dim_of(call->graph, samples), kn_dim_of(call->graph, 1)};
    kn_value *chances = kn_softmax(kn_import_cast(kn_import_in(call, 0), KN_FLOAT32), -1);
    kn_value *ends = kn_unsqueeze(kn_cumulative_sum(chances, 1, false, false), "1");
    kn_value *end = kn_reduce_max(ends, "-1", true); /* about 1 */
    kn_value *drawn = kn_mul(uniform(call, dims, 3), end);
    kn_value *passed = kn_cast(kn_less_equal(ends, drawn), KN_FLOAT32);
    return put(call, kn_sum(passed, "-1", false), dtype);
}

const kn_import_row kn_import_random[] = {
    {.type = "RandomNormal", .build = of_shape}, {.type = "RandomUniform", .build = of_shape},
    {.type = "RandomNormalLike", .build = like}, {.type = "RandomUniformLike", .build = like},
    {.type = "Bernoulli", .build = bernoulli},   {.type = "Multinomial", .build = multinomial},
};
const int kn_import_random_count = (int)KN_COUNT_OF(kn_import_random);
