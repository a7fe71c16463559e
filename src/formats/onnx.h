/* ONNX files: models, and single values (the backend tests' inputs and outputs). Reached
 * through formats.h.
 *
 * The structures say what the file says: nothing is resolved, inferred or checked against
 * operators here. Texts are UTF-8 without zero characters and never NULL: what a file leaves out
 * is "". Lists that are empty may be NULL. A writer fills in the same structures; zeros mean "not there",
 * and a text may then be NULL too. */
#ifndef KN_FORMATS_ONNX_H
#define KN_FORMATS_ONNX_H

#include <koine/tensor.h>

#include "base/base.h"

typedef struct kn_array kn_array;

/* ---- element types (onnx_type.c) --------------------------------------------------- */

/* X(name, number of the format, text, bits of an element). A complex number is one element. */
#define KN_ONNX_TYPE_LIST(X)                                                                                 \
    X(KN_ONNX_FLOAT32, 1, "float32", 32)                                                                     \
    X(KN_ONNX_UINT8, 2, "uint8", 8)                                                                          \
    X(KN_ONNX_INT8, 3, "int8", 8)                                                                            \
    X(KN_ONNX_UINT16, 4, "uint16", 16)                                                                       \
    X(KN_ONNX_INT16, 5, "int16", 16)                                                                         \
    X(KN_ONNX_INT32, 6, "int32", 32)                                                                         \
    X(KN_ONNX_INT64, 7, "int64", 64)                                                                         \
    X(KN_ONNX_STRING, 8, "string", 0)                                                                        \
    X(KN_ONNX_BOOL, 9, "bool", 8)                                                                            \
    X(KN_ONNX_FLOAT16, 10, "float16", 16)                                                                    \
    X(KN_ONNX_FLOAT64, 11, "float64", 64)                                                                    \
    X(KN_ONNX_UINT32, 12, "uint32", 32)                                                                      \
    X(KN_ONNX_UINT64, 13, "uint64", 64)                                                                      \
    X(KN_ONNX_COMPLEX64, 14, "complex64", 64)                                                                \
    X(KN_ONNX_COMPLEX128, 15, "complex128", 128)                                                             \
    X(KN_ONNX_BFLOAT16, 16, "bfloat16", 16)                                                                  \
    X(KN_ONNX_FLOAT8E4M3FN, 17, "float8e4m3fn", 8)                                                           \
    X(KN_ONNX_FLOAT8E4M3FNUZ, 18, "float8e4m3fnuz", 8)                                                       \
    X(KN_ONNX_FLOAT8E5M2, 19, "float8e5m2", 8)                                                               \
    X(KN_ONNX_FLOAT8E5M2FNUZ, 20, "float8e5m2fnuz", 8)                                                       \
    X(KN_ONNX_UINT4, 21, "uint4", 4)                                                                         \
    X(KN_ONNX_INT4, 22, "int4", 4)                                                                           \
    X(KN_ONNX_FLOAT4E2M1, 23, "float4e2m1", 4)                                                               \
    X(KN_ONNX_FLOAT8E8M0, 24, "float8e8m0", 8)                                                               \
    X(KN_ONNX_UINT2, 25, "uint2", 2)                                                                         \
    X(KN_ONNX_INT2, 26, "int2", 2)                                                                           \
    X(KN_ONNX_FLOAT6E2M3, 27, "float6e2m3", 6)                                                               \
    X(KN_ONNX_FLOAT6E3M2, 28, "float6e3m2", 6)

typedef enum kn_onnx_type {
    KN_ONNX_UNDEFINED = 0,
#define KN_ONNX_TYPE_ENUM(name, number, text, bits) name = number,
    KN_ONNX_TYPE_LIST(KN_ONNX_TYPE_ENUM)
#undef KN_ONNX_TYPE_ENUM
} kn_onnx_type;

/* "float32" and so on; "undefined" for 0 and "unknown" for other numbers that are no type. */
const char *kn_onnx_type_name(kn_onnx_type type);
/* Bits of an element as they lie packed; 0 for strings and for numbers that are no type. */
int kn_onnx_type_bits(kn_onnx_type type);
/* The element type of Koine that has the same bits; false where there is none (strings, complex
 * numbers, and all of less than 16 bits but int8, uint8 and bool). */
bool kn_onnx_type_to(kn_onnx_type type, kn_dtype *dtype);
kn_onnx_type kn_onnx_type_from(kn_dtype dtype);

/* ---- tensors (onnx_tensor.c) --------------------------------------------------------- */

/* Bytes of a string: any at all, not terminated. */
typedef struct kn_onnx_string {
    const char *bytes;
    size_t count;
} kn_onnx_string;

typedef struct kn_onnx_pair {
    const char *key, *value;
} kn_onnx_pair;

/* A tensor whose elements are at hand, whatever field or file they came in. */
typedef struct kn_onnx_tensor {
    const char *name, *doc;
    kn_onnx_type type;
    size_t rank;          /* may be above KN_MAX_RANK */
    const int64_t *shape; /* row-major; none is negative */
    uint64_t count;       /* elements: the product of the shape, 1 for rank 0 */
    /* The elements packed, low byte and low bits first: (count * bits + 7) / 8 bytes, not aligned;
     * they lie in the bytes of the file where they can. NULL for strings. */
    const uint8_t *bytes;
    uint64_t byte_count;
    const kn_onnx_string *strings; /* `count` of them, for strings only */
    const kn_onnx_pair *metadata;
    size_t metadata_count;
    bool external; /* whether the bytes lie in a file of their own */
} kn_onnx_tensor;

/* Values at places: `indices` is (number of values) of places in row-major order, or (number, rank). */
typedef struct kn_onnx_sparse {
    kn_onnx_tensor values, indices; /* the name is that of the values */
    size_t rank;
    const int64_t *shape;
} kn_onnx_sparse;

/* Sets count and byte_count from type, rank and shape; false when that makes no sense or is more
 * than memory can be. For strings byte_count is 0. */
bool kn_onnx_tensor_measure(kn_onnx_tensor *tensor);
/* The tensor as an array, to be finished with kn_array_finish: it points at the same bytes, or owns
 * a copy where this machine keeps the high byte first. KN_ERROR_UNSUPPORTED, with the reason, for a
 * type that kn_onnx_type_to does not know or a rank above KN_MAX_RANK. */
kn_status kn_onnx_tensor_array(const kn_host *host, const kn_onnx_tensor *tensor, kn_array *array,
                               kn_error *error);
/* Elements of so many bytes each, as this machine has them, to what `bytes` of a tensor are; in place. */
void kn_onnx_pack(void *elements, uint64_t count, size_t bytes);
/* Element `index` of any type of numbers, exact but for integers above 2^53; of a complex number
 * the real part. 0 for strings. index < count. */
double kn_onnx_tensor_number(const kn_onnx_tensor *tensor, uint64_t index);
/* Element `index` of int64, int32 and all narrower integers and bool, exact; of a uint64 its bits. False for
 * others. */
bool kn_onnx_tensor_integer(const kn_onnx_tensor *tensor, uint64_t index, int64_t *number);

/* ---- types of values ------------------------------------------------------------------ */

typedef enum kn_onnx_kind {
    KN_ONNX_NO_KIND, /* the file does not say */
    KN_ONNX_TENSOR,
    KN_ONNX_SPARSE,
    KN_ONNX_SEQUENCE,
    KN_ONNX_OPTIONAL,
    KN_ONNX_MAP,
    KN_ONNX_OPAQUE,
} kn_onnx_kind;
/* "a tensor", for messages. */
const char *kn_onnx_kind_name(kn_onnx_kind kind);

typedef struct kn_onnx_dimension {
    bool known;
    int64_t length;   /* where known; a file may say nonsense such as -1 */
    const char *name; /* otherwise: "" for one without a name */
    const char *denotation;
} kn_onnx_dimension;

typedef struct kn_onnx_value_type kn_onnx_value_type;
struct kn_onnx_value_type {
    kn_onnx_kind kind;
    kn_onnx_type type; /* of elements, or of the keys of a map */
    bool has_shape;    /* of tensors: false when even the rank is not said */
    size_t rank;
    const kn_onnx_dimension *shape;
    const kn_onnx_value_type *inner; /* of a sequence, an optional, a map; NULL if not said */
    const char *denotation;
};

typedef struct kn_onnx_value_info {
    const char *name, *doc;
    kn_onnx_value_type type;
    const kn_onnx_pair *metadata;
    size_t metadata_count;
} kn_onnx_value_info;

/* ---- models (onnx_model.c) -------------------------------------------------------------- */

typedef struct kn_onnx_graph kn_onnx_graph;

/* The numbers are the format's. */
typedef enum kn_onnx_attribute_kind {
    KN_ONNX_ATTRIBUTE_NONE = 0,
    KN_ONNX_ATTRIBUTE_FLOAT = 1,
    KN_ONNX_ATTRIBUTE_INT = 2,
    KN_ONNX_ATTRIBUTE_STRING = 3,
    KN_ONNX_ATTRIBUTE_TENSOR = 4,
    KN_ONNX_ATTRIBUTE_GRAPH = 5,
    KN_ONNX_ATTRIBUTE_FLOATS = 6,
    KN_ONNX_ATTRIBUTE_INTS = 7,
    KN_ONNX_ATTRIBUTE_STRINGS = 8,
    KN_ONNX_ATTRIBUTE_TENSORS = 9,
    KN_ONNX_ATTRIBUTE_GRAPHS = 10,
    KN_ONNX_ATTRIBUTE_SPARSE = 11,
    KN_ONNX_ATTRIBUTE_SPARSES = 12,
    KN_ONNX_ATTRIBUTE_TYPE = 13,
    KN_ONNX_ATTRIBUTE_TYPES = 14,
} kn_onnx_attribute_kind;
/* "a list of integers", for messages. */
const char *kn_onnx_attribute_kind_name(kn_onnx_attribute_kind kind);

/* One value is a list of one: an INT has count 1 and ints[0]. */
typedef struct kn_onnx_attribute {
    const char *name, *doc;
    const char *reference;       /* in a function: the function's attribute that gives the value; else "" */
    kn_onnx_attribute_kind kind; /* also where there is a reference */
    size_t count;                /* 0 where there is a reference */
    union {
        const float *floats;
        const int64_t *ints;
        const kn_onnx_string *strings;
        const kn_onnx_tensor *tensors;
        const kn_onnx_graph *graphs;
        const kn_onnx_sparse *sparses;
        const kn_onnx_value_type *types;
    };
} kn_onnx_attribute;

typedef struct kn_onnx_node {
    const char *name, *doc;
    const char *type;     /* "Conv" */
    const char *domain;   /* "" is ONNX's own; a file's "ai.onnx" is read as "" */
    const char *overload; /* of a function */
    const char **inputs;  /* "" for one that is left out */
    const char **outputs; /* "" for one that nobody wants */
    const kn_onnx_attribute *attributes;
    const kn_onnx_pair *metadata;
    size_t input_count, output_count, attribute_count, metadata_count;
} kn_onnx_node;

/* Where the scales and zero points of a quantised tensor are. */
typedef struct kn_onnx_annotation {
    const char *tensor;
    const kn_onnx_pair *parameters;
    size_t parameter_count;
} kn_onnx_annotation;

/* Also the body of If, Loop and Scan. Refused when read: two inputs, two initializers or two outputs
 * of nodes of one name, an output of a node that is an input or an initializer too, and a node with
 * two attributes of one name. An initializer may give an input its default. */
struct kn_onnx_graph {
    const char *name, *doc;
    const kn_onnx_node *nodes;
    const kn_onnx_tensor *initializers;
    const kn_onnx_sparse *sparse_initializers;
    const kn_onnx_value_info *inputs, *outputs, *values; /* values: what is known of those between */
    const kn_onnx_annotation *annotations;
    const kn_onnx_pair *metadata;
    size_t node_count, initializer_count, sparse_initializer_count, input_count, output_count, value_count,
        annotation_count, metadata_count;
};

typedef struct kn_onnx_opset {
    const char *domain; /* as a node's */
    int64_t version;
} kn_onnx_opset;

typedef struct kn_onnx_function {
    const char *name, *domain, *overload, *doc; /* one function for each name, domain and overload */
    const char **inputs, **outputs;
    const char **attribute_names;        /* without a default */
    const kn_onnx_attribute *attributes; /* with one */
    const kn_onnx_node *nodes;
    const kn_onnx_opset *opsets;
    const kn_onnx_value_info *values;
    const kn_onnx_pair *metadata;
    size_t input_count, output_count, attribute_name_count, attribute_count, node_count, opset_count,
        value_count, metadata_count;
} kn_onnx_function;

/* A file in which tensors of a model lie. */
typedef struct kn_onnx_external kn_onnx_external;

/* What is read is the model's to release, by kn_onnx_close. Not kept: ONNX's training information,
 * which nobody writes, and its configurations of devices. */
typedef struct kn_onnx_model {
    int64_t ir_version;
    const kn_onnx_opset *opsets; /* one for each domain */
    const char *producer, *producer_version, *domain, *doc;
    int64_t version;
    kn_onnx_graph graph;
    const kn_onnx_function *functions;
    const kn_onnx_pair *metadata;
    size_t opset_count, function_count, metadata_count;
    kn_arena arena; /* the rest is private; where the lists of a model that was read lie */
    kn_file_view view;
    kn_onnx_external *external;
    kn_map by_location;
} kn_onnx_model;

/* `host` and `bytes` must outlive the model: large tensors point into them. `folder` is where
 * external data is looked for, NULL to refuse such tensors; nothing outside of it is opened, and no
 * symbolic link in it is followed. Memory taken is at most about a hundred times `count`, whatever the
 * bytes say. On failure nothing is left to close. */
kn_status kn_onnx_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                       const char *folder, kn_onnx_model *model, kn_error *error);
/* The file and what lies in its folder, mapped into memory. */
kn_status kn_onnx_open(const kn_host *host, const char *path, kn_onnx_model *model, kn_error *error);
void kn_onnx_close(const kn_host *host, kn_onnx_model *model);
/* NULL when there is none of that name (and overload "" where that is meant). */
const kn_onnx_attribute *kn_onnx_find_attribute(const kn_onnx_node *node, const char *name);
/* The version that the list gives a domain; 0 if none. */
int64_t kn_onnx_find_opset(const kn_onnx_opset *opsets, size_t count, const char *domain);

/* ---- writing (onnx_writer.c) --------------------------------------------------------------- */

typedef struct kn_onnx_write_options {
    /* Tensors of so many bytes and more go to a second file "NAME.data" beside the first, each at a
     * multiple of 4096. 0: only where the model would be of 2 GiB or more without, and then
     * tensors of 1024 bytes and more. */
    uint64_t external_from;
} kn_onnx_write_options;

/* Whole or not at all (the second file first). NULL for options means zeros. Only the part of `model`
 * that is not private is looked at; elements are written as raw data. */
kn_status kn_onnx_write(const kn_host *host, const char *path, const kn_onnx_model *model,
                        const kn_onnx_write_options *options, kn_error *error);
/* The same into memory, all in one; *bytes is released with kn_release. */
kn_status kn_onnx_encode(const kn_host *host, const char *name, const kn_onnx_model *model, uint8_t **bytes,
                         uint64_t *count, kn_error *error);

/* ---- values alone (onnx_value.c) -------------------------------------------------------------- */

typedef struct kn_onnx_value kn_onnx_value;
struct kn_onnx_value {
    kn_onnx_kind kind; /* a tensor, a sparse one, a sequence, an optional */
    const char *name;
    kn_onnx_kind item_kind; /* of sequences and optionals: what they hold, said even when empty */
    size_t count;           /* of items; of an optional 0 or 1 */
    union {
        const kn_onnx_value *items;
        const kn_onnx_tensor *tensor;
        const kn_onnx_sparse *sparse;
    };
};

typedef struct kn_onnx_value_file {
    kn_onnx_value value;
    kn_arena arena; /* the rest is private */
    kn_file_view view;
} kn_onnx_value_file;

/* A file does not say what it holds: `kind` does (KN_ONNX_TENSOR, _SPARSE, _SEQUENCE or _OPTIONAL). As
 * kn_onnx_read otherwise; maps and external data are refused. */
kn_status kn_onnx_value_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                             kn_onnx_kind kind, kn_onnx_value_file *file, kn_error *error);
kn_status kn_onnx_value_open(const kn_host *host, const char *path, kn_onnx_kind kind,
                             kn_onnx_value_file *file, kn_error *error);
void kn_onnx_value_close(const kn_host *host, kn_onnx_value_file *file);
/* Whole or not at all. */
kn_status kn_onnx_value_write(const kn_host *host, const char *path, const kn_onnx_value *value,
                              kn_error *error);

#endif
