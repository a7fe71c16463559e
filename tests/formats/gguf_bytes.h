/* GGUF files written by tests, with or without mistakes. */
#ifndef KN_TESTS_GGUF_BYTES_H
#define KN_TESTS_GGUF_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow; begin with zeros and release with free(bytes). */
typedef struct gguf_bytes {
    uint8_t *bytes;
    size_t count, room;
} gguf_bytes;

void gguf_put(gguf_bytes *to, uint64_t value, int bytes);
void gguf_put_bytes(gguf_bytes *to, const void *bytes, size_t count);
void gguf_put_string(gguf_bytes *to, const char *text);

/* A file under construction. Its values and tensors may be added in any order. */
typedef struct gguf_made {
    gguf_bytes values, tensors, data;
    uint64_t value_count, tensor_count;
} gguf_made;

/* A key and its kind; the caller appends the value to made->values. */
void gguf_key(gguf_made *made, const char *key, int kind);
void gguf_add_integer(gguf_made *made, const char *key, uint32_t value);
void gguf_add_real(gguf_made *made, const char *key, float value);
void gguf_add_bool(gguf_made *made, const char *key, int value);
void gguf_add_string(gguf_made *made, const char *key, const char *value);
/* An array of `count` elements of a kind; the caller appends them. */
void gguf_add_array(gguf_made *made, const char *key, int kind, uint64_t count);
/* Row-major shape, as Koine has it. */
void gguf_add_tensor(gguf_made *made, const char *name, int type, int rank, const int64_t *shape,
                     const void *bytes, size_t count);
/* The file, version 3, alignment 32; releases the parts. */
gguf_bytes gguf_finish(gguf_made *made);

#endif
