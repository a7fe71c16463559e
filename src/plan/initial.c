/* How states begin: numbers from the stream of their name. */
#include "plan/run_private.h"

/* (2u - 1) * bound in float32, four elements for each block of the generator. */
static void uniform_floats(uint64_t key, float bound, uint64_t first, uint64_t count, float *target) {
    uint32_t words[4];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 4 == 0) kn_philox(key, index / 4, words);
        float u = (float)(words[index % 4] >> 8) * 0x1p-24f;
        target[i] = (2.0f * u - 1.0f) * bound;
    }
}

void kn_initial_elements(const kn_initializer *initializer, uint64_t key, kn_dtype dtype, uint64_t first,
                         uint64_t count, void *target) {
    if (initializer->kind == KN_INITIALIZE_UNIFORM && dtype == KN_FLOAT32) {
        uniform_floats(key, (float)initializer->value, first, count, target);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        double number = initializer->value;
        if (initializer->kind == KN_INITIALIZE_UNIFORM)
            number = (2.0f * kn_random_uniform(key, first + i) - 1.0f) * (float)initializer->value;
        else if (initializer->kind == KN_INITIALIZE_NORMAL)
            number = kn_random_normal(key, first + i) * (float)initializer->value;
        kn_element_set(dtype, target, (int64_t)i, number);
    }
}
