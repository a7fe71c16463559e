/* Initial values of states, from the random stream of their name. */
#include <math.h>

#include "run/run_private.h"

/* (2u - 1) * bound in float32, four elements per block of the generator. */
static void uniform_floats(uint64_t key, float bound, uint64_t first, uint64_t count, float *target) {
    uint32_t words[4];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 4 == 0) kn_philox(key, index / 4, words);
        float u = (float)(words[index % 4] >> 8) * 0x1p-24f;
        target[i] = (2.0f * u - 1.0f) * bound;
    }
}

/* A normal number within two standard deviations: redrawn from other positions of the stream until it is. */
static float truncated_normal(uint64_t key, uint64_t index) {
    enum { DRAWS = 32 }; /* 1 in 22 is outside */
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        float number = kn_random_normal(key, index + (draw << 50));
        if (number >= -2 && number <= 2) return number;
    }
    return 0;
}

void kn_initial_elements(const kn_initializer *initializer, uint64_t key, kn_dtype dtype, uint64_t first,
                         uint64_t count, void *target) {
    if (initializer->kind == KN_INITIALIZER_UNIFORM && dtype == KN_FLOAT32) {
        uniform_floats(key, (float)initializer->value, first, count, target);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        double number = initializer->value;
        if (initializer->kind == KN_INITIALIZER_UNIFORM)
            number = (2.0f * kn_random_uniform(key, first + i) - 1.0f) * (float)initializer->value;
        else if (initializer->kind == KN_INITIALIZER_NORMAL)
            number = kn_random_normal(key, first + i) * (float)initializer->value;
        else if (initializer->kind == KN_INITIALIZER_TRUNCATED_NORMAL)
            number = truncated_normal(key, first + i) * (float)initializer->value;
        kn_element_set(dtype, target, (int64_t)i, number);
    }
}

/* ---- orthogonal ------------------------------------------------------------------------------ */

static double product(const double *left, const double *right, uint64_t length) {
    double sum = 0;
    for (uint64_t i = 0; i < length; i++)
        sum += left[i] * right[i];
    return sum;
}

/* Gram-Schmidt: makes vector `at` orthogonal to the vectors before it, twice to reduce rounding errors, and
 * normalizes it. */
static void orthogonalize(double *vectors, uint64_t at, uint64_t length) {
    double *vector = vectors + at * length;
    for (int round = 0; round < 2; round++)
        for (uint64_t k = 0; k < at; k++) {
            const double *other = vectors + k * length;
            double along = product(vector, other, length);
            for (uint64_t i = 0; i < length; i++)
                vector[i] -= along * other[i];
        }
    double size = sqrt(product(vector, vector, length));
    for (uint64_t i = 0; i < length; i++)
        vector[i] = size > 0 ? vector[i] / size : 0;
}

bool kn_initial_orthogonal(const kn_host *host, const kn_initializer *initializer, uint64_t key,
                           const kn_tensor_info *info, void *target) {
    uint64_t rows = (uint64_t)info->shape[0], columns = 1;
    for (int i = 1; i < info->rank; i++)
        columns *= (uint64_t)info->shape[i];
    bool wide = columns >= rows;
    uint64_t count = wide ? rows : columns, length = wide ? columns : rows;
    if (!count) return true;
    if (length > SIZE_MAX / count) return false;
    double *vectors = kn_allocate(host, (size_t)(count * length), sizeof *vectors);
    if (!vectors) return false;
    for (uint64_t k = 0; k < count; k++) {
        for (uint64_t i = 0; i < length; i++)
            vectors[k * length + i] = kn_random_normal(key, wide ? k * columns + i : i * columns + k);
        orthogonalize(vectors, k, length);
    }
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++)
            kn_element_set(info->dtype, target, (int64_t)(r * columns + c),
                           initializer->value * vectors[wide ? r * length + c : c * length + r]);
    kn_release(host, vectors);
    return true;
}
