/* Images inside an HTML page: uncompressed PNG in base64. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "svg.h"

typedef struct byte_list {
    uint8_t *bytes;
    size_t count;
} byte_list;

static uint32_t checksum(const uint8_t *bytes, size_t count) {
    uint32_t sum = 0xffffffff;
    for (size_t i = 0; i < count; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum;
}

static void put(byte_list *list, const void *bytes, size_t count) {
    memcpy(list->bytes + list->count, bytes, count);
    list->count += count;
}

static void put_number(byte_list *list, uint32_t number) {
    const uint8_t bytes[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                              (uint8_t)number};
    put(list, bytes, 4);
}

/* Begins with length and name, ends with the checksum of name and data. */
static void put_chunk(byte_list *list, const char *name, const uint8_t *data, size_t count) {
    put_number(list, (uint32_t)count);
    size_t from = list->count;
    put(list, name, 4);
    if (count) put(list, data, count);
    put_number(list, checksum(list->bytes + from, list->count - from));
}

/* zlib's format with uncompressed blocks; `raw` holds rows, each preceded by filter type 0. */
static size_t store(const uint8_t *raw, size_t count, uint8_t *out) {
    uint32_t a = 1, b = 0;
    size_t at = 0;
    out[at++] = 0x78;
    out[at++] = 0x01;
    for (size_t from = 0; from < count; from += 65535) {
        size_t part = count - from < 65535 ? count - from : 65535;
        out[at++] = from + part == count;
        out[at++] = (uint8_t)part;
        out[at++] = (uint8_t)(part >> 8);
        out[at++] = (uint8_t)~part;
        out[at++] = (uint8_t)(~part >> 8);
        memcpy(out + at, raw + from, part);
        at += part;
    }
    for (size_t i = 0; i < count; i++) {
        a = (a + raw[i]) % 65521;
        b = (b + a) % 65521;
    }
    const uint8_t end[4] = {(uint8_t)(b >> 8), (uint8_t)b, (uint8_t)(a >> 8), (uint8_t)a};
    memcpy(out + at, end, 4);
    return at + 4;
}

int html_picture(FILE *file, int width, int height, int channels, const uint8_t *pixels) {
    size_t row = (size_t)width * (size_t)channels, count = (row + 1) * (size_t)height;
    uint8_t *raw = malloc(count + 1), *packed = malloc(count + 5 * (count / 65535 + 1) + 6);
    byte_list list = {malloc(count + 5 * (count / 65535 + 1) + 100), 0};
    int made = raw && packed && list.bytes;
    if (made) {
        static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
        byte_list header = {(uint8_t[13]){0}, 0};
        for (int y = 0; y < height; y++) {
            raw[(size_t)y * (row + 1)] = 0;
            memcpy(raw + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
        }
        put_number(&header, (uint32_t)width);
        put_number(&header, (uint32_t)height);
        put(&header, (const uint8_t[5]){8, channels == 3 ? 2 : 0, 0, 0, 0}, 5);
        put(&list, signature, 8);
        put_chunk(&list, "IHDR", header.bytes, header.count);
        put_chunk(&list, "IDAT", packed, store(raw, count, packed));
        put_chunk(&list, "IEND", NULL, 0);
        fputs("data:image/png;base64,", file);
        base64_write(file, list.bytes, list.count);
    }
    free(raw);
    free(packed);
    free(list.bytes);
    return made;
}
