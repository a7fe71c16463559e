/* How the readers of Caffe's two kinds of files work together. Inside of the formats room only. */
#ifndef KN_FORMATS_CAFFE_PRIVATE_H
#define KN_FORMATS_CAFFE_PRIVATE_H

#include "formats/caffe.h"
#include "formats/formats_private.h"
#include "formats/wire.h"

/* Files may be made to do harm: nothing in one may cost more than these. */
enum {
    KN_CAFFE_DEPTH = 32,        /* of messages inside one another */
    KN_CAFFE_ITEMS = 1 << 20,   /* in a file */
    KN_CAFFE_NAME_BYTES = 4096, /* of a text */
};

typedef struct kn_caffe_reader {
    const char *name; /* of the file */
    kn_caffe_net *net;
    int items;
    kn_error *error;
} kn_caffe_reader;

/* A new item behind *last, which becomes it; NULL, with the error set, when there are too many or no memory.
 */
kn_caffe_item *kn_caffe_add(kn_caffe_reader *in, kn_caffe_item ***last, const char *name, kn_caffe_kind kind,
                            uint64_t place);
/* A copy with a ? for every byte that is no UTF-8 or a control character; NULL as kn_caffe_add. */
const char *kn_caffe_keep_text(kn_caffe_reader *in, const void *bytes, size_t count);

/* Reads all of a text, or of a file with weights, into the root. */
kn_status kn_caffe_read_text(kn_caffe_reader *in, const char *text, size_t count);
kn_status kn_caffe_read_binary(kn_caffe_reader *in, const uint8_t *bytes, uint64_t count);

/* ---- what numbers of fields mean (caffe_schema.c) ----------------------------------------- */

typedef enum kn_caffe_form {
    KN_CAFFE_AS_WHOLE = 1, /* varints */
    KN_CAFFE_AS_FLOAT,     /* four bytes each */
    KN_CAFFE_AS_TEXT,
    KN_CAFFE_AS_WORD, /* a varint that has a name */
    KN_CAFFE_AS_MESSAGE,
    KN_CAFFE_AS_FLOATS, /* all in one array */
    KN_CAFFE_AS_DOUBLES,
} kn_caffe_form;

typedef struct kn_caffe_word {
    int number;
    const char *word; /* NULL ends a list */
} kn_caffe_word;
typedef struct kn_caffe_about {
    uint32_t number; /* 0 ends a list */
    kn_caffe_form form;
    const char *name;
    const void *more; /* of a word its names, of a message its fields */
} kn_caffe_about;

extern const kn_caffe_about kn_caffe_net_fields[];

#endif
