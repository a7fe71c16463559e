/* zip files, written by the test. */
#ifndef KN_TESTS_ZIP_BYTES_H
#define KN_TESTS_ZIP_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zip_bytes {
    uint8_t *bytes, *directory;
    size_t count, directory_count, members;
    bool large; /* sizes and offsets in the fields for files beyond 4 GiB */
} zip_bytes;

void zip_add(zip_bytes *zip, const char *name, const void *data, size_t count, bool deflated);
/* Writes the directory; `bytes` is then the whole file, which the caller frees. */
void zip_end(zip_bytes *zip);

#endif
