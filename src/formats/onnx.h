/* ONNX files: models, and single values (inputs and outputs of the backend tests). Included through
 * formats.h.
 *
 * The structures mirror the file: nothing is resolved, inferred or checked against operators here. Strings
 * are UTF-8 without zero characters and never NULL: an absent string is "". Empty lists may be NULL. A
 * writer takes the same structures; zeros mean "absent", and strings may then also be NULL. */
#ifndef KN_FORMATS_ONNX_H
#define KN_FORMATS_ONNX_H

#include <koine/tensor.h>

#include "base/base.h"

typedef struct kn_array kn_array;

/* ---- element types (onnx_type.c) --------------------------------------------------- */

/* X(name, number in the format, text, bits of an element). A complex number is one element. */
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

/* "float32" and so on; "undefined" for 0 and "unknown" for other invalid numbers. */
const char *kn_onnx_type_name(kn_onnx_type type);
/* Bits of a packed element; 0 for strings and invalid types. */
int kn_onnx_type_bits(kn_onnx_type type);
/* Koine's element type with the same values, where 4-bit and 2-bit elements take a byte each; false if there
 * is none (strings, complex numbers, 6-bit floats). */
bool kn_onnx_type_to(kn_onnx_type type, kn_dtype *dtype);
kn_onnx_type kn_onnx_type_from(kn_dtype dtype);

/* ---- tensors (onnx_tensor.c) --------------------------------------------------------- */

/* Any bytes, not terminated. */
typedef struct kn_onnx_string {
    const char *bytes;
    size_t count;
} kn_onnx_string;

/* A tensor with its elements in memory, whatever field or file they come from. */
typedef struct kn_onnx_tensor {
    const char *name, *doc;
    kn_onnx_type type;
    size_t rank;          /* may exceed KN_MAX_RANK */
    const int64_t *shape; /* row-major; not negative */
    uint64_t count;       /* number of elements: the product of the shape, 1 for rank 0 */
    /* The elements packed, little-endian and low bits first: (count * bits + 7) / 8 bytes, unaligned; in the
     * file's bytes if possible. NULL for strings. */
    const uint8_t *bytes;
    uint64_t byte_count;
    const kn_onnx_string *strings; /* `count` of them, for strings only */
    const kn_text_pair *metadata;
    size_t metadata_count;
    bool external; /* whether the bytes are in a separate file */
} kn_onnx_tensor;

/* Values at positions: `indices` has the shape (values), with row-major positions, or (values, rank). */
typedef struct kn_onnx_sparse {
    kn_onnx_tensor values, indices; /* the name is in `values` */
    size_t rank;
    const int64_t *shape;
} kn_onnx_sparse;

/* Sets count and byte_count from type, rank and shape; false if they are invalid or the size overflows.
 * byte_count is 0 for strings. */
bool kn_onnx_tensor_measure(kn_onnx_tensor *tensor);
/* The tensor as an array, to be finished with kn_array_finish: it points to the same bytes, or owns a copy on
 * big-endian machines. KN_ERROR_UNSUPPORTED, with the reason, for a type that kn_onnx_type_to does not
 * convert or a rank above KN_MAX_RANK. */
kn_status kn_onnx_tensor_array(const kn_host *host, const kn_onnx_tensor *tensor, kn_array *array,
                               kn_error *error);
/* Converts elements in place from the machine's byte order to a tensor's, and float4e2m1 to two elements per
 * byte. */
void kn_onnx_pack(kn_dtype dtype, void *elements, uint64_t count);
/* Element `index` of a numeric type, exact except for integers above 2^53; the real part of a complex number.
 * 0 for strings. index < count. */
double kn_onnx_tensor_number(const kn_onnx_tensor *tensor, uint64_t index);
/* Whether no element is an infinity or NaN, as kn_onnx_tensor_number gives it. */
bool kn_onnx_tensor_finite(const kn_onnx_tensor *tensor);
/* Element `index` of int64, int32, a narrower integer or bool, exactly; the bits of a uint64. False for other
 * types. */
bool kn_onnx_tensor_integer(const kn_onnx_tensor *tensor, uint64_t index, int64_t *number);

/* ---- types of values ------------------------------------------------------------------ */

typedef enum kn_onnx_kind {
    KN_ONNX_NO_KIND, /* not specified */
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
    int64_t length;   /* if known; may be invalid, such as -1 */
    const char *name; /* otherwise: "" if unnamed */
    const char *denotation;
} kn_onnx_dimension;

typedef struct kn_onnx_value_type kn_onnx_value_type;
struct kn_onnx_value_type {
    kn_onnx_kind kind;
    kn_onnx_type type; /* of elements, or of a map's keys */
    bool has_shape;    /* of tensors: false if even the rank is unspecified */
    size_t rank;
    const kn_onnx_dimension *shape;
    const kn_onnx_value_type *inner; /* of a sequence, an optional, a map; NULL if unspecified */
    const char *denotation;
};

typedef struct kn_onnx_value_info {
    const char *name, *doc;
    kn_onnx_value_type type;
    const kn_text_pair *metadata;
    size_t metadata_count;
} kn_onnx_value_info;

/* ---- models (onnx_model.c) -------------------------------------------------------------- */

typedef struct kn_onnx_graph kn_onnx_graph;

/* The numbers are those of the format. */
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

/* A scalar is a list of one: an INT has count 1 and ints[0]. */
typedef struct kn_onnx_attribute {
    const char *name, *doc;
    /* in a function: the name of the function's attribute that provides the value; otherwise "" */
    const char *reference;
    kn_onnx_attribute_kind kind; /* also with a reference */
    size_t count;                /* 0 with a reference */
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
    const char *domain;   /* "" for ONNX; "ai.onnx" is read as "" */
    const char *overload; /* of a function */
    const char **inputs;  /* "" for an omitted input */
    const char **outputs; /* "" for an unused output */
    const kn_onnx_attribute *attributes;
    const kn_text_pair *metadata;
    size_t input_count, output_count, attribute_count, metadata_count;
} kn_onnx_node;

/* The scales and zero points of a quantised tensor. */
typedef struct kn_onnx_annotation {
    const char *tensor;
    const kn_text_pair *parameters;
    size_t parameter_count;
} kn_onnx_annotation;

/* Also the body of If, Loop and Scan. The reader refuses duplicate names of inputs, initializers or node
 * outputs, node outputs that are also inputs or initializers, and duplicate attributes of a node. An
 * initializer may be the default of an input. */
struct kn_onnx_graph {
    const char *name, *doc;
    const kn_onnx_node *nodes;
    const kn_onnx_tensor *initializers;
    const kn_onnx_sparse *sparse_initializers;
    const kn_onnx_value_info *inputs, *outputs, *values; /* values: known types of intermediate values */
    const kn_onnx_annotation *annotations;
    const kn_text_pair *metadata;
    size_t node_count, initializer_count, sparse_initializer_count, input_count, output_count, value_count,
        annotation_count, metadata_count;
};

typedef struct kn_onnx_opset {
    const char *domain; /* as in a node */
    int64_t version;
} kn_onnx_opset;

typedef struct kn_onnx_function {
    const char *name, *domain, *overload, *doc; /* unique by name, domain and overload */
    const char **inputs, **outputs;
    const char **attribute_names;        /* without a default */
    const kn_onnx_attribute *attributes; /* with a default */
    const kn_onnx_node *nodes;
    const kn_onnx_opset *opsets;
    const kn_onnx_value_info *values;
    const kn_text_pair *metadata;
    size_t input_count, output_count, attribute_name_count, attribute_count, node_count, opset_count,
        value_count, metadata_count;
} kn_onnx_function;

/* A file with external data of a model. */
typedef struct kn_onnx_external kn_onnx_external;

/* kn_onnx_close releases what was read. Training information, which is unused in practice, and device
 * configurations are not stored. */
typedef struct kn_onnx_model {
    int64_t ir_version;
    const kn_onnx_opset *opsets; /* one per domain */
    const char *producer, *producer_version, *domain, *doc;
    int64_t version;
    kn_onnx_graph graph;
    const kn_onnx_function *functions;
    const kn_text_pair *metadata;
    size_t opset_count, function_count, metadata_count;
    kn_arena arena; /* private from here on; holds the lists of a model that was read */
    kn_file_view view;
    kn_onnx_external *external;
    kn_map by_location;
} kn_onnx_model;

/* `host` and `bytes` must outlive the model: large tensors point into them. `folder` is the folder of
 * external data, NULL to refuse such tensors; nothing outside it is opened, and symbolic links in it are not
 * followed. Memory use is at most about a hundred times `count`, whatever the input. On failure there is
 * nothing to close. */
kn_status kn_onnx_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                       const char *folder, kn_onnx_model *model, kn_error *error);
/* The file and its external data, mapped into memory. */
kn_status kn_onnx_open(const kn_host *host, const char *path, kn_onnx_model *model, kn_error *error);
void kn_onnx_close(const kn_host *host, kn_onnx_model *model);
/* NULL if there is no attribute of that name. */
const kn_onnx_attribute *kn_onnx_find_attribute(const kn_onnx_node *node, const char *name);
/* The version of a domain in the list; 0 if none. */
int64_t kn_onnx_find_opset(const kn_onnx_opset *opsets, size_t count, const char *domain);

/* ---- writing (onnx_writer.c) --------------------------------------------------------------- */

typedef struct kn_onnx_write_options {
    /* Tensors of at least this many bytes go to a second file "NAME.data" next to the first, each at a
     * multiple of 4096. 0: only if the model would otherwise reach 2 GiB, and then tensors of at least 1024
     * bytes. */
    uint64_t external_from;
} kn_onnx_write_options;

/* Atomic (the second file is written first). NULL options mean zeros. Only the public part of `model` is
 * used; elements are written as raw data. */
kn_status kn_onnx_write(const kn_host *host, const char *path, const kn_onnx_model *model,
                        const kn_onnx_write_options *options, kn_error *error);
/* kn_onnx_write into memory, in one buffer; *bytes is released with kn_release. */
kn_status kn_onnx_encode(const kn_host *host, const char *name, const kn_onnx_model *model, uint8_t **bytes,
                         uint64_t *count, kn_error *error);

/* ---- single values (onnx_value.c) ------------------------------------------------------------ */

typedef struct kn_onnx_value kn_onnx_value;
struct kn_onnx_value {
    kn_onnx_kind kind; /* a tensor, a sparse tensor, a sequence, an optional */
    const char *name;
    kn_onnx_kind item_kind; /* for sequences and optionals: the kind of their items, specified even if
                             * empty */
    size_t count;           /* number of items; of an optional 0 or 1 */
    union {
        const kn_onnx_value *items;
        const kn_onnx_tensor *tensor;
        const kn_onnx_sparse *sparse;
    };
};

typedef struct kn_onnx_value_file {
    kn_onnx_value value;
    kn_arena arena; /* private from here on */
    kn_file_view view;
} kn_onnx_value_file;

/* The file does not specify what it contains: `kind` does (KN_ONNX_TENSOR, _SPARSE, _SEQUENCE or _OPTIONAL).
 * Otherwise like kn_onnx_read; maps and external data are refused. */
kn_status kn_onnx_value_read(const kn_host *host, const char *name, const uint8_t *bytes, uint64_t count,
                             kn_onnx_kind kind, kn_onnx_value_file *file, kn_error *error);
kn_status kn_onnx_value_open(const kn_host *host, const char *path, kn_onnx_kind kind,
                             kn_onnx_value_file *file, kn_error *error);
void kn_onnx_value_close(const kn_host *host, kn_onnx_value_file *file);
/* Atomic. */
kn_status kn_onnx_value_write(const kn_host *host, const char *path, const kn_onnx_value *value,
                              kn_error *error);

#endif
