/* Shared by the files of the importer: an ONNX graph becomes a Koine graph, node by node.
 *
 * Each name in the file refers to an item (item.c): a value of the graph, or something known before there is
 * a value: an initializer, or small integers (sizes.c), which may be computed from the sizes of inputs and
 * contain symbols. A row of the table (table.c) specifies how to build a node of one operator; each family
 * of rows has a file. */
#ifndef KN_EXCHANGE_ONNX_IMPORT_H
#define KN_EXCHANGE_ONNX_IMPORT_H

#include <koine/operators.h>

#include <string.h>

#include "exchange/exchange.h"

/* Limits, since files may be hostile. */
enum {
    KN_IMPORT_NODES = 1 << 18, /* after functions, branches and loops are unrolled */
    KN_IMPORT_DEPTH = 24,      /* nesting of functions, branches and loops */
    KN_IMPORT_SIZES = 4096,    /* elements of integer arrays that are known during the build */
    KN_IMPORT_KNOWN = 1 << 16, /* elements whose values a node may require */
    KN_IMPORT_LIST = 2 * KN_MAX_RANK,
};

typedef struct kn_import kn_import;
typedef struct kn_item kn_item;
typedef struct kn_import_scope kn_import_scope;
typedef struct kn_import_call kn_import_call;

/* A parameter or statistic of the graph, and its initial value. */
typedef struct kn_import_state {
    kn_value *value;
    const kn_onnx_tensor *tensor;
} kn_import_state;

/* Whether an initializer is trainable, decided before the graph is built. */
typedef struct kn_trainability {
    bool yes;
    const char *why; /* the reason, either way */
} kn_trainability;

/* The domain of ONNX Runtime's operators, and the fields of a row for one. */
#define KN_MICROSOFT "com.microsoft"
#define KN_OF_MICROSOFT(word, function)                                                                      \
    { .type = word, .build = function, .domain = KN_MICROSOFT }

/* The origin_data of a model from an ONNX file. Models bound from an opened model share its file, names and
 * parameters. */
typedef struct kn_imported {
    kn_onnx_model *file;
    kn_map *names;          /* initializer address -> name in the graph, for floating-point initializers,
                             * including those of bodies */
    kn_model_params params; /* as given when the file was opened; stored in the root's arena */
    const kn_import_state *states; /* the graph's parameters and statistics */
    size_t state_count;
    const kn_trainability *trainable;    /* by initializer of the file's graph */
    const kn_onnx_node **training_nodes; /* nodes that train in the file, and are saved in inference form */
    size_t training_node_count;
} kn_imported;
static inline kn_imported *kn_imported_of(const kn_model *model) {
    return model->origin_data;
}
/* The arena that lives as long as the file. */
static inline kn_arena *kn_imported_arena(kn_model *model) {
    return model->root ? &model->root->arena : &model->arena;
}

/* The codes that a node dequantizes, so that a product may read them instead of the result. */
typedef struct kn_import_codes {
    kn_value *codes, *scale, *zero; /* zero may be NULL */
    int axis;                       /* the axis along which scale and zero differ; -1: they are scalars */
    int64_t block;                  /* number of elements along that axis that share a scale */
    bool weights;                   /* a matrix in the file */
} kn_import_codes;

/* What a name refers to. */
struct kn_item {
    const char *name; /* in the file */
    kn_dtype dtype;   /* in the file; the graph computes 16-bit floats as float32 */
    int bits;         /* 4 or 2 for integers smaller than a byte, stored in a byte each; 0: as dtype */
    bool text;        /* of strings, whose numbers are the elements (texts.c) */
    kn_value *value;  /* NULL until a node computes with it */
    const kn_onnx_tensor *tensor; /* its elements, if they are in the file */
    bool initializer;             /* a tensor that may be trainable */
    const kn_import_codes *codes; /* what was dequantized; otherwise NULL */
    /* Known integers, as dimensions of the graph: */
    const kn_dim *sizes; /* NULL: none */
    int count;
    int rank; /* of sizes */
    int64_t shape[KN_MAX_RANK];
    const struct kn_model_given *given; /* of an input: the array that the caller gave */
    bool *wanted;                       /* of an input: set when its values must be known */
    kn_item **elements;                 /* elements of a sequence or optional */
    size_t element_count;
    bool sequence; /* a sequence or an optional */
};

/* Names in a function, branch or loop body are looked up in its scope, then in the enclosing scopes. */
struct kn_import_scope {
    kn_map items; /* by name */
    kn_import_scope *outer;
    const kn_onnx_function *definition; /* of a function, which sees no outer names; NULL for bodies */
    const kn_import_call *call;         /* the calling node, to whose attributes inner nodes may refer */
    const kn_onnx_opset *opsets;
    size_t opset_count;
};

struct kn_import {
    kn_model *model;
    kn_arena *arena; /* the model's */
    kn_graph *graph;
    const kn_onnx_model *file;
    const kn_model_params *params;
    kn_import_scope *scope;
    bool one_input;    /* the model has only one input */
    const char *batch; /* the file's name for the batch dimension, "" if unnamed; NULL: there is no batch */
    int depth;
    size_t nodes;       /* number built so far */
    bool *output_texts; /* by output of the model: it is one of strings */
    bool *wanted;       /* by input of the file: its values must be known */
    bool *taken;        /* by setting of the caller: an input has that dynamic size */
    kn_map texts;       /* string -> number (texts.c) */
    size_t text_capacity;
    size_t output_capacity;
    const char *needs_array; /* an input without an array, which it must have; NULL: none */
    kn_map constants;        /* addresses of initializers whose values must be known, and which are not
                              * trained */
    bool again;              /* another value must be known: build again */
    bool probing;            /* a node that can also compute on the device is reading integers */
    bool spared;             /* `probing` kept inputs from becoming constants */
    bool eager;              /* such inputs become constants */
    bool lacks;              /* a required value depends on an input without an array */
    const char *missing;     /* the last such value of the file's graph; NULL: none */
    bool missing_loop;       /* it is the result of a loop */
    bool open;               /* an input has a dynamic size */
    kn_import_state *states; /* parameters and statistics, with their initial values */
    size_t state_count, state_capacity;
    const kn_onnx_node **training; /* nodes that train in the file */
    size_t training_count, training_capacity;
};

/* A floating-point attribute that both ONNX's node and Koine's operator have. */
typedef struct kn_import_number {
    const char *ours, *theirs;
    double usual; /* ONNX's default */
} kn_import_number;
enum { KN_IMPORT_NUMBERS = 2 };

typedef struct kn_import_row {
    const char *type; /* "Conv"; in ONNX's domain unless `domain` is set */
    /* Koine's operator with the same meaning, inputs and outputs; the exporter writes it as this node. NULL:
     * none. */
    const char *op;
    kn_import_number numbers[KN_IMPORT_NUMBERS];
    kn_status (*build)(kn_import_call *call);
    /* Computes the results from known integers; false without a failure: use `build`. */
    bool (*sizes)(kn_import_call *call);
    kn_value *(*reduce)(kn_value *, const char *, bool);
    const char *domain;
    unsigned texts; /* inputs that may be of strings, as bits, the last one also for later inputs: all or none
                       of them */
    bool moves_text; /* the outputs are of strings if these inputs are */
} kn_import_row;
/* Rows of operators that move elements, whose inputs of the bits may be of strings. */
#define KN_MOVES_TEXT(bits) .texts = (bits), .moves_text = true
/* Calls X for each family of operators: an array of rows. */
/* clang-format off */
#define KN_IMPORT_FAMILIES(X)                                                                                \
    X(pointwise) X(shape) X(resize) X(gather) X(data_dependent) X(sample) X(regions) X(steps)                \
    X(fourier) X(linear) X(reduce) X(layers) X(window) X(loss) X(attention) X(control) X(recurrent)          \
    X(quantized) X(optimizers) X(features) X(strings) X(qlinear) X(packed) X(fused)                          \
    X(runtime_attention) X(random)
/* clang-format on */
#define KN_DECLARE_FAMILY(family)                                                                            \
    extern const kn_import_row kn_import_##family[];                                                         \
    extern const int kn_import_##family##_count;
KN_IMPORT_FAMILIES(KN_DECLARE_FAMILY)

/* A node that is being built. */
struct kn_import_call {
    kn_import *import;
    kn_graph *graph;
    const kn_onnx_node *node;
    const kn_import_row *row;
    int64_t opset;
    int input_count, output_count;
    kn_item **inputs; /* NULL if left out */
    kn_item *outputs; /* to be filled in; name "" if unused */
};

const kn_import_row *kn_import_find(const char *domain, const char *type);
/* The row whose `op` this is, or NULL. */
const kn_import_row *kn_import_find_op(const char *op);

/* Prepares the opened file for building graphs: sorts nodes, decides which initializers are trainable. */
bool kn_import_prepare(kn_model *model);
/* Builds the graph of the file, following model->params. If these are not sufficient, the graph has only the
 * inputs, and the model is unbound. */
bool kn_import_onnx(kn_model *model);
/* Writes the file again with the weights in `states`; NULL: with the weights of the file. */
kn_status kn_import_save(kn_model *model, const char *path, kn_states *states,
                         const kn_model_save_params *params);

/* ---- scope.c ------------------------------------------------------------------------------------------- */

/* While a graph is built, failures are those of the graph: the first one counts, and all later calls return
 * the failed value or zeros and do nothing, so that builders need not check each step. import_node adds the
 * file, the node and its operator to the message. */

/* Fails the graph, with the shapes of the node's inputs after the message for KN_ERROR_SHAPE. */
kn_status kn_import_fail(const kn_import_call *call, kn_status status, const char *format, ...)
    KN_PRINTF(3, 4);
/* kn_import_fail for functions that return a value: the failed one. */
kn_value *kn_import_reject(const kn_import_call *call, kn_status status, const char *format, ...)
    KN_PRINTF(3, 4);
kn_status kn_import_no_memory(const kn_import *import);
/* Sets the model's error: the file, the node with its operator, and a message. */
kn_status kn_import_fail_node(const kn_import *import, const kn_onnx_node *node, kn_status status,
                              const char *message);
/* Records that the node trains in the file, and must be saved in inference form. */
void kn_import_record_training(kn_import_call *call);
void kn_import_open_scope(kn_import *import, kn_import_scope *scope);
void kn_import_close_scope(kn_import *import, kn_import_scope *scope);
/* NULL if neither the scope nor an enclosing scope has the name. */
kn_item *kn_import_item(const kn_import *import, const char *name);
kn_status kn_import_define(kn_import *import, const char *name, const kn_item *item);
/* "1,2,3" in the arena, never NULL. */
const char *kn_import_list(kn_import *import, const int64_t *numbers, int count);
const char *kn_import_dims_text(kn_import *import, const kn_dim *dims, int count);

/* ---- import.c ------------------------------------------------------------------------------------------ */

/* Makes a name of the file valid and unique in the graph, in the arena. */
const char *kn_import_name(kn_import *import, const char *name);
/* Assigns a name to each initializer (kn_imported.names). */
bool kn_import_name_weights(kn_import *import);
/* The name of the state that an initializer becomes; *made is that state if the graph already has it,
 * otherwise NULL. NULL when out of memory. */
const char *kn_import_weight_name(kn_import *import, const kn_onnx_tensor *tensor, kn_value **made);
/* Builds the initializers, nodes and outputs of a branch or body: outputs[i] is a copy of the item of output
 * i. */
kn_status kn_import_subgraph(kn_import_call *call, const kn_onnx_graph *body, const kn_item *inputs,
                             size_t input_count, kn_item *outputs, size_t output_count);

/* ---- interface.c --------------------------------------------------------------------------------------- */

/* The file's name for the batch dimension, "" if unnamed; NULL: there is no batch. It is the dynamic first
 * dimension of the first input, whatever its name (unless another dimension is called "batch"). If that
 * dimension is fixed, the batch is the first dimension of another input, provided that the first input has it
 * at a later axis or the first output begins with it. */
const char *kn_import_find_batch(const kn_onnx_graph *graph);
/* Adds the inputs of the file's graph: as inputs of the model, or as constants if their values must be known.
 * Sizes are the file's, then those of the caller's settings and arrays. */
kn_status kn_import_add_inputs(kn_import *import);
/* Fails if an input must have an array, but the caller gave none. */
kn_status kn_import_need_arrays(kn_import *import);
/* Checks that each of the caller's settings is a dynamic size of an input. */
kn_status kn_import_check_wanted(const kn_import *import);
/* The array that the caller passed under a name that no input has; NULL if there is none. */
const kn_model_given *kn_import_given(const kn_import *import, const char *name);
/* The item of such an array: a constant, or without elements an input of the model. */
kn_status kn_import_take_array(kn_import *import, const kn_model_given *given, kn_item *item);
/* Replaces a result of the file's graph by the array that the caller gave for it. */
void kn_import_take_given(kn_import *import, const char *name, kn_item *item);
/* Adds an output of the file's graph, which a node, an input or an initializer defines. */
kn_status kn_import_add_output(kn_import *import, const kn_onnx_value_info *output);
/* Adds an output under this name. */
kn_status kn_import_add_result(kn_import *import, const char *name, kn_item *item);

/* ---- texts.c ------------------------------------------------------------------------------------------- */

/* The constant for strings, with their numbers as elements: int64. */
kn_value *kn_import_texts(kn_import *import, const kn_onnx_string *strings, const int64_t *shape, int rank);
/* Fails unless the node's inputs of strings are those that its row allows. *found: some are of strings. */
kn_status kn_import_check_texts(kn_import_call *call, bool *found);

/* ---- order.c ------------------------------------------------------------------------------------------- */

/* Sorts the nodes topologically, including those of bodies; nodes that are already sorted keep their order. A
 * cycle is a failure that names a node. */
bool kn_import_sort(kn_import *import, const kn_onnx_node *nodes, size_t count);

/* ---- unshare.c ----------------------------------------------------------------------------------------- */

/* Gives each parameter and statistic a separate initializer if exporters merged equal ones. */
bool kn_import_unshare(kn_import *import);

/* ---- trainable.c --------------------------------------------------------------------------------------- */

/* The program's signature from PyTorch's exporter. kinds: name in the program ("lin.weight") -> "PARAMETER",
 * "BUFFER", …; targets: name that nodes read ("p_lin_weight") -> name in the program. */
typedef struct kn_signature {
    kn_map kinds, targets;
} kn_signature;
/* Empty if the file has none. False when out of memory; it must be finished even then. */
bool kn_signature_read(kn_import *import, kn_signature *signature);
void kn_signature_finish(kn_signature *signature);
/* The value of a key; NULL if there is none. */
const char *kn_import_pair(const kn_text_pair *pairs, size_t count, const char *key);
/* Decides which initializers of the file's graph are trainable (`trainable` of kn_imported); its nodes must
 * be sorted. */
bool kn_import_decide_trainable(kn_import *import);
/* NULL if the tensor is not an initializer of the file's graph. */
const kn_trainability *kn_import_trainability(const kn_imported *imported, const kn_onnx_tensor *tensor);
/* Adds to the model's list of weights why states are trained, and the initializers that are not states. */
bool kn_import_list_weights(kn_model *model);

/* ---- items (item.c) ------------------------------------------------------------------------------------ */

/* The value of an item, created if necessary; 16-bit floats become float32. */
kn_value *kn_item_value(kn_import *import, kn_item *item);
/* The item as a running statistic of a batch norm, which is not trained. NULL, without a failure, if it is
 * not an initializer (C) of finite floating-point numbers, or is already used otherwise. */
kn_value *kn_item_statistic(kn_import *import, kn_item *item);
/* The shape of an item, without creating its value. */
kn_shape kn_item_shape(kn_import *import, kn_item *item);
/* The shape of input `i`, which must be given. */
kn_shape kn_import_input_shape(kn_import_call *call, int i);
/* The value of input `i`, which must be given. */
kn_value *kn_import_in(kn_import_call *call, int i);
/* The value of input `i`; NULL if it is left out. */
kn_value *kn_import_optional(kn_import_call *call, int i);
static inline kn_status kn_import_status(const kn_import_call *call) {
    return kn_graph_status(call->graph);
}
/* The failed value, which has rank 0. */
static inline kn_value *kn_import_failed(const kn_import_call *call) {
    return &call->graph->failed;
}
static inline bool kn_import_has(const kn_import_call *call, int i) {
    return i < call->input_count && call->inputs[i];
}
/* Whether a later node or the caller uses output i; -1 is none. */
static inline bool kn_import_wants(const kn_import_call *call, int i) {
    return i >= 0 && i < call->output_count && *call->outputs[i].name;
}
/* Reads the values of input i, which must be known. A failure names the input. */
kn_status kn_import_known(kn_import_call *call, int i, kn_tensor_info *info, const void **data);
/* The type of input i in the file. */
kn_dtype kn_import_dtype(const kn_import_call *call, int i);
/* The bits of its elements if fewer than those of the type; otherwise 0. */
int kn_import_bits(const kn_import_call *call, int i);
/* The type and bits of an element type of the file; false if Koine does not support it. */
bool kn_item_type(kn_onnx_type type, kn_dtype *dtype, int *bits);
/* Sets output `i`, unless the node has fewer. The type in the file is that of the value, or that of a 16-bit
 * input computed in float32. */
kn_status kn_import_put(kn_import_call *call, int i, kn_value *value);
kn_status kn_import_put_as(kn_import_call *call, int i, kn_value *value, kn_dtype dtype);
/* Reads input i as integers that may contain symbols; count NULL: exactly `most` of them. A failure names the
 * input, leaves the integers as they are and sets *count to 0. */
kn_status kn_import_dims(kn_import_call *call, int i, kn_dim *dims, int most, int *count);
/* kn_import_dims without symbols. */
kn_status kn_import_integers(kn_import_call *call, int i, int64_t *numbers, int most, int *count);
/* kn_import_integers for numbers of any type. */
kn_status kn_import_numbers(kn_import_call *call, int i, double *numbers, int most, int *count);
/* An input of one element; `usual` if it is left out. */
int64_t kn_import_input_integer(kn_import_call *call, int i, int64_t usual);
double kn_import_input_number(kn_import_call *call, int i, double usual);
/* An input that is a scalar, or has one element and one axis, as a scalar; NULL if it is left out. */
kn_value *kn_import_input_scalar(kn_import_call *call, int i);
/* The elements of an item if they are known before the model runs: *info and, in row-major order, *data, in
 * the arena of the graph or the model. False without a failure if not. */
bool kn_item_known(kn_import *import, kn_item *item, kn_tensor_info *info, const void **data);
/* Whether the values of an item are known; constants are read now. */
bool kn_item_sized(kn_import *import, kn_item *item);
/* The item with known integer values: a copy if the item is a constant of one element of a floating-point
 * type, which itself stays unchanged. NULL if they are not known. */
kn_item *kn_item_integers(kn_import *import, kn_item *item);

/* ---- attributes (item.c) ------------------------------------------------------------------------------- */

const kn_onnx_attribute *kn_import_attribute(const kn_import_call *call, const char *name);
/* An attribute of a different kind is a failure of the node. */
int64_t kn_import_int(const kn_import_call *call, const char *name, int64_t usual);
double kn_import_float(const kn_import_call *call, const char *name, double usual);
/* In the arena, cut off at a zero byte; `usual` if it is not given. */
const char *kn_import_string(const kn_import_call *call, const char *name, const char *usual);
/* Returns the count, -1 if not given; more than `most` is a failure. */
int kn_import_ints(kn_import_call *call, const char *name, int64_t *numbers, int most);

/* ---- for builders (item.c) ----------------------------------------------------------------------------- */

/* An axis, counted from the end if it is negative; 0 if it is out of range. */
int kn_import_axis(const kn_import_call *call, int64_t number, int rank);
kn_value *kn_import_scalar(kn_import *import, kn_dtype dtype, double number);
/* A constant with elements in row-major order. */
kn_value *kn_import_constant(kn_import *import, kn_dtype dtype, const void *data, const int64_t *dims,
                             int rank);
/* x reshaped to `dims`. */
kn_value *kn_import_reshape(kn_import *import, kn_value *x, const kn_dim *dims, int rank);
kn_value *kn_import_broadcast(kn_import *import, kn_value *x, const kn_dim *dims, int rank);
/* x converted to a type; x itself if it has that type. */
kn_value *kn_import_cast(kn_value *x, kn_dtype dtype);
/* x converted to a type of kn_is_small_float, by the node's attributes `saturate` and `round_mode` or their
 * defaults. */
kn_value *kn_import_small(kn_import_call *call, kn_value *x, kn_dtype dtype);
kn_value *kn_import_slice(kn_import *import, kn_value *x, int axis, int64_t begin, int64_t end, int64_t step);
/* Counts negative bounds from the end and limits them, as ONNX does: with a negative step, begin to [0,
 * size-1] and end to [-1, size-1]. */
void kn_import_slice_bounds(int64_t size, int64_t step, int64_t *begin, int64_t *end);
/* 0, 1, …, count - 1 as int32; count may be dynamic. */
kn_value *kn_import_range(kn_import *import, kn_dim count);

/* alpha * a b + beta * c, with the inputs and attributes of the node (layers.c). */
kn_value *kn_import_gemm(kn_import_call *call);
/* A layer norm (layers.c): over all axes of x from `axis` on. */
typedef struct kn_import_norm {
    kn_value *scale, *bias; /* the bias may be NULL */
    int axis;
    double epsilon;
    bool rms;            /* divide by the root mean square, without subtracting the mean */
    int mean, deviation; /* outputs of the node for the mean and 1 / deviation; -1: none */
} kn_import_norm;
/* The norm of x along its last axis, as one node; scale and bias are (size), and rms norms have no bias. */
kn_value *kn_import_normalized_rows(kn_import_call *call, kn_value *x, const kn_import_norm *norm);
/* Sets output 0 to the norm of x, and the other outputs if used. */
kn_status kn_import_put_norm(kn_import_call *call, kn_value *x, const kn_import_norm *norm);
/* x is (N,C,…), normalized by groups of channels; scale and bias are (C). */
kn_value *kn_import_normalized_groups(kn_import_call *call, kn_value *x, kn_value *scale, kn_value *bias,
                                      kn_dim groups, double epsilon);

/* x (…) as a matrix: the axes before `axis`, and the others (shape.c). */
kn_value *kn_import_flatten(kn_import *import, kn_value *x, int axis);
/* (N,…,C) as (N,C,…), and back. */
kn_value *kn_import_channels_second(kn_import *import, kn_value *x);
kn_value *kn_import_channels_last(kn_import *import, kn_value *x);

/* A softmax along the node's attribute axis, as defined by an opset (reduce.c). */
kn_value *kn_import_softmax(kn_import_call *call, kn_value *x, int64_t opset, bool logarithm);
/* A convolution with the attributes of the node (layers.c); bias may be NULL. */
kn_value *kn_import_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias);
/* The convolution of bytes minus their zero points, for lengths and images: float32. whole: adds integers on
 * every device, so that the result is exact up to 24 bits. */
kn_value *kn_import_byte_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *x_zero,
                                     kn_value *weight_zero, bool whole);
/* The same, exact: int32. */
kn_value *kn_import_integer_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *x_zero,
                                        kn_value *weight_zero);

/* ---- quantized numbers (quantized.c) ------------------------------------------------------------- */

/* round(x) + zero, clamped to the type or to `bits`; for small floats x + zero. zero may be NULL. */
kn_value *kn_import_to_quantized(kn_import_call *call, kn_value *x, kn_value *zero, kn_dtype dtype, int bits);
/* x minus the zero point, which may be NULL, in floating point. */
kn_value *kn_import_without_zero(kn_value *x, kn_value *zero, kn_dtype dtype);
/* x as uint8, with a scale and a zero point from the minimum and maximum of x and 0. */
kn_value *kn_import_quantize_dynamically(kn_import_call *call, kn_value *x, kn_value **scale,
                                         kn_value **zero);
/* a (…,M,K) times input b, which is (K,N), or (N,K) if transposed, from the codes of b. NULL if b has no
 * codes that matmul_quantized supports. */
kn_value *kn_import_product_by_codes(kn_import_call *call, kn_value *a, int b, bool transposed);
/* The product of inputs a (…,M,K) and b (…,K,N), or (N,K) if transposed, from the codes of both, if these are
 * bytes, a has one scale, and b has one scale or one per column; otherwise NULL. */
kn_value *kn_import_product_of_bytes(kn_import_call *call, int a, int b, bool transposed);
/* The product of integers minus their zero points, which may be NULL. Sums are int32, or integers in floating
 * point if the integer product does not support the form. */
kn_value *kn_import_integer_product(kn_value *x, kn_value *x_zero, kn_value *y, kn_value *y_zero);

/* ---- integers known during the build (sizes.c) --------------------------------------------------------- */

/* Computes the node's results by `sizes` of its row if the values of all inputs are known; false without a
 * failure if not. Floating-point inputs may be sizes or constants with one element. */
bool kn_sizes_apply(kn_import_call *call);
/* Allocates the values of the first output; NULL if there are too many. */
kn_dim *kn_sizes_take(kn_import_call *call, kn_dtype dtype, int rank, const int64_t *shape);
kn_dim kn_dim_of(kn_graph *graph, int64_t number);
/* Of shapes, whose values need not be known. */
kn_status kn_sizes_shape(kn_import_call *call);
kn_status kn_sizes_size(kn_import_call *call);
bool kn_sizes_cast(kn_import_call *call);
bool kn_sizes_binary(kn_import_call *call);
bool kn_sizes_unary(kn_import_call *call);
bool kn_sizes_where(kn_import_call *call);
bool kn_sizes_gather(kn_import_call *call);
bool kn_sizes_concat(kn_import_call *call);
bool kn_sizes_slice(kn_import_call *call);
bool kn_sizes_reshape(kn_import_call *call);
bool kn_sizes_squeeze(kn_import_call *call);
bool kn_sizes_unsqueeze(kn_import_call *call);
bool kn_sizes_fill(kn_import_call *call);
bool kn_sizes_range(kn_import_call *call);
bool kn_sizes_reduce(kn_import_call *call);

#endif
