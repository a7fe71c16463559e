/* Writes safetensors in one pass, atomically. */
#include "formats/formats_private.h"

#include <stdio.h>
#include <string.h>

struct kn_safetensors_writer {
    kn_host host;
    kn_file_writer *file;
    char *path;
    uint64_t expected, written; /* bytes of tensors */
    uint64_t checksum_at;       /* offset; 0: none */
    uint64_t hash;              /* of the bytes written */
};

/* *checksum_at: offset of the checksum's digits, if requested. */
static kn_status add_metadata(kn_text *text, const char *path, const kn_text_pair *metadata, size_t count,
                              uint64_t *checksum_at, kn_error *error) {
    kn_text_add(text, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            if (strcmp(metadata[i].key, metadata[j].key) == 0)
                return kn_fail(error, KN_ERROR_ARGUMENT, "%s: metadata has the key \"%s\" twice", path,
                               metadata[i].key);
        if (i > 0) kn_text_add(text, ",");
        kn_text_json(text, metadata[i].key);
        kn_text_add(text, ":");
        if (strcmp(metadata[i].key, KN_SAFETENSORS_CHECKSUM) == 0 &&
            strcmp(metadata[i].value, KN_SAFETENSORS_NO_CHECKSUM) == 0)
            *checksum_at = text->length + 1;
        kn_text_json(text, metadata[i].value);
    }
    kn_text_add(text, "}");
    return KN_OK;
}

static kn_status add_tensor(kn_text *text, const char *path, const kn_safetensor *tensor, uint64_t *offset,
                            kn_error *error) {
    kn_array sized = tensor->array;
    if (!kn_array_measure(&sized) || sized.byte_count > (uint64_t)INT64_MAX - *offset)
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s: the size of tensor \"%s\" is invalid or overflows",
                       path, tensor->name);
    const char *type = kn_safetensors_type_name(sized.type);
    if (!type)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "%s: tensor \"%s\" has type %s, which safetensors files cannot contain", path,
                       tensor->name, kn_array_type_name(sized.type));
    kn_text_json(text, tensor->name);
    kn_text_format(text, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (int i = 0; i < sized.rank; i++)
        kn_text_format(text, "%s%lld", i > 0 ? "," : "", (long long)sized.shape[i]);
    kn_text_format(text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*offset,
                   (unsigned long long)(*offset + sized.byte_count));
    *offset += sized.byte_count;
    return KN_OK;
}

/* The length, the header, and padding to a multiple of eight bytes. */
static kn_status make_header(const kn_host *host, const char *path, const kn_safetensor *tensors,
                             size_t count, const kn_text_pair *metadata, size_t metadata_count, kn_text *text,
                             uint64_t *data_bytes, uint64_t *checksum_at, kn_error *error) {
    kn_map names;
    kn_map_init(&names, host);
    kn_status status = KN_OK;
    uint64_t offset = 0;
    kn_text_add_bytes(text, "\0\0\0\0\0\0\0\0", 8);
    kn_text_add(text, "{");
    if (metadata_count > 0) status = add_metadata(text, path, metadata, metadata_count, checksum_at, error);
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        const char *name = tensors[i].name;
        if (kn_map_has(&names, name, strlen(name)) || strcmp(name, "__metadata__") == 0)
            status = kn_fail(error, KN_ERROR_ARGUMENT, "%s: the tensor name \"%s\" is reserved or used twice",
                             path, name);
        else if (!kn_map_put_text(&names, name, (void *)(uintptr_t)&tensors[i]))
            status = kn_fail_memory(error, strlen(name));
        if (status != KN_OK) break;
        if (i > 0 || metadata_count > 0) kn_text_add(text, ",");
        status = add_tensor(text, path, &tensors[i], &offset, error);
    }
    kn_map_finish(&names);
    if (status != KN_OK) return status;
    kn_text_add(text, "}");
    while (text->length % 8 != 0 && !kn_text_failed(text))
        kn_text_add(text, " ");
    if (kn_text_failed(text)) return kn_fail_memory(error, text->length);
    kn_little_put(text->data, text->length - 8, 8);
    *data_bytes = offset;
    return KN_OK;
}

kn_status kn_safetensors_writer_open(const kn_host *host, const char *path, const kn_safetensor *tensors,
                                     size_t count, const kn_text_pair *metadata, size_t metadata_count,
                                     kn_safetensors_writer **writer, kn_error *error) {
    *writer = NULL;
    kn_safetensors_writer *made = kn_allocate(host, 1, sizeof *made);
    if (!made) return kn_fail_memory(error, sizeof *made);
    made->host = host ? *host : kn_host_defaults();
    made->path = kn_copy_text(&made->host, path);
    kn_text text;
    kn_text_init(&text, &made->host);
    kn_status status = made->path ? KN_OK : kn_fail_memory(error, strlen(path) + 1);
    if (status == KN_OK)
        status = make_header(&made->host, path, tensors, count, metadata, metadata_count, &text,
                             &made->expected, &made->checksum_at, error);
    if (status == KN_OK) status = kn_file_writer_open(&made->host, path, &made->file, error);
    if (status == KN_OK) status = kn_file_writer_add(made->file, text.data, text.length, error);
    if (status == KN_OK) made->hash = kn_hash_bytes(KN_HASH_START, text.data, text.length);
    kn_text_finish(&text);
    if (status == KN_OK)
        *writer = made;
    else
        kn_safetensors_writer_abandon(&made);
    return status;
}

kn_status kn_safetensors_writer_add(kn_safetensors_writer *writer, const void *bytes, uint64_t count,
                                    kn_error *error) {
    if (count > writer->expected - writer->written)
        return kn_fail(error, KN_ERROR_ARGUMENT, "%s: got %llu bytes more than the declared tensors have",
                       writer->path, (unsigned long long)(count - (writer->expected - writer->written)));
    if (count == 0) return KN_OK;
    kn_status status = kn_file_writer_add(writer->file, bytes, (size_t)count, error);
    if (status != KN_OK) return status;
    writer->written += count;
    if (writer->checksum_at) writer->hash = kn_hash_bytes(writer->hash, bytes, (size_t)count);
    return KN_OK;
}

static kn_status write_checksum(kn_safetensors_writer *writer, kn_error *error) {
    char digits[24];
    if (!writer->checksum_at) return KN_OK;
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)writer->hash);
    return kn_file_writer_change(writer->file, writer->checksum_at, digits, strlen(digits), error);
}

kn_status kn_safetensors_writer_commit(kn_safetensors_writer **writer, kn_error *error) {
    kn_safetensors_writer *made = *writer;
    kn_status status = KN_OK;
    if (made->written != made->expected)
        status = kn_fail(error, KN_ERROR_ARGUMENT, "%s: got %llu bytes of tensors, but %llu were declared",
                         made->path, (unsigned long long)made->written, (unsigned long long)made->expected);
    else
        status = write_checksum(made, error);
    if (status == KN_OK) status = kn_file_writer_commit(&made->file, error);
    kn_safetensors_writer_abandon(writer);
    return status;
}

void kn_safetensors_writer_abandon(kn_safetensors_writer **writer) {
    if (!writer || !*writer) return;
    kn_safetensors_writer *made = *writer;
    kn_host host = made->host;
    kn_file_writer_abandon(&made->file);
    kn_release(&host, made->path);
    kn_release(&host, made);
    *writer = NULL;
}

kn_status kn_safetensors_write(const kn_host *host, const char *path, const kn_safetensor *tensors,
                               size_t count, const kn_text_pair *metadata, size_t metadata_count,
                               kn_error *error) {
    kn_safetensors_writer *writer;
    kn_status status =
        kn_safetensors_writer_open(host, path, tensors, count, metadata, metadata_count, &writer, error);
    if (status != KN_OK) return status;
    for (size_t i = 0; i < count && status == KN_OK; i++) {
        kn_array sized = tensors[i].array;
        kn_array_measure(&sized); /* checked by kn_safetensors_writer_open */
        status = kn_safetensors_writer_add(writer, sized.bytes, sized.byte_count, error);
    }
    if (status == KN_OK) return kn_safetensors_writer_commit(&writer, error);
    kn_safetensors_writer_abandon(&writer);
    return status;
}
