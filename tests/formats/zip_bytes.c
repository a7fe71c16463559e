#include "zip_bytes.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void add_bytes(uint8_t **bytes, size_t *used, const void *data, size_t count) {
    *bytes = realloc(*bytes, *used + count + 1);
    assert_non_null(*bytes);
    memcpy(*bytes + *used, data, count);
    *used += count;
}

/* Appends a little-endian number with the given number of bytes. */
static void add_number(uint8_t **bytes, size_t *used, uint64_t number, int size) {
    uint8_t written[8];
    for (int i = 0; i < size; i++)
        written[i] = (uint8_t)(number >> (8 * i));
    add_bytes(bytes, used, written, (size_t)size);
}

/* The fields that the header of a member and its entry in the directory have in common. */
static void add_common(uint8_t **bytes, size_t *used, const char *name, uint32_t checksum, uint64_t packed,
                       uint64_t size, bool deflated, size_t extra) {
    add_number(bytes, used, 20, 2);
    add_number(bytes, used, 0, 2);
    add_number(bytes, used, deflated ? 8 : 0, 2);
    add_number(bytes, used, 0, 4); /* time and date */
    add_number(bytes, used, checksum, 4);
    add_number(bytes, used, packed, 4);
    add_number(bytes, used, size, 4);
    add_number(bytes, used, strlen(name), 2);
    add_number(bytes, used, extra, 2);
}

void zip_add(zip_bytes *zip, const char *name, const void *data, size_t count, bool deflated) {
    uint8_t *packed = malloc(count + 1024);
    size_t length = count, begin = zip->count;
    assert_non_null(packed);
    if (deflated) {
        z_stream stream = {.zalloc = NULL};
        assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        stream.next_in = (Bytef *)(uintptr_t)data;
        stream.avail_in = (uInt)count;
        stream.next_out = packed;
        stream.avail_out = (uInt)count + 1024;
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        length = count + 1024 - stream.avail_out;
        deflateEnd(&stream);
    } else {
        memcpy(packed, data, count);
    }
    uint32_t checksum = (uint32_t)crc32(0, data, (uInt)count);
    add_number(&zip->bytes, &zip->count, 0x04034b50, 4);
    add_common(&zip->bytes, &zip->count, name, checksum, length, count, deflated, 0);
    add_bytes(&zip->bytes, &zip->count, name, strlen(name));
    add_bytes(&zip->bytes, &zip->count, packed, length);
    free(packed);

    uint8_t **to = &zip->directory;
    size_t *used = &zip->directory_count;
    const uint32_t elsewhere = 0xffffffff;
    add_number(to, used, 0x02014b50, 4);
    add_number(to, used, 20, 2);
    add_common(to, used, name, checksum, zip->large ? elsewhere : length, zip->large ? elsewhere : count,
               deflated, zip->large ? 33 : 0);
    add_number(to, used, 0, 2);
    add_number(to, used, 0, 4);
    add_number(to, used, 0, 4);
    add_number(to, used, zip->large ? elsewhere : begin, 4);
    add_bytes(to, used, name, strlen(name));
    if (zip->large) {
        add_number(to, used, 0x5455, 2); /* another extra field before it, to be skipped */
        add_number(to, used, 1, 2);
        add_number(to, used, 7, 1);
        add_number(to, used, 1, 2);
        add_number(to, used, 24, 2);
        add_number(to, used, count, 8);
        add_number(to, used, length, 8);
        add_number(to, used, begin, 8);
    }
    zip->members++;
}

void zip_end(zip_bytes *zip) {
    size_t at = zip->count, bytes = zip->directory_count;
    if (bytes > 0) add_bytes(&zip->bytes, &zip->count, zip->directory, bytes);
    free(zip->directory);
    zip->directory = NULL;
    if (zip->large) {
        size_t record = zip->count;
        add_number(&zip->bytes, &zip->count, 0x06064b50, 4);
        add_number(&zip->bytes, &zip->count, 44, 8);
        add_number(&zip->bytes, &zip->count, 0, 4);
        add_number(&zip->bytes, &zip->count, 0, 8);
        add_number(&zip->bytes, &zip->count, zip->members, 8);
        add_number(&zip->bytes, &zip->count, zip->members, 8);
        add_number(&zip->bytes, &zip->count, bytes, 8);
        add_number(&zip->bytes, &zip->count, at, 8);
        add_number(&zip->bytes, &zip->count, 0x07064b50, 4);
        add_number(&zip->bytes, &zip->count, 0, 4);
        add_number(&zip->bytes, &zip->count, record, 8);
        add_number(&zip->bytes, &zip->count, 1, 4);
    }
    add_number(&zip->bytes, &zip->count, 0x06054b50, 4);
    add_number(&zip->bytes, &zip->count, 0, 4);
    add_number(&zip->bytes, &zip->count, zip->members, 2);
    add_number(&zip->bytes, &zip->count, zip->large ? 0xffff : zip->members, 2);
    add_number(&zip->bytes, &zip->count, bytes, 4);
    add_number(&zip->bytes, &zip->count, zip->large ? 0xffffffff : at, 4);
    add_number(&zip->bytes, &zip->count, 0, 2);
}
