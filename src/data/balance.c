/* Class balancing: by the order of samples, or by class weights. */
#include "data/dataset_private.h"

#include <string.h>

kn_status kn_balance_open(kn_balance *balance, const kn_dataset *dataset, kn_error *error) {
    size_t field, classes = (size_t)kn_dataset_classes(dataset);
    const kn_host *host = &dataset->host;
    if (!kn_dataset_label_field(dataset, &field))
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "a balanced loader needs data with one class per sample; this data has none");
    balance->samples = kn_allocate(host, 2 * (size_t)dataset->count + 1, sizeof *balance->samples);
    balance->begin = kn_allocate(host, classes + 2, sizeof *balance->begin);
    if (!balance->samples || !balance->begin)
        return kn_fail_memory(error, 2 * (size_t)dataset->count * sizeof *balance->samples);
    uint64_t *begin = balance->begin;
    for (uint64_t i = 0; i < dataset->count; i++)
        begin[kn_dataset_label(dataset, field, i) + 2]++;
    for (size_t c = 2; c < classes + 2; c++)
        begin[c] += begin[c - 1];
    /* Each class's begin advances to that of the next class. */
    for (uint64_t i = 0; i < dataset->count; i++)
        balance->samples[begin[kn_dataset_label(dataset, field, i) + 1]++] = (uint32_t)i;
    /* Skips classes without samples. */
    for (size_t c = 0; c < classes; c++)
        if (begin[c + 1] > begin[balance->classes]) begin[++balance->classes] = begin[c + 1];
    return KN_OK;
}

void kn_balance_draw(kn_balance *balance, uint64_t key, uint32_t *order, size_t count) {
    uint32_t *scratch = balance->samples + balance->begin[balance->classes];
    size_t filled = 0;
    for (size_t c = 0; c < balance->classes; c++) {
        const uint32_t *members = balance->samples + balance->begin[c];
        size_t there = (size_t)(balance->begin[c + 1] - balance->begin[c]);
        size_t end = (size_t)((uint64_t)count * (c + 1) / balance->classes);
        for (uint32_t round = 0; filled < end; round++) {
            size_t taken = there < end - filled ? there : end - filled;
            memcpy(scratch, members, there * sizeof *members);
            kn_random_shuffle(kn_hash_number(key, (uint64_t)round << 32 | c), scratch, there);
            memcpy(order + filled, scratch, taken * sizeof *order);
            filled += taken;
        }
    }
}

void kn_balance_close(const kn_host *host, kn_balance *balance) {
    kn_release(host, balance->samples);
    kn_release(host, balance->begin);
    *balance = (kn_balance){NULL, NULL, 0};
}

kn_status kn_dataset_class_weights(const kn_dataset *dataset, float *weights, size_t count) {
    size_t field, there = 0;
    if (kn_dataset_status(dataset) != KN_OK) return kn_dataset_status(dataset);
    if (!weights || count == 0 || count != (size_t)kn_dataset_classes(dataset) ||
        !kn_dataset_label_field(dataset, &field)) {
        kn_log_write(&dataset->host, KN_LOG_ERROR,
                     "kn_dataset_class_weights: room for %zu weights, but the data has %d classes; expected "
                     "one class per sample and room for all weights",
                     weights ? count : 0, kn_dataset_classes(dataset));
        return KN_ERROR_ARGUMENT;
    }
    uint64_t *samples = kn_allocate(&dataset->host, count, sizeof *samples);
    if (!samples) return KN_ERROR_MEMORY;
    for (uint64_t i = 0; i < dataset->count; i++)
        samples[kn_dataset_label(dataset, field, i)]++;
    for (size_t c = 0; c < count; c++)
        there += samples[c] > 0;
    for (size_t c = 0; c < count; c++)
        weights[c] =
            samples[c] ? (float)((double)dataset->count / ((double)there * (double)samples[c])) : 1.0f;
    kn_release(&dataset->host, samples);
    return KN_OK;
}
