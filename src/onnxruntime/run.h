/* Runs and their plans. */
#ifndef KN_ORT_RUN_H
#define KN_ORT_RUN_H

#include "onnxruntime/onnxruntime.h"

struct ort_plan {
    ort_plan *next;
    kn_runner *runner;
    kn_model *model; /* the runner's, which it has built for `builds` */
    uint64_t builds;
    kn_session *session;
    size_t *outputs, output_count; /* positions in the file */
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
/* The feeds of the plan's session, in new memory, with the sizes of its inputs bound. */
OrtStatus *ort_make_feeds(const ort_plan *plan, const ort_run *run, kn_feed **out, size_t *count);

#endif
