/* Writes protocol buffers. */
#ifndef KN_ORT_ENCODE_H
#define KN_ORT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a protocol buffer. Once `failed` (out of memory), nothing is added. */
typedef struct encoded {
    uint8_t *bytes;
    size_t count, room;
    bool failed;
} encoded;
/* The largest encoding of a number. */
enum { VARINT_BYTES = 10 };
void encode_reserve(encoded *to, size_t count);
void encode_bytes(encoded *to, const void *bytes, size_t count);
void encode_number(encoded *to, uint32_t field, uint64_t value);
void encode_float(encoded *to, uint32_t field, float value);
void encode_packet(encoded *to, uint32_t field, const void *bytes, size_t count);
void encode_text(encoded *to, uint32_t field, const char *text);
/* Adds the message and releases it. */
void encode_message(encoded *to, uint32_t field, encoded *message);
/* The tag and the length of a packet whose bytes follow. */
void encode_head(encoded *to, uint32_t field, size_t count);
void encode_release(encoded *bytes);

#endif
