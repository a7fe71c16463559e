/* Decodes samples from files into a store, on several threads. */
#include "data/sample_files.h"

#include <string.h>

enum { MAX_THREADS = 16 };

bool kn_name_ends(const char *name, const char *ending) {
    size_t length = strlen(name), own = strlen(ending), same = 0;
    while (length > own && same < own && (name[length - own + same] | 0x20) == (ending[same] | 0x20))
        same++;
    return same == own;
}

kn_status kn_sample_file_bytes(const kn_host *host, const kn_sample_file *file, const uint8_t **bytes,
                               uint64_t *count, uint8_t **owned, kn_error *error) {
    *owned = NULL;
    *bytes = file->bytes;
    *count = file->count;
    if (file->bytes) return KN_OK;
    kn_status status = kn_file_read(host, file->name, KN_SAMPLE_FILE_BYTES, owned, count, error);
    *bytes = *owned;
    return status;
}

/* The number of samples that are kept in memory. */
static uint64_t count_kept(uint64_t count, size_t bytes, kn_sample_job *job) {
    const uint64_t cache = job->options->cache_bytes, left = cache > job->used ? cache - job->used : 0;
    const uint64_t kept = !cache || !bytes || left / bytes >= count ? count : left / bytes;
    job->used += kept * bytes;
    return kept;
}

kn_sample_store *kn_sample_files_store(const kn_host *host, const kn_sample_files *from, kn_sample_job *job,
                                       const char *const *classes, size_t count, kn_error *error) {
    kn_sample_store *store = kn_sample_store_create(host, error);
    if (!store) return NULL;
    const kn_tensor_info label = {KN_INT32, 0, {0}};
    kn_sample_field *x = NULL, *y = NULL;
    store->count = from->count < job->options->max_samples ? from->count : job->options->max_samples;
    kn_status status = kn_sample_store_add(store, "x", &job->sample, KN_FLOAT32, job->kind->scale, &x, error);
    if (status == KN_OK && classes) status = kn_sample_store_add(store, "y", &label, KN_INT32, 1, &y, error);
    if (status == KN_OK) {
        store->kept = count_kept(store->count, x->stored_bytes, job);
        store->blocks[0] = kn_allocate(host, (size_t)store->kept + 1, x->stored_bytes);
        if (classes) store->blocks[1] = kn_allocate(host, (size_t)store->count, sizeof(int32_t));
        if (!store->blocks[0] || (classes && !store->blocks[1]))
            status = kn_fail_memory_for(error, "the samples that are kept", store->kept, x->stored_bytes);
        else if (classes)
            status = kn_sample_store_name_classes(store, classes, count, error);
    }
    if (status != KN_OK) {
        kn_sample_store_leave(store);
        return NULL;
    }
    x->bytes = store->blocks[0];
    if (y) {
        y->bytes = store->blocks[1];
        y->is_label = true;
    }
    return store;
}

/* ---- decoding --------------------------------------------------------------------------------- */

/* The work of one thread. */
typedef struct chunk {
    kn_sample_store *store;
    kn_sample_files *from;
    const uint64_t *which;
    const kn_sample_job *job;
    uint64_t first, step, count, failed; /* the files it reads; the index where it stopped */
    void *room;                          /* skip_bad applies to damaged files, not to lack of memory. */
    kn_error error;
} chunk;

static kn_status decode(const chunk *self, uint64_t index, kn_error *error) {
    const kn_host *host = &self->store->host;
    kn_sample_file *file = &self->from->files[index];
    uint8_t *rows = self->store->blocks[0];
    void *out = index < self->store->kept ? rows + index * self->store->fields[0].stored_bytes : self->room;
    kn_status status = self->job->kind->read(host, self->job, file, out, error);
    kn_release(host, file->bytes);
    file->bytes = NULL;
    return status;
}

static void decode_chunk(void *argument) {
    chunk *self = argument;
    const kn_sample_store *store = self->store;
    if (store->kept < store->count &&
        !(self->room = kn_allocate(&store->host, 1, store->fields[0].stored_bytes + 1))) {
        self->failed = self->first;
        kn_fail_memory(&self->error, store->fields[0].stored_bytes);
        return;
    }
    for (uint64_t i = self->first; i < self->count; i += self->step) {
        uint64_t index = self->which ? self->which[i] : i;
        kn_status status = decode(self, index, &self->error);
        self->failed = i;
        /* the first chunk, and chunks without a thread */
        if (status != KN_OK && (!self->job->options->skip_bad || status == KN_ERROR_MEMORY)) return;
        if (status != KN_OK) {
            kn_sample_file *file = &self->from->files[index];
            file->reason = kn_copy_text(&self->store->host, self->error.text);
            kn_error_clear(&self->error);
            if (!file->reason) {
                kn_fail_memory(&self->error, sizeof self->error.text);
                return;
            }
        }
    }
    self->failed = UINT64_MAX;
}

kn_status kn_sample_files_decode(kn_sample_store *store, kn_sample_files *from, const uint64_t *which,
                                 uint64_t count, const kn_sample_job *job, kn_error *error) {
    chunk chunks[MAX_THREADS];
    kn_thread *running[MAX_THREADS] = {NULL};
    int threads = kn_processor_count();
    if (threads < 1) threads = 1;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    for (int t = 0; t < threads; t++) {
        chunks[t] = (chunk){.store = store,
                            .from = from,
                            .which = which,
                            .job = job,
                            .first = (uint64_t)t,
                            .step = (uint64_t)threads,
                            .count = count};
        if (t > 0) running[t] = kn_thread_start(&store->host, decode_chunk, &chunks[t]);
    }
    /* Sets the file names of the first `count` samples, without skipped samples. */
    for (int t = 0; t < threads; t++)
        if (!running[t]) decode_chunk(&chunks[t]);
    for (int t = 1; t < threads; t++)
        if (running[t]) kn_thread_join(&store->host, &running[t]);
    for (int t = 0; t < threads; t++)
        kn_release(&store->host, chunks[t].room);
    const chunk *first = &chunks[0];
    for (int t = 1; t < threads; t++)
        if (chunks[t].failed < first->failed) first = &chunks[t];
    if (first->failed == UINT64_MAX) return KN_OK;
    *error = first->error;
    return error->status;
}

/* number of all samples, and of samples in memory */
static kn_status name_samples(kn_sample_store *store, const kn_sample_files *from, uint64_t count,
                              kn_error *error) {
    const char **names = kn_allocate(&store->host, (size_t)count + 1, sizeof *names);
    if (!names) return kn_fail_memory(error, (size_t)count * sizeof *names);
    size_t kept = 0;
    for (uint64_t i = 0; i < count; i++)
        if (!from->files[i].reason) names[kept++] = from->files[i].name;
    kn_status status = kn_sample_store_name_samples(store, names, kept, error);
    kn_release(&store->host, names);
    return status;
}

kn_status kn_sample_files_finish(kn_sample_store *store, const kn_sample_files *from,
                                 const kn_sample_job *job, kn_error *error) {
    const size_t bytes = store->fields[0].stored_bytes;
    uint8_t *samples = store->blocks[0];
    int32_t *labels = store->blocks[1];
    kn_text text;
    uint64_t kept = 0, rows = 0; /* all samples, and those in memory */
    const char *first = NULL;
    kn_text_init(&text, &store->host);
    for (uint64_t i = 0; i < store->count; i++) {
        const kn_sample_file *file = &from->files[i];
        if (file->reason) {
            if (!first) first = file->reason;
            kn_text_format(&text, "%s%s", store->left_out ? "\n" : "", file->reason);
            store->left_out++;
            continue;
        }
        if (kept < i && i < store->kept) memmove(samples + kept * bytes, samples + i * bytes, bytes);
        if (i < store->kept) rows++;
        if (labels) labels[kept] = file->class;
        kept++;
    }
    if (store->left_out && !kn_text_failed(&text))
        store->left_out_text = kn_copy_text(&store->host, text.data);
    kn_text_finish(&text);
    if (store->left_out && !store->left_out_text) return kn_fail_memory(error, (size_t)store->left_out * 100);
    if (store->count > 0 && kept == 0)
        return kn_fail(error, KN_ERROR_FORMAT, "none of %llu %s could be read; the first error: %s",
                       (unsigned long long)store->count, job->kind->what, first);
    kn_status status = labels ? KN_OK : name_samples(store, from, store->count, error);
    if (status == KN_OK && store->kept < store->count)
        status = kn_later_open(store, from, store->kept, job, error);
    store->kept = rows;
    store->count = kept;
    return status;
}

void kn_sample_files_release(const kn_host *host, kn_sample_files *files) {
    for (uint64_t i = 0; i < files->count; i++) {
        kn_release(host, files->files[i].bytes);
        kn_release(host, files->files[i].reason);
    }
    kn_release(host, files->files);
    *files = (kn_sample_files){NULL, 0};
}
