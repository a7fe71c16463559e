/* Public to other modules: bytes to structures and back. Input may be hostile: every size is checked before
 * memory is allocated, and every offset before it is followed. `name` is the name of the bytes in messages,
 * usually the path of the file. */
#ifndef KN_FORMATS_H
#define KN_FORMATS_H

#include <koine/tensor.h>

#include "base/base.h"
#include "formats/caffe.h"
#include "formats/gguf.h"
#include "formats/onnx.h"

/* ---- arrays (array.c), common to npy, IDX and safetensors ---------------------------------------------- */

typedef struct kn_array {
    kn_dtype type;
    int rank;
    int64_t shape[KN_MAX_RANK]; /* row-major */
    const void *bytes;          /* in the machine's byte order; unaligned if in a file */
    uint64_t count, byte_count;
    void *owned; /* the bytes if the array owns them; otherwise NULL */
} kn_array;

/* Bytes per element; 0 for an invalid type. */
size_t kn_array_type_bytes(kn_dtype type);
/* "float32" and so on; "unknown" for an invalid type. */
const char *kn_array_type_name(kn_dtype type);
/* Sets count and byte_count from type, rank and shape; false if they are invalid or the size overflows. */
bool kn_array_measure(kn_array *array);
void kn_array_finish(const kn_host *host, kn_array *array);
/* "(3, 28, 28)", truncated to `size`; returns text. */
const char *kn_array_shape_text(const kn_array *array, char *text, size_t size);
/* Element `index` as a double: exact for all types except integers above 2^53. */
double kn_array_number(const kn_array *array, uint64_t index);

/* An array and the file that contains it. */
typedef struct kn_array_file {
    kn_array array;
    kn_file_view view;
} kn_array_file;
void kn_array_file_close(const kn_host *host, kn_array_file *file);

/* ---- npy (npy.c): versions 1 to 3, either byte order, C and Fortran order ------------------------------ */

/* The array points into `bytes` if no conversion is needed, otherwise it owns a copy. */
kn_status kn_npy_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                      kn_array *array, kn_error *error);
kn_status kn_npy_open(const kn_host *host, const char *path, kn_array_file *file, kn_error *error);
/* Atomic; any type except bfloat16 and the small floats, which npy lacks. */
kn_status kn_npy_write(const kn_host *host, const char *path, const kn_array *array, kn_error *error);

/* ---- IDX (idx.c): the format of the MNIST files, plain or gzip ------------------ */

kn_status kn_idx_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                      kn_array *array, kn_error *error);
kn_status kn_idx_open(const kn_host *host, const char *path, kn_array_file *file, kn_error *error);

/* ---- CIFAR (cifar.c): the binary version -------------------------------------------------- */

enum { KN_CIFAR_SIDE = 32, KN_CIFAR_PIXELS = 3 * 32 * 32, KN_CIFAR_COARSE = 10, KN_CIFAR_FINE = 100 };
/* The layout of each of `count` records: a label below the number of classes, and (3,32,32) bytes. */
typedef struct kn_cifar {
    uint64_t count;
    size_t record_bytes, label_at, pixels_at;
} kn_cifar;
/* classes: KN_CIFAR_COARSE or KN_CIFAR_FINE. Checks all labels. */
kn_status kn_cifar_read(const char *name, const uint8_t *bytes, uint64_t count, int classes, kn_cifar *file,
                        kn_error *error);

/* ---- WAV (wave.c): uncompressed integers and floats ------------------------------------------ */

typedef struct kn_wave {
    int channels, bytes_each; /* per sample */
    uint32_t rate;            /* frames per second */
    bool real;                /* floats */
    uint64_t frames;
    const uint8_t *bytes; /* in the file: (frames,channels) */
} kn_wave;
kn_status kn_wave_read(const char *name, const uint8_t *bytes, uint64_t count, kn_wave *wave,
                       kn_error *error);
/* The mean of all channels, from -1 to 1 for integer formats; floats may have any value, even non-finite.
 * frame must be below the number of frames. */
float kn_wave_at(const kn_wave *wave, uint64_t frame);

/* ---- CSV (csv.c): RFC 4180 with a line of names first; commas, semicolons or tabs ------- */

/* Without quotes and surrounding blanks; not terminated. */
typedef struct kn_csv_cell {
    const char *text;
    size_t length;
} kn_csv_cell;
typedef struct kn_csv {
    size_t columns, rows;
    char separator;
    const kn_csv_cell *names; /* (columns) */
    const uint64_t *codes;    /* (rows,columns): encoded cells, for kn_csv_at */
    const uint8_t *bytes;     /* (count) */
    uint64_t count;
    const char *unquoted; /* text of cells with doubled quotes */
} kn_csv;
/* The cell at a row and column, both counted from 0. */
kn_csv_cell kn_csv_at(const kn_csv *table, size_t row, size_t column);
bool kn_csv_cell_is(const kn_csv_cell *cell, const char *text);
/* Empty lines are skipped; a line whose number of values differs from the number of names is an error. Cells
 * point into `bytes`, or into the arena if they contain doubled quotes. A cell must be smaller than 16 MiB,
 * the file smaller than half a TiB. */
kn_status kn_csv_read(kn_arena *arena, const char *name, const uint8_t *bytes, uint64_t count, kn_csv *table,
                      kn_error *error);

/* ---- gzip (gzip.c) ---------------------------------------------------------------- */

bool kn_gzip_is(const uint8_t *bytes, uint64_t count);
/* Inflates all members to at most `limit` bytes; more is an error. *inflated is released with kn_release and
 * has one additional zero byte at the end. */
kn_status kn_gzip_inflate(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                          uint64_t limit, uint8_t **inflated, uint64_t *inflated_count, kn_error *error);

/* ---- zip (zip.c): stored and deflated members; also zip64 --------------------------------- */

typedef struct kn_zip_member {
    const char *name; /* with / between folders; not a trusted path */
    uint64_t packed, size, header_at;
    uint32_t checksum;
    int method;
    bool encrypted;
} kn_zip_member;
typedef struct kn_zip {
    const kn_zip_member *members; /* in directory order */
    size_t count;
    const char *name;
    const uint8_t *bytes;
    uint64_t byte_count;
} kn_zip;
/* Reads the directory. Members and their names live in the arena; `name` and `bytes` must outlive them. */
kn_status kn_zip_read(kn_arena *arena, const char *name, const uint8_t *bytes, uint64_t count, kn_zip *zip,
                      kn_error *error);
/* NULL if there is no member of that name. */
const kn_zip_member *kn_zip_find(const kn_zip *zip, const char *name);
/* Gets a member's `size` bytes, at most `limit`, after checking the checksum: in the file if stored,
 * otherwise in *owned, which is released with kn_release. */
kn_status kn_zip_member_read(const kn_host *host, const kn_zip *zip, const kn_zip_member *member,
                             uint64_t limit, const uint8_t **bytes, void **owned, kn_error *error);

/* ---- UTF-8 (utf8.c) ---------------------------------------------------------------- */

/* Length of the character at `bytes`; 0 if invalid: overlong, half of a surrogate pair, beyond U+10FFFF, or
 * truncated. Sets *code. count > 0. */
size_t kn_utf8_read(const uint8_t *bytes, uint64_t count, uint32_t *code);
/* The inverse: writes 1 to 4 bytes. */
size_t kn_utf8_write(char *to, uint32_t code);

/* ---- JSON (json.c) ------------------------------------------------------------------ */

typedef enum kn_json_kind {
    KN_JSON_NULL,
    KN_JSON_BOOL,
    KN_JSON_NUMBER,
    KN_JSON_STRING,
    KN_JSON_ARRAY,
    KN_JSON_OBJECT,
} kn_json_kind;

typedef struct kn_json kn_json;
struct kn_json {
    kn_json_kind kind;
    bool truth;
    double number;
    const char *text; /* strings decoded to UTF-8, numbers as written; both terminated */
    size_t length;    /* of text, since a string may contain zero bytes */
    const char *key;  /* of a member of an object, otherwise NULL */
    size_t key_length;
    size_t count;    /* items or members */
    kn_json *first;  /* the first of them, in text order */
    kn_json *next;   /* the next sibling */
    uint64_t offset; /* byte offset of its beginning */
};

/* Parses one value that fills the text. Refuses more than `size_limit` bytes, nesting beyond `depth_limit`
 * (at most 256), invalid UTF-8, duplicate keys, and numbers too large for a double. Messages have the form
 * "name:line:column". Everything lives in the arena. */
kn_status kn_json_read(kn_arena *arena, const char *name, const void *bytes, uint64_t count,
                       uint64_t size_limit, int depth_limit, kn_json **root, kn_error *error);
/* The member of an object by key; NULL if there is none, or if it is not an object. */
const kn_json *kn_json_member(const kn_json *object, const char *key);
/* A number that is written as an integer and fits; otherwise false. */
bool kn_json_int64(const kn_json *value, int64_t *number);
/* "a string", for messages. */
const char *kn_json_kind_name(kn_json_kind kind);

/* ---- PNG (png_writer.c) --------------------------------------------------------------- */

enum { KN_PNG_SIDE = 16384 };
/* Appends a whole PNG file to the text. pixels is (height,width,channels), channels 1 or 3. */
kn_status kn_png_write(kn_text *text, int width, int height, int channels, const uint8_t *pixels,
                       kn_error *error);

/* ---- safetensors (safetensors.c, safetensors_writer.c) -------------------------------- */

typedef struct kn_safetensor {
    const char *name;
    kn_array array; /* points into the file; owns nothing */
} kn_safetensor;

typedef struct kn_safetensors {
    kn_safetensor *tensors; /* in the order of the header */
    size_t count;
    kn_text_pair *metadata;
    size_t metadata_count;
    kn_arena arena; /* private from here on */
    kn_map by_name;
    kn_file_view view;
    const uint8_t *bytes; /* of the whole file */
    uint64_t byte_count;
    uint64_t checksum_at; /* offset of the checksum's digits; 0: none */
} kn_safetensors;

/* The metadata key of a checksum of the whole file, computed with its own digits as zeros. A writer that is
 * given the key with the value KN_SAFETENSORS_NO_CHECKSUM writes the checksum. */
#define KN_SAFETENSORS_CHECKSUM "koine.checksum"
#define KN_SAFETENSORS_NO_CHECKSUM "0000000000000000"
/* KN_ERROR_FORMAT if a file has a checksum and it does not match. Reads the whole file. */
kn_status kn_safetensors_check(const kn_safetensors *file, const char *name, kn_error *error);

/* `host` and `bytes` must outlive the structure. On failure there is nothing to close. */
kn_status kn_safetensors_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                              kn_safetensors *file, kn_error *error);
kn_status kn_safetensors_open(const kn_host *host, const char *path, kn_safetensors *file, kn_error *error);
void kn_safetensors_close(const kn_host *host, kn_safetensors *file);
/* NULL if there is no tensor of that name. */
const kn_safetensor *kn_safetensors_find(const kn_safetensors *file, const char *name);
const char *kn_safetensors_metadata(const kn_safetensors *file, const char *key);

/* Writes a file atomically. All tensors are declared first (their bytes are ignored); then the bytes of each
 * tensor follow in the same order, in chunks of any size. Tensors are contiguous without padding: put wide
 * types first if they should be aligned. */
typedef struct kn_safetensors_writer kn_safetensors_writer;
kn_status kn_safetensors_writer_open(const kn_host *host, const char *path, const kn_safetensor *tensors,
                                     size_t count, const kn_text_pair *metadata, size_t metadata_count,
                                     kn_safetensors_writer **writer, kn_error *error);
kn_status kn_safetensors_writer_add(kn_safetensors_writer *writer, const void *bytes, uint64_t count,
                                    kn_error *error);
/* Fails if bytes are missing. Always destroys the writer. */
kn_status kn_safetensors_writer_commit(kn_safetensors_writer **writer, kn_error *error);
void kn_safetensors_writer_abandon(kn_safetensors_writer **writer);
/* Writes tensors whose bytes are in memory. */
kn_status kn_safetensors_write(const kn_host *host, const char *path, const kn_safetensor *tensors,
                               size_t count, const kn_text_pair *metadata, size_t metadata_count,
                               kn_error *error);

#endif
