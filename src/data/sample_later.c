/* Samples that there is no room to keep: decoded from their files whenever they are read. */
#include "data/sample_files.h"

#include <string.h>

struct kn_later {
    kn_sample_job job; /* what it points to is here as well */
    kn_source_options options;
    void *own;
    char **names; /* of the files, row by row from `kept` on; one block with the texts behind the pointers */
};

void kn_later_close(const kn_host *host, struct kn_later *later) {
    if (!later) return;
    kn_release(host, later->own);
    kn_release(host, later->names);
    kn_release(host, later);
}

kn_status kn_later_open(kn_store *store, const kn_sample_files *from, uint64_t first,
                        const kn_sample_job *job, kn_error *error) {
    const kn_host *host = &store->host;
    size_t count = 0, bytes = 0;
    for (uint64_t i = first; i < store->count; i++)
        if (!from->files[i].reason) {
            count++;
            bytes += sizeof(char *) + strlen(from->files[i].name) + 1;
        }
    struct kn_later *made = store->later = kn_allocate(host, 1, sizeof *made);
    if (!made) return kn_fail_memory(error, sizeof *made);
    made->own = job->own ? kn_allocate(host, 1, job->own_bytes) : NULL;
    made->names = kn_allocate(host, 1, bytes + 1);
    if ((job->own && !made->own) || !made->names) return kn_fail_memory(error, job->own_bytes + bytes);
    if (job->own) memcpy(made->own, job->own, job->own_bytes);
    char **name = made->names, *text = (char *)(made->names + count);
    for (uint64_t i = first; i < store->count; i++)
        if (!from->files[i].reason) {
            *name++ = strcpy(text, from->files[i].name);
            text += strlen(text) + 1;
        }
    made->job = *job;
    made->options = (kn_source_options){.images = job->options->images};
    made->job.options = &made->options;
    made->job.own = made->own;
    return KN_OK;
}

kn_status kn_later_read(const kn_store *store, uint64_t row, void *out, kn_error *error) {
    const struct kn_later *later = store->later;
    const kn_sample_file file = {.name = later->names[row - store->kept]};
    return later->job.kind->read(&store->host, &later->job, &file, out, error);
}
