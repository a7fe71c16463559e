/* Mapped files that several owners read. */
#define _DEFAULT_SOURCE /* madvise */
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/base.h"

struct kn_shared_file {
    kn_host host;
    kn_file_view view;
    atomic_int owners;
};

kn_status kn_shared_file_open(const char *path, kn_shared_file **file, kn_error *error) {
    *file = NULL;
    const kn_host host = kn_host_with(NULL);
    kn_shared_file *made = kn_allocate(&host, 1, sizeof *made);
    if (!made) return kn_fail_memory(error, sizeof *made);
    made->host = host;
    kn_status status = kn_file_open_view(&host, path, &made->view, error);
    if (status != KN_OK) {
        kn_release(&host, made);
        return status;
    }
    atomic_init(&made->owners, 1);
    *file = made;
    return KN_OK;
}

const kn_file_view *kn_shared_file_view(const kn_shared_file *file) {
    return &file->view;
}

kn_shared_file *kn_shared_file_retain(kn_shared_file *file) {
    atomic_fetch_add(&file->owners, 1);
    return file;
}

void kn_shared_file_release(kn_shared_file **handle) {
    if (!handle || !*handle) return;
    kn_shared_file *file = *handle;
    *handle = NULL;
    if (atomic_fetch_sub(&file->owners, 1) > 1) return;
    const kn_host host = file->host;
    kn_file_close_view(&host, &file->view);
    kn_release(&host, file);
}

void kn_shared_file_forget(const kn_shared_file *file, const uint8_t *bytes, uint64_t count) {
    enum { PAGE = 1 << 16 }; /* a multiple of the page size of every system */
    if (!file->view.mapping) return;
    const uintptr_t begin = (uintptr_t)bytes, end = begin + (uintptr_t)count;
    const uintptr_t first = (begin + PAGE - 1) / PAGE * PAGE, last = end / PAGE * PAGE;
    if (last > first) (void)madvise((void *)first, last - first, MADV_DONTNEED);
}
