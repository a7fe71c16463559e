/* Caffe files, included through formats.h: a net as text (.prototxt) or with its weights (.caffemodel)
 * becomes the same tree of named fields. This module does not interpret the fields. */
#ifndef KN_FORMATS_CAFFE_H
#define KN_FORMATS_CAFFE_H

#include "base/base.h"

struct kn_array;

typedef enum kn_caffe_kind {
    KN_CAFFE_NUMBER,
    KN_CAFFE_WORD, /* an enumerator, true or false */
    KN_CAFFE_TEXT,
    KN_CAFFE_MESSAGE,
    KN_CAFFE_ARRAY, /* the elements of a blob */
} kn_caffe_kind;

typedef struct kn_caffe_item kn_caffe_item;
struct kn_caffe_item {
    const char *name; /* "kernel_size" */
    kn_caffe_item *next;
    uint64_t position; /* line in a text, from 1; byte offset in a binary file */
    kn_caffe_kind kind;
    union {
        double number;
        const char *text;             /* for a word or text: UTF-8 without control characters */
        kn_caffe_item *first;         /* first field of a message, in file order; NULL: empty */
        const struct kn_array *array; /* of rank 1; its bytes are in the file or the arena */
    } as;
};

typedef struct kn_caffe_net {
    kn_caffe_item *root; /* a message */
    bool binary;         /* a binary file, which may contain weights */
    kn_arena arena;      /* private from here on */
    kn_file_view view;
} kn_caffe_net;

/* Whether bytes look like a Caffe net, as text or with weights. */
bool kn_caffe_is(const uint8_t *bytes, uint64_t count);
/* Reads a file of either kind. `host` and `bytes` must outlive the structure. On failure there is nothing to
 * close. In binary files, fields that no Koine layer could need are skipped; in texts all fields are read. */
kn_status kn_caffe_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                        kn_caffe_net *net, kn_error *error);
kn_status kn_caffe_open(const kn_host *host, const char *path, kn_caffe_net *net, kn_error *error);
void kn_caffe_close(const kn_host *host, kn_caffe_net *net);

/* Looks up a field of a message; NULL if the message is NULL or has no such field. If a field occurs several
 * times, the last one counts, as in protocol buffers. */
const kn_caffe_item *kn_caffe_field(const kn_caffe_item *message, const char *name);
/* Iterates over a field; NULL: returns the first. */
const kn_caffe_item *kn_caffe_next(const kn_caffe_item *message, const char *name,
                                   const kn_caffe_item *after);
int kn_caffe_count(const kn_caffe_item *message, const char *name);
/* A number, with true as 1; `fallback` if absent or not a number. */
double kn_caffe_number(const kn_caffe_item *message, const char *name, double fallback);
/* A text or word; `fallback` if absent or neither. */
const char *kn_caffe_text(const kn_caffe_item *message, const char *name, const char *fallback);

#endif
