/* Caffe's files, part of the door of the formats room: a net as text (.prototxt) and with its weights
 * (.caffemodel) become the same tree of fields by their names. What the fields mean is nothing of this room.
 */
#ifndef KN_FORMATS_CAFFE_H
#define KN_FORMATS_CAFFE_H

#include "base/base.h"

struct kn_array;

typedef enum kn_caffe_kind {
    KN_CAFFE_NUMBER,
    KN_CAFFE_WORD, /* a name of an enumeration, true or false */
    KN_CAFFE_TEXT,
    KN_CAFFE_MESSAGE,
    KN_CAFFE_ARRAY, /* the numbers of a blob */
} kn_caffe_kind;

typedef struct kn_caffe_item kn_caffe_item;
struct kn_caffe_item {
    const char *name; /* "kernel_size" */
    kn_caffe_item *next;
    uint64_t place; /* the line of a text, from 1; the byte of a file with weights */
    kn_caffe_kind kind;
    union {
        double number;
        const char *text;             /* of a word or text: UTF-8 without control characters */
        kn_caffe_item *first;         /* field of a message, in the order of the file; NULL: it is empty */
        const struct kn_array *array; /* of one axis; into the file or the arena */
    } as;
};

typedef struct kn_caffe_net {
    kn_caffe_item *root; /* a message */
    bool binary;         /* it may hold weights */
    kn_arena arena;      /* the rest is private */
    kn_file_view view;
} kn_caffe_net;

/* Whether bytes look like a net of Caffe, as text or with weights. */
bool kn_caffe_is(const uint8_t *bytes, uint64_t count);
/* Reads either. `host` and `bytes` must outlive the structure. On failure nothing is left to close. Of fields
 * with weights those are passed over that no layer of Koine could need; a text has all. */
kn_status kn_caffe_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                        kn_caffe_net *net, kn_error *error);
kn_status kn_caffe_open(const kn_host *host, const char *path, kn_caffe_net *net, kn_error *error);
void kn_caffe_close(const kn_host *host, kn_caffe_net *net);

/* Fields of a message, which may be NULL, or no message: then there are none. A field that is there several
 * times: the last one, as protocol buffers have it. */
const kn_caffe_item *kn_caffe_field(const kn_caffe_item *message, const char *name);
/* One after the other: after NULL the first. */
const kn_caffe_item *kn_caffe_next(const kn_caffe_item *message, const char *name,
                                   const kn_caffe_item *after);
int kn_caffe_count(const kn_caffe_item *message, const char *name);
/* A number, true as 1; `usual` where it is not there, or is none. */
double kn_caffe_number(const kn_caffe_item *message, const char *name, double usual);
/* A text or word; `usual` where it is not there, or is none. */
const char *kn_caffe_text(const kn_caffe_item *message, const char *name, const char *usual);

#endif
