/* The variance of a field, overall and per channel. */
#include "data/dataset_private.h"

#include <math.h>

static double element(const kn_sample_field *field, const void *bytes, uint64_t i) {
    return field->read.dtype == KN_FLOAT32 ? (double)((const float *)bytes)[i]
                                           : (double)((const int32_t *)bytes)[i];
}

static uint64_t elements_of(const kn_sample_field *field) {
    return field->read_bytes / 4;
}

/* sample is (elements), a sample as read; sums is (2, elements): sums, then squares of differences. */
static kn_status add_all(const kn_dataset *dataset, size_t index, void *sample, double *sums,
                         kn_error *error) {
    const kn_sample_field *field = &dataset->store->fields[index];
    double *squares = sums + elements_of(field);
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < dataset->count; i++) {
            kn_status status = kn_dataset_gather(dataset, index, &i, 1, false, sample, error);
            if (status != KN_OK) return status;
            for (uint64_t j = 0; j < elements_of(field); j++) {
                double value = element(field, sample, j);
                if (pass == 0) {
                    sums[j] += value;
                } else {
                    double away = value - sums[j] / (double)dataset->count;
                    squares[j] += away * away;
                }
            }
        }
    return KN_OK;
}

/* Logs a failure to read. */
static kn_status log_error(const kn_dataset *dataset, const kn_error *error) {
    if (error->status != KN_OK) kn_log_write(&dataset->host, KN_LOG_ERROR, "%s", error->text);
    return error->status;
}

kn_status kn_dataset_variance(const kn_dataset *dataset, size_t field, double *variance) {
    kn_status status = kn_dataset_status(dataset);
    if (status != KN_OK) return status;
    if (!variance || field >= dataset->store->field_count || dataset->count == 0) return KN_ERROR_ARGUMENT;
    const kn_host *host = &dataset->host;
    const kn_sample_field *from = &dataset->store->fields[field];
    *variance = 0;
    if (elements_of(from) == 0) return KN_OK;
    void *sample = kn_allocate(host, 1, from->read_bytes);
    double *sums = kn_allocate(host, (size_t)elements_of(from), 2 * sizeof *sums);
    if (sample && sums) {
        kn_error error = {0};
        add_all(dataset, field, sample, sums, &error);
        status = log_error(dataset, &error);
        for (uint64_t j = 0; j < elements_of(from); j++)
            *variance += sums[elements_of(from) + j];
        *variance /= (double)dataset->count * (double)elements_of(from);
    } else {
        status = KN_ERROR_MEMORY;
    }
    kn_release(host, sample);
    kn_release(host, sums);
    return status;
}

/* sums is (2, channels): of the numbers and of their squares, minus the first sample's channel, which keeps
 * precision for numbers far from 0. */
static kn_status add_channels(const kn_dataset *dataset, size_t index, size_t channels, void *sample,
                              const double *first, double *sums, kn_error *error) {
    const kn_sample_field *field = &dataset->store->fields[index];
    const uint64_t each = elements_of(field) / channels;
    for (uint64_t i = 0; i < dataset->count; i++) {
        kn_status status = kn_dataset_gather(dataset, index, &i, 1, false, sample, error);
        if (status != KN_OK) return status;
        for (uint64_t j = 0; j < each * channels; j++) {
            double away = element(field, sample, j) - first[j / each];
            sums[j / each] += away;
            sums[channels + j / each] += away * away;
        }
    }
    return KN_OK;
}

kn_status kn_dataset_statistics(const kn_dataset *dataset, size_t field, float *means, float *deviations,
                                size_t channels) {
    kn_status status = kn_dataset_status(dataset);
    if (status != KN_OK) return status;
    if (!means || !deviations || field >= dataset->store->field_count || dataset->count == 0)
        return KN_ERROR_ARGUMENT;
    const kn_host *host = &dataset->host;
    const kn_sample_field *from = &dataset->store->fields[field];
    if (from->read.rank < 1 || channels == 0 || from->read.shape[0] != (int64_t)channels ||
        elements_of(from) == 0)
        return KN_ERROR_SHAPE;
    const uint64_t each = elements_of(from) / channels;
    void *sample = kn_allocate(host, 1, from->read_bytes);
    double *first = kn_allocate(host, channels, 3 * sizeof *first), *sums = first ? first + channels : NULL;
    if (sample && first) {
        const uint64_t begin = 0;
        const double numbers = (double)dataset->count * (double)each;
        kn_error error = {0};
        if (kn_dataset_gather(dataset, field, &begin, 1, false, sample, &error) == KN_OK) {
            for (size_t c = 0; c < channels; c++)
                first[c] = element(from, sample, c * each);
            add_channels(dataset, field, channels, sample, first, sums, &error);
        }
        status = log_error(dataset, &error);
        for (size_t c = 0; c < channels && status == KN_OK; c++) {
            double away = sums[c] / numbers, variance = sums[channels + c] / numbers - away * away;
            means[c] = (float)(first[c] + away);
            deviations[c] = variance > 0 ? (float)sqrt(variance) : 1;
        }
    } else {
        status = KN_ERROR_MEMORY;
    }
    kn_release(host, sample);
    kn_release(host, first);
    return status;
}
