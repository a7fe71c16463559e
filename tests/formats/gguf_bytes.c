#include "gguf_bytes.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of values, numbered as in files. */
enum { UINT32 = 4, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

void gguf_put_bytes(gguf_bytes *to, const void *bytes, size_t count) {
    if (to->count + count > to->room) {
        to->room = 2 * (to->count + count) + 64;
        to->bytes = realloc(to->bytes, to->room);
        if (!to->bytes) abort();
    }
    if (count > 0) memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
}

void gguf_put(gguf_bytes *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        gguf_put_bytes(to, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

void gguf_put_string(gguf_bytes *to, const char *text) {
    gguf_put(to, strlen(text), 8);
    gguf_put_bytes(to, text, strlen(text));
}

void gguf_key(gguf_made *made, const char *key, int kind) {
    gguf_put_string(&made->values, key);
    gguf_put(&made->values, (uint64_t)kind, 4);
    made->value_count++;
}

void gguf_add_integer(gguf_made *made, const char *key, uint32_t value) {
    gguf_key(made, key, UINT32);
    gguf_put(&made->values, value, 4);
}

void gguf_add_real(gguf_made *made, const char *key, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    gguf_key(made, key, FLOAT32);
    gguf_put(&made->values, bits, 4);
}

void gguf_add_bool(gguf_made *made, const char *key, int value) {
    gguf_key(made, key, BOOL);
    gguf_put(&made->values, (uint64_t)value, 1);
}

void gguf_add_string(gguf_made *made, const char *key, const char *value) {
    gguf_key(made, key, STRING);
    gguf_put_string(&made->values, value);
}

void gguf_add_array(gguf_made *made, const char *key, int kind, uint64_t count) {
    gguf_key(made, key, ARRAY);
    gguf_put(&made->values, (uint64_t)kind, 4);
    gguf_put(&made->values, count, 8);
}

void gguf_add_tensor(gguf_made *made, const char *name, int type, int rank, const int64_t *shape,
                     const void *bytes, size_t count) {
    gguf_put_string(&made->tensors, name);
    gguf_put(&made->tensors, (uint64_t)rank, 4);
    for (int i = rank - 1; i >= 0; i--)
        gguf_put(&made->tensors, (uint64_t)shape[i], 8);
    gguf_put(&made->tensors, (uint64_t)type, 4);
    gguf_put(&made->tensors, made->data.count, 8);
    gguf_put_bytes(&made->data, bytes, count);
    while (made->data.count % 32 != 0)
        gguf_put(&made->data, 0, 1);
    made->tensor_count++;
}

gguf_bytes gguf_finish(gguf_made *made) {
    gguf_bytes file = {.bytes = NULL};
    gguf_put_bytes(&file, "GGUF", 4);
    gguf_put(&file, 3, 4);
    gguf_put(&file, made->tensor_count, 8);
    gguf_put(&file, made->value_count, 8);
    gguf_put_bytes(&file, made->values.bytes, made->values.count);
    gguf_put_bytes(&file, made->tensors.bytes, made->tensors.count);
    while (file.count % 32 != 0)
        gguf_put(&file, 0, 1);
    gguf_put_bytes(&file, made->data.bytes, made->data.count);
    free(made->values.bytes);
    free(made->tensors.bytes);
    free(made->data.bytes);
    *made = (gguf_made){.value_count = 0};
    return file;
}
