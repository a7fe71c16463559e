/* What the files of the exporter share: a graph of Koine, node by node, becomes an ONNX graph that infers. */
#ifndef KN_MODELS_ONNX_EXPORT_H
#define KN_MODELS_ONNX_EXPORT_H

#include <string.h>

#include "models/models_private.h"

enum {
    KN_EXPORT_OPSET = 20, /* the first with Gelu */
    KN_EXPORT_IR = 9,
    KN_EXPORT_MORE = 6, /* nodes and constants that one node may become, at most */
};

typedef struct kn_export {
    kn_model *model;
    kn_states *states;
    kn_arena arena;
    kn_onnx_node *nodes;
    size_t node_count, node_capacity;
    kn_onnx_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    int made; /* names so far */
} kn_export;

/* One node of Koine's on its way. */
typedef struct kn_export_call {
    kn_export *export;
    const kn_node *node;
    const char *inputs[KN_MAX_INPUTS]; /* names in the file; NULL for one that is left out */
    const char *output;                /* of the first result */
} kn_export_call;

/* Builds what a row becomes. False: the row, or these attributes, have no counterpart. */
typedef bool (*kn_export_builder)(kn_export_call *call);
/* NULL where there is none. */
kn_export_builder kn_export_find(const kn_operator *row);

/* A node of one output; "" for inputs that are left out, NULL ends them. output NULL: a new name, which is answered. The
 * node, to which attributes are added, is the last of the list. NULL when memory is out. */
const char *kn_export_node(kn_export_call *call, const char *type, const char *output, const char *const *inputs);
#define KN_EXPORT_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Attributes of the node that was made last. */
bool kn_export_int(kn_export_call *call, const char *name, int64_t number);
bool kn_export_float(kn_export_call *call, const char *name, double number);
bool kn_export_ints(kn_export_call *call, const char *name, const int64_t *numbers, size_t count);
bool kn_export_string(kn_export_call *call, const char *name, const char *text);
/* Constants; answer their names. */
const char *kn_export_number(kn_export_call *call, kn_dtype dtype, double number);
const char *kn_export_list(kn_export_call *call, const int64_t *numbers, size_t count);

/* Writes the model's outputs as an ONNX file. */
kn_status kn_export_onnx(kn_model *model, const char *path, kn_states *states, const kn_model_save_params *params);

#endif
