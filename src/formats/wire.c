/* The wire format of protocol buffers. */
#include "formats/wire.h"

#include <stdio.h>

#include "formats/formats_private.h"

const char *kn_wire_form_name(kn_wire_form form) {
    switch (form) {
    case KN_WIRE_VARINT:
        return "a varint";
    case KN_WIRE_FIXED64:
        return "eight bytes";
    case KN_WIRE_BYTES:
        return "length-delimited bytes";
    case KN_WIRE_FIXED32:
        return "four bytes";
    }
    return "an unknown form";
}

kn_status kn_wire_refuse(const kn_wire_input *input, const uint8_t *at, const char *format, ...) {
    char text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return kn_fail(input->error, KN_ERROR_FORMAT, "%s: byte %llu: %s", input->name,
                   (unsigned long long)(at - input->start), text);
}

bool kn_wire_varint(kn_wire *wire, uint64_t *value) {
    uint64_t read = 0;
    const uint8_t *at = wire->at;
    for (unsigned shift = 0; shift < 64 && at < wire->end; shift += 7, at++) {
        /* The tenth byte has one bit. */
        if (shift == 63 && *at > 1) return false;
        read |= (uint64_t)(*at & 127) << shift;
        if (*at < 128) {
            wire->at = at + 1;
            *value = read;
            return true;
        }
    }
    return false;
}

size_t kn_wire_put_varint(uint8_t bytes[KN_WIRE_VARINT_BYTES], uint64_t value) {
    size_t count = 0;
    for (; value > 127; value >>= 7)
        bytes[count++] = (uint8_t)(value | 128);
    bytes[count++] = (uint8_t)value;
    return count;
}

static kn_status read_field(const kn_wire_input *input, kn_wire *wire, kn_wire_field *field) {
    uint64_t tag;
    *field = (kn_wire_field){.at = wire->at};
    if (!kn_wire_varint(wire, &tag))
        return kn_wire_refuse(input, field->at, "no field number: truncated, or not %s", input->kind);
    uint64_t number = tag >> 3;
    if (number == 0 || number > 0x1fffffff)
        return kn_wire_refuse(input, field->at, "field number %llu; expected 1 to 536870911: not %s",
                              (unsigned long long)number, input->kind);
    field->number = (uint32_t)number;
    field->form = (kn_wire_form)(tag & 7);
    uint64_t left = (uint64_t)(wire->end - wire->at), size = 0;
    switch (field->form) {
    case KN_WIRE_VARINT:
        if (!kn_wire_varint(wire, &field->value))
            return kn_wire_refuse(input, field->at, "field %u: the number is truncated or too long",
                                  field->number);
        return KN_OK;
    case KN_WIRE_FIXED64:
    case KN_WIRE_FIXED32:
        size = field->form == KN_WIRE_FIXED64 ? 8 : 4;
        if (left < size)
            return kn_wire_refuse(input, field->at, "field %u: the number is truncated", field->number);
        field->value = kn_little_uint(wire->at, (int)size);
        wire->at += size;
        return KN_OK;
    case KN_WIRE_BYTES:
        if (!kn_wire_varint(wire, &size))
            return kn_wire_refuse(input, field->at, "field %u: the length is truncated or too long",
                                  field->number);
        left = (uint64_t)(wire->end - wire->at);
        if (size > left)
            return kn_wire_refuse(input, field->at,
                                  "field %u: %llu bytes are declared, %llu are left: truncated?",
                                  field->number, (unsigned long long)size, (unsigned long long)left);
        field->bytes = (kn_wire){wire->at, wire->at + size};
        wire->at += size;
        return KN_OK;
    }
    return kn_wire_refuse(input, field->at, "field %u has form %d; expected 0, 1, 2 or 5: not %s",
                          field->number, (int)field->form, input->kind);
}

bool kn_wire_next(const kn_wire_input *input, kn_wire *wire, kn_wire_field *field, kn_status *status) {
    if (*status != KN_OK || wire->at == wire->end) return false;
    *status = read_field(input, wire, field);
    return *status == KN_OK;
}

bool kn_wire_count(const kn_wire_input *input, const kn_wire_field *field, kn_wire_form form, uint64_t *count,
                   kn_status *status) {
    uint64_t bytes = (uint64_t)(field->bytes.end - field->bytes.at), size = form == KN_WIRE_FIXED64 ? 8 : 4;
    *count = 1;
    if (field->form == form) return true;
    if (field->form != KN_WIRE_BYTES) {
        *status = kn_wire_refuse(input, field->at, "field %u is %s; expected %s", field->number,
                                 kn_wire_form_name(field->form), kn_wire_form_name(form));
        return false;
    }
    if (form != KN_WIRE_VARINT) {
        *count = bytes / size;
        if (bytes % size == 0) return true;
        *status = kn_wire_refuse(input, field->at, "field %u: %llu bytes; expected a multiple of %llu",
                                 field->number, (unsigned long long)bytes, (unsigned long long)size);
        return false;
    }
    *count = 0;
    kn_wire rest = field->bytes;
    for (uint64_t value; rest.at < rest.end; ++*count)
        if (!kn_wire_varint(&rest, &value)) {
            *status = kn_wire_refuse(input, rest.at, "field %u: the number is truncated or too long",
                                     field->number);
            return false;
        }
    return true;
}

kn_wire kn_wire_first(const kn_wire_field *field) {
    /* An unpacked number: any non-empty range, until its only number is read. */
    if (field->form != KN_WIRE_BYTES) return (kn_wire){field->at, field->at + 1};
    return field->bytes;
}

bool kn_wire_take(const kn_wire_field *field, kn_wire_form form, kn_wire *rest, uint64_t *value) {
    if (rest->at == rest->end) return false;
    if (field->form != KN_WIRE_BYTES) {
        rest->at = rest->end;
        *value = field->value;
        return true;
    }
    if (form == KN_WIRE_VARINT) return kn_wire_varint(rest, value);
    int size = form == KN_WIRE_FIXED64 ? 8 : 4;
    *value = kn_little_uint(rest->at, size);
    rest->at += size;
    return true;
}
