/* ONNX: reads messages by their tables. */
#include <string.h>

#include "formats/onnx_private.h"

void *kn_onnx_take(kn_onnx_reader *in, uint64_t count, size_t size, kn_status *status) {
    void *taken = count <= SIZE_MAX ? kn_arena_take(in->arena, (size_t)count, size) : NULL;
    if (!taken) *status = kn_fail_memory(in->input.error, (size_t)count * size);
    return taken;
}

kn_status kn_onnx_expect(kn_onnx_reader *in, const kn_wire_field *field, kn_wire_form form) {
    if (field->form == form) return KN_OK;
    return kn_wire_refuse(&in->input, field->at, "field %u is %s; expected %s", field->number,
                          kn_wire_form_name(field->form), kn_wire_form_name(form));
}

static size_t length_of(kn_wire bytes) {
    return (size_t)(bytes.end - bytes.at);
}

kn_status kn_onnx_read_string(kn_onnx_reader *in, const kn_wire_field *field, kn_onnx_string *string) {
    kn_status status = kn_onnx_expect(in, field, KN_WIRE_BYTES);
    if (status == KN_OK) *string = (kn_onnx_string){(const char *)field->bytes.at, length_of(field->bytes)};
    return status;
}

kn_status kn_onnx_read_text(kn_onnx_reader *in, const kn_wire_field *field, const char **text) {
    kn_status status = kn_onnx_expect(in, field, KN_WIRE_BYTES);
    if (status != KN_OK) return status;
    *text = "";
    size_t length = length_of(field->bytes);
    if (length == 0) return KN_OK;
    for (const uint8_t *at = field->bytes.at; at < field->bytes.end;) {
        uint32_t code;
        size_t size = kn_utf8_read(at, (uint64_t)(field->bytes.end - at), &code);
        if (size == 0 || code == 0)
            return kn_wire_refuse(&in->input, at, "field %u: %s in a string", field->number,
                                  size == 0 ? "invalid UTF-8" : "a zero character");
        at += size;
    }
    char *copy = kn_onnx_take(in, length + 1, 1, &status);
    if (!copy) return status;
    memcpy(copy, field->bytes.at, length);
    *text = copy;
    return KN_OK;
}

kn_status kn_onnx_read_list(kn_onnx_reader *in, const kn_onnx_message *message, kn_wire around,
                            uint32_t number, size_t count, void **list) {
    kn_status status = KN_OK;
    uint8_t *items = kn_onnx_take(in, count, message->bytes, &status);
    if (!items) return status;
    kn_wire_field field;
    for (size_t i = 0; i < count && kn_wire_next(&in->input, &around, &field, &status);) {
        if (field.number != number) continue;
        status = kn_onnx_expect(in, &field, KN_WIRE_BYTES);
        if (status == KN_OK)
            status = kn_onnx_read_message(in, message, field.bytes, items + i++ * message->bytes);
    }
    *list = items;
    return status;
}

/* Reads numbers of `size` bytes, 4 or 8, from all fields `number`. */
static kn_status read_numbers(kn_onnx_reader *in, kn_wire around, uint32_t number, kn_wire_form form,
                              uint64_t count, size_t size, void **list) {
    kn_status status = KN_OK;
    uint8_t *numbers = kn_onnx_take(in, count, size, &status);
    if (!numbers) return status;
    kn_wire_field field;
    uint64_t value, ignored, done = 0;
    while (done < count && kn_wire_next(&in->input, &around, &field, &status)) {
        if (field.number != number || !kn_wire_count(&in->input, &field, form, &ignored, &status)) continue;
        for (kn_wire rest = kn_wire_first(&field); kn_wire_take(&field, form, &rest, &value);) {
            uint32_t low = (uint32_t)value;
            memcpy(numbers + size * done++, size == sizeof low ? (void *)&low : (void *)&value, size);
        }
    }
    *list = numbers;
    return status;
}

kn_status kn_onnx_read_ints(kn_onnx_reader *in, kn_wire around, uint32_t number, uint64_t count,
                            const int64_t **list) {
    void *numbers = NULL;
    kn_status status = read_numbers(in, around, number, KN_WIRE_VARINT, count, sizeof **list, &numbers);
    if (numbers) *list = numbers;
    return status;
}

kn_status kn_onnx_read_floats(kn_onnx_reader *in, kn_wire around, uint32_t number, uint64_t count,
                              const float **list) {
    void *numbers = NULL;
    kn_status status = read_numbers(in, around, number, KN_WIRE_FIXED32, count, sizeof **list, &numbers);
    if (numbers) *list = numbers;
    return status;
}

static const kn_onnx_field *find_field(const kn_onnx_message *message, uint32_t number, size_t *index) {
    for (size_t i = 0; i < message->field_count; i++)
        if (message->fields[i].number == number) {
            *index = i;
            return &message->fields[i];
        }
    return NULL;
}

enum { MAX_FIELDS = 16 };

/* Allocates the lists and sets texts to "": the occurrences of each field were counted before. */
static kn_status prepare(kn_onnx_reader *in, const kn_onnx_message *message, const uint64_t *counts,
                         uint8_t *object) {
    kn_status status = KN_OK;
    for (size_t i = 0; i < message->field_count && status == KN_OK; i++) {
        const kn_onnx_field *about = &message->fields[i];
        bool texts = about->form == KN_ONNX_TEXTS;
        if (about->form == KN_ONNX_TEXT || about->form == KN_ONNX_DOMAIN) {
            const char *none = "";
            memcpy(object + about->at, &none, sizeof none);
        } else if ((texts || about->form == KN_ONNX_MESSAGES) && counts[i] > 0) {
            void *list = kn_onnx_take(in, counts[i], texts ? sizeof(char *) : about->message->bytes, &status);
            memcpy(object + about->at, &list, sizeof list);
        } else if (about->form == KN_ONNX_ONE && about->message->read && counts[i] == 0) {
            /* An absent message is read as an empty one. */
            status =
                about->message->read(in, (kn_wire){in->input.start, in->input.start}, object + about->at);
        }
    }
    return status;
}

static kn_status read_field(kn_onnx_reader *in, const kn_onnx_field *about, const kn_wire_field *field,
                            bool again, uint8_t *object) {
    kn_status status = KN_OK;
    const char *text;
    size_t count = 0;
    uint8_t *list;
    switch (about->form) {
    case KN_ONNX_TEXT:
    case KN_ONNX_DOMAIN:
        status = kn_onnx_read_text(in, field, &text);
        if (status != KN_OK) return status;
        if (about->form == KN_ONNX_DOMAIN && strcmp(text, "ai.onnx") == 0) text = "";
        memcpy(object + about->at, &text, sizeof text);
        return KN_OK;
    case KN_ONNX_NUMBER:
        status = kn_onnx_expect(in, field, KN_WIRE_VARINT);
        if (status == KN_OK) memcpy(object + about->at, &field->value, sizeof field->value);
        return status;
    case KN_ONNX_ONE:
        status = kn_onnx_expect(in, field, KN_WIRE_BYTES);
        if (status == KN_OK && again)
            return kn_wire_refuse(&in->input, field->at, "found a second field %s; expected one",
                                  about->name);
        return status == KN_OK ? kn_onnx_read_message(in, about->message, field->bytes, object + about->at)
                               : status;
    case KN_ONNX_TEXTS:
    case KN_ONNX_MESSAGES:
        break;
    }
    memcpy(&list, object + about->at, sizeof list);
    memcpy(&count, object + about->count_at, sizeof count);
    if (about->form == KN_ONNX_TEXTS) {
        status = kn_onnx_read_text(in, field, &text);
        if (status == KN_OK) memcpy(list + count * sizeof text, &text, sizeof text);
    } else {
        status = kn_onnx_expect(in, field, KN_WIRE_BYTES);
        if (status == KN_OK)
            status =
                kn_onnx_read_message(in, about->message, field->bytes, list + count * about->message->bytes);
    }
    count++;
    memcpy(object + about->count_at, &count, sizeof count);
    return status;
}

static kn_status read_by_table(kn_onnx_reader *in, const kn_onnx_message *message, kn_wire bytes,
                               uint8_t *object) {
    uint64_t counts[MAX_FIELDS] = {0};
    kn_status status = KN_OK;
    kn_wire_field field;
    size_t index;
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);)
        if (find_field(message, field.number, &index)) counts[index]++;
    if (status == KN_OK) status = prepare(in, message, counts, object);
    memset(counts, 0, sizeof counts);
    for (kn_wire rest = bytes; kn_wire_next(&in->input, &rest, &field, &status);) {
        const kn_onnx_field *about = find_field(message, field.number, &index);
        if (about) status = read_field(in, about, &field, counts[index]++ > 0, object);
    }
    return status;
}

kn_status kn_onnx_read_message(kn_onnx_reader *in, const kn_onnx_message *message, kn_wire bytes,
                               void *object) {
    if (in->depth >= KN_ONNX_DEPTH)
        return kn_wire_refuse(&in->input, bytes.at, "messages are nested %d deep; expected fewer",
                              KN_ONNX_DEPTH);
    in->depth++;
    kn_status status =
        message->read ? message->read(in, bytes, object) : read_by_table(in, message, bytes, object);
    if (status == KN_OK && message->check) status = message->check(in, bytes, object);
    in->depth--;
    return status;
}
