/* Shared by the ONNX reader and writer: each message of the format is a table of fields, which serves reading
 * and writing; messages that do not map to a structure one to one (tensors, attributes, types) have functions
 * instead. Private to the formats module. */
#ifndef KN_FORMATS_ONNX_PRIVATE_H
#define KN_FORMATS_ONNX_PRIVATE_H

#include "formats/formats_private.h"
#include "formats/wire.h"

/* Nested graphs take three levels each. */
enum { KN_ONNX_DEPTH = 100 };

struct kn_onnx_external {
    kn_onnx_external *next;
    kn_file_view view;
};

typedef struct kn_onnx_reader {
    kn_wire_input input;
    const kn_host *host;
    kn_arena *arena;
    const char *folder;   /* NULL: no external data */
    kn_onnx_model *model; /* NULL when reading a single value: no external data */
    int depth;
} kn_onnx_reader;

typedef struct kn_onnx_sink kn_onnx_sink; /* destination of a message */

typedef struct kn_onnx_message kn_onnx_message;
typedef enum kn_onnx_form {
    KN_ONNX_TEXT,     /* const char * */
    KN_ONNX_TEXTS,    /* const char ** and a count */
    KN_ONNX_DOMAIN,   /* const char *, with "ai.onnx" as "" */
    KN_ONNX_NUMBER,   /* int64_t */
    KN_ONNX_ONE,      /* a nested structure */
    KN_ONNX_MESSAGES, /* const structure * and a count */
} kn_onnx_form;
typedef struct kn_onnx_field {
    uint32_t number;
    kn_onnx_form form;
    const char *name;
    size_t at, count_at; /* offsets of the member and of its size_t count */
    const kn_onnx_message *message;
} kn_onnx_field;
struct kn_onnx_message {
    const char *name;
    size_t bytes; /* of the structure */
    const kn_onnx_field *fields;
    size_t field_count;
    /* Used instead of the fields. */
    kn_status (*read)(kn_onnx_reader *in, kn_wire bytes, void *object);
    void (*write)(kn_onnx_sink *out, const void *object);
    /* Called after reading the fields; `bytes` is the whole message. May be NULL. */
    kn_status (*check)(kn_onnx_reader *in, kn_wire bytes, const void *object);
};

extern const kn_onnx_message kn_onnx_pair_message, kn_onnx_tensor_message, kn_onnx_sparse_message,
    kn_onnx_type_message, kn_onnx_attribute_message, kn_onnx_graph_message, kn_onnx_model_message;

/* ---- reading (onnx_reader.c) ------------------------------------------------------------- */

/* Fills in *object, which must be zeroed. */
kn_status kn_onnx_read_message(kn_onnx_reader *in, const kn_onnx_message *message, kn_wire bytes,
                               void *object);
/* Reads all fields `number` of the enclosing message as a list in the arena; their count is known. */
kn_status kn_onnx_read_list(kn_onnx_reader *in, const kn_onnx_message *message, kn_wire around,
                            uint32_t number, size_t count, void **list);
kn_status kn_onnx_read_text(kn_onnx_reader *in, const kn_wire_field *field, const char **text);
kn_status kn_onnx_read_string(kn_onnx_reader *in, const kn_wire_field *field, kn_onnx_string *string);
/* Fails unless the field has that form. */
kn_status kn_onnx_expect(kn_onnx_reader *in, const kn_wire_field *field, kn_wire_form form);
/* Allocates from the arena; NULL with *status set when out of memory. */
void *kn_onnx_take(kn_onnx_reader *in, uint64_t count, size_t size, kn_status *status);
/* Reads a list of numbers, int64 or float, from all fields `number`; their count is known. */
kn_status kn_onnx_read_ints(kn_onnx_reader *in, kn_wire around, uint32_t number, uint64_t count,
                            const int64_t **list);
kn_status kn_onnx_read_floats(kn_onnx_reader *in, kn_wire around, uint32_t number, uint64_t count,
                              const float **list);

/* Name checks (onnx_check.c). */
kn_status kn_onnx_check_graph(kn_onnx_reader *in, kn_wire bytes, const void *graph);
kn_status kn_onnx_check_node(kn_onnx_reader *in, kn_wire bytes, const void *node);
kn_status kn_onnx_check_function(kn_onnx_reader *in, kn_wire bytes, const void *function);
kn_status kn_onnx_check_model(kn_onnx_reader *in, kn_wire bytes, const void *model);

/* ---- writing (onnx_writer.c; messages without a table: onnx_parts.c) --------------------------- */

/* A message is traversed twice by the same functions: first to measure the lengths of all messages in it, in
 * the order in which they begin, then to write. Failures are stored in `status`. */
struct kn_onnx_sink {
    const kn_host *host;
    const char *name; /* for messages */
    kn_error *error;
    kn_status status;
    bool measuring;
    uint64_t count; /* bytes so far */
    uint64_t *lengths;
    size_t length_count, length_capacity, next_length;
    uint8_t *memory;        /* the destination in memory, or */
    kn_file_writer *file;   /* the destination file */
    kn_file_writer *data;   /* external data, in the second pass */
    const char *data_name;  /* its name in the model; NULL: no external data */
    uint64_t external_from; /* size of the smallest external tensor */
    uint64_t data_count;    /* bytes of external data so far */
};

/* Fields. A NULL or empty string is omitted. */
void kn_onnx_put_text(kn_onnx_sink *out, uint32_t field, const char *text);
void kn_onnx_put_bytes(kn_onnx_sink *out, uint32_t field, const void *bytes, uint64_t count);
void kn_onnx_put_number(kn_onnx_sink *out, uint32_t field, int64_t number);
void kn_onnx_put_float(kn_onnx_sink *out, uint32_t field, float number);
void kn_onnx_put_message(kn_onnx_sink *out, uint32_t field, const kn_onnx_message *message,
                         const void *object);
/* Begins and ends a message that contains the fields between the two calls. */
size_t kn_onnx_begin(kn_onnx_sink *out, uint32_t field);
void kn_onnx_end(kn_onnx_sink *out, size_t begun);
/* Bytes outside any message: external data. */
void kn_onnx_put_data(kn_onnx_sink *out, const void *bytes, uint64_t count);

void kn_onnx_write_tensor(kn_onnx_sink *out, const void *tensor);
void kn_onnx_write_sparse(kn_onnx_sink *out, const void *sparse);
void kn_onnx_write_type(kn_onnx_sink *out, const void *type);
void kn_onnx_write_attribute(kn_onnx_sink *out, const void *attribute);
/* A sequence or an optional. */
void kn_onnx_write_value(kn_onnx_sink *out, const void *value);
extern const kn_onnx_message kn_onnx_value_message;

/* The field of an attribute that holds the value of a kind. */
uint32_t kn_onnx_attribute_field(kn_onnx_attribute_kind kind);
/* The field of a sequence or optional that holds items of a kind; 0 for none. */
uint32_t kn_onnx_item_field(kn_onnx_kind kind);

#endif
