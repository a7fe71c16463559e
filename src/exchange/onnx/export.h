/* Shared by the files of the exporter: a Koine graph is written, node by node, as an ONNX graph for
 * inference. */
#ifndef KN_EXCHANGE_ONNX_EXPORT_H
#define KN_EXCHANGE_ONNX_EXPORT_H

#include <string.h>

#include "exchange/exchange.h"

enum {
    KN_EXPORT_OPSET = 20, /* the first with Gelu */
    KN_EXPORT_IR = 9,
    KN_EXPORT_MORE = 40, /* maximum number of nodes and constants that one node may become */
};

typedef struct kn_export {
    kn_model *model;
    kn_states *states;
    kn_arena arena;
    kn_onnx_node *nodes;
    size_t node_count, node_capacity;
    kn_onnx_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    const bool *needed; /* by value id: the outputs need it */
    int made;           /* number of names generated so far */
} kn_export;

/* A Koine node that is being written. */
typedef struct kn_export_call {
    kn_export *export;
    const kn_node *node;
    const char *inputs[KN_MAX_INPUTS]; /* names in the file; NULL if left out */
    const char *output;                /* name of the first result */
} kn_export_call;

/* Writes the nodes for an operator. False: the operator, or its attributes, have no ONNX counterpart. */
typedef bool (*kn_export_builder)(kn_export_call *call);
typedef struct kn_export_row {
    const char *name;
    kn_export_builder build;
} kn_export_row;
extern const kn_export_row kn_export_sequences[], kn_export_gathers[];
extern const int kn_export_sequences_count, kn_export_gathers_count;
/* NULL if the operator has no counterpart. */
kn_export_builder kn_export_find(const kn_operator *row);
/* The value to write for one that a node reads: the state itself if norms share running statistics. */
const kn_value *kn_export_read(const kn_value *value);
/* Collects the values that the nodes written for a node read, at most KN_MAX_INPUTS; returns the count. */
int kn_export_reads(const kn_node *node, const kn_value **reads);

/* Adds a tensor, of which data holds the elements in native byte order, in the arena; they are converted in
 * place. trainable: always an initializer. */
bool kn_export_add_tensor(kn_export *export, const char *name, kn_dtype dtype, int rank, const int64_t *shape,
                          void *data, bool trainable);
/* Adds a node with one output. Inputs end with NULL; "" is a left-out input. output NULL: a new name. Returns
 * the name of the output; NULL when out of memory. The functions for attributes apply to this node. */
const char *kn_export_node(kn_export_call *call, const char *type, const char *output,
                           const char *const *inputs);
#define KN_EXPORT_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* kn_export_node for one input and for two; NULL if an input is NULL because an earlier call failed. */
static inline const char *kn_export_one(kn_export_call *call, const char *type, const char *output,
                                        const char *x) {
    return x ? kn_export_node(call, type, output, KN_EXPORT_INPUTS(x)) : NULL;
}
static inline const char *kn_export_two(kn_export_call *call, const char *type, const char *output,
                                        const char *x, const char *y) {
    return x && y ? kn_export_node(call, type, output, KN_EXPORT_INPUTS(x, y)) : NULL;
}
/* A new name. */
const char *kn_export_name(kn_export_call *call);
/* Sets the outputs of the last node. */
bool kn_export_results(kn_export_call *call, const char *const *names, size_t count);
/* Attributes of the last node. */
bool kn_export_int(kn_export_call *call, const char *name, int64_t number);
bool kn_export_float(kn_export_call *call, const char *name, double number);
bool kn_export_ints(kn_export_call *call, const char *name, const int64_t *numbers, size_t count);
bool kn_export_string(kn_export_call *call, const char *name, const char *text);
bool kn_export_strings(kn_export_call *call, const char *name, const char *const *texts, size_t count);
/* Constants; these return their names. Floating-point constants with axes become Constant nodes, since a
 * reader of the file would train an initializer; that node then is the last node. */
const char *kn_export_number(kn_export_call *call, kn_dtype dtype, double number);
const char *kn_export_list(kn_export_call *call, const int64_t *numbers, size_t count);
/* data is in the arena of the export and is converted in place. */
const char *kn_export_tensor(kn_export_call *call, kn_dtype dtype, int rank, const int64_t *shape,
                             void *data);
/* Sizes as int64 (count). Dynamic sizes are computed from a value in the file that has them; NULL if none
 * has. */
const char *kn_export_sizes(kn_export_call *call, const kn_dim *dims, int count);

/* Writes the model's outputs as an ONNX file. */
kn_status kn_export_onnx(kn_model *model, const char *path, kn_states *states,
                         const kn_model_save_params *params);

#endif
