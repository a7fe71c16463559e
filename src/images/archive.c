/* Reads archives with libarchive: tar, optionally gzipped, and zip. */
#include "images/images.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, FIRST_BYTES = 1 << 16 };

static kn_status refuse(struct archive *archive, const char *name, char *message, size_t size) {
    const char *text = archive_error_string(archive);
    snprintf(message, size, "%s%s%s", name, name[0] ? ": " : "", text ? text : "damaged");
    return KN_ERROR_FORMAT;
}

static const char *name_of(struct archive_entry *entry) {
    const char *name = archive_entry_pathname_utf8(entry);
    if (!name) name = archive_entry_pathname(entry);
    while (name && name[0] == '.' && name[1] == '/')
        name += 2;
    return name;
}

/* An entry's declared size is not trusted: memory grows with the data. */
static kn_status read_member(struct archive *archive, const kn_allocator *allocator, const char *name,
                             uint64_t max_bytes, uint8_t **bytes, size_t *count, char *message, size_t size) {
    size_t capacity = 0;
    *bytes = NULL;
    *count = 0;
    for (;;) {
        if (*count == capacity) {
            size_t wanted = capacity ? capacity * 2 : FIRST_BYTES;
            uint8_t *grown = allocator->resize(allocator->user, *bytes, wanted);
            if (!grown) {
                snprintf(message, size, "%s: out of memory for %zu bytes", name, wanted);
                return KN_ERROR_MEMORY;
            }
            *bytes = grown;
            capacity = wanted;
        }
        la_ssize_t got = archive_read_data(archive, *bytes + *count, capacity - *count);
        if (got == 0) return KN_OK;
        if (got == ARCHIVE_RETRY || got == ARCHIVE_WARN) continue;
        if (got < 0) return refuse(archive, name, message, size);
        *count += (size_t)got;
        if (*count > max_bytes) {
            snprintf(message, size, "%s: has more than %llu bytes, the maximum", name,
                     (unsigned long long)max_bytes);
            return KN_ERROR_UNSUPPORTED;
        }
    }
}

static kn_status go_through(struct archive *archive, const kn_allocator *allocator, uint64_t max_bytes,
                            const kn_archive_visitor *visitor, char *message, size_t size) {
    for (;;) {
        struct archive_entry *entry;
        int result = archive_read_next_header(archive, &entry);
        if (result == ARCHIVE_EOF) return KN_OK;
        if (result == ARCHIVE_RETRY) continue;
        if (result < ARCHIVE_WARN) return refuse(archive, "", message, size);
        const char *name = name_of(entry);
        if (!name || archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry)) continue;
        if (!visitor->wants(visitor->user, name)) continue;
        uint8_t *bytes;
        size_t count;
        kn_status status = read_member(archive, allocator, name, max_bytes, &bytes, &count, message, size);
        if (status != KN_OK) {
            if (bytes) allocator->resize(allocator->user, bytes, 0);
            return status;
        }
        status = visitor->take(visitor->user, name, bytes, count);
        if (status != KN_OK) return status;
    }
}

kn_status kn_read_archive(const kn_allocator *allocator, const char *path, uint64_t max_bytes,
                          const kn_archive_visitor *visitor, char *message, size_t size) {
    struct archive *archive = archive_read_new();
    if (!archive) {
        snprintf(message, size, "out of memory for reading an archive");
        return KN_ERROR_MEMORY;
    }
    /* Enables formats one by one: libarchive would start programs for some. */
    archive_read_support_filter_gzip(archive);
    archive_read_support_format_tar(archive);
    archive_read_support_format_zip_seekable(archive);
    kn_status status = KN_OK;
    if (archive_read_open_filename(archive, path, BLOCK_BYTES) != ARCHIVE_OK) {
        const char *text = archive_error_string(archive);
        snprintf(message, size, "neither a folder nor a .tar, .tar.gz or .zip: %s", text ? text : "unknown");
        status = KN_ERROR_FORMAT;
    } else {
        status = go_through(archive, allocator, max_bytes, visitor, message, size);
    }
    archive_read_free(archive);
    return status;
}
