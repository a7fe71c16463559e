/* Private to the formats module. */
#ifndef KN_FORMATS_PRIVATE_H
#define KN_FORMATS_PRIVATE_H

#include "formats/formats.h"

/* Whether this machine is little-endian. */
bool kn_little_endian(void);
/* Reverses the bytes of each of `count` elements of `size` bytes; from and to may be equal. */
void kn_swap_bytes(void *to, const void *from, uint64_t count, size_t size);
/* Sets the bytes of a measured array, which are all those of a file of `count` bytes from `begin` on. */
kn_status kn_array_view(kn_array *array, const char *name, const uint8_t *bytes, uint64_t count,
                        uint64_t begin, kn_error *error);
/* Replaces the array's bytes with a copy that it owns and the caller may modify; NULL with the error set when
 * out of memory. Valid for zero bytes. */
void *kn_array_take_copy(const kn_host *host, kn_array *array, kn_error *error);

/* kn_csv_read with a given chunk size, which affects only the number of chunks. */
kn_status kn_csv_read_pieces(kn_arena *arena, const char *name, const uint8_t *bytes, uint64_t count,
                             uint64_t bytes_each, kn_csv *table, kn_error *error);

/* Quotes up to 16 of the bytes, made printable; "nothing" if count is 0. */
enum { KN_QUOTE_BYTES = 72 };
const char *kn_quote(const void *bytes, size_t count, char text[KN_QUOTE_BYTES]);

/* Memory of zlib from the host (gzip.c). */
void *kn_zlib_take(void *host, unsigned count, unsigned size);
void kn_zlib_release(void *host, void *pointer);

/* "F32" and so on; NULL for an invalid type. */
const char *kn_safetensors_type_name(kn_dtype type);

static inline uint32_t kn_big_uint32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

#endif
