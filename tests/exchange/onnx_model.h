/* Small ONNX models from short descriptions, for the tests of the importer. */
#ifndef KN_TESTS_ONNX_MODEL_H
#define KN_TESTS_ONNX_MODEL_H

#include "exchange_tests.h"

#include "../formats/onnx_bytes.h"

/* Element types as numbered by the format. */
enum { ONNX_FLOAT = 1, ONNX_UINT8 = 2, ONNX_INT64 = 7, ONNX_BOOL = 9, ONNX_FLOAT16 = 10 };

typedef struct onnx_graph {
    made bytes;
} onnx_graph;

/* shape as "batch,3,-1"; "" is a scalar. */
void onnx_input(onnx_graph *graph, const char *name, int type, const char *shape);
/* Without a type, or with metadata. */
void onnx_output(onnx_graph *graph, const char *name);
void onnx_output_as(onnx_graph *graph, const char *name, int type, const char *shape);
/* An initializer with the elements first, first + 1, … */
void onnx_floats(onnx_graph *graph, const char *name, const char *shape, float first);
/* A list of integers, "1,-1", as an initializer. */
void onnx_integers(onnx_graph *graph, const char *name, const char *numbers);
/* Metadata of a value under a key, and of the graph. */
void onnx_says(onnx_graph *graph, const char *name, const char *key, const char *says);
void onnx_graph_says(onnx_graph *graph, const char *key, const char *says);
/* A node, and its metadata. */
void onnx_node_says(onnx_graph *graph, const char *type, const char *inputs, const char *outputs,
                    const char *key, const char *says);
/* type may have a domain, "com.microsoft:Gelu". inputs and outputs are separated by commas; attributes as
 * "axis=1 alpha=0.5f perm=0:2:1 mode='edge'". A body is the attribute with the given name, such as
 * "then_branch". */
void onnx_node(onnx_graph *graph, const char *type, const char *inputs, const char *outputs,
               const char *attributes);
void onnx_node_with(onnx_graph *graph, const char *type, const char *inputs, const char *outputs,
                    const char *body_name, const onnx_graph *body, const char *other_name,
                    const onnx_graph *other, const char *attributes);
/* Writes the model to a file in a new folder and opens it. The file may be removed once the model is
 * destroyed. */
kn_model *onnx_open(const onnx_graph *graph, const kn_model_params *params);
/* The same for a model that must be valid. */
kn_model *onnx_right(const onnx_graph *graph, const kn_model_params *params);
/* Building its graph at opening must fail with exactly this message after the file's name. */
void onnx_refused(const onnx_graph *graph, const kn_model_params *params, const char *message);
/* Output `position`, which depends on constants only, computed on the host: its elements as "1 2.5 -3". */
void onnx_gives(kn_model *model, int position, const char *shape, const char *numbers);

#endif
