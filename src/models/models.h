/* Public to other modules: networks as texts, as files with weights, and the zoo.
 *
 * A model comes from an origin: a text, a saved file, or another program's file. The module above (exchange)
 * reads files of other programs and defines the table of origins declared here. An origin creates the graph
 * and the other fields of kn_model; private data goes to `origin_data`. */
#ifndef KN_MODELS_DOOR_H
#define KN_MODELS_DOOR_H

#include <koine/model.h>

#include "base/base.h"
#include "formats/formats.h"
#include "graph/graph.h"

enum {
    KN_MODEL_BYTES = 4 << 20, /* a text */
    KN_MODEL_NAME_BYTES = 64, /* a name in a text */
    KN_MODEL_OPEN_SIZES = 32,
};

/* How models of one kind of file are opened, loaded, saved and closed. A function that returns false or a
 * status other than KN_OK has set model->error. */
typedef struct kn_model_origin {
    const char *name;    /* "ONNX" */
    const char *endings; /* file extensions, separated by spaces: ".prototxt .caffemodel" */
    /* Whether a file is of this kind, judging by its first bytes. NULL: the origin accepts any file that no
     * other origin recognizes. */
    bool (*recognizes)(const uint8_t *bytes, uint64_t count);
    bool folders; /* models of this origin are folders, not files */
    /* Creates the graph, inputs, outputs and metadata, following model->params. */
    bool (*open)(kn_model *model, const char *path);
    /* The same for a file in memory, which stays there until the model is closed; `folder`, NULL for none,
     * has its other files. NULL: files of this kind are not opened from memory. */
    bool (*open_memory)(kn_model *model, const uint8_t *bytes, uint64_t count, const char *folder);
    /* Builds the graph of `model` for these inputs, from the file that model->root was opened from. NULL:
     * models of this origin are always bound. */
    bool (*bind)(kn_model *model, const kn_model_given *given, size_t given_count);
    /* Sets states from a file with weights; path NULL: from the file that the model was opened from. NULL:
     * kn_model_load_file. */
    kn_status (*load)(kn_model *model, const char *path, kn_states *states,
                      const kn_model_load_params *params, int *loaded);
    /* Writes a model of any origin as a file of this kind. NULL: there is no writer. */
    kn_status (*save)(kn_model *model, const char *path, kn_states *states,
                      const kn_model_save_params *params);
    /* Completes the list of weights, which already has the graph's states (kn_model_add_weight). NULL: there
     * is nothing to add. */
    bool (*list_weights)(kn_model *model);
    /* Releases `origin_data`, which is not NULL. NULL: the origin has none. */
    void (*close)(kn_model *model);
} kn_model_origin;

/* Defined in exchange/table.c. Origins are asked in this order; the last accepts any file. */
extern const kn_model_origin *const kn_model_origins[];
extern const int kn_model_origin_count;
/* The origins of this module. */
extern const kn_model_origin kn_text_origin, kn_saved_origin;

/* ---- adapters (adapt.c) -------------------------------------------------------------------------- */

/* An adapted linear layer: a is (rank,inputs), b (units,rank). */
typedef struct kn_adapted {
    const char *layer; /* "blk0.attn_q" */
    int64_t inputs, units;
    kn_value *a, *b;
} kn_adapted;

typedef struct kn_adapter {
    int64_t rank;
    double alpha, scale, dropout; /* scale: of the adapters' results */
    bool rank_stabilized;
    kn_adapted *layers; /* in the order of the graph */
    size_t layer_count;
} kn_adapter;

/* The factor of an adapter's results. */
double kn_adapter_scale(const kn_adapter_params *params);
/* Whether a linear layer gets an adapter. last: its result is an output, perhaps after pointwise nodes. */
typedef bool (*kn_adapter_wanted)(void *user, const char *layer, bool last);
/* Adds adapters to all linear layers that `wanted` selects; without any, the model is unchanged. False with
 * the model's error set. params are complete. */
bool kn_model_adapt_where(kn_model *model, const kn_adapter_params *params, kn_adapter_wanted wanted,
                          void *user);

/* How an adapter's file says where a language model has the rows of q and k: " order=alternating" between the
 * halves of a head, as in GGUF files of Llama, whose rotations pair adjacent elements, or " order=halves". ""
 * for other models. */
const char *kn_model_row_order(const kn_model *model);

typedef struct kn_text_model kn_text_model;

/* What the graph of an ONNX file computes. */
typedef enum kn_file_part {
    KN_PART_WHOLE = 0, /* the outputs */
    KN_PART_VALUE,     /* only the value `only` */
    /* What the loop that computes `only` reads: the number of iterations and the condition, if it has them,
     * the initial values of its variables, and other values that its body reads. */
    KN_PART_BEFORE_LOOP,
    /* One iteration of that loop. Its outputs are those of the body; values given without elements (the
     * number of the iteration, the variables, and what the body reads) are inputs. */
    KN_PART_ITERATION,
} kn_file_part;

/* A loop in the file's graph. The strings are the file's. */
typedef struct kn_loop {
    bool has_count, has_condition;
    int variables, scans; /* scans: outputs that are stacked */
    const char *const
        *names; /* of the body's inputs: the number of the iteration, the condition, variables */
    const char *const *outputs; /* of the node: variables, scans; "" if it is not used */
} kn_loop;

struct kn_model {
    kn_host host;
    kn_arena arena;
    kn_model_params params; /* the caller's params while the model is created; zero afterwards */
    kn_status status;       /* the result of creating the model */
    kn_error error;         /* the error of the last call */
    const kn_model_origin *origin;
    void *origin_data;   /* private to the origin */
    kn_model *root;      /* the opened model that this one was bound from; otherwise NULL */
    int users;           /* of a root: number of models bound from it, plus 1 until it is destroyed */
    bool unbound;        /* see kn_model_bound */
    const char *missing; /* see kn_model_missing_value */
    bool missing_loop;   /* `missing` is the first result of a loop, which must be run */
    kn_file_part part;   /* what the graph computes */
    const char *only;    /* the name in the file of a value, for `part`; NULL: the whole */
    const kn_loop *loop; /* of a part of a loop; otherwise NULL */
    kn_text_model *text; /* of a model made from a text (kn_model_read); otherwise NULL */
    const char *source;  /* name of the text or file in messages */
    const char *name;
    kn_task task;
    kn_graph *graph;
    kn_value **inputs, **outputs;
    int input_count, output_count;
    const char **input_names, **output_names; /* names in the file; NULL: same as the values */
    bool has_weights;                         /* the file that the model was opened from has weights */
    const kn_text_pair *metadata;             /* the metadata of that file */
    size_t metadata_count;
    const kn_gguf *gguf;      /* the file that the model was opened from, if it is one; otherwise NULL */
    kn_model_weight *weights; /* all weights, for kn_model_weight_at (weights.c) */
    size_t weight_count, weight_capacity;
    struct {
        const char *name;
        bool first;                    /* whether it is the first dimension of an input */
    } open_sizes[KN_MODEL_OPEN_SIZES]; /* without the batch; also filled in if opening failed */
    int open_size_count;
    bool loss_added;
    const char **texts; /* the strings of the graph, by their numbers */
    size_t text_count;
    const bool *output_texts; /* by output: it is one of strings; NULL: none is */
    kn_adapter *adapter;      /* NULL: none */
    kn_value *first;          /* the input of kn_model_pack, once it was needed; NULL: it was not */
    bool packed;
};

/* kn_model_bind for a part of the graph. Besides arrays for inputs, `given` has arrays for values that the
 * graph computes: with elements they are constants, without elements they are inputs of the part. */
kn_model *kn_model_bind_part(kn_model *model, kn_file_part part, const char *only,
                             const kn_model_given *given, size_t given_count);
/* Reads a text model and creates its graph. */
bool kn_model_read(kn_model *model, const char *text, size_t bytes);
/* KN_OK if the graph of the model is built; otherwise records why `function` cannot use the model. */
kn_status kn_model_need_bound(kn_model *model, const char *function);
/* Records KN_ERROR_MEMORY, unless the model has already failed. Always returns false. */
bool kn_model_no_memory(kn_model *model);
/* Whether the value is a parameter or a running statistic. */
bool kn_model_is_weight(const kn_value *value);
/* Appends to the list of weights. A NULL shape means that allocating it failed: returns false. */
bool kn_model_add_weight(kn_model *model, const kn_model_weight *weight);

/* Where kn_model_load_tensors reads weights from. `owned`: the file that the model was opened from.
 * `complete`: the file must have all weights of the model. `path` is for messages. A tensor
 * whose array is float32 and has no bytes is in quantized blocks, which `blocks` describes, or without
 * `blocks` is written to `to` by `widen`. */
typedef struct kn_tensors_from {
    const kn_safetensors *file;
    const char *path;
    bool owned, complete;
    kn_file_blocks (*blocks)(const void *user, const kn_safetensor *tensor);
    void (*widen)(void *user, const kn_safetensor *tensor, void *to);
    void *user;
} kn_tensors_from;
kn_status kn_model_load_tensors(kn_model *model, const kn_tensors_from *from, kn_states *states,
                                const kn_model_load_params *params, int *loaded);
/* Opens a safetensors file, checks its checksum and loads it. */
kn_status kn_model_load_file(kn_model *model, const char *path, kn_states *states,
                             const kn_model_load_params *params, int *loaded);
/* Whether bytes look like a safetensors file. */
bool kn_saved_is(const uint8_t *bytes, uint64_t count);

#endif
