/* ONNX: writes messages by their tables, to files or memory. */
#include <string.h>

#include "formats/onnx_private.h"

/* The maximum length of a protocol buffer. */
#define MAX_BYTES ((uint64_t)INT32_MAX)
enum { EXTERNAL_FROM = 1024 };

/* ---- bytes ---------------------------------------------------------------------------- */

static void put(kn_onnx_sink *out, const void *bytes, uint64_t count) {
    if (out->status != KN_OK || count == 0) return;
    if (!out->measuring) {
        if (out->memory)
            memcpy(out->memory + out->count, bytes, (size_t)count);
        else
            out->status = kn_file_writer_add(out->file, bytes, (size_t)count, out->error);
    }
    out->count += count;
}

static void put_varint(kn_onnx_sink *out, uint64_t value) {
    uint8_t bytes[KN_WIRE_VARINT_BYTES];
    put(out, bytes, kn_wire_put_varint(bytes, value));
}

static void put_tag(kn_onnx_sink *out, uint32_t field, kn_wire_form form) {
    put_varint(out, (uint64_t)field << 3 | (uint64_t)form);
}

void kn_onnx_put_bytes(kn_onnx_sink *out, uint32_t field, const void *bytes, uint64_t count) {
    put_tag(out, field, KN_WIRE_BYTES);
    put_varint(out, count);
    put(out, bytes, count);
}

void kn_onnx_put_text(kn_onnx_sink *out, uint32_t field, const char *text) {
    if (text && text[0] != '\0') kn_onnx_put_bytes(out, field, text, strlen(text));
}

void kn_onnx_put_number(kn_onnx_sink *out, uint32_t field, int64_t number) {
    put_tag(out, field, KN_WIRE_VARINT);
    put_varint(out, (uint64_t)number);
}

void kn_onnx_put_float(kn_onnx_sink *out, uint32_t field, float number) {
    uint8_t bytes[4];
    kn_little_put(bytes, kn_bits_of_float(number), sizeof bytes);
    put_tag(out, field, KN_WIRE_FIXED32);
    put(out, bytes, sizeof bytes);
}

void kn_onnx_put_data(kn_onnx_sink *out, const void *bytes, uint64_t count) {
    if (out->status == KN_OK && !out->measuring && count > 0)
        out->status = kn_file_writer_add(out->data, bytes, (size_t)count, out->error);
    out->data_count += count;
}

/* ---- messages --------------------------------------------------------------------------- */

size_t kn_onnx_begin(kn_onnx_sink *out, uint32_t field) {
    if (out->status != KN_OK) return 0;
    if (!out->measuring) {
        put_tag(out, field, KN_WIRE_BYTES);
        put_varint(out, out->lengths[out->next_length]);
        return out->next_length++;
    }
    void *lengths = out->lengths;
    if (!kn_reserve(out->host, &lengths, &out->length_capacity, out->length_count + 1,
                    sizeof *out->lengths)) {
        out->status = kn_fail_memory(out->error, (out->length_count + 1) * sizeof *out->lengths);
        return 0;
    }
    out->lengths = lengths;
    put_tag(out, field, KN_WIRE_BYTES);
    out->lengths[out->length_count] = out->count; /* until the message's end is known */
    return out->length_count++;
}

void kn_onnx_end(kn_onnx_sink *out, size_t begun) {
    if (out->status != KN_OK || !out->measuring) return;
    out->lengths[begun] = out->count - out->lengths[begun];
    put_varint(out, out->lengths[begun]);
}

static void write_field(kn_onnx_sink *out, const kn_onnx_field *about, const uint8_t *object) {
    const char *text;
    const char *const *texts;
    const uint8_t *list;
    int64_t number;
    size_t count = 0;
    if (about->form == KN_ONNX_TEXTS || about->form == KN_ONNX_MESSAGES)
        memcpy(&count, object + about->count_at, sizeof count);
    switch (about->form) {
    case KN_ONNX_TEXT:
    case KN_ONNX_DOMAIN:
        memcpy(&text, object + about->at, sizeof text);
        kn_onnx_put_text(out, about->number, text);
        break;
    case KN_ONNX_NUMBER:
        memcpy(&number, object + about->at, sizeof number);
        if (number != 0) kn_onnx_put_number(out, about->number, number);
        break;
    case KN_ONNX_ONE:
        /* an unspecified type is omitted */
        if (about->message == &kn_onnx_type_message &&
            ((const kn_onnx_value_type *)(const void *)(object + about->at))->kind == KN_ONNX_NO_KIND)
            break;
        kn_onnx_put_message(out, about->number, about->message, object + about->at);
        break;
    case KN_ONNX_TEXTS:
        memcpy(&texts, object + about->at, sizeof texts);
        for (size_t i = 0; i < count; i++) {
            const char *one = texts[i] ? texts[i] : ""; /* an omitted text keeps its position */
            kn_onnx_put_bytes(out, about->number, one, strlen(one));
        }
        break;
    case KN_ONNX_MESSAGES:
        memcpy(&list, object + about->at, sizeof list);
        for (size_t i = 0; i < count; i++)
            kn_onnx_put_message(out, about->number, about->message, list + i * about->message->bytes);
        break;
    }
}

static void write_fields(kn_onnx_sink *out, const kn_onnx_message *message, const void *object) {
    if (message->write)
        message->write(out, object);
    else
        for (size_t i = 0; i < message->field_count && out->status == KN_OK; i++)
            write_field(out, &message->fields[i], object);
}

void kn_onnx_put_message(kn_onnx_sink *out, uint32_t field, const kn_onnx_message *message,
                         const void *object) {
    size_t begun = kn_onnx_begin(out, field);
    write_fields(out, message, object);
    kn_onnx_end(out, begun);
}

/* ---- files ---------------------------------------------------------------------------------------- */

static kn_status measure(kn_onnx_sink *out, const kn_onnx_message *message, const void *object) {
    out->measuring = true;
    out->count = out->data_count = 0;
    out->length_count = out->next_length = 0;
    write_fields(out, message, object);
    out->measuring = false;
    return out->status;
}

/* The second pass, which writes. */
static kn_status write_out(kn_onnx_sink *out, const kn_onnx_message *message, const void *object) {
    out->count = out->data_count = 0;
    write_fields(out, message, object);
    return out->status;
}

static kn_status check_size(const kn_onnx_sink *out) {
    if (out->count <= MAX_BYTES) return KN_OK;
    return kn_fail(out->error, KN_ERROR_UNSUPPORTED,
                   "%s: would have %llu bytes; an ONNX file without external data can have at most %llu",
                   out->name, (unsigned long long)out->count, (unsigned long long)MAX_BYTES);
}

static kn_status write_files(kn_onnx_sink *out, const char *path, const char *data_path,
                             const kn_onnx_message *message, const void *object) {
    kn_status status = KN_OK;
    if (out->data_count > 0) status = kn_file_writer_open(out->host, data_path, &out->data, out->error);
    if (status == KN_OK) status = kn_file_writer_open(out->host, path, &out->file, out->error);
    if (status == KN_OK) status = write_out(out, message, object);
    if (status == KN_OK && out->data) status = kn_file_writer_commit(&out->data, out->error);
    if (status == KN_OK) status = kn_file_writer_commit(&out->file, out->error);
    kn_file_writer_abandon(&out->data);
    kn_file_writer_abandon(&out->file);
    return status;
}

kn_status kn_onnx_write(const kn_host *host, const char *path, const kn_onnx_model *model,
                        const kn_onnx_write_options *options, kn_error *error) {
    kn_onnx_sink out = {.host = host, .name = path, .error = error};
    kn_text data_path;
    kn_text_init(&data_path, host);
    kn_text_format(&data_path, "%s.data", path);
    kn_status status = kn_text_failed(&data_path) ? kn_fail_memory(error, strlen(path)) : KN_OK;
    const char *slash = status == KN_OK ? strrchr(data_path.data, '/') : NULL,
               *name = slash ? slash + 1 : data_path.data;
    if (options && options->external_from > 0) {
        out.external_from = options->external_from;
        out.data_name = name;
    }
    if (status == KN_OK) status = measure(&out, &kn_onnx_model_message, model);
    if (status == KN_OK && out.count > MAX_BYTES && !out.data_name) {
        out.external_from = EXTERNAL_FROM;
        out.data_name = name;
        status = measure(&out, &kn_onnx_model_message, model);
    }
    if (status == KN_OK) status = check_size(&out);
    if (status == KN_OK) status = write_files(&out, path, data_path.data, &kn_onnx_model_message, model);
    kn_text_finish(&data_path);
    kn_release(host, out.lengths);
    return status;
}

static kn_status encode(const kn_host *host, const char *name, const kn_onnx_message *message,
                        const void *object, uint8_t **bytes, uint64_t *count, kn_error *error) {
    *bytes = NULL;
    *count = 0;
    kn_onnx_sink out = {.host = host, .name = name, .error = error};
    kn_status status = measure(&out, message, object);
    if (status == KN_OK) status = check_size(&out);
    if (status == KN_OK) {
        size_t room = (size_t)out.count + 1;
        out.memory = kn_allocate(host, room, 1);
        status = out.memory ? write_out(&out, message, object) : kn_fail_memory(error, room);
    }
    kn_release(host, out.lengths);
    if (status != KN_OK) {
        kn_release(host, out.memory);
        return status;
    }
    *bytes = out.memory;
    *count = out.count;
    return KN_OK;
}

kn_status kn_onnx_encode(const kn_host *host, const char *name, const kn_onnx_model *model, uint8_t **bytes,
                         uint64_t *count, kn_error *error) {
    return encode(host, name, &kn_onnx_model_message, model, bytes, count, error);
}

kn_status kn_onnx_value_write(const kn_host *host, const char *path, const kn_onnx_value *value,
                              kn_error *error) {
    const void *object = value->kind == KN_ONNX_TENSOR   ? (const void *)value->tensor
                         : value->kind == KN_ONNX_SPARSE ? (const void *)value->sparse
                                                         : (const void *)value;
    const kn_onnx_message *message = value->kind == KN_ONNX_TENSOR   ? &kn_onnx_tensor_message
                                     : value->kind == KN_ONNX_SPARSE ? &kn_onnx_sparse_message
                                                                     : &kn_onnx_value_message;
    kn_onnx_sink out = {.host = host, .name = path, .error = error};
    kn_status status = measure(&out, message, object);
    if (status == KN_OK) status = check_size(&out);
    if (status == KN_OK) status = write_files(&out, path, NULL, message, object);
    kn_release(host, out.lengths);
    return status;
}
