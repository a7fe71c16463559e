/* Shared by the readers of both kinds of Caffe file. Private to the formats module. */
#ifndef KN_FORMATS_CAFFE_PRIVATE_H
#define KN_FORMATS_CAFFE_PRIVATE_H

#include "formats/caffe.h"
#include "formats/formats_private.h"
#include "formats/wire.h"

/* Limits, since files may be hostile. */
enum {
    KN_CAFFE_DEPTH = 32,        /* nesting of messages */
    KN_CAFFE_ITEMS = 1 << 20,   /* per file */
    KN_CAFFE_NAME_BYTES = 4096, /* per string */
};

typedef struct kn_caffe_reader {
    const char *name; /* of the file */
    kn_caffe_net *net;
    int items;
    kn_error *error;
} kn_caffe_reader;

/* Appends a new item after *last and updates last; NULL with the error set if there are too many, or when out
 * of memory. */
kn_caffe_item *kn_caffe_add(kn_caffe_reader *in, kn_caffe_item ***last, const char *name, kn_caffe_kind kind,
                            uint64_t position);
/* A copy in which invalid UTF-8 and control characters become ?; NULL like kn_caffe_add. */
const char *kn_caffe_keep_text(kn_caffe_reader *in, const void *bytes, size_t count);

/* Reads a whole text or binary file into the root. */
kn_status kn_caffe_read_text(kn_caffe_reader *in, const char *text, size_t count);
kn_status kn_caffe_read_binary(kn_caffe_reader *in, const uint8_t *bytes, uint64_t count);

/* ---- meaning of field numbers (caffe_schema.c) -------------------------------------------- */

typedef enum kn_caffe_form {
    KN_CAFFE_AS_WHOLE = 1, /* varints */
    KN_CAFFE_AS_FLOAT,     /* four bytes each */
    KN_CAFFE_AS_TEXT,
    KN_CAFFE_AS_WORD, /* an enumerator, as a varint */
    KN_CAFFE_AS_MESSAGE,
    KN_CAFFE_AS_FLOATS, /* all in one array */
    KN_CAFFE_AS_DOUBLES,
} kn_caffe_form;

typedef struct kn_caffe_word {
    int number;
    const char *word; /* NULL ends the list */
} kn_caffe_word;
typedef struct kn_caffe_about {
    uint32_t number; /* 0 ends the list */
    kn_caffe_form form;
    const char *name;
    const void *more; /* for a word its enumerators, for a message its fields */
} kn_caffe_about;

extern const kn_caffe_about kn_caffe_net_fields[];

#endif
