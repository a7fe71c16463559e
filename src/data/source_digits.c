/* digits: the images are drawn when they are first read, so that opening costs
 * nothing and the drawing goes on beside the first epoch of a training. */
#include "data/dataset_private.h"

#include <string.h>

#include "data/digits_private.h"

static void make(const kn_store *store, uint64_t sample, uint8_t *image) {
    kn_digits_image(store->make_test, sample, image);
}

static kn_store *make_store(const kn_host *host, bool test, const kn_source_options *options,
                            kn_error *error) {
    kn_store *store = kn_store_create(host, error);
    if (!store) return NULL;
    uint64_t all = kn_digits_count(test);
    store->count = all < options->most_samples ? all : options->most_samples;
    store->make = make;
    store->make_test = test;
    store->classes = KN_DIGITS_CLASSES;
    uint8_t *images = store->blocks[0] = kn_allocate(host, (size_t)store->count, KN_DIGITS_PIXELS);
    uint8_t *labels = store->blocks[1] = kn_allocate(host, (size_t)store->count, 1);
    store->states = kn_allocate(host, (size_t)store->count, sizeof *store->states);
    const kn_tensor_info image = {KN_UINT8, 3, {1, KN_DIGITS_SIDE, KN_DIGITS_SIDE}},
                         label = {KN_UINT8, 0, {0}};
    kn_store_field *x, *y;
    kn_status status = KN_OK;
    if (!images || !labels || !store->states)
        status = kn_fail_memory(error, (size_t)store->count * KN_DIGITS_PIXELS);
    if (status == KN_OK) status = kn_store_add(store, "x", &image, KN_FLOAT32, 1.0 / 255, &x, error);
    if (status == KN_OK) status = kn_store_add(store, "y", &label, KN_INT32, 1, &y, error);
    if (status != KN_OK) {
        kn_store_leave(store);
        return NULL;
    }
    for (uint64_t i = 0; i < store->count; i++)
        labels[i] = (uint8_t)kn_digits_label(test, i);
    x->bytes = images;
    y->bytes = labels;
    y->is_label = true;
    return store;
}

kn_status kn_source_digits(kn_dataset *dataset, const char *part, const kn_source_options *options) {
    bool train = part && strcmp(part, "train") == 0, test = part && strcmp(part, "test") == 0;
    if (part && !train && !test)
        return kn_fail(&dataset->error, KN_ERROR_ARGUMENT,
                       "data \"digits:%s\": expected digits, digits:train or digits:test", part);
    kn_store *store = make_store(&dataset->host, test, options, &dataset->error);
    if (!store) return dataset->error.status;
    dataset->store = store;
    if (part) return KN_OK;
    dataset->test = make_store(&dataset->host, true, options, &dataset->error);
    return dataset->error.status;
}
