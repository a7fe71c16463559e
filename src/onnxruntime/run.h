/* Runs and their plans. */
#ifndef KN_ORT_RUN_H
#define KN_ORT_RUN_H

#include "onnxruntime/onnxruntime.h"

/* Computes a value that determines the rest of a plan. */
typedef struct ort_stage {
    char *name;      /* of the value in the file */
    kn_model *model; /* computes only the value */
    kn_session *session;
    kn_tensor_info info;
    void *data; /* its elements in the last run */
} ort_stage;

/* The elements of an input that became a constant: of a tensor as they are, strings one after another with
 * their zero bytes; of a sequence or an optional, each tensor after its kn_tensor_info. */
typedef struct ort_constant {
    size_t bytes;
    bool list;
    char data[];
} ort_constant;

struct ort_plan {
    ort_plan *next;
    kn_model *model; /* the session's, or one bound to the inputs; NULL: to be built after the stages */
    kn_session *session;
    ort_stage *stages; /* room for MAX_STAGES; NULL: none */
    bool *known;       /* with stages, for each input: its values determine the graph, too */
    size_t stage_count;
    size_t *outputs, output_count; /* positions in the file */
    kn_tensor_info *infos;         /* of the inputs of the last run; NULL: there was none */
    ort_constant *
        *constants; /* if the model is bound to these inputs, each that became a constant, or NULL */
};

/* The arguments of a run, in the order of the file. */
typedef struct ort_run {
    OrtSession *session;
    const OrtRunOptions *options;
    kn_model_given *inputs;
    size_t *outputs, output_count; /* positions in the file */
    OrtValue **values;             /* of the outputs, as the caller gave them */
    ort_output_memory memory;      /* for the others; `give` NULL: this library allocates it */
} ort_run;

/* Whether both are not NULL, and equal. */
bool ort_is_text(const char *text, const char *other);
/* 0 if they would overflow. */
size_t ort_info_bytes(const kn_tensor_info *info);

/* ---- plan.c ------------------------------------------------------------------------------ */

/* The plan for a run, which becomes the first of the list; the oldest is released if there are too many. */
OrtStatus *ort_find_plan(const ort_run *run, ort_plan **found);
/* How many outputs of the plan's model make up an output of the file: one, or as many as a sequence has
 * tensors. *first: the position of the first. */
size_t ort_plan_parts(const ort_plan *plan, const OrtSession *session, size_t output, size_t *first);
/* The feeds of a model's session, in new memory, with the sizes of its inputs bound. */
OrtStatus *ort_make_feeds(const kn_model *model, kn_session *session, const ort_run *run, kn_feed **out,
                          size_t *count);

#endif
