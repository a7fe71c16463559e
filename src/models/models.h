/* The door of the models room: networks as texts, as files with weights, and the zoo.
 *
 * A model comes from an origin: a text, a saved file, or another program's file. Those of other programs are
 * read in the room above (exchange), which fills in the table of origins that is declared here. An origin
 * makes the graph and the other fields of kn_model; what it alone needs later it keeps in `origin_data`. */
#ifndef KN_MODELS_DOOR_H
#define KN_MODELS_DOOR_H

#include <koine/model.h>

#include "base/base.h"
#include "formats/formats.h"
#include "graph/graph.h"

enum {
    KN_MODEL_BYTES = 4 << 20, /* of a text */
    KN_MODEL_NAME_BYTES = 64, /* of a name in a text */
    KN_MODEL_OPEN_SIZES = 32,
};

/* How models of one kind of file are opened, loaded, saved and closed. Functions that return false or a
 * status other than KN_OK have set model->error. Those that may be NULL say what that means. */
typedef struct kn_model_origin {
    const char *name;    /* "ONNX" */
    const char *endings; /* of names of its files, separated by spaces: ".prototxt .caffemodel" */
    /* Whether a file is of this kind, by its first bytes. NULL: any file that no other origin recognises. */
    bool (*recognizes)(const uint8_t *bytes, uint64_t count);
    /* Makes the graph, with inputs, outputs and metadata, by `params` of the model. */
    bool (*open)(kn_model *model, const char *path);
    /* Sets states to weights in a file; path NULL: the one that the model was opened from, which has some. */
    kn_status (*load)(kn_model *model, const char *path, kn_states *states,
                      const kn_model_load_params *params, int *loaded);
    /* Writes a model of any origin as a file of this kind. NULL: nothing is written in this form. */
    kn_status (*save)(kn_model *model, const char *path, kn_states *states,
                      const kn_model_save_params *params);
    /* Completes the list of weights (kn_model_add_weight), which has the graph's states. NULL: nothing to
     * add. */
    bool (*list_weights)(kn_model *model);
    /* Releases `origin_data`, which is not NULL. NULL: there is never any. */
    void (*close)(kn_model *model);
} kn_model_origin;

/* Filled in by exchange/table.c; the first that recognizes a file has it, and the last recognizes all. */
extern const kn_model_origin *const kn_model_origins[];
extern const int kn_model_origin_count;
/* Those of this room. */
extern const kn_model_origin kn_text_origin, kn_saved_origin;

typedef struct kn_text_model kn_text_model;

struct kn_model {
    kn_host host;
    kn_arena arena;
    kn_model_params params; /* the caller's, while the model is being made; all zero afterwards */
    kn_status status;       /* of making it */
    kn_error error;         /* of the last call */
    const kn_model_origin *origin;
    void *origin_data;   /* what only the origin knows the type of */
    kn_text_model *text; /* of one that is made of a text (kn_model_read); otherwise NULL */
    const char *source;  /* what messages call the text or file */
    const char *name;
    kn_task task;
    kn_graph *graph;
    kn_value **inputs, **outputs;
    int input_count, output_count;
    const char **input_names, **output_names; /* in the file; NULL: as the values are called */
    bool has_weights;                         /* the file that it was opened from has */
    const kn_text_pair *metadata;             /* of that file */
    size_t metadata_count;
    kn_model_weight *weights; /* the list of them (weights.c) */
    size_t weight_count, weight_capacity;
    struct {
        const char *name;
        bool first;                    /* of an input */
    } open_sizes[KN_MODEL_OPEN_SIZES]; /* but for the batch; also of a model that could not be made */
    int open_size_count;
    bool loss_added;
};

/* Reads a text model and makes its graph. */
bool kn_model_read(kn_model *model, const char *text, size_t bytes);
/* Records that memory is out, unless the model has failed already; answers false. */
bool kn_model_no_memory(kn_model *model);
/* A parameter or a running statistic. */
bool kn_model_is_weight(const kn_value *value);
/* Adds to the list of weights; shape NULL is a failure to get memory for it. */
bool kn_model_add_weight(kn_model *model, const kn_model_weight *weight);

/* Loading, for origins. `owned`: the file is the one that the model was opened from. `complete`: it has all
 * weights of the model, so that a missing one is an error. `path` is for messages. */
typedef struct kn_tensors_from {
    const kn_safetensors *file;
    const char *path;
    bool owned, complete;
} kn_tensors_from;
kn_status kn_model_load_tensors(kn_model *model, const kn_tensors_from *from, kn_states *states,
                                const kn_model_load_params *params, int *loaded);
/* The same from a safetensors file. */
kn_status kn_model_load_file(kn_model *model, const char *path, kn_states *states,
                             const kn_model_load_params *params, int *loaded);
/* Whether bytes look like a safetensors file. */
bool kn_saved_is(const uint8_t *bytes, uint64_t count);

#endif
