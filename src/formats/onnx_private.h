/* How the files of the ONNX reader work together: each message of the format is a table
 * of fields, from which it is read; the few that do not map to a structure one to one
 * (tensors, attributes, types) have functions instead. Inside of the formats room only. */
#ifndef KN_FORMATS_ONNX_PRIVATE_H
#define KN_FORMATS_ONNX_PRIVATE_H

#include "formats/formats_private.h"
#include "formats/wire.h"

/* Graphs within graphs take three levels each. */
enum { KN_ONNX_DEPTH = 100 };

struct kn_onnx_external {
    kn_onnx_external *next;
    kn_file_view view;
};

typedef struct kn_onnx_reader {
    kn_wire_place place;
    const kn_host *host;
    kn_arena *arena;
    const char *folder;   /* NULL: no external data */
    kn_onnx_model *model; /* NULL where a value is read: no external data */
    int depth;
} kn_onnx_reader;

typedef struct kn_onnx_message kn_onnx_message;
typedef enum kn_onnx_form {
    KN_ONNX_TEXT,     /* const char * */
    KN_ONNX_TEXTS,    /* const char ** and a count */
    KN_ONNX_DOMAIN,   /* const char *, in which "ai.onnx" is "" */
    KN_ONNX_NUMBER,   /* int64_t */
    KN_ONNX_ONE,      /* a structure within the structure */
    KN_ONNX_MESSAGES, /* const structure * and a count */
} kn_onnx_form;
typedef struct kn_onnx_field {
    uint32_t number;
    kn_onnx_form form;
    const char *name;
    size_t at, count_at; /* offsets of the member and of the size_t that counts it */
    const kn_onnx_message *message;
} kn_onnx_field;
struct kn_onnx_message {
    const char *name;
    size_t bytes; /* of the structure */
    const kn_onnx_field *fields;
    size_t field_count;
    /* Instead of the fields. */
    kn_status (*read)(kn_onnx_reader *in, kn_wire bytes, void *object);
    /* After the fields, NULL for nothing: `bytes` is the whole message. */
    kn_status (*check)(kn_onnx_reader *in, kn_wire bytes, const void *object);
};

extern const kn_onnx_message kn_onnx_pair_message, kn_onnx_tensor_message, kn_onnx_sparse_message,
    kn_onnx_type_message, kn_onnx_attribute_message, kn_onnx_graph_message, kn_onnx_model_message;

/* ---- reading (onnx_reader.c) ------------------------------------------------------------- */

/* Fills in *object, which is zeroed. */
kn_status kn_onnx_read_message(kn_onnx_reader *in, const kn_onnx_message *message, kn_wire bytes,
                               void *object);
/* All fields `number` of the message around as a list in the arena; their number is known. */
kn_status kn_onnx_read_list(kn_onnx_reader *in, const kn_onnx_message *message, kn_wire around,
                            uint32_t number, size_t count, void **list);
kn_status kn_onnx_read_text(kn_onnx_reader *in, const kn_wire_field *field, const char **text);
kn_status kn_onnx_read_string(kn_onnx_reader *in, const kn_wire_field *field, kn_onnx_string *string);
/* Fails unless the field has that form. */
kn_status kn_onnx_expect(kn_onnx_reader *in, const kn_wire_field *field, kn_wire_form form);
/* Memory of the arena; NULL, with *status set, when there is none. */
void *kn_onnx_take(kn_onnx_reader *in, uint64_t count, size_t size, kn_status *status);
/* A list of numbers, int64 or float, from all fields `number`; how many there are is known. */
kn_status kn_onnx_read_ints(kn_onnx_reader *in, kn_wire around, uint32_t number, uint64_t count,
                            const int64_t **list);
kn_status kn_onnx_read_floats(kn_onnx_reader *in, kn_wire around, uint32_t number, uint64_t count,
                              const float **list);

/* Checks of names (onnx_check.c). */
kn_status kn_onnx_check_graph(kn_onnx_reader *in, kn_wire bytes, const void *graph);
kn_status kn_onnx_check_node(kn_onnx_reader *in, kn_wire bytes, const void *node);
kn_status kn_onnx_check_function(kn_onnx_reader *in, kn_wire bytes, const void *function);
kn_status kn_onnx_check_model(kn_onnx_reader *in, kn_wire bytes, const void *model);

#endif
