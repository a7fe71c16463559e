/* The wire format of protocol buffers: consecutive fields, each with a number and one of four forms. Private
 * to the formats module. */
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

/* The unread remainder of a message. */
typedef struct kn_wire {
    const uint8_t *at, *end;
} kn_wire;

typedef struct kn_wire_field {
    uint32_t number; /* 1 to 2^29 - 1 */
    kn_wire_form form;
    uint64_t value;    /* of a varint or fixed field */
    kn_wire bytes;     /* of a field of form bytes: within the message */
    const uint8_t *at; /* beginning of the field */
} kn_wire_field;

/* The location for error messages. */
typedef struct kn_wire_input {
    const char *name;     /* of the file */
    const char *kind;     /* the expected kind of file, with an article: "an ONNX file" */
    const uint8_t *start; /* its first byte */
    kn_error *error;
} kn_wire_input;

/* False at the end of the message, or if it is malformed: *status is then not KN_OK. */
bool kn_wire_next(const kn_wire_input *input, kn_wire *wire, kn_wire_field *field, kn_status *status);
/* Reads one varint; false if it is truncated or longer than 64 bits, without advancing. */
bool kn_wire_varint(kn_wire *wire, uint64_t *value);
/* Writes one varint; returns its length. */
enum { KN_WIRE_VARINT_BYTES = 10 };
size_t kn_wire_put_varint(uint8_t bytes[KN_WIRE_VARINT_BYTES], uint64_t value);
/* Fails with KN_ERROR_FORMAT and the message "name: byte N: ...". */
kn_status kn_wire_refuse(const kn_wire_input *input, const uint8_t *at, const char *format, ...)
    KN_PRINTF(3, 4);

/* Counts the numbers in one field of a repeated number of form `form`, packed or not; false with *status set
 * if the field has neither form or its bytes do not hold complete numbers. */
bool kn_wire_count(const kn_wire_input *input, const kn_wire_field *field, kn_wire_form form, uint64_t *count,
                   kn_status *status);
/* Iterates over the numbers of a field that kn_wire_count accepted: start with kn_wire_first and continue
 * while kn_wire_take returns true. */
kn_wire kn_wire_first(const kn_wire_field *field);
bool kn_wire_take(const kn_wire_field *field, kn_wire_form form, kn_wire *rest, uint64_t *value);

#endif
