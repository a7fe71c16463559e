/* GGUF, included through formats.h: the files of llama.cpp. Metadata (keys with typed values) and tensors,
 * some in blocks of few bits (base/blocks.h). Versions 2 and 3, little-endian, in one file or in several
 * parts. */
#ifndef KN_FORMATS_GGUF_H
#define KN_FORMATS_GGUF_H

#include "base/base.h"

/* ---- files (gguf.c) ---------------------------------------------------------------------- */

/* The types of values, numbered as in files. */
typedef enum kn_gguf_kind {
    KN_GGUF_UINT8,
    KN_GGUF_INT8,
    KN_GGUF_UINT16,
    KN_GGUF_INT16,
    KN_GGUF_UINT32,
    KN_GGUF_INT32,
    KN_GGUF_FLOAT32,
    KN_GGUF_BOOL,
    KN_GGUF_STRING,
    KN_GGUF_ARRAY,
    KN_GGUF_UINT64,
    KN_GGUF_INT64,
    KN_GGUF_FLOAT64,
} kn_gguf_kind;

/* In the file: not terminated, any bytes. */
typedef struct kn_gguf_text {
    const char *bytes;
    uint64_t count;
} kn_gguf_text;

/* A value, or an array of values of one kind. */
typedef struct kn_gguf_value {
    const char *key;
    kn_gguf_kind kind; /* of the elements; never KN_GGUF_ARRAY */
    bool array;
    uint64_t count;          /* 1 unless an array */
    const uint8_t *bytes;    /* private from here on: of the first element */
    const uint64_t *offsets; /* of the strings of an array, (count) */
} kn_gguf_value;

typedef struct kn_gguf_tensor {
    const char *name;
    int rank;         /* 0 to 4 */
    int64_t shape[4]; /* row-major: the last axis is contiguous, the file's first size */
    int type;         /* the number in the file */
    /* NULL if Koine cannot read the type; then bytes is NULL and byte_count 0. */
    const kn_block_type *storage;
    const uint8_t *bytes; /* in the file; aligned only as the file is */
    uint64_t count, byte_count;
    kn_shared_file *file; /* NULL: the bytes are the caller's (kn_gguf_read) */
} kn_gguf_tensor;

typedef struct kn_gguf kn_gguf;
struct kn_gguf {
    kn_gguf_value *values; /* in file order */
    size_t value_count;
    kn_gguf_tensor *tensors; /* in file order, all parts */
    size_t tensor_count;
    const char *name; /* private from here on: of the file, for messages */
    kn_arena arena;
    kn_map values_by_key, tensors_by_name;
    kn_shared_file *shared; /* NULL: see kn_gguf_read */
    kn_gguf *parts;         /* (part_count), after the first */
    size_t part_count;
};

/* Whether the bytes begin like a GGUF file. */
bool kn_gguf_is(const uint8_t *bytes, uint64_t count);
/* Reads a file without parts. `host` and `bytes` must outlive the structure, which points into them. On
 * failure there is nothing to close. */
kn_status kn_gguf_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                       kn_gguf *file, kn_error *error);
/* Maps a file. If it is the first of several parts, NAME-00001-of-00003.gguf, maps all of them; the metadata
 * is that of the first. */
kn_status kn_gguf_open(const kn_host *host, const char *path, kn_gguf *file, kn_error *error);
void kn_gguf_close(const kn_host *host, kn_gguf *file);

/* NULL if the file has no such key. */
const kn_gguf_value *kn_gguf_find(const kn_gguf *file, const char *key);
/* NULL if the file has no tensor of that name. */
const kn_gguf_tensor *kn_gguf_tensor_find(const kn_gguf *file, const char *name);

/* Element `index` < count of a value; false if it is not of a suitable kind: an integer of any size that an
 * int64_t can hold, any number, true or false, a string. */
bool kn_gguf_integer_at(const kn_gguf_value *value, uint64_t index, int64_t *number);
bool kn_gguf_real_at(const kn_gguf_value *value, uint64_t index, double *number);
bool kn_gguf_bool_at(const kn_gguf_value *value, uint64_t index, bool *truth);
bool kn_gguf_text_at(const kn_gguf_value *value, uint64_t index, kn_gguf_text *text);

/* The value of a key that is not an array. Without the key, *number stays as it is. KN_ERROR_FORMAT, naming
 * file and key, if it has another kind or is not from minimum to maximum. */
kn_status kn_gguf_integer(const kn_gguf *file, const char *key, int64_t minimum, int64_t maximum,
                          int64_t *number, kn_error *error);
kn_status kn_gguf_real(const kn_gguf *file, const char *key, double minimum, double maximum, double *number,
                       kn_error *error);
kn_status kn_gguf_bool(const kn_gguf *file, const char *key, bool *truth, kn_error *error);
kn_status kn_gguf_string(const kn_gguf *file, const char *key, kn_gguf_text *text, kn_error *error);
/* "uint32" and so on, for messages. */
const char *kn_gguf_kind_name(kn_gguf_kind kind);
/* Bytes of a value; 0 for strings and arrays. */
int kn_gguf_kind_bytes(kn_gguf_kind kind);

/* ---- writing (gguf_writer.c) ------------------------------------------------------------- */

/* Everything before the contents of tensors. Functions that add to it need not be checked: without memory,
 * kn_gguf_writer_open fails. */
typedef struct kn_gguf_head {
    kn_text pairs, tensors; /* private from here on */
    uint64_t pair_count, tensor_count, tensor_bytes;
} kn_gguf_head;

void kn_gguf_head_init(kn_gguf_head *head, const kn_host *host);
void kn_gguf_head_finish(kn_gguf_head *head);
/* kind: an integer or KN_GGUF_BOOL. */
void kn_gguf_put_integer(kn_gguf_head *head, const char *key, kn_gguf_kind kind, int64_t number);
/* A float32. */
void kn_gguf_put_real(kn_gguf_head *head, const char *key, double number);
void kn_gguf_put_string(kn_gguf_head *head, const char *key, const char *text);
/* A value of a file. */
void kn_gguf_put_value(kn_gguf_head *head, const kn_gguf_value *value);
/* An array, whose `count` elements follow by the functions below. */
void kn_gguf_put_array(kn_gguf_head *head, const char *key, kn_gguf_kind kind, uint64_t count);
void kn_gguf_add_integer(kn_gguf_head *head, kn_gguf_kind kind, int64_t number);
void kn_gguf_add_real(kn_gguf_head *head, double number);
void kn_gguf_add_string(kn_gguf_head *head, const char *bytes, size_t count);
/* shape is row-major, `rank` sizes; rows are whole blocks. name NULL: there was no memory for it. */
void kn_gguf_put_tensor(kn_gguf_head *head, const char *name, int rank, const int64_t *shape,
                        const kn_block_type *type);
/* Begins the file, which is completed by kn_file_writer_commit after the contents of all tensors were added
 * in the order of the head. */
kn_status kn_gguf_writer_open(const kn_host *host, const char *path, const kn_gguf_head *head,
                              kn_file_writer **writer, kn_error *error);
/* The contents of one tensor. */
kn_status kn_gguf_writer_add(kn_file_writer *writer, const void *bytes, uint64_t count, kn_error *error);

#endif
