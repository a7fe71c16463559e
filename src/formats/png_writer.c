/* Writes PNG: eight bits per channel, one chunk of compressed rows. */
#include <string.h>
#include <zlib.h>

#include "formats/formats_private.h"

static void add_number(kn_text *text, uint32_t number) {
    const char bytes[4] = {(char)(number >> 24), (char)(number >> 16), (char)(number >> 8), (char)number};
    kn_text_add_bytes(text, bytes, 4);
}

static void add_chunk(kn_text *text, const char *kind, const uint8_t *bytes, size_t count) {
    uLong sum = crc32(crc32(0, NULL, 0), (const Bytef *)kind, 4);
    if (count) sum = crc32(sum, bytes, (uInt)count);
    add_number(text, (uint32_t)count);
    kn_text_add_bytes(text, kind, 4);
    if (count) kn_text_add_bytes(text, (const char *)bytes, count);
    add_number(text, (uint32_t)sum);
}

kn_status kn_png_write(kn_text *text, int width, int height, int channels, const uint8_t *pixels,
                       kn_error *error) {
    if (width < 1 || height < 1 || width > KN_PNG_SIDE || height > KN_PNG_SIDE ||
        (channels != 1 && channels != 3))
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "an image of %d x %d pixels with %d channels; expected 1 to %d pixels per side, and 1 "
                       "or 3 channels",
                       width, height, channels, KN_PNG_SIDE);
    size_t row = (size_t)width * (size_t)channels, count = (row + 1) * (size_t)height;
    uLongf packed_count = compressBound((uLong)count);
    uint8_t *rows = kn_allocate(text->host, count, 1), *packed = kn_allocate(text->host, packed_count, 1);
    bool made = rows && packed;
    /* Each row begins with its filter type: none. */
    for (size_t y = 0; made && y < (size_t)height; y++)
        memcpy(rows + y * (row + 1) + 1, pixels + y * row, row);
    made = made && compress(packed, &packed_count, rows, (uLong)count) == Z_OK;
    if (made) {
        uint8_t header[13] = {0,
                              0,
                              (uint8_t)(width >> 8),
                              (uint8_t)width,
                              0,
                              0,
                              (uint8_t)(height >> 8),
                              (uint8_t)height,
                              8,
                              channels == 3 ? 2 : 0};
        kn_text_add_bytes(text, "\x89PNG\r\n\x1a\n", 8);
        add_chunk(text, "IHDR", header, sizeof header);
        add_chunk(text, "IDAT", packed, packed_count);
        add_chunk(text, "IEND", NULL, 0);
    }
    kn_release(text->host, rows);
    kn_release(text->host, packed);
    return made && !kn_text_failed(text) ? KN_OK : kn_fail_memory(error, count);
}
