/* Writes protocol buffers. */
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/encode.h"

/* The types of fields on the wire. */
enum { NUMBER = 0, PACKET = 2, FOUR_BYTES = 5 };

void encode_release(encoded *bytes) {
    free(bytes->bytes);
    *bytes = (encoded){.count = 0};
}

void encode_reserve(encoded *to, size_t count) {
    if (to->failed || count <= to->room - to->count) return;
    size_t room = to->room + to->room / 2 + 64;
    if (count > SIZE_MAX / 4 || to->count > SIZE_MAX / 4) {
        to->failed = true;
        return;
    }
    if (room < to->count + count) room = to->count + count;
    uint8_t *bytes = realloc(to->bytes, room);
    to->failed = !bytes;
    if (!bytes) return;
    to->bytes = bytes;
    to->room = room;
}

void encode_bytes(encoded *to, const void *bytes, size_t count) {
    encode_reserve(to, count);
    if (to->failed || !count) return;
    memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
}

static void varint(encoded *to, uint64_t value) {
    uint8_t bytes[VARINT_BYTES];
    size_t count = 0;
    for (; value > 127; value >>= 7)
        bytes[count++] = (uint8_t)(value | 128);
    bytes[count++] = (uint8_t)value;
    encode_bytes(to, bytes, count);
}

static void tag(encoded *to, uint32_t field, int type) {
    varint(to, (uint64_t)field << 3 | (unsigned)type);
}

void encode_number(encoded *to, uint32_t field, uint64_t value) {
    tag(to, field, NUMBER);
    varint(to, value);
}

void encode_float(encoded *to, uint32_t field, float value) {
    uint32_t bits;
    uint8_t bytes[sizeof bits];
    memcpy(&bits, &value, sizeof bits);
    for (size_t i = 0; i < sizeof bits; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    tag(to, field, FOUR_BYTES);
    encode_bytes(to, bytes, sizeof bytes);
}

void encode_head(encoded *to, uint32_t field, size_t count) {
    tag(to, field, PACKET);
    varint(to, count);
}

void encode_packet(encoded *to, uint32_t field, const void *bytes, size_t count) {
    encode_head(to, field, count);
    encode_bytes(to, bytes, count);
}

void encode_text(encoded *to, uint32_t field, const char *text) {
    encode_packet(to, field, text, strlen(text));
}

void encode_message(encoded *to, uint32_t field, encoded *message) {
    if (message->failed) to->failed = true;
    encode_packet(to, field, message->bytes, message->failed ? 0 : message->count);
    encode_release(message);
}
