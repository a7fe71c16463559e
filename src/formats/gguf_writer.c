/* Writes GGUF files: version 3, little-endian, in one part. */
#include "formats/formats_private.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };

void kn_gguf_head_init(kn_gguf_head *head, const kn_host *host) {
    *head = (kn_gguf_head){.pair_count = 0};
    kn_text_init(&head->pairs, host);
    kn_text_init(&head->tensors, host);
}

void kn_gguf_head_finish(kn_gguf_head *head) {
    kn_text_finish(&head->pairs);
    kn_text_finish(&head->tensors);
}

static void put(kn_text *text, uint64_t number, int bytes) {
    char little[8];
    kn_little_put(little, number, bytes);
    kn_text_add_bytes(text, little, (size_t)bytes);
}

static void put_text(kn_text *text, const char *bytes, size_t count) {
    put(text, count, 8);
    kn_text_add_bytes(text, bytes, count);
}

/* ---- metadata ------------------------------------------------------------------------------------ */

static void begin(kn_gguf_head *head, const char *key, kn_gguf_kind kind) {
    put_text(&head->pairs, key, strlen(key));
    put(&head->pairs, kind, 4);
    head->pair_count++;
}

void kn_gguf_add_integer(kn_gguf_head *head, kn_gguf_kind kind, int64_t number) {
    put(&head->pairs, (uint64_t)number, kn_gguf_kind_bytes(kind));
}

void kn_gguf_add_real(kn_gguf_head *head, double number) {
    put(&head->pairs, kn_bits_of_float((float)number), 4);
}

void kn_gguf_add_string(kn_gguf_head *head, const char *bytes, size_t count) {
    put_text(&head->pairs, bytes, count);
}

void kn_gguf_put_integer(kn_gguf_head *head, const char *key, kn_gguf_kind kind, int64_t number) {
    begin(head, key, kind);
    kn_gguf_add_integer(head, kind, number);
}

void kn_gguf_put_real(kn_gguf_head *head, const char *key, double number) {
    begin(head, key, KN_GGUF_FLOAT32);
    kn_gguf_add_real(head, number);
}

void kn_gguf_put_string(kn_gguf_head *head, const char *key, const char *text) {
    begin(head, key, KN_GGUF_STRING);
    put_text(&head->pairs, text, strlen(text));
}

void kn_gguf_put_array(kn_gguf_head *head, const char *key, kn_gguf_kind kind, uint64_t count) {
    begin(head, key, KN_GGUF_ARRAY);
    put(&head->pairs, kind, 4);
    put(&head->pairs, count, 8);
}

void kn_gguf_put_value(kn_gguf_head *head, const kn_gguf_value *value) {
    if (value->array)
        kn_gguf_put_array(head, value->key, value->kind, value->count);
    else
        begin(head, value->key, value->kind);
    if (value->kind != KN_GGUF_STRING) {
        kn_text_add_bytes(&head->pairs, (const char *)value->bytes,
                          (size_t)value->count * (size_t)kn_gguf_kind_bytes(value->kind));
        return;
    }
    for (uint64_t i = 0; i < value->count; i++) {
        kn_gguf_text text;
        if (kn_gguf_text_at(value, i, &text)) put_text(&head->pairs, text.bytes, (size_t)text.count);
    }
}

/* ---- tensors ------------------------------------------------------------------------------------- */

static uint64_t padding(uint64_t bytes) {
    return (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
}

void kn_gguf_put_tensor(kn_gguf_head *head, const char *name, int rank, const int64_t *shape,
                        const kn_block_type *type) {
    uint64_t elements = 1;
    if (!name) head->tensors.failed = true;
    put_text(&head->tensors, name ? name : "", name ? strlen(name) : 0);
    put(&head->tensors, (uint64_t)rank, 4);
    for (int i = rank - 1; i >= 0; i--) {
        put(&head->tensors, (uint64_t)shape[i], 8);
        elements *= (uint64_t)shape[i];
    }
    put(&head->tensors, (uint64_t)type->number, 4);
    put(&head->tensors, head->tensor_bytes, 8);
    head->tensor_count++;
    head->tensor_bytes += elements / (uint64_t)type->weights * (uint64_t)type->bytes;
    head->tensor_bytes += padding(head->tensor_bytes);
}

kn_status kn_gguf_writer_open(const kn_host *host, const char *path, const kn_gguf_head *head,
                              kn_file_writer **writer, kn_error *error) {
    kn_text all;
    *writer = NULL;
    kn_text_init(&all, host);
    kn_text_add(&all, "GGUF");
    put(&all, VERSION, 4);
    put(&all, head->tensor_count, 8);
    put(&all, head->pair_count, 8);
    kn_text_add_bytes(&all, head->pairs.data, head->pairs.length);
    kn_text_add_bytes(&all, head->tensors.data, head->tensors.length);
    for (uint64_t i = padding(all.length); i > 0; i--)
        put(&all, 0, 1);
    const bool failed =
        kn_text_failed(&all) || kn_text_failed(&head->pairs) || kn_text_failed(&head->tensors);
    kn_status status = failed ? kn_fail_memory(error, all.length) : KN_OK;
    if (status == KN_OK) status = kn_file_writer_open(host, path, writer, error);
    if (status == KN_OK) status = kn_file_writer_add(*writer, all.data, all.length, error);
    kn_text_finish(&all);
    if (status != KN_OK && *writer) kn_file_writer_abandon(writer);
    return status;
}

kn_status kn_gguf_writer_add(kn_file_writer *writer, const void *bytes, uint64_t count, kn_error *error) {
    static const char zeros[ALIGNMENT] = {0};
    kn_status status = kn_file_writer_add(writer, bytes, (size_t)count, error);
    return status == KN_OK ? kn_file_writer_add(writer, zeros, (size_t)padding(count), error) : status;
}
