/* Reports the first non-finite number of a store: a loss may hide it, since max(NaN, 0) is 0 in some
 * programs, or reveal it much later. */
#include <string.h>

#include "data/dataset_private.h"

/* Whether any of `count` float32 values is infinite or NaN. Integer arithmetic lets the compiler test several
 * at a time. */
static bool has_not_finite(const float *numbers, uint64_t count) {
    const uint32_t exponent = 0x7f800000u;
    uint32_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return found != 0;
}

static bool holds_floats(const kn_sample_field *field) {
    switch (field->stored) {
    case KN_FLOAT32:
    case KN_FLOAT64:
    case KN_FLOAT16:
    case KN_BFLOAT16:
        return true;
    default:
        return kn_is_small_float(field->stored);
    }
}

/* Reports the file name, or the row, of a sample. */
static void report(const kn_dataset *dataset, const kn_sample_field *field, uint64_t index, bool nan) {
    const char *file = kn_dataset_sample_name(dataset, index);
    kn_log_write(&dataset->host, KN_LOG_WARNING,
                 "'%s' of sample %llu%s%s%s has %s: results that depend on it are useless. Other samples may "
                 "contain non-finite numbers, too",
                 field->name, (unsigned long long)kn_dataset_row(dataset, index), file ? " (" : "",
                 file ? file : "", file ? ")" : "", nan ? "NaN" : "infinite numbers");
}

void kn_dataset_watch(const kn_dataset *dataset, size_t position, const uint64_t *indices, uint64_t count,
                      const float *numbers) {
    kn_sample_store *store = dataset->store;
    const kn_sample_field *field = &store->fields[position];
    const uint64_t elements = field->read_bytes / sizeof *numbers;
    if (field->read.dtype != KN_FLOAT32 || !holds_floats(field) ||
        atomic_load_explicit(&store->reported, memory_order_relaxed) ||
        !has_not_finite(numbers, count * elements))
        return;
    if (atomic_exchange(&store->reported, 1)) return;
    for (uint64_t i = 0; i < count; i++) {
        const float *sample = numbers + i * elements;
        bool nan = false;
        if (!has_not_finite(sample, elements)) continue;
        for (uint64_t k = 0; k < elements; k++)
            nan = nan || sample[k] != sample[k];
        report(dataset, field, indices[i], nan);
        return;
    }
}
