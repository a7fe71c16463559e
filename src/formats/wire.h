/* The wire format of protocol buffers: fields one after the other, each with a number and one
 * of four forms. Inside of the formats room only. */
#ifndef KN_FORMATS_WIRE_H
#define KN_FORMATS_WIRE_H

#include "base/base.h"

typedef enum kn_wire_form {
    KN_WIRE_VARINT = 0,
    KN_WIRE_FIXED64 = 1,
    KN_WIRE_BYTES = 2,
    KN_WIRE_FIXED32 = 5,
} kn_wire_form;
/* "a varint", for messages. */
const char *kn_wire_form_name(kn_wire_form form);

/* What is left to read of a message. */
typedef struct kn_wire {
    const uint8_t *at, *end;
} kn_wire;

typedef struct kn_wire_field {
    uint32_t number; /* 1 to 2^29 - 1 */
    kn_wire_form form;
    uint64_t value;    /* of a varint or a fixed one */
    kn_wire bytes;     /* of the form bytes: within the message */
    const uint8_t *at; /* where the field begins */
} kn_wire_field;

/* What messages say about where they are. */
typedef struct kn_wire_place {
    const char *name;     /* of the file */
    const char *kind;     /* what it is expected to be: "ONNX file" */
    const uint8_t *start; /* its first byte */
    kn_error *error;
} kn_wire_place;

/* False at the end of the message, and where it is broken: then *status is no longer KN_OK. */
bool kn_wire_next(const kn_wire_place *place, kn_wire *wire, kn_wire_field *field, kn_status *status);
/* Reads one varint; false when it is cut off or longer than 64 bits, with nothing moved. */
bool kn_wire_varint(kn_wire *wire, uint64_t *value);
/* Writes one varint; the answer is how many bytes it has. */
enum { KN_WIRE_VARINT_BYTES = 10 };
size_t kn_wire_put_varint(uint8_t bytes[KN_WIRE_VARINT_BYTES], uint64_t value);
/* "name: byte N: " and what follows, with KN_ERROR_FORMAT. */
kn_status kn_wire_refuse(const kn_wire_place *place, const uint8_t *at, const char *format, ...)
    KN_PRINTF(3, 4);

/* Numbers of a repeated field in the form `form`, which lie packed in bytes or each in a field of
 * its own: how many there are in this field; false, with *status set, where it has neither form or
 * the bytes are no whole numbers. */
bool kn_wire_count(const kn_wire_place *place, const kn_wire_field *field, kn_wire_form form, uint64_t *count,
                   kn_status *status);
/* The numbers one by one, after kn_wire_count found the field sound: give the field's first by
 * kn_wire_first and go on while kn_wire_take answers true. */
kn_wire kn_wire_first(const kn_wire_field *field);
bool kn_wire_take(const kn_wire_field *field, kn_wire_form form, kn_wire *rest, uint64_t *value);

#endif
