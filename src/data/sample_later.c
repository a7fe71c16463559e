/* Samples that are not kept in memory: decoded from their files at each read. */
#include "data/sample_files.h"

#include <string.h>

struct kn_later {
    kn_sample_job job; /* with copies of what it points to */
    kn_source_options options;
    void *own;
    char **names; /* of the files, by row from `kept` on */
};

void kn_later_close(const kn_host *host, struct kn_later *later) {
    if (!later) return;
    kn_release(host, later->own);
    kn_release(host, later->names);
    kn_release(host, later);
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

kn_status kn_later_read(const kn_sample_store *store, uint64_t row, void *out, kn_error *error) {
    const struct kn_later *later = store->later;
    const kn_sample_file file = {.name = later->names[row - store->kept]};
    return later->job.kind->read(&store->host, &later->job, &file, out, error);
}
