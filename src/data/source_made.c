/* Generated data: samples are generated when first read, so that opening is instant and generation overlaps
 * with the first epoch. */
#include "data/dataset_private.h"

#include <string.h>

enum { MAX_SIDE = 4096 };

/* Whether byte images can be read at a requested larger size, with the same or different channels. */
static bool fits_larger(const kn_tensor_info *found, const kn_tensor_info *wanted) {
    if (!wanted || found->dtype != KN_UINT8 || found->rank != 3 || wanted->rank != 3 ||
        wanted->dtype != KN_FLOAT32)
        return false;
    for (int i = 1; i < 3; i++)
        if (wanted->shape[i] < found->shape[i] || wanted->shape[i] > MAX_SIDE) return false;
    return (wanted->shape[0] == 1 || wanted->shape[0] == 3) &&
           memcmp(found->shape, wanted->shape, 3 * sizeof found->shape[0]) != 0;
}

/* x is (c,h,w), y a label or (h,w): both are enlarged to the requested size, (C,H,W). */
static void enlarge(const kn_made_kind *kind, const kn_tensor_info *wanted, kn_sample_field *x,
                    kn_sample_field *y) {
    const int64_t *from = kind->x.shape, *size = wanted->shape;
    *x->picture = from[0];
    memcpy(x->read.shape, size, 3 * sizeof *size);
    if (kind->y.rank == 2) memcpy(y->read.shape, size + 1, 2 * sizeof *size);
    y->enlarged = kind->y.rank == 2;
    x->enlarged = true;
    y->picture[0] = 1;
    for (int i = 1; i < 3; i++)
        x->picture[i] = y->picture[i] = from[i];
    x->read_bytes = (size_t)(size[0] * size[1] * size[2]) * 4;
    if (y->enlarged) y->read_bytes = (size_t)(size[1] * size[2]) * 4;
}

static kn_sample_store *make_store(const kn_host *host, const kn_made_kind *kind, bool test,
                                   const kn_source_options *options, kn_error *error) {
    kn_sample_store *store = kn_sample_store_create(host, error);
    if (!store) return NULL;
    uint64_t all = test ? kind->test : kind->train;
    store->count = all < options->max_samples ? all : options->max_samples;
    store->made = kind;
    store->made_test = test;
    store->classes = kind->classes;
    store->explainable = kind->explainable;
    store->rate = kind->rate;
    kn_sample_field *x = NULL, *y = NULL;
    kn_dtype as = kind->classes > 0 ? KN_INT32 : KN_FLOAT32;
    kn_status status = kn_sample_store_add(store, "x", &kind->x, KN_FLOAT32, kind->x_scale, &x, error);
    if (status == KN_OK) status = kn_sample_store_add(store, "y", &kind->y, as, kind->y_scale, &y, error);
    if (status == KN_OK) {
        store->blocks[0] = kn_allocate(host, (size_t)store->count, x->stored_bytes);
        store->blocks[1] = kn_allocate(host, (size_t)store->count, y->stored_bytes);
        store->states = kn_allocate(host, (size_t)store->count, sizeof *store->states);
        if (!store->blocks[0] || !store->blocks[1] || !store->states)
            status = kn_fail_memory_for(error, "the samples", store->count, x->stored_bytes);
    }
    if (status == KN_OK && fits_larger(&kind->x, options->expected)) enlarge(kind, options->expected, x, y);
    if (status != KN_OK) {
        kn_sample_store_leave(store);
        return NULL;
    }
    for (uint64_t i = 0; i < store->count; i++)
        kind->answer(test, i, (uint8_t *)store->blocks[1] + i * y->stored_bytes);
    x->bytes = store->blocks[0];
    y->bytes = store->blocks[1];
    y->is_label = kind->classes > 0 && kind->y.rank == 0;
    return store;
}

kn_status kn_source_made(kn_dataset *dataset, const kn_made_kind *kind, const char *part,
                         const kn_source_options *options) {
    bool train = part && strcmp(part, "train") == 0, test = part && strcmp(part, "test") == 0;
    if (part && !train && !test)
        return kn_fail(&dataset->error, KN_ERROR_ARGUMENT, "data \"%s:%s\": expected %s, %s:train or %s:test",
                       kind->word, part, kind->word, kind->word, kind->word);
    kn_sample_store *store = make_store(&dataset->host, kind, test, options, &dataset->error);
    if (!store) return dataset->error.status;
    dataset->store = store;
    if (part) return KN_OK;
    dataset->test = make_store(&dataset->host, kind, true, options, &dataset->error);
    return dataset->error.status;
}

const kn_source_row kn_data_source_digits = {
    .name = "digits",
    .usage = "digits",
    .text = "drawn digits: ten classes, 28x28 grey pixels, 50,000 samples for training, 10,000 for testing",
    .made = &kn_made_digits};

const kn_source_row kn_data_source_shapes = {
    .name = "shapes",
    .usage = "shapes",
    .text = "five outlines in two textures: ten classes, 32x32 pixels in colour, 20,000 and 4,000 samples",
    .made = &kn_made_shapes};

const kn_source_row kn_data_source_figures = {
    .name = "figures",
    .usage = "figures",
    .text = "the same images; the target of each pixel is figure or ground; 4,000 and 1,000 samples",
    .made = &kn_made_figures};

const kn_source_row kn_data_source_wind = {
    .name = "wind",
    .usage = "wind",
    .text = "wind speed (m/s) from pressure, altitude, temperature and day of the year,\n"
            "standardised, with a flag each for missing values: 8 inputs, 1 output, 20,000 and 5,000 samples",
    .made = &kn_made_wind};

const kn_source_row kn_data_source_tones = {
    .name = "tones",
    .usage = "tones",
    .text = "eight spoken commands, one second of sound at 8 kHz, 8,000 and 2,000 samples",
    .made = &kn_made_tones};
