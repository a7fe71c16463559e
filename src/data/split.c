/* Splits a dataset: sets samples aside for validation, the same fraction of each class. */
#include "data/dataset_private.h"

#include <math.h>
#include <string.h>

/* Which samples go to which part. */
typedef struct plan {
    uint32_t *order; /* the samples, class by class */
    uint64_t *begin; /* of each class in order; groups + 1 entries */
    uint8_t *chosen; /* of each sample */
    size_t groups;
} plan;

/* Sorts the samples by class, stably (counting sort). */
static void group(const kn_dataset *dataset, plan *work) {
    size_t field;
    bool labelled = kn_dataset_label_field(dataset, &field);
    for (uint64_t i = 0; i < dataset->count; i++)
        work->begin[labelled ? kn_dataset_label(dataset, field, i) + 1 : 1]++;
    for (size_t g = 0; g < work->groups; g++)
        work->begin[g + 1] += work->begin[g];
    for (uint64_t i = 0; i < dataset->count; i++)
        work->order[work->begin[labelled ? kn_dataset_label(dataset, field, i) : 0]++] = (uint32_t)i;
    /* Each begin has advanced to the begin of the next class. */
    for (size_t g = work->groups; g > 0; g--)
        work->begin[g] = work->begin[g - 1];
    work->begin[0] = 0;
}

/* Marks the chosen samples; returns their number. Rounding accumulates over all classes, so that the total is
 * right even if each class is small. */
static uint64_t choose(plan *work, double fraction, uint64_t seed) {
    uint64_t total = 0;
    uint64_t key = kn_random_key(seed, "koine.split");
    for (size_t g = 0; g < work->groups; g++) {
        uint64_t first = work->begin[g], next = work->begin[g + 1], wanted;
        kn_random_shuffle(kn_hash_number(key, g), work->order + first, (size_t)(next - first));
        wanted =
            (uint64_t)floor(fraction * (double)next + 0.5) - (uint64_t)floor(fraction * (double)first + 0.5);
        for (uint64_t i = 0; i < wanted; i++)
            work->chosen[work->order[first + i]] = 1;
        total += wanted;
    }
    return total;
}

/* A handle on the samples with the given mark. */
static kn_dataset *take(const kn_dataset *dataset, const plan *work, uint8_t mark, uint64_t count,
                        kn_error *error) {
    uint32_t *rows = kn_resize(&dataset->host, NULL, (size_t)count, sizeof *rows);
    if (!rows) {
        kn_fail_memory(error, (size_t)count * sizeof *rows);
        return NULL;
    }
    uint64_t used = 0;
    for (uint64_t i = 0; i < dataset->count; i++)
        if (work->chosen[i] == mark) rows[used++] = (uint32_t)kn_dataset_row(dataset, i);
    kn_dataset *view = kn_dataset_view(dataset, rows, count);
    if (!view) kn_fail_memory(error, sizeof *view);
    return view;
}

/* Formats a message with the fraction, independently of the locale. */
static kn_status refuse(kn_error *error, const kn_host *host, double fraction, const char *format,
                        uint64_t count, const char *part) {
    kn_text number;
    kn_text_init(&number, host);
    kn_text_number(&number, fraction);
    kn_status status =
        kn_fail(error, KN_ERROR_ARGUMENT, format, number.data, (unsigned long long)count, part);
    kn_text_finish(&number);
    return status;
}

static kn_status split(const kn_dataset *dataset, double fraction, uint64_t seed, kn_dataset **training,
                       kn_dataset **validation, kn_error *error) {
    if (!(fraction > 0 && fraction < 1))
        return refuse(error, &dataset->host, fraction,
                      "a validation fraction of %s of %llu samples; expected a number between 0 and 1",
                      dataset->count, "");
    if (dataset->count < 2)
        return kn_fail(error, KN_ERROR_ARGUMENT, "a dataset of %llu samples cannot be split",
                       (unsigned long long)dataset->count);
    const kn_host *host = &dataset->host;
    plan work = {.groups = dataset->store->classes > 0 ? (size_t)dataset->store->classes : 1};
    work.order = kn_resize(host, NULL, (size_t)dataset->count, sizeof *work.order);
    work.chosen = kn_allocate(host, (size_t)dataset->count, 1);
    work.begin = kn_allocate(host, work.groups + 1, sizeof *work.begin);
    kn_status status = KN_OK;
    if (!work.order || !work.chosen || !work.begin) {
        status = kn_fail_memory(error, (size_t)dataset->count * sizeof *work.order);
    } else {
        group(dataset, &work);
        uint64_t chosen = choose(&work, fraction, seed);
        if (chosen == 0 || chosen == dataset->count)
            status = refuse(error, host, fraction,
                            "a validation fraction of %s of %llu samples leaves no samples for %s",
                            dataset->count, chosen == 0 ? "validation" : "training");
        if (status == KN_OK) *validation = take(dataset, &work, 1, chosen, error);
        if (status == KN_OK && *validation)
            *training = take(dataset, &work, 0, dataset->count - chosen, error);
        if (error->status != KN_OK) status = error->status;
    }
    kn_release(host, work.order);
    kn_release(host, work.chosen);
    kn_release(host, work.begin);
    return status;
}

/* An empty handle with the error. */
static kn_dataset *failed(const kn_dataset *dataset, const kn_error *error) {
    kn_dataset *made = kn_dataset_new(&dataset->host);
    if (made) made->error = *error;
    return made;
}

kn_status kn_dataset_split(const kn_dataset *dataset, double fraction, uint64_t seed, kn_dataset **training,
                           kn_dataset **validation) {
    if (training) *training = NULL;
    if (validation) *validation = NULL;
    if (!dataset) return KN_ERROR_MEMORY;
    kn_error error = dataset->error;
    kn_dataset *parts[2] = {NULL, NULL};
    if (error.status == KN_OK && (!training || !validation))
        kn_fail(&error, KN_ERROR_ARGUMENT, "kn_dataset_split: training or validation is NULL");
    if (error.status == KN_OK) split(dataset, fraction, seed, &parts[0], &parts[1], &error);
    for (int i = 0; i < 2 && error.status == KN_OK; i++)
        error = parts[i]->error;
    if (error.status != KN_OK)
        for (int i = 0; i < 2; i++) {
            kn_dataset_destroy(&parts[i]);
            if (i == 0 ? training != NULL : validation != NULL) parts[i] = failed(dataset, &error);
        }
    if (training) *training = parts[0];
    if (validation) *validation = parts[1];
    return error.status;
}
