/* The store of a dataset: the bytes of its samples, and how they are read. */
#include "data/sample_files.h"

#include <string.h>

/* Samples that are not kept in memory: decoded from their files at each read. */
struct kn_later {
    kn_sample_job job; /* with copies of what it points to */
    kn_source_options options;
    void *own;
    char **names; /* of the files, by row from `kept` on */
};

static void close_later(const kn_host *host, struct kn_later *later) {
    if (!later) return;
    kn_release(host, later->own);
    kn_release(host, later->names);
    kn_release(host, later);
}

kn_sample_store *kn_sample_store_create(const kn_host *host, kn_error *error) {
    kn_sample_store *store = kn_allocate(host, 1, sizeof *store);
    if (!store) {
        kn_fail_memory(error, sizeof *store);
        return NULL;
    }
    store->host = *host;
    store->references = 1;
    store->mutex = kn_mutex_create(host);
    if (!store->mutex) {
        kn_fail_memory(error, sizeof(void *));
        kn_release(host, store);
        return NULL;
    }
    return store;
}

kn_sample_store *kn_sample_store_keep(kn_sample_store *store) {
    if (!store) return NULL;
    kn_mutex_lock(store->mutex);
    store->references++;
    kn_mutex_unlock(store->mutex);
    return store;
}

void kn_sample_store_leave(kn_sample_store *store) {
    if (!store) return;
    kn_mutex_lock(store->mutex);
    bool last = --store->references == 0;
    kn_mutex_unlock(store->mutex);
    if (!last) return;
    kn_host host = store->host;
    for (int i = 0; i < KN_SAMPLE_STORE_FILES; i++) {
        kn_release(&host, store->blocks[i]);
        kn_array_file_close(&host, &store->files[i]);
    }
    close_later(&host, store->later);
    kn_release(&host, store->states);
    kn_release(&host, store->vocabulary);
    kn_release(&host, store->columns);
    kn_release(&host, store->about);
    kn_release(&host, store->target);
    kn_release(&host, store->left_out_text);
    kn_release(&host, store->class_names);
    kn_release(&host, store->sample_names);
    kn_mutex_destroy(&host, &store->mutex);
    kn_release(&host, store);
}

char **kn_copy_names(const kn_host *host, const char *const *names, size_t count, kn_error *error) {
    size_t bytes = count * sizeof *names;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(names[i]) + 1;
    char **copy = kn_allocate(host, 1, bytes + 1);
    if (!copy) {
        kn_fail_memory(error, bytes);
        return NULL;
    }
    char *text = (char *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        copy[i] = strcpy(text, names[i]);
        text += strlen(text) + 1;
    }
    return copy;
}

kn_status kn_later_open(kn_sample_store *store, const kn_sample_files *from, uint64_t first,
                        const kn_sample_job *job, kn_error *error) {
    const kn_host *host = &store->host;
    size_t count = 0;
    struct kn_later *made = store->later = kn_allocate(host, 1, sizeof *made);
    if (!made) return kn_fail_memory(error, sizeof *made);
    made->own = job->own ? kn_allocate(host, 1, job->own_bytes) : NULL;
    if (job->own && !made->own) return kn_fail_memory(error, job->own_bytes);
    if (job->own) memcpy(made->own, job->own, job->own_bytes);
    const char **names = kn_allocate(host, (size_t)(store->count - first) + 1, sizeof *names);
    if (!names) return kn_fail_memory(error, (size_t)(store->count - first) * sizeof *names);
    for (uint64_t i = first; i < store->count; i++)
        if (!from->files[i].reason) names[count++] = from->files[i].name;
    made->names = kn_copy_names(host, names, count, error);
    kn_release(host, names);
    if (!made->names) return KN_ERROR_MEMORY;
    made->job = *job;
    made->options = (kn_source_options){.images = job->options->images};
    made->job.options = &made->options;
    made->job.own = made->own;
    return KN_OK;
}

static kn_status read_later(const kn_sample_store *store, uint64_t row, void *out, kn_error *error) {
    const struct kn_later *later = store->later;
    const kn_sample_file file = {.name = later->names[row - store->kept]};
    return later->job.kind->read(&store->host, &later->job, &file, out, error);
}

kn_status kn_sample_store_name_classes(kn_sample_store *store, const char *const *names, size_t count,
                                       kn_error *error) {
    store->class_names = kn_copy_names(&store->host, names, count, error);
    if (!store->class_names) return KN_ERROR_MEMORY;
    store->classes = (int)count;
    return KN_OK;
}

kn_status kn_sample_store_name_samples(kn_sample_store *store, const char *const *names, size_t count,
                                       kn_error *error) {
    store->sample_names = kn_copy_names(&store->host, names, count, error);
    return store->sample_names ? KN_OK : KN_ERROR_MEMORY;
}

kn_status kn_sample_store_add(kn_sample_store *store, const char *name, const kn_tensor_info *stored,
                              kn_dtype as, double scale, kn_sample_field **field, kn_error *error) {
    if (store->field_count == KN_FIELDS_MAX)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "field \"%s\": a dataset can have at most %d fields",
                       name, KN_FIELDS_MAX);
    size_t length = strlen(name);
    if (length == 0 || length >= KN_FIELD_NAME)
        return kn_fail(error, KN_ERROR_ARGUMENT, "field \"%s\": expected a name of 1 to %d characters", name,
                       KN_FIELD_NAME - 1);
    for (size_t i = 0; i < store->field_count; i++)
        if (strcmp(store->fields[i].name, name) == 0)
            return kn_fail(error, KN_ERROR_ARGUMENT, "field \"%s\" is given twice", name);
    if (as != KN_FLOAT32 && as != KN_INT32)
        return kn_fail(error, KN_ERROR_DTYPE, "field \"%s\" is read as %s; expected float32 or int32", name,
                       kn_array_type_name(as));
    bool real = stored->dtype == KN_FLOAT32 || stored->dtype == KN_FLOAT64 || stored->dtype == KN_FLOAT16 ||
                stored->dtype == KN_BFLOAT16 || kn_is_small_float(stored->dtype);
    if (as == KN_INT32 && real)
        return kn_fail(error, KN_ERROR_DTYPE, "field \"%s\" holds %s and is read as int32; expected float32",
                       name, kn_array_type_name(stored->dtype));
    kn_array sample = {.type = stored->dtype, .rank = stored->rank};
    memcpy(sample.shape, stored->shape, sizeof sample.shape);
    if (!kn_array_measure(&sample) || sample.count > (uint64_t)PTRDIFF_MAX / 8)
        return kn_fail(error, KN_ERROR_SHAPE, "field \"%s\": its type, rank or shape is invalid", name);
    kn_sample_field *made = &store->fields[store->field_count++];
    *made = (kn_sample_field){.read = *stored, .stored = stored->dtype};
    memcpy(made->name, name, length + 1);
    made->read.dtype = as;
    made->elements = sample.count;
    made->stored_bytes = made->step_bytes = (size_t)sample.byte_count;
    made->read_bytes = (size_t)sample.count * 4;
    made->scale = scale == 0 ? 1.0f : (float)scale;
    *field = made;
    return KN_OK;
}

kn_status kn_sample_store_check(const kn_sample_store *store, kn_error *error) {
    for (size_t f = 0; f < store->field_count; f++) {
        const kn_sample_field *field = &store->fields[f];
        if (field->read.dtype != KN_INT32 || (store->made && f == 0)) continue;
        kn_array all =
            (kn_array){.type = field->stored, .bytes = field->bytes, .count = store->count * field->elements};
        double low = field->is_label ? 0 : INT32_MIN, high = field->is_label ? store->classes - 1 : INT32_MAX;
        for (uint64_t i = 0; i < all.count; i++) {
            double value = kn_array_number(&all, i);
            if (!(value >= low && value <= high))
                return kn_fail(error, KN_ERROR_ARGUMENT,
                               "field \"%s\" of sample %llu is %.0f; expected %s from %.0f to %.0f",
                               field->name, (unsigned long long)(i / field->elements), value,
                               field->is_label ? "a class" : "an integer", low, high);
        }
    }
    return KN_OK;
}

const uint8_t *kn_sample_store_bytes(const kn_sample_store *store, const kn_sample_field *field, uint64_t row,
                                     uint8_t **room, kn_error *error) {
    const uint8_t *bytes = field->bytes + row * field->step_bytes;
    if (store->later && field->bytes == store->fields[0].bytes && row >= store->kept) {
        if (!*room) *room = kn_allocate(&store->host, 1, field->stored_bytes + 1);
        if (!*room) kn_fail_memory(error, field->stored_bytes);
        return *room && read_later(store, row, *room, error) == KN_OK ? *room : NULL;
    }
    if (!store->made || field->bytes != store->fields[0].bytes) return bytes;
    atomic_uchar *state = &store->states[row];
    if (atomic_load_explicit(state, memory_order_acquire) == 0) {
        kn_mutex_lock(store->mutex);
        if (atomic_load_explicit(state, memory_order_relaxed) == 0) {
            store->made->make(store->made_test, row, (uint8_t *)store->blocks[0] + row * field->stored_bytes);
            atomic_store_explicit(state, 1, memory_order_release);
        }
        kn_mutex_unlock(store->mutex);
    }
    return bytes;
}
