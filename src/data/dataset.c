/* Dataset handles on the samples of a store, and opening datasets. */
#include "data/dataset_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The error of a handle that could not be created. */
static const char no_memory[] = "out of host memory: the dataset could not be created";

/* ---- handles ----------------------------------------------------------------------- */

kn_dataset *kn_dataset_new(const kn_host *host) {
    kn_dataset *dataset = kn_allocate(host, 1, sizeof *dataset);
    if (dataset) dataset->host = *host;
    return dataset;
}

kn_dataset *kn_dataset_view(const kn_dataset *dataset, uint32_t *rows, uint64_t count) {
    kn_dataset *view = kn_dataset_new(&dataset->host);
    if (!view) {
        kn_release(&dataset->host, rows);
        return NULL;
    }
    view->error = dataset->error;
    if (view->error.status != KN_OK) {
        kn_release(&dataset->host, rows);
        return view;
    }
    if (!rows && dataset->rows) {
        rows = kn_resize(&dataset->host, NULL, dataset->count > 0 ? (size_t)dataset->count : 1, sizeof *rows);
        if (!rows) {
            kn_fail_memory(&view->error, (size_t)dataset->count * sizeof *rows);
            return view;
        }
        memcpy(rows, dataset->rows, (size_t)dataset->count * sizeof *rows);
    }
    view->rows = rows;
    view->count = count;
    view->store = kn_sample_store_keep(dataset->store);
    return view;
}

void kn_dataset_destroy(kn_dataset **dataset) {
    if (!dataset || !*dataset) return;
    kn_dataset *made = *dataset;
    kn_host host = made->host;
    kn_sample_store_leave(made->store);
    kn_sample_store_leave(made->test);
    kn_release(&host, made->rows);
    kn_release(&host, made);
    *dataset = NULL;
}

kn_status kn_dataset_status(const kn_dataset *dataset) {
    return dataset ? dataset->error.status : KN_ERROR_MEMORY;
}

const char *kn_dataset_error(const kn_dataset *dataset) {
    return dataset ? dataset->error.text : no_memory;
}

static bool usable(const kn_dataset *dataset) {
    return dataset && dataset->error.status == KN_OK;
}

/* ---- queries -------------------------------------------------------------------------- */

uint64_t kn_dataset_count(const kn_dataset *dataset) {
    return usable(dataset) ? dataset->count : 0;
}

int kn_dataset_classes(const kn_dataset *dataset) {
    return usable(dataset) ? dataset->store->classes : 0;
}

const char *kn_dataset_class_name(const kn_dataset *dataset, int class_index) {
    if (class_index < 0 || class_index >= kn_dataset_classes(dataset) || !dataset->store->class_names)
        return NULL;
    return dataset->store->class_names[class_index];
}

const char *kn_dataset_sample_name(const kn_dataset *dataset, uint64_t index) {
    if (index >= kn_dataset_count(dataset) || !dataset->store->sample_names) return NULL;
    return dataset->store->sample_names[kn_dataset_row(dataset, index)];
}

double kn_dataset_max_r2(const kn_dataset *dataset) {
    return usable(dataset) && dataset->store->explainable > 0 ? dataset->store->explainable : NAN;
}

const char *kn_dataset_vocabulary(const kn_dataset *dataset) {
    return usable(dataset) ? dataset->store->vocabulary : NULL;
}

uint64_t kn_dataset_sample_rate(const kn_dataset *dataset) {
    return usable(dataset) ? dataset->store->rate : 0;
}

const char *kn_dataset_columns(const kn_dataset *dataset) {
    return usable(dataset) ? dataset->store->columns : NULL;
}

const char *kn_dataset_about(const kn_dataset *dataset) {
    return usable(dataset) && dataset->store->about ? dataset->store->about : "";
}

bool kn_dataset_target(const kn_dataset *dataset, kn_table_target *target) {
    if (!usable(dataset) || !dataset->store->target || !target) return false;
    const kn_sample_store *store = dataset->store;
    kn_table_target found = {sizeof found, store->target, store->unit_mean, store->unit_deviation};
    return KN_RESULT_GIVE(kn_table_target, target, &found) == KN_OK;
}

uint64_t kn_dataset_skipped(const kn_dataset *dataset) {
    return usable(dataset) ? dataset->store->left_out : 0;
}

const char *kn_dataset_skipped_text(const kn_dataset *dataset) {
    return usable(dataset) && dataset->store->left_out_text ? dataset->store->left_out_text : "";
}

size_t kn_dataset_field_count(const kn_dataset *dataset) {
    return usable(dataset) ? dataset->store->field_count : 0;
}

bool kn_dataset_field_at(const kn_dataset *dataset, size_t index, kn_dataset_field *field) {
    if (index >= kn_dataset_field_count(dataset)) return false;
    const kn_sample_field *from = &dataset->store->fields[index];
    const kn_dataset_field found = {.size = sizeof found,
                                    .name = from->name,
                                    .info = from->read,
                                    .bytes = from->read_bytes,
                                    .scale = kn_field_scale(from)};
    return KN_RESULT_GIVE(kn_dataset_field, field, &found) == KN_OK;
}

bool kn_dataset_find_field(const kn_dataset *dataset, const char *name, size_t *index) {
    for (size_t i = 0; name && i < kn_dataset_field_count(dataset); i++)
        if (strcmp(dataset->store->fields[i].name, name) == 0) {
            if (index) *index = i;
            return true;
        }
    return false;
}

bool kn_dataset_label_field(const kn_dataset *dataset, size_t *field) {
    for (size_t i = 0; i < kn_dataset_field_count(dataset); i++)
        if (dataset->store->fields[i].is_label) {
            if (field) *field = i;
            return true;
        }
    return false;
}

static kn_status read_field(const kn_dataset *dataset, const uint64_t *indices, uint64_t count, size_t field,
                            void *destination, size_t bytes, kn_error *error) {
    if (field >= dataset->store->field_count)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "kn_dataset_read: field %zu is out of range; the dataset has %zu fields", field,
                       dataset->store->field_count);
    const kn_sample_field *from = &dataset->store->fields[field];
    if (count > SIZE_MAX / (from->read_bytes + 1) || count * from->read_bytes != bytes)
        return kn_fail(
            error, KN_ERROR_ARGUMENT,
            "kn_dataset_read: the destination has %zu bytes; %llu samples of field \"%s\" need %zu each",
            bytes, (unsigned long long)count, from->name, from->read_bytes);
    if (!destination && bytes > 0)
        return kn_fail(error, KN_ERROR_ARGUMENT, "kn_dataset_read: the destination is NULL");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = indices ? indices[i] : i;
        if (index >= dataset->count)
            return kn_fail(error, KN_ERROR_ARGUMENT,
                           "kn_dataset_read: index %llu is out of range; the dataset has %llu samples",
                           (unsigned long long)index, (unsigned long long)dataset->count);
    }
    return kn_dataset_gather(dataset, field, indices, count, false, destination, error);
}

kn_status kn_dataset_read(const kn_dataset *dataset, const uint64_t *indices, uint64_t count, size_t field,
                          void *destination, size_t bytes, char *message, size_t size) {
    kn_error error = {.status = KN_OK};
    kn_status status = kn_dataset_status(dataset);
    const char *reason = kn_dataset_error(dataset);
    if (status == KN_OK) {
        status = read_field(dataset, indices, count, field, destination, bytes, &error);
        reason = error.text;
    }
    if (message && size) snprintf(message, size, "%s", status == KN_OK ? "" : reason);
    return status;
}

/* ---- parts ------------------------------------------------------------------------------- */

bool kn_dataset_has_test(const kn_dataset *dataset) {
    return usable(dataset) && dataset->test;
}

kn_dataset *kn_dataset_test(const kn_dataset *dataset) {
    if (!usable(dataset)) return dataset ? kn_dataset_view(dataset, NULL, 0) : NULL;
    kn_dataset *test = kn_dataset_new(&dataset->host);
    if (!test) return NULL;
    if (!dataset->test) {
        kn_fail(&test->error, KN_ERROR_NOT_FOUND, "the dataset has no test part; use kn_dataset_split");
        return test;
    }
    test->store = kn_sample_store_keep(dataset->test);
    test->count = test->store->count;
    return test;
}

/* ---- opening ---------------------------------------------------------------------------- */

KN_DEFINE_INIT(kn_dataset_params, KN_DATASET_DEFAULTS)

/* A dataset without samples, with defaults replaced by the caller's parameters; NULL when out of memory. */
static kn_dataset *new_with(const kn_dataset_params *params, kn_source_options *options) {
    kn_error error = {0};
    *options = (kn_dataset_params)KN_DATASET_DEFAULTS;
    KN_PARAMS_TAKE(kn_dataset_params, options, params, &error);
    kn_host host = kn_host_with(&options->allocator);
    if (options->log.write) host.log = options->log;
    if (options->max_samples == 0) options->max_samples = UINT64_MAX;
    kn_dataset *dataset = kn_dataset_new(&host);
    if (dataset) dataset->error = error;
    return dataset;
}

/* Makes "y" another name of "x". */
static void alias_target(kn_sample_store *store) {
    if (!store || store->field_count < 2) return;
    kn_sample_field *y = &store->fields[1];
    char name[KN_FIELD_NAME];
    memcpy(name, y->name, sizeof name);
    *y = store->fields[0];
    memcpy(y->name, name, sizeof name);
    store->classes = 0;
    store->explainable = 0;
}

kn_dataset *kn_dataset_open(const char *spec, const kn_dataset_params *params) {
    kn_source_options options;
    kn_dataset *dataset = new_with(params, &options);
    if (!dataset || dataset->error.status != KN_OK) return dataset;
    if (!spec)
        kn_fail(&dataset->error, KN_ERROR_ARGUMENT, "kn_dataset_open: spec is NULL");
    else
        kn_source_open(dataset, spec, &options);
    if (dataset->error.status == KN_OK) {
        kn_sample_store *const parts[] = {dataset->store, dataset->test};
        dataset->count = dataset->store->count;
        for (size_t i = 0; i < KN_COUNT_OF(parts); i++) {
            if (options.target_is_input) alias_target(parts[i]);
            if (options.classes && dataset->error.status == KN_OK)
                kn_sample_store_match_classes(parts[i], spec, options.classes, &dataset->error);
        }
    }
    return dataset;
}

/* Adds one array of the caller. */
static kn_status add_array(kn_sample_store *store, const kn_dataset_array *array, int classes, uint64_t given,
                           kn_error *error) {
    if (!array->name)
        return kn_fail(error, KN_ERROR_ARGUMENT, "kn_dataset_create_from_arrays: an array has no name");
    kn_sample_field *field;
    kn_status status =
        kn_sample_store_add(store, array->name, &array->info, array->as, array->scale, &field, error);
    if (status != KN_OK) return status;
    if (given > SIZE_MAX / (field->stored_bytes + 1) || given * field->stored_bytes != array->bytes)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "field \"%s\" has %zu bytes; expected %llu samples of %zu bytes", array->name,
                       array->bytes, (unsigned long long)given, field->stored_bytes);
    if (!array->data && array->bytes > 0)
        return kn_fail(error, KN_ERROR_ARGUMENT, "field \"%s\": data is NULL", array->name);
    field->bytes = array->data;
    if (classes > 0 && strcmp(array->name, "y") == 0) {
        if (field->read.dtype != KN_INT32 || field->elements != 1)
            return kn_fail(error, KN_ERROR_SHAPE,
                           "field \"y\" holds class indices: expected one integer per sample, read as int32");
        field->is_label = true;
        store->classes = classes;
    }
    return KN_OK;
}

kn_dataset *kn_dataset_create_from_arrays(uint64_t samples, const kn_dataset_array *arrays, size_t count,
                                          int classes, const kn_dataset_params *params) {
    kn_source_options options;
    kn_dataset *dataset = new_with(params, &options);
    if (!dataset || dataset->error.status != KN_OK) return dataset;
    kn_error *error = &dataset->error;
    if (samples > UINT32_MAX) {
        kn_fail(error, KN_ERROR_UNSUPPORTED, "a dataset of %llu samples; at most 4294967295 are supported",
                (unsigned long long)samples);
        return dataset;
    }
    if (!arrays && count > 0) {
        kn_fail(error, KN_ERROR_ARGUMENT, "kn_dataset_create_from_arrays: arrays is NULL");
        return dataset;
    }
    kn_sample_store *store = kn_sample_store_create(&dataset->host, error);
    if (!store) return dataset;
    store->count = samples < options.max_samples ? samples : options.max_samples;
    kn_status status = KN_OK;
    for (size_t i = 0; i < count && status == KN_OK; i++)
        status = add_array(store, &arrays[i], classes, samples, error);
    if (status == KN_OK) status = kn_sample_store_check(store, error);
    if (status != KN_OK) {
        kn_sample_store_leave(store);
        return dataset;
    }
    dataset->store = store;
    dataset->count = store->count;
    return dataset;
}
