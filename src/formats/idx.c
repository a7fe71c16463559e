/* IDX: two zero bytes, a type, a rank, the sizes as big-endian 32-bit numbers, the elements. */
#include "formats/formats_private.h"

#include <string.h>

/* Larger than any real file; bounds the memory that a small gzip file can request. */
#define INFLATED_MAX ((uint64_t)1 << 34)

static bool type_of(uint8_t code, kn_dtype *type) {
    switch (code) {
    case 0x08:
        *type = KN_UINT8;
        return true;
    case 0x09:
        *type = KN_INT8;
        return true;
    case 0x0b:
        *type = KN_INT16;
        return true;
    case 0x0c:
        *type = KN_INT32;
        return true;
    case 0x0d:
        *type = KN_FLOAT32;
        return true;
    case 0x0e:
        *type = KN_FLOAT64;
        return true;
    default:
        return false;
    }
}

/* Sets everything but the bytes. *header is the number of bytes before the elements. */
static kn_status read_header(const char *name, const uint8_t *bytes, uint64_t count, kn_array *array,
                             uint64_t *header, kn_error *error) {
    if (count < 4)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: %llu bytes, too short for an IDX file", name,
                       (unsigned long long)count);
    if (bytes[0] != 0 || bytes[1] != 0)
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: byte 0: found %02x %02x; an IDX file begins with 00 00 (or is gzip: 1f 8b)", name,
                       bytes[0], bytes[1]);
    if (!type_of(bytes[2], &array->type))
        return kn_fail(error, KN_ERROR_FORMAT,
                       "%s: byte 2: type %02x; expected one of 08 (uint8), 09, 0b, 0c, 0d, 0e", name,
                       bytes[2]);
    if (bytes[3] > KN_MAX_RANK)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "%s: byte 3: %d dimensions; at most %d are supported",
                       name, bytes[3], KN_MAX_RANK);
    array->rank = bytes[3];
    *header = 4 + 4 * (uint64_t)array->rank;
    if (count < *header)
        return kn_fail(error, KN_ERROR_FORMAT, "%s: ends at byte %llu, within its header of %llu bytes", name,
                       (unsigned long long)count, (unsigned long long)*header);
    for (int i = 0; i < array->rank; i++)
        array->shape[i] = kn_big_uint32(bytes + 4 + 4 * i);
    char shape[160];
    if (!kn_array_measure(array))
        return kn_fail(error, KN_ERROR_FORMAT, "%s: byte 4: shape %s exceeds the address space", name,
                       kn_array_shape_text(array, shape, sizeof shape));
    return KN_OK;
}

kn_status kn_idx_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                      kn_array *array, kn_error *error) {
    *array = (kn_array){.type = KN_FLOAT32};
    kn_array made = *array;
    uint64_t header = 0;
    kn_status status = read_header(name, bytes, count, &made, &header, error);
    if (status != KN_OK) return status;
    status = kn_array_view(&made, name, bytes, count, header, error);
    if (status != KN_OK) return status;
    size_t size = kn_array_type_bytes(made.type);
    if (size > 1 && kn_little_endian()) {
        void *copy = kn_array_take_copy(host, &made, error);
        if (!copy) return KN_ERROR_MEMORY;
        kn_swap_bytes(copy, copy, made.count, size);
    }
    *array = made;
    return KN_OK;
}

/* Inflates a gzip file and reads its contents; the array owns the inflated bytes. */
static kn_status read_gzip(const kn_host *host, const char *name, const kn_file_view *view, kn_array *array,
                           kn_error *error) {
    uint8_t *bytes;
    uint64_t count;
    kn_status status =
        kn_gzip_inflate(host, name, view->bytes, view->count, INFLATED_MAX, &bytes, &count, error);
    if (status != KN_OK) return status;
    status = kn_idx_read(host, name, bytes, count, array, error);
    if (status != KN_OK || array->owned)
        kn_release(host, bytes);
    else
        array->owned = bytes;
    return status;
}

kn_status kn_idx_open(const kn_host *host, const char *path, kn_array_file *file, kn_error *error) {
    *file = (kn_array_file){.array = {.type = KN_FLOAT32}};
    kn_status status = kn_file_open_view(host, path, &file->view, error);
    if (status != KN_OK) return status;
    bool packed = kn_gzip_is(file->view.bytes, file->view.count);
    if (packed)
        status = read_gzip(host, path, &file->view, &file->array, error);
    else
        status = kn_idx_read(host, path, file->view.bytes, file->view.count, &file->array, error);
    if (status != KN_OK)
        kn_array_file_close(host, file);
    else if (packed)
        kn_file_close_view(host, &file->view);
    return status;
}
