/* Data that the library makes: what goes in is made when it is first read, so that opening costs nothing and
 * the making goes on beside the first epoch of a training. */
#include "data/dataset_private.h"

#include <string.h>

static kn_store *make_store(const kn_host *host, const kn_made_kind *kind, bool test,
                            const kn_source_options *options, kn_error *error) {
    kn_store *store = kn_store_create(host, error);
    if (!store) return NULL;
    uint64_t all = test ? kind->test : kind->train;
    store->count = all < options->most_samples ? all : options->most_samples;
    store->made = kind;
    store->made_test = test;
    store->classes = kind->classes;
    store->explainable = kind->explainable;
    kn_store_field *x = NULL, *y = NULL;
    kn_dtype as = kind->classes > 0 ? KN_INT32 : KN_FLOAT32;
    kn_status status = kn_store_add(store, "x", &kind->x, KN_FLOAT32, kind->x_scale, &x, error);
    if (status == KN_OK) status = kn_store_add(store, "y", &kind->y, as, kind->y_scale, &y, error);
    if (status == KN_OK) {
        store->blocks[0] = kn_allocate(host, (size_t)store->count, x->stored_bytes);
        store->blocks[1] = kn_allocate(host, (size_t)store->count, y->stored_bytes);
        store->states = kn_allocate(host, (size_t)store->count, sizeof *store->states);
        if (!store->blocks[0] || !store->blocks[1] || !store->states)
            status = kn_fail_memory(error, (size_t)store->count * x->stored_bytes);
    }
    if (status != KN_OK) {
        kn_store_leave(store);
        return NULL;
    }
    for (uint64_t i = 0; i < store->count; i++)
        kind->answer(test, i, (uint8_t *)store->blocks[1] + i * y->stored_bytes);
    x->bytes = store->blocks[0];
    y->bytes = store->blocks[1];
    y->is_label = kind->classes > 0;
    return store;
}

kn_status kn_source_made(kn_dataset *dataset, const kn_made_kind *kind, const char *part,
                         const kn_source_options *options) {
    bool train = part && strcmp(part, "train") == 0, test = part && strcmp(part, "test") == 0;
    if (part && !train && !test)
        return kn_fail(&dataset->error, KN_ERROR_ARGUMENT, "data \"%s:%s\": expected %s, %s:train or %s:test",
                       kind->word, part, kind->word, kind->word, kind->word);
    kn_store *store = make_store(&dataset->host, kind, test, options, &dataset->error);
    if (!store) return dataset->error.status;
    dataset->store = store;
    if (part) return KN_OK;
    dataset->test = make_store(&dataset->host, kind, true, options, &dataset->error);
    return dataset->error.status;
}
