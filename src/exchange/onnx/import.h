/* What the files of the importer share: an ONNX graph, node by node, becomes a graph of Koine.
 *
 * Each name of the file stands for an item (item.c): a value of the graph, or what is known before there is
 * one: an initializer, or small integers (sizes.c), which may be made of the sizes of inputs and hold
 * symbols. A row of the table (table.c) says how a node of one operator is built; rows stand in a file per
 * family. */
#ifndef KN_EXCHANGE_ONNX_IMPORT_H
#define KN_EXCHANGE_ONNX_IMPORT_H

#include <koine/operators.h>

#include <string.h>

#include "exchange/exchange.h"

/* Limits, since files may be hostile. */
enum {
    KN_IMPORT_NODES = 1 << 18, /* after functions, branches and loops are unrolled */
    KN_IMPORT_DEPTH = 24,      /* of functions, branches and loops inside one another */
    KN_IMPORT_SIZES = 4096,    /* elements of arrays of integers that are known while building */
    KN_IMPORT_KNOWN = 1 << 16, /* numbers that a node may ask to know */
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

/* Whether an initializer is learnt, decided before anything is built. */
typedef struct kn_learnt {
    bool yes;
    const char *why; /* the reason, either way */
} kn_learnt;

/* The domain of ONNX Runtime's own operators, and a row of one. */
#define KN_MICROSOFT "com.microsoft"
#define KN_OF_MICROSOFT(word, function)                                                                      \
    { .type = word, .build = function, .domain = KN_MICROSOFT }

/* What a model from an ONNX file keeps of it: its origin_data. Models that are bound from one that was opened
 * have its file, its names and its parameters. */
typedef struct kn_imported {
    kn_onnx_model *file;
    kn_map *names;          /* of floating-point initializers in the graph, by address, bodies included */
    kn_model_params params; /* those that the file was opened with, whose memory is the root's arena */
    const kn_import_state *states; /* the graph's parameters and statistics */
    size_t state_count;
    const kn_learnt *learnt;             /* by initializer of the file's graph */
    const kn_onnx_node **training_nodes; /* they train in the file, and will only infer once it is saved */
    size_t training_node_count;
} kn_imported;
static inline kn_imported *kn_imported_of(const kn_model *model) {
    return model->origin_data;
}
/* The arena that lives as long as the file. */
static inline kn_arena *kn_imported_arena(kn_model *model) {
    return model->root ? &model->root->arena : &model->arena;
}

/* The matrix of codes that a node dequantizes, so that a product may read them in place of the result. */
typedef struct kn_import_codes {
    kn_value *codes, *scale, *zero; /* zero may be NULL */
    int axis;                       /* along which scale and zero differ; -1: they are scalars */
    int64_t block;                  /* numbers of that axis that share one */
} kn_import_codes;

/* What a name stands for. */
struct kn_item {
    const char *name; /* in the file */
    kn_dtype dtype;   /* in the file; the graph computes with halves as float32 */
    int bits;         /* 4 or 2: of integers below a byte, which take one each; 0: as dtype says */
    kn_value *value;  /* NULL until a node computes with it */
    const kn_onnx_tensor *tensor; /* its elements, where they are in the file */
    bool initializer;             /* a tensor that may be learnt */
    const kn_import_codes *codes; /* of a matrix that is dequantized from the file's; otherwise NULL */
    /* Known integers, as dimensions of the graph: */
    const kn_dim *sizes; /* NULL: none */
    int count;
    int rank; /* of sizes */
    int64_t shape[KN_MAX_RANK];
    const struct kn_model_given *given; /* of an input: the array that the caller gave */
    bool *wanted;                       /* of an input: set when its values must be known */
    kn_item **parts;                    /* of a sequence, or of an optional */
    size_t part_count;
    bool sequence; /* or an optional */
};

/* Names in a function, branch or loop body are looked up in its scope, then in those around it. */
struct kn_import_scope {
    kn_map items; /* by name */
    kn_import_scope *outer;
    const kn_onnx_function *definition; /* of a function, which sees no outer names; NULL for bodies */
    const kn_import_call *call;         /* its node, to whose attributes inner nodes may refer */
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
    bool alone; /* the model has one input */
    const char
        *batch; /* the file's name for the batch dimension, "" if it has none; NULL: there is no batch */
    int depth;
    size_t nodes;            /* built so far */
    bool *wanted;            /* by input of the file: its values must be known */
    bool *taken;             /* by the caller's settings: it is an open size of an input */
    kn_map constants;        /* initializers whose values must be known, by address: they are not trained */
    bool again;              /* another value must be known: build again */
    bool lacks;              /* a value must be known that depends on an input without a given array */
    bool open;               /* an input has an open size */
    kn_import_state *states; /* parameters and statistics, and what they begin with */
    size_t state_count, state_capacity;
    const kn_onnx_node **training; /* nodes that train in the file */
    size_t training_count, training_capacity;
};

/* A floating-point attribute that ONNX's node and Koine's operator both have. */
typedef struct kn_import_number {
    const char *ours, *theirs;
    double usual; /* ONNX's default */
} kn_import_number;
enum { KN_IMPORT_NUMBERS = 2 };

typedef struct kn_import_row {
    const char *type; /* "Conv"; of ONNX's own domain unless `domain` */
    /* Koine's operator with the same meaning, inputs and outputs: the exporter writes it as this node. NULL:
     * none. */
    const char *op;
    kn_import_number numbers[KN_IMPORT_NUMBERS];
    bool (*build)(kn_import_call *call);
    /* Computes its result from known integers; false without a failure: build it. */
    bool (*sizes)(kn_import_call *call);
    kn_value *(*reduce)(kn_value *, const char *, bool);
    const char *domain;
} kn_import_row;
/* The family of pointwise operators (pointwise.c). */
extern const kn_import_row kn_import_pointwise[];
extern const int kn_import_pointwise_count;

/* A node that is being built. */
struct kn_import_call {
    kn_import *import;
    kn_graph *graph;
    const kn_onnx_node *node;
    const kn_import_row *row;
    int64_t opset;
    int input_count, output_count;
    kn_item **inputs; /* NULL for one that is left out */
    kn_item *outputs; /* to be filled in; name "" for one that is not used */
};

const kn_import_row *kn_import_find(const char *domain, const char *type);
/* The row whose `op` this is, or NULL. */
const kn_import_row *kn_import_find_op(const char *op);

/* Prepares the file that the model has opened for building graphs: sorts nodes, finds what is learnt. */
bool kn_import_prepare(kn_model *model);
/* Makes the graph of the file, following model->params. If that takes more than these say, the graph has the
 * inputs only, and the model is unbound. */
bool kn_import_onnx(kn_model *model);
/* Writes the file again with the weights in `states`; NULL: with those of the file. */
kn_status kn_import_save(kn_model *model, const char *path, kn_states *states,
                         const kn_model_save_params *params);

/* ---- import.c ------------------------------------------------------------------------------------------ */

/* Builds nodes in order, in the current scope. */
bool kn_import_nodes(kn_import *import, const kn_onnx_node *nodes, size_t count);
/* Records a failure, prefixed with the node, and returns false. */
bool kn_import_fail(const kn_import_call *call, kn_status status, const char *format, ...) KN_PRINTF(3, 4);
bool kn_import_no_memory(const kn_import *import);
bool kn_import_failed(const kn_import *import);
/* Records that the node trains in the file, and is to be saved in the form for inference. */
bool kn_import_settle(kn_import_call *call);
/* NULL where the scope, and those around it, have no such name. */
kn_item *kn_import_item(const kn_import *import, const char *name);
bool kn_import_define(kn_import *import, const char *name, const kn_item *item);
/* A name of the file made valid and unique in the graph, in the arena. */
const char *kn_import_name(kn_import *import, const char *name);
/* Gives all initializers a name each (kn_imported.names). */
bool kn_import_name_weights(kn_import *import);
/* The name of the state that an initializer becomes; *made is that state if the graph has it already,
 * otherwise NULL. NULL when out of memory. */
const char *kn_import_weight_name(kn_import *import, const kn_onnx_tensor *tensor, kn_value **made);
/* Builds the initializers, nodes and outputs of a branch or body: outputs[i] is a copy of the item of output
 * i. */
bool kn_import_subgraph(kn_import_call *call, const kn_onnx_graph *body, const kn_item *inputs,
                        size_t input_count, kn_item *outputs, size_t output_count);

/* ---- order.c ------------------------------------------------------------------------------------------- */

/* Sorts the nodes topologically, those of bodies included; otherwise they keep their order. A cycle is a
 * failure that names a node. */
bool kn_import_sort(kn_import *import, const kn_onnx_node *nodes, size_t count);

/* ---- apart.c ------------------------------------------------------------------------------------------- */

/* Gives each parameter and statistic a separate initializer, where exporters merged equal ones. */
bool kn_import_take_apart(kn_import *import);

/* ---- learnt.c ------------------------------------------------------------------------------------------ */

/* The signature of the program from PyTorch's exporter: the kind, "PARAMETER", "BUFFER", …, by the name in
 * the program ("lin.weight"), and that name by the one that nodes read ("p_lin_weight"). */
typedef struct kn_signature {
    kn_map kinds, targets;
} kn_signature;
/* Empty where the file has none. False when out of memory; it must be finished even then. */
bool kn_signature_read(kn_import *import, kn_signature *signature);
void kn_signature_finish(kn_signature *signature);
/* The value of a key; NULL where there is none. */
const char *kn_import_pair(const kn_onnx_pair *pairs, size_t count, const char *key);
/* Decides which initializers of the file's graph, whose nodes are sorted, are learnt: `learnt` of
 * kn_imported. */
bool kn_import_find_learnt(kn_import *import);
/* NULL for a tensor that is no initializer of the file's graph. */
const kn_learnt *kn_import_learnt(const kn_imported *imported, const kn_onnx_tensor *tensor);
/* Adds to the model's list of weights why states are trained, and the initializers that are not states. */
bool kn_import_list_weights(kn_model *model);

/* ---- items (item.c) ------------------------------------------------------------------------------------ */

/* The value of an item, made now if necessary; halves as float32. NULL after a failure. */
kn_value *kn_item_value(kn_import *import, kn_item *item);
/* The item as a running statistic of a batch norm, which is not learnt. NULL, without a failure, where it is
 * not an initializer (C) of finite floating-point numbers, or is used as something else already. */
kn_value *kn_item_statistic(kn_import *import, kn_item *item);
/* The shape of an item, without making its value. False after a failure. */
bool kn_item_shape(kn_import *import, kn_item *item, kn_shape *shape);
/* Input `i` in the graph: NULL where it is left out or has failed. */
kn_value *kn_import_in(kn_import_call *call, int i);
/* The same, with `false` after a failure alone. */
bool kn_import_maybe(kn_import_call *call, int i, kn_value **value);
static inline bool kn_import_has(const kn_import_call *call, int i) {
    return i < call->input_count && call->inputs[i];
}
/* Whether a later node, or the caller, asks for output i; -1 is none. */
static inline bool kn_import_wants(const kn_import_call *call, int i) {
    return i >= 0 && i < call->output_count && *call->outputs[i].name;
}
/* The type of input i in the file. */
kn_dtype kn_import_dtype(const kn_import_call *call, int i);
/* The bits of its elements, where they are fewer than those of the type; otherwise 0. */
int kn_import_bits(const kn_import_call *call, int i);
/* The type and bits of an element type of the file; false where Koine has no such type. */
bool kn_item_type(kn_onnx_type type, kn_dtype *dtype, int *bits);
/* Sets output `i`; false when the value has failed. The type in the file is that of the value, or that of a
 * half input computed in float32. */
bool kn_import_put(kn_import_call *call, int i, kn_value *value);
bool kn_import_put_as(kn_import_call *call, int i, kn_value *value, kn_dtype dtype);
/* Input i as integers that may hold symbols; count NULL: exactly `most`. False after a failure, which says
 * what the numbers are for. */
bool kn_import_dims(kn_import_call *call, int i, kn_dim *dims, int most, int *count);
/* The same without symbols. */
bool kn_import_whole(kn_import_call *call, int i, int64_t *numbers, int most, int *count);
/* The same for numbers of any type. */
bool kn_import_numbers(kn_import_call *call, int i, double *numbers, int most, int *count);
/* The elements of an item, if they are known before the model runs: *info and, row-major, *data, in the arena
 * of the graph or the model. False without a failure if not. */
bool kn_item_known(kn_import *import, kn_item *item, kn_tensor_info *info, const void **data);

/* ---- attributes (item.c) ------------------------------------------------------------------------------- */

const kn_onnx_attribute *kn_import_attribute(const kn_import_call *call, const char *name);
/* An attribute of another kind is a failure of the node. */
int64_t kn_import_int(const kn_import_call *call, const char *name, int64_t usual);
double kn_import_float(const kn_import_call *call, const char *name, double usual);
/* In the arena, cut off at a zero byte; `usual` when it is not given. */
const char *kn_import_string(const kn_import_call *call, const char *name, const char *usual);
/* Returns how many there are, -1 when it is not given; more than `most` is a failure. */
int kn_import_ints(kn_import_call *call, const char *name, int64_t *numbers, int most);

/* ---- for builders (item.c) ----------------------------------------------------------------------------- */

/* "1,2,3" in the arena, never NULL. */
const char *kn_import_list(kn_import *import, const int64_t *numbers, int count);
const char *kn_import_dims_text(kn_import *import, const kn_dim *dims, int count);
/* Makes an axis non-negative; false after a failure. */
bool kn_import_axis(kn_import_call *call, int64_t number, int rank, int *axis);
/* The same for an input that is a scalar. */
bool kn_import_axis_input(kn_import_call *call, int input, int rank, int *axis);
kn_value *kn_import_scalar(kn_import *import, kn_dtype dtype, double number);
/* x with other dimensions. */
kn_value *kn_import_reshape(kn_import *import, kn_value *x, const kn_dim *dims, int rank);
kn_value *kn_import_broadcast(kn_import *import, kn_value *x, const kn_dim *dims, int rank);
/* x converted to another type; x itself where it has that type. */
kn_value *kn_import_cast(kn_value *x, kn_dtype dtype);
/* x converted to a type of kn_is_small_float, by the node's `saturate` and `round_mode`, or as they are left
 * out. */
kn_value *kn_import_small(kn_import_call *call, kn_value *x, kn_dtype dtype);
kn_value *kn_import_slice(kn_import *import, kn_value *x, int axis, int64_t begin, int64_t end, int64_t step);
/* 0, 1, …, count - 1 as int32; count may be open. */
kn_value *kn_import_counted(kn_import *import, kn_dim count);

/* alpha * a b + beta * c, with the inputs and attributes of the node (layers.c). NULL after a failure. */
kn_value *kn_import_gemm(kn_import_call *call);
/* A norm of layers (layers.c): over all axes of x from `axis` on. */
typedef struct kn_import_norm {
    kn_value *scale, *bias; /* the bias may be NULL */
    int axis;
    double epsilon;
    bool rms;            /* divides by the root mean square, and subtracts no mean */
    int mean, deviation; /* the outputs of the node that have the mean and 1 / deviation; -1: none */
} kn_import_norm;
/* The norm of x along its last axis, as one node: the scale, and the bias of what is no rms, are (size). */
kn_value *kn_import_normalized_rows(kn_import_call *call, kn_value *x, const kn_import_norm *norm);
/* Output 0: the norm of x, which may have failed; and its other outputs, where they are used. */
bool kn_import_put_norm(kn_import_call *call, kn_value *x, const kn_import_norm *norm);
/* x (N,C,…) with groups of channels normalized; scale and bias are (C). */
kn_value *kn_import_normalized_groups(kn_import_call *call, kn_value *x, kn_value *scale, kn_value *bias,
                                      kn_dim groups, double epsilon);

/* (N,…,C) as (N,C,…), and back. */
kn_value *kn_import_channels_second(kn_import *import, kn_value *x);
kn_value *kn_import_channels_last(kn_import *import, kn_value *x);

/* A softmax with the attribute axis of the node, as an opset defines it (reduce.c). */
kn_value *kn_import_softmax(kn_import_call *call, kn_value *x, int64_t opset, bool logarithm);
/* A convolution with the attributes of the node (layers.c); bias may be NULL. */
kn_value *kn_import_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *bias);
/* The same for bytes, minus their zero points, of lengths and images: int32. */
kn_value *kn_import_whole_convolution(kn_import_call *call, kn_value *x, kn_value *weight, kn_value *x_zero,
                                      kn_value *weight_zero);

/* ---- quantized numbers (quantized.c) --------------------------------------------------------------------
 */

/* round(x) + zero, clamped to the type, or to so many bits; x + zero as a small floating-point number. zero
 * may be NULL. */
kn_value *kn_import_to_quantized(kn_import_call *call, kn_value *x, kn_value *zero, kn_dtype dtype, int bits);
/* x minus the zero point, which may be NULL, in floating point; NULL after a failure. */
kn_value *kn_import_without_zero(kn_value *x, kn_value *zero, kn_dtype dtype);
/* x as uint8, with a scale and a zero point from the minimum and maximum of x and 0. */
kn_value *kn_import_measured(kn_import_call *call, kn_value *x, kn_value **scale, kn_value **zero);
/* a (…,M,K) times input b, (K,N), or (N,K) that is transposed, by the codes of b. NULL where it has none that
 * matmul_quantized takes. */
kn_value *kn_import_product_by_codes(kn_import_call *call, kn_value *a, int b, bool transposed);
/* The product of integers minus their zero points, which may be NULL. The sums are int32, or, where the
 * integer product does not take this form, integers in floating point. */
kn_value *kn_import_whole_product(kn_value *x, kn_value *x_zero, kn_value *y, kn_value *y_zero);

/* ---- integers while building (sizes.c) ------------------------------------------------------------ */

/* Whether the values of an item are known; those of a constant are read now. */
bool kn_item_sized(kn_import *import, kn_item *item);
/* The item with known whole values, which a copy has where the item is a constant of one element of a
 * floating-point type: the item itself must stay what it is. NULL where they are not known, or after a
 * failure. */
kn_item *kn_item_whole(kn_import *import, kn_item *item);
/* Computes the node's results by `sizes` of its row, if the values of all inputs are known; false without a
 * failure if not. Among sizes in a floating-point type, constants of one element count. */
bool kn_sizes_apply(kn_import_call *call);
/* Allocates an output's values; NULL after a failure, or where there are too many. */
kn_dim *kn_sizes_take(kn_import_call *call, int output, kn_dtype dtype, int rank, const int64_t *shape);
kn_dim kn_dim_of(kn_graph *graph, int64_t number);
bool kn_sizes_shape(kn_import_call *call);
bool kn_sizes_size(kn_import_call *call);
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
